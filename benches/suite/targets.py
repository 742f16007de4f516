"""What Forebay set itself, and whether a run holds it."""

from __future__ import annotations

from dataclasses import dataclass

from report import ABOVE, Figure, number, place


@dataclass(frozen=True)
class Target:
    """A figure, by part, beginning of its text and owner, and the most it may be."""

    part: str
    what: str
    who: str
    most: float
    # Of "value" (in the figure's unit), "ratio" (to its yardstick), "limit" (to the machine's own).
    by: str = "value"
    # For machines that are slower themselves: held, too, when the ratio is at most this.
    or_ratio: float | None = None
    # Of the figures of a curve, those whose place is this or further on; all if there is none.
    from_: float | None = None
    # Only beside this yardstick, where a figure has several.
    against: str = ""

    def held(self, figure: Figure) -> bool:
        """Whether a figure is no more than what was wanted."""
        if self.or_ratio is not None and figure.ratio is not None and figure.ratio <= self.or_ratio:
            return True
        return bool(getattr(figure, self.by) <= self.most)


# Of the works on several servers.
WORKS = ("forces among", "product of matrices", "dot product", "picture by rays")
SLOWED = "one server at half its speed: "
STATIC, WORKERS = "Open MPI, equal parts", "Open MPI, master and workers"

TARGETS = (
    Target("calls", "void call, active, median", "Forebay, C", 0.5, or_ratio=3.0),
    Target("calls", "void call to a Rust service, median", "Forebay, Python", 1.0),
    Target("calls", "void call after 10 ms of silence, median", "Forebay, Rust", 1.2, "ratio"),
    Target("calls", "call with 64 MiB in", "Forebay, Rust", 1.11, "ratio"),
    Target("void calls", "synchronous call", "Forebay, C", 0.4),
    Target("void calls", "synchronous call", "Forebay, Python", 1.0),
    # 3.5 million in a second from one client.
    Target("void calls", "each of many calls under way", "Forebay, C", 0.286),
    Target("void calls", "each of many calls under way", "Forebay, Rust", 0.286),
    # 0.9 of the product here; by value with two threads of what the copies leave of it.
    Target("dgemm", "product of n x n", "Forebay, by reference", 1.11, "ratio", from_=64),
    Target("dgemm", "product of n x n, 1 thread", "Forebay, by value", 1.11, "ratio", from_=256),
    Target("dgemm", "product of n x n, 2 threads", "Forebay, by value", 1.11, "limit", from_=256),
    # 0.95 of a copy in warm memory.
    Target("transfers", "bytes there or back", "Forebay, argument of a call", 1.05, "limit", from_=1 << 20),
    Target(
        "transfers",
        "bytes there or back",
        "Forebay, put of an array that is held",
        1.05,
        "limit",
        from_=1 << 20,
    ),
    *(Target("applications", what, "Forebay", 1.02, "ratio", against=STATIC) for what in WORKS),
    # With one of two servers slowed equal parts lose 1.5; 0.9 of that.
    *(Target("applications", f"{SLOWED}{what}", "Forebay", 0.741, "ratio", against=STATIC) for what in WORKS),
    *(
        Target("applications", f"{SLOWED}{what}", "Forebay", 1.031, "ratio", against=WORKERS)
        for what in WORKS
    ),
    Target("maps", "each of many void tasks", "Forebay, C", 1.2, "ratio"),
    Target("maps", "tasks of lognormal length", "Forebay, C", 1.05, "ratio"),
    Target("maps", "tasks with arguments", "Forebay, C", 1.05, "ratio"),
    # Neither of two clients has more.
    Target("maps", "share of two servers' time", "Forebay", 55.0),
    Target("waits", "eight busy processes: void call", "Forebay, Rust", 1.5, "ratio"),
    Target("waits", "two ranks on two cores: a step with a call", "Forebay, Rust", 1.05, "ratio"),
    Target("waits", "relay of three processes", "Forebay, Rust", 10.0),
    Target("calls", "void call over TCP, active, median", "Forebay, Rust", 1.7, "ratio"),
    Target("calls", "call with 64 MiB in over TCP", "Forebay, Rust", 1.18, "ratio"),
    Target("snapshots", "visible time", "Forebay, embedded", 1.0, "ratio"),
    Target("snapshots", "visible time", "Forebay, agent", 1.0, "ratio"),
    Target("snapshots", "visible time", "Forebay, embedded, in place", 1.0),
    Target("snapshots", "visible time", "Forebay, agent, in place", 1.0),
    Target("processes", "visible time, 2 processes", "Forebay, agent", 1.0, "ratio"),
    Target("processes", "visible time, 4 processes", "Forebay, agent", 1.0, "ratio"),
    # 0.9 of the rate that was computed.
    Target("overflow", "visible time", "Forebay, embedded", 1.11, "ratio"),
    Target("overflow", "visible time", "Forebay, agent", 1.11, "ratio"),
    Target("overflow", "most shared memory", "Forebay, embedded", 1.05, "ratio"),
    Target("overflow", "most shared memory", "Forebay, agent", 1.05, "ratio"),
    # Where a core is free for what writes.
    Target("a program with output", "", "Forebay, agent", 1.02, "ratio"),
    Target("back to back", "", "Forebay, embedded", 1.15, "ratio"),
    Target("back to back", "", "Forebay, agent", 1.15, "ratio"),
    Target("small data sets", "put of", "Forebay, embedded", 3.0),
    Target("small data sets", "get of", "Forebay, embedded", 3.0),
    Target("small data sets", "put of", "Forebay, agent", 6.0),
    Target("small data sets", "get of", "Forebay, agent", 6.0),
    Target("small snapshots", "opening a run of", "Forebay, embedded", 2000.0),
    Target("small snapshots", "opening a run of", "Forebay, agent", 2000.0),
    Target("small snapshots", "recovering a run of", "Forebay, embedded", 2000.0),
    Target("small snapshots", "the last of", "Forebay, embedded", 1.0),
    Target("small snapshots", "finding one of", "Forebay, embedded", 1.0),
    Target("small snapshots", "deleting, durable, one of", "Forebay, embedded", 1.0),
    Target("clients", "shared memory of a client", "Forebay", 256.0),
    Target("clients", "call from Python beside", "Forebay", 1.5, "ratio"),
    # Beside one client, as often as the cores have to share themselves.
    Target("beside", "data sets put and read", "Forebay, clients", 1.5, "ratio"),
    Target("remote", "put of", "Forebay, another host", 4.0, "ratio"),
    Target("remote", "put, until durable", "Forebay, another host", 4.0, "ratio"),
    Target("remote", "get of", "Forebay, another host", 4.0, "ratio"),
    Target("remote", "Stop until the loop stands still", "Forebay, another host", 200.0),
    Target("remote", "Stop until the command has heard it", "Forebay, another host", 200.0),
)


