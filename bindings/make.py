"""Makes what of the C family follows from forebay.h: what the Fortran module knows of the library, and those of its
procedures that say in Fortran what the function says in C.

    python bindings/make.py

    forebay.h -> enumerations -> forebay_constants.f90   every constant, by the name it has in C
              -> structures   -> forebay_structures.f90  interoperable twins, and tables of dtypes, for the module's own use
              -> functions    -> forebay_library.f90     an interface for each, named lib_... for fb_...
                              -> forebay_made.f90        a procedure for each that follows the rules below and is
                                                         not written by hand

What is written by hand, or goes by another name, is known from the sources and from spec/api.toml. A function that is
neither there nor follows the rules is refused, with the reason. The files are committed; tests hold them against the header.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

import header
from header import Function, Member, Parameter

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).resolve().parent
FORTRAN = HERE / "fortran" / "src"
API = HERE.parent / "spec" / "api.toml"
MADE = "! Generated from forebay.h by bindings/make.py; do not edit."

INTEGERS = {
    "int": "c_int",
    "int32_t": "c_int32_t",
    "int64_t": "c_int64_t",
    "uint32_t": "c_int32_t",
    "uint64_t": "c_int64_t",
    "size_t": "c_size_t",
    "fb_status": "c_int",
    "fb_dtype": "c_int",
    "fb_order": "c_int",
    "fb_level": "c_int",
}
# Handles are numbers to us, and pointers that C is to write into are given as such.
SCALARS = {name: f"integer({kind})" for name, kind in INTEGERS.items()} | {"double": "real(c_double)"}
# What C writes numbers into, of which there may be many.
ADDRESSES = ("shape", "values", "value")
# Names that Fortran, which does not know capitals, has for something else: fb_in is a procedure.
RENAMED = {"FB_IN": "IS_IN", "FB_OUT": "IS_OUT", "FB_INOUT": "IS_INOUT"}
# The dtypes that Fortran has a type for; elements of others are given as the integers that their bits are.
OWN = ("i8", "i16", "i32", "i64", "f32", "f64", "c64", "c128", "bool", "str")
# Structures that a user of the module sees, with the names they have in C.
SHOWN = (
    "fb_stats",
    "fb_step_info",
    "fb_array_stats",
    "fb_timing",
    "fb_server_load",
    "fb_bag_totals",
    "fb_failure",
)


def structure(name: str) -> str:
    """The name of a structure's twin."""
    return name if name in SHOWN else name.replace("fb_", "lib_") + "_struct"


def constants() -> str:
    """The enumerations and the few numbers that are macros."""
    numbers = [(RENAMED.get(name, name), str(value)) for name, value in header.constants()]
    for name in (
        "MAX_RANK",
        "NAME_ROOM",
        "UNIT_ROOM",
        "TEXT_ROOM",
        "VERSION_MAJOR",
        "VERSION_MINOR",
        "VERSION_PATCH",
    ):
        numbers.append((f"FB_{name}", header.macro(f"FB_{name}")))
    lines = [f"  integer, parameter, public :: {name} = {value}" for name, value in numbers]
    assert header.macro("FB_FOREVER") == header.macro("FB_JOB_END") == "(-1.0)"
    assert header.macro("FB_NO_END") == "INT64_MAX"
    assert header.macro("FB_ALL_SETS") == "INT64_MIN"
    assert header.macro("FB_TABLE") == "(INT64_MIN + 1)"
    body = "\n".join(lines)
    return f"""{MADE}
!
! The constants of forebay.h: statuses, dtypes, orders, levels, kinds and directions of arguments.

module forebay_constants
  use, intrinsic :: iso_fortran_env, only: int64, real64
  implicit none
  private
{body}
  !> As a timeout: no limit.
  real(real64), parameter, public :: FB_FOREVER = -1.0_real64
  !> As a time limit of fb_steps_with: the end of the Slurm job.
  real(real64), parameter, public :: FB_JOB_END = -1.0_real64
  !> As the number of steps of fb_step: the loop goes on until somebody ends it.
  integer(int64), parameter, public :: FB_NO_END = huge(0_int64)
  !> As a set number, where a procedure says so: all sets; and, FB_TABLE of C, the table of that name.
  integer(int64), parameter, public :: FB_ALL_SETS = -huge(0_int64) - 1_int64
  integer(int64), parameter, public :: FB_OF_TABLE = -huge(0_int64)
end module forebay_constants
"""


