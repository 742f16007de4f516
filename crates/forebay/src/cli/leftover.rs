//! Left-over segments: what programs that are dead have in shared memory, and of which runs.

use super::out::bytes;
use forebay::Result;
use forebay_arena::segments::{self, FoundSegment};
use forebay_store::catalog::{self, Standing};
use forebay_store::layout::DirectoryKind;
use forebay_types::control::word;
use forebay_types::counted;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The runs of other hosts that were asked for their numbers: each once, though many segments may be of it. An
/// error says nothing of the run.
type AskedRuns = BTreeMap<String, Result<Option<String>>>;

/// What is known of a segment that a dead process has left.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub enum Left {
    /// Of calls: the next agent clears it away.
    Calls,
    /// Somebody works on it: the agent, or who recovers the run.
    InUse,
    /// Of a run that is there, and of a session of it that was not closed.
    Of(String),
    /// Of a run that is there, and of a session of it of which nothing is needed any more.
    Settled(String),
    /// Of a run that is there, and of a session that somebody closed who did not see it, or gave it up.
    Closed(String),
    /// Of a run whose directory is gone, or is another run's by now.
    OfNone(String),
    /// Of a run on another host that cannot be asked, and why.
    Unasked(String, String),
    /// Of a run whose disk does not answer.
    Silent(String),
    /// Nothing says of which run.
    Unknown(PathBuf),
}

/// What is looked at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
pub enum Look {
    /// This host.
    Here,
    /// Hosts of other runs, too.
    Hosts,
}

/// What a segment says of itself. It is not kept open: others would take it for one that somebody works on.
#[derive(Clone)]
struct SegmentFacts {
    path: PathBuf,
    is_of_calls: bool,
    run: Option<String>,
    home: u64,
    bytes: u64,
}

impl SegmentFacts {
    fn of(found: FoundSegment) -> SegmentFacts {
        SegmentFacts {
            is_of_calls: found.segment.kind() == segments::kind::CALL,
            run: found.segment.label(),
            home: found.segment.word(word::HOME).load(Ordering::Relaxed),
            bytes: std::fs::metadata(&found.path).map_or(0, |m| m.blocks() * 512),
            path: found.path,
        }
    }

    fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// A disk that has not answered by then does not.
const PATIENCE: Duration = Duration::from_secs(2);
/// Who only looks has a segment open for less than this.
const GLANCE: Duration = Duration::from_millis(20);

fn what_is_left(
    seen: &SegmentFacts,
    look: Look,
    asked: &mut AskedRuns,
    silent: &mut BTreeSet<String>,
) -> Left {
    if seen.is_of_calls {
        return Left::Calls;
    }
    let is_used = || {
        is_mapped(&seen.path) && {
            std::thread::sleep(GLANCE);
            is_mapped(&seen.path)
        }
    };
    if is_used() {
        return Left::InUse;
    }
    let Some(run) = seen.run.clone() else { return Left::Unknown(seen.path.clone()) };
    if Path::new(&run).is_absolute() {
        if silent.contains(&run) {
            return Left::Silent(run);
        }
        // A thread that waits for the disk is left to itself.
        let (tell, told) = std::sync::mpsc::channel();
        let (of, dir) = (seen.clone(), run.clone());
        std::thread::spawn(move || drop(tell.send(left_of(&of, dir))));
        return told.recv_timeout(PATIENCE).unwrap_or_else(|_| {
            silent.insert(run.clone());
            Left::Silent(run)
        });
    }
    let name = seen.name();
    let is_of = |id: &str| name.contains(&format!("-{id}-"));
    if look < Look::Hosts {
        return Left::Of(run);
    }
    let there = asked.entry(run.clone()).or_insert_with(|| forebay::remote_run_id(&run));
    match there {
        Ok(Some(id)) if is_of(id) => Left::Of(run),
        Ok(_) => Left::OfNone(run),
        Err(e) => Left::Unasked(run, e.to_string()),
    }
}

/// Says what a segment is that was left behind, when its run is a directory on this host.
fn left_of(seen: &SegmentFacts, run: String) -> Left {
    let (home, name, dir) = (seen.home, seen.name(), Path::new(&run));
    let is_of = |id: &str| name.contains(&format!("-{id}-"));
    let glance = |dir: &Path| catalog::glance(&dir.join(forebay_store::layout::CATALOG));
    let is_elsewhere = std::fs::metadata(dir)
        .map(|there| there.ino() != home)
        .unwrap_or_else(|e| e.kind() == std::io::ErrorKind::NotFound);
    if home != 0 && is_elsewhere {
        // Renamed, and another run, or a copy, may be in its place.
        let beside =
            dir.parent().and_then(|near| std::fs::read_dir(near).ok()).into_iter().flatten().flatten();
        if let Some(moved) = beside
            .filter(|e| e.ino() == home)
            .map(|e| e.path())
            .find(|p| glance(p).is_ok_and(|(id, _)| is_of(&id)))
        {
            return Left::Of(moved.display().to_string());
        }
        return Left::OfNone(run);
    }
    // What cannot be looked at may be there.
    let layout = forebay_store::layout::Layout::new(dir);
    // What was made for this very directory is recovered also where its catalog is lost.
    let is_nothing = matches!(layout.inspect(), Ok(DirectoryKind::Nothing | DirectoryKind::Empty));
    if is_nothing && home == 0 {
        return Left::OfNone(run);
    }
    let is_settled = || {
        // Whoever has the run reads its memory, and frees it behind that.
        forebay_store::lock::holder(&layout.lock()).is_some() || matches!(seen.path.try_exists(), Ok(false))
    };
    match glance(dir) {
        Ok((id, _)) if !is_of(&id) => Left::OfNone(run),
        _ if is_settled() => Left::InUse,
        // Whoever had the run a moment ago has written how the session ended before that.
        _ => match glance(dir).ok().and_then(|(id, known)| standing(&name, &id, known)) {
            Some(Standing::Unseen) => Left::Closed(run),
            Some(Standing::Settled) => Left::Settled(run),
            _ => Left::Of(run),
        },
    }
}

/// How the session stands whose segment bears a name, or whose overflow does: `PREFIX-over-RUN-REST-N` is that of
/// `PREFIX-run-RUN-REST`.
fn standing(name: &str, id: &str, known: Vec<(String, Standing)>) -> Option<Standing> {
    let rank = |(stem, _): (&str, &str)| stem.replacen(&format!("-over-{id}-"), &format!("-run-{id}-"), 1);
    let of_overflow = name.rsplit_once('-').map(rank);
    let is_its = |of: &str| of == name || of_overflow.as_deref() == Some(of);
    known.into_iter().find(|(of, _)| is_its(of)).map(|(_, standing)| standing)
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

/// For people: a line for each run, and what it takes in all. Nothing is said of what needs nobody.
pub fn lines(found: &[Leftover]) -> Vec<String> {
    let mut sums = BTreeMap::<&Left, u64>::new();
    for one in found {
        *sums.entry(&one.left).or_default() += one.bytes;
    }
    sums.into_iter().filter_map(|(left, sum)| left.line(bytes(sum))).collect()
}

/// Tells somebody who reads a run that its catalog is not all that was written. On the standard error, so that
/// what a program reads of the command stays as it is.
pub fn doubt(run: &forebay::Run) {
    if let Some(doubt) = forebay_store::doubt(run.path()) {
        eprintln!("forebay: {}: {}", run.path().display(), doubt.text);
    }
}

/// Records of dead programs that mean nothing to the catalog of a run, and are kept aside in it.
pub fn unread(dir: &Path) -> u64 {
    let count = || {
        let rows =
            forebay_store::Reader::open(dir).ok()?.sql("select count(*) from fb_unread", &[]).ok()?.rows;
        match rows.first()?.first()? {
            forebay::Cell::Int(n) => u64::try_from(*n).ok(),
            _ => None,
        }
    };
    // Most runs have no such table.
    count().unwrap_or(0)
}

/// What `ls` and `verify` say of them.
pub fn kept_aside(unread: u64, run: &str) -> Option<String> {
    let what = counted(unread, "record");
    (unread > 0).then(|| {
        format!(
            "{what} that a program left, of which this catalog knows no table: kept aside; `forebay sql {run} \"select session, seq, why from fb_unread\"` shows them"
        )
    })
}

impl Left {
    fn line(&self, room: String) -> Option<String> {
        Some(match self {
            Left::Calls | Left::InUse => return None,
            Left::Of(run) => format!(
                "{room} of the run {run}, which `forebay recover {run}` or its next opening brings to disk"
            ),
            Left::Settled(run) => format!(
                "{room} of the run {run}, which is on disk or was given up: `forebay recover {run}` or its next opening frees it"
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
            Left::Silent(run) => format!("{room} of the run {run}, whose disk does not answer"),
            Left::Unknown(path) => format!("{room} in {}, of a run that it does not name", path.display()),
        })
    }
}

/// All of this user.
pub fn leftovers(look: Look) -> Vec<Leftover> {
    let (mut asked, mut silent) = (AskedRuns::new(), BTreeSet::new());
    let dead = segments::found("").into_iter().filter(|found| !found.segment.creator_lives());
    let seen: Vec<SegmentFacts> = dead.map(SegmentFacts::of).collect();
    let leftover = |seen: SegmentFacts| Leftover {
        left: what_is_left(&seen, look, &mut asked, &mut silent),
        bytes: seen.bytes,
        path: seen.path,
    };
    seen.into_iter().map(leftover).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_run_stands_in_one_line_however_many_segments_it_takes() {
        let run = |name: &str| Left::Of(name.to_owned());
        let one = |left, bytes| Leftover { path: PathBuf::new(), bytes, left };
        let found = [
            one(run("/r.fb"), 2 << 20),
            one(Left::Calls, 1),
            one(run("/s.fb"), 1 << 20),
            one(run("/r.fb"), 3 << 20),
        ];
        let said = lines(&found);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].starts_with("5.0 MiB of the run /r.fb,"), "{said:?}");
        assert!(said[1].starts_with("1.0 MiB of the run /s.fb,"), "{said:?}");
    }
}
