"""Offering Python functions as services."""

from __future__ import annotations

import atexit
import inspect
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from . import _forebay, _printed, _restarts
from ._context import Context
from ._costs import Cost, text_of

if TYPE_CHECKING:
    from typing_extensions import Self

F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__forebay_service__"
# Seconds after which a second signal is another one.
_AGAIN = 3.0

_started: weakref.WeakSet[Server] = weakref.WeakSet()
_marked: dict[tuple[str, str], int] = {}
"""Where a service of that name was marked last, by its module: the line."""
loading: list[str] = []
"""The file that ``forebay serve`` loads at the moment."""
# The threads of a server stay with the parent.
os.register_at_fork(after_in_child=_started.clear)


@dataclass(frozen=True)
class Offer:
    """What the decorator notes on a function."""

    name: str
    """Name of the service."""
    parameters: str
    """Its parameters, in the signature language."""
    effects: bool
    """Whether running it twice is not the same as running it once."""
    cost: str | None
    """How its work grows, if that is said."""


def service(
    parameters: str, *, name: str | None = None, effects: bool = False, cost: Cost | None = None
) -> Callable[[F], F]:
    """Marks a function as a service: ``@fb.service("in a:f64, in x:f64[n], inout y:f64[n]")``.

    Each parameter is ``[in|out|inout] name:dtype[extents]``, ``inout`` when no direction is written. Extents are
    numbers, names of integer parameters, free names that must agree, or products such as ``2*n``. With the dtype
    ``file`` it is a file, ``in`` or ``out``: the function gets a :class:`pathlib.Path` of its own, where it reads the file, or
    writes it. The function gets scalars as numbers, ``str`` and ``bytes``, and arrays as NumPy views of shared memory: it
    writes results into ``out`` and ``inout`` arrays in place and returns results that are no arrays (a tuple
    when there are several). It may instead return all that is ``out``, arrays too, which are copied. An ``in`` array is
    read-only, and so are the others when the call is over: copy what you keep. The function itself stays as it is.

    ``effects``: a call is not issued again on another server when the first one was lost. ``cost``: how the work of a call
    grows with what it is passed, ``"n**3 + 2*m"`` or ``lambda n, m: n**3 + 2 * m``, in any unit: a sum of products of integer
    parameters and extents. Clients know by it which calls are long before one has run. Raises ``BadArgument`` for what
    is no line of parameters, or no cost of them.
    """
    if not isinstance(parameters, str):
        what = getattr(parameters, "__name__", repr(parameters))
        raise _forebay.BadArgument(
            f"@fb.service stands before {what} without its line of parameters; "
            'write @fb.service("in x:f64[n], out s:f64"), or @fb.service("") for none'
        )
    text = None if cost is None else text_of(cost)

    def mark(function: F) -> F:
        offer = Offer(name or function.__name__, parameters, effects, text)
        _forebay.passed(offer.name, offer.parameters, offer.cost)  # whether it can be read
        _is_first(function, offer.name)
        setattr(function, _MARK, offer)
        return function

    return mark


def _is_first(function: Callable[..., Any], name: str) -> None:
    """Refuses a second service of a name in one file, whose first one nobody could call: of programs and of what
    ``forebay serve`` loads, for other modules are loaded again after they have changed.
    """
    code = getattr(function, "__code__", None)
    module = getattr(function, "__module__", "")
    here = module == "__main__" or bool(loading)
    if (
        code is None
        or not here
        or "<locals>" in function.__qualname__
        or not os.path.isfile(code.co_filename)
    ):
        return
    first = _marked.setdefault((module, name), code.co_firstlineno)
    if first != code.co_firstlineno:
        raise _forebay.BadArgument(
            f"{code.co_filename}: two services are called {name!r}, in line {first} and in line {code.co_firstlineno}; rename "
            "one, or leave one out"
        )


