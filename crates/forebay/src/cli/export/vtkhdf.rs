//! One file of VTKHDF over all snapshots, for VTK and ParaView: each grid is an image, each species of particles is points with
//! a vertex each. Components `x`, `y` and `z` on one grid, or of one record, are a vector. VTK's x is the last axis of an
//! array; vectors and points are in the order of these axes, and where they are not `x`, `y` and `z` the name of the block
//! says what they are.

use super::left_out::DECLARE;
use super::species::{self, Columns, Record, SpeciesOf, XYZ};
use super::variables::PART;
use super::{Exporting, LeftOut, variables};
use forebay::{DType, DataSet, Kept, Result, Selection, Which};
use forebay_store::stepfile::{
    Along, Grid, VtkImage, VtkSeries, grid_of_mesh, is_extent_of_vtk, is_number_of_vtk, vtk_axes, vtk_frame,
};
use forebay_types::{axes, axis_path};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A mesh that is on the same grid at all snapshots.
struct MeshOf {
    of: DataSet,
    image: VtkImage,
    /// Which snapshots have it.
    there: Vec<bool>,
}

/// An array of VTK's on an image: of one mesh, or of its components along x, y and z.
struct OnImage {
    name: String,
    parts: Vec<(Option<usize>, MeshOf)>,
}

/// Writes it.
pub fn write(job: &Exporting, path: &Path) -> Result<Value> {
    let snapshots = job.run.snapshots()?;
    let steps = job.choice.steps(job.run, job.place)?;
    let kept = steps.iter().map(|step| snapshots.at(*step)).collect::<Result<Vec<Kept>>>()?;
    let mut left = LeftOut::default();
    let arrays = variables::over(job, &steps)?;
    let meshes = meshes(job, &kept, &arrays, &mut left)?;
    let species = species::chosen(job, &kept, &mut left)?;
    for one in &species {
        for number in one.constants.keys() {
            left.add("one number for all particles", &format!("{}/{number}", one.name));
        }
    }
    for name in arrays.keys() {
        let is_in = meshes.iter().any(|m| m.of.name == *name) || species.iter().any(|s| s.has(name));
        let mut axes = meshes.iter().flat_map(|m| m.of.dims.iter().map(|dim| axis_path(&m.of.name, dim)));
        if !is_in && !axes.any(|axis| axis == *name) && !left.has(name) {
            left.add("neither a mesh nor particles", name);
        }
    }
    let mut blocks: Vec<(VtkImage, Vec<OnImage>)> = Vec::new();
    for on in vectors(meshes) {
        let image = on.parts[0].1.image.clone();
        match blocks.iter_mut().find(|(other, _)| *other == image) {
            Some((_, all)) => all.push(on),
            None => blocks.push((image, vec![on])),
        }
    }
    if blocks.is_empty() && species.is_empty() {
        return Err(left.nothing(job, "mesh or particles, of which VTKHDF is made", DECLARE));
    }
    let times = times(&kept);
    let frame = vtk_frame(blocks.iter().map(|(image, _)| image));
    let is_turned = !blocks.is_empty() && frame.is_none();
    let labels = frame.map_or_else(vtk_axes, <[String]>::to_vec);
    let mut file = VtkSeries::create(path, times, blocks.len() + species.len())?;
    let mut writing = Writing { job, steps: &steps, done: 0, total: kept.iter().map(Kept::nbytes).sum() };
    let mut count = 0;
    for (image, arrays) in &blocks {
        let first = &arrays[0].name;
        let block = file.image(image.name(first, is_turned), image, is_turned)?;
        for on in arrays {
            count += 1;
            writing.on_image(&mut file, &block, on, &labels)?;
        }
    }
    for one in &species {
        count += writing.points(&mut file, one, &labels)?;
    }
    file.finish()?;
    Ok(json!({"arrays": count, "steps": steps.len(), "left_out": left.names(), "note": left.note()}))
}

/// The times of snapshots, or their numbers where one has none.
fn times(kept: &[Kept]) -> Vec<f64> {
    let times: Option<Vec<f64>> = kept.iter().map(Kept::time).collect();
    times.unwrap_or_else(|| kept.iter().map(|kept| kept.step() as f64).collect())
}

