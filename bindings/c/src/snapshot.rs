//! Snapshots being taken.

use std::borrow::Cow;
use std::ffi::{c_char, c_int};
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use forebay::{
    About, Allocated, ArrayMeta, ArrayOptions, Code, Compression, ConstantOptions, Coordinate, DType,
    Description, Error, Grid, Kept, Overlap, Place, Result, Snapshot, View, attribute_among,
    attribute_of_array, unit_among,
};

use crate::arrays::{Given, fb_array};
use crate::fault::{fb_status, status};
use crate::given::{self, Sized0};
use crate::handle;
use crate::kinds::{fb_dtype, fb_run, fb_snapshot};

/// What is behind an `fb_snapshot`.
pub enum SnapshotObject {
    /// One being taken, the places in the buffer that were given out for it, and how it came to its end.
    Taken { snapshot: Snapshot, rooms: Mutex<Vec<Allocated>>, fate: AtomicU8 },
    /// A complete one; whether its run had come to its end, when a restart gave it.
    Kept { snapshot: Kept, finished: bool, passed: Vec<i64> },
}

/// Of a snapshot being taken: how it came to its end.
const OPEN: u8 = 0;
const ENDED: u8 = 1;
const DISCARDED: u8 = 2;

impl SnapshotObject {
    /// Sets how it came to its end, if it had not before; how it did.
    fn settle(&self, fate: u8) -> u8 {
        match self {
            SnapshotObject::Taken { fate: own, .. } => {
                own.compare_exchange(OPEN, fate, Ordering::Relaxed, Ordering::Relaxed).err().unwrap_or(fate)
            }
            SnapshotObject::Kept { .. } => ENDED,
        }
    }

    /// The one being taken, and its places.
    pub fn taken(&self) -> Result<(&Snapshot, &Mutex<Vec<Allocated>>)> {
        match self {
            SnapshotObject::Taken { snapshot, rooms, .. } => Ok((snapshot, rooms)),
            SnapshotObject::Kept { snapshot, .. } => Err(Error::bad(format!(
                "the snapshot {} is complete and can only be read; begin a new one with fb_snapshot_begin",
                snapshot.step()
            ))),
        }
    }

    /// The complete snapshot.
    pub fn kept(&self) -> Result<&Kept> {
        match self {
            SnapshotObject::Kept { snapshot, .. } => Ok(snapshot),
            SnapshotObject::Taken { snapshot, .. } => Err(Error::bad(format!(
                "the snapshot {} is being taken; read it, when it is ended, with fb_snapshot_at",
                snapshot.step()
            ))),
        }
    }
}

/// The values along an axis of an array of a snapshot. They become an array of the snapshot, beside that one, under the
/// name of the axis, and arrays beside each other share them.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_coord {
    /// The axis: one of fb_piece_opts.dims.
    pub dim: *const c_char,
    /// One number for each index along the whole axis, of all ranks alike or of one: an array of one dimension; of FB_STR
    /// one of two, the last of which counts bytes.
    pub values: *const fb_array,
    /// Unit, such as "m"; NULL: none.
    pub units: *const c_char,
}

