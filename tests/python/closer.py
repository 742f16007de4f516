"""A program, or a rank, whose `close` waits for its disk: `closer.py RUN STEPS [HOW]`.

It takes its steps, says `closing` when the wait of its `close` is under way, and what became of it.
HOW: `again` closes once more when a line comes after Ctrl-C, `loop` waits in its body for a first Ctrl-C.
"""

from __future__ import annotations

import signal
import sys
import threading
import time

import forebay as fb
import numpy as np

N = 400_000


def say(word: str) -> None:
    """One write, so that words of ranks do not mingle."""
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


def announce(thread: int) -> None:
    """Says `closing` when the thread has been in `close` for ten looks: it waits there."""
    looks = 0
    while looks < 10:
        frame = sys._current_frames()[thread]
        looks = looks + 1 if frame.f_code.co_name == "_close" else 0
        time.sleep(0.01)
    say("closing")


def main() -> None:
    # Who was started in the background has Ctrl-C ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    path, steps, how = sys.argv[1], int(sys.argv[2]), (sys.argv[3:] or [""])[0]
    threading.Thread(target=announce, args=(threading.get_ident(),), daemon=True).start()
    with fb.open(path, buffer="32MiB") as run:
        share = N // run.size
        for step in run.steps(steps):
            with run.snapshot(step) as s:
                s.put("E", np.full(share, float(step)), offset=run.rank * share, shape=N)
        if how == "loop":
            say("looping")
            while True:
                time.sleep(0.01)
        try:
            run.close()
        except KeyboardInterrupt:
            say("interrupted")
            if how != "again":
                raise
            sys.stdin.readline()
            run.close()
            say("closed")


if __name__ == "__main__":
    main()
