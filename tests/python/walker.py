"""A rank whose state depends on all its past: `walker.py RUN STEPS PAUSE [TIME_LIMIT]`.

It keeps a snapshot every 50 steps, what Save asks for, and one at its end; it begins where the last one
is. At its end it prints where it began, where it ended and why, as JSON. How it is told to end is up
to the tests; what it has kept in the end must be what an undisturbed twin keeps.
"""

from __future__ import annotations

import json
import os
import sys
import time

import forebay as fb
import numpy as np

CELLS = 64


def main() -> None:
    path, steps, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    limit = float(sys.argv[4]) if len(sys.argv) > 4 else None
    run = fb.open(path, "a", buffer="8MiB")
    rank, low = run.rank, run.rank * CELLS
    last = run.restart()
    start, x = (0, np.linspace(0.1, 0.9, CELLS) + 0.01 * rank)
    if last is not None:
        start, x = last.step, last.get("x", np.s_[low : low + CELLS])

    def keep(step: int) -> None:
        with run.snapshot(step, time=0.1 * step) as s:
            s.put("x", x, offset=low, shape=run.size * CELLS)

    run.saves(keep)
    at = start
    for step in run.steps(steps, start=start, time_limit=limit):
        if step % 50 == 0 and step != start:
            keep(step)
        x = 3.9 * x * (1.0 - x) + 1e-4 * np.sin(step + rank)
        at = step + 1
        time.sleep(pause * (1 + rank))
        if step == start + 3:
            os.close(os.open(f"{path}.{rank}.looping", os.O_CREAT | os.O_WRONLY))
    if run.ended_by is None and at == steps:
        keep(steps)
    run.close()
    said = {"rank": rank, "start": start, "at": at, "ended_by": run.ended_by}
    # One write, so that lines of ranks do not mingle in the launcher's output.
    sys.stdout.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    main()
