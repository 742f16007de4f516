"""Arrays of every kind and rank from Fortran to Python and C and back: the same index is the same element."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from fortran_kit import Fortran, Home, Kit

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "c"))
from kit import run

SHAPE = (3, 2, 1, 2, 1, 2, 1, 2)
KINDS = {
    "i1": ("integer(int8)", "int({}, int8)"),
    "i2": ("integer(int16)", "int({}, int16)"),
    "i4": ("integer(int32)", "int({}, int32)"),
    "i8": ("integer(int64)", "int({}, int64)"),
    "f4": ("real(real32)", "real({}, real32)"),
    "f8": ("real(real64)", "real({}, real64)"),
    "c8": ("complex(real32)", "cmplx({}, -{}, real32)"),
    "c16": ("complex(real64)", "cmplx({}, -{}, real64)"),
    "b1": ("logical", "mod({}, 3) == 0"),
    "k1": ("logical(c_bool)", "logical(mod({}, 3) == 0, c_bool)"),
}
EQUAL = {"b1": "a .eqv. b", "k1": "logical(a .eqv. b)", "f4": "abs(a - b) <= 0", "f8": "abs(a - b) <= 0"}
EQUAL |= {"c8": "abs(a - b) <= 0", "c16": "abs(a - b) <= 0"}


def numbers(kind: str, rank: int) -> np.ndarray:
    """What Fortran's element number k (in its own order, from 1) is, as an array of that shape."""
    shape = SHAPE[:rank]
    n = int(np.prod(shape, dtype=int))
    k = np.arange(1, n + 1)
    if kind in ("b1", "k1"):
        values = k % 3 == 0
    elif kind[0] == "c":
        values = (k - 1j * k).astype(kind)
    else:
        values = k.astype(kind)
    return values.reshape(shape, order="F")


def part(kind: str, rank: int) -> str:
    """The Fortran procedure for one kind and rank: puts an array and a section of it, checks what comes back."""
    declared, value = KINDS[kind]
    name = f"{kind}_{rank}"
    equal = EQUAL.get(kind, "a == b")
    if rank == 0:
        return f"""
  subroutine {name}()
    {declared} :: a, b
    a = {value.format(1, 1)}
    call fb_put(run, '{name}', a)
    call fb_get(run, '{name}', b)
    call expect({equal}, '{name} here')
    call fb_get(other, '{name}', b)
    call expect({equal}, '{name} of Python')
    call fb_get(other, '{name} F', b)
    call expect({equal}, '{name} of Python')
  end subroutine {name}
"""
    shape = ", ".join(str(n) for n in SHAPE[:rank])
    total = int(np.prod(SHAPE[:rank]))
    section = ", ".join(["3:1:-2", *["2:1:-1" if n == 2 else "1:1" for n in SHAPE[1:rank]]])
    return f"""
  subroutine {name}()
    {declared} :: a({shape}), b({shape})
    {declared}, allocatable :: c({", ".join(":" * rank)})
    integer :: i
    a = reshape([({value.format("i", "i")}, i=1, {total})], [{shape}])
    call fb_put(run, '{name}', a)
    call fb_put(run, '{name} section', a({section}))
    call fb_get(run, '{name}', b)
    call expect(all({equal}), '{name} here')
    call fb_get(other, '{name}', b)
    call expect(all({equal}), '{name} of Python, rows first')
    b = reshape([({value.format("1", "1")}, i=1, {total})], [{shape}])
    call fb_get(other, '{name} F', b)
    call expect(all({equal}), '{name} of Python, columns first')
    call fb_get_alloc(other, '{name}', c)
    b = c
    call expect(all({equal}), '{name} of Python, new')
    call fb_get(run, '{name} section', b({section}))
    call expect(all({equal}), '{name} section')
  end subroutine {name}
"""


def whole() -> str:
    """The program for all kinds and ranks."""
    names = [f"{kind}_{rank}" for kind in KINDS for rank in range(9)]
    calls = "\n".join(f"  call {name}()" for name in names)
    parts = "".join(part(kind, rank) for kind in KINDS for rank in range(9))
    return f"""program kinds
  use check
  use, intrinsic :: iso_c_binding, only: c_bool
  implicit none
  type(fb_run) :: run, other
  call fb_run_open('fortran', 'w', run)
  call fb_run_open('python', 'r', other)
{calls}
  call fb_run_close(run)
  call fb_run_close(other)
  call finish()
contains
{parts}
end program kinds
"""


