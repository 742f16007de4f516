"""A run that somebody holds open for reading while others write it, begin it anew, mend it, or close it in the same program."""

from __future__ import annotations

import inspect
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from conftest import Place, until
from places import ended


def write(path: Path, mode: str, first: int, count: int) -> None:
    with fb.open(path, mode) as run:
        run.restart()
        for step in range(first, first + count):
            with run.snapshot(step) as s:
                s.put("E", np.full(3000, float(step)))
        run.put("last", first + count - 1)
        run.put("large", np.full(20000, float(first)))


# The same for another process.
WRITE = f"""
from __future__ import annotations
import sys, numpy as np, forebay as fb
{inspect.getsource(write)}
write(*sys.argv[1:3], *map(int, sys.argv[3:5]))
"""


def test_who_holds_a_run_that_is_begun_anew_is_told_to_open_it_again(run_dir: Path, owner: str) -> None:
    write(run_dir, "w", 0, 5)
    held = fb.open(run_dir, "r")
    kept = held.snapshots[-1]
    assert held.snapshots.numbers == [0, 1, 2, 3, 4] and held.get("last") == 4
    write(run_dir, "w", 0, 2)
    for ask in (
        lambda: held.snapshots.numbers,
        lambda: held.get("last"),
        lambda: held.get("large"),
        lambda: held.list(),
        lambda: held.sql("select 1"),
        lambda: kept["E"],
    ):
        with pytest.raises(fb.Conflict, match=r"begun anew.*; open it again"):
            ask()
    held.close()
    with fb.open(run_dir, "r") as again:
        assert again.snapshots.numbers == [0, 1] and again.get("last") == 1


def test_who_holds_a_run_that_is_repaired_or_put_back_goes_on_with_it(place: Place, run_dir: Path) -> None:
    write(run_dir, "w", 0, 3)
    backup = run_dir.with_name("backup.fb")
    shutil.copytree(run_dir, backup)
    with fb.open(run_dir, "r") as held:
        assert len(held.snapshots) == 3
        write(run_dir, "a", 3, 2)
        assert len(held.snapshots) == 5
        # As `rsync` puts a file in the place of another.
        shutil.copy(backup / "catalog.sqlite", run_dir / "new")
        (run_dir / "new").rename(run_dir / "catalog.sqlite")
        assert len(held.snapshots) == 3
        place.forebay("recover", run_dir).communicate(timeout=60)
        assert held.snapshots.numbers == [0, 1, 2, 3, 4]
        np.testing.assert_array_equal(held.snapshots[-1]["E"], np.full(3000, 4.0))


def test_who_holds_a_run_that_is_deleted_is_told(run_dir: Path) -> None:
    write(run_dir, "w", 0, 1)
    with fb.open(run_dir, "r") as held:
        assert len(held.snapshots) == 1
        shutil.rmtree(run_dir)
        with pytest.raises(fb.NotFound, match="moved or deleted since it was opened here"):
            _ = held.snapshots.numbers


SEEN = "import sys, forebay as fb; r = fb.open(sys.argv[1], 'r'); print(r.snapshots.numbers, r.get('last'))"
LOOK = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('select count(*) from fb_steps').fetchone(); c.close()"


@pytest.mark.parametrize("how", ["sqlite", "run"])
def test_who_holds_a_run_sees_what_others_write_though_the_program_closes_the_catalog_elsewhere(
    place: Place, run_dir: Path, how: str
) -> None:
    write(run_dir, "w", 0, 1)
    with fb.open(run_dir, "r") as held, fb.open(run_dir, "r") as other:
        assert len(held.snapshots) == len(other.snapshots) == 1
        numbers = iter(range(1, 100))
        for _ in range(4):
            if how == "sqlite":
                look = sqlite3.connect(f"file:{run_dir}/catalog.sqlite?mode=ro", uri=True)
                look.execute("select count(*) from fb_steps").fetchone()
                look.close()
            else:
                write(run_dir, "a", next(numbers), 1)
                fb.open(run_dir, "r").close()
            ended(place.python(WRITE, run_dir, "a", str(next(numbers)), "1"))
            subprocess.run([sys.executable, "-c", LOOK, str(run_dir / "catalog.sqlite")], check=True)
            ended(place.python(WRITE, run_dir, "a", str(next(numbers)), "1"))
            seen = place.run_python(SEEN, run_dir)
            assert f"{held.snapshots.numbers} {held.get('last')}" == seen.strip()
            assert other.snapshots.numbers == held.snapshots.numbers


def test_a_log_that_was_replaced_under_who_holds_a_run_is_told_and_not_read_by_the_wrong_index(
    place: Place, run_dir: Path
) -> None:
    write(run_dir, "w", 0, 1)
    with fb.open(run_dir, "r") as held:
        assert len(held.snapshots) == 1
        for end in ("-wal", "-shm"):
            run_dir.joinpath(f"catalog.sqlite{end}").unlink()
        ended(place.python(WRITE, run_dir, "a", "1", "1"))
        with pytest.raises(fb.Conflict, match=r"log .* was replaced"):
            _ = held.snapshots.numbers
        with pytest.raises(fb.Conflict, match="close the run in all of this program"):
            _ = fb.open(run_dir, "r").snapshots.numbers
    with fb.open(run_dir, "r") as fresh:
        assert fresh.snapshots.numbers == [0, 1]


def test_a_reader_that_ends_leaves_no_file_open(run_dir: Path) -> None:
    write(run_dir, "w", 0, 1)
    count = lambda: len(list(Path("/proc/self/fd").iterdir()))  # noqa: E731

    def look() -> None:
        with fb.open(run_dir, "r") as run:
            assert len(run.snapshots) == 1

    look()
    before = count()
    for _ in range(20):
        look()
    until(lambda: count() <= before, 20, "the end of the files")
