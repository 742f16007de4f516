"""One picture of a run: what each writer and each call took, on axes with units, the yardstick and the
machine's own limit as lines beside them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import report
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from report import Figure

# Colours that the colour-blind tell apart (Okabe and Ito).
OURS, OTHERS, MACHINE, LINE = "#0072B2", "#8A8A8A", "#222222", "#D55E00"
PLAIN = {
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "x",
    "grid.color": "#E3E3E3",
    "axes.axisbelow": True,
    "ytick.major.size": 0,
}


def _legend(ax: Axes, columns: int = 1) -> None:
    """Below the axes."""
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=columns, frameon=False, fontsize=7.5)


def _colour(figure: Figure) -> str:
    return OURS if figure.ours() else OTHERS


def _log_axis(ax: Axes, unit: str) -> None:
    ax.set_xscale("log")
    ax.set_xlabel(unit)
    ax.xaxis.set_major_locator(LogLocator(10))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())


def _rows(ax: Axes, labels: Sequence[str], ours: Sequence[bool]) -> None:
    ax.set_yticks(range(len(labels)), labels)
    ax.set_ylim(len(labels) - 0.4, -0.6)
    for tick, mine in zip(ax.get_yticklabels(), ours, strict=True):
        tick.set_color(OURS if mine else "black")


def _value(ax: Axes, x: float, y: float, text: str) -> None:
    ax.annotate(text, (x, y), xytext=(7, 0), textcoords="offset points", va="center", fontsize=7.5)


def _beside(ax: Axes, y: float, text: str, weight: str = "normal") -> None:
    """In the column right of the axes."""
    ax.annotate(
        text,
        (1.0, y),
        xycoords=("axes fraction", "data"),
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
        fontsize=7.5,
        fontweight=weight,
    )


def _line(ax: Axes, x: float, unit: str, text: str, style: str) -> None:
    label = f"{text}: {report.number(x)} {unit}"
    ax.axvline(x, color=LINE, linestyle=style, linewidth=1.2, zorder=1, label=label)


def snapshots(ax: Axes, figures: list[Figure]) -> None:
    """Each step a faint dot, the mean a full one."""
    lines = {f.who: f for f in figures if f.who in ("warm memcpy", "streaming stores")}
    rows = [f for f in figures if f.who not in lines]
    _line(ax, lines["warm memcpy"].value, "ms", "warm memcpy", "-")
    _line(ax, lines["streaming stores"].value, "ms", "limit, streaming stores", ":")
    right = max(max(f.samples) for f in rows)
    for y, f in enumerate(rows):
        ax.plot(
            f.samples, [y] * len(f.samples), "o", color=_colour(f), alpha=0.3, markersize=4, markeredgewidth=0
        )
        ax.plot(f.value, y, "D", color=_colour(f), markersize=6)
        if f.ratio is not None:
            _beside(ax, y, f"{report.number(f.value)} ms  ×{report.number(f.ratio)}")
    _log_axis(ax, "visible time of a step of 256 MiB [ms]; each step, and the mean")
    ax.set_xlim(right=right * 1.3)
    _rows(ax, [f.who for f in rows], [f.ours() for f in rows])
    _beside(ax, -0.5, "mean  × memcpy", "bold")
    ax.set_title("a  Snapshots while a simulation computes")
    _legend(ax, 2)


def bars(ax: Axes, figures: list[Figure], title: str) -> None:
    """Rates beside the limit."""
    limit = next(f for f in figures if f.who == "raw direct writes")
    rows = [f for f in figures if f is not limit]
    ax.barh(range(len(rows)), [f.value for f in rows], color=[_colour(f) for f in rows], height=0.6)
    _line(ax, limit.value, "GB/s", "limit, raw direct writes", ":")
    for y, f in enumerate(rows):
        _value(ax, f.value, y, f"{report.number(f.value)}  ×{report.number(f.ratio or 0)}")
    ax.set_xlim(0, 1.45 * max(f.value for f in [*rows, limit]))
    ax.set_xlabel("rate until durable [GB/s]")
    _rows(ax, [f.who for f in rows], [f.ours() for f in rows])
    ax.set_title(title)
    _legend(ax)


def small(ax: Axes, figures: list[Figure]) -> None:
    """Put, put until durable, and get, of each writer."""
    marks = {"put of": ("o", "put"), "put, until": ("s", "put, until durable"), "get": ("^", "get")}
    names = list(dict.fromkeys(f.who for f in figures))
    for start, (mark, label) in marks.items():
        rows = [f for f in figures if f.what.startswith(start)]
        for f in rows:
            colour = MACHINE if f.who.startswith("a log") else _colour(f)
            ax.plot(
                f.value,
                names.index(f.who),
                mark,
                color=colour,
                markersize=6,
                fillstyle="none" if mark == "s" else "full",
            )
        ax.plot(
            [],
            [],
            mark,
            color=MACHINE,
            label=label,
            fillstyle="none" if mark == "s" else "full",
            linestyle="none",
        )
    for y, who in enumerate(names):
        put = next(f for f in figures if f.who == who and f.what.startswith("put of"))
        get = next(f for f in figures if f.who == who and f.what.startswith("get"))
        _beside(ax, y, f"{report.number(put.value)} / {report.number(get.value)}")
    _log_axis(ax, "time of one data set of 1..1000 i32 [µs]")
    _rows(
        ax,
        [n.replace("a log of one's own", "limit: a bare log") for n in names],
        [n.startswith("Forebay") for n in names],
    )
    _beside(ax, -0.5, "put / get [µs]", "bold")
    ax.set_title("c  Small data sets, one by one")
    _legend(ax, 3)


def processes(ax: Axes, figures: list[Figure]) -> None:
    """1, 2, 4 processes beside as many copies."""
    rows = [f for f in figures if f.ours()]
    copies = [f for f in figures if not f.ours()]
    for y, (f, copy) in enumerate(zip(rows, copies, strict=True)):
        for figure, off, colour in ((f, -0.14, OURS), (copy, 0.14, LINE)):
            ax.plot(
                figure.samples,
                [y + off] * len(figure.samples),
                "o",
                color=colour,
                alpha=0.25,
                markersize=4,
                markeredgewidth=0,
            )
            ax.plot(figure.value, y + off, "D", color=colour, markersize=6)
        _beside(ax, y, f"×{report.number(f.ratio or 0)}")
    for label, colour in (("Forebay, agent", OURS), ("warm memcpy, as many at once", LINE)):
        ax.plot([], [], "D", color=colour, label=label, linestyle="none")
    _log_axis(ax, "visible time of a step [ms]; each step, and the mean")
    _rows(ax, [f.what.split(", ")[1] for f in rows], [True] * len(rows))
    _beside(ax, -0.5, "× memcpy", "bold")
    ax.set_title("d  256 MiB from several processes")
    _legend(ax, 2)


def calls(ax: Axes, figures: list[Figure]) -> None:
    """Void calls beside the machine's ping-pongs."""
    machine = {f.what: f.value for f in figures if f.who == "the machine" and f.unit == "us"}
    rows = [
        f for f in figures if f.ours() and "void call" in f.what and f.unit == "us" and "median" in f.what
    ]
    for what, style in (("spin ping-pong", ":"), ("futex round trip", "-.")):
        if what in machine:
            _line(ax, machine[what], "µs", what, style)
    for y, f in enumerate(rows):
        ax.plot(f.value, y, "D", color=OURS, markersize=6)
        _value(ax, f.value, y, f"{report.number(f.value)}")
    _log_axis(ax, "time of a call between two processes [µs]")
    low = min([*machine.values(), *(f.value for f in rows)])
    ax.set_xlim(low / 2, 6 * max(f.value for f in rows))
    short = [
        f"{f.who.removeprefix('Forebay, ')}: "
        + f.what.replace("void call", "").strip(", ").removeprefix("to a Rust service, ")
        for f in rows
    ]
    _rows(ax, short, [True] * len(rows))
    ax.set_title("e  Void calls")
    _legend(ax, 2)


