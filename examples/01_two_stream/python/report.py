"""What the example prints at its end: physics from the table ``history``, output from the run's own figures."""

from __future__ import annotations

from dataclasses import dataclass

import forebay as fb
import numpy as np
from deck import Deck
from physics import growth_from_dispersion, growth_from_history


@dataclass
class Clocked:
    """What the client measured itself."""

    seconds: float  # of the loop
    calls: list[float]  # seconds of each field solve


def lines(run: fb.Run, deck: Deck, clocked: Clocked) -> list[str]:
    """The report, line by line."""
    out = [f"run           {run.path}"]
    out += _physics(run, deck)
    out += _output(run, clocked)
    if clocked.calls:
        median = 1e6 * float(np.median(clocked.calls))
        out.append(f"calls         {len(clocked.calls)} to poisson1d, median {median:.1f} us")
    return out


def _physics(run: fb.Run, deck: Deck) -> list[str]:
    history = run.table("history").select()
    if not len(history):
        return ["history       empty: the run ended before its first step"]
    t, field, kinetic, momentum = (history[name] for name in ("time", "field", "kinetic", "momentum"))
    theory = growth_from_dispersion(deck)
    measured = growth_from_history(t, field)
    out = []
    if measured is None:
        out.append(f"growth rate   not reached yet; by the dispersion relation {theory:.4f} wp")
    else:
        off = f", {100 * (measured / theory - 1):+.1f} %" if theory > 0 else ""
        out.append(f"growth rate   {measured:.4f} wp; by the dispersion relation {theory:.4f} wp{off}")
    total = field + kinetic
    drift = 100 * float(np.ptp(total)) / float(abs(total[0]))
    # Momentum is compared with that of one beam, for the sum of both is 0.
    scale = deck.length * max(abs(beam.drift) * beam.plasma_frequency**2 for beam in deck.beams)
    shift = float(np.max(np.abs(momentum - momentum[0]))) / max(scale, 1e-300)
    out.append(f"energy        drift {drift:.2f} % over {len(history)} steps")
    out.append(f"momentum      drift {shift:.1e} of that of one beam")
    return out


def _output(run: fb.Run, clocked: Clocked) -> list[str]:
    stats = run.stats()
    snapshots = run.snapshots
    written = stats.get("written_bytes", 0)
    visible = stats.get("visible_s", 0.0)
    out = [f"snapshots     {len(snapshots)}, this time {written / 1e6:.1f} MB written"]
    if clocked.calls:
        share = 100 * visible / clocked.seconds
        out.append(f"output        {share:.2f} % of {clocked.seconds:.1f} s visible to the simulation")
    return out
