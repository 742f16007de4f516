"""Calling services."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from . import _forebay
from ._context import Context
from ._dtypes import dtype_name
from ._forebay import Future
from ._maps import Errors, Map, Progress
from ._placements import PlacementFunction, asked
from ._references import Reference, extents_of, where

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

Transfer = Literal["nowait", "wait", "copy"]
"""When the memory of arguments that are only read is the caller's again."""
Placement = Literal["least", "turns"] | PlacementFunction
"""Which server gets a call: a rule that has a name, or a function that is given the call and the servers."""
Info = Literal["raise", "return"]
"""What becomes of a status that is not 0."""


class ServiceServer(NamedTuple):
    """A server that offers a service."""

    name: str
    """Its name, which others may share."""
    pid: int
    """Its process."""
    host: str
    """Where that runs."""


class Service:
    """A service of a client, callable like a function: ``c.services.axpy(2.0, x, y)``."""

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self.name = name
        """Its name."""

    @property
    def signature(self) -> str:
        """What it takes and gives, in the signature language; raises ``NoServer``."""
        return self._client.signature(self.name)

    @property
    def servers(self) -> list[ServiceServer]:
        """Who offers it; none when nobody does."""
        offers = {signature.split("(", 1)[0]: servers for signature, servers in self._client.offers()}
        return [ServiceServer(*server) for server in offers.get(self.name, [])]

    def __call__(self, *args: Any, timeout: float | None = None, info: Info = "raise") -> Any:
        return self._client.call(self.name, *args, timeout=timeout, info=info)

    def __repr__(self) -> str:
        return f"<forebay.Service {self.name!r}>"


