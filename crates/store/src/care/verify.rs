//! Reads every byte of a run and compares checksums. Changes nothing; may run beside an owner.

use super::{Progress, unheard};
use crate::catalog::{self, DataRow};
use crate::layout::Layout;
use crate::reader::Reader;
use crate::stepfile::{Entry, Opened, Piece, read_piece};
use forebay_types::Result;
use std::cell::Cell;
use std::fs::File;
use std::path::Path;

/// What `verify` found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Complete steps that were read.
    pub steps: u64,
    /// Data sets that were read, in steps and outside.
    pub data_sets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What is wrong, one line each; names the file.
    pub faults: Vec<String>,
}

/// Reads everything and compares checksums. Changes nothing; may run beside an owner.
pub fn verify(dir: &Path) -> Result<Report> {
    verify_with(dir, &unheard())
}

/// The same, counted in bytes.
pub fn verify_with(dir: &Path, progress: &Progress) -> Result<Report> {
    let reader = Reader::open(dir)?;
    let mut report = Report::default();
    match reader.asked(catalog::faults) {
        Ok(faults) => report.faults.extend(faults.iter().map(|f| format!("catalog.sqlite: {f}"))),
        Err(e) => report.faults.push(format!("catalog.sqlite: {e}")),
    }
    let (steps, sets) = match (reader.asked(catalog::all_steps), reader.list("*", None)) {
        (Ok(steps), Ok(sets)) => (steps, sets),
        (Err(e), _) | (_, Err(e)) => {
            // What a damaged catalog does not list cannot be read.
            report.faults.push(format!("catalog.sqlite: {e}"));
            return Ok(report);
        }
    };
    let total = steps.iter().map(|s| s.nbytes).chain(sets.iter().map(|r| r.nbytes)).sum();
    let read = Cell::new(0);
    let passed = |bytes: u64| {
        read.set(read.get() + bytes);
        progress(read.get(), total);
    };
    passed(0);
    let layout = Layout::new(dir);
    for step in &steps {
        let entries = entries(&reader, step.step);
        let found = entries.map(|entries| {
            report.steps += 1;
            report.data_sets += entries.len() as u64;
            report.bytes += entries.iter().map(Entry::nbytes).sum::<u64>();
            faults_of_step(&layout, &step.file, &entries, &passed)
        });
        let found = found.unwrap_or_else(|e| vec![e.to_string()]);
        report.faults.extend(found.iter().map(|f| format!("{}: {f}", step.file)));
    }
    for row in &sets {
        report.data_sets += 1;
        report.bytes += row.nbytes;
        report.faults.extend(fault_of_set(&layout, &reader, row));
        passed(row.nbytes);
    }
    Ok(report)
}

/// The data sets of a step.
pub(super) fn entries(reader: &Reader, step: i64) -> Result<Vec<Entry>> {
    reader.step_names(step)?.iter().map(|n| reader.step_info(step, n)).collect()
}

/// What is wrong with the file of a step, its bytes included; empty when it is sound.
pub(super) fn faults_of_step(
    layout: &Layout,
    file: &str,
    entries: &[Entry],
    passed: &dyn Fn(u64),
) -> Vec<String> {
    let path = match layout.file(file) {
        Ok(path) => path,
        Err(e) => return vec![e.to_string()],
    };
    if !path.exists() {
        return vec!["the file is not there".into()];
    }
    let (opened, plain) = match (Opened::open(&path), File::open(&path)) {
        (Ok(o), Ok(f)) => (o, f),
        (Err(e), _) => return vec![e.to_string()],
        (_, Err(e)) => return vec![e.to_string()],
    };
    let mut faults = Vec::new();
    for e in entries {
        let placed = opened.locate(&e.name).map(|p| p.0);
        if e.nbytes() > 0 && placed != Some(e.offset) {
            faults.push(format!("{:?} is not where the catalog says", e.name));
        }
        faults.extend(e.pieces.iter().filter_map(|p| fault_of_piece(&plain, e, p)));
        passed(e.nbytes());
    }
    faults
}

fn fault_of_piece(file: &File, e: &Entry, p: &Piece) -> Option<String> {
    match read_piece(file, e, p) {
        Ok(sum) if sum == p.crc32c => None,
        Ok(_) => Some(format!("{:?}, piece of rank {}, has another checksum", e.name, p.rank)),
        Err(error) => Some(format!("{:?}, piece of rank {}: {error}", e.name, p.rank)),
    }
}

/// What is wrong with a data set outside steps.
pub(super) fn fault_of_set(layout: &Layout, reader: &Reader, row: &DataRow) -> Option<String> {
    let what = format!("{:?} set {}", row.name, row.set);
    let Some((file, offset)) = &row.file else {
        let read = reader.get(&row.name, row.set, &Default::default());
        return read.err().map(|e| format!("catalog.sqlite: {what}: {e}"));
    };
    let extents = row.meta.shape.extents();
    let piece = Piece { rank: 0, offset: vec![0; extents.len()], shape: extents.to_vec(), crc32c: row.crc };
    let (meta, offset) = (row.meta, *offset);
    let entry = Entry { name: row.name.clone(), meta, unit: String::new(), offset, pieces: Vec::new() };
    let opened = layout.file(file).and_then(|path| {
        File::open(&path).map_err(|e| forebay_types::Error::io("the file cannot be opened", e))
    });
    match opened.and_then(|f| read_piece(&f, &entry, &piece)) {
        Ok(sum) if sum == row.crc => None,
        Ok(_) => Some(format!("{file}: {what} has another checksum")),
        Err(e) => Some(format!("{file}: {what}: {e}")),
    }
}
