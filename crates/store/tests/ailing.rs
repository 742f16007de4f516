//! A disk that ails: what waits for what, who is told, and what becomes of what was acknowledged.

use crate::common::asked::{Asked, Call};
use crate::common::faults::scratch;
use crate::common::{Rank, f64s, shape, wait_for};
use forebay_store::disk::{Disk, Foreign};
use forebay_store::{Options, Owner, Reader, Sink, recover, recover_with, verify};
use forebay_types::control::Ask;
use forebay_types::record::{Place, Record, StepBlock};
use forebay_types::{ArrayMeta, Code, DType, Selection};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

const N: u64 = 20_000;

/// Fails for as long as a test says so.
#[derive(Clone, Default)]
struct Ill(Arc<AtomicBool>);

impl Ill {
    fn set(&self, is: bool) {
        self.0.store(is, Ordering::SeqCst);
    }

    /// A disk that answers so to these calls meanwhile.
    fn disk(
        &self,
        errno: Errno,
        which: impl Fn(Call, &Path) -> bool + Send + Sync + 'static,
    ) -> Arc<dyn Disk> {
        let ill = self.0.clone();
        Arc::new(Asked(move |call, path: &Path| match ill.load(Ordering::SeqCst) && which(call, path) {
            true => Err(errno.into()),
            false => Ok(()),
        }))
    }
}

/// Whoever comes to it waits while it is shut.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn shut(&self, is: bool) {
        *self.0.0.lock().unwrap() = is;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        drop(self.0.1.wait_while(self.0.0.lock().unwrap(), |shut| *shut).unwrap());
    }
}

fn is_file(path: &Path, name: &str) -> bool {
    path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(name))
}

fn listed(run: &Path) -> Vec<i64> {
    let reader = Reader::open(run).unwrap();
    reader.steps().unwrap().iter().map(|s| s.step).collect()
}

/// The steps that are there, each as it was taken.
fn steps(run: &Path) -> Vec<i64> {
    assert_eq!(verify(run).unwrap().faults, Vec::<String>::new());
    let reader = Reader::open(run).unwrap();
    let found = listed(run);
    for step in &found {
        let x = reader.step_get(*step, "x", &Selection::default()).unwrap();
        assert!(x.bytes == f64s(N, *step as u64), "step {step}");
    }
    found
}

#[test]
fn a_file_that_cannot_be_written_holds_up_no_other_and_is_there_when_it_can() {
    let dir = scratch();
    let run = dir.path().join("one.fb");
    let ill = Ill::default();
    ill.set(true);
    let disk = ill.disk(Errno::IO, |call, path| call == Call::Sync && is_file(path, "0000000001.h5"));
    let owner = Owner::open(&run, Options { disk, ..Options::default() }).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
    (0..5).for_each(|step| rank.step(step, &f64s(N, step as u64)));
    for step in [0, 2, 3, 4] {
        rank.ask(&Ask::WaitStep { step }).unwrap();
    }
    assert_eq!(owner.stats().unwrap()["waiting_for_disk"], true);
    assert_eq!(listed(&run), [0, 2, 3, 4]);
    ill.set(false);
    rank.ask(&Ask::WaitStep { step: 1 }).unwrap();
    assert!(rank.late.is_empty(), "{:?}", rank.late);
    owner.close().unwrap();
    assert_eq!(steps(&run), [0, 1, 2, 3, 4]);
}

#[test]
fn a_step_that_no_attempt_has_left_on_disk_may_be_dropped_by_the_policy_and_no_other_is_lost() {
    let dir = scratch();
    let run = dir.path().join("drop.fb");
    let ill = Ill::default();
    ill.set(true);
    let disk = ill.disk(Errno::ROFS, |call, path| call == Call::Open && is_file(path, "0000000000.h5"));
    let owner = Owner::open(&run, Options { disk, ..Options::default() }).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
    (0..2).for_each(|step| rank.step(step, &f64s(N, step as u64)));
    rank.ask(&Ask::WaitStep { step: 1 }).unwrap();
    wait_for("a moment between two attempts", || rank.ask(&Ask::DropOldest).unwrap().as_i64());
    ill.set(false);
    rank.ask(&Ask::Flush).unwrap();
    owner.close().unwrap();
    assert_eq!(steps(&run), [1]);
}

