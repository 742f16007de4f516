"""maps_python.py forebay|futures|joblib|dask|ray WHERE WORKERS COUNT [FILE]: a map from Python; WHERE is Forebay's broker.

Without a file COUNT tasks that do nothing; with one COUNT tasks of the durations in it, which are spent on the core. The
others start so many workers, which are warm before the clock runs, and take chunks as their guides say.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

CHUNK_OF_SHORT = 100


def spend(seconds: float) -> float:
    """A task: so long on the core, or nothing at all."""
    if seconds > 0:
        over = time.thread_time() + seconds
        while time.thread_time() < over:
            pass
    return seconds


def spend_all(lengths: Sequence[float]) -> list[float]:
    """A chunk of tasks, for those who have no chunks of their own."""
    return [spend(s) for s in lengths]


def chunks(lengths: Sequence[float], size: int) -> list[Sequence[float]]:
    """All, so many at a time."""
    return [lengths[i : i + size] for i in range(0, len(lengths), size)]


class Forebay:
    """A service in C."""

    def __init__(self, where: str, _: int) -> None:
        import forebay as fb
        import numpy as np

        self.client, self.nothing = fb.connect(where), np.zeros(1, np.uint8)

    def map(self, lengths: Sequence[float], size: int) -> int:
        """How many results there are."""
        if size > 1:
            return sum(1 for _ in self.client.map("number", lengths, ordered=False))
        return sum(
            1 for _ in self.client.map("spend", lengths, itertools.repeat(self.nothing), ordered=False)
        )


class Futures:
    """ProcessPoolExecutor.map with its chunks."""

    def __init__(self, _: str, workers: int) -> None:
        self.pool = ProcessPoolExecutor(workers)

    def map(self, lengths: Sequence[float], size: int) -> int:
        """How many results there are."""
        return sum(1 for _ in self.pool.map(spend, lengths, chunksize=size))


class Joblib:
    """Parallel, whose batches it finds itself."""

    def __init__(self, _: str, workers: int) -> None:
        from joblib import Parallel, delayed

        self.parallel, self.spend = Parallel(n_jobs=workers), delayed(spend)

    def map(self, lengths: Sequence[float], _: int) -> int:
        """How many results there are."""
        return len(self.parallel(self.spend(s) for s in lengths))


class Dask:
    """Client.map over chunks."""

    def __init__(self, _: str, workers: int) -> None:
        from dask.distributed import Client

        self.client = Client(n_workers=workers, threads_per_worker=1, dashboard_address=None)

    def map(self, lengths: Sequence[float], size: int) -> int:
        """How many results there are."""
        sent = self.client.map(spend_all, chunks(lengths, size), pure=False)
        return sum(len(some) for some in self.client.gather(sent))


class Ray:
    """Remote functions over chunks."""

    def __init__(self, _: str, workers: int) -> None:
        import ray

        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, configure_logging=False)
        self.remote, self.get = ray.remote(spend_all).remote, ray.get

    def map(self, lengths: Sequence[float], size: int) -> int:
        """How many results there are."""
        return sum(len(some) for some in self.get([self.remote(part) for part in chunks(lengths, size)]))


def main() -> int:
    """Measures and prints."""
    who, where, workers, count = sys.argv[1:5]
    lengths = [0.0] * int(count)
    size = CHUNK_OF_SHORT
    if len(sys.argv) > 5:
        with open(sys.argv[5]) as file:
            lengths = [float(line) for line in file][: int(count)]
        size = 1
    ways = {"forebay": Forebay, "futures": Futures, "joblib": Joblib, "dask": Dask, "ray": Ray}
    way = ways[who](where, int(workers))
    way.map([1e-4] * 64, 1)
    begin = time.perf_counter()
    found = way.map(lengths, size)
    took = time.perf_counter() - begin
    if found != len(lengths):
        sys.exit(f"error: {found} results of {len(lengths)} tasks")
    print(json.dumps({"seconds": took, "each": took / len(lengths) * 1e6}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
