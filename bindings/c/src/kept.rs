//! Complete snapshots, read.

use std::ffi::{c_char, c_int};

use forebay::{Checkpoint, Code, Error, Restart, Result, Stats};
use serde_json::Value;

use crate::arrays::{Given, fb_array};
use crate::data::{NAME, describe, fb_info, letters, selection};
use crate::fault::{fb_status, status};
use crate::kinds::{fb_dtype, fb_run, fb_snapshot};
use crate::run::RunObject;
use crate::snapshot::SnapshotObject;
use crate::{arrays, given, handle, memory};

/// The numbers of the complete snapshots, ascending; free `steps` with fb_free. A single rank sees all
/// that it ended (this waits for the disk); of several ranks, what is durable.
#[unsafe(no_mangle)]
pub extern "C" fn fb_snapshots(run: *mut fb_run, steps: *mut *mut i64, count: *mut i64) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let (steps, count) = (given::out(steps, "steps")?, given::out(count, "count")?);
        let numbers = object.run.snapshots()?.numbers()?.to_vec();
        count.set(numbers.len() as i64);
        steps.set(memory::give_values(numbers)?);
        Ok(())
    })
}

/// The complete snapshot of a step; FB_NOT_FOUND names the nearest ones. Free it with
/// fb_snapshot_free.
#[unsafe(no_mangle)]
pub extern "C" fn fb_snapshot_at(run: *mut fb_run, step: i64, snapshot: *mut *mut fb_snapshot) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let out = given::out(snapshot, "snapshot")?;
        let snapshot = object.run.snapshots()?.at(step)?;
        out.set(handle::give(
            SnapshotObject::Kept { snapshot, finished: false, passed: Vec::new() },
            object.owner,
        )?);
        Ok(())
    })
}

/// The last complete snapshot; NULL when there is none. Free it with fb_snapshot_free.
#[unsafe(no_mangle)]
pub extern "C" fn fb_snapshot_last(run: *mut fb_run, snapshot: *mut *mut fb_snapshot) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let out = given::out(snapshot, "snapshot")?;
        out.set(match object.run.last_snapshot()? {
            Some(snapshot) => handle::give(
                SnapshotObject::Kept { snapshot, finished: false, passed: Vec::new() },
                object.owner,
            )?,
            None => std::ptr::null_mut(),
        });
        Ok(())
    })
}

/// Goes back to the last complete step: parameters take their values of that step, later rows of
/// histories are removed; go on with fb_steps_from(run, snapshot). `snapshot` gets NULL when there is
/// none, which fb_steps_from takes, too: it begins at 0. Snapshots that `forebay repair` marked as
/// damaged are passed over (fb_snapshot_passed), and their numbers are free. Free the snapshot with
/// fb_snapshot_free.
#[unsafe(no_mangle)]
pub extern "C" fn fb_restart(run: *mut fb_run, snapshot: *mut *mut fb_snapshot) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let out = given::out(snapshot, "snapshot")?;
        let back = object.run.restart()?;
        gone_back(&object, back, out)
    })
}

/// Goes back to the last complete step, as fb_restart does, and fails with FB_CORRUPT when a damaged
/// snapshot would have to be passed over, with FB_CONFLICT when arrays of the step were kept with less precision
/// (fb_piece_opts.as_dtype). Free the snapshot with fb_snapshot_free.
#[unsafe(no_mangle)]
pub extern "C" fn fb_restart_strict(run: *mut fb_run, snapshot: *mut *mut fb_snapshot) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let out = given::out(snapshot, "snapshot")?;
        let back = object.run.restart_strict()?;
        gone_back(&object, back, out)
    })
}

/// Goes back to the step of the checkpoint `tag`: parameters take their values of that step, later rows
/// of histories are removed. Later snapshots are listed no more, their files stay in the run's
/// directory. FB_NOT_FOUND names the checkpoints there are. Free the snapshot with fb_snapshot_free.
#[unsafe(no_mangle)]
pub extern "C" fn fb_restart_from(
    run: *mut fb_run,
    tag: *const c_char,
    snapshot: *mut *mut fb_snapshot,
) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let (tag, out) = (given::text(tag, "tag")?, given::out(snapshot, "snapshot")?);
        let back = object.run.restart_from(tag, false)?;
        gone_back(&object, back, out)
    })
}

