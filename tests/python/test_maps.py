"""Many calls of one service."""

from __future__ import annotations

import io
import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from conftest import Place, until

SERVICES = """
import os, time
import forebay as fb

@fb.service("in x:f64, out y:f64")
def square(x):
    return x * x

@fb.service("in a:f64, in x:f64[n], out y:f64[n], inout z:f64[n], out total:f64")
def scale(a, x, y, z):
    y[:] = a * x
    z += 1
    return x.sum()

@fb.service("in t:str, out u:str, out b:bytes")
def letters(t):
    return t[::-1], t.encode()

@fb.service("in seconds:f64, out pid:i64")
def nap(seconds):
    time.sleep(seconds)
    return os.getpid()

@fb.service("in x:i64, out y:i64")
def not_three(x):
    if x == 3:
        raise ValueError("three")
    return x

@fb.service("in n:i64, inout x:f64[m], out y:i64, out info:i32 status")
def ends(n, x):
    x += 1
    return 2 * n, n

@fb.service("in x:f64[n,m] order F, out y:f64[m,n] order F")
def turned(x, y):
    y[:] = x.T

@fb.service("in x:f64[n], out y:f64[k]")
def unknown(x, y):
    pass

@fb.service("in x:i64")
def complains(x):
    print("this is", x)
    raise ValueError("no")

@fb.service("in x:i64[n]")
def nothing(x):
    pass
"""


