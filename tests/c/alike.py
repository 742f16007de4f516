"""What programs in C and in Fortran do alike."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import struct
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import forebay as fb
import h5py
import numpy as np
import xarray as xr
from far import Agent
from kit import Home
from owners import taken
from places import Place, ended, hear, until

READ = """
import sys, forebay as fb, numpy as np
path, order = sys.argv[1:]
with fb.open(path, "r") as run:
    assert [d.name for d in run.list()] == [f"small/{n}" for n in range(10)]
    assert all(run[f"small/{n}"].tolist() == [n, n * n] for n in range(10))
    assert run.snapshots.numbers == [0, 1, 2]
    for step in range(3):
        field = run.snapshots.at(step)["field"]
        assert field.shape == (300, 200)
        assert (field.ravel(order=order) == step * 1e6 + np.arange(60_000)).all()
        assert run.snapshots.at(step).time == step / 2
"""


# What a program says that wants to end with its job.
JOB_END = "-1"


def check_ending(home: Home, ending: Path, run_path: Path, why: str) -> None:
    """A program that is told to end keeps its state, and a second one goes on as if it had never ended."""
    limit = {"time limit": "3", "end of the job": JOB_END}.get(why, "0")
    if limit == JOB_END:
        home.variables.update(SLURM_JOB_ID="4711", SLURM_JOB_END_TIME=str(int(time.time()) + 3))
    program = home.start_ready(ending, run_path, limit, "1000000000")
    if why == "SIGTERM":
        # What is kept once is not taken again, and the program goes on.
        for word in ("stop", "save"):
            home.command("steer", run_path, word)
        assert "is kept already" in home.command("steer", run_path, "save")
        home.command("steer", run_path, "run")
        program.terminate()
    out, err = program.communicate(timeout=20)
    assert program.returncode == 0, err
    at = int(out.split()[2])
    assert out == f"0 to {at} ended by {'SIGTERM' if why == 'SIGTERM' else 'time limit'}\n"
    assert home.run(ending, run_path, "0", str(at + 100)) == f"ready\n{at} to {at + 100} ended by itself\n"
    twin = run_path.with_name("twin.fb")
    home.run(ending, twin, "0", str(at + 100))
    last, whole = (home.command("show", path, "x", "--step", str(at + 100)) for path in (run_path, twin))
    assert last == whole


def check_described(home: Home, program: Path, run_path: Path) -> None:
    """What a program says of its arrays Python finds, and xarray, which knows nothing of Forebay."""
    assert home.run(program, run_path) == "done\n"
    with fb.open(run_path, "r") as run:
        snap = run.snapshots.at(1)
        T = snap["T"]
        assert np.array_equal(T, 10.0 * np.arange(6)[:, None] + np.arange(3))
        assert snap.dims("T") == snap.dims("p") == ("x", "y") and snap.dims("u") == ("x", "kind")
        assert snap.dataset("T").units == "K" and snap.dataset("x").units == "m"
        assert np.array_equal(snap["nodes"], T)
        for name in ("small", "plain", "opened"):
            assert np.array_equal(snap[name], np.arange(20_000) // 100)
        assert snap.stats("small") == fb.Stats(0.0, 199.0, 99.5, 0)
        coords = snap.coords("T") | snap.coords("u")
        assert coords["x"].tolist() == [0.0, 0.25, 0.5, 0.75, 1.0, 1.25] and coords["y"].tolist() == [
            10,
            12,
            14,
        ]
        assert coords["kind"].tolist() == ["ion", "electron", "probe"]
        attrs = snap.attrs("T")
        box = attrs.pop("box")
        assert box.dtype == np.float32 and box.tolist() == [1.0, 2.5]
        attrs.pop("periodic", None)
        assert attrs == {"long_name": "temperature", "sigma": 0.5, "n": 3, "walls": ["in", "out"]}
        assert snap.attrs("x") == {"axis": "X"} and snap.attrs("u")["_FillValue"].dtype == np.float32
        for found in (run.attrs, run.dataset("set", 3).attrs):
            assert np.array_equal(found["matrix"], np.arange(6.0).reshape(2, 3))
        assert run.attrs["z"] == 1.5 - 2j and math.isnan(run.table("bodies").attrs["nan"])
    with h5py.File(run_path / "steps" / "0000000001.h5") as f:
        assert f["small"].compression == "gzip" and (f["small"][()] == np.arange(20_000) // 100).all()
        assert f["plain"].chunks is None and f["opened"].id.get_create_plist().get_filter(1)[0] == 32015
    with xr.open_dataset(run_path / "steps" / "0000000001.h5", engine="h5netcdf") as ds:
        assert float(ds["T"].sel(x=0.5, y=12.0)) == T[2, 1] and ds["x"].attrs["units"] == "m"
        assert float(ds["u"].sel(x=0.5)[1]) == T[2, 1] and ds["T"].attrs["sigma"] == 0.5


OWNERS = ("embedded", "agent", "other host")


def at_owner(home: Home, agent: Agent, run_path: Path, owner: str) -> tuple[Place, str | Path]:
    """Where a program is to run, and how it names its run, for that one to own it."""
    return agent.place if owner == "agent" else home, agent.url(
        run_path
    ) if owner == "other host" else run_path


class Page:
    """The page of a run, as a script of its operator uses it."""

    def __init__(self, own: Place, run: str | Path) -> None:
        self.base = json.loads(own.command("monitor", run, "--json"))["viewer"].split("#")[0]
        token = json.loads(own.command("monitor", run, "--token", "--operator", "--json"))["token"]
        self.headers = {
            "Authorization": f"Bearer {token}",
            "X-Forebay": "1",
            "Content-Type": "application/json",
        }

    def _ask(self, path: str, body: bytes | None = None) -> dict[str, object]:
        request = urllib.request.Request(self.base + path, body, self.headers)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                found: dict[str, object] = json.load(answer)
        except urllib.error.HTTPError as refused:
            found = json.load(refused)
        return found

    def state(self) -> dict[str, object]:
        """What the run does now."""
        return self._ask("state")

    def act(self, **act: object) -> dict[str, object]:
        """An act, and what is answered."""
        return self._ask("act", json.dumps(act).encode())


# Integers that no double is.
EXACT, LEAST = 2**53 + 3, -(2**63) + 1


def check_steered(
    home: Home,
    agent: Agent,
    program: Path,
    run_path: Path,
    owner: str,
    *,
    given: dict[str, str],
    refused: dict[str, str],
    kicked: str,
    says: str,
) -> None:
    """What is set and pressed comes to a program as it was meant, and behind its loop it is told that nothing does."""
    own, place = at_owner(home, agent, run_path, owner)
    process = own.start(program, place, stdin=subprocess.PIPE)
    hear(process, "ready")

    def steer(*words: str, status: int = 0) -> str:
        return own.command("steer", place, *words, status=status)

    for name, value in given.items():
        steer("set", name, value)
    for name, value in refused.items():
        assert name in steer("set", name, value, status=1)
    page = Page(own, place)
    for value in (EXACT, LEAST):
        assert "id" in page.act(verb="set", name="seed", value=value)
    beyond = page.act(verb="set", name="seed", value=2**63)
    assert beyond["code"] == "BadArgument" and f"up to {2**63 - 1}" in str(beyond["text"])
    steer("save")
    steer("save")
    assert kicked in steer("command", "kick", status=1)
    steer("quit")
    assert process.stdout is not None
    assert process.stdout.readline() == says.format(seed=LEAST)

    until(lambda: page.state()["state"] == "OVER", what="the end of the loop")
    for verb in ("stop", "save", "quit"):
        assert page.act(verb=verb)["code"] == "Closed"
        assert "the loop is over" in steer(verb, status=1)
    ended(process, timeout=20)
    until(lambda: owner != "embedded" or not home.processes(), what="the end of what steering started")


def check_damage(home: Home, agent: Agent, program: Path, run_path: Path, owner: str) -> None:
    """A byte of a snapshot that was turned over is seen by who reads it, and passed over by who goes on."""
    own, place = at_owner(home, agent, run_path, owner)
    assert ended(own.start(program, place, "write"))[0] == "done\n"
    file = run_path / "steps" / "0000000003.h5"
    content = bytearray(file.read_bytes())
    content[content.index(struct.pack("<d", 3.25) * 10) + 5] ^= 1
    file.write_bytes(content)
    assert ended(own.start(program, place, "read"))[0] == "done\n"
    assert "0000000003.h5" in home.command("verify", run_path, status=1)
    said = home.command("repair", run_path, status=1)
    assert "snapshot 3 is damaged" in said and "forebay drop" in said
    out, err = ended(own.start(program, place, "go"))
    assert out == "done\n"
    assert "goes back to step 2 and passes over damaged ones: 3" in err
    assert "sound; 3 snapshots" in home.command("verify", run_path)


def check_lost(home: Home, agent: Agent, program: Path, run_path: Path, owner: str) -> None:
    """Who waits for a store that was lost is told; the next start has what was acknowledged, and says so."""
    own, place = at_owner(home, agent, run_path, owner)
    waiting = own.start(program, place, "lose", stdin=subprocess.PIPE)
    hear(waiting, "ready")
    with taken(run_path):
        assert waiting.stdin is not None
        print(file=waiting.stdin, flush=True)
        hear(waiting, "waiting")
    assert ended(waiting, timeout=20)[0] == "done\n"
    out, err = ended(own.start(program, place, "again"))
    assert out == "done\n"
    assert err.count("has complete steps up to 1") == 1, err
    assert "fb_restart" in err


def check_elsewhere(home: Home, agent: Agent, program: Path, run_path: Path, owner: str) -> None:
    """Data left where who opens the run next does not see them are refused, and given up when it says so."""
    first, moved, other = (run_path.with_name(name) for name in ("first", "moved", "other"))
    own, place = at_owner(home, agent, run_path, owner)

    def has(what: str, segments: Path, status: int = 0, **variables: str) -> str:
        segments.mkdir(exist_ok=True)
        # Who dies owned the run itself; an agent that had it before gives it back first.
        there, where = (home, run_path) if what == "write" else (own, place)
        lock = run_path / "LOCK"
        free = lambda: not lock.exists() or json.loads(lock.read_text()).get("pid", 0) == 0  # noqa: E731
        until(lambda: what != "write" or free(), what="the run is given back")
        env = {**there.env, "FOREBAY_SHM_DIR": str(segments), **variables}
        out, err = ended(there.start(program, where, what, env=env), status)
        assert status != 0 or out == "done\n"
        return err

    has("perhaps", first)
    has("write", first, -signal.SIGKILL)
    # The directory is there no more under the name that was noted.
    first.rename(moved)
    has("refuse", other)
    assert "left data in memory" in has("usual", other, 1)
    # At home again nothing was lost by that.
    moved.rename(first)
    assert not has("usual", other)
    assert not list(first.iterdir())
    has("write", first, -signal.SIGKILL)
    first.rename(moved)
    assert "given up" in has("abandon", other)
    has("write", first, -signal.SIGKILL)
    shutil.rmtree(first)
    assert "given up" in has("usual", other, FOREBAY_ELSEWHERE="abandon")


def check_printed(home: Home, program: Path, run_path: Path) -> None:
    """At a terminal a program prints the link with which it is steered."""
    terminal, inside = os.openpty()
    process = home.start(program, run_path, stdin=subprocess.PIPE, stdout=inside)
    os.close(inside)
    printed = b""
    while b"ready" not in printed:
        printed += os.read(terminal, 4096)
    home.command("steer", run_path, "quit")
    while b"now" not in printed and b"nu " not in printed:
        printed += os.read(terminal, 4096)
    ended(process, timeout=20)
    os.close(terminal)


def check_apart(home: Home, program: Path, run_path: Path) -> None:
    """Two programs under one launcher, each with a run of its own, are told so at once and what to do."""
    one, two = (["-n", "1", program, run_path.with_name(f"{name}.fb"), "write"] for name in "ab")
    said = ended(home.start("mpiexec.mpich", *one, ":", *two), status=1, timeout=30)[1]
    assert "is another program and has opened the run" in said
    assert "rank=0, size=1 for one of one rank (rank and ranks of fb_open_opts)" in said


BESIDE = """
import sys, forebay as fb
with fb.open(sys.argv[1]) as run:
    run.table("grown", columns={"n": "i64"}, history=True)
    print("ready", flush=True)
    sys.stdin.readline()
    with run.snapshot(1) as s:
        s.put("x", 1.0)
    said = [row["text"] for row in run.sql("select text from fb_messages where level = 2")]
    print(run["beside"], run.attrs["who"], [row["n"] for row in run.table("seen").select()], said)
