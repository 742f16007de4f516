"""Which complete snapshots stay on the disk: ``keep=``."""

from __future__ import annotations

import fcntl
import random
import time
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from conftest import Place, until
from disks import small_disk

WRITES = """
import sys
import forebay as fb, numpy as np
run = fb.open(sys.argv[1], keep="last 3", buffer="8MiB")
back = run.restart()
step = back.step + 1 if back else 0
while True:
    with run.snapshot(step) as s:
        s.put("E", np.full(3000, float(step)))
    if step % 10 == 0:
        run.checkpoint(f"at {step}")
    s.wait()
    print(step, flush=True)
    step += 1
"""


def write(run: fb.Run, steps: range, n: int = 100) -> None:
    for step in steps:
        with run.snapshot(step) as s:
            s.put("E", np.full(n, float(step)))
        s.wait()


def files(run_dir: Path) -> list[int]:
    return sorted(int(p.stem) for p in (run_dir / "steps").glob("*.h5"))


@pytest.mark.usefixtures("owner")
def test_the_newest_and_every_nth_stay_and_what_the_run_may_go_on_from(run_dir: Path) -> None:
    with fb.open(run_dir, keep="last 2, every 5", buffer="8MiB") as run:
        write(run, range(4))
        run.checkpoint("kept")
        write(run, range(4, 13))
        assert run.snapshots.numbers == [0, 3, 5, 10, 11, 12]
        until(lambda: files(run_dir) == [0, 3, 5, 10, 11, 12], what="the files of those that went")
        assert all((run.snapshots.at(step)["E"] == step).all() for step in run.snapshots.numbers)
        assert run.sql("select count(*) as n from fb_dropped")["n"].tolist() == [0]
    # What was said ends with the life of the run; this one goes on from 12.
    with fb.open(run_dir, buffer="8MiB") as run:
        back = run.restart("kept")
        assert back is not None and back.step == 3
        write(run, range(4, 7))
        assert run.snapshots.numbers == [0, 3, 4, 5, 6]
    with fb.open(run_dir, keep="last 1", buffer="8MiB") as run:
        back = run.restart()
        assert back is not None and back.step == 6
        write(run, range(7, 10))
        # 3 is a checkpoint and where the run went back to, 6 is what it goes on from.
        assert run.snapshots.numbers == [3, 6, 9]


def test_what_says_no_such_thing_and_what_others_say_otherwise_is_refused(run_dir: Path, owner: str) -> None:
    for bad in ("", "5", "last", "last 0", "last -3", "last 5 every 2", "last 5, last 6", "first 3"):
        with pytest.raises(fb.BadArgument, match='write "last 5", "every 10"'):
            fb.open(run_dir, keep=bad)
    assert not run_dir.exists() or not files(run_dir)
    if owner == "embedded":
        return  # one process alone
    with fb.open(run_dir, keep="last 2", rank=0, size=2, buffer="8MiB"):
        with pytest.raises(fb.Conflict, match=r'"last 3".*says "last 2"'):
            fb.open(run_dir, keep="last 3", rank=1, size=2, buffer="8MiB")
        fb.open(run_dir, keep="last 2", rank=1, size=2, buffer="8MiB").close()
    with pytest.raises(fb.BadArgument, match='mode "r"'):
        fb.open(run_dir, "r", keep="last 2")


@pytest.mark.usefixtures("no_agent")
def test_a_snapshot_that_is_read_stays_until_it_was_read(run_dir: Path) -> None:
    with fb.open(run_dir, keep="last 1", buffer="8MiB") as run:
        write(run, range(2))
        with (run_dir / "steps" / f"{1:010}.h5").open("rb") as file:
            # As every reader of an array of a snapshot does.
            fcntl.flock(file, fcntl.LOCK_SH)
            write(run, range(2, 4))
            assert run.snapshots.numbers == [1, 3]
        write(run, range(4, 5))
        assert run.snapshots.numbers == [4]


def test_killed_at_any_moment_the_run_has_the_newest_its_checkpoints_and_no_file_that_it_does_not_list(
    place: Place, run_dir: Path
) -> None:
    dice, told = random.Random(7), -1
    for _ in range(5):
        writer = place.python(WRITES, run_dir)
        assert writer.stdout is not None
        for _ in range(dice.randint(3, 25)):
            told = int(writer.stdout.readline())
        time.sleep(dice.random() * 0.01)
        writer.kill()
        told = max([told, *map(int, writer.communicate()[0].split())])
    # The next opening does what was left undone.
    place.run_python("import sys, forebay as fb; fb.open(sys.argv[1]).close()", run_dir)
    with fb.open(run_dir, "r") as run:
        numbers, checkpoints = run.snapshots.numbers, {c.step for c in run.checkpoints}
        assert numbers[-1] >= told and files(run_dir) == numbers
        # That of the last moment may not have been made.
        assert checkpoints >= set(range(0, numbers[-1] - 10, 10))
        # Each life leaves three at most, and the one that it began on.
        assert len(set(numbers) - checkpoints) <= 3 + 5
        assert all((run.snapshots.at(step)["E"] == step).all() for step in numbers)
    assert "sound" in place.command("verify", run_dir)


def test_on_a_full_disk_older_snapshots_go_before_anybody_waits(place: Place, tmp_path: Path) -> None:
    code = """
import sys
import forebay as fb, numpy as np
with fb.open(sys.argv[1], keep="last 5", buffer="16MiB") as run:
    for step in range(12):
        with run.snapshot(step) as s:
            s.put("E", np.full(500_000, float(step)))
        s.wait(60)
    print(*run.snapshots.numbers)
"""
    with small_disk(tmp_path / "disk") as disk:
        # A sixth one does not fit, not even until the first one has gone.
        numbers = [int(n) for n in place.run_python(code, disk / "run.fb", timeout=100).split()]
    assert numbers == list(range(7, 12))
