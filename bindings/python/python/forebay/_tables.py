"""Relational tables with typed columns and units."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from . import _forebay
from ._arrays import plain
from ._attrs import Attributes
from ._dtypes import dtype_name, dtype_of_name, is_of_numpy

if TYPE_CHECKING:
    import pandas
    import pyarrow

_PYTHON = {float: "f64", int: "i64", bool: "bool", str: "str", bytes: "bytes"}


class Rows(Sequence[dict[str, Any]]):
    """Rows as they were read: a sequence of dictionaries; ``rows["mass"]`` is a column as an array."""

    def __init__(
        self, columns: Sequence[str], rows: Sequence[tuple[Any, ...]], dtypes: Mapping[str, str] | None = None
    ) -> None:
        self.columns = list(columns)
        """Names of the columns."""
        self._rows = rows
        self._dtypes = dtypes or {}

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
            at = self.columns.index(index)
            return _column([row[at] for row in self._rows], self._dtypes.get(index))
        if isinstance(index, slice):
            return Rows(self.columns, self._rows[index], self._dtypes)
        return dict(zip(self.columns, self._rows[index], strict=True))

    def __len__(self) -> int:
        return len(self._rows)

    def tuples(self) -> list[tuple[Any, ...]]:
        """The rows as tuples, in the order of ``columns``."""
        return list(self._rows)

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a DataFrame; needs pandas."""
        import pandas as pd

        return pd.DataFrame({name: self[name] for name in self.columns})

    def to_arrow(self) -> pyarrow.Table:
        """The rows as an Arrow table; needs pyarrow."""
        import pyarrow as pa

        texts = {"str": pa.string(), "bytes": pa.binary()}
        columns = {}
        for at, name in enumerate(self.columns):
            dtype = self._dtypes.get(name, "")
            known = dtype and is_of_numpy(dtype)
            kind = pa.from_numpy_dtype(dtype_of_name(dtype)) if known else texts.get(dtype)
            columns[name] = pa.array([row[at] for row in self._rows], kind)
        return pa.table(columns)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rows):
            return NotImplemented
        return self.columns == other.columns and self.tuples() == other.tuples()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<forebay.Rows: {len(self)} of {', '.join(self.columns)}>"


def _column(values: list[Any], dtype: str | None) -> NDArray[Any]:
    """Cells as an array of the dtype that their column was declared with, or, of a question in SQL, the one they
    have themselves. Where a cell without a value has no place in that dtype, the elements are objects.
    """
    missing = None in values
    if dtype is None and {type(value) for value in values} == {float, type(None)}:
        return np.array(values, "f8")  # None becomes NaN
    if (
        missing
        or dtype == "bytes"
        or any(isinstance(v, (str, bytes)) and v[-1:] in ("\0", b"\0") for v in values)
    ):
        # NumPy's own texts and bytes lose zeros at their end.
        made = np.empty(len(values), object)
        made[:] = values
        return made
    return np.array(values, dtype_of_name(dtype) if dtype and is_of_numpy(dtype) else None)


