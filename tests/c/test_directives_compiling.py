"""What `forebay cc` makes of sources and of words for the compiler, where a compiler alone would say nothing."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

import pytest
from kit import Kit, compiled, forebay_cc
from places import until

MAIN = "int main(void)\n{\n    double a[3] = { 0 };\n    //fb create A, a\n    return a[0] != 0;\n}\n"


def refusal(kit: Kit, cwd: Path, *words: str | Path) -> str:
    """What is said of words that are refused."""
    done = forebay_cc(kit, *words, cwd=cwd)
    assert done.returncode == 1, done.stderr
    return done.stderr


def test_a_directive_never_becomes_the_statement_of_a_pragma_or_a_hidden_if(kit: Kit, tmp_path: Path) -> None:
    head = "int main(void)\n{\n    int x = 0;\n"
    for lines, says in [
        ("#pragma omp parallel", "`#pragma omp parallel` in line 4 takes the statement behind it"),
        ("#pragma omp parallel for", "takes the loop or assignment behind it"),
        (
            "    if (x)\n#ifdef DEBUG\n        x = 2;\n#endif",
            "the one before it has not ended: it ends in `)`",
        ),
    ]:
        (tmp_path / "f.c").write_text(f"{head}{lines}\n    //fb connect\n    return x;\n}}\n")
        said = refusal(kit, tmp_path, "-fopenmp", "-c", "f.c")
        assert re.match(r"f\.c:\d:5: error: ", said) and says in said, said
    braces = (
        f"{head}#pragma omp parallel\n    {{\n        //fb connect\n        x++;\n    }}\n    return x;\n}}\n"
    )
    (tmp_path / "f.c").write_text(braces)
    compiled(kit, "-fopenmp", "-c", "f.c", cwd=tmp_path)


def test_a_comment_that_may_have_been_meant_is_told_and_compiled(kit: Kit, tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text(MAIN.replace("//fb create", "// fb create"))
    done = forebay_cc(kit, "-c", "f.c", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == (
        "f.c:4:5: warning: this comment is no directive, which begins with `//fb `; did you mean `//fb create A, a`?\n"
    )


def test_sources_and_options_may_stand_in_files(kit: Kit, tmp_path: Path) -> None:
    (tmp_path / "a b.c").write_text(MAIN.replace("return", "return WHAT +"))
    (tmp_path / "inner").write_text("'-DWHAT=0'\n-Wall -Werror\n")
    (tmp_path / "outer").write_text('-c "a b.c"\n@inner -DTEXT=\\"x\\"\n')
    compiled(kit, "@outer", "-o", "f.o", cwd=tmp_path)
    names = subprocess.run(["nm", "f.o"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert "fb_ref_create" in names
    (tmp_path / "again").write_text("@again")
    assert "does it name itself?" in refusal(kit, tmp_path, "@again")
    # More words than a command line has go to the compiler in a file, too.
    (tmp_path / "many").write_text("\n".join(f"-DX{i}=1" for i in range(300_000)))
    (tmp_path / "copies").write_text('#!/bin/sh\ncp "${1#@}" given\n')
    (tmp_path / "copies").chmod(0o755)
    done = forebay_cc(kit, "@outer", "@many", cwd=tmp_path, CC=str(tmp_path / "copies"))
    assert (done.returncode, done.stderr) == (0, "")
    given = (tmp_path / "given").read_text()
    assert "\n-DX0=1\n" in given and "\n-DX299999=1\n" in given and "/a\\ b.c\n" in given


# A compiler that starts another process, as gcc does, and never ends.
ENDLESS = """#!/bin/sh
for word; do case $word in *.c) ls -d "$word" > seen;; esac; done
outer=$$ sh -c 'echo $outer $$ > pids.new && mv pids.new pids && exec sleep 1000'
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_compiler_too_and_leaves_no_file(
    kit: Kit, tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "f.c").write_text(MAIN)
    (tmp_path / "endless").write_text(ENDLESS)
    (tmp_path / "endless").chmod(0o755)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    env = {**kit.env, "CC": str(tmp_path / "endless"), "TMPDIR": str(temporary)}
    command = [kit.prefix / "bin" / "forebay", "cc", "-c", "f.c"]
    process = subprocess.Popen(command, cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True)
    until((tmp_path / "pids").exists, what="the compiler")
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    translated = Path((tmp_path / "seen").read_text().strip())
    assert translated.is_relative_to(temporary) and translated.exists()
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    # It has ended as if the signal had met nobody else, which make asks for.
    assert (process.returncode, err) == (-number, "")
    assert list(temporary.iterdir()) == []

    def gone(pid: int) -> bool:
        stat = Path(f"/proc/{pid}/stat")
        return not stat.exists() or ") Z " in stat.read_text()

    until(lambda: all(gone(pid) for pid in pids), what="the end of what it started")


