"""Runs the test programs of the workspace, two at a time: many of their tests wait, and `cargo test` would leave half
of two cores idle. `cargo_tests.py OPTION...`: those of `cargo test`, with which the programs are built."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

AT_ONCE = 2


def programs(options: list[str]) -> list[tuple[str, Path, Path]]:
    """What cargo has built: of each program its name, the file, and the folder that cargo would run it in."""
    command = ["cargo", "test", *options, "--no-run", "--message-format=json"]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    found = []
    for line in said.splitlines():
        message = json.loads(line)
        if message["reason"] == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
            folder = Path(message["manifest_path"]).parent
            source = Path(message["target"]["src_path"]).relative_to(folder)
            found.append((f"{folder.name} {source}", Path(message["executable"]), folder))
    return found


def run(name: str, command: list[str], folder: Path) -> bool:
    """Runs one to its end, and prints what it said as a whole."""
    done = subprocess.run(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    # One write, for the other one may end at the same time.
    print(f"     Running {name}\n{done.stdout}", end="", flush=True)
    if done.returncode:
        print(
            f"error: {name} ended with {done.returncode}; again: cd {folder} && {' '.join(command)}",
            flush=True,
        )
    return done.returncode == 0


def main(options: list[str]) -> int:
    """All programs, and the examples of the documentation."""
    found = programs(options)
    # The large ones first, so that none of them is left alone at the end.
    found.sort(key=lambda one: one[1].stat().st_size, reverse=True)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        ends = [pool.submit(run, name, [str(program)], folder) for name, program, folder in found]
        ends.append(
            pool.submit(
                run, "documentation", ["cargo", "test", *options, "--doc", "--no-fail-fast"], Path.cwd()
            )
        )
    return 0 if all(end.result() for end in ends) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
