"""Fortran programs against the module: with all checks of the compiler, and under valgrind."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

import places
import pytest
from alike import (
    OWNERS,
    at_owner,
    check_apart,
    check_client,
    check_damage,
    check_described,
    check_elsewhere,
    check_ending,
    check_histories,
    check_lost,
    check_printed,
    check_steered,
)
from far import Agent
from fortran_kit import PROGRAMS, Fortran, Home, Kit
from kit import PROGRAMS as C_PROGRAMS
from meshes import check_meshes

ALONE = ["data", "handles", "heads", "late", "snapshots", "tables"]
CALLS = (PROGRAMS / "services.f90", PROGRAMS / "calls.f90")
VALGRIND = (
    "valgrind",
    "-q",
    "--leak-check=full",
    "--errors-for-leak-kinds=definite",
    "--show-leak-kinds=definite",
    "--error-exitcode=9",
    "--fair-sched=yes",
)


@pytest.mark.parametrize("name", ALONE)
def test_a_program_uses_the_module(fortran: Fortran, home: Home, run_path: Path, name: str) -> None:
    assert home.run(fortran.compile(PROGRAMS / f"{name}.f90"), run_path) == "done\n"


def test_arrays_say_what_they_are_to_python_and_to_xarray(
    fortran: Fortran, home: Home, run_path: Path
) -> None:
    check_described(home, fortran.compile(PROGRAMS / "described.f90"), run_path)


def test_meshes_and_particles_are_those_that_python_writes(
    fortran: Fortran, home: Home, run_path: Path
) -> None:
    check_meshes(home, fortran.compile(PROGRAMS / "meshes.f90"), run_path, 2)


@pytest.mark.parametrize("how", ["plainly", "under valgrind"])
def test_a_program_gives_files_to_calls_and_gets_files_back(
    fortran: Fortran, home: Home, tmp_path: Path, how: str
) -> None:
    program = fortran.compile(PROGRAMS / "files.f90", plain="valgrind" in how)
    assert home.run(program, tmp_path, under=VALGRIND if "valgrind" in how else ()) == "done\n"


@pytest.mark.parametrize("owner", OWNERS[1:])
@pytest.mark.parametrize("name", ["data", "heads", "tables", "snapshots"])
def test_a_program_does_the_same_whoever_owns_its_run(
    fortran: Fortran, home: Home, agent: Agent, run_path: Path, name: str, owner: str
) -> None:
    own, place = at_owner(home, agent, run_path, owner)
    assert places.ended(own.start(fortran.compile(PROGRAMS / f"{name}.f90"), place))[0] == "done\n"


@pytest.mark.parametrize("name", ALONE)
def test_valgrind_finds_nothing(fortran: Fortran, home: Home, run_path: Path, name: str) -> None:
    program = fortran.compile(PROGRAMS / f"{name}.f90", plain=True)
    assert home.run(program, run_path, under=VALGRIND) == "done\n"


# The agent of its calls would take the place of another host's agent in the home that both share here.
@pytest.mark.parametrize("owner", OWNERS[:2])
def test_a_child_of_fork_leaves_the_scope_of_handles_and_takes_nothing_from_the_parent(
    fortran: Fortran, home: Home, agent: Agent, run_path: Path, owner: str
) -> None:
    own, place = at_owner(home, agent, run_path, owner)
    assert places.ended(own.start(fortran.compile(PROGRAMS / "fork.f90"), place))[0] == "done\n"


@pytest.mark.parametrize("owner", OWNERS)
def test_a_damaged_snapshot_is_seen_passed_over_and_dropped(
    fortran: Fortran, home: Home, agent: Agent, run_path: Path, owner: str
) -> None:
    check_damage(home, agent, fortran.compile(PROGRAMS / "damage.f90"), run_path, owner)


@pytest.mark.parametrize("owner", OWNERS)
def test_who_waits_for_a_lost_store_is_told_and_a_second_start_says_what_there_is(
    fortran: Fortran, home: Home, agent: Agent, run_path: Path, owner: str
) -> None:
    check_lost(home, agent, fortran.compile(PROGRAMS / "damage.f90"), run_path, owner)


@pytest.mark.parametrize("owner", OWNERS)
def test_data_in_memory_that_is_not_seen_are_refused_or_given_up(
    fortran: Fortran, home: Home, agent: Agent, run_path: Path, owner: str
) -> None:
    check_elsewhere(home, agent, fortran.compile(PROGRAMS / "elsewhere.f90"), run_path, owner)


@pytest.mark.parametrize("owner", ["embedded", "other host"])
def test_a_client_writes_beside_the_ranks(
    fortran: Fortran, home: Home, agent: Agent, run_path: Path, owner: str
) -> None:
    check_client(home, agent, fortran.compile(PROGRAMS / "client.f90"), run_path, owner)


RANKS = """
import sys, forebay as fb, numpy as np
with fb.open(sys.argv[1], "r") as run:
    kept = run.snapshots[-1]
    i, j = np.indices((4, 6)) + 1
    assert np.array_equal(kept["E"], 10 * i + j), kept["E"]
    assert np.array_equal(kept["B"], 10 * i + j), kept["B"]
    assert kept["x"].tolist() == [1, 2, 2], kept["x"]
    assert np.array_equal(kept["v"], (10 * i + j)[:, 3:]) and kept["v"].flags.f_contiguous, kept["v"]
