"""Functions of the program that decide which server gets a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class TaskView(NamedTuple):
    """A call that is to go somewhere, as a function of placement sees it."""

    service: str
    """What is called."""
    bytes: int
    """Bytes of its arrays."""
    cost: int | None
    """What it costs, if its service says that."""
    waiting: int
    """How many calls of this service wait, this one among them."""


class ServerView(NamedTuple):
    """A server that could get it, as it is when the function is asked."""

    name: str
    """Its name, which others may share."""
    pid: int
    """Its process."""
    host: str
    """Where that runs."""
    workers: int
    """How many calls it works on at a time."""
    mine: int
    """Calls of this client that are there."""
    others: int
    """Calls of others that were there when the broker was last asked; of tasks of a map: 0."""
    room: int
    """How many more it may have so that none waits there while another server idles."""
    expected: float | None
    """Seconds that the call is expected to run there; None before any has."""
    ahead: float | None
    """Seconds that all calls of this client there are expected to run; None if the service does not say what they cost."""
    is_late: bool
    """What is there, of a map, takes much longer than it should."""


PlacementFunction = Callable[[TaskView, list[ServerView]], ServerView | None]
"""Returns one of the servers, or None: then ``least`` decides."""


def asked(function: PlacementFunction) -> Callable[[tuple[Any, ...], list[tuple[Any, ...]]], int | None]:
    """The function as it is asked by the library: with plain tuples, and for an index."""

    def ask(task: tuple[Any, ...], rows: list[tuple[Any, ...]]) -> int | None:
        servers = [ServerView(*row) for row in rows]
        answer = function(TaskView(*task), servers)
        return None if answer is None else _index(servers, answer)

    return ask


def _index(servers: Sequence[ServerView], answer: object) -> int:
    for index, server in enumerate(servers):
        if server is answer:
            return index
    raise TypeError(f"it gave {answer!r}, which is none of the servers that it was given, nor None")
