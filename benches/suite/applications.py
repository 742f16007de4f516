"""Four works on 1 to 8 servers, beside the sequential program and programs of MPI; and with one server at half its speed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import rivals
from programs import alone
from report import ABOVE, Figure
from rivals import Contender, Mpi

PART = "applications"
WORKS = {
    "forces": "forces among 10,000 particles",
    "matrix": "product of matrices of 1,024",
    "dot": "dot product of 10^7",
    "rays": "picture by rays",
}
OURS, STATIC, CYCLIC, WORKERS = (
    "Forebay",
    "Open MPI, equal parts",
    "Open MPI, cyclic rows",
    "Open MPI, master and workers",
)
ALONE = "sequential program"
FAST = ("-O3", "-march=native")


@dataclass(frozen=True)
class Case:
    """Works on so many servers, one of them slowed or none, in so many rounds."""

    servers: int
    slowed: bool
    rounds: int


def applications(built: Path, folder: Path, environment: dict[str, str], quick: bool) -> list[Figure]:
    """All figures."""
    here = rivals.build("cc", built, "works_here.c", *FAST)
    program = rivals.ours(built, "works_forebay.c", *FAST)
    mpi = rivals.mpi()
    ranks = rivals.build(mpi.compiler, built, "works_mpi.c", *FAST) if mpi else ""
    broker, cores = rivals.broker(environment), len(os.sched_getaffinity(0))
    figures = []
    cases = [Case(n, False, 1 if quick or n > cores else 2) for n in ((1, 2) if quick else (1, 2, 4, 8))]
    cases += [Case(n, True, 1) for n in ((2,) if quick else (2, 4))]
    sequential: dict[str, float] = {}
    for case in cases:
        servers = [
            [program, broker, "serve", f"works-{n}", "2" if case.slowed and n == case.servers - 1 else "1"]
            for n in range(case.servers)
        ]
        with rivals.served(*servers, environment=environment):
            for work in WORKS:
                right = str(folder / f"{work}.bin")
                if work not in sequential:
                    sequential[work] = alone([here, work, right])["seconds"]
                command = [program, broker, work, right, str(case.servers)]
                all_ = [Contender(OURS, command, environment=environment)]
                all_ += others(mpi, ranks, work, right, case)
                found = rivals.turns(all_, case.rounds)
                best = {who: min(r["seconds"] for r in results) for who, results in found.items()}
                figures += compared(work, case, best, sequential[work], cores)
    for work, seconds in sequential.items():
        figures.append(Figure(PART, WORKS[work], ALONE, seconds * 1e3, "ms", at=1))
    figures.sort(key=lambda f: (f.what, f.at or 0))
    return figures + ([] if mpi else [Figure(PART, "all", "Open MPI", 0.0, "", absent=rivals.GET_THEM)])


def others(mpi: Mpi | None, ranks: str, work: str, right: str, case: Case) -> Sequence[Contender]:
    """The programs of MPI for a work; a master is a rank more."""
    if mpi is None:
        return []
    ways = [(STATIC, "static", case.servers)]
    if work == "rays":
        ways.append((CYCLIC, "cyclic", case.servers))
    if case.slowed:
        ways.append((WORKERS, "workers", case.servers + 1))
    times = "2" if case.slowed else "1"
    return [Contender(who, mpi.start(n, ranks, work, right, how, times)) for who, how, n in ways]


def compared(work: str, case: Case, best: dict[str, float], alone_: float, cores: int) -> list[Figure]:
    """Each beside MPI's equal parts, and beside the sequential program spread over the cores that there are."""
    what = ("one server at half its speed: " if case.slowed else "") + WORKS[work]
    speed = min(case.servers, cores) - (0.5 if case.slowed else 0)
    ideal = alone_ / speed if case.servers <= cores or not case.slowed else None
    figures = []
    for who, seconds in best.items():
        notes = [f"{case.servers} servers"] + ([ABOVE] if case.servers > cores else [])
        # Ours that is slowed has two: equal parts, and tasks handed out.
        pairs = [STATIC, WORKERS] if who == OURS and WORKERS in best else [STATIC]
        for yardstick in pairs:
            ratio = seconds / best[yardstick] if yardstick in best else None
            figures.append(
                Figure(
                    PART,
                    what,
                    who,
                    seconds * 1e3,
                    "ms",
                    yardstick if ratio else "",
                    ratio,
                    seconds / ideal if ideal else None,
                    "; ".join(notes),
                    at=case.servers,
                )
            )
    return figures
