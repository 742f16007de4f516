"""Snapshots: taking them and reading them."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import ItemsView, Iterator, KeysView, Mapping, Sequence, ValuesView
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from . import _forebay
from ._arrays import measured
from ._attrs import from_json
from ._context import Context
from ._described import coordinates, said, unit_in
from ._dtypes import dtype_name, dtype_of_name
from ._index import Selection, plan
from ._meshes import axes_of, components_of, grid_of, kept_as, members, per_axis, points, records_of
from ._trees import tree

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True)
class Stats:
    """What the values of an array come to, counted when it was written; of complex numbers their absolute values."""

    min: int | float | None
    """The least value; ``None`` where there is none."""
    max: int | float | None
    """The greatest value."""
    mean: float | None
    """The mean of those that are numbers."""
    nans: int
    """How many are NaN. They count for none of the others."""


@dataclass(frozen=True)
class DataSet:
    """A data set, described."""

    name: str
    """Hierarchical name, such as ``electrons/beam1/x``."""
    set: int
    """Set number."""
    dtype: np.dtype[Any]
    """Type of the elements (``uint8`` for text and bytes)."""
    shape: tuple[int, ...]
    """Extents (for text and bytes the last one counts bytes)."""
    units: str
    """Unit, or empty."""
    attrs: dict[str, Any] = field(repr=False)
    """Attributes as they were when this was asked for."""
    dims: tuple[str, ...]
    """The name of each axis; empty when they have none."""
    version: int
    """How often it was put; 0 for arrays of snapshots, which never change."""
    nbytes: int
    """Bytes of the whole array."""
    mesh: dict[str, Any] | None = None
    """What an array of a snapshot is of a mesh: its ``name``, and ``component``, ``spacing``, ``origin`` and ``position`` if
    they were said."""
    species: dict[str, Any] | None = None
    """What an array of a snapshot is of a species of particles: its ``name``, and with one of its arrays ``constants``, the
    ``value`` and ``units`` of each record that is one number."""
    stats: Stats | None = field(default=None, repr=False)
    """Least, greatest and mean value; ``None`` of what is no number, of data sets outside snapshots, and of snapshots of
    earlier versions."""


def described(row: _forebay.Described) -> DataSet:
    """A data set of the native half as users see it."""
    name, number, dtype, shape, units, attrs, dims, version, nbytes, of, sums = row
    kind, extents = dtype_of_name(dtype), tuple(shape)
    mesh, species = json.loads(of)
    stats = None if sums is None else _stats(from_json(sums), math.prod(extents))
    named = from_json(attrs), tuple(dims)
    return DataSet(name, number, kind, extents, units, *named, version, nbytes, mesh, species, stats)


def _stats(sums: dict[str, Any], elements: int) -> Stats:
    nans = sums.get("nans", 0)
    numbers = elements - nans
    return Stats(sums.get("min"), sums.get("max"), sums["sum"] / numbers if numbers else None, nans)


def step_number(step: object, what: str = "number of a snapshot") -> int:
    """The number of a snapshot, or of what is said; refuses what is none."""
    try:
        number = operator.index(step)  # type: ignore[arg-type]
    except TypeError:
        raise _forebay.BadArgument(
            f"{step!r} is no {what}; give an integer, as int() makes one of a float"
        ) from None
    if not -(2**63) <= number < 2**63:
        raise _forebay.BadArgument(f"{number} is no {what}; give an integer from -2^63 to 2^63 - 1")
    return number


def snapshot_time(time: Any) -> float | None:
    """The time of a snapshot, which is a plain number."""
    if time is None or isinstance(time, float):
        return time
    try:
        return float(time)
    except (TypeError, ValueError):
        raise _forebay.BadArgument(
            f"time = {time!r} is not the time of a snapshot; give a number, of a quantity its value in the unit of the run"
        ) from None


def _extents(name: str, value: int | Sequence[int] | None) -> list[int] | None:
    if value is None:
        return None
    extents = [int(n) for n in (value if isinstance(value, Sequence) else (value,))]
    if any(n < 0 for n in extents):
        raise _forebay.BadArgument(f"{name} = {tuple(extents)} has a negative number")
    return extents


# An array to come: its extents, its dtype, whether the first index runs fastest.
_Wanted = tuple[list[int], str, bool]


def _where(
    offset: int | Sequence[int] | str | None,
    shape: int | Sequence[int] | None,
    overlap: str = "refuse",
    compress: str | None = None,
) -> _forebay.Where:
    """Where a rank's array lies in the whole, and how that is kept, as the native half takes it."""
    append = isinstance(offset, str)
    if append and offset != "append":
        raise _forebay.BadArgument(f'offset = {offset!r}; use an index, or "append"')
    first = None if append else _extents("offset", offset)  # type: ignore[arg-type]
    return append, first, _extents("shape", shape), overlap, compress


