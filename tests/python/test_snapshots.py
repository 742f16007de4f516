"""Snapshots appear as a whole or not at all."""

from __future__ import annotations

import contextlib
import math
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from conftest import Agent, Place
from places import until

pytestmark = pytest.mark.usefixtures("owner")


def test_a_snapshot_is_read_as_it_was_taken(run_dir: Path) -> None:
    rng = np.random.default_rng(1)
    x, f = rng.random(200_000), np.asfortranarray(rng.random((30, 40)))
    with fb.open(run_dir) as run:
        with run.snapshot(20, time=2.0) as s:
            s.put("electrons/x", x, units="m")
            s.put("F", f)
            s.put("note", "first")
            s.put("n", 3)
        s.wait(30)
        kept = run.snapshots[-1]
        assert (kept.step, kept.time) == (20, 2.0)
        assert sorted(kept.names()) == ["F", "electrons/x", "n", "note"]
        np.testing.assert_array_equal(kept["electrons/x"], x)
        np.testing.assert_array_equal(kept["F"], f)
        assert kept["note"] == "first"
        assert int(kept["n"]) == 3
        assert kept.dataset("electrons/x").units == "m"
        assert "F" in kept
        with pytest.raises(fb.NotFound):
            kept["nothing"]


def test_a_snapshot_that_is_not_ended_is_an_error_of_the_closing_each_time(run_dir: Path) -> None:
    for way in range(20):
        run = fb.open(run_dir, "w")
        run["x"] = 1.0
        s = run.snapshot(way)
        s.put("u", np.ones(3))
        if way % 2:
            run.flush()
        with pytest.raises(fb.Conflict, match=f"snapshot {way} was not ended and is not in the run"):
            run.close()
        assert run.closed
        with fb.open(run_dir, "r") as kept:
            assert list(kept.snapshots) == [] and kept["x"] == 1.0
        del s


def test_the_array_is_the_callers_again_when_put_returns(run_dir: Path) -> None:
    x = np.arange(1_000_000.0)
    with fb.open(run_dir) as run:
        with run.snapshot(1) as s:
            s.put("x", x)
            x[:] = 0
        np.testing.assert_array_equal(run.snapshots.at(1)["x"], np.arange(1_000_000.0))


