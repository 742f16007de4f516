"""Descriptors: the attributes of a run, a data set or a table, as a dictionary."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from . import _forebay
from ._arrays import plain


def to_json(attrs: Mapping[str, Any]) -> str:
    """Attributes as JSON text; NumPy's scalars and arrays become numbers and lists."""
    try:
        return json.dumps(dict(attrs), default=_default, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise _forebay.BadArgument(
            f"attributes are kept as JSON: {error}; use str, bool, finite numbers, lists and dictionaries"
        ) from None


def _default(value: Any) -> Any:
    made = plain(value)
    if made is value:
        raise TypeError(f"a {type(value).__name__} has no place in it")
    return made


class Attributes(MutableMapping[str, Any]):
    """Attributes as a dictionary that writes through. Values are what JSON can say: ``str``, ``bool``, numbers,
    lists, dictionaries; arrays become lists. Setting one to ``None`` deletes it.
    """

    def __init__(self, run: _forebay.Run, kind: str, name: str = "", set: int = 0) -> None:
        self._run, self._kind, self._name, self._set = run, kind, name, set

    def _read(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._run.attrs(self._kind, self._name, self._set))
        return found

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
