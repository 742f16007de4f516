//! Requests that stand in a ring behind what stops the reading of it: a large data set that is being stored, steps
//! that another request waits for. On a disk without room that may last for ever, and whoever asks is told all the same.
//!
//! ```text
//!   ring: ... | put of 1 GiB | small records | stats | attributes | close |
//!               stops here                     |       |            |
//!                           answered at once <-+       +------------+-> refused when the disk has had no room for so long
//! ```
//!
//! Nothing is read out of its order. Records stay where they are; of a request the number is remembered, until it is
//! read: what was answered is not done then. Of refusals the rank's segment has the number, so that a successor does
//! not do it either.

use super::Machine;
use super::event::Action;
use super::records::When;
use super::session::Session;
use crate::fault::Fault;
use forebay_types::control::Ask;
use forebay_types::{Code, Error};

impl Session {
    /// Whether a request is not to be done. (That to close stands for a rank that is gone: all is written that it
    /// left, and it wanted no more.)
    pub fn was_refused(&self, seq: u64, leaves: bool) -> bool {
        seq <= self.refused_ask && !(self.recovered && leaves)
    }
}

impl Machine {
    pub(super) fn look_at_ask(&mut self, n: u64, position: u64, seq: u64, ask: Ask) {
        let Some(s) = self.sessions.get_mut(&n).filter(|s| seq > s.looked.max(s.seen)) else { return };
        s.looked = seq;
        if seq <= s.refused_ask.max(s.applied) {
            return;
        }
        match When::of_ask(ask) {
            When::AtOnce(ask) => {
                let replaying = s.adopted.as_ref().is_some_and(|a| position <= a.replay_end);
                self.do_at_once(n, seq, ask, replaying);
            }
            when => s.ahead.push((seq, when.leaves())),
        }
    }

    /// A request that has nothing to do with the catalog.
    pub(super) fn do_at_once(&mut self, n: u64, seq: u64, ask: Ask, replaying: bool) {
        match ask {
            // A predecessor has dropped one; the rank asks again if that was not enough.
            Ask::DropOldest if replaying => self.answer(n, seq, Ok(serde_json::Value::Null)),
            ask => self.later(n, seq, ask),
        }
    }

    /// A request is not done, for want of room on the disk, and the rank hears why.
    pub(super) fn refuse_ask(&mut self, session: u64, seq: u64, why: Error) {
        if let Some(s) = self.sessions.get_mut(&session) {
            s.refused_ask = s.refused_ask.max(seq);
        }
        // In this order: who has heard it may go on, and means the request no more.
        self.act(Action::Refuse { session, seq });
        self.answer(session, seq, Err(why));
    }

    /// Those that stand behind what waits for the disk; a request to close is told the same as everywhere.
    pub(super) fn refuse_ahead(&mut self, closing: &Error, why: &Error) {
        let asks: Vec<(u64, Vec<(u64, bool)>)> = self
            .sessions
            .iter_mut()
            .filter(|(_, s)| !s.ahead.is_empty() && s.hears())
            .map(|(n, s)| (*n, std::mem::take(&mut s.ahead)))
            .collect();
        let (dir, text) = (&self.dir, why.text());
        let other = match Fault::of(why) == Fault::NoRoom {
            true => format!(
                "it stands behind what the disk of {dir} has no room for; make room and ask again. {text}"
            ),
            false => format!(
                "it stands behind what the disk of {dir} does not take; mend that and ask again. {text}"
            ),
        };
        let other = Error::new(Code::Full, other);
        for (session, asks) in asks {
            for (seq, leaves) in asks {
                let why = if leaves { closing } else { &other };
                self.refuse_ask(session, seq, why.clone());
            }
        }
    }

