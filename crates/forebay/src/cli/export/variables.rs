//! What the formats of arrays get of a run: each array once, over all its snapshots where they are alike.
//!
//! ```text
//!  snapshots 0, 10, 20 with E (4, 8)     ->  E      (3, 4, 8)   step 0, 10, 20
//!  and x (5,), x (6,), x (7,)            ->  x@0 (5,)   x@10 (6,)   x@20 (7,)
//!  a data set wave outside snapshots     ->  wave
//!  a mesh with spacing and origin        ->  rho, and x and y: where its points are
//! ```

use super::super::choice::{Choice, names_in_snapshots};
use super::super::interrupt::Interrupt;
use super::Exporting;
use forebay::{ArrayMeta, DType, DataSet, Mesh, Number, Order, Result, Run, Selection, Shape, Which};
use forebay_store::SeriesStep;
use forebay_types::{axes, axis_path};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of an array that are in memory at a time.
pub const PART: u64 = 8 << 20;

/// Names that the axis of time has for itself.
pub const STEP: &str = "step";
/// The times of snapshots.
pub const TIME: &str = "time";

/// Where the elements of a variable come from.
pub enum Origin {
    /// One array.
    One(Which),
    /// One array of each of these snapshots; none: it has no such array, and NaN stands for it.
    Steps(Vec<Option<i64>>),
    /// Points of a mesh along one of its axes: the first one, and the distance from one to the next.
    Points(f64, f64),
}

/// An array as it is exported.
pub struct Variable {
    /// What it is called there.
    pub key: String,
    /// Its description in the run, at the first snapshot that has it.
    pub of: DataSet,
    /// Where its elements come from.
    pub origin: Origin,
}

/// All that is exported.
pub struct Variables {
    /// Numbers of the snapshots.
    pub steps: Vec<i64>,
    /// The time of each; NaN where none was given.
    pub times: Vec<f64>,
    /// The arrays.
    pub all: Vec<Variable>,
    /// Names of arrays that are not alike at all snapshots, and come one by one.
    pub ragged: Vec<String>,
}

impl Variable {
    /// Row-major extents of the whole.
    pub fn meta(&self) -> Result<ArrayMeta> {
        let mut extents = self.of.meta.shape.extents().to_vec();
        if let Origin::Steps(steps) = &self.origin {
            extents.insert(0, steps.len() as u64);
        }
        Ok(ArrayMeta { dtype: self.of.meta.dtype, shape: Shape::new(&extents)?, order: Order::C })
    }

    /// How many arrays it is made of.
    pub fn count(&self) -> usize {
        match &self.origin {
            Origin::One(_) | Origin::Points(..) => 1,
            Origin::Steps(steps) => steps.len(),
        }
    }

    /// Reads the n-th of its arrays, row-major, a part at a time.
    pub fn read(
        &self,
        run: &Run,
        n: usize,
        interrupt: &Interrupt,
        take: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let which = match &self.origin {
            Origin::One(which) => *which,
            Origin::Steps(steps) => match steps[n] {
                Some(step) => Which::Step(step),
                None => {
                    return nan(self.of.meta.dtype, self.of.nbytes, &mut |bytes| {
                        interrupt.check()?;
                        take(bytes)
                    });
                }
            },
            Origin::Points(first, apart) => {
                let count = self.of.nbytes / 8;
                for from in (0..count).step_by(PART as usize / 8) {
                    interrupt.check()?;
                    let part = from..count.min(from + PART / 8);
                    let bytes: Vec<u8> =
                        part.flat_map(|n| (first + n as f64 * apart).to_le_bytes()).collect();
                    take(&bytes)?;
                }
                return Ok(());
            }
        };
        run.slabs_row_major(&self.of.name, which, &self.of.meta, PART, &mut |bytes| {
            interrupt.check()?;
            take(bytes)
        })
    }
}

/// So many bytes of the number that is none, a part at a time.
pub fn nan(dtype: DType, bytes: u64, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let Some(nan) = dtype.nan() else { return Ok(()) };
    let each = nan.len() as u64;
    let part = nan.repeat((PART / each).min(bytes / each) as usize);
    let mut left = bytes;
    while left > 0 {
        let now = left.min(part.len() as u64);
        take(&part[..now as usize])?;
        left -= now;
    }
    Ok(())
}

