"""The example from one end to the other: physics, interruptions, lost servers, bit for bit."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
import pytest
from conftest import EXAMPLE, Place, until
from likeness import content
from places import ended, servers

FEW = ["--particles", "20000", "--no-monitor"]


def client(place: Place, run: Path, *more: str) -> subprocess.Popen[str]:
    return place.start(sys.executable, EXAMPLE / "python" / "two_stream.py", "--run", run, *FEW, *more)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The run as it is when nothing happens."""
    place = Place()
    path = tmp_path_factory.mktemp("reference") / "whole.fb"
    servers(place)
    out, err = client(place, path).communicate(timeout=90)
    try:
        report = dict(line.split(None, 1) for line in out.splitlines())
        assert report, err
        return {"report": report, "content": content(path)}
    finally:
        place.close()


def test_the_growth_rate_is_that_of_the_dispersion_relation(uninterrupted: dict[str, Any]) -> None:
    report = uninterrupted["report"]
    text = report["growth"]
    measured, theory = (float(n) for n in re.findall(r"(\d\.\d{4}) wp", text))
    assert theory == 0.4859
    assert abs(measured / theory - 1) < 0.03
    assert "31," in report["snapshots"]
    assert report["calls"].startswith("601 ")


def test_energy_and_momentum_are_conserved(uninterrupted: dict[str, Any]) -> None:
    report = uninterrupted["report"]
    assert float(report["energy"].split()[1]) < 1.0
    assert float(report["momentum"].split()[1]) < 1e-10


def test_a_snapshot_holds_everything_with_units(uninterrupted: dict[str, Any]) -> None:
    names = {key.split("/", 1)[1] for key in uninterrupted["content"] if key.startswith("20/")}
    beams = {f"electrons_beam{n}/{what}/x" for n in (1, 2) for what in ("position", "velocity")}
    assert names == {"x", "E", "phi", "rho"} | beams
    assert len(uninterrupted["content"]["history"]) == 600
    assert ("beam1.drift", "1.0") in uninterrupted["content"]["input"]


def reached(path: Path, step: int) -> Callable[[], bool]:
    def look() -> bool:
        try:
            with fb.open(path, "r") as run:
                return bool(run.snapshots.numbers) and run.snapshots.numbers[-1] >= step
        except fb.Error:
            return False

    return look


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_run_goes_on_bit_for_bit(
    place: Place, run_dir: Path, uninterrupted: dict[str, Any], how: signal.Signals
) -> None:
    servers(place)
    behind = 0
    for step in (40, 120):
        process = client(place, run_dir)
        # A step of its own, so that the signal meets a program in its loop, and none that only begins.
        until(reached(run_dir, max(step, behind)), 60, f"step {max(step, behind)}")
        process.send_signal(how)
        _, err = process.communicate(timeout=20)
        if reached(run_dir, 600)():
            break  # On a fast machine the signal comes behind the last step.
        assert process.returncode == (130 if how == signal.SIGINT else -9), err
        behind = newest(run_dir) + 1
    out, err = client(place, run_dir).communicate(timeout=90)
    assert "going on from step" in out or "the run is finished" in out, err
    assert content(run_dir) == uninterrupted["content"]


def test_the_run_is_the_same_when_a_server_is_killed(
    place: Place, run_dir: Path, uninterrupted: dict[str, Any]
) -> None:
    first, _ = servers(place)
    process = client(place, run_dir)
    until(reached(run_dir, 60), 60, "step 60")
    first.kill()
    ended(process, timeout=90)
    assert content(run_dir) == uninterrupted["content"]


def test_a_finished_run_says_so_and_can_go_further(place: Place, run_dir: Path) -> None:
    servers(place)
    out, err = client(place, run_dir, "--steps", "45").communicate(timeout=60)
    assert "snapshots" in out, err
    out, err = client(place, run_dir, "--steps", "45").communicate(timeout=60)
    assert "the run is finished" in out, err
    out, err = client(place, run_dir, "--steps", "60").communicate(timeout=60)
    assert "going on from step 45" in out, err
    with fb.open(run_dir, "r") as run:
        assert run.table("history").select()["step"].tolist() == list(range(60))


def test_without_a_server_the_client_says_what_is_missing(place: Place, run_dir: Path) -> None:
    process = client(place, run_dir, "--wait", "0.2")
    _, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "poisson1d" in err


def test_another_deck_is_refused_for_a_run_that_exists(place: Place, run_dir: Path) -> None:
    servers(place)
    client(place, run_dir, "--steps", "2").communicate(timeout=60)
    process = client(place, run_dir, "--particles", "2000")
    _, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "--fresh" in err


@pytest.mark.parametrize("how", [None, signal.SIGINT, signal.SIGTERM])
def test_the_master_leaves_nothing_behind(place: Place, run_dir: Path, how: signal.Signals | None) -> None:
    steps = "40" if how is None else "100000"
    process = place.start(
        sys.executable, EXAMPLE / "demo.py", "--run", run_dir, *FEW, "--steps", steps, start_new_session=True
    )
    if how is not None:
        until(reached(run_dir, 40), 60, "step 40")
        # As a terminal does it: Ctrl-C reaches the whole foreground group.
        os.killpg(process.pid, how) if how == signal.SIGINT else process.send_signal(how)
    process.communicate(timeout=60)
    assert process.returncode == {None: 0, signal.SIGINT: 130, signal.SIGTERM: 143}[how]
    until(lambda: not [p for p in place.processes() if "two_stream" in p or "poisson1d" in p])


def test_steering_stops_steps_saves_and_quits(place: Place, run_dir: Path) -> None:
    servers(place)
    process = client(place, run_dir, "--steps", "1000000")
    until(reached(run_dir, 20), 60, "step 20")
    place.command("steer", run_dir, "stop")
    before = newest(run_dir)
    place.command("steer", run_dir, "set", "external_field", "0.25")
    place.command("steer", run_dir, "step", "3")
    place.command("steer", run_dir, "save")
    until(lambda: newest(run_dir) > before, 20, "the saved step")
    place.command("steer", run_dir, "run")
    place.command("steer", run_dir, "quit")
    ended(process)
    with fb.open(run_dir, "r") as run:
        last = run.snapshots[-1]
        assert last.step == run.table("history").select()["step"][-1] + 1
        assert np.isfinite(last["E"]).all()
    assert time.monotonic() > 0


def newest(path: Path) -> int:
    with fb.open(path, "r") as run:
        return run.snapshots.numbers[-1]
