//! Backlogs: a rank runs far ahead of a slow disk, with arrays that go in many parts, and is killed
//! there. Whatever is done when the buffers are full, what was acknowledged is all there after recovery.

use crate::common::asked::{Asked, Call};
use crate::common::faults::scratch;
use crate::common::{Rank, f64s};
use forebay_arena::{Allocator, Segment, SegmentSpec};
use forebay_store::{Options, Owner, Reader, recover, verify};
use forebay_types::control::{Ask, WhenFull};
use forebay_types::record::{HeldBlock, Payload, Place, Record, StepBlock};
use forebay_types::{ArrayMeta, DType, Selection};
use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const RUN: &str = "FOREBAY_TEST_BACKLOG_RUN";
const FULL: &str = "FOREBAY_TEST_BACKLOG_FULL";

/// Steps that are acknowledged at least before the blow.
const STEPS: usize = 150;
/// Values of an array, and bytes of each of its parts.
const VALUES: u64 = 8_000;
const PART: usize = 8_200;
/// What dropping policies leave to the arena.
const LITTLE: u64 = 4 << 20;

/// A disk that needs long to make anything durable.
fn slow(call: Call, _: &Path) -> io::Result<()> {
    if call == Call::Sync {
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

fn policy(name: &str) -> WhenFull {
    match name {
        "spill" => WhenFull::Spill,
        "drop_oldest" => WhenFull::DropOldest,
        "drop_newest" => WhenFull::DropNewest,
        _ => WhenFull::Block,
    }
}

/// A rank that does what a client does when its buffers are full.
struct Ahead {
    rank: Rank,
    full: WhenFull,
    overflow: Vec<Allocator>,
}

impl Ahead {
    /// Room for so many bytes; none when this step is to be given up.
    fn room(&mut self, bytes: &[u8]) -> Option<Payload<'static>> {
        loop {
            let own = std::iter::once(&mut self.rank.allocator);
            let found = own.chain(&mut self.overflow).enumerate().find_map(|(n, room)| {
                room.reap();
                Some((n as u32, room.alloc(bytes.len() as u64)?))
            });
            if let Some((segment, block)) = found {
                block.write_from(0, bytes);
                let (index, generation) = (block.index(), block.generation());
                return Some(Payload::Block(HeldBlock {
                    segment,
                    index,
                    generation,
                    bytes: bytes.len() as u64,
                }));
            }
            match self.full {
                WhenFull::DropNewest => return None,
                WhenFull::DropOldest => {
                    if let Some(step) = self.rank.ask(&Ask::DropOldest).unwrap().as_i64() {
                        say(&format!("dropped {step}"));
                    }
                }
                WhenFull::Spill => {
                    let known = self.overflow.len() as u32;
                    let ask = Ask::Overflow { bytes: 1 << 20, spill: true, known };
                    if let Some(path) = self.rank.ask(&ask).unwrap().as_str() {
                        self.overflow.push(Segment::open(Path::new(path)).unwrap().allocator());
                    }
                }
                _ => {}
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// A step of one array in many parts; false when it is given up.
    fn step(&mut self, step: i64) -> bool {
        self.rank.begin(step);
        let meta = ArrayMeta::new(DType::F64, crate::common::shape(&[VALUES]));
        let bytes = f64s(VALUES, step as u64);
        let mut blocks = 0;
        for (i, chunk) in bytes.chunks(PART).enumerate() {
            let Some(payload) = self.room(chunk) else {
                self.rank.publish(&Record::StepDiscard { step });
                return false;
            };
            let part = (i * PART) as u64;
            let (name, units, place) = ("E", "V/m", Place::Whole);
            self.rank.publish(&Record::StepBlock(StepBlock {
                step,
                name,
                units,
                meta,
                place,
                part,
                payload,
            }));
            blocks += 1;
        }
        self.rank.end(step, blocks);
        true
    }
}

fn say(what: &str) {
    let mut out = io::stdout().lock();
    writeln!(out, "\n{what}").unwrap();
    out.flush().unwrap();
}

/// The child: runs ahead of its disk. As a test of its own it does nothing.
#[test]
fn a_rank_that_runs_ahead_until_it_is_killed() {
    let (Ok(run), Ok(full)) = (std::env::var(RUN), std::env::var(FULL)) else { return };
    let options = Options { disk: Arc::new(Asked(slow)), overflow: 0, spill: 1 << 30, ..Options::default() };
    let owner = Owner::open(Path::new(&run), options).unwrap();
    let arena = if full == "block" { 32 << 20 } else { LITTLE };
    let spec = SegmentSpec { block_bytes: arena, blocks: 4096, ..Rank::measures() };
    let rank = Rank::open_with(&owner, 0, 1, &spec).unwrap();
    let mut ahead = Ahead { rank, full: policy(&full), overflow: Vec::new() };
    for step in 0.. {
        if ahead.step(step) {
            say(&format!("acknowledged {step}"));
        }
    }
}

fn child(run: &Path, full: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "backlog::a_rank_that_runs_ahead_until_it_is_killed",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(RUN, run)
        .env(FULL, full)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Has a rank run ahead, kills it, and looks for what it said.
fn killed_and_recovered(full: &str) {
    let dir = scratch();
    let run = dir.path().join("ahead.fb");
    let mut c = child(&run, full);
    let (mut acknowledged, mut dropped) = (BTreeSet::new(), BTreeSet::new());
    let mut said = 0;
    let seed = std::time::UNIX_EPOCH.elapsed().unwrap().subsec_nanos() as usize;
    let enough = STEPS + seed % 50;
    for line in BufReader::new(c.stdout.take().unwrap()).lines().map_while(Result::ok) {
        let number = |word: &str| line.strip_prefix(word).map(|n| n.parse::<i64>().unwrap());
        acknowledged.extend(number("acknowledged "));
        dropped.extend(number("dropped "));
        said += usize::from(!line.is_empty());
        // Whoever drops the newest soon says nothing more.
        if said == enough || full == "drop_newest" && acknowledged.len() == 60 {
            c.kill().unwrap();
        }
    }
    c.wait().unwrap();
    recover(&run).unwrap();
    assert_eq!(verify(&run).unwrap().faults, Vec::<String>::new());
    let reader = Reader::open(&run).unwrap();
    let listed: BTreeSet<i64> = reader.steps().unwrap().iter().map(|s| s.step).collect();
    for step in &listed {
        let e = reader.step_get(*step, "E", &Selection::default()).unwrap();
        assert!(e.bytes == f64s(VALUES, *step as u64), "{full}: step {step}");
    }
    let missing: Vec<_> = acknowledged.difference(&listed).filter(|s| !dropped.contains(s)).collect();
    // What was dropped in the moment of the blow was not said any more.
    let unsaid = usize::from(full == "drop_oldest");
    assert!(missing.len() <= unsaid, "{full}: {missing:?} of {} are missing", acknowledged.len());
}

#[test]
fn a_long_backlog_of_a_rank_that_waits_when_it_is_full_survives_its_death() {
    killed_and_recovered("block");
}

#[test]
fn a_long_backlog_that_was_spilt_into_files_survives_the_death_of_its_rank() {
    killed_and_recovered("spill");
}

#[test]
fn a_rank_that_drops_the_oldest_of_a_long_backlog_and_is_killed_loses_nothing_else() {
    killed_and_recovered("drop_oldest");
}

#[test]
fn a_rank_that_drops_the_newest_behind_a_long_backlog_and_is_killed_loses_nothing_else() {
    killed_and_recovered("drop_newest");
}
