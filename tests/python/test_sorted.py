"""Particles in the order of their ids, whichever rank has them."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import forebay as fb
import h5py
import numpy as np
import pytest
from disks import fill, small_disk
from numpy.typing import NDArray
from places import Place, ended, until
from test_damage import command, step_file

MADE = """
import sys, numpy as np, forebay as fb
def made(count, rank, ranks, step):
    "This rank's particles: they wander to other ranks, and some are new, in step 1."
    every = np.random.default_rng(3).permutation(2 * count)[:count] + 10 * 2**32
    if step == 1:
        every[: count // 9] += 2 * count
    whose = np.random.default_rng((step, ranks)).integers(0, max(ranks - 1, 1), count)
    ids = every[whose == rank]
    x = np.sin(ids % 1000.0)
    xyz = np.stack([x, x + 1, x + 2], axis=1)
    return ids, x, xyz
"""
RANK = (
    MADE
    + """
run = fb.open(sys.argv[1], buffer="32MiB")
count = int(sys.argv[2])
for step in range(3):
    ids, x, xyz = made(count, run.rank, run.size, min(step, 1))
    with run.snapshot(step, time=float(step)) as s:
        s.particles("e", position={"x": x, "y": -x}, momentum=xyz, spin=xyz.astype("f4"), id=ids,
                    weighting=x, kind=(ids % 7).astype("u1"), mass=2.0, units={"position": "m"}, offset="append", sort_by="id",
                    compress="gzip" if step == 2 else "none", as_dtype={"weighting": "f4"})
        s.allocate_particles("e", "later", (len(ids), 3), offset="append", order="F")[:] = 2 * xyz
        s.particles("plain", x, id=ids, offset="append")
    s.wait(60)
run.close()
"""
)
NAMES = ["position/x", "position/y", "momentum", "spin", "id", "weighting", "kind", "later"]


def messages(run: fb.Run) -> list[str]:
    return [row["text"] for row in run.sql("SELECT text FROM fb_messages ORDER BY id")]


def test_particles_of_one_two_and_three_ranks_lie_alike_to_the_bit(run_dir: Path, place: Place) -> None:
    # One of the ranks has none.
    runs = [run_dir.with_name(f"{ranks}.fb") for ranks in (1, 2, 3)]
    for ranks, path in enumerate(runs, 1):
        for rank in place.ranks(ranks, sys.executable, "-c", RANK, path, "40000"):
            ended(rank)
        command("verify", path)
    context: dict[str, Any] = {}
    exec(MADE, context)
    for step in range(3):
        ids, x, xyz = context["made"](40000, 0, 1, min(step, 1))
        order = np.argsort(ids)
        expected = {
            "position/x": x[order],
            "momentum": xyz[order],
            "spin": xyz[order].astype("f4"),
            "id": ids[order],
            "weighting": x[order].astype("f4"),
            "kind": (ids[order] % 7).astype("u1"),
            "later": 2 * xyz[order],
        }
        kept = []
        for path in runs:
            with fb.open(path, "r") as run, h5py.File(step_file(path, step)) as f:
                snap = run.snapshots.at(step)
                for name, values in expected.items():
                    np.testing.assert_array_equal(snap[f"e/{name}"], values, err_msg=name)
                    assert snap.attrs(f"e/{name}")["sorted_by"] == "id"
                    file = f[f"e/{name}"][()]
                    np.testing.assert_array_equal(file.T if name == "later" else file, values)
                np.testing.assert_array_equal(
                    snap.get("e/momentum", np.s_[77:30000:5, 1]), xyz[order][77:30000:5, 1]
                )
                np.testing.assert_array_equal(f[f"data/{step}/particles/e/id"][()], ids[order])
                assert "e/order" not in snap and "sorted_by" not in snap.attrs("plain/id")
                assert set(snap["e"]) == {n.split("/")[0] for n in NAMES} | {"mass"}
                kept.append([f[f"e/{name}"][()].tobytes() for name in NAMES])
        assert kept[0] == kept[1] == kept[2]
    command("diff", runs[0], runs[2], status=1)  # plain is in the order of ranks
    with fb.open(runs[1], "r") as run:
        assert not [text for text in messages(run) if '"e"' in text]


def test_a_run_goes_on_with_other_ranks_from_particles_in_order(run_dir: Path, place: Place) -> None:
    goes_on = """
import sys, numpy as np, forebay as fb
run = fb.open(sys.argv[1], buffer="16MiB")
snap = run.restart()
n = 30_000
mine = slice(run.rank * n // run.size, (run.rank + 1) * n // run.size)
if snap is None:
    ids = np.random.default_rng(0).permutation(n)[mine]
    x = ids / 7
else:
    ids, x = snap.get("e/id", mine), snap.get("e/position", mine)
    assert (ids == np.arange(n)[mine]).all() and (x == ids / 7).all()
    ids, x = ids[::-1], x[::-1]
for step in run.steps(2 if snap is None else snap.step + 2, start=snap):
    pass
with run.snapshot(run.position) as s:
    s.particles("e", x, id=ids, offset="append", sort_by="id")
run.close()
"""
    for ranks in (2, 3, 1):
        for rank in place.ranks(ranks, sys.executable, "-c", goes_on, run_dir):
            ended(rank)
    with fb.open(run_dir, "r") as run:
        assert run.snapshots.numbers == [2, 4, 6]
        for snap in run.snapshots:
            assert (snap["e/id"] == np.arange(30_000)).all() and (
                snap["e/position"] == np.arange(30_000) / 7
            ).all()
    command("diff", f"{run_dir}@2", f"{run_dir}@4")


INDEXED = """
import sys, numpy as np, forebay as fb
run = fb.open(sys.argv[1], buffer="8MiB")
ids = np.random.default_rng(run.rank).permutation(300_000) * 3 + run.rank
for step in range(2):
    with run.snapshot(step) as s:
        s.particles("e", ids / 2, momentum=np.stack([ids, ids], axis=1), id=ids, offset="append", sort_by="id",
                    compress=["none", "zstd"][step])
        s.particles("few", ids[:9] / 2, id=ids[:9], offset="append", sort_by="id")
    s.wait(60)
run.close()
"""


def test_of_a_species_beyond_a_quarter_of_the_buffers_the_index_is_kept_and_that_is_said(
    run_dir: Path, place: Place
) -> None:
    for rank in place.ranks(2, sys.executable, "-c", INDEXED, run_dir):
        ended(rank)
    came = [np.random.default_rng(rank).permutation(300_000) * 3 + rank for rank in range(2)]
    ids = np.concatenate(came)
    with fb.open(run_dir, "r") as run:
        for snap in run.snapshots:
            assert (snap["e/id"] == ids).all() and (snap["e/position"] == ids / 2).all()
            order = snap["e/order"]
            assert order.dtype == np.uint32 and (order == np.argsort(ids, kind="stable")).all()
            assert snap.attrs("e/order")["sort_by"] == "id" and "sorted_by" not in snap.attrs("e/id")
            assert set(snap["e"]) == {"position", "momentum", "id"}
            assert (snap["few/id"] == np.sort(np.concatenate([c[:9] for c in came]))).all()
        said = [text for text in messages(run) if '"e/order" has the indices' in text]
        assert len(said) == 1 and re.search(
            r'step 0: the particles of "e" lie in the order of ranks', said[0]
        )
    command("verify", run_dir)
    with h5py.File(step_file(run_dir, 0)) as f:
        assert (f["e/id"][()][f["e/order"][()]] == np.sort(ids)).all()


def test_equal_ids_lie_in_the_order_of_ranks_and_the_first_one_is_said(run_dir: Path, place: Place) -> None:
    code = """
import sys, numpy as np, forebay as fb
run = fb.open(sys.argv[1])
for step in range(2):
    with run.snapshot(step) as s:
        s.particles("e", np.array([0.0, 1, 2]) + 10 * run.rank, id=np.array([9, -5, -5 + 4 * run.rank], "i2"), offset="append",
                    sort_by="id")
    s.wait(30)
run.close()
"""
    for rank in place.ranks(2, sys.executable, "-c", code, run_dir):
        ended(rank)
    with fb.open(run_dir, "r") as run:
        assert run.snapshots[-1]["e/id"].tolist() == [-5, -5, -5, -1, 9, 9]
        assert run.snapshots[-1]["e/position"].tolist() == [1, 2, 11, 12, 0, 10]
        said = [text for text in messages(run) if "two particles" in text]
        assert said == [
            'step 0: two particles of "e" have "id" = -5, of rank 0; such ones lie in the order of ranks'
        ]


def test_what_cannot_be_put_in_order_is_refused_by_name(run_dir: Path) -> None:
    x, ids = np.arange(3.0), np.arange(3)
    with fb.open(run_dir) as run:
        s = run.snapshot(0)
        with pytest.raises(
            fb.BadArgument, match='sort_by = "id" of the species "e" is not among its records'
        ):
            s.particles("e", x, sort_by="id")
        with pytest.raises(fb.BadArgument, match=r'sort_by = "id" of the species "e" is f64\(3,\)'):
            s.particles("e", x, id=x, sort_by="id")
        with pytest.raises(fb.BadArgument, match='the record "order"'):
            s.particles("e", x, id=ids, order=ids, sort_by="id")
        s.particles("e", x, id=ids, sort_by="id")
        with pytest.raises(
            fb.BadArgument, match='"e" is put with sort_by = "id" first, and without sort_by now'
        ):
            s.particles("e", {"x": x})
        s.discard()
        assert run.snapshots.numbers == []


def test_ranks_that_do_not_say_alike_in_which_order_particles_lie_hear_of_it(
    run_dir: Path, place: Place
) -> None:
    code = """
import sys, numpy as np, forebay as fb
run = fb.open(sys.argv[1])
try:
    s = run.snapshot(0)
    s.particles("e", np.arange(3.0), id=np.arange(3), offset="append", sort_by="id" if run.rank else None)
    s.end()
    s.wait(30)
except fb.BadArgument as e:
    print(e)
    s.discard()
run.close()
"""
    said = "".join(ended(rank)[0] for rank in place.ranks(2, sys.executable, "-c", code, run_dir))
    assert (
        "do not say alike in which order the particles are to lie; give the same sort_by in all ranks" in said
    )


def species(step: int, count: int = 250_000) -> tuple[NDArray[Any], NDArray[Any]]:
    ids = np.random.default_rng(step).permutation(count)
    return ids, ids + 0.25 * step


@pytest.mark.parametrize("buffer", ["64MiB", "12MiB"])
def test_on_a_full_disk_particles_wait_for_room_and_are_in_order_then(tmp_path: Path, buffer: str) -> None:
    with small_disk(tmp_path / "disk", 48) as disk:
        run = fb.open(disk / "full", buffer=buffer)
        for step in range(2):
            if step == 1:
                ballast = fill(disk)
            ids, x = species(step)
            with run.snapshot(step) as s:
                s.particles("e", x, id=ids, momentum=np.stack([x, x], axis=1), sort_by="id")
            if step == 0:
                s.wait(60)
        until(lambda: run.stats()["waiting_for_disk"], 60, "the disk that is full")
        ballast.unlink()
        s.wait(60)
        run.close()
        command("verify", disk / "full.fb")
        with fb.open(disk / "full", "r") as read:
            for snap in read.snapshots:
                ids, x = species(snap.step)
                order = slice(None) if buffer == "64MiB" else snap["e/order"]
                assert ("e/order" in snap) == (buffer == "12MiB")
                assert (snap["e/id"][order] == np.sort(ids)).all() and (
                    snap["e/position"][order] == np.sort(x)
                ).all()
                assert (snap["e/momentum"][order, 1] == np.sort(x)).all()


def test_what_was_acknowledged_of_particles_is_in_order_after_a_kill(run_dir: Path, place: Place) -> None:
    writes = """
import sys, numpy as np, forebay as fb
run = fb.open(sys.argv[1], buffer="48MiB")
step = 0
while True:
    ids = np.random.default_rng((step, run.rank)).permutation(50_000) * 2 + run.rank
    with run.snapshot(step) as s:
        s.particles("e", ids + 0.5 * step, id=ids, offset="append", sort_by="id")
    print(step, flush=True)
    step += 1
"""
    for ranks in (1, 2):
        path = run_dir.with_name(f"{ranks}.fb")
        programs = place.ranks(ranks, sys.executable, "-c", writes, path)
        assert all(program.stdout is not None for program in programs)
        for program in programs:
            for _ in range(4):
                program.stdout.readline()  # type: ignore[union-attr]
        for program in programs:
            os.kill(program.pid, signal.SIGKILL)
            program.wait()
        place.command("recover", path)
        with fb.open(path, "r") as run:
            assert run.snapshots.numbers[:4] == list(range(4))
            for snap in run.snapshots:
                assert (
                    snap["e/id"] == (np.arange(50_000 * ranks) if ranks == 2 else 2 * np.arange(50_000))
                ).all()
                assert (snap["e/position"] == snap["e/id"] + 0.5 * snap.step).all()
        place.command("verify", path)