impl Variables {
    /// What is chosen of a run.
    pub fn of(run: &Run, place: &str, choice: &Choice) -> Result<Variables> {
        let steps = choice.steps(run, place)?;
        let snapshots = run.snapshots()?;
        let mut found = Variables { times: Vec::new(), steps, all: Vec::new(), ragged: Vec::new() };
        for step in &found.steps {
            found.times.push(snapshots.at(*step)?.time().unwrap_or(f64::NAN));
        }
        let mut taken: BTreeSet<String> = [STEP.to_owned(), TIME.to_owned()].into();
        let chosen = Found::chosen(run, choice, &found.steps)?;
        let coordinates: BTreeSet<String> = chosen.iter().flat_map(Found::coordinates).collect();
        for array in chosen {
            let is_coordinate = coordinates.contains(&array.of.name);
            found.add_array(run, array, is_coordinate, &mut taken)?;
        }
        if choice.outside() {
            for of in run.list("*", None)?.into_iter().filter(|d| choice.takes(&d.name)) {
                let key = match of.set {
                    0 if !meets(&taken, &of.name) => of.name.clone(),
                    // What is an array is no group.
                    set if meets(&taken, &format!("{}@set{set}", of.name)) => {
                        format!("{}@set{set}", of.name.replace('/', "."))
                    }
                    set => format!("{}@set{set}", of.name),
                };
                taken.insert(key.clone());
                found.all.push(Variable { key, origin: Origin::One(Which::Set(of.set)), of });
            }
        }
        match found.all.is_empty() {
            true => Err(choice.nothing(place)),
            false => Ok(found),
        }
    }

    fn add_array(
        &mut self,
        run: &Run,
        array: Found,
        is_coordinate: bool,
        taken: &mut BTreeSet<String>,
    ) -> Result<()> {
        let Found { mut of, first, over } = array;
        let name = of.name.clone();
        if is_coordinate && of.dims.is_empty() && axes(&of.meta).len() == 1 {
            of.dims = vec![name[group_of(&name).len()..].to_owned()];
        }
        let has_nan = of.meta.dtype.nan().is_some();
        // One array has one unit.
        let is_alike = |s: &SeriesStep| s.meta.map_or(has_nan, |meta| meta == of.meta && s.units == of.units);
        if over.iter().all(is_alike) {
            // A coordinate that is the same everywhere has no axis of time, or nobody would take it for one.
            if is_coordinate && !taken.contains(&name) && is_constant(run, &of, &over)? {
                taken.insert(name.clone());
                self.all.push(Variable { key: name, of, origin: Origin::One(Which::Step(first)) });
                return Ok(());
            }
            let origin = Origin::Steps(over.iter().map(|s| s.meta.map(|_| s.step)).collect());
            let is_free = !is_coordinate && !taken.contains(&name);
            let key = if is_free { name } else { format!("{name}@steps") };
            taken.insert(key.clone());
            self.all.push(Variable { key, of, origin });
            return Ok(());
        }
        let snapshots = run.snapshots()?;
        self.ragged.push(name.clone());
        for step in over.iter().filter(|s| s.meta.is_some()).map(|s| s.step) {
            let key = format!("{name}@{step}");
            taken.insert(key.clone());
            let of = snapshots.at(step)?.dataset(&name)?;
            self.all.push(Variable { key, of, origin: Origin::One(Which::Step(step)) });
        }
        Ok(())
    }

