"""Ranks of one launcher that do not come together in one run: what is said, and when."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Agent, Place, until
from places import ended

WRITE = """
import sys, forebay as fb, numpy as np
path, *rest = sys.argv[1:]
sizes = dict(rank=0, size=1) if rest == ["alone"] else {}
with fb.open(path, buffer="4MiB", **sizes) as run:
    with run.snapshot(0) as s:
        s.put("x", np.arange(3.0))
    run.put("small", 1.0)
print("written", flush=True)
"""
LOOK_ON = "import sys; sys.stdin.read()"


@pytest.mark.parametrize("where", ["here", "on another host"])
def test_a_run_that_only_one_rank_opens_says_what_it_waits_for_and_how_it_would_not(
    place: Place, agent: Agent, run_dir: Path, where: str
) -> None:
    place.variables["FOREBAY_HOME"] = agent.place.variables["FOREBAY_HOME"]
    if where != "here":
        # Who owns the run waits for its ranks, so it is told for how long.
        agent.place.variables["FOREBAY_LATE_RANKS"] = "1"
        agent.kill()
        until(lambda: not Path(f"/proc/{agent.pid}").exists(), what="the agent's end")
        agent.up()
    program = f"import os\nif os.environ['PMI_RANK'] == '1':\n    {LOOK_ON}\n    raise SystemExit\n{WRITE}"
    for words, kept in ((("alone",), True), ((), False)):
        place.variables["FOREBAY_LATE_RANKS"] = "1"
        path: str | Path = run_dir.with_name(f"run{len(words)}.fb")
        if where != "here":
            path = agent.url(Path(path))
        first, second = place.ranks(2, sys.executable, "-c", program, path, *words, stdin=subprocess.PIPE)
        out, err = first.communicate(timeout=30)
        assert second.poll() is None
        second.communicate(timeout=30)
        if kept:
            assert (first.returncode, out, err) == (0, "written\n", "")
            continue
        assert first.returncode == 1
        remark, *_, error = [line for line in err.splitlines() if "rank 1 of 2" in line]
        assert "did not open this run yet" in remark and "FOREBAY_LATE_RANKS" in remark
        assert "ServerLost" in error and "did not open the run within 1 s" in error
        for text in (remark, error):
            assert "rank=0, size=1" in text


@pytest.mark.parametrize("where", ["here", "on another host"])
def test_two_programs_of_one_launcher_that_open_two_runs_are_told_so_long_before_late_ranks_are_given_up(
    place: Place, agent: Agent, run_dir: Path, where: str
) -> None:
    place.variables["FOREBAY_HOME"] = agent.place.variables["FOREBAY_HOME"]
    both = []
    for rank, name in enumerate(("a.fb", "b.fb")):
        path = run_dir.with_name(name)
        env = {**place.env, "PMI_RANK": str(rank), "PMI_SIZE": "2", "FOREBAY_LATE_RANKS": "60"}
        both.append(place.python(WRITE, path if where == "here" else agent.url(path), env=env))
    for process in both:
        error = ended(process, 1, timeout=25)[1]
        assert "is another program and has opened the run" in error
        assert "rank=0, size=1 for one of one rank" in error


def on_another_host() -> tuple[str, ...]:
    """Before a command: it runs under another host name."""
    return ("unshare", "--uts", "sh", "-c", 'hostname elsewhere && exec "$0" "$@"')


def can_rename() -> bool:
    """Whether this process may give itself another host name."""
    return subprocess.run([*on_another_host(), "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not can_rename(), reason="needs the right to name a host")
def test_ranks_on_two_hosts_and_a_plain_name_are_refused_at_once_and_told_of_the_network(
    place: Place, run_dir: Path
) -> None:
    elsewhere = Place()
    try:
        tell = WRITE.replace(
            "    with run.snap", "    print('open', flush=True); sys.stdin.readline()\n    with run.snap"
        )
        env = {"PMI_SIZE": "2", "FOREBAY_LATE_RANKS": "60"}
        first = place.start(
            sys.executable,
            "-c",
            tell,
            run_dir,
            env={**place.env, **env, "PMI_RANK": "0"},
            stdin=subprocess.PIPE,
        )
        assert first.stdout is not None and first.stdout.readline() == "open\n"
        second = elsewhere.start(
            *on_another_host(),
            sys.executable,
            "-c",
            WRITE,
            run_dir,
            env={**elsewhere.env, **env, "PMI_RANK": "1"},
        )
        refused = ended(second, 1, timeout=20)[1]
        out, error = first.communicate("go\n", timeout=20)
        assert first.returncode == 1 and "written" not in out
        assert f"on host {os.uname().nodename}" in refused and "rank 1 of 2 is on host elsewhere" in refused
        assert "on host elsewhere) was refused" in error
        for text in (refused, error):
            assert "forebay up --listen" in text and "fb://HOST:PORT/NAME" in text
        # The note is for that owner alone.
        assert not list(run_dir.glob("absent*"))
    finally:
        elsewhere.close()
