//! A file of virtual data sets over the files of the snapshots, for h5py.

use super::super::choice::names_in_snapshots;
use super::Exporting;
use forebay::{Error, Result};
use forebay_store::stepfile::{MOST_SOURCES, PackManifest, ViewArray, ViewStep, open_pack, write_view};
use forebay_types::{Code, Description};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// Writes it at `tmp`; `path` is where it will be.
pub fn write(job: &Exporting, tmp: &Path, path: &Path) -> Result<Value> {
    let run = job.run;
    if !run.path().is_dir() {
        return Err(Error::bad(format!(
            "{} is on another host, and a view reads the files of its snapshots; make it there, or export with --to",
            job.place
        )));
    }
    let steps = job.choice.steps(run, job.place)?;
    if steps.is_empty() {
        return Err(Error::new(
            Code::NotFound,
            format!(
                "{} has no snapshots, which a view would show; `forebay ls {}` lists what it holds",
                job.place, job.place
            ),
        ));
    }
    let from = between(&absolute(path)?, run.path());
    const FILES: &str = "SELECT step, file, (SELECT slot FROM fb_packed p WHERE p.step = s.step)
        FROM fb_steps s ORDER BY step";
    let rows = run.sql(FILES, &[])?.rows;
    let file = |row: &Vec<forebay::Cell>| match &row[..] {
        [forebay::Cell::Int(step), forebay::Cell::Text(file), ..] if steps.binary_search(step).is_ok() => {
            Some(file.clone())
        }
        _ => None,
    };
    let files: BTreeSet<String> = rows.iter().filter_map(file).collect();
    if files.len() > MOST_SOURCES {
        return Err(Error::bad(format!(
            "a view of {} files is beyond the limit of {MOST_SOURCES}: readers open all of them at once; put small snapshots together with `forebay pack {}`, choose some with --steps, or copy them with --to netcdf",
            files.len(),
            job.place
        )));
    }
    let is_packed = |file: &&String| forebay_store::layout::is_pack(file);
    let read = |file: &String| Ok((file.clone(), open_pack(&run.path().join(file))?));
    let packs = files.iter().filter(is_packed).map(read).collect::<Result<BTreeMap<_, _>>>()?;
    let snapshots = run.snapshots()?;
    let mut shown = Vec::new();
    for row in rows {
        let [forebay::Cell::Int(step), forebay::Cell::Text(file), slot] = &row[..] else { continue };
        if steps.binary_search(step).is_ok() {
            let slot = match slot {
                forebay::Cell::Int(slot) => packs.get(file).map(|m| (*slot as u64, m.steps.len() as u64)),
                _ => None,
            };
            let time = snapshots.at(*step)?.time().unwrap_or(f64::NAN);
            let file = from.join(file);
            let file = file.to_str().ok_or_else(|| {
                Error::bad(format!(
                    "the path {} is not UTF-8, which a view asks for; rename it",
                    file.display()
                ))
            })?;
            shown.push(ViewStep { step: *step, time, file: file.to_owned(), slot });
        }
    }
    let numbers: Vec<i64> = shown.iter().map(|s| s.step).collect();
    let (mut arrays, mut ragged) = (Vec::new(), Vec::new());
    for name in names_in_snapshots(run)?.into_iter().filter(|name| job.choice.takes(name)) {
        job.interrupt.check()?;
        let over = run.over_steps(&name, &numbers)?;
        let Some((first, meta)) = over.iter().find_map(|s| s.meta.map(|meta| (s.step, meta))) else {
            continue;
        };
        // Nothing of a view is called as its own data sets.
        if over.iter().any(|s| s.meta.is_some_and(|m| m != meta)) || name == "here" {
            ragged.push(name);
            continue;
        }
        let of = snapshots.at(first)?.dataset(&name)?;
        let about = Description { dims: of.dims, attrs: of.attrs, ..Description::default() };
        let there = over.iter().map(|s| s.meta.is_some()).collect();
        // A coordinate is in a pack once.
        let is_once = |m: &PackManifest| {
            m.arrays.iter().any(|a| a.array.name == name && a.stride == 0 && a.array.nbytes() > 0)
        };
        let is_scale = packs.values().any(is_once);
        arrays.push(ViewArray { name, meta, units: of.units, about, steps: there, is_scale });
    }
    if arrays.is_empty() {
        return Err(job.choice.nothing(job.place));
    }
    write_view(tmp, &shown, &arrays)?;
    let note =
        (!ragged.is_empty()).then(|| format!("left out, for their shapes differ: {}", ragged.join(", ")));
    Ok(json!({"arrays": arrays.len(), "steps": shown.len(), "left_out": ragged, "note": note}))
}

fn absolute(path: &Path) -> Result<PathBuf> {
    let above = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    above.canonicalize().map_err(|e| Error::io(format!("cannot use {}", above.display()), e))
}

/// The way from one directory to another one.
fn between(from: &Path, to: &Path) -> PathBuf {
    let to = to.canonicalize().unwrap_or_else(|_| to.to_owned());
    let (mut here, mut there) = (from.components().peekable(), to.components().peekable());
    while here.peek().is_some() && here.peek() == there.peek() {
        here.next();
        there.next();
    }
    here.map(|_| Component::ParentDir).chain(there).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_the_files_leads_up_and_down() {
        assert_eq!(between(Path::new("/a/b"), Path::new("/a/b/r.fb")), Path::new("r.fb"));
        assert_eq!(between(Path::new("/a/v/w"), Path::new("/a/b/r.fb")), Path::new("../../b/r.fb"));
    }
}
