"""What a run on another host costs: small data sets over TCP on loopback beside an embedded run, and a line
of 20 Mbit/s with 40 ms each way under a snapshot of 256 MiB.

The slow line is a process of user space between the two (`tests/python/lines.py`). Nobody waits for it: Stop is
pressed while the snapshot creeps, and then the program and its agent are killed and their segments removed.
Prints a table; with --json a line of JSON behind it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "python"), str(ROOT / "benches")]

from lines import SlowLine  # noqa: E402
from rows import Row, figure, show  # noqa: E402

RATE, WAY = 20e6 / 8, 0.040
STEP = 0.001
LIMIT = 60.0
EMBEDDED, REMOTE, LINE = "Forebay, embedded", "Forebay, another host", "round trip of the line"

row = partial(figure, "remote")


def until(holds: Callable[[], object], what: str) -> None:
    """Polls a condition."""
    deadline = time.monotonic() + LIMIT
    while not holds():
        if time.monotonic() > deadline:
            sys.exit(f"error: {what} did not come within {LIMIT:.0f} s")
        time.sleep(0.002)


class There:
    """An agent that takes runs of other hosts, with all that is left of it under one folder and one prefix."""

    def __init__(self, folder: Path) -> None:
        self.runs = folder / "runs"
        self.runs.mkdir()
        self.exe = os.environ["FOREBAY_EXE"]
        said = self.command("up", "--listen", "tcp://127.0.0.1:0", "--runs", str(self.runs), "--json")
        found = json.loads(said)
        self.pid, self.address = int(found["pid"]), str(found["address"])

    def command(self, *words: str) -> str:
        """What a command prints; the measurement is over when it fails."""
        done = subprocess.run([self.exe, *words], capture_output=True, text=True, timeout=LIMIT, check=False)
        if done.returncode != 0:
            sys.exit(f"error: forebay {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def close(self) -> None:
        """It goes at once, whatever is under way."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


@contextmanager
def own_places() -> Iterator[Path]:
    """Places where no other agent is; nothing is left in them, nor in shared memory."""
    folder = Path(tempfile.mkdtemp(prefix="fbb-"))
    mine = {"FOREBAY_RUNTIME_DIR": folder / "run", "FOREBAY_HOME": folder / "home"}
    for place in mine.values():
        place.mkdir(mode=0o700)
    os.environ.update({name: str(place) for name, place in mine.items()})
    os.environ["FOREBAY_SHM_PREFIX"] = folder.name
    try:
        yield folder
    finally:
        for segment in Path("/dev/shm").glob(f"{folder.name}-*"):
            segment.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)


def small(folder: Path, there: There, count: int, rounds: int) -> list[Row]:
    """Data sets of 1 to 1000 integers: the best of rounds in which each has its turn."""
    arrays = [np.arange(1 + i * 37 % 1000, dtype=np.int32) for i in range(count)]
    names = [f"set/{i:05}" for i in range(count)]
    places = {EMBEDDED: str(folder / "small"), REMOTE: f"{there.address}/small"}
    keys = ("put", "put, until durable", "get")
    best: dict[str, list[float]] = {who: [float("inf")] * len(keys) for who in places}
    for _ in range(rounds):
        for who, place in places.items():
            # Embedded is what has no agent at hand.
            with own_runtime(folder / "alone" if who == EMBEDDED else None), fb.open(place, "w") as run:
                began = time.perf_counter()
                for name, array in zip(names, arrays, strict=True):
                    run.put(name, array)
                put = time.perf_counter()
                run.flush()
                durable = time.perf_counter()
                got = [run.get(n) for n in names] if who == EMBEDDED else run.get_many(names)
                end = time.perf_counter()
            if not all(len(g) == len(a) and g[-1] == a[-1] for g, a in zip(got, arrays, strict=True)):
                sys.exit("error: what was read is not what was put")
            times = (put - began, durable - began, end - durable)
            best[who] = [min(a, b / count * 1e6) for a, b in zip(best[who], times, strict=True)]
    rows = []
    for i, key in enumerate(keys):
        ours = best[EMBEDDED][i]
        rows.append(row(f"{key} of 1..1000 i32", EMBEDDED, ours, "us"))
        how = f"{key} of 1..1000 i32" + (" with get_many" if key == "get" else "")
        rows.append(row(how, REMOTE, best[REMOTE][i], "us", (EMBEDDED, ours)))
    return rows


@contextmanager
def own_runtime(folder: Path | None) -> Iterator[None]:
    """A runtime directory of its own, where no agent is found."""
    before = os.environ["FOREBAY_RUNTIME_DIR"]
    if folder is not None:
        folder.mkdir(mode=0o700, exist_ok=True)
        os.environ["FOREBAY_RUNTIME_DIR"] = str(folder)
    yield
    os.environ["FOREBAY_RUNTIME_DIR"] = before


# What the program that loops tells: when it last passed its loop head, the worst of its heads, its puts.
PASSED, WORST, PUTS = 0, 1, (2, 3)
# At these steps: the first snapshot meets memory that nobody has touched, and the second one does not.
SNAPSHOTS = (0, 800)


