"""What the heads of LAPACK mean, where `derive.py` cannot read it: each text, or each argument, once.

A key like `gemm.a` names an argument of all precisions of a routine, with the first letter of its name left out.
"""

import re


def _if(argument: str, letters: str, then: str, otherwise: str) -> str:
    both = "".join(c.upper() + c.lower() for c in letters)
    return f'{then} if {argument} in "{both}" else {otherwise}'


_ORDER = _if("side", "L", "m", "n")
_OTHER = _if("side", "L", "n", "m")
_FOUND = _if("range", "I", "iu-il+1", "n")

# The extents of arrays whose head says them in prose, or by what the routine itself finds out.
OWN = {
    "larf.v": f"[{_ORDER}] inc incv",
    "larf.work": f"[{_OTHER}]",
    "tpmlqt.v": f"[k,{_ORDER}] ld ldv",  # it says k columns
    "tplqt.t": "[mb,m] ld ldt",  # it says n columns
    "laqtr.b": "[n if lreal == 0 else 0]",
    "lacrm.c": "[m,n] ld ldc",  # it says n rows
    "sbgvd.work": "[max(1,lwork,3*n)]",  # it says that 1 is enough for n=1, and takes 3
    "larfx.work": f"[{_OTHER}]",
    "lascl.a": f"[{_if('type', 'B', 'kl+1', _if('type', 'Q', 'ku+1', _if('type', 'Z', '2*kl+ku+1', 'm')))},n] ld lda",
    "gelqt.work": "[mb*max(m,n)]",  # it says mb*n, and takes mb*m
    "gemlqt.work": f"[{_if('side', 'L', 'n*mb', 'm*mb')}]",
    "gemqrt.work": f"[{_if('side', 'L', 'n*nb', 'm*nb')}]",
    "tpmlqt.work": f"[{_if('side', 'L', 'n*mb', 'm*mb')}]",
    "tpmqrt.work": f"[{_if('side', 'L', 'n*nb', 'm*nb')}]",
    # 3*min(m,n)*levels + 11*min(m,n), and no more than 32 levels; as much room is made at the server, none travels.
    "bdsqr.work": "[4*n]",  # it says 4*(n-1), and hands it to lasq1, which takes 4*n
    "gelsd.iwork": "[max(1,107*min(m,n))]",
    "gelsd.rwork": "[max(1,316*max(m,n)+75*nrhs+max(676,max(m,n)*(1+nrhs)+2*nrhs))]",
    "gesdd.rwork": "[max(1,5*min(m,n)*min(m,n)+7*min(m,n),2*m*n+2*min(m,n)*min(m,n)+min(m,n))]",
    "gesvdx.rwork": "[17*min(m,n)*min(m,n)]",
    "sbgvx.ifail": f"[{_FOUND}]",
    "sfrk.c": "[n*(n+1)/2]",
    "hfrk.c": "[n*(n+1)/2]",
    "ggbal.work": "[max(1,6*n)]",
    "ggevx.rwork": "[max(1,6*n)]",
    "gesvd.u": f"[{_if('jobu', 'AS', 'm', '0')},{_if('jobu', 'A', 'm', 'min(m,n)')}] ld ldu",
    "gesvd.vt": f"[{_if('jobvt', 'A', 'n', _if('jobvt', 'S', 'min(m,n)', '0'))},n] ld ldvt",
    "gesvdx.u": f"[{_if('jobu', 'V', 'm', '0')},{_if('range', 'I', 'iu-il+1', 'min(m,n)')}] ld ldu",
    "gesvdx.vt": f"[{_if('jobvt', 'V', '(' + _if('range', 'I', 'iu-il+1', 'min(m,n)') + ')', '0')},n] ld ldvt",
    "gesdd.u": f"[{_if('jobz', 'AS', 'm', _if('jobz', 'O', '(m if m < n else 0)', '0'))},{_if('jobz', 'S', 'min(m,n)', 'm')}] ld ldu",
    "gesdd.vt": f"[{_if('jobz', 'A', 'n', _if('jobz', 'S', 'min(m,n)', _if('jobz', 'O', '(0 if m < n else n)', '0')))},n] ld ldvt",
    "stemr.z": f"[{_if('jobz', 'V', '(n if 0 < nzc else 1)', '0')},max(1,nzc)] ld ldz",
    "tfsm.a": f"[{_if('side', 'L', 'm*(m+1)/2', 'n*(n+1)/2')}]",
    "tftri.a": "[n*(n+1)/2]",
    "trttf.arf": "[n*(n+1)/2]",
    "orcsd2by1.theta": "[min(min(p,m-p),min(q,m-q))]",
    "uncsd2by1.theta": "[min(min(p,m-p),min(q,m-q))]",
}
for _s in ("max1", "sum1"):  # their heads leave out the increment
    for _p in "cz":
        OWN[f"{_p}{_s}.cx"] = OWN[f"{_p}{_s}.zx"] = "[n] inc incx"
