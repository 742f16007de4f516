"""Arrays of every layout are stored from where their elements lie: no copy is made before the one into the arena."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import forebay as fb
import h5py
import numpy as np
import pytest

Array = np.ndarray[Any, Any]
DTYPES = ["i1", "u2", "f4", "f8", "c16", "?"]


def numbers(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    bits: Array = rng.integers(0, 100, shape)
    return (bits + 1j * bits[..., ::-1] if dtype == "c16" else bits).astype(dtype)


def random_view(rng: np.random.Generator, elements: int) -> Array:
    """A view of about so many elements: of some rank, with steps of either sign, axes in any order, some of them
    broadcast, some taken by index.
    """
    rank = int(rng.integers(1, 6))
    extents = [max(1, round(elements ** (1 / rank))) for _ in range(rank)]
    steps = [int(rng.choice([1, 1, 2, 3, -1, -2])) for _ in range(rank)]
    starts = [int(rng.integers(0, 4)) for _ in range(rank)]
    whole = tuple(n * abs(step) + 2 * start for n, step, start in zip(extents, steps, starts, strict=True))
    base = numbers(rng, str(rng.choice(DTYPES)), whole)
    if rng.random() < 0.3:
        base = np.asfortranarray(base)
    index: list[Any] = []
    for n, start, step in zip(whole, starts, steps, strict=True):
        inner = slice(start, n - start or None)
        index.append(
            slice(inner.stop, inner.start or None, step) if step < 0 else slice(start, inner.stop, step)
        )
    view: Array = base[tuple(index)]
    if rng.random() < 0.2 and rank > 1:
        view = view[:, 0]
    if rng.random() < 0.5:
        view = view.transpose(rng.permutation(view.ndim))
    if rng.random() < 0.2:
        view = np.broadcast_to(view, (2, *view.shape))
    if rng.random() < 0.1:
        view = view[:0]
    return view


@pytest.mark.parametrize("elements", [50, 3_000, 40_000], ids=["inline", "small", "in blocks"])
def test_views_of_any_layout_come_back_as_numpy_has_them(run_dir: Path, elements: int) -> None:
    rng = np.random.default_rng(elements)
    views = [random_view(rng, elements) for _ in range(60)]
    assert sum(not (v.flags.c_contiguous or v.flags.f_contiguous) for v in views) > 30
    with fb.open(run_dir, buffer="64MiB") as run:
        with run.snapshot(0) as s:
            for i, view in enumerate(views):
                run.put(f"v{i}", view)
                s.put(f"v{i}", view)
        kept = run.snapshots.at(0)
        for i, view in enumerate(views):
            for back in (run.get(f"v{i}"), kept.get(f"v{i}")):
                assert back.dtype == view.dtype
                np.testing.assert_array_equal(back, view, err_msg=f"view {i}: {view.shape} {view.strides}")


def test_fields_of_records_and_reinterpreted_parts_are_views_too(run_dir: Path) -> None:
    records = np.zeros(20_000, dtype=[("tag", "u1"), ("x", "f8"), ("n", "i2")])
    records["x"] = np.arange(20_000)
    waves = np.arange(30_000) * (1 - 2j)
    with fb.open(run_dir) as run:
        for name, view in {"crooked": records["x"], "real": waves.real, "imag": waves.imag[::-3]}.items():
            run[name] = view
            np.testing.assert_array_equal(run[name], view)


@pytest.mark.parametrize("shape", [(3, 3), (300, 200)], ids=["inline", "in blocks"])
def test_an_array_in_fortran_order_is_indexed_by_h5py_as_in_the_program(
    run_dir: Path, shape: tuple[int, int]
) -> None:
    array = np.asfortranarray(np.arange(float(np.prod(shape))).reshape(shape))
    with fb.open(run_dir) as run:
        run["F"] = array
        with run.snapshot(0) as s:
            s.put("F", array)
            s.put("pieces", array[:1], offset=(0, 0), shape=shape)
            s.put("pieces", array[1:], offset=(1, 0), shape=shape)
        s.wait()
        run.flush()
        for back in (run["F"], run.snapshots[0]["F"], run.snapshots[0]["pieces"]):
            np.testing.assert_array_equal(back, array)
    for file in [*run_dir.glob("steps/*.h5"), *run_dir.glob("data/*.h5")]:
        with h5py.File(file) as f:
            for name in {"F", "pieces"} & set(f):
                np.testing.assert_array_equal(f[name][:], array)
                assert f[name].attrs["dataOrder"] == "C"


def test_what_is_allocated_in_fortran_order_is_not_transposed(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        with run.snapshot(0) as s:
            s.allocate("F", (300, 200), order="F")[:] = np.arange(60_000.0).reshape(300, 200)
        s.wait()
        assert run.snapshots[0]["F"].flags.f_contiguous
    with h5py.File(run_dir / "steps" / "0000000000.h5") as f:
        assert f["F"].attrs["dataOrder"] == "F"
        np.testing.assert_array_equal(f["F"][:].T, np.arange(60_000.0).reshape(300, 200))


def test_a_view_larger_than_the_buffer_goes_in_pieces(run_dir: Path) -> None:
    view = np.arange(5 << 20, dtype="f4").reshape(1 << 10, -1)[:, ::-1][::-1, 1:]
    assert view.nbytes > 16 << 20
    with fb.open(run_dir, buffer="8MiB") as run:
        for step in range(2):
            with run.snapshot(step) as s:
                s.put("view", view)
                s.put("turned", view.T[::2])
        for kept in run.snapshots:
            np.testing.assert_array_equal(kept["view"], view)
            np.testing.assert_array_equal(kept["turned"], view.T[::2])


def test_a_block_of_a_global_array_may_be_a_view(run_dir: Path) -> None:
    field = np.arange(200.0 * 300).reshape(200, 300)
    with fb.open(run_dir) as run:
        with run.snapshot(0) as s:
            s.put("field", field[:, ::-1][:100], offset=(0, 0), shape=field.shape)
            s.put("field", field[:, ::-1][100:], offset=(100, 0), shape=field.shape)
        np.testing.assert_array_equal(run.snapshots[0]["field"], field[:, ::-1])


def test_nothing_is_copied_on_the_way(run_dir: Path) -> None:
    array = np.arange(1 << 21, dtype="f8").reshape(1 << 10, -1)
    with fb.open(run_dir, buffer="64MiB") as run, run.snapshot(0) as s:
        tracemalloc.start()
        try:
            for i, view in enumerate(
                [array[::-1], array[:, ::2], array.reshape(16, 64, -1).transpose(1, 0, 2)]
            ):
                run.put(f"v{i}", view)
                s.put(f"v{i}", view)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert most < array.nbytes / 8, f"{most} bytes were taken"


def test_another_byte_order_is_still_copied_and_converted(run_dir: Path) -> None:
    view = np.arange(40_000, dtype=">i4")[::2]
    with fb.open(run_dir) as run:
        run["x"] = view
        np.testing.assert_array_equal(run["x"], view)
        assert run["x"].dtype == np.dtype("=i4")
