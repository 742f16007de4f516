//! Opening a session: greeting, the run, the segment, the watcher.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use std::time::Duration;

use forebay_arena::{Direction, Segment, SegmentSpec, segments};
use forebay_host::directories;
use forebay_link::silence::GREETING;
use forebay_link::{Message, Wire};
use forebay_types::control::{OpenRun, OpeningWaits, RunOpened, RunRequest, word};
use forebay_types::watch::level::WARNING;
use forebay_types::{Code, Error, Result};

use super::core::{Core, Counts, say};
use super::down::Down;
use super::life::{Life, Watcher};
use super::log::Log;
use super::revive::Successor;
use super::room::Rooms;
use super::session::Session;
use super::steer::Steer;

/// The ring of records to the owner, a sixteenth of the arena within these bounds: thousands of
/// small arrays on their way to a catalog that is slower than a burst of them.
const UP_BYTES: std::ops::RangeInclusive<u64> = 4 << 20..=16 << 20;
/// The ring of notices: a few of the largest answers.
const DOWN_BYTES: u64 = 1 << 20;
/// The least buffer, so that a diagram and a few arrays have room.
const LEAST_BUFFER: u64 = 1 << 20;
/// How long it may take to open a run, or to say what the opening waits for: recovery of an earlier session may be
/// part of it.
const OPENING: Duration = Duration::from_secs(120);

impl Session {
    /// Greets the owner that listens at `socket`. `NotFound` or `ServerLost`: nobody is there (any
    /// more); `Timeout`: somebody is, and does not answer.
    pub fn greet(socket: &Path) -> Result<Wire> {
        Wire::connect_as(socket, "run", GREETING)
    }

    /// Opens a run at the owner that was greeted.
    pub fn open(wire: Wire, open: &OpenRun) -> Result<Session> {
        Session::open_with(wire, open, None)
    }

    /// Opens a run at the owner that was greeted. When the owner dies, from the first moment on, `successor` finds
    /// the next one; without it the session is lost then.
    pub fn open_with(mut wire: Wire, open: &OpenRun, successor: Option<Successor>) -> Result<Session> {
        let opened = ask_for(&mut wire, &RunRequest::OpenRun(open.clone()))?;
        let segment = make_segment(&opened, open)?;
        match Session::attach(wire, open, opened, segment.clone(), successor) {
            Ok(session) => {
                if let Some(text) = lies_on_disk(&segment).map(slower) {
                    say(&text);
                    session.message(WARNING, &text)?;
                }
                Ok(session)
            }
            Err(e) => {
                // A successor that finds it waits for this rank no more.
                segment.word(word::LEFT).store(1, Ordering::SeqCst);
                // An owner that died may have noted it: its successor looks for it, and removes it.
                if e.code() != Code::ServerLost {
                    let _ = segment.unlink();
                }
                Err(e)
            }
        }
    }

    fn attach(
        mut wire: Wire,
        open: &OpenRun,
        opened: RunOpened,
        segment: Segment,
        successor: Option<Successor>,
    ) -> Result<Session> {
        hand_over(&mut wire, &segment)?;
        let life = Life::new(opened.owner_pid, wire.process(), &open.path);
        let socket = wire.watch_fd()?;
        let core = Core {
            open: open.clone(),
            wire: Mutex::new(Some(wire)),
            successor,
            declared: Mutex::default(),
            life,
            log: Log::new(&segment),
            down: Down::new(&segment),
            rooms: Mutex::new(Rooms::new(&segment)),
            steer: Steer::default(),
            attentive: Mutex::default(),
            counts: Counts::default(),
            position: AtomicI64::new(-1),
            phase: AtomicU8::new(0),
            stride: AtomicU32::new(0),
            loops: AtomicU64::new(0),
            time: AtomicU64::new(f64::NAN.to_bits()),
            open_step: Mutex::new(None),
            last_ended: AtomicI64::new(i64::MIN),
            numbers: Mutex::default(),
            stood: AtomicI64::new(-1),
            went_back: AtomicBool::default(),
            last_bytes: OnceLock::new(),
            diagrams: AtomicU32::new(0),
            looped: AtomicU8::new(0),
            standing: AtomicBool::new(true),
            from: AtomicU64::new(0),
            stands: AtomicI64::new(0),
            made_again: Mutex::default(),
            closing: AtomicU64::new(0),
            check: RwLock::new(None),
            heed: AtomicU8::default(),
            late: RwLock::default(),
            remarked: Mutex::default(),
            constants: Mutex::default(),
            compress: OnceLock::new(),
            segment,
            opened,
        };
        let core = Arc::new(core);
        let watcher = Watcher::start(core.clone(), socket)?;
        Ok(Session::new(core, watcher))
    }
}