    /// Adds where the points of meshes are: the coordinates of their axes that no array gives. Where a mesh lies elsewhere
    /// from snapshot to snapshot, or two of them share an axis and differ, there is none.
    pub fn add_points(&mut self, run: &Run) -> Result<()> {
        let snapshots = run.snapshots()?;
        let mut found: BTreeMap<String, Option<(u64, f64, f64)>> = BTreeMap::new();
        for variable in &self.all {
            let said = |mesh: &Mesh| !mesh.spacing.is_empty() || !mesh.origin.is_empty();
            let Some(mesh) = variable.of.mesh.as_ref().filter(|mesh| said(mesh)) else { continue };
            let mut stays = true;
            if let Origin::Steps(steps) = &variable.origin {
                for step in steps.iter().flatten() {
                    let there = snapshots.at(*step)?.dataset(&variable.of.name)?.mesh;
                    stays &= there.is_some_and(|m| (&m.spacing, &m.origin) == (&mesh.spacing, &mesh.origin));
                }
            }
            for (axis, (dim, extent)) in variable.of.dims.iter().zip(axes(&variable.of.meta)).enumerate() {
                let at = |list: &[f64], usual| list.get(axis).copied().unwrap_or(usual);
                let line = (*extent, at(&mesh.origin, 0.0), at(&mesh.spacing, 1.0));
                let known = found.entry(axis_path(&variable.key, dim)).or_insert(Some(line));
                if !stays || *known != Some(line) {
                    *known = None;
                }
            }
        }
        let mut taken: BTreeSet<String> = self.all.iter().map(|v| v.key.clone()).collect();
        taken.extend([STEP.to_owned(), TIME.to_owned()]);
        for (key, line) in found {
            let Some((extent, first, apart)) = line.filter(|_| !meets(&taken, &key)) else { continue };
            let meta = ArrayMeta::new(DType::F64, Shape::new(&[extent])?);
            let dims = vec![key[group_of(&key).len()..].to_owned()];
            let of = DataSet {
                name: key.clone(),
                set: 0,
                nbytes: meta.bytes()?,
                meta,
                units: String::new(),
                attrs: Default::default(),
                dims,
                mesh: None,
                species: None,
                version: 0,
                stats: None,
            };
            taken.insert(key.clone());
            self.all.push(Variable { key, of, origin: Origin::Points(first, apart) });
        }
        Ok(())
    }

    /// The attributes of an array: its own, where in its cell a mesh is, and that its snapshots have times.
    pub fn attributes(&self, variable: &Variable) -> Map<String, Value> {
        let mut attrs = variable.of.attrs.clone();
        if let Some(mesh) = variable.of.mesh.as_ref().filter(|mesh| !mesh.position.is_empty()) {
            attrs.entry("position").or_insert_with(|| json!(mesh.position));
        }
        if matches!(variable.origin, Origin::Steps(_)) {
            // As CF has it: a coordinate that is not called as its axis is named.
            attrs.entry("coordinates").or_insert_with(|| json!(TIME));
        }
        attrs
    }

    /// What the axes of each array are called: as the array names them, else by their length. In one group an axis of one
    /// name has one length, and the array of that name, if there is one, is its coordinate.
    pub fn axes(&self) -> Result<Vec<Vec<String>>> {
        let mut known: BTreeMap<(String, String), u64> = BTreeMap::new();
        let arrays: BTreeMap<&str, &Variable> = self.all.iter().map(|v| (v.key.as_str(), v)).collect();
        let mut all = Vec::new();
        for variable in &self.all {
            let group = group_of(&variable.key);
            let has_steps = matches!(variable.origin, Origin::Steps(_));
            let mut dims: Vec<String> = Vec::new();
            for (axis, extent) in variable.meta()?.shape.extents().iter().enumerate() {
                if axis == 0 && has_steps {
                    dims.push(STEP.to_owned());
                    continue;
                }
                let given = variable.of.dims.get(axis - usize::from(has_steps));
                let name = given.filter(|dim| **dim != STEP && **dim != TIME).cloned();
                let name = name.unwrap_or_else(|| format!("size_{extent}"));
                let is_free = |dim: &String| {
                    let path = format!("{group}{dim}");
                    // The letters of texts are no axis.
                    let is_coordinate = |v: &&Variable| v.meta().is_ok_and(|m| axes(&m) == [*extent]);
                    let length = known.get(&(group.to_owned(), dim.clone()));
                    !dims.contains(dim)
                        && length.is_none_or(|n| n == extent)
                        && arrays.get(path.as_str()).is_none_or(is_coordinate)
                };
                let others = (2..).map(|nth| format!("{name}_{nth}"));
                let dim = std::iter::once(name.clone()).chain(others).find(is_free).unwrap_or_default();
                known.insert((group.to_owned(), dim.clone()), *extent);
                dims.push(dim);
            }
            all.push(dims);
        }
        Ok(all)
    }

    /// Bytes of all elements.
    pub fn nbytes(&self) -> u64 {
        self.all.iter().map(|v| v.of.nbytes.saturating_mul(v.count() as u64)).sum()
    }

