"""Loops of every shape: states kept by the head, strides, loops without an end, programs that call back."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import forebay as fb
import pytest
from places import Place, ended, hear

pytestmark = pytest.mark.usefixtures("owner")


def keeper(run: fb.Run, every: int | None = None) -> list[int]:
    """Keeps states whose number `every` divides; gives the list of those it is called for."""
    called: list[int] = []

    @run.saves(every=every)
    def keep(step: int) -> None:
        called.append(step)
        with run.snapshot(step) as s:
            s.put("x", float(step))

    return called


def test_the_head_keeps_a_state_every_so_often_and_the_last_one(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        called = keeper(run, 10)
        for step in run.steps(25):
            if step == 10:
                assert run.snapshot(10).taken is False, "the head has kept it"
        assert called == [0, 10, 20, 25]
        for _ in run.steps(31, start=25):
            pass
        assert called == [0, 10, 20, 25, 30, 31], "a state is kept once"
        run.flush()
        assert run.snapshots.numbers == called


def test_a_run_whose_head_keeps_states_goes_on_where_it_was_left(run_dir: Path) -> None:
    heads = []
    for stop in (17, 100):
        with fb.open(run_dir) as run:
            keeper(run, 5)
            history = run.table("history", {"x": "i64"}, history=True)
            for step in run.steps(23, start=run.restart()):
                heads.append(step)
                history.insert((step,))
                if step == stop:
                    break
            if stop > 23:
                assert history.select()["x"].tolist() == list(range(23))
    assert heads == [*range(18), *range(15, 23)]


def test_a_history_has_one_row_for_each_state_that_is_kept_however_often_the_run_went_back(
    run_dir: Path,
) -> None:
    def program(n: int, stop: int | None = None) -> None:
        with fb.open(run_dir) as run:
            rows = run.table("rows", {"step": "i64"}, history=True)

            @run.saves(every=10)
            def keep(step: int) -> None:
                with run.snapshot(step) as s:
                    s.put("x", float(step))
                rows.insert((step,))

            for step in run.steps(n, start=run.restart()):
                if step == stop:
                    break

    # Left in a body, at its end, complete already, at an end that is no multiple, further.
    for n, stop in ((25, 23), (25, None), (25, None), (40, 33), (50, None)):
        program(n, stop)
        with fb.open(run_dir, "r") as run:
            assert run.table("rows").select()["step"].tolist() == run.snapshots.numbers, (n, stop)
    with fb.open(run_dir, "r") as run:
        assert run.snapshots.numbers == [0, 10, 20, 25, 30, 40, 50]


def test_what_save_does_is_done_again_where_a_restart_goes_on(run_dir: Path) -> None:
    for n, heads in ((25, [0, 10, 20, 25]), (25, [25]), (31, [25, 30, 31])):
        with fb.open(run_dir) as run:
            called = keeper(run, 10)
            for _ in run.steps(n, start=run.restart()):
                pass
            assert called == heads
            for _ in run.steps(n + 1, start=n):
                pass
            assert called == [*heads, n + 1]
            run.drop(n + 1)
    with fb.open(run_dir) as run:
        called = keeper(run)
        assert list(run.steps(33, start=run.restart())) == [31, 32]
        assert called == [], "only at Save"


def test_an_exception_where_a_state_is_kept_is_that_of_the_loop_and_told_once(run_dir: Path) -> None:
    with fb.open(run_dir) as run:

        @run.saves(every=3)
        def keep(step: int) -> None:
            raise ValueError(f"state {step}")

        steps, went = run.steps(7), []
        for _ in range(20):
            try:
                went.append(next(steps))
            except ValueError as error:
                went.append(str(error))
            except StopIteration:
                break
        assert went == ["state 0", 0, 1, 2, "state 3", 3, 4, 5, "state 6", 6, "state 7"]
        with pytest.raises(fb.BadArgument, match="every 0 steps"):
            run.saves(print, every=0)


def test_heads_are_a_stride_apart(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        assert list(run.steps(100, stride=25)) == [0, 25, 50, 75]
        assert run.position == 100
        assert list(run.steps(160, start=100, stride=30)) == [100, 130]
        for n, stride, said in ((200, 30, "does not meet 200"), (200, 0, "stride of 0")):
            with pytest.raises(fb.BadArgument, match=said):
                run.steps(n, start=160, stride=stride)


def test_a_loop_without_an_end_goes_on_until_it_is_finished(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        called = keeper(run, 100)
        for step in run.steps(stride=7):
            if step == 21:
                run.finish()
        assert run.position == 28
        assert called == [0, 28]
        assert run.ended_by is None
        with pytest.raises(fb.Conflict, match="no loop is under way"):
            run.finish()
    with fb.open(run_dir) as run:
        back = run.restart()
        assert back is not None
        assert back.step == 28
        assert back.finished


def test_a_program_that_calls_back_reaches_its_steps(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        called = keeper(run, 10)
        assert [run.reach(step) for step in (0, 5, 10, 10, 13, 20)] == [True] * 6
        assert called == [0, 10, 20]
        assert run.position == 20
        with pytest.raises(fb.Conflict, match="behind step 20"):
            run.reach(19)
        run.finish()
        assert not run.reach(25)
        assert not run.reach(30), "it has ended for ever"
        assert called == [0, 10, 20, 25]
        assert run.position == 25
    with fb.open(run_dir) as run:
        back = run.restart()
        assert back is not None
        assert back.step == 25
        assert back.finished
        with pytest.raises(fb.Conflict, match="holds the state of step 25"):
            run.reach(24)
        assert run.reach(30)
        for _ in run.steps(40, start=30):
            with pytest.raises(fb.Conflict, match="in the body of a loop"):
                run.reach(31)
            break


def test_a_loop_that_is_finished_before_it_begins_ends_at_its_first_head(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        called = keeper(run, 100)
        for step in (0, 25, 50):
            assert run.reach(step)
    with fb.open(run_dir) as run:
        assert run.restart() is not None
        called = keeper(run, 100)
        run.finish()
        assert not run.reach(75)
        assert called == [75]
        assert run.snapshots[-1].step == 75
    with fb.open(run_dir) as run:
        run.restart()
        run.finish()
        assert list(run.steps(100, start=75)) == []
        with pytest.raises(fb.Conflict, match="no loop is under way"):
            run.finish()


def test_what_is_to_be_kept_every_so_often_may_be_said_in_the_body(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        called: list[int] = []
        for step in run.steps(25):
            if step == 3:
                called = keeper(run, 5)
            if step == 12:
                run.saves(called.append, every=4)
        assert called == [5, 10, 16, 20, 24, 25]


def test_a_program_that_calls_back_hears_that_its_last_state_is_not_kept(
    run_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for last, finishes in ((30, False), (35, True), (44, False)):
        with fb.open(run_dir) as run:
            run.restart()
            keeper(run, 10)
            for step in range(run.position or 0, last, 5):
                assert run.reach(step)
            if finishes:
                run.finish()
            run.reach(last)
        said = capfd.readouterr().err
        assert ("the last state that was reached, 44, is not kept" in said) == (last == 44), said


CALLS_BACK = """
import sys, time, forebay as fb
with fb.open(sys.argv[1]) as run:
    @run.saves
    def keep(step):
        with run.snapshot(step) as s:
            s.put("x", step)
    step = 0
    while run.reach(step):
        step += 3
        if step == 9:
            print("ready", flush=True)
        time.sleep(0.01)
    assert run.ended_by == "SIGTERM" and not run.reach(step + 3) and run.position == step
    run.flush()
    assert run.snapshots.numbers == [step], run.snapshots.numbers
