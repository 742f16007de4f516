"""Runs and snapshots as data sets of xarray, read when they are touched; and the entry point by which
``xarray.open_dataset("x.fb", engine="forebay")`` finds a run. Only who asks for one imports xarray, and this module.
"""

from __future__ import annotations

import itertools
import json
import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core import indexing

from . import _forebay
from ._described import axis_path
from ._dtypes import dtype_of_name, is_of_numpy
from ._run import Run
from ._run import open as open_run
from ._snapshots import DataSet, StoredSnapshot

_LISTED = "step NOT IN (SELECT step FROM fb_damaged)"
_STEPS = f"SELECT step, time FROM fb_steps WHERE {_LISTED} ORDER BY step"
# Steps in packs have no rows of arrays: their layout says once what they are.
_ARRAYS = f"""
SELECT name, dtype, shape, unit, min(first) AS first, max(last) AS last, sum(steps) AS steps FROM (
    SELECT name, dtype, shape, data_order, unit, min(step) AS first, max(step) AS last, count(*) AS steps
        FROM fb_step_data WHERE {_LISTED} GROUP BY name, dtype, shape, data_order, unit
    UNION ALL
    SELECT a.value ->> 'name', a.value ->> 'dtype', a.value -> 'shape', a.value ->> 'order', a.value ->> 'units',
            p.first, p.last, p.steps
        FROM (SELECT k.layout, min(s.step) AS first, max(s.step) AS last, count(*) AS steps
                FROM fb_packs k JOIN fb_steps s ON s.file = k.file WHERE s.{_LISTED} GROUP BY k.layout) p
        JOIN fb_layouts l ON l.id = p.layout, json_each(l.json) a
) GROUP BY name, dtype, shape, data_order, unit ORDER BY name, sum(steps) DESC"""
_HAVING = f"""
SELECT step FROM fb_step_data WHERE name = ?1 AND {_LISTED}
UNION ALL
SELECT s.step FROM fb_steps s JOIN fb_packs k ON k.file = s.file WHERE s.{_LISTED} AND k.layout IN
    (SELECT l.id FROM fb_layouts l, json_each(l.json) a WHERE a.value ->> 'name' = ?1)"""
_ID = "SELECT value FROM fb_run WHERE key = 'run_id'"

_readers: dict[tuple[int, str, str], Run] = {}
"""Runs that arrays of this process read from, by process, path and identity: arrays hold no handles, so pickle takes
them to other processes."""


def dims_of(kinds: Mapping[str, DataSet]) -> dict[str, tuple[str, ...]]:
    """The names of the dimensions of each array: those that it was put with, within its group; else ``dim_0``, ... of
    the extents that most arrays have along an axis, and with the extent behind, ``dim_0_5``, of others. So arrays of one
    shape have one grid.
    """
    named = {name: tuple(axis_path(name, dim) for dim in about.dims) for name, about in kinds.items()}
    along = {dim for dims in named.values() for dim in dims}
    unnamed = {name: about.shape for name, about in kinds.items() if not named[name] and name not in along}
    extents: dict[int, Counter[int]] = {}
    for shape in unnamed.values():
        for axis, extent in enumerate(shape):
            extents.setdefault(axis, Counter())[extent] += 1
    usual = {
        axis: max(counts, key=lambda extent: (counts[extent], extent)) for axis, counts in extents.items()
    }

    def dim(axis: int, extent: int) -> str:
        return f"dim_{axis}" if extent == usual[axis] else f"dim_{axis}_{extent}"

    made = {
        name: tuple(dim(axis, extent) for axis, extent in enumerate(shape)) for name, shape in unnamed.items()
    }
    # A coordinate lies along itself.
    return {name: named[name] or made.get(name, (name,)) for name in kinds}


def points_of(
    kinds: Mapping[str, DataSet], dims: Mapping[str, tuple[str, ...]], taken: Collection[str]
) -> tuple[dict[str, tuple[str, ...]], dict[str, Any]]:
    """The names of the dimensions again, and the points of meshes along those that have no coordinate among the arrays
    ``taken``: origin + (i + position) * spacing. Along one name there is one coordinate, so of meshes with several positions
    in the cell those farther on get a dimension of their own, as ``x_0.5``. Where spacings or origins differ there is none.
    """
    grids: dict[str, set[tuple[float, float]]] = {}
    said = set()
    places: dict[str, dict[float, list[tuple[str, int]]]] = {}
    for name, about in kinds.items():
        if about.mesh is None or len(dims[name]) != len(about.shape):
            continue
        n = len(about.shape)
        spacing, origin = about.mesh.get("spacing") or [1.0] * n, about.mesh.get("origin") or [0.0] * n
        position = about.mesh.get("position") or [0.0] * n
        for axis, dim in enumerate(dims[name]):
            grids.setdefault(dim, set()).add((origin[axis], spacing[axis]))
            places.setdefault(dim, {}).setdefault(position[axis], []).append((name, axis))
            if about.mesh.get("spacing") or about.mesh.get("origin"):
                said.add(dim)
    named = {name: list(own) for name, own in dims.items()}
    coords = {}
    for dim in sorted(said - set(taken)):
        if len(grids[dim]) > 1:
            continue
        [(origin, spacing)] = grids[dim]
        for at, position in enumerate(sorted(places[dim])):
            own = f"{dim}_{position:g}" if at else dim
            for name, axis in places[dim][position]:
                named[name][axis] = own
            name, axis = places[dim][position][0]
            points = origin + (np.arange(kinds[name].shape[axis]) + position) * spacing
            coords[own] = xr.Variable((own,), points)
    return {name: tuple(own) for name, own in named.items()}, coords