def test_a_signal_that_nohup_has_ignored_ends_nothing(kit: Kit, tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text(MAIN)
    (tmp_path / "slow").write_text("#!/bin/sh\ntouch begun\nwhile [ ! -e go ]; do sleep 0.01; done\n")
    (tmp_path / "slow").chmod(0o755)
    command = ["sh", "-c", 'trap "" HUP TERM; exec "$0" cc -c f.c', str(kit.prefix / "bin" / "forebay")]
    env = {**kit.env, "CC": str(tmp_path / "slow")}
    process = subprocess.Popen(command, cwd=tmp_path, env=env)
    until((tmp_path / "begun").exists, what="the compiler")
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    (tmp_path / "go").touch()
    assert process.wait(timeout=60) == 0


def test_what_is_kept_takes_the_place_of_nothing_that_somebody_else_wrote(kit: Kit, tmp_path: Path) -> None:
    for name in ("f.c", "g.c"):
        (tmp_path / name).write_text(MAIN)
    own = tmp_path / "g.fb.c"
    own.write_text("/* mine */\n")
    said = refusal(kit, tmp_path, "--keep", "-c", "f.c", "g.c")
    assert "g.fb.c is there and was not made by forebay cc; move it away, or leave --keep out" in said
    assert own.read_text() == "/* mine */\n" and not (tmp_path / "f.fb.c").exists()
    own.unlink()
    for _ in range(2):
        compiled(kit, "--keep", "-c", "f.c", "g.c", cwd=tmp_path)
        (tmp_path / "f.c").write_text(MAIN.replace("double", "float"))
    assert "float a[3]" in (tmp_path / "f.fb.c").read_text()
    assert own.read_text().startswith("/* Made by forebay cc; changes here are lost. */\n")
    # It is a source as any other one, whose lines are those of the first.
    broken = own.read_text().replace("return", "nonsense")
    own.write_text(broken)
    assert re.search(r"^g\.c:5:\d+: error", refusal(kit, tmp_path, "-c", "g.fb.c"), re.M)


def test_a_mark_of_an_editor_before_the_source_is_none_of_it(kit: Kit, tmp_path: Path) -> None:
    for name in ("f.c", "f.cpp"):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf#include <stdio.h>\n" + MAIN.encode())
        compiled(kit, "-Wall", "-Werror", "-c", name, cwd=tmp_path)
    (tmp_path / "g.c").write_bytes(b"\xef\xbb\xbf//fb extern A\n" + MAIN.encode())
    assert "g.c:1:" in refusal(kit, tmp_path, "-c", "g.c")


@pytest.mark.parametrize(
    ("name", "standards", "least"),
    [
        ("f.c", ["-std=gnu89", "-std=c90", "-ansi", "-std=iso9899:1990"], "-std=gnu99"),
        ("f.cpp", ["-std=c++98", "-std=gnu++03", "-ansi"], "-std=gnu++11"),
    ],
)
def test_a_standard_that_is_too_old_is_refused_by_name(
    kit: Kit, tmp_path: Path, name: str, standards: list[str], least: str
) -> None:
    (tmp_path / name).write_text(MAIN)
    for standard in standards:
        said = refusal(kit, tmp_path, "-c", standard, name)
        assert f"{standard}: what becomes of the directives in {name}" in said and least in said, said
    variable = "CC" if name == "f.c" else "CXX"
    done = forebay_cc(kit, "-c", name, cwd=tmp_path, **{variable: f"c++ {standards[0]}"})
    assert done.returncode == 1 and least in done.stderr
    compiled(kit, standards[0], least, "-c", name, cwd=tmp_path)
    (tmp_path / name).write_text("int f(void) { return 0; }\n")
    compiled(kit, standards[0], "-c", name, cwd=tmp_path)


def words_of(*headers: str) -> list[str]:
    """The names of a header in small letters that a program may call its own macros."""
    text = "\n".join(Path(header).read_text() for header in headers)
    text = re.sub(r'/\*.*?\*/|//[^\n]*|"[^"\n]*"', " ", text, flags=re.S)
    text = re.sub(r"^\s*#\s*(include|pragma|error|if|ifdef|ifndef|define)\b[^\n]*", " ", text, flags=re.M)
    return sorted(
        {word for word in re.findall(r"\b[a-z]\w*\b", text) if not word.startswith(("fb", "int", "uint"))}
    )


KEYWORDS = """defined stdout stderr auto bool break case char const constexpr const_cast continue decltype default do double else enum extern
false float for goto if inline int long namespace new nullptr operator register reinterpret_cast restrict return short
signed sizeof static static_assert static_cast struct switch template this true typedef typename union unsigned using
void volatile while class private public friend"""


@pytest.mark.parametrize("name", ["f.c", "f.cpp"])
def test_macros_of_the_program_may_have_any_name_that_our_headers_use(
    kit: Kit, tmp_path: Path, name: str
) -> None:
    include = kit.prefix / "include"
    headers = [include / "forebay.h", *(include / "forebay").glob("directives*.h")]
    names = [word for word in words_of(*(str(h) for h in headers)) if word not in KEYWORDS.split()]
    assert {"shape", "data", "room", "dtype", "ndim", "order", "size", "status"} <= set(names)
    defines = "".join(f"#define {word} nonsense[(\n" for word in names)
    body = """
void f(void)
{
    double A[2][3];
    double *P = &A[0][0];
    int N = 2;
    //fb create X, A order F
    //fb create Y, P, 3, N
    //fb create Z, f64, 3, N on "s"
    //fb put X, A
    //fb get Y, P, 6
    //fb call g('N', "text", N, &N, X, A, array(P, 6)) async h
    //fb wait h
    //fb kill X, Y, Z
}
"""
    before = f"#define _FILE_OFFSET_BITS 64\n{defines}{body}"
    behind = f"#include <stdio.h>\n{defines}{body}"
    for text in (before, behind):
        (tmp_path / name).write_text(text)
        compiled(kit, "-Wall", "-Wextra", "-c", name, cwd=tmp_path)
    # Those of a header are not seen by who translates.
    (tmp_path / "mine.h").write_text("#define shape 3\n")
    (tmp_path / name).write_text(f'#include "mine.h"\n{body}')
    said = refusal(kit, tmp_path, "-c", name)
    assert "before that header write #ifdef FOREBAY_CC, #include <forebay/directives.h>, #endif" in said
    first = "#ifdef FOREBAY_CC\n#include <forebay/directives.h>\n#endif\n"
    (tmp_path / name).write_text(f'{first}#include "mine.h"\n{body}')
    compiled(kit, "-c", name, cwd=tmp_path)
