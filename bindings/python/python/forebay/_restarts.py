"""A server in a process of its own, which is started again when something has ended it.

::

    this process --fork--> child: makes the server, serves; ends with this process
         ^                   |
         `-- a pause, fork --' a signal or an exit status has ended it
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from . import _forebay

ENDS = (signal.SIGINT, signal.SIGTERM)
"""The signals that ask for an end."""
LONG_LIFE = 60.0
"""Seconds of life after which the pauses begin anew with the shortest one."""
VAIN = 3
"""So often it may end before it has served at all."""

Serve = Callable[[Callable[[int], None]], None]
"""What a child does: it serves until it is told to stop, and says with the number of its life when clients find it."""


class _Child:
    """One life of the server."""

    def __init__(self, serve: Serve) -> None:
        self.began = time.monotonic()
        said, say = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(said)
            _live(parent, say, serve)
        os.close(say)
        self._said = said
        self._process = os.pidfd_open(self._pid)

    def end(self) -> None:
        """Asks it to end."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._process, signal.SIGTERM)

    def wait(self) -> int:
        """Waits for its end; the status as `os.waitstatus_to_exitcode` gives it."""
        _, status = os.waitpid(self._pid, 0)
        return os.waitstatus_to_exitcode(status)

    def heard(self) -> str:
        """What it has said: the number of its life if it served, or why it could not."""
        os.close(self._process)
        with os.fdopen(self._said) as said:
            return said.read()


def _live(parent: int, say: int, serve: Serve) -> NoReturn:
    """The child: serves, and ends without what the program does at its end, which is the parent's."""
    status = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
        _forebay.stop_with_parent(parent)
        serve(lambda life: _write(say, f"life {life}\n"))
        status = 0
    except KeyboardInterrupt:
        status = 130
    except _forebay.Error as error:
        _write(say, f"error {error.code} {error}\n")
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _write(descriptor: int, text: str) -> None:
    os.write(descriptor, text.encode())


def keep(name: str, serve: Serve, broker: str | None) -> None:
    """Has `serve` done by child processes, one after the other, until one ends by itself or a signal comes.

    Raises what the first one said when it could not serve.
    """
    if threading.current_thread() is not threading.main_thread():
        raise _forebay.BadArgument(
            "restart = True in a thread; serve from the main thread, which hears signals"
        )
    woken, wake = os.pipe()
    asked = False
    child: _Child | None = None

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        os.write(wake, b"x")
        if child is not None:
            child.end()

    before = {number: signal.signal(number, end) for number in ENDS}
    restarts, vain = 0, 0
    try:
        while not asked:
            # What comes meanwhile is the child's, too: it is heard when that can be told so.
            signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
            live = child = _Child(serve)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
            status = live.wait()
            child = None
            lived, heard = time.monotonic() - live.began, live.heard()
            if asked or status == 0:
                return
            vain = 0 if heard.startswith("life") else vain + 1
            how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
            if vain:
                _give_up(name, heard, how, status, vain)
            else:
                _forebay.tell_of_death(broker, int(heard.split()[1]), how)
            restarts = 0 if lived > LONG_LIFE else restarts + 1
            pause = _forebay.pause_before(restarts)
            text = f"forebay: the process of {name} has died: {how}; it is started again in {pause:.1f} s\n"
            os.write(2, text.encode())
            select.select([woken], [], [], pause)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(woken)
        os.close(wake)


def _give_up(name: str, heard: str, how: str, status: int, vain: int) -> None:
    """It has not served: raises what it said, or ends as it did; another try if only a signal has ended it."""
    if heard.startswith("error"):
        _, code, text = heard.rstrip("\n").split(" ", 2)
        raise getattr(_forebay, code)(text)
    if status > 0:
        # It has printed why.
        raise SystemExit(status)
    if vain == VAIN:
        raise _forebay.Internal(f"the process of {name} died {VAIN} times before it served ({how})")
