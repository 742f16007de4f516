//! Arrays for `numpy.load`: an archive of `.npy` members, uncompressed, so that it is written in one pass.

use super::super::npy;
use super::super::zip::ArchiveWriter;
use super::variables::Variable;
use super::{Exporting, made, wrong};
use forebay::{ArrayMeta, DType, Error, Result, Shape};
use serde_json::Value;
use std::fs::File;
use std::path::Path;

/// Writes it.
pub fn write(job: &Exporting, path: &Path) -> Result<Value> {
    let variables = job.variables()?;
    let file = File::create(path).map_err(|e| wrong(path, e))?;
    let mut archive = ArchiveWriter::new(file);
    let failed = |e| wrong(path, e);
    let (mut done, total) = (0, variables.nbytes());
    for variable in &variables.all {
        let meta = variable.meta()?;
        let form = Form::of(&meta)?;
        let head = npy::head(&form.descr, "False", &form.shape)?;
        archive.begin(&format!("{}.npy", variable.key), head.len() as u64 + form.bytes).map_err(failed)?;
        archive.write(&head).map_err(failed)?;
        members(job, variable, &form, &mut |bytes| {
            archive.write(bytes).map_err(failed)?;
            done += bytes.len() as u64;
            (job.progress)(done, total.max(done));
            Ok(())
        })?;
        archive.end().map_err(failed)?;
    }
    if variables.has_steps() {
        for (name, dtype, bytes) in variables.time_axis() {
            let head = npy::head(dtype.numpy(), "False", &Shape::new(&[variables.steps.len() as u64])?)?;
            archive.begin(&format!("{name}.npy"), (head.len() + bytes.len()) as u64).map_err(failed)?;
            archive.write(&head).and_then(|()| archive.write(&bytes)).map_err(failed)?;
            archive.end().map_err(failed)?;
        }
    }
    archive.finish().map_err(failed)?;
    Ok(made(&variables))
}

fn members(
    job: &Exporting,
    variable: &Variable,
    form: &Form,
    take: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    for n in 0..variable.count() {
        if form.width == 0 {
            variable.read(job.run, n, &job.interrupt, take)?;
            continue;
        }
        // Texts become letters of four bytes, as NumPy has them.
        let mut rest = Vec::new();
        variable.read(job.run, n, &job.interrupt, &mut |bytes| {
            rest.extend_from_slice(bytes);
            let whole = rest.len() / form.width * form.width;
            let mut letters = Vec::with_capacity(4 * whole);
            for text in rest[..whole].chunks_exact(form.width) {
                let text = String::from_utf8_lossy(npy::unpadded(text));
                let end = letters.len() + 4 * form.width;
                letters.extend(text.chars().flat_map(|c| u32::from(c).to_le_bytes()));
                letters.resize(end, 0);
            }
            rest.drain(..whole);
            take(&letters)
        })?;
    }
    Ok(())
}

/// How NumPy has the elements.
struct Form {
    descr: String,
    shape: Shape,
    bytes: u64,
    /// Bytes of a text; 0 of what is none.
    width: usize,
}

impl Form {
    fn of(meta: &ArrayMeta) -> Result<Form> {
        let plain = || -> Result<Form> {
            Ok(Form {
                descr: meta.dtype.numpy().to_owned(),
                shape: meta.shape,
                bytes: meta.bytes()?,
                width: 0,
            })
        };
        let Some((width, outer)) = meta.shape.extents().split_last().filter(|(width, _)| **width > 0) else {
            return plain();
        };
        let shape = Shape::new(outer)?;
        match meta.dtype {
            DType::Str => {
                let bytes = meta.bytes()?.checked_mul(4);
                let bytes = bytes.ok_or_else(|| Error::bad(format!("{meta} is too large for an archive")))?;
                Ok(Form { descr: format!("<U{width}"), shape, bytes, width: *width as usize })
            }
            DType::Bytes => Ok(Form { descr: format!("|V{width}"), shape, bytes: meta.bytes()?, width: 0 }),
            _ => plain(),
        }
    }
}
