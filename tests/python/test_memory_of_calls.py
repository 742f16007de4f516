"""Memory that arguments of calls needed goes back to the system."""

from __future__ import annotations

from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from conftest import Place, until
from libraries import client_at

SERVICES = '''
"""Services that the tests call."""
import time
import forebay as fb

@fb.service("in x:f64[n], out total:f64")
def total(x):
    return float(x.sum())

@fb.service("in seconds:f64")
def sleep(seconds):
    time.sleep(seconds)
'''


@pytest.fixture
def client(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> fb.Client:
    file = tmp_path / "things.py"
    file.write_text(SERVICES)
    place.serve(file, "one")
    return client_at(place, monkeypatch)


def resident() -> int:
    """MiB of shared memory that this process has touched and that are there."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("RssShmem:")[1].split()[0]) >> 10


def test_memory_of_a_large_argument_goes_back_when_none_follows(client: fb.Client) -> None:
    x = np.ones(32 << 20)
    before = resident()
    assert client.call("total", x) == len(x)
    assert resident() - before < 300, "it was taken once"
    until(lambda: resident() - before < 20, what="the end of its use")
    assert client.call("total", x) == len(x)


def test_memory_of_many_small_arguments_goes_back_although_the_calls_are_kept(client: fb.Client) -> None:
    x = np.ones(60_000)
    before = resident()
    # They lie there while the only worker has something else to do.
    kept = [client.call_async("sleep", 0.5), *(client.call_async("total", x) for _ in range(200))]
    assert fb.wait_all(kept)[1:] == [len(x)] * 200
    assert resident() - before > 60, "it was taken"
    until(lambda: resident() - before < 20, what="the end of their use")
