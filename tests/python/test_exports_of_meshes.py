"""Meshes and particles leave for programs of their fields, and views follow the run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import forebay as fb
import h5py
import numpy as np
import pytest
import xarray as xr
from places import Place, ended, forebay_exe

RNG = np.random.default_rng(3)
E = {name: RNG.random((6, 4)) for name in "xyz"}
RHO = RNG.random((6, 4))
X = np.linspace(0.0, 1.0, 6)
COUNTS = {0: 5, 10: 7, 20: 3}
P = {step: RNG.random((n, 3)) for step, n in COUNTS.items()}
U = {step: RNG.random(n).astype(np.float32) for step, n in COUNTS.items()}


class Shell:
    """The command, typed in a folder."""

    def __init__(self, place: Place, folder: Path) -> None:
        self.place, self.folder = place, folder

    def ask(self, *words: object, status: int = 0) -> str:
        exe = forebay_exe()
        assert exe is not None
        out, err = ended(self.place.start(exe, *[str(word) for word in words], cwd=self.folder), status)
        return out if status == 0 else err

    def export(self, *words: object) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self.ask("export", "a", *words, "--json"))
        return said


@pytest.fixture
def shell(place: Place, tmp_path: Path) -> Shell:
    """A run with meshes, particles and others; the axis is a constant of the run."""
    with fb.open(tmp_path / "a.fb", "w") as run:
        run.constant("x", X, "m")
        history = run.diagram("energy", "history")
        for step in COUNTS:
            history.append(0.5 * step, kinetic=1.0 + step, field=2.0)
            with run.snapshot(step, 0.5 * step) as s:
                s.mesh("E", E, units="V/m", dims=("x", "y"), compress="gzip")
                s.mesh("rho", RHO + step, units="C/m^3", dims=("x", "y"))
                s.mesh("half", RHO.astype("f2"), dims=("x", "y"))
                s.mesh("bent", np.ones(3), dims=("q",), coords={"q": [0.0, 1.0, 5.0]})
                s.put("plain", np.ones(2))
                s.particles(
                    "ions",
                    position=P[step],
                    velocity={"x": U[step], "y": 2 * U[step]},
                    id=np.arange(COUNTS[step], dtype=np.uint32),
                    mass=2.0,
                    units={"position": "nm", "velocity": "nm/ps", "mass": "kg"},
                )
    return Shell(place, tmp_path)


def test_each_snapshot_is_a_file_of_openpmd_with_everything_in_it(shell: Shell) -> None:
    said = shell.export("--to", "openpmd")
    assert (said["steps"], said["left_out"]) == (3, ["bent", "plain"]), said
    files = shell.folder / "a_openpmd"
    assert [file.name for file in sorted(files.iterdir())] == [f"a_{step:010}.h5" for step in COUNTS]
    shutil.rmtree(shell.folder / "a.fb")
    for step in COUNTS:
        with h5py.File(files / f"a_{step:010}.h5") as f:
            assert f.attrs["openPMD"] == b"1.1.0" and f.attrs["iterationFormat"] == b"a_%010T.h5"
            it = f["data"][str(step)]
            assert (it.attrs["time"], it.attrs["dt"]) == (0.5 * step, 0.5 if step else 0.0)
            assert set(it["meshes"]) == {"E", "rho", "half"} and set(it["particles"]) == {"ions"}
            for name, values in E.items():
                assert np.array_equal(it["meshes/E"][name], values)
            rho, half = it["meshes/rho"], it["meshes/half"]
            assert np.array_equal(rho, RHO + step) and half.dtype == np.float32
            assert np.array_equal(half, RHO.astype("f2"))
            np.testing.assert_allclose(rho.attrs["gridSpacing"], [0.2, 1.0])
            ions = it["particles/ions"]
            assert np.array_equal(ions["position/y"], P[step][:, 1]) and ions["mass"].attrs["value"] == 2.0
            # What it is made of is not compressed, and not elsewhere.
            assert f["E_x"].chunks is None and np.array_equal(f["x"], X) and f["VTKHDF"].attrs["Type"]
    # It comes back as its arrays, each once.
    shell.ask("import", "a_openpmd/a_0000000010.h5", "b")
    with fb.open(shell.folder / "b", "r") as run:
        names = sorted({d.name for d in run.list()})
        assert "E_x" in names and not any(name.startswith(("data", "VTKHDF")) for name in names)


def test_a_choice_of_meshes_replaces_an_export_and_nothing_else(shell: Shell) -> None:
    shell.export("--to", "openpmd")
    shell.export("rho", "--to", "openpmd", "--steps", "10", "--force")
    files = shell.folder / "a_openpmd"
    assert [file.name for file in files.iterdir()] == ["a_0000000010.h5"]
    with h5py.File(files / "a_0000000010.h5") as f:
        assert set(f["data/10/meshes"]) == {"rho"} and "particles" not in f["data/10"]
    (files / "mine.txt").write_text("")
    for words, text in (
        (("--to", "openpmd", "--force"), "is not replaced"),
        (("plain", "--to", "openpmd", "-o", "b"), "has no mesh or particles"),
        (("bent", "--to", "vtkhdf", "-o", "b"), "not equally far apart"),
        (("energy", "--to", "vtkhdf", "-o", "b"), '"energy" is a table, and'),
    ):
        assert text in shell.ask("export", "a", *words, status=1)
    assert sorted(path.name for path in shell.folder.iterdir()) == ["a.fb", "a_openpmd"]


def test_one_file_of_vtkhdf_has_images_and_points_over_all_snapshots(shell: Shell) -> None:
    said = shell.export("--to", "vtkhdf")
    assert said["left_out"] == ["bent", "ions/mass", "plain", "q"] and said["steps"] == 3, said
    with h5py.File(shell.folder / "a.vtkhdf") as f:
        root = f["VTKHDF"]
        assert root.attrs["Type"] == b"MultiBlockDataSet" and root["Steps"].attrs["NSteps"] == 3
        assert root["Steps/Values"][:].tolist() == [0.0, 5.0, 10.0]
        image, ions = root["E_X_is_y_Y_is_x"], root["ions"]
        assert list(root["Assembly"]) == ["E_X_is_y_Y_is_x", "ions"] and ions.attrs["Index"] == 1
        # VTK's x is the last axis of the arrays, and the components are in that order.
        assert image.attrs["WholeExtent"].tolist() == [0, 3, 0, 5, 0, 0]
        np.testing.assert_allclose(image.attrs["Spacing"], [1.0, 0.2, 1.0])
        assert set(image["PointData"]) == {"E", "rho", "half"} and image["PointData/E"].shape == (3, 6, 4, 3)
        for at, name in enumerate("yxz"):
            assert np.array_equal(image["PointData/E"][2, ..., at], E[name])
        assert np.array_equal(image["PointData/rho"][1], RHO + 10)
        n = list(COUNTS.values())
        assert ions["NumberOfPoints"][:].tolist() == n == ions["Vertices/NumberOfCells"][:].tolist()
        assert ions["Steps/PointOffsets"][:].tolist() == [0, 5, 12]
        assert ions["Steps/CellOffsets"][:, 0].tolist() == [0, 5, 12]
        assert ions["Vertices/Offsets"].shape == (sum(n) + 3,)
        points = ions["Points"][5:12]
        assert points.dtype == np.float64 and np.array_equal(points, P[10][:, [1, 0, 2]])
        velocity = ions["PointData/velocity"][12:]
        assert velocity.dtype == np.float32
        assert np.array_equal(velocity, np.stack([2 * U[20], U[20], 0 * U[20]], axis=1))
        assert ions["PointData/id"][5:12].tolist() == list(range(7))
    # One grid alone is no collection, and one snapshot has no axis of time.
    shell.export("rho", "--to", "vtkhdf", "--steps", "20", "-o", "rho.vtkhdf")
    with h5py.File(shell.folder / "rho.vtkhdf") as f:
        assert f["VTKHDF"].attrs["Type"] == b"ImageData" and "Steps" not in f["VTKHDF"]
        assert np.array_equal(f["VTKHDF/PointData/rho"], RHO + 20)


@pytest.mark.parametrize("engine", ["h5netcdf", "netcdf4"])
def test_a_view_is_opened_by_xarray_and_follows_when_snapshots_go(shell: Shell, engine: Any) -> None:
    said = shell.export("E", "rho", "q", "--view", "a.fb/views/all.h5")
    assert (said["arrays"], said["steps"]) == (6, 3), said
    view = shell.folder / "a.fb" / "views" / "all.h5"
    with xr.open_dataset(view, engine=engine) as ds:
        assert ds["E_x"].dims == ("step", "x", "y") and ds["E_x"].units == "V/m"
        assert ds["step"].values.tolist() == [0, 10, 20] and ds["time"].values.tolist() == [0.0, 5.0, 10.0]
        np.testing.assert_array_equal(ds["rho"].sel(step=10), RHO + 10)
        np.testing.assert_allclose(ds["x"].values, X)
    shell.export("rho", "--view", "mine.h5")
    shell.ask("drop", "a", "0", "20", "--yes")
    with xr.open_dataset(view, engine=engine) as ds:
        assert ds["step"].values.tolist() == [10] and np.array_equal(ds["rho"][0], RHO + 10)
        np.testing.assert_allclose(ds["x"].values, X)
    with h5py.File(view) as f:
        assert f["here"][:].tolist() == [b"{"]
    # A view elsewhere is the user's, and says itself what is gone.
    with h5py.File(shell.folder / "mine.h5") as f:
        assert f["here"][:].tolist() == [b"", b"{", b""] and np.isnan(f["rho"][0]).all()
    shell.ask("drop", "a", "10", "--yes")
    assert not view.exists() and list(view.parent.iterdir()) == []


def test_a_view_shows_constants_and_steps_without_times_are_their_own(place: Place, tmp_path: Path) -> None:
    line = np.linspace(2.0, 4.0, 20_001)
    shell = Shell(place, tmp_path)
    with fb.open(tmp_path / "a.fb", "w") as run:
        run.constant("masses", line, "kg")
        for step in (1, 2):
            with run.snapshot(step) as s:
                s.mesh("T", line * step, "K", dims=("s",), coords={"s": line})
    assert len(list((tmp_path / "a.fb" / "data").iterdir())) == 1
    shell.export("--to", "openpmd")
    shell.export("--to", "vtkhdf")
    shell.export("--view", "a.fb/views/v.h5")
    with xr.open_dataset(tmp_path / "a.fb" / "views" / "v.h5", engine="h5netcdf") as ds:
        np.testing.assert_array_equal(ds["s"], line)
        np.testing.assert_array_equal(ds["T"].sel(step=2), 2 * line)
        np.testing.assert_array_equal(ds["masses"], [line, line])
    shutil.rmtree(tmp_path / "a.fb")
    with h5py.File(tmp_path / "a_openpmd" / "a_0000000002.h5") as f:
        T = f["data/2/meshes/T"]
        np.testing.assert_allclose(T.attrs["gridSpacing"], [1e-4])
        assert T.attrs["gridGlobalOffset"].tolist() == [2.0]
        assert np.array_equal(T, 2 * line) and np.array_equal(f["s"], line)
    with h5py.File(tmp_path / "a.vtkhdf") as f:
        assert f["VTKHDF"].attrs["Origin"].tolist() == [2.0, 0.0, 0.0]
        # Without times the steps stand for them.
        assert f["VTKHDF/Steps/Values"][:].tolist() == [1.0, 2.0]
        assert np.array_equal(f["VTKHDF/PointData/T"][1], 2 * line)


def test_units_and_numbers_that_are_others_at_other_snapshots_are_never_taken_for_the_first_ones(
    place: Place, tmp_path: Path
) -> None:
    with fb.open(tmp_path / "a.fb", "w") as run:
        for step, unit in enumerate(("m", "mm", "m")):
            with run.snapshot(step, float(step)) as s:
                s.put("u", np.full(3, 1.0 + step), units=unit)
                s.particles(
                    "e",
                    position={"x": np.arange(4.0)},
                    speed=np.ones(4),
                    units={"speed": f"{unit}/s"},
                    mass=1.0 + step,
                    charge=-1.0,
                )
    shell = Shell(place, tmp_path)
    said = shell.export("u", "--to", "netcdf", "-o", "u.nc")
    with xr.open_dataset(tmp_path / "u.nc") as ds:
        assert [ds[f"u@{step}"].units for step in range(3)] == ["m", "mm", "m"], said
    with fb.open(tmp_path / "a.fb", "r") as run:
        assert "unit" in json.loads(run.to_xarray().attrs["left_out"])["u"]
    said = shell.export("--to", "h5md")
    assert set(said["left_out"]) == {"u", "e/speed", "e/mass"}
    with h5py.File(tmp_path / "a.h5md") as f:
        assert (
            sorted(f["particles/e"]) == ["box", "charge", "position"]
            and (f["particles/e/charge"][:] == -1).all()
        )
    assert {"e/mass", "e/charge"} <= set(shell.export("--to", "vtkhdf")["left_out"])


def test_particles_and_histories_leave_as_h5md(shell: Shell) -> None:
    said = shell.export("ions", "energy", "--to", "h5md")
    assert (said["steps"], said["tables"]) == (3, 1), said
    with h5py.File(shell.folder / "a.h5md") as f:
        assert f["h5md"].attrs["version"].tolist() == [1, 1] and f["h5md/creator"].attrs["name"] == b"Forebay"
        ions = f["particles/ions"]
        assert ions["box"].attrs["dimension"] == 3
        assert ions["box"].attrs["boundary"].tolist() == [b"none"] * 3
        assert ions["position/step"][:].tolist() == [0, 10, 20]
        assert ions["velocity/time"][:].tolist() == [0.0, 5.0, 10.0]
        value = ions["position/value"]
        assert value.shape == (3, 7, 3) and value.attrs["unit"] == "nm"
        assert ions["velocity/value"].attrs["unit"] == "nm ps-1" and ions["mass"][:].tolist() == [2.0] * 7
        for at, (step, n) in enumerate(COUNTS.items()):
            assert np.array_equal(value[at, :n], P[step]) and np.isnan(value[at, n:]).all()
            assert np.array_equal(ions["velocity/value"][at, :n, 1], 2 * U[step])
            assert ions["id/value"][at, :n].tolist() == list(range(n))
            assert (ions["id/value"][at, n:] == 2**32 - 1).all()
        energy = f["observables/energy"]
        assert energy["kinetic/value"][:].tolist() == [1.0, 11.0, 21.0]
        assert energy["field/time"][:].tolist() == [0.0, 5.0, 10.0]
    assert not json.loads(
        shell.ask("export", "a", "ions", "--to", "h5md", "-o", "b", "--steps", "10", "--json")
    )["tables"]


def test_a_box_is_that_of_the_particles(place: Place, tmp_path: Path) -> None:
    shell = Shell(place, tmp_path)
    with fb.open(tmp_path / "a.fb", "w") as run:
        for step in range(2):
            with run.snapshot(step, 0.1 * step) as s:
                s.particles("atoms", position=np.ones((2, 3), "f4"))
                s.put("box", np.array([[1.0, 0, 0], [4, 5, 6 + step]]), "nm", attrs={"boundary": "periodic"})
    shell.export("--to", "h5md")
    with h5py.File(tmp_path / "a.h5md") as f:
        box = f["particles/atoms/box"]
        assert box.attrs["boundary"].tolist() == [b"periodic"] * 3
        assert box["edges/value"][:].tolist() == [[3.0, 5.0, 6.0], [3.0, 5.0, 7.0]]
        assert box["edges/value"].attrs["unit"] == "nm"
