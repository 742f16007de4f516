"""The example in Fortran: the same data and report as in Python, whoever solves the field."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import forebay as fb
import pytest
from fortran_kit import ROOT, Fortran, Home, run
from likeness import DECK, FEW, PYTHON, check_like_python, run_to_end
from places import EXAMPLE, servers, until


@pytest.fixture(scope="session")
def two_stream(fortran: Fortran) -> dict[str, Path]:
    """The example and its server, compiled as the pages say."""
    words = fortran.kit.flags("--cflags", "--libs", package="forebay-fortran")
    made = {}
    for name in ("two_stream", "poisson1d"):
        made[name] = fortran.folder / f"{name}_f"
        source = EXAMPLE / "fortran" / f"{name}.f90"
        flags = ["-std=f2018", "-Wall", "-Wextra", "-Werror", "-O2", "-J", fortran.folder]
        run("gfortran", *flags, source, *words, "-o", made[name])
    return made


def test_the_example_keeps_and_reports_what_the_one_in_python_does(
    home: Home, tmp_path: Path, two_stream: dict[str, Path]
) -> None:
    servers(home)
    ours, theirs = tmp_path / "fortran.fb", tmp_path / "python.fb"
    said = run_to_end(home, ours, [two_stream["two_stream"]])
    there = run_to_end(home, theirs, PYTHON)
    check_like_python(said, ours, (there, theirs))


def test_a_server_in_fortran_solves_for_python_and_fortran_and_each_goes_on_with_the_run_of_the_other(
    home: Home, tmp_path: Path, two_stream: dict[str, Path]
) -> None:
    server = home.start(two_stream["poisson1d"])
    path = tmp_path / "both.fb"
    run_to_end(home, path, [two_stream["two_stream"]], "--steps", "40")
    assert "going on from step 40" in run_to_end(home, path, PYTHON, "--steps", "80")
    assert "going on from step 80" in run_to_end(home, path, [two_stream["two_stream"]], "--steps", "100")
    with fb.open(path, "r") as kept:
        assert kept.snapshots.numbers == [0, 20, 40, 60, 80, 100]
        assert len(kept.table("history")) == 100
    server.terminate()
    assert server.wait(20) == 0


def test_an_interrupted_run_goes_on_bit_for_bit(
    home: Home, tmp_path: Path, two_stream: dict[str, Path]
) -> None:
    server = home.start(two_stream["poisson1d"])
    whole, parts = tmp_path / "whole.fb", tmp_path / "parts.fb"
    run_to_end(home, whole, [two_stream["two_stream"]], "--steps", "60")
    process = home.start(two_stream["two_stream"], "--run", parts, *FEW, "--steps", "100000")

    def begun() -> bool:
        listed = subprocess.run(
            [
                sys.executable,
                "-c",
                "import sys, forebay as fb; print(len(fb.open(sys.argv[1], 'r').snapshots))",
                parts,
            ],
            env=home.env,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        return listed.returncode == 0 and int(listed.stdout) >= 2

    until(begun, what="the second snapshot")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130 and "interrupted" in err
    with fb.open(parts, "r") as kept:
        last = kept.snapshots.numbers[-1]
    run_to_end(home, parts, [two_stream["two_stream"]], "--steps", str(max(60, last + 20)))
    with fb.open(whole, "r") as a, fb.open(parts, "r") as b:
        for name in a.snapshots.at(60).names():
            assert a.snapshots.at(60)[name].tobytes() == b.snapshots.at(60)[name].tobytes(), name
    server.terminate()
    assert server.wait(20) == 0


@pytest.mark.parametrize(
    ("line", "instead", "said"),
    [
        ("dt = 0.1", "dt = fast", ":11: [time] dt: dt = fast is not a number above 0"),
        ("grid = 64", "grid = 2", "grid = 2 is not an integer from 4 to 10^6"),
        ("grid = 64", "gird = 64", "[box] gird: unknown key"),
        ("steps = 600", "", "the key time.steps is missing"),
        ('name = "beam2"', 'name = "beam1"', "beam1 names two beams"),
        ("[field]", "[fields]", "[fields] is unknown"),
    ],
)
def test_a_deck_with_an_error_is_refused_with_its_line_and_key(
    home: Home, tmp_path: Path, two_stream: dict[str, Path], line: str, instead: str, said: str
) -> None:
    text = DECK.read_text()
    assert line in text
    deck = tmp_path / "deck.toml"
    deck.write_text(text.replace(line, instead, 1))
    process = home.start(two_stream["two_stream"], deck, "--run", tmp_path / "none.fb")
    out, err = process.communicate(timeout=20)
    assert process.returncode == 1 and out == ""
    assert err.startswith(f"two_stream: {deck}") and said in err


def test_the_demo_runs_the_example_in_fortran() -> None:
    script = (ROOT / "scripts" / "demo").read_text()
    for source in ("two_stream.f90", "two_stream_mpi.f90"):
        assert source in script and (EXAMPLE / "fortran" / source).exists()
