#!/usr/bin/env python3
"""Writes `lapack_all.fbi` from the sources of LAPACK.

The head of each routine says in words which way an argument goes and how large an array is; the code says its type.
What a text means stands in `texts.py`, each distinct text once. A routine with a text that is not there stays out, and
so stays local in a program with stubs: the end of the file names it and the reason.

    apt-get source lapack          # wants a deb-src line; any unpacked source of LAPACK 3.11 does
    python3 derive.py lapack-3.11.0
"""

import argparse
import ast
import re
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import texts

TYPES = {
    "INTEGER": "i32",
    "LOGICAL": "i32",
    "REAL": "f32",
    "DOUBLE PRECISION": "f64",
    "COMPLEX": "c64",
    "COMPLEX*8": "c64",
    "COMPLEX*16": "c128",
    "CHARACTER": "char",
    "CHARACTER*1": "char",
}
DECLARATION = re.compile(
    r"^ {6,}(INTEGER|LOGICAL|REAL|DOUBLE PRECISION|COMPLEX(?:\*\d+)?|CHARACTER(?:\*\s*(?:\d+|\([^)]*\)))?|EXTERNAL)\s+(?!FUNCTION)(\w.*)$",
    re.I,
)
OPENING = re.compile(
    r"^ {6,}(?:RECURSIVE )?(?:(\w[\w *]*?)\s+)?(SUBROUTINE|FUNCTION)\s+(\w+)\s*\(([^)]*)\)", re.I
)


class Unclear(Exception):
    """A routine that cannot be derived, and why."""


class Argument(NamedTuple):
    """One argument as its source has it."""

    name: str
    type: str
    array: bool
    way: str
    text: str


class Routine(NamedTuple):
    """A routine as its source has it."""

    name: str
    result: str | None
    arguments: list[Argument]
    xerbla: bool

    def argument(self, name: str) -> Argument | None:
        return next((a for a in self.arguments if a.name == name), None)


def statements(source: str) -> list[str]:
    """The lines of code in fixed form, each with its continuation lines."""
    out: list[str] = []
    for line in source.splitlines():
        if line[:1] in tuple("*cC!#") or not line.strip():
            continue
        if len(line) > 5 and line[:5].isspace() and line[5] not in " 0" and out:
            out[-1] += " " + line[6:72].strip()
        else:
            out.append(line[:72].rstrip())
    return out


def names_of(declared: str) -> list[tuple[str, bool]]:
    """The names of a declaration, and whether each is an array."""
    depth, word, out = 0, "", []
    for c in declared + ",":
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            m = re.match(r"\s*(\w+)\s*(\(?)", word)
            if m:
                out.append((m[1].upper(), bool(m[2])))
            word = ""
        else:
            word += c
    return out


def head(source: str) -> dict[str, tuple[str, str]]:
    """What the head says of each argument: its way, and the text."""
    out = {}
    lines = re.sub(r"^[*!]>?[ \t]?", "", source, flags=re.M)
    for m in re.finditer(r"\\param\[([^\]]*)\]\s*([\w, ]+)\n(.*?)(?=\\param\[|Authors:)", lines, re.S):
        text = re.sub(r"\\(?:end)?verbatim", " ", m[3])
        for name in re.findall(r"\w+", m[2]):
            out[name.upper()] = (m[1].replace(" ", "").lower(), " ".join(text.split()))
    return out


