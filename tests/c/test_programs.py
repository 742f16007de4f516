"""C programs against the library: plainly, under valgrind, and with the address sanitizer."""

from __future__ import annotations

import re
from pathlib import Path

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
from kit import PROGRAMS, SANITIZERS, Home, Kit, functions
from meshes import check_meshes
from places import ended, until

ALONE = ["data", "tables", "snapshots", "threads", "late", "heads"]
BAD = ["bad_values"]
VALGRIND = (
    "valgrind",
    "-q",
    "--leak-check=full",
    "--errors-for-leak-kinds=definite",
    "--show-leak-kinds=definite",
    "--error-exitcode=9",
    "--fair-sched=yes",
)


@pytest.mark.parametrize("name", ALONE + BAD)
def test_a_program_uses_the_library(kit: Kit, home: Home, run_path: Path, name: str) -> None:
    assert home.run(kit.compile(PROGRAMS / f"{name}.c"), run_path) == "done\n"


@pytest.mark.parametrize("owner", OWNERS[1:])
@pytest.mark.parametrize("name", ["data", "described", "tables", "snapshots", "threads", "heads"])
def test_a_program_does_the_same_whoever_owns_its_run(
    kit: Kit, home: Home, agent: Agent, run_path: Path, name: str, owner: str
) -> None:
    own, place = at_owner(home, agent, run_path, owner)
    assert ended(own.start(kit.compile(PROGRAMS / f"{name}.c"), place))[0] == "done\n"


@pytest.mark.parametrize("source", ["described.c", "described.cpp"])
def test_arrays_say_what_they_are_to_python_and_to_xarray(
    kit: Kit, home: Home, run_path: Path, source: str
) -> None:
    flags = ["-std=c++17"] if source.endswith("pp") else []
    check_described(home, kit.compile(PROGRAMS / source, *flags, *SANITIZERS), run_path)


@pytest.mark.parametrize("source", ["meshes.c", "meshes.cpp"])
def test_meshes_and_particles_are_those_that_python_writes(
    kit: Kit, home: Home, run_path: Path, source: str
) -> None:
    flags = ["-std=c++17"] if source.endswith("pp") else []
    check_meshes(home, kit.compile(PROGRAMS / source, *flags, *SANITIZERS), run_path, 1, 2)


@pytest.mark.parametrize("owner", OWNERS)
def test_points_that_two_ranks_append_are_one_point(
    kit: Kit, home: Home, agent: Agent, run_path: Path, owner: str
) -> None:
    check_histories(home, agent, kit.compile(PROGRAMS / "histories.c"), run_path, owner)


@pytest.mark.parametrize("name", ALONE)
def test_valgrind_finds_nothing(kit: Kit, home: Home, run_path: Path, name: str) -> None:
    assert home.run(kit.compile(PROGRAMS / f"{name}.c"), run_path, under=VALGRIND) == "done\n"


@pytest.mark.parametrize("name", ALONE + BAD)
def test_the_address_sanitizer_finds_nothing(kit: Kit, home: Home, run_path: Path, name: str) -> None:
    assert home.run(kit.compile(PROGRAMS / f"{name}.c", *SANITIZERS), run_path) == "done\n"


@pytest.mark.parametrize("owner", OWNERS)
def test_a_child_of_fork_is_told_and_harms_nothing(
    kit: Kit, home: Home, agent: Agent, run_path: Path, owner: str
) -> None:
    own, place = at_owner(home, agent, run_path, owner)
    assert ended(own.start(kit.compile(PROGRAMS / "fork.c"), place))[0] == "done\n"


def test_a_child_of_fork_leaves_calls_under_way_and_the_server_alone(kit: Kit, home: Home) -> None:
    assert home.run(kit.compile(PROGRAMS / "fork_calls.c")) == "done\n"


# The agent of its calls would take the place of another host's agent in the home that both share here.
@pytest.mark.parametrize("owner", OWNERS[:2])
def test_a_child_of_fork_leaves_the_scopes_of_cpp_and_takes_nothing_from_the_parent(
    kit: Kit, home: Home, agent: Agent, run_path: Path, owner: str
) -> None:
    own, place = at_owner(home, agent, run_path, owner)
    assert ended(own.start(kit.compile(PROGRAMS / "fork.cpp", "-std=c++17"), place))[0] == "done\n"


