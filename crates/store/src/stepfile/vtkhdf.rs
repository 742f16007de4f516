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
use super::grids::Grid;
use super::openpmd::{Aliases, MeshAlias, SpeciesAliases};
use forebay_types::{ArrayMeta, DType, Order, axes};
use hdf5::plist::group_create::LinkCreationOrder;
use hdf5::types::{FloatSize, TypeDescriptor};
use hdf5::{File, Group, Hyperslab, SliceOrIndex};
use hdf5_metno as hdf5;

const ROOT: &str = "/VTKHDF";
/// What VTK has; components of positions are in this order.
const XYZ: [&str; 3] = ["x", "y", "z"];

/// Where the points of meshes are, as VTK has them.
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    /// Points along VTK's axes.
    pub extents: Vec<u64>,
    spacing: Vec<f64>,
    origin: Vec<f64>,
    /// What its axes are called.
    pub labels: Vec<String>,
}

/// A grid, and the arrays on it.
struct Block<'a> {
    image: Image,
    arrays: Vec<&'a MeshAlias<'a>>,
}

/// Writes all of it.
pub(super) fn write(file: &File, aliases: &Aliases) -> hdf5::Result<()> {
    let mut blocks: Vec<Block> = Vec::new();
    for alias in aliases.meshes.iter().filter(|alias| is_read(alias)) {
        let block = Block::of(alias);
        match blocks.iter_mut().find(|other| other.image == block.image) {
            Some(other) => other.arrays.push(alias),
            None => blocks.push(block),
        }
    }
    let species: Vec<(&str, &SpeciesAliases)> =
        aliases.species.iter().filter(|(_, s)| s.has_points()).map(|(name, s)| (*name, s)).collect();
    let frame = frame(blocks.iter().map(|block| &block.image));
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
                species.write(file, &path, frame.unwrap_or(&xyz()))?;
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

/// What the axes of all images are called, if it is the same in all.
pub fn frame<'a>(images: impl Iterator<Item = &'a Image> + Clone) -> Option<&'a [String]> {
    let first = &images.clone().max_by_key(|image| image.labels.len())?.labels;
    images.clone().all(|image| first.starts_with(&image.labels)).then_some(first.as_slice())
}

/// What VTK's axes are called where there is no image.
pub fn xyz() -> Vec<String> {
    XYZ.map(str::to_owned).to_vec()
}

/// A name that no other block has.
pub(super) fn free(name: String, taken: &[String]) -> String {
    let also = |n: usize| if n == 1 { name.clone() } else { format!("{name}_{n}") };
    let is_free = |name: &String| name != "Assembly" && !taken.contains(name);
    (1..).map(also).find(is_free).unwrap_or_default()
}

/// A group whose members VTK finds in their order.
pub(super) fn ordered(parent: &Group, path: &str) -> hdf5::Result<Group> {
    let made = parent.create_group_builder();
    made.with_gcpl(|p| p.link_creation_order(LinkCreationOrder::Indexed)).create(path)
}

pub(super) fn group(file: &File, path: &str, kind: &str, version: [i64; 2]) -> hdf5::Result<Group> {
    let made = ordered(file, path)?;
    ffi::write_padded(&made, "Type", &[kind], None)?;
    integers(&made, "Version", Some(2), &version)?;
    Ok(made)
}

