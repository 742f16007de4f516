"""`forebay cc` in C and C++: programs with directives, their servers, and what they are told when something is wrong."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from kit import ROOT, Home, Kit, compiled, ended, forebay_cc, hear, run
from places import until

EXAMPLE = ROOT / "examples" / "03_directives"
BLAS = ROOT / "examples" / "02_blas"
OPENBLAS = "-l:libopenblas.so.0"
STRICT = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-pedantic", "-Werror"]
# A library with what BLAS lacks: other types, row-major arrays, letters, and a routine that takes its time.
TOY = """
#include <stdint.h>
#include <time.h>
void rowsums(int n, int m, const float *a, float *s)
{
    for (int i = 0; i < n; i++) { s[i] = 0; for (int j = 0; j < m; j++) s[i] += a[i * m + j]; }
}
void stamp(const char *what, int64_t *got) { *got = what[0]; }
void add(int n, int64_t *x, int64_t what) { for (int i = 0; i < n; i++) x[i] += what; }
void nap(int ms, int *slept)
{
    struct timespec left = { ms / 1000, ms % 1000 * 1000000L };
    while (nanosleep(&left, &left)) { }
    *slept = ms;
}
"""
TOY_LINES = """fbi 1
set library "./libtoy.so"
set convention c; set symbol "%s"; set threads safe
rowsums(n:i32, m:i32, in a:f32[n,m], out s:f32[n])
stamp(what:str, out got:i64)
add(n:i32, inout x:i64[n], what:i64)
nap(ms:i32, out slept:i32)
"""


def refused(kit: Kit, tmp_path: Path, source: str, name: str = "f.c", *words: str) -> str:
    """What is said of a source that is not taken."""
    (tmp_path / name).write_text(source)
    done = forebay_cc(kit, "-c", name, *words, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert not (tmp_path / "f.o").exists()
    return done.stderr


@pytest.fixture
def toy(kit: Kit, home: Home, tmp_path: Path) -> subprocess.Popen[str]:
    """A server of the library above."""
    (tmp_path / "toy.c").write_text(TOY)
    run("cc", "-shared", "-fPIC", "-O2", "toy.c", "-o", "libtoy.so", cwd=tmp_path)
    (tmp_path / "toy.fbi").write_text(TOY_LINES)
    command = [kit.prefix / "bin" / "forebay", "serve", "--idl", "toy.fbi", "--name", "toy"]
    return home.start(*command, cwd=tmp_path)


@pytest.mark.parametrize(
    ("source", "compiler"), [("chain.c", ["cc", "-std=c99"]), ("chain.cpp", ["c++", "-std=c++17"])]
)
def test_the_example_gives_to_the_bit_what_the_plain_program_gives(
    kit: Kit, home: Home, tmp_path: Path, source: str, compiler: list[str]
) -> None:
    for name in ("blas", "lapack"):
        serve = [kit.prefix / "bin" / "forebay", "serve", "--idl", BLAS / f"{name}.fbi", "--name", name]
        home.start(*serve)
    warnings = ["-Wall", "-Wextra", "-Wno-unknown-pragmas"]
    run(*compiler, *warnings, EXAMPLE / "c" / source, OPENBLAS, "-lm", "-o", tmp_path / "here")
    # The local arrays of the plain program are not used then.
    quiet = ["-Wno-unused-variable", "-Wno-unused-but-set-variable"]
    compiled(
        kit,
        *compiler[1:],
        *STRICT,
        "-Wno-sign-conversion",
        *quiet,
        EXAMPLE / "c" / source,
        "-o",
        "there",
        cwd=tmp_path,
    )
    here = run(tmp_path / "here", env={**home.env, "OPENBLAS_NUM_THREADS": "1"})
    assert "info = 0" in here
    assert "openblas" not in run("ldd", tmp_path / "there")
    assert home.run(tmp_path / "there", FOREBAY_PATIENCE="60") == here


BODY = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdint.h>
struct held { float a[2][3]; int64_t *many; };
static int letters(char what)
{
    int64_t got = 0;
    //fb call stamp(what, &got)
    return (int)got;
}
int main(void)
{
    struct held h = { { { 1, 2, 3 }, { 4, 5, 6 } }, NULL };
    float s[2], back[2][3];
    const int n = 4;
    const float fixed[2][3] = { { 1, 1, 1 }, { 2, 2, 2 } };
    int64_t got = 0, x[4] = { 1, 2, 3, 4 };
    memset(back, 0, sizeof back);
    h.many = (int64_t *)calloc(4, sizeof *h.many);
    //fb create A, h.a
    //fb put A, h.a
    //fb call rowsums(2, 3, A, s)
    //fb get A, back
    printf("%g %g, %g %g\\n", (double)s[0], (double)s[1], (double)back[0][0], (double)back[1][2]);
    //fb create X, h.many, n
    //fb put X, x
    //fb call add(n, X, 10) async first
    //fb wait first
    //fb call add(n, X, 1LL << 40)
    //fb get X, h.many, 2, 2
    printf("%lld %lld\\n", (long long)h.many[0], (long long)h.many[3]);
    //fb create Y, i64, 4
    //fb call add(n,
    //fb          Y,            /* what is zero at first */
    //fb          x[1] + x[2])
    //fb call add(4, array(h.many + 2, 2), 1) status got
    printf("refused: %d\\n", (int)got);
    //fb get Y, x
    //fb call stamp("Z", &got)
    printf("%lld %lld %c\\n", (long long)x[0], (long long)got, letters('N'));
    //fb kill A, X, Y
    //fb create F, fixed
    //fb put F, fixed
    //fb call rowsums(2, 3, F, s)
    //fb call rowsums(2, 3, fixed, s)
    //fb get F, fixed status got
    printf("%g %g, const: %d ", (double)s[0], (double)s[1], (int)got);
    //fb call rowsums(2, 3, fixed, array(&fixed[0][0], 2)) status got
    printf("%d\\n", (int)got);
    //fb put A, h.a status got
    printf("gone: %lld\\n", (long long)got);
    const char *text = "//fb kill A"; /* //fb kill A
    //fb kill A
    */
    printf("%s\\n", text);
    free(h.many);
    return 0;
}
"""
SAID = """6 15, 1 6
1099511627787 1099511627790
refused: 3
5 90 N
3 6, const: 3 3
gone: 1
//fb kill A
"""


