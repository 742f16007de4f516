//! A step as its row in the catalog has it, beside what its file says about itself. Pages of a catalog have
//! no checksums, and a bit that flips in a row leaves it a row: the file is the witness.

use crate::catalog::StepRow;
use crate::layout::{is_pack, step_file};
use crate::stepfile::{Entry, Manifest};
use forebay_types::control::Heads;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// What the catalog says of a step.
pub(super) struct Listed<'a> {
    pub row: &'a StepRow,
    /// That of its row; 0 in format 1.
    pub serial: u64,
    /// Where a loop goes on, as its row has it.
    pub heads: Option<Heads>,
    pub entries: &'a [Entry],
}

/// Where the catalog and the file say different things; empty when they agree.
pub(super) fn differences(listed: &Listed, m: &Manifest) -> Vec<String> {
    let row = listed.row;
    let mut found = Differences(Vec::new());
    found.compare("the number", &row.step, &m.step);
    // A pack was found by its name.
    if !is_pack(&row.file) {
        found.compare("the file", &row.file, &step_file(m.step));
    }
    // JSON has no infinity: the manifest has no time then.
    found.compare_known("the time", row.time.filter(|t| t.is_finite()), m.time);
    found.compare("the serial", &listed.serial, &m.serial);
    let span = |heads: Option<Heads>| heads.map(|h| (h.first, h.last));
    found.compare_known("where a loop goes on", span(listed.heads), span(m.heads));
    found.compare("the number of bytes", &row.nbytes, &m.data.iter().map(Entry::nbytes).sum());
    found.compare("the list of parameters", &row.parameters, &m.parameters);
    let (ours, theirs) = (by_name(listed.entries), by_name(&m.data));
    for (name, e) in &ours {
        match theirs.get(name) {
            Some(f) => found.compare_entries(e, f),
            None => found.0.push(format!("{name:?} is in the catalog and not in the file")),
        }
    }
    for name in theirs.keys().filter(|n| !ours.contains_key(*n)) {
        found.0.push(format!("{name:?} is in the file and not in the catalog"));
    }
    found.0
}

fn by_name(entries: &[Entry]) -> BTreeMap<&str, &Entry> {
    entries.iter().map(|e| (e.name.as_str(), e)).collect()
}

struct Differences(Vec<String>);

impl Differences {
    fn compare<T: Debug + PartialEq>(&mut self, what: &str, catalog: &T, file: &T) {
        if catalog != file {
            self.differ(what, &format!("{catalog:?}"), &format!("{file:?}"));
        }
    }

    fn differ(&mut self, what: &str, catalog: &str, file: &str) {
        self.0.push(format!("{what} is {catalog} in the catalog and {file} in the file"));
    }

    fn compare_known<T: Debug + PartialEq>(&mut self, what: &str, catalog: Option<T>, file: Option<T>) {
        let said = |known: &Option<T>| known.as_ref().map_or("not known".to_owned(), |t| format!("{t:?}"));
        if catalog != file {
            self.differ(what, &said(&catalog), &said(&file));
        }
    }

    fn compare_entries(&mut self, e: &Entry, f: &Entry) {
        let name = &e.name;
        self.compare(&format!("the dtype of {name:?}"), &e.meta.dtype, &f.meta.dtype);
        self.compare(&format!("the shape of {name:?}"), &e.meta.shape.extents(), &f.meta.shape.extents());
        self.compare(&format!("the order of {name:?}"), &e.meta.order, &f.meta.order);
        self.compare(&format!("the unit of {name:?}"), &e.units, &f.units);
        self.compare(&format!("the names of the axes of {name:?}"), &e.about.dims, &f.about.dims);
        self.compare(&format!("the attributes of {name:?}"), &e.about.attrs, &f.about.attrs);
        self.compare(&format!("the place of {name:?}"), &e.offset, &f.offset);
        self.compare(&format!("the number of pieces of {name:?}"), &e.pieces.len(), &f.pieces.len());
        for (a, b) in e.pieces.iter().zip(&f.pieces) {
            self.compare(&format!("a piece of {name:?}"), a, b);
        }
    }
}
