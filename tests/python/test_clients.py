"""Who is none of the ranks: puts, tables, attributes and messages beside them, of which no step waits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from places import Place, ended, hear, stop, until

RANKS = """
import sys, numpy as np, forebay as fb
run = fb.open(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "a")
back = run.restart()
grown = run.table("grown", columns={"n": "i64"}, history=True)
print("open", flush=True)
for step in run.steps(4, start=back):
    sys.stdin.readline()
    grown.insert([(step,)])
    with run.snapshot(step + 1) as s:
        s.put("x", np.full(3, float(step)), offset="append")
    print(step, flush=True)
run.close()
"""


@pytest.fixture(autouse=True)
def here(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients of this process live where the ranks do."""
    for name, value in place.variables.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(params=["embedded", "agent", "two ranks"])
def ranks(request: pytest.FixtureRequest, place: Place, run_dir: Path) -> list[subprocess.Popen[str]]:
    """The programs of a run, which have opened it."""
    if request.param == "agent":
        place.command("up")
    count = 2 if request.param == "two ranks" else 1
    programs = place.ranks(count, sys.executable, "-c", RANKS, run_dir, stdin=subprocess.PIPE)
    for program in programs:
        hear(program, "open")
    return programs


def go(programs: list[subprocess.Popen[str]], *steps: int) -> None:
    """The ranks take steps."""
    for step in steps:
        for program in programs:
            assert program.stdin is not None
            program.stdin.write("\n")
            program.stdin.flush()
        for program in programs:
            hear(program, str(step))


def test_a_client_writes_beside_ranks_that_do_not_wait_for_it(
    ranks: list[subprocess.Popen[str]], run_dir: Path
) -> None:
    with fb.open(run_dir, "r+", client=True) as run:
        assert (run.rank, run.size) == (0, 0)
        run.put("probe", np.arange(5.0), units="m", attrs={"kind": "laser"})
        run.put("large", np.ones(2_000_000), set=3)
        assert run.put("counted", 1, if_version=0) == 1
        run.put("gone", 1)
        assert run.delete("gone") == 1
        run.attrs["note"] = "seen"
        table = run.table("seen", columns={"who": "str", "n": "i64"})
        table.insert([("a", 1), ("b", 2)])
        assert table.update({"n": 5}, "who = ?", ["b"]) == 1
        run.message("the laser was off", "warning")
        assert run["probe"].tolist() == list(range(5)), "a process reads its own writes"
        assert run.get("large", set=3).sum() == 2_000_000
        assert run.attrs["note"] == "seen" and len(table) == 2
        go(ranks, 0, 1)
        until(lambda: run.snapshots.numbers, what="a snapshot")
        run.flush()
        go(ranks, 2, 3)
        for program in ranks:
            ended(program)
        run.put("late", 1)
        assert run["late"] == 1
    with fb.open(run_dir, "r") as run:
        assert run.snapshots.numbers == [1, 2, 3, 4]
        assert [row["n"] for row in run.table("seen").select()] == [1, 5]
        assert len(run.table("grown")) == 4 * len(ranks)
        said = run.sql("select text, step from fb_messages where level = 2")
        assert [(row["text"], row["step"]) for row in said] == [("the laser was off", -1)]
        assert run["late"] == 1
        assert run.sql("select value from fb_run where key = 'finished'")[0]["value"] == "1"


