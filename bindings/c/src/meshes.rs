//! Meshes and species of particles of a snapshot being taken.

use std::ffi::{c_char, c_int};
use std::ptr;

use forebay::{Component, Error, Grid, ParticleRecord, Result};

use crate::arrays::{Given, fb_array};
use crate::fault::{fb_status, status};
use crate::given::{self, Sized0};
use crate::handle;
use crate::kinds::{fb_dtype, fb_snapshot};
use crate::snapshot::{Said, fb_piece_opts, lend, place};

/// A component of a mesh.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_component {
    /// Its name, such as "x"; NULL: the mesh is this one array.
    pub name: *const c_char,
    /// Its values.
    pub values: *const fb_array,
    /// Where in its cell this component is, a number for each axis; NULL: as fb_piece_opts.position says.
    pub position: *const f64,
}

/// A record of a species of particles, or a component of one.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_record {
    /// Its name: "position", "momentum", "weighting", "mass".
    pub name: *const c_char,
    /// Which component of it, such as "x"; NULL: the whole record.
    pub component: *const c_char,
    /// A number for each particle, of a whole record also up to three of them side by side, {n, 3}; or, without dimensions
    /// (FB_ONE), one number for all particles.
    pub values: *const fb_array,
    /// Unit, such as "kg m/s"; NULL: none.
    pub units: *const c_char,
    /// Attributes as a JSON object; NULL: none.
    pub attrs: *const c_char,
    /// Keeps an array with less precision, as fb_piece_opts.as_dtype does; 0: as it is.
    pub as_dtype: fb_dtype,
    /// How it is compressed, as fb_piece_opts.compress says; NULL: as fb_open_opts.compress does.
    pub compress: *const c_char,
}

/// What may go with a species of particles. Zero is the default of every member.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_particles_opts {
    /// sizeof(fb_particles_opts).
    pub size: usize,
    /// A record that is an integer for each particle, such as "id": in the file of the step the particles of all ranks lie in
    /// its order, whichever rank has them; equal ones in the order of ranks. Their arrays have the attribute "sorted_by". A
    /// species of more than a quarter of the ranks' buffers lies in the order of ranks, and the array "NAME/order" has the
    /// indices that put it in order. All ranks say the same. NULL: in the order of ranks.
    pub sort_by: *const c_char,
}

// SAFETY: a number and a pointer, the size first.
unsafe impl Sized0 for fb_particles_opts {}

/// A name that may be left out.
fn named<'a>(name: *const c_char, what: &str) -> Result<&'a str> {
    Ok(given::optional_text(name, what)?.unwrap_or(""))
}

/// Copies a field on a regular mesh into the snapshot: readers of openPMD, VTK and ParaView find it in the file of the step.
///
/// The component "x" of the mesh "E" is the array "E_x" of the snapshot; a mesh that is one array has one component without
/// a name. `opts` says units, dims, coords, attrs, overlap and as_dtype of all components, as for fb_snapshot_put_with, and where the
/// points are: spacing, origin, position. Without dims the axes are x, y and z. `offset` and `global` as for
/// fb_snapshot_put. FB_CONFLICT if components of one mesh are not on one grid; FB_BAD_ARGUMENT if readers cannot take it.
#[unsafe(no_mangle)]
pub extern "C" fn fb_snapshot_mesh(
    snapshot: *mut fb_snapshot,
    name: *const c_char,
    components: *const fb_component,
    ncomponents: c_int,
    offset: *const i64,
    global: *const i64,
    opts: *const fb_piece_opts,
) -> fb_status {
    status(|| {
        let object = handle::get(snapshot)?;
        let name = given::text(name, "name")?;
        let given = given::slice(components, ncomponents.into(), "components")?;
        let of = |c: &fb_component| {
            let called = named(c.name, "the name of a component")?;
            let values =
                Given::of(c.values, "values").map_err(|e| e.within(format!("the component {called:?}")))?;
            Ok((called, values, Said::of(opts, values.meta.dtype)?))
        };
        let parts = given.iter().map(of).collect::<Result<Vec<_>>>()?;
        let components = parts.iter().zip(given).map(|((name, values, said), c)| {
            let rank = values.meta.shape.rank();
            let position: &[f64] =
                if c.position.is_null() { &[] } else { given::slice(c.position, rank as i64, "position")? };
            let options = said.options(place(rank, offset, global)?)?;
            let view = said.view(values).map_err(|e| e.within(format!("the component {name:?}")))?;
            Ok(Component { name, view, position, options })
        });
        let components = components.collect::<Result<Vec<_>>>()?;
        let grid =
            parts.first().map_or(Ok(Grid::default()), |(_, v, said)| said.grid(v.meta.shape.rank()))?;
        object.taken()?.0.mesh(name, &grid, &components)
    })
}

