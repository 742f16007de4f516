//! Calls that are waited for at once. The reply of a short one is there sooner than its caller could have gone to sleep, so
//! the caller looks for it himself, and nothing is made of the call but its words in the two rings.
//!
//! ```text
//! short, small, on this host, nothing else under way there?
//!     yes: words into the ring -> a glance at the ring of replies --a result--> into the caller's arguments
//!      |                                  | not yet, a failure, a reply to another call
//!      v                                  v
//!     no: a Future is sent          a Future that is under way
//! ```

use std::sync::Arc;

use forebay_types::{Error, Result, Signature};

use super::args::{Arg, Value};
use super::connection::{Connection, Exchanged, Told};
use super::estimate::Size;
use super::future::{Checked, Future, How};
use super::reference::Reference;
use super::request::Request;
use super::table::Offer;
use super::{Client, Inner, Transfer, reply, spare};

/// A service whose calls take longer, in nanoseconds, is not looked for. A call with a few small arrays that goes the other
/// way takes some 3 us.
const SHORT: u64 = 5_000;

/// A call whose result is wanted at once.
pub enum Called<'a> {
    /// It is over.
    Over(Answer),
    /// It goes on. Few do, and a future is large.
    UnderWay(Box<Future<'a>>),
}

/// The results of a call that is over.
pub struct Answer {
    offer: Arc<Offer>,
    connection: Arc<Connection>,
    /// What is returned, in the order of the signature.
    pub values: Vec<Value>,
}

impl Answer {
    /// What was called.
    pub fn signature(&self) -> &Signature {
        &self.offer.signature
    }

    /// Keeps it among the calls of its client that have failed, for that reason.
    pub fn note(&self, client: &Client, why: &Error) {
        let name = self.offer.signature.name().as_str();
        client.inner.failures.note(name, why, Some(&self.connection.info));
    }
}

impl Called<'_> {
    /// Waits for its end; takes the returned results.
    pub fn wait(self) -> Result<Vec<Value>> {
        match self {
            Called::Over(answer) => Ok(answer.values),
            Called::UnderWay(mut future) => future.wait(None),
        }
    }
}

impl Client {
    /// Calls a service whose result is wanted at once and whose [`Future::timing`] nobody asks for: no clock is read.
    pub fn call_now<'a>(&self, name: &str, args: Vec<Arg<'a>>) -> Result<Called<'a>> {
        self.call_checked(name, |how| Checked::with(&self.inner, name, how, args))
    }

    /// The same; `make` makes the arguments from the signature of the service, and `held` are the arrays among them that
    /// servers hold.
    pub fn call_now_with<'a>(
        &self,
        name: &str,
        held: &[Arc<Reference>],
        make: impl FnOnce(&Signature) -> Result<Vec<Arg<'a>>>,
    ) -> Result<Called<'a>> {
        self.call_checked(name, |how| Checked::made(&self.inner, name, how, held, make))
    }

    fn call_checked<'a>(
        &self,
        name: &str,
        check: impl FnOnce(&How) -> Result<Checked<'a>>,
    ) -> Result<Called<'a>> {
        self.inner.check_open()?;
        let (inner, how) = (&self.inner, self.how(None, false, Transfer::Nowait));
        let called = check(&how).and_then(|call| send(inner, call, how));
        called.inspect_err(|e| inner.failures.note(name, e, None))
    }
}

fn send<'a>(inner: &Arc<Inner>, mut call: Checked<'a>, how: How) -> Result<Called<'a>> {
    if let Some(connection) = way(inner, &call) {
        match exchange(inner, &connection, &mut call) {
            Exchanged::Answered(values) => {
                return Ok(Called::Over(Answer { offer: call.offer, connection, values }));
            }
            Exchanged::UnderWay(pending) => {
                // Replies to others may have come, too.
                inner.pump.brought();
                let future = Future::under_way(inner.clone(), call, how, (connection, pending));
                return Ok(Called::UnderWay(Box::new(future)));
            }
            Exchanged::Not => {}
        }
    }
    Future::begin(inner.clone(), call, how, None).map(|future| Called::UnderWay(Box::new(future)))
}

/// Where it can go without any ado.
fn way(inner: &Inner, call: &Checked) -> Option<Arc<Connection>> {
    let Checked { id, offer, given, bound, .. } = call;
    let signature = &offer.signature;
    if bound.is_some() || signature.cost().is_some() || signature.has_files() || inner.rule.get().is_some() {
        return None;
    }
    let size = Size::of(signature, given);
    let is_short = offer.estimates.is_below(size, SHORT) && !offer.estimates.wants(*id, size);
    if !is_short || !inner.queue.is_empty() {
        return None;
    }
    offer.known(offer.least_busy(&[])?)
}

fn exchange(inner: &Arc<Inner>, connection: &Connection, call: &mut Checked) -> Exchanged<Vec<Value>> {
    let Checked { id, offer, args, given, .. } = call;
    let request = Request {
        inner,
        id: *id,
        issue: 0,
        allowed: None,
        timed: false,
        signature: &offer.signature,
        args,
        kept: &[],
        given,
        files: None,
        told: Told::default(),
    };
    let Some(words) = request.words(connection) else { return Exchanged::Not };
    let exchanged = connection.exchange(*id, &words, |body| reply::take_short(&offer.signature, body, args));
    spare::keep_buffer(words);
    exchanged
}
