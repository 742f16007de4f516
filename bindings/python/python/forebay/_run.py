"""A run: the data base, the snapshots and the page of one simulation."""

from __future__ import annotations

import atexit
import contextlib
import functools
import inspect
import json
import os
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _forebay
from ._arrays import measured, plain
from ._attrs import Attributes, to_json
from ._context import Context
from ._described import said, unit_in
from ._forebay import BadArgument
from ._index import Selection, plan
from ._kept import Checkpoint, Packed, Unpacked, first_and_last
from ._page import Page
from ._snapshots import (
    DataSet,
    RestartSnapshot,
    Snapshot,
    StoredSnapshot,
    StoredSnapshots,
    described,
    snapshot_time,
    step_number,
)
from ._tables import Rows, Table, columns_of, of_columns
from ._trees import tree
from ._watch import Diagram, Parameter

if TYPE_CHECKING:
    import xarray

T = TypeVar("T")

_open_runs: weakref.WeakSet[Run] = weakref.WeakSet()


class DataSetHandle:
    """A data set by its name and set number; nothing is read before it is asked for."""

    def __init__(self, run: Run, name: str, set: int) -> None:
        self._run, self.name, self.set = run, name, set

    @property
    def attrs(self) -> Attributes:
        """Its attributes."""
        return Attributes(self._run._native, "dataset", self.name, self.set)

    @property
    def info(self) -> DataSet:
        """Its description; raises ``NotFound``."""
        return described(self._run._native.dataset(self.name, self.set))

    def get(self, sel: Selection | None = None) -> Any:
        """Reads it, or a part of it."""
        return self._run.get(self.name, self.set, sel)

    def __repr__(self) -> str:
        return f"<forebay data set {self.name!r}, set {self.set}>"


class Keys(KeysView[Any]):
    """The keys of a run, as they are when they are asked for."""

    def __repr__(self) -> str:
        return f"<forebay keys {list(self)}>"


