//! Rests: what sessions of dead owners have left in shared memory. Before an opening for writing changes
//! anything it looks at each of them.
//!
//! | the segment of the session | the opening |
//! | --- | --- |
//! | is there | reads it to its end, or on if its rank lives |
//! | is there, and descriptors or memory do not suffice to open it | fails, and closes nothing |
//! | is not in the very directory where it was made, or the host was started anew | closes the session and says what may be lost |
//! | is there, and nobody can read it any more | closes the session and says what is lost |
//! | is not there, and the catalog is older than the one that programs have written | closes the session: a later owner has read it |
//! | is there, and the catalog knows nothing of the session, for its log was removed | enters the session again and reads it |
//! | is that of another directory, of which this one is a copy | fails and says so; or goes on without it |
//! | was that, and is not there any more | closes the session and says what the copy lacks of that run |
//! | was made elsewhere (another host, another `/dev/shm`), or is another user's | fails and says where; or gives it up, where that was asked for |
//!
//! Sessions of runs of earlier versions do not say where their segments were made. Then `LOCK` tells the host
//! and the boot of the last owner: another boot of this host has lost them, everything else counts as elsewhere.
//! Where there is no `LOCK` either, nobody can say more: they are closed with that message.

use super::open::{names, snapshots};
use super::overflow::{find, is_used, left_here, original, overflow_name};
use crate::catalog::{self, BadLog, Break, Ended, LogFault, SessionRow};
use crate::layout::{Layout, put_of, step_file, step_of};
use crate::lock::{Holder, holder};
use crate::site::{Home, Site};
use forebay_arena::{Direction, Segment};
use forebay_host::directories;
use forebay_types::control::{Elsewhere, word};
use forebay_types::record::Record;
use forebay_types::watch::level::{ERROR, WARNING};
use forebay_types::{Code, Error, Result, counted};
use rusqlite::Connection;
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// A session that was not closed, and what becomes of it.
pub(super) struct Rest {
    pub row: SessionRow,
    pub fate: Fate,
    /// The catalog knows nothing of it.
    pub is_unknown: bool,
    /// Numbers of records that a catalog had, this one has not, and the log has no more.
    pub gap: Range<u64>,
}

impl Rest {
    /// Whether the catalog is older than what the session wrote into one.
    pub fn is_behind(&self) -> bool {
        self.is_unknown || !self.gap.is_empty()
    }
}

/// What is left of all sessions.
#[derive(Default)]
pub(super) struct Rests {
    pub all: Vec<Rest>,
    pub older: Older,
    pub earlier: Option<Earlier>,
}

/// A catalog that is older than the one that programs have written, or the log of which is broken.
pub(super) struct Earlier {
    /// What is told of it.
    pub text: String,
    /// Whether all that it lacks was there, as far as anybody was promised. What is broken after the host was
    /// started anew may be what nobody was told is durable.
    pub is_fault: bool,
    /// Whether it is older.
    pub is_older: bool,
}

/// What a catalog lacks that is older than the files and the memory beside it.
#[derive(Default)]
pub(super) struct Older {
    /// The highest number of a session that it knows.
    last: u64,
    /// See [`Rest::gap`]; of a session that was read to its end since, or is lost, or of which a later catalog had
    /// more, all that is not applied: what it has still in memory may lack the bytes that its files have.
    gaps: BTreeMap<u64, Range<u64>>,
    /// Whether a snapshot that it does not know was in a later one: every session was closed, or it lacks
    /// something of one that was not. Else it is the last work of a program that died.
    pub lacks_steps: bool,
    /// The last snapshot that was on disk, when its file is not there.
    pub last_gone: Option<i64>,
}

impl Older {
    /// Whether this data set was put into a later catalog.
    pub fn lacks_put(&self, file: &str) -> bool {
        put_of(file).is_some_and(|(session, seq)| {
            session > self.last && !self.gaps.contains_key(&session)
                || self.gaps.get(&session).is_some_and(|gap| gap.contains(&seq))
        })
    }
}

pub(super) enum Fate {
    /// Its log is here.
    Here { segment: Segment, overflow: Vec<Segment> },
    /// It was read to its end by a later owner, whose catalog is not the one that lies there.
    Past,
    /// It never had one that was complete and in custody: nothing was acknowledged.
    Void,
    /// Its log cannot be read any more, or is given up.
    Lost(Loss),
}

