"""A Fortran program whose run is on another host."""

from __future__ import annotations

from pathlib import Path

from far import Agent
from fortran_kit import PROGRAMS, Fortran, Home
from places import ended

READ = """
import sys, forebay as fb, numpy as np
with fb.open(sys.argv[1], "r") as run:
    assert [d.name for d in run.list()] == [f"small/{n}" for n in range(10)]
    assert all(run[f"small/{n}"].tolist() == [n, n * n] for n in range(10))
    assert run.snapshots.numbers == [0, 1, 2]
    for step in range(3):
        field = run.snapshots.at(step)["field"]
        assert field.shape == (300, 200)
        assert (field.ravel(order="F") == step * 1e6 + np.arange(60_000)).all()
"""


def test_a_program_writes_a_run_on_another_host_reads_it_back_and_is_steered_there(
    fortran: Fortran, home: Home, run_path: Path
) -> None:
    agent = Agent(run_path.parent)
    try:
        home.variables["FOREBAY_HOME"] = agent.place.variables["FOREBAY_HOME"]
        url = agent.url(run_path)
        program = home.start_ready(fortran.compile(PROGRAMS / "remote.f90"), url)
        for words in (("set", "nu", "2.5"), ("save",), ("quit",)):
            home.command("steer", url, *words)
        assert ended(program)[0] == "now 2.5  1\ndone\n"
        agent.place.run_python(READ, run_path)
        assert not home.segments()
    finally:
        agent.close()
