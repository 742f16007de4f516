"""A matrix product here and at a server, the matrices by value or by reference, with one and with two threads of BLAS."""

from __future__ import annotations

import ctypes.util
from pathlib import Path

import rivals
from programs import TARGET, alone
from report import ROOT, Figure

PART = "dgemm"
LIBRARY = "libopenblas.so.0"
INTERFACE = ROOT / "examples" / "02_blas" / "blas.fbi"
SERVED = {
    "by reference": "Forebay, by reference",
    "by value": "Forebay, by value",
    "library, by reference": "Forebay, library as it is, by reference",
    "library, by value": "Forebay, library as it is, by value",
}


def dgemm(built: Path, folder: Path, environment: dict[str, str], quick: bool) -> list[Figure]:
    """All figures; of one row if there is no OpenBLAS."""
    if not ctypes.util.find_library("openblas"):
        return [Figure(PART, "all", "OpenBLAS", 0.0, "", absent=rivals.GET_THEM)]
    program = rivals.ours(built, "dgemm_forebay.c", f"-l:{LIBRARY}")
    figures = []
    for threads in (1, 2):
        figures += at(threads, program, folder, environment, 0.15 if quick else 0.6)
    return figures


def at(threads: int, program: str, folder: Path, environment: dict[str, str], seconds: float) -> list[Figure]:
    """With so many threads. With one, client and server have a core each; with two both are the server's, as both are
    the program's own when it computes itself."""
    broker = rivals.broker(environment)
    interface = folder / f"blas-{threads}.fbi"
    interface.write_text(
        INTERFACE.read_text().replace("OPENBLAS_NUM_THREADS=1", f"OPENBLAS_NUM_THREADS={threads}")
    )
    mine = {**environment, "OPENBLAS_NUM_THREADS": str(threads)}
    here, there = rivals.halves() if threads == 1 else ([], [])
    library = [str(TARGET / "forebay"), "serve", "--idl", str(interface)]
    with rivals.served([*there, program, broker, "serve", "multiply"], [*there, *library], environment=mine):
        found = alone([*here, program, broker, str(seconds)], mine)
    figures = []
    what = f"product of n x n, {threads} thread{'s' if threads > 1 else ''}"
    for extent, times in found.items():
        n, local = int(extent), times["local"]
        bounds = {
            "by value": local + times["copies"] + times["call"],
            "by reference": local + times["call"],
        }
        figures.append(Figure(PART, what, "here", local, "us", note=rate(n, local), at=n))
        for key, who in SERVED.items():
            bound = bounds[key.split(", ")[-1]]
            figures.append(
                Figure(
                    PART,
                    what,
                    who,
                    times[key],
                    "us",
                    "here",
                    times[key] / local,
                    times[key] / bound,
                    f"n = {n}",
                    at=n,
                )
            )
        for key, bound in bounds.items():
            text = "product, copies and call" if key == "by value" else "product and call"
            figures.append(
                Figure(
                    PART,
                    what,
                    f"limit, {key}",
                    bound,
                    "us",
                    "here",
                    bound / local,
                    note=f"n = {n}; {text}",
                    at=n,
                )
            )
    return figures


def rate(n: int, microseconds: float) -> str:
    """What the product itself reaches."""
    return f"n = {n}; {2e-3 * n**3 / microseconds:.1f} GFLOP/s"
