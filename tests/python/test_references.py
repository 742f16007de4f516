"""Arrays that servers hold, given to calls in place of arrays."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from conftest import Place, until

SERVICES = '''
"""Services that the tests call."""
import os, time
import forebay as fb

@fb.service("in a:f64, in x:f64[n], inout y:f64[n]")
def axpy(a, x, y):
    y += a * x

@fb.service("in x:f64[n,m], out y:f64[m,n]")
def transpose(x, y):
    y[:] = x.T

@fb.service("in x:f64[n], out writeable:bool, out pid:i64")
def look(x):
    return bool(x.flags.writeable), os.getpid()

@fb.service("in n:i64, out y:u8[n]")
def blank(n, y):
    y[:] = 0

@fb.service("inout x:f64[n]")
def linger(x):
    time.sleep(1.0)
    x += 1.0

@fb.service("in seconds:f64")
def sleep(seconds):
    time.sleep(seconds)
'''


@pytest.fixture
def client(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[fb.Client]:
    for name, value in place.variables.items():
        monkeypatch.setenv(name, value)
    file = tmp_path / "things.py"
    file.write_text(SERVICES)
    place.serve(file, "one")
    connected = fb.connect()
    until(lambda: "sleep" in connected.services, what="the server")
    yield connected


def test_calls_work_on_the_array_where_it_is(client: fb.Client) -> None:
    for n in (0, 1, 100, 100_000):
        x = client.put(np.arange(float(n)))
        y = client.array(n)
        assert (y.shape, y.dtype, y.ndim, y.nbytes, y.server) == ((n,), np.dtype("f8"), 1, 8 * n, "one")
        client.call("axpy", 2.0, x, y)
        client.call("axpy", 1.0, np.ones(n), y)
        client.call_async("axpy", 1.0, y, z := np.zeros(n)).wait()
        np.testing.assert_array_equal(y.get(), 1 + 2 * np.arange(float(n)))
        np.testing.assert_array_equal(z, y[...])
    assert client.call("look", x)[0] is False


@pytest.mark.parametrize("order", ["C", "F"])
def test_parts_are_those_of_numpy(client: fb.Client, order: str) -> None:
    model = np.arange(60, dtype="i4").reshape(3, 4, 5)
    a = client.array((3, 4, 5), "i4", order=order)
    assert not a[...].any()
    a.put(model)
    for sel in (
        ...,
        1,
        (1, slice(None, None, 3), -1),
        (slice(None, None, -1), None, 2),
        (0, 0, 0),
        slice(2, 2),
    ):
        np.testing.assert_array_equal(a[sel], model[sel])
        np.testing.assert_array_equal(a.get(sel), model[sel])
    for sel, value in (
        ((2, slice(1, 3), slice(None, None, 2)), -1),
        ((slice(None, None, -1), 0), np.arange(5)),
        ((1, 1, 1), 7.0),
        (slice(None, None, -2), np.arange(40).reshape(2, 4, 5)),
        # As they are.
        (..., np.arange(60, dtype="i4").reshape(3, 4, 5)[::-1]),
        ((slice(0, 2), slice(None), 1), np.arange(8, dtype="i4").reshape(4, 2).T),
        ((slice(0, 2), slice(None), 1), np.arange(8, dtype=">i4").reshape(2, 4)),
    ):
        model[sel] = value
        a[sel] = value
        np.testing.assert_array_equal(a.get(), model)
    a.put(np.asfortranarray(model[::-1, 1:3]), (slice(None, None, -1), slice(1, 3)))
    np.testing.assert_array_equal(a.get(), model)
    with pytest.raises(fb.BadArgument):
        a.put(np.zeros((2, 2), "i4"))
    with pytest.raises(fb.BadArgument):
        a.put(np.zeros(5), (0, 0))
    with pytest.raises(fb.BadArgument):
        a.get((0, 0, 0, 0))


def test_a_matrix_comes_out_of_a_call_on_references(client: fb.Client) -> None:
    model = np.arange(12.0).reshape(3, 4)
    for given in (model, np.asfortranarray(model), model[:, ::-1][:, ::-1], model.tolist()):
        x, y = client.put(given), client.array((4, 3))
        client.call("transpose", x, y)
        np.testing.assert_array_equal(y.get(), model.T)
    with pytest.raises(fb.BadArgument) as error:
        client.call("axpy", 1.0, x, x)
    assert "x" in str(error.value)


def test_a_killed_reference_says_so(client: fb.Client) -> None:
    with client.put(np.ones(3)) as x:
        assert x[0] == 1
    for use in (x.get, x.kill, lambda: client.call("look", x), lambda: x.put(np.ones(3))):
        with pytest.raises(fb.Closed):
            use()


def test_placing_and_limits(client: fb.Client) -> None:
    @fb.service("in x:f64[n], out s:f64", name="total")
    def total(x: np.ndarray) -> float:
        return float(x.sum())

    with fb.Server(total, name="here", memory="1MiB"):
        until(lambda: "total" in client.services, what="the second server")
        x = client.put(np.ones(1000), on="here")
        beside = client.put(np.ones(1000), on=x)
        assert (x.server, beside.server, client.call("total", beside)) == ("here", "here", 1000.0)
        far = client.put(np.ones(1000), on="one")
        for services in (["total"], ["nobody", "total"]):
            there = client.put(np.ones(10), services=services)
            assert (there.server, client.array(3, on="one", services=services).server) == ("here", "one")
        assert client.array(3, services=["axpy"]).server == "one"
        with pytest.raises(fb.BadArgument, match="is a text"):
            client.array(3, services="axpy")
        with pytest.raises(fb.BadArgument) as error:
            client.call("total", far)
        assert "does not offer the service" in str(error.value)
        with pytest.raises(fb.BadArgument) as error:
            client.call("axpy", 1.0, far, x)
        assert "different servers" in str(error.value)
        with pytest.raises(fb.Full):
            client.array(1 << 20, "u1", on=x)
        del beside, x, there
        until(lambda: _fits(client, 1 << 20), what="the memory of dropped references")
    with pytest.raises(fb.NoServer):
        client.array(3, on="nowhere")


def _fits(client: fb.Client, nbytes: int) -> bool:
    try:
        client.array(nbytes, "u1", on="here").kill()
    except fb.Full:
        return False
    return True


def test_a_lost_server_takes_its_arrays_along(client: fb.Client) -> None:
    x = client.put(np.ones(1000))
    os.kill(client.call("look", x)[1], signal.SIGKILL)

    def is_lost() -> bool:
        try:
            x.get()
        except fb.ServerLost:
            return True
        return False

    # Its memory is here as long as nobody has looked, which is done every ten milliseconds.
    until(is_lost, what="the news of the death")
    for use in (x.get, lambda: client.call("look", x)):
        with pytest.raises(fb.ServerLost) as error:
            use()
        assert "one" in str(error.value)


def test_calls_are_probed_and_given_up_together(place: Place, client: fb.Client) -> None:
    calls = [client.call_async("sleep", seconds) for seconds in (0.2, 30.0, 30.0)]
    assert fb.probe_any(calls[1:]) is None
    assert fb.wait_any(calls, 10) == 0
    assert fb.probe_any(calls) == 0
    fb.cancel_all(calls)
    assert calls[0].wait() is None
    for call in calls[1:]:
        with pytest.raises(fb.Cancelled):
            call.wait()
    # The one that has begun sleeps for half a minute.
    place.started[0].kill()


def test_many_calls_on_one_array_that_a_server_holds(client: fb.Client, place: Place, tmp_path: Path) -> None:
    other = place.serve(tmp_path / "things.py", "two")
    until(lambda: len(client.services["look"].servers) == 2, what="the other server")
    matrix = client.put(np.arange(60_000.0), on="two")
    looked = list(client.map("look", itertools.repeat(matrix, 1_000)))
    assert looked == [(False, other.pid)] * 1_000
    # What a service writes to it stays there, and is no result; beside it arrays of the program travel.
    m = client.map("axpy", [1.0] * 500, itertools.repeat(np.ones(60_000)), itertools.repeat(matrix))
    assert list(m) == [None] * 500 and m.input[2] is matrix
    np.testing.assert_array_equal(matrix[:3], [500.0, 501.0, 502.0])
    for y in client.map("axpy", [2.0] * 3, itertools.repeat(matrix), itertools.repeat(np.zeros(60_000))):
        assert y[1] == 1002.0
    # Two holders: the task cannot be done, the others can.
    elsewhere = client.put(np.zeros(60_000), on="one")
    arrays = [elsewhere, np.zeros(60_000), elsewhere]
    m = client.map("axpy", [1.0] * 3, [matrix, matrix, np.ones(60_000)], arrays, errors="yield")
    bad, good, also = m
    assert isinstance(bad, fb.BadArgument) and bad.index == 0  # type: ignore[attr-defined]
    assert all(word in str(bad) for word in ("held by different servers", '"two"', '"one"'))
    assert good[0] == 500.0 and also is None and m.counts["failed"] == 1
    assert elsewhere[7] == 1.0


def test_tasks_fail_whose_array_died_with_its_server_and_others_go_on(
    client: fb.Client, place: Place, tmp_path: Path
) -> None:
    other = place.serve(tmp_path / "things.py", "two")
    until(lambda: len(client.services["look"].servers) == 2, what="the other server")
    lost, kept = client.put(np.zeros(600), on="two"), client.put(np.zeros(600), on="one")

    def inputs() -> Iterator[object]:
        for n in range(300):
            if n == 90:
                other.send_signal(signal.SIGKILL)
                other.wait(30)
            yield (lost, kept, np.zeros(600))[n % 3]

    m = client.map("look", inputs(), errors="yield")
    results = list(m)
    wrong = [n for n, result in enumerate(results) if isinstance(result, fb.ServerLost)]
    assert len(results) == 300 and {n % 3 for n in wrong} == {0} and len(wrong) >= 65
    assert all(not isinstance(result, Exception) for n, result in enumerate(results) if n not in wrong)
    with pytest.raises(fb.ServerLost) as plain:
        client.call("look", lost)
    assert type(results[wrong[-1]]) is plain.type


def test_an_array_that_the_program_has_forgotten_stays_until_its_tasks_are_over(client: fb.Client) -> None:
    def inputs() -> Iterator[fb.Reference]:
        for n in range(50):
            yield client.put(np.full(600, float(n)))

    assert [looked[0] for looked in client.map("look", inputs())] == [False] * 50


@pytest.mark.parametrize("count", [3, 100_000])
def test_an_array_is_put_and_got_at_once_while_the_only_worker_runs_a_call_that_does_not_use_it(
    client: fb.Client, count: int
) -> None:
    x, used = client.put(np.zeros(count)), client.put(np.zeros(count))
    running = client.call_async("linger", used)
    x.put(np.arange(float(count)))
    x[1] = 7.0
    assert x[2] == 2.0 and x.get()[1] == 7.0
    assert not running.done(), "it waited for the call"
    # One that the call uses has its turn behind it.
    assert used[0] == 1.0 and running.done()
    running.wait()


SHORT_OF_MEMORY = """
import resource
import forebay as fb

