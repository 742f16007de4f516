"""Arrays that servers hold."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from . import _forebay
from ._arrays import complete
from ._context import Context
from ._dtypes import dtype_of_name
from ._index import Selection, plan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from ._index import Axis


def where(on: str | Reference | None, services: Sequence[str]) -> str | Reference | list[str] | None:
    """Where an array is to be held: a name or another array counts, then what is offered there."""
    if isinstance(services, str):
        raise _forebay.BadArgument(f"services={services!r} is a text; give names: services=[{services!r}]")
    if on is not None and not isinstance(on, (str, Reference)):
        raise _forebay.BadArgument(
            f"on={on!r} is no place; give the name of a server, or an array that one holds"
        )
    if not all(isinstance(name, str) for name in services):
        raise _forebay.BadArgument(f"services={services!r}: give names of services, as a list of texts")
    return on if on is not None or not services else list(services)


class Reference(_forebay.Reference, Context):
    """An array that a server holds; made by :meth:`Client.array` and :meth:`Client.put`.

    It may stand for any array argument of a call, which then works on it where it is: nothing is moved.
    All references of one call must be held by one server. The array lives until :meth:`kill`, until nothing
    refers to it any more, or until this process ends; if its server is lost, so is the array (``ServerLost``).

    Functions and operators of NumPy's do not take it (``TypeError``), so that nothing is moved that nobody sees: they are
    given ``A.get()``, or a part, ``A[...]``. Iterating over it, and ``in``, read all of it once.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return tuple(self.extents())

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype."""
        return dtype_of_name(self.kind())

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    @property
    def server(self) -> str:
        """Name of the server that holds it."""
        return self.holder()

    def put(self, array: Any, sel: Selection = ...) -> None:
        """Writes the part ``sel`` (all of it by default; a basic index of NumPy's).

        ``array`` has the part's shape and the dtype of this array (lists and numbers are converted). It is copied
        when this returns. Raises ``BadArgument``, ``Closed`` (it was killed), ``ServerLost``.
        """
        complete(array)
        value = array if isinstance(array, np.ndarray) else np.asarray(array, dtype=self.dtype)
        axes, after = plan(sel, self.shape)
        if after is not None:
            turned = self._room(axes)
            view = turned[after]
            if view.shape != value.shape:
                raise _forebay.BadArgument(
                    f"an array of shape {value.shape} for a part of shape {view.shape}"
                )
            view[...] = value
            value = turned
        self.write(value, axes)

    def get(self, sel: Selection = ...) -> NDArray[Any]:
        """Reads the part ``sel`` (all of it by default; a basic index of NumPy's); only that part travels.

        Raises ``BadArgument``, ``Closed`` (it was killed), ``ServerLost``.
        """
        axes, after = plan(sel, self.shape)
        found: NDArray[Any] = self.read(axes)
        return found if after is None else found[after]

    def _room(self, axes: list[Axis]) -> NDArray[Any]:
        """An array for a part, its content undefined."""
        return np.empty(_extents(axes), dtype=self.dtype)

    def _fits(self, value: Any, axes: list[Axis]) -> bool:
        """Whether a value goes into a part as it is, neither converted nor repeated."""
        is_array = isinstance(value, np.ndarray)
        return is_array and value.dtype == self.dtype and value.shape == tuple(_extents(axes))

    def __getitem__(self, sel: Selection) -> NDArray[Any]:
        return self.get(sel)

    def __setitem__(self, sel: Selection, value: Any) -> None:
        """As NumPy does it: the value is converted and repeated as needed."""
        axes, after = plan(sel, self.shape)
        if after is None and self._fits(value, axes):
            return self.write(value, axes)
        complete(value)
        part = self._room(axes)
        (part if after is None else part[after])[...] = value
        self.write(part, axes)

    # --- as a sequence, and where NumPy meets it ----------------------------------------------

    def __len__(self) -> int:
        """The first extent."""
        if not self.shape:
            raise TypeError(f"{self!r} has no length, for it has no axes")
        return self.shape[0]

    def __bool__(self) -> bool:
        """An array without elements is one all the same."""
        return True

    def __iter__(self) -> Iterator[Any]:
        """Over the first axis, of what is read once."""
        return iter(self.get())

    def __contains__(self, value: object) -> bool:
        return value in self.get()

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        self._stays()

    def __array_ufunc__(self, *_: Any, **__: Any) -> NoReturn:
        self._stays()

    def __array_function__(
        self, function: Any, _types: Any, _args: Any, _options: Any
    ) -> tuple[int, ...] | int:
        if function is np.shape:
            return self.shape
        if function is np.ndim:
            return self.ndim
        self._stays()

    def _stays(self) -> NoReturn:
        raise TypeError(
            f"NumPy cannot work on {self!r}, which a server holds; give it A.get(), or a part, A[...], and write results with "
            "A.put(...)"
        )

    __hash__ = _forebay.Reference.__hash__

    def __eq__(self, other: object) -> bool:
        """Whether it is the same reference; elements are compared where they are read."""
        if isinstance(other, (np.ndarray, np.generic, int, float, complex, list, tuple)):
            self._stays()
        return self is other

    def _leave(self, error: BaseException | None) -> None:
        self.kill()

    def __repr__(self) -> str:
        return f"<forebay.Reference {self.dtype}{self.shape} on {self.server!r}>"


def extents_of(shape: int | Sequence[int]) -> list[int]:
    """The extents of an array that is to be made."""
    try:
        extents = [operator.index(n) for n in (shape if isinstance(shape, Iterable) else (shape,))]
    except TypeError:
        extents = [-1]
    if any(not 0 <= n < 2**64 for n in extents):
        raise _forebay.BadArgument(
            f"shape={shape!r} is none; give an integer from 0 on, or one for each axis"
        )
    return extents


def _extents(axes: list[Axis]) -> list[int]:
    """The shape of a part."""
    return [count for _, count, _, squeeze in axes if not squeeze]
