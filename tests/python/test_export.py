"""Runs leave as files of other programs, and come back from them."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
from pathlib import Path

import forebay as fb
import h5py
import numpy as np
import pytest
import xarray as xr
from far import Agent
from places import Place, ended, forebay_exe, until

ODD = np.array(
    [0x7FF8000000000001, 0xFFF0000000000001, 0x8000000000000000, 0x7FF0000000000000, 1], "u8"
).view("f8")
ARRAYS = {
    "odd": ODD.reshape(5, 1),
    "größe/ä b": np.array([2**64 - 1, 0, 2**63], "u8"),
    "small": np.array([-128, 127], "i1"),
    "half": np.array([0.1, -0.0, 65504, np.inf, np.nan], "f2"),
    "single": np.array([0.1, 1e-45, 3.4e38], "f4"),
    "z": np.array([[1 + 2j, complex(np.nan, -0.0)]], "c16"),
    "z8": np.array([0.1 - 1e30j], "c8"),
    "flag": np.array([[True, False, True]]),
    "empty": np.zeros((0, 3)),
    "scalar": np.float64(-0.0),
    "turned": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "words": np.array(["äb", "", 'c"\n']),
    "raw": np.array([b"\x00\xff", b"a"], "S2"),
}


class Shell:
    """The command, typed in a folder."""

    def __init__(self, place: Place, folder: Path) -> None:
        self.place, self.folder = place, folder

    def ask(self, *words: object, status: int = 0) -> str:
        out, err = ended(self.start(*words), status)
        return out if status == 0 else err

    def start(self, *words: object) -> subprocess.Popen[str]:
        exe = forebay_exe()
        assert exe is not None
        return self.place.start(exe, *[str(word) for word in words], cwd=self.folder)

    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


@pytest.fixture
def shell(place: Place, tmp_path: Path) -> Shell:
    return Shell(place, tmp_path)


def make(path: Path, steps: int = 3) -> None:
    with fb.open(path, "w") as run:
        run.attrs.update({"title": "two streams", "limit": float("inf")})
        for name, array in ARRAYS.items():
            run.put(f"out/{name}", array, units="m", attrs={"big": 2**70, "list": [1, 2.5]})
        run.put("long", "a text\n" * 20_000)
        columns = {"name": "str", "n": "u64", "m": "f4", "raw": "bytes", "ok": "bool"}
        t = run.table("parts", columns=columns, units={"m": "kg"})
        t.insert([('e,"x"', 2**64 - 1, 0.1, b"\x00\xff", True), ("", 0, float("nan"), b"", False)])
        t.attrs["by"] = "hand"
        energies = run.table("energies", columns={"E": "f8"}, history=True)
        diagram = run.diagram("energy", "history")
        for step in run.steps(10 * steps, stride=10):
            energies.insert([(0.5 * step,)])
            diagram.append(0.1 * step, total=1.5 * step)
            with run.snapshot(step, None if step == 0 else 0.1 * step) as s:
                for name, array in ARRAYS.items():
                    s.put(name, array)
                field, x = np.arange(32.0).reshape(8, 4) + step, np.arange(8) * 0.5
                s.put("E", field, units="V/m", dims=("x", "y"), coords={"x": x}, attrs={"long_name": "field"})
                s.put("part/x", np.arange(5.0 + step / 10))
                if step > 0:
                    s.put("late", np.float32(step))


def test_a_run_that_left_as_text_comes_back_to_the_bit(shell: Shell) -> None:
    make(shell.folder / "a.fb")
    shell.ask("export", "a", "--to", "text")
    said = shell.ask("import", "a.txt", "b")
    assert "3 snapshots" in said and 'the table "parts"' in said
    with fb.open(shell.folder / "a", "r") as a, fb.open(shell.folder / "b", "r") as b:
        assert dict(b.attrs) == dict(a.attrs) and b.table("parts").attrs["by"] == "hand"
        for step in (0, 10, 20):
            one, other = a.snapshots.at(step), b.snapshots.at(step)
            assert one.time == other.time and sorted(one) == sorted(other)
            for name in one:
                was, is_now = np.asarray(one[name]), np.asarray(other[name])
                assert was.dtype == is_now.dtype and was.tobytes() == is_now.tobytes(), name
        assert b["long"] == "a text\n" * 20_000
    # What is no part of the form is told apart, and nothing else is.
    found = json.loads(ended(shell.start("diff", "a", "b", "--json", "--read-all"), 1)[0])
    assert [(d["of"], d["differs"]) for d in found["differences"]] == [("table", "only"), ("history", "only")]
    shell.ask("export", "b", "out/*", "parts", "energies", "--to", "text", "-o", "1.txt")
    shell.ask("export", "a", "out/*", "parts", "energies", "--to", "text", "-o", "2.txt")
    assert (shell.folder / "1.txt").read_bytes() == (shell.folder / "2.txt").read_bytes()


def test_numpy_opens_arrays_over_all_snapshots_and_they_come_back(shell: Shell) -> None:
    make(shell.folder / "a.fb")
    said = json.loads(shell.ask("export", "a", "--to", "npz", "--json"))
    assert said["steps"] == 3 and said["ragged"] == ["part/x"]
    with np.load(shell.folder / "a.npz") as f:
        assert f["step"].tolist() == [0, 10, 20] and np.isnan(f["time"][0]) and f["time"][2] == 2.0
        for name, array in ARRAYS.items():
            if name == "raw":
                continue
            for one in (f[name][1], f[f"out/{name}"]):
                assert one.shape == np.shape(array) and np.array_equal(
                    one, array, equal_nan=name not in ("words", "flag")
                )
            if name not in ("words", "turned"):
                assert f[name][2].tobytes() == np.asarray(array).tobytes(), name
        assert f["E"].shape == (3, 8, 4) and f["E"][2, 3, 1] == 33.0
        assert f["part/x@20"].shape == (7,) and f["part/x@0"].shape == (5,)
        assert np.isnan(f["late"][0]) and f["late"][1:].tolist() == [10.0, 20.0]
    shell.ask("import", "a.npz", "b", "--name", "kept")
    with fb.open(shell.folder / "b", "r") as b:
        assert b["kept/E"].shape == (3, 8, 4) and b["kept/odd"][2].tobytes() == ODD.tobytes()
        assert b["kept/words"].tolist() == [["äb", "", 'c"\n']] * 3
    np.savez_compressed(shell.folder / "c.npz", a=np.zeros(3))
    assert "numpy.savez in place of" in shell.ask("import", "c.npz", "c", status=1)
    assert "c.fb" not in shell.names()


def test_zarr_has_one_chunk_a_snapshot_of_little_endian_bytes(shell: Shell) -> None:
    make(shell.folder / "a.fb")
    shell.ask("export", "a", "--to", "zarr")
    root = shell.folder / "a.zarr"
    about = json.loads((root / "E" / "zarr.json").read_text())
    assert about["shape"] == [3, 8, 4] and about["data_type"] == "float64"
    assert about["chunk_grid"]["configuration"]["chunk_shape"] == [1, 8, 4]
    assert about["dimension_names"] == ["step", "x", "y"]
    assert about["attributes"] == {"long_name": "field", "units": "V/m", "coordinates": "time"}
    assert json.loads((root / "x" / "zarr.json").read_text())["dimension_names"] == ["x"]
    assert json.loads((root / "turned" / "zarr.json").read_text())["dimension_names"] == [
        "step",
        "size_2",
        "size_3",
    ]
    second = np.fromfile(root / "E" / "c" / "1" / "0" / "0", "<f8").reshape(8, 4)
    assert second[3, 1] == 23.0
    turned = np.fromfile(root / "turned" / "c" / "2" / "0" / "0", "<f8").reshape(2, 3)
    assert turned.tolist() == ARRAYS["turned"].tolist()
    assert json.loads((root / "out" / "zarr.json").read_text())["node_type"] == "group"
    assert json.loads((root / "empty" / "zarr.json").read_text())["shape"] == [3, 0, 3]
    assert (root / "out" / "scalar" / "c").read_bytes() == np.float64(-0.0).tobytes()
    # Another one takes its place only when that is said, and never that of something else.
    assert "--force" in shell.ask("export", "a", "--to", "zarr", status=1)
    shell.ask("export", "a", "E", "--to", "zarr", "--force")
    assert sorted(path.name for path in root.iterdir()) == ["E", "step", "time", "x", "zarr.json"]
    assert "is not replaced" in shell.ask("export", "a", "--to", "zarr", "--force", "-o", "a.fb", status=1)
    assert "a.fb" in shell.names()


@pytest.mark.parametrize("engine", ["h5netcdf", "netcdf4"])
def test_xarray_opens_all_snapshots_as_one_file(shell: Shell, engine: str) -> None:
    make(shell.folder / "a.fb")
    names = ["E", "x", "late", "flag", "half", "single", "part/x", "out/odd", "größe/*", "words"]
    shell.ask("export", "a", *names, "--to", "netcdf")
    with xr.open_dataset(shell.folder / "a.nc", engine=engine) as ds:
        assert ds.attrs["title"] == "two streams"
        assert ds["E"].dims == ("step", "x", "y") and ds["E"].units == "V/m" and ds["E"].long_name == "field"
        assert ds["step"].values.tolist() == [0, 10, 20] and ds["time"].dims == ("step",)
        assert ds["E"].sel(step=20)[3, 1] == 33.0
        assert ds["flag"].dtype == bool and ds["flag"].values[1].tolist() == [[True, False, True]]
        assert ds["half"].dtype == np.float32 and np.array_equal(
            ds["half"][0], ARRAYS["half"].astype("f4"), equal_nan=True
        )
        assert ds["late"].values[1:].tolist() == [10.0, 20.0] and np.isnan(ds["late"].values[0])
    with xr.open_dataset(shell.folder / "a.nc", engine=engine, group="größe") as ds:
        assert ds["ä b"].values[2].tolist() == [2**64 - 1, 0, 2**63]


def test_tables_and_histories_leave_as_csv_and_come_back(shell: Shell) -> None:
    make(shell.folder / "a.fb")
    shell.ask("export", "a", "--to", "csv")
    assert sorted(path.name for path in (shell.folder / "a_csv").iterdir()) == [
        "energies.csv",
        "energy.csv",
        "parts.csv",
    ]
    shell.ask("export", "a", "energy", "--to", "csv")
    with (shell.folder / "energy.csv").open(newline="") as f:
        assert list(csv.reader(f))[:3] == [["step", "t", "total"], ["0", "0.0", "0.0"], ["10", "1.0", "15.0"]]
    shell.ask("export", "a", "parts", "--to", "csv")
    with (shell.folder / "parts.csv").open(newline="") as f:
        assert list(csv.reader(f))[1] == [
            'e,"x"',
            str(2**64 - 1),
            repr(float(np.float32(0.1))),
            "0x00ff",
            "1",
        ]
    said = shell.ask("import", "parts.csv", "energy.csv", "b")
    assert "name str, n u64, m f64, raw str, ok i64" in said
    with fb.open(shell.folder / "b", "r") as b:
        assert b.table("parts")["n"].tolist() == [2**64 - 1, 0] and list(b.table("parts")["name"]) == [
            'e,"x"',
            "",
        ]
        assert np.isnan(b.table("parts")["m"][1]) and b.table("energy")["total"].tolist() == [0.0, 15.0, 30.0]
    assert "rows are not mixed" in shell.ask("import", "parts.csv", "b", status=1)


def test_a_view_shows_all_snapshots_to_h5py_and_says_which_are_gone(shell: Shell) -> None:
    make(shell.folder / "a.fb")
    (shell.folder / "views").mkdir()
    said = json.loads(shell.ask("export", "a", "--view", "views/a.h5", "--json"))
    assert said["left_out"] == ["part/x"]
    with h5py.File(shell.folder / "views" / "a.h5") as f:
        assert f["E"].shape == (3, 8, 4) and f["E"][2, 3, 1] == 33.0 and f["E"].attrs["units"] == "V/m"
        assert f["step"][:].tolist() == [0, 10, 20] and (f["here"][:] == b"{").all()
        assert f["odd"][1].tobytes() == ODD.tobytes() and f["scalar"].shape == (3,)
        assert f["words"][1].tolist() == [text.encode() for text in ("äb", "", 'c"\n')]
        assert np.isnan(f["late"][0]) and f["late"][2] == 20.0
    (shell.folder / "a.fb" / "steps" / "0000000010.h5").unlink()
    with h5py.File(shell.folder / "views" / "a.h5") as f:
        assert np.isnan(f["E"][1]).all() and f["E"][2, 3, 1] == 33.0
        assert f["here"][:].tolist() == [b"{", b"", b"{"]


def test_what_h5py_wrote_is_imported_and_what_is_not_kept_is_named(shell: Shell) -> None:
    with h5py.File(shell.folder / "a.h5", "w") as f:
        f["g/big"] = np.array([1.5, np.nan], ">f8")
        f["g/big"].attrs.update({"units": "m", "n": np.uint64(2**64 - 1), "list": [1.0, np.inf], "who": "ä"})
        f["half"] = ARRAYS["half"]
        f["z"], f["flag"] = ARRAYS["z"], ARRAYS["flag"]
        f["texts"] = ["äb", "c"]
        f["fixed"] = np.array([b"ab", b"c"], "S2")
        f["chunked"] = f.create_dataset("of/chunks", data=np.arange(100), chunks=(7,))
        f["pairs"] = np.zeros(2, [("a", "i4"), ("b", "f8")])
        f["g/again"] = h5py.SoftLink("/g")
    done = shell.start("import", "a.h5", "b")
    _, err = ended(done)
    assert '"pairs"' in err and "passed over" in err
    with fb.open(shell.folder / "b", "r") as b:
        assert b["g/big"].tobytes() == np.array([1.5, np.nan]).tobytes()
        assert [d.units for d in b.list("g/big")] == ["m"]
        attrs = b.dataset("g/big", 0).attrs
        assert (attrs["n"], attrs["list"], attrs["who"]) == (2**64 - 1, [1.0, np.inf], "ä")
        for name in ("half", "z", "flag"):
            assert b[name].dtype == ARRAYS[name].dtype and b[name].tobytes() == ARRAYS[name].tobytes(), name
        assert b["texts"].tolist() == ["äb", "c"] and b["fixed"].tolist() == ["ab", "c"]
        assert b["of/chunks"].tolist() == list(range(100))


@pytest.mark.parametrize("to", ["text", "npz", "zarr", "netcdf", "openpmd", "vtkhdf"])
def test_nothing_is_at_the_target_when_an_export_is_interrupted(shell: Shell, to: str) -> None:
    with fb.open(shell.folder / "a.fb", "w") as run, run.snapshot(0) as s:
        s.mesh("E", np.random.default_rng(1).random(2_000_000))
    process = shell.start("export", "a", "--to", to, "-o", "out")
    until(lambda: any(name.endswith(".tmp") for name in shell.names()), what="the file in the making")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, shell.names()) in ((1, ["a.fb"]), (0, ["a.fb", "out"])), err
    # The others may be at their end before they are told; this one takes long.
    assert "interrupted" in err or (process.returncode == 0 and to != "text")


def test_nothing_is_there_when_an_import_is_interrupted(shell: Shell) -> None:
    with fb.open(shell.folder / "a.fb", "w") as run, run.snapshot(0) as s:
        s.put("E", np.random.default_rng(1).random(1_000_000))
    shell.ask("export", "a", "--to", "text")
    process = shell.start("import", "a.txt", "b")
    until(lambda: any(name.endswith(".tmp.fb") for name in shell.names()), what="the run in the making")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    there = ["a.fb", "a.txt"]
    assert (process.returncode, shell.names()) in ((1, there), (0, [*there, "b.fb"])), err
    assert process.returncode == 0 or "interrupted" in err


def test_a_run_on_another_host_is_made_compared_and_exported(shell: Shell, agent: Agent) -> None:
    shell.place.variables["FOREBAY_HOME"] = agent.place.variables["FOREBAY_HOME"]
    there = agent.url(agent.runs / "far.fb")
    make(shell.folder / "a.fb", 2)
    shell.ask("export", "a", "--to", "text")
    shell.ask("import", "a.txt", there)
    shell.ask("diff", there, "a", "--steps", "0..10", "--read-all")
    for run, to in ((there, "far.nc"), ("a", "near.nc")):
        shell.ask("export", run, "--to", "netcdf", "-o", to)
    # HDF5 notes the second in which a group is made: their bytes may differ.
    far, near = (xr.open_dataset(shell.folder / name, engine="h5netcdf") for name in ("far.nc", "near.nc"))
    with far, near:
        xr.testing.assert_identical(far, near)
    assert "make it there" in shell.ask("export", there, "--view", "far.h5", status=1)


def test_a_damaged_array_is_not_exported(shell: Shell) -> None:
    make(shell.folder / "a.fb", 1)
    file = shell.folder / "a.fb" / "steps" / "0000000000.h5"
    with h5py.File(file) as f:
        at = f["E"].id.get_offset()
    with file.open("r+b") as raw:
        raw.seek(at + 9)
        raw.write(b"\x01")
    for to in ("text", "npz", "zarr", "netcdf"):
        assert '"E" of step 0 is damaged' in shell.ask("export", "a", "--to", to, status=1)
    assert '"E" of step 0 is damaged' in shell.ask("diff", "a", "a", "--read-all", status=2)
    assert shell.names() == ["a.fb"]


def test_a_damaged_or_hostile_file_leaves_no_run(shell: Shell) -> None:
    make(shell.folder / "a.fb", 1)
    shell.ask("export", "a", "--to", "text")
    text = (shell.folder / "a.txt").read_text()
    for bad, said in [
        (text.rpartition("end of run")[0], "cut off"),
        (text.replace('"shape":[5,1]', '"shape":[5,2]', 1), "ends after"),
        (text.replace('"dtype":"u64"', '"dtype":"u65"', 1), "is not a dtype"),
        ("forebay-text 1\narray {}\n", "its JSON is not understood"),
        ("forebay-text 3\n", "does not begin with"),
        ('forebay-text 1\narray {"name":"a","dtype":"i8","shape":[]}\n', "write it behind the line"),
        ("PK\x03\x04", "no ZIP archive"),
        ("\x00", "none of the files that are known"),
    ]:
        (shell.folder / "bad.txt").write_text(bad)
        assert said in shell.ask("import", "bad.txt", "b", status=1), said
        assert shell.names() == ["a.fb", "a.txt", "bad.txt"]
    assert "give one of npz" in shell.ask("export", "a", "--to", "xdmf", status=1)
    assert "nothing there is called B" in shell.ask("export", "a", "B", "--to", "npz", status=1)
    assert "there is no snapshot 7" in shell.ask("export", "a", "--to", "npz", "--steps", "7", status=1)
    shell.ask("import", "a.txt", "b")
    assert "replace it with --force" in shell.ask("import", "a.txt", "b", status=1)


def test_meshes_particles_and_steps_of_histories_leave_as_text_and_come_back(shell: Shell) -> None:
    def write(name: str, spacing: float, mass: float, place: float) -> None:
        with fb.open(shell.folder / name, "w") as run:
            t = run.table("h", columns={"step": "i64"}, history=True)
            for step in run.steps(4):
                with run.snapshot(step) as s:
                    ones = np.ones((4, 5))
                    s.mesh("rho", ones, spacing=(0.1, spacing), origin=(3.0, 0.0))
                    s.mesh(
                        "E",
                        {"x": ones, "y": ones},
                        spacing=1.0,
                        position={"x": (place, 0.0), "y": (0.0, 0.5)},
                    )
                    s.particles("e", position=np.ones((3, 2)), mass=mass, units={"mass": "kg"})
                t.insert((step,))

    write("a", 2.0, 9.1e-31, 0.5)
    shell.ask("export", "a", "--to", "text")
    shell.ask("import", "a.txt", "b")
    assert "the same" in shell.ask("diff", "a", "b", "--read-all")
    with fb.open(shell.folder / "b") as b:
        snap = b.snapshots[-1]
        assert snap.grid("rho") == {"dims": ("x", "y"), "spacing": (0.1, 2.0), "origin": (3.0, 0.0)}
        assert snap.grid("E")["position"] == {"x": (0.5, 0.0), "y": (0.0, 0.5)}
        assert snap["e"]["mass"] == 9.1e-31 and snap["E"]["x"].shape == (4, 5)
        species = snap.dataset("e/position").species
        assert species is not None and species["constants"]["mass"] == {"value": 9.1e-31, "units": "kg"}
        with pytest.raises(fb.NotFound, match="no mesh 'e/position'"):
            snap.grid("e/position")
        # A restart takes back the rows of the steps behind it.
        t = b.table("h")
        steps = [row["fb_step"] for row in b.sql("SELECT fb_step FROM h ORDER BY rowid")]
        for step in b.steps(6, start=b.restart()):
            t.insert((step,))
        assert steps == [0, 1, 2, 3] and t.select()["step"].tolist() == [0, 1, 2, 3, 4, 5]
    for name, change, differs in (
        ("c", (3.0, 9.1e-31, 0.5), 'of its mesh "spacing": [0.1,2.0] and [0.1,3.0]'),
        ("d", (2.0, 1.0, 0.5), 'of its species "constants"'),
        ("f", (2.0, 9.1e-31, 0.25), 'of its mesh "position"'),
    ):
        write(name, *change)
        assert differs in ended(shell.start("diff", "a", name), 1)[0]
    # Components and names of what is not there.
    assert "2 arrays" in shell.ask("export", "a", "E", "--to", "npz", "-o", "E.npz")
    assert "the same: 8 arrays" in shell.ask("diff", "a", "b", "E")
    assert "E_x" in shell.ask("show", "a", "E", "--step", "1") and "mass" in shell.ask(
        "show", "a", "e", "--step", "1"
    )
    for words, said in (
        (("export", "a", "rho", "nosuch", "--to", "npz"), "nothing there is called nosuch"),
        (("export", "a", "h", "--to", "npz"), '"h" is a table, and'),
        (("export", "a", "rho", "--to", "csv"), '"rho" is an array of snapshots, and'),
        (("export", "a", "h", "--to", "text", "--steps", "1"), "--steps chooses within snapshots only"),
    ):
        assert said in shell.ask(*words, status=1)
    assert "nosuch" in ended(shell.start("diff", "a", "b", "rho", "nosuch"), 2)[1]
    shell.ask("export", "a", "--to", "netcdf")
    with xr.open_dataset(shell.folder / "a.nc", engine="h5netcdf") as ds:
        # Two meshes that lie elsewhere on axes of one name have no coordinates; E alone has.
        assert "x" not in ds.coords and {"step", "time"} <= set(ds.coords) and "time" not in ds.data_vars
    shell.ask("export", "a", "rho", "--to", "netcdf", "--force")
    with xr.open_dataset(shell.folder / "a.nc", engine="h5netcdf") as ds:
        np.testing.assert_allclose(ds["x"].values, 3.0 + 0.1 * np.arange(4), rtol=1e-15)
        assert ds["y"].values.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]


def test_texts_are_coordinates_of_their_axis_in_what_xarray_opens(shell: Shell) -> None:
    with fb.open(shell.folder / "a", "w") as run:
        for step in (0, 1):
            with run.snapshot(step, 0.5 * step) as s:
                s.put("T", np.ones((2, 3)), dims=("x", "sp"), coords={"sp": ["e", "p", "He"]})
                s.put("half", np.ones(2, "f2"))
        assert "sp" not in run.to_xarray().attrs.get("left_out", "") and "sp" in run.to_xarray().coords
    shell.ask("export", "a", "--to", "netcdf")
    with xr.open_dataset(shell.folder / "a.nc", engine="h5netcdf") as ds:
        assert ds["T"].dims == ("step", "x", "sp") and ds["sp"].dims == ("sp",)
        assert [str(np.char.decode(v) if isinstance(v, bytes) else v) for v in ds["sp"].values] == [
            "e",
            "p",
            "He",
        ]
    shell.ask("export", "a", "--to", "zarr")
    described = [
        json.loads((shell.folder / "a.zarr" / name / "zarr.json").read_text()) for name in ("T", "sp")
    ]
    assert [d["dimension_names"] for d in described] == [["step", "x", "sp"], ["sp", "size_2"]]
    assert described[0]["attributes"]["coordinates"] == "time"


def test_an_export_stays_out_of_runs_and_clears_away_what_dead_ones_have_left(shell: Shell) -> None:
    with fb.open(shell.folder / "a", "w") as run:
        for step in range(20):
            with run.snapshot(step) as s:
                s.put("E", np.ones(2**17))
    file = shell.folder / "a.fb" / "steps" / "0000000005.h5"
    was = file.read_bytes()
    for words in (
        ("--to", "npz", "-o", file),
        ("--view", file),
        ("--to", "npz", "-o", "a.fb/catalog.sqlite"),
    ):
        assert "is within the run" in shell.ask("export", "a", *words, "--force", status=1)
    assert file.read_bytes() == was
    dead = shell.start("export", "a", "--to", "text")
    until(lambda: any(name.endswith(".tmp") for name in shell.names()), what="the file in the making")
    dead.kill()
    dead.communicate()
    assert any(name.endswith(".tmp") for name in shell.names())
    shell.ask("export", "a", "--to", "text", "--steps", "1", "--force")
    assert shell.names() == ["a.fb", "a.txt"]


def test_an_import_takes_large_arrays_compressed_ones_and_those_of_a_step_once_and_names_the_rest(
    shell: Shell,
) -> None:
    with h5py.File(shell.folder / "gz.h5", "w") as f:
        cube = np.arange(7 * 5 * 30.0).reshape(7, 5, 30)
        f.create_dataset("z", data=np.arange(1000.0), compression="gzip", shuffle=True)
        f.create_dataset("cube", data=cube, compression="gzip", chunks=(3, 2, 8), fletcher32=True)
        f.create_dataset("noise", data=ODD, compression=9, shuffle=True, fletcher32=True)
        f.create_dataset("big", data=cube.astype(">f8"), compression="gzip")
        f.create_dataset("some", (10,), "f4", compression="gzip", chunks=(5,))[:5] = 1.0
    with h5py.File(shell.folder / "some.h5", "w") as f:
        f.create_dataset("z", data=np.arange(1000.0), shuffle=True, chunks=True)
        f.create_dataset("lzf", data=np.arange(1000.0), compression="lzf")
    exe = forebay_exe()
    assert exe is not None

    def bare(*words: str, status: int = 0) -> str:
        """The command without what other packages let HDF5 load, and with a small buffer."""
        env = ("/usr/bin/env", "-u", "HDF5_PLUGIN_PATH", "FOREBAY_BUFFER=16MiB")
        out, err = ended(shell.place.start(*env, str(exe), *words, cwd=shell.folder), status)
        return out + err

    err = bare("import", "some.h5", "b")
    assert "filter lzf (32000, in" in err and "h5repack" in err and "/" not in err.split("passed over", 1)[1]
    said = bare("import", "gz.h5", "c")
    assert "little endian" in said and "of its 2 chunks 1 were written" in said
    with fb.open(shell.folder / "c", "r") as c:
        assert c["z"].tolist() == list(range(1000)) and np.array_equal(c["cube"], cube)
        assert c["noise"].tobytes() == ODD.tobytes() and len(c.list()) == 3
    with h5py.File(shell.folder / "gz.h5", "r+") as f:
        at = f["cube"].id.get_chunk_info(4).byte_offset
        del f["z"], f["noise"], f["big"], f["some"]
    with (shell.folder / "gz.h5").open("r+b") as raw:
        raw.seek(at + 20)
        raw.write(b"\xff\x01\x7f")
    said = bare("import", "gz.h5", "d", status=1)
    assert "nothing of it is kept" in said and '"cube"' in said and "d.fb" not in shell.names()
    with fb.open(shell.folder / "a", "w") as run, run.snapshot(5) as s:
        s.mesh("rho", np.ones((4, 5)))
        s.particles("e", position=np.ones((3, 2)))
    assert "2 arrays" in shell.ask("import", "a.fb/steps/0000000005.h5", "d")
    with fb.open(shell.folder / "b", "r") as b:
        assert b["z"].tolist() == list(range(1000))
    assert "what came before" not in bare("import", "gz.h5", "b", status=1)
    np.save(shell.folder / "big.npy", np.zeros(2**21))
    assert "1 array" in bare("import", "big.npy", "e")
