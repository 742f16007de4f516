//! H5MD 1.1, for programs of molecular dynamics: species of particles over snapshots, and histories as observables. All
//! particles of a species have as many places as there are at most; those that nobody has are NaN, and -1 of integers. An
//! array `box` of the snapshots is the box: lengths `(D,)`, the lowest and the highest corner `(2, D)`, or vectors `(D, D)`.

use super::super::choice::histories;
use super::left_out::DECLARE;
use super::species::{self, Record, SpeciesOf};
use super::{Exporting, LeftOut, variables};
use forebay::{Cell, ColumnValues, DType, Error, Kept, Result, Selection, Target, Which};
use forebay_store::stepfile::{H5md, When};
use forebay_types::Unit;
use serde_json::{Value, json};
use std::path::Path;

/// The array that has the box.
const BOX: &str = "box";

/// Writes it.
pub fn write(job: &Exporting, path: &Path) -> Result<Value> {
    let snapshots = job.run.snapshots()?;
    let steps = job.choice.steps(job.run, job.place)?;
    let kept = steps.iter().map(|step| snapshots.at(*step)).collect::<Result<Vec<Kept>>>()?;
    let mut left = LeftOut::default();
    let species = species::chosen(job, &kept, &mut left)?;
    for name in variables::over(job, &steps)?.keys() {
        if name != BOX && !left.has(name) && !species.iter().any(|one| one.has(name)) {
            left.add("no particles", name);
        }
    }
    let observed: Vec<String> = match job.choice.outside() {
        true => histories(job.run)?.into_iter().filter(|title| job.choice.takes(title)).collect(),
        false => Vec::new(),
    };
    if species.is_empty() && observed.is_empty() {
        return Err(left.nothing(job, "particles or history, of which H5MD is made", DECLARE));
    }
    let author = job.run.attrs(&Target::Run)?;
    let author = author.get("author").and_then(Value::as_str).unwrap_or("unknown").to_owned();
    let mut file = H5md::create(path, &author)?;
    let mut writing = Writing { job, kept: &kept, done: 0, total: kept.iter().map(Kept::nbytes).sum() };
    let mut count = 0;
    for one in &species {
        count += writing.particles(&mut file, one)?;
    }
    for title in &observed {
        observable(job, &mut file, title)?;
    }
    file.finish()?;
    Ok(json!({
        "arrays": count, "tables": observed.len(), "steps": steps.len(),
        "left_out": left.names(), "note": left.note(),
    }))
}

struct Writing<'a, 'b> {
    job: &'a Exporting<'b>,
    kept: &'a [Kept],
    done: u64,
    total: u64,
}

impl Writing<'_, '_> {
    /// Writes a species; how many arrays that are.
    fn particles(&mut self, file: &mut H5md, one: &SpeciesOf) -> Result<usize> {
        let here: Vec<(&Kept, u64)> =
            self.kept.iter().zip(&one.counts).filter(|(_, n)| **n > 0).map(|(k, n)| (k, *n)).collect();
        let steps: Vec<i64> = here.iter().map(|(kept, _)| kept.step()).collect();
        let times: Vec<f64> = here.iter().map(|(kept, _)| kept.time().unwrap_or(f64::NAN)).collect();
        let most = one.counts.iter().copied().max().unwrap_or(0);
        let at = format!("particles/{}", one.name);
        let position = one.position();
        let dimension = position.width();
        self.the_box(file, &at, &here, (&steps, &times), dimension)?;
        let first = format!("{at}/position");
        // What is like it comes after it.
        let others = one.records.iter().filter(|record| record.name != "position");
        for record in std::iter::once(position).chain(others) {
            let when = match record.name == "position" {
                true => When::At(&steps, &times),
                false => When::Like(&first, steps.len() as u64),
            };
            let dtype = record.components.dtype();
            let width = record.width();
            let extents = match record.is_vector() {
                true => vec![most, width as u64],
                false => vec![most],
            };
            let unit = unit(&record.units);
            let set =
                file.element(&format!("{at}/{}", record.key()), when, (dtype, &extents), unit.as_deref())?;
            self.record(file, record, set, dtype, &here, most)?;
        }
        for (name, constant) in &one.constants {
            let unit = unit(&constant.units);
            let set = file.fixed(&format!("{at}/{name}"), DType::F64, &[most], unit.as_deref())?;
            let bytes = constant.value.to_le_bytes().repeat(most as usize);
            file.write(set, 0, &bytes)?;
        }
        Ok(one.records.len())
    }

