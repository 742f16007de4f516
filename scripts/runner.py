"""Runs the stages of `make test`: one line a stage, a time limit on each, nothing left behind.

A stage is a command with a limit. Its output goes to `out/test/NAME.log` and is shown only when
the stage fails. The closing lines of the test runners in it are added up; a stage whose tool
counts nothing (a formatter, a type check) counts as one.

All stages run with directories of their own for sockets, rendezvous files, segments and temporary
files, with a mark in their environment by which their processes are known, and with a beginning for
the names of their segments: what still carries one of them when all is done was left behind. Other
programs of the machine are none of our business.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "out" / "test"
MARK = "FOREBAY_TEST_MARK"
PREFIX = "FOREBAY_TEST_PREFIX"  # segments of all tests begin so, whatever they call themselves
GRACE_S = 12.0  # an agent started by need leaves by itself after ten seconds

# Closing lines of test runners: cargo test, pytest, node's test runner.
CARGO = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed", re.M)
PYTEST = re.compile(r"^=* ?((?:\d+ \w+,? ?)+) in [\d.]+s", re.M)
NODE = re.compile(r"^(?:#|\u2139) (pass|fail) (\d+)$", re.M)
COLOURS = re.compile(r"\x1b(\[[0-9;]*m|\(B)")


@dataclass
class Stage:
    """A command with a limit in minutes; `needs` names a path without which there is nothing to do."""

    name: str
    command: Sequence[str]
    minutes: float = 5
    needs: str = "."
    env: dict[str, str] = field(default_factory=dict)


@dataclass
class Outcome:
    """How a stage ended."""

    passed: int
    failed: int
    seconds: float
    why: str = ""


def count(text: str) -> tuple[int, int]:
    """Adds up the closing lines of all test runners in a log."""
    text = COLOURS.sub("", text)
    passed = failed = 0
    for match in CARGO.finditer(text):
        passed += int(match[1])
        failed += int(match[2])
    for match in PYTEST.finditer(text):
        words = dict((word.rstrip("s"), int(n)) for n, word in re.findall(r"(\d+) (\w+)", match[1]))
        passed += words.get("passed", 0)
        failed += words.get("failed", 0) + words.get("error", 0)
    for match in NODE.finditer(text):
        if match[1] == "pass":
            passed += int(match[2])
        else:
            failed += int(match[2])
    return passed, failed


class House:
    """The directories of one test run, and the search for what it left behind."""

    def __init__(self) -> None:
        self.base = Path(tempfile.mkdtemp(prefix="fbt-", dir="/tmp"))
        self.mark = f"{self.base.name}-{os.getpid()}"
        for name in ("run", "home", "t"):
            (self.base / name).mkdir(mode=0o700)
        self.env = dict(os.environ)
        self.env.pop("FOREBAY_BROKER", None)
        self.env.update(
            {
                MARK: self.mark,
                PREFIX: self.base.name,
                "FOREBAY_RUNTIME_DIR": str(self.base / "run"),
                "FOREBAY_HOME": str(self.base / "home"),
                "FOREBAY_SHM_PREFIX": self.base.name,
                "FOREBAY_EXE": str(ROOT / ".venv/bin/forebay"),
                "FOREBAY_TEST_INSTALLED": str(self.base / "installed"),
                "TMPDIR": str(self.base / "t"),
                "PATH": f"{ROOT / '.venv/bin'}:{os.environ.get('PATH', '')}",
                "PYO3_PYTHON": os.environ.get("PYO3_PYTHON", str(ROOT / ".venv/bin/python")),
                "VIRTUAL_ENV": str(ROOT / ".venv"),
                "RUST_BACKTRACE": "0",
                "CARGO_TERM_COLOR": "never",
                "NO_COLOR": "1",
                "TERM": "dumb",
            }
        )
        self.sockets = set(self._sockets())

    def _segments(self) -> list[str]:
        return sorted(entry.path for entry in os.scandir("/dev/shm") if entry.name.startswith(self.base.name))

    def _sockets(self) -> Iterator[str]:
        """Socket files where a test may have made them, by its own directories or by mistake."""
        usual = Path(os.environ.get("XDG_RUNTIME_DIR", "/nowhere")) / "forebay"
        for top in (self.base, usual, Path(f"/tmp/forebay-{os.getuid()}")):
            for folder, _, files in os.walk(top):
                for name in files:
                    path = os.path.join(folder, name)
                    try:
                        if stat.S_ISSOCK(os.lstat(path).st_mode):
                            yield path
                    except FileNotFoundError:
                        pass

    def processes(self) -> list[tuple[int, str]]:
        """Living processes that carry the mark of this run."""
        needle = f"{MARK}={self.mark}".encode()
        found = []
        for entry in os.scandir("/proc"):
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                if needle not in Path(entry.path, "environ").read_bytes().split(b"\0"):
                    continue
                words = Path(entry.path, "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            found.append((int(entry.name), words.strip()))
        return found

    def leftovers(self) -> list[str]:
        """What is still there after a time of grace: processes, segments, sockets."""
        deadline = time.monotonic() + GRACE_S
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.2)
        found = [f"process {pid}: {words}" for pid, words in self.processes()]
        found += [f"segment {path}" for path in self._segments()]
        found += [f"socket {path}" for path in self._sockets() if path not in self.sockets]
        return found

    def sweep(self) -> None:
        """Ends what is left and removes the directories."""
        for pid, _ in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for path in self._segments():
            os.unlink(path)
        subprocess.run(["rm", "-rf", str(self.base)], check=False)


def end_group(child: subprocess.Popen[bytes]) -> None:
    """Ends a stage with all processes of its group: asked first, then not."""
    for how, patience in ((signal.SIGTERM, 5), (signal.SIGKILL, 5)):
        try:
            os.killpg(child.pid, how)
            child.wait(patience)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue
        else:
            return


def run(stage: Stage, house: House) -> Outcome:
    """Runs one stage to its end or its limit."""
    log = LOGS / f"{stage.name.replace(' ', '-')}.log"
    began = time.monotonic()
    with log.open("wb") as out:
        child = subprocess.Popen(
            stage.command,
            cwd=ROOT,
            env={**house.env, **stage.env},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = child.wait(stage.minutes * 60)
            why = "" if status == 0 else f"exit status {status}"
        except subprocess.TimeoutExpired:
            end_group(child)
            why = f"not done after {stage.minutes:g} minutes"
        except BaseException:
            end_group(child)
            raise
    passed, failed = count(log.read_text(errors="replace"))
    if passed + failed == 0 and not why:
        passed = 1
    if why and failed == 0:
        failed = 1
    return Outcome(passed, failed, time.monotonic() - began, why)


def line(word: str, name: str, seconds: float, rest: str) -> None:
    """The one line of a stage."""
    print(f"{word:<5} {name:<14} {int(seconds) // 60:3d}:{int(seconds) % 60:02d}  {rest}", flush=True)


FAILURE = re.compile(
    r"^(error|FAILED|E   |test .* FAILED|not ok|thread .* panicked|chaos: seed|  (LOSS|HANG|LEFTOVER) |again: )"
)


def show(stage: Stage, tail: int = 80) -> None:
    """What failed in a stage, each with the two lines behind it, and the end of its log."""
    log = LOGS / f"{stage.name.replace(' ', '-')}.log"
    lines = COLOURS.sub("", log.read_text(errors="replace")).splitlines()
    found = [at for at, text in enumerate(lines) if FAILURE.search(text)]
    failures = sorted({near for at in found[:20] for near in range(at, min(at + 3, len(lines)))})
    for text in [*(lines[at] for at in failures), *lines[-tail:]]:
        print(f"    {text}")
    print(f"    (all of it: {log.relative_to(ROOT)})", flush=True)


def stopped(*_: object) -> None:
    """Ctrl-C and a request to end are the same to us."""
    raise KeyboardInterrupt


def main(stages: Sequence[Stage], stop_after: str) -> int:
    """Runs all stages; without the one named `stop_after` the rest makes no sense."""
    signal.signal(signal.SIGTERM, stopped)
    LOGS.mkdir(parents=True, exist_ok=True)
    house = House()
    passed = failed = 0
    began = time.monotonic()
    try:
        for stage in stages:
            if not (ROOT / stage.needs).exists():
                line("-", stage.name, 0, f"nothing to do: there is no {stage.needs}")
                continue
            outcome = run(stage, house)
            passed += outcome.passed
            failed += outcome.failed
            words = f"{outcome.passed} passed" + (f", {outcome.failed} failed" if outcome.failed else "")
            if outcome.failed:
                line("FAIL", stage.name, outcome.seconds, f"{words}; {outcome.why or 'see below'}")
                show(stage)
                if stage.name == stop_after:
                    break
            else:
                line("ok", stage.name, outcome.seconds, words)
        left = house.leftovers()
        passed, failed = (passed, failed + 1) if left else (passed + 1, failed)
        words = f"{len(left)} found" if left else "no process, segment or socket left behind"
        line("FAIL" if left else "ok", "leftovers", 0, words)
        for what in left:
            print(f"    {what}")
    except KeyboardInterrupt:
        print("interrupted; ending what runs", file=sys.stderr)
        return 130
    finally:
        house.sweep()
    line("", "all", time.monotonic() - began, "")
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed else 0
