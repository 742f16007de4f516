"""Relational tables with typed columns and units."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from . import _forebay
from ._arrays import as_array, complete, plain
from ._attrs import Attributes
from ._dtypes import dtype_name, dtype_of_name, is_of_numpy

if TYPE_CHECKING:
    import pandas
    import pyarrow

_PYTHON = {float: "f64", int: "i64", bool: "bool", str: "str", bytes: "bytes"}


class Rows(Sequence[dict[str, Any]]):
    """Rows as they were read: a sequence of dictionaries; ``rows["mass"]`` is a column as an array.

    Whatever reads Arrow's streams takes them as they are: ``pyarrow.table(rows)``, ``polars.DataFrame(rows)``,
    ``pandas.DataFrame.from_arrow(rows)``.
    """

    def __init__(
        self,
        columns: Sequence[str],
        rows: Sequence[tuple[Any, ...]] | None = None,
        native: _forebay.Columns | None = None,
    ) -> None:
        self.columns = list(columns)
        """Names of the columns."""
        self._made = rows
        self._native = native

    @property
    def _rows(self) -> Sequence[tuple[Any, ...]]:
        if self._made is None:
            self._made = [] if self._native is None else self._native.rows()
        return self._made

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Rows: ...
    @overload
    def __getitem__(self, index: str) -> NDArray[Any]: ...
    def __getitem__(self, index: int | slice | str) -> dict[str, Any] | Rows | NDArray[Any]:
        if isinstance(index, str):
            if index not in self.columns:
                raise KeyError(f"{index!r} is not a column; there are {', '.join(self.columns)}")
            return self._array(self.columns.index(index))
        if isinstance(index, slice):
            if self._native is None:
                return Rows(self.columns, self._rows[index])
            return of_columns(self._native.pick(list(range(len(self))[index])))
        return dict(zip(self.columns, self._rows[index], strict=True))

    def _array(self, at: int) -> NDArray[Any]:
        if self._native is None:
            return _column([row[at] for row in self._rows], None)
        found = self._native.array(at)
        return _column(self._native.list(at), self._native.dtypes[at]) if found is None else found

    def __len__(self) -> int:
        return len(self._rows) if self._native is None else len(self._native)

    def tuples(self) -> list[tuple[Any, ...]]:
        """The rows as tuples, in the order of ``columns``."""
        return list(self._rows)

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a DataFrame, in which a column of arrays has an array in each row; needs pandas."""
        import pandas as pd

        # A column of a DataFrame has one axis: an array a row is an object.
        columns = {name: _objects(list(a)) if (a := self[name]).ndim > 1 else a for name in self.columns}
        return pd.DataFrame(columns, copy=False)

    def to_arrow(self) -> pyarrow.Table:
        """The rows as a table of pyarrow's; needs pyarrow."""
        import pyarrow as pa

        return pa.table(self)

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """The rows for whatever reads Arrow's streams. NaN stays NaN; what has no value in another column is null."""
        native = self._native
        if native is None:
            cells = [[row[at] for row in self._rows] for at in range(len(self.columns))]
            given: list[tuple[str, str, list[int], Any]] = []
            for name, of in zip(self.columns, cells, strict=True):
                given.append((name, _dtype_of_cells(of), [], of))
            native = _forebay.Columns.of(given)
        return native.__arrow_c_stream__()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rows):
            return NotImplemented
        if self.columns != other.columns or len(self) != len(other):
            return False
        cells = (
            (a, b)
            for mine, its in zip(self._rows, other._rows, strict=True)
            for a, b in zip(mine, its, strict=True)
        )
        return all(np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b for a, b in cells)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<forebay.Rows: {len(self)} of {', '.join(self.columns)}>"


def _dtype_of_cells(cells: Sequence[Any]) -> str:
    """The dtype that holds what a question in SQL gave."""
    kinds = {type(cell) for cell in cells} - {type(None)}
    if kinds == {str} or kinds == {bytes}:
        return _PYTHON[kinds.pop()]
    if float in kinds:
        return "f64"
    return "u64" if any(cell is not None and cell > 2**63 - 1 for cell in cells if kinds <= {int}) else "i64"


def of_columns(native: _forebay.Columns) -> Rows:
    """Rows that are kept by columns."""
    return Rows(native.names, native=native)


