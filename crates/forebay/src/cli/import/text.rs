//! What `forebay export --to text` wrote: data sets, tables, snapshots with all that they say of themselves.

use super::super::interrupt::Interrupt;
use super::Importing;
use forebay::{
    About, ArrayMeta, ArrayOptions, Cell, Column, DType, Error, Place, Result, Snapshot, TableOptions,
    Target, View, number_of_attribute,
};
use forebay_store::Progress;
use forebay_types::neutral::{ArrayHead, Section, SectionReader, TableHead};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// A file that is read as long as nobody interrupts it.
struct Watched {
    file: File,
    interrupt: Interrupt,
    progress: Progress,
    at: u64,
    total: u64,
}

impl Read for Watched {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        self.interrupt.check().map_err(|e| std::io::Error::other(e.text().to_owned()))?;
        let n = self.file.read(out)?;
        self.at += n as u64;
        (self.progress)(self.at, self.total.max(self.at));
        Ok(n)
    }
}

/// Bytes of its largest array, from what its sections say.
pub fn largest(path: &Path) -> Result<u64> {
    let failed = |e| Error::io("cannot read it", e);
    let file = File::open(path).map_err(failed)?;
    let (mut lines, mut line, mut largest) = (BufReader::with_capacity(1 << 20, file), Vec::new(), 0u64);
    while lines.read_until(b'\n', &mut line).map_err(failed)? > 0 {
        let head = [&b"array "[..], b"dataset "].iter().find_map(|word| line.strip_prefix(*word));
        let head = head.and_then(|json| serde_json::from_slice::<ArrayHead>(json).ok());
        largest = largest.max(head.and_then(|head| head.meta().ok()?.bytes().ok()).unwrap_or(0));
        line.clear();
    }
    Ok(largest)
}

/// Imports it.
pub fn read(job: &mut Importing, path: &Path) -> Result<()> {
    let file = File::open(path).map_err(|e| Error::io("cannot read it", e))?;
    let watched = Watched {
        file,
        interrupt: job.interrupt.clone(),
        progress: job.progress.clone(),
        at: job.done,
        total: job.total,
    };
    let mut reader = SectionReader::new(BufReader::with_capacity(1 << 20, watched))?;
    let mut snapshot: Option<Snapshot> = None;
    let mut has_parameters = false;
    while let Some(part) = reader.section()? {
        match part {
            Section::Run(head) if head.attrs.is_empty() => {}
            Section::Run(head) => job.run.set_attrs(&Target::Run, head.attrs)?,
            Section::DataSet(head) => {
                let meta = head.meta()?;
                let bytes = reader.elements(&meta)?;
                let name = job.within(&head.name);
                job.put(&name, head.set, View::new(meta, &bytes)?, &head.units, &head.attrs)?;
            }
            Section::Table(head) => table(job, &mut reader, head)?,
            Section::History(head) => {
                job.notes.push(format!("the history {:?} has become a table", head.name));
                table(job, &mut reader, TableHead { history: false, steps: false, ..head })?;
            }
            Section::Snapshot(head) => {
                if let Some(before) = snapshot.take() {
                    before.end()?;
                }
                has_parameters |= !head.parameters.is_empty();
                let time = head.time.map(|time| {
                    number_of_attribute(&time)
                        .ok_or_else(|| Error::bad(format!("{time} is no time of a snapshot; write a number")))
                });
                snapshot = Some(job.run.snapshot(head.step, time.transpose()?)?);
                job.steps += 1;
            }
            Section::Array(head) => {
                let Some(snapshot) = &snapshot else {
                    return Err(Error::bad(format!(
                        "the array {:?} stands before any snapshot; write it behind the line of its snapshot",
                        head.name
                    )));
                };
                let meta = head.meta()?;
                let bytes = reader.elements(&meta)?;
                let description = head.description();
                let about = About { description: &description, coordinates: &[] };
                let about = (!description.is_empty()).then_some(about);
                let options = ArrayOptions { units: &head.units, place: Place::Whole, about, compress: None };
                snapshot.put(&head.name, View::new(meta, &bytes)?, options)?;
                job.arrays += 1;
            }
        }
        job.interrupt.check()?;
    }
    if let Some(last) = snapshot {
        last.end()?;
    }
    if has_parameters {
        job.notes.push(
            "values of parameters at snapshots are not imported: the program that goes on declares them"
                .into(),
        );
    }
    Ok(())
}

fn table(job: &mut Importing, reader: &mut SectionReader<BufReader<Watched>>, head: TableHead) -> Result<()> {
    let TableHead { name, columns, history, steps, attrs } = head;
    let name = job.within(&name);
    job.check_table(&name)?;
    let mut metas: Vec<ArrayMeta> = columns.iter().map(Column::meta).collect::<Result<_>>()?;
    if steps && !history {
        return Err(Error::bad(format!(
            "the table {name:?} has steps and is no history; write \"history\":true"
        )));
    }
    let table = job.run.table(&name, TableOptions { columns, history })?;
    if !attrs.is_empty() {
        job.run.set_attrs(&Target::Table { name: name.clone() }, attrs)?;
    }
    if !steps {
        return job.fill(&table, &name, || Ok(reader.row(&metas)?.map(|row| (None, row))));
    }
    metas.push(DType::I64.into());
    job.fill(&table, &name, || {
        let Some(mut row) = reader.row(&metas)? else { return Ok(None) };
        match row.pop() {
            Some(Cell::Int(step)) => Ok(Some((Some(step), row))),
            _ => Err(Error::bad(format!("a row of the history {name:?} does not end with its step"))),
        }
    })
}
