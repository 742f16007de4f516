"""Arrays that are kept with less precision: converted while they are copied."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import forebay as fb
import h5py
import numpy as np
import pytest
from places import Place, ended

RNG = np.random.default_rng(7)
T = RNG.normal(size=(300, 40)) * 10.0 ** RNG.integers(-8, 8, (300, 40))


def file_of(run_dir: Path, step: int) -> Path:
    return run_dir / "steps" / f"{step:010}.h5"


def test_an_array_is_kept_as_the_nearest_of_the_shorter_dtype_wherever_its_elements_lie(
    run_dir: Path,
) -> None:
    big = RNG.normal(size=(3, 700_000))
    many: dict[str, tuple[Any, str]] = {
        "f4": (T, "f4"),
        "f2": (T.astype("f4"), "f2"),
        "f8 as f2": (T, "f2"),
        "strided": (T[::-3, 1::2], "f4"),
        "columns": (np.asfortranarray(T), "f4"),
        "turned": (T.T, "f2"),
        "c8": (T + 1j * T[::-1], "c8"),
        "one": (np.float64(0.1), "f4"),
        "none": (np.empty((0, 3)), "f4"),
        "n": (np.arange(-200, 200).reshape(20, 20)[:, ::2], "i2"),
        "big": (big, "f4"),
        "big and apart": (big[:, ::2], "f4"),
        "other order of bytes": (T.astype(">f8"), "f4"),
    }
    with fb.open(run_dir, buffer="4MiB") as run:
        with np.errstate(over="ignore"), run.snapshot(1) as s:
            for name, (array, dtype) in many.items():
                s.put(name, array, as_dtype=dtype)
            s.put("same", T, as_dtype=np.float64, attrs={"note": 1})
            many = {
                name: (array.astype(dtype), array.dtype.newbyteorder("="))
                for name, (array, dtype) in many.items()
            }
        s.wait()
        snap = run.snapshots.at(1)
        names = {"float64": "f64", "float32": "f32", "complex128": "c128", "int64": "i64"}
        for name, (kept, original) in many.items():
            assert snap.dataset(name).dtype == kept.dtype, name
            np.testing.assert_array_equal(snap[name], kept, err_msg=name)
            assert snap.attrs(name) == {"original_dtype": names[original.name]}, name
        np.testing.assert_array_equal(snap["same"], T)
        assert snap.attrs("same") == {"note": 1}
        infinite = sum(int(np.isinf(kept).sum()) for kept, _ in many.values() if kept.dtype.kind in "fc")
        assert infinite > 0 and run.stats()["lost_range"] == infinite
        run.flush()
        told = run.sql("select text from fb_messages where text like '%are infinite there'")["text"]
        assert len(told) == sum(bool(np.isinf(kept).any()) for kept, _ in many.values())
    with h5py.File(file_of(run_dir, 1)) as f:
        assert f["f4"].dtype == np.float32 and f["f4"].attrs["original_dtype"] == "f64"


def test_blocks_meshes_and_particles_are_kept_with_less_precision(run_dir: Path, place: Place) -> None:
    program = """
import sys, numpy as np, forebay as fb
run = fb.open(sys.argv[1], buffer="8MiB")
me = run.rank
rows = np.arange(8.0).reshape(2, 4) / 3 + me
with run.snapshot(1) as s:
    s.put("T", rows, offset=(4 * me, 0), shape=(8, 5), fill=0.5, as_dtype="f4", dims=("row", "column"),
          attrs={"valid_max": 9.0})
    s.put("over", np.full((2, 5), me / 3), offset=(0, 0), shape=(2, 5), overlap="last", as_dtype="f2")
    s.mesh("E", {"x": rows, "y": rows + 1}, spacing=0.5, offset=(2 * me, 0), shape=(4, 4), as_dtype="f4")
    s.particles("e", {"x": rows[0]}, momentum=rows.T[:, :2], id=np.arange(4) + 4 * me, mass=1.5, charge=np.full(4, 2.0, "f4"),
                as_dtype="f4", offset="append")
    s.particles("p", {"x": rows[0]}, id=np.arange(4), as_dtype={"id": "u1"}, offset="append")
s.wait(60)
try:
    with run.snapshot(2) as s:
        s.put("T", rows, offset=(2 * me, 0), shape=(4, 4), **({"as_dtype": "f4"} if me else {}))
    s.wait(60)
    raise AssertionError("dtypes differ")
