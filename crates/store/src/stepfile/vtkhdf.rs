//! The meshes and particles of a step as VTK and ParaView read them: `/VTKHDF`, hard links to the aliases of openPMD.
//!
//! ```text
//!  one grid, no particles       /VTKHDF  Type = "ImageData"  WholeExtent  Origin  Spacing   PointData/T -> the alias
//!  else                         /VTKHDF  Type = "PartitionedDataSetCollection"
//!                               /VTKHDF/E_x         "ImageData", one for each grid
//!                               /VTKHDF/electrons   "PolyData": points without cells
//!                               /VTKHDF/Assembly    soft links to them
//! ```
//!
//! VTK's x is the last axis of the file. Where that is not the axis called `x` the picture is mirrored, in every version alike,
//! and the name of the block says so; the matrix that would turn it is read by the newest versions only, and written
//! where meshes of both kinds are in one step. One array that VTK cannot read costs it the block: those are left out.

use super::ffi;
use super::openpmd::{Aliases, MeshAlias, SpeciesAliases};
use forebay_types::{DType, Order, axes};
use hdf5::plist::group_create::LinkCreationOrder;
use hdf5::types::{FloatSize, TypeDescriptor};
use hdf5::{File, Group, Hyperslab, SliceOrIndex};
use hdf5_metno as hdf5;

const ROOT: &str = "/VTKHDF";
/// What VTK has; components of positions are in this order.
const XYZ: [&str; 3] = ["x", "y", "z"];

/// A grid, and the arrays on it.
struct Block<'a> {
    /// Points along VTK's axes.
    extents: Vec<u64>,
    spacing: Vec<f64>,
    origin: Vec<f64>,
    /// What its axes are called.
    labels: Vec<&'a str>,
    arrays: Vec<&'a MeshAlias<'a>>,
}

/// Writes all of it.
pub(super) fn write(file: &File, aliases: &Aliases) -> hdf5::Result<()> {
    let mut blocks: Vec<Block> = Vec::new();
    for alias in aliases.meshes.iter().filter(|alias| is_read(alias)) {
        let block = Block::of(alias);
        match blocks.iter_mut().find(|other| other.is_grid_of(&block)) {
            Some(other) => other.arrays.push(alias),
            None => blocks.push(block),
        }
    }
    let species: Vec<(&str, &SpeciesAliases)> =
        aliases.species.iter().filter(|(_, s)| s.has_points()).map(|(name, s)| (*name, s)).collect();
    let frame = frame(&blocks);
    match (&blocks[..], &species[..]) {
        ([], []) => Ok(()),
        ([one], []) => {
            let root = group(file, ROOT, "ImageData", [1, 0])?;
            one.write(file, &root, ROOT, frame.is_none())
        }
        _ => {
            let root = group(file, ROOT, "PartitionedDataSetCollection", [2, 1])?;
            let mut names = Vec::new();
            for block in &blocks {
                let name = free(block.name(frame.is_none()), &names);
                let path = format!("{ROOT}/{name}");
                let made = group(file, &path, "ImageData", [1, 0])?;
                block.write(file, &made, &path, frame.is_none())?;
                names.push(name);
            }
            for (name, species) in species {
                let name = free(name.to_owned(), &names);
                let path = format!("{ROOT}/{name}");
                group(file, &path, "PolyData", [2, 0])?;
                species.write(file, &path, frame.as_deref().unwrap_or(&XYZ))?;
                names.push(name);
            }
            ordered(&root, "Assembly")?;
            for (index, name) in names.iter().enumerate() {
                integers(&file.group(&format!("{ROOT}/{name}"))?, "Index", None, &[index as i64])?;
                root.link_soft(&format!("{ROOT}/{name}"), &format!("Assembly/{name}"))?;
            }
            Ok(())
        }
    }
}

/// What the axes of all blocks are called, if it is the same in all; without blocks it is x, y and z.
fn frame<'a>(blocks: &[Block<'a>]) -> Option<Vec<&'a str>> {
    let Some(first) = blocks.iter().max_by_key(|b| b.labels.len()) else { return Some(XYZ.to_vec()) };
    blocks.iter().all(|b| first.labels.starts_with(&b.labels)).then(|| first.labels.clone())
}

