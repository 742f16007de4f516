//! The store's own buffer: segments a rank may fill when its own arena has no room, up to the
//! limit that was declared when the run was opened. With the policy `spill` there are more of
//! them, as files in the run's directory.

use super::intake::Intake;
use crate::catalog::{self, SessionRow};
use crate::disk::Foreign;
use crate::layout::Layout;
use forebay_arena::{Process, Segment, SegmentSpec, place};
use forebay_types::control::word;
use forebay_types::{Error, Result};
use serde_json::Value;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Smaller segments are not worth their pages.
const LEAST: u64 = 16 << 20;
/// Nor smaller files.
const LEAST_SPILT: u64 = 64 << 20;
const BLOCKS: u32 = 1024;

impl Intake {
    /// A segment for a session: its path, or null when the limit or the memory is used up.
    pub(super) fn overflow(&mut self, session: u64, bytes: u64, spill: bool, known: u32) -> Value {
        // The rank's wait for the last answer was interrupted, or its owner died.
        let unknown = self.attached.get(&session).and_then(|s| s.overflow.get(known as usize));
        if let Some(path) = unknown.and_then(|s| s.path()) {
            return Value::String(path.to_string_lossy().into_owned());
        }
        let made = self.in_memory(session, bytes).or_else(|| spill.then(|| self.spilt(session, bytes))?);
        let (Some(segment), Some(s)) = (made, self.attached.get_mut(&session)) else { return Value::Null };
        let Some(path) = segment.path().map(|p| p.to_string_lossy().into_owned()) else { return Value::Null };
        s.overflow.push(segment);
        Value::String(path)
    }

    fn in_memory(&mut self, session: u64, bytes: u64) -> Option<Segment> {
        let left = self.overflow_limit.saturating_sub(self.rooms.overflow);
        let size = bytes.next_multiple_of(4096).max(LEAST).min(left);
        if size < LEAST.min(bytes) || size == 0 {
            return None;
        }
        let segment = self.segment(session, size, place::shm_dir())?;
        self.rooms.overflow += size;
        self.rooms.overflow_high = self.rooms.overflow_high.max(self.rooms.overflow);
        Some(segment)
    }

    fn spilt(&mut self, session: u64, bytes: u64) -> Option<Segment> {
        let left = self.spill_limit.saturating_sub(self.rooms.spilt);
        let size = bytes.next_multiple_of(4096).max(LEAST_SPILT).min(left);
        if size < bytes || size == 0 {
            return None;
        }
        let segment = self.segment(session, size, self.layout.root().to_owned())?;
        self.rooms.spilt += size;
        self.rooms.spilt_high = self.rooms.spilt_high.max(self.rooms.spilt);
        Some(segment)
    }

    fn segment(&mut self, session: u64, size: u64, dir: PathBuf) -> Option<Segment> {
        let s = self.attached.get(&session)?;
        let n = s.overflow.len() + 1;
        let spec = SegmentSpec {
            name: overflow_name(&self.run_id, &s.row, n),
            kind: place::kind::OVERFLOW,
            up_bytes: 4096,
            down_bytes: 4096,
            block_bytes: size,
            blocks: BLOCKS,
        };
        let asked = self.disk.before(Foreign::Segment, &dir.join(&spec.name));
        let failed = |e| Error::io("no segment", e);
        let made = asked.map_err(failed).and_then(|()| Segment::create_in(&dir, &spec)).ok()?;
        made.set_label(&self.layout.root().to_string_lossy());
        Some(made)
    }

    /// The segments a session was given by an earlier owner.
    pub(super) fn overflows_of(&mut self, row: &SessionRow) -> Vec<Segment> {
        let name = |n| overflow_name(&self.run_id, row, n);
        let found: Vec<Segment> = (1..).map_while(|n| find(&self.layout, &name(n)).ok()).collect();
        found.iter().for_each(|s| self.rooms.take(s, &self.layout));
        found
    }

