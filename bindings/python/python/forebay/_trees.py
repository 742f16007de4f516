"""Trees for notebooks: what a run or a snapshot holds, by the parts of its names."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._snapshots import DataSet

    Branch = dict[str, "Branch | list[DataSet]"]

MOST = 200
"""Names that a tree shows; of more it says how many there are."""
OPEN = 20
"""A tree of so many is shown unfolded."""


def _line(sets: Sequence[DataSet], name: str) -> str:
    """The sets of a name, described by the first of them."""
    data, last = sets[0], sets[-1].set
    shape = " × ".join(map(str, data.shape)) or "scalar"
    number = f", set {data.set}" if data.set else ""
    if len(sets) > 1:
        number = f", {len(sets)} sets from {data.set} to {last}"
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
            parts.append(f"<li>{_line(below, name)}</li>")
        else:
            inner = _items(below, unfolded)
            parts.append(f"<li><details{unfolded}><summary>{escape(name)}</summary>{inner}</details></li>")
    return f'<ul style="margin:0;list-style:none">{"".join(parts)}</ul>'


def tree(head: str, all: Sequence[DataSet], lines: Sequence[str] = ()) -> str:
    """HTML of a tree of data sets below a head line, with lines of text between them."""
    names = list(dict.fromkeys(data.name for data in all))
    unfolded = " open" if len(names) <= OPEN else ""
    more = f"<div>and {len(names) - MOST} more</div>" if len(names) > MOST else ""
    seen = set(names[:MOST])
    shown = [data for data in all if data.name in seen]
    text = "".join(f"<div>{escape(line)}</div>" for line in lines)
    return f"<div><div><b>{escape(head)}</b></div>{text}{_items(_grown(shown), unfolded)}{more}</div>"
