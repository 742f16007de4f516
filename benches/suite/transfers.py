"""Bytes to a server and back: arrays that it holds, and arguments of calls, from 4 bytes to 64 MiB."""

from __future__ import annotations

from pathlib import Path

import rivals
from programs import alone
from report import Figure

PART = "transfers"
WAYS = {
    "put": "Forebay, put of an array that is held",
    "get": "Forebay, get of it",
    "call": "Forebay, argument of a call",
    "copy": "memcpy, warm",
    "socket": "Unix socket",
}
LIMIT, YARDSTICK = "copy", "socket"


def transfers(built: Path, environment: dict[str, str], quick: bool) -> list[Figure]:
    """All figures: rates, and times of the small ones."""
    broker = rivals.broker(environment)
    program = rivals.ours(built, "transfer_forebay.c")
    with rivals.served([program, broker, "serve"], environment=environment):
        found = alone([program, broker, "0.1" if quick else "0.6"], environment)
    rates, times = [], []
    for size, took in found.items():
        n = int(size)
        for key, who in WAYS.items():
            value, slower = took[key], {}
            if who.startswith("Forebay"):
                slower = {
                    "against": WAYS[YARDSTICK],
                    "ratio": value / took[YARDSTICK],
                    "limit": value / took[LIMIT],
                    "note": f"{n} B; limit: {WAYS[LIMIT]}",
                }
            rates.append(Figure(PART, "bytes there or back", who, n / value / 1e3, "GB/s", at=n, **slower))
            if n == 4 and key != LIMIT:
                times.append(Figure(PART, "4 bytes there or back, one behind the other", who, value, "us"))
    return rates + times
