"""The example in C: the same data and report as in Python, on any number of ranks, whoever solves the field."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forebay as fb
import pytest
from conftest import TIED, Mpi, TiedPlace, latest
from likeness import DECK, FEW, PYTHON, check_like_python, content, growth, run_to_end
from places import EXAMPLE, Place, ended, servers, until

MANY = "100000"  # steps: more than any test waits for, and yet an end


def test_the_example_without_mpi_keeps_and_reports_what_the_one_in_python_does(
    place: Place, run_dir: Path, programs: dict[str, Path], python: tuple[str, Path]
) -> None:
    servers(place)
    check_like_python(run_to_end(place, run_dir, [programs["alone"]]), run_dir, python)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_any_number_of_ranks_keeps_and_reports_what_one_process_in_python_does(
    place: Place, run_dir: Path, mpi: Mpi, two_stream: Path, ranks: int, python: tuple[str, Path]
) -> None:
    servers(place)
    check_like_python(run_to_end(place, run_dir, mpi.command(ranks, two_stream)), run_dir, python)


def test_a_server_in_c_serves_clients_in_python_and_in_c(
    place: Place, run_dir: Path, programs: dict[str, Path], python: tuple[str, Path]
) -> None:
    server = place.start(programs["poisson1d"])
    place.run_python(
        """
import sys, time, numpy as np, forebay as fb
sys.path.insert(0, sys.argv[1])
from poisson1d import solve
client = fb.connect()
deadline = time.monotonic() + 20
for n in (4, 5, 64, 1000):
    rho = np.cos(np.arange(n) ** 2)
    phi, E = np.empty(n), np.empty(n)
    while True:
        try:
            client.call("poisson1d", 6.0, rho, phi, E)
            break
        except fb.NoServer:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    for ours, theirs in zip((phi, E), solve(6.0, rho)):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10 * np.abs(theirs).max())
