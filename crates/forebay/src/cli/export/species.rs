//! Species of particles over snapshots, as formats want them that have all particles of a record in one array, whose components
//! lie side by side.

use super::variables::PART;
use super::{Exporting, LeftOut};
use forebay::{Constant, DType, DataSet, Error, Kept, Number, Result, Selection, Which};
use forebay_store::stepfile::is_number_of_vtk;
use forebay_types::{ArrayMeta, Shape};
use std::collections::{BTreeMap, BTreeSet};

/// What components of meshes and records are called.
pub const XYZ: [&str; 3] = ["x", "y", "z"];

/// A species of particles.
pub struct SpeciesOf {
    /// Its name.
    pub name: String,
    /// Number of particles at each snapshot.
    pub counts: Vec<u64>,
    /// What they have; `position` is among them.
    pub records: Vec<Record>,
    /// Records that are one number, at the first snapshot that has them.
    pub constants: BTreeMap<String, Constant>,
}

/// A record of a species.
pub struct Record {
    /// Its name, as `momentum`.
    pub name: String,
    /// Which arrays it is made of.
    pub components: Components,
    /// Its unit, or empty.
    pub units: String,
}

/// The arrays of a record.
pub enum Components {
    /// One number for each particle; of which component, if of one alone.
    One((String, DType)),
    /// An array of so many columns.
    Columns((String, DType), usize),
    /// An array for each of these components: 0 is x.
    Each(Vec<(usize, String, DType)>),
}

/// Arrays, or columns of them, whose elements lie side by side; none where nothing is.
pub type Columns<'a> = Vec<Option<(&'a DataSet, Option<usize>)>>;

impl Components {
    /// Its arrays `of` a snapshot side by side: those of a record with a direction in so many places, each where `place`
    /// says.
    pub fn columns<'a>(
        &self,
        of: &'a [DataSet],
        places: usize,
        place: impl Fn(usize) -> usize,
    ) -> Columns<'a> {
        let mut columns = vec![None; places];
        match self {
            Components::One(_) => return vec![Some((&of[0], None))],
            Components::Columns(_, n) => {
                (0..*n).for_each(|column| columns[place(column)] = Some((&of[0], Some(column))));
            }
            Components::Each(each) => {
                each.iter().zip(of).for_each(|((c, ..), of)| columns[place(*c)] = Some((of, None)));
            }
        }
        columns
    }

    /// The names of the arrays.
    pub fn names(&self) -> Vec<&str> {
        match self {
            Components::One((name, _)) | Components::Columns((name, _), _) => vec![name],
            Components::Each(each) => each.iter().map(|(_, name, _)| name.as_str()).collect(),
        }
    }

    /// The type of their elements in a file: that of all, or real numbers of double precision.
    pub fn dtype(&self) -> DType {
        let dtypes = self.dtypes();
        let first = dtypes.first().copied().unwrap_or(DType::F64);
        if dtypes.iter().all(|dtype| *dtype == first) { first } else { DType::F64 }
    }

    fn dtypes(&self) -> Vec<DType> {
        match self {
            Components::One((_, dtype)) | Components::Columns((_, dtype), _) => vec![wide(*dtype)],
            Components::Each(each) => each.iter().map(|(.., dtype)| wide(*dtype)).collect(),
        }
    }

    /// The arrays at a snapshot.
    pub fn at(&self, job: &Exporting, step: i64) -> Result<Vec<DataSet>> {
        let kept = job.run.snapshots()?.at(step)?;
        self.names().into_iter().map(|name| kept.dataset(name)).collect()
    }
}

impl Record {
    /// Whether it has a direction.
    pub fn is_vector(&self) -> bool {
        !matches!(self.components, Components::One(_))
    }

    /// How many components it has.
    pub fn width(&self) -> usize {
        match &self.components {
            Components::One(_) => 1,
            Components::Columns(_, n) => *n,
            Components::Each(each) => each.iter().map(|(component, ..)| component + 1).max().unwrap_or(1),
        }
    }

    /// What its array is called: `weighting`, or `momentum_r` of a component that is not x, y or z.
    pub fn key(&self) -> String {
        self.name.replace('/', "_")
    }
}

