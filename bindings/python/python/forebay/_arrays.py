"""The less common kinds of arrays, on their way to and from the native half.

Dense arrays of numbers never come here; what comes is copied once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ._dtypes import is_kept, listed
from ._forebay import BadArgument


def dense(value: Any) -> tuple[Any, str | None]:
    """Something array-like as a dense array of a dtype that is kept.

    Returns the array and, for text and bytes, the name of the dtype its ``uint8`` elements stand for.
    """
    if isinstance(value, (bytearray, memoryview)) and _flat_bytes(value):
        return bytes(value), None
    complete(value)
    array = as_array(value)
    kind = array.dtype.kind
    if is_kept(array.dtype):
        native = array.dtype.newbyteorder("=")
        return np.array(array, dtype=native, order=_order(array), copy=True), None
    if kind == "U":
        try:
            return _bytes_of(np.char.encode(array, "utf-8")), "str"
        except UnicodeEncodeError as error:
            raise BadArgument(
                f"a text of the array is not kept, for UTF-8 cannot write it ({error}); "
                "np.char.encode(a, 'utf-8', 'replace') puts ? there"
            ) from None
    if kind == "S":
        return _bytes_of(array), "bytes"
    raise BadArgument(_refusal(value, array))


def _order(array: NDArray[Any]) -> Literal["C", "F"]:
    """In which order the elements lie: a copy keeps it."""
    steps = [abs(step) for n, step in zip(array.shape, array.strides, strict=True) if n > 1]
    return "F" if len(steps) > 1 and steps[0] > 0 and steps == sorted(set(steps)) else "C"


def as_array(value: Any) -> NDArray[Any]:
    """As NumPy sees it."""
    try:
        return np.asarray(value)
    except ValueError:
        shown = repr(value)
        shown = shown if len(shown) <= 60 else f"{shown[:60]}..."
        raise BadArgument(
            f"{shown} is no array, for its rows differ in length; "
            "give rows of one length, or put each under a name of its own"
        ) from None


def whole(array: NDArray[Any]) -> None:
    """Refuses an array of a kind of its own that is more than its elements: what they mean would be lost."""
    masked = int(np.ma.getmaskarray(array).sum()) if isinstance(array, np.ma.MaskedArray) else 0
    if masked:
        raise BadArgument(
            f"{masked} of {array.size} elements are masked, and masks are not kept; give what is to stand there with "
            "a.filled(value) and say so with attrs={'_FillValue': value}, and the mask, if it matters, as an array of its "
            "own: numpy.ma.getmaskarray(a)"
        )
    with_unit(array)


def complete(value: Any) -> None:
    """Refuses what NumPy takes without its mask or its unit."""
    if isinstance(value, np.ndarray):
        if type(value) is not np.ndarray:
            whole(value)
        return
    if isinstance(value, (list, tuple)) and any(one is np.ma.masked for one in value):
        raise BadArgument(f"a masked value stands in the {type(value).__name__}; give what is to stand there")
    with_unit(value)


def with_unit(value: Any) -> None:
    """Refuses a quantity where no unit is kept."""
    found = _quantity(value)
    if found is not None and found[1]:
        raise BadArgument(f"a {type(value).__name__} in {found[1]!r} would lose its unit; pass its numbers")


def fill(array: NDArray[Any], value: Any, name: str) -> None:
    """Copies what a service returned into the array it is for."""
    if value is array or value is None:  # filled in place
        return
    complete(value)
    found = as_array(value)
    if found.shape != array.shape:
        raise BadArgument(
            f"{name} has the shape {array.shape} in this call, the function returned {found.shape}"
        )
    if not np.can_cast(found.dtype, array.dtype, "same_kind"):
        raise BadArgument(f"{name} is {array.dtype}, the function returned {found.dtype}; convert it")
    np.copyto(array, found, casting="same_kind")


def measured(value: Any, units: str | None) -> tuple[Any, str | None]:
    """The numbers of what is to be put, and their unit: a quantity brings it along."""
    kind = type(value)
    if kind is np.ndarray and value.dtype.kind in "mM":
        return _in_units(value, units)
    if kind is np.ndarray or issubclass(kind, (int, float, complex, str, bytes)):
        return value, units
    if issubclass(kind, (list, tuple)) and value and _quantity(value[0]) is not None:
        raise BadArgument(
            f"a {kind.__name__} of {type(value[0]).__name__}s; make one quantity of it, or pass numbers"
        )
    found = _quantity(value) or _described(value)
    if found is None:
        return value, units
    numbers, *names = found
    if getattr(numbers, "dtype", None) is not None and numbers.dtype.kind in "mM":
        return _in_units(np.asarray(numbers), units)
    if units and units not in names:
        raise BadArgument(
            f"it is in {names[0]!r}, and units = {units!r} was given; convert it, or leave units out"
        )
    return numbers, units or names[0]


_PERIODS = {"D": "days", "h": "hours", "m": "minutes", "s": "seconds"} | {
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
}


def _in_units(array: NDArray[Any], units: str | None) -> tuple[NDArray[np.int64], str]:
    """Points in time and periods as integers, with the units that CF has for them."""
    if array.dtype.name.startswith(("datetime64[Y", "datetime64[M", "datetime64[W")):
        array = array.astype("datetime64[D]")
    unit, count = np.datetime_data(array.dtype)
    if unit not in _PERIODS:
        raise BadArgument(
            f"the dtype {array.dtype} is not kept; convert it with a.astype('{array.dtype.kind}8[ns]')"
        )
    if count != 1:
        array = array.astype(f"{array.dtype.kind}8[{unit}]")
    kept = _PERIODS[unit] + (" since 1970-01-01" if array.dtype.kind == "M" else "")
    if units not in (None, kept):
        raise BadArgument(
            f"units = {units!r} was given for {array.dtype}, which is kept in {kept!r}; leave units out"
        )
    return array.astype(np.int64), kept


def _quantity(value: Any) -> tuple[Any, ...] | None:
    """Numbers and unit, under all its names, of a quantity of pint's, astropy's, unyt's or OpenMM's; these are known
    by what they can do, and need not be there.
    """
    if callable(getattr(value, "value_in_unit", None)) and hasattr(value, "unit"):
        symbol = getattr(value.unit, "get_symbol", None)
        names = (symbol() if callable(symbol) else str(value.unit), str(value.unit))
        return (value.value_in_unit(value.unit), *_without_dimension(names))
    for numbers, unit in (("magnitude", "units"), ("value", "units"), ("value", "unit")):
        found = getattr(value, unit, None)
        # A text that is called so says nothing of the numbers.
        if hasattr(value, numbers) and found is not None and not isinstance(found, str):
            return (getattr(value, numbers), *_without_dimension((_short(found), str(found))))
    return None


def _short(unit: Any) -> str:
    try:
        return format(unit, "~C")  # pint: V/m, not volt / meter
    except (TypeError, ValueError):
        return str(unit)


def _without_dimension(names: Sequence[str]) -> list[str]:
    return ["" if name in ("dimensionless", "/dimensionless") else name for name in names]


def _described(value: Any) -> tuple[Any, ...] | None:
    """Numbers and unit of an array that says it in an attribute, as those of xarray and h5py do."""
    inside = getattr(value, "data", None) if hasattr(value, "dims") else None
    if inside is not None and (found := _quantity(inside)) is not None:
        return found
    attrs = getattr(value, "attrs", None)
    if not isinstance(attrs, Mapping):
        return None
    unit = attrs.get("units", attrs.get("unit"))
    return (value, unit) if isinstance(unit, str) else None


def strings(array: NDArray[np.uint8], dtype: str) -> NDArray[Any]:
    """An array of texts or bytes from its ``uint8`` elements, the last axis being the letters."""
    width = array.shape[-1]
    if width == 0:
        empty: NDArray[Any] = np.zeros(array.shape[:-1], dtype="U1" if dtype == "str" else "S1")
        return empty
    packed: NDArray[Any] = np.ascontiguousarray(array).view(f"S{width}")[..., 0]
    return np.char.decode(packed, "utf-8") if dtype == "str" else packed


def plain(value: Any) -> Any:
    """NumPy's scalars and arrays as Python's own numbers and lists; anything else as it is."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        if type(value) is not np.ndarray and value is not np.ma.masked:
            whole(value)
        return value.tolist()
    return value


def _flat_bytes(value: bytearray | memoryview) -> bool:
    return isinstance(value, bytearray) or (value.ndim <= 1 and value.format in ("B", "b", "c"))


def _bytes_of(array: NDArray[Any]) -> NDArray[np.uint8]:
    dense_array = np.array(array, order="C", copy=True)
    width = max(dense_array.dtype.itemsize, 1)
    shape = (*dense_array.shape, width)
    return np.frombuffer(dense_array.tobytes(), dtype=np.uint8).reshape(shape)


def _refusal(value: Any, array: NDArray[Any]) -> str:
    known = f"{listed()}, str or bytes"
    if array.dtype.kind == "O":
        what = f"a value of type {type(value).__name__} does not make an array of numbers"
        return f"{what} (NumPy sees objects); pass an array of {known}"
    if array.dtype.kind in "mM":
        return f"the dtype {array.dtype} is not kept; pass a.astype('int64') and say the unit"
    if array.dtype.names:
        return f"the structured dtype {array.dtype} is not kept; put each field under its own name"
    return f"the dtype {array.dtype} is not kept; convert to {known}"
