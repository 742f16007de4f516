"""Meshes and particles: what readers of openPMD, VTKHDF and netCDF find in the file of a step, by their values."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import forebay as fb
import h5py
import numpy as np
import pint
import pytest
import xarray as xr
from places import Place, ended

X, Y = np.linspace(0.0, 1.0, 6), np.array([10.0, 12.0, 14.0])
RNG = np.random.default_rng(11)
EX, EY = RNG.random((6, 3)), RNG.random((6, 3))
N = 5
P = {"x": RNG.random(N), "y": RNG.random(N)}
ID = np.arange(N, dtype=np.uint64)
LENGTH = [1.0, 0, 0, 0, 0, 0, 0]
FIELD = [1.0, 1, -3, -1, 0, 0, 0]


def file_of(run_dir: Path, step: int) -> Path:
    return run_dir / "steps" / f"{step:010}.h5"


def put(s: fb.Snapshot) -> None:
    """A vector on a staggered mesh, a scalar, and a species."""
    s.mesh(
        "E",
        {"x": EX, "y": EY},
        units="kV/m",
        coords={"x": X, "y": Y},
        position={"x": (0.5, 0.0), "y": (0.0, 0.5)},
        attrs={"note": "made"},
    )
    s.mesh("rho", EX + 1, units="C/m^3", spacing=(0.2, 2.0), origin=(0.0, 10.0))
    s.particles(
        "electrons",
        position=P,
        momentum=np.stack([P["x"], P["y"], -P["x"]], axis=1),
        weighting=np.ones(N, np.float32),
        id=ID,
        mass=9.1e-31,
        units={"position": "mm", "momentum": "kg m/s", "mass": "kg"},
    )


def messages(run: fb.Run) -> list[str]:
    run.flush()
    return [row["text"] for row in run.sql("SELECT text FROM fb_messages ORDER BY id")]


def test_meshes_and_particles_come_back_as_they_were_put(run_dir: Path, owner: str) -> None:
    with fb.open(run_dir) as run:
        with run.snapshot(100, time=0.5) as s:
            put(s)
        snap = run.snapshots.at(100)
        field, electrons = snap["E"], snap["electrons"]
        assert set(field) == {"x", "y"} and "E" in snap and "electrons/position" in snap and "B" not in snap
        np.testing.assert_array_equal(field["x"], EX)
        np.testing.assert_array_equal(field["y"], snap["E_y"])
        np.testing.assert_array_equal(snap.get("E", np.s_[1])["y"], EY[1])
        np.testing.assert_array_equal(snap["rho"], EX + 1)
        assert set(electrons) == {"position", "momentum", "weighting", "id", "mass"}
        assert electrons["mass"] == 9.1e-31 and set(electrons["position"]) == {"x", "y"}
        np.testing.assert_array_equal(electrons["position"]["y"], P["y"])
        np.testing.assert_array_equal(electrons["momentum"][:, 2], -P["x"])
        np.testing.assert_array_equal(snap["electrons/position"]["x"], P["x"])
        with pytest.raises(fb.NotFound):
            snap["B"]
        ds = snap.to_xarray()
        assert ds["E_x"].dims == ("x", "y") and float(ds["E_x"].sel(x=0.4, y=12.0)) == EX[2, 1]
        assert ds["electrons/position/x"].dims == ds["electrons/id"].dims == ("electrons/particle",)


def test_the_file_of_a_step_has_the_attributes_and_values_of_openpmd(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        for step, time in ((98, 0.3), (100, 0.5)):
            with run.snapshot(step, time=time) as s:
                put(s)
        with run.snapshot(101) as s:
            s.put("plain", EX)
            s.mesh("f", EX[0])
        with run.snapshot(102) as s:
            s.put("plain", EX)
    with h5py.File(file_of(run_dir, 100)) as f:
        texts = {"openPMD": b"1.1.0", "basePath": b"/data/%T/", "iterationEncoding": b"fileBased"}
        texts |= {"meshesPath": b"meshes/", "particlesPath": b"particles/", "iterationFormat": b"%010T.h5"}
        assert {key: f.attrs[key] for key in texts} == texts
        assert f.attrs["openPMDextension"] == 0 and f.attrs["openPMDextension"].dtype == np.uint32
        it = f["data/100"]
        assert it.attrs["time"] == 0.5 and it.attrs["timeUnitSI"] == 1.0
        np.testing.assert_allclose(it.attrs["dt"], 0.1)
        E, rho = it["meshes/E"], it["meshes/rho"]
        assert E.attrs["geometry"] == b"cartesian" and E.attrs["dataOrder"] == b"C"
        assert list(E.attrs["axisLabels"]) == [b"x", b"y"] and E.attrs["gridUnitSI"] == 1.0
        np.testing.assert_allclose(E.attrs["gridSpacing"], [0.2, 2.0])
        np.testing.assert_array_equal(E.attrs["gridGlobalOffset"], [0.0, 10.0])
        np.testing.assert_array_equal(E.attrs["unitDimension"], FIELD)
        assert E["x"].attrs["unitSI"] == 1e3 and E["x"].attrs["note"] == b"made" and "note" not in E.attrs
        np.testing.assert_array_equal(E["x"].attrs["position"], [0.5, 0.0])
        np.testing.assert_array_equal(E["y"].attrs["position"], [0.0, 0.5])
        np.testing.assert_array_equal(rho.attrs["position"], [0.0, 0.0])
        np.testing.assert_array_equal(E["y"], EY)
        np.testing.assert_array_equal(rho, EX + 1)
        # Readers pass over what bears these.
        assert not {"DIMENSION_LIST", "CLASS", "NAME"} & set(E["x"].attrs)
        e = it["particles/electrons"]
        np.testing.assert_array_equal(e["position/y"], P["y"])
        np.testing.assert_array_equal(e["momentum/z"], -P["x"])
        np.testing.assert_array_equal(e["id"], ID)
        assert (
            e["position"].attrs["unitDimension"].tolist() == LENGTH
            and e["position/x"].attrs["unitSI"] == 1e-3
        )
        assert e["positionOffset/x"].shape == (N,) and not e["positionOffset/x"][:].any()
        assert e["positionOffset/x"].id.get_storage_size() == 0
        assert e["mass"].attrs["value"] == 9.1e-31 and e["mass"].attrs["shape"].tolist() == [N]
    with h5py.File(file_of(run_dir, 101)) as f:
        assert f["data/101"].attrs["time"] == 101.0 and f["data/101"].attrs["dt"] == 1.0
        assert list(f["data/101/meshes"]) == ["f"] and "particlesPath" not in f.attrs
    with h5py.File(file_of(run_dir, 102)) as f:
        assert "openPMD" not in f.attrs and "data" not in f and "VTKHDF" not in f


def test_the_file_of_a_step_has_what_vtk_reads(run_dir: Path) -> None:
    box = RNG.random((4, 3, 2)).astype(np.float32)
    with fb.open(run_dir) as run:
        with run.snapshot(1) as s:
            s.mesh("T", box, dims=("z", "y", "x"), spacing=(0.1, 0.2, 0.3), origin=(1, 2, 3))
            s.mesh("flag", box > 0.5, dims=("z", "y", "x"))
        with run.snapshot(2) as s:
            put(s)
            s.mesh("line", EX[:1], dims=("one", "y"))
    with h5py.File(file_of(run_dir, 1)) as f:
        v = f["VTKHDF"]
        assert v.attrs["Type"] == b"ImageData" and v.attrs["Version"].tolist() == [1, 0]
        assert v.attrs["WholeExtent"].tolist() == [0, 1, 0, 2, 0, 3]
        assert v.attrs["Origin"].tolist() == [3, 2, 1] and v.attrs["Spacing"].tolist() == [0.3, 0.2, 0.1]
        assert v.attrs["Direction"].tolist() == np.eye(3).ravel().tolist()
        assert list(v["PointData"]) == ["T"]
        np.testing.assert_array_equal(v["PointData/T"], box)
        assert "flag" in f["data/1/meshes"]
    with h5py.File(file_of(run_dir, 2)) as f:
        v = f["VTKHDF"]
        assert v.attrs["Type"] == b"PartitionedDataSetCollection"
        names = ["E_x_X_is_y_Y_is_x", "E_y_X_is_y_Y_is_x", "rho_X_is_y_Y_is_x", "electrons"]
        assert set(v["Assembly"]) == set(names) and [v[name].attrs["Index"] for name in names] == [0, 1, 2, 3]
        assert isinstance(v["Assembly"].get("electrons", getlink=True), h5py.SoftLink)
        E_x = v[names[0]]
        assert E_x.attrs["WholeExtent"].tolist() == [0, 2, 0, 5, 0, 0]
        np.testing.assert_allclose(E_x.attrs["Origin"], [10.0, 0.1, 0.0])
        np.testing.assert_allclose(E_x.attrs["Spacing"], [2.0, 0.2, 1.0])
        e = v["electrons"]
        assert e.attrs["Type"] == b"PolyData" and e["NumberOfPoints"][:].tolist() == [N]
        # The axes as in the images of the same step.
        np.testing.assert_array_equal(e["Points"], np.stack([P["y"], P["x"], np.zeros(N)], axis=1))
        assert set(e["PointData"]) == {"momentum_x", "momentum_y", "momentum_z", "weighting", "id"}
        np.testing.assert_array_equal(e["PointData/momentum_z"], -P["x"])
        assert e["Vertices/NumberOfCells"][:].tolist() == [0] and e["Vertices/Connectivity"].shape == (0,)


def test_meshes_of_both_orders_keep_their_axes(run_dir: Path) -> None:
    with fb.open(run_dir) as run, run.snapshot(1) as s:
        s.mesh("c", EX, spacing=(0.2, 2.0), origin=(0.0, 10.0))
        grid = {"dims": ("u", "v"), "spacing": (0.2, 2.0), "origin": (0.0, 10.0)}
        room = s.allocate_mesh("f", (6, 3), order="F", **grid)
        room[:] = EX
        s.mesh("g", EX.T, dims=("y", "x"))
    with fb.open(run_dir, "r") as run:
        said = [row["text"] for row in run.sql("SELECT text FROM fb_messages")]
    assert len([text for text in said if "different orders" in text]) == 1
    with h5py.File(file_of(run_dir, 1)) as f:
        mesh = f["data/1/meshes/f"]
        assert mesh.attrs["dataOrder"] == b"F" and mesh.shape == (3, 6)
        assert list(mesh.attrs["axisLabels"]) == [b"u", b"v"]
        assert mesh.attrs["gridGlobalOffset"].tolist() == [0.0, 10.0]
        np.testing.assert_array_equal(mesh[:].T, EX)
        v = f["VTKHDF"]
        # Where the axes differ the newest versions turn those that are called x and y.
        assert v["c"].attrs["Direction"].tolist() == [0, 1, 0, 1, 0, 0, 0, 0, 1]
        assert v["c"].attrs["Origin"].tolist() == [0.0, 10.0, 0.0]
        assert v["g"].attrs["Direction"].tolist() == np.eye(3).ravel().tolist()
        assert v["f_X_is_u_Y_is_v"].attrs["Origin"].tolist() == [0.0, 10.0, 0.0]
        assert v["f_X_is_u_Y_is_v"].attrs["WholeExtent"].tolist() == [0, 5, 0, 2, 0, 0]


@pytest.mark.parametrize("engine", ["h5netcdf", "netcdf4"])
def test_xarray_reads_a_step_with_meshes_and_particles(run_dir: Path, engine: Any) -> None:
    with fb.open(run_dir) as run, run.snapshot(100, time=0.5) as s:
        put(s)
    with xr.open_dataset(file_of(run_dir, 100), engine=engine) as ds:
        assert set(ds) == {"E_x", "E_y"} | {"rho"} and set(ds.coords) == {"x", "y"}
        assert float(ds["E_y"].sel(x=0.4, y=12.0)) == EY[2, 1] and ds["E_y"].attrs["units"] == "kV/m"
    with xr.open_dataset(file_of(run_dir, 100), engine=engine, group="electrons/position") as ds:
        assert ds["x"].dims == ("particle",)
        np.testing.assert_array_equal(ds["x"], P["x"])
    with xr.open_dataset(file_of(run_dir, 100), engine=engine, group="electrons") as ds:
        np.testing.assert_array_equal(ds["id"], ID)


def test_they_survive_the_death_of_their_program_and_of_the_catalog(run_dir: Path, place: Place) -> None:
    code = f"""
