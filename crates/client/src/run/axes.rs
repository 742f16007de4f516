//! What arrays of a snapshot say of themselves, on the side of the program: the axes that have names, and their
//! coordinates. What does not fit is refused here, before anything of the array is sent.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use forebay_types::record::Place;
use forebay_types::{
    ArrayMeta, Code, DType, Description, Error, Order, Result, Unit, attribute_among, axes, axis_path,
    crc32c, limits, uniform,
};
use serde_json::{Map, Value};

use super::View;

/// What an array of a snapshot says of itself.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// Names of its axes, and attributes.
    pub description: &'a Description,
    /// The values along some of its axes.
    pub coordinates: &'a [Coordinate<'a>],
}

/// The values along an axis.
#[derive(Clone, Copy, Debug)]
pub struct Coordinate<'a> {
    /// The name of the axis.
    pub dim: &'a str,
    /// One value for each index, of the whole array.
    pub view: View<'a>,
    /// Unit, or empty.
    pub units: &'a str,
}

/// What is known of an array of a snapshot.
#[derive(Clone, Copy)]
pub(super) struct KnownArray {
    /// Elements of an array of one axis; of others, and of those whose length other ranks decide, there is none.
    length: Option<u64>,
    axes: u8,
    part: bool,
    dtype: DType,
}

impl KnownArray {
    pub fn of(meta: &ArrayMeta, place: &Place) -> KnownArray {
        let whole = place.whole(meta);
        let extents = axes(&whole);
        let is_line = extents.len() == 1 && !matches!(place, Place::Append);
        let length = if is_line { extents.first().copied() } else { None };
        KnownArray { length, axes: extents.len() as u8, part: place.block().is_some(), dtype: meta.dtype }
    }

    /// The type of its elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Whether others of its name may follow.
    pub fn is_part(&self) -> bool {
        self.part
    }

    fn is_coordinate_of(&self, extent: Option<u64>) -> bool {
        self.axes == 1 && self.length.zip(extent).is_none_or(|(own, wanted)| own == wanted)
    }
}

/// An axis that has a name.
struct Axis {
    /// Its length, where it is known.
    extent: Option<u64>,
    /// The array that said it first.
    whose: String,
    /// Its coordinate: type, checksum, unit, and with which array it came.
    coordinate: Option<(DType, u32, String, String)>,
}

/// A coordinate that is not in the snapshot yet: its path, what it is, its checksum.
pub(super) type New<'a> = (String, Coordinate<'a>, u32);

/// The axes of a snapshot, by the paths of their scales.
#[derive(Default)]
pub(super) struct Axes {
    known: HashMap<String, Axis>,
    /// What came with the arrays.
    said: HashMap<String, Description>,
    /// The first array of each mesh.
    meshes: HashMap<String, String>,
    /// The first mesh, with its axes from the last one in the file on; another order was found and said.
    frame: Option<(String, Vec<String>)>,
    is_mixed: bool,
    /// Attributes that were set behind their puts, or deleted (null).
    changed: HashMap<String, Map<String, Value>>,
}

/// The length of each axis of the whole, where it is known.
fn extents_of(meta: &ArrayMeta, place: &Place) -> Vec<Option<u64>> {
    let is_known = |at: usize| at > 0 || !matches!(place, Place::Append);
    axes(&place.whole(meta)).iter().enumerate().map(|(at, extent)| is_known(at).then_some(*extent)).collect()
}

fn sum_of(view: &View) -> u32 {
    let bytes: Cow<[u8]> = view.bytes();
    crc32c(&bytes)
}

const WAYS: &str =
    "use another name for it, or put one of the arrays into a group, which those of meshes cannot be in";

