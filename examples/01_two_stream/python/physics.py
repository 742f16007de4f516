"""The physics of the example: a one-dimensional electrostatic particle-in-cell code.

One step goes

    rho on the grid -> field solve (elsewhere) -> E on the grid
      -> E at the particles -> v(t - dt/2) to v(t + dt/2) -> x(t) to x(t + dt) -> rho on the grid

and everything between two field solves is one pass over the particles in blocks that stay in
the cache (``Plasma.advance``). The field solve itself is not here: it is a service.

Units are normalised: speed U, time 1/wp, permittivity of vacuum 1. A plasma is determined by
positions ``x`` and half-step velocities ``v`` alone, to the bit: the blocks are the same in
every run, sums go in one order, and the charge density is made again from ``x``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from deck import Beam, Deck
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Units of what is kept; normalised as said above (e and m of the electron, n0 the density of a beam).
UNITS = {
    "x": "U/wp",
    "v": "U",
    "t": "1/wp",
    "E": "m U wp/e",
    "phi": "m U^2/e",
    "rho": "e n0",
    "energy": "m n0 U^3/wp",
    "momentum": "m n0 U^2/wp",
}

BLOCK = 16_384  # particles: all arrays of a block fit the second-level cache


@dataclass(frozen=True)
class Moments:
    """What one step tells about the particles."""

    kinetic: float  # energy, centred in time between the two half-step velocities
    momentum: float  # of all beams, at the half step


class Species:
    """The particles of one beam and what they are made of."""

    def __init__(self, beam: Beam, deck: Deck, x: Array, v: Array) -> None:
        if x.shape != (beam.count,) or v.shape != (beam.count,):
            raise ValueError(
                f"{beam.name} has {beam.count} particles, the arrays given have shapes {x.shape} and {v.shape}"
            )
        self.name = beam.name
        self.x = np.ascontiguousarray(x, dtype=np.float64)
        self.v = np.ascontiguousarray(v, dtype=np.float64)
        self.qm = beam.charge_to_mass
        # wp^2 = (q/m) q n with n = count / L
        self.q = beam.plasma_frequency**2 * deck.length / (beam.count * self.qm)
        self.m = self.q / self.qm


class Plasma:
    """All beams on their grid. ``rho`` always belongs to the present positions."""

    def __init__(self, deck: Deck, species: Sequence[Species]) -> None:
        self.deck = deck
        self.species = list(species)
        self._scratch = [np.empty(BLOCK) for _ in range(3)]
        self._cells = np.empty(BLOCK, dtype=np.intp)
        self.background = -sum(s.q * s.x.size for s in self.species) / deck.length
        self.rho = self._density([self._deposit_all(s) for s in self.species])

    @staticmethod
    def quiet_start(deck: Deck) -> Plasma:
        """Evenly spaced cold beams, each displaced in its mode; velocities still at t = 0."""
        species = []
        for beam in deck.beams:
            x: Array = (np.arange(beam.count, dtype=np.float64) + 0.5) * (deck.length / beam.count)
            x += beam.displacement * np.cos(2.0 * np.pi * beam.mode / deck.length * x)
            x -= deck.length * np.floor(x / deck.length)
            species.append(Species(beam, deck, x, np.full(beam.count, beam.drift)))
        return Plasma(deck, species)

    def half_step_back(self, field: Array) -> None:
        """Takes the velocities of a start from t = 0 to t = -dt/2, as leap-frog needs them."""
        for s in self.species:
            for low in range(0, s.x.size, BLOCK):
                part = slice(low, min(low + BLOCK, s.x.size))
                dv = self._kick(s.x[part], field, -0.5 * s.qm * self.deck.dt)
                s.v[part] += dv

    def advance(self, field: Array) -> Moments:
        """One leap-frog step in the field on the grid; leaves the new charge density in ``rho``."""
        kinetic = momentum = 0.0
        parts = []
        for s in self.species:
            counts, energy, speed = self._advance_species(s, field)
            kinetic += 0.5 * s.m * energy
            momentum += s.m * speed
            parts.append(counts)
        self.rho = self._density(parts)
        return Moments(kinetic, momentum)

    def _advance_species(self, s: Species, field: Array) -> tuple[Array, float, float]:
        """Pushes one beam; the sums are those of v(before) v(after) and of v(after)."""
        length, dt = self.deck.length, self.deck.dt
        work = self._scratch[2]
        counts = np.zeros(self.deck.grid + 1)
        energy = speed = 0.0
        for low in range(0, s.x.size, BLOCK):
            part = slice(low, min(low + BLOCK, s.x.size))
            x, v = s.x[part], s.v[part]
            dv = self._kick(x, field, s.qm * dt)
            dv += v
            w = work[: x.size]
            np.multiply(v, dv, out=w)
            energy += float(np.add.reduce(w))
            speed += float(np.add.reduce(dv))
            v[:] = dv
            np.multiply(v, dt, out=w)
            x += w
            np.multiply(x, 1.0 / length, out=w)
            np.floor(w, out=w)
            np.multiply(w, length, out=w)
            x -= w
            self._deposit(x, counts)
        return counts, energy, speed

    def _locate(self, x: Array) -> tuple[NDArray[np.intp], Array]:
        """Cell of each particle and its place in the cell (0 to 1). Views of scratch arrays."""
        cell, place = self._cells[: x.size], self._scratch[0][: x.size]
        floor = self._scratch[1][: x.size]
        np.multiply(x, self.deck.grid / self.deck.length, out=place)
        np.floor(place, out=floor)
        np.copyto(cell, floor, casting="unsafe")
        place -= floor
        return cell, place

    def _kick(self, x: Array, field: Array, factor: float) -> Array:
        """``factor`` times the field at the particles, linear between grid points. A view of scratch."""
        left = np.append(field, field[0]) * factor
        rise = np.append(np.diff(left), left[1] - left[0])
        cell, place = self._locate(x)
        dv = self._scratch[1][: x.size]
        np.take(rise, cell, out=dv, mode="clip")
        dv *= place
        np.take(left, cell, out=place, mode="clip")
        dv += place
        return dv

    def _deposit(self, x: Array, counts: Array) -> None:
        """Adds particles to the grid points left and right of them; point ``grid`` is point 0."""
        cell, place = self._locate(x)
        n = counts.size
        right = np.bincount(cell, weights=place, minlength=n)
        counts += np.bincount(cell, minlength=n)[:n]
        counts -= right[:n]
        counts[1:] += right[: n - 1]
        counts[1] += right[n - 1]

    def _deposit_all(self, s: Species) -> Array:
        counts = np.zeros(self.deck.grid + 1)
        for low in range(0, s.x.size, BLOCK):
            self._deposit(s.x[low : low + BLOCK], counts)
        return counts

    def _density(self, parts: Sequence[Array]) -> Array:
        """Charge density from the particles counted at the grid points, background included."""
        rho = np.full(self.deck.grid, self.background)
        for s, counts in zip(self.species, parts, strict=True):
            folded = counts[:-1].copy()
            folded[0] += counts[-1]
            rho += folded * (s.q / self.deck.dx)
        return rho


def external_field(deck: Deck, amplitude: float) -> Array:
    """A standing wave in the deck's mode, on the grid."""
    points = np.arange(deck.grid) * (2.0 * np.pi * deck.field_mode / deck.grid)
    field: Array = amplitude * np.cos(points)
    return field