import os, signal, numpy as np, forebay as fb
run = fb.open({os.fspath(run_dir)!r})
s = run.snapshot(3)
s.mesh("B", {{"z": np.ones((4, 2))}}, coords={{"x": 0.5 * np.arange(4.0)}}, units="T")
s.particles("ions", position={{"x": np.arange(3.0)}}, charge=2.0)
s.end()
os.kill(os.getpid(), signal.SIGKILL)
"""
    ended(place.python(code), -9)
    for _ in range(2):
        with fb.open(run_dir, "a") as run:
            snap = run.snapshots.at(3)
            assert (snap["B"]["z"] == 1).all() and snap["ions"]["charge"] == 2.0
        with h5py.File(file_of(run_dir, 3)) as f:
            assert f["data/3/meshes/B"].attrs["gridSpacing"].tolist() == [0.5, 1.0]
            assert f["data/3/particles/ions/position/x"][:].tolist() == [0, 1, 2]
        place.command("verify", run_dir)
        (run_dir / "catalog.sqlite").unlink()
        place.command("repair", run_dir, status=1)
    with h5py.File(file_of(run_dir, 3), "r+") as f:
        del f["data/3/meshes/B/z"]
    assert "/data/3/meshes/B/z" in place.command("verify", run_dir, status=1)
    place.command("repair", run_dir, status=1)
    place.command("verify", run_dir)
    with h5py.File(file_of(run_dir, 3)) as f:
        assert (f["data/3/meshes/B/z"][:] == 1).all() and f["VTKHDF/Assembly/ions/Points"][2, 1] == 2.0


def test_ranks_give_their_own_particles_and_parts_of_meshes(run_dir: Path, place: Place) -> None:
    program = """
