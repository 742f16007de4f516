"""`fork` after `open`: the child is told, and neither its work nor its end harms the parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from conftest import Agent, Place, until
from far import hidden_sockets
from libraries import client_at, compiled

BEGIN = """
import multiprocessing, os, sys
import numpy as np
import forebay as fb

def attempt(what, f):
    try:
        f()
    except fb.Error as error:
        print(what, type(error).__name__, str(error), flush=True)
    else:
        print(what, "worked", flush=True)

if "agent" in sys.argv:
    fb.connect()
run = fb.open(sys.argv[1])
run.put("x", np.arange(50_000.0))
d = run.diagram("Energy", "history")
snapshot = run.snapshot(0)
snapshot.put("E", np.arange(1000.0))
"""

GO_ON = """
snapshot.put("B", np.arange(2000.0))
snapshot.end()
for step in range(1, 4):
    with run.snapshot(step) as s:
        s.put("E", np.full(1000, float(step)))
    d.append(float(step), E=1.0)
    run.put("y", np.full(3, step))
run.close()
"""


def whole(run_dir: Path) -> None:
    """The parent's run, with all it wrote before and after the child."""
    with fb.open(run_dir, "r") as run:
        assert run.snapshots.numbers == [0, 1, 2, 3]
        assert run.snapshots.at(0)["B"].sum() == 1_999_000.0
        assert run.snapshots.at(3)["E"].sum() == 3000.0
        assert run["x"].sum() == np.arange(50_000.0).sum()
        assert list(run["y"]) == [3, 3, 3]


@pytest.mark.parametrize("keeper", ["embedded", "agent", "other host"])
def test_a_child_that_ends_in_order_harms_nothing(
    place: Place, agent: Agent, run_dir: Path, keeper: str
) -> None:
    child = """
pid = os.fork()
if pid == 0:
    attempt("put", lambda: run.put("z", 1.0))
    attempt("get", lambda: run.get("x"))
    attempt("snapshot", lambda: snapshot.put("B", np.zeros(3)))
    attempt("begin", lambda: run.snapshot(7))
    attempt("flush", run.flush)
    attempt("steps", lambda: next(iter(run.steps(3))))
    attempt("append", lambda: d.append(9.0, E=9.0))
    attempt("close", run.close)
    own = fb.open(sys.argv[1] + ".child")
    own["x"] = 2.0
    own.close()
    # Everything that an interpreter does at its end: destructors and handlers of exit.
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
"""
    where = agent.url(run_dir) if keeper == "other host" else str(run_dir)
    place.variables["FOREBAY_HOME"] = agent.place.variables["FOREBAY_HOME"]
    out = place.run_python(BEGIN + child + GO_ON, where, keeper)
    told = dict(line.split(" ", 1) for line in out.splitlines())
    assert set(told) == {"put", "get", "snapshot", "begin", "flush", "steps", "append", "close"}, out
    for what in ("put", "snapshot", "begin", "flush", "steps"):
        assert told[what].startswith("Closed ") and "open the run after forking" in told[what], out
    whole(run_dir)
    with fb.open(f"{run_dir}.child", "r") as own:
        assert own["x"] == 2.0


LOOP = """
import os, sys
import numpy as np
import forebay as fb

if "agent" in sys.argv:
    fb.connect()
run = fb.open(sys.argv[1])

@run.saves(every=5)
def keep(step):
    with run.snapshot(step) as s:
        s.put("u", np.full(3, float(step)))

pid = None
try:
    for step in run.steps(60):
        if step == 11 and pid is None:
            with run.snapshot(step) as s:
                part = s.allocate("u", 1000, "f8")
                pid = os.fork()
                if pid == 0:
                    CHILD
                assert os.waitpid(pid, 0)[1] == 0
                part[:] = 11.0
            del part
except fb.Closed as error:
    sys.exit(pid != 0 or "after forking" not in str(error))
if pid == 0:
    sys.exit(BEHIND)
assert pid
run.close()
"""


# What the child does in the body, and how it ends if it comes behind the loop.
@pytest.mark.parametrize(
    ("child", "behind"), [("sys.exit(0)", "1"), ("s.discard(); break", "0"), ("s.discard(); continue", "1")]
)
@pytest.mark.parametrize("keeper", ["embedded", "agent"])
def test_a_child_made_in_the_loop_leaves_it_as_it_likes_and_harms_nothing(
    place: Place, agent: Agent, run_dir: Path, keeper: str, child: str, behind: str
) -> None:
    code = LOOP.replace("CHILD", child).replace("BEHIND", behind)
    own = agent.place if keeper == "agent" else place
    own.run_python(code, run_dir, keeper)
    with fb.open(run_dir, "r") as run:
        assert run.snapshots.numbers == sorted([*range(0, 61, 5), 11])
        assert run.snapshots.at(11)["u"].sum() == 11_000.0


