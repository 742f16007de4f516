"""Compiled libraries as services: `forebay serve LIB --idl FILE`."""

from __future__ import annotations

import ctypes
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from conftest import ROOT, Place, until
from places import forebay_exe

BLAS = ROOT / "examples" / "02_blas"

SOURCE = r"""
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
void bye(void) { exit(0); }
void crash(void) { *(volatile int *)8 = 1; }
void hang(void) { for (;;) pause(); }
double twice(double x) { return 2 * x; }
float half_(const float *x) { return *x / 2; }
int32_t sum(const char *text, int64_t n, const float *x, float *total)
{
    *total = 0;
    for (int64_t i = 0; i < n; i++) *total += x[i];
    return text[0];
}
/* The last column of a matrix that lies column by column with its own leading dimension. */
void last_(const int32_t *m, const int32_t *n, double *a, const int32_t *lda, double *y)
{
    for (int32_t i = 0; i < *m; i++) y[i] = a[i + (int64_t)(*n - 1) * *lda], a[i] = -1;
}
/* Adds 1 to every element of an increment, and to nothing between. */
void every_(const int32_t *n, double *x, const int32_t *incx)
{
    for (int32_t i = 0; i < *n; i++) x[(int64_t)i * abs(*incx)] += 1;
}
void behind_(const int32_t *n, double *x) { x[*n] = 1; }
void before_(const int32_t *n, double *x) { x[-1] = *n; }
void never_(const int32_t *n, double *x) { for (volatile int i = 0; *n; i = 0) x[0] = i; }
/* Has the smallest numbers of its thread counted as zero, and tells what half of one is. */
double flushes(double x)
{
#ifdef __x86_64__
    unsigned mode = __builtin_ia32_stmxcsr();
    volatile double half = x / 2;
    __builtin_ia32_ldmxcsr(mode | 0x8040);
    return half;
#else
    return x / 2;
#endif
}
/* A routine that tells how much work space is best. */
void works_(const int32_t *n, double *x, double *work, const int32_t *lwork, int32_t *info)
{
    *info = *lwork;
    if (*lwork == -1) { work[0] = 3.0 * *n; return; }
    for (int32_t i = 0; i < *lwork; i++) work[i] = i;
    x[0] = work[*lwork - 1];
}
"""

LINES = """fbi 1
set library "./libown.so"
set convention c
bye()
crash()
hang()
twice(x:f64) -> f64
flushes(x:f64) -> f64
sum(text:str, n:i64, in x:f32[n], out total:f32) -> i32 where n < 100 "n is less than 100"
set convention fortran; set symbol "%s_"
half(x:f32) -> f32
last(m:i32, n:i32, inout a:f64[m,n] ld lda, lda, out y:f64[m])
every(n:i32, inout x:f64[n] inc incx, incx)
works(n:i32, inout x:f64[n], work w:f64[max(1,lwork)] query lwork, lwork, out info:i32)
huge(n:i64, m:i64, in x:f64[n*m]) symbol "half_"
wide(n:i64, k:i32 = 2*n) symbol "half_"
kind(c:char one of "NT") symbol "half_"
"""


@dataclass
class Served:
    """A library that is served, and who calls it."""

    place: Place
    folder: Path
    process: subprocess.Popen[str]
    client: fb.Client


def compiled(folder: Path, source: str, name: str = "own") -> Path:
    """A library of C."""
    (folder / f"{name}.c").write_text(source)
    made = folder / f"lib{name}.so"
    subprocess.run(
        ["cc", "-O1", "-shared", "-fPIC", folder / f"{name}.c", "-o", made], check=True, timeout=60
    )
    return made


def client_at(place: Place, monkeypatch: pytest.MonkeyPatch) -> fb.Client:
    """A client of that place, which waits for servers that begin."""
    for name, value in place.variables.items():
        monkeypatch.setenv(name, value)
    return fb.connect(wait=20)


