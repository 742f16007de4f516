"""An adapter for ASE: an observer that makes every so many steps of a molecular dynamics a head of a run.

::

    dyn.run(n) --every `head` steps--> Observer --> a row of energies, the temperature into the thermostat
                                          `-- every `every` steps, at Save and at the end: a snapshot
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from ._forebay import BadArgument, Conflict
from ._foreign import Heads, foreign, interval
from ._run import Run
from ._snapshots import RestartSnapshot, Snapshot

foreign("ase", "ase", "forebay.ase")
_units = foreign("ase.units", "ase", "forebay.ase")

KNOWN = ("VelocityVerlet", "Langevin", "LangevinBAOAB", "Andersen", "Bussi", "NVTBerendsen", "NPTBerendsen")
"""The kinds of dynamics whose state is in the atoms and in a generator of random numbers, and nowhere else."""
RNG = "ase/rng"
"""The data set of a snapshot that has the state of the generator of random numbers, as JSON."""


def restart(run: Run, dyn: Any) -> RestartSnapshot | None:
    """Goes back to the last complete snapshot and gives its state to the atoms of a dynamics, and to its generator of random
    numbers; ``None`` when there is none.

    ``dyn``: a dynamics of the same kind with the same atoms as the one that was kept. Go on with
    ``dyn.run(n - run.position)``. Raises ``Conflict`` when these are other atoms, ``BadArgument`` as :class:`Observer` does.
    """
    _is_known(dyn)
    snap = run.restart()
    if snap is None:
        return None
    atoms = dyn.atoms
    numbers = snap["atoms/number"]
    if not np.array_equal(numbers, atoms.numbers):
        raise Conflict(
            f"snapshot {snap.step} has {len(numbers)} atoms, the dynamics {len(atoms)}, or they are of other elements; give the same atoms"
        )
    atoms.set_cell(snap["box"])
    # As they are: a constraint would move them once more.
    atoms.set_positions(snap["atoms/position"], apply_constraint=False)
    atoms.set_momenta(snap["atoms/momentum"], apply_constraint=False)
    if RNG in snap:
        _give_rng(dyn.rng, json.loads(snap[RNG]))
    return snap


class Observer:
    """An observer that attaches itself: ``Observer(run, dyn, n)``, then ``dyn.run(n)``.

    Every ``head`` steps steering acts: Stop, Step, Save, Quit, and the parameter ``temperature`` in K where the dynamics
    has a thermostat. A row goes into the history ``energies`` there: potential and kinetic energy in eV, temperature in K,
    time in fs. Every ``every`` steps, at Save and at the end the state is kept: ``atoms/position`` (N, 3) in Angstrom,
    ``atoms/momentum`` (N, 3) in ASE's own unit, ``atoms/number``, ``box`` (3, 3) in Angstrom, and the state of the generator
    of random numbers. :func:`restart` goes on from there; steps are counted on, also in a dynamics made anew.

    ``n``: the step at which the program ends; the state there is kept whether or not ``every`` divides it. ``n`` and
    ``every`` are multiples of ``head``. ``renew``: a function that makes the calculator, called behind each state that is
    kept. ASE's own calculators keep their lists of neighbours for some steps, so that forces after a restart differ in
    their last bits; made anew on both sides they do not. Without it nothing of the dynamics is touched. An end from outside raises :class:`~forebay.Ended` out of ``dyn.run``. A dynamics with
    a memory of its own, such as a Nose-Hoover chain, and an optimizer are refused: a restart would go on otherwise.
    Raises ``BadArgument``.
    """

    def __init__(
        self,
        run: Run,
        dyn: Any,
        n: int | None = None,
        *,
        head: int = 1,
        every: int = 100,
        renew: Callable[[], Any] | None = None,
    ) -> None:
        _is_known(dyn)
        self._run, self._dyn, self._renew = run, dyn, renew
        head = interval("head", head)
        if dyn.nsteps:  # ASE calls by its own count
            interval("dyn.nsteps", dyn.nsteps, head)
        if n is not None:
            interval("n", n, head)
        self._heads = Heads(run, self._keep, self._note, interval("every", every, head), n)
        # A dynamics counts from 0 again after a restart.
        self._first = (run.position or 0) - dyn.nsteps
        self._temperature = None
        if hasattr(dyn, "set_temperature"):
            self._given = _temperature(dyn)
            self._temperature = run.parameter(
                "temperature", self._given, min=0.0, units="K", help="temperature of the thermostat"
            )
        self._table = run.table(
            "energies",
            {"step": "i64", "time": "f64", "potential": "f64", "kinetic": "f64", "temperature": "f64"},
            {"time": "fs", "potential": "eV", "kinetic": "eV", "temperature": "K"},
            history=True,
        )
        self._diagram = run.diagram("energies", "history", "t [fs]", "E [eV]")
        dyn.attach(self, interval=head)

    def __call__(self) -> None:
        """ASE has computed the steps between two calls."""
        self._heads.reach_or_end(self._first + self._dyn.nsteps)
        if self._temperature is not None and self._temperature.value != self._given:
            self._given = self._temperature.value
            self._dyn.set_temperature(temperature_K=self._given)

    def _time(self, step: int) -> float:
        return float(step * self._dyn.dt / _units.fs)

    def _note(self, step: int) -> None:
        atoms = self._dyn.atoms
        potential, kinetic = float(atoms.get_potential_energy()), float(atoms.get_kinetic_energy())
        time = self._time(step)
        self._table.insert((step, time, potential, kinetic, float(atoms.get_temperature())))
        self._diagram.append(time, potential=potential, kinetic=kinetic, total=potential + kinetic)

    def _keep(self, step: int) -> None:
        with self._run.snapshot(step, time=self._time(step)) as s:
            if s.taken:
                _atoms(s, self._dyn.atoms)
                if hasattr(self._dyn, "rng"):
                    s.put(RNG, json.dumps(_state_of_rng(self._dyn.rng)))
        # Where a restart goes on the snapshot stands, and the calculator is a new one.
        if s.taken and self._renew is not None:
            self._dyn.atoms.calc = self._renew()


def _atoms(s: Snapshot, atoms: Any) -> None:
    """The atoms: what a restart needs, and who looks at them, too."""
    s.particles(
        "atoms",
        atoms.get_positions(),
        momentum=atoms.get_momenta(),
        number=atoms.numbers,
        units={"position": "angstrom", "momentum": "eV^0.5 Da^0.5"},
    )
    s.put("box", atoms.cell.array, units="angstrom")


def _is_known(dyn: Any) -> None:
    kind = type(dyn).__name__
    if kind not in KNOWN:
        raise BadArgument(
            f"the whole state of {kind} is not kept, so a restart would go on otherwise; give one of {', '.join(KNOWN)}, "
            "or use run.reach and run.saves with what it needs"
        )


def _temperature(dyn: Any) -> float:
    """The temperature of a thermostat in K; some have it as an energy."""
    return float(dyn.temp / _units.kB if hasattr(dyn, "temp") else dyn.temperature)


def _state_of_rng(rng: Any) -> dict[str, Any]:
    """The state of one of NumPy's generators, old or new; ``numpy.random`` itself is one of the old kind."""
    state = rng.get_state(legacy=False) if hasattr(rng, "get_state") else rng.bit_generator.state
    inner = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in state["state"].items()}
    return {**state, "state": inner}


def _give_rng(rng: Any, state: dict[str, Any]) -> None:
    if hasattr(rng, "set_state"):
        inner = state["state"]
        rng.set_state({**state, "state": {**inner, "key": np.array(inner["key"], "u4")}})
    else:
        rng.bit_generator.state = state
