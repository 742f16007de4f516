"""Wherever a program keeps its state and its rows, and however it ends: begun again, it comes to the state and the
histories of an undisturbed one, to the bit. What those are is computed here."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from places import Place, ended, until

STEPS, EVERY, CELLS = 200, 7, 12
RATE, OTHER = 3.9, 3.7

PROGRAM = f"""
import pathlib, sys, time
import forebay as fb, numpy as np
path, where, rows, asks, life, pause = pathlib.Path(sys.argv[1]), *sys.argv[2:6], float(sys.argv[6])
with fb.open(path, buffer="4MiB") as run:
    told = path.with_suffix("." + life)
    back = None
    if asks == "all" or run.rank == 0:
        back = run.restart()
    if run.rank == 0:
        told.with_suffix(".new").write_text("" if back is None else str(back.step))
        told.with_suffix(".new").rename(told)
    while not told.exists():
        time.sleep(0.001)
    start = int(told.read_text()) if told.read_text() else None
    low, high = {CELLS} * run.rank // run.size, {CELLS} * (run.rank + 1) // run.size
    x = np.linspace(0.1, 0.9, {CELLS})[low:high]
    if start is not None:
        x = fb.open(path, "r").snapshots.at(start)["x"][low:high].copy()
    rate = run.parameter("rate", {RATE})
    table = run.table("history", {{"step": "i64", "x": "f64"}}, history=True)
    curve = run.diagram("x", "history")

    @run.saves(every={EVERY} if where == "head" else None)
    def keep(step):
        with run.snapshot(step) as s:
            s.put("x", x, offset=low, shape={CELLS})

    def note(step):
        if run.rank == 0:
            table.insert((step, x[0]))
            curve.append(float(step), x=x[0])

    for step in run.steps({STEPS}, start=start):
        if rows == "before":
            note(step)
        if where == "top" and step % {EVERY} == 0:
            keep(step)
        if rows == "behind":
            note(step)
        x = rate.value * x * (1.0 - x)
        if where == "bottom" and (step + 1) % {EVERY} == 0:
            keep(step + 1)
        if step == 3 * {EVERY}:
            told.with_suffix(f".at{{run.rank}}").touch()
        time.sleep(pause)
    if where != "head":
        keep(run.position)
"""


def states(changed: int) -> list[np.ndarray]:
    """The states of an undisturbed program whose rate is another one from a step on."""
    x = np.linspace(0.1, 0.9, CELLS)
    found = [x]
    for step in range(STEPS):
        x = (OTHER if step >= changed else RATE) * x * (1.0 - x)
        found.append(x)
    return found


def check(run_dir: Path, changed: int) -> None:
    expected = states(changed)
    with fb.open(run_dir, "r") as run:
        for kept in run.snapshots:
            assert np.array_equal(kept["x"], expected[kept.step]), f"the state of step {kept.step}"
        assert run.snapshots.numbers[-1] == STEPS
        rows = run.table("history").select()
        assert rows["step"].tolist() == list(range(STEPS))
        first = [x[0] for x in expected[:STEPS]]
        assert rows["x"].tolist() == first
        assert run.sql("select value from fb_points order by t")["value"].tolist() == first


CASES = [
    (where, rows, event, 1, 1, "all")
    for where in ("top", "bottom", "head")
    for rows in ("before", "behind")
    for event in ("kill", "SIGTERM", "Quit", "Save, Run", "Save, kill", "Set, Save, kill")
] + [
    (where, rows, event, before, behind, asks)
    for where, rows in (("top", "behind"), ("bottom", "before"), ("head", "before"))
    for event in ("kill", "SIGTERM", "Save, Run", "Set, Save, kill")
    for before, behind, asks in ((4, 2, "one"), (2, 3, "all"))
]


@pytest.mark.parametrize(
    ("where", "rows", "event", "before", "behind", "asks"),
    CASES,
    ids=lambda value: str(value).replace(", ", "-"),
)
def test_a_program_begun_again_comes_to_what_an_undisturbed_one_comes_to(
    place: Place, run_dir: Path, where: str, rows: str, event: str, before: int, behind: int, asks: str
) -> None:
    words = [sys.executable, "-c", PROGRAM, run_dir, where, rows, asks]
    ranks = place.ranks(before, *words, "first", "0.004")
    marks = [run_dir.with_suffix(f".at{rank}") for rank in range(before)]
    until(lambda: all(mark.exists() for mark in marks), 60, "some steps")
    changed = STEPS
    if "Save" in event:
        held = place.command("steer", run_dir, "stop")
        if "Set" in event:
            changed = int(held.split("held before step ")[1].split(";")[0])
            place.command("steer", run_dir, "set", "rate", str(OTHER))
        place.command("steer", run_dir, "save")
    if "Run" in event:
        place.command("steer", run_dir, "run")
    elif event == "Quit":
        place.command("steer", run_dir, "quit")
    else:
        for process in ranks if "kill" in event else ranks[:1]:
            process.send_signal(signal.SIGTERM if event == "SIGTERM" else signal.SIGKILL)
    for process in ranks:
        ended(process, -signal.SIGKILL if "kill" in event else 0)
    for process in place.ranks(behind, *words, "second", "0"):
        ended(process)
    check(run_dir, changed)
