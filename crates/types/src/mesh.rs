//! Meshes and species of particles: what an array of a snapshot is to those who read openPMD and VTKHDF.
//!
//! ```text
//!  E_x                   {"mesh": {"name": "E", "component": "x", "spacing": [0.1, 0.2], "origin": [0.0, 0.0]}}
//!  electrons/momentum/x  {"species": {"name": "electrons"}}
//!  electrons/weighting   {"species": {"name": "electrons", "constants": {"mass": {"value": 9.1e-31, "units": "kg"}}}}
//! ```
//!
//! Lists have one number for each axis, as the user indexes; an empty one is not said.

use crate::{ArrayMeta, DType, Error, Number, Result, axes, limits};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An array is a mesh, or a component of one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Mesh {
    /// Its name.
    pub name: String,
    /// Which component of it; empty: the mesh is a scalar.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub component: String,
    /// From one point to the next, along each axis; not said: as the coordinates have it, or 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spacing: Vec<f64>,
    /// Where the first point is; not said: as the coordinates have it, or 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub origin: Vec<f64>,
    /// Where in its cell the component is, from 0 to less than 1 of the spacing; not said: 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub position: Vec<f64>,
}

/// An array belongs to a species of particles: `SPECIES/RECORD` or `SPECIES/RECORD/COMPONENT` is its name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Species {
    /// Its name.
    pub name: String,
    /// Records that are one number for all particles.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub constants: BTreeMap<String, Constant>,
}

/// How the particles of a species lie in the file of a step, whichever rank has them: in the order of a record of theirs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SortBy {
    /// The species.
    pub species: String,
    /// The record, an integer for each particle.
    pub record: String,
}

impl SortBy {
    /// The array of the record.
    pub fn array(&self) -> String {
        format!("{}/{}", self.species, self.record)
    }

    /// The array of the indices that put the particles in that order, where they do not lie so.
    pub fn index(&self) -> String {
        format!("{}/{}", self.species, SortBy::INDEX)
    }

    /// What that array is called in the group of the species.
    pub const INDEX: &str = "order";
}

/// A number with its unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Constant {
    /// The number.
    pub value: f64,
    /// Unit, or empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub units: String,
}

/// Records that are written for all species.
const OURS: [&str; 2] = ["positionOffset", "particlePatches"];
/// Most components of a record that is one array, one for each of its columns.
const COLUMNS: u64 = 3;
/// How far distances of coordinates may be from their mean, as a part of it.
const UNIFORM: f64 = 1e-6;

impl Mesh {
    /// The name of the array of a component.
    pub fn array(&self) -> String {
        match self.component.is_empty() {
            true => self.name.clone(),
            false => format!("{}_{}", self.name, self.component),
        }
    }

    /// Whether two arrays are components of one mesh.
    pub fn goes_with(&self, other: &Mesh) -> bool {
        self.component.is_empty() == other.component.is_empty()
            && self.spacing == other.spacing
            && self.origin == other.origin
    }

    pub(crate) fn check(&self, name: &str, meta: &ArrayMeta, dims: &[String]) -> Result<()> {
        identifier("mesh", &self.name)?;
        if !self.component.is_empty() {
            identifier("component of a mesh", &self.component)?;
        }
        if self.array() != name {
            let text = format!(
                "the component {:?} of the mesh {:?} is the array {:?}",
                self.component,
                self.name,
                self.array()
            );
            return Err(Error::bad(text));
        }
        let n = dims.len();
        if n == 0 || meta.dtype.is_text() {
            return Err(Error::bad(format!(
                "a mesh is an array of numbers with dims, and this one is {meta}"
            )));
        }
        let lists = [("spacing", &self.spacing), ("origin", &self.origin), ("position", &self.position)];
        for (what, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            if list.len() != n {
                return Err(Error::bad(format!(
                    "{what} = {list:?} has {} numbers, and the mesh has {n} axes; give one for each",
                    list.len()
                )));
            }
            if let Some(wrong) = list.iter().find(|v| !v.is_finite()) {
                return Err(Error::bad(format!("{what} = {list:?} has {wrong}; give finite numbers")));
            }
        }
        if self.spacing.iter().any(|v| *v <= 0.0) {
            return Err(Error::bad(format!("spacing = {:?} is not positive everywhere", self.spacing)));
        }
        match self.position.iter().all(|v| (0.0..1.0).contains(v)) {
            true => Ok(()),
            false => Err(Error::bad(format!(
                "position = {:?} leaves the cell: give numbers from 0 to less than 1, as parts of the spacing",
                self.position
            ))),
        }
    }
}

