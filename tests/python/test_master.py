"""`forebay run`: starts servers and program, watches over them, and clears all away however it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import forebay as fb
import pytest
from places import Place, until
from terminal import Terminal
from walks import MANY, WALKER, await_loops

SERVER = """
import os
import forebay as fb

@fb.service("in x:f64, out y:f64, out pid:i64")
def double(x):
    return 2 * x, os.getpid()
"""

# Calls until it is told to end by a file; a line for each new server it was answered by.
PROGRAM = """
import pathlib, sys, time
import forebay as fb
last = None
while not pathlib.Path(sys.argv[1]).exists():
    y, pid = fb.call("double", 21.0)
    assert y == 42.0
    if pid != last:
        last = pid
        print("answered by", pid, flush=True)
    time.sleep(0.01)
sys.exit(int(sys.argv[2]))
"""


@pytest.fixture
def server(tmp_path: Path) -> str:
    """The command of a server of `double`."""
    file = tmp_path / "double.py"
    file.write_text(SERVER)
    return f"{sys.executable} -m forebay serve {file}"


def master(place: Place, *words: str | Path, **options: object) -> subprocess.Popen[str]:
    return place.forebay("run", *words, **options)


def answer(process: subprocess.Popen[str]) -> int:
    """The pid of the server that answered the program anew."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("answered by "), line + (process.stderr.read() if process.stderr else "")
    return int(line.split()[2])


def nobody_is_left(place: Place) -> None:
    until(lambda: not place.processes(), 20, f"the end of {place.processes()}")


def test_the_program_has_its_servers_and_its_status_is_told(
    place: Place, tmp_path: Path, server: str
) -> None:
    end = tmp_path / "end"
    words = ["--json", "--server", server, "--server", server, "--", sys.executable, "-c", PROGRAM, end, "3"]
    process = master(place, *words)
    answer(process)
    end.touch()
    out, err = process.communicate(timeout=30)
    assert process.returncode == 3, err
    said = json.loads(out.splitlines()[-1])
    assert said["status"] == 3 and [p["restarts"] for p in said["parts"][:2]] == [0, 0]
    assert place.processes() == [], "the agent that it started, too"
    assert place.sockets() == []


def test_a_server_that_dies_is_started_again_and_the_program_goes_on(
    place: Place, tmp_path: Path, server: str
) -> None:
    end = tmp_path / "end"
    process = master(
        place, "--restarts", "1", "--server", server, "--", sys.executable, "-c", PROGRAM, end, "0"
    )
    first = answer(process)
    os.kill(first, signal.SIGKILL)
    second = answer(process)
    assert second != first
    end.touch()
    _, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert "is started again" in err
    nobody_is_left(place)


def test_a_server_that_dies_too_often_is_given_up_and_the_program_hears_of_it(
    place: Place, tmp_path: Path, server: str
) -> None:
    words = [
        "--restarts",
        "0",
        "--server",
        server,
        "--",
        sys.executable,
        "-c",
        PROGRAM,
        tmp_path / "end",
        "0",
    ]
    process = master(place, *words, env={**place.env, "FOREBAY_PATIENCE": "0.2"})
    os.kill(answer(process), signal.SIGKILL)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 1, err
    assert "is not started again" in err and "Lost" in err
    nobody_is_left(place)


def test_a_server_that_never_serves_is_named(place: Place) -> None:
    process = master(place, "--server", "false", "--", "true")
    assert "'false'" in process.communicate(timeout=30)[1].replace('"', "'") and process.returncode == 1
    process = master(place, "--wait", "2.3", "--server", "sleep 1000", "--", "true")
    err = process.communicate(timeout=30)[1]
    assert "waits for the server" in err and "offers nothing after" in err and err.count("sleep 1000") == 2
    assert process.returncode == 1
    nobody_is_left(place)


def test_a_program_that_is_killed_or_not_there_is_told_as_a_shell_does(place: Place) -> None:
    process = master(place, "--", "sh", "-c", "kill -9 $$")
    process.communicate(timeout=30)
    assert process.returncode == 128 + 9
    process = master(place, "--", "no-such-program")
    assert "no-such-program" in process.communicate(timeout=30)[1]
    assert process.returncode == 127
    nobody_is_left(place)


def test_a_master_killed_without_warning_leaves_nothing_behind(
    place: Place, tmp_path: Path, run_dir: Path, server: str
) -> None:
    process = master(
        place, "--server", server, "-n", "2", "--", sys.executable, WALKER, run_dir, MANY, "0.002"
    )
    await_loops(run_dir, 2)
    process.kill()
    process.wait()
    # The agent was started by need and goes when nothing has needed it for ten seconds.
    ours = ("walker.py", "double.py")
    until(lambda: not any(w in line for line in place.processes() for w in ours), 20, "the end of the parts")
    with fb.open(run_dir, "r") as run:
        assert [c.tag for c in run.checkpoints] == ["SIGTERM"], "the program ended in order even so"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_are_passed_on_to_the_program(place: Place, run_dir: Path, number: int) -> None:
    process = master(place, "-n", "2", "--", sys.executable, WALKER, run_dir, MANY, "0.002")
    await_loops(run_dir, 2)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    if number == signal.SIGTERM:
        assert process.returncode == 0, err
        assert [json.loads(line)["ended_by"] for line in out.splitlines()] == ["SIGTERM"] * 2
    else:
        assert process.returncode == 130 and "KeyboardInterrupt" in err
    nobody_is_left(place)


def test_ctrl_c_in_a_terminal_reaches_the_program_once_and_the_servers_last(
    place: Place, server: str
) -> None:
    code = (
        "import time\nimport forebay as fb\nhits = 0\nready = False\n"
        "while True:\n    try:\n        if not ready:\n            ready = True\n            print('ready', flush=True)\n"
        "        time.sleep(0.01 if hits == 0 else 1.0)\n        if hits: break\n"
        "    except KeyboardInterrupt:\n        hits += 1\n"
        "print('hits', hits, 'double', fb.call('double', 4.0)[0], flush=True)\n"
    )
    shown = Terminal(place, "run", "--server", server, "--", sys.executable, "-c", code, all_of_it=True)
    shown.until("ready")
    shown.ctrl_c()
    shown.until("hits 1 double 8[.]0")
    assert shown.process.wait(30) == 0
    shown.close()
    nobody_is_left(place)


def test_when_a_rank_fails_the_others_are_told_to_end(place: Place, run_dir: Path) -> None:
    code = f"""
import os, runpy, sys, threading, time

def fail():
    while not all(os.path.exists({str(run_dir)!r} + f".{{r}}.looping") for r in (0, 1)):
        time.sleep(0.01)
    os._exit(5)

if os.environ["FOREBAY_RANK"] == "1":
    threading.Thread(target=fail).start()
sys.argv = ["walker.py", {str(run_dir)!r}, "{MANY}", "0.002"]
runpy.run_path({str(WALKER)!r}, run_name="__main__")
"""
    process = master(place, "-n", "2", "--", sys.executable, "-c", code)
    _, err = process.communicate(timeout=40)
    assert process.returncode == 5
    assert "rank 1 has failed" in err
    nobody_is_left(place)