def offer_of(function: object) -> Offer:
    """What was noted on a function; raises ``BadArgument`` when there is nothing."""
    found = getattr(function, _MARK, None)
    if not isinstance(found, Offer):
        shown = getattr(function, "__name__", repr(function))
        raise _forebay.BadArgument(
            f'{shown} is not a service; put @forebay.service("in x:f64[n], ...") above it'
        )
    return found


def services_in(module: ModuleType) -> list[Callable[..., Any]]:
    """The services that a module defines, in the order of their definition."""
    return [
        value
        for value in vars(module).values()
        if callable(value) and isinstance(getattr(value, _MARK, None), Offer)
    ]


class Server(Context):
    """Offers services from this process while it is started. A context manager.

    ``services``: functions marked by :func:`service`. ``workers``: so many requests are served at a time;
    one by default, so a server serves them in the order of their coming; while a service waits for a call of its own,
    others may be served. ``memory``: so much it holds for references
    of its clients (``"4GiB"``); half of the machine's by default. ``scratch``: where it keeps files of calls, and how much of
    them (``"/scratch/me:50GiB"``); 10 GiB in the directory for temporary files by default. ``listen``: where it listens for clients of other
    hosts (``"tcp://HOST:PORT"``); at any port by default, when its agent listens or is on another host.
    """

    _is_supervised = False

    def __init__(
        self,
        *services: Callable[..., Any],
        workers: int | None = None,
        name: str | None = None,
        memory: str | int | None = None,
        scratch: str | None = None,
        listen: str | None = None,
    ) -> None:
        count = 1 if workers is None else workers
        if count < 1:
            raise _forebay.BadArgument(f"workers = {count}; give at least 1")
        self.name = name or _program()
        """Name for people."""
        self.broker = ""
        """Where the broker is that it is announced to; empty before the start."""
        self._native = _forebay.Server(
            self.name, count, None if memory is None else str(memory), scratch, listen, self._is_supervised
        )
        for function in services:
            self.add(function)

    def add(self, function: Callable[..., Any]) -> None:
        """Offers one more service. Raises ``BadArgument`` (its signature), ``Conflict`` (its name is taken here)."""
        offer = offer_of(function)
        _takes(function, offer)
        self._native.add(offer.name, offer.parameters, offer.effects, offer.cost, function)

    def start(self, broker: str | os.PathLike[str] | None = None) -> Self:
        """Listens, works and is announced to the broker: clients find it when this returns."""
        _started.add(self)
        _printed.listen()
        self._native.start(None if broker is None else os.fspath(broker))
        self.broker = _forebay.broker_at(None if broker is None else os.fspath(broker))
        return self

    def stop(self) -> None:
        """Withdraws, ends what it began, and lets go. Stopping twice does nothing."""
        self._native.stop()

    @property
    def load(self) -> tuple[int, int, int]:
        """Requests running, waiting, and served so far."""
        return self._native.load()

    def __enter__(self) -> Self:
        return self.start()

    def _leave(self, error: BaseException | None) -> None:
        self.stop()


class SupervisedServer(Server):
    """A server of a process that is watched by another one, which tells the broker how it died."""

    _is_supervised = True


def serve(
    *services: Callable[..., Any],
    broker: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    name: str | None = None,
    memory: str | int | None = None,
    scratch: str | None = None,
    listen: str | None = None,
    restart: bool = False,
) -> None:
    """Offers services until Ctrl-C or SIGTERM, then ends gracefully. Where ``forebay serve`` is to load the file
    too, call it under ``if __name__ == "__main__":``.

    ``restart``: they run in a child of this process. When something ends it (``kill -9``, a crash of a library, want of
    memory), it is started again after 0.1 s, each time twice as long up to 30 s, and who called hears how it died. It is
    forked from this process: what was computed before the call of ``serve`` need not be computed again. Call it from the
    main thread.
    """
    if loading:
        raise _forebay.BadArgument(
            f"{loading[-1]} calls fb.serve while `forebay serve {loading[-1]}` loads it, which offers its services itself; "
            'put the call under `if __name__ == "__main__":`, or say `python FILE` instead'
        )
    if not services:
        raise _forebay.BadArgument(
            "there is nothing to serve; give the functions that are marked with @fb.service: fb.serve(f, g)"
        )

    def make() -> Server:
        kind = SupervisedServer if restart else Server
        return kind(*services, workers=workers, name=name, memory=memory, scratch=scratch, listen=listen)

    if restart:
        serve_again_and_again(make, broker)
    else:
        serve_until_stopped(make(), broker)


