"""Histories of several ranks: each point once, in the run and after the death of its owner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import forebay as fb
import pytest
from places import Place, ended, hear, until

STEPS = 40
PROGRAM = """
import sys, forebay as fb, numpy as np
path, stop = sys.argv[1], int(sys.argv[2])
with fb.open(path, buffer="4MiB") as run:
    if run.rank % 2:
        run.diagram("of odd ranks only", "history")
    kept = run.diagram("kept", "history")
    ways = [run.diagram(how, "history", reduce=how) for how in ("sum", "min", "max", "mean")]
    for step in run.steps(40):
        if step == stop:
            run.flush()
            print("half", flush=True)
            sys.stdin.readline()
        for d in (kept, *ways):
            d.append(0.1 * step, w=0.1 * (run.rank + 1) + step / 3)
    with run.snapshot(run.position) as s:  # nobody leaves before all have come
        s.put("x", np.ones(1), offset="append")
    s.wait()
"""


def check(path: Path, ranks: int) -> None:
    """Each point is there once, with the bits that it is to have."""
    with fb.open(path, "r") as run:
        rows = run.sql(
            "select d.title, p.t, p.value from fb_points p join fb_diagrams d on d.id = p.diagram order by p.t"
        )
        found: dict[str, list[tuple[float, float]]] = {}
        for title, t, value in zip(rows["title"], rows["t"], rows["value"], strict=True):
            found.setdefault(str(title), []).append((float(t), float(value)))
    given = [[0.1 * (rank + 1) + step / 3 for rank in range(ranks)] for step in range(STEPS)]
    total = []
    for values in given:
        total.append(values[0])
        for value in values[1:]:
            total[-1] += value
    expected = {
        "kept": [values[0] for values in given],
        "sum": total,
        "min": [min(values) for values in given],
        "max": [max(values) for values in given],
        "mean": [value / ranks for value in total],
    }
    for title, values in expected.items():
        assert found[title] == [(0.1 * step, value) for step, value in enumerate(values)], title


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_point_that_every_rank_appends_is_one_point(place: Place, run_dir: Path, ranks: int) -> None:
    for process in place.ranks(ranks, sys.executable, "-c", PROGRAM, run_dir, "-1"):
        ended(process)
    check(run_dir, ranks)


def test_an_agent_killed_between_the_points_of_the_ranks_costs_none(place: Place, run_dir: Path) -> None:
    place.command("up")
    processes = place.ranks(2, sys.executable, "-c", PROGRAM, run_dir, "20", stdin=subprocess.PIPE)
    for process in processes:
        hear(process, "half")
    # One rank is ahead when the agent dies, and again when the next one has come.
    assert processes[1].stdin is not None
    processes[1].stdin.write("go on\n")
    processes[1].stdin.flush()

    def owner() -> int:
        return int((run_dir / "LOCK").read_text().split('"pid":')[1].split(",")[0])

    first = owner()
    os.kill(first, signal.SIGKILL)
    until(lambda: owner() not in (0, first), 30, "another agent")
    assert processes[0].stdin is not None
    processes[0].stdin.write("go on\n")
    processes[0].stdin.flush()
    for process in processes:
        ended(process)
    check(run_dir, 2)


@pytest.mark.parametrize(
    "declaration, said",
    [
        ('"history", reduce="sum" if run.rank else "max"', "with reduce="),
        ('"history" if run.rank else "curve"', "by another rank; declare it alike in all ranks"),
    ],
)
def test_ways_of_reducing_that_are_none_and_ranks_that_differ_are_told(
    place: Place, run_dir: Path, declaration: str, said: str
) -> None:
    with fb.open(run_dir) as run:
        with pytest.raises(fb.BadArgument, match="sum"):
            run.diagram("energy", "history", reduce="product")  # type: ignore[arg-type]
        with pytest.raises(fb.BadArgument, match="histories"):
            run.diagram("field", "curve", reduce="sum")
    program = f"""
import sys, forebay as fb, numpy as np
with fb.open(sys.argv[1]) as run:
    run.diagram("energy", {declaration})
    with run.snapshot(0) as s:
        s.put("x", np.ones(1), offset="append")
    s.wait()
"""
    processes = place.ranks(2, sys.executable, "-c", program, run_dir.with_name("two.fb"))
    texts = [process.communicate(timeout=60)[1] for process in processes]
    assert any(process.returncode for process in processes)
    assert any(said in text and "declare it alike in all ranks" in text for text in texts)
