"""What a run is put through before the power goes, and what must be there afterwards.

The acts of a rank follow from a seed alone. A rank writes into the file `told` before an act, and after it; so
whoever compares knows which acts were begun, and which were promised to be durable.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import forebay as fb
import numpy as np

STEPS = 7
BACK = {"cp": 3, "early": 1}
# Elements of a step's arrays; the last is larger than the buffer, which is written early then.
FIELD, SPARSE, LARGE = 3000, 100, 40_000
BUFFER = "256KiB"

Act = tuple[Any, ...]


def values(of: object, count: int) -> np.ndarray[Any, Any]:
    """Numbers that nothing else has."""
    return np.arange(count, dtype=np.int64) * 1_000_003 + zlib.crc32(str(of).encode())


def acts(seed: int, rank: int, size: int, going_back: bool) -> list[Act]:
    """What a rank does, in order."""
    dice = random.Random(f"{seed} {rank}")
    own = _Names(rank, dice)
    done: list[Act] = [("attribute", 0)]
    done += _steps(own, range(STEPS), 0, rank)
    if going_back:
        for generation, tag in enumerate(BACK, 1):
            done += [("flush",), ("back", tag, generation)]
            done += _steps(own, range(BACK[tag], BACK[tag] + 4), generation, rank)
    return [*done, ("close",)]


class _Names:
    """Data sets of a rank, put and replaced, large over small and small over large."""

    def __init__(self, rank: int, dice: random.Random) -> None:
        self.rank, self.dice = rank, dice
        self.version = 0
        self.there: set[str] = set()

    def acts(self) -> Iterator[Act]:
        for _ in range(3):
            name = f"r{self.rank}/{self.dice.choice('abcd')}"
            self.version += 1
            self.there.add(name)
            yield "put", name, self.version, self.dice.choice([10, 300, 8500, 9000])
            if self.dice.random() < 0.5:
                yield ("look", name)
        if self.dice.random() < 0.4:
            name = self.dice.choice(sorted(self.there))
            other = f"r{self.rank}/{self.version}"
            act = self.dice.choice(["delete", "rename", "copy"])
            self.there -= {name} if act != "copy" else set()
            self.there |= {other} if act != "delete" else set()
            yield (act, name) if act == "delete" else (act, name, other)


def _steps(own: _Names, steps: range, generation: int, rank: int) -> Iterator[Act]:
    yield "loop", steps.start, steps.stop
    for step in steps:
        yield ("head",)
        if generation and step == steps.start:
            continue
        yield from own.acts()
        yield "row", step, generation
        yield "attribute", step
        yield "step", step, generation
        last = own.dice.random()
        # The number of the last step was durable once already.
        if last < 0.3 or (generation and step == STEPS - 1):
            yield "wait", step
        elif last < 0.6:
            yield ("flush",)
        for tag, of in BACK.items():
            if of == step and not generation:
                yield "wait", step
                yield "checkpoint", tag


def play(
    path: str, rank: int, size: int, seed: int, full: str, going_back: bool, told: Callable[[str], None]
) -> None:
    """Opens the run and does all acts."""
    run = fb.open(path, "a", rank=rank, size=size, buffer=BUFFER, full=full)  # type: ignore[arg-type]
    rows = run.table(f"rows{rank}", {"v": "i64"}, history=True)
    diagram = run.diagram(f"points{rank}", "history")
    heads: Iterator[int] = iter(())
    for number, act in enumerate(acts(seed, rank, size, going_back)):
        told(f"begun {rank} {number}")
        match act:
            case ("put", name, version, count):
                run.put(name, values((name, version), count))
            case ("look", name):
                assert len(run[name])
            case ("delete", name):
                run.delete(name)
            case ("rename", a, b):
                run.rename(a, b)
            case ("copy", a, b):
                run.copy(a, b)
            case ("attribute", value):
                run.attrs[f"a{rank}"] = value
            case ("loop", start, stop):
                heads = iter(run.steps(stop, start=start))
            case ("head",):
                next(heads)
            case ("row", step, generation):
                rows.insert([(10 * step + generation,)])
                diagram.append(step, v=10 * step + generation)
            case ("step", step, generation):
                with run.snapshot(step, time=step / 10) as s:
                    part = FIELD // size
                    whole = values(("E", step, generation), FIELD)[rank * part : (rank + 1) * part]
                    s.put("E", whole, offset=(rank * part,), shape=(FIELD,))
                    s.put(f"r{rank}/n", values(("n", step, generation), SPARSE + rank), units="m")
                    if step % 3 == 2 and rank == 0:
                        s.put("large", values(("large", step, generation), LARGE))
            case ("wait", step):
                s.wait()
            case ("flush",):
                run.flush()
            case ("checkpoint", tag):
                run.checkpoint(tag)
            case ("back", tag, _):
                back = run.restart(tag)
                assert back is not None and back.step == BACK[tag]
            case ("close",):
                run.close()
            case _:
                raise AssertionError(act)
        told(f"done {rank} {number}")


@dataclass
class Kept:
    """What small acts of one rank leave."""

    sets: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    rows: list[int] = field(default_factory=list)
    attribute: int | None = None

    def after(self, act: Act) -> Kept:
        """With one more act."""
        sets, rows, attribute = dict(self.sets), self.rows, self.attribute
        match act:
            case ("put", name, version, count):
                sets[name] = (name, version, count)
            case ("delete", name):
                del sets[name]
            case ("rename", a, b):
                sets[b] = sets.pop(a)
            case ("copy", a, b):
                sets[b] = sets[a]
            case ("attribute", value):
                attribute = value
            case ("row", step, generation):
                rows = [*rows, 10 * step + generation]
            case ("back", tag, _):
                rows = [row for row in rows if row // 10 < BACK[tag]]
        return Kept(sets, rows, attribute)


class Promises:
    """What was begun and what was promised by a moment."""

    def __init__(self, size: int, seed: int, going_back: bool) -> None:
        self.size = size
        self.lists = [acts(seed, rank, size, going_back) for rank in range(size)]
        self.states: list[list[Kept]] = []
        for one in self.lists:
            states = [Kept()]
            for act in one:
                states.append(states[-1].after(act))
            self.states.append(states)
        self.begun = [0] * size
        self.floor = [0] * size
        self.steps: set[tuple[int, int]] = set()
        self.tried: set[tuple[int, int]] = set()
        self.tried_back: dict[int, int] = {}
        self.back: dict[int, int] = {}
        self.marked: dict[str, int] = {}

    @property
    def opened(self) -> bool:
        """Whether somebody was promised something: the run has to be there."""
        return any(self.floor) or bool(self.steps)

    def hear(self, line: str) -> None:
        """A rank has told something."""
        word, rank, number = line.split()
        which, at = int(rank), int(number)
        act = self.lists[which][at]
        if word == "begun":
            self.begun[which] = at + 1
            if act[0] == "step":
                self.tried.add((act[1], act[2]))
            elif act[0] == "back":
                self.tried_back[act[2]] = BACK[act[1]]
            return
        before = {(a[1], a[2]) for a in self.lists[which][:at] if a[0] == "step"}
        match act[0]:
            case "flush" | "close":
                self.floor[which] = at + 1
                self.steps |= before
            case "wait":
                self.steps |= {max((s for s in before if s[0] == act[1]), key=lambda s: s[1])}
            case "back":
                self.back[act[2]] = BACK[act[1]]
            case "checkpoint":
                self.marked[act[1]] = BACK[act[1]]

    def faults(self, run: fb.Run) -> Iterator[str]:
        """What is wrong with a run that was opened after the power was lost."""
        yield from self._steps(run)
        for rank in range(self.size):
            yield from self._small(run, rank)
        marks = {c.tag: c.step for c in run.checkpoints if c.kept}
        for tag, step in self.marked.items():
            if marks.get(tag) != step and not any(to < step for to in self.tried_back.values()):
                yield f"the checkpoint {tag!r} of step {step} is not kept: {marks}"

    def _steps(self, run: fb.Run) -> Iterator[str]:
        found: set[tuple[int, int]] = set()
        for snapshot in run.snapshots:
            step = snapshot.step
            sizes = {"E": FIELD, "large": LARGE} | {f"r{r}/n": SPARSE + r for r in range(self.size)}
            names = [n for n in sizes if n != "large" or step % 3 == 2]
            if sorted(snapshot.names()) != sorted(names):
                yield f"step {step} has {snapshot.names()}"
                continue

            generations = [
                g for s, g in self.tried if s == step and _is(snapshot, g, {n: sizes[n] for n in names})
            ]
            if not generations:
                yield f"step {step} is torn"
            found |= {(step, g) for g in generations}
        for generation, to in self.back.items():
            old = sorted(s for s in found if s[0] > to and s[1] < generation)
            if old:
                yield f"steps {old} are listed again after the run went back to {to}"
        for step in sorted(self.steps - found):
            if not any(g > step[1] and to < step[0] for g, to in self.tried_back.items()):
                yield f"step {step} was promised and is not listed: {sorted(found)}"
        for generation, to in self.tried_back.items():
            behind = {s for s in self.steps if s[0] > to and s[1] == generation - 1}
            if behind & found and behind - found:
                yield f"going back to {to} is half done: {sorted(behind & found)} of {sorted(behind)}"

    def _small(self, run: fb.Run, rank: int) -> Iterator[str]:
        sets: dict[str, Any] = {}
        for row in run.list(f"r{rank}/*"):
            try:
                sets[row.name] = run[row.name]
            except fb.Error as e:
                yield f"{row.name} is listed and cannot be read: {e}"
                return
        rows: list[int] = []
        if f"rows{rank}" in run.tables:
            rows = [int(v) for v in run.table(f"rows{rank}").select()["v"]]
        found = sets, rows, run.attrs.get(f"a{rank}")
        if rank == 0 and self.size == 1:
            points = [int(v) for v in run.sql("select value from fb_points order by rowid")["value"]]
            # A row and its point are two acts of the rank.
            if points != rows and points[:-1] != rows and points != rows[:-1]:
                yield f"rows {rows} and points {points}"
        floor, begun = self.floor[rank], self.begun[rank]
        states = self.states[rank][floor : begun + 1]
        # Another rank may have taken the run back already, and with it the rows of this one.
        tags = [tag for generation, tag in enumerate(BACK, 1) if generation in self.tried_back]
        states = states + [state.after(("back", tag, 0)) for state in states for tag in tags]
        if not any(_same(state, *found) for state in states):
            seen = {name: len(a) for name, a in sets.items()}
            least = {name: of[1:] for name, of in states[0].sets.items()}
            yield (
                f"rank {rank}: acts {floor} to {begun} give {least} {states[0].rows} {states[0].attribute} or "
                f"more; the run has {seen} {rows} {found[2]}"
            )


def _is(snapshot: Any, generation: int, sizes: dict[str, int]) -> bool:
    def has(name: str, count: int) -> bool:
        of = name.rpartition("/")[2], snapshot.step, generation
        return np.array_equal(snapshot[name], values(of, count))

    return all(has(name, count) for name, count in sizes.items())


def _same(state: Kept, sets: dict[str, Any], rows: list[int], attribute: Any) -> bool:
    # Whether the row of the step that was gone back to is kept is not this test's affair.
    def but_back(numbers: list[int]) -> list[int]:
        return [n for n in numbers if n // 10 not in BACK.values()]

    return (
        state.attribute == attribute
        and but_back(state.rows) == but_back(rows)
        and state.sets.keys() == sets.keys()
        and all(np.array_equal(sets[name], values(of[:2], of[2])) for name, of in state.sets.items())
    )


def main(path: str, told: str, rank: str, size: str, seed: str, full: str, going_back: str) -> None:
    """One rank, or (rank -1) all of them and the end of their agent."""
    if int(rank) < 0:
        one = [sys.executable, __file__, path, told]
        ranks = [subprocess.Popen([*one, str(r), size, seed, full, going_back]) for r in range(int(size))]
        ended = [r.wait() for r in ranks]
        subprocess.run([os.environ["FOREBAY_EXE"], "down"], check=True)
        sys.exit(max(ended))
    out = os.open(told, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    play(
        path,
        int(rank),
        int(size),
        int(seed),
        full,
        json.loads(going_back),
        lambda line: void(os.write(out, line.encode())),
    )


def void(_: object) -> None:
    """Nothing."""


if __name__ == "__main__":
    main(*sys.argv[1:])
