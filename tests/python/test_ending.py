"""A run that is told to end before its last step: by SIGTERM, by its time limit, from outside."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import forebay as fb
import pytest
from disks import small_disk
from places import Place, ended, hear, until
from walks import MANY, WALKER, await_loops, check_alike

MORE = 120


def walk(
    place: Place,
    run_dir: Path,
    steps: int | str,
    pause: float,
    *more: str,
    ranks: int = 1,
    **variables: str,
) -> list[subprocess.Popen[str]]:
    """Starts the ranks of a run, plain processes."""
    words = (sys.executable, WALKER, run_dir, str(steps), str(pause), *more)
    return place.ranks(ranks, *words, **variables)


def finish(*processes: subprocess.Popen[str]) -> list[dict[str, Any]]:
    return [json.loads(ended(process)[0]) for process in processes]


def check_goes_on(place: Place, run_dir: Path, at: int, ranks: int = 1) -> None:
    """The next start begins where the last one ended, and a twin that nobody disturbed is the same."""
    calm, end = run_dir.with_name("calm.fb"), at + MORE
    said = finish(*walk(place, run_dir, end, 0, ranks=ranks))
    assert [line["start"] for line in said] == [at] * ranks
    finish(*walk(place, calm, end, 0, ranks=ranks))
    check_alike(run_dir, calm, end)


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_run_that_gets_sigterm_saves_and_goes_on_to_the_bit(
    place: Place, run_dir: Path, ranks: int
) -> None:
    processes = walk(place, run_dir, MANY, 0.001, ranks=ranks)
    await_loops(run_dir, ranks)
    processes[-1].send_signal(signal.SIGTERM)
    said = finish(*processes)
    at = said[0]["at"]
    assert [(line["at"], line["ended_by"]) for line in said] == [(at, "SIGTERM")] * ranks
    with fb.open(run_dir, "r") as run:
        assert [(c.step, c.tag) for c in run.checkpoints] == [(at, "SIGTERM")]
        who = run.sql("select who from fb_steering")
        assert [row["who"] for row in who] == [f"rank {ranks - 1} (SIGTERM)"]
    check_goes_on(place, run_dir, at, ranks)


def test_sigterm_to_every_process_of_a_job_its_agent_included_loses_nothing(
    place: Place, run_dir: Path
) -> None:
    processes = walk(place, run_dir, MANY, 0.001, ranks=2)
    await_loops(run_dir, 2)
    for line in place.processes():
        os.kill(int(line.split(":", 1)[0]), signal.SIGTERM)
    said = finish(*processes)
    assert {line["ended_by"] for line in said} == {"SIGTERM"}
    until(lambda: not place.processes(), 20, "the end of the agent")
    check_goes_on(place, run_dir, said[0]["at"], 2)


def test_a_held_run_ends_by_sigterm_at_the_step_it_is_held_before(place: Place, run_dir: Path) -> None:
    processes = walk(place, run_dir, MANY, 0.001)
    await_loops(run_dir)
    place.command("steer", run_dir, "stop")
    held = json.loads(place.command("status", "--json"))
    steps = [run["step"] for owner in held for run in owner["runs"]]
    processes[0].send_signal(signal.SIGTERM)
    said = finish(*processes)
    assert said[0]["at"] == steps[0]
    check_goes_on(place, run_dir, steps[0])


def test_a_run_is_told_to_end_from_outside(place: Place, run_dir: Path) -> None:
    processes = walk(place, run_dir, MANY, 0.001, ranks=2)
    await_loops(run_dir, 2)
    place.command("steer", run_dir, "end", "node goes down")
    said = finish(*processes)
    assert [line["ended_by"] for line in said] == ["node goes down"] * 2
    with fb.open(run_dir, "r") as run:
        assert [c.tag for c in run.checkpoints] == ["node goes down"]
    check_goes_on(place, run_dir, said[0]["at"], 2)


@pytest.mark.parametrize(("ranks", "way"), [(1, "argument"), (2, "variable")])
def test_a_run_ends_in_order_before_its_time_is_over(
    place: Place, run_dir: Path, ranks: int, way: str
) -> None:
    begun = time.monotonic()
    if way == "argument":
        processes = walk(place, run_dir, MANY, 0.002, "4.0")
    else:
        processes = walk(place, run_dir, MANY, 0.002, ranks=ranks, FOREBAY_TIME_LIMIT="4.0")
    said = finish(*processes)
    took = time.monotonic() - begun
    at = said[0]["at"]
    assert [(line["at"], line["ended_by"]) for line in said] == [(at, "time limit")] * ranks
    assert at > 20, "there was time for some steps"
    # Longer than the limit only if this machine did not let it end; the reserve is more than a second.
    assert took < 8, said
    check_goes_on(place, run_dir, at, ranks)


LOOP = """
import os, signal, sys, time
import forebay as fb
run = fb.open(sys.argv[1], buffer="4MiB", rank=0, size=1)
for step in run.steps(1 << 40, sigterm=SIGTERM):
    if step == 3:
        print("looping", flush=True)
    time.sleep(PAUSE)
