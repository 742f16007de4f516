"""The benchmarks of calls measure what they say: tiny runs of our programs, and of the sequential ones beside them."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "benches" / "suite"))

import applications
import dgemm
import programs
import rivals


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the programs lie, with the library that they are linked with."""
    into = tmp_path_factory.mktemp("programs")
    programs.build(into, ["call_forebay"])
    return into


@pytest.fixture
def served() -> Iterator[dict[str, str]]:
    """An agent for servers and clients."""
    # The path of a socket is short.
    with tempfile.TemporaryDirectory(prefix="fbb-") as name, programs.agent(Path(name) / "a") as environment:
        yield environment


def test_a_call_of_nothing_is_timed_in_four_ways(built: Path, served: dict[str, str]) -> None:
    program, broker = rivals.ours(built, "void_forebay.c"), rivals.broker(served)
    with rivals.served([program, broker, "serve"], environment=served):
        found = programs.alone([program, broker, "0.2"], served)
    assert set(found) == {"synchronous", "asynchronous + get", "client part", "under way"}
    assert all(0 < us < 1e5 for us in found.values())


def test_transfers_of_4_bytes_to_64_mib_are_timed_beside_a_copy_and_a_socket(
    built: Path, served: dict[str, str]
) -> None:
    program, broker = rivals.ours(built, "transfer_forebay.c"), rivals.broker(served)
    with rivals.served([program, broker, "serve"], environment=served):
        found = programs.alone([program, broker, "0.001"], served)
    assert list(found) == [str(4 << 2 * k) for k in range(13)]
    assert all(set(us) == {"put", "get", "call", "copy", "socket"} for us in found.values())
    assert all(us[way] > found["4"]["copy"] for us in found.values() for way in ("put", "get", "call"))


def test_a_product_is_timed_here_and_at_servers_by_value_and_by_reference(
    built: Path, served: dict[str, str], tmp_path: Path
) -> None:
    program = rivals.ours(built, "dgemm_forebay.c", f"-l:{dgemm.LIBRARY}")
    figures = dgemm.at(1, program, tmp_path, served, 0.01)
    assert {f.at for f in figures} == {4, 8, 16, 32, 64, 128, 256, 512}
    ours = [f for f in figures if f.who in dgemm.SERVED.values()]
    assert len(ours) == 8 * len(dgemm.SERVED)
    assert all(f.ratio is not None and f.ratio > 0 for f in ours)


@pytest.mark.parametrize("work", applications.WORKS)
def test_two_servers_do_a_work_and_get_what_a_sequential_program_gets(
    built: Path, served: dict[str, str], tmp_path: Path, work: str
) -> None:
    here = rivals.build("cc", built, "works_here.c", *applications.FAST)
    program, broker = rivals.ours(built, "works_forebay.c", *applications.FAST), rivals.broker(served)
    right = str(tmp_path / "right.bin")
    sequential = programs.alone([here, work, right])["seconds"]
    servers = [[program, broker, "serve", f"works-{n}", "1"] for n in range(2)]
    with rivals.served(*servers, environment=served):
        # It compares with the file, and fails if it has other numbers.
        seconds = programs.alone([program, broker, work, right, "2"], served)["seconds"]
    assert 0 < seconds < 100 * sequential
