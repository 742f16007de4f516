//! Calls that are waited for at once. The reply of a short one is there sooner than its caller could have gone to sleep, so
//! the caller looks for it himself, and nothing is made of the call but its words in the two rings.
//!
//! ```text
//! prepared, short, small, on this host, nothing else under way there?
//!     yes: words into the ring -> a glance at the ring of replies --a result--> into the caller's arguments
//!      |                                  | not yet, a failure, a reply to another call
//!      v                                  v
//!     no: a Future is sent          a Future that is under way
//! ```

use std::borrow::Cow;
use std::sync::Arc;

use forebay_types::call::get_bare_outcome;
use forebay_types::{Error, Given, Result, Signature};

use super::args::{Arg, Value};
use super::connection::{Connection, Exchanged, Told};
use super::estimate::{SHORTEST, Size};
use super::future::{Checked, Future, How};
use super::prepared::PreparedService;
use super::reference::Reference;
use super::request::Request;
use super::table::Offer;
use super::{Client, Inner, Transfer, reply, spare};

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

/// Such a call, and what was made of its results if it is over.
enum Now<'a, T> {
    Over(T),
    UnderWay(Box<Future<'a>>),
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

impl Now<'_, Vec<Value>> {
    fn wait(self) -> Result<Vec<Value>> {
        match self {
            Now::Over(values) => Ok(values),
            Now::UnderWay(mut future) => future.wait(None),
        }
    }
}

impl Client {
    /// Calls a service whose result is wanted at once and whose [`Future::timing`] nobody asks for: no clock is read.
    pub fn call_now<'a>(&self, name: &str, args: Vec<Arg<'a>>) -> Result<Called<'a>> {
        let answer = |offer: &Arc<Offer>, connection: &Arc<Connection>, values| Answer {
            offer: offer.clone(),
            connection: connection.clone(),
            values,
        };
        Ok(match self.now(name, args, answer)? {
            Now::Over(answer) => Called::Over(answer),
            Now::UnderWay(future) => Called::UnderWay(future),
        })
    }

    /// The same, and waits for its results; `make` makes the arguments from the signature of the service, and `held` are the
    /// arrays among them that servers hold.
    pub fn call_now_with<'a>(
        &self,
        name: &str,
        held: &[Arc<Reference>],
        make: impl FnOnce(&Signature) -> Result<Vec<Arg<'a>>>,
    ) -> Result<Vec<Value>> {
        self.inner.check_open()?;
        let general = |make| self.send(name, |how| Checked::made(&self.inner, name, how, held, make));
        if !held.is_empty() {
            return general(make)?.wait(None);
        }
        match self.at_once(name, make, |_, _, values| values) {
            Ok(called) => called?.wait(),
            Err(make) => general(make)?.wait(None),
        }
    }

    /// Calls a service and waits for its results.
    pub(super) fn call_and_wait(&self, name: &str, args: Vec<Arg>) -> Result<Vec<Value>> {
        self.now(name, args, |_, _, values| values)?.wait()
    }

    fn now<'a, T>(
        &self,
        name: &str,
        args: Vec<Arg<'a>>,
        over: impl FnOnce(&Arc<Offer>, &Arc<Connection>, Vec<Value>) -> T,
    ) -> Result<Now<'a, T>> {
        self.inner.check_open()?;
        let sent = match args.iter().any(|arg| matches!(arg, Arg::Ref(..))) {
            true => self.send(name, |how| Checked::with(&self.inner, name, how, args)),
            false => match self.at_once(name, |_: &Signature| Ok(args), over) {
                Ok(called) => return called,
                Err(make) => self.send(name, |how| Checked::made(&self.inner, name, how, &[], make)),
            },
        };
        sent.map(Now::UnderWay)
    }

    fn untimed(&self) -> How {
        self.how(None, false, Transfer::Nowait)
    }

    /// Sends a call the general way.
    fn send<'a>(
        &self,
        name: &str,
        check: impl FnOnce(&How) -> Result<Checked<'a>>,
    ) -> Result<Box<Future<'a>>> {
        let (inner, how) = (&self.inner, self.untimed());
        let checked = check(&how);
        if checked.is_ok() {
            inner.table.prepare(name, self.tied.as_ref());
        }
        let sent = checked.and_then(|call| Future::begin(inner.clone(), call, how, None));
        sent.map(Box::new).inspect_err(|e| inner.failures.note(name, e, None))
    }

    /// Sends a call to a service that is prepared, with arguments that refer to nothing; gives `make` back if it is not.
    fn at_once<'a, T, M>(
        &self,
        name: &str,
        make: M,
        over: impl FnOnce(&Arc<Offer>, &Arc<Connection>, Vec<Value>) -> T,
    ) -> Result<Result<Now<'a, T>>, M>
    where
        M: FnOnce(&Signature) -> Result<Vec<Arg<'a>>>,
    {
        let inner = &self.inner;
        if inner.rule.get().is_some() || !inner.queue.is_empty() {
            return Err(make);
        }
        let Some(mut seat) = inner.table.prepared.seat() else { return Err(make) };
        let id = seat.id(&inner.next);
        let Some(service) = seat.find(&inner.table, name, self.tied.as_ref()) else { return Err(make) };
        let signature = &service.offer.signature;
        let made = make(signature).and_then(|mut args| Ok((Checked::given(signature, &mut args)?, args)));
        let (given, mut args) = match made {
            Ok(made) => made,
            Err(e) => {
                drop(seat);
                inner.failures.note(name, &e, None);
                return Ok(Err(e));
            }
        };
        let size = Size::of(signature, &given);
        let sent = match way(service, size) {
            Some(connection) => match exchange(inner, service, connection, (id, size), &given, &mut args) {
                Exchanged::Answered(values) => {
                    return Ok(Ok(Now::Over(over(&service.offer, connection, values))));
                }
                Exchanged::UnderWay(pending) => Some((connection.clone(), pending)),
                Exchanged::Not => None,
            },
            None => None,
        };
        let call = Checked { id, offer: service.offer.clone(), args, given, bound: None };
        drop(seat);
        let (inner, how) = (inner.clone(), self.untimed());
        let future = match sent {
            Some(there) => {
                // Replies to others may have come, too.
                inner.pump.brought();
                Ok(Future::under_way(inner, call, how, there))
            }
            None => Future::begin(inner, call, how, None),
        };
        let future = future.inspect_err(|e| self.inner.failures.note(name, e, None));
        Ok(future.map(|future| Now::UnderWay(Box::new(future))))
    }
}