/// The meshes that are chosen and that VTK has an image for.
fn meshes(
    job: &Exporting,
    kept: &[Kept],
    arrays: &BTreeMap<String, Vec<Option<forebay::ArrayMeta>>>,
    left: &mut LeftOut,
) -> Result<Vec<MeshOf>> {
    let mut found = Vec::new();
    for (name, metas) in arrays {
        let Some(first) = metas.iter().position(Option::is_some) else { continue };
        let of = kept[first].dataset(name)?;
        if of.mesh.is_none() {
            continue;
        }
        let there: Vec<bool> = metas.iter().map(Option::is_some).collect();
        let mut grid: Option<Grid> = None;
        let mut why = None;
        if !is_number_of_vtk(of.meta.dtype) {
            why = Some("VTK has no type for its elements");
        } else if !is_extent_of_vtk(axes(&of.meta)) {
            why = Some("VTK has images of up to three axes with more than one point each");
        } else if metas.iter().flatten().any(|meta| *meta != of.meta) {
            why = Some("its shape differs from snapshot to snapshot");
        } else if !there.iter().all(|t| *t) && of.meta.dtype.nan().is_none() {
            why = Some("not every snapshot has it, and its type has no NaN to stand there");
        } else {
            for kept in kept.iter().zip(&there).filter(|(_, there)| **there).map(|(kept, _)| kept) {
                match grid_at(job, kept, name)? {
                    None => why = Some("its points are not equally far apart"),
                    Some(one) if *grid.get_or_insert_with(|| one.clone()) != one => {
                        why = Some("its points lie elsewhere from snapshot to snapshot");
                    }
                    Some(_) => {}
                }
                job.interrupt.check()?;
            }
        }
        match (why, grid) {
            (None, Some(grid)) => {
                let position = of.mesh.as_ref().map_or(&[][..], |mesh| &mesh.position);
                let image = VtkImage::of(&of.meta, &of.dims, &grid, position);
                found.push(MeshOf { of, image, there });
            }
            (why, _) => left.add(why.unwrap_or("its points are not known"), name),
        }
    }
    Ok(found)
}

/// Where the points of a mesh are at a snapshot.
fn grid_at(job: &Exporting, kept: &Kept, name: &str) -> Result<Option<Grid>> {
    let of = kept.dataset(name)?;
    let names: BTreeSet<String> = kept.names()?.into_iter().collect();
    let Some(mesh) = &of.mesh else { return Ok(None) };
    let coordinate = &mut |path: &str, extent: u64, is_wanted: bool| -> Result<Option<Along>> {
        if !names.contains(path) {
            return Ok(None);
        }
        let c = kept.dataset(path)?;
        if axes(&c.meta) != [extent] || c.mesh.is_some() {
            return Ok(None);
        }
        let points = match is_wanted {
            true => {
                let bytes = job.run.part(path, Which::Step(kept.step()), &Selection::default())?.bytes;
                forebay_types::uniform(&bytes, c.meta.dtype)
            }
            false => None,
        };
        Ok(Some(Along { units: c.units, points }))
    };
    grid_of_mesh(name, &of.meta, &of.dims, mesh, coordinate)
}

/// Components that go together are one array.
fn vectors(meshes: Vec<MeshOf>) -> Vec<OnImage> {
    let mut all: Vec<OnImage> = Vec::new();
    for mesh in meshes {
        let said = mesh.of.mesh.clone().unwrap_or_default();
        let component = XYZ.iter().position(|name| *name == said.component);
        let alike = |(_, other): &(Option<usize>, MeshOf)| {
            (other.of.meta, &other.image, &other.of.units, &other.there)
                == (mesh.of.meta, &mesh.image, &mesh.of.units, &mesh.there)
        };
        let whole = all.iter().position(|on| on.name == said.name && on.parts.iter().all(alike));
        match (component, whole) {
            (Some(_), Some(at)) => all[at].parts.push((component, mesh)),
            (Some(_), None) if all.iter().all(|on| on.name != said.name) => {
                all.push(OnImage { name: said.name, parts: vec![(component, mesh)] });
            }
            _ => all.push(OnImage { name: mesh.of.name.clone(), parts: vec![(None, mesh)] }),
        }
    }
    // One component is no vector.
    for on in all.iter_mut().filter(|on| on.parts.len() == 1) {
        on.name = on.parts[0].1.of.name.clone();
        on.parts[0].0 = None;
    }
    all
}

/// At which of VTK's axes each of x, y and z is, for axes that are called so.
fn places(labels: &[String]) -> [usize; 3] {
    let at = |name: &str| labels.iter().position(|label| label == name);
    if !labels.iter().all(|label| XYZ.contains(&label.as_str())) {
        return [0, 1, 2];
    }
    let mut left = (0..3).filter(|axis| labels.get(*axis).is_none());
    XYZ.map(|name| at(name).or_else(|| left.next()).unwrap_or_default())
}