impl SpeciesOf {
    /// Whether an array is one of its.
    pub fn has(&self, name: &str) -> bool {
        self.records.iter().any(|record| record.components.names().contains(&name))
    }

    /// Where the particles are.
    pub fn position(&self) -> &Record {
        let found = self.records.iter().find(|record| record.name == "position");
        found.unwrap_or(&self.records[0])
    }
}

/// The species that are chosen, of real numbers and integers; whatever else belongs to one is left out by name.
pub fn chosen(job: &Exporting, kept: &[Kept], left: &mut LeftOut) -> Result<Vec<SpeciesOf>> {
    // The arrays of each species at each snapshot.
    let mut found: BTreeMap<String, Vec<Vec<DataSet>>> = BTreeMap::new();
    for (n, kept) in kept.iter().enumerate() {
        job.interrupt.check()?;
        for name in kept.names()?.into_iter().filter(|name| job.choice.takes(name)) {
            let of = kept.dataset(&name)?;
            let Some(species) = &of.species else { continue };
            let at = found.entry(species.name.clone()).or_default();
            at.resize_with(n + 1, Vec::new);
            at[n].push(of);
        }
    }
    let mut all = Vec::new();
    for (name, mut at) in found {
        at.resize_with(kept.len(), Vec::new);
        let names: BTreeSet<String> = at.iter().flatten().map(|of| of.name.clone()).collect();
        let Some(first) = at.iter().find(|arrays| !arrays.is_empty()) else { continue };
        let mut arrays: Vec<&DataSet> = Vec::new();
        for array in &names {
            let alike = |of: &DataSet, other: &DataSet| {
                let columns = |of: &DataSet| of.meta.shape.extents()[1..].to_vec();
                of.meta.dtype == other.meta.dtype && columns(of) == columns(other) && of.units == other.units
            };
            let of = first.iter().find(|of| of.name == *array);
            let is_everywhere = |of: &DataSet| {
                let there = at.iter().filter(|arrays| !arrays.is_empty());
                there.clone().all(|arrays| arrays.iter().any(|o| o.name == *array && alike(of, o)))
            };
            match of {
                Some(of) if !is_number_of_vtk(of.meta.dtype) => left.add("no real or whole numbers", array),
                Some(of) if is_everywhere(of) => arrays.push(of),
                _ => left.add("not every snapshot of its species has it alike", array),
            }
        }
        let counts = at.iter().map(|arrays| arrays.first().map_or(0, |of| of.meta.shape.extents()[0]));
        let counts: Vec<u64> = counts.collect();
        let numbers_at = |arrays: &Vec<DataSet>| {
            let of = arrays.iter().filter_map(|of| of.species.as_ref());
            of.flat_map(|s| s.constants.clone()).collect::<BTreeMap<_, _>>()
        };
        let numbers: Vec<_> = at.iter().filter(|arrays| !arrays.is_empty()).map(numbers_at).collect();
        let mut constants = numbers.first().cloned().unwrap_or_default();
        for number in numbers.iter().flat_map(BTreeMap::keys).collect::<BTreeSet<_>>() {
            if numbers.iter().any(|at| at.get(number) != constants.get(number)) {
                left.add(
                    "one number for all particles, and not the same at every snapshot",
                    &format!("{name}/{number}"),
                );
                constants.remove(number);
            }
        }
        let records = records(&name, &arrays);
        let is_position = |record: &Record| record.name == "position" && is_real(record);
        match records.iter().any(is_position) {
            true => all.push(SpeciesOf { name, counts, records, constants }),
            false => names.iter().for_each(|array| left.add("its species has no position", array)),
        }
    }
    Ok(all)
}

fn is_real(record: &Record) -> bool {
    record.components.dtypes().iter().all(|dtype| dtype.mantissa().is_some())
}

