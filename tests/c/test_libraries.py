"""The example of libraries in C and C++: it prints what it prints in Python."""

from __future__ import annotations

from kit import ROOT, Home, Kit, run

EXAMPLE = ROOT / "examples" / "02_blas"


def test_the_example_solves_a_linear_system(kit: Kit, home: Home) -> None:
    for name in ("blas", "lapack"):
        home.start(kit.prefix / "bin" / "forebay", "serve", "--idl", EXAMPLE / f"{name}.fbi")
    words = kit.flags("--cflags", "--libs")
    for source, compiler in (("solve.c", ["cc", "-std=c99"]), ("solve.cpp", ["c++", "-std=c++17"])):
        made = kit.folder / source.replace(".", "_")
        warnings = ["-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror"]
        run(*compiler, *warnings, EXAMPLE / "c" / source, *words, "-o", made)
        assert home.run(made) == (EXAMPLE / "output.txt").read_text()
