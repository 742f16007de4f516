"""The program that is hurt, in Python: a single rank of what `program.rs` does, with the same log."""

from __future__ import annotations

import os
import time
from pathlib import Path

import forebay as fb
import numpy as np

PIECE, LARGE, STATE = 3_000, 20_000, 500
AHEAD = 2
THIRD = 1.0 / 3.0
DONE, TOLD, LOST = 0, 3, 4
PASSING = (fb.Conflict, fb.ServerLost, fb.Timeout, fb.NoServer)

DIR = Path(os.environ["CHAOS_DIR"])
RANK, SIZE = int(os.environ["CHAOS_RANK"]), int(os.environ["CHAOS_SIZE"])
CALLS = bool(os.environ.get("CHAOS_CALLS"))
START = os.environ["CHAOS_START"]
LOG = os.open(DIR / f"log.{RANK}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)


def log(line: str) -> None:
    """One write: a process killed here has written the line or nothing."""
    os.write(LOG, f"{line}\n".encode())


def field(step: int, n: int) -> np.ndarray:
    """The numbers of a step."""
    return step * 1e6 + RANK * 1e5 + np.arange(n) * 0.25


def open_run() -> fb.Run:
    """A rank of before may be about to be noticed, or an owner be stopped just now."""
    until = time.monotonic() + 10.0
    while True:
        try:
            return fb.open(DIR / "chaos", buffer=8 << 20, rank=RANK, size=SIZE)
        except PASSING:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


def say(name: str, what: str) -> None:
    """Tells the other ranks."""
    (DIR / f"{name}.{RANK}").write_text(f"{START} {what}")


def said(name: str, rank: int) -> str:
    """What another rank of this start has told."""
    try:
        text = (DIR / f"{name}.{rank}").read_text()
    except OSError:
        return ""
    return text.removeprefix(f"{START} ") if text.startswith(f"{START} ") else ""


def meet(back: int) -> None:
    """All ranks of this start see the same last step."""
    say("here", str(back))
    for rank in range(SIZE):
        while said("here", rank) != str(back):
            time.sleep(0.001)


def keep_together(step: int) -> None:
    """No rank is far ahead of another."""
    say("at", str(step))
    for rank in range(SIZE):
        while rank != RANK and int(said("at", rank) or -9) < step - AHEAD:
            time.sleep(0.001)


def last_step() -> int | None:
    """The last step, once the driver has named it."""
    try:
        return int((DIR / "stop").read_text())
    except (OSError, ValueError):
        return None


def take(run: fb.Run, step: int, state: np.ndarray) -> None:
    """A snapshot of everything."""
    values = field(step, PIECE)
    with run.snapshot(step, time=step * 0.1) as s:
        for name, piece in (("electrons/x", values), ("state", state)):
            s.put(name, piece, offset=(RANK * len(piece),), shape=(SIZE * len(piece),))
        s.put("behind", values[: 10 + RANK], offset="append")
        if RANK == 0:
            s.put("E", values[:64])


def put_all(run: fb.Run, step: int) -> None:
    """Data sets of the rank's own."""
    log(f"p {step}")
    run.put(f"small/{RANK}", np.array([step]))
    log(f"P {step}")
    if step % 4 == 1:
        log(f"g {step}")
        run.put(f"large/{RANK}", field(step, LARGE))
        log(f"G {step}")


def simulate() -> None:
    run = open_run()
    kept = run.restart()
    back = kept.step if kept else -1
    state = kept.get("state")[RANK * STATE : (RANK + 1) * STATE].copy() if kept else np.zeros(STATE)
    table = run.table("history", {"at": "i64", "value": "f64"}, units={"value": "J"}, history=True)
    log(f"o {back}")
    diagram = run.diagram("Energy", "history")
    client = fb.connect() if CALLS else None
    meet(back)
    for step in run.steps(1 << 40, start=max(back, 0)):
        last = last_step()
        if last is not None and step > last:
            break
        keep_together(step)
        if RANK == 0 and step > 0:
            log(f"r {step}")
            table.insert([(step, step * 0.5)])
            diagram.append(float(step), E=step * 0.5)
            log(f"R {step}")
        if step > back:
            log(f"b {step}")
            take(run, step, state)
            log(f"E {step}")
        put_all(run, step)
        x = field(step, STATE)
        if client:
            call = client.call_async("axpy", THIRD, x, state)
            call.wait(15.0)
            log(f"C {step} {call.timing['reissued']}")
        else:
            state += THIRD * x
        if step % 5 == 4:
            run.flush()
            log(f"F {step}")
        time.sleep(0.001)
    run.close()
    log("D ")


def play() -> int:
    try:
        simulate()
    except fb.Error as e:
        log(f"X {type(e).__name__}: {e}".replace("\n", " "))
        return TOLD
    except Exception as e:
        log(f"! {type(e).__name__}: {e}".replace("\n", " "))
        return LOST
    return DONE


if __name__ == "__main__":
    os._exit(play())
