//! Starts of a program with a rank on another host, whose memory outlives it: what is brought of a dead start is none of
//! a later one's.

use crate::common::faults::scratch;
use crate::common::{Rank, f64s, shape, wait_for};
use forebay_store::{Options, Owner, Reader, verify};
use forebay_types::Selection;
use forebay_types::codec::Writer;
use forebay_types::control::{Ask, Column, TableInfo, word};
use forebay_types::record::{Cell, Place, Record};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const ARENA: u64 = 1 << 20;
/// Values of a rank's piece.
const N: u64 = 10;

/// A rank of one start of the program, which is seen in all that it puts.
struct Starter {
    rank: Rank,
    start: u64,
    history: u32,
    plain: u32,
}

impl Starter {
    fn new(mut rank: Rank, start: u64) -> Starter {
        let columns = ["rank", "start"].map(|name| Column {
            name: name.into(),
            dtype: "i64".into(),
            ..Default::default()
        });
        let mut made = |name: &str, history| {
            let made = rank.ask(&Ask::Table { name: name.into(), columns: columns.clone().into(), history });
            serde_json::from_value::<TableInfo>(made.unwrap()).unwrap().id
        };
        let (history, plain) = (made("h", true), made("p", false));
        Starter { rank, start, history, plain }
    }

    fn near(owner: &Owner, start: u64) -> Starter {
        Starter::new(Rank::open(owner, 0, 2, ARENA), start)
    }

    fn remote(owner: &Owner, start: u64) -> Starter {
        Starter::new(Rank::open_remote(owner, 1, 2, ARENA, None), start)
    }

    /// What the other host has of a session.
    fn rest(owner: &Owner, session: u64, start: u64) -> Starter {
        Starter::new(Rank::open_remote(owner, 1, 2, ARENA, Some(session)), start)
    }

    fn step(&mut self, step: i64) {
        let rank = u64::from(self.rank.rank);
        self.rank.begin(step);
        let place = Place::At { offset: shape(&[rank * N]), global: shape(&[2 * N]) };
        let n = self.rank.array(step, "x", &f64s(N, 100 * self.start), place, usize::MAX);
        let mut w = Writer::new();
        Cell::Int(rank as i64).encode(&mut w);
        Cell::Int(self.start as i64).encode(&mut w);
        let cells = w.finish();
        for table in [self.history, self.plain] {
            self.rank.publish(&Record::Insert { table, step, rows: 1, cells: &cells });
        }
        self.rank.end(step, n);
    }

    /// Asks where the run goes on, and waits for no answer.
    fn asks_to_restart(&mut self) -> u64 {
        let json = serde_json::to_string(&Ask::Restart { tag: None, strict: false }).unwrap();
        self.rank.publish(&Record::Ask { json: &json })
    }

    /// Where the run goes on.
    fn restarts(&mut self) -> i64 {
        let back = self.rank.ask(&Ask::Restart { tag: None, strict: false }).unwrap();
        back["step"].as_i64().unwrap_or(-1)
    }

    /// All that was left has been sent; what of it was refused.
    fn all_sent(mut self, owner: &Owner) -> Vec<String> {
        self.rank.ask(&Ask::Close { finished: false }).unwrap();
        owner.hung_up(self.rank.session).unwrap();
        wait_for("the end of what brings a rest", || self.rank.is_closed().then_some(()));
        self.rank.late.iter().map(|e| e.text().to_owned()).collect()
    }

    fn dies(self, owner: &Owner) -> u64 {
        owner.hung_up(self.rank.session).unwrap();
        self.rank.session
    }

    fn closes(mut self) {
        self.rank.ask(&Ask::Close { finished: true }).unwrap();
    }
}

fn wait_until_listed(rank: &mut Starter, step: i64) {
    rank.rank.ask(&Ask::WaitStep { step }).unwrap();
}

/// The start that each rank's part of the steps is of.
fn starts(run: &Path) -> Vec<(i64, u64, u64)> {
    let reader = Reader::open(run).unwrap();
    let number = |bytes: &[u8]| f64::from_le_bytes(bytes[..8].try_into().unwrap()) as u64 / 100;
    let of = |step: i64| {
        let bytes = reader.step_get(step, "x", &Selection::default()).unwrap().bytes;
        (step, number(&bytes), number(&bytes[8 * N as usize..]))
    };
    reader.steps().unwrap().iter().map(|s| of(s.step)).collect()
}

