"""Bad things that must end well: in runs, seen from Python."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from conftest import Place, until
from places import ended, forebay_exe, stop

WRITER = """
import sys, time, numpy, forebay
run = forebay.open(sys.argv[1], buffer="16MiB")
print("open", flush=True)
step = 0
for step in run.steps(1_000_000):
    with run.snapshot(step) as s:
        s.put("a", numpy.full(20_000, step))
        if step == int(sys.argv[2]):
            print("between", flush=True)
            time.sleep(60)
        s.put("b", numpy.full(20_000, -step))
    if step % 10 == 0:
        print(step, flush=True)
    time.sleep(0.002)
"""


def line(process: object) -> str:
    out = process.stdout  # type: ignore[attr-defined]
    return str(out.readline()).strip()


def complete(run: fb.Run) -> list[int]:
    """The steps, each checked to be whole."""
    for kept in run.snapshots:
        assert (kept["a"] == kept.step).all()
        assert (kept["b"] == -kept.step).all()
    return run.snapshots.numbers


def test_a_client_killed_between_two_puts_leaves_the_earlier_steps(place: Place, run_dir: Path) -> None:
    process = place.python(WRITER, run_dir, "7")
    assert [line(process) for _ in range(3)] == ["open", "0", "between"]
    process.kill()
    process.wait()
    with fb.open(run_dir) as run:
        assert complete(run) == list(range(7))
        back = run.restart()
        assert back is not None
        assert back.step == 6


def test_a_client_killed_anywhere_leaves_whole_steps(place: Place, run_dir: Path) -> None:
    for round_ in range(3):
        process = place.python(WRITER, run_dir.with_name(f"r{round_}.fb"), "-1")
        until(lambda p=process: line(p) == "10")  # type: ignore[misc]
        time.sleep(0.013 * round_)
        process.kill()
        process.wait()
        with fb.open(run_dir.with_name(f"r{round_}.fb")) as run:
            steps = complete(run)
            assert steps == list(range(len(steps)))
            assert len(steps) >= 11


def agent_and_writer(place: Place, run_dir: Path) -> tuple[int, subprocess.Popen[str]]:
    """The process id of the agent, and a program that writes a run under it, ten steps on."""
    place.command("up")
    status = place.command("status", "--json")
    process = place.python(WRITER, run_dir, "-1")
    until(lambda: line(process) == "10")
    agents = [int(p.split(":")[0]) for p in place.processes() if " up" in p]
    assert agents, (status, place.processes())
    return agents[0], process


def whole_under_a_new_agent(place: Place, run_dir: Path) -> int:
    """The last step that an agent finds; every one up to it is whole."""
    place.command("up")
    reader = "import sys, forebay; print(forebay.open(sys.argv[1]).restart().step)"
    last = int(place.run_python(reader, run_dir))
    place.command("down")
    with fb.open(run_dir, "r") as run:
        assert complete(run) == list(range(last + 1))
    return last


def test_a_stopped_agent_is_a_clear_error_within_two_seconds(place: Place, run_dir: Path) -> None:
    agent, process = agent_and_writer(place, run_dir)
    begin = time.monotonic()
    stop(agent)
    try:
        assert process.stderr is not None
        err = process.stderr.readline()  # the traceback begins: the program has its error
        took = time.monotonic() - begin
        err += process.stderr.read()
        process.wait(10)
    finally:
        os.kill(agent, signal.SIGKILL)
    assert "ServerLost" in err, err
    assert str(agent) in err
    # Two seconds are the promise; the rest is the time of a busy machine.
    assert took < 5.0, f"the error came after {took:.1f} s"
    until(lambda: not [p for p in place.processes() if " up" in p])
    assert whole_under_a_new_agent(place, run_dir) >= 10


def test_a_program_whose_agent_was_killed_goes_on_under_another_one(place: Place, run_dir: Path) -> None:
    agent, process = agent_and_writer(place, run_dir)
    os.kill(agent, signal.SIGKILL)
    assert [line(process) for _ in range(5)] == ["20", "30", "40", "50", "60"]
    until(lambda: [p for p in place.processes() if " up" in p and not p.startswith(f"{agent}:")])
    process.kill()
    process.wait()
    assert whole_under_a_new_agent(place, run_dir) >= 60


def test_a_run_that_somebody_writes_is_refused_with_the_writers_name(place: Place, run_dir: Path) -> None:
    process = place.python(WRITER, run_dir, "-1")
    assert line(process) == "open"
    with pytest.raises(fb.Conflict) as error:
        fb.open(run_dir)
    assert str(process.pid) in str(error.value)
    with fb.open(run_dir, "r") as run:
        until(lambda: len(run.snapshots) > 3)
    process.kill()
    process.wait()
    with fb.open(run_dir) as run:
        complete(run)


def test_two_runs_side_by_side_do_not_mix(place: Place, run_dir: Path) -> None:
    runs = [run_dir.with_name(f"side{n}.fb") for n in range(2)]
    processes = [place.python(WRITER, path, "-1") for path in runs]
    for process in processes:
        until(lambda p=process: line(p) == "20")  # type: ignore[misc]
    for process in processes:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    for path in runs:
        with fb.open(path, "r") as run:
            assert len(complete(run)) >= 21


def test_a_directory_that_is_not_a_run_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.fb"
    other.mkdir()
    (other / "thesis.tex").write_text("precious")
    for mode in ("r", "r+", "a", "w"):
        with pytest.raises(fb.Error) as error:
            fb.open(other, mode)  # type: ignore[arg-type]
        assert "other.fb" in str(error.value)
    assert (other / "thesis.tex").read_text() == "precious"


def test_a_run_of_a_newer_format_is_refused(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        run["x"] = 1.0
    with sqlite3.connect(run_dir / "catalog.sqlite") as catalog:
        catalog.execute("update fb_run set value = '1000' where key = 'format'")
    catalog.close()
    for mode in ("r", "a"):
        with pytest.raises(fb.VersionMismatch):
            fb.open(run_dir, mode)  # type: ignore[arg-type]


@contextlib.contextmanager
def unwritable(folder: Path) -> Iterator[None]:
    """A folder that cannot be written for the time of the body: by its mode, or for root by a mount."""
    if os.geteuid() != 0:
        folder.chmod(0o500)
        try:
            yield
        finally:
            folder.chmod(0o700)
        return
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def test_a_directory_that_cannot_be_written_is_refused_and_a_run_in_it_can_be_read(tmp_path: Path) -> None:
    with fb.open(tmp_path / "kept") as run:
        run["x"] = np.arange(3.0)
        with run.snapshot(1) as s:
            s.put("y", np.ones(4))
    with unwritable(tmp_path):
        for name in ("kept", "new"):
            with pytest.raises(fb.ReadOnly) as error:
                fb.open(tmp_path / name)
            assert str(tmp_path) in str(error.value)
        with fb.open(tmp_path / "kept", "r") as run:
            assert run["x"].tolist() == [0.0, 1.0, 2.0]
            assert run.snapshots[-1]["y"].sum() == 4.0


def test_a_place_where_no_run_can_be_is_refused() -> None:
    with pytest.raises(fb.Error) as error:
        fb.open("/proc/forebay-test")
    assert "/proc" in str(error.value)


def test_a_url_and_an_empty_name_are_refused_with_a_remedy() -> None:
    for bad in ("fb://host:7000", "fb://host/x", ""):
        with pytest.raises(fb.BadArgument):
            fb.open(bad)
    # There is an address, and no key to it.
    with pytest.raises(fb.Refused, match=r"HOST\.json"):
        fb.open("fb://host:7000/x")


def test_rank_and_size_must_fit(run_dir: Path) -> None:
    for rank, size in ((1, 1), (0, 0), (5, 3), (0, None)):
        with pytest.raises(fb.BadArgument):
            fb.open(run_dir, rank=rank, size=size)


def test_the_contents_survive_what_the_reader_sees(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        run["x"] = np.arange(3.0)
        with fb.open(run_dir, "r") as reader:
            run.flush()
            np.testing.assert_array_equal(reader["x"], [0, 1, 2])


MANY_PUTS = """
import sys, threading
import numpy as np
import forebay as fb

