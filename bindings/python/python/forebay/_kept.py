"""What a run tells of the snapshots that it keeps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ._forebay import BadArgument
from ._snapshots import step_number


@dataclass(frozen=True)
class Checkpoint:
    """A step that was marked as a restart point."""

    number: int
    """Counts from 1."""
    step: int
    """Its step."""
    tag: str | None
    """Its name for people; :meth:`Run.restart` takes it."""
    parent: int | None
    """Number of the checkpoint before it on the way the run took: they make a tree."""
    time: float | None
    """Simulated time of the step, if one was given."""
    parameters: dict[str, Any] = field(repr=False)
    """Values of the parameters at that step."""
    made: float = field(repr=False)
    """When it was made, in seconds since 1970."""
    kept: bool
    """Whether its step is in the run still: not when a restart has gone back behind it, nor when it was dropped or is damaged."""


@dataclass(frozen=True)
class Unpacked:
    """Snapshots that stay in files of their own (:meth:`Run.pack`)."""

    first: int
    """The number of the first one."""
    last: int
    """That of the last one."""
    steps: int
    """How many they are."""
    why: str
    """Why they are in no pack."""


@dataclass(frozen=True)
class Packed:
    """What :meth:`Run.pack` has done."""

    packs: int
    """Files that were made."""
    steps: int
    """Snapshots that lie in them."""
    nbytes: int
    """Bytes of their arrays."""
    single: list[Unpacked]
    """Snapshots that stay in files of their own."""


def first_and_last(steps: Any) -> tuple[int, int]:
    """The two numbers that are said; those of all snapshots if none are."""
    if steps is None:
        return -(2**63), 2**63 - 1
    try:
        first, last = steps
        return step_number(first), step_number(last)
    except (TypeError, ValueError):
        raise BadArgument(
            f"steps = {steps!r} is no first and last number of snapshots; give two, such as (0, 999)"
        ) from None
