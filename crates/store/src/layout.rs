//! Where things lie in the directory of a run, and whether a directory is one.
//!
//! ```text
//! NAME.fb/
//!   catalog.sqlite            names, attributes, tables, steps
//!   steps/0000000100.h5       one file per committed step; a leading `m` for numbers below zero
//!   steps/0000000101.h5.partial  what is here of a step that lacks ranks whose memory is on another host
//!   packs/0000000000-0000000999.h5  many steps of one layout, stacked, in place of their files
//!   data/e.6c...0.1-7.h5      a large data set outside steps: name, checksum of the name,
//!                             set number, session and sequence number of the put
//!   views/all.h5              shows arrays over all steps; made by `forebay export --view`
//!   LOCK                      the owner: host, pid, fencing number
//!   absent-1.tmp              rank 1 was refused on another host, and why; the owner reads it
//! ```
//! A name that ends in `.tmp` belongs to nobody once its writer is dead.

use crate::disk::Disk;
use forebay_arena::segments;
use forebay_types::{Code, Error, Result};
use std::path::{Path, PathBuf};

/// Version of the directory's format. Newer ones are refused, older ones are read.
pub const FORMAT: u32 = 2;
/// The relational part.
pub const CATALOG: &str = "catalog.sqlite";
/// What the names of catalogs that `repair` put aside begin with.
pub const DAMAGED: &str = "catalog.damaged-";
/// What the name of the catalog's log ends in.
const LOG: &str = "-wal";
/// What the name of a catalog ends in that was saved, before its number.
pub const SAVED: &str = ".saved-";
/// What the name of a catalog made anew ends in until it takes the old one's place.
const REPAIRED: &str = ".repaired";
/// Step files.
pub const STEPS: &str = "steps";
/// Packs of steps.
pub const PACKS: &str = "packs";
/// Large data sets outside steps.
pub const DATA: &str = "data";
/// Files that show arrays over all steps.
pub const VIEWS: &str = "views";
/// Who owns the run.
pub const LOCK: &str = "LOCK";
/// What an unfinished file ends in.
pub const TMP: &str = ".tmp";
/// What the file of a step ends in that lacks ranks.
pub const PARTIAL: &str = ".partial";
/// What the owner's process tells the other ones; written by whoever has the sockets.
pub const AGENT: &str = "agent.json";

/// Before the number of a rank that was refused.
const ABSENT: &str = "absent-";

/// The directory of a run.
#[derive(Clone, Debug)]
pub struct Layout {
    root: PathBuf,
}

