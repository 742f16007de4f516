//! Ranks that come, say good-bye, die and come again, late news of all that, and owners that die: no rank has two
//! programs at once, and when nothing happens any more the store is over for everybody.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Longer than the store waits for ranks that have not come.
const LONG: Duration = Duration::from_secs(11);

/// What an owner is yet to hear of a session.
#[derive(Clone, Copy, Debug, PartialEq)]
enum News {
    /// All that it left is applied.
    Applied { clean: bool },
    /// Its connection has ended.
    Ended,
}

/// A program with a session.
#[derive(Clone, Debug)]
struct Program {
    rank: u32,
    pid: u32,
    lives: bool,
    /// It was there when an owner died, and has not come to the next one.
    orphan: bool,
    news: Vec<News>,
}

#[derive(Clone, Copy, Debug)]
enum Happening {
    Opens { rank: u32, again: bool },
    SaysGoodBye(usize),
    Dies(usize),
    IsHeard(usize),
    OwnerDies,
    Resumes(usize),
    TimePasses(u8),
}

#[derive(Default)]
struct World {
    seats: Option<Seats>,
    programs: BTreeMap<u64, Program>,
    now: Duration,
    next: u64,
    opened: u32,
}

fn who(pid: u32) -> Opener {
    Opener { here: pid, pid, host: "here".into(), launched: None, after: None }
}

impl World {
    fn is_dead(&self, pid: u32) -> bool {
        !self.programs.values().any(|p| p.pid == pid && p.lives)
    }

    fn nth(&self, n: usize) -> Option<u64> {
        self.programs.keys().nth(n % self.programs.len().max(1)).copied()
    }

    /// As the driver does it; false when the rank is refused, or has to wait.
    fn opens(&mut self, rank: u32, size: u32, pid: u32) -> bool {
        let asked = open(rank, size);
        let dead: Vec<u32> = self.programs.values().map(|p| p.pid).filter(|p| self.is_dead(*p)).collect();
        let dead = |pid| dead.contains(&pid);
        if self.seats.as_ref().is_some_and(|s| s.is_taken(&asked, &who(pid), dead)) {
            return false;
        }
        if self.seats.as_mut().is_some_and(|s| s.is_over_for(&asked, &who(pid), dead)) {
            self.seats = None;
        }
        let now = self.now;
        let seats =
            self.seats.get_or_insert_with(|| Seats::new(Terms::of(&asked, &who(pid)), Vec::new(), now));
        if seats.may_join(Path::new("/x.fb"), &asked, &who(pid)).is_err() {
            return false;
        }
        self.next += 1;
        seats.take(self.next, &asked, who(pid));
        let program = Program { rank, pid, lives: true, orphan: false, news: Vec::new() };
        self.programs.insert(self.next, program);
        self.opened += 1;
        true
    }

    fn ends(&mut self, session: u64, clean: bool) {
        let Some(p) = self.programs.get_mut(&session).filter(|p| p.lives) else { return };
        // Who awaits it has no connection of it.
        p.news = match p.orphan {
            true if clean => return,
            true => vec![News::Applied { clean }],
            false => vec![News::Applied { clean }, News::Ended],
        };
        p.lives = false;
    }

    fn hears(&mut self, session: u64) {
        let (now, Some(p)) = (self.now, self.programs.get_mut(&session)) else { return };
        if p.news.is_empty() {
            return;
        }
        let news = p.news.remove(0);
        let is_last = p.news.is_empty();
        if is_last {
            self.programs.remove(&session);
        }
        let Some(seats) = &mut self.seats else { return };
        match news {
            News::Applied { clean } => seats.applied(session, clean, now),
            News::Ended => drop(seats.leave(session, now)),
        }
        if is_last && seats.have_all_left() {
            self.seats = None;
        }
    }

