//! Meshes and species of particles: what each of their arrays is called, and says of itself. All of it is looked at
//! before the first array is sent.

use std::collections::BTreeMap;

use forebay_types::record::Place;
use forebay_types::{
    ArrayMeta, Constant, DType, Description, Error, Mesh, Number, Result, Shape, SortBy, Species, axes,
};

use super::View;
use super::step::{Allocated, ArrayOptions, StepWriter};

/// What axes of a mesh are called that have no names.
const AXES: [&str; 3] = ["x", "y", "z"];

/// Where the points of a mesh are: a number for each axis; an empty list says nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Grid<'a> {
    /// From one point to the next; as the coordinates have it, or 1.
    pub spacing: &'a [f64],
    /// The first point; as the coordinates have it, or 0.
    pub origin: &'a [f64],
    /// Where in their cells components are that do not say it, from 0 to less than 1 of the spacing; 0.
    pub position: &'a [f64],
}

/// A component of a mesh.
#[derive(Clone, Copy, Debug)]
pub struct Component<'a> {
    /// Its name; empty: the mesh is this one array.
    pub name: &'a str,
    /// Its values.
    pub view: View<'a>,
    /// Where in its cell it is; empty: where the grid says.
    pub position: &'a [f64],
    /// What goes with it.
    pub options: ArrayOptions<'a>,
}

/// A record of particles, or a component of one.
#[derive(Clone, Copy, Debug)]
pub struct ParticleRecord<'a> {
    /// Its name, such as `position`.
    pub name: &'a str,
    /// Which component it is; empty: the whole record.
    pub component: &'a str,
    /// One number for each particle, of a whole record also up to three side by side, or one number for all.
    pub view: View<'a>,
    /// What goes with it. A block has one offset and one extent, of particles.
    pub options: ArrayOptions<'a>,
}

/// An array on its way into the snapshot.
struct Made {
    name: String,
    description: Description,
}

impl Made {
    fn options<'a>(&'a self, given: &ArrayOptions<'a>) -> ArrayOptions<'a> {
        given.saying(&self.description)
    }
}

impl StepWriter {
    /// Copies a field on a regular mesh into the snapshot: one array, or one for each component. The component `x` of `E`
    /// is the array `E_x`. Without names the axes are `x`, `y` and `z`.
    pub fn mesh(&self, name: &str, grid: &Grid, components: &[Component]) -> Result<()> {
        let Some(first) = components.first() else {
            return Err(Error::bad(format!("the mesh {name:?} has no components; give an array for each")));
        };
        let shape = |c: &Component| c.view.meta().shape;
        if let Some(other) = components.iter().find(|c| shape(c) != shape(first)) {
            return Err(Error::bad(format!(
                "the components {:?} and {:?} of the mesh {name:?} have the shapes {} and {}; give arrays of one shape, and say by position where in their cells they are",
                first.name,
                other.name,
                shape(first),
                shape(other)
            )));
        }
        let of = |c: &Component| {
            let position = if c.position.is_empty() { grid.position } else { c.position };
            component(name, c.name, c.view.meta(), &Grid { position, ..*grid }, &c.options)
        };
        let made = components.iter().map(of).collect::<Result<Vec<_>>>()?;
        components
            .iter()
            .zip(&made)
            .try_for_each(|(c, made)| self.put(&made.name, c.view, made.options(&c.options)))
    }

    /// A place in the arena for a component of a mesh, or, where that is empty, for a mesh that is one array.
    pub fn allocate_mesh(
        &self,
        name: &str,
        component_name: &str,
        meta: ArrayMeta,
        grid: &Grid,
        options: &ArrayOptions,
    ) -> Result<Allocated> {
        let made = component(name, component_name, &meta, grid, options)?;
        self.allocate(&made.name, meta, made.options(options))
    }

    /// Copies records of a species of particles into the snapshot: the component `x` of the record `position` of
    /// `electrons` is the array `electrons/position/x`. With `sort_by`, a record of integers, the particles of all ranks lie in
    /// its order in the file.
    pub fn particles(&self, name: &str, records: &[ParticleRecord], sort_by: Option<&str>) -> Result<()> {
        let is_one = |r: &&ParticleRecord| r.view.meta().shape.rank() == 0 && !r.view.meta().dtype.is_text();
        let (ones, arrays): (Vec<&ParticleRecord>, Vec<&ParticleRecord>) = records.iter().partition(is_one);
        let mut constants = BTreeMap::new();
        for one in ones {
            if constants.insert(one.name.to_owned(), constant(name, one)?).is_some() {
                return Err(Error::bad(format!("{:?} of the species {name:?} is given twice", one.name)));
            }
        }
        let Some(first) = arrays.first() else {
            return Err(Error::bad(format!(
                "the species {name:?} has no array; give one number for each particle, at least of its position"
            )));
        };
        let count = |r: &ParticleRecord| r.view.meta().shape.extents().first().copied().unwrap_or(0);
        if let Some(other) = arrays.iter().find(|r| count(r) != count(first)) {
            return Err(Error::bad(format!(
                "{:?} of the species {name:?} has {} particles, and {:?} has {}; give one number for each",
                of_record(first.name, first.component),
                count(first),
                of_record(other.name, other.component),
                count(other)
            )));
        }
        let sort = sort_by.map(|record| order(name, record, &arrays)).transpose()?;
        self.order_of(name, Some(sort.as_ref()))?;
        // What is one number for all goes with the first array.
        let made = arrays.iter().map(|r| {
            let species = Species { name: name.to_owned(), constants: std::mem::take(&mut constants) };
            record(species, r.name, r.component, r.view.meta(), &r.options)
        });
        let made = made.collect::<Result<Vec<_>>>()?;
        arrays.iter().zip(&made).try_for_each(|(r, made)| {
            let options = made.options(&r.options);
            let options = ArrayOptions { place: widened(options.place, r.view.meta())?, ..options };
            self.put_sorted(&made.name, r.view, options, sort.as_ref())
        })
    }