    /// The coordinates of the axis of time: name, and elements of 8 bytes.
    pub fn time_axis(&self) -> [(&'static str, forebay::DType, Vec<u8>); 2] {
        let steps = self.steps.iter().flat_map(|v| v.to_le_bytes()).collect();
        let times = self.times.iter().flat_map(|v| v.to_le_bytes()).collect();
        [(STEP, forebay::DType::I64, steps), (TIME, forebay::DType::F64, times)]
    }

    /// Whether an axis of time is needed.
    pub fn has_steps(&self) -> bool {
        self.all.iter().any(|v| matches!(v.origin, Origin::Steps(_)))
    }
}

/// Whether a name is taken, or what would be a group is.
fn meets(taken: &BTreeSet<String>, name: &str) -> bool {
    let within = format!("{name}/");
    let has_some = || taken.range(within.clone()..).next().is_some_and(|other| other.starts_with(&within));
    taken.contains(name) || name.match_indices('/').any(|(at, _)| taken.contains(&name[..at])) || has_some()
}

/// What stands in front of the last part of a name, with its slash.
pub fn group_of(key: &str) -> &str {
    key.rfind('/').map_or("", |at| &key[..=at])
}

/// What each of the arrays that are chosen is at each of these snapshots.
pub fn over(job: &Exporting, steps: &[i64]) -> Result<BTreeMap<String, Vec<Option<ArrayMeta>>>> {
    let mut found = BTreeMap::new();
    for name in names_in_snapshots(job.run)?.into_iter().filter(|name| job.choice.takes(name)) {
        let over = job.run.over_steps(&name, steps)?;
        if over.iter().any(|s| s.meta.is_some()) {
            found.insert(name, over.into_iter().map(|s| s.meta).collect());
        }
    }
    Ok(found)
}

/// Numbers of half precision in single precision.
pub fn widened(bytes: &[u8]) -> Vec<u8> {
    let wide = |two: &[u8]| match DType::F16.number(two) {
        Number::Real(v) => (v as f32).to_le_bytes(),
        _ => [0; 4],
    };
    bytes.chunks_exact(2).flat_map(wide).collect()
}

/// An array of snapshots: what it is at the first one that has it, and at each.
struct Found {
    of: DataSet,
    first: i64,
    over: Vec<SeriesStep>,
}

impl Found {
    /// Those that are chosen, with the coordinates of their axes.
    fn chosen(run: &Run, choice: &Choice, steps: &[i64]) -> Result<Vec<Found>> {
        let mut names = if steps.is_empty() { Vec::new() } else { names_in_snapshots(run)? };
        let mut found: Vec<Found> = Vec::new();
        for name in names.extract_if(.., |name| choice.takes(name)) {
            found.extend(Found::of(run, &name, steps)?);
        }
        let coordinates: BTreeSet<String> = found.iter().flat_map(Found::coordinates).collect();
        for name in names.iter().filter(|name| coordinates.contains(*name)) {
            found.extend(Found::of(run, name, steps)?);
        }
        found.sort_by(|a, b| a.of.name.cmp(&b.of.name));
        Ok(found)
    }

    fn of(run: &Run, name: &str, steps: &[i64]) -> Result<Option<Found>> {
        let over = run.over_steps(name, steps)?;
        let Some(first) = over.iter().find(|s| s.meta.is_some()).map(|s| s.step) else { return Ok(None) };
        let of = run.snapshots()?.at(first)?.dataset(name)?;
        Ok(Some(Found { of, first, over }))
    }

    /// Where the coordinates of its axes are, if there are such.
    fn coordinates(&self) -> Vec<String> {
        self.of.dims.iter().map(|dim| format!("{}{dim}", group_of(&self.of.name))).collect()
    }
}

/// Whether an array has the same elements at all steps.
fn is_constant(run: &Run, of: &DataSet, over: &[SeriesStep]) -> Result<bool> {
    let mut first = None;
    for step in over {
        if step.meta.is_none() {
            return Ok(false);
        }
        let bytes = run.part(&of.name, Which::Step(step.step), &Selection::default())?.bytes;
        if first.get_or_insert_with(|| bytes.clone()) != &bytes {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_when_it_is_there_or_would_be_a_group_of_it() {
        let taken: BTreeSet<String> = ["E", "a/b"].map(str::to_owned).into();
        let found = ["E", "E/x", "Ex", "a", "a/c", "a/b"].map(|name| meets(&taken, name));
        assert_eq!(found, [true, true, false, true, false, true]);
    }
}
