//! The seats of a run.

use super::{Opener, Terms};
use forebay_types::control::{NO_RANK, OpenRun};
use forebay_types::{Code, Error, Result, limits};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

/// How long the store stays open for ranks that have not come.
const LATE_RANKS: Duration = Duration::from_secs(10);

/// A rank's seat.
struct Seat {
    rank: u32,
    who: Opener,
    /// The store has applied all that it left.
    gone: bool,
    /// It said good-bye.
    clean: bool,
    /// Its rank was there when an earlier owner died and has not come yet.
    awaited: bool,
}

/// Who is no rank.
struct Beside {
    who: Opener,
    /// It was there when an earlier owner ended and has not come yet.
    awaited: bool,
}

/// A rank, or a client, of an owner that died, which goes on here.
pub struct Orphaned {
    /// Its session.
    pub session: u64,
    /// Its number.
    pub rank: u32,
    /// Its program.
    pub who: Opener,
}

/// Who has left a seat.
#[derive(Debug)]
pub struct Left {
    /// Its program.
    pub who: Opener,
    /// It said good-bye.
    pub clean: bool,
}

/// The seats while the store is open. Times count from any beginning that stays the same.
pub struct Seats {
    terms: Terms,
    came: BTreeSet<u32>,
    seats: BTreeMap<u64, Seat>,
    /// Who is no rank, beside them: nobody waits for one, and the terms are none of theirs.
    clients: BTreeMap<u64, Beside>,
    empty_since: Option<Duration>,
}

impl Seats {
    /// The store was opened on these terms; `orphans` are ranks that an earlier owner left.
    pub fn new(terms: Terms, orphans: Vec<Orphaned>, now: Duration) -> Seats {
        // Ranks that are not among the orphans came, too, or will; when all have left, the run is over.
        let (clients, orphans): (Vec<_>, Vec<_>) = orphans.into_iter().partition(|o| o.rank == NO_RANK);
        let came = if orphans.is_empty() { BTreeSet::new() } else { (0..terms.size).collect() };
        let empty_since = orphans.is_empty().then_some(now);
        let client = |o: Orphaned| (o.session, Beside { who: o.who, awaited: true });
        let clients = clients.into_iter().map(client).collect();
        let seat = |o: Orphaned| {
            (o.session, Seat { rank: o.rank, who: o.who, gone: false, clean: false, awaited: true })
        };
        Seats { terms, came, seats: orphans.into_iter().map(seat).collect(), clients, empty_since }
    }

    /// The number of ranks.
    pub fn size(&self) -> u32 {
        self.terms.size
    }

    /// Whether no rank sits here.
    pub fn is_empty(&self) -> bool {
        self.seats.is_empty()
    }

    /// How many clients are here.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// The rank of a session.
    pub fn rank_of(&self, session: u64) -> Option<u32> {
        self.seats.get(&session).map(|s| s.rank)
    }

    /// The program of each rank, as a process of this host.
    pub fn processes(&self) -> BTreeMap<u32, u32> {
        self.seats.values().map(|s| (s.rank, s.who.here)).collect()
    }

    /// Whether a seat is about to become free, or somebody who died has left something: that is applied
    /// before anybody begins behind it. `dead` tells of a process whether it has ended.
    pub fn is_taken(&self, open: &OpenRun, who: &Opener, dead: impl Fn(u32) -> bool) -> bool {
        let same = |s: &Seat| s.who.here == who.here && self.bars(s, open);
        self.seats.values().any(|s| is_dead(s, &dead) || !s.who.brings() && !who.brings() && same(s))
    }

    /// Whether nobody but a dead process is in the way: what it has left is still being applied.
    pub fn is_held_by_dead(&self, open: &OpenRun, dead: impl Fn(u32) -> bool) -> bool {
        self.seats.values().any(|s| !s.awaited && self.bars(s, open) && is_dead(s, &dead))
    }

    /// Whether a seat is in the way of who asks for one.
    fn bars(&self, seat: &Seat, open: &OpenRun) -> bool {
        seat.rank == open.rank || self.terms.size != open.size
    }

    /// Whether somebody brings the rest of a dead session that is to be in before this one begins: all rests
    /// where nobody else is there, and that of its own rank.
    pub fn is_brought_to(&self, open: &OpenRun, who: &Opener) -> bool {
        let first = self.is_for_rests_alone();
        !who.brings() && self.seats.values().any(|s| s.who.brings() && (first || s.rank == open.rank))
    }

