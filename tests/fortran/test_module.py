"""The module as a whole: it covers the C library, is made from its header, and refuses what cannot be."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fortran_kit import FORTRAN, PROGRAMS, ROOT, Fortran, Home, run
from kit import HEADER
from make import made

SOURCES = FORTRAN / "src"
PROGRAM = """program refused
  use forebay
  use, intrinsic :: iso_fortran_env
  use, intrinsic :: iso_c_binding, only: c_bool
  implicit none
{declarations}
{statement}
end program refused
"""
# What the compiler must not accept: declarations, and the statement.
REFUSED = {
    "a kind that is not kept": ("type(fb_run) :: run\nreal(real128) :: a(2)", "call fb_put(run, 'a', a)"),
    "a structure": (
        "type(fb_run) :: run\ntype :: t\ninteger :: i\nend type\ntype(t) :: a",
        "call fb_put(run, 'a', a)",
    ),
    "a snapshot for a run": ("type(fb_snapshot) :: s", "call fb_put(s, 'a', [1, 2])"),
    "a run for a snapshot": ("type(fb_run) :: a\ntype(fb_snapshot) :: b", "b = a"),
    "a constant that is to be filled": ("type(fb_run) :: run", "call fb_get(run, 'a', [1.0, 2.0])"),
    "a variable for an allocatable one": (
        "type(fb_run) :: run\nreal :: a(2)",
        "call fb_get_alloc(run, 'a', a)",
    ),
    "a parameter that is no target": (
        "type(fb_run) :: run\nreal(real64) :: nu",
        "call fb_parameter(run, 'nu', nu)",
    ),
    "a parameter that is complex": (
        "type(fb_run) :: run\ncomplex, target :: nu",
        "call fb_parameter(run, 'nu', nu)",
    ),
    "an array that is no target, for a call": (
        "type(fb_client) :: c\nreal(real64) :: x(3)",
        "call fb_call(c, 's', [fb_in(x)])",
    ),
    "an expression that is to come back": (
        "type(fb_client) :: c\nreal(real64), target :: x(3)",
        "call fb_call(c, 's', [fb_inout(2 * x)])",
    ),
    "an expression for an array that goes": (
        "type(fb_client) :: c\nreal(real64), target :: x(3)",
        "call fb_call(c, 's', [fb_in(2 * x)])",
    ),
    "truth values of four bytes in place": (
        "type(fb_snapshot) :: s\nlogical, pointer :: p(:)",
        "call fb_snapshot_allocate(s, 'p', p, [3])",
    ),
    "a function with other arguments for a callback": (
        "type(fb_run) :: run",
        "call fb_on_save(run, sin)",
    ),
    "a real number for points of single precision and double": (
        "type(fb_diagram) :: d\nreal(real32) :: x(3)\nreal(real64) :: y(3)",
        "call fb_curve_update(d, x, y)",
    ),
    "a number for a name": ("type(fb_run) :: run", "call fb_put(run, 3, [1, 2])"),
}


def public_names() -> set[str]:
    """What the module offers. That of the directives offers some of it once more."""
    modules = [p for p in SOURCES.glob("*.[fF]90") if p.name != "forebay_directives.f90"]
    text = "\n".join(p.read_text() for p in [*modules, *SOURCES.glob("elements*.inc")])
    found: set[str] = set()
    for line in re.findall(r"^ *public ::(.*)$", text, re.M):
        found |= {word.strip().lower() for word in line.split(",")}
    return found


def test_what_is_made_from_the_header_is_of_this_one() -> None:
    for name, content in made().items():
        assert (SOURCES / name).read_text() == content, (
            f"{name} is not of this forebay.h: run  python bindings/make.py"
        )


def test_every_constant_has_its_number() -> None:
    text = (SOURCES / "forebay_constants.f90").read_text()
    for name, number in re.findall(r"^    (FB_\w+) = (\d+),", HEADER.read_text(), re.M):
        assert f":: {name} = {number}\n" in text
    codes = re.findall(r"^number = (\d+)$", (ROOT / "spec" / "errors.toml").read_text(), re.M)
    assert len(codes) >= 16 and all(f"= {n}\n" in text for n in codes)


def test_every_option_of_the_header_can_be_given() -> None:
    text = "".join(p.read_text() for p in SOURCES.glob("forebay_*.f90"))
    text += "".join(p.read_text() for p in SOURCES.glob("elements*.inc"))
    shim = "".join(p.read_text() for p in SOURCES.glob("*.c"))
    for body, name in re.findall(
        r"^typedef struct \{([^}]*)^\} fb_(\w+_opts);", HEADER.read_text(), re.M | re.S
    ):
        for member in re.findall(r"\b(\w+);$", body, re.M):
            given = f"opts%{member} =" in text or f"opts%{member})" in text
            if name in ("put_opts", "piece_opts", "particles_opts", "ref_opts", "series_opts"):
                given = f".{member} = " in shim
            assert given, f"{name}.{member} has no argument"


def unfolded(files: list[Path]) -> str:
    """Sources as one text, each statement on one line."""
    return re.sub(r"&\n *", "", "\n".join(p.read_text() for p in files))


def options() -> dict[str, set[str]]:
    """What the procedures offered take beyond what they need, under the names they are offered by."""
    source = unfolded([*SOURCES.glob("*.[fF]90"), *SOURCES.glob("elements*.inc")])
    own: dict[str, set[str]] = {}
    for name, body in re.findall(
        r"^ *(?:subroutine|function) (\w+)\((.*?)^ *end (?:sub|fun)", source, re.M | re.S
    ):
        for declared in re.findall(r"\boptional\b.*:: (.*)$", body, re.M):
            own.setdefault(name, set()).update(re.findall(r"(\w+)(?:\([^)]*\))?(?:, |$)", declared))
    for name, body in re.findall(r"^  interface (fb_\w+)\n(.*?)^  end interface", source, re.M | re.S):
        for one in re.findall(r"\w+", body):
            own.setdefault(name, set()).update(own.get(one, set()))
    return {name: own.get(name, set()) - {"stat", "errmsg"} for name in public_names() if name[:3] == "fb_"}


def test_every_procedure_and_every_option_is_used_by_a_program_of_the_tests() -> None:
    programs = unfolded(sorted(PROGRAMS.glob("*.f90")))
    unused = []
    for name, takes in options().items():
        if name in ("fb_callback", "fb_done", "fb_service"):
            continue  # what procedures of the program look like
        calls = re.findall(rf"\b{name}\((.*)", programs)
        unused += [] if calls else [name]
        unused += [f"{name}({o}=)" for o in takes if not any(re.search(rf"\b{o}=", call) for call in calls)]
    assert sorted(unused) == []


def test_descriptors_of_another_compiler_than_the_one_of_the_c_sources_are_refused(
    fortran: Fortran, home: Home, tmp_path: Path
) -> None:
    (tmp_path / "ISO_Fortran_binding.h").write_text(
        "#include_next <ISO_Fortran_binding.h>\n#undef CFI_VERSION\n#define CFI_VERSION 20180515\n"
    )
    source, shim = tmp_path / "foreign.f90", tmp_path / "arrays.o"
    source.write_text("""program foreign
  use check
  implicit none
  type(fb_run) :: run
  integer :: stat
  call fb_run_open(place(), 'w', run, buffer=8 * 2**20)
  call fb_put(run, 'a', [1d0, 2d0], stat=stat, errmsg=said)
  call refused(stat, FB_VERSION_MISMATCH, 'compilers of one house')
  call fb_run_close(run)
  call finish()