def looping(place: str, mib: int, steps: int, told: Path) -> int:
    """The program that is stopped: two snapshots, then steps of a millisecond."""
    field = np.ones((mib << 20) // 8)
    words = np.memmap(told, np.float64, "r+")
    with fb.open(place, "w", buffer=f"{2 * mib + 32}MiB", scratch=True) as run:
        before = None
        for step in run.steps(steps):
            passed = time.monotonic()
            # The first head asks the owner where the others are.
            words[WORST] = max(words[WORST], passed - (before or passed))
            if step in SNAPSHOTS:
                with run.snapshot(step) as s:
                    s.put("field", field)
                words[PUTS[SNAPSHOTS.index(step)]] = time.monotonic() - passed
            words[PASSED] = passed
            time.sleep(STEP)
            before = time.monotonic()
    return 0


@contextmanager
def program(place: str, mib: int, steps: int, folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], Any]]:
    """That program in a process of its own, and what it tells; it is killed at the end."""
    told = folder / f"told-{steps}"
    told.write_bytes(bytes(64))
    words = np.memmap(told, np.float64, "r")
    command = [sys.executable, __file__, "--looping", place, str(mib), str(steps), str(told)]
    process = subprocess.Popen(command)
    try:
        yield process, words
    finally:
        process.kill()
        process.wait()


def slow(folder: Path, there: There, mib: int, rounds: int) -> list[Row]:
    """Snapshots over a slow line: what the program notices, and what Stop takes while they creep."""
    what = f"snapshot of {mib} MiB, the program is held"
    with own_runtime(folder / "alone"), program(str(folder / "near"), mib, 1000, folder) as (process, words):
        if process.wait(LIMIT) != 0:
            sys.exit("error: the program with the embedded run has failed")
        near = [float(words[i]) * 1e3 for i in PUTS]
        near_head = float(words[WORST]) * 1e6
    nothing = min(timed(lambda: there.command("--version")) for _ in range(5)) * 1e3
    line = SlowLine(there.address, rate=RATE, way=WAY)
    with program(f"{line.address}/slow", mib, 1 << 40, folder) as (process, words):
        until(lambda: words[PUTS[1]] > 0 or process.poll() is not None, "the second snapshot")
        time.sleep(1.0)  # The line is full of the first one.
        far, head = [float(words[i]) * 1e3 for i in PUTS], float(words[WORST]) * 1e6
        stands, hears = [], []
        run = str(there.runs / "slow")
        for _ in range(rounds):
            pressed = time.monotonic()
            there.command("steer", run, "stop")
            heard = time.monotonic()
            passed = float(words[PASSED])
            stands.append(max(0.0, passed - pressed) * 1e3)
            hears.append((heard - pressed) * 1e3)
            there.command("steer", run, "run")
            until(lambda passed=passed: words[PASSED] > passed, "the next step")
            time.sleep(0.1)
        if process.poll() is not None or line.carried > mib << 20:
            sys.exit("error: the first snapshot was there before the last Stop; nothing was measured")
        there.close()
    line.close()
    trip = (LINE, 2e3 * WAY)
    return [
        row(f"first {what}", EMBEDDED, near[0], "ms"),
        row(f"first {what}, 20 Mbit/s", REMOTE, far[0], "ms", (EMBEDDED, near[0])),
        row(what, EMBEDDED, near[1], "ms"),
        row(f"{what}, 20 Mbit/s", REMOTE, far[1], "ms", (EMBEDDED, near[1])),
        row("worst loop head meanwhile", EMBEDDED, near_head, "us"),
        row("worst loop head meanwhile, 20 Mbit/s", REMOTE, head, "us"),
        row("round trip of 20 Mbit/s, 40 ms each way", "the line", trip[1], "ms"),
        row("a command that does nothing", "the machine", nothing, "ms"),
        stop("Stop until the loop stands still, 20 Mbit/s", stands, trip),
        stop("Stop until the command has heard it, 20 Mbit/s", hears, trip),
    ]


def stop(what: str, samples: list[float], trip: tuple[str, float]) -> Row:
    """The median of some stops, and the worst."""
    found = row(what, REMOTE, sorted(samples)[len(samples) // 2], "ms", trip)
    return found | {"samples": samples, "note": f"median of {len(samples)}, worst {max(samples):.0f}"}


def timed(does: Callable[[], object]) -> float:
    """Seconds that something takes."""
    began = time.monotonic()
    does()
    return time.monotonic() - began


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description="What a run on another host costs.")
    parser.add_argument("--json", action="store_true", help="a line of JSON behind the table")
    parser.add_argument("--count", type=int, default=5000, help="small data sets")
    parser.add_argument("--rounds", type=int, default=5, help="of small data sets, and twice as many stops")
    parser.add_argument("--mib", type=int, default=256, help="of a snapshot")
    parser.add_argument("--looping", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.looping:
        place, mib, steps, told = args.looping
        return looping(place, int(mib), int(steps), Path(told))
    os.environ.setdefault("FOREBAY_EXE", str(ROOT / "target" / "release" / "forebay"))
    with ExitStack() as stack:
        folder = stack.enter_context(own_places())
        there = There(folder)
        stack.callback(there.close)
        found = small(folder, there, args.count, args.rounds)
        found += slow(folder, there, args.mib, 2 * args.rounds)
    show(found, args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
