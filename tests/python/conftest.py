"""The fixtures of this suite: places to live in (see `places.py`)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from places import EXAMPLE, ROOT, Place, _worker_place, forebay_exe, run_dir, until

__all__ = ["EXAMPLE", "ROOT", "Place", "_worker_place", "forebay_exe", "run_dir", "until"]


@pytest.fixture
def place() -> Iterator[Place]:
    """A place of the test's own, for tests with processes."""
    made = Place()
    yield made
    made.close()
