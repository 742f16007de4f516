"""The stages of `make test`, in order. `scripts/test NAME ...` runs only those named."""

from __future__ import annotations

import signal
import sys

from runner import ROOT, Stage, main

# One profile for everything that Rust builds: HDF5 and SQLite compile once.
RELEASE = ("--release", "--locked", "--workspace")


def pytest(*where: str, workers: str = "2") -> list[str]:
    """pytest over folders, with a limit on each test; its log tells which take longest."""
    return ["python", "-m", "pytest", "-q", "--durations=20", "-n", workers, *where]


STAGES = [
    Stage("rustfmt", ["cargo", "fmt", "--all", "--check"], 1),
    Stage("ruff", ["sh", "-c", "ruff check && ruff format --check"], 1),
    Stage("build", ["scripts/build"], 12),
    Stage("mypy", ["mypy"], 2),
    Stage("web types", ["npm", "--prefix", "web", "run", "--silent", "check"], 2, needs="web/package.json"),
    Stage(
        "clippy", ["cargo", "clippy", *RELEASE, "--all-targets", "--keep-going", "--", "-D", "warnings"], 8
    ),
    # The Python package with them, though it has no tests in Rust: without it `syn` has other features than in the
    # build, and every crate is compiled again.
    Stage("cargo build", ["cargo", "test", *RELEASE, "--no-run"], 10),
    Stage(
        "cargo test",
        ["python", "scripts/cargo_tests.py", *RELEASE],
        8,
        # Ranks in C and Python, too, among those that are hurt.
        env={"CHAOS_LANGUAGES": "1", "RUST_TEST_THREADS": "3"},
    ),
    Stage("loom", ["scripts/loom"], 6, needs="crates/arena/src"),
    # Many of these wait: two workers leave a third of two cores idle.
    Stage("python", pytest("tests/python", workers="4"), 10, needs="tests/python"),
    Stage("mpi", pytest("tests/mpi"), 8, needs="tests/mpi"),
    Stage("c", pytest("tests/c"), 6, needs="tests/c"),
    Stage("fortran", pytest("tests/fortran"), 6, needs="tests/fortran"),
    Stage("docs", ["scripts/docs"], 2),
    Stage("wheel", ["scripts/wheel"], 5, env={"FOREBAY_BUILT": "1"}),
    Stage("guide", pytest("tests/guide"), 6, needs="tests/guide"),
    Stage("browser", ["scripts/browser"], 8, needs="tests/browser/package.json"),
]

if __name__ == "__main__":
    # Who starts this in the background has Ctrl-C ignored, and tests would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    chosen = sys.argv[1:]
    known = {stage.name for stage in STAGES}
    unknown = [name for name in chosen if name not in known]
    if unknown:
        sys.exit(f"error: there is no stage {unknown[0]!r}; the stages are: {', '.join(sorted(known))}")
    if not (ROOT / ".venv/bin/python").exists():
        sys.exit("error: there is no .venv; run  make setup")
    sys.exit(main([stage for stage in STAGES if not chosen or stage.name in chosen], stop_after="build"))
