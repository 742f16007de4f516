"""What services print comes to the callers of calls that fail, and still goes where it went before."""

from __future__ import annotations

import fcntl
import signal
from pathlib import Path

import pytest
from kit import PROGRAMS, SANITIZERS, Home, Kit
from places import until


@pytest.mark.parametrize("how", ["plainly", "under the address sanitizer"])
def test_what_a_service_in_c_prints_comes_to_who_calls_it_in_c_and_cplusplus_and_goes_on(
    kit: Kit, home: Home, how: str
) -> None:
    flags = SANITIZERS if "sanitizer" in how else []
    server = home.start_ready(kit.compile(PROGRAMS / "printing.c", *flags), "serve")
    assert home.run(kit.compile(PROGRAMS / "printing.c", *flags), "call") == "done\n"
    assert home.run(kit.compile(PROGRAMS / "printing.cpp", "-std=c++17", *flags)) == "done\n"
    server.terminate()
    out, err = server.communicate(timeout=20)
    assert server.returncode == 0, err
    lines = out.splitlines()
    assert lines[-1] == "served"
    assert lines.count("line 999") == 1
    assert lines.count("we have met") == 2
    assert err.splitlines().count("after 1000 lines") == 1


def test_a_server_that_is_killed_takes_nothing_along_of_what_it_has_printed(
    kit: Kit, home: Home, tmp_path: Path
) -> None:
    program = kit.compile(PROGRAMS / "printing.c")
    out, err = tmp_path / "out", tmp_path / "err"
    with out.open("w") as to, err.open("w") as errors_to:
        server = home.start(program, "serve", stdout=to, stderr=errors_to)
    assert home.run(program, "kill", FOREBAY_PATIENCE="20") == "done\n"
    assert server.wait(timeout=20) == -signal.SIGKILL
    # What is left is passed on by another process.
    until(lambda: "word 19999\n" in out.read_text() and "the last words\n" in err.read_text())
    words = [line for line in out.read_text().splitlines() if line.startswith("word ")]
    # What the server was passing on when it died may come twice.
    assert list(dict.fromkeys(words)) == [f"word {n}" for n in range(20000)]


def test_a_server_serves_although_nobody_reads_what_it_prints_any_more(kit: Kit, home: Home) -> None:
    program = kit.compile(PROGRAMS / "printing.c")
    server = home.start_ready(program, "serve")
    for stream in (server.stdout, server.stderr):
        assert stream is not None
        stream.close()
    assert home.run(program, "call") == "done\n"
    server.terminate()
    # Its own last line, which it prints when it keeps its output no more, finds no reader either.
    assert server.wait(timeout=20) in (0, -signal.SIGPIPE)


def test_a_call_that_fails_is_answered_although_nobody_reads_what_it_prints(kit: Kit, home: Home) -> None:
    program = kit.compile(PROGRAMS / "printing.c")
    server = home.start_ready(program, "serve")
    assert server.stdout is not None
    fcntl.fcntl(server.stdout, fcntl.F_SETPIPE_SZ, 4096)
    assert home.run(program, "call") == "done\n"
    server.terminate()
    out, _ = server.communicate(timeout=20)
    assert out.splitlines().count("line 999") == 1
    assert out.endswith("served\n")