def member(one: Member) -> str:
    """One member of a structure."""
    size = header.macro(one.extent) if one.extent.startswith("FB_") else one.extent
    shape = f"({size})" if size else ""
    if one.stars:
        return f"    type(c_ptr) :: {one.name} = c_null_ptr"
    if one.kind == "char":
        return f"    character(kind=c_char) :: {one.name}{shape} = c_null_char"
    if one.kind == "fb_scalar":
        # The union, by its longest member.
        return f"    integer(c_int64_t) :: {one.name}(2) = 0"
    zero = "0.0_c_double" if one.kind == "double" else "0"
    return f"    {SCALARS[one.kind]} :: {one.name}{shape} = {zero}"


def dtypes() -> str:
    """What is known of each dtype, by its number."""
    known = header.dtypes()
    length = max(len(name) for name, _ in known)
    given = (name if name in OWN or size > 8 else f"i{8 * size}" for name, size in known)
    tables = (
        ("Their names.", f"character(len={length})", "NAMES", [f"'{name}'" for name, _ in known]),
        (
            "As elements of what they are given.",
            "integer",
            "GIVEN_AS",
            [f"FB_{name.upper()}" for name in given],
        ),
    )
    made = []
    for says, kind, name, values in tables:
        rows = [", ".join(values[at : at + 8]) for at in range(0, len(values), 8)]
        listed = ", &\n      ".join(rows)
        made.append(
            f"  !> {says}\n"
            f"  {kind}, parameter, public :: DTYPE_{name}({len(values)}) = [{kind} :: &\n      {listed}]"
        )
    return "\n".join(made)


def structures() -> str:
    """A twin of each structure; all members zero, as the defaults of options are."""
    made = []
    for name, members in header.structures().items():
        twin = structure(name)
        lines = "\n".join(member(one) for one in members)
        made.append(f"  type, public, bind(c) :: {twin}\n{lines}\n  end type {twin}")
    body = "\n\n".join(made)
    return f"""{MADE}
!
! Twins of the structures of forebay.h, member by member, and what is known of its dtypes, by number.

module forebay_structures
  use forebay_constants
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_int, c_int32_t, c_int64_t, c_null_char, c_null_ptr, c_ptr, c_size_t
  implicit none
  private

{dtypes()}

{body}
end module forebay_structures
"""


def dummy(one: Parameter) -> tuple[str, str]:
    """A parameter of C: its declaration as a dummy argument, and its name."""
    if one.kind == "fb_callback" or one.kind.endswith("_fn"):
        return "type(c_funptr), value", one.name
    if one.stars == "" and one.kind in header.structures():
        return f"type({structure(one.kind)}), value", one.name
    if one.stars == "":
        return f"{SCALARS[one.kind]}, value", one.name
    if one.stars == "*const*":
        return "type(c_ptr), intent(in)", f"{one.name}(*)"
    if one.stars in ("**", "***"):
        # What C writes a pointer into, or a list of pointers to texts.
        return ("type(c_ptr), value" if one.constant else "type(c_ptr), intent(inout)"), one.name
    if one.kind in SCALARS and one.constant:
        return f"{SCALARS[one.kind]}, intent(in), optional", f"{one.name}(*)"
    if one.kind in SCALARS and one.name not in ADDRESSES:
        return f"{SCALARS[one.kind]}, intent(inout), optional", one.name
    return "type(c_ptr), value", one.name


