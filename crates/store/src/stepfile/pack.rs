//! Packs: many small steps of one layout in one file of stacked arrays.
//!
//! ```text
//!  /time  (steps,)  the first axis of all: DIMENSION_SCALE; where times lack or do not rise it is /step
//!  /step  (steps,)
//!  /T     (steps, 4, 8)   contiguous: slot k begins k * stride bytes behind the first one
//!  /x     (8,)            a coordinate is the same in all steps, and there once
//!  /forebay/manifest      what and where, and a checksum for each array of each slot
//! ```

use super::hdf::{Frame, Opened, Unlike, describe_array, has_text, laid_out, layout_of, read_told, text};
use super::manifest::{sealed, unsealed};
use super::scales::{Axis, Labelled, attribute, label};
use super::{Back, Entry, MANIFEST, Manifest, Piece, read_piece};
use crate::disk::{Disk, Foreign, failed, foreign, write_all};
use crate::layout::FORMAT;
use forebay_arena::Lent;
use forebay_types::control::Heads;
use forebay_types::{
    ArrayMeta, Code, DType, Description, Error, Order, Result, Shape, axes, axis_path, crc32c, native,
};
use hdf5::types::{FloatSize, IntSize, TypeDescriptor};
use hdf5_metno as hdf5;
use rustix::fs::{Advice, fadvise};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::path::Path;

/// So many bytes of an array are gathered before they are written.
const GATHERED: usize = 256 << 10;
/// The axis over the steps, where times rise and where they do not.
const TIME: &str = "time";
const STEP: &str = "step";

/// Everything that a pack says about itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PackManifest {
    /// Format of the run.
    pub format: u32,
    /// Identity of the run.
    pub run_id: String,
    /// The times that the run went back to a checkpoint before.
    #[serde(default)]
    pub backs: Vec<Back>,
    /// The arrays.
    pub arrays: Vec<Stacked>,
    /// The steps, in order.
    pub steps: Vec<PackSlot>,
}

/// An array of all steps of a pack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stacked {
    /// What it is at one step; its offset is that of the first one.
    pub array: Entry,
    /// Bytes from one step to the next; 0 of what is the same in all of them.
    pub stride: u64,
    /// The checksum of each.
    pub crc32c: Vec<u32>,
}

/// A step of a pack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PackSlot {
    /// Its number.
    pub step: i64,
    /// Its time, if given.
    pub time: Option<f64>,
    /// Values of the parameters, if they are not those of the step before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Map<String, Value>>,
    /// Its number among all steps of the run, in the order they were finished.
    pub serial: u64,
    /// Where a loop may go on from it, if its number does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heads: Option<Heads>,
}

impl Stacked {
    /// Whether it is there once for all steps.
    pub fn is_once(&self) -> bool {
        self.stride == 0 && self.array.nbytes() > 0
    }

    /// It at one step.
    pub fn entry(&self, slot: usize) -> Entry {
        let sum = self.crc32c.get(slot).copied().unwrap_or_default();
        slot_entry(&self.array, self.stride, slot as u64, sum)
    }
}

/// An array of a pack at one step; `array` is it at the first one.
pub fn slot_entry(array: &Entry, stride: u64, slot: u64, crc32c: u32) -> Entry {
    let extents = array.meta.shape.extents().to_vec();
    let piece = Piece { offset: vec![0; extents.len()], shape: extents, crc32c, ..Piece::default() };
    let offset = array.offset.saturating_add(stride.saturating_mul(slot));
    Entry { offset, pieces: vec![piece], ..array.clone() }
}

impl PackManifest {
    /// What the file of that step would say of itself.
    pub fn manifest_of(&self, slot: usize) -> Manifest {
        let said = self.steps[..=slot].iter().rev().find_map(|s| s.parameters.as_ref());
        let PackSlot { step, time, serial, heads, .. } = self.steps[slot].clone();
        Manifest {
            format: self.format,
            run_id: self.run_id.clone(),
            step,
            time,
            parameters: said.cloned().unwrap_or_default(),
            serial,
            backs: self.backs.clone(),
            heads,
            data: self.arrays.iter().map(|a| a.entry(slot)).collect(),
            ..Manifest::default()
        }
    }

