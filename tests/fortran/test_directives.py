"""`forebay cc` in Fortran: both forms, all kinds, several files, and what is said when something is wrong."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from fortran_kit import ROOT, Fortran, Home, compiled, forebay_cc, run
from places import ended

EXAMPLE = ROOT / "examples" / "03_directives"
BLAS = ROOT / "examples" / "02_blas"
STRICT = ["-Wall", "-Wextra", "-Werror", "-g"]


@pytest.fixture
def blas(fortran: Fortran, home: Home) -> subprocess.Popen[str]:
    """A server of BLAS."""
    command = [fortran.kit.prefix / "bin" / "forebay", "serve", "--idl", BLAS / "blas.fbi", "--name", "blas"]
    return home.start(*command)


def test_the_example_gives_to_the_bit_what_the_plain_program_gives(
    fortran: Fortran, home: Home, blas: subprocess.Popen[str], tmp_path: Path
) -> None:
    serve = [fortran.kit.prefix / "bin" / "forebay", "serve", "--idl", BLAS / "lapack.fbi"]
    home.start(*serve)
    source = EXAMPLE / "fortran" / "chain.f90"
    run("gfortran", "-Wall", "-Wextra", "-Werror", source, "-l:libopenblas.so.0", "-o", tmp_path / "here")
    compiled(fortran.kit, *STRICT, "-Wno-unused", "-std=f2018", source, "-o", "there", cwd=tmp_path)
    here = run(tmp_path / "here", env={**home.env, "OPENBLAS_NUM_THREADS": "1"})
    assert "info = 0" in here
    assert "openblas" not in run("ldd", tmp_path / "there")
    assert home.run(tmp_path / "there", FOREBAY_PATIENCE="60") == here
    assert blas.poll() is None


KINDS = """
program kinds
  use, intrinsic :: iso_c_binding, only: c_bool
  use, intrinsic :: iso_fortran_env, only: int8, int16, int32, int64, real32, real64
  implicit none
  integer(int8) :: a(2) = [1_int8, -1_int8]
  integer(int16) :: b(2, 2) = 7
  integer(int32) :: c(3) = [1, 2, 3]
  integer(int64) :: d(1, 1, 2) = 2_int64**40
  real(real32) :: e(2) = 0.5
  real(real64) :: f(3, 4) = 0
  complex(real32) :: g(2) = (1.0, 2.0)
  complex(real64) :: h(2) = (3d0, 4d0)
  logical(c_bool) :: l(3) = [.true._c_bool, .false._c_bool, .true._c_bool]
  real(real64), allocatable :: whole(:, :)
  integer :: i, status
  !$fb create a, a
  !$FB Put A, a
  a = 0
  !$fb get a, a
  !$fb create b, b
  !$fb put b, b
  b = 0
  !$fb get b, b
  !$fb create c, c(1:3:2)
  !$fb put c, c(1:3:2)
  c = 0
  !$fb get c, c(2:3)
  !$fb create d, d
  !$fb put d, d
  d = 0
  !$fb get d, d
  !$fb create e, e
  !$fb put e, e
  e = 0
  !$fb get e, e
  f(2, 3) = 6
  !$fb create f, f(2:3, :)
  !$fb put f, f(2:3, :)
  f = 0
  !$fb get f, f(2:3, :)
  !$fb create g, g
  !$fb put g, g
  g = 0
  !$fb get g, g
  !$fb create h, h
  !$fb put h, h
  h = 0
  !$fb get h, h
  !$fb create l, l
  !$fb put l, l
  l = .false._c_bool
  !$fb get l, l
  i = 2
  !$fb create w, f64, i, i + 1
  allocate (whole(2, 3))
  whole = 1
  !$fb get w, whole
  print '(2(1x, i0))', a, b, c, d
  print '(2(1x, f0.2))', e, f(2, 3), sum(f), g, h, sum(whole)
  print '(3l2)', l
  !$fb put w, f status status
  print '(i0)', status
  !$fb kill a, b, c, d, e, f, g, h, l, w
  !$fb put a, a status status
  print '(i0)', status
end program kinds
"""
KINDS_SAID = """ 1 -1
 7 7
 7 7
 0 1
 3 1099511627776
 1099511627776
 .50 .50
 6.00 6.00
 1.00 2.00
 1.00 2.00
 3.00 4.00
 3.00 4.00
 .00
 T F T