def interface(one: Function) -> str:
    """The interface of one function."""
    groups: dict[str, list[str]] = {}
    names = []
    for parameter in one.parameters:
        declared, called = dummy(parameter)
        groups.setdefault(declared, []).append(called)
        names.append(parameter.name)
    result = "type(c_ptr)" if one.returns.startswith("const char") else "integer(c_int)"
    name = one.name.replace("fb_", "lib_", 1)
    head, tail = f"    {result} function {name}({', '.join(names)})", f"bind(c, name='{one.name}')"
    head += f" {tail}" if len(head + tail) < 100 else f" &\n        {tail}"
    lines = [head, "      import", *(f"      {d} :: {', '.join(n)}" for d, n in groups.items())]
    return "\n".join([*lines, f"    end function {name}"])


def library() -> str:
    """An interface for each function."""
    body = "\n".join(interface(one) for one in header.functions().values())
    return f"""{MADE}
!
! The functions of forebay.h, as they are: lib_put is fb_put.

module forebay_library
  use, intrinsic :: iso_c_binding, only: c_double, c_funptr, c_int, c_int32_t, c_int64_t, c_ptr, c_size_t
  use forebay_structures, only: lib_object_struct
  implicit none
  public

  interface
{body}
  end interface
end module forebay_library
"""


# --- procedures ------------------------------------------------------------------------------------
#
#     C                               Fortran
#     fb_run *                        type(fb_run); what "NULL is nothing" is said of alone gives it back
#     fb_snapshot **                  type(fb_snapshot), which gets the new handle
#     const char *                    character(len=*); optional where NULL is said to mean something
#     char **, const char **          character(len=:), allocatable
#     char ***, int64_t ** and count  an allocatable array
#     int *                           logical where the comment begins with "Whether", else integer
#     int64_t, and set                class(*), integers of every kind; a set is optional
#     index, row, column              from 1
#     timeout                         optional; no limit without it
#     fb_info *, fb_stats * ...       type(fb_dataset); the structures that a user sees
#
# A result of which C says "may be NULL" is optional. Results are written only when all went well. What is optional
# stands behind what is not, and stat and errmsg at the end.


class Refused(Exception):
    """Why a function does not follow the rules."""


@dataclass
class Dummy:
    """A dummy argument: how it is declared, and what becomes of it on its way to C and back."""

    name: str
    declared: str
    given: str
    optional: bool = False
    # Declarations of variables; statements that give them their first values.
    variables: list[tuple[str, str]] = field(default_factory=list)
    first: list[str] = field(default_factory=list)
    # What gives a status before the call, and what does so behind it; statements behind it.
    before: list[str] = field(default_factory=list)
    behind: list[str] = field(default_factory=list)
    then: list[str] = field(default_factory=list)
    extent: str = ""


# What a procedure has itself: an argument of that name would hide it.
OWN = ("text", "whole", "id", "status", "made", "found", "where")
KINDS = {"fb_rows": "OF_ROWS", "fb_ref": "A_REFERENCE"}
LETTERS = "character(kind=c_char), allocatable, target"


def may_be_null(name: str, said: str) -> bool:
    """Whether a result may be left out."""
    return re.search(rf"(`{name}`|\beither\b)[^.;]*\bmay be NULL", said) is not None


def has_default(name: str, said: str) -> bool:
    """Whether the comment says what NULL means in the place of a text."""
    return re.search(rf"(`{name}`[^.;]*|\b{name} \()\bNULL\b", said) is not None


def handle(p: Parameter) -> Dummy:
    """A handle, or a place for a new one."""
    if p.stars == "*":
        return Dummy(
            p.name,
            f"type({p.kind}), intent(in)",
            f"{p.name}%handle" if p.kind == "fb_request" else f"id({p.name}%at)",
        )
    if p.stars != "**" or p.constant:
        raise Refused(f"{p} is a list of handles")
    made = Dummy(p.name, f"type({p.kind}), intent(inout)", "made", variables=[("type(c_ptr)", "made")])
    made.first = ["made = c_null_ptr"]
    made.then = [f"call hold({p.name}%at, {KINDS.get(p.kind, 'A_' + p.kind[3:].upper())}, made)"]
    return made