def read(path: Path) -> Routine:
    """The routine of one file."""
    source = path.read_text(errors="replace")
    code = statements(source)
    at, opening = next(((i, m) for i, s in enumerate(code) if (m := OPENING.match(s))), (0, None))
    if not opening:
        raise Unclear("its source is not in fixed form")
    kinds: dict[str, str] = {}
    arrays, procedures = set(), set()
    for line in code[at + 1 :]:
        if not (m := DECLARATION.match(line)):
            continue
        for name, array in names_of(m[2]):
            if m[1].upper() == "EXTERNAL":
                procedures.add(name)
            else:
                kinds.setdefault(name, re.sub(r"\s*\*\s*", "*", m[1].upper()))
                if array:
                    arrays.add(name)
    said, arguments = head(source), []
    for name in re.findall(r"[A-Za-z]\w*", opening[4]):
        name = name.upper()
        if name in procedures:
            raise Unclear(f"{name} is a procedure")
        if name not in said or name not in kinds:
            raise Unclear(f"its head says nothing of {name}")
        if kinds[name] not in TYPES:
            raise Unclear(f"{name} is {kinds[name]}")
        way, text = said[name]
        arguments.append(Argument(name, TYPES[kinds[name]], name in arrays, way, text))
    result = None
    if opening[2].upper() == "FUNCTION":
        kind = (opening[1] or "").upper().strip() or kinds.get(opening[3].upper(), "")
        result = TYPES.get(re.sub(r"\s*\*\s*", "*", kind))
        if result in (None, "char"):
            raise Unclear(f"its result is {kind or 'nothing known'}")
    xerbla = any(re.search(r"\bCALL XERBLA\b", s, re.I) for s in code)
    return Routine(opening[3].lower(), result, arguments, xerbla)


def stem(name: str) -> str:
    """The name without the letter of its precision."""
    return name[1:]


def balanced(text: str) -> str:
    """What `text` begins with in parentheses."""
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return text[: i + 1]
    raise Unclear(f"no end of {text[:40]!r}")


def dimension(argument: Argument) -> tuple[str, str]:
    """The text of an array's dimensions without blanks, and what follows in its sentence."""
    m = re.search(r"dimensions?\s*(?:at least|>=|is|=)?\s*(?=\()", argument.text, re.I)
    if not m:
        raise Unclear(f"{argument.name} has no dimension")
    inside = balanced(argument.text[m.end() :])
    rest = argument.text[m.end() + len(inside) :].strip()
    condition = re.match(r"(?:if|when|or|otherwise|where|for|,\s*(?:if|when|where|otherwise))\b[^.]*", rest)
    said = (
        re.split(r"\s(?=(?:The|On|An?|Part|If|Contains|Details|Not|Each|Before|Specifies)\s)", condition[0])[
            0
        ]
        if condition
        else ""
    )
    return re.sub(r"\s", "", inside).upper(), re.sub(r"\s", "", said).upper()


def commas(text: str) -> list[str]:
    """What stands between the commas of the outermost level."""
    depth, parts = 0, [""]
    for c in text:
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts]


def expression(text: str, routine: Routine) -> str:
    """An extent in the words of the IDL; every name in it is an integer argument."""
    e = re.sub(r"(\w+)\*\*2", r"\1*\1", text.lower())
    for word in re.findall(r"[a-z]\w*", re.sub(r'"[^"]*"', "", e)):
        if word in ("max", "min", "abs", "if", "else", "in"):
            continue
        found = routine.argument(word.upper())
        if not found or found.array or found.type not in ("i32", "char") or "in" not in found.way.split(","):
            raise Unclear(f"{text} of an array is not said by its arguments")
    try:
        ast.parse(e, mode="eval")
    except SyntaxError:
        raise Unclear(f"{text} is no extent") from None
    if e.startswith("*") or "**" in e:
        raise Unclear(f"{text} is no extent")
    return e


def chosen(choices: list[tuple[str, str, list[str]]], otherwise: str | None, routine: Routine) -> str:
    """One expression of several: each with the argument and the letters that choose it; the last one stands for the rest."""
    if otherwise is None:
        otherwise = choices.pop()[0]
    e = otherwise
    for value, name, few in reversed(choices):
        about = routine.argument(name)
        if not about:
            raise Unclear(f"{name}, which chooses an extent, is no argument")
        if about.type == "i32":
            test = " == ".join((name.lower(), few[0]))
        else:
            both = dict.fromkeys(c for f in few for c in (f.upper(), f.lower()))
            test = f'{name.lower()} in "{"".join(both)}"'
        e = f"{value} if {test} else {e}"
    return e


FLAG = r"IF(\w+)=('\w'(?:(?:,|OR|,OR)'\w')*)"


def flags(text: str) -> list[str]:
    return re.findall(r"'(\w)'", text)


