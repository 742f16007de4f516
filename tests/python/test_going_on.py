"""Wherever a program keeps its state and its rows, and however it ends: begun again, it comes to the state and the
histories of an undisturbed one, to the bit. What those are is computed here.

`FOREBAY_GOING_ON=all` tries every shape with every end and on all numbers of ranks, not some of them.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from places import Place, ended, hear, until

STEPS, EVERY, CELLS = 200, 7, 12
RATE, OTHER = 3.9, 3.7

PROGRAM = f"""
import pathlib, sys, time
import forebay as fb, numpy as np
path, where, rows, asks, life = pathlib.Path(sys.argv[1]), *sys.argv[2:6]
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
        # Behind the mark there is time for what is to happen to it.
        if life == "first" and step > 3 * {EVERY} and not told.with_suffix(".done").exists():
            time.sleep(0.05)
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


SHAPES = [(where, rows) for where in ("top", "bottom", "head") for rows in ("before", "behind")]
ENDS = ("kill", "SIGTERM", "Quit", "Save, Run", "Save, kill", "Set, Save, kill")
RANKS = [(1, 1, "all"), (4, 2, "one"), (2, 3, "all")]
CASES = [(*shape, end, *RANKS[0]) for i, shape in enumerate(SHAPES) for end in ENDS[(i + i // 2) % 2 :: 2]]
if os.environ.get("FOREBAY_GOING_ON") == "all":
    CASES = [(*shape, end, *RANKS[0]) for shape in SHAPES for end in ENDS]
    ranks = [(before, behind, asks) for before, behind, _ in RANKS[1:] for asks in ("one", "all")]
    CASES += [(*shape, end, *one) for shape in SHAPES for end in ENDS for one in ranks]
else:
    CASES += [
        (*shape, end, *one)
        for i, shape in enumerate((("top", "behind"), ("bottom", "before"), ("head", "before")))
        for j, end in enumerate(end for end in ENDS if end not in ("Quit", "Save, kill"))
        for one in RANKS[1 + (i + j) % 2 :][:1]
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
    ranks = place.ranks(before, *words, "first")
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
    run_dir.with_suffix(".done").touch()
    for process in ranks:
        ended(process, -signal.SIGKILL if "kill" in event else 0)
    for process in place.ranks(behind, *words, "second"):
        ended(process)
    check(run_dir, changed)


def test_a_parameter_that_goes_on_otherwise_than_the_program_says_is_told(
    place: Place, run_dir: Path
) -> None:
    code = """
import sys, forebay as fb, numpy as np
with fb.open(sys.argv[1]) as run:
    declared = lambda: run.parameter("rate", float(sys.argv[2]), min=float(sys.argv[3]), max=10.0)
    if sys.argv[4] == "before":
        rate = declared()
    back = run.restart()
    if sys.argv[4] == "behind":
        rate = declared()
    @run.saves(every=5)
    def keep(step):
        with run.snapshot(step) as s:
            s.put("u", np.zeros(3))
    for step in run.steps(5 if back is None else back.step + 5, start=back):
        pass
    print(rate.value)
"""
    for order in ("before", "behind"):
        path = run_dir.with_name(order)
        assert ended(place.python(code, path, "0.5", "0", order)) == ("0.5\n", "")
        out, err = ended(place.python(code, path, "0.7", "0", order))
        assert out == "0.5\n"
        assert (
            "parameter rate goes on with 0.5, its value in the snapshot, and not with the program's 0.7"
            in err
        )
        out, err = ended(place.python(code, path, "7", "5", order))
        assert out == "7.0\n"
        assert (
            "begins with the program's 7.0; its value in the snapshot was 0.5, and is not allowed any more"
            in err
        )
        assert ended(place.python(code, path, "7", "5", order)) == ("7.0\n", "")
        with fb.open(path, "r") as run:
            kept = {
                r["step"]: json.loads(r["parameters"])
                for r in run.sql("select step, parameters from fb_steps")
            }
        assert {step: of["rate"] for step, of in kept.items()} == {0: 0.5, 5: 0.5, 10: 0.5, 15: 7.0, 20: 7.0}


def test_what_save_does_takes_a_step_and_is_told_when_it_is_replaced(
    run_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with fb.open(run_dir) as run:
        for register in (run.saves, lambda fn: run.command("dump", fn)):
            with pytest.raises(fb.BadArgument, match="give it one argument"):
                register(lambda: None)
        run.saves(lambda step: None)
        assert capfd.readouterr().err == ""
        run.saves(lambda step: None, every=2)
        assert "takes the place of the first one" in capfd.readouterr().err


def test_a_run_that_is_held_has_kept_the_state_that_was_due_with_what_is_set_there(
    place: Place, run_dir: Path
) -> None:
    code = """
import sys, time, forebay as fb
with fb.open(sys.argv[1]) as run:
    rate = run.parameter("rate", 0.5)
    back = run.restart()
    print(None if back is None else (back.step, rate.value), flush=True)
    @run.saves(every=1)
    def keep(step):
        with run.snapshot(step) as s:
            s.put("x", float(step))
    for step in run.steps(10_000 if back is None else back.step, start=back):
        time.sleep(0.002)
"""
    process = place.python(code, run_dir)
    hear(process, "None")
    held = place.command("steer", run_dir, "stop")
    step = int(held.split("held before step ")[1].split(";")[0])
    place.command("steer", run_dir, "set", "rate", "0.75")
    process.kill()
    process.wait()
    assert place.run_python(code, run_dir) == f"({step}, 0.75)\n"


LOOKS = """
import sys, forebay as fb
with fb.open(sys.argv[1]) as run:
    snap = run.restart()
    print(snap.step, snap.finished, len(run.table("rows").select()))
"""


@pytest.mark.parametrize("end", ["finished", "killed"])
def test_who_only_looks_at_the_last_state_of_a_finished_run_takes_nothing_from_it(
    place: Place, run_dir: Path, end: str
) -> None:
    with_end = "" if end == "finished" else "run.flush(); import os; os.kill(os.getpid(), 9)"
    code = f"""
import sys, numpy as np, forebay as fb
run = fb.open(sys.argv[1])
rows, energy = run.table("rows", {{"step": "i64"}}, history=True), run.diagram("energy", "history")
snap = run.restart()
for step in run.steps(int(sys.argv[2]), start=snap):
    if step % 4 == 0:
        with run.snapshot(step) as s:
            s.put("x", np.full(3, float(step)))
    rows.insert((step,))
    energy.append(0.1 * step, e=float(step))
{with_end}
run.close()
"""
    ended(place.python(code, run_dir, "11"), 0 if end == "finished" else -signal.SIGKILL)
    for _ in range(2):
        step, _, rows = place.run_python(LOOKS, run_dir).split()
        # What is behind the last state of a killed run is made again by who goes back there.
        assert (step, rows) == ("8", "11" if end == "finished" else "9")
    # Who goes on makes them again.
    ended(place.python(code, run_dir, "14"), 0 if end == "finished" else -signal.SIGKILL)
    place.command("recover", run_dir)
    with fb.open(run_dir, "r") as run:
        assert [row["step"] for row in run.table("rows").select()] == list(range(14))
        assert [r["value"] for r in run.sql("select value from fb_points order by t")] == list(range(14))