run.close()
print("ended by", run.ended_by, flush=True)
"""


def looping(
    place: Place,
    run_dir: Path,
    before: str = "",
    pause: str = "0.001",
    sigterm: bool = True,
    after: str = "",
) -> subprocess.Popen[str]:
    """A program in its loop, with what it does before it opens its run and before it closes it."""
    code = LOOP.replace("PAUSE", pause).replace("SIGTERM", str(sigterm), 1)
    code = code.replace("run.close()", f"{after}run.close()")
    process = place.python("import signal, sys\n" + before + code, run_dir)
    hear(process, "looping")
    return process


def check_killed(place: Place, process: subprocess.Popen[str], run_dir: Path) -> None:
    """SIGTERM ended it at once: what it leaves in shared memory is for the next who opens the run."""
    assert process.wait(20) == -signal.SIGTERM
    place.command("recover", run_dir)
    process.returncode = -signal.SIGKILL  # as after any kill, its socket is left to the next who listens


def test_who_handles_sigterm_goes_on_handling_it(place: Place, run_dir: Path) -> None:
    handler = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
    process = looping(place, run_dir, handler)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 7
    process = looping(place, run_dir, "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n")
    process.send_signal(signal.SIGTERM)
    place.command("steer", run_dir, "quit")
    assert process.communicate(timeout=20)[0] == "ended by quit\n"


def test_who_wants_none_of_it_dies_by_sigterm(place: Place, run_dir: Path) -> None:
    process = looping(place, run_dir, sigterm=False)
    process.send_signal(signal.SIGTERM)
    check_killed(place, process, run_dir)


def test_a_second_sigterm_ends_a_program_whose_step_does_not_end(place: Place, run_dir: Path) -> None:
    process = looping(place, run_dir, pause="0.001 if step < 3 else 1000")
    for _ in range(3):
        process.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(3.1)
    process.send_signal(signal.SIGTERM)
    check_killed(place, process, run_dir)


def test_before_and_after_a_loop_sigterm_does_what_it_did(place: Place, run_dir: Path) -> None:
    code = """
import os, signal, sys
import forebay as fb
run = fb.open(sys.argv[1], buffer="4MiB")
if sys.argv[2] == "after":
    for step in run.steps(10):
        pass
    for step in run.steps(20, start=10):
        break
run.put("x", 1.0)
os.kill(os.getpid(), signal.SIGTERM)
"""
    for when in ("before", "after"):
        process = place.python(code, run_dir, when)
        check_killed(place, process, run_dir)


def test_ctrl_c_is_an_exception_as_ever(place: Place, run_dir: Path) -> None:
    process = looping(place, run_dir)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == -signal.SIGINT and "KeyboardInterrupt" in err


def test_a_child_of_fork_dies_by_sigterm(place: Place, run_dir: Path) -> None:
    code = """
