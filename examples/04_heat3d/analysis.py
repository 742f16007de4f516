"""The last of three programs around one run: what flows through the block, from its mesh and its snapshots.

    python analysis.py heat3d [--picture heat.png]

It writes the table `analysis` and nothing else, so it may be run again, and while the computation is under way.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import forebay as fb
import numpy as np
from numpy.typing import NDArray

COLUMNS = {"step": "i64", "time": "f64", "mean": "f64", "inflow": "f64", "outflow": "f64"}


def flows(run: fb.Run) -> dict[str, NDArray[np.generic]]:
    """By columns, a row for each snapshot: step, time [s], mean temperature [K], and what flows in through the hot face
    and out through the cold one, each as temperature times volume by time [K m3/s].
    """
    values = run.table("parameters").select()
    parameter = dict(zip(values["name"], values["value"], strict=True))
    faces = run.table("boundary").select()
    fixed = dict(zip(faces["face"], faces["temperature"], strict=True))
    dx, area = parameter["dx"], parameter["dy"] * parameter["dz"]
    D = run["mesh/diffusivity"]
    first, last = 2 * D[0] / dx * area, 2 * D[-1] / dx * area  # half a cell to the face
    rows = []
    for snap in run.snapshots:
        T = snap["T"]
        inflow = float(np.sum(first * (fixed["x0"] - T[0])))
        outflow = float(np.sum(last * (T[-1] - fixed["x1"])))
        rows.append((snap.step, snap.time or 0.0, float(T.mean()), inflow, outflow))
    return {name: np.array(column) for name, column in zip(COLUMNS, zip(*rows, strict=True), strict=True)}


def draw(run: fb.Run, to: Path) -> None:
    """The middle of the block in the last snapshot, as a picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    x, y = run["mesh/x"], run["mesh/y"]
    snap = run.snapshots[-1]
    T = snap["T"][:, :, len(run["mesh/z"]) // 2]
    sheet, ax = plt.subplots(figsize=(5.2, 4.2))
    mesh = ax.pcolormesh(x, y, T.T, cmap="inferno", shading="nearest")
    sheet.colorbar(mesh, label="T [K]")
    ax.set(xlabel="x [m]", ylabel="y [m]", aspect="equal", title=f"step {snap.step}, t = {snap.time:.3g} s")
    sheet.tight_layout()
    sheet.savefig(to, dpi=130)


def main() -> int:
    """Analyses; the exit status."""
    parser = argparse.ArgumentParser(
        description="Reads mesh and snapshots of a run, and keeps what flows through the block as a table.",
        epilog="Example:  python analysis.py heat3d --picture heat.png",
    )
    parser.add_argument("run", help="its name or directory")
    parser.add_argument(
        "--picture", type=Path, metavar="FILE", help="draw the last snapshot (wants matplotlib)"
    )
    args = parser.parse_args()
    with fb.open(args.run, "r+", rank=0, size=1) as run:
        if not len(run.snapshots):
            print(f"analysis: {args.run} has no snapshots yet; run heat3d first", file=sys.stderr)
            return 1
        columns = flows(run)
        table = run.table("analysis", COLUMNS)
        table.delete()
        table.insert(columns=columns)
        if args.picture:
            draw(run, args.picture)
    print("    step   time [s]   mean [K]   in [K m3/s]   out [K m3/s]")
    for step, time, mean, inflow, outflow in zip(*columns.values(), strict=True):
        print(f"{step:8} {time:10.4g} {mean:10.4f} {inflow:13.5e} {outflow:14.5e}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
