"""Data sets, descriptors and the life of a run."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
import pytest
from conftest import Place, until
from places import hear

pytestmark = pytest.mark.usefixtures("owner")


def test_a_run_is_a_directory_that_is_there_again(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        run.put(
            "E",
            np.arange(4.0),
            units="V/m",
            attrs={"where": "grid", "n": np.int64(3), "box": np.array([1.0, 2.0])},
        )
        run.attrs["title"] = "test"
        assert run.path == str(run_dir) or run.path.startswith("fb://")
        assert Path(run.path).name == run_dir.name
        assert (run.rank, run.size) == (0, 1)
    with fb.open(run_dir, "r") as run:
        assert run.read_only
        (found,) = run.list()
        assert (found.name, found.set, found.shape, found.units, found.version) == ("E", 0, (4,), "V/m", 1)
        assert found.dtype == np.float64
        assert found.nbytes == 32
        assert found.attrs.pop("box").tolist() == [1.0, 2.0]
        assert found.attrs == {"where": "grid", "n": 3}
        assert dict(run.attrs) == {"title": "test"}


def test_a_set_that_is_put_again_is_what_the_new_put_says(run_dir: Path) -> None:
    for elements in (3, 100_000):
        with fb.open(run_dir, "w") as run:
            run.put("x", np.ones(elements), units="m", attrs={"kind": "laser"})
            run["x"] = np.zeros(elements)
            [found] = run.list("x")
            assert (found.units, found.attrs, found.version) == ("", {}, 2)
            run.put("x", np.ones(elements), units="cm", attrs={"n": 1})
        with fb.open(run_dir, "r") as run:
            [found] = run.list("x")
            assert (found.units, found.attrs) == ("cm", {"n": 1})


def test_sets_of_one_name_are_apart(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        run.put("x", [1.0], set=0)
        run["x", 7] = [7.0]
        assert run["x"][0] == 1.0
        assert run["x", 7][0] == 7.0
        assert [(d.name, d.set) for d in run.list("x")] == [("x", 0), ("x", 7)]
        assert [d.set for d in run.list(set=7)] == [7]


def test_delete_rename_and_copy_say_how_many(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        for name in ("a/x", "a/y", "b*"):
            run[name] = 1.0
        assert run.rename("a/x", "a/z") == 1
        assert run.copy("a/y", "c") == 1
        assert "a/x" not in run
        assert "a/z" in run
        del run["b*"]
        assert run.delete("a/*") == 2
        assert [d.name for d in run.list()] == ["c"]
        with pytest.raises(fb.NotFound):
            run.rename("a/x", "q")
        with pytest.raises(fb.NotFound):
            del run["nothing"]


def test_a_conditional_put_is_for_the_faster_one(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        assert run.put("x", 1.0, if_version=0) == 1
        assert run.put("x", 2.0, if_version=1) == 2
        for stale in (0, 1, 9):
            with pytest.raises(fb.Conflict):
                run.put("x", 3.0, if_version=stale)
        assert float(run["x"]) == 2.0


def test_attributes_behave_as_a_dictionary(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        run["x"] = 1.0
        for attrs in (run.attrs, run.dataset("x").attrs, run.table("t", {"a": int}).attrs):
            attrs["a"] = [1, {"b": "ß"}]
            attrs.update(c=True, d=2.5)
            assert dict(attrs) == {"a": [1, {"b": "ß"}], "c": True, "d": 2.5}
            del attrs["c"]
            with pytest.raises(KeyError):
                del attrs["c"]
            assert sorted(attrs) == ["a", "d"]
            with pytest.raises(fb.BadArgument):
                attrs["bad"] = object()


def test_attributes_come_back_as_they_were_or_are_refused(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        run.put("x", 1.0, attrs={"best": np.array([0.1, np.inf, -np.inf])})
        for found in (run.dataset("x").attrs["best"], run.list()[0].attrs["best"]):
            assert found.dtype == np.float64 and found.tolist() == [0.1, np.inf, -np.inf]
        for attrs in (run.attrs, run.dataset("x").attrs, run.table("t", {"a": int}).attrs):
            check_values(attrs)
    with fb.open(run_dir, "r") as run:
        for attrs in (run.attrs, run.dataset("x").attrs, run.table("t").attrs):
            assert attrs["none"] is None and attrs["list"] == [1, '"a"', [None, 2**70]]


def check_values(attrs: MutableMapping[str, Any]) -> None:
    """Attributes of every kind, of whatever has some."""
    attrs.update(loss=float("nan"), deep={"in": [{"it": np.float32("nan")}]}, top=2**64 - 1, low=-(2**63))
    assert np.isnan(attrs["loss"]) and np.isnan(attrs["deep"]["in"][0]["it"])
    assert (attrs["top"], attrs["low"]) == (2**64 - 1, -(2**63))
    for value in (
        2**70,
        2**64,
        -(2**63) - 1,
        [1, {"a": 2**70}],
        None,
        1.0,
        2 - 1j,
        b"\x00",
        {"$": {"$$a": 1}},
    ):
        attrs["any"] = value
        assert attrs["any"] == value and type(attrs["any"]) is type(value)
    array = np.arange(6, dtype=">i2").reshape(2, 3)
    attrs["$any"] = array
    assert attrs["$any"].dtype == np.int16 and np.array_equal(attrs["$any"], array)
    del attrs["$any"], attrs["any"]
    assert {"deep", "loss", "low", "top"} <= set(attrs) and "any" not in attrs
    with pytest.raises(fb.BadArgument, match="key 1"):
        attrs["bad"] = {1: "one"}
    assert "bad" not in attrs
    attrs.update(none=None, list=[1, '"a"', [None, 2**70]])


def test_what_is_not_there_is_not_found(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        with pytest.raises(fb.NotFound) as error:
            run["nothing"]
        assert "nothing" in str(error.value)
        assert error.value.code == "NotFound"
        with pytest.raises(LookupError):
            run.dataset("nothing").info  # noqa: B018


@pytest.mark.parametrize("name", ["", "/x", "a//b", "../x", "a\nb", "x" * 256])
def test_a_name_that_would_confuse_a_reader_is_refused(run_dir: Path, name: str) -> None:
    with fb.open(run_dir) as run, pytest.raises(fb.BadArgument):
        run.put(name, 1.0)


def test_modes_are_those_of_h5py(run_dir: Path) -> None:
    for mode in ("r", "r+"):
        with pytest.raises(fb.NotFound):
            fb.open(run_dir, mode)  # type: ignore[arg-type]
    with fb.open(run_dir, "x") as run:
        run["x"] = 1.0
    with pytest.raises(fb.Conflict):
        fb.open(run_dir, "x")
    with fb.open(run_dir, "r+") as run:
        assert "x" in run
    with fb.open(run_dir, "w") as run:
        assert "x" not in run
    with pytest.raises(fb.BadArgument):
        fb.open(run_dir, "q")  # type: ignore[arg-type]


def test_a_reader_does_not_write(run_dir: Path) -> None:
    fb.open(run_dir).close()
    with fb.open(run_dir, "r") as run:
        for write in (lambda: run.put("x", 1.0), lambda: run.snapshot(1), lambda: run.attrs.update(a=1)):
            with pytest.raises(fb.ReadOnly):
                write()


def test_a_closed_run_says_so(run_dir: Path) -> None:
    run = fb.open(run_dir)
    run.close()
    run.close()
    assert run.closed
    for use in (
        lambda: run.put("x", 1.0),
        lambda: run.get("x"),
        lambda: run.snapshot(0),
        lambda: run.flush(),
    ):
        with pytest.raises(fb.Closed):
            use()


def test_a_scratch_run_leaves_nothing(run_dir: Path) -> None:
    with fb.open(run_dir, scratch=True) as run:
        run["x"] = np.zeros(10)
    # An agent removes it when the last rank has left.
    until(lambda: not run_dir.exists(), what="the end of the run")


def test_statistics_tell_what_output_cost(owner: str, run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        with run.snapshot(0) as s:
            s.put("x", np.zeros(100_000))
        run.flush()
        stats = run.stats()
        assert stats["written_bytes"] >= 800_000
        assert stats["durable_step"] == 0
        assert 0 < stats["visible_s"] < 10
        assert (stats["owner"], stats["buffer_in"]) == (
            "embedded" if owner == "embedded" else "agent",
            "memory",
        )
        assert (stats["late_errors"], stats["waiting_for_disk"]) == (0, False)
        # No copy was large enough to tell how fast memory is.
        assert stats["ideal_s"] is stats["copy_bytes_per_s"] is None


def test_statistics_compare_output_with_copying_alone(run_dir: Path) -> None:
    with fb.open(run_dir, buffer="64MiB") as run:
        field = np.ones(1_000_000)
        for step in range(4):
            with run.snapshot(step) as s:
                s.put("E", field)
        stats = run.stats()
        assert stats["ideal_s"] == pytest.approx(4 * field.nbytes / stats["copy_bytes_per_s"], rel=0.01)
        assert 0 < stats["ideal_s"] <= stats["visible_s"]
        assert stats["high_water_bytes"] >= field.nbytes


@pytest.mark.parametrize("way", ["pass", "import sys; sys.exit(3)", "raise RuntimeError('on purpose')"])
def test_whatever_way_the_interpreter_ends_what_was_put_is_written(
    place: Place, run_dir: Path, way: str
) -> None:
    code = f"""
