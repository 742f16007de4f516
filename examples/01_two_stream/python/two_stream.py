"""The simulation: the two-stream instability as a client of Forebay.

    deck -> quiet start (or the last complete snapshot)
    each step: [snapshot] -> field solve by the service poisson1d -> history, diagrams -> push

A snapshot holds the state before its step: positions, half-step velocities, and the fields that
belong to them. Started again after an interruption the run goes on from the last one, bit for bit.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import deck as decks
import forebay as fb
import numpy as np
import report
from physics import UNITS, Array, Plasma, Species, external_field, field_energy

HERE = Path(__file__).resolve().parent
HISTORY = {"step": "i64", "time": "f64", "field": "f64", "kinetic": "f64", "momentum": "f64"}
HISTORY_UNITS = {
    "time": UNITS["t"],
    "field": UNITS["energy"],
    "kinetic": UNITS["energy"],
    "momentum": UNITS["momentum"],
}


class Simulation:
    """The plasma, the run it is kept in, and the service it calls."""

    def __init__(self, run: fb.Run, deck: decks.Deck, client: fb.Client, wait: float) -> None:
        self.run, self.deck, self.client, self.wait = run, deck, client, wait
        self.phi: Array = np.zeros(deck.grid)
        self.E: Array = np.zeros(deck.grid)
        self.calls: list[float] = []
        self.solved = -1  # step that phi and E belong to

        restart = run.restart()
        self.restart = restart
        self.start = 0 if restart is None else restart.step
        self._declare()
        if restart is None:
            self._keep_deck()
            self.plasma = Plasma.quiet_start(deck)
            self._solve(0, patience=wait)
            self.plasma.half_step_back(self._force())
        else:
            self.plasma = Plasma(deck, [self._species(beam, restart) for beam in deck.beams])

    # --- what the run holds ------------------------------------------------------------------

    def _declare(self) -> None:
        run, deck = self.run, self.deck
        self.history = run.table("history", HISTORY, HISTORY_UNITS, history=True)
        x, v, t = f"x [{UNITS['x']}]", f"v [{UNITS['v']}]", f"t [{UNITS['t']}]"
        self.phase_space = run.diagram("Phase space", "scatter", x=x, y=v)
        self.field = run.diagram("Electric field", "curve", x=x, y=f"E [{UNITS['E']}]")
        self.energies = run.diagram("Energies", "history", x=t, y=f"energy [{UNITS['energy']}]", yscale="log")
        self.amplitude = run.parameter(
            "external_field",
            deck.field_amplitude,
            min=-deck.field_limit,
            max=deck.field_limit,
            units=UNITS["E"],
            help="Amplitude of a standing wave that pulls at the electrons",
        )
        run.saves(self.snapshot, every=deck.snapshot_every)
        self.grid_points = np.arange(deck.grid) * deck.dx

    def _keep_deck(self) -> None:
        table = self.run.table("input", {"key": "str", "value": "str"})
        if len(table) == 0:
            table.insert([{"key": key, "value": value} for key, value in flat(self.deck)])

    def _species(self, beam: decks.Beam, kept: fb.StoredSnapshot) -> Species:
        name = f"electrons_{beam.name}"
        return Species(beam, self.deck, kept[f"{name}/position/x"], kept[f"{name}/velocity/x"])

    def snapshot(self, step: int) -> None:
        """Keeps the state before ``step``, with the fields of that state."""
        with self.run.snapshot(step, time=step * self.deck.dt) as s:
            if not s.taken:
                return
            self._solve(step)
            s.put("x", self.grid_points, units=UNITS["x"])  # the coordinate of the axis x
            s.mesh("E", self.E, units=UNITS["E"], spacing=self.deck.dx)
            s.mesh("phi", self.phi, units=UNITS["phi"], spacing=self.deck.dx)
            s.mesh("rho", self.plasma.rho, units=UNITS["rho"], spacing=self.deck.dx)
            for beam in self.plasma.species:
                units = {"position": UNITS["x"], "velocity": UNITS["v"]}
                s.particles(f"electrons_{beam.name}", {"x": beam.x}, velocity={"x": beam.v}, units=units)

    # --- one step ----------------------------------------------------------------------------

    def _solve(self, step: int, patience: float = 0.0) -> None:
        """The fields of the state before ``step``. With patience, waits so long for a first server."""
        if step == self.solved:
            return
        deadline = time.monotonic() + patience
        while True:
            begin = time.perf_counter()
            try:
                self.client.call("poisson1d", self.deck.length, self.plasma.rho, self.phi, self.E)
                break
            except fb.NoServer:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(0.1)
        self.calls.append(time.perf_counter() - begin)
        self.solved = step

    def _force(self) -> Array:
        return self.E + external_field(self.deck, float(self.amplitude.value))

    def step(self, step: int) -> None:
        """Computes one step."""
        deck, plasma = self.deck, self.plasma
        self._solve(step, patience=self.wait if step == self.start else 0.0)
        for beam in plasma.species:
            self.phase_space.update(beam.name, beam.x, beam.v)
        self.field.update(self.grid_points, self.E)
        energy = field_energy(deck, self.E)
        moments = plasma.advance(self._force())
        t = step * deck.dt
        self.energies.append(t, field=energy, kinetic=moments.kinetic)
        self.history.insert((step, t, energy, moments.kinetic, moments.momentum))


def flat(deck: decks.Deck) -> list[tuple[str, str]]:
    """The deck as keys and values, for the table ``input``."""
    out: list[tuple[str, str]] = []
    for key, value in vars(deck).items():
        if key == "beams":
            for beam in value:
                out += [(f"{beam.name}.{name}", repr(v)) for name, v in vars(beam).items() if name != "name"]
        else:
            out.append((key, repr(value)))
    return out


def check_same_deck(run: fb.Run, deck: decks.Deck) -> None:
    """A run that exists goes on only with the deck it was begun with (the number of steps may grow)."""
    if "input" not in run.tables:
        return
    free = {"steps"}
    old = {row["key"]: row["value"] for row in run.table("input").select()}
    for key, value in flat(deck):
        if key not in free and old.get(key, value) != value:
            raise decks.DeckError(
                f"the run {run.path} was begun with {key} = {old[key]}, the deck now says {value}; "
                "give another --run, or --fresh to begin anew"
            )


def options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The two-stream instability as a client of Forebay.")
    parser.add_argument("--deck", default=HERE.parent / "two_stream.toml", help="input deck")
    parser.add_argument("--run", default="two_stream", help="name of the run (directory NAME.fb)")
    parser.add_argument("--particles", type=int, help="number of particles, instead of the deck's")
    parser.add_argument("--steps", type=int, help="number of steps, instead of the deck's")
    parser.add_argument("--fresh", action="store_true", help="begin anew even if the run exists")
    parser.add_argument("--renew", action="store_true", help="begin anew if the run is finished")
    parser.add_argument("--no-monitor", action="store_true", help="without the page")
    parser.add_argument("--wait", type=float, default=20.0, help="seconds to wait for a server at first")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Runs the simulation; returns the exit status."""
    args = options(argv)
    try:
        deck = decks.load(args.deck).with_(particles=args.particles, steps=args.steps)
        return simulate(args, deck)
    except (decks.DeckError, fb.Error) as error:
        print(f"two_stream: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("two_stream: interrupted; start it again to go on from the last snapshot", file=sys.stderr)
        return 130


def open_run(args: argparse.Namespace) -> fb.Run:
    """The run, begun anew when asked for, or when it is finished and the options say that this is wanted."""
    run = fb.open(args.run, "w" if args.fresh else "a")
    if args.renew and (last := run.restart()) is not None and last.finished:
        run.close()
        run = fb.open(args.run, "w")
    return run


def simulate(args: argparse.Namespace, deck: decks.Deck) -> int:
    with open_run(args) as run:
        check_same_deck(run, deck)
        if not args.no_monitor:
            print(f"the page: {run.monitor()}", flush=True)
        simulation = Simulation(run, deck, fb.connect(), args.wait)
        if simulation.start >= deck.steps:
            print("the run is finished; begin anew with --fresh, or go further with --steps", flush=True)
        elif simulation.start:
            print(f"going on from step {simulation.start}", flush=True)
        begin = time.perf_counter()
        for step in run.steps(deck.steps, start=simulation.restart):
            simulation.step(step)
        seconds = time.perf_counter() - begin
        run.flush()
        clocked = report.Clocked(seconds, simulation.calls)
        print("\n".join(report.lines(run, deck, clocked)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
