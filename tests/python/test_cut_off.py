"""Ranks that are killed in the body of a step, behind the snapshot at its bottom: what the body adds behind it is not made
again, and the restart says so, there and nowhere else."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path

import forebay as fb
import pytest
from places import Place

PROGRAM = """
import os, signal, sys, numpy as np, forebay as fb
shape, dies, steps = sys.argv[2], sys.argv[3], int(sys.argv[4])
with fb.open(sys.argv[1]) as run:
    rows = run.table("rows", {"step": "i64"}, history=True)
    energy = run.diagram("energy", "history", reduce="sum")
    own = run.diagram("own", "history")
    x = np.zeros(8)
    snap = run.restart()
    if snap is not None:
        x = snap["x"][8 * run.rank : 8 * run.rank + 8].copy()

    def keep(number):
        with run.snapshot(number) as s:
            s.put("x", x, offset=8 * run.rank, shape=8 * run.size)

    def falls(where):
        if f"{run.position}{where}" == dies or f"{run.position}{where}{run.rank}" == dies:
            run.flush()
            # A kill of all at once, wherever the others are.
            os.killpg(0, signal.SIGKILL) if run.size == 1 else os.kill(os.getpid(), signal.SIGKILL)

    if shape == "saves":
        run.saves(every=5)(keep)
    for step in run.steps(steps, start=snap):
        falls("head")
        if shape == "top" and step % 5 == 0:
            keep(step)
            falls("kept")
        x += 1.0
        if shape == "rows first":
            rows.insert((step,))
            energy.append(step, e=float(step))
            own.append(step, e=float(run.rank))
        if shape in ("bottom", "rows first", "sparse") and step % 5 == 4:
            keep(step + 1)
            falls("kept")
        if shape != "rows first" and (shape != "sparse" or step % 5 == 4):
            rows.insert((step,))
            falls("row")
            energy.append(step, e=float(step))
            own.append(step, e=float(run.rank))
        falls("end")
