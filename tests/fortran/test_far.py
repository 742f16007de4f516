"""A Fortran program whose run is on another host."""

from __future__ import annotations

from pathlib import Path

from alike import check_remote
from far import Agent
from fortran_kit import PROGRAMS, Fortran, Home


def test_a_program_writes_a_run_on_another_host_reads_it_back_and_is_steered_there(
    fortran: Fortran, home: Home, agent: Agent, run_path: Path
) -> None:
    program = fortran.compile(PROGRAMS / "remote.f90")
    check_remote(home, agent, program, run_path, order="F", says="now 2.5  1\ndone\n")