#[test]
fn a_step_larger_than_the_buffers_whose_file_cannot_be_made_durable_is_told_and_costs_itself_alone() {
    let dir = scratch();
    let run = dir.path().join("large.fb");
    let ill = Ill::default();
    ill.set(true);
    let disk = ill.disk(Errno::IO, |call, path| call == Call::Sync && is_file(path, "0000000000.h5"));
    let owner = Owner::open(&run, Options { disk, overflow: 0, ..Options::default() }).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
    rank.begin(0);
    let blocks = rank.array(0, "x", &f64s(N, 0), Place::Whole, 100_000);
    rank.publish(&Record::StepEarly { step: 0 });
    wait_for("the blocks", || {
        rank.allocator.reap();
        (rank.allocator.live() == 0).then_some(())
    });
    rank.end(0, blocks);
    let e = rank.ask(&Ask::WaitStep { step: 0 }).unwrap_err();
    assert!(e.text().contains("0000000000.h5") && e.text().contains("larger than the buffers"), "{e}");
    rank.step(1, &f64s(N, 1));
    rank.ask(&Ask::WaitStep { step: 1 }).unwrap();
    let said = Reader::open(&run).unwrap().sql("SELECT step, level FROM fb_messages", &[]).unwrap().rows;
    assert_eq!(said.len(), 1, "{said:?}");
    owner.close().unwrap();
    assert_eq!(steps(&run), [1]);
}

#[test]
fn a_step_larger_than_the_buffers_goes_on_where_a_write_failed() {
    let dir = scratch();
    let run = dir.path().join("large.fb");
    let failed = Arc::new(AtomicUsize::new(0));
    let times = failed.clone();
    let disk = Asked(move |call, path: &Path| {
        let fails = call == Call::Write && is_file(path, "0000000000.h5");
        match fails && times.fetch_add(1, Ordering::SeqCst).is_multiple_of(3) {
            true => Err(Errno::IO.into()),
            false => Ok(()),
        }
    });
    let options = Options { disk: Arc::new(disk), overflow: 0, ..Options::default() };
    let owner = Owner::open(&run, options).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
    rank.begin(0);
    rank.publish(&Record::StepEarly { step: 0 });
    let blocks = rank.array(0, "x", &f64s(N, 0), Place::Whole, 100_000);
    rank.end(0, blocks);
    rank.ask(&Ask::WaitStep { step: 0 }).unwrap();
    assert!(failed.load(Ordering::SeqCst) > 2);
    owner.close().unwrap();
    assert_eq!(steps(&run), [0]);
}

/// Hears that a session is over.
#[derive(Default)]
struct Heard(Mutex<Vec<(u64, bool)>>);

impl Sink for Heard {
    fn closed(&self, session: u64, clean: bool) {
        self.0.lock().unwrap().push((session, clean));
    }
}

#[test]
fn what_could_not_be_written_for_too_long_is_told_to_all_and_stays_for_recovery() {
    let dir = scratch();
    let run = dir.path().join("long.fb");
    let ill = Ill::default();
    ill.set(true);
    let disk = ill.disk(Errno::STALE, |call, path| call == Call::Write && is_file(path, "0000000001.h5"));
    let options = Options { disk, files: Duration::from_millis(100), ..Options::default() };
    let owner = Owner::open(&run, options).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
    (0..3).for_each(|step| rank.step(step, &f64s(N, step as u64)));
    let e = rank.ask(&Ask::Flush).unwrap_err();
    assert!(e.code() == Code::ServerLost && e.text().contains("step 1") && e.text().contains("lost"), "{e}");
    wait_for("the end of the session", || rank.is_closed().then_some(()));
    assert!(owner.flush(Duration::from_secs(20)).unwrap_err().text().contains("step 1"));
    assert!(owner.close().unwrap_err().text().contains("0000000001.h5"));
    assert_eq!(recover(&run).unwrap(), Some(2));
    assert_eq!(steps(&run), [0, 1, 2]);
}

