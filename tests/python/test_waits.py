"""Waits of several threads for one call, services that call services, and ends of programs that serve."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import forebay as fb
import numpy as np
import pytest
from conftest import Place, until
from places import ended, stop


@pytest.fixture
def here(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """The test's own place, for this process too."""
    for name, value in place.variables.items():
        monkeypatch.setenv(name, value)
    return place


class Gate:
    """A service that runs until it is let go."""

    def __init__(self, here: Place) -> None:
        self.here = here
        self.began, self.go = threading.Event(), threading.Event()

        @fb.service("", name="gate")
        def gate() -> None:
            self.began.set()
            self.go.wait(60)

        self.service = gate


@pytest.fixture
def gate(here: Place) -> Iterator[Gate]:
    made = Gate(here)
    with fb.Server(made.service, name="gated", workers=2):
        yield made
        made.go.set()


def in_time(work: Callable[[], object]) -> object:
    """What a thread of its own has returned or raised; it must not wait for anything."""
    told: list[object] = []

    def run() -> None:
        try:
            told.append(work())
        except fb.Error as error:
            told.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(20)
    assert told, "it waits"
    return told[0]


def test_a_call_that_a_thread_waits_for_is_looked_at_and_given_up_by_another_one(gate: Gate) -> None:
    call = fb.connect().call_async("gate")
    outcome: list[object] = []

    def wait() -> None:
        try:
            outcome.append(call.wait())
        except fb.Cancelled:
            outcome.append("cancelled")

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    assert gate.began.wait(20)
    assert in_time(call.done) is False
    timing = in_time(lambda: call.timing)
    assert isinstance(timing, dict)
    assert timing["total"] == 0
    assert isinstance(in_time(lambda: call.wait(timeout=0.05)), fb.Timeout)
    in_time(call.cancel)
    waiting.join(20)
    assert outcome == ["cancelled"]
    assert call.done()


def test_a_thread_that_waits_for_one_call_keeps_nobody_from_waiting_for_several(gate: Gate) -> None:
    client = fb.connect()
    slow, other = client.call_async("gate"), client.call_async("gate")
    waiting = threading.Thread(target=slow.wait, daemon=True)
    waiting.start()
    assert gate.began.wait(20)
    other.cancel()
    assert in_time(lambda: fb.wait_any([slow, other], 20)) == 1
    assert isinstance(in_time(lambda: fb.wait_all([slow, other], 0.05)), fb.Timeout)
    gate.go.set()
    waiting.join(20)
    assert in_time(lambda: fb.wait_any([slow], 20)) == 0


