"""snapshot_python.py h5py|adios2 DIRECTORY STEPS MIB SECONDS: the same snapshots from Python, as the
library's guide shows it. Prints one line of JSON."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

import numpy as np

FIELD = np.zeros(1 << 19)


def compute(seconds: float) -> None:
    """Computes on one core, over 4 MiB, so that caches hold the simulation's data."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        FIELD[1:] = 0.5 * (FIELD[1:] + FIELD[:-1]) + 1e-9


def with_h5py(directory: str) -> tuple[Callable[[int, list[np.ndarray]], None], Callable[[], None]]:
    """A file a step."""
    import h5py

    files = []

    def step(number: int, arrays: list[np.ndarray]) -> None:
        files.append(f"{directory}/h5py-{number}.h5")
        with h5py.File(files[-1], "w", libver="latest") as file:
            for name, array in zip("abcd", arrays, strict=True):
                file.create_dataset(name, data=array)

    def end() -> None:
        for path in files:
            with open(path, "r+b") as file:
                os.fsync(file.fileno())

    return step, end


def with_adios2(directory: str) -> tuple[Callable[[int, list[np.ndarray]], None], Callable[[], None]]:
    """BP5, writing in the background, without statistics."""
    import adios2

    io = adios2.Adios().declare_io("snapshots")
    io.set_engine("BP5")
    io.set_parameters({"AsyncWrite": "true", "StatsLevel": "0"})
    path = f"{directory}/adios2.bp"
    writer = io.open(path, adios2.bindings.Mode.Write)
    variables: list[object] = []

    def step(number: int, arrays: list[np.ndarray]) -> None:
        writer.begin_step()
        if not variables:
            for name, a in zip("abcd", arrays, strict=True):
                variables.append(io.define_variable(name, a, list(a.shape), [0] * a.ndim, list(a.shape)))
        for variable, array in zip(variables, arrays, strict=True):
            writer.put(variable, array)
        writer.end_step()

    def end() -> None:
        writer.close()
        for entry in os.scandir(path):
            with open(entry.path, "r+b") as file:
                os.fsync(file.fileno())

    return step, end


def main() -> None:
    """Takes the snapshots and prints what was visible."""
    kind, directory, steps, mib, seconds = sys.argv[1:6]
    part = (int(mib) << 17) // 4
    arrays = [np.arange(part, dtype="f8") % 251 + i for i in range(4)]
    start = time.perf_counter()
    step, end = {"h5py": with_h5py, "adios2": with_adios2}[kind](directory)
    visible = []
    for number in range(int(steps)):
        compute(float(seconds))
        began = time.perf_counter()
        step(number, arrays)
        visible.append((time.perf_counter() - began) * 1e3)
    end()
    durable = time.perf_counter() - start
    ranked = sorted(visible)
    print(
        json.dumps(
            {
                "visible_ms": visible,
                "p50_ms": ranked[len(ranked) // 2],
                "mean_ms": sum(visible) / len(visible),
                "worst_ms": ranked[-1],
                "durable_s": durable,
            }
        )
    )


if __name__ == "__main__":
    main()
