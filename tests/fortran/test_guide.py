"""The page docs/guide/fortran.md and the Fortran of README.md: what they show is compiled and run."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import h5py
import numpy as np
from fortran_kit import ROOT, STRICT, Fortran, Home, Kit, run
from places import ended

PAGE = ROOT / "docs" / "guide" / "fortran.md"
README = (ROOT / "README.md").read_text()
# What the passages of the page take as given.
GIVEN = """module given
  use forebay
  use, intrinsic :: iso_fortran_env
  implicit none
contains
  function known(user)
    class(*), intent(in) :: user
    logical :: known
    select type (user)
    type is (real(real64))
      known = .true.
    class default
      known = .false.
    end select
  end function known

%s
end module given

program guide
  use given
  implicit none
  integer(int64) :: in_use
  call shown()
  call fb_in_use(in_use)
  if (in_use /= 0) error stop 'something was not given back'
contains
  subroutine shown()
%s
  end subroutine shown
end program guide
"""
SAID = """E [V/m] has 2 dimensions
heavy: proton
y is  3.5  6.0  8.5
held  4.5  8.0 11.5
part  4.5  0.0
"""


def passages() -> list[str]:
    """The passages of Fortran."""
    return re.findall(r"^```fortran\n(.*?)^```$", PAGE.read_text(), re.S | re.M)


def typed(page: str, program: str) -> str:
    """The line that compiles a program, as the page says to type it."""
    found = re.search(rf"^    (gfortran {program}\.f90 .*) && \./\w+$", page, re.M)
    assert found is not None
    return found[1]


def test_the_ten_lines_run_as_they_are_typed(kit: Kit, home: Home, tmp_path: Path) -> None:
    (tmp_path / "first.f90").write_text(passages()[0])
    line = typed(PAGE.read_text(), "first").replace("gfortran", f"gfortran {' '.join(STRICT)}", 1)
    run("sh", "-ec", line, env=kit.env, cwd=tmp_path)
    process = home.start(tmp_path / "first", cwd=tmp_path)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "", "")
    listed = home.command("ls", tmp_path / "first.fb")
    assert "wave" in listed and "99" in listed


def test_every_passage_works(fortran: Fortran, home: Home, tmp_path: Path) -> None:
    rest = passages()[1:]
    assert len(rest) >= 12
    procedures = [p for p in rest if re.match(r"(recursive )?subroutine ", p)]
    body = [p for p in rest if p not in procedures]
    source = tmp_path / "guide.f90"
    source.write_text(GIVEN % ("\n".join(procedures), "\n".join(body)))
    process = home.start(fortran.compile(source, plain=True), cwd=tmp_path)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, ""), out
    error, _, rest_of_it = out.partition("\n")
    assert error.startswith(f"there is no run {tmp_path}/no such run.fb; ")
    assert rest_of_it == SAID


def last_amplitude(directory: Path) -> np.ndarray:
    """What the last step of a run holds."""
    files = sorted((directory / "steps").glob("*.h5"))
    assert len(files) == 101
    with h5py.File(files[-1]) as step:
        assert step.attrs["time"] == 0.1 * 100_000
        assert step["u"].attrs["units"] == "V"
        return np.asarray(step["u"])


def test_the_program_of_the_readme_writes_the_run_that_python_writes(
    kit: Kit, home: Home, tmp_path: Path
) -> None:
    programs = dict(re.findall(r"^```(fortran|python)\n(.*?)^```$", README, re.S | re.M)[::-1])
    (tmp_path / "decay.f90").write_text(programs["fortran"])
    run("sh", "-ec", typed(README, "decay"), env=kit.env, cwd=tmp_path)
    in_fortran = home.start(tmp_path / "decay_f", cwd=tmp_path)
    in_python = home.start(sys.executable, "-c", programs["python"], cwd=tmp_path)
    assert in_fortran.communicate(timeout=90) == ("", "")
    refused = ended(home.start(tmp_path / "decay_f", cwd=tmp_path), status=1)[1]
    assert "complete steps up to 100000" in refused and "fb_restart" in refused
    # It ended by `error stop`, with the run open.
    home.command("recover", tmp_path / "decay_f.fb")
    for name in home.sockets():
        Path(home.variables["FOREBAY_RUNTIME_DIR"], name).unlink()
    _, errors = in_python.communicate(timeout=90)
    assert (in_fortran.returncode, in_python.returncode) == (0, 0), errors
    ours, theirs = last_amplitude(tmp_path / "decay_f.fb"), last_amplitude(tmp_path / "decay.fb")
    assert np.allclose(ours, theirs, rtol=1e-9)
