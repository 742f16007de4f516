"""Very many small snapshots: WHO DIRECTORY COUNT. Prints JSON: how many became durable in a second, and what the run costs
whoever opens it then.

`forebay` takes them in a run; `raw` writes as many files of the same size, each synced and named, one by one.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import numpy as np

BYTES = 6500  # of such a snapshot's file


def forebay(place: Path, count: int) -> dict[str, float]:
    """One array of ten numbers a snapshot."""
    import forebay as fb

    values = np.arange(10.0)
    with fb.open(place / "many", "w", buffer="64MiB") as run:
        began = time.perf_counter()
        for step in range(count):
            with run.snapshot(step) as s:
                s.put("x", values)
        run.flush()
        took = time.perf_counter() - began
    opening = time.perf_counter()
    with fb.open(place / "many", buffer="64MiB") as run:
        opened = time.perf_counter()
        last = run.snapshots[-1].step
        looked = time.perf_counter()
    assert last == count - 1
    return {"steps_s": count / took, "open_ms": 1e3 * (opened - opening), "last_ms": 1e3 * (looked - opened)}


def raw(place: Path, count: int) -> dict[str, float]:
    """Durable one by one."""
    data = os.urandom(BYTES)
    names = os.open(place, os.O_RDONLY)
    began = time.perf_counter()
    for step in range(count):
        with (place / "tmp").open("wb", buffering=0) as file:
            file.write(data)
            os.fsync(file)
        (place / "tmp").rename(place / str(step))
        os.fsync(names)
    return {"steps_s": count / (time.perf_counter() - began)}


if __name__ == "__main__":
    who, folder, number = sys.argv[1:]
    print(json.dumps({"forebay": forebay, "raw": raw}[who](Path(folder), int(number))))
