"""Writes `blas.fbi` and `lapack.fbi`: one line a routine for single and double precision, real and complex.

A routine is written once, with what its four forms differ in in braces; `python make.py` writes the files anew.

| in a line | is |
| --- | --- |
| `{p}` | the letter of the form: s, d, c, z |
| `{t}`, `{r}` | the type of its numbers, and of their real parts |
"""

from __future__ import annotations

import sys
from pathlib import Path

FORMS = {"s": ("f32", "f32"), "d": ("f64", "f64"), "c": ("c64", "f32"), "z": ("c128", "f64")}
REAL, COMPLEX, ALL = "sd", "cz", "sdcz"

TRANS = 'trans:char one of "NnTtCc"'
UPLO = 'uplo:char one of "UuLl"'
DIAG = 'diag:char one of "UuNn"'
SIDE = 'side:char one of "LlRr"'
PACKED = "n*(n+1)/2 if n > 0 else 0"
X, Y = "x:{t}[n] inc incx, incx", "y:{t}[n] inc incy, incy"
A = "a:{t}[n,n] ld lda, lda"
TRIANGLE = "a:{t}[n,n] ld lda tri uplo, lda"
INFO = 'out info:i32 status <0 "argument {{-info}} is wrong"'
SINGULAR = INFO + ' >0 "U({{info}},{{info}}) is exactly zero: the matrix is singular"'
DEFINITE = (
    INFO + ' >0 "the leading minor of order {{info}} is not positive: the matrix is not positive definite"'
)
CONVERGED = INFO + ' >0 "the algorithm has not converged: {{info}} numbers did not"'
WORK = "work work:{t}[max(1,lwork)] query lwork, lwork"


def box(name: str, rows: str, columns: str, trans: str) -> str:
    """A matrix that is given as it is, or transposed."""
    first, second = (f"{x} if {trans} in 'Nn' else {y}" for x, y in ((rows, columns), (columns, rows)))
    return f"in {name}:{{t}}[{first}, {second}] ld ld{name}, ld{name}"


def order(of: str) -> str:
    """The order of a square matrix at one side of another."""
    return f"{of}:{{t}}[m if side in 'Ll' else n, m if side in 'Ll' else n] ld ld{of}"


