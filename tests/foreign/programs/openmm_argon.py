"""Argon in OpenMM with a Langevin thermostat: `openmm_argon.py RUN|- N`."""

import sys

import numpy as np
import openmm as mm
from openmm import app, unit
from report import reported

path, n = sys.argv[1], int(sys.argv[2])
rng, length = np.random.default_rng(3), 2.2
system, topology = mm.System(), app.Topology()
system.setDefaultPeriodicBoxVectors(*(np.eye(3) * length))
force = mm.NonbondedForce()
force.setNonbondedMethod(mm.NonbondedForce.CutoffPeriodic)
force.setCutoffDistance(0.9)
chain = topology.addChain()
for _ in range(125):
    system.addParticle(39.948)
    force.addParticle(0, 0.34, 0.996)
    topology.addAtom("Ar", app.Element.getBySymbol("Ar"), topology.addResidue("Ar", chain))
system.addForce(force)
integrator = mm.LangevinMiddleIntegrator(120 * unit.kelvin, 1 / unit.picosecond, 0.004)
integrator.setRandomNumberSeed(7)
# The platform whose numbers are the same each time.
sim = app.Simulation(topology, system, integrator, mm.Platform.getPlatformByName("Reference"))
sites = np.stack(np.meshgrid(*[np.arange(5)] * 3, indexing="ij"), -1).reshape(-1, 3)
sim.context.setPositions(sites * (length / 5))
sim.context.setVelocitiesToTemperature(120, 5)


def state() -> list[np.ndarray]:
    found = sim.context.getState(positions=True, velocities=True)
    return [found.getPositions(asNumpy=True)._value, found.getVelocities(asNumpy=True)._value]


if path == "-":
    with reported(state):
        sim.step(n)
else:
    import forebay as fb
    import forebay.openmm

    with fb.open(path) as run:
        forebay.openmm.restart(run, sim)
        sim.reporters.append(forebay.openmm.Reporter(run, sim, n, energies=50, every=100))
        with reported(state, run), fb.ends():
            sim.step(n - sim.currentStep)