impl Axes {
    /// Whether an array may have this name: that of an axis is kept for its coordinate.
    pub fn admit(&self, name: &str, held: &KnownArray, step: i64) -> Result<()> {
        if self.known.is_empty() {
            return Ok(());
        }
        let above =
            name.match_indices('/').map(|(at, _)| &name[..at]).find(|group| self.known.contains_key(*group));
        if let Some(axis) = above {
            return Err(Error::bad(format!(
                "{axis:?} is the name of an axis of {:?} in snapshot {step} and cannot be a group, as {name:?} would have it; rename one",
                self.known[axis].whose
            )));
        }
        let Some(axis) = self.known.get(name) else { return Ok(()) };
        if let Some((_, _, _, with)) = &axis.coordinate {
            return Err(Error::bad(format!(
                "{name:?} is in snapshot {step} already, as a coordinate that came with {with:?}; leave one of them out"
            )));
        }
        match held.is_coordinate_of(axis.extent) {
            true => Ok(()),
            false => Err(Error::bad(format!(
                "{name:?} is the name of an axis of {:?} in snapshot {step}, so an array of that name is its coordinate, with one axis{}; rename one",
                axis.whose,
                axis.extent.map_or(String::new(), |n| format!(" of {n} elements"))
            ))),
        }
    }

    /// Refuses what does not fit; nothing is changed.
    pub fn check(
        &self,
        name: &str,
        meta: &ArrayMeta,
        place: &Place,
        about: &About,
        names: &HashMap<String, KnownArray>,
        groups: &HashSet<String>,
    ) -> Result<()> {
        let description = about.description;
        description.check(name, meta)?;
        self.now(name, description).to_json().map_err(|e| e.within(format!("{name:?}")))?;
        if let Some(said) = self.said.get(name).filter(|said| *said != description) {
            return Err(Error::new(
                Code::Conflict,
                format!(
                    "{name:?} is described in two ways: by {said:?}, and now by {description:?}; say the same with each piece, or say it with one"
                ),
            ));
        }
        self.check_mesh(name, description)?;
        if description.dims.is_empty() && !about.coordinates.is_empty() {
            return Err(Error::bad(format!(
                "coords of {name:?} are given without dims; name each axis in dims, in its order"
            )));
        }
        let extents = extents_of(meta, place);
        for (dim, extent) in description.dims.iter().zip(&extents) {
            let path = axis_path(name, dim);
            if groups.contains(&path) {
                return Err(Error::bad(format!(
                    "the axis {dim:?} of {name:?} cannot be called as the group {path:?} of other arrays; {WAYS}"
                )));
            }
            let own = path == name;
            if own && description.dims.len() > 1 {
                return Err(Error::bad(format!(
                    "{name:?} has several axes and calls one {dim:?}, which is its own name; {WAYS}"
                )));
            }
            if let Some(axis) =
                self.known.get(&path).filter(|a| a.extent.zip(*extent).is_some_and(|(a, b)| a != b))
            {
                return Err(Error::new(
                    Code::Conflict,
                    format!(
                        "the axis {dim:?} has {} elements in {:?} and {} in {name:?}; {WAYS}",
                        axis.extent.unwrap_or(0),
                        axis.whose,
                        extent.unwrap_or(0)
                    ),
                ));
            }
            if let Some(held) = names.get(&path).filter(|held| !own && !held.is_coordinate_of(*extent)) {
                let elements = extent.map_or(String::new(), |n| format!(" with {n} elements"));
                return Err(Error::bad(format!(
                    "{path:?} is in the snapshot already, with {} axes, and is no coordinate for the axis {dim:?} of {name:?}{elements}; {WAYS}",
                    held.axes
                )));
            }
        }
        about.coordinates.iter().enumerate().try_for_each(|(at, c)| {
            if about.coordinates[..at].iter().any(|other| other.dim == c.dim) {
                return Err(Error::bad(format!("coords of {name:?} have {:?} twice", c.dim)));
            }
            self.check_coordinate(name, about, c, &extents, names)
        })
    }

    /// The components of a mesh lie on one grid.
    fn check_mesh(&self, name: &str, description: &Description) -> Result<()> {
        let Some(mesh) = &description.mesh else { return Ok(()) };
        let Some(first) = self.meshes.get(&mesh.name).filter(|first| *first != name) else { return Ok(()) };
        let Some(known) = self.said.get(first) else { return Ok(()) };
        let goes = known.mesh.as_ref().is_some_and(|other| mesh.goes_with(other));
        match goes && known.dims == description.dims {
            true => Ok(()),
            false => Err(Error::new(
                Code::Conflict,
                format!(
                    "{name:?} and {first:?} are not of one mesh {:?}: give all its components the same dims, spacing and origin, or another name",
                    mesh.name
                ),
            )),
        }
    }

