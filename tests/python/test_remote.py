"""Runs on another host: over TCP on loopback, with lines that are cut and processes that die."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from conftest import Agent, Place, until
from lines import Proxy, SlowLine
from places import ended, hear, stop


@pytest.fixture
def here(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process has the agent's key."""
    monkeypatch.setenv("FOREBAY_HOME", agent.place.variables["FOREBAY_HOME"])


def names(path: Path) -> dict[str, int]:
    """Data sets of a run and their versions, read where they are."""
    with fb.open(path, "r") as run:
        return {d.name: d.version for d in run.list()}


RANK = """
import sys, forebay as fb, numpy as np
url, rank, size, steps = sys.argv[1], *map(int, sys.argv[2:5])
with fb.open(url, rank=rank, size=size, buffer="8MiB") as run:
    p = run.parameter("k", 0)
    for step in run.steps(steps):
        with run.snapshot(step) as s:
            s.put("x", np.full(4096, float(rank)), offset=[rank * 4096], shape=[size * 4096])
            s.put("p", np.full(rank + 1, step), offset="append")
        if p.value:
            print("saw", p.value, "at", step, flush=True)
            break
print("done", flush=True)
"""


def test_ranks_of_other_hosts_and_of_this_one_make_one_step(agent: Agent, place: Place) -> None:
    path = agent.runs / "mixed.fb"
    home = {"FOREBAY_HOME": agent.place.variables["FOREBAY_HOME"]}
    far = {"env": {**place.env, **home}}
    ranks = [
        agent.place.python(RANK, path, "0", "3", "4"),
        place.python(RANK, agent.url(path), "1", "3", "4", **far),
        place.python(RANK, agent.url(path), "2", "3", "4", **far),
    ]
    for rank in ranks:
        ended(rank)
    with fb.open(path, "r") as run:
        assert run.snapshots.numbers == [0, 1, 2, 3]
        assert run.snapshots[-1]["x"][::4096].tolist() == [0.0, 1.0, 2.0]
        assert run.snapshots[-1]["p"].tolist() == [3] * 6


def step_of_its_run(agent: Agent) -> int:
    """The step that the one run of an agent has come to; 0 while there is none."""
    (run,) = json.loads(agent.place.command("status", "--json"))[0]["runs"] or [{"step": 0}]
    return int(run["step"] or 0)


def test_a_parameter_set_from_another_host_changes_at_the_same_step_in_all_ranks(
    agent: Agent, place: Place
) -> None:
    url = agent.url(agent.runs / "steered.fb")
    place.variables["FOREBAY_HOME"] = agent.place.variables["FOREBAY_HOME"]
    ranks = [place.python(RANK, url, str(rank), "3", "1000000") for rank in range(3)]

    until(lambda: step_of_its_run(agent) > 3, 30, "the third step")
    assert "step" in place.command("steer", url, "set", "k", "7")
    said = [rank.communicate(timeout=60) for rank in ranks]
    assert all(rank.returncode == 0 for rank in ranks), said
    assert len({out.splitlines()[0] for out, _ in said}) == 1, said
    assert said[0][0].startswith("saw 7 at ")


