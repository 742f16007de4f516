"""Groups of calls, the calls that have failed and what they printed, and what services have done."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from conftest import Place, until

SERVICES = """
import sys, time
import forebay as fb

@fb.service("in a:f64, in x:f64[n], inout y:f64[n], out total:f64")
def axpy(a, x, y):
    if a < 0:
        raise ValueError(f"{a} is below zero")
    y += a * x
    return y.sum()

@fb.service("in lines:i64, in fails:bool")
def talk(lines, fails):
    for n in range(lines):
        print("line", n)
        print("error", n, file=sys.stderr, flush=True)
    if fails:
        raise ValueError("after all")

@fb.service("in seconds:f64")
def nap(seconds):
    time.sleep(seconds)
"""


@pytest.fixture
def client(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[fb.Client]:
    path = tmp_path / "grouped.py"
    path.write_text(SERVICES)
    for name, value in place.variables.items():
        monkeypatch.setenv(name, value)
    place.serve(path)
    connected = fb.connect(wait=30)
    connected.signature("nap")
    yield connected


def test_the_end_of_a_group_fills_all_arrays_and_raises_the_first_failure_in_the_order_of_issue(
    client: fb.Client,
) -> None:
    ys = [np.zeros((5, 2))[:, 0] for _ in range(12)]
    with client.cobegin() as g:
        for n, y in enumerate(ys):
            g.call("axpy", float(n), np.ones(5), y)
    assert [y[4] for y in ys] == list(range(12))
    assert g.calls[3].wait() == 15.0

    with (
        pytest.raises(fb.RemoteError, match=r"^call 3 of 12 \(axpy\): .*-2.0 is below zero") as raised,
        client.cobegin() as g,
    ):
        for n, y in enumerate(ys):
            g.call("axpy", -float(n) if n in (2, 7) else 1.0, np.ones(5), y)
    assert raised.value.index == 2  # type: ignore[attr-defined]
    assert ys[11][0] == 12, "others run on"
    with pytest.raises(fb.RemoteError, match=r"-7\.0 is below zero"):
        g.calls[7].wait()
    with pytest.raises(fb.Closed):
        g.call("nap", 0.0)


def test_groups_stand_within_groups(client: fb.Client) -> None:
    y = np.zeros(3)
    with client.cobegin() as outer:
        with outer.cobegin() as inner:
            inner.call("axpy", 1.0, np.ones(3), y)
        assert (y == 1).all(), "the inner one has been waited for"
        left_open = outer.cobegin()
        left_open.call("axpy", 2.0, np.ones(3), y)
    assert (y == 3).all(), "the outer one ends what is open within it"
    with pytest.raises(fb.Closed):
        left_open.end()
    with pytest.raises(fb.RemoteError, match=r"^call 2 of 2 \(axpy\)"), client.cobegin() as outer:
        outer.call("axpy", 1.0, np.ones(3), y)
        outer.cobegin().call("axpy", -1.0, np.ones(3), np.zeros(3))


def test_a_group_that_is_not_over_in_time_goes_on(client: fb.Client) -> None:
    g = client.cobegin()
    g.call("nap", 0.5)
    with pytest.raises(fb.Timeout, match=r"call 1 of 1 \(nap\)") as raised:
        g.end(timeout=0.05)
    assert not hasattr(raised.value, "index")
    g.end()
    with client.cobegin() as g:
        g.call("nap", 0.0)
        g.end(timeout=30)


def test_a_body_that_raises_gives_all_calls_up(client: fb.Client) -> None:
    began = time.monotonic()
    with pytest.raises(ZeroDivisionError), client.cobegin() as outer:
        outer.call("nap", 4.0)
        outer.cobegin().call("nap", 4.0)
        print(1 // 0)
    assert time.monotonic() - began < 3
    with pytest.raises(fb.Cancelled):
        outer.calls[0].wait()
    with pytest.raises(fb.Closed):
        outer.cobegin()


def test_a_group_is_given_up_by_another_thread_and_by_ctrl_c(client: fb.Client) -> None:
    g = client.cobegin()
    g.call("nap", 4.0)
    threading.Timer(0.2, g.cancel).start()
    with pytest.raises(fb.Cancelled, match=r"^call 1 of 1 \(nap\)"):
        g.end()
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt), client.cobegin() as g:
        g.call("nap", 4.0)
    with pytest.raises(fb.Cancelled):
        g.calls[0].wait()


def test_calls_that_have_failed_are_remembered(client: fb.Client) -> None:
    client.patience(0.1)
    y, before = np.zeros(3), datetime.now(timezone.utc)
    assert client.failed() == []
    with pytest.raises(fb.RemoteError):
        client.call("axpy", -1.0, np.ones(3), y)
    with pytest.raises(fb.NoServer):
        client.call("nobody")
    with pytest.raises(fb.Timeout):
        client.call("nap", 4.0, timeout=0.05)
    with pytest.raises(fb.BadArgument):
        client.call("axpy", 1.0, np.ones(4), y)
    unfit = np.array([object(), None])
    for call in (client.call, client.call_async):
        with pytest.raises(fb.BadArgument):
            call("axpy", 1.0, unfit, y)
    given_up = client.call_async("nap", 4.0)
    given_up.cancel()
    with pytest.raises(fb.Cancelled):
        given_up.wait()
    failed = client.failed()
    told = [(one.service, one.code) for one in failed]
    assert told == [
        ("axpy", "RemoteError"),
        ("nobody", "NoServer"),
        ("nap", "Timeout"),
        *[("axpy", "BadArgument")] * 3,
    ]
    assert all("object" in one.text for one in failed[4:])
    assert "-1.0 is below zero" in failed[0].text
    assert failed[0].server is not None and "(pid " in failed[0].server
    assert failed[1].server is None
    assert before - timedelta(seconds=1) < failed[0].when <= failed[3].when <= datetime.now(timezone.utc)
    other = fb.connect()
    assert other.failed() == []
    with pytest.raises(fb.NoServer):
        other.call("nobody_else")
    assert [one.service for one in other.failed()] == ["nobody_else"]


def test_the_command_tells_what_services_have_done(client: fb.Client, place: Place) -> None:
    y = np.zeros(3)
    for n in range(50):
        client.call("axpy", float(n), np.ones(3), y)
    for _ in range(3):
        client.call("nap", 0.02)
    with pytest.raises(fb.RemoteError):
        client.call("axpy", -1.0, np.ones(3), y)

    def used() -> dict[str, dict[str, float]]:
        return {one["name"]: one for one in json.loads(place.command("status", "--services", "--json"))}

    until(lambda: (used().get("axpy", {}).get("calls"), used().get("nap", {}).get("calls")) == (51, 3))
    axpy, nap = used()["axpy"], used()["nap"]
    assert (axpy["failed"], nap["failed"]) == (1, 0)
    assert 0.02 <= nap["mean_s"] < 0.2
    assert 0.016 <= nap["p50_s"] <= nap["p99_s"] < 0.6
    shown = place.command("status", "--services").splitlines()
    assert shown[0].split() == ["service", "calls", "failed", "mean", "p50", "p99", "waiting"]
    assert [line.split()[0] for line in shown[1:3]] == ["axpy", "nap"]


def test_a_failed_call_brings_the_last_lines_that_its_service_has_printed(client: fb.Client) -> None:
    client.call("talk", 5, False)
    with pytest.raises(fb.RemoteError) as raised:
        client.call("talk", 2, True)
    assert (raised.value.stdout, raised.value.stderr) == ("line 0\nline 1\n", "error 0\nerror 1\n")
    h = client.call_async("talk", 100, True)
    with pytest.raises(fb.RemoteError) as raised:
        h.wait()
    assert h.stdout.splitlines() == [f"line {n}" for n in range(80, 100)]
    assert raised.value.stderr == h.stderr
    with pytest.raises(fb.RemoteError) as raised:
        client.call("axpy", -1.0, np.ones(3), np.zeros(3))
    assert (raised.value.stdout, raised.value.stderr) == ("", ""), (
        "what other calls have printed is not its own"
    )
    well = client.call_async("talk", 3, False)
    well.wait()
    assert (well.stdout, well.stderr) == ("", "")
    with pytest.raises(fb.RemoteError) as raised, client.cobegin() as g:
        g.call("talk", 1, False)
        g.call("talk", 2, True)
    assert (raised.value.stdout, raised.value.stderr) == ("line 0\nline 1\n", "error 0\nerror 1\n")
