//! Steps that were put aside when the run went back to a checkpoint. The catalog says which they are,
//! in one transaction; here their files get names that are no step's, so that nobody takes them for
//! one whose catalog is lost. A death in between leaves that to the next opening.

use crate::catalog::{self, Catalog};
use crate::disk::Disk;
use crate::layout::{Layout, step_file, with_end};
use forebay_types::Result;
use std::path::Path;

/// Gives the file of a step that was put aside a name of its own.
pub(super) fn rename(disk: &dyn Disk, path: &Path) -> std::io::Result<()> {
    let name = |n: u32| with_end(path, &format!(".aside{n}"));
    match (1..).map(name).find(|other| !other.exists()) {
        Some(free) if path.exists() => disk.rename(path, &free),
        _ => Ok(()),
    }
}

/// Gives the files of these steps, which were put aside, names of their own, and syncs their directory.
pub(super) fn rename_all(disk: &dyn Disk, layout: &Layout, steps: &[i64]) {
    if !steps.is_empty() {
        crate::views::leave_out(layout, |step, _| steps.contains(&step));
    }
    for step in steps {
        // One that cannot be renamed is not listed all the same.
        let _ = layout.file(&step_file(*step)).map(|path| rename(disk, &path));
    }
    if !steps.is_empty() {
        let _ = disk.sync_dir(&layout.steps());
    }
}

/// Steps that a file read later knows to be put aside, when files are read in the order of their
/// names, go off the list, and their files out of the way.
pub(crate) fn tidy(catalog: &mut Catalog, disk: &dyn Disk, layout: &Layout) -> Result<()> {
    rename_all(disk, layout, &catalog.transaction(|tx| catalog::set_aside(tx))?);
    Ok(())
}
