//! A Zarr hierarchy, version 3: a directory with a `zarr.json` for the group and for each array, and the elements in
//! files, one chunk a snapshot.
//!
//! ```text
//!  two_stream.zarr/zarr.json          the group, with the attributes of the run
//!  two_stream.zarr/E/zarr.json        shape, data type, names of axes, attributes
//!  two_stream.zarr/E/c/0/0/0          the first snapshot, little endian, row-major
//! ```

use super::variables::{Origin, STEP, Variable, Variables};
use super::{Exporting, made, wrong};
use forebay::{ArrayMeta, DType, Error, Result, Target};
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// The file that describes a group or an array.
const JSON: &str = "zarr.json";

/// Whether a directory is one of these.
pub fn is_ours(dir: &Path) -> bool {
    dir.join(JSON).is_file()
}

/// Writes it.
pub fn write(job: &Exporting, path: &Path) -> Result<Value> {
    let mut variables = job.variables()?;
    variables.add_points(job.run)?;
    let attrs = job.run.attrs(&Target::Run)?;
    make_dir(path)?;
    group(path, attrs)?;
    let (mut done, total) = (0, variables.nbytes());
    for (variable, axes) in variables.all.iter().zip(variables.axes()?) {
        let dir = path.join(&variable.key);
        groups_above(path, &variable.key)?;
        make_dir(&dir)?;
        let meta = variable.meta()?;
        let has_steps = matches!(variable.origin, Origin::Steps(_));
        let (extents, kind) = kind(&meta);
        let mut chunk = extents.clone();
        if has_steps {
            chunk[0] = 1;
        }
        // A chunk has at least one element along each axis.
        chunk.iter_mut().for_each(|n| *n = (*n).max(1));
        describe(&dir, &extents, &chunk, &kind, &json!(axes), attributes(&variables, variable))?;
        if meta.shape.is_empty() {
            continue;
        }
        for n in 0..variable.count() {
            let mut place = dir.join("c");
            for axis in 0..extents.len() {
                place.push(if axis == 0 { n.to_string() } else { "0".to_owned() });
            }
            place.parent().map_or(Ok(()), make_dir)?;
            let mut file = File::create(&place).map_err(|e| wrong(&place, e))?;
            variable.read(job.run, n, &job.interrupt, &mut |bytes| {
                file.write_all(bytes).map_err(|e| wrong(&place, e))?;
                done += bytes.len() as u64;
                (job.progress)(done, total.max(done));
                Ok(())
            })?;
        }
    }
    if variables.has_steps() {
        for (name, dtype, bytes) in variables.time_axis() {
            let dir = path.join(name);
            make_dir(&dir.join("c"))?;
            let n = variables.steps.len() as u64;
            describe(
                &dir,
                &[n],
                &[n.max(1)],
                &json!({"data_type": name_of(dtype), "fill_value": 0}),
                &json!([STEP]),
                Map::new(),
            )?;
            let place = dir.join("c/0");
            std::fs::write(&place, bytes).map_err(|e| wrong(&place, e))?;
        }
    }
    Ok(made(&variables))
}

fn make_dir(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|e| Error::io(format!("cannot make {}", path.display()), e))
}

fn save(dir: &Path, value: &Value) -> Result<()> {
    let path = dir.join(JSON);
    let text = serde_json::to_vec_pretty(value).map_err(|e| Error::internal(e.to_string()))?;
    std::fs::write(&path, text).map_err(|e| wrong(&path, e))
}

fn group(dir: &Path, attrs: Map<String, Value>) -> Result<()> {
    save(dir, &json!({"zarr_format": 3, "node_type": "group", "attributes": attrs}))
}

/// What stands before slashes in a name is a group.
fn groups_above(root: &Path, key: &str) -> Result<()> {
    for (at, _) in key.match_indices('/') {
        let dir = root.join(&key[..at]);
        make_dir(&dir)?;
        if !is_ours(&dir) {
            group(&dir, Map::new())?;
        }
    }
    Ok(())
}

fn describe(
    dir: &Path,
    shape: &[u64],
    chunk: &[u64],
    kind: &Value,
    axes: &Value,
    attrs: Map<String, Value>,
) -> Result<()> {
    let mut value = json!({
        "zarr_format": 3, "node_type": "array", "shape": shape,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "dimension_names": axes, "attributes": attrs,
    });
    value["data_type"] = kind["data_type"].clone();
    value["fill_value"] = kind["fill_value"].clone();
    save(dir, &value)
}

/// Extents, and the data type with the value of what is not there. Texts and bytes are numbers of 8 bits: Zarr's core
/// has no texts of fixed length.
fn kind(meta: &ArrayMeta) -> (Vec<u64>, Value) {
    let fill = match meta.dtype {
        DType::Bool => json!(false),
        DType::C64 | DType::C128 => json!([0.0, 0.0]),
        DType::F16 | DType::F32 | DType::F64 => json!(0.0),
        _ => json!(0),
    };
    (meta.shape.extents().to_vec(), json!({"data_type": name_of(meta.dtype), "fill_value": fill}))
}

fn name_of(dtype: DType) -> &'static str {
    match dtype {
        DType::I8 => "int8",
        DType::I16 => "int16",
        DType::I32 => "int32",
        DType::I64 => "int64",
        DType::U8 | DType::Str | DType::Bytes => "uint8",
        DType::U16 => "uint16",
        DType::U32 => "uint32",
        DType::U64 => "uint64",
        DType::F16 => "float16",
        DType::F32 => "float32",
        DType::F64 => "float64",
        DType::C64 => "complex64",
        DType::C128 => "complex128",
        DType::Bool => "bool",
    }
}

fn attributes(variables: &Variables, variable: &Variable) -> Map<String, Value> {
    let mut attrs = variables.attributes(variable);
    if !variable.of.units.is_empty() {
        attrs.insert("units".to_owned(), json!(variable.of.units));
    }
    if matches!(variable.of.meta.dtype, DType::Str) {
        // The last axis counts bytes of UTF-8.
        attrs.entry("encoding").or_insert_with(|| json!("utf-8"));
    }
    attrs
}
