"""One meaning of a step: snapshot N is the state after N steps, which the loop head finds before it computes step N."""

from __future__ import annotations

import sys
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from places import Place, ended, hear


def keep(run: fb.Run, step: int, x: float) -> bool:
    """Takes a snapshot of a state; says whether it was taken."""
    with run.snapshot(step) as s:
        s.put("x", x)
    return s.taken


def compute(run_dir: Path, n: int, stop: int | None = None, bottom: bool = False) -> list[int]:
    """Counts in `x` to `n` with a snapshot every five states, from where the run stopped; gives its heads."""
    heads = []
    with fb.open(run_dir) as run:
        back = run.restart()
        x = 0.0 if back is None else float(back["x"])
        for step in run.steps(n, start=back):
            heads.append(step)
            if not bottom and step % 5 == 0:
                keep(run, step, x)
            x += 1.0
            if bottom and (step + 1) % 5 == 0:
                keep(run, step + 1, x)
            if step == stop:
                break
    return heads


@pytest.mark.parametrize("bottom", [False, True])
def test_a_run_goes_on_with_the_step_of_its_last_snapshot_wherever_in_the_body_it_was_taken(
    run_dir: Path, bottom: bool
) -> None:
    compute(run_dir, 30, stop=17, bottom=bottom)
    assert compute(run_dir, 30, bottom=bottom) == list(range(15, 30))
    with fb.open(run_dir, "r") as run:
        first = 5 if bottom else 0
        assert run.snapshots.numbers == list(range(first, 31 if bottom else 30, 5))
        assert all(float(kept["x"]) == kept.step for kept in run.snapshots)


def test_a_loop_whose_body_goes_back_is_refused_at_its_next_head_and_another_one_goes_on(
    run_dir: Path,
) -> None:
    compute(run_dir, 12)
    with fb.open(run_dir) as run:
        back = run.restart()
        with pytest.raises(
            fb.Conflict, match="went back to step 10 in the body of a loop that comes to step 13"
        ):
            for step in run.steps(30, start=back):
                if step == 12:
                    back = run.restart()
        assert [step for step in run.steps(14, start=back)] == [10, 11, 12, 13]


def test_a_loop_of_a_program_that_goes_back_to_its_beginning_is_refused_too(run_dir: Path) -> None:
    with fb.open(run_dir) as run, pytest.raises(fb.Conflict, match="went back to its beginning"):
        for step in run.steps(30):
            if step == 3:
                assert run.restart() is None


