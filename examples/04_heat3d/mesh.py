"""The first of three programs around one run: cells, diffusivity, boundary conditions, and the cells of each rank.

    python mesh.py heat3d --cells 48,48,48 --ranks 2

What it makes are data sets and tables of the run; `heat3d` reads them, and anybody else who likes. It may be run
again as long as the run has no snapshots; `--fresh` begins the run anew.
"""

from __future__ import annotations

import argparse
import sys

import forebay as fb
import numpy as np
from numpy.typing import NDArray

LENGTH = 0.1  # of the block along each axis [m]
STEEL, COPPER = 4.0e-6, 1.1e-4  # diffusivities [m2/s]
HOT, COLD = 400.0, 300.0  # of the faces x = 0 and x = LENGTH [K]
AXES = "xyz"


def diffusivity(centres: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Of each cell [m2/s]: a ball of copper in a block of steel."""
    x, y, z = np.meshgrid(*centres, indexing="ij")
    away = (x - LENGTH / 2) ** 2 + (y - LENGTH / 2) ** 2 + (z - LENGTH / 2) ** 2
    return np.where(away < (LENGTH / 4) ** 2, COPPER, STEEL)


def boxes(cells: list[int], ranks: int, axis: int) -> NDArray[np.int64]:
    """For each rank the first cell along each axis and the first one behind, (ranks, 2, 3): slabs of equal thickness."""
    out = np.empty((ranks, 2, 3), np.int64)
    out[:, 0], out[:, 1] = 0, cells
    edges = [cells[axis] * rank // ranks for rank in range(ranks + 1)]
    out[:, 0, axis], out[:, 1, axis] = edges[:-1], edges[1:]
    return out


def filled(run: fb.Run, name: str, columns: dict[str, str], rows: list[tuple[str | float, ...]]) -> None:
    """A table with these rows and no others."""
    table = run.table(name, columns)
    table.delete()
    for row in rows:
        table.insert(row)


def fill(run: fb.Run, cells: list[int], ranks: int, axis: int, steps: int, every: int) -> None:
    """Puts all of it into the run."""
    centres = [(np.arange(n) + 0.5) * LENGTH / n for n in cells]
    spacing = [LENGTH / n for n in cells]
    # Explicit steps are stable up to 1 / (2 D (1/dx2 + 1/dy2 + 1/dz2)).
    dt = 0.4 / COPPER / sum(h**-2 for h in spacing)
    for name, values in zip(AXES, centres, strict=True):
        run.put(f"mesh/{name}", values, units="m")
    run.put("mesh/diffusivity", diffusivity(centres), units="m2/s")
    run.delete("decomposition")
    for rank, box in enumerate(boxes(cells, ranks, axis)):
        run.put("decomposition", box, set=rank)
    faces: list[tuple[str | float, ...]] = [("x0", "fixed", HOT), ("x1", "fixed", COLD)]
    faces += [(face, "insulated", 0.0) for face in ("y0", "y1", "z0", "z1")]
    filled(run, "boundary", {"face": "str", "kind": "str", "temperature": "f64"}, faces)
    parameters: list[tuple[str | float, ...]] = [
        ("dt", dt, "s"),
        ("steps", float(steps), "1"),
        ("snapshot every", float(every), "1"),
        ("initial temperature", COLD, "K"),
        ("ranks", float(ranks), "1"),
        *((f"d{axis}", h, "m") for axis, h in zip(AXES, spacing, strict=True)),
    ]
    filled(run, "parameters", {"name": "str", "value": "f64", "units": "str"}, parameters)


def main() -> int:
    """Makes the mesh; the exit status."""
    parser = argparse.ArgumentParser(
        description="Puts mesh, boundary conditions and decomposition into a run.",
        epilog="Example:  python mesh.py heat3d --cells 48,48,48 --ranks 2",
    )
    parser.add_argument("run", help="its name or directory")
    parser.add_argument("--cells", default="48,48,48", help="along x, y and z")
    parser.add_argument("--ranks", type=int, default=1, help="processes that will compute")
    parser.add_argument("--along", choices=AXES, default="x", help="the axis that is cut; Fortran likes z")
    parser.add_argument("--steps", type=int, default=200, help="time steps to compute")
    parser.add_argument("--every", type=int, default=50, help="steps from one snapshot to the next")
    parser.add_argument("--fresh", action="store_true", help="begin the run anew")
    args = parser.parse_args()
    axis = AXES.index(args.along)
    try:
        cells = [int(n) for n in args.cells.split(",")]
    except ValueError:
        cells = []
    if len(cells) != 3 or min(cells) < 1:
        parser.error(f"--cells {args.cells}: give three numbers above 0, such as 48,48,48")
    if not 1 <= args.ranks <= cells[axis]:
        parser.error(f"--ranks {args.ranks}: {args.along} has {cells[axis]} cells, so 1 to {cells[axis]}")
    if args.steps < 1 or args.every < 1:
        parser.error("--steps and --every are 1 at least")
    with fb.open(args.run, "w" if args.fresh else "a", rank=0, size=1) as run:
        if len(run.snapshots):
            print(
                f"mesh: {args.run} has snapshots of its mesh; begin it anew with --fresh, or take another name",
                file=sys.stderr,
            )
            return 1
        fill(run, cells, args.ranks, axis, args.steps, args.every)
    print(f"mesh: {' x '.join(map(str, cells))} cells for {args.ranks} ranks, cut along {args.along}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