def _array(shape: int | Sequence[int], dtype: DTypeLike, order: str) -> _Wanted:
    """An array to come, as the native half takes it."""
    if order not in ("C", "F"):
        raise _forebay.BadArgument(f'order = {order!r} is neither "C" nor "F"')
    return _extents("shape", shape) or [], dtype_name(dtype), order == "F"


def _said_of(
    array: _Wanted,
    dims: str | Sequence[str] | None,
    coords: Mapping[str, ArrayLike] | None,
    attrs: Mapping[str, Any] | None,
    fill: complex | None = None,
) -> _forebay.Said:
    """What an array to come says of itself."""
    return said(np.empty(0, dtype_of_name(array[1])), dims, coords, attrs, fill)


class Snapshot(Context):
    """A snapshot being taken: a group of arrays that appears as a whole or not at all.

    A context manager; leaving it completes the snapshot, leaving it by an exception discards it.
    Made by :meth:`Run.snapshot`.
    """

    def __init__(self, native: _forebay.Snapshot) -> None:
        self._native = native

    @property
    def step(self) -> int:
        """Its number."""
        return self._native.step

    @property
    def taken(self) -> bool:
        """Whether it is taken. It is not when this state is kept already, by Save, by the bottom of the body before,
        or since the run went back to it: then nothing is done, and everything is right.

        Insert rows of histories without asking for it. Behind a restart the rows of its head go when the program comes
        there, and the snapshot of that head stands: behind ``if s.taken`` they would not be made again.
        """
        return self._native.taken

    def put(
        self,
        name: str,
        array: ArrayLike,
        units: str | None = None,
        offset: int | Sequence[int] | Literal["append"] | None = None,
        shape: int | Sequence[int] | None = None,
        *,
        dims: str | Sequence[str] | None = None,
        coords: Mapping[str, ArrayLike] | None = None,
        attrs: Mapping[str, Any] | None = None,
        overlap: Literal["refuse", "equal", "last"] = "refuse",
        fill: complex | None = None,
        compress: Literal["gzip", "zstd", "none"] | None = None,
        as_dtype: DTypeLike | None = None,
    ) -> None:
        """Copies an array into the snapshot; it is yours again when this returns.

        ``array``: any layout and byte order; text and bytes too; of a quantity the unit is taken (:meth:`Run.put`). With ``offset`` and ``shape`` it is
        this rank's block, at that index, of a global array of that shape; ``offset="append"`` puts
        the blocks one behind the other along axis 0 in the order of ranks.

        ``dims``: a name for each axis. ``coords``: values along some of them, each the whole of one axis; it becomes an
        array of the snapshot, beside this one, under the name of the axis, and arrays beside each other share it.
        ``attrs``: attributes, as :class:`Attributes` keeps them. h5py, xarray and netCDF find all of it in the file of
        the step. In a run of several ranks all say the same, or one says it.

        ``overlap``: what holds where blocks of ranks lie over each other, as those of grids do whose nodes ranks share:
        that is an error (``"refuse"``), they have the same bits there (``"equal"``: other ones are a late ``Conflict``, and the
        highest rank's are kept), or the highest rank's block counts (``"last"``). All ranks say the same. The blocks wait in
        the buffer until the lower ranks have ended the snapshot.

        ``fill``: the value of elements that no rank puts, with ``offset`` and ``shape``: without it the blocks must cover the
        whole. It must be a value of the dtype, is kept as the attribute ``_FillValue``, and all ranks say the same.
        :meth:`Run.stats` counts such elements.

        ``compress="gzip"`` makes the file smaller: chunks of about a megabyte are compressed behind the program's back, by
        threads that run when nobody else wants the processor, and h5py, netCDF and MATLAB read them as they read others. What
        does not become smaller by a twentieth, and less than 64 KiB, is kept as it is. ``"zstd"`` is faster; netCDF reads it,
        h5py after ``import hdf5plugin``, and ``h5dump`` of old versions shows nothing of it. Not together with ``overlap``. Not said
        is as :func:`open` was told; ``"none"`` takes that back.
        ``as_dtype``: keeps the array with less precision, ``"f4"`` for one of ``f8``. It is converted while it is copied,
        rounded to the nearest: ``f8`` as ``f4`` or ``f2``, ``f4`` as ``f2``, ``c16`` as ``c8``, and integers as shorter ones, if every
        value is one of these. The attribute ``original_dtype`` has the dtype that it had. Finite values that are infinite
        there are counted, ``stats()["lost_range"]``, and told.

        A ``datetime64`` is kept as integers with the units of CF, such as ``"seconds since 1970-01-01"``.

        Raises ``Conflict`` (another coordinate, or length, of an axis of that name beside it), ``BadArgument`` (a dtype that is not kept, a name used twice, an integer that ``as_dtype`` does not hold), ``Full`` (a step
        larger than all buffers whose policy is to drop), ``ServerLost`` (the owner of the run died).
        """
        where = _where(offset, shape, overlap, compress)
        attrs, units = unit_in(attrs, units)
        array, units = measured(array, units)
        is_plain = dims is None and coords is None and attrs is None and fill is None
        kept = None if as_dtype is None else dtype_name(as_dtype)
        about = None if is_plain else said(array, dims, coords, attrs, fill, kept)
        self._native.put(name, array, units or "", where, about, kept)

    def mesh(
        self,
        name: str,
        values: ArrayLike | Mapping[str, ArrayLike],
        units: str | None = None,
        offset: int | Sequence[int] | Literal["append"] | None = None,
        shape: int | Sequence[int] | None = None,
        *,
        dims: str | Sequence[str] | None = None,
        spacing: float | Sequence[float] | None = None,
        origin: float | Sequence[float] | None = None,
        position: float | Sequence[float] | Mapping[str, float | Sequence[float]] | None = None,
        coords: Mapping[str, ArrayLike] | None = None,
        attrs: Mapping[str, Any] | None = None,
        overlap: Literal["refuse", "equal", "last"] = "refuse",
        fill: complex | None = None,
        compress: Literal["gzip", "zstd", "none"] | None = None,
        as_dtype: DTypeLike | None = None,
    ) -> None:
        """Puts a field on a regular mesh: readers of openPMD, VTK and ParaView find it in the file of the step.

        ``values``: an array, or one for each component, ``{"x": Ex, "y": Ey}``. The component ``x`` of the mesh ``E`` is the
        array ``E_x`` of the snapshot, and ``snapshot["E"]`` gives all of them. ``units``, ``offset``, ``shape``, ``dims``,
        ``coords``, ``attrs``, ``overlap``, ``fill``, ``compress`` and ``as_dtype`` as in :meth:`put`; without ``dims`` the axes are ``x``, ``y`` and ``z``. ``spacing``,
        ``origin``: distance and beginning of the points along each axis, as ``coords`` say it, else 1 and 0.
        ``position``: where in its cell the field is, as a part of the spacing from 0 to less than 1, for all components
        or for each.

        Raises ``Conflict`` and ``BadArgument`` as :meth:`put` does.
        """
        where = _where(offset, shape, overlap, compress)
        attrs, units = unit_in(attrs, units)
        given = components_of(name, values, position)
        n = axes_of(given[0][1])
        kept = None if as_dtype is None else dtype_name(as_dtype)
        components = []
        for component, array, own in given:
            numbers, unit = measured(array, units)
            about = said(numbers, dims, coords, attrs, fill, kept)
            components.append((component, numbers, per_axis("position", own, n), unit or "", about, kept))
        everywhere = None if isinstance(position, Mapping) else position
        self._native.mesh(name, components, points(n, spacing, origin, everywhere), where)

    def particles(
        self,
        name: str,
        position: ArrayLike | Mapping[str, ArrayLike],
        *,
        units: Mapping[str, str] | None = None,
        attrs: Mapping[str, Mapping[str, Any]] | None = None,
        offset: int | Literal["append"] | None = None,
        shape: int | None = None,
        compress: Literal["gzip", "zstd", "none"] | None = None,
        as_dtype: DTypeLike | Mapping[str, DTypeLike] | None = None,
        sort_by: str | None = None,
        **records: ArrayLike | Mapping[str, ArrayLike],
    ) -> None:
        """Puts a species of particles: readers of openPMD, VTK and ParaView find it in the file of the step.

        ``position`` and each other record, ``momentum``, ``weighting``, ``id``: an array ``(n,)``, one for each component,
        ``{"x": x, "y": y}``, an array ``(n, d)`` of up to three of them side by side, or one number for all
        particles, as ``mass``. The component ``x`` of the record ``position`` is the array ``NAME/position/x`` of the
        snapshot, and ``snapshot[NAME]`` gives all of them. ``units`` and ``attrs``: by record, as in :meth:`put`.
        Each rank gives its own particles: ``offset="append"``, or ``offset``, the index of its first one, and ``shape``,
        the number of all. ``compress`` as in :meth:`put`. ``as_dtype``: keeps records with less precision, as in :meth:`put`:
        all arrays of its kind that have more, ``"f4"`` those of ``f8``, or by record, ``{"momentum": "f2", "id": "u4"}``.

        ``sort_by="id"``: in the file of the step the particles of all ranks lie in the order of that record, an integer for
        each, whichever rank has them; equal ones lie in the order of ranks. Their arrays have the attribute ``sorted_by``. A
        species of more than a quarter of the ranks' buffers lies in the order of ranks, and the array ``NAME/order`` has
        the indices that put it in order: ``x[order]``. A message says so. All ranks say the same; what
        :meth:`allocate_particles` gives of the species behind it lies so, too.

        Raises ``Conflict`` and ``BadArgument`` as :meth:`put` does.
        """
        where = _where(offset, shape, compress=compress)
        arrays = []
        by_record = as_dtype if isinstance(as_dtype, Mapping) else None
        for record, component, values in records_of(
            name, {"position": position, **records}, units, attrs, by_record
        ):
            more, unit = unit_in((attrs or {}).get(record), (units or {}).get(record))
            numbers, unit = measured(values, unit)
            kept = kept_as(record, numbers, as_dtype)
            about = said(numbers, None, None, more, None, kept)
            arrays.append((record, component, numbers, unit or "", about, kept))
        self._native.particles(name, arrays, where, sort_by)

    def allocate(
        self,
        name: str,
        shape: int | Sequence[int],
        dtype: DTypeLike = np.float64,
        units: str | None = None,
        offset: int | Sequence[int] | Literal["append"] | None = None,
        global_shape: int | Sequence[int] | None = None,
        order: Literal["C", "F"] = "C",
        *,
        dims: str | Sequence[str] | None = None,
        coords: Mapping[str, ArrayLike] | None = None,
        attrs: Mapping[str, Any] | None = None,
        overlap: Literal["refuse", "equal", "last"] = "refuse",
        fill: complex | None = None,
        compress: Literal["gzip", "zstd", "none"] | None = None,
    ) -> NDArray[Any]:
        """A NumPy array of this ``shape`` in the buffer itself: fill it in place before the snapshot ends,
        and the snapshot costs nothing to copy. Its contents are undefined at first. It is yours until the end of
        the snapshot: from there on it is read-only. It keeps its values, and its place in the buffer, as long as you keep it.
        Views that you made of it before that NumPy leaves writable: let go of them.

        ``offset`` and ``global_shape`` as ``offset`` and ``shape`` in :meth:`put`, ``dims``, ``coords``, ``attrs``,
        ``overlap``, ``fill`` and ``compress`` as there. Raises ``Full`` when
        the buffer has no room of that size: give :func:`open` a larger ``buffer``, or use :meth:`put`.
        """
        array = _array(shape, dtype, order)
        where = _where(offset, global_shape, overlap, compress)
        about = None
        if dims is not None or coords is not None or attrs is not None or fill is not None:
            attrs, units = unit_in(attrs, units)
            about = _said_of(array, dims, coords, attrs, fill)
        room: NDArray[Any] = self._native.allocate(name, array, units or "", where, about)
        return room

    def allocate_mesh(
        self,
        name: str,
        shape: int | Sequence[int],
        dtype: DTypeLike = np.float64,
        units: str | None = None,
        offset: int | Sequence[int] | Literal["append"] | None = None,
        global_shape: int | Sequence[int] | None = None,
        order: Literal["C", "F"] = "C",
        *,
        component: str = "",
        dims: str | Sequence[str] | None = None,
        spacing: float | Sequence[float] | None = None,
        origin: float | Sequence[float] | None = None,
        position: float | Sequence[float] | None = None,
        coords: Mapping[str, ArrayLike] | None = None,
        attrs: Mapping[str, Any] | None = None,
        overlap: Literal["refuse", "equal", "last"] = "refuse",
        fill: complex | None = None,
        compress: Literal["gzip", "zstd", "none"] | None = None,
    ) -> NDArray[Any]:
        """A NumPy array in the buffer itself, as :meth:`allocate` gives it, for a field on a regular mesh, or for one
        ``component`` of it: ``s.allocate_mesh("E", (nx, ny), component="x", spacing=(dx, dy))`` is the array ``E_x`` of
        the snapshot.

        ``shape``, ``dtype``, ``units``, ``offset``, ``global_shape``, ``order``, ``overlap``, ``fill`` and ``compress`` as in
        :meth:`allocate`;
        ``dims``, ``spacing``, ``origin``, ``position`` (of this component), ``coords`` and ``attrs`` as in :meth:`mesh`.

        Raises ``Conflict`` and ``BadArgument`` as :meth:`mesh` does, ``Full`` as :meth:`allocate` does.
        """
        array = _array(shape, dtype, order)
        where = _where(offset, global_shape, overlap, compress)
        attrs, units = unit_in(attrs, units)
        about = _said_of(array, dims, coords, attrs, fill)
        at = points(len(array[0]), spacing, origin, position)
        room: NDArray[Any] = self._native.allocate_mesh(name, component, array, at, units or "", where, about)
        return room

    def allocate_particles(
        self,
        name: str,
        record: str,
        shape: int | Sequence[int],
        dtype: DTypeLike = np.float64,
        units: str | None = None,
        offset: int | Literal["append"] | None = None,
        global_shape: int | None = None,
        order: Literal["C", "F"] = "C",
        *,
        component: str = "",
        attrs: Mapping[str, Any] | None = None,
        compress: Literal["gzip", "zstd", "none"] | None = None,
    ) -> NDArray[Any]:
        """A NumPy array in the buffer itself, as :meth:`allocate` gives it, for a record of a species of particles, or for
        one ``component`` of it: ``s.allocate_particles("electrons", "position", n, component="x")`` is the array
        ``electrons/position/x`` of the snapshot. Records that are one number for all go with :meth:`particles`.

        ``shape``: the number of this rank's particles, or ``(n, d)`` for up to three numbers of each side by side.
        ``offset``: ``"append"``, or the index of the first one among ``global_shape`` particles. ``dtype``, ``units``,
        ``order``, ``attrs`` and ``compress`` as in :meth:`allocate`.

        Raises ``Conflict`` and ``BadArgument`` as :meth:`particles` does, ``Full`` as :meth:`allocate` does.
        """
        array = _array(shape, dtype, order)
        where = _where(offset, global_shape, compress=compress)
        attrs, units = unit_in(attrs, units)
        about = _said_of(array, None, None, attrs)
        room: NDArray[Any] = self._native.allocate_particles(
            name, record, component, array, units or "", where, about
        )
        return room

    def end(self) -> None:
        """Completes the snapshot: when this returns it survives the death of this process."""
        self._native.end()

    def discard(self) -> None:
        """Gives the snapshot up, as if it had never begun."""
        self._native.discard()

    def wait(self, timeout: float | None = None) -> None:
        """Waits until the snapshot is durable on all ranks; raises ``Timeout`` after ``timeout`` seconds."""
        self._native.wait(timeout)

    def _leave(self, error: BaseException | None) -> None:
        if error is None:
            self.end()
        else:
            self.discard()

    def __repr__(self) -> str:
        return f"<forebay.Snapshot of step {self.step} being taken>"


