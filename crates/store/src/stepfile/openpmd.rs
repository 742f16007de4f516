//! The meshes and particles of a step in the words of openPMD 1.1.
//!
//! ```text
//!  /                                   openPMD = "1.1.0"  basePath = "/data/%T/"  meshesPath  particlesPath
//!  /data/100                           time  dt  timeUnitSI
//!  /data/100/meshes/E/x                an alias of /E_x: a virtual data set over it, with the attributes of openPMD
//!  /data/100/particles/e/position/x    an alias of /e/position/x, or of a column of /e/position
//!  /data/100/particles/e/positionOffset/x   zeros that take no room
//!  /data/100/particles/e/mass          a number for all: attributes "value" and "shape" of a group
//! ```
//!
//! An alias and not a link: readers of openPMD pass over whatever bears a `DIMENSION_LIST`, and attributes of an object are
//! the same under all its names.

use super::grids::{Grid, is_sound};
use super::hdf::element_of;
use super::{Entry, Manifest, ffi};
use forebay_types::{DType, Description, Mesh, Native, Order, Shape, Species, Unit, native};
use hdf5::types::{FloatSize, TypeDescriptor};
use hdf5::{Dataset, File, Group, Hyperslab, Location, SliceOrIndex};
use hdf5_metno as hdf5;
use std::collections::BTreeMap;

/// A component of a mesh in the file.
pub(super) struct MeshAlias<'a> {
    pub entry: &'a Entry,
    pub mesh: &'a Mesh,
    pub grid: &'a Grid,
    /// Its path in the file.
    pub path: String,
}

/// A species in the file.
#[derive(Default)]
pub(super) struct SpeciesAliases {
    /// Number of particles.
    pub count: usize,
    /// The aliases by record and component; of a record that is one number the component is empty.
    pub arrays: BTreeMap<(String, String), SpeciesAlias>,
}

pub(super) struct SpeciesAlias {
    pub dtype: DType,
    pub path: String,
}

/// What of a step others read.
#[derive(Default)]
pub(super) struct Aliases<'a> {
    pub meshes: Vec<MeshAlias<'a>>,
    pub species: BTreeMap<&'a str, SpeciesAliases>,
}

impl Aliases<'_> {
    /// Whether an array is among them.
    pub fn has(&self, e: &Entry) -> bool {
        let of_species = |s: &Species| self.species.contains_key(s.name.as_str()) && is_known(e);
        self.meshes.iter().any(|alias| alias.entry.name == e.name)
            || e.about.species.as_ref().is_some_and(of_species)
    }
}

type Attributes = BTreeMap<String, Native>;

/// So many attributes lie in the header of their object; for more HDF5 lays out a heap.
const COMPACT: u32 = 64;

/// Attributes of a mesh as a whole; others are those of its components.
const OF_RECORD: [&str; 9] = [
    "geometry",
    "geometryParameters",
    "dataOrder",
    "axisLabels",
    "gridSpacing",
    "gridGlobalOffset",
    "gridUnitSI",
    "unitDimension",
    "timeOffset",
];

/// Who writes files of openPMD.
pub(super) const SOFTWARE: &str = "Forebay";
/// What the files of steps are called, in the words of openPMD.
pub(super) const FILES: &str = "%010T.h5";

