//! Notices to the ranks: the down rings. Any thread posts; what does not fit waits here, up to a
//! limit, until the rank has read.

use forebay_arena::{Bell, Direction, Producer, Segment};
use forebay_types::codec::Writer;
use forebay_types::control::word;
use forebay_types::record::Notice;
use forebay_types::{Code, Error, Result};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard};

/// Most notices that wait for a rank that does not read.
const WAITING: usize = 4096;

struct Line {
    segment: Segment,
    producer: Producer,
    bell: Bell,
    waiting: VecDeque<Vec<u8>>,
}

impl Line {
    fn flush(&mut self) {
        let mut pushed = false;
        while let Some(first) = self.waiting.front() {
            match self.producer.push(&[first]) {
                Ok(()) => pushed = true,
                Err(full) if full.for_ever() => {}
                Err(_) => break,
            }
            self.waiting.pop_front();
        }
        if pushed {
            self.segment.word(word::NOTICE).fetch_add(1, Ordering::SeqCst);
            self.bell.ring();
        }
    }
}

/// The down rings of all sessions.
#[derive(Default)]
pub(super) struct Downs {
    lines: Mutex<HashMap<u64, Line>>,
}

impl Downs {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Line>> {
        self.lines.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub fn open(&self, session: u64, segment: &Segment) {
        let line = Line {
            producer: segment.producer(Direction::Down),
            bell: segment.bell(Direction::Down),
            segment: segment.clone(),
            waiting: VecDeque::new(),
        };
        self.lock().insert(session, line);
    }

    pub fn close(&self, session: u64) {
        self.lock().remove(&session);
    }

    pub fn post(&self, session: u64, notice: &Notice) -> Result<()> {
        let mut lines = self.lock();
        let line = lines
            .get_mut(&session)
            .ok_or_else(|| Error::new(Code::Closed, format!("session {session} is closed")))?;
        if line.waiting.len() >= WAITING {
            return Err(Error::new(
                Code::Full,
                format!("the rank of session {session} reads no notices; {WAITING} wait for it"),
            ));
        }
        let mut w = Writer::new();
        notice.encode(&mut w);
        line.waiting.push_back(w.finish());
        line.flush();
        Ok(())
    }

    /// Tries again what waited.
    pub fn flush(&self) {
        self.lock().values_mut().filter(|l| !l.waiting.is_empty()).for_each(Line::flush);
    }
}
