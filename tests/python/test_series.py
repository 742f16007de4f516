"""One array over many steps."""

from __future__ import annotations

from pathlib import Path

import forebay as fb
import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("owner")


def fields(n: int) -> list[np.ndarray]:
    return [np.arange(12.0).reshape(3, 4) + 100 * step for step in range(n)]


def keep(run: fb.Run, step: int, **arrays: object) -> None:
    with run.snapshot(step, 0.5 * step) as s:
        for name, array in arrays.items():
            s.put(name, array)


def test_a_part_of_an_array_is_read_over_all_steps(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        for step, field in enumerate(fields(150)):
            keep(run, step, T=field, F=np.asfortranarray(field), n=np.uint8(step % 7), word="state")
        stacked = np.stack(fields(150))
        for name in ("T", "F"):
            np.testing.assert_array_equal(run.series(name), stacked)
            np.testing.assert_array_equal(run.series(name, np.s_[1, 2]), stacked[:, 1, 2])
            np.testing.assert_array_equal(run.series(name, np.s_[::-1, 1:]), stacked[:, ::-1, 1:])
            np.testing.assert_array_equal(run.series(name, np.s_[..., None, -1]), stacked[:, :, None, -1])
            few = [7, 3, 120]
            np.testing.assert_array_equal(run.series(name, np.s_[2], steps=few), stacked[few, 2])
        counted = run.series("n")
        assert counted.dtype == np.uint8 and counted.tolist() == [step % 7 for step in range(150)]
        assert run.series("T", np.s_[0:0]).shape == (150, 0, 4)
        assert run.series("word").tolist() == ["state"] * 150
    with fb.open(run_dir, "r") as run:
        np.testing.assert_array_equal(run.series("T", np.s_[1, 2]), stacked[:, 1, 2])
        with pytest.raises(fb.BadArgument, match="out of bounds"):
            run.series("T", np.s_[3])


def test_arrays_that_differ_or_lack_are_told_by_step(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        with pytest.raises(fb.NotFound, match="no complete snapshot"):
            run.series("T")
        keep(run, 0, T=np.zeros(3), n=np.arange(2))
        keep(run, 5, T=np.ones(3), W=np.ones(2, "c8"))
        keep(run, 9, T=np.ones(4), W=np.ones(2, "c8"), n=np.arange(2))
        with pytest.raises(fb.Conflict, match=r"at step 0 and .* at step 9"):
            run.series("T")
        assert [len(a) for a in run.series("T", ragged=True)] == [3, 3, 4]
        assert run.series("T", np.s_[-1], steps=[9, 0], ragged=True) == [1.0, 0.0]
        with pytest.raises(fb.NotFound, match=r"1 of 3 steps .*: 0;"):
            run.series("W")
        filled = run.series("W", np.s_[1], missing="nan")
        assert filled.dtype == np.complex64 and np.isnan(filled[0]) and filled[1:].tolist() == [1, 1]
        with pytest.raises(fb.BadArgument, match="no NaN"):
            run.series("n", missing="nan")
        with pytest.raises(fb.NotFound, match="did you mean"):
            run.series("TT")
        with pytest.raises(fb.NotFound, match="the nearest: 0 and 5"):
            run.series("T", steps=[0, 3])
        for wrong in (
            {"steps": []},
            {"steps": slice(0, 5)},
            {"missing": "zero"},
            {"missing": "nan", "ragged": True},
        ):
            with pytest.raises(fb.BadArgument):
                run.series("T", **wrong)  # type: ignore[call-overload]


def test_a_step_made_anew_and_one_dropped_are_seen_at_once(run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        for step in range(4):
            keep(run, step, T=np.full(2, float(step)))
        assert run.series("T", np.s_[0]).tolist() == [0, 1, 2, 3]
        run.drop(3)
        assert run.series("T", np.s_[0]).tolist() == [0, 1, 2]
        keep(run, 3, T=np.full(2, 30.0))
        assert run.series("T", np.s_[0]).tolist() == [0, 1, 2, 30]


def test_bytes_that_are_not_those_written_are_told(place: object, run_dir: Path) -> None:
    with fb.open(run_dir) as run:
        for step in range(3):
            keep(run, step, T=np.full(4000, float(step)))
    file = run_dir / "steps" / "0000000001.h5"
    damaged = file.read_bytes().replace(np.full(4000, 1.0).tobytes(), np.full(4000, 1.5).tobytes())
    file.write_bytes(damaged)
    with fb.open(run_dir, "r") as run:
        with pytest.raises(fb.Corrupt, match="of step 1 is damaged"):
            run.series("T")
        assert run.series("T", steps=[0, 2]).shape == (2, 4000)