@pytest.fixture
def client(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[fb.Client]:
    path = tmp_path / "many.py"
    path.write_text(SERVICES)
    for name, value in place.variables.items():
        monkeypatch.setenv(name, value)
    for _ in range(2):
        place.serve(path)
    connected = fb.connect(wait=30)
    connected.signature("nothing")
    until(lambda: all(len(servers) == 2 for _, servers in connected.offers()), what="both servers")
    yield connected


def test_a_map_gives_what_map_gives(client: fb.Client) -> None:
    assert list(client.map("square", range(2000))) == [x * x for x in range(2000)]
    assert sorted(client.map("square", range(2000), ordered=False)) == [x * x for x in range(2000)]
    assert list(client.map("square", [])) == list(client.map("nobody", [])) == []
    assert list(client.map("letters", ["abc", "für"])) == [("cba", b"abc"), ("rüf", "für".encode())]
    assert list(client.map("nothing", [[1, 2], (3,), np.arange(5)])) == [None] * 3
    assert list(client.map("square", (float(n) for n in range(10)), window=1)) == [n * n for n in range(10)]


def test_arrays_that_come_back_are_new_and_those_that_go_may_be_used_again(client: fb.Client) -> None:
    buffer, once = np.zeros(600), np.full(600, 5.0)

    def inputs() -> Iterator[np.ndarray]:
        for number in range(100):
            buffer[:] = number
            yield buffer

    for number, (y, z, total) in enumerate(
        client.map("scale", itertools.repeat(2.0), inputs(), itertools.repeat(once))
    ):
        assert (y == 2 * number).all() and (z == 6).all() and total == 600 * number
        y[:] = z
    assert (once == 5).all()
    a = np.arange(6.0).reshape(2, 3)
    for given in (a, np.asfortranarray(a), np.repeat(a, 2, axis=1)[:, ::2]):
        (found,) = client.map("turned", [given])
        assert (found == a.T).all() and found.flags.f_contiguous


def test_of_unordered_results_it_is_told_whose_they_are(client: fb.Client) -> None:
    m = client.map("square", range(100), ordered=False)
    found = [(m.index, m.input, y) for y in m]
    assert sorted(found) == [(n, n, n * n) for n in range(100)]
    assert m.counts == {"pulled": 100, "under_way": 0, "done": 100, "failed": 0, "cancelled": 0}
    assert m.status(7) == "done" and m.status(100) is None


def test_a_task_that_fails_is_told_with_its_input(client: fb.Client) -> None:
    m = client.map("not_three", range(6))
    assert [next(m), next(m), next(m)] == [0, 1, 2]
    with pytest.raises(fb.RemoteError, match=r"(?s)task 3, input 3: .*ValueError: three") as caught:
        next(m)
    assert (caught.value.index, caught.value.input) == (3, 3)  # type: ignore[attr-defined]
    assert list(m) == []
    m = client.map("not_three", [1, "two", 3, 2**70, 5], errors="yield")
    results = list(m)
    assert [type(r).__name__ for r in results] == ["int", "BadArgument", "RemoteError", "BadArgument", "int"]
    assert [e.index for e in m.failed()] == [1, 2, 3]  # type: ignore[attr-defined]
    assert m.counts["failed"] == 3


def test_what_cannot_be_mapped_is_refused_with_its_remedy(client: fb.Client) -> None:
    for refused, words in [
        (lambda: client.map("square"), "at least one iterable"),
        (lambda: client.map("square", 3.0), r"write itertools.repeat\(3.0\)"),
        (lambda: client.map("square", [1], errors="skip"), "'raise' or 'yield'"),  # type: ignore[arg-type]
        (lambda: client.map("square", [1], window=0), "at least 1"),
        (lambda: list(client.map("square", [1], [2])), "takes 1 arguments and 2 iterables"),
        (lambda: list(client.map("unknown", [np.zeros(2)])), "in k:i64"),
        (lambda: list(client.map("scale", [1.0], [np.zeros(2)], [np.zeros(3)])), "pass arrays that agree"),
        (
            lambda: list(client.map("scale", [1, 2], [[1.0]], [[1.0]] * 3, strict=True)),
            "iterable 2 ends after 1",
        ),
    ]:
        with pytest.raises(fb.BadArgument, match=words):
            refused()
    with pytest.raises(fb.NoServer, match="nobody"):
        fb.connect().map("nobody", [1]).__next__()
    assert list(client.map("scale", [1, 2], [[1.0]] * 3, [[1.0]] * 3))[1][0] == [2.0]


def test_an_iterable_that_raises_does_so_behind_the_results_of_what_it_gave(client: fb.Client) -> None:
    def inputs() -> Iterator[float]:
        yield from (1.0, 2.0)
        raise KeyError("no more")

    m = client.map("square", inputs())
    assert [next(m), next(m)] == [1.0, 4.0]
    with pytest.raises(KeyError) as caught:
        next(m)
    if sys.version_info >= (3, 11):
        assert caught.value.__notes__ == ["raised by the iterable after 2 inputs"]
    assert list(m) == []


def test_input_is_taken_as_it_is_of_use(client: fb.Client) -> None:
    taken = []

    def inputs() -> Iterator[float]:
        for number in itertools.count():
            taken.append(number)
            yield float(number)

    with client.map("square", inputs()) as m:
        for number, y in zip(range(50), m, strict=False):
            assert y == number * number
    assert 50 <= len(taken) < 10_000
    assert list(m) == []
    large = (np.full(1 << 17, float(n)) for n in range(40))
    sizes = [
        len(taken := y)
        for y, _, _ in client.map("scale", [1.0] * 40, large, [np.zeros(1 << 17)] * 40, memory=1)
    ]
    assert sizes == [1 << 17] * 40


def test_servers_work_on_while_the_body_of_the_loop_does_something_else(client: fb.Client) -> None:
    m = client.map("nap", [0.01] * 30)
    next(m)
    until(lambda: m.counts["done"] == 30, what="the end of all tasks")
    assert len(list(m)) == 29


def test_the_progress_is_told(client: fb.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[fb.Progress] = []
    assert len(list(client.map("nap", [0.05] * 10, progress=seen.append))) == 10
    assert seen[-1].done == seen[-1].total == 10 and seen[-1].rate > 0
    # What repeats one value is as long as the others, and some iterators know how long they are.
    rows = [np.ones(2)] * 3
    for numbers in (itertools.repeat(1.0), itertools.repeat(1.0, 3), iter([1.0] * 3)):
        list(client.map("scale", numbers, rows, rows, progress=seen.append))
        assert seen[-1].total == 3
    assert any(0 < p.done < 10 for p in seen)
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    list(client.map("square", (n for n in [1, 2, 3]), progress=True))
    assert shown.getvalue().startswith("square: 3 tasks, ")
    shown.isatty = lambda: True  # type: ignore[method-assign]
    list(client.map("square", [1, 2, 3], progress=True))
    assert (
        shown.getvalue().endswith("/s\n")
        and "[########################] square: 3/3 tasks" in shown.getvalue()
    )


def test_a_task_is_given_up_by_another_thread_and_the_rest_by_closing(client: fb.Client) -> None:
    m = client.map("nap", [0.3] * 20, errors="yield", window=2)
    next(m)
    assert m.cancel(5) and not m.cancel(5) and not m.cancel(0)
    assert m.status(5) == "cancelled"
    results = [next(m) for _ in range(5)]
    assert isinstance(results[-1], fb.Cancelled) and not any(isinstance(r, Exception) for r in results[:-1])
    m.close()
    assert list(m) == []
    began = time.monotonic()
    assert client.call("square", 3.0) == 9.0
    assert time.monotonic() - began < 5


def test_ctrl_c_ends_a_map_and_the_client_goes_on(client: fb.Client) -> None:
    m = client.map("nap", [0.5] * 100)

    def interrupted() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        for _ in m:
            pass

    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert list(m) == []
    assert list(client.map("square", [1, 2])) == [1, 4]


def test_in_a_child_of_fork_a_map_is_the_parents(client: fb.Client) -> None:
    m = client.map("nap", [0.05] * 10)
    next(m)
    child = os.fork()
    if child == 0:
        try:
            next(m)
        except fb.Closed:
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert len(list(m)) == 9


def test_many_small_tasks_take_no_memory_that_grows(client: fb.Client) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    m = client.map("square", itertools.repeat(2.0), ordered=False)
    for _ in zip(range(20_000), m, strict=False):
        pass
    before = resident()
    for _ in zip(range(60_000), m, strict=False):
        pass
    grown = resident() - before
    m.close()
    assert grown < 4 << 20, f"{grown} bytes more"


def test_the_function_of_the_package_is_that_of_a_client(client: fb.Client) -> None:
    assert list(fb.map("square", [1, 2, 3])) == [1, 4, 9]
    assert repr(fb.map("square", [1])) == "<forebay.Map 'square'>"


def test_a_status_that_is_not_0_is_raised_with_all_results_unless_it_is_wanted(client: fb.Client) -> None:
    x = np.zeros(3)
    assert client.call("ends", 0, x) == (0, 0)
    with pytest.raises(fb.RemoteError, match="ends: its status info is 3") as raised:
        client.call("ends", 3, x)
    assert (raised.value.info, raised.value.results, x.tolist()) == (3, (6, 3), [2, 2, 2])
    assert client.call("ends", 3, x, info="return") == client.services.ends(3, x, info="return") == (6, 3)
    h = client.call_async("ends", 4, x)
    for _ in range(2):
        with pytest.raises(fb.RemoteError, match="its status info is 4") as raised:
            h.wait()
        assert (raised.value.info, raised.value.results) == (4, (8, 4))
    assert x.tolist() == [5, 5, 5]
    assert client.call_async("ends", 4, x, info="return").wait() == (8, 4)
    with (
        pytest.raises(fb.RemoteError, match=r"call 2 of 2 \(ends\): ends: its status info is 1"),
        client.cobegin() as g,
    ):
        g.call("ends", 0, np.zeros(1))
        g.call("ends", 1, np.zeros(1))
    good, bad = client.map("ends", [0, 5], [[1.0], [2.0]], errors="yield")
    assert (good[0].tolist(), good[1:]) == ([2.0], (0, 0))
    assert (bad.info, bad.index, bad.results[0].tolist(), bad.results[1:]) == (5, 1, [3.0], (10, 5))
    (both,) = client.map("ends", [5], [[2.0]], info="return")
    assert both[1:] == (10, 5)
    with pytest.raises(fb.BadArgument, match="info=\"none\" is not known; use 'raise' or 'return'"):
        client.call("ends", 0, x, info="none")


def test_a_status_that_is_raised_counts_as_a_failure_and_one_that_is_returned_does_not(
    client: fb.Client,
) -> None:
    statuses = [0, 3, 0, -7, 1]
    m = client.map("ends", statuses, itertools.repeat([1.0]), errors="yield")
    results = list(m)
    assert [isinstance(r, fb.RemoteError) for r in results] == [s != 0 for s in statuses]
    assert (m.counts["done"], m.counts["failed"]) == (2, 3)
    assert [m.status(i) for i in range(5)] == ["done", "failed", "done", "failed", "failed"]
    assert [(e.index, e.info) for e in m.failed()] == [(1, 3), (3, -7), (4, 1)]  # type: ignore[attr-defined]
    m = client.map("ends", statuses, itertools.repeat([1.0]), info="return")
    assert [r[2] for r in m] == statuses and m.counts["failed"] == 0
    assert client.failed() == [], "a map tells of its own"
    m = client.map("ends", statuses, itertools.repeat([1.0]), ordered=False)
    with pytest.raises(fb.RemoteError, match="its status info is"):
        list(m)
    # Of single calls those stand in the list that were raised.
    x = np.zeros(1)
    with pytest.raises(fb.RemoteError):
        client.call("ends", 3, x)
    with pytest.raises(fb.RemoteError):
        client.call("ends", 4, x, timeout=30)
    client.call("ends", 5, x, info="return")
    late = client.call_async("ends", 6, x)
    for _ in range(2):
        with pytest.raises(fb.RemoteError):
            late.wait()
    client.call_async("ends", 7, x, info="return").wait()
    with pytest.raises(fb.RemoteError), client.cobegin() as g:
        g.call("ends", 8, x)
    failed = client.failed()
    assert [one.text for one in failed] == [f"ends: its status info is {n}" for n in (3, 4, 6, 8)]
    assert all(one.code == "RemoteError" and one.server and "server (pid" in one.server for one in failed)


def test_an_error_of_a_task_brings_what_its_service_has_printed(client: fb.Client) -> None:
    tasks = list(client.map("complains", range(20), errors="yield"))
    assert [(task.stdout, task.output_others) for task in tasks] == [(f"this is {n}\n", 0) for n in range(20)]
    with pytest.raises(fb.RemoteError) as raised:
        list(client.map("complains", [7]))
    assert raised.value.stdout == "this is 7\n"


def test_numbers_that_are_none_of_a_map_or_server_are_refused_by_name(client: fb.Client) -> None:
    for window in (-1, 0, 1 << 40):
        with pytest.raises(fb.BadArgument, match=f"window={window} .*give at least 1"):
            client.map("square", [1], window=window)
    m = client.map("square", [1])
    for ask in (m.status, m.cancel):
        with pytest.raises(fb.BadArgument, match="index=-1 is no task; they count from 0"):
            ask(-1)
    with pytest.raises(fb.BadArgument, match="server=-1: no process has that pid"):
        client.on(-1)
    with pytest.raises(fb.BadArgument, match="placement=3 is no rule; use 'least', 'turns', or a function"):
        fb.connect(placement=3)  # type: ignore[arg-type]


def test_a_text_is_no_iterable_of_inputs(client: fb.Client) -> None:
    with pytest.raises(
        fb.BadArgument, match=r"argument 2 is the text 'run.log', .* letters; write \['run.log'\]"
    ):
        client.map("add", [1], "run.log")


def test_a_call_that_takes_too_long_is_told_in_the_same_words_wherever_it_is(client: fb.Client) -> None:
    late = r"nap has no result after 0\.\d{3} s: "
    naps = [client.call_async("nap", 1.0) for _ in range(2)]
    for _ in range(3):
        with pytest.raises(fb.Timeout, match=late + ".*; allow it more time$") as told:
            client.call("nap", 0.0, timeout=0.05)
        assert client.failed()[-1].text == str(told.value)
    # A call that somebody can wait for again.
    with pytest.raises(fb.Timeout, match=late + "it is under way; wait longer, or cancel it$"):
        naps[0].wait(0.01)
    assert len(fb.wait_all(naps)) == 2


def test_a_second_thread_that_takes_a_result_of_a_map_gets_an_error_and_ends_nothing(
    client: fb.Client,
) -> None:
    wrong: list[BaseException] = []
    m = client.map("nap", [0.02] * 30)

    def take() -> None:
        while True:
            try:
                next(m)
            except fb.BadArgument as error:
                # Whoever comes second; the other one goes on.
                wrong.append(error)
                time.sleep(0.01)
            except StopIteration:
                return

    threads = [threading.Thread(target=take) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong and "another thread takes results of the map of nap" in str(wrong[0])
    assert m.counts["cancelled"] == 0 and m.counts["done"] == 30
