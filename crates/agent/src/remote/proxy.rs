//! A proxy: it stands at the store's host for a rank on another one. Towards the owner it is a rank
//! with a segment and a seat; it has no memory of its own beyond the mirror.
//!
//! ```text
//!  SERVING --line cut--> KEPT --the rank calls again--> SERVING
//!     +--rank left--> ended  +--too late--> ended: what came is written, a torn step is not listed
//! ```

use crate::owner::Session;
use crate::service::Shared;
use forebay_arena::{Direction, Doorbell, Segment, SegmentSpec, segments};
use forebay_host::lock;
use forebay_host::wait::{self, PollFlags};
use forebay_link::run::{News, StoreEnd};
use forebay_link::silence::OF_RANK;
use forebay_link::{Stream, Wire};
use forebay_types::control::{NO_RANK, RunOpened, word};
use forebay_types::line::{Measures, RemoteAttached};
use forebay_types::{Code, Error, Result, limits};
use std::collections::HashMap;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A proxy whose line is cut is kept for so long.
const KEPT: Duration = Duration::from_secs(60);
/// A proxy whose line the other side closed without a good-bye is kept for so long.
const CLOSED: Duration = Duration::from_secs(10);
/// A session may take so long to be put away after the good-bye.
const GOING: Duration = Duration::from_millis(300);
/// Time between two looks whether the rank's side has called again.
const LOOK: Duration = Duration::from_millis(100);
/// Most bytes that a rank's segment may have here.
const LARGEST: u64 = limits::BUFFER_BYTES;

/// A line that was opened again: the line, the request's id, how many notices the rank has heard.
type Again = (Wire, u64, u64);

struct KeptLine {
    tell: Sender<Again>,
    event: Doorbell,
    run: PathBuf,
    rank: u32,
    session: u64,
    /// Whether it has no line now.
    waits: Arc<AtomicBool>,
    /// Whether the rank has opened the run anew: then nobody waits for this session.
    evicted: Arc<AtomicBool>,
}

/// The proxies of an agent, by key.
#[derive(Default)]
pub struct Proxies {
    table: Mutex<HashMap<String, KeptLine>>,
}

impl Proxies {
    /// Hands a line that was opened again to its proxy.
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

    /// A rank is opened anew: a proxy of it that waits for its line does so in vain. Says whether there
    /// is one, which gives its seat up in a moment. Clients have no number by which one is told from the next: of
    /// them it is the one whose session's rest is brought.
    pub fn evict(&self, run: &Path, rank: u32, after: Option<u64>) -> bool {
        let is_it = |k: &KeptLine| match rank {
            NO_RANK => after == Some(k.session),
            rank => k.rank == rank,
        };
        let same = |k: &&KeptLine| k.run == run && is_it(k) && k.waits.load(Ordering::SeqCst);
        let table = lock(&self.table);
        let going: Vec<&KeptLine> = table.values().filter(same).collect();
        going.iter().for_each(|k| k.evicted.store(true, Ordering::SeqCst));
        !going.is_empty()
    }
}

/// A proxy on its connection's thread.
pub struct Proxy<'a> {
    shared: &'a Arc<Shared>,
    session: Session,
    segment: Segment,
    end: StoreEnd,
    doorbell: Doorbell,
    /// The owner rings it, and who opens the line again.
    event: Doorbell,
    again: Receiver<Again>,
    key: String,
    waits: Arc<AtomicBool>,
    evicted: Arc<AtomicBool>,
}

impl<'a> Proxy<'a> {
    /// Makes the mirror and takes the seat.
    pub fn attach(
        shared: &'a Arc<Shared>,
        session: Session,
        opened: &RunOpened,
        measures: &Measures,
    ) -> Result<Proxy<'a>> {
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
            session: session.number,
            waits: waits.clone(),
            evicted: evicted.clone(),
        };
        lock(&shared.proxies.table).insert(key.clone(), kept);
        Ok(Proxy {
            end: StoreEnd::new(&segment),
            shared,
            session,
            segment,
            doorbell,
            event,
            again,
            key,
            waits,
            evicted,
        })
    }

    /// What the rank is told.
    pub fn attached(&self) -> RemoteAttached {
        RemoteAttached { key: self.key.clone() }
    }

    /// Serves until the rank has left, or does not come back.
    pub fn serve(mut self, mut line: Stream) {
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
        let run = self.session.run.name();
        let who = match self.session.rank {
            NO_RANK => "a client".to_owned(),
            rank => format!("rank {rank}"),
        };
        self.shared.diary.line(format_args!("{run}: {who} on another host: {what}"));
    }

    /// The rank does not come back: its seat is free, and what came of it is written.
    pub fn end(self) {
        self.waits.store(true, Ordering::SeqCst);
        self.end.leave();
        self.session.end();
        lock(&self.shared.proxies.table).remove(&self.key);
    }

    /// A rank that has said good-bye goes before the owner has put its session away.
    fn ends_soon(&self) -> bool {
        let until = Instant::now() + GOING;
        while !self.end.is_over() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.end.is_over()
    }

    /// Waits for the rank's side to call again, and answers it.
    fn await_again(&mut self, patience: Duration) -> Option<Stream> {
        let until = Instant::now() + patience;
        while !self.shared.stop.given() && !self.end.is_over() && !self.evicted.load(Ordering::SeqCst) {
            let left = until.saturating_duration_since(Instant::now());
            match self.again.recv_timeout(left.min(LOOK)) {
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

    fn take_up(&mut self, (mut line, id, heard): Again) -> Stream {
        // One that is cut already shows at the first turn.
        let _ = line.answer(id, &self.end.resume(heard), &[]);
        let mut line = line.into_run();
        let _ = self.end.tell_again(&mut line);
        self.say("the line is open again");
        line
    }

    /// Serves one connection. `Ok`: the rank has left.
    fn serve_line(&mut self, line: &mut Stream) -> Result<()> {
        let mut heard_at = Instant::now();
        loop {
            if self.shared.stop.given() {
                return Ok(());
            }
            let before = line.received();
            match self.turn(line) {
                Err(e) if e.code() == Code::ServerLost && self.end.is_over() => return Ok(()),
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
            if heard_at.elapsed() > OF_RANK.lost {
                let text = format!("nothing has come from the rank for {} s", OF_RANK.lost.as_secs());
                return Err(Error::new(Code::Timeout, text));
            }
            self.sleep(line)?;
        }
    }

    fn turn(&mut self, line: &mut Stream) -> Result<()> {
        let Proxy { end, doorbell, shared, .. } = self;
        end.turn(line, |news| match news {
            News::Block => doorbell.ring(),
            News::Gate => shared.heart.look_again(),
        })
    }

    fn sleep(&mut self, line: &Stream) -> Result<()> {
        let bell = self.segment.bell(Direction::Down);
        bell.prepare_sleep();
        if !self.end.has_news() {
            let out = if line.waiting() > 0 { PollFlags::OUT } else { PollFlags::empty() };
            let fds = [
                (self.event.as_fd(), PollFlags::IN),
                (line.as_fd(), PollFlags::IN | out),
                (self.shared.stop.as_fd(), PollFlags::IN),
            ];
            wait::among(fds, Some(self.end.pause()))?;
        }
        bell.cancel_sleep();
        self.event.clear();
        Ok(())
    }
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
        kind: segments::kind::RUN,
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