/// Says at the terminal what an opening waits for.
pub fn show(note: &OpeningWaits) {
    say(&note.waits);
}

/// Asks an owner for the run: newly, or as a session that goes on.
pub(super) fn ask_for(wire: &mut Wire, request: &RunRequest) -> Result<RunOpened> {
    let said = |note: &Message| {
        let known = note.parse::<OpeningWaits>();
        known.iter().for_each(show);
        known.is_ok()
    };
    let (answer, _) = wire.ask_hearing(request, &[], OPENING, said)?;
    serde_json::from_value(answer)
        .map_err(|e| Error::new(Code::VersionMismatch, format!("the owner's answer is not understood: {e}")))
}

/// Gives the owner the segment, whose upper bell rings there from now on.
pub(super) fn hand_over(wire: &mut Wire, segment: &Segment) -> Result<()> {
    let (_, mut events) = wire.ask_with(&RunRequest::Attach, &[segment.fd()], OPENING)?;
    if let Some(event) = events.pop() {
        segment.bell(Direction::Up).attach_doorbell(event)?;
    }
    Ok(())
}

fn make_segment(opened: &RunOpened, open: &OpenRun) -> Result<Segment> {
    let buffer = open.buffer.max(LEAST_BUFFER).next_multiple_of(4096);
    segments::check_name(&opened.segment)?;
    let spec = SegmentSpec {
        name: opened.segment.clone(),
        kind: segments::kind::RUN,
        up_bytes: (buffer / 16).next_power_of_two().clamp(*UP_BYTES.start(), *UP_BYTES.end()),
        down_bytes: DOWN_BYTES,
        block_bytes: buffer,
        // One block an array that does not travel in the record.
        blocks: (buffer / (16 << 10)).clamp(256, 64 << 10) as u32,
    };
    let run = Path::new(&open.path);
    // The directory of a run on another host is there.
    let temporary = std::env::temp_dir();
    let made = Segment::create_or_in(&spec, if run.is_absolute() { run } else { &temporary });
    let segment = made.map_err(|e| match e.code() {
        Code::Full => Error::new(
            Code::Full,
            format!(
                "there is no room for a buffer of {} MiB: {}; open the run with a smaller one (buffer=, FOREBAY_BUFFER), or let this process have more memory (`ulimit -v`)",
                buffer >> 20,
                e.text()
            ),
        ),
        _ => e,
    })?;
    segment.word(word::GATE).store(u64::MAX, Ordering::SeqCst);
    segment.set_label(&open.path);
    Ok(segment)
}

/// The file that is the buffer when shared memory had no room for it.
pub(super) fn lies_on_disk(segment: &Segment) -> Option<&Path> {
    segment.path().filter(|p| !p.starts_with(directories::shm_dir()))
}

/// What to tell people then.
fn slower(path: &Path) -> String {
    let size = std::fs::metadata(path).map_or(0, |m| m.len());
    format!(
        "{} has no room for the buffer of {} MiB, so it is the file {}: snapshots are slower; make it larger (`docker run --shm-size=...`, `mount -o remount,size=...`) or open the run with a smaller buffer",
        directories::shm_dir().display(),
        size.div_ceil(1 << 20),
        path.display()
    )
}
