"""The example of libraries in Fortran: it prints what it prints in Python."""

from __future__ import annotations

from fortran_kit import ROOT, Fortran, Home, run

EXAMPLE = ROOT / "examples" / "02_blas"


def test_the_example_solves_a_linear_system(fortran: Fortran, home: Home) -> None:
    for name in ("blas", "lapack"):
        home.start(fortran.kit.prefix / "bin" / "forebay", "serve", "--idl", EXAMPLE / f"{name}.fbi")
    words = fortran.kit.flags("--cflags", "--libs", package="forebay-fortran")
    made = fortran.folder / "solve"
    run(
        "gfortran",
        "-std=f2018",
        "-Wall",
        "-Wextra",
        "-Werror",
        EXAMPLE / "fortran" / "solve.f90",
        *words,
        "-o",
        made,
    )
    assert home.run(made) == (EXAMPLE / "output.txt").read_text()