class Run(Context):
    """An open run. Made by :func:`open`; a context manager that drains and closes."""

    def __init__(self, native: _forebay.Run) -> None:
        self._native = native
        _open_runs.add(self)

    # --- what it is --------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """Its directory, absolute; its address when it is on another host."""
        return self._native.path

    @property
    def rank(self) -> int:
        """This process's rank."""
        return self._native.rank

    @property
    def size(self) -> int:
        """Number of ranks."""
        return self._native.size

    @property
    def closed(self) -> bool:
        """Whether it has been closed."""
        return self._native.closed

    @property
    def read_only(self) -> bool:
        """Whether it was opened with mode ``r``."""
        return self._native.read_only

    # --- data sets ---------------------------------------------------------------------------

    def put(
        self,
        name: str,
        array: ArrayLike,
        set: int = 0,
        *,
        units: str | None = None,
        attrs: Mapping[str, Any] | None = None,
        if_version: int | None = None,
    ) -> int | None:
        """Stores or replaces a data set. What is put again is replaced as a whole, with its unit and its attributes.

        ``array``: an array of any layout and byte order, a number, text or bytes. Copied when this
        returns, durable at :meth:`flush`. With ``if_version`` it is stored only if the stored version is
        still that one (0: must not exist), and the new version is returned; else ``Conflict`` is raised.

        The unit of a quantity (pint, astropy, ``openmm.unit``) or of an array with an attribute ``units`` (xarray) is
        taken as ``units``. Masked elements are refused: give what is to stand there with ``a.filled(value)``.

        Raises ``BadArgument`` (name, dtype), ``ReadOnly``, ``Conflict``, ``ServerLost``, ``Closed``.
        """
        described_as = None if attrs is None else to_json(attrs)
        array, units = measured(array, units)
        return self._native.put(name, array, set, units or "", described_as, if_version)

    def constant(
        self,
        name: str,
        array: ArrayLike,
        units: str | None = None,
        *,
        dims: str | Sequence[str] | None = None,
        attrs: Mapping[str, Any] | None = None,
        step: int | None = None,
    ) -> None:
        """Puts an array once a run: every snapshot that this rank takes from now on has it, as ``snap[name]``.

        Of up to 4 KiB each snapshot has a copy. A larger one lies once in the run, as the data set ``name``, and the file of
        each snapshot has a link to it. The same bits again are nothing, also when the program is started anew, which
        says it again. Others raise ``Conflict``, but with ``step``, 1 or more: they are the data set of that number, and
        snapshots from that step on have them. One rank says it, the whole of it, or all say the same. Say it between
        snapshots. The bytes stay whatever becomes of the data set.

        ``units``, ``dims`` and ``attrs`` as in :meth:`Snapshot.put`. h5py and xarray follow the link; what the array says
        beside type, shape and unit is there for Forebay's readers. Raises ``BadArgument`` (a name that is not free).
        """
        if step is not None and step_number(step, "step of a constant") < 1:
            raise _forebay.BadArgument(
                f"step = {step}; the first version holds from the beginning: leave step out"
            )
        attrs, units = unit_in(attrs, units)
        array, units = measured(array, units)
        about = None if dims is None and attrs is None else said(array, dims, None, attrs)[0]
        self._native.constant(name, array, units or "", about, step or 0)

    def get(self, name: str, set: int = 0, sel: Selection | None = None) -> Any:
        """Reads a data set as an array (text as ``str``, bytes as ``bytes``), or only the part that ``sel``, a
        basic index of NumPy's such as ``numpy.s_[0:10, ::2]``, selects. Raises ``NotFound``.
        """
        if sel is None:
            return self._native.get(name, set, None)
        axes, after = plan(sel, tuple(self._native.dataset(name, set)[3]))
        found = self._native.get(name, set, axes)
        return found if after is None else found[after]

    def map(self, name: str, set: int = 0) -> Any:
        """Returns a data set as a read-only array over its file: what is touched is read, by the system, so it may be larger
        than the memory. It stays as it is when the data set is put again or deleted. No checksums are compared. Small data
        sets are copied. Raises ``NotFound``, and ``BadArgument`` for text and for a run on another host.
        """
        return self._native.map(name, set)

    def get_many(self, names: Iterable[str | tuple[str, int]]) -> list[Any]:
        """Reads many data sets whole, each given by its name or by name and set number, in that order.
        Over a network all are asked for together, so it costs little more than one. Raises ``NotFound``.
        """
        return self._native.get_many([_key(n) for n in names])

    def __getitem__(self, key: str | tuple[str, int]) -> Any:
        name, number = _key(key)
        return self.get(name, number)

    def __setitem__(self, key: str | tuple[str, int], array: ArrayLike) -> None:
        name, number = _key(key)
        self.put(name, array, number)

    def __delitem__(self, key: str | tuple[str, int]) -> None:
        name, number = _key(key)
        self._native.dataset(name, number)
        self._native.delete(_forebay.literal(name), number)

    def __contains__(self, key: str | tuple[str, int]) -> bool:
        name, number = _key(key)
        return bool(self._native.list(_forebay.literal(name), number))

    def __len__(self) -> int:
        """How many keys it has, as iterating over it gives them."""
        return len(self._keys())

    def __bool__(self) -> bool:
        """A run without data sets is one all the same."""
        return True

    def _keys(self) -> Sequence[str | tuple[str, int]]:
        stored = [(row[0], row[1]) for row in self._native.list("*", None)]
        plain = {name for name, number in stored if number == 0}
        return [
            name if number == 0 else (name, number)
            for name, number in stored
            if number == 0 or name not in plain
        ]

    def __iter__(self) -> Iterator[str | tuple[str, int]]:
        """The names of its data sets, as those of an HDF5 file; snapshots are in :attr:`snapshots`. Of a name without a
        set 0 each set is a key of its own, ``("E", 7)``: what this gives, ``run[key]`` takes.
        """
        return iter(self._keys())

    def keys(self) -> KeysView[str | tuple[str, int]]:
        """The keys of its data sets, as iterating over the run gives them."""
        return Keys(cast("Mapping[str | tuple[str, int], Any]", self))

    def dataset(self, name: str, set: int = 0) -> DataSetHandle:
        """A data set by name, for its attributes and description."""
        return DataSetHandle(self, name, set)

    def list(self, pattern: str = "*", set: int | None = None) -> list[DataSet]:
        """Describes the data sets whose names match a glob, of one set number or all, by name and set."""
        return [described(row) for row in self._native.list(pattern, set)]

    def delete(self, pattern: str, set: int | None = None) -> int:
        """Deletes the data sets whose names match a glob; returns how many."""
        return self._native.delete(pattern, set)

    def rename(self, a: str, b: str) -> int:
        """Renames a data set, all its sets; returns how many. Raises ``NotFound``, ``Conflict``."""
        return self._native.rename(a, b)

    def copy(self, a: str, b: str) -> int:
        """Copies a data set, all its sets; returns how many. Raises ``NotFound``, ``Conflict``."""
        return self._native.copy(a, b)

    @property
    def attrs(self) -> Attributes:
        """The run's attributes."""
        return Attributes(self._native, "run")

    # --- tables ------------------------------------------------------------------------------

    def table(
        self,
        name: str,
        columns: Mapping[str, Any] | None = None,
        units: Mapping[str, str] | None = None,
        *,
        history: bool = False,
    ) -> Table:
        """Creates a table, or opens it when it exists (``columns`` may then be left out).

        ``columns``: name to dtype (``"f64"``, ``float``, ``numpy.int32``, ``"str"``, ...); ``("f8", 3)`` or
        ``("f8", (2, 3))`` for an array of that shape in each row, of numbers or truth values. With ``history``
        each row belongs to the step it was made in, and goes when a restart makes that step again.
        Raises ``NotFound`` (no such table and no columns), ``Conflict`` (it has other columns).
        """
        return Table(self._native, self._native.table(name, columns_of(columns, units), history))

    @property
    def tables(self) -> Sequence[str]:
        """Names of the tables."""
        return self._native.tables()

    def sql(self, query: str, args: Sequence[Any] = ()) -> Rows:
        """Reads with SQL: ``run.sql("select avg(mass) from stars where age > ?", [5])``. Read-only."""
        return Rows(*self._native.sql(query, [plain(value) for value in args]))

    def history(self, title: str) -> Rows:
        """The points of a history by columns: ``step``, ``t``, and one for each curve, as ``h["kinetic"]``,
        ``h.to_pandas()``. Points at one step and ``t`` are one row; where a curve has none there it is NaN. Rows are in the
        order of their steps. A curve called like a column before it gets a ``_`` behind its name.

        Raises ``NotFound`` (the text names the histories there are), ``BadArgument`` (a diagram that is no history).
        """
        return of_columns(self._native.history(title))

    # --- snapshots ---------------------------------------------------------------------------

    def snapshot(self, step: int, time: float | None = None) -> Snapshot:
        """Begins a snapshot; use it in a ``with`` statement.

        Its number says how many steps are behind the state: snapshot N is what the loop head finds before it computes
        step N. It appears as a whole or not at all; an exception inside discards it. When the state is kept already, by
        Save or since the run went back to it, the block does nothing and ``s.taken`` is false. Raises ``Conflict``
        when the step exists otherwise, when the loop ended at another one (:attr:`position`), or when
        another snapshot of this rank is not yet ended.
        """
        if step is None:
            raise BadArgument(
                "None is no number of a snapshot; run.position is None where nobody knows which state the program holds: "
                "before a loop and a restart, and behind a loop that was left in the body of a step, as by break. Give the "
                "number yourself, that of the step if it is not computed and one more if it is; or leave loops with "
                "run.finish(), which ends them at the next head"
            )
        return Snapshot(self._native.snapshot(step_number(step), snapshot_time(time)))

    @property
    def snapshots(self) -> StoredSnapshots:
        """The complete snapshots: ``len``, ``[-1]``, ``.at(step)``, iteration, ``.numbers``."""
        return StoredSnapshots(self._native.snapshots())

    @overload
    def series(
        self,
        name: str,
        sel: Selection | None = None,
        steps: Iterable[int] | None = None,
        *,
        ragged: Literal[False] = False,
        missing: Literal["raise", "nan"] = "raise",
    ) -> NDArray[Any]: ...
    @overload
    def series(
        self,
        name: str,
        sel: Selection | None = None,
        steps: Iterable[int] | None = None,
        *,
        ragged: Literal[True],
        missing: Literal["raise"] = "raise",
    ) -> Sequence[Any]: ...
    def series(
        self,
        name: str,
        sel: Selection | None = None,
        steps: Iterable[int] | None = None,
        *,
        ragged: bool = False,
        missing: Literal["raise", "nan"] = "raise",
    ) -> Any:
        """One array of the snapshots over time: ``run.series("T", numpy.s_[50, 20])`` is the value there in each complete
        snapshot, as an array; ``run.series("T")`` has the steps along its first axis.

        ``sel``: a basic index of NumPy's into each array; only that part is read. ``steps``: numbers of snapshots, in the
        order in which they are wanted, such as ``range(0, 1000, 10)``; all complete ones if not given, in the order of
        ``run.snapshots.numbers``. ``ragged``: a list of arrays, which may differ in shape and dtype. ``missing="nan"``: NaN
        stands for a step that has no such array, if it is of floats or complex numbers.

        Raises ``NotFound`` (no such step; steps without the array, which it names), ``Conflict`` (the arrays differ in
        shape or dtype; the text names the first step at which they do), ``BadArgument``.

        Over a network every step is a question of its own, and many are under way together.
        """
        if missing not in ("raise", "nan"):
            raise BadArgument(f'missing = {missing!r} is neither "raise" nor "nan"')
        if steps is not None and not isinstance(steps, Iterable):
            raise BadArgument(
                f"steps = {steps!r} names no steps; give their numbers, such as range(0, 1000, 10)"
            )
        numbers = None if steps is None else [step_number(step) for step in steps]
        if numbers == []:
            raise BadArgument("steps names no step; leave it out for all complete snapshots")
        if ragged:
            if missing != "raise":
                raise BadArgument(
                    "an array that is missing has no shape that NaN could fill; with ragged=True name steps that have it"
                )
            kept = self.snapshots
            return [kept.at(step).get(name, sel) for step in (kept.numbers if numbers is None else numbers)]
        fill = missing == "nan"
        axes, after = None, None
        if sel is not None:
            axes, after = plan(sel, tuple(self._native.series_shape(name, numbers, fill)))
        found, steps_first = self._native.series(name, axes, numbers, fill)
        if not steps_first:
            found = np.moveaxis(found, -1, 0)
        if after is None:
            return found
        behind_steps = (slice(None), *after)
        return found[behind_steps]

    def to_xarray(self, name: str | Iterable[str] | None = None) -> xarray.Dataset:
        """The arrays of the snapshots as a data set of xarray, lazily over steps: what is selected is read when it is
        touched, ``run.to_xarray("T").sel(time=0.3, method="nearest")``. Needs xarray.

        All arrays, or those named. The first dimension is ``time`` where every snapshot has one and they rise, else
        ``step``; both are coordinates. Points of meshes are, too, and staggered ones lie along ``x_0.5``. The steps are those of now. NaN stands where a step has no such array; what cannot
        be one array over steps is left out, and named with the reason in ``ds.attrs["left_out"]``; ``Conflict`` is raised
        when it was named.
        """
        from ._xarray import of_run

        return of_run(self, name)

    def restart(self, tag: str | None = None, strict: bool = False) -> RestartSnapshot | None:
        """Goes back to the last complete step and returns it; ``None`` when there is none. With ``tag`` it goes back
        to the step of that checkpoint, and later snapshots are listed no more.

        Parameters declared from now on have their values of that step, and rows of later steps are
        removed from tables that are histories. Call it in every rank: all get the same step. Go on with
        ``run.steps(n, start=snap)``. Raises ``NotFound`` (no such checkpoint), ``Conflict`` (ranks
        ask for different ones).

        Snapshots that ``forebay repair`` marked as damaged are passed over: ``snap.passed`` has their numbers, which are
        free again. With ``strict`` that raises ``Corrupt``, and arrays that were kept with less
        precision (``as_dtype``) raise ``Conflict``.
        """
        _is_tag(tag)
        found = self._native.restart(tag, strict)
        if found is None:
            return None
        kept, parameters, finished, passed = found
        return RestartSnapshot(kept, json.loads(parameters), finished, passed)

    def drop(self, step: int) -> bool:
        """Gives a complete snapshot up: it is listed no more, its file goes, and its number is free. Returns whether
        there was one. A rank that is to write the number again calls it, too.
        """
        return self._native.drop(step_number(step))

    def pack(self, steps: tuple[int, int] | None = None) -> Packed:
        """Puts small complete snapshots together: those of one layout that follow each other become one file of stacked
        arrays in ``packs/``, and lose their own files. They are listed, read and restarted from as before. Returns what
        was packed, and which snapshots stay in files of their own, with the reason.

        ``steps``: the first and the last number, both among them; all if not given. Arrays of one layout have the same
        names, dtypes, shapes, orders, units, names of axes, attributes and coordinates. Compressed arrays, constants
        that lie in a file of their own, and snapshots of more than 64 MiB are not packed. Programs that read openPMD do not
        read packs. Raises ``BadArgument``, and
        ``Full`` when the disk has no room for both, with nothing lost.
        """
        first, last = first_and_last(steps)
        packs, packed, nbytes, single = self._native.pack(first, last)
        return Packed(packs, packed, nbytes, [Unpacked(*one) for one in single])

    def checkpoint(self, tag: str | None = None) -> int:
        """Marks the last complete snapshot as a restart point, under a name for people; returns its step. When
        several ranks say the same it is marked once. Raises ``NotFound`` when no snapshot is complete.
        """
        _is_tag(tag)
        return self._native.checkpoint(tag)

    @property
    def checkpoints(self) -> Sequence[Checkpoint]:
        """The restart points, in the order they were made."""
        return [
            Checkpoint(number, step, name, parent, time, json.loads(parameters), made, kept)
            for number, step, name, parent, time, parameters, made, kept in self._native.checkpoints()
        ]

    def flush(self) -> None:
        """Waits until everything put so far is durable; reports what could not be written."""
        self._native.flush()

    def stats(self) -> dict[str, Any]:
        """Figures: ``visible_s`` (time this process spent in output), ``hidden_s`` (spent behind its back),
        ``overlap``, ``overflow_bytes``, ``high_water_bytes``, ``lag_s``, ``durable_step``, ``written_bytes``,
        ``late_errors``, ...

        ``ideal_s`` is what copying everything that was put would have cost: its bytes, divided by
        ``copy_bytes_per_s``, the speed of the fastest copy of at least 1 MiB that this process has made into its
        buffer (both ``None`` before such a copy). ``owner`` says who writes: ``"embedded"``, threads of this
        process, or the ``"agent"``; ``buffer_in`` where the buffer lies: in shared ``"memory"``, or in a
        ``"file"`` where that had no room. ``waiting_for_disk`` is true while the disk is full.
        ``uncompressed_bytes`` were to be compressed and went out as they were, for the buffers were nearly full.
        """
        found: dict[str, Any] = json.loads(self._native.stats())
        return found

    # --- watch and steer ---------------------------------------------------------------------

    def steps(
        self,
        n: int | None = None,
        start: int | StoredSnapshot | None = None,
        stride: int = 1,
        *,
        time_limit: float | Literal["job"] | None = None,
        sigterm: bool = True,
    ) -> Iterator[int]:
        """The loop head: ``for step in run.steps(n)``. Yields the step about to be computed, from ``start`` (0) until ``n``
        is reached, in strides; ``n - start`` is a multiple of ``stride``. Without ``n`` it goes on until somebody ends it:
        :meth:`finish`, Quit, SIGTERM, the time limit.

        Here Run, Step, Stop, Save and Quit act and parameters change, at the same step in all ranks.
        Quit ends the loop early.

        ``start``: what :meth:`restart` returned; ``None`` is the first start, at 0. Raises ``Conflict`` when the run went
        back to a step and the loop begins at another one, or when it begins before :attr:`position`. Where the program
        counts its snapshots by itself, ``start`` is the number of the step that is to be computed next.

        ``time_limit``: seconds since this process began by which everything is to be on disk, or ``"job"`` for the end of
        the Slurm job; ``FOREBAY_TIME_LIMIT`` if not given. When it comes near, and with ``sigterm`` when SIGTERM comes
        and the program leaves it alone, all ranks save, mark a checkpoint and end the loop at the same step;
        :attr:`ended_by` says so, and :meth:`restart` goes on from there.
        """
        is_kept = isinstance(start, StoredSnapshot)
        first = start.step if isinstance(start, StoredSnapshot) else start
        limit = None if time_limit is None else str(time_limit)
        n, first = (None if i is None else step_number(i, "number of a step") for i in (n, first))
        stride = step_number(stride, "stride of a loop")
        return self._native.steps(n, None if first is None else (first, is_kept), stride, limit, sigterm)

    def reach(self, step: int) -> bool:
        """The head for programs that go through their steps by themselves and give a call-back: says, where the state of
        ``step`` is there, whether to go on.

        What :meth:`steps` does at a head is done here. Numbers grow; the same one again answers the same and does nothing.
        False, from then on, once somebody pressed Quit, the time was over, or :meth:`finish` was called: the program ends.
        :class:`Conflict` when numbers do not grow, or lie below the step that :meth:`restart` went back to.
        """
        return self._native.reach(step_number(step, "number of a step"))

    def finish(self) -> None:
        """The loop ends at its next head, as if that were its last one: for a loop without an end, or one that has
        converged. Call it in all ranks at the same step. :class:`Conflict` when no loop is under way.
        """
        self._native.finish()

    @property
    def position(self) -> int | None:
        """The number of the state that the program holds, which is how many steps are behind it: that of the head in the
        body of a loop, where the loop ended behind it (``n``, or less after Quit or SIGTERM), where :meth:`restart` went
        back to before it. ``None`` before anybody has said it, and behind a loop that was left in the body of a step, as
        by ``break``: only the program knows whether that step is computed. :meth:`finish` ends a loop at a head.
        """
        return self._native.position

    @property
    def ended_by(self) -> str | None:
        """Why the loop was ended before its last step: ``"quit"``, ``"SIGTERM"``, ``"time limit"``, or the reason that
        was given to ``forebay steer RUN end``; ``None`` when it was not.
        """
        return self._native.ended_by

    def diagram(
        self,
        title: str,
        kind: str = "curve",
        x: str = "x",
        y: str = "y",
        v: str | None = None,
        xscale: Literal["linear", "log"] = "linear",
        yscale: Literal["linear", "log"] = "linear",
        every: int = 1,
        reduce: Literal["sum", "min", "max", "mean"] | None = None,
    ) -> Diagram:
        """Declares a diagram of the page: ``kind`` is ``curve``, ``history`` or ``scatter``. Labels carry the
        unit in brackets: ``"x [m]"``.
        Points that several ranks append to a history at one step and ``t`` are one point: it has the value of the
        lowest rank, or the ``sum``, ``min``, ``max`` or ``mean`` of all with ``reduce``.
        """
        return Diagram(self._native.diagram(title, kind, x, y, v, xscale, yscale, every, reduce), title)

    def parameter(
        self,
        name: str,
        value: Any,
        *,
        min: float | None = None,
        max: float | None = None,
        units: str | None = None,
        help: str = "",
    ) -> Parameter:
        """Declares a parameter that may be changed while the run goes: a number, truth value or text.

        A number is refused outside ``min`` and ``max``. Its ``.value`` changes at step boundaries only.
        """
        return Parameter(self._native.parameter(name, plain(value), min, max, units or "", help))

    @overload
    def saves(self, fn: Callable[[int], T], *, every: int | None = None) -> Callable[[int], T]: ...
    @overload
    def saves(self, *, every: int | None = None) -> Callable[[Callable[[int], T]], Callable[[int], T]]: ...
    def saves(self, fn: Callable[[int], Any] | None = None, *, every: int | None = None) -> Any:
        """How the program keeps a state: ``fn(step)`` takes the snapshot of that number. Usable as a decorator,
        ``@run.saves`` or ``@run.saves(every=1000)``.

        The loop head calls it, before that step is computed: where somebody pressed Save, and where something ends
        the loop from outside. With ``every`` also at each head whose number ``every`` divides, and where the loop ends;
        so the body needs no snapshot. It is called once for each state, and with ``every`` again where the loop goes on
        behind :meth:`restart`: there the snapshot stands, and what else ``fn`` does, as to insert the row of a history, is
        done again.

        Its exception at a Save is shown to whoever pressed the button, and the run goes on; at the other heads it is
        that of the loop.
        """
        if every is not None:
            every = step_number(every, "number of steps between two states (every)")
        if fn is None:
            return functools.partial(self.saves, every=every)
        _takes_a_step(fn, "what Save does")
        self._native.saves(fn, every)
        return fn

    def command(self, name: str, fn: Callable[[int], object]) -> None:
        """A button of your own: ``fn(step)`` is called as with :meth:`saves`."""
        _takes_a_step(fn, "a button")
        self._native.command(name, fn)

    def message(self, text: str, level: Literal["debug", "info", "warning", "error"] = "info") -> None:
        """A message for people; it is kept and shown on the page."""
        self._native.message(text, level)

    def monitor(self) -> Page:
        """Starts the page if it is not there. ``print(run.monitor())`` prints a link: the operator's one on a terminal,
        otherwise that of viewers, who look and do not steer; both are there as ``.operator`` and ``.viewer``.
        """
        return Page(self._native.monitor)

    # --- life --------------------------------------------------------------------------------

    def close(self) -> None:
        """Drains everything to disk and closes; closing twice does nothing. The run is finished when its loop came to
        the end, or there was none.

        Snapshots that other ranks have not ended yet are waited for while these ranks live. Ctrl-C ends the wait; the
        run may then be closed again, or the program ends without waiting, and nothing that was put is lost.
        """
        self._close(None)

    def _close(self, finished: bool | None) -> None:
        try:
            self._native.close(finished)
        finally:
            if self._native.closed:
                _open_runs.discard(self)

    def _leave(self, error: BaseException | None) -> None:
        if error is None:
            self.close()
            return
        # Who has ended the wait of a close in the body does not want another one.
        if self._native.interrupted:
            return
        # What went wrong in the body is what the user must see; a late write error goes with it.
        try:
            self._close(False)
        except _forebay.Error as late:
            print(f"forebay: while closing {self.path}: {late}", file=sys.stderr)

    def __repr__(self) -> str:
        state = "closed" if self.closed else "read-only" if self.read_only else "open"
        return f"<forebay.Run {self.path!r}, {state}>"

    def _repr_html_(self) -> str:
        """For notebooks: its data sets as a tree, with their units."""
        if self.closed:
            return tree(repr(self), [])
        lines = [repr(self.snapshots)[1:-1]]
        if tables := self.tables:
            lines.append(f"tables: {', '.join(tables)}")
        return tree(repr(self)[1:-1], self.list(), lines)


