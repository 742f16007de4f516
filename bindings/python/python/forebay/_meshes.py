"""Meshes and particles on their way in: the arrays of the snapshot that they are made of, and back."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _forebay
from ._arrays import measured

if TYPE_CHECKING:
    from ._snapshots import DataSet

_AXES = ("x", "y", "z")


@dataclass(frozen=True)
class Piece:
    """An array of a mesh or of a species."""

    name: str
    values: Any
    shape: tuple[int, ...]
    units: str | None
    dims: Sequence[str] | None
    attrs: Mapping[str, Any] | None
    also: dict[str, Any]


def arrays_of_mesh(
    name: str,
    values: Any,
    dims: str | Sequence[str] | None,
    spacing: Any,
    origin: Any,
    position: Any,
) -> list[Piece]:
    """The arrays of a mesh, one for each component."""
    components = _components(f"the mesh {name!r}", values) if isinstance(values, Mapping) else {"": values}
    shapes = {component: _shape(array) for component, array in components.items()}
    first, shape = next(iter(shapes.items()))
    if other := next((component for component, found in shapes.items() if found != shape), None):
        raise _forebay.BadArgument(
            f"the components {first!r} and {other!r} of the mesh {name!r} have the shapes {shape} and {shapes[other]}; "
            "give arrays of one shape, and say by position= where in their cells they are"
        )
    n = len(shape)
    if n == 0:
        raise _forebay.BadArgument(f"the mesh {name!r} is one number; give an array with at least one axis")
    if dims is None:
        if n > len(_AXES):
            raise _forebay.BadArgument(f"the mesh {name!r} has {n} axes; name each of them in dims=")
        dims = _AXES[:n]
    known = {"spacing": _per_axis("spacing", spacing, n), "origin": _per_axis("origin", origin, n)}
    if isinstance(position, Mapping) and (unknown := sorted(set(position) - set(components))):
        raise _forebay.BadArgument(
            f"position= names {unknown[0]!r}, and the mesh {name!r} has no such component"
        )
    pieces = []
    for component, array in components.items():
        place = position.get(component) if isinstance(position, Mapping) else position
        mesh = {"name": name, "component": component, **known, "position": _per_axis("position", place, n)}
        full = f"{name}_{component}" if component else name
        pieces.append(Piece(full, array, shape, None, dims, None, {"mesh": mesh}))
    return pieces


def arrays_of_particles(
    name: str,
    records: Mapping[str, Any],
    units: Mapping[str, str] | None,
    attrs: Mapping[str, Mapping[str, Any]] | None,
) -> list[Piece]:
    """The arrays of a species; those of its positions come first."""
    for what, given in (("units", units), ("attrs", attrs)):
        if given is not None and not isinstance(given, Mapping):
            raise _forebay.BadArgument(
                f"{what} = {given!r} is not by record; say for example {what}={{'position': ...}}"
            )
        if unknown := sorted(set(given or ()) - set(records)):
            raise _forebay.BadArgument(
                f"{what} names {unknown[0]!r}, and the species {name!r} has no such record"
            )
    pieces: list[Piece] = []
    constants: dict[str, dict[str, Any]] = {}
    for record, values in records.items():
        unit, more = (units or {}).get(record), (attrs or {}).get(record)
        if isinstance(values, Mapping):
            parts = _components(f"the record {record!r} of the species {name!r}", values)
            pieces += [
                Piece(f"{name}/{record}/{part}", array, _shape(array), unit, (f"{name}/particle",), more, {})
                for part, array in parts.items()
            ]
            continue
        shape = _shape(values)
        if not shape:
            constants[record] = _constant(name, record, values, unit)
            continue
        dims = (f"{name}/particle", f"{name}/{record}_component")[: len(shape)]
        pieces.append(Piece(f"{name}/{record}", values, shape, unit, dims, more, {}))
    if "position" in constants:
        raise _forebay.BadArgument(f"the position of the species {name!r} is one number; give arrays")
    counts = {piece.name: piece.shape[0] if piece.shape else 0 for piece in pieces}
    first, count = next(iter(counts.items()))
    if other := next((array for array, found in counts.items() if found != count), None):
        raise _forebay.BadArgument(
            f"{first!r} has {count} particles, and {other!r} has {counts[other]}; give one number for each"
        )
    for at, piece in enumerate(pieces):
        species: dict[str, Any] = {"name": name}
        if at == 0 and constants:
            species["constants"] = constants
        piece.also["species"] = species
    return pieces


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


def _shape(values: Any) -> tuple[int, ...]:
    """The shape of what is to be put, of a quantity too."""
    return np.shape(measured(values, None)[0])


def _components(what: str, values: Mapping[Any, Any]) -> dict[str, Any]:
    """Values by component."""
    if not values:
        raise _forebay.BadArgument(f"{what} has no components; give an array for each, as {{'x': Ex}}")
    for component in values:
        if not isinstance(component, str) or not component:
            raise _forebay.BadArgument(f"{component!r} is no name of a component of {what}; use a text")
    shapes = {component: _shape(array) for component, array in values.items()}
    if number := next((component for component, shape in shapes.items() if not shape), None):
        usual = next((str(shape) for shape in shapes.values() if shape), "n")
        raise _forebay.BadArgument(
            f"the component {number!r} of {what} is one number, {values[number]!r}; give an array of one for each, as "
            f"np.full({usual}, {values[number]!r})"
        )
    return dict(values)


def _constant(name: str, record: str, value: Any, units: str | None) -> dict[str, Any]:
    number, found = measured(value, units)
    try:
        real = float(number)
    except (TypeError, ValueError):
        real = math.nan
    if not math.isfinite(real):
        raise _forebay.BadArgument(
            f"{record} = {value!r} of the species {name!r} is no finite number; give one, or an array"
        )
    return {"value": real, "units": found or ""}


def _per_axis(what: str, value: Any, n: int) -> list[float]:
    """A number for each axis; nothing where nothing is said."""
    if value is None:
        return []
    try:
        numbers = list(_reals(value, n))
    except (TypeError, ValueError):
        raise _forebay.BadArgument(f"{what} = {value!r}; give a number, or one for each axis") from None
    if len(numbers) != n:
        raise _forebay.BadArgument(
            f"{what} = {value!r} has {len(numbers)} numbers, and the mesh has {n} axes; give one for each"
        )
    if not all(math.isfinite(number) for number in numbers):
        raise _forebay.BadArgument(f"{what} = {value!r} is not finite")
    return numbers


def _reals(value: Any, n: int) -> Iterator[float]:
    return (float(one) for one in ([value] * n if np.ndim(value) == 0 else value))
