"""Whether an interface file tells the truth: `forebay serve --check --call`."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Place
from libraries import BLAS, SOURCE, compiled


def test_an_extent_that_lies_is_named_by_the_check(place: Place, tmp_path: Path) -> None:
    compiled(tmp_path, SOURCE)
    (tmp_path / "f.fbi").write_text(
        'fbi 1\nset library "./libown.so"; set convention fortran; set symbol "%s_"\n'
        "last(m:i32, n:i32, inout a:f64[m,n] ld lda, lda, out y:f64[m-1])\n"
        "every(n:i32, inout x:f32[n] inc incx, incx)\n"
        "behind(n:i32, inout x:f64[n])\n"
        "before(n:i32, inout x:f64[n])\n"
        "never(n:i32, inout x:f64[n])\n"
        "works(n:i32, out x:f64[1], work w:f64[max(1,lwork)] query lwork, lwork, out info:i32)\n"
    )
    process = place.forebay("serve", "--check", "f.fbi", "--call", cwd=tmp_path)
    out, said = process.communicate(timeout=60)
    assert process.returncode == 1 and "f.fbi: 5 faults" in said
    lines = dict(line.split(": ", 1) for line in out.splitlines())
    assert "y: it touched byte 0 behind y:f64[m - 1]" in lines["last"]
    assert "x: it touched byte 0 behind x:f32[n]" in lines["every"]
    assert "behind x:f64[n]" in lines["behind"]
    assert "8 bytes before x:f64[n] changed" in lines["before"]
    assert "it has not returned after 10 s, called with n=1" in lines["never"]
    assert lines["works"].startswith("well")


def test_a_file_without_a_routine_is_not_found_to_be_well(place: Place, tmp_path: Path) -> None:
    compiled(tmp_path, SOURCE)
    (tmp_path / "f.fbi").write_text('fbi 1\nset library "./libown.so"\n# scale(n:i32)\n')
    for more in ((), ("--call",)):
        process = place.forebay("serve", "--check", "f.fbi", *more, cwd=tmp_path)
        out, said = process.communicate(timeout=60)
        assert process.returncode == 1 and "f.fbi has no routine, so there is nothing to check" in said, out


def test_the_interface_files_of_the_example_are_true_as_far_as_can_be_seen(
    place: Place, tmp_path: Path
) -> None:
    subprocess.run([sys.executable, BLAS / "make.py", tmp_path], check=True, timeout=60)
    for name in ("blas.fbi", "lapack.fbi"):
        assert (tmp_path / name).read_text() == (BLAS / name).read_text(), f"run  python {BLAS / 'make.py'}"
        out = place.command("serve", "--check", BLAS / name, "--call", timeout=100)
        assert out.endswith("nothing is wrong that could be seen\n")


HEAD = """\
*> \\param[in] N
*>          N is INTEGER
*> \\param[out] TAU
*>          TAU is DOUBLE PRECISION array, dimension (N)
*> \\param[out] WORK
*>          WORK is DOUBLE PRECISION array, dimension (MAX(1,LWORK))
*>          On exit, if INFO = 0, WORK(1) returns the optimal LWORK.
*> \\param[in] LWORK
*>          LWORK is INTEGER
*  Authors:
      SUBROUTINE {name}( N, TAU, WORK, LWORK )
      INTEGER            N, LWORK
      DOUBLE PRECISION   TAU( * ), WORK( * )
      END
