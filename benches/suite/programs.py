"""Building and running the programs that are measured: each prints one line of JSON."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from report import ROOT

VERSUS = ROOT / "benches" / "versus"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
# Longer than any of them takes, also on a busy machine.
LIMIT = 600


class Failed(Exception):
    """A program that did not do what it is measured by."""


def _flags(package: str, otherwise: str) -> list[str]:
    """How to compile against a library of the system."""
    asked = subprocess.run(
        ["pkg-config", "--cflags", "--libs", package], capture_output=True, text=True, check=False
    )
    return shlex.split(asked.stdout if asked.returncode == 0 else otherwise)


def build(into: Path, names: Sequence[str] = ()) -> None:
    """Compiles the C programs, or those named, with the optimisation that libraries are built with too."""
    # The library under the name that its users' loader looks for.
    shutil.copyfile(TARGET / "libforebay.so", into / "libforebay.so.0")
    link = into / "libforebay.so"
    link.unlink(missing_ok=True)
    link.symlink_to("libforebay.so.0")
    ours = [f"-I{ROOT / 'bindings/c/include'}", f"-L{into}", "-lforebay", f"-Wl,-rpath,{into}"]
    libraries: dict[str, Callable[[], list[str]]] = {
        "forebay": lambda: ours,
        "hdf5": lambda: _flags("hdf5-serial", "-lhdf5"),
        "sqlite": lambda: _flags("sqlite3", "-lsqlite3"),
        "raw": list,
    }
    for source in sorted(VERSUS.glob("*.c")):
        if names and source.stem not in names:
            continue
        flags = libraries[source.stem.rsplit("_", 1)[1]]()
        command = ["cc", "-O2", "-o", str(into / source.stem), str(source), *flags]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"error: {source.name} does not compile:\n{done.stderr}\nrun  scripts/setup bench")


def _result(name: str, process: subprocess.Popen[str]) -> Any:
    try:
        out, err = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        raise Failed(f"{name} did not end within {LIMIT} s") from None
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if process.returncode != 0 or not lines:
        raise Failed(f"{name} ended with status {process.returncode}: {err.strip()[-500:]}")
    return json.loads(lines[-1])


def together(commands: list[list[str]], environment: Mapping[str, str]) -> list[Any]:
    """What programs print that run at the same time."""
    started = [
        subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for command in commands
    ]
    try:
        return [_result(Path(c[0]).name, p) for c, p in zip(commands, started, strict=True)]
    finally:
        for process in started:
            if process.poll() is None:
                process.kill()
                process.wait()


def alone(command: list[str], environment: Mapping[str, str] | None = None) -> Any:
    """What one program prints."""
    return together([command], environment or {})[0]


@contextmanager
def agent(folder: Path) -> Iterator[dict[str, str]]:
    """A node's agent of its own; the environment in which programs find it."""
    with own_places(folder) as environment:
        command = environment["FOREBAY_EXE"]
        everywhere = {**os.environ, **environment}
        subprocess.run([command, "up"], env=everywhere, check=True, stdout=subprocess.DEVNULL)
        try:
            yield environment
        finally:
            subprocess.run([command, "down"], env=everywhere, check=False, stdout=subprocess.DEVNULL)


@contextmanager
def own_places(folder: Path) -> Iterator[dict[str, str]]:
    """Places where no agent is: a program alone embeds it."""
    folder.mkdir(mode=0o700)
    places = {"FOREBAY_RUNTIME_DIR": folder / "run", "FOREBAY_HOME": folder / "home"}
    for place in places.values():
        place.mkdir(mode=0o700)
    yield {name: str(place) for name, place in places.items()} | {"FOREBAY_EXE": str(TARGET / "forebay")}
    shutil.rmtree(folder, ignore_errors=True)
