"""Data that a killed program left in memory which the next one does not see."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from conftest import Place
from places import ended, hear

WRITE = """
import os, signal, sys, numpy as np, forebay as fb
run = fb.open(sys.argv[1], buffer="16MiB")
for step in range(3):
    with run.snapshot(step) as s:
        s.put("E", np.full(1000, float(step)))
    if step == 0:
        run.flush()
run.put("t", "kept")
os.kill(os.getpid(), signal.SIGKILL)
"""

OPEN = """
import sys, forebay as fb
options = {"elsewhere": sys.argv[2]} if len(sys.argv) > 2 else {}
try:
    with fb.open(sys.argv[1], "r+", **options) as run:
        print(run.snapshots.numbers, "t" in [d.name for d in run.list()])
except fb.Conflict as e:
    print("Conflict", e)
"""

OTHER_SHM = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs other /dev/shm && exec "$0" "$@"')


@pytest.fixture
def elsewhere() -> tuple[str, ...]:
    """Before a command: it has another `/dev/shm`."""
    if subprocess.run([*OTHER_SHM, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no mount name space can be made here")
    return OTHER_SHM


def killed(place: Place, run_dir: Path) -> None:
    ended(place.python(WRITE, run_dir), -signal.SIGKILL)
    assert place.segments()


def opened(place: Place, under: tuple[str, ...], *words: str | Path, **variables: str) -> tuple[str, str]:
    """What the program prints, and what is said on standard error."""
    env = {**place.env, **variables}
    return ended(place.start(*under, sys.executable, "-c", OPEN, *words, env=env))


def test_a_killed_run_is_refused_elsewhere_and_whole_at_home(
    place: Place, run_dir: Path, elsewhere: tuple[str, ...]
) -> None:
    killed(place, run_dir)
    for words in ((), ("refuse",)):
        out, _ = opened(place, elsewhere, run_dir, *words)
        assert out.startswith("Conflict") and "another /dev/shm" in out and "abandon" in out
    out, err = opened(place, (), run_dir)
    assert (out, err) == ("[0, 1, 2] True\n", "")
    assert not place.segments()


def test_a_copy_of_a_killed_run_does_not_take_what_the_run_has_in_memory(place: Place, run_dir: Path) -> None:
    killed(place, run_dir)
    copy = run_dir.with_name("copy.fb")
    shutil.copytree(run_dir, copy)
    out, _ = opened(place, (), copy)
    assert out.startswith(f"Conflict the run {copy} is a copy of {run_dir}, made before")
    out, err = ended(place.forebay("recover", copy), 1)
    assert f"`forebay recover {run_dir}`" in err and "Traceback" not in err
    for words in (("ls",), ("verify",)):
        said = place.command(*words, copy)
        assert f"copy of {run_dir}, and lacks what that run has in memory" in said
        assert f"`forebay recover {run_dir}`" in said and f"`forebay recover {copy}`" not in said
    said = place.command("repair", copy)
    assert f"`forebay recover {run_dir}`" in said and f"`forebay recover {copy}`" not in said
    out, err = opened(place, (), copy, "abandon")
    assert out.startswith("[0") and "what was in memory then is not in the copy" in err
    with fb.open(copy, "w") as run:
        assert run.list() == []
    out, err = opened(place, (), run_dir)
    assert (out, err) == ("[0, 1, 2] True\n", "")
    assert not place.segments()


def test_a_copy_of_a_run_that_is_written_is_told_from_it(place: Place, run_dir: Path) -> None:
    with fb.open(run_dir, "w") as run:
        with run.snapshot(0) as s:
            s.put("E", np.zeros(1000))
        run.flush()
        copy = run_dir.with_name("copy.fb")
        shutil.copytree(run_dir, copy)
        out, _ = opened(place, (), copy)
        assert out.startswith(f"Conflict the run {copy} is a copy of {run_dir}")
        with fb.open(copy, "r") as seen:
            assert seen.snapshots.numbers == [0]
        out, _ = opened(place, (), copy, "abandon")
        assert out == "[0] False\n"
        with run.snapshot(1) as s:
            s.put("E", np.ones(1000))
    with fb.open(run_dir, "r") as run:
        assert run.snapshots.numbers == [0, 1]


@pytest.mark.parametrize("way", ["keyword", "variable", "command"])
def test_what_lies_elsewhere_is_given_up_on_demand_and_freed_at_home(
    place: Place, run_dir: Path, elsewhere: tuple[str, ...], way: str
) -> None:
    killed(place, run_dir)
    if way == "command":
        out, err = ended(place.forebay("recover", "--abandon", run_dir, under=elsewhere))
    elif way == "keyword":
        out, err = opened(place, elsewhere, run_dir, "abandon")
    else:
        out, err = opened(place, elsewhere, run_dir, FOREBAY_ELSEWHERE="abandon")
    assert "given up" in err, out
    out, err = opened(place, (), run_dir)
    assert out.startswith("[0") and "freed" in err
    assert not place.segments()
    code = "import sys, forebay as fb; r = fb.open(sys.argv[1], 'r'); print(r.sql('select text from fb_messages')['text'])"
    assert "given up" in place.run_python(code, run_dir)


WRITES = """
import sys, numpy as np, forebay as fb
try:
    with fb.open(sys.argv[1], buffer="2MiB", full="block") as run:
        for step in range(20):
            with run.snapshot(step) as s:
                s.put("u", np.full(62_500, float(step)))
        print(run.stats()["owner"])