    /// The rank of an adopted session has come. What a predecessor may have refused is not done: if the rank has not
    /// heard so, it does now.
    pub(super) fn resumed(&mut self, session: u64, asks: &[u64]) {
        let Some(s) = self.sessions.get_mut(&session) else { return };
        if let Some(adopted) = s.adopted.as_mut() {
            adopted.waiting = None;
        }
        let last = s.refused_before;
        for seq in asks.iter().copied().filter(|seq| *seq <= last) {
            let text =
                "it was refused when the disk had no room, and the store died before it said so; ask again";
            self.answer(session, seq, Err(Error::new(Code::Full, text)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Event;
    use super::super::event::FileState;
    use super::super::item::Item;
    use super::super::scene::*;
    use super::*;
    use forebay_types::control::Target;
    use std::time::Duration;

    const CLOSE: Ask = Ask::Close { finished: true };

    fn attrs() -> Ask {
        Ask::SetAttrs { target: Target::Run, attrs: serde_json::Map::new() }
    }

    /// A large data set of rank 0 waits for room on the disk.
    fn with_a_put_that_waits() -> Scene {
        let mut scene = Scene::of(1);
        scene.large_put(1);
        scene.turn();
        the_disk_is_full(&mut scene);
        scene
    }

    fn the_disk_is_full(scene: &mut Scene) {
        let works = scene.works();
        assert!(!works.is_empty());
        works.iter().for_each(|work| scene.fails(work, Code::Full, FileState::Sound));
    }

    fn requests(scene: &Scene) -> usize {
        scene.catalog.iter().filter(|item| item.ask().is_some()).count()
    }

    #[test]
    fn who_asks_behind_a_put_that_waits_for_the_disk_is_told_in_time_and_that_is_not_done_when_it_is_read() {
        for ask in [CLOSE, Ask::Flush, Ask::WaitStep { step: 1 }, attrs(), Ask::Checkpoint { tag: None }] {
            let mut scene = with_a_put_that_waits();
            let asked = scene.ask_ahead(1, &ask);
            scene.turn_after(CLOSING - PAUSE);
            assert!(scene.answer(1, asked.0).is_none(), "{ask:?} is told too early");
            the_disk_is_full(&mut scene);
            scene.turn_after(PAUSE);
            let text = scene.refusal(1, asked.0);
            assert!(text.contains("make room") && text.contains("the data set \"l\""), "{ask:?}: {text}");
            assert_eq!(text.contains("cannot be closed"), matches!(ask, Ask::Close { .. }), "{text}");
            // There is room again.
            scene.turn_after(PAUSE);
            scene.settle();
            assert!(scene.catalog.iter().any(|item| matches!(item, Item::Stored { .. })), "the put is kept");
            scene.read_ask(1, asked, &ask);
            scene.settle();
            assert_eq!((scene.answer(1, asked.0).is_some(), requests(&scene)), (false, 0), "{ask:?}");
            let again = scene.ask(1, &ask);
            scene.settle();
            assert!(scene.answer(1, again).is_some() && requests(&scene) == 1, "{ask:?}");
        }
    }

    #[test]
    fn a_request_behind_a_put_that_is_stored_in_time_is_done_once_in_its_order() {
        let mut scene = with_a_put_that_waits();
        let asked = scene.ask_ahead(1, &attrs());
        scene.turn_after(PAUSE);
        scene.settle();
        scene.read_ask(1, asked, &attrs());
        scene.settle();
        assert!(matches!(scene.answer(1, asked.0), Some(Ok(_))));
        scene.turn_after(CLOSING);
        assert!(scene.answer(1, asked.0).is_none());
    }

    #[test]
    fn what_has_nothing_to_do_with_the_disk_is_answered_at_once_and_once() {
        let mut scene = with_a_put_that_waits();
        let asked = scene.ask_ahead(1, &Ask::DropOldest);
        assert!(scene.answer(1, asked.0).is_some());
        scene.turn_after(PAUSE);
        scene.settle();
        scene.read_ask(1, asked, &Ask::DropOldest);
        assert!(scene.answer(1, asked.0).is_none());
    }

    #[test]
    fn a_closing_behind_a_request_that_waits_for_steps_before_it_is_told_in_time() {
        let mut scene = Scene::of(1);
        scene.whole(1, 1);
        // Somebody has given up to wait for it.
        scene.ask(1, &Ask::Checkpoint { tag: None });
        scene.turn();
        scene.commit();
        scene.describe();
        the_disk_is_full(&mut scene);
        let asked = scene.ask_ahead(1, &CLOSE);
        scene.turn_after(CLOSING);
        assert!(scene.refusal(1, asked.0).contains("cannot be closed"));
    }

    #[test]
    fn a_successor_does_nothing_that_was_refused_and_tells_it_who_has_not_heard_it() {
        let mut scene = Scene::born(birth());
        scene.enter(Session { refused_ask: 2, ..adopted(1, 0, 1, 1000) });
        let asked = [scene.ask(1, &attrs()), scene.ask(1, &CLOSE), scene.ask(1, &attrs())];
        scene.settle();
        assert_eq!(requests(&scene), 1, "what was asked later is done");
        assert!(asked[..2].iter().all(|seq| scene.answer(1, *seq).is_none()));
        scene.feed(Event::Resumed { session: 1, asks: vec![asked[1], asked[2]] });
        assert!(scene.refusal(1, asked[1]).contains("ask again"));
        assert!(scene.answer(1, asked[0]).is_none(), "it has heard that");
        scene.turn_after(Duration::from_secs(1));
        assert!(scene.closed().is_empty(), "its rank goes on");
    }

    #[test]
    fn a_refused_closing_of_a_rank_that_is_gone_closes_what_it_left() {
        let mut scene = Scene::born(birth());
        scene.enter(Session { refused_ask: 2, ..recovered(1, 0, 1) });
        scene.ask(1, &attrs());
        scene.ask(1, &CLOSE);
        scene.settle();
        assert_eq!((requests(&scene), scene.closed()), (1, vec![1]));
    }
}
