//! What comes down from the owner: answers, acts of steering, late errors.
//!
//! Whoever waits reads the ring for everybody: one thread at a time sleeps at the bell, the
//! others at a condition variable, and what is not for the reader is kept for whom it is for.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use forebay_arena::{Bell, Consumer, Direction, Segment, Spin};
use forebay_types::control::word;
use forebay_types::record::Notice;
use forebay_types::watch::Act;
use forebay_types::{Code, Error, Result};

use super::core::say;

/// Most late errors kept; further ones are counted in the last.
const LATE: usize = 16;
/// Most of them told together.
const TOLD: usize = 8;

/// An act of steering that waits for its step.
#[derive(Debug)]
pub struct Due {
    /// The act's number.
    pub id: u64,
    /// Where it takes place.
    pub step: i64,
    /// What it is, or why it cannot be read.
    pub act: Result<Act>,
}

struct State {
    consumer: Consumer,
    buf: Vec<u8>,
    spin: Spin,
    /// Requests whose answers are wanted, by number, as they were asked.
    awaited: HashMap<u64, String>,
    answers: HashMap<u64, Result<String>>,
    acts: VecDeque<Due>,
    late: VecDeque<Error>,
    /// Why the store is lost, as it said itself.
    lost: Option<Error>,
    reading: bool,
    broken: Option<Error>,
}

/// The receiving end of a session.
pub struct Down {
    segment: Segment,
    bell: Bell,
    seen: AtomicU64,
    has_late: AtomicBool,
    /// Late errors that came.
    came_late: AtomicU64,
    state: Mutex<State>,
    turn: Condvar,
}