except fb.Conflict as e:
    print("Conflict", e)
"""


def test_a_program_that_sees_another_memory_than_the_agent_needs_none_or_is_told(
    place: Place, run_dir: Path, elsewhere: tuple[str, ...]
) -> None:
    place.command("up")
    words = [*elsewhere, sys.executable, "-c", WRITES]
    assert ended(place.start(*words, run_dir))[0] == "embedded\n"
    code = "import sys, forebay as fb; print(fb.open(sys.argv[1], 'r').snapshots.numbers)"
    assert place.run_python(code, run_dir) == f"{list(range(20))}\n"
    one = {"PMI_RANK": "0", "PMI_SIZE": "2"}
    out, _ = ended(place.start(*words, run_dir.with_name("two.fb"), env={**place.env, **one}))
    assert out.startswith("Conflict the agent") and "sees another /dev/shm" in out, out


def test_a_wrong_word_is_named(place: Place, run_dir: Path) -> None:
    code = "import sys, forebay as fb; fb.open(sys.argv[1], elsewhere='perhaps')"
    _, err = ended(place.python(code, run_dir), 1)
    assert "BadArgument" in err and '"abandon"' in err


def test_memory_of_a_deleted_run_is_named_by_status_recover_and_doctor_which_frees_it(
    place: Place, run_dir: Path
) -> None:
    killed(place, run_dir)
    shutil.rmtree(run_dir)
    other = run_dir.with_name("other.fb")
    place.run_python("import sys, forebay as fb; fb.open(sys.argv[1]).close()", other)
    for words in (("status",), ("doctor",), ("recover", other)):
        assert f"of the run {run_dir}, which is no more there" in place.command(*words), words
    assert place.segments()
    assert "freed" in place.command("doctor", "--clean")
    assert not place.segments()


def test_what_a_killed_program_has_in_memory_is_named_by_those_who_read_its_run(
    place: Place, run_dir: Path
) -> None:
    killed(place, run_dir)
    for words in (("ls",), ("verify",)):
        out = place.command(*words, run_dir)
        assert (
            f"a rank that died has data in memory that are not in here yet: `forebay recover {run_dir}`"
            in out
        )
    assert json.loads(place.command("ls", run_dir, "--json"))["sessions_in_memory"] == 1
    assert json.loads(place.command("verify", run_dir, "--json"))["sessions_in_memory"] == 1
    assert f"of the run {run_dir}" in place.command("status")
    place.command("recover", run_dir)
    for words in (("ls",), ("verify",)):
        assert "memory" not in place.command(*words, run_dir)
    assert "memory" not in place.command("status")


def test_a_recovery_waits_for_an_agent_that_settles_what_dead_ranks_have_left(
    place: Place, run_dir: Path
) -> None:
    place.command("up")
    code = "import sys, forebay as fb\nrun = fb.open(sys.argv[1])\nrun.flush()\nprint('there', flush=True)\nsys.stdin.read(1)\nrun.put('t', 'kept')\nprint('put', flush=True)\nsys.stdin.read()"
    rank = place.python(code, run_dir, stdin=subprocess.PIPE)
    hear(rank, "there")
    assert rank.stdin is not None
    catalog = sqlite3.connect(run_dir / "catalog.sqlite", isolation_level=None)
    catalog.execute("begin immediate")
    rank.stdin.write("x")
    rank.stdin.flush()
    hear(rank, "put")
    rank.kill()
    recovery = place.forebay("recover", run_dir)
    assert recovery.stderr is not None
    assert "settles what the ranks that died have left" in recovery.stderr.readline()
    catalog.execute("rollback")
    catalog.close()
    out, err = ended(recovery)
    assert (out, err) == (f"{run_dir}: complete; it has no snapshots\n", "")
    with fb.open(run_dir, "r") as run:
        assert run["t"] == "kept"
    rank.wait()


def test_a_recovery_that_begins_at_the_moment_of_a_kill_waits_for_the_agent(
    place: Place, run_dir: Path
) -> None:
    place.command("up")
    code = "import sys, os, signal, numpy as np, forebay as fb\nrun = fb.open(sys.argv[1])\nrun.restart()\nfor n in range(int(sys.argv[2]), int(sys.argv[2]) + 3):\n    with run.snapshot(n) as s:\n        s.put('E', np.full(100_000, float(n)))\nos.kill(os.getpid(), signal.SIGKILL)"
    for n in range(8):
        ended(place.python(code, run_dir, str(3 * n)), -signal.SIGKILL)
        assert f"complete up to step {3 * n + 2}" in place.command("recover", run_dir)


def test_memory_of_a_run_that_was_renamed_is_named_with_its_new_name_and_not_freed(
    place: Place, run_dir: Path
) -> None:
    killed(place, run_dir)
    there = run_dir.with_name("there.fb")
    run_dir.rename(there)
    for in_its_place in (False, True):
        if in_its_place:
            with fb.open(run_dir) as run:
                run.put("other", 1.0)
        for words in (("status",), ("doctor", "--clean")):
            assert f"of the run {there}, which `forebay recover {there}`" in place.command(*words)
    assert place.command("recover", there) == f"{there}: complete up to step 2\n"
    assert not place.segments()


@contextlib.contextmanager
def held(run_dir: Path) -> Iterator[None]:
    """This process is the one that has the run."""
    lock = run_dir / "LOCK"
    with lock.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        before = file.read()
        lock.write_text(json.dumps({**json.loads(before), "pid": os.getpid()}))
        yield
        lock.write_text(before)


def test_memory_of_a_session_that_was_read_or_that_somebody_has_is_nobodys_to_give_up(
    place: Place, run_dir: Path
) -> None:
    killed(place, run_dir)
    with held(run_dir):
        assert "abandon" not in place.command("status") and f"of the run {run_dir}" not in place.command(
            "status"
        )
    catalog = sqlite3.connect(run_dir / "catalog.sqlite")
    for how, said in (
        ("read", f"`forebay recover {run_dir}` or its next opening frees it"),
        ("gone", "--abandon"),
    ):
        catalog.execute("update fb_sessions set closed = 1")
        catalog.execute("update fb_custody set ended = ?", [how])
        catalog.commit()
        catalog.execute("pragma wal_checkpoint(truncate)")
        told = place.command("status")
        assert said in told and ("--abandon" in told) == (how == "gone")
    catalog.close()
    place.command("recover", "--abandon", run_dir)
    assert not place.segments()


def test_what_a_session_had_beside_its_buffer_is_named_as_the_session_is(place: Place, run_dir: Path) -> None:
    killed(place, run_dir)
    (name,) = place.segments()
    shm = Path(place.variables.get("FOREBAY_SHM_DIR", "/dev/shm"))
    over = name.replace("-run-", "-over-") + "-0"
    shutil.copy(shm / name, shm / over)
    catalog = sqlite3.connect(run_dir / "catalog.sqlite")
    catalog.execute("update fb_sessions set closed = 1")
    catalog.execute("update fb_custody set ended = 'abandoned'")
    catalog.commit()
    catalog.execute("pragma wal_checkpoint(truncate)")
    catalog.close()
    told = place.command("status")
    assert "on disk or was given up" in told and "brings to disk" not in told
    place.command("recover", run_dir)
    assert not place.segments()


def test_a_run_that_lost_its_catalog_behind_a_killed_program_is_recovered_by_one_command(
    place: Place, run_dir: Path
) -> None:
    killed(place, run_dir)
    for name in ("catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm"):
        (run_dir / name).unlink(missing_ok=True)
    said = place.command("recover", run_dir, status=1)
    assert "no catalog, which is made anew" in said and "complete up to step 2" in said
    with fb.open(run_dir, "r") as run:
        assert run.snapshots.numbers == [0, 1, 2] and run["t"] == "kept"
    assert place.command("recover", run_dir) == f"{run_dir}: complete up to step 2\n"


def test_a_deleted_run_is_named_by_recover_with_what_frees_its_memory(place: Place, run_dir: Path) -> None:
    killed(place, run_dir)
    shutil.rmtree(run_dir)
    assert "`forebay doctor --clean` frees it" in place.command("recover", run_dir, status=1)
    place.command("doctor", "--clean")


READ = "import sys, forebay as fb; print(len(fb.open(sys.argv[1], 'r').snapshots))"


def test_who_reads_a_run_of_a_killed_program_is_told_what_is_in_memory_still(
    place: Place, run_dir: Path
) -> None:
    killed(place, run_dir)
    _, said = ended(place.python(READ, run_dir))
    line = f"forebay: {run_dir}: a rank that died has data in memory that are not in here yet: "
    assert said == f"{line}`forebay recover {run_dir}` writes them\n"
    with held(run_dir):
        assert ended(place.python(READ, run_dir))[1] == "", "who has the run writes them"
    place.command("recover", run_dir)
    assert ended(place.python(READ, run_dir)) == ("3\n", "")
