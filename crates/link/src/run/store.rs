//! The end at the store: towards the owner it is a rank with a segment, towards the line the owner. It has no memory of
//! its own beyond the mirror.

use super::mirror::Mirror;
use crate::frame::Header;
use crate::silence::OF_STORE;
use crate::stream::{Place, Received, Stream, Target};
use forebay_arena::Segment;
use forebay_types::codec::Writer;
use forebay_types::control::word;
use forebay_types::line::{OwnerWords, RankWords, RemoteResumed, kind};
use forebay_types::{Code, Error, Result};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Between two looks at words and blocks while the owner has something of the rank, and otherwise.
const BUSY: Duration = Duration::from_millis(1);
const IDLE: Duration = Duration::from_millis(100);
/// Notices and words wait while so many bytes wait for the line.
const BACKLOG: usize = 1 << 20;
/// Bytes of blocks that are taken before the rank is told that they have come.
const TOLD: u64 = 256 << 10;

/// One session, at the store's host.
pub struct StoreEnd {
    segment: Segment,
    mirror: Mirror,
    told: OwnerWords,
    told_at: Option<Instant>,
    taken: u64,
}

/// Where the bytes of blocks go.
struct Blocks<'e, F> {
    mirror: &'e mut Mirror,
    taken: &'e mut u64,
    news: &'e mut F,
}

impl<F: FnMut(News)> Place for Blocks<'_, F> {
    fn place(&mut self, header: &Header, body: &[u8], lengths: &[u64]) -> Result<Target> {
        match (header.kind, lengths) {
            (kind::BLOCK, [length]) => self.mirror.place(body, *length).map(Target::Through),
            _ => Err(Error::new(
                Code::Corrupt,
                format!(
                    "a frame of kind {} came from a rank with {} large parts",
                    header.kind,
                    lengths.len()
                ),
            )),
        }
    }

    fn take(&mut self, block: u64, _: u64, bytes: &[u8]) {
        *self.taken += bytes.len() as u64;
        if self.mirror.fill(block, bytes) {
            (self.news)(News::Block);
        }
    }
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
        }
    }

    /// Takes what has come, and sends what may go. `news` is told at once of what somebody waits for.
    pub fn turn(&mut self, line: &mut Stream, mut news: impl FnMut(News)) -> Result<()> {
        let before = self.taken;
        while self.taken - before < TOLD {
            let mut blocks = Blocks { mirror: &mut self.mirror, taken: &mut self.taken, news: &mut news };
            let Some(received) = line.next(&mut blocks)? else { break };
            self.hear(&received, &mut news)?;
        }
        self.tell(line)?;
        line.flush().map(drop)
    }

    fn hear(&mut self, Received { header, body, .. }: &Received, news: &mut impl FnMut(News)) -> Result<()> {
        match header.kind {
            kind::RECORDS => self.mirror.records(body),
            // Its bytes are where they belong.
            kind::BLOCK => Ok(()),
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
    fn tell(&mut self, line: &mut Stream) -> Result<()> {
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
                line.push(Header::new(kind::OWNER, 0), b"", &[&self.told.encode()])?;
            }
            line.push(Header::new(kind::NOTICE, number), b"", &[bytes])?;
        }
        let words = OwnerWords { from: from(), ..words };
        let back = self.mirror.reap();
        if !back.is_empty() {
            let mut w = Writer::new();
            for (index, generation) in &back {
                w.u32(*index).u32(*generation);
            }
            line.push(Header::new(kind::RELEASED, 0), b"", &[&w.finish()])?;
        }
        self.tell_watched(line, false)?;
        if words != self.told || self.told_at.is_none_or(|at| at.elapsed() > OF_STORE.says) {
            line.push(Header::new(kind::OWNER, 0), b"", &[&words.encode()])?;
            (self.told, self.told_at) = (words, Some(Instant::now()));
        }
        Ok(())
    }

    fn tell_watched(&mut self, line: &mut Stream, again: bool) -> Result<()> {
        for (index, watched) in self.mirror.watched(again) {
            let mut w = Writer::new();
            w.u32(index).u32(u32::from(watched));
            line.push(Header::new(kind::WATCHED, 0), b"", &[&w.finish()])?;
        }
        Ok(())
    }

    /// The rank's side has opened the line again, and has heard so many notices: what the mirror has of it.
    pub fn resume(&mut self, heard: u64) -> RemoteResumed {
        (self.taken, self.told_at) = (0, None);
        self.mirror.resume(heard)
    }

    /// Behind the answer to that: which curves somebody looks at.
    pub fn tell_again(&mut self, line: &mut Stream) -> Result<()> {
        self.tell_watched(line, true)
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