    fn record(
        &mut self,
        file: &H5md,
        record: &Record,
        set: usize,
        dtype: DType,
        here: &[(&Kept, u64)],
        most: u64,
    ) -> Result<()> {
        let mut at = 0;
        for (kept, count) in here {
            let of = record.components.at(self.job, kept.step())?;
            let columns = record.components.columns(&of, record.width(), |component| component);
            species::interleave(
                self.job,
                kept.step(),
                &columns,
                dtype,
                &species::rows(*count)?,
                &mut |bytes| {
                    file.write(set, at, bytes)?;
                    at += bytes.len() as u64;
                    self.done += bytes.len() as u64;
                    (self.job.progress)(self.done, self.total.max(self.done));
                    Ok(())
                },
            )?;
            // Places that no particle has.
            let nobody = dtype.nan().unwrap_or_else(|| vec![0xff; dtype.size()]);
            let bytes = nobody.repeat(((most - count) as usize) * columns.len());
            file.write(set, at, &bytes)?;
            at += bytes.len() as u64;
        }
        Ok(())
    }

    /// Writes the box; where none is known it has no boundaries.
    fn the_box(
        &self,
        file: &mut H5md,
        at: &str,
        here: &[(&Kept, u64)],
        (steps, times): (&[i64], &[f64]),
        dimension: usize,
    ) -> Result<()> {
        let mut known: Vec<Vec<f64>> = Vec::new();
        let (mut periodic, mut unit_of) = (None, None);
        for (kept, _) in here {
            if !kept.names()?.iter().any(|name| name == BOX) {
                break;
            }
            let of = kept.dataset(BOX)?;
            let found = self.job.run.part(BOX, Which::Step(kept.step()), &Selection::default())?;
            let meta = found.meta;
            let bytes = found.into_row_major()?;
            let real = |element: &[u8]| match meta.dtype.number(element) {
                forebay::Number::Int(v) => v as f64,
                forebay::Number::Real(v) => v,
                _ => f64::NAN,
            };
            let values: Vec<f64> = bytes.chunks_exact(meta.dtype.size()).map(real).collect();
            let d = dimension as u64;
            known.push(match meta.shape.extents() {
                [n] if *n == d => values,
                [2, n] if *n == d && d != 2 => {
                    (0..dimension).map(|i| values[dimension + i] - values[i]).collect()
                }
                [n, m] if (*n, *m) == (d, d) => values,
                _ => break,
            });
            periodic = of.attrs.get("boundary").cloned();
            unit_of = unit(&of.units);
        }
        let is_known = known.len() == here.len() && known.iter().all(|one| one.len() == known[0].len());
        let boundary = match periodic {
            Some(Value::String(text)) => vec![text; dimension],
            Some(Value::Array(all)) if all.len() == dimension => {
                all.iter().map(|v| v.as_str().unwrap_or("none").to_owned()).collect()
            }
            _ => vec!["none".to_owned(); dimension],
        };
        // Whoever says periodic says how long.
        let boundary = if is_known { boundary } else { vec!["none".to_owned(); dimension] };
        file.particles(at.trim_start_matches("particles/"), &boundary)?;
        if is_known && !known.is_empty() {
            let extents = match known[0].len() == dimension {
                true => vec![dimension as u64],
                false => vec![dimension as u64; 2],
            };
            let at = format!("{at}/{BOX}/edges");
            let set =
                file.element(&at, When::At(steps, times), (DType::F64, &extents), unit_of.as_deref())?;
            let bytes: Vec<u8> = known.iter().flatten().flat_map(|v| v.to_le_bytes()).collect();
            file.write(set, 0, &bytes)?;
        }
        Ok(())
    }
}