def judged(figures: list[Figure]) -> list[tuple[str, str, str, bool]]:
    """What was measured, what was wanted at most, and whether it is held, of each target that was measured."""
    found = []
    for t in TARGETS:
        for f in figures:
            if f.part != t.part or f.who != t.who or not f.what.startswith(t.what):
                continue
            if ABOVE in f.note or (t.against and f.against != t.against):
                continue
            if t.from_ is not None and (f.at is None or f.at < t.from_):
                continue
            if "no core is free" in f.what:
                continue
            if " over " in f.what and " over " not in t.what:
                continue  # The same over the network is another figure.
            value = getattr(f, t.by)
            if value is None:
                continue
            unit = {"value": f" {f.unit}", "ratio": f" x {f.against}", "limit": " x limit"}[t.by]
            text = f"{f.part}: {f.what}{f' at {place(f.at)}' if f.at is not None else ''} ({f.who})"
            most = number(t.most) + unit
            if t.or_ratio is not None:
                most += f" or {number(t.or_ratio)} x {f.against}"
            found.append((text, number(value) + unit, most, t.held(f)))
    return found


def table(figures: list[Figure]) -> str:
    """For people."""
    rows = judged(figures)
    if not rows:
        return ""
    wide = [max(len(row[i]) for row in rows) for i in range(3)]
    lines = [f"{'WANTED':<{wide[0]}}  {'measured':>{wide[1]}}  {'at most':>{wide[2]}}"]
    lines += [
        f"{text:<{wide[0]}}  {value:>{wide[1]}}  {most:>{wide[2]}}  {'held' if held else 'not held'}"
        for text, value, most, held in rows
    ]
    return "\n" + "\n".join(lines) + "\n"


def markdown(figures: list[Figure]) -> str:
    """For a page."""
    lines = ["| what Forebay set itself | measured | at most | |", "| --- | --- | --- | --- |"]
    for text, value, most, held in judged(figures):
        lines.append(f"| {text} | {value} | {most} | {'held' if held else '**not held**'} |")
    return "\n".join(lines)
