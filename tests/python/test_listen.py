"""A server made in a program, called over the network from a process that cannot see its socket."""

from __future__ import annotations

from pathlib import Path

from conftest import Agent, Place
from far import hidden_sockets, listening
from places import hear

SERVER = """
import sys, forebay as fb

@fb.service("in a:f64, in x:f64[n], inout y:f64[n]")
def axpy(a, x, y):
    y += a * x

with fb.Server(axpy, name="told", listen=sys.argv[1] if sys.argv[1:] else None):
    print("ready", flush=True)
    sys.stdin.read()
"""
CLIENT = """
import sys, forebay as fb, numpy as np
client = fb.connect(sys.argv[1])
for n in (4, 300_000):
    x, y = np.arange(float(n)), np.ones(n)
    client.call("axpy", 2.0, x, y)
    assert (y == 1 + 2 * x).all()
print("called")
"""


def test_a_server_listens_where_it_was_told_and_is_called_over_the_network(
    tmp_path: Path, place: Place
) -> None:
    agent = Agent(tmp_path)
    try:
        place.variables["FOREBAY_HOME"] = agent.place.variables["FOREBAY_HOME"]
        server = agent.place.python(SERVER, "tcp://127.0.0.2:0", stdin=-1)
        hear(server, "ready")
        assert [host for host, _ in listening(server.pid)] == ["127.0.0.2"]
        with hidden_sockets(agent.place, server.pid):
            assert place.run_python(CLIENT, agent.address) == "called\n"
        server.communicate("", timeout=20)
        assert server.returncode == 0
    finally:
        agent.close()


def test_a_server_whose_socket_was_swept_away_ends_when_it_is_told_to(place: Place) -> None:
    place.command("up")
    server = place.python(SERVER, stdin=-1)
    hear(server, "ready")
    for name in place.sockets():
        if f"-{server.pid}-" in name:
            Path(place.variables["FOREBAY_RUNTIME_DIR"], name).unlink()
    out, err = server.communicate("", timeout=20)
    assert server.returncode == 0, out + err


def test_nobody_vouches_for_a_server_whose_agent_does_not_listen(place: Place) -> None:
    place.command("up")
    said = place.run_python(SERVER, "tcp://127.0.0.1:0", status=1)
    assert "nothing vouches for a server" in said
    assert "forebay up --listen" in said


def test_an_agent_that_does_not_listen_leaves_the_rendezvous_file_to_the_one_that_does(
    tmp_path: Path, place: Place
) -> None:
    agent = Agent(tmp_path)
    try:
        home = agent.place.variables["FOREBAY_HOME"]
        place.variables["FOREBAY_HOME"] = home
        (file,) = Path(home).glob("*.json")
        told = file.read_text()
        place.command("up")
        said = place.command("up", "--listen", "tcp://127.0.0.1:0", status=1)
        assert f"another agent of yours (pid {agent.pid}" in said and "FOREBAY_HOME of its own" in said
        assert file.read_text() == told
        place.command("down")
        assert file.read_text() == told
        # What says where an agent listens is written again when that is asked for once more.
        file.unlink()
        agent.up()
        assert file.read_text() == told
    finally:
        agent.close()
    assert not file.exists()


def test_who_takes_the_place_of_an_agent_that_listened_listens_in_its_place(
    tmp_path: Path, place: Place
) -> None:
    agent = Agent(tmp_path)
    try:
        place.variables["FOREBAY_HOME"] = agent.place.variables["FOREBAY_HOME"]
        look = "import sys, forebay as fb; print(len(fb.connect(*sys.argv[1:]).services))"
        assert place.run_python(look, agent.address) == "0\n"
        agent.kill()
        # Who needs one here starts the next.
        assert agent.place.run_python(look) == "0\n"
        assert place.run_python(look, agent.address) == "0\n"
    finally:
        agent.close()