def plain(bound: str, routine: Routine) -> str:
    """`MAX(1,N)` is N rows: with none, nothing is there to send."""
    m = re.fullmatch(r"MAX\(1,(.*)\)|MAX\((\w+),1\)|\((?:1,)?(.*)\)", bound)
    inner = next(g for g in m.groups() if g) if m else bound
    return expression(f"MAX({inner})" if len(commas(inner)) > 1 else inner, routine)


def bound_rows(text: str, routine: Routine) -> str | None:
    """The rows that a bound of a leading dimension speaks of, for the usual ways to say it."""
    text = re.sub(
        r"\.?UNCHANGEDONEXIT$",
        "",
        text.replace("THEN", "").replace("MUSTBEATLEAST", "LD>=").replace("LDISLD", "LD"),
    )
    if m := re.fullmatch(r"LD>=([\w+*(),-]+)", text):
        return plain(m[1], routine)
    if m := re.fullmatch(r"LD>=1[,;.]?(?:AND)?" + FLAG + r",(?:THEN)?LD>=([\w+*(),-]+)", text):
        return chosen([(plain(m[3], routine), m[1], flags(m[2]))], "0", routine)
    if m := re.fullmatch(FLAG + r",LD>=([\w+*(),-]+)", text):
        return chosen([(plain(m[3], routine), m[1], flags(m[2]))], "0", routine)
    if m := re.fullmatch(r"LD>=([\w+*(),-]+?)" + FLAG + r"(?:[;,.]LD>=1OTHERWISE)?", text):
        return chosen([(plain(m[1], routine), m[2], flags(m[3]))], "0", routine)
    if m := re.fullmatch(r"LD>=1[;,.](?:AND)?IF(\w+)=?\.TRUE\.,LD>=([\w+*(),-]+)", text):
        return f"0 if {m[1].lower()} == 0 else {plain(m[2], routine)}"
    pairs = re.findall(FLAG + r",LD>=([\w+*(),-]+?)(?:[;.]|,(?=IF)|$)", text)
    if len(pairs) == 2 and pairs[0][0] == pairs[1][0]:
        return chosen([(plain(e, routine), n, flags(f)) for n, f, e in pairs], None, routine)
    pairs = re.findall(r"LD>=([\w+*(),-]+?)" + FLAG + r"(?:[;,.]|$)", text)
    if len(pairs) == 2 and pairs[0][1] == pairs[1][1]:
        return chosen([(plain(e, routine), n, flags(f)) for e, n, f in pairs], None, routine)
    return None


def rows(routine: Routine, ld: str) -> str:
    """The rows of a matrix, from what its leading dimension has to be."""
    about = routine.argument(ld)
    if not about:
        raise Unclear(f"{ld} is no argument")
    own = f"{stem(routine.name)}.{ld.lower()}"
    if own in texts.ROWS_OF:
        return texts.ROWS_OF[own]
    text = re.sub(r"^\w+ is INTEGER[.,]?\s*", "", about.text)
    text = re.sub(
        r"(?:On entry,? )?(?:\w+ specifies )?[Tt]he (?:first|leading) dimension of .*?(?=\bLD\w+\s*[>=.]|\b[Ii][Ff]\b|\b[Ww]hen\b|must)",
        "",
        text,
    )
    text = re.sub(r"\s+", "", re.sub(r"\bLD\w+", "LD", text)).upper().rstrip(".")
    found = texts.ROWS.get(text) or bound_rows(text, routine)
    if found is None:
        raise Unclear(f"{ld} has to be {text[:60]!r}, which is not in the table")
    for word in re.findall(r"[a-z]\w*", re.sub(r'"[^"]*"', "", found)):
        if word not in ("max", "min", "abs", "if", "else", "in") and not routine.argument(word.upper()):
            raise Unclear(f"{word} of the rows of {ld} is no argument")
    return found


def shape(inside: str, routine: Routine) -> str:
    """`[m,n] ld lda` of `(LDA,N)`."""
    strided = re.fullmatch(r"\(1\+\(?\(([\w+-]+)-1\)\*(?:ABS\()?(INC\w+)\)?\)?\)", inside)
    if strided:
        return f"[{expression(strided[1], routine)}] inc {strided[2].lower()}"
    parts = commas(inside[1:-1])
    if len(parts) == 2 and parts[0].startswith("LD"):
        return f"[{rows(routine, parts[0])},{expression(parts[1], routine)}] ld {parts[0].lower()}"
    return "[" + ",".join(expression(p, routine) for p in parts) + "]"


