//! `forebay diff`: two runs, or two snapshots, side by side. Exit status as that of diff(1): 0 the same, 1 different,
//! 2 trouble.
//!
//! Arrays are read in parts, so their size does not matter. Pieces whose places and checksums are alike in both are
//! not read at all.

mod elements;
mod report;

use super::choice::{Choice, ChoiceKind, RowsOf, STEP_COLUMN, Spread, histories};
use super::leftover::doubt;
use super::out::{Out, Unit, bar};
use elements::{Comparison, Tolerance, is_same_cell};
use forebay::{
    Array, ArrayMeta, Cell, DType, DataSet, Error, Kept, Mode, Order, Result, Run, Selection, Shape, Slice,
    Table, TableOptions, Target, Which,
};
use forebay_store::Progress;
use forebay_store::stepfile::Piece;
use report::{Findings, Of};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, sync_channel};

/// Bytes of each array that are in memory at a time.
const PART: u64 = 8 << 20;

/// Compare two runs, or two snapshots: what only one of them has, and where arrays, tables, units and attributes differ.
#[derive(clap::Args)]
#[command(
    after_help = "The exit status is 0 when they are the same, 1 when they differ, 2 on trouble. Numbers are the same when all \
bits are: -0.0 differs from 0.0, and a NaN is the same as one of its bits. With --rtol or --atol they are the same when \
|a - b| <= atol + rtol * |b|, as numpy.isclose has it, and every NaN is the same as every other. Pieces of arrays whose \
stored checksums (CRC-32C) agree count as the same and are not read; --read-all reads them too.\n\n\
Example:\n  forebay diff before after 'E*' --rtol 1e-12\n  forebay diff two_stream@0 two_stream@600"
)]
pub struct Diff {
    /// A run, or RUN@STEP for one of its snapshots.
    a: String,
    /// The other one; it is the reference of relative differences.
    b: String,
    #[command(flatten)]
    choice: Choice,
    /// Numbers may differ by so much of the second one.
    #[arg(long, value_name = "R", allow_negative_numbers = true)]
    rtol: Option<f64>,
    /// Numbers may differ by so much.
    #[arg(long, value_name = "A", allow_negative_numbers = true)]
    atol: Option<f64>,
    /// Read pieces whose checksums agree, too.
    #[arg(long)]
    read_all: bool,
}

/// One of the two.
struct Side {
    run: Run,
    place: String,
    /// The snapshot that is meant.
    step: Option<i64>,
}

impl Side {
    fn open(text: &str) -> Result<Side> {
        let snapshot = text.rsplit_once('@').and_then(|(run, step)| Some((run, step.parse::<i64>().ok()?)));
        // Who has a run of such a name means it.
        let is_run = forebay::run_dir(text).is_ok_and(|dir| dir.is_dir());
        let (place, step) = match snapshot.filter(|_| !is_run) {
            Some((run, step)) => (run, Some(step)),
            None => (text, None),
        };
        let run = forebay::open(place, Mode::Read, Default::default())?;
        doubt(&run);
        Ok(Side { run, place: place.to_owned(), step })
    }

    /// The pieces of an array, as the catalog knows them.
    fn pieces(&self, name: &str, which: Which, meta: &ArrayMeta) -> Result<Vec<Piece>> {
        let (query, number) = match which {
            Which::Set(set) => ("SELECT crc32c FROM fb_data WHERE name = ? AND set_number = ?", set),
            Which::Step(step) => ("SELECT pieces FROM fb_step_data WHERE name = ? AND step = ?", step),
        };
        let rows = self.run.sql(query, &[name.into(), number.into()])?.rows;
        Ok(match rows.first().and_then(|row| row.first()) {
            Some(Cell::Int(crc)) => {
                let extents = meta.shape.extents();
                let (offset, shape) = (vec![0; extents.len()], extents.to_vec());
                vec![Piece { offset, shape, crc32c: *crc as u32, ..Piece::default() }]
            }
            Some(Cell::Text(pieces)) => serde_json::from_str(pieces).unwrap_or_default(),
            _ => Vec::new(),
        })
    }
}