struct Writing<'a, 'b> {
    job: &'a Exporting<'b>,
    steps: &'a [i64],
    done: u64,
    total: u64,
}

impl Writing<'_, '_> {
    fn said(&mut self, bytes: u64) -> Result<()> {
        self.done += bytes;
        (self.job.progress)(self.done, self.total.max(self.done));
        self.job.interrupt.check()
    }

    fn on_image(
        &mut self,
        file: &mut VtkSeries,
        block: &forebay_store::stepfile::VtkBlock,
        on: &OnImage,
        labels: &[String],
    ) -> Result<()> {
        let first = &on.parts[0].1;
        let dtype = species::wide(first.of.meta.dtype);
        let is_vector = on.parts[0].0.is_some();
        let set = file.array(block, &on.name, dtype, if is_vector { 3 } else { 1 }, &first.of.units)?;
        let places = places(labels);
        let mut columns: Columns = vec![None; if is_vector { 3 } else { 1 }];
        for (component, mesh) in &on.parts {
            columns[component.map_or(0, |c| places[c])] = Some((&mesh.of, None));
        }
        let parts = Selection::default().slabs(&first.of.meta, PART)?;
        let mut at = 0;
        for (step, there) in self.steps.iter().zip(&first.there) {
            if !there {
                let bytes = first.of.meta.shape.len() * (columns.len() * dtype.size()) as u64;
                variables::nan(dtype, bytes, &mut |bytes| {
                    file.write(set, at, bytes)?;
                    at += bytes.len() as u64;
                    self.job.interrupt.check()
                })?;
                continue;
            }
            at = self.side_by_side(file, (set, at), *step, &columns, dtype, &parts)?;
        }
        Ok(())
    }

    /// Writes elements side by side, from a byte of an array on; gives where they end.
    fn side_by_side(
        &mut self,
        file: &VtkSeries,
        (set, from): (usize, u64),
        step: i64,
        columns: &Columns,
        dtype: DType,
        parts: &[Selection],
    ) -> Result<u64> {
        let mut at = from;
        species::interleave(self.job, step, columns, dtype, parts, &mut |bytes| {
            file.write(set, at, bytes)?;
            at += bytes.len() as u64;
            self.said(bytes.len() as u64)
        })?;
        Ok(at)
    }

    /// Writes the points of a species and what they have; how many arrays that are.
    fn points(&mut self, file: &mut VtkSeries, one: &SpeciesOf, labels: &[String]) -> Result<usize> {
        let position = one.position();
        let dtype = position.components.dtype();
        let (block, set) = file.points(one.name.clone(), &one.counts, dtype, &position.units)?;
        self.record(file, one, position, set, dtype, labels)?;
        let mut count = 1;
        for record in one.records.iter().filter(|record| record.name != "position") {
            let dtype = record.components.dtype();
            let components = if record.is_vector() { 3 } else { 1 };
            let set = file.array(&block, &record.key(), dtype, components, &record.units)?;
            self.record(file, one, record, set, dtype, labels)?;
            count += 1;
        }
        Ok(count)
    }

    fn record(
        &mut self,
        file: &VtkSeries,
        one: &SpeciesOf,
        record: &Record,
        set: usize,
        dtype: DType,
        labels: &[String],
    ) -> Result<()> {
        let places = places(labels);
        let mut at = 0;
        for (step, count) in self.steps.iter().zip(&one.counts).filter(|(_, count)| **count > 0) {
            let of = record.components.at(self.job, *step)?;
            let columns = record.components.columns(&of, 3, |component| places[component]);
            let parts = species::rows(*count)?;
            at = self.side_by_side(file, (set, at), *step, &columns, dtype, &parts)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_have_their_components_in_the_order_of_the_axes() {
        let of = |labels: &[&str]| places(&labels.iter().map(|l| l.to_string()).collect::<Vec<_>>());
        assert_eq!(of(&["x", "y", "z"]), [0, 1, 2]);
        assert_eq!(of(&["z", "y", "x"]), [2, 1, 0]);
        assert_eq!(of(&["y", "x"]), [1, 0, 2]);
        assert_eq!(of(&["z"]), [1, 2, 0]);
        assert_eq!(of(&["r", "z"]), [0, 1, 2]);
    }
}
