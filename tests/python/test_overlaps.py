"""Grids whose nodes are shared by ranks: blocks that lie over each other, by a rule that all ranks say."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import forebay as fb
import h5py
import numpy as np
import pytest
from places import Place, ended, until

# Rank r has the nodes 3 r to 3 r + 4 along x: one row of nodes is its neighbour's, too.
RANK = """
import os, sys, time, numpy as np, forebay as fb
run = fb.open(sys.argv[1], buffer="32MiB")
me, size = run.rank, run.size
whole = (3 * size + 1, 5)
def nodes(value, rank=me):
    x, y = np.meshgrid(np.arange(3.0 * rank, 3 * rank + 4), np.arange(5.0), indexing="ij")
    return x * 100 + y + value
def put(step, array, **options):
    with run.snapshot(step) as s:
        s.put("T", array, offset=(3 * me, 0), shape=whole, **options)
    return s
def heard(act):
    texts = []
    for act in (act, *[run.flush] * 4):
        try:
            act()
        except fb.Error as e:
            texts.append(f"{type(e).__name__}: {e}")
    return texts
"""
SIZE = 3


def ranks(place: Place, run_dir: Path, body: str) -> None:
    """Runs the body in each rank to its end."""
    for rank in place.ranks(SIZE, sys.executable, "-c", RANK + body, run_dir):
        ended(rank)


def whole() -> np.ndarray:
    """What blocks of equal bits make."""
    x, y = np.meshgrid(np.arange(3.0 * SIZE + 1), np.arange(5.0), indexing="ij")
    return x * 100 + y


def test_nodes_that_ranks_share_are_put_by_each_and_read_once(run_dir: Path, place: Place) -> None:
    ranks(
        place,
        run_dir,
        """
put(1, nodes(0), overlap="equal").wait(60)
put(2, np.asfortranarray(nodes(0)), overlap="equal").wait(60)
# The highest rank's count, whoever comes first.
if me != size - 1:
    while not run.list("ready"):
        time.sleep(0.01)
s = put(3, nodes(1000 * me), overlap="last")
if me == size - 1:
    run.put("ready", 1)
s.wait(60)
with run.snapshot(4) as s:
    room = s.allocate("T", (4, 5), offset=(3 * me, 0), global_shape=whole, overlap="equal")
    room[:] = nodes(0)
s.wait(60)
run.close()
""",
    )
    last = whole()
    for rank in range(SIZE):
        last[3 * rank : 3 * rank + 4] = whole()[3 * rank : 3 * rank + 4] + 1000 * rank
    with fb.open(run_dir, "r") as run:
        assert run.snapshots.numbers == [1, 2, 3, 4]
        for step, wanted in ((1, whole()), (2, whole()), (3, last), (4, whole())):
            np.testing.assert_array_equal(run.snapshots.at(step)["T"], wanted)
            np.testing.assert_array_equal(
                run.snapshots.at(step).get("T", sel=np.s_[2:8, 1:3]), wanted[2:8, 1:3]
            )
        with h5py.File(run_dir / "steps" / "0000000003.h5") as file:
            np.testing.assert_array_equal(file["T"][:], last)
    place.command("verify", run_dir)
    # One byte of a node that two ranks gave: the damage is seen.
    file = run_dir / "steps" / "0000000001.h5"
    at = file.read_bytes().find(whole()[3].tobytes())
    with file.open("r+b") as damaged:
        damaged.seek(at)
        damaged.write(b"\xff")
    with fb.open(run_dir, "r") as run, pytest.raises(fb.Corrupt):
        run.snapshots.at(1)["T"]


def test_what_does_not_fit_is_said_to_all_ranks(run_dir: Path, place: Place) -> None:
    ranks(
        place,
        run_dir,
        """
texts = heard(lambda: put(1, nodes(me), overlap="equal").wait(60))
assert any(t.startswith("Conflict") and "rank 0" in t and "rank 1" in t and "bits" in t for t in texts), texts
texts = heard(lambda: put(2, nodes(0)).wait(60))
assert any("lies over" in t and "overlap" in t for t in texts), texts
texts = heard(lambda: put(3, nodes(0), overlap="last" if me else "equal").wait(60))
assert any("alike" in t for t in texts), texts
texts = heard(lambda: put(4, nodes(0)[: 2 + (me < size - 1) * 2], overlap="last").wait(60))
assert any("lacks 10 of its 50 elements" in t and "(8, 0)" in t for t in texts), texts
def twice():
    with run.snapshot(5) as s:
        for _ in range(2):
            s.put("T", nodes(0), offset=(3 * me, 0), shape=whole, overlap="last")
    s.wait(60)
texts = heard(twice)
assert any("no rank puts an element twice" in t for t in texts), texts
with run.snapshot(6) as s:
    for wrong, text in (
        ({"offset": (3 * me, 0), "shape": whole, "overlap": "mean"}, '"mean"'),
        ({"offset": "append", "overlap": "last"}, "offset and shape"),
        ({"overlap": "equal"}, "offset and shape"),
    ):
        try:
            s.put("T", nodes(0), **wrong)
            raise AssertionError(wrong)
        except fb.BadArgument as e:
            assert text in str(e), e
    s.put("T", nodes(0), offset=(3 * me, 0), shape=whole, overlap="equal")
s.wait(60)
try:
    run.close()
except fb.Error:
    pass
""",
    )
    with fb.open(run_dir, "r") as run:
        # The data are worth more than a rule: the highest rank's are kept.
        assert run.snapshots.numbers == [1, 6]
        kept = run.snapshots.at(1)["T"]
        np.testing.assert_array_equal(kept[3], whole()[3] + 1)
        np.testing.assert_array_equal(kept[-1], whole()[-1] + SIZE - 1)
    place.command("verify", run_dir)


def test_shared_nodes_of_killed_programs_are_written_by_the_next(run_dir: Path, place: Place) -> None:
    # A large array beside keeps the disk busy; blocks in memory survive both deaths.
    body = """
put(1, nodes(0), overlap="last").wait(60)
for step in range(2, 6):
    with run.snapshot(step) as s:
        s.put("big", np.full(400_000, float(me)), offset="append")
        s.put("T", nodes(1000 * me), offset=(3 * me, 0), shape=whole, overlap="last")
open(f"{sys.argv[1]}.{me}", "w").close()
time.sleep(600)
"""
    started = place.ranks(SIZE, sys.executable, "-c", RANK + body, run_dir)
    until(
        lambda: all(Path(f"{run_dir}.{rank}").exists() for rank in range(SIZE)), 60, "the ends of all ranks"
    )
    for process in started:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    place.command("recover", run_dir)
    last = whole()
    for rank in range(SIZE):
        last[3 * rank : 3 * rank + 4] = whole()[3 * rank : 3 * rank + 4] + 1000 * rank
    with fb.open(run_dir, "r") as run:
        assert run.snapshots.numbers == [1, 2, 3, 4, 5]
        for step in range(2, 6):
            np.testing.assert_array_equal(run.snapshots.at(step)["T"], last)
    place.command("verify", run_dir)
