"""Makes what the Fortran module knows of the C library from forebay.h.

    python bindings/fortran/interfaces.py [FOLDER]

    forebay.h -> enumerations -> forebay_constants.f90   every constant, by the name it has in C
              -> structures   -> forebay_structures.f90  interoperable twins, and tables of dtypes, for the module's own use
              -> functions    -> forebay_library.f90     an interface for each, named lib_... for fb_...

The three files are committed; tests/fortran holds them against the header.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
HEADER = HERE.parent / "c" / "include" / "forebay.h"
MADE = "! Generated from forebay.h by interfaces.py; do not edit."

FUNCTION = re.compile(r"^(fb_status|int|const char \*) ?fb_([a-z0-9_]+)\(([^)]*)\);", re.M)
STRUCTURE = re.compile(r"^typedef struct \{(.*?)^\} (fb_\w+);", re.M | re.S)
DTYPE = re.compile(r"/\* (\w+), (\d+) bytes\. \*/\s+FB_\w+ = (\d+)")
MEMBER = re.compile(r"^    ((?:const )?\w+(?: const)?) ((?:\*(?:const )?)*)(\w+)(?:\[(\w+)\])?;", re.M)
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
# Names that Fortran, which does not know capitals, has for something else: fb_in is a procedure.
RENAMED = {"FB_IN": "IS_IN", "FB_OUT": "IS_OUT", "FB_INOUT": "IS_INOUT"}
# The dtypes that Fortran has a type for; elements of others are given as the integers that their bits are.
OWN = ("i8", "i16", "i32", "i64", "f32", "f64", "c64", "c128", "bool", "str")
# Structures that a user of the module sees, with the names they have in C.
SHOWN = ("fb_stats", "fb_step_info", "fb_timing", "fb_server_load")


def structure(name: str) -> str:
    """The name of a structure's twin."""
    return name if name in SHOWN else name.replace("fb_", "lib_") + "_struct"


def constants(header: str) -> str:
    """The enumerations and the few numbers that are macros."""
    lines = []
    for body in re.findall(r"^(?:typedef )?enum(?: fb_\w+)? \{(.*?)\}", header, re.M | re.S):
        for name, value in re.findall(r"\b(FB_\w+) = (\d+)", body):
            lines.append(f"  integer, parameter, public :: {RENAMED.get(name, name)} = {value}")
    for name in ("MAX_RANK", "NAME_ROOM", "UNIT_ROOM", "VERSION_MAJOR", "VERSION_MINOR", "VERSION_PATCH"):
        found = re.search(rf"^#define FB_{name} (\d+)$", header, re.M)
        assert found, f"forebay.h has no FB_{name}"
        lines.append(f"  integer, parameter, public :: FB_{name} = {found[1]}")
    assert re.search(r"^#define FB_FOREVER \(-1\.0\)$", header, re.M)
    assert re.search(r"^#define FB_NO_END INT64_MAX$", header, re.M)
    assert re.search(r"^#define FB_ALL_SETS INT64_MIN$", header, re.M)
    assert re.search(r"^#define FB_TABLE \(INT64_MIN \+ 1\)$", header, re.M)
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


def member(kind: str, stars: str, name: str, extent: str | None) -> str:
    """One member of a structure."""
    size = {"FB_NAME_ROOM": "256", "FB_UNIT_ROOM": "65", "FB_MAX_RANK": "8"}.get(extent or "", extent)
    shape = f"({size})" if size else ""
    if stars:
        return f"    type(c_ptr) :: {name} = c_null_ptr"
    if kind == "char":
        return f"    character(kind=c_char) :: {name}{shape} = c_null_char"
    if kind == "fb_scalar":
        # The union, by its longest member.
        return f"    integer(c_int64_t) :: {name}(2) = 0"
    zero = "0.0_c_double" if kind == "double" else "0"
    return f"    {SCALARS[kind]} :: {name}{shape} = {zero}"