impl Diff {
    /// Does it; ends the process with status 1 when they differ.
    pub fn run(&self, out: &Out) -> Result<()> {
        let tolerance = self.tolerance()?;
        let (a, b) = (Side::open(&self.a)?, Side::open(&self.b)?);
        let place = format!("{} and {}", a.place, b.place);
        let (wanted, why): (&[ChoiceKind], &str) = match a.step.and(b.step) {
            Some(_) => (&[ChoiceKind::Array], "two snapshots are compared; give two runs for it"),
            None => (&ChoiceKind::ALL, ""),
        };
        let choice = self.choice.within(&[&a.run, &b.run], &place, wanted, why)?;
        let (bar, progress) = bar("comparing", Unit::Bytes);
        let mut compared = Compare {
            diff: self,
            choice: &choice,
            tolerance,
            a: &a,
            b: &b,
            report: Findings::new(out, &self.a, &self.b),
            progress,
            done: 0,
            total: 0,
        };
        match (a.step, b.step) {
            (Some(first), Some(second)) => {
                if !self.choice.steps.is_empty() {
                    return Err(Error::bad("--steps chooses snapshots of runs; leave it out of RUN@STEP"));
                }
                compared.snapshot(first, second)?;
            }
            (None, None) => compared.runs()?,
            _ => {
                let (one, other) = if a.step.is_some() { (&self.a, &self.b) } else { (&self.b, &self.a) };
                return Err(Error::bad(format!(
                    "{one} is a snapshot and {other} a run; give two snapshots, such as {other}@STEP, or two runs"
                )));
            }
        }
        let report = compared.report;
        bar.finish_and_clear();
        if report.compared() == 0 && !self.choice.names.is_empty() {
            return Err(self.choice.nothing(&place));
        }
        match report.end()? {
            true => Ok(()),
            false => std::process::exit(1),
        }
    }

    fn tolerance(&self) -> Result<Option<Tolerance>> {
        for (option, given) in [("--rtol", self.rtol), ("--atol", self.atol)] {
            if let Some(v) = given.filter(|v| v.is_nan() || *v < 0.0) {
                return Err(Error::bad(format!("{option} {v} is no tolerance; give a number of at least 0")));
            }
        }
        let given = self.rtol.is_some() || self.atol.is_some();
        let [relative, absolute] = [self.rtol, self.atol].map(Option::unwrap_or_default);
        Ok(given.then_some(Tolerance { relative, absolute }))
    }
}

struct Compare<'a> {
    diff: &'a Diff,
    choice: &'a Choice,
    tolerance: Option<Tolerance>,
    a: &'a Side,
    b: &'a Side,
    report: Findings<'a>,
    progress: Progress,
    done: u64,
    total: u64,
}

/// What is in both, and what is in one only.
fn both<K: Ord + Clone>(a: &[K], b: &[K]) -> (Vec<K>, Vec<(K, bool)>) {
    let (first, second): (BTreeSet<&K>, BTreeSet<&K>) = (a.iter().collect(), b.iter().collect());
    let common = first.intersection(&second).map(|k| (*k).clone()).collect();
    let only = first.symmetric_difference(&second).map(|k| ((*k).clone(), first.contains(k))).collect();
    (common, only)
}

