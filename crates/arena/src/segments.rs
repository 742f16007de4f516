//! The named segments of this user: what they are called, and which ones there are.

use crate::Segment;
use forebay_host::directories::{shm_dir, shm_prefix};
use forebay_types::{Error, Result};
use std::path::PathBuf;

/// Kinds of segments.
pub mod kind {
    /// Between a rank and the owner of its run; holds acknowledged data.
    pub const RUN: u32 = 1;
    /// Between a client and a server; nothing in it needs recovery.
    pub const CALL: u32 = 2;
    /// More room for a run, in shared memory or spilt into its directory; holds acknowledged data.
    pub const OVERFLOW: u32 = 3;
    /// Arrays that a server holds for a client; nothing in it needs recovery.
    pub const ARRAYS: u32 = 4;
}

/// The name of a segment: the prefix, then the parts.
pub fn name(parts: &[&str]) -> String {
    let mut name = shm_prefix();
    for part in parts {
        name.push('-');
        name.push_str(part);
    }
    name
}

/// The path of a segment of that name.
pub fn path(name: &str) -> PathBuf {
    shm_dir().join(name)
}

/// A plain file name: no path, nothing hidden, not too long.
pub fn check_name(name: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > 200 || name.starts_with('.') || !name.chars().all(plain) {
        return Err(Error::bad(format!(
            "{name:?} is no name for a segment; use up to 200 letters, digits, '-', '_' and '.'"
        )));
    }
    Ok(())
}

/// A segment found in the shared-memory directory.
pub struct FoundSegment {
    /// Where.
    pub path: PathBuf,
    /// The segment, opened.
    pub segment: Segment,
}

/// All segments of this user's prefix whose names go on with `stem`.
pub fn found(stem: &str) -> Vec<FoundSegment> {
    let stem = name(&[stem]);
    let Ok(dir) = std::fs::read_dir(shm_dir()) else { return Vec::new() };
    dir.flatten()
        .filter(|e| e.file_name().to_str().is_some_and(|n| n.starts_with(&stem)))
        .filter_map(|e| Some(FoundSegment { path: e.path(), segment: Segment::open(&e.path()).ok()? }))
        .collect()
}

/// Removes segments of that kind whose creator is gone and that hold nothing to recover (the
/// caller knows that of the kind); returns how many.
pub fn sweep(kind: u32) -> usize {
    found("")
        .into_iter()
        .filter(|f| f.segment.kind() == kind && !f.segment.creator_lives())
        .filter(|f| std::fs::remove_file(&f.path).is_ok())
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_leave_the_directory_are_refused() {
        assert!(check_name("forebay-1000-run-a1b2-3").is_ok());
        for bad in ["", ".hidden", "../up", "a/b", "a b", "\u{e4}"] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
    }
}