impl Layout {
    /// Names only; nothing is looked at.
    pub fn new(root: impl Into<PathBuf>) -> Layout {
        Layout { root: root.into() }
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The catalog.
    pub fn catalog(&self) -> PathBuf {
        self.root.join(CATALOG)
    }

    /// An error of the catalog itself with the run and the way out; any other one as it is.
    pub fn of_catalog(&self, e: Error) -> Error {
        if e.code() != Code::Corrupt || e.text().contains("`forebay ") {
            return e;
        }
        let run = self.root.display();
        let text = format!("{run}: {}; `forebay repair {run}` saves what can be read", e.text());
        Error::new(Code::Corrupt, text)
    }

    /// The catalog while it is being made.
    pub fn unfinished_catalog(&self) -> PathBuf {
        with_end(&self.catalog(), TMP)
    }

    /// Notes that a rank cannot come, for an owner that waits for it.
    pub fn note_absent(&self, rank: u32, how: &str) {
        // Without the note the owner waits; that is all.
        let _ = std::fs::write(self.root.join(format!("{ABSENT}{rank}{TMP}")), how);
    }

    /// Takes such notes away: rank and text.
    pub fn take_absent(&self) -> Vec<(u32, String)> {
        let Ok(entries) = std::fs::read_dir(&self.root) else { return Vec::new() };
        let note = |path: PathBuf| {
            let name = path.file_name()?.to_str()?;
            let rank = name.strip_prefix(ABSENT)?.strip_suffix(TMP)?.parse().ok()?;
            let how = std::fs::read_to_string(&path).ok()?;
            std::fs::remove_file(&path).ok().map(|()| (rank, how))
        };
        entries.filter_map(|entry| note(entry.ok()?.path())).collect()
    }

    /// A catalog made anew that is whole and has not taken the old one's place yet.
    pub fn repaired_catalog(&self) -> PathBuf {
        with_end(&self.catalog(), REPAIRED)
    }

    /// Catalogs that programs saved when another file had taken the name of theirs.
    pub fn saved_catalogs(&self) -> Vec<PathBuf> {
        let is_saved = |p: &PathBuf| {
            let name = p.file_name().unwrap_or_default().to_string_lossy();
            name.strip_prefix(CATALOG)
                .and_then(|end| end.strip_prefix(SAVED))
                .is_some_and(|n| n.parse::<u32>().is_ok())
        };
        let entries = std::fs::read_dir(&self.root).into_iter().flatten().flatten();
        let mut found: Vec<PathBuf> = entries.map(|e| e.path()).filter(is_saved).collect();
        found.sort();
        found
    }

    /// A damaged catalog that `repair` put aside.
    pub fn damaged_catalog(&self, n: u32) -> PathBuf {
        self.root.join(format!("{DAMAGED}{n}.sqlite"))
    }

    /// The lock file.
    pub fn lock(&self) -> PathBuf {
        self.root.join(LOCK)
    }

    /// The directory of step files.
    pub fn steps(&self) -> PathBuf {
        self.root.join(STEPS)
    }

    /// The directory of packs, which is there when one was made.
    pub fn packs(&self) -> PathBuf {
        self.root.join(PACKS)
    }

    /// The directory of large data sets.
    pub fn data(&self) -> PathBuf {
        self.root.join(DATA)
    }

    /// The directory of views.
    pub fn views(&self) -> PathBuf {
        self.root.join(VIEWS)
    }

    /// A file named by a path relative to the run, as the catalog stores it.
    pub fn file(&self, relative: &str) -> Result<PathBuf> {
        let inside = Path::new(relative).components().all(|c| matches!(c, std::path::Component::Normal(_)));
        match inside && !relative.is_empty() {
            true => Ok(self.root.join(relative)),
            false => Err(Error::new(
                Code::Corrupt,
                format!(
                    "the catalog names the file {relative:?}, which is not inside the run; run `forebay repair`"
                ),
            )),
        }
    }

    /// What the directory is.
    pub fn inspect(&self) -> Result<DirectoryKind> {
        let meta = match std::fs::metadata(&self.root) {
            Ok(m) => m,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(DirectoryKind::Nothing),
            Err(e) => return Err(Error::io(format!("cannot look at {}", self.root.display()), e)),
        };
        if !meta.is_dir() {
            return Err(not_a_run(&self.root, "it is a file"));
        }
        if self.catalog().exists() {
            return Ok(DirectoryKind::Run);
        }
        let mut entries = std::fs::read_dir(&self.root)
            .map_err(|e| Error::io(format!("cannot read {}", self.root.display()), e))?
            .filter_map(|e| e.ok())
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .collect::<Vec<_>>();
        // What has neither a catalog nor arrays may still have had tables.
        let lost = |n: &String| {
            n.starts_with(DAMAGED)
                || is_segment(n)
                || [LOG, REPAIRED].iter().any(|end| n.strip_prefix(CATALOG) == Some(end))
        };
        let was_a_run = entries.iter().any(lost);
        let ours = |n: &str| {
            [LOCK, AGENT, STEPS, PACKS, DATA, VIEWS].contains(&n)
                || n.starts_with(CATALOG)
                || n.starts_with(DAMAGED)
                || is_segment(n)
        };
        entries.retain(|n| !ours(n));
        if !entries.is_empty() {
            return Err(not_a_run(&self.root, &format!("it holds {:?} and no {CATALOG}", entries[0])));
        }
        Ok(match was_a_run || self.has_files() {
            false => DirectoryKind::Empty,
            // It was made while we looked.
            true if self.catalog().exists() => DirectoryKind::Run,
            true if crate::lock::holder(&self.lock()).is_some() => DirectoryKind::Begun,
            true => DirectoryKind::Remains,
        })
    }

    fn has_files(&self) -> bool {
        [self.steps(), self.packs(), self.data()].iter().any(|d| {
            std::fs::read_dir(d).is_ok_and(|entries| {
                entries.flatten().any(|e| {
                    let name = e.file_name();
                    let name = name.to_string_lossy();
                    name.ends_with(".h5") || name.ends_with(PARTIAL)
                })
            })
        })
    }

    /// Makes the directories of a run, durably.
    pub fn create(&self, disk: &dyn Disk) -> Result<()> {
        let missing = |dir: &&PathBuf| !dir.is_dir();
        let dirs = [self.root.clone(), self.steps(), self.data()];
        let new: Vec<&PathBuf> = dirs.iter().filter(missing).collect();
        for dir in &new {
            disk.make_dir(dir).map_err(|e| {
                let kind = e.kind();
                let e = Error::io(format!("cannot make the directory {}", dir.display()), e);
                match (kind, dir.parent()) {
                    (std::io::ErrorKind::NotFound, Some(above)) => {
                        e.with_remedy(format_args!("make {} first", above.display()))
                    }
                    (std::io::ErrorKind::ReadOnlyFilesystem, _) => e.with_remedy(READ_ONLY),
                    _ => e,
                }
            })?;
        }
        for dir in new {
            // A directory is found again after a loss of power when the one above it is durable.
            let above = dir.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
            disk.sync_dir(above)
                .map_err(|e| Error::io(format!("cannot make {} durable", dir.display()), e))?;
        }
        Ok(())
    }
}

/// What to do where a disk takes nothing.
pub(crate) const READ_ONLY: &str =
    "its disk takes nothing: open the run with mode \"r\", or put it where it can be written";

/// Whether that is the name of a rank's segment, which lies in the run's directory when shared memory is small.
fn is_segment(name: &str) -> bool {
    ["run", "over"].iter().any(|kind| name.starts_with(&segments::name(&[kind, ""])))
}

/// What a directory turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryKind {
    /// There is no such directory.
    Nothing,
    /// An empty directory, or one in which a run was about to begin.
    Empty,
    /// A run.
    Run,
    /// A run that a living process begins anew, or whose catalog it makes anew, at this instant.
    Begun,
    /// Files of a run, or its log, or damaged catalogs, and no catalog: `repair` makes one.
    Remains,
}