import sys, numpy as np, forebay as fb
run = fb.open(sys.argv[1])
me = run.rank
def one(step, spacing):
    with run.snapshot(step) as s:
        part = np.full((2, 3), float(me))
        s.mesh("E", {"x": part, "y": part}, offset=(2 * me, 0), shape=(4, 3), spacing=spacing)
        mine = np.arange(me + 1) + 10.0 * me
        s.particles("e", position={"x": mine}, momentum=np.stack([mine, mine], axis=1), offset="append", mass=1.0)
        s.particles("p", position=mine[:1], offset=me, shape=2)
        s.mesh("F", {"xy"[me]: part}, dims=("u", "v"), spacing=spacing)
    s.wait(60)
one(1, 0.5)
try:
    one(2, 0.5 + me)
    run.flush()
    heard = []
except fb.Conflict as e:
    heard = [str(e)]
for _ in range(4):
    try:
        run.flush()
    except fb.Conflict as e:
        heard.append(str(e))
assert any("spacing" in text and "rank 1" in text for text in heard), heard
assert any("not of one mesh" in text for text in heard), heard
try:
    run.close()
except fb.Conflict:
    pass
"""
    for rank in place.ranks(2, sys.executable, "-c", program, run_dir):
        ended(rank)
    with fb.open(run_dir, "r") as run:
        for snap in run.snapshots:
            assert snap["E"]["y"][:, 0].tolist() == [0, 0, 1, 1]
            assert snap["e"]["position"]["x"].tolist() == [0, 10, 11] and snap["e"]["mass"] == 1.0
            assert snap["p"]["position"].tolist() == [0, 10]
            with h5py.File(file_of(run_dir, snap.step)) as f:
                it = f[f"data/{snap.step}"]
                assert it["meshes/E"].attrs["gridSpacing"].tolist() == [0.5, 0.5]
                assert it["particles/e/momentum/y"][:].tolist() == [0, 10, 11]
                assert it["particles/p/position/x"][:].tolist() == [0, 10]
                assert list(it["meshes/F"]) == (["x"] if snap.step == 2 else ["x", "y"])
    place.command("verify", run_dir)


def test_what_readers_have_no_type_for_hides_no_other_mesh(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        with run.snapshot(1) as s:
            s.mesh("half", EX.astype("f2"))
            s.mesh("T", EX)
        assert any("half" in text and "no f16" in text for text in messages(run))
    with h5py.File(file_of(run_dir, 1)) as f:
        assert list(f["data/1/meshes"]) == ["T"] and "half" in f


def test_what_has_no_even_grid_is_in_the_run_alone_and_that_is_said_once(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        for step in (1, 2):
            with run.snapshot(step) as s:
                s.mesh("bent", EX, coords={"x": X**2})
                s.mesh("T", EX[0], dims="t", units="degC")
        said = messages(run)
        np.testing.assert_array_equal(run.snapshots.at(1)["bent"], EX)
    assert len([text for text in said if "bent" in text and "same distance" in text]) == 1
    assert len([text for text in said if "degC" in text and "not linear" in text]) == 1
    with h5py.File(file_of(run_dir, 2)) as f:
        assert list(f["data/2/meshes"]) == ["T"]
        T = f["data/2/meshes/T"].attrs
        assert T["unitText"] == b"degC: not linear" and T["unitSI"] == 1.0 and not T["unitDimension"].any()


@pytest.mark.parametrize(
    ("name", "values", "options", "text"),
    [
        ("a/b", EX, {}, "no name of a mesh"),
        ("E", {"x": EX, "y": EX[1:]}, {}, "have the shapes"),
        ("E", {}, {}, "no components"),
        ("E", {1: EX}, {}, "no name of a component"),
        ("E", {"x y": EX}, {}, "no name of a component"),
        ("E", 1.0, {}, "at least one axis"),
        ("E", np.ones((1, 1, 1, 1)), {}, "name each of them"),
        ("E", EX, {"spacing": (1.0,)}, "has 1 numbers"),
        ("E", EX, {"spacing": (1.0, -1.0)}, "not positive"),
        ("E", EX, {"origin": np.nan}, "finite numbers"),
        ("E", EX, {"spacing": "wide"}, "one for each axis"),
        ("E", EX, {"position": 1.0}, "leaves the cell"),
        ("E", {"x": EX}, {"position": {"z": 0.5}}, "no such component"),
        ("E", np.array(["a", "b"]), {}, "array of numbers"),
        ("data", EX, {}, "is not free"),
        ("VTKHDF", EX, {}, "is not free"),
    ],
)
def test_a_mesh_that_readers_cannot_take_is_refused_by_name(
    run_dir: Path, name: str, values: Any, options: dict[str, Any], text: str
) -> None:
    with fb.open(run_dir) as run, run.snapshot(1) as s, pytest.raises(fb.BadArgument, match=text):
        s.mesh(name, values, **options)


@pytest.mark.parametrize(
    ("name", "records", "text"),
    [
        ("e", {"position": {"x": P["x"], "y": P["y"][1:]}}, "5 particles"),
        ("e", {"position": 1.0}, "give arrays"),
        ("e", {"position": np.ones((5, 4))}, "record of particles"),
        ("e", {"position": P, "mass": float("inf")}, "finite number"),
        ("e", {"position": P, "positionOffset": P["x"]}, "writes itself"),
        ("e", {"position": P, "units": {"momentum": "m"}}, "no such record"),
        ("e", {"position": P, "units": "m"}, "not by record"),
        ("a b", {"position": P}, "no name of a species"),
        ("forebay", {"position": P}, "is not free"),
    ],
)
def test_particles_that_readers_cannot_take_are_refused_by_name(
    run_dir: Path, name: str, records: dict[str, Any], text: str
) -> None:
    with fb.open(run_dir) as run, run.snapshot(1) as s, pytest.raises(fb.BadArgument, match=text):
        s.particles(name, **records)


def test_the_components_of_a_mesh_lie_on_one_grid(run_dir: Path) -> None:
    with fb.open(run_dir) as run, run.snapshot(1) as s:
        s.mesh("E", {"x": EX}, spacing=0.5)
        with pytest.raises(fb.Conflict, match=r'"E_y" and "E_x" are not of one mesh'):
            s.mesh("E", {"y": EY}, spacing=0.25)
        s.mesh("E", {"y": EY}, spacing=0.5)


def test_quantities_bring_their_units_and_a_species_may_have_no_particles(run_dir: Path) -> None:
    unit = pint.UnitRegistry()
    with fb.open(run_dir) as run, run.snapshot(1) as s:
        s.mesh("E", {"x": EX * unit("kV/m")}, spacing=0.5)
        s.mesh("T", xr.DataArray(EX, dims=("a", "b"), attrs={"units": "K"}))
        s.mesh("rows", [[1, 2], [3, 4]], dims=("u", "v"))
        s.particles("e", position={"x": P["x"] * unit.mm}, mass=2 * unit.g)
        s.particles("none", position={"x": np.zeros(0)})
    with h5py.File(file_of(run_dir, 1)) as f:
        it = f["data/1"]
        assert it["meshes/E/x"].attrs["unitSI"] == 1e3 and it["meshes/T"].attrs["unitDimension"][4] == 1.0
        assert it["meshes/rows"][:].tolist() == [[1, 2], [3, 4]]
        e = it["particles/e"]
        assert e["position/x"].attrs["unitSI"] == e["mass"].attrs["unitSI"] == 1e-3
        assert it["particles/none/position/x"].shape == (0,) and "none" not in f["VTKHDF"]


# Those of which other registries of units have the same meaning.
SYMBOLS = (
    "m g s A K mol cd rad sr Hz Bq N Pa J W C V F ohm S Wb T H lm lx Gy Sv kat angstrom bohr pc ly inch ft mile hectare l L "
    "min hr day year tonne amu Da pound dyn bar atm torr mmHg psi eV cal erg hartree e percent ppm deg arcmin arcsec"
)
FORMS = [
    "kg m^-2 s^-1",
    "kg/m**2/s",
    "V/m",
    "kcal/mol",
    "µm",
    "ns",
    "kV/cm",
    "1/cm**3",
    "MeV",
    "hPa",
    "daN",
    "nanoseconds",
]


def test_units_have_the_factor_and_the_dimension_that_pint_knows(run_dir: Path) -> None:
    registry = pint.UnitRegistry()
    base = ("[length]", "[mass]", "[time]", "[current]", "[temperature]", "[substance]", "[luminosity]")
    prefixed = [
        f"{prefix}{unit}" for prefix in ("n", "k", "M") for unit in ("m", "s", "A", "K", "N", "J", "eV")
    ]
    units = [*SYMBOLS.split(), *FORMS, *prefixed]
    with fb.open(run_dir) as run, run.snapshot(1) as s:
        for at, unit in enumerate(units):
            s.mesh(f"u{at}", np.ones(2), units=unit)
    with h5py.File(file_of(run_dir, 1)) as f:
        for at, unit in enumerate(units):
            there = f[f"data/1/meshes/u{at}"].attrs
            known = registry(unit).to_base_units()
            powers = [known.dimensionality.get(dimension, 0) for dimension in base]
            assert there["unitDimension"].tolist() == powers, unit
            # pint counts mass in grams nowhere: its base is the kilogram.
            np.testing.assert_allclose(there["unitSI"], float(known.magnitude), rtol=1e-6, err_msg=unit)


def test_what_is_filled_in_place_is_a_mesh_or_a_record_as_what_is_put(run_dir: Path) -> None:
    with fb.open(run_dir) as run, run.snapshot(1) as s:
        s.mesh("E", {"x": EX}, spacing=0.5, units="V/m")
        Ey = s.allocate_mesh("E", (6, 3), component="y", spacing=0.5, position=(0.0, 0.5), units="V/m")
        Ey[:] = EY
        s.allocate_mesh("rho", (3, 3), "f4", spacing=0.5, offset=(0, 0), global_shape=(6, 3), fill=0)[:] = 1
        s.particles("e", {"x": P["x"]}, mass=2.0)
        v = s.allocate_particles("e", "velocity", (N, 2), units="m/s", attrs={"half": True})
        v[:] = 3
        for act, text in (
            (lambda: s.allocate_mesh("E", 6, component="z", spacing=0.5), "not of one mesh"),
            (lambda: s.allocate_mesh("n", (6, 3), position=(0, 1)), "leaves the cell"),
            (lambda: s.allocate_particles("e", "a", (N, 4)), "side by side"),
            (lambda: s.allocate_particles("e", "b", N, offset=0), "go together"),
        ):
            with pytest.raises(fb.Error, match=text):
                act()
    with h5py.File(file_of(run_dir, 1)) as f:
        it = f["data/1"]
        np.testing.assert_array_equal(it["meshes/E/y"][:], EY)
        assert it["meshes/E/y"].attrs["position"].tolist() == [0.0, 0.5]
        np.testing.assert_array_equal(it["meshes/rho"][:], [[1] * 3] * 3 + [[0] * 3] * 3)
        assert it["particles/e/velocity"]["y"][:].tolist() == [3.0] * N
        assert it["particles/e/mass"].attrs["value"] == 2.0
    with fb.open(run_dir, "r") as run:
        assert run.snapshots.at(1).attrs("e/velocity") == {"half": True}
