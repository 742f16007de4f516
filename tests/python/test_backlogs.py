"""Long backlogs of ranks on another host, which run ahead of a disk that has no room, and die there."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from conftest import Agent, Place, until
from disks import fill, small_disk
from places import hear

# Steps that a rank acknowledges before the blow; more than this wait for the disk then.
STEPS, BACKLOG = 145, 100

# Lengths change from step to step, so what one step gives back takes another one in parts only.
AHEAD = """
import signal, sys, forebay as fb, numpy as np
url, full, last = sys.argv[1:]
run = fb.open(url, buffer="176MiB", full=full)
for step in range(100_000):
    with run.snapshot(step) as s:
        s.put("E", np.arange(140_000 + step % 7 * 11_000) + step)
        s.put("n", [step])
    print(step, flush=True)
    if step == int(last):
        print(int(run.stats()["dropped_steps"]), flush=True)
        # Nothing more is dropped, which nobody would hear of.
        signal.pause()
"""


# A store on another host gives no room of its own: `spill` waits there as `block` does.
@pytest.mark.parametrize(
    ("full", "die"), [("spill", "rank"), ("spill", "rank and agent"), ("drop_oldest", "rank and agent")]
)
def test_a_long_backlog_of_a_rank_on_another_host_survives_its_death(
    place: Place, tmp_path: Path, full: str, die: str
) -> None:
    with small_disk(tmp_path / "disk", 512) as disk, contextlib.closing(Agent(disk)) as agent:
        place.variables["FOREBAY_HOME"] = agent.place.variables["FOREBAY_HOME"]
        path = disk / "ahead.fb"
        last = STEPS + (30 if full == "drop_oldest" else 0)
        ballast = fill(disk, 12 << 20)
        rank = place.python(AHEAD, agent.url(path), full, str(last), bufsize=1)
        assert rank.stdout is not None
        for step in range(last + 1):
            if step > 110 and full == "spill":
                # Room for one step more, whose place takes the next one.
                os.truncate(ballast, ballast.stat().st_size - (3 << 19))
            hear(rank, str(step))
        dropped = int(rank.stdout.readline())
        rank.kill()
        if "agent" in die:
            agent.kill()
        with fb.open(path, "r") as run:
            waited = last - dropped - len(run.snapshots.numbers)
        rank.wait()
        ballast.unlink()
        if "agent" in die:
            until(lambda: not Path(f"/proc/{agent.pid}").exists(), what="the agent's end")
            agent.up()
        said = place.command("recover", agent.url(path)).splitlines()
        # Of what did not come in time the agent says so: it is in the rank's own memory still.
        assert [line for line in said if "the rest of" not in line and "did not arrive" not in line] == []
        assert "sound" in place.command("verify", path)
        with fb.open(path, "r") as run:
            listed = run.snapshots.numbers
            for step in listed:
                kept = run.snapshots.at(step)
                assert np.array_equal(kept["E"], np.arange(140_000 + step % 7 * 11_000) + step)
                assert kept["n"][0] == step
        missing = set(range(last + 1)) - set(listed)
        # The last one may have been dropped behind what it said.
        most = dropped + 1 if full == "drop_oldest" else 0
        assert len(missing) <= most, f"{sorted(missing)} are missing, {dropped} were dropped"
        assert waited >= BACKLOG, f"{waited} steps waited for the disk"
        assert (dropped > 0) == (full == "drop_oldest")


@pytest.mark.parametrize("full", ["drop_newest", "drop_oldest"])
def test_each_snapshot_that_a_policy_drops_stands_in_the_log_of_the_run(tmp_path: Path, full: str) -> None:
    with small_disk(tmp_path / "disk", 640) as disk:
        with fb.open(disk / "r.fb", "w", buffer="16MiB", full=full) as run:
            ballast = fill(disk)
            for step in range(50):
                with run.snapshot(step) as s:
                    s.put("E", np.full(1_000_000, float(step)))
            dropped = run.stats()["dropped_steps"]
            ballast.unlink()
            run.flush()
            listed = set(run.snapshots.numbers)
        with fb.open(disk / "r.fb", "r") as run:
            told = run.sql("select step from fb_messages where text like '%is dropped%'")["step"]
        assert 0 < len(told) == dropped
        assert set(told) == set(range(50)) - listed
