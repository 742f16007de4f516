"""Maps: tasks that do nothing, tasks of unlike length against the ideal, with arguments, and two clients that share servers."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import rivals
from programs import alone, together
from report import ABOVE, Figure
from rivals import CALLS, Contender

PART = "maps"
SIGMA, SEED = 1.5, 8
IDEAL = "ideal of the same durations"


def durations(folder: Path, count: int, mean: float) -> tuple[Path, list[float]]:
    """The lengths of tasks in seconds, lognormal, the same for everybody."""
    chance = random.Random(SEED)
    drawn = [chance.lognormvariate(0, SIGMA) for _ in range(count)]
    lengths = [x * mean * count / sum(drawn) for x in drawn]
    file = folder / f"durations-{count}"
    file.write_text("\n".join(f"{x:.9f}" for x in lengths) + "\n")
    return file, lengths


def ideal(lengths: list[float], servers: int, more: float = 0) -> float:
    """Seconds that nobody can do better in who has so many servers; `more` for each task is the client's own."""
    return max(sum(lengths) / servers, max(lengths), more * len(lengths))


def maps(built: Path, folder: Path, environment: dict[str, str], quick: bool) -> list[Figure]:
    """All figures."""
    program, broker = rivals.ours(built, "maps_forebay.c"), rivals.broker(environment)
    cores = len(os.sched_getaffinity(0))
    rounds = 1 if quick else 3
    with rivals.served([program, broker, "serve", "spin"], environment=environment):
        figures = void(program, broker, environment, rounds, quick)
    mean = 0.0005 if quick else 0.002
    for servers in (2,) if quick else (1, 2, 4, 8):
        way = "spin" if servers <= cores else "sleep"
        command = [program, broker, "serve", way]
        with rivals.served(*[command] * servers, environment=environment):
            file, lengths = durations(folder, 1000 * servers, mean)
            figures += uneven(program, broker, environment, rounds, servers, cores, file, lengths)
            if servers == 2:
                figures += laden(program, broker, environment, rounds, folder)
                figures += shared(program, broker, environment, 1.0 if quick else 4.0)
    return figures


def python_ways(broker: str, environment: dict[str, str], workers: int, *more: str) -> list[Contender]:
    """A map from Python, by everybody."""
    script = str(CALLS / "maps_python.py")

    def command(python: str, who: str, count: int) -> list[str]:
        return [python, script, who, broker, str(workers), str(count), *more]

    # As many as take about a second.
    counts = {"forebay": 100_000, "futures": 100_000, "joblib": 20_000, "dask": 20_000, "ray": 20_000}
    if more:
        counts = dict.fromkeys(counts, 1000 * workers)
    found = [
        Contender(
            "Forebay, Python",
            command(sys.executable, "forebay", counts["forebay"]),
            "service in C",
            environment=environment,
        ),
        Contender(
            "concurrent.futures",
            command(sys.executable, "futures", counts["futures"]),
            "chunks of 100; one each if uneven",
        ),
    ]
    for who, package in (("joblib", "joblib"), ("Dask", "distributed"), ("Ray", "ray")):
        name = who.lower()
        here = rivals.python_package(package)
        way = command(str(rivals.PYTHON), name, counts[name]) if here else None
        setting = "its own batches" if name == "joblib" else "chunks of 100; one each if uneven"
        found.append(rivals.if_here(who, way, setting, rounds=1))
    return found


def void(program: str, broker: str, environment: dict[str, str], rounds: int, quick: bool) -> list[Figure]:
    """Tasks that do nothing, on one server: each beside calls sent by hand in the same language."""
    count = 20_000 if quick else 100_000
    results = [alone([program, broker, "void", str(count)], environment) for _ in range(rounds)]
    hand, bag = rivals.middle(results, "by hand"), rivals.middle(results, "bag")
    what, by_hand = "each of many void tasks", "calls by hand, C"
    figures = [
        Figure(PART, what, "Forebay, C", bag, "us", by_hand, bag / hand, note=f"{count} tasks in a bag"),
        Figure(PART, what, by_hand, hand, "us", note="1,000 sent, then taken"),
    ]
    all_ = python_ways(broker, environment, 1)
    for who, found in rivals.turns(all_, rounds).items():
        setting = next(c.setting for c in all_ if c.who == who)
        figures.append(Figure(PART, what, who, rivals.middle(found, "each"), "us", note=setting))
    return figures + rivals.absent(PART, all_)


def uneven(
    program: str,
    broker: str,
    environment: dict[str, str],
    rounds: int,
    servers: int,
    cores: int,
    file: Path,
    lengths: list[float],
) -> list[Figure]:
    """Tasks of unlike length against the ideal; the others beside, where the machine has the cores."""
    all_ = [
        Contender("Forebay, C", [program, broker, "bag", str(file), "0"], "a bag", environment=environment)
    ]
    if servers == 2 and servers <= cores:
        all_ += python_ways(broker, environment, servers, str(file))
    best = ideal(lengths, servers)
    figures = []
    for who, found in rivals.turns(all_, rounds).items():
        seconds = rivals.middle(found, "seconds")
        notes = [f"{servers} servers, {len(lengths)} tasks, {'spun' if servers <= cores else 'slept'}"]
        notes += [ABOVE] if servers > cores else []
        what = f"tasks of lognormal length, sigma {SIGMA}, {servers} servers"
        figures.append(
            Figure(
                PART, what, who, seconds * 1e3, "ms", IDEAL, seconds / best, seconds / best, "; ".join(notes)
            )
        )
    return figures


def laden(program: str, broker: str, environment: dict[str, str], rounds: int, folder: Path) -> list[Figure]:
    """The same with arguments, each of which the client copies twice: when the task is added, and when it is sent."""
    figures = []
    for size, name in ((10_000, "10 kB"), (1_000_000, "1 MB")):
        file, lengths = durations(folder, 400, 0.002)
        found = [alone([program, broker, "bag", str(file), str(size)], environment) for _ in range(rounds)]
        best = ideal(lengths, 2, 2 * rivals.middle(found, "copy"))
        seconds = rivals.middle(found, "seconds")
        what = f"tasks with arguments of {name}, 2 servers"
        figures.append(
            Figure(
                PART,
                what,
                "Forebay, C",
                seconds * 1e3,
                "ms",
                IDEAL,
                seconds / best,
                seconds / best,
                "400 tasks",
            )
        )
    return figures


def shared(program: str, broker: str, environment: dict[str, str], seconds: float) -> list[Figure]:
    """Two clients with tasks of 1 ms and of 20 ms on two servers: the share of each in the time that servers were busy."""
    lengths = (0.001, 0.02)
    commands = [[program, broker, "share", str(seconds), str(length)] for length in lengths]
    busy = [found["busy"] for found in together(commands, environment)]
    return [
        Figure(
            PART,
            f"share of two servers' time, tasks of {length * 1e3:g} ms",
            "Forebay",
            100 * b / (sum(busy) or 1),
            "%",
        )
        for length, b in zip(lengths, busy, strict=True)
    ]
