//! Views that lie in `views/` of the run: they show the steps that there are, where they are. When the file of a step goes,
//! or the step goes into a pack, each is made anew before that; where that cannot be done the view goes, for one that is missing is noticed, and one
//! that shows what is not there is not.

use crate::layout::{Layout, TMP, with_end};
use crate::stepfile::{PackManifest, Stacked, StepsView, ViewFate, ViewSource, ViewStep};
use forebay_types::{Error, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Leaves steps out of the views: `is_gone` is asked by the number of each and its file.
pub(crate) fn leave_out(layout: &Layout, is_gone: impl Fn(i64, &str) -> bool) {
    change(layout, &[], |step, file| match is_gone(step, file) {
        true => ViewFate::Goes,
        false => ViewFate::Stays,
    });
}

/// Steps that lay in these files lie in a pack.
pub(crate) fn pack(layout: &Layout, before: &[String], pack: &str, m: &PackManifest) {
    let of = m.steps.len() as u64;
    let slots: BTreeMap<i64, u64> = m.steps.iter().map(|slot| slot.step).zip(0..).collect();
    change(layout, &m.arrays, |step, file| match slots.get(&step) {
        _ if file != pack && !before.iter().any(|f| f == file) => ViewFate::Stays,
        Some(slot) => ViewFate::Moves(format!("../{pack}"), (*slot, of)),
        None => ViewFate::Goes,
    });
}

/// Asks of each step of each view, by its number and its file, what becomes of it.
fn change(layout: &Layout, stacked: &[Stacked], fate: impl Fn(i64, &str) -> ViewFate) {
    let Ok(entries) = std::fs::read_dir(layout.views()) else { return };
    let is_view = |path: &PathBuf| path.extension().is_some_and(|end| end == "h5");
    let mut changed = false;
    for path in entries.flatten().map(|entry| entry.path()).filter(is_view) {
        // What is no view of ours is its owner's.
        let Ok(mut view) = StepsView::read(&path) else { continue };
        let of_step = |step: &ViewStep| match step.file.strip_prefix("../") {
            Some(file) => fate(step.step, file),
            None => ViewFate::Stays,
        };
        if !view.change(of_step) {
            continue;
        }
        for array in &mut view.arrays {
            let source = match &array.source {
                ViewSource::Steps(name, _) | ViewSource::Any(name) => name,
                ViewSource::Points(..) => continue,
            };
            array.is_once |= stacked.iter().any(|s| s.array.name == *source && s.is_once());
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
