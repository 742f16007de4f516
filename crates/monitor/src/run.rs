//! One watched run: what the owner tells of it, and what viewers see of that.
//!
//! ```text
//!  owner --declare, append, message, state, ack--> [ Run ] <--changes since my marks-- viewers
//!  triple buffers <--poll, only while somebody looks-- [ Run ] --acts, checked--> trait Steer
//! ```
//!
//! Nothing is queued for anybody: each viewer has marks of what it has seen and takes the
//! difference when it is ready. All calls are short; none waits for a viewer or for the run.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Bytes;
use forebay_types::watch::{Act, Declare, Parameter, State, StateInfo};
use forebay_types::{Code, Error, Result, limits};
use tokio::sync::watch;

use crate::panel::Panel;
use crate::past::{Past, Reading, Rows};
use crate::pictures::Pictures;
use crate::rate::{Bucket, Pace};
use crate::reduce::Window;
use crate::say::{DiagramInfo, LINES, Message, RunInfo, StateWords, ToPage};
use crate::source::Source;
use crate::steering::{self, Ack, Log, Steer, clipped};
use crate::token::{Door, Role};
use crate::viewer::{Seen, Viewers};

/// Messages remembered for the page; all of them are in the run's catalog.
const MESSAGES: usize = 1000;
/// Longest message, in bytes.
const MESSAGE_BYTES: usize = 2000;
/// Most parameters, and most commands, of one run.
const PARAMETERS: usize = 1024;
/// Least time between two polls of the sources, in milliseconds.
const POLL_MS: u64 = 20;

/// A run that can be watched and steered.
pub struct Run {
    me: Weak<Run>,
    info: RunInfo,
    steer: Arc<dyn Steer>,
    past: Option<Arc<dyn Past>>,
    pub(crate) door: Door,
    pub(crate) viewers: Viewers,
    inner: Mutex<Inner>,
    /// Counts changes that control sockets should hear of at once.
    news: watch::Sender<u64>,
    gone: AtomicBool,
    pictures: Pictures,
    /// How often scripts may act, all together.
    pub(crate) scripts: Mutex<Option<Bucket>>,
}

#[derive(Default)]
pub(crate) struct Inner {
    pub(crate) panels: BTreeMap<u32, Panel>,
    numbers: HashMap<(u32, u32), u32>,
    /// The diagram as the program numbers it where it is kept, and as it is shown.
    pub(crate) kept_as: HashMap<u32, u32>,
    pub(crate) reading: Reading,
    has_past: bool,
    parameters: Vec<Parameter>,
    commands: Vec<String>,
    progress: Option<(i64, i64)>,
    catalogue_rev: u64,
    parameters_rev: u64,
    messages: VecDeque<Message>,
    next_message: u64,
    log: Log,
    state: StateInfo,
    state_rev: u64,
    pace: Pace,
    polled_ms: u64,
    known_time: Option<f64>,
}

impl Run {
    pub(crate) fn new(info: RunInfo, steer: Arc<dyn Steer>, past: Option<Arc<dyn Past>>) -> Result<Arc<Run>> {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if info.id.is_empty() || info.id.len() > 64 || !info.id.chars().all(fits) {
            return Err(Error::bad(format!(
                "{:?} cannot identify a run; use up to 64 letters, digits, - and _",
                info.id
            )));
        }
        let door = Door::new()?;
        let inner = Inner {
            catalogue_rev: 1,
            parameters_rev: 1,
            state_rev: 1,
            has_past: past.is_some(),
            ..Inner::default()
        };
        Ok(Arc::new_cyclic(|me| Run {
            me: me.clone(),
            info,
            steer,
            past,
            door,
            viewers: Viewers::default(),
            inner: Mutex::new(inner),
            news: watch::Sender::new(0),
            gone: AtomicBool::new(false),
            pictures: Pictures::default(),
            scripts: Mutex::new(None),
        }))
    }

    pub(crate) fn me(&self) -> Weak<Run> {
        self.me.clone()
    }

    pub(crate) fn has_past(&self) -> bool {
        self.past.is_some()
    }

    pub(crate) fn open_past(&self) -> Result<Box<dyn Rows>> {
        self.past.as_ref().ok_or_else(|| Error::internal("nothing is kept of this run"))?.open()
    }

