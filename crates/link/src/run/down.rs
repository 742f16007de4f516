//! What comes from the store: notices into the rank's ring, words into its control page.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use forebay_arena::{Bell, Direction, Producer, Segment};
use forebay_types::Error;
use forebay_types::codec::Writer;
use forebay_types::control::word;
use forebay_types::line::OwnerWords;
use forebay_types::record::Notice;

/// The receiving half of a session.
pub struct Down {
    segment: Segment,
    producer: Producer,
    bell: Bell,
    waiting: VecDeque<Vec<u8>>,
    /// Notices that are in the ring.
    pub heard: u64,
    /// Notices that came.
    came: u64,
    /// The gate that is in force here.
    pub epoch: u64,
    beats: u64,
}

impl Down {
    /// Nothing has come.
    pub fn new(segment: &Segment) -> Down {
        Down {
            producer: segment.producer(Direction::Down),
            bell: segment.bell(Direction::Down),
            segment: segment.clone(),
            waiting: VecDeque::new(),
            heard: 0,
            came: 0,
            epoch: 0,
            beats: 0,
        }
    }

    /// A notice came; one that came before is passed over.
    pub fn notice(&mut self, number: u64, bytes: &[u8]) {
        if number == self.came + 1 {
            self.came = number;
            self.waiting.push_back(bytes.to_vec());
            self.flush();
        }
    }

    /// Whether notices wait for room in the ring.
    pub fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Puts what waits into the ring, as far as it has room.
    pub fn flush(&mut self) {
        let before = self.heard;
        while let Some(first) = self.waiting.front() {
            match self.producer.push(&[first]) {
                Err(full) if !full.for_ever() => break,
                _ => self.heard += 1,
            }
            self.waiting.pop_front();
        }
        if self.heard > before {
            self.segment.word(word::NOTICE).fetch_add(1, Ordering::SeqCst);
            self.bell.ring();
        }
    }

    /// The owner's words. A new gate is in force when this returns.
    pub fn words(&mut self, words: &OwnerWords) {
        let store = |w: usize, value| self.segment.word(w).store(value, Ordering::SeqCst);
        self.beats += 1;
        store(word::HEARTBEAT, self.beats);
        words.each(|w, value| match w {
            word::CLOSED | word::GATE | word::EPOCH | word::APPLIED | word::DURABLE => {}
            _ => store(w, value),
        });
        // Whoever sees these finds the commit counted.
        self.segment.word(word::APPLIED).fetch_max(words.applied, Ordering::SeqCst);
        self.segment.word(word::DURABLE).fetch_max(words.durable, Ordering::SeqCst);
        if words.epoch != self.epoch {
            store(word::GATE, words.gate);
            self.epoch = words.epoch;
            self.bell.ring();
        }
        if words.closed != 0 && self.waiting.is_empty() {
            store(word::CLOSED, words.closed);
            self.bell.ring();
        }
    }

    /// The last word of all: why nothing more can be done here.
    pub fn last_word(&mut self, e: &Error) {
        let mut w = Writer::new();
        Notice::Late { code: e.code() as u32, text: e.text() }.encode(&mut w);
        self.waiting.push_back(w.finish());
        self.flush();
    }

    /// Another connection: what did not get into the ring comes again.
    pub fn resume(&mut self) {
        self.waiting.clear();
        self.came = self.heard;
    }
}
