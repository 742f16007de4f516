"""Programs that count their snapshots by themselves, so that the number of one is not that of its state."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import forebay as fb
import pytest
from places import ROOT, Place, ended, hear

STEPS = 60
# A state of six cells, cut into as many pieces as there are ranks; snapshot 7 is of step 70. Told to stop it waits
# there to be killed.
PROGRAM = """
import sys, time, forebay as fb, numpy as np
from pathlib import Path
path, where, row, who, stop = *sys.argv[1:5], int(sys.argv[5])
told = Path(path + ".told")
with fb.open(path, buffer="4MiB") as run:
    mine = slice(run.rank * 6 // run.size, (run.rank + 1) * 6 // run.size)
    history = run.table("history", {"step": "i64", "x": "f64"}, history=True)
    kept = run.diagram("kept", "history")
    x, start = np.linspace(0.1, 0.9, 6)[mine], None
    if who == "all" or run.rank == 0:
        back = run.restart()
        if run.rank == 0:
            told.write_text(str(back.step) + "." if back is not None else "none.")
    while not (told.exists() and told.read_text().endswith(".")):
        time.sleep(0.01)
    if (number := told.read_text()[:-1]) != "none":
        with fb.open(path, "r") as before:
            x = before.snapshots.at(int(number)).get("x", np.s_[mine])
        start = 10 * int(number)

    def note(step):
        if run.rank == 0:
            history.insert((step, x[0]))
        kept.append(0.1 * step, w=float(step))

    def keep(number):
        with run.snapshot(number) as s:
            s.put("x", x, offset=mine.start, shape=6)

    for step in run.steps(60, start=start):
        if step == stop:
            run.flush()
            print("half", flush=True)
            sys.stdin.readline()
        if row == "first":
            note(step)
        if where == "top" and step % 10 == 0:
            keep(step // 10)
        x = 3.9 * x * (1.0 - x) + 1e-4 * np.sin(step + np.arange(mine.start, mine.stop))
        if row == "last":
            note(step)
        if where == "bottom" and step % 10 == 9:
            keep((step + 1) // 10)
"""


def outcome(run_dir: Path) -> tuple[dict[int, list[float]], list[list[float]], list[list[float]]]:
    """States, rows and points, with all their bits."""
    with fb.open(run_dir, "r") as run:
        states = {kept.step: kept["x"].tolist() for kept in run.snapshots}
        rows = run.sql("select step, x from history order by rowid")
        points = run.sql("select t, value from fb_points order by rowid")
        return states, [[r["step"], r["x"]] for r in rows], [[p["t"], p["value"]] for p in points]


def run_all(place: Place, ranks: int, *words: str | Path, stop: int = -1) -> None:
    """All ranks to their end, or killed at a step."""
    Path(f"{words[0]}.told").unlink(missing_ok=True)
    started = place.ranks(ranks, sys.executable, "-c", PROGRAM, *words, str(stop), stdin=subprocess.PIPE)
    for one in started:
        if stop >= 0:
            hear(one, "half")
    for one in started:
        if stop >= 0:
            one.kill()
            one.communicate()
        else:
            ended(one)


@pytest.mark.parametrize(
    ("where", "row", "before", "after", "who"),
    [
        ("top", "first", 1, 1, "all"),
        ("top", "last", 1, 1, "all"),
        ("bottom", "first", 1, 1, "all"),
        ("bottom", "last", 1, 1, "all"),
        ("top", "first", 2, 2, "all"),
        ("bottom", "last", 2, 3, "all"),
        ("top", "last", 2, 2, "rank 0"),
        ("bottom", "first", 3, 2, "rank 0"),
    ],
)
def test_a_run_whose_snapshots_are_counted_by_the_program_goes_on_as_if_it_had_not_been_killed(
    tmp_path: Path, place: Place, where: str, row: str, before: int, after: int, who: str
) -> None:
    run_dir, twin = tmp_path / "run.fb", tmp_path / "twin.fb"
    run_all(place, before, run_dir, where, row, who, stop=37)
    run_all(place, after, run_dir, where, row, who)
    run_all(place, 1, twin, where, row, "all")
    assert outcome(run_dir) == outcome(twin)
    assert len(outcome(run_dir)[1]) == STEPS


def compute(run_dir: Path, n: int, start: int | None = None) -> None:
    """Snapshot 7 is of step 70; a row for each step."""
    with fb.open(run_dir) as run:
        history = run.table("history", {"x": "i64"}, history=True)
        if start is not None:
            run.restart()
        for step in run.steps(n, start=start):
            history.insert((step,))
            if step % 10 == 0:
                with run.snapshot(step // 10) as s:
                    s.put("x", float(step))


def rows(run_dir: Path, column: str = "x") -> list[int]:
    with fb.open(run_dir, "r") as run:
        return run.sql(f"select {column} from history order by rowid")[column].tolist()


@pytest.mark.usefixtures("owner")
def test_where_the_loop_goes_on_is_said_by_the_program_or_refused(run_dir: Path) -> None:
    compute(run_dir, 48)
    with fb.open(run_dir) as run:
        back = run.restart()
        assert back is not None and back.step == 4 and run.position is None
        for start in (back, None, 4, 39, 42):
            with pytest.raises(fb.Conflict, match=r"snapshot 4 was taken at step 40.*start=40 .*start=41"):
                run.steps(60, start=start)
        assert next(iter(run.steps(60, start=41))) == 41
        history = run.table("history", {"x": "i64"}, history=True)
        assert history.select()["x"].tolist() == list(range(41)), "what stands before is kept"


@pytest.mark.usefixtures("owner")
def test_a_second_restart_takes_nothing_of_what_stands_before_the_step_where_it_goes_on(
    run_dir: Path,
) -> None:
    compute(run_dir, 38)
    compute(run_dir, 47, start=30)
    compute(run_dir, 60, start=40)
    assert rows(run_dir) == list(range(60))
    with fb.open(run_dir, "r") as run:
        assert run.snapshots.numbers == [0, 1, 2, 3, 4, 5]
        assert [float(kept["x"]) for kept in run.snapshots] == [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]


def test_a_program_that_calls_back_goes_on_at_the_step_of_its_snapshot_or_behind(run_dir: Path) -> None:
    def attempt(first: int, last: int) -> None:
        with fb.open(run_dir) as run:
            history = run.table("history", {"x": "i64"}, history=True)
            if (back := run.restart()) is not None:
                with pytest.raises(fb.Conflict, match=f"snapshot {back.step} was taken at step {first}"):
                    run.reach(first - 1)
            for step in range(first, last):
                run.reach(step)
                history.insert((step,))
                if step % 10 == 0:
                    with run.snapshot(step // 10) as s:
                        s.put("x", float(step))

    attempt(0, 38)
    attempt(30, 60)
    assert rows(run_dir) == list(range(60))


def test_what_keeps_states_is_called_again_where_the_program_goes_on(run_dir: Path) -> None:
    def attempt(start: int | None, until: int) -> None:
        with fb.open(run_dir) as run:
            history = run.table("history", {"x": "i64"}, history=True)
            back = run.restart()
            assert (back is None) == (start is None)

            @run.saves(every=20)
            def keep(step: int) -> None:
                with run.snapshot(2 * (step // 20) + (step % 20 > 0)) as s:
                    s.put("x", float(step))
                history.insert((step,))

            for step in run.steps(60, start=start):
                if step == until:
                    run.finish()

    attempt(None, 30)
    attempt(31, 60)
    assert rows(run_dir) == [0, 20, 31, 40, 60]


def test_ranks_that_go_on_at_different_steps_are_told(tmp_path: Path, place: Place) -> None:
    run_dir = tmp_path / "run.fb"
    run_all(place, 2, run_dir, "top", "first", "all", stop=37)
    program = """
import sys, forebay as fb
run = fb.open(sys.argv[1])
run.restart()
print("back", flush=True)
sys.stdin.readline()
try:
    run.steps(60, start=30 + run.rank)
    print("goes on")
except fb.Conflict as e:
    print("give all ranks the same start" in str(e))
run.close()
"""
    ranks = place.ranks(2, sys.executable, "-c", program, run_dir, stdin=subprocess.PIPE)
    for rank in ranks:
        hear(rank, "back")
    said = [rank.communicate("\n", timeout=60)[0].strip() for rank in ranks]
    assert sorted(said) == ["True", "goes on"]


def test_where_a_loop_goes_on_is_in_the_file_of_the_step_too(run_dir: Path, place: Place) -> None:
    compute(run_dir, 38)
    assert "sound" in place.command("verify", run_dir)
    for file in run_dir.glob("catalog.sqlite*"):
        file.unlink()
    place.command("repair", run_dir, status=1)
    with fb.open(run_dir) as run:
        back = run.restart()
        with pytest.raises(fb.Conflict, match="snapshot 3 was taken at step 30"):
            run.steps(60, start=back)
        assert next(iter(run.steps(60, start=30))) == 30


@pytest.mark.usefixtures("owner")
def test_without_a_loop_what_was_written_behind_the_last_snapshot_is_written_again(run_dir: Path) -> None:
    for first, last in ((0, 8), (6, 12)):
        with fb.open(run_dir) as run:
            history = run.table("history", {"x": "i64"}, history=True)
            kept = run.diagram("kept", "history")
            back = run.restart()
            assert (None if back is None else back.step) == (None if first == 0 else first // 3)
            for i in range(first, last):
                if i % 3 == 0 and (back is None or i // 3 > back.step):
                    with run.snapshot(i // 3) as s:
                        s.put("x", float(i))
                history.insert((i,))
                kept.append(float(i), w=float(i))
    assert rows(run_dir) == list(range(12))
    with fb.open(run_dir, "r") as run:
        assert run.sql("select t from fb_points order by rowid")["t"].tolist() == [
            float(i) for i in range(12)
        ]


def test_a_run_of_format_1_goes_on_where_the_program_says(run_dir: Path) -> None:
    shutil.copytree(ROOT / "crates/store/tests/golden/version-1", run_dir)
    before = rows(run_dir, "n")
    with fb.open(run_dir) as run:
        back = run.restart()
        assert back is not None and back.step == 2
        with pytest.raises(fb.Conflict, match="snapshot 2 was written before the number"):
            run.steps(5, start=back)
        assert rows(run_dir, "n") == before, "nothing is taken away before that is said"
        assert list(run.steps(5, start=2)) == [2, 3, 4]
    assert rows(run_dir, "n") == [n for n in before if n < 2]


def test_the_state_behind_a_complete_loop_has_the_next_number_and_the_run_goes_on_there(
    run_dir: Path,
) -> None:
    def go(n: int) -> int:
        with fb.open(run_dir) as run:
            snap = run.restart()
            x, start = (0, None) if snap is None else (int(snap["x"]), 10 * snap.step)
            for step in run.steps(n, start=start):
                if step % 10 == 0:
                    with run.snapshot(step // 10) as s:
                        s.put("x", x)
                x += 1
            with run.snapshot(n // 10) as s:
                s.put("x", x)
            assert s.taken
            return x

    assert (go(20), go(40)) == (20, 40)
    with fb.open(run_dir) as run:
        assert run.snapshots.numbers == [0, 1, 2, 3, 4]
        assert run.restart() is not None
        with pytest.raises(fb.Conflict, match=r"where a loop had ended at step 40, .*start=40"):
            run.steps(60, start=41)
