"""SIGTERM under launchers of MPI: all ranks end at one step, and the next start goes on as if nothing had been."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import forebay as fb
import pytest
from conftest import Mpi, pids
from places import Place
from walks import MANY, WALKER, await_loops, check_alike

RANKS = 4
MORE = 40

# Open MPI gives ranks so many seconds between SIGTERM and SIGKILL, one by default; it waits as long in any case.
GRACE = {"OMPI_MCA_odls_base_sigkill_timeout": "4"}


def start(place: Place, mpi: Mpi, run_dir: Path, steps: int | str, pause: float) -> subprocess.Popen[str]:
    words = mpi.command(RANKS, sys.executable, WALKER, run_dir, str(steps), str(pause))
    return place.start(*words, env={**place.env, **GRACE})


def finish(job: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """What the ranks said at their ends, by rank, and what the launcher's status was."""
    out, err = job.communicate(timeout=60)
    said = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    assert len(said) == RANKS, out + err
    return sorted(said, key=lambda line: line["rank"])


@pytest.mark.parametrize("whom", ["one rank", "the launcher and all ranks"])
def test_sigterm_ends_all_ranks_at_one_step_and_the_run_goes_on_to_the_bit(
    place: Place, tmp_path: Path, mpi: Mpi, whom: str
) -> None:
    hurt, calm = tmp_path / "hurt.fb", tmp_path / "calm.fb"
    job = start(place, mpi, hurt, MANY, 0.002)
    await_loops(hurt, RANKS)
    ranks = pids(place, "walker.py")
    assert len(ranks) == RANKS
    victims = ranks[2:3] if whom == "one rank" else [*ranks, job.pid]
    for pid in victims:
        os.kill(pid, signal.SIGTERM)
    said = finish(job)
    at = said[0]["at"]
    assert [(line["at"], line["ended_by"]) for line in said] == [(at, "SIGTERM")] * RANKS
    if whom == "one rank":
        assert job.returncode == 0
    with fb.open(hurt, "r") as run:
        assert run.snapshots.numbers[-1] == at, "Save kept the state before the step that was not computed"
        assert [(c.step, c.tag) for c in run.checkpoints] == [(at, "SIGTERM")]
    assert [line["start"] for line in finish(start(place, mpi, hurt, at + MORE, 0))] == [at] * RANKS
    finish(start(place, mpi, calm, at + MORE, 0))
    check_alike(hurt, calm, at + MORE)
