//! Two cold counter-streaming electron beams in one process, watched and steered on the page:
//! what the monitor is developed and tested against.
//!
//! ```text
//! cargo run -p forebay-monitor --example two_stream -- [--rate STEPS_PER_S] [--more N] [--forever]
//! ```
//!
//! It prints one line of JSON with links and tokens, and new links for each line that it reads; it goes on until the
//! run is quit, the end is reached, or its standard input closes. `--more` adds scatter diagrams of the same
//! particles, `--held` begins held.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use forebay_monitor::{Ack, Config, Hub, LocalSlot, Monitor, Reading, Role, Run, RunInfo, StateInfo, Steer};
use forebay_types::watch::{Act, Declare, Diagram, Kind, Parameter, Phase, Scale, State};
use forebay_types::{Code, Error, Result};
use serde_json::json;

const GRID: usize = 64;
const PARTICLES: usize = 8192;
const LENGTH: f64 = std::f64::consts::TAU;
const DT: f64 = 0.1;

/// The plasma: positions and velocities of both beams, one after the other.
struct Plasma {
    x: Vec<f64>,
    v: Vec<f64>,
    field: Vec<f64>,
    /// Amplitude of an external field cos(x).
    pull: f64,
}

impl Plasma {
    /// A quiet start: evenly spaced, mode 1 displaced by a thousandth with opposite signs.
    fn new() -> Plasma {
        let (mut x, mut v) = (Vec::new(), Vec::new());
        for (velocity, sign) in [(1.0, 1.0), (-1.0, -1.0)] {
            for i in 0..PARTICLES {
                let at = (i as f64 + 0.5) * LENGTH / PARTICLES as f64;
                x.push((at + sign * 1e-3 * at.cos()).rem_euclid(LENGTH));
                v.push(velocity);
            }
        }
        Plasma { x, v, field: vec![0.0; GRID], pull: 0.0 }
    }

    /// One leap-frog step: charge to the grid, field by integration, particles on.
    fn step(&mut self) {
        let dx = LENGTH / GRID as f64;
        // Both beams have plasma frequency 1; the ions are a still background.
        let weight = LENGTH / PARTICLES as f64 / dx;
        let mut rho = vec![2.0; GRID];
        for x in &self.x {
            let at = x / dx;
            let cell = at as usize % GRID;
            let share = at - at.floor();
            rho[cell] -= weight * (1.0 - share);
            rho[(cell + 1) % GRID] -= weight * share;
        }
        // dE/dx = rho, E between the points of rho, then averaged onto them; no mean field.
        let mut half = vec![0.0; GRID];
        let mut sum = 0.0;
        for (i, r) in rho.iter().enumerate() {
            sum += r * dx;
            half[i] = sum;
        }
        let mean = half.iter().sum::<f64>() / GRID as f64;
        for i in 0..GRID {
            let applied = self.pull * (i as f64 * dx).cos();
            self.field[i] = (half[(i + GRID - 1) % GRID] + half[i]) / 2.0 - mean + applied;
        }
        for (x, v) in self.x.iter_mut().zip(&mut self.v) {
            let at = *x / dx;
            let cell = at as usize % GRID;
            let share = at - at.floor();
            let e = self.field[cell] * (1.0 - share) + self.field[(cell + 1) % GRID] * share;
            *v -= e * DT;
            *x = (*x + *v * DT).rem_euclid(LENGTH);
        }
    }

    fn energies(&self) -> (f64, f64) {
        let dx = LENGTH / GRID as f64;
        let field = self.field.iter().map(|e| e * e).sum::<f64>() * dx / 2.0;
        let kinetic = self.v.iter().map(|v| v * v).sum::<f64>() * LENGTH / PARTICLES as f64 / 2.0;
        (field, kinetic)
    }
}

/// The steering of one process: acts wait in order and are carried out at the loop head.
#[derive(Default)]
struct Head {
    inner: Mutex<HeadInner>,
    bell: Condvar,
}

#[derive(Default)]
struct HeadInner {
    next: u64,
    acts: Vec<(u64, String, Act)>,
    state: StateInfo,
    over: bool,
}

impl Steer for Head {
    fn act(&self, who: &str, act: &Act) -> Result<u64> {
        if let Act::Set { name, value } = act {
            let known = parameters().into_iter().find(|p| p.name == *name);
            known
                .ok_or_else(|| Error::new(Code::NotFound, format!("there is no parameter {name:?}")))?
                .check(value)?;
        }
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.next += 1;
        let id = inner.next;
        inner.acts.push((id, who.to_owned(), act.clone()));
        if *act == Act::Stop && inner.state.state == State::Running {
            inner.state.state = State::Holding;
        }
        self.bell.notify_all();
        Ok(id)
    }