/// A place in the buffer for a field on a regular mesh, or for one `component` of it (NULL: the mesh is one array), to be
/// filled in place, as fb_snapshot_allocate gives it. All else as for fb_snapshot_mesh.
#[unsafe(no_mangle)]
pub extern "C" fn fb_snapshot_allocate_mesh(
    snapshot: *mut fb_snapshot,
    name: *const c_char,
    component: *const c_char,
    array: *mut fb_array,
    offset: *const i64,
    global: *const i64,
    opts: *const fb_piece_opts,
) -> fb_status {
    status(|| {
        let object = handle::get(snapshot)?;
        let name = given::text(name, "name")?;
        let component = named(component, "component")?;
        lend(&object, array, |snapshot, meta| {
            let (said, rank) = (Said::of(opts, meta.dtype)?.in_place()?, meta.shape.rank());
            let options = said.options(place(rank, offset, global)?)?;
            snapshot.allocate_mesh(name, component, meta, &said.grid(rank)?, &options)
        })
    })
}

/// Copies a species of particles into the snapshot: readers of openPMD, VTK and ParaView find it in the file of the step.
///
/// The component "x" of the record "position" of "electrons" is the array "electrons/position/x" of the snapshot. Each rank
/// gives its own particles: `offset` is FB_APPEND, or the index of the first one, one number, and `global` the number of
/// all; both NULL: they are all there are. FB_BAD_ARGUMENT if readers cannot take it.
#[unsafe(no_mangle)]
pub extern "C" fn fb_snapshot_particles(
    snapshot: *mut fb_snapshot,
    name: *const c_char,
    records: *const fb_record,
    nrecords: c_int,
    offset: *const i64,
    global: *const i64,
) -> fb_status {
    fb_snapshot_particles_with(snapshot, name, records, nrecords, offset, global, ptr::null())
}

/// As fb_snapshot_particles, in an order that `opts` says; NULL: none.
#[unsafe(no_mangle)]
pub extern "C" fn fb_snapshot_particles_with(
    snapshot: *mut fb_snapshot,
    name: *const c_char,
    records: *const fb_record,
    nrecords: c_int,
    offset: *const i64,
    global: *const i64,
    opts: *const fb_particles_opts,
) -> fb_status {
    status(|| {
        let object = handle::get(snapshot)?;
        let opts = given::options(opts, "fb_particles_opts")?;
        let sort_by = given::optional_text(opts.sort_by, "sort_by")?;
        let name = given::text(name, "name")?;
        let given = given::slice(records, nrecords.into(), "records")?;
        let place = place(1, offset, global)?;
        let of = |r: &fb_record| {
            let (called, component) =
                (given::text(r.name, "the name of a record")?, named(r.component, "component")?);
            let within = |e: Error| e.within(format!("the record {called:?}"));
            let values = Given::of(r.values, "values").map_err(within)?;
            Ok((
                called,
                component,
                values,
                Said::of_record((r.units, r.attrs, r.compress), r.as_dtype, values.meta.dtype)
                    .map_err(within)?,
            ))
        };
        let parts = given.iter().map(of).collect::<Result<Vec<_>>>()?;
        let records = parts.iter().map(|(name, component, values, said)| {
            let view = said.view(values).map_err(|e| e.within(format!("the record {name:?}")))?;
            Ok(ParticleRecord { name, component, view, options: said.options(place)? })
        });
        let records = records.collect::<Result<Vec<_>>>()?;
        object.taken()?.0.particles(name, &records, sort_by)
    })
}

/// A place in the buffer for a `record` of a species of particles, or for one `component` of it (NULL: the whole record),
/// to be filled in place, as fb_snapshot_allocate gives it; `opts` says units and attrs. All else as for
/// fb_snapshot_particles, which takes the records that are one number for all, and in whose order these lie, too, if the
/// species was put with one before.
#[unsafe(no_mangle)]
pub extern "C" fn fb_snapshot_allocate_particles(
    snapshot: *mut fb_snapshot,
    name: *const c_char,
    record: *const c_char,
    component: *const c_char,
    array: *mut fb_array,
    offset: *const i64,
    global: *const i64,
    opts: *const fb_piece_opts,
) -> fb_status {
    status(|| {
        let object = handle::get(snapshot)?;
        let name = given::text(name, "name")?;
        let record = given::text(record, "record")?;
        let component = named(component, "component")?;
        lend(&object, array, |snapshot, meta| {
            let said = Said::of(opts, meta.dtype)?.plain()?.in_place()?;
            let options = said.options(place(1, offset, global)?)?;
            snapshot.allocate_particles(name, record, component, meta, &options)
        })
    })
}
