"""Figures of programs of their own, as the suite has them."""

from __future__ import annotations

import json
from typing import Any

Row = dict[str, Any]


def figure(
    part: str,
    what: str,
    who: str,
    value: float,
    unit: str,
    yardstick: tuple[str, float] | None = None,
    note: str = "",
) -> Row:
    """A figure; with a yardstick of the same run and its value the ratio to it."""
    against = {"against": yardstick[0], "ratio": value / yardstick[1]} if yardstick else {}
    told = {"note": note} if note else {}
    return {"part": part, "what": what, "who": who, "value": value, "unit": unit, **told, **against}


def show(rows: list[Row], as_json: bool) -> None:
    """Prints a table and, if asked, a line of JSON behind it."""
    for r in rows:
        ratio = f"{r['ratio']:8.2f} x {r['against']}" if "ratio" in r else r.get("note", "")
        print(f"{r['what']:<60} {r['who']:<22} {r['value']:>9.2f} {r['unit']:<3} {ratio}")
    if as_json:
        print(json.dumps({"rows": rows}))