def words(p: Parameter, one: Function) -> Dummy:
    """A text that goes, or one that comes."""
    own = f"c_{p.name}"
    if p.stars == "*" and p.constant:
        made = Dummy(
            p.name, "character(len=*), intent(in)", f"text({p.name}, {own})", has_default(p.name, one.said)
        )
        made.variables = [(LETTERS, f"{own}(:)")]
        return made
    if p.stars != "**":
        raise Refused(f"{p} is room for a text, or a list of texts")
    made = Dummy(p.name, "character(len=:), allocatable, intent(inout)", own, first=[f"{own} = c_null_ptr"])
    if p.constant:
        made.given = f"c_loc({own})"
        made.variables = [("type(c_ptr), target", own)]
        made.then = [f"{p.name} = text_from({own})"]
    else:
        made.optional = may_be_null(p.name, one.said)
        made.variables = [("type(c_ptr)", own)]
        made.then = [f"call text_taken({own}, {p.name})"]
        if made.optional:
            # Not handed on as it is: gfortran 12 loses the length of what is present then.
            made.then = [f"if (present({p.name})) call text_taken({own}, {p.name})"]
            made.then += [f"if (.not. present({p.name})) status = lib_free({own})"]
    return made


def several(p: Parameter) -> Dummy:
    """An array that C makes, behind which its number of elements stands."""
    kinds = {
        ("char", "***"): ("character(len=*)", "names_taken"),
        ("int64_t", "**"): ("integer(c_int64_t)", "numbers_taken"),
    }
    if (p.kind, p.stars) not in kinds:
        raise Refused(f"{p} is an array of structures")
    declared, taken = kinds[p.kind, p.stars]
    made = Dummy(p.name, f"{declared}, allocatable, intent(inout)", "where, count", extent="(:)")
    made.variables = [("integer(c_int64_t)", "count"), ("type(c_ptr)", "where")]
    made.first = ["where = c_null_ptr", "count = 0"]
    made.behind = [f"{taken}(where, count, {p.name})"]
    return made


def whole(p: Parameter, one: Function) -> Dummy:
    """An integer of 8 bytes that goes."""
    own = f"c_{p.name}"
    made = Dummy(
        p.name, "class(*), intent(in)", own, optional=p.name == "set", variables=[("integer(c_int64_t)", own)]
    )
    made.before = [f"whole({p.name}, {own})"]
    if p.name == "set":
        made.first = [f"{own} = {'FB_ALL_SETS' if 'FB_ALL_SETS' in one.said else 0}"]
    if p.name in ("row", "index"):
        made.given += " - 1"
    return made


def number(p: Parameter, one: Function) -> Dummy:
    """A number that goes, or one that comes."""
    if p.stars == "":
        if p.kind == "int64_t":
            return whole(p, one)
        if p.kind == "double":
            limit = p.name == "timeout"
            return Dummy(
                p.name, "real(c_double), intent(in)", f"limit_of({p.name})" if limit else p.name, limit
            )
        if INTEGERS.get(p.kind) == "c_int":
            return Dummy(
                p.name, "integer, intent(in)", f"{p.name} - 1" if p.name in ("index", "column") else p.name
            )
        raise Refused(f"{p} has no counterpart")
    if p.stars != "*" or p.constant or p.name in ADDRESSES:
        raise Refused(f"{p} is an array")
    optional = may_be_null(p.name, one.said)
    if p.kind == "int" and one.said.startswith("Whether"):
        own = f"c_{p.name}"
        made = Dummy(
            p.name, "logical, intent(inout)", own, variables=[("integer(c_int)", own)], first=[f"{own} = 0"]
        )
        made.then = [f"{p.name} = {own} /= 0"]
        return made
    declared = "integer" if INTEGERS.get(p.kind) == "c_int" else SCALARS[p.kind]
    return Dummy(p.name, f"{declared}, intent(inout)", p.name, optional)