def _attrs_of(about: DataSet) -> dict[str, Any]:
    return {**about.attrs, "units": about.units} if about.units else dict(about.attrs)


class OverSteps(BackendArray):
    """An array of the snapshots with the steps along its first axis: path, name and steps, so that pickle takes it."""

    def __init__(
        self,
        run: tuple[str, str],
        name: str,
        steps: tuple[int, ...],
        lacking: frozenset[int],
        shape: tuple[int, ...],
        dtype: Any,
    ) -> None:
        self.run, self.name, self.steps, self.lacking = run, name, steps, lacking
        self.shape, self.dtype = (len(steps), *shape), dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._read)

    def _read(self, key: tuple[Any, ...]) -> Any:
        first, rest = key[0], key[1:]
        wanted = self.steps[first]
        steps = list(wanted) if isinstance(wanted, tuple) else [wanted]
        there = [at for at, step in enumerate(steps) if step not in self.lacking]
        part = (slice(None), *rest)
        shape = np.broadcast_to(np.empty(()), (len(steps), *self.shape[1:]))[part].shape
        if not there:
            found = np.full(shape, np.nan if steps else 0, self.dtype)
        else:
            found = _reader(*self.run).series(self.name, rest or None, [steps[at] for at in there])
        if 0 < len(there) < len(steps):
            filled = np.full(shape, np.nan, self.dtype)
            filled[there] = found
            found = filled
        return found if isinstance(wanted, tuple) else found[0]


class OfSnapshot(BackendArray):
    """An array of one snapshot."""

    def __init__(self, snapshot: StoredSnapshot, name: str, shape: tuple[int, ...], dtype: Any) -> None:
        self.snapshot, self.name, self.shape, self.dtype = snapshot, name, shape, dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._read)

    def _read(self, key: tuple[Any, ...]) -> Any:
        return np.asarray(self.snapshot.get(self.name, key or None))


def _reader(path: str, run_id: str) -> Run:
    key = (os.getpid(), path, run_id)
    if key not in _readers:
        run = open_run(path, "r")
        if run.sql(_ID)[0]["value"] != run_id:
            raise _forebay.Conflict(
                f"{path} holds another run than when it was opened with xarray: it was begun anew; open it again"
            )
        _readers[key] = run
    return _readers[key]


def of_run(run: Run, name: str | Iterable[str] | None = None, drop: Iterable[str] = ()) -> xr.Dataset:
    """The arrays of a run's snapshots as they are now, lazily over steps."""
    names = None if name is None else {name} if isinstance(name, str) else set(name)
    run.snapshots.numbers  # noqa: B018  a single rank's own are complete then
    listed = run.sql(_STEPS)
    steps, times = [row["step"] for row in listed], [row["time"] for row in listed]
    kinds: dict[str, list[dict[str, Any]]] = {}
    for row in run.sql(_ARRAYS):
        kinds.setdefault(row["name"], []).append(row)
    for unknown in sorted((names or set()) - set(kinds)):
        raise _forebay.NotFound(
            f"no snapshot has an array {unknown!r}; they have {', '.join(sorted(kinds)) or 'none'}"
        )
    left_out, taken = {}, {}
    for array, rows in kinds.items():
        if array in drop or (names is not None and array not in names):
            continue
        why = _why_not(rows, len(steps))
        if why is None:
            taken[array] = rows[0]
        elif names is not None:
            raise _forebay.Conflict(f"{array!r} does not become one array over steps: {why}")
        else:
            left_out[array] = why
    kinds_of = {array: run.snapshots.at(row["last"]).dataset(array) for array, row in taken.items()}
    still = {
        array: about
        for array, about in kinds_of.items()
        if about.mesh is None or run.snapshots.at(taken[array]["first"]).dataset(array).mesh == about.mesh
    }
    dims = dims_of(kinds_of)
    # Coordinates come with the arrays that lie along them, also with one that was asked for alone.
    along_arrays = {dim for array, named in dims.items() for dim in named if dim != array and dim in kinds}
    fixed, moving = _coordinates(run, {dim: kinds[dim][0] for dim in sorted(along_arrays)})
    # Meshes that move have no points for all steps, nor has what lies along their axes.
    moved = {dim for array in kinds_of.keys() - still.keys() for dim in dims[array]}
    dims, points = points_of(kinds_of, dims, {*kinds, *moved})
    # What is there as a coordinate is not left out, such as texts.
    left_out = {array: why for array, why in left_out.items() if array not in fixed} | moving
    rising = bool(times) and None not in times and all(a < b for a, b in itertools.pairwise(times))
    along = "time" if rising else "step"
    place = (run.path, run.sql(_ID)[0]["value"])
    variables = {}
    for array, row in taken.items():
        if array in fixed or array in moving:
            continue
        lacking: frozenset[int] = frozenset()
        if row["steps"] < len(steps):
            having = run.sql(_HAVING, [array])
            lacking = frozenset(steps) - {one["step"] for one in having}
        lazy = OverSteps(
            place, array, tuple(steps), lacking, kinds_of[array].shape, dtype_of_name(row["dtype"])
        )
        attrs = _attrs_of(kinds_of[array])
        variables[array] = xr.Variable((along, *dims[array]), indexing.LazilyIndexedArray(lazy), attrs)
    known = np.array([np.nan if time is None else time for time in times], "f8")
    coords: dict[str, Any] = points | fixed
    coords |= {"step": ((along,), np.array(steps, "i8")), "time": ((along,), known)}
    return xr.Dataset(variables, coords, {"left_out": json.dumps(left_out)} if left_out else {})


