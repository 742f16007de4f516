"""Copies of a run that were made of hard links, as back-up scripts make them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import forebay as fb
import pytest
from conftest import Place
from places import ended
from test_held_readers import write

KILLED = """
import os, sys, numpy as np, forebay as fb
run = fb.open(sys.argv[1], "w")
for step in range(4):
    with run.snapshot(step) as s:
        s.put("E", np.full(3000, float(step)))
run.put("last", 3)
run.flush()
os.kill(os.getpid(), 9)
"""


def copied(run_dir: Path) -> Path:
    copy = run_dir.with_name("copy.fb")
    subprocess.run(["cp", "-al", run_dir, copy], check=True)
    return copy


def is_whole(place: Place, path: Path, steps: int) -> None:
    assert "sound" in place.command("verify", path)
    with fb.open(path, "r") as run:
        assert run.snapshots.numbers == list(range(steps)) and run.get("last") == steps - 1


def test_a_copy_made_of_hard_links_and_its_run_are_written_each_for_itself(
    place: Place, run_dir: Path
) -> None:
    write(run_dir, "w", 0, 4)
    copy = copied(run_dir)
    mode = (run_dir / "catalog.sqlite").stat().st_mode
    write(copy, "a", 4, 2)
    assert (copy / "catalog.sqlite").stat().st_mode == mode
    write(run_dir, "a", 4, 1)
    write(copy, "a", 6, 1)
    for path, steps in ((run_dir, 5), (copy, 7)):
        is_whole(place, path, steps)
        assert place.command("recover", path).strip().endswith(f"complete up to step {steps - 1}")
    assert not [p for p in copy.iterdir() if p.name.endswith(".tmp") or p.name == "LOCK.new"]


@pytest.mark.parametrize("first", ["run", "copy"])
def test_a_copy_made_of_hard_links_of_a_killed_run_is_parted_from_it(
    place: Place, run_dir: Path, first: str
) -> None:
    ended(place.python(KILLED, run_dir), -9)
    assert (run_dir / "catalog.sqlite-wal").exists()
    copy = copied(run_dir)
    if first == "run":
        write(run_dir, "a", 4, 2)
        place.forebay("recover", copy).communicate(timeout=60)
        write(copy, "a", 4, 1)
    else:
        place.forebay("recover", "--abandon", copy).communicate(timeout=60)
        write(copy, "a", 4, 1)
        write(run_dir, "a", 4, 2)
    for path, steps in ((run_dir, 6), (copy, 5)):
        is_whole(place, path, steps)


def test_a_run_made_anew_over_a_copy_of_hard_links_leaves_the_other_alone(
    place: Place, run_dir: Path
) -> None:
    write(run_dir, "w", 0, 4)
    copy = copied(run_dir)
    write(copy, "w", 0, 1)
    assert "sound" in place.command("verify", run_dir)
    write(run_dir, "a", 4, 1)
    assert place.command("recover", run_dir).strip().endswith("complete up to step 4")
