"""Clients: how they end, what they tell of calls that failed, and what servers leave that are killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
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

@fb.service("in seconds:f64")
def sleep(seconds):
    time.sleep(seconds)

@fb.service("in x:f64[n], out total:f64")
def total(x):
    return float(x.sum())

@fb.service("in x:f64")
def fail(x):
    raise ValueError(f"{x} is wrong")
'''


@pytest.fixture
def client(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> fb.Client:
    file = tmp_path / "things.py"
    file.write_text(SERVICES)
    place.serve(file, "one")
    return client_at(place, monkeypatch)


def test_a_client_that_is_closed_ends_its_calls_and_frees_its_arrays(client: fb.Client) -> None:
    with fb.connect(wait=20) as c:
        held = c.put(np.ones(4))
        assert c.call("total", held) == 4.0
        under_way = c.call_async("sleep", 2.0)
        ended: list[type[BaseException]] = []

        def wait() -> None:
            try:
                under_way.wait()
            except fb.Error as e:
                ended.append(type(e))

        waiting = threading.Thread(target=wait)
        waiting.start()
        tasks = c.map("total", [np.ones(3)])
    waiting.join(10)
    assert ended == [fb.Closed], "who waited in another thread hears of it"
    for use in (
        lambda: c.call("total", np.ones(3)),
        lambda: c.put(np.ones(3)),
        held.get,
        under_way.wait,
        lambda: next(tasks),
    ):
        with pytest.raises(fb.Closed):
            use()
    c.close()
    # The one server has nothing of it left, and goes on for others.
    tied = client.on("one")
    with tied:
        pass
    assert tied.call("total", np.ones(5)) == client.call("total", np.ones(5)) == 5.0


def test_a_client_sees_what_failed_of_the_calls_of_the_module(
    client: fb.Client, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The client of the module is one of this place.
    monkeypatch.setattr(fb._calls, "_default", None)
    with pytest.raises(fb.RemoteError):
        client.call("fail", 1.0)
    with pytest.raises(fb.RemoteError):
        fb.call("fail", 2.0)
    with pytest.raises(fb.RemoteError):
        client.call("fail", 3.0)
    told = [one.text.split("ValueError: ")[1].split()[0] for one in client.failed()]
    assert told == ["1.0", "2.0", "3.0"], client.failed()
    assert len(client.on("one").failed()) == 3
    named = fb.connect(Path(place.variables["FOREBAY_RUNTIME_DIR"]) / "agent.sock")
    assert named.failed() == [], "its broker is named"


def test_numbers_of_lives_are_whole_for_every_reader_of_json(client: fb.Client, place: Place) -> None:
    until(lambda: "total" in client.services, what="the server")
    services = json.loads(place.command("services", "--json"))
    lives = [server["incarnation"] for service in services for server in service["servers"]]
    assert lives and all(0 < life < 1 << 53 for life in lives), lives


def sockets(place: Place) -> list[str]:
    return sorted(p.name for p in Path(place.variables["FOREBAY_RUNTIME_DIR"]).glob("server-*.sock"))


def test_sockets_of_servers_that_were_killed_go(client: fb.Client, place: Place, tmp_path: Path) -> None:
    until(lambda: "total" in client.services, what="the server")
    (first,) = sockets(place)
    (pid,) = (server.pid for server in client.services["total"].servers)
    os.kill(pid, signal.SIGKILL)
    # The agent hears of it.
    until(lambda: first not in sockets(place), what="the end of its socket")
    # Of what it has not heard the next server that starts clears away.
    gone = subprocess.Popen(["true"])
    gone.wait()
    left = f"server-{gone.pid}-0.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.join(place.variables["FOREBAY_RUNTIME_DIR"], left))
    assert left in sockets(place)
    place.serve(tmp_path / "things.py", "two")
    until(lambda: len(sockets(place)) == 1 and left not in sockets(place), what="the end of its socket")


def test_commands_that_are_given_something_else_name_the_right_one(place: Place, tmp_path: Path) -> None:
    (tmp_path / "things.py").write_text(SERVICES)
    (tmp_path / "own.fbi").write_text("fbi 1\n")
    with fb.open(str(tmp_path / "some")) as run:
        run.put("x", np.ones(3))
        with run.snapshot(1) as s:
            s.put("u", np.ones(3))
    (step,) = (tmp_path / "some.fb" / "steps").glob("*.h5")
    for words, says in (
        (("services", "some"), "it is a run: `forebay ls some`"),
        (("services", "things.py"), "`forebay serve things.py`"),
        (("services", "own.fbi"), "`forebay serve --idl own.fbi`"),
        (("services", "fb://host:1"), "`FOREBAY_BROKER=fb://host:1 forebay services`"),
        (("services", "total"), "leave it out"),
        (("ls", "things.py"), "`forebay serve things.py`"),
        (("ls", "own.fbi"), "`forebay serve --idl own.fbi`"),
        (("ls", str(step)), f"`forebay ls {tmp_path / 'some.fb'}`"),
    ):
        process = place.forebay(*words, cwd=tmp_path)
        out, said = process.communicate(timeout=60)
        assert process.returncode == 1 and says in said and not out, (words, said)
