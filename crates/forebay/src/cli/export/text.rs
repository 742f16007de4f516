//! The text form: everything a run holds, to the bit. What it is stands in `forebay_types::neutral`.

use super::super::choice::{RowsOf, histories};
use super::{Exporting, wrong};
use forebay::{Column, DataSet, Order, Result, Selection, TableOptions, Target, Which};
use forebay_types::neutral::{
    ArrayHead, END, ElementLines, FIRST, LAST, RunHead, SnapshotHead, TableHead, row, section,
};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Bytes of an array that are in memory at a time.
const PART: u64 = 1 << 20;

struct Text<'a> {
    job: &'a Exporting<'a>,
    path: &'a Path,
    file: BufWriter<File>,
    arrays: u64,
    tables: u64,
    done: u64,
    total: u64,
}

/// Writes it.
pub fn write(job: &Exporting, path: &Path) -> Result<Value> {
    let file = File::create(path).map_err(|e| wrong(path, e))?;
    let file = BufWriter::with_capacity(1 << 20, file);
    let mut text = Text { job, path, file, arrays: 0, tables: 0, done: 0, total: 0 };
    let steps = job.choice.steps(job.run, job.place)?;
    let snapshots = job.run.snapshots()?;
    for step in &steps {
        text.total += snapshots.at(*step)?.nbytes();
    }
    text.put(&format!("{FIRST}\n"))?;
    if job.choice.outside() {
        text.outside()?;
    }
    for step in &steps {
        let kept = snapshots.at(*step)?;
        let names: Vec<String> = kept.names()?.into_iter().filter(|name| job.choice.takes(name)).collect();
        if names.is_empty() && !job.choice.names.is_empty() {
            continue;
        }
        let time = kept.time().map(forebay::real_attribute);
        let parameters = kept.parameters().clone();
        text.put(&section("snapshot", &SnapshotHead { step: *step, time, parameters })?)?;
        for name in names {
            text.array("array", &kept.dataset(&name)?, Which::Step(*step))?;
        }
    }
    if text.arrays + text.tables == 0 && !job.choice.names.is_empty() {
        return Err(job.choice.nothing(job.place));
    }
    text.put(&format!("{LAST}\n"))?;
    text.file.flush().map_err(|e| wrong(path, e))?;
    Ok(json!({"arrays": text.arrays, "tables": text.tables, "steps": steps.len()}))
}

impl Text<'_> {
    fn put(&mut self, text: &str) -> Result<()> {
        self.job.interrupt.check()?;
        self.file.write_all(text.as_bytes()).map_err(|e| wrong(self.path, e))
    }

    /// What is not in snapshots.
    fn outside(&mut self) -> Result<()> {
        let (run, choice) = (self.job.run, self.job.choice);
        if choice.names.is_empty() {
            self.put(&section("run", &RunHead { attrs: run.attrs(&Target::Run)? })?)?;
        }
        let sets: Vec<DataSet> = run.list("*", None)?.into_iter().filter(|d| choice.takes(&d.name)).collect();
        self.total += sets.iter().map(|d| d.nbytes).sum::<u64>();
        for set in &sets {
            self.array("dataset", set, Which::Set(set.set))?;
        }
        for name in run.tables()?.into_iter().filter(|name| choice.takes(name)) {
            let table = run.table(&name, TableOptions::default())?;
            let attrs = run.attrs(&Target::Table { name: name.clone() })?;
            let (columns, history) = (table.columns().to_vec(), table.history());
            let head = TableHead { name, columns, history, steps: history, attrs };
            self.put(&section("table", &head)?)?;
            let mut rows = if history { RowsOf::with_steps(&table) } else { RowsOf::new(&table) };
            while let Some(cells) = rows.next()? {
                self.put(&row(&cells))?;
            }
            self.end_table()?;
        }
        for title in histories(run)?.into_iter().filter(|title| choice.takes(title)) {
            let columns = run.history(&title)?;
            let declared = columns.iter().map(|c| Column {
                name: c.name.clone(),
                dtype: c.dtype.name().to_owned(),
                ..Default::default()
            });
            let head = TableHead {
                name: title,
                columns: declared.collect(),
                history: true,
                steps: false,
                attrs: Default::default(),
            };
            self.put(&section("history", &head)?)?;
            for at in 0..columns[0].len() {
                self.put(&row(&columns.iter().map(|c| c.cell(at)).collect::<Vec<_>>()))?;
            }
            self.end_table()?;
        }
        Ok(())
    }

    fn end_table(&mut self) -> Result<()> {
        self.tables += 1;
        self.put(&format!("{END}\n"))
    }

    fn array(&mut self, word: &str, of: &DataSet, which: Which) -> Result<()> {
        self.arrays += 1;
        let head = ArrayHead {
            set: of.set,
            order: (of.meta.order == Order::F).then(|| "F".to_owned()),
            units: of.units.clone(),
            dims: of.dims.clone(),
            attrs: of.attrs.clone(),
            mesh: of.mesh.clone(),
            species: of.species.clone(),
            ..ArrayHead::new(&of.name, &of.meta)
        };
        self.put(&section(word, &head)?)?;
        let mut lines = ElementLines::new(&of.meta);
        let mut out = String::new();
        self.job.run.slabs(&of.name, which, &of.meta, &Selection::default(), PART, &mut |bytes| {
            out.clear();
            lines.put(bytes, &mut out);
            self.done += bytes.len() as u64;
            (self.job.progress)(self.done, self.total.max(self.done));
            self.job.interrupt.check()?;
            self.file.write_all(out.as_bytes()).map_err(|e| wrong(self.path, e))
        })?;
        out.clear();
        lines.end(&mut out);
        out.push_str(END);
        out.push('\n');
        self.put(&out)
    }
}
