"""What may be put and how it comes back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import forebay as fb
import h5py
import numpy as np
import pytest
from conftest import Place
from forebay import _forebay
from forebay._index import plan

DTYPES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "?"]


def some(dtype: str, shape: tuple[int, ...] = (3, 4)) -> np.ndarray[Any, Any]:
    values = np.arange(int(np.prod(shape))).reshape(shape) % 2048  # what half precision holds
    return (
        (values % 2 == 0) if dtype == "?" else (values * (1 + 2j) if "c" in dtype else values).astype(dtype)
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_comes_back_as_it_was(run_dir: Path, dtype: str) -> None:
    with fb.open(run_dir) as run:
        for name, array in {
            "C": some(dtype),
            "F": np.asfortranarray(some(dtype)),
            "big": some(dtype, (64, 1024)),
            "strided": some(dtype, (8, 9))[::2, ::-3],
            "none": some(dtype, (0, 5)),
            "scalar": some(dtype, ()),
        }.items():
            run.put(name, array)
            back = run.get(name)
            assert back.dtype == array.dtype
            assert back.shape == array.shape
            np.testing.assert_array_equal(back, array)


def test_every_dtype_of_the_native_half_is_known_by_its_name(run_dir: Path) -> None:
    of_numpy = {np.dtype(text) for _, text in _forebay.DTYPES}
    assert of_numpy == {np.dtype(dtype) for dtype in DTYPES}
    with fb.open(run_dir) as run:
        with run.snapshot(1) as snapshot:
            for short, text in _forebay.DTYPES:
                made = snapshot.allocate(short, (2, 3), short)
                made[:] = 1
                assert made.dtype == np.dtype(text)
        kept = run.snapshots.at(1)
        for short, text in _forebay.DTYPES:
            assert kept.dataset(short).dtype == np.dtype(text)
            if short not in ("str", "bytes"):  # which come back as what they are
                np.testing.assert_array_equal(kept[short], np.ones((2, 3), text))


def test_numbers_of_half_precision_go_everywhere(place: Place, run_dir: Path) -> None:
    x = np.array([1.0, -2.5, np.nan, np.inf, 0.1], np.float16)
    with fb.open(run_dir) as run:
        run.put("x", x, units="m")
        with run.snapshot(3) as s:
            s.put("y", x[::-1])
            s.allocate("z", (2,), "f2")[:] = [3, 4]
        t = run.table("t", {"h": "f16"})
        t.insert([(v,) for v in x])
        rows = t.select()["h"]
        assert rows.dtype == np.float16
        np.testing.assert_array_equal(rows, x)
        for value, why in (
            (1e6, "a number up to 65504"),
            (1e-9, "would be 0"),
            (4097, "is an integer that f16"),
        ):
            with pytest.raises(fb.BadArgument, match=why):
                t.insert((value,))
    with h5py.File(run_dir / "steps" / "0000000003.h5") as f:
        assert f["y"].dtype == np.float16
        np.testing.assert_array_equal(f["y"][:], x[::-1])
        assert f["z"][:].tolist() == [3, 4]
    shown = json.loads(place.command("show", run_dir, "x", "--json"))
    assert (shown["dtype"], shown["units"], shown["values"]) == ("f16", "m", [1.0, -2.5, "NaN", "inf", 0.1])
    place.command("get", run_dir, "x", "--output", run_dir / "x.npy")
    np.testing.assert_array_equal(np.load(run_dir / "x.npy"), x)
    place.command("put", run_dir, "again", run_dir / "x.npy")
    with fb.open(run_dir, "r") as run:
        assert run["again"].dtype == np.float16
    code = """import forebay as fb, numpy as np
@fb.service("in x:f16[n], in by:f16, out y:f16[n]")
def scale(x, by, y):
    assert x.dtype == np.float16
    y[:] = x * np.float16(by)
with fb.Server(scale, name="s"):
    y = np.empty(4, np.float16)
    fb.call("scale", np.arange(4, dtype=np.float16), 0.5, y)
    print(y.dtype, y.tolist())
