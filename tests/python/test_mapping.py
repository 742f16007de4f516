"""Arrays of a run as memory over its files, and what is read ahead of them."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from conftest import Place
from places import until

MUCH = 40_000


def test_a_mapped_data_set_is_what_it_was_when_it_was_mapped(run_dir: Path) -> None:
    first, second = np.arange(MUCH, dtype="f8"), np.zeros(MUCH)
    with fb.open(run_dir, buffer="8MiB") as run:
        run.put("x", first, 2)
        x = run.map("x", 2)
        assert x.base is not None and not x.flags.writeable and np.array_equal(x, first)
        run.put("x", second, 2)
        assert np.array_equal(run.get("x", 2), second)
        assert np.array_equal(run.map("x", 2), second)
        run.delete("x", 2)
        with pytest.raises(fb.NotFound, match="no data set"):
            run.map("x", 2)
    assert np.array_equal(x, first), "behind a put, a deletion and the end of the run"


def test_arrays_of_every_dtype_and_order_and_size_are_mapped_as_they_are_read(run_dir: Path) -> None:
    rng = np.random.default_rng(1)
    arrays = {}
    for dtype in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "?"):
        for shape in ((3,), (70_001,), (7, 5, 301)):
            arrays[f"{dtype} {shape}"] = rng.integers(0, 100, shape).astype(dtype)
    by_columns = np.asfortranarray(rng.random((123, 457)))
    arrays["of no elements"] = np.zeros((0, 3))
    arrays["one number"] = np.array(2.5)
    with fb.open(run_dir, buffer="64MiB") as run:
        with run.snapshot(3) as s:
            for name, array in arrays.items():
                run.put(name, array)
                s.put(name.replace("?", "b"), array)
            s.allocate("by columns", by_columns.shape, order="F")[:] = by_columns
        for name, array in arrays.items():
            for mapped in (run.map(name), run.snapshots[-1].map(name.replace("?", "b"))):
                assert mapped.dtype == array.dtype and mapped.shape == array.shape
                assert mapped.tobytes() == array.tobytes()
        mapped = run.snapshots[-1].map("by columns")
        assert mapped.flags.f_contiguous and np.array_equal(mapped, by_columns)
        run.put("text", "words")
        with pytest.raises(fb.BadArgument, match="no array of numbers; get it"):
            run.map("text")


@pytest.mark.usefixtures("no_agent")
def test_a_snapshot_that_is_mapped_stays_until_nobody_maps_it_any_more(run_dir: Path) -> None:
    with fb.open(run_dir, keep="last 1", buffer="8MiB") as run:

        def write(step: int) -> None:
            with run.snapshot(step) as s:
                s.put("x", np.full(MUCH, float(step)))
            run.flush()

        write(0)
        x = run.snapshots[-1].map("x")
        write(1)
        write(2)
        assert run.snapshots.numbers == [0, 2]
        assert x[-1] == 0
        del x
        gc.collect()
        write(3)
        assert run.snapshots.numbers == [3]


def test_an_array_larger_than_the_memory_of_a_process_is_mapped_in_it(place: Place, run_dir: Path) -> None:
    n = 16 << 20
    with fb.open(run_dir, buffer="256MiB") as run:
        run["x"] = np.arange(n, dtype="f8")
    text = """if True:
        import resource, sys, forebay as fb
        run = fb.open(sys.argv[1], "r")
        resource.setrlimit(resource.RLIMIT_DATA, (96 << 20, 96 << 20))
        x = run.map("x")
        print(x[-1], x[:: len(x) // 4].sum())
        try:
            run["x"]
        except (fb.Full, MemoryError):
            print("too large to be read")
    """
    assert place.run_python(text, run_dir) == f"{float(n - 1)} {float(n // 4 * 6)}\ntoo large to be read\n"


def test_a_file_that_was_cut_short_is_told_and_not_touched(run_dir: Path) -> None:
    with fb.open(run_dir, buffer="8MiB") as run:
        with run.snapshot(1) as s:
            s.put("x", np.ones(MUCH))
        run.flush()
        with (run_dir / "steps" / f"{1:010}.h5").open("r+b") as file:
            file.truncate(8192)
        with pytest.raises(fb.Corrupt, match="ends too early"):
            run.snapshots[-1].map("x")


def in_memory(file: Path) -> bool:
    """Whether the middle of a file is in memory. To try and read it would have it fetched."""
    array = np.memmap(file, np.uint8, "r")
    middle = array.ctypes.data + len(array) // 2 // mmap.PAGESIZE * mmap.PAGESIZE
    found = ctypes.create_string_buffer(1)
    assert ctypes.CDLL(None).mincore(ctypes.c_void_p(middle), ctypes.c_size_t(mmap.PAGESIZE), found) == 0
    return bool(found.raw[0] & 1)


def test_who_reads_step_after_step_finds_the_next_one_in_memory(run_dir: Path) -> None:
    with fb.open(run_dir, buffer="64MiB") as run:
        for step in range(0, 60, 10):
            with run.snapshot(step) as s:
                s.put("x", np.full(1_000_000, float(step)))
    files = sorted(run_dir.glob("steps/*.h5"))
    for file in files:
        descriptor = os.open(file, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
    if any(in_memory(file) for file in files):
        pytest.skip("this file system keeps everything in memory")
    with fb.open(run_dir, "r") as run:
        for step in (0, 10):
            assert (run.snapshots.at(step)["x"] == step).all()
        until(lambda: in_memory(files[2]))
        assert not in_memory(files[3])
        run.snapshots.at(50)["x"]
        run.snapshots.at(40)["x"]
        until(lambda: in_memory(files[3]))
