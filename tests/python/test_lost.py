"""A store that is lost while its ranks live: whoever waits is told, and nothing acknowledged is lost."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from owners import taken
from places import until

SECONDS = 20.0


def take(run: fb.Run, step: int) -> fb.Snapshot:
    """A snapshot of one array."""
    with run.snapshot(step) as snapshot:
        snapshot.put("x", np.full(1000, float(step)))
    return snapshot


def lose(where: str, path: Path) -> None:
    """A program whose store is lost while it waits: it hears so everywhere, and ends."""
    run = fb.open(where, "w", late="ignore")
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


def test_whoever_waits_for_a_store_that_is_lost_is_told_and_the_run_opens_again(
    owner: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    path = tmp_path / "lost.fb"
    where = request.getfixturevalue("an_agent").url(path) if owner == "remote" else str(path)
    program = subprocess.run([sys.executable, __file__, where, str(path)], capture_output=True, text=True)
    assert program.returncode == 0, program.stderr
    with fb.open(path, "a") as again:
        assert list(again.snapshots.numbers) == [0, 1]
        assert again.snapshots.at(1)["x"][0] == 1.0


if __name__ == "__main__":
    lose(sys.argv[1], Path(sys.argv[2]))