def test_an_allocated_array_is_filled_in_place(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        with run.snapshot(5) as s:
            a = s.allocate("x", (300, 400), np.float32, units="V")
            b = s.allocate("y", 1000, "i64", order="F")
            a[:] = np.arange(120_000).reshape(300, 400)
            b[:] = 7
        kept = run.snapshots.at(5)
        np.testing.assert_array_equal(kept["x"], np.arange(120_000, dtype=np.float32).reshape(300, 400))
        assert kept.dataset("x").units == "V"
        assert (kept["y"] == 7).all()


def test_an_allocated_array_is_read_only_once_its_snapshot_is_over(run_dir: Path) -> None:
    def ended(run: fb.Run, step: int) -> np.ndarray:
        with run.snapshot(step) as s:
            a = s.allocate("x", 1000)
            a[:] = 1.0
        return a

    def ended_by_hand(run: fb.Run, step: int) -> np.ndarray:
        s = run.snapshot(step)
        a = s.allocate("x", (10, 100), order="F")
        a[:] = 1.0
        s.end()
        return a

    def discarded(run: fb.Run, step: int) -> np.ndarray:
        s = run.snapshot(step)
        a = s.allocate("x", 1000)
        s.discard()
        return a

    def raised(run: fb.Run, step: int) -> np.ndarray:
        with pytest.raises(ZeroDivisionError), run.snapshot(step) as s:
            a = s.allocate("x", 1000)
            1 / 0  # noqa: B018
        return a

    def let_go_of(run: fb.Run, step: int) -> np.ndarray:
        with pytest.warns(RuntimeWarning, match="let go of"):
            a = run.snapshot(step).allocate("x", 1000)
        return a

    with fb.open(run_dir) as run:
        for step, way in enumerate([ended, ended_by_hand, discarded, raised, let_go_of]):
            a = way(run, step)
            with pytest.raises(ValueError, match="read-only"):
                a += 1.0
            with pytest.raises(ValueError):
                a.flags.writeable = True
        assert run.snapshots.numbers == [0, 1]
        assert (run.snapshots[1]["x"] == 1.0).all()


def test_an_allocated_array_that_the_program_keeps_is_its_own(run_dir: Path) -> None:
    with fb.open(run_dir, buffer="8MiB") as run:
        kept = []
        for step in range(3):
            with run.snapshot(step) as s:
                a = s.allocate("x", 200_000)
                a[:] = step
                kept.append((a, a[1:]))
                del a
            run.flush()
            for old, (whole, part) in enumerate(kept):
                assert (whole == old).all()
                part[:] = old  # a view that was made before the end: it writes into no later snapshot
        for step in range(3, 40):
            with run.snapshot(step) as s:
                s.put("x", np.full(200_000, float(step)))
        assert all((whole == old).all() for old, (whole, _) in enumerate(kept))
        assert [s["x"][-1] for s in run.snapshots] == list(range(40))


STRAY = """
import sys, forebay as fb
with fb.open(sys.argv[1]) as run:
    with run.snapshot(0) as s:
        view = s.allocate("x", 100_000)[1:]
        view[:] = 1.0
    print("over", flush=True)
    view[:] = 2.0
    print("written", flush=True)
"""


def test_who_writes_into_an_array_of_a_snapshot_that_is_over_is_found(run_dir: Path, tmp_path: Path) -> None:
    script = tmp_path / "stray.py"
    script.write_text(STRAY)
    for check, status in (("0", 0), ("1", -signal.SIGSEGV)):
        done = subprocess.run(
            [sys.executable, str(script), f"{run_dir}{check}"],
            env={**os.environ, "FOREBAY_CHECK": check},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, "over" in done.stdout) == (status, True), done
        with fb.open(f"{run_dir}{check}") as run:  # what the dead one left is taken in
            assert run.snapshots.numbers == [0]


def test_an_allocated_array_of_a_snapshot_that_stands_already_is_read_only_behind_it_too(
    run_dir: Path,
) -> None:
    with fb.open(run_dir) as run:
        for step in run.steps(2):
            for taken in (True, False):
                with run.snapshot(step) as s:
                    assert s.taken == taken
                    a = s.allocate("x", 1000)
                    a[:] = step
                with pytest.raises(ValueError, match="read-only"):
                    a[:] = -1.0
        assert [kept["x"][0] for kept in run.snapshots] == [0.0, 1.0]


def test_a_snapshot_has_a_finite_time_or_none(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        for time in (math.inf, -math.inf):
            with pytest.raises(fb.BadArgument, match="no time of a snapshot"):
                run.snapshot(1, time=time)
        with run.snapshot(1, time=math.nan) as s:
            s.put("x", 1.0)
        s.wait()
        assert run.snapshots[-1].time is None


def test_an_exception_inside_discards_the_snapshot(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        with run.snapshot(1) as s:
            s.put("x", np.zeros(10))
        with pytest.raises(ZeroDivisionError), run.snapshot(2) as s:
            s.put("x", np.zeros(100_000))
            1 / 0  # noqa: B018
        assert run.snapshots.numbers == [1]
        with run.snapshot(2) as s:
            s.put("x", np.ones(10))
        assert run.snapshots.numbers == [1, 2]
        assert run.snapshots.at(2)["x"].sum() == 10


def test_a_step_that_exists_is_a_conflict(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        with run.snapshot(1) as s:
            s.put("x", 1.0)
        with pytest.raises(fb.Conflict):
            run.snapshot(1)
        open_one = run.snapshot(2)
        with pytest.raises(fb.Conflict):
            run.snapshot(3)
        open_one.discard()
        with run.snapshot(4) as s:
            s.put("x", 1.0)
            with pytest.raises(fb.BadArgument):
                s.put("x", 2.0)


@pytest.mark.parametrize(("first", "second"), [("a", "a/b"), ("a/b/c", "a/b"), ("a/b/c", "a")])
def test_a_name_is_an_array_or_a_group_and_not_both(run_dir: Path, first: str, second: str) -> None:
    with fb.open(run_dir) as run:
        with run.snapshot(0) as s:
            s.put(first, 1.0)
            s.put("ab", 1.0)
            with pytest.raises(fb.BadArgument, match="cannot be both"):
                s.put(second, 2.0)
        run.flush()
        assert sorted(run.snapshots[0]) == sorted([first, "ab"])


def test_the_list_of_snapshots_behaves_as_a_sequence(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        for step in (0, 20, 40):
            with run.snapshot(step, time=step / 10) as s:
                s.put("x", np.full(3, step))
        snapshots = run.snapshots
        assert len(snapshots) == 3
        assert snapshots.numbers == [0, 20, 40]
        assert [kept.step for kept in snapshots] == [0, 20, 40]
        assert [kept.step for kept in snapshots[1:]] == [20, 40]
        assert snapshots[-1]["x"].tolist() == [40, 40, 40]
        with pytest.raises(IndexError):
            snapshots[3]
        with pytest.raises(fb.NotFound) as error:
            snapshots.at(30)
        assert "30" in str(error.value)


@pytest.mark.parametrize("where", ["here", "on another host"])
def test_the_list_of_snapshots_is_that_of_its_moment_also_where_it_is_read_later(
    place: Place, agent: Agent, run_dir: Path, where: str
) -> None:
    place.variables["FOREBAY_HOME"] = agent.place.variables["FOREBAY_HOME"]
    assert place.run_python(MOMENT, run_dir if where == "here" else agent.url(run_dir)) == "done\n"


MOMENT = """
import sys, forebay as fb
def take(run, *steps):
    for step in steps:
        with run.snapshot(step) as s:
            s.put("x", [float(step)])
with fb.open(sys.argv[1], buffer="4MiB") as run:
    none = run.snapshots
    take(run, 0, 10, 20)
    three = run.snapshots
    take(run, 25, 30)
    run.flush()
    five = run.snapshots
    assert not none and len(none) == 0 and none.numbers == []
    assert three and three[-1].step == 20 and three.numbers == [0, 10, 20] and three[-2]["x"] == [10.0]
    assert five[-1].step == 30 and [s.step for s in five] == [0, 10, 20, 25, 30] and len(five[1:3]) == 2
    assert five.at(25)["x"] == [25.0]
    for absent, near in ((7, "0 and 10"), (-1, "0"), (31, "30")):
        try:
            five.at(absent)
        except fb.NotFound as e:
            assert str(e).endswith(f"no complete snapshot of step {absent}; the nearest: {near}"), e
    for index in (5, -6):
        try:
            five[index]
        except IndexError:
            continue
        raise AssertionError(index)
print("done")
"""


def test_a_snapshot_larger_than_all_buffers_is_written_as_it_goes(run_dir: Path) -> None:
    rng = np.random.default_rng(2)
    parts = {f"part{n}": rng.random(1_000_000) for n in range(12)}
    with fb.open(run_dir, buffer="16MiB") as run:
        with run.snapshot(1) as s:
            for name, part in parts.items():
                s.put(name, part)
        whole = rng.random(6_000_000)
        with run.snapshot(2) as s:
            s.put("whole", whole)
        kept = run.snapshots.at(1)
        for name, part in parts.items():
            np.testing.assert_array_equal(kept[name], part)
        np.testing.assert_array_equal(run.snapshots.at(2)["whole"], whole)


BUSY = """if True:
    import os, sys, forebay as fb, numpy as np
    run = fb.open(sys.argv[1], buffer="8MiB")
    for step, n in enumerate((10, 400_000)):
        with run.snapshot(step) as s:
            s.put("x", np.ones(n))
        while not os.path.exists(os.path.join(sys.argv[1], "steps", f"{step:010}.h5")):
            pass
    print("written")
"""


def test_a_snapshot_is_written_while_its_program_never_rests_and_calls_nothing(
    place: Place, run_dir: Path
) -> None:
    assert place.run_python(BUSY, run_dir) == "written\n"


def test_the_first_arrays_of_a_snapshot_are_written_while_it_is_taken(run_dir: Path) -> None:
    with fb.open(run_dir, buffer="16MiB") as run, run.snapshot(0) as s:
        s.put("x", np.ones(500_000))
        s.put("y", np.ones(500_000))
        until(lambda: run.stats()["hidden_s"] > 0)
        assert list(run_dir.glob("steps/*.tmp")) and not list(run_dir.glob("steps/*.h5"))


def test_room_that_is_not_there_cannot_be_allocated(run_dir: Path) -> None:
    with fb.open(run_dir, buffer="16MiB") as run, run.snapshot(1) as s:
        with pytest.raises(fb.Full) as error:
            s.allocate("x", 100_000_000)
        assert "buffer" in str(error.value)
        s.put("y", 1.0)


def test_a_block_of_a_global_array_is_refused_where_it_leaves_it(run_dir: Path) -> None:
    with fb.open(run_dir) as run, run.snapshot(1) as s:
        s.put("whole", np.arange(10.0), offset=0, shape=10)
        for offset, shape in ((5, 10), ((0, 0), 10), (-1, 20), (0, None), (None, 10)):
            with pytest.raises(fb.BadArgument):
                s.put("x", np.arange(10.0), offset=offset, shape=shape)
        with pytest.raises(fb.BadArgument):
            s.put("x", np.arange(10.0), offset="behind")  # type: ignore[arg-type]


def test_many_small_snapshots_keep_their_order(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        for step in range(100):
            with run.snapshot(step) as s:
                s.put("x", np.full(500, step))
        run.flush()
        assert run.snapshots.numbers == list(range(100))
        assert all((kept["x"] == kept.step).all() for kept in run.snapshots)


def test_a_restart_goes_back_to_the_last_complete_step(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        assert run.restart() is None
        history = run.table("history", {"step": int}, history=True)
        other = run.table("log", {"step": int})
        for step in run.steps(12):
            if step in (0, 5, 10):
                with run.snapshot(step) as s:
                    s.put("x", np.full(4, step))
            history.insert((step,))
            other.insert((step,))
            if step == 11:
                break
    with fb.open(run_dir) as run:
        back = run.restart()
        assert back is not None
        assert (back.step, back.finished) == (10, False)
        assert (back["x"] == 10).all()
        assert run.table("history").history
        # The row of step 10 goes when the loop comes to it.
        assert run.table("history").select()["step"].tolist() == list(range(11))
        assert len(run.table("log")) == 12
        for step in run.steps(15, start=back.step):
            run.table("history").insert((step,))
        assert run.table("history").select()["step"].tolist() == list(range(15))
    with fb.open(run_dir) as run:
        back = run.restart()
        assert back is not None
        assert back.finished


def test_a_restart_keeps_a_history_whose_run_is_finished(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        history = run.table("history", {"step": int}, history=True)
        for step in run.steps(5):
            history.insert((step,))
        with run.snapshot(5) as s:
            s.put("x", 1.0)
    with fb.open(run_dir) as run:
        back = run.restart()
        assert back is not None
        assert back.finished
        assert back.step == 5
        assert len(run.table("history")) == 5


def test_a_program_that_begins_a_kept_run_anew_hears_so_once(
    run_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A program that does not look at the errors of its snapshots keeps nothing, and must not end as if it had."""

    def compute(mode: str = "a", start: int = 0, restart: bool = False) -> str:
        with fb.open(run_dir, mode) as run:  # type: ignore[arg-type]
            if restart:
                back = run.restart()
                start = 0 if back is None else back.step
            for step in run.steps(start + 3, start=start):
                with contextlib.suppress(fb.Conflict), run.snapshot(step) as s:
                    s.put("x", np.arange(3.0))
        return capfd.readouterr().err

    assert compute() == ""
    said = compute()
    assert said.count("complete steps up to 2") == 1
    assert "restart" in said and 'mode "w"' in said
    assert compute(restart=True) == ""
    assert compute(start=6).count("complete steps up to 4") == 1, "behind the last one, too"
    with fb.open(run_dir) as run:  # no loop
        for _ in range(2):
            with pytest.raises(fb.Conflict):
                run.snapshot(1)
    assert capfd.readouterr().err.count("complete steps up to 4") == 1
    assert compute("w") == ""


def test_a_snapshot_that_is_let_go_of_without_its_end_is_no_secret(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        with pytest.warns(RuntimeWarning, match=r"the snapshot 3 .*`with run.snapshot\(3\) as s"):
            run.snapshot(3).put("x", np.ones(4))
        with contextlib.suppress(ZeroDivisionError), run.snapshot(4) as s:
            s.put("x", np.ones(4))
            1 / 0  # noqa: B018
        run.snapshot(5).discard()
        run.flush()
        said = [row["text"] for row in run.sql("select text from fb_messages")]
    assert said == ["the snapshot 3 was let go of before its end; it is not in the run"]
    with fb.open(run_dir, "r") as run:
        assert run.snapshots.numbers == []


@pytest.mark.filterwarnings("ignore:the snapshot")
def test_an_interrupt_is_heard_wherever_a_snapshot_is_just_then(run_dir: Path) -> None:
    class Interrupted(Exception):
        pass

    given = heard = 0

    def interrupt(*_: object) -> None:
        nonlocal given
        given += 1
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    with fb.open(run_dir) as run:
        for step in range(5000):
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(2e-6, 6e-5))
                while given == step:
                    run.snapshot(step).discard()
            except Interrupted:
                heard += 1
    signal.signal(signal.SIGALRM, before)
    assert heard == given == 5000


def test_many_middling_arrays_fit_the_buffer_that_their_bytes_fit(run_dir: Path) -> None:
    array = np.zeros(1200)
    with fb.open(run_dir, buffer="320MiB") as run:
        with run.snapshot(0) as s:
            for i in range(18_000):
                s.put(f"g{i // 100}/a{i}", array)
        run.flush()
        assert run.stats()["overflow_bytes"] == 0


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 1.0, "1", np.array([1, 2])])
def test_what_is_no_number_of_a_snapshot_is_refused_with_what_is(run_dir: Path, number: object) -> None:
    with fb.open(run_dir) as run:
        with run.snapshot(np.int32(3)) as s:
            s.put("x", 1.0)
        for ask in (run.snapshot, run.snapshots.at, run.drop, run.steps):
            with pytest.raises(fb.BadArgument, match=r"is no number of a s(napshot|tep); give an integer"):
                ask(number)  # type: ignore[operator]
        assert run.snapshots.at(np.int8(3)).step == 3


class Quantity:
    """A number with a unit that does not become a plain one by itself, as OpenMM has them."""

    def __float__(self) -> float:
        return "2.0 ps"  # type: ignore[return-value]

    def __repr__(self) -> str:
        return "2.0 ps"


def test_numbers_of_other_kinds_are_refused_with_what_they_are_for(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        diagram = run.diagram("kept", "history")
        for refused, says in (
            (lambda: run.saves(every=1.5), r"1\.5 is no number of steps between two states \(every\)"),  # type: ignore[call-overload]
            (lambda: run.steps(12.0), r"12\.0 is no number of a step; give an integer"),  # type: ignore[arg-type]
            (lambda: run.steps(12, stride=1.5), r"1\.5 is no stride of a loop"),  # type: ignore[arg-type]
            (lambda: run.reach("2"), "'2' is no number of a step"),  # type: ignore[arg-type]
            (lambda: diagram.append(0.0, W="a"), "'a' is no value of 'W' in the diagram 'kept'"),  # type: ignore[arg-type]
            (lambda: diagram.append("now", W=1.0), "'now' is no value of 't'"),  # type: ignore[arg-type]
        ):
            with pytest.raises(fb.BadArgument, match=says):
                refused()


def test_a_time_that_is_no_number_is_refused_with_what_to_give(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        with pytest.raises(fb.BadArgument, match=r"time = 2.0 ps is not the time.*give a number"):
            run.snapshot(0, time=Quantity())  # type: ignore[arg-type]
        with run.snapshot(0, time=np.float32(1.5)) as s:  # type: ignore[arg-type]
            s.put("x", 1.0)
        assert run.snapshots[-1].time == 1.5


def test_a_snapshot_without_arrays_is_a_snapshot(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        with run.snapshot(3):
            pass
        back = run.restart()
        assert back and back.step == 3 and len(back) == 0