/// A name that no other block has.
fn free(name: String, taken: &[String]) -> String {
    let also = |n: usize| if n == 1 { name.clone() } else { format!("{name}_{n}") };
    let is_free = |name: &String| name != "Assembly" && !taken.contains(name);
    (1..).map(also).find(is_free).unwrap_or_default()
}

/// A group whose members VTK finds in their order.
fn ordered(parent: &Group, path: &str) -> hdf5::Result<Group> {
    let made = parent.create_group_builder();
    made.with_gcpl(|p| p.link_creation_order(LinkCreationOrder::Indexed)).create(path)
}

fn group(file: &File, path: &str, kind: &str, version: [i64; 2]) -> hdf5::Result<Group> {
    let made = ordered(file, path)?;
    ffi::write_padded(&made, "Type", &[kind], None)?;
    integers(&made, "Version", Some(2), &version)?;
    Ok(made)
}

fn integers(at: &Group, name: &str, len: Option<u64>, values: &[i64]) -> hdf5::Result<()> {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let kind = TypeDescriptor::Integer(hdf5::types::IntSize::U8);
    ffi::write_numbers(at, name, &kind, len.as_ref().map(std::slice::from_ref), &bytes)
}

fn reals(at: &Group, name: &str, values: &[f64]) -> hdf5::Result<()> {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let kind = TypeDescriptor::Float(FloatSize::U8);
    ffi::write_numbers(at, name, &kind, Some(&[values.len() as u64]), &bytes)
}

/// What VTK has a type for.
fn is_number(dtype: DType) -> bool {
    dtype.is_integer() || dtype.mantissa().is_some() && dtype.numpy_kind() == b'f'
}

/// Whether VTK reads an array as it is: an axis of one point it takes for none.
fn is_read(alias: &MeshAlias) -> bool {
    let extents = axes(&alias.entry.meta);
    is_number(alias.entry.meta.dtype) && extents.len() <= 3 && extents.iter().all(|n| *n > 1)
}

impl<'a> Block<'a> {
    fn of(alias: &'a MeshAlias<'a>) -> Block<'a> {
        let (entry, grid) = (alias.entry, alias.grid);
        let mut extents = axes(&entry.meta).to_vec();
        let mut spacing = grid.spacing.clone();
        let staggered =
            |axis: usize| alias.mesh.position.get(axis).copied().unwrap_or(0.0) * grid.spacing[axis];
        let mut origin: Vec<f64> =
            grid.origin.iter().enumerate().map(|(axis, v)| v + staggered(axis)).collect();
        let mut labels: Vec<&str> =
            entry.about.dims.iter().map(|dim| dim.rsplit('/').next().unwrap_or(dim)).collect();
        // The axes of the file from the last to the first.
        if entry.meta.order == Order::C {
            extents.reverse();
            spacing.reverse();
            origin.reverse();
            labels.reverse();
        }
        Block { extents, spacing, origin, labels, arrays: vec![alias] }
    }

    fn is_grid_of(&self, other: &Block) -> bool {
        self.extents == other.extents
            && self.spacing == other.spacing
            && self.origin == other.origin
            && self.labels == other.labels
    }

    /// VTK's axes by the axes x, y and z that they are, where they are these.
    fn turned(&self) -> Option<Vec<usize>> {
        self.labels.iter().map(|label| XYZ.iter().position(|name| name == label)).collect()
    }

    fn name(&self, is_turned: bool) -> String {
        let first = &self.arrays[0].entry.name;
        let is_plain = self.labels.iter().zip(XYZ).all(|(label, name)| *label == name);
        if is_plain || is_turned && self.turned().is_some() {
            return first.clone();
        }
        let axes = ["X", "Y", "Z"].iter().zip(&self.labels).map(|(vtk, label)| format!("_{vtk}_is_{label}"));
        // Names of blocks are made of these letters.
        let letter = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
        format!("{first}{}", axes.collect::<String>()).chars().map(letter).collect()
    }

    fn write(&self, file: &File, at: &Group, path: &str, is_turned: bool) -> hdf5::Result<()> {
        let mut extent = [0i64; 6];
        let (mut origin, mut spacing) = ([0.0; 3], [1.0; 3]);
        for axis in 0..self.extents.len() {
            extent[2 * axis + 1] = self.extents[axis] as i64 - 1;
            (origin[axis], spacing[axis]) = (self.origin[axis], self.spacing[axis]);
        }
        let mut direction = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
        if let Some(turned) = self.turned().filter(|_| is_turned) {
            // Axes that the grid does not have go where room is left.
            let left = (0..3).filter(|axis| !turned.contains(axis));
            let all: Vec<usize> = turned.iter().copied().chain(left).collect();
            direction = [0.0; 9];
            let flat = origin;
            for (axis, to) in all.into_iter().enumerate() {
                direction[3 * to + axis] = 1.0;
                origin[to] = flat[axis];
            }
        }
        integers(at, "WholeExtent", Some(6), &extent)?;
        reals(at, "Origin", &origin)?;
        reals(at, "Spacing", &spacing)?;
        reals(at, "Direction", &direction)?;
        at.create_group("PointData")?;
        for alias in &self.arrays {
            file.link_hard(&alias.path, &format!("{path}/PointData/{}", alias.entry.name))?;
        }
        Ok(())
    }
}