    /// In which slot a step is.
    pub fn slot_of(&self, step: i64) -> Option<usize> {
        self.steps.binary_search_by_key(&step, |s| s.step).ok()
    }

    fn from_json(json: &[u8]) -> Result<PackManifest> {
        let told: PackManifest = unsealed(json)?;
        let fits = |a: &Stacked| a.crc32c.len() == told.steps.len();
        match told.arrays.iter().all(fits) && told.steps.is_sorted_by(|a, b| a.step < b.step) {
            true => Ok(told),
            false => Err(Error::new(Code::Corrupt, "its manifest does not fit itself")),
        }
    }

    /// The arrays that are there once.
    fn scales(&self) -> BTreeSet<String> {
        let all: Vec<Labelled> = self.arrays.iter().map(|a| Labelled::of(&a.array)).collect();
        self.arrays.iter().map(|a| a.array.name.clone()).filter(|name| is_among(name, &all)).collect()
    }

    fn times(&self) -> Vec<f64> {
        self.steps.iter().map(|s| s.time.unwrap_or(f64::NAN)).collect()
    }

    /// The name of the axis over the steps.
    fn lead(&self) -> &'static str {
        if self.times().is_sorted_by(|a, b| a < b) && !self.times().iter().any(|t| t.is_nan()) {
            TIME
        } else {
            STEP
        }
    }
}

/// Reads what a pack says of itself.
pub fn open_pack(path: &Path) -> Result<PackManifest> {
    read_told(path, PackManifest::from_json)
}

/// Whether an array is the scale of an axis, one of those where the scales of `all` lie.
fn is_among(name: &str, all: &[Labelled]) -> bool {
    all.iter().flat_map(|a| &a.axes).any(|axis| axis.path == name)
}

/// Whether an array is a coordinate of others: it is there once in a pack. `all` are the arrays of the step.
pub fn is_scale<'a>(name: &str, mut all: impl Iterator<Item = (&'a str, &'a Description)>) -> bool {
    all.any(|(of, about)| about.dims.iter().any(|dim| axis_path(of, dim) == name))
}

/// Why steps of this layout cannot be stacked; nothing when they can.
pub fn why_not_stacked(arrays: &[Entry]) -> Option<String> {
    let is_taken = |path: &str| {
        [TIME, STEP]
            .iter()
            .any(|own| path == *own || path.strip_prefix(own).is_some_and(|r| r.starts_with('/')))
    };
    arrays.iter().find_map(|e| {
        let name = &e.name;
        let of_axes = || e.about.dims.iter().find(|dim| is_taken(&axis_path(name, dim)));
        match () {
            () if e.elsewhere().is_some() => {
                Some(format!("{name:?} is a constant of the run, which lies in a file of its own"))
            }
            () if e.compressed().is_some() => Some(format!("{name:?} is compressed")),
            () if is_taken(name) => Some(format!("{name:?} has a name that the axis over the steps needs")),
            () => of_axes().map(|dim| {
                format!("{name:?} has an axis {dim:?}, a name that the axis over the steps needs")
            }),
        }
    })
}

/// What the arrays of a pack are to those who read it as netCDF-4: each axis has a name.
fn labelled(m: &PackManifest) -> Vec<Labelled> {
    let scales = m.scales();
    let lead = Axis { path: m.lead().to_owned(), extent: m.steps.len() as u64 };
    let mut all: Vec<Labelled> = Vec::new();
    for Stacked { array, .. } in m.arrays.iter().filter(|a| !scales.contains(&a.array.name)) {
        let mut own = Labelled::of(array);
        if array.about.dims.is_empty() {
            let unnamed = |(axis, extent): (usize, &u64)| Axis {
                path: format!("dim_{axis}_{extent}"),
                extent: *extent,
            };
            own.axes = axes(&array.meta).iter().enumerate().map(unnamed).collect();
            if array.meta.order == Order::F {
                own.axes.reverse();
            }
        }
        // An array of the user's may be called so.
        if own
            .axes
            .iter()
            .any(|axis| array.about.dims.is_empty() && m.arrays.iter().any(|a| a.array.name == axis.path))
        {
            continue;
        }
        own.axes.insert(0, lead.clone());
        all.push(own);
    }
    let along = |name: &str| Labelled { name: name.to_owned(), axes: vec![lead.clone()] };
    all.extend([TIME, STEP].map(along));
    all
}

