"""The input deck: read, checked, and refused with the line and the key that are wrong.

    text of two_stream.toml -> tomllib -> checked values -> Deck

Nothing else of the example knows TOML.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class DeckError(ValueError):
    """A deck that cannot be used; the text names file, line, key, value and what is wanted."""


@dataclass(frozen=True)
class Beam:
    """One cold beam of particles."""

    name: str
    plasma_frequency: float  # wp of this beam alone [wp]
    charge_to_mass: float  # q/m
    drift: float  # v0 [U]
    mode: int  # excited mode of the box
    displacement: float  # amplitude of the excitation [U/wp]
    count: int  # particles


@dataclass(frozen=True)
class Deck:
    """Everything that defines a run."""

    length: float  # [U/wp]
    grid: int
    dt: float  # [1/wp]
    steps: int
    snapshot_every: int
    beams: tuple[Beam, ...]
    field_amplitude: float  # [m U wp/e]
    field_mode: int
    field_limit: float  # [m U wp/e]

    @property
    def dx(self) -> float:
        """Width of a cell."""
        return self.length / self.grid

    @property
    def count(self) -> int:
        """Particles of all beams."""
        return sum(beam.count for beam in self.beams)

    def with_(self, *, particles: int | None = None, steps: int | None = None) -> Deck:
        """The same deck with another number of particles or steps, as options of a program give them."""
        deck = self
        if steps is not None:
            deck = replace(deck, steps=_check("steps", steps, _AT_LEAST_ONE))
        if particles is not None:
            each = _share(_check("particles", particles, _AT_LEAST_ONE), len(deck.beams))
            deck = replace(deck, beams=tuple(replace(beam, count=each) for beam in deck.beams))
        return deck


@dataclass(frozen=True)
class _Rule:
    kind: type
    holds: Callable[[Any], bool]
    words: str


_POSITIVE = _Rule(float, lambda v: math.isfinite(v) and v > 0, "a number above 0")
_FINITE = _Rule(float, math.isfinite, "a finite number")
_NONZERO = _Rule(float, lambda v: math.isfinite(v) and v != 0, "a finite number other than 0")
_NOT_NEGATIVE = _Rule(float, lambda v: math.isfinite(v) and v >= 0, "a number of at least 0")
_AT_LEAST_ONE = _Rule(int, lambda v: 1 <= v <= 10**10, "an integer from 1 to 10^10")
_CELLS = _Rule(int, lambda v: 4 <= v <= 10**6, "an integer from 4 to 10^6")
_MODE = _Rule(int, lambda v: 1 <= v <= 10**6, "an integer from 1 to 10^6")
_NAME = _Rule(
    str,
    lambda v: re.fullmatch(r"[A-Za-z0-9_]{1,64}", v) is not None,
    "a name of letters, digits and underscores",
)

_SECTIONS: dict[str, dict[str, _Rule]] = {
    "box": {"length": _POSITIVE, "grid": _CELLS},
    "time": {"dt": _POSITIVE, "steps": _AT_LEAST_ONE, "snapshot_every": _AT_LEAST_ONE},
    "particles": {"count": _AT_LEAST_ONE},
    "beam": {
        "name": _NAME,
        "plasma_frequency": _POSITIVE,
        "charge_to_mass": _NONZERO,
        "drift": _FINITE,
        "mode": _MODE,
        "displacement": _FINITE,
    },
    "field": {"amplitude": _FINITE, "mode": _MODE, "limit": _POSITIVE},
}


def load(path: str | Path) -> Deck:
    """Reads a deck; raises :class:`DeckError` for whatever is missing, unknown or out of range."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DeckError(f"cannot read the deck {path}: {error}") from None
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DeckError(f"{path}: not TOML: {error}") from None
    return _Reader(path, text, raw).deck()