def test_what_is_the_ranks_alone_is_refused_by_name(
    ranks: list[subprocess.Popen[str]], run_dir: Path
) -> None:
    with fb.open(run_dir, "r+", client=True) as run:
        grown = run.table("grown")
        refused = {
            "a snapshot": lambda: run.snapshot(7),
            "a restart": run.restart,
            "a checkpoint": lambda: run.checkpoint("here"),
            "a parameter": lambda: run.parameter("rate", 1.0),
            "a diagram": lambda: run.diagram("energy", "history"),
            "a loop": lambda: next(iter(run.steps(3))),
            "a row of a history": lambda: grown.insert([(9,)]),
            "a row of a history ": lambda: grown.update({"n": 9}),
            "a row of a history  ": grown.delete,
            "a history": lambda: run.table("own", columns={"n": "i64"}, history=True),
        }
        for what, do in refused.items():
            with pytest.raises(fb.BadArgument, match=f"^{what.strip()} is the ranks' alone.*client"):
                do()
    go(ranks, 0, 1, 2, 3)
    for program in ranks:
        ended(program)
    with fb.open(run_dir, "r") as run:
        assert run.snapshots.numbers == [1, 2, 3, 4] and len(run.table("grown")) == 4 * len(ranks)


def test_a_client_opens_only_a_run_that_is_there_and_says_nothing_of_ranks(run_dir: Path) -> None:
    with pytest.raises(fb.NotFound, match="start its program first"):
        fb.open(run_dir, "r+", client=True)
    fb.open(run_dir).close()
    with pytest.raises(fb.BadArgument, match='with mode "r\\+", and not with "a"'):
        fb.open(run_dir, client=True)
    with pytest.raises(fb.BadArgument, match="rank is theirs to say"):
        fb.open(run_dir, "r+", client=True, rank=0, size=1)
    with pytest.raises(fb.BadArgument, match="scratch"):
        fb.open(run_dir, "r+", client=True, scratch=True)


KILLED = """
import sys, os, numpy as np, forebay as fb
run = fb.open(sys.argv[1], "r+", client=True)
print("open", flush=True)
n = int(sys.argv[2])
for i in range(n):
    run.put("small", i, set=i)
    run.put("block", np.full(20_000, float(i)), set=i)
os.kill(os.getpid(), 9)
"""


def test_what_a_killed_client_had_put_is_applied_and_no_step_is_lost(
    ranks: list[subprocess.Popen[str]], place: Place, run_dir: Path
) -> None:
    for count in (0, 1, 17, 60):
        client = place.python(KILLED, run_dir, str(count))
        hear(client, "open")
        assert client.wait(60) == -signal.SIGKILL
    go(ranks, 0, 1, 2, 3)
    for program in ranks:
        ended(program)
    with fb.open(run_dir, "r") as run:
        assert [d.set for d in run.list("small")] == list(range(60))
        assert all(run.get("block", set=i)[-1] == i for i in range(60))
        assert run.snapshots.numbers == [1, 2, 3, 4]


def test_ranks_step_and_close_beside_a_client_that_is_stopped(
    ranks: list[subprocess.Popen[str]], place: Place, run_dir: Path
) -> None:
    waits = 'import sys, forebay as fb\nrun = fb.open(sys.argv[1], "r+", client=True)\nprint("open", flush=True)\n'
    code = waits + 'sys.stdin.readline()\nrun.put("after", 1)\nrun.close()\n'
    client = place.python(code, run_dir, stdin=subprocess.PIPE)
    hear(client, "open")
    stop(client.pid)
    go(ranks, 0, 1, 2, 3)
    for program in ranks:
        ended(program, timeout=20)
    os.kill(client.pid, signal.SIGCONT)
    assert client.stdin is not None
    client.stdin.write("\n")
    ended(client)
    with fb.open(run_dir, "r") as run:
        assert run.snapshots.numbers == [1, 2, 3, 4] and run["after"] == 1