except fb.Error as e:
    assert "f32" in str(e) and "f64" in str(e), e
try:
    run.close()
except fb.Error:
    pass
"""
    for rank in place.ranks(2, sys.executable, "-c", program, run_dir):
        ended(rank)
    rows = np.arange(8.0).reshape(2, 4) / 3
    both = np.concatenate([rows, rows + 1])
    with fb.open(run_dir, "r") as run:
        snap = run.snapshots.at(1)
        whole = np.full((8, 5), 0.5, "f4")
        whole[:2, :4], whole[4:6, :4] = both[:2], both[2:]
        np.testing.assert_array_equal(snap["T"], whole)
        assert snap["T"].dtype == np.float32 and snap.dims("T") == ("row", "column")
        assert snap.attrs("T")["valid_max"].dtype == np.float32
        np.testing.assert_array_equal(snap["over"], np.full((2, 5), np.float16(1 / 3)))
        np.testing.assert_array_equal(snap["E"]["y"], (both + 1).astype("f4"))
        e, p = snap["e"], snap["p"]
        np.testing.assert_array_equal(e["position"]["x"], both[[0, 2]].ravel().astype("f4"))
        dtypes = {name: e[name].dtype.name for name in ("momentum", "id", "charge")}
        assert dtypes == {"momentum": "float32", "id": "int64", "charge": "float32"} and e["mass"] == 1.5
        assert p["id"].dtype == np.uint8 and p["position"]["x"].dtype == np.float64
        assert "original_dtype" not in snap.attrs("e/charge")
    place.command("verify", run_dir)


def test_what_a_shorter_dtype_does_not_hold_is_refused_before_anything_is_sent(run_dir: Path) -> None:
    numbers = np.arange(40_000).reshape(4, 10_000)
    with fb.open(run_dir) as run:
        with run.snapshot(1) as s:
            for act, text in (
                (
                    lambda: s.put("n", numbers, as_dtype="i2"),
                    r'"n": the element \[3, 2768\] is 32768, and no value of the dtype i16',
                ),
                (lambda: s.put("n", numbers.T, as_dtype="i2"), r"\[2768, 3\] is 32768"),
                (lambda: s.put("n", -numbers, as_dtype="u4"), r"\[0, 1\] is -1"),
                (lambda: s.put("n", numbers, as_dtype="f4"), "use i8 or"),
                (lambda: s.put("n", T, as_dtype="i8"), "use f32 or f16"),
                (lambda: s.put("n", T.astype("f4"), as_dtype="f8"), "use f16"),
                (lambda: s.put("n", "text", as_dtype="u1"), "leave it out"),
                (
                    lambda: s.put("n", T, as_dtype="f4", fill=0.1, offset=(0, 0), shape=T.shape),
                    "no value of the dtype f32",
                ),
                (lambda: s.mesh("m", {"x": numbers % 9, "y": numbers}, as_dtype="i1"), r"element \[0, 128\]"),
                (lambda: s.particles("e", {"x": T[0]}, id=np.full(40, 256), as_dtype={"id": "u1"}), "is 256"),
                (lambda: s.particles("e", {"x": T[0]}, as_dtype={"ID": "u1"}), "no such record"),
            ):
                with pytest.raises(fb.BadArgument, match=text):
                    act()
            s.put("n", numbers, as_dtype="u2")
        assert run.snapshots.at(1).names() == ["n"]
        np.testing.assert_array_equal(run.snapshots.at(1)["n"], numbers)


def test_a_strict_restart_goes_on_from_no_array_of_less_precision(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        for step, options in ((1, {}), (2, {"as_dtype": "f4"})):
            with run.snapshot(step) as s:
                s.put("T", T, **options)
            run.checkpoint("full" if step == 1 else "reduced")
        run.close()
    with fb.open(run_dir) as run:
        with pytest.raises(fb.Conflict, match=r'step 2 .*"T" \(f64\)'):
            run.restart(strict=True)
        with pytest.raises(fb.Conflict, match="less precision"):
            run.restart("reduced", strict=True)
        snap = run.restart()
        assert snap is not None and snap.step == 2
        again = run.restart("full", strict=True)
        assert again is not None and again.step == 1
        texts = run.sql("select text from fb_messages")["text"]
        assert [text for text in texts if "less precision" in text]
