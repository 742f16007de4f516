"""Arrays of steps that say what they are: h5py, xarray and netCDF4 find it in the file, and so does Forebay."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from typing import Any

import forebay as fb
import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr
from places import Place, ended

X, Y = np.linspace(0.0, 1.0, 6), np.array([10.0, 12.0, 14.0])
ATTRS: dict[str, Any] = {
    "long_name": "temperature",
    "sigma": 0.5,
    "whole": 1.0,
    "n": 3,
    "none": None,
    "nan": math.nan,
    "big": 2**70,
    "most": 2**64 - 1,
    "yes": True,
    "list": ["a", "µ", ""],
    "mixed": [1, "a", {"$x": -math.inf}],
    "array": np.arange(6, dtype=np.float32).reshape(2, 3),
    "z": 1 + 2j,
    "raw": b"\x00\xff",
    "json": '{"$": "nan"}',
}


def file_of(run_dir: Path, step: int) -> Path:
    return run_dir / "steps" / f"{step:010}.h5"


@pytest.fixture
def T() -> np.ndarray:
    return np.random.default_rng(7).random((6, 3))


def same(found: Any, put: Any) -> bool:
    if isinstance(put, np.ndarray):
        return found.dtype == put.dtype and np.array_equal(found, put)
    if isinstance(put, float) and math.isnan(put):
        return bool(math.isnan(found))
    return type(found) is type(put) and found == put


def test_names_coordinates_and_attributes_come_back_as_they_were_put(
    run_dir: Path, owner: str, T: np.ndarray
) -> None:
    with fb.open(run_dir) as run:
        with run.snapshot(100, time=0.5) as s:
            s.put("T", T, units="K", dims=("x", "y"), coords={"x": X, "y": Y}, attrs=ATTRS)
            s.put("p", T, dims=("x", "y"), coords={"x": X.copy()})
            s.put("plain", T)
        snap = run.snapshots.at(100)
        assert snap.dims("T") == snap.dims("p") == ("x", "y") and snap.dims("plain") == ()
        assert snap.names() == ["T", "p", "plain", "x", "y"]
        found = snap.attrs("T")
        assert found.keys() == ATTRS.keys()
        assert [key for key in ATTRS if not same(found[key], ATTRS[key])] == []
        assert snap.attrs("plain") == {} and snap.dataset("T").units == "K"
        coords = snap.coords("T")
        np.testing.assert_array_equal(coords["x"], X)
        np.testing.assert_array_equal(coords["y"], Y)
        np.testing.assert_array_equal(snap["T"], T)
        as_xarray = snap.to_xarray()
        assert as_xarray["T"].sel(x=0.4, y=12.0) == T[2, 1] and as_xarray["T"].attrs["units"] == "K"
        assert set(as_xarray.coords) == {"x", "y", "step", "time"} and as_xarray["time"] == 0.5
        with run.snapshot(101, time=0.6) as s:
            s.put("T", T + 1, units="K", dims=("x", "y"), coords={"x": X, "y": Y}, attrs=ATTRS)
        over = run.to_xarray("T")
        assert over["T"].dims == ("time", "x", "y") and over["T"].attrs["units"] == "K"
        assert over["T"].sel(time=0.6, x=0.4, y=12.0) == T[2, 1] + 1


@pytest.mark.parametrize("engine", ["h5netcdf", "netcdf4"])
def test_others_read_the_file_of_a_step_with_names_coordinates_and_units(
    run_dir: Path, engine: Any, T: np.ndarray
) -> None:
    n = np.arange(12, dtype=np.int64).reshape(3, 4)
    with fb.open(run_dir) as run, run.snapshot(100, time=0.5) as s:
        s.put(
            "T",
            T,
            units="K",
            dims=("x", "y"),
            coords={"x": X, "y": Y},
            attrs={"long_name": "temperature", "sigma": 0.5},
        )
        s.put("n", n, dims=("y", "z"), attrs={"_FillValue": -1})
        s.put("grid/u", T, dims=("x", "z"), coords={"x": X + 1})
        f = s.allocate("f", (6, 3), order="F", dims=("x", "y"), units="m")
        f[:] = T
    with xr.open_dataset(file_of(run_dir, 100), engine=engine) as ds:
        assert float(ds["T"].sel(x=0.4, y=12.0)) == T[2, 1]
        assert ds["T"].dims == ("x", "y") and ds["n"].dims == ("y", "z")
        assert ds["T"].attrs["units"] == "K" and ds["T"].attrs["long_name"] == "temperature"
        assert float(ds["T"].attrs["sigma"]) == 0.5
        assert set(ds.coords) == {"x", "y"} and "z" not in ds.variables
        np.testing.assert_array_equal(ds["n"], n)
        # The letters of the axes go along with an array of Fortran's.
        assert ds["f"].dims == ("y", "x") and float(ds["f"].sel(x=0.4, y=12.0)) == T[2, 1]
    with xr.open_dataset(file_of(run_dir, 100), engine=engine, group="grid") as ds:
        assert ds["u"].dims == ("x", "z") and float(ds["u"].sel(x=1.4)[1]) == T[2, 1]


def test_attributes_are_of_their_kind_for_h5py_and_netcdf4(run_dir: Path, T: np.ndarray) -> None:
    with fb.open(run_dir) as run, run.snapshot(1) as s:
        s.put("T", T, units="µm", dims=("x", "y"), coords={"x": X}, attrs=ATTRS)
    with h5py.File(file_of(run_dir, 1)) as f:
        attrs = f["T"].attrs
        assert attrs["units"] == "µm" and attrs["long_name"] == "temperature"
        kinds = {
            "sigma": np.float64,
            "whole": np.float64,
            "n": np.int64,
            "most": np.uint64,
            "yes": np.bool_,
            "z": complex,
        }
        for key, kind in kinds.items():
            assert np.issubdtype(attrs[key].dtype, kind) and attrs[key] == ATTRS[key], key
        assert math.isnan(attrs["nan"]) and attrs["big"] == '{"$int":"1180591620717411303424"}'
        assert [one.decode() for one in attrs["list"]] == ATTRS["list"]
        np.testing.assert_array_equal(attrs["array"], ATTRS["array"])
        assert attrs["array"].dtype == np.float32
        assert f["T"].dims[0][0] == f["x"] and f["x"].is_scale and f["y"].is_scale
        assert f["x"].attrs["NAME"].decode() == "x"
    with netCDF4.Dataset(file_of(run_dir, 1)) as nc:
        T_there = nc["T"]
        assert T_there.dimensions == ("x", "y") and T_there.units == "µm" and T_there.n == 3
        assert T_there.list == ATTRS["list"] and nc.dimensions["y"].size == 3
        np.testing.assert_array_equal(T_there[:], T)


def test_what_is_said_survives_the_death_of_its_program_and_of_its_catalog(
    run_dir: Path, place: Place
) -> None:
    code = f"""