"""
    assert place.run_python(code) == "float16 [0.0, 0.5, 1.0, 1.5]\n"


def test_another_byte_order_is_converted(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        run["x"] = np.array([1.5, -2.5], dtype=">f8")
        assert run["x"].dtype == np.dtype("=f8")
        np.testing.assert_array_equal(run["x"], [1.5, -2.5])


def test_texts_and_bytes_come_back_as_they_were(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        for name, value in {"text": "grüß Gott", "empty": "", "bytes": b"\0\xff", "nothing": b""}.items():
            run[name] = value
            assert run[name] == value
            assert type(run[name]) is type(value)
        run["array"] = bytearray(b"abc")
        assert run["array"] == b"abc"


def test_arrays_of_texts_come_back_as_they_were(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        run["names"] = np.array([["aß", "b"], ["", "long one"]])
        assert run["names"].tolist() == [["aß", "b"], ["", "long one"]]
        run["raw"] = np.array([b"xx", b"y"])
        assert run["raw"].tolist() == [b"xx", b"y"]


def test_plain_numbers_and_lists_are_arrays_too(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        run["pi"] = 3.25
        run["list"] = [[1, 2], [3, 4]]
        assert run["pi"].shape == ()
        assert float(run["pi"]) == 3.25
        np.testing.assert_array_equal(run["list"], [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (object(), "array of numbers"),
        (np.zeros(2, np.longdouble), "float128"),
        (np.array([1], "M8[ps]"), "astype('M8[ns]')"),
        (np.zeros(2, [("a", "f8")]), "each field"),
        ([1, "x", None], "array of numbers"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_a_remedy(run_dir: Path, value: object, says: str) -> None:
    with fb.open(run_dir) as run, pytest.raises(fb.BadArgument) as error:
        run.put("x", value)  # type: ignore[arg-type]
    assert says in str(error.value)


def test_an_array_that_was_read_is_the_readers_own(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        run["x"] = np.arange(5.0)
        mine = run["x"]
        mine[:] = 0
        np.testing.assert_array_equal(run["x"], np.arange(5.0))


@pytest.mark.parametrize(
    "sel",
    [
        np.s_[3],
        np.s_[-1],
        np.s_[2:9:3],
        np.s_[::-2],
        np.s_[..., 1],
        np.s_[1, ..., 2:4],
        np.s_[:, 3, ::-1],
        np.s_[None, 4:6],
        np.s_[5:2],
        np.s_[...],
        np.s_[1, 2, 3],
        np.s_[-3:, ::5, 1:2],
    ],
)
def test_a_selection_reads_what_numpy_would_give(run_dir: Path, sel: Any) -> None:
    array = np.arange(10 * 7 * 5).reshape(10, 7, 5)
    with fb.open(run_dir) as run:
        run["x"] = array
        np.testing.assert_array_equal(run.get("x", sel=sel), array[sel])
        assert np.shape(run.get("x", sel=sel)) == array[sel].shape
        with run.snapshot(1) as s:
            s.put("x", array)
        np.testing.assert_array_equal(run.snapshots.at(1).get("x", sel), array[sel])


@pytest.mark.parametrize(
    "sel", [10, -11, (0, 0, 0, 0), True, [1, 2], np.array([0]), "x", slice("a"), (..., ...), slice(0, 5, 0)]
)
def test_an_index_that_is_not_basic_or_leaves_the_array_is_refused(sel: Any) -> None:
    with pytest.raises(fb.BadArgument):
        plan(sel, (10, 7, 5))


class InUnits:
    """A quantity as OpenMM's: it is asked for its value in a unit."""

    class Unit:
        def get_symbol(self) -> str:
            return "nm"

        def __str__(self) -> str:
            return "nanometer"

    unit = Unit()

    def __init__(self, numbers: list[float]) -> None:
        self.numbers = numbers

    def value_in_unit(self, unit: Unit) -> list[float]:
        assert unit is self.unit
        return self.numbers


def test_a_quantity_brings_its_unit(run_dir: Path) -> None:
    pint = pytest.importorskip("pint")
    xarray = pytest.importorskip("xarray")
    units = pint.UnitRegistry()
    values = np.array([1.0, 2.0])
    field = xarray.DataArray(values, dims=["x"], attrs={"units": "V/m"})
    quantities = {
        "pint": (units.Quantity(values, "V/m"), "V/m"),
        "number": (units.Quantity(2.5, "cm"), "cm"),
        "ratio": (units.Quantity(values, ""), ""),
        "openmm": (InUnits([1.0, 2.0]), "nm"),
        "xarray": (field, "V/m"),
        "both": (xarray.DataArray(units.Quantity(values, "s"), dims=["x"]), "s"),
        "bare": (xarray.DataArray(values, dims=["x"]), ""),
    }
    with fb.open(run_dir) as run:
        with run.snapshot(1) as s:
            for name, (quantity, unit) in quantities.items():
                run.put(name, quantity)
                assert run.dataset(name).info.units == unit, name
                np.testing.assert_array_equal(run[name], 2.5 if name == "number" else values)
                s.put(name, quantity)
        s.wait()
        assert run.snapshots.at(1).dataset("both").units == "s"
        run.put("same", quantities["openmm"][0], units="nm")
        run.put("field", field, units="V/m")
        for wrong in (
            lambda u: run.put("x", quantities["pint"][0], units=u),
            lambda u: run.put("x", field, units=u),
        ):
            with pytest.raises(fb.BadArgument, match=r"V/m.*'V'"):
                wrong("V")
        with pytest.raises(fb.BadArgument, match="quantity"):
            run.put("x", [units.Quantity(1.0, "m"), units.Quantity(2.0, "m")])
        assert "x" not in run


