"""Arrays that are compressed on their way to the disk, and what their values come to."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import forebay as fb
import h5py
import numpy as np
import pytest
from disks import fill, small_disk
from numpy.typing import NDArray
from places import Place, ended, until
from test_damage import command, step_file

SHAPE = (300, 40, 50)


def smooth(dtype: str = "f8") -> NDArray[Any]:
    """Nearly five megabytes that become much smaller: several chunks, and each of them a run of whole lines."""
    x, y, z = np.meshgrid(*(np.linspace(0, 1, n) for n in SHAPE), indexing="ij")
    return np.round(np.sin(3 * x) + y * z, 2).astype(dtype)


def pieces(run_dir: Path, step: int, name: str) -> list[dict[str, Any]]:
    """The pieces of an array as the catalog has them."""
    with sqlite3.connect(run_dir / "catalog.sqlite") as db:
        (text,) = db.execute(
            "SELECT pieces FROM fb_step_data WHERE step = ? AND name = ?", (step, name)
        ).fetchone()
    found: list[dict[str, Any]] = json.loads(text)
    return found


def chunks(run_dir: Path, step: int, name: str) -> list[tuple[int, int, int, int]]:
    """Where the chunks of all pieces of an array lie: first byte, how many, filters left out, checksum."""
    return [tuple(c) for p in pieces(run_dir, step, name) for c in p["chunks"]["stored"]]


def test_a_compressed_array_is_smaller_and_everybody_reads_it(run_dir: Path, tmp_path: Path) -> None:
    field = smooth()
    arrays = {
        "T": field,
        "mask": field > 0.5,
        "z": (field + 1j * field).astype("c16"),
        "half": field.astype("f2"),
        "count": (field * 100).astype("i4"),
        "noise": np.random.default_rng(1).integers(-(2**63), 2**63 - 1, SHAPE),
        "few": field[0, 0],
        "turned": np.asfortranarray(field),
    }
    with fb.open(run_dir, buffer="256MiB") as run:
        for step in range(2):
            with run.snapshot(step) as s:
                for name, a in arrays.items():
                    s.put(name, a, units="K", dims=("i", "j", "k")[-a.ndim :], compress="gzip")
                    s.put(f"plain/{name}", a)
                for room in (
                    s.allocate("room", SHAPE, compress="gzip"),
                    s.allocate_mesh("M", SHAPE, dims=("i", "j", "k"), compress="gzip"),
                    s.allocate_particles("e", "position", SHAPE[0] * SHAPE[1] * SHAPE[2], compress="gzip"),
                ):
                    room[...] = field.reshape(room.shape)
        s.wait(60)
        assert run.stats()["uncompressed_bytes"] == 0
    stored = {
        name: sum(c[1] for c in chunks(run_dir, 0, name))
        for name in ("T", "mask", "z", "half", "count", "turned")
    }
    assert all(size < arrays[name].nbytes / 3 for name, size in stored.items()), stored
    for name in ("room", "M", "e/position"):
        assert sum(c[1] for c in chunks(run_dir, 0, name)) < field.nbytes / 3, name
    assert all("chunks" not in p for name in ("noise", "few") for p in pieces(run_dir, 0, name))
    with h5py.File(step_file(run_dir, 0)) as f:
        for name, a in arrays.items():
            assert (f[name][()] == a).all() and f[name].dtype == a.dtype, name
            assert f[name].attrs["units"] == "K"
        assert (f["T"].compression, f["T"].shuffle) == ("gzip", True) and f["noise"].compression is None
        assert len(f["T"].chunks) == 3 and 1 << 18 < np.prod(f["T"].chunks) * 8 <= 1 << 20
        assert "DIMENSION_LIST" in f["T"].attrs
    with fb.open(run_dir, "r") as run:
        last = run.snapshots[-1]
        for name, a in arrays.items():
            assert (last[name] == a).all(), name
            assert last.stats(name) == last.stats(f"plain/{name}"), name
        for sel in (np.s_[7], np.s_[:, 3], np.s_[::7, :, 49], np.s_[120:180, 5:9, 0], np.s_[299, 39, 49]):
            assert (last.get("T", sel=sel) == field[sel]).all(), sel
        assert (run.series("T", sel=np.s_[100:110, 2, 3]) == field[100:110, 2, 3]).all()
        assert (last.to_xarray()["T"].values == field).all()
        assert (last["room"] == field).all() and (last["M"] == field).all()
        assert (last["e/position"] == field.ravel()).all()
        assert (last.map("noise") == arrays["noise"]).all() and (last.map("few") == arrays["few"]).all()
        with pytest.raises(
            fb.BadArgument, match='"T" of step 1 is compressed, and no memory over its file; read'
        ):
            last.map("T")
    command("verify", run_dir)
    command("export", run_dir, "T", "--to", "netcdf", "-o", tmp_path / "out.nc")
    with h5py.File(tmp_path / "out.nc") as f:
        assert (f["T"][1] == field).all()
    command("diff", f"{run_dir}@0", f"{run_dir}@1")


RANK = """
import sys, numpy as np, forebay as fb
run = fb.open(sys.argv[1], buffer="32MiB")
me, size = run.rank, run.size
x, y = np.meshgrid(np.arange(900.0), np.arange(300.0), indexing="ij")
whole = np.floor(x + y / 10)
mine = slice(me * 350, min((me + 1) * 350, 900))
for step in range(2):
    with run.snapshot(step, time=float(step)) as s:
        s.mesh("T", whole[mine], offset=(mine.start, 0), shape=whole.shape, units="K", spacing=0.5, compress="gzip")
        s.put("F", np.asfortranarray(whole[:, mine.start // 3:mine.stop // 3]),
              offset=(0, mine.start // 3), shape=(900, 300), compress="gzip")
        s.particles("e", position={"x": whole[mine, 0]}, offset="append", compress="gzip")
        s.put("H", whole[mine], offset=(mine.start, 100), shape=(900, 1000), fill=-1, compress="gzip")
    s.wait(60)
"""


def test_pieces_of_ranks_are_compressed_each_and_make_one_array(run_dir: Path, place: Place) -> None:
    for rank in place.ranks(3, sys.executable, "-c", RANK, run_dir):
        ended(rank)
    x, y = np.meshgrid(np.arange(900.0), np.arange(300.0), indexing="ij")
    whole = np.floor(x + y / 10)
    assert sorted(p["rank"] for p in pieces(run_dir, 1, "T") if p["chunks"]) == [0, 1, 2]
    nobodys = [p for p in pieces(run_dir, 1, "H") if p["rank"] > 2]
    assert max(len(p["chunks"]["stored"]) for p in nobodys) > 1
    filled = np.full((900, 1000), -1.0)
    filled[:, 100:400] = whole
    with fb.open(run_dir, "r") as run:
        last = run.snapshots[-1]
        assert (last["T"] == whole).all() and (last["F"] == whole).all() and (last["H"] == filled).all()
        assert (last.get("H", sel=np.s_[300:720:7, 90:110]) == filled[300:720:7, 90:110]).all()
        assert (last.get("T", sel=np.s_[340:720:3, 7]) == whole[340:720:3, 7]).all()
        assert (last.get("F", sel=np.s_[5, 100:250]) == whole[5, 100:250]).all()
        found = last.stats("T")
        assert found is not None and (found.min, found.max, found.nans) == (0.0, whole.max(), 0)
        assert found.mean == pytest.approx(whole.mean(), rel=1e-14)
    with h5py.File(step_file(run_dir, 1)) as f:
        assert (f["T"][()] == whole).all() and (f["F"][()] == whole).all() and (f["H"][()] == filled).all()
        assert (f["data/1/meshes/T"][()] == whole).all() and "VTKHDF" in f
        assert (f["e/position/x"][()] == whole[:, 0]).all()
    command("verify", run_dir)


@pytest.mark.parametrize("how", ["gzip", "zstd"])
def test_every_byte_of_a_chunk_that_flipped_is_seen_and_named(
    run_dir: Path, how: Literal["gzip", "zstd"]
) -> None:
    with fb.open(run_dir, buffer="32MiB", compress=how) as run, run.snapshot(3) as s:
        s.put("T", smooth())
    file = step_file(run_dir, 3)
    content = file.read_bytes()
    where = [
        (n, at)
        for n, (offset, size, _, _) in enumerate(chunks(run_dir, 3, "T"))
        for at in range(offset, offset + size)
    ]
    with fb.open(run_dir, "r") as run:
        for n, at in where[:: len(where) // 100]:
            damaged = bytearray(content)
            damaged[at] ^= 1 << (at % 8)
            file.write_bytes(damaged)
            with pytest.raises(fb.Corrupt, match=rf'"T" of step 3 .*0000000003\.h5 .*chunk {n} '):
                run.snapshots.at(3)["T"]
        assert f"chunk {n} " in command("verify", run_dir, status=1)
        file.write_bytes(content[: where[-1][1] - 10])
        with pytest.raises(fb.Corrupt, match=r"chunk \d+ .*(ends before|other bytes)"):
            run.snapshots.at(3)["T"]
        file.write_bytes(content)
        assert (run.snapshots.at(3)["T"] == smooth()).all()


def test_zstd_is_read_by_everything_here_and_others_are_told_that_they_lack_it(
    run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Some packages of Python say there where HDF5 finds more filters.
    monkeypatch.delenv("HDF5_PLUGIN_PATH", raising=False)
    field = smooth()
    with fb.open(run_dir, buffer="32MiB") as run:
        for step in range(2):
            with run.snapshot(step) as s:
                s.put("T", field, units="K", compress="zstd")
                s.put("G", field, compress="gzip")
                s.put("half", field[:150], offset=(0, 0, 0), shape=SHAPE, fill=7, compress="zstd")
        s.wait(60)
        assert run.stats()["uncompressed_bytes"] == 0
        copy = run.restart()
        assert copy is not None and (copy["T"] == field).all()
    assert sum(c[1] for c in chunks(run_dir, 0, "T")) < field.nbytes / 3
    with h5py.File(step_file(run_dir, 0)) as f:
        plist = f["T"].id.get_create_plist()
        assert [plist.get_filter(n)[0] for n in range(2)] == [2, 32015]
        offset, size = chunks(run_dir, 0, "T")[0][:2]
    read = "import sys, h5py; h5py.File(sys.argv[1])['T'][()]"
    lacks = subprocess.run(
        [sys.executable, "-c", read, step_file(run_dir, 0)], capture_output=True, check=False
    )
    assert lacks.returncode == 1 and b"OSError" in lacks.stderr
    # A frame of Zstandard, of a known size, with its checksum.
    frame = step_file(run_dir, 0).read_bytes()[offset : offset + size]
    assert frame[:4] == b"\x28\xb5\x2f\xfd" and frame[4] & 0b100 and frame[4] & 0b1110_0000
    with fb.open(run_dir, "r") as run:
        last = run.snapshots[-1]
        assert (last["T"] == field).all() and (last.get("T", np.s_[::7, 3]) == field[::7, 3]).all()
        assert (last["half"][:150] == field[:150]).all() and (last["half"][150:] == 7).all()
        assert (run.series("T", sel=np.s_[100:110, 2, 3]) == field[100:110, 2, 3]).all()
        assert last.stats("T") == last.stats("G")
    command("verify", run_dir)
    command("diff", f"{run_dir}@0", f"{run_dir}@1")
    command("export", run_dir, "T", "--to", "netcdf", "-o", tmp_path / "out.nc")
    with h5py.File(tmp_path / "out.nc") as f:
        assert (f["T"][1] == field).all()
    said = command("import", step_file(run_dir, 0), tmp_path / "in")
    assert "HDF5's filter zstd (32015, in Python's package hdf5plugin), which is not here" in said
    assert '"half": data sets that' in said
    with fb.open(tmp_path / "in", "r") as run:
        assert (run["G"] == field).all()


def test_a_run_is_opened_with_a_compression_that_each_put_may_take_back(run_dir: Path) -> None:
    field = smooth()
    with fb.open(run_dir, buffer="64MiB", compress="gzip") as run, run.snapshot(0) as s:
        s.put("T", field)
        s.put("plain", field, compress="none")
        s.put("other", field, compress="zstd")
        s.put("text", "a" * 100_000)
        s.put("nodes", field, offset=(0, 0, 0), shape=SHAPE, overlap="last")
        s.put("few", field[0, 0])
        s.allocate("room", SHAPE)[...] = field
        s.mesh("E", {"x": field}, dims=("i", "j", "k"))
        s.particles("e", field.ravel(), weighting=field.ravel())
        run.put("set", field)
    found = {}
    with h5py.File(step_file(run_dir, 0)) as f:
        for name in (
            "T",
            "plain",
            "other",
            "text",
            "nodes",
            "few",
            "room",
            "E_x",
            "e/position",
            "e/weighting",
        ):
            plist = f[name].id.get_create_plist()
            found[name] = plist.get_filter(1)[0] if plist.get_nfilters() else None
    packed = dict.fromkeys(("T", "room", "E_x", "e/position", "e/weighting"), 1)
    assert found == packed | {"other": 32015} | dict.fromkeys(("plain", "text", "nodes", "few"))
    for mode, client in (("r", False), ("r+", True)):
        with pytest.raises(fb.BadArgument, match='compress = "gzip" says how snapshots are written'):
            fb.open(run_dir, mode, client=client, compress="gzip")  # type: ignore[arg-type]


def test_what_was_acknowledged_of_compressed_steps_is_there_after_a_kill(run_dir: Path, place: Place) -> None:
    writes = """
import sys, numpy as np, forebay as fb
run = fb.open(sys.argv[1], buffer="128MiB")
field = np.floor(np.linspace(0, 9, 2_000_000))
step = 0
while True:
    with run.snapshot(step) as s:
        s.put("T", field + step, compress="gzip")
    print(step, flush=True)
    step += 1
"""
    for steps in (1, 3):
        run_dir = run_dir.with_name(f"{steps}.fb")
        program = place.start(sys.executable, "-c", writes, run_dir)
        assert program.stdout is not None
        for _ in range(steps):
            last = int(program.stdout.readline())
        os.kill(program.pid, signal.SIGKILL)
        program.wait()
        # What it said before it died.
        last = max([last, *map(int, program.stdout.read().split())])
        command("recover", run_dir)
        with fb.open(run_dir, "r") as run:
            assert run.snapshots.numbers[: last + 1] == list(range(last + 1))
            for snapshot in run.snapshots:
                assert (snapshot["T"] == np.floor(np.linspace(0, 9, 2_000_000)) + snapshot.step).all()
        command("verify", run_dir)


def test_on_a_full_disk_a_compressed_step_waits_for_room(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 48) as disk:
        run = fb.open(disk / "full", buffer="64MiB")
        with run.snapshot(0) as s:
            s.put("T", smooth(), compress="gzip")
        s.wait(60)
        ballast = fill(disk)
        with run.snapshot(1) as s:
            s.put("T", smooth() + 1, compress="gzip")
        until(lambda: run.stats()["waiting_for_disk"], 60, "the disk that is full")
        ballast.unlink()
        s.wait(60)
        run.close()
        with fb.open(disk / "full", "r") as read:
            assert (read.snapshots[-1]["T"] == smooth() + 1).all()


def test_where_the_buffer_is_nearly_full_arrays_go_out_as_they_are(run_dir: Path) -> None:
    field = np.floor(np.linspace(0, 9, 1_500_000))
    with fb.open(run_dir, buffer="15MiB") as run:
        for step in range(6):
            with run.snapshot(step) as s:
                s.put("T", field + step, compress="gzip")
        s.wait(60)
        assert run.stats()["uncompressed_bytes"] > 0
    with fb.open(run_dir, "r") as read:
        for step in range(6):
            assert (read.snapshots.at(step)["T"] == field + step).all()


@pytest.mark.usefixtures("owner")
def test_what_values_come_to_is_told_without_reading_them(run_dir: Path) -> None:
    with fb.open(run_dir, buffer="32MiB") as run:
        with run.snapshot(0) as s:
            s.put("T", np.array([[1.5, np.nan], [-2.0, 4.0]]))
            s.put("big", np.array([2**64 - 1, 2**64 - 1, 0], "u8"))
            s.put("z", np.array([3 + 4j, 0], "c8"))
            s.put("endless", np.array([np.inf, 1]))
            s.put("nothing", np.array([np.nan], "f4"))
            s.put("none", np.empty((0, 3)))
            s.put("text", "abc")
            s.put("yes", np.array([True, False]))
        s.wait(30)
        got = run.snapshots[-1].stats
        assert got("T") == fb.Stats(-2.0, 4.0, 3.5 / 3, 1)
        assert got("big") == fb.Stats(0, 2**64 - 1, (2**65 - 2) / 3, 0)
        assert got("z") == fb.Stats(0.0, 5.0, 2.5, 0)
        assert got("endless") == fb.Stats(1.0, np.inf, np.inf, 0)
        assert got("nothing") == fb.Stats(None, None, None, 1)
        assert got("none") == fb.Stats(None, None, None, 0)
        assert got("text") is None and got("yes") is None
        assert run.snapshots[-1].dataset("T").stats == got("T")


def test_the_command_shows_what_values_come_to(run_dir: Path) -> None:
    with fb.open(run_dir) as run, run.snapshot(0) as s:
        s.put("T", np.array([1.5, np.nan, -2.0, 4.0]), units="K")
    assert "min -2.0  max 4.0  mean 1.1666666666666667  NaN 1" in command("show", run_dir, "T", "--step", "0")
    found = json.loads(command("show", run_dir, "T", "--step", "0", "--json"))["stats"]
    assert found == {"min": -2.0, "max": 4.0, "mean": pytest.approx(3.5 / 3), "nans": 1}


def test_what_cannot_be_compressed_is_refused_by_name(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        s = run.snapshot(0)
        with pytest.raises(fb.BadArgument, match='compress = "zip" is unknown'):
            s.put("T", smooth(), compress="zip")  # type: ignore[arg-type]
        with pytest.raises(fb.BadArgument, match='"T" is not compressed where blocks'):
            s.put("T", np.zeros(3), offset=0, shape=3, overlap="last", compress="gzip")
        s.discard()