import os, signal, numpy as np, forebay as fb
run = fb.open({os.fspath(run_dir)!r})
s = run.snapshot(3)
s.put("T", np.ones((4, 2)), units="K", dims=("x", "y"), coords={{"x": np.arange(4.0)}}, attrs={{"a": 2**70}})
s.end()
os.kill(os.getpid(), signal.SIGKILL)
"""
    ended(place.python(code), -9)
    with fb.open(run_dir, "a") as run:
        snap = run.snapshots.at(3)
        assert snap.dims("T") == ("x", "y") and snap.attrs("T") == {"a": 2**70}
        np.testing.assert_array_equal(snap.coords("T")["x"], np.arange(4.0))
    with xr.open_dataset(file_of(run_dir, 3), engine="h5netcdf") as ds:
        assert float(ds["T"].sel(x=2.0)[0]) == 1.0
    (run_dir / "catalog.sqlite").unlink()
    place.command("repair", run_dir, status=1)
    with fb.open(run_dir, "r") as run:
        assert run.snapshots.at(3).dims("T") == ("x", "y") and run.snapshots.at(3).attrs("T") == {"a": 2**70}


def test_arrays_share_a_coordinate_and_another_one_is_refused_by_both_names(
    run_dir: Path, T: np.ndarray
) -> None:
    with fb.open(run_dir) as run:
        with run.snapshot(1) as s:
            s.put("T", T, dims=("x", "y"), coords={"x": X})
            with pytest.raises(fb.Conflict, match=r'"p".*"T"'):
                s.put("p", T, dims=("x", "y"), coords={"x": X + 1})
            with pytest.raises(fb.Conflict, match='6 elements in "T" and 5 in "q"'):
                s.put("q", np.ones(5), dims="x")
            with pytest.raises(fb.BadArgument, match="already, as a coordinate"):
                s.put("x", X)
            with pytest.raises(fb.BadArgument, match="is its coordinate"):
                s.put("y", T)
            s.put("y", Y, units="m")
            s.put("p", T, dims=("x", "y"), coords={"x": X})
            s.put("other/p", T, dims=("x", "y"), coords={"x": X + 1})
        snap = run.snapshots.at(1)
        np.testing.assert_array_equal(snap.coords("other/p")["x"], X + 1)
        assert list(snap.coords("p")) == ["x", "y"] and snap.names() == [
            "T",
            "other/p",
            "other/x",
            "p",
            "x",
            "y",
        ]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"dims": ("x",)}, "has 2"),
        ({"dims": ("x", "x")}, "two axes"),
        ({"dims": ("x", "a/b")}, "slash"),
        ({"dims": ("x", 3)}, "is a int"),
        ({"coords": {"x": X}}, "without dims"),
        ({"dims": ("x", "y"), "coords": {"z": X}}, "no such axis"),
        ({"dims": ("x", "y"), "coords": {"x": Y}}, "has 3 elements, and the axis has 6"),
        ({"dims": ("x", "y"), "coords": {"x": np.ones((6, 3))}}, "one number, or one text"),
        ({"dims": ("x", "y"), "coords": {"x": np.ma.masked_less(X, 0.3)}}, "_FillValue"),
        ({"attrs": {"DIMENSION_LIST": 1}}, "DIMENSION_LIST"),
        ({"attrs": {"units": "K"}, "units": "m"}, "say it once"),
        ({"attrs": {"f": object()}}, "has no place"),
        ({"attrs": {"a": "b" * 70_000}}, "put it as an array"),
        ({"attrs": {"_FillValue": 1e40}}, "no value of the dtype"),
    ],
)
def test_what_is_not_kept_is_refused_by_name_and_the_array_may_be_put_again(
    run_dir: Path, options: dict[str, Any], text: str
) -> None:
    with fb.open(run_dir) as run:
        with run.snapshot(1) as s:
            with pytest.raises(fb.BadArgument, match=text):
                s.put("T", np.zeros((6, 3), np.float32), **options)
            s.put("T", np.ones((6, 3)))
        assert (run.snapshots.at(1)["T"] == 1.0).all()


@pytest.mark.parametrize("name", ["data", "data/x", "VTKHDF", "forebay/manifest"])
def test_a_name_of_the_formats_is_refused_at_the_put(run_dir: Path, name: str) -> None:
    with fb.open(run_dir) as run, run.snapshot(1) as s, pytest.raises(fb.BadArgument, match="is not free"):
        s.put(name, X)


@pytest.mark.parametrize("unit", ["D", "s", "ns"])
def test_points_in_time_are_kept_with_the_units_of_cf(run_dir: Path, unit: str) -> None:
    t = np.array(["2026-01-01", "2026-01-03"], f"M8[{unit}]")
    with fb.open(run_dir) as run, run.snapshot(1) as s:
        s.put("a", np.ones(2), dims="t", coords={"t": t})
        s.put("when", t, dims="t")
    with xr.open_dataset(file_of(run_dir, 1), engine="h5netcdf") as ds:
        assert (ds["t"].values == t).all() and (ds["when"].values == t).all()


def test_ranks_say_the_same_or_one_says_it_and_where_they_differ_the_lowest_is_kept(
    run_dir: Path, place: Place
) -> None:
    program = """
