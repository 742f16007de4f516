"""First steps: an environment that is not activated, a home that cannot be written, memory, left-overs."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from conftest import Agent, Place, until
from places import ended, hear

SERVICE = """
import forebay as fb
@fb.service("in x:f64[n], out y:f64[n]")
def twice(x, y):
    return 2 * x
@fb.service("out n:i64")
def one():
    return 1
"""
CALL = "import numpy as np, forebay as fb; y = np.empty(3); fb.call('twice', np.arange(3.0), y); print(y.tolist())"


def bare(place: Place, **more: str) -> dict[str, str]:
    """An environment in which nothing leads to the command but the Python that runs."""
    env = {**place.env, "PATH": "/usr/bin:/bin", **more}
    for name in ("FOREBAY_EXE", "VIRTUAL_ENV"):
        env.pop(name, None)
    return env


def test_services_are_offered_and_called_by_a_python_whose_environment_is_not_activated(
    place: Place, tmp_path: Path
) -> None:
    file = tmp_path / "services.py"
    file.write_text(SERVICE)
    server = place.start(sys.executable, "-m", "forebay", "serve", file, "--workers", "2", env=bare(place))
    assert server.stderr is not None
    said = server.stderr.readline()  # it is found by clients from here on
    assert "twice, one offered by services" in said and f"process {server.pid}, 2 workers" in said
    assert place.variables["FOREBAY_RUNTIME_DIR"] in said
    assert ended(place.start(sys.executable, "-c", CALL, env=bare(place)))[0] == "[0.0, 2.0, 4.0]\n"
    server.send_signal(signal.SIGINT)
    assert ended(server) == ("", "")


def test_a_server_whose_agent_was_killed_is_shown_by_status(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "services.py"
    file.write_text(SERVICE)
    place.command("up")
    (agent,) = json.loads(place.command("status", "--json"))
    server = place.serve(file)
    offers = f"(pid {server.pid}): offers"
    until(lambda: offers in place.command("status"), what="its announcement")
    os.kill(agent["pid"], signal.SIGKILL)
    until(lambda: not Path(f"/proc/{agent['pid']}").exists(), what="the agent's end")
    said = place.command("status")
    assert f"server: pid {server.pid}, and no agent is up" in said and "nothing of Forebay" not in said, said
    (found,) = json.loads(place.command("status", "--json"))
    assert (found["role"], found["pid"]) == ("server", server.pid)
    place.command("up")
    until(lambda: offers in place.command("status"), what="its announcement to the next one")
    assert "no agent is up" not in place.command("status")
    # One that left in order has not taken the servers along: the first call finds them at the next one.
    place.command("down")
    assert "servers live, and no agent is up" in place.command("services")
    assert ended(place.start(sys.executable, "-c", CALL, env=bare(place)))[0] == "[0.0, 2.0, 4.0]\n"
    place.command("down")
    assert "= 1" in place.command("call", "one")


READS_WITH_FEW_FILES = """
import os, resource, sys, forebay as fb
taken = []
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
try:
    while True:
        taken.append(os.open("/", os.O_RDONLY))
except OSError:
    os.close(taken.pop())
try:
    fb.open(sys.argv[1], "r")
except fb.Full as e:
    print(os.getpid(), e)
"""


def test_who_may_open_no_more_files_is_told_so_and_not_that_a_run_cannot_be_read(
    place: Place, run_dir: Path
) -> None:
    with fb.open(run_dir) as run:
        run["x"] = np.ones(3)
    pid, _, said = place.run_python(READS_WITH_FEW_FILES, run_dir).partition(" ")
    assert f"process {pid} (python" in said and "its limit is 64" in said and "ulimit -n" in said, said


def test_a_python_without_the_package_is_named_with_the_remedy(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "services.py"
    file.write_text(SERVICE)
    empty = tmp_path / "empty"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(empty)], check=True)
    python = empty / "bin" / "python"
    place.variables["FOREBAY_PYTHON"] = str(python)
    said = place.command("serve", file, status=1)
    assert said.startswith("forebay: ") and "FOREBAY_PYTHON" in said and str(python.parent) in said
    assert "Traceback" not in said


# All that a program of one process does with its run, which is its own.
ALONE = """
import sys, forebay as fb, numpy as np
with fb.open(sys.argv[1], buffer="1MiB") as run:
    rate = run.parameter("rate", 1.5)
    energy = run.diagram("energy", "history")
    rows = run.table("rows", {"n": "i64"})
    page = run.monitor().viewer.rsplit(":", 1)[0]
    run.saves(lambda step: None)
    for step in run.steps(3):
        energy.append(step, W=1.0)
        rows.insert([(step,)])
        with run.snapshot(step) as s:
            s.put("x", np.full(1000, float(step)))
    s.wait()
    run.checkpoint("end")
    run.restart("end")
    print(run.snapshots.numbers, run.snapshots[-1]["x"][0], rate.value, page)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="needs the right to mount")
