"""An adapter for LAMMPS: a run of many steps, in pieces of `head` steps between which steering acts.

::

    run(lmp, run, n) --> run head pre no --> variables from parameters, every `thermo` steps a row of thermo output
                  ^          |
                  `----------'-- every `every` steps, at Save and at the end: a snapshot with a restart file of LAMMPS,
                                 and a set-up, so that a restart goes on as this program does, to the bit
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from ._forebay import BadArgument, Conflict
from ._foreign import alone, foreign, interval
from ._run import Run
from ._snapshots import RestartSnapshot, Snapshot
from ._tables import Table
from ._watch import Parameter

foreign("lammps", "lammps", "forebay.lammps")

RESTART = "lammps/restart"
"""The data set of a snapshot that has a restart file of LAMMPS."""
THERMO = "lammps/thermo"
"""The data set of a snapshot that has the thermo output of its step, as JSON: computed again it may differ in the last bits."""

UNITS = {
    "real": ("angstrom", "angstrom/fs", "fs"),
    "metal": ("angstrom", "angstrom/ps", "ps"),
    "si": ("m", "m/s", "s"),
    "cgs": ("cm", "cm/s", "s"),
    "electron": ("bohr", "bohr/fs", "fs"),
    "micro": ("um", "um/us", "us"),
    "nano": ("nm", "nm/ns", "ns"),
    "lj": ("", "", ""),
}
"""Units of length, velocity and time in each of the styles of LAMMPS."""


def restart(run: Run, lmp: Any) -> RestartSnapshot | None:
    """Goes back to the last complete snapshot and has LAMMPS read its state; ``None`` when there is none.

    It stands where an input makes its box and its atoms, which it does only when there is no snapshot. What LAMMPS does
    not keep in a restart file, such as pair coefficients of some styles and fixes, is said behind it as in any input that
    begins with ``read_restart``.
    """
    snap = run.restart()
    if snap is not None:
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "state")
            with open(file, "wb") as f:
                f.write(snap[RESTART].tobytes())
            lmp.command(f'read_restart "{file}"')
    return snap


def run(
    lmp: Any,
    run: Run,
    n: int,
    *,
    head: int = 10,
    thermo: int = 100,
    every: int = 1000,
    variables: Mapping[str, Parameter] | None = None,
) -> None:
    """Computes up to step ``n``, in one process; ``lmp`` is a ``lammps.lammps`` with its box, atoms and forces.

    Every ``head`` steps steering acts: Stop, Step, Save and Quit, and ``variables``: the internal variables of LAMMPS
    (``variable T internal 1.0``) that have the values of these parameters. Every ``thermo`` steps a row goes into the history
    ``thermo``, with the columns of LAMMPS' own ``thermo_style``. Every ``every`` steps, at Save and at the end the state is kept:
    ``atoms/position`` and ``atoms/velocity`` (N, 3) in the units of the input, ``atoms/id``, ``atoms/type``, ``box`` (2, 3) as
    its lower and upper corner, and LAMMPS' restart file, from which :func:`restart` goes on.

    LAMMPS counts the steps: at the first start it is to be at 0 (``reset_timestep 0``). ``n``, ``thermo`` and ``every`` are
    multiples of ``head``. Behind each state that is kept LAMMPS is set up anew, as between two ``run`` commands: numbers are those of
    ``run every``, said again and again. An end from outside ends this function, and :attr:`Run.ended_by` says why.
    Raises ``BadArgument``, and ``Conflict`` when LAMMPS is not at the step that the run is at.
    """
    alone(run)
    if (ranks := lmp.extract_setting("world_size")) != 1:
        raise BadArgument(
            f"LAMMPS has {ranks} processes, and its adapter is for one; use run.steps(n, stride=head)"
        )
    head = interval("head", head)
    n = interval("n", n, head)
    at, position = lmp.extract_global("ntimestep"), run.position or 0
    if at != position:
        raise Conflict(
            f"LAMMPS is at step {at}, and the run at {position}; at the first start say  reset_timestep 0, later give the state "
            "with forebay.lammps.restart(run, lmp)"
        )
    intervals = (n, interval("thermo", thermo, head), interval("every", every, head))
    _Loop(lmp, run, head, dict(variables or {})).go(*intervals)


class _Loop:
    """The loop over pieces of a run."""

    def __init__(self, lmp: Any, run: Run, head: int, variables: dict[str, Parameter]) -> None:
        self._lmp, self._run, self._head, self._variables = lmp, run, head, variables
        self._length, self._velocity, self._time = UNITS.get(lmp.extract_global("units"), ("", "", ""))
        self._is_set_up = False
        self._table: Table | None = None
        self._given: dict[str, Any] = {}
        self._kept: dict[int, dict[str, Any]] = {}

    def go(self, n: int, thermo: int, every: int) -> None:
        self._run.saves(self._keep, every=every)
        first = self._run.position or 0
        if first in self._run.snapshots.numbers and THERMO in (kept := self._run.snapshots.at(first)):
            self._kept = {first: json.loads(kept[THERMO])}
        computed = False
        for step in self._run.steps(n, start=first, stride=self._head):
            for name, parameter in self._variables.items():
                self._give(name, parameter.value)
            self._set_up()
            # The row of its first step is there when this program was at it before.
            if step % thermo == 0 and (step != first or not self._is_noted(step)):
                self._note(step)
            self._lmp.command(f"run {self._head} pre no post no")
            computed = True
        if computed:
            last = self._run.position
            assert last is not None, "the loop ended at a head"
            self._set_up()
            if last % thermo == 0 or last == n:
                self._note(last)

    def _give(self, name: str, value: Any) -> None:
        if self._given.get(name) != value:
            if self._lmp.set_internal_variable(name, float(value)) != 0:
                raise BadArgument(
                    f"LAMMPS has no internal variable {name!r}; say  variable {name} internal {value}"
                )
            self._given[name] = value

    def _set_up(self) -> None:
        """Once behind each state that is kept, as a program does that begins with it."""
        if not self._is_set_up:
            self._lmp.command("run 0 post no")
            self._is_set_up = True

    def _note(self, step: int) -> None:
        """A row of what LAMMPS has printed of this step, which it does where it begins, too."""
        found = self._kept.pop(step, None) or self._thermo()
        if self._table is None:
            columns = {name: "i64" if isinstance(value, int) else "f64" for name, value in found.items()}
            self._table = self._run.table("thermo", {"step": "i64", **columns}, history=True)
        self._table.insert({"step": step, **found})

    def _is_noted(self, step: int) -> bool:
        return "thermo" in self._run.tables and len(self._run.table("thermo").select("step = ?", [step])) > 0

    def _thermo(self) -> dict[str, Any]:
        return {name: value for name, value in self._lmp.last_thermo().items() if name != "Step"}

    def _keep(self, step: int) -> None:
        time = step * self._lmp.extract_global("dt")
        with self._run.snapshot(step, time=time) as s:
            if s.taken:
                self._atoms(s)
                if self._lmp.last_thermo_step == step:
                    s.put(THERMO, json.dumps(self._thermo()))
                with tempfile.TemporaryDirectory() as folder:
                    file = os.path.join(folder, "state")
                    self._lmp.command(f'write_restart "{file}"')
                    s.put(RESTART, np.fromfile(file, "u1"))
                self._is_set_up = False

    def _atoms(self, s: Snapshot) -> None:
        """The atoms by their ids, for who looks at them; what a restart needs is in the file."""
        owned = self._lmp.extract_setting("nlocal")
        ids = self._lmp.numpy.extract_atom("id")[:owned]
        order = np.argsort(ids)
        s.particles(
            "atoms",
            self._lmp.numpy.extract_atom("x")[:owned][order],
            velocity=self._lmp.numpy.extract_atom("v")[:owned][order],
            id=ids[order],
            type=self._lmp.numpy.extract_atom("type")[:owned][order],
            units={"position": self._length, "velocity": self._velocity},
        )
        low, high = self._lmp.extract_box()[:2]
        s.put("box", np.array([low, high]), units=self._length)
