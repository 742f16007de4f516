"""What the adapters share, for codes that keep their loop to themselves.

::

    the code's loop --step--> adapter --reach--> the head of the run: Save, Stop, parameters, snapshots
                        ^                 |
                        `--- goes on -----+--- Ended, out of the code's loop
"""

from __future__ import annotations

import contextlib
import importlib
import operator
from collections.abc import Callable
from typing import Any

from ._forebay import BadArgument
from ._run import Run


class Ended(Exception):
    """The end of a run that was asked for from outside, by Quit, SIGTERM, the time limit or ``forebay steer RUN end``.

    The adapters raise it out of the loop of a code that knows no other way to be ended; a call-back of your own may raise
    it where :meth:`Run.reach` says no. The state is kept by then. It is no :class:`Error`, for nothing went wrong:
    :func:`ends` makes an end of the block of it.
    """


def ends() -> contextlib.AbstractContextManager[None]:
    """A block that may be ended from outside: ``with fb.ends(): simulation.step(n)``.

    :class:`Ended` ends the block and goes no further; every other exception goes on. Behind it :attr:`Run.ended_by` says
    why, and :attr:`Run.position` where.
    """
    return contextlib.suppress(Ended)


def foreign(module: str, package: str, needs: str) -> Any:
    """A module of the code that an adapter is for; without it an ``ImportError`` that names the package."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        # What the code itself lacks is its own affair.
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise
        raise ImportError(
            f"{needs} needs the package {package}, which is not installed here; run: pip install {package}",
            name=error.name,
        ) from None


def interval(what: str, value: Any, multiple_of: int = 1) -> int:
    """A number of steps between two heads, rows or states."""
    try:
        number = 0 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = 0
    if number < 1 or number % multiple_of:
        known = "a positive integer" if multiple_of == 1 else f"a positive multiple of head = {multiple_of}"
        raise BadArgument(f"{what} = {value!r} is no number of steps; give {known}")
    return number


def alone(run: Run) -> None:
    """Refuses a run of several ranks: the state of the code would be put by each of them."""
    if run.size != 1:
        raise BadArgument(
            f"the run has {run.size} ranks, and an adapter is for one process; use run.reach and run.saves with the part of each rank"
        )


class Heads:
    """The heads of a code that calls back."""

    def __init__(
        self, run: Run, keep: Callable[[int], object], note: Callable[[int], None], every: int, n: int | None
    ) -> None:
        alone(run)
        self._run, self._note, self._n = run, note, n
        self._last: int | None = None
        self._more = True
        run.saves(keep, every=every)

    def reach(self, step: int) -> bool:
        """Does what a head does, once for each step, then notes the step; says whether to go on. The state of step ``n`` is
        kept whatever its number, and that the code ends there is no end from outside.
        """
        if step != self._last:
            if step == self._n:
                self._run.finish()
            self._more = self._run.reach(step) or step == self._n
            self._last = step
            self._note(step)
        return self._more

    def reach_or_end(self, step: int) -> None:
        """The same, and raises :class:`Ended` where the code is not to go on."""
        if not self.reach(step):
            raise Ended(f"the run is to end at step {step}: {self._run.ended_by or 'its loop is finished'}")
