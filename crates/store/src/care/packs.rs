//! Packs in the hands of `repair`: the rows of their steps are made as their manifests say; a pack whose own words are
//! damaged, and whose arrays are not, is written anew.

use super::compare::{Listed, differences};
use super::pack::Packer;
use super::repair::{Repaired, entries_of, mark, relative};
use super::unheard;
use crate::catalog::{self, Catalog};
use crate::disk::Disk;
use crate::layout::{Layout, PACKS};
use crate::owner::files;
use crate::stepfile::{PackManifest, open_pack, unlike_pack};
use forebay_types::Result;
use rusqlite::Connection;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Lists what packs say and the catalog lacks, and marks the steps in them that are damaged.
pub(super) fn adopt_packs(
    disk: &Arc<dyn Disk>,
    layout: &Layout,
    catalog: &mut Catalog,
    done: &mut Repaired,
) -> Result<()> {
    let dropped = catalog::dropped(catalog.conn())?;
    for path in files(&layout.packs()) {
        let Some(file) = relative(PACKS, &path).filter(|file| !dropped.contains(file)) else { continue };
        match open_pack(&path) {
            Ok(m) if m.run_id != catalog.run_id() => {
                done.foreign.push(format!("{file}: belongs to the run {}", m.run_id));
                continue;
            }
            Ok(m) => {
                adopt(layout, catalog, &file, &m, done)?;
                let words = unlike_pack(&path, &m);
                if !words.is_empty() {
                    let why = format!("other programs could not read all of it: {}", words.join("; "));
                    rewrite(disk, layout, catalog, (&file, &path, &why), done)?;
                }
            }
            Err(e) => rewrite(disk, layout, catalog, (&file, &path, e.text()), done)?,
        }
        for step in catalog::steps_of_file(catalog.conn(), &file)? {
            if let Some(row) = catalog::step_row(catalog.conn(), step)? {
                mark(layout, catalog, &row, done)?;
            }
        }
    }
    Ok(())
}

/// Has the catalog say of the steps of a pack what it says.
fn adopt(
    layout: &Layout,
    catalog: &mut Catalog,
    file: &str,
    m: &PackManifest,
    done: &mut Repaired,
) -> Result<()> {
    catalog
        .lazy_transaction(
            |tx| {
                let (mut listed, mut mended) = (Vec::new(), Vec::new());
                let slots = (0..m.steps.len()).map(|slot| Ok((slot, lack(tx, layout, file, m, slot)?)));
                let slots = slots.collect::<Result<Vec<_>>>()?;
                if slots.iter().any(|(_, lack)| *lack != Lack::Nothing) {
                    catalog::note_pack(tx, file, m)?;
                }
                for (slot, lack) in slots {
                    let step = m.steps[slot].step;
                    match lack {
                        Lack::Nothing => continue,
                        Lack::Row => listed.push(step),
                        Lack::Words(text) => mended.push(format!("{file}: {text}")),
                    }
                    catalog::adopt_slot(tx, file, m, slot)?;
                }
                Ok((listed, mended))
            },
            |_| true,
        )
        .map(|(listed, mended)| {
            done.listed.extend(listed);
            done.mended.extend(mended);
        })
}

/// What the catalog lacks of a step in a pack.
#[derive(PartialEq)]
enum Lack {
    Nothing,
    /// It is not listed, or from a file that is not there.
    Row,
    /// It is listed otherwise.
    Words(String),
}

fn lack(conn: &Connection, layout: &Layout, file: &str, m: &PackManifest, slot: usize) -> Result<Lack> {
    let of = m.manifest_of(slot);
    let Some(row) = catalog::step_row(conn, of.step)? else {
        let is_gone = catalog::is_aside(conn, &of)? || catalog::dropped_slots(conn, file)?.contains(&of.step);
        return Ok(if is_gone { Lack::Nothing } else { Lack::Row });
    };
    let serial = catalog::serial_of(conn, of.step)?;
    if row.file != file {
        let is_there = layout.file(&row.file).is_ok_and(|path| path.exists());
        return Ok(if is_there || serial > of.serial { Lack::Nothing } else { Lack::Row });
    }
    let heads = catalog::kept_heads(conn, of.step)?;
    let found = match entries_of(conn, of.step) {
        Ok(entries) => differences(&Listed { row: &row, serial, heads, entries: &entries }, &of),
        // What cannot be read is made anew.
        Err(e) => vec![e.text().to_owned()],
    };
    Ok(if found.is_empty() { Lack::Nothing } else { Lack::Words(found.join("; ")) })
}

/// A pack is written anew as the catalog has its steps, if all of them are sound.
fn rewrite(
    disk: &Arc<dyn Disk>,
    layout: &Layout,
    catalog: &mut Catalog,
    (file, path, why): (&str, &Path, &str),
    done: &mut Repaired,
) -> Result<()> {
    let made = Packer {
        layout,
        disk: &**disk,
        catalog: catalog.conn(),
        progress: &unheard(),
        stop: &AtomicBool::new(false),
    }
    .write_anew(file);
    match made {
        Ok(Some((new, m))) => {
            catalog.transaction(|tx| {
                catalog::list_pack(tx, &new, &m)?;
                catalog::forget_pack(tx, file)
            })?;
            let _ = disk.remove(path);
            done.rewritten.push(format!("{file}: it is {new} now: {why}"));
        }
        Ok(None) => done.foreign.push(format!("{file}: {why}")),
        Err(e) => done.unusable.push(format!("{file}: {why}; it cannot be written anew: {}", e.text())),
    }
    Ok(())
}