"""


def test_sigterm_ends_a_program_that_calls_back(place: Place, run_dir: Path) -> None:
    program = place.python(CALLS_BACK, run_dir)
    hear(program, "ready")
    os.kill(program.pid, signal.SIGTERM)
    ended(program)


UNLIKE = """
import os, sys, forebay as fb
what, own = sys.argv[2], lambda *each: each[run.rank]
with fb.open(sys.argv[1]) as run:
    if what == "every" or run.rank == 0 and what == "saves":
        @run.saves(every=own(1_000_000, 700_000))
        def keep(step):
            with run.snapshot(step) as s:
                s.put("x", [step], offset="append")
    n = own(3_000_000, 6_000_000) if what == "n" else 6_000_000
    steps = run.steps(n, stride=own(2, 3) if what == "stride" else 1)
    try:
        for step in steps:
            run.put("x", step)
    except fb.Conflict as e:
        print(e, flush=True)
        os._exit(0)  # to close it would wait for the other rank
raise SystemExit(1)
"""


@pytest.mark.parametrize(
    "what, said",
    [
        ("stride", "their heads never meet"),
        ("every", "those that 700000 divides"),
        ("saves", "none by itself"),
        ("n", "rank 1 to 6000000|rank 1 loops to 6000000"),
    ],
)
def test_ranks_whose_loops_differ_are_told_at_their_beginning(
    place: Place, run_dir: Path, what: str, said: str
) -> None:
    ranks = place.ranks(2, sys.executable, "-c", UNLIKE, run_dir, what)
    hear_one = None
    while hear_one is None:
        hear_one = next((rank for rank in ranks if rank.poll() is not None), None)
    other = ranks[1 - ranks.index(hear_one)]
    out, err = hear_one.communicate()
    assert re.search(said, out), err
    other.kill()
    other.wait()
