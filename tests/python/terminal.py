"""The command at a terminal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import termios
import time
from pathlib import Path

from places import Place

DEADLINE = 20.0


class Terminal:
    """The command `forebay` at a terminal of its own: what it draws, and keys that are pressed.

    With `all_of_it` what it prints is drawn, too; else it goes to a pipe.
    """

    def __init__(self, place: Place, *words: str | Path, all_of_it: bool = False) -> None:
        self.master, slave = pty.openpty()
        # Wide enough that nothing is cut off.
        termios.tcsetwinsize(slave, (24, 120))

        def own() -> None:
            # Ctrl-C goes to whom the terminal belongs, and is heard although the tests may ignore it.
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            signal.signal(signal.SIGINT, signal.SIG_DFL)

        self.process = place.forebay(
            *words,
            stdin=slave,
            stdout=slave if all_of_it else subprocess.PIPE,
            stderr=slave,
            env={**place.env, "TERM": "xterm"},
            start_new_session=True,
            preexec_fn=own,
        )
        os.close(slave)
        self.drawn = ""

    def until(self, pattern: str) -> re.Match[str]:
        """Waits until something is drawn."""
        deadline = time.monotonic() + DEADLINE
        while not (found := re.search(pattern, self.drawn)):
            assert time.monotonic() < deadline, f"{pattern!r} was not drawn: {self.drawn!r}"
            if select.select([self.master], [], [], 0.1)[0]:
                # The other end goes with the command.
                with contextlib.suppress(OSError):
                    self.drawn += os.read(self.master, 4096).decode()
        return found

    def ctrl_c(self) -> None:
        """Presses the keys."""
        os.write(self.master, b"\x03")

    def close(self) -> None:
        """The terminal goes."""
        os.close(self.master)
