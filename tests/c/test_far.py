"""C programs and other hosts: a run that is written there, a server that is called from there."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from alike import check_remote
from far import Agent, hidden_sockets, listening
from kit import PROGRAMS, SANITIZERS, Home, Kit
from places import ended, hear


@pytest.mark.parametrize("how", ["plainly", "under the address sanitizer"])
def test_a_program_writes_a_run_on_another_host_reads_it_back_and_is_steered_there(
    kit: Kit, home: Home, agent: Agent, run_path: Path, how: str
) -> None:
    program = kit.compile(PROGRAMS / "remote.c", *(SANITIZERS if how != "plainly" else []))
    check_remote(home, agent, program, run_path, order="C", says="nu 2.5, saves 1\n")


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


@pytest.mark.parametrize("where", ["here", "on another host"])
def test_services_of_a_server_with_one_worker_call_their_own_server(
    kit: Kit, home: Home, agent: Agent, where: str
) -> None:
    program, far = kit.compile(PROGRAMS / "nested.c"), where != "here"
    place = agent.place if far else home
    server = place.start(program, "serve", *(["tcp://127.0.0.1:0"] if far else []))
    hear(server, "ready")
    if far:
        home.variables["FOREBAY_BROKER"] = agent.address
    with hidden_sockets(place, server.pid) if far else contextlib.nullcontext():
        assert home.run(program, "call") == "done\n"
    server.terminate()
    assert ended(server, timeout=20)[0] == "done\n"
