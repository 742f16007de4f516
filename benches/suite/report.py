"""Figures, the table for people and the JSON for machines.

A figure is one measured value. Where a yardstick of the same run belongs to it, `ratio` is its time over the
yardstick's, and `limit` its time over that of what the machine itself can do: 1 is as good as it gets, and
less is better in both. Rates are turned over for this.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import shutil
import subprocess
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
OURS = "Forebay"
# A note of figures with more servers than cores: shown, not counted.
ABOVE = "more servers than cores"


@dataclass
class Figure:
    """One measured value."""

    part: str
    what: str
    who: str
    value: float
    unit: str
    against: str = ""
    ratio: float | None = None
    limit: float | None = None
    note: str = ""
    samples: list[float] = field(default_factory=list)
    # Why there is no value: who is not installed has none.
    absent: str = ""
    # Where it stands on the axis of a curve: bytes, an extent, a number of servers.
    at: float | None = None

    def ours(self) -> bool:
        """Whether it is Forebay's."""
        return self.who.startswith(OURS)


def times_slower(value: float, unit: str, yardstick: float) -> float:
    """How many times longer than the yardstick: for a rate the other way round."""
    return yardstick / value if "/s" in unit else value / yardstick


def number(value: float) -> str:
    """Three digits."""
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def place(number: float) -> str:
    """A place on an axis: powers of two of bytes by their names."""
    for power, name in ((20, "Mi"), (10, "Ki")):
        if number >= 1 << power:
            return f"{number / (1 << power):g}{name}"
    return f"{number:g}"


def table(figures: list[Figure]) -> str:
    """The table for people, part by part."""
    lines: list[str] = []
    what = max(len(f.what) for f in figures)
    who = max(len(f.who) for f in figures)
    part = ""
    for f in figures:
        if f.part != part:
            part = f.part
            lines += ["", f"{part.upper():<{what + who + 3}} {'':>14}   x yardstick   x limit"]
        ratio = f"{number(f.ratio)}" if f.ratio is not None else ""
        limit = f"{number(f.limit)}" if f.limit is not None else ""
        if f.absent:
            lines.append(f"{f.what:<{what}}  {f.who:<{who}} {f.absent}")
            continue
        text = f"{f.what:<{what}}  {f.who:<{who}} {number(f.value):>9} {f.unit:<5} {ratio:>12} {limit:>9}"
        note = "; ".join(x for x in (f"yardstick: {f.against}" if f.against else "", f.note) if x)
        lines.append(f"{text}   {note}".rstrip())
    return "\n".join(lines[1:])


def markdown(figures: list[Figure]) -> str:
    """The same for a page: one table for each part."""
    lines: list[str] = []
    part = ""
    for f in figures:
        if f.part != part:
            part = f.part
            lines += ["", f"### {part.capitalize()}", ""]
            lines += ["| what | who | figure | times the yardstick | times the limit |"]
            lines += ["| --- | --- | --- | --- | --- |"]
        ratio = f"{number(f.ratio)} ({f.against})" if f.ratio is not None else ""
        limit = number(f.limit) if f.limit is not None else ""
        who = f"**{f.who}**" if f.ours() else f.who
        value = f.absent or f"{number(f.value)} {f.unit}"
        lines.append(f"| {f.what} | {who} | {value} | {ratio} | {limit} |")
    return "\n".join(lines[1:])


def _said(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False).stdout.strip()
    except OSError:
        return ""


def _package(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def conditions(place: Path) -> dict[str, object]:
    """The machine, the versions and the state in which all this is measured."""
    cpu = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    file_system = _said("findmnt", "--noheadings", "--output", "FSTYPE", "--target", str(place))
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _said("git", "describe", "--always", "--dirty", "--abbrev=10"),
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 2**30),
        "kernel": platform.release(),
        "file_system": file_system,
        "free_gib": round(shutil.disk_usage(place).free / 2**30),
        "load_before": round(os.getloadavg()[0], 2),
        "compiler": _said("cc", "--version").split("\n")[0],
        "hdf5": _said("pkg-config", "--modversion", "hdf5-serial")
        or _said("pkg-config", "--modversion", "hdf5"),
        "sqlite": _said("pkg-config", "--modversion", "sqlite3"),
        "h5py": _package("h5py"),
        "adios2": _package("adios2"),
        "python": platform.python_version(),
    }


def sentence(c: dict[str, object]) -> str:
    """The conditions in words."""
    return (
        f"{c['cpu']}, {c['cores']} cores, {c['memory_gib']} GiB, Linux {c['kernel']}, {c['file_system']}; "
        f"HDF5 {c['hdf5']}, h5py {c['h5py']}, ADIOS2 {c['adios2']}, SQLite {c['sqlite']}; "
        f"{c['date']}, commit {c['commit']}, load {c['load_before']} before, {c.get('load_after', '?')} after, {c['seconds']} s"
        + (", QUICK" if c.get("quick") else "")
    )


def as_json(figures: list[Figure], facts: dict[str, object]) -> str:
    """All of it for machines."""
    rows = [{k: v for k, v in asdict(f).items() if v not in (None, "", [])} for f in figures]
    return json.dumps({"conditions": facts, "figures": rows}, indent=1) + "\n"


def from_json(text: str) -> tuple[list[Figure], dict[str, object]]:
    """The other way."""
    read = json.loads(text)
    return [Figure(**f) for f in read["figures"]], read["conditions"]
