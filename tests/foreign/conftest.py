"""The fixtures of this suite: a place for each test's processes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "python"), str(ROOT / "tests" / "guide")]

from places import Place, _worker_place, run_dir  # noqa: E402

__all__ = ["_worker_place", "run_dir"]


@pytest.fixture
def place() -> Iterator[Place]:
    """A place of the test's own."""
    made = Place()
    yield made
    made.close()
