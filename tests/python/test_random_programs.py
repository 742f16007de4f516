"""Programs drawn from a seed: another loop, other places of snapshots and rows, other ends of each start. However often
one is interrupted, what it leaves is what an undisturbed one leaves, to the bit; that is computed here.

`FOREBAY_PROGRAMS=100-400` tries those seeds.
"""

from __future__ import annotations

import json
import math
import os
import random
import signal
import sys
from pathlib import Path

import forebay as fb
import pytest
from places import Place, ended

PROGRAM = """
import json, math, os, signal, sys
import forebay as fb, numpy as np

spec, path, event = json.loads(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
n, every, stride = spec["n"], spec["every"], spec["stride"]


class Left(Exception):
    pass


def at(step, phase):
    if event and [step, phase] == event["at"]:
        if event["how"] == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if event["how"] == "term" and run.rank == 0:
            os.kill(os.getpid(), signal.SIGTERM)
        if event["how"] == "leave":
            raise Left


with fb.open(path, buffer="4MiB") as run:
    rows = run.table("rows", {"k": "i64", "x": "f64"}, history=True)
    curve = run.diagram("x", "history")
    back = run.restart()
    x = 0.3 + 0.1 * run.rank if back is None else float(back["x"][run.rank])
    counted = spec["numbers"] == "own"
    first = 0 if back is None else back.step * (every if counted else 1)

    def note(k):
        if run.rank == 0:
            rows.insert((k, x))
            curve.append(float(k), x=x)

    def keep(step):
        with run.snapshot(step // every if counted else step) as s:
            s.put("x", np.array([x]), offset=run.rank, shape=run.size)

    if spec["keeps"] == "saves":
        run.saves(keep, every=every)

    def body(step):
        global x
        at(step, "begin")
        if spec["keeps"] == "top" and step % every == 0:
            keep(step)
        at(step, "kept")
        for k in range(step, step + stride):
            if spec["rows"] == "before":
                note(k)
            x = 3.9 * x * (1.0 - x) + 1e-4 * math.sin(k)
            if spec["rows"] == "behind":
                note(k)
        at(step, "worked")
        if spec["keeps"] == "bottom" and (step + stride) % every == 0:
            keep(step + stride)
        at(step, "end")

    try:
        if spec["loop"] == "steps":
            for step in run.steps(n, start=first if counted and back is not None else back, stride=stride):
                body(step)
        elif spec["loop"] == "free":
            if back is None or not back.finished:
                for step in run.steps(start=first if counted and back is not None else back, stride=stride):
                    body(step)
                    if step + stride == n:
                        run.finish()
        elif spec["loop"] == "reach":
            step = first
            while run.reach(step) and step < n:
                body(step)
                step += stride
        else:
            for step in range(first, n, stride):
                body(step)
        print(x.hex() if spec["loop"] == "own" or run.position in (None, n) else "ended early")
    except Left:
        print("left")
"""

PHASES = ("begin", "kept", "worked", "end")


def drawn(rng: random.Random) -> dict[str, object]:
    """What a program does."""
    loop = rng.choice(["steps", "steps", "free", "reach", "own"])
    stride = rng.choice([1, 1, 2, 5])
    every = stride * rng.choice([1, 2, 3])
    # A loop of its own has no heads: its rows belong to its last snapshot, and stand before it.
    keeps = "bottom" if loop == "own" else rng.choice(["top", "bottom", "saves"])
    return {
        "loop": loop,
        "stride": stride,
        "every": every,
        "n": every * rng.randint(6, 12),
        "keeps": keeps,
        # Save may come at any head, and has no number of its own to give.
        "numbers": "state" if keeps == "saves" else rng.choice(["state", "state", "own"]),
        "rows": rng.choice(["before", "behind"]),
    }


def disturbed(rng: random.Random, spec: dict[str, object]) -> dict[str, object]:
    """How a start ends."""
    n, stride = spec["n"], spec["stride"]
    assert isinstance(n, int)
    assert isinstance(stride, int)
    hows = ["kill", "kill", "leave"] if spec["loop"] == "own" else ["kill", "kill", "leave", "term"]
    step = rng.randrange(0, n // stride) * stride
    return {"at": [step, rng.choice(PHASES)], "how": rng.choice(hows)}


def seeds() -> range:
    first, last = os.environ.get("FOREBAY_PROGRAMS", "0-15").split("-")
    return range(int(first), int(last) + 1)


@pytest.mark.parametrize("seed", seeds())
def test_a_program_drawn_from_a_seed_leaves_what_an_undisturbed_one_leaves(
    place: Place, run_dir: Path, seed: int
) -> None:
    rng = random.Random(seed)
    spec = drawn(rng)
    size = 2 if rng.random() < 0.25 else 1
    events = [disturbed(rng, spec) for _ in range(rng.randint(1, 4))]
    story = f"{spec} {size} {events}"
    words = [sys.executable, "-c", PROGRAM, json.dumps(spec), run_dir]
    for event in events:
        for rank in place.ranks(size, *words, json.dumps(event)):
            _, err = rank.communicate(timeout=60)
            # One that hears of the other's death before it comes to its own has an error of it.
            hears = size > 1 and "ServerLost" in err and "is gone" in err
            assert hears or rank.returncode in (0, -signal.SIGKILL), f"{story}\n{err}"
    n, x, told = spec["n"], [0.3 + 0.1 * rank for rank in range(size)], []
    assert isinstance(n, int)
    for k in range(n):
        before = x[0]
        x = [3.9 * v * (1.0 - v) + 1e-4 * math.sin(k) for v in x]
        told.append((k, before if spec["rows"] == "before" else x[0]))
    # The second one finds what there is to find.
    for _ in range(2):
        for rank, end in zip(place.ranks(size, *words, "null"), x, strict=True):
            out, err = ended(rank)
            assert out == f"{end.hex()}\n", f"{story}\n{err}"
        with fb.open(run_dir, "r") as run:
            assert [(r["k"], r["x"]) for r in run.table("rows").select()] == told, story
            points = run.sql("select t, value from fb_points order by rowid")
            assert [(p["t"], p["value"]) for p in points] == told, story
