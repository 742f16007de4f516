"""Calls to services in other processes."""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from conftest import Place, until
from places import stop

SERVICES = '''
"""Services that the tests call."""
import os, time
import forebay as fb
import numpy as np

@fb.service("in a:f64, in x:f64[n], inout y:f64[n]")
def axpy(a, x, y):
    y += a * x

@fb.service("in x:f64[n,m], out y:f64[m,n]")
def transpose(x, y):
    y[:] = x.T

@fb.service("in n:i32, in z:c128, in on:bool, in t:str, in b:bytes, out n2:i64, out z2:c128, out t2:str, out b2:bytes")
def scalars(n, z, on, t, b):
    return n + 1, z.conjugate() if on else z, t[::-1], b + b"!"

@fb.service("in t:str, in b:bytes, in x:f64[n], inout y:f64[n], out told:str")
def added(t, b, x, y):
    y += x
    return t + b.decode()

@fb.service("")
def void():
    pass

@fb.service("in x:f64[n]")
def read_only(x):
    x[0] = 1

@fb.service("in what:str")
def fails(what):
    raise ValueError(f"on purpose: {what}")

@fb.service("in seconds:f64")
def sleep(seconds):
    time.sleep(seconds)

@fb.service("in seconds:f64, in x:f64[n], out total:f64")
def late_total(seconds, x):
    time.sleep(seconds)
    return float(x.sum())

@fb.service("out pid:i64")
def pid():
    return os.getpid()

@fb.service("in seconds:f64, out pid:i64", effects=True)
def once(seconds):
    time.sleep(seconds)
    return os.getpid()

def order(*arrays):
    """C or F, as each of them lies."""
    return "".join("C" if x.flags.c_contiguous else "F" if x.flags.f_contiguous else "?" for x in arrays)

@fb.service("in a:f64[n,m], inout b:f64[n,m], out told:str")
def as_given(a, b):
    b += a
    return order(a, b)

@fb.service("in a:f64[n,m] order F, inout b:f64[n,m] order C, out c:f64[n,m] order F, out told:str")
def demands(a, b, c):
    b += a
    c[:] = 2 * a
    return order(a, b, c)

@fb.service("in a:f64[n,m], in b:f64[n,m], out told:str")
def read_both(a, b):
    return order(a, b)

kept = []

@fb.service("in x:f64[n], out total:f64")
def keep(x):
    kept.append(x)
    return float(np.sum([k.sum() for k in kept]))

held = []

@fb.service("inout y:f64[n]")
def hold(y):
    held.append(y)
    y += 1

parts = []

@fb.service("inout y:f64[n]")
def hold_part(y):
    parts.append(y[1:])

@fb.service("out refused:i64")
def write_the_part():
    parts[-1][:] = -1.0
    return 0

@fb.service("in x:f64[n], out total:f64")
def sum(x):
    return float(np.sum(x))

@fb.service("out n:i64")
def forget():
    n = len(kept)
    kept.clear()
    parts.clear()
    return n

@fb.service("out refused:i64")
def write_what_is_held():
    try:
        held[-1][:] = 7
    except ValueError:
        return 1
    return 0
'''


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "things.py"
    path.write_text(SERVICES)
    return path


