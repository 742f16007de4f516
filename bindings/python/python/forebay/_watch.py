"""Diagrams and parameters: what people watch and steer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from . import _forebay
from ._arrays import with_unit


class Diagram:
    """A diagram of the run's page. Made by :meth:`Run.diagram`."""

    def __init__(self, native: _forebay.Diagram, title: str) -> None:
        self._wants = native.wants
        self._update = native.update
        self._append = native.append
        self.title = title
        """Its title."""

    def update(self, *args: Any) -> None:
        """Replaces the points of a curve: ``update(x, y)``, or with its name ``update("electrons", x, y)``.

        ``x``, ``y``: one-dimensional arrays of numbers, of one length. While nobody watches, only one update a second is
        copied, so calling this in every step costs next to nothing.
        """
        if len(args) == 3:
            curve, x, y = args
        elif len(args) == 2:
            (x, y), curve = args, ""
        else:
            raise _forebay.BadArgument(
                f"update takes x and y, or a curve's name, x and y; {len(args)} arguments were given"
            )
        if self._wants(curve):
            self._update(curve, _points(x), _points(y))

    def append(self, t: float, **values: float) -> None:
        """Adds a point at ``t`` to each curve named: ``append(t, electrons=w1, ions=w2)``. Always recorded."""
        try:
            self._append(t, values)
        except TypeError:
            for name, value in {"t": t, **values}.items():
                try:
                    float(value)
                except (TypeError, ValueError):
                    raise _forebay.BadArgument(
                        f"{value!r} is no value of {name!r} in the diagram {self.title!r}; give a real number"
                    ) from None
            raise

    def __repr__(self) -> str:
        return f"<forebay.Diagram {self.title!r}>"


def _points(values: ArrayLike) -> Any:
    if type(values) is np.ndarray and values.dtype == np.float64:
        return values
    with_unit(values)
    try:
        if isinstance(values, np.ma.MaskedArray):
            return np.ma.filled(values.astype(np.float64), np.nan)  # a gap
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise _forebay.BadArgument(f"the points of a diagram are real numbers: {error}") from None


class Parameter:
    """A steerable parameter. Made by :meth:`Run.parameter`."""

    __slots__ = ("_native",)

    def __init__(self, native: _forebay.Parameter) -> None:
        self._native = native

    @property
    def name(self) -> str:
        """Its name."""
        return self._native.name

    @property
    def value(self) -> Any:
        """Its value at the step being computed; it changes at step boundaries only."""
        return self._native.value

    def __repr__(self) -> str:
        return f"<forebay.Parameter {self.name!r} = {self.value!r}>"
