"""Clients of a run on another host: the rules of those beside its ranks, over a line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from conftest import Agent, Place, until
from lines import Proxy
from places import ended, hear, stop
from test_clients import COUNTS, KILLED, RANKS, go


@pytest.fixture(autouse=True)
def here(agent: Agent, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process, and those of the other place, have the agent's key."""
    monkeypatch.setenv("FOREBAY_HOME", agent.place.variables["FOREBAY_HOME"])
    place.variables["FOREBAY_HOME"] = agent.place.variables["FOREBAY_HOME"]


@pytest.fixture
def path(agent: Agent) -> Path:
    return agent.runs / "shared.fb"


@pytest.fixture
def ranks(agent: Agent, path: Path) -> list[subprocess.Popen[str]]:
    """Two ranks at the store of the run, which have opened it."""
    programs = agent.place.ranks(2, sys.executable, "-c", RANKS, path, stdin=subprocess.PIPE)
    for program in programs:
        hear(program, "open")
    return programs


def finish(programs: list[subprocess.Popen[str]]) -> None:
    go(programs, 0, 1, 2, 3)
    for program in programs:
        ended(program)


def test_a_client_of_another_host_writes_beside_the_ranks_and_reads_its_own_writes(
    ranks: list[subprocess.Popen[str]], agent: Agent, path: Path, place: Place
) -> None:
    url = agent.url(path)
    with fb.open(url, "r+", client=True, buffer="32MiB") as run:
        assert (run.rank, run.size, run.path) == (0, 0, url)
        run.put("probe", np.arange(5.0), units="m", attrs={"kind": "laser"})
        run.put("large", np.ones(2_000_000), set=3)
        assert run["probe"].tolist() == list(range(5)) and run.get("large", set=3).sum() == 2_000_000
        assert run.put("counted", 1, if_version=0) == 1
        with pytest.raises(fb.Conflict):
            run.put("counted", 2, if_version=0)
        run.attrs["note"] = "seen"
        table = run.table("seen", columns={"v": ("f8", 3), "n": "i64"})
        table.insert(columns={"v": np.eye(3)[:2], "n": [1, 2]})
        assert table.update({"v": [7, 8, 9]}, "n = ?", [2]) == 1
        assert table["v"].tolist() == [[1, 0, 0], [7, 8, 9]] and run.attrs["note"] == "seen"
        run.message("the laser was off", "warning")
        for what, do in {
            "a snapshot": lambda: run.snapshot(7),
            "a restart": run.restart,
            "a parameter": lambda: run.parameter("rate", 1.0),
            "a row of a history": lambda: run.table("grown").insert([(9,)]),
        }.items():
            with pytest.raises(fb.BadArgument, match=f"^{what} is the ranks' alone.*client"):
                do()
        assert "noted" in place.command("note", url, "from the command line")
        place.command("put", url, "n", "3")
        finish(ranks)
        run.put("late", 1)
        assert run["late"] == 1 and run["n"] == 3
    with fb.open(path, "r") as run:
        assert run.snapshots.numbers == [1, 2, 3, 4] and len(run.table("grown")) == 8
        said = run.sql("select text from fb_messages order by id")["text"].tolist()
        assert said[-2:] == ["the laser was off", "from the command line"] and run["late"] == 1


def test_who_opens_a_run_of_another_host_as_a_client_says_nothing_of_ranks(agent: Agent) -> None:
    with pytest.raises(fb.NotFound, match="nowhere"):
        fb.open(f"{agent.address}/nowhere", "r+", client=True)
    with pytest.raises(fb.BadArgument, match='with mode "r\\+", and not with "a"'):
        fb.open(f"{agent.address}/nowhere", client=True)
    with pytest.raises(fb.BadArgument, match="rank is theirs to say"):
        fb.open(f"{agent.address}/nowhere", "r+", client=True, rank=0, size=1)


def test_a_client_whose_line_is_cut_loses_nothing_and_keeps_no_other_one_out(
    ranks: list[subprocess.Popen[str]], agent: Agent, path: Path
) -> None:
    line = Proxy(agent.address)
    with fb.open(f"{line.address}/shared", "r+", client=True) as run:
        for i in range(200):
            run.put("n", i, set=i)
            if i == 60:
                line.cut()
            if i == 120:
                # Whose line is cut is not given up for one who comes.
                with fb.open(agent.url(path), "r+", client=True) as other:
                    other.put("other", 1)
                line.heal()
        run.flush()
        assert [run.get("n", set=i) for i in (0, 61, 199)] == [0, 61, 199]
    finish(ranks)
    with fb.open(path, "r") as run:
        assert [(d.set, d.version) for d in run.list("n")] == [(i, 1) for i in range(200)]
        assert run["other"] == 1


def test_of_clients_of_several_hosts_that_change_one_set_each_sees_who_was_before_it(
    ranks: list[subprocess.Popen[str]], agent: Agent, path: Path, place: Place
) -> None:
    with fb.open(agent.url(path), "r+", client=True) as run:
        run.put("count", 0)
        run.flush()
        clients = [place.python(COUNTS, agent.url(path), "0"), agent.place.python(COUNTS, path, "1")]
        finish(ranks)
        for client in clients:
            ended(client)
        assert run["count"] == 80


def test_what_a_killed_client_of_another_host_had_put_is_kept_and_no_step_waits_for_it(
    ranks: list[subprocess.Popen[str]], agent: Agent, path: Path, place: Place
) -> None:
    line = Proxy(agent.address)
    waits = 'import sys, forebay as fb\nrun = fb.open(sys.argv[1], "r+", client=True)\nprint("open", flush=True)\n'
    stopped = place.python(waits + "sys.stdin.readline()\n", agent.url(path), stdin=subprocess.PIPE)
    hear(stopped, "open")
    stop(stopped.pid)
    killed = place.python(KILLED, agent.url(path), "20")
    hear(killed, "open")
    assert killed.wait(60) == -signal.SIGKILL
    # Of this one nothing arrives: its line is cut before it puts anything.
    code = waits + "sys.stdin.readline()\nrun.put('cut', 7)\nos.kill(os.getpid(), 9)\n"
    apart = place.python("import os\n" + code, f"{line.address}/shared", stdin=subprocess.PIPE)
    hear(apart, "open")
    line.cut()
    assert apart.stdin is not None
    apart.stdin.write("\n")
    apart.stdin.flush()
    assert apart.wait(60) == -signal.SIGKILL
    finish(ranks)
    os.kill(stopped.pid, signal.SIGCONT)
    assert stopped.stdin is not None
    stopped.stdin.close()
    stopped.wait(30)
    place.command("recover", agent.url(path), timeout=100)
    with fb.open(path, "r") as run:
        until(lambda: "cut" in run, what="what was left in memory here")
        assert run.snapshots.numbers == [1, 2, 3, 4] and run["cut"] == 7
        assert [d.set for d in run.list("small")] == list(range(20))
        assert all(run.get("block", set=i)[-1] == i for i in range(20))
