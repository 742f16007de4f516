"""A loss of power, at any moment: whatever of the unsynchronised writes the disk kept, what was promised is there.

A program is traced once; from the trace come images of its run as a loss of power may leave them, and each is
opened and compared. `make test` looks at some sixty of each program, chosen by a seed; FOREBAY_POWER_IMAGES is another
number, or `all`, and FOREBAY_POWER_SEED another seed.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import forebay as fb
import pytest
from places import Place, ended
from power_disk import Disk, Image, images, mark, plant
from power_trace import Call, available, traced
from power_work import Promises

SEED = os.environ.get("FOREBAY_POWER_SEED", "1")
MOST = os.environ.get("FOREBAY_POWER_IMAGES", "60")
WORK = Path(__file__).with_name("power_work.py")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Memory, where there is such a place: thousands of files are made here."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="fbp-", dir=memory if memory.is_dir() else None) as made:
        yield Path(made)


def chosen(calls: list[Call], seed: str) -> list[Image]:
    """Images in the order of time: each with one changed name alone, which say most, and some of the others."""
    every = [image for epoch in images(calls, int(seed)) for image in epoch]
    if MOST == "all":
        return every
    kinds: list[list[Image]] = [[], [], []]
    for image in every:
        alone = image.what.startswith("name")
        kinds[0 if alone else 1 if "name" in image.what or image.what in ("nothing", "all") else 2].append(
            image
        )
    dice, most = random.Random(seed), int(MOST)
    some = dice.sample(kinds[0], min(len(kinds[0]), most // 2))
    for kind in kinds[1:]:
        some += dice.sample(kind, min(len(kind), most // 4))
    return sorted(some, key=lambda image: image.calls)


def look(image: Path, promises: Promises) -> Iterator[str]:
    """Opens an image and says what is wrong with it."""
    try:
        run = fb.open(image, "r+", buffer="64KiB")
    except fb.Error as e:
        if promises.opened:
            yield f"cannot be opened: {type(e).__name__}: {e}"
        return
    with run:
        yield from promises.faults(run)
        run.restart()
        with run.snapshot(99) as s:
            s.put("x", [1.0])
        s.wait()
    left = [n for n in os.listdir(image / "steps") if n.endswith((".tmp", ".bad"))]
    if left:
        yield f"left over: {left}"


def every_fault(calls: list[Call], root: str, folder: Path, promises: Promises, seed: str) -> Counter[str]:
    """Goes through the images; counts the faults, each with an example."""
    disk, heard, seen = Disk(calls), 0, set()
    found: Counter[str] = Counter()
    looked = 0
    for number, image in enumerate(chosen(calls, seed)):
        disk.go_to(image.calls)
        while heard < image.calls:
            if calls[heard].kind == "append" and calls[heard].path.endswith("/told"):
                promises.hear(calls[heard].data.decode())
            heard += 1
        tree = {p: b for p, b in disk.tree(image).items() if p.startswith(root + "/")}
        key = mark(tree), tuple(promises.begun), tuple(promises.floor)
        if (f"{root}/catalog.sqlite" not in tree and not promises.opened) or key in seen:
            continue
        seen.add(key)
        place = folder / f"{number}.fb"
        plant(tree, root, place)
        looked += 1
        for fault in look(place, promises):
            found[f"after call {image.calls}, {image.what}: {fault}"[:600]] += 1
        shutil.rmtree(place)
    print(f"{len(calls)} calls, {looked} images")
    assert looked > 20
    return found


CASES = {
    "embedded, goes back": (1, "block", "true"),
    "embedded, spills": (1, "spill", "false"),
    "two ranks and an agent": (2, "drop_oldest", "false"),
    "two ranks go back": (2, "drop_newest", "true"),
}


@pytest.mark.timeout(7200 if MOST == "all" else 400)
@pytest.mark.parametrize("case", CASES)
def test_what_was_promised_is_there_after_a_loss_of_power_at_any_moment(
    case: str, place: Place, folder: Path
) -> None:
    if why := available():
        pytest.skip(f"{why}, so nothing was tried")
    size, full, going_back = CASES[case]
    work = folder / "work"
    work.mkdir()
    root = work / "run.fb"
    words = [root, work / "told", -1 if size > 1 else 0, size, SEED, full, going_back]
    calls = traced([sys.executable, str(WORK), *map(str, words)], work, place.env)
    shutil.rmtree(work)
    promises = Promises(size, int(SEED), going_back == "true")
    found = every_fault(calls, str(root), folder, promises, SEED)
    assert not found, f"{len(found)} faults\n" + "\n".join(list(found)[:20])


GOES_BACK = """
import sys, forebay as fb
run = fb.open(sys.argv[1], buffer="64KiB")
for step in range(6):
    with run.snapshot(step) as s:
        s.put("x", [float(step)])
    if step == 1:
        run.checkpoint("one")
run.restart("one")
"""


def test_who_is_killed_while_a_run_goes_back_leaves_no_later_step_on_the_list(
    place: Place, tmp_path: Path
) -> None:
    if why := available():
        pytest.skip(f"{why}, so nothing was tried")
    run_dir = tmp_path / "run.fb"
    # The file of step 2 has its new name then; those of 4 and 5 have their old ones.
    kill = ["-P", str(run_dir / "steps/0000000003.h5"), "-e", "inject=rename:signal=KILL"]
    trace = ["strace", "-f", "-o", "/dev/null", "-e", "trace=rename", *kill]
    ended(place.start(*trace, sys.executable, "-c", GOES_BACK, run_dir), status=-9)
    # Who is killed cannot take its socket away; here it is not the process that was started.
    for name in place.sockets():
        Path(place.variables["FOREBAY_RUNTIME_DIR"], name).unlink()
    place.command("recover", run_dir)
    with fb.open(run_dir, "r") as run:
        assert list(run.snapshots.numbers) == [0, 1]
    aside = sorted(name for name in os.listdir(run_dir / "steps") if name.endswith(".aside1"))
    assert aside == [f"000000000{step}.h5.aside1" for step in (2, 3, 4, 5)]
