//! The store's own buffer: segments a rank may fill when its own arena has no room, up to the
//! limit that was declared when the run was opened. With the policy `spill` there are more of
//! them, as files in the run's directory.

use super::intake::Intake;
use crate::catalog::{self, Ended, SessionRow};
use crate::disk::Foreign;
use crate::layout::Layout;
use crate::site::{Home, Site};
use forebay_arena::{Direction, Segment, SegmentSpec, segments};
use forebay_host::{Process, directories};
use forebay_types::control::{Elsewhere, NO_RANK, word};
use forebay_types::{Code, Error, Result};
use rusqlite::Connection;
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
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
        let segment = self.segment(session, size, directories::shm_dir())?;
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
            kind: segments::kind::OVERFLOW,
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

    /// Segments of sessions that are over, when nothing in them is needed: their log was read to its end, or
    /// they were given up. The last are told. One of which the catalog says nothing is not ours to remove,
    /// nor one of a process that lives: a copy of this run may be open, too. Those of a session that was
    /// closed by somebody who did not see them stay, until `elsewhere` gives them up.
    pub(super) fn sweep_segments(&self, elsewhere: Elsewhere) -> Result<Vec<String>> {
        let conn = self.catalog.conn();
        let (run, over) = (stem(&self.run_id), segments::name(&["over", &self.run_id, ""]));
        let mut freed = BTreeMap::<u64, u64>::new();
        for path in all_segments(&self.layout) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let own = number(&name, &run);
            let Some(n) = own.or_else(|| number(&name, &over)) else { continue };
            let over = matches!(catalog::session(conn, n)?, Some((.., true)));
            if self.attached.contains_key(&n) || !over || !self.is_of(&name, n)? || may_be_used(&path) {
                continue;
            }
            let given_up = match catalog::ended(conn, n)? {
                Some(Ended::Read | Ended::Unused) => false,
                Some(Ended::Abandoned) => true,
                // Blocks are worth nothing without the log that names them.
                Some(Ended::Gone) if own.is_none() => false,
                Some(Ended::Gone) | None if own.is_some() && is_read(&path) => false,
                Some(Ended::Gone) | None if elsewhere == Elsewhere::Abandon => true,
                Some(Ended::Gone) | None => continue,
            };
            let bytes = path.metadata().map_or(0, |m| m.blocks() * 512);
            if self.disk.remove(&path).is_ok() && given_up {
                *freed.entry(n).or_default() += bytes;
            }
        }
        let line = |(n, bytes): (u64, u64)| {
            format!(
                "{} MiB of shared memory are freed that session {n} held, which was given up",
                bytes >> 20
            )
        };
        Ok(freed.into_iter().map(line).collect())
    }

    /// Whether that is the name of a segment of this run's session, and not of a copy's or, when this is the
    /// copy, of the original's.
    fn is_of(&self, name: &str, session: u64) -> Result<bool> {
        let conn = self.catalog.conn();
        let Some(segment) = catalog::segment_of(conn, session)? else { return Ok(false) };
        let site = catalog::site(conn, session)?;
        if original(&self.layout, site.as_ref(), &self.run_id).is_some() {
            return Ok(false);
        }
        let row = SessionRow { session, rank: 0, size: 1, segment };
        Ok(name == row.segment || name.starts_with(&overflow_stem(&self.run_id, &row)))
    }
}

