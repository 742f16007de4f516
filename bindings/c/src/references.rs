//! References: arrays that a server holds, given to calls in the place of arrays.

use std::ffi::c_char;
use std::sync::Arc;

use forebay::{On, Reference, Result, Selection};

use crate::arrays::{Given, fb_array};
use crate::data::{describe_array, fb_info, selection};
use crate::fault::{fb_status, status};
use crate::given::{self, Sized0};
use crate::kinds::{fb_client, fb_ref};
use crate::{handle, memory};

/// Where an array is to be held. Zero is the default of every member.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_ref_opts {
    /// sizeof(fb_ref_opts).
    pub size: usize,
    /// Name of the server; NULL: the one that holds the client's newest array, the first in turn.
    pub server: *const c_char,
    /// The server that holds this one; NULL: as above.
    pub with: *mut fb_ref,
    /// Names of services with commas between them, where neither is said: a server that offers most of them, so that
    /// calls may be given the array; NULL: any.
    pub services: *const c_char,
}

// SAFETY: numbers and pointers, the size first.
unsafe impl Sized0 for fb_ref_opts {}

/// Makes an array on a server with this content; `data` NULL: of zeros. It lies there as it does here.
///
/// `opts` may be NULL. The array lives until fb_ref_kill, fb_disconnect or the end of the program.
/// Calls take it as FB_REF(ref) in the place of an array, and no data move.
#[unsafe(no_mangle)]
pub extern "C" fn fb_ref_create(
    client: *mut fb_client,
    array: *const fb_array,
    opts: *const fb_ref_opts,
    reference: *mut *mut fb_ref,
) -> fb_status {
    status(|| {
        let client = handle::get(client)?;
        let out = given::out(reference, "reference")?;
        let opts = given::options(opts, "fb_ref_opts")?;
        let with = if opts.with.is_null() { None } else { Some(handle::get(opts.with.cast_const())?) };
        let services = given::optional_text(opts.services, "services")?.unwrap_or_default();
        let services: Vec<&str> = services.split(',').map(str::trim).filter(|s| !s.is_empty()).collect();
        let on = match (given::optional_text(opts.server, "server")?, &with) {
            (_, Some(other)) => On::With(other),
            (Some(name), None) => On::Server(name),
            (None, None) if services.is_empty() => On::Any,
            (None, None) => On::Offering(&services),
        };
        let given = Given::of(array, "array")?;
        let made = match given.is_null() {
            true => client.array(given.meta, on)?,
            false => client.put(given.view()?, on)?,
        };
        out.set(handle::give(Arc::new(made), 0)?);
        Ok(())
    })
}

/// Describes the array; its name is "".
#[unsafe(no_mangle)]
pub extern "C" fn fb_ref_info(reference: *mut fb_ref, info: *mut fb_info) -> fb_status {
    status(|| {
        let object = handle::get(reference)?;
        let out = given::out(info, "info")?;
        out.set(describe_array(object.meta())?);
        Ok(())
    })
}

/// The server that holds the array: its name (free it with fb_free) and pid; either may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fb_ref_server(reference: *mut fb_ref, name: *mut *mut c_char, pid: *mut u32) -> fb_status {
    status(|| {
        let object = handle::get(reference)?;
        let (out, pid) = (given::optional_out(name, "name")?, given::optional_out(pid, "pid")?);
        let (server, number) = object.server();
        if !name.is_null() {
            out.set(memory::give_text(server)?);
        }
        pid.set(number);
        Ok(())
    })
}

/// Writes the whole array.
#[unsafe(no_mangle)]
pub extern "C" fn fb_ref_put(reference: *mut fb_ref, array: *const fb_array) -> fb_status {
    status(|| handle::get(reference)?.put(Given::of(array, "array")?.view()?, &Selection::default()))
}

/// Writes a part of the array, which is picked as fb_get_part picks it.
#[unsafe(no_mangle)]
pub extern "C" fn fb_ref_put_part(
    reference: *mut fb_ref,
    offset: *const i64,
    step: *const i64,
    array: *const fb_array,
) -> fb_status {
    status(|| {
        let object = handle::get(reference)?;
        let given = Given::of(array, "array")?;
        object.put(given.view()?, &selection(&given.meta, offset, step)?)
    })
}

/// Reads the whole array. Dtype and shape must be its own.
#[unsafe(no_mangle)]
pub extern "C" fn fb_ref_get(reference: *mut fb_ref, array: *const fb_array) -> fb_status {
    status(|| read(&*handle::get(reference)?, &Selection::default(), Given::of(array, "array")?))
}

/// Reads a part of the array, which is picked as fb_get_part picks it.
#[unsafe(no_mangle)]
pub extern "C" fn fb_ref_get_part(
    reference: *mut fb_ref,
    offset: *const i64,
    step: *const i64,
    array: *const fb_array,
) -> fb_status {
    status(|| {
        let object = handle::get(reference)?;
        let given = Given::of(array, "array")?;
        read(&object, &selection(&given.meta, offset, step)?, given)
    })
}

fn read(reference: &Reference, part: &Selection, target: Given) -> Result<()> {
    let (apart, bytes) = target.memory()?;
    reference.read(part, &target.meta, apart.as_ref(), bytes)
}

/// Ends the array on its server and frees the handle. NULL is nothing. A call under way that uses it
/// keeps it until it is complete.
#[unsafe(no_mangle)]
pub extern "C" fn fb_ref_kill(reference: *mut fb_ref) -> fb_status {
    status(|| {
        if reference.is_null() {
            return Ok(());
        }
        let object = handle::get(reference)?;
        handle::free(reference)?;
        object.kill()
    })
}