/// What may go with an array of a snapshot. Zero is the default of every member.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_piece_opts {
    /// sizeof(fb_piece_opts).
    pub size: usize,
    /// Unit, such as "V/m"; NULL: none.
    pub units: *const c_char,
    /// Names of its axes, `ndims` of them: one for each index; of FB_STR the last extent, which counts bytes, has none.
    /// NULL: they have no names.
    pub dims: *const *const c_char,
    /// Number of names.
    pub ndims: c_int,
    /// Number of coordinates.
    pub ncoords: c_int,
    /// Values along some of the axes, `ncoords` of them.
    pub coords: *const fb_coord,
    /// Attributes as a JSON object; NULL: none. fb_attr_put adds others, up to the end of the snapshot.
    pub attrs: *const c_char,
    /// What holds where blocks of ranks lie over each other: that is an error, "refuse" (NULL); they have the same bits
    /// there, "equal" (other ones are a late FB_CONFLICT, and the highest rank's are kept); the highest rank's block counts,
    /// "last". All ranks say the same, with offset and global. The blocks wait in the buffer until the lower ranks have
    /// ended the snapshot.
    pub overlap: *const c_char,
    /// Of a mesh (fb_snapshot_mesh): the distance from one point to the next along each axis, as many numbers as there are
    /// axes; NULL: as coords have it, or 1.
    pub spacing: *const f64,
    /// Of a mesh: where its first point is, a number for each axis; NULL: as coords have it, or 0.
    pub origin: *const f64,
    /// Of a mesh: where in its cell the field is, as a part of the spacing from 0 to less than 1, a number for each
    /// axis; NULL: 0.
    pub position: *const f64,
    /// The value of elements that no rank puts, one number or truth value, FB_ONE(&missing, FB_F64); NULL: the blocks of all
    /// ranks must cover the whole. Given with offset and global; it must be a value of the array's dtype, is kept as the
    /// attribute "_FillValue", and all ranks say the same. fb_run_stats counts such elements.
    pub fill: *const fb_array,
    /// "gzip": chunks of about a megabyte are compressed behind the program's back, by threads that run when nobody else
    /// wants the processor; every reader of HDF5 reads them. What does not become smaller by a twentieth, and less than
    /// 64 KiB, is kept as it is. "zstd": faster; netCDF reads it, and h5py with the package hdf5plugin. "none": not. Not
    /// together with overlap. NULL: as fb_open_opts.compress says.
    pub compress: *const c_char,
    /// Keeps the array with less precision: FB_F64 as FB_F32 or FB_F16, FB_F32 as FB_F16, FB_C128 as FB_C64, and integers as
    /// shorter ones, if every value is one of these (FB_BAD_ARGUMENT names the first that is not). 0: as it is. It is converted
    /// while it is copied, rounded to the nearest; the attribute "original_dtype" has the dtype that it had. fb_run_stats counts
    /// finite values that are infinite there. Not of what is allocated.
    pub as_dtype: fb_dtype,
}

// SAFETY: numbers and pointers, the size first.
unsafe impl Sized0 for fb_piece_opts {}

