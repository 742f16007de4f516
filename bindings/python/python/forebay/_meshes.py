"""Meshes and particles on their way in, and back: what they are given as, as the native half takes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _forebay
from ._arrays import measured
from ._dtypes import dtype_name, dtype_of_name

if TYPE_CHECKING:
    from ._snapshots import DataSet

Points = tuple[list[float], list[float], list[float]]


def components_of(name: str, values: Any, position: Any) -> list[tuple[str, Any, Any]]:
    """The components of a mesh: the name of each, its values, and where in its cell it is, if that is said of it."""
    components = _components(f"the mesh {name!r}", values) if isinstance(values, Mapping) else {"": values}
    own = position if isinstance(position, Mapping) else {}
    if unknown := sorted(set(own) - set(components)):
        raise _forebay.BadArgument(
            f"position= names {unknown[0]!r}, and the mesh {name!r} has no such component"
        )
    return [(component, array, own.get(component)) for component, array in components.items()]


def records_of(
    name: str,
    records: Mapping[str, Any],
    units: Mapping[str, str] | None,
    attrs: Mapping[str, Mapping[str, Any]] | None,
    dtypes: Mapping[str, Any] | None,
) -> list[tuple[str, str, Any]]:
    """The arrays and numbers of a species: the record of each, its component, and its values."""
    for what, given in (("units", units), ("attrs", attrs), ("as_dtype", dtypes)):
        if given is not None and not isinstance(given, Mapping):
            raise _forebay.BadArgument(
                f"{what} = {given!r} is not by record; say for example {what}={{'position': ...}}"
            )
        if unknown := sorted(set(given or ()) - set(records)):
            raise _forebay.BadArgument(
                f"{what} names {unknown[0]!r}, and the species {name!r} has no such record"
            )
    parts: list[tuple[str, str, Any]] = []
    for record, values in records.items():
        if isinstance(values, Mapping):
            found = _components(f"the record {record!r} of the species {name!r}", values)
            parts += [(record, component, array) for component, array in found.items()]
        else:
            parts.append((record, "", values))
    return parts


def kept_as(record: str, values: Any, as_dtype: Any) -> str | None:
    """The dtype as which the values of a record are kept, if it is another one than theirs."""
    if as_dtype is None:
        return None
    if isinstance(as_dtype, Mapping):
        return dtype_name(as_dtype[record]) if record in as_dtype else None
    name = dtype_name(as_dtype)
    kept, own = dtype_of_name(name), np.asarray(values)
    is_longer = own.dtype.kind == kept.kind and own.dtype.itemsize > kept.itemsize
    return name if own.ndim > 0 and is_longer else None


def members(
    found: tuple[list[tuple[str, str]], list[tuple[str, float]]], read: Callable[[str], Any]
) -> dict[str, Any]:
    """The arrays of a mesh or a species by component, or by record and component."""
    arrays, constants = found
    made: dict[str, Any] = {}
    for part, array in arrays:
        *groups, last = part.split("/")
        branch = made
        for group in groups:
            branch = branch.setdefault(group, {})
        branch[last] = read(array)
    return made | dict(constants)


def grid_of(name: str, parts: Mapping[str, DataSet]) -> dict[str, Any]:
    """Where the points of a mesh lie, from what its arrays say of themselves, by component."""
    said = {part: about for part, about in parts.items() if about.mesh is not None}
    if not said:
        raise _forebay.NotFound(
            f"there is no mesh {name!r} in this snapshot; names() lists its arrays, and dataset(name).mesh says what one is of a mesh"
        )
    first = next(iter(said.values()))
    found: dict[str, Any] = {"dims": first.dims}
    found |= {
        key: tuple(first.mesh[key]) for key in ("spacing", "origin") if first.mesh and key in first.mesh
    }
    places = {
        part: tuple(about.mesh["position"])
        for part, about in said.items()
        if about.mesh and "position" in about.mesh
    }
    if places:
        found["position"] = places.get("", places)
    return found


def _components(what: str, values: Mapping[Any, Any]) -> dict[str, Any]:
    """Values by component."""
    if not values:
        raise _forebay.BadArgument(f"{what} has no components; give an array for each, as {{'x': Ex}}")
    for component in values:
        if not isinstance(component, str) or not component:
            raise _forebay.BadArgument(f"{component!r} is no name of a component of {what}; use a text")
    shapes = {component: np.shape(measured(array, None)[0]) for component, array in values.items()}
    if number := next((component for component, shape in shapes.items() if not shape), None):
        usual = next((str(shape) for shape in shapes.values() if shape), "n")
        raise _forebay.BadArgument(
            f"the component {number!r} of {what} is one number, {values[number]!r}; give an array of one for each, as "
            f"np.full({usual}, {values[number]!r})"
        )
    return dict(values)


def axes_of(values: Any) -> int:
    """How many axes there are of what is to be put, of a quantity too."""
    return np.ndim(measured(values, None)[0])


def points(n: int, spacing: Any, origin: Any, position: Any) -> Points:
    """Where the points of a mesh of ``n`` axes are."""
    return (
        per_axis("spacing", spacing, n),
        per_axis("origin", origin, n),
        per_axis("position", position, n),
    )


def per_axis(what: str, value: Any, n: int) -> list[float]:
    """A number for each axis; nothing where nothing is said."""
    if value is None:
        return []
    try:
        return [float(one) for one in ([value] * n if np.ndim(value) == 0 else value)]
    except (TypeError, ValueError):
        raise _forebay.BadArgument(f"{what} = {value!r}; give a number, or one for each axis") from None