fn rows(run: &Path, table: &str) -> usize {
    Reader::open(run).unwrap().select(table, "", &[]).unwrap().rows.len()
}

/// Both ranks have put step 0, and the far one is ahead; gives them.
fn begun(owner: &Owner) -> (Starter, Starter) {
    let (mut near, mut remote) = (Starter::near(owner, 1), Starter::remote(owner, 1));
    near.step(0);
    remote.step(0);
    wait_until_listed(&mut near, 0);
    (near, remote)
}

#[test]
fn what_a_dead_far_rank_was_ahead_joins_no_step_of_the_next_start_that_went_back_before_it_was_brought() {
    let dir = scratch();
    let run = dir.path().join("r.fb");
    let late_ranks = Duration::from_millis(200);
    let owner = Owner::open(&run, Options { late_ranks, ..Options::default() }).unwrap();
    let (near, remote) = begun(&owner);
    near.dies(&owner);
    // Its line says nothing yet of its death: the next start of rank 0 takes it for a living rank.
    let mut near = Starter::near(&owner, 2);
    let asked = near.asks_to_restart();
    wait_for("the far rank to be asked whether it lives", || {
        (remote.rank.segment.word(word::EPOCH).load(Ordering::SeqCst) > 0).then_some(())
    });
    assert!(near.rank.notice(asked).is_none(), "who is dead is not known");
    let session = remote.dies(&owner);
    assert_eq!(near.rank.went_back(asked).unwrap()["step"], 0);
    let mut rest = Starter::rest(&owner, session, 1);
    (1..5).for_each(|step| rest.step(step));
    assert_eq!(rest.all_sent(&owner), Vec::<String>::new());
    let mut remote = Starter::remote(&owner, 2);
    assert_eq!(remote.restarts(), 0, "all ranks go on from one step");
    for step in 1..3 {
        near.step(step);
        remote.step(step);
    }
    wait_until_listed(&mut near, 2);
    near.closes();
    remote.closes();
    owner.close().unwrap();
    assert_eq!(starts(&run), [(0, 1, 1), (1, 2, 2), (2, 2, 2)]);
    assert_eq!(rows(&run, "h"), 4, "no row of a history stands twice");
    assert_eq!(rows(&run, "p"), 10, "rows of other tables are never dropped");
    let said = Reader::open(&run).unwrap().messages(100).unwrap();
    assert!(said.iter().any(|m| m.2.contains("4 steps from 1 to 4 of rank 1")), "{said:?}");
    assert_eq!(verify(&run).unwrap().faults, Vec::<String>::new());
}

/// Steps 1 to 3 of the start before are made whole by what the other host has of that session; then all ranks of this
/// one go on from there.
fn goes_on_with_what_is_brought(owner: Owner, mut near: Starter, asked: u64, session: u64) {
    let mut rest = Starter::rest(&owner, session, near.start - 1);
    (1..4).for_each(|step| rest.step(step));
    assert_eq!(rest.all_sent(&owner), Vec::<String>::new());
    // It had no more.
    assert_eq!(near.rank.went_back(asked).unwrap()["step"], 3);
    let mut remote = Starter::remote(&owner, near.start);
    assert_eq!(remote.restarts(), 3);
    near.closes();
    remote.closes();
    owner.close().unwrap();
}

#[test]
fn who_goes_back_waits_for_the_ranks_whose_hosts_may_have_what_makes_steps_whole() {
    let dir = scratch();
    let run = dir.path().join("r.fb");
    let owner = Owner::open(&run, Options { ..Options::default() }).unwrap();
    let (mut near, remote) = begun(&owner);
    (1..4).for_each(|step| near.step(step));
    near.dies(&owner);
    let session = remote.dies(&owner);
    let mut near = Starter::near(&owner, 2);
    let asked = near.asks_to_restart();
    // All is read and told that there is; nothing of the other host has come.
    for _ in 0..3 {
        owner.read_up().unwrap();
        assert!(near.rank.notice(asked).is_none());
    }
    goes_on_with_what_is_brought(owner, near, asked, session);
    assert_eq!(starts(&run), (0..4).map(|step| (step, 1, 1)).collect::<Vec<_>>());
}

