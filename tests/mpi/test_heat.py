"""Three programs around one run: each reads what the one before it has put there, and can be run again alone."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from conftest import Mpi, compiled, compiled_fortran, latest, pids
from places import ROOT, Place, until

HEAT = ROOT / "examples" / "04_heat3d"
CELLS, STEPS, EVERY = "10,9,8", 60, 20


@pytest.fixture(scope="session")
def heat(tmp_path_factory: pytest.TempPathFactory, prefix: Path) -> dict[str, Path]:
    """The computation: in C for each launcher, and in Fortran for one."""
    out, source = tmp_path_factory.mktemp("heat"), HEAT / "c" / "heat3d.c"
    return {
        "mpich": compiled(source, out / "heat3d.mpich", "mpicc.mpich"),
        "openmpi": compiled(source, out / "heat3d.openmpi", "mpicc.openmpi"),
        "fortran": compiled_fortran(
            HEAT / "fortran" / "heat3d.f90", out / "heat3d.fortran", "mpifort.mpich", prefix
        ),
    }


def python(place: Place, name: str, *words: object) -> subprocess.CompletedProcess[str]:
    """Runs one of the programs in Python to its end."""
    command = [sys.executable, str(HEAT / f"{name}.py"), *map(str, words)]
    return subprocess.run(command, env=place.env, capture_output=True, text=True, timeout=60, check=False)


def mesh(place: Place, run: Path, ranks: int, *words: object, steps: int = STEPS) -> None:
    """Makes the mesh of a run."""
    done = python(
        place, "mesh", run, "--cells", CELLS, "--ranks", ranks, "--steps", steps, "--every", EVERY, *words
    )
    assert done.returncode == 0, done.stderr


def computed(place: Place, run: Path, mpi: Mpi, ranks: int, program: Path) -> list[str]:
    """Runs the computation to its end; what it prints."""
    job = place.start(*mpi.command(ranks, program, run))
    out, err = job.communicate(timeout=60)
    assert job.returncode == 0, out + err
    return sorted(line for line in out.splitlines() if line.startswith("heat3d:"))


def temperatures(run: Path) -> np.ndarray:
    """T of all snapshots."""
    with fb.open(run, "r") as there:
        assert there.snapshots.numbers == list(range(0, STEPS + 1, EVERY))
        return there.series("T")


def test_three_programs_around_one_run_give_the_same_bits_in_c_and_fortran_on_any_number_of_ranks(
    place: Place, tmp_path: Path, heat: dict[str, Path]
) -> None:
    cases = [("mpich", 1, "mpich", "x"), ("openmpi", 2, "openmpi", "x"), ("fortran", 2, "mpich", "z")]
    printed, found = [], []
    for program, ranks, launcher, along in cases:
        run = tmp_path / f"{program}{ranks}.fb"
        mesh(place, run, ranks, "--along", along)
        lines = computed(place, run, Mpi(launcher), ranks, heat[program])
        analysed = python(place, "analysis", run)
        assert analysed.returncode == 0, analysed.stderr
        # Each can be run again alone; the mesh not under snapshots that were made of it.
        assert python(place, "analysis", run).stdout == analysed.stdout
        again = python(place, "mesh", run, "--cells", CELLS)
        assert again.returncode == 1
        assert "--fresh" in again.stderr
        printed.append((lines, analysed.stdout))
        found.append(temperatures(run))
    assert printed[0] == printed[1] == printed[2]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    last = found[0][-1]
    assert 300 < last[-1].mean() < last[0].mean() < 400
    with fb.open(tmp_path / "openmpi2.fb", "r") as there:
        means = there.history("temperature")
        np.testing.assert_allclose(means["mean"], found[1].mean(axis=(1, 2, 3)), rtol=1e-12)
        assert len(there.table("analysis").select()) == len(found[1])


def test_a_computation_that_is_killed_goes_on_to_the_same_bits(
    place: Place, tmp_path: Path, heat: dict[str, Path]
) -> None:
    calm, hurt, mpi = tmp_path / "calm.fb", tmp_path / "hurt.fb", Mpi("mpich")
    many = 20_000
    for run in (calm, hurt):
        mesh(place, run, 2, steps=many)
    job = place.start(*mpi.command(2, heat["mpich"], hurt))
    until(lambda: latest(hurt) >= EVERY, what="a snapshot behind the first")
    for pid in pids(place, "heat3d.mpich"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    job.communicate(timeout=60)
    first, _ = computed(place, hurt, mpi, 2, heat["mpich"])
    going_on = re.search(r"steps (\d+) to", first)
    assert going_on
    assert int(going_on[1]) > 0
    computed(place, calm, mpi, 2, heat["mpich"])
    with fb.open(calm, "r") as one, fb.open(hurt, "r") as other:
        assert one.snapshots.numbers == other.snapshots.numbers
        np.testing.assert_array_equal(one.snapshots[-1]["T"], other.snapshots[-1]["T"])


def test_what_does_not_fit_the_mesh_is_said(place: Place, tmp_path: Path, heat: dict[str, Path]) -> None:
    run = tmp_path / "run.fb"
    mesh(place, run, 2)
    for program, ranks, text in (("mpich", 1, "another number of ranks"), ("fortran", 2, "--along z")):
        job = place.start(*Mpi("mpich").command(ranks, heat[program], run))
        out, err = job.communicate(timeout=60)
        assert job.returncode != 0
        assert text in out + err
    assert python(place, "analysis", run).returncode == 1
