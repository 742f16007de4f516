"""The programs of others that the guide shows beside ours, with the real packages."""

from __future__ import annotations

import sys
from pathlib import Path

import forebay as fb
import numpy as np
import openpmd_api as io
from adios2 import FileReader
from pages import GUIDE, NAMED, blocks
from places import Place


def test_programs_that_come_from_other_tools_run_and_their_files_come_in(
    place: Place, tmp_path: Path
) -> None:
    typed = {
        named[1]: block.text
        for block in blocks(GUIDE / "coming-from.md")
        if (named := NAMED.match(block.text)) and block.language == "python"
    }
    order = ["with_adios2.py", "with_openpmd.py", "from_adios2.py", "from_openpmd.py"]
    assert set(order) <= set(typed)
    for name in order:
        (tmp_path / name).write_text(typed[name])
        process = place.start(sys.executable, name, cwd=tmp_path)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, f"{name}: {err}"
    with fb.open(tmp_path / "from_adios2", "r") as run, FileReader(str(tmp_path / "wave.bp")) as f:
        assert [(snap.step, snap.time) for snap in run.snapshots] == [(0, 0.0), (50, 5.0), (100, 10.0)]
        last = f.read("E", step_selection=[2, 1])
        assert last[0] > 9.0 and np.array_equal(run.snapshots.at(100)["E"], last)
        assert run.snapshots.at(50).dataset("E").units == "V/m"
    ours = io.Series(str(tmp_path / "from_openpmd.fb" / "steps" / "%T.h5"), io.Access.read_only)
    theirs = io.Series(str(tmp_path / "pic_theirs" / "%T.h5"), io.Access.read_only)
    assert list(ours.iterations) == list(theirs.iterations) == [0, 50, 100]
    for number, it in theirs.iterations.items():
        was, now = it.meshes["E"], ours.iterations[number].meshes["E"]
        assert now["x"].shape == was["x"].shape == [64, 32]
        assert (now.axis_labels, now.grid_spacing, now.unit_dimension, now["x"].position) == (
            was.axis_labels,
            was.grid_spacing,
            was.unit_dimension,
            was["x"].position,
        )
    ours.close()
    theirs.close()
