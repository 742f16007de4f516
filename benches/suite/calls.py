"""Calls, and what watching costs: the programs `call` and `overhead.py` and the bench of the client crate,
whose figures get their yardsticks here."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

from programs import TARGET, alone
from report import ROOT, Figure, times_slower

sys.path.insert(0, str(ROOT / "benches"))

SPIN, FUTEX, MEMCPY = "spin ping-pong", "futex round trip", "warm memcpy"
# Cores that sleep deeper take longer to wake, by the day two to three times as long.
SILENT = "futex round trip after 10 ms of silence"
# What the programs call the machine's own figures, and what they are called here.
MACHINE = {
    "machine: spin ping-pong": SPIN,
    "machine: futex round trip": FUTEX,
    "machine: futex round trip after 10 ms of silence": SILENT,
    "machine: memcpy of 64 MiB, warm": MEMCPY,
}


def native(quick: bool) -> list[Figure]:
    """From Rust: active, after silence, small and large arguments, idle."""
    parts = ["active", "silence", "large"] if quick else []
    rows = alone([str(TARGET / "call"), "--json", *parts])
    machine = {short: rows[name]["value"] for name, short in MACHINE.items() if name in rows}
    figures = []
    for name, row in rows.items():
        value, unit = row["value"], row["unit"]
        if name.startswith("machine: "):
            what, who = name.removeprefix("machine: "), "the machine"
        else:
            what, who = name, "Forebay, Rust"
        figure = Figure("calls", what, who, value, unit, note=row.get("note", ""))
        yardstick = None
        if who == "the machine" or unit == "ms":
            pass
        elif "silence" in name:
            yardstick = SILENT
        elif unit == "us":
            yardstick = SPIN
        elif unit == "GB/s":
            yardstick = MEMCPY
        if yardstick in machine:
            figure.against = yardstick
            figure.ratio = figure.limit = times_slower(value, unit, machine[yardstick])
        figures.append(figure)
    return figures


def waits(quick: bool) -> list[Figure]:
    """From Rust, where cores are scarce: each beside what it was measured by in turns."""
    rows = alone([str(TARGET / "waits"), "--json", *(["--quick"] if quick else [])])
    figures = []
    for name, row in rows.items():
        yardstick = row.get("against", "")
        who = "Forebay, Rust" if yardstick or "relay" in name else "the machine"
        ratio = row.get("ratio")
        figures.append(
            Figure("waits", name, who, row["value"], row["unit"], yardstick, ratio, ratio, row["note"])
        )
    return figures


def network() -> list[Figure]:
    """From Rust over TCP on loopback, plain and with TLS, beside raw sockets of the same run."""
    rows = alone([str(TARGET / "network"), "--json"])
    polling, socket = "TCP ping-pong, polling", "64 MiB through a raw socket"
    machine = {name: rows[f"machine: {name}"]["value"] for name in (polling, socket)}
    figures = []
    for name, row in rows.items():
        value, unit, note = row["value"], row["unit"], row.get("note", "")
        if name.startswith("machine: "):
            what = name.removeprefix("machine: ")
            figures.append(Figure("calls", what, "the machine", value, unit, note=note))
            continue
        yardstick = polling if unit == "us" else socket
        slower = times_slower(value, unit, machine[yardstick])
        figures.append(Figure("calls", name, "Forebay, Rust", value, unit, yardstick, slower, slower, note))
    return figures


def from_c(programs: Path, folder: Path, spin: float) -> list[Figure]:
    """From C, to the server and the broker of the program `call`, each side on cores of its own."""
    from overhead import apart, other

    socket = folder / "agent.sock"
    with ExitStack() as stack:
        stack.enter_context(other("FOREBAY_BENCH_BROKER", socket))
        server = stack.enter_context(other("FOREBAY_BENCH_SERVER", socket))
        stack.enter_context(apart(server))
        result = alone([str(programs / "call_forebay"), str(socket)])
    rows = [
        ("void call, active, median", result["median_us"]),
        ("void call, active, fastest", result["fastest_us"]),
    ]
    return [
        Figure(
            "calls", what, "Forebay, C", value, "us", SPIN, value / spin, value / spin, "cores of their own"
        )
        for what, value in rows
    ]


def from_python(spin: float) -> list[Figure]:
    """From Python, and what a diagram and the loop head cost there."""
    rows = alone([sys.executable, str(ROOT / "benches" / "overhead.py"), "--json"])
    figures = []
    for what, row in rows.items():
        who = "the interpreter" if what.startswith("Python: ") else "Forebay, Python"
        is_call = who != "the interpreter" and row["unit"] == "us"
        part = "calls" if row["unit"] == "us" else "watching"
        ratio = row["value"] / spin if is_call else None
        name = what.removeprefix("Python: ")
        figures.append(
            Figure(part, name, who, row["value"], row["unit"], SPIN if is_call else "", ratio, ratio)
        )
    return figures


def watching() -> list[Figure]:
    """What the loop head and an unwatched curve cost in Rust."""
    cargo = ["cargo", "bench", "--quiet", "--locked", "--manifest-path", str(ROOT / "Cargo.toml")]
    rows = alone([*cargo, "--package", "forebay-client", "--bench", "run", "--", "--json"])
    names = {"loop_head": "loop head", "unwatched_update": "unwatched diagram.update"}
    return [
        Figure("watching", what, "Forebay, Rust", rows[key], "ns")
        for key, what in names.items()
        if key in rows
    ]
