"""The example in Fortran on ranks of MPI: the same data and report as one process in Python."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import forebay as fb
import pytest
from conftest import TIED, Mpi, compiled_fortran, latest, pids
from likeness import FEW, check_like_python, content, growth, run_to_end
from places import EXAMPLE, Place, servers, until

MANY = "100000"  # steps: more than any test waits for, and yet an end


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory, prefix: Path) -> dict[str, Path]:
    """The example in Fortran: for each launcher, and `alone` without MPI."""
    made, out = {}, tmp_path_factory.mktemp("fortran")
    for name, compiler, source in (
        ("alone", "gfortran", "two_stream"),
        ("mpich", "mpifort.mpich", "two_stream_mpi"),
        ("openmpi", "mpifort.openmpi", "two_stream_mpi"),
    ):
        made[name] = compiled_fortran(
            EXAMPLE / "fortran" / f"{source}.f90", out / f"two_stream.{name}", compiler, prefix
        )
    return made


@pytest.fixture
def two_stream(mpi: Mpi, built: dict[str, Path]) -> Path:
    """The example built for that launcher."""
    return built[mpi.name]


def all_ended(place: Place) -> None:
    """Waits until no rank is left."""
    until(lambda: not pids(place, "two_stream."), what="the end of all ranks")


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_any_number_of_ranks_keeps_and_reports_what_one_process_in_python_does(
    place: Place, run_dir: Path, mpi: Mpi, two_stream: Path, ranks: int, python: tuple[str, Path]
) -> None:
    servers(place)
    out = run_to_end(place, run_dir, mpi.command(ranks, two_stream))
    check_like_python(out, run_dir, python)
    assert round(growth(out), 3) == 0.480


def test_an_interrupted_job_goes_on_bit_for_bit_on_as_many_ranks_and_then_on_others(
    place: Place, run_dir: Path, mpi: Mpi, two_stream: Path, built: dict[str, Path], tmp_path: Path
) -> None:
    servers(place)
    whole = tmp_path / "whole.fb"
    run_to_end(place, whole, mpi.command(2, two_stream))
    job = place.start(*mpi.command(2, two_stream), "--run", run_dir, *FEW)
    until(lambda: latest(run_dir) >= 20, 30, "the second snapshot")
    job.send_signal(signal.SIGTERM)
    job.communicate(timeout=30)
    all_ended(place)
    out = run_to_end(place, run_dir, mpi.command(2, two_stream))
    # On a fast machine the interruption may come behind the last step.
    assert "going on from step" in out or "the run is finished" in out
    assert content(run_dir) == content(whole)
    for command, start in ((mpi.command(3, two_stream), 300), ([built["alone"]], 320)):
        out = run_to_end(place, run_dir, command, "--steps", str(start + 20))
        assert f"going on from step {start}\n" in out
    with fb.open(run_dir, "r") as run:
        assert run.table("history").select()["step"].tolist() == list(range(340))


@pytest.mark.parametrize("how", [None, signal.SIGINT])
def test_the_master_starts_ranks_and_leaves_nothing_behind(
    place: Place, run_dir: Path, mpi: Mpi, two_stream: Path, how: signal.Signals | None
) -> None:
    words = ["--client", two_stream, "--ranks", "2", "--mpiexec", f"mpiexec.{mpi.name}"]
    few = ["--run", run_dir, *FEW[2:], "--steps", "40" if how is None else MANY]
    master = place.start(sys.executable, EXAMPLE / "demo.py", *words, *few, start_new_session=True)
    if how is not None:
        until(lambda: latest(run_dir) >= 20, 30, "the second snapshot")
        # As a terminal does it: Ctrl-C reaches the whole foreground group.
        os.killpg(master.pid, how)
    out, err = master.communicate(timeout=60)
    assert master.returncode == (0 if how is None else 130), out + err
    until(lambda: not [p for p in place.processes() if "two_stream" in p or "poisson1d" in p])


def test_what_one_rank_finds_wrong_ends_all_of_them_with_its_words(
    place: Place, run_dir: Path, mpi: Mpi, two_stream: Path
) -> None:
    words = [two_stream, "--run", run_dir, *FEW]
    two = mpi.command(2, *words)
    for command, wrong in (
        ([*two, "--wait", "0.2"], "poisson1d"),
        (
            [*two, "--steps", "10", ":", "-n", "1", *TIED, *words, "--steps", "20"],
            "the deck of this rank is not that of the others",
        ),
    ):
        job = place.start(*command)
        out, err = job.communicate(timeout=30)
        assert job.returncode != 0 and wrong in out + err, out + err
        all_ended(place)