class Table:
    """A table of a run. Made by :meth:`Run.table`."""

    def __init__(self, run: _forebay.Run, native: _forebay.Table) -> None:
        self._run = run
        self._native = native
        self._names = [name for name, _, _ in native.columns]

    @property
    def name(self) -> str:
        """Its name."""
        return self._native.name

    @property
    def columns(self) -> dict[str, str]:
        """Name and dtype (``f64``, ``i64``, ``str``, ...) of each column."""
        return {name: dtype for name, dtype, _ in self._native.columns}

    @property
    def units(self) -> dict[str, str]:
        """Unit of each column that has one."""
        return {name: unit for name, _, unit in self._native.columns if unit}

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

    def insert(self, rows: Any) -> None:
        """Adds rows: one dictionary or tuple, a sequence of them, a DataFrame or an Arrow table.

        Missing keys become null. Pipelined; durable at :meth:`Run.flush`. Raises ``BadArgument`` for
        unknown columns, wrong numbers of values and values that do not fit the column.
        """
        self._native.insert([self._row(row) for row in _rows_of(rows)])

    def _row(self, row: Any) -> list[Any]:
        if isinstance(row, Mapping):
            unknown = [key for key in row if key not in self._names]
            if unknown:
                raise _forebay.BadArgument(
                    f"the table {self.name!r} has no column {unknown[0]!r}; it has {', '.join(self._names)}"
                )
            return [plain(row.get(name)) for name in self._names]
        if isinstance(row, str | bytes) or not isinstance(row, Iterable):
            raise _forebay.BadArgument(
                f"{row!r} is no row for the table {self.name!r}; give a tuple of its columns, {', '.join(self._names)}, "
                "a dictionary, or a sequence of those"
            )
        values = [plain(value) for value in row]
        if len(values) != len(self._names):
            raise _forebay.BadArgument(
                f"a row of {len(values)} values for the table {self.name!r} with {len(self._names)} columns: "
                f"{', '.join(self._names)}"
            )
        return values

    def select(self, where: str = "", args: Sequence[Any] = (), columns: Sequence[str] = ()) -> Rows:
        """Reads rows in the order they came: those where an SQL condition holds (``"mass > ?"``, with a
        value for each ``?`` in ``args``), all columns or those named.

        ``rows["mass"]`` has the dtype of its column. What has no value in a column of ``f32`` or ``f64`` is NaN; in
        others it is ``None``, and the column then is an array of objects.
        """
        found = self._native.select(list(columns), where, [plain(value) for value in args])
        return Rows(*found, self.columns)

    def update(self, values: Mapping[str, Any], where: str = "", args: Sequence[Any] = ()) -> int:
        """Gives columns new values in the rows where the condition holds; returns how many."""
        new = [plain(value) for value in values.values()]
        return self._native.update(list(values), new, where, [plain(value) for value in args])

    def delete(self, where: str = "", args: Sequence[Any] = ()) -> int:
        """Removes the rows where the condition holds (all by default); returns how many."""
        return self._native.delete(where, [plain(value) for value in args])

    def to_pandas(self) -> pandas.DataFrame:
        """All rows as a DataFrame; needs pandas."""
        return self.select().to_pandas()

    def to_arrow(self) -> pyarrow.Table:
        """All rows as an Arrow table; needs pyarrow."""
        return self.select().to_arrow()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.select())

    def __len__(self) -> int:
        return len(self._native)

    def __repr__(self) -> str:
        return f"<forebay.Table {self.name!r}: {', '.join(self._names)}>"


def columns_of(
    columns: Mapping[str, Any] | None, units: Mapping[str, str] | None
) -> list[tuple[str, str, str]]:
    """Name, dtype and unit of each column, from what the user gave."""
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
    return [(name, _column_dtype(kind), units.get(name, "")) for name, kind in columns.items()]


def _column_dtype(kind: Any) -> str:
    if isinstance(kind, type) and kind in _PYTHON:
        return _PYTHON[kind]
    return dtype_name(kind)


def _rows_of(rows: Any) -> Iterable[Any]:
    """The rows of whatever holds rows; pandas and pyarrow are recognised, never imported."""
    if isinstance(rows, Mapping):
        return [rows]
    if isinstance(rows, tuple) and not (rows and isinstance(rows[0], (tuple, list, Mapping))):
        return [rows]
    if hasattr(rows, "to_pylist"):
        listed: list[Any] = rows.to_pylist()
        return listed
    if hasattr(rows, "to_dict") and hasattr(rows, "columns"):
        records: list[Any] = rows.to_dict("records")
        return records
    if isinstance(rows, np.ndarray) and rows.dtype.names:
        return [dict(zip(rows.dtype.names, row.tolist(), strict=True)) for row in rows]
    if isinstance(rows, Iterable) and not isinstance(rows, str | bytes):
        return list(rows)
    return [rows]