"""


def test_a_line_of_lapack_is_derived_from_a_head_and_what_is_known_of_the_routine(tmp_path: Path) -> None:
    sources = tmp_path / "lapack-9.9" / "SRC"
    sources.mkdir(parents=True)
    for name in ("dgeqrf", "dtrsen", "dlaed4"):
        (sources / f"{name}.f").write_text(HEAD.format(name=name.upper()))
    for name in ("derive.py", "texts.py"):
        shutil.copy(BLAS / name, tmp_path)
    subprocess.run([sys.executable, tmp_path / "derive.py", sources.parent], check=True, timeout=60)
    made = (tmp_path / "lapack_all.fbi").read_text()
    # What is called output may be written in part.
    work = "work work:f64[max(1,lwork)] query lwork, lwork"
    assert f"dgeqrf(n:i32, inout tau:f64[n], {work}) cost" in made
    # It looks at its arrays even when it is asked.
    assert "dtrsen(n:i32, inout tau:f64[n], inout work:f64[max(1,lwork)], lwork:i32)\n" in made
    assert "# dlaed4: it does not look at its arguments" in made


@pytest.mark.skipif(os.environ.get("FOREBAY_LAPACK_TESTS") != "all", reason="takes minutes; make deep")
def test_no_other_line_of_all_of_lapack_is_wrong_than_those_that_are_listed(place: Place) -> None:
    words = ("--check", BLAS / "lapack_all.fbi", "--call")
    process = place.forebay("--json", "serve", *words)
    out, _ = process.communicate(timeout=1800)
    told = [line for line in map(json.loads, out.splitlines()) if "routine" in line]
    lines = (BLAS / "unchecked.txt").read_text().splitlines()
    listed = {name for line in lines if not line.startswith("#") for name in line.split()}
    assert len(told) == 1525
    assert {line["routine"] for line in told if line["faults"]} - listed == set()


LIARS = r"""
#include <complex.h>
#include <math.h>
#include <stdint.h>
void axpy_(const int32_t *n, const double *a, const double *x, double *y)
{
    for (int32_t i = 0; i < *n; i++) y[i] += *a * x[i];
}
void ramp_(const int32_t *n, double *x) { for (int32_t i = 0; i < *n; i++) x[i] = i; }
void single_(const int32_t *n, const float *x, float *y) { for (int32_t i = 0; i < *n; i++) y[i] = 2 * x[i]; }
void first_(const int32_t *m, const int32_t *n, const double *a, double *y)
{
    for (int32_t i = 0; i < *m; i++) y[i] = a[i] * *n;
}
double norm_(const int32_t *n, const double *x)
{
    double s = 0.25;
    for (int32_t i = 0; i < *n; i++) s += x[i] * x[i];
    return s;
}
float single_norm_(const int32_t *n, const float *x)
{
    float s = 0.25f;
    for (int32_t i = 0; i < *n; i++) s += x[i] * x[i];
    return s;
}
int32_t count_(const int32_t *n, const double *x)
{
    int32_t s = 0;
    for (int32_t i = 0; i < *n; i++) s += x[i] > 1;
    return s;
}
double half(double x) { return x / 2; }
int32_t five(void) { return 5; }
int64_t many(void) { return INT64_C(5000000000); }
void bumps_(int32_t *n, double *x) { x[0] = *n; *n += 1; }
void scale_(const double *a, double *x) { *x *= *a; }
int32_t next(void) { static int32_t at; return at++; }
void long_(const int64_t *n, double *x) { *x = *n; }
"""
# A line, and what the check says of it; nothing: it is well.
CHECKED = [
    ("axpy(n:i32, a:f64, in x:f64[n], inout y:f64[n])", ""),
    (
        "axpy(n:i32, a:f64, in x:f64[n], in y:f64[n])",
        "y: the routine has changed y:f64[n], which only goes in; write inout",
    ),
    (
        "axpy(n:i32, a:f64, in x:f64[n], out y:f64[n])",
        "y: results depend on what y:f64[n] held before, so it goes in, too; write inout",
    ),
    ("axpy(n:i32, a:f64, out x:f64[n], inout y:f64[n])", "x: results depend on what x:f64[n] held before"),
    ("axpy(n:i32, a:f64, inout x:f64[n], inout y:f64[n])", "doubt: x: x:f64[n] was never changed; is it in?"),
    ("axpy(n:i32, a:f32, in x:f64[n], inout y:f64[n])", "a: it touched byte 0 behind a:f32"),
    ("long(n:i32, out x:f64)", "n: it touched byte 0 behind n:i32"),
    ("ramp(n:i32, out x:f64[n])", ""),
    ("ramp(n:i32, inout x:f64[n])", ""),
    ("ramp(n:i32, out x:f64[n+2])", "doubt: x: the last 16 of 72 bytes of x:f64[n + 2] were never written"),
    ("single(n:i32, in x:f32[n], out y:f32[n])", ""),
    (
        "single(n:i32, in x:f32[n], out y:f64[n])",
        "doubt: y: the last 28 of 56 bytes of y:f64[n] were never written; is it f32, or is the extent smaller?",
    ),
    (
        "single(n:i32, in x:f64[n], out y:f32[n])",
        "doubt: x: the last 28 of 56 bytes of x:f64[n] made no difference in any call; is it f32",
    ),
    ("first(m:i32, n:i32, in a:f64[m], out y:f64[m])", ""),
    (
        "first(m:i32, n:i32, in a:f64[m,n], out y:f64[m])",
        "doubt: a: the last 336 of 392 bytes of a:f64[m, n] made no difference in any call",
    ),
    ("first(m:i32, n:i32, in a:f64[n], out y:f64[m])", "a: it touched byte 0 behind a:f64[n]"),
    ("norm(n:i32, in x:f64[max(0,n-1)]) -> f64", "x: it touched byte 0 behind x:f64[max(0, n - 1)]"),
    ("first(m:i32, n:i32, in a:f64[m], out y:f64[n])", "y: it touched byte 0 behind y:f64[n]"),
    ("norm(n:i32, in x:f64[n]) -> f64", ""),
    ("norm(n:i32, in x:f64[n])", "doubt: nothing comes back of it; does it return something?"),
    ("norm(n:i32, in x:f64[n]) -> f32", "doubt: result: what is returned does not look like f32; is it f64?"),
    ("single_norm(n:i32, in x:f32[n]) -> f32", ""),
    (
        "single_norm(n:i32, in x:f32[n]) -> f64",
        "doubt: result: what is returned does not look like f64; is it f32?",
    ),
    ("count(n:i32, in x:f64[n]) -> i32", ""),
    ("half(x:f64) -> f64 convention c symbol 'half'", ""),
    (
        "half(x:f64) -> i32 convention c symbol 'half'",
        "result: no integer is returned; does it return a real number",
    ),
    ("five() -> i32 convention c symbol 'five'", ""),
    (
        "five() -> f64 convention c symbol 'five'",
        "result: no real number is returned; does it return an integer",
    ),
    ("many() -> i64 convention c symbol 'many'", ""),
    (
        "many() -> i32 convention c symbol 'many'",
        "doubt: result: what is returned does not look like i32; is it i64?",
    ),
    ("bumps(n:i32, out x:f64)", "n: the routine has changed n:i32, which only goes in; write inout"),
    ("bumps(inout n:i32, out x:f64)", ""),
    ("scale(a:f64, inout x:f64)", ""),
    ("scale(a:f64, out x:f64)", "x: results depend on what x:f64 held before"),
    (
        "next() -> i32 convention c symbol 'next'",
        "doubt: the same arguments give other results in the next call",
    ),
]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="registers are known on x86-64")
def test_a_line_that_lies_of_types_ways_and_extents_is_named_and_a_true_one_is_well(
    place: Place, tmp_path: Path
) -> None:
    compiled(tmp_path, LIARS)
    head = 'fbi 1\nset library "./libown.so"; set convention fortran; set symbol "%s_"\n'

    def checked(line: str) -> str:
        (tmp_path / "f.fbi").write_text(head + line + "\n")
        process = place.forebay("serve", "--check", "f.fbi", "--call", cwd=tmp_path)
        out, said = process.communicate(timeout=60)
        assert process.returncode == (1 if " fault" in said else 0), out + said
        return out + said

    for line, says in CHECKED:
        out = checked(line)
        name = line.partition("(")[0]
        if not says:
            assert out.startswith(f"{name}: well"), f"{line}\n{out}"
            assert out.endswith("nothing is wrong that could be seen\n"), out
            continue
        assert f"{name}: {says}" in out, f"{line}\n{out}"
        ends = (
            "nothing is proven wrong; a doubt stands above\n"
            if "doubt" in says
            else "f.fbi: 1 fault; see above\n"
        )
        assert out.endswith(ends), out


REST = r"""
#include <stdint.h>
int32_t rest(int32_t n, int32_t m, const double *x, double *y, double *norm)
{
    if (n < 1) return 2;
    *norm = 0;
    for (int32_t i = 0; i < n; i++) *norm += x[i] * x[i];
    if (m < n) return 0;
    for (int32_t i = 0; i < m; i++) y[i] = *norm + i;
    return 0;
}
"""


def test_a_result_that_some_calls_leave_alone_is_named_by_the_check(place: Place, tmp_path: Path) -> None:
    compiled(tmp_path, REST, "rest")
    head = 'fbi 1\nset library "./librest.so"; set convention c\n'
    for y, norm, doubts in (("out", "out", {"y", "norm"}), ("inout", "inout", set())):
        line = f"rest(n:i32, m:i32, in x:f64[n], {y} y:f64[m], {norm} norm:f64) -> i32 status\n"
        (tmp_path / "f.fbi").write_text(head + line)
        process = place.forebay("serve", "--check", "f.fbi", "--call", cwd=tmp_path)
        out, said = process.communicate(timeout=60)
        told = {
            line.split("doubt: ")[1].split(":")[0] for line in out.splitlines() if "is left as it is" in line
        }
        assert process.returncode == 0 and told == doubts, (out, said)
        if doubts:
            assert (
                "norm:f64 is left as it is by some calls, and callers get 0 then; if what they held counts"
                in out
            )
            assert "called with n=0 m=0" in out
