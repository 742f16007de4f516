"""Arrays that are compressed by a filter which HDF5 does not have, read by those who have it."""

from __future__ import annotations

from pathlib import Path

import forebay as fb
import h5py
import hdf5plugin  # noqa: F401 (h5py has its filters then)
import numpy as np


def test_h5py_with_hdf5plugin_reads_zstd_and_takes_no_flipped_byte_for_numbers(run_dir: Path) -> None:
    # Noise in the lower bytes, which are packed as they are: there nothing but the checksum sees a flip.
    field = np.linspace(0, 1, 200_000) + 1e-9 * np.random.default_rng(0).random(200_000)
    with fb.open(run_dir, compress="zstd") as run, run.snapshot(0) as s:
        s.put("T", field)
        s.put("halves", field[:100_000], offset=0, shape=200_000, fill=0)
    file = run_dir / "steps" / "0000000000.h5"
    with h5py.File(file) as f:
        assert (f["T"][()] == field).all() and (f["halves"][:100_000] == field[:100_000]).all()
        assert not f["halves"][100_000:].any()
        where = [f["T"].id.get_chunk_info(n) for n in range(f["T"].id.get_num_chunks())]
        assert all(chunk.filter_mask == 0 for chunk in where)
    content = file.read_bytes()
    refused = 0
    for chunk in where:
        for at in range(chunk.byte_offset, chunk.byte_offset + chunk.size, chunk.size // 30):
            damaged = bytearray(content)
            damaged[at] ^= 1 << at % 8
            file.write_bytes(damaged)
            with h5py.File(file) as f:
                try:
                    assert (f["T"][()] == field).all(), at
                except OSError:
                    refused += 1
    assert refused > 25 * len(where)