"""


def start(
    place: Place, run_dir: Path, shape: str, dies: tuple[str, ...], steps: int
) -> list[tuple[str, str, int]]:
    """Runs a rank for each place at which one dies."""
    programs = [
        place.start(
            sys.executable,
            "-c",
            PROGRAM,
            run_dir,
            shape,
            where,
            str(steps),
            env={**place.env, "PMI_RANK": str(rank), "PMI_SIZE": str(len(dies))},
            start_new_session=True,
        )
        for rank, where in enumerate(dies)
    ]
    return [(*program.communicate(timeout=90), program.returncode) for program in programs]


def told(outs: list[tuple[str, str, int]]) -> str:
    return " ".join(re.sub(r"\s+", " ", err) for _, err, _ in outs)


def points(run: fb.Run, title: str) -> list[tuple[int, float]]:
    sql = "select p.step, p.value from fb_points p join fb_diagrams d on d.id = p.diagram where d.title = ? order by p.step"
    return [(row["step"], row["value"]) for row in run.sql(sql, [title])]


@pytest.mark.parametrize(
    ("dies", "lacks"), [("14kept", ["rows", "energy", "own"]), ("14row", ["energy", "own"])]
)
def test_what_a_kill_cut_off_behind_a_snapshot_is_named_by_the_restart(
    place: Place, run_dir: Path, dies: str, lacks: list[str]
) -> None:
    (first,) = start(place, run_dir, "bottom", (dies,), 20)
    assert first[2] == -signal.SIGKILL
    (second,) = start(place, run_dir, "bottom", ("never",), 20)
    assert second[2] == 0, second
    said = told([second])
    assert "was killed in the body of step 14, behind snapshot 15" in said, said
    assert [name for name in ("rows", "energy", "own") if f'"{name}" has 0' in said] == lacks
    assert "run.saves" in said
    with fb.open(run_dir, "r") as run:
        assert [row["step"] for row in run.table("rows").select()] == [
            step for step in range(20) if step != 14 or "rows" not in lacks
        ]
    # It is told where the run goes back to that step, and not again.
    assert "killed" not in told(start(place, run_dir, "bottom", ("never",), 25))


@pytest.mark.parametrize(
    ("shape", "dies"),
    [
        ("bottom", "13head"),
        ("bottom", "14end"),
        ("bottom", "15head"),
        ("bottom", "12row"),
        ("rows first", "14kept"),
        ("rows first", "15head"),
        ("top", "15kept"),
        ("top", "15row"),
        ("top", "14end"),
        ("saves", "15head"),
        ("saves", "15row"),
        ("saves", "16row"),
    ],
)
def test_a_restart_says_nothing_where_nothing_is_cut_off(
    place: Place, run_dir: Path, shape: str, dies: str
) -> None:
    (first,) = start(place, run_dir, shape, (dies,), 20)
    assert first[2] == -signal.SIGKILL, first
    (second,) = start(place, run_dir, shape, ("never",), 20)
    assert second[2] == 0, second
    assert "killed in the body" not in told([second]), second
    with fb.open(run_dir, "r") as run:
        assert [row["step"] for row in run.table("rows").select()] == list(range(20))
        assert points(run, "energy") == [(step, step) for step in range(20)]


def test_a_point_that_lacks_the_value_of_a_rank_that_was_killed_does_not_stay(
    place: Place, run_dir: Path
) -> None:
    # Rank 1 dies behind the snapshot, rank 0 behind its share.
    outs = start(place, run_dir, "bottom", ("14end0", "14kept1"), 20)
    assert [out[2] for out in outs] == [-signal.SIGKILL] * 2, outs
    outs = start(place, run_dir, "bottom", ("never", "never"), 20)
    assert [out[2] for out in outs] == [0, 0], outs
    said = told(outs)
    assert "to which a rank had not given its value" in said and "rows of rank 1" in said, said
    assert '"energy"' in said and '"own"' not in said, said
    with fb.open(run_dir, "r") as run:
        assert points(run, "energy") == [(s, 2.0 * s) for s in range(20) if s != 14]
        assert points(run, "own") == [(s, 0.0) for s in range(20)]


@pytest.mark.parametrize("other", ["14end1", "15head1"])
def test_the_value_of_another_rank_does_not_stay_for_that_of_the_lowest_one_which_was_killed(
    place: Place, run_dir: Path, other: str
) -> None:
    outs = start(place, run_dir, "bottom", ("14kept0", other), 20)
    assert [out[2] for out in outs] == [-signal.SIGKILL] * 2, outs
    outs = start(place, run_dir, "bottom", ("never", "never"), 20)
    assert [out[2] for out in outs] == [0, 0], outs
    said = told(outs)
    assert '"energy", without points' in said and '"own", without points' in said, said
    with fb.open(run_dir, "r") as run:
        assert points(run, "energy") == [(s, 2.0 * s) for s in range(20) if s != 14]
        assert points(run, "own") == [(s, 0.0) for s in range(20) if s != 14]


def test_what_may_be_cut_off_behind_the_first_snapshot_is_named_where_nothing_stands_beside_it(
    place: Place, run_dir: Path
) -> None:
    outs = start(place, run_dir, "sparse", ("4kept",), 20)
    assert outs[0][2] == -signal.SIGKILL, outs
    said = told(start(place, run_dir, "sparse", ("never",), 20))
    assert "killed in the body of step 4, behind snapshot 5" in said, said
    for name, what in [("rows", "rows of rank 0"), ("energy", "points"), ("own", "points")]:
        assert f'"{name}" has no {what} yet' in said, said


def test_a_point_that_another_rank_gave_behind_the_first_snapshot_goes_with_a_word(
    place: Place, run_dir: Path
) -> None:
    outs = start(place, run_dir, "sparse", ("4kept0", "4end1"), 20)
    assert [out[2] for out in outs] == [-signal.SIGKILL] * 2, outs
    said = told(start(place, run_dir, "sparse", ("never", "never"), 20))
    assert '"energy", without points' in said and '"own", without points' in said, said
    with fb.open(run_dir, "r") as run:
        assert points(run, "energy") == [(s, 2.0 * s) for s in (9, 14, 19)]
        assert points(run, "own") == [(s, 0.0) for s in (9, 14, 19)]
