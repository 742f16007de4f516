"""The page docs/guide/c.md: what it shows is compiled and run."""

from __future__ import annotations

import re
from pathlib import Path

from kit import C99, ROOT, Home, Kit, run

PAGE = ROOT / "docs" / "guide" / "c.md"
# What the passages of the page take as given.
GIVEN = """
#include <forebay.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

%s

int main(void)
{
    static double field[64][128], column[64], positions[100];
    const int64_t rank = 0, ranks = 1;

    %s

    int64_t in_use = -1;
    return fb_in_use(&in_use) == FB_OK && in_use == 0 ? 0 : 1;
}
"""
SAID = """E [V/m] has 2 dimensions
first: 0
heavy: proton
y is 3.5 6 8.5
held 4.5 8 11.5
"""


def passages() -> list[str]:
    """The passages of C."""
    return re.findall(r"^```c\n(.*?)^```$", PAGE.read_text(), re.S | re.M)


def test_the_ten_lines_run_as_they_are_typed(kit: Kit, home: Home, tmp_path: Path) -> None:
    first = passages()[0]
    (tmp_path / "first.c").write_text(first)
    typed = re.search(r"^    cc (first\.c .*) && \./first$", PAGE.read_text(), re.M)
    assert typed is not None
    run("sh", "-ec", f"cc {' '.join(C99)} {typed[1]}", env=kit.env, cwd=tmp_path)
    process = home.start(tmp_path / "first", cwd=tmp_path)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "", "")
    listed = home.command("ls", tmp_path / "first.fb")
    assert "wave" in listed and "99" in listed


def test_the_passages_of_cplusplus_run_as_they_are_typed(kit: Kit, home: Home, tmp_path: Path) -> None:
    printed = ["64 x 128, y is 3 5 7\n", "2 rows, E begins with 51 1 1\n"]
    passages = re.findall(r"^```cpp\n(.*?)^```$", PAGE.read_text(), re.S | re.M)
    for n, (passage, words) in enumerate(zip(passages, printed, strict=True)):
        source = tmp_path / f"guide{n}.cpp"
        source.write_text(passage)
        process = home.start(kit.compile(source, "-std=c++17", name=f"guide{n}_cpp"), cwd=tmp_path)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, words, "")


def test_every_passage_works(kit: Kit, home: Home, tmp_path: Path) -> None:
    rest = passages()[1:]
    assert len(rest) >= 12
    functions = [p for p in rest if p.startswith("static ")]
    body = [p for p in rest if not p.startswith("static ")]
    source = tmp_path / "guide.c"
    source.write_text(GIVEN % ("\n".join(functions), "\n".join(body).replace("\n", "\n    ")))
    program = kit.compile(source)
    process = home.start(program, cwd=tmp_path)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, ""), out
    error, _, rest_of_it = out.partition("\n")
    assert error.startswith(f"there is no run {tmp_path}/no such run.fb; ")
    assert rest_of_it == SAID
