"""Arrays that are put once a run: every snapshot has them, and their bytes are there once."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import forebay as fb
import h5py
import numpy as np
import pytest
import xarray as xr
from places import Place, until

MASSES = np.arange(30_000.0).reshape(3, 10_000)
KINDS = np.arange(12, dtype=np.int32)


def file_of(run_dir: Path, step: int) -> Path:
    return run_dir / "steps" / f"{step:010}.h5"


def take(run: fb.Run, *steps: int) -> None:
    for step in steps:
        with run.snapshot(step) as s:
            s.put("T", np.full(5, float(step)))
        s.wait(60)


def test_every_snapshot_has_what_was_put_once(run_dir: Path, place: Place) -> None:
    with fb.open(run_dir) as run:
        take(run, 1)
        run.constant("atoms/masses", MASSES, "kg", dims=("kind", "atom"), attrs={"source": "table"})
        run.constant("kinds", KINDS, attrs={"of": "atoms"})
        take(run, 2, 3)
        run.constant("atoms/masses", 2 * MASSES, "kg", step=4)
        take(run, 4)
        run.close()
    # The program is started anew, goes on, and says it all again.
    with fb.open(run_dir) as run:
        snap = run.restart()
        assert snap is not None
        np.testing.assert_array_equal(snap["atoms/masses"], 2 * MASSES)
        run.constant("atoms/masses", MASSES, "kg")
        run.constant("atoms/masses", 2 * MASSES, "kg", step=4)
        run.constant("kinds", KINDS)
        take(run, 5)
    with fb.open(run_dir, "r") as run:
        assert len(list((run_dir / "data").iterdir())) == 2
        assert run.snapshots.at(1).names() == ["T"]
        for step, factor in ((2, 1), (3, 1), (4, 2), (5, 2)):
            snap = run.snapshots.at(step)
            assert snap.names() == ["T", "atoms/masses", "kinds"]
            np.testing.assert_array_equal(snap["atoms/masses"], factor * MASSES)
            np.testing.assert_array_equal(snap.get("atoms/masses", np.s_[1, 5:9]), factor * MASSES[1, 5:9])
            np.testing.assert_array_equal(snap.map("atoms/masses"), factor * MASSES)
            np.testing.assert_array_equal(snap["kinds"], KINDS)
            assert snap.dataset("atoms/masses").units == "kg"
        snap = run.snapshots.at(2)
        assert snap.dims("atoms/masses") == ("kind", "atom") and snap.attrs("kinds") == {"of": "atoms"}
        assert snap.attrs("atoms/masses") == {"source": "table"}
        assert snap.to_xarray()["atoms/masses"].shape == MASSES.shape
        assert run.series("atoms/masses", steps=[2, 4]).shape == (2, *MASSES.shape)
        np.testing.assert_array_equal(run["atoms/masses"], MASSES)
    with h5py.File(file_of(run_dir, 4)) as f:
        assert isinstance(f.get("atoms/masses", getlink=True), h5py.ExternalLink)
        np.testing.assert_array_equal(f["atoms/masses"][:], 2 * MASSES)
        np.testing.assert_array_equal(f["kinds"][:], KINDS)
        manifest = json.loads(f["forebay/manifest"][()].tobytes())
    files = {one["name"]: one["pieces"][0].get("file") for one in manifest["data"]}
    assert files["atoms/masses"].startswith("data/") and files["kinds"] is None
    with xr.open_dataset(file_of(run_dir, 2), group="atoms", engine="netcdf4") as ds:
        assert ds["masses"].shape == MASSES.shape
    assert file_of(run_dir, 2).stat().st_size < 100_000
    place.command("verify", run_dir)
    # What is exported has the data in.
    out = run_dir.parent / "two.nc"
    place.command("export", run_dir, "atoms/masses", "--to", "netcdf", "--steps", "2..2", "-o", out)
    assert out.stat().st_size > MASSES.nbytes


def test_bytes_that_a_snapshot_refers_to_stay_whatever_becomes_of_the_data_set(
    run_dir: Path, place: Place
) -> None:
    with fb.open(run_dir) as run:
        run.constant("masses", MASSES)
        run.put("masses", MASSES + 1)
        run.flush()
        take(run, 1)
    with fb.open(run_dir) as run:
        run.delete("masses")
        run.flush()
    with fb.open(run_dir) as run:
        np.testing.assert_array_equal(run.snapshots.at(1)["masses"], MASSES)
    place.command("verify", run_dir)
    # The catalog is made anew from the files.
    (run_dir / "catalog.sqlite").unlink()
    place.command("repair", run_dir, status=1)
    with fb.open(run_dir, "r+") as run:
        np.testing.assert_array_equal(run.snapshots.at(1)["masses"], MASSES)
    next((run_dir / "data").iterdir()).unlink()
    with fb.open(run_dir, "r") as run, pytest.raises(fb.Corrupt, match="masses"):
        run.snapshots.at(1)["masses"]


def test_versions_hold_after_a_restart_that_says_the_first_one_alone(run_dir: Path) -> None:
    for start in (1, 2):
        with fb.open(run_dir) as run:
            run.constant("masses", MASSES, "kg", attrs={"of": "start"})
            run.constant("kinds", KINDS)
            if start == 1:
                take(run, 1)
                run.constant("masses", 2 * MASSES, "kg", step=3)
                run.constant("kinds", KINDS[::-1].copy(), step=3)
                take(run, 2, 3)
                with pytest.raises(fb.Conflict, match="step = 4 or more"):
                    run.constant("masses", 3 * MASSES, "kg", step=2)
            else:
                run.restart()
                take(run, 4, 5)
    with fb.open(run_dir, "r") as run:
        for step in range(1, 6):
            snap, is_later = run.snapshots.at(step), step >= 3
            np.testing.assert_array_equal(snap["masses"], (1 + is_later) * MASSES)
            np.testing.assert_array_equal(snap["kinds"], KINDS[::-1] if is_later else KINDS)


def test_damage_of_a_constant_is_told_when_it_is_said_again_and_by_verify(
    run_dir: Path, place: Place
) -> None:
    with fb.open(run_dir) as run:
        run.constant("masses", MASSES)
        take(run, 1)
    file = next((run_dir / "data").iterdir())
    whole = file.read_bytes()
    at = whole.index(MASSES.tobytes())
    file.write_bytes(whole[: at + 8] + bytes([whole[at + 8] ^ 1]) + whole[at + 9 :])
    with fb.open(run_dir) as run:
        run.restart()
        with pytest.raises(fb.Corrupt, match="put it again"):
            run.constant("masses", MASSES)
        run.put("masses", MASSES)
        run.constant("masses", MASSES)
        take(run, 2)
    said = place.command("verify", run_dir, status=1)
    assert "0000000001.h5" in said and "has another checksum" in said and "0000000002.h5" not in said
    with fb.open(run_dir, "r") as run:
        np.testing.assert_array_equal(run.snapshots.at(2)["masses"], MASSES)


def test_what_is_no_constant_is_refused(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        run.constant("masses", MASSES, "kg")
        for other, units, text in (
            (MASSES + 1, "kg", "say with step"),
            (MASSES, "g", 'unit "kg" there'),
            (MASSES[:2], "kg", "put once"),
        ):
            with pytest.raises(fb.Conflict, match=text):
                run.constant("masses", other, units)
        for name, options, text in (
            ("n", {"step": 0}, "leave step out"),
            ("data/x", {}, "not free"),
            ("n", {"dims": ("x",)}, "names 1 axes"),
        ):
            with pytest.raises(fb.BadArgument, match=text):
                run.constant(name, MASSES, **options)
        with run.snapshot(1) as s:
            with pytest.raises(fb.Conflict, match="say it before"):
                run.constant("n", MASSES)
            for name in ("masses", "masses/x"):
                with pytest.raises(fb.BadArgument, match="constant of the run"):
                    s.put(name, MASSES)
        with (
            fb.open(run_dir, "r+", client=True) as beside,
            pytest.raises(fb.BadArgument, match="ranks' alone"),
        ):
            beside.constant("n", MASSES)
        assert run.snapshots.at(1).names() == ["masses"]


def test_ranks_say_it_alike_or_one_says_it_and_a_killed_run_has_it(run_dir: Path, place: Place) -> None:
    program = """
