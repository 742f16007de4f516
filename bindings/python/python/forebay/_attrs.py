"""Descriptors: the attributes of a run, a data set, a table or an array of a snapshot, as a dictionary."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

import numpy as np

from . import _forebay
from ._arrays import whole, with_unit
from ._dtypes import dtype_name, dtype_of_name, is_kept


def to_json(attrs: Mapping[str, Any]) -> str:
    """Attributes as JSON text. What JSON has no word for is an object of one key that begins with ``$``."""
    return one_to_json(dict(attrs))


def one_to_json(value: Any) -> str:
    """The value of an attribute as JSON text."""
    try:
        return json.dumps(_written(value), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise _forebay.BadArgument(
            f"attributes are kept as JSON: {error}; "
            "use str, bool, numbers, None, bytes, arrays of numbers, lists and dictionaries"
        ) from None


def from_json(text: str) -> dict[str, Any]:
    """Attributes from their text."""
    found: dict[str, Any] = json.loads(text, object_hook=_read)
    return found


# Written by earlier versions.
_REAL = "fb:f64"
# Python's own numbers say these.
_PLAIN = (np.dtype("f8"), np.dtype("i8"), np.dtype("?"))


def _written(value: Any) -> Any:
    if value is np.ma.masked:
        raise TypeError("a masked value has no place in it")
    if isinstance(value, np.ndarray):
        if type(value) is not np.ndarray:
            whole(value)
        return _array(value)
    if isinstance(value, np.generic):
        known = value.dtype in _PLAIN or value.dtype.kind in "US"
        return _written(value.item()) if known else _array(np.asarray(value))
    if isinstance(value, Mapping):
        wrong = [key for key in value if not isinstance(key, str)]
        if wrong:
            raise TypeError(f"the key {wrong[0]!r} is a {type(wrong[0]).__name__}, not text")
        return {f"${key}" if key.startswith("$") else key: _written(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_written(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"$": str(float(value))}
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**64:
        return {"$int": str(int(value))}
    if value is None:
        return {"$": None}
    if isinstance(value, (str, int, float)):
        return value
    if isinstance(value, complex):
        return {"$c": [_written(value.real), _written(value.imag)]}
    if isinstance(value, (bytes, bytearray)):
        return {"$b": base64.b64encode(value).decode()}
    with_unit(value)
    raise TypeError(f"a {type(value).__name__} has no place in it")


def _array(value: np.ndarray[Any, Any]) -> Any:
    if value.dtype.kind in "USO":
        return _written(value.tolist())
    if not is_kept(value.dtype):
        raise TypeError(f"an array of {value.dtype} has no place in it")
    little = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
    short = dtype_name(value.dtype.newbyteorder("="))
    return {"$a": [short, list(value.shape), base64.b64encode(little.tobytes()).decode()]}


def _read(value: dict[str, Any]) -> Any:
    if len(value) == 1:
        (key, inside), *_ = value.items()
        if key in ("$", _REAL):
            return None if inside is None else float(inside)
        if key == "$int":
            return int(inside)
        if key == "$c":
            return complex(*inside)
        if key == "$b":
            return base64.b64decode(inside)
        if key == "$a":
            dtype, shape, text = inside
            array = np.frombuffer(base64.b64decode(text), dtype_of_name(dtype).newbyteorder("<"))
            # A copy is the reader's own.
            return array.reshape(shape).astype(dtype_of_name(dtype), copy=True)[()]
    return {key[1:] if key.startswith("$$") else key: one for key, one in value.items()}


class Attributes(MutableMapping[str, Any]):
    """Attributes as a dictionary that writes through. Values are ``str``, ``bool``, numbers, ``None``, ``bytes``, arrays
    of numbers, and lists and dictionaries of these. Each comes back as what it was, NaN, infinities and integers of any
    size too, an array with its dtype and shape; a tuple comes back as a list. ``del attrs[key]`` deletes one.
    """

    def __init__(self, run: _forebay.Run, kind: str, name: str = "", set: int = 0) -> None:
        self._run, self._kind, self._name, self._set = run, kind, name, set

    def _read(self) -> dict[str, Any]:
        return from_json(self._run.attrs(self._kind, self._name, self._set))

    def _write(self, json: str) -> None:
        self._run.set_attrs(self._kind, self._name, self._set, json)

    def __getitem__(self, key: str) -> Any:
        return self._read()[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._write(to_json({key: value}))

    def __delitem__(self, key: str) -> None:
        if key not in self._read():
            raise KeyError(key)
        self._write(json.dumps({f"${key}" if key.startswith("$") else key: None}))

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Sets several attributes at once."""
        self._write(to_json(dict(*args, **kwargs)))

    def __repr__(self) -> str:
        return repr(self._read())
