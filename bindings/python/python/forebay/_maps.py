"""Many calls of one service."""

from __future__ import annotations

import itertools
import operator
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn

from . import _forebay
from ._context import Context

if TYPE_CHECKING:
    from typing_extensions import Self

Errors = Literal["raise", "yield"]
"""What becomes of a task that fails."""

_PAINT = 0.1
_LINE = 10.0
_SHOWN = 200


class Progress(NamedTuple):
    """How far a map has come."""

    done: int
    """Tasks that have results."""
    failed: int
    """Tasks that have failed or were cancelled."""
    under_way: int
    """Tasks at servers."""
    pulled: int
    """Inputs taken so far."""
    total: int | None
    """All inputs, where their number is known."""
    rate: float
    """Tasks that ended, per second."""
    eta: float | None
    """Seconds that the rest takes at this rate."""


def _index(index: int) -> int:
    if not 0 <= index < 1 << 63:
        raise _forebay.BadArgument(f"index={index!r} is no task; they count from 0")
    return index


class Map(Iterator[Any], Context):
    """The results of many calls of one service, in the order of the inputs or as they come; made by
    :meth:`Client.map`. Left early (``break``, an exception, :meth:`close`), what has not begun is not run.
    """

    def __init__(
        self,
        client: _forebay.Client,
        name: str,
        iterables: tuple[Iterable[Any], ...],
        *,
        window: int | None,
        ordered: bool,
        errors: Errors,
        progress: bool | Callable[[Progress], object] | None,
        strict: bool,
        memory: int | None,
        tail: bool,
        info: str,
    ) -> None:
        if errors not in ("raise", "yield"):
            raise _forebay.BadArgument(f"errors={errors!r} is not known; use 'raise' or 'yield'")
        if not iterables:
            raise _forebay.BadArgument(
                f"{name}: a map takes at least one iterable, as many as a task has arguments"
            )
        for number, iterable in enumerate(iterables, 1):
            if isinstance(iterable, str):
                raise _forebay.BadArgument(
                    f"{name}: argument {number} is the text {_cut(iterable)}, which is iterated by its letters; write "
                    f"[{_cut(iterable)}] for one task, itertools.repeat(...) for all, or list(...) if letters are meant"
                )
            if not hasattr(iterable, "__iter__") and not hasattr(iterable, "__getitem__"):
                kind = type(iterable).__name__
                raise _forebay.BadArgument(
                    f"{name}: argument {number} is {kind}, and a map takes iterables; write itertools.repeat({iterable!r})"
                )
        if not isinstance(progress, bool) and progress is not None and not callable(progress):
            raise _forebay.BadArgument(f"progress={progress!r} is no function; give one, True or False")
        if window is not None and not 1 <= window < 1 << 32:
            raise _forebay.BadArgument(
                f"window={window!r} tasks are not possible; give at least 1, or leave it out"
            )
        if memory is not None and not 0 < memory < 1 << 63:
            raise _forebay.BadArgument(f"memory={memory!r} is no number of bytes; give some, or leave it out")
        self._bag = _forebay.Bag(client, name, (ordered, window, memory, tail), info)
        self._name = name
        self._turn = threading.Lock()
        self._iterators = [iter(iterable) for iterable in iterables]
        self._zip = zip(*self._iterators, strict=False)
        self._strict = strict
        self._errors = errors
        self._raised: BaseException | None = None
        self._inputs: dict[int, tuple[Any, ...]] = {}
        self._failed: list[BaseException] = []
        self._begun = False
        self._over = False
        self._bar = _Bar(name, progress, _total(iterables)) if progress else None
        self.index: int | None = None
        """Which input the last result belongs to, counted from 0."""
        self.input: Any = None
        """The input that the last result belongs to; a tuple if a task has several."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        if self._over:
            raise StopIteration
        if not self._turn.acquire(blocking=False):
            # The mistake of this thread ends nothing of the other one's.
            raise _forebay.BadArgument(
                f"another thread takes results of the map of {self._name} just now; take them in one thread"
            )
        try:
            return self._next()
        except BaseException:
            self.close()
            raise
        finally:
            self._turn.release()

    def _next(self) -> Any:
        bag = self._bag
        if not self._begun:
            self._begin()
        while True:
            step = bag.step()
            if step is True:
                self._pull()
            elif step is None:
                self._finish()
            elif step is False:
                self._show()
            else:
                index, failed, value = step
                self._show()
                self.index = index
                given = self._inputs.pop(index)
                self.input = given[0] if len(given) == 1 else given
                if failed:
                    self._tell(value)
                    if self._errors == "raise":
                        raise value
                return value

    def _begin(self) -> None:
        """Nothing is asked for input that no service takes; without any input no service is asked for."""
        first = self._take()
        if first is not None:
            signature, count = self._bag.begin()
            if count != len(self._iterators):
                raise _forebay.BadArgument(
                    f"{self._name}: a task takes {count} arguments and {len(self._iterators)} iterables were given; "
                    f"its signature is {signature}"
                )
            self._add(first)
        self._begun = True

    def _pull(self) -> None:
        given = self._take()
        if given is not None:
            self._add(given)

    def _add(self, given: tuple[Any, ...]) -> None:
        self._inputs[self._bag.add(given)] = given

    def _take(self) -> tuple[Any, ...] | None:
        """The next input; at its end, or when it raises, there is no more."""
        try:
            if not self._strict:
                return next(self._zip)
            return self._take_strictly()
        except StopIteration:
            pass
        except Exception as error:
            if hasattr(error, "add_note"):
                error.add_note(f"raised by the iterable after {self._bag.counts()[0]} inputs")
            self._raised = error
        self._bag.end()
        return None

    def _take_strictly(self) -> tuple[Any, ...]:
        given = []
        ended = []
        for number, iterator in enumerate(self._iterators, 1):
            try:
                given.append(next(iterator))
            except StopIteration:
                ended.append(number)
        if not ended:
            return tuple(given)
        if given:
            numbers = ", ".join(map(str, ended))
            raise _forebay.BadArgument(
                f"{self._name}: iterable {numbers} ends after {self._bag.counts()[0]} inputs, the others do not; "
                "give equally many, or leave strict out"
            )
        raise StopIteration

    def _tell(self, error: Any) -> None:
        error.args = (f"task {self.index}, input {_cut(self.input)}: {error}",)
        error.index = self.index
        error.input = self.input
        if len(self._failed) < 10_000:
            self._failed.append(error)

    def _finish(self) -> NoReturn:
        self._over = True
        self._inputs.clear()
        if self._bar is not None:
            self._bar.end(self._bag.counts())
        if self._raised is not None:
            raise self._raised
        raise StopIteration

    def _show(self) -> None:
        if self._bar is not None:
            self._bar.show(self._bag.counts)

    @property
    def counts(self) -> dict[str, int]:
        """How many tasks were pulled, are under way at servers, are done, failed or cancelled."""
        names = ("pulled", "under_way", "done", "failed", "cancelled")
        return dict(zip(names, self._bag.counts(), strict=True))

    def status(self, index: int) -> str | None:
        """Where a task is: ``open``, ``done``, ``failed`` or ``cancelled``; None if no such input was taken yet."""
        return self._bag.state(_index(index))

    def failed(self) -> list[BaseException]:
        """The exceptions that were handed out so far, each with ``index`` and ``input``; the first 10,000."""
        return list(self._failed)

    def cancel(self, index: int) -> bool:
        """Gives a task up; True if it was not over. It ends with ``Cancelled`` in its place."""
        return self._bag.cancel(_index(index))

    def close(self) -> None:
        """Gives all tasks up that are not over. What has not begun will not be run."""
        if not self._over and self._bar is not None:
            self._bar.end(self._bag.counts())
        self._over = True
        self._bag.close()
        self._inputs.clear()

    def _leave(self, error: BaseException | None) -> None:
        self.close()

    def __repr__(self) -> str:
        counts = ", ".join(f"{value} {name}" for name, value in self.counts.items() if value)
        return f"<forebay.Map {self._name!r}{': ' if counts else ''}{counts}>"


def _cut(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."


def _total(iterables: tuple[Iterable[Any], ...]) -> int | None:
    """The number of tasks; None where an iterable does not say how long it is."""
    endless = (itertools.repeat, itertools.count, itertools.cycle)
    lengths = [operator.length_hint(it, -1) for it in iterables]
    known = [length for length in lengths if length >= 0]
    if not all(length >= 0 or isinstance(it, endless) for length, it in zip(lengths, iterables, strict=True)):
        return None
    return min(known, default=None)


class _Bar:
    """Tells of the progress: a bar on a terminal, a line now and then elsewhere, or a function that is called."""

    def __init__(self, name: str, told: bool | Callable[[Progress], object], total: int | None) -> None:
        self._name = name
        self._told = told if callable(told) else None
        self._total = total
        self._began = time.monotonic()
        self._pause = _PAINT if self._told or sys.stderr.isatty() else _LINE
        self._next = self._began + self._pause

    def show(self, counts: Callable[[], tuple[int, int, int, int, int]]) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + self._pause
            self._paint(counts(), last=False)

    def end(self, counts: tuple[int, int, int, int, int]) -> None:
        self._paint(counts, last=True)

    def _paint(self, counts: tuple[int, int, int, int, int], *, last: bool) -> None:
        pulled, under_way, done, failed, cancelled = counts
        passed = max(time.monotonic() - self._began, 1e-9)
        ended = done + failed + cancelled
        rate = ended / passed
        left = None if self._total is None or not rate else (self._total - ended) / rate
        if self._told is not None:
            self._told(Progress(done, failed + cancelled, under_way, pulled, self._total, rate, left))
            return
        of = "" if self._total is None else f"/{self._total}"
        text = f"{self._name}: {ended}{of} tasks, {_rate(rate)}"
        if failed + cancelled:
            text += f", {failed + cancelled} failed"
        if left is not None and not last:
            text += f", {_time(left)} left"
        if not sys.stderr.isatty():
            print(text, file=sys.stderr, flush=True)
            return
        if self._total:
            width = 24
            full = width * ended // self._total
            text = f"[{'#' * full}{'.' * (width - full)}] {text}"
        sys.stderr.write(f"\r\x1b[K{text}" + ("\n" if last else ""))
        sys.stderr.flush()


def _rate(rate: float) -> str:
    return f"{rate:.0f}/s" if rate >= 10 else f"{rate:.2g}/s"


def _time(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
