"""Which server gets a call."""

from __future__ import annotations

import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def test_a_function_of_the_program_decides_where_calls_and_tasks_go(servers: list[int]) -> None:
    seen: list[tuple[fb.TaskView, list[fb.ServerView]]] = []

    def second(task: fb.TaskView, among: list[fb.ServerView]) -> fb.ServerView | None:
        seen.append((task, among))
        # What it calls itself goes without it.
        assert inner.call("who", 0) in servers
        return next((server for server in among if server.name == "two"), None)

    inner = c = fb.connect(placement=second)
    assert {c.call("who", 0) for _ in range(10)} == {servers[1]}
    under_way = [c.call_async("add", np.zeros(500)) for _ in range(10)]
    assert {call.wait() for call in under_way} == {servers[1]}
    task, among = seen[-1]
    assert (task.service, task.bytes, task.cost) == ("add", 4_000, None)
    assert {(s.name, s.pid) for s in among} == set(zip(("one", "two"), servers, strict=True))
    assert all(s.workers == 1 and s.others >= 0 and s.ahead is None for s in among)
    assert next(s.mine for s in among if s.name == "two") > 0
    before = len(seen)
    assert set(c.map("who", [1] * 200)) == {servers[1]} and len(seen) >= before + 200
    with pytest.raises(fb.Conflict, match="another client"):
        c.place_by("turns")


def test_a_function_that_fails_is_told_once_and_the_usual_rule_decides(servers: list[int]) -> None:
    asked = 0

    def broken(task: fb.TaskView, among: list[fb.ServerView]) -> Any:
        nonlocal asked
        asked += 1
        return among[asked % 7] if asked % 2 else 3

    c = fb.connect(placement=broken)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert len({c.call("who", 1) for _ in range(20)}) == 2
        assert set(c.map("who", [1] * 100)) == set(servers)
        assert set(fb.connect(placement=lambda task, among: None).map("who", [1] * 100)) == set(servers)
    assert asked >= 120 and len(told) == 1 and told[0].category is RuntimeWarning
    assert "the function has failed" in str(told[0].message) and '"least" decides' in str(told[0].message)


def test_a_function_is_asked_while_threads_of_the_program_wait_in_every_way(servers: list[int]) -> None:
    """Whoever waits lets go of the interpreter: nobody waits for the other for ever."""
    c = fb.connect(placement=lambda task, among: min(among, key=lambda server: server.mine))
    over = threading.Event()

    def busy() -> None:
        while not over.is_set():
            c.call("who", 0)
            c.failed()

    def short_maps() -> None:
        while not over.is_set():
            m = c.map("who", [0] * 40, ordered=False)
            next(m)
            _ = m.counts, m.status(0), m.cancel(39)
            del m  # closed by its end while tasks are under way

    threads = [threading.Thread(target=work) for work in (busy, busy, short_maps, short_maps)]
    for thread in threads:
        thread.start()
    m = c.map("who", [1] * 300)
    for n, _ in enumerate(m):
        if n % 50 == 0:
            time.sleep(0.02)  # the client's own thread asks meanwhile
            assert m.counts["pulled"] > 0
    over.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_a_function_calls_and_maps_with_its_own_client(servers: list[int]) -> None:
    client: list[fb.Client] = []
    asked: list[fb.TaskView] = []

    def asks(task: fb.TaskView, among: list[fb.ServerView]) -> fb.ServerView:
        (c,) = client
        assert c.call("who", 0) in servers and set(c.map("who", [0, 0])) <= set(servers)
        with c.cobegin() as group:
            group.call("who", 0)
        asked.append(task)
        return among[0]

    client.append(fb.connect(placement=asks))
    assert client[0].call("who", 0) in servers
    assert set(client[0].map("who", [0] * 10)) <= set(servers)
    assert len(asked) >= 11


def test_a_function_that_waits_for_the_map_whose_tasks_it_places_is_told_so(servers: list[int]) -> None:
    maps: list[Any] = []

    def asks(task: fb.TaskView, among: list[fb.ServerView]) -> None:
        if maps:
            next(maps[0])

    c = fb.connect(placement=asks)
    maps.append(c.map("who", [0]))
    with pytest.warns(RuntimeWarning, match="begin a map within the function"):
        assert c.call("who", 0) in servers


def test_ctrl_c_in_a_function_of_placement_is_the_caller_s(servers: list[int]) -> None:
    def interrupted(task: fb.TaskView, among: list[fb.ServerView]) -> None:
        raise KeyboardInterrupt

    c = fb.connect(placement=interrupted)
    with pytest.raises(KeyboardInterrupt):
        c.call("who", 0)
    with pytest.raises(KeyboardInterrupt):
        list(c.map("who", [0] * 3))


COSTS = """
import os, time
import forebay as fb

@fb.service("in units:i64, out pid:i64", cost="units")
def told(units):
    time.sleep(units * 2e-6)
    return os.getpid()
"""


def test_long_calls_are_known_by_their_cost_after_thousands_of_short_ones(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "services.py"
    path.write_text(COSTS)
    for name, value in place.variables.items():
        monkeypatch.setenv(name, value)
    for name in ("one", "two"):
        place.serve(path, name)
    c = fb.connect(wait=30)
    assert c.signature("told") == "told(in units:i64, out pid:i64) cost units"
    until(lambda: len(c.services["told"].servers) == 2, what="both servers")
    short, long, pairs = 5, 50_000, 12
    tasks = [short] * 2_000 + [long, short] * pairs

    def calls() -> list[int]:
        under_way = [c.call_async("told", units) for units in tasks]
        return [call.wait(timeout=60) for call in under_way]

    # In turn, one server would have every long one: half of them each, or nearly, is the ideal.
    for ran in (list(c.map("told", tasks, tail=False)), calls()):
        long_ones = Counter(pid for pid, units in zip(ran, tasks, strict=True) if units == long)
        assert min(long_ones.values()) >= pairs / 2 - 2 and len(long_ones) == 2, long_ones


def test_a_cost_is_text_or_a_function_that_is_traced() -> None:
    def cost_of(parameters: str, cost: Any) -> str:
        @fb.service(parameters, cost=cost)
        def f(*args: Any) -> None: ...

        return str(f.__forebay_service__.cost)  # type: ignore[attr-defined]

    square = "in n:i64, in m:i64, inout x:f64[k,n]"
    assert cost_of(square, "n**3 + m") == "n**3 + m"
    assert cost_of(square, lambda n: n**3) == "n*n*n"
    assert cost_of(square, lambda n, m, k: 2 * (n + m) ** 2 * k + 5) == "2*n*n*k + 4*n*m*k + 2*m*m*k + 5"
    assert cost_of(square, lambda n, m: n * 0 + m) == "m"
    for wrong, says in (
        (lambda n: n / 2, "write cost='n\\*n\\*n'"),
        (lambda n: n**0.5, "write cost='n\\*n\\*n'"),
        (lambda n: n - 1, "write cost='n\\*n\\*n'"),
        (lambda n: n**3 if n == 100 else n, "it compares a parameter"),
        (lambda n: n if n else 1, "it asks what a parameter is"),
        (lambda n: {1: 2}.get(n, n), "it looks a parameter up"),
        (lambda n: (1 / 0) * n, "division by zero"),
        (lambda n: 7, "gives 7 whatever"),
        (lambda j: j, 'names "j", which is neither'),
        (lambda n, m, k: (n + m + k + 1) ** 8, "products"),
        ("n - m", "no sum of products"),
        (3.0, "neither a text nor a function"),
    ):
        with pytest.raises(fb.BadArgument, match=says):
            cost_of(square, wrong)
