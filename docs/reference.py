"""The references, made from the sources: of C from `forebay.h`, of C++ from the headers on top of it, of Fortran
from the module's sources, of Python from the docstrings (by Sphinx), and the table of errors from `errors.toml`.

`python docs/reference.py` writes `docs/guide/errors.md`, which is in the tree; a test holds it
against its source. The others are written whenever the pages are built.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bindings"))

import header  # noqa: E402

CPP = header.HEADER.with_name("forebay")
FORTRAN = ROOT / "bindings" / "fortran" / "src"
API = ROOT / "spec" / "api.toml"
ERRORS = ROOT / "docs" / "guide" / "errors.md"


def version() -> str:
    """The version of the library, as the header says it."""
    return header.macro("FB_VERSION").strip('"')


def plain(comment: str) -> str:
    """The text of a comment of C, its paragraphs kept; names of the library as code."""
    lines = [line.strip() for line in comment.strip().splitlines()]
    text = "\n".join(lines).replace("NULL", "`NULL`")
    return re.sub(r"(?<![`\w])((?:fb|FB)_[A-Za-z0-9_]+)(?![`\w])", r"`\1`", text)


def c() -> str:
    """The page of C."""
    page = ["# Reference of C\n\nMade from `forebay.h`. [The guide](../guide/c.md) shows them at work.\n"]
    for title, about, part in header.sections():
        page.append(f"## {title}\n\n{about}\n")
        for found in header.DECLARED.finditer(part):
            code, said = found["code"].strip(), plain(found["said"])
            words = " ".join(code.split())
            if header.FUNCTION.fullmatch(words):
                page.append(f"```{{c:function}} {words.rstrip(';')}\n```\n\n{said}\n")
            else:
                page.append(f"{said}\n\n```c\n{code}\n```\n")
        # Families of macros stand there without a word each.
        macros = dict.fromkeys(header.MACRO.findall(header.DECLARED.sub("", part)))
        if macros:
            page.append("```c\n" + "\n".join(macros) + "\n```\n")
    return "\n".join(page)


# What a header of C++ is about, by its name, in the order of a reader.
CPP_HEADERS = (
    "run",
    "snapshots",
    "attributes",
    "tables",
    "watch",
    "calls",
    "futures",
    "groups",
    "bags",
    "arguments",
    "server",
    "arrays",
)


# What the page leaves out of a class: what it says of all of them at its top, and what no user writes.
CPP_HIDDEN = re.compile(
    r"fb_\w+ \*get\(\)|(explicit )?\w+\((fb_\w+ \*|detail::)|static_assert|(class|struct) \w+$|using value_type"
    r"|friend |~|.*(operator=|= default)"
)


def head_of(code: str) -> str:
    """A declaration of C++ without its body and without the initial values of members."""
    code = re.sub(r"\binline ", "", " ".join(code.split()))
    parentheses, angles, at = 0, 0, 0
    while at < len(code):
        letter = code[at]
        parentheses += {"(": 1, ")": -1}.get(letter, 0)
        angles += {"<": 1, ">": -1}.get(letter, 0)
        initial = code[at : at + 3] == " = " and angles == 0 and not re.match(r"using |.*\)", code[:at])
        if parentheses == 0 and (letter in "{;" or code[at : at + 3] == " : " or initial):
            break
        at += 1
    return code[:at].strip()


def name_of(head: str) -> str:
    """The name of the function that is declared; "" of what is no function."""
    found = re.search(r"(operator\W+?|\w+)\(", head)
    return found[1] if found and not head.startswith("using ") else ""


def cpp_members(body: str) -> Iterator[tuple[str, str]]:
    """What a class offers: declarations without their bodies, and what is said of each."""
    said: list[str] = []
    code: list[str] = []
    depth, shown = 0, True
    for line in body.splitlines():
        words = line.strip()
        if depth == 0 and words in ("public:", "private:"):
            shown, said, code = words == "public:", [], []
        elif depth == 0 and words.startswith("//"):
            said.append(words.lstrip("/ "))
        elif words:
            code.append(words)
            depth += sum({"{": 1, "(": 1, "}": -1, ")": -1}.get(letter, 0) for letter in words)
            if depth == 0 and words.endswith((";", "}")):
                head = head_of("\n".join(code))
                if shown and not CPP_HIDDEN.match(head):
                    yield head, " ".join(said)
                said, code = [], []
        elif depth == 0:
            said, code = [], []


def cpp_blocks(body: str) -> list[str]:
    """The declarations of a class as the page shows them: an overload without words of its own stands with the one
    before it, everything else by itself."""
    groups: list[tuple[list[str], str]] = []
    for head, about in cpp_members(body):
        name = name_of(head)
        if groups and not about and name and name == name_of(groups[-1][0][-1]):
            groups[-1][0].append(head)
        else:
            groups.append(([head], about))
    return [
        "```cpp\n"
        + "\n".join(f"{head};" for head in heads)
        + "\n```\n"
        + (f"\n{plain(about)}\n" if about else "")
        for heads, about in groups
    ]


CPP_CLASS = re.compile(
    r"(?P<said>(?:^//.*\n)+)(?P<template>^template .*\n)?^(?P<kind>class|struct) (?P<name>\w+)[^;{]*\{\n(?P<body>(?:.*\n)*?)^\};",
    re.M,
)


def cpp() -> str:
    """The page of C++."""
    page = [
        "# Reference of C++\n\nMade from the headers that `forebay.hpp` takes in. [The guide](../guide/c.md) shows them at "
        "work; [the reference of C](c.md) has the structures of options and figures.\n\n"
        "What has a handle of `forebay.h` gives it by `get()`, for the functions there, and is made from one by a constructor "
        "that takes it; neither is listed below. `get()` of what was closed or moved to another variable is `NULL`; what "
        "needs it then throws an error of code `FB_CLOSED`.\n"
    ]
    for name in CPP_HEADERS:
        # What is in the namespace for the headers themselves is not shown.
        text = re.sub(
            r"^namespace detail \{\n.*?^\} // namespace detail\n",
            "",
            (CPP / f"{name}.hpp").read_text(),
            flags=re.M | re.S,
        )
        page.append(f"## {name.capitalize()}\n\n{text.splitlines()[0].lstrip('/ ')}\n")
        rest = text[text.index("namespace fb {") + len("namespace fb {") : text.rindex("} // namespace fb")]
        for found in CPP_CLASS.finditer(rest):
            said = "\n".join(line.removeprefix("//").removeprefix(" ") for line in found["said"].splitlines())
            page.append(f"### fb::{found['name']}\n\n{plain_cpp(said)}\n")
            body = ("private:\n" if found["kind"] == "class" else "") + found["body"]
            page += cpp_blocks(body)
        alone = CPP_CLASS.sub("", rest)
        alone = re.sub(
            r"^// -+ .*$|^(template .*\n)?(class|struct) .*;$|^struct \w+ :.*$", "", alone, flags=re.M
        )
        functions = cpp_blocks("public:\n" + alone)
        page += ["### Functions\n", *functions] if functions else []
    return "\n".join(page)


def plain_cpp(said: str) -> str:
    """The text above a class; an example in it, set in by four blanks, as code."""
    return "\n\n".join(
        f"```cpp\n{part.strip()}\n```" if part.startswith("    ") else plain(part)
        for part in said.split("\n\n")
    )


PROCEDURE = re.compile(
    r"(?P<said>(?:^ *!> ?.*\n)+)(?P<code>^ *(?:interface|(?:[a-z_0-9() =]*)(?:subroutine|function)|type(?:,[^:]*)? ::) *(?P<name>fb_[a-z0-9_]+)[^\n]*(?:&\n[^\n]*)*)",
    re.M,
)
# The procedures of a generic name.
SPECIFIC = r"^ *interface {name}\n((?:.*\n)*?) *end interface"


def heads(name: str, text: str) -> list[str]:
    """The first lines of the procedures behind a generic name, under that name; each way to call it once."""
    listed = re.search(SPECIFIC.format(name=name), text, re.M)
    made: list[str] = []
    for specific in re.findall(r"\w+", re.sub(r"module procedure|#.*", "", listed[1] if listed else "")):
        found = re.search(rf"^ *(?:subroutine|function) {specific}\(((?:.*&\n)*.*)", text, re.M)
        head = f"{name}({' '.join(found[1].replace('&', '').split())}" if found else name
        if head not in made:
            made.append(head)
    return made


def places() -> dict[str, str]:
    """Where the header has the counterpart of a name of Fortran: the title of its section, in the header's order."""
    generic: dict[str, str] = tomllib.loads(API.read_text())["fortran"]["generic"]
    found: dict[str, str] = {}
    for title, _, part in header.sections():
        found |= dict.fromkeys(re.findall(r"\b(fb_\w+);$", part, re.M), title)
        for one in (one for one in header.functions().values() if one.section == title):
            found.setdefault(generic.get(one.name, one.name), title)
    return found