def _column(values: list[Any], dtype: str | None) -> NDArray[Any]:
    """Cells as an array of the dtype that their column was declared with, or, of a question in SQL, the one they
    have themselves. Where a cell without a value has no place in that dtype, the elements are objects.
    """
    missing = any(value is None for value in values)
    if dtype is None and {type(value) for value in values} == {float, type(None)}:
        return np.array(values, "f8")  # None becomes NaN
    if (
        missing
        or dtype == "bytes"
        or any(isinstance(v, (str, bytes)) and v[-1:] in ("\0", b"\0") for v in values)
    ):
        # NumPy's own texts and bytes lose zeros at their end.
        return _objects(values)
    return np.array(values, dtype_of_name(dtype) if dtype and is_of_numpy(dtype) else None)


def _objects(values: Sequence[Any]) -> NDArray[Any]:
    """Values as an array of objects, arrays among them too."""
    made = np.empty(len(values), object)
    for at, value in enumerate(values):
        made[at] = value
    return made


class Table:
    """A table of a run. Made by :meth:`Run.table`."""

    def __init__(self, run: _forebay.Run, native: _forebay.Table) -> None:
        self._run = run
        self._native = native
        self._names = [name for name, *_ in native.columns]
        self._shapes = {name: shape for name, _, _, shape in native.columns if shape}

    @property
    def name(self) -> str:
        """Its name."""
        return self._native.name

    @property
    def columns(self) -> dict[str, str | tuple[str, tuple[int, ...]]]:
        """Name and dtype (``"f64"``, ``"i64"``, ``"str"``, ...) of each column; of arrays dtype and shape,
        ``("f64", (3,))``.
        """
        return {
            name: (dtype, tuple(shape)) if shape else dtype for name, dtype, _, shape in self._native.columns
        }

    @property
    def units(self) -> dict[str, str]:
        """Unit of each column that has one."""
        return {name: unit for name, _, unit, _ in self._native.columns if unit}

    @property
    def attrs(self) -> Attributes:
        """Its attributes."""
        return Attributes(self._run, "table", self.name)

    @property
    def history(self) -> bool:
        """Whether its rows belong to the step they were made in and go when a restart goes back."""
        return self._native.history

    @history.setter
    def history(self, value: bool) -> None:
        self._native = self._run.table(self.name, self._native.columns, bool(value))

    def insert(self, rows: Any = None, *, columns: Any = None) -> None:
        """Adds rows: one dictionary or tuple, a sequence of them, a DataFrame or an Arrow table; or, with ``columns``, as
        many as the arrays in a mapping have elements, ``t.insert(columns={"t": t, "energy": e})``, without an object for
        each. ``columns`` may also be whatever gives an Arrow stream. A column of arrays of shape ``(3,)`` takes such an
        array in a row, and one of shape ``(rows, 3)`` in ``columns``.

        Missing keys become null. Pipelined; durable at :meth:`Run.flush`. Raises ``BadArgument`` for
        unknown columns, wrong numbers of values and values that do not fit the column.
        """
        if columns is None:
            columns = _columns_within(rows)
        elif rows is not None:
            raise _forebay.BadArgument("rows and columns= are both given; insert one and then the other")
        if columns is None:
            self._native.insert([self._row(row) for row in _rows_of(rows)])
        elif hasattr(columns, "__arrow_c_stream__") and not hasattr(columns, "to_dict"):
            self._native.insert_columns(_forebay.Columns.from_arrow(columns))
        else:
            self._native.insert_columns(_forebay.Columns.of(self._given(columns)))

    def _given(self, columns: Any) -> list[tuple[str, str, list[int], Any]]:
        """Name, dtype, extents and values of each column: an array of numbers, or a list."""
        if not hasattr(columns, "items"):
            raise _forebay.BadArgument(
                f"columns = {columns!r} are no columns; give a mapping of names to arrays, "
                f"such as {{{self._names[0]!r}: values}}, or what has __arrow_c_stream__"
            )
        dtypes = {name: dtype for name, dtype, _, _ in self._native.columns}
        given: list[tuple[str, str, list[int], Any]] = []
        for column, values in columns.items():
            name = str(column)
            if name in self._shapes:
                given.append((name, dtypes[name], self._shapes[name], _arrays(values)))
                continue
            array = values if isinstance(values, np.ndarray) else np.asarray(values)
            if array.dtype.kind in "OUSM" or array.dtype.kind == "m":
                listed = [plain(value) for value in (values if isinstance(values, list) else array.tolist())]
                given.append((name, dtypes.get(name, "str"), [], [_value(value) for value in listed]))
            else:
                given.append((name, "", [], array if array.ndim == 1 else np.asarray(array, order="C")))
        return given

    def _row(self, row: Any) -> list[Any]:
        if isinstance(row, Mapping):
            unknown = [key for key in row if key not in self._names]
            if unknown:
                raise _forebay.BadArgument(
                    f"the table {self.name!r} has no column {unknown[0]!r}; it has {', '.join(self._names)}"
                )
            return [self._cell(name, row.get(name)) for name in self._names]
        if isinstance(row, str | bytes) or not isinstance(row, Iterable):
            raise _forebay.BadArgument(
                f"{row!r} is no row for the table {self.name!r}; give a tuple of its columns, {', '.join(self._names)}, "
                "a dictionary, or a sequence of those"
            )
        values = list(row)
        if len(values) != len(self._names):
            raise _forebay.BadArgument(
                f"a row of {len(values)} values for the table {self.name!r} with {len(self._names)} columns: "
                f"{', '.join(self._names)}"
            )
        return [self._cell(name, value) for name, value in zip(self._names, values, strict=True)]

    def _cell(self, name: str, value: Any) -> Any:
        return _array(value) if name in self._shapes else plain(value)

    def select(
        self,
        where: str = "",
        args: Sequence[Any] = (),
        columns: Sequence[str] = (),
        *,
        order: str | Sequence[str] = (),
        limit: int | None = None,
    ) -> Rows:
        """Reads rows: those where an SQL condition holds (``"mass > ?"``, with a value for each ``?`` in ``args``), all
        columns or those named; at most ``limit`` of them, in the order they came or by columns:
        ``order="mass"``, ``order=["kind", "mass desc"]``. What has no value, NaN too, comes before all numbers.

        ``rows["mass"]`` has the dtype of its column. What has no value in a column of floats is NaN; in
        others it is ``None``, and the column then is an array of objects. A column of arrays of shape ``(3,)`` is an
        array of shape ``(rows, 3)``; neither conditions nor ``order`` name it.
        """
        return of_columns(self._select(where, args, columns, order, limit, None)[0])

    def _select(
        self,
        where: str,
        args: Sequence[Any],
        columns: Sequence[str],
        order: str | Sequence[str],
        limit: int | None,
        after: int | None,
    ) -> tuple[_forebay.Columns, int | None]:
        if isinstance(columns, str):
            raise _forebay.BadArgument(
                f"columns = {columns!r} is one text; give a list of names, [{columns!r}]"
            )
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
            raise _forebay.BadArgument(
                f"limit = {limit!r} is no number of rows; give 0 or more, or None for all"
            )
        values = [plain(value) for value in args]
        return self._native.select(list(columns), where, values, self._order(order), limit, after)

    def _order(self, order: str | Sequence[str]) -> list[tuple[str, bool]]:
        """Each column, and whether downwards."""
        found = []
        for part in [order] if isinstance(order, str) else order:
            name, _, way = part.rpartition(" ")
            if part not in self._names and way.lower() in ("asc", "desc"):
                found.append((name.strip(), way.lower() == "desc"))
            else:
                found.append((part, False))
        return found

    def rows(
        self, batch: int = 10_000, where: str = "", args: Sequence[Any] = (), columns: Sequence[str] = ()
    ) -> Iterator[Rows]:
        """Reads rows in the order they came, at most ``batch`` at a time: for tables larger than memory. Rows that are added
        while it goes on are read too.
        """
        if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
            raise _forebay.BadArgument(f"batch = {batch!r} is no number of rows; give 1 or more")
        after: int | None = -(2**63)
        while after is not None:
            found, after = self._select(where, args, columns, (), batch, after)
            if after is not None:
                yield of_columns(found)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """A column as an array: ``t["mass"]``."""
        if name not in self._names:
            raise KeyError(f"{name!r} is not a column; there are {', '.join(self._names)}")
        return self.select(columns=[name])[name]

    def update(self, values: Mapping[str, Any], where: str = "", args: Sequence[Any] = ()) -> int:
        """Gives columns new values in the rows where the condition holds; returns how many."""
        new = [self._cell(name, value) for name, value in values.items()]
        return self._native.update(list(values), new, where, [plain(value) for value in args])

    def index(self, *columns: str) -> None:
        """Makes an index of columns, unless there is one: ``t.index("step", "id")``.

        Conditions and orders that ask for the first of them, or for the first ones, find their rows without reading
        all. Each insert takes a little longer. The index is kept with the run, so a program says it where it makes
        the table.
        """
        self._native.index(list(columns))

    def delete(self, where: str = "", args: Sequence[Any] = ()) -> int:
        """Removes the rows where the condition holds (all by default); returns how many."""
        return self._native.delete(where, [plain(value) for value in args])

    def to_pandas(self) -> pandas.DataFrame:
        """All rows as a DataFrame; needs pandas."""
        return self.select().to_pandas()

    def to_arrow(self) -> pyarrow.Table:
        """All rows as an Arrow table; needs pyarrow."""
        return self.select().to_arrow()

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """All rows for whatever reads Arrow's streams."""
        return self.select().__arrow_c_stream__()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for rows in self.rows():
            yield from rows

    def __len__(self) -> int:
        return len(self._native)

    def __repr__(self) -> str:
        return f"<forebay.Table {self.name!r}: {', '.join(self._names)}>"