/// Why the log of a session is not read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Loss {
    /// It is not in the directory where it was made.
    Emptied(Site),
    /// The host was started anew.
    Restarted(Site),
    /// Nothing says where it was.
    Untold,
    /// It is here, and so damaged that nobody can read it.
    Damaged(PathBuf, String),
    /// It lies elsewhere and is given up.
    Elsewhere(Site),
    /// This is a copy of the run in that directory, which has it.
    Copied(PathBuf),
    /// This is a copy of the run in that directory, which has written it, and has records that the copy lacks.
    Outdated(PathBuf),
    /// It is not here any more, and was that of the run in that directory, of which this is a copy, or which this was.
    Moved(PathBuf),
    /// It is here, and of another user, or made by a version that this one does not read; it is given up.
    Closed(PathBuf, String),
}

/// What several sessions have lost in the same way.
pub(super) struct Told {
    pub ended: Ended,
    pub text: String,
    /// Whether it was there, as far as anybody was promised, and should not be gone.
    pub is_fault: bool,
}

/// What a look for a segment finds.
enum Look {
    There(Segment),
    /// It is there, and there is nothing in it.
    Void(PathBuf),
    Nowhere,
    /// It is there and cannot be used.
    Closed(PathBuf, Error),
}

/// What is left of the sessions that were not closed. Fails when something is left that cannot be reached
/// and is not given up. `before` is who owned the run last; `log` is a log that does not fit.
pub(super) fn look(
    layout: &Layout,
    before: Option<&Holder>,
    log: Option<&BadLog>,
    elsewhere: Elsewhere,
) -> Result<Rests> {
    let conn = catalog::open_read_only(&layout.catalog())?;
    let behind = catalog::behind(&conn, before)?;
    let (run_id, sites) = (catalog::fact(&conn, "run_id")?, catalog::sites(&conn)?);
    let is_same_boot = before.is_none_or(Holder::is_of_this_boot);
    let (here, before) = (Site::here(), before.map(Site::of_holder));
    let (mut rests, mut past, mut here_has) = (Vec::new(), BTreeMap::new(), Vec::new());
    let known = catalog::open_sessions(&conn)?.into_iter().map(|row| (row, false));
    let mut unknown = Vec::new();
    for row in left_here(layout, &run_id) {
        if catalog::session(&conn, row.session)?.is_none() {
            unknown.push((row, true));
        }
    }
    for (row, is_unknown) in known.chain(unknown) {
        let (known, site) = (sites.get(&row.session), sites.get(&row.session).and_then(Option::as_ref));
        let original = original(layout, site, &run_id);
        let places = places(layout, site, &here, original.is_some());
        let found = match search(&places, &row.segment) {
            // Nobody is told of a session before its segment is whole.
            Look::Void(path) if site.is_some() => Look::Closed(
                path,
                Error::new(Code::Corrupt, "its head is gone, as of a file that was cut to nothing"),
            ),
            found => found,
        };
        let fate = match found {
            Look::There(segment) if is_unused(&segment) => Fate::Void,
            Look::There(segment) => {
                Fate::Here { segment, overflow: overflows(layout, &places, &run_id, &row)? }
            }
            Look::Void(_) => Fate::Void,
            Look::Nowhere if known.is_some_and(Option::is_none) => Fate::Void,
            Look::Nowhere => match original {
                // The run has not read it yet.
                Some(run) if is_there(layout, site, &here, &row.segment) => Fate::Lost(Loss::Copied(run)),
                Some(run) => match lacks(&run, layout, &conn, row.session) {
                    Some(true) => Fate::Lost(Loss::Outdated(run)),
                    Some(false) => Fate::Past,
                    None => Fate::Lost(Loss::Moved(run)),
                },
                None => Fate::Lost(absent(layout, site.or(before.as_ref()), &here)),
            },
            Look::Closed(path, e) if e.code() == Code::Corrupt => {
                Fate::Lost(Loss::Damaged(path, e.text().to_owned()))
            }
            // Another user's, or of another version: what can be done about that is not to be done here.
            Look::Closed(path, e) if is_for_others(&e) => Fate::Lost(Loss::Closed(path, e.text().to_owned())),
            Look::Closed(_, e) => return Err(unreachable(layout, e)),
        };
        let fate = match fate {
            Fate::Lost(Loss::Emptied(_) | Loss::Restarted(_) | Loss::Untold) if behind.is_some() => {
                past.insert(row.session, catalog::applied(&conn, row.session)? + 1..u64::MAX);
                Fate::Past
            }
            Fate::Lost(loss) if !loss.is_kept() => {
                past.insert(row.session, catalog::applied(&conn, row.session)? + 1..u64::MAX);
                Fate::Lost(loss)
            }
            other => other,
        };
        let gap = match &fate {
            Fate::Here { segment, .. } => {
                let applied = catalog::applied(&conn, row.session)?;
                here_has.push((row.session, applied));
                if segment.word(word::NOTED).load(Ordering::SeqCst) > applied {
                    past.insert(row.session, applied + 1..u64::MAX);
                }
                gap(segment, applied)
            }
            _ => 0..0,
        };
        rests.push(Rest { row, fate, is_unknown, gap });
    }
    let refused =
        |r: &&Rest| matches!(r.fate, Fate::Lost(Loss::Elsewhere(_) | Loss::Copied(_) | Loss::Closed(..)));
    match rests.iter().any(|r| refused(&r)) && elsewhere == Elsewhere::Refuse {
        true => Err(refusal(layout, &conn, &here, rests.iter().filter(refused))),
        false => {
            let gap = |r: &Rest| r.is_behind().then(|| (r.row.session, r.gap.clone()));
            let gaps: BTreeMap<u64, Range<u64>> = rests.iter().filter_map(gap).chain(past).collect();
            let lacks_steps = rests.is_empty() || rests.iter().any(Rest::is_behind) || behind.is_some();
            let of_rests: u64 = rests.iter().map(|r| r.gap.end - r.gap.start).sum();
            let told = rests.iter().filter(|r| !matches!(r.fate, Fate::Past)).map(|r| r.row.session);
            let told: Vec<u64> = told.collect();
            let went_on = behind.as_ref().is_some_and(|b| b.went_on(&told));
            let lost = behind.as_ref().map_or(0, |b| b.lost(&here_has) + of_rests);
            let is_older =
                lost > 0 || went_on || log.is_some_and(|l| !matches!(l.fault, LogFault::Broken(_)));
            let earlier = (is_older || log.is_some()).then(|| Earlier {
                text: earlier(lost, went_on, log),
                is_fault: is_older || is_same_boot,
                is_older,
            });
            let last_gone = rests.iter().filter(|r| r.is_behind()).filter_map(last_on_disk).max();
            // One that lies in a pack has no file of its own.
            let is_gone = |step: &i64| {
                !layout.root().join(step_file(*step)).exists()
                    && !catalog::serial_in_pack(&conn, *step).is_ok_and(|serial| serial.is_some())
            };
            let last_gone = last_gone.filter(is_gone);
            let older = Older { last: catalog::last_session(&conn)?, gaps, lacks_steps, last_gone };
            Ok(Rests { older, all: rests, earlier })
        }
    }
}