/// Gives the snapshot gone back to; the program's variables get the parameters of its step.
fn gone_back(object: &RunObject, back: Option<Restart>, out: given::Out<*mut fb_snapshot>) -> Result<()> {
    out.set(match back {
        Some(Restart { snapshot, finished, passed, .. }) => {
            handle::give(SnapshotObject::Kept { snapshot, finished, passed }, object.owner)?
        }
        None => std::ptr::null_mut(),
    });
    object.refresh()
}

/// Gives a complete snapshot up: it is listed no more, its file goes, and its number is free. `dropped`
/// gets whether there was one, and may be NULL. A rank that is to write the number again calls it, too.
#[unsafe(no_mangle)]
pub extern "C" fn fb_drop(run: *mut fb_run, step: i64, dropped: *mut c_int) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let out = given::optional_out(dropped, "dropped")?;
        out.set(object.run.drop_step(step)?.into());
        Ok(())
    })
}

/// Puts complete snapshots from `first` to `last` together, both among them (INT64_MIN and INT64_MAX: all), as far as they
/// can be: small ones of one layout that follow each other become one file of stacked arrays. They are read, listed and
/// restarted from as before. `packed` gets how many lie in packs now that did not before, and may be NULL. `single` gets how
/// many stay in files of their own, and may be NULL; `forebay pack` says why. FB_FULL when the disk has no room for both, with
/// nothing lost.
#[unsafe(no_mangle)]
pub extern "C" fn fb_pack(
    run: *mut fb_run,
    first: i64,
    last: i64,
    packed: *mut i64,
    single: *mut i64,
) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let (packed, single) =
            (given::optional_out(packed, "packed")?, given::optional_out(single, "single")?);
        let done = object.run.pack(first, last)?;
        packed.set(done.steps as i64);
        single.set(done.single.iter().map(|s| s.steps as i64).sum());
        Ok(())
    })
}

/// Marks the last ended step as a restart point under a tag (NULL: none); `step` gets its number, and
/// may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fb_checkpoint(run: *mut fb_run, tag: *const c_char, step: *mut i64) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let out = given::optional_out(step, "step")?;
        out.set(object.run.checkpoint(given::optional_text(tag, "tag")?)?);
        Ok(())
    })
}

/// A step marked as restart point.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_checkpoint_info {
    /// Its tag, or "".
    pub tag: [c_char; NAME],
    /// Its number, from 1.
    pub id: i64,
    /// The checkpoint before, on the way the run took; 0: none.
    pub parent: i64,
    /// The step.
    pub step: i64,
    /// Time of the step; NAN when none was given.
    pub time: f64,
    /// Whether its step is in the run still, so that fb_restart_from can go back to it.
    pub kept: c_int,
}

impl fb_checkpoint_info {
    fn of(checkpoint: &Checkpoint) -> fb_checkpoint_info {
        fb_checkpoint_info {
            tag: letters(checkpoint.tag.as_deref().unwrap_or("")),
            id: checkpoint.id,
            parent: checkpoint.parent.unwrap_or(0),
            step: checkpoint.step,
            time: checkpoint.time.unwrap_or(f64::NAN),
            kept: checkpoint.kept.into(),
        }
    }
}

/// The checkpoints, in the order they were made; free them, in one piece, with fb_free.
#[unsafe(no_mangle)]
pub extern "C" fn fb_checkpoints(
    run: *mut fb_run,
    checkpoints: *mut *mut fb_checkpoint_info,
    count: *mut i64,
) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let (checkpoints, count) = (given::out(checkpoints, "checkpoints")?, given::out(count, "count")?);
        let found: Vec<_> = object.run.checkpoints()?.iter().map(fb_checkpoint_info::of).collect();
        count.set(found.len() as i64);
        checkpoints.set(memory::give_values(found)?);
        Ok(())
    })
}

/// What a complete snapshot is.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_step_info {
    /// sizeof(fb_step_info), set before the call.
    pub size: usize,
    /// Its number.
    pub step: i64,
    /// Its time; NAN when none was given.
    pub time: f64,
    /// Bytes of its arrays.
    pub nbytes: i64,
    /// Whether the run had come to its end (of a snapshot that fb_restart gave): nothing is left to do.
    pub finished: c_int,
}

