"""Reads forebay.h: the one reader of it that is no compiler.

    forebay.h -> sections -> declarations -> functions, with what is said of each
                                          -> structures, with their members
                                          -> constants

What is made from it (make.py, docs/reference.py) and what judges it (tests) stands on this.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import dedent

HEADER = Path(__file__).resolve().parent / "c" / "include" / "forebay.h"

SECTION = re.compile(r"^/\* -{3} (?P<title>.*?) -+(?P<said>\s(?:[^*]|\*(?!/))*)\*/$", re.M)
# A comment and what it stands before, up to the end of the declaration.
DECLARED = re.compile(
    r"^/\*(?P<said>(?:[^*]|\*(?!/))*)\*/\n"
    r"(?P<code>typedef (?:struct|enum|union)(?: \w+)? \{.*?^\}.*?;|(?:#define (?:[^\n]*\\\n)*[^\n]*\n)+|[^\n/#].*?;)",
    re.M | re.S,
)
# A macro for users, with its arguments; those of the header's own end in "_".
MACRO = re.compile(r"^#define (FB_\w*[A-Z0-9](?:\([^)]*\))?)(?= )", re.M)
FUNCTION = re.compile(r"(fb_status|int|const char \*) ?(fb_[a-z0-9_]+)\(([^)]*)\);")
PARAMETER = re.compile(r"(const )?(\w+) ?(\**(?:const ?\*+)?) ?(\w+)")
STRUCTURE = re.compile(r"^typedef struct \{(.*?)^\} (fb_\w+);", re.M | re.S)
MEMBER = re.compile(r"^    ((?:const )?\w+(?: const)?) ((?:\*(?:const )?)*)(\w+)(?:\[(\w+)\])?;", re.M)


@dataclass(frozen=True)
class Parameter:
    """`const char *const *names`: constant, of kind `char`, with the stars `*const*`."""

    constant: bool
    kind: str
    stars: str
    name: str

    def __str__(self) -> str:
        return f"{'const ' * self.constant}{self.kind} {self.stars.replace('t*', 't *')}{self.name}"


@dataclass(frozen=True)
class Function:
    """A function of the library."""

    name: str
    returns: str
    parameters: tuple[Parameter, ...]
    said: str
    section: str


@dataclass(frozen=True)
class Member:
    """A member of a structure; `extent` is that of an array."""

    kind: str
    stars: str
    name: str
    extent: str


@cache
def text() -> str:
    """The header as it lies."""
    return HEADER.read_text()


def sections() -> Iterator[tuple[str, str, str]]:
    """The parts of the header: their titles, what is said of each, and what it declares."""
    marks = list(SECTION.finditer(text()))
    ends = [m.start() for m in marks[1:]] + [len(text())]
    yield "Types and constants", "", text()[: marks[0].start()]
    for mark, end in zip(marks, ends, strict=True):
        yield mark["title"].strip().capitalize(), dedent(mark["said"]).strip(), text()[mark.end() : end]


def parameter(words: str) -> Parameter:
    """A parameter as C declares it."""
    found = PARAMETER.fullmatch(words)
    assert found, words
    return Parameter(found[1] is not None, found[2], found[3].replace(" ", ""), found[4])


@cache
def functions() -> dict[str, Function]:
    """The functions by name, in the header's order."""
    made = {}
    for title, _, part in sections():
        for declared in DECLARED.finditer(part):
            found = FUNCTION.fullmatch(" ".join(declared["code"].split()))
            if found:
                words = [] if found[3] == "void" else found[3].split(", ")
                taken = tuple(parameter(one) for one in words)
                made[found[2]] = Function(found[2], found[1].strip(), taken, declared["said"].strip(), title)
    # A function without a comment would be passed over.
    assert len(made) == len(re.findall(r"^(?:fb_status|int|const char \*) ?fb_\w+\(", text(), re.M))
    return made


@cache
def handles() -> frozenset[str]:
    """The kinds of handles."""
    return frozenset(re.findall(r"^typedef struct fb_\w+ (fb_\w+);", text(), re.M))


@cache
def structures() -> dict[str, list[Member]]:
    """The structures by name; every member is understood."""
    made = {}
    for body, name in STRUCTURE.findall(text()):
        made[name] = [Member(k.replace("const ", ""), s, n, e) for k, s, n, e in MEMBER.findall(body)]
        assert len(made[name]) == len(re.findall(r";$", body, re.M)), (
            f"not all members of {name} are understood"
        )
    return made


def constants() -> list[tuple[str, int]]:
    """The members of enumerations, with their numbers."""
    bodies = re.findall(r"^(?:typedef )?enum(?: fb_\w+)? \{(.*?)\}", text(), re.M | re.S)
    return [(name, int(value)) for body in bodies for name, value in re.findall(r"\b(FB_\w+) = (\d+)", body)]


def dtypes() -> list[tuple[str, int]]:
    """Name and bytes of each dtype, in the order of their numbers, which begin with 1."""
    known = re.findall(r"/\* (\w+), (\d+) bytes\. \*/\s+FB_\w+ = (\d+)", text())
    assert [int(number) for _, _, number in known] == list(range(1, len(known) + 1)), (
        "dtypes are not 1, 2, ..."
    )
    return [(name, int(size)) for name, size, _ in known]


def macro(name: str) -> str:
    """What stands behind a macro without arguments."""
    found = re.search(rf"^#define {name} (.*)$", text(), re.M)
    assert found, f"forebay.h has no {name}"
    return found[1]