/// The last snapshot that a session knew to be on disk.
fn last_on_disk(rest: &Rest) -> Option<i64> {
    match &rest.fate {
        Fate::Here { segment, .. } => {
            segment.word(word::DURABLE).load(Ordering::SeqCst).checked_sub(1).map(|step| step as i64)
        }
        _ => None,
    }
}

/// Whether a copy lacks something of a session that the run has read since; `None`: that run does not say.
fn lacks(run: &Path, layout: &Layout, copy: &Connection, session: u64) -> Option<bool> {
    let it = catalog::open_read_only(&Layout::new(run).catalog()).ok()?;
    let (.., is_closed) = catalog::session(&it, session).ok()??;
    // They may differ by what is not lost: files that came along without their rows, or what the copy has been told.
    let lacks =
        || Some(!catalog::alike(&it, copy).ok()? && lacking(run, layout, copy, &[session]).ok()?.is_some());
    is_closed.then(lacks).flatten()
}

/// What a copy lacks of these sessions that the run has, for people.
fn lacking(run: &Path, layout: &Layout, copy: &Connection, sessions: &[u64]) -> Result<Option<String>> {
    let run = catalog::open_read_only(&Layout::new(run).catalog())?;
    let records = sessions.iter().map(|session| {
        Ok(catalog::applied(&run, *session)?.saturating_sub(catalog::applied(copy, *session)?))
    });
    let records: u64 = records.sum::<Result<u64>>()?;
    let mut has: HashSet<i64> = catalog::step_numbers(copy)?.into_iter().collect();
    // A file that came along without its row is listed in a moment.
    has.extend(names(&layout.steps()).iter().filter_map(|name| step_of(name)));
    let steps: Vec<i64> =
        catalog::step_numbers(&run)?.into_iter().filter(|step| !has.contains(step)).collect();
    let records = (records > 0).then(|| up_to(records, "a program"));
    let lacks: Vec<String> =
        records.into_iter().chain((!steps.is_empty()).then(|| snapshots(&steps))).collect();
    Ok((!lacks.is_empty()).then(|| lacks.join(", and ")))
}

