//! How long tasks take, by server: from the times that replies tell.
//!
//! The time of a task is that of its like in general times the slowness of its server. Both are learned from the
//! logarithms of times, for those of tasks are spread over decades, and the server's from what is left when the
//! general one is taken away: a slow server is not learned as long tasks.

/// Nanoseconds of one clock.
pub(super) type Ns = u64;

/// Calls that run shorter are timed now and then only: one of so many.
pub(super) const SHORT: Ns = 20_000;
pub(super) const SOMETIMES: u64 = 16;
/// The weight of a new time among many.
const NEW: f64 = 1.0 / 16.0;
/// Replies without a sign of others before a server is taken to have none.
const SHARED: u8 = 32;
/// Before a server has told this many, what it told counts for part only.
const FEW: f64 = 3.0;

/// A mean that follows, of logarithms too.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    n: f64,
    value: f64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.n += 1.0;
        self.value += (value - self.value) * NEW.max(1.0 / self.n);
    }
}

/// The times of tasks that are alike.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    mean: Mean,
    log: Mean,
}

/// What is known of one server.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Speed {
    slowness: Mean,
    /// How many times longer than elsewhere, as its logarithm says.
    factor: Option<f64>,
    /// What a task takes beside its running, at least: sending, finding, answering.
    beside: Option<f64>,
    /// Replies until it is taken to serve this client alone.
    shared: u8,
}

impl Pace {
    /// A task ran so long there.
    pub fn learn(&mut self, speed: &mut Speed, ran: Ns) {
        let log = (ran.max(1) as f64).ln();
        speed.slowness.add(if self.log.n > 0.0 { log - self.log.value } else { 0.0 });
        self.log.add(log - self.shift(speed));
        let factor = self.shift(speed).exp();
        self.mean.add(ran as f64 / factor);
        speed.factor = Some(factor);
    }

    fn shift(&self, speed: &Speed) -> f64 {
        speed.slowness.value * speed.slowness.n / (speed.slowness.n + FEW)
    }

    /// How long a task is expected to run there, in nanoseconds; none before any has.
    pub fn expected(&self, speed: &Speed) -> Option<f64> {
        (self.mean.n > 0.0).then(|| (self.mean.value * speed.factor()).max(1.0))
    }
}

impl Speed {
    /// What a task takes there beside its running.
    pub fn beside(&self) -> f64 {
        self.beside.unwrap_or(0.0)
    }

    /// A reply has told how many calls were there, so many of them this client's.
    pub fn tells(&mut self, there: u32, mine: u32) {
        self.shared = if there > mine { SHARED } else { self.shared.saturating_sub(1) };
    }

    /// How many times longer than elsewhere a task runs there.
    pub fn factor(&self) -> f64 {
        self.factor.unwrap_or(1.0)
    }

    /// Whether others call it, too.
    pub fn is_shared(&self) -> bool {
        self.shared > 0
    }

    /// What a task took beside its running that met no other one there. Behind others its reply may wait for whoever takes
    /// it, the longer, the more there are.
    pub fn took_beside(&mut self, beside: Ns) {
        let least = self.beside.get_or_insert(beside as f64);
        *least = least.min(beside as f64);
    }
}
