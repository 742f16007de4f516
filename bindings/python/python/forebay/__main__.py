"""``python -m forebay serve FILE.py``: offers the services that a file defines. ``forebay serve`` of the command line
comes here for Python files.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from types import ModuleType

from . import _forebay
from ._services import (
    Server,
    SupervisedServer,
    loading,
    offer_of,
    serve_again_and_again,
    serve_until_stopped,
    services_in,
)

EXAMPLE = "example:\n  python -m forebay serve poisson1d.py --workers 2"


def load(path: str) -> ModuleType:
    """A Python file as a module, its folder first on the path, as if it had been run."""
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    if not path.endswith(".py") or not os.path.isfile(path) or spec is None or spec.loader is None:
        raise _forebay.NotFound(f"{path!r} is not a Python file; give the path of one that defines services")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    loading.append(path)
    try:
        spec.loader.exec_module(module)
    finally:
        loading.pop()
    return module


def options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="forebay", epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser(
        "serve",
        help="offer the services that a Python file defines",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    serve.add_argument("file", help="a Python file with functions marked by @forebay.service")
    serve.add_argument("--workers", type=int, help="requests served at a time (1)")
    serve.add_argument("--name", help="name of the server, for people (the file's)")
    serve.add_argument("--memory", help="memory for arrays that clients refer to, as 4GiB (half of all)")
    serve.add_argument("--scratch", help="where files of calls are kept, and how much of them: DIR:SIZE")
    serve.add_argument("--listen", help="address for clients of other hosts, tcp://HOST:PORT")
    serve.add_argument("--broker", help="socket of the broker, or its address fb://HOST:PORT")
    serve.add_argument(
        "--restart", action="store_true", help="start them again when something has ended them"
    )
    serve.add_argument("--stop-with-stdin", action="store_true", help="end when the standard input ends")
    return parser.parse_args(argv)


def _watch_stdin(stop: Callable[[], None]) -> None:
    """Has the server stop when whoever started this process closes our input, or is gone."""

    def watch() -> None:
        # The descriptor itself: a buffered reader would be locked when the interpreter ends.
        while os.read(0, 4096):
            pass
        stop()

    threading.Thread(target=watch, name="stdin", daemon=True).start()


def _tell(server: Server, workers: int, services: Sequence[Callable[..., object]]) -> None:
    """Says that clients find us: what is offered, and where."""
    names = ", ".join(offer_of(service).name for service in services)
    threads = "1 worker" if workers == 1 else f"{workers} workers"
    print(
        f"forebay: {names} offered by {server.name} (process {os.getpid()}, {threads}) at {server.broker}",
        file=sys.stderr,
        flush=True,
    )


def main(argv: list[str] | None = None) -> int:
    """The command; returns the exit status."""
    args = options(argv)
    try:
        services = services_in(load(args.file))
        if not services:
            raise _forebay.NotFound(f"{args.file} defines no service; mark a function with @forebay.service")
        name = args.name or os.path.splitext(os.path.basename(args.file))[0]

        def make() -> Server:
            kind = SupervisedServer if args.restart else Server
            return kind(
                *services,
                workers=args.workers,
                name=name,
                memory=args.memory,
                scratch=args.scratch,
                listen=args.listen,
            )

        def started(server: Server) -> None:
            _tell(server, args.workers or 1, services)

        if args.restart:
            if args.stop_with_stdin:
                _watch_stdin(lambda: os.kill(os.getpid(), signal.SIGTERM))
            serve_again_and_again(make, args.broker, started)
            return 0
        server = make()
        if args.stop_with_stdin:
            _watch_stdin(server._native.ask_to_stop)
        serve_until_stopped(server, args.broker, lambda: started(server))
    except _forebay.Error as error:
        print(f"forebay: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