/// Two ranks on a disk whose catalog cannot be written from the moment that `ill` says so.
fn two_ranks(run: &Path, ill: &Ill, errno: Errno, hiccup: Duration) -> (Owner, [Rank; 2], Arc<Heard>) {
    two_ranks_on(run, ill.disk(errno, |call, _| call == Call::Foreign(Foreign::Commit)), hiccup)
}

fn two_ranks_on(run: &Path, disk: Arc<dyn Disk>, hiccup: Duration) -> (Owner, [Rank; 2], Arc<Heard>) {
    let owner = Owner::open(run, Options { disk, hiccup, ..Options::default() }).unwrap();
    let heard = Arc::new(Heard::default());
    let ranks = [0, 1].map(|r| Rank::open_heard(&owner, r, 2, 8 << 20, heard.clone()));
    (owner, ranks, heard)
}

fn step_of_both(ranks: &mut [Rank; 2], step: i64) {
    let bytes = f64s(N, step as u64);
    for (i, r) in ranks.iter_mut().enumerate() {
        r.begin(step);
        let half = &bytes[i * bytes.len() / 2..][..bytes.len() / 2];
        let blocks = r.array(step, "x", half, Place::Append, usize::MAX);
        r.end(step, blocks);
    }
}

#[test]
fn whoever_waits_when_the_store_is_lost_is_told_why_at_once_and_nothing_is_lost_by_it() {
    for errno in [Errno::IO, Errno::ROFS, Errno::AGAIN, Errno::STALE, Errno::MFILE] {
        let dir = scratch();
        let run = dir.path().join("lost.fb");
        let (ill, gate) = (Ill::default(), Gate::default());
        let (is_ill, passes) = (ill.clone(), gate.clone());
        let disk = Arc::new(Asked(move |call, path: &Path| {
            if call == Call::Open && is_file(path, "0000000001.h5") {
                passes.pass();
            }
            match call == Call::Foreign(Foreign::Commit) && is_ill.0.load(Ordering::SeqCst) {
                true => Err(errno.into()),
                false => Ok(()),
            }
        }));
        let (owner, mut ranks, heard) = two_ranks_on(&run, disk, Duration::from_millis(100));
        step_of_both(&mut ranks, 0);
        ranks[0].ask(&Ask::WaitStep { step: 0 }).unwrap();
        gate.shut(true);
        step_of_both(&mut ranks, 1);
        let [a, b] = &mut ranks;
        let asks = [(a, Ask::WaitStep { step: 1 }), (b, Ask::Flush)].map(|(rank, ask)| {
            let json = serde_json::to_string(&ask).unwrap();
            let asked = rank.publish(&Record::Ask { json: &json });
            rank.settle();
            (rank, asked)
        });
        // Both wait. Now the catalog fails, and the step is to be listed in it.
        let began = Instant::now();
        std::thread::scope(|s| {
            let flush = s.spawn(|| owner.flush(Duration::from_secs(20)).unwrap_err());
            ill.set(true);
            gate.shut(false);
            let [first, second] = asks.map(|(rank, asked)| rank.answer(asked).unwrap_err());
            let told = [flush.join().unwrap(), first, second];
            assert!(
                told.iter().all(|e| e.text().contains("lost") && e.text().contains("catalog")),
                "{told:?}"
            );
        });
        assert!(began.elapsed() < Duration::from_secs(10));
        assert!(ranks.iter().all(Rank::is_closed));
        assert_eq!(*heard.0.lock().unwrap(), [(1, false), (2, false)]);
        assert!(owner.stats().unwrap_err().text().contains("lost"));
        assert!(owner.close().is_err());
        assert_eq!(recover(&run).unwrap(), Some(1));
        assert_eq!(steps(&run), [0, 1]);
    }
}