def test_children_of_a_program_that_is_busy_writing_write_runs_of_their_own(
    kit: Kit, home: Home, run_path: Path
) -> None:
    assert home.run(kit.compile(PROGRAMS / "fork_busy.c"), run_path) == "done\n"


def test_a_program_calls_its_own_server(kit: Kit, home: Home) -> None:
    assert home.run(kit.compile(PROGRAMS / "calls.c")) == "done\n"


@pytest.mark.parametrize("how", ["plainly", "under the address sanitizer"])
def test_a_call_that_a_thread_waits_for_is_looked_at_and_given_up_by_another_one(
    kit: Kit, home: Home, how: str
) -> None:
    flags = SANITIZERS if how != "plainly" else []
    assert home.run(kit.compile(PROGRAMS / "waits.c", *flags)) == "done\n"


@pytest.mark.parametrize("how", ["plainly", "under the address sanitizer"])
def test_services_of_a_server_with_one_worker_call_their_own_server(kit: Kit, home: Home, how: str) -> None:
    flags = SANITIZERS if how != "plainly" else []
    assert home.run(kit.compile(PROGRAMS / "nested.c", *flags)) == "done\n"


def test_a_program_calls_its_own_server_under_the_address_sanitizer(kit: Kit, home: Home) -> None:
    assert home.run(kit.compile(PROGRAMS / "calls.c", *SANITIZERS)) == "done\n"


def test_valgrind_finds_nothing_in_calls_and_their_server(kit: Kit, home: Home) -> None:
    assert home.run(kit.compile(PROGRAMS / "calls.c"), under=VALGRIND) == "done\n"


def test_a_server_serves_another_program_until_it_is_told_to_end(kit: Kit, home: Home) -> None:
    server = home.start_ready(kit.compile(PROGRAMS / "server.c"))
    client = kit.compile(PROGRAMS / "calls.c")
    assert home.run(client, "there") == "done\n"
    server.terminate()
    out, err = server.communicate(timeout=20)
    assert (server.returncode, out) == (0, "served\n"), err


@pytest.mark.parametrize("how", ["plainly", "under the address sanitizer", "under valgrind"])
def test_a_program_works_on_a_bag_of_tasks(kit: Kit, home: Home, how: str) -> None:
    flags = SANITIZERS if "sanitizer" in how else []
    program = kit.compile(PROGRAMS / "bag.c", *flags)
    # Valgrind does not map as much as servers may share with a client.
    is_under = "valgrind" in how
    assert home.run(program, *["small"] * is_under, under=VALGRIND if is_under else ()) == "done\n"


@pytest.mark.parametrize("how", ["plainly", "under the address sanitizer", "under valgrind"])
def test_a_program_works_with_groups_and_is_told_the_ends_of_calls(kit: Kit, home: Home, how: str) -> None:
    program = kit.compile(PROGRAMS / "group.c", *(SANITIZERS if "sanitizer" in how else []))
    is_under = "valgrind" in how
    assert home.run(program, *["alone"] * is_under, under=VALGRIND if is_under else ()) == "done\n"


def test_a_bag_of_tasks_has_all_results_although_a_server_is_killed(kit: Kit, home: Home) -> None:
    program = kit.compile(PROGRAMS / "bag.c")
    servers = [home.start_ready(program, "serve") for _ in range(2)]
    assert home.run(program, "killing", str(servers[0].pid)) == "done\n"
    servers[0].communicate(timeout=20)
    servers[1].terminate()
    assert ended(servers[1])[0] == ""


def test_a_wait_that_ends_just_when_its_call_does_leaves_the_result_to_the_next_one(
    kit: Kit, home: Home
) -> None:
    assert home.run(kit.compile(PROGRAMS / "slices.c")) == "done\n"


def test_a_call_that_nobody_waits_for_is_issued_again_when_its_server_dies(
    kit: Kit, home: Home, tmp_path: Path
) -> None:
    program, note = kit.compile(PROGRAMS / "again.c"), tmp_path / "note"
    servers = [home.start_ready(program, "serve", note) for _ in range(2)]
    assert home.run(program, "call", note) == "done\n"
    for server in servers:
        server.terminate()
        server.communicate(timeout=20)