/// What a caller says of an array, checked.
pub struct Said<'a> {
    units: Cow<'a, str>,
    overlap: Option<Overlap>,
    compress: Option<Option<Compression>>,
    description: Description,
    coordinates: Vec<Coordinate<'a>>,
    points: [(&'static str, *const f64); 3],
    as_dtype: Option<DType>,
}

impl<'a> Said<'a> {
    /// Of an array of that dtype.
    pub fn of(opts: *const fb_piece_opts, dtype: DType) -> Result<Said<'a>> {
        Said::checked(given::options(opts, "fb_piece_opts")?, dtype)
    }

    /// Of a record of particles, which has no more.
    pub fn of_record(
        (units, attrs, compress): (*const c_char, *const c_char, *const c_char),
        as_dtype: fb_dtype,
        dtype: DType,
    ) -> Result<Said<'a>> {
        let none = given::options(ptr::null(), "fb_piece_opts")?;
        Said::checked(fb_piece_opts { units, attrs, compress, as_dtype, ..none }, dtype)
    }

    fn checked(opts: fb_piece_opts, dtype: DType) -> Result<Said<'a>> {
        let as_dtype = if opts.as_dtype == 0 { None } else { Some(given::dtype(opts.as_dtype)?) };
        let dtype = as_dtype.unwrap_or(dtype);
        let dims = given::texts(opts.dims, counted(opts.dims, opts.ndims, "dims")?, "dims")?;
        let coords =
            given::slice(opts.coords, counted(opts.coords, opts.ncoords, "coords")?.into(), "coords")?;
        let mut description =
            Description { dims: dims.iter().map(|d| (*d).to_owned()).collect(), ..Default::default() };
        let mut units: Cow<str> = given::optional_text(opts.units, "units")?.unwrap_or("").into();
        if let Some(attrs) = given::optional_text(opts.attrs, "attrs")? {
            let mut attrs = forebay::attributes(attrs)?;
            attrs.retain(|_, value| !value.is_null());
            if let Some(found) = unit_among(&mut attrs, &units)? {
                units = found.into();
            }
            for (key, value) in attrs {
                let value = attribute_among(&key, value, dtype)?;
                description.attrs.insert(key, value);
            }
        }
        if !opts.fill.is_null() {
            let of = |e: Error| e.within("fill");
            let one = Given::of(opts.fill, "fill")?;
            let value = attribute_of_array(&one.meta, &one.view().map_err(of)?.bytes()).map_err(of)?;
            description.fill_with(value, dtype)?;
        }
        Ok(Said {
            units,
            overlap: Overlap::parse(given::optional_text(opts.overlap, "overlap")?.unwrap_or("refuse"))?,
            compress: given::optional_text(opts.compress, "compress")?.map(Compression::parse).transpose()?,
            description,
            coordinates: coords.iter().map(coordinate).collect::<Result<_>>()?,
            points: [("spacing", opts.spacing), ("origin", opts.origin), ("position", opts.position)],
            as_dtype,
        })
    }

    /// The elements of an array, as they are kept.
    pub fn view<'v>(&self, array: &Given) -> Result<View<'v>> {
        let view = array.view()?;
        self.as_dtype.map_or(Ok(view), |dtype| view.reduced(dtype))
    }

    /// The same of an array that the program fills in place.
    pub fn in_place(self) -> Result<Said<'a>> {
        match self.as_dtype {
            None => Ok(self),
            Some(dtype) => Err(Error::bad(format!(
                "as_dtype = {dtype} keeps with less precision what is copied, and an array that is filled in place is not; allocate it with that dtype"
            ))),
        }
    }

    /// Where the points of a mesh of so many axes are.
    pub fn grid(&self, rank: usize) -> Result<Grid<'a>> {
        let of = |(what, numbers): (&str, *const f64)| match numbers.is_null() {
            true => Ok(&[][..]),
            false => given::slice(numbers, rank as i64, what),
        };
        let [spacing, origin, position] = self.points;
        Ok(Grid { spacing: of(spacing)?, origin: of(origin)?, position: of(position)? })
    }

    /// The same of an array that is no mesh.
    pub fn plain(self) -> Result<Said<'a>> {
        match self.points.iter().find(|(_, numbers)| !numbers.is_null()) {
            None => Ok(self),
            Some((what, _)) => Err(Error::bad(format!(
                "{what} says where the points of a mesh are, and this array is none; put it with fb_snapshot_mesh"
            ))),
        }
    }

    pub fn options(&self, place: Place) -> Result<ArrayOptions<'_>> {
        let about = About { description: &self.description, coordinates: &self.coordinates };
        let place = match (place, self.overlap) {
            (place, None) => place,
            (Place::At { offset, global }, Some(rule)) => Place::Over { offset, global, rule },
            _ => {
                return Err(Error::bad(
                    "overlap says what holds where blocks of ranks lie over each other: give offset and global with it",
                ));
            }
        };
        let says = !self.description.is_empty() || !self.coordinates.is_empty();
        let about = says.then_some(about);
        Ok(ArrayOptions { units: &self.units, place, about, compress: self.compress })
    }
}

/// How many there are of what is given.
fn counted<T>(given: *const T, count: c_int, what: &str) -> Result<c_int> {
    match count == 0 && !given.is_null() {
        true => Err(Error::bad(format!("{what} is given, and n{what} is 0; say how many there are"))),
        false => Ok(count),
    }
}

fn coordinate<'a>(one: &fb_coord) -> Result<Coordinate<'a>> {
    let dim = given::text(one.dim, "the axis of a coordinate")?;
    let of = |e: Error| e.within(format!("the coordinate {dim:?}"));
    Ok(Coordinate {
        dim,
        view: Given::of(one.values, "values").and_then(|values| values.view()).map_err(of)?,
        units: given::optional_text(one.units, "units")?.unwrap_or(""),
    })
}

/// FB_APPEND in the place of an offset.
const APPEND: usize = usize::MAX;

/// Where this rank's array lies: without offset and whole it is the whole, FB_APPEND is behind the
/// arrays of lower ranks.
pub fn place(rank: usize, offset: *const i64, global: *const i64) -> Result<Place> {
    let ndim = rank as c_int;
    match (offset.addr(), global.addr()) {
        (0, 0) => Ok(Place::Whole),
        (APPEND, _) => Ok(Place::Append),
        (0, _) | (_, 0) => {
            Err(Error::bad("offset and global go together: give both, neither, or FB_APPEND as offset"))
        }
        _ => Ok(Place::At {
            offset: given::shape(ndim, offset, "the offset")?,
            global: given::shape(ndim, global, "the global shape")?,
        }),
    }
}

