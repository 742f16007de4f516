"""A program that is started again after a start that failed, and an agent that dies with one of its ranks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import forebay as fb
import pytest
from conftest import Agent
from places import Place, ended, hear, until

START = """
import os, sys, forebay as fb, numpy as np
path, start, n, end = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
with fb.open(path) as run:
    snap = run.restart()
    rows = run.table("rows", {"start": "i32", "rank": "i32", "step": "i64"}, history=True)
    for step in run.steps(n, start=snap):
        rows.insert((start, run.rank, step))
        if end != "kill":
            with run.snapshot(step) as s:
                s.put("x", np.full(5, step), offset=5 * run.rank, shape=10)
    if end == "kill":
        run.flush()
        os.kill(os.getpid(), 9)
"""


ALONE = """
import os, sys, forebay as fb
path, start, n, end = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
with fb.open(path) as run:
    snap = run.restart()
    rows = run.table("rows", {"start": "i32", "step": "i64"}, history=True)
    for step in run.steps(n, start=snap):
        rows.insert((start, step))
        if step == 0:
            with run.snapshot(step) as s:
                s.put("x", step)
    if end == "kill":
        run.flush()
        os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("between", ["put", "drop", "open"])
def test_who_opens_the_run_of_a_killed_program_for_a_moment_does_not_bring_it_to_its_end(
    place: Place, run_dir: Path, between: str
) -> None:
    place.run_python(ALONE, run_dir, "1", "5", "kill", status=-signal.SIGKILL)
    if between == "put":
        place.command("put", run_dir, "note", "3")
    elif between == "open":
        place.run_python("import sys, forebay as fb; fb.open(sys.argv[1]).close()", run_dir)
    place.command("drop", run_dir, "0", "--yes")
    place.run_python(ALONE, run_dir, "2", "7", "close")
    with fb.open(run_dir, "r") as run:
        rows = run.table("rows").select()
        assert rows["start"].tolist() == [2] * 7 and rows["step"].tolist() == list(range(7))


@pytest.mark.parametrize("end", ["kill", "close"])
def test_a_start_in_which_one_rank_failed_leaves_nothing_to_the_next_one(
    place: Place, run_dir: Path, end: str
) -> None:
    words = [sys.executable, "-c", START, run_dir]
    for rank in place.ranks(2, *words, "1", "5", "done"):
        ended(rank)
    lonely = {"PMI_RANK": "1", "PMI_SIZE": "2"}
    alone = [*words, "2", "8", "kill"] if end == "kill" else [*words, "2", "4", "done"]
    ended(place.start(*alone, env={**place.env, **lonely}), -signal.SIGKILL if end == "kill" else 0)
    for rank in place.ranks(2, *words, "3", "8", "done"):
        ended(rank)
    with fb.open(run_dir, "r") as run:
        assert run.snapshots.numbers == list(range(8))
        rows = run.sql("select start, step from rows order by step, rank")
        steps = [(row["start"], row["step"]) for row in rows]
        assert steps == [(1 if step < 4 else 3, step) for step in range(8) for _ in range(2)]


MATES = """
import sys, time, forebay as fb, numpy as np
from pathlib import Path
path = Path(sys.argv[1])
with fb.open(path) as run:
    try:
        for step in run.steps(10**6):
            with run.snapshot(step) as s:
                s.put("x", np.zeros(10), offset=10 * run.rank, shape=20)
            if step == 0:
                run.flush()
                path.with_suffix(f".at{run.rank}").touch()
            run.put("y", step)
            time.sleep(0.002)
    except fb.ServerLost as e:
        print(e)
        raise SystemExit(3)
"""


@pytest.mark.parametrize("first", ["agent", "rank"])
def test_a_rank_that_dies_with_the_agent_is_known_to_the_next_one(
    place: Place, run_dir: Path, first: str
) -> None:
    words = [sys.executable, "-c", MATES, run_dir]
    ranks = place.ranks(2, *words)
    until(lambda: all(run_dir.with_suffix(f".at{rank}").exists() for rank in range(2)), 60, "some steps")
    agent = json.loads(place.command("status", "--json"))[0]["pid"]
    pids = [agent, ranks[1].pid]
    for pid in pids if first == "agent" else reversed(pids):
        os.kill(pid, signal.SIGKILL)
    ended(ranks[1], -signal.SIGKILL)
    said, _ = ended(ranks[0], 3, timeout=50)
    assert "rank 1 of 2 is gone" in said or "rank 1 of 2 has left the run" in said, said


