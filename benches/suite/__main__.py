"""benches/suite [--quick] [PART ...]: measures, prints the table, writes JSON and picture to out/bench.

Parts: calls, void, dgemm, transfers, applications, maps, clients, beside, remote, small, snapshots, layouts, compressed, processes, overflow, attending, heat, steps, burst. `--publish` also puts picture, JSON and table into docs/;
`--draw FILE.json` only draws.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import applications
import calls
import dgemm
import heat
import maps
import papers
import picture
import programs
import publish
import report
import storage
import targets
import transfers
import voids
from report import ROOT, Figure

# In this order: `burst` keeps the disk busy beyond its end.
PARTS = (
    "calls",
    "void",
    "dgemm",
    "transfers",
    "applications",
    "maps",
    "clients",
    "beside",
    "remote",
    "small",
    "snapshots",
    "layouts",
    "compressed",
    "processes",
    "overflow",
    "attending",
    "heat",
    "steps",
    "burst",
)
# What the snapshots of one writer take on the disk, and some.
NEEDED_GIB = 7


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="benches/suite", description="Measures Forebay beside its yardsticks."
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--publish", action="store_true", help="put picture, JSON and table into docs/ too")
    parser.add_argument("--draw", type=Path, metavar="FILE.json", help="only draw what was measured before")
    args = parser.parse_args()
    wrong = [p for p in args.parts if p not in PARTS]
    if wrong:
        parser.error(f"there is no part {wrong[0]!r}; the parts are {', '.join(PARTS)}")
    return args


def measure(wanted: list[str], quick: bool, out: Path) -> list[Figure]:
    """All parts that are wanted, one after the other."""
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="fbb-") as name, ExitStack() as stack:
        folder = Path(name)
        built = folder / "programs"
        built.mkdir()
        programs.build(built)

        def part(what: str, does: Callable[[], list[Figure]]) -> None:
            began = time.monotonic()
            found = does()
            figures.extend(found)
            print(f"bench: {what}, {time.monotonic() - began:.0f} s", flush=True)

        if "calls" in wanted:
            # Before any agent of ours runs: these have a broker of their own.
            os.environ.update(stack.enter_context(programs.own_places(folder / "c")))
            part("calls from Rust", lambda: calls.native(quick))
            part("waiting where cores are scarce", lambda: calls.waits(quick))
            part("calls over the network", calls.network)
            spin = next(f.value for f in figures if f.what == calls.SPIN)
            part("calls from C", lambda: calls.from_c(built, folder, spin))
            part("calls from Python", lambda: calls.from_python(spin))
            part("watching", calls.watching)
        embedded = stack.enter_context(programs.own_places(folder / "e"))
        served = stack.enter_context(programs.agent(folder / "a"))
        if "void" in wanted:
            part("void calls beside others", lambda: voids.voids(built, folder, served, quick))
        if "dgemm" in wanted:
            part("a matrix product", lambda: dgemm.dgemm(built, folder, served, quick))
        if "transfers" in wanted:
            part("transfers", lambda: transfers.transfers(built, served, quick))
        if "applications" in wanted:
            part("works on several servers", lambda: applications.applications(built, folder, served, quick))
        if "maps" in wanted:
            part("maps", lambda: maps.maps(built, folder, served, quick))
        bench = storage.Bench(built, out / "data", embedded, served, quick)
        stack.callback(bench.over)
        rest: dict[str, Callable[[storage.Bench], list[Figure]]] = {
            "clients": storage.clients,
            "beside": storage.beside,
            "remote": storage.remote,
            "small": storage.small,
            "snapshots": storage.snapshots,
            "layouts": storage.layouts,
            "compressed": storage.compressed,
            "processes": storage.ranks,
            "overflow": storage.overflow,
            "attending": storage.attending,
            "heat": lambda bench: heat.heat(bench.programs, bench.fresh(), served, quick),
            "steps": storage.steps,
            "burst": storage.burst,
        }
        for what, does in rest.items():
            if what in wanted:
                part(what, lambda does=does: does(bench))
    return figures


def main() -> int:
    """Measures and shows."""
    args = arguments()
    if args.draw:
        figures, facts = report.from_json(args.draw.read_text())
    else:
        out = ROOT / "out" / "bench"
        out.mkdir(parents=True, exist_ok=True)
        facts = report.conditions(out)
        if int(str(facts["free_gib"])) < NEEDED_GIB:
            print(
                f"error: {out} has {facts['free_gib']} GiB free and {NEEDED_GIB} are needed; make room",
                file=sys.stderr,
            )
            return 1
        began = time.monotonic()
        try:
            figures = measure(args.parts or list(PARTS), args.quick, out)
        except programs.Failed as e:
            print(f"error: {e}", file=sys.stderr)
            return 1
        facts |= {"seconds": round(time.monotonic() - began), "quick": args.quick}
        facts["load_after"] = round(os.getloadavg()[0], 2)
        text = f"{report.table(figures)}\n{targets.table(figures)}\n{report.sentence(facts)}\n"
        print(text, end="")
        (out / "bench.txt").write_text(text)
        (out / "bench.json").write_text(report.as_json(figures, facts))
    picture.draw(figures, facts, ROOT / "out" / "bench" / "bench.png")
    papers.draw(figures, facts, ROOT / "out" / "bench")
    print("bench: table, JSON and pictures in out/bench: bench.txt, bench.json, bench*.png")
    if args.publish:
        publish.publish(figures, facts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