impl Compare<'_> {
    fn runs(&mut self) -> Result<()> {
        let choice = self.choice;
        let steps = self.steps()?;
        if choice.outside() {
            if choice.names.is_empty() {
                let [a, b] = [self.a, self.b].map(|side| side.run.attrs(&Target::Run));
                self.attributes(&Of::Run, &a?, &b?)?;
            }
            self.data_sets()?;
            self.tables()?;
            self.histories()?;
        }
        for step in steps {
            self.snapshot(step, step)?;
        }
        Ok(())
    }

    /// The snapshots that both have.
    fn steps(&mut self) -> Result<Vec<i64>> {
        let choice = self.choice;
        let [a, b] = [self.a, self.b]
            .map(|side| -> Result<Vec<i64>> { choice.among(side.run.snapshots()?.numbers()?) });
        let (common, only) = both(&a?, &b?);
        if common.is_empty() && only.is_empty() && !choice.steps.is_empty() {
            return Err(Error::new(
                forebay::Code::NotFound,
                format!(
                    "neither has a snapshot {}; `forebay ls RUN --steps` lists them",
                    choice.steps.join(", ")
                ),
            ));
        }
        for (step, in_a) in only {
            self.report.only(&Of::Snapshot(step), in_a)?;
        }
        let snapshots = self.a.run.snapshots()?;
        for step in &common {
            self.total += snapshots.at(*step)?.nbytes();
        }
        Ok(common)
    }

    fn data_sets(&mut self) -> Result<()> {
        let list = |side: &Side| -> Result<BTreeMap<(String, i64), DataSet>> {
            let all = side.run.list("*", None)?.into_iter().filter(|d| self.choice.takes(&d.name));
            Ok(all.map(|d| ((d.name.clone(), d.set), d)).collect())
        };
        let (a, b) = (list(self.a)?, list(self.b)?);
        self.total += a.values().map(|d| d.nbytes).sum::<u64>();
        let keys = |map: &BTreeMap<(String, i64), DataSet>| map.keys().cloned().collect::<Vec<_>>();
        let (common, only) = both(&keys(&a), &keys(&b));
        for ((name, set), in_a) in only {
            self.report.only(&Of::DataSet(name, set), in_a)?;
        }
        for key in common {
            let of = Of::DataSet(key.0.clone(), key.1);
            self.array(&of, (&a[&key], Which::Set(key.1)), (&b[&key], Which::Set(key.1)))?;
        }
        Ok(())
    }

    fn snapshot(&mut self, first: i64, second: i64) -> Result<()> {
        let [a, b] = [(self.a, first), (self.b, second)].map(|(side, step)| side.run.snapshots()?.at(step));
        let (a, b) = (a?, b?);
        if first == second {
            self.facts(&a, &b)?;
        }
        let chosen = |kept: &Kept| -> Result<Vec<String>> {
            Ok(kept.names()?.into_iter().filter(|name| self.choice.takes(name)).collect())
        };
        let (common, only) = both(&chosen(&a)?, &chosen(&b)?);
        for (name, in_a) in only {
            let step = if in_a { first } else { second };
            self.report.only(&Of::Array(name, step, step), in_a)?;
        }
        for name in common {
            let (described, theirs) = (a.dataset(&name)?, b.dataset(&name)?);
            let of = Of::Array(name, first, second);
            self.array(&of, (&described, Which::Step(first)), (&theirs, Which::Step(second)))?;
        }
        Ok(())
    }

    /// What two snapshots of one number say beside their arrays.
    fn facts(&mut self, a: &Kept, b: &Kept) -> Result<()> {
        if !self.choice.names.is_empty() {
            return Ok(());
        }
        let of = Of::Snapshot(a.step());
        let bits = |time: Option<f64>| time.map(f64::to_bits);
        if bits(a.time()) != bits(b.time()) {
            let said = |time: Option<f64>| time.map_or(Value::Null, forebay::real_attribute);
            self.report.value(&of, "time", &said(a.time()), &said(b.time()))?;
        }
        self.members(&of, "the parameter", a.parameters(), b.parameters())
    }

    fn attributes(&mut self, of: &Of, a: &Map<String, Value>, b: &Map<String, Value>) -> Result<()> {
        self.members(of, "the attribute", a, b)
    }

    fn members(&mut self, of: &Of, kind: &str, a: &Map<String, Value>, b: &Map<String, Value>) -> Result<()> {
        let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
        for key in keys {
            // A value that is none is tagged, so that null is one that is not there.
            let (ours, theirs) = (a.get(key).unwrap_or(&Value::Null), b.get(key).unwrap_or(&Value::Null));
            if ours != theirs {
                self.report.value(of, &format!("{kind} {key:?}"), ours, theirs)?;
            }
        }
        Ok(())
    }

    fn array(
        &mut self,
        of: &Of,
        (a, first): (&DataSet, Which),
        (b, second): (&DataSet, Which),
    ) -> Result<()> {
        self.report.count_array();
        if a.units != b.units {
            self.report.value(of, "units", &json!(a.units), &json!(b.units))?;
        }
        if a.dims != b.dims {
            self.report.value(of, "names of axes", &json!(a.dims), &json!(b.dims))?;
        }
        self.attributes(of, &a.attrs, &b.attrs)?;
        for (kind, ours, theirs) in [
            ("of its mesh", json!(a.mesh), json!(b.mesh)),
            ("of its species", json!(a.species), json!(b.species)),
        ] {
            let said = |value: &Value| value.as_object().cloned().unwrap_or_default();
            self.members(of, kind, &said(&ours), &said(&theirs))?;
        }
        if (a.meta.dtype, a.meta.shape) != (b.meta.dtype, b.meta.shape) {
            self.done += a.nbytes;
            (self.progress)(self.done, self.total);
            return self.report.value(
                of,
                "dtype and shape",
                &json!(a.meta.to_string()),
                &json!(b.meta.to_string()),
            );
        }
        self.elements(of, (a, first), (b, second))
    }

    fn elements(
        &mut self,
        of: &Of,
        (a, first): (&DataSet, Which),
        (b, second): (&DataSet, Which),
    ) -> Result<()> {
        let whole = (vec![0; a.meta.shape.rank()], a.meta.shape);
        let pieces = self.a.pieces(&a.name, first, &a.meta)?;
        let theirs = self.b.pieces(&b.name, second, &b.meta)?;
        let place = |p: &Piece| (p.offset.clone(), p.shape.clone());
        let is_alike = a.meta.order == b.meta.order
            && !pieces.is_empty()
            && pieces.iter().map(place).eq(theirs.iter().map(place));
        let mut found = elements::Differing::default();
        let mut unread = 0;
        if is_alike && !self.diff.read_all {
            for (p, q) in pieces.iter().zip(&theirs) {
                let shape = Shape::new(&p.shape)?;
                let bytes = shape.bytes(a.meta.dtype)?;
                if p.crc32c == q.crc32c {
                    unread += bytes;
                    self.advance(bytes);
                    continue;
                }
                let part = self.read((a, first), (b, second), (p.offset.clone(), shape))?;
                join(&mut found, part);
            }
        } else {
            found = self.read((a, first), (b, second), whole)?;
        }
        self.report.count_bytes(a.nbytes, unread);
        let all = a.nbytes / found.item.max(1);
        self.report.elements(of, &found, all)
    }

    fn advance(&mut self, bytes: u64) {
        self.done += bytes;
        (self.progress)(self.done, self.total.max(self.done));
    }

    /// Reads the same box of both side by side.
    fn read(
        &mut self,
        (a, first): (&DataSet, Which),
        (b, second): (&DataSet, Which),
        (offset, shape): (Vec<u64>, Shape),
    ) -> Result<elements::Differing> {
        let is_row_major = a.meta.order != b.meta.order;
        let meta = if is_row_major { ArrayMeta { order: Order::C, ..a.meta } } else { a.meta };
        let is_whole = shape == a.meta.shape;
        let is_small = shape.bytes(meta.dtype)? <= PART;
        let texts =
            meta.dtype == DType::Str && meta.order == Order::C && shape.rank() > 0 && is_whole && is_small;
        let slice =
            |(start, count): (&u64, &u64)| Slice { start: *start, count: *count, step: 1, squeeze: false };
        let selection = match is_whole {
            true => Selection::default(),
            false => Selection(offset.iter().zip(shape.extents()).map(slice).collect()),
        };
        let mut comparison = Comparison::new(&meta, (offset, shape), texts, self.tolerance)?;
        let (ours, theirs) = (&self.a.run, &self.b.run);
        if is_small {
            let bytes = |array: Array| if is_row_major { array.into_row_major() } else { Ok(array.bytes) };
            let x = bytes(ours.part(&a.name, first, &selection)?)?;
            let y = bytes(theirs.part(&b.name, second, &selection)?)?;
            comparison.part(&x, &y);
            self.advance(x.len() as u64);
            return Ok(comparison.found);
        }
        let slabs =
            |run: &Run, d: &DataSet, which, take: &mut dyn FnMut(&[u8]) -> Result<()>| match is_row_major {
                true => run.slabs_row_major(&d.name, which, &d.meta, PART, take),
                false => run.slabs(&d.name, which, &d.meta, &selection, PART, take),
            };
        let (send, receive) = sync_channel::<Vec<u8>>(1);
        let done = std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                // What it sends through goes with it, so that nobody waits for more.
                let send = send;
                slabs(theirs, b, second, &mut |bytes| send.send(bytes.to_vec()).map_err(|_| ended()))
            });
            let mut take = |bytes: &[u8]| {
                let theirs = next(&receive)?;
                comparison.part(bytes, &theirs);
                self.advance(bytes.len() as u64);
                Ok(())
            };
            let ours = slabs(ours, a, first, &mut take);
            drop(receive);
            let theirs =
                other.join().unwrap_or_else(|_| Err(Error::internal("a thread that reads has panicked")));
            match (ours, theirs) {
                // Each ends when the other one has: whose error is another one says why.
                (Err(e), Err(cause)) if e.text() == ended().text() => Err(cause),
                (Err(e), _) => Err(e),
                (Ok(()), theirs) => theirs,
            }
        });
        done.map(|()| comparison.found)
    }

    fn tables(&mut self) -> Result<()> {
        let chosen = |side: &Side| -> Result<Vec<String>> {
            Ok(side.run.tables()?.into_iter().filter(|name| self.choice.takes(name)).collect())
        };
        let (common, only) = both(&chosen(self.a)?, &chosen(self.b)?);
        for (name, in_a) in only {
            self.report.only(&Of::Table(name), in_a)?;
        }
        for name in common {
            let [a, b] = [self.a, self.b].map(|side| side.run.table(&name, TableOptions::default()));
            let target = Target::Table { name: name.clone() };
            let [ours, theirs] = [self.a, self.b].map(|side| side.run.attrs(&target));
            let of = Of::Table(name);
            self.attributes(&of, &ours?, &theirs?)?;
            self.table(&of, &a?, &b?)?;
        }
        Ok(())
    }

    fn table(&mut self, of: &Of, a: &Table, b: &Table) -> Result<()> {
        self.report.count_table();
        if a.history() != b.history() {
            self.report.value(
                of,
                "whether its rows go when a restart goes back",
                &json!(a.history()),
                &json!(b.history()),
            )?;
        }
        if a.columns() != b.columns() {
            return self.report.value(of, "columns", &json!(a.columns()), &json!(b.columns()));
        }
        // Arrays are compared element by element.
        let spread = Spread::new(a, |name, indices| format!("{name}{indices:?}"))?;
        let mut names: Vec<&str> = spread.names.iter().map(String::as_str).collect();
        let (mut ours, mut theirs) = (RowsOf::new(a), RowsOf::new(b));
        if a.history() && b.history() {
            names.push(STEP_COLUMN);
            (ours, theirs) = (RowsOf::with_steps(a), RowsOf::with_steps(b));
        }
        let cells = |row: Option<Vec<Cell>>| row.map(|row| spread.cells(row));
        self.rows(of, &names, || Ok((cells(ours.next()?), cells(theirs.next()?))))
    }

    fn histories(&mut self) -> Result<()> {
        let chosen = |side: &Side| -> Result<Vec<String>> {
            Ok(histories(&side.run)?.into_iter().filter(|title| self.choice.takes(title)).collect())
        };
        let (common, only) = both(&chosen(self.a)?, &chosen(self.b)?);
        for (title, in_a) in only {
            self.report.only(&Of::History(title), in_a)?;
        }
        for title in common {
            self.report.count_table();
            let (a, b) = (self.a.run.history(&title)?, self.b.run.history(&title)?);
            let of = Of::History(title);
            let names = |columns: &[forebay::ColumnValues]| {
                columns.iter().map(|c| c.name.clone()).collect::<Vec<_>>()
            };
            if names(&a) != names(&b) {
                self.report.value(&of, "curves", &json!(names(&a)), &json!(names(&b)))?;
                continue;
            }
            let names = names(&a);
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let mut at = 0;
            let row = |columns: &[forebay::ColumnValues], at: usize| {
                (at < columns[0].len()).then(|| columns.iter().map(|c| c.cell(at)).collect::<Vec<Cell>>())
            };
            self.rows(&of, &names, || {
                at += 1;
                Ok((row(&a, at - 1), row(&b, at - 1)))
            })?;
        }
        Ok(())
    }

    fn rows(
        &mut self,
        of: &Of,
        names: &[&str],
        mut next: impl FnMut() -> Result<(Option<Vec<Cell>>, Option<Vec<Cell>>)>,
    ) -> Result<()> {
        let (mut differing, mut first) = (0u64, None);
        let (mut ours, mut theirs) = (0u64, 0u64);
        loop {
            let (a, b) = next()?;
            ours += u64::from(a.is_some());
            theirs += u64::from(b.is_some());
            match (a, b) {
                (None, None) => break,
                (Some(a), Some(b)) => {
                    let is_other = |at: &usize| !is_same_cell(&a[*at], &b[*at], self.tolerance);
                    if let Some(at) = (0..a.len()).find(is_other) {
                        differing += 1;
                        first.get_or_insert_with(|| {
                            (ours - 1, names[at].to_owned(), a[at].clone(), b[at].clone())
                        });
                    }
                }
                _ => {}
            }
        }
        if ours != theirs {
            self.report.value(of, "number of rows", &json!(ours), &json!(theirs))?;
        }
        match first {
            Some(first) => self.report.rows(of, differing, ours.min(theirs), &first),
            None => Ok(()),
        }
    }
}

/// What was found in one more piece.
fn join(found: &mut elements::Differing, part: elements::Differing) {
    let larger = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::max);
    found.item = part.item;
    found.count += part.count;
    found.largest = larger(found.largest, part.largest);
    found.largest_relative = larger(found.largest_relative, part.largest_relative);
    // The first one by its index, whichever piece it is in.
    found.first = match (found.first.take(), part.first) {
        (Some(a), Some(b)) if b.0 < a.0 => Some(b),
        (Some(a), _) => Some(a),
        (None, b) => b,
    };
}

fn ended() -> Error {
    Error::internal("the other one ended before its array")
}

fn next(receive: &Receiver<Vec<u8>>) -> Result<Vec<u8>> {
    receive.recv().map_err(|_| ended())
}
