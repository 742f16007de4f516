"""Owners that lose their run to another one."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

TAKING = """
import sqlite3, sys
catalog = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=20)
catalog.execute("BEGIN IMMEDIATE")
catalog.execute("UPDATE fb_run SET value = '1000000' WHERE key = 'fence'")
print("taken", flush=True)
sys.stdin.read()
catalog.execute("COMMIT")
catalog.close()
"""


@contextlib.contextmanager
def taken(path: Path) -> Iterator[None]:
    """Another owner takes the run: the one there is waits for its turn, and may write nothing more then."""
    # In a process of its own: two copies of SQLite in one process let go of each other's locks.
    command = [sys.executable, "-c", TAKING, str(path / "catalog.sqlite")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as taking:
        assert taking.stdin is not None and taking.stdout is not None
        assert taking.stdout.readline() == "taken\n"
        yield
        taking.stdin.close()
        assert taking.wait(20) == 0
