//! One netCDF-4 file over all snapshots: dimension `step`, with `time` along it, and the dimensions and coordinates that
//! arrays name. An axis without a name is called by its length. What the format has no type for becomes one that holds
//! every value: `f16` is `f32`, a truth value is a byte, which xarray reads as a truth value by the attribute `dtype`.

use super::variables::{Origin, STEP, Variable, Variables, group_of, widened};
use super::{Exporting, made};
use forebay::{ArrayMeta, DType, Result, Shape, Target};
use forebay_store::stepfile::Gathered;
use forebay_types::Description;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

/// Attributes that the file has for itself, or that mean another thing there.
const TAKEN: [&str; 9] = [
    "units",
    "dataOrder",
    "CLASS",
    "NAME",
    "DIMENSION_LIST",
    "REFERENCE_LIST",
    "_NCProperties",
    "Conventions",
    "_FillValue",
];

/// Writes it.
pub fn write(job: &Exporting, path: &Path) -> Result<Value> {
    let mut variables = job.variables()?;
    variables.add_points(job.run)?;
    let mut file = Gathered::create(path)?;
    let planned = plan(&variables)?;
    let mut places = Vec::new();
    for (variable, planned) in variables.all.iter().zip(&planned) {
        let units = &variable.of.units;
        places.push(file.add(&planned.path, &planned.meta, units, planned.about.clone())?);
    }
    let groups: BTreeSet<String> = variables
        .all
        .iter()
        .filter(|v| matches!(v.origin, Origin::Steps(_)))
        .map(|v| group_of(&v.key).to_owned())
        .collect();
    for group in &groups {
        for (name, dtype, bytes) in variables.time_axis() {
            let meta = ArrayMeta::new(dtype, Shape::new(&[variables.steps.len() as u64])?);
            let about = Description { dims: vec![STEP.to_owned()], ..Description::default() };
            let at = file.add(&format!("{group}{name}"), &meta, "", about)?;
            file.write(at, 0, &bytes)?;
        }
    }
    let (mut done, total) = (0, variables.nbytes());
    for (variable, at) in variables.all.iter().zip(places) {
        let mut here = 0;
        let is_half = variable.of.meta.dtype == DType::F16;
        for n in 0..variable.count() {
            variable.read(job.run, n, &job.interrupt, &mut |bytes| {
                let wide = is_half.then(|| widened(bytes));
                let bytes = wide.as_deref().unwrap_or(bytes);
                file.write(at, here, bytes)?;
                here += bytes.len() as u64;
                done += bytes.len() as u64;
                (job.progress)(done, total.max(done));
                Ok(())
            })?;
        }
    }
    let mut attrs = job.run.attrs(&Target::Run)?;
    attrs.retain(|key, _| !TAKEN.contains(&key.as_str()));
    file.finish(&attrs)?;
    Ok(made(&variables))
}

struct Planned {
    path: String,
    meta: ArrayMeta,
    about: Description,
}

/// How each array lies in the file.
fn plan(variables: &Variables) -> Result<Vec<Planned>> {
    let planned = |(variable, mut dims): (&Variable, Vec<String>)| {
        let dtype = match variable.of.meta.dtype {
            DType::F16 => DType::F32,
            DType::Bool => DType::I8,
            DType::Bytes => DType::U8,
            other => other,
        };
        let meta = ArrayMeta { dtype, ..variable.meta()? };
        // The letters of texts are no axis.
        dims.truncate(forebay_types::axes(&meta).len());
        let mut attrs = variables.attributes(variable);
        attrs.retain(|key, _| !TAKEN.contains(&key.as_str()));
        if variable.of.meta.dtype == DType::Bool {
            attrs.insert("dtype".to_owned(), json!("bool"));
        }
        Ok(Planned {
            path: variable.key.clone(),
            meta,
            about: Description { dims, attrs, ..Description::default() },
        })
    };
    variables.all.iter().zip(variables.axes()?).map(planned).collect()
}
