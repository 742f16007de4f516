"""A run of several ranks that is started without some of them: what those have told stays."""

from __future__ import annotations

import sys
from pathlib import Path

import forebay as fb
from places import Place, ended

START = """
import sys, forebay as fb, numpy as np
path, start, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with fb.open(path) as run:
    rows = run.table("rows", {"rank": "i64", "step": "i64", "start": "i64"}, history=True)
    total = run.diagram("total", "history", reduce="sum")
    snap = run.restart()
    for step in run.steps(steps, start=snap):
        if step < 4:
            with run.snapshot(step) as s:
                s.put("x", np.full(3, step), offset=3 * run.rank, shape=6)
        rows.insert((run.rank, step, start))
        total.append(step, w=10.0 ** run.rank * (start + 1))
"""
STARTS = [(0, 1), (1,), (1,), (0,), (0, 1), (0,), (0,), (1,)]
SUMS = [11.0, 11.0, 11.0, 4 + 30.0, 55.0, 55.0, 55.0, 7 + 80.0]


def test_a_start_without_one_rank_takes_no_row_and_no_share_of_it(place: Place, run_dir: Path) -> None:
    place.command("up")
    last = [0, 0]
    for start, ranks in enumerate(STARTS):
        words = [sys.executable, "-c", START, run_dir, str(start), "4"]
        started = [place.start(*words, env={**place.env, "PMI_RANK": str(r), "PMI_SIZE": "2"}) for r in ranks]
        for process, rank in zip(started, ranks, strict=True):
            ended(process)
            last[rank] = start
        with fb.open(run_dir, "r") as run:
            found = run.sql("select rank, step, start from rows order by 1, 2")
            rows = [(row["rank"], row["step"], row["start"]) for row in found]
            assert rows == [(r, n, last[r] if n == 3 else 0) for r in (0, 1) for n in range(4)], start
            sums = run.sql("select value from fb_points order by t")["value"].tolist()
        assert sums[:3] == [11.0] * 3 and len(sums) == 4
        # A start without one rank changes nothing; one that comes late adds its share to that of the other.
        assert sums[3] == SUMS[start], start