client = fb.connect()
x = client.array((1 << 26,), dtype="u1")
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (40 << 20),) * 2)
for wants in (x.get, lambda: next(client.map("blank", [1 << 26]))):
    try:
        wants()
    except fb.Full as e:
        print("Full:", "bytes of an array" in str(e))
print(x[:3])
"""


def test_a_program_that_has_no_memory_for_an_array_hears_so_and_goes_on(client: fb.Client) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SHORT_OF_MEMORY],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (ran.returncode, ran.stdout) == (0, "Full: True\nFull: True\n[0 0 0]\n"), ran.stderr


def test_what_a_mask_or_a_unit_says_is_not_lost_on_the_way_to_an_array(client: fb.Client) -> None:
    masked = np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False])
    held = client.put(np.zeros(3))

    class Metres:
        def __str__(self) -> str:
            return "m"

    class Quantity:
        magnitude, units = np.ones(3), Metres()

        def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
            return self.magnitude

    for value, why in (
        (masked, "1 of 3 elements are masked"),
        (masked[::-1], "1 of 3 elements are masked"),
        ([1.0, np.ma.masked, 3.0], "a masked value stands in the list"),
        (Quantity(), "would lose its unit"),
    ):
        for use in (
            lambda value=value: client.put(value),
            lambda value=value: held.put(value),
            lambda value=value: held.put(value, slice(None, None, -1)),
            lambda value=value: held.__setitem__(..., value),
            lambda value=value: held.__setitem__(slice(None, None, -1), value),
        ):
            with pytest.raises(fb.BadArgument, match=why):
                use()
    with pytest.raises(fb.BadArgument, match="masked"):
        held[1] = np.ma.masked
    assert not held[...].any()
    held[...] = np.ma.array([1.0, 2.0, 3.0])  # nothing is masked
    np.testing.assert_array_equal(client.put(masked.filled(-1.0))[...], [1, -1, 3])
    np.testing.assert_array_equal(held.get(), [1, 2, 3])
    for value in ([[1, 2], [3, 4]], 3.5, np.float32(2), (1, 2), range(3), np.arange(3, dtype=">f8")):
        there = client.put(value)
        assert (there.shape, there.dtype) == (np.shape(value), np.asarray(value).dtype.newbyteorder("="))
        np.testing.assert_array_equal(there.get(), value)
    with pytest.raises(fb.BadArgument, match="str"):
        client.put("text")


def test_numpy_is_not_given_an_array_that_lies_elsewhere_without_a_word(client: fb.Client) -> None:
    model = np.arange(6.0).reshape(2, 3)
    a, b = client.put(model), client.put(model)
    for use in (
        lambda: a == model,
        lambda: model == a,
        lambda: a != model,
        lambda: a == 2.0,
        lambda: np.float64(2) == a,
        lambda: a == model.tolist(),
        lambda: np.sum(a),
        lambda: np.mean(a),
        lambda: np.array(a),
        lambda: np.asarray(a, dtype="f4"),
        lambda: np.array_equal(a, model),
        lambda: np.allclose(a, model),
        lambda: np.zeros_like(a),
        lambda: np.sin(a),
        lambda: model + a,
        lambda: a + model,
        lambda: np.add(model, 1.0, out=a),
        lambda: client.put(a),
    ):
        with pytest.raises(TypeError, match=r"which a server holds; give it A.get\(\), or a part"):
            use()
    assert (np.shape(a), np.ndim(a)) == ((2, 3), 2)
    assert a == a and a != b and a != None and a != "a" and [b, a].index(a) == 1  # noqa: E711
    assert len({a, b, a}) == 2
    np.testing.assert_array_equal(a.get(), model)


def test_an_array_that_a_server_holds_is_gone_through_as_one_of_numpy(client: fb.Client) -> None:
    model = np.arange(6.0).reshape(2, 3)
    a, row, number = client.put(model), client.put(model[1]), client.put(7.0)
    assert (len(a), len(row), len(client.array(0))) == (2, 3, 0)
    assert a and client.array(0) and number
    np.testing.assert_array_equal(list(a), model)
    assert list(row) == [3.0, 4.0, 5.0] and 4.0 in row and 9.0 not in row and 5.0 in a
    for use in (lambda: len(number), lambda: list(number)):
        with pytest.raises(TypeError):
            use()


def test_an_array_is_made_of_a_shape_and_at_a_place_or_refused(client: fb.Client) -> None:
    for shape in ((2.5,), 2.5, (-1, 2), -1, "ab", (None,), None, 2**64):
        with pytest.raises(fb.BadArgument, match=r"shape=.* is none; give an integer from 0 on"):
            client.array(shape)  # type: ignore[arg-type]
    for on in (5, b"one", ["one"]):
        with pytest.raises(fb.BadArgument, match=r"on=.* is no place; give the name of a server"):
            client.array(2, on=on)  # type: ignore[arg-type]
        with pytest.raises(fb.BadArgument, match="is no place"):
            client.put([1.0], on=on)  # type: ignore[arg-type]
    with pytest.raises(fb.BadArgument, match="give names of services"):
        client.array(2, services=[5])  # type: ignore[list-item]
    with pytest.raises(fb.BadArgument, match="order='X'"):
        client.array(2, order="X")
    assert client.array(np.int32(2)).shape == (2,) and client.array(np.array([2, 3])).shape == (2, 3)