class StoredSnapshot:
    """A complete snapshot, to be read."""

    def __init__(self, native: _forebay.Kept) -> None:
        self._native = native

    @property
    def step(self) -> int:
        """Its number."""
        return self._native.step

    @property
    def time(self) -> float | None:
        """Its time, if one was given."""
        return self._native.time

    def names(self) -> list[str]:
        """The names of its arrays."""
        return self._native.names()

    def dataset(self, name: str) -> DataSet:
        """Describes one array without reading it; raises ``NotFound``."""
        return described(self._native.dataset(name))

    def attrs(self, name: str) -> dict[str, Any]:
        """The attributes of an array, as they were put; its unit is in :meth:`dataset`. Raises ``NotFound``."""
        return self.dataset(name).attrs

    def dims(self, name: str) -> tuple[str, ...]:
        """The name of each axis of an array; empty when they have none. Raises ``NotFound``."""
        return self.dataset(name).dims

    def stats(self, name: str) -> Stats | None:
        """The least, the greatest and the mean value of an array, and how many are NaN, without reading it: they were
        counted when it was written. ``None`` of truth values, texts and bytes. Raises ``NotFound``.
        """
        return self.dataset(name).stats

    def coords(self, name: str) -> dict[str, Any]:
        """The coordinates of an array by the names of its axes: those arrays beside it that are called so. Raises
        ``NotFound``.
        """
        return coordinates(self, name)

    def grid(self, name: str) -> dict[str, Any]:
        """Where the points of a mesh lie, as :meth:`Snapshot.mesh` takes it: ``dims``, and of ``spacing``, ``origin`` and
        ``position`` those that were said, the last one by component where it was. ``s.mesh("E", snap["E"], **snap.grid("E"))``
        puts the mesh again. Raises ``NotFound``, also of an array that is no mesh.
        """
        parts = {"": name} if name in self.names() else dict(self._native.members(name)[0])
        return grid_of(name, {part: self.dataset(array) for part, array in parts.items()})

    def get(self, name: str, sel: Selection | None = None) -> Any:
        """Reads an array, or only the part that a basic index ``sel`` selects. Of a mesh with components, and of a species of
        particles, it is the dictionary of all, with the records that are one number, which are no arrays and not among
        :meth:`names`.
        """
        try:
            return self._array(name, sel)
        except _forebay.NotFound:
            found = members(self._native.members(name), lambda array: self._array(array, sel))
            if not found:
                raise
            return found

    def _array(self, name: str, sel: Selection | None) -> Any:
        if sel is None:
            return self._native.get(name, None)
        axes, after = plan(sel, self.dataset(name).shape)
        found = self._native.get(name, axes)
        return found if after is None else found[after]

    def to_xarray(self) -> xarray.Dataset:
        """Its arrays as a data set of xarray, each read when it is touched, with their axes, coordinates, units and
        attributes. An array ``group/name`` keeps its name, and its axes are called ``group/axis``. Points of meshes with
        ``spacing`` or ``origin`` are coordinates; staggered ones lie along ``x_0.5``. Needs xarray.
        """
        from ._xarray import of_snapshot

        return of_snapshot(self)

    def map(self, name: str) -> Any:
        """Returns an array as a read-only one over the file of the snapshot, as :meth:`Run.map` does for a data set. While it is
        mapped the snapshot's file is kept.
        """
        return self._native.map(name)

    def __getitem__(self, name: str) -> Any:
        return self.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self.names() or (isinstance(name, str) and any(self._native.members(name)))

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def keys(self) -> KeysView[str]:
        """The names of its arrays."""
        return KeysView(cast("Mapping[str, Any]", self))

    def values(self) -> ValuesView[Any]:
        """Its arrays, each read when it is come to."""
        return ValuesView(cast("Mapping[str, Any]", self))

    def items(self) -> ItemsView[str, Any]:
        """Names and arrays, each read when it is come to."""
        return ItemsView(cast("Mapping[str, Any]", self))

    def __bool__(self) -> bool:
        """A snapshot without arrays is one all the same."""
        return True

    def __repr__(self) -> str:
        time = "" if self.time is None else f" at time {self.time:g}"
        return f"<forebay.StoredSnapshot of step {self.step}{time}>"

    def _repr_html_(self) -> str:
        """For notebooks: its arrays as a tree, with their units."""
        return tree(repr(self)[1:-1], [self.dataset(name) for name in self.names()])


