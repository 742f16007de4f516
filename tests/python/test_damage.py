"""Runs whose files are not what they were: who reads them is told, who goes on passes them over."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sqlite3
import struct
import subprocess
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from conftest import Agent, Place, forebay_exe
from places import hear
from test_bad_things import unwritable


def flip(file: Path, value: float) -> None:
    """Turns a bit of an array of one value over."""
    content = bytearray(file.read_bytes())
    content[content.index(struct.pack("<d", value) * 10) + 11] ^= 4
    file.write_bytes(content)


def step_file(run_dir: Path, step: int) -> Path:
    return run_dir / "steps" / f"{step:010}.h5"


def command(*words: str | Path, status: int = 0) -> str:
    """Runs the command to its end; what it printed."""
    exe = forebay_exe()
    assert exe is not None
    done = subprocess.run([exe, *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def write(run_dir: Path, steps: int = 4) -> None:
    """A run with snapshots, a table, a large data set and a small one."""
    with fb.open(run_dir, buffer="32MiB") as run:
        run.put("large", np.full(50_000, 0.125))
        run["small"] = np.arange(4.0)
        run.table("t", columns={"k": "i64"}).insert([(k,) for k in range(100)])
        for step in range(steps):
            with run.snapshot(step) as s:
                s.put("E", np.full((100, 3000), step + 0.5))
                s.put("x", np.full(200, step + 0.25))


@pytest.mark.usefixtures("owner")
def test_a_bit_that_flipped_is_seen_by_who_reads_the_whole(run_dir: Path) -> None:
    write(run_dir)
    flip(step_file(run_dir, 3), 3.5)
    flip(next((run_dir / "data").iterdir()), 0.125)
    for mode in ("r", "a"):
        with fb.open(run_dir, mode, buffer="32MiB") as run:  # type: ignore[arg-type]
            last = run.snapshots[-1]
            with pytest.raises(fb.Corrupt, match=r'"E" of step 3 .*0000000003\.h5 .*forebay drop'):
                last["E"]
            with pytest.raises(fb.Corrupt, match=r'"large" set 0 .*data/.*forebay rm'):
                run["large"]
            assert (last["x"] == 3.25).all()
            assert (last.get("E", sel=np.s_[50:]) == 3.5).all(), "a part without that bit"
            assert (run.snapshots[-2]["E"] == 2.5).all()
            assert run["small"].tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.usefixtures("owner")
def test_a_file_that_is_cut_off_or_gone_is_damaged(run_dir: Path) -> None:
    write(run_dir)
    os.truncate(step_file(run_dir, 3), 1_000_000)
    step_file(run_dir, 2).unlink()
    with fb.open(run_dir, "r") as run:
        with pytest.raises(fb.Corrupt, match="too early"):
            run.snapshots.at(3)["E"]
        with pytest.raises(fb.Corrupt, match="is not there"):
            run.snapshots.at(2)["E"]


@pytest.mark.usefixtures("owner")
def test_a_damaged_snapshot_is_marked_passed_over_and_made_anew(run_dir: Path) -> None:
    write(run_dir)
    flip(step_file(run_dir, 3), 3.5)
    assert "1 fault;" in command("verify", run_dir, status=1)
    said = command("repair", run_dir, status=1)
    assert "snapshot 3 is damaged" in said
    assert "damaged snapshots, passed over: 3" in command("ls", run_dir)
    with fb.open(run_dir, "r") as run:
        assert run.snapshots.numbers == [0, 1, 2]
        assert (run.snapshots.at(3)["x"] == 3.25).all(), "what is whole in it can be read"
    with fb.open(run_dir, buffer="32MiB") as run, pytest.raises(fb.Conflict, match="complete steps up to 2"):
        run.snapshot(3)
    with fb.open(run_dir, buffer="32MiB") as run:
        with pytest.raises(fb.Corrupt, match="step 3 is damaged"):
            run.restart(strict=True)
        snap = run.restart()
        assert snap is not None
        assert (snap.step, snap.passed) == (2, [3])
        with run.snapshot(3) as s:
            s.put("E", np.full(9, 7.0))
        run.flush()
        assert run.snapshots[-1]["E"].tolist() == [7.0] * 9
    assert "sound; 4 snapshots" in command("verify", run_dir)
    command("repair", run_dir)


@pytest.mark.usefixtures("owner")
def test_a_snapshot_is_dropped_and_its_number_is_free(run_dir: Path) -> None:
    write(run_dir)
    with fb.open(run_dir, buffer="32MiB") as run:
        with pytest.raises(fb.Conflict):
            run.snapshot(3)
        assert run.drop(3) is True
        assert run.drop(3) is False
        assert run.snapshots.numbers == [0, 1, 2]
        snap = run.restart()
        assert snap is not None and snap.step == 2
        with run.snapshot(3) as s:
            s.put("E", np.full(9, 7.0))
        s.wait()
        # One that was just ended is dropped when it is complete.
        with run.snapshot(4) as s:
            s.put("E", np.full(9, 8.0))
        assert run.drop(4)
        assert run.snapshots[-1]["E"].tolist() == [7.0] * 9
    assert not step_file(run_dir, 4).exists()
    assert "sound; 4 snapshots" in command("verify", run_dir)


def test_the_command_drops_a_snapshot(run_dir: Path) -> None:
    write(run_dir, 9)
    with fb.open(run_dir) as run:
        run.checkpoint("kept")
    asked = command("drop", run_dir, "1..8", status=1)
    assert "8 snapshots, 1 to 8" in asked and "1 of them kept as checkpoints" in asked and "--yes" in asked
    assert "snapshot 1 dropped" in command("drop", run_dir, "1", "--yes")
    assert "no snapshot 1" in command("drop", "--yes", run_dir, "2", "1", status=1)
    for bad in ("x", "5..3", "1.."):
        assert "such as 1000..2000" in command("drop", "--yes", run_dir, bad, status=1)
    assert "6 snapshots dropped, 0 to 8" in command("drop", "-y", run_dir, "0..4", "3", "7..8")
    with fb.open(run_dir, "r") as run:
        assert run.snapshots.numbers == [5, 6]


@pytest.mark.usefixtures("no_agent")
def test_repair_saves_the_rows_around_a_broken_page_and_says_how_many_are_lost(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        run["small"] = np.arange(4.0)
        run.attrs["deck"] = "es1"
        t = run.table("t", columns={"k": "i64", "s": "str"})
        t.insert([(k, "x" * 50) for k in range(20_000)])
    catalog = run_dir / "catalog.sqlite"
    content = bytearray(catalog.read_bytes())
    page = content.index(b"x" * 50, len(content) // 2) // 16384 * 16384
    content[page : page + 16384] = b"\xff" * 16384
    catalog.write_bytes(content)
    said = command("repair", run_dir, status=1)
    assert "t: 19" in said and "are lost" in said and "catalog.damaged-1.sqlite" in said
    with fb.open(run_dir, "r") as run:
        assert 19_500 < len(run.table("t").select()) < 20_000
        assert run["small"].tolist() == [0.0, 1.0, 2.0, 3.0]
        assert run.attrs["deck"] == "es1"
    assert "sound" in command("verify", run_dir)


REMOVED = """
import sys, numpy as np, forebay as fb
run = fb.open(sys.argv[1], buffer="16MiB")
t = run.table("t", columns={"k": "i64"})
t.insert([(k,) for k in range(100)])
with run.snapshot(0) as s:
    s.put("x", np.ones(1000))
