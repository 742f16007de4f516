//! Left-over segments: what programs that are dead have in shared memory, and of which runs.

use super::out::bytes;
use forebay::Result;
use forebay_arena::place::{self, Found};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The runs of other hosts that were asked for their numbers: each once, though many segments may be of it. An
/// error says nothing of the run.
type Asked = BTreeMap<String, Result<Option<String>>>;

/// What is known of a segment that a dead process has left.
pub enum Left {
    /// Of calls: the next agent clears it away.
    Calls,
    /// Somebody works on it: the agent, or who recovers the run.
    InUse,
    /// Of a run that is there, and of a session of it that was not closed.
    Of(String),
    /// Of a run that is there, and of a session that somebody closed who did not see it, or gave it up.
    Closed(String),
    /// Of a run whose directory is gone, or is another run's by now.
    OfNone(String),
    /// Of a run on another host that cannot be asked, and why.
    Unasked(String, String),
    /// Nothing says of which run.
    Unknown,
}

fn what_is_left(found: &Found, asks: bool, asked: &mut Asked) -> Left {
    if found.segment.kind() == place::kind::CALL {
        return Left::Calls;
    }
    if is_mapped(&found.path) {
        return Left::InUse;
    }
    let Some(run) = found.segment.label() else { return Left::Unknown };
    let name = found.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let is_of = |id: &str| name.contains(&format!("-{id}-"));
    let dir = Path::new(&run);
    if !dir.is_absolute() {
        if !asks {
            return Left::Of(run);
        }
        let there = asked.entry(run.clone()).or_insert_with(|| forebay::far_run_id(&run));
        return match there {
            Ok(Some(id)) if is_of(id) => Left::Of(run),
            Ok(_) => Left::OfNone(run),
            Err(e) => Left::Unasked(run, e.to_string()),
        };
    }
    // What cannot be looked at may be there.
    let gone = std::fs::symlink_metadata(dir).is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound);
    let another = || {
        let there = forebay_store::Reader::open(dir).and_then(|reader| reader.run_id());
        there.is_ok_and(|id| !is_of(&id))
    };
    match gone || another() {
        true => Left::OfNone(run),
        false if is_closed(dir, &name) => Left::Closed(run),
        false => Left::Of(run),
    }
}

/// Whether the session of a rank's segment is over, by the catalog of its run.
fn is_closed(dir: &Path, name: &str) -> bool {
    let known = forebay_store::catalog::open_read_only(&dir.join(forebay_store::layout::CATALOG))
        .and_then(|conn| forebay_store::catalog::open_sessions(&conn));
    let own = name.contains("-run-");
    own && known.is_ok_and(|open| open.iter().all(|row| row.segment != name))
}

/// Whether a living process has the file in its memory.
fn is_mapped(path: &Path) -> bool {
    let Some(path) = path.to_str() else { return true };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter(|p| {
            p.file_name().to_str().is_some_and(|n| n.parse::<u32>().is_ok_and(|n| n != std::process::id()))
        })
        .any(|p| std::fs::read_to_string(p.path().join("maps")).is_ok_and(|maps| maps.contains(path)))
}

/// A segment whose maker has ended.
pub struct Leftover {
    /// Where it is.
    pub path: PathBuf,
    /// Memory that it takes.
    pub bytes: u64,
    /// What is known of it.
    pub left: Left,
}

impl Leftover {
    /// For people; nothing is said of what needs nobody.
    pub fn line(&self) -> Option<String> {
        let room = bytes(self.bytes);
        Some(match &self.left {
            Left::Calls | Left::InUse => return None,
            Left::Of(run) => format!(
                "{room} of the run {run}, which `forebay recover {run}` or its next opening brings to disk"
            ),
            Left::Closed(run) => format!(
                "{room} of a session of the run {run} that was closed elsewhere without it: `forebay recover --abandon {run}` frees it"
            ),
            Left::OfNone(run) => format!(
                "{room} of the run {run}, which is no more there: `forebay doctor --clean` frees it; if it was moved, recover it first where it is"
            ),
            Left::Unasked(run, why) => {
                format!("{room} of the run {run}, whose host cannot be asked for it: {why}")
            }
            Left::Unknown => format!("{room} in {}, of a run that it does not name", self.path.display()),
        })
    }
}

/// All of this user; `asks`: other hosts are asked for runs of theirs.
pub fn leftovers(asks: bool) -> Vec<Leftover> {
    let mut asked = Asked::new();
    let dead = place::segments("").into_iter().filter(|found| !found.segment.creator_lives());
    dead.map(|found| {
        let bytes = std::fs::metadata(&found.path).map_or(0, |m| m.blocks() * 512);
        Leftover { left: what_is_left(&found, asks, &mut asked), bytes, path: found.path }
    })
    .collect()
}
