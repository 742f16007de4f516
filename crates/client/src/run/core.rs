//! What all parts of a session share.

use std::collections::HashSet;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use forebay_arena::Segment;
use forebay_host::signals::Terminations;
use forebay_link::Wire;
use forebay_types::control::{Ask, Followed, Heads, History, LateErrors, OpenRun, RunOpened, word};
use forebay_types::record::Record;
use forebay_types::watch::Declare;
use forebay_types::{Code, Compression, Error, Result, limits};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::down::Down;
use super::life::Life;
use super::log::Log;
use super::numbers::{Back, LoopPosition, Numbers};
use super::patience::Patience;
use super::revive::Successor;
use super::room::Rooms;
use super::steer::Steer;

/// A check that waiting threads make now and then.
pub type Check = Arc<dyn Fn() -> Result<()> + Send + Sync>;

/// Who hears late errors that are warnings; its own error ends the call.
pub type Warn = Arc<dyn Fn(&Error) -> Result<()> + Send + Sync>;

/// The shared middle of a session; every part holds it by `Arc`.
pub struct Core {
    /// What was asked for when the run was opened.
    pub open: OpenRun,
    pub opened: RunOpened,
    /// The connection to the owner; its end is this session's.
    pub wire: Mutex<Option<Wire>>,
    /// Who finds a successor when the owner dies.
    pub successor: Option<Successor>,
    /// What was declared, for a successor.
    pub declared: Mutex<Vec<Declare>>,
    pub segment: Segment,
    pub life: Life,
    pub log: Log,
    pub down: Down,
    pub rooms: Mutex<Rooms>,
    pub steer: Steer,
    /// Listens for SIGTERM while a loop is on.
    pub attentive: Mutex<Option<Arc<Terminations>>>,
    pub counts: Counts,
    /// The number of the state that the program holds: that of the head in the body of a loop, where the loop
    /// ended behind it, where the run went back to before it; -1 before anybody has said it.
    pub position: AtomicI64,
    /// [`BODY`] or [`BEHIND`]; 0 before a loop, and after one that was left.
    pub phase: AtomicU8,
    /// How far the next head is; 0 where the program goes through its steps by itself.
    pub stride: AtomicU32,
    /// Counts the loops that were begun.
    pub loops: AtomicU64,
    /// Simulated time as last told, bits of a double; NaN before.
    pub time: AtomicU64,
    /// The snapshot being taken, if any.
    pub open_step: Mutex<Option<OpenStep>>,
    /// The last snapshot ended; `i64::MIN` for none.
    pub last_ended: AtomicI64,
    /// Numbers of snapshots.
    pub numbers: Mutex<Numbers>,
    /// The last snapshot that was not taken since it stands already; -1 before one.
    pub stood: AtomicI64,
    /// The run went back behind a step that was durable: `DURABLE` may mean the one that was put aside.
    pub went_back: AtomicBool,
    /// Bytes of a rank in the last step of the run, if it had one when it was opened.
    pub last_bytes: OnceLock<u64>,
    /// Diagrams declared.
    pub diagrams: AtomicU32,
    /// [`LOOPING`] from the beginning of a loop until it comes to its end.
    pub looped: AtomicU8,
    /// Whether it is still to be said that the run had complete steps when this life of it began.
    pub standing: AtomicBool,
    /// [`word::FROM`] as it was seen last.
    pub from: AtomicU64,
    /// One more than the state that the run went back to, while what an earlier start put under it stands; 0 for none.
    pub stands: AtomicI64,
    /// Histories in which what an earlier start put under that state does not stand any more.
    pub made_again: Mutex<HashSet<History>>,
    /// Number of the request to close whose answer was not waited for; 0 for none.
    pub closing: AtomicU64,
    pub check: RwLock<Option<Check>>,
    /// What the next head heeds: [`FINISH`], [`RECKON`].
    pub heed: AtomicU8,
    /// What becomes of late errors.
    pub late: RwLock<(LateErrors, Option<Warn>)>,
    /// What other readers of meshes and particles do not get, as far as it was said.
    pub remarked: Mutex<HashSet<String>>,
    /// What every snapshot has.
    pub(super) constants: Mutex<Vec<Arc<super::constants::Constant>>>,
    /// How arrays of snapshots are compressed that do not say it.
    pub compress: OnceLock<Compression>,
}

/// A snapshot being taken.
pub struct OpenStep {
    pub step: i64,
    /// The owner was told to let go of its blocks as soon as they are written: only the disk can vouch for it.
    pub early: bool,
}