    /// Segments of sessions that were closed: what they held is applied. One of which the catalog says
    /// nothing is not ours to remove, nor one of a process that lives: a copy of this run may be open, too.
    pub(super) fn sweep_segments(&self) {
        let (run, over) = (stem(&self.run_id), place::segment_name(&["over", &self.run_id, ""]));
        let closed = |n: u64| matches!(catalog::session(self.catalog.conn(), n), Ok(Some((.., true))));
        for path in all_segments(&self.layout) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let session = number(&name, &run).or_else(|| number(&name, &over));
            if session.is_some_and(|n| !self.attached.contains_key(&n) && closed(n))
                && !Segment::open(&path).is_ok_and(|s| is_used(&s))
            {
                let _ = self.disk.remove(&path);
            }
        }
    }
}

/// What ends the names of a run's segments: a copy of its directory has the same identity, may be open
/// too, and counts its sessions as this one does.
pub(super) fn mark(root: &Path) -> String {
    let mut hasher = DefaultHasher::new();
    root.hash(&mut hasher);
    format!("{:08x}", hasher.finish() as u32)
}

/// Name of the n-th overflow segment of a session: that of the rank's segment in other words, so that the
/// two are found together wherever the run's directory is then.
fn overflow_name(run_id: &str, row: &SessionRow, n: usize) -> String {
    format!("{}{n}", overflow_stem(run_id, row))
}

fn overflow_stem(run_id: &str, row: &SessionRow) -> String {
    let session = row.session.to_string();
    let own = row.segment.strip_prefix(&stem(run_id)).unwrap_or(&session);
    place::segment_name(&["over", run_id, own, ""])
}

/// Beginning of the names of the ranks' segments.
fn stem(run_id: &str) -> String {
    place::segment_name(&["run", run_id, ""])
}

/// The session in the name of a segment.
fn number(name: &str, stem: &str) -> Option<u64> {
    name.strip_prefix(stem)?.split('-').next()?.parse().ok()
}

fn all_segments(layout: &Layout) -> impl Iterator<Item = PathBuf> {
    [place::shm_dir(), layout.root().to_owned()].into_iter().flat_map(|d| super::files(&d))
}

/// Whether another process that lives made it.
pub(super) fn is_used(segment: &Segment) -> bool {
    segment.creator_lives() && segment.creator() != Process::current()
}

/// Segments of these sessions that nobody alive uses: the ranks' own and those of their overflow.
pub(super) fn remains(
    layout: &Layout,
    run_id: &str,
    sessions: &[SessionRow],
) -> impl Iterator<Item = PathBuf> {
    let own: HashSet<&str> = sessions.iter().map(|s| s.segment.as_str()).collect();
    let over: Vec<String> = sessions.iter().map(|s| overflow_stem(run_id, s)).collect();
    let is_theirs = move |p: &PathBuf| {
        let name = p.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        own.contains(name) || over.iter().any(|stem| name.starts_with(stem))
    };
    all_segments(layout).filter(is_theirs).filter(|p| !Segment::open(p).is_ok_and(|s| is_used(&s)))
}

/// Sessions of a run whose segments are there: what a catalog that was made anew must know of them.
pub(crate) fn left_by_the_dead(layout: &Layout, run_id: &str) -> Vec<SessionRow> {
    let stem = stem(run_id);
    let row = |path: PathBuf| {
        let segment = path.file_name()?.to_str()?.to_owned();
        let session = number(&segment, &stem)?;
        let found = Segment::open(&path).ok().filter(|s| !is_used(s))?;
        let word = |w| found.word(w).load(Ordering::SeqCst);
        let rank = u32::try_from(word(word::RANK).checked_sub(1)?).ok()?;
        let size = u32::try_from(word(word::RANKS)).ok().filter(|size| rank < *size)?;
        Some(SessionRow { session, rank, size, segment })
    };
    all_segments(layout).filter_map(row).collect()
}

/// A segment by name: in shared memory, or in the run's directory, where it lies when shared
/// memory is small or used up.
pub(super) fn find(layout: &Layout, name: &str) -> Result<Segment> {
    Segment::open(&place::segment_path(name)).or_else(|_| Segment::open(&layout.root().join(name)))
}