    fn glance(&self) -> Option<StateInfo> {
        Some(self.inner.lock().unwrap_or_else(PoisonError::into_inner).state.clone())
    }
}

/// What the loop does next.
struct Course {
    hold: bool,
    until: Option<i64>,
    quit: bool,
}

impl Head {
    /// Carries out what waits; holds while told to. Returns whether the loop goes on.
    fn at(&self, step: i64, course: &mut Course, run: &Run, plasma: &mut Plasma) -> bool {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if course.until == Some(step) {
            (course.hold, course.until) = (true, None);
        }
        loop {
            for (id, who, act) in std::mem::take(&mut inner.acts) {
                let text = course.take(step, &act, run, plasma);
                run.ack(Ack { id, who, act, phase: Phase::Applied, step: Some(step), text });
            }
            inner.state.step = step;
            inner.state.time = Some(step as f64 * DT);
            inner.state.state = match (course.quit || inner.over, course.hold, course.until) {
                (true, ..) => State::Quitting,
                (_, true, _) => State::Held,
                (_, _, Some(_)) => State::Stepping,
                _ => State::Running,
            };
            run.state(inner.state.clone());
            if course.quit || inner.over {
                return false;
            }
            if !course.hold {
                return true;
            }
            inner = self.bell.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn finish(&self) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).over = true;
        self.bell.notify_all();
    }
}

impl Course {
    fn take(&mut self, step: i64, act: &Act, run: &Run, plasma: &mut Plasma) -> String {
        match act {
            Act::Run => (self.hold, self.until) = (false, None),
            Act::Stop => (self.hold, self.until) = (true, None),
            Act::Step { n } => (self.hold, self.until) = (false, Some(step + *n as i64)),
            Act::Quit | Act::End { .. } => self.quit = true,
            Act::Save => {
                let (field, kinetic) = plasma.energies();
                run.message(
                    1,
                    step,
                    &format!("saved: field energy {field:.4e}, kinetic energy {kinetic:.6}"),
                );
            }
            Act::Set { name, value } => {
                if name == "e_external" {
                    plasma.pull = value.as_f64().unwrap_or(plasma.pull);
                }
                run.parameter(name, value);
            }
            Act::Command { .. } => {
                *plasma = Plasma { pull: plasma.pull, ..Plasma::new() };
                run.message(2, step, "the beams begin anew");
            }
        }
        String::new()
    }
}

fn diagram(id: u32, title: &str, kind: Kind, x: &str, y: &str, yscale: Scale) -> Declare {
    Declare::Diagram(Diagram {
        id,
        title: title.into(),
        kind,
        x: x.into(),
        y: y.into(),
        v: None,
        xscale: Scale::Linear,
        yscale,
        every: 1,
        reduce: None,
    })
}

/// What can be set: the field, and a number that is only shown.
fn parameters() -> [Parameter; 2] {
    let (units, help) = ("V/m".into(), "amplitude of an external field cos(x)".into());
    let field = Parameter {
        name: "e_external".into(),
        value: json!(0.0),
        min: Some(-1.0),
        max: Some(1.0),
        units,
        help,
        signed: false,
    };
    let seed = Parameter {
        name: "seed".into(),
        value: json!(1),
        min: None,
        max: None,
        units: String::new(),
        help: String::new(),
        signed: false,
    };
    [field, seed]
}

/// The slots that the loop writes into: particles of both beams for each scatter, the field.
struct Slots {
    beams: Vec<[LocalSlot; 2]>,
    field: LocalSlot,
}