def test_a_home_that_cannot_be_written_is_needed_for_the_network_only(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "services.py"
    file.write_text(SERVICE)
    home = tmp_path / "home"
    home.mkdir()
    place.variables.pop("FOREBAY_HOME")
    env = {**place.env, "HOME": str(home)}
    env.pop("FOREBAY_HOME", None)
    # Root writes where it likes, but not on what is mounted for reading.
    shut = ("unshare", "--mount", "sh", "-c", 'mount --bind -o ro "$HOME" "$HOME" && exec "$0" "$@"')
    alone = place.start(*shut, sys.executable, "-c", ALONE, tmp_path / "alone", env=env)
    assert ended(alone) == ("[0, 1, 2] 2.0 1.5 http://127.0.0.1\n", "")
    assert not place.sockets(), "it needed an agent"
    server = place.start(*shut, sys.executable, "-m", "forebay", "serve", file, env=env)
    assert server.stderr is not None and "twice, one offered" in server.stderr.readline()
    assert ended(place.start(*shut, sys.executable, "-c", CALL, env=env))[0] == "[0.0, 2.0, 4.0]\n"
    rank = "import sys, forebay as fb\nwith fb.open(sys.argv[1], buffer='1MiB') as run:\n    with run.snapshot(0) as s: s.put('x', 1.0)"
    ranks = [
        place.start(
            *shut,
            sys.executable,
            "-c",
            rank.replace("'x'", f"'x{n}'"),
            tmp_path / "run",
            env={**env, "PMI_RANK": str(n), "PMI_SIZE": "2"},
        )
        for n in range(2)
    ]
    for one in ranks:
        assert ended(one) == ("", "")
    exe = place.forebay("doctor", env=env, under=shut)
    assert "mind  home: cannot make" in exe.communicate(timeout=30)[0]
    listening = place.forebay("up", "--listen", "tcp://127.0.0.1:0", env=env, under=shut)
    assert "Read-only" in listening.communicate(timeout=30)[1] and listening.returncode == 1
    server.send_signal(signal.SIGINT)
    ended(server)


@pytest.mark.skipif(os.getuid() != 0, reason="needs the right to mount")
def test_shared_memory_that_cannot_be_written_is_found_by_the_doctor_and_named_with_what_helps(
    place: Place, run_dir: Path
) -> None:
    shut = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o ro none /dev/shm && exec "$0" "$@"')
    out, _ = ended(place.forebay("doctor", under=shut), 1)
    bad = next(line for line in out.splitlines() if "shared memory" in line)
    _, err = ended(
        place.start(*shut, sys.executable, "-c", "import sys, forebay as fb; fb.open(sys.argv[1])", run_dir),
        1,
    )
    for said in (bad, err):
        assert "cannot make the segment" in said and "FOREBAY_SHM_DIR" in said
    assert bad.startswith("BAD")


def test_a_list_of_a_run_with_nothing_in_it_says_so(place: Place, run_dir: Path, no_agent: None) -> None:
    with fb.open(run_dir):
        said = place.command("ls", run_dir)
        assert "there are no data sets" in said and f"process {os.getpid()}" in said
    said = place.command("ls", run_dir)
    assert "there are no data sets" in said and "process" not in said


def test_an_empty_directory_is_no_run_for_any_command(place: Place, run_dir: Path) -> None:
    run_dir.mkdir()
    for word in ("ls", "verify", "repair", "recover", "compact"):
        assert "there is no run" in place.command(word, run_dir, status=1), word
    assert not list(run_dir.iterdir())


def test_a_catalog_that_is_garbage_and_a_lost_data_set_are_named_with_what_helps(
    place: Place, run_dir: Path
) -> None:
    with fb.open(run_dir) as run:
        run["big"] = np.arange(50_000.0)
    next((run_dir / "data").iterdir()).unlink()
    for _ in range(2):
        said = place.command("verify", run_dir, status=1)
        assert f"`forebay rm {run_dir} big`" in said and "forebay repair" not in said
        place.command("repair", run_dir, status=1)
    place.command("rm", run_dir, "big")
    assert "sound" in place.command("verify", run_dir)
    (run_dir / "catalog.sqlite").write_bytes(b"garbage" * 4000)
    said = place.command("verify", run_dir, status=1)
    assert f"`forebay repair {run_dir}`" in said and "forebay verify" not in said


BOUND = """
import os, sys, time, forebay as fb
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
run = fb.open(sys.argv[1], buffer="1MiB")
if run.size == 1 and "://" not in sys.argv[1]:
    run.monitor()
def look():
    tasks = {}
    for pid in {os.getpid(), json_pid(run)}:
        for task in os.listdir(f"/proc/{pid}/task"):
            try:
                name = open(f"/proc/{pid}/task/{task}/comm").read().strip()
                tasks[name] = len(os.sched_getaffinity(int(task)))
            except (FileNotFoundError, ProcessLookupError):
                pass  # it ended since it was listed
    return tasks
# A thread that has just begun has neither its name nor its cores yet.
until = time.monotonic() + 20
while any(look().get(name, 1) == 1 for name in sys.argv[2:]) and time.monotonic() < until:
    time.sleep(0.01)
print(look())
run.close()
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
@pytest.mark.parametrize(("where", "ranks"), [("here", 1), ("here", 2), ("other host", 1)])
def test_what_works_behind_a_rank_does_not_stay_on_its_core(
    place: Place, agent: Agent, run_dir: Path, where: str, ranks: int
) -> None:
    far = where == "other host"
    who = "os.getpid()" if far else "json.load(open(os.path.join(run.path, 'agent.json')))['pid']"
    program = "import json\n" + BOUND.replace("json_pid(run)", who)
    home = agent.place.variables["FOREBAY_HOME"] if far else place.variables["FOREBAY_HOME"]
    at = agent.url(agent.runs / "bound.fb") if far else run_dir
    own = ["fb-relay"] if far else ["fb-drain", "fb-intake"]
    # With two ranks the page is the agent's, which tells where it is when it is looked for.
    own += ["fb-monitor"] if ranks == 1 and not far else []
    for one in place.ranks(ranks, sys.executable, "-c", program, at, *own, FOREBAY_HOME=home):
        found = eval(ended(one)[0])
        cores = len(os.sched_getaffinity(0))
        assert {found[name] for name in own} == {cores}, found
        assert min(found.values()) == 1, "the rank itself stays where it was put"


def test_memory_is_taken_for_snapshots_that_come_and_not_at_open(
    owner: str, an_agent: Agent, run_dir: Path
) -> None:
    """Pages of the buffer are taken as they are needed, ahead of need by what the last snapshot took."""
    prefixes = (os.environ["FOREBAY_SHM_PREFIX"], an_agent.place.prefix)
    # A store on another host has a buffer of its own, as large as the rank's.
    buffers = 2 if owner == "remote" else 1

    def taken() -> int:
        files = [p for p in Path("/dev/shm").iterdir() if p.name.startswith(prefixes)]
        return sum(p.stat().st_blocks * 512 for p in files) >> 20

    def at_rest() -> int:
        """MiB when nobody takes more."""
        seen = [-1]
        until(lambda: seen.append(taken()) or (len(seen) > 5 and len(set(seen[-5:])) == 1), what="rest")
        return seen[-1]

    before = taken()
    with fb.open(run_dir, buffer="192MiB") as run:
        run.saves(lambda step: None)
        at_open = at_rest() - before
        assert at_open < 30 * buffers  # the rings
        array = np.zeros(4 << 20)  # 32 MiB
        for step in range(3):
            with run.snapshot(step) as s:
                s.put("x", array)
            s.wait()
        # The thread that takes pages ahead of need may be late.
        until(lambda: taken() - before - at_open >= 60, what="memory for the next snapshot")
        assert at_rest() - before - at_open <= (32 * 4 + 8) * buffers
    with fb.open(run_dir, buffer="192MiB") as run:
        assert at_rest() - before == at_open
        run.saves(lambda step: None)
        until(lambda: taken() - before >= at_open + 30, what="room for a snapshot like the last one")
        assert at_rest() - before < at_open + 48 * buffers


def test_the_buffer_of_a_program_that_says_none_is_that_of_the_environment(
    place: Place, run_dir: Path
) -> None:
    code = "import sys, forebay as fb\nwith fb.open(sys.argv[1]) as run: print(run.stats()['buffer_bytes'])"
    place.variables["FOREBAY_BUFFER"] = "3MiB"
    assert place.run_python(code, run_dir) == f"{3 << 20}\n"
    place.variables["FOREBAY_BUFFER"] = "much"
    assert "FOREBAY_BUFFER" in place.run_python(code, run_dir, status=1)


@contextlib.contextmanager
def small_job(name: str, limit: int) -> Iterator[Path]:
    """A control group whose processes may have so many bytes of memory."""
    old = Path("/sys/fs/cgroup/memory")
    group = (old if old.is_dir() else old.parent) / name
    try:
        group.mkdir()
    except OSError:
        pytest.skip("no control group can be made here")
    try:
        file = group / ("memory.limit_in_bytes" if old.is_dir() else "memory.max")
        if not file.exists():
            pytest.skip("control groups do not limit memory here")
        file.write_text(str(limit))
        yield group / "cgroup.procs"
    finally:
        until(lambda: not (group / "cgroup.procs").read_text(), what="the end of the job")
        group.rmdir()


def test_the_buffer_of_a_job_of_little_memory_is_a_quarter_of_it(place: Place, run_dir: Path) -> None:
    code = "import sys, forebay as fb\nwith fb.open(sys.argv[1]) as run: print(run.stats()['buffer_bytes'])"
    with small_job(place.prefix, 512 << 20) as members:
        words = ("sh", "-c", f'echo $$ > {members} && exec "$0" "$@"', sys.executable, "-c", code, run_dir)
        assert ended(place.start(*words))[0] == f"{128 << 20}\n"


def left_over(place: Place, marks: dict[str, str]) -> dict[str, str]:
    """What the doctor says of left-over segments, of each run by the mark that its path or address has."""
    found = json.loads(place.command("doctor", "--json"))
    (text,) = (f["text"] for f in found if f["check"] == "left-over segments")
    return {name: part for part in text.split("; ") for name, mark in marks.items() if mark in part}


def test_memory_of_a_killed_run_whose_directory_is_gone_is_named_and_freed(
    place: Place, tmp_path: Path
) -> None:
    code = "import sys, forebay as fb, numpy as np\nrun = fb.open(sys.argv[1], buffer='8MiB')\nrun.put('x', np.ones(200_000))\nprint('there', flush=True); sys.stdin.read()"
    for name in ("gone", "kept", "anew"):
        process = place.python(code, tmp_path / name, stdin=subprocess.PIPE)
        assert process.stdout is not None and process.stdout.readline() == "there\n"
        process.kill()
        process.wait()
    shutil.rmtree(tmp_path / "gone.fb")
    shutil.rmtree(tmp_path / "anew.fb")
    place.run_python(
        "import sys, forebay as fb; fb.open(sys.argv[1], buffer='1MiB').close()", tmp_path / "anew"
    )

    def left() -> dict[str, str]:
        return left_over(place, {n: f"/{n}.fb" for n in ("gone", "kept", "anew")})

    assert "no more there: `forebay doctor --clean`" in left()["gone"]
    assert "no more there" in left()["anew"]
    assert "forebay recover" in left()["kept"] and "MiB of the run" in left()["kept"]
    assert "freed" in place.command("doctor", "--clean")
    assert left().keys() == {"kept"}
    place.command("recover", tmp_path / "kept")
    assert left() == {}
    with fb.open(tmp_path / "kept", "r") as run:
        assert run["x"].sum() == 200_000


def test_memory_left_of_runs_on_another_host_is_named_and_freed_when_they_are_no_more(
    place: Place, agent: Agent
) -> None:
    place.variables["FOREBAY_HOME"] = agent.place.variables["FOREBAY_HOME"]
    code = "import sys, forebay as fb, numpy as np\nrun = fb.open(sys.argv[1], buffer='8MiB')\nrun.put('x', np.ones(200_000))\nrun.flush()\nprint('there', flush=True); sys.stdin.read()"
    paths = {name: agent.runs / f"{name}.fb" for name in ("gone", "kept", "anew", "over")}
    for path in paths.values():
        process = place.python(code, agent.url(path), stdin=subprocess.PIPE)
        hear(process, "there")
        process.kill()
        process.wait()
    begin = "import sys, forebay as fb; fb.open(sys.argv[1], sys.argv[2], buffer='1MiB').close()"
    for path in paths.values():
        until(
            lambda path=path: json.loads((path / "LOCK").read_text()).get("pid", 0) == 0,
            what="the run is given up",
        )
    for name in ("gone", "anew"):
        shutil.rmtree(paths[name])
    agent.place.run_python(begin, paths["anew"], "a")

    def left() -> dict[str, str]:
        return left_over(place, {n: f"/{n}" for n in paths})

    assert "no more there: `forebay doctor --clean`" in left()["gone"]
    assert "no more there" in left()["anew"]
    assert "forebay recover" in left()["kept"] and "forebay recover" in left()["over"]
    # Whoever begins a run anew has no use for what the last one left.
    place.run_python(begin, agent.url(paths["over"]), "w")
    assert left().keys() == {"gone", "anew", "kept"}
    said = place.command("recover", agent.url(paths["gone"]), status=1)
    assert "there is no run at" in said and "forebay doctor --clean" in said
    assert "freed" in place.command("doctor", "--clean")
    assert left().keys() == {"kept"}
    agent.kill()
    assert "cannot be asked" in left()["kept"] and agent.address in left()["kept"]
    agent.up()
    place.command("recover", agent.url(paths["kept"]))
    assert left() == {}


@pytest.mark.usefixtures("owner")
def test_a_run_that_this_process_has_open_is_said_to_be_so(run_dir: Path) -> None:
    with fb.open(run_dir), pytest.raises(fb.Conflict, match=r"this process has .* open already"):
        fb.open(run_dir)


def test_a_run_is_read_as_people_read_files_of_hdf5(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        run["a/b"], run["c"] = 1.0, 2.0
        run.put("c", 3.0, set=1)
        assert list(run) == list(run.keys()) == ["a/b", "c"]
        assert repr(run.snapshots) == "<forebay.StoredSnapshots: none>"
        for step in range(0, 300, 3):
            with run.snapshot(step) as s:
                s.put("x", 1.0)
        s.wait()
        assert repr(run.snapshots) == "<forebay.StoredSnapshots: 100, from step 0 to step 297>"
        assert (len(run), "c" in run, ("c", 1) in run, ("c", 2) in run, "d" in run) == (
            2,
            True,
            True,
            False,
            False,
        )
        assert run["c", 1] == 3.0
        last = run.snapshots[-1]
        assert dict(last) == dict(last.items()) == {"x": 1.0}
        assert (list(last.keys()), list(last.values())) == (["x"], [1.0])


def test_the_keys_of_a_run_are_what_it_takes_as_keys(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        run["E"] = 0.0
        for name, number in (("E", 3), ("later", 9), ("later", 7), ("z", -1)):
            run.put(name, float(number), set=number)
        wanted = ["E", ("later", 7), ("later", 9), ("z", -1)]
        keys = run.keys()
        assert list(run) == list(keys) == wanted and len(run) == len(keys) == 4
        assert all(key in run and key in keys for key in [*wanted, ("E", 0), ("E", 3), ("z", np.int64(-1))])
        assert not any(key in run or key in keys for key in ["later", "z", ("E", 1), ("later", 0), "no"])
        assert dict(run) == {"E": 0.0, ("later", 7): 7.0, ("later", 9): 9.0, ("z", -1): -1.0}
        assert run.get_many(run) == [0.0, 7.0, 9.0, -1.0]
        assert repr(keys) == "<forebay keys ['E', ('later', 7), ('later', 9), ('z', -1)]>"
        for key in (None, 3, b"E", ["E"], ("E",), ("E", 3, 4), (b"E", 3), ("E", "3"), ("E", 3.0)):
            for use in (
                run.__getitem__,
                run.__contains__,
                run.__delitem__,
                lambda key: run.__setitem__(key, 1.0),
                lambda key: run.get_many([key]),
            ):
                with pytest.raises(fb.BadArgument, match=r"is no (key of a run; give|number of a set; give)"):
                    use(key)
        for key in wanted:
            del run[key]
        assert list(run) == [("E", 3)]


def test_a_name_that_is_almost_right_is_told_the_right_one(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        assert run and len(run) == 0
        run["electrons/temperature"] = 1.0
        run.put("c", 3.0, set=1)
        run.put("c", 3.0, set=4)
        with run.snapshot(3) as s:
            s.put("density", 1.0)
        s.wait()
        for name, said in (
            ("electrons/temprature", 'did you mean "electrons/temperature"\\?'),
            ("c", "it has the sets 1, 4"),
            ("quite/another", "`ls` shows what is there"),
        ):
            with pytest.raises(fb.NotFound, match=said):
                run.get(name)
            with pytest.raises(fb.NotFound, match=said):
                print(run.dataset(name).info)
        for change in (run.rename, run.copy):
            with pytest.raises(
                fb.NotFound, match='"electrons/temprature"; did you mean "electrons/temperature"\\?'
            ):
                change("electrons/temprature", "new")
            with pytest.raises(fb.NotFound, match="`ls` shows what is there"):
                change("quite/another", "new")
        with pytest.raises(fb.NotFound, match='did you mean "density"\\?'):
            run.snapshots[-1].get("densty")
        with pytest.raises(fb.NotFound, match="it has density"):
            run.snapshots[-1].get("x")


def test_a_notebook_shows_what_a_run_holds_as_a_tree_with_units(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        run.put("electrons/<x>", [1.0, 2.0], units="m/s & more")
        run.table("t", {"a": float})
        with run.snapshot(3, time=0.5) as s:
            s.put("field/E", [[1.0]], units="V/m")
        s.wait()
        shown = run._repr_html_()
        assert "<summary>electrons/</summary>" in shown and "<b>&lt;x&gt;</b>" in shown
        assert "<i>m/s &amp; more</i>" in shown and "tables: t" in shown and "from step 3 to step 3" in shown
        kept = run.snapshots[-1]._repr_html_()
        assert "<summary>field/</summary>" in kept and "1 × 1 <i>V/m</i>" in kept
        for i in range(300):
            run[f"many/{i:03}"] = i
            run.put("sets", [1.0], set=i)
        shown = run._repr_html_()
        assert "and 102 more" in shown and shown.count("<li>") == 202
        run.delete("many/*")
        assert "<b>sets</b>, 300 sets from 0 to 299 <code>float64</code> 1" in run._repr_html_()
    assert "closed" in run._repr_html_()


def test_the_package_and_the_command_say_their_version(place: Place) -> None:
    assert place.command("--version").split()[-1] == fb.__version__


def test_what_is_no_name_of_a_run_is_refused_with_what_is() -> None:
    with pytest.raises(fb.BadArgument, match="3 is no name of a run; give its directory"):
        fb.open(3)  # type: ignore[call-overload]


def test_two_services_of_one_name_in_a_file_are_refused_with_both_lines(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "twice.py"
    service = '@fb.service("in a:f64"{more})\ndef {name}(a): pass\n'
    for second in (service.format(more="", name="f"), service.format(more=', name="f"', name="g")):
        file.write_text(f"import forebay as fb\n{service.format(more='', name='f')}\n{second}")
        said = place.command("serve", file, status=1)
        assert re.search(r"twice\.py: two services are called 'f', in line 2 and in line 5; rename", said), (
            said
        )
        said = place.run_python(file.read_text(), status=0)
        assert said == "", "what is no file is redefined as its writer likes"
        ran = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=60)
        assert ran.returncode == 1 and "in line 2 and in line 5" in ran.stderr
    # Those of functions are of their callers.
    file.write_text(
        "import forebay as fb\ndef one():\n    @fb.service('in a:f64')\n    def f(a): pass\n    return f\n"
        "def two():\n    @fb.service('in a:f64')\n    def f(a): pass\n    return f\none(), two()\n"
    )
    assert subprocess.run([sys.executable, file], timeout=60).returncode == 0