@pytest.fixture
def client(place: Place, file: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[fb.Client]:
    for name, value in place.variables.items():
        monkeypatch.setenv(name, value)
    place.serve(file)
    connected = fb.connect()
    until(lambda: offered(connected, "keep"), what="the server")
    yield connected


def offered(client: fb.Client, name: str) -> bool:
    try:
        return bool(client.signature(name))
    except fb.NoServer:
        return False


def test_a_client_waits_for_a_server_that_comes_later(
    place: Place, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in place.variables.items():
        monkeypatch.setenv(name, value)
    hurried, patient = fb.connect(), fb.connect(wait=30)
    with pytest.raises(fb.NoServer, match="start one with"):
        hurried.call("pid")
    with pytest.raises(fb.NoServer, match=r"waited 0.2 s in vain"):
        patient.call("pid", timeout=0.2)
    server = place.serve(file)
    assert patient.call("pid") == server.pid
    server.kill()
    server.wait()
    later = place.serve(file)
    assert patient.call("pid") == later.pid
    with pytest.raises(fb.BadArgument):
        fb.connect(wait=-1)


def test_a_client_waits_for_a_broker_that_comes_later(place: Place, file: Path) -> None:
    socket = place.folder / "run" / "agent.sock"
    begun = time.monotonic()
    with pytest.raises(fb.NoServer):
        fb.connect(socket, wait=0.2)
    assert time.monotonic() - begun >= 0.2
    code = "import sys, forebay as fb; print(fb.connect(sys.argv[1], wait=30).call('pid'))"
    client = place.python(code, socket)
    server = place.serve(file)
    out, err = client.communicate(timeout=30)
    assert out == f"{server.pid}\n", err


def test_arrays_are_filled_in_place(client: fb.Client) -> None:
    for n in (0, 3, 100, 100_000):
        x, y = np.arange(float(n)), np.ones(n)
        assert client.call("axpy", 2.0, x, y) is None
        np.testing.assert_array_equal(y, 1 + 2 * np.arange(float(n)))


def test_an_array_that_is_read_and_filled_goes_beside_text_and_bytes(client: fb.Client) -> None:
    y = np.arange(4.0)
    assert client.call("added", "N", b"T", y, y) == "NT"
    assert y.tolist() == [0, 2, 4, 6]
    assert client.call("added", "N", b"T", y[::-1], y) == "NT"
    assert y.tolist() == [6, 6, 6, 6]


def test_arrays_of_any_layout_arrive_and_return(client: fb.Client) -> None:
    x = np.arange(12.0).reshape(3, 4)
    for given in (
        x,
        np.asfortranarray(x),
        np.arange(24.0).reshape(3, 8)[:, ::2] / 2,
        x.astype(">f8"),
        x.tolist(),
    ):
        for out in (
            np.zeros((4, 3)),
            np.zeros((4, 3), order="F"),
            np.zeros((4, 6))[:, ::2],
            np.zeros((4, 3), ">f8"),
        ):
            client.call("transpose", given, out)
            np.testing.assert_array_equal(out, x.T)


def test_arrays_whose_elements_lie_apart_are_not_copied_before_they_are_sent(client: fb.Client) -> None:
    x = np.arange(1 << 20, dtype="f8")
    y = np.zeros((1 << 19, 2))
    client.call("axpy", 1.0, x[:10], np.zeros(10))
    tracemalloc.start()
    try:
        client.call("axpy", 2.0, x[::-2], y[:, 1])
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(y[:, 1], 2 * x[::-2])
    assert not y[:, 0].any(), "what lies between stays as it is"
    assert most < 1 << 20, f"{most} bytes were taken for arrays of {x.nbytes // 2}"


def test_views_of_one_array_may_be_read_and_filled_in_one_call(client: fb.Client) -> None:
    both = np.arange(12.0)
    client.call("axpy", 1.0, both[::2], both[1::2])
    np.testing.assert_array_equal(both, [0, 1, 2, 5, 4, 9, 6, 13, 8, 17, 10, 21])
    frozen = np.broadcast_to(np.float64(3), 4)
    y = np.zeros(8)[::2]
    client.call("axpy", 2.0, frozen, y)
    assert y.tolist() == [6, 6, 6, 6]
    same = np.lib.stride_tricks.as_strided(np.zeros(1), (4,), (0,))
    client.call("axpy", 1.0, np.ones(4), same)
    assert same.tolist() == [1, 1, 1, 1]


def test_scalars_texts_and_bytes_go_and_come(client: fb.Client) -> None:
    assert client.call("scalars", 1, 1 + 2j, True, "grüß", b"\0") == (2, 1 - 2j, "ßürg", b"\0!")
    assert client.call("scalars", np.int8(-1), np.complex64(2j), np.True_, "", b"") == (0, -2j, "", b"!")


def test_services_are_found_by_name(client: fb.Client) -> None:
    assert "axpy" in client.services
    assert list(client.services) == sorted(client.services)
    assert client.services.axpy.signature == "axpy(in a:f64, in x:f64[n], inout y:f64[n])"
    y = np.zeros(2)
    client.services.axpy(1.0, np.ones(2), y)
    assert y.tolist() == [1, 1]
    assert client.services["void"]() is None


def test_a_name_that_nobody_offers_is_said_to_be_so(client: fb.Client) -> None:
    with pytest.raises(fb.NoServer) as error:
        client.call("nothing", 1)
    assert "nothing" in str(error.value)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((1.0, np.ones(3)), "3 arguments"),
        (("a", np.ones(3), np.ones(3)), "parameter a"),
        ((1.0, np.ones(3), np.ones(4)), "n"),
        ((1.0, np.ones((3, 3)), np.ones(3)), "parameter x"),
        ((1.0, np.ones(3, "f4"), np.ones(3)), "f32"),
        ((1.0, np.ones(3), [1.0, 2.0, 3.0]), "cannot be filled"),
        ((1.0, np.ones(3), 5.0), "parameter y"),
        ((1j, np.ones(3), np.ones(3)), "parameter a"),
    ],
)
def test_a_wrong_argument_is_refused_before_it_is_sent(
    client: fb.Client, args: tuple[object, ...], says: str
) -> None:
    with pytest.raises(fb.BadArgument) as error:
        client.call("axpy", *args)
    assert says in str(error.value)