run.flush()
print("ready", flush=True)
sys.stdin.readline()
t.insert([(k,) for k in range(100, 150)])
try:
    run.flush()
    print("durable", flush=True)
except fb.Error as e:
    print(type(e).__name__, e, flush=True)
"""


@pytest.mark.parametrize("keeper", ["embedded", "agent", "other host"])
def test_a_catalog_removed_under_a_living_owner_makes_nothing_durable_and_is_saved(
    place: Place, agent: Agent, run_dir: Path, keeper: str
) -> None:
    place.variables["FOREBAY_HOME"] = agent.place.variables["FOREBAY_HOME"]
    own = agent.place if keeper == "agent" else place
    where = agent.url(run_dir) if keeper == "other host" else run_dir
    program = own.python(REMOVED, where, stdin=subprocess.PIPE)
    hear(program, "ready")
    (run_dir / "catalog.sqlite").unlink()
    out, _ = program.communicate("\n", timeout=60)
    assert "durable\n" not in out.splitlines(keepends=True)
    assert "nothing more is durable" in out and "forebay recover" in out
    place.command("recover", run_dir)
    if keeper == "other host":
        # The rank's host keeps what it was not told to be durable, and offers it again.
        place.run_python("import sys, forebay as fb; fb.open(sys.argv[1], buffer='16MiB').close()", where)
    with fb.open(run_dir, "r") as run:
        assert [row["k"] for row in run.table("t").select()] == list(range(150))
        assert run.snapshots[-1]["x"].sum() == 1000.0


CRASHED = """
import os, signal, sys, forebay as fb
run = fb.open(sys.argv[1], buffer="16MiB")
run.table("t", columns={"k": "i64"}).insert([(k,) for k in range(100)])
run.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