@pytest.fixture
def own(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A library of C's own, served."""
    compiled(tmp_path, SOURCE)
    (tmp_path / "own.fbi").write_text(LINES)
    process = place.forebay("serve", "--idl", "own.fbi", cwd=tmp_path)
    client = client_at(place, monkeypatch)
    yield Served(place, tmp_path, process, client)
    if process.poll() is None:
        process.terminate()
        assert process.wait(20) == 0


@pytest.fixture
def blas(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[fb.Client]:
    """BLAS and LAPACK, served by two servers."""
    processes = [place.forebay("serve", "--idl", BLAS / f"{name}.fbi") for name in ("blas", "lapack")]
    client = client_at(place, monkeypatch)
    yield client
    for process in processes:
        process.terminate()
        assert process.wait(20) == 0


@pytest.fixture(scope="session")
def local() -> Callable[..., float]:
    """The same library in this process: calls a symbol with everything by address."""
    library = ctypes.CDLL("libopenblas.so.0")
    library.openblas_set_num_threads(1)

    def call(symbol: str, *args: object, lengths: int = 0) -> float:
        kept = []
        for arg in args:
            if isinstance(arg, np.ndarray):
                kept.append(ctypes.c_void_p(arg.ctypes.data))
            elif isinstance(arg, str):
                kept.append(ctypes.byref(ctypes.c_char(arg.encode())))
            elif isinstance(arg, float):
                kept.append(ctypes.byref(ctypes.c_double(arg)))
            else:
                kept.append(ctypes.byref(ctypes.c_int(arg)))
        function = getattr(library, symbol)
        function.restype = ctypes.c_double
        return function(*kept, *([ctypes.c_size_t(1)] * lengths))

    return call


def test_results_are_those_of_the_same_library_to_the_bit(
    blas: fb.Client, local: Callable[..., float]
) -> None:
    draw = np.random.default_rng(5)

    def matrix(m: int, n: int) -> np.ndarray:
        return np.asfortranarray(draw.standard_normal((m, n)))

    for n in (1, 2, 3, 7, 16, 61, 200):
        m, k = n + 2, n + 1
        for first, second in ("NN", "TN", "NT", "TT"):
            a = matrix(m, k) if first == "N" else matrix(k, m)
            b = matrix(k, n) if second == "N" else matrix(n, k)
            here, there = np.full((m, n), 0.5, order="F"), np.full((m, n), 0.5, order="F")
            blas.call("dgemm", first, second, m, n, k, 1.5, a, b, -0.5, there)
            lds = a.shape[0], b.shape[0]
            local("dgemm_", first, second, m, n, k, 1.5, a, lds[0], b, lds[1], -0.5, here, m, lengths=2)
            assert here.tobytes() == there.tobytes(), (n, first, second)
        x, y = draw.standard_normal(3 * n), draw.standard_normal(2 * n)
        assert blas.call("ddot", n, x[:n], y[:n]) == local("ddot_", n, x, 1, y, 1)
        for incx, incy in ((3, 2), (-3, 1), (1, -2)):
            ours = blas.call("native/ddot", n, x[:: abs(incx)][:n], incx, y[:: abs(incy)][:n], incy)
            assert ours == local("ddot_", n, x, incx, y, incy), (n, incx, incy)
        a, b = matrix(n, n), matrix(n, 2)
        here_a, here_b, here_p = a.copy("F"), b.copy("F"), np.zeros(n, np.int32)
        there_p = np.zeros(n, np.int32)
        assert blas.call("dgesv", n, 2, a, there_p, b) == 0
        local("dgesv_", n, 2, here_a, n, here_p, here_b, n, np.zeros(1, np.int32))
        assert (a.tobytes(), b.tobytes(), there_p.tobytes()) == (
            here_a.tobytes(),
            here_b.tobytes(),
            here_p.tobytes(),
        )
        a = matrix(n, n)
        here, w, there_w = a.copy("F"), np.zeros(n), np.zeros(n)
        assert blas.call("dsyev", "V", "L", n, a, there_w) == 0
        work, info = np.zeros(200 * n), np.zeros(1, np.int32)
        best = np.zeros(1)
        local("dsyev_", "V", "L", n, here, n, w, best, -1, info, lengths=2)
        local("dsyev_", "V", "L", n, here, n, w, work, int(best[0]), info, lengths=2)
        assert (here.tobytes(), w.tobytes()) == (a.tobytes(), there_w.tobytes())


def test_complex_results_and_factors_of_singular_matrices_come_back(blas: fb.Client) -> None:
    z = np.arange(5) + 1j * np.arange(5)[::-1]
    assert blas.call("zdotu", 5, z, z) == (z * z).sum()
    assert blas.call("zdotc", 5, z, z) == (z.conj() * z).sum()
    assert blas.call("scnrm2", 5, z.astype(np.complex64)) == pytest.approx(np.linalg.norm(z))
    a, pivots = np.array([[1.0, 2.0], [2.0, 4.0]], order="F"), np.zeros(2, np.int32)
    with pytest.raises(fb.RemoteError, match="dgesv: its status info is 2") as raised:
        blas.call("dgesv", 2, 1, a, pivots, np.ones((2, 1), order="F"))
    assert raised.value.info == raised.value.results == 2
    assert a.tolist() == [[2.0, 4.0], [0.5, 0.0]] and pivots.tolist() == [2, 2]
    u, s, vt = np.zeros((3, 2), order="F"), np.zeros(2), np.zeros((2, 2), order="F")
    m = np.asfortranarray(np.random.default_rng(2).random((3, 2)))
    kept = m.copy()
    assert blas.call("dgesvd", "S", "S", 3, 2, m, s, u, vt) == 0
    assert np.allclose(u @ np.diag(s) @ vt, kept)


def test_what_a_library_tells_of_a_wrong_argument_comes_home(blas: fb.Client) -> None:
    a, c = np.ones((3, 4), order="F"), np.zeros((3, 3), order="F")
    b = np.ones((4, 3), order="F")
    with pytest.raises(fb.RemoteError, match=r"dgemm: transa is 'X'; give one of 'N', 'n'"):
        blas.call("dgemm", "X", "N", 3, 3, 4, 1.0, a, b, 0.0, c)
    native = "native/dgemm"
    assert blas.call(native, ord("X"), ord("N"), 3, 3, 4, 1.0, b, 4, b, 4, 0.0, c, 3) == (1, b"DGEMM")
    empty = np.zeros((0, 4), order="F")
    assert blas.call(native, ord("N"), ord("N"), 3, 3, 4, 1.0, empty, 2, b, 4, 0.0, c, 3) == (8, b"DGEMM")
    assert blas.call(native, ord("N"), ord("N"), 3, 3, 4, 1.0, a, 3, b, 4, 0.0, c, 3) == (0, b"")
    assert (c == 4).all()
    nothing = np.zeros((0, 0), order="F")
    assert blas.call(
        native,
        ord("N"),
        ord("N"),
        -1,
        3,
        4,
        1.0,
        np.zeros((0, 4), order="F"),
        3,
        b,
        4,
        0.0,
        np.zeros((0, 3), order="F"),
        3,
    ) == (3, b"DGEMM")
    assert blas.call("native/dsyev", ord("N"), ord("U"), 0, nothing, 1, np.zeros(0), -1)[1:] == (0, 0, b"")


def test_arguments_arrive_as_the_line_says(own: Served) -> None:
    call = own.client.call
    assert call("twice", 2.5) == 5 and call("half", 3.0) == 1.5
    assert [call("flushes", 5e-324 * 4) for _ in range(2)] == [1e-323, 1e-323]
    assert call("sum", "Abc", 3, np.array([1, 2, 4], np.float32)) == (7.0, ord("A"))
    a, y = np.asfortranarray(np.arange(12.0).reshape(3, 4)), np.zeros(3)
    call("last", 3, 4, a, y)
    assert y.tolist() == [3, 7, 11] and (a[:, 0] == -1).all()
    wide = np.arange(40.0).reshape(8, 5)
    call("last", 3, 4, wide[1:4, :4], y)
    assert y.tolist() == [8, 13, 18] and wide[0, 0] == 0 and wide[1, 0] == -1 and wide[4, 0] == 20
    x = np.zeros(10)
    call("native/every", 4, x[::3][:4], 3)
    assert x.tolist() == [1, 0, 0, 1, 0, 0, 1, 0, 0, 1]
    call("every", 3, x[:3])
    assert x[:3].tolist() == [2, 1, 1]
    x = np.zeros(4)
    assert call("works", 4, x) == 12 and x[0] == 11
    assert call("native/works", 4, x, -1) == (12.0, -1)
    assert call("native/works", 4, x, 2) == (0.0, 2) and x[0] == 1


def test_arguments_that_cannot_be_are_refused_before_the_library_is_touched(own: Served) -> None:
    x = np.zeros(3, np.float32)
    for words, said in [
        (("sum", "a", 100, np.zeros(100, np.float32)), "it does not hold that n is less than 100"),
        (
            ("native/sum", b"a", 4, x),
            r"x:f32\[n\] has the shape \(4,\) by the other arguments, and f32\(3,\) came",
        ),
        (("native/huge", 2**40, 2**40, np.zeros(0)), "n.m of x has more than 64 bits"),
        (("native/huge", 2**20, 2**20, np.zeros(0)), r"would have more than 2\^40 bytes"),
        (("wide", 2**31), "k would be 4294967296, which is beyond what i32 holds"),
        (("kind", "X"), "c is 'X'; give one of 'N', 'T'"),
        (("kind", ""), "c is an empty text; give one character"),
    ]:
        with pytest.raises(fb.RemoteError, match=said):
            own.client.call(*words)
    with pytest.raises(fb.BadArgument, match="n is 4 by n"):
        own.client.call("sum", "a", 4, x)
    assert own.client.call("twice", 1.0) == 2


def test_who_calls_a_routine_that_crashes_hears_how_and_the_rest_serves_on(own: Served) -> None:
    hasty = fb.connect()
    for _ in range(3):
        assert own.client.call("twice", 1.0) == 2
        with pytest.raises(fb.ServerLost, match=r"Its process died: SIGSEGV in crash"):
            hasty.call("crash")
    assert own.client.call("twice", 1.0) == 2
    for name in ("crash", "native/crash"):
        says = rf'"{name}" is offered no more.*SIGSEGV in crash.*start the server anew'
        with pytest.raises(fb.NoServer, match=says):
            hasty.call(name)
    own.process.terminate()
    _, said = own.process.communicate(timeout=20)
    assert said.count("is started again") == 3
    assert "crash ran in 3 deaths and is withdrawn; the rest serves on" in said


def test_a_routine_that_ends_its_process_is_told_as_what_it_is(own: Served) -> None:
    hasty = fb.connect()
    for _ in range(3):
        assert own.client.call("twice", 1.0) == 2
        with pytest.raises(fb.ServerLost, match=r"Its process died: exit\(0\) in bye"):
            hasty.call("bye")
    assert own.client.call("twice", 1.0) == 2
    with pytest.raises(fb.NoServer, match=r"exit\(0\) in bye"):
        hasty.call("bye")
    checked = own.place.forebay("serve", "--check", "own.fbi", "--call", "bye", cwd=own.folder)
    out, _ = checked.communicate(timeout=30)
    assert "bye: it ends its process by exit(0), which would end the server; leave it out" in out


def test_a_server_whose_program_was_installed_anew_starts_its_library_again(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled(tmp_path, SOURCE)
    (tmp_path / "own.fbi").write_text(LINES)
    command = tmp_path / "forebay"
    shutil.copy(str(forebay_exe()), command)
    process = place.start(command, "serve", "--idl", "own.fbi", cwd=tmp_path)
    client = client_at(place, monkeypatch)
    assert client.call("twice", 1.0) == 2
    command.unlink()
    with pytest.raises(fb.ServerLost):
        fb.connect().call("crash")
    assert client.call("twice", 1.0) == 2
    process.terminate()
    assert process.wait(20) == 0


STATE = r"""
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
static double common;
static int busy;
/* As a routine with COMMON: what it computes with lies in memory that all calls of a process share. */
int32_t keeps(double x, double *y)
{
    if (busy++) abort();
    common = x;
    usleep(20000);
    *y = common;
    busy--;
    return getpid();
}
void crash(void) { abort(); }
"""


def test_a_library_with_a_state_has_a_process_for_each_worker(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled(tmp_path, STATE)
    (tmp_path / "own.fbi").write_text(
        'fbi 1\nset library "./libown.so"; set convention c; set threads process\n'
        "keeps(x:f64, out y:f64) -> i32\ncrash() effects\n"
    )
    process = place.forebay("serve", "--idl", "own.fbi", "--workers", "3", cwd=tmp_path)
    client = client_at(place, monkeypatch)

    def called() -> set[int]:
        futures = [client.call_async("keeps", float(i)) for i in range(12)]
        results = [future.wait() for future in futures]
        assert [y for y, _ in results] == list(range(12))
        return {pid for _, pid in results}

    until(lambda: len(called()) == 3, 20, "three processes that work")
    before = called()
    with pytest.raises(fb.ServerLost, match="SIGABRT in crash"):
        fb.connect().call("crash")
    until(lambda: len(called()) == 3, 20, "three processes again")
    assert len(before & called()) == 2
    process.terminate()
    assert process.wait(20) == 0
    assert not [line for line in place.processes() if "--child-of" in line]


def test_a_routine_that_hangs_ends_with_its_supervisor_however_that_ends(own: Served) -> None:
    assert own.client.call("twice", 1.0) == 2
    future = own.client.call_async("hang")
    own.process.kill()
    own.process.wait(20)

    def children() -> list[str]:
        return [line for line in own.place.processes() if "--child-of" in line]

    until(lambda: not children(), 20, "the end of the library's process")
    with pytest.raises(fb.ServerLost):
        future.wait(20)


def test_a_library_that_is_not_there_or_lacks_a_symbol_is_named(place: Place, tmp_path: Path) -> None:
    def refused(text: str, *words: str) -> str:
        (tmp_path / "f.fbi").write_text(text)
        process = place.forebay("serve", *words, "f.fbi", cwd=tmp_path)
        _, said = process.communicate(timeout=30)
        assert process.returncode == 1, said
        return said

    compiled(tmp_path, SOURCE)
    head = 'fbi 1\nset library "./libown.so"\nset convention c\n'
    assert "cannot load ./libnone.so" in refused(head.replace("own", "none"), "--idl")
    assert "which library? f.fbi names none" in refused("fbi 1\n", "--idl")
    assert "./libown.so has not 1 symbol that the interface file names: twicc (line 4)" in refused(
        head + "twicc(x:f64) -> f64\n", "--idl"
    )
    assert 'f.fbi:4:14: "m" is used by x but is no argument; add m:i32' in refused(
        head + "twice(x:f64[m])", "--idl"
    ).replace("x is an array", "") or "has no direction" in refused(head + "twice(x:f64[m])", "--idl")
    (tmp_path / "f.fbi").write_text(head + "twicc(x:f64) -> f64\n")
    process = place.forebay("serve", "--check", "f.fbi", cwd=tmp_path, text=True)
    out, said = process.communicate(timeout=30)
    assert out == "line 4: ./libown.so has no twicc; it has twice\n"
    said = refused(head.replace("own", "none") + "twice(x:f64) -> f64\n", "--check")
    assert said.startswith("forebay: cannot load ./libnone.so: ") and said.count("\n") == 1


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


def test_the_interface_files_of_the_example_are_true_as_far_as_can_be_seen(
    place: Place, tmp_path: Path
) -> None:
    subprocess.run([sys.executable, BLAS / "make.py", tmp_path], check=True, timeout=60)
    for name in ("blas.fbi", "lapack.fbi"):
        assert (tmp_path / name).read_text() == (BLAS / name).read_text(), f"run  python {BLAS / 'make.py'}"
        out = place.command("serve", "--check", BLAS / name, "--call", timeout=100)
        assert out.endswith("nothing is wrong that could be seen\n")


def test_transforms_are_those_of_the_same_library_to_the_bit(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = place.forebay("serve", "--idl", BLAS / "fftw.fbi", "--workers", "2")
    client = client_at(place, monkeypatch)
    library = ctypes.CDLL("libfftw3.so.3")
    draw = np.random.default_rng(7)

    def aligned(shape: tuple[int, ...], dtype: type) -> np.ndarray:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        raw = np.zeros(size + 64, np.uint8)
        start = -raw.ctypes.data % 64
        return raw[start : start + size].view(dtype).reshape(shape)

    def local(
        maker: str, runner: str, sizes: tuple[int, ...], x: np.ndarray, y: np.ndarray, *flags: int
    ) -> None:
        make, free = getattr(library, maker), library.fftw_destroy_plan
        make.restype = ctypes.c_void_p
        pointers = ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data)
        plan = ctypes.c_void_p(make(*sizes, *pointers, *flags))
        getattr(library, runner)(plan, *pointers)
        free(plan)

    cases = [("dft_1d", (n,), -1) for n in (1, 2, 7, 64, 1000, 4096)]
    cases += [("dft_1d_back", (n,), 1) for n in (7, 1000)]
    cases += [("dft_2d", (12, 35), -1), ("dft_2d_back", (12, 35), 1)]
    for name, shape, sign in cases:
        x, here, there = (
            aligned(shape, np.complex128),
            aligned(shape, np.complex128),
            np.zeros(shape, np.complex128),
        )
        x[...] = draw.standard_normal(shape) + 1j * draw.standard_normal(shape)
        maker = f"fftw_plan_{name.removesuffix('_back')}"
        local(maker, "fftw_execute_dft", shape, x, here, sign, 64)
        for given in (x, np.concatenate([x[:1], x])[1:]):
            for _ in range(3):
                client.call(name, *shape, given, there)
                assert here.tobytes() == there.tobytes(), (name, shape)
    for n in (1, 6, 7, 1000):
        x, half = aligned((n,), np.float64), aligned((n // 2 + 1,), np.complex128)
        x[...] = draw.standard_normal(n)
        there = np.zeros(n // 2 + 1, np.complex128)
        local("fftw_plan_dft_r2c_1d", "fftw_execute_dft_r2c", (n,), x, half, 80)
        client.call("dft_r2c_1d", n, x, there)
        assert half.tobytes() == there.tobytes()
        back, home = aligned((n,), np.float64), np.zeros(n)
        local("fftw_plan_dft_c2r_1d", "fftw_execute_dft_c2r", (n,), half, back, 80)
        client.call("dft_c2r_1d", n, there, home)
        assert home.tobytes() == back.tobytes() and np.allclose(home / n, x)
        assert half.tobytes() == there.tobytes()
    with pytest.raises(fb.RemoteError, match="it does not hold that n is positive"):
        client.call("dft_1d", 0, np.zeros(0, np.complex128), np.zeros(0, np.complex128))
    process.terminate()
    assert process.wait(20) == 0
    out = place.command("serve", "--check", BLAS / "fftw.fbi", "--call", timeout=100)
    assert out.endswith("nothing is wrong that could be seen\n")


PLANS = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
static int made, freed;
/* A plan that lets nobody else make one meanwhile, and tries itself out on the arrays. */
typedef struct { int32_t n; } plan;
static int busy;
plan *make(int32_t n, double *x, int32_t flags)
{
    if (n > 100) return NULL;
    if (__sync_fetch_and_add(&busy, 1)) abort();
    for (int32_t i = 0; i < n; i++) x[i] = flags;
    plan *p = malloc(sizeof *p);
    p->n = n;
    made++;
    __sync_fetch_and_sub(&busy, 1);
    return p;
}
void drop(plan *p)
{
    if (__sync_fetch_and_add(&busy, 1)) abort();
    p->n = -1;
    freed++;
    fprintf(stderr, "made %d freed %d\n", made, freed);
    __sync_fetch_and_sub(&busy, 1);
}
void run(const plan *p, double *x)
{
    if (p->n < 0) abort();
    for (int32_t i = 0; i < p->n; i++) x[i] += 1;
}
int32_t plans(void) { return 10000 * made + freed; }
"""


def test_a_plan_is_made_once_for_each_size_and_freed_when_it_is_thrown_out_and_at_the_end(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled(tmp_path, PLANS)
    (tmp_path / "own.fbi").write_text(
        'fbi 1\nset library "./libown.so"; set convention c; set threads safe\n'
        "chain bump(n:i32, inout x:f64[n]) plan p = make(n, x, const 9) keep 2 free drop(p) call run(p, x)\n"
        "plans() -> i32\n"
    )
    process = place.forebay("serve", "--idl", "own.fbi", "--workers", "4", cwd=tmp_path)
    client = client_at(place, monkeypatch)
    x = np.zeros(5)
    for _ in range(10):
        client.call("bump", 5, x)
        client.call("bump", 3, x[:3])
    assert x.tolist() == [20, 20, 20, 10, 10] and client.call("plans") == 20000
    client.call("bump", 4, x[:4])
    assert client.call("plans") == 30001
    client.call("bump", 3, x[:3])
    assert client.call("plans") == 30001
    futures = [client.call_async("bump", n, np.zeros(n)) for n in [7, 8, 9, 10] * 50]
    for future in futures:
        future.wait()
    made, freed = divmod(client.call("plans"), 10000)
    assert made - freed == 2
    with pytest.raises(fb.RemoteError, match="bump: make makes no plan of these arguments; change them"):
        client.call("bump", 101, np.zeros(101))
    process.terminate()
    _, said = process.communicate(timeout=20)
    assert process.returncode == 0 and f"made {made} freed {made}" in said


# Types as a file names them, as C does, and as NumPy does.
NUMBERS = {
    "i8": ("int8_t", np.int8),
    "i16": ("int16_t", np.int16),
    "i32": ("int32_t", np.int32),
    "i64": ("int64_t", np.int64),
    "u8": ("uint8_t", np.uint8),
    "u32": ("uint32_t", np.uint32),
    "u64": ("uint64_t", np.uint64),
    "f32": ("float", np.float32),
    "f64": ("double", np.float64),
    "c64": ("float _Complex", np.complex64),
    "c128": ("double _Complex", np.complex128),
}
HASH = """#include <stddef.h>
#include <stdint.h>
#include <complex.h>
static uint64_t add(uint64_t h, const void *from, size_t n)
{
    const unsigned char *p = from;
    for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 1099511628211u;
    return h;
}
"""


def hashed(h: int, data: bytes) -> int:
    """The hash of the library above."""
    for byte in data:
        h = (h ^ byte) * 1099511628211 % 2**64
    return h


class RandomRoutine:
    """A routine with arguments by chance that hashes all it is given; its line, its C, a call and what that must give."""

    def __init__(self, dice: random.Random, name: str) -> None:
        self.fortran = dice.random() < 0.6
        self.by_next = self.fortran and dice.random() < 0.5
        args, params, body, lengths = [], [], [], []
        self.given: list[object] = []
        self.hash = 7
        n = dice.randrange(0, 6)
        args.append("n:i32")
        params.append("const int32_t *n_" if self.fortran else "int32_t n")
        body.append("int32_t n = *n_;" if self.fortran else "")
        self.given.append(n)
        for i in range(dice.randrange(1, 12)):
            kind = dice.choice(["number", "number", "value", "array", "char", "const", "null", "inout"])
            dtype = dice.choice(list(NUMBERS))
            ctype, numpy = NUMBERS[dtype]
            a = f"a{i}"
            raw = numpy(dice.randrange(0, 100))
            if kind in ("number", "value"):
                by_value = kind == "value" or not self.fortran
                args.append(f"{a}:{dtype}" + (" by value" if kind == "value" else ""))
                params.append(f"{ctype} {a}" if by_value else f"const {ctype} *{a}")
                body.append(f"h = add(h, {'&' if by_value else ''}{a}, sizeof({ctype}));")
                self.given.append(raw.item())
                self.hash = hashed(self.hash, raw.tobytes())
            elif kind == "array" or kind == "inout":
                way = "in" if kind == "array" else "inout"
                data = np.array([dice.randrange(0, 100) for _ in range(2 * n)]).astype(numpy)
                args.append(f"{way} {a}:{dtype}[2*n]")
                params.append(f"{'const ' if way == 'in' else ''}{ctype} *{a}")
                body.append(f"h = add(h, {a}, 2 * n * sizeof({ctype}));")
                if way == "inout":
                    body.append(f"for (int i = 0; i < 2 * n; i++) {a}[i] = {a}[i] + 1;")
                self.given.append(data)
                self.hash = hashed(self.hash, data.tobytes())
            elif kind == "char":
                letter = dice.choice("NTU")
                args.append(f"{a}:char")
                params.append(f"const char *{a}" if self.fortran else f"char {a}")
                body.append(f"h = add(h, {'' if self.fortran else '&'}{a}, 1);")
                self.given.append(letter)
                self.hash = hashed(self.hash, letter.encode())
                if self.fortran:
                    body.append(f"h = add(h, &len_{a}, sizeof len_{a});")
                    self.hash = hashed(self.hash, (1).to_bytes(8, "little"))
                    (params if self.by_next else lengths).append(f"size_t len_{a}")
            elif kind == "const":
                args.append(f"const {a}:i64 = {i + 1000}")
                params.append(f"const int64_t *{a}" if self.fortran else f"int64_t {a}")
                body.append(f"h = add(h, {'' if self.fortran else '&'}{a}, 8);")
                self.hash = hashed(self.hash, (i + 1000).to_bytes(8, "little"))
            else:
                args.append("null")
                params.append(f"void *{a}")
                body.append(f"h = add(h, &{a}, sizeof {a});")
                self.hash = hashed(self.hash, bytes(8))
        args.append("out hash:u64")
        params.append("uint64_t *hash")
        result = dice.choice([None, *NUMBERS])
        ctype, numpy = NUMBERS[result] if result else ("void", np.int8)
        self.returned = numpy(7).item() if result else None
        end = "return 7;" if result else ""
        symbol = f"{name}_" if self.fortran else name
        self.source = f"{ctype} {symbol}({', '.join(params + lengths)})\n{{ uint64_t h = 7; {' '.join(body)} *hash = h; {end} }}\n"
        convention = "fortran" if self.fortran else "c"
        hidden = "next" if self.by_next else "end"
        self.line = (
            f"set hidden {hidden}\n{name}({', '.join(args)}){f' -> {result}' if result else ''}"
            f' convention {convention} symbol "{symbol}"\n'
        )


def test_routines_with_arguments_by_chance_get_what_they_are_given(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(20)
    routines = {f"f{i}": RandomRoutine(dice, f"f{i}") for i in range(80)}
    compiled(tmp_path, HASH + "".join(r.source for r in routines.values()))
    text = 'fbi 1\nset library "./libown.so"\n' + "".join(r.line for r in routines.values())
    (tmp_path / "own.fbi").write_text(text)
    process = place.forebay("serve", "--idl", "own.fbi", cwd=tmp_path)
    client = client_at(place, monkeypatch)
    for name, routine in routines.items():
        for service in (name, f"native/{name}"):
            chars = service != name
            given = [
                ord(g) if chars and isinstance(g, str) else g.copy() if isinstance(g, np.ndarray) else g
                for g in routine.given
            ]
            came = client.call(service, *given)
            wanted = routine.hash if routine.returned is None else (routine.hash, routine.returned)
            assert came == wanted, f"{service}\n{routine.line}\n{routine.source}"
    process.terminate()
    assert process.wait(20) == 0


def test_the_example_solves_a_linear_system(place: Place, blas: fb.Client) -> None:
    out, _ = place.start(sys.executable, BLAS / "python" / "solve.py").communicate(timeout=60)
    assert out == (BLAS / "output.txt").read_text()


def test_a_library_that_prints_and_changes_its_directory_serves_on(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled(
        tmp_path,
        '#include <stdio.h>\n#include <unistd.h>\nint go(void) { puts("gone"); return chdir("/"); }\n',
    )
    (tmp_path / "own.fbi").write_text('fbi 1\nset library "./libown.so"\nset convention c\ngo() -> i32\n')
    process = place.forebay("serve", "--idl", "own.fbi", cwd=tmp_path)
    client = client_at(place, monkeypatch)
    assert [client.call("go") for _ in range(3)] == [0, 0, 0]
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0
    assert os.getcwd() != "/"


PRINTS = r"""
#include <stdint.h>
#include <stdio.h>
extern void xerbla_(const char *name, const int32_t *argument, size_t length);
void says_(const int32_t *lines)
{
    const int32_t argument = 1;
    for (int32_t i = 0; i < *lines; i++) printf("line %d\n", i);
    fprintf(stderr, "after %d lines\n", *lines);
    xerbla_("SAYS  ", &argument, 6);
}
void dies_(void)
{
    printf("not the last words\n");
    fprintf(stderr, "the last words\n");
    *(volatile int *)8 = 1;
}
"""

PRINTS_IN_FORTRAN = """
subroutine tells(lines)
  integer :: lines, i
  external :: xerbla
  do i = 1, lines
    print '(a, i0)', 'line ', i
  end do
  call xerbla('TELLS ', 1)
end subroutine tells
"""


def test_what_a_routine_has_printed_comes_to_who_called_it_and_goes_on(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled(tmp_path, PRINTS)
    (tmp_path / "tells.f90").write_text(PRINTS_IN_FORTRAN)
    library = tmp_path / "libtells.so"
    subprocess.run(
        ["gfortran", "-shared", "-fPIC", tmp_path / "tells.f90", "-o", library], check=True, timeout=60
    )
    head = 'fbi 1\nset symbol "%s_"\nset convention fortran\n'
    (tmp_path / "own.fbi").write_text(f'{head}set library "./libown.so"\nsays(lines:i32) xerbla\ndies()\n')
    (tmp_path / "tells.fbi").write_text(f'{head}set library "./libtells.so"\ntells(lines:i32) xerbla\n')
    served = [
        place.forebay("serve", "--idl", name, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for name in ("own.fbi", "tells.fbi")
    ]
    client = client_at(place, monkeypatch)
    for _ in range(3):
        call = client.call_async("says", 2)
        with pytest.raises(fb.RemoteError) as raised:
            call.wait()
        assert (call.stdout, call.stderr) == ("line 0\nline 1\n", "after 2 lines\n")
        assert (raised.value.stdout, raised.value.stderr) == (call.stdout, call.stderr)
        assert call.output_others == raised.value.output_others == 0
        with pytest.raises(fb.RemoteError) as raised:
            client.call("tells", 2)
        assert (raised.value.stdout, raised.value.output_others) == ("line 1\nline 2\n", 0)
    tasks = list(client.map("says", [0, 1], errors="yield", window=1))
    assert [task.stderr for task in tasks] == ["after 0 lines\n", "after 1 lines\n"]
    with pytest.raises(
        fb.ServerLost, match=r"(?s)SIGSEGV in dies; at last it wrote to standard error:\n.*the last words"
    ):
        client.call("dies")
    for process in served:
        process.terminate()
    (out, err), (told, _) = [process.communicate(timeout=20) for process in served]
    # The call went to each life of the process, until the routine was withdrawn.
    assert out.splitlines() == [*["line 0", "line 1"] * 3, "line 0", *["not the last words"] * 3]
    assert err.splitlines().count("the last words") == 3
    assert told.splitlines() == ["line 1", "line 2"] * 3


def test_a_task_that_was_running_on_all_servers_that_died_says_so_when_none_is_left(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dies.py").write_text(
        """
import os, signal, sys
import forebay as fb

@fb.service("in n:i32, out m:i32")
def dies(n):
    if n == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return n
"""
    )
    for _ in range(2):
        place.forebay("serve", tmp_path / "dies.py")
    client = client_at(place, monkeypatch)
    tasks = list(client.map("dies", [0, 1], errors="yield"))
    assert tasks[0] == 0
    assert isinstance(tasks[1], fb.NoServer)
    assert "2 servers died while this task was running there" in str(tasks[1])


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
