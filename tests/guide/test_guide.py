"""The guide: all it shows is typed as a newcomer would, with the wheel and nothing else of Forebay."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest
from pages import BLOCK, GUIDE, NAMED, ROOT, Reader, blocks
from places import run

sys.path.insert(0, str(ROOT / "docs"))

import reference

PAGES = sorted(
    page for page in GUIDE.glob("*.md") if any(b.language in ("python", "console") for b in blocks(page))
)
# Pages whose passages in C, C++ and Fortran are tested as one program, in tests/c and tests/fortran.
PASSAGES = {"c.md": ("c", "cpp"), "directives.md": ("c", "fortran"), "fortran.md": ("fortran",)}


# Who comes first makes the environment of all, which is no part of a page's time.
@pytest.mark.timeout(120, func_only=True)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_shows_works(reader: Reader, wheel: Path, page: Path) -> None:
    for file in (wheel, *(ROOT / "tests" / "guide" / "beside").glob("*")):
        shutil.copy(file, reader.folder)
    assert reader.read(page) > 0


CMAKE = """
cmake_minimum_required(VERSION 3.16)
project(user C)
find_package(Forebay 0.1 REQUIRED)
add_executable(user user.c)
target_link_libraries(user Forebay::forebay)
"""
USER = """
#include <forebay.h>
#include <stdio.h>
int main(void) { return puts(fb_version()) < 0; }
"""


@pytest.mark.timeout(120, func_only=True)
def test_cmake_finds_what_the_wheel_has_brought(reader: Reader) -> None:
    (reader.folder / "CMakeLists.txt").write_text(CMAKE)
    (reader.folder / "user.c").write_text(USER)
    made = reader.folder / "made"
    run("cmake", "-S", reader.folder, "-B", made, f"-DCMAKE_PREFIX_PATH={reader.env['VIRTUAL_ENV']}")
    run("cmake", "--build", made)
    assert run(made / "user", env=reader.env) == "0.1.0\n"


def test_every_block_of_code_is_run_by_a_test() -> None:
    for page in sorted(GUIDE.glob("*.md")):
        for block in blocks(page):
            known = ("python", "console", "text", *PASSAGES.get(page.name, ()))
            assert block.language in known or NAMED.match(block.text), (
                f"{page.name}, line {block.line}: {block.language} is run by nobody"
            )
        indented = re.search(r"(?<=\n\n) {4}\S.*", BLOCK.sub("", page.read_text()))
        assert page.name in PASSAGES or indented is None, (
            f"{page.name}: {indented and indented[0]!r} is run by nobody"
        )


def test_the_page_of_errors_is_that_of_the_table() -> None:
    assert reference.ERRORS.read_text() == reference.errors(), "run  python docs/reference.py"


def test_the_reference_of_cplusplus_says_something_of_every_declaration() -> None:
    page = reference.cpp()
    alone = re.findall(r"^```cpp\n([^`]*)```\n+(?=```|#)", page, re.M)
    # The examples in the texts end without a semicolon.
    assert [code for code in alone if code.rstrip().endswith(";")] == []
    # What is declared together is one function by name.
    blocks = re.findall(r"^```cpp\n([^`]*;)\n```$", page, re.M)
    assert len(blocks) > 150
    assert [b for b in blocks if len({reference.name_of(line) for line in b.splitlines()}) > 1] == []


def test_the_reference_of_c_has_everything_that_the_header_has() -> None:
    page = reference.c()
    header = re.sub(r"/\*.*?\*/", "", reference.header.text(), flags=re.S)
    declared = [
        *re.findall(r"^(?:fb_status|int|const char \*) ?(fb_[a-z0-9_]+)\(", header, re.M),
        *re.findall(r"^\} (fb_\w+);", header, re.M),
        *re.findall(r"^    (FB_\w+) = ", header, re.M),
        *re.findall(r"^#define (FB_\w*[A-Z0-9])\b", header, re.M),
    ]
    assert len(declared) > 200
    # Members count as named only where they are declared, not where a text speaks of them.
    assert [name for name in declared if not re.search(rf"\b{name}\b(?!`)", page)] == []
