//! A client on the same host: its segment.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use forebay_arena::{Block, Direction, Segment};
use forebay_link::{Header, ShmSender, Wire};
use forebay_types::call::{self, RequestId, word};

use super::lock;

pub(crate) struct Memory {
    pub segment: Segment,
    down: Mutex<DownRing>,
    wire: Mutex<Wire>,
    /// By slot, the requests that are not wanted any more; `None`: the client said something else.
    cancelled: OnceLock<Option<Box<Block>>>,
}

struct DownRing {
    sender: ShmSender,
    waiting: VecDeque<(Header, Vec<u8>)>,
    bytes: usize,
}

impl Memory {
    pub fn new(segment: Segment, sender: ShmSender, wire: Wire) -> Memory {
        let down = Mutex::new(DownRing { sender, waiting: VecDeque::new(), bytes: 0 });
        Memory { segment, down, wire: Mutex::new(wire), cancelled: OnceLock::new() }
    }

    pub fn waiting(&self) -> u64 {
        self.segment.waiting(Direction::Up)
    }

    pub fn gone(&self) -> bool {
        self.given_up() || lock(&self.wire).peer_gone()
    }

    fn given_up(&self) -> bool {
        self.segment.word(word::ABANDONED).load(Ordering::Relaxed) != 0
    }

    pub fn wants(&self, request: RequestId) -> bool {
        !self.given_up() && !self.is_cancelled(request)
    }

    fn is_cancelled(&self, RequestId { id, slot }: RequestId) -> bool {
        let Some(index) = self.segment.word(word::CANCELLED).load(Ordering::Acquire).checked_sub(1) else {
            return false;
        };
        let found = || self.segment.block(u32::try_from(index).ok()?).ok().map(Box::new);
        let word = self.cancelled.get_or_init(found).as_ref().and_then(|block| block.word(slot.into()));
        word.is_some_and(|word| word.load(Ordering::SeqCst) == id)
    }

    pub fn beat(&self) {
        let heart: &AtomicU64 = self.segment.word(word::HEARTBEAT);
        heart.store(heart.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Sends a reply, or lets it wait. Returns how many bytes wait now, one more when there are any.
    pub fn send(&self, request: u64, body: &[u8]) -> usize {
        let mut down = lock(&self.down);
        let (parts, last) = body.split_at(last_part(body.len()));
        for part in parts.chunks(call::PART_BYTES) {
            down.put(Header::new(call::kind::REPLY_PART, request), part);
        }
        down.put(Header::new(call::kind::REPLY, request), last);
        down.sender.ring();
        down.bytes + usize::from(!down.waiting.is_empty())
    }

    /// Sends what waits, as far as there is room. Returns whether something still waits.
    pub fn flush(&self) -> bool {
        let mut down = lock(&self.down);
        if down.waiting.is_empty() {
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

impl DownRing {
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