def test_masked_elements_are_refused_and_not_unmasked(run_dir: Path) -> None:
    masked = np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False])
    with fb.open(run_dir) as run:
        with pytest.raises(fb.BadArgument, match=r"1 of 3 elements.*filled"):
            run.put("x", masked)
        with pytest.raises(fb.BadArgument, match="filled"):
            run.attrs["x"] = masked
        with run.snapshot(1) as s:
            with pytest.raises(fb.BadArgument, match="filled"):
                s.put("x", masked[::-1])
            s.put("x", masked.filled(-1.0))
            s.put("mask", np.ma.getmaskarray(masked))
        run.put("x", np.ma.array([1.0, 2.0]))  # nothing is masked
        np.testing.assert_array_equal(run["x"], [1.0, 2.0])
        with pytest.raises(fb.BadArgument, match="a masked value stands in the list"):
            run.put("y", [1.0, np.ma.masked])
        with pytest.raises((fb.BadArgument, TypeError), match="a masked value"):
            run.attrs["m"] = np.ma.masked
        assert "y" not in run and "m" not in run.attrs
        t = run.table("t", {"v": "f64"})
        t.insert([(v,) for v in masked])
        np.testing.assert_array_equal(t.select()["v"], [1.0, np.nan, 3.0])


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([[1], [2, 3]], r"\[\[1\], \[2, 3\]\] is no array, for its rows differ in length; give rows"),
        ("a\ud800", r"the text 'a\\ud800' is not kept, for UTF-8 cannot write it.*; "),
        (np.array(["b\udfff"]), r"a text of the array is not kept, for UTF-8 cannot write it.*; "),
    ],
    ids=["ragged", "text", "texts"],
)
def test_what_makes_no_array_is_a_bad_argument(run_dir: Path, value: Any, said: str) -> None:
    with fb.open(run_dir) as run:
        with pytest.raises(fb.BadArgument, match=said):
            run.put("a", value)
        with run.snapshot(0) as s, pytest.raises(fb.BadArgument, match=said):
            s.put("a", value)
        assert list(run.list()) == []


def test_a_parameter_without_a_value_and_an_unknown_address_are_told_as_what_they_are(run_dir: Path) -> None:
    with (
        fb.open(run_dir) as run,
        pytest.raises(fb.BadArgument, match=r'parameter "p": its value None is no number.*; '),
    ):
        run.parameter("p", None)
    with pytest.raises(
        fb.BadArgument, match=r'"http://x/y" is neither the path of a run.*; .*fb://HOST:PORT/NAME'
    ):
        fb.open("http://x/y")


def test_files_of_numpys_and_the_command_line_take_and_give_what_python_does(
    place: Place, tmp_path: Path
) -> None:
    run = tmp_path / "npy.fb"
    arrays = {
        "be": np.arange(3, dtype=">f8"),
        "u": np.array(["a", "bc", ""]),
        "s": np.array([b"a", b"bc"]),
        "matrix": np.array([["ä", "b"], ["", "long"]], order="F"),
        "one": np.array("title"),
        "F": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    }
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
        place.command("put", run, name, tmp_path / f"{name}.npy")
        place.command("get", run, name, "-o", tmp_path / "back.npy")
        back = np.load(tmp_path / "back.npy")
        np.testing.assert_array_equal(back, array)
        assert back.dtype == array.dtype.newbyteorder("=")
    for name, array in arrays.items():
        shown = json.loads(place.command("show", run, name, "--json"))
        if array.dtype.kind != "S":
            assert shown["values"] == array.tolist()
        assert shown["order"] == "C"
    assert '["a", "bc", ""]' in place.command("show", run, "u")
    with fb.open(run, "r") as there:
        for name, array in arrays.items():
            np.testing.assert_array_equal(there[name], array)
    np.save(tmp_path / "f16.npy", np.zeros(2, np.longdouble))
    said = place.command("put", run, "f16", tmp_path / "f16.npy", status=1)
    assert "its dtype, <f16, is not kept; save a.astype('f8')" in said
    said = place.command("put", run, "i", "99999999999999999999", status=1)
    assert "99999999999999999999 is no integer of 64 bits; give one" in said
    place.command("put", run, "i", str(2**64 - 1))
    with fb.open(run, "r") as there:
        assert there["i"] == 2**64 - 1
