"""Two functions of a library with a plan between them, as FFTW has them, are one service."""

from __future__ import annotations

import ctypes
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from conftest import Place
from libraries import BLAS, client_at, compiled


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
