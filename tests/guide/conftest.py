"""The fixtures of this suite: a wheel, and newcomers who have installed it and nothing else of Forebay."""

from __future__ import annotations

import fcntl
import subprocess
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import ROOT, Reader
from places import Place

# What the pages use beside Forebay, as they say themselves.
BESIDE = ["h5py", "pandas"]


def shared(factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers share."""
    own = factory.getbasetemp()
    return own.parent if own.name.startswith("popen-") else own


def quietly(*command: str | Path, **options: object) -> None:
    """Runs a command; its words are shown when it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}\n{done.stderr}"


@pytest.fixture(scope="session")
def wheel() -> Path:
    """The wheel, as `make wheel` has made it."""
    made = list((ROOT / "out" / "wheel").glob("forebay-*.whl"))
    assert len(made) == 1, f"{ROOT / 'out' / 'wheel'} holds {len(made)} wheels; run  make wheel"
    return made[0]


@pytest.fixture(scope="session")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment in which there is only the wheel, and what the pages use beside it."""
    folder = shared(tmp_path_factory) / "newcomer"
    with (folder.parent / "newcomer.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            venv.create(folder, with_pip=True)
            versions = [
                f"--constraint={ROOT / 'scripts' / 'requirements' / name}.txt" for name in ("build", "test")
            ]
            quietly(folder / "bin" / "python", "-m", "pip", "install", "--quiet", wheel, *BESIDE, *versions)
            (folder / "ready").touch()
    return folder / "bin" / "python"


@pytest.fixture
def reader(python: Path, tmp_path: Path) -> Iterator[Reader]:
    """Somebody who reads a page."""
    place = Place()
    one = Reader(place, tmp_path, python)
    yield one
    one.leave()
    place.close()