def serve_until_stopped(
    server: Server, broker: str | os.PathLike[str] | None = None, started: Callable[[], None] = lambda: None
) -> None:
    """As :func:`serve`, and until the server is asked to stop; ``started`` is called when clients find it."""
    before = _end_on_signals(server)
    _started.add(server)
    try:
        server.start(broker)
        started()
        server._native.serve(None)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def serve_again_and_again(
    make: Callable[[], Server],
    broker: str | os.PathLike[str] | None = None,
    started: Callable[[Server], None] = lambda server: None,
) -> None:
    """As :func:`serve_until_stopped`, by child processes: one after the other, when something has ended the last one."""
    # What is wrong with the services is raised here.
    name = make().name

    def live(say: Callable[[int], None]) -> None:
        server = make()

        def begun() -> None:
            say(server._native.life())
            started(server)

        serve_until_stopped(server, broker, begun)

    _restarts.keep(name, live, None if broker is None else os.fspath(broker))


def _takes(function: Callable[..., Any], offer: Offer) -> None:
    """Refuses a function that could not be called with what its signature passes."""
    passed = _forebay.passed(offer.name, offer.parameters, offer.cost)
    try:
        inspect.signature(function).bind(*passed)
    except ValueError:  # Some functions of other languages do not tell.
        return
    except TypeError as error:
        raise _forebay.BadArgument(
            f"the function of {offer.name} cannot be called with what its signature passes, "
            f"{len(passed)} arguments ({', '.join(passed)}): {error}; out arrays are passed too, to be filled"
        ) from None


def _end_on_signals(server: Server) -> dict[int, Any]:
    """Lets Ctrl-C and SIGTERM stop the server; returns the handlers that were there. Only the main thread may."""
    if threading.current_thread() is not threading.main_thread():
        return {}

    first: list[float] = []

    def end(number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        first.append(now)
        server._native.ask_to_stop()
        # What comes sooner is the same wish: launchers pass on what the whole group got already.
        if now - first[0] >= _AGAIN:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        if len(first) == 1 and (running := server._native.load()[0]):
            calls = "a call that runs has" if running == 1 else f"{running} calls that run have"
            text = f"forebay: {server.name} ends when {calls} ended; ask once more, {_AGAIN:.0f} s from now or later, to end it at once\n"
            # Printing is not for handlers: the thread may have been in the middle of it.
            os.write(2, text.encode())

    return {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}


@atexit.register
def _stop_all() -> None:
    """The threads of a server run Python, so they end before the interpreter does: what they began is ended. Ctrl-C
    ends the wait, and the program.
    """
    try:
        for server in list(_started):
            server._native.stop_at_end()
    except KeyboardInterrupt:
        print("forebay: the program ends while its services still run", file=sys.stderr)
        for server in list(_started):
            server._native.ask_to_stop()
        # What is to be done at the end is done; the interpreter cannot be taken down below threads that use it.
        atexit.unregister(_stop_all)
        atexit._run_exitfuncs()
        sys.stdout.flush()
        os._exit(130)


# A Ctrl-C that comes when the function is entered ends it before its `try`, and Python goes on to the next one.
atexit.register(_stop_all)


def _program() -> str:
    first = sys.argv[0] if sys.argv else ""
    return os.path.splitext(os.path.basename(first))[0] or "python"