3
1
"""


def uncalled(fortran: Fortran, *words: str, cwd: Path) -> None:
    """Compiles a program some of whose arrays no call takes, and hears of nothing else."""
    done = forebay_cc(fortran.kit, *words, cwd=cwd)
    assert (done.returncode, done.stdout) == (0, "") and done.stderr
    assert [
        line for line in done.stderr.splitlines() if not re.search("no call takes|never used", line)
    ] == []


def test_arrays_of_all_kinds_and_sections_go_and_come(
    fortran: Fortran, home: Home, blas: subprocess.Popen[str], tmp_path: Path
) -> None:
    (tmp_path / "kinds.f90").write_text(KINDS)
    checks = ("-std=f2018", "-fcheck=all,no-array-temps")
    uncalled(fortran, *STRICT, *checks, "kinds.f90", "-o", "kinds", cwd=tmp_path)
    assert home.run(tmp_path / "kinds", FOREBAY_PATIENCE="60") == KINDS_SAID
    assert blas.poll() is None


FIXED = """
      PROGRAM FIXED
      IMPLICIT NONE
      REAL*8 X(3), NORM
      INTEGER N
      TARGET NORM
      DATA X / 2D0, 3D0, 6D0 /
      N = 3
C$FB CREATE FAR, X
c$fb put far, x
*$fb call dnrm2(n, far,
*$fb            out(norm)) async later
      IF (N .EQ. 3) THEN
!$fb    wait later
      END IF
      PRINT '(F4.1)', NORM
      CALL OTHER
      END
"""
OTHER = """
      SUBROUTINE OTHER
      DOUBLE PRECISION X(3)
C$FB EXTERN FAR
C$FB CALL DSCAL(3, 2D0, FAR)
C$FB GET FAR, X
C$FB KILL FAR
      PRINT '(3F5.1)', X
      END
"""


def test_fixed_form_and_several_files_share_names(
    fortran: Fortran, home: Home, blas: subprocess.Popen[str], tmp_path: Path
) -> None:
    (tmp_path / "fixed.f").write_text(FIXED)
    # A second file, in another folder, that the compiler is told to take as fixed form.
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "other.f").write_text(OTHER.replace("CALL DSCAL", "CALL dscal"))
    compiled(fortran.kit, "-c", "sub/other.f", cwd=tmp_path)
    compiled(fortran.kit, "fixed.f", "other.o", "-o", "fixed", cwd=tmp_path)
    assert home.run(tmp_path / "fixed", FOREBAY_PATIENCE="60") == " 7.0\n  4.0  6.0 12.0\n"
    compiled(fortran.kit, "-c", "fixed.f", cwd=tmp_path)
    compiled(fortran.kit, "--lang", "fortran", "fixed.o", "other.o", "-o", "linked", cwd=tmp_path)
    assert home.run(tmp_path / "linked", FOREBAY_PATIENCE="60") == " 7.0\n  4.0  6.0 12.0\n"
    assert blas.poll() is None


def test_what_fails_ends_the_program_at_the_line_of_the_directive(
    fortran: Fortran, home: Home, tmp_path: Path
) -> None:
    (tmp_path / "f.f90").write_text(
        "program f\n  print '(a)', 'before'\n\n  !$fb call nothing(1, 'it''s')\n  print '(a)', 'behind'\nend program f\n"
    )
    compiled(fortran.kit, *STRICT, "f.f90", "-o", "f", cwd=tmp_path)
    out, err = ended(home.start(tmp_path / "f"), status=1)
    assert out == "before\n"
    assert err.startswith("f.f90:4: fb call nothing(1, 'it''s'): no server offers \"nothing\"; "), err


def test_what_is_wrong_is_told_at_its_line(fortran: Fortran, tmp_path: Path) -> None:
    head = "program f\n  implicit none\n  real(8) :: x(3), y\n  integer, parameter :: n = 3\n"
    for directive, says in [
        ("crate x, x", "f.f90:6:8: error: `crate` is no directive; did you mean `create`?"),
        (
            "create x, x, n",
            "f.f90:6:18: error: an array of Fortran has its own extents; of a part write the section: x(1:n)",
        ),
        ("put z, x", "f.f90:6:12: error: no directive of this file has created `z`"),
        ("call g(out(missing))", "f.f90:6:"),
        ("call g(x)", "f.f90:6:"),
    ]:
        (tmp_path / "f.f90").write_text(f"{head}  x = 0\n  !$fb {directive}\n  y = 1\nend program f\n")
        done = forebay_cc(fortran.kit, "-c", "f.f90", cwd=tmp_path)
        assert done.returncode == 1 and says in done.stderr, done.stderr
    # Behind a directive lines are counted on as they stand in the file.
    (tmp_path / "f.f90").write_text(f"{head}  x = 0\n  !$fb create x, x\n  y = wrong\nend program f\n")
    done = forebay_cc(fortran.kit, "-c", "f.f90", cwd=tmp_path)
    assert done.returncode == 1 and re.search(r"^f\.f90:7:", done.stderr, re.M), done.stderr


def test_the_program_of_the_guide_prints_the_same_with_a_server_and_without(
    fortran: Fortran, home: Home, tmp_path: Path
) -> None:
    page = (ROOT / "docs" / "guide" / "directives.md").read_text()
    passages = re.findall(r"^```fortran\n(.*?)^```$", page, re.S | re.M)
    (tmp_path / "steps.f90").write_text(passages[0])
    home.serve_axpy(tmp_path)
    compiled(fortran.kit, *STRICT, "steps.f90", "-o", "steps", cwd=tmp_path)
    run("gfortran", "steps.f90", "-o", "here", cwd=tmp_path)
    here = run(tmp_path / "here")
    assert here == "2. 4. 6.\n"
    assert home.run(tmp_path / "steps", FOREBAY_PATIENCE="60") == here


THREADS = """
program threads
  implicit none
  integer :: i, n, err
  real(8), target :: x(2)
  n = 2
  x = [1d0, 2d0]
  !$fb create far, x
  !$fb put far, x
  !$omp parallel num_threads(1)
  !$fb call dscal(n, 2d0, far)
  i = n
  !$omp end parallel
  !$fb get far, x
  !$fb create room, f64, n, i
  !$fb call dscal(1, 2d0, out(x(1:1))) status err
  !$fb kill far, room status err
  print '(2f5.1, 1x, i0)', x, err