// SAFETY: numbers, the size first.
unsafe impl given::Sized0 for fb_step_info {}

/// Number, time and size of a complete snapshot.
#[unsafe(no_mangle)]
pub extern "C" fn fb_snapshot_step(snapshot: *mut fb_snapshot, info: *mut fb_step_info) -> fb_status {
    status(|| {
        let object = handle::get(snapshot)?;
        let kept = object.kept()?;
        let found = fb_step_info {
            size: size_of::<fb_step_info>(),
            step: kept.step(),
            time: kept.time().unwrap_or(f64::NAN),
            nbytes: kept.nbytes() as i64,
            finished: matches!(&*object, SnapshotObject::Kept { finished: true, .. }).into(),
        };
        given::fill(info, found, "fb_step_info")
    })
}

/// The values of the parameters when it was taken, as a JSON object; free it with fb_free.
#[unsafe(no_mangle)]
pub extern "C" fn fb_snapshot_parameters(snapshot: *mut fb_snapshot, json: *mut *mut c_char) -> fb_status {
    status(|| {
        let object = handle::get(snapshot)?;
        let out = given::out(json, "json")?;
        let parameters = object.kept()?.parameters().clone();
        out.set(memory::give_text(&Value::Object(parameters).to_string())?);
        Ok(())
    })
}

/// The numbers of the damaged snapshots that fb_restart passed over to come to this one; free them with
/// fb_free.
#[unsafe(no_mangle)]
pub extern "C" fn fb_snapshot_passed(
    snapshot: *mut fb_snapshot,
    steps: *mut *mut i64,
    count: *mut i64,
) -> fb_status {
    status(|| {
        let object = handle::get(snapshot)?;
        let (steps, count) = (given::out(steps, "steps")?, given::out(count, "count")?);
        object.kept()?;
        let passed = match &*object {
            SnapshotObject::Kept { passed, .. } => passed.clone(),
            _ => Vec::new(),
        };
        count.set(passed.len() as i64);
        steps.set(memory::give_values(passed)?);
        Ok(())
    })
}

/// The names of its arrays; free them, in one piece, with fb_free.
#[unsafe(no_mangle)]
pub extern "C" fn fb_snapshot_names(
    snapshot: *mut fb_snapshot,
    names: *mut *mut *mut c_char,
    count: *mut i64,
) -> fb_status {
    status(|| {
        let object = handle::get(snapshot)?;
        let (names, count) = (given::out(names, "names")?, given::out(count, "count")?);
        let found = object.kept()?.names()?;
        count.set(found.len() as i64);
        names.set(memory::give_texts(&found)?);
        Ok(())
    })
}

/// Describes one of its arrays.
#[unsafe(no_mangle)]
pub extern "C" fn fb_snapshot_info(
    snapshot: *mut fb_snapshot,
    name: *const c_char,
    info: *mut fb_info,
) -> fb_status {
    status(|| {
        let object = handle::get(snapshot)?;
        let out = given::out(info, "info")?;
        out.set(describe(&object.kept()?.dataset(given::text(name, "name")?)?));
        Ok(())
    })
}

/// What the values of an array of a snapshot come to; of complex numbers their absolute values. Integers beyond 2^53 are
/// rounded here.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_array_stats {
    /// sizeof(fb_array_stats), set before the call.
    pub size: usize,
    /// The least value; NAN where there is none.
    pub min: f64,
    /// The greatest value; NAN where there is none.
    pub max: f64,
    /// The mean of those that are numbers; NAN where there is none.
    pub mean: f64,
    /// How many are not a number: they count for none of the others.
    pub nans: i64,
}

// SAFETY: numbers, the size first.
unsafe impl given::Sized0 for fb_array_stats {}

