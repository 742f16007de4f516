//! A call whose server is lost: whether it is issued again, and how.

use std::sync::Arc;
use std::time::Instant;

use forebay_types::directory::{Incarnation, ServerInfo};
use forebay_types::{Code, Error, Result, Signature};

use super::super::LIVES;
use super::super::queue::End;
use super::super::transfer::Transfer;
use super::{CUTS, Future, State};

/// What came of sending a call before.
#[derive(Default)]
pub(super) struct Tries {
    /// Servers that were lost with it or did not take it: none of them gets it.
    pub without: Vec<Incarnation>,
    /// Those to which the connection was cut, and which get it once more.
    pub cut: Vec<Incarnation>,
    /// Servers that died when it had begun there, as far as is known.
    pub died: Vec<Incarnation>,
    /// Since when it waits for a server that was not tried yet.
    pub waits: Option<Instant>,
    /// How the last server was lost, of a call that waits for room at another one.
    pub lost: Option<(Error, Arc<ServerInfo>)>,
}

impl Future<'_> {
    /// Servers that do not get it.
    pub(super) fn tried(&self) -> &[Incarnation] {
        self.tries.as_ref().map_or(&[], |tries| &tries.without)
    }

    /// What came of sending it before, to be added to.
    #[cold]
    pub(super) fn tries(&mut self) -> &mut Tries {
        self.tries.get_or_insert_default()
    }

    /// A server is lost: it does not get the call again, unless only the connection to it was cut, and not too often.
    pub(super) fn failed(&mut self, info: &Arc<ServerInfo>) {
        let may_be_well = self.inner.failed(info) && self.bound.is_none();
        let tries = self.tries();
        let cuts = tries.cut.iter().filter(|cut| **cut == info.incarnation).count();
        match may_be_well && cuts < CUTS {
            true => tries.cut.push(info.incarnation),
            false => tries.without.push(info.incarnation),
        }
    }

    pub(super) fn nobody(&self, cause: Option<Error>) -> Error {
        let name = self.offer.signature.name();
        let server = if self.tied.is_some() { "server that this client may call" } else { "server" };
        match cause {
            // They are there, and have no room.
            Some(e) if e.code() == Code::Full => e.within(name),
            Some(e) if self.bound.is_some() => Error::new(
                Code::ServerLost,
                format!("{name}: {e}; the arrays it held are lost with it: make them anew on another server"),
            ),
            Some(e) => match self.inner.table.why_withdrawn(name.as_str()) {
                Some(how) => Error::new(
                    Code::ServerLost,
                    format!("{name}: {e}; it is offered no more, for its server has died of it: {how}"),
                ),
                None => Error::new(
                    Code::ServerLost,
                    format!("{name}: {e}; no other {server} offers it: start one and call again"),
                ),
            },
            None => Error::new(Code::NoServer, format!("no {server} offers {name} any more; start one")),
        }
    }

    /// The server is lost: another one gets the call, or the caller hears how that server died.
    pub(super) fn reissue(&mut self, cause: Error, info: Arc<ServerInfo>) -> Result<()> {
        let done = self.prepare_again(&cause, &info).and_then(|()| self.issue_somewhere(Some(cause)));
        self.with_obituary(done, &info)
    }

    pub(super) fn with_obituary(&self, done: Result<()>, info: &ServerInfo) -> Result<()> {
        match done {
            Err(e) if matches!(e.code(), Code::ServerLost | Code::Poisoned) => {
                Err(self.inner.with_obituary(e, info))
            }
            done => done,
        }
    }

    /// Another server is to get the call, unless running it twice would matter or it ends its servers.
    fn prepare_again(&mut self, cause: &Error, info: &Arc<ServerInfo>) -> Result<()> {
        let had_begun = match &self.state {
            State::Sent { connection, .. } => connection.had_begun(self.id),
            _ => false,
        };
        self.failed(info);
        if self.bound.is_some() {
            return Err(self.nobody(Some(cause.clone())));
        }
        // One whose connection alone was cut is there again soon, and none of them then.
        let died = &mut self.tries().died;
        if had_begun && !died.contains(&info.incarnation) {
            died.push(info.incarnation);
        }
        let deaths = died.len();
        let signature = &self.offer.signature;
        if signature.effects() {
            return Err(Error::new(
                Code::ServerLost,
                format!(
                    "{}: {cause}; the service has effects, so the call was not issued again: find out whether it was done",
                    signature.name()
                ),
            ));
        }
        if deaths >= LIVES.into() {
            return Err(poisoned(signature, cause));
        }
        self.is_still_there(cause)?;
        self.issue += 1;
        self.carried = None;
        // The server whose connection was cut may get it again, and has its number behind it.
        self.id = self.inner.next_id();
        self.timing.reissued = self.issue;
        self.renew_offer();
        Ok(())
    }

    /// Goes on with a call that nobody waits for when its server is lost: another one gets it as soon as it has room.
    /// What has come back is left to whoever waits. Says whether that is still to be done.
    pub fn tend(&mut self) -> bool {
        self.disown();
        if let State::Queued(queued) = &self.state {
            match queued.end() {
                Some(End::Went(_)) => drop(self.leave_queue()),
                Some(End::NoServer) => {
                    self.renew_offer();
                    if !self.offer.servers.is_empty() {
                        self.waits_in_queue();
                    }
                    return true;
                }
                // One that has lost its server once may find none at the end of its waiting.
                None => return self.issue > 0,
                Some(End::Failed(_)) => return false,
            }
        }
        let State::Sent { connection, pending } = &self.state else { return false };
        let Some(cause) = connection.lost().filter(|_| !pending.is_done()).cloned() else { return false };
        // Who is tied to servers, and what only one can do, is seen to by whoever waits.
        if self.bound.is_some() || self.tied.is_some() || !self.files.is_empty() {
            return false;
        }
        let info = connection.info.clone();
        let prepared = self.prepare_again(&cause, &info);
        if let Err(e) = self.with_obituary(prepared, &info) {
            self.fail(e);
            return false;
        }
        self.tries().lost = Some((cause, info));
        self.waits_in_queue();
        true
    }

    /// Has it wait for room at a server, if it can.
    fn waits_in_queue(&mut self) {
        // Without room for copies of its arguments it is left to whoever waits.
        let _ = self.wait_in_queue();
    }

    /// Whether its arguments can be sent once more.
    pub(super) fn is_still_there(&self, cause: &Error) -> Result<()> {
        match self.transfer {
            Transfer::Wait if cause.code() == Code::Full => Err(cause.clone()),
            Transfer::Wait => Err(Error::new(
                Code::ServerLost,
                format!(
                    "{}: {cause}; its arguments were handed over with \"wait\" and are not kept, so the call was not issued again: call again",
                    self.offer.signature.name()
                ),
            )),
            Transfer::Nowait | Transfer::Copy => Ok(()),
        }
    }
}

/// Why a call is given up under which one server after the other died.
fn poisoned(signature: &Signature, cause: &Error) -> Error {
    let text = format!(
        "{}: {LIVES} servers died while they ran this call, so it is given up: {cause}; look at its arguments, and at what \
         those servers said",
        signature.name()
    );
    Error::new(Code::Poisoned, text)
}