    /// Whether nobody has come but with the rest of a dead session.
    fn is_for_rests_alone(&self) -> bool {
        self.terms.are_nobodys() && self.seats.values().all(|s| s.who.brings())
    }

    /// Whether the store is open only for ranks that will not come, or was opened for rests alone: this one
    /// begins anew.
    pub fn is_over_for(&mut self, open: &OpenRun, who: &Opener, dead: impl Fn(u32) -> bool) -> bool {
        // Nobody closes the connection of a rank that died before it came to this owner.
        self.seats.retain(|_, s| !(s.awaited && is_dead(s, &dead)));
        let is_anew = self.terms.are_nobodys() && !who.brings();
        let over = is_anew || self.terms.size != open.size || self.came.contains(&open.rank);
        let stays = open.is_client() || !self.clients.is_empty();
        self.seats.is_empty() && over && !stays
    }

    /// Whether this rank, or client, may join those that are there.
    pub fn may_join(&self, run: &Path, open: &OpenRun, who: &Opener) -> Result<()> {
        if open.is_client() {
            return match self.clients.len() < limits::CLIENTS {
                true => Ok(()),
                false => Err(Error::new(
                    Code::Full,
                    format!(
                        "{}: {} clients have the run open, which are the most; close some of them",
                        run.display(),
                        limits::CLIENTS
                    ),
                )),
            };
        }
        if self.is_for_another_program(open, who) {
            return Ok(());
        }
        self.terms.admit(run, open, who, self.seats.values().map(|s| (s.rank, &s.who)))
    }

    /// A rank takes its seat, or who brings the rest of a dead session of it. The first rank says on which terms
    /// the others come.
    pub fn take(&mut self, session: u64, open: &OpenRun, who: Opener) {
        if open.is_client() {
            self.clients.insert(session, Beside { who, awaited: false });
            return;
        }
        if self.is_for_another_program(open, &who) {
            (self.terms, self.came) = (Terms::of(open, &who), BTreeSet::new());
        }
        if self.terms.are_nobodys() && !who.brings() {
            if self.is_for_rests_alone() {
                self.came.clear();
            }
            self.terms = Terms::of(open, &who);
        }
        if self.terms.are_nobodys() || !who.brings() {
            self.came.insert(open.rank);
        }
        self.empty_since = None;
        let seat = Seat { rank: open.rank, who, gone: false, clean: false, awaited: false };
        self.seats.insert(session, seat);
    }

    /// Whether no rank is here, and this one is none that comes late: its program begins on its own terms, while
    /// clients stay.
    pub fn is_for_another_program(&self, open: &OpenRun, who: &Opener) -> bool {
        let is_anew =
            self.terms.is_clients() || self.terms.size != open.size || self.came.contains(&open.rank);
        self.seats.is_empty() && !who.brings() && !open.is_client() && is_anew
    }

    /// An awaited rank, or client, has come; false when nobody awaits this process in that session.
    pub fn resume(&mut self, session: u64, process: u32) -> bool {
        if let Some(client) = self.clients.get_mut(&session).filter(|c| c.who.here == process) {
            return std::mem::replace(&mut client.awaited, false);
        }
        match self.seats.get_mut(&session).filter(|s| s.awaited && s.who.here == process) {
            Some(seat) => {
                seat.awaited = false;
                true
            }
            None => false,
        }
    }

    /// Everything a session left is applied. Its seat is free when its connection ends; a rank that was
    /// awaited in vain has none, so its seat is free now.
    pub fn applied(&mut self, session: u64, clean: bool, now: Duration) {
        self.clients.retain(|n, client| *n != session || !client.awaited);
        match self.seats.get_mut(&session) {
            Some(seat) if seat.awaited => {
                self.seats.remove(&session);
                self.note_empty(now);
            }
            Some(seat) => (seat.gone, seat.clean) = (true, clean),
            None => {}
        }
    }

    /// Whether nothing that a session left is still to be applied.
    pub fn is_applied(&self, session: u64) -> bool {
        self.seats.get(&session).is_none_or(|s| s.gone)
    }

