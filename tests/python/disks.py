"""Small disks that are used up, for tests of what waits for room."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# Less than a step file wants to see free, enough for what the catalog writes.
LEFT = 3 << 19


@contextlib.contextmanager
def small_disk(at: Path, mib: int = 24) -> Iterator[Path]:
    """A file system of that many MiB at a new directory, for the time of the body."""
    at.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "forebay-test", str(at)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no small file system can be mounted here, so nothing was tried")
    try:
        yield at
    finally:
        subprocess.run(["umount", "--lazy", at], check=True)


@contextlib.contextmanager
def frozen_disk(at: Path) -> Iterator[Callable[[str], None]]:
    """A file system at a new directory that is frozen by `-f`, so that who writes to it waits, and goes on by `-u`."""
    image = at.with_name(at.name + ".image")
    with image.open("wb") as file:
        file.truncate(64 << 20)
    at.mkdir()
    steps = [["mkfs.ext4", "-q", image], ["mount", "-o", "loop", image, at]]
    if os.geteuid() != 0 or any(
        subprocess.run(s, capture_output=True, check=False).returncode for s in steps
    ):
        pytest.skip("no file system can be mounted here that is to be frozen, so nothing was tried")

    def freeze(how: str) -> None:
        subprocess.run(["fsfreeze", how, at], check=True)

    try:
        yield freeze
    finally:
        subprocess.run(["fsfreeze", "-u", at], check=False, capture_output=True)
        subprocess.run(["umount", "--lazy", at], check=True)


def fill(disk: Path, left: int = LEFT) -> Path:
    """Uses a disk up but for so many bytes; the file gives the room back when it is removed."""
    ballast = disk / "ballast"
    with ballast.open("wb") as file:
        while True:
            size = os.statvfs(disk)
            try:
                os.posix_fallocate(file.fileno(), 0, size.f_bavail * size.f_frsize - left)
            except OSError as e:
                # A program that writes there has taken room since it was counted.
                if e.errno != errno.ENOSPC:
                    raise
                os.ftruncate(file.fileno(), 0)
            else:
                return ballast