"""


def check_client(home: Home, agent: Agent, program: Path, run_path: Path, owner: str) -> None:
    """Who is none of the ranks writes beside one of another program, and is refused what is the ranks' alone."""
    own, place = at_owner(home, agent, run_path, owner)
    at_store = agent.place if owner == "other host" else own
    rank = at_store.python(BESIDE, run_path, stdin=subprocess.PIPE)
    hear(rank, "ready")
    assert ended(own.start(program, place))[0] == "done\n"
    out, err = rank.communicate("\n", timeout=60)
    assert (rank.returncode, out) == (0, "2.5 a client [4, 5] ['from a client']\n"), err


HISTORIES = """
import sys, forebay as fb
with fb.open(sys.argv[1], "r") as run:
    rows = run.sql("select d.title, p.t, p.value from fb_points p join fb_diagrams d on d.id = p.diagram order by p.t")
one, two = ([0.1 * rank + step for step in range(10)] for rank in (1, 2))
total = [a + b for a, b in zip(one, two)]
wanted = {"kept": one, "sum": total, "min": one, "max": two, "mean": [value / 2 for value in total]}
for title, values in wanted.items():
    points = [(t, v) for name, t, v in zip(rows["title"], rows["t"], rows["value"]) if name == title]
    assert points == [(0.5 * step, value) for step, value in enumerate(values)], (title, points)
print("done")
"""


def check_histories(home: Home, agent: Agent, program: Path, run_path: Path, owner: str) -> None:
    """What two ranks append at one step is one point: that of the lowest rank, or what both values make."""
    own, place = at_owner(home, agent, run_path, owner)
    for rank in own.ranks(2, program, place):
        assert ended(rank)[0] == "done\n"
    assert home.run_python(HISTORIES, run_path) == "done\n"


def check_remote(home: Home, agent: Agent, program: Path, run_path: Path, *, order: str, says: str) -> None:
    """A program writes a run on another host and is steered there; what it wrote is read where it is."""
    url = agent.url(run_path)
    process = home.start_ready(program, url)
    for words in (("set", "nu", "2.5"), ("save",), ("quit",)):
        home.command("steer", url, *words)
    assert ended(process)[0] == says
    agent.place.run_python(READ, run_path, order)
    assert not home.segments()