class RestartSnapshot(StoredSnapshot):
    """The snapshot a restart goes on from."""

    def __init__(
        self, native: _forebay.Kept, parameters: dict[str, Any], finished: bool, passed: Sequence[int] = ()
    ) -> None:
        super().__init__(native)
        self.parameters = parameters
        """Values of the parameters at that step; :meth:`Run.parameter` restores them."""
        self.finished = finished
        """Whether the run had come to its end: nothing is left to do unless it is to go further."""
        self.passed = list(passed)
        """Numbers of damaged snapshots that the restart passed over."""


class StoredSnapshots(Sequence[StoredSnapshot]):
    """The complete snapshots of a run at the moment it was asked, by step."""

    def __init__(self, native: _forebay.KeptSnapshots) -> None:
        self._native = native

    @cached_property
    def _numbers(self) -> list[int]:
        return self._native.numbers()

    @property
    def numbers(self) -> list[int]:
        """Their steps, ascending."""
        return list(self._numbers)

    def at(self, step: int) -> StoredSnapshot:
        """The snapshot of a step; raises ``NotFound``."""
        return StoredSnapshot(self._native.at(step_number(step)))

    @overload
    def __getitem__(self, index: int) -> StoredSnapshot: ...
    @overload
    def __getitem__(self, index: slice) -> list[StoredSnapshot]: ...
    def __getitem__(self, index: int | slice) -> StoredSnapshot | list[StoredSnapshot]:
        if isinstance(index, slice):
            return [self.at(step) for step in self._numbers[index]]
        # The last one is known, however many there are.
        if index == -1 and (last := self._native.last()) is not None:
            return StoredSnapshot(last)
        try:
            step = self._numbers[index]
        except IndexError:
            raise IndexError(f"there is no snapshot {index} of {len(self)}") from None
        return self.at(step)

    def __len__(self) -> int:
        return len(self._numbers)

    def __bool__(self) -> bool:
        return self._native.last() is not None

    def __repr__(self) -> str:
        if not self._numbers:
            return "<forebay.StoredSnapshots: none>"
        return f"<forebay.StoredSnapshots: {len(self)}, from step {self._numbers[0]} to step {self._numbers[-1]}>"