end program threads
"""


@pytest.mark.parametrize("option", ["-fopenmp", "-fdefault-integer-8", "-std=f2008"])
def test_directives_are_good_within_openmp_and_with_integers_of_another_kind(
    fortran: Fortran, home: Home, blas: subprocess.Popen[str], tmp_path: Path, option: str
) -> None:
    (tmp_path / "t.f90").write_text(THREADS)
    uncalled(fortran, "-Wall", option, "t.f90", "-o", "t", cwd=tmp_path)
    assert home.run(tmp_path / "t", FOREBAY_PATIENCE="60") == "  4.0  4.0 0\n"
    assert blas.poll() is None


def test_what_a_program_must_say_otherwise_is_told_in_its_own_terms(
    fortran: Fortran, home: Home, blas: subprocess.Popen[str], tmp_path: Path
) -> None:
    head = "subroutine s(x, n)\n  integer :: n\n  real(8) :: x(*), y(3)\n"
    for lines, says in [
        (
            "  !$fb create far, x",
            "f.f90:4:7: error: x does not say how large it is, since line 3 declares it",
        ),
        ("  !$fb call dscal(3, 2d0, out(y))", "y is used where it lies and must be a target; give it that"),
        ("  !$omp parallel do\n  !$fb create far, y", "`!$omp parallel do` in line 4 takes the loop"),
    ]:
        (tmp_path / "f.f90").write_text(f"{head}{lines}\nend subroutine\n")
        done = forebay_cc(fortran.kit, "-fopenmp", "-c", "f.f90", cwd=tmp_path)
        assert done.returncode == 1 and says in done.stderr, done.stderr
    (tmp_path / "f.f90").write_text(f"{head}  y = 0 !$fb create far, y\nend subroutine\n")
    done = forebay_cc(fortran.kit, "-c", "f.f90", cwd=tmp_path)
    assert done.returncode == 0 and done.stderr.startswith("f.f90:4:9: warning: this comment is no directive")
    (tmp_path / "f.f90").write_text(f"{head}  !$fb create far, y\nend subroutine\n")
    done = forebay_cc(fortran.kit, "-std=f2003", "-c", "f.f90", cwd=tmp_path)
    assert done.returncode == 1 and "-std=f2003: what becomes of the directives" in done.stderr
    # Capitals in the name of a service are capitals.
    upper = "      PROGRAM P\n      REAL*8 X(3)\n      TARGET X\nC$FB CALL DSCAL(3, 2D0, OUT(X))\n      END\n"
    (tmp_path / "p.f").write_text(upper)
    compiled(fortran.kit, "p.f", "-o", "p", cwd=tmp_path)
    small = upper.replace("CALL DSCAL", "CALL dscal")
    (tmp_path / "q.f").write_text(small)
    compiled(fortran.kit, "q.f", "-o", "q", cwd=tmp_path)
    assert home.run(tmp_path / "q", FOREBAY_PATIENCE="60") == ""
    _, err = ended(home.start(tmp_path / "p"), status=1)
    assert 'did you mean "dscal"? Small letters and capitals are told apart' in err, err