    fn owner_dies(&mut self) {
        let Some(seats) = self.seats.take() else { return };
        // The next one reads what the dead have left before it takes anybody.
        self.programs.retain(|_, p| p.lives);
        if self.programs.is_empty() {
            return;
        }
        let size = seats.size();
        let orphan =
            |(session, p): (&u64, &Program)| Orphaned { session: *session, rank: p.rank, who: who(p.pid) };
        let orphans: Vec<Orphaned> = self.programs.iter().map(orphan).collect();
        let first = &orphans[0];
        let terms = Terms::of(&open(first.rank, size), &first.who);
        self.seats = Some(Seats::new(terms, orphans, self.now));
        self.programs.values_mut().for_each(|p| p.orphan = true);
    }

    fn resumes(&mut self, session: u64) {
        let (Some(p), Some(seats)) = (self.programs.get_mut(&session), &mut self.seats) else { return };
        if p.orphan && p.lives {
            assert!(seats.resume(session, p.pid), "the rank that is awaited is let in");
            p.orphan = false;
        }
    }

    fn happens(&mut self, what: Happening, size: u32) {
        match what {
            Happening::Opens { rank, again } => {
                // Again: a program that has the run open opens it once more.
                let of = self.programs.values().find(|p| p.lives && p.rank == rank % size).map(|p| p.pid);
                let pid = of.filter(|_| again).unwrap_or(1000 + self.next as u32);
                self.opens(rank % size, size, pid);
            }
            Happening::SaysGoodBye(n) => self.nth(n).into_iter().for_each(|s| self.ends(s, true)),
            Happening::Dies(n) => self.nth(n).into_iter().for_each(|s| self.ends(s, false)),
            Happening::IsHeard(n) => self.nth(n).into_iter().for_each(|s| self.hears(s)),
            Happening::OwnerDies => self.owner_dies(),
            Happening::Resumes(n) => self.nth(n).into_iter().for_each(|s| self.resumes(s)),
            Happening::TimePasses(s) => {
                self.now += Duration::from_secs(u64::from(s));
                if self.seats.as_ref().is_some_and(|s| s.is_idle(self.now)) {
                    assert!(!self.programs.values().any(|p| p.lives), "nobody who lives is given up");
                    self.seats = None;
                }
            }
        }
    }

    fn check(&self) {
        let mut ranks = Vec::new();
        for (session, p) in self.programs.iter().filter(|(_, p)| p.lives) {
            let seats = self.seats.as_ref().expect("whoever lives has a store");
            assert_eq!(seats.rank_of(*session), Some(p.rank), "whoever lives keeps its seat");
            ranks.push(p.rank);
        }
        let all = ranks.len();
        ranks.sort_unstable();
        ranks.dedup();
        assert_eq!(ranks.len(), all, "a rank has one program");
        if let Some(seats) = &self.seats {
            assert!(!seats.have_all_left() || !self.programs.values().any(|p| p.lives));
        }
    }
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => (0u32..3, any::<bool>()).prop_map(|(rank, again)| Happening::Opens { rank, again }),
        2 => any::<usize>().prop_map(Happening::SaysGoodBye),
        2 => any::<usize>().prop_map(Happening::Dies),
        6 => any::<usize>().prop_map(Happening::IsHeard),
        1 => Just(Happening::OwnerDies),
        2 => any::<usize>().prop_map(Happening::Resumes),
        2 => (0u8..12).prop_map(Happening::TimePasses),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_rank_has_one_program_and_a_store_without_ranks_is_over(
        size in 1u32..4,
        story in proptest::collection::vec(happening(), 1..60),
    ) {
        let mut world = World::default();
        for what in story {
            world.happens(what, size);
            world.check();
        }
        // Everybody ends, and it is heard of: then a program with another number of ranks is let in at once.
        let sessions: Vec<u64> = world.programs.keys().copied().collect();
        for session in &sessions {
            world.ends(*session, false);
            (0..2).for_each(|_| world.hears(*session));
        }
        prop_assert!(world.programs.is_empty());
        let before = world.opened;
        prop_assert!(world.opens(0, size + 1, 7) && world.opened == before + 1);
        // And one that never gets its mates is given up.
        let session = world.next;
        world.ends(session, true);
        (0..2).for_each(|_| world.hears(session));
        world.now += LONG;
        prop_assert!(world.seats.is_none_or(|s| s.is_idle(world.now)));
    }
}
