"""Compiled libraries as services: `forebay serve LIB --idl FILE`."""

from __future__ import annotations

import ctypes
import json
import os
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
from conftest import Place, until
from libraries import BLAS, SOURCE, client_at, compiled
from places import ended, forebay_exe

LINES = """fbi 1
set library "./libown.so"
set convention c
bye()
crash()
hang()
twice(x:f64) -> f64
flushes(x:f64) -> f64
copies(in from:file, out to:file) -> i32 status
sum(text:str, n:i64, in x:f32[n], out total:f32) -> i32 where n < 100 "n is less than 100"
set convention fortran; set symbol "%s_"
half(x:f32) -> f32
copies_f(in from:file, out to:file, out info:i32)
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


def test_a_routine_in_either_convention_gets_the_paths_of_files(own: Served, tmp_path: Path) -> None:
    (tmp_path / "from").write_text("x")
    published = str(own.client.services["copies"].signature)
    assert published == "copies(in from:file, out to:file, out result:i32 status)"
    assert own.client.call("copies", tmp_path / "from", tmp_path / "to") == (str(tmp_path / "to"), 0)
    assert own.client.call("copies_f", str(tmp_path / "from"), str(tmp_path / "too")) == (
        str(tmp_path / "too"),
        0,
    )
    assert (tmp_path / "to").read_text() == (tmp_path / "too").read_text() == "x"
    out = own.place.command("stubs", "--lang", "python", tmp_path / "own.fbi")
    (tmp_path / "own_remote.py").write_text(out)
    code = """
import sys; sys.path.insert(0, sys.argv[1])
import own_remote
from pathlib import Path
print(own_remote.copies(Path(sys.argv[1]) / "from", sys.argv[1] + "/stub"), Path(sys.argv[1], "stub").read_text())
"""
    assert own.place.run_python(code, tmp_path) == f"{tmp_path}/stub x\n"
    native = own.place.command("stubs", "--native", tmp_path / "own.fbi")
    assert "copies: left out, for its files travel" in native


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


def test_the_command_line_fails_for_a_status_and_prints_what_came_back(blas: fb.Client, place: Place) -> None:
    until(lambda: "dgesv" in blas.services, what="the service")
    words = ("call", "dgesv", "1", "1", "1x1:f64", "1:i32", "1x1:f64")
    out, err = ended(place.forebay(*words), 1)
    assert "info = 1" in out and "dgesv: its status info is 1" in err, (out, err)
    out, err = ended(place.forebay("--json", *words), 1)
    told = json.loads(err)
    assert json.loads(out)["info"] == 1 and told["error"] == "RemoteError", (out, err)
    assert "dgesv: its status info is 1" in told["text"]
    help = place.command("call", "--help")
    assert "exit status is 1" in help and "info" in help


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
    asked = blas.call("native/dsyev", ord("N"), ord("U"), 0, nothing, 1, np.zeros(0), -1, 7)
    assert asked[1:] == (0, 0, b"")


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
    assert call("native/works", 4, x, -1, 7) == (12.0, -1)
    assert call("native/works", 4, x, 2, 7) == (0.0, 2) and x[0] == 1


def test_arguments_that_cannot_be_are_refused_before_the_library_is_touched(own: Served) -> None:
    x = np.zeros(3, np.float32)
    for words, said in [
        (("sum", "a", 100, np.zeros(100, np.float32)), "it does not hold that n is less than 100"),
        (
            ("native/sum", b"a", 4, x, 0.0),
            r"x:f32\[n\] has the shape \(4,\) by the other arguments, and f32\(3,\) came",
        ),
        (("native/huge", 2**40, 2**40, np.zeros(0)), "n.m of x has more than 64 bits"),
        (("native/huge", 2**20, 2**20, np.zeros(0)), r"would have more than 2\^40 bytes"),
        (("wide", 2**31), "k would be 4294967296, which is beyond what i32 holds"),
        (("kind", "X"), "c is 'X'; give one of 'N', 'T'"),
        (("kind", ""), "c is an empty text; give one character"),
        (("kind", "TN"), 'c is "TN", a text of 2 bytes; give one character'),
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
        # Where the server is there again at once the call meets it anew, and takes more than one of the three lives.
        with pytest.raises((fb.ServerLost, fb.Poisoned, fb.NoServer), match=r"SIGSEGV in crash"):
            hasty.call("crash")
    assert own.client.call("twice", 1.0) == 2
    for name in ("crash", "native/crash"):
        says = rf'(?s)"{name}" is offered no more.*SIGSEGV in crash.*start the server anew'
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
        with pytest.raises((fb.ServerLost, fb.Poisoned, fb.NoServer), match=r"exit\(0\) in bye"):
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
    # Where the server is there again at once the call meets it anew, and takes more than one of its three lives.
    with pytest.raises((fb.ServerLost, fb.Poisoned)):
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
    with pytest.raises((fb.ServerLost, fb.Poisoned), match="SIGABRT in crash"):
        fb.connect().call("crash")
    until(lambda: len(called()) == 3, 20, "three processes again")
    assert len(before & called()) == 2
    process.terminate()
    assert process.wait(20) == 0
    assert not [line for line in place.processes() if "--child-of" in line]


def test_a_routine_that_hangs_ends_with_its_supervisor_however_that_ends(own: Served) -> None:
    assert own.client.call("twice", 1.0) == 2
    own.client.patience(1)
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
            # A stub passes what comes back, too.
            came = client.call(service, *given, *([7] if chars else []))
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
