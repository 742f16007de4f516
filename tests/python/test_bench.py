"""The benchmarks measure what they say: tiny runs of their programs, and the arithmetic of the ratios."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "benches" / "suite"))

import programs
import report
import storage
import targets
from report import Figure


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C programs, linked with the library of this tree."""
    if not (programs.TARGET / "libforebay.so").exists():
        command = ["cargo", "build", "--quiet", "--release", "--locked", "--package", "forebay-c"]
        subprocess.run(command, cwd=ROOT, check=True)
    into = tmp_path_factory.mktemp("programs")
    names = ["gets_forebay", "small_forebay", "small_raw", "snapshot_forebay", "snapshot_raw"]
    programs.build(into, names)
    return into


def test_small_data_sets_are_written_and_read_back_beside_a_bare_log(built: Path, tmp_path: Path) -> None:
    for name in ("small_forebay", "small_raw"):
        result = programs.alone([str(built / name), str(tmp_path / name), "300"], dict(os.environ))
        assert 0 < result["put_us"] <= result["durable_us"]
        assert result["get_us"] > 0
    command = [
        sys.executable,
        "-c",
        f"import forebay as fb; print(len(fb.open({str(tmp_path)!r} + '/small_forebay', 'r').list()))",
    ]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "300"


def test_clients_at_once_are_timed_beside_one_for_each_turn_of_the_cores() -> None:
    script = str(ROOT / "benches" / "beside.py")
    command = [sys.executable, script, "--clients", "1", "3", "--count", "5", "--rounds", "1", "--json"]
    rows = programs.alone(command, {})["rows"]
    assert [row["at"] for row in rows] == [1, 3] and rows[0]["ratio"] == 1.0
    turns = max(1.0, 3 / (os.cpu_count() or 1))
    assert rows[1]["ratio"] == pytest.approx(rows[1]["value"] / (rows[0]["value"] * turns))
    assert len(rows[1]["samples"]) == 3 and all(s > 0 for s in rows[1]["samples"])


@pytest.mark.parametrize("how", ["put", "allocate"])
def test_every_snapshot_is_timed_and_kept(built: Path, tmp_path: Path, how: str) -> None:
    ours = [str(built / "snapshot_forebay"), how, str(tmp_path), "3", "8", "0.01", "0", "1", "32"]
    copy = [str(built / "snapshot_raw"), "memcpy", str(tmp_path), "3", "8", "0.01"]
    for result in (programs.alone(ours), programs.alone(copy)):
        assert len(result["visible_ms"]) == 3
        assert result["mean_ms"] == pytest.approx(sum(result["visible_ms"]) / 3, rel=0.01, abs=0.001)
        assert result["worst_ms"] == pytest.approx(max(result["visible_ms"]), abs=0.001)
        assert result["durable_s"] > 0.03
    assert len(list((tmp_path / "forebay.fb" / "steps").glob("*.h5"))) == 3


def test_reading_is_timed_while_a_buffer_drains(built: Path, tmp_path: Path) -> None:
    result = programs.alone([str(built / "gets_forebay"), str(tmp_path / "run"), "4", "32", "192", "100"])
    for what in ("get", "put"):
        idle, draining = result[f"{what}_idle"], result[f"{what}_draining"]
        assert idle["count"] == 100
        assert draining["count"] > 0
        assert 0 < draining["p50_us"] <= draining["p99_us"] <= draining["worst_us"]
    assert 0 < result["drained_steps"] <= 4


def test_steps_larger_than_all_buffers_are_timed_beside_what_they_cannot_be_faster_than(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "OWN_MIB", 8)
    monkeypatch.setattr(storage, "STORE_MIB", 8)
    figures = storage.overflow(storage.Bench(built, tmp_path / "data", {}, {}, quick=True))
    times = [f for f in figures if f.ours() and f.unit == "ms"]
    assert [len(f.samples) for f in times] == [2] * 4
    assert all(f.value > 0 and f.ratio and f.against == storage.IDEAL for f in times)
    assert len([f for f in figures if f.against == storage.DECLARED]) == 4


def test_arrays_of_several_layouts_are_timed_beside_numpys_own_copy(tmp_path: Path) -> None:
    script = str(programs.VERSUS / "layouts_python.py")
    rows = programs.alone([sys.executable, script, str(tmp_path), "1", "2"])["views"]
    assert [row["view"] for row in rows][:2] == ["dense", "rows backwards"]
    assert all(row["put_ms"] > 0 and row["copyto_ms"] > 0 for row in rows)


def test_stop_is_measured_over_a_slow_line_that_nobody_waits_for_and_nothing_is_left() -> None:
    before = set(Path("/dev/shm").glob("fbb-*"))
    script = str(ROOT / "benches" / "remote.py")
    small = ["--count", "50", "--rounds", "1", "--mib", "32"]
    rows = programs.alone([sys.executable, script, "--json", *small])["rows"]
    figures = {figure.what: figure for figure in (Figure(**row) for row in rows)}
    stops = [figure for what, figure in figures.items() if what.startswith("Stop until ")]
    assert [len(stop.samples) for stop in stops] == [2, 2]
    assert all(stop.value > 0 and stop.ratio == pytest.approx(stop.value / 80) for stop in stops)
    got = figures["get of 1..1000 i32 with get_many"]
    assert got.ratio == got.value / figures["get of 1..1000 i32"].value
    assert set(Path("/dev/shm").glob("fbb-*")) <= before


def test_a_program_that_fails_is_not_a_figure(built: Path, tmp_path: Path) -> None:
    with pytest.raises(programs.Failed, match=r"status 1.*making a file"):
        programs.alone([str(built / "snapshot_raw"), "buffered", str(tmp_path / "absent"), "1", "4", "0"])


def test_a_ratio_above_one_is_slower_for_times_and_for_rates() -> None:
    assert report.times_slower(30.0, "ms", 10.0) == 3.0
    assert report.times_slower(2.0, "GB/s", 6.0) == 3.0


def test_figures_come_back_from_their_json_and_stand_in_the_table() -> None:
    figure = Figure(
        "snapshots",
        "visible time",
        "Forebay, agent",
        12.5,
        "ms",
        "warm memcpy",
        1.25,
        1.5,
        samples=[12.0, 13.0],
    )
    figures, facts = report.from_json(report.as_json([figure], {"cores": 2}))
    assert (figures, facts) == ([figure], {"cores": 2})
    assert "12.5 ms" in report.table(figures)
    assert "| **Forebay, agent** | 12.5 ms | 1.25 (warm memcpy) | 1.50 |" in report.markdown(figures)


def test_a_target_is_held_by_a_figure_up_to_it_and_not_above() -> None:
    def judged(mean: float) -> list[bool]:
        visible = Figure(
            "snapshots", "visible time of 256 MiB", "Forebay, agent", mean, "ms", "warm memcpy", mean / 10
        )
        return [held for *_, held in targets.judged([visible])]

    assert (judged(10.0), judged(10.1)) == ([True], [False])


def test_a_target_may_depend_on_how_fast_the_machine_is() -> None:
    def judged(call: float, ping_pong: float) -> list[bool]:
        void = Figure(
            "calls", "void call, active, median", "Forebay, C", call, "us", "spin ping-pong", call / ping_pong
        )
        return [held for *_, held in targets.judged([void])]

    assert judged(0.5, 0.1) == [True]
    assert judged(0.6, 0.1) == [False]
    assert judged(1.5, 0.5) == [True]
    assert judged(1.6, 0.5) == [False]
