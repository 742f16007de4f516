"""Two runs, or two snapshots, side by side."""

from __future__ import annotations

import json
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from places import Place, ended, forebay_exe


class Shell:
    """The command, typed in a folder."""

    def __init__(self, place: Place, folder: Path) -> None:
        self.place, self.folder = place, folder

    def diff(self, *words: str) -> tuple[int, list[dict[str, object]]]:
        exe = forebay_exe()
        assert exe is not None
        process = self.place.start(exe, "diff", *words, "--json", cwd=self.folder)
        out, err = process.communicate(timeout=60)
        assert process.returncode in (0, 1), err
        found: dict[str, list[dict[str, object]]] = json.loads(out)
        return process.returncode, found["differences"]

    def refused(self, *words: str) -> str:
        exe = forebay_exe()
        assert exe is not None
        return ended(self.place.start(exe, "diff", *words, cwd=self.folder), 2)[1]


@pytest.fixture
def shell(place: Place, tmp_path: Path) -> Shell:
    return Shell(place, tmp_path)


def make(path: Path, change: float = 0.0, steps: int = 2) -> None:
    with fb.open(path, "w") as run:
        run.attrs["title"] = "two streams"
        run.put("wave", np.array([0.0, 1.0, np.nan]), units="m" if change == 0 else "cm")
        run.put("words", np.array(["ab", "c" if change == 0 else "d"]))
        t = run.table("parts", columns={"name": "str", "n": "u64", "m": "f8"})
        t.insert([("e", 2**64 - 1, np.nan), ("p", 2, 1.0 + change)])
        for step in range(steps):
            with run.snapshot(step, 0.5 * step) as s:
                field = np.arange(12.0).reshape(3, 4) + step
                field[1, 2] += change
                s.put("E", field)
                s.put("F", np.asfortranarray(field))
                s.put("n", np.array([2**63 + int(4 * change)], "u8"))


def test_runs_that_are_alike_are_the_same_and_others_are_told_apart(shell: Shell) -> None:
    for name, change, steps in (("a", 0.0, 2), ("b", 0.0, 2), ("c", 0.25, 3)):
        make(shell.folder / f"{name}.fb", change, steps)
    assert shell.diff("a", "b") == (0, []) == shell.diff("a", "b", "--read-all")
    status, found = shell.diff("a", "c")
    told = {(d["of"], d.get("name"), d.get("step"), d["differs"]) for d in found}
    arrays = {("array", name, step, "elements") for name in ("E", "F", "n") for step in (0, 1)}
    assert status == 1 and told == arrays | {
        ("data set", "wave", None, "units"),
        ("data set", "words", None, "elements"),
        ("table", "parts", None, "rows"),
        ("snapshot", None, 2, "only"),
    }
    of = {(d.get("name"), d.get("step")): d for d in found}
    for name in ("E", "F"):
        one = of[name, 1]
        assert (one["differing"], one["elements"], one["first"]) == (1, 12, [1, 2])
        assert (one["a"], one["b"], one["largest"], one["largest_relative"]) == (
            "7.0",
            "7.25",
            0.25,
            0.25 / 7.25,
        )
    assert (of["n", 0]["a"], of["n", 0]["b"], of["n", 0]["largest"]) == (str(2**63), str(2**63 + 1), 1.0)
    assert (of["words", None]["first"], of["words", None]["b"]) == ([1], '"d"')
    assert (of["parts", None]["first"], of["parts", None]["column"]) == (1, "m")


def test_numbers_within_a_tolerance_are_the_same(shell: Shell) -> None:
    make(shell.folder / "a.fb")
    make(shell.folder / "b.fb", 0.25)
    assert shell.diff("a", "b", "E", "F", "parts", "--atol", "0.25") == (0, [])
    assert shell.diff("a", "b", "E", "--rtol", "0.04", "--steps", "0")[0] == 0
    assert shell.diff("a", "b", "E", "--rtol", "0.03", "--steps", "0..5")[0] == 1
    assert "is no tolerance" in shell.refused("a", "b", "--rtol", "-1")


def test_two_snapshots_of_one_run_are_compared(shell: Shell) -> None:
    make(shell.folder / "a.fb")
    status, found = shell.diff("a@0", "a@1")
    assert status == 1 and [d["name"] for d in found] == ["E", "F"] and found[0]["differing"] == 12
    assert shell.diff("a@1", "a@1", "--read-all") == (0, [])
    assert "no complete snapshot of step 7" in shell.refused("a@0", "a@7")
    assert "give two snapshots" in shell.refused("a@0", "a")
    assert "nothing there is called Q" in shell.refused("a", "a", "Q")
    assert "there is no run" in shell.refused("a", "b")


def test_arrays_larger_than_what_is_read_at_once_and_of_other_layout_are_compared(shell: Shell) -> None:
    field = np.arange(3_000_000.0).reshape(1000, 3000)
    for name in ("a", "b", "c"):
        with fb.open(shell.folder / name, "w") as run, run.snapshot(0) as s:
            field[999, 2998] = 0.5 if name == "c" else -1.0
            if name == "b":
                # In the order of columns, which the file keeps.
                s.allocate("E", field.shape, "f8", order="F")[...] = field
            else:
                s.put("E", field)
    assert shell.diff("a", "b") == (0, [])
    for one in ("a", "b"):
        status, found = shell.diff(one, "c")
        assert status == 1 and (found[0]["differing"], found[0]["first"]) == (1, [999, 2998])