/// Numbers of the records that a catalog has noted, behind `applied`, and that are not in the log any more.
fn gap(segment: &Segment, applied: u64) -> Range<u64> {
    let noted = segment.word(word::NOTED).load(Ordering::SeqCst);
    if noted <= applied {
        return 0..0;
    }
    let mut log = segment.consumer(Direction::Up);
    log.rewind();
    let mut bytes = Vec::new();
    let next = log.next(&mut bytes).ok().flatten();
    let first = next.and_then(|_| Record::decode(&bytes).ok()).map_or(noted + 1, |(seq, _)| seq);
    applied + 1..first.min(noted + 1)
}

/// How many records of a session its catalog has applied, and which of those behind are lost, when its segment is here.
pub(crate) fn lost_records(
    layout: &Layout,
    conn: &Connection,
    row: &SessionRow,
) -> Result<(u64, Option<Range<u64>>)> {
    let applied = catalog::applied(conn, row.session)?;
    Ok((applied, find(layout, &row.segment).ok().map(|segment| gap(&segment, applied))))
}

/// What is told of sessions whose catalog is older than they are: how many, and how many records they lost at most.
pub(crate) fn older(of: usize, lost: u64) -> String {
    let lost = match lost {
        0 => "what was only in the log is lost".to_owned(),
        n => format!("what was only in the log is lost, {}", up_to(n, "they")),
    };
    format!(
        "the catalog is older than what {} of a program that was killed had written into it: its log (catalog.sqlite-wal) is gone, or an earlier catalog was put in its place; what is in memory is kept, {lost}",
        counted(of, "session")
    )
}

/// Closes the sessions of an older catalog that a later owner has read to their end.
pub(crate) fn close_past(layout: &Layout, conn: &Connection, before: Option<&Holder>) -> Result<()> {
    let (sites, here) = (catalog::sites(conn)?, Site::here());
    let before = before.map(Site::of_holder);
    for row in catalog::open_sessions(conn)? {
        let site = sites.get(&row.session).and_then(Option::as_ref);
        let is_past = matches!(search(&places(layout, site, &here, false), &row.segment), Look::Nowhere)
            && original(layout, site, &catalog::fact(conn, "run_id")?).is_none()
            && !matches!(
                absent(layout, site.or(before.as_ref()), &here),
                Loss::Elsewhere(_) | Loss::Moved(_)
            );
        if is_past {
            catalog::end_session(conn, row.session, Ended::Read)?;
        }
    }
    Ok(())
}

