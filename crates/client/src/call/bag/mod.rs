//! Bags: many calls of one service, on what servers there are.
//!
//! ```no_run
//! use forebay_client::call::{Arg, BagOptions, Client, Next};
//! let client = Client::connect(forebay_link::Locator::at(None))?;
//! let mut bag = client.bag("square", BagOptions::default())?;
//! let mut input = 0..1_000;
//! loop {
//!     match bag.next(None)? {
//!         Next::Input => match input.next() {
//!             Some(x) => drop(bag.add(vec![f64::from(x).into()])?),
//!             None => bag.end(),
//!         },
//!         Next::Task(task) => println!("{} {:?}", task.index, task.outcome?),
//!         Next::Later => unreachable!("there is no time limit"),
//!         Next::Over => break,
//!     }
//! }
//! # Ok::<(), forebay_types::Error>(())
//! ```
//!
//! Only the thread that asks for the next result is asked for input. What it gives is copied, and goes to servers as they
//! have room for it; while that thread does something else, a thread of the client goes on ([`driver`]). What is decided
//! stands in [`machine`], as pure as the broker and the owner of a run.

mod carrying;
mod driver;
mod fates;
mod job;
mod knocks;
mod losses;
mod machine;
mod question;
mod results;
mod servers;
mod slab;
mod tail;
mod tasks;

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_types::{ArrayMeta, Code, Error, Result, Signature};

use super::args::{Arg, Value};
use super::reply::Printed;
use super::table::Offer;
use super::{Client, lock};
use driver::{Driver, Ended, Held};

pub use fates::TaskFate;
pub use machine::Counts;

/// How long a bag waits for servers when all are gone, unless the client has more patience.
const PATIENCE: Duration = Duration::from_secs(30);
/// Input that is asked for while a result waits to be handed out.
const BETWEEN: u32 = 2;

/// How a bag is worked on.
#[derive(Clone, Copy, Debug)]
pub struct BagOptions {
    /// Results come in the order of the input; otherwise as tasks end.
    pub ordered: bool,
    /// Tasks at all servers together; by default as many as keep the servers busy.
    pub window: Option<u32>,
    /// Most bytes of arguments and results that are kept; by default 256 MiB, or an eighth of the memory if that is less.
    pub bytes: Option<u64>,
    /// At the end, when nothing waits, a task whose server is slow or late is given to a second one, too; the first end of
    /// the two counts. Not of services with effects.
    pub tail: bool,
    /// A task whose service has a status, which is not 0, has failed: so it is counted. Its outcome is its results all the
    /// same, and the status is among them.
    pub status_fails: bool,
}

impl Default for BagOptions {
    fn default() -> BagOptions {
        BagOptions { ordered: true, window: None, bytes: None, tail: true, status_fails: false }
    }
}

/// A result of a task: each parameter that comes back is one.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskValue {
    /// A scalar, text or bytes.
    Value(Value),
    /// An array: what it is, and its elements.
    Array(ArrayMeta, Vec<u8>),
}

/// A task that is over.
#[derive(Debug)]
pub struct Task<V = TaskValue> {
    /// Which one, counted from 0 in the order of the input.
    pub index: u64,
    /// Its results in the order of the signature, or its error.
    pub outcome: Result<Vec<V>>,
    /// What the service printed, if it has failed and its server tells.
    pub printed: Option<Printed>,
}

/// What a bag does next.
#[derive(Debug)]
pub enum Next<V = TaskValue> {
    /// It takes input: [`Bag::add`] or [`Bag::end`], then ask again.
    Input,
    /// A task is over.
    Task(Task<V>),
    /// Nothing yet.
    Later,
    /// All input was taken and all tasks were handed out.
    Over,
}

/// What one more task finds that nobody asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Its place.
    Free,
    /// One when some of those under way are over.
    Later,
    /// Results that nobody has taken.
    Taken,
}

/// When input is asked for.
#[derive(Clone, Copy, PartialEq)]
enum Asks {
    /// As soon as it is of use, also while a task waits to be handed out.
    Early,
    /// As soon as it is of use and no task waits.
    Soon,
    /// When there is nothing else to wait for.
    Last,
}

/// Where a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// It is not over.
    Open,
    /// It is.
    Over(TaskFate),
}

/// Many calls of one service. Dropped, it is closed.
pub struct Bag {
    view: BagView,
    /// Inputs since the last result.
    between: u32,
    /// What is sent is known to tell the sizes of all results.
    sized: bool,
}

/// A look at a bag, for any thread.
#[derive(Clone)]
pub struct BagView {
    driver: Arc<Driver>,
}

impl Client {
    /// Begins many calls of a service.
    pub fn bag(&self, name: &str, options: BagOptions) -> Result<Bag> {
        self.inner.check_open()?;
        if options.window == Some(0) {
            return Err(Error::bad("a window of 0 tasks lets none go; give at least 1, or leave it out"));
        }
        let driver = Arc::new(Driver::new(self.clone(), name, options));
        Ok(Bag { view: BagView { driver }, between: 0, sized: false })
    }
}

impl Bag {
    /// The signature of the service, which is waited for as long as the client has patience.
    pub fn signature(&self) -> Result<Signature> {
        self.view.check_open()?;
        self.view.driver.offer().map(|offer| offer.signature.clone())
    }

    /// One more task, its arguments copied: one for each parameter that goes. What is wrong with them is the outcome of
    /// this task; an error means that none is taken any more, as of a service of whose results nobody knows the size
    /// before they come. Returns its index.
    pub fn add(&mut self, args: Vec<Arg>) -> Result<u64> {
        let offer = self.pull()?;
        if !self.sized {
            offer.signature.check_result_sizes()?;
            self.sized = true;
        }
        match self.view.driver.add(&offer, args, false)? {
            Ok(index) => Ok(index),
            Err(wrong) => self.view.driver.add_failed(wrong),
        }
    }

