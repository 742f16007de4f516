"""What programs ask of the file system below one folder, as strace heard it, in the order of time."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CALLS = (
    "openat,creat,write,pwrite64,writev,pwritev,pwritev2,ftruncate,truncate,fallocate,fsync,fdatasync,"
    "sync_file_range,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir,link,linkat,symlink,"
    "symlinkat,copy_file_range,sendfile"
)
# Those that would have to be understood when a library begins to use them below the folder.
UNKNOWN = frozenset(
    [
        "creat",
        "writev",
        "pwritev",
        "pwritev2",
        "truncate",
        "sync_file_range",
        "rmdir",
        "link",
        "linkat",
        "symlink",
        "symlinkat",
        "copy_file_range",
        "sendfile",
    ]
)


@dataclass
class Call:
    """One call that changed something, or made it durable, or said something."""

    kind: str  # create, write, append, size, room, sync, rename, unlink, mkdir
    path: str
    to: str = ""
    at: int = 0
    data: bytes = b""
    exclusive: bool = False
    # So many calls had come back when this one began.
    start: int = 0


def available() -> str:
    """Why nothing can be traced here; empty when it can."""
    if shutil.which("strace") is None:
        return "there is no strace"
    tried = subprocess.run(["strace", "-f", "-o", "/dev/null", "true"], capture_output=True, check=False)
    return "" if tried.returncode == 0 else f"strace may not trace here: {tried.stderr.decode()[-100:]!r}"


def traced(command: list[str], folder: Path, env: dict[str, str], timeout: float = 100) -> list[Call]:
    """Runs a command with all its children to the end, and tells what they did below a folder."""
    log = folder.with_suffix(".strace")
    words = ["strace", "-f", "-qq", "-y", "-xx", "-s", str(1 << 26), "--seccomp-bpf", "-o", str(log)]
    words += ["-e", f"trace={CALLS}", "-e", "signal=none", *command]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    with log.open() as lines:
        calls = list(_read(lines, folder))
    log.unlink()
    return calls


_LINE = re.compile(r"(\d+)\s+(\w+)\((.*)\n", re.S)
_AGAIN = re.compile(r"(\d+)\s+<\.\.\. (\w+) resumed>(.*)\n", re.S)
_OPEN = re.compile(r"(\w+)<((?:\\x[0-9a-f]{2})*)>(\(deleted\))?")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_LATER = " <unfinished ...>"


def _plain(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def _read(lines: Iterator[str], folder: Path) -> Iterator[Call]:
    """The calls below a folder, each when it came back."""
    within = "".join(f"\\x{byte:02x}" for byte in os.fsencode(folder))
    began: dict[tuple[str, str], tuple[str, int]] = {}
    count = 0
    for line in lines:
        if found := _AGAIN.match(line):
            pid, name, rest = found.groups()
            if (pid, name) not in began:
                continue
            words, start = began.pop((pid, name))
            words += rest
        elif (found := _LINE.match(line)) and within in line:
            pid, name, words = found.groups()
            start = count
            if words.endswith(_LATER):
                began[pid, name] = words.removesuffix(_LATER), start
                continue
        else:
            continue
        words, _, result = words.rpartition(" = ")
        if result.startswith(("-1", "?")):
            continue
        call = _call(name, words.rstrip().removesuffix(")"), result, str(folder))
        if call is not None:
            call.start = start
            count += 1
            yield call


def _call(name: str, words: str, result: str, folder: str) -> Call | None:
    opened = [(_plain(path).decode(), bool(gone)) for _, path, gone in _OPEN.findall(words)]
    texts = [_plain(text) for text in _TEXT.findall(words)]

    def path(text: bytes, at: int = 0) -> str:
        base = opened[at][0] if opened else "/"
        return os.path.normpath(os.path.join(base, text.decode()))

    if name in ("openat", "mkdir", "mkdirat", "unlink", "unlinkat"):
        where = path(texts[0])
        if not where.startswith(folder):
            return None
        if name == "openat":
            new, empties = "O_CREAT" in words, "O_TRUNC" in words
            exclusive = "O_EXCL" in words
            return Call("create", where, exclusive=exclusive, at=int(empties)) if new or empties else None
        return Call("mkdir" if "mkdir" in name else "unlink", where)
    if name.startswith("rename"):
        paths = [path(text, min(at, len(opened) - 1)) for at, text in enumerate(texts)]
        return Call("rename", paths[0], to=paths[1]) if paths[0].startswith(folder) else None
    if name in UNKNOWN:
        raise NotImplementedError(f"{name}({words[:200]})")
    (where, gone), numbers = opened[0], words.rsplit(",", 2)
    if gone or not where.startswith(folder):
        return None
    if name == "pwrite64":
        return Call("write", where, at=int(numbers[-1]), data=texts[0][: int(result)])
    if name == "write":
        return Call("append", where, data=texts[0][: int(result)])
    if name == "ftruncate":
        return Call("size", where, at=int(numbers[-1]))
    if name == "fallocate":
        return Call("room", where, at=int(numbers[-2]) + int(numbers[-1]))
    return Call("sync", where)