/// The least, the greatest and the mean value of one of its arrays, without reading it: they were counted when it was
/// written. FB_NOT_FOUND of truth values, texts and bytes, and in snapshots of earlier versions.
#[unsafe(no_mangle)]
pub extern "C" fn fb_snapshot_stats(
    snapshot: *mut fb_snapshot,
    name: *const c_char,
    stats: *mut fb_array_stats,
) -> fb_status {
    status(|| {
        let object = handle::get(snapshot)?;
        let found = object.kept()?.dataset(given::text(name, "name")?)?;
        let told = found.stats.ok_or_else(|| {
            let (name, dtype) = (&found.name, found.meta.dtype);
            let text = format!(
                "{name:?} is {dtype}, and nothing was counted of its values; read it with fb_snapshot_get"
            );
            Error::new(Code::NotFound, text)
        })?;
        let (min, max) = match told {
            Stats::Ints { range, .. } => range.map(|r| (r.0 as f64, r.1 as f64)),
            Stats::Reals { range, .. } => range,
        }
        .unwrap_or((f64::NAN, f64::NAN));
        let counted = fb_array_stats {
            size: size_of::<fb_array_stats>(),
            min,
            max,
            mean: told.mean(found.meta.shape.len()).unwrap_or(f64::NAN),
            nans: told.nans() as i64,
        };
        given::fill(stats, counted, "fb_array_stats")
    })
}

/// The names of the axes of one of its arrays, in the order of the indices; none when they have no names. Free them, in one
/// piece, with fb_free.
#[unsafe(no_mangle)]
pub extern "C" fn fb_snapshot_dims(
    snapshot: *mut fb_snapshot,
    name: *const c_char,
    dims: *mut *mut *mut c_char,
    count: *mut i64,
) -> fb_status {
    status(|| {
        let object = handle::get(snapshot)?;
        let (dims, count) = (given::out(dims, "dims")?, given::out(count, "count")?);
        let found = object.kept()?.dataset(given::text(name, "name")?)?.dims;
        count.set(found.len() as i64);
        dims.set(memory::give_texts(&found)?);
        Ok(())
    })
}

/// The coordinates of one of its arrays, one for each axis that has a name: the names of the arrays that hold them, which
/// fb_snapshot_info and fb_snapshot_get take; "" where an axis has none. Free them, in one piece, with fb_free.
#[unsafe(no_mangle)]
pub extern "C" fn fb_snapshot_coords(
    snapshot: *mut fb_snapshot,
    name: *const c_char,
    coords: *mut *mut *mut c_char,
    count: *mut i64,
) -> fb_status {
    status(|| {
        let object = handle::get(snapshot)?;
        let (coords, count) = (given::out(coords, "coords")?, given::out(count, "count")?);
        let (kept, name) = (object.kept()?, given::text(name, "name")?);
        let mut found = vec![String::new(); kept.dataset(name)?.dims.len()];
        kept.coordinates(name)?.into_iter().for_each(|(axis, path)| found[axis] = path);
        count.set(found.len() as i64);
        coords.set(memory::give_texts(&found)?);
        Ok(())
    })
}

/// Reads one of its arrays. Dtype and shape must be those stored.
#[unsafe(no_mangle)]
pub extern "C" fn fb_snapshot_get(
    snapshot: *mut fb_snapshot,
    name: *const c_char,
    array: *const fb_array,
) -> fb_status {
    status(|| {
        let object = handle::get(snapshot)?;
        let name = given::text(name, "name")?;
        let target = Given::of(array, "array")?;
        target.take(name, &object.kept()?.get(name, None)?)
    })
}

/// One of its arrays as memory that is read when it is touched, as fb_map gives a data set. While it is mapped the file of
/// the snapshot is kept.
#[unsafe(no_mangle)]
pub extern "C" fn fb_snapshot_map(
    snapshot: *mut fb_snapshot,
    name: *const c_char,
    dtype: fb_dtype,
    array: *mut fb_array,
) -> fb_status {
    status(|| {
        let object = handle::get(snapshot)?;
        let (name, out) = (given::text(name, "name")?, given::out(array, "array")?);
        out.set(arrays::give_mapped(name, given::dtype(dtype)?, object.kept()?.map(name)?)?);
        Ok(())
    })
}

/// Reads a part of one of its arrays, as fb_get_part does.
#[unsafe(no_mangle)]
pub extern "C" fn fb_snapshot_get_part(
    snapshot: *mut fb_snapshot,
    name: *const c_char,
    offset: *const i64,
    step: *const i64,
    array: *const fb_array,
) -> fb_status {
    status(|| {
        let object = handle::get(snapshot)?;
        let name = given::text(name, "name")?;
        let target = Given::of(array, "array")?;
        let selection = selection(&target.meta, offset, step)?;
        target.take(name, &object.kept()?.get(name, Some(&selection))?)
    })
}
