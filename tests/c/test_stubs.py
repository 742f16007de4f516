"""Stubs in the place of a library: programs that know nothing of services call remote BLAS and LAPACK.

The reference is Debian's: the test programs of BLAS and LAPACK (libblas-test, liblapack-test) print over the stubs what
they print on the same library in their own process.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit import PROGRAMS, ROOT, Home, Kit
from places import ended, run

EXAMPLE = ROOT / "examples" / "02_blas"
TESTS = next(Path("/usr/lib").glob("*/blas/xblat1d"), Path("/usr/lib/none/blas/xblat1d")).parent
LAPACK_TESTS = TESTS.parent / "lapack"
LIBRARY = TESTS / "libblas.so.3"
LAPACK_LIBRARY = LAPACK_TESTS / "liblapack.so.3"
BLAS_PROGRAMS = [f"xblat{level}{p}" for level in "123" for p in "sdcz"]
BLAS_PROGRAMS += [f"x{p}cblat{level}" for level in "123" for p in "sdcz"]
# What runs within seconds; the rest with FOREBAY_LAPACK_TESTS=all (make deep).
LAPACK_RUNS = [("xeigtstd", "nep"), ("xeigtstd", "sep")]
LAPACK_MORE = [("xlintstd", "dtest"), ("xlintstz", "ztest"), ("xeigtstz", "nep"), ("xeigtstd", "svd")]
if os.environ.get("FOREBAY_LAPACK_TESTS") == "all":
    LAPACK_RUNS += LAPACK_MORE


class Stubs:
    """The stubs of one interface file, built once."""

    def __init__(self, kit: Kit, folder: Path, file: str) -> None:
        self.command = kit.prefix / "bin" / "forebay"
        self.file = EXAMPLE / file
        self.library = folder / f"libforebay_{self.file.stem}.so"
        run(self.command, "stubs", "--native", "--build", self.library, self.file, timeout=300)

    def serve(self, home: Home, library: Path) -> subprocess.Popen[str]:
        """A server of the library; who calls waits for it by FOREBAY_PATIENCE."""
        return home.start(self.command, "serve", library, "--idl", self.file)


@pytest.fixture(scope="module")
def blas(kit: Kit, tmp_path_factory: pytest.TempPathFactory) -> Stubs:
    return Stubs(kit, tmp_path_factory.mktemp("blas"), "blas.fbi")


@pytest.fixture(scope="module")
def lapack(kit: Kit, tmp_path_factory: pytest.TempPathFactory) -> Stubs:
    return Stubs(kit, tmp_path_factory.mktemp("lapack"), "lapack_all.fbi")


@pytest.fixture(scope="module")
def blas_home(kit: Kit, blas: Stubs) -> Iterator[Home]:
    home = Home(kit)
    blas.serve(home, LIBRARY)
    yield home
    home.close()


@pytest.fixture(scope="module")
def lapack_home(kit: Kit, lapack: Stubs) -> Iterator[Home]:
    home = Home(kit)
    lapack.serve(home, LAPACK_LIBRARY)
    yield home
    home.close()


def calls(report: Path) -> int:
    """How many calls went out."""
    return sum(int(n) for n in re.findall(r"^all of process \d+: (\d+) out", report.read_text(), re.M))


def printed(home: Home, program: Path, given: Path | None, folder: Path, **variables: str) -> str:
    """What a test program prints, and what it writes into the file of its summary."""
    folder.mkdir()
    with (given or Path(os.devnull)).open() as standard:
        process = home.start(program, env={**home.env, **variables}, stdin=standard, cwd=folder)
        out, _ = ended(process, timeout=900)
    written = "".join(f.read_text() for f in sorted(folder.glob("*.out")))
    return re.sub(r"(?m)^ *Total time used.*$", "", out + written)


def same(home: Home, stubs: Stubs, program: Path, given: Path | None, tmp_path: Path) -> None:
    search = f"{LAPACK_TESTS}:{TESTS}"
    local = printed(home, program, given, tmp_path / "local", LD_LIBRARY_PATH=search)
    report = tmp_path / "report"
    remote = printed(
        home,
        program,
        given,
        tmp_path / "remote",
        LD_LIBRARY_PATH=search,
        LD_PRELOAD=str(stubs.library),
        FOREBAY_STUBS_REPORT=str(report),
        FOREBAY_PATIENCE="60",
    )
    assert remote == local
    assert re.search("pass", local, re.I)
    assert calls(report) > 100


@pytest.mark.skipif(not LIBRARY.exists(), reason="no reference tests of BLAS; apt-get install libblas-test")
@pytest.mark.parametrize("program", BLAS_PROGRAMS)
def test_a_test_program_of_blas_prints_over_stubs_what_it_prints_locally(
    blas: Stubs, blas_home: Home, program: str, tmp_path: Path
) -> None:
    level, letter = re.search(r"\d", program)[0], re.sub(r"^x(c?blat\d)?|cblat\d$", "", program)  # type: ignore[index]
    data = f"{letter}in{level}" if "cblat" in program else f"{letter}blat{level}.in"
    given = None if level == "1" else TESTS / data
    same(blas_home, blas, TESTS / program, given, tmp_path)


@pytest.mark.skipif(not LAPACK_LIBRARY.exists(), reason="no tests of LAPACK; apt-get install liblapack-test")
@pytest.mark.parametrize(("program", "data"), LAPACK_RUNS)
def test_a_test_program_of_lapack_prints_over_stubs_what_it_prints_locally(
    lapack: Stubs, lapack_home: Home, program: str, data: str, tmp_path: Path
) -> None:
    same(lapack_home, lapack, LAPACK_TESTS / program, LAPACK_TESTS / f"{data}.in", tmp_path)


EXPECTED = "55475\n28\n5 27 7 162\nxerbla DSYRK  3\n"


@pytest.fixture
def linked(kit: Kit, blas: Stubs, tmp_path: Path) -> Path:
    """A program that is linked with the stubs in the place of BLAS."""
    made = tmp_path / "linked"
    source, library = PROGRAMS / "stubs.c", blas.library
    run("cc", "-std=gnu11", "-O1", "-Wall", source, library, f"-Wl,-rpath,{library.parent}", "-o", made)
    return made


def test_a_program_linked_with_stubs_calls_a_server_and_one_with_them_in_front_too(
    blas_home: Home, blas: Stubs, linked: Path, tmp_path: Path
) -> None:
    report = tmp_path / "report"
    given = {"FOREBAY_STUBS_REPORT": str(report), "FOREBAY_PATIENCE": "60"}
    out = blas_home.run(linked, **given)
    assert out == EXPECTED
    assert calls(report) == 4
    local = tmp_path / "local"
    run("cc", "-std=gnu11", PROGRAMS / "stubs.c", LIBRARY, "-rdynamic", f"-Wl,-rpath,{TESTS}", "-o", local)
    assert blas_home.run(local) == out
    report.unlink()
    assert blas_home.run(local, LD_PRELOAD=str(blas.library), **given) == out
    assert calls(report) == 4


def test_stubs_have_further_symbols_on_request_and_are_made_of_what_a_server_tells(
    blas_home: Home, blas: Stubs, linked: Path, tmp_path: Path
) -> None:
    (tmp_path / "calls.c").write_text(
        "#include <stdio.h>\n"
        "double ddot(int *, double *, int *, double *, int *), ddot__(int *, double *, int *, double *, int *);\n"
        "int main(void)\n{\n    int n = 3, one = 1;\n    double x[] = { 1, 2, 3 };\n"
        '    printf("%g %g\\n", ddot(&n, x, &one, x, &one), ddot__(&n, x, &one, x, &one));\n    return 0;\n}\n'
    )
    library = tmp_path / "libalso.so"
    also = ["--also", "%s", "--also", "%s__", "--also", "%s_"]
    # The server tells which file it serves: by one of its services, or by its name.
    blas_home.run(linked, FOREBAY_PATIENCE="60")
    for asked in ("dgemm", "libblas.so.3"):
        blas_home.run(blas.command, "stubs", "--native", *also, "--build", library, asked, timeout=300)
        made = tmp_path / "calls"
        run("cc", "-fno-builtin", tmp_path / "calls.c", library, f"-Wl,-rpath,{tmp_path}", "-o", made)
        assert blas_home.run(made, FOREBAY_PATIENCE="60") == "14 14\n"
    process = blas_home.start(blas.command, "stubs", "--lang", "python", "nothing")
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert '"nothing" is neither a file, nor a service or the name of a server of a compiled library' in said
    process = blas_home.start(blas.command, "stubs", "--native", "--also", "%d", blas.file)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert '"%d" is no pattern of symbols' in said


def test_a_child_of_fork_calls_by_a_connection_of_its_own(blas_home: Home, linked: Path) -> None:
    out = blas_home.run(linked, "fork", FOREBAY_PATIENCE="60")
    assert "child 7" in out.splitlines()
    assert out.splitlines()[0] == out.splitlines()[-1]


OWN = """
#include <stdint.h>
void both_(const int32_t *n, double *y, double *x)
{
    for (int32_t i = 0; i < *n; i++) x[i] += 1, y[i] += 10;
}
void solve_(const int32_t *n, double *a, const int32_t *lda, double *work, const int32_t *lwork, int32_t *info)
{
    *info = *n > *lda ? -3 : 0;
    work[0] = 2 * *n;
    if (*lwork == -1) return;
    for (int32_t i = 0; i < *n; i++) a[i * *lda + i] = work[i] = *lwork;
}
"""
OWN_LINES = """fbi 1
set library "FOLDER/libown.so"; set convention fortran; set symbol "%s_"; set stubs changed
both(n:i32, inout y:f64[n], inout x:f64[n+2])
solve(n:i32, inout a:f64[n,max(1,n)] ld lda, lda, work work:f64[max(1,lwork)] query lwork, lwork, out info:i32 status)
"""
OWN_CALLS = """
#include <stdio.h>
void both_(int *, double *, double *), solve_(int *, double *, int *, double *, int *, int *);
int main(void)
{
    int n = 3, lda = 4, lwork = -1, info = 7;
    double all[6] = { 1, 2, 3, 4, 5, 6 }, a[12] = { 0 }, work[6] = { 0 };
    both_(&n, all + 3, all); /* x of the line reaches into y */
    for (int i = 0; i < 6; i++) printf("%g ", all[i]);
    for (int few = 0; few < 4; few += 3) {
        solve_(&few, (double *)16, &lda, work, &lwork, &info); /* nothing can be read at 16 */
        printf("%g %d ", work[0], info);
    }
    lwork = 6;
    solve_(&n, a, &lda, work, &lwork, &info);
    printf("%g %g %g %g\\n", a[0], a[5], a[10], a[3]);
    return 0;
}
"""


def with_stubs(kit: Kit, folder: Path, lines: str, *sources: str) -> Path:
    """A program, the second source, that is linked with stubs by these lines of a library, the first source."""
    for name, text in zip(
        ("own.c", "calls.c", "own.fbi"), (*sources, lines.replace("FOLDER", str(folder))), strict=True
    ):
        (folder / name).write_text(text)
    own, stubs = folder / "libown.so", folder / "libstubs.so"
    run("cc", "-shared", "-fPIC", folder / "own.c", "-o", own)
    run(
        kit.prefix / "bin" / "forebay", "stubs", "--native", "--build", stubs, folder / "own.fbi", timeout=300
    )
    run("cc", folder / "calls.c", stubs, f"-Wl,-rpath,{folder}", "-o", folder / "calls")
    run("cc", folder / "calls.c", own, f"-Wl,-rpath,{folder}", "-o", folder / "local")
    return folder / "calls"


def test_only_what_a_routine_changed_is_written_and_nothing_travels_when_it_is_asked_for_a_length(
    kit: Kit, home: Home, tmp_path: Path
) -> None:
    calls = with_stubs(kit, tmp_path, OWN_LINES, OWN, OWN_CALLS)
    home.start(kit.prefix / "bin" / "forebay", "serve", "--idl", tmp_path / "own.fbi")
    out = home.run(calls, FOREBAY_PATIENCE="60")
    assert out == "2 3 4 14 15 16 0 0 6 0 6 6 6 0\n"


LEAVES = """
#include <stdint.h>
void leaves_(const int32_t *n, double *dense, double *apart, const int32_t *inc, float *box, const int32_t *ld,
             int32_t *flag, double *least, int32_t *info)
{
    *info = *n < 0 ? -1 : *n > 3 ? -3 : 0;
    if (*info) return; /* before anything is written */
    dense[1] = apart[*inc] = box[*ld + 1] = *least = *n;
    *flag = 1;
}
"""
LEAVES_LINES = """fbi 1
set library "FOLDER/libown.so"; set convention fortran; set symbol "%s_"
leaves(n:i32, out dense:f64[n], out apart:f64[n] inc inc, inc, out box:f32[n,n] ld ld, ld, out flag:bool, out least:f64,
       out info:i32 status)
