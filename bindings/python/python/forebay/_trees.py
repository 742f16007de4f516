"""Trees for notebooks: what a run or a snapshot holds, by the parts of its names."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._snapshots import DataSet

    Branch = dict[str, "Branch | list[DataSet]"]

MOST = 200
"""Data sets that a tree shows; of more it says how many there are."""
OPEN = 20
"""A tree of so many is shown unfolded."""


def _line(data: DataSet, name: str) -> str:
    shape = " × ".join(map(str, data.shape)) or "scalar"
    number = f", set {data.set}" if data.set else ""
    units = f" <i>{escape(data.units)}</i>" if data.units else ""
    return f"<b>{escape(name)}</b>{number} <code>{data.dtype}</code> {shape}{units}"


def _grown(all: Sequence[DataSet]) -> Branch:
    """The data sets by the parts of their names."""
    root: Branch = {}
    for data in all:
        *groups, last = data.name.split("/")
        branch = root
        for group in groups:
            # A group and a data set may have the same name.
            below = branch.setdefault(group + "/", {})
            assert isinstance(below, dict)
            branch = below
        leaves = branch.setdefault(last, [])
        assert isinstance(leaves, list)
        leaves.append(data)
    return root


def _items(branch: Branch, unfolded: str) -> str:
    parts = []
    for name, below in branch.items():
        if isinstance(below, list):
            parts += [f"<li>{_line(data, name)}</li>" for data in below]
        else:
            inner = _items(below, unfolded)
            parts.append(f"<li><details{unfolded}><summary>{escape(name)}</summary>{inner}</details></li>")
    return f'<ul style="margin:0;list-style:none">{"".join(parts)}</ul>'


def tree(head: str, all: Sequence[DataSet], lines: Sequence[str] = ()) -> str:
    """HTML of a tree of data sets below a head line, with lines of text between them."""
    shown = all[:MOST]
    unfolded = " open" if len(shown) <= OPEN else ""
    more = f"<div>and {len(all) - MOST} more</div>" if len(all) > MOST else ""
    text = "".join(f"<div>{escape(line)}</div>" for line in lines)
    return f"<div><div><b>{escape(head)}</b></div>{text}{_items(_grown(shown), unfolded)}{more}</div>"
