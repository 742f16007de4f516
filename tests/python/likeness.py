"""The example in any language, seen from outside: how it is run, what it reports, and what its run keeps."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
from places import EXAMPLE, Place, ended

DECK = EXAMPLE / "two_stream.toml"
# Enough for the growth rate; a later --steps says otherwise.
FEW = ["--deck", DECK, "--particles", "20000", "--no-monitor", "--steps", "300"]
PYTHON = [sys.executable, EXAMPLE / "python" / "two_stream.py"]


def run_to_end(place: Place, run_dir: Path, command: list[Any], *more: str) -> str:
    """What the example printed, which ended well."""
    return ended(place.start(*command, "--run", run_dir, *FEW, *more))[0]


def report_of(out: str) -> dict[str, str]:
    """The lines of a report by their names."""
    return {line[:14].strip(): line[14:] for line in out.splitlines()}


def without_numbers(line: str) -> str:
    """A line of a report with # for each number."""
    return re.sub(r"[-+]?\d[\d.e+-]*", "#", line)


def growth(out: str) -> float:
    """The growth rate that was measured."""
    found = re.search(r"growth rate +(\d\.\d+) wp", out)
    assert found, out
    return float(found[1])


def forms(path: Path) -> dict[str, Any]:
    """Everything a run keeps but the numbers themselves: names, steps, types, shapes, units, names of axes."""
    with fb.open(path, "r") as run:
        out: dict[str, Any] = {
            f"{kept.step}/{name}": (kept.time, info.dtype, info.shape, info.units, info.dims)
            for kept in run.snapshots
            for name in kept.names()
            for info in [kept.dataset(name)]
        }
        for name in run.tables:
            table = run.table(name)
            out[name] = (table.columns, table.units, len(table))
        out["deck"] = run.table("input").select().tuples()
        return out


def content(path: Path) -> dict[str, Any]:
    """Everything a run keeps, in a form that compares bit by bit."""
    with fb.open(path, "r") as run:
        out: dict[str, Any] = {
            f"{kept.step}/{name}": (kept.time, kept[name].tobytes())
            for kept in run.snapshots
            for name in kept.names()
        }
        return out | {name: run.table(name).select().tuples() for name in run.tables}


def check_fields(path: Path, reference: Path) -> None:
    """Two runs keep the same numbers at their first steps, but for rounding."""
    with fb.open(path, "r") as ours, fb.open(reference, "r") as theirs:
        for step in (0, 100):
            for name in ours.snapshots.at(step).names():
                a, b = ours.snapshots.at(step)[name], theirs.snapshots.at(step)[name]
                np.testing.assert_allclose(a, b, rtol=0, atol=1e-8, err_msg=f"{step}/{name}")


def check_like_python(out: str, path: Path, python: tuple[str, Path]) -> None:
    """A run and its report are those of the example in Python, `python`, but for rounding and times."""
    said, theirs = python
    assert report_of(out).keys() == report_of(said).keys()
    assert abs(growth(out) / growth(said) - 1) < 0.01
    ours, other = report_of(out), report_of(said)
    for line in ("growth rate", "energy", "momentum", "snapshots", "output", "calls"):
        # The same words in the same order, whatever the numbers.
        assert without_numbers(ours[line]) == without_numbers(other[line])
    assert ours["snapshots"].split(",")[0] == other["snapshots"].split(",")[0]
    assert ours["calls"].split()[0] == other["calls"].split()[0]
    assert forms(path) == forms(theirs)
    assert len(list((path / "steps").iterdir())) == len(list((theirs / "steps").iterdir()))
    check_fields(path, theirs)