class Services:
    """The services a client can call: iterate over their names, or take one as an attribute or by ``[name]``."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Service:
        if name.startswith("_"):
            raise AttributeError(name)
        return Service(self._client, name)

    def __getitem__(self, name: str) -> Service:
        return Service(self._client, name)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(signature.split("(", 1)[0] for signature, _ in self._client.offers()))

    def __len__(self) -> int:
        return len(self._client.offers())

    def __contains__(self, name: object) -> bool:
        return name in list(self)

    def __repr__(self) -> str:
        return f"<forebay.Services {list(self)}>"


class FailedCall(NamedTuple):
    """A call that has failed."""

    service: str
    """The service that was called."""
    code: str
    """What kind of failure it is, such as ``RemoteError``: the name of its exception."""
    text: str
    """The first 4,096 bytes of its text."""
    when: datetime
    """When it was known, with the time zone of this machine."""
    server: str | None
    """Name and pid of the server, or None where the call has reached none."""


class Group(Context):
    """Calls that run at the same time; leaving the ``with`` statement waits for all and raises the first failure, in the
    order in which they were made: its text begins ``call 3 of 12 (dgesv): ``, and it has ``index``, here 2. Others run on
    when one fails. When the body raises, all are given up.
    """

    def __init__(self, client: Client, inner: _forebay.Group | None = None) -> None:
        self._client = client
        self._group = inner or _forebay.Group()
        self._ended = False
        self.calls: list[Future] = []
        """The calls, in the order of their making."""

    def call(self, name: str, *args: Any) -> Future:
        """Calls a service and returns at once. The arrays given belong to the call until the group has ended."""
        future = self._group.call(self._client, name, args)
        self.calls.append(future)
        return future

    def cobegin(self) -> Group:
        """A group within this one, which ends it first if it is open still. At most 64 stand within each other."""
        return Group(self._client, self._group.within())

    def end(self, timeout: float | None = None) -> None:
        """Waits for all calls, and for those of groups within that are open, and raises the first failure. After
        ``timeout`` seconds it raises ``Timeout`` without ``index``, and the group goes on.
        """
        try:
            self._group.end(timeout)
        except _forebay.Error as e:
            self._ended = hasattr(e, "index")
            raise
        self._ended = True

    def cancel(self) -> None:
        """Gives up what is not complete, also in groups within; no more calls are made. The end then raises
        ``Cancelled``.
        """
        self._group.cancel()

    def _leave(self, error: BaseException | None) -> None:
        try:
            if error is None and not self._ended:
                self.end()
        finally:
            # Given up when the body has raised, or Ctrl-C has ended the wait.
            self._group.close()


class Client(_forebay.Client, Context):
    """A client of the services that a broker knows. Made by :func:`connect`; any thread may use it."""

    _notifies = False
    # Connected as the client of :func:`call` is.
    _is_like_default = False

    def close(self) -> None:
        """Closes the client: its calls under way end with ``Closed``, whichever thread waits for them, and the arrays that
        servers hold for it are freed. Whatever it is asked for after that raises ``Closed``; closing it again does
        nothing. Leaving ``with fb.connect() as c:`` closes it. One that :meth:`on` made ends with the client that it
        was made of; closing it does nothing.
        """
        self.end()

    def _leave(self, error: BaseException | None) -> None:
        self.close()

    @property
    def services(self) -> Services:
        """The services that are offered."""
        return Services(self)

    def on(self, server: str | int) -> Client:
        """A client whose calls go to one server only: that of a name (to any of them if several share it), or of a pid.

        It shares the connections of this one, and its arrays are made on that server. Its calls raise ``NoServer`` when
        there is no such server that offers the service. One for each server::

            clients = [c.on(server.pid) for server in c.services["f"].servers]
        """
        if not isinstance(server, (str, int)) or isinstance(server, bool):
            raise _forebay.BadArgument(f"server={server!r}: give the name of a server, or its pid")
        if isinstance(server, int) and not 0 < server < 1 << 32:
            raise _forebay.BadArgument(
                f"server={server}: no process has that pid; give the name of a server, or its pid"
            )
        tied = Client(of=self, on=server)
        tied._is_like_default = self._is_like_default
        return tied

    def array(
        self,
        shape: int | Sequence[int],
        dtype: DTypeLike = np.float64,
        on: str | Reference | None = None,
        *,
        order: str = "C",
        services: Sequence[str] = (),
    ) -> Reference:
        """An array of zeros on a server, which calls may be given instead of an array of this process.

        ``on``: name of the server, or another reference to stand beside; by default the server that holds the newest
        array of this client, so that calls may be given several of them. ``services``: names of services that are to
        be given the array; where ``on`` says nothing, a server that offers most of them. ``order``: ``C``, or ``F``
        when the first index is to run fastest. Raises ``NoServer``, ``Full`` (the server's limit), ``BadArgument``.
        """
        extents = extents_of(shape)
        if order not in ("C", "F"):
            raise _forebay.BadArgument(f"order={order!r} is none; use 'C' or 'F'")
        return Reference(self, None, extents, dtype_name(dtype), order == "F", where(on, services))

    def put(
        self, array: Any, on: str | Reference | None = None, *, services: Sequence[str] = ()
    ) -> Reference:
        """A copy of ``array`` on a server; see :meth:`array` for ``on``, ``services`` and what is raised."""
        return Reference(self, array, [], "", False, where(on, services))

    def call_async(
        self,
        name: str,
        *args: Any,
        notify: Callable[[Future], object] | None = None,
        transfer: Transfer = "nowait",
        info: Info = "raise",
    ) -> Future:
        """Calls a service and returns at once. The arrays given belong to the call until it was waited for.

        ``transfer`` says when those that are only read are the caller's again. ``nowait``: when the call was waited
        for. ``wait``: when this returns, and a call whose server is lost after that raises ``ServerLost``. ``copy``:
        when this returns, for they were copied: the call is issued again if its server is lost, and over the network
        it leaves while the caller does something else. Raises ``Full`` when there is no room for copies.

        ``notify`` is called with the call when it is complete, on a thread of this client: there ``wait`` returns at
        once. What it raises goes to ``sys.unraisablehook``. At the end of the program nothing more is notified.

        ``info`` as of :meth:`call`.
        """
        if notify is not None and not callable(notify):
            raise _forebay.BadArgument(f"notify={notify!r} is no function; give one that takes the call")
        future = self.send(name, args, transfer, info)
        if notify is not None:
            if not self._notifies:
                self._notifies = True
                atexit.register(self.unnotify)
            self.notify(future, notify)
        return future

    def map(
        self,
        name: str,
        *iterables: Iterable[Any],
        window: int | None = None,
        ordered: bool = True,
        errors: Errors = "raise",
        progress: bool | Callable[[Progress], object] | None = None,
        strict: bool = False,
        memory: int | None = None,
        tail: bool = True,
        info: Info = "raise",
    ) -> Map:
        """Calls a service with each input, many at a time on all servers that offer it, and returns an iterator over the
        results: ``for y in c.map("square", xs): ...``.

        One iterable for each parameter that goes to the service, as for ``map``; it ends with the shortest (with
        ``strict``, unequal lengths raise ``BadArgument``). Inputs are taken as they are of use, and copied then.
        Results are what comes back, in the order of the signature: one bare, several as a tuple, arrays as new arrays.
        A :class:`Reference` among the inputs has its task run at the server that holds the array; what is written there is no
        result. ``ordered=False``: results as they come; ``m.index`` and ``m.input`` tell of the last one. ``errors``: ``raise``
        raises the error of a task in its place and ends the map, ``yield`` gives it as a result and goes on; it has
        ``index`` and ``input``. ``progress``: True shows a bar on stderr, a function is called with a
        :class:`Progress`. ``window``: tasks at all servers together, by default as many as keep them busy.
        ``memory``: bytes of arguments and results that are kept at most, 256 MiB by default. ``info``: a status that is
        not 0 is the failure of its task, or with ``return`` one of its results.

        A task whose server is lost goes to another one; after three servers that died under it, it fails with
        ``Poisoned``, and if the service has effects with ``ServerLost``. Raises ``NoServer`` when nobody offers the
        service, or nobody any more for 30 s. At the end, when nothing waits, a task whose server is slow or late goes to a
        second one, too, unless ``tail`` is False or the service has effects; the first end of the two counts.
        """
        return Map(
            self,
            name,
            iterables,
            window=window,
            ordered=ordered,
            errors=errors,
            progress=progress,
            strict=strict,
            memory=memory,
            tail=tail,
            info=info,
        )

    def cobegin(self) -> Group:
        """A group of calls that run at the same time: ``with c.cobegin() as g: g.call("axpy", 2.0, x, y)``."""
        return Group(self)

    def failed(self) -> list[FailedCall]:
        """The last 1,000 calls of this client that have failed, the oldest first; those whose status was raised are among
        them. Calls that were given up are not, nor are tasks of a map, which tells of its own. A client that was
        connected without naming a broker also sees those made by :func:`call` and its like, whose client is another one.
        """
        failures = self.failures()
        if self._is_like_default and _default is not None and _default is not self:
            failures = sorted(failures + _default.failures(), key=lambda one: one[3])[-1000:]
        return [
            FailedCall(
                service,
                code,
                text,
                datetime.fromtimestamp(when).astimezone(),
                server and f"{server[0]} (pid {server[1]})",
            )
            for service, code, text, when, server in failures
        ]


def connect(
    broker: str | os.PathLike[str] | None = None,
    *,
    wait: float | None = None,
    placement: Placement = "least",
    silence: float | None = None,
) -> Client:
    """Connects to a broker: the one given, that of ``FOREBAY_BROKER``, the node's agent, or one that is started.

    ``wait``: for so many seconds this waits for a broker that is not there yet, and each call (or array) of the client
    for a server that offers the service, at most its own ``timeout``. For programs that are started before their
    servers. ``FOREBAY_PATIENCE`` if not given, not at all without it. Raises ``NoServer`` after that.

    ``placement`` says which server gets a call. ``least``: the one where it is over first, by what is known of how long
    calls of that size take there and of what is there already; calls that none would begin yet wait in this process.
    ``turns``: each server in turn, at once. A function is given a :class:`TaskView` and a list of :class:`ServerView`, the
    one first whose turn it is, and returns one of the list, or None, which leaves it to ``least``. It is asked of a call in
    the thread that makes it, of a task of a map in the thread that asks for results or, meanwhile, in one of this client's;
    a task for which the server that it names has no room waits and is asked again. What it calls and maps itself goes by
    ``least``, and so does what it fails for: the first failure is told as a ``RuntimeWarning``.

    ``silence``: for so many seconds, from 1 to 3600, a server on another host may say nothing before it is lost and its
    calls go elsewhere; ``FOREBAY_SILENCE`` if not given, 10 without it. One that computes, or receives what is sent to it,
    says once a second that it lives.
    """
    until = time.monotonic() + (wait or 0.0)
    while True:
        try:
            client = Client(None if broker is None else os.fspath(broker))
        except _forebay.NoServer:
            if time.monotonic() >= until:
                raise
            time.sleep(0.05)
        else:
            client._is_like_default = broker is None
            if wait is not None:
                client.patience(wait)
            if silence is not None:
                client.silence(silence)
            if callable(placement):
                client.place_with(asked(placement))
                # Its thread asks the function, too: it ends before the interpreter does.
                atexit.register(client.unnotify)
            elif not isinstance(placement, str):
                raise _forebay.BadArgument(
                    f"placement={placement!r} is no rule; use 'least', 'turns', or a function of a task and servers"
                )
            elif placement != "least":
                client.place_by(placement)
            return client


_default: Client | None = None
_inherited: list[Client] = []
_lock = threading.Lock()


def default_client() -> Client:
    """The client that :func:`call` and its like use, connected at its first use (again in a forked child)."""
    global _default
    with _lock:
        if _default is None:
            _default = connect()
        return _default


def _forget_default() -> None:
    """The connections are the parent's: a forked child makes its own, and leaves the parent's as they are."""
    global _default, _lock
    if _default is not None:
        _inherited.append(_default)
    _default, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_default)


def call(name: str, *args: Any, timeout: float | None = None, info: Info = "raise") -> Any:
    """Calls a service by name and waits for its results: arrays that come back are filled in place, the rest is
    returned. See :meth:`Client.call`.
    """
    return (_default or default_client()).call(name, *args, timeout=timeout, info=info)


def call_async(
    name: str,
    *args: Any,
    notify: Callable[[Future], object] | None = None,
    transfer: Transfer = "nowait",
    info: Info = "raise",
) -> Future:
    """Calls a service by name and returns at once. The arrays given belong to the call until it was waited for.
    See :meth:`Client.call_async` for ``notify``, ``transfer`` and ``info``.
    """
    return (_default or default_client()).call_async(name, *args, notify=notify, transfer=transfer, info=info)


def map(
    name: str,
    *iterables: Iterable[Any],
    window: int | None = None,
    ordered: bool = True,
    errors: Errors = "raise",
    progress: bool | Callable[[Progress], object] | None = None,
    strict: bool = False,
    memory: int | None = None,
    tail: bool = True,
    info: Info = "raise",
) -> Map:
    """Calls a service with each input, many at a time on all servers that offer it, and returns an iterator over the
    results. See :meth:`Client.map`.
    """
    return default_client().map(
        name,
        *iterables,
        window=window,
        ordered=ordered,
        errors=errors,
        progress=progress,
        strict=strict,
        memory=memory,
        tail=tail,
        info=info,
    )


def services() -> Services:
    """The services that are offered."""
    return default_client().services


def wait_all(futures: Sequence[Future], timeout: float | None = None) -> list[Any]:
    """Waits for all calls and returns their results in order; raises the first error, and ``Timeout``."""
    if not _forebay.wait_all(list(futures), timeout):
        raise _forebay.Timeout(
            f"not all of {len(futures)} calls were complete after {timeout} s; wait longer"
        )
    return [future.wait() for future in futures]


def wait_any(futures: Sequence[Future], timeout: float | None = None) -> int:
    """Waits until one call is complete and returns its index; raises ``Timeout``."""
    if not futures:
        raise _forebay.BadArgument("there is no call to wait for")
    index = _forebay.wait_any(list(futures), timeout)
    if index is None:
        raise _forebay.Timeout(f"none of {len(futures)} calls was complete after {timeout} s; wait longer")
    return index


def probe_any(futures: Sequence[Future]) -> int | None:
    """The index of a call that is complete, or None; does not wait."""
    return _forebay.probe_any(list(futures))


def cancel_all(futures: Iterable[Future]) -> None:
    """Gives all calls up that are not complete; waiting for one of them raises ``Cancelled``."""
    for future in futures:
        future.cancel()
