//! Groups: calls that run at the same time.

use std::ffi::{c_char, c_int};
use std::ptr;
use std::sync::{Mutex, PoisonError};

use forebay::Code;
use forebay::call::{Client, Group};

use crate::args::{ResultPlaces, fb_arg};
use crate::calls::send;
use crate::fault::{fb_status, status};
use crate::futures::FutureObject;
use crate::kinds::{fb_client, fb_future, fb_group};
use crate::{given, handle};

/// What is behind an `fb_group`.
pub struct GroupObject {
    client: Client,
    group: Group<FutureObject>,
    /// Handles of groups within it, which end with it.
    within: Mutex<Vec<usize>>,
}

impl Drop for GroupObject {
    fn drop(&mut self) {
        for handle in self.within.get_mut().unwrap_or_else(PoisonError::into_inner) {
            // Those that have ended by themselves are known as stale.
            let _ = handle::free(ptr::without_provenance::<fb_group>(*handle));
        }
    }
}

/// Begins a group: calls that run at the same time and are waited for together. `parent`, which may be NULL, is a group
/// that it stands within: the end of that ends this one first, if it is open still. Groups stand 64 deep at most. End it with
/// fb_group_end.
#[unsafe(no_mangle)]
pub extern "C" fn fb_group_begin(
    client: *mut fb_client,
    parent: *mut fb_group,
    group: *mut *mut fb_group,
) -> fb_status {
    status(|| {
        let client = Client::clone(&*handle::get(client)?);
        let out = given::out(group, "group")?;
        let around = if parent.is_null() { None } else { Some(handle::get(parent)?) };
        let group =
            around.as_ref().map_or_else(|| Ok(Group::begin()), |around| around.group.begin_within())?;
        let made: *mut fb_group = handle::give(GroupObject { client, group, within: Mutex::default() }, 0)?;
        if let Some(around) = around {
            around.within.lock().unwrap_or_else(PoisonError::into_inner).push(made.addr());
        }
        out.set(made);
        Ok(())
    })
}

/// Calls a service within a group and returns at once. The arrays, texts and variables of `args` are the call's until
/// fb_group_end. `future`, which may be NULL, gets the call, to look at it, to wait for it alone or to be told its end;
/// free it with fb_future_free before or behind the group's end, which waits for it in any case.
#[unsafe(no_mangle)]
pub extern "C" fn fb_group_call(
    group: *mut fb_group,
    service: *const c_char,
    args: *const fb_arg,
    nargs: c_int,
    future: *mut *mut fb_future,
) -> fb_status {
    status(|| {
        let object = handle::get(group)?;
        let out = given::optional_out(future, "future")?;
        let name = given::text(service, "service")?;
        let args = given::slice(args, nargs.into(), "args")?;
        let ticket = object.group.issue()?;
        let mut back = ResultPlaces::default();
        let sent = send(&object.client, name, args, None, &mut back)?;
        let call = FutureObject::guarded(sent, back, true);
        object.group.add(ticket, name, call.clone())?;
        if !future.is_null() {
            out.set(handle::give(call, 0)?);
        }
        Ok(())
    })
}

/// Waits for all calls of a group, and for those of groups within it that are open, which end first; then frees it and
/// them. The status is that of the first call that failed, in the order in which they were made, and its text begins "call
/// 3 of 12 (dgesv): "; others run on. `index`, which may be NULL, gets which, counted from 0, or -1.
///
/// FB_TIMEOUT with `index` -1 when a call is under way after `timeout` seconds: the group goes on, and may be ended again.
#[unsafe(no_mangle)]
pub extern "C" fn fb_group_end(group: *mut fb_group, timeout: f64, index: *mut i64) -> fb_status {
    status(|| {
        let object = handle::get(group)?;
        let out = given::optional_out(index, "index")?;
        let joint = object.group.end(given::timeout(timeout)?);
        let failed = match joint {
            Ok(joint) => joint.failed,
            // The parent's, in a child of fork: it goes here, and its calls stay.
            Err(e) if e.code() == Code::Closed => return handle::free(group).and(Err(e)),
            Err(e) => {
                out.set(-1);
                return Err(e);
            }
        };
        handle::free(group)?;
        out.set(failed.as_ref().map_or(-1, |(index, _)| *index as i64));
        failed.map_or(Ok(()), |(_, e)| Err(e))
    })
}

/// Gives up what is not complete of a group's calls, and of those of groups within it; no more calls are made in it. It is
/// ended by fb_group_end still, which takes no time then and tells FB_CANCELLED if nothing failed before.
#[unsafe(no_mangle)]
pub extern "C" fn fb_group_cancel(group: *mut fb_group) -> fb_status {
    status(|| handle::get(group)?.group.cancel())
}
