"""Memory that arguments of calls needed goes back to the system."""

from __future__ import annotations

import subprocess
import sys
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

@fb.service("in x:u8[n], out total:i64")
def count(x):
    return len(x)

@fb.service("in n:i64, out some:bytes")
def bytes_of(n):
    return bytes(n)

@fb.service("in n:i64, out some:str")
def text_of(n):
    return "x" * n

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


SHORT_OF_MEMORY = """
import resource
import forebay as fb
import numpy as np

client = fb.connect(wait=20)
x = np.zeros(48 << 20, dtype="u1")
assert client.call("count", x) == len(x) and client.call("bytes_of", 3) == bytes(3)
# Threads are there before memory is short: the C library ends a program that has none for a new one's variables.
assert client.call_async("count", x, transfer="copy").wait() == next(client.map("count", [x])) == len(x)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (24 << 20),) * 2)
for wants in (
    lambda: client.call("bytes_of", 40 << 20),
    lambda: client.call("text_of", 40 << 20),
    lambda: client.call_async("count", x, transfer="copy").wait(),
    lambda: next(client.map("count", [x])),
    lambda: client.call("count", x[::2]),
):
    try:
        print("had", wants())
    except fb.Full as e:
        print("Full", "ulimit -v" in str(e) or str(e))
print(client.call("bytes_of", 3))
"""


def test_a_program_without_memory_hears_so_of_each_large_copy_and_goes_on(client: fb.Client) -> None:
    ran = subprocess.run([sys.executable, "-c", SHORT_OF_MEMORY], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, (ran.stdout, ran.stderr)
    *told, last = ran.stdout.splitlines()
    assert set(told) <= {"Full True", f"had {24 << 20}", f"had {48 << 20}"} and len(told) == 5, ran.stdout
    assert told[:2] == ["Full True"] * 2 and last == str(bytes(3)), ran.stdout