def _check(key: str, value: Any, rule: _Rule) -> Any:
    """The value in the type of its rule, or a DeckError without a place."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    fits = number if rule.kind is float else isinstance(value, rule.kind) and not isinstance(value, bool)
    if not fits or not rule.holds(value):
        raise DeckError(f"{key} = {value!r} is not {rule.words}")
    return rule.kind(value)


def _share(count: int, beams: int) -> int:
    if count % beams:
        raise DeckError(
            f"{count} particles cannot be shared evenly by {beams} beams; give a multiple of {beams}"
        )
    return count // beams


class _Reader:
    """Turns parsed TOML into a deck and knows where each key stands."""

    def __init__(self, path: Path, text: str, raw: dict[str, Any]) -> None:
        self.path = path
        self.lines = text.splitlines()
        self.raw = raw

    def deck(self) -> Deck:
        for section in self.raw:
            if section not in _SECTIONS:
                known = ", ".join(_SECTIONS)
                raise self.fault(section, 0, None, f"unknown; known are {known}")
        box, time = self.section("box"), self.section("time")
        particles, field = self.section("particles"), self.section("field")
        beams = self.beams(particles["count"])
        amplitude, limit = field["amplitude"], field["limit"]
        if abs(amplitude) > limit:
            raise self.fault("field", 0, "amplitude", f"{amplitude} is beyond the limit of {limit}")
        if time["dt"] * max(beam.plasma_frequency for beam in beams) >= 2.0:
            raise self.fault(
                "time", 0, "dt", "leap-frog is unstable: dt times the plasma frequency must be below 2"
            )
        return Deck(
            length=box["length"],
            grid=box["grid"],
            dt=time["dt"],
            steps=time["steps"],
            snapshot_every=time["snapshot_every"],
            beams=beams,
            field_amplitude=amplitude,
            field_mode=field["mode"],
            field_limit=limit,
        )

    def section(self, name: str) -> dict[str, Any]:
        values = self.raw.get(name)
        if not isinstance(values, dict):
            raise DeckError(f"{self.path}: the section [{name}] is missing")
        return self.checked(name, 0, values)

    def beams(self, count: int) -> tuple[Beam, ...]:
        entries = self.raw.get("beam")
        if not isinstance(entries, list) or not entries:
            raise DeckError(f"{self.path}: there is no [[beam]]; give one section for each beam")
        try:
            each = _share(count, len(entries))
        except DeckError as error:
            raise self.fault("particles", 0, "count", str(error)) from None
        found: list[Beam] = []
        for index, values in enumerate(entries):
            beam = Beam(**self.checked("beam", index, values), count=each)
            if any(beam.name == other.name for other in found):
                raise self.fault("beam", index, "name", f"{beam.name!r} names two beams")
            found.append(beam)
        return tuple(found)

    def checked(self, section: str, index: int, values: dict[str, Any]) -> dict[str, Any]:
        rules = _SECTIONS[section]
        for key in values:
            if key not in rules:
                raise self.fault(section, index, key, f"unknown key; known are {', '.join(rules)}")
        out: dict[str, Any] = {}
        for key, rule in rules.items():
            if key not in values:
                raise self.fault(section, index, None, f"the key {key!r} is missing; give {rule.words}")
            try:
                out[key] = _check(key, values[key], rule)
            except DeckError as error:
                raise self.fault(section, index, key, str(error)) from None
        return out

    def fault(self, section: str, index: int, key: str | None, why: str) -> DeckError:
        line = self.line(section, index, key)
        place = f"[{section}]" if key is None else f"[{section}] {key}"
        return DeckError(f"{self.path}:{line}: {place}: {why}")

    def line(self, section: str, index: int, key: str | None) -> int:
        """Where a key stands (the section's own line when there is no key)."""
        header = re.compile(r"\s*\[\[?\s*([A-Za-z0-9_-]+)")
        seen, inside, start = -1, False, 1
        for number, line in enumerate(self.lines, 1):
            if found := header.match(line):
                seen += found[1] == section
                inside = found[1] == section and seen == index
                start = number if inside else start
            elif inside and key is not None and re.match(rf"\s*{re.escape(key)}\s*=", line):
                return number
        return start
