"""Ranks of `walker.py` as tests see them."""

from __future__ import annotations

from pathlib import Path

import forebay as fb
import numpy as np
from places import until

WALKER = Path(__file__).with_name("walker.py")
# Steps: more than any test waits for.
MANY = "1000000"


def await_loops(run_dir: Path, ranks: int = 1) -> None:
    """Waits until all ranks of a run are in their loops."""
    until(lambda: all(Path(f"{run_dir}.{r}.looping").exists() for r in range(ranks)), 30, "the loops")


def check_alike(run_dir: Path, twin: Path, step: int) -> None:
    """Two runs have the same state at a step, to the bit."""
    with fb.open(run_dir, "r") as one, fb.open(twin, "r") as other:
        np.testing.assert_array_equal(one.snapshots.at(step)["x"], other.snapshots.at(step)["x"])
