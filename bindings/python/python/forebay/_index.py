"""Selections: what stands between the brackets, worked out before anything is read.

A *basic* index of NumPy (integers, slices, ``...``, ``None``) becomes one ``(start, count, step,
squeeze)`` for each axis, with positive steps, so that only that part is read; what is left to
do afterwards (reversing an axis, adding one) is an index of the small result.
"""

from __future__ import annotations

import operator
from types import EllipsisType
from typing import SupportsIndex, TypeAlias

from ._forebay import BadArgument

Index: TypeAlias = "SupportsIndex | slice | EllipsisType | None"
Selection: TypeAlias = "Index | tuple[Index, ...]"
Axis: TypeAlias = "tuple[int, int, int, bool]"
After: TypeAlias = "tuple[slice | None, ...]"


def plan(sel: Selection, shape: tuple[int, ...]) -> tuple[list[Axis], After | None]:
    """The axes to read of an array of ``shape``, and the index to apply to what was read (or None)."""
    items = _expanded(sel if isinstance(sel, tuple) else (sel,), shape)
    axes: list[Axis] = []
    after: list[slice | None] = []
    for item in items:
        if item is None:
            after.append(None)
            continue
        extent = shape[len(axes)]
        if isinstance(item, slice):
            axis, backwards = _slice(item, extent)
            axes.append(axis)
            after.append(slice(None, None, -1) if backwards else slice(None))
        else:
            axes.append((_integer(item, extent, len(axes)), 1, 1, True))
    untouched = all(item == slice(None) for item in after)
    return axes, None if untouched else tuple(after)


def _expanded(items: tuple[Index, ...], shape: tuple[int, ...]) -> list[SupportsIndex | slice | None]:
    """The index with ``...`` written out and an entry for every axis."""
    given = sum(1 for item in items if item is not None and item is not Ellipsis)
    dots = sum(1 for item in items if item is Ellipsis)
    if dots > 1:
        raise BadArgument("an index holds ... twice; write it once")
    if given > len(shape):
        raise BadArgument(f"{given} indices are too many for an array of shape {shape}")
    rest: list[SupportsIndex | slice | None] = [slice(None)] * (len(shape) - given)
    out: list[SupportsIndex | slice | None] = []
    for item in items:
        if isinstance(item, EllipsisType):
            out.extend(rest)
        else:
            out.append(item)
    return out if dots else out + rest


def _slice(item: slice, extent: int) -> tuple[Axis, bool]:
    try:
        start, stop, step = item.indices(extent)
    except (TypeError, ValueError) as error:
        raise BadArgument(f"{item} is not a slice of integers with a step other than 0: {error}") from None
    count = len(range(start, stop, step))
    if count == 0:
        return (0, 0, 1, False), False
    if step < 0:
        return (start + (count - 1) * step, count, -step, False), True
    return (start, count, step, False), False


def _integer(item: SupportsIndex, extent: int, axis: int) -> int:
    if isinstance(item, bool) or not hasattr(item, "__index__"):
        text = "use integers, slices, ... or None, and index the array that comes back for anything else"
        raise BadArgument(f"{item!r} is not a basic index; {text}")
    try:
        value = operator.index(item)
    except TypeError:
        raise BadArgument(f"{item!r} is not one integer; index the array that comes back") from None
    if not -extent <= value < extent:
        raise BadArgument(f"index {value} is out of bounds for axis {axis} with extent {extent}")
    return value % extent