#[test]
fn a_catalog_that_fails_for_less_than_is_allowed_is_waited_for() {
    assert!(Options::default().hiccup > Duration::from_secs(30));
    let dir = scratch();
    let run = dir.path().join("hiccup.fb");
    let ill = Ill::default();
    let (owner, mut ranks, heard) = two_ranks(&run, &ill, Errno::ROFS, Duration::from_secs(20));
    ill.set(true);
    step_of_both(&mut ranks, 0);
    let waits = || owner.stats().unwrap()["waiting_for_disk"].as_bool().unwrap().then_some(());
    wait_for("the store to wait", waits);
    // Longer than a hundred attempts take.
    std::thread::sleep(Duration::from_millis(300));
    ill.set(false);
    for r in &mut ranks {
        r.ask(&Ask::Flush).unwrap();
        assert!(r.late.is_empty(), "{:?}", r.late);
    }
    assert!(heard.0.lock().unwrap().is_empty());
    drop(ranks);
    owner.close().unwrap();
    assert_eq!(steps(&run), [0]);
}

/// A run whose owner was given up with these steps in the segment of its rank.
fn left(run: &Path, fill: impl FnOnce(&mut Rank)) -> Rank {
    let ill = Ill::default();
    ill.set(true);
    let disk = ill.disk(Errno::NOSPC, |call, path| call == Call::Write && is_file(path, "00000000"));
    let owner = Owner::open(run, Options { disk, ..Options::default() }).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
    fill(&mut rank);
    rank.settle();
    owner.abandon().unwrap();
    assert_eq!(owner.close().unwrap_err().code(), Code::Cancelled);
    rank
}

#[test]
fn a_step_that_recovery_cannot_keep_is_its_error_and_stands_in_the_log_of_the_run() {
    let dir = scratch();
    let run = dir.path().join("bad.fb");
    let _rank = left(&run, |rank| {
        rank.step(0, &f64s(N, 0));
        // A piece that is not whole.
        rank.begin(1);
        let payload = rank.block(&f64s(N / 2, 1));
        let meta = ArrayMeta::new(DType::F64, shape(&[N]));
        let (step, name, units, place) = (1, "x", "", Place::Whole);
        let part = 0;
        rank.publish(&Record::StepBlock(StepBlock { step, name, units, meta, place, part, payload }));
        rank.end(1, 1);
        rank.step(2, &f64s(N, 2));
    });
    let e = recover(&run).unwrap_err();
    assert!(e.text().contains("step 1") && e.text().contains("everything else is recovered"), "{e}");
    let said = Reader::open(&run).unwrap().sql("SELECT text FROM fb_messages", &[]).unwrap().rows;
    assert!(said.len() == 1 && format!("{said:?}").contains("step 1"), "{said:?}");
    assert_eq!(recover(&run).unwrap(), Some(2), "what is given up is given up once");
    assert_eq!(steps(&run), [0, 2]);
}