    fn check_coordinate(
        &self,
        name: &str,
        about: &About,
        c: &Coordinate,
        extents: &[Option<u64>],
        names: &HashMap<String, KnownArray>,
    ) -> Result<()> {
        check_unit(c.units)?;
        let (dim, dims) = (c.dim, &about.description.dims);
        let Some(at) = dims.iter().position(|d| d == dim) else {
            return Err(Error::bad(format!(
                "coords of {name:?} have {dim:?}, and dims = {dims:?} has no such axis; name each axis in dims, or put {dim:?} as an array of its own"
            )));
        };
        let meta = c.view.meta();
        if meta.dtype == DType::Bytes || axes(meta).len() != 1 {
            return Err(Error::bad(format!(
                "the coordinate {dim:?} of {name:?} is {meta}; give one number, or one text, for each index along the axis"
            )));
        }
        if extents[at].is_some_and(|n| n != axes(meta)[0]) {
            return Err(Error::bad(format!(
                "the coordinate {dim:?} of {name:?} has {} elements, and the axis has {}; give the whole of it, in every rank alike or in one",
                axes(meta)[0],
                extents[at].unwrap_or(0)
            )));
        }
        let path = axis_path(name, dim);
        let known = self.known.get(&path).and_then(|axis| axis.coordinate.as_ref());
        match known {
            Some((dtype, sum, units, with)) => {
                let is_same = *dtype == meta.dtype && *sum == sum_of(&c.view) && units == c.units;
                match is_same {
                    true => Ok(()),
                    false => Err(Error::new(
                        Code::Conflict,
                        format!(
                            "the coordinate {dim:?} of {name:?} is another one than that of {with:?}; {WAYS}"
                        ),
                    )),
                }
            }
            None if names.contains_key(&path) || path == name => Err(Error::bad(format!(
                "{path:?} is in the snapshot already, as an array of its own, and is the coordinate of {name:?} by its name: leave it out of coords"
            ))),
            None => Ok(()),
        }
    }