/// The type and the extents of an array of so many steps, of which `scales` are there once.
fn stacked_layout(array: &Entry, steps: usize, scales: &BTreeSet<String>) -> (TypeDescriptor, Vec<usize>) {
    let (descriptor, mut dims) = layout_of(&array.meta);
    if !scales.contains(&array.name) {
        dims.insert(0, steps);
    }
    (descriptor, dims)
}

/// Lays out the arrays; their places are noted in the manifest.
fn lay_out(file: &hdf5::File, m: &mut PackManifest) -> hdf5::Result<()> {
    let (steps, scales) = (m.steps.len(), m.scales());
    for Stacked { array, .. } in &mut m.arrays {
        let (descriptor, dims) = stacked_layout(array, steps, &scales);
        let set = laid_out(file, &array.name, descriptor, dims)?;
        array.offset = set.offset().unwrap_or(0);
    }
    Ok(())
}

fn describe(file: &hdf5::File, m: &PackManifest) -> hdf5::Result<()> {
    file.new_attr::<u32>().create("forebay_format")?.write_scalar(&m.format)?;
    text(file, "forebay_run", &m.run_id)?;
    for Stacked { array, .. } in &m.arrays {
        let set = file.dataset(&array.name)?;
        describe_array(&set, &array.meta, &array.units)?;
        array.about.attrs.iter().try_for_each(|(key, value)| attribute(&set, key, &native(value)))?;
    }
    let numbers = |name: &str, descriptor: TypeDescriptor| {
        file.new_dataset_builder().empty_as(descriptor).shape(m.steps.len()).no_chunk().create(name)
    };
    numbers(STEP, TypeDescriptor::Integer(IntSize::U8))?
        .write_raw(&m.steps.iter().map(|s| s.step).collect::<Vec<i64>>())?;
    numbers(TIME, TypeDescriptor::Float(FloatSize::U8))?.write_raw(&m.times())?;
    // The other one is a coordinate, too.
    text(file, "coordinates", if m.lead() == TIME { STEP } else { TIME })?;
    label(file, &labelled(m), |path| {
        [TIME, STEP].contains(&path) || m.arrays.iter().any(|a| a.array.name == path)
    })
}

/// Takes the bytes of an array, by its number.
pub type Put<'a> = dyn FnMut(usize, &[u8]) -> Result<()> + 'a;

/// Writes a pack under the name of an unfinished file, and makes it durable. `told` has the arrays of one step, without
/// places, and all steps; `read` gives those of each to its second argument, one after the other.
pub fn write_pack(
    disk: &dyn Disk,
    tmp: &Path,
    told: (PackManifest, Vec<Entry>),
    read: &mut dyn FnMut(usize, &mut Put) -> Result<()>,
) -> Result<PackManifest> {
    let (mut m, arrays) = told;
    m.format = FORMAT;
    let scales: Vec<Labelled> = arrays.iter().map(Labelled::of).collect();
    let stacked = |array: Entry| {
        let stride = if is_among(&array.name, &scales) { 0 } else { array.nbytes() };
        Stacked { array: Entry { pieces: Vec::new(), offset: 0, ..array }, stride, crc32c: Vec::new() }
    };
    m.arrays = arrays.into_iter().map(stacked).collect();
    let wrong = |what: &str, e| failed(format!("cannot {what} {}", tmp.display()), e);
    let frame = foreign(disk, Foreign::Frame, tmp, || Frame::create(tmp))?;
    foreign(disk, Foreign::Frame, tmp, || frame.with(tmp, "cannot lay out", |file| lay_out(file, &mut m)))?;
    let file = disk.open(tmp, OpenOptions::new().write(true)).map_err(|e| wrong("write", e))?;
    for Stacked { array, stride, .. } in m.arrays.iter().filter(|a| a.array.nbytes() > 0) {
        let slots = if *stride == 0 { 1 } else { m.steps.len() as u64 };
        disk.reserve(file.as_fd(), array.offset, array.nbytes() * slots).map_err(|e| wrong("write", e))?;
    }
    let mut gathered: Vec<Gathered> = m.arrays.iter().map(|a| Gathered::at(a.array.offset)).collect();
    let write = |bytes: &[u8], at: u64| {
        write_all(disk, file.as_fd(), Lent::of(bytes), at).map_err(|e| wrong("write", e))
    };
    for slot in 0..m.steps.len() {
        let arrays = &mut m.arrays;
        read(slot, &mut |i, bytes| {
            let Stacked { array, stride, crc32c: sums } = &mut arrays[i];
            let sum = crc32c(bytes);
            sums.push(sum);
            if *stride == 0 && slot > 0 {
                return match sums[0] == sum {
                    true => Ok(()),
                    false => Err(Error::internal(format!("the coordinate {:?} is another one", array.name))),
                };
            }
            gathered[i].take(bytes, &write)
        })?;
    }
    gathered.iter_mut().try_for_each(|g| g.write(&write))?;
    let json = sealed(&m)?;
    let manifest = ArrayMeta::new(DType::Str, Shape::new(&[json.len() as u64])?);
    let mut at = 0;
    foreign(disk, Foreign::Frame, tmp, || {
        frame.with(tmp, "cannot describe", |file| describe(file, &m))?;
        at = frame.add(tmp, MANIFEST, &manifest, "")?;
        frame.flush(tmp)
    })?;
    write(&json, at)?;
    foreign(disk, Foreign::Frame, tmp, || frame.close(tmp))?;
    disk.sync(file.as_fd()).map_err(|e| wrong("make durable", e))?;
    Ok(m)
}