/// A loop has begun and not come to its end.
pub const LOOPING: u8 = 1;
/// A loop came to its end.
pub const LOOPED: u8 = 2;

/// What a program does that finds complete steps it has not gone back to.
pub const WAYS_OUT: &str = "call restart (fb_restart) before the loop to go on where they end, or begin anew with mode \"w\" or under another name";

/// A loop is under way.
pub const BODY: u8 = 1;
/// A loop has ended where the position says.
pub const BEHIND: u8 = 2;
/// A loop was left in the body of a step, as by `break`.
pub const LEFT: u8 = 3;

/// The program has said that the loop ends at its next head.
pub const FINISH: u8 = 1;
/// What is kept every so many steps has changed in the body of the loop.
pub const RECKON: u8 = 2;

/// What a session counts on its own.
#[derive(Default)]
pub struct Counts {
    pub visible_ns: AtomicU64,
    pub steps: AtomicU64,
    pub dropped: AtomicU64,
    pub snapshot_bytes: AtomicU64,
    pub put_bytes: AtomicU64,
    pub overflow_bytes: AtomicU64,
    /// Finite values that became infinite with less precision.
    pub lost_range: AtomicU64,
    pub waited_ns: AtomicU64,
    /// The fastest copy of at least [`TELLING`] bytes, in nanoseconds a MiB; 0 before one.
    pub copy_ns: AtomicU64,
}

/// So many things are said once.
const REMARKS: usize = 100;

/// A copy of fewer bytes tells little about how fast memory is.
const TELLING: u64 = 1 << 20;

impl Counts {
    /// Does a copy of so many bytes and takes its time.
    pub fn copied(&self, bytes: u64, copy: impl FnOnce()) {
        if bytes < TELLING {
            return copy();
        }
        let began = Instant::now();
        copy();
        let ns = (began.elapsed().as_nanos() as u64).max(1);
        let a_mib = (((ns as u128) << 20) / bytes as u128).max(1) as u64;
        let _ = self.copy_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |known| {
            (known == 0 || a_mib < known).then_some(a_mib)
        });
    }

    /// What copying everything that was put would have cost at the speed of the fastest copy.
    pub fn ideal_ns(&self) -> Option<u64> {
        let a_mib = Some(self.copy_ns.load(Ordering::Relaxed)).filter(|ns| *ns > 0)?;
        let put = self.snapshot_bytes.load(Ordering::Relaxed) + self.put_bytes.load(Ordering::Relaxed);
        Some(((put as u128 * a_mib as u128) >> 20) as u64)
    }
}

impl Core {
    /// The snapshot being taken.
    pub fn open_step(&self) -> MutexGuard<'_, Option<OpenStep>> {
        self.open_step.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Numbers of snapshots.
    pub fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Learns it also where the owner is on another host: a rank may have heard from another one before the word
    /// came. It is told before every answer.
    pub fn follow_surely(&self) -> Result<()> {
        if self.opened.remote {
            self.ask::<Followed>(&Ask::Follow { step: None })?;
        }
        self.follow()
    }

    /// Learns that another rank has gone back, for all of them.
    pub fn follow(&self) -> Result<()> {
        let from = self.segment.word(word::FROM).load(Ordering::SeqCst);
        if self.from.load(Ordering::Relaxed) == from {
            return Ok(());
        }
        // Nothing is behind the beginning that could be forgotten.
        if from != word::BEGINNING {
            let to = from as i64 - 1;
            let followed: Followed = self.ask(&Ask::Follow { step: Some(to) })?;
            self.restore(&followed.parameters)?;
            self.go_back(Some(Back { step: to, heads: followed.heads }));
        }
        self.from.store(from, Ordering::Relaxed);
        Ok(())
    }

    /// The state that the program holds is that of another step now, or of none.
    pub fn go_back(&self, to: Option<Back>) {
        self.numbers().go_back(to);
        // A number of the program's own says nothing of the state.
        let position = to.filter(|back| back.heads.is_none()).map_or(-1, |back| back.step);
        self.position.store(position, Ordering::Relaxed);
        self.stands.store(position + 1, Ordering::Relaxed);
        self.made_again.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.phase.store(0, Ordering::Relaxed);
        self.heed.store(0, Ordering::Relaxed);
        self.steer.kept.store(-1, Ordering::Relaxed);
    }

