"""What `make install` gives Fortran: pkg-config, CMake and fpm lead programs to the module."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from fortran_kit import FORTRAN, PROGRAMS, Home, Kit, run
from places import install

CMAKE = """
cmake_minimum_required(VERSION 3.16)
project(user C Fortran)
find_package(Forebay 0.1 REQUIRED COMPONENTS Fortran)
add_executable(user {programs}/check.f90 {programs}/handles.f90)
target_link_libraries(user Forebay::fortran)
"""
FPM = """
name = "user"
[dependencies]
forebay = {{ path = "{forebay}" }}
[[executable]]
name = "user"
source-dir = "app"
main = "handles.f90"
"""
# What fpm would fetch by is shut: git, and a proxy where nobody listens.
NO_NETWORK = {
    "GIT_ALLOW_PROTOCOL": "none",
    "ALL_PROXY": "http://127.0.0.1:9",
    "https_proxy": "http://127.0.0.1:9",
}


def test_the_module_its_sources_and_its_library_lie_in_their_places(kit: Kit) -> None:
    assert (kit.prefix / "lib" / "forebay" / "fortran" / "forebay.mod").exists()
    assert (kit.prefix / "lib" / "libforebay_fortran.a").exists()
    for source in (FORTRAN / "src").iterdir():
        assert (kit.prefix / "share" / "forebay" / "fortran" / "src" / source.name).exists()
    described = (kit.prefix / "lib" / "pkgconfig" / "forebay-fortran.pc").read_text()
    assert "Fortran" in described and "@" not in described


def test_pkg_config_leads_a_program_to_the_module(kit: Kit, home: Home, tmp_path: Path) -> None:
    sources = f"{PROGRAMS}/check.f90 {PROGRAMS}/handles.f90"
    line = f"gfortran {sources} $(pkg-config --cflags --libs forebay-fortran) -o handles"
    run("sh", "-ec", line, env=kit.env, cwd=tmp_path)
    assert home.run(tmp_path / "handles", tmp_path / "a.fb") == "done\n"


def test_cmake_builds_the_module_with_the_compiler_of_the_project(
    kit: Kit, home: Home, tmp_path: Path
) -> None:
    (tmp_path / "CMakeLists.txt").write_text(CMAKE.format(programs=PROGRAMS))
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={kit.prefix}")
    run("cmake", "--build", tmp_path / "build", "--parallel", "2")
    assert home.run(tmp_path / "build" / "user", tmp_path / "a.fb") == "done\n"


def test_fpm_builds_a_project_elsewhere_with_the_module_and_without_a_network(
    kit: Kit, home: Home, tmp_path: Path
) -> None:
    package = os.path.relpath(kit.prefix / "share" / "forebay" / "fortran", tmp_path)
    (tmp_path / "fpm.toml").write_text(FPM.format(forebay=package))
    (tmp_path / "app").mkdir()
    for name in ("check.f90", "handles.f90"):
        shutil.copy(PROGRAMS / name, tmp_path / "app")
    c_flags = ["-std=c11", "-D_POSIX_C_SOURCE=200809L", *kit.flags("--cflags")]
    run(
        "fpm",
        "install",
        "--prefix",
        tmp_path / "out",
        "--c-flag",
        " ".join(c_flags),
        "--link-flag",
        " ".join(kit.flags("--libs")),
        cwd=tmp_path,
        env={**os.environ, **NO_NETWORK, "HOME": str(tmp_path)},
    )
    assert home.run(tmp_path / "out" / "bin" / "user", tmp_path / "a.fb") == "done\n"


def test_without_a_fortran_compiler_the_sources_alone_are_installed(tmp_path: Path) -> None:
    said = install(tmp_path / "prefix", FC="no-such-compiler")
    assert "there is no gfortran" in said
    assert (tmp_path / "prefix" / "share" / "forebay" / "fortran" / "src" / "forebay.f90").exists()
    assert not (tmp_path / "prefix" / "lib" / "libforebay_fortran.a").exists()


def test_a_package_may_have_blanks_in_its_place_and_compiles_without_a_warning(tmp_path: Path) -> None:
    stage, prefix = tmp_path / "the stage", "/opt/for me"
    install(prefix, DESTDIR=str(stage), FFLAGS="-Werror", CFLAGS="-Werror")
    described = (stage / "opt" / "for me" / "lib" / "pkgconfig" / "forebay-fortran.pc").read_text()
    assert "prefix=/opt/for\\ me\n" in described
