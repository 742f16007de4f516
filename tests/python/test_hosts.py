"""A run that is written on one host, and watched, steered and read from another one, over TLS."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import forebay as fb
import pytest
from conftest import Agent, Place, until
from far import Hosts
from places import ended

pytestmark = pytest.mark.skipif(
    not Hosts.possible(), reason="needs `ip` and the right to make network namespaces"
)


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    """Two hosts of the test's own."""
    made = Hosts()
    yield made
    made.close()


WRITING = """
import sys, time, forebay as fb, numpy as np
with fb.open(sys.argv[1], buffer="16MiB") as run:
    p = run.parameter("k", 0)
    d = run.diagram("Energy", "history", x="t [s]", y="W [J]")
    for step in run.steps(1_000_000):
        with run.snapshot(step) as s:
            s.put("f", np.full(1000, float(step)))
        run.put(f"n/{step}", step)
        d.append(step * 0.1, field=1.0 + step)
        if p.value:
            break
        time.sleep(0.02)
print("last", step, flush=True)
"""


def test_a_run_written_on_one_host_is_watched_steered_and_read_from_another_and_outlives_a_pulled_cable(
    hosts: Hosts, place: Place, tmp_path: Path
) -> None:
    agent = Agent(tmp_path, f"tcp://{hosts.addresses[0]}:0", hosts.on(0))
    try:
        url = agent.url(tmp_path / "far.fb")
        place.variables["FOREBAY_HOME"] = agent.place.variables["FOREBAY_HOME"]

        def there(*words: str) -> str:
            return ended(place.forebay(*words, under=hosts.on(1)))[0]

        program = place.start(*hosts.on(1), sys.executable, "-c", WRITING, url)
        until(lambda: (tmp_path / "far.fb" / "catalog.sqlite").exists(), 30, "the run")
        until(lambda: len(json.loads(there("ls", url, "--steps", "--json"))) > 3, 30, "the first snapshots")
        assert "f64(1000,)" in there("show", url, "f", "--step", "0")
        assert "ssh -N -L" in there("monitor", url)
        hosts.join(False)
        time.sleep(5.0)
        hosts.join(True)
        assert there("steer", url, "set", "k", "1")
        last = int(ended(program)[0].split()[1])
        assert last > 20, "the program did not go on while the cable was out"
        with fb.open(tmp_path / "far.fb", "r") as run:
            assert run.snapshots.numbers == list(range(last + 1))
            assert {d.name: d.version for d in run.list()} == {f"n/{n}": 1 for n in range(last + 1)}
    finally:
        agent.close()