    /// A place in the arena for a record of a species, or for a component of one.
    pub fn allocate_particles(
        &self,
        name: &str,
        record_name: &str,
        component: &str,
        meta: ArrayMeta,
        options: &ArrayOptions,
    ) -> Result<Allocated> {
        let species = Species { name: name.to_owned(), ..Species::default() };
        let made = record(species, record_name, component, &meta, options)?;
        let options = ArrayOptions { place: widened(options.place, &meta)?, ..made.options(options) };
        let sort = self.order_of(name, None)?;
        self.allocate_sorted(&made.name, meta, options, sort.as_ref())
    }
}

/// The order of a species: that of a record which is an integer for each particle.
fn order(species: &str, record: &str, arrays: &[&ParticleRecord]) -> Result<SortBy> {
    let found = arrays.iter().find(|r| r.name == record && r.component.is_empty());
    let is_integers = |r: &&&ParticleRecord| {
        let meta = r.view.meta();
        meta.shape.rank() == 1 && meta.dtype.range().is_some() && meta.dtype != DType::Bool
    };
    if found.filter(is_integers).is_none() {
        let is = found.map_or("not among its records".to_owned(), |r| r.view.meta().to_string());
        return Err(Error::bad(format!(
            "sort_by = {record:?} of the species {species:?} is {is}; name a record that has an integer for each particle, such as id"
        )));
    }
    if arrays.iter().any(|r| r.name == SortBy::INDEX) {
        return Err(Error::bad(format!(
            "the record {:?} of the species {species:?} has the name of the index that is written where its particles cannot be put in order; choose another one",
            SortBy::INDEX
        )));
    }
    Ok(SortBy { species: species.to_owned(), record: record.to_owned() })
}

/// A component of a mesh, of that type and shape.
fn component(
    name: &str,
    component: &str,
    meta: &ArrayMeta,
    grid: &Grid,
    options: &ArrayOptions,
) -> Result<Made> {
    let mut description = options.about.map_or_else(Description::default, |about| about.description.clone());
    let rank = axes(meta).len();
    if rank == 0 {
        return Err(Error::bad(format!(
            "the mesh {name:?} is one number; give an array with at least one axis"
        )));
    }
    if description.dims.is_empty() {
        let Some(dims) = AXES.get(..rank) else {
            return Err(Error::bad(format!("the mesh {name:?} has {rank} axes; name each of them in dims")));
        };
        description.dims = dims.iter().map(|dim| (*dim).to_owned()).collect();
    }
    let mesh = Mesh {
        name: name.to_owned(),
        component: component.to_owned(),
        spacing: grid.spacing.to_vec(),
        origin: grid.origin.to_vec(),
        position: grid.position.to_vec(),
    };
    let name = mesh.array();
    description.mesh = Some(mesh);
    Ok(Made { name, description })
}

/// A record of a species, or a component of one, of that type and shape.
fn record(
    species: Species,
    record: &str,
    component: &str,
    meta: &ArrayMeta,
    options: &ArrayOptions,
) -> Result<Made> {
    let mut description = options.about.map_or_else(Description::default, |about| about.description.clone());
    let name = of_record(&format!("{}/{record}", species.name), component);
    if !description.dims.is_empty() {
        return Err(Error::bad(format!(
            "{name:?} is given dims = {:?}, and the axes of particles have their names already; leave dims out",
            description.dims
        )));
    }
    description.dims.push(format!("{}/particle", species.name));
    if axes(meta).len() > 1 {
        description.dims.push(format!("{}/{record}_component", species.name));
    }
    description.species = Some(species);
    Ok(Made { name, description })
}

fn of_record(record: &str, component: &str) -> String {
    match component.is_empty() {
        true => record.to_owned(),
        false => format!("{record}/{component}"),
    }
}

/// A record that is one number for all particles.
fn constant(name: &str, one: &ParticleRecord) -> Result<Constant> {
    let what = of_record(one.name, one.component);
    let number = match one.view.meta().dtype.number(&one.view.bytes()) {
        Number::Int(n) => n as f64,
        Number::Real(n) => n,
        _ => f64::NAN,
    };
    if one.name == "position" || !one.component.is_empty() {
        return Err(Error::bad(format!(
            "{what:?} of the species {name:?} is one number, {number}; give arrays, with a number for each particle"
        )));
    }
    if !number.is_finite() {
        return Err(Error::bad(format!(
            "{what:?} of the species {name:?} is no finite number; give one, or an array"
        )));
    }
    Ok(Constant { value: number, units: one.options.units.to_owned() })
}

/// A block of particles, of an array that has several numbers side by side for each.
fn widened(place: Place, meta: &ArrayMeta) -> Result<Place> {
    let inner = meta.shape.extents().get(1..).unwrap_or(&[]);
    let wide = |one: &Shape, more: &[u64]| match one.rank() {
        1 => Shape::new(&[one.extents(), more].concat()),
        _ => Ok(*one),
    };
    let zeros = vec![0; inner.len()];
    Ok(match place {
        Place::At { offset, global } => {
            Place::At { offset: wide(&offset, &zeros)?, global: wide(&global, inner)? }
        }
        Place::Over { offset, global, rule } => {
            Place::Over { offset: wide(&offset, &zeros)?, global: wide(&global, inner)?, rule }
        }
        other => other,
    })
}