@pytest.mark.parametrize("ranks", ["embedded"], indirect=True)
def test_a_client_outlives_the_program_of_the_run_and_stands_beside_the_next_one(
    ranks: list[subprocess.Popen[str]], place: Place, run_dir: Path
) -> None:
    run = fb.open(run_dir, "r+", client=True)
    run.put("x", 0, set=0)
    go(ranks, 0, 1, 2, 3)
    for nth in (1, 2, 3):
        ended(ranks[0])
        run.put("x", nth, set=nth)
        assert run.get("x", set=nth) == nth
        ranks[:] = [place.python(RANKS, run_dir, stdin=subprocess.PIPE)]
        hear(ranks[0], "open")
        run.put("x", nth + 10, set=nth)
        assert run.get("x", set=nth) == nth + 10
    ended(ranks[0])
    anew = place.python(RANKS, run_dir, "w", stdin=subprocess.PIPE)
    hear(anew, "open")
    with pytest.raises(fb.Conflict, match=r"began it anew.*open it again"):
        run.flush()
    go([anew], 0, 1, 2, 3)
    ended(anew)
    with pytest.raises(fb.Conflict, match="began it anew"):
        run.close()
    with fb.open(run_dir, "r") as run:
        assert run.list() == [] and run.snapshots.numbers == [1, 2, 3, 4]


def test_a_client_goes_on_when_the_owner_is_killed(
    ranks: list[subprocess.Popen[str]], place: Place, run_dir: Path
) -> None:
    go(ranks, 0)
    owner = json.loads((run_dir / "agent.json").read_text())["pid"]
    with fb.open(run_dir, "r+", client=True) as run:
        for i in range(300):
            if i == 150:
                os.kill(owner, signal.SIGKILL)
            run.put("n", i, set=i)
        run.flush()
        assert [d.set for d in run.list("n")] == list(range(300))
        if owner == ranks[0].pid:
            assert ranks[0].wait(20) == -signal.SIGKILL
        else:
            go(ranks, 1, 2, 3)
            for program in ranks:
                ended(program)
    with fb.open(run_dir, "r") as run:
        assert [run.get("n", set=i) for i in range(300)] == list(range(300))


COUNTS = """
import sys, forebay as fb
run = fb.open(sys.argv[1], "r+", client=True)
done = 0
while done < 40:
    version = run.list("count")[0].version
    try:
        run.put("count", int(run["count"]) + 1, if_version=version)
        done += 1
    except fb.Conflict:
        pass
for i in range(100):
    run.put(f"own/{sys.argv[2]}", i)
    assert run[f"own/{sys.argv[2]}"] == i
run.close()
"""


def test_of_clients_that_change_one_set_each_sees_who_was_before_it(
    ranks: list[subprocess.Popen[str]], place: Place, run_dir: Path
) -> None:
    with fb.open(run_dir, "r+", client=True) as run:
        run.put("count", 0)
        run.flush()
        clients = [place.python(COUNTS, run_dir, str(i)) for i in range(3)]
        go(ranks, 0, 1, 2, 3)
        for process in clients + ranks:
            ended(process)
        assert run["count"] == 120


def test_the_command_line_writes_beside_the_ranks(
    ranks: list[subprocess.Popen[str]], place: Place, run_dir: Path, tmp_path: Path
) -> None:
    np.save(tmp_path / "a.npy", np.arange(4))
    place.command("put", run_dir, "a", tmp_path / "a.npy", "--units", "m")
    place.command("put", run_dir, "n", "3")
    place.command("cp", run_dir, "a", "b")
    place.command("mv", run_dir, "n", "m")
    place.command("rm", run_dir, "b")
    assert "noted" in place.command("note", run_dir, "beside")
    said = json.loads(place.command("note", run_dir, "as json", "--level", "warning", "--json"))
    assert said["level"] == "warning" and said["text"] == "as json"
    assert "is not a level" in place.command("note", run_dir, "x", "--level", "loud", status=1)
    go(ranks, 0, 1, 2, 3)
    for program in ranks:
        ended(program)
    until(lambda: "noted" in place.command("note", run_dir, "when nobody writes"), what="a note")
    with fb.open(run_dir, "r") as run:
        assert [d.name for d in run.list()] == ["a", "m"] and run["a"].tolist() == [0, 1, 2, 3]
        texts = [row["text"] for row in run.sql("select text from fb_messages order by id")]
        assert texts[-3:] == ["beside", "as json", "when nobody writes"]