print("done")
"""


def test_two_ranks_give_their_blocks_of_one_array(fortran: Fortran, home: Home, run_path: Path) -> None:
    program = fortran.compile(PROGRAMS / "ranks.f90")
    launched = home.start("mpiexec.mpich", "-n", "2", program, run_path)
    out, err = launched.communicate(timeout=60)
    assert (launched.returncode, out) == (0, "done\ndone\n"), err
    assert home.run_python(RANKS, run_path) == "done\n"


@pytest.mark.parametrize("owner", OWNERS)
def test_points_that_two_ranks_append_are_one_point(
    fortran: Fortran, home: Home, agent: Agent, run_path: Path, owner: str
) -> None:
    check_histories(home, agent, fortran.compile(PROGRAMS / "histories.f90"), run_path, owner)


def test_two_programs_under_one_launcher_are_told_to_give_their_own_numbers(
    fortran: Fortran, home: Home, run_path: Path
) -> None:
    check_apart(home, fortran.compile(PROGRAMS / "damage.f90"), run_path)


@pytest.mark.parametrize("owner", OWNERS)
def test_a_program_is_steered(fortran: Fortran, home: Home, agent: Agent, run_path: Path, owner: str) -> None:
    given = {"nu": "2.5", "single": "0.75", "every": "20", "short": "-7", "filter": "true"}
    check_steered(
        home,
        agent,
        fortran.compile(PROGRAMS / "watch.f90"),
        run_path,
        owner,
        given={**given, "scheme": "central"},
        refused={"nu": "9", "short": "3000000000"},
        kicked="nothing",
        says="now 2.5  0.75  20 {seed:>20}  -7 T central     | 2 1\n",
    )


def test_what_a_program_prints_of_its_page_steers_at_a_terminal(
    fortran: Fortran, home: Home, run_path: Path
) -> None:
    check_printed(home, fortran.compile(PROGRAMS / "watch.f90"), run_path)


@pytest.mark.parametrize("why", ["SIGTERM", "time limit", "end of the job"])
def test_a_program_saves_and_ends_by_sigterm_and_by_its_time_limit(
    fortran: Fortran, home: Home, run_path: Path, why: str
) -> None:
    check_ending(home, fortran.compile(PROGRAMS / "ending.f90"), run_path, why)


def test_a_program_calls_its_own_server(fortran: Fortran, home: Home) -> None:
    assert home.run(fortran.compile(*CALLS)) == "done\n"


def test_valgrind_finds_nothing_in_calls_and_their_server(fortran: Fortran, home: Home) -> None:
    assert home.run(fortran.compile(*CALLS, plain=True), under=VALGRIND) == "done\n"


def test_a_program_works_on_a_bag_of_tasks(fortran: Fortran, home: Home) -> None:
    assert home.run(fortran.compile(PROGRAMS / "bag.f90")) == "done\n"


def test_a_program_works_with_groups_and_is_told_the_ends_of_calls(fortran: Fortran, home: Home) -> None:
    assert home.run(fortran.compile(PROGRAMS / "group.f90")) == "done\n"


def test_valgrind_finds_nothing_in_groups(fortran: Fortran, home: Home) -> None:
    assert home.run(fortran.compile(PROGRAMS / "group.f90", plain=True), under=VALGRIND) == "done\n"


def test_a_bag_of_tasks_has_all_results_although_a_server_is_killed(
    kit: Kit, fortran: Fortran, home: Home
) -> None:
    server = kit.compile(C_PROGRAMS / "bag.c")
    servers = [home.start_ready(server, "serve") for _ in range(2)]
    assert home.run(fortran.compile(PROGRAMS / "bag.f90"), "killing", str(servers[0].pid)) == "done\n"
    servers[0].communicate(timeout=20)
    servers[1].terminate()
    assert places.ended(servers[1])[0] == ""


def ended(server: subprocess.Popen[str]) -> None:
    """Tells a server to end; it does, well."""
    server.terminate()
    out, err = server.communicate(timeout=20)
    assert (server.returncode, out) == (0, "served\n"), err


FROM_PYTHON = """
import forebay as fb, numpy as np
x, y = np.arange(5.0), np.ones(5)
fb.call("axpy", 2.0, x, y)
assert y.tolist() == [1, 3, 5, 7, 9]
m = np.array([[1.0, 2, 3], [4, 5, 6]])
assert fb.call("layout", m) == (0, 91.0), fb.call("layout", m)
assert fb.call("layout", np.asfortranarray(m)) == (1, 1 + 8 + 6 + 20 + 15 + 36)
try:
    fb.call("fails")