    /// The connection of a session has ended.
    pub fn leave(&mut self, session: u64, now: Duration) -> Option<Left> {
        if let Some(client) = self.clients.remove(&session) {
            return Some(Left { who: client.who, clean: true });
        }
        let left = self.seats.remove(&session).map(|seat| Left { who: seat.who, clean: seat.clean });
        self.note_empty(now);
        left
    }

    fn note_empty(&mut self, now: Duration) {
        if self.seats.is_empty() {
            self.empty_since = Some(now);
        }
    }

    /// Whether all ranks came, and none is here any more; or none was expected.
    pub fn have_all_left(&self) -> bool {
        self.seats.is_empty() && self.came.len() == self.terms.size as usize
    }

    /// Whether nobody has been here for so long that nobody is waited for.
    pub fn is_idle(&self, now: Duration) -> bool {
        let is_over = self.empty_since.is_some_and(|since| now.saturating_sub(since) > LATE_RANKS);
        is_over && self.clients.is_empty()
    }

    /// Ranks here that the launcher of a rank has started as another program.
    pub fn strangers(&self, size: u32, who: &Opener) -> Vec<(u32, Opener)> {
        if self.terms.size != size {
            return Vec::new();
        }
        let beside = self.seats.values().filter(|s| s.who.is_another_program_beside(who));
        beside.map(|s| (s.rank, s.who.clone())).collect()
    }

    /// Whether a rank has not come here.
    pub fn lacks(&self, rank: u32) -> bool {
        !self.came.contains(&rank)
    }

    /// The session of the lowest rank that is here; none when one of them is in this very process, which has a
    /// terminal of its own.
    pub fn first_beside(&self, own: u32) -> Option<u64> {
        let seats = self.seats.iter().filter(|(_, seat)| !seat.gone);
        match seats.clone().any(|(_, seat)| seat.who.here == own) {
            true => None,
            false => seats.min_by_key(|(_, seat)| seat.rank).map(|(session, _)| *session),
        }
    }
}

/// Whether its rank has left, or died.
fn is_dead(seat: &Seat, dead: impl Fn(u32) -> bool) -> bool {
    seat.gone || (seat.who.here != 0 && dead(seat.who.here))
}

#[cfg(test)]
mod tests {
    use super::super::open;
    use super::*;
    use forebay_types::control::{Mode, WhenFull};
    use forebay_types::line::Launched;

    const NOW: Duration = Duration::from_secs(100);

    fn who(pid: u32, program: u32) -> Opener {
        let launched = Some(Launched { by: "here:1:2:3".into(), program });
        Opener { here: pid, pid, host: "here".into(), launched, after: None }
    }

    fn lives(_: u32) -> bool {
        false
    }

    fn of_two() -> Seats {
        let mut seats = Seats::new(Terms::of(&open(1, 2), &who(11, 1)), Vec::new(), NOW);
        assert!(seats.is_empty() && seats.size() == 2);
        seats.take(5, &open(1, 2), who(11, 1));
        seats
    }

    #[test]
    fn what_is_told_of_the_seats_is_who_sits_there() {
        let mut seats = of_two();
        assert!(!seats.is_empty() && seats.lacks(0) && !seats.lacks(1));
        assert_eq!((seats.rank_of(5), seats.rank_of(6)), (Some(1), None));
        assert_eq!(seats.first_beside(99), Some(5));
        seats.take(6, &open(0, 2), who(10, 1));
        assert_eq!(seats.processes(), BTreeMap::from([(0, 10), (1, 11)]));
        assert_eq!((seats.first_beside(99), seats.first_beside(10)), (Some(6), None));
        seats.applied(6, true, NOW);
        assert_eq!(seats.first_beside(99), Some(5), "rank 0 is leaving");
        assert!(seats.is_applied(6) && !seats.is_applied(5) && seats.is_applied(7));
        let left = seats.leave(6, NOW).unwrap();
        assert!(left.clean && left.who == who(10, 1));
        assert!(seats.leave(6, NOW).is_none());
    }

    #[test]
    fn another_program_of_one_launcher_is_a_stranger_in_a_run_of_as_many_ranks() {
        let seats = of_two();
        assert_eq!(seats.strangers(2, &who(20, 2)), [(1, who(11, 1))]);
        assert!(seats.strangers(3, &who(20, 2)).is_empty() && seats.strangers(2, &who(20, 1)).is_empty());
    }