    /// A loop begins where the program says, which may be the only one who knows: what it computes again goes.
    pub fn go_on(&self, start: i64) -> Result<()> {
        let (is_own, is_back_at) = {
            let numbers = self.numbers();
            (numbers.is_back_without_saying_where(), numbers.is_back_at(start))
        };
        if is_own {
            let () = self.ask(&Ask::GoOn { start, only: None })?;
        } else if is_back_at {
            self.makes_again()?;
        }
        // Who goes on behind that state makes nothing under it.
        self.stands.store(0, Ordering::Relaxed);
        self.steer.again.store(if is_back_at { start + 1 } else { 0 }, Ordering::Relaxed);
        self.numbers().begun();
        Ok(())
    }

    /// The program is at the state that the run went back to, or takes a snapshot behind it: what an earlier start put
    /// under that state is made again, and goes. A program that only looks at the state leaves it as it was.
    pub fn makes_again(&self) -> Result<()> {
        self.again(|start, _| {
            let () = self.ask(&Ask::GoOn { start, only: None })?;
            self.stands.store(0, Ordering::Relaxed);
            Ok(())
        })
    }

    /// The program adds to a history before it is at a head: it makes that one again, and perhaps no other.
    pub fn makes_again_in(&self, history: History) -> Result<()> {
        self.again(|start, made| {
            if !made.contains(&history) {
                let () = self.ask(&Ask::GoOn { start, only: Some(history) })?;
                made.insert(history);
            }
            Ok(())
        })
    }

    /// Does `make` in one thread after the other, while what an earlier start put under the state that the run went
    /// back to stands.
    fn again(&self, make: impl FnOnce(i64, &mut HashSet<History>) -> Result<()>) -> Result<()> {
        if self.stands.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let mut made = self.made_again.lock().unwrap_or_else(PoisonError::into_inner);
        match self.stands.load(Ordering::Relaxed) {
            0 => Ok(()),
            stands => make(stands - 1, &mut made),
        }
    }

    /// What Save keeps is the state of the head that it is called for. A number of the program's own is its affair.
    pub fn may_keep(&self, step: i64, at: &LoopPosition) -> Result<()> {
        let head = self.steer.keeping.load(Ordering::Relaxed) - 1;
        if head < 0 || step == head || !at.means(step) {
            return Ok(());
        }
        Err(Error::new(
            Code::Conflict,
            format!(
                "the function of run.saves (fb_on_save) keeps the state of step {head}, and {step} is the number of the one behind the next step: give the snapshot the number that the function was given"
            ),
        ))
    }

    /// Whether this life of the run began on complete steps and has not gone back: what it would write mixes with
    /// what is there.
    pub fn is_mixing(&self) -> Option<i64> {
        self.opened.begun.filter(|_| self.from.load(Ordering::Relaxed) == 0)
    }

    /// Whether SIGTERM came in the body of a loop, which is to end at its next head.
    pub fn is_to_end(&self) -> bool {
        let signals = self.attentive.lock().unwrap_or_else(|e| e.into_inner());
        signals.as_ref().is_some_and(|s| s.came()) && !self.steer.quitting()
    }

    /// What the disk is waited for, in words, if it has no room or fails.
    pub fn waits_for_disk(&self) -> Result<Option<String>> {
        let figures: Map<String, Value> = self.ask(&Ask::Stats)?;
        let waits = figures.get("waiting_for_disk").and_then(Value::as_bool).unwrap_or(false);
        let why = figures.get("waits_for").and_then(Value::as_str).unwrap_or("the disk");
        Ok(waits.then(|| why.to_owned()))
    }

    /// Where this rank is.
    pub fn place(&self) -> LoopPosition {
        let position = Some(self.position.load(Ordering::Relaxed)).filter(|step| *step >= 0);
        let phase = self.phase.load(Ordering::Relaxed);
        let stride = match phase {
            BODY => self.stride.load(Ordering::Relaxed),
            BEHIND => Heads::ENDED,
            _ => 0,
        };
        let next = || i64::from(self.stride.load(Ordering::Relaxed).max(1));
        let left = position.filter(|_| phase == LEFT).map(|step| step.saturating_add(next()));
        LoopPosition { position, stride, looping: phase == BODY, behind: phase == BEHIND, left }
    }

    /// Fails for a client: that is the ranks' alone.
    pub fn ranks_alone(&self, what: &str) -> Result<()> {
        if !self.open.is_client() {
            return Ok(());
        }
        Err(Error::bad(format!(
            "{what} is the ranks' alone, and the run {} is open as a client; do it in the program of the run, which does not say that it is a client",
            self.open.path
        )))
    }

