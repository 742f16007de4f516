"""A disk that loses power: which files, with which bytes, may be there afterwards.

Every write, and every change of a name, is durable from the sync on that covers it: a write from the fsync of
its file, a name from the fsync of its folder. What is not durable yet may be there or not, each by itself.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from power_trace import Call

PAGE = 4096
SEEDS = 50

Tree = dict[str, bytes]


@dataclass
class File:
    """What is in a file: durable bytes, and what was written since."""

    durable: bytes = b""
    since: list[tuple[int, Call]] = field(default_factory=list)
    length: int = 0


@dataclass
class Image:
    """What may be left, and which of the calls had come back by then."""

    what: str
    calls: int
    chosen: Callable[[int], bool]
    torn: random.Random | None = None


class Disk:
    """Follows the calls; at any moment it gives what a loss of power would leave."""

    def __init__(self, calls: list[Call]) -> None:
        self.calls = calls
        self.names: dict[str, File] = {}
        self.durable: dict[str, File] = {}
        self.since: list[tuple[int, Call, File | None]] = []
        self.done = 0

    def go_to(self, count: int) -> None:
        """So many calls have come back."""
        while self.done < count:
            self._take(self.done, self.calls[self.done])
            self.done += 1

    def _take(self, number: int, call: Call) -> None:
        known = self.names.get(call.path)
        if call.kind == "sync":
            self._sync(call)
        elif call.kind == "create":
            if known is None:
                self.names[call.path] = made = File()
                self.since.append((number, call, made))
            elif call.at:
                self._write(known, number, Call("size", call.path))
        elif call.kind == "rename":
            if known is not None:
                self.names[call.to] = self.names.pop(call.path)
                self.since.append((number, call, known))
        elif call.kind == "unlink":
            if known is not None:
                self.since.append((number, call, self.names.pop(call.path)))
        elif call.kind == "append":
            assert known is not None, call.path
            self._write(known, number, Call("write", call.path, at=known.length, data=call.data))
        elif call.kind in ("write", "size", "room"):
            assert known is not None, call.path
            self._write(known, number, call)

    def _write(self, file: File, number: int, call: Call) -> None:
        file.since.append((number, call))
        end = call.at + len(call.data)
        file.length = end if call.kind == "size" else max(file.length, end)

    def _sync(self, call: Call) -> None:
        """What had come back before this sync began is durable."""
        if (file := self.names.get(call.path)) is not None:
            covered = [one for one in file.since if one[0] < call.start]
            file.durable = _written(file.durable, [c for _, c in covered])
            file.since = [one for one in file.since if one[0] >= call.start]
            return
        still = []
        for number, change, changed in self.since:
            if number < call.start and os.path.dirname(change.to or change.path) == call.path:
                _rename(self.durable, change, changed)
            else:
                still.append((number, change, changed))
        self.since = still

    def pending(self) -> tuple[list[int], list[int]]:
        """Numbers of the changes of names, and of the writes, that are not durable."""
        files = {id(f): f for f in [*self.names.values(), *self.durable.values()]}
        files |= {id(f): f for _, _, f in self.since if f is not None}
        writes = sorted(number for f in files.values() for number, _ in f.since)
        return [number for number, _, _ in self.since], writes

    def tree(self, image: Image) -> Tree:
        """The files of an image, by path."""
        names = dict(self.durable)
        for number, change, file in self.since:
            if image.chosen(number):
                _rename(names, change, file)
        made: Tree = {}
        for path, file in names.items():
            calls = [c for number, c in file.since if image.chosen(number)]
            if image.torn is not None:
                calls = [part for c in calls for part in _pages(c) if image.torn.random() < 0.7]
            made[path] = _written(file.durable, calls)
        return made


def _rename(names: dict[str, File], change: Call, file: File | None) -> None:
    if file is None:
        return
    if names.get(change.path) is file:
        del names[change.path]
    if change.kind != "unlink":
        names[change.to or change.path] = file


def _pages(call: Call) -> Iterator[Call]:
    if call.kind != "write":
        yield call
        return
    at, end = call.at, call.at + len(call.data)
    while at < end:
        to = min(end, (at // PAGE + 1) * PAGE)
        yield Call("write", call.path, at=at, data=call.data[at - call.at : to - call.at])
        at = to


def _written(durable: bytes, calls: list[Call]) -> bytes:
    if not calls:
        return durable
    found = bytearray(durable)
    for call in calls:
        end = call.at + len(call.data)
        if len(found) < end:
            found.extend(bytes(end - len(found)))
        if call.kind == "write":
            found[call.at : end] = call.data
        elif call.kind == "size":
            del found[call.at :]
    return bytes(found)


def images(calls: list[Call], seed: int) -> Iterator[list[Image]]:
    """For each time between two syncs the images that it may leave: without any write that is not durable, with
    all, without each one, with each one alone, and fifty by the seed. The telling ones come first."""
    disk = Disk(calls)
    before = 0
    for number, call in enumerate(calls):
        if call.kind != "sync" and number + 1 < len(calls):
            continue
        disk.go_to(number if call.kind == "sync" else number + 1)
        names, writes = disk.pending()
        yield list(_of_epoch(disk.done, before, names, writes, random.Random(f"{seed} {number}")))
        before = number


def _of_epoch(
    calls: int, before: int, names: list[int], writes: list[int], dice: random.Random
) -> Iterator[Image]:
    def subset(what: str, chosen: set[int], torn: random.Random | None = None) -> Image:
        return Image(what, calls, chosen.__contains__, torn)

    every = {*names, *writes}
    yield subset("nothing", set())
    yield subset("all", every)
    for kind, numbers in (("name", names), ("write", writes)):
        for number in numbers:
            if number >= before:
                yield subset(f"{kind} {number} alone", {number})
                yield subset(f"all but {kind} {number}", every - {number})
    for n in range(SEEDS if every else 0):
        own = random.Random(dice.random())
        chosen = {number for number in every if own.random() < 0.5}
        if n % 2:
            # As most file systems do it: names change in their order.
            chosen = chosen.difference(names) | set(names[: own.randint(0, len(names))])
        yield subset(f"seed {n}", chosen, own if n % 3 == 0 else None)


def plant(tree: Tree, root: str, to: Path) -> None:
    """Puts the files of an image that lie below a folder into another one."""
    to.mkdir(parents=True, exist_ok=True)
    for path, data in tree.items():
        if path.startswith(root + "/") and not path.endswith("-shm"):
            file = to / path[len(root) + 1 :]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)


def mark(tree: Tree) -> bytes:
    """The same for the same files."""
    found = hashlib.blake2b(digest_size=16)
    for path in sorted(tree):
        found.update(path.encode() + b"\0" + hashlib.blake2b(tree[path], digest_size=16).digest())
    return found.digest()
