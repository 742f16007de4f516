"""The page README.md: its program is the same in every language, and gives the same run."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import h5py
import numpy as np
from kit import ROOT, Home, Kit, run

PAGE = (ROOT / "README.md").read_text()


def program(language: str) -> str:
    """The first program of a language on the page."""
    found = re.search(rf"^```{language}\n(.*?)^```$", PAGE, re.S | re.M)
    assert found is not None
    return found[1]


def last_amplitude(directory: Path) -> np.ndarray:
    """What the last step of a run holds."""
    files = sorted((directory / "steps").glob("*.h5"))
    assert len(files) == 101
    with h5py.File(files[-1]) as step:
        assert step.attrs["time"] == 0.1 * 100_000
        return np.asarray(step["u"])


def test_the_first_programs_of_the_page_write_the_same_run(kit: Kit, home: Home, tmp_path: Path) -> None:
    (tmp_path / "decay.c").write_text(program("c"))
    typed = re.search(r"^    (cc decay\.c .*) && \./decay$", PAGE, re.M)
    assert typed is not None
    run("sh", "-ec", typed[1], env=kit.env, cwd=tmp_path)
    in_c = home.start(tmp_path / "decay", cwd=tmp_path)
    in_python = home.start(sys.executable, "-c", program("python"), cwd=tmp_path)
    assert in_c.communicate(timeout=90) == ("", "")
    again = home.start(tmp_path / "decay", cwd=tmp_path)
    assert again.wait(60) == 1
    assert again.stderr is not None
    standing, refused = again.stderr.read().splitlines()
    assert "complete steps up to 100000" in standing and 'mode "w"' in standing and "restart" in standing
    assert "snapshot 0 is not added to them" in refused
    said, errors = in_python.communicate(timeout=90)
    assert (in_c.returncode, in_python.returncode) == (0, 0), errors
    assert said.startswith("http://127.0.0.1:")
    assert np.allclose(
        last_amplitude(tmp_path / "decay_c.fb"), last_amplitude(tmp_path / "decay.fb"), rtol=1e-9
    )
