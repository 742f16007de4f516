"""Cahn and Hilliard's equation in py-pde: `pde_spinodal.py RUN|- N`, N being a number of heads, 0.1 of time apart."""

import sys

import numpy as np
import pde
from report import reported

path, n = sys.argv[1], int(sys.argv[2])
grid = pde.UnitGrid([32, 32], periodic=True)
u = pde.ScalarField(grid, np.random.default_rng(1).uniform(-1, 1, (32, 32)), label="u")
eq = pde.CahnHilliardPDE()
options = {"dt": 1e-3, "solver": "euler", "backend": "numpy"}
found = [u]


def state() -> list[np.ndarray]:
    return [found[-1].data]


if path == "-":
    with reported(state):
        found.append(eq.solve(u, t_range=0.1 * n, tracker=None, **options))
else:
    import forebay as fb
    import forebay.pde

    with fb.open(path) as run:
        snap = forebay.pde.restart(run, u)
        times = (0 if snap is None else snap.time, 0.1 * n)
        tracker = forebay.pde.Tracker(run, 0.1, every=5)
        with reported(state, run):
            found.append(eq.solve(u, t_range=times, tracker=tracker, **options))
