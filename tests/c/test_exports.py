"""What the library shows of itself: the functions of the header, and nothing of what is inside it."""

from __future__ import annotations

from pathlib import Path

import pytest
from kit import C99, PROGRAMS, Home, Kit, functions, run


def names(*command: str | Path) -> set[str]:
    """The names that nm lists."""
    lines = run("nm", *command).splitlines()
    return {words[-1] for line in lines if len(words := line.split()) >= 2 and not line.endswith(":")}


def test_the_shared_library_exports_the_functions_of_the_header_only(kit: Kit) -> None:
    exported = names("-D", "--defined-only", kit.prefix / "lib" / "libforebay.so")
    assert exported == set(functions())


def test_the_static_library_exports_the_functions_of_the_header_only(kit: Kit) -> None:
    archive = kit.prefix / "lib" / "libforebay.a"
    assert names("-g", "--defined-only", archive) == set(functions())
    wanted = names("-u", archive)
    assert [name for name in wanted if name.startswith(("H5", "sqlite3", "_ZN", "_R"))] == []


@pytest.mark.parametrize("static", [False, True], ids=["shared", "static"])
def test_a_program_with_the_same_names_inside_works(
    kit: Kit, home: Home, run_path: Path, static: bool
) -> None:
    program = kit.compile(PROGRAMS / "own_names.c", static=static)
    assert home.run(program, run_path) == "done\n"


@pytest.mark.parametrize("static", [False, True], ids=["shared", "static"])
def test_a_program_with_another_hdf5_writes_with_both(
    kit: Kit, home: Home, run_path: Path, tmp_path: Path, static: bool
) -> None:
    theirs = kit.flags("--cflags", "--libs", package="hdf5")
    program = kit.compile(PROGRAMS / "own_hdf5.c", *theirs, static=static)
    loaded = run("ldd", program)
    assert "libhdf5" in loaded and ("libforebay" in loaded) == (not static)
    assert home.run(program, run_path, tmp_path / "own.h5") == "done\n"


def test_the_static_library_works(kit: Kit, home: Home, run_path: Path) -> None:
    for name in ("data", "snapshots"):
        program = kit.compile(PROGRAMS / f"{name}.c", static=True)
        assert "libforebay" not in run("ldd", program)
        assert home.run(program, run_path.with_name(f"{name}.fb"), PATH=f"{kit.prefix}/bin:/bin") == "done\n"


def test_a_program_may_load_the_library_and_let_go_of_it(kit: Kit, home: Home, run_path: Path) -> None:
    source, made = PROGRAMS / "loaded.c", kit.folder / "loaded"
    run("cc", *C99, *kit.flags("--cflags"), source, "-ldl", "-o", made)
    assert home.run(made, kit.prefix / "lib" / "libforebay.so.0", run_path) == "done\n"