ENDINGS = {
    "a result": ("inout y:f64[n], out s:str, out k:f64", "a word", None),
    "an error": ("inout y:f64[n], out s:str, out k:f64", None, fb.RemoteError),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_thread_that_waits_for_a_call_gets_how_it_ended(here: Place, ending: str) -> None:
    signature, word, raises = ENDINGS[ending]
    began, go = threading.Event(), threading.Event()

    @fb.service(signature, name="word")
    def service(y: np.ndarray) -> tuple[str, float]:
        began.set()
        go.wait(60)
        if word is None:
            raise ValueError("no word")
        y += 1
        return word, 2.0

    with fb.Server(service, name="words"):
        # Of the other byte order, it is filled by a copy that is put back.
        filled = np.zeros(4, dtype=">f8")
        call = fb.connect().call_async("word", filled)
        assert began.wait(20)
        outcomes: list[object] = []

        def wait() -> None:
            try:
                outcomes.append((call.wait(20), filled[0]))
            except fb.Error as error:
                outcomes.append(error)

        threads = [threading.Thread(target=wait, daemon=True) for _ in range(6)]
        for thread in threads:
            thread.start()
        go.set()
        for thread in threads:
            thread.join(30)
        assert len(outcomes) == len(threads)
        if raises is None:
            first = call.wait()
            assert first == ("a word", 2.0)
            assert all(isinstance(o, tuple) and o[0] is first and o[1] == 1 for o in outcomes)
            # The array is the caller's again: nothing is put into it twice.
            filled[:] = 7
            assert call.wait() is first
            assert list(filled) == [7] * 4
        else:
            for _ in range(2):
                with pytest.raises(raises, match="no word"):
                    call.wait()
            assert {(type(o), str(o)) for o in outcomes} == {(raises, str(outcomes[0]))}
        assert call.done()


def test_each_of_the_threads_that_wait_for_a_call_has_a_time_limit_and_signals_of_its_own(gate: Gate) -> None:
    call = fb.connect().call_async("gate")
    ended: list[object] = []
    waiting = threading.Thread(target=lambda: ended.append(call.wait()), daemon=True)
    waiting.start()
    assert gate.began.wait(20)
    for _ in range(2):
        assert isinstance(in_time(lambda: call.wait(timeout=0.05)), fb.Timeout)
    interrupting = threading.Thread(target=lambda: os.kill(os.getpid(), signal.SIGINT), daemon=True)
    with pytest.raises(KeyboardInterrupt):
        interrupting.start()
        call.wait()
    assert not call.done()
    gate.go.set()
    waiting.join(20)
    assert ended == [None]
    assert call.wait() is None


def test_a_call_is_waited_for_to_its_end_when_the_thread_that_waited_first_gives_up(gate: Gate) -> None:
    call = fb.connect().call_async("gate")
    first = threading.Thread(target=lambda: in_time(lambda: call.wait(timeout=0.3)), daemon=True)
    first.start()
    assert gate.began.wait(20)
    ended: list[object] = []
    others = [threading.Thread(target=lambda: ended.append(call.wait(20)), daemon=True) for _ in range(3)]
    for thread in others:
        thread.start()
    first.join(30)
    gate.go.set()
    for thread in others:
        thread.join(30)
    assert ended == [None] * 3


TWICE = """
import forebay as fb

@fb.service("in x:f64, out y:f64")
def twice(x):
    return 2 * x
"""


@pytest.mark.parametrize("wait", ["another thread waits", "a function is told"])
def test_while_a_call_is_under_way_calls_of_another_server_take_no_longer(gate: Gate, wait: str) -> None:
    """A call that has to wait for the leader of another one takes 0.1 s; so many of those never end in time."""
    file = gate.here.folder / "twice.py"
    file.write_text(TWICE)
    gate.here.serve(file)
    client = fb.connect(wait=20)
    until(lambda: "twice" in client.services, what="the other server")
    told = threading.Event()
    if wait == "a function is told":
        slow = client.call_async("gate", notify=lambda _: told.set())
    else:
        slow = client.call_async("gate")
        threading.Thread(target=lambda: (slow.wait(), told.set()), daemon=True).start()
    assert gate.began.wait(20)
    assert in_time(lambda: sum(client.call("twice", float(n)) for n in range(2000))) == 2000 * 1999
    assert not told.is_set()
    gate.go.set()
    assert told.wait(20)


PROGRAM = """
import forebay as fb, signal, threading, time

began = threading.Event()

@fb.service("in s:f64")
def nap(s):
    began.set()
    end = time.monotonic() + s
    while time.monotonic() < end:
        sum(range(1000))

"""


def test_a_handler_of_a_signal_gives_up_the_call_that_its_thread_waits_for(here: Place) -> None:
    code = (
        PROGRAM
        + """
with fb.Server(nap, name="naps"):
    call = fb.connect().call_async("nap", 1.0)
    def handler(*_):
        call.cancel()
        print("cancel returned", call.done(), flush=True)
        try:
            call.wait()
        except fb.Error as error:
            print(type(error).__name__, flush=True)
    signal.signal(signal.SIGALRM, handler)
    began.wait()
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        call.wait()
    except fb.Cancelled:
        print("cancelled", call.done(), flush=True)
"""
    )
    out, _ = ended(here.python(code))
    assert out == "cancel returned False\nBadArgument\ncancelled True\n"


ENDS = {
    "while a service runs": """
client = fb.connect()
call = client.call_async("nap", 0.5)
began.wait()
""",
    "while a thread waits": """
threading.Thread(target=lambda: fb.call("nap", 0.5), daemon=True).start()
began.wait()
""",
    "while nothing runs": """
fb.call("nap", 0.0)
""",
    "while a thread serves": """
server.stop()
threading.Thread(target=lambda: fb.serve(nap, name="again"), daemon=True).start()
fb.connect(wait=20).call("nap", 0.0)
""",
}


@pytest.mark.parametrize("when", ENDS)
def test_a_program_that_serves_may_end(here: Place, when: str) -> None:
    code = PROGRAM + 'server = fb.Server(nap, name="naps").start()\n' + ENDS[when] + '\nprint("end")\n'
    out, err = ended(here.python(code))
    assert (out, err) == ("end\n", "")


def test_a_program_that_serves_another_one_may_end(here: Place) -> None:
    code = PROGRAM + 'server = fb.Server(nap, name="naps").start()\nbegan.wait()\nprint("end")\n'
    server = here.python(code)
    client = fb.connect(wait=20)
    call = client.call_async("nap", 0.5)
    assert ended(server) == ("end\n", "")
    assert call.wait(20) is None


def test_a_child_that_was_forked_beside_a_server_ends(here: Place) -> None:
    # From 3.12 on Python warns of every fork beside threads, its own or not.
    code = PROGRAM + (
        "import os, sys, warnings\n"
        'warnings.simplefilter("ignore", DeprecationWarning)\n'
        'server = fb.Server(nap, name="naps").start()\n'
        "child = os.fork()\n"
        "if child == 0:\n    sys.exit(3)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    assert ended(here.python(code)) == ("3\n", "")


def test_ctrl_c_ends_a_program_whose_service_does_not(here: Place) -> None:
    code = PROGRAM + (
        'server = fb.Server(nap, name="naps").start()\n'
        'call = fb.connect().call_async("nap", 1e9)\n'
        "began.wait()\n"
        'print("end", flush=True)\n'
    )
    process = here.python(code)
    assert process.stdout is not None
    assert process.stdout.readline() == "end\n"

    def over() -> bool:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(0.5)
        except subprocess.TimeoutExpired:
            return False
        return True

    until(over)
    _, err = process.communicate(timeout=20)
    # Told before it waits for its service, Python says so in its own way.
    assert process.returncode in (130, 1, -signal.SIGINT), err


NESTED = '''
"""Services that call each other."""
import forebay as fb

@fb.service("in depth:i64, out calls:i64")
def nested(depth):
    return 1 if depth == 0 else 1 + fb.call("nested", depth - 1)

@fb.service("in depth:i64, out calls:i64")
def sent(depth):
    if depth == 0:
        return 1
    calls = [fb.call_async("sent", depth - 1) for _ in range(2)]
    fb.wait_any(calls)
    return 1 + sum(fb.wait_all(calls))
'''


@pytest.mark.parametrize("servers", [1, 2])
def test_services_call_their_own_server_and_each_other(here: Place, servers: int) -> None:
    file = here.folder / "nested.py"
    file.write_text(NESTED)
    for _ in range(servers):
        here.serve(file)
    client = fb.connect(wait=20)
    assert client.call("nested", 9, timeout=60) == 10
    assert client.call("sent", 3, timeout=60) == 15


def test_services_of_a_server_within_the_program_call_it_again(here: Place) -> None:
    """Caller, both services and the client share one interpreter's lock, and there is one worker."""

    @fb.service("in depth:i64, out calls:i64", name="below")
    def below(depth: int) -> int:
        return 1 if depth == 0 else 1 + fb.call("above", depth - 1)

    @fb.service("in depth:i64, out calls:i64", name="above")
    def above(depth: int) -> int:
        return 1 if depth == 0 else 1 + fb.call("below", depth - 1)

    with fb.Server(below, above, name="both"):
        assert in_time(lambda: fb.connect().call("below", 9, timeout=60)) == 10


def test_a_list_of_services_keeps_no_thread_from_running(here: Place, gate: Gate) -> None:
    agent = int(re.findall(r"pid (\d+)", here.command("up"))[0])
    client = fb.connect()
    ticks, over = [0], threading.Event()

    def tick() -> None:
        while not over.wait(0.001):
            ticks[0] += 1

    ticking = threading.Thread(target=tick)
    ticking.start()
    stop(agent)
    try:
        before = ticks[0]
        assert "gate" in client.services
        len(client.services)
        # It is the table of the moment that is asked for, and nobody answers.
        assert ticks[0] > before + 5
    finally:
        os.kill(agent, signal.SIGCONT)
        over.set()
        ticking.join()


def test_a_server_that_is_told_to_end_says_what_it_waits_for_and_ends_at_once_when_told_again(
    here: Place,
) -> None:
    file, began = here.folder / "naps.py", here.folder / "began"
    began_here = f"    open({str(began)!r}, 'w').close()\n    end"
    file.write_text(PROGRAM.replace("    began.set()\n    end", began_here))
    server = here.start(sys.executable, "-m", "forebay", "serve", file)
    until(lambda: "nap" in fb.connect().services)
    call = fb.connect(wait=0.1).call_async("nap", 1e9)
    until(began.exists)
    server.send_signal(signal.SIGTERM)
    assert server.stderr is not None
    said = next(line for line in server.stderr if "ends when" in line)
    assert "naps ends when a call that runs has ended; ask once more, 3 s from now or later" in said

    def over() -> bool:
        server.send_signal(signal.SIGTERM)
        return server.poll() is not None

    until(over)
    assert server.returncode == -signal.SIGTERM
    with pytest.raises(fb.ServerLost):
        call.wait(20)