def argument(p: Parameter, one: Function, counted: bool) -> Dummy:
    """A parameter of C, as its kind says."""
    if p.name in OWN:
        raise Refused(f"an argument {p.name} would hide what the procedure calls so")
    if p.kind in header.handles():
        return handle(p)
    if counted:
        return several(p)
    if p.kind == "char":
        return words(p, one)
    if p.kind in SCALARS:
        return number(p, one)
    if p.kind == "fb_info" and p.stars == "*":
        made = Dummy(
            p.name, "type(fb_dataset), intent(inout)", "c_loc(found)", then=[f"{p.name} = described(found)"]
        )
        made.variables = [("type(lib_info_struct), target", "found")]
        return made
    if p.kind in SHOWN and p.stars == "*":
        made = Dummy(p.name, f"type({p.kind}), intent(inout), target", f"c_loc({p.name})")
        made.first = [f"{p.name}%size = c_sizeof({p.name})"]
        return made
    raise Refused(f"{p} has no counterpart")


def dummies(one: Function) -> list[Dummy]:
    """The arguments in the order of C."""
    if one.returns != "fb_status":
        raise Refused(f"it returns {one.returns}")
    made, all_ = [], list(one.parameters)
    while all_:
        p = all_.pop(0)
        counted = p.stars in ("**", "***") and bool(all_) and all_[0].name == "count"
        made.append(argument(p, one, counted))
        if counted:
            all_.pop(0)
    return made


def statements(one: Function, arguments: list[Dummy]) -> tuple[list[tuple[str, str]], list[str]]:
    """The variables of a procedure, and what it does."""
    only = one.parameters[0] if len(one.parameters) == 1 else None
    if only and only.kind in header.handles() and "NULL is nothing" in one.said:
        arguments[0].declared = f"type({only.kind}), intent(inout)"
        return [], [f"call give_back({only.name}%at, stat, errmsg)"]
    call = f"{one.name.replace('fb_', 'lib_', 1)}({', '.join(a.given for a in arguments)})"
    variables = [v for a in arguments for v in a.variables]
    tried = [b for a in arguments for b in a.before] + [call] + [b for a in arguments for b in a.behind]
    then = [s for a in arguments for s in a.then]
    body = [s for a in arguments for s in a.first]
    if len(tried) == 1 and not then:
        return variables, [*body, f"call settle({call}, stat, errmsg)"]
    body.append(f"status = {tried[0]}")
    body += [f"if (status == FB_OK) status = {b}" for b in tried[1:]]
    # A condition of its own goes into the one.
    body += [f"if (status == FB_OK) {s}".replace(") if (", " .and. ") for s in then]
    return [*variables, ("integer(c_int)", "status")], [*body, "call settle(status, stat, errmsg)"]


# What C says of pointers that are NULL and of memory, and what that is in Fortran.
SAID = (
    (r": 1 or 0(?=\.)| \(1 or 0\)|, and may be NULL", ""),
    (r"\bNULL when there is none", "fb_is_there tells whether there is one"),
    (r"(`\w+`) is NULL when", r"\1 is empty when"),
    (r"\(NULL: none\)", "(without it: none)"),
    (r"\bcounted from 0\b", "counted from 1"),
)
OF_C = re.compile(
    r"\bNULL\b|\b[Ff]ree\b.*\bwith fb_\w*free\b|good until the (function returns|rows are freed)"
)


def comment(said: str) -> list[str]:
    """What is said of a function, without what concerns C alone."""
    text, lines = " ".join(said.split()), [""]
    for of_c, of_fortran in SAID:
        text = re.sub(of_c, of_fortran, text)
    sentences = []
    for sentence in re.split(r"(?<=\.) (?=[A-Z`])", text):
        clauses = [
            c for c in re.split(r"; |, (?=good until)", sentence.removesuffix(".")) if not OF_C.search(c)
        ]
        sentences += ["; ".join(clauses) + "."] if clauses else []
    for word in " ".join(sentences).split():
        if len(lines[-1]) + len(word) > 110:
            lines.append("")
        lines[-1] += f"{' ' * bool(lines[-1])}{word}"
    return [f"  !> {line}" for line in lines]