/// Begins the snapshot of a step; `time` may be NAN. One at a time in a run.
///
/// Snapshot N is the state after N steps, which is what fb_step finds before it gives step N. Put arrays into it, then
/// end it. When that state is kept already, by Save or since fb_restart went back to it, all of that does nothing
/// (fb_snapshot_taken). FB_CONFLICT if the step exists otherwise, if the loop has ended at another one
/// (fb_position), or if another snapshot is not ended.
/// The handle stays good for fb_snapshot_wait; free it with fb_snapshot_free, or leave it to
/// fb_run_close.
#[unsafe(no_mangle)]
pub extern "C" fn fb_snapshot_begin(
    run: *mut fb_run,
    step: i64,
    time: f64,
    snapshot: *mut *mut fb_snapshot,
) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let out = given::out(snapshot, "snapshot")?;
        let snapshot = object.run.snapshot(step, (!time.is_nan()).then_some(time))?;
        let taken = SnapshotObject::Taken { snapshot, rooms: Mutex::default(), fate: AtomicU8::new(OPEN) };
        out.set(handle::give(taken, object.owner)?);
        Ok(())
    })
}

/// Whether the snapshot is taken; 0 in `taken` when its state is kept already, and nothing is to be done.
///
/// Insert rows of histories without asking for it: behind fb_restart the rows of its head go when the program comes to
/// that head, where the snapshot stands: rows that wait for a snapshot that is taken would not be made again.
#[unsafe(no_mangle)]
pub extern "C" fn fb_snapshot_taken(snapshot: *mut fb_snapshot, taken: *mut c_int) -> fb_status {
    status(|| {
        let object = handle::get(snapshot)?;
        given::out(taken, "taken")?.set(object.taken()?.0.taken().into());
        Ok(())
    })
}

/// Copies an array into the snapshot.
///
/// With `offset` and `global` NULL it is the whole array, of one rank. With both it is this rank's block
/// of an array of shape `global`. With FB_APPEND as `offset` it comes behind the arrays of lower ranks
/// along axis 0 (particles); `global` is not looked at. The data may be changed when it returns.
#[unsafe(no_mangle)]
pub extern "C" fn fb_snapshot_put(
    snapshot: *mut fb_snapshot,
    name: *const c_char,
    array: *const fb_array,
    offset: *const i64,
    global: *const i64,
) -> fb_status {
    fb_snapshot_put_with(snapshot, name, array, offset, global, ptr::null())
}

/// Copies an array into the snapshot, with a unit, names of its axes, coordinates and attributes; `opts` may be NULL.
/// `offset` and `global` say where it lies in the whole array, as for fb_snapshot_put. Ranks say the same of an array, or
/// one says it. FB_CONFLICT if an axis of that name has another coordinate, or another length, beside it.
#[unsafe(no_mangle)]
pub extern "C" fn fb_snapshot_put_with(
    snapshot: *mut fb_snapshot,
    name: *const c_char,
    array: *const fb_array,
    offset: *const i64,
    global: *const i64,
    opts: *const fb_piece_opts,
) -> fb_status {
    status(|| {
        let object = handle::get(snapshot)?;
        let name = given::text(name, "name")?;
        let given = Given::of(array, "array")?;
        let said = Said::of(opts, given.meta.dtype)?.plain()?;
        let place = place(given.meta.shape.rank(), offset, global)?;
        let view = said.view(&given).map_err(|e| e.within(format!("{name:?}")))?;
        object.taken()?.0.put(name, view, said.options(place)?)
    })
}

/// A place in the buffer for an array of the snapshot, to be filled in place: nothing is copied then.
/// `array` says dtype and shape, and its `data` gets the place; `strides` are NULL, or those of an array whose first
/// index runs fastest. It is good until the snapshot is ended, discarded or freed: its memory is used again then, and
/// who writes there damages other arrays. Its content is undefined at first.
/// `opts` may be NULL. FB_FULL if the policy is to drop and there is no room.
#[unsafe(no_mangle)]
pub extern "C" fn fb_snapshot_allocate(
    snapshot: *mut fb_snapshot,
    name: *const c_char,
    array: *mut fb_array,
    offset: *const i64,
    global: *const i64,
    opts: *const fb_piece_opts,
) -> fb_status {
    status(|| {
        let object = handle::get(snapshot)?;
        let name = given::text(name, "name")?;
        lend(&object, array, |snapshot, meta| {
            let said = Said::of(opts, meta.dtype)?.plain()?.in_place()?;
            snapshot.allocate(name, meta, said.options(place(meta.shape.rank(), offset, global)?)?)
        })
    })
}

