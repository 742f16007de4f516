"""Descriptors: the attributes of a run, a data set or a table, as a dictionary."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

import numpy as np

from . import _forebay
from ._arrays import plain


def to_json(attrs: Mapping[str, Any]) -> str:
    """Attributes as JSON text; NumPy's scalars and arrays become numbers and lists."""
    try:
        return json.dumps(_written(dict(attrs)), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise _forebay.BadArgument(
            f"attributes are kept as JSON: {error}; use str, bool, numbers, lists and dictionaries"
        ) from None


def from_json(text: str) -> dict[str, Any]:
    """Attributes from their text."""
    found: dict[str, Any] = json.loads(text, object_hook=_read)
    return found


# JSON has neither NaN nor infinities: {"fb:f64": "nan"} stands for one.
_REAL = "fb:f64"


def _written(value: Any) -> Any:
    if value is np.ma.masked:
        raise TypeError("a masked value has no place in it")
    value = plain(value)
    if isinstance(value, Mapping):
        wrong = [key for key in value if not isinstance(key, str)]
        if wrong:
            raise TypeError(f"the key {wrong[0]!r} is a {type(wrong[0]).__name__}, not text")
        return {key: _written(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_written(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {_REAL: str(float(value))}
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise TypeError(f"a {type(value).__name__} has no place in it")


def _read(value: dict[str, Any]) -> Any:
    return float(value[_REAL]) if value.keys() == {_REAL} else value


class Attributes(MutableMapping[str, Any]):
    """Attributes as a dictionary that writes through. Values are what JSON can say: ``str``, ``bool``, numbers,
    lists, dictionaries; arrays become lists, and NaN and infinities are kept. An integer beyond 64 bits is refused.
    Setting one to ``None`` deletes it.
    """

    def __init__(self, run: _forebay.Run, kind: str, name: str = "", set: int = 0) -> None:
        self._run, self._kind, self._name, self._set = run, kind, name, set

    def _read(self) -> dict[str, Any]:
        return from_json(self._run.attrs(self._kind, self._name, self._set))

    def _write(self, attrs: Mapping[str, Any]) -> None:
        self._run.set_attrs(self._kind, self._name, self._set, to_json(attrs))

    def __getitem__(self, key: str) -> Any:
        return self._read()[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._write({key: value})

    def __delitem__(self, key: str) -> None:
        if key not in self._read():
            raise KeyError(key)
        self._write({key: None})

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Sets several attributes at once."""
        self._write(dict(*args, **kwargs))

    def __repr__(self) -> str:
        return repr(self._read())
