"""Copper in ASE with a Langevin thermostat: `ase_copper.py RUN|- N [renew]`."""

import sys

import numpy as np
from ase import units
from ase.build import bulk
from ase.calculators.emt import EMT
from ase.md.langevin import Langevin
from ase.md.velocitydistribution import thermalize_momenta
from report import reported

path, n, renew = sys.argv[1], int(sys.argv[2]), "renew" in sys.argv
atoms = bulk("Cu", cubic=True) * (2, 2, 2)
atoms.calc = EMT()
rng = np.random.default_rng(5)
thermalize_momenta(atoms, temperature_K=600, rng=rng)
dyn = Langevin(atoms, 5 * units.fs, temperature_K=300, friction=0.01 / units.fs, rng=rng, fixcm=False)


def state() -> list[np.ndarray]:
    return [atoms.get_positions(), atoms.get_momenta()]


if path == "-":
    with reported(state):
        dyn.run(n)
else:
    import forebay as fb
    import forebay.ase

    with fb.open(path) as run:
        forebay.ase.restart(run, dyn)
        forebay.ase.Observer(run, dyn, n, every=20, renew=EMT if renew else None)
        with reported(state, run), fb.ends():
            dyn.run(n - (run.position or 0))