/// The records that arrays of a species are.
fn records(species: &str, arrays: &[&DataSet]) -> Vec<Record> {
    let mut all: Vec<Record> = Vec::new();
    for of in arrays {
        let path = of.name.strip_prefix(species).and_then(|rest| rest.strip_prefix('/')).unwrap_or(&of.name);
        let (record, component) = path.split_once('/').map_or((path, None), |(r, c)| (r, Some(c)));
        let axis = component.and_then(|c| XYZ.iter().position(|name| *name == c));
        let own = || (of.name.clone(), of.meta.dtype);
        let new = match (of.meta.shape.extents(), axis, component) {
            ([_, columns], ..) => Components::Columns(own(), *columns as usize),
            // A position has components, also along one axis.
            (_, None, None) if record == "position" => Components::Each(vec![(0, own().0, own().1)]),
            (_, Some(axis), _) => Components::Each(vec![(axis, own().0, own().1)]),
            _ => Components::One(own()),
        };
        // Of components in several units each is by itself.
        let is_apart = all.iter().any(|r| r.name == record && r.units != of.units);
        let name = if axis.is_none() || is_apart { path } else { record };
        let other = all.iter().position(|r| r.name == name && r.units == of.units);
        if let (Components::Each(new), Some(at)) = (&new, other)
            && let Components::Each(each) = &mut all[at].components
        {
            each.extend(new.iter().cloned());
            continue;
        }
        all.push(Record { name: name.to_owned(), components: new, units: of.units.clone() });
    }
    all
}

/// The type that elements have in a file: half precision, which few readers have, is single there.
pub fn wide(dtype: DType) -> DType {
    if dtype == DType::F16 { DType::F32 } else { dtype }
}

/// Parts of so many particles.
pub fn rows(count: u64) -> Result<Vec<Selection>> {
    Selection::default().slabs(&ArrayMeta::new(DType::F64, Shape::new(&[count])?), PART / 3)
}

/// Reads arrays, or columns of them, part by part, and gives their elements side by side, as elements of `dtype`; where no
/// array is, zeros.
pub fn interleave(
    job: &Exporting,
    step: i64,
    columns: &Columns,
    dtype: DType,
    parts: &[Selection],
    take: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    if parts.len() > 1 {
        // Parts are not compared with the checksums.
        let mut seen = BTreeSet::new();
        for (of, _) in columns.iter().flatten().filter(|(of, _)| seen.insert(&of.name)) {
            job.run.slabs(&of.name, Which::Step(step), &of.meta, &Selection::default(), PART, &mut |_| {
                job.interrupt.check()
            })?;
        }
    }
    let size = dtype.size();
    for part in parts {
        job.interrupt.check()?;
        let mut read: BTreeMap<&str, (Vec<u8>, usize)> = BTreeMap::new();
        for (of, column) in columns.iter().flatten() {
            if read.contains_key(of.name.as_str()) {
                continue;
            }
            let found = job.run.part(&of.name, Which::Step(step), part)?;
            let width = column.and(of.meta.shape.extents().get(1)).map_or(1, |n| *n as usize);
            let bytes = if column.is_some() { found.into_row_major()? } else { found.bytes };
            read.insert(&of.name, (bytes, width));
        }
        let count = |(of, _): &(&DataSet, Option<usize>)| {
            let (bytes, width) = &read[of.name.as_str()];
            bytes.len() / of.meta.dtype.size() / (*width).max(1)
        };
        let n = columns.iter().flatten().map(count).min().unwrap_or(0);
        let mut out = vec![0; n * columns.len() * size];
        for (place, column) in columns.iter().enumerate() {
            let Some((of, column)) = column else { continue };
            let (bytes, width) = &read[of.name.as_str()];
            let own = of.meta.dtype;
            let elements = bytes.chunks_exact(own.size()).skip(column.unwrap_or(0)).step_by((*width).max(1));
            let to = out.chunks_exact_mut(size).skip(place).step_by(columns.len());
            for (from, to) in elements.zip(to) {
                convert(own, from, dtype, to)?;
            }
        }
        take(&out)?;
    }
    Ok(())
}

/// An element in another type of real numbers.
fn convert(own: DType, from: &[u8], dtype: DType, to: &mut [u8]) -> Result<()> {
    if own == dtype {
        to.copy_from_slice(from);
        return Ok(());
    }
    let value = match own.number(from) {
        Number::Int(v) => v as f64,
        Number::Real(v) => v,
        _ => f64::NAN,
    };
    match dtype {
        DType::F64 => to.copy_from_slice(&value.to_le_bytes()),
        DType::F32 => to.copy_from_slice(&(value as f32).to_le_bytes()),
        _ => return Err(Error::internal(format!("{own} is not turned into {dtype}"))),
    }
    Ok(())
}
