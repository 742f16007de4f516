"""Readers of openPMD and VTKHDF, as their packages are, open what is exported of a run."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
import openpmd_api as io
import pytest
from matplotlib.image import imread
from openpmd_viewer import OpenPMDTimeSeries
from pages import GUIDE, NAMED, ROOT, blocks
from places import Place, ended, forebay_exe, servers
from test_readers import array, quiet
from vtkmodules.vtkCommonExecutionModel import vtkStreamingDemandDrivenPipeline
from vtkmodules.vtkIOHDF import vtkHDFReader

RNG = np.random.default_rng(7)
B = {name: RNG.random((3, 4, 5)) for name in "xyz"}
COUNTS = {0: 4, 2: 6, 4: 3}
P = {step: RNG.random((n, 3)) for step, n in COUNTS.items()}
LINE = np.linspace(1.0, 2.0, 5)


@pytest.fixture
def folder(place: Place, tmp_path: Path) -> Path:
    """What is exported of a run that is gone."""
    with fb.open(tmp_path / "a.fb") as run:
        run.constant("x", LINE, "m")
        for step in COUNTS:
            with run.snapshot(step, 0.25 * step) as s:
                s.mesh("B", B, "T", dims=("z", "y", "x"), spacing=(0.1, 0.2, 0.3), compress="gzip")
                s.mesh("n", B["x"] + step, dims=("z", "y", "x"), spacing=(0.1, 0.2, 0.3))
                s.mesh("flat", B["x"][0] * step, dims=("y", "x"))
                s.particles("ions", position=P[step], w=P[step][:, 0], units={"position": "mm"})
    exe = forebay_exe()
    assert exe is not None
    for to in ("openpmd", "vtkhdf"):
        ended(place.start(exe, "export", "a", "--to", to, cwd=tmp_path), 0)
    ended(place.start(exe, "export", "a", "n", "--to", "vtkhdf", "-o", "n.vtkhdf", cwd=tmp_path), 0)
    shutil.rmtree(tmp_path / "a.fb")
    return tmp_path


def test_openpmd_api_and_viewer_read_what_left_its_run(folder: Path) -> None:
    series = io.Series(str(folder / "a_openpmd" / "a_%010T.h5"), io.Access.read_only)
    assert sorted(series.iterations) == [0, 2, 4]
    it = series.iterations[2]
    assert (it.time, it.dt) == (0.5, 0.25) and set(it.meshes) == {"B", "n", "flat"}
    found = {name: it.meshes["B"][name].load_chunk() for name in "xyz"}
    ions = it.particles["ions"]["position"]
    points = [ions[name].load_chunk() for name in "xyz"]
    series.flush()
    for name in "xyz":
        np.testing.assert_array_equal(found[name], B[name])
    np.testing.assert_array_equal(np.stack(points, axis=1), P[2])
    np.testing.assert_allclose(it.meshes["flat"].grid_spacing, [1.0, 0.25])
    series.close()
    viewer = OpenPMDTimeSeries(str(folder / "a_openpmd"), check_all_files=True, backend="h5py")
    assert list(viewer.iterations) == [0, 2, 4]
    field, info = viewer.get_field("flat", iteration=4)
    np.testing.assert_array_equal(field, B["x"][0] * 4)
    np.testing.assert_allclose(info.x, LINE)
    (z,) = viewer.get_particle(["z"], species="ions", iteration=4)
    np.testing.assert_allclose(z, P[4][:, 2] * 1e-3)


def at_time(reader: Any, t: float, how: str) -> Any:
    """What a pipeline gets of a time, asked in one of its ways."""
    with quiet():
        if how == "update":
            reader.UpdateTimeStep(t)
        else:
            reader.UpdateInformation()
            reader.GetOutputInformation(0).Set(vtkStreamingDemandDrivenPipeline.UPDATE_TIME_STEP(), t)
            reader.Update()
    return reader.GetOutputDataObject(0)


@pytest.mark.parametrize("how", ["update", "ask before"])
def test_vtk_reads_one_file_over_all_times(folder: Path, how: str) -> None:
    reader = vtkHDFReader()
    reader.SetFileName(str(folder / "a.vtkhdf"))
    for step in (4, 0, 2):
        data = at_time(reader, 0.25 * step, how)
        names = [data.GetMetaData(i).Get(data.NAME()) for i in range(data.GetNumberOfBlocks())]
        blocks = {name: data.GetBlock(i) for i, name in enumerate(names)}
        assert list(blocks) == ["B", "flat", "ions"]
        image, flat, ions = blocks.values()
        assert image.GetDimensions() == (5, 4, 3)
        np.testing.assert_allclose(image.GetSpacing(), (0.3, 0.2, 0.1))
        np.testing.assert_array_equal(array(image, "n").reshape(3, 4, 5), B["x"] + step)
        vectors = array(image, "B").reshape(3, 4, 5, 3)
        for component, name in enumerate("xyz"):
            np.testing.assert_array_equal(vectors[..., component], B[name])
        assert flat.GetOrigin() == (1.0, 0.0, 0.0)
        np.testing.assert_array_equal(array(flat, "flat").reshape(4, 5), B["x"][0] * step)
        n = COUNTS[step]
        assert ions.GetNumberOfPoints() == ions.GetNumberOfVerts() == n
        assert [ions.GetPoint(i) for i in range(n)] == [tuple(p) for p in P[step]]
        np.testing.assert_array_equal(array(ions, "w"), P[step][:, 0])
        assert ions.GetCell(n - 1).GetPointId(0) == n - 1
    reader = vtkHDFReader()
    reader.SetFileName(str(folder / "n.vtkhdf"))
    image = at_time(reader, 1.0, how)
    assert image.GetClassName() == "vtkImageData"
    np.testing.assert_array_equal(array(image, "n").reshape(3, 4, 5), B["x"] + 4)


def test_the_picture_of_the_tutorial_is_made_of_the_steps_of_its_run(place: Place, tmp_path: Path) -> None:
    servers(place)
    program = ROOT / "examples" / "01_two_stream" / "python" / "two_stream.py"
    few = ("--particles", "20000", "--steps", "200", "--no-monitor")
    ended(place.start(sys.executable, program, "--run", "two_stream", *few, cwd=tmp_path), 0)
    typed = {named[1]: b.text for b in blocks(GUIDE / "two-stream.md") if (named := NAMED.match(b.text))}
    (tmp_path / "look.py").write_text(typed["look.py"])
    ended(place.start(sys.executable, "look.py", cwd=tmp_path), 0)
    picture = imread(tmp_path / "two_stream.png")
    assert picture.shape == imread(ROOT / "docs" / "images" / "openpmd-viewer.png").shape
    # The curves of both diagrams are there, in more colours than paper and ink.
    for half in np.array_split(picture[..., :3], 2, axis=1):
        assert (np.ptp(half, axis=2) > 0.5).sum() > 200
