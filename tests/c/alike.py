"""What programs in C and in Fortran do alike."""

from __future__ import annotations

import struct
from pathlib import Path

from far import Agent
from kit import Home
from places import ended

READ = """
import sys, forebay as fb, numpy as np
path, order = sys.argv[1:]
with fb.open(path, "r") as run:
    assert [d.name for d in run.list()] == [f"small/{n}" for n in range(10)]
    assert all(run[f"small/{n}"].tolist() == [n, n * n] for n in range(10))
    assert run.snapshots.numbers == [0, 1, 2]
    for step in range(3):
        field = run.snapshots.at(step)["field"]
        assert field.shape == (300, 200)
        assert (field.ravel(order=order) == step * 1e6 + np.arange(60_000)).all()
        assert run.snapshots.at(step).time == step / 2
"""


def check_ending(home: Home, ending: Path, run_path: Path, why: str) -> None:
    """A program that is told to end keeps its state, and a second one goes on as if it had never ended."""
    program = home.start_ready(ending, run_path, "3" if why == "time limit" else "0", "1000000000")
    if why == "SIGTERM":
        program.terminate()
    out, err = program.communicate(timeout=20)
    assert program.returncode == 0, err
    at = int(out.split()[2])
    assert out == f"0 to {at} ended by {why}\n"
    assert home.run(ending, run_path, "0", str(at + 100)) == f"ready\n{at} to {at + 100} ended by itself\n"
    twin = run_path.with_name("twin.fb")
    home.run(ending, twin, "0", str(at + 100))
    last, whole = (home.command("show", path, "x", "--step", str(at + 100)) for path in (run_path, twin))
    assert last == whole


OWNERS = ("embedded", "agent", "other host")


def check_damage(home: Home, agent: Agent, program: Path, run_path: Path, owner: str) -> None:
    """A byte of a snapshot that was turned over is seen by who reads it, and passed over by who goes on."""
    place = agent.url(run_path) if owner == "other host" else run_path
    own = home if owner != "agent" else agent.place
    assert ended(own.start(program, place, "write"))[0] == "done\n"
    file = run_path / "steps" / "0000000003.h5"
    content = bytearray(file.read_bytes())
    content[content.index(struct.pack("<d", 3.25) * 10) + 5] ^= 1
    file.write_bytes(content)
    assert ended(own.start(program, place, "read"))[0] == "done\n"
    assert "0000000003.h5" in home.command("verify", run_path, status=1)
    said = home.command("repair", run_path, status=1)
    assert "snapshot 3 is damaged" in said and "forebay drop" in said
    out, err = ended(own.start(program, place, "go"))
    assert out == "done\n"
    assert "goes back to step 2 and passes over damaged ones: 3" in err
    assert "sound; 3 snapshots" in home.command("verify", run_path)


def check_remote(home: Home, agent: Agent, program: Path, run_path: Path, *, order: str, says: str) -> None:
    """A program writes a run on another host and is steered there; what it wrote is read where it is."""
    url = agent.url(run_path)
    process = home.start_ready(program, url)
    for words in (("set", "nu", "2.5"), ("save",), ("quit",)):
        home.command("steer", url, *words)
    assert ended(process)[0] == says
    agent.place.run_python(READ, run_path, order)
    assert not home.segments()