def test_a_result_that_may_not_be_written_is_refused(client: fb.Client) -> None:
    y = np.ones(3)
    y.flags.writeable = False
    with pytest.raises(fb.BadArgument):
        client.call("axpy", 1.0, np.ones(3), y)


def test_one_array_for_two_parameters_does_what_numpy_would(client: fb.Client) -> None:
    y = np.arange(4.0)
    client.call("axpy", 2.0, y, y)
    np.testing.assert_array_equal(y, 3 * np.arange(4.0))


def orders() -> dict[str, np.ndarray]:
    """One matrix in every way in which its elements can lie."""
    values = np.arange(12.0).reshape(3, 4)
    wide = np.zeros((5, 6))
    wide[1:4, 1:5] = values
    return {
        "C": values,
        "F": np.asfortranarray(values),
        "interior C": wide[1:4, 1:5],
        "interior F": np.asfortranarray(wide)[1:4, 1:5],
        "turned": np.ascontiguousarray(values.T).T,
        "backwards F": np.asfortranarray(values[::-1, ::-1])[::-1, ::-1],
        "other bytes C": values.astype(">f8"),
        "other bytes F": np.asfortranarray(values).astype(">f8"),
        "row": np.broadcast_to(np.arange(4.0), (3, 4)),
    }


ORDERS = {"C": "C", "interior C": "C", "other bytes C": "C", "row": "C"}


@pytest.mark.parametrize("how", list(orders()))
def test_an_argument_keeps_its_order_however_its_elements_lie(client: fb.Client, how: str) -> None:
    a = orders()[how]
    expected = ORDERS.get(how, "F")
    assert client.call("read_both", a, a) == 2 * expected
    b = orders()[how]
    if how == "row":
        b = np.array(b, order="C")
    told = client.call("as_given", a, b)
    assert told == expected + ("C" if how == "row" else expected)
    np.testing.assert_array_equal(b, 2 * a)


@pytest.mark.parametrize("how", list(orders()))
def test_the_same_matrix_for_two_parameters_has_one_order(client: fb.Client, how: str) -> None:
    b = orders()[how]
    if how != "row":
        before = np.array(b)
        assert client.call("as_given", b, b) == 2 * ORDERS.get(how, "F")
        np.testing.assert_array_equal(b, 2 * before)


