"""Which server gets a call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from conftest import Place, until

SERVICES = """
import os, time
import forebay as fb

@fb.service("in ms:i64, out pid:i64")
def who(ms):
    time.sleep(ms / 1000)
    return os.getpid()

@fb.service("inout x:f64[n], out pid:i64")
def add(x):
    x += 1
    return os.getpid()
"""


@pytest.fixture
def servers(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    path = tmp_path / "services.py"
    path.write_text(SERVICES)
    for name, value in place.variables.items():
        monkeypatch.setenv(name, value)
    started = [place.serve(path, name) for name in ("one", "two")]
    connected = fb.connect(wait=30)
    connected.signature("add")
    until(lambda: len(connected.services["add"].servers) == 2, what="both servers")
    yield [server.pid for server in started]


def test_a_client_is_tied_to_a_server_by_name_or_pid(servers: list[int]) -> None:
    c = fb.connect()
    assert {s.name for s in c.services["who"].servers} == {"one", "two"}
    assert {s.pid for s in c.services["who"].servers} == set(servers)
    assert c.services["nobody"].servers == []
    for name, pid in zip(("one", "two"), servers, strict=True):
        for tied in (c.on(name), c.on(pid)):
            assert {tied.call("who", 0) for _ in range(4)} == {pid}
            assert set(tied.map("who", [0] * 8)) == {pid}
            held = tied.put(np.zeros(3))
            assert c.call("add", held) == pid
            assert tied.call("add", held) == pid and held.get().tolist() == [2.0] * 3
    with pytest.raises(
        fb.NoServer, match=r'no server "three" offers who; it is offered by "(one|two)" \(pid'
    ):
        c.on("three").call("who", 0)
    for wrong in (1.5, True, None, -1):
        with pytest.raises((fb.BadArgument, TypeError, OverflowError)):
            c.on(wrong)  # type: ignore[arg-type]


def test_servers_take_turns_if_that_is_the_rule(servers: list[int]) -> None:
    c = fb.connect(placement="turns")
    assert Counter(c.call("who", 0) for _ in range(6)) == dict.fromkeys(servers, 3)
    with pytest.raises(fb.BadArgument, match='"luck" is no rule of placement; use "least"'):
        fb.connect(placement="luck")  # type: ignore[arg-type]


def test_calls_that_take_long_do_not_wait_behind_each_other(servers: list[int]) -> None:
    c = fb.connect()
    c.call("who", 1)
    long = c.call_async("who", 3_000)
    short = [c.call_async("who", 5) for _ in range(40)]
    for call in short:
        call.wait(timeout=60)
    # All but those that went to the busy server before anybody knew how long a call takes.
    assert Counter(call.wait() for call in short).most_common(1)[0][1] >= 37
    long.cancel()