/// What is told of a catalog that is older than the one that programs have written, by so many records and, where
/// one `went_on`, by more that nobody has counted; and of its log.
pub(crate) fn earlier(lost: u64, went_on: bool, log: Option<&BadLog>) -> String {
    let records = match lost {
        _ if went_on => String::new(),
        0 => String::new(),
        n => format!("; {} {} lost", up_to(n, "programs"), if n == 1 { "is" } else { "are" }),
    };
    let of_later = if records.is_empty() { "; what stood in the later one alone is lost" } else { &records };
    let Some(BadLog { fault, kept }) = log else {
        return format!(
            "the catalog is older than what programs had written into it, as one that was copied back, or whose log (catalog.sqlite-wal) is gone{of_later}"
        );
    };
    let kept = kept.display();
    match fault {
        LogFault::Later => format!(
            "the catalog is older than the log that lay beside it (catalog.sqlite-wal), as one that was copied back; the log is kept as {kept}{of_later}"
        ),
        LogFault::Overtaken => format!(
            "the log of the catalog (catalog.sqlite-wal) was damaged, and what could be read of it older than the file, which is gone on with alone; the log is kept as {kept}{records}"
        ),
        LogFault::Broken(found) => format!(
            "the log of the catalog (catalog.sqlite-wal) was {}, and what only they held is lost; the log is kept as {kept}{records}",
            broken(found)
        ),
    }
}

/// How many records are lost at most, and whose, for people.
pub(crate) fn up_to(records: u64, whose: &str) -> String {
    format!("up to {} of what {whose} put, inserted and appended", counted(records, "record"))
}

/// Where a log is broken, for people.
pub(crate) fn broken(found: &Break) -> String {
    format!(
        "broken {} in, as by damage or a loss of power: {} behind that cannot be read",
        counted(found.at, "byte"),
        counted(found.commits, "commit")
    )
}

/// What it means that a segment is nowhere to be seen.
fn absent(layout: &Layout, site: Option<&Site>, here: &Site) -> Loss {
    let Some(site) = site else { return Loss::Untold };
    // At its old path it was put back, from a copy, or is on a file system that was mounted anew.
    let moved = site.run.as_ref().filter(|run| run.path != layout.root() && **run != Home::of(layout.root()));
    match (site.seen(here).is_some(), moved) {
        (true, Some(run)) => Loss::Moved(run.path.clone()),
        (true, None) => Loss::Emptied(site.clone()),
        _ if !site.is_same_boot(here) && site.is_same_host(here) => Loss::Restarted(site.clone()),
        _ => Loss::Elsewhere(site.clone()),
    }
}

/// What a run lacks that is in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InMemory {
    /// How many sessions of dead programs have something there that is not in the run yet.
    pub sessions: usize,
    /// The run of which this is a copy, if that one has something in memory which the copy lacks.
    pub original: Option<PathBuf>,
}

/// Looks what a run lacks that is in memory. Nobody is asked and nothing is changed; what lies elsewhere is not seen.
pub fn left_in_memory(dir: &Path) -> Result<InMemory> {
    let layout = Layout::new(std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned()));
    if holder(&layout.lock()).is_some() {
        return Ok(InMemory::default());
    }
    let conn = catalog::open_read_only(&layout.catalog())?;
    let (run_id, sites, here) = (catalog::fact(&conn, "run_id")?, catalog::sites(&conn)?, Site::here());
    let waits = |row: &SessionRow| {
        let site = sites.get(&row.session).and_then(Option::as_ref);
        match search(&places(&layout, site, &here, false), &row.segment) {
            Look::There(s) => !is_used(&s) && s.published(Direction::Up) != s.released(Direction::Up),
            _ => false,
        }
    };
    let mut found = InMemory::default();
    for row in catalog::open_sessions(&conn)? {
        let site = sites.get(&row.session).and_then(Option::as_ref);
        match original(&layout, site, &run_id) {
            Some(run) if is_there(&layout, site, &here, &row.segment) => found.original = Some(run),
            Some(_) => {}
            None => found.sessions += usize::from(waits(&row)),
        }
    }
    Ok(found)
}

/// Where segments of a session may lie: where they were made, where this process makes its own, and in the run's
/// directory, where they lie when shared memory is small or used up. Only those are a copy's, too.
fn places(layout: &Layout, site: Option<&Site>, here: &Site, is_copy: bool) -> Vec<PathBuf> {
    let made = site.and_then(|s| s.seen(here)).map(Path::to_owned);
    let memory = made.into_iter().chain([directories::shm_dir()]).filter(|_| !is_copy);
    memory.chain([layout.root().to_owned()]).collect()
}

/// Whether a segment of the run of which this is a copy is in memory.
fn is_there(layout: &Layout, site: Option<&Site>, here: &Site, name: &str) -> bool {
    !matches!(search(&places(layout, site, here, false), name), Look::Nowhere)
}