if "agent" in sys.argv:
    fb.connect()
with fb.open(sys.argv[1]) as run:
    with run.snapshot(0) as s:
        s.put("x", 1.0)
        for i in range(200_000):
            run.put("y", i)
        s.put("z", np.arange(5_000.0))
    # The same from a thread that knows nothing of the snapshot.
    with run.snapshot(1) as s:
        s.put("x", 2.0)
        other = threading.Thread(target=lambda: [run.put("w", i) for i in range(200_000)])
        other.start()
        other.join()
    print(run["y"], run["w"])
"""


@pytest.mark.parametrize("keeper", ["embedded", "agent"])
def test_any_number_of_puts_fits_between_beginning_and_end_of_a_snapshot(
    place: Place, run_dir: Path, keeper: str
) -> None:
    assert place.run_python(MANY_PUTS, run_dir, keeper) == "199999 199999\n"
    with fb.open(run_dir, "r") as run:
        assert run.snapshots.numbers == [0, 1]
        assert run.snapshots.at(0)["x"] == 1.0
        assert run.snapshots.at(0)["z"].sum() == np.arange(5_000.0).sum()
        assert run.snapshots.at(1)["x"] == 2.0


def test_an_agent_without_a_descriptor_left_says_so_to_who_comes_and_goes_on(
    place: Place, run_dir: Path
) -> None:
    few = "import os, resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); os.execv(sys.argv[1], sys.argv[1:])"
    agent = place.python(few, str(forebay_exe()), "up", "--foreground")
    socket_path = place.folder / "run" / "agent.sock"
    until(socket_path.exists, what="the agent")
    crowd = []
    for _ in range(64):
        one = socket.socket(socket.AF_UNIX)
        one.connect(str(socket_path))
        crowd.append(one)
    connect = "import forebay as fb; fb.connect()"
    _, err = ended(place.python(connect), 1)
    assert "forebay.Full" in err and "no file descriptor left" in err and "ulimit -n" in err, err
    for one in crowd:
        one.close()
    until(lambda: place.python(connect).wait(60) == 0, what="an agent that takes connections again")
    place.command("down")
    agent.wait(30)