/// Writes all of it, in one of files that are called so; what was written.
pub(super) fn write<'a>(
    file: &File,
    m: &'a Manifest,
    grids: &'a BTreeMap<String, Grid>,
    files: &str,
) -> hdf5::Result<Aliases<'a>> {
    let mut done = Aliases::default();
    let of_mesh = |e: &'a Entry| Some((e, e.about.mesh.as_ref()?, grids.get(&e.name)?));
    let meshes: Vec<_> = m.data.iter().filter(|e| is_known(e)).filter_map(of_mesh).collect();
    let species = species_of(m);
    // Iterations have no sign.
    if m.set.is_some() || m.step < 0 || (meshes.is_empty() && species.is_empty()) {
        return Ok(done);
    }
    let base = format!("/data/{}", m.step);
    let mut root = texts([
        ("openPMD", "1.1.0"),
        ("basePath", "/data/%T/"),
        ("iterationEncoding", "fileBased"),
        ("iterationFormat", files),
        ("software", SOFTWARE),
        ("softwareVersion", env!("CARGO_PKG_VERSION")),
    ]);
    if !meshes.is_empty() {
        root.insert("meshesPath".into(), Native::Text("meshes/".into()));
    }
    if !species.is_empty() {
        root.insert("particlesPath".into(), Native::Text("particles/".into()));
    }
    write_all(file, &root)?;
    file.new_attr::<u32>().create("openPMDextension")?.write_scalar(&0)?;
    let iteration = file.create_group(&base)?;
    let time = m.time.unwrap_or(m.step as f64);
    let dt = m.dt.unwrap_or(if m.time.is_none() { 1.0 } else { 0.0 });
    write_all(&iteration, &reals([("time", time), ("dt", dt), ("timeUnitSI", 1.0)]))?;
    for (e, mesh, grid) in meshes {
        done.meshes.push(write_mesh(file, &base, e, mesh, grid)?);
    }
    for (name, entries) in species {
        done.species.insert(name, write_species(file, &base, name, &entries)?);
    }
    Ok(done)
}

/// Whether readers of openPMD have a type for it: for one that they have none for they pass over all meshes of the step.
fn is_known(e: &Entry) -> bool {
    e.meta.dtype != DType::F16
}

/// The arrays of the species of a step; of one without positions nobody reads anything.
fn species_of(m: &Manifest) -> BTreeMap<&str, Vec<&Entry>> {
    let mut all: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
    for e in &m.data {
        if let Some(species) = e.about.species.as_ref().filter(|_| is_sound(e) && is_known(e)) {
            all.entry(&species.name).or_default().push(e);
        }
    }
    all.retain(|_, entries| entries.iter().any(|e| record_of(e).0 == "position"));
    all
}

/// The record and the component of an array of a species.
fn record_of(e: &Entry) -> (&str, &str) {
    let found = e.about.species.as_ref().and_then(|s| s.record(&e.name));
    found.map_or(("", ""), |(record, component)| (record, component.unwrap_or("")))
}

fn write_mesh<'a>(
    file: &File,
    base: &str,
    e: &'a Entry,
    mesh: &'a Mesh,
    grid: &'a Grid,
) -> hdf5::Result<MeshAlias<'a>> {
    let record = format!("{base}/meshes/{}", mesh.name);
    let path = match mesh.component.as_str() {
        "" => record.clone(),
        component => format!("{record}/{component}"),
    };
    let (factor, mut of_record) = measured(&e.units);
    of_record.extend(texts([
        ("geometry", "cartesian"),
        ("dataOrder", if e.meta.order == Order::F { "F" } else { "C" }),
    ]));
    // A path is no label.
    let labels = e.about.dims.iter().map(|dim| dim.rsplit('/').next().unwrap_or(dim).to_owned());
    of_record.insert("axisLabels".into(), Native::Texts(labels.collect()));
    of_record.insert("gridSpacing".into(), list(&grid.spacing));
    of_record.insert("gridGlobalOffset".into(), list(&grid.origin));
    of_record.extend(reals([("gridUnitSI", grid.unit), ("timeOffset", 0.0)]));
    let mut own = reals([("unitSI", factor)]);
    let middle = vec![0.0; e.about.dims.len()];
    own.insert("position".into(), list(if mesh.position.is_empty() { &middle } else { &mesh.position }));
    for (key, value) in plain(&e.about) {
        match OF_RECORD.contains(&key.as_str()) {
            true => of_record.insert(key, value),
            false => own.insert(key, value),
        };
    }
    match mesh.component.is_empty() {
        true => own.extend(of_record),
        false => write_record(file, &record, &of_record)?,
    }
    let alias = alias(file, e, None, &path)?;
    write_all(&alias, &own)?;
    Ok(MeshAlias { entry: e, mesh, grid, path })
}

