"""Steps that lack a rank on another host: what is here of them is kept, and its rest makes them whole."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from conftest import Agent, Place, until
from lines import SlowLine
from places import ended, hear

STEPS = 12
RANK = """
import sys, forebay as fb, numpy as np
url, rank, size = sys.argv[1], *map(int, sys.argv[2:4])
try:
    with fb.open(url, rank=rank, size=size, buffer="64MiB") as run:
        run.parameter("k", 7)
        for step in range(12):
            with run.snapshot(step, time=0.5 * step) as s:
                for first in (rank * 40_000, rank * 40_000 + 10_000):
                    block = np.full(10_000 if first % 40_000 == 0 else 30_000, 100.0 * step + rank)
                    s.put("x", block, offset=[first], shape=[size * 40_000], units="m")
                s.put("p", np.full((rank + 1) * 10, float(step)), offset="append")
                ids = np.arange(2000)[::-1] * size + rank
                s.particles("e", ids + 0.5 * step, id=ids, offset="append", sort_by="id")
                if rank == 0:
                    s.put("whole/n", np.arange(3.0))
            run.put(f"small/{rank}/{step}", float(step))
            if rank == size - 1:
                run.put(f"large/{rank}/{step}", np.full(9000, float(step)))
        print("ended", flush=True)
        sys.stdin.readline()
    print("closed", flush=True)
except fb.Error as e:
    print("heard", e, flush=True)
"""


def steps_are_whole(path: Path, ranks: int) -> None:
    with fb.open(path, "r") as run:
        assert run.snapshots.numbers == list(range(STEPS))
        for step in range(STEPS):
            kept = run.snapshots.at(step)
            assert kept.time == 0.5 * step
            assert kept["x"][::40_000].tolist() == [100.0 * step + rank for rank in range(ranks)]
            assert kept["x"].shape == (40_000 * ranks,)
            assert kept["p"].shape == (10 * sum(range(1, ranks + 1)),)
            assert (kept["p"] == step).all()
            assert (kept["e/id"] == np.arange(2000 * ranks)).all()
            assert (kept["e/position"] == kept["e/id"] + 0.5 * step).all()
            assert kept["whole/n"].tolist() == [0.0, 1.0, 2.0]
        for rank in range(ranks):
            for step in range(STEPS):
                assert run.get(f"small/{rank}/{step}") == step
        for step in range(STEPS):
            assert (run[f"large/{ranks - 1}/{step}"] == step).all()
    assert not [n for n in os.listdir(path / "steps") if not n.endswith(".h5")]


def partial(place: Place, path: Path) -> list[int]:
    return [row["step"] for row in json.loads(place.command("ls", str(path), "--json"))["partial_steps"]]


def kill(program: subprocess.Popen[str]) -> None:
    program.send_signal(signal.SIGKILL)
    program.wait()


def lost_behind_a_slow_line(agent: Agent, place: Place, name: str) -> tuple[Path, subprocess.Popen[str]]:
    """Two ranks have ended all steps, and the far one dies with its line; gives the run and the other rank."""
    path = agent.runs / f"{name}.fb"
    place.variables["FOREBAY_HOME"] = agent.place.variables["FOREBAY_HOME"]
    line = SlowLine(agent.address, 400_000, 0.01)
    near = agent.place.python(RANK, path, "0", "2", stdin=-1)
    far = place.python(RANK, f"{line.address}/{name}", "1", "2", stdin=-1)
    hear(near, "ended")
    hear(far, "ended")
    kill(far)
    line.close()
    return path, near


def test_steps_that_lack_a_rank_behind_a_lost_line_become_whole_when_its_rest_is_brought(
    agent: Agent, place: Place
) -> None:
    path, near = lost_behind_a_slow_line(agent, place, "lost")
    assert near.stdin is not None
    near.stdin.write("\n")
    near.stdin.flush()
    out, _ = near.communicate(timeout=60)
    assert "is not whole" in out and "forebay recover" in out, out
    lacking = partial(agent.place, path)
    with fb.open(path, "r") as run:
        assert sorted([*run.snapshots.numbers, *lacking]) == list(range(STEPS)), "none is thrown away"
    assert len(lacking) > 2, "the line was not slow"
    said = agent.place.command("ls", str(path))
    assert "rank 1" in said and "forebay recover" in said, said
    said = agent.place.command("verify", str(path))
    assert "sound" in said and "rank 1" in said, said
    # The ranks that are here have no memory in use for that.
    until(lambda: not agent.place.segments(), what="the end of what is in memory here")
    assert place.segments()
    assert "the rest of 1 session was sent" in place.command("recover", agent.url(path))
    assert not place.segments()
    assert partial(agent.place, path) == []
    steps_are_whole(path, 2)
    assert "sound" in agent.place.command("verify", str(path))


def test_ranks_of_two_hosts_bring_their_rests_one_after_the_other(agent: Agent, place: Place) -> None:
    path = agent.runs / "two.fb"
    place.variables["FOREBAY_HOME"] = agent.place.variables["FOREBAY_HOME"]
    other = Place()
    other.variables["FOREBAY_HOME"] = agent.place.variables["FOREBAY_HOME"]
    line = SlowLine(agent.address, 400_000, 0.01)
    ranks = [
        agent.place.python(RANK, path, "0", "3", stdin=-1),
        place.python(RANK, f"{line.address}/two", "1", "3", stdin=-1),
        other.python(RANK, f"{line.address}/two", "2", "3", stdin=-1),
    ]
    for rank in ranks:
        hear(rank, "ended")
    kill(ranks[1])
    kill(ranks[2])
    line.close()
    ranks[0].communicate("\n", timeout=60)
    lacking = partial(agent.place, path)
    assert len(lacking) > 2
    place.command("recover", agent.url(path))
    assert len(partial(agent.place, path)) > 2, "they lack another rank still"
    assert not place.segments()
    other.command("recover", agent.url(path))
    assert not other.segments()
    steps_are_whole(path, 3)


def test_a_run_that_goes_back_needs_no_rest_and_the_next_opening_clears_it(
    agent: Agent, place: Place
) -> None:
    path, near = lost_behind_a_slow_line(agent, place, "back")
    near.communicate("\n", timeout=60)
    assert len(partial(agent.place, path)) > 2
    back = "import sys, forebay as fb\nwith fb.open(sys.argv[1], rank=0, size=1) as run: print(run.restart())"
    ended(agent.place.python(back, path))
    assert partial(agent.place, path) == []
    assert not [n for n in os.listdir(path / "steps") if "partial" in n]
    place.command("recover", agent.url(path))
    assert not place.segments()
    assert "sound" in agent.place.command("verify", str(path))


START = """
import sys, forebay as fb, numpy as np
place, rank, start, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
run = fb.open(place, "a", rank=rank, size=2, buffer="16MiB")
rows = run.table("h", {"rank": "i64", "step": "i64"}, history=True)
found = run.restart()
print("from", found and found.step, flush=True)
for step in run.steps(1000, start=found):
    with run.snapshot(step) as s:
        s.put("x", np.full(10_000, start), offset=10_000 * rank, shape=20_000)
    rows.insert((rank, step))
    if str(step) == pause:
        print("there", flush=True)
        sys.stdin.readline()
        break
