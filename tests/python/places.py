"""Each worker of the tests lives in a place of its own: directories, names of segments, agents.

At the end of a worker nothing of it may be left: no process, no segment, no socket. The suites share
what stands here; fixtures of their own are in their `conftest.py`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "01_two_stream"


def forebay_exe() -> Path | None:
    """The command under test: named by the environment, beside the interpreter, or on the PATH."""
    beside = Path(sys.executable).with_name("forebay")
    for found in (
        os.environ.get("FOREBAY_EXE"),
        beside if beside.exists() else None,
        shutil.which("forebay"),
    ):
        if found:
            return Path(found)
    return None


def until(holds: Callable[[], object], seconds: float = 20.0, what: str = "the condition") -> None:
    """Polls a condition; fails after a deadline."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            pytest.fail(f"{what} did not come within {seconds} s")
        time.sleep(0.01)


def run(
    *command: str | Path,
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
    timeout: float = 100,
) -> str:
    """Runs a command to its end; returns what it printed, fails with it when it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words, env=env, cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def ended(process: subprocess.Popen[str], status: int = 0, timeout: float = 60) -> tuple[str, str]:
    """Waits for the end of a process, with that status; returns its output and its errors."""
    out, err = process.communicate(timeout=timeout)
    assert process.returncode == status, f"status {process.returncode}\n{out}\n{err}"
    return out, err


def stop(pid: int) -> None:
    """Stops a process. A signal is under way for a while: when this returns, none of its threads runs."""

    def is_still() -> bool:
        states = [stat.read_text().rpartition(")")[2].split()[0] for stat in tasks.glob("*/stat")]
        return set(states) <= {"T"}

    tasks = Path(f"/proc/{pid}/task")
    os.kill(pid, signal.SIGSTOP)
    until(is_still, what="the stop of a process")


def hear(process: subprocess.Popen[str], word: str) -> None:
    """Waits until a process has printed a word on a line of its own."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line == f"{word}\n", line + (process.stderr.read() if process.stderr else "")


