"""The loop head, diagrams, parameters, messages."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from places import forebay_exe

pytestmark = pytest.mark.usefixtures("owner")


def test_the_loop_head_counts(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        assert list(run.steps(5)) == [0, 1, 2, 3, 4]
        assert list(run.steps(8, start=5)) == [5, 6, 7]
        assert list(run.steps(8, start=8)) == []


def test_diagrams_take_points_of_any_kind(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        curve = run.diagram("E", "curve", x="x [m]", y="E [V/m]")
        scatter = run.diagram("Phase space", "scatter", x="x [m]", y="v [m/s]")
        history = run.diagram("Energy", "history", x="t [s]", y="W [J]", yscale="log")
        for step in run.steps(50):
            curve.update(np.arange(64.0), np.arange(64, dtype=np.float32))
            curve.update([1, 2], [3, 4])
            scatter.update("electrons", np.arange(100_000.0)[::2], np.ones(50_000))
            history.append(step * 0.1, field=1.0 + step, kinetic=np.float64(2.0))


def test_points_that_do_not_fit_together_are_refused(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        for kind, x, y in (
            ("length", [1, 2], [1]),
            ("rank", np.zeros((2, 2)), np.zeros((2, 2))),
            ("text", ["a"], [1]),
        ):
            with pytest.raises(fb.BadArgument):
                run.diagram(kind).update(x, y)
        with pytest.raises(fb.BadArgument):
            run.diagram("count").update([1, 2])
        with pytest.raises(fb.BadArgument):
            run.diagram("kind", "pie")
        with pytest.raises(fb.BadArgument):
            run.diagram("scale", yscale="square")  # type: ignore[arg-type]


def test_a_parameter_has_its_value_and_its_limits(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        p = run.parameter("amplitude", 0.25, min=-1, max=1, units="V/m", help="of the wave")
        assert p.name == "amplitude"
        assert p.value == 0.25
        assert run.parameter("n", 3).value == 3
        assert run.parameter("on", True).value is True
        assert run.parameter("word", "a").value == "a"
        assert run.parameter("numpy", np.float32(0.5)).value == 0.5
        assert run.parameter("top", 2**64 - 1).value == 2**64 - 1
        again = run.parameter("amplitude", 0.25, min=-1, max=1, units="V/m", help="of the wave")
        assert again.value == 0.25, "a cell of a notebook that is run again"
        with pytest.raises(fb.Conflict, match="declared already, and otherwise"):
            run.parameter("amplitude", 0.5, min=-1, max=1, units="V/m", help="of the wave")
        with pytest.raises(fb.BadArgument):
            run.parameter("beyond", 2.0, max=1.0)
        with pytest.raises(fb.BadArgument):
            run.parameter("list", [1, 2])


def test_messages_have_levels(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        run.message("begun")
        run.message("hot", "warning")
        with pytest.raises(fb.BadArgument):
            run.message("?", "loud")  # type: ignore[arg-type]


def test_saves_and_commands_may_be_registered(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        calls: list[int] = []
        assert run.saves(calls.append) is not None
        run.command("kick", calls.append)
        assert list(run.steps(3)) == [0, 1, 2]
        assert calls == []


def test_what_a_program_prints_of_its_page_steers_at_a_terminal_only(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    with fb.open(run_dir) as run:
        page = run.monitor()
        assert page.viewer.startswith("http://127.0.0.1:")
        assert str(page) == f"{page}" == page.viewer
        assert page.viewer in repr(page) and page.viewer in page._repr_html_()
        first, second = page.operator, page.operator
        assert len({first, second, page.viewer}) == 3
        assert len({link.split("#")[0] for link in (first, second, page.viewer)}) == 1
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", Terminal())
            assert str(page) not in (page.viewer, first, second)
            assert page.viewer in repr(page)
        assert run.monitor().viewer == page.viewer
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", Terminal())
        assert str(page) == page.viewer, "a run that is closed is steered by nobody"


def test_behind_its_loop_a_run_answers_a_verb_at_once_and_in_the_next_loop_takes_it(run_dir: Path) -> None:
    def steer(run: fb.Run, *words: str) -> subprocess.CompletedProcess[str]:
        command = [str(forebay_exe()), "steer", str(run.path), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    with fb.open(run_dir) as run:
        assert list(run.steps(3)) == [0, 1, 2]
        for verb in ("stop", "save", "quit"):
            refused = steer(run, verb)
            assert refused.returncode != 0
            assert "loop" in refused.stderr
        seen = []

        def quit() -> None:
            answer = steer(run, "quit")
            # From another host it may come before the news of the loop, which goes another way.
            while "behind it" in answer.stderr and "://" in str(run.path):
                answer = steer(run, "quit")
            seen.append(answer)

        asked = threading.Thread(target=quit)
        for step in run.steps(10**12, start=3):
            if step == 3:
                asked.start()
            if seen and seen[0].returncode != 0:
                break
        asked.join()
        assert seen[0].returncode == 0, seen[0].stderr
        assert run.ended_by is not None


def test_what_cannot_be_a_parameter_or_a_point_is_refused_by_name(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        with pytest.raises(fb.BadArgument, match=r'parameter "nu": NaN is not a finite number'):
            run.parameter("nu", float("nan"))
        with pytest.raises(fb.BadArgument, match=r'parameter "n": .* from -2\*\*63 to'):
            run.parameter("n", 2**64)
        with pytest.raises(fb.BadArgument, match=r'a point of "E" has no values'):
            run.diagram("E", "history").append(1.0)


def test_two_diagrams_of_one_title_are_of_one_kind(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        run.diagram("c", "curve")
        run.diagram("c", "curve")
        with pytest.raises(fb.Conflict, match="another title"):
            run.diagram("c", "history")


def test_a_history_with_points_of_an_earlier_start_stays_one(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        run.diagram("energy", "history").append(0.0, e=1.0)
        run.diagram("empty", "history")
        run.diagram("u", "curve").update([0.0], [1.0])
    with fb.open(run_dir) as run:
        for title, kind in (("empty", "scatter"), ("u", "scatter")):
            run.diagram(title, kind)  # type: ignore[arg-type]
        run.flush()
        with pytest.raises(fb.Conflict, match=r'"energy" is of kind History in this run.*declared as Curve'):
            run.diagram("energy", "curve")
            run.flush()
        run.diagram("empty", "scatter")
    with fb.open(run_dir, "r") as run:
        kinds = run.sql("select title, declaration from fb_diagrams")
        assert ["history" in row["declaration"] for row in kinds if row["title"] == "energy"] == [True]


def test_a_parameter_with_limits_the_wrong_way_round_is_refused_by_them(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        with pytest.raises(fb.BadArgument, match=r"least value 10.* above its greatest value 0"):
            run.parameter("nu", 5.0, min=10, max=0)
        with pytest.raises(fb.BadArgument, match=r"nu.*give a value from 0.* to 1"):
            run.parameter("nu", 5.0, min=0, max=1)
