"""Pieces that ranks give of one array: their orders, those without elements, and where ranks say different things."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import forebay as fb
import h5py
import numpy as np
import pytest
from places import Place, ended, until

RANK = """
import sys, numpy as np, forebay as fb
class Unit:
    def __init__(self, text):
        self.text = text
    def __str__(self):
        return self.text
class Length:
    def __init__(self, magnitude, units):
        self.magnitude, self.units = magnitude, Unit(units)
run = fb.open(sys.argv[1], late="ignore")
me, whole = run.rank, np.arange(12.0).reshape(3, 4)
def one(step, array, offset, shape, time=None, **options):
    with run.snapshot(step, time=time) as s:
        s.put("T", array, offset=offset, shape=shape, **options)
    try:
        s.wait(60)
    except fb.Error as e:
        return f"{type(e).__name__}: {e}"
    return ""
cut = np.s_[:, 3:] if me else np.s_[:, :3]
text = one(0, np.asfortranarray(whole)[cut], (0, 3 * me), (3, 4))
assert text == "", text
text = one(1, whole[cut], (0, 3 * me), (3, 4))
assert text == "", text
text = one(3, np.ones(2), 2 * me, 4, time=0.1 * (me + 1), units="K" if me else "degC")
assert text.startswith("Conflict") and "rank 1 is not that of rank 0" in text, text
text = one(4, np.ones(2), 2 * me, 4, dims="x", coords={"x": Length(np.arange(4.0), "cm" if me else "m")})
assert text.startswith("Conflict") and 'unit "cm" of "x"' in text, text
run.close()
"""


def test_a_line_goes_with_the_pieces_of_others_and_where_ranks_differ_all_are_told(
    run_dir: Path, place: Place
) -> None:
    for rank in place.ranks(2, sys.executable, "-c", RANK, run_dir):
        ended(rank)
    whole = np.arange(12.0).reshape(3, 4)
    with fb.open(run_dir, "r") as run:
        assert run.snapshots.numbers == [0, 1, 3, 4]
        for step in (0, 1):
            np.testing.assert_array_equal(run.snapshots.at(step)["T"], whole)
        assert run.snapshots.at(3).time == 0.1
        units = [run.snapshots.at(3).dataset("T").units, run.snapshots.at(4).dataset("x").units]
        assert units == ["degC", "m"]
        said = [row["text"] for row in run.sql("SELECT text FROM fb_messages ORDER BY id")]
        for part in ("time 0.2 of rank 1", 'unit "K" of "T"', 'unit "cm" of "x"'):
            assert sum(part in text for text in said) == 1, said
    with h5py.File(run_dir / "steps" / "0000000003.h5") as file:
        assert file["T"].attrs["units"] == "degC" and file.attrs["time"] == 0.1
    place.command("verify", run_dir)


def test_a_piece_without_elements_may_lie_where_another_one_of_its_rank_begins(run_dir: Path) -> None:
    whole = np.arange(12.0).reshape(4, 3)
    orders = (((0, 0), (0, 4)), ((0, 4), (0, 0)), ((0, 2), (2, 0), (2, 2)), ((2, 2), (2, 0), (0, 2)))
    with fb.open(run_dir, rank=0, size=1) as run:
        for step, pieces in enumerate(orders):
            with run.snapshot(step) as s:
                for at, n in pieces:
                    s.put("E", whole[at : at + n], offset=(at, 0), shape=(4, 3))
            s.wait()
            np.testing.assert_array_equal(run.snapshots.at(step)["E"], whole)


def test_behind_an_end_that_failed_a_wait_says_why(run_dir: Path) -> None:
    run = fb.open(run_dir, rank=0, size=1)
    s = run.snapshot(0)
    for _ in range(2):
        s.put("E", np.ones(3), offset=0, shape=4)

    def is_told() -> bool:
        with closing(sqlite3.connect(run_dir / "catalog.sqlite")) as catalog:
            return bool(catalog.execute("SELECT text FROM fb_messages").fetchall())

    until(is_told, 20, "the owner's refusal")
    for act in (s.end, s.wait):
        with pytest.raises(fb.Error, match="lies over that of rank 0"):
            act()
    s.discard()
    run.close()
