"""Launchers of MPI, both side by side, and the example in C built for each.

Places to live in are those of tests/python. Every process started here, each rank included, ends with
the one that started it, so a test run that is killed leaves no ranks behind.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import forebay as fb
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

from likeness import PYTHON, run_to_end
from places import EXAMPLE, ROOT, Place, _worker_place, installed, run_dir, servers

__all__ = ["_worker_place", "run_dir"]

TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target") / "release"

# Open MPI: as many ranks as wanted, also as root; they give way to each other where cores are few.
os.environ.setdefault("OMPI_ALLOW_RUN_AS_ROOT", "1")
os.environ.setdefault("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
os.environ.setdefault("OMPI_MCA_rmaps_base_oversubscribe", "1")
os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")


def compiled(source: Path, out: Path, *compiler: str) -> Path:
    """Builds a program of one source file against the library of this tree, as a user would."""
    assert (TARGET / "libforebay.so").exists(), (
        "there is no libforebay.so: cargo build --release -p forebay-c"
    )
    # The library as it is, under the name that programs ask for.
    link = out.with_name("libforebay.so.0")
    if not link.is_symlink():
        link.symlink_to(TARGET / "libforebay.so")
    flags = [
        f"-I{ROOT / 'bindings/c/include'}",
        f"-L{TARGET}",
        f"-Wl,-rpath,{out.parent}",
        "-lforebay",
        "-lm",
    ]
    strict = ["-Wall", "-Wextra", "-Werror", "-O2"]
    subprocess.run([*compiler, *strict, str(source), *flags, "-o", str(out)], check=True)
    return out


def compiled_fortran(source: Path, out: Path, compiler: str, prefix: Path) -> Path:
    """Builds a program of one source file against the module that is installed under a prefix."""
    library, modules = prefix / "lib", out.with_name(f"{out.name}.modules")
    modules.mkdir()
    strict = ["-std=f2018", "-Wall", "-Wextra", "-Werror", "-O2", "-I", library / "forebay/fortran"]
    strict += ["-J", modules]
    libraries = ["-L", library, f"-Wl,-rpath,{library}", "-lforebay_fortran", "-lforebay"]
    subprocess.run([compiler, *strict, source, *libraries, "-o", out], check=True, timeout=100)
    return out


# Before a command: the kernel kills it when the process dies that started it.
TIED = ("setpriv", "--pdeathsig", "KILL")


@dataclass(frozen=True)
class Mpi:
    """A launcher of MPI."""

    name: str

    def command(self, ranks: int, *words: str | Path) -> list[str]:
        """How so many ranks of a program are started."""
        return [f"mpiexec.{self.name}", "-n", str(ranks), *TIED, *map(str, words)]


class TiedPlace(Place):
    """A place whose processes end with this one."""

    def start(self, *command: str | Path, **options: object) -> subprocess.Popen[str]:
        """Starts a process here."""
        return super().start(*TIED, *command, **options)

    def close(self) -> None:
        """Ends what was started; fails when something else is left, which is killed."""
        for process in self.started:
            # A launcher that a failed test left ends its ranks and clears away what it made for them.
            if process.poll() is None and any("mpiexec" in word for word in process.args):  # type: ignore[union-attr]
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(10)
        try:
            super().close()
        finally:
            for line in self.processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(line.split(":", 1)[0]), signal.SIGKILL)


def latest(path: Path) -> int:
    """Number of the last complete step, -1 before the first."""
    try:
        with fb.open(path, "r") as run:
            return run.snapshots.numbers[-1] if len(run.snapshots) else -1
    except fb.NotFound:
        return -1


def pids(place: Place, word: str) -> list[int]:
    """The processes of a place with a word in their command line, without launchers."""
    found = [line.split(":", 1) for line in place.processes()]
    return [int(pid) for pid, words in found if word in words and "mpiexec" not in words.split()[0]]


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The example in C: for each launcher, `alone` without MPI, and the server."""
    out, client = tmp_path_factory.mktemp("programs"), EXAMPLE / "c" / "two_stream.c"
    return {
        "mpich": compiled(client, out / "two_stream.mpich", "mpicc.mpich"),
        "openmpi": compiled(client, out / "two_stream.openmpi", "mpicc.openmpi"),
        "alone": compiled(client, out / "two_stream", "cc", "-DNO_MPI"),
        "poisson1d": compiled(EXAMPLE / "c" / "poisson1d.c", out / "poisson1d", "cc"),
    }


@pytest.fixture(scope="session")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the library and the Fortran module are installed."""
    return installed(tmp_path_factory)


@pytest.fixture(params=["mpich", "openmpi"])
def mpi(request: pytest.FixtureRequest) -> Mpi:
    """Each launcher in turn."""
    return Mpi(request.param)


@pytest.fixture
def two_stream(mpi: Mpi, programs: dict[str, Path]) -> Path:
    """The example built for that launcher."""
    return programs[mpi.name]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """What the example in Python prints, and its run."""
    place = TiedPlace()
    path = tmp_path_factory.mktemp("python") / "python.fb"
    servers(place)
    try:
        yield run_to_end(place, path, PYTHON), path
    finally:
        place.close()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A place of the test's own; it ends before the runs of the test are removed."""
    made = TiedPlace()
    yield made
    made.close()