    /// One more task, for [`Bag::next_into`] and [`Bag::take_into`]: one argument for each parameter that is passed, those
    /// of arrays that only come saying what they are. What is wrong with them is an error, and nothing is added.
    pub fn add_passed(&mut self, args: Vec<Arg>) -> Result<u64> {
        let offer = self.pull()?;
        self.view.driver.add(&offer, args, true)?
    }

    /// One more task that has failed already; returns its index.
    pub fn add_failed(&mut self, why: Error) -> Result<u64> {
        self.pull()?;
        self.view.driver.add_failed(why)
    }

    fn pull(&mut self) -> Result<Arc<Offer>> {
        self.view.check_open()?;
        self.between += 1;
        self.view.driver.offer()
    }

    /// What a task that was not asked for finds: until that is not [`Space::Later`] it is waited so long.
    pub fn space(&mut self, timeout: Option<Duration>) -> Result<Space> {
        self.view.check_open()?;
        let found = lock(&self.view.driver.state).machine.space();
        if found != Space::Later {
            return Ok(found);
        }
        let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
        let visit = self.view.driver.visit(deadline)?;
        loop {
            self.view.check_open()?;
            let found = visit.space()?;
            if found != Space::Later || deadline.is_some_and(|d| Instant::now() >= d) {
                return Ok(found);
            }
            visit.wait(deadline)?;
        }
    }

    /// There is no more input.
    pub fn end(&mut self) {
        if self.view.check().is_ok() {
            lock(&self.view.driver.state).machine.end();
        }
    }

    /// What is to be done next, waited for so long.
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Next> {
        let held = self.find(timeout, false)?;
        Ok(told(held, |task| self.view.driver.outcome(task)))
    }

    /// What is to be done next, waited for so long; `places` tells of a task where its arrays go, one argument for each
    /// parameter that is passed, any for one that only goes. What is no array is handed out.
    pub fn next_into<'a>(
        &mut self,
        timeout: Option<Duration>,
        places: impl FnOnce(u64) -> Result<Vec<Arg<'a>>>,
    ) -> Result<Next<Value>> {
        let held = self.find(timeout, false)?;
        Ok(told(held, |task| self.view.driver.outcome_into(task, places)))
    }

    /// The next task that is over, as [`Bag::next_into`], for who gives input when he likes: it is not asked for, and
    /// [`Next::Input`] means that without any there is nothing to wait for.
    pub fn take_into<'a>(
        &mut self,
        timeout: Option<Duration>,
        places: impl FnOnce(u64) -> Result<Vec<Arg<'a>>>,
    ) -> Result<Next<Value>> {
        let held = self.find(timeout, true)?;
        Ok(told(held, |task| self.view.driver.outcome_into(task, places)))
    }

    fn find(&mut self, timeout: Option<Duration>, takes: bool) -> Result<Held> {
        let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
        let asks = match takes {
            true => Asks::Last,
            false if self.between < BETWEEN => Asks::Early,
            false => Asks::Soon,
        };
        self.view.check_open()?;
        let visit = self.view.driver.visit(deadline)?;
        loop {
            self.view.check_open()?;
            let held = visit.step(asks)?;
            if matches!(held, Held::Task(_)) {
                self.between = 0;
            }
            if !matches!(held, Held::Nothing) || deadline.is_some_and(|d| Instant::now() >= d) {
                return Ok(held);
            }
            visit.wait(deadline)?;
        }
    }

    /// A look at it, for any thread.
    pub fn view(&self) -> BagView {
        self.view.clone()
    }
}

/// What was found, with the outcome of a task.
fn told<V>(held: Held, outcome: impl FnOnce(Ended) -> Task<V>) -> Next<V> {
    match held {
        Held::Input => Next::Input,
        Held::Task(task) => Next::Task(outcome(task)),
        Held::Over => Next::Over,
        Held::Nothing => Next::Later,
    }
}

impl BagView {
    /// Whether this process may use it: in a child of `fork` the tasks are the parent's, and there are none to see.
    pub fn check(&self) -> Result<()> {
        self.driver.check()
    }

    /// Whether its client may still call.
    fn check_open(&self) -> Result<()> {
        self.driver.check_open()
    }

    /// Gives a task up: true if it was not over. It is handed out as `Cancelled`; what has not begun will not be run.
    pub fn cancel(&self, index: u64) -> bool {
        self.check().is_ok() && self.driver.cancel(index)
    }

    /// Where a task is; none of that number was pulled if there is none.
    pub fn state(&self, index: u64) -> Option<TaskState> {
        self.check().ok()?;
        let state = lock(&self.driver.state);
        let is_known = index < state.machine.counts().pulled;
        is_known.then(|| state.machine.fate(index).map_or(TaskState::Open, TaskState::Over))
    }

    /// How many tasks are where.
    pub fn counts(&self) -> Counts {
        if self.check().is_err() {
            return Counts::default();
        }
        lock(&self.driver.state).machine.counts()
    }

    /// Gives all tasks up that are not over: none of them begins any more, and nothing more is handed out.
    pub fn close(&self) {
        self.driver.close();
    }
}

impl Drop for Bag {
    fn drop(&mut self) {
        self.view.close();
    }
}

impl Deref for Bag {
    type Target = BagView;

    fn deref(&self) -> &BagView {
        &self.view
    }
}

/// What a bag says that was closed.
fn closed() -> Error {
    Error::new(Code::Closed, "this bag of tasks was closed; begin another one")
}
