"""A rank that talks to no other: `rank.py RUN STEPS PAUSE`; STEPS `+6` is six more than there are.

At each step it puts its block of `E`, appends its own number of particles `x`, and notes the value of
the parameter `amp`; to a history it appends a `total` that is the same in all ranks, and its `own`. Ranks sleep PAUSE seconds a step, more for higher ranks, so that they drift apart.
What was acknowledged stands in the file RUN.RANK, whatever becomes of the process. At its end it prints
the steps at which the parameter changed, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time

import forebay as fb
import numpy as np

CELLS = 1000


def main() -> None:
    path, steps, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    more = sys.argv[2].startswith("+")
    run = fb.open(path, "a", buffer="8MiB")
    rank, size = run.rank, run.size
    last = run.restart()
    start = 0 if last is None else last.step
    there = 0 if last is None else last.step + 1
    amp = run.parameter("amp", 0.0, min=-1.0, max=1.0)
    history = run.diagram("history", "history")
    low, high = CELLS * rank // size, CELLS * (rank + 1) // size
    cells = np.arange(low, high, dtype=np.float64)
    particles = np.full(10 + rank, float(rank))
    changes: list[tuple[int, float]] = []
    acknowledged = os.open(f"{path}.{rank}", os.O_RDWR | os.O_CREAT)
    done = 0
    for step in run.steps(there + steps if more else steps, start=last):
        if amp.value != (changes[-1][1] if changes else 0.0):
            changes.append((step, amp.value))
        time.sleep(pause * (1 + rank))
        history.append(0.5 * step, total=float(step), own=float(rank))
        with run.snapshot(step, time=0.5 * step) as s:
            s.put("E", cells + step, units="V/m", offset=low, shape=CELLS)
            s.put("x", particles + step, units="m", offset="append")
        os.pwrite(acknowledged, step.to_bytes(8, "little"), 0)
        done += 1
    run.close()
    said = {"rank": rank, "size": size, "start": start, "done": done, "changes": changes}
    # One write, so that lines of ranks do not mingle in the launcher's output.
    sys.stdout.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    main()