pub(super) fn integers(at: &Group, name: &str, len: Option<u64>, values: &[i64]) -> hdf5::Result<()> {
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
pub fn is_number_of_vtk(dtype: DType) -> bool {
    dtype.is_integer() || dtype.mantissa().is_some() && dtype.numpy_kind() == b'f'
}

/// Whether VTK reads an array as it is: an axis of one point it takes for none.
fn is_read(alias: &MeshAlias) -> bool {
    is_number_of_vtk(alias.entry.meta.dtype) && is_extent_of_vtk(axes(&alias.entry.meta))
}

/// Whether VTK has an image of such extents.
pub fn is_extent_of_vtk(extents: &[u64]) -> bool {
    extents.len() <= 3 && extents.iter().all(|n| *n > 1)
}

impl<'a> Block<'a> {
    fn of(alias: &'a MeshAlias<'a>) -> Block<'a> {
        let (entry, grid) = (alias.entry, alias.grid);
        let image = Image::of(&entry.meta, &entry.about.dims, grid, &alias.mesh.position);
        Block { image, arrays: vec![alias] }
    }

    fn name(&self, is_turned: bool) -> String {
        self.image.name(&self.arrays[0].entry.name, is_turned)
    }

    fn write(&self, file: &File, at: &Group, path: &str, is_turned: bool) -> hdf5::Result<()> {
        self.image.describe(at, is_turned)?;
        at.create_group("PointData")?;
        for alias in &self.arrays {
            file.link_hard(&alias.path, &format!("{path}/PointData/{}", alias.entry.name))?;
        }
        Ok(())
    }
}

impl Image {
    /// Of a mesh with these axes; `position` is where in its cell it is.
    pub fn of(meta: &ArrayMeta, dims: &[String], grid: &Grid, position: &[f64]) -> Image {
        let mut extents = axes(meta).to_vec();
        let mut spacing = grid.spacing.clone();
        let staggered = |axis: usize| position.get(axis).copied().unwrap_or(0.0) * grid.spacing[axis];
        let mut origin: Vec<f64> =
            grid.origin.iter().enumerate().map(|(axis, v)| v + staggered(axis)).collect();
        let mut labels: Vec<String> =
            dims.iter().map(|dim| dim.rsplit('/').next().unwrap_or(dim).to_owned()).collect();
        // The axes of the file from the last to the first.
        if meta.order == Order::C {
            extents.reverse();
            spacing.reverse();
            origin.reverse();
            labels.reverse();
        }
        Image { extents, spacing, origin, labels }
    }

    /// VTK's axes by the axes x, y and z that they are, where they are these.
    fn turned(&self) -> Option<Vec<usize>> {
        self.labels.iter().map(|label| XYZ.iter().position(|name| name == label)).collect()
    }

    /// What the block is called that has this array first; where its axes are not x, y and z it says so.
    pub fn name(&self, first: &str, is_turned: bool) -> String {
        let is_plain = self.labels.iter().zip(XYZ).all(|(label, name)| *label == name);
        if is_plain || is_turned && self.turned().is_some() {
            return first.to_owned();
        }
        let axes = ["X", "Y", "Z"].iter().zip(&self.labels).map(|(vtk, label)| format!("_{vtk}_is_{label}"));
        // Names of blocks are made of these letters.
        let letter = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
        format!("{first}{}", axes.collect::<String>()).chars().map(letter).collect()
    }

    /// Writes where it is.
    pub(super) fn describe(&self, at: &Group, is_turned: bool) -> hdf5::Result<()> {
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
        reals(at, "Direction", &direction)
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
        let is_real = |dtype: DType| dtype.mantissa().is_some() && is_number_of_vtk(dtype);
        self.count > 0 && (1..=3).contains(&points.len()) && points.iter().all(|p| is_real(p.1))
    }

    /// The points are one virtual data set over the positions; the axes of `frame` are its columns.
    fn write(&self, file: &File, path: &str, frame: &[String]) -> hdf5::Result<()> {
        let points = self.points();
        let single = points.iter().all(|p| p.1 == DType::F32);
        let kind = TypeDescriptor::Float(if single { FloatSize::U4 } else { FloatSize::U8 });
        let shape = vec![self.count, 3];
        let mut made = file.new_dataset_builder().empty_as(kind).shape(shape.clone()).no_chunk();
        let is_known = points.iter().all(|(component, ..)| frame.iter().any(|label| label == component));
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
            if record == "position" || !is_number_of_vtk(alias.dtype) {
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