impl SpeciesAliases {
    /// The components of the positions.
    fn points(&self) -> Vec<(&str, DType, &str)> {
        let of_position = self.arrays.iter().filter(|((record, _), _)| record == "position");
        of_position.map(|((_, component), a)| (component.as_str(), a.dtype, a.path.as_str())).collect()
    }

    fn has_points(&self) -> bool {
        let points = self.points();
        let is_real = |dtype: DType| dtype.mantissa().is_some() && is_number(dtype);
        self.count > 0 && (1..=3).contains(&points.len()) && points.iter().all(|p| is_real(p.1))
    }

    /// The points are one virtual data set over the positions; the axes of `frame` are its columns.
    fn write(&self, file: &File, path: &str, frame: &[&str]) -> hdf5::Result<()> {
        let points = self.points();
        let single = points.iter().all(|p| p.1 == DType::F32);
        let kind = TypeDescriptor::Float(if single { FloatSize::U4 } else { FloatSize::U8 });
        let shape = vec![self.count, 3];
        let mut made = file.new_dataset_builder().empty_as(kind).shape(shape.clone()).no_chunk();
        let is_known = points.iter().all(|(component, ..)| frame.contains(component));
        for (at, (component, _, source)) in points.iter().enumerate() {
            let known = frame.iter().position(|label| label == component);
            let column = known.filter(|_| is_known).unwrap_or(at);
            let chosen = Hyperslab::from(vec![SliceOrIndex::from(..), SliceOrIndex::from(column)]);
            made = made.virtual_map(".", source, vec![self.count], .., shape.clone(), chosen);
        }
        made.create(format!("{path}/Points").as_str())?;
        numbers(file, &format!("{path}/NumberOfPoints"), &[self.count as i64])?;
        for cells in ["Vertices", "Lines", "Polygons", "Strips"] {
            let at = format!("{path}/{cells}");
            file.create_group(&at)?;
            for none in ["NumberOfCells", "NumberOfConnectivityIds", "Offsets"] {
                numbers(file, &format!("{at}/{none}"), &[0])?;
            }
            numbers(file, &format!("{at}/Connectivity"), &[])?;
        }
        file.create_group(&format!("{path}/PointData"))?;
        for ((record, component), alias) in &self.arrays {
            if record == "position" || !is_number(alias.dtype) {
                continue;
            }
            let name = if component.is_empty() { record.clone() } else { format!("{record}_{component}") };
            file.link_hard(&alias.path, &format!("{path}/PointData/{name}"))?;
        }
        Ok(())
    }
}

fn numbers(file: &File, path: &str, values: &[i64]) -> hdf5::Result<()> {
    if values.is_empty() {
        let kind = TypeDescriptor::Integer(hdf5::types::IntSize::U8);
        file.new_dataset_builder().empty_as(kind).shape(0).no_chunk().create(path)?;
        return Ok(());
    }
    file.new_dataset_builder().with_data(values).no_chunk().create(path).map(drop)
}