end program foreign
""")
    own = [*fortran.kit.flags("--cflags"), "-D_POSIX_C_SOURCE=200809L"]
    run("gfortran", "-std=c11", f"-I{tmp_path}", *own, "-c", SOURCES / "arrays.c", "-o", shim)
    assert home.run(fortran.compile(shim, source), tmp_path / "foreign.fb") == "done\n"


def test_every_source_is_in_the_order_of_compilation() -> None:
    named = (FORTRAN / "order").read_text().split()
    assert sorted(named) == sorted(p.name for p in SOURCES.glob("*.[fF]90"))


@pytest.mark.parametrize("what", REFUSED)
def test_the_compiler_refuses(fortran: Fortran, tmp_path: Path, what: str) -> None:
    declarations, statement = REFUSED[what]
    source = tmp_path / "refused.f90"
    source.write_text(PROGRAM.format(declarations=declarations, statement=statement))
    said = fortran.refuses(source)
    assert "Error" in said and statement.split("(")[0][:20] in said, said


def test_an_error_that_nobody_asks_for_ends_the_program_with_its_text(
    fortran: Fortran, home: Home, tmp_path: Path
) -> None:
    source = tmp_path / "stops.f90"
    source.write_text("""program stops
  use check
  implicit none
  type(fb_run) :: run
  print '(a)', 'before'
  call fb_run_open('no such run', 'r', run)
  print '(a)', 'after'
end program stops
""")
    process = home.start(fortran.compile(source), cwd=tmp_path)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 1 and out == "before\n"
    assert f"ERROR STOP forebay: there is no run {tmp_path}/no such run.fb" in err