    #[test]
    fn a_seat_is_taken_by_its_own_process_and_by_one_that_has_just_died() {
        let seats = of_two();
        assert!(seats.is_taken(&open(1, 2), &who(11, 1), lives), "it opens the run again");
        assert!(!seats.is_taken(&open(0, 2), &who(11, 1), lives), "another rank of the same process");
        assert!(seats.is_taken(&open(0, 3), &who(11, 1), lives), "with another number of ranks");
        assert!(!seats.is_taken(&open(1, 2), &who(12, 1), lives), "it is refused at once");
        assert!(seats.is_taken(&open(1, 2), &who(12, 1), |pid| pid == 11));
        assert!(seats.is_held_by_dead(&open(1, 2), |pid| pid == 11));
        assert!(seats.is_held_by_dead(&open(0, 3), |pid| pid == 11));
        assert!(!seats.is_held_by_dead(&open(0, 2), |pid| pid == 11), "it is in nobody's way");
        assert!(!seats.is_held_by_dead(&open(1, 2), lives));
    }

    #[test]
    fn who_brings_the_rest_of_a_dead_session_sets_no_terms_and_is_held_to_none() {
        let rest = |rank| OpenRun { mode: Mode::ReadWrite, ..open(rank, 2) };
        let brings = || who(21, 2).bringing(Some(3));
        let run = Path::new("/x.fb");
        // It comes first: the first rank waits for it, and begins anew when it has left.
        let mut seats = Seats::new(Terms::of(&rest(1), &brings()), Vec::new(), NOW);
        seats.take(5, &rest(1), brings());
        for rank in 0..2 {
            assert!(seats.is_brought_to(&open(rank, 2), &who(10 + rank, 1)));
        }
        // One that takes too long is not waited for any longer, but for its own rank.
        seats.may_join(run, &open(0, 2), &who(10, 1)).unwrap();
        seats.take(6, &open(0, 2), who(10, 1));
        assert!(seats.is_brought_to(&open(1, 2), &who(11, 1)));
        assert!(seats.may_join(run, &open(1, 2), &who(11, 1)).is_err());
        assert!(seats.lacks(1), "the rank itself is yet to come");
        seats.leave(5, NOW);
        assert!(!seats.is_brought_to(&open(1, 2), &who(11, 1)));
        seats.may_join(run, &open(1, 2), &who(11, 1)).unwrap();
        // It comes when ranks are there.
        let other = OpenRun { full: WhenFull::DropNewest, scratch: true, ..rest(1) };
        seats.may_join(run, &other, &brings()).unwrap();
        seats.may_join(run, &OpenRun { size: 3, ..other }, &brings()).unwrap();
        let e = seats.may_join(run, &rest(1), &who(11, 1)).unwrap_err();
        assert!(e.text().contains("mode \"r+\""), "that is a rank: {e}");
        let mut over = Seats::new(Terms::of(&rest(1), &brings()), Vec::new(), NOW);
        over.take(5, &rest(1), brings());
        assert!(!over.is_over_for(&open(0, 2), &who(10, 1), lives));
        over.leave(5, NOW);
        assert!(over.is_over_for(&open(0, 2), &who(10, 1), lives));
        assert!(!over.is_over_for(&rest(0), &brings(), lives), "the next rest goes where the first one went");
    }

    #[test]
    fn ranks_that_never_come_are_given_up_after_a_while_and_no_sooner() {
        let mut seats = of_two();
        assert!(!seats.is_idle(NOW + LATE_RANKS * 9), "somebody is here");
        seats.applied(5, true, NOW);
        seats.leave(5, NOW);
        assert!(!seats.have_all_left(), "rank 0 may come");
        assert!(
            !seats.is_idle(NOW + LATE_RANKS) && seats.is_idle(NOW + LATE_RANKS + Duration::from_nanos(1))
        );
        assert!(
            seats.is_over_for(&open(1, 2), &who(12, 1), lives)
                && !seats.is_over_for(&open(0, 2), &who(12, 1), lives)
        );
        assert!(seats.is_over_for(&open(0, 3), &who(12, 1), lives));
    }

    fn client() -> OpenRun {
        OpenRun { mode: Mode::ReadWrite, ..open(NO_RANK, 0) }
    }