    /// Takes up what an array says: its JSON, if it is new, and the coordinates that are.
    pub fn note<'a>(
        &mut self,
        name: &str,
        meta: &ArrayMeta,
        place: &Place,
        about: About<'a>,
    ) -> Result<(Option<String>, Vec<New<'a>>)> {
        let description = about.description;
        for (dim, extent) in description.dims.iter().zip(extents_of(meta, place)) {
            let axis = self.known.entry(axis_path(name, dim)).or_insert_with(|| Axis {
                extent: None,
                whose: name.to_owned(),
                coordinate: None,
            });
            axis.extent = axis.extent.or(extent);
        }
        let mut new = Vec::new();
        for c in about.coordinates {
            let path = axis_path(name, c.dim);
            let Some(axis) = self.known.get_mut(&path).filter(|axis| axis.coordinate.is_none()) else {
                continue;
            };
            let sum = sum_of(&c.view);
            axis.coordinate = Some((c.view.meta().dtype, sum, c.units.to_owned(), name.to_owned()));
            new.push((path, *c, sum));
        }
        let is_new = !description.is_empty() && !self.said.contains_key(name);
        let json = if is_new { Some(self.now(name, description).to_json()?) } else { None };
        if is_new {
            self.said.insert(name.to_owned(), description.clone());
            if let Some(mesh) = &description.mesh {
                self.meshes.entry(mesh.name.clone()).or_insert_with(|| name.to_owned());
            }
        }
        Ok((json, new))
    }

    /// Changes attributes of an array of that dtype, null values delete; the JSON of what it says now.
    pub fn change(&mut self, name: &str, dtype: DType, change: Map<String, Value>) -> Result<String> {
        let of = |e: Error| e.within(format!("{name:?}"));
        let fills = self.said.get(name).is_some_and(|said| said.filled.is_some());
        if fills && change.contains_key("_FillValue") {
            return Err(of(Error::bad(
                "its attribute \"_FillValue\" is what stands where no rank puts anything; say it with fill, alike in all ranks",
            )));
        }
        let mut changed = self.changed.get(name).cloned().unwrap_or_default();
        for (key, value) in change {
            let value = attribute_among(&key, value, dtype).map_err(of)?;
            changed.insert(key, value);
        }
        let description = laid_over(self.said.get(name).cloned().unwrap_or_default(), &changed);
        description.check_attrs(name)?;
        let json = description.to_json().map_err(of)?;
        self.changed.insert(name.to_owned(), changed);
        Ok(json)
    }

    /// What came with an array, with what was changed since.
    fn now<'a>(&self, name: &str, said: &'a Description) -> Cow<'a, Description> {
        match self.changed.get(name) {
            None => Cow::Borrowed(said),
            Some(changed) => Cow::Owned(laid_over(said.clone(), changed)),
        }
    }

    /// What readers of openPMD and VTKHDF do not get of a mesh or of particles, for people.
    pub fn remarks(&mut self, name: &str, units: &str, meta: &ArrayMeta, about: &About) -> Vec<String> {
        let Description { mesh, species, dims, .. } = about.description;
        if mesh.is_none() && species.is_none() {
            return Vec::new();
        }
        let constants =
            species.iter().flat_map(|s| s.constants.iter().map(|(record, c)| (record.as_str(), &c.units)));
        let mut all = vec![(name, units)];
        all.extend(constants.map(|(record, units)| (record, units.as_str())));
        let unknown = |(name, units): (&str, &str)| {
            let why = Unit::parse(units).err().filter(|_| !units.is_empty())?;
            Some(format!(
                "the unit {units:?} of {name:?} is {why}: readers of openPMD get it as a text, with numbers as they are and no dimension"
            ))
        };
        let mut said: Vec<String> = all.into_iter().filter_map(unknown).collect();
        if meta.dtype == DType::F16 {
            said.push(format!(
                "{name:?} is in the run, and not among the meshes and particles of openPMD and VTKHDF: their readers have no f16; give it as f32"
            ));
        }
        let Some(mesh) = mesh else { return said };
        said.extend(self.mixed(name, meta, dims));
        let is_bent = |c: &&Coordinate| dims.iter().any(|dim| dim == c.dim) && !is_uniform(&c.view);
        if mesh.spacing.is_empty()
            && let Some(c) = about.coordinates.iter().find(is_bent)
        {
            said.push(format!(
                "the mesh {:?} is in the run, and not among the meshes of openPMD and VTKHDF: its coordinate {:?} does not rise by the same distance everywhere",
                mesh.name, c.dim
            ));
        }
        said
    }

    /// Says, once in a snapshot, that meshes do not have their axes in one order.
    fn mixed(&mut self, name: &str, meta: &ArrayMeta, dims: &[String]) -> Option<String> {
        let mut axes = dims.to_vec();
        if meta.order == Order::C {
            axes.reverse();
        }
        let Some((first, known)) = &self.frame else {
            self.frame = Some((name.to_owned(), axes));
            return None;
        };
        let n = known.len().min(axes.len());
        if self.is_mixed || known[..n] == axes[..n] {
            return None;
        }
        self.is_mixed = true;
        Some(format!(
            "the meshes {first:?} and {name:?} have their axes in different orders, {known:?} and {axes:?} from the last one in the file on: VTK 9.7 turns them into one picture, VTK 9.5 does not; give all meshes of a snapshot the same order, the fastest axis last, as dims=(\"z\", \"y\", \"x\")"
        ))
    }
}

fn is_uniform(view: &View) -> bool {
    uniform(&view.bytes(), view.meta().dtype).is_some()
}

fn laid_over(mut said: Description, changed: &Map<String, Value>) -> Description {
    for (key, value) in changed {
        match value {
            Value::Null => said.attrs.remove(key),
            value => said.attrs.insert(key.clone(), value.clone()),
        };
    }
    said
}

/// A unit is short.
pub fn check_unit(units: &str) -> Result<()> {
    if units.len() > limits::UNIT_BYTES || units.chars().any(char::is_control) {
        return Err(Error::bad(format!(
            "the unit {units:?} is longer than {} bytes or has control characters; write for example \"m/s\"",
            limits::UNIT_BYTES
        )));
    }
    Ok(())
}
