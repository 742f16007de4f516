"""The master: starts two servers of the field solve and the simulation, and leaves nothing behind.

    demo.py --- forebay serve poisson1d.py   (twice; they end when their standard input does)
            --- two_stream.py                (options are passed on), or
            --- mpiexec -n 2 c/two_stream    (--client FILE --ranks 2 --mpiexec mpiexec)

Ctrl-C goes to the simulation, which ends cleanly; the servers end with this process however it ends.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
SERVERS = 2


@contextlib.contextmanager
def server(number: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process that offers poisson1d, as long as the body runs."""
    file = HERE / "python" / "poisson1d.py"
    command = [
        sys.executable,
        "-m",
        "forebay",
        "serve",
        str(file),
        "--name",
        f"poisson1d-{number}",
        "--stop-with-stdin",
    ]
    # A session of its own: Ctrl-C is for the simulation, the servers go when their input ends.
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield process
    finally:
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def options() -> tuple[argparse.Namespace, list[str]]:
    """What is for the master, and what is for the simulation."""
    parser = argparse.ArgumentParser(description="Runs the two-stream example; other options go to it.")
    parser.add_argument(
        "--client",
        help="the example built from c/two_stream.c or fortran/two_stream*.f90, instead of Python's",
    )
    parser.add_argument(
        "--ranks", type=int, default=1, help="processes that share the particles (needs --client)"
    )
    parser.add_argument("--mpiexec", default="mpiexec", help="what starts them")
    mine, others = parser.parse_known_args()
    if mine.ranks < 1:
        parser.error(f"--ranks {mine.ranks}: give 1 or more")
    if mine.ranks > 1 and not mine.client:
        parser.error(
            f"--ranks {mine.ranks}: the example in Python is one process; give --client for the one in C or Fortran"
        )
    return mine, others


def simulation(mine: argparse.Namespace, others: list[str]) -> list[str]:
    """The command that simulates."""
    deck = ["--deck", str(HERE / "two_stream.toml")]
    if not mine.client:
        return [sys.executable, str(HERE / "python" / "two_stream.py"), *deck, "--renew", *others]
    launcher = [mine.mpiexec, "-n", str(mine.ranks)] if mine.ranks > 1 else []
    return [*launcher, mine.client, *deck, "--renew", *others]


def environment() -> dict[str, str]:
    """Open MPI alone knows these: it may start more ranks than there are cores, which then give way
    to each other, and it may do so as root (in a container, say). What is set already stays."""
    more = {"OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_mpi_yield_when_idle": "1"}
    more["PRTE_MCA_rmaps_default_mapping_policy"] = ":oversubscribe"
    if os.geteuid() == 0:
        more |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return {**more, **os.environ}


def main() -> int:
    """Runs the demonstration; returns the exit status of the simulation."""
    mine, others = options()
    # A request to end is passed on to the simulation by raising in the wait below.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with contextlib.ExitStack() as stack:
        for number in range(1, SERVERS + 1):
            stack.enter_context(server(number))
        process = subprocess.Popen(simulation(mine, others), env=environment())
        try:
            return wait(process)
        finally:
            end(process)


def wait(process: subprocess.Popen[bytes]) -> int:
    """Waits for the simulation; Ctrl-C reaches it by itself, so only wait on."""
    interrupted = False
    while True:
        try:
            status = process.wait()
        except KeyboardInterrupt:
            interrupted = True
            continue
        # Launchers of MPI have statuses of their own for ranks that were interrupted, 0 among them.
        return 130 if interrupted else status


def end(process: subprocess.Popen[bytes]) -> None:
    """Sees to it that the simulation is gone."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