def _coordinates(run: Run, rows: Mapping[str, Mapping[str, Any]]) -> tuple[dict[str, Any], dict[str, str]]:
    """The coordinates that are the same in the first and the last snapshot that has them; and why others are none."""
    fixed, moving = {}, {}
    for name, row in rows.items():
        first, last = run.snapshots.at(row["first"])[name], run.snapshots.at(row["last"])[name]
        if np.array_equal(first, last, equal_nan=np.asarray(first).dtype.kind in "fc"):
            about = run.snapshots.at(row["last"]).dataset(name)
            fixed[name] = xr.Variable((name,), last, _attrs_of(about))
        else:
            moving[name] = "it is a coordinate and differs from step to step; run.series(name) reads it"
    return fixed, moving


def _why_not(rows: list[dict[str, Any]], steps: int) -> str | None:
    """Why an array does not become one over steps, if it does not."""
    row = rows[0]
    if len(rows) > 1:
        kinds = " and ".join(f"{one['dtype']} {one['shape']} {one['unit']}".strip() for one in rows[:2])
        return f"its dtype, shape, unit or order differs from step to step, {kinds}; run.series(name, ragged=True) reads it"
    if not is_of_numpy(row["dtype"]):
        return f"it is of dtype {row['dtype']}; run.series(name) reads it"
    if row["steps"] < steps and dtype_of_name(row["dtype"]).kind not in "fc":
        return f"it is in {row['steps']} of {steps} steps, and {row['dtype']} has no NaN for the others"
    return None


def of_snapshot(snapshot: StoredSnapshot) -> xr.Dataset:
    """The arrays of one snapshot, each read when it is touched; texts, bytes and coordinates at once."""
    kinds = {name: snapshot.dataset(name) for name in snapshot.names()}
    numbers = {name for name in kinds if is_of_numpy(snapshot._native.dataset(name)[2])}
    dims = dims_of({name: about for name, about in kinds.items() if name in numbers})
    along = {dim for name, named in dims.items() for dim in named if dim != name}
    dims, points = points_of({name: kinds[name] for name in dims}, dims, kinds)
    variables: dict[str, Any] = {}
    for name, about in kinds.items():
        if name in along:
            variables[name] = xr.Variable((name,), snapshot[name], _attrs_of(about))
        elif name in dims:
            lazy = OfSnapshot(snapshot, name, about.shape, about.dtype)
            variables[name] = xr.Variable(dims[name], indexing.LazilyIndexedArray(lazy), _attrs_of(about))
        else:
            value = np.asarray(snapshot[name], object)
            axes = tuple(f"{name}_dim_{axis}" for axis in range(value.ndim))
            variables[name] = xr.Variable(axes, value, _attrs_of(about))
    coords: dict[str, Any] = {dim: variables.pop(dim) for dim in sorted(along) if dim in variables} | points
    coords["step"] = snapshot.step
    if snapshot.time is not None:
        coords["time"] = snapshot.time
    return xr.Dataset(variables, coords)


class Backend(BackendEntrypoint):
    """Opens runs: ``xarray.open_dataset("x.fb", engine="forebay")``."""

    description = "Runs of Forebay, lazily over steps"
    open_dataset_parameters = ("filename_or_obj", "drop_variables", "names")

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        drop_variables: str | Iterable[str] | None = None,
        names: Iterable[str] | None = None,
    ) -> xr.Dataset:
        """The run of that directory or address; ``names``: only these arrays."""
        drop = [drop_variables] if isinstance(drop_variables, str) else list(drop_variables or ())
        with open_run(filename_or_obj, "r") as run:
            return of_run(run, names, drop)

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Whether that looks like a run."""
        return isinstance(filename_or_obj, str | os.PathLike) and os.fspath(filename_or_obj).rstrip(
            "/"
        ).endswith(".fb")