def columns_of(
    columns: Mapping[str, Any] | None, units: Mapping[str, str] | None
) -> list[tuple[str, str, str, list[int]]]:
    """Name, dtype, unit and extents of each column, from what the user gave."""
    for what, given in (("columns", columns), ("units", units)):
        if given is not None and not isinstance(given, Mapping):
            example = '{"mass": "f64"}' if what == "columns" else '{"mass": "kg"}'
            said = "dtypes" if what == "columns" else "units"
            raise _forebay.BadArgument(
                f"{what} = {given!r} does not say the {said}; give a mapping of names to {said}, such as {example}"
            )
    columns, units = columns or {}, units or {}
    for name in units:
        if columns and name not in columns:
            raise _forebay.BadArgument(f"a unit is given for {name!r}, which is not a column")
    parts = {name: _parts(name, kind) for name, kind in columns.items()}
    return [(name, _column_dtype(kind), units.get(name, ""), shape) for name, (kind, shape) in parts.items()]


def _parts(name: str, kind: Any) -> tuple[Any, list[int]]:
    """The dtype of a column, and the extents of the array that each value is, as NumPy says them: ``("f8", 3)``."""
    if isinstance(kind, np.dtype) and kind.subdtype is not None:
        kind = kind.subdtype
    if not isinstance(kind, tuple):
        return kind, []
    extents = kind[1] if len(kind) == 2 else None
    shape = [extents] if isinstance(extents, (int, np.integer)) else extents
    if not isinstance(shape, (list, tuple)) or any(
        isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1 for n in shape
    ):
        raise _forebay.BadArgument(
            f"the column {name!r} is to be {kind!r}; give a dtype, or of arrays a dtype and a shape, such as ('f8', 3) "
            "or ('f8', (2, 3))"
        )
    return kind[0], [int(n) for n in shape]