impl Species {
    /// Which record an array is of, and which component of it, if it is one.
    pub fn record<'a>(&self, array: &'a str) -> Option<(&'a str, Option<&'a str>)> {
        let rest = array.strip_prefix(&self.name)?.strip_prefix('/')?;
        Some(match rest.split_once('/') {
            Some((record, component)) => (record, Some(component)),
            None => (rest, None),
        })
    }

    pub(crate) fn check(&self, name: &str, meta: &ArrayMeta, dims: &[String]) -> Result<()> {
        identifier("species", &self.name)?;
        let Some((record, component)) = self.record(name) else {
            return Err(Error::bad(format!(
                "an array of the species {0:?} is called {0}/RECORD or {0}/RECORD/COMPONENT",
                self.name
            )));
        };
        check_record(record)?;
        if let Some(component) = component {
            identifier("component of a record", component)?;
        }
        let extents = axes(meta);
        let fits = match extents {
            [_] => true,
            [_, columns] => component.is_none() && (1..=COLUMNS).contains(columns),
            _ => false,
        };
        if !fits || dims.is_empty() || meta.dtype.is_text() {
            return Err(Error::bad(format!(
                "a record of particles is one number for each, or up to {COLUMNS} side by side, and this is {meta}; give arrays (n,) or (n, {COLUMNS}), with dims"
            )));
        }
        for (record, constant) in &self.constants {
            check_record(record)?;
            if !constant.value.is_finite() || constant.units.len() > limits::UNIT_BYTES {
                return Err(Error::bad(format!(
                    "{record:?} of the species {:?} is {} in {:?}; give a finite number, and a unit of at most {} bytes",
                    self.name,
                    constant.value,
                    constant.units,
                    limits::UNIT_BYTES
                )));
            }
        }
        Ok(())
    }
}

fn check_record(record: &str) -> Result<()> {
    identifier("record of particles", record)?;
    match OURS.contains(&record) {
        true => {
            Err(Error::bad(format!("{record:?} is a record that Forebay writes itself; choose another name")))
        }
        false => Ok(()),
    }
}

/// Readers of openPMD take these names alone.
fn identifier(what: &str, name: &str) -> Result<()> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !name.is_empty() && name.len() <= limits::NAME_BYTES && name.chars().all(is_good) {
        return Ok(());
    }
    Err(Error::bad(format!("{name:?} is no name of a {what}; use letters a to z, digits and _")))
}

/// Where coordinates begin and how far apart they are, from their elements, if they rise and their distances are the
/// same, as exactly as their dtype has it. Texts are nowhere.
pub fn uniform(elements: &[u8], dtype: DType) -> Option<(f64, f64)> {
    if dtype.is_text() {
        return None;
    }
    let real = |element: &[u8]| match dtype.number(element) {
        Number::Int(n) => n as f64,
        Number::Real(n) => n,
        _ => f64::NAN,
    };
    let values: Vec<f64> = elements.chunks_exact(dtype.size()).map(real).collect();
    line(&values, dtype)
}