    #[test]
    fn clients_come_at_any_time_and_are_in_no_ranks_way() {
        let mut seats = of_two();
        let run = Path::new("/x.fb");
        assert!(!seats.is_over_for(&client(), &who(30, 3), lives));
        seats.may_join(run, &client(), &who(30, 3)).unwrap();
        seats.take(8, &client(), who(30, 3));
        assert_eq!((seats.clients(), seats.rank_of(8), seats.processes().len()), (1, None, 1));
        seats.may_join(run, &open(0, 2), &who(10, 1)).unwrap();
        let e = seats.may_join(run, &open(0, 3), &who(12, 1)).unwrap_err();
        assert!(e.text().contains("with 2 by process 11"), "{e}");
        seats.take(6, &open(0, 2), who(10, 1));
        for session in [5, 6] {
            seats.applied(session, true, NOW);
            seats.leave(session, NOW);
        }
        assert!(seats.have_all_left() && seats.is_empty() && seats.clients() == 1);
        assert!(!seats.is_idle(NOW + LATE_RANKS * 9), "a client is here");
        // The next program has terms of its own, and the store stays open for the client.
        let next = OpenRun { scratch: true, ..open(2, 3) };
        assert!(!seats.is_over_for(&next, &who(12, 1), lives));
        assert!(seats.is_for_another_program(&next, &who(12, 1)));
        seats.may_join(run, &next, &who(12, 1)).unwrap();
        seats.take(9, &next, who(12, 1));
        assert!(
            seats.size() == 3 && seats.lacks(0) && !seats.is_for_another_program(&open(0, 3), &who(13, 1))
        );
        assert!(seats.leave(8, NOW).is_some() && seats.clients() == 0);
    }

    #[test]
    fn the_first_rank_beside_a_client_that_has_opened_the_run_sets_the_terms() {
        let mut seats = Seats::new(Terms::of(&client(), &who(30, 3)), Vec::new(), NOW);
        seats.take(1, &client(), who(30, 3));
        assert!(seats.is_for_another_program(&open(1, 2), &who(11, 1)));
        seats.may_join(Path::new("/x.fb"), &open(1, 2), &who(11, 1)).unwrap();
        seats.take(2, &open(1, 2), who(11, 1));
        assert!(seats.size() == 2 && !seats.have_all_left());
        seats.leave(2, NOW);
        assert!(!seats.have_all_left(), "rank 0 may come");
        // A client alone is nobody to wait for when it has gone.
        let mut alone = Seats::new(Terms::of(&client(), &who(30, 3)), Vec::new(), NOW);
        alone.take(1, &client(), who(30, 3));
        alone.leave(1, NOW);
        assert!(alone.have_all_left());
    }

    #[test]
    fn a_client_that_an_owner_left_comes_once_and_is_forgotten_when_it_has_died() {
        let orphan = |session| Orphaned { session, rank: NO_RANK, who: who(30, 3) };
        let terms = Terms::of(&open(0, 1), &who(10, 1));
        let mut seats = Seats::new(terms, vec![orphan(1), orphan(2)], NOW);
        assert!(seats.is_empty() && seats.clients() == 2 && seats.lacks(0));
        assert!(!seats.resume(1, 31) && seats.resume(1, 30) && !seats.resume(1, 30));
        seats.applied(1, false, NOW);
        seats.applied(2, false, NOW);
        assert_eq!(seats.clients(), 1, "its connection ends");
    }

    #[test]
    fn a_rank_that_an_owner_left_is_awaited_until_it_comes_or_is_known_to_be_dead() {
        let orphan = |rank| Orphaned { session: u64::from(rank) + 1, rank, who: who(10 + rank, 1) };
        let terms = || Terms::of(&open(0, 2), &who(10, 1));
        let mut seats = Seats::new(terms(), vec![orphan(0), orphan(1)], NOW);
        assert!(!seats.lacks(0) && !seats.is_idle(NOW + LATE_RANKS * 9));
        assert!(!seats.resume(1, 11), "that is another process");
        assert!(seats.resume(1, 10) && !seats.resume(1, 10));
        seats.applied(2, false, NOW);
        assert_eq!(seats.rank_of(2), None, "it has died, and has no connection that could end");
        seats.applied(1, true, NOW);
        assert!(seats.leave(1, NOW).is_some() && seats.have_all_left());
        let mut alone = Seats::new(terms(), vec![orphan(1)], NOW);
        assert!(alone.is_over_for(&open(0, 2), &who(12, 1), |pid| pid == 11), "nobody is left");
    }
}