def fortran() -> str:
    """The page of Fortran: in the sections of the header; what that does not have stands behind them."""
    page = [
        "# Reference of Fortran\n\nMade from the sources of the module `forebay`. [The guide](../guide/fortran.md) shows them at work.\n"
    ]
    elements = "".join(source.read_text() for source in sorted(FORTRAN.glob("elements*.inc")))
    known, besides = places(), "Arguments of calls, and what else C has no function for"
    order = list(known)
    shown: dict[str, list[tuple[int, str]]] = {title: [] for title in [*known.values(), besides]}
    for text in [elements, *(source.read_text() for source in sorted(FORTRAN.glob("forebay*.f90")))]:
        for one in PROCEDURE.finditer(text):
            said = "\n".join(line.strip().lstrip("!> ") for line in one["said"].splitlines())
            lines = [line.strip() for line in one["code"].splitlines()]
            code = "\n".join(heads(one["name"], text) if lines[0].startswith("interface") else lines)
            name = one["name"].removesuffix("_alloc")
            at = order.index(name) if name in known else len(order)
            shown[known.get(name, besides)].append((at, f"```fortran\n{code}\n```\n\n{plain(said)}\n"))
    for title, procedures in shown.items():
        page += (
            [f"## {title}\n", *(words for _, words in sorted(procedures, key=lambda one: one[0]))]
            if procedures
            else []
        )
    return "\n".join(page)


