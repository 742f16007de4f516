//! Views that lie in `views/` of the run: they show the steps that there are. When the file of a step goes, each is made
//! anew without it, before it goes; where that cannot be done the view goes, for one that is missing is noticed, and one
//! that shows what is not there is not.

use crate::layout::{Layout, TMP, with_end};
use crate::stepfile::StepsView;
use forebay_types::{Error, Result};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Leaves files of steps out of the views.
pub(crate) fn leave_out(layout: &Layout, files: &[String]) {
    let Ok(entries) = std::fs::read_dir(layout.views()) else { return };
    let is_view = |path: &PathBuf| path.extension().is_some_and(|end| end == "h5");
    let mut changed = false;
    for path in entries.flatten().map(|entry| entry.path()).filter(is_view) {
        // What is no view of ours is its owner's.
        let Ok(mut view) = StepsView::read(&path) else { continue };
        let is_gone =
            |file: &str| file.strip_prefix("../").is_some_and(|file| files.iter().any(|f| f == file));
        if !view.leave_out(is_gone) {
            continue;
        }
        changed = true;
        if view.steps.is_empty() || view.arrays.is_empty() || make_anew(&view, &path).is_err() {
            let _ = std::fs::remove_file(&path);
        }
    }
    if changed {
        let _ = File::open(layout.views()).and_then(|dir| dir.sync_all());
    }
}

fn make_anew(view: &StepsView, path: &Path) -> Result<()> {
    let tmp = with_end(path, TMP);
    let failed = |e| Error::io(format!("cannot make {} anew", path.display()), e);
    let made = view.write(&tmp).and_then(|()| {
        File::open(&tmp).and_then(|file| file.sync_all()).map_err(failed)?;
        std::fs::rename(&tmp, path).map_err(failed)
    });
    if made.is_err() {
        let _ = std::fs::remove_file(&tmp);
    }
    made
}
