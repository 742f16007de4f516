//! A deputy: it stands at the store's host for a rank on another one. Towards the owner it is a rank
//! with a segment and a seat; it has no memory of its own beyond the mirror.
//!
//! ```text
//!  SERVING --line cut--> KEPT --the rank calls again--> SERVING
//!     +--rank left--> ended  +--too late--> ended: what came is written, a torn step is not listed
//! ```

use super::mirror::Mirror;
use crate::lock::lock;
use crate::owner::Session;
use crate::service::Shared;
use forebay_arena::{Direction, Doorbell, Segment, SegmentSpec, place};
use forebay_link::frame::{Header, kind as frame};
use forebay_link::{Line, LineFrame};
use forebay_types::codec::Writer;
use forebay_types::control::{RunOpened, word};
use forebay_types::line::{FarAttached, Measures, OwnerWords, RankWords, kind};
use forebay_types::{Code, Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::HashMap;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A line on which nothing came for so long is cut.
const SILENT: Duration = Duration::from_secs(6);
/// A deputy whose line is cut is kept for so long.
const KEPT: Duration = Duration::from_secs(60);
/// And for so long when the other side closed the line without a good-bye.
const CLOSED: Duration = Duration::from_secs(10);
/// A session may take so long to be put away after the good-bye.
const GOING: Duration = Duration::from_millis(300);
/// The owner's words are told so often in any case, as a sign of life.
const ALIVE: Duration = Duration::from_millis(500);
/// Between two looks at words and blocks while the owner has something of the rank.
const BUSY: Duration = Duration::from_millis(1);
/// Otherwise.
const IDLE: Duration = Duration::from_millis(100);
/// Notices and words wait while so many bytes wait for the line.
const BACKLOG: usize = 1 << 20;
/// Bytes of a block are received in pieces of at most this many.
const PART: usize = 256 << 10;
/// Most bytes that a rank's segment may have here.
const LARGEST: u64 = 1 << 40;

/// A line that was opened again: the line, the request's id, how many notices the rank has heard.
type Again = (Line, u64, u64);

struct KeptLine {
    tell: Sender<Again>,
    event: Doorbell,
    run: PathBuf,
    rank: u32,
    /// It has no line now.
    waits: Arc<AtomicBool>,
    /// The same rank was opened anew: nobody waits for the old one.
    evicted: Arc<AtomicBool>,
}

/// The deputies of an agent, by key.
#[derive(Default)]
pub struct Deputies {
    table: Mutex<HashMap<String, KeptLine>>,
}

impl Deputies {
    /// Hands a line that was opened again to its deputy.
    pub fn resume(&self, key: &str, again: Again) -> Result<(), Box<(Again, Error)>> {
        let gone = || {
            let text = "nobody keeps this session any more; open the run again, what was acknowledged is sent again then";
            Error::new(Code::NotFound, text)
        };
        let table = lock(&self.table);
        let Some(kept) = table.get(key) else { return Err(Box::new((again, gone()))) };
        kept.tell.send(again).map_err(|e| Box::new((e.0, gone())))?;
        kept.event.ring();
        Ok(())
    }

    /// A rank is opened anew: a deputy of it that waits for its line does so in vain. Says whether there
    /// is one, which gives its seat up in a moment.
    pub fn evict(&self, run: &Path, rank: u32) -> bool {
        let same = |k: &&KeptLine| k.run == run && k.rank == rank && k.waits.load(Ordering::SeqCst);
        let table = lock(&self.table);
        let going: Vec<&KeptLine> = table.values().filter(same).collect();
        going.iter().for_each(|k| k.evicted.store(true, Ordering::SeqCst));
        !going.is_empty()
    }
}

/// A deputy on its connection's thread.
pub struct Deputy<'a> {
    shared: &'a Arc<Shared>,
    session: Session,
    segment: Segment,
    mirror: Mirror,
    doorbell: Doorbell,
    /// The owner rings it, and who opens the line again.
    event: Doorbell,
    again: Receiver<Again>,
    key: String,
    waits: Arc<AtomicBool>,
    evicted: Arc<AtomicBool>,
    told: OwnerWords,
    told_at: Option<Instant>,
    taken: u64,
    /// The block that the bytes that come belong to.
    current: Option<(u32, u64)>,
    /// Where they are received, before they are copied there.
    aside: Vec<u8>,
}