/// Bytes that go to the file one behind the other.
struct Gathered {
    at: u64,
    bytes: Vec<u8>,
}

impl Gathered {
    fn at(at: u64) -> Gathered {
        Gathered { at, bytes: Vec::new() }
    }

    fn take(&mut self, bytes: &[u8], write: &dyn Fn(&[u8], u64) -> Result<()>) -> Result<()> {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() >= GATHERED { self.write(write) } else { Ok(()) }
    }

    fn write(&mut self, write: &dyn Fn(&[u8], u64) -> Result<()>) -> Result<()> {
        write(&self.bytes, self.at)?;
        self.at += self.bytes.len() as u64;
        self.bytes.clear();
        Ok(())
    }
}

/// Reads a pack as the disk has it and compares it with what was written.
pub fn read_back(path: &Path, m: &PackManifest) -> Result<()> {
    let file = File::open(path).map_err(|e| failed(format!("cannot read {}", path.display()), e))?;
    // Else memory would be compared with itself.
    let _ = fadvise(&file, 0, None, Advice::DontNeed);
    let other = |what: &str| {
        Error::new(
            Code::Corrupt,
            format!("{} does not read as it was written: {what}; the disk fails", path.display()),
        )
    };
    if open_pack(path)? != *m {
        return Err(other("its manifest"));
    }
    for a in &m.arrays {
        for slot in 0..if a.stride == 0 { m.steps.len().min(1) } else { m.steps.len() } {
            let entry = a.entry(slot);
            if read_piece(&file, &entry, &entry.pieces[0])? != a.crc32c[slot] {
                return Err(other(&format!("{:?} of step {}", entry.name, m.steps[slot].step)));
            }
        }
    }
    Ok(())
}

/// What a pack says in the words of HDF5, for whoever reads it without Forebay, and is not what its manifest says.
pub fn unlike_pack(path: &Path, m: &PackManifest) -> Vec<String> {
    let opened = match Opened::open(path) {
        Ok(opened) => opened,
        Err(e) => return vec![e.to_string()],
    };
    opened.ask(|file| words(file, m)).unwrap_or_default()
}