#[test]
fn an_opening_that_waits_for_room_says_for_which_file_and_how_much() {
    let dir = scratch();
    let run = dir.path().join("waits.fb");
    let _rank = left(&run, |rank| rank.step(7, &f64s(N, 7)));
    let ill = Ill::default();
    ill.set(true);
    let disk = ill.disk(Errno::NOSPC, |call, path| call == Call::Write && is_file(path, "00000000"));
    let said = Arc::new(Mutex::new(Vec::new()));
    let (hears, well) = (said.clone(), ill.clone());
    let says = move |text: &str| {
        hears.lock().unwrap().push(text.to_owned());
        well.set(false);
    };
    let options = Options { disk, says: Some(Arc::new(says)), ..Options::default() };
    Owner::open(&run, options).unwrap().close().unwrap();
    let said = said.lock().unwrap().join("\n");
    for word in ["waits.fb", "step 7", "0000000007.h5", "156.2 KiB"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    assert_eq!(steps(&run), [7]);
    let quiet: PathBuf = dir.path().join("quiet.fb");
    let _rank = left(&quiet, |rank| rank.step(0, &f64s(N, 0)));
    let nothing = |text: &str| panic!("{text}");
    let progress = Arc::new(|_, _| {}) as forebay_store::Progress;
    recover_with(&quiet, Default::default(), &progress, Some(Arc::new(nothing))).unwrap();
}

#[test]
fn an_opening_whose_catalog_has_no_room_waits_and_says_so() {
    let dir = scratch();
    let run = dir.path().join("r.fb");
    Owner::open(&run, Options::default()).unwrap().close().unwrap();
    let full = Ill::default();
    full.set(true);
    let disk = full.disk(Errno::NOSPC, |call, _| matches!(call, Call::Foreign(Foreign::Commit)));
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (hears, room) = (heard.clone(), full.clone());
    let says = move |text: &str| {
        hears.lock().unwrap().push(text.to_owned());
        room.set(false);
    };
    let options = Options { disk: disk.clone(), says: Some(Arc::new(says)), ..Options::default() };
    Owner::open(&run, options).unwrap().close().unwrap();
    let heard = heard.lock().unwrap();
    assert!(heard.len() == 1 && heard[0].contains("waits for room on the disk"), "{heard:?}");
    // Where nobody would hear it, nobody waits.
    full.set(true);
    let e = Owner::open(&run, Options { disk, ..Options::default() }).err().unwrap();
    assert_eq!(e.code(), Code::Full);
}

#[derive(Default)]
struct Troubles(Mutex<Vec<String>>);

impl Sink for Troubles {
    fn trouble(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
}

#[test]
fn a_disk_that_does_not_answer_is_told_while_it_does_not_and_costs_nothing() {
    // Where the drain waits, and where the intake does.
    for call in [Call::Open, Call::Foreign(Foreign::Commit)] {
        let dir = scratch();
        let run = dir.path().join("frozen.fb");
        let gate = Gate::default();
        let there = gate.clone();
        let disk = Arc::new(Asked(move |asked, path: &Path| {
            if asked == call && (is_file(path, "0000000001.h5") || is_file(path, "catalog")) {
                there.pass();
            }
            Ok(())
        }));
        let options = Options { disk, silence: Duration::from_millis(20), ..Options::default() };
        let owner = Owner::open(&run, options).unwrap();
        let heard = Arc::new(Troubles::default());
        let mut rank = Rank::open_heard(&owner, 0, 1, 8 << 20, heard.clone());
        gate.shut(true);
        (0..3).for_each(|step| rank.step(step, &f64s(N, step as u64)));
        let told = |words: &str| {
            wait_for(words, || heard.0.lock().unwrap().iter().find(|text| text.contains(words)).cloned())
        };
        let text = told("has not answered");
        let figures = owner.stats().unwrap();
        gate.shut(false);
        assert!(text.contains(&run.display().to_string()), "{text}");
        assert_eq!(figures["waiting_for_disk"], true, "{figures}");
        assert!(figures["waits_for"].as_str().unwrap().contains("has not answered"), "{figures}");
        told("answers again");
        owner.flush(Duration::from_secs(20)).unwrap();
        assert_eq!(owner.stats().unwrap()["waiting_for_disk"], false);
        rank.ask(&Ask::Close { finished: true }).unwrap();
        owner.close().unwrap();
        assert_eq!(steps(&run), [0, 1, 2]);
    }
}