/// Where one of that size can go without any ado.
#[inline]
fn way(service: &PreparedService, size: Size) -> Option<&Arc<Connection>> {
    let offer = &service.offer;
    let is_short = size.cost().is_none() && offer.estimates.is_below(size, SHORTEST);
    is_short.then(|| offer.known_here(offer.least_busy(&[])?)).flatten()
}

fn exchange(
    inner: &Arc<Inner>,
    PreparedService { offer, words, gives_nothing, .. }: &PreparedService,
    connection: &Connection,
    (id, size): (u64, Size),
    given: &[Given],
    args: &mut [Arg],
) -> Exchanged<Vec<Value>> {
    let signature = &offer.signature;
    let words = match words {
        Some(words) => Cow::Borrowed(&words[..]),
        None => {
            let told = Told::default();
            let request = Request {
                inner,
                id,
                issue: 0,
                allowed: None,
                timed: false,
                signature,
                args,
                kept: &[],
                given,
                files: None,
                told,
            };
            let Some(words) = request.words(connection) else { return Exchanged::Not };
            Cow::Owned(words)
        }
    };
    let read = |body: &[u8]| match gives_nothing {
        true => get_bare_outcome(body).map(|outcome| (Vec::new(), reply::Head::of(&outcome))),
        false => reply::take_short(signature, body, args),
    };
    let exchanged = connection.exchange(id, &words, (&offer.estimates, size), read);
    if let Cow::Owned(words) = words {
        spare::keep_buffer(words);
    }
    match exchanged {
        Exchanged::Answered((values, head)) => {
            // The server has looked at its clock, for this call or for those before it.
            if head.ran_ns > 0 {
                let others = (head.there, connection.calls() + 1);
                offer.estimates.learn(connection.info.incarnation, size, head.ran_ns, others);
            }
            Exchanged::Answered(values)
        }
        Exchanged::UnderWay(pending) => Exchanged::UnderWay(pending),
        Exchanged::Not => Exchanged::Not,
    }
}
