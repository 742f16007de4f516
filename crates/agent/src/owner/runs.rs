//! The runs that this owner has open or still shows, by directory.

use super::{Opener, Run, Session, Site};
use forebay_host::lock;
use forebay_store::Says;
use forebay_types::control::{OpenRun, Resume, RunOpened};
use forebay_types::{Code, Error, Result, limits};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

/// Most runs kept for their pages; those that ended first go first.
const SHOWN: usize = 64;
/// How long the page of an ended run stays without a viewer.
const FADING: Duration = Duration::from_secs(60);

/// The table.
pub struct Runs {
    site: Weak<dyn Site>,
    table: Mutex<BTreeMap<PathBuf, Arc<Run>>>,
}

impl Runs {
    /// None yet.
    pub fn new(site: Weak<dyn Site>) -> Runs {
        Runs { site, table: Mutex::default() }
    }

    /// A rank opens a run: it is opened, or the rank joins those that are there.
    pub fn open(&self, open: &OpenRun, who: &Opener, hears: Option<Says>) -> Result<(Session, RunOpened)> {
        let way = |run: &Arc<Run>| run.while_heard(hears, || run.open(open, who));
        let mut joined = self.enter(open, way, None)?;
        joined.0.after = who.after;
        if open.size > 1 {
            let run = &joined.0.run;
            for other in self.live().iter().filter(|other| !Arc::ptr_eq(other, run)) {
                run.part_from(other, open, who);
            }
        }
        Ok(joined)
    }

    /// A rank whose owner died goes on here.
    pub fn resume(&self, what: Resume, pid: u32, hears: Option<Says>) -> Result<(Session, RunOpened)> {
        let way = |run: &Arc<Run>| run.while_heard(hears, || run.resume(&what, pid));
        self.enter(&what.open, way, Some(what.clone()))
    }

    fn enter(
        &self,
        open: &OpenRun,
        way: impl FnOnce(&Arc<Run>) -> Result<RunOpened>,
        resumed: Option<Resume>,
    ) -> Result<(Session, RunOpened)> {
        let is_rank = open.rank < open.size && open.size as usize <= limits::RANKS;
        if !is_rank && !open.is_client() {
            return Err(Error::bad(format!(
                "rank {} of {} cannot be; ranks count from 0",
                open.rank, open.size
            )));
        }
        if !open.mode.writes() {
            return Err(Error::bad(
                "a run is read without its owner; open it with mode \"r\" from its directory",
            ));
        }
        let path = plain(Path::new(&open.path))?;
        let run = {
            let mut table = lock(&self.table);
            fade(&mut table);
            table.entry(path.clone()).or_insert_with(|| Arc::new(Run::new(&path, self.site.clone()))).clone()
        };
        let opened = way(&run);
        if opened.is_err() {
            let mut table = lock(&self.table);
            if table.get(&path).is_some_and(|r| r.is_blank()) {
                table.remove(&path);
            }
        }
        let opened = opened?;
        let session = Session { run, number: opened.session, rank: open.rank, after: None, resumed };
        Ok((session, opened))
    }

    /// A run by its directory.
    pub fn find(&self, dir: &Path) -> Result<Arc<Run>> {
        lock(&self.table).get(&plain(dir)?).cloned().ok_or_else(|| {
            Error::new(
                Code::NotFound,
                format!("the run {} is not open here; start its program first", dir.display()),
            )
        })
    }

    /// Those whose store is open.
    pub fn live(&self) -> Vec<Arc<Run>> {
        self.all().into_iter().filter(|r| r.is_open()).collect()
    }

    /// Those that somebody may want to see: without those that ended and are gone from the disk.
    pub fn shown(&self) -> Vec<Arc<Run>> {
        fade(&mut lock(&self.table));
        self.all()
    }

    /// All, those that are only shown too.
    pub fn all(&self) -> Vec<Arc<Run>> {
        lock(&self.table).values().cloned().collect()
    }

    /// Closes runs whose ranks have all left.
    pub fn end_idle(&self) {
        for run in self.live() {
            run.end_if_idle();
        }
    }

    /// Drains and closes everything.
    pub fn end_all(&self) {
        for run in self.all() {
            run.end();
        }
    }
}

/// Forgets ended runs that nobody looks at, at once those whose directory was deleted.
fn fade(table: &mut BTreeMap<PathBuf, Arc<Run>>) {
    let many = table.len() >= SHOWN;
    let is_over = |path: &Path, ended: Duration| many || ended > FADING || !path.is_dir();
    let gone: Vec<PathBuf> = table
        .iter()
        .filter(|(path, r)| r.watching() == 0 && r.ended_for().is_some_and(|t| is_over(path, t)))
        .map(|(path, _)| path.clone())
        .collect();
    for path in gone {
        if let Some(page) = table.remove(&path).and_then(|run| run.page()) {
            page.hide();
        }
    }
}

/// One spelling for one directory, also for one that is yet to be made.
fn plain(dir: &Path) -> Result<PathBuf> {
    if let Ok(path) = dir.canonicalize() {
        return Ok(path);
    }
    let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) else {
        return Err(Error::bad(format!(
            "{} is no directory for a run; give an absolute path",
            dir.display()
        )));
    };
    let parent = parent
        .canonicalize()
        .map_err(|e| Error::io(format!("cannot find the directory {}", parent.display()), e))?;
    Ok(parent.join(name))
}
