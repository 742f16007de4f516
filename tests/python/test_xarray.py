"""Runs as data sets of xarray, lazily over steps."""

from __future__ import annotations

import pickle
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
import xarray as xr

pytestmark = pytest.mark.usefixtures("owner")


def field(step: int) -> np.ndarray:
    return np.arange(12.0).reshape(3, 4) + 100 * step


def write(run: fb.Run, n: int, times: bool = True) -> None:
    for step in range(n):
        with run.snapshot(step, 0.1 * step if times else None) as s:
            s.put("T", field(step), units="K")
            s.put("F", np.asfortranarray(field(step)))
            s.put("line", np.full(5, step, "i4"))
            s.put("grows", np.zeros(step + 1))
            if step % 2:
                s.put("odd", np.float32(step))
            s.put("word", "text")


def test_a_run_is_opened_lazily_with_time_as_a_dimension(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        write(run, 6)
        ds = run.to_xarray()
        assert set(ds.data_vars) == {"T", "F", "line", "odd"} and {"grows", "word"} <= set(
            eval(ds.attrs["left_out"])
        )
        assert ds["T"].dims[0] == "time" and ds["T"].attrs["units"] == "K" and ds["T"].shape == (6, 3, 4)
        stacked = np.stack([field(step) for step in range(6)])
        np.testing.assert_array_equal(ds["T"].sel(time=0.3, method="nearest"), stacked[3])
        np.testing.assert_array_equal(ds["F"][1:5:2, ::-1, 2], stacked[1:5:2, ::-1, 2])
        np.testing.assert_array_equal(ds["T"].isel(time=[4, 0]).mean("time"), stacked[[4, 0]].mean(0))
        np.testing.assert_array_equal(ds["T"] - ds["F"], 0 * stacked)
        assert np.isnan(ds["odd"][0]) and float(ds["odd"][3]) == 3.0
        assert ds["step"].values.tolist() == list(range(6))
        again = pickle.loads(pickle.dumps(ds[["T"]]))
        np.testing.assert_array_equal(again["T"], stacked)
        one = run.to_xarray("line")
        assert (
            list(one.data_vars) == ["line"]
            and one["line"].sel(time=0.2, method="nearest").values.tolist() == [2] * 5
        )
        with pytest.raises(fb.NotFound, match="'nothing'"):
            run.to_xarray(["T", "nothing"])
        with pytest.raises(fb.Conflict, match="ragged"):
            run.to_xarray("grows")
        snap = run.snapshots[2].to_xarray()
        np.testing.assert_array_equal(snap["T"][1], stacked[2, 1])
        assert snap["word"].item() == "text" and float(snap["time"]) == 0.2 and snap["grows"].shape == (3,)


def test_without_times_steps_are_the_dimension(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        write(run, 3, times=False)
        ds = run.to_xarray()
        assert ds["T"].dims[0] == "step" and ds["T"].sel(step=2)[0, 0] == 200.0
        assert np.isnan(ds["time"]).all()


def test_xarray_opens_a_run_by_its_name(place: object, run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        write(run, 3)
    for options in ({"engine": "forebay"}, {}):
        with xr.open_dataset(str(run_dir), **options) as ds:
            assert float(ds["T"][2, 1, 1]) == 205.0
    with xr.open_dataset(run_dir, engine="forebay", drop_variables="F", names=["T", "F"]) as ds:
        assert list(ds.data_vars) == ["T"]
    with fb.open(run_dir, "w") as run:
        write(run, 3)
    with pytest.raises(fb.Conflict, match="begun anew"):
        np.asarray(ds["T"])


def staggered(run: fb.Run, step: int, dx: float = 0.1, dz: float = 1.0) -> None:
    ones = np.ones((4, 3))
    with run.snapshot(step, time=0.5 * step) as s:
        grid = {"spacing": (dx, 2.0), "origin": (1.0, 10.0)}
        s.mesh("E", {"x": ones, "y": ones}, position={"x": (0.5, 0.0), "y": (0.0, 0.5)}, **grid)
        s.mesh("rho", ones, **grid)
        s.mesh("centre", ones, dims=("u", "v"), spacing=(1.0, 1.0), position=0.5)
        s.mesh("fine", np.ones(5), dims="z", spacing=dz)
        s.mesh("coarse", np.ones(5), dims="z", spacing=2.0)
        s.mesh("told", np.ones(2), dims="q", coords={"q": [3.0, 5.0]}, position=0.5)
        s.mesh("bare", np.ones(2), dims="b")
        s.particles("ions", position=np.ones((6, 2)), weighting=np.ones(6))


def test_the_points_of_meshes_are_coordinates(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        for step in range(3):
            staggered(run, step)
        whole = run.to_xarray()
        snap = run.snapshots[1].to_xarray()
        for ds, first in (
            (whole, ("time",)),
            (snap, ()),
            (xr.open_dataset(run_dir, engine="forebay"), ("time",)),
        ):
            dims = {name: ds[name].dims for name in ("rho", "E_x", "E_y", "centre")}
            assert dims["rho"] == (*first, "x", "y") and dims["E_x"] == (*first, "x_0.5", "y")
            assert dims["E_y"] == (*first, "x", "y_0.5")
            np.testing.assert_allclose(ds["x"], [1.0, 1.1, 1.2, 1.3])
            np.testing.assert_allclose(ds["x_0.5"], [1.05, 1.15, 1.25, 1.35])
            np.testing.assert_allclose(ds["y_0.5"], [11.0, 13.0, 15.0])
            assert float(ds["rho"].sel(x=1.2, y=14.0, method="nearest").max()) == 1.0
            # All of them lie there: the name is the user's.
            assert dims["centre"] == (*first, "u", "v") and ds["u"].values.tolist() == [0.5, 1.5, 2.5, 3.5]
            assert "z" not in ds.coords and "b" not in ds.coords and ds["q"].values.tolist() == [3.0, 5.0]
            assert ds["ions/weighting"].dims == (*first, "ions/particle")


def test_a_mesh_that_moves_has_no_coordinate_over_steps(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        staggered(run, 0)
        staggered(run, 1, dx=0.2, dz=2.0)
        whole = run.to_xarray()
        assert "x" not in whole.coords and "y" not in whole.coords and whole["E_x"].dims == ("time", "x", "y")
        assert "z" not in whole.coords and "u" in whole.coords
        np.testing.assert_allclose(run.snapshots[1].to_xarray()["x"], [1.0, 1.2, 1.4, 1.6])