/// Looks for a segment.
fn search(places: &[PathBuf], name: &str) -> Look {
    let mut found = Look::Nowhere;
    for path in places.iter().map(|dir| dir.join(name)) {
        match Segment::open(&path) {
            Ok(segment) => return Look::There(segment),
            Err(e) if e.code() == Code::NotFound => {}
            Err(e) if e.code() == Code::Corrupt && is_unfinished(&path) => found = Look::Void(path),
            Err(e) => return Look::Closed(path, e),
        }
    }
    found
}

/// Whether its rank was just opening the run when the owner died: it had not been attached, or was not told so, and
/// opens the run again at the successor.
fn is_unused(segment: &Segment) -> bool {
    let word = |w| segment.word(w).load(Ordering::SeqCst);
    segment.published(Direction::Up) == 0 && (word(word::RANK) == 0 || word(word::LEFT) != 0)
}

/// The segments that a session was given beside its own.
fn overflows(layout: &Layout, places: &[PathBuf], run_id: &str, row: &SessionRow) -> Result<Vec<Segment>> {
    let mut found = Vec::new();
    loop {
        match search(places, &overflow_name(run_id, row, found.len() + 1)) {
            Look::There(segment) => found.push(segment),
            Look::Void(_) | Look::Nowhere => return Ok(found),
            Look::Closed(_, e) => return Err(unreachable(layout, e)),
        }
    }
}

/// Whether its maker died before it was complete: where a file cannot be made without a name, it is there
/// under its name before that.
fn is_unfinished(path: &Path) -> bool {
    use std::io::Read;
    let mut magic = [0; 8];
    match std::fs::File::open(path).and_then(|mut f| f.read(&mut magic)) {
        Ok(n) => magic[..n].iter().all(|b| *b == 0),
        Err(_) => false,
    }
}

fn is_for_others(e: &Error) -> bool {
    matches!(e.code(), Code::ReadOnly | Code::Refused | Code::VersionMismatch)
}

fn unreachable(layout: &Layout, e: Error) -> Error {
    let dir = layout.root().display();
    let remedy = "nothing is changed; mend that (`ulimit -n`, memory) and open the run again";
    let text = format!(
        "{dir}: what a dead program left in shared memory is there and cannot be opened: {}; {remedy}",
        e.text()
    );
    Error::new(e.code(), text)
}

fn refusal<'a>(
    layout: &Layout,
    conn: &Connection,
    here: &Site,
    refused: impl Iterator<Item = &'a Rest>,
) -> Error {
    let mut places = BTreeMap::<String, usize>::new();
    for rest in refused {
        if let Fate::Lost(Loss::Copied(original)) = &rest.fate {
            return copied(layout, conn, original);
        }
        if let Fate::Lost(loss) = &rest.fate {
            *places.entry(loss.place(here)).or_default() += 1;
        }
    }
    let places: Vec<String> = places
        .into_iter()
        .take(NAMED)
        .map(|(place, n)| format!("{} {place}", counted(n, "session")))
        .collect();
    let (dir, reached) = (layout.root().display(), reached(layout, conn));
    Error::new(
        Code::Conflict,
        format!(
            "the run {dir} cannot be gone on with from here: a program that was killed left data in memory, {}. On disk the run {reached}. Open it there, or say `forebay recover {dir}` there, and nothing is lost; or give those data up: with the option elsewhere, \"abandon\", when it is opened, by FOREBAY_ELSEWHERE=abandon, or `forebay recover --abandon {dir}`",
            places.join("; ")
        ),
    )
}

fn copied(layout: &Layout, conn: &Connection, original: &Path) -> Error {
    let (dir, of, reached) = (layout.root().display(), original.display(), reached(layout, conn));
    Error::new(
        Code::Conflict,
        format!(
            "the run {dir} is a copy of {of}, made before all of that run was on disk: a program has the rest in memory, for {of} alone. The copy {reached}. When that program has ended say `forebay recover {of}` and copy it again, and nothing is missing; or go on with what the copy has: with the option elsewhere, \"abandon\", when it is opened, by FOREBAY_ELSEWHERE=abandon, or `forebay recover --abandon {dir}`; {of} keeps its data"
        ),
    )
}