/// Whether nothing in the log of a segment waits to be read, or nobody can read it any more.
fn is_read(path: &Path) -> bool {
    match Segment::open(path) {
        Ok(s) => s.published(Direction::Up) == s.released(Direction::Up),
        Err(e) => e.code() == Code::Corrupt,
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
pub(super) fn overflow_name(run_id: &str, row: &SessionRow, n: usize) -> String {
    format!("{}{n}", overflow_stem(run_id, row))
}

fn overflow_stem(run_id: &str, row: &SessionRow) -> String {
    let session = row.session.to_string();
    let own = row.segment.strip_prefix(&stem(run_id)).unwrap_or(&session);
    segments::name(&["over", run_id, own, ""])
}

/// The run whose segments these are, when the one here is a copy of it.
pub(super) fn original(layout: &Layout, site: Option<&Site>, run_id: &str) -> Option<PathBuf> {
    site?.run.as_ref()?.original_of(layout.root(), run_id)
}

/// The sessions that were not closed, but for those of the run of which this is a copy.
pub(super) fn own_sessions(layout: &Layout, conn: &Connection) -> Result<Vec<SessionRow>> {
    let (run_id, sites) = (catalog::fact(conn, "run_id")?, catalog::sites(conn)?);
    let mut open = catalog::open_sessions(conn)?;
    open.retain(|row| {
        let site = sites.get(&row.session).and_then(Option::as_ref);
        original(layout, site, &run_id).is_none()
    });
    Ok(open)
}

/// Beginning of the names of the ranks' segments.
fn stem(run_id: &str) -> String {
    segments::name(&["run", run_id, ""])
}

/// The session in the name of a segment.
fn number(name: &str, stem: &str) -> Option<u64> {
    name.strip_prefix(stem)?.split('-').next()?.parse().ok()
}

fn all_segments(layout: &Layout) -> impl Iterator<Item = PathBuf> {
    [directories::shm_dir(), layout.root().to_owned()].into_iter().flat_map(|d| super::files(&d))
}

/// Whether another process that lives made the segment.
pub(super) fn is_used(segment: &Segment) -> bool {
    segment.creator_lives() && segment.creator() != Process::current()
}

/// Whether another process that lives made the segment at a path, and its rank has not left it. One that cannot be
/// looked at may be used.
fn may_be_used(path: &Path) -> bool {
    match Segment::open(path) {
        Ok(segment) => is_used(&segment) && segment.word(word::LEFT).load(Ordering::SeqCst) == 0,
        Err(e) => !matches!(e.code(), Code::Corrupt | Code::VersionMismatch | Code::NotFound),
    }
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
    all_segments(layout).filter(is_theirs).filter(|p| !may_be_used(p))
}

/// Sessions of a run whose segments are there: what a catalog that was made anew must know of them. Those
/// that were made for another directory are of this run when it was moved, and not when it is a copy.
pub(crate) fn left_by_the_dead(layout: &Layout, run_id: &str) -> Vec<SessionRow> {
    let stem = stem(run_id);
    let (mark, inode) = (mark(layout.root()), Home::of(layout.root()).inode);
    let is_original = |run: &Path| Home::of(run).original_of(layout.root(), run_id).is_some();
    let row = |path: PathBuf| {
        let segment = path.file_name()?.to_str()?.to_owned();
        let session = number(&segment, &stem)?;
        let found = Segment::open(&path).ok().filter(|s| !is_used(s))?;
        let is_here = segment.rsplit('-').next() == Some(&mark);
        let is_ours = match found.word(word::HOME).load(Ordering::SeqCst) {
            home if home == inode => true,
            // Who has put a copy in the place of the run has the run elsewhere.
            home if home != 0 && is_here => false,
            _ => is_here || !found.label().is_some_and(|run| is_original(Path::new(&run))),
        };
        if !is_ours {
            return None;
        }
        let word = |w| found.word(w).load(Ordering::SeqCst);
        let rank = u32::try_from(word(word::RANK).checked_sub(1)?).ok()?;
        let is_one = |size: &u32| rank < *size || (*size == 0 && rank == NO_RANK);
        let size = u32::try_from(word(word::RANKS)).ok().filter(is_one)?;
        Some(SessionRow { session, rank, size, segment })
    };
    all_segments(layout).filter_map(row).collect()
}

/// The identity of the run that had its segments made for this very directory, where nothing else tells it any more.
pub(crate) fn id_left(layout: &Layout) -> Option<String> {
    let (stem, inode) = (segments::name(&["run", ""]), Home::of(layout.root()).inode);
    all_segments(layout).find_map(|path| {
        let id = path.file_name()?.to_str()?.strip_prefix(&stem)?.split('-').next()?.to_owned();
        let found = Segment::open(&path).ok().filter(|s| !is_used(s))?;
        (inode != 0 && found.word(word::HOME).load(Ordering::SeqCst) == inode).then_some(id)
    })
}

/// Sessions of a run whose segments are there and were made for the run in this very directory, and not for a copy of
/// it.
pub(super) fn left_here(layout: &Layout, run_id: &str) -> impl Iterator<Item = SessionRow> {
    let mark = mark(layout.root());
    let own = move |row: &SessionRow| row.segment.rsplit('-').next() == Some(&mark);
    left_by_the_dead(layout, run_id).into_iter().filter(own)
}

/// A segment by name: in shared memory, or in the run's directory, where it lies when shared
/// memory is small or used up.
pub(super) fn find(layout: &Layout, name: &str) -> Result<Segment> {
    Segment::open(&segments::path(name)).or_else(|_| Segment::open(&layout.root().join(name)))
}
