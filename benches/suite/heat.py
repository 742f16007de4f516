"""A program that keeps what it computes, beside the same one that keeps nothing: examples/04_heat3d, by ranks of MPI."""

from __future__ import annotations

import os
import shlex
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from programs import TARGET, Failed
from report import ROOT, Figure

HEAT = ROOT / "examples" / "04_heat3d"
PART, WITHOUT = "a program with output", "the same, keeping nothing"
# Debian's names of each MPI's compiler and launcher, else those of the only one there is.
COMPILERS = ("mpicc.openmpi", "mpicc.mpich", "mpicc")
# Of Open MPI: also as root.
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def heat(built: Path, folder: Path, environment: dict[str, str], quick: bool) -> list[Figure]:
    """How long the computation takes with its snapshots and without, from start to end; both take turns."""
    compiler = next(filter(shutil.which, COMPILERS), None)
    if compiler is None:
        absent = "there is no mpicc; scripts/rivals gets it"
        return [Figure(PART, "heat in three dimensions", "Forebay, agent", 0.0, "s", absent=absent)]
    program, launcher = folder / "heat3d", compiler.replace("mpicc", "mpiexec")
    library = [f"-I{ROOT / 'bindings/c/include'}", f"-L{built}", "-lforebay", f"-Wl,-rpath,{built}"]
    _done([compiler, "-O2", "-o", program, HEAT / "c" / "heat3d.c", *library, "-lm"], {})
    cells, steps, every, rounds = (64, 40, 10, 2) if quick else (160, 150, 25, 4)
    figures = []
    for ranks in (1, 2):
        took: dict[bool, list[float]] = {True: [], False: []}
        for turn in range(2 * rounds):
            keeps, run = turn % 2 == 0, folder / "heat.fb"
            words = ["--cells", f"{cells},{cells},{cells}", "--steps", steps, "--every", every]
            _done([sys.executable, HEAT / "mesh.py", run, "--fresh", "--ranks", ranks, *words], environment)
            began = time.monotonic()
            _done(
                [launcher, "-n", ranks, program, run, *([] if keeps else ["--without-output"])], environment
            )
            took[keeps].append(time.monotonic() - began)
        free = os.cpu_count() or 1
        what = (
            f"{steps // every + 1} snapshots of {cells**3 * 8 / 2**20:.0f} MiB, "
            f"{ranks} rank{'s' if ranks > 1 else ''}{', no core is free' if ranks >= free else ''}"
        )
        bare, kept = statistics.median(took[False]), statistics.median(took[True])
        # Pairs of neighbours: the machine drifts.
        ratio = statistics.median(k / b for k, b in zip(took[True], took[False], strict=True))
        figures += [
            Figure(PART, what, WITHOUT, bare, "s", note="the yardstick", samples=took[False]),
            Figure(PART, what, "Forebay, agent", kept, "s", WITHOUT, ratio, ratio, samples=took[True]),
        ]
    return figures


def _done(command: list[object], environment: dict[str, str]) -> None:
    """Runs a command to its end."""
    words = [str(word) for word in command]
    everywhere = {**os.environ, **MPI, **environment, "FOREBAY_EXE": str(TARGET / "forebay")}
    done = subprocess.run(words, env=everywhere, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        raise Failed(f"{shlex.join(words)} ended with status {done.returncode}: {done.stderr.strip()[-500:]}")