def field_energy(deck: Deck, field: Array) -> float:
    """Energy of the self-consistent field: half the square of E, over the box."""
    return 0.5 * deck.dx * float(np.add.reduce(field * field))


def growth_from_dispersion(deck: Deck, mode: int = 1) -> float:
    """Fastest growth rate of a mode by the cold-beam dispersion relation

        sum over beams of wp^2 / (omega - k v0)^2 = 1,

    as the largest imaginary part of the roots of the polynomial it is equivalent to.
    """
    k = 2.0 * np.pi * mode / deck.length
    factors = [np.polynomial.Polynomial([-k * b.drift, 1.0]) ** 2 for b in deck.beams]
    whole = np.polynomial.Polynomial([1.0])
    for factor in factors:
        whole *= factor
    relation = -whole
    for index, beam in enumerate(deck.beams):
        term = np.polynomial.Polynomial([beam.plasma_frequency**2])
        for other, factor in enumerate(factors):
            if other != index:
                term *= factor
        relation += term
    return float(max(0.0, relation.roots().imag.max()))


def growth_from_history(t: Array, energy: Array, low: float = 1e-4, high: float = 3e-2) -> float | None:
    """Growth rate of the field, half that of its energy, fitted where the energy climbs from ``low``
    to ``high`` of its first peak. None when there is no peak or are too few points.
    """
    peak = first_peak(energy)
    if peak is None:
        return None
    rising = energy[: peak + 1]
    start = np.flatnonzero(rising < low * energy[peak])
    begin = int(start[-1]) + 1 if start.size else 0
    stop = begin + int(np.argmax(rising[begin:] > high * energy[peak]))
    if stop - begin < 3:
        return None
    slope = np.polynomial.Polynomial.fit(t[begin:stop], np.log(energy[begin:stop]), 1).convert().coef[1]
    return 0.5 * float(slope)


def first_peak(energy: Array) -> int | None:
    """Index of the first local maximum that reaches a tenth of the greatest value."""
    if energy.size < 3:
        return None
    inner = energy[1:-1]
    tops = (inner >= energy[:-2]) & (inner > energy[2:]) & (inner > 0.1 * energy.max())
    found = np.flatnonzero(tops)
    return int(found[0]) + 1 if found.size else None
