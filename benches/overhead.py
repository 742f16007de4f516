"""What the Python side costs: a void call to a Rust service, an unwatched diagram, the loop head.

The broker and the server are the program `call` of these benches in its other roles, so that nothing but
this process is Python. Prints a table; with --json a line of JSON behind it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import forebay as fb
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))

Row = tuple[str, float, str, str]


def batches_of(repeat: Callable[[int], object], batch: int, batches: int) -> list[float]:
    """Nanoseconds of one of `batch` repetitions, for each of many batches."""
    times = []
    for _ in range(batches):
        begin = time.perf_counter_ns()
        repeat(batch)
        times.append((time.perf_counter_ns() - begin) / batch)
    return times


def median(repeat: Callable[[int], object], batch: int, batches: int) -> float:
    """Nanoseconds of one repetition, the median of many batches."""
    return statistics.median(batches_of(repeat, batch, batches))


@contextmanager
def other(role: str, socket: Path) -> Iterator[int]:
    """The program `call` as broker or server, and its pid; it ends with its input."""
    program = TARGET / "release" / "call"
    if not program.exists():
        sys.exit("error: there is no target/release/call; run  cargo build --release -p forebay-benches")
    process = subprocess.Popen(
        [program],
        env={**os.environ, role: str(socket)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if process.stdout.readline().strip() != "serving":
            sys.exit(f"error: {role} did not start")
        yield process.pid
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


@contextmanager
def apart(process: int) -> Iterator[None]:
    """This thread on a core of its own and another process on the others, where the machine has several.

    With the machine busy the scheduler puts the two sides on one core often enough, and then measures itself.
    """
    cores = os.sched_getaffinity(0)
    mine = {min(cores)}
    threads = [int(name) for name in os.listdir(f"/proc/{process}/task")]
    try:
        for thread in threads if len(cores) > 1 else []:
            os.sched_setaffinity(thread, cores - mine)
        os.sched_setaffinity(0, mine)
        yield
    finally:
        os.sched_setaffinity(0, cores)
        for thread in threads:
            os.sched_setaffinity(thread, cores)


def calls(socket: Path, server: int) -> list[Row]:
    """Calls, with a Python function of no parameters as the yardstick of the interpreter."""
    client = fb.connect(socket)
    void, signature = client.call, client.signature

    def call(n: int) -> None:
        for _ in range(n):
            void("void")

    x, y = np.ones(8), np.zeros(8)

    def axpy(n: int) -> None:
        for _ in range(n):
            void("axpy", 2.0, x, y)

    def module_call(n: int) -> None:
        for _ in range(n):
            fb.call("void")

    def nothing(n: int) -> None:
        for _ in range(n):
            plain()

    def plain() -> None:
        return None

    signature("void")
    call(20_000)
    # For the default client only: the run below is not for this broker.
    os.environ["FOREBAY_BROKER"] = str(socket)
    fb.call("void")
    del os.environ["FOREBAY_BROKER"]
    placed = median(call, 100, 2000)
    with apart(server):
        call(20_000)
        voids, arrays = batches_of(call, 100, 2000), batches_of(axpy, 100, 1000)
        plainly, empty = batches_of(module_call, 100, 1000), median(nothing, 1000, 200)
    return [
        ("Python: empty function", empty / 1e3, "us", "the interpreter itself"),
        row(
            "void call to a Rust service, median",
            voids,
            "both active, on cores of their own; of batches of 100",
        ),
        row("void call, fastest batch", [min(voids)], "undisturbed by others"),
        row("void call, cores left to the system, median", [placed], "with what else runs on the machine"),
        row("void call by forebay.call, median", plainly, "the default client's"),
        row("axpy of 8 numbers, median", arrays, "two arrays, one filled"),
        row("axpy of 8 numbers, fastest batch", [min(arrays)], "undisturbed by others"),
    ]


def row(what: str, times: list[float], note: str) -> Row:
    """The median of times, in microseconds."""
    return what, statistics.median(times) / 1e3, "us", note


def watching(folder: Path) -> list[Row]:
    """The loop head, and a diagram that nobody watches."""
    with fb.open(folder / "bench", scratch=True) as run:
        curve = run.diagram("E", "curve")
        x, y = np.arange(64.0), np.zeros(64)
        big = np.zeros(1_000_000)

        def update(n: int) -> None:
            for _ in range(n):
                curve.update(x, y)

        def large(n: int) -> None:
            for _ in range(n):
                curve.update("large", big, big)

        start = 0

        def steps(n: int) -> None:
            nonlocal start
            for _ in run.steps(start + n, start=start):
                pass
            start += n

        def counting(n: int) -> None:
            for _ in range(n):
                pass

        rows = [
            ("unwatched diagram.update, 64 points", median(update, 1000, 200), "ns", ""),
            ("unwatched diagram.update, 1,000,000 points", median(large, 1000, 200), "ns", ""),
            ("loop head, run.steps", median(steps, 10_000, 50), "ns", "a step"),
            ("Python: range", median(counting, 10_000, 50), "ns", "the interpreter itself"),
        ]
    return rows


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description="What the Python side of Forebay costs.")
    parser.add_argument("--json", action="store_true", help="a line of JSON behind the table")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fbb-") as name, ExitStack() as stack:
        folder = Path(name)
        os.environ["FOREBAY_RUNTIME_DIR"] = str(folder / "run")
        os.environ["FOREBAY_HOME"] = str(folder / "home")
        socket = folder / "agent.sock"
        stack.enter_context(other("FOREBAY_BENCH_BROKER", socket))
        server = stack.enter_context(other("FOREBAY_BENCH_SERVER", socket))
        rows = calls(socket, server) + watching(folder)
    for what, value, unit, note in rows:
        print(f"{what:<46} {value:>10.2f} {unit:<3} {note}")
    if args.json:
        print(json.dumps({what: {"value": value, "unit": unit} for what, value, unit, _ in rows}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
