"""Care for a run at a terminal: long work shows how far it is, and Ctrl-C in it leaves the run sound."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from conftest import Place
from disks import fill, small_disk
from terminal import DEADLINE, Terminal

STEPS = 4


@pytest.fixture
def terminal(place: Place) -> Iterator[Callable[..., Terminal]]:
    """Starts commands at terminals."""
    opened: list[Terminal] = []

    def start(*words: str | Path) -> Terminal:
        opened.append(Terminal(place, *words))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def interrupt(shown: Terminal) -> None:
    """Presses Ctrl-C; the command ends by the signal."""
    shown.ctrl_c()
    assert shown.process.wait(DEADLINE) == -signal.SIGINT


WRITER = """
import os, signal, sys, numpy, forebay
run = forebay.open(sys.argv[1], buffer="32MiB")
for step in range(int(sys.argv[2])):
    with run.snapshot(step) as s:
        s.put("E", numpy.full(400_000, float(step)))
os.kill(os.getpid(), signal.SIGKILL)
"""


def sound(place: Place, run_dir: Path) -> None:
    """All steps are there, as they were taken, and nothing is left behind."""
    assert "sound" in place.command("verify", run_dir)
    with fb.open(run_dir, "r") as run:
        assert run.snapshots.numbers == list(range(STEPS))
        assert all((kept["E"] == kept.step).all() for kept in run.snapshots)
    assert not place.segments()


@pytest.fixture
def kept(run_dir: Path) -> Path:
    """A run of four snapshots."""
    with fb.open(run_dir) as run:
        for step in range(STEPS):
            with run.snapshot(step) as s:
                s.put("E", np.full(400_000, float(step)))
    return run_dir


@contextlib.contextmanager
def endless(file: Path) -> Iterator[None]:
    """Instead of a file lies something that whoever reads it waits for."""
    aside = file.parents[1] / "aside"
    file.rename(aside)
    os.mkfifo(file)
    try:
        yield
    finally:
        file.unlink()
        aside.rename(file)


def test_verify_shows_how_far_it_is_and_ctrl_c_ends_it(
    place: Place, kept: Path, terminal: Callable[..., Terminal]
) -> None:
    with endless(kept / "steps" / "0000000002.h5"):
        shown = terminal("verify", kept)
        shown.until(r"reading \[.*\] 50% of 12\.21 MiB")
        interrupt(shown)
    sound(place, kept)


def test_ctrl_c_in_repair_leaves_a_run_that_repair_mends(
    place: Place, kept: Path, terminal: Callable[..., Terminal]
) -> None:
    (kept / "catalog.sqlite").write_bytes(b"damaged" * 1000)
    with endless(kept / "steps" / "0000000003.h5"):
        shown = terminal("repair", kept)
        shown.until(r"repairing \[.*\] 3 of 4 files")
        interrupt(shown)
    # What lay in the catalog alone is lost, and that is said.
    assert "4 sound snapshots" in place.command("repair", kept, status=1)
    sound(place, kept)


@pytest.mark.parametrize("command", ["recover", "compact"])
def test_ctrl_c_in_what_writes_loses_nothing_that_a_dead_program_left(
    place: Place, tmp_path: Path, terminal: Callable[..., Terminal], command: str
) -> None:
    with small_disk(tmp_path / "disk") as disk:
        ballast = fill(disk)
        writer = place.python(WRITER, disk / "r", str(STEPS))
        assert writer.wait(DEADLINE) == -signal.SIGKILL
        shown = terminal(command, disk / "r.fb")
        shown.until(r"(recover|compact)ing \[.*\] 0% of 12\.21 MiB")
        interrupt(shown)
        ballast.unlink()
        assert place.segments()
        place.command(command, disk / "r.fb")
        sound(place, disk / "r.fb")


def test_nothing_is_drawn_where_there_is_no_terminal(place: Place, kept: Path) -> None:
    process = place.forebay("verify", kept)
    out, err = process.communicate(timeout=DEADLINE)
    assert "sound" in out
    assert err == ""


def test_a_snapshot_that_is_marked_as_damaged_is_verified_with_a_remedy_that_helps(
    place: Place, run_dir: Path
) -> None:
    with fb.open(run_dir) as run:
        for step in range(3):
            with run.snapshot(step) as s:
                s.put("E", np.full(1000, float(step)))
    (run_dir / "steps" / "0000000001.h5").write_bytes(b"no HDF5")
    assert f"run `forebay repair {run_dir}`" in place.command("verify", run_dir, status=1)
    place.command("repair", run_dir, status=1)
    said = place.command("verify", run_dir, status=1)
    assert said.count("steps/0000000001.h5: ") == 1 and f"`forebay drop {run_dir} 1`" in said, said
    place.command("drop", run_dir, "1", "--yes")
    assert "sound" in place.command("verify", run_dir)


def test_a_repaired_run_that_lacks_nothing_is_called_sound_and_nothing_more_is_asked_for(
    place: Place, kept: Path
) -> None:
    catalog = kept / "catalog.sqlite"
    raw = bytearray(catalog.read_bytes())
    # One letter of the text that made a table.
    raw[raw.index(b"program TEXT", raw.index(b"CREATE TABLE fb_sessions")) - 1] ^= 205
    catalog.write_bytes(raw)
    told = place.command("repair", kept, status=1)
    assert told.strip().endswith("it is sound now as far as its files can tell")
    sound(place, kept)