def test_a_code_with_a_loop_of_its_own_goes_back_and_reaches_the_step_again(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        for step in range(8):
            assert run.reach(step)
            if step in (0, 5):
                keep(run, step, float(step))
        back = run.restart()
        assert back is not None and back.step == 5
        assert run.reach(5) and run.reach(6)


def noted(run_dir: Path) -> tuple[list[int], list[float]]:
    with fb.open(run_dir, "r") as run:
        points = run.sql("select t from fb_points order by rowid")["t"].tolist()
        return run.table("history").select()["step"].tolist(), points


def note(run: fb.Run, step: int) -> None:
    run.diagram("kept", "history").append(float(step), w=1.0)
    run.table("history", {"step": "i64"}, history=True).insert((step,))


def test_what_was_noted_of_the_last_state_stays_until_a_program_makes_it_again(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        for step in run.steps(3):
            keep(run, step, float(step))
            note(run, step)
        keep(run, 3, 3.0)
        note(run, 3)
    for again in (False, True, False):
        with fb.open(run_dir) as run:
            back = run.restart()
            assert back is not None and back.step == 3
            if again:
                note(run, 3)
        assert noted(run_dir) == ([0, 1, 2, 3], [0.0, 1.0, 2.0, 3.0]), f"again: {again}"


def test_a_loop_of_no_step_and_an_insert_of_no_row_take_nothing_away(
    run_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with fb.open(run_dir) as run:
        for step in run.steps(4):
            note(run, step)
        keep(run, 4, 4.0)
        note(run, 4)
    for _ in range(2):
        with fb.open(run_dir) as run:
            back = run.restart()
            assert back is not None
            run.table("history").insert([])
            own = run.table("own", {"step": "i64"}, history=True)
            own.insert((back.step,))
            assert not list(run.steps(back.step, start=back))
        assert noted(run_dir) == ([0, 1, 2, 3, 4], [0.0, 1.0, 2.0, 3.0, 4.0])
    with fb.open(run_dir, "r") as run:
        assert run.table("own").select()["step"].tolist() == [4]
    said = capfd.readouterr().err
    assert "is complete already" in said and "adds its own" not in said


def test_who_adds_to_a_history_of_its_own_takes_nothing_of_the_last_state_from_another_one(
    run_dir: Path,
) -> None:
    with fb.open(run_dir) as run:

        @run.saves(every=10)
        def _(step: int) -> None:
            keep(run, step, float(step))
            note(run, step)

        for _step in run.steps(20):
            pass
    means = []
    for _ in range(2):
        with fb.open(run_dir) as run:
            back = run.restart()
            assert back is not None
            run.table("means", {"step": "i64"}, history=True).insert((back.step,))
            run.diagram("means", "history").append(float(back.step) + 0.5, w=2.0)
        with fb.open(run_dir, "r") as run:
            means.append(run.table("means").select()["step"].tolist())
        assert noted(run_dir) == ([0, 10, 20], [0.0, 10.0, 20.0, 20.5])
    assert means == [[20], [20]]


def test_rows_that_are_made_on_the_way_to_a_state_and_rows_of_what_keeps_it_are_all_there_once(
    run_dir: Path,
) -> None:
    def attempt(until: int) -> None:
        with fb.open(run_dir) as run:
            way, kept = (run.table(name, {"step": "i64"}, history=True) for name in ("way", "kept"))
            back = run.restart()
            state = 0 if back is None else back.step

            @run.saves(every=50)
            def _(step: int) -> None:
                keep(run, step, float(step))
                kept.insert((step,))

            while state < until:
                state += 10
                way.insert((state,))
                run.reach(state)

    attempt(120)
    attempt(200)
    with fb.open(run_dir, "r") as run:
        assert run.table("way").select()["step"].tolist() == list(range(10, 201, 10))
        assert run.table("kept").select()["step"].tolist() == [50, 100, 150, 200]


def test_a_code_that_is_not_called_at_the_state_it_goes_on_from_keeps_what_was_noted_there(
    run_dir: Path,
) -> None:
    for first, last in ((0, 6), (6, 10), (9, 12)):
        with fb.open(run_dir) as run:
            back = run.restart()
            assert back is None or back.step == {6: 5, 9: 9}[first]
            for step in range(first, last):
                run.reach(step)
                if step in (5, 9):
                    keep(run, step, float(step))
                note(run, step)
    assert noted(run_dir) == (list(range(12)), [float(step) for step in range(12)])


def test_what_is_called_to_keep_a_state_does_not_number_it_as_the_next_one(run_dir: Path) -> None:
    with fb.open(run_dir) as run:

        @run.saves(every=5)
        def _(step: int) -> None:
            keep(run, step + 1 if step == 10 else step, float(step))

        with pytest.raises(fb.Conflict, match="keeps the state of step 10, and 11 is"):
            for _step in run.steps(30):
                pass
        assert run.snapshots.numbers == [0, 5]


def test_the_position_is_the_number_of_the_state_that_the_program_holds(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        assert run.position is None
        for step in run.steps(7):
            assert run.position == step
        assert run.position == 7
        assert keep(run, 7, 7.0)
        assert not keep(run, 7, 7.0), "the same state"
    with fb.open(run_dir) as run:
        back = run.restart()
        assert run.position == 7
        for step in run.steps(9, start=back):
            if step == 8:
                break
        assert run.position is None, "in the body that was left"
    with fb.open(run_dir, "r") as run:
        assert run.position is None


def test_what_is_put_behind_the_loop_belongs_to_where_it_ended(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        history = run.table("history", {"x": "f64"}, history=True)
        for step in run.steps(3):
            history.insert((float(step),))
        history.insert((3.0,))
        run.message("over")
        assert run.sql("select fb_step from history")["fb_step"].tolist() == [0, 1, 2, 3]
        run.flush()
        assert [row["step"] for row in run.sql("select step from fb_messages where text = 'over'")] == [3]


def test_a_snapshot_of_a_state_that_stands_does_nothing_and_gives_memory_that_nobody_reads(
    run_dir: Path,
) -> None:
    compute(run_dir, 6)
    with fb.open(run_dir) as run:
        back = run.restart()
        for step in run.steps(6, start=back):
            with run.snapshot(step) as s:
                assert not s.taken
                s.put("x", 17.0)
                room = s.allocate("y", (1000, 3))
                assert room.shape == (1000, 3) and room.ctypes.data % 64 == 0
                room[:] = 3.0
                with pytest.raises(fb.BadArgument, match="in snapshot 5 already"):
                    s.put("x", 1.0)
            s.wait()
            assert (room == 3.0).all(), "it outlives the snapshot"
            assert float(run.snapshots[-1]["x"]) == 5.0
            with pytest.raises(fb.Conflict, match="step 0 is in the run already"):
                run.snapshot(0)
            with pytest.raises(ZeroDivisionError), run.snapshot(step) as s:
                1 / 0  # noqa: B018
        assert run.snapshots.numbers == [0, 5]


def test_behind_a_loop_that_was_left_early_a_state_has_no_other_number(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        run.command("stop here", lambda step: None)
        for _ in run.steps(10):
            pass
        with pytest.raises(fb.Conflict, match=r"ended at step 10.*run\.position"):
            run.snapshot(12)
        assert keep(run, 10, 1.0)
        with pytest.raises(fb.Conflict, match="start of 10 or more"):
            run.steps(20)
        assert list(run.steps(12, start=10)) == [10, 11]


@pytest.mark.parametrize("how", [KeyboardInterrupt, None])
def test_behind_a_loop_that_was_left_in_its_body_the_program_says_whether_that_step_is_computed(
    run_dir: Path, how: type[BaseException] | None
) -> None:
    def cell(run: fb.Run, n: int = 30, stride: int = 1, **start: int) -> list[int]:
        heads = []
        try:
            for step in run.steps(n, stride=stride, **start):
                heads.append(step)
                if step == 23 and how is not None:
                    raise how
                if step == 23:
                    break
        except KeyboardInterrupt:
            pass
        return heads

    with fb.open(run_dir) as run:
        cell(run)
        with pytest.raises(fb.Conflict, match=r"start=23 if step 23 was not computed.*start=24 if it was"):
            run.steps(30)
        with pytest.raises(
            fb.Conflict, match=r"at step 23 if step 23 was not computed.*at step 24 if it was"
        ):
            run.reach(22)
        assert cell(run, start=23) == [23]
        assert list(run.steps(30, start=24)) == list(range(24, 30))
        with pytest.raises(fb.Conflict, match="holds the state of step 30"):
            run.steps(40)
    with fb.open(run_dir, "w") as run:
        cell(run, 31, stride=2, start=21)
        with pytest.raises(fb.Conflict, match=r"start=23 if .*start=25 if it was"):
            run.steps(30)


def test_a_loop_that_has_no_step_is_refused_unless_a_restart_came_there(
    run_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with fb.open(run_dir) as run:
        with pytest.raises(fb.BadArgument, match=r"from 9 to 5 has no step.*an end of 9 or more"):
            run.steps(5, start=9)
        assert list(run.steps(0)) == []
        for _ in run.steps(9):
            pass
        with pytest.raises(fb.BadArgument, match="from 9 to 5 has no step"):
            run.steps(5, start=run.position)
        assert list(run.steps(9, start=9)) == []
        keep(run, 9, 0.0)
    assert "complete" not in capfd.readouterr().err
    with fb.open(run_dir) as run:
        assert list(run.steps(5, start=run.restart())) == []
        assert "is complete already: it is at step 9, and the loop goes to 5" in capfd.readouterr().err


def test_a_loop_that_was_refused_leaves_the_run_unfinished(run_dir: Path) -> None:
    for again in (True, False):
        with fb.open(run_dir, "w") as run:
            for _ in run.steps(3):
                pass
            keep(run, 3, 0.0)
            if again:
                with pytest.raises(fb.Conflict):
                    run.steps(6)
        with fb.open(run_dir) as run:
            back = run.restart()
            assert back is not None and back.finished is not again


def test_a_loop_begins_where_the_restart_went_back_to(
    run_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    compute(run_dir, 12)
    with fb.open(run_dir) as run:
        back = run.restart()
        assert back is not None and back.step == 10
        with pytest.raises(fb.Conflict, match="step 10 would be left out"):
            run.steps(20, start=back.step + 1)
        with pytest.raises(fb.Conflict, match="steps 0 to 9 would be computed twice"):
            run.steps(20)
        assert capfd.readouterr().err == ""
        assert list(run.steps(10, start=back)) == []
        assert "is complete already: it is at step 10" in capfd.readouterr().err
        assert run.position == 10


def test_numbers_of_snapshots_grow(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        keep(run, 4, 0.0)
        with pytest.raises(fb.Conflict, match="a number above 4"):
            run.snapshot(3)
        run.drop(4)
        assert keep(run, 4, 0.0)
        run.checkpoint("four")
        keep(run, 8, 0.0)
        run.restart("four")
        assert not keep(run, 4, 1.0)
        assert keep(run, 8, 1.0), "the run went back behind it"


WATCHED = """
import sys, time, forebay as fb
path, bottom = sys.argv[1], sys.argv[2] == "bottom"
with fb.open(path) as run:
    x = 0.0
    rate = run.parameter("rate", 1.0)

    @run.saves
    def keep(step):
        with run.snapshot(step) as s:
            s.put("x", x)

    for step in run.steps(10**9):
        if not bottom:
            keep(step)
        if step == 3:
            print("begun", flush=True)
        time.sleep(0.002)  # the work of a step: a snapshot of each is on disk as fast as they come
        x += rate.value
        if bottom:
            keep(step + 1)
    keep(run.position)
print(run.position or "closed", flush=True)
"""


@pytest.mark.parametrize("where", ["top", "bottom"])
def test_save_at_a_step_that_the_program_keeps_and_then_run_ends_nothing(
    place: Place, run_dir: Path, where: str
) -> None:
    program = place.python(WATCHED, run_dir, where)
    hear(program, "begun")
    held = place.command("steer", run_dir, "stop")
    step = int(held.split("held before step ")[1].split(";")[0])
    first = place.command("steer", run_dir, "save")
    assert ("saved" if where == "top" else f"step {step} is kept already") in first
    assert f"step {step} is kept already" in place.command("steer", run_dir, "save")
    place.command("steer", run_dir, "step", "3")
    place.command("steer", run_dir, "run")
    place.command("steer", run_dir, "quit")
    ended(program)
    with fb.open(run_dir, "r") as run:
        numbers = run.snapshots.numbers
        assert {step, step + 1, step + 2, step + 3} <= set(numbers)
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
        assert np.array_equal([float(kept["x"]) for kept in run.snapshots], numbers)


def test_nothing_is_added_to_an_older_run_before_it_went_back(
    run_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    compute(run_dir, 12)
    with fb.open(run_dir) as run:
        for step in run.steps(40, start=30):
            with pytest.raises(
                fb.Conflict, match=r'complete steps up to 10.*restart.*mode "w".*another name'
            ):
                run.snapshot(step)
        run.put("note", 1.0)
    assert capfd.readouterr().err.count("complete steps up to 10") == 1
    with fb.open(run_dir) as run:
        back = run.restart()
        assert list(run.steps(12, start=back)) == [10, 11]
        assert keep(run, 12, 12.0)
    with fb.open(run_dir, "w") as run:
        assert keep(run, 0, 0.0)


HALVES = """
import pathlib, sys, time, forebay as fb, numpy as np
path, n, first = pathlib.Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
with fb.open(path, buffer="4MiB") as run:
    told = path.with_suffix(f".told{n}")
    x = np.zeros(8 // run.size) + 8 // run.size * run.rank
    if run.rank == 0:
        back = run.restart()
        told.with_suffix(".new").write_text("-1" if back is None else str(back.step))
        told.with_suffix(".new").rename(told)
    while not told.exists():
        time.sleep(0.001)
    start = int(told.read_text())
    rate = run.parameter("rate", first)
    if start >= 0:
        assert run.position == start, run.position
        x = fb.open(path, "r").snapshots.at(start)["x"][len(x) * run.rank:][:len(x)].copy()
    for step in run.steps(n, start=max(start, 0)):
        with run.snapshot(step) as s:
            s.put("x", x, offset=len(x) * run.rank, shape=8)
        assert s.taken == (step != start), step
        x += rate.value
        if step == n - 1 and n < 20:
            run.flush()
            import os
            os._exit(7)
    with run.snapshot(run.position) as s:
        s.put("x", x, offset=len(x) * run.rank, shape=8)
"""


@pytest.mark.parametrize(("before", "behind"), [(1, 1), (4, 2), (2, 4)])
def test_all_ranks_know_where_the_run_went_back_to_though_one_of_them_asked(
    place: Place, run_dir: Path, before: int, behind: int
) -> None:
    for process in place.ranks(before, sys.executable, "-c", HALVES, run_dir, "10", "1"):
        ended(process, status=7)
    for process in place.ranks(behind, sys.executable, "-c", HALVES, run_dir, "20", "100"):
        ended(process)
    with fb.open(run_dir, "r") as run:
        assert run.snapshots.numbers == list(range(21))
        begun = np.arange(8) // (8 // before) * (8 // before)
        for kept in run.snapshots:
            assert np.array_equal(kept["x"], begun + kept.step), "the parameter has its value of before"


def test_a_value_that_is_set_and_saved_where_the_state_is_kept_already_comes_back_with_it(
    place: Place, run_dir: Path
) -> None:
    program = place.python(WATCHED, run_dir, "bottom")
    hear(program, "begun")
    held = place.command("steer", run_dir, "stop")
    step = int(held.split("held before step ")[1].split(";")[0])
    place.command("steer", run_dir, "set", "rate", "3")
    assert f"step {step} is kept already" in place.command("steer", run_dir, "save")
    program.kill()
    program.wait(20)
    program.communicate()
    place.run_python(
        "import sys, forebay as fb\n"
        "with fb.open(sys.argv[1]) as run:\n"
        "    back = run.restart()\n"
        "    assert back.step == int(sys.argv[2]) and back.parameters == {'rate': 3.0}, (back.step, back.parameters)\n"
        "    assert run.parameter('rate', 1.0).value == 3.0\n",
        run_dir,
        str(step),
    )


ATTEMPT = """
import os, sys, forebay as fb
with fb.open(sys.argv[1]) as run:
    back = run.restart()
    assert back is None
    rows = run.table("history", {"x": "i64"}, history=True)
    curve = run.diagram("x", "history")
    for step in run.steps(4, start=back):
        rows.insert((step,))
        curve.append(float(step), x=step)
    run.flush()
    if len(sys.argv) > 2:
        os.kill(os.getpid(), 9)
    assert rows.select()["x"].tolist() == [0, 1, 2, 3]
    assert len(run.sql("select value from fb_points")) == 4
"""


def test_what_an_attempt_left_that_came_to_no_step_is_made_again_and_kept_once(
    place: Place, run_dir: Path
) -> None:
    place.run_python(ATTEMPT, run_dir, "killed", status=-9)
    place.run_python(ATTEMPT, run_dir, "killed", status=-9)
    place.run_python(ATTEMPT, run_dir)


def test_a_loop_that_is_left_in_the_body_of_a_step_leaves_no_position_and_takes_the_number_that_is_given(
    run_dir: Path,
) -> None:
    with fb.open(run_dir) as run:
        x = 0.0
        for step in run.steps(40):
            x += 1.0
            if step == 16:
                break
        assert run.position is None
        with pytest.raises(fb.BadArgument, match=r"run\.finish"):
            run.snapshot(run.position)
        assert keep(run, 17, x)
    with fb.open(run_dir) as run:
        back = run.restart()
        assert back is not None
        for step in run.steps(40, start=back):
            assert step == 17
            # Before its work: the state is that of the snapshot.
            break
        assert not keep(run, 17, x)
        assert iter(run.steps(40, start=17)) is not None
        assert run.position == 17, "a loop that was not begun"


def test_a_snapshot_that_is_numbered_by_the_step_it_was_computed_in_is_told_how_it_is_numbered(
    run_dir: Path,
) -> None:
    with fb.open(run_dir) as run:
        for step in run.steps(11):
            if step == 10:
                keep(run, step, 11.0)
    with fb.open(run_dir) as run:
        back = run.restart()
        assert back is not None
        with pytest.raises(
            fb.Conflict, match="If it was computed when the snapshot was taken, number that one 11"
        ):
            run.steps(20, start=back.step + 1)