@pytest.mark.parametrize("keeper", ["embedded", "agent"])
def test_workers_of_multiprocessing_harm_nothing(place: Place, run_dir: Path, keeper: str) -> None:
    workers = """
def work(n):
    try:
        run.put(f"z{n}", 1.0)
    except fb.Closed:
        return n * n
    return -1

with multiprocessing.get_context("fork").Pool(3) as pool:
    assert pool.map(work, range(20)) == [n * n for n in range(20)]
"""
    place.run_python(BEGIN + workers + GO_ON, run_dir, keeper)
    whole(run_dir)


def test_a_child_that_is_killed_or_outlives_its_parent_harms_nothing(place: Place, run_dir: Path) -> None:
    children = """
import signal, time
killed = os.fork()
if killed == 0:
    time.sleep(60)
os.kill(killed, signal.SIGKILL)
os.waitpid(killed, 0)
wait, go = os.pipe()
if os.fork() == 0:
    os.close(go)
    os.read(wait, 1)
    attempt("late", lambda: run.put("z", 1.0))
    sys.exit(0)
os.close(wait)
"""
    out = place.run_python(BEGIN + children + GO_ON, run_dir)
    assert "late Closed" in out, out
    whole(run_dir)


def test_the_child_of_a_client_is_told_and_the_parent_calls_on(place: Place, tmp_path: Path) -> None:
    service = tmp_path / "service.py"
    service.write_text(
        "import forebay as fb\n@fb.service('inout x:f64[n]')\ndef twice(x):\n    x *= 2\n", encoding="utf-8"
    )
    server = place.serve(service)
    code = """
import os, sys, time
import numpy as np
import forebay as fb
c = fb.connect()
x = np.ones(100_000)
until = time.monotonic() + 20
while "twice" not in list(c.services) and time.monotonic() < until:
    time.sleep(0.01)
c.call("twice", x)
pending = c.call_async("twice", x)
pid = os.fork()
if pid == 0:
    try:
        c.call("twice", np.ones(3))
    except fb.Closed as error:
        print("child", error, flush=True)
    own = fb.connect()
    y = np.ones(3)
    own.call("twice", y)
    print("own", y.sum(), flush=True)
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
pending.wait()
c.call("twice", x)
assert x.sum() == 800_000.0
"""
    out = place.run_python(code)
    assert "child" in out and "connect again after fork" in out and "own 6.0" in out, out
    assert server.poll() is None


CALLING = """
import os, sys
import forebay as fb

def attempt(what, f):
    try:
        print(what, f(), flush=True)
    except fb.Error as error:
        print(what, type(error).__name__, str(error), flush=True)

# Opened for reading, a named pipe waits for somebody who writes: the first service runs until then.
gate = sys.argv[1]
os.mkfifo(gate)
c = fb.connect(wait=20)
running = c.call_async("wait_at", gate, 1.0)
queued = c.call_async("twice", 2.0)
waited = c.call_async("twice", 3.0)
pid = os.fork()
if pid == 0:
    IN_THE_CHILD
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
with open(gate, "w"):
    assert running.wait(timeout=60) == 2.0
assert [queued.wait(timeout=60), waited.wait(timeout=60)] == [4.0, 6.0]
assert c.call("twice", 4.0, timeout=60) == 8.0
"""

IN_THE_CHILD = {
    "ends": "",
    "drops them": "del running, queued, waited, c",
    "waits": """
    attempt("wait", running.wait)
    attempt("again", running.wait)
    attempt("all", lambda: fb.wait_all([running, queued, waited]))
    attempt("any", lambda: fb.wait_any([queued, waited]))
    attempt("queued", queued.wait)""",
    "cancels": """
    attempt("done", queued.done)
    attempt("cancel", queued.cancel)
    attempt("cancelled", queued.wait)
    attempt("all", lambda: fb.cancel_all([running, waited]))
    attempt("probe", lambda: fb.probe_any([waited]))
    attempt("waited", waited.wait)""",
    "asks": """
    attempt("services", lambda: len(c.services))
    attempt("signature", lambda: c.services.twice.signature)
    attempt("notify", lambda: c.notify(queued, print))
    attempt("array", lambda: c.put([1.0, 2.0]))""",
}


@pytest.mark.parametrize("where", ["here", "on another host"])
@pytest.mark.parametrize("does", list(IN_THE_CHILD))
def test_a_child_leaves_the_calls_of_its_parent_alone(
    place: Place, agent: Agent, tmp_path: Path, does: str, where: str
) -> None:
    service = tmp_path / "service.py"
    service.write_text(
        "import forebay as fb\n"
        "@fb.service('in gate:str, in x:f64, out y:f64')\ndef wait_at(gate, x):\n    open(gate).close()\n    return 2 * x\n"
        "@fb.service('in x:f64, out y:f64')\ndef twice(x):\n    return 2 * x\n",
        encoding="utf-8",
    )
    code = CALLING.replace("IN_THE_CHILD", IN_THE_CHILD[does])
    if where == "here":
        place.serve(service)
        out = place.run_python(code, tmp_path / "gate")
    else:
        words = (sys.executable, "-m", "forebay", "serve", service, "--listen", "tcp://127.0.0.1:0")
        server = agent.place.start(*words, "--stop-with-stdin", stdin=subprocess.PIPE)
        assert server.stderr is not None and "wait_at, twice offered" in server.stderr.readline()
        place.variables["FOREBAY_HOME"] = agent.place.variables["FOREBAY_HOME"]
        place.variables["FOREBAY_BROKER"] = agent.address
        with hidden_sockets(agent.place, server.pid):
            out = place.run_python(code, tmp_path / "gate")
    told = dict(line.split(" ", 1) for line in out.splitlines())
    for what in (
        "wait",
        "again",
        "queued",
        "cancelled",
        "waited",
        "services",
        "signature",
        "notify",
        "array",
    ):
        if what in told:
            assert "Closed" in told[what], out
    assert (
        told.get("any", "0") == "0" and told.get("probe", "0") == "0" and told.get("done", "True") == "True"
    ), out