fn words(file: &hdf5::File, m: &PackManifest) -> Vec<String> {
    let mut found = Unlike::default();
    found.look("the attribute \"forebay_run\"".into(), has_text(file, "forebay_run", &m.run_id));
    let steps: Vec<i64> = m.steps.iter().map(|s| s.step).collect();
    found.look("\"step\"".into(), file.dataset(STEP).and_then(|set| Ok(set.read_raw::<i64>()? == steps)));
    let bits = |times: Vec<f64>| times.into_iter().map(f64::to_bits).collect::<Vec<u64>>();
    found.look(
        "\"time\"".into(),
        file.dataset(TIME).and_then(|set| Ok(bits(set.read_raw()?) == bits(m.times()))),
    );
    let with_axes: BTreeMap<String, usize> =
        labelled(m).into_iter().map(|l| (l.name, l.axes.len())).collect();
    let scales = m.scales();
    for Stacked { array, .. } in &m.arrays {
        let name = &array.name;
        let Ok(set) = file.dataset(name) else {
            found.look(format!("the data set {name:?}"), Ok(false));
            continue;
        };
        found.look_at(&set, array, stacked_layout(array, m.steps.len(), &scales));
        found.look(
            format!("the place of {name:?}"),
            Ok(array.nbytes() == 0 || set.offset() == Some(array.offset)),
        );
        for key in array.about.attrs.keys().filter(|key| set.attr(key).is_err()) {
            found.look(format!("the attribute {key:?} of {name:?}"), Ok(false));
        }
        if let Some(n) = with_axes.get(name) {
            let shape = set.attr("DIMENSION_LIST").map(|list| list.shape() == [*n]);
            found.look(format!("the attribute \"DIMENSION_LIST\" of {name:?}"), shape);
        }
    }
    found.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::System;

    fn array(name: &str, extents: &[u64], dims: &[&str], order: Order) -> Entry {
        let meta = ArrayMeta { dtype: DType::F64, shape: Shape::new(extents).unwrap(), order };
        let dims = dims.iter().map(|d| (*d).to_owned()).collect();
        let about = Description { dims, ..Description::default() };
        Entry { name: name.into(), meta, units: "K".into(), offset: 0, pieces: Vec::new(), about }
    }

    #[test]
    fn a_pack_reads_back_as_it_was_written_and_tells_each_byte_that_changed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.h5");
        let arrays = vec![
            array("T", &[2, 3], &["y", "x"], Order::C),
            array("g/F", &[2, 3], &[], Order::F),
            array("none", &[0], &[], Order::C),
            array("one", &[], &[], Order::C),
            array("x", &[3], &["x"], Order::C),
        ];
        let one = serde_json::json!({"e": 1}).as_object().cloned();
        let slot = |n: i64| PackSlot {
            step: 10 * n,
            time: Some(n as f64),
            parameters: one.clone().filter(|_| n == 0),
            serial: n as u64 + 1,
            heads: None,
        };
        let told =
            PackManifest { run_id: "ab".into(), steps: (0..4).map(slot).collect(), ..Default::default() };
        let value = |slot: usize, i: usize| if i == 4 { 7.0 } else { (10 * slot + i) as f64 };
        let bytes = |slot, array: &Entry, i| value(slot, i).to_le_bytes().repeat(array.nbytes() as usize / 8);
        let m = write_pack(&System, &path, (told, arrays.clone()), &mut |slot, put| {
            arrays.iter().enumerate().try_for_each(|(i, e)| put(i, &bytes(slot, e, i)))
        })
        .unwrap();
        read_back(&path, &m).unwrap();
        assert_eq!(unlike_pack(&path, &m), [""; 0]);
        assert_eq!((m.arrays[0].stride, m.arrays[4].stride, m.lead()), (48, 0, TIME));
        let of = m.manifest_of(2);
        assert_eq!((of.step, of.serial, of.parameters["e"].clone()), (20, 3, 1.into()));
        assert_eq!(of.data[0].offset, m.arrays[0].array.offset + 96);
        let whole = std::fs::read(&path).unwrap();
        for at in [of.data[0].offset, of.data[1].offset + 47, of.data[4].offset] {
            let mut damaged = whole.clone();
            damaged[at as usize] ^= 1;
            std::fs::write(&path, damaged).unwrap();
            assert_eq!(read_back(&path, &m).unwrap_err().code(), Code::Corrupt, "{at}");
        }
        std::fs::write(&path, &whole).unwrap();
        // Times that do not rise are no axis.
        let mut flat = m.clone();
        flat.steps[3].time = None;
        assert_eq!(flat.lead(), STEP);
        let taken = [array("T", &[1], &["time"], Order::C)];
        assert!(why_not_stacked(&taken).unwrap().contains("\"time\"") && why_not_stacked(&arrays).is_none());
    }
}
