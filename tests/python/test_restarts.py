"""Servers that are started again when something has ended them, and calls that outlive theirs."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import forebay as fb
import pytest
from conftest import Place, forebay_exe, until

SERVICES = """
import os
import signal
import time

import forebay as fb


@fb.service("out pid:i64")
def pid():
    return os.getpid()


@fb.service("in seconds:f64")
def sleep(seconds):
    time.sleep(seconds)


@fb.service("in path:str, in seconds:f64, out pid:i64")
def note_pid(path, seconds):
    with open(path, "a") as note:
        note.write(f"{os.getpid()}\\n")
    time.sleep(seconds)
    return os.getpid()


@fb.service("")
def end_all():
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "things.py"
    path.write_text(SERVICES)
    return path


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("way", ["command", "function"])
def test_a_server_that_is_to_be_restarted_is_served_again_after_its_death_until_it_is_told_to_stop(
    place: Place, file: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    for name, value in place.variables.items():
        monkeypatch.setenv(name, value)
    if way == "command":
        words: list[object] = [forebay_exe(), "serve", file, "--restart"]
    else:
        code = (
            f"import sys; sys.path.insert(0, {str(file.parent)!r})\nimport forebay as fb, {file.stem} as s\n"
        )
        words = [
            sys.executable,
            "-c",
            code + "fb.serve(s.pid, s.sleep, restart=True); print('behind', flush=True)",
        ]
    server = place.start(*words)
    patient = fb.connect(wait=30)
    lives = [patient.call("pid")]
    assert children_of(server.pid) == lives
    call = patient.call_async("sleep", 0.3)
    os.kill(lives[0], signal.SIGKILL)
    lives.append(patient.call("pid"))
    assert lives[1] not in lives[:1] and children_of(server.pid) == lives[1:]
    call.wait(20)
    assert call.timing["reissued"] == 1
    # Who does not wait for the next life hears how this one ended.
    hurried = fb.connect()
    call = hurried.call_async("sleep", 30.0)
    os.kill(lives[1], signal.SIGKILL)
    with pytest.raises(fb.ServerLost, match="Its process died: SIGKILL"):
        call.wait(20)
    lives.append(patient.call("pid"))
    server.send_signal(signal.SIGTERM)
    out, err = server.communicate(timeout=20)
    assert server.returncode == 0, err
    assert out == ("behind\n" if way == "function" else "")
    assert err.count("has died: SIGKILL; it is started again in 0.") == 2
    assert not Path(f"/proc/{lives[2]}").exists()


def test_the_child_of_a_server_that_is_restarted_ends_with_it(place: Place, file: Path) -> None:
    server = place.start(forebay_exe(), "serve", file, "--restart", stderr=None)
    until(lambda: len(children_of(server.pid)) == 1, what="the child")
    (child,) = children_of(server.pid)
    until(lambda: place.python("import forebay; forebay.call('pid')").wait(30) == 0, what="the service")
    server.kill()
    server.wait()
    until(lambda: not Path(f"/proc/{child}").exists(), what="the end of the child")


def test_a_server_that_cannot_begin_is_not_started_again(place: Place, tmp_path: Path) -> None:
    code = """
import forebay as fb

@fb.service("in x:f64")
def f(x): pass

try:
    fb.serve(f, broker="/nowhere/agent.sock", restart=True)
except fb.NoServer as error:
    print("told", flush=True)
try:
    fb.serve(f, workers=0, restart=True)
except fb.BadArgument as error:
    print(error, flush=True)
try:
    fb.serve(name="empty")
except fb.BadArgument as error:
    print(error, flush=True)
"""
    told, workers, empty = place.run_python(code).splitlines()
    assert (told, workers) == ("told", "workers = 0; give at least 1")
    assert empty.startswith("there is nothing to serve; give the functions")


def test_a_call_that_nobody_waits_for_is_issued_again_when_its_server_dies(
    place: Place, file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in place.variables.items():
        monkeypatch.setenv(name, value)
    servers = {server.pid: server for server in (place.serve(file, "one"), place.serve(file, "two"))}
    client = fb.connect(wait=30)
    until(lambda: len(client.services["pid"].servers) == 2, what="the servers")
    note = tmp_path / "note"
    call = client.call_async("note_pid", str(note), 1.0)

    def begun() -> list[int]:
        return [int(pid) for pid in note.read_text().split()] if note.exists() else []

    until(lambda: len(begun()) == 1, what="the call")
    servers[begun()[0]].kill()
    until(lambda: len(begun()) == 2, what="the call at the other server")
    assert call.wait(20) == begun()[1] != begun()[0]
    assert call.timing["reissued"] == 1


def test_a_call_that_nobody_waits_for_is_done_when_its_only_server_comes_back(
    place: Place, file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in place.variables.items():
        monkeypatch.setenv(name, value)
    place.start(forebay_exe(), "serve", file, "--restart", stdout=None, stderr=None)
    client, note = fb.connect(wait=30), tmp_path / "note"
    call = client.call_async("note_pid", str(note), 0.5)
    until(lambda: note.exists() and len(note.read_text().split()) == 1, what="the call")
    os.kill(int(note.read_text()), signal.SIGKILL)
    until(lambda: len(note.read_text().split()) == 2, what="the call at the new one")
    assert call.wait(20) == int(note.read_text().split()[1])


def test_a_call_that_ends_each_server_is_given_up_by_name(
    place: Place, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in place.variables.items():
        monkeypatch.setenv(name, value)
    place.start(forebay_exe(), "serve", file, "--restart", stdout=None, stderr=None)
    client = fb.connect(wait=30)
    with pytest.raises(fb.Poisoned, match=r"end_all: 3 servers died.*Its process died: SIGKILL") as told:
        client.call("end_all")
    assert told.value.number == 17
    assert client.call("pid") > 0
