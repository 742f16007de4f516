"""The field solve of the example as a service: ``forebay serve poisson1d.py``.

Any number of servers may offer it; given the same charge density each returns the same bits,
so it does not matter which one a step was computed by.
"""

from __future__ import annotations

import forebay as fb
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def solve(length: float, rho: Array) -> tuple[Array, Array]:
    """Potential and field of a charge density on a periodic grid.

    Solves ``-phi'' = rho`` with second differences (by a Fourier transform, in which they are a
    multiplication) and differentiates with centred differences, as ES1 does. The mean of
    ``rho`` has no effect; the mean of ``phi`` is 0.
    """
    n = rho.size
    dx = length / n
    wave = np.sin(np.pi / n * np.arange(n // 2 + 1)) * (2.0 / dx)
    transform = np.fft.rfft(rho)
    transform[0] = 0.0
    transform[1:] /= wave[1:] ** 2
    phi = np.fft.irfft(transform, n)
    field = (np.roll(phi, 1) - np.roll(phi, -1)) / (2.0 * dx)
    return phi, field


@fb.service("in length:f64, in rho:f64[n], out phi:f64[n], out E:f64[n]")
def poisson1d(length: float, rho: Array, phi: Array, E: Array) -> None:
    """Writes potential and field where the client wants them."""
    phi[:], E[:] = solve(length, rho)
