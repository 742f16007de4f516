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