def extents(routine: Routine, argument: Argument) -> str:
    """`[m,n] ld lda`, or its like for a vector."""
    own = f"{stem(routine.name)}.{argument.name.lower()}"
    if own in texts.OWN:
        return texts.OWN[own]
    inside, condition = dimension(argument)
    if condition:
        key = f"{inside} {condition}"
        if key in texts.CONDITIONS:
            return texts.CONDITIONS[key]
        pairs = re.findall(
            r"(\(.*?\))(?:AND)?" + FLAG + r"(?=[,;.]?(?:OR|AND|\(|$))",
            key.replace(" ", "").replace("ORDIMENSION", "").replace("DIMENSION", ""),
        )
        if len(pairs) != 2 or pairs[0][1] != pairs[1][1] or key.replace(" ", "").count("(") > 4:
            raise Unclear(f"{argument.name} {key[:90]!r} is not in the table")
        both = [m for p in pairs if (m := re.fullmatch(r"\[(.*)\]( .*)?", shape(p[0], routine)))]
        if len(both) != 2:
            raise Unclear(f"{argument.name} {key[:90]!r} is not in the table")
        if (both[0][2] or "") != (both[1][2] or ""):
            raise Unclear(f"{argument.name} {key[:90]!r} is not in the table")
        last = [commas(b[1]) for b in both]
        if last[0][:-1] != last[1][:-1]:
            raise Unclear(f"{argument.name} {key[:90]!r} is not in the table")
        choice = chosen([(v[-1], p[1], flags(p[2])) for v, p in zip(last, pairs, strict=True)], None, routine)
        return f"[{','.join([*last[0][:-1], choice])}]{both[0][2] or ''}"
    inside = texts.DIMENSIONS.get(inside, inside)
    step = f"INC{argument.name[-1]}"
    if inside == "(N)" and routine.argument(step) and routine.name[1:] in texts.STEPPED:
        return f"[n] inc {step.lower()}"
    return inside if inside.startswith("[") else shape(inside, routine)


def letters(text: str) -> str:
    """The characters that an argument may be, both cases of each."""
    found = dict.fromkeys(re.findall(r"'([A-Za-z0-9])'", text))
    out = dict.fromkeys(c for f in found for c in (f.upper(), f.lower()))
    return f' one of "{"".join(out)}"' if out else ""


def is_work(a: Argument) -> bool:
    """Whether an array is room to work in, of which nobody reads more than its first element, the size to ask for."""
    if not (a.array and re.fullmatch(r"[A-Z]?WORK\d?", a.name) and "in" not in a.way.split(",")):
        return a.array and a.name.endswith("WORK") and a.way == "workspace"
    told = re.sub(
        r"[^.;]*WORK\s*\(\s*1\s*\)[^.;]*(?:LWORK|LRWORK|LIWORK|optimal|minimum)[^.;]*[.;]?",
        "",
        a.text,
        flags=re.I,
    )
    return not re.search(r"on exit|returns|contains?\b", told, re.I)


def asked(routine: Routine, work: Argument) -> str:
    """The argument that is -1 when the routine is to say in the first element of `work` how long it should be."""
    own = f"L{work.name}"
    if routine.argument(own):
        return own.lower()
    return "lwork" if routine.argument("LWORK") and re.search(r"WORK\s*\(1\) returns", work.text) else ""


