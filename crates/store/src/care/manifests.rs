//! What files say of themselves, made anew where that is damaged and what they hold is not.

use std::sync::Arc;

use forebay_types::{Error, Result};

use super::repair::{Repaired, entries_of};
use super::verify::{faults_of_step, set_entry, words_of};
use crate::catalog::{self, Catalog};
use crate::disk::Disk;
use crate::layout::{FORMAT, Layout, step_file};
use crate::stepfile::{Manifest, write_anew};

/// What a listed step's file says of itself is made anew of the catalog where it is damaged: its arrays are as the catalog
/// says, to the byte. What a file of before says, which has no checksum of its own, is damaged where the catalog and
/// what HDF5 says of the file agree on something else: `words` is what HDF5 says otherwise. Says whether it was.
pub(super) fn mend_manifest(
    disk: &Arc<dyn Disk>,
    layout: &Layout,
    (file, told, words): (&str, &Result<Manifest>, &[String]),
    catalog: &mut Catalog,
    done: &mut Repaired,
) -> Result<bool> {
    let why = match told {
        Err(e) => e.text().to_owned(),
        Ok(_) if words.is_empty() => return Ok(false),
        Ok(_) => words.join("; "),
    };
    let conn = catalog.conn();
    let Some(row) = catalog::step_of_file(conn, file)?.filter(|row| step_file(row.step) == file) else {
        return Ok(false);
    };
    let path = layout.file(file)?;
    let (Ok(mut entries), true) = (entries_of(conn, row.step), path.exists()) else { return Ok(false) };
    // As they lie in the file: their places stay what they are, even if this is interrupted.
    entries.sort_by_key(|e| e.offset);
    let listed = Manifest {
        format: FORMAT,
        run_id: catalog.run_id().to_owned(),
        step: row.step,
        time: row.time,
        parameters: row.parameters.clone(),
        serial: catalog::serial_of(conn, row.step)?,
        backs: catalog::backs(conn)?,
        heads: catalog::kept_heads(conn, row.step)?,
        data: entries,
        ..Manifest::default()
    };
    if told.is_ok() && !words_of(layout, file, &listed).is_empty() {
        return Ok(false);
    }
    // A step of format 1 has no serial, and its file is not written anew.
    if listed.serial == 0 || !faults_of_step(layout, file, &listed.data, &|_| ()).is_empty() {
        return Ok(false);
    }
    match write_anew(disk, &path, &listed) {
        Ok(new) => {
            catalog.lazy_transaction(|tx| catalog::replace_step(tx, file, &new), |()| true)?;
            done.rewritten.push(rewritten(file, &why));
        }
        Err(e) => done.unusable.push(not_rewritten(file, &why, &e)),
    }
    Ok(true)
}

/// What the file of a data set outside steps says of itself is made anew of the catalog's row where it is damaged and the
/// row's bytes are there, in the same way as that of a step. Says whether it was.
pub(super) fn mend_manifest_of_set(
    disk: &Arc<dyn Disk>,
    layout: &Layout,
    (file, told, words): (&str, &Result<Manifest>, &[String]),
    catalog: &mut Catalog,
    done: &mut Repaired,
) -> Result<bool> {
    let why = match told {
        Err(e) => e.text().to_owned(),
        Ok(_) if words.is_empty() => return Ok(false),
        Ok(_) => words.join("; "),
    };
    let rows = catalog::rows_of_file(catalog.conn(), file)?;
    let Some(listed) = rows.iter().find_map(|(_, _, row)| {
        let row = row.as_ref().ok()?;
        let data = vec![set_entry(row)?];
        let run_id = catalog.run_id().to_owned();
        let listed =
            Manifest { format: FORMAT, run_id, set: Some((row.set, 0)), data, ..Manifest::default() };
        let is_sound = faults_of_step(layout, file, &listed.data, &|_| ()).is_empty();
        (is_sound && (told.is_err() || words_of(layout, file, &listed).is_empty())).then_some(listed)
    }) else {
        return Ok(false);
    };
    match layout.file(file).and_then(|path| write_anew(disk, &path, &listed)) {
        Ok(new) => {
            for (name, set, _) in &rows {
                catalog.lazy_transaction(|tx| catalog::mend_data(tx, (name, *set), file, &new), |()| true)?;
            }
            done.rewritten.push(rewritten(file, &why));
        }
        Err(e) => done.unusable.push(not_rewritten(file, &why, &e)),
    }
    Ok(true)
}

/// A file that says to programs which read it without Forebay what is not so is written anew, if its arrays are sound.
/// Gives what is there now, and whether that is another file.
pub(super) fn mend_words(
    disk: &Arc<dyn Disk>,
    layout: &Layout,
    file: &str,
    m: Manifest,
    words: &[String],
    done: &mut Repaired,
) -> (Manifest, bool) {
    let words = words.join("; ");
    // Damaged arrays are another matter.
    if words.is_empty() || !faults_of_step(layout, file, &m.data, &|_| ()).is_empty() {
        return (m, false);
    }
    match layout.file(file).and_then(|path| write_anew(disk, &path, &m)) {
        Ok(new) => {
            done.rewritten.push(format!("{file}: other programs could not read all of it: {words}"));
            (new, true)
        }
        Err(e) => {
            done.unusable.push(not_rewritten(file, &words, &e));
            (m, false)
        }
    }
}

fn rewritten(file: &str, why: &str) -> String {
    format!("{file}: what it says of itself was damaged, and is as the catalog says: {why}")
}

fn not_rewritten(file: &str, why: &str, e: &Error) -> String {
    format!("{file}: {why}; it cannot be written anew: {}", e.text())
}
