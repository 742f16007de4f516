"""Arrays kept with less precision: what a put of f8 costs the program, as it is and as f4, beside a copy of it.

    python benches/precision.py [MiB]

Each way has its turn in each round; the best of all rounds is printed, in ms.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import forebay as fb
import numpy as np

ROUNDS = 12


def main() -> None:
    """Prints a line for each way."""
    mib = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    field = np.random.default_rng(1).normal(size=mib << 17)
    apart = np.random.default_rng(1).normal(size=(mib << 17, 2))[:, 0]
    to = np.zeros_like(field)
    best: dict[str, float] = {}

    def timed(what: str, act: Callable[[], None]) -> None:
        began = time.perf_counter()
        act()
        took = 1e3 * (time.perf_counter() - began)
        best[what] = min(took, best.get(what, took))

    with (
        tempfile.TemporaryDirectory() as place,
        fb.open(Path(place) / "run.fb", buffer=f"{8 * mib}MiB") as run,
    ):
        for step in range(ROUNDS):
            with run.snapshot(step) as s:
                timed("memcpy", lambda: np.copyto(to, field))
                timed("put f8", lambda: s.put("f8", field))
                timed("put f8 as f4", lambda: s.put("f4", field, as_dtype="f4"))
                timed("put f8 as f2", lambda: s.put("f2", field, as_dtype="f2"))
                timed("put every other f8", lambda: s.put("apart", apart))
                timed("put every other f8 as f4", lambda: s.put("apart4", apart, as_dtype="f4"))
                timed("astype f4 and put", lambda: s.put("two", field.astype("f4")))
            s.wait()
            run.drop(step)
    print(f"{mib} MiB of f8, ms")
    for what, took in best.items():
        print(f"{what:26} {took:8.2f}  {took / best['memcpy']:5.2f} x memcpy")


if __name__ == "__main__":
    main()
