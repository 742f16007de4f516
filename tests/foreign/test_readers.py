"""Readers of openPMD and VTKHDF, as their packages are, open the files of steps and find the values that were put."""

from __future__ import annotations

import contextlib
import io as texts
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
import openpmd_api as io
import pytest
from openpmd_validator import check_h5
from openpmd_viewer import OpenPMDTimeSeries
from vtkmodules.util.numpy_support import vtk_to_numpy
from vtkmodules.vtkCommonCore import vtkOutputWindow, vtkStringOutputWindow
from vtkmodules.vtkIOHDF import vtkHDFReader

RNG = np.random.default_rng(5)
EX, EY = RNG.random((6, 3)), RNG.random((6, 3))
X, Y = np.linspace(0.0, 1.0, 6), np.array([10.0, 12.0, 14.0])
BOX = RNG.random((4, 3, 2)).astype(np.float32)
PX, PY, W = RNG.random(5), RNG.random(5), RNG.random(5)
MOMENTUM = RNG.random((5, 3))
STEPS = (98, 100)


@pytest.fixture
def steps(run_dir: Path) -> Path:
    """The files of a run with meshes and particles; one step has one mesh alone."""
    with fb.open(run_dir) as run:
        for step in STEPS:
            with run.snapshot(step, time=0.005 * step) as s:
                s.mesh(
                    "E",
                    {"x": EX, "y": EY},
                    units="kV/m",
                    coords={"x": X, "y": Y},
                    position={"x": (0.5, 0.0)},
                    attrs={"long_name": "electric field", "order": 2, "limits": [0.0, 1.0]},
                )
                s.mesh("rho", EX + step, units="C/m^3", spacing=(0.2, 2.0), origin=(0.0, 10.0))
                s.mesh("mask", EX > 0.5)
                s.particles(
                    "electrons",
                    position={"x": PX, "y": PY},
                    momentum=MOMENTUM,
                    weighting=W,
                    id=np.arange(5, dtype=np.uint64),
                    mass=2.0,
                    units={"position": "mm", "momentum": "kg m/s", "mass": "kg"},
                )
        with run.snapshot(101, time=0.6) as s:
            s.mesh("T", BOX, dims=("z", "y", "x"), spacing=(0.1, 0.2, 0.3), origin=(1, 2, 3))
            s.mesh(
                "n",
                np.arange(24, dtype=np.int16).reshape(4, 3, 2),
                dims=("z", "y", "x"),
                spacing=(0.1, 0.2, 0.3),
                origin=(1, 2, 3),
            )
    return run_dir / "steps"


def test_openpmd_api_reads_values_units_and_grids(steps: Path) -> None:
    series = io.Series(str(steps / "%010T.h5"), io.Access.read_only)
    assert sorted(series.iterations) == [98, 100, 101]
    it = series.iterations[100]
    assert it.time == 0.5 and it.time_unit_SI == 1.0 and abs(it.dt - 0.005) < 1e-12
    assert set(it.meshes) == {"E", "rho", "mask"} and set(it.particles) == {"electrons"}
    E, rho, electrons = it.meshes["E"], it.meshes["rho"], it.particles["electrons"]
    assert E.axis_labels == ["x", "y"] and E.unit_dimension == [1, 1, -3, -1, 0, 0, 0]
    np.testing.assert_allclose(E.grid_spacing, [0.2, 2.0])
    assert list(E.grid_global_offset) == [0.0, 10.0] and E["x"].unit_SI == 1e3
    assert list(E["x"].position) == [0.5, 0.0] and E["x"].get_attribute("long_name") == "electric field"
    found = {
        "E_x": E["x"].load_chunk(),
        "E_y": E["y"].load_chunk(),
        "rho": rho.load_chunk()
        if hasattr(rho, "load_chunk")
        else rho[io.Mesh_Record_Component.SCALAR].load_chunk(),
        "x": electrons["position"]["x"].load_chunk(),
        "y": electrons["position"]["y"].load_chunk(),
        "u": electrons["momentum"]["z"].load_chunk(),
        "id": electrons["id"][io.Record_Component.SCALAR].load_chunk(),
        "offset": electrons["positionOffset"]["x"].load_chunk(),
        "mass": electrons["mass"][io.Record_Component.SCALAR].load_chunk(),
    }
    series.flush()
    wanted = {"E_x": EX, "E_y": EY, "rho": EX + 100, "x": PX, "y": PY, "u": MOMENTUM[:, 2]}
    wanted |= {"id": np.arange(5), "offset": np.zeros(5), "mass": np.full(5, 2.0)}
    for name, values in wanted.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)
    assert electrons["position"]["x"].unit_SI == 1e-3
    series.close()