for _s in ("orbdb5", "orbdb6", "unbdb5", "unbdb6"):
    OWN[f"{_s}.x1"], OWN[f"{_s}.x2"] = "[m1] inc incx1", "[m2] inc incx2"
for _s in ("sfrk", "hfrk"):
    OWN[f"{_s}.a"] = f"[{_if('trans', 'N', 'n', 'k')},{_if('trans', 'N', 'k', 'n')}] ld lda"
for _s in ("opmtr", "upmtr", "ormtr", "unmtr", "ormhr", "unmhr"):
    OWN[f"{_s}.tau"] = f"[{_if('side', 'L', 'm-1', 'n-1')}]"
for _s in ("orgbr", "ungbr"):
    OWN[f"{_s}.tau"] = f"[{_if('vect', 'Q', 'min(m,k)', 'min(n,k)')}]"
for _s in ("ormbr", "unmbr"):
    OWN[f"{_s}.tau"] = f"[min({_ORDER},k)]"
    OWN[f"{_s}.a"] = (
        f"[{_if('vect', 'Q', f'({_ORDER})', f'min({_ORDER},k)')},{_if('vect', 'Q', f'min({_ORDER},k)', f'({_ORDER})')}] ld lda"
    )
for _s in [
    "syevx",
    "heevx",
    "syevr",
    "heevr",
    "sbevx",
    "hbevx",
    "spevx",
    "hpevx",
    "stevx",
    "stevr",
    "stegr",
    "sygvx",
    "hegvx",
    "spgvx",
    "hpgvx",
    "sbgvx",
    "hbgvx",
    "syevx_2stage",
    "heevx_2stage",
    "syevr_2stage",
    "heevr_2stage",
    "sbevx_2stage",
    "hbevx_2stage",
]:
    OWN[f"{_s}.z"] = f"[{_if('jobz', 'V', 'n', '0')},{_FOUND}] ld ldz"
for _s in ("syevr", "heevr", "stevr", "stegr", "stemr", "syevr_2stage", "heevr_2stage"):
    OWN[f"{_s}.isuppz"] = f"[2*max(1,{_FOUND})]"
for _s in [
    "sbev_2stage",
    "sbevd_2stage",
    "syev_2stage",
    "hbev_2stage",
    "hbevd_2stage",
    "heev_2stage",
    "syevd_2stage",
    "heevd_2stage",
    "sysv_aa_2stage",
    "hesv_aa_2stage",
    "sytrf_aa_2stage",
    "hetrf_aa_2stage",
    "sytri2",
    "hetri2",
    "sytri_3",
    "hetri_3",
]:
    OWN[f"{_s}.work"] = "[max(1,lwork)]"

# Rows of a matrix, by argument where the text of its leading dimension names no letters.
ROWS_OF = {
    "laexc.ldq": "0 if wantq == 0 else n",
    "bdsqr.ldvt": "n if 0 < ncvt else 0",
    "bdsqr.ldc": "n if 0 < ncc else 0",
    "gbbrd.ldc": "m if 0 < ncc else 0",
    "stedc.ldz": _if("compz", "VI", "n", "0"),
    "steqr.ldz": _if("compz", "VI", "n", "0"),
    "hseqr.ldz": _if("compz", "VI", "n", "0"),
}

# Rows of a matrix, by what is said of its leading dimension.
ROWS = {
    "LD>=2*KL*KU+1": "2*kl+ku+1",  # a slip of its head
    "LD>=1,ANDLD>=NIFVECT='V'OR'U'": _if("vect", "VU", "n", "0"),
    "LD>=1,ANDIFSIDE='R'OR'B';LD>=N": _if("side", "RB", "n", "0"),
}

# Routines whose head leaves out the increments of its vectors.
STEPPED = {"rot", "lacrt"}

# Dimensions with a condition behind them.
CONDITIONS: dict[str, str] = {}
for _size in ("(MAX(1,LWORK))", "(LWORK)"):
    for _n in "NM":
        for _norms in ("'I'", "'I'OR'1'OR'O'"):
            CONDITIONS[f"{_size} ,WHERELWORK>={_n}WHENNORM={_norms};OTHERWISE,WORKISNOTREFERENCED"] = (
                f"[max(1,{_n.lower()})]"
            )

DIMENSIONS = {
    "(1+(N-2)*ABS(INCX))": "[n-1] inc incx",
    "(LTB)": "[max(1,ltb)]",
    "(LWORK)": "[max(1,lwork)]",
    "(LRWORK)": "[max(1,lrwork)]",
    "(LIWORK)": "[max(1,liwork)]",
}

# Routines that look at their arrays, or write to them, even when they are asked how long a work array is best: with a work
# array of the kind that `query` speaks of, no array travels in such a call.
LOOKS_WHEN_ASKED = {"gelq", "gemlq", "gemqr", "geqr", "stemr", "tgsen", "tgsna", "trevc3", "trsen"}

