//! The end at the store: towards the owner it is a rank with a segment, towards the line the owner. It has no memory of
//! its own beyond the mirror.

use super::mirror::Mirror;
use crate::frame::Header;
use crate::line::{Line, LineFrame};
use crate::silence::OF_STORE;
use forebay_arena::Segment;
use forebay_types::codec::Writer;
use forebay_types::control::word;
use forebay_types::line::{FarResumed, OwnerWords, RankWords, kind};
use forebay_types::{Code, Error, Result};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Between two looks at words and blocks while the owner has something of the rank, and otherwise.
const BUSY: Duration = Duration::from_millis(1);
const IDLE: Duration = Duration::from_millis(100);
/// Notices and words wait while so many bytes wait for the line.
const BACKLOG: usize = 1 << 20;
/// Bytes of a block are received in pieces of at most this many.
const PART: usize = 256 << 10;

/// One session, at the store's host.
pub struct StoreEnd {
    segment: Segment,
    mirror: Mirror,
    told: OwnerWords,
    told_at: Option<Instant>,
    taken: u64,
    /// The block that the bytes that come belong to.
    current: Option<(u32, u64)>,
    /// Where they are received, before they are copied there.
    aside: Vec<u8>,
}

/// What somebody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// A block is whole: the owner writes it.
    Block,
    /// The rank has heard of another gate: whoever steers looks again.
    Gate,
}

impl StoreEnd {
    /// Of a mirror that was just made.
    pub fn new(segment: &Segment) -> StoreEnd {
        StoreEnd {
            mirror: Mirror::new(segment),
            segment: segment.clone(),
            told: OwnerWords::default(),
            told_at: None,
            taken: 0,
            current: None,
            aside: vec![0; PART],
        }
    }

    /// Takes what has come, and sends what may go. `news` is told at once of what somebody waits for.
    pub fn turn(&mut self, line: &mut Line, mut news: impl FnMut(News)) -> Result<()> {
        line.fill()?;
        loop {
            if line.bulk() > 0 && !self.bulk(line, &mut news)? {
                break;
            }
            match line.next_frame()? {
                Some(frame) => self.hear(line, &frame, &mut news)?,
                None if line.bulk() > 0 => {}
                None => break,
            }
        }
        self.tell(line)?;
        line.flush().map(drop)
    }

    /// Bytes of a block go where they belong; says whether all that were due are there.
    fn bulk(&mut self, line: &mut Line, news: &mut impl FnMut(News)) -> Result<bool> {
        while line.bulk() > 0 {
            if self.current.is_some_and(|(index, _)| !self.mirror.awaits(index)) {
                self.current = None; // given up meanwhile: what comes of it is passed over
            }
            let n = line.take_bulk(&mut self.aside)?;
            if n == 0 {
                return Ok(false);
            }
            self.taken += n as u64;
            if let Some((index, at)) = self.current {
                self.mirror.fill(index, at, &self.aside[..n]);
                self.current = Some((index, at + n as u64));
                if self.mirror.came(index, n as u64) {
                    news(News::Block);
                }
            }
        }
        Ok(true)
    }

    fn hear(&mut self, line: &Line, frame: &LineFrame, news: &mut impl FnMut(News)) -> Result<()> {
        let body = line.body(frame);
        match frame.header.kind {
            kind::RECORDS => self.mirror.records(body),
            kind::BLOCK => {
                self.current = self.mirror.place(body, line.bulk())?;
                Ok(())
            }
            kind::RANK => {
                if self.mirror.rank(&RankWords::decode(body)?) {
                    news(News::Gate);
                }
                Ok(())
            }
            kind::CURVE => self.mirror.curve(body),
            other => Err(Error::new(Code::Corrupt, format!("a frame of kind {other} came from a rank"))),
        }
    }

    /// Notices, words, released blocks and watched curves to the rank.
    fn tell(&mut self, line: &mut Line) -> Result<()> {
        if line.waiting() > BACKLOG {
            return Ok(());
        }
        // Read before the notices: what they belong to is told behind them.
        let words = self.mirror.owner(self.taken);
        let from = || self.segment.word(word::FROM).load(Ordering::SeqCst);
        while let Some((number, bytes)) = self.mirror.notice()? {
            // Where the run went back to is told before the answers that count on it.
            let now = from();
            if now != self.told.from {
                self.told.from = now;
                line.push(Header::new(kind::OWNER, 0), b"", &[&self.told.encode()]);
            }
            line.push(Header::new(kind::NOTICE, number), b"", &[bytes]);
        }
        let words = OwnerWords { from: from(), ..words };
        let back = self.mirror.reap();
        if !back.is_empty() {
            let mut w = Writer::new();
            for (index, made) in &back {
                w.u32(*index).u32(*made);
            }
            line.push(Header::new(kind::RELEASED, 0), b"", &[&w.finish()]);
        }
        self.tell_watched(line, false);
        if words != self.told || self.told_at.is_none_or(|at| at.elapsed() > OF_STORE.says) {
            line.push(Header::new(kind::OWNER, 0), b"", &[&words.encode()]);
            (self.told, self.told_at) = (words, Some(Instant::now()));
        }
        Ok(())
    }

    fn tell_watched(&mut self, line: &mut Line, again: bool) {
        for (index, watched) in self.mirror.watched(again) {
            let mut w = Writer::new();
            w.u32(index).u32(u32::from(watched));
            line.push(Header::new(kind::WATCHED, 0), b"", &[&w.finish()]);
        }
    }

    /// The rank's side has opened the line again, and has heard so many notices: what the mirror has of it.
    pub fn resume(&mut self, heard: u64) -> FarResumed {
        (self.taken, self.current, self.told_at) = (0, None, None);
        self.mirror.resume(heard)
    }

    /// Behind the answer to that: which curves somebody looks at.
    pub fn tell_again(&mut self, line: &mut Line) {
        self.tell_watched(line, true);
    }

    /// Whether the owner has something to tell that was not told.
    pub fn has_news(&mut self) -> bool {
        self.mirror.has_notice() || self.mirror.owner(self.taken).epoch != self.told.epoch
    }

    /// When there is something to look at again, if nothing wakes whoever drives this.
    pub fn pause(&self) -> Duration {
        if self.mirror.is_busy() { BUSY } else { IDLE }
    }

    /// Whether the owner has put the session away.
    pub fn is_over(&self) -> bool {
        self.segment.word(word::CLOSED).load(Ordering::SeqCst) != 0
    }

    /// The rank does not come back.
    pub fn leave(&self) {
        self.segment.word(word::LEFT).store(1, Ordering::SeqCst);
    }
}