    /// What rows, points and messages bear: the number of the state that they belong to. Without a loop it is that of
    /// the last snapshot: what is written behind it is written again when the run goes back to it.
    pub fn stamp(&self) -> i64 {
        let position = self.position.load(Ordering::Relaxed);
        match self.phase.load(Ordering::Relaxed) {
            0 => self.numbers().behind().map_or(position, |step| position.max(step)),
            _ => position,
        }
    }

    /// The first thing every call does: is the session good, and did something fail behind its back?
    pub fn enter(&self) -> Result<()> {
        self.living().map_err(|e| self.explained(e))?;
        if self.closing.load(Ordering::Relaxed) != 0 {
            return Err(self.is_closing());
        }
        self.late()
    }

    /// Tells errors that belong to something acknowledged earlier, one after the other, as the policy wants them
    /// told.
    pub fn late(&self) -> Result<()> {
        while let Err(e) = self.down.late() {
            self.tell_late(e)?;
        }
        Ok(())
    }

    /// Tells all errors that belong to something acknowledged earlier, at the last call.
    pub fn all_late(&self) -> Result<()> {
        match self.late_errors() {
            LateErrors::Raise => self.down.all_late(),
            _ => self.late(),
        }
    }

    fn late_errors(&self) -> LateErrors {
        self.late.read().unwrap_or_else(|e| e.into_inner()).0
    }

    #[cold]
    fn tell_late(&self, e: Error) -> Result<()> {
        let (policy, warn) = self.late.read().unwrap_or_else(|e| e.into_inner()).clone();
        match (policy, warn) {
            (LateErrors::Raise, _) => Err(e),
            (LateErrors::Ignore, _) => Ok(()),
            (LateErrors::Warn, Some(warn)) => warn(&e),
            (LateErrors::Warn, None) => {
                say(&format!("{}: {}", self.open.path, e.text()));
                Ok(())
            }
        }
    }

    #[cold]
    pub fn is_closing(&self) -> Error {
        let run = &self.open.path;
        Error::new(
            Code::Closed,
            format!(
                "the run {run} is being closed; open it again, or close it again if that was interrupted"
            ),
        )
    }

    /// What the owner said before it went, if it said anything, else the error itself. While another
    /// thread closes the session its end is no loss.
    pub fn explained(&self, e: Error) -> Error {
        if e.code() != Code::ServerLost || self.life.is_deleted() {
            return e;
        }
        if self.life.is_moved() {
            return self.where_moved(e);
        }
        if self.closing.load(Ordering::Relaxed) != 0 {
            // The owner let go of the session because this side asked for it.
            return self.is_closing();
        }
        // It is told as late still: the answer may have come just before the owner went.
        self.down
            .said()
            .map_or(e.clone(), |why| Error::new(e.code(), format!("{}: {}", e.text(), why.text())))
    }

    /// Gives for a run whose directory was moved what the owner says of it, which knows where it is now; else the
    /// error.
    pub fn where_moved(&self, e: Error) -> Error {
        if self.life.is_moved() { self.down.why_lost().unwrap_or(e) } else { e }
    }

