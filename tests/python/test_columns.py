"""Tables by columns, and histories read back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import forebay as fb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

pytestmark = pytest.mark.usefixtures("owner")

COLUMNS = {"n": np.int16, "big": "u64", "x": "f4", "on": bool, "name": str, "raw": bytes}
VALUES = {
    "n": np.array([-1, 0, 300], "i2"),
    "big": np.array([0, 2**63, 2**64 - 1], "u8"),
    "x": np.array([0.5, np.nan, np.inf], "f4"),
    "on": np.array([True, False, True]),
    "name": ["a", None, "µ"],
    "raw": [b"\0", b"", None],
}


@pytest.fixture
def table(run_dir: Path) -> Iterator[fb.Table]:
    with fb.open(run_dir) as run:
        yield run.table("t", COLUMNS)


def test_columns_come_back_as_they_went_in(table: fb.Table) -> None:
    table.insert(columns=VALUES)
    rows = table.select()
    for name in ("n", "big", "x", "on"):
        np.testing.assert_array_equal(rows[name], VALUES[name])
        assert rows[name].dtype == VALUES[name].dtype and table[name].dtype == rows[name].dtype
    assert rows["name"].tolist() == VALUES["name"] and rows["raw"].tolist() == VALUES["raw"]
    assert rows[1] == {
        "n": 0,
        "big": 2**63,
        "x": pytest.approx(np.nan, nan_ok=True),
        "on": False,
        "name": None,
        "raw": b"",
    }
    assert rows[::-2].tuples() == rows.tuples()[::-2]
    rows["n"][:] = 0  # an array of the caller's own
    assert rows["n"].tolist() == [-1, 0, 300]


def test_arrow_takes_and_gives_tables_without_a_loss(table: fb.Table) -> None:
    table.insert(columns=VALUES)
    found = pa.table(table)
    assert [str(t) for t in found.schema.types] == [
        "int16",
        "uint64",
        "float",
        "bool",
        "large_string",
        "large_binary",
    ]
    assert (
        found.column("name").to_pylist() == VALUES["name"] and found.column("big").to_pylist()[2] == 2**64 - 1
    )
    assert found.column("x").null_count == 0 and np.isnan(found.column("x")[1].as_py())
    assert found.column("on").to_pylist() == [True, False, True]
    assert str(table.to_arrow()) == str(found)
    table.delete()
    small = pa.table(
        {
            "name": pa.array(["b", None, "c"]),
            "n": pa.array([1, None, 3], pa.int64()),
            "on": [True, None, False],
        }
    )
    table.insert(columns=small.slice(1))
    table.insert(pa.concat_tables([small.slice(0, 1), small.slice(2)]))
    assert table.select(columns=["name", "n", "on"]).tuples() == [
        (None, None, None),
        ("c", 3, False),
        ("b", 1, True),
        ("c", 3, False),
    ]
    frame = table.to_pandas()
    assert frame["name"].isna().tolist() == [True, False, False, False] and list(frame.columns) == list(
        COLUMNS
    )
    table.insert(pd.DataFrame({"n": [7], "name": ["d"], "x": [1.5]}))
    assert table.select(limit=1, order="n desc", columns=["n", "name", "x"]).tuples() == [(7, "d", 1.5)]
    assert pa.table(table.select()[1:3]).num_rows == 2
    with pytest.raises(fb.BadArgument, match="Arrow's type"):
        table.insert(columns=pa.table({"n": pa.array([1], pa.timestamp("s"))}))


def test_rows_are_ordered_limited_and_read_in_batches(table: fb.Table) -> None:
    table.insert(columns={"n": np.arange(25, dtype="i2"), "on": np.arange(25) % 2 == 0})
    assert table.select(order=["on desc", "n"], limit=3)["n"].tolist() == [0, 2, 4]
    assert table.select("n > ?", [20], order="n DESC", limit=2)["n"].tolist() == [24, 23]
    batches = list(table.rows(batch=10, columns=["n"]))
    assert [len(b) for b in batches] == [10, 10, 5] and batches[2].columns == ["n"]
    assert [row["n"] for row in table] == list(range(25))
    assert [len(b) for b in table.rows(batch=5, where="n >= 15")] == [5, 5]
    assert table.select(limit=0).tuples() == []
    for wrong in ({"order": "none"}, {"limit": -1}, {"columns": "n"}, {"order": "n; drop"}):
        with pytest.raises((fb.BadArgument, fb.NotFound)):
            table.select(**wrong)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"nothing": [1]}, "no column 'nothing'|no column \"nothing\""),
        ({"n": np.arange(2), "x": np.arange(3.0)}, "one length"),
        ({"n": np.array([1, 40000])}, "40000"),
        ({"n": np.array([1.5])}, "1.5"),
        ({"x": np.array([1 + 2j])}, "complex"),
        ({"x": np.zeros((2, 2))}, "a row has one f32"),
        ({"name": [1]}, "text"),
        ([1, 2], "mapping"),
    ],
)
def test_columns_that_do_not_fit_are_refused_and_nothing_is_kept(
    table: fb.Table, columns: object, says: str
) -> None:
    with pytest.raises(fb.BadArgument, match=says):
        table.insert(columns=columns)
    assert len(table) == 0


def test_a_history_is_read_back_by_columns(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        energy = run.diagram("energy", "history", x="t [s]", y="E [J]")
        other = run.diagram("other", "history")
        now = run.diagram("now", "curve")
        for step in run.steps(4):
            energy.append(0.5 * step, kinetic=float(step), **({"step": 7.0} if step == 2 else {}))
            energy.append(0.5 * step + 0.25, field=-float(step))
            other.append(step, a=1.0)
            now.update([0, 1], [1, 2])
        energy.append(9.0, kinetic=1.0)
        energy.append(9.0, kinetic=2.0)
        h = run.history("energy")
        assert h.columns == ["step", "t", "kinetic", "field", "step_"]
        assert h["step"].dtype == np.int64 and h["t"].tolist()[:4] == [0.0, 0.25, 0.5, 0.75]
        assert (
            h["kinetic"].tolist()[-2:] == [1.0, 2.0] and np.isnan(h["kinetic"][1]) and h["field"][3] == -1.0
        )
        assert np.isfinite(h["step_"]).sum() == 1 and len(h) == 10
        assert h.to_pandas().loc[0, "kinetic"] == 0.0 and pa.table(h).num_rows == 10
        with pytest.raises(fb.NotFound, match='"energy", "other"'):
            run.history("nergy")
        with pytest.raises(fb.BadArgument, match="kept"):
            run.history("now")


def test_many_cells_go_in_and_out_at_once(run_dir: Path) -> None:
    # A value of Python's for each of a million cells takes a second and more each way.
    values = {name: np.random.default_rng(1).random(100_000) for name in "abcdefghij"}
    with fb.open(run_dir) as run:
        t = run.table("t", dict.fromkeys(values, "f8"))
        began = time.perf_counter()
        t.insert(columns=values)
        run.flush()
        middle = time.perf_counter()
        rows = t.select()
        found = {name: rows[name] for name in values}
        print(f"in {middle - began:.3f} s, out {time.perf_counter() - middle:.3f} s")
        for name, array in values.items():
            np.testing.assert_array_equal(found[name], array)
        assert rows._made is None