def _column_dtype(kind: Any) -> str:
    if isinstance(kind, type) and kind in _PYTHON:
        return _PYTHON[kind]
    return dtype_name(kind)


def _array(value: Any) -> Any:
    """The value of a row in a column of arrays, whose elements lie row-major; None is none."""
    if value is None or (isinstance(value, float) and value != value):
        return None
    complete(value)
    return np.asarray(as_array(value), order="C")


def _arrays(values: Any) -> Any:
    """Values of a column of arrays: one array of all, or a list where some rows have none."""
    if isinstance(values, np.ndarray) and values.dtype.kind != "O":
        complete(values)
        return np.asarray(values, order="C")
    listed = [_array(value) for value in values]
    if any(value is None for value in listed) or not listed:
        return listed
    return np.asarray(as_array(listed), order="C")


def _value(value: Any) -> Any:
    """What has no value in a list of texts is None; pandas says NaN, or NA."""
    missing = value is not None and not isinstance(value, str | bytes) and value != value
    return None if missing is not False else value


def _columns_within(rows: Any) -> Any:
    """The columns of what keeps rows by columns, if it does: pandas and pyarrow are recognised, never imported."""
    if isinstance(rows, np.ndarray):
        return {name: rows[name] for name in rows.dtype.names} if rows.dtype.names else None
    if hasattr(rows, "to_dict") and hasattr(rows, "columns"):
        return {name: rows[name].to_numpy() for name in rows.columns}
    return rows if hasattr(rows, "__arrow_c_stream__") else None


def _rows_of(rows: Any) -> Iterable[Any]:
    """The rows of whatever holds rows."""
    if isinstance(rows, Mapping):
        return [rows]
    if isinstance(rows, tuple) and not (rows and isinstance(rows[0], (tuple, list, Mapping))):
        return [rows]
    if isinstance(rows, Iterable) and not isinstance(rows, str | bytes):
        return list(rows)
    return [rows]