fn line(values: &[f64], dtype: DType) -> Option<(f64, f64)> {
    let (first, last) = (*values.first()?, *values.last()?);
    if values.len() == 1 {
        return first.is_finite().then_some((first, 1.0));
    }
    let mean = (last - first) / (values.len() - 1) as f64;
    let rounded =
        dtype.mantissa().map_or(0.0, |bits| 2f64.powi(1 - bits as i32)) * first.abs().max(last.abs());
    let near = UNIFORM * mean + rounded;
    let is_uniform = mean.is_finite()
        && mean > 0.0
        && values.windows(2).all(|pair| (pair[1] - pair[0] - mean).abs() <= near);
    is_uniform.then_some((first, mean))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shape;

    fn meta(extents: &[u64]) -> ArrayMeta {
        ArrayMeta::new(DType::F64, Shape::new(extents).unwrap())
    }

    #[test]
    fn a_mesh_that_readers_cannot_take_is_refused_by_name() {
        let dims = ["x".to_owned(), "y".to_owned()];
        let good = Mesh {
            name: "E".into(),
            component: "x".into(),
            spacing: vec![0.1, 0.2],
            position: vec![0.5, 0.0],
            ..Mesh::default()
        };
        let check =
            |mesh: &Mesh, name: &str| mesh.check(name, &meta(&[3, 4]), &dims).map_err(|e| e.to_string());
        assert!(check(&good, "E_x").is_ok());
        let wrong = |change: &dyn Fn(&mut Mesh), text: &str| {
            let mut mesh = good.clone();
            change(&mut mesh);
            let name = mesh.array();
            let error = check(&mesh, &name).unwrap_err();
            assert!(error.contains(text), "{error}");
        };
        wrong(&|m| m.name = "a/b".into(), "\"a/b\" is no name of a mesh");
        wrong(&|m| m.component = "x y".into(), "\"x y\"");
        wrong(&|m| m.spacing = vec![1.0], "has 1 numbers");
        wrong(&|m| m.spacing = vec![1.0, 0.0], "not positive");
        wrong(&|m| m.origin = vec![f64::NAN, 0.0], "NaN");
        wrong(&|m| m.position = vec![1.0, 0.0], "leaves the cell");
        assert!(check(&good, "E").unwrap_err().contains("\"E_x\""));
    }

    #[test]
    fn a_record_of_particles_has_a_name_and_shape_that_readers_take() {
        let dims = ["electrons/particle".to_owned()];
        let species = Species { name: "electrons".into(), ..Species::default() };
        let check = |name: &str, extents: &[u64]| species.check(name, &meta(extents), &dims);
        assert!(check("electrons/position/x", &[5]).is_ok() && check("electrons/position", &[5, 3]).is_ok());
        for (name, extents) in [
            ("position/x", &[5][..]),
            ("electrons/position/x", &[5, 3]),
            ("electrons/position", &[5, 4]),
            ("electrons/position/x/y", &[5]),
            ("electrons/positionOffset", &[5]),
        ] {
            assert!(check(name, extents).is_err(), "{name}");
        }
        assert_eq!(species.record("electrons/position/x"), Some(("position", Some("x"))));
        assert_eq!(species.record("electrons/id"), Some(("id", None)));
        assert_eq!(species.record("electrons2/id"), None);
    }

    #[test]
    fn coordinates_are_uniform_as_far_as_their_dtype_says() {
        let of = |n: usize, f: &dyn Fn(usize) -> f64| (0..n).map(f).collect::<Vec<f64>>();
        let (origin, spacing) = line(&of(1000, &|i| 3.0 + 0.1 * i as f64), DType::F64).unwrap();
        assert!(origin == 3.0 && (spacing - 0.1).abs() < 1e-12);
        let single = of(1000, &|i| f64::from(3.0 + 0.1 * i as f32));
        assert!(line(&single, DType::F32).is_some() && line(&single, DType::F64).is_none());
        assert_eq!(line(&of(5, &|i| (i * i) as f64), DType::F64), None);
        assert_eq!(line(&of(5, &|i| -(i as f64)), DType::F64), None);
        assert_eq!(line(&[1.0, f64::NAN, 3.0], DType::F64), None);
        assert_eq!((line(&[7.0], DType::I32), line(&[], DType::I32)), (Some((7.0, 1.0)), None));
    }
}