/// Most places that an error names.
const NAMED: usize = 8;

/// How far a run is on disk. By its files: those of a copy that was made while the run was written may be older than
/// its catalog, those beside an earlier catalog are newer.
fn reached(layout: &Layout, conn: &Connection) -> String {
    let damaged = catalog::damaged_behind(conn, None).unwrap_or_default();
    let steps = names(&layout.steps()).iter().filter_map(|name| step_of(name)).collect::<Vec<_>>();
    match steps.into_iter().filter(|step| !damaged.contains(step)).max() {
        Some(step) => format!("is complete up to step {step}"),
        None => "has no snapshots".to_owned(),
    }
}

impl Loss {
    /// Whether somebody has what was in memory.
    fn is_kept(&self) -> bool {
        matches!(
            self,
            Loss::Elsewhere(_) | Loss::Copied(_) | Loss::Outdated(_) | Loss::Moved(_) | Loss::Closed(..)
        )
    }

    /// Where it lies.
    fn place(&self, here: &Site) -> String {
        match self {
            Loss::Closed(path, why) => {
                let of = std::fs::symlink_metadata(path).map_or(0, |m| m.uid());
                match of == here.uid {
                    true => format!("in {}, which this version cannot read ({why})", path.display()),
                    false => format!("of user {of}, in {} on this host", path.display()),
                }
            }
            Loss::Untold => "nobody knows where".into(),
            Loss::Copied(of) => format!("for the run {}, of which this is a copy", of.display()),
            Loss::Moved(from) | Loss::Outdated(from) => format!("when it was {}", from.display()),
            Loss::Damaged(path, _) => format!("in {}", path.display()),
            Loss::Emptied(site) | Loss::Restarted(site) | Loss::Elsewhere(site) => {
                let (dir, user) = match site.directory.as_os_str().is_empty() {
                    true => ("shared memory".into(), String::new()),
                    false => (site.directory.display().to_string(), format!(" (user {})", site.uid)),
                };
                match site.is_same_boot(here) {
                    true => format!(
                        "in another {dir} of this host than is seen here, that of a container or mount namespace{user}"
                    ),
                    false => format!("in {dir} on host {}{user}, and this is {}", site.host, here.host),
                }
            }
        }
    }

    fn ended(&self) -> Ended {
        match self {
            Loss::Elsewhere(_) | Loss::Copied(_) | Loss::Closed(..) => Ended::Abandoned,
            _ => Ended::Gone,
        }
    }

    fn tell(&self, of: &[u64], here: &Site, layout: &Layout, conn: &Connection) -> Told {
        let whose = if of.len() == 1 { "its" } else { "their" };
        let who = format!("{} of a program that was killed had {whose}", counted(of.len(), "session"));
        let lost =
            format!("what was put and not yet on disk then is lost; the run {}", reached(layout, conn));
        let text = match self {
            Loss::Emptied(site) => format!(
                "{who} data in {}, and they are there no more: somebody has emptied it; {lost}",
                site.directory.display()
            ),
            Loss::Damaged(path, why) => {
                format!("{who} data in {}, and they cannot be read any more ({why}); {lost}", path.display())
            }
            Loss::Restarted(site) => {
                format!("{who} data in the memory of {}, which was started anew since; {lost}", site.host)
            }
            Loss::Copied(of) => format!(
                "this is a copy of the run {}, made before all of it was on disk: what was in memory then is not in the copy; the run {}",
                of.display(),
                reached(layout, conn)
            ),
            Loss::Outdated(run) => {
                let lacks = lacking(run, layout, conn, of);
                let lacks = lacks.ok().flatten().map(|lacks| format!("{lacks} are not in the copy"));
                let lacks = lacks.unwrap_or_else(|| "what was in memory then is not in the copy".into());
                format!(
                    "this is a copy of the run {}, made before all of that run was on disk: {lacks}; copy it again and nothing is missing",
                    run.display()
                )
            }
            Loss::Moved(from) => format!(
                "{who} data in memory when this run was {}, and they are there no more: it was copied from there, or moved, before all of it was on disk; the run {}",
                from.display(),
                reached(layout, conn)
            ),
            Loss::Untold => {
                format!("{who} last data in memory, and nothing says where; they are not here; {lost}")
            }
            Loss::Elsewhere(_) | Loss::Closed(..) => {
                format!("given up: {who} data {}; {lost}", self.place(here))
            }
        };
        let is_fault = matches!(self, Loss::Emptied(_) | Loss::Damaged(..) | Loss::Outdated(_));
        Told { ended: self.ended(), text, is_fault }
    }
}

