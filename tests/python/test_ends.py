"""Programs that are ended while `close` waits for a disk without room: they end, and nothing is lost."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import forebay as fb
import pytest
from conftest import Place, until
from disks import fill, small_disk
from places import ended, hear

CLOSER = Path(__file__).with_name("closer.py")
STEPS = 4
ENDS = 20.0  # seconds for what takes parts of one: a busy machine gets more


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk that is used up."""
    with small_disk(tmp_path / "disk") as at:
        fill(at)
        yield at


def closing(place: Place, keeper: str, disk: Path, *how: str) -> subprocess.Popen[str]:
    """A program that waits in `close` now, under an agent or alone."""
    if keeper == "agent":
        place.command("up")
    process = place.start(sys.executable, CLOSER, disk / "r", str(STEPS), *how, stdin=subprocess.PIPE)
    if how == ("loop",):
        hear(process, "looping")
        process.send_signal(signal.SIGINT)
    hear(process, "closing")
    return process


def whole(place: Place, keeper: str, disk: Path) -> None:
    """With room again everything that was acknowledged is written: by the agent, or by the next opening."""
    (disk / "ballast").unlink()
    if keeper == "embedded":
        place.command("recover", disk / "r.fb")
        assert not place.segments()
    with fb.open(disk / "r", "r") as run:
        until(lambda: run.snapshots.numbers == list(range(STEPS)), ENDS, "all that was acknowledged")
        assert all((kept["E"] == kept.step).all() for kept in run.snapshots)
    if keeper == "agent":
        until(lambda: not place.segments(), ENDS, "the end of the run's segments")
        place.command("down")
    assert "sound" in place.command("verify", disk / "r.fb")


@pytest.mark.parametrize("keeper", ["embedded", "agent"])
def test_ctrl_c_ends_the_wait_of_a_close_and_what_was_put_is_kept(
    place: Place, disk: Path, keeper: str
) -> None:
    process = closing(place, keeper, disk)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=ENDS)
    assert out == "interrupted\n"
    assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in err
    assert "was not waited for" in err
    assert "cannot be closed" not in err, "it waited to the end"
    whole(place, keeper, disk)


@pytest.mark.parametrize("keeper", ["embedded", "agent"])
def test_after_ctrl_c_in_the_loop_a_second_one_ends_the_close_at_once(
    place: Place, disk: Path, keeper: str
) -> None:
    process = closing(place, keeper, disk, "loop")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=ENDS)
    assert process.returncode == -signal.SIGINT
    assert "was not waited for" in err
    assert "cannot be closed" not in err, "it waited to the end"
    whole(place, keeper, disk)


@pytest.mark.parametrize("keeper", ["embedded", "agent"])
def test_a_close_that_ctrl_c_interrupted_can_be_repeated(place: Place, disk: Path, keeper: str) -> None:
    process = closing(place, keeper, disk, "again")
    process.send_signal(signal.SIGINT)
    hear(process, "interrupted")
    (disk / "ballast").unlink()
    out, err = process.communicate("\n", timeout=ENDS)
    assert (out, process.returncode) == ("closed\n", 0), err
    assert not place.segments()
    (disk / "ballast").touch()
    whole(place, keeper, disk)


@pytest.mark.parametrize("keeper", ["embedded", "agent"])
def test_sigterm_ends_a_program_that_closes_and_what_was_put_is_kept(
    place: Place, disk: Path, keeper: str
) -> None:
    process = closing(place, keeper, disk)
    process.terminate()
    process.communicate(timeout=ENDS)
    assert process.returncode != 0
    whole(place, keeper, disk)


WAITER = """
import sys
import time
from pathlib import Path

import forebay as fb
import numpy as np

with fb.open(sys.argv[1], "w") as run:
    for step in run.steps(None):
        if step == 0:
            with run.snapshot(step) as s:
                s.put("x", np.arange(4e5))
        time.sleep(0.01)
        if Path(sys.argv[2]).exists():
            break
"""


@pytest.mark.parametrize("keeper", ["embedded", "agent"])
def test_a_full_disk_is_told_at_the_terminal_of_the_program(place: Place, disk: Path, keeper: str) -> None:
    if keeper == "agent":
        place.command("up")
    room = place.folder / "room"
    program = place.python(WAITER, disk / "r", room)
    assert program.stderr is not None
    said = program.stderr.readline()
    assert said.startswith("forebay: r: ") and "disk" in said, said
    (disk / "ballast").unlink()
    again = program.stderr.readline()
    assert "there is room on the disk again" in again, again
    room.touch()
    assert ended(program) == ("", "")
    if keeper == "agent":
        place.command("down")