import sys, numpy, forebay
run = forebay.open(sys.argv[1])
run["x"] = numpy.arange(1000.0)
with run.snapshot(3) as s:
    s.put("y", numpy.ones(50_000))
{way}
"""
    process = place.python(code, run_dir)
    process.communicate(timeout=30)
    with fb.open(run_dir, "r") as run:
        assert run["x"].sum() == 499_500.0
        assert run.snapshots.numbers == [3]


def test_the_child_of_a_fork_gets_a_clear_error(place: Place, run_dir: Path) -> None:
    code = """
import os, sys, forebay
run = forebay.open(sys.argv[1])
run["x"] = 1.0
if os.fork() == 0:
    try:
        run["y"] = 2.0
    except forebay.Closed as error:
        print("child:", error, flush=True)
    os._exit(0)
os.wait()
run["z"] = 3.0
run.close()
"""
    assert "child: " in place.run_python(code, run_dir)
    with fb.open(run_dir, "r") as run:
        assert sorted(d.name for d in run.list()) == ["x", "z"]


def test_the_run_opens_without_us(run_dir: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with fb.open(run_dir) as run:
        run.table("history", {"t": "f64"}, {"t": "s"}).insert([(0.5,), (1.5,)])
        with run.snapshot(20, time=2.0) as s:
            s.put("electrons/x", np.arange(5000.0), units="m")
    with h5py.File(run_dir / "steps" / "0000000020.h5") as file:
        (found,) = [v for v in _datasets(file) if v.name.endswith("electrons/x")]
        np.testing.assert_array_equal(found[:], np.arange(5000.0))
    with sqlite3.connect(f"file:{run_dir / 'catalog.sqlite'}?mode=ro", uri=True) as catalog:
        tables = [
            row[0]
            for row in catalog.execute("select name from sqlite_master where type in ('table', 'view')")
        ]
        assert any("history" in name for name in tables), tables


def _datasets(group: object) -> list[object]:
    found: list[object] = []
    group.visititems(lambda name, item: found.append(item) if hasattr(item, "dtype") else None)  # type: ignore[attr-defined]
    return found


def test_ctrl_c_ends_a_wait(place: Place, run_dir: Path) -> None:
    code = """
import os, sys, forebay
run = forebay.open(sys.argv[1], rank=0, size=2)
with run.snapshot(0) as snapshot:
    snapshot.put("a", [1.0])
try:
    print("ready", flush=True)
    snapshot.wait()  # for a rank that never comes
except KeyboardInterrupt:
    print("interrupted", flush=True)
os._exit(0)
"""
    process = place.python(code, run_dir)
    hear(process, "ready")
    os.kill(process.pid, signal.SIGINT)
    try:
        out, _ = process.communicate(timeout=5)
    except subprocess.TimeoutExpired:
        pytest.fail("Ctrl-C was not heard")
    assert out == "interrupted\n"
    until(lambda: process.poll() == 0)
