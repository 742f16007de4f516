"""`fork` after `open`: the child is told, and neither its work nor its end harms the parent."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from conftest import Place, until

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


@pytest.mark.parametrize("keeper", ["embedded", "agent"])
def test_a_child_that_ends_in_order_harms_nothing(place: Place, run_dir: Path, keeper: str) -> None:
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
    out = place.run_python(BEGIN + child + GO_ON, run_dir, keeper)
    told = dict(line.split(" ", 1) for line in out.splitlines())
    assert set(told) == {"put", "get", "snapshot", "begin", "flush", "steps", "append", "close"}, out
    for what in ("put", "snapshot", "begin", "flush", "steps"):
        assert told[what].startswith("Closed ") and "open the run after forking" in told[what], out
    whole(run_dir)
    with fb.open(f"{run_dir}.child", "r") as own:
        assert own["x"] == 2.0


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
