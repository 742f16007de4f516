"""The fixtures of this suite: places to live in (see `places.py`)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import forebay as fb
import pytest
from far import Agent
from places import EXAMPLE, ROOT, Place, _worker_place, forebay_exe, run_dir, until

__all__ = ["EXAMPLE", "ROOT", "Place", "_worker_place", "forebay_exe", "run_dir", "until"]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A place of the test's own, for tests with processes; it ends before the runs of the test are removed."""
    made = Place()
    yield made
    made.close()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    """An agent of the test's own."""
    made = Agent(tmp_path)
    yield made
    made.close()


OWNERS = ("embedded", "agent", "remote")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Suites that use `owner` run with each owner; a test with processes of its own runs once."""
    if "owner" in metafunc.fixturenames:
        owners = ("embedded",) if "place" in metafunc.fixturenames else OWNERS
        metafunc.parametrize("owner", owners, indirect=True)


@pytest.fixture(scope="session")
def an_agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """An agent that other hosts may use, for all tests of this worker."""
    agent = Agent(tmp_path_factory.getbasetemp())
    yield agent
    agent.close()


@pytest.fixture
def no_agent() -> None:
    """An agent that another test started by need has left: it would own the runs of this one."""
    socket = Path(os.environ["FOREBAY_RUNTIME_DIR"]) / "agent.sock"
    until(lambda: not socket.exists(), 30, "the end of the agent")


@pytest.fixture
def owner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Who owns the runs of this test: this process, the node's agent, or an agent over TCP."""
    kind: str = request.param
    if kind == "embedded":
        request.getfixturevalue("no_agent")
        return kind
    agent: Agent = request.getfixturevalue("an_agent")
    if kind == "agent":
        for name, value in agent.place.variables.items():
            monkeypatch.setenv(name, value)
        return kind
    monkeypatch.setenv("FOREBAY_HOME", agent.place.variables["FOREBAY_HOME"])
    here = fb.open

    def there(path: str | os.PathLike[str], *args: object, **options: object) -> fb.Run:
        return here(agent.url(Path(path)), *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(fb, "open", there)
    return kind
