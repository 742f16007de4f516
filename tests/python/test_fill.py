"""Elements that no rank puts and that are meant to lack: they have the value that all ranks say."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import forebay as fb
import h5py
import numpy as np
import pytest
import xarray as xr
from places import Place, ended, until

# Rank r has the rows 4 r and 4 r + 1 of 8, but for the last column.
RANK = """
import os, sys, time, numpy as np, forebay as fb
run = fb.open(sys.argv[1], buffer="16MiB")
me, size = run.rank, run.size
rows = np.arange(8.0).reshape(2, 4) + 100 * me
at = {"offset": (4 * me, 0), "shape": (8, 5)}
def heard(act):
    texts = []
    for act in (act, *[run.flush] * 4):
        try:
            act()
        except fb.Error as e:
            texts.append(f"{type(e).__name__}: {e}")
    return texts
def put(step, **options):
    with run.snapshot(step) as s:
        s.put("T", rows, **{**at, **options})
    return s
"""


def ranks(place: Place, run_dir: Path, body: str) -> None:
    """Runs the body in two ranks to its end."""
    for rank in place.ranks(2, sys.executable, "-c", RANK + body, run_dir):
        ended(rank)


def whole(value: float) -> np.ndarray:
    """What both ranks put, and that value elsewhere."""
    made = np.full((8, 5), value)
    for rank in (0, 1):
        made[4 * rank : 4 * rank + 2, :4] = np.arange(8.0).reshape(2, 4) + 100 * rank
    return made


def test_holes_have_the_value_that_all_ranks_say_and_are_counted(run_dir: Path, place: Place) -> None:
    ranks(
        place,
        run_dir,
        """
with run.snapshot(1) as s:
    s.put("T", rows, fill=np.nan, dims=("row", "column"), **at)
    s.put("n", rows.astype(np.int16), fill=-1.0, **at)
    s.put("dense", np.ones((4, 5)), offset=(4 * me, 0), shape=(8, 5), fill=0)
    s.mesh("E", {"x": rows}, spacing=0.5, fill=-7, **at)
    room = s.allocate("F", (2, 4), offset=at["offset"], global_shape=at["shape"], order="F", fill=9.0)
    room[:] = rows
    # Both have the first two rows; nobody has the others.
    s.put("over", np.full((2, 5), me), offset=(0, 0), shape=(8, 5), overlap="last", fill=7)
s.wait(60)
run.flush()
assert run.stats()["filled_elements"] == 4 * 24 + 30, run.stats()
run.close()
""",
    )
    file = run_dir / "steps" / "0000000001.h5"
    with fb.open(run_dir, "r") as run:
        snap = run.snapshots.at(1)
        np.testing.assert_array_equal(snap["T"], whole(np.nan))
        np.testing.assert_array_equal(snap["n"], whole(-1).astype(np.int16))
        np.testing.assert_array_equal(snap["E"]["x"], whole(-7))
        np.testing.assert_array_equal(snap["F"], whole(9))
        np.testing.assert_array_equal(snap["dense"], np.ones((8, 5)))
        np.testing.assert_array_equal(snap["over"], [[1] * 5] * 2 + [[7] * 5] * 6)
        np.testing.assert_array_equal(snap.get("F", sel=np.s_[1:6, 3:]), whole(9)[1:6, 3:])
        assert snap.attrs("n") == {"_FillValue": -1} and snap.attrs("n")["_FillValue"].dtype == np.int16
    with h5py.File(file) as f:
        np.testing.assert_array_equal(f["n"][:], whole(-1))
        assert f["n"].attrs["_FillValue"] == -1 and f["n"].attrs["_FillValue"].dtype == np.int16
        manifest = json.loads(f["forebay/manifest"][()].tobytes())
    filled = {one["name"]: one.get("filled") for one in manifest["data"]}
    assert filled == {"T": 24, "n": 24, "E_x": 24, "F": 24, "dense": 0, "over": 30}
    with xr.open_dataset(file) as ds:
        assert int(ds["n"].isnull().sum()) == 24
    place.command("verify", run_dir)
    # What fills holes has a checksum, too.
    at = file.read_bytes().find(np.full(8, 9.0).tobytes())
    assert at > 0
    with file.open("r+b") as damaged:
        damaged.seek(at)
        damaged.write(b"\xff")
    with fb.open(run_dir, "r") as run, pytest.raises(fb.Corrupt, match="no rank put"):
        run.snapshots.at(1)["F"]


def test_holes_that_are_not_meant_or_not_said_alike_are_errors(run_dir: Path, place: Place) -> None:
    ranks(
        place,
        run_dir,
        """
texts = heard(lambda: put(1).wait(60))
assert any("lacks 24 of its 40 elements" in t and "fill=" in t for t in texts), texts
texts = heard(lambda: put(2, fill=me).wait(60))
assert any("fill" in t and "rank 0" in t and "rank 1" in t for t in texts), texts
texts = heard(lambda: put(3, **({"fill": 1.0} if me else {})).wait(60))
assert any("nothing" in t and "same fill" in t for t in texts), texts
with run.snapshot(4) as s:
    for array, options, text in (
        (rows.astype(np.int32), {"fill": np.nan, **at}, "no value of the dtype i32"),
        (rows.astype(np.float32), {"fill": 0.1, **at}, "no value of the dtype f32"),
        (rows, {"fill": 1.0, "attrs": {"_FillValue": 2.0}, **at}, "say it once"),
        (rows, {"fill": [1.0, 2.0], **at}, "f64(2"),
        (rows, {"fill": 1.0}, "shape of the whole"),
        (rows, {"fill": 1.0, "offset": "append"}, "shape of the whole"),
        (np.array([["a"] * 4] * 2), {"fill": "b", "offset": (0, 0, 0), "shape": (8, 5, 1)}, "put every text"),
    ):
        try:
            s.put("T", array, **options)
            raise AssertionError(options)
        except fb.BadArgument as e:
            assert text in str(e), e
    s.put("T", rows, fill=1.0, **at)
s.wait(60)
try:
    run.close()
except fb.Error:
    pass
""",
    )
    with fb.open(run_dir, "r") as run:
        assert run.snapshots.numbers == [4]
        np.testing.assert_array_equal(run.snapshots.at(4)["T"], whole(1))


def test_holes_of_killed_programs_are_filled_by_the_next_and_a_lost_rank_is_no_hole(
    run_dir: Path, place: Place
) -> None:
    # Rank 1 is killed before it ends the last snapshot: what it would have put is not what is meant to lack.
    body = """
put(1, fill=-2.0).wait(60)
for step in (2, 3):
    with run.snapshot(step) as s:
        s.put("big", np.full(400_000, float(me)), offset="append")
        s.put("T", rows, fill=-2.0, **at)
s = run.snapshot(4)
s.put("T", rows, fill=-2.0, **at)
if me == 0:
    s.end()
open(f"{sys.argv[1]}.{me}", "w").close()
time.sleep(600)
"""
    started = place.ranks(2, sys.executable, "-c", RANK + body, run_dir)
    until(lambda: all(Path(f"{run_dir}.{rank}").exists() for rank in (0, 1)), 60, "the ends of both ranks")
    for process in started:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    place.command("recover", run_dir)
    with fb.open(run_dir, "r") as run:
        assert run.snapshots.numbers == [1, 2, 3]
        for step in (1, 2, 3):
            np.testing.assert_array_equal(run.snapshots.at(step)["T"], whole(-2))
    place.command("verify", run_dir)