run.close()
print("closed", flush=True)
"""


def test_all_ranks_go_on_from_one_step_and_no_step_has_parts_of_two_starts(
    agent: Agent, place: Place
) -> None:
    path = agent.runs / "starts.fb"
    place.variables["FOREBAY_HOME"] = agent.place.variables["FOREBAY_HOME"]

    def ranks(start: int, pauses: tuple[int, int]) -> list[subprocess.Popen[str]]:
        places = [(agent.place, str(path)), (place, agent.url(path))]
        return [
            where.python(START, name, str(rank), str(start), str(pauses[rank]), stdin=-1)
            for rank, (where, name) in enumerate(places)
        ]

    first = ranks(1, (4, 40))
    for rank in first:
        hear(rank, "from None")
        hear(rank, "there")
    with fb.open(path, "r") as run:
        until(lambda: run.snapshots.numbers == list(range(5)), what="what both ranks have ended")
    for rank in first:
        kill(rank)
    # Rank 0 is here before anybody knows what became of the far one, which was ahead.
    second = ranks(2, (60, 60))
    for rank in second:
        hear(rank, "from 4")
        hear(rank, "there")
    for rank in second:
        assert rank.communicate("\n", timeout=60)[0] == "closed\n"
    with fb.open(path, "r") as run:
        assert run.snapshots.numbers == list(range(61))
        for step in range(61):
            x = run.snapshots.at(step)["x"]
            assert x[0] == x[-1] == (1 if step < 5 else 2), step
        kept = run.table("h").select()
        rows = sorted(zip(kept["rank"].tolist(), kept["step"].tolist(), strict=True))
        assert rows == [(rank, step) for rank in (0, 1) for step in range(61)]
    assert not place.segments()
    assert "sound" in agent.place.command("verify", str(path))


@pytest.mark.skipif(os.environ.get("FOREBAY_LATE_RESTS") != "all", reason="waits a minute; make deep")
def test_a_rest_that_comes_when_the_next_start_is_under_way_joins_nothing_of_it(
    agent: Agent, place: Place
) -> None:
    path = agent.runs / "late.fb"
    other = Place()
    for where in (place, other):
        where.variables["FOREBAY_HOME"] = agent.place.variables["FOREBAY_HOME"]
    near = agent.place.python(START, path, "0", "1", "4", stdin=-1)
    far = place.python(START, agent.url(path), "1", "1", "40", stdin=-1)
    for rank in (near, far):
        hear(rank, "from None")
        hear(rank, "there")
    with fb.open(path, "r") as run:
        until(lambda: run.snapshots.numbers == list(range(5)), what="what both ranks have ended")
    kill(far)
    kill(near)
    # The run goes back without it; where it was, the rest is brought by hand, and the rank goes on from another host.
    near = agent.place.python(START, path, "0", "2", "20", stdin=-1)
    hear(near, "from 4")
    assert "the rest of 1 session was sent" in place.command("recover", agent.url(path))
    far = other.python(START, agent.url(path), "1", "2", "20", stdin=-1)
    hear(far, "from 4")
    for rank in (near, far):
        hear(rank, "there")
    for rank in (near, far):
        assert rank.communicate("\n", timeout=60)[0] == "closed\n"
    with fb.open(path, "r") as run:
        assert run.snapshots.numbers == list(range(21))
        assert all(run.snapshots.at(step)["x"][-1] == (1 if step < 5 else 2) for step in range(21))
        assert len(run.table("h").select()["step"]) == 42
    other.close()
    assert not place.segments()