def distances(ax: Axes, figures: list[Figure]) -> None:
    """How far from what the machine can do."""
    short = {
        "small data sets": lambda f: f"small {f.what.replace(' of 1..1000 i32', '')}",
        "snapshots": lambda f: "snapshot visible",
        "back to back": lambda f: "back to back",
        "calls": lambda f: f.what,
    }
    chosen = (
        "put",
        "snapshot",
        "back",
        "void call, active, median",
        "void call after 10 ms of silence, median",
        "call with 64 MiB",
    )
    rows = []
    for f in figures:
        if not f.ours() or f.limit is None or f.part not in short:
            continue
        name = short[f.part](f)
        if f.part == "calls" and not any(name.startswith(c) for c in chosen):
            continue
        rows.append((f"{name} ({f.who.removeprefix('Forebay, ')})", f.limit))
    rows.sort(key=lambda r: r[1])
    ax.axvline(1, color=LINE, linestyle=":", linewidth=1.2)
    for y, (_, limit) in enumerate(rows):
        ax.plot([1, limit], [y, y], color=OURS, linewidth=1.2, alpha=0.5)
        ax.plot(limit, y, "D", color=OURS, markersize=5)
        _value(ax, max(limit, 1), y, report.number(limit))
    _log_axis(ax, "time over that of the machine's own limit [1]")
    ax.set_xlim(min(0.5, 0.7 * rows[0][1]), 2.5 * rows[-1][1])
    _rows(ax, [name for name, _ in rows], [True] * len(rows))
    ax.set_title("f  Distance from the physical limit")


def draw(figures: list[Figure], facts: dict[str, object], to: Path) -> None:
    """Draws what there is; a part that was not measured leaves its place empty."""
    parts = {part: [f for f in figures if f.part == part] for part in dict.fromkeys(f.part for f in figures)}
    with plt.rc_context(PLAIN):
        picture, axes = plt.subplots(3, 2, figsize=(12.5, 11))
        places = {
            "snapshots": (axes[0][0], snapshots),
            "back to back": (
                axes[0][1],
                lambda ax, f: bars(ax, f, "b  Back to back, the disk being the limit"),
            ),
            "small data sets": (axes[1][0], small),
            "processes": (axes[1][1], processes),
            "calls": (axes[2][0], calls),
        }
        for part, (ax, drawing) in places.items():
            if part in parts:
                drawing(ax, parts[part])
            else:
                ax.set_axis_off()
        if parts.keys() & {"snapshots", "back to back", "small data sets", "calls"}:
            distances(axes[2][1], figures)
        else:
            axes[2][1].set_axis_off()
        picture.text(
            0.01, 0.004, textwrap.fill(report.sentence(facts), 190), fontsize=7, color="#444444", va="bottom"
        )
        picture.tight_layout(rect=(0, 0.03, 1, 1), h_pad=2.5, w_pad=2.5)
        picture.savefig(to, dpi=130)
        plt.close(picture)