/// Gives the caller a place in the buffer for an array, until the snapshot is over.
pub fn lend(
    object: &SnapshotObject,
    array: *mut fb_array,
    allocate: impl FnOnce(&Snapshot, ArrayMeta) -> Result<Allocated>,
) -> Result<()> {
    let meta = Given::of(array, "array")?.dense()?;
    let wanted = given::value(array, "array")?;
    let out = given::out(array, "array")?;
    let (snapshot, rooms) = object.taken()?;
    let room = allocate(snapshot, meta)?;
    out.set(fb_array { data: room.as_mut_ptr().cast(), ..wanted });
    rooms.lock().unwrap_or_else(PoisonError::into_inner).push(room);
    Ok(())
}

fn let_go(rooms: &Mutex<Vec<Allocated>>) {
    rooms.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

/// Ends the snapshot: it is buffered, that is, it survives the death of this process. Ending it twice
/// does nothing; FB_CLOSED if it was discarded.
#[unsafe(no_mangle)]
pub extern "C" fn fb_snapshot_end(snapshot: *mut fb_snapshot) -> fb_status {
    status(|| {
        let object = handle::get(snapshot)?;
        let (snapshot, rooms) = object.taken()?;
        snapshot.end()?;
        if object.settle(ENDED) == DISCARDED {
            let step = snapshot.step();
            return Err(Error::new(
                Code::Closed,
                format!("the snapshot {step} was discarded; begin it anew with fb_snapshot_begin"),
            ));
        }
        let_go(rooms);
        Ok(())
    })
}

/// Gives the snapshot up, as if it had never begun. After its end this does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn fb_snapshot_discard(snapshot: *mut fb_snapshot) -> fb_status {
    status(|| {
        let object = handle::get(snapshot)?;
        let (snapshot, rooms) = object.taken()?;
        snapshot.discard()?;
        object.settle(DISCARDED);
        let_go(rooms);
        Ok(())
    })
}

/// Waits until the ended snapshot is durable on all ranks; FB_TIMEOUT after `timeout` seconds
/// (FB_FOREVER: no limit).
#[unsafe(no_mangle)]
pub extern "C" fn fb_snapshot_wait(snapshot: *mut fb_snapshot, timeout: f64) -> fb_status {
    status(|| handle::get(snapshot)?.taken()?.0.wait(given::timeout(timeout)?))
}

/// Frees a snapshot's handle; one that is not ended is discarded. NULL is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn fb_snapshot_free(snapshot: *mut fb_snapshot) -> fb_status {
    status(|| handle::free(snapshot))
}

/// Puts an array once a run: every snapshot that this rank takes from now on has it under that name.
///
/// Of up to 4 KiB each snapshot has a copy; a larger one lies once in the run, as a data set, and the file of each snapshot
/// has a link to it. The same bits again are nothing, also when the program is started anew, which says it again;
/// FB_CONFLICT for others. With a `step` of 1 or more they take its place from that step on; 0: from the beginning. `opts`
/// says units, dims and attrs, and may be NULL. One rank says it, the whole of it, or all say the same, between snapshots.
#[unsafe(no_mangle)]
pub extern "C" fn fb_constant(
    run: *mut fb_run,
    name: *const c_char,
    array: *const fb_array,
    step: i64,
    opts: *const fb_piece_opts,
) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let name = given::text(name, "name")?;
        let given = Given::of(array, "array")?;
        let said = Said::of(opts, given.meta.dtype)?.plain()?.in_place()?;
        let places = said.overlap.is_some() || !said.coordinates.is_empty();
        if places || said.compress.is_some() || said.description.filled.is_some() {
            return Err(Error::bad(format!(
                "the constant {name:?} is given as a whole: it has units, dims and attrs, and no coords, overlap, fill or compress"
            )));
        }
        let description = Some(&said.description).filter(|d| !d.is_empty());
        object.run.constant(name, given.view()?, ConstantOptions { units: &said.units, description, step })
    })
}