DISCARDS = """
import sys, forebay as fb, numpy as np
from pathlib import Path
path = Path(sys.argv[1])
def until(mark):
    while not path.with_suffix(mark).exists():
        pass
with fb.open(path) as run:
    s = run.snapshot(3)
    s.put("x", np.zeros(5), offset=5 * run.rank, shape=10)
    if run.rank == 0:
        s.end()
        path.with_suffix(".ended").touch()
        until(".discarded")
        try:
            run.flush()
        except fb.Cancelled as e:
            assert "step 3 was discarded by rank 1" in str(e), e
        else:
            raise SystemExit("nobody was told")
    else:
        until(".ended")
        s.discard()
        run.flush()
        path.with_suffix(".discarded").touch()
"""


def test_a_rank_that_has_ended_a_step_is_told_that_another_one_discards_it(
    place: Place, run_dir: Path
) -> None:
    for rank in place.ranks(2, sys.executable, "-c", DISCARDS, run_dir):
        ended(rank)


OWN_LOOP = """
import os, signal, sys, forebay as fb
with fb.open(sys.argv[1]) as run:
    rows = run.table("rows", {"step": "i64"}, history=True)
    energy = run.diagram("energy", "history")
    rows.insert((-7,))
    assert run.restart() is None
    for step in range(int(sys.argv[2])):
        rows.insert((step,))
        energy.append(0.1 * step, y=float(step))
    run.flush()
    if sys.argv[3] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_restart_before_the_first_snapshot_leaves_nothing_of_a_program_with_a_loop_of_its_own(
    place: Place, run_dir: Path
) -> None:
    for steps in ("12", "9"):
        ended(place.python(OWN_LOOP, run_dir, steps, "kill"), -signal.SIGKILL)
    place.run_python(OWN_LOOP, run_dir, "15", "end")
    with fb.open(run_dir, "r") as run:
        # What this life made before it went back is its own.
        assert [row["step"] for row in run.table("rows").select()] == [-7, *range(15)]
        assert [r["value"] for r in run.sql("select value from fb_points order by t")] == list(range(15))


LOOP = """
import os, signal, sys, numpy as np, forebay as fb
run, how, snapshots = fb.open(sys.argv[1]), sys.argv[2], sys.argv[3] == "kept"
snap = run.restart() if how == "restart" else None
rows = run.table("energy", {"step": "i8"}, history=True)
for step in run.steps(30, start=snap):
    if snapshots and step % 10 == 0 and step > 0:
        with run.snapshot(step) as s:
            s.put("E", np.full(10, float(step)))
        if how == "first" and step == 20:
            run.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    rows.insert({"step": step})
run.close()
"""


def test_rows_of_a_start_that_was_refused_go_when_one_goes_on(place: Place, run_dir: Path) -> None:
    ended(place.python(LOOP, run_dir, "first", "kept"), -signal.SIGKILL)
    for _ in range(2):
        out = "".join(ended(place.python(LOOP, run_dir, "again", "kept"), 1))
        assert "call restart() before the loop" in out and "energy" in out, out
        assert "Conflict" in out
    _, err = ended(place.python(LOOP, run_dir, "restart", "kept"))
    assert "rows" not in err
    with fb.open(run_dir, "r") as run:
        assert sorted(run.sql("select step from energy")["step"]) == list(range(30))
        told = run.sql("select text from fb_messages")["text"]
    assert sum("rows of that step or later ones in energy" in text for text in told) == 2


def test_who_begins_again_where_rows_are_is_told_and_loses_none(place: Place, run_dir: Path) -> None:
    _, err = ended(place.python(LOOP, run_dir, "first", "none"))
    assert err == ""
    for how in ("again", "restart"):
        _, err = ended(place.python(LOOP, run_dir, how, "none"))
        assert "the loop begins at step 0" in err and 'mode "w"' in err
    with fb.open(run_dir, "r") as run:
        assert sorted(run.sql("select step from energy")["step"]) == sorted(list(range(30)) * 3)


HELD = """
import sys, forebay as fb
run = fb.open(sys.argv[1])
rate = run.parameter("rate", 1.0)
run.flush()
for step in run.steps(2):
    print(step, flush=True)
    sys.stdin.readline()
