"""Who keeps to spec/wire.md is understood, and numbers of the other byte order are made right."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import until
from far import Agent
from stranger import Connection, Link

SERVICES = '''
"""Services with arrays."""
import forebay as fb

@fb.service("in a:f64[1], in x:f64[n], inout y:f64[n]")
def axpy(a, x, y):
    y += a[0] * x

@fb.service("in z:c128[n,m], out w:c128[n,m]")
def conjugate(z, w):
    w[:] = z.conjugate()

@fb.service("in n:i32[k], out m:i64[k]")
def squares(n, m):
    m[:] = n.astype("i8") ** 2
'''


@pytest.fixture
def link(agent: Agent, tmp_path: Path) -> Iterator[Link]:
    file = tmp_path / "arrays.py"
    file.write_text(SERVICES)
    agent.place.serve(file)
    (known,) = Path(agent.place.variables["FOREBAY_HOME"]).glob("*.json")
    network = json.loads(known.read_text())["network"]
    secret = bytes.fromhex(network["secret"])
    found: list[str] = []

    def announced() -> bool:
        with Connection(network["listen"], secret) as broker:
            servers = broker.ask("Directory")["servers"]
        found.extend(server["listens"]["address"] for server in servers)
        return bool(found)

    until(announced, what="the server")
    with Link(found[0].replace("*", "127.0.0.1"), secret) as made:
        yield made


def test_a_big_endian_client_gets_right_results(link: Link) -> None:
    # Inline, in one piece, and in several.
    for n in (3, 5_000, 100_000):
        x, y = np.arange(float(n)), np.linspace(0.0, 1.0, n)
        (result,) = link.call("axpy", np.array([0.5]), x, y)
        np.testing.assert_array_equal(result, y + 0.5 * x)


def test_every_part_of_a_complex_number_and_integers_of_either_size_are_made_right(link: Link) -> None:
    z = np.arange(2_000.0).reshape(20, 100) * (1 + 2j)
    n = np.arange(-500, 500, dtype="i4") * 1_000
    for some in (z[:2, :3], z):
        (w,) = link.call("conjugate", some, np.empty_like(some))
        np.testing.assert_array_equal(w, some.conjugate())
    (m,) = link.call("squares", n, np.empty(n.shape, "i8"))
    np.testing.assert_array_equal(m, n.astype("i8") ** 2)