def test_a_child_leaves_notifications_and_the_server_of_its_parent_alone(place: Place) -> None:
    code = """
import os, sys, threading
from forebay._services import serve_until_stopped
import forebay as fb

@fb.service("in x:f64, out y:f64")
def gate(x):
    may_go_on.wait()
    return 2 * x

may_go_on, told = threading.Event(), threading.Event()
server = fb.Server(gate, name="gates")
serving = threading.Thread(target=serve_until_stopped, args=(server,))
serving.start()
c = fb.connect(wait=20)
pending = c.call_async("gate", 1.0, notify=lambda call: told.set())
pid = os.fork()
if pid == 0:
    server.stop()
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
may_go_on.set()
assert told.wait(60) and pending.wait() == 2.0
assert serving.is_alive() and c.call("gate", 2.0) == 4.0
server.stop()
serving.join(60)
assert not serving.is_alive()
"""
    place.run_python(code)


def test_children_that_outlive_a_killed_program_do_not_keep_its_run(place: Place, run_dir: Path) -> None:
    orphan = """
import signal, time
snapshot.end()
if os.fork() == 0:
    print(os.getpid(), flush=True)
    time.sleep(300)
os.wait()
"""
    process = place.python(BEGIN + orphan, run_dir)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    process.kill()
    process.wait()
    try:
        for n in range(3):
            with fb.open(run_dir) as run:
                snap = run.restart()
                assert snap is not None and snap.step == 0
                assert run["x"].sum() == np.arange(50_000.0).sum()
                run["again"] = n
        os.kill(child, 0)
    finally:
        os.kill(child, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{child}").exists(), what="the end of the child")


FORKS = """
import os, sys, time
import forebay as fb

@fb.service("in how:str, out pid:i64")
def forks(how):
    child = os.fork()
    if child == 0:
        print("a line of the child", flush=False)
        if how == "raise":
            raise RuntimeError("of the child")
        if how == "exit":
            sys.exit(3)
        if how == "stay":
            time.sleep(600)
        return -1
    if how == "stay":
        return child
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)

@fb.service("out pid:i64")
def who():
    return os.getpid()
"""


def test_a_child_that_comes_out_of_a_service_ends_and_answers_nobody(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled(
        tmp_path,
        "#include <errno.h>\n#include <stdint.h>\n#include <stdlib.h>\n#include <sys/wait.h>\n#include <unistd.h>\n"
        "int32_t comes_out(int32_t n)\n{\n    int status;\n    pid_t child = fork();\n"
        "    if (child == 0) return -1;\n    if (waitpid(child, &status, 0) < 0) return -errno;\n    return n + status;\n}\n",
    )
    (tmp_path / "own.fbi").write_text(
        'fbi 1\nset convention c\nset library "./libown.so"\ncomes_out(n:i32) -> i32\n'
    )
    (tmp_path / "forks.py").write_text(FORKS)
    place.forebay("serve", "--idl", "own.fbi", cwd=tmp_path)
    server = place.forebay("serve", tmp_path / "forks.py", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    client = client_at(place, monkeypatch)
    pid = client.call("who")
    for how, status in [("return", 0), ("raise", 1), ("exit", 3)] * 2:
        assert client.call("forks", how, timeout=20) == status
        assert {client.call("who") for _ in range(20)} == {pid}
    assert client.call("comes_out", 5, timeout=20) == 5
    server.terminate()
    out, err = server.communicate(timeout=20)
    assert out.splitlines() == ["a line of the child"] * 6
    assert err.count("RuntimeError: of the child") == 2


def test_a_server_that_is_killed_while_a_child_of_it_lives_is_found_dead_at_once(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "forks.py").write_text(FORKS)
    server = place.forebay("serve", tmp_path / "forks.py", cwd=tmp_path)
    client = client_at(place, monkeypatch)
    child = client.call("forks", "stay", timeout=20)
    hasty = fb.connect()
    assert "who" in hasty.services
    server.kill()
    server.wait()
    # The child has the listening socket of its parent, and nobody answers there.
    began = time.monotonic()
    with pytest.raises((fb.ServerLost, fb.NoServer)):
        hasty.call("who")
    assert time.monotonic() - began < 10
    os.kill(child, signal.SIGKILL)