fn write_species(file: &File, base: &str, name: &str, entries: &[&Entry]) -> hdf5::Result<SpeciesAliases> {
    let base = format!("{base}/particles/{name}");
    let mut done = SpeciesAliases::default();
    for e in entries {
        let (record, component) = record_of(e);
        let extents = e.meta.shape.extents();
        done.count = extents.first().map_or(0, |n| *n as usize);
        let path = format!("{base}/{record}");
        // Of an array of columns each is a component.
        let columns: Vec<(&str, Option<usize>)> = match extents.len() {
            2 => ["x", "y", "z"].into_iter().zip((0..extents[1] as usize).map(Some)).collect(),
            // A position has components, also along one axis.
            _ if record == "position" && component.is_empty() => vec![("x", None)],
            _ => vec![(component, None)],
        };
        let (factor, mut of_record) = measured(&e.units);
        of_record.extend(reals([("timeOffset", 0.0)]));
        for (component, column) in columns {
            let own_path = if component.is_empty() { path.clone() } else { format!("{path}/{component}") };
            let mut own = reals([("unitSI", factor)]);
            match component.is_empty() {
                true => own.extend(of_record.clone()),
                false => write_record(file, &path, &of_record)?,
            }
            let set = alias(file, e, column, &own_path)?;
            own.extend(plain(&e.about));
            write_all(&set, &own)?;
            if record == "position" {
                offset(file, &format!("{base}/positionOffset"), component, done.count, &e.units)?;
            }
            let alias = SpeciesAlias { dtype: e.meta.dtype, path: own_path };
            done.arrays.insert((record.to_owned(), component.to_owned()), alias);
        }
    }
    let constants = entries.iter().filter_map(|e| e.about.species.as_ref()).flat_map(|s| &s.constants);
    for (record, constant) in constants {
        let path = format!("{base}/{record}");
        if file.link_exists(&path) {
            continue;
        }
        let (factor, mut attributes) = measured(&constant.units);
        attributes.extend(reals([("timeOffset", 0.0), ("unitSI", factor), ("value", constant.value)]));
        let shape = (done.count as u64).to_le_bytes().to_vec();
        attributes.insert("shape".into(), numbers(DType::U64, Some(1), shape));
        write_all(&*file.create_group(&path)?, &attributes)?;
    }
    Ok(done)
}

/// The offset of the positions: zeros that are nowhere in the file.
fn offset(file: &File, record: &str, component: &str, count: usize, units: &str) -> hdf5::Result<()> {
    let (factor, mut of_record) = measured(units);
    of_record.extend(reals([("timeOffset", 0.0)]));
    write_record(file, record, &of_record)?;
    let path = format!("{record}/{component}");
    let made = file.new_dataset_builder().empty_as(TypeDescriptor::Float(FloatSize::U8)).shape(count);
    let set = made.no_chunk().create_intermediate_group(true).create(path.as_str())?;
    write_all(&set, &reals([("unitSI", factor)]))
}

/// The group of a record, made with its first component.
fn write_record(file: &File, path: &str, attributes: &Attributes) -> hdf5::Result<()> {
    if file.link_exists(path) {
        return Ok(());
    }
    let made = file.create_group_builder().with_gcpl(|p| p.attr_phase_change(COMPACT, 0)).create(path)?;
    write_all(&made, attributes)
}

/// Another data set with the same elements: a virtual one over this file, of all or of one column.
fn alias(file: &File, e: &Entry, column: Option<usize>, path: &str) -> hdf5::Result<Dataset> {
    let original = file.dataset(&e.name)?;
    let whole = original.shape();
    let kind = original.dtype()?.to_descriptor()?;
    let (shape, chosen) = match column {
        None => (whole.clone(), None),
        Some(column) => {
            // The axis of the columns is the first one in the file of an array of Fortran's.
            let at = if e.meta.order == Order::F { 0 } else { 1 };
            let mut slices = vec![SliceOrIndex::from(..), SliceOrIndex::from(..)];
            slices[at] = SliceOrIndex::from(column);
            (vec![whole[1 - at]], Some(Hyperslab::from(slices)))
        }
    };
    let made = file.new_dataset_builder().empty_as(kind).shape(shape.clone()).no_chunk();
    let made = made.create_intermediate_group(true).attr_phase_change(COMPACT, 0);
    let source = format!("/{}", e.name);
    match chosen {
        // There is nothing that could be mapped.
        _ if shape.contains(&0) => made.create(path),
        None => made.virtual_map(".", source, whole, .., shape, ..).create(path),
        Some(slab) => made.virtual_map(".", source, whole, slab, shape, ..).create(path),
    }
}

