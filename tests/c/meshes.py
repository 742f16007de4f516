"""The meshes and particles that a program of each language writes, as Python writes them, and whether the files are the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import forebay as fb
import h5py
import numpy as np
import pint
from kit import Home

X, Y = 0.2 * np.arange(6), 10 + 2.0 * np.arange(3)
EX = 10.0 * np.arange(6)[:, None] + np.arange(3)
PX, P = 0.1 * np.arange(5), EX[:5]
TABLE = 0.5 * np.arange(2000)
W, ID = np.ones(5, np.float32), np.arange(5)


def in_python(run: fb.Run, step: int) -> None:
    """The step with elements in C order, 1, or in that of Fortran, 2: only what is allocated has that here."""
    run.constant("table", TABLE, "K", attrs={"of": "all"})
    run.constant("few", ID)
    with run.snapshot(step, time=0.5 * step) as s:
        coords = {"x": pint.Quantity(X, "m"), "y": Y}
        field: dict[str, Any] = {"units": "kV/m", "coords": coords, "attrs": {"note": "made"}}
        charge: dict[str, Any] = {"units": "C/m^3", "spacing": (0.2, 2.0), "origin": (0.0, 10.0)}
        block: dict[str, Any] = {"overlap": "equal", "spacing": (0.2, 2.0), "position": 0.5, "offset": (0, 0)}
        position: dict[str, Any] = {"x": (0.5, 0.0), "y": (0.0, 0.5)}
        if step == 1:
            s.mesh("E", {"x": EX, "y": EX + 0.5}, position=position, **field)
            s.mesh("rho", EX + 0.5, **charge)
            s.mesh("T", EX, shape=(6, 3), **block)
            s.put("holes", EX, offset=(0, 0), shape=(12, 3), fill=-1)
        else:
            for component, more in (("x", 0.0), ("y", 0.5)):
                at = position[component]
                E = s.allocate_mesh("E", (6, 3), order="F", component=component, position=at, **field)
                E[:] = EX + more
            s.allocate_mesh("rho", (6, 3), order="F", **charge)[:] = EX + 0.5
            s.allocate_mesh("T", (6, 3), order="F", global_shape=(6, 3), **block)[:] = EX
            s.allocate("holes", (6, 3), offset=(0, 0), global_shape=(12, 3), order="F", fill=-1)[:] = EX
        order: Any = "C" if step == 1 else "F"
        B = s.allocate_mesh(
            "B", (6, 3), units="T", order=order, component="z", spacing=(0.2, 2.0), position=(0.5, 0.5)
        )
        B[:] = EX
        units = {"position": "mm", "mass": "kg"}
        s.particles("electrons", {"x": PX}, weighting=W, id=ID, mass=9.1e-31, units=units, offset="append")
        p = s.allocate_particles(
            "electrons",
            "momentum",
            (5, 3),
            units="kg m/s",
            order=order,
            attrs={"of": "them"},
            offset="append",
        )
        p[:] = P
        s.particles("ions", {"x": PX}, offset=0, shape=5, as_dtype="f4")
        s.particles("ranked", {"x": PX}, id=ID[::-1], offset="append", sort_by="id", compress="zstd")
        s.put("coarse", PX, as_dtype="f2")
        s.put("short", ID, as_dtype="i1")
        s.mesh("line", PX, as_dtype="f4", dims="s", spacing=0.5)
        muons = s.allocate_particles("muons", "position", 5, component="x", units="m", offset="append")
        muons[:] = PX


def contents(path: Path) -> dict[str, Any]:
    """Every object of a file with its attributes and elements, but for what says which run it is of and when it was made."""
    found: dict[str, Any] = {}

    def look(name: str, thing: h5py.Group | h5py.Dataset) -> None:
        attrs = {key: said(thing, value) for key, value in thing.attrs.items()}
        values = None
        if isinstance(thing, h5py.Dataset) and name != "forebay/manifest" and thing.shape is not None:
            values = (thing.dtype.str, thing.shape, thing[()].tobytes())
        found[name] = (attrs, values)

    with h5py.File(path) as f:
        look("", f)
        f.visititems(look)
        manifest = json.loads(f["forebay/manifest"][()].tobytes())
        for key in ("forebay_run", "date", "software", "softwareVersion"):
            found[""][0].pop(key, None)
        found["said"] = [{k: v for k, v in one.items() if k != "offset"} for one in manifest["data"]]
        for one in found["said"]:
            # The name of the file of a constant has the number of its put.
            one["pieces"] = [{k: v for k, v in piece.items() if k != "file"} for piece in one["pieces"]]
    return found


def said(of: h5py.Group | h5py.Dataset, value: Any) -> Any:
    """An attribute to be compared: references by what they refer to."""
    if isinstance(value, np.ndarray) and value.dtype == object:
        return [[of.file[one].name for one in axis] for axis in value]
    if isinstance(value, Mapping):
        return dict(value)
    array = np.asarray(value)
    return array.dtype.str, array.shape, array.tobytes()


def check_meshes(home: Home, program: Path, run_path: Path, *steps: int) -> None:
    """A program writes the steps that Python writes, to the last attribute; their order of elements is said by the number."""
    assert home.run(program, run_path) == "done\n"
    twin = run_path.with_name("python.fb")
    with fb.open(twin, "w") as run:
        for step in steps:
            in_python(run, step)
    for step in steps:
        ours, theirs = (contents(path / "steps" / f"{step:010}.h5") for path in (run_path, twin))
        assert ours.keys() == theirs.keys()
        for name, (attrs, values) in {k: v for k, v in ours.items() if k != "said"}.items():
            assert attrs == theirs[name][0], (step, name)
            assert values == theirs[name][1], (step, name)
        assert ours["said"] == theirs["said"]
        # One object may have several names here, and a walk gives one of them.
        with h5py.File(run_path / "steps" / f"{step:010}.h5") as f:
            meshes = [f"data/{step}/meshes/{mesh}" for mesh in ("E/x", "E/y", "rho", "T", "B/z")]
            species = [f"data/{step}/particles/{one}/position/x" for one in ("electrons", "ions", "muons")]
            assert [name for name in meshes + species if name not in f] == []
