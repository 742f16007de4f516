"""Openings of a run whose owner dies, or lives elsewhere, while ranks are on their way to it."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from conftest import Place
from far import Agent
from places import ended, until

RANK = """
import sys, numpy, forebay
where, mode = sys.argv[1:]
with forebay.open(where, mode) as run:
    run.restart()
    with run.snapshot(1) as s:
        s.put("x", numpy.full(1000, 1.0), offset=(1000 * run.rank,), shape=(1000 * run.size,))
print("kept")
"""


@contextlib.contextmanager
def kept_waiting(run_dir: Path) -> Iterator[None]:
    """Whoever opens the run meanwhile waits for its catalog."""
    catalog = sqlite3.connect(run_dir / "catalog.sqlite", isolation_level=None)
    catalog.execute("pragma locking_mode = exclusive")
    catalog.execute("begin immediate")
    try:
        yield
    finally:
        catalog.execute("rollback")
        catalog.close()


def is_at_it(process: int, run_dir: Path) -> bool:
    """Whether a process has the catalog of the run open."""
    with contextlib.suppress(OSError):
        return any(
            os.readlink(entry) == str(run_dir / "catalog.sqlite")
            for entry in Path(f"/proc/{process}/fd").iterdir()
        )
    return False


def agents(place: Place) -> list[int]:
    """The agents of a place."""
    return [int(p.split(":")[0]) for p in place.processes() if " up" in p]


@pytest.mark.parametrize("ranks", [1, 4])
def test_an_opening_whose_agent_dies_before_it_answers_is_asked_again_of_the_next_one(
    place: Place, run_dir: Path, ranks: int
) -> None:
    with fb.open(run_dir) as run, run.snapshot(0) as s:
        s.put("x", np.zeros(4))
    place.command("up")
    (agent,) = agents(place)
    began = time.monotonic()
    with kept_waiting(run_dir):
        started = place.ranks(ranks, sys.executable, "-c", RANK, run_dir, "a")
        until(lambda: is_at_it(agent, run_dir), what="the agent to open the run")
        os.kill(agent, signal.SIGKILL)
        until(lambda: agent not in agents(place), what="its end")
    for process in started:
        out, _ = ended(process, 0, 60)
        assert out == "kept\n"
    assert time.monotonic() - began < 30, "nobody waited for ranks that will not come"
    with fb.open(run_dir, "r") as run:
        assert run.snapshots.numbers == [0, 1]
        assert (run.snapshots.at(1)["x"] == np.full(1000 * ranks, 1.0)).all()
    # Which clears away what the killed one left.
    place.command("up")


def test_an_opening_on_another_host_whose_agent_dies_before_it_answers_is_asked_again(
    agent: Agent, tmp_path: Path
) -> None:
    path = tmp_path / "far.fb"
    with fb.open(path) as run, run.snapshot(0) as s:
        s.put("x", np.zeros(4))
    with kept_waiting(path):
        rank = agent.place.python(RANK, agent.url(path), "a")
        until(lambda: is_at_it(agent.pid, path), what="the agent to open the run")
        agent.kill()
        agent.up()
    out, _ = ended(rank, 0, 60)
    assert out == "kept\n"
    with fb.open(path, "r") as run:
        assert run.snapshots.numbers == [0, 1]
