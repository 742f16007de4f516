"""Small snapshots that are put together in one file of stacked arrays."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import forebay as fb
import h5py
import numpy as np
import pytest
import xarray as xr
from conftest import forebay_exe, until

N = 12


def field(step: int) -> np.ndarray:
    return np.arange(20.0).reshape(4, 5) + 100 * step


def take(run: fb.Run, step: int, **more: object) -> None:
    with run.snapshot(step, 0.5 * step) as s:
        s.put(
            "T",
            field(step),
            units="K",
            dims=("y", "x"),
            coords={"x": np.linspace(0, 1, 5)},
            attrs={"of": "test"},
        )
        s.put("g/F", np.asfortranarray(field(step)), units="m")
        s.put("word", "state")
        s.put("n", np.uint8(step))
        s.put("z", np.full(3, step + 1j))
        for name, array in more.items():
            s.put(name, array)


def write(path: Path, n: int = N) -> None:
    with fb.open(path) as run:
        run.parameter("p", 1.0)
        for step in range(n):
            take(run, step)


def check(run: fb.Run, steps: list[int], is_here: bool = True) -> None:
    """All that a reader may ask of the snapshots."""
    assert list(run.snapshots.numbers) == steps
    stacked = np.stack([field(step) for step in steps])
    np.testing.assert_array_equal(run.series("T"), stacked)
    np.testing.assert_array_equal(run.series("g/F", np.s_[1, 2:]), stacked[:, 1, 2:])
    assert run.series("word").tolist() == ["state"] * len(steps)
    some = [steps[-1], steps[0]]
    np.testing.assert_array_equal(run.series("z", steps=some)[:, 0], np.array(some) + 1j)
    for step in (steps[0], steps[-1]):
        s = run.snapshots.at(step)
        assert sorted(s.names()) == ["T", "g/F", "n", "word", "x", "z"] and s.time == 0.5 * step
        np.testing.assert_array_equal(s["T"], field(step))
        np.testing.assert_array_equal(s.get("g/F", np.s_[::2, -1]), field(step)[::2, -1])
        np.testing.assert_array_equal(s["x"], np.linspace(0, 1, 5))
        about = s.dataset("T")
        assert about.units == "K" and about.dims == ("y", "x") and about.attrs == {"of": "test"}
        assert about.stats is not None and about.stats.max == field(step).max()
        if is_here:
            np.testing.assert_array_equal(s.map("T"), field(step))


def command(*words: object, status: int = 0) -> str:
    done = subprocess.run([str(forebay_exe()), *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


@pytest.mark.usefixtures("owner")
def test_packed_snapshots_are_read_and_gone_on_from_as_before(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        run.parameter("p", 1.0)
        for step in range(N):
            take(run, step)
        is_here = not run.path.startswith("fb://")
        mapped = run.snapshots.at(3).map("T") if is_here else None
        done = run.pack((0, N - 3))
        assert (done.packs, done.steps, done.single) == (1, N - 2, [])
        assert run.pack((0, N - 3)) == fb.Packed(0, 0, 0, [])
        check(run, list(range(N)), is_here)
        take(run, N)
        if mapped is not None:
            np.testing.assert_array_equal(mapped, field(3))
        with pytest.raises(fb.BadArgument, match="lower number"):
            run.pack((3, 1))
        with pytest.raises(fb.BadArgument, match="first and last"):
            run.pack("all")  # type: ignore[arg-type]
    with fb.open(run_dir, "r") as run:
        check(run, list(range(N + 1)), is_here)
        ds = run.to_xarray()
        assert ds["T"].dims == ("time", "y", "x") and ds["T"].sel(time=1.5)[0, 1] == 301.0
        np.testing.assert_array_equal(ds["x"], np.linspace(0, 1, 5))
    with fb.open(run_dir) as run:
        assert run.pack().steps == 3
        back = run.restart()
        assert back is not None and back.step == N and back.parameters == {"p": 1.0}
        np.testing.assert_array_equal(back["T"], field(N))
        assert run.drop(4) and not run.drop(4)
        check(run, [step for step in range(N + 1) if step != 4], is_here)
        take(run, 4)
        check(run, list(range(N + 1)), is_here)


def test_other_programs_read_a_pack_and_the_run_is_cared_for(run_dir: Path, tmp_path: Path) -> None:
    write(run_dir)
    before = run_dir.with_name("before.fb")
    shutil.copytree(run_dir, before)
    told = json.loads(command("--json", "pack", run_dir))
    assert (told["packs"], told["steps"], told["single"]) == (1, N, [])
    assert command("pack", run_dir).endswith("nothing to pack\n")
    [pack] = (run_dir / "packs").iterdir()
    assert pack.name == "0000000000-0000000011.h5" and not any((run_dir / "steps").iterdir())
    assert "the same: 72 arrays" in command("diff", before, run_dir)
    assert f"sound; {N} snapshots" in command("verify", run_dir)
    with h5py.File(pack) as f:
        for step in range(N):
            np.testing.assert_array_equal(f["T"][step], field(step))
            np.testing.assert_array_equal(f["g/F"][step], field(step))
        assert f["T"].attrs["units"] == "K" and f["step"][:].tolist() == list(range(N))
        np.testing.assert_array_equal(f["x"], np.linspace(0, 1, 5))
    for engine, drop in (("h5netcdf", []), ("netcdf4", ["z"])):
        with xr.open_dataset(pack, engine=engine, drop_variables=drop) as ds:
            assert ds["T"].dims == ("time", "y", "x") and ds["T"].attrs["of"] == "test"
            assert ds["T"].sel(time=2.5, x=0.25).values.tolist() == field(5)[:, 1].tolist()
            assert "step" in ds.coords and int(ds["n"].sel(time=3.0)) == 6
    with sqlite3.connect(f"file:{run_dir}/catalog.sqlite?mode=ro", uri=True) as catalog:
        assert catalog.execute("select count(*) from fb_step_data").fetchone() == (0,)
    view = tmp_path / "view.h5"
    command("export", run_dir, "--view", view)
    with h5py.File(view) as f:
        assert f["here"][:].all()
        np.testing.assert_array_equal(f["T"], np.stack([field(step) for step in range(N)]))
        np.testing.assert_array_equal(f["x"], np.linspace(0, 1, 5))
    # What is dropped from a pack goes with the next compaction.
    command("drop", run_dir, "3..5", "--yes")
    left = [step for step in range(N) if step not in (3, 4, 5)]
    assert f"sound; {N - 3} snapshots" in command("verify", run_dir)
    command("compact", run_dir)
    with fb.open(run_dir, "r") as run:
        check(run, left)
    [pack] = (run_dir / "packs").iterdir()
    with h5py.File(pack) as f:
        assert f["step"][:].tolist() == left
    # Without a catalog it is made anew of what packs say.
    for name in ("catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm"):
        (run_dir / name).unlink(missing_ok=True)
    command("repair", run_dir, status=1)
    with fb.open(run_dir, "r") as run:
        check(run, left)
    # A byte that turns is found and costs one snapshot.
    content = bytearray(pack.read_bytes())
    content[content.index(field(7).tobytes()) + 5] ^= 1
    pack.write_bytes(content)
    assert '"T"' in command("verify", run_dir, status=1)
    assert "snapshot 7 is damaged" in command("repair", run_dir, status=1)
    with fb.open(run_dir, "r") as run:
        check(run, [step for step in left if step != 7])
        with pytest.raises(fb.Corrupt, match="packs/"):
            run.snapshots.at(7)["T"]
    # The last of a pack takes its file along.
    command("drop", run_dir, "0..11", "--yes")
    assert not any((run_dir / "packs").iterdir())
    assert "sound; 0 snapshots" in command("verify", run_dir)


def test_views_show_snapshots_where_they_are(run_dir: Path) -> None:
    write(run_dir, 6)
    (run_dir / "views").mkdir()
    view = run_dir / "views" / "all.h5"
    command("export", run_dir, "--view", view)

    def shows(steps: list[int], of: Path = view) -> None:
        with xr.open_dataset(of, engine="h5netcdf") as ds:
            np.testing.assert_array_equal(ds["T"], np.stack([field(step) for step in steps]))
            assert ds["n"].sel(step=steps[-1]) == steps[-1]
            assert ds["x"].dims == ("x",) and ds["x"].values.tolist() == np.linspace(0, 1, 5).tolist()
        with h5py.File(of) as f:
            assert f["time"][:].tolist() == [0.5 * step for step in steps]
            assert (f["here"][:] == b"{").all()

    command("pack", run_dir, "--steps", "1..4")
    shows(list(range(6)))
    command("drop", run_dir, "2", "--yes")
    shows([0, 1, 3, 4, 5])
    command("compact", run_dir)
    shows([0, 1, 3, 4, 5])
    command("export", run_dir, "--view", run_dir.with_suffix(".h5"))
    shows([0, 1, 3, 4, 5], run_dir.with_suffix(".h5"))


def test_what_does_not_stack_stays_single_and_is_said(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        for step in range(4):
            take(run, step)
        take(run, 4, extra=np.zeros(3))
        for step in range(5, 7):
            with run.snapshot(step) as s:
                s.put("T", np.zeros(100_000), compress="gzip")
        for step in range(7, 9):
            with run.snapshot(step) as s:
                s.put("time", np.zeros(3))
        run.constant("c", np.zeros(10_000))
        with run.snapshot(9) as s:
            s.put("T", np.zeros(3))
        done = run.pack()
    assert (done.packs, done.steps) == (1, 4)
    said = {(one.first, one.last): one.why for one in done.single}
    assert "other arrays" in said[4, 4] and "compressed" in said[5, 6]
    assert "'time'" in said[7, 8].replace('"', "'") and "constant" in said[9, 9]
    assert '"T" is compressed' in command("pack", run_dir)


def test_who_reads_while_a_run_is_packed_sees_every_snapshot(run_dir: Path) -> None:
    write(run_dir)
    with fb.open(run_dir, "r") as reader:
        snapshots = [reader.snapshots.at(step) for step in range(N)]
        held = reader.snapshots.at(2).map("T")
        command("pack", run_dir)
        for step, snapshot in enumerate(snapshots):
            np.testing.assert_array_equal(snapshot["T"], field(step))
        check(reader, list(range(N)))
        np.testing.assert_array_equal(held, field(2))


def test_a_run_goes_back_behind_packed_snapshots_and_on(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        run.parameter("p", 1.0)
        for step in range(N):
            take(run, step)
            if step == 5:
                run.checkpoint("five")
        run.pack()
    (run_dir / "views").mkdir()
    view = run_dir / "views" / "all.h5"
    command("export", run_dir, "--view", view)
    with fb.open(run_dir) as run:
        back = run.restart("five")
        assert back is not None and back.step == 5
        for step in range(6, 9):
            take(run, step)
        check(run, list(range(9)))
    with h5py.File(view) as f:
        assert f["step"][:].tolist() == list(range(6))
    for care in ("verify", "compact", "verify"):
        command(care, run_dir)
    with fb.open(run_dir, "r") as run:
        check(run, list(range(9)))
    assert any(name.endswith(".aside1") for name in os.listdir(run_dir / "packs"))


def test_small_snapshots_are_packed_by_themselves_behind_the_newest_one(run_dir: Path) -> None:
    packed = lambda: len(list((run_dir / "packs").glob("*.h5")))  # noqa: E731
    with fb.open(run_dir, pack=10) as run:
        run.parameter("p", 1.0)
        for step in range(24):
            take(run, step)
            run.flush()
            until(lambda: packed() >= (step - 1) // 11, what="a pack")  # noqa: B023
        check(run, list(range(24)))
    assert packed() == 2 and "sound; 24 snapshots" in command("verify", run_dir)
    with pytest.raises(fb.BadArgument, match='"auto"'):
        fb.open(run_dir, pack="sometimes")
    with pytest.raises(fb.BadArgument, match="only read"):
        fb.open(run_dir, "r", pack="no")


def killed(run_dir: Path, call: str, when: int, path: str) -> bool:
    """Packs a run and kills the command when it enters that call for the so-manieth time; whether it was killed."""
    words = [
        "strace",
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-P",
        path,
        "-e",
        f"inject={call}:signal=SIGKILL:when={when}",
    ]
    done = subprocess.run(
        [*words, str(forebay_exe()), "pack", str(run_dir)], capture_output=True, check=False
    )
    assert done.returncode in (0, -signal.SIGKILL, 128 + signal.SIGKILL), done
    return done.returncode != 0


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace, by which it is killed")
def test_killed_at_any_of_its_states_a_packing_loses_nothing_and_leaves_nothing(run_dir: Path) -> None:
    first = run_dir.with_name("first.fb")
    write(first, 6)
    steps, packs = run_dir / "steps", run_dir / "packs"
    final = packs / "0000000000-0000000005.h5"
    states: dict[str, tuple[str, int, Path, Callable[[], bool]]] = {
        "the unfinished file is written": ("fsync", 1, Path(f"{final}.tmp"), lambda: not final.exists()),
        "it gets its name": ("rename", 1, Path(f"{final}.tmp"), lambda: True),
        "its name is made durable": ("fsync", 1, packs, lambda: final.exists()),
        "the rows name it": ("unlink", 1, steps / "0000000000.h5", lambda: final.exists()),
        "some files are gone": ("unlink", 1, steps / "0000000003.h5", lambda: final.exists()),
        "all are gone": ("fsync", 1, steps, lambda: not any(steps.iterdir())),
    }
    for state, (call, when, path, is_so) in states.items():
        shutil.rmtree(run_dir, ignore_errors=True)
        shutil.copytree(first, run_dir)
        assert killed(run_dir, call, when, str(path)), state
        assert is_so(), state
        with fb.open(run_dir, "r") as run:
            check(run, list(range(6)))
        assert "sound; 6 snapshots" in command("verify", run_dir), state
        command("recover", run_dir)
        with fb.open(run_dir, "r") as run:
            check(run, list(range(6)))
        is_packed = not any(steps.glob("*.h5"))
        assert len(list(packs.glob("*"))) == is_packed and len(list(steps.glob("*"))) == 6 * (
            not is_packed
        ), state
        command("pack", run_dir)
        assert "sound; 6 snapshots" in command("verify", run_dir)
        with fb.open(run_dir, "r") as run:
            check(run, list(range(6)))
        assert not any(steps.iterdir()), state