"""
LEAVES_CALLS = """
#include <stdio.h>
void leaves_(int *, double *, double *, int *, float *, int *, int *, double *, int *);
int main(void)
{
    for (int n = 2; n < 5; n++) {
        int inc = 2, ld = 5, flag = 0, info = 9;
        double dense[4], apart[8], least = 42;
        float box[20];
        for (int i = 0; i < 20; i++) dense[i % 4] = apart[i % 8] = box[i] = 42;
        leaves_(&n, dense, apart, &inc, box, &ld, &flag, &least, &info);
        printf("%d %d %d %g:", n, info, flag, least);
        for (int i = 0; i < 4; i++) printf(" %g", dense[i]);
        for (int i = 0; i < 8; i++) printf(" %g", apart[i]);
        for (int i = 0; i < 20; i++) printf(" %g", box[i]);
        printf("\\n");
    }
    return 0;
}
"""


@pytest.mark.parametrize("setting", ["", "set stubs changed\n"])
def test_what_a_routine_leaves_alone_is_over_stubs_as_it_was(
    kit: Kit, home: Home, tmp_path: Path, setting: str
) -> None:
    lines = LEAVES_LINES.replace("leaves(", f"{setting}leaves(")
    calls = with_stubs(kit, tmp_path, lines, LEAVES, LEAVES_CALLS)
    home.start(kit.prefix / "bin" / "forebay", "serve", "--idl", tmp_path / "own.fbi")
    local = home.run(tmp_path / "local")
    assert local.splitlines()[-1] == "4 -3 0 42:" + 32 * " 42"
    assert home.run(calls, FOREBAY_PATIENCE="60") == local


def test_stubs_of_another_interface_file_than_the_server_s_are_refused(
    kit: Kit, home: Home, tmp_path: Path
) -> None:
    # What the stub calls inout is in at the server: the results would stay there.
    calls = with_stubs(kit, tmp_path, OWN_LINES, OWN, OWN_CALLS)
    (tmp_path / "own.fbi").write_text(OWN_LINES.replace("FOLDER", str(tmp_path)).replace("inout y", "in y"))
    home.start(kit.prefix / "bin" / "forebay", "serve", "--idl", tmp_path / "own.fbi")
    process = home.start(calls, env={**home.env, "FOREBAY_PATIENCE": "60"})
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (-signal.SIGABRT, "")
    assert "make them of one" in err and "inout y:f64[y_0]" in err and " in y:f64[y_0]" in err


def test_without_a_server_a_program_ends_with_a_message_and_no_number(home: Home, linked: Path) -> None:
    process = home.start(linked)
    out, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGABRT
    assert out == ""
    assert "forebay stubs: dgemm:" in err
    assert "forebay serve" in err
    assert "or set FOREBAY_STUBS=auto" in err
    process = home.start(linked, env={**home.env, "FOREBAY_STUBS": "auto"})
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (-signal.SIGABRT, "")
    assert "none behind the stubs has the routine; link the library itself behind them" in err


def test_without_a_server_the_library_behind_the_stubs_is_used_if_that_was_said(
    home: Home, blas: Stubs, tmp_path: Path
) -> None:
    local, report = tmp_path / "local", tmp_path / "report"
    run("cc", "-std=gnu11", PROGRAMS / "stubs.c", LIBRARY, "-rdynamic", f"-Wl,-rpath,{TESTS}", "-o", local)
    plain = home.run(local)
    given = {"LD_PRELOAD": str(blas.library), "FOREBAY_STUBS_REPORT": str(report)}
    process = home.start(local, env={**home.env, **given, "FOREBAY_STUBS": "auto"})
    out, err = ended(process)
    assert out == plain
    assert err.count("going on with the local library") == 1
    assert home.run(local, FOREBAY_STUBS="off", **given) == plain
    assert calls(report) == 0
    process = home.start(local, env={**home.env, **given, "FOREBAY_STUBS": "sometimes"})
    _, err = process.communicate(timeout=60)
    assert 'FOREBAY_STUBS is "sometimes"; set it to remote, auto or off' in err


def test_small_calls_stay_local_if_that_was_said(blas_home: Home, blas: Stubs, tmp_path: Path) -> None:
    local, report = tmp_path / "local", tmp_path / "report"
    run("cc", "-std=gnu11", PROGRAMS / "stubs.c", LIBRARY, "-rdynamic", f"-Wl,-rpath,{TESTS}", "-o", local)
    given = {"LD_PRELOAD": str(blas.library), "FOREBAY_STUBS_REPORT": str(report)}
    blas_home.run(local, FOREBAY_STUBS_MIN="1e6", FOREBAY_PATIENCE="60", **given)
    assert re.search(r"^dgemm 0 out 1 local$", report.read_text(), re.M)


def test_functions_in_c_and_cplusplus_and_fortran_call_the_services(
    kit: Kit, blas_home: Home, blas: Stubs, tmp_path: Path
) -> None:
    for language, name in (("c", "blas.h"), ("c++", "blas.hpp"), ("fortran", "blas_remote.f90")):
        (tmp_path / name).write_text(run(blas.command, "stubs", "--lang", language, blas.file))
    flags = ["-I", str(tmp_path), *kit.flags("--cflags", "--libs")]
    run("cc", "-std=c99", "-Wall", "-Wextra", "-Werror", PROGRAMS / "typed.c", *flags, "-o", tmp_path / "c")
    run("c++", "-std=c++17", "-Wall", "-Wextra", PROGRAMS / "typed.cpp", *flags, "-o", tmp_path / "cpp")
    words = blas_home.run(tmp_path / "c", FOREBAY_PATIENCE="60").splitlines()
    assert words[0] == "10 14 0 14 20 0 14"
    assert "dgemm" in words[1].lower()
    few = "dgemm: a has the leading dimension {} and 2 rows; pass at least as many, or 0 for just as many"
    assert words[2:] == [few.format(-1), few.format(1)]
    assert blas_home.run(tmp_path / "cpp", FOREBAY_PATIENCE="60") == "10 14 14 20 14\n"
    compiler = shutil.which("gfortran") or "gfortran"
    library = [blas.library, f"-Wl,-rpath,{blas.library.parent}"]
    sources = [tmp_path / "blas_remote.f90", PROGRAMS / "typed.f90"]
    run(compiler, "-J", tmp_path, *sources, *library, "-o", tmp_path / "f")
    assert blas_home.run(tmp_path / "f", FOREBAY_PATIENCE="60").split() == [
        "10.0",
        "14.0",
        "14.0",
        "20.0",
        "14.0",
    ]


def test_a_module_of_python_calls_the_services(blas_home: Home, blas: Stubs, tmp_path: Path) -> None:
    (tmp_path / "blas_remote.py").write_text(run(blas.command, "stubs", "--lang", "python", blas.file))
    program = (
        "import blas_remote as blas, numpy as np\n"
        "a = np.asfortranarray([[1.0, 3.0], [2.0, 4.0]])\n"
        "c = np.zeros((2, 2), order='F')\n"
        "blas.dgemm('N', 'T', 2, 1.0, a, a.copy('F'), 0.0, c)\n"
        "print(c.T.tolist(), blas.ddot(a[0], a[1]))\n"
    )
    env = {**blas_home.env, "PYTHONPATH": str(tmp_path), "FOREBAY_PATIENCE": "60"}
    out, _ = ended(blas_home.start(sys.executable, "-c", program, env=env))
    assert out == "[[10.0, 14.0], [14.0, 20.0]] 14.0\n"


def test_a_module_of_python_refuses_what_an_argument_cannot_be_by_name_and_raises_a_status(
    kit: Kit, home: Home, tmp_path: Path
) -> None:
    (tmp_path / "own.c").write_text(
        "#include <stdint.h>\n"
        "int32_t solve(int32_t n, const double *a, double *y)\n"
        "{ for (int i = 0; i < n; i++) y[i] = a[n * i + i]; return n == 3 ? -2 : n == 4; }\n"
        "int32_t letter(char c) { return c; }\n"
    )
    run("cc", "-shared", "-fPIC", tmp_path / "own.c", "-o", tmp_path / "libown.so")
    (tmp_path / "own.fbi").write_text(
        f'fbi 1\nset library "{tmp_path}/libown.so"; set convention c\n'
        "solve(n:i32, in a:f64[n,n], out y:f64[n]) -> i32 status <0 'argument {-result} is wrong'\n"
        "letter(c:char) -> i32\n"
    )
    (tmp_path / "own_remote.py").write_text(
        run(kit.prefix / "bin" / "forebay", "stubs", "--lang", "python", tmp_path / "own.fbi")
    )
    home.start(kit.prefix / "bin" / "forebay", "serve", "--idl", tmp_path / "own.fbi")
    program = """