def python() -> str:
    """The page of Python, filled by autodoc."""
    names = re.search(
        r"__all__ = \[(.*?)\]", (ROOT / "bindings/python/python/forebay/__init__.py").read_text(), re.S
    )
    assert names is not None
    classes, functions, errors = [], [], []
    for name in re.findall(r'"(\w+)"', names[1]):
        is_class = name[0].isupper()
        (errors if name in codes() or name == "Error" else classes if is_class else functions).append(name)
    order = [
        "Run",
        "Snapshot",
        "StoredSnapshots",
        "StoredSnapshot",
        "Table",
        "Diagram",
        "Parameter",
        "Client",
        "Future",
        "Reference",
        "Server",
    ]
    classes.sort(key=lambda name: (order.index(name) if name in order else len(order), name))
    page = [
        "Reference of Python\n===================\n",
        "Made from the docstrings of the package ``forebay``.\n",
        ".. currentmodule:: forebay\n",
    ]
    for title, group, directive in (
        ("Functions", functions, "autofunction"),
        ("Classes", classes, "autoclass"),
        ("Errors", errors, "autoexception"),
    ):
        page.append(f"{title}\n{'-' * len(title)}\n")
        page += [f".. {directive}:: {name}\n" for name in group]
    return "\n".join(page)


def table() -> list[dict[str, object]]:
    """The codes, as `errors.toml` has them."""
    return list(tomllib.loads((ROOT / "spec" / "errors.toml").read_text())["code"])


def codes() -> set[str]:
    """Their names."""
    return {str(code["name"]) for code in table()}


def errors() -> str:
    """The page of the errors."""
    page = [
        "# Every error, and its remedy\n",
        "An error has a code, the same in every language, and a text that says what happened, the value, and what to do. This page is made from",
        "[the table of codes](../../spec/errors.toml). Numbers never change their meaning; they travel between processes and are what C programs compare.\n",
    ]
    for code in table():
        name, number = str(code["name"]), code["number"]
        in_c = "FB_" + re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()
        page.append(f"## {name}\n\n`forebay.{name}` in Python, `{in_c}` in C and Fortran; number {number}.\n")
        page.append(f"{code['meaning']}\n\n**What to do.** {code['remedy']}\n")
    return "\n".join(page)


def write(folder: Path) -> None:
    """Writes what is not in the tree."""
    folder.mkdir(exist_ok=True)
    pages = {"c.md": c(), "cpp.md": cpp(), "python.rst": python()}
    if FORTRAN.is_dir():
        pages["fortran.md"] = fortran()
    for name, text in pages.items():
        place = folder / name
        if not place.exists() or place.read_text() != text:
            place.write_text(text)


if __name__ == "__main__":
    ERRORS.write_text(errors())
