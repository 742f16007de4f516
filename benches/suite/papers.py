"""A picture for each figure about calls: void calls, a matrix product, transfers, programs on several servers, maps.

Rows of points where each is one value, curves where a figure has its place on an axis (`at`).
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import report
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullLocator
from picture import LINE, OTHERS, OURS, PLAIN
from report import Figure

# Of curves: ours in shades of blue, others in warm and grey ones.
BLUES = ("#0072B2", "#56B4E9", "#00456B", "#8FC1E3")
WARM = ("#D55E00", "#8A8A8A", "#E69F00", "#444444", "#CC79A7", "#009E73")
MARKS = "osD^vP*X"


def rows(ax: Axes, figures: Sequence[Figure], title: str) -> None:
    """One value each, the fastest on top, on a logarithmic axis."""
    found = sorted((f for f in figures if not f.absent), key=lambda f: f.value)
    for y, f in enumerate(found):
        colour = OURS if f.ours() else OTHERS
        if f.samples:
            ax.plot(
                f.samples, [y] * len(f.samples), "o", color=colour, alpha=0.3, markersize=4, markeredgewidth=0
            )
        ax.plot(f.value, y, "D", color=colour, markersize=6)
        ax.annotate(
            report.number(f.value),
            (f.value, y),
            xytext=(9, 0),
            textcoords="offset points",
            va="center",
            fontsize=7.5,
        )
    limits = {f.value / f.limit for f in found if f.limit}
    if limits:
        ax.axvline(sum(limits) / len(limits), color=LINE, linestyle=":", linewidth=1.2)
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    ax.set_xlabel(f"[{found[0].unit}]" if found else "")
    ax.set_yticks(range(len(found)), [f.who for f in found])
    for tick, f in zip(ax.get_yticklabels(), found, strict=True):
        tick.set_color(OURS if f.ours() else "black")
    ax.set_ylim(len(found) - 0.4, -0.6)
    ax.margins(x=0.12)
    ax.set_title(title)


def curves(ax: Axes, figures: Sequence[Figure], title: str, along: str) -> None:
    """A line for each who, over the places of its figures."""
    blues, warm = iter(BLUES * 3), iter(WARM * 3)
    found = [f for f in figures if f.at is not None and not f.absent]
    for n, who in enumerate(dict.fromkeys(f.who for f in found)):
        points = sorted((f.at or 0.0, f.value) for f in found if f.who == who)
        colour = next(blues) if who.startswith(report.OURS) else next(warm)
        style = "-" if who.startswith(report.OURS) else "--"
        ax.plot(
            *zip(*points, strict=True),
            style,
            marker=MARKS[n % len(MARKS)],
            color=colour,
            label=who,
            markersize=4,
            linewidth=1.3,
        )
    places = sorted({f.at or 0.0 for f in found})
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xticks(places, [report.place(p) for p in places])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    ax.grid(True, axis="both")
    ax.set_xlabel(along)
    ax.set_ylabel(found[0].unit if found else "")
    ax.set_title(title)
    ax.legend(frameon=False, fontsize=7)


# Of each part: what a curve runs along.
ALONG = {
    "dgemm": "n, of matrices n x n",
    "transfers": "bytes",
    "applications": "servers, or ranks",
    "maps": "",
    "void calls": "",
    "beside": "clients at once",
    "writers": "processes of one writer",
}


def draw(figures: Sequence[Figure], facts: dict[str, object], folder: Path) -> list[Path]:
    """Writes a picture of each part that was measured; their paths."""
    made = []
    for part, along in ALONG.items():
        found = [f for f in figures if f.part == part and not f.absent]
        panels: dict[tuple[str, str], list[Figure]] = {}
        for f in found:
            # A panel for each kind of work, and in it for each unit.
            panels.setdefault((f.what, f.unit), []).append(f)
        panels = {key: its for key, its in panels.items() if len(its) > 1}
        if not panels:
            continue
        with plt.rc_context(PLAIN):
            down = (len(panels) + 1) // 2
            sheet, axes = plt.subplots(down, 2, figsize=(12.5, 3.9 * down), squeeze=False)
            for ax in axes.flat[len(panels) :]:
                ax.set_axis_off()
            for letter, (ax, ((what, _), its)) in enumerate(zip(axes.flat, panels.items(), strict=False)):
                title = f"{chr(ord('a') + letter)}  {what}"
                if all(f.at is not None for f in its):
                    curves(ax, its, title, along)
                else:
                    rows(ax, its, title)
            text = textwrap.fill(report.sentence(facts), 190)
            sheet.text(0.01, 0.004, text, fontsize=7, color="#444444", va="bottom")
            sheet.tight_layout(rect=(0, 0.3 / (3.9 * down), 1, 1), h_pad=2.0, w_pad=2.0)
            path = folder / f"bench-{part.replace(' ', '-')}.png"
            sheet.savefig(path, dpi=130)
            plt.close(sheet)
            made.append(path)
    return made
