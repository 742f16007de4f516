"""Programs that do the same work in turns, ours and others'. Who is not installed is named, and has no figure."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from programs import TARGET, Failed, alone
from report import ROOT, Figure

CALLS = ROOT / "benches" / "versus" / "calls"
PYTHON = ROOT / ".venv-versus" / "bin" / "python"
GET_THEM = "not installed; scripts/rivals gets it"


@dataclass(frozen=True)
class Contender:
    """A program that prints what it has measured, and its setting; without a command it is absent, and why."""

    who: str
    command: list[str]
    setting: str = ""
    absent: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    # In how many of the rounds it takes part at most: some take seconds to start.
    rounds: int = 100


def absent(part: str, contenders: Sequence[Contender]) -> list[Figure]:
    """A row for each who is not here."""
    return [Figure(part, "all", c.who, 0.0, "", absent=c.absent) for c in contenders if c.absent]


def turns(contenders: Sequence[Contender], rounds: int) -> dict[str, list[Any]]:
    """What each who is here has printed, one after the other, and again. One that fails ends the bench if it is ours,
    and else takes no further part."""
    found: dict[str, list[Any]] = {c.who: [] for c in contenders if not c.absent}
    failed: set[str] = set()
    for turn in range(rounds):
        for c in contenders:
            if c.absent or c.who in failed or turn >= c.rounds:
                continue
            try:
                found[c.who].append(alone(c.command, c.environment))
            except Failed as error:
                if c.who.startswith("Forebay"):
                    raise
                print(f"bench: {c.who} takes no further part: {error}", file=sys.stderr)
                failed.add(c.who)
    return {who: results for who, results in found.items() if results}


def middle(results: Sequence[Any], key: str) -> float:
    """The median of what was printed under a name."""
    return float(statistics.median(r[key] for r in results))


def has(package: str) -> bool:
    """Whether pkg-config knows a library."""
    return subprocess.run(["pkg-config", "--exists", package], check=False).returncode == 0


def flags(*packages: str) -> list[str]:
    """How to compile against libraries."""
    return subprocess.run(
        ["pkg-config", "--cflags", "--libs", *packages], capture_output=True, text=True, check=True
    ).stdout.split()


def build(compiler: str, into: Path, source: str, *more: str) -> str:
    """Compiles a program of `benches/versus/calls`; its path."""
    program = into / Path(source).stem
    command = [compiler, "-D_GNU_SOURCE", "-O2", "-o", str(program), str(CALLS / source), *more, "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{source} does not compile:\n{done.stderr}")
    return str(program)


def ours(into: Path, source: str, *more: str) -> str:
    """The same against Forebay's library, which lies where the programs are."""
    link = [f"-I{ROOT / 'bindings/c/include'}", f"-L{into}", "-lforebay", f"-Wl,-rpath,{into}"]
    return build("cc", into, source, *link, *more)


@dataclass(frozen=True)
class Mpi:
    """How programs of MPI are compiled and started."""

    compiler: str
    launcher: list[str]
    name: str

    def start(self, ranks: int, *command: str) -> list[str]:
        """A command on so many ranks; with more ranks than cores those that wait yield, or nobody gets on."""
        crowded = ranks > len(os.sched_getaffinity(0))
        more = ["--mca", "mpi_yield_when_idle", "1"] if crowded else []
        return [*self.launcher, "-n", str(ranks), *more, *command]


def mpi() -> Mpi | None:
    """Open MPI, if it is here."""
    for ending in (".openmpi", ""):
        compiler, launcher = shutil.which(f"mpicc{ending}"), shutil.which(f"mpirun{ending}")
        if not compiler or not launcher:
            continue
        said = subprocess.run([launcher, "--version"], capture_output=True, text=True, check=False).stdout
        if "Open MPI" in said:
            root = ["--allow-run-as-root"] if os.getuid() == 0 else []
            return Mpi(
                compiler,
                [launcher, *root, "--bind-to", "none", "--oversubscribe"],
                said.split("\n")[0].split(") ")[-1],
            )
    return None


def python_package(name: str) -> str:
    """The version of a package of the others' interpreter, or nothing."""
    if not PYTHON.exists():
        return ""
    code = f"from importlib.metadata import version; print(version({name!r}))"
    return subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=False).stdout.strip()


def iceoryx() -> str:
    """The program of iceoryx2, built in a workspace of its own; nothing if that cannot be."""
    into = TARGET.parent / "versus"
    program = into / "release" / "void-iceoryx"
    if not program.exists():
        return ""
    # It is there once; what has changed since is compiled, without asking anybody outside.
    manifest = str(CALLS / "iceoryx" / "Cargo.toml")
    command = ["cargo", "build", "--quiet", "--release", "--locked", "--offline", "--manifest-path", manifest]
    done = subprocess.run(
        command, env={**os.environ, "CARGO_TARGET_DIR": str(into)}, capture_output=True, check=False
    )
    return str(program) if done.returncode == 0 else ""


@contextmanager
def served(*commands: Sequence[str], environment: dict[str, str]) -> Iterator[list[subprocess.Popen[str]]]:
    """Servers, each of which has said a line when it can be called; they end with this."""
    started: list[subprocess.Popen[str]] = []
    try:
        for command in commands:
            # Ours speak on standard output, the command on standard error.
            server = subprocess.Popen(
                command,
                env={**os.environ, **environment},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            started.append(server)
            assert server.stdout is not None
            line = server.stdout.readline()
            if "serving" not in line and "offered" not in line:
                raise Failed(f"{command[0]} did not serve: {line.strip()}")
        yield started
    finally:
        for server in started:
            server.terminate()
        for server in started:
            server.wait(30)
            assert server.stdout is not None
            server.stdout.close()


def halves() -> tuple[list[str], list[str]]:
    """What goes before a client's command and before a server's, so that each has half of the cores."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) == 1 or not shutil.which("taskset"):
        return [], []
    middle_ = len(cores) // 2
    first, rest = (",".join(map(str, some)) for some in (cores[:middle_], cores[middle_:]))
    return ["taskset", "--cpu-list", first], ["taskset", "--cpu-list", rest]


def broker(environment: dict[str, str]) -> str:
    """The socket of an agent whose places these are."""
    return str(Path(environment["FOREBAY_RUNTIME_DIR"]) / "agent.sock")


def if_here(who: str, command: list[str] | None, setting: str, rounds: int = 100) -> Contender:
    """A contender, if there is a command for it."""
    return Contender(who, command or [], setting, "" if command else GET_THEM, rounds=rounds)