PYTHON = """
import sys, forebay as fb, numpy as np
sys.path.insert(0, {folder!r})
from test_round_trips import KINDS, SHAPE, numbers
{body}
"""
WRITE = """
with fb.open("python", "w") as run:
    for kind in KINDS:
        for rank in range(9):
            a = numbers(kind, rank)
            run.put(f"{kind}_{rank}", np.ascontiguousarray(a) if rank else a[()])
            run.put(f"{kind}_{rank} F", np.asfortranarray(a) if rank else a[()])
"""
READ = """
with fb.open("fortran", "r") as run:
    for kind in KINDS:
        for rank in range(9):
            a, b = numbers(kind, rank), run.get(f"{kind}_{rank}")
            assert np.shape(b) == a.shape and np.asarray(b).dtype == a.dtype and np.array_equal(a, b), (kind, rank)
            if rank:
                cut = (slice(None, None, -2), *[slice(None, None, -1)] * (rank - 1))
                assert np.array_equal(a[cut], run.get(f"{kind}_{rank} section")), (kind, rank)
    assert run.get("f8_2").flags.f_contiguous
print("done")
"""
IN_C = """
#include <forebay.h>
#include <stdio.h>
int main(void)
{
    fb_run *run;
    double a[3][2] = {{0}};
    double _Complex unused = 0;
    int8_t b[3][2][1] = {{{0}}};
    (void)unused;
    if (fb_run_open("fortran", "r", NULL, &run) != FB_OK) return puts(fb_last_error()), 1;
    if (fb_get(run, "f8_2", 0, FB_DENSE(a, FB_F64, 3, 2)) != FB_OK) return puts(fb_last_error()), 1;
    if (fb_get(run, "i1_3", 0, FB_DENSE(b, FB_I8, 3, 2, 1)) != FB_OK) return puts(fb_last_error()), 1;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 2; j++)
            if (a[i][j] != 1 + i + 3 * j || b[i][j][0] != 1 + i + 3 * j) return puts("another element"), 1;
    fb_run_close(run);
    puts("done");
}
"""


def test_every_kind_and_rank_is_the_same_in_fortran_python_and_c(
    fortran: Fortran, kit: Kit, home: Home, tmp_path: Path
) -> None:
    def python(body: str) -> str:
        code = PYTHON.format(folder=str(Path(__file__).parent), body=body)
        process = home.start(sys.executable, "-c", code, cwd=tmp_path)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        return out

    source = tmp_path / "kinds.f90"
    source.write_text(whole())
    program = fortran.compile(source)
    python(WRITE)
    process = home.start(program, cwd=tmp_path)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "done\n"), err
    assert python(READ) == "done\n"
    (tmp_path / "in_c.c").write_text(IN_C)
    run("cc", tmp_path / "in_c.c", *kit.flags("--cflags", "--libs"), "-o", tmp_path / "in_c")
    process = home.start(tmp_path / "in_c", cwd=tmp_path)
    assert process.communicate(timeout=60) == ("done\n", "")


TEXTS = """
import forebay as fb, numpy as np
with fb.open("texts", "r") as run:
    assert run.get("word") == "potential", run.get("word")
    assert run.get("list").tolist() == ["one", "", "three"]
    assert run.get("words").tolist() == [["north", "south"], ["east", "west"]]
with fb.open("back", "w") as run:
    run.put("word", "h\\u00e4user")
    run.put("list", np.array(["a", "bcd"]))
"""
IN_FORTRAN = """program texts
  use check
  implicit none
  type(fb_run) :: run
  character(len=:), allocatable :: word
  character(len=6) :: list(2)
  integer :: n
  call get_command_argument(1, length=n)
  if (n == 3) then
    call fb_run_open('texts', 'w', run)
    call fb_put(run, 'word', 'potential')
    call fb_put(run, 'list', [character(len=7) :: 'one', '', 'three'])
    call fb_put(run, 'words', reshape(['north', 'east ', 'south', 'west '], [2, 2]))
  else
    call fb_run_open('back', 'r', run)
    call fb_get_alloc(run, 'word', word)
    call expect(len(word) == 7, 'bytes of UTF-8')
    call fb_get(run, 'list', list)
    call expect(list(1) == 'a' .and. list(2) == 'bcd', 'texts of Python')
  end if
  call fb_run_close(run)
  call finish()
end program texts
"""


def test_texts_are_the_same_in_fortran_and_python(fortran: Fortran, home: Home, tmp_path: Path) -> None:
    source = tmp_path / "texts.f90"
    source.write_text(IN_FORTRAN)
    program = fortran.compile(source)
    for words in ([program, "put"], [sys.executable, "-c", TEXTS], [program, "look"]):
        process = home.start(*words, cwd=tmp_path)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
