"""Restart points: made by the program, listed as a tree, and gone back to by their tags."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import forebay as fb
import numpy as np
import pytest


def take(run: fb.Run, steps: range) -> None:
    for step in run.steps(steps.stop, start=steps.start):
        with run.snapshot(step, time=step * 0.5) as s:
            s.put("x", np.full(3, float(step)))


def test_a_checkpoint_says_which_step_it_is_and_when_and_with_which_parameters(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        nu = run.parameter("nu", 0.25)
        take(run, range(3))
        assert nu.value == 0.25
        assert run.checkpoint("early") == 2
        assert run.checkpoint() == 2
        early, nameless = run.checkpoints
    assert (early.number, early.step, early.tag, early.parent, early.time) == (1, 2, "early", None, 1.0)
    assert early.parameters == {"nu": 0.25}
    assert early.kept and early.made > 1.7e9
    assert (nameless.number, nameless.tag, nameless.parent) == (2, None, 1)
    assert "early" in repr(early) and "made" not in repr(early)


def test_there_is_nothing_to_mark_before_the_first_snapshot(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        with pytest.raises(fb.NotFound):
            run.checkpoint("too early")
        assert list(run.checkpoints) == []


def test_a_restart_from_a_tag_goes_back_behind_later_steps(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        history = run.table("energies", {"w": "f64"}, history=True)
        for step in run.steps(6):
            history.insert([{"w": float(step)}])
            with run.snapshot(step) as s:
                s.put("x", np.full(3, float(step)))
            if step in (2, 4):
                run.checkpoint(f"step{step}")
    with fb.open(run_dir) as run:
        back = run.restart("step2")
        assert back is not None and back.step == 2
        np.testing.assert_array_equal(back["x"], np.full(3, 2.0))
        assert list(run.snapshots.numbers) == [0, 1, 2]
        assert [c.kept for c in run.checkpoints] == [True, False]
        assert max(row["w"] for row in run.table("energies").select()) <= 2.0
        take(run, range(2, 5))
        run.checkpoint("branch")
        assert list(run.snapshots.numbers) == [0, 1, 2, 3, 4]
        branch = run.checkpoints[-1]
        assert (branch.step, branch.tag, branch.parent) == (4, "branch", 1)
    # Another program finds the same, reading only.
    with fb.open(run_dir, "r") as run:
        assert [(c.tag, c.step, c.parent) for c in run.checkpoints] == [
            ("step2", 2, None),
            ("step4", 4, 1),
            ("branch", 4, 1),
        ]


def test_parameters_have_their_values_of_the_checkpoint_again(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        run.parameter("nu", 0.25)
        take(run, range(2))
        run.checkpoint("quarter")
    with fb.open(run_dir) as run:
        back = run.restart("quarter")
        assert back is not None and back.parameters == {"nu": 0.25}
        assert run.parameter("nu", 8.0).value == 0.25


def test_an_unknown_tag_is_refused_with_those_there_are(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        take(run, range(2))
        run.checkpoint("known")
        with pytest.raises(fb.NotFound, match="known"):
            run.restart("unknown")
        # Nothing was lost by the attempt.
        assert list(run.snapshots.numbers) == [0, 1]


def test_a_name_that_was_given_twice_is_said_once_and_a_number_is_no_name(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        for n in range(2):
            take(run, range(n, n + 1))
            run.checkpoint("A")
        with pytest.raises(fb.NotFound, match=r'there is no checkpoint "B"; the run has A$'):
            run.restart("B")
        with pytest.raises(fb.BadArgument, match=r"tag = 50 is not the name of a checkpoint.*run\.drop"):
            run.restart(50)  # type: ignore[arg-type]
        with pytest.raises(fb.BadArgument, match="tag = 50 is not the name"):
            run.checkpoint(50)  # type: ignore[arg-type]


def test_a_run_that_is_read_makes_no_checkpoints(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        take(run, range(1))
    with fb.open(run_dir, "r") as run, pytest.raises(fb.ReadOnly):
        run.checkpoint("no")


def test_a_checkpoint_is_found_though_the_clock_was_set_back(run_dir: Path, owner: str) -> None:
    with fb.open(run_dir) as run:
        take(run, range(2))
    # As if the clock had shown half a minute more when the step was taken.
    with contextlib.closing(sqlite3.connect(run_dir / "catalog.sqlite")) as catalog, catalog:
        catalog.execute("update fb_steps set committed = committed + 30")
    with fb.open(run_dir) as run:
        assert run.checkpoint("good") == 1
        run.restart()
        take(run, range(1, 4))
        assert [c.kept for c in run.checkpoints] == [True]
        back = run.restart("good")
        assert back is not None and back.step == 1
        assert list(run.snapshots.numbers) == [0, 1]


@pytest.mark.parametrize(
    ("tag", "why"), [("", "is empty"), ("a\nb", "control character"), ("x" * 256, "longer than 255 bytes")]
)
def test_what_is_no_line_of_text_is_no_name_of_a_checkpoint(run_dir: Path, tag: str, why: str) -> None:
    with fb.open(run_dir) as run:
        take(run, range(2))
        with pytest.raises(fb.BadArgument, match=f"{why}; give 1 to 255 bytes"):
            run.checkpoint(tag)
        assert run.checkpoint("x" * 255) == 1
        assert [c.tag for c in run.checkpoints] == ["x" * 255]