import os, signal, sys, time
import forebay as fb
run = fb.open(sys.argv[1], buffer="4MiB")
for step in run.steps(3):
    child = os.fork()
    if child == 0:
        time.sleep(1000)
        os._exit(0)
    os.kill(child, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
run.close()
print(run.ended_by)
"""
    assert place.run_python(code, run_dir) == "None\n"


BROKEN = """
import os, signal, sys
import forebay as fb
with fb.open(sys.argv[1], "w", buffer="8 MiB") as run:
    @run.saves
    def save(step):
        raise ValueError(f"the tape is full at {step}")
    for step in run.steps(10**9):
        if step == 0:
            print("looping", flush=True)
        if sys.argv[2] == "SIGTERM" and step == 3:
            os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.mark.parametrize("how", ["SIGTERM", "time limit", "end"])
def test_a_last_state_that_could_not_be_kept_is_the_error_of_the_loop(
    place: Place, run_dir: Path, how: str
) -> None:
    limit = {"FOREBAY_TIME_LIMIT": "2"} if how == "time limit" else {}
    program = place.start(sys.executable, "-c", BROKEN, run_dir, how, env={**place.env, **limit})
    if how == "end":
        hear(program, "looping")
        said = place.command("steer", run_dir, "end", status=1)
        assert "the tape is full" in said and "the loop ends" in said and "goes on" not in said
    _, err = ended(program, status=1)
    assert "ValueError: the tape is full at" in err
    with fb.open(run_dir, "r") as run:
        assert not run.sql("select 1 from fb_run where key = 'finished' and value = '1'")


def test_without_a_snapshot_the_loop_ends_and_says_so(place: Place, run_dir: Path) -> None:
    process = looping(place, run_dir)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=20)[0] == "ended by SIGTERM\n"
    with fb.open(run_dir, "r") as run:
        texts = [row["text"] for row in run.sql("select text from fb_messages")]
    assert any("nothing is saved" in text for text in texts), texts


def test_a_run_that_was_told_to_end_begins_no_other_loop(run_dir: Path, place: Place) -> None:
    process = looping(place, run_dir, after="assert list(run.steps(10)) == []\n")
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=20)[0] == "ended by SIGTERM\n"


def test_what_is_no_time_limit_is_refused(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        for bad in (-1.0, float("nan"), "tomorrow"):
            with pytest.raises(fb.BadArgument, match="time limit"):
                run.steps(5, time_limit=bad)  # type: ignore[arg-type]
        with pytest.raises(fb.BadArgument, match="SLURM_JOB_END_TIME"):
            run.steps(5, time_limit="job")
        assert list(run.steps(5, time_limit=1e9)) == [0, 1, 2, 3, 4]
        assert run.ended_by is None


def test_a_job_of_a_slurm_that_says_no_end_ends_when_squeue_says(place: Place, run_dir: Path) -> None:
    """Slurm before 22.05 sets no SLURM_JOB_END_TIME. There is no Slurm here: the command is one of the test's."""
    folder = place.folder / "slurm"
    folder.mkdir()
    squeue = folder / "squeue"
    squeue.write_text(
        '#!/bin/sh\n[ "$*" = "--noheader --jobs 4711 --format %L" ] && echo "      $LEFT" && exit\n'
        'echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1\n'
    )
    squeue.chmod(0o755)
    slurm = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "FOREBAY_TIME_LIMIT": "job"}
    (process,) = walk(place, run_dir, MANY, 0.001, **slurm, SLURM_JOB_ID="4711", LEFT="0:02")
    (said,) = finish(process)
    assert said["ended_by"] == "time limit"
    check_goes_on(place, run_dir, said["at"])
    (process,) = walk(
        place, run_dir.with_name("none.fb"), 5, 0, **slurm, SLURM_JOB_ID="4711", LEFT="UNLIMITED"
    )
    assert finish(process)[0]["ended_by"] is None
    (process,) = walk(place, run_dir.with_name("bad.fb"), 5, 0, **slurm, SLURM_JOB_ID="4712")
    assert "squeue" in ended(process, status=1)[1]


BLOCKED = """
import sys, threading, time, forebay as fb, numpy as np
at = 0
def look():
    last = -1
    while last != at:
        last = at
        time.sleep(1)
    print("blocked", flush=True)
with fb.open(sys.argv[1], "w", buffer="2MiB", full=sys.argv[2]) as run:
    for at in run.steps(100_000):
        with run.snapshot(at) as s:
            s.put("u", np.full(62_500, float(at)))
        if at == 0:
            s.wait()
            threading.Thread(target=look, daemon=True).start()
"""


@pytest.mark.parametrize("full", ["block", "spill"])
def test_one_sigterm_ends_a_program_whose_snapshot_waits_for_a_full_disk(
    place: Place, tmp_path: Path, full: str
) -> None:
    with small_disk(tmp_path / "disk", 12) as disk:
        program = place.python(BLOCKED, disk / "f.fb", full)
        hear(program, "blocked")
        program.send_signal(signal.SIGTERM)
        _, err = ended(program, 1, timeout=50)
        assert "SIGTERM came while snapshot" in err, err
        place.command("verify", disk / "f.fb")
        # The disk has no room for what is kept in memory.
        shutil.rmtree(disk / "f.fb")
        place.command("doctor", "--clean")
