"""The physics of the example without a run: growth, conservation, restart; and the deck's errors."""

from __future__ import annotations

from pathlib import Path

import deck as decks
import numpy as np
import physics
import pytest
from poisson1d import solve

FILE = Path(__file__).resolve().parent.parent / "two_stream.toml"
TEXT = FILE.read_text(encoding="utf-8")


def march(plasma: physics.Plasma, steps: int) -> physics.Array:
    """Field energy, kinetic energy and momentum of each step."""
    deck, rows = plasma.deck, []
    for _ in range(steps):
        _, field = solve(deck.length, plasma.rho)
        moments = plasma.advance(field + physics.external_field(deck, deck.field_amplitude))
        rows.append((physics.field_energy(deck, field), moments.kinetic, moments.momentum))
    return np.array(rows)


def begin(particles: int) -> physics.Plasma:
    plasma = physics.Plasma.quiet_start(decks.load(FILE).with_(particles=particles))
    plasma.half_step_back(solve(plasma.deck.length, plasma.rho)[1])
    return plasma


def test_the_growth_rate_is_that_of_the_dispersion_relation() -> None:
    plasma = begin(20_000)
    history = march(plasma, 600)
    t: physics.Array = np.arange(600, dtype=np.float64) * plasma.deck.dt
    measured = physics.growth_from_history(t, history[:, 0])
    theory = physics.growth_from_dispersion(plasma.deck)
    assert abs(theory - 0.4859) < 5e-5
    assert measured is not None
    assert abs(measured / theory - 1) < 0.03


def test_momentum_is_conserved_to_rounding_and_energy_within_a_percent() -> None:
    history = march(begin(20_000), 600)
    total = history[:, 0] + history[:, 1]
    assert np.abs(history[:, 2]).max() < 1e-12
    assert np.ptp(total) / total[0] < 0.01


def test_positions_and_velocities_determine_the_rest_to_the_bit() -> None:
    whole, first = begin(40_000), begin(40_000)
    march(whole, 120)
    march(first, 70)
    deck = first.deck
    again = physics.Plasma(
        deck,
        [
            physics.Species(b, deck, s.x.copy(), s.v.copy())
            for b, s in zip(deck.beams, first.species, strict=True)
        ],
    )
    march(again, 50)
    np.testing.assert_array_equal(whole.rho, again.rho)
    for a, b in zip(whole.species, again.species, strict=True):
        np.testing.assert_array_equal(a.x, b.x)
        np.testing.assert_array_equal(a.v, b.v)


def test_the_field_solve_knows_a_sine() -> None:
    n, length = 64, 2 * np.pi
    x = np.arange(n) * length / n
    phi, field = solve(length, np.cos(x) + 3.0)
    assert np.abs(phi - np.cos(x)).max() < 1e-3
    assert np.abs(field - np.sin(x)).max() < 2e-3
    assert abs(phi.mean()) < 1e-15


def test_no_growth_is_found_where_there_is_none() -> None:
    t: physics.Array = np.arange(100, dtype=np.float64) * 0.1
    growing: physics.Array = np.exp(t)
    assert physics.growth_from_history(t, growing) is None
    assert physics.growth_from_history(t[:2], t[:2]) is None


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("grid = 64", "grid = 1", ":8: [box] grid: grid = 1 is not an integer"),
        ("dt = 0.1", "dt = 'a'", "[time] dt"),
        ("dt = 0.1", "dt = 3.0", "below 2"),
        ("dt = 0.1", "dt =", "not TOML"),
        ("steps = 600\n", "", "'steps' is missing"),
        ('name = "beam2"', 'name = "beam1"', "names two beams"),
        ("count = 2000000", "count = 3", "shared evenly"),
        ("drift = -1.0", "drft = -1.0", "[beam] drft: unknown key"),
        ("[time]", "[tim]", "[tim]: unknown"),
        ("amplitude = 0.0", "amplitude = 9.0", "beyond the limit"),
    ],
)
def test_a_wrong_deck_is_refused_with_the_line_and_the_key(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    assert old in TEXT
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(TEXT.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(decks.DeckError) as error:
        decks.load(wrong)
    assert says in str(error.value)


def test_a_deck_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(decks.DeckError, match=r"nothing\.toml"):
        decks.load(tmp_path / "nothing.toml")