@pytest.mark.parametrize(
    ("name", "standard"), [("f.c", "c99"), ("f.c", "gnu11"), ("f.cpp", "c++11"), ("f.cpp", "c++17")]
)
def test_arrays_and_numbers_of_all_kinds_go_and_come(
    kit: Kit, home: Home, toy: subprocess.Popen[str], tmp_path: Path, name: str, standard: str
) -> None:
    (tmp_path / name).write_text(BODY)
    compiled(kit, f"-std={standard}", *STRICT, name, "-o", "f", cwd=tmp_path)
    assert home.run(tmp_path / "f", FOREBAY_PATIENCE="60") == SAID
    assert toy.poll() is None


def test_the_plain_compiler_sees_comments(kit: Kit, tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text(BODY)
    run("cc", "-std=c99", *STRICT[:2], "-c", "f.c", cwd=tmp_path)
    assert "fb" not in run("nm", "-u", "f.o", cwd=tmp_path)


TWO = [
    """#include <stdio.h>
double of_other(void);
int main(void)
{
    double a[3] = { 1, 2, 3 }, b[3] = { 0 };
    //fb create A, a on "toy"
    //fb put A, a
    printf("%g ", of_other());
    //fb get B, b
    //fb extern B
    printf("%g %d\\n", b[2], (int)(fbd_all.client != NULL));
    return 0;
}
""",
    """#include <stdio.h>
extern "C" double of_other(void);
void *client_here = 0;
double of_other(void)
{
    double a[3] = { 0, 0, 0 };
    //fb extern A
    //fb get A, a
    //fb create B, a
    //fb put B, a
    printf("%d ", int(fbd_all.arrays != 0 && fbd_all.arrays->next != 0));
    return a[1];
}
""",
]


def test_files_that_are_linked_together_share_names_and_one_connection(
    kit: Kit, home: Home, toy: subprocess.Popen[str], tmp_path: Path
) -> None:
    (tmp_path / "one.c").write_text(TWO[0])
    (tmp_path / "two.cpp").write_text(TWO[1])
    compiled(kit, "-c", "one.c", cwd=tmp_path)
    compiled(kit, "-c", "two.cpp", cwd=tmp_path)
    compiled(kit, "--lang", "c++", "one.o", "two.o", "-o", "both", cwd=tmp_path)
    assert home.run(tmp_path / "both", FOREBAY_PATIENCE="60") == "1 2 3 1\n"
    # The linker takes one of what both files bring along.
    assert len(re.findall(r" [VWBD] fbd_all$", run("nm", tmp_path / "both"), re.M)) == 1
    both = forebay_cc(kit, "one.c", "two.cpp", cwd=tmp_path)
    assert both.returncode == 1 and "compile each with -c" in both.stderr
    assert toy.poll() is None


def test_an_array_is_made_at_a_server_that_offers_what_is_called_with_it(
    kit: Kit, home: Home, toy: subprocess.Popen[str], tmp_path: Path
) -> None:
    home.serve_axpy(tmp_path)
    (tmp_path / "f.c").write_text(
        "#include <stdio.h>\nint main(void)\n{\n    long long x[2] = { 1, 2 };\n    double y[2] = { 1, 1 };\n"
        "    //fb create X, x\n    //fb put X, x\n    //fb call add(2, X, 1)\n    //fb get X, x\n"
        "    //fb create Y, y\n    //fb put Y, y\n    //fb call axpy(2.0, y, Y)\n    //fb get Y, y\n"
        '    printf("%lld %g\\n", x[1], y[1]);\n    return 0;\n}\n'
    )
    compiled(kit, "f.c", "-o", "f", cwd=tmp_path)
    # Servers take turns, so one of two would be the wrong one.
    for _ in range(4):
        assert home.run(tmp_path / "f", FOREBAY_PATIENCE="60") == "3 3\n"
    assert toy.poll() is None


KILLED = """#include <stdio.h>
int main(void)
{
    long long a[3] = { 1, 2, 3 };
    //fb create A, a
    //fb put A, a
    puts("ready");
    fflush(stdout);
    getchar();
    //fb call add(3, A, 1)
    puts("not reached");
    return 0;
}
"""


def test_a_server_that_is_killed_ends_the_program_at_the_line_of_the_directive(
    kit: Kit, home: Home, toy: subprocess.Popen[str], tmp_path: Path
) -> None:
    (tmp_path / "k.c").write_text(KILLED)
    compiled(kit, "k.c", "-o", "k", cwd=tmp_path)
    program = home.start(tmp_path / "k", stdin=subprocess.PIPE, env={**home.env, "FOREBAY_PATIENCE": "60"})
    hear(program, "ready")
    # The library's own process; who looks after it starts another one, which has no arrays.
    lists = Path(f"/proc/{toy.pid}/task").glob("*/children")
    children = [int(pid) for one in lists for pid in one.read_text().split()]
    assert children
    for child in children:
        os.kill(child, signal.SIGKILL)
    until(lambda: not any(Path(f"/proc/{child}").exists() for child in children), what="its end")
    assert program.stdin is not None
    program.stdin.write("\n")
    out, err = ended(program, status=1)
    assert out == ""
    assert err.startswith("k.c:10: fb call add(3, A, 1): ") and "SIGKILL" in err, err


def test_without_a_server_or_an_array_it_is_said_what_is_missing(
    kit: Kit, home: Home, tmp_path: Path
) -> None:
    (tmp_path / "f.c").write_text(
        "int main(void)\n{\n    double a[3] = { 0 };\n    //fb call add(3, a, 1)\n    return 0;\n}\n"
    )
    compiled(kit, "f.c", "-o", "f", cwd=tmp_path)
    out, err = ended(home.start(tmp_path / "f"), status=1)
    assert out == "" and err.startswith('f.c:4: fb call add(3, a, 1): no server offers "add"'), err
    (tmp_path / "g.c").write_text("int main(void)\n{\n    //fb extern A\n    //fb kill A\n    return 0;\n}\n")
    compiled(kit, "g.c", "-o", "g", cwd=tmp_path)
    _, err = ended(home.start(tmp_path / "g"), status=1)
    assert err == "g.c:4: fb kill A: there is no A at a server; create it first\n"


@pytest.mark.parametrize("name", ["f.c", "f.cpp"])
def test_what_the_compiler_refuses_it_refuses_at_the_line_of_the_directive(
    kit: Kit, tmp_path: Path, name: str
) -> None:
    head = "void f(double *p, char **q, double a[3][3], double **r)\n{\n"
    for directive, says in [
        (
            "create A, p",
            "p is a pointer, which does not say how much it points to; write the extents behind it: p, N",
        ),
        ("create A, a", "a is a pointer"),
        ("create A, q, 3", "q has no elements that can travel"),
        ("create A, r, 3", "r points to rows and not to elements"),
        ("put A, a, 3", "write &a[0][0] and all extents"),
        ("call g(array(r, 3))", "r points to rows"),
        ("call g(p)", "write array(p, N), or &VARIABLE for a number that comes back"),
        ("call g(&q)", "&q is not the place of a number"),
        ("put A, nowhere, 3", "nowhere"),
    ]:
        source = f"{head}    int n = 3;\n    //fb extern A\n    //fb {directive}\n    (void)n;\n}}\n"
        said = refused(kit, tmp_path, source, name)
        assert re.search(rf"^{re.escape(name)}:5:\d+: error: .*{re.escape(says)}", said, re.M), said
    outside = refused(kit, tmp_path, "int n;\n\n//fb call f(n)\n", name)
    assert re.search(rf"^{re.escape(name)}:3:\d+: error", outside, re.M), outside


def test_a_directive_that_is_wrong_is_refused_before_the_compiler_is_asked(kit: Kit, tmp_path: Path) -> None:
    source = "void f(void)\n{\n    int x;\n    //fb crate A, x\n    if (x)\n    //fb call g()\n        x = 2;\n    //fb put B, x\n}\n"
    said = refused(kit, tmp_path, source).splitlines()
    assert said[0] == "f.c:4:10: error: `crate` is no directive; did you mean `create`?"
    assert said[1].startswith(
        "f.c:6:5: error: a directive is a statement, and the one before it has not ended"
    )
    assert said[2].startswith("f.c:8:14: error: no directive of this file has created `B`")
    assert len(said) == 3


def test_what_was_made_is_shown_and_kept_and_all_else_goes_to_the_compiler(kit: Kit, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "n.h").write_text("enum { N = 3 };\n")
    source = '#include "n.h"\nint main(void)\n{\n    double a[N]; /* caf\xe9 */\n    //fb create A, a\n    return M;\n}\n'
    (tmp_path / "sub" / "f.c").write_bytes(source.encode("latin-1"))
    shown = forebay_cc(kit, "--print", "sub/f.c", cwd=tmp_path).stdout
    assert 'FBD_DO("create A, a", fbd_create("A", FBD_WHOLE(a), 0, 0, __FILE__, __LINE__));' in shown
    compiled(kit, "--keep", "-c", "-DM=7", "-g", "sub/f.c", cwd=tmp_path)
    assert (tmp_path / "f.o").exists()
    compiled(kit, "-MD", "-MF", "deps.d", "-DM=7", "-c", "sub/f.c", cwd=tmp_path)
    compiled(kit, "-MMD", "-DM=7", "-c", "sub/f.c", "-o", "g.o", cwd=tmp_path)
    for name in ("deps.d", "g.d"):
        listed = (tmp_path / name).read_text().split()
        assert "sub/f.c" in listed and "sub/n.h" in listed, listed
    expanded = forebay_cc(kit, "-E", "-DM=7", "sub/f.c", cwd=tmp_path).stdout
    assert "return 7;" in expanded and "fbd_create(" in expanded
    kept = (tmp_path / "sub" / "f.fb.c").read_bytes()
    assert b"caf\xe9" in kept and b"#include <forebay/directives.h>\n#line 2 " in kept
    failed = forebay_cc(kit, "-c", "sub/f.c", cwd=tmp_path)
    assert failed.returncode == 1 and "sub/f.c:6:" in failed.stderr
    (tmp_path / "plain.c").write_text("int main(void) { return 0; }\n")
    compiled(kit, "plain.c", "-o", "plain", cwd=tmp_path)
    missing = forebay_cc(kit, "missing.c", cwd=tmp_path)
    assert missing.returncode == 1 and "missing.c" in missing.stderr
    for words, says in [(("--lang", "pascal"), "write c, c++ or fortran"), (("-x", "c"), "leave -x out")]:
        done = forebay_cc(kit, *words, "plain.c", cwd=tmp_path)
        assert done.returncode == 1 and says in done.stderr


def test_threads_may_use_directives_at_the_same_time(
    kit: Kit, home: Home, toy: subprocess.Popen[str], tmp_path: Path
) -> None:
    threads = 4
    work = "\n".join(
        f"""static void *work{i}(void *unused)
{{
    long long x[2] = {{ {i}, {i} }}, done = 0;
    for (int k = 0; k < 50; k++) {{
        //fb create X{i}, x
        //fb put X{i}, x
        //fb call add(2, X{i}, 1)
        //fb call add(2, x, 1)
        //fb get X{i}, x
        //fb kill X{i}
    }}
    done = x[0];
    printf("%lld ", done);
    return unused;
}}"""
        for i in range(threads)
    )
    start = "".join(f"pthread_create(&t[{i}], NULL, work{i}, NULL); " for i in range(threads))
    end = f"for (int i = 0; i < {threads}; i++) pthread_join(t[i], NULL);"
    main = f"int main(void)\n{{\n    pthread_t t[{threads}];\n    {start}\n    {end}\n    return 0;\n}}\n"
    (tmp_path / "t.c").write_text(f"#include <pthread.h>\n#include <stdio.h>\n{work}\n{main}")
    compiled(kit, "-Wall", "-Werror", "t.c", "-o", "t", cwd=tmp_path)
    printed = home.run(tmp_path / "t", FOREBAY_PATIENCE="60")
    assert sorted(printed.split()) == [str(50 + i) for i in range(threads)]
    assert toy.poll() is None


def test_the_program_of_the_guide_prints_the_same_with_a_server_and_without(
    kit: Kit, home: Home, tmp_path: Path
) -> None:
    page = (ROOT / "docs" / "guide" / "directives.md").read_text()
    passages = re.findall(r"^```c\n(.*?)^```$", page, re.S | re.M)
    (tmp_path / "steps.c").write_text(passages[0])
    home.serve_axpy(tmp_path)
    compiled(kit, "steps.c", "-o", "steps", cwd=tmp_path)
    run("cc", "steps.c", "-o", "here", cwd=tmp_path)
    assert run(tmp_path / "here") == "2 4 6\n"
    assert home.run(tmp_path / "steps", FOREBAY_PATIENCE="60") == "2 4 6\n"
