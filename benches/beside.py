"""Clients that write beside the ranks of a run: 1, 8 and 32 of them at once, each putting and reading 100 data sets.

Each is a process of its own, at an agent. Prints a table; with --json a line of JSON behind it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import forebay as fb
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benches"))

from remote import own_places  # noqa: E402
from rows import Row, figure, show  # noqa: E402

ALONE = "one client, for as many turns as the cores make of it"


def client(place: str, key: str, count: int) -> None:
    """One of them: says when it is ready, begins when it is told, and says how many seconds it took."""
    arrays = [np.arange(1 + i * 37 % 1000, dtype=np.int32) for i in range(count)]
    with fb.open(place, "r+", client=True) as run:
        run.put(f"{key}/first", 0)
        print("ready", flush=True)
        sys.stdin.readline()
        began = time.perf_counter()
        for i, array in enumerate(arrays):
            run.put(f"{key}/{i}", array)
        for i, array in enumerate(arrays):
            assert run[f"{key}/{i}"].size == array.size
        print(time.perf_counter() - began, flush=True)


def heard(one: subprocess.Popen[str]) -> str:
    """The next line of a client."""
    assert one.stdout is not None
    return one.stdout.readline().strip()


def at_once(place: Path, clients: int, count: int) -> list[float]:
    """The seconds that each of so many took."""
    words = [sys.executable, __file__, "--client", str(place), "--count", str(count), "--key"]

    def start(key: str) -> subprocess.Popen[str]:
        return subprocess.Popen([*words, key], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    started = [start(f"{clients}-{i}") for i in range(clients)]
    if not all(heard(one) == "ready" for one in started):
        raise SystemExit("a client did not come to its beginning; it says why above")
    for one in started:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    took = [float(heard(one)) for one in started]
    for one in started:
        one.communicate(timeout=60)
    return took


def measure(folder: Path, counts: list[int], count: int, rounds: int) -> list[Row]:
    """The times of clients, beside a rank that takes its steps."""
    exe = os.environ.get("FOREBAY_EXE", "forebay")
    subprocess.run([exe, "up"], check=True, stdout=subprocess.DEVNULL)
    rows: list[Row] = []
    try:
        place = folder / "beside"
        with fb.open(place) as run:
            alone = 0.0
            for clients in counts:
                took = [s for _ in range(rounds) for s in at_once(place, clients, count)]
                with run.snapshot(clients) as s:
                    s.put("x", np.zeros(1000))
                seconds = statistics.median(took)
                alone = alone or seconds
                turns = max(1.0, clients / (os.cpu_count() or 1))
                what = "data sets put and read by each of several clients at once"
                note = f"{clients} clients, {count} data sets each, {os.cpu_count()} cores"
                yardstick = (ALONE, 1e3 * alone * turns)
                row = figure("beside", what, "Forebay, clients", 1e3 * seconds, "ms", yardstick, note)
                rows.append({**row, "samples": [1e3 * s for s in took], "at": clients})
    finally:
        subprocess.run([exe, "down", "--force"], check=True, stdout=subprocess.DEVNULL)
    return rows


def main() -> None:
    """Measures and shows, or is one of the clients."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--client", help=argparse.SUPPRESS)
    parser.add_argument("--key", help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, default=100, help="data sets of each client")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32], help="how many at once")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print a line of JSON, too")
    args = parser.parse_args()
    if args.client:
        client(args.client, args.key, args.count)
        return
    with own_places() as folder:
        show(measure(folder, args.clients, args.count, args.rounds), args.json)


if __name__ == "__main__":
    main()