def open(
    path_or_url: str | os.PathLike[str],
    mode: Literal["r", "r+", "a", "w", "x"] = "a",
    *,
    buffer: str | int | None = None,
    full: Literal["block", "drop_oldest", "drop_newest", "spill"] = "block",
    late: Literal["raise", "warn", "ignore"] = "raise",
    rank: int | None = None,
    size: int | None = None,
    scratch: bool = False,
    elsewhere: Literal["refuse", "abandon"] | None = None,
    keep: str | None = None,
    client: bool = False,
    pack: str | int = "auto",
    compress: Literal["gzip", "zstd", "none"] | None = None,
) -> Run:
    """Opens a run: ``"two_stream"`` means the directory ``two_stream.fb``, ``"fb://host:port/two_stream"`` a run
    that the agent on another host keeps (``forebay up --listen``).

    ``mode`` as in h5py: ``r`` reads only, ``r+`` must exist, ``a`` creates when absent, ``w`` begins anew, ``x``
    must not exist. ``buffer``: bytes of this process's buffer, as a number or like ``"64MiB"``; if not
    given ``FOREBAY_BUFFER``, else 256 MiB, less where many ranks share little memory. Its pages are taken when they are
    used.
    ``full``: what a snapshot does when no buffer has room. ``late``: what becomes of an error of something that
    was acknowledged earlier: the next call raises it (or ``flush``, or ``close``), or it is a ``RuntimeWarning``,
    or it is only counted and shown on the page; waiting for a snapshot raises its error always. ``rank``,
    ``size``: from the launcher's environment if not given. ``scratch``: the run is deleted when it is closed.
    ``elsewhere``: what becomes of data that a program which was killed left in memory elsewhere, that is on another
    host, in another ``/dev/shm`` or of another user: ``refuse`` raises ``Conflict`` and says where they lie,
    ``abandon`` gives them up and goes on from the last step on disk; if not given ``FOREBAY_ELSEWHERE``, else
    ``refuse``.
    ``keep``: which complete snapshots stay while the run is open, all if not given: ``"last 5"``, ``"every 10"`` (those
    whose number 10 divides), or both: ``"last 5, every 100"``. What may be gone on from stays, too: checkpoints, the
    snapshots on which the run began and to which it went back, the newest one; and one that is being read stays for a
    while. All ranks say the same.
    ``pack``: small snapshots, of less than 1 MiB, are put together as :meth:`Run.pack` does it, behind the program's back:
    each time when so many of one layout follow each other before the newest one. ``"auto"``: 1,000, and none with ``keep``;
    or another number; ``"no"``: none are. Those with meshes or particles stay as they are, for programs that read openPMD.
    ``client``: this program is none of the ranks. It puts data sets, changes attributes, inserts into tables and says
    messages beside them, while nothing in their run waits for it; with mode ``r+``, also from another host, with a
    buffer of 8 MiB if not given. Snapshots, restarts, loops, parameters, diagrams and rows of histories are the
    ranks' alone and raise ``BadArgument``. ``rank`` and ``size`` of such a run are 0.
    ``compress``: how arrays of snapshots are compressed that do not say it, where they can be, as in :meth:`Snapshot.put`.
    All ranks say the same.

    Raises ``NotFound`` (modes ``r``, ``r+``), ``Conflict`` (mode ``x``; another process writes the run, or data of it
    lie elsewhere: the text names process and host; another rank said another ``keep``), ``VersionMismatch`` (written by a newer Forebay), ``ReadOnly``, ``BadArgument``.
    """
    program = os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] not in ("", "-c") else "python"
    packs = None if pack == "auto" else str(pack)
    try:
        place, room = os.fspath(path_or_url), str(buffer or 0)
    except TypeError:
        raise BadArgument(
            f"{path_or_url!r} is no name of a run; give its directory, as text or a path, or its address fb://HOST:PORT/NAME"
        ) from None
    how = (full, late, rank, size, scratch, program, elsewhere, keep, client, packs, compress)
    return Run(_forebay.Run(place, mode, room, *how))