    pub(crate) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        self.news.send_modify(|n| *n = n.wrapping_add(1));
    }

    pub(crate) fn listen(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// The run is shown no longer: sockets of its viewers close.
    pub(crate) fn close(&self) {
        self.gone.store(true, Ordering::Release);
        self.tell();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// The run, for people.
    pub fn info(&self) -> &RunInfo {
        &self.info
    }

    /// What a script shows in the header `Authorization: Bearer`.
    pub fn token(&self, role: Role) -> String {
        self.door.token(role)
    }

    /// Waits until an operator's link was opened, or cannot be any more. Says whether it was.
    pub fn await_use(&self, link: &str, wait: Duration) -> bool {
        let code = link.split_once("#c=").map_or(link, |(_, code)| code);
        self.door.await_use(code, wait)
    }

    /// How many watch.
    pub fn watching(&self) -> usize {
        self.viewers.count()
    }

    /// A rank declares something. The same diagram or parameter declared by several ranks, or
    /// again after a restart, is one. [`Declare::Slot`] comes with its source: [`Run::slot`].
    pub fn declare(&self, rank: u32, what: &Declare) -> Result<()> {
        let mut inner = self.inner();
        inner.declare(rank, what)?;
        self.read_past(&mut inner);
        drop(inner);
        self.tell();
        Ok(())
    }

    /// A rank overwrites a curve, or its part of it, from now on through `source`.
    pub fn slot(
        &self,
        rank: u32,
        diagram: u32,
        curve: u32,
        name: &str,
        source: Box<dyn Source>,
    ) -> Result<()> {
        let mut inner = self.inner();
        inner.panel(rank, diagram)?.slot(rank, curve, name, source)?;
        inner.catalogue_rev += 1;
        drop(inner);
        self.tell();
        Ok(())
    }

    /// A rank has gone; what it showed last stays.
    pub fn rank_left(&self, rank: u32) {
        let mut inner = self.inner();
        inner.numbers.retain(|(r, _), _| *r != rank);
        inner.panels.values_mut().for_each(|p| p.rank_left(rank));
    }

    /// A point of a history: pairs of curve number and value. Where the past is kept, the first one is in
    /// that row and can be read, the others follow; otherwise the number is of no account.
    pub fn append(
        &self,
        rank: u32,
        diagram: u32,
        row: i64,
        step: i64,
        t: f64,
        values: &[(u32, f64)],
    ) -> Result<()> {
        let mut inner = self.inner();
        let limits = inner.limits();
        let panel = inner.panel(rank, diagram)?;
        let curves = panel.curves.len();
        panel.append(row, step, t, values, limits)?;
        if panel.curves.len() != curves {
            inner.catalogue_rev += 1;
        }
        inner.known_time = Some(t).filter(|t| t.is_finite());
        self.read_past(&mut inner);
        Ok(())
    }

    /// A point of a history that was told, or can be read in that row, has another value.
    pub fn amend(&self, rank: u32, diagram: u32, curve: u32, row: i64, t: f64, value: f64) -> Result<()> {
        self.inner().panel(rank, diagram)?.amend(curve, row, t, value);
        Ok(())
    }

    /// A message for people: level 0 debug, 1 info, 2 warning, 3 error.
    pub fn message(&self, level: u8, step: i64, text: &str) {
        self.inner().message(level, step, text);
        self.tell();
    }

    /// A parameter has this value now, on all ranks. Pages show it from here on.
    pub fn parameter(&self, name: &str, value: &serde_json::Value) {
        let mut inner = self.inner();
        if let Some(p) = inner.parameters.iter_mut().find(|p| p.name == name) {
            p.value = value.clone();
            inner.parameters_rev += 1;
            drop(inner);
            self.tell();
        }
    }

    /// Where the run stands; told when the word changes and, if it is convenient, in between.
    pub fn state(&self, now: StateInfo) {
        if self.inner().state(now) {
            self.tell();
        }
    }

    /// News of an act, whoever asked for it: from a page, the command line or the program.
    pub fn ack(&self, ack: Ack) {
        self.inner().log.news(ack, now_ms());
        self.tell();
    }

    /// Checks an act and hands it to the owner. Returns its number.
    pub fn act(&self, who: &str, role: Role, act: &Act) -> Result<u64> {
        {
            let inner = self.inner();
            steering::check(role, inner.state.state)?;
        }
        self.steer.act(who, act)
    }

    /// Takes what is new from the sources that somebody looks at.
    pub(crate) fn poll(&self) {
        let now = now_ms();
        let mut inner = self.inner();
        if now.saturating_sub(inner.polled_ms) < POLL_MS {
            return;
        }
        inner.polled_ms = now;
        let open = self.viewers.open();
        let mut errors = Vec::new();
        let mut time = None;
        for (id, panel) in &mut inner.panels {
            if open.contains(id) {
                let before = panel.version;
                errors.extend(panel.poll());
                time = (panel.version != before).then_some(panel.time).or(time);
            }
        }
        inner.known_time = time.filter(|t| t.is_finite()).or(inner.known_time);
        for e in &errors {
            inner.message(2, -1, e.text());
        }
        drop(inner);
        if !errors.is_empty() {
            self.tell();
        }
    }

    /// Tells writers which diagrams are looked at; called when a viewer's view changes.
    pub(crate) fn rewatch(&self) {
        let open = self.viewers.open();
        let mut inner = self.inner();
        for (id, panel) in &mut inner.panels {
            panel.watch(open.contains(id));
        }
        inner.look_anew();
        self.read_past(&mut inner);
    }

    /// Diagrams with the version of their data.
    pub(crate) fn versions(&self) -> BTreeMap<u32, u64> {
        self.inner().panels.iter().map(|(id, p)| (*id, p.version)).collect()
    }

    /// A diagram as it is now, encoded for a window, with the version of its data.
    pub(crate) fn picture(&self, diagram: u32, window: &Window) -> Option<(u64, Bytes)> {
        let (version, still) = {
            let inner = self.inner();
            let panel = inner.panels.get(&diagram)?;
            (panel.version, panel.still())
        };
        let mut wants = Vec::new();
        let bytes = self.pictures.get(diagram, version, window, || {
            let (bytes, wanted) = still.encode(window);
            wants = wanted;
            bytes
        });
        self.want(diagram, wants);
        Some((version, bytes))
    }

    /// Everything that a viewer has not been told, and its new marks.
    pub(crate) fn changes(&self, seen: &mut Seen) -> Vec<ToPage> {
        self.inner().changes(seen)
    }

    /// State words for the page; asks the owner for a glance first.
    pub(crate) fn words(&self) -> StateWords {
        if !self.inner().is_over() {
            // The end may be told while the owner is looked at.
            let now = self.steer.glance();
            let news = now.is_some_and(|now| {
                let mut inner = self.inner();
                !inner.is_over() && inner.state(now)
            });
            if news {
                self.tell();
            }
        }
        let watching = self.viewers.names();
        let mut inner = self.inner();
        let now = inner.state.clone();
        let going = matches!(now.state, State::Running | State::Stepping | State::Holding | State::Saving);
        inner.pace.at(now_ms(), now.step, going);
        let rate = inner.pace.rate();
        let left = inner.progress.map(|(_, end)| (end - now.step).max(0) as f64);
        StateWords {
            state: now.state,
            step: now.step,
            time: now.time.filter(|t| t.is_finite()).or(inner.known_time),
            rate,
            eta: left.zip(rate).filter(|_| going).map(|(left, rate)| left / rate),
            ranks: now.ranks,
            watching,
        }
    }
}

impl Inner {
    /// Whoever told that the run is over knows better than a glance at words left behind.
    fn is_over(&self) -> bool {
        matches!(self.state.state, State::Ended | State::Lost)
    }

    fn declare(&mut self, rank: u32, what: &Declare) -> Result<()> {
        match what {
            Declare::Diagram(d) => self.diagram(rank, d)?,
            Declare::Parameter(p) => {
                let known = self.parameters.iter().position(|q| q.name == p.name);
                match known {
                    Some(at) => self.parameters[at] = p.clone(),
                    None if self.parameters.len() == PARAMETERS => {
                        return Err(Error::bad(format!("a run has at most {PARAMETERS} parameters")));
                    }
                    None => self.parameters.push(p.clone()),
                }
                self.parameters_rev += 1;
            }
            Declare::Command { name } => {
                if self.commands.len() == PARAMETERS {
                    return Err(Error::bad(format!("a run has at most {PARAMETERS} commands")));
                }
                if !self.commands.contains(name) {
                    self.commands.push(name.clone());
                    self.catalogue_rev += 1;
                }
            }
            Declare::Progress { start, end, .. } => {
                self.progress = end.map(|end| (*start, end));
                self.catalogue_rev += 1;
            }
            // The state says so.
            Declare::Over { .. } => {}
            Declare::Curve { diagram, curve, name } => {
                self.panel(rank, *diagram)?.curve(*curve, Some(name))?;
                self.catalogue_rev += 1;
            }
            Declare::Slot { diagram, .. } => {
                return Err(Error::internal(format!(
                    "the slot of diagram {diagram} came without its source"
                )));
            }
        }
        Ok(())
    }

    fn diagram(&mut self, rank: u32, d: &forebay_types::watch::Diagram) -> Result<()> {
        let known = self.panels.values().find(|p| p.about.title == d.title).map(|p| p.about.id);
        let id = match known {
            Some(id) => id,
            None if self.panels.len() == limits::DIAGRAMS => {
                return Err(Error::bad(format!("a run has at most {} diagrams", limits::DIAGRAMS)));
            }
            None => self.panels.len() as u32,
        };
        let mut about = d.clone();
        about.id = id;
        match self.panels.get_mut(&id) {
            Some(panel) => panel.about = about,
            None => drop(self.panels.insert(id, Panel::new(about, self.has_past))),
        }
        self.numbers.insert((rank, d.id), id);
        if rank == 0 || !self.kept_as.contains_key(&d.id) {
            self.kept_as.insert(d.id, id);
        }
        self.catalogue_rev += 1;
        Ok(())
    }

    fn panel(&mut self, rank: u32, diagram: u32) -> Result<&mut Panel> {
        // Where the past is kept, diagrams have the numbers of the run, whoever tells of them.
        let kept = || self.kept_as.get(&diagram).filter(|_| self.has_past);
        let id = self.numbers.get(&(rank, diagram)).or_else(kept).copied();
        id.and_then(|id| self.panels.get_mut(&id)).ok_or_else(|| {
            Error::new(Code::NotFound, format!("rank {rank} has declared no diagram number {diagram}"))
        })
    }

    pub(crate) fn message(&mut self, level: u8, step: i64, text: &str) {
        if self.messages.len() == MESSAGES {
            self.messages.pop_front();
        }
        self.next_message += 1;
        self.messages.push_back(Message {
            seq: self.next_message,
            level: level.min(3),
            step,
            text: clipped(text.to_owned(), MESSAGE_BYTES),
            at: now_ms(),
        });
    }

    /// Whether pages should hear of it at once.
    fn state(&mut self, now: StateInfo) -> bool {
        let word = now.state != self.state.state || now.ranks != self.state.ranks;
        let held = now.state == State::Held && now.step != self.state.step;
        self.state = now;
        if word || held {
            self.state_rev += 1;
        }
        word || held
    }

    fn changes(&self, seen: &mut Seen) -> Vec<ToPage> {
        let mut out = Vec::new();
        if seen.catalogue != self.catalogue_rev {
            seen.catalogue = self.catalogue_rev;
            let info = |p: &Panel| DiagramInfo {
                about: p.about.clone(),
                curves: p.curves.iter().map(|c| (c.number, c.name.clone())).collect(),
            };
            out.push(ToPage::Catalogue {
                diagrams: self.panels.values().map(info).collect(),
                commands: self.commands.clone(),
                progress: self.progress,
            });
        }
        if seen.parameters != self.parameters_rev {
            seen.parameters = self.parameters_rev;
            out.push(ToPage::Parameters { items: self.parameters.clone() });
        }
        let fresh: Vec<_> = self.messages.iter().filter(|m| m.seq > seen.message).cloned().collect();
        if let Some(last) = fresh.last() {
            seen.message = last.seq;
        }
        out.extend(fresh.chunks(LINES).map(|items| ToPage::Messages { items: items.to_vec() }));
        loop {
            let (items, mark) = self.log.since(seen.log, LINES);
            if items.is_empty() {
                break;
            }
            seen.log = mark;
            out.push(ToPage::Steer { items });
        }
        if seen.state != self.state_rev {
            seen.state = self.state_rev;
            seen.state_due = true;
        }
        out
    }
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
