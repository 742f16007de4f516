//! A file of virtual data sets over the files of the snapshots, for h5py and xarray.

use super::super::choice::Choice;
use super::variables::{Origin, Variables};
use super::{Exporting, LeftOut};
use forebay::{DType, Error, Result};
use forebay_store::stepfile::{
    MOST_SOURCES, PackManifest, StepsView, ViewArray, ViewSource, ViewStep, open_pack,
};
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
    let place = |row: Vec<forebay::Cell>| match &row[..] {
        [forebay::Cell::Int(step), forebay::Cell::Text(file), slot] if steps.binary_search(step).is_ok() => {
            let slot = if let forebay::Cell::Int(slot) = slot { Some(*slot as u64) } else { None };
            Some((*step, file.clone(), slot))
        }
        _ => None,
    };
    let places: Vec<_> = run.sql(FILES, &[])?.rows.into_iter().filter_map(place).collect();
    let files: BTreeSet<&String> = places.iter().map(|(_, file, _)| file).collect();
    if files.len() > MOST_SOURCES {
        return Err(Error::bad(format!(
            "a view of {} files is beyond the limit of {MOST_SOURCES}: readers open all of them at once; put small snapshots together with `forebay pack {}`, choose some with --steps, or copy them with --to netcdf",
            files.len(),
            job.place
        )));
    }
    let is_packed = |file: &&&String| forebay_store::layout::is_pack(file);
    let read = |file: &&String| Ok(((*file).clone(), open_pack(&run.path().join(file))?));
    let packs = files.iter().filter(is_packed).map(read).collect::<Result<BTreeMap<_, _>>>()?;
    let snapshots = run.snapshots()?;
    let mut shown = Vec::new();
    for (step, file, slot) in &places {
        let slot = slot.zip(packs.get(file)).map(|(slot, m)| (slot, m.steps.len() as u64));
        let time = snapshots.at(*step)?.time();
        let file = from.join(file);
        let file = file.to_str().ok_or_else(|| {
            Error::bad(format!("the path {} is not UTF-8, which a view asks for; rename it", file.display()))
        })?;
        shown.push(ViewStep { step: *step, time, file: file.to_owned(), slot });
    }
    // Of a choice of steps nothing outside them is meant.
    let steps = shown.iter().map(|s| s.step.to_string()).collect();
    let choice = Choice { steps, ..job.choice.clone() };
    let mut variables = Variables::of(run, job.place, &choice)?;
    variables.add_points(run)?;
    let mut left = LeftOut::default();
    for name in &variables.ragged {
        left.add("its shape or type differs, or a snapshot lacks it and its type has no NaN", name);
    }
    let axes = variables.axes()?;
    let attributes: Vec<_> = variables.all.iter().map(|v| variables.attributes(v)).collect();
    let mut arrays = Vec::new();
    for ((variable, mut dims), attrs) in variables.all.into_iter().zip(axes).zip(attributes) {
        job.interrupt.check()?;
        let of = variable.of;
        let source = match variable.origin {
            // One of those that differ.
            Origin::One(_) if variables.ragged.contains(&of.name) => continue,
            Origin::One(_) => ViewSource::Any(of.name.clone()),
            Origin::Points(first, apart) => ViewSource::Points(first, apart),
            Origin::Steps(there) => {
                dims.remove(0);
                let there: Vec<bool> = there.iter().map(Option::is_some).collect();
                // What is nowhere is NaN of real numbers alone.
                if of.meta.dtype.mantissa().is_none() && there.contains(&false) {
                    left.add(
                        "its shape or type differs, or a snapshot lacks it and its type has no NaN",
                        &of.name,
                    );
                    continue;
                }
                ViewSource::Steps(of.name.clone(), there)
            }
        };
        if let Some(why) = StepsView::refuses(&variable.key, &dims) {
            left.add(why, &of.name);
            continue;
        }
        dims.truncate(forebay_types::axes(&of.meta).len());
        let about = Description { dims, attrs, ..Description::default() };
        // A coordinate is in a pack once.
        let is_once = |m: &PackManifest| m.arrays.iter().any(|a| a.array.name == of.name && a.is_once());
        let is_once = packs.values().any(is_once);
        arrays.push(ViewArray { name: variable.key, meta: of.meta, units: of.units, about, source, is_once });
    }
    if !arrays.iter().any(|array| matches!(array.source, ViewSource::Steps(..))) {
        return Err(left.nothing(
            job,
            "array that is alike at its snapshots, which a view would show",
            "copy them with --to netcdf",
        ));
    }
    // Its library ends the program that closes such a file.
    let halves: Vec<&str> =
        arrays.iter().filter(|a| a.meta.dtype == DType::F16).map(|a| a.name.as_str()).collect();
    let warning = (!halves.is_empty()).then(|| {
        format!(
            "of half precision: {}; open the view with engine=\"h5netcdf\" in xarray, for netCDF4 ends the program over them",
            halves.join(", ")
        )
    });
    let note: Vec<String> = left.note().into_iter().chain(warning).collect();
    let note = (!note.is_empty()).then(|| note.join("\n"));
    let (arrays_shown, steps_shown) = (arrays.len(), shown.len());
    StepsView { steps: shown, arrays }.write(tmp)?;
    Ok(json!({"arrays": arrays_shown, "steps": steps_shown, "left_out": left.names(), "note": note}))
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
