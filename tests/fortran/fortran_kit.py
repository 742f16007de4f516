"""The Fortran module as `make install` puts it, and programs compiled against it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "c"))

from kit import ROOT, Home, Kit, compiled, forebay_cc, run  # noqa: E402

__all__ = ["FORTRAN", "PROGRAMS", "ROOT", "STRICT", "Fortran", "Home", "Kit", "compiled", "forebay_cc", "run"]

PROGRAMS = HERE / "programs"
FORTRAN = ROOT / "bindings" / "fortran"
# What a careful user compiles with.
STRICT = ["-std=f2018", "-Wall", "-Wextra", "-Werror", "-g"]
CHECKED = ["-fcheck=all,no-array-temps", "-ffpe-trap=invalid,zero,overflow"]


class Fortran:
    """The compiler, and what pkg-config tells it of the installed module."""

    def __init__(self, kit: Kit) -> None:
        self.kit = kit
        self.folder = kit.folder / "fortran"
        self.folder.mkdir(exist_ok=True)

    def words(self, sources: list[Path], made: Path, *flags: str) -> list[str | Path]:
        """The command that compiles a program; `check.f90` comes first."""
        own = self.kit.flags("--cflags", "--libs", package="forebay-fortran")
        modules = self.folder / f"{made.name}.modules"
        modules.mkdir(exist_ok=True)
        all_sources = [PROGRAMS / "check.f90", *sources]
        return ["gfortran", *STRICT, *flags, "-J", modules, *all_sources, *own, "-o", made]

    def compile(self, *sources: Path, name: str = "", plain: bool = False) -> Path:
        """Compiles a program, with all checks of the compiler unless `plain`."""
        made = self.folder / (name or sources[-1].stem + ("_plain" if plain else ""))
        if not made.exists():
            run(*self.words(list(sources), made, *([] if plain else CHECKED)))
        return made

    def refuses(self, source: Path) -> str:
        """What the compiler says of a program that it must not accept."""
        words = self.words([source], self.folder / "refused", "-fsyntax-only")
        done = subprocess.run(
            [str(w) for w in words], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode != 0, f"{source} was accepted"
        return done.stderr