def dtypes(header: str) -> str:
    """What is known of each dtype, by its number."""
    known = DTYPE.findall(header)
    assert [int(number) for _, _, number in known] == list(range(1, len(known) + 1)), (
        "dtypes are not 1, 2, 3, ..."
    )
    length = max(len(name) for name, _, _ in known)
    given = (name if name in OWN or int(size) > 8 else f"i{8 * int(size)}" for name, size, _ in known)
    tables = (
        ("Their names.", f"character(len={length})", "NAMES", [f"'{name}'" for name, _, _ in known]),
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


def structures(header: str) -> str:
    """A twin of each structure; all members zero, as the defaults of options are."""
    made = []
    for body, name in STRUCTURE.findall(header):
        if name == "fb_scalar":
            continue
        twin = structure(name)
        members = [member(k.replace("const ", ""), s, n, e or None) for k, s, n, e in MEMBER.findall(body)]
        assert len(members) == len(re.findall(r";$", body, re.M)), f"not all members of {name} are understood"
        made.append(f"  type, public, bind(c) :: {twin}\n" + "\n".join(members) + f"\n  end type {twin}")
    body = "\n\n".join(made)
    return f"""{MADE}
!
! Twins of the structures of forebay.h, member by member, and what is known of its dtypes, by number.

module forebay_structures
  use forebay_constants
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_int, c_int32_t, c_int64_t, c_null_char, c_null_ptr, c_ptr, c_size_t
  implicit none
  private

{dtypes(header)}

{body}
end module forebay_structures
"""


def dummy(parameter: str) -> tuple[str, str]:
    """A parameter of C: its declaration as a dummy argument, and its name."""
    words = " ".join(parameter.split())
    found = re.fullmatch(r"((?:const )?\w+) ?(\**(?:const \*)?) ?(\w+)", words)
    assert found, words
    kind, stars, name = found[1], found[2].replace(" ", ""), found[3]
    plain = kind.replace("const ", "")
    if plain in ("fb_callback", "fb_service_fn"):
        return "type(c_funptr), value", name
    if stars == "":
        return f"{SCALARS[plain]}, value", name
    if stars == "*const*":
        return "type(c_ptr), intent(in)", f"{name}(*)"
    if stars in ("**", "***"):
        # What C writes a pointer into, or a list of pointers to texts.
        return ("type(c_ptr), value" if kind.startswith("const") else "type(c_ptr), intent(inout)"), name
    if stars == "*" and plain in SCALARS:
        if kind.startswith("const"):
            return f"{SCALARS[plain]}, intent(in), optional", f"{name}(*)"
        if name in ("shape", "values", "value"):
            return "type(c_ptr), value", name
        return f"{SCALARS[plain]}, intent(inout), optional", name
    return "type(c_ptr), value", name


def interface(returns: str, name: str, parameters: list[str]) -> str:
    """The interface of one function."""
    groups: dict[str, list[str]] = {}
    names = []
    for parameter in parameters:
        declared, called = dummy(parameter)
        groups.setdefault(declared, []).append(called)
        names.append(called.split("(")[0])
    result = "type(c_ptr)" if returns.startswith("const char") else "integer(c_int)"
    head, tail = f"    {result} function lib_{name}({', '.join(names)})", f"bind(c, name='fb_{name}')"
    head += f" {tail}" if len(head + tail) < 100 else f" &\n        {tail}"
    lines = [head, "      import", *(f"      {d} :: {', '.join(n)}" for d, n in groups.items())]
    return "\n".join([*lines, f"    end function lib_{name}"])


def library(header: str) -> str:
    """An interface for each function."""
    made = []
    for returns, name, parameters in FUNCTION.findall(header):
        words = [" ".join(p.split()) for p in parameters.split(",")]
        made.append(interface(returns, name, [] if words == ["void"] else words))
    body = "\n".join(made)
    return f"""{MADE}
!
! The functions of forebay.h, as they are: lib_put is fb_put.

module forebay_library
  use, intrinsic :: iso_c_binding, only: c_double, c_funptr, c_int, c_int32_t, c_int64_t, c_ptr, c_size_t
  implicit none
  public

  interface
{body}
  end interface
end module forebay_library
"""


def made(header: Path = HEADER) -> dict[str, str]:
    """The files by name."""
    text = header.read_text()
    return {
        "forebay_constants.f90": constants(text),
        "forebay_structures.f90": structures(text),
        "forebay_library.f90": library(text),
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "src"
    for file, content in made().items():
        (folder / file).write_text(content)
