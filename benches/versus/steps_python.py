"""Very many small snapshots, or data sets: WHO DIRECTORY COUNT. Prints JSON: how many became durable in a second, and what
the run costs whoever opens it then, and whoever recovers it when its program was killed.

`forebay` takes them in a run; `raw` writes as many files of the same size, each synced and named, one by one; `sets` puts
data sets beside each other and asks for one of them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
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
    killed = subprocess.run([sys.executable, __file__, "killed", str(place), str(count)], check=False)
    assert killed.returncode == -signal.SIGKILL
    recovering = time.perf_counter()
    command = Path(sys.executable).parent / "forebay"
    subprocess.run([command, "recover", place / "many.fb"], check=True, capture_output=True)
    recovered = time.perf_counter()
    with fb.open(place / "many", "r") as run:
        assert run.snapshots[-1].step == count
    return {
        "steps_s": count / took,
        "open_ms": 1e3 * (opened - opening),
        "last_ms": 1e3 * (looked - opened),
        "recover_ms": 1e3 * (recovered - recovering),
    }


def killed(place: Path, count: int) -> dict[str, float]:
    """One more snapshot, and the end of the program before it is durable."""
    import forebay as fb

    run = fb.open(place / "many", buffer="64MiB")
    run.restart()
    with run.snapshot(count) as s:
        s.put("x", np.arange(10.0))
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def sets(place: Path, count: int) -> dict[str, float]:
    """Small data sets, of which one is looked for, and one deleted: the best of ten."""
    import forebay as fb

    with fb.open(place / "sets", "w", buffer="64MiB") as run:
        for i in range(count):
            run.put(f"set/{i:07}", i)
        run.flush()
        looks, deletions = [], []
        for i in range(10):
            name = f"set/{count // 2 + i:07}"
            began = time.perf_counter()
            found = run.list(name)
            looked = time.perf_counter()
            del run[name]
            run.flush()
            looks.append(looked - began)
            deletions.append(time.perf_counter() - looked)
            assert len(found) == 1 and name not in run
    return {"look_ms": 1e3 * min(looks), "delete_ms": 1e3 * min(deletions)}


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
    does = {"forebay": forebay, "raw": raw, "killed": killed, "sets": sets}[who]
    print(json.dumps(does(Path(folder), int(number))))
