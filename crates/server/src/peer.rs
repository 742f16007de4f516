//! One attached client: its segment, and the way of replies to it.
//!
//! A client that does not read its replies must not hold up the others: what its ring has no
//! room for waits here, in memory of the server, and goes out later. Whoever lets too much wait
//! is cut off.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use std::sync::Arc;

use forebay_arena::{Direction, Segment};
use forebay_link::{Header, ShmSender, Wire};
use forebay_types::call::{self, REPLY_BYTES, word};

use crate::held::{Arrays, Budget};

/// Most bytes of replies that wait for one client.
const WAITING_BYTES: usize = 2 * REPLY_BYTES;

pub(crate) struct Peer {
    pub client: u64,
    pub segment: Segment,
    /// What this server holds for it.
    pub arrays: Arrays,
    gone: AtomicBool,
    down: Mutex<Down>,
    wire: Mutex<Wire>,
}

struct Down {
    sender: ShmSender,
    waiting: VecDeque<(Header, Vec<u8>)>,
    bytes: usize,
}

/// A mutex whose data stay whole even if a holder panicked: each is changed in single steps.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Peer {
    pub fn new(client: u64, segment: Segment, sender: ShmSender, wire: Wire, budget: Arc<Budget>) -> Peer {
        let down = Mutex::new(Down { sender, waiting: VecDeque::new(), bytes: 0 });
        Peer {
            client,
            segment,
            arrays: Arrays::new(budget),
            gone: AtomicBool::new(false),
            down,
            wire: Mutex::new(wire),
        }
    }

    /// Whether its connection ended, or it was cut off.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// How many of its requests no worker has taken yet.
    pub fn waiting(&self) -> u64 {
        if self.is_gone() { 0 } else { self.segment.waiting(Direction::Up) }
    }

    pub fn cut_off(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }

    /// Looks whether the client's process hung up, or gave this server up; one system call.
    pub fn look(&self) {
        let given_up = self.segment.word(word::ABANDONED).load(Ordering::Relaxed) != 0;
        if given_up || lock(&self.wire).peer_gone() {
            self.cut_off();
        }
    }

    /// Whether it still wants the result of a request.
    pub fn wants(&self, request: u64) -> bool {
        let cancel = self.segment.word(word::CANCEL + (request % word::CANCELS as u64) as usize);
        !self.is_gone()
            && self.segment.word(word::ABANDONED).load(Ordering::Relaxed) == 0
            && cancel.load(Ordering::Relaxed) != request
    }

    /// Shows that this process lives.
    pub fn beat(&self) {
        let heart: &AtomicU64 = self.segment.word(word::HEARTBEAT);
        heart.store(heart.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Sends a reply, or lets it wait. Returns whether something waits now.
    pub fn send(&self, request: u64, body: &[u8]) -> bool {
        let mut down = lock(&self.down);
        let (parts, last) = body.split_at(last_part(body.len()));
        for part in parts.chunks(call::PART_BYTES) {
            down.put(Header::new(call::kind::REPLY_PART, request), part);
        }
        down.put(Header::new(call::kind::REPLY, request), last);
        down.sender.ring();
        if down.bytes > WAITING_BYTES {
            self.cut_off();
        }
        !down.waiting.is_empty()
    }

    /// Sends what waits, as far as there is room. Returns whether something still waits.
    pub fn flush(&self) -> bool {
        let mut down = lock(&self.down);
        if down.waiting.is_empty() || self.is_gone() {
            return false;
        }
        while let Some((header, body)) = down.waiting.pop_front() {
            if down.sender.send_quietly(&header, &[&body]).is_err() {
                down.waiting.push_front((header, body));
                break;
            }
            down.bytes -= body.len();
        }
        down.sender.ring();
        !down.waiting.is_empty()
    }
}

impl Down {
    fn put(&mut self, header: Header, body: &[u8]) {
        if self.waiting.is_empty() && self.sender.send_quietly(&header, &[body]).is_ok() {
            return;
        }
        self.bytes += body.len();
        self.waiting.push_back((header, body.to_vec()));
    }
}

/// Where the last part of a reply begins; the parts before it are whole.
fn last_part(len: usize) -> usize {
    len.saturating_sub(1) / call::PART_BYTES * call::PART_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_part_is_never_empty_unless_all_is() {
        let part = call::PART_BYTES;
        assert_eq!([0, 1, part, part + 1, 2 * part].map(last_part), [0, 0, 0, part, part]);
    }
}
