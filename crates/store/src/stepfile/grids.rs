//! Where the points of meshes lie: as their programs have said, or as the coordinates of the step have it.

use super::{Check, Entry, Manifest, Source, read_selection};
use forebay_types::{ArrayMeta, Error, Mesh, Result, Selection, Unit, axes, axis_path, uniform};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

/// The grid of a mesh; a number for each axis, as the user indexes.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// From one point to the next.
    pub spacing: Vec<f64>,
    /// Where the first point is.
    pub origin: Vec<f64>,
    /// So many metres are 1 of these.
    pub unit: f64,
}

/// The grids of the meshes of a step whose points are equally far apart along each axis, by the names of their arrays.
/// What is not said is read from the coordinates in the file.
pub(super) fn grids(path: &Path, m: &Manifest) -> Result<BTreeMap<String, Grid>> {
    let mut found = BTreeMap::new();
    if m.data.iter().all(|e| e.about.mesh.is_none()) {
        return Ok(found);
    }
    let file = File::open(path).map_err(|e| Error::io(format!("cannot read {}", path.display()), e))?;
    let entries: BTreeMap<&str, &Entry> = m.data.iter().map(|e| (e.name.as_str(), e)).collect();
    // Meshes share coordinates.
    let mut known: BTreeMap<&str, Option<(f64, f64)>> = BTreeMap::new();
    for e in &m.data {
        let Some(mesh) = e.about.mesh.as_ref().filter(|_| is_sound(e)) else { continue };
        let coordinate = &mut |path: &str, extent: u64, is_wanted: bool| -> Result<Option<Along>> {
            let found = entries.get(path).copied();
            // A mesh that is called as its axis is no coordinate of itself.
            let found = found.filter(|c| axes(&c.meta) == [extent] && c.about.mesh.is_none());
            let Some(c) = found else { return Ok(None) };
            let points = match known.get(c.name.as_str()) {
                Some(points) => *points,
                None if !is_wanted => None,
                None => *known.entry(&c.name).or_insert(line(&file, c)?),
            };
            Ok(Some(Along { units: c.units.clone(), points }))
        };
        found.extend(grid(&e.name, &e.meta, &e.about.dims, mesh, coordinate)?.map(|g| (e.name.clone(), g)));
    }
    Ok(found)
}

/// A coordinate along an axis.
pub struct Along {
    /// Its unit, or empty.
    pub units: String,
    /// Where it begins and how far its points are apart, if they are equally far apart, and that was wanted.
    pub points: Option<(f64, f64)>,
}

/// The coordinate of that path and that many points, if there is one; whether its points are wanted.
pub type FindAlong<'a> = dyn FnMut(&str, u64, bool) -> Result<Option<Along>> + 'a;

/// The grid of a mesh, if its points are equally far apart along each axis.
pub fn grid(
    name: &str,
    meta: &ArrayMeta,
    dims: &[String],
    mesh: &Mesh,
    coordinate: &mut FindAlong,
) -> Result<Option<Grid>> {
    let mut grid = Grid { spacing: mesh.spacing.clone(), origin: mesh.origin.clone(), unit: 1.0 };
    let mut units = Vec::new();
    let mut is_uniform = true;
    let is_wanted = mesh.spacing.is_empty() || mesh.origin.is_empty();
    for (dim, extent) in dims.iter().zip(axes(meta)) {
        let found = coordinate(&axis_path(name, dim), *extent, is_wanted)?;
        let points = found.as_ref().map_or(Some((0.0, 1.0)), |along| along.points);
        units.extend(found.map(|along| along.units).filter(|units| !units.is_empty()));
        if !is_wanted {
            continue;
        }
        is_uniform &= points.is_some() || !mesh.spacing.is_empty();
        let (origin, spacing) = points.unwrap_or((0.0, 1.0));
        if mesh.spacing.is_empty() {
            grid.spacing.push(spacing);
        }
        if mesh.origin.is_empty() {
            grid.origin.push(origin);
        }
    }
    let lengths: Option<Vec<f64>> =
        units.iter().map(|u| Unit::parse(u).ok().filter(Unit::is_length).map(|u| u.factor)).collect();
    if let Some([first, rest @ ..]) = lengths.as_deref()
        && rest.iter().all(|other| other == first)
    {
        grid.unit = *first;
    }
    Ok(is_uniform.then_some(grid))
}

/// Whether what an array says of itself fits it: a file may come from anywhere.
pub(super) fn is_sound(e: &Entry) -> bool {
    e.about.check(&e.name, &e.meta).is_ok()
}

/// Where coordinates begin and how far apart they are, if they are equally far apart.
fn line(file: &File, e: &Entry) -> Result<Option<(f64, f64)>> {
    let dtype = e.meta.dtype;
    if dtype.is_text() {
        return Ok(None);
    }
    let source = Source::of(file, &e.meta, &e.pieces, e.offset)?;
    let (_, bytes) = read_selection(&source, &e.meta, &Selection::default(), &mut Check::default())?;
    Ok(uniform(&bytes, dtype))
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_types::{DType, Description, Shape};

    fn entry(dims: &[&str], spacing: &[f64], origin: &[f64]) -> Entry {
        let mesh =
            Mesh { name: "T".into(), spacing: spacing.to_vec(), origin: origin.to_vec(), ..Mesh::default() };
        let dims = dims.iter().map(|dim| dim.to_string()).collect();
        let about = Description { dims, mesh: Some(mesh), ..Description::default() };
        let meta = ArrayMeta::new(DType::F64, Shape::new(&[2, 3]).unwrap());
        Entry { name: "T".into(), meta, units: String::new(), offset: 0, pieces: Vec::new(), about }
    }

    #[test]
    fn a_grid_is_as_it_is_said_and_one_that_does_not_fit_its_array_is_none() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let of = |e: Entry| {
            let m = Manifest { data: vec![e], ..Manifest::default() };
            grids(file.path(), &m).unwrap().remove("T").map(|grid| (grid.spacing, grid.origin))
        };
        let both = ["x", "y"];
        assert_eq!(of(entry(&both, &[0.5, 2.0], &[])), Some((vec![0.5, 2.0], vec![0.0, 0.0])));
        assert_eq!(of(entry(&both, &[], &[3.0, 4.0])), Some((vec![1.0, 1.0], vec![3.0, 4.0])));
        for wrong in [
            entry(&["x"], &[1.0], &[]),
            entry(&both, &[1.0], &[]),
            entry(&both, &[], &[1.0, 2.0, 3.0]),
            entry(&both, &[0.0, 1.0], &[]),
            entry(&[], &[], &[]),
        ] {
            assert_eq!(of(wrong), None);
        }
    }
}