def test_an_opening_that_is_cut_at_any_byte_keeps_nobody_out(agent: Agent, place: Place) -> None:
    place.variables["FOREBAY_HOME"] = agent.place.variables["FOREBAY_HOME"]
    place.variables["FOREBAY_LINE_PATIENCE"] = "1"
    line = Proxy(agent.address)
    code = "import sys, forebay as fb\nfb.open(sys.argv[1], buffer='32MiB').close()"
    url = f"{line.address}/opened"
    assert place.python(code, url).wait(60) == 0
    whole = line.carried
    for cut in range(whole // 40, whole, max(1, whole // 16)):
        line.cut_after(cut)
        client = place.python(code, url)
        until(lambda: line.is_cut, 30, f"the cut after {cut} bytes")
        client.kill()
        client.communicate(timeout=30)
        line.heal()
    began = time.monotonic()
    ended(place.python(code, url), 0, 60)
    assert time.monotonic() - began < 10, "a seat was kept for a process that is gone"


@pytest.mark.usefixtures("here")
def test_a_reader_waits_while_its_line_is_cut(agent: Agent) -> None:
    path = agent.runs / "read.fb"
    with fb.open(path) as run:
        run.put("x", np.arange(1000.0))
    line = Proxy(agent.address)
    with fb.open(f"{line.address}/read", "r") as run:
        assert run["x"][7] == 7.0
        line.cut()
        heals = threading.Timer(1.0, line.heal)
        heals.start()
        assert run["x"][8] == 8.0
        heals.join()


@pytest.mark.usefixtures("here")
def test_a_line_that_is_cut_and_healed_loses_nothing_and_does_nothing_twice(agent: Agent) -> None:
    path = agent.runs / "cut.fb"
    line = Proxy(agent.address)
    with fb.open(f"{line.address}/cut", buffer="32MiB") as run:
        for i in range(600):
            run.put(f"small/{i:03}", float(i))
            if i % 100 == 50:
                with run.snapshot(i) as s:
                    s.put("f", np.full(200_000, float(i)))
                run.put(f"large/{i:03}", np.full(50_000, float(i)))
            if i in (120, 320, 520):
                line.cut()
            if i in (170, 370):
                line.heal()
        time.sleep(1.0)
        line.heal()
        run.flush()
        assert run.get("small/599") == 599.0
    line.close()
    versions = names(path)
    assert len(versions) == 606
    assert set(versions.values()) == {1}
    with fb.open(path, "r") as run:
        assert run.snapshots.numbers == [50, 150, 250, 350, 450, 550]
        assert all((run.snapshots.at(i)["f"] == i).all() for i in run.snapshots.numbers)
        assert all((run[f"large/{i:03}"] == i).all() for i in run.snapshots.numbers)


BESIDE = """
import os, sys, forebay as fb, numpy as np
with fb.open(sys.argv[1], buffer="16MiB") as run:
    with run.snapshot(1) as s:
        s.put("x", np.arange(100_000.0))
    run.flush()
    assert run.snapshots[-1]["x"][-1] == 99_999
    threads = [open(f"/proc/self/task/{task}/comm").read().strip() for task in os.listdir("/proc/self/task")]
    print(run.path, "over a line" if "fb-relay" in threads else "in shared memory")
with fb.open(sys.argv[1], "r") as run:
    print(run.path, len(run.snapshots))
"""


def test_a_run_named_by_the_address_of_this_host_is_written_through_shared_memory(
    agent: Agent, place: Place
) -> None:
    path = agent.runs / "beside.fb"
    said = ended(agent.place.python(BESIDE, agent.url(path)))[0]
    assert said == f"{path} in shared memory\n{path} 1\n"
    _, port = agent.address.rsplit(":", 1)
    said = ended(agent.place.python(BESIDE, f"fb://localhost:{port}/named"))[0]
    assert said.startswith(f"{agent.runs / 'named.fb'} in shared memory\n")
    # Another user of the agent's key, as a container with a runtime directory of its own: over the network.
    place.variables["FOREBAY_HOME"] = agent.place.variables["FOREBAY_HOME"]
    url = agent.url(agent.runs / "far.fb")
    assert ended(place.python(BESIDE, url))[0] == f"{url} over a line\n{url} 1\n"


KILLED = """
import sys, forebay as fb, numpy as np
run = fb.open(sys.argv[1], buffer="16MiB")
run.put("a", 1.0)
with run.snapshot(1) as s:
    s.put("f", np.ones(100_000))
run.flush()
torn = run.snapshot(2).__enter__()
torn.put("f", np.ones(100_000))
run.put("b", 2.0)
run.get("b")
print("ready", flush=True)
sys.stdin.read()
"""


def test_what_a_killed_program_had_sent_is_written_and_a_torn_step_is_not_listed(
    agent: Agent, place: Place
) -> None:
    path = agent.runs / "killed.fb"
    place.variables["FOREBAY_HOME"] = agent.place.variables["FOREBAY_HOME"]
    program = place.python(KILLED, agent.url(path), stdin=-1)
    hear(program, "ready")
    program.send_signal(signal.SIGKILL)
    program.wait()
    # Whoever opens it again sends what is left here first, which clears the segment.
    out = place.run_python(
        "import sys, forebay as fb\nwith fb.open(sys.argv[1]) as run: print(run.snapshots.numbers, run['b'])",
        agent.url(path),
    )
    assert out == "[1] 2.0\n"
    assert names(path) == {"a": 1, "b": 1}
    assert not place.segments()


LOST = """
import sys, forebay as fb, numpy as np
run = fb.open(sys.argv[1], buffer="32MiB")
run.put("before", 1.0)
run.flush()
print("ready", flush=True)
sys.stdin.readline()
for i in range(3):
    with run.snapshot(i) as s:
        s.put("f", np.full(200_000, float(i)))
    run.put(f"after/{i}", float(i))
print("written", flush=True)
sys.stdin.readline()
try:
    run.flush()
except fb.Error as e:
    print(type(e).__name__, e, flush=True)
"""


def write_to_the_stopped(agent: Agent, place: Place, path: Path) -> subprocess.Popen[str]:
    """A program that has written to a run there when this returns, and of whose last words nothing arrived."""
    program = place.python(LOST, agent.url(path), stdin=-1)
    assert program.stdin is not None
    hear(program, "ready")
    stop(agent.pid)
    program.stdin.write("\n")
    program.stdin.flush()
    hear(program, "written")
    return program


def test_a_dead_agent_is_a_clear_error_and_the_rest_is_sent_to_the_next_one(
    agent: Agent, place: Place
) -> None:
    path = agent.runs / "lost.fb"
    place.variables["FOREBAY_HOME"] = agent.place.variables["FOREBAY_HOME"]
    program = write_to_the_stopped(agent, place, path)
    agent.kill()
    until(lambda: not Path(f"/proc/{agent.pid}").exists(), what="the agent's end")
    began = time.monotonic()
    out, err = program.communicate("\n", timeout=30)
    assert time.monotonic() - began < 15, "the error took too long"
    assert out.startswith("ServerLost"), out + err
    assert "stays in shared memory" in out
    there = agent.address.replace("fb://", "tcp://")
    assert f"`forebay up --listen {there} --runs DIRECTORY`" in out, "where it listened, and no further"
    assert place.segments()
    agent.up()
    assert "the rest of 1 session was sent" in place.command("recover", agent.url(path))
    assert not place.segments()
    assert names(path) == {"before": 1, "after/0": 1, "after/1": 1, "after/2": 1}
    with fb.open(path, "r") as run:
        assert run.snapshots.numbers == [0, 1, 2]
        assert (run.snapshots[-1]["f"] == 2.0).all()


@pytest.mark.usefixtures("here")
def test_a_large_array_is_read_whole_and_in_part_with_little_memory_there(agent: Agent) -> None:
    big = np.arange(6_000_000.0).reshape(600, 10_000)
    with fb.open(agent.url(agent.runs / "big.fb"), buffer="96MiB") as run:
        run.put("big", big)
        run.put("fortran", np.asfortranarray(big[:200]))
        assert (run["big"] == big).all()
        assert (run["fortran"] == big[:200]).all()
        assert (run.get("big", sel=np.s_[3:500:7, 5:9]) == big[3:500:7, 5:9]).all()
        assert (run.get("big", sel=np.s_[-1]) == big[-1]).all()
        with pytest.raises(fb.BadArgument, match=r"another host.*read it"):
            run.map("big")
        with run.snapshot(0) as s:
            s.put("big", big)
        assert (run.snapshots[-1].get("big", sel=np.s_[:, 17]) == big[:, 17]).all()


@pytest.mark.usefixtures("here")
def test_many_small_sets_are_read_with_one_wait(agent: Agent) -> None:
    with fb.open(agent.url(agent.runs / "many.fb")) as run:
        for i in range(1000):
            run.put(f"n/{i}", [i, i + 1])
        found = run.get_many([f"n/{i}" for i in range(1000)])
        assert [a.tolist() for a in found] == [[i, i + 1] for i in range(1000)]
        with pytest.raises(fb.NotFound):
            run.get_many(["n/1", "nothing", "n/2"])
        assert run.get("n/5").tolist() == [5, 6]


def test_without_the_key_or_the_right_name_nothing_is_opened(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("home")
    home.chmod(0o700)
    monkeypatch.setenv("FOREBAY_HOME", str(home))
    with pytest.raises(fb.Error, match="rendezvous"):
        fb.open(f"{agent.address}/x")
    monkeypatch.setenv("FOREBAY_HOME", agent.place.variables["FOREBAY_HOME"])
    with pytest.raises(fb.NotFound):
        fb.open(f"{agent.address}/absent", "r")
    with pytest.raises(fb.BadArgument, match="no name of a run"):
        fb.open(f"{agent.address}/../outside")
    with pytest.raises(fb.BadArgument, match="names a host and no run"):
        fb.open(agent.address)
    assert os.listdir(agent.runs) == []


LOOPING = """
import sys, time, forebay as fb, numpy as np
field = np.ones(1 << 20)
with fb.open(sys.argv[1], buffer="24MiB") as run:
    run.put("ready", 1)
    for step in run.steps(1_000_000):
        if step == 0:
            began = time.monotonic()
            with run.snapshot(0) as s:
                s.put("field", field)
            print("snapshot", time.monotonic() - began, flush=True)
        print(step, time.monotonic(), flush=True)
        time.sleep(0.005)
"""


def test_stop_acts_at_once_while_a_snapshot_creeps_over_a_slow_line(agent: Agent, place: Place) -> None:
    path = agent.runs / "slow.fb"
    line = SlowLine(agent.address, rate=2.5e6, way=0.02)
    place.variables["FOREBAY_HOME"] = agent.place.variables["FOREBAY_HOME"]
    program = place.python(LOOPING, f"{line.address}/slow", stderr=None)
    assert program.stdout is not None
    word, seconds = program.stdout.readline().split()
    # The program waits for a copy, not for the seconds that the line takes.
    assert (word, float(seconds) < 3) == ("snapshot", True)
    for _ in range(30):
        program.stdout.readline()
    asked = time.monotonic()
    agent.place.command("steer", path, "stop")
    confirmed = time.monotonic()
    assert line.carried < 7 << 20, "the snapshot is there already, so nothing is shown"
    place.command("steer", f"{agent.address}/slow", "quit")
    said = program.stdout.read().split("\n")
    times = [float(at) for _, at in (words.split() for words in said if words)]
    last = max(t for t in times if t < confirmed)
    assert last - asked < 2, "the loop went on for too long"
    assert confirmed - asked < 4, "the act was confirmed too late"
    assert program.wait(40) == 0
    line.close()
    with fb.open(path, "r") as run:
        assert run.snapshots.numbers == [0]
        assert (run.snapshots[0]["field"] == 1.0).all()
    print(f"held {last - asked:.3f} s, confirmed {confirmed - asked:.3f} s after the act was asked for")


@pytest.mark.usefixtures("here")
def test_the_figures_that_a_rank_counts_itself_are_shown_at_the_stores_host(agent: Agent) -> None:
    field = np.ones(500_000)

    def figures() -> dict[str, float]:
        (run,) = json.loads(agent.place.command("status", "--json"))[0]["runs"]
        found: dict[str, float] = run["figures"]
        return found

    with fb.open(agent.url(agent.runs / "told.fb"), buffer="16MiB") as run:
        with run.snapshot(0) as s:
            s.put("field", field)
        run.flush()
        until(lambda: figures()["high_water_bytes"] >= field.nbytes, 20, "the most that lay in the buffer")
        until(lambda: figures()["ideal_s"] > 0, 20, "the time of a plain copy")
        assert figures()["visible_s"] >= figures()["ideal_s"]


# Embedded, so that nobody has the run open when the process has ended.
MAKE = """
import sys, forebay as fb
with fb.open(sys.argv[1]) as run:
    run.put("x", 1)
"""


@pytest.mark.usefixtures("here")
def test_two_copies_of_a_run_are_written_at_the_same_time(agent: Agent, place: Place) -> None:
    one, other = agent.runs / "one.fb", agent.runs / "other.fb"
    place.run_python(MAKE, one)
    shutil.copytree(one, other)
    with fb.open(agent.url(one), buffer="8MiB") as a, fb.open(agent.url(other), buffer="8MiB") as b:
        for run, value in ((a, 1.0), (b, 2.0)):
            run.put("which", value)
            with run.snapshot(0) as s:
                s.put("f", np.full(100_000, value))
        assert (a["which"], b["which"]) == (1.0, 2.0)
    for path, value in ((one, 1.0), (other, 2.0)):
        with fb.open(path, "r") as run:
            assert (run["x"], run["which"]) == (1, value)
            assert (run.snapshots[0]["f"] == value).all()


def test_the_rest_of_a_copy_of_a_run_is_not_sent_to_another_copy(agent: Agent, place: Place) -> None:
    one, other = agent.runs / "one.fb", agent.runs / "other.fb"
    place.variables["FOREBAY_HOME"] = agent.place.variables["FOREBAY_HOME"]
    place.run_python(MAKE, one)
    shutil.copytree(one, other)
    # The second session of one copy is cut off, that of the other one is over.
    program = write_to_the_stopped(agent, place, one)
    program.kill()
    program.wait()
    agent.kill()
    until(lambda: not Path(f"/proc/{agent.pid}").exists(), what="the agent's end")
    agent.up()
    agent.place.run_python(MAKE, other)
    assert "nothing" in place.command("recover", agent.url(other))
    assert place.segments()
    assert "the rest of 1 session was sent" in place.command("recover", agent.url(one))
    assert not place.segments()
    assert names(other) == {"x": 2}
    assert set(names(one)) == {"x", "before", "after/0", "after/1", "after/2"}


OPENING = """
import sys, time, forebay as fb
print("opening", flush=True)
try:
    fb.open(sys.argv[1])
except KeyboardInterrupt:
    print("interrupted at", time.monotonic(), flush=True)
"""


@pytest.mark.parametrize("where", ["here", "there"])
def test_ctrl_c_ends_the_wait_for_a_stopped_agent_at_once(agent: Agent, place: Place, where: str) -> None:
    path = agent.runs / "waiting.fb"
    place.variables["FOREBAY_HOME"] = agent.place.variables["FOREBAY_HOME"]
    stop(agent.pid)
    try:
        at = (agent.place, path) if where == "here" else (place, agent.url(path))
        program = at[0].python(OPENING, at[1])
        hear(program, "opening")
        # It waits for the agent's greeting: all that comes from there is a connection that was taken.
        until(lambda: waits_in(program.pid), 20, "the wait")
        pressed = time.monotonic()
        program.send_signal(signal.SIGINT)
        out, err = program.communicate(timeout=60)
        assert out.startswith("interrupted at "), out + err
        assert float(out.split()[-1]) - pressed < 1.5
    finally:
        os.kill(agent.pid, signal.SIGCONT)


def waits_in(pid: int) -> bool:
    """Whether a process has a thread that does Forebay's work for a waiting one."""
    names = Path(f"/proc/{pid}/task").glob("*/comm")
    return any(name.read_text().strip() == "fb-work" for name in names)


def test_a_rank_that_begins_when_the_others_are_through_sees_the_parameter_at_their_step(
    agent: Agent,
) -> None:
    path = agent.runs / "late.fb"
    first = agent.place.python(RANK, path, "0", "2", "1000000")
    until(lambda: step_of_its_run(agent) > 3, 30, "the third step of the first rank")
    assert "step" in agent.place.command("steer", path, "set", "k", "7")
    assert first.stdout is not None
    saw = first.stdout.readline()
    assert saw.startswith("saw 7 at ")
    assert ended(agent.place.python(RANK, path, "1", "2", "1000000"))[0] == f"{saw}done\n"
    assert ended(first)[0] == "done\n"


@pytest.mark.usefixtures("here")
def test_a_reader_whose_line_was_cut_while_the_run_was_begun_anew_is_told(agent: Agent) -> None:
    path = agent.runs / "anew.fb"
    line = Proxy(agent.address)
    with fb.open(path, "w") as run:
        run.put("x", 1)
    with fb.open(f"{line.address}/anew", "r") as held:
        assert held.get("x") == 1
        line.cut()
        line.heal()
        assert held.get("x") == 1, "the run is the same"
        with fb.open(path, "w") as run:
            run.put("x", 2)
        line.cut()
        line.heal()
        for _ in range(2):
            with pytest.raises(fb.Conflict, match=r"begun anew.*; open it again"):
                held.get("x")
    line.close()