def _is_tag(tag: object) -> None:
    """Refuses what is no name of a checkpoint; the number of a snapshot, say."""
    if tag is not None and not isinstance(tag, str):
        raise BadArgument(
            f"tag = {tag!r} is not the name of a checkpoint; give a text. run.restart() goes back to the last complete "
            "snapshot, run.checkpoint(tag) gives that one a name, and run.drop(step) gives one up, so that the one before it is the last"
        )


def _takes_a_step(fn: Callable[[int], object], what: str) -> None:
    """Refuses a function that cannot be called with a step, before it is called in the midst of a run."""
    try:
        inspect.signature(fn).bind(0)
    except TypeError as e:
        named = getattr(fn, "__name__", repr(fn))
        raise BadArgument(
            f"{what} is called with the step, and {named} cannot be: {e}; give it one argument"
        ) from None
    except ValueError:
        pass  # one that does not say what it takes


def _key(key: str | tuple[str, int]) -> tuple[str, int]:
    """Name and number of the set that a key of a run means."""
    if isinstance(key, str):
        return key, 0
    if isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], str):
        return key[0], step_number(key[1], "number of a set")
    raise BadArgument(
        f"{key!r} is no key of a run; give a name, run['E'], or a name and the number of a set, run['E', 3]"
    )


@atexit.register
def _drain() -> None:
    """Whatever way the interpreter ends, what was put is written. Ctrl-C ends the wait: what is not on disk then stays
    in shared memory, for the owner or for the next who opens the run.
    """
    # Of an error that nobody has caught; what a prompt has shown is no end of a program.
    failed = hasattr(sys, "last_value") and not hasattr(sys, "ps1")
    for run in list(_open_runs):
        try:
            if not run._native.interrupted:
                run._close(False if failed and not run._native.looped else None)
        except _forebay.Error as error:
            with contextlib.suppress(OSError):
                print(f"forebay: while closing {run.path}: {error}", file=sys.stderr)
        except KeyboardInterrupt:
            pass
        if not run.closed:
            run._native.abandon()
            with contextlib.suppress(OSError):
                print(
                    f"forebay: {run.path} was not waited for; what was put is written by its owner or when it is opened again",
                    file=sys.stderr,
                )
