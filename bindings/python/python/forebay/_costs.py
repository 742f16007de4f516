"""How the work of a service grows, from a function to its text."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING

from . import _forebay

if TYPE_CHECKING:
    from typing_extensions import Self

Cost = str | Callable[..., object]
"""A sum of products, or a function that computes it of parameters: ``"n*n*n"``, ``lambda n: n**3``."""

# As in a signature.
_POWER = 8
_PRODUCTS = 16


class _Sum:
    """A sum of products of parameters, as a function that is called with some computes it."""

    def __init__(self, products: tuple[tuple[int, ...], ...], names: tuple[str, ...] = ()) -> None:
        """Each product is a factor, and how often each of the names."""
        self._products = products
        self._names = names

    @classmethod
    def of(cls, names: tuple[str, ...], which: int) -> Self:
        return cls(((1, *(int(i == which) for i in range(len(names)))),), names)

    def _other(self, other: object) -> _Sum | None:
        if isinstance(other, _Sum):
            return other
        if isinstance(other, int) and not isinstance(other, bool) and other >= 0:
            return _Sum(((other, *(0 for _ in self._names)),), self._names)
        return None

    def __add__(self, other: object) -> _Sum:
        added = self._other(other)
        if added is None:
            return NotImplemented
        return self._sum([*self._products, *added._products])

    __radd__ = __add__

    def __mul__(self, other: object) -> _Sum:
        factor = self._other(other)
        if factor is None:
            return NotImplemented
        return self._sum(
            [
                (a[0] * b[0], *(m + n for m, n in zip(a[1:], b[1:], strict=True)))
                for a in self._products
                for b in factor._products
            ]
        )

    __rmul__ = __mul__

    def __pow__(self, power: object) -> _Sum:
        if not isinstance(power, int) or not 1 <= power <= _POWER:
            return NotImplemented
        result = self
        for _ in range(power - 1):
            result = result * self
        return result

    def _sum(self, products: list[tuple[int, ...]]) -> _Sum:
        """Products of the same names are one."""
        found: dict[tuple[int, ...], int] = {}
        for product in products:
            found[product[1:]] = found.get(product[1:], 0) + product[0]
        if len(found) > 2 * _PRODUCTS:
            raise OverflowError(f"more than {_PRODUCTS} products")
        return _Sum(tuple((factor, *powers) for powers, factor in found.items() if factor), self._names)

    def __bool__(self) -> bool:
        # Which way it goes would depend on numbers that are not known here.
        raise TypeError("it asks what a parameter is")

    def __eq__(self, other: object) -> bool:
        raise TypeError("it compares a parameter")

    def __hash__(self) -> int:
        raise TypeError("it looks a parameter up")

    def __str__(self) -> str:
        def text(product: tuple[int, ...]) -> str:
            names = [name for name, n in zip(self._names, product[1:], strict=True) for _ in range(n)]
            return "*".join([str(product[0]), *names] if product[0] != 1 or not names else names)

        return " + ".join(map(text, self._products))


def text_of(cost: Cost) -> str:
    """The text of a cost; a function is called once, with what stands for its parameters."""
    if isinstance(cost, str):
        return cost
    if not callable(cost):
        raise _forebay.BadArgument(f"cost={cost!r} is neither a text nor a function; write cost='n*n*n'")
    try:
        names = tuple(inspect.signature(cost).parameters)
        found = cost(*(_Sum.of(names, i) for i in range(len(names))))
    except Exception as error:
        raise _forebay.BadArgument(
            f"cost: the function does more than add and multiply its parameters and whole numbers ({error}); write "
            "cost='n*n*n', a sum of products of integer parameters and extents"
        ) from None
    if not isinstance(found, _Sum):
        raise _forebay.BadArgument(
            f"cost: the function gives {found!r} whatever its parameters are; write cost='n*n*n'"
        )
    return str(found)
