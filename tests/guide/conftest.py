"""The fixtures of this suite: a wheel, and newcomers who have installed it and nothing else of Forebay."""

from __future__ import annotations

import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import ROOT, Reader
from places import Place, alone, common_folder, run

# What the pages use beside Forebay, as they say themselves.
BESIDE = ["h5netcdf", "h5py", "pandas", "xarray"]


@pytest.fixture(scope="session")
def wheel() -> Path:
    """The wheel, as `make wheel` has made it."""
    made = list((ROOT / "out" / "wheel").glob("forebay-*.whl"))
    assert len(made) == 1, f"{ROOT / 'out' / 'wheel'} holds {len(made)} wheels; run  make wheel"
    return made[0]


@pytest.fixture(scope="session")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment in which there is only the wheel, and what the pages use beside it."""
    folder = common_folder(tmp_path_factory) / "newcomer"
    with alone(folder.parent / "newcomer.lock"):
        if not (folder / "ready").exists():
            venv.create(folder, with_pip=True)
            versions = [
                f"--constraint={ROOT / 'scripts' / 'requirements' / name}.txt" for name in ("build", "test")
            ]
            pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet"]
            run(*pip, wheel, *BESIDE, *versions, timeout=900)
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