@pytest.mark.parametrize("how", list(orders()))
def test_a_service_that_demands_an_order_gets_it(client: fb.Client, how: str) -> None:
    a = orders()[how]
    for other in orders():
        b, c = orders()[other], np.empty_like(orders()[other])
        if other == "row":
            b, c = np.array(b, order="C"), np.array(b)
        assert client.call("demands", a, b, c) == "FCF"
        np.testing.assert_array_equal(b, a + orders()[other])
        np.testing.assert_array_equal(c, 2 * a)
    held = client.put(np.asfortranarray(a))
    with pytest.raises(
        fb.BadArgument, match=r"parameter b is f64.n,m. order C: got .* lies in the other order"
    ):
        client.call("demands", a, held, np.empty((3, 4)))


def test_the_remote_error_arrives_with_its_traceback(client: fb.Client) -> None:
    with pytest.raises(fb.RemoteError) as error:
        client.call("fails", "really")
    text = str(error.value)
    assert "ValueError: on purpose: really" in text
    assert "things.py" in text
    assert "in fails" in text
    with pytest.raises(fb.RemoteError) as error:
        client.call("read_only", np.ones(3))
    assert "read-only" in str(error.value)
    client.call("void")


def test_a_view_that_a_service_keeps_stays_readable(client: fb.Client) -> None:
    for n in (10, 100_000, 200_000):
        client.call("keep", np.ones(n))
    assert client.call("keep", np.zeros(0)) > 0


def test_a_view_that_a_service_keeps_shows_no_later_call_and_changes_none(client: fb.Client) -> None:
    for n in (100, 100_000):
        for round_ in range(3):
            # What it keeps of each round is what came with it.
            assert client.call("keep", np.full(n, 1.0)) == pytest.approx(client.call("keep", np.zeros(0)))
            client.call("hold_part", np.full(n, 5.0))
            assert client.call("write_the_part") == 0
            assert client.call("sum", np.ones(n)) == n, f"{n} numbers, round {round_}"
        assert client.call("forget") >= 3


def test_a_view_that_a_service_keeps_is_not_written_after_the_call(client: fb.Client) -> None:
    for n in (10, 100_000):
        y = np.ones(n)
        client.call("hold", y)
        assert (y == 2).all()
        assert client.call("write_what_is_held") == 1
        assert (y == 2).all()


def test_a_timeout_ends_the_wait(client: fb.Client) -> None:
    with pytest.raises(fb.Timeout, match=r"it was under way and was given up; allow it more time$") as told:
        client.call("sleep", 1.0, timeout=0.2)
    assert client.failed()[-1].text == str(told.value)
    client.call("void", timeout=10)


def test_calls_under_way_are_waited_for_together(client: fb.Client) -> None:
    ys = [np.zeros(5) for _ in range(8)]
    calls = [client.call_async("axpy", float(n), np.ones(5), y) for n, y in enumerate(ys)]
    assert fb.wait_all(calls) == [None] * 8
    assert [y[0] for y in ys] == list(range(8))
    calls = [client.call_async("pid") for _ in range(3)]
    index = fb.wait_any(calls, 10)
    assert calls[index].done()
    assert calls[index].wait() > 0
    with client.cobegin() as group:
        for y in ys:
            group.call("axpy", 1.0, np.ones(5), y)
    assert [y[0] for y in ys] == list(range(1, 9))
    timing = group.calls[0].timing
    assert timing["total"] > 0
    assert timing["reissued"] == 0


def test_a_cancelled_call_says_so(client: fb.Client) -> None:
    first = client.call_async("sleep", 0.3)
    second = client.call_async("sleep", 0.3)
    second.cancel()
    with pytest.raises(fb.Cancelled):
        second.wait()
    first.wait()


