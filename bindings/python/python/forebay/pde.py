"""An adapter for py-pde: a tracker that makes points in time of a solution the heads of a run.

::

    eq.solve(...) --every `interval` of time--> Tracker --> a row of integrals
                                                   `-- every `every` heads, at Save and at the end: a snapshot
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ._forebay import BadArgument, Conflict
from ._foreign import Heads, foreign
from ._foreign import interval as steps_between
from ._run import Run
from ._snapshots import RestartSnapshot, Snapshot
from ._tables import Table

_pde = foreign("pde", "py-pde", "forebay.pde")
_base = foreign("pde.trackers.base", "py-pde", "forebay.pde")
_TrackerBase: Any = _base.TrackerBase


def restart(run: Run, state: Any) -> RestartSnapshot | None:
    """Goes back to the last complete snapshot and puts its fields into ``state``, a field or a collection of fields of
    py-pde; ``None`` when there is none.

    Go on with ``eq.solve(state, t_range=(snap.time, t_end), ...)``. Raises ``NotFound`` when the fields have other names
    (labels), ``Conflict`` when they have another shape.
    """
    snap = run.restart()
    if snap is not None:
        for name, field in _fields(state):
            kept = snap[name]
            if kept.shape != field.data.shape:
                raise Conflict(
                    f"{name} has the shape {kept.shape} in snapshot {snap.step}, and {field.data.shape} in the state; give the same grid"
                )
            field.data[...] = kept
    return snap


class Tracker(_TrackerBase):  # type: ignore[misc]
    """A tracker: ``eq.solve(state, t_range, dt=dt, tracker=Tracker(run, 0.1))``.

    Every ``interval`` of time is a head: there Stop, Step, Save and Quit act, and a row goes into the history
    ``integrals``: the integral of each real scalar field over the grid. The number of a head, which is the step of the
    run, is its time divided by ``interval``. Every ``every`` heads, at Save and where the solution ends the fields are
    kept under their labels, a field without one as ``field``, and as ``field_0``, ``field_1``, ... in a collection.

    ``interval`` is a multiple of ``dt``, and the end of ``t_range`` one of ``interval``, or its state is not kept. An end
    from outside ends the solution as py-pde knows it: ``eq.solve`` returns the state that it has, and
    :attr:`Run.ended_by` says why. What a solver remembers beside the fields is not kept: the width of its next step where
    it adapts that, and random numbers. Raises ``BadArgument``.
    """

    def __init__(self, run: Run, interval: float = 1.0, *, every: int = 10) -> None:
        if isinstance(interval, bool) or not isinstance(interval, (int, float)) or not 0 < interval < np.inf:
            raise BadArgument(f"interval = {interval!r} is no span of time; give a positive number")
        super().__init__(interval)
        self._run, self._interval = run, float(interval)
        self._every = steps_between("every", every)
        self._heads: Heads | None = None
        self._table: Table | None = None

    def initialize(self, field: Any, info: dict[str, Any] | None = None) -> float:
        """py-pde begins a solution."""
        end = (info or {}).get("controller", {}).get("t_end")
        self._end = None if end is None else float(end) / self._interval
        # In a second solution it begins where the first one ended.
        if self._heads is None:
            self._heads = Heads(self._run, self._keep, self._note, self._every, None)
        names = [name for name, one in _fields(field) if _has_integral(one)]
        if names:
            columns = {"step": "i64", "time": "f64", **dict.fromkeys(names, "f64")}
            self._table = self._run.table("integrals", columns, history=True)
        for name, at in zip(field.grid.axes, field.grid.axes_coords, strict=True):
            if f"grid/{name}" not in self._run:
                self._run.put(f"grid/{name}", at)
        return float(super().initialize(field, info))

    def handle(self, field: Any, t: float) -> None:
        """py-pde has come to a point in time."""
        assert self._heads is not None, "py-pde initializes a tracker before it calls it"
        self._field, self._t = field, float(t)
        step = round(t / self._interval)
        more = self._heads.reach(step)
        if self._end is not None and abs(step - self._end) < 1e-6:
            self._keep(step)
        if not more:
            raise _base.FinishedSimulation(
                f"the run is to end: {self._run.ended_by or 'its loop is finished'}"
            )

    def _note(self, step: int) -> None:
        if self._table is not None:
            integrals = {
                name: float(one.integral) for name, one in _fields(self._field) if _has_integral(one)
            }
            self._table.insert({"step": step, "time": self._t, **integrals})

    def _keep(self, step: int) -> None:
        with self._run.snapshot(step, time=self._t) as s:
            if s.taken:
                for name, one in _fields(self._field):
                    _put(s, name, one)


def _put(s: Snapshot, name: str, field: Any) -> None:
    """A scalar field on a Cartesian grid is a mesh, with its values at the centres of the cells; others are plain arrays."""
    grid = field.grid
    is_mesh = isinstance(field, _pde.ScalarField) and isinstance(grid, _pde.CartesianGrid)
    # A label is any text, the name of a mesh is of letters, digits and _.
    is_named = re.fullmatch(r"\w+", name, re.ASCII) and name not in grid.axes
    if not is_mesh or not is_named or len(grid.axes) > 3:
        s.put(name, field.data)
        return
    origin = [low for low, _ in grid.axes_bounds]
    s.mesh(name, field.data, dims=grid.axes, spacing=grid.discretization, origin=origin, position=0.5)


def _fields(state: Any) -> list[tuple[str, Any]]:
    """The fields of a state, each with the name of its data set."""
    if isinstance(state, _pde.FieldCollection):
        return [(one.label or f"field_{i}", one) for i, one in enumerate(state)]
    return [(state.label or "field", state)]


def _has_integral(field: Any) -> bool:
    return isinstance(field, _pde.ScalarField) and not np.iscomplexobj(field.data)
