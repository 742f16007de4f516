//! The store's own buffer: segments a rank may fill when its own arena has no room, up to the
//! limit that was declared when the run was opened. With the policy `spill` there are more of
//! them, as files in the run's directory.

use super::intake::Intake;
use super::session::overflow_name;
use crate::catalog::SessionRow;
use crate::disk::Foreign;
use crate::layout::Layout;
use forebay_arena::{Segment, SegmentSpec, place};
use forebay_types::{Error, Result};
use serde_json::Value;
use std::path::PathBuf;

/// Smaller segments are not worth their pages.
const LEAST: u64 = 16 << 20;
/// Nor smaller files.
const LEAST_SPILT: u64 = 64 << 20;
const BLOCKS: u32 = 1024;

impl Intake {
    /// A segment for a session: its path, or null when the limit or the memory is used up.
    pub(super) fn overflow(&mut self, session: u64, bytes: u64, spill: bool, known: u32) -> Value {
        // The rank's wait for the last answer was interrupted, or its owner died.
        let unknown = self.sessions.get(&session).and_then(|s| s.overflow.get(known as usize));
        if let Some(path) = unknown.and_then(|s| s.path()) {
            return Value::String(path.to_string_lossy().into_owned());
        }
        let made = self.in_memory(session, bytes).or_else(|| spill.then(|| self.spilt(session, bytes))?);
        let (Some(segment), Some(s)) = (made, self.sessions.get_mut(&session)) else { return Value::Null };
        let Some(path) = segment.path().map(|p| p.to_string_lossy().into_owned()) else { return Value::Null };
        s.overflow.push(segment);
        Value::String(path)
    }

    fn in_memory(&mut self, session: u64, bytes: u64) -> Option<Segment> {
        let left = self.overflow_limit.saturating_sub(self.figures.overflow);
        let size = bytes.next_multiple_of(4096).max(LEAST).min(left);
        if size < LEAST.min(bytes) || size == 0 {
            return None;
        }
        let segment = self.segment(session, size, place::shm_dir())?;
        self.figures.overflow += size;
        self.figures.overflow_high = self.figures.overflow_high.max(self.figures.overflow);
        Some(segment)
    }

    fn spilt(&mut self, session: u64, bytes: u64) -> Option<Segment> {
        let left = self.spill_limit.saturating_sub(self.figures.spilt);
        let size = bytes.next_multiple_of(4096).max(LEAST_SPILT).min(left);
        if size < bytes || size == 0 {
            return None;
        }
        let segment = self.segment(session, size, self.layout.root().to_owned())?;
        self.figures.spilt += size;
        self.figures.spilt_high = self.figures.spilt_high.max(self.figures.spilt);
        Some(segment)
    }

    fn segment(&mut self, session: u64, size: u64, dir: PathBuf) -> Option<Segment> {
        let n = self.sessions.get(&session)?.overflow.len() + 1;
        let spec = SegmentSpec {
            name: overflow_name(&self.run_id, session, n),
            kind: place::kind::OVERFLOW,
            up_bytes: 4096,
            down_bytes: 4096,
            block_bytes: size,
            blocks: BLOCKS,
        };
        let asked = self.disk.before(Foreign::Segment, &dir.join(&spec.name));
        let failed = |e| Error::io("no segment", e);
        asked.map_err(failed).and_then(|()| Segment::create_in(&dir, &spec)).ok()
    }

    /// The segments a session was given by an earlier owner.
    pub(super) fn overflows_of(&mut self, row: &SessionRow) -> Vec<Segment> {
        let name = |n| overflow_name(&self.run_id, row.session, n);
        let found: Vec<Segment> = (1..).map_while(|n| find(&self.layout, &name(n)).ok()).collect();
        found.iter().for_each(|s| self.figures.take(s, &self.layout));
        found
    }

    /// Segments of this run that no session has any more: their owner and their rank are dead.
    pub(super) fn sweep_segments(&self) {
        let (run, over) = (format!("-run-{}-", self.run_id), format!("-over-{}-", self.run_id));
        let ours = |name: &str| {
            self.sessions.values().any(|s| {
                name.ends_with(&format!("{run}{}", s.row.session))
                    || name.contains(&format!("{over}{}-", s.row.session))
            })
        };
        let dirs = [place::shm_dir(), self.layout.root().to_owned()];
        for path in dirs.iter().flat_map(|d| super::files(d)) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let of_run = name.contains(&run) || name.contains(&over);
            if of_run && name.starts_with(&place::shm_prefix()) && !ours(&name) {
                let _ = self.disk.remove(&path);
            }
        }
    }
}

/// A segment by name: in shared memory, or in the run's directory, where it lies when shared
/// memory is small or used up.
pub(super) fn find(layout: &Layout, name: &str) -> Result<Segment> {
    Segment::open(&place::segment_path(name)).or_else(|_| Segment::open(&layout.root().join(name)))
}
