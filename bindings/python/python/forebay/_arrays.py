"""The less common kinds of arrays, on their way to and from the native half.

Dense arrays of numbers never come here; what comes is copied once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._forebay import BadArgument

_NATIVE = frozenset("biufc")  # kinds of NumPy dtypes that are kept as they are
_SIZES = {"b": (1,), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (4, 8), "c": (8, 16)}


def dense(value: Any) -> tuple[Any, str | None]:
    """Something array-like as a dense array of a dtype that is kept.

    Returns the array and, for text and bytes, the name of the dtype its ``uint8`` elements stand for.
    """
    if isinstance(value, (bytearray, memoryview)) and _flat_bytes(value):
        return bytes(value), None
    array = np.asarray(value)
    kind, size = array.dtype.kind, array.dtype.itemsize
    if kind in _NATIVE and size in _SIZES[kind]:
        native = array.dtype.newbyteorder("=")
        return np.array(array, dtype=native, order="C", copy=True), None
    if kind == "U":
        return _bytes_of(np.char.encode(array, "utf-8")), "str"
    if kind == "S":
        return _bytes_of(array), "bytes"
    raise BadArgument(_refusal(value, array))


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
    known = "int8..int64, uint8..uint64, float32, float64, complex64, complex128, bool, str or bytes"
    if array.dtype.kind == "O":
        what = f"a {type(value).__name__} does not make an array of numbers"
        return f"{what} (NumPy sees objects); pass an array of {known}"
    if array.dtype.kind in "mM":
        return f"the dtype {array.dtype} is not kept; pass a.astype('int64') and say the unit with unit="
    if array.dtype.names:
        return f"the structured dtype {array.dtype} is not kept; put each field under its own name"
    return f"the dtype {array.dtype} is not kept; convert to {known}"
