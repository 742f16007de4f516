//! Closing a run while other threads use it: they hear that it is closed, never of a lost owner, and what
//! they were told is kept is kept.

use std::process::Command;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::support::{LATE, sandbox, take, until};
use forebay::{ArrayOptions, Code, Error, Mode, OpenOptions, PutOptions, Result, Run, View};

const ROUNDS: i64 = 12;

/// What a thread does again and again until the run is closed.
type Work = fn(&Run, i64) -> Result<()>;

fn small(run: &Run, i: i64) -> Result<()> {
    run.put("small", View::of(&[i], &[1])?, PutOptions::default())
}

fn large(run: &Run, i: i64) -> Result<()> {
    run.put("large", View::of(&vec![i; 3000], &[3000])?, PutOptions::default())
}

fn snapshot(run: &Run, i: i64) -> Result<()> {
    let snapshot = run.snapshot(i, None)?;
    snapshot.put("E", View::of(&[i], &[1])?, ArrayOptions::default())?;
    snapshot.end()?;
    snapshot.wait(None)
}

fn ask(run: &Run, i: i64) -> Result<()> {
    run.put("asked", View::of(&[i], &[1])?, PutOptions::default())?;
    run.list("asked", None).map(drop)
}

/// The works of a round: puts of several threads, or, now and then, snapshots.
fn works(round: i64) -> Vec<Work> {
    if round % 3 == 2 { vec![snapshot] } else { vec![small, large, ask] }
}

/// Works until it fails; the last number that was well, and the error.
fn work(run: &Run, work: Work, done: &AtomicI64) -> (i64, Error) {
    let mut last = -1;
    loop {
        match work(run, last + 1) {
            Ok(()) => last += 1,
            Err(e) => return (last, e),
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
}

/// At least what was acknowledged, and no more than what was tried.
fn kept(run: &Run, name: &str, last: i64) {
    if last >= 0 {
        let found = run.get(name, 0, None).unwrap().bytes;
        let found = i64::from_ne_bytes(found[..8].try_into().unwrap());
        assert!(found == last || found == last + 1, "{name}: {last} was acknowledged, {found} is there");
    }
}

fn race(place: &str) {
    for round in 0..ROUNDS {
        let options = OpenOptions { buffer: 4 << 20, ..OpenOptions::default() };
        let run = forebay::open(place, Mode::Write, options).unwrap();
        let done = AtomicI64::new(0);
        let ends = std::thread::scope(|scope| {
            let (run, done) = (&run, &done);
            let threads: Vec<_> =
                works(round).into_iter().map(|w| scope.spawn(move || work(run, w, done))).collect();
            // At a different moment each time.
            let enough = if threads.len() == 1 { round } else { round * 35 };
            until("work", || done.load(Ordering::Relaxed) >= enough);
            if let Err(e) = run.close() {
                assert!(e.text().contains("was not ended and is not in the run"), "{e}");
            }
            threads.into_iter().map(|t| t.join().unwrap()).collect::<Vec<_>>()
        });
        for (what, (_, e)) in ends.iter().enumerate() {
            assert_eq!(e.code(), Code::Closed, "round {round}, thread {what}: {e}");
        }
        let run = forebay::open(place, Mode::Read, OpenOptions::default()).unwrap();
        if ends.len() == 3 {
            ["small", "large", "asked"].iter().zip(&ends).for_each(|(name, end)| kept(&run, name, end.0));
            continue;
        }
        let numbers = run.snapshots().unwrap().numbers().unwrap().to_vec();
        let ended = (ends[0].0 + 1) as usize;
        assert!(numbers.len() == ended || numbers.len() == ended + 1, "{ended} ended, {numbers:?} are there");
    }
}

#[test]
fn who_uses_a_run_while_another_thread_closes_it_hears_that_it_is_closed() {
    sandbox("who_uses_a_run_while_another_thread_closes_it_hears_that_it_is_closed", |s| race(&s.run("own")));
}

#[test]
fn the_same_when_an_agent_owns_the_run() {
    sandbox("the_same_when_an_agent_owns_the_run", |s| {
        let up = Command::new(env!("CARGO_BIN_EXE_forebay")).arg("up").status().unwrap();
        assert!(up.success());
        race(&s.run("theirs"));
    });
}

#[test]
fn a_run_that_is_deleted_right_after_its_closing_is_gone() {
    sandbox("a_run_that_is_deleted_right_after_its_closing_is_gone", |s| {
        forebay_agent::start_to_stay().unwrap();
        let dir = s.dir.join("gone.fb");
        for _ in 0..20 {
            let run = forebay::open(dir.to_str().unwrap(), Mode::Append, OpenOptions::default()).unwrap();
            take(&run, 0, 1000).unwrap();
            run.close().unwrap();
            let left = |name: &str| dir.join(name).exists();
            assert!(!left("agent.json") && !left("catalog.sqlite-wal"), "the store is still closing it");
            std::fs::remove_dir_all(&dir).unwrap();
        }
        forebay_agent::down(true, LATE).unwrap();
        assert!(!dir.exists());
    });
}