# Flops of real numbers; of complex ones four times as many.
COSTS = {
    "getrf": "2*m*n*min(m,n)/3",
    "getrs": "2*n*n*nrhs",
    "gesv": "2*n*n*n/3+2*n*n*nrhs",
    "potrf": "n*n*n/3",
    "potrs": "2*n*n*nrhs",
    "posv": "n*n*n/3+2*n*n*nrhs",
    "geqrf": "2*m*n*min(m,n)",
    "syev": "9*n*n*n",
    "heev": "9*n*n*n",
    "syevd": "9*n*n*n",
    "heevd": "9*n*n*n",
    "geev": "25*n*n*n",
    "gesvd": "14*m*n*min(m,n)",
    "gesdd": "14*m*n*min(m,n)",
}

# Routines whose source is in free form.
LINES = {}
for _p, _t, _r in (("s", "f32", "f32"), ("d", "f64", "f64"), ("c", "c64", "f32"), ("z", "c128", "f64")):
    LINES[f"{_p}lartg"] = f"{_p}lartg(f:{_t}, g:{_t}, out c:{_r}, out s:{_t}, out r:{_t})"
    LINES[f"{_p}lassq"] = f"{_p}lassq(n:i32, in x:{_t}[n] inc incx, incx, inout scl:{_r}, inout sumsq:{_r})"
# Its head says that w goes in only; it is written over.
for _p, _t in (("s", "f32"), ("d", "f64")):
    LINES[f"{_p}laed9"] = (
        f"{_p}laed9(k:i32, kstart:i32, kstop:i32, n:i32, inout d:{_t}[n], inout q:{_t}[n,n] ld ldq, ldq, rho:{_t}, "
        f"in dlamda:{_t}[k], inout w:{_t}[k], inout s:{_t}[k,k] ld lds, lds, out info:i32 status) xerbla"
    )

# What is not served because nobody has seen it keep to what is said of it.
UNFIT = "it does not look at its arguments, and reaches behind its arrays with some that its callers in LAPACK do not pass"
INNER = [
    "lar1v",
    "laebz",
    "laed1",
    "laed4",
    "laein",
    "laln2",
    "larfb_gett",
    "larrd",
    "lasd4",
    "lasdt",
    "lasq3",
    "lasq4",
    "lasyf",
    "lahef",
    "lasyf_rook",
    "lahef_rook",
    "lasyf_rk",
    "lahef_rk",
    "latdf",
    "sytf2_rk",
    "hetf2_rk",
    "gelqt3",
    "geqrt3",
]
UNSEEN = "`forebay serve --check --call` and the programs of LAPACK's own tests have not shown that its line is true"
STAGES = "how much work it takes is said by the program's own ilaenv2stage"

XBLAS = re.compile(r"[sdcz](?:la_\w+|larscl2|lascl2|\w\wrfsx|\w\wsvxx)")
WANTS_XBLAS = "it needs XBLAS, without which libraries are mostly built"

TWO_STAGES = [
    "sbev",
    "sbevd",
    "sbevx",
    "syev",
    "syevd",
    "syevr",
    "syevx",
    "sygv",
    "sysv_aa",
    "sytrd",
    "sytrf_aa",
    "sytrs_aa",
    "hbev",
    "hbevd",
    "hbevx",
    "heev",
    "heevd",
    "heevr",
    "heevx",
    "hegv",
    "hesv_aa",
    "hetrd",
    "hetrf_aa",
    "hetrs_aa",
]

_ANSWERS = "it answers at once, and what it answers is of the machine that asks"
_PROSE = "its head says extents in prose that depends on several arguments"
LOCAL = {
    **dict.fromkeys(
        [
            "lsame",
            "ilaver",
            "ieeeck",
            "ilaenv",
            "ilaenv2stage",
            "iparmq",
            "iparam2stage",
            "xerbla",
            "xerbla_array",
        ],
        _ANSWERS,
    ),
    **dict.fromkeys(["disnan", "sisnan", "dlaisnan", "slaisnan", "la_xisnan", "la_constants"], _ANSWERS),
    **{f"{p}gesvdx": UNSEEN for p in "sdcz"},
    **{f"{p}{s}": UNSEEN for p in "cz" for s in ("lapll", "latrd")},
    **{f"{p}{s}": UNFIT for p in "sdcz" for s in INNER},
    **{f"{p}{s}_2stage": STAGES for p in "sdcz" for s in TWO_STAGES},
    **dict.fromkeys(
        ["sorhr_col", "dorhr_col", "cunhr_col", "zunhr_col"],
        "it writes nb rows of t, of which its head says min(nb,n)",
    ),
    **{f"{p}lacon": "it keeps its state between calls" for p in "sdcz"},
    **{
        f"{p}{s}": _PROSE
        for p in "sdcz"
        for s in [
            "gejsv",
            "gesvdq",
            "bdsdc",
            "bdsvdx",
            "orcsd",
            "uncsd",
            "laswp",
            "latsqr",
            "laswlq",
            "orgtsqr",
            "ungtsqr",
        ]
    },
}