""",
        EXAMPLE / "python",
    )
    check_like_python(run_to_end(place, run_dir, [programs["alone"]]), run_dir, python)
    server.send_signal(signal.SIGTERM)
    ended(server)


def test_a_run_goes_on_in_the_other_language(
    place: Place, run_dir: Path, programs: dict[str, Path], python: tuple[str, Path]
) -> None:
    servers(place)
    run_to_end(place, run_dir, PYTHON, "--steps", "105")
    out = run_to_end(place, run_dir, [programs["alone"]], "--steps", "205")
    assert "going on from step 105" in out
    out = run_to_end(place, run_dir, PYTHON)
    assert "going on from step 205" in out
    assert abs(growth(out) / growth(python[0]) - 1) < 0.01


def reached(path: Path, step: int) -> Callable[[], bool]:
    return lambda: latest(path) >= step


def ranks_of(place: Place) -> list[int]:
    """The processes of the example in C, without its launcher."""
    found = [line.split(": ", 1) for line in place.processes()]
    return [int(pid) for pid, words in found if "two_stream." in words.split()[0]]


@pytest.fixture(scope="module")
def whole(
    programs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Mpi], dict[str, Any]]:
    """What a run keeps that two ranks of a launcher brought to its end without interruption."""
    known: dict[str, dict[str, Any]] = {}

    def of(mpi: Mpi) -> dict[str, Any]:
        if mpi.name not in known:
            path = tmp_path_factory.mktemp("whole") / "whole.fb"
            with contextlib.closing(TiedPlace()) as place:
                servers(place)
                run_to_end(place, path, mpi.command(2, programs[mpi.name]))
            known[mpi.name] = content(path)
        return known[mpi.name]

    return of


@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "SIGKILL to one rank"])
def test_an_interrupted_job_goes_on_bit_for_bit_on_as_many_ranks(
    place: Place, run_dir: Path, mpi: Mpi, two_stream: Path, how: str, whole: Callable[[Mpi], dict[str, Any]]
) -> None:
    servers(place)
    job = place.start(*mpi.command(2, two_stream), "--run", run_dir, *FEW)
    until(reached(run_dir, 40), 30, "step 40")
    if how == "SIGKILL to one rank":
        with contextlib.suppress(IndexError, ProcessLookupError):
            os.kill(ranks_of(place)[-1], signal.SIGKILL)
    else:
        job.send_signal(signal.Signals[how])
    job.communicate(timeout=30)
    until(lambda: not ranks_of(place), 20, "the end of all ranks")
    out = run_to_end(place, run_dir, mpi.command(2, two_stream))
    # On a fast machine the interruption may come behind the last step.
    assert "going on from step" in out or "the run is finished" in out
    assert content(run_dir) == whole(mpi)


def test_a_job_goes_on_on_other_numbers_of_ranks(
    place: Place, run_dir: Path, mpi: Mpi, two_stream: Path, python: tuple[str, Path]
) -> None:
    servers(place)
    run_to_end(place, run_dir, mpi.command(2, two_stream), "--steps", "70")
    job = place.start(*mpi.command(4, two_stream), "--run", run_dir, *FEW, "--steps", "200")
    until(reached(run_dir, 100), 30, "step 100")
    if alive := ranks_of(place):
        with contextlib.suppress(ProcessLookupError):
            os.kill(alive[-1], signal.SIGKILL)
    job.communicate(timeout=30)
    until(lambda: not ranks_of(place), 20, "the end of all ranks")
    out = run_to_end(place, run_dir, mpi.command(1, two_stream))
    found = re.search(r"going on from step (\d+)", out)
    assert found and int(found[1]) >= 100
    assert abs(growth(out) / growth(python[0]) - 1) < 0.01
    with fb.open(run_dir, "r") as run:
        assert run.table("history").select()["step"].tolist() == list(range(300))
        assert set(range(0, 301, 20)) <= set(run.snapshots.numbers)
        assert all(kept["electrons_beam2/velocity/x"].shape == (10_000,) for kept in run.snapshots)


def test_steering_holds_steps_saves_and_ends_all_ranks_together(
    place: Place, run_dir: Path, mpi: Mpi, two_stream: Path
) -> None:
    servers(place)
    job = place.start(*mpi.command(4, two_stream), "--run", run_dir, *FEW, "--steps", MANY)
    until(reached(run_dir, 20), 30, "step 20")
    place.command("steer", run_dir, "stop")
    before = latest(run_dir)
    place.command("steer", run_dir, "set", "external_field", "0.25")
    place.command("steer", run_dir, "step", "3")
    place.command("steer", run_dir, "save")
    until(lambda: latest(run_dir) > before, 20, "the saved step")
    place.command("steer", run_dir, "run")
    place.command("steer", run_dir, "quit")
    assert "growth rate" in ended(job)[0]
    with fb.open(run_dir, "r") as run:
        assert run.snapshots[-1].step == run.table("history").select()["step"][-1] + 1


@pytest.mark.parametrize("how", [None, signal.SIGINT, signal.SIGTERM])
def test_the_master_starts_ranks_and_leaves_nothing_behind(
    place: Place, run_dir: Path, mpi: Mpi, two_stream: Path, how: signal.Signals | None
) -> None:
    steps = "40" if how is None else MANY
    words = ["--client", two_stream, "--ranks", "2", "--mpiexec", f"mpiexec.{mpi.name}"]
    few = ["--run", run_dir, *FEW[2:], "--steps", steps]
    master = place.start(sys.executable, EXAMPLE / "demo.py", *words, *few, start_new_session=True)
    if how is not None:
        until(reached(run_dir, 40), 30, "step 40")
        # As a terminal does it: Ctrl-C reaches the whole foreground group.
        os.killpg(master.pid, how) if how == signal.SIGINT else master.send_signal(how)
    out, err = master.communicate(timeout=60)
    assert master.returncode == {None: 0, signal.SIGINT: 130, signal.SIGTERM: 143}[how], out + err
    until(lambda: not [p for p in place.processes() if "two_stream" in p or "poisson1d" in p])


def test_another_deck_is_refused_for_a_run_that_exists(
    place: Place, run_dir: Path, programs: dict[str, Path]
) -> None:
    servers(place)
    run_to_end(place, run_dir, [programs["alone"]], "--steps", "2")
    process = place.start(programs["alone"], "--run", run_dir, *FEW, "--particles", "2000")
    _, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "beam1.count = 10000" in err and "--fresh" in err


def test_ranks_with_different_decks_are_told_so_and_end(
    place: Place, run_dir: Path, mpi: Mpi, two_stream: Path
) -> None:
    words = [two_stream, "--run", run_dir, *FEW, "--steps"]
    job = place.start(*mpi.command(2, *words, "10"), ":", "-n", "1", *TIED, *words, "20")
    out, err = job.communicate(timeout=30)
    assert job.returncode != 0
    assert "the deck of this rank is not that of the others" in out + err
    assert not run_dir.exists()


def test_without_a_server_the_job_says_what_is_missing_and_ends(
    place: Place, run_dir: Path, mpi: Mpi, two_stream: Path
) -> None:
    job = place.start(*mpi.command(2, two_stream), "--run", run_dir, *FEW, "--wait", "0.2")
    out, err = job.communicate(timeout=30)
    assert job.returncode != 0
    assert "poisson1d" in out + err


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("grid = 64", "grid = 1", ":8: [box] grid: grid = 1 is not an integer from 4"),
        ("dt = 0.1", "dt = 'a'", "[time] dt: dt = a is not a number above 0"),
        ("dt = 0.1", "dt = 0x10", "[time] dt"),
        ("dt = 0.1", "dt = 3.0", "below 2"),
        ("dt = 0.1", "dt =", "not TOML"),
        ("dt = 0.1", "dt 0.1", "not TOML"),
        ("dt = 0.1", "dt = 0.1\ndt = 0.2", "a second time"),
        ("steps = 600\n", "", "'steps' is missing"),
        ('name = "beam2"', 'name = "beam1"', "names two beams"),
        ('name = "beam2"', 'name = "beam 2"', "letters, digits and underscores"),
        ("count = 2000000", "count = 3", "shared evenly"),
        ("drift = -1.0", "drft = -1.0", "[beam] drft: unknown key"),
        ("[time]", "[tim]", "[tim]: unknown"),
        ("[time]", "[[time]]", "write [time]"),
        ("amplitude = 0.0", "amplitude = 9.0", "beyond the limit"),
        ("[box]", "length = 1\n[box]", "before the first [section]"),
    ],
)
def test_a_wrong_deck_is_refused_with_the_line_and_the_key(
    tmp_path: Path, programs: dict[str, Path], old: str, new: str, says: str
) -> None:
    text = DECK.read_text(encoding="utf-8")
    assert old in text
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(text.replace(old, new, 1), encoding="utf-8")
    done = subprocess.run([programs["alone"], wrong], capture_output=True, text=True, timeout=10, check=False)
    assert done.returncode == 1
    assert says in done.stderr
    assert str(wrong) in done.stderr


def test_the_compilers_of_both_launchers_are_there() -> None:
    for tool in ("mpicc.mpich", "mpiexec.mpich", "mpicc.openmpi", "mpiexec.openmpi"):
        assert shutil.which(tool), f"{tool} is missing: run scripts/setup"
