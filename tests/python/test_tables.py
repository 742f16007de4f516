"""Relational tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import forebay as fb
import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("owner")

STARS = [("Sun", 1.0, 1, b"\1"), ("Sirius", 2.06, 2, b""), ("Proxima", 0.12, 3, None)]


@pytest.fixture
def stars(run_dir: Path) -> Iterator[fb.Table]:
    with fb.open(run_dir) as run:
        table = run.table(
            "stars", {"name": str, "mass": "f64", "id": np.int32, "blob": bytes}, {"mass": "kg"}
        )
        table.insert(STARS)
        yield table


def test_rows_come_back_in_their_order(stars: fb.Table) -> None:
    rows = stars.select()
    assert rows.columns == ["name", "mass", "id", "blob"]
    assert rows.tuples() == STARS
    assert rows[1] == {"name": "Sirius", "mass": 2.06, "id": 2, "blob": b""}
    np.testing.assert_array_equal(rows["mass"], [1.0, 2.06, 0.12])
    assert len(rows) == len(stars) == 3
    assert stars.columns == {"name": "str", "mass": "f64", "id": "i32", "blob": "bytes"}
    assert stars.units == {"mass": "kg"}


def test_rows_may_be_dictionaries_tuples_or_arrays(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        t = run.table("t", {"a": int, "b": float})
        t.insert({"b": 0.5, "a": 1})
        t.insert((2, 1.5))
        t.insert([{"a": 3}, {"b": np.float64(3.5)}])
        t.insert(np.array([(4, 4.5)], dtype=[("b", "f8"), ("a", "i4")]))
        assert t.select().tuples() == [(1, 0.5), (2, 1.5), (3, None), (None, 3.5), (4, 4.0)] or t.select()[
            -1
        ] == {"a": 4, "b": 4.0}


def test_a_condition_selects_updates_and_deletes(stars: fb.Table) -> None:
    assert [row["name"] for row in stars.select("mass > ?", [1.0])] == ["Sirius"]
    assert stars.select("mass < ?", [1.0], columns=["id"]).tuples() == [(3,)]
    assert stars.update({"mass": np.float32(0.5)}, "name = ?", ["Proxima"]) == 1
    assert stars.delete("mass >= ?", [1.0]) == 2
    assert stars.select().tuples() == [("Proxima", 0.5, 3, None)]
    assert stars.delete() == 1
    assert len(stars) == 0


def test_an_index_finds_rows_and_changes_neither_them_nor_their_order(stars: fb.Table, run_dir: Path) -> None:
    for _ in range(2):
        stars.index("name", "mass")
    stars.insert([("Proxima", 3.0, 4, None), ("Altair", 1.8, 5, None)])
    assert stars.select("name = ?", ["Proxima"])["id"].tolist() == [3, 4]
    assert stars.select("name > ?", ["A"])["id"].tolist() == [1, 2, 3, 4, 5], "in the order they came"
    assert stars.select(order="name", limit=2)["id"].tolist() == [5, 3]
    with fb.open(run_dir, "r") as run:
        plan = run.sql("explain query plan select mass from stars where name = 'Sun'")
        assert "USING COVERING INDEX" in plan[0]["detail"], plan
        with pytest.raises(fb.ReadOnly):
            run.table("stars").index("id")
    with pytest.raises(fb.BadArgument, match='no column "colour"; it has name str'):
        stars.index("name", "colour")
    with pytest.raises(fb.BadArgument, match="at least one"):
        stars.index()


def test_sql_reads_and_does_not_write(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        run.table("t", {"a": int}).insert([(n,) for n in range(10)])
        assert run.sql("select sum(a) as total from t where a > ?", [5])[0] == {"total": 30}
        for write in ("delete from t", "drop table t", "update t set a = 0", "not sql"):
            with pytest.raises(fb.Error):
                run.sql(write)
        assert len(run.table("t")) == 10


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ((1,), "1 values"),
        ({"nothing": 1}, "nothing"),
        ((object(), 1.0), "object"),
        (("text", 1.0), "a"),
        ((2**70, 1.0), "64 bits"),
    ],
)
def test_a_row_that_does_not_fit_is_refused(run_dir: Path, row: object, says: str) -> None:
    with fb.open(run_dir) as run:
        t = run.table("t", {"a": int, "b": float})
        with pytest.raises(fb.BadArgument) as error:
            t.insert(row)
        assert says in str(error.value)
        assert len(t) == 0


def test_a_table_is_there_again_and_keeps_its_columns(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        run.table("t", {"a": int}).insert((1,))
    with fb.open(run_dir) as run:
        assert list(run.tables) == ["t"]
        assert run.table("t").select().tuples() == [(1,)]
        assert len(run.table("t", {"a": int})) == 1
        with pytest.raises(fb.Conflict):
            run.table("t", {"b": float})
        with pytest.raises(fb.NotFound):
            run.table("nothing")


def test_what_is_declared_otherwise_than_it_is_there_is_named(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        run.table("t", {"mass": "f64", "n": "i64"}, {"mass": "kg"})
        with pytest.raises(fb.Conflict, match='column "mass" has the unit "kg" there and no unit here'):
            run.table("t", {"mass": "f64", "n": "i64"})
        with pytest.raises(fb.Conflict, match='column "n" has no unit there and the unit "1" here'):
            run.table("t", {"mass": "f64", "n": "i64"}, {"mass": "kg", "n": "1"})
        with pytest.raises(
            fb.Conflict, match="the columns mass f64, n i64, and is to have mass f64, n f32; open"
        ):
            run.table("t", {"mass": "f64", "n": "f32"}, {"mass": "kg"})
        assert run.table("t").columns == {"mass": "f64", "n": "i64"}
        with pytest.raises(
            fb.BadArgument, match=r"columns = \['a'\] does not say the dtypes; give a mapping"
        ):
            run.table("q", ["a"])  # type: ignore[arg-type]
        with pytest.raises(fb.BadArgument, match=r"units = \['kg'\] does not say the units"):
            run.table("q", {"a": "f64"}, ["kg"])  # type: ignore[arg-type]


def test_a_frame_goes_in_and_comes_out(stars: fb.Table) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"name": ["Vega"], "mass": [2.1], "id": [4], "blob": [b"v"]})
    stars.insert(frame)
    assert stars.to_pandas()["name"].tolist() == ["Sun", "Sirius", "Proxima", "Vega"]


def test_a_column_comes_back_in_its_own_dtype(run_dir: Path) -> None:
    """What is no number is a number all the same where a column holds real ones: NaN, as NumPy knows it."""
    with fb.open(run_dir) as run:
        t = run.table("t", {"v": "f64", "f": "f32", "b": bool, "k": "u8", "s": str, "raw": bytes})
        t.insert([(1.5, 0.1, True, 255, "a", b"x\0"), (float("nan"), float("-inf"), False, 0, "b\0", b"")])
        t.insert({"k": 7})
        rows = t.select()
        assert [rows[n].dtype for n in ("v", "f", "k")] == [np.float64, np.float32, np.uint8]
        np.testing.assert_array_equal(rows["v"], [1.5, np.nan, np.nan])
        np.testing.assert_array_equal(rows["f"], np.array([0.1, -np.inf, np.nan], np.float32))
        assert np.nanmean(rows["v"]) == 1.5
        assert rows[:2]["b"].dtype == np.bool_
        assert rows["b"].tolist() == [True, False, None]  # no truth value stands for "missing"
        assert rows["s"].tolist() == ["a", "b\0", None]
        assert rows["raw"].tolist() == [b"x\0", b"", None]
        assert t.select("k > 300")["v"].dtype == np.float64
        assert t.select(columns=["f"])["f"].dtype == np.float32
        asked = run.sql("select v, 2 * v as twice from t")
        np.testing.assert_array_equal(asked["v"], [1.5, np.nan, np.nan])
        np.testing.assert_array_equal(asked["twice"], [3.0, np.nan, np.nan])


def test_a_real_number_beyond_its_column_is_refused(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        t = run.table("t", {"f": "f32"})
        with pytest.raises(fb.BadArgument, match="f32"):
            t.insert((1e40,))
        assert len(t) == 0


def test_integers_without_a_sign_keep_all_their_bits(run_dir: Path) -> None:
    numbers = [2**63 + 1, 0, 2**64 - 1, 2**63 - 1, 2**63]
    with fb.open(run_dir) as run:
        t = run.table("t", {"k": "u64"})
        t.insert([(n,) for n in numbers[:2]])
        t.insert([(np.uint64(n),) for n in numbers[2:]])
        assert t.select()["k"].dtype == np.uint64
        assert t.select()["k"].tolist() == numbers
        assert t.select("k >= ?", [2**63])["k"].tolist() == [2**63 + 1, 2**64 - 1, 2**63]
        assert t.select("k = ?", [2**64 - 1])["k"].tolist() == [2**64 - 1]
        assert t.update({"k": 2**63 + 2}, "k = ?", [2**63]) == 1
        assert t.delete("k < ?", [2**63 + 2]) == 3
        assert t.select()["k"].tolist() == [2**64 - 1, 2**63 + 2]
        with pytest.raises(fb.BadArgument, match="64 bits"):
            t.insert((2**64,))
        signed = run.table("signed", {"k": "i64"})
        with pytest.raises(fb.BadArgument, match="9223372036854775808"):
            signed.insert((2**63,))


def test_an_update_keeps_to_the_columns(stars: fb.Table) -> None:
    for wrong in ({"id": "text"}, {"id": 1.5}, {"id": 2**31}, {"id": float("nan")}, {"name": 3}):
        with pytest.raises(fb.BadArgument):
            stars.update(wrong)
    assert stars.select().tuples() == STARS
    assert stars.update({"mass": float("nan")}, "name = ?", ["Sun"]) == 1
    np.testing.assert_array_equal(stars.select()["mass"], [np.nan, 2.06, 0.12])


def test_frames_have_the_dtypes_of_their_columns(run_dir: Path) -> None:
    pandas = pytest.importorskip("pandas")
    with fb.open(run_dir) as run:
        t = run.table("t", {"v": "f32", "k": "u64", "s": str})
        t.insert([(float("nan"), 2**63, "x"), (0.5, 1, None)])
        frame = t.to_pandas()
        assert [frame[c].dtype for c in ("v", "k")] == [np.float32, np.uint64]
        assert frame["s"][0] == "x" and frame["s"].isna().tolist() == [False, True]
        assert frame["k"].tolist() == [2**63, 1]
        assert isinstance(frame, pandas.DataFrame)


@pytest.mark.parametrize(("dtype", "values"), [("str", ["9", "8"]), ("f64", [9.5, 8.5]), ("i64", [9, 8])])
def test_a_column_may_be_called_as_sqlite_calls_the_number_of_a_row(
    run_dir: Path, dtype: str, values: list[object]
) -> None:
    columns = {"RowID": dtype, "k": "i64"}
    for life in range(2):
        with fb.open(run_dir) as run:
            rows = run.table("atoms", columns, history=True)
            assert [row["k"] for row in rows.select()] == list(range(2 * life))
            for k, value in enumerate(values):
                rows.insert([(value, 2 * life + k)])
    with fb.open(run_dir) as run:
        kept = [(row["RowID"], row["k"]) for row in run.table("atoms", columns).select()]
        assert kept == [(v, 2 * life + k) for life in range(2) for k, v in enumerate(values)], "as they came"
        with pytest.raises(fb.BadArgument, match="rename one"):
            run.table("all", {"rowid": "i64", "oid": "i64", "_rowid_": "i64"})


def test_a_number_that_its_column_would_make_another_one_is_refused(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        t = run.table("a", {"f": "f64", "g": "f32"})
        t.insert([{"f": 2**53, "g": 2**24}, {"f": 2**63, "g": 0.1}, {"f": -(2**60), "g": 1e-40}])
        for column, value in [
            ("f", 2**53 + 1),
            ("f", 2**64 - 1),
            ("g", 2**24 + 1),
            ("g", 1e-50),
            ("g", 1e40),
        ]:
            with pytest.raises(fb.BadArgument, match=rf'table "a", column "{column}".*; '):
                t.insert([{column: value}])
            with pytest.raises(fb.BadArgument, match=rf'table "a", column "{column}".*; '):
                t.update({column: value})
        assert t.select()["f"].tolist() == [2.0**53, 2.0**63, -(2.0**60)]
        assert t.select()["g"].tolist() == [2.0**24, float(np.float32(0.1)), float(np.float32(1e-40))]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"i": "1"}, r'column "i": "1" does not go into a column of i8; give an integer from -128 to 127'),
        ({"i": 300}, r"300 does not go into a column of i8; give an integer"),
        ({"s": b"a"}, r'column "s": b"a" does not go into a column of str; give a text'),
        ({"f": np.arange(3.0)}, r'column "f": a list of 3 values is no cell.*; insert columns as rows'),
        ({"f": {}}, r'column "f": a value of type dict does not go into a table; use numbers'),
        ({"f": 2**64}, r'column "f": 18446744073709551616 is beyond 64 bits; '),
        ({"s": "a\ud800"}, r"the text 'a\\ud800' is not kept.*; "),
    ],
    ids=["text", "range", "bytes", "columns", "dict", "beyond", "half"],
)
def test_a_value_that_does_not_fit_is_named_as_it_was_given_with_what_to_give(
    run_dir: Path, row: dict[str, object], said: str
) -> None:
    with fb.open(run_dir) as run:
        t = run.table("a", {"f": "f64", "i": "i8", "s": "str"})
        with pytest.raises(fb.BadArgument, match=said):
            t.insert([row])
        assert len(t) == 0


def test_a_condition_that_fails_is_named_once_with_the_columns_there_are(stars: fb.Table) -> None:
    def change() -> None:
        stars.update({"mass": 1.0}, "nope > 1")

    for ask in (lambda: stars.select("nope > 1"), change, lambda: stars.delete("nope > 1")):
        with pytest.raises(fb.BadArgument) as error:
            ask()
        text = str(error.value)
        assert (
            'table "stars", condition "nope > 1": no such column: nope; the table has name str, mass f64'
            in text
        )
        assert text.count("nope > 1") == 1 and "SELECT" not in text and "ORDER" not in text, text


@pytest.mark.parametrize("row", [1, "xy", [1.0, 2.0], np.array([1.0, 2.0])])
def test_what_is_no_row_is_refused_with_what_is_one(run_dir: Path, row: object) -> None:
    with fb.open(run_dir) as run:
        table = run.table("t", {"a": "f8", "b": "f8"})
        with pytest.raises(
            fb.BadArgument, match=r"is no row for the table 't'; give a tuple of its columns, a, b"
        ):
            table.insert(row)
        assert len(table.select()) == 0
