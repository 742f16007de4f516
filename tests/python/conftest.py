"""The fixtures of this suite: places to live in (see `places.py`)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from places import EXAMPLE, ROOT, Place, forebay_exe, until

__all__ = ["EXAMPLE", "ROOT", "Place", "forebay_exe", "until"]


@pytest.fixture(scope="session", autouse=True)
def _worker_place() -> Iterator[Place]:
    """What the tests of one worker share that run in its own process."""
    place = Place()
    os.environ.update(place.variables)
    yield place
    place.close()


@pytest.fixture
def place() -> Iterator[Place]:
    """A place of the test's own, for tests with processes."""
    made = Place()
    yield made
    made.close()


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """Where the test's run is."""
    return tmp_path / "test.fb"