/// Closes the sessions that are not read any more, each with its message in the run; one line for all that
/// were lost in the same way.
pub(super) fn close_lost(
    layout: &Layout,
    conn: &Connection,
    rests: &[Rest],
    is_earlier: bool,
) -> Result<Vec<Told>> {
    let here = Site::here();
    let mut lost = BTreeMap::<&Loss, Vec<u64>>::new();
    for rest in rests {
        match &rest.fate {
            Fate::Here { .. } => {}
            Fate::Past => drop(catalog::end_session(conn, rest.row.session, Ended::Read)?),
            Fate::Void => drop(catalog::end_session(conn, rest.row.session, Ended::Unused)?),
            Fate::Lost(loss) => lost.entry(loss).or_default().push(rest.row.session),
        }
    }
    let step = catalog::last_step(conn)?.unwrap_or(-1);
    let mut told = Vec::new();
    let behind: Vec<&Rest> = rests.iter().filter(|r| r.is_behind()).collect();
    behind.iter().try_for_each(|rest| inherit(conn, &rest.row, &rest.gap))?;
    // Told already, with what others lack.
    if let Some(first) = behind.first().filter(|_| !is_earlier) {
        let text = older(behind.len(), behind.iter().map(|r| r.gap.end - r.gap.start).sum());
        catalog::message(conn, first.row.session, step, ERROR, &text)?;
        told.push(Told { ended: Ended::Read, text, is_fault: true });
    }
    for (loss, of) in lost {
        let said = loss.tell(&of, &here, layout, conn);
        for session in &of {
            catalog::end_session(conn, *session, said.ended)?;
        }
        let level = if said.ended == Ended::Abandoned { WARNING } else { ERROR };
        catalog::message(conn, of[0], step, level, &said.text)?;
        told.push(said);
    }
    Ok(told)
}

/// A session of which the catalog is older is told once: the catalog is as if it had what is lost.
pub(crate) fn inherit(conn: &Connection, row: &SessionRow, gap: &Range<u64>) -> Result<()> {
    catalog::inherit_session(conn, row)?;
    match gap.is_empty() {
        true => Ok(()),
        false => catalog::set_applied(conn, row.session, gap.end - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(host: &str, boot: &str) -> Site {
        Site { host: host.into(), boot_id: boot.into(), ..Site::here() }
    }

    #[test]
    fn a_segment_that_is_not_seen_is_gone_only_where_that_can_be_proved() {
        let here = Site::here();
        let layout = Layout::new("/nowhere/r.fb");
        let (host, boot) = (here.host.as_str(), here.boot_id.as_str());
        assert_eq!(absent(&layout, Some(&here), &here), Loss::Emptied(here.clone()));
        let rebooted = site(host, "before");
        assert_eq!(absent(&layout, Some(&rebooted), &here), Loss::Restarted(rebooted.clone()));
        let other_host = site("other", "theirs");
        assert_eq!(absent(&layout, Some(&other_host), &here), Loss::Elsewhere(other_host.clone()));
        let other_mount = Site { device: here.device + 1, ..here.clone() };
        assert_eq!(absent(&layout, Some(&other_mount), &here), Loss::Elsewhere(other_mount.clone()));
        let other_system = Site { machine: Some("0".into()), ..rebooted };
        assert_eq!(absent(&layout, Some(&other_system), &here), Loss::Elsewhere(other_system.clone()));
        let earlier_version = Site { directory: PathBuf::new(), machine: None, ..site(host, boot) };
        assert_eq!(absent(&layout, Some(&earlier_version), &here), Loss::Elsewhere(earlier_version.clone()));
        assert_eq!(absent(&layout, None, &here), Loss::Untold);
    }
}
