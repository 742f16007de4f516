//! A series of openPMD 1.1: a directory with a file for each snapshot, in which its meshes and particles are, with their
//! coordinates. Each is described as the file of a step is, so it is VTKHDF too; and everything is within; what was
//! compressed is plain.

use super::left_out::DECLARE;
use super::variables::{PART, widened};
use super::{Exporting, LeftOut};
use forebay::{ArrayMeta, DType, DataSet, Error, Kept, Result, Selection, Which};
use forebay_store::stepfile::{Gathered, IterationOf};
use forebay_types::Description;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

/// Whether a directory is one of these.
pub fn is_ours(dir: &Path) -> bool {
    let is_step = |entry: std::io::Result<std::fs::DirEntry>| {
        let name = entry.map(|e| e.file_name().to_string_lossy().into_owned()).unwrap_or_default();
        let number =
            name.strip_suffix(".h5").and_then(|stem| stem.rsplit_once('_')).map(|(_, number)| number);
        number.is_some_and(|n| n.len() >= 10 && n.bytes().all(|b| b.is_ascii_digit()))
    };
    std::fs::read_dir(dir).is_ok_and(|mut entries| entries.all(is_step))
}

/// Writes it.
pub fn write(job: &Exporting, dir: &Path) -> Result<Value> {
    let run = job.run;
    let snapshots = run.snapshots()?;
    let steps = job.choice.steps(run, job.place)?;
    std::fs::create_dir(dir).map_err(|e| Error::io(format!("cannot make {}", dir.display()), e))?;
    let stem = job.stem();
    let (mut done, mut total, mut left, mut names, mut files) =
        (0, 0, LeftOut::default(), BTreeSet::new(), 0);
    for step in &steps {
        total += snapshots.at(*step)?.nbytes();
    }
    for step in steps {
        let kept = snapshots.at(step)?;
        let chosen = chosen(job, &kept, &mut left)?;
        if chosen.is_empty() {
            continue;
        }
        if step < 0 {
            left.add("openPMD has no step below 0", &format!("snapshot {step}"));
            continue;
        }
        let path = dir.join(format!("{stem}_{step:010}.h5"));
        let mut file = Gathered::create(&path)?;
        for of in &chosen {
            add(job, &mut file, of, step, &mut |bytes| {
                done += bytes;
                (job.progress)(done, total.max(done));
            })?;
        }
        let (time, dt) = (kept.time(), between(&kept, snapshots.numbers()?, |n| snapshots.at(n))?);
        let of = IterationOf { step, time, dt, files: format!("{stem}_%010T.h5") };
        let unplaced = file.finish_step(&of)?;
        let declared = chosen.iter().filter(|of| of.mesh.is_some() || of.species.is_some());
        let (out, kept): (Vec<&DataSet>, Vec<&DataSet>) =
            declared.partition(|of| unplaced.contains(&of.name));
        for of in out {
            let why = match of.mesh.is_some() {
                true => "its points are not equally far apart",
                false => "its species has no position",
            };
            left.add(why, &of.name);
        }
        if kept.is_empty() {
            std::fs::remove_file(&path).map_err(|e| super::wrong(&path, e))?;
            continue;
        }
        names.extend(kept.into_iter().map(|of| of.name.clone()));
        files += 1;
    }
    match files {
        0 => Err(left.nothing(job, "mesh or particles, of which openPMD is made", DECLARE)),
        _ => {
            Ok(json!({"arrays": names.len(), "steps": files, "left_out": left.names(), "note": left.note()}))
        }
    }
}

/// What of a snapshot goes into its file: meshes and particles that are chosen, with coordinates.
fn chosen(job: &Exporting, kept: &Kept, left: &mut LeftOut) -> Result<Vec<DataSet>> {
    let mut found: Vec<DataSet> = Vec::new();
    let (mut coordinates, mut others) = (BTreeSet::new(), BTreeSet::new());
    for name in kept.names()?.into_iter().filter(|name| job.choice.takes(name)) {
        let of = kept.dataset(&name)?;
        if of.mesh.is_none() && of.species.is_none() {
            others.insert(name);
            continue;
        }
        coordinates.extend(kept.coordinates(&name)?.into_iter().map(|(_, path)| path));
        found.push(of);
    }
    for name in coordinates {
        others.remove(&name);
        if found.iter().all(|of| of.name != name) {
            found.push(kept.dataset(&name)?);
        }
    }
    others.iter().for_each(|name| left.add("neither a mesh nor particles", name));
    Ok(found)
}

/// Copies an array, as its elements lie; half precision, which readers have no type for, as single.
fn add(
    job: &Exporting,
    file: &mut Gathered,
    of: &DataSet,
    step: i64,
    said: &mut dyn FnMut(u64),
) -> Result<()> {
    let is_half = of.meta.dtype == DType::F16;
    let meta = ArrayMeta { dtype: if is_half { DType::F32 } else { of.meta.dtype }, ..of.meta };
    let about = Description {
        dims: of.dims.clone(),
        attrs: of.attrs.clone(),
        mesh: of.mesh.clone(),
        species: of.species.clone(),
        ..Description::default()
    };
    let set = file.add(&of.name, &meta, &of.units, about)?;
    let mut at = 0;
    job.run.slabs(&of.name, Which::Step(step), &of.meta, &Selection::default(), PART, &mut |bytes| {
        job.interrupt.check()?;
        said(bytes.len() as u64);
        let wide = is_half.then(|| widened(bytes));
        let bytes = wide.as_deref().unwrap_or(bytes);
        file.write(set, at, bytes)?;
        at += bytes.len() as u64;
        Ok(())
    })
}

/// The time since the snapshot before, by as many steps as there are between.
fn between(kept: &Kept, all: &[i64], at: impl Fn(i64) -> Result<Kept>) -> Result<Option<f64>> {
    let step = kept.step();
    let Some(before) = all[..all.partition_point(|n| *n < step)].last() else { return Ok(None) };
    let times = kept.time().zip(at(*before)?.time());
    Ok(times.map(|(now, then)| (now - then) / (step - before) as f64))
}
