"""What compression costs and saves: a smooth and a noisy field, put without it, by gzip and by zstd, one after the other in
one run.

For each the size on the disk beside that of its bytes, the time until a snapshot is durable, and the time that the
program notices. Prints a table; with --json a line of JSON behind it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Literal

import forebay as fb
import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benches"))

from rows import Row, figure, show  # noqa: E402

PLAIN = "the same, as it is"
WAYS: list[Literal["none", "gzip", "zstd"]] = ["none", "gzip", "zstd"]


def fields(mib: int) -> dict[str, NDArray[np.float64]]:
    """A smooth field, and the same with noise in its last digits."""
    lines = mib * (1 << 20) // 8 // 1024
    x, y = np.meshgrid(np.linspace(0, 9, lines), np.linspace(0, 4, 1024), indexing="ij")
    smooth = np.sin(x) * np.cos(y)
    noisy = smooth + 1e-3 * np.random.default_rng(0).standard_normal(smooth.shape)
    return {"smooth": smooth.astype("f4").astype("f8"), "noisy": noisy}


def measured(place: Path, mib: int, rounds: int) -> list[Row]:
    """All of it."""
    rows: list[Row] = []
    run = fb.open(place / "compressed", buffer=f"{4 * mib}MiB")
    step = 0
    for name, field in fields(mib).items():
        times: dict[str, list[tuple[float, float]]] = {how: [] for how in WAYS}
        last: dict[str, int] = {}
        for _ in range(rounds):
            for how, found in times.items():
                began = time.perf_counter()
                with run.snapshot(step) as s:
                    s.put("T", field, compress=how)
                noticed = time.perf_counter() - began
                s.wait()
                found.append((noticed, time.perf_counter() - began))
                last[how] = step
                step += 1
        for how in WAYS[1:]:
            pieces: list[dict[str, Any]] = json.loads(
                run.sql("SELECT pieces FROM fb_step_data WHERE step = ?", (last[how],))[0]["pieces"]
            )
            stored = sum(chunk[1] for p in pieces for chunk in p.get("chunks", {}).get("stored", []))
            what = f"a {name} field of {mib} MiB, by {how}"
            size = (stored or field.nbytes) / field.nbytes
            rows.append(figure("compressed", f"{what}: size", "Forebay", size, "of its bytes"))
            for i, of in enumerate(("as the program notices it", "until it is durable")):
                own, plain = (statistics.median(t[i] for t in times[one]) * 1e3 for one in (how, "none"))
                rows.append(figure("compressed", f"{what}: {of}", "Forebay", own, "ms", (PLAIN, plain)))
    run.close()
    return rows


def main() -> None:
    """Measures and shows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=64, help="size of a snapshot")
    parser.add_argument("--rounds", type=int, default=5, help="snapshots of each kind")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    out = ROOT / "out"
    out.mkdir(exist_ok=True)
    # Where the tree lies there is a disk; the directory for what is temporary may be memory.
    with tempfile.TemporaryDirectory(prefix="fbb-", dir=out) as place:
        show(measured(Path(place), args.mib, args.rounds), args.json)


if __name__ == "__main__":
    main()