fn declare(run: &Run, more: u32, end: i64) -> Result<Slots> {
    run.declare(0, &diagram(0, "phase space", Kind::Scatter, "x [m]", "v [m/s]", Scale::Linear))?;
    run.declare(0, &diagram(1, "electric field", Kind::Curve, "x [m]", "E [V/m]", Scale::Linear))?;
    run.declare(0, &diagram(2, "energies", Kind::History, "t [s]", "W [J]", Scale::Log))?;
    let mut beams = Vec::new();
    for id in std::iter::once(0).chain(3..3 + more) {
        if id > 0 {
            let title = format!("phase space {id}");
            run.declare(0, &diagram(id, &title, Kind::Scatter, "x [m]", "v [m/s]", Scale::Linear))?;
        }
        let ((one, first), (two, second)) = (LocalSlot::new(), LocalSlot::new());
        run.slot(0, id, 0, "beam 1", first)?;
        run.slot(0, id, 1, "beam 2", second)?;
        beams.push([one, two]);
    }
    let (field, source) = LocalSlot::new();
    run.slot(0, 1, 0, "", source)?;
    for (curve, name) in [(0, "field"), (1, "kinetic")] {
        run.declare(0, &Declare::Curve { diagram: 2, curve, name: name.into() })?;
    }
    run.declare(0, &Declare::Progress { start: 0, end: Some(end), stride: 1, number: 1, every: 0 })?;
    run.declare(0, &Declare::Command { name: "begin anew".into() })?;
    for parameter in parameters() {
        run.declare(0, &Declare::Parameter(parameter))?;
    }
    Ok(Slots { beams, field })
}

fn publish(slots: &Slots, run: &Run, step: i64, plasma: &Plasma) -> Result<()> {
    let time = step as f64 * DT;
    for pair in &slots.beams {
        for (slot, from) in pair.iter().zip([0, PARTICLES]) {
            if slot.watched() || step == 0 {
                let part = from..from + PARTICLES;
                let (x, y) = (plasma.x[part.clone()].to_vec(), plasma.v[part].to_vec());
                slot.publish(Reading { step, time, x, y })?;
            }
        }
    }
    if slots.field.watched() || step == 0 {
        let x = (0..GRID).map(|i| i as f64 * LENGTH / GRID as f64).collect();
        slots.field.publish(Reading { step, time, x, y: plasma.field.clone() })?;
    }
    let (field, kinetic) = plasma.energies();
    run.append(0, 2, step, step, time, &[(0, field), (1, kinetic)])
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let number = |name: &str, default: f64| {
        let at = args.iter().position(|a| a == name);
        at.and_then(|i| args.get(i + 1)).and_then(|v| v.parse().ok()).unwrap_or(default)
    };
    let has = |name: &str| args.iter().any(|a| a == name);
    let rate = number("--rate", 30.0);
    let end = if has("--forever") { i64::MAX / 2 } else { number("--steps", 1200.0) as i64 };

    let hub = Hub::new();
    let head = Arc::new(Head::default());
    let id = format!("demo-{}", std::process::id());
    let info = RunInfo {
        id: id.clone(),
        name: "two_stream".into(),
        program: "two_stream (example)".into(),
        host: "localhost".into(),
    };
    let run = hub.add(info, head.clone(), None)?;
    let slots = declare(&run, number("--more", 0.0) as u32, end)?;
    let monitor = Monitor::start(Config::default(), hub)?;
    let monitor = Arc::new(monitor);
    let say_links = {
        let (monitor, run, id) = (Arc::downgrade(&monitor), run.clone(), id.clone());
        move |n: usize| {
            let Some(links) = monitor.upgrade().and_then(|m| m.links(&id).ok()) else { return };
            let tokens = json!({"operator": run.token(Role::Operator), "viewer": run.token(Role::Viewer)});
            let (operator, viewer) = (links.operator, links.viewer);
            println!(
                "{}",
                json!({"links": n, "operator": operator, "viewer": viewer, "tokens": tokens, "run": id})
            );
        }
    };
    say_links(0);

    // Whoever started us may go; then so do we.
    let on_end = head.clone();
    std::thread::spawn(move || {
        (1..).zip(std::io::stdin().lines()).for_each(|(n, _)| say_links(n));
        on_end.finish();
    });

    let mut plasma = Plasma::new();
    let mut course = Course { hold: has("--held"), until: None, quit: false };
    let mut next = Instant::now();
    let mut step = 0;
    while step < end && head.at(step, &mut course, &run, &mut plasma) {
        plasma.step();
        publish(&slots, &run, step, &plasma)?;
        step += 1;
        next += Duration::from_secs_f64(1.0 / rate);
        match next.checked_duration_since(Instant::now()) {
            Some(rest) => std::thread::sleep(rest),
            None => next = Instant::now(),
        }
    }
    run.message(1, step, &format!("the loop ended after {step} steps"));
    run.state(StateInfo { state: State::Ended, step, time: Some(step as f64 * DT), ranks: 1 });
    println!("{}", json!({"ended": step}));
    drop(monitor);
    Ok(())
}