impl<'a> Deputy<'a> {
    /// Makes the mirror and takes the seat.
    pub fn attach(
        shared: &'a Arc<Shared>,
        session: Session,
        opened: &RunOpened,
        measures: &Measures,
    ) -> Result<Deputy<'a>> {
        let built = build(&session, opened, measures);
        let (segment, doorbell, event) = match built {
            Ok(parts) => parts,
            Err(e) => {
                session.end();
                return Err(e);
            }
        };
        let (tell, again) = channel();
        let key = new_key()?;
        let theirs = event.again()?;
        let [waits, evicted]: [Arc<AtomicBool>; 2] = Default::default();
        let kept = KeptLine {
            tell,
            event: theirs,
            run: session.run.path().to_owned(),
            rank: session.rank,
            waits: waits.clone(),
            evicted: evicted.clone(),
        };
        lock(&shared.deputies.table).insert(key.clone(), kept);
        Ok(Deputy {
            mirror: Mirror::new(&segment),
            shared,
            session,
            segment,
            doorbell,
            event,
            again,
            key,
            waits,
            evicted,
            told: OwnerWords::default(),
            told_at: None,
            taken: 0,
            current: None,
            aside: vec![0; PART],
        })
    }

    /// What the rank is told.
    pub fn attached(&self) -> FarAttached {
        FarAttached { key: self.key.clone() }
    }

    /// Serves until the rank has left, or does not come back.
    pub fn serve(mut self, mut line: Line) {
        loop {
            let why = match self.serve_line(&mut line) {
                Ok(()) => break,
                Err(e) => e,
            };
            let closed = why.code() == Code::ServerLost;
            drop(line);
            self.waits.store(true, Ordering::SeqCst);
            if closed && self.ends_soon() {
                break;
            }
            self.say(&format!("the line is cut: {}", why.text()));
            match self.await_again(if closed { CLOSED } else { KEPT }) {
                Some(again) => line = again,
                None => break,
            }
        }
        self.end();
    }

    fn say(&self, what: &str) {
        let (run, rank) = (self.session.run.name(), self.session.rank);
        self.shared.diary.line(format_args!("{run}: rank {rank} on another host: {what}"));
    }

    fn end(self) {
        self.waits.store(true, Ordering::SeqCst);
        self.segment.word(word::LEFT).store(1, Ordering::SeqCst);
        self.session.end();
        lock(&self.shared.deputies.table).remove(&self.key);
    }

    /// A rank that has said good-bye goes before the owner has put its session away.
    fn ends_soon(&self) -> bool {
        let until = Instant::now() + GOING;
        while !self.is_over() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.is_over()
    }

    fn is_over(&self) -> bool {
        self.segment.word(word::CLOSED).load(Ordering::SeqCst) != 0
    }

    /// Waits for the rank's side to call again, and answers it.
    fn await_again(&mut self, patience: Duration) -> Option<Line> {
        let until = Instant::now() + patience;
        while !self.shared.stop.given() && !self.is_over() && !self.evicted.load(Ordering::SeqCst) {
            let left = until.saturating_duration_since(Instant::now());
            match self.again.recv_timeout(left.min(IDLE)) {
                Ok(again) => {
                    self.waits.store(false, Ordering::SeqCst);
                    return Some(self.take_up(again));
                }
                Err(_) if left.is_zero() => return None,
                Err(_) => {}
            }
        }
        None
    }

    fn take_up(&mut self, (mut line, id, heard): Again) -> Line {
        let resumed = self.mirror.resume(heard);
        let json = serde_json::to_vec(&resumed).unwrap_or_default();
        line.push(Header::new(frame::ANSWER, id), &json, &[]);
        (self.taken, self.current, self.told_at) = (0, None, None);
        for (index, watched) in self.mirror.watched(true) {
            push_watched(&mut line, index, watched);
        }
        self.say("the line is open again");
        line
    }

    /// Serves one connection. `Ok`: the rank has left.
    fn serve_line(&mut self, line: &mut Line) -> Result<()> {
        let mut heard_at = Instant::now();
        loop {
            if self.shared.stop.given() {
                return Ok(());
            }
            let before = line.received();
            match self.turn(line) {
                Err(e) if e.code() == Code::ServerLost && self.is_over() => return Ok(()),
                Err(e) => return Err(e),
                Ok(()) => {}
            }
            if let Ok(again) = self.again.try_recv() {
                *line = self.take_up(again);
                heard_at = Instant::now();
                continue;
            }
            if line.received() != before {
                heard_at = Instant::now();
                continue;
            }
            if heard_at.elapsed() > SILENT {
                let text = format!("nothing has come from the rank for {} s", SILENT.as_secs());
                return Err(Error::new(Code::Timeout, text));
            }
            self.sleep(line)?;
        }
    }

    fn turn(&mut self, line: &mut Line) -> Result<()> {
        line.fill()?;
        loop {
            if line.bulk() > 0 && !self.bulk(line)? {
                break;
            }
            match line.next_frame()? {
                Some(frame) => self.hear(line, &frame)?,
                None if line.bulk() > 0 => {}
                None => break,
            }
        }
        self.tell(line)?;
        line.flush().map(drop)
    }

    /// Bytes of a block go where they belong; says whether all that were due are there.
    fn bulk(&mut self, line: &mut Line) -> Result<bool> {
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
                    self.doorbell.ring();
                }
            }
        }
        Ok(true)
    }

    fn hear(&mut self, line: &Line, frame: &LineFrame) -> Result<()> {
        let body = line.body(frame);
        match frame.header.kind {
            kind::RECORDS => self.mirror.records(body),
            kind::BLOCK => {
                self.current = self.mirror.place(body, line.bulk())?;
                Ok(())
            }
            kind::RANK => {
                if self.mirror.rank(&RankWords::decode(body)?) {
                    self.shared.heart.look_again();
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
        for (index, watched) in self.mirror.watched(false) {
            push_watched(line, index, watched);
        }
        if words != self.told || self.told_at.is_none_or(|at| at.elapsed() > ALIVE) {
            line.push(Header::new(kind::OWNER, 0), b"", &[&words.encode()]);
            (self.told, self.told_at) = (words, Some(Instant::now()));
        }
        Ok(())
    }

    fn sleep(&mut self, line: &Line) -> Result<()> {
        let bell = self.segment.bell(Direction::Down);
        bell.prepare_sleep();
        let news = self.mirror.has_notice() || self.mirror.owner(self.taken).epoch != self.told.epoch;
        if !news {
            let out = if line.waiting() > 0 { PollFlags::OUT } else { PollFlags::empty() };
            let mut fds = [
                PollFd::new(&self.event, PollFlags::IN),
                PollFd::from_borrowed_fd(line.as_fd(), PollFlags::IN | out),
                PollFd::from_borrowed_fd(self.shared.stop.as_fd(), PollFlags::IN),
            ];
            let pause = if self.mirror.is_busy() { BUSY } else { IDLE };
            let pause = Timespec { tv_sec: 0, tv_nsec: pause.subsec_nanos().into() };
            match poll(&mut fds, Some(&pause)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(Error::io("cannot wait for a line", e)),
            }
        }
        bell.cancel_sleep();
        self.event.clear();
        Ok(())
    }
}

fn push_watched(line: &mut Line, index: u32, watched: bool) {
    let mut w = Writer::new();
    w.u32(index).u32(u32::from(watched));
    line.push(Header::new(kind::WATCHED, 0), b"", &[&w.finish()]);
}

/// The mirror's segment, the doorbell of the owner and our own.
fn build(
    session: &Session,
    opened: &RunOpened,
    measures: &Measures,
) -> Result<(Segment, Doorbell, Doorbell)> {
    if measures.block_bytes > LARGEST {
        return Err(Error::bad(format!(
            "a buffer of {} bytes is too large for a mirror",
            measures.block_bytes
        )));
    }
    let spec = SegmentSpec {
        name: opened.segment.clone(),
        kind: place::kind::RUN,
        up_bytes: measures.up,
        down_bytes: measures.down,
        block_bytes: measures.block_bytes,
        blocks: measures.blocks,
    };
    let segment = Segment::create_or_in(&spec, session.run.path() as &Path)?;
    segment.set_label(&session.run.path().to_string_lossy());
    // The owner is to know from the beginning what it is.
    segment.word(word::MIRROR).store(1, Ordering::SeqCst);
    segment.word(word::AFTER).store(session.after.unwrap_or(0), Ordering::SeqCst);
    let cannot = |e| Error::io("cannot copy a descriptor", e);
    let attach = || {
        segment.word(word::GATE).store(u64::MAX, Ordering::SeqCst);
        let ours = Doorbell::new()?;
        segment.bell(Direction::Down).attach_doorbell(ours.share()?)?;
        let owners = session.attach_segment(segment.clone())?;
        segment.bell(Direction::Up).attach_doorbell(owners.try_clone().map_err(cannot)?)?;
        Ok((Doorbell::given(owners)?, ours))
    };
    match attach() {
        Ok((doorbell, ours)) => Ok((segment, doorbell, ours)),
        Err(e) => {
            let _ = segment.unlink();
            Err(e)
        }
    }
}

/// 32 hexadecimal digits that nobody guesses.
fn new_key() -> Result<String> {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes).map_err(|e| Error::internal(format!("no random numbers: {e}")))?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}