/// What the unit of an array is in SI: its factor, and its dimension. Of one that is not known the text is kept, with a
/// reason.
fn measured(units: &str) -> (f64, Attributes) {
    let known =
        if units.is_empty() { Ok((1.0, [0.0; 7])) } else { Unit::parse(units).map(|u| (u.factor, u.powers)) };
    let (factor, powers) = known.unwrap_or((1.0, [0.0; 7]));
    let mut attributes = Attributes::new();
    attributes.insert("unitDimension".into(), list(&powers));
    if let Err(why) = known {
        attributes.insert("unitText".into(), Native::Text(format!("{units}: {why}")));
    }
    (factor, attributes)
}

/// The attributes of the user's that readers of openPMD know how to read; others make them pass over the array.
fn plain(about: &Description) -> Attributes {
    let attributes = about.attrs.iter().map(|(key, value)| (key.clone(), native(value)));
    let is_read = |value: &Native| match value {
        Native::Numbers { dtype, shape, .. } => {
            shape.rank() < 2 && matches!(dtype, DType::I64 | DType::U64 | DType::F64 | DType::F32)
        }
        _ => true,
    };
    attributes.filter(|(_, value)| is_read(value)).collect()
}

fn numbers(dtype: DType, len: Option<u64>, bytes: Vec<u8>) -> Native {
    let shape = len.and_then(|n| Shape::new(&[n]).ok()).unwrap_or(Shape::scalar());
    Native::Numbers { dtype, shape, bytes }
}

fn list(values: &[f64]) -> Native {
    let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    numbers(DType::F64, Some(values.len() as u64), bytes)
}

fn reals<const N: usize>(values: [(&str, f64); N]) -> Attributes {
    values.map(|(key, v)| (key.to_owned(), numbers(DType::F64, None, v.to_le_bytes().to_vec()))).into()
}

fn texts<const N: usize>(values: [(&str, &str); N]) -> Attributes {
    values.map(|(key, text)| (key.to_owned(), Native::Text(text.to_owned()))).into()
}

/// Attributes as openPMD has them: texts of fixed length.
fn write_all(at: &Location, attributes: &Attributes) -> hdf5::Result<()> {
    for (key, value) in attributes {
        match value {
            Native::Text(text) => ffi::write_padded(at, key, &[text], None)?,
            Native::Texts(all) => {
                let all: Vec<&str> = all.iter().map(String::as_str).collect();
                ffi::write_padded(at, key, &all, Some(all.len() as u64))?;
            }
            Native::Numbers { dtype, shape, bytes } => {
                let extents = (shape.rank() > 0).then_some(shape.extents());
                ffi::write_numbers(at, key, &element_of(*dtype), extents, bytes)?;
            }
        }
    }
    Ok(())
}

/// What a file lacks of the aliases that it is to have.
pub(super) fn missing(file: &Group, m: &Manifest, grids: &BTreeMap<String, Grid>) -> Vec<String> {
    if m.set.is_some() || m.step < 0 || m.partial.is_some() {
        return Vec::new();
    }
    let base = format!("/data/{}", m.step);
    let mut paths = Vec::new();
    let with_grid = m.data.iter().filter(|e| is_known(e) && grids.contains_key(&e.name));
    for mesh in with_grid.filter_map(|e| e.about.mesh.as_ref()) {
        let component =
            if mesh.component.is_empty() { String::new() } else { format!("/{}", mesh.component) };
        paths.push(format!("{base}/meshes/{}{component}", mesh.name));
    }
    for (name, entries) in species_of(m) {
        paths.extend(entries.iter().map(|e| {
            let (record, component) = record_of(e);
            let component = if component.is_empty() { String::new() } else { format!("/{component}") };
            format!("{base}/particles/{name}/{record}{component}")
        }));
    }
    paths.retain(|path| !file.link_exists(path));
    paths
}