BLAS = [
    ("vectors", ""),
    (REAL, "{p}rotg(inout a:{t}, inout b:{t}, out c:{t}, out s:{t})"),
    (COMPLEX, "{p}rotg(inout a:{t}, b:{t}, out c:{r}, out s:{t})"),
    (REAL, "{p}rotmg(inout d1:{t}, inout d2:{t}, inout x1:{t}, y1:{t}, out param:{t}[5])"),
    (REAL, f"{{p}}rot(n:i32, inout {X}, inout {Y}, c:{{t}}, s:{{t}})"),
    (COMPLEX, f"{{p}}{{q}}rot(n:i32, inout {X}, inout {Y}, c:{{r}}, s:{{r}})"),
    (REAL, f"{{p}}rotm(n:i32, inout {X}, inout {Y}, in param:{{t}}[5])"),
    (ALL, f"{{p}}swap(n:i32, inout {X}, inout {Y})"),
    (ALL, f"{{p}}scal(n:i32, alpha:{{t}}, inout {X})"),
    (COMPLEX, f"{{p}}{{q}}scal(n:i32, alpha:{{r}}, inout {X})"),
    (ALL, f"{{p}}copy(n:i32, in {X}, out {Y})"),
    (ALL, f"{{p}}axpy(n:i32, alpha:{{t}}, in {X}, inout {Y})"),
    (REAL, f"{{p}}dot(n:i32, in {X}, in {Y}) -> {{t}}"),
    ("d", "dsdot(n:i32, in x:f32[n] inc incx, incx, in y:f32[n] inc incy, incy) -> f64"),
    ("s", "sdsdot(n:i32, b:f32, in x:f32[n] inc incx, incx, in y:f32[n] inc incy, incy) -> f32"),
    (COMPLEX, f"{{p}}dotu(n:i32, in {X}, in {Y}) -> {{t}}"),
    (COMPLEX, f"{{p}}dotc(n:i32, in {X}, in {Y}) -> {{t}}"),
    (REAL, f"{{p}}nrm2(n:i32, in {X}) -> {{t}}"),
    (COMPLEX, f"{{q}}{{p}}nrm2(n:i32, in {X}) -> {{r}}"),
    (REAL, f"{{p}}asum(n:i32, in {X}) -> {{t}}"),
    (COMPLEX, f"{{q}}{{p}}asum(n:i32, in {X}) -> {{r}}"),
    (ALL, f"i{{p}}amax(n:i32, in {X}) -> i32"),
    ("matrices and vectors", ""),
    (
        ALL,
        f"{{p}}gemv({TRANS}, m:i32, n:i32, alpha:{{t}}, in a:{{t}}[m,n] ld lda, lda, in x:{{t}}[n if trans in 'Nn' else m] inc incx, incx, "
        "beta:{t}, inout y:{t}[m if trans in 'Nn' else n] inc incy when beta != 0, incy) xerbla cost 2*m*n",
    ),
    (
        ALL,
        f"{{p}}gbmv({TRANS}, m:i32, n:i32, kl:i32, ku:i32, alpha:{{t}}, in a:{{t}}[kl+ku+1,n] ld lda, lda, "
        "in x:{t}[n if trans in 'Nn' else m] inc incx, incx, beta:{t}, "
        "inout y:{t}[m if trans in 'Nn' else n] inc incy when beta != 0, incy) xerbla",
    ),
    (
        REAL,
        f"{{p}}symv({UPLO}, n:i32, alpha:{{t}}, in {TRIANGLE}, in {X}, beta:{{t}}, inout {Y}) xerbla cost 2*n*n",
    ),
    (
        COMPLEX,
        f"{{p}}hemv({UPLO}, n:i32, alpha:{{t}}, in {TRIANGLE}, in {X}, beta:{{t}}, inout {Y}) xerbla cost 8*n*n",
    ),
    (
        REAL,
        f"{{p}}sbmv({UPLO}, n:i32, k:i32, alpha:{{t}}, in a:{{t}}[k+1,n] ld lda, lda, in {X}, beta:{{t}}, inout {Y}) xerbla",
    ),
    (
        COMPLEX,
        f"{{p}}hbmv({UPLO}, n:i32, k:i32, alpha:{{t}}, in a:{{t}}[k+1,n] ld lda, lda, in {X}, beta:{{t}}, inout {Y}) xerbla",
    ),
    (
        REAL,
        f"{{p}}spmv({UPLO}, n:i32, alpha:{{t}}, in ap:{{t}}[{PACKED}], in {X}, beta:{{t}}, inout {Y}) xerbla",
    ),
    (
        COMPLEX,
        f"{{p}}hpmv({UPLO}, n:i32, alpha:{{t}}, in ap:{{t}}[{PACKED}], in {X}, beta:{{t}}, inout {Y}) xerbla",
    ),
    *(
        (ALL, f"{{p}}t{kind}({UPLO}, {TRANS}, {DIAG}, n:i32, in {TRIANGLE}, inout {X}) xerbla cost n*n")
        for kind in ("rmv", "rsv")
    ),
    *(
        (
            ALL,
            f"{{p}}t{kind}({UPLO}, {TRANS}, {DIAG}, n:i32, k:i32, in a:{{t}}[k+1,n] ld lda, lda, inout {X}) xerbla",
        )
        for kind in ("bmv", "bsv")
    ),
    *(
        (ALL, f"{{p}}t{kind}({UPLO}, {TRANS}, {DIAG}, n:i32, in ap:{{t}}[{PACKED}], inout {X}) xerbla")
        for kind in ("pmv", "psv")
    ),
    *(
        (
            which,
            f"{{p}}{name}(m:i32, n:i32, alpha:{{t}}, in x:{{t}}[m] inc incx, incx, in {Y}, inout a:{{t}}[m,n] ld lda, lda) xerbla",
        )
        for which, name in ((REAL, "ger"), (COMPLEX, "geru"), (COMPLEX, "gerc"))
    ),
    (REAL, f"{{p}}syr({UPLO}, n:i32, alpha:{{t}}, in {X}, inout {TRIANGLE}) xerbla"),
    (COMPLEX, f"{{p}}her({UPLO}, n:i32, alpha:{{r}}, in {X}, inout {TRIANGLE}) xerbla"),
    (REAL, f"{{p}}spr({UPLO}, n:i32, alpha:{{t}}, in {X}, inout ap:{{t}}[{PACKED}]) xerbla"),
    (COMPLEX, f"{{p}}hpr({UPLO}, n:i32, alpha:{{r}}, in {X}, inout ap:{{t}}[{PACKED}]) xerbla"),
    (REAL, f"{{p}}syr2({UPLO}, n:i32, alpha:{{t}}, in {X}, in {Y}, inout {TRIANGLE}) xerbla"),
    (COMPLEX, f"{{p}}her2({UPLO}, n:i32, alpha:{{t}}, in {X}, in {Y}, inout {TRIANGLE}) xerbla"),
    (REAL, f"{{p}}spr2({UPLO}, n:i32, alpha:{{t}}, in {X}, in {Y}, inout ap:{{t}}[{PACKED}]) xerbla"),
    (COMPLEX, f"{{p}}hpr2({UPLO}, n:i32, alpha:{{t}}, in {X}, in {Y}, inout ap:{{t}}[{PACKED}]) xerbla"),
    ("matrices", ""),
    (
        ALL,
        '{p}gemm(transa:char one of "NnTtCc", transb:char one of "NnTtCc", m:i32, n:i32, k:i32, alpha:{t}, '
        f"{box('a', 'm', 'k', 'transa')}, {box('b', 'k', 'n', 'transb')}, "
        "beta:{t}, inout c:{t}[m,n] ld ldc when beta != 0, ldc) xerbla cost 2*m*n*k",
    ),
    *(
        (
            which,
            f"{{p}}{name}({SIDE}, {UPLO}, m:i32, n:i32, alpha:{{t}}, in {order('a')} tri uplo, lda, in b:{{t}}[m,n] ld ldb, ldb, "
            "beta:{t}, inout c:{t}[m,n] ld ldc when beta != 0, ldc) xerbla cost 2*m*n*(m if side in 'Ll' else n)",
        )
        for which, name in ((ALL, "symm"), (COMPLEX, "hemm"))
    ),
    *(
        (
            which,
            f"{{p}}{name}({UPLO}, {TRANS}, n:i32, k:i32, alpha:{scale}, {box('a', 'n', 'k', 'trans')}, "
            f"beta:{scale}, inout c:{{t}}[n,n] ld ldc tri uplo when beta != 0, ldc) xerbla cost n*n*k",
        )
        for which, name, scale in ((ALL, "syrk", "{t}"), (COMPLEX, "herk", "{r}"))
    ),
    *(
        (
            which,
            f"{{p}}{name}({UPLO}, {TRANS}, n:i32, k:i32, alpha:{{t}}, {box('a', 'n', 'k', 'trans')}, {box('b', 'n', 'k', 'trans')}, "
            f"beta:{scale}, inout c:{{t}}[n,n] ld ldc tri uplo when beta != 0, ldc) xerbla cost 2*n*n*k",
        )
        for which, name, scale in ((ALL, "syr2k", "{t}"), (COMPLEX, "her2k", "{r}"))
    ),
    *(
        (
            ALL,
            f'{{p}}{name}({SIDE}, {UPLO}, transa:char one of "NnTtCc", {DIAG}, m:i32, n:i32, alpha:{{t}}, in {order("a")} tri uplo, lda, '
            "inout b:{t}[m,n] ld ldb, ldb) xerbla cost m*n*(m if side in 'Ll' else n)",
        )
        for name in ("trmm", "trsm")
    ),
]

