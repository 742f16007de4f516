"""Ranks that talk to each other through nothing: under launchers of MPI, and as plain processes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
import pytest
from conftest import ROOT, TIED, Mpi, latest, pids
from disks import fill, small_disk
from places import Place, ended, until

RANK = Path(__file__).with_name("rank.py")
CLOSER = ROOT / "tests" / "python" / "closer.py"
TOLD = 8.0  # seconds until others are told: 2 are promised, and a busy machine gets more
MANY = 20_000  # steps: more than any test waits for, and yet an end


def start_plain(place: Place, ranks: int, *words: str | Path) -> list[subprocess.Popen[str]]:
    """Plain processes that are ranks by their environment."""
    return place.ranks(ranks, sys.executable, RANK, *words)


def finish(*processes: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """What the ranks said at their ends, by rank."""
    lines = [line for process in processes for line in ended(process)[0].splitlines()]
    said = [json.loads(line) for line in lines if line.startswith("{")]
    return sorted(said, key=lambda line: line["rank"])


def check_steps(path: Path, steps: list[int], ranks: Callable[[int], int]) -> None:
    """Each step is complete, in one file, and was put by so many ranks."""
    with fb.open(path, "r") as run:
        assert run.snapshots.numbers == steps
        for kept in run.snapshots:
            assert kept.time == 0.5 * kept.step
            np.testing.assert_array_equal(kept["E"], np.arange(1000.0) + kept.step)
            particles = [np.full(10 + r, r + kept.step, float) for r in range(ranks(kept.step))]
            np.testing.assert_array_equal(kept["x"], np.concatenate(particles))
    assert len(list((path / "steps").iterdir())) == len(steps)
    total, own = points(path)
    # Going back to a step takes its points back.
    with_points = [step for step in steps if step in {point[0] for point in total}]
    assert len(with_points) >= len(steps) - 3
    assert total == [(step, 0.5 * step, float(step)) for step in with_points]
    assert own == [(step, 0.5 * step, 0.0) for step in with_points], "the value of the lowest rank"


def points(path: Path) -> list[list[tuple[int, float, float]]]:
    """The points of the two curves: what all ranks give is kept once, alike or not."""
    rows = "SELECT step, t, value FROM fb_points WHERE curve = ? ORDER BY step, value"
    with contextlib.closing(sqlite3.connect(path / "catalog.sqlite")) as catalog:
        return [list(catalog.execute(rows, [curve])) for curve in (0, 1)]


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_ranks_under_a_launcher_make_one_complete_file_a_step(
    place: Place, run_dir: Path, mpi: Mpi, ranks: int
) -> None:
    said = finish(place.start(*mpi.command(ranks, sys.executable, RANK, run_dir, 20, 0)))
    assert [(line["rank"], line["size"], line["done"]) for line in said] == [
        (rank, ranks, 20) for rank in range(ranks)
    ]
    check_steps(run_dir, list(range(20)), lambda _: ranks)


def test_a_run_goes_on_on_any_number_of_ranks(place: Place, run_dir: Path, mpi: Mpi) -> None:
    counts = {5: 2, 10: 4, 15: 1, 20: 3}
    for steps, ranks in counts.items():
        finish(place.start(*mpi.command(ranks, sys.executable, RANK, run_dir, steps, 0)))
    check_steps(run_dir, list(range(20)), lambda step: counts[step // 5 * 5 + 5])


def test_plain_processes_are_ranks_by_their_environment(place: Place, run_dir: Path) -> None:
    said = finish(*start_plain(place, 3, run_dir, 20, 0))
    assert [line["size"] for line in said] == [3, 3, 3]
    check_steps(run_dir, list(range(20)), lambda _: 3)


def steer_through(place: Place, run_dir: Path) -> None:
    """Everything that people do to a run, one after the other, while ranks drift apart."""
    until(lambda: latest(run_dir) >= 5, 30, "step 5")
    place.command("steer", run_dir, "set", "amp", "0.5")
    place.command("steer", run_dir, "stop")
    before = latest(run_dir)
    place.command("steer", run_dir, "step", "3")
    place.command("steer", run_dir, "set", "amp", "0.25")
    place.command("steer", run_dir, "run")
    until(lambda: latest(run_dir) >= before + 10, 30, "ten more steps")
    place.command("steer", run_dir, "set", "amp", "-1")
    place.command("steer", run_dir, "quit")


def check_steered(said: list[dict[str, Any]], run_dir: Path) -> None:
    assert len({json.dumps(line["changes"]) for line in said}) == 1, said
    assert [value for _, value in said[0]["changes"][:2]] == [0.5, 0.25]
    assert len({line["done"] for line in said}) == 1
    check_steps(run_dir, list(range(said[0]["done"])), lambda _: len(said))


def test_acts_take_place_at_the_same_step_on_plain_processes_that_drift(place: Place, run_dir: Path) -> None:
    ranks = start_plain(place, 3, run_dir, MANY, 0.002)
    steer_through(place, run_dir)
    check_steered(finish(*ranks), run_dir)


def test_acts_take_place_at_the_same_step_on_ranks_of_a_launcher_that_drift(
    place: Place, run_dir: Path, mpi: Mpi
) -> None:
    job = place.start(*mpi.command(4, sys.executable, RANK, run_dir, MANY, 0.002))
    steer_through(place, run_dir)
    check_steered(finish(job), run_dir)


def acknowledged(run_dir: Path) -> int:
    """The last step that all of four ranks were told is kept."""
    return min(int.from_bytes(Path(f"{run_dir}.{rank}").read_bytes(), "little") for rank in range(4))


def check_goes_on(said: list[dict[str, Any]], run_dir: Path, kept: int) -> None:
    """Two ranks went on from the last step that four were told is kept, or a later one, and took six more."""
    start = said[0]["start"]
    assert start >= kept >= 10
    assert [(line["start"], line["done"]) for line in said] == [(start, 7)] * 2
    check_steps(run_dir, list(range(start + 7)), lambda step: 4 if step <= start else 2)


def test_when_one_of_four_plain_ranks_is_killed_the_others_are_told_and_the_next_start_goes_on(
    place: Place, run_dir: Path
) -> None:
    ranks = start_plain(place, 4, run_dir, MANY, 0.002)
    until(lambda: latest(run_dir) >= 10, 30, "step 10")
    ranks[2].kill()
    begin = time.monotonic()
    for rank in (0, 1, 3):
        _, err = ranks[rank].communicate(timeout=20)
        assert ranks[rank].returncode == 1
        assert "ServerLost" in err and f"rank 2 of 4 is gone (process {ranks[2].pid})" in err
    assert time.monotonic() - begin < TOLD
    kept = acknowledged(run_dir)
    check_goes_on(finish(*start_plain(place, 2, run_dir, "+6", 0)), run_dir, kept)


@pytest.mark.parametrize("how", ["SIGKILL to a rank", "SIGTERM to the launcher"])
def test_a_job_that_is_ended_keeps_what_was_acknowledged(
    place: Place, run_dir: Path, mpi: Mpi, how: str
) -> None:
    job = place.start(*mpi.command(4, sys.executable, RANK, run_dir, MANY, 0.002))
    until(lambda: latest(run_dir) >= 10, 30, "step 10")
    if how == "SIGKILL to a rank":
        os.kill(pids(place, "rank.py")[-1], signal.SIGKILL)
    else:
        job.send_signal(signal.SIGTERM)
    job.communicate(timeout=30)
    # A launcher that passes SIGTERM on may see its ranks end in order.
    assert job.returncode != 0 or how == "SIGTERM to the launcher"
    until(lambda: not pids(place, "rank.py"), 20, "the end of all ranks")
    kept = acknowledged(run_dir)
    check_goes_on(finish(place.start(*mpi.command(2, sys.executable, RANK, run_dir, "+6", 0))), run_dir, kept)


def test_a_job_that_is_ended_while_its_ranks_close_on_a_full_disk_keeps_what_was_acknowledged(
    place: Place, tmp_path: Path, mpi: Mpi
) -> None:
    with small_disk(tmp_path / "disk") as disk:
        ballast = fill(disk)
        job = place.start(*mpi.command(4, sys.executable, CLOSER, disk / "r", 4))
        assert job.stdout is not None
        assert [job.stdout.readline() for _ in range(4)] == ["closing\n"] * 4
        job.send_signal(signal.SIGTERM)
        job.communicate(
            timeout=30
        )  # the status is the launcher's own: it may be 0 though its ranks were ended
        until(lambda: not pids(place, "closer.py"), 20, "the end of all ranks")
        ballast.unlink()
        until(lambda: latest(disk / "r.fb") == 3, 20, "what the ranks had put")
        with fb.open(disk / "r", "r") as run:
            assert run.snapshots.numbers == [0, 1, 2, 3]
            assert all((kept["E"] == kept.step).all() for kept in run.snapshots)
        until(lambda: not place.segments(), 20, "the end of the run's segments")
        place.command("down")


OWN_RUN = """
import sys, forebay as fb, numpy as np
name, path, *rest = sys.argv[1:]
sizes = dict(rank=0, size=1) if rest == ["alone"] else {}
with fb.open(path, buffer="4MiB", **sizes) as run:
    for step in range(3):
        with run.snapshot(step) as s:
            s.put("x", np.arange(3.0), offset="append")