import sys, numpy as np, forebay as fb
run = fb.open(sys.argv[1])
me, x = run.rank, np.arange(4.0)
def one(step, **options):
    with run.snapshot(step) as s:
        s.put("T", np.full((2, 3), me), offset=(2 * me, 0), shape=(4, 3), **options)
    s.wait(60)
one(1, dims=("x", "y"), coords={"x": x}, attrs={"a": 1})
one(2, **({"dims": ("x", "y"), "coords": {"x": x}, "attrs": {"a": 1}} if me else {}))
heard = []
try:
    one(3, dims=("x", "y"), coords={"x": x + me}, attrs={"a": me})
except fb.Conflict as e:
    heard.append(str(e))
for _ in range(4):
    try:
        run.flush()
    except fb.Conflict as e:
        heard.append(str(e))
assert any("coordinate" in text and "rank 1" in text and "rank 0" in text for text in heard), heard
assert any('attribute "a"' in text for text in heard), heard
try:
    run.close()
except fb.Conflict:
    pass
"""
    for rank in place.ranks(2, sys.executable, "-c", program, run_dir):
        ended(rank)
    with fb.open(run_dir, "r") as run:
        assert run.snapshots.numbers == [1, 2, 3]
        for snap in run.snapshots:
            np.testing.assert_array_equal(snap.coords("T")["x"], np.arange(4.0))
            assert snap.dims("T") == ("x", "y") and snap.attrs("T") == {"a": 0 if snap.step == 3 else 1}
    place.command("verify", run_dir)
