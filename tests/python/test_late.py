"""Errors of what was acknowledged earlier, and the choice of what becomes of them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Literal

import forebay as fb
import numpy as np
import pytest
from conftest import until


def opened(run_dir: Path, late: Literal["raise", "warn", "ignore"]) -> fb.Run:
    """A run with that choice."""
    return fb.open(run_dir, buffer="16MiB", late=late)


def put(snapshot: fb.Snapshot, step: int) -> None:
    """What steps 0 and 2 keep; the pieces of step 1 do not make a whole, which shows when it is written."""
    snapshot.put("E", np.full(200_000, float(step)))
    if step == 1:
        snapshot.put("F", np.ones(5), offset=(0,), shape=(9,))


def take(run: fb.Run, *steps: int) -> None:
    for step in steps:
        with run.snapshot(step) as s:
            put(s, step)


def kept(run_dir: Path, steps: list[int]) -> None:
    with fb.open(run_dir, "r") as run:
        assert run.snapshots.numbers == steps
        assert all((snap["E"] == snap.step).all() for snap in run.snapshots)


def test_a_late_error_is_raised_by_a_later_call_and_the_run_goes_on(run_dir: Path) -> None:
    with opened(run_dir, "raise") as run:
        take(run, 0, 1)

        def raised() -> str:
            try:
                run.put("small", 1.0)
            except fb.Error as error:
                return str(error)
            return ""

        said: list[str] = []
        until(lambda: said.append(raised()) or said[-1], 20, "the error")
        assert "step 1" in said[-1]
        assert "lacks 4 of its 9" in said[-1]
        take(run, 2)
    kept(run_dir, [0, 2])


@pytest.mark.parametrize("last", ["flush", "close"])
def test_a_late_error_is_raised_by_flush_and_close_too(run_dir: Path, last: str) -> None:
    run = opened(run_dir, "raise")
    take(run, 0, 1)
    with pytest.raises(fb.Error, match=r"step 1 .*lacks 4 of its 9"):
        getattr(run, last)()
    run.close()
    kept(run_dir, [0])


def test_late_errors_can_be_warnings(run_dir: Path) -> None:
    with opened(run_dir, "warn") as run:
        take(run, 0, 1)
        with pytest.warns(RuntimeWarning, match=r"step 1 .*lacks 4 of its 9") as said:
            run.flush()
        assert [Path(w.filename).name for w in said] == ["_run.py"] or said[0].filename == __file__
        assert run.stats()["late_errors"] == 1
        take(run, 2)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run.flush()
    kept(run_dir, [0, 2])


def test_a_filter_makes_such_a_warning_an_exception_that_costs_nothing(run_dir: Path) -> None:
    with opened(run_dir, "warn") as run, warnings.catch_warnings():
        warnings.simplefilter("error")
        take(run, 0, 1)
        with pytest.raises(RuntimeWarning, match="step 1"):
            run.flush()
        take(run, 2)
    kept(run_dir, [0, 2])


def test_ignored_late_errors_are_counted_and_a_wait_for_the_snapshot_fails_all_the_same(
    run_dir: Path,
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with opened(run_dir, "ignore") as run:
            take(run, 0)
            with run.snapshot(1) as s:
                put(s, 1)
            with pytest.raises(fb.Error, match="step 1"):
                s.wait()
            take(run, 2)
            run.flush()
            assert run.stats()["late_errors"] == 1
    kept(run_dir, [0, 2])


def test_another_policy_is_refused(run_dir: Path) -> None:
    with pytest.raises(fb.BadArgument, match=r"\"raise\", \"warn\" or \"ignore\""):
        fb.open(run_dir, late="perhaps")  # type: ignore[arg-type]
