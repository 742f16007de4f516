"""Keeping data: small data sets, snapshots behind the simulation's back, and as fast as the disk takes them.

Every writer does the same work in the same run, one after the other; so do the yardsticks, twice where the
machine may drift meanwhile.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from programs import TARGET, VERSUS, alone, together
from report import ROOT, Figure, times_slower

STEP_MIB = 256
BUFFER_MIB = 1024
# The buffer of a rank that is too small, what the store has beside it, and a buffer that holds next to nothing.
OWN_MIB, STORE_MIB, LEAST_MIB = 256, 256, 1
COPIES = "warm memcpy"
WRITERS = f"snapshots of {STEP_MIB} MiB, as the processes notice them"
IDEAL = "a copy, or what the disk takes for all that no buffer holds"
DECLARED = "the buffers declared"


@dataclass
class Bench:
    """Where things lie, and how much is done."""

    programs: Path
    place: Path
    embedded: dict[str, str]
    agent: dict[str, str]
    quick: bool

    def program(self, name: str, *arguments: object) -> list[str]:
        """The command line of one of ours."""
        return [str(self.programs / name), *map(str, arguments)]

    def fresh(self) -> Path:
        """An empty directory on the disk, which has nothing else to do."""
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir(parents=True)
        os.sync()
        return self.place

    def over(self) -> None:
        """Nothing stays."""
        shutil.rmtree(self.place, ignore_errors=True)


def small(bench: Bench) -> list[Figure]:
    """Data sets of 1 to 1000 integers, one by one: the best of rounds in which each has its turn."""
    count, rounds = (2000, 2) if bench.quick else (10_000, 4)
    writers: dict[str, tuple[str, dict[str, str]]] = {
        "Forebay, embedded": ("small_forebay", bench.embedded),
        "Forebay, agent": ("small_forebay", bench.agent),
        "SQLite": ("small_sqlite", {}),
        "HDF5": ("small_hdf5", {}),
        "a log of one's own": ("small_raw", {}),
    }
    results: dict[str, list[Any]] = {who: [] for who in writers}
    for _ in range(rounds):
        for who, (program, environment) in writers.items():
            command = bench.program(program, bench.fresh() / "small", count)
            results[who].append(alone(command, environment))
    bench.over()
    best = {who: {k: min(r[k] for r in all_) for k in all_[0]} for who, all_ in results.items()}
    floor, sqlite = best["a log of one's own"], best["SQLite"]
    figures = []
    # What is put and not yet durable need not have reached a file: no limit for that.
    for key, what in (("put_us", "put"), ("durable_us", "put, until durable"), ("get_us", "get")):
        for who, figure in best.items():
            yard = not who.startswith("a log")
            figures.append(
                Figure(
                    "small data sets",
                    f"{what} of 1..1000 i32",
                    who,
                    figure[key],
                    "us",
                    "SQLite" if yard else "",
                    figure[key] / sqlite[key] if yard else None,
                    figure[key] / floor[key] if yard and key != "put_us" else None,
                    "" if yard else "the limit: one system call each, nothing named",
                    [r[key] for r in results[who]],
                )
            )
    return figures


def writers(bench: Bench) -> dict[str, Callable[[int, float], Any]]:
    """All who take snapshots, by name: called with the number of steps and the seconds between."""

    def forebay(how: str, environment: dict[str, str]) -> Callable[[int, float], Any]:
        def run(steps: int, seconds: float) -> Any:
            command = bench.program(
                "snapshot_forebay", how, bench.fresh(), steps, STEP_MIB, seconds, 0, 1, BUFFER_MIB
            )
            return alone(command, environment)

        return run

    def hdf5(steps: int, seconds: float) -> Any:
        return alone(bench.program("snapshot_hdf5", bench.fresh(), steps, STEP_MIB, seconds))

    def python(kind: str) -> Callable[[int, float], Any]:
        script = str(VERSUS / "snapshot_python.py")
        return lambda steps, seconds: alone(
            [sys.executable, script, kind, str(bench.fresh()), str(steps), str(STEP_MIB), str(seconds)]
        )

    return {
        "Forebay, embedded": forebay("put", bench.embedded),
        "Forebay, agent": forebay("put", bench.agent),
        "Forebay, embedded, in place": forebay("allocate", bench.embedded),
        "Forebay, agent, in place": forebay("allocate", bench.agent),
        "HDF5": hdf5,
        "h5py": python("h5py"),
        "ADIOS2 BP5, async": python("adios2"),
    }


def raw(bench: Bench, how: str, steps: int, seconds: float) -> Any:
    """A yardstick."""
    return alone(bench.program("snapshot_raw", how, bench.fresh(), steps, STEP_MIB, seconds))


def snapshots(bench: Bench) -> list[Figure]:
    """What a simulation notices of a snapshot while it computes between, and of the first one, by itself: its pages
    are new to everybody.
    """
    steps, seconds = (5, 0.25) if bench.quick else (20, 0.5)
    before = raw(bench, "memcpy", steps, seconds)
    streamed = raw(bench, "stream", min(steps, 8), 0.1)
    results = {who: run(steps, seconds) for who, run in writers(bench).items()}
    after = raw(bench, "memcpy", steps, seconds)
    bench.over()
    copies = before["visible_ms"][1:] + after["visible_ms"][1:]
    memcpy, stream = statistics.mean(copies), streamed["mean_ms"]
    what = f"visible time of {STEP_MIB} MiB"
    figures = [
        Figure("snapshots", what, "warm memcpy", memcpy, "ms", note="the yardstick", samples=copies),
        Figure(
            "snapshots",
            what,
            "streaming stores",
            stream,
            "ms",
            note="the limit: the same copy past the caches",
            samples=streamed["visible_ms"],
        ),
    ]
    firsts = []
    for who, r in results.items():
        first, *rest = r["visible_ms"]
        mean = statistics.mean(rest)
        in_place = "in place" in who
        note = f"mean of {steps - 1}; median {statistics.median(rest):.2f}, worst {max(rest):.2f}"
        firsts.append(Figure("first snapshot", what, who, first, "ms", "warm memcpy", first / memcpy))
        figures.append(
            Figure(
                "snapshots",
                what,
                who,
                mean,
                "ms",
                "warm memcpy",
                mean / memcpy,
                None if in_place else mean / stream,
                note,
                rest,
            )
        )
    return figures + firsts


def layouts(bench: Bench) -> list[Figure]:
    """Arrays of NumPy's whose elements lie apart: gathered into the buffer, beside NumPy's own copy of the same."""
    mib, rounds = (64, 3) if bench.quick else (256, 7)
    script = str(VERSUS / "layouts_python.py")
    command = [sys.executable, script, str(bench.fresh()), str(mib), str(rounds)]
    rows = alone(command, bench.embedded)["views"]
    bench.over()
    figures = []
    for row in rows:
        what, copy = f"put of {mib} MiB, {row['view']}", row["copyto_ms"]
        figures.append(Figure("layouts", what, "numpy.copyto", copy, "ms", note="the yardstick"))
        ratio = row["put_ms"] / copy
        figures.append(Figure("layouts", what, "Forebay, Python", row["put_ms"], "ms", "numpy.copyto", ratio))
    return figures


def ranks(bench: Bench) -> list[Figure]:
    """The same with several processes at once, each with its share, beside as many copies at once and others who
    write at once, each into files of its own; the first step of each is left out.
    """
    steps, seconds = (5, 0.25) if bench.quick else (12, 0.5)
    figures: list[Figure] = []
    for n in (1, 2, 4) if bench.quick else (1, 2, 4, 8, 16):
        share = STEP_MIB // n

        def at_once(command: Callable[[int, Path], list[str]], n: int = n) -> list[Any]:
            """What `n` of them print, with the rank and a place of its own for each."""
            place = bench.fresh()
            places = [place / str(rank) for rank in range(n)]
            for own in places:
                own.mkdir()
            return together([command(rank, own) for rank, own in enumerate(places)], bench.agent)

        def forebay(mib: int, share: int = share, n: int = n) -> Callable[[int, Path], list[str]]:
            def command(rank: int, own: Path) -> list[str]:
                return bench.program(
                    "snapshot_forebay", "put", own.parent, steps, share, seconds, rank, n, mib
                )

            return command

        def raw_as(how: str, share: int = share) -> Callable[[int, Path], list[str]]:
            return lambda _, own: bench.program("snapshot_raw", how, own, steps, share, seconds)

        def hdf5(_: int, own: Path, share: int = share) -> list[str]:
            return bench.program("snapshot_hdf5", own, steps, share, seconds)

        noticed = {
            COPIES: at_once(raw_as("memcpy")),
            "Forebay, agent": at_once(forebay(BUFFER_MIB // n)),
            "Forebay, agent, hardly a buffer of its own": at_once(forebay(LEAST_MIB)),
            "HDF5, a file each": at_once(hdf5),
            "raw, a file each": at_once(raw_as("buffered")),
        }
        samples = {who: [v for r in all_ for v in r["visible_ms"][1:]] for who, all_ in noticed.items()}
        means = {who: statistics.mean(values) for who, values in samples.items()}
        what = f"visible time, {n} process{'es' if n > 1 else ''} of {share} MiB"
        if n <= 4:
            figures.append(
                Figure(
                    "processes",
                    what,
                    COPIES,
                    means[COPIES],
                    "ms",
                    note="the yardstick: as many at once",
                    samples=samples[COPIES],
                )
            )
            ours = "Forebay, agent"
            ratio, note = means[ours] / means[COPIES], f"worst {max(samples[ours]):.2f}"
            figures.append(
                Figure("processes", what, ours, means[ours], "ms", COPIES, ratio, None, note, samples[ours])
            )
        for who, mean in means.items():
            rate = STEP_MIB * 2**20 / mean / 1e6
            ratio = None if who == COPIES else mean / means[COPIES]
            yardstick = "" if who == COPIES else COPIES
            figures.append(Figure("writers", WRITERS, who, rate, "GB/s", yardstick, ratio, at=n))
    bench.over()
    return figures


def overflow(bench: Bench) -> list[Figure]:
    """Steps that do not fit: larger than the buffer of the rank, then larger than all buffers. The least they can take
    is a copy, or what the disk takes for all that no buffer holds; and shared memory holds what was declared.
    """
    steps = 3 if bench.quick else 6
    figures = []
    for mib in (OWN_MIB + STORE_MIB, 3 * (OWN_MIB + STORE_MIB)):
        too_small = "the buffer of the rank" if mib <= OWN_MIB + STORE_MIB else "all buffers"
        seconds = (0.1 if bench.quick else 0.5) + mib / 1024
        disks = [_of_steps(bench, "direct", mib)]
        copy = _of_steps(bench, "memcpy", mib)
        found = {}
        for who, environment in (
            ("Forebay, embedded", bench.embedded),
            ("Forebay, agent", bench.agent),
        ):
            command = bench.program(
                "snapshot_forebay", "put", bench.fresh(), steps, mib, seconds, 0, 1, OWN_MIB
            )
            with _shared_memory() as most:
                found[who] = alone(command, environment)["visible_ms"][1:], most[0]
        disks.append(_of_steps(bench, "direct", mib))
        disk = statistics.mean(disks)
        ideal = max(copy, disk * (1 - (OWN_MIB + STORE_MIB) / mib))
        what = f"visible time of {mib} MiB, more than {too_small}"
        figures.append(Figure("overflow", what, IDEAL, ideal, "ms", note="the yardstick, computed"))
        for who, (visible, most_mib) in found.items():
            mean = statistics.mean(visible)
            figures.append(
                Figure("overflow", what, who, mean, "ms", IDEAL, mean / ideal, mean / ideal, "", visible)
            )
            held = OWN_MIB + STORE_MIB
            memory = f"most shared memory with {mib} MiB a step"
            figures.append(Figure("overflow", memory, who, most_mib, "MiB", DECLARED, most_mib / held))
    bench.over()
    return figures


def _of_steps(bench: Bench, how: str, mib: int) -> float:
    """Milliseconds that a yardstick takes for a step of that many MiB, behind the first."""
    command = bench.program("snapshot_raw", how, bench.fresh(), 4, mib, 0.1)
    return statistics.mean(alone(command, {})["visible_ms"][1:])


@contextmanager
def _shared_memory() -> Iterator[list[float]]:
    """The most MiB of shared memory that are in use meanwhile beyond what was at the beginning."""

    def used() -> float:
        return shutil.disk_usage("/dev/shm").used / 2**20

    before, most, over = used(), [0.0], threading.Event()

    def watch() -> None:
        while not over.wait(0.005):
            most[0] = max(most[0], used() - before)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield most
    finally:
        over.set()
        watcher.join()


def attending(bench: Bench) -> list[Figure]:
    """What it costs to read a small data set, and to put one and read it again, while gigabytes drain to the disk."""
    steps, gets = (4, 2000) if bench.quick else (16, 20_000)
    buffer_mib = (steps + 1) * STEP_MIB
    figures = []
    for who, environment in (("Forebay, embedded", bench.embedded), ("Forebay, agent", bench.agent)):
        command = bench.program("gets_forebay", bench.fresh() / "run", steps, STEP_MIB, buffer_mib, gets)
        found = alone(command, environment)
        for key, what in (("get", "a get of 1000 i32"), ("put", "a put and its get of 1000 i32")):
            for quantile in ("p50", "p99"):
                idle, drains = (found[f"{key}_{when}"][f"{quantile}_us"] for when in ("idle", "draining"))
                note = f"worst {found[f'{key}_draining']['worst_us']:.0f} us of {found[f'{key}_draining']['count']}"
                text = f"{what}, {quantile}"
                yardstick = "the same, nothing drains"
                figures += [
                    Figure("attending", f"{text}, nothing drains", who, idle, "us"),
                    Figure(
                        "attending",
                        f"{text}, {steps * STEP_MIB / 1024:g} GiB drain",
                        who,
                        drains,
                        "us",
                        yardstick,
                        drains / idle,
                        None,
                        note,
                    ),
                ]
    bench.over()
    return figures


def burst(bench: Bench) -> list[Figure]:
    """Step after step without computing, until all is durable: the disk is what limits."""
    steps = 6 if bench.quick else 16
    mib = steps * STEP_MIB

    def rate(result: Any) -> float:
        return mib * 2**20 / result["durable_s"] / 1e9

    raws = [rate(raw(bench, "direct", steps, 0))]
    all_ = writers(bench)
    rates = {who: rate(run(steps, 0)) for who, run in all_.items() if "in place" not in who}
    raws.append(rate(raw(bench, "direct", steps, 0)))
    bench.over()
    limit = statistics.mean(raws)
    what = f"{mib / 1024:g} GiB back to back, durable"
    figures = [
        Figure(
            "back to back",
            what,
            "raw direct writes",
            limit,
            "GB/s",
            note="the limit: synced step by step",
            samples=raws,
        )
    ]
    for who, value in rates.items():
        slower = times_slower(value, "GB/s", limit)
        figures.append(Figure("back to back", what, who, value, "GB/s", "raw direct writes", slower, slower))
    return figures


def steps(bench: Bench) -> list[Figure]:
    """Very many small snapshots: how fast they become durable, beside files that are synced one by one, and what a run
    of so many costs whoever opens it.
    """
    count, many = (1000, 100_000) if bench.quick else (20_000, 1_000_000)
    script = str(VERSUS / "steps_python.py")

    def run(who: str, number: int, environment: dict[str, str]) -> Any:
        return alone([sys.executable, script, who, str(bench.fresh()), str(number)], environment)

    # The yardstick before and after, for a disk that drifts.
    raws = [run("raw", 1000, {})["steps_s"]]
    ours = {
        who: run("forebay", count, e) for who, e in (("embedded", bench.embedded), ("agent", bench.agent))
    }
    raws.append(run("raw", 1000, {})["steps_s"])
    sets = run("sets", many, bench.embedded)
    bench.over()
    limit, what = statistics.mean(raws), f"{count} snapshots of ten numbers, durable"
    yard = "files synced one by one"
    figures = [Figure("small snapshots", what, yard, limit, "1/s", samples=raws)]
    for who, result in ours.items():
        rate, name = result["steps_s"], f"Forebay, {who}"
        figures += [
            Figure("small snapshots", what, name, rate, "1/s", yard, limit / rate),
            Figure("small snapshots", f"opening a run of {count}", name, result["open_ms"], "ms"),
            Figure("small snapshots", f"the last of {count}", name, result["last_ms"], "ms"),
            Figure("small snapshots", f"recovering a run of {count}", name, result["recover_ms"], "ms"),
        ]
    for key, does in (("look_ms", "finding"), ("delete_ms", "deleting, durable,")):
        what = f"{does} one of {many} data sets"
        figures.append(Figure("small snapshots", what, "Forebay, embedded", sets[key], "ms"))
    return figures


def clients(bench: Bench) -> list[Figure]:
    """Many clients at one server."""
    return by_script(
        bench, "clients.py", ["--many", "400", "--idle", "200", "--first", "64", "--seconds", "0.5"]
    )


def compressed(bench: Bench) -> list[Figure]:
    """Snapshots that are compressed, beside those that are not."""
    return by_script(bench, "compressed.py", ["--mib", "16", "--rounds", "3"])


def beside(bench: Bench) -> list[Figure]:
    """Clients that write beside the ranks of a run."""
    return by_script(bench, "beside.py", ["--rounds", "1"])


def remote(bench: Bench) -> list[Figure]:
    """A run on another host beside an embedded one, and Stop over a slow line with a snapshot on it."""
    return by_script(bench, "remote.py", ["--count", "1000", "--rounds", "2"])


def by_script(bench: Bench, name: str, less: list[str]) -> list[Figure]:
    """The figures of a program of their own, with those arguments where it is to be quick."""
    command = [sys.executable, str(ROOT / "benches" / name), "--json", *(less if bench.quick else [])]
    rows = alone(command, {"FOREBAY_EXE": str(TARGET / "forebay")})["rows"]
    return [Figure(**row) for row in rows]
