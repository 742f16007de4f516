"""`make install`: what lies where, and that pkg-config and CMake lead programs to it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from kit import HEADER, PROGRAMS, ROOT, Home, Kit, run
from places import install

CMAKE = """
cmake_minimum_required(VERSION 3.16)
project(user C)
find_package(Forebay 0.1 REQUIRED)
add_executable(shared {programs}/data.c)
target_link_libraries(shared Forebay::forebay)
add_executable(static {programs}/data.c)
target_link_libraries(static Forebay::forebay_static)
if(NOT EXISTS "${{Forebay_COMMAND}}")
  message(FATAL_ERROR "no command at ${{Forebay_COMMAND}}")
endif()
"""


def files(folder: Path) -> list[str]:
    """The files and links below a folder."""
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_symlink() or p.is_file())


# What forebay.hpp takes in.
PARTS = (
    "arguments",
    "arrays",
    "attributes",
    "bags",
    "calls",
    "futures",
    "groups",
    "run",
    "server",
    "snapshots",
    "tables",
    "watch",
)
# What programs take in that `forebay cc` translated.
DIRECTIVES = [f"include/forebay/directives{part}.h" for part in ("", "_c", "_cxx")]


def test_everything_lies_in_its_place_under_its_names(kit: Kit) -> None:
    # What is for Fortran has a suite of its own.
    found = [name for name in files(kit.prefix) if "ortran" not in name]
    assert found == [
        "bin/forebay",
        "include/forebay.h",
        "include/forebay.hpp",
        *sorted([*(f"include/forebay/{name}.hpp" for name in PARTS), *DIRECTIVES]),
        "lib/cmake/Forebay/ForebayConfig.cmake",
        "lib/cmake/Forebay/ForebayConfigVersion.cmake",
        "lib/libforebay.a",
        "lib/libforebay.so",
        "lib/libforebay.so.0",
        "lib/libforebay.so.0.1.0",
        "lib/pkgconfig/forebay.pc",
        "share/doc/forebay/LICENSE-APACHE",
        "share/doc/forebay/LICENSE-MIT",
        "share/doc/forebay/THIRD-PARTY",
    ]
    notices = (kit.prefix / "share" / "doc" / "forebay" / "THIRD-PARTY").read_text()
    assert all(word in notices for word in ("Copyright 2006 by The HDF Group", "rustls-webpki", "uplot"))
    library = kit.prefix / "lib" / "libforebay.so"
    assert os.readlink(library) == "libforebay.so.0"
    assert os.readlink(kit.prefix / "lib" / "libforebay.so.0") == "libforebay.so.0.1.0"
    assert "[libforebay.so.0]" in run("readelf", "-d", library)
    assert (kit.prefix / "include" / "forebay.h").read_text() == HEADER.read_text()
    assert run(kit.prefix / "bin" / "forebay", "--version").startswith("forebay ")
    for shipped in (library, kit.prefix / "bin" / "forebay"):
        assert ".debug_info" not in run("readelf", "-SW", shipped)


def test_pkg_config_leads_a_program_to_the_library(kit: Kit, home: Home, tmp_path: Path) -> None:
    # As a person types it, in a shell.
    line = f"cc {PROGRAMS}/data.c $(pkg-config --cflags --libs forebay) -o shared"
    run("sh", "-ec", line, env=kit.env, cwd=tmp_path)
    assert home.run(tmp_path / "shared", tmp_path / "a.fb") == "done\n"
    assert run("pkg-config", "--modversion", "forebay", env=kit.env) == "0.1.0\n"


def test_a_program_without_any_shared_library_works(kit: Kit, home: Home, tmp_path: Path) -> None:
    line = f"cc -static {PROGRAMS}/data.c $(pkg-config --static --cflags --libs forebay) -o static"
    run("sh", "-ec", line, env=kit.env, cwd=tmp_path)
    assert home.run(tmp_path / "static", tmp_path / "a.fb") == "done\n"


def test_cmake_finds_both_libraries(kit: Kit, home: Home, tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(CMAKE.format(programs=PROGRAMS))
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={kit.prefix}")
    run("cmake", "--build", tmp_path / "build")
    for name in ("shared", "static"):
        assert home.run(tmp_path / "build" / name, tmp_path / f"{name}.fb") == "done\n"
    assert "libforebay.so.0 =>" in run("ldd", tmp_path / "build" / "shared")


def test_cmake_refuses_a_version_that_is_not_there(kit: Kit, tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        CMAKE.format(programs=PROGRAMS).replace("Forebay 0.1", "Forebay 9.0")
    )
    words = ["cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={kit.prefix}"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0 and "9.0" in done.stderr and "0.1.0" in done.stderr


def test_a_package_is_staged_under_destdir_and_may_have_blanks_in_its_place(kit: Kit, tmp_path: Path) -> None:
    stage, prefix = tmp_path / "the stage", "/opt/for me"
    install(prefix, DESTDIR=str(stage))
    assert files(stage / "opt" / "for me") == files(kit.prefix)
    described = (stage / "opt" / "for me" / "lib" / "pkgconfig" / "forebay.pc").read_text()
    assert f"prefix={prefix.replace(' ', chr(92) + ' ')}\n" in described
    assert "rpath" not in described and str(stage) not in described
    # Where it lies it works as well: CMake's files find the rest beside them.
    moved = Kit(stage / "opt" / "for me", tmp_path)
    (tmp_path / "CMakeLists.txt").write_text(CMAKE.format(programs=PROGRAMS))
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={moved.prefix}")


def test_a_place_that_cannot_be_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for prefix, said in (("somewhere/else", "is not an absolute path"), (f"{tmp_path}/file/x", "is a file")):
        words = ["make", "--no-print-directory", "install", f"PREFIX={prefix}"]
        env = {**os.environ, "FOREBAY_BUILT": "1"}
        done = subprocess.run(
            words, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode != 0 and said in done.stderr and prefix.split("/x")[0] in done.stderr
