"""The fixtures of this suite: those of tests/c, and the compiler."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "c"))
sys.path.insert(0, str(HERE))

_spec = importlib.util.spec_from_file_location("fixtures_of_c", HERE.parent / "c" / "conftest.py")
assert _spec is not None and _spec.loader is not None
_fixtures = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_fixtures)
kit, home, agent, run_path = _fixtures.kit, _fixtures.home, _fixtures.agent, _fixtures.run_path

from fortran_kit import Fortran, Kit  # noqa: E402


@pytest.fixture(scope="session")
def fortran(kit: Kit) -> Fortran:
    """The compiler and the installed module."""
    return Fortran(kit)
