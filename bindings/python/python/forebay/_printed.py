"""What a service prints, told from what others print meanwhile: whoever calls it gets the end of that if it fails.

print -> sys.stdout, which is one of ours while a server runs -> the stream behind it
                     |
                     of a thread that runs a service: kept until the next call of that thread
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from typing import Any, TextIO

from . import _forebay

_LINES = 20
_LETTERS = 4096


class _Kept(threading.local):
    """What the thread's call has printed; the number tells whose it is."""

    number = 0
    texts: tuple[str, str] = ("", "")


_kept = _Kept()


def _keep(which: int, text: str) -> None:
    number = _forebay.serving()
    if number == 0:
        return
    if _kept.number != number:
        _kept.number, _kept.texts = number, ("", "")
    texts = list(_kept.texts)
    texts[which] = (texts[which] + text)[-2 * _LETTERS :]
    _kept.texts = (texts[0], texts[1])


class _Stream:
    """A stream of the program that keeps what services print; all else is its own affair."""

    def __init__(self, under: TextIO, which: int) -> None:
        self._under = under
        self._which = which

    def write(self, text: str) -> int:
        """Writes it, and keeps the end."""
        _keep(self._which, text)
        return self._under.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Writes them all."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._under, name)


def listen() -> None:
    """From now on what services print is kept."""
    for which, name in enumerate(("stdout", "stderr")):
        under = getattr(sys, name)
        if under is not None and not isinstance(under, _Stream):
            setattr(sys, name, _Stream(under, which))


def last(number: int) -> tuple[str, str]:
    """The last lines that the call of that number has printed in this thread."""
    if _kept.number != number:
        return "", ""
    out, err = ("".join(text.splitlines(keepends=True)[-_LINES:]) for text in _kept.texts)
    return out, err