def test_a_function_is_told_the_end_of_a_call(client: fb.Client) -> None:
    told: queue.Queue[fb.Future] = queue.Queue()
    y = np.zeros(100_000)
    filled = client.call_async("axpy", 2.0, np.ones(100_000), y, notify=told.put)
    assert told.get(timeout=20) is filled
    assert y[-1] == 2
    failed = client.call_async("fails", "so", notify=told.put)
    assert told.get(timeout=20) is failed
    with pytest.raises(fb.RemoteError):
        failed.wait()
    first = client.call_async("sleep", 0.2, notify=told.put)
    second = client.call_async("sleep", 0.2, notify=told.put)
    second.cancel()
    assert {told.get(timeout=20), told.get(timeout=20)} == {first, second}
    # One that tells may call.
    server = client.call_async("pid", notify=lambda call: told.put(client.call_async("pid", notify=told.put)))
    again = told.get(timeout=20)
    assert told.get(timeout=20) is again
    assert again.wait() == server.wait()


def test_a_program_may_end_before_its_calls(client: fb.Client, place: Place) -> None:
    code = """
import forebay
said = []
for seconds in (0.0, 0.1, 0.2):
    forebay.call_async("sleep", seconds, notify=said.append)
print("end")
"""
    for _ in range(3):
        assert place.run_python(code) == "end\n"


def test_a_killed_server_is_replaced_by_the_other(client: fb.Client, place: Place, file: Path) -> None:
    pids = {int(client.call("pid"))}
    place.serve(file, "other")

    def both() -> bool:
        with_new = fb.connect()
        pids.add(int(with_new.call("pid")))
        pids.add(int(with_new.call("pid")))
        return len(pids) == 2

    until(both, what="the second server")
    fresh = fb.connect()
    victim = int(fresh.call("pid"))
    calls = [fresh.call_async("sleep", 0.5) for _ in range(2)]
    os.kill(victim, signal.SIGKILL)
    fb.wait_all(calls, 20)
    assert any(call.timing["reissued"] for call in calls)
    assert {int(fresh.call("pid")) for _ in range(4)} == pids - {victim}


def test_arrays_that_were_copied_may_be_overwritten_while_the_call_is_under_way(
    client: fb.Client, place: Place, file: Path
) -> None:
    place.serve(file, "other")
    until(lambda: len({int(fb.connect().call("pid")) for _ in range(4)}) == 2, what="the second server")
    fresh = fb.connect()
    victim = int(fresh.call("pid"))
    x, few = np.ones(100_000), np.ones(10)
    calls = [fresh.call_async("late_total", 0.5, a, transfer="copy") for a in (x, few, x, few)]
    x[:], few[:] = 7.0, 7.0
    os.kill(victim, signal.SIGKILL)
    assert fb.wait_all(calls, 20) == [100_000.0, 10.0, 100_000.0, 10.0]
    assert any(call.timing["reissued"] for call in calls)


def test_arguments_that_are_not_kept_are_not_sent_again(client: fb.Client) -> None:
    server = int(client.call("pid"))
    x = np.ones(100_000)
    call = client.call_async("late_total", 0.0, x, transfer="wait")
    x[:] = 7.0
    assert call.wait(20) == 100_000.0
    call = client.call_async("late_total", 20.0, x, transfer="wait")
    os.kill(server, signal.SIGKILL)
    with pytest.raises(fb.ServerLost, match=r"late_total.*call again"):
        call.wait(20)
    with pytest.raises(fb.BadArgument, match='"nowait", "wait" or "copy"'):
        client.call_async("late_total", 0.0, x, transfer="later")  # type: ignore[arg-type]


def test_a_call_with_effects_is_not_issued_again(client: fb.Client) -> None:
    server = int(client.call("pid"))
    call = client.call_async("once", 5.0)
    os.kill(server, signal.SIGKILL)
    with pytest.raises(fb.ServerLost) as error:
        call.wait(20)
    assert "once" in str(error.value)