run.close()
"""


def test_steer_that_gives_up_waiting_says_so_by_its_status(place: Place, run_dir: Path) -> None:
    program = place.python(HELD, run_dir, stdin=subprocess.PIPE)
    hear(program, "0")
    said = place.command("steer", run_dir, "set", "rate", "-2.5", "--timeout", "0.2", status=1)
    assert "it is not withdrawn" in said, said
    place.command("steer", run_dir, "set", "rate", "-3", "--timeout", "0")
    ended(program)


SETS_UP = """
import sys, forebay as fb
run = fb.open(sys.argv[1])
print("open", flush=True)
sys.stdin.readline()
print(len(list(run.steps(3))), run.ended_by, flush=True)
run.close()
"""


@pytest.mark.parametrize("keeper", ["embedded", "agent", "other host"])
def test_an_act_before_the_first_loop_waits_aloud_and_leaves_nothing_behind_when_it_is_given_up(
    place: Place, agent: Agent, run_dir: Path, keeper: str
) -> None:
    place.variables["FOREBAY_HOME"] = agent.place.variables["FOREBAY_HOME"]
    at = agent.place if keeper == "agent" else place
    where = agent.url(run_dir) if keeper == "other host" else run_dir
    for given_up in (True, False):
        program = at.python(SETS_UP, where, stdin=subprocess.PIPE)
        hear(program, "open")
        if given_up:
            said = at.command("steer", where, "end", "--timeout", "0.1", status=1)
            assert "nothing was asked of it" in said
            steer = at.forebay("steer", where, "end")
            assert steer.stderr is not None
            assert "the program has begun no loop yet" in steer.stderr.readline()
            steer.send_signal(signal.SIGINT)
            steer.communicate(timeout=30)
        else:
            said = at.command("steer", where, "end", "enough", "--timeout", "0")
            assert "is left for the first head" in said
            assert "next head of its loop" in at.command("steer", where, "stop", status=1)
        out, _ = program.communicate("\n", timeout=60)
        assert out == ("3 None\n" if given_up else "0 enough\n")


OWN = """
import os, signal, sys, forebay as fb
path, how = sys.argv[1:3]
run = fb.open(path, buffer="8MiB")
rows = run.table("rows", {"step": "i64", "rank": "i64"}, history=True)
history = run.diagram("plain", "history")
snap = run.restart()

@run.saves(every=1)
def keep(step):
    if how == "raise":
        raise RuntimeError("my own")
    with run.snapshot(step) as s:
        s.put("x", [step], offset=run.rank, shape=run.size)
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)

step = 0 if snap is None else snap.step
while True:
    if step == 6:
        run.finish()
    more = run.reach(step)
    rows.insert((step, run.rank))
    history.append(float(step), p=float(step))
    if not more:
        break
    step += 1
run.close()
"""


@pytest.mark.parametrize("first", ["nobody", "rank 1 alone"])
@pytest.mark.parametrize("how", ["raise", "kill"])
def test_a_run_whose_rank_ended_by_an_error_is_not_finished_and_begins_anew(
    place: Place, run_dir: Path, how: str, first: str
) -> None:
    # No snapshot is whole, so the next start makes all of it again.
    place.variables["FOREBAY_LATE_RANKS"] = "1"
    words = [sys.executable, "-c", OWN, run_dir]
    lonely = {"PMI_RANK": "1", "PMI_SIZE": "2"}
    if first == "rank 1 alone":
        ended(place.start(*words, "go on", env={**place.env, **lonely}), 1)
    one = place.start(*words, "go on", env={**place.env, **lonely, "PMI_RANK": "0"})
    other = place.start(*words, how, env={**place.env, **lonely})
    for rank in (one, other):
        rank.communicate(timeout=60)
        assert rank.returncode != 0
    for rank in place.ranks(2, *words, "go on"):
        ended(rank)
    with fb.open(run_dir, "r") as run:
        rows = run.table("rows").select()
        assert sorted(zip(rows["step"].tolist(), rows["rank"].tolist(), strict=True)) == [
            (step, rank) for step in range(7) for rank in range(2)
        ]
        assert [row["step"] for row in run.sql("select step from fb_points order by step")] == list(range(7))
