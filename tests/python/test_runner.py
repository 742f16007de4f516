"""The runner of `make test`: it looks for what its own tests have left, and for nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT, Place, run_dir
from places import until

sys.path.insert(0, str(ROOT / "scripts"))

from runner import PREFIX, House

__all__ = ["run_dir"]


@pytest.fixture
def house() -> Iterator[House]:
    made = House()
    yield made
    made.sweep()


def test_segments_of_other_programs_are_not_left_overs(house: House) -> None:
    others = Path("/dev/shm", f"mpich_shm_{uuid.uuid4().hex}")
    ours = Path("/dev/shm", f"{house.base.name}-{os.getpid()}-0")
    try:
        others.touch()
        assert house.leftovers() == []
        ours.touch()
        assert house.leftovers() == [f"segment {ours}"]
        house.sweep()
        assert others.exists() and not ours.exists()
    finally:
        others.unlink()


def test_what_a_test_leaves_is_found_whatever_place_it_lived_in(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PREFIX, house.env[PREFIX])
    place = Place()
    code = "import os, forebay as fb; kept = fb.open('x', buffer='1MiB'); os._exit(0)"
    process = place.python(code, cwd=place.folder)
    assert process.wait(30) == 0
    left = house.leftovers()
    assert len(left) == 1 and place.prefix in left[0]
    house.sweep()
    shutil.rmtree(place.folder)


def test_processes_of_a_test_are_found_by_their_mark(house: House) -> None:
    with subprocess.Popen(["sleep", "60"], env=house.env) as child:
        # It has its environment a moment after it has begun.
        until(lambda: [pid for pid, _ in house.processes()] == [child.pid])
        child.kill()
    assert house.processes() == []