import forebay as fb, numpy as np, own_remote as own
def refused(f, *args, **more):
    try:
        return f(*args, **more)
    except fb.Error as e:
        return f"{type(e).__name__} {e}"
print(refused(own.solve, [[1.0, 2.0], [3.0, 4.0]]))
print(refused(own.solve, np.ones(4)))
print(refused(own.solve, np.ones((2, 2), np.float32)))
print(refused(own.solve, np.ones((2, 2)), n=2**40))
print(refused(own.solve, np.ones((2, 2)), n="two"))
print(refused(own.letter, ""), refused(own.letter, 3), refused(own.letter, "bc"), refused(own.letter, "b"))
print(refused(own.solve, np.diag([3.0, 5.0])), refused(own.solve, np.ones((3, 3))), refused(own.solve, np.ones((4, 4))))
"""
    env = {**home.env, "PYTHONPATH": str(tmp_path), "FOREBAY_PATIENCE": "60"}
    out, _ = ended(home.start(sys.executable, "-c", program, env=env))
    wanted = [
        r"BadArgument solve: a is \[\[1.0, 2.0\], \[3.0, 4.0\]\], list; pass an array of NumPy, of float64 with 2 axes",
        r"BadArgument solve: a has the shape \(4,\); pass an array of float64 with 2 axes",
        r"BadArgument solve: parameter a is f64\[n,n\] order C: got f32\(2, 2\); convert its elements to f64",
        r"BadArgument solve: n is 1099511627776, int; pass an integer from -2147483648 to 2147483647",
        r"BadArgument solve: n is 'two', str; pass an integer",
        r"BadArgument letter: c is '', str; pass one character BadArgument letter: c is 3, int; pass one character "
        r"BadArgument letter: c is 'bc', str; pass one character 98",
        r"\[3. 5.\] Failed solve: argument 2 is wrong Failed solve: its status is 1",
    ]
    for line, pattern in zip(out.splitlines(), wanted, strict=True):
        assert re.match(pattern, line), f"{line}\n{pattern}"
