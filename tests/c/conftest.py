"""The fixtures of this suite: the library installed once, and a place for each test's processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit import Agent, Home, Kit
from places import installed


@pytest.fixture(scope="session")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Kit:
    """The library as it is installed, and the programs of this worker."""
    prefix = installed(tmp_path_factory)
    # For what the tests themselves ask of the command; programs find it without.
    os.environ["FOREBAY_EXE"] = str(prefix / "bin" / "forebay")
    return Kit(prefix, tmp_path_factory.mktemp("programs"))


@pytest.fixture
def home(kit: Kit, tmp_path: Path) -> Iterator[Home]:
    """Where the test's programs run; it ends before their runs are removed."""
    made = Home(kit)
    yield made
    made.close()


@pytest.fixture
def agent(home: Home, tmp_path: Path) -> Iterator[Agent]:
    """An agent that takes runs of other hosts; who lives at home has its key."""
    made = Agent(tmp_path)
    home.variables["FOREBAY_HOME"] = made.place.variables["FOREBAY_HOME"]
    yield made
    made.close()


@pytest.fixture
def run_path(tmp_path: Path) -> Path:
    """Where the test's run is."""
    return tmp_path / "test.fb"
