"""The pages of the guide as programs: what a page shows is typed in its order by a newcomer, in one folder.

| on the page | what is done with it |
| --- | --- |
| `python` | goes to one interpreter that lives as long as the page |
| `console` | lines after `$ ` go to a shell, one by one; what stands below them is what they print, `...` being anything. `&` at the end: it runs until the page ends |
| a block whose first line is a comment with a file name | is that file |
| a comment of HTML that begins with `python` or `console` | the same, unseen: what the page takes as given |
"""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from places import Place  # noqa: E402

GUIDE = ROOT / "docs" / "guide"
BLOCK = re.compile(r"^(?:```(\w+)\n(.*?)^```$|<!-- (python|console)\n(.*?)^-->$)", re.S | re.M)
NAMED = re.compile(r"^(?:#|//|!|/\*) (\S+\.(?:py|c|f90|toml|cpp|fbi))\b.*$", re.M)
# One block after the other, each told when it has ended.
INTERPRETER = """
import sys, traceback
import forebay as fb
import numpy as np
shared = {"__name__": "__main__", "fb": fb, "np": np}
ask = sys.stdin.buffer
while size := ask.readline():
    code = ask.read(int(size)).decode()
    try:
        exec(compile(code, "the page", "exec"), shared)
    except BaseException:
        traceback.print_exc()
        sys.exit(1)
    sys.stdout.flush()
    sys.stderr.write("done\\n")
    sys.stderr.flush()
"""


@dataclass(frozen=True)
class Block:
    """A piece of a page that does something."""

    language: str
    text: str
    line: int


def blocks(page: Path) -> Iterator[Block]:
    """The pieces of a page, in order."""
    text = page.read_text()
    for found in BLOCK.finditer(text):
        language, code = (found[1], found[2]) if found[1] else (found[3], found[4])
        yield Block(language, code, text.count("\n", 0, found.start()) + 1)


def looks_like(said: str, shown: str) -> bool:
    """Whether a program printed what the page shows."""
    wanted = "\n".join(line.rstrip() for line in shown.splitlines())
    pattern = re.escape(wanted).replace(re.escape("..."), "[\0-\U0010ffff]*?")
    return re.fullmatch(pattern, "\n".join(line.rstrip() for line in said.splitlines())) is not None


def commands(text: str) -> Iterator[tuple[str, str]]:
    """What is typed in a console, and what is shown below it."""
    typed, shown = "", ""
    for line in text.splitlines():
        if line.startswith("$ "):
            if typed:
                yield typed, shown
            typed, shown = line[2:], ""
        elif typed.endswith("\\"):
            typed += "\n" + line
        else:
            shown += line + "\n"
    if typed:
        yield typed, shown


class Reader:
    """Somebody who types what a page shows, in a folder and an environment of his own."""

    def __init__(self, place: Place, folder: Path, python: Path) -> None:
        self.place, self.folder, self.python = place, folder, python
        self.interpreter: subprocess.Popen[str] | None = None
        self.background: list[subprocess.Popen[str]] = []
        self.env = {
            **place.env,
            "PATH": f"{python.parent}:/usr/local/bin:/usr/bin:/bin",
            "VIRTUAL_ENV": str(python.parents[1]),
            "PKG_CONFIG_PATH": str(python.parents[1] / "lib" / "pkgconfig"),
        }
        self.env.pop("FOREBAY_EXE", None)

    def read(self, page: Path) -> int:
        """Types the whole page; returns the number of blocks."""
        count = 0
        for block in blocks(page):
            where = f"{page.name}, line {block.line}"
            named = NAMED.match(block.text)
            if named is not None:
                (self.folder / named[1]).write_text(block.text)
            elif block.language == "python":
                self.run_python(block.text, where)
            elif block.language == "console":
                for typed, shown in commands(block.text):
                    self.run_command(typed, shown, where)
            else:
                continue
            count += 1
        return count

    def run_python(self, code: str, where: str) -> None:
        """A block in the page's interpreter."""
        if self.interpreter is None:
            self.interpreter = self.place.start(
                self.python,
                "-c",
                INTERPRETER,
                env=self.env,
                cwd=self.folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
            )
        into, back = self.interpreter.stdin, self.interpreter.stderr
        assert into is not None and back is not None
        into.write(f"{len(code.encode())}\n{code}")
        into.flush()
        said = []
        for line in back:
            if line == "done\n":
                return
            said.append(line)
        raise AssertionError(f"{where}:\n{''.join(said)}")

    def run_command(self, typed: str, shown: str, where: str) -> None:
        """A line in a shell."""
        if typed.endswith(" &"):
            self.background.append(
                self.place.start(
                    "bash",
                    "-c",
                    f"exec {typed[:-2]}",
                    env=self.env,
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                )
            )
            return
        process = self.place.start(
            "bash", "-c", typed, env=self.env, cwd=self.folder, stderr=subprocess.STDOUT
        )
        said, _ = process.communicate(timeout=90)
        assert process.returncode == 0, f"{where}: {typed}\n{said}"
        assert not shown.strip() or looks_like(said, shown), (
            f"{where}: {typed}\nsaid:\n{said}\nthe page shows:\n{shown}"
        )

    def leave(self) -> None:
        """Ends what the page left running, in order."""
        if self.interpreter is not None and self.interpreter.stdin is not None:
            self.interpreter.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.interpreter.wait(20)
        for process in self.background:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.background:
            process.wait(20)
