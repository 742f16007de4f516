"""The master: starts two servers of the field solve and the simulation, and leaves nothing behind.

    demo.py --- forebay serve poisson1d.py   (twice; they end when their standard input does)
            --- two_stream.py                (options are passed on)

Ctrl-C goes to the simulation, which ends cleanly; the servers end with this process however it ends.
"""

from __future__ import annotations

import contextlib
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


def main() -> int:
    """Runs the demonstration; returns the exit status of the simulation."""
    # A request to end is passed on to the simulation by raising in the wait below.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with contextlib.ExitStack() as stack:
        for number in range(1, SERVERS + 1):
            stack.enter_context(server(number))
        command = [sys.executable, str(HERE / "python" / "two_stream.py"), "--renew", *sys.argv[1:]]
        simulation = subprocess.Popen(command)
        try:
            return wait(simulation)
        finally:
            end(simulation)


def wait(simulation: subprocess.Popen[bytes]) -> int:
    """Waits for the simulation; Ctrl-C reaches it by itself, so only wait on."""
    while True:
        try:
            return simulation.wait()
        except KeyboardInterrupt:
            continue


def end(simulation: subprocess.Popen[bytes]) -> None:
    """Sees to it that the simulation is gone."""
    if simulation.poll() is None:
        simulation.send_signal(signal.SIGINT)
        try:
            simulation.wait(timeout=20)
        except subprocess.TimeoutExpired:
            simulation.kill()
            simulation.wait()


if __name__ == "__main__":
    sys.exit(main())