def common_folder(factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of a test run share; under several of them each has its own one below it."""
    own = factory.getbasetemp()
    return own.parent if own.name.startswith("popen-") else own


@contextlib.contextmanager
def alone(file: Path) -> Iterator[None]:
    """One process at a time."""
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def install(prefix: Path | str, **variables: str) -> str:
    """`make install` of what was built."""
    env = {**os.environ, "FOREBAY_BUILT": "1", **variables}
    return run("make", "--no-print-directory", "install", f"PREFIX={prefix}", env=env, cwd=ROOT, timeout=300)


def installed(factory: pytest.TempPathFactory) -> Path:
    """The prefix under which all is installed: once for all workers, and for all stages of one `make test`."""
    prefix = Path(os.environ.get("FOREBAY_TEST_INSTALLED") or common_folder(factory) / "installed")
    with alone(prefix.with_name("install.lock")):
        # The last file of an installation: without it another worker's was cut short.
        if not (prefix / "share" / "doc" / "forebay" / "LICENSE-MIT").exists():
            install(prefix)
    return prefix


class Place:
    """Directories and names for one set of processes that know each other only."""

    def __init__(self) -> None:
        # Short, since the name of a socket has 108 bytes.
        house = os.environ.get("FOREBAY_TEST_PREFIX", "fbt")
        self.folder = Path(tempfile.mkdtemp(prefix=f"{house}-", dir="/tmp"))
        self.prefix = f"{self.folder.name}"
        self.variables = {
            "FOREBAY_RUNTIME_DIR": str(self.folder / "run"),
            "FOREBAY_HOME": str(self.folder / "home"),
            "FOREBAY_SHM_PREFIX": self.prefix,
        }
        if exe := forebay_exe():
            self.variables["FOREBAY_EXE"] = str(exe)
        self.started: list[subprocess.Popen[str]] = []

    @property
    def env(self) -> dict[str, str]:
        """The environment of a process that lives here."""
        return {**os.environ, **self.variables, "PYTHONUNBUFFERED": "1"}

    def start(self, *command: str | Path, **options: object) -> subprocess.Popen[str]:
        """Starts a process here."""
        settings: dict[str, object] = {
            "env": self.env,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "text": True,
            **options,
        }
        process = subprocess.Popen([str(word) for word in command], **settings)  # type: ignore[call-overload]
        self.started.append(process)
        return process

    def python(self, code: str, *args: str | Path, **options: object) -> subprocess.Popen[str]:
        """Starts a Python program here."""
        return self.start(sys.executable, "-c", code, *args, **options)

    def run_python(self, code: str, *args: str | Path, status: int = 0, timeout: float = 60) -> str:
        """Runs a Python program here to its end; returns what it printed."""
        out, err = ended(self.python(code, *args), status, timeout)
        return out + err if status else out

    def ranks(
        self, count: int, *command: str | Path, stdin: int | None = None, **variables: str
    ) -> list[subprocess.Popen[str]]:
        """Starts plain processes that are told rank and size by the environment, as a launcher does it."""
        told = [{"PMI_RANK": str(rank), "PMI_SIZE": str(count)} for rank in range(count)]
        return [self.start(*command, env={**self.env, **one, **variables}, stdin=stdin) for one in told]

    def forebay(
        self, *words: str | Path, under: tuple[str, ...] = (), **options: object
    ) -> subprocess.Popen[str]:
        """Starts the command `forebay` here, under another command if one is given."""
        exe = forebay_exe()
        assert exe is not None, "there is no command `forebay`: run `make build`, or name it in FOREBAY_EXE"
        return self.start(*under, exe, *words, **options)

    def command(self, *words: str | Path, status: int = 0, timeout: float = 60) -> str:
        """Runs the command `forebay` here to its end; returns what it printed."""
        return "".join(ended(self.forebay(*words), status, timeout))

    def serve(self, file: Path, name: str = "server") -> subprocess.Popen[str]:
        """Starts a server of a Python file's services; it ends with its standard input."""
        words = [sys.executable, "-m", "forebay", "serve", file, "--name", name, "--stop-with-stdin"]
        return self.start(*words, stdin=subprocess.PIPE, stdout=None, stderr=None)

    def processes(self) -> list[str]:
        """The processes that live here, except this one."""
        mark = f"FOREBAY_RUNTIME_DIR={self.variables['FOREBAY_RUNTIME_DIR']}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if words and mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(f"{entry.name}: {words.strip()}")
        return found

    def segments(self) -> list[str]:
        """The segments that live here."""
        return [p.name for p in Path("/dev/shm").iterdir() if p.name.startswith(self.prefix)]

    def sockets(self) -> list[str]:
        """The sockets that live here."""
        folder = Path(self.variables["FOREBAY_RUNTIME_DIR"])
        return [p.name for p in folder.iterdir() if p.is_socket()] if folder.exists() else []

    def close(self) -> None:
        """Ends what was started; fails when something else is left."""
        for process in self.started:
            if process.stdin is not None:
                process.stdin.close()
        for process in self.started:
            if process.stdin is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(10)
            if process.poll() is None:
                process.kill()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
            process.wait()
        if self.processes() and forebay_exe() is not None:
            subprocess.run(
                [str(forebay_exe()), "down"], env=self.env, capture_output=True, timeout=30, check=False
            )
        until(lambda: not self.processes(), 15, f"the end of {self.processes()}")
        # Who is killed cannot take its socket away.
        killed = [f"-{p.pid}-" for p in self.started if p.returncode in (-9, -15)]
        sockets = [name for name in self.sockets() if not any(pid in name for pid in killed)]
        left = self.segments() + sockets
        for name in self.segments():
            Path("/dev/shm", name).unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        assert not left, f"left behind: {left}"


def servers(place: Place) -> list[subprocess.Popen[str]]:
    """The two servers of the example, in Python."""
    return [place.serve(EXAMPLE / "python" / "poisson1d.py", f"poisson1d-{n}") for n in (1, 2)]


@pytest.fixture(scope="session", autouse=True)
def _worker_place() -> Iterator[Place]:
    """What the tests of one worker share that run in its own process."""
    place = Place()
    os.environ.update(place.variables)
    yield place
    place.close()


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """Where the test's run is."""
    return tmp_path / "test.fb"