print("written by", name, flush=True)
"""


def test_two_programs_under_one_launcher_have_runs_of_their_own_or_one_together(
    place: Place, run_dir: Path, mpi: Mpi
) -> None:
    def both(a: Path, b: Path, *words: str) -> subprocess.CompletedProcess[str]:
        one, two = ([*TIED, sys.executable, "-c", OWN_RUN, n, p, *words] for n, p in (("A", a), ("B", b)))
        command = [f"mpiexec.{mpi.name}", "-n", "1", *one, ":", "-n", "1", *two]
        return subprocess.run(
            list(map(str, command)), env=place.env, capture_output=True, text=True, timeout=50, check=False
        )

    a, b = run_dir.with_name("a.fb"), run_dir.with_name("b.fb")
    apart = both(a, b)  # long before the minute that late ranks are waited for
    assert apart.returncode != 0
    assert "is another program and has opened the run" in apart.stderr
    assert "give the rank and the number of its own ranks: rank=0, size=1" in apart.stderr
    alone = both(run_dir.with_name("c.fb"), run_dir.with_name("d.fb"), "alone")
    assert alone.returncode == 0, alone.stderr
    together = both(run_dir, run_dir)
    assert together.returncode == 0, together.stderr
    with fb.open(run_dir, "r") as run:
        assert run.snapshots[-1]["x"].tolist() == [0, 1, 2, 0, 1, 2]