import os, sys, time, numpy as np, forebay as fb
run = fb.open(sys.argv[1], buffer="8MiB")
me = run.rank
run.constant("all", np.arange(30_000.0))
run.constant("few", np.arange(3))
if me == 1:
    run.constant("one", np.arange(20_000), units="m")
for step in (1, 2):
    with run.snapshot(step) as s:
        s.put("T", np.arange(4.0), offset="append")
s.wait(60)
if me == 0:
    try:
        run.constant("one", np.arange(20_001), units="m")
        raise AssertionError("another one")
    except fb.Conflict:
        pass
with run.snapshot(3) as s:
    s.put("one/x" if me == 0 else "T", np.arange(4.0), **({} if me == 0 else {}))
open(f"{sys.argv[1]}.{me}", "w").close()
time.sleep(600)
"""
    started = place.ranks(2, sys.executable, "-c", program, run_dir)
    until(lambda: all(Path(f"{run_dir}.{rank}").exists() for rank in (0, 1)), 60, "the ends of both ranks")
    for process in started:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    place.command("recover", run_dir)
    with fb.open(run_dir, "r") as run:
        for step in (1, 2, 3):
            snap = run.snapshots.at(step)
            np.testing.assert_array_equal(snap["all"], np.arange(30_000.0))
            np.testing.assert_array_equal(snap["few"], np.arange(3))
            # In the last one rank 0 has put an array where it is.
            assert ("one" in snap.names()) == (step < 3)
    place.command("verify", run_dir)