/// Writes a history: each of its curves is an element.
fn observable(job: &Exporting, file: &mut H5md, title: &str) -> Result<()> {
    let group = title.replace('/', "_");
    let columns = job.run.history(title)?;
    let real = |column: &ColumnValues, row: usize| match column.cell(row) {
        Cell::Int(v) => v as f64,
        Cell::Real(v) => v,
        _ => f64::NAN,
    };
    let [steps, times, curves @ ..] = &columns[..] else {
        return Err(Error::internal(format!("the history {title:?} has no columns")));
    };
    let rows = steps.len();
    let numbers: Vec<i64> = (0..rows).map(|row| real(steps, row) as i64).collect();
    let moments: Vec<f64> = (0..rows).map(|row| real(times, row)).collect();
    let mut first: Option<String> = None;
    for curve in curves {
        job.interrupt.check()?;
        let at = format!("observables/{group}/{}", curve.name.replace('/', "_"));
        let when = match &first {
            None => When::At(&numbers, &moments),
            Some(other) => When::Like(other, rows as u64),
        };
        let set = file.element(&at, when, (DType::F64, &[]), None)?;
        let bytes: Vec<u8> = (0..rows).flat_map(|row| real(curve, row).to_le_bytes()).collect();
        file.write(set, 0, &bytes)?;
        first.get_or_insert(at);
    }
    Ok(())
}

/// A unit as H5MD has it: symbols with their powers, and blanks between. What is not known is not said.
fn unit(text: &str) -> Option<String> {
    Unit::parse(text).ok()?;
    let is_symbol = |c: char| c.is_alphabetic() || c == '%' || c == '°';
    let (mut out, mut rest, mut sign) = (Vec::new(), text.trim(), 1i32);
    while let Some(c) = rest.chars().next() {
        if c == '/' || c == '*' || c == '.' || c == '·' || c.is_whitespace() {
            if !c.is_whitespace() {
                sign = if c == '/' { -1 } else { 1 };
            }
            rest = &rest[c.len_utf8()..];
            continue;
        }
        let end = rest.find(|c| !is_symbol(c)).unwrap_or(rest.len());
        let (symbol, behind) = rest.split_at(end);
        let behind = behind.trim_start_matches("**").trim_start_matches('^');
        let digits = |c: char| !(c.is_ascii_digit() || c == '-' || c == '+');
        let (power, after) = behind.split_at(behind.find(digits).unwrap_or(behind.len()));
        let power: i32 = if power.is_empty() { 1 } else { power.parse().ok()? };
        // Numbers, brackets and powers that are no integers stay behind.
        if symbol.is_empty() {
            return None;
        }
        out.push(if power * sign == 1 { symbol.to_owned() } else { format!("{symbol}{:+}", power * sign) });
        (rest, sign) = (after, 1);
    }
    (!out.is_empty()).then(|| out.join(" "))
}

#[cfg(test)]
mod tests {
    use super::unit;

    #[test]
    fn units_have_powers_and_blanks_and_what_is_not_known_has_none() {
        let of = |text| unit(text).unwrap_or_default();
        assert_eq!(of("nm/ps"), "nm ps-1");
        assert_eq!((of("kg m^2 s-2"), of("kg*m**2/s^2")), ("kg m+2 s-2".into(), "kg m+2 s-2".into()));
        assert_eq!((of("Da"), of("")), ("Da".into(), String::new()));
        assert_eq!((of("degC"), of("m^(1/2)")), (String::new(), String::new()));
    }
}
