"""The package's face: names, errors, types, documentation."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from conftest import ROOT
from forebay import _forebay

PACKAGE = Path(fb.__file__).parent


def test_every_code_is_an_exception_with_its_number() -> None:
    codes = pytest.importorskip("tomllib").loads((ROOT / "spec" / "errors.toml").read_text())["code"]
    assert {c["name"] for c in codes} <= set(fb.__all__)
    for code in codes:
        error = getattr(fb, code["name"])
        assert issubclass(error, fb.Error)
        assert (error.code, error.number, error.remedy) == (code["name"], code["number"], code["remedy"])
    assert issubclass(fb.BadArgument, ValueError)
    assert issubclass(fb.Timeout, TimeoutError)


def test_every_public_name_is_documented() -> None:
    bare = []
    for name in fb.__all__:
        thing = getattr(fb, name)
        if not inspect.getdoc(thing):
            bare.append(name)
        if inspect.isclass(thing) and not issubclass(thing, BaseException):
            for member, value in vars(thing).items():
                documented = inspect.isfunction(value) or isinstance(value, property)
                if documented and not member.startswith("_") and not inspect.getdoc(value):
                    bare.append(f"{name}.{member}")
    assert not bare, f"without a docstring: {bare}"


def _stub() -> dict[str, set[str]]:
    """What the stub has, classes with their members."""
    tree = ast.parse((PACKAGE / "_forebay.pyi").read_text())
    found: dict[str, set[str]] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            names = {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
            names |= {
                n.target.id
                for n in node.body
                if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)
            }
            found[node.name] = names
        elif isinstance(node, ast.FunctionDef):
            found[node.name] = set()
        elif isinstance(node, ast.AnnAssign) and ast.unparse(node.target).isupper():
            found[ast.unparse(node.target)] = set()
    return found


def _public(thing: type) -> set[str]:
    dunder = {"__new__", "__len__", "__iter__", "__next__", "__arrow_c_stream__"}
    return {n for n in vars(thing) if not n.startswith("_") or n in dunder}


def test_the_stub_says_what_the_module_has() -> None:
    stub = _stub()
    module = {n: v for n, v in vars(_forebay).items() if not n.startswith("_")}
    assert set(stub) == set(module)
    for name, members in stub.items():
        thing = module[name]
        if inspect.isclass(thing) and not issubclass(thing, BaseException):
            assert members - {"__new__"} == _public(thing) - {"__new__"}, name


def test_the_stub_has_the_parameters_of_the_module() -> None:
    tree = ast.parse((PACKAGE / "_forebay.pyi").read_text())
    for node in (n for n in tree.body if isinstance(n, ast.ClassDef)):
        thing = getattr(_forebay, node.name)
        for function in (n for n in node.body if isinstance(n, ast.FunctionDef)):
            if function.decorator_list or function.name.startswith("__"):
                continue
            written = [a.arg for a in function.args.args[1:]]
            written += [function.args.vararg.arg] if function.args.vararg else []
            written += [a.arg for a in function.args.kwonlyargs]
            real = [p for p in inspect.signature(getattr(thing, function.name)).parameters if p != "self"]
            assert written == real, f"{node.name}.{function.name}"


def test_pandas_and_pyarrow_are_not_imported() -> None:
    import subprocess
    import sys

    code = "import sys, forebay; print([m for m in ('pandas', 'pyarrow', 'h5py') if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )


def test_every_dtype_has_its_short_name() -> None:
    from forebay._dtypes import _DTYPES, dtype_name

    for short, dtype in _DTYPES.items():
        assert dtype_name(short) == short
        if short not in ("str", "bytes"):
            assert dtype_name(dtype) == dtype_name(dtype.type) == short
    for bad in ("float99", np.longdouble, ">f8", object):
        with pytest.raises(fb.BadArgument):
            dtype_name(bad)