@pytest.mark.parametrize("owner", OWNERS)
def test_a_program_is_steered(kit: Kit, home: Home, agent: Agent, run_path: Path, owner: str) -> None:
    check_steered(
        home,
        agent,
        kit.compile(PROGRAMS / "watch.c"),
        run_path,
        owner,
        given={"nu": "2.5", "every": "20", "filter": "true", "scheme": "central"},
        refused={"nu": "9"},
        kicked="NULL",
        says="nu 2.5, every 20, seed {seed}, filter 1, scheme central, saves 2, kicks 1\n",
    )


def test_what_a_program_prints_of_its_page_steers_at_a_terminal(kit: Kit, home: Home, run_path: Path) -> None:
    check_printed(home, kit.compile(PROGRAMS / "watch.c"), run_path)


@pytest.mark.parametrize("why", ["SIGTERM", "time limit", "end of the job"])
def test_a_program_saves_and_ends_by_sigterm_and_by_its_time_limit(
    kit: Kit, home: Home, run_path: Path, why: str
) -> None:
    check_ending(home, kit.compile(PROGRAMS / "ending.c"), run_path, why)


@pytest.mark.parametrize("how", ["plainly", "under the address sanitizer"])
def test_calls_in_the_wrong_place_are_refused(kit: Kit, home: Home, run_path: Path, how: str) -> None:
    flags = SANITIZERS if how != "plainly" else []
    program = home.start_ready(kit.compile(PROGRAMS / "misuse.c", *flags), run_path)
    home.command("steer", run_path, "save")
    out, err = program.communicate(timeout=30)
    assert (program.returncode, out) == (0, "done\n"), err


def test_what_was_put_is_not_lost_when_a_program_ends_with_everything_open(
    kit: Kit, home: Home, run_path: Path
) -> None:
    misuse = kit.compile(PROGRAMS / "misuse.c")
    # The second time the run is made anew, and acts upon it are counted anew.
    for _ in range(2):
        program = home.start_ready(misuse, run_path, "end")
        saved = re.search(r"saved at step (\d+)", home.command("steer", run_path, "save"))
        assert saved is not None
        out, err = program.communicate(timeout=30)
        assert (program.returncode, out) == (0, "done\n"), err
        assert f"the program ends and has not closed {run_path}" in err and "forebay recover" in err

        def kept(step: str = saved[1]) -> bool:
            listed = home.command("ls", run_path)
            return "last" in listed and f"snapshots: 1, of step {step}\n" in listed

        until(kept, what="the snapshot that was ended")


def test_a_run_closed_in_its_own_loop_ends_the_loop(kit: Kit, home: Home, run_path: Path) -> None:
    program = home.start_ready(kit.compile(PROGRAMS / "misuse.c"), run_path, "close")
    home.start(kit.prefix / "bin" / "forebay", "steer", run_path, "save")
    out, err = program.communicate(timeout=30)
    assert program.returncode == 0 and out.startswith("done"), err


def test_the_header_is_good_as_every_dialect(kit: Kit, home: Home, run_path: Path) -> None:
    program = kit.compile(PROGRAMS / "plusplus.cpp")
    assert home.run(program, run_path) == "done\n"
    for dialect in ("c++14", "c++17", "c++20"):
        kit.compile(PROGRAMS / "plusplus.cpp", f"-std={dialect}", "-fsyntax-only")
    for dialect in ("c11", "c17", "gnu99"):
        kit.compile(PROGRAMS / "calls.c", f"-std={dialect}", "-fsyntax-only")


def test_a_compiler_that_is_told_of_an_older_cpp_is_told_what_the_header_needs(kit: Kit) -> None:
    with pytest.raises(AssertionError, match=r"needs C\+\+17: compile with -std=c\+\+17"):
        kit.compile(PROGRAMS / "modern.cpp", "-std=c++14", "-fsyntax-only")


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("source", ["damage.c", "damage.cpp"])
def test_a_damaged_snapshot_is_seen_passed_over_and_dropped(
    kit: Kit, home: Home, agent: Agent, run_path: Path, source: str, owner: str
) -> None:
    flags = ["-std=c++17"] if source.endswith("pp") else []
    check_damage(home, agent, kit.compile(PROGRAMS / source, *flags), run_path, owner)


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("source", ["damage.c", "damage.cpp"])
def test_who_waits_for_a_lost_store_is_told_and_a_second_start_says_what_there_is(
    kit: Kit, home: Home, agent: Agent, run_path: Path, source: str, owner: str
) -> None:
    flags = ["-std=c++17"] if source.endswith("pp") else []
    check_lost(home, agent, kit.compile(PROGRAMS / source, *flags), run_path, owner)


