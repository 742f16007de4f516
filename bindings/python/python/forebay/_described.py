"""What an array says of itself: names of its axes, coordinates and attributes, on their way in and out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _forebay
from ._arrays import measured
from ._attrs import one_to_json, to_json
from ._dtypes import dtype_of_name

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ._snapshots import StoredSnapshot

# Readers compare these with the elements, and refuse them in another type.
_ELEMENTS = ("_FillValue", "missing_value", "valid_min", "valid_max", "valid_range")


def said(
    array: Any,
    dims: str | Sequence[str] | None,
    coords: Mapping[str, ArrayLike] | None,
    attrs: Mapping[str, Any] | None,
    fill: Any = None,
    kept: str | None = None,
) -> tuple[str, list[tuple[str, Any, str]], str | None]:
    """Names of axes and attributes as JSON, coordinates with their units, and the value of elements that nobody puts, as
    the native half takes them. ``kept``: the dtype that the array is kept as, if it is another one.
    """
    axes = [] if dims is None else [dims] if isinstance(dims, str) else list(dims)
    wrong = [dim for dim in axes if not isinstance(dim, str)]
    if wrong:
        raise _forebay.BadArgument(
            f"{wrong[0]!r} in dims is a {type(wrong[0]).__name__}; name each axis by a text"
        )
    values = []
    for dim, value in (coords or {}).items():
        numbers, units = measured(value, None)
        numbers, units = measured(_plain(numbers), units)
        values.append((dim, numbers, units or ""))
    dtype = getattr(array, "dtype", None) if kept is None else dtype_of_name(kept)
    named = {key: _element(key, value, dtype) for key, value in (attrs or {}).items()}
    inside = to_json(named)
    holes = None if fill is None else one_to_json(fill)
    return f'{{"dims": {json.dumps(axes)}, "attrs": {inside}}}', values, holes


def _plain(value: Any) -> Any:
    """An array of NumPy's of what is given: one of xarray's is not seen as numbers by itself."""
    return value if isinstance(value, np.ndarray) else np.asarray(value)


def _element(key: str, value: Any, dtype: Any) -> Any:
    """A value that stands for elements, in their type."""
    is_number = isinstance(dtype, np.dtype) and dtype.kind in "iufc"
    if key not in _ELEMENTS or not is_number or not np.isscalar(value) or isinstance(value, (str, bytes)):
        return value
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.asarray(value).astype(dtype)
        kept = bool(np.isnan(value) and np.isnan(found)) or bool(
            found == value and np.isfinite(found) == np.isfinite(value)
        )
    if not kept:
        raise _forebay.BadArgument(
            f"attrs[{key!r}] = {value!r} is no value of the dtype {dtype}; give one that is"
        )
    return found[()]


def unit_in(
    attrs: Mapping[str, Any] | None, units: str | None
) -> tuple[Mapping[str, Any] | None, str | None]:
    """Attributes without the unit among them, and the unit: xarray has it there."""
    if attrs is None or "units" not in attrs:
        return attrs, units
    found = attrs["units"]
    if not isinstance(found, str) or units not in (None, found):
        raise _forebay.BadArgument(
            f"units = {units!r}, and attrs have the unit {found!r}; say it once, as a text"
        )
    return {key: value for key, value in attrs.items() if key != "units"}, found


def coordinates(snapshot: StoredSnapshot, name: str) -> dict[str, Any]:
    """The coordinates of an array, by the names of its axes."""
    dims = snapshot.dims(name)
    return {dims[axis]: snapshot.get(path) for axis, path in snapshot._native.coordinates(name)}


def axis_path(name: str, dim: str) -> str:
    """The coordinate of an axis of an array: beside the array, or where the name of the axis says."""
    return dim if "/" in dim else name[: name.rfind("/") + 1] + dim