#[test]
fn rows_of_a_start_whose_steps_are_made_whole_after_its_death_stay_whoever_owns_the_run_then() {
    let dir = scratch();
    let run = dir.path().join("r.fb");
    let open = || Owner::open(&run, Options { ..Options::default() }).unwrap();
    let owner = open();
    let (near, remote) = begun(&owner);
    near.closes();
    remote.closes();
    owner.close().unwrap();
    // The second start goes on there, and none of its steps is whole when all of it dies.
    let owner = open();
    let (mut near, mut remote) = (Starter::near(&owner, 2), Starter::remote(&owner, 2));
    let asked = [near.asks_to_restart(), remote.asks_to_restart()];
    for (of, asked) in [&mut near, &mut remote].into_iter().zip(asked) {
        assert_eq!(of.rank.went_back(asked).unwrap()["step"], 0);
    }
    (1..4).for_each(|step| near.step(step));
    near.dies(&owner);
    let session = remote.dies(&owner);
    owner.close().unwrap();
    let owner = open();
    let mut near = Starter::near(&owner, 3);
    let asked = near.asks_to_restart();
    goes_on_with_what_is_brought(owner, near, asked, session);
    // The second start had taken those under step 0 back, to make them again, and the third one those under step 3.
    assert_eq!((rows(&run, "h"), rows(&run, "p")), (4, 8));
}

#[test]
fn a_step_that_a_later_start_begins_has_nothing_of_what_is_brought_of_an_earlier_one_in_either_order() {
    for is_first in [true, false] {
        let dir = scratch();
        let run = dir.path().join("r.fb");
        let owner = Owner::open(&run, Options { ..Options::default() }).unwrap();
        let (near, remote) = (Starter::near(&owner, 1), Starter::remote(&owner, 1));
        near.dies(&owner);
        let session = remote.dies(&owner);
        // No step is listed, so a start need not go back.
        let mut near = Starter::near(&owner, 2);
        let mut rest = Starter::rest(&owner, session, 1);
        if is_first {
            rest.step(0);
            rest.rank.settle();
            near.step(0);
        } else {
            near.step(0);
            near.rank.settle();
            rest.step(0);
        }
        assert_eq!(rest.all_sent(&owner), Vec::<String>::new());
        let mut remote = Starter::remote(&owner, 2);
        remote.step(0);
        wait_until_listed(&mut near, 0);
        near.closes();
        remote.closes();
        owner.close().unwrap();
        assert_eq!(starts(&run), [(0, 2, 2)]);
    }
}

#[test]
fn a_far_rank_that_answers_lives_and_one_that_does_not_is_neither_dead_nor_alive_until_its_line_is_given_up()
{
    let dir = scratch();
    let owner = Owner::open(&dir.path().join("r.fb"), Options { ..Options::default() }).unwrap();
    let remote = Starter::remote(&owner, 1);
    let began = Instant::now();
    assert!(!owner.is_sure_for(0, 2, began).unwrap());
    assert!(owner.is_sure_for(1, 2, began).unwrap(), "it comes in its own place");
    assert!(!owner.is_sure_for(1, 3, began).unwrap(), "a start of another size has no place that is its own");
    let word = |n| remote.rank.segment.word(n);
    word(word::ECHO).store(word(word::EPOCH).load(Ordering::SeqCst), Ordering::SeqCst);
    assert!(owner.is_sure_for(0, 2, began).unwrap());
    assert!(!owner.is_sure_for(0, 2, Instant::now()).unwrap(), "that was before");
    let near = Starter::near(&owner, 1);
    assert!(owner.is_sure_for(1, 2, Instant::now()).unwrap(), "one on this host is looked at");
    near.dies(&owner);
    remote.dies(&owner);
    wait_for("it to be known", || owner.is_sure_for(0, 2, Instant::now()).unwrap().then_some(()));
    owner.close().unwrap();
}
