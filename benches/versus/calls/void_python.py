"""void_python.py forebay|futures|joblib|dask|ray WHERE SECONDS: void calls from Python, measured as `void.h` does.

WHERE is the broker of Forebay's service `nothing`. The others start one worker of their own, which is warm before the clock runs.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

BATCH, UNDER_WAY = 100, 1000
# Of who takes milliseconds.
FEW, SOME = 10, 100


def nothing() -> None:
    """What is called."""


class Way:
    """How calls are made: one that is waited for, one that is sent, those sent taken."""

    batch, crowd = BATCH, UNDER_WAY

    def call(self) -> None:
        """A call, waited for."""
        self.take([self.send()])

    def send(self) -> Any:
        """A call that is not waited for."""
        raise NotImplementedError

    def take(self, sent: Sequence[Any]) -> None:
        """The results of calls."""
        for one in sent:
            one.result()

    def over(self) -> None:
        """No more."""


class Forebay(Way):
    """A service in C, called by the client's own function."""

    def __init__(self, where: str) -> None:
        import forebay as fb

        client = fb.connect(where)
        self._call, self._send = client.call, client.call_async

    def call(self) -> None:
        self._call("nothing")

    def send(self) -> Any:
        return self._send("nothing")

    def take(self, sent: Sequence[Any]) -> None:
        for one in sent:
            one.wait()


class Futures(Way):
    """ProcessPoolExecutor with one worker."""

    def __init__(self, _: str) -> None:
        self.pool = ProcessPoolExecutor(1)

    def send(self) -> Any:
        return self.pool.submit(nothing)

    def over(self) -> None:
        self.pool.shutdown()


class Joblib(Way):
    """The executor of joblib's default backend, with one worker."""

    def __init__(self, _: str) -> None:
        from joblib.externals.loky import get_reusable_executor

        self.pool = get_reusable_executor(max_workers=1, timeout=600)

    def send(self) -> Any:
        return self.pool.submit(nothing)

    def over(self) -> None:
        self.pool.shutdown()


class Dask(Way):
    """One worker of one thread; `pure=False`, or a second call would be answered from memory."""

    batch, crowd = FEW, SOME

    def __init__(self, _: str) -> None:
        from dask.distributed import Client

        self.client = Client(n_workers=1, threads_per_worker=1, dashboard_address=None)

    def send(self) -> Any:
        return self.client.submit(nothing, pure=False)

    def over(self) -> None:
        self.client.close()


class Ray(Way):
    """A method of an actor."""

    def __init__(self, _: str) -> None:
        import ray

        # Its path is part of the name of a socket, which may not be long.
        ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, configure_logging=False)

        @ray.remote
        class Actor:
            def nothing(self) -> None:
                """What is called."""

        self.method, self.get, self.end = Actor.remote().nothing, ray.get, ray.shutdown

    def send(self) -> Any:
        return self.method.remote()

    def take(self, sent: Sequence[Any]) -> None:
        self.get(list(sent))

    def over(self) -> None:
        self.end()


def batches(does: Callable[[], object], batch: int, seconds: float) -> float:
    """Microseconds of a call, the median of batches."""
    times: list[float] = []
    over = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < over:
        begin = time.perf_counter()
        for _ in range(batch):
            does()
        times.append((time.perf_counter() - begin) / batch * 1e6)
    return statistics.median(times)


def crowds(way: Way, pause: float, seconds: float) -> float:
    """Microseconds a call with many sent and then taken; a pause between the two does not count."""
    times: list[float] = []
    over = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < over:
        begin = time.perf_counter()
        sent = [way.send() for _ in range(way.crowd)]
        done = time.perf_counter()
        time.sleep(pause)
        again = time.perf_counter()
        way.take(sent)
        times.append((done - begin + time.perf_counter() - again) / way.crowd * 1e6)
    return statistics.median(times)


def main() -> int:
    """Measures and prints."""
    who, where, length = sys.argv[1:]
    seconds = float(length)
    ways = {"forebay": Forebay, "futures": Futures, "joblib": Joblib, "dask": Dask, "ray": Ray}
    if who == "forebay":
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[: len(cores) // 2] or cores)
    way = ways[who](where)
    batches(way.call, way.batch, seconds / 4)
    found = {
        "synchronous": batches(way.call, way.batch, seconds / 4),
        "asynchronous + get": batches(lambda: way.take([way.send()]), way.batch, seconds / 4),
        "under way": crowds(way, 0, seconds / 4),
    }
    found["client part"] = crowds(way, 3e-6 * way.crowd * found["under way"], seconds / 2)
    way.over()
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