LOOKING = """
import os, sqlite3, subprocess, sys
import forebay as fb

place, how, end = sys.argv[1:]
look = f'''
import sqlite3
found = sqlite3.connect("file:{place}/catalog.sqlite?mode={how}", uri=True)
print(found.execute("select count(*) from t").fetchone()[0])
found.close()
'''
run = fb.open(place, "a", rank=0, size=1)
table = run.table("t", {"k": "i64"})
for part in range(4):
    for k in range(10 * part, 10 * part + 10):
        with run.snapshot(k) as s:
            s.put("u", [1.0 * k])
        table.insert((k,))
    run.flush()
    exec(look)
    outside = look.replace("mode=ro", "mode=rw")
    print(subprocess.run([sys.executable, "-c", outside], capture_output=True, text=True, check=True).stdout, end="")
if end == "killed":
    os.kill(os.getpid(), 9)
run.close()
"""


@pytest.mark.parametrize("end", ["closed", "killed"])
@pytest.mark.parametrize("how", ["rw", "ro"])
def test_another_sqlite_in_the_program_that_closes_the_catalog_takes_nothing_away(
    place: Place, run_dir: Path, how: str, end: str
) -> None:
    program = place.python(LOOKING, run_dir, how, end)
    out, _ = program.communicate(timeout=60)
    assert out.split() == [f"{n}" for n in (10, 20, 30, 40) for _ in range(2)]
    assert program.returncode == (0 if end == "closed" else -signal.SIGKILL)
    assert (run_dir / "catalog.sqlite-wal").exists() == (end == "killed")
    place.command("recover", run_dir)
    assert "sound" in place.command("verify", run_dir)
    with fb.open(run_dir, "r") as run:
        assert run.snapshots.numbers == list(range(40))
        assert run.table("t").select()["k"].tolist() == list(range(40))


def test_a_copy_of_a_crashed_run_that_cannot_be_written_says_what_to_do(place: Place, tmp_path: Path) -> None:
    program = place.python(CRASHED, tmp_path / "r.fb")
    assert program.wait(60) == -signal.SIGKILL
    copy = tmp_path / "copy" / "r.fb"
    shutil.copytree(tmp_path / "r.fb", copy, ignore=shutil.ignore_patterns("*-shm"))
    assert (copy / "catalog.sqlite-wal").stat().st_size > 0
    with unwritable(copy.parent), pytest.raises(fb.ReadOnly, match="copy the run to a directory of your own"):
        fb.open(copy, "r")
    with fb.open(copy, "r") as run:
        assert len(run.table("t").select()) == 100
    place.command("recover", tmp_path / "r.fb")


def test_a_small_data_set_whose_bytes_changed_is_damaged(run_dir: Path) -> None:
    write(run_dir, 1)
    with sqlite3.connect(run_dir / "catalog.sqlite") as catalog:
        catalog.execute("update fb_data set value = ? where name = 'small'", [np.arange(1.0, 5.0).tobytes()])
    catalog.close()
    with fb.open(run_dir, "r") as run, pytest.raises(fb.Corrupt, match=r"catalog\.sqlite"):
        run["small"]
    assert "damaged: " in command("repair", run_dir, status=1)


def test_records_that_are_kept_aside_are_told_with_the_query_that_shows_them(run_dir: Path) -> None:
    write(run_dir)
    assert "kept aside" not in command("ls", run_dir) + command("verify", run_dir)
    with sqlite3.connect(run_dir / "catalog.sqlite") as catalog:
        catalog.execute("CREATE TABLE fb_unread(session INTEGER, seq INTEGER, why TEXT, record BLOB)")
        catalog.execute("INSERT INTO fb_unread VALUES(1, 7, 'there is no table hits', x'00')")
    catalog.close()
    for word in ("ls", "verify"):
        said = command(word, run_dir)
        assert "1 record that a program left" in said and "kept aside" in said
        query = re.search(r'`forebay sql (\S+) "(.*)"`', said)
        assert query is not None
        assert "there is no table hits" in command("sql", *query.groups())


def test_repair_ends_with_what_helps_against_what_it_found(run_dir: Path) -> None:
    write(run_dir)
    flip(step_file(run_dir, 3), 3.5)
    (run_dir / "steps" / "notes.txt").write_text("mine")
    said = command("repair", run_dir, status=1)
    assert f"`forebay drop {run_dir} 3`" in said and "tables" not in said and "forebay rm" not in said
    command("drop", run_dir, "3", "--yes")
    said = command("verify", run_dir)
    assert "no file of this run, left alone: steps/notes.txt" in said and "sound; 3 snapshots" in said