@pytest.mark.parametrize("owner", OWNERS)
def test_data_in_memory_that_is_not_seen_are_refused_or_given_up(
    kit: Kit, home: Home, agent: Agent, run_path: Path, owner: str
) -> None:
    check_elsewhere(home, agent, kit.compile(PROGRAMS / "elsewhere.c"), run_path, owner)


@pytest.mark.parametrize(
    ("source", "owner"), [("client.c", "embedded"), ("client.c", "other host"), ("client.cpp", "other host")]
)
def test_a_client_writes_beside_the_ranks(
    kit: Kit, home: Home, agent: Agent, run_path: Path, source: str, owner: str
) -> None:
    flags = ["-std=c++17"] if source.endswith("cpp") else []
    check_client(home, agent, kit.compile(PROGRAMS / source, *flags), run_path, owner)


def test_two_programs_under_one_launcher_are_told_to_give_their_own_numbers(
    kit: Kit, home: Home, run_path: Path
) -> None:
    check_apart(home, kit.compile(PROGRAMS / "damage.c"), run_path)


@pytest.mark.parametrize("how", ["plainly", "under the address sanitizer", "under valgrind"])
def test_a_program_in_modern_cplusplus_uses_the_library(
    kit: Kit, home: Home, run_path: Path, how: str
) -> None:
    flags = SANITIZERS if "sanitizer" in how else []
    for name in ("modern", "whole"):
        program = kit.compile(PROGRAMS / f"{name}.cpp", "-std=c++17", *flags)
        place = run_path.with_name(f"{name}.fb")
        assert home.run(program, place, under=VALGRIND if "valgrind" in how else ()) == "done\n"


@pytest.mark.parametrize("how", ["plainly", "under the address sanitizer", "under valgrind"])
def test_a_program_in_modern_cplusplus_works_with_groups_and_is_told_the_ends_of_calls(
    kit: Kit, home: Home, how: str
) -> None:
    flags = SANITIZERS if "sanitizer" in how else []
    program = kit.compile(PROGRAMS / "groups.cpp", "-std=c++17", *flags)
    assert home.run(program, under=VALGRIND if "valgrind" in how else ()) == "done\n"


@pytest.mark.parametrize(
    ("source", "how"), [("files.c", "under valgrind"), ("files.cpp", "under the address sanitizer")]
)
def test_a_program_gives_files_to_calls_and_gets_files_back(
    kit: Kit, home: Home, tmp_path: Path, source: str, how: str
) -> None:
    flags = ["-std=c++17"] if source.endswith("cpp") else []
    program = kit.compile(PROGRAMS / source, *flags, *(SANITIZERS if "sanitizer" in how else []))
    assert home.run(program, tmp_path, under=VALGRIND if "valgrind" in how else ()) == "done\n"


def test_a_program_in_modern_cplusplus_uses_an_agent(
    kit: Kit, home: Home, agent: Agent, run_path: Path
) -> None:
    own, place = at_owner(home, agent, run_path, "agent")
    for name in ("modern", "whole"):
        program = kit.compile(PROGRAMS / f"{name}.cpp", "-std=c++17")
        assert ended(own.start(program, place.with_name(f"{name}.fb")))[0] == "done\n"


def test_the_header_of_cplusplus_is_good_as_every_later_dialect(kit: Kit) -> None:
    for dialect in ("c++20", "gnu++17"):
        kit.compile(PROGRAMS / "modern.cpp", f"-std={dialect}", "-fsyntax-only")
        kit.compile(PROGRAMS / "whole.cpp", f"-std={dialect}", "-fsyntax-only")


def test_every_function_of_the_header_is_called_by_a_program() -> None:
    sources = "".join(p.read_text() for p in PROGRAMS.iterdir())
    missing = [name for name in functions() if f"{name}(" not in sources]
    assert missing == []