/// What is said of [`DirectoryKind::Begun`].
pub(crate) fn begun(layout: &Layout) -> String {
    format!("another process is just beginning the run {}; try again", layout.root().display())
}

fn not_a_run(path: &Path, why: &str) -> Error {
    Error::bad(format!("{} is not a run: {why}; choose another name", path.display()))
}

/// A path with something behind its last name.
pub(crate) fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

/// The file of a step, relative to the run.
pub fn step_file(step: i64) -> String {
    match step < 0 {
        true => format!("{STEPS}/m{:010}.h5", step.unsigned_abs()),
        false => format!("{STEPS}/{step:010}.h5"),
    }
}

/// The file of what is here of a step that lacks ranks, relative to the run.
pub fn partial_file(step: i64) -> String {
    format!("{}{PARTIAL}", step_file(step))
}

/// The file of a pack that was made as the `n`-th of its first and last step, relative to the run. None is ever written
/// over: a row may name it still.
pub fn pack_file(first: i64, last: i64, n: u32) -> String {
    let digits = |step: i64| {
        let sign = if step < 0 { "m" } else { "" };
        format!("{sign}{:010}", step.unsigned_abs())
    };
    let again = if n == 0 { String::new() } else { format!(".{n}") };
    format!("{PACKS}/{}-{}{again}.h5", digits(first), digits(last))
}

/// Whether a file of steps, relative to the run, is a pack.
pub fn is_pack(file: &str) -> bool {
    file.strip_prefix(PACKS).is_some_and(|rest| rest.starts_with('/'))
}

/// The step whose file has this name in the directory of step files.
pub fn step_of(name: &str) -> Option<i64> {
    let digits = name.strip_suffix(".h5")?;
    let step = match digits.strip_prefix('m') {
        Some(digits) => digits.parse::<i64>().ok()?.checked_neg()?,
        None => digits.parse().ok()?,
    };
    (step_file(step).rsplit('/').next() == Some(name)).then_some(step)
}

/// The file of a data set, relative to the run, unique by the record that made it. Characters
/// that shells and file systems dislike become `_`; a checksum of the whole name keeps two apart.
pub fn data_file(name: &str, set: i64, session: u64, seq: u64) -> String {
    let clean: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).take(64).collect();
    let sum = forebay_types::crc32c(name.as_bytes());
    format!("{DATA}/{clean}.{sum:08x}.{set}.{session}-{seq}.h5")
}

/// Session and number of the put that made the file of a data set.
pub fn put_of(file: &str) -> Option<(u64, u64)> {
    let (session, seq) = file.strip_suffix(".h5")?.rsplit('.').next()?.split_once('-')?;
    Some((session.parse().ok()?, seq.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_sort_by_step_and_stay_apart() {
        assert_eq!(step_file(100), "steps/0000000100.h5");
        assert_eq!(step_file(-3), "steps/m0000000003.h5");
        assert!(step_file(9) < step_file(10));
        assert_eq!(pack_file(-3, 99, 0), "packs/m0000000003-0000000099.h5");
        assert_eq!(pack_file(0, 9, 2), "packs/0000000000-0000000009.2.h5");
        assert!(is_pack(&pack_file(0, 9, 0)) && !is_pack(&step_file(9)) && !is_pack("packs.h5"));
        assert_ne!(data_file("a/b", 0, 1, 1), data_file("a_b", 0, 1, 1));
        assert_eq!(put_of(&data_file("a/b.7-8", -3, 12, 5)), Some((12, 5)));
    }

    #[test]
    fn a_path_out_of_the_run_is_refused() {
        let l = Layout::new("/runs/a.fb");
        assert!(l.file("steps/0000000001.h5").is_ok());
        for bad in ["../x", "/etc/passwd", "", "steps/../../x"] {
            assert!(l.file(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_directory_with_other_things_in_it_is_no_run() {
        let dir = tempfile::tempdir().unwrap();
        let l = Layout::new(dir.path());
        assert_eq!(l.inspect().unwrap(), DirectoryKind::Empty);
        std::fs::write(dir.path().join("thesis.tex"), "x").unwrap();
        let e = l.inspect().unwrap_err();
        assert!(e.text().contains("not a run") && e.text().contains("thesis.tex"));
    }
}