    /// A wait for the owner.
    pub fn patience(&self) -> Patience<'_> {
        Patience::new(self)
    }

    /// The user's check.
    pub fn interrupted(&self) -> Result<()> {
        let check = self.check.read().unwrap_or_else(|e| e.into_inner()).clone();
        check.map_or(Ok(()), |check| check())
    }

    /// Says, once and in one rank, that the steps in the run are none of this life's doing: a program that begins
    /// anew is refused each of its snapshots, and may not look.
    pub fn remark_standing(&self) {
        let Some(last) = self.is_mixing() else { return };
        if self.open.rank != 0 || !self.standing.swap(false, Ordering::Relaxed) {
            return;
        }
        let run = &self.open.path;
        say(&format!("{run} has complete steps up to {last}, and no snapshot is added to them; {WAYS_OUT}"));
    }

    /// Says, once and in one rank, that there is nothing to go on with.
    pub fn remark_complete(&self, step: i64, n: i64) {
        if self.open.rank == 0 {
            let run = &self.open.path;
            say(&format!("{run} is complete already: it is at step {step}, and the loop goes to {n}"));
        }
    }

    /// A message for people that is said once in a session.
    pub fn remark_once(&self, level: u8, text: String) -> Result<()> {
        let mut remarked = self.remarked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = remarked.len() < REMARKS && remarked.insert(text.clone());
        drop(remarked);
        if is_new { self.message(level, &text) } else { Ok(()) }
    }

    /// A message for people.
    pub fn message(&self, level: u8, text: &str) -> Result<()> {
        if text.len() > limits::JSON_BYTES {
            return Err(Error::bad(format!(
                "a message of {} bytes, {} are the most; shorten it",
                text.len(),
                limits::JSON_BYTES
            )));
        }
        let step = self.stamp();
        self.publish(&Record::Message { level, step, text }).map(|_| ())
    }

    /// Asks the owner and waits for the answer.
    pub fn ask<T: DeserializeOwned>(&self, ask: &Ask) -> Result<T> {
        self.ask_within(ask, None)
    }

    /// Asks the owner and waits for the answer, at most for `timeout`.
    pub fn ask_within<T: DeserializeOwned>(&self, ask: &Ask, timeout: Option<Duration>) -> Result<T> {
        let mut seq = 0;
        let sent = self.send_ask(ask, &mut |number| seq = number);
        let answer = sent.and_then(|_| self.await_answer(seq, timeout));
        answer.or_else(|e| self.last_words(seq, e)).and_then(|text| from_json(&text))
    }

    /// Sends a request; its number, which `before` learns before the owner can see it.
    pub fn send_ask(&self, ask: &Ask, before: &mut dyn FnMut(u64)) -> Result<u64> {
        let json = to_json(ask)?;
        self.publish_after(&Record::Ask { json: &json }, &mut |number| {
            before(number);
            self.down.expect(number, &json);
        })
    }

    /// Waits for the answer to the request of that number.
    pub fn await_answer(&self, seq: u64, timeout: Option<Duration>) -> Result<String> {
        let mut patience = self.patience().at_most(timeout);
        loop {
            match self.down.answer(seq, patience.slice())? {
                Some(Ok(text)) => return Ok(text),
                Some(Err(e)) => {
                    // What is told here need not be told again at the next call.
                    self.down.told(&e);
                    return Err(e);
                }
                None => patience.look("the owner's answer")?,
            }
        }
    }

    /// Gives the answer to the request `seq` that an owner may have left as its last act, else the error: it has
    /// closed the session then, perhaps before we looked, and the answer is there all the same.
    pub fn last_words(&self, seq: u64, e: Error) -> Result<String> {
        let answer = self.down.answer(seq, Duration::ZERO);
        self.down.forget(seq);
        match answer {
            Ok(Some(answer)) => answer,
            _ => Err(e),
        }
    }

    /// Time from here to the drop of the result counts as visible output time.
    pub fn visible(&self) -> Visible<'_> {
        Visible { core: self, began: Instant::now() }
    }
}

/// Counts visible time while it lives.
pub struct Visible<'a> {
    core: &'a Core,
    began: Instant,
}

impl Drop for Visible<'_> {
    fn drop(&mut self) {
        let ns = self.began.elapsed().as_nanos() as u64;
        let total = self.core.counts.visible_ns.fetch_add(ns, Ordering::Relaxed) + ns;
        let (counts, word) = (&self.core.counts, |i| self.core.segment.word(i));
        word(word::VISIBLE_NS).store(total, Ordering::Relaxed);
        word(word::IDEAL_NS).store(counts.ideal_ns().unwrap_or(0), Ordering::Relaxed);
        word(word::OVERFLOW_BYTES).store(counts.overflow_bytes.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// A line for whoever sits at the terminal; nobody may be there to read it.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "forebay: {text}");
}

/// A value as the JSON that travels; refused beyond the limit.
pub fn to_json(value: &impl serde::Serialize) -> Result<String> {
    let json = serde_json::to_string(value)
        .map_err(|e| Error::bad(format!("a value cannot be written as JSON: {e}")))?;
    if json.len() > limits::JSON_BYTES {
        return Err(Error::bad(format!(
            "attributes, conditions or a declaration of {} bytes are beyond the limit of {}; make them shorter",
            json.len(),
            limits::JSON_BYTES
        )));
    }
    Ok(json)
}

fn from_json<T: DeserializeOwned>(json: &str) -> Result<T> {
    serde_json::from_str(json).map_err(|e| {
        Error::new(Code::VersionMismatch, format!("the owner's answer {json} is not understood: {e}"))
    })
}
