"""A store that is lost while its ranks live: whoever waits is told, and nothing acknowledged is lost."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from conftest import until

SECONDS = 20.0


@contextlib.contextmanager
def taken(path: Path) -> Iterator[None]:
    """Another owner takes the run: the one there is waits for its turn, and may write nothing more then."""
    catalog = sqlite3.connect(path / "catalog.sqlite", isolation_level=None)
    with contextlib.closing(catalog):
        catalog.execute("BEGIN IMMEDIATE")
        catalog.execute("UPDATE fb_run SET value = '1000000' WHERE key = 'fence'")
        yield
        catalog.execute("COMMIT")


def take(run: fb.Run, step: int) -> fb.Snapshot:
    """A snapshot of one array."""
    with run.snapshot(step) as snapshot:
        snapshot.put("x", np.full(1000, float(step)))
    return snapshot


@pytest.mark.usefixtures("owner")
def test_whoever_waits_for_a_store_that_is_lost_is_told_and_the_run_opens_again(tmp_path: Path) -> None:
    path = tmp_path / "lost.fb"
    run = fb.open(path, "w", late="ignore")
    take(run, 0).wait()
    began = time.monotonic()
    with ThreadPoolExecutor() as pool:
        with taken(path):
            last = take(run, 1)
            waits = [pool.submit(run.flush), pool.submit(last.wait), pool.submit(run.rename, "a", "b")]
            until(lambda: all(wait.running() for wait in waits), what="the requests")
        for wait in waits:
            error = wait.exception(SECONDS)
            assert isinstance(error, fb.ServerLost), repr(error)
            assert "lost" in str(error)
    with pytest.raises(fb.ServerLost, match="lost"):
        run.put("a", 1)
    with pytest.raises(fb.ServerLost, match="lost"):
        run.close()
    assert time.monotonic() - began < SECONDS
    with fb.open(path, "a") as again:
        assert list(again.snapshots.numbers) == [0, 1]
        assert again.snapshots.at(1)["x"][0] == 1.0