def declarations(pairs: list[tuple[str, str]]) -> list[str]:
    """Declarations, those of one kind on one line."""
    groups: dict[str, list[str]] = {}
    for declared, name in pairs:
        groups.setdefault(declared, []).append(name)
    return [f"    {declared} :: {', '.join(names)}" for declared, names in groups.items()]


def folded(line: str) -> str:
    """A statement on as many lines as it needs."""
    if len(line) <= 120:
        return line
    at = line.rindex(", ", 0, 118) + 2
    return f"{line[:at]}&\n{folded('        ' + line[at:])}"


def procedure(one: Function) -> str:
    """The procedure of one function."""
    arguments = dummies(one)
    variables, body = statements(one, arguments)
    shown = sorted(arguments, key=lambda a: a.optional)
    names = ", ".join([*(a.name for a in shown), "stat", "errmsg"])
    taken = [(a.declared + ", optional" * a.optional, a.name + a.extent) for a in shown]
    taken += [
        ("integer, intent(out), optional", "stat"),
        ("character(len=*), intent(inout), optional", "errmsg"),
    ]
    lines = [f"  subroutine {one.name}({names})", *declarations(taken), *declarations(variables)]
    lines += [f"    {line}" for line in body]
    return "\n".join([*comment(one.said), *map(folded, lines), f"  end subroutine {one.name}"])


def by_hand() -> set[str]:
    """What the sources of the module offer that are not made."""
    sources = [*FORTRAN.glob("forebay_*.[fF]90"), *FORTRAN.glob("elements*.inc")]
    text = "\n".join(p.read_text() for p in sources if MADE not in p.read_text())
    lists = re.findall(r"^ *public ::(.*(?:&\n.*)*)$", text, re.M)
    return set(re.findall(r"\bfb_\w+", " ".join(lists)))


def procedures() -> str:
    """The procedures that follow the rules."""
    api = tomllib.loads(API.read_text())["fortran"]
    elsewhere = by_hand() | set(api["generic"]) | set(api["without"])
    sections: dict[str, list[str]] = {}
    names: dict[str, list[str]] = {}
    refused = []
    for one in header.functions().values():
        if one.name in elsewhere:
            continue
        try:
            sections.setdefault(one.section, []).append(procedure(one))
            names.setdefault(one.section, []).append(one.name)
        except Refused as why:
            refused.append(f"{one.name}: {why}")
    if refused:
        sys.exit(
            "write these by hand in bindings/fortran/src, or give a reason in spec/api.toml:\n  "
            + "\n  ".join(refused)
        )
    body = "\n\n".join(
        f"  ! --- {title.lower()} {'-' * (92 - len(title))}\n\n" + "\n\n".join(made)
        for title, made in sections.items()
    )
    offered = "\n".join(folded(f"  public :: {', '.join(group)}") for group in names.values())
    return f"""{MADE}
!
! The procedures that say in Fortran what the function says in C.

module forebay_made
  use, intrinsic :: iso_c_binding
  use forebay_base
  use forebay_constants
  use forebay_library
  use forebay_places, only: fb_request
  use forebay_runs, only: described, fb_dataset, names_taken, numbers_taken
  use forebay_structures
  implicit none
  private
{offered}

contains

{body}

end module forebay_made
"""


def made() -> dict[str, str]:
    """The files by name."""
    return {
        "forebay_constants.f90": constants(),
        "forebay_structures.f90": structures(),
        "forebay_library.f90": library(),
        "forebay_made.f90": procedures(),
    }


if __name__ == "__main__":
    for file, content in made().items():
        (FORTRAN / file).write_text(content)
