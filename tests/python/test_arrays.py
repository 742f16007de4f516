"""What may be put and how it comes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
import pytest
from forebay._index import plan

DTYPES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "c8", "c16", "?"]


def some(dtype: str, shape: tuple[int, ...] = (3, 4)) -> np.ndarray[Any, Any]:
    values = np.arange(int(np.prod(shape))).reshape(shape)
    return (
        (values % 2 == 0) if dtype == "?" else (values * (1 + 2j) if "c" in dtype else values).astype(dtype)
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_comes_back_as_it_was(run_dir: Path, dtype: str) -> None:
    with fb.open(run_dir) as run:
        for name, array in {
            "C": some(dtype),
            "F": np.asfortranarray(some(dtype)),
            "big": some(dtype, (64, 1024)),
            "strided": some(dtype, (8, 9))[::2, ::-3],
            "none": some(dtype, (0, 5)),
            "scalar": some(dtype, ()),
        }.items():
            run.put(name, array)
            back = run.get(name)
            assert back.dtype == array.dtype
            assert back.shape == array.shape
            np.testing.assert_array_equal(back, array)


def test_another_byte_order_is_converted(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        run["x"] = np.array([1.5, -2.5], dtype=">f8")
        assert run["x"].dtype == np.dtype("=f8")
        np.testing.assert_array_equal(run["x"], [1.5, -2.5])


def test_texts_and_bytes_come_back_as_they_were(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        for name, value in {"text": "grüß Gott", "empty": "", "bytes": b"\0\xff", "nothing": b""}.items():
            run[name] = value
            assert run[name] == value
            assert type(run[name]) is type(value)
        run["array"] = bytearray(b"abc")
        assert run["array"] == b"abc"


def test_arrays_of_texts_come_back_as_they_were(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        run["names"] = np.array([["aß", "b"], ["", "long one"]])
        assert run["names"].tolist() == [["aß", "b"], ["", "long one"]]
        run["raw"] = np.array([b"xx", b"y"])
        assert run["raw"].tolist() == [b"xx", b"y"]


def test_plain_numbers_and_lists_are_arrays_too(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        run["pi"] = 3.25
        run["list"] = [[1, 2], [3, 4]]
        assert run["pi"].shape == ()
        assert float(run["pi"]) == 3.25
        np.testing.assert_array_equal(run["list"], [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (object(), "array of numbers"),
        (np.zeros(2, "f2"), "float16"),
        (np.array(["2020"], "M8[s]"), "astype('int64')"),
        (np.zeros(2, [("a", "f8")]), "each field"),
        ([1, "x", None], "array of numbers"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_a_remedy(run_dir: Path, value: object, says: str) -> None:
    with fb.open(run_dir) as run, pytest.raises(fb.BadArgument) as error:
        run.put("x", value)  # type: ignore[arg-type]
    assert says in str(error.value)


def test_an_array_that_was_read_is_the_readers_own(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        run["x"] = np.arange(5.0)
        mine = run["x"]
        mine[:] = 0
        np.testing.assert_array_equal(run["x"], np.arange(5.0))


@pytest.mark.parametrize(
    "sel",
    [
        np.s_[3],
        np.s_[-1],
        np.s_[2:9:3],
        np.s_[::-2],
        np.s_[..., 1],
        np.s_[1, ..., 2:4],
        np.s_[:, 3, ::-1],
        np.s_[None, 4:6],
        np.s_[5:2],
        np.s_[...],
        np.s_[1, 2, 3],
        np.s_[-3:, ::5, 1:2],
    ],
)
def test_a_selection_reads_what_numpy_would_give(run_dir: Path, sel: Any) -> None:
    array = np.arange(10 * 7 * 5).reshape(10, 7, 5)
    with fb.open(run_dir) as run:
        run["x"] = array
        np.testing.assert_array_equal(run.get("x", sel=sel), array[sel])
        assert np.shape(run.get("x", sel=sel)) == array[sel].shape
        with run.snapshot(1) as s:
            s.put("x", array)
        np.testing.assert_array_equal(run.snapshots.at(1).get("x", sel), array[sel])


@pytest.mark.parametrize(
    "sel", [10, -11, (0, 0, 0, 0), True, [1, 2], np.array([0]), "x", slice("a"), (..., ...), slice(0, 5, 0)]
)
def test_an_index_that_is_not_basic_or_leaves_the_array_is_refused(sel: Any) -> None:
    with pytest.raises(fb.BadArgument):
        plan(sel, (10, 7, 5))