def test_openpmd_viewer_reads_fields_and_particles(steps: Path) -> None:
    for backend in ("h5py", "openpmd-api"):
        series = OpenPMDTimeSeries(str(steps), check_all_files=False, backend=backend)
        assert list(series.iterations) == [98, 100, 101]
        field, info = series.get_field("E", "x", iteration=100)
        np.testing.assert_allclose(field, EX * 1e3)
        assert info.axes == {0: "x", 1: "y"}
        np.testing.assert_allclose(info.y, Y)
        np.testing.assert_allclose(info.x, X + 0.1)
        x, w = series.get_particle(["x", "w"], species="electrons", iteration=100)
        np.testing.assert_allclose(x, PX * 1e-3)
        np.testing.assert_allclose(w, W)


def test_the_validator_finds_no_error(steps: Path) -> None:
    for step in (*STEPS, 101):
        said = texts.StringIO()
        with contextlib.redirect_stdout(said):
            f = check_h5.open_file(str(steps / f"{step:010}.h5"))
            extensions = check_h5.get_extensions(f, False)
            errors = (
                check_h5.check_root_attr(f, False)[0] + check_h5.check_iterations(f, False, extensions)[0]
            )
        assert errors == 0 and "found" in said.getvalue(), said.getvalue()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """VTK says nothing of what it reads."""
    window = vtkStringOutputWindow()
    vtkOutputWindow.SetInstance(window)
    yield
    assert window.GetOutput() == ""


def read(path: Path) -> Any:
    reader = vtkHDFReader()
    reader.SetFileName(str(path))
    with quiet():
        reader.Update()
    return reader.GetOutputDataObject(0)


def array(data: Any, name: str) -> np.ndarray:
    return vtk_to_numpy(data.GetPointData().GetArray(name))


def test_vtk_reads_images_and_points(steps: Path) -> None:
    image = read(steps / "0000000101.h5")
    assert image.GetClassName() == "vtkImageData" and image.GetDimensions() == (2, 3, 4)
    assert image.GetOrigin() == (3, 2, 1)
    np.testing.assert_allclose(image.GetSpacing(), (0.3, 0.2, 0.1))
    np.testing.assert_array_equal(array(image, "T").reshape(4, 3, 2), BOX)
    np.testing.assert_array_equal(array(image, "n"), np.arange(24))

    blocks = read(steps / "0000000100.h5")
    assert blocks.GetClassName() == "vtkPartitionedDataSetCollection"
    found = {}
    for i in range(blocks.GetNumberOfPartitionedDataSets()):
        name = blocks.GetMetaData(i).Get(blocks.NAME())
        found[name] = blocks.GetPartition(i, 0)
    assert set(found) == {"E_x_X_is_y_Y_is_x", "E_y_X_is_y_Y_is_x", "electrons"}
    E_x, other = found["E_x_X_is_y_Y_is_x"], found["E_y_X_is_y_Y_is_x"]
    assert E_x.GetDimensions() == (3, 6, 1)
    np.testing.assert_allclose(E_x.GetOrigin(), (10.0, 0.1, 0.0))
    np.testing.assert_array_equal(array(E_x, "E_x").reshape(6, 3), EX)
    np.testing.assert_array_equal(array(other, "E_y").reshape(6, 3), EY)
    np.testing.assert_array_equal(array(other, "rho").reshape(6, 3), EX + 100)
    electrons = found["electrons"]
    points = vtk_to_numpy(electrons.GetPoints().GetData())
    np.testing.assert_array_equal(points, np.stack([PY, PX, np.zeros(5)], axis=1))
    np.testing.assert_array_equal(array(electrons, "weighting"), W)
    np.testing.assert_array_equal(array(electrons, "momentum_y"), MOMENTUM[:, 1])
    np.testing.assert_array_equal(array(electrons, "id"), np.arange(5))
