"""Columns of tables whose values are arrays of one shape."""

from __future__ import annotations

import csv
import json
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import forebay as fb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from places import forebay_exe

pytestmark = pytest.mark.usefixtures("owner")

COLUMNS = {"v": ("f8", 3), "m": (np.float32, (2, 2)), "on": ("?", 2), "id": "i64", "name": "str"}
V = np.array([[1.0, 2.0, 3.0], [-0.0, np.nan, np.inf], [0.1, 0.2, 0.3]])
M = np.arange(12, dtype="f4").reshape(3, 2, 2)
ON = np.array([[True, False], [False, False], [True, True]])
ALL = {"v": V, "m": M, "on": ON, "id": [1, 2, 3], "name": ["a", "b", "c"]}


@pytest.fixture
def run(run_dir: Path) -> Iterator[fb.Run]:
    with fb.open(run_dir) as opened:
        yield opened


@pytest.fixture
def atoms(run: fb.Run) -> fb.Table:
    return run.table("atoms", COLUMNS, units={"v": "m/s"})


def forebay(*words: object) -> subprocess.CompletedProcess[str]:
    command = [str(forebay_exe()), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def bits(array: np.ndarray) -> bytes:
    return array.tobytes()


def test_arrays_go_into_a_column_and_come_out_by_columns_and_by_rows(
    run: fb.Run, atoms: fb.Table, run_dir: Path
) -> None:
    atoms.insert(columns={**ALL, "v": np.asfortranarray(V)})
    atoms.insert([{"v": [4, 5, 6], "id": 4}, (None, M[0].T, [1, 0], 5, "e")])
    rows = atoms.select()
    assert rows["v"].shape == (5, 3) and bits(rows["v"][:3]) == bits(V)
    assert rows["v"][3].tolist() == [4, 5, 6] and np.isnan(rows["v"][4]).all()
    assert atoms.select("id <> 4")["m"].tolist() == [*M.tolist(), M[0].T.tolist()]
    assert rows["m"].dtype == np.float32 and np.isnan(rows["m"][3]).all()
    # What has no value has no place in an array of truth values.
    assert rows["on"].dtype == object and rows["on"][3] is None and rows["on"][4].tolist() == [True, False]
    assert bits(rows[1]["v"]) == bits(V[1]) and rows[4]["v"] is None
    assert rows[:1] == atoms.select("id = 1") and rows[:1] != rows[2:3]
    assert atoms.columns == {
        "v": ("f64", (3,)),
        "m": ("f32", (2, 2)),
        "on": ("bool", (2,)),
        "id": "i64",
        "name": "str",
    }
    assert run.table("atoms", atoms.columns, units=atoms.units).columns == atoms.columns
    assert atoms.update({"v": np.arange(3, dtype="i4")}, "id > ?", [3]) == 2
    assert atoms["v"][3:].tolist() == [[0, 1, 2]] * 2
    with sqlite3.connect(f"file:{run_dir}/catalog.sqlite?mode=ro", uri=True) as catalog:
        (kept,) = catalog.execute("SELECT v FROM atoms WHERE id = 2").fetchone()
        assert bits(np.frombuffer(kept, "<f8")) == bits(V[1])
        said = json.loads(catalog.execute("SELECT columns FROM fb_tables").fetchone()[0])
        assert said[0] == {"name": "v", "dtype": "f64", "units": "m/s", "shape": [3]}


def test_arrow_and_pandas_hand_arrays_over_and_take_them(run: fb.Run, atoms: fb.Table) -> None:
    atoms.insert(columns=ALL)
    atoms.insert([{"id": 4, "m": M[1]}])
    found = pa.table(atoms)
    assert str(found.schema.field("v").type) == "fixed_size_list<item: double>[3]"
    assert found["v"].null_count == 1 and found["m"][2].as_py() == M[2].tolist()
    frame = atoms.to_pandas()
    assert frame["v"][0].tolist() == [1, 2, 3] and np.isnan(frame["v"][3]).all()
    copy = run.table("copy", COLUMNS)
    copy.insert(found.slice(1))
    assert bits(copy["v"][0]) == bits(V[1]) and np.isnan(copy["v"][2]).all()
    assert copy["m"].tolist() == [*M[1:].tolist(), M[1].tolist()]
    assert copy.select("id < 4")["on"].tolist() == ON[1:].tolist()
    many = run.table("many", {"on": ("bool", 3)})
    many.insert(columns={"on": np.ones((9, 3), bool)})
    assert pa.table(many)["on"].to_pylist() == [[True] * 3] * 9
    copy.delete()
    copy.insert(pd.DataFrame({"v": [V[0], None], "id": [8, 9]}))
    structured = np.zeros(1, dtype=[("v", "f4", 3), ("id", "i8")])
    copy.insert(structured)
    assert copy["v"][[0, 2]].tolist() == [V[0].tolist(), [0, 0, 0]] and copy.select("id = 9")[0]["v"] is None
    variable = pa.table({"v": pa.array([[1.0, 2.0, 3.0]])})
    with pytest.raises(fb.BadArgument, match="fixed size"):
        copy.insert(variable)
    short = pa.table({"v": pa.array([[1.0, 2.0]], pa.list_(pa.float64(), 2))})
    with pytest.raises(fb.BadArgument, match=r"f64\(2,\)"):
        copy.insert(short)
    holes = pa.table({"on": pa.array([[True, None]], pa.list_(pa.bool_(), 2))})
    with pytest.raises(fb.BadArgument, match="on"):
        copy.insert(holes)


def test_what_is_no_array_of_the_column_and_conditions_on_it_are_refused_by_name(
    run: fb.Run, atoms: fb.Table
) -> None:
    atoms.insert(columns=ALL)
    for columns in (
        {"v": V[:, :2]},
        {"v": V[0]},
        {"v": ["x"]},
        {"v": np.ones((3, 3)) * 1j},
        {"id": V},
        {"on": V[:, :2]},
    ):
        with pytest.raises(fb.BadArgument, match=next(iter(columns))):
            atoms.insert(columns=columns)
    for row in (
        {"v": 1.0},
        {"v": [1, 2]},
        {"v": [[1], [2, 3]]},
        {"v": "abc"},
        {"v": [1j, 2, 3]},
        {"id": [1]},
    ):
        with pytest.raises(fb.BadArgument):
            atoms.insert([row])
    with pytest.raises(fb.BadArgument, match="300 does not go"):
        run.table("small", {"v": ("i1", 2)}).insert(columns={"v": [[1, 300]]})
    for act in (
        lambda: atoms.select("v > 1"),
        lambda: atoms.update({"id": 1}, '"v" is null'),
        lambda: atoms.delete("id = 1 or length(atoms.v) > 3"),
        lambda: atoms.select(order="v"),
        lambda: atoms.index("v"),
    ):
        with pytest.raises(fb.BadArgument, match=r'"v".*arrays'):
            act()
    assert len(atoms) == 3 and atoms.select("name <> 'v'", order="id desc")["id"].tolist() == [3, 2, 1]
    for kind in (("f8", 0), ("f8", -1), ("f8", "3"), ("f8", 3, 3), ("str", 3), ("c16", 2), ("f8", 10_000)):
        with pytest.raises(fb.BadArgument, match="v"):
            run.table("bad", {"v": kind})
    with pytest.raises(fb.Conflict, match=r"f64\(3,\)"):
        run.table("atoms", {**COLUMNS, "v": ("f8", 4)}, units={"v": "m/s"})


def test_arrays_are_shown_exported_imported_and_compared(
    run: fb.Run, atoms: fb.Table, run_dir: Path, tmp_path: Path
) -> None:
    atoms.insert(columns=ALL)
    atoms.insert([{"id": 4}])
    assert len(atoms) == 4
    shown = forebay("table", run_dir, "atoms", "--where", "id = 1")
    assert "[1.0,2.0,3.0]" in shown.stdout and "[[0.0,1.0],[2.0,3.0]]" in shown.stdout, shown.stderr
    told = forebay("table", run_dir, "atoms", "--where", "id = 3", "--json")
    assert json.loads(told.stdout)["v"] == [0.1, 0.2, 0.3]
    done = forebay("export", run_dir, "--to", "csv", "-o", tmp_path / "atoms.csv")
    assert done.returncode == 0, done.stderr
    with (tmp_path / "atoms.csv").open(newline="") as lines:
        table = list(csv.reader(lines))
    assert table[0] == ["v_0", "v_1", "v_2", "m_0_0", "m_0_1", "m_1_0", "m_1_1", "on_0", "on_1", "id", "name"]
    assert table[2][:3] == ["-0.0", "", "inf"] and table[4] == [""] * 9 + ["4", ""]
    done = forebay("export", run_dir, "--to", "text", "-o", tmp_path / "run.txt")
    assert done.returncode == 0, done.stderr
    done = forebay("import", tmp_path / "run.txt", tmp_path / "copy")
    assert done.returncode == 0, done.stderr
    with fb.open(tmp_path / "copy", "r") as copy:
        assert bits(copy.table("atoms").select("id < 4")["v"]) == bits(V)
        assert copy.table("atoms").select("id = 4")[0]["v"] is None
    same = forebay("diff", run_dir, tmp_path / "copy")
    assert same.returncode == 0, same.stdout
    with fb.open(tmp_path / "copy", "r+") as copy:
        copy.table("atoms").update({"v": [0.1, 0.25, 0.3]}, "id = 3")
    other = forebay("diff", run_dir, tmp_path / "copy")
    assert other.returncode == 1 and '"v[1]": 0.2 and 0.25' in other.stdout, other.stdout
    assert forebay("diff", run_dir, tmp_path / "copy", "--atol", "0.1").returncode == 0
    run.table("twice", {"v": ("f8", 2), "v_1": "f8"})
    refused = forebay("export", run_dir, "twice", "--to", "csv", "-o", tmp_path / "twice.csv")
    assert refused.returncode == 1 and "v_1" in refused.stderr