except fb.RemoteError as error:
    assert "singular" in str(error)
print("done")
"""


def test_c_and_python_and_fortran_call_a_server_in_fortran(kit: Kit, fortran: Fortran, home: Home) -> None:
    server = home.start_ready(fortran.compile(PROGRAMS / "services.f90", PROGRAMS / "server.f90"), "of C")
    assert home.run(fortran.compile(*CALLS), "there") == "done\n"
    assert home.run_python(FROM_PYTHON) == "done\n"
    assert home.run(kit.compile(C_PROGRAMS / "calls.c"), "there") == "done\n"
    ended(server)


def test_what_a_service_in_fortran_prints_comes_to_who_calls_it_and_goes_on(
    fortran: Fortran, home: Home
) -> None:
    program = fortran.compile(PROGRAMS / "printing.f90")
    server = home.start_ready(program, "serve")
    assert home.run(program, "call") == "done\n"
    server.terminate()
    out, err = places.ended(server)
    assert out.splitlines() == [*["line 1", "line 2"] * 4, "served"]
    assert err.splitlines() == ["after 2 lines"] * 4


def test_fortran_calls_a_server_in_c(kit: Kit, fortran: Fortran, home: Home) -> None:
    server = home.start_ready(kit.compile(C_PROGRAMS / "server.c"))
    assert home.run(fortran.compile(*CALLS), "there") == "done\n"
    ended(server)


def test_a_server_that_listens_is_called_through_a_broker_elsewhere(
    fortran: Fortran, home: Home, tmp_path: Path
) -> None:
    with contextlib.closing(Agent(tmp_path)) as agent:
        home.variables["FOREBAY_HOME"] = agent.place.variables["FOREBAY_HOME"]
        program = fortran.compile(PROGRAMS / "services.f90", PROGRAMS / "server.f90")
        server = home.start_ready(program, "far", "tcp://127.0.0.1:0", agent.address)
        assert home.run(fortran.compile(*CALLS), agent.address) == "done\n"
        ended(server)
