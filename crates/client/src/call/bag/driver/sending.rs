//! Where tasks go, and how they are sent.

use std::sync::MutexGuard;

use forebay_types::Code;

use super::{Driver, State};
use crate::call::bag::job::Flight;
use crate::call::bag::servers::ServerKey;
use crate::call::connection::Told;
use crate::call::pace::Ns;
use crate::call::placement::{Named, Placement};
use crate::call::request::Request;
use crate::call::{Sent, lock};

impl Driver {
    /// Drives, and asks a rule that may wait where tasks go, while nothing is locked.
    pub(super) fn drive_and_ask<'s>(&'s self, mut state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        self.drive(&mut state);
        while let Some(rule) = self.inner.waiting_rule().filter(|_| !state.is_closed && !self.is_within_rule)
            && !state.is_asked
            && let Some(question) = state.machine.question(self.now())
        {
            state.is_asked = true;
            drop(state);
            let named = question.put(rule, &self.name);
            state = lock(&self.state);
            state.is_asked = false;
            if state.is_closed {
                break;
            }
            let now = self.now();
            let placed = match named {
                Some(key) => state.machine.place_at(question.index, key, now),
                None => state.machine.place(Some(&Named::Least), now),
            };
            let Some((index, key)) = placed else { break };
            self.send_to(&mut state, index, key, now);
            // Replies that have come meanwhile, and what goes without a rule.
            self.drive(&mut state);
        }
        state
    }

    pub(super) fn send(&self, state: &mut State) {
        if !state.machine.is_waiting() && !state.machine.may_double() {
            return;
        }
        let now = self.now();
        loop {
            let rule =
                if self.is_within_rule { Some(&Named::Least as &dyn Placement) } else { self.inner.rule() };
            // Where a function decides, no second server gets a task that it has given to one.
            let doubles = rule.is_some();
            let placed = state.machine.place(rule, now);
            let placed = placed.or_else(|| if doubles { state.machine.double(now) } else { None });
            let Some((index, key)) = placed else { return };
            self.send_to(state, index, key, now);
        }
    }

    /// Sends a task to the server at which it was placed, if that takes it.
    fn send_to(&self, state: &mut State, index: u64, key: ServerKey, now: Ns) {
        let seat = state.seats.iter().find(|c| c.info.incarnation.0 == key).cloned();
        let Some(offer) = state.offer.clone() else { return };
        let timed = state.machine.is_timed(index);
        let expected = state.machine.expected_at(index, key);
        let (Some(connection), Some(job)) = (seat, state.jobs.get_mut(index)) else {
            return state.machine.refused(index, key, now);
        };
        let id = self.inner.next_id();
        let carried = self.carry(&connection, job);
        let files = carried.as_ref().map_or(None, Option::as_ref);
        let request = Request {
            inner: &self.inner,
            id,
            issue: 0,
            allowed: None,
            timed,
            signature: &offer.signature,
            args: &job.args,
            kept: &job.kept,
            given: &job.given,
            files,
            told: Told { basket: Some((&self.basket, index)), learns: None, expected },
        };
        let went = match &carried {
            Ok(_) => request.try_send(&connection),
            Err(why) => Err(why.clone()),
        };
        match went {
            Ok(Some((pending, sent))) => {
                let files = carried.ok().flatten().map(Box::new);
                job.flies(Flight { id, connection, pending, sent, files });
            }
            Ok(None) => {
                if let Ok(Some(ready)) = carried {
                    job.rare().ready = Some(ready);
                }
                state.machine.refused(index, key, now);
            }
            Err(Sent::Lost(_)) => {
                state.machine.refused(index, key, now);
                self.take_losses(state);
            }
            Err(Sent::Unreached(_)) => state.machine.refused(index, key, now),
            Err(Sent::NoRoom(why)) => {
                state.machine.came(index, key, None, now);
                // Those of tasks behind it may have the room, and would wait for this one.
                for rare in state.jobs.iter_mut().filter_map(|(_, job)| job.has_rare()) {
                    rare.ready.take_if(|ready| ready.is_at(&connection));
                }
                self.find_room_later(state, index, &connection, why);
            }
            // What tasks before it have there makes room when they are over.
            Err(Sent::Not(e)) if e.code() == Code::Full && connection.is_busy() => {
                state.machine.refused(index, key, now);
            }
            Err(Sent::Not(e)) => {
                state.machine.came(index, key, None, now);
                if !state.machine.is_under_way(index) {
                    state.fail(index, e.within(&self.name));
                }
            }
        }
    }
}
