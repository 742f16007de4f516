"""Files as arguments: the caller gives paths, the service gets paths, and no process has a file in its memory."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Agent, Place, until
from far import hidden_sockets
from places import ended, hear

SERVICES = """
import os, shutil
import forebay as fb

@fb.service("in a:file, out b:file, out name:str, out bytes:i64")
def copy(a, b):
    shutil.copyfile(a, b)
    return a.name + " " + b.name, a.stat().st_size

@fb.service("in a:file, out b:file")
def fails(a, b):
    shutil.copyfile(a, b)
    raise ValueError("it went wrong")

@fb.service("out b:file")
def forgets(b):
    pass

@fb.service("out b:file")
def makes_a_directory(b):
    b.mkdir()

@fb.service("in a:file, in b:file, out same:bool")
def same(a, b):
    return a.read_bytes() == b.read_bytes()

@fb.service("in n:i64, out b:file")
def zeros(n, b):
    with b.open("wb") as f:
        f.truncate(n)

@fb.service("out kib:i64")
def most_memory():
    return [int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")][0]
"""
MEMORY = """
def most_memory():
    return [int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")][0]
"""


def in_own_mounts() -> bool:
    """Whether a process may have mounts of its own here."""
    if shutil.which("unshare") is None:
        return False
    tried = subprocess.run(
        ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /mnt"], check=False, capture_output=True
    )
    return tried.returncode == 0


class Served:
    """A server, and how clients come to it."""

    def __init__(self, agent: Agent, place: Place, folder: Path, where: str) -> None:
        self.agent, self.where = agent, where
        self.place = place if where == "far" else agent.place
        self.scratch, self.mine = folder / "scratch", folder / "mine"
        self.mine.mkdir()
        (folder / "services.py").write_text(SERVICES)
        self.file = folder / "services.py"
        self.servers: list[subprocess.Popen[str]] = []
        self.place.variables["FOREBAY_PATIENCE"] = "20"
        if where == "far":
            place.variables["FOREBAY_HOME"] = agent.place.variables["FOREBAY_HOME"]
            place.variables["FOREBAY_BROKER"] = agent.address

    def serve(self, size: str = "1GiB") -> subprocess.Popen[str]:
        """Starts a server; it offers its services when this returns."""
        words = ["-m", "forebay", "serve", self.file, "--scratch", f"{self.scratch}:{size}"]
        server = self.agent.place.start(sys.executable, *words, "--stop-with-stdin", stdin=subprocess.PIPE)
        assert server.stderr is not None and "offered" in server.stderr.readline()
        self.servers.append(server)
        return server

    @contextlib.contextmanager
    def reached(self) -> Iterator[None]:
        """Servers of another host have no socket here."""
        with contextlib.ExitStack() as stack:
            for server in self.servers if self.where == "far" else []:
                stack.enter_context(hidden_sockets(self.agent.place, server.pid))
            yield

    def client(self, code: str, *args: str | Path) -> subprocess.Popen[str]:
        """Starts a program that calls, in the caller's folder."""
        code = "import forebay as fb, sys\nfrom pathlib import Path\n" + code
        words: list[str | Path] = [sys.executable, "-c", code, *args]
        if self.where == "apart":
            # The folder is another one for it than for the server.
            shell = f'mount -t tmpfs none {self.mine} && cd {self.mine} && exec "$@"'
            words = ["unshare", "-m", "sh", "-c", shell, "sh", *words]
        return self.place.start(*words, cwd=self.mine)

    def call(self, code: str, *args: str | Path, status: int = 0) -> str:
        """Runs a program that calls to its end; what it printed."""
        with self.reached():
            out, err = ended(self.client(code, *args), status, 120)
        return out + (err if status else "")

    def kept(self) -> list[Path]:
        """The files that are in the scratch space."""
        if not self.scratch.exists():
            return []
        return [p for p in self.scratch.rglob("*") if not p.is_dir() and not p.name.endswith("lock")]

    def is_clean(self) -> bool:
        """Whether servers keep nothing and nothing lies beside the caller's files."""
        return not self.kept() and not list(self.mine.glob(".*"))


WHERE = [
    "here",
    pytest.param("apart", marks=pytest.mark.skipif(not in_own_mounts(), reason="needs the right to mount")),
    "far",
]


@pytest.fixture(params=WHERE)
def served(request: pytest.FixtureRequest, agent: Agent, place: Place, tmp_path: Path) -> Served:
    """On one host where both see the same files; on one host where they do not; on another host."""
    return Served(agent, place, tmp_path, request.param)


@pytest.fixture
def far(agent: Agent, place: Place, tmp_path: Path) -> Served:
    """On another host."""
    return Served(agent, place, tmp_path, "far")


def test_files_of_all_sizes_come_there_and_back_as_they_were_and_nothing_is_left(served: Served) -> None:
    served.serve()
    out = served.call(
        """
for n in (0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 5 * (1 << 18)):
    data = bytes((i * 7 + i // 251) % 251 for i in range(min(n, 5000))) * (n // 5000 + 1)
    Path("mesh.msh").write_bytes(data[:n])
    name, names, length = fb.call("copy", Path("mesh.msh"), "log.txt")
    assert (name, names, length) == ("log.txt", "mesh.msh log.txt", n), (name, names, length)
    assert Path("log.txt").read_bytes() == data[:n]
assert sorted(p.name for p in Path(".").iterdir()) == ["log.txt", "mesh.msh"]
print("well")
"""
    )
    assert out == "well\n"
    until(served.is_clean, what="the end of what was kept")


def test_a_call_that_fails_leaves_the_file_that_was_there_and_says_why(served: Served) -> None:
    served.serve()
    out = served.call(
        """
import os
Path("a").write_text("new")
Path("b").write_text("old")
def fails(*args):
    try:
        fb.call(*args)
    except fb.Error as e:
        print(type(e).__name__, str(e).splitlines()[0])
    else:
        print("worked")
fails("fails", "a", "b")
fails("forgets", "b")
fails("makes_a_directory", "b")
assert Path("b").read_text() == "old"
fails("copy", "nothing", "b")
fails("copy", ".", "b")
fails("copy", "a", "nowhere/b")
fails("copy", "a", ".")
fails("copy", "a", "line\\nbreak")
fails("copy", "a", "x" * 300)
fails("copy", "a", 3)
fails("copy", 3, "b")
os.mkfifo("pipe")
fails("copy", "pipe", "b")
assert sorted(p.name for p in Path(".").iterdir()) == ["a", "b", "pipe"]
"""
    )
    said = out.splitlines()
    for line, (kind, text) in zip(
        said,
        [
            ("RemoteError", "it went wrong"),
            ("RemoteError", 'parameter b: the service has not written the file "b"'),
            ("RemoteError", 'made "b" something else than a file'),
            ("NotFound", "nothing; check the path"),
            ("BadArgument", "is a directory"),
            ("NotFound", "nowhere; make it first"),
            ("BadArgument", "is a directory"),
            ("BadArgument", "has a control character"),
            ("BadArgument", "longer than 255 bytes"),
            ("BadArgument", "parameter b is file"),
            ("BadArgument", "parameter a is file"),
            ("BadArgument", "no regular file"),
        ],
        strict=True,
    ):
        assert line.startswith(kind) and text in out, out
    until(served.is_clean, what="the end of what was kept")


def test_files_go_with_many_calls_with_groups_and_with_calls_that_are_waited_for_later(
    served: Served,
) -> None:
    served.serve()
    served.serve()
    out = served.call(
        """
for i in range(40):
    Path(f"in{i}").write_text(str(i) * (300000 if i % 7 == 0 else 3))
ins, outs = [f"in{i}" for i in range(40)], [f"out{i}" for i in range(40)]
c = fb.connect()
found = list(c.map("copy", map(Path, ins), outs))
assert [f[0] for f in found] == outs, found
assert [f[1] for f in found] == [f"{a} {b}" for a, b in zip(ins, outs)]
for a, b in zip(ins, outs):
    assert Path(a).read_bytes() == Path(b).read_bytes()
    Path(b).unlink()
with c.cobegin() as g:
    calls = [g.call("copy", a, b) for a, b in zip(ins, outs)]
assert [c.wait()[0] for c in calls] == outs
for a, b in zip(ins, outs):
    assert Path(a).read_bytes() == Path(b).read_bytes()
h = fb.call_async("copy", "in7", "later", transfer="copy")
assert h.wait()[0] == "later" and Path("later").read_bytes() == Path("in7").read_bytes()
assert fb.call("same", "in1", "out1") and not fb.call("same", "in1", "in2")
with c.map("copy", ["in1", "nothing", "in2"], ["m1", "m2", "m3"], errors="yield") as m:
    kinds = [type(r).__name__ for r in m]
assert kinds == ["tuple", "NotFound", "tuple"], kinds
assert Path("m3").read_bytes() == Path("in2").read_bytes() and not Path("m2").exists()
print("well")
"""
    )
    assert out == "well\n"
    until(served.is_clean, what="the end of what was kept")


def test_a_large_file_is_in_the_memory_of_neither_side(far: Served) -> None:
    far.serve()
    block = os.urandom(1 << 20)
    with (far.mine / "large").open("wb") as file:
        for _ in range(300):
            file.write(block)
    before_and_after = far.call(
        MEMORY
        + """
Path("small").write_text("x")
fb.call("copy", "small", "small2")
before = most_memory(), fb.call("most_memory")
fb.call("copy", "large", "back")
after = most_memory(), fb.call("most_memory")
print(*before, *after)
"""
    )
    mine, its, mine_then, its_then = map(int, before_and_after.split())
    assert mine_then - mine < 20_000 and its_then - its < 20_000, before_and_after
    with (far.mine / "back").open("rb") as file:
        assert all(file.read(1 << 20) == block for _ in range(300)) and not file.read(1)
    until(far.is_clean, what="the end of what was kept")


def stopped_in_the_middle(served: Served, server: subprocess.Popen[str], whole: int) -> bool:
    """Stops a server while a file comes to it; false when none does yet."""
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    assert not children
    sizes = [p.stat().st_size for p in served.kept()]
    if not any(0 < size < whole for size in sizes):
        return False
    os.kill(server.pid, signal.SIGSTOP)
    return True


LARGE = 600 << 20
COPIES = """
try:
    print(fb.call("copy", "large", "back")[1:])
except fb.Error as e:
    print(type(e).__name__, e)
"""


@pytest.fixture
def large(far: Served) -> Path:
    """A file that is long on its way; its holes take no room on the disk."""
    file = far.mine / "large"
    with file.open("wb") as f:
        f.truncate(LARGE)
    return file


def test_a_server_that_is_killed_in_the_middle_of_a_file_loses_nothing_and_the_next_one_sweeps(
    far: Served, large: Path
) -> None:
    first = far.serve()
    with far.reached():
        client = far.client(COPIES)
        until(lambda: stopped_in_the_middle(far, first, LARGE), what="the first pieces")
    second = far.serve()
    with hidden_sockets(far.agent.place, second.pid):
        first.kill()
        out, _ = ended(client, timeout=120)
    assert out == f"('large back', {LARGE})\n"
    assert (far.mine / "back").stat().st_size == LARGE
    assert far.kept(), "what the first one had"
    far.serve()
    until(far.is_clean, what="the sweeping")


def test_a_map_whose_server_is_killed_in_the_middle_of_a_file_brings_every_result(
    far: Served, large: Path
) -> None:
    first = far.serve("4GiB")
    far.serve("4GiB")
    with far.reached():
        client = far.client(
            """
names = [f"out{i}" for i in range(4)]
for want, (name, _, length) in zip(names, fb.connect().map("copy", ["large"] * 4, names), strict=True):
    assert name == want and length == Path(name).stat().st_size == Path("large").stat().st_size
print("well")
"""
        )
        until(lambda: stopped_in_the_middle(far, first, LARGE), what="the first pieces")
        first.kill()
        out, _ = ended(client, timeout=120)
    assert out == "well\n"
    assert len(list(far.mine.iterdir())) == 5


def test_ctrl_c_ends_a_call_whose_file_does_not_get_on_and_the_next_call_goes_on(
    far: Served, large: Path
) -> None:
    server = far.serve()
    with far.reached():
        client = far.client(
            """
try:
    fb.call("copy", "large", "back")
except KeyboardInterrupt:
    print("interrupted", flush=True)
Path("small").write_text("x")
print(fb.call("copy", "small", "back"))
"""
        )
        until(lambda: stopped_in_the_middle(far, server, LARGE), what="the first pieces")
        client.send_signal(signal.SIGINT)
        hear(client, "interrupted")
        os.kill(server.pid, signal.SIGCONT)
        assert ended(client)[0] == "('back', 'small back', 1)\n"
    until(far.is_clean, what="the end of what was kept")


def test_a_file_that_was_written_to_before_the_call_is_issued_again_is_told_of(
    far: Served, large: Path
) -> None:
    first = far.serve()
    with far.reached():
        client = far.client(COPIES)
        until(lambda: stopped_in_the_middle(far, first, LARGE), what="the first pieces")
    with large.open("r+b") as file:
        file.write(b"other")
    second = far.serve()
    with hidden_sockets(far.agent.place, second.pid):
        first.kill()
        out, _ = ended(client, timeout=120)
    assert out.startswith("Conflict") and str(large) in out and "written to" in out, out
    assert not (far.mine / "back").exists()


def test_what_a_client_that_is_killed_has_sent_is_removed(far: Served, large: Path) -> None:
    far.serve()
    with far.reached():
        client = far.client(COPIES)
        until(lambda: far.kept(), what="the first pieces")
        client.kill()
        client.wait()
        until(lambda: not far.kept(), what="the end of what it sent")
    assert not (far.mine / "back").exists()
    assert list(far.mine.iterdir()) == [large]


def test_a_server_without_room_says_how_much_it_has_and_where(far: Served) -> None:
    far.serve("1MiB")
    (far.mine / "a").write_bytes(b"x" * (1 << 20))
    (far.mine / "more").write_bytes(b"x" * ((1 << 20) + 1))
    out = far.call(
        """
def attempt(*args):
    try:
        print(fb.call(*args)[0])
    except fb.Error as e:
        print(type(e).__name__, e)
attempt("copy", "more", "b")
attempt("zeros", (1 << 20) + 1, "b")
attempt("zeros", 1 << 20, "b")
"""
    )
    first, second, third = out.splitlines()
    for line in (first, second):
        assert line.startswith("Full") and "1048577 bytes" in line and "1048576" in line, out
        assert str(far.scratch) in line and "--scratch DIR:SIZE" in line, out
    assert third == "b" and (far.mine / "b").stat().st_size == 1 << 20
    until(far.is_clean, what="the end of what was kept")


def parts(served: Served) -> list[Path]:
    """What is on its way into the caller's folder."""
    return [p for p in served.mine.iterdir() if p.name.startswith(".forebay-")]


def stopped_on_the_way_back(served: Served, server: subprocess.Popen[str]) -> bool:
    """Stops a server while a file comes from it; false when none does yet."""
    if not any(0 < part.stat().st_size < LARGE for part in parts(served)):
        return False
    os.kill(server.pid, signal.SIGSTOP)
    return True


def test_the_time_of_a_call_is_over_while_what_it_wrote_does_not_come(far: Served) -> None:
    server = far.serve()
    with far.reached():
        client = far.client(
            f"""
import os, time
began = time.monotonic()
try:
    fb.call("zeros", {LARGE}, "back", timeout=1.5)
except fb.Timeout as e:
    took = time.monotonic() - began
    in_time = 1.4 < took < 3
    print("late" if in_time and "zeros has no result after 1." in str(e) else (took, e), os.listdir("."), flush=True)
"""
        )
        until(lambda: stopped_on_the_way_back(far, server), what="the first pieces")
        hear(client, "late []")
        os.kill(server.pid, signal.SIGCONT)
        ended(client, timeout=60)
    assert not list(far.mine.iterdir())
    until(far.is_clean, what="the end of what was kept")


def test_a_call_whose_time_is_over_while_its_program_does_not_run_is_late(far: Served) -> None:
    server = far.serve()
    with far.reached():
        client = far.client(
            f"""
c = fb.connect()
try:
    print(c.call("zeros", {LARGE}, "back", timeout=1.5), flush=True)
except fb.Error as e:
    told = [failed.text for failed in c.failed()]
    print(type(e).__name__, str(e).endswith("; allow it more time") and told == [str(e)] or (e, told), flush=True)
"""
        )
        until(lambda: stopped_on_the_way_back(far, server), what="the first pieces")
        os.kill(client.pid, signal.SIGSTOP)
        over = time.monotonic() + 1.6
        until(lambda: time.monotonic() > over, what="the end of the call's time")
        os.kill(client.pid, signal.SIGCONT)
        hear(client, "Timeout True")
        os.kill(server.pid, signal.SIGCONT)
        ended(client, timeout=60)
    until(far.is_clean, what="the end of what was kept")


def test_who_waits_for_a_file_gives_up_for_a_while_and_goes_on_where_it_was(far: Served) -> None:
    server = far.serve()
    with far.reached():
        client = far.client(
            f"""
import time
h = fb.call_async("zeros", {LARGE}, "back")
waits = 0
began = time.monotonic()
while True:
    try:
        assert h.wait(0.2) == "back"
        break
    except fb.Timeout:
        waits += 1
        # Another file goes over the same connection meanwhile.
        if waits == 3:
            fb.call("zeros", 1 << 20, "small")
        assert time.monotonic() - began < 60
        print("waits", flush=True)
print("well", waits > 2, Path("back").stat().st_size == {LARGE}, flush=True)
"""
        )
        until(lambda: stopped_on_the_way_back(far, server), what="the first pieces")
        for _ in range(2):
            hear(client, "waits")
        size = max(part.stat().st_size for part in parts(far))
        assert size > 0
        os.kill(server.pid, signal.SIGCONT)
        out, _ = ended(client, timeout=60)
    assert out.endswith("well True True\n"), out
    until(far.is_clean, what="the end of what was kept")


def test_what_a_client_that_was_killed_has_left_beside_a_file_is_removed_by_the_next_one(far: Served) -> None:
    server = far.serve()
    other = far.serve()
    code = f'print(fb.call("zeros", {LARGE}, sys.argv[1]))'
    with far.reached():
        client = far.client(code, "back")
        until(lambda: parts(far), what="the first pieces")
        client.kill()
        client.wait()
        (left,) = parts(far)
        # One that is written goes on.
        slow = far.client(code, "other")
        until(lambda: not left.exists() and parts(far), what="the sweeping")
        (written,) = parts(far)
        for each in (server, other):
            os.kill(each.pid, signal.SIGSTOP)
        assert written.exists()
        for each in (server, other):
            os.kill(each.pid, signal.SIGCONT)
        third = far.client('print(fb.call("zeros", 10, "third"))')
        assert ended(third, timeout=60)[0] == "third\n"
        assert ended(slow, timeout=60)[0] == "other\n"
    assert (far.mine / "other").stat().st_size == LARGE
    assert sorted(p.name for p in far.mine.iterdir()) == ["other", "third"]


def test_a_symbolic_link_stays_and_what_it_leads_to_is_written_also_if_it_is_not_there_yet(
    far: Served,
) -> None:
    far.serve()
    there, new, ring = far.mine / "there", far.mine / "new", far.mine / "ring"
    (far.mine / "folder").mkdir()
    there.write_text("old")
    (far.mine / "to_there").symlink_to("there")
    (far.mine / "to_new").symlink_to("to_next")
    (far.mine / "to_next").symlink_to("folder/../new")
    ring.symlink_to("ring")
    (far.mine / "nowhere").symlink_to("missing/file")
    code = """
for path in ["to_there", "to_new"]:
    print(fb.call("zeros", 10, path))
for path, kind in [("ring", fb.BadArgument), ("nowhere", fb.NotFound)]:
    try:
        fb.call("zeros", 10, path)
    except kind as e:
        print(e)
"""
    out = far.call(code).splitlines()
    assert out[:2] == ["to_there", "to_new"]
    assert "more than 40 follow one another" in out[2] and "there is no directory" in out[3]
    assert there.read_bytes() == new.read_bytes() == bytes(10)
    links = {p.name for p in far.mine.iterdir() if p.is_symlink()}
    assert links == {"to_there", "to_new", "to_next", "ring", "nowhere"}


def test_a_place_is_that_of_one_process_until_its_call_has_ended_or_it_is_killed(far: Served) -> None:
    server = far.serve()
    code = """
try:
    print(fb.call("zeros", int(sys.argv[1]), "back"))
except fb.BadArgument as e:
    print(e)
"""
    with far.reached():
        first = far.client(code, str(LARGE))
        until(lambda: stopped_on_the_way_back(far, server), what="the first pieces")
        out = ended(far.client(code, "10"), timeout=60)[0]
        assert f"process {first.pid} of this host" in out and str(far.mine / "back") in out, out
        first.kill()
        first.wait()
        os.kill(server.pid, signal.SIGCONT)
        assert ended(far.client(code, "10"), timeout=60)[0] == "back\n"
    assert (far.mine / "back").read_bytes() == bytes(10)


def test_what_is_no_path_is_told_with_what_is_wanted(agent: Agent, place: Place, tmp_path: Path) -> None:
    served = Served(agent, place, tmp_path, "here")
    served.serve()
    out = served.call(
        """
import numpy as np
Path("a").write_text("x")
for wrong in (3, b"a", np.zeros(3), 1.5, True, None, ["a"], open("a")):
    for args in ((wrong, "b"), ("a", wrong)):
        try:
            print(fb.call("copy", *args))
        except fb.BadArgument as e:
            print(e)
        (e,) = fb.map("copy", [args[0]], [args[1]], errors="yield")
        assert type(e) is fb.BadArgument and "is file: got" in str(e) and "give the path of" in str(e), e
"""
    )
    lines = out.splitlines()
    assert len(lines) == 16, out
    for n, line in enumerate(lines):
        wanted = ("parameter a is file: got", "give the path of the file")
        if n % 2:
            wanted = ("parameter b is file: got", "give the path of the file that is to be written")
        assert all(text in line for text in wanted), line


@pytest.mark.skipif(not in_own_mounts(), reason="needs the right to mount")
def test_a_disk_of_the_caller_that_is_full_is_told_of_and_nothing_of_the_file_stays(
    agent: Agent, place: Place, tmp_path: Path
) -> None:
    served = Served(agent, place, tmp_path, "here")
    served.serve()
    shell = f'mount -t tmpfs -o size=1m none {served.mine} && cd {served.mine} && exec "$@"'
    code = """
import forebay as fb, os
try:
    fb.call("zeros", 2 << 20, "b")
except fb.Full as e:
    print(e, os.listdir("."))
"""
    out, _ = ended(agent.place.start("unshare", "-m", "sh", "-c", shell, "sh", sys.executable, "-c", code))
    assert "there is no room for" in out and "another disk" in out and out.endswith("[]\n"), out
    until(served.is_clean, what="the end of what was kept")
