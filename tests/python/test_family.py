"""The package and the C library are two bindings of one facade: what one offers the other has under the same names and
keywords, or `spec/api.toml` says why not."""

from __future__ import annotations

import inspect
import sys
from fnmatch import fnmatchcase
from typing import Any

import forebay as fb
import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "bindings"))

import header

API = pytest.importorskip("tomllib").loads((ROOT / "spec" / "api.toml").read_text())["python"]
# The classes of a handle, and what its functions begin with.
CLASSES = {
    "fb_run": (["Run"], "run_"),
    "fb_snapshot": (["Snapshot", "StoredSnapshot"], "snapshot_"),
    "fb_table": (["Table"], "table_"),
    "fb_rows": (["Rows"], "rows_"),
    "fb_diagram": (["Diagram"], "diagram_"),
    "fb_client": (["Client"], ""),
    "fb_future": (["Future"], ""),
    "fb_ref": (["Reference"], "ref_"),
    "fb_bag": (["Map"], "bag_"),
    "fb_group": (["Group"], "group_"),
    "fb_server": (["Server"], "server_"),
}


def listed(table: str, name: str) -> str | None:
    """What the list says of a name: by itself, else by the first pattern that it is of."""
    lines: dict[str, str] = API[table]
    return next((lines[line] for line in [name, *lines] if line in lines and fnmatchcase(name, line)), None)


def thing(path: str) -> Any:
    """What stands at a place such as Run.put; None: nothing."""
    found: Any = fb
    for word in path.split("."):
        found = getattr(found, word, None)
    return found


def counterparts(one: header.Function) -> list[str]:
    """Where the package has what the function does."""
    said = listed("counterparts", one.name)
    if said is not None:
        return said.split()
    if listed("without", one.name) is not None:
        return []
    kind = one.parameters[0].kind if one.parameters else ""
    classes, begins = CLASSES.get(kind, ([], ""))
    short = one.name.removeprefix("fb_")
    places = [f"{c}.{name}" for name in (short, short.removeprefix(begins)) for c in classes] + [short]
    return [place for place in places if thing(place) is not None][:1]


def given(one: header.Function) -> list[str]:
    """What a caller gives: parameters and options."""
    names = []
    for p in one.parameters:
        if p.kind in header.handles():
            continue
        if p.kind.endswith("_opts"):
            names += [m.name for m in header.structures()[p.kind] if m.name != "size"]
        elif p.stars == "" or p.constant:
            names.append(p.name)
    return names


def keywords(place: str) -> set[str]:
    """What it takes; nothing if it is no function."""
    found = thing(place)
    return set(inspect.signature(found).parameters) if callable(found) else set()


def test_every_function_of_c_has_a_counterpart_or_a_reason() -> None:
    missing = [one.name for one in header.functions().values() if not counterparts(one)]
    assert [name for name in missing if listed("without", name) is None] == []


def test_every_parameter_of_c_is_a_keyword_or_has_a_reason() -> None:
    missing = []
    for one in header.functions().values():
        taken = {k for place in counterparts(one) for k in keywords(place)}
        for name in given(one) if taken else []:
            word = listed("keywords", f"{one.name}.{name}") or listed("keywords", name) or name
            if name not in taken and word not in taken and " " not in word:
                missing.append(f"{one.name}: {word}, there is {sorted(taken)}")
    assert missing == []


def test_what_python_alone_has_is_listed() -> None:
    served: dict[str, set[str]] = {}
    for one in header.functions().values():
        words = {listed("keywords", f"{one.name}.{n}") or listed("keywords", n) or n for n in given(one)}
        for place in counterparts(one):
            served.setdefault(place, set()).update(words, given(one))
    offered = []
    for name in fb.__all__:
        found = getattr(fb, name)
        if not inspect.isclass(found):
            offered.append(name)
        elif not issubclass(found, BaseException):
            offered += [f"{name}.{member}" for member in vars(found) if not member.startswith("_")]
    alone = [place for place in offered if place not in served]
    alone += [
        f"{place}.{word}"
        for place, words in served.items()
        for word in keywords(place) - words - {"self", "args"}
        if not place.rpartition(".")[2].startswith("__")
    ]
    assert [place for place in alone if listed("only", place) is None] == []
    gone = [line for line in API["only"] if not any(fnmatchcase(place, line) for place in alone)]
    assert gone == [], "these are in C, too, or no more; take them out of the list"


def test_the_list_names_nothing_that_is_gone() -> None:
    functions = list(header.functions())
    parameters = {n for one in header.functions().values() for n in given(one)}
    for table in ("counterparts", "without"):
        for line in API[table]:
            assert any(fnmatchcase(name, line) for name in functions), f"{line} is no function of the header"
    for line in API["keywords"]:
        function, _, word = line.rpartition(".")
        assert not function or any(fnmatchcase(name, function) for name in functions), line
        assert any(fnmatchcase(name, word) for name in parameters), f"{line} is no parameter of the header"
    for place in " ".join(API["counterparts"].values()).split():
        assert thing(place) is not None, f"the package has no {place}"
