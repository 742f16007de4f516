"""An adapter for OpenMM: a reporter that makes every so many steps of a ``Simulation`` a head of a run.

::

    sim.step(n) --every `head` steps--> Reporter --> parameters into the context
                                           |-- every `energies` steps: a row of energies
                                           `-- every `every` steps, at Save and at the end: a snapshot with a checkpoint
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._foreign import Heads, foreign, interval
from ._run import Run
from ._snapshots import RestartSnapshot, Snapshot
from ._watch import Parameter

_mm = foreign("openmm", "openmm", "forebay.openmm")
_unit = foreign("openmm.unit", "openmm", "forebay.openmm")

CHECKPOINT = "openmm/checkpoint"
"""The data set of a snapshot that has the state as OpenMM itself keeps it."""


def restart(run: Run, sim: Any) -> RestartSnapshot | None:
    """Goes back to the last complete snapshot and gives its state to the simulation; ``None`` when there is none.

    ``sim``: an ``openmm.app.Simulation`` of the same system, integrator and platform as the one that was kept. Go on with
    ``sim.step(n - sim.currentStep)``. Raises ``NotFound`` when the snapshot is not one of :class:`Reporter`, and OpenMM's
    own exception when the checkpoint is not one of this system.
    """
    snap = run.restart()
    if snap is not None:
        sim.context.loadCheckpoint(snap[CHECKPOINT].tobytes())
    return snap


class Reporter:
    """A reporter: ``sim.reporters.append(Reporter(run, sim, n))``.

    Every ``head`` steps steering acts: Stop, Step, Save, Quit and parameters. What OpenMM lets a program change while it
    computes is a parameter of the run: the parameters of the context, under their own names, and the ``temperature`` of
    the integrator in K. Every ``energies`` steps a row goes into the history ``energies``: potential and kinetic energy in
    kJ/mol, temperature in K, time in ps. Every ``every`` steps, at Save and at the end the state is kept:
    ``atoms/position`` (N, 3) in nm, ``atoms/velocity`` (N, 3) in nm/ps, ``box`` (3, 3) in nm if it is periodic, and OpenMM's
    checkpoint, from which :func:`restart` goes on.

    ``n``: the step at which the program ends; the state there is kept whether or not ``every`` divides it. ``energies`` and
    ``every`` are multiples of ``head``. An end from outside raises :class:`~forebay.Ended` out of ``sim.step``.
    Raises ``BadArgument``.
    """

    def __init__(
        self,
        run: Run,
        sim: Any,
        n: int | None = None,
        *,
        head: int = 10,
        energies: int = 100,
        every: int = 1000,
    ) -> None:
        self._sim, self._run, self._n = sim, run, n
        self._head = interval("head", head)
        self._energies = interval("energies", energies, head)
        self._heads = Heads(run, self._keep, self._note, interval("every", every, head), n)
        self._steered = _steered(run, sim)
        masses, self._freedoms = _masses(sim.system)
        if "atoms/mass" not in run:
            run.put("atoms/mass", masses, units="Da")
        self._table = run.table(
            "energies",
            {"step": "i64", "time": "f64", "potential": "f64", "kinetic": "f64", "temperature": "f64"},
            {"time": "ps", "potential": "kJ/mol", "kinetic": "kJ/mol", "temperature": "K"},
            history=True,
        )
        self._diagram = run.diagram("energies", "history", "t [ps]", "E [kJ/mol]")

    def describeNextReport(self, sim: Any) -> dict[str, Any]:
        """OpenMM asks when to report. It asks before the first step, too: the head of the state it begins with."""
        self._act(sim.currentStep)
        steps = self._head - sim.currentStep % self._head
        if self._n is not None and sim.currentStep < self._n:
            steps = min(steps, self._n - sim.currentStep)
        # Nothing of the state: a head that keeps nothing asks for nothing.
        return {"steps": steps, "periodic": None, "include": []}

    def report(self, sim: Any, state: Any) -> None:
        """OpenMM has computed the steps it was told."""
        self._act(sim.currentStep)

    def _act(self, step: int) -> None:
        self._heads.reach_or_end(step)
        for parameter, give in self._steered:
            give(parameter.value)

    def _note(self, step: int) -> None:
        if step % self._energies and step != self._n:
            return
        state = self._sim.context.getState(energy=True)
        time, potential, kinetic = _plain(state.getTime()), *_energies(state)
        temperature = 2.0 * kinetic / (self._freedoms * _GAS) if self._freedoms else 0.0
        self._table.insert((step, time, potential, kinetic, temperature))
        self._diagram.append(time, potential=potential, kinetic=kinetic, total=potential + kinetic)

    def _keep(self, step: int) -> None:
        state = self._sim.context.getState(positions=True, velocities=True)
        with self._run.snapshot(step, time=_plain(state.getTime())) as s:
            if s.taken:
                _atoms(s, state)
                if self._sim.system.usesPeriodicBoundaryConditions():
                    s.put("box", state.getPeriodicBoxVectors(asNumpy=True))
                s.put(CHECKPOINT, np.frombuffer(self._sim.context.createCheckpoint(), "u1"))


def _atoms(s: Snapshot, state: Any) -> None:
    """The atoms of a state, for who looks at them; what a restart needs is in the checkpoint."""
    s.particles("atoms", state.getPositions(asNumpy=True), velocity=state.getVelocities(asNumpy=True))


class _Follows:
    """Gives a value to OpenMM where it is another one than before."""

    def __init__(self, value: float, give: Any) -> None:
        self._value, self._give = value, give

    def __call__(self, value: float) -> None:
        if value != self._value:
            self._give(value)
            self._value = value


def _steered(run: Run, sim: Any) -> list[tuple[Parameter, _Follows]]:
    """The parameters of a run, and how each comes into the simulation."""
    context, integrator = sim.context, sim.integrator
    found = []
    for name, value in dict(context.getParameters()).items():
        give = _Follows(value, lambda new, name=name: context.setParameter(name, new))
        found.append((run.parameter(name, value, help="parameter of the context"), give))
    if hasattr(integrator, "getTemperature") and hasattr(integrator, "setTemperature"):
        value = integrator.getTemperature().value_in_unit(_unit.kelvin)
        parameter = run.parameter(
            "temperature", value, min=0.0, units="K", help="temperature of the integrator"
        )
        found.append((parameter, _Follows(value, integrator.setTemperature)))
    return found


_GAS: float = _unit.MOLAR_GAS_CONSTANT_R.value_in_unit(_unit.kilojoule_per_mole / _unit.kelvin)


def _masses(system: Any) -> tuple[NDArray[np.float64], int]:
    """The masses of a system in Da, and how many ways to move its particles have."""
    masses = np.array(
        [system.getParticleMass(i).value_in_unit(_unit.dalton) for i in range(system.getNumParticles())]
    )
    bound = sum(
        any(masses[i] > 0 for i in system.getConstraintParameters(k)[:2])
        for k in range(system.getNumConstraints())
    )
    free = 3 * int(np.count_nonzero(masses)) - bound
    if any(isinstance(force, _mm.CMMotionRemover) for force in system.getForces()):
        free -= 3
    return masses, free


def _plain(time: Any) -> float:
    return float(time.value_in_unit(_unit.picosecond))


def _energies(state: Any) -> tuple[float, float]:
    """Potential and kinetic energy in kJ/mol."""
    both = (state.getPotentialEnergy(), state.getKineticEnergy())
    potential, kinetic = (float(one.value_in_unit(_unit.kilojoule_per_mole)) for one in both)
    return potential, kinetic
