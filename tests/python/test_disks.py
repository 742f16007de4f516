"""Openings and commands where the disk is frozen, or full."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import forebay as fb
from conftest import Place
from disks import fill, frozen_disk, small_disk
from places import ended, hear, until

WRITE = """
import os, signal, sys, forebay as fb
run = fb.open(sys.argv[1], buffer="16MiB")
run.put("t", "kept")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_is_left_of_a_run_on_a_frozen_disk_is_named_and_nobody_hangs(
    place: Place, tmp_path: Path
) -> None:
    with frozen_disk(tmp_path / "disk") as freeze:
        run = tmp_path / "disk" / "r.fb"
        ended(place.python(WRITE, run), -signal.SIGKILL)
        freeze("-f")
        recovery = place.forebay("recover", run)
        assert recovery.stderr is not None and "has not answered" in recovery.stderr.readline()
        for words in (("status",), ("doctor",), ("status",)):
            assert f"of the run {run}" in place.command(*words, timeout=20), words
        listing = place.forebay("ls", run)
        assert listing.stderr is not None and "has not answered" in listing.stderr.readline()
        freeze("-u")
        out, _ = ended(recovery)
        assert "complete" in out
        ended(listing)
        assert not place.segments()


WAIT = """
import sys, forebay as fb, numpy as np
with fb.open(sys.argv[1], buffer="16MiB") as run:
    print("open", flush=True)
    sys.stdin.readline()
    with run.snapshot(0) as s:
        s.put("x", np.zeros(10))
    print("taken", flush=True)
"""


def test_doctor_names_a_run_that_waits_for_its_disk(place: Place, tmp_path: Path) -> None:
    place.command("up")
    with frozen_disk(tmp_path / "disk") as freeze:
        run = tmp_path / "disk" / "r.fb"
        program = place.python(WAIT, run, stdin=subprocess.PIPE)
        hear(program, "open")
        assert f"{run} waits" not in place.command("doctor")
        freeze("-f")
        assert program.stdin is not None
        program.stdin.write("\n")
        program.stdin.flush()
        hear(program, "taken")
        until(lambda: f"{run} waits:" in place.command("doctor", timeout=20), 30)
        freeze("-u")
        ended(program)


OPEN = """
import sys, forebay as fb
with fb.open(sys.argv[1], rank=int(sys.argv[2]), size=2) as run:
    print("open", flush=True)
    sys.stdin.readline()
"""


def test_an_opening_on_a_full_disk_waits_and_says_so(place: Place, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        with fb.open(disk / "r.fb", "w", buffer="1MiB") as run:
            run.put("x", 1.0)
        ballast = fill(disk, 0)
        ranks = [place.python(OPEN, disk / "r.fb", "0", stdin=subprocess.PIPE)]
        assert ranks[0].stderr is not None
        assert "waits for room on the disk, which is full; make room" in ranks[0].stderr.readline()
        ballast.unlink()
        hear(ranks[0], "open")
        fill(disk, 0)
        # It needs little: there may be room for that.
        ranks.append(place.python(OPEN, disk / "r.fb", "1", stdin=subprocess.PIPE))
        ballast.unlink()
        hear(ranks[1], "open")
        for rank in ranks:
            assert rank.stdin is not None
            rank.stdin.write("\n")
            rank.stdin.flush()
        for rank in ranks:
            ended(rank)


BEHIND = """
import sys, forebay as fb, numpy as np
run = fb.open(sys.argv[1], buffer="16MiB")
rows = run.table("rows", {"n": "i64"})
run.flush()
print("open", flush=True)
sys.stdin.readline()
run.put("large", np.arange(400_000.0))
run.put("small", 1.0)
rows.insert((1,))
with run.snapshot(0) as s:
    s.put("x", np.arange(10.0))
for ask in run.flush, s.wait, lambda: run.attrs.update(code="ES1"), run.close:
    try:
        ask()
    except fb.Full as e:
        assert "the data set" in str(e) and "make room" in str(e), e
        print("told", flush=True)
sys.stdin.readline()
run.close()
"""


def test_whoever_asks_behind_a_large_put_on_a_full_disk_is_told_in_time(place: Place, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        program = place.python(BEHIND, disk / "r.fb", stdin=subprocess.PIPE)
        hear(program, "open")
        ballast = fill(disk)
        assert program.stdin is not None
        program.stdin.write("\n")
        program.stdin.flush()
        for _ in range(4):
            hear(program, "told")
        ballast.unlink()
        program.stdin.write("\n")
        program.stdin.flush()
        ended(program)
        with fb.open(disk / "r.fb", "r") as run:
            assert run["large"][-1] == 399_999.0 and float(run["small"]) == 1.0
            assert run.snapshots.numbers == [0] and not run.attrs
