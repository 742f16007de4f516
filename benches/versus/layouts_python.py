"""layouts_python.py DIRECTORY MIB ROUNDS: arrays of several layouts put into snapshots, beside `numpy.copyto` of the
same view into an array that is there. Prints one line of JSON: milliseconds of each, the best of its rounds."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import forebay as fb
import numpy as np

Array = np.ndarray[Any, Any]


def views(mib: int) -> Iterator[tuple[str, Array]]:
    """Views of about so many MiB, or of the half of it."""
    a = np.random.default_rng(1).random((mib << 17) // 4096 * 4096).reshape(-1, 4096)
    yield "dense", a
    yield "rows backwards", a[::-1]
    yield "columns backwards", a[:, ::-1]
    yield "every second column", a[:, ::2]
    yield "the inner part", a[1:-1, 7:-7]
    yield "axes turned", a.reshape(-1, 64, 64).transpose(1, 0, 2)


def milliseconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1e3


def main(directory: str, mib: int, rounds: int) -> None:
    """Measures."""
    found = []
    with fb.open(f"{directory}/layouts", "w", buffer=4 * mib << 20) as run:
        for step, (name, view) in enumerate(views(mib)):
            there = np.empty(view.shape, view.dtype)
            put, copied = [], []
            for turn in range(rounds):
                copied.append(milliseconds(lambda there=there, view=view: np.copyto(there, view)))
                with run.snapshot(step * rounds + turn) as s:
                    put.append(milliseconds(lambda s=s, view=view: s.put("x", view)))
                run.flush()
            found.append({"view": name, "put_ms": min(put), "copyto_ms": min(copied)})
    print(json.dumps({"views": found}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