VECTORS = "vl:{t}[n if jobvl in 'Vv' else 0, n if jobvl in 'Vv' else 0] ld ldvl, ldvl"
JOBS = 'jobvl:char one of "NnVv", jobvr:char one of "NnVv", n:i32'
SVD = (
    '{{p}}gesvd(jobu:char one of "AaSsOoNn", jobvt:char one of "AaSsOoNn", m:i32, n:i32, inout a:{{t}}[m,n] ld lda, lda, '
    "out s:{{r}}[min(m,n)], out u:{{t}}[m if jobu in 'AaSs' else 0, (m if jobu in 'Aa' else min(m,n)) if jobu in 'AaSs' else 0] ld ldu, ldu, "
    "out vt:{{t}}[(n if jobvt in 'Aa' else min(m,n)) if jobvt in 'AaSs' else 0, n if jobvt in 'AaSs' else 0] ld ldvt, ldvt, "
    "{work}, {more}{info}) xerbla cost 4*m*n*min(m,n)"
)

LAPACK = [
    ("linear systems", ""),
    (
        ALL,
        f"{{p}}gesv(n:i32, nrhs:i32, inout {A}, out ipiv:i32[n], inout b:{{t}}[n,nrhs] ld ldb, ldb, {SINGULAR}) xerbla cost n*n*n",
    ),
    (
        ALL,
        f"{{p}}getrf(m:i32, n:i32, inout a:{{t}}[m,n] ld lda, lda, out ipiv:i32[min(m,n)], {SINGULAR}) xerbla cost m*n*min(m,n)",
    ),
    (
        ALL,
        f"{{p}}getrs({TRANS}, n:i32, nrhs:i32, in {A}, in ipiv:i32[n], inout b:{{t}}[n,nrhs] ld ldb, ldb, {INFO}) xerbla cost 2*n*n*nrhs",
    ),
    (ALL, f"{{p}}getri(n:i32, inout {A}, in ipiv:i32[n], {WORK}, {SINGULAR}) xerbla cost n*n*n"),
    (ALL, f"{{p}}potrf({UPLO}, n:i32, inout {TRIANGLE}, {DEFINITE}) xerbla cost n*n*n/3"),
    (
        ALL,
        f"{{p}}potrs({UPLO}, n:i32, nrhs:i32, in {TRIANGLE}, inout b:{{t}}[n,nrhs] ld ldb, ldb, {INFO}) xerbla cost 2*n*n*nrhs",
    ),
    (ALL, f"{{p}}potri({UPLO}, n:i32, inout {TRIANGLE}, {SINGULAR}) xerbla cost n*n*n"),
    (
        ALL,
        f"{{p}}posv({UPLO}, n:i32, nrhs:i32, inout {TRIANGLE}, inout b:{{t}}[n,nrhs] ld ldb, ldb, {DEFINITE}) xerbla cost n*n*n/3",
    ),
    ("least squares", ""),
    (
        ALL,
        f"{{p}}geqrf(m:i32, n:i32, inout a:{{t}}[m,n] ld lda, lda, out tau:{{t}}[min(m,n)], {WORK}, {INFO}) xerbla cost 2*m*n*n",
    ),
    (
        ALL,
        f"{{p}}gels({TRANS}, m:i32, n:i32, nrhs:i32, inout a:{{t}}[m,n] ld lda, lda, inout b:{{t}}[max(m,n),nrhs] ld ldb, ldb, {WORK}, {SINGULAR}) xerbla cost 2*m*n*n",
    ),
    ("eigenvalues and singular values", ""),
    (
        REAL,
        f'{{p}}syev(jobz:char one of "NnVv", {UPLO}, n:i32, inout {A}, out w:{{t}}[n], {WORK}, {CONVERGED}) xerbla cost 9*n*n*n',
    ),
    (
        COMPLEX,
        f'{{p}}heev(jobz:char one of "NnVv", {UPLO}, n:i32, inout {A}, out w:{{r}}[n], {WORK}, work rwork:{{r}}[max(1,3*n-2)], {CONVERGED}) xerbla cost 36*n*n*n',
    ),
    (
        REAL,
        f"{{p}}geev({JOBS}, inout {A}, out wr:{{t}}[n], out wi:{{t}}[n], out {VECTORS}, out {VECTORS.replace('vl', 'vr')}, {WORK}, {CONVERGED}) xerbla cost 25*n*n*n",
    ),
    (
        COMPLEX,
        f"{{p}}geev({JOBS}, inout {A}, out w:{{t}}[n], out {VECTORS}, out {VECTORS.replace('vl', 'vr')}, {WORK}, work rwork:{{r}}[2*n], {CONVERGED}) xerbla cost 100*n*n*n",
    ),
    (REAL, SVD.format(work=WORK, more="", info=CONVERGED)),
    (COMPLEX, SVD.format(work=WORK, more="work rwork:{r}[5*min(m,n)], ", info=CONVERGED)),
]

HEAD = """fbi 1
# {what}. Written by make.py, which has each routine once.
set library "libopenblas.so.0"
set convention fortran
set symbol "%s_"
set threads safe
set env OPENBLAS_NUM_THREADS=1
"""


def lines(what: str, table: list[tuple[str, str]]) -> str:
    """A file."""
    said = [HEAD.format(what=what)]
    for forms, line in table:
        if not line:
            said.append(f"\n# {forms}\n")
            continue
        for p in forms:
            t, r = FORMS[p]
            said.append(line.format(p=p, t=t, r=r, q={"f32": "s", "f64": "d"}[r]).replace("'", '"') + "\n")
    return "".join(said)


FILES = {
    "blas.fbi": lines("All of BLAS", BLAS),
    "lapack.fbi": lines("The usual drivers of LAPACK", LAPACK),
}

if __name__ == "__main__":
    here = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    for name, text in FILES.items():
        (here / name).write_text(text)
