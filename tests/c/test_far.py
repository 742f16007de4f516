"""C programs and other hosts: a run that is written there, a server that is called from there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from far import Agent, hidden_sockets, listening
from kit import PROGRAMS, SANITIZERS, Home, Kit
from places import ended, hear

READ = """
import sys, forebay as fb, numpy as np
with fb.open(sys.argv[1], "r") as run:
    assert [d.name for d in run.list()] == [f"small/{n}" for n in range(10)]
    assert all(run[f"small/{n}"].tolist() == [n, n * n] for n in range(10))
    assert run.snapshots.numbers == [0, 1, 2]
    for step in range(3):
        field = run.snapshots.at(step)["field"]
        assert (field.ravel() == step * 1e6 + np.arange(60_000)).all()
        assert run.snapshots.at(step).time == step / 2
"""


@pytest.fixture
def agent(home: Home, tmp_path: Path) -> Iterator[Agent]:
    """An agent that takes runs of other hosts; who lives at home has its key."""
    made = Agent(tmp_path)
    home.variables["FOREBAY_HOME"] = made.place.variables["FOREBAY_HOME"]
    yield made
    made.close()


@pytest.mark.parametrize("how", ["plainly", "under the address sanitizer"])
def test_a_program_writes_a_run_on_another_host_reads_it_back_and_is_steered_there(
    kit: Kit, home: Home, agent: Agent, run_path: Path, how: str
) -> None:
    url = agent.url(run_path)
    program = home.start_ready(
        kit.compile(PROGRAMS / "remote.c", *(SANITIZERS if how != "plainly" else [])), url
    )
    for words in (("set", "nu", "2.5"), ("save",), ("quit",)):
        home.command("steer", url, *words)
    assert ended(program)[0] == "nu 2.5, saves 1\n"
    agent.place.run_python(READ, run_path)
    assert not home.segments()


def test_a_server_listens_where_it_was_told_and_is_called_over_the_network(
    kit: Kit, home: Home, agent: Agent
) -> None:
    server = agent.place.start(kit.compile(PROGRAMS / "server.c"), "tcp://127.0.0.2:0")
    hear(server, "ready")
    assert [host for host, _ in listening(server.pid)] == ["127.0.0.2"]
    home.variables["FOREBAY_BROKER"] = agent.address
    with hidden_sockets(agent.place, server.pid):
        assert home.run(kit.compile(PROGRAMS / "calls.c"), "there") == "done\n"
    server.terminate()
    assert ended(server, timeout=20)[0] == "served\n"
