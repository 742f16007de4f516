"""What tests of compiled libraries have in common: libraries of their own, and clients of who serves them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import forebay as fb
import pytest
from conftest import ROOT, Place

BLAS = ROOT / "examples" / "02_blas"

SOURCE = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
/* Copies a file of one letter; of Fortran, whose texts have no end but a length. */
int32_t copies(const char *from, const char *to)
{
    FILE *in = fopen(from, "r"), *out = fopen(to, "w");
    if (!in || !out) return 1;
    int32_t letter = fgetc(in);
    fputc(letter, out);
    return fclose(in) + fclose(out);
}
void copies_f_(const char *from, const char *to, int32_t *info, size_t n, size_t m)
{
    char own[2][4096] = { { 0 } };
    memcpy(own[0], from, n), memcpy(own[1], to, m);
    *info = copies(own[0], own[1]);
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