def line(routine: Routine) -> str:
    """The line of a routine in the IDL."""
    if routine.name in texts.LINES:
        return texts.LINES[routine.name]
    arrays = {a.name: extents(routine, a) for a in routine.arguments if a.array}
    works = [a for a in routine.arguments if is_work(a)]
    if stem(routine.name) in texts.LOOKS_WHEN_ASKED:
        works = [a for a in works if not asked(routine, a)]
    lengths = {a.name.lower(): asked(routine, a) for a in works}
    named = (e for name, e in arrays.items() if name.lower() not in lengths)
    bare = {m for e in named for m in re.findall(r"(?:ld|inc) (\w+)", e)} | set(lengths.values())
    parts, own = [], stem(routine.name)
    for a in routine.arguments:
        name = a.name.lower()
        if name in bare:
            parts.append(name)
        elif a in works:
            box, _, ld = arrays[a.name].partition(" ld ")
            sizes = commas(re.split(" inc ", box)[0][1:-1])
            extent = "*".join(f"({e})" for e in ([ld, *sizes[1:]] if ld else sizes))
            extent = extent if ")*(" in extent else extent[1:-1]
            extent = extent if extent.startswith("max(1,") else f"max(1,{extent})"
            parts.append(
                f"work {name}:{a.type}[{extent}]" + (f" query {lengths[name]}" if lengths[name] else "")
            )
        elif a.array:
            way = (
                "in"
                if a.way == "in" and not re.search(r"restored|overwritten|destroyed|modified", a.text, re.I)
                else "inout"
            )
            if a.name.endswith("WORK") and not arrays[a.name].startswith(
                "[max(1,"
            ):  # its first element is written always
                arrays[a.name] = f"[max(1,{arrays[a.name][1:-1]})]"
            parts.append(f"{way} {name}:{a.type}{arrays[a.name]}")
        elif name == "info" and a.way == "out":
            parts.append("out info:i32 status")
        else:
            ways = {"in": "", "out": "out ", "in,out": "inout ", "inout": "inout "}
            if a.way not in ways:
                raise Unclear(f"{a.name} goes {a.way!r}")
            way = ways[a.way]
            if a.type != "char":
                parts.append(f"{way}{name}:{a.type}")
            elif way:  # a character that comes back is an array of one byte
                parts.append(f"inout {name}:u8[1]")
            else:
                parts.append(f"{name}:char{letters(a.text)}")
    cost = texts.COSTS.get(own, "")
    if cost:
        complex_ = any(a.type in ("c64", "c128") for a in routine.arguments)
        cost = f" cost {'4*' if complex_ else ''}{cost}"
    result = f" -> {routine.result}" if routine.result else ""
    return f"{routine.name}({', '.join(parts)}){result}{' xerbla' if routine.xerbla else ''}{cost}"


HEAD = """fbi 1
# {title}, made by derive.py from the heads of the sources of LAPACK {version}. Do not edit: change texts.py.
set library "libopenblas.so.0"
set convention fortran
set symbol "%s_"
set threads safe
set hidden end
set complex value
set stubs changed
set env OPENBLAS_NUM_THREADS=1
"""


def write(to: Path, title: str, version: str, files: list[Path]) -> Counter[str]:
    """Writes one file, and says what stays out."""
    lines, left = [], []
    for path in files:
        name = path.stem.lower()
        if name in texts.LOCAL or texts.XBLAS.fullmatch(name):
            left.append((name, texts.LOCAL.get(name, texts.WANTS_XBLAS)))
            continue
        try:
            lines.append(texts.LINES[name] if name in texts.LINES else line(read(path)))
        except Unclear as why:
            left.append((name, str(why)))
    body = HEAD.format(title=title, version=version) + "\n".join(lines) + "\n"
    body += f"\n# {len(left)} routines stay local:\n" + "".join(f"# {n}: {why}\n" for n, why in left)
    to.write_text(body)
    print(f"{to.name}: {len(lines)} routines; {len(left)} stay local")
    return Counter(re.sub(r"^\w+ ", "", why) for _, why in left)


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("source", type=Path, help="unpacked source of LAPACK")
    p.add_argument(
        "--reasons", action="store_true", help="print why routines stay local, the most frequent first"
    )
    args = p.parse_args()
    here = Path(__file__).parent
    version = args.source.name.rpartition("-")[2]
    files = sorted(f for f in (args.source / "SRC").iterdir() if f.suffix in (".f", ".F", ".f90", ".F90"))
    reasons = write(here / "lapack_all.fbi", "LAPACK", version, files)
    if args.reasons:
        for why, count in reasons.most_common():
            print(f"{count:5} {why}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
