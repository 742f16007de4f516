"""What many clients cost: memory, descriptors and threads for each, the first calls of many at once, and a call
beside many that are idle.

Clients are had by the hundred in a process, each with a connection of its own to the broker and to the server.
Prints a table; with --json a line of JSON behind it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import forebay as fb

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benches"))

from remote import own_places  # noqa: E402
from rows import Row, figure, show  # noqa: E402

WHO, ALONE = "Forebay", "the same, no other client"


def row(
    what: str, value: float, unit: str, note: str = "", yardstick: tuple[str, float] | None = None
) -> Row:
    """A figure as the suite has it."""
    return figure("clients", what, WHO, value, unit, yardstick, note)


def shared_memory() -> int:
    """Bytes of shared memory on this machine."""
    line = next(t for t in Path("/proc/meminfo").read_text().splitlines() if t.startswith("Shmem:"))
    return int(line.split()[1]) << 10


def descriptors(pid: int) -> int:
    """How many a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def threads(pid: int) -> int:
    """How many threads a process has."""
    return len(os.listdir(f"/proc/{pid}/task"))


@contextmanager
def served(folder: Path) -> Iterator[tuple[int, int]]:
    """An agent and a server of a void service in Rust; their processes."""
    package = ["--manifest-path", str(ROOT / "Cargo.toml"), "--package", "forebay-benches", "--bin", "call"]
    subprocess.run(["cargo", "build", "--quiet", "--release", "--locked", *package], check=True)
    exe = os.environ["FOREBAY_EXE"]
    up = subprocess.run([exe, "up", "--json"], capture_output=True, text=True, timeout=60, check=True)
    agent = int(json.loads(up.stdout)["pid"])
    server = subprocess.Popen(
        [Path(exe).with_name("call")],
        env=os.environ | {"FOREBAY_BENCH_SERVER": str(folder / "run" / "agent.sock")},
        stdin=subprocess.PIPE,  # it ends with this
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        server.stdout.readline()
        yield agent, server.pid
    finally:
        for pid in (server.pid, agent):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        server.wait()


@contextmanager
def clients(many: int, processes: int) -> Iterator[tuple[list[subprocess.Popen[str]], int]]:
    """So many clients that have made one call each and are idle; says how many failed."""
    each = [many // processes + (n < many % processes) for n in range(processes)]
    crew = [
        subprocess.Popen(
            [sys.executable, __file__, "--hold", str(n)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for n in each
    ]
    try:
        failed = 0
        for process in crew:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                sys.exit("error: a process of clients ended")
            failed += int(line)
        yield crew, failed
    finally:
        for process in crew:
            process.communicate()


def hold(many: int) -> int:
    """Clients in this process: a call each, and then nothing until the end of the input."""
    kept, failed = [], 0
    for n in range(many):
        client = fb.connect()
        try:
            client.call("void")
        except fb.Error as error:
            print(f"client {n}: {error}", file=sys.stderr)
            failed += 1
        kept.append(client)
    print(failed, flush=True)
    sys.stdin.read()
    return 0


def at_once(many: int) -> Row:
    """First calls of so many processes at one moment: the longest, and how many failed."""
    begin, ends = os.pipe(), []
    for n in range(many):
        told = os.pipe()
        if os.fork() == 0:
            os.close(begin[1])
            os.read(begin[0], 1)
            began = time.perf_counter()
            try:
                fb.connect().call("void", timeout=60)
                good = True
            except fb.Error as error:
                print(f"process {n}: {error}", file=sys.stderr)
                good = False
            os.write(told[1], json.dumps([good, time.perf_counter() - began]).encode())
            os._exit(0)
        os.close(told[1])
        ends.append(told[0])
    time.sleep(1.0)  # all of them wait by now
    os.close(begin[1])
    found = [json.loads(os.read(end, 100)) for end in ends]
    for end in ends:
        os.close(end)
        os.wait()
    bad = sum(not good for good, _ in found)
    return row(
        f"first calls of {many} processes at once, the longest",
        max(t for _, t in found) * 1e3,
        "ms",
        f"{bad} failed",
    )


def call(seconds: float) -> float:
    """Microseconds of a call, the median."""
    client, times = fb.connect(), []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.perf_counter()
        client.call("void")
        times.append(time.perf_counter() - began)
    return sorted(times)[len(times) // 2] * 1e6


def measure(folder: Path, many: int, idle: int, first: int, seconds: float) -> list[Row]:
    """All figures."""
    with served(folder) as (agent, server):
        rows = [at_once(first)]
        alone = call(seconds)
        before = shared_memory(), descriptors(server), descriptors(agent)
        with clients(100, 1) as (crew, _):
            own = descriptors(crew[0].pid)
            rows += [
                row(
                    "shared memory of a client and its server at first",
                    (shared_memory() - before[0]) / 102_400,
                    "KiB",
                ),
                row("descriptors of a client", own / 100, ""),
                row("descriptors at the server, each client", (descriptors(server) - before[1]) / 100, ""),
                row("descriptors at the agent, each client", (descriptors(agent) - before[2]) / 100, ""),
            ]
        began = time.perf_counter()
        with clients(many, 8) as (_, failed):
            note = f"{failed} failed, {time.perf_counter() - began:.1f} s for all"
            # What was asked is answered; whoever served it waits a while for more.
            time.sleep(7)
            rows += [
                row(f"threads of the agent with {many} clients", threads(agent), "", note),
                row(f"threads of the server with {many} clients", threads(server), ""),
            ]
        with clients(idle, 4):
            time.sleep(3)
            beside = call(seconds)
        rows += [
            row("call from Python, median", alone, "us"),
            row(f"call from Python beside {idle} idle clients", beside, "us", "", (ALONE, alone)),
        ]
        return rows


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description="What many clients cost.")
    parser.add_argument("--json", action="store_true", help="a line of JSON behind the table")
    parser.add_argument("--many", type=int, default=2000, help="clients at one server and one agent")
    parser.add_argument("--idle", type=int, default=1000, help="idle clients beside an active one")
    parser.add_argument("--first", type=int, default=256, help="processes that call at once")
    parser.add_argument("--seconds", type=float, default=2.0, help="of calls")
    parser.add_argument("--hold", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.hold:
        return hold(args.hold)
    os.environ.setdefault("FOREBAY_EXE", str(ROOT / "target" / "release" / "forebay"))
    with ExitStack() as stack:
        folder = stack.enter_context(own_places())
        found = measure(folder, args.many, args.idle, args.first, args.seconds)
    show(found, args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