impl Down {
    /// The receiving end of that segment.
    pub fn new(segment: &Segment) -> Down {
        Down {
            segment: segment.clone(),
            bell: segment.bell(Direction::Down),
            seen: AtomicU64::new(0),
            has_late: AtomicBool::new(false),
            came_late: AtomicU64::new(0),
            state: Mutex::new(State {
                consumer: segment.consumer(Direction::Down),
                buf: Vec::new(),
                spin: Spin::new(),
                awaited: HashMap::new(),
                answers: HashMap::new(),
                acts: VecDeque::new(),
                late: VecDeque::new(),
                lost: None,
                reading: false,
                broken: None,
            }),
            turn: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Two loads: whether the owner has said something that nobody has read.
    #[inline]
    pub fn news(&self) -> bool {
        self.segment.word(word::NOTICE).load(Ordering::Acquire) != self.seen.load(Ordering::Relaxed)
    }

    /// Reads what is there.
    pub fn read(&self) {
        self.read_all(&mut self.lock());
    }

    fn read_all(&self, state: &mut State) {
        let notice = self.segment.word(word::NOTICE).load(Ordering::Acquire);
        while state.broken.is_none() {
            let State { consumer, buf, .. } = state;
            match consumer.next(buf) {
                Ok(Some(position)) => {
                    let buf = std::mem::take(&mut state.buf);
                    self.keep(state, &buf);
                    state.buf = buf;
                    state.consumer.release_to(position);
                }
                Ok(None) => break,
                Err(e) => state.broken = Some(e),
            }
        }
        self.seen.store(notice, Ordering::Relaxed);
    }

    fn keep(&self, state: &mut State, bytes: &[u8]) {
        match Notice::decode(bytes) {
            Ok(Notice::Answer { seq, code, text }) => {
                // An answer nobody waits for any more: its caller gave up.
                if state.awaited.remove(&seq).is_some() {
                    let answer = match code {
                        0 => Ok(text.to_owned()),
                        code => Err(coded(code, text)),
                    };
                    state.answers.insert(seq, answer);
                    self.turn.notify_all();
                }
            }
            Ok(Notice::Apply { id, step, json }) => {
                let act = serde_json::from_str(json)
                    .map_err(|e| Error::bad(format!("the act {json} is not known to this program: {e}")));
                state.acts.push_back(Due { id, step, act });
            }
            Ok(Notice::Late { code, text }) => {
                if code == Code::ServerLost as u32 {
                    state.lost = Some(coded(code, text));
                }
                if state.late.len() < LATE {
                    state.late.push_back(coded(code, text));
                }
                self.came_late.fetch_add(1, Ordering::Relaxed);
                self.has_late.store(true, Ordering::Release);
            }
            Ok(Notice::Remark { text }) => say(text),
            Err(e) => state.broken = Some(e),
        }
    }

    /// An error that belongs to something acknowledged earlier; each is reported once.
    pub fn late(&self) -> Result<()> {
        if self.news() {
            self.read();
        }
        if !self.has_late.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut state = self.lock();
        let error = state.late.pop_front();
        self.has_late.store(!state.late.is_empty(), Ordering::Release);
        error.map_or(Ok(()), Err)
    }

    /// The first of these errors, which stays to be reported.
    pub fn said(&self) -> Option<Error> {
        let mut state = self.lock();
        self.read_all(&mut state);
        state.late.front().cloned()
    }

    /// Why the store is lost, if it said so, told already or not.
    pub fn why_lost(&self) -> Option<Error> {
        let mut state = self.lock();
        self.read_all(&mut state);
        state.lost.clone()
    }

    /// That error has been told as the answer to a request: it is not told late as well.
    pub fn told(&self, error: &Error) {
        let mut state = self.lock();
        state.late.retain(|e| e.code() != error.code() || e.text() != error.text());
        self.has_late.store(!state.late.is_empty(), Ordering::Release);
    }

    /// All errors that came late, as one; for the last call of all.
    pub fn all_late(&self) -> Result<()> {
        let first = self.late();
        let rest = std::mem::take(&mut self.lock().late);
        self.has_late.store(false, Ordering::Release);
        first.map_err(|e| Error::new(e.code(), together(&e, &rest)))
    }

    /// How many errors have come late, told or not.
    pub fn all_that_came_late(&self) -> u64 {
        if self.news() {
            self.read();
        }
        self.came_late.load(Ordering::Relaxed)
    }

    /// The acts that take place at `step` or before, in the order they were sent.
    pub fn due(&self, step: i64) -> Vec<Due> {
        let mut state = self.lock();
        self.read_all(&mut state);
        let all = std::mem::take(&mut state.acts);
        let (due, rest): (Vec<Due>, Vec<Due>) = all.into_iter().partition(|a| a.step <= step);
        state.acts = rest.into();
        if let Some(last) = due.iter().map(|due| due.id).max() {
            self.segment.word(word::DONE).fetch_max(last, Ordering::SeqCst);
        }
        due
    }

    /// Nothing that a dead owner has sent is carried out from now on.
    pub fn forget_acts(&self) {
        let mut state = self.lock();
        self.read_all(&mut state);
        state.acts.clear();
    }

    /// Says before a request is sent that its answer is wanted.
    pub fn expect(&self, seq: u64, json: &str) {
        self.lock().awaited.insert(seq, json.to_owned());
    }

    /// Requests that wait for their answers, for a successor of the owner.
    pub fn awaited(&self) -> Vec<(u64, String)> {
        self.lock().awaited.iter().map(|(seq, json)| (*seq, json.clone())).collect()
    }

    /// The answer will not be waited for.
    pub fn forget(&self, seq: u64) {
        let mut state = self.lock();
        state.awaited.remove(&seq);
        state.answers.remove(&seq);
    }

    /// The answer if it has come; otherwise waits at most `slice`, or until something comes.
    pub fn answer(&self, seq: u64, slice: Duration) -> Result<Option<Result<String>>> {
        let mut state = self.lock();
        self.read_all(&mut state);
        if let Some(answer) = state.answers.remove(&seq) {
            return Ok(Some(answer));
        }
        if let Some(e) = &state.broken {
            return Err(e.clone());
        }
        if state.reading {
            let (mut state, _) = self.turn.wait_timeout(state, slice).unwrap_or_else(|e| e.into_inner());
            return Ok(state.answers.remove(&seq));
        }
        let mut state = self.sleep(state, slice, || false);
        self.read_all(&mut state);
        Ok(state.answers.remove(&seq))
    }

    /// Waits at most `slice` for news or for `also`.
    pub fn wait(&self, slice: Duration, also: impl FnMut() -> bool) {
        let state = self.lock();
        if state.reading {
            drop(self.turn.wait_timeout(state, slice));
            return;
        }
        drop(self.sleep(state, slice, also));
    }

    /// Sleeps at the bell as the one reader, with the lock given up meanwhile.
    fn sleep<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        slice: Duration,
        mut also: impl FnMut() -> bool,
    ) -> MutexGuard<'a, State> {
        state.reading = true;
        let mut spin = std::mem::take(&mut state.spin);
        drop(state);
        self.bell.wait(|| self.news() || also(), Some(Instant::now() + slice), &mut spin);
        let mut state = self.lock();
        state.spin = spin;
        state.reading = false;
        self.turn.notify_all();
        state
    }
}

/// Errors as one text, each on a line of its own and once.
fn together(first: &Error, rest: &VecDeque<Error>) -> String {
    let mut lines = vec![first.text()];
    for e in rest {
        if !lines.contains(&e.text()) {
            lines.push(e.text());
        }
    }
    let more = lines.len().saturating_sub(TOLD);
    lines.truncate(TOLD);
    let mut text = lines.join("\n  also: ");
    if more > 0 {
        text.push_str(&format!("\n  and {more} more, which the run keeps as messages"));
    }
    text
}

/// An error as it travels.
pub fn coded(code: u32, text: &str) -> Error {
    Error::new(Code::from_number(code).unwrap_or(Code::Internal), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_late_is_told_line_by_line_and_once() {
        let late = |text: String| Error::new(Code::Io, text);
        let rest: VecDeque<Error> = (0..12).map(|n| late(format!("step {} is lost", n / 2))).collect();
        let told = together(&late("step 0 is lost".into()), &rest);
        assert_eq!(told.matches("is lost").count(), 6, "{told}");
        assert!(told.starts_with("step 0 is lost\n  also: step 1 is lost"), "{told}");
        let many: VecDeque<Error> = (0..15).map(|n| late(format!("step {n} is lost"))).collect();
        assert!(
            together(&late("x".into()), &many).ends_with("\n  and 8 more, which the run keeps as messages")
        );
        assert_eq!(together(&late("x".into()), &VecDeque::new()), "x");
    }
}
