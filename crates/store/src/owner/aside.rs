//! Steps that were put aside when the run went back to a checkpoint. The catalog says which they are,
//! in one transaction; here their files get names that are no step's, so that nobody takes them for
//! one whose catalog is lost. A death in between leaves that to the next opening.

use super::intake::Intake;
use crate::catalog::{self, Catalog};
use crate::disk::Disk;
use crate::layout::{Layout, step_file, with_end};
use forebay_types::Result;
use forebay_types::control::word;
use std::path::Path;
use std::sync::atomic::Ordering;

/// Gives the file of a step that was put aside a name of its own.
pub(super) fn rename(disk: &dyn Disk, path: &Path) -> std::io::Result<()> {
    let name = |n: u32| with_end(path, &format!(".aside{n}"));
    match (1..).map(name).find(|other| !other.exists()) {
        Some(free) if path.exists() => disk.rename(path, &free),
        _ => Ok(()),
    }
}

/// Steps that a file read later knows to be put aside, when files are read in the order of their
/// names, go off the list, and their files out of the way.
pub(crate) fn tidy(catalog: &mut Catalog, disk: &dyn Disk, layout: &Layout) -> Result<()> {
    for step in catalog.transaction(|tx| catalog::set_aside(tx))? {
        // One that cannot be renamed is not listed all the same.
        let _ = rename(disk, &layout.file(&step_file(step))?);
    }
    let _ = disk.sync_dir(&layout.steps());
    Ok(())
}

impl Intake {
    /// A rank went back to an earlier step: the files of the steps behind it.
    pub(super) fn went_back(&mut self, aside: &[i64]) {
        for step in aside {
            let Ok(path) = self.layout.file(&step_file(*step)) else { continue };
            let _ = rename(&*self.disk, &path);
        }
        if !aside.is_empty() {
            let _ = self.disk.sync_dir(&self.layout.steps());
            let last = catalog::last_step(self.catalog.conn()).ok().flatten();
            let highest = last.map_or(0, |step| (step + 1).max(0) as u64);
            for s in self.sessions.values() {
                s.segment.word(word::DURABLE).store(highest, Ordering::SeqCst);
            }
        }
        // Attempts at steps behind it that failed are forgotten: all ranks begin them anew.
        let size = self.sessions.values().map(|s| s.row.size).max().unwrap_or(0);
        self.given_up.iter_mut().for_each(|g| g.ranks.extend(0..size));
        // All sessions are of one run, and whoever listens to one listens for the run.
        if let Some(s) = self.sessions.values().next() {
            s.sink.went_back();
        }
    }
}