def test_ctrl_c_ends_a_call(place: Place, client: fb.Client) -> None:
    server = int(client.call("pid"))
    code = """
import forebay
try:
    print("ready", flush=True)
    forebay.call("sleep", 30.0)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    process = place.python(code)
    assert process.stdout is not None
    process.stdout.readline()
    until(lambda: client.call_async("void").timing["total"] == 0)
    process.send_signal(signal.SIGINT)
    try:
        out, _ = process.communicate(timeout=5)
    except subprocess.TimeoutExpired:
        pytest.fail("Ctrl-C was not heard")
    finally:
        # It would end what it has begun first: half a minute of sleep.
        os.kill(server, signal.SIGKILL)
    assert out == "interrupted\n"


class Enough(Exception):
    """What the handler of a test raises."""


@pytest.fixture
def alarm() -> Iterator[None]:
    """A handler of SIGALRM that raises."""

    def enough(*_: object) -> None:
        raise Enough

    before = signal.signal(signal.SIGALRM, enough)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("alarm")
def test_a_signal_is_heard_while_a_stopped_server_lets_nobody_in(place: Place, client: fb.Client) -> None:
    server = place.started[0]
    stop(server.pid)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    with pytest.raises(Enough):
        client.call("void")
    server.send_signal(signal.SIGCONT)
    client.call("void", timeout=10)


@pytest.mark.usefixtures("alarm")
def test_a_signal_is_heard_while_a_stopped_agent_lets_nobody_in(place: Place) -> None:
    agent = int(re.findall(r"pid (\d+)", place.command("up"))[0])
    broker = Path(place.variables["FOREBAY_RUNTIME_DIR"]) / "agent.sock"
    stop(agent)
    try:
        begin = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(Enough):
            fb.connect(broker)
        # Without that it is told after 1.9 s that the agent is stopped.
        assert time.monotonic() - begin < 1.5
    finally:
        os.kill(agent, signal.SIGCONT)
    fb.connect(broker)


@pytest.mark.usefixtures("alarm")
def test_a_signal_is_heard_while_a_stopped_server_takes_no_more_requests(
    place: Place, client: fb.Client
) -> None:
    # Calls that find no room at a server do not wait in this process.
    client.place_by("turns")
    client.call("void")
    server = place.started[0]
    stop(server.pid)
    calls, text = [], "x" * 4_000
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    with pytest.raises(Enough):
        for _ in range(10_000):
            calls.append(client.call_async("fails", text))
    server.send_signal(signal.SIGCONT)
    for call in calls:
        call.cancel()
    client.call("void", timeout=10)


def test_a_server_ends_with_its_input_and_with_sigterm(place: Place, file: Path) -> None:
    first, second = place.serve(file), place.serve(file)
    code = "import forebay, time\nfor _ in range(200):\n    try: forebay.call('void'); break\n    except forebay.NoServer: time.sleep(0.1)"
    place.run_python(code)
    assert first.stdin is not None
    first.stdin.close()
    assert first.wait(10) == 0
    second.send_signal(signal.SIGTERM)
    assert second.wait(10) == 0


def test_a_server_may_live_beside_its_client(client: fb.Client) -> None:
    @fb.service("in x:f64[n], out s:f64", name="local/sum")
    def total(x: np.ndarray) -> float:
        return float(x.sum())

    with fb.Server(total, name="here") as server:
        assert fb.connect().call("local/sum", np.ones(7)) == 7.0
        assert server.load[2] == 1
        with pytest.raises(fb.BadArgument):
            server.add(len)
    with pytest.raises(fb.BadArgument):
        fb.Server(workers=0)


def test_a_file_without_services_is_refused(place: Place, tmp_path: Path) -> None:
    import sys

    empty = tmp_path / "empty.py"
    empty.write_text("x = 1\n")
    for path, says in ((empty, "defines no service"), (tmp_path / "nothing.py", "is not a Python file")):
        process = place.start(sys.executable, "-m", "forebay", "serve", path)
        _, err = process.communicate(timeout=20)
        assert process.returncode == 1
        assert says in err


def test_the_command_line_lists_and_calls_services(client: fb.Client, place: Place, tmp_path: Path) -> None:
    listed = place.command("services")
    assert "axpy(in a:f64, in x:f64[n], inout y:f64[n])" in listed
    assert json.loads(place.command("--json", "call", "pid"))["pid"] > 1
    np.save(tmp_path / "x.npy", np.arange(4.0))
    place.command("call", "axpy", "2", tmp_path / "x.npy", "4:f64", "--out", tmp_path)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), [0.0, 2.0, 4.0, 6.0])
    assert "ValueError: on purpose: so" in place.command("call", "fails", "so", status=1)
    assert "takes 3 arguments and got 1" in place.command("call", "axpy", "2", status=1)
    assert "z2 = -1.0+2.0j" in place.command("call", "scalars", "-3", "-1+2j", "false", "x", __file__)
    assert 'no server offers "nosuch"' in place.command("call", "nosuch", status=1)


# What functions give back that NumPy's users write first.
RETURNS = {
    "fresh": ("in x:f64[n], out y:f64[n]", lambda x, y: 2 * x),
    "listed": ("in x:f64[n], out y:f64[n]", lambda x, y: [1.0] * len(x)),
    "in_tuple": ("in x:f64[n], out y:f64[n]", lambda x, y: (3 * x,)),
    "in_place": ("in x:f64[n], out y:f64[n]", lambda x, y: np.multiply(x, 4, out=y)),
    "nothing": ("in x:f64[n], out y:f64[n]", lambda x, y: None),
    "narrow": ("in x:f64[n], out y:f32[n]", lambda x, y: x / 3),
    "two": ("in x:f64[n], out y:f64[n], out z:f64[n]", lambda x, y, z: (x + 1, x + 2)),
    "changed": ("inout x:f64[n]", lambda x: x + 5),
    "mixed": ("in x:f64[n], out norm:f64, out y:f64[n]", lambda x, y: (7.0, -x)),
    "only_scalar": ("in x:f64[n], out norm:f64, out y:f64[n]", lambda x, y: 8.0),
    "short": ("in x:f64[n], out y:f64[n]", lambda x, y: x[1:]),
    "complex": ("in x:f64[n], out y:f64[n]", lambda x, y: x * 1j),
    "too_many": ("in x:f64[n], out y:f64[n]", lambda x, y: (x, x)),
    "too_few": ("in x:f64[n], out y:f64[n], out z:f64[n]", lambda x, y, z: x),
    "nowhere": ("in x:f64[n]", lambda x: x.sum()),
    "masked": ("in x:f64[n], out y:f64[n]", lambda x, y: np.ma.array(x, mask=True)),
    "listed_masked": ("in x:f64[n], out y:f64[n]", lambda x, y: [*x[1:], np.ma.masked]),
}


@pytest.fixture(scope="module")
def returning() -> Iterator[fb.Client]:
    offered = [fb.service(signature, name=name)(function) for name, (signature, function) in RETURNS.items()]
    with fb.Server(*offered, workers=2):
        yield fb.connect()


@pytest.mark.parametrize("n", [3, 100_000])
def test_an_array_that_a_service_returns_is_the_result(returning: fb.Client, n: int) -> None:
    c, x = returning, np.arange(1.0, n + 1)
    for name, wanted in {"fresh": 2 * x, "listed": np.ones(n), "in_tuple": 3 * x, "in_place": 4 * x}.items():
        y = np.full(n, 7.0)
        c.call(name, x, y)
        np.testing.assert_array_equal(y, wanted, name)
    c.call("nothing", x, np.empty(n))
    single = np.empty(n, np.float32)
    c.call("narrow", x, single)
    np.testing.assert_array_equal(single, (x / 3).astype(np.float32))
    y, z = np.empty(n), np.empty(n)
    c.call("two", x, y, z)
    np.testing.assert_array_equal([y, z], [x + 1, x + 2])
    changed = x.copy()
    c.call("changed", changed)
    np.testing.assert_array_equal(changed, x + 5)
    assert c.call("mixed", x, y) == 7.0
    np.testing.assert_array_equal(y, -x)
    assert c.call("only_scalar", x, y) == 8.0


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("short", r"y has the shape \(3,\).*returned \(2,\)"),
        ("complex", "y is float64.*complex128"),
        ("too_many", r"y has the shape \(3,\).*\(2, 3\)"),
        ("too_few", "returned a ndarray.*no place"),
        ("nowhere", "returned a float64.*no place"),
        ("masked", "filled"),
        ("listed_masked", "a masked value stands in the list"),
    ],
)
def test_what_a_service_returns_and_nobody_can_have_is_an_error_of_the_call(
    returning: fb.Client, name: str, says: str
) -> None:
    rooms = [np.ones(3) for _ in range(RETURNS[name][0].count("[n]"))]
    with pytest.raises(fb.RemoteError, match=says):
        returning.call(name, *rooms)


def test_what_is_no_argument_is_refused_with_the_service_and_its_place(returning: fb.Client) -> None:
    for value in (np.ma.array([1], mask=[1]), None, np.array([object()]), np.longdouble(1), 10**400, "x"):
        with pytest.raises(fb.BadArgument, match=r"^fresh: (argument 1|parameter )"):
            returning.call("fresh", value, np.empty(2))


def test_a_function_that_cannot_take_its_arguments_is_refused_when_it_is_offered() -> None:
    offered = fb.service("in x:f64[n], out y:f64[n]", name="too_narrow")(lambda x: 2 * x)
    with pytest.raises(fb.BadArgument, match=r"too_narrow.*2.*x, y"):
        fb.Server(offered)
    fb.Server(fb.service("in x:f64[n], out y:f64[n]", name="wide")(lambda *arrays, scale=2: None))


def test_a_line_of_parameters_that_cannot_be_read_is_refused_where_it_is_written() -> None:
    with pytest.raises(fb.BadArgument, match="f65") as told:
        fb.service("in x:f65[n]", name="scale")(print)
    assert "scale" in str(told.value)


def test_what_is_no_type_and_what_is_no_scratch_space_is_told_with_what_is(tmp_path: Path) -> None:
    with pytest.raises(fb.BadArgument, match=r'"path" is not a dtype; use one of i8, .*, or file for a file'):
        fb.service("in a:path")(print)
    with pytest.raises(fb.BadArgument, match=r'names "q", .*; there is n$'):
        fb.service("in n:i64, in x:f64[n]", cost="n*q")(print)
    for text, why in (
        ("1GiB", "is a size without a directory"),
        (":1GiB", "names no directory"),
        ("", "names no directory"),
        (f"{tmp_path}:", "has no size"),
        (f"{tmp_path}:much", "has no size"),
    ):
        with pytest.raises(fb.BadArgument, match=f'{why}.*; write DIR:SIZE, for example "/scratch/me:50GiB"'):
            fb.Server(scratch=text)
    with fb.Server(scratch=f"{tmp_path}/1GiB:1GiB"):
        assert (tmp_path / "1GiB").is_dir()


def test_a_file_that_serves_when_it_is_loaded_is_refused_with_the_remedy(
    place: Place, tmp_path: Path
) -> None:
    file = tmp_path / "both.py"
    text = 'import forebay as fb\n@fb.service("in a:f64")\ndef f(a): pass\n'
    file.write_text(f"{text}fb.serve(f)\n")
    said = place.command("serve", file, status=1)
    assert re.search(r"calls fb\.serve while `forebay serve .*; put the call under `if __name__", said), said
    file.write_text(f"{text}if __name__ == '__main__':\n    fb.serve(f)\n")
    server = place.serve(file)
    until(lambda: "f(in a:f64)" in place.command("services"), what="the service")
    server.send_signal(signal.SIGTERM)
    assert server.wait(30) == 0
