//! A client: connecting, calling, looking what there is.

use std::ffi::{c_char, c_int};
use std::path::Path;
use std::time::SystemTime;

use forebay::call::{Client, Named, Only, Transfer};
use forebay::{Code, Error, Result};

use crate::args::{ResultPlaces, fb_arg, held, prepare};
use crate::data::{NAME, letters};
use crate::fault::{fb_status, status};
use crate::futures::FutureObject;
use crate::given::Sized0;
use crate::kinds::{fb_client, fb_future};
use crate::{given, handle, memory, notices};

/// Room for the text of an error, the zero at its end included.
const TEXT: usize = 1024;

/// Connects to the broker and takes its table of services.
///
/// `broker` is the path of its socket, or its address "fb://HOST:PORT"; NULL: FOREBAY_BROKER, else the
/// node's agent, which is started when there is none. Close it with fb_disconnect.
#[unsafe(no_mangle)]
pub extern "C" fn fb_connect(broker: *const c_char, client: *mut *mut fb_client) -> fb_status {
    status(|| {
        let out = given::out(client, "client")?;
        let broker = given::optional_text(broker, "broker")?;
        out.set(handle::give(forebay::connect(broker.map(Path::new))?, 0)?);
        Ok(())
    })
}

/// For how many seconds each call of the client waits for a service that nobody offers yet, and an array for
/// a server to hold it; 0: not at all, FB_FOREVER: as long as it takes; at first as FOREBAY_PATIENCE says, 0
/// without it. For programs that are started before their servers.
#[unsafe(no_mangle)]
pub extern "C" fn fb_patience(client: *mut fb_client, seconds: f64) -> fb_status {
    status(|| {
        let object = handle::get(client)?;
        let wait = given::timeout(seconds)?.unwrap_or(std::time::Duration::MAX);
        object.patience(wait);
        Ok(())
    })
}

/// For how many seconds, from 1 to 3600, a server on another host may say nothing before it is lost and its calls go
/// elsewhere; of the servers that the client reaches from now on; as FOREBAY_SILENCE says, or 10, if not
/// said. One that computes, or receives what is sent to it, says once a second that it lives.
#[unsafe(no_mangle)]
pub extern "C" fn fb_silence(client: *mut fb_client, seconds: f64) -> fb_status {
    status(|| handle::get(client)?.silence(seconds))
}

/// Which server gets a call is decided by that rule: "least" (the default), where the call is over first, by what is known of
/// how long calls of that size take there and of what is there already; "turns", each server in turn, whatever it has to
/// do. Once a client, FB_CONFLICT after that; fb_place_with gives a function.
#[unsafe(no_mangle)]
pub extern "C" fn fb_place_by(client: *mut fb_client, rule: *const c_char) -> fb_status {
    status(|| {
        let object = handle::get(client)?;
        object.place_by(Named::parse(given::text(rule, "rule")?)?)
    })
}

/// A client like `client`, whose calls go to one server only: that of the name `server` (to any of them if several share it)
/// or, when `server` is NULL, that of the process `pid`. Its arrays lie there, too. It shares the connections of
/// `client`; close it with fb_disconnect. Its calls fail with FB_NO_SERVER when there is no such server that offers the service.
#[unsafe(no_mangle)]
pub extern "C" fn fb_on(
    client: *mut fb_client,
    server: *const c_char,
    pid: u32,
    tied: *mut *mut fb_client,
) -> fb_status {
    status(|| {
        let object = handle::get(client)?;
        let out = given::out(tied, "tied")?;
        let only = match given::optional_text(server, "server")? {
            Some(name) => Only::Name(name.to_owned()),
            None => Only::Pid(pid),
        };
        out.set(handle::give(object.on(only), 0)?);
        Ok(())
    })
}

/// Closes a client: its calls under way end with FB_CLOSED, whichever thread waits for them, and the arrays that servers
/// hold for it are freed; what is left of both is to be freed still, which takes no time. One that fb_on made ends alone,
/// and with the client that it was made of. FB_BAD_ARGUMENT in a function that is told the end of a call. NULL is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn fb_disconnect(client: *mut fb_client) -> fb_status {
    status(|| {
        notices::none_here("fb_disconnect")?;
        if !client.is_null() {
            handle::get(client)?.close();
        }
        handle::free(client)
    })
}

/// Calls a service by name and waits for its results.
///
/// `args` are as many as the signature has parameters, results included. Arrays that come back are
/// filled in place; scalars and texts that come back are written when all went well. Fails with
/// FB_NO_SERVER (nobody offers it), FB_BAD_ARGUMENT (before anything is sent), FB_REMOTE_ERROR (the
/// service failed; the text is its own), FB_SERVER_LOST (and no other server could take over).
#[unsafe(no_mangle)]
pub extern "C" fn fb_call(
    client: *mut fb_client,
    service: *const c_char,
    args: *const fb_arg,
    nargs: c_int,
) -> fb_status {
    status(|| call(client, service, args, nargs, -1.0))
}

/// Calls a service by name and waits for its results, at most `timeout` seconds: then the call is
/// cancelled and FB_TIMEOUT returned. `args` and the other errors are those of fb_call.
#[unsafe(no_mangle)]
pub extern "C" fn fb_call_within(
    client: *mut fb_client,
    service: *const c_char,
    args: *const fb_arg,
    nargs: c_int,
    timeout: f64,
) -> fb_status {
    status(|| call(client, service, args, nargs, timeout))
}

fn call(
    client: *mut fb_client,
    service: *const c_char,
    args: *const fb_arg,
    nargs: c_int,
    timeout: f64,
) -> Result<()> {
    let object = handle::get(client)?;
    let name = given::text(service, "service")?;
    let args = given::slice(args, nargs.into(), "args")?;
    let timeout = given::timeout(timeout)?;
    let mut back = ResultPlaces::default();
    let Some(allowed) = timeout else {
        let values = object.call_now_with(name, &held(args), |signature| take(args, signature, &mut back))?;
        return back.fill(values);
    };
    let mut future = send(&object, name, args, timeout, &mut back)?;
    let left = allowed.saturating_sub(future.timing().sending);
    back.fill(future.wait_within(left)?)
}

/// The arguments of a call; what comes back goes where `back` says afterwards.
fn take(
    args: &[fb_arg],
    signature: &forebay::Signature,
    back: &mut ResultPlaces,
) -> Result<Vec<forebay::call::Arg<'static>>> {
    let prepared = prepare(args, signature)?;
    *back = prepared.back;
    Ok(prepared.args)
}

/// Sends a call; what comes back goes where `back` says afterwards.
pub fn send(
    client: &Client,
    name: &str,
    args: &[fb_arg],
    allowed: Option<std::time::Duration>,
    back: &mut ResultPlaces,
) -> Result<forebay::call::Future<'static>> {
    client.call_async_with(name, allowed, &held(args), |signature| take(args, signature, back))
}

/// Calls a service and returns at once. The arrays, texts and variables of `args` (not `args` itself)
/// are the call's until fb_wait or fb_future_free. Free the future with fb_future_free.
#[unsafe(no_mangle)]
pub extern "C" fn fb_call_async(
    client: *mut fb_client,
    service: *const c_char,
    args: *const fb_arg,
    nargs: c_int,
    future: *mut *mut fb_future,
) -> fb_status {
    status(|| call_async(client, service, args, nargs, Transfer::Nowait, future))
}

/// Calls a service and returns at once, with a choice of how arguments are handed over. Free the future
/// with fb_future_free.
///
/// `transfer`: FB_TRANSFER_NOWAIT: arrays, texts and variables of `args` are the call's until fb_wait or
/// fb_future_free, as with fb_call_async. FB_TRANSFER_WAIT: arrays and texts that go only are the
/// caller's again when this returns, and a call whose server is lost after that fails with
/// FB_SERVER_LOST. FB_TRANSFER_COPY: they are the caller's again, too, for they were copied: the call is
/// issued again if its server is lost, and over the network it leaves while the caller does something
/// else; FB_FULL when there is no room for copies. What comes back is the call's until fb_wait in any
/// case.
#[unsafe(no_mangle)]
pub extern "C" fn fb_call_async_as(
    client: *mut fb_client,
    service: *const c_char,
    args: *const fb_arg,
    nargs: c_int,
    transfer: c_int,
    future: *mut *mut fb_future,
) -> fb_status {
    status(|| call_async(client, service, args, nargs, given::transfer(transfer)?, future))
}

fn call_async(
    client: *mut fb_client,
    service: *const c_char,
    args: *const fb_arg,
    nargs: c_int,
    transfer: Transfer,
    future: *mut *mut fb_future,
) -> Result<()> {
    let object = handle::get(client)?;
    let out = given::out(future, "future")?;
    let name = given::text(service, "service")?;
    let args = given::slice(args, nargs.into(), "args")?;
    let mut back = ResultPlaces::default();
    let future = send(&object.handing_over(transfer), name, args, None, &mut back)?;
    out.set(handle::give(FutureObject::guarded(future, back, false), 0)?);
    Ok(())
}

/// The signatures of the services that are offered, by name, such as
/// "axpy(in a:f64, in x:f64[n], inout y:f64[n])"; free them, in one piece, with fb_free.
#[unsafe(no_mangle)]
pub extern "C" fn fb_services(
    client: *mut fb_client,
    signatures: *mut *mut *mut c_char,
    count: *mut i64,
) -> fb_status {
    status(|| {
        let object = handle::get(client)?;
        let (signatures, count) = (given::out(signatures, "signatures")?, given::out(count, "count")?);
        let found: Vec<String> = object.services()?.iter().map(|s| s.signature.to_string()).collect();
        count.set(found.len() as i64);
        signatures.set(memory::give_texts(&found)?);
        Ok(())
    })
}

/// The signature of a service; free it with fb_free.
#[unsafe(no_mangle)]
pub extern "C" fn fb_signature(
    client: *mut fb_client,
    service: *const c_char,
    signature: *mut *mut c_char,
) -> fb_status {
    status(|| {
        let object = handle::get(client)?;
        let out = given::out(signature, "signature")?;
        let found = object.signature(given::text(service, "service")?)?;
        out.set(memory::give_text(&found.to_string())?);
        Ok(())
    })
}

/// A call that has failed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_failure {
    /// sizeof(fb_failure), set before the call.
    pub size: usize,
    /// What kind of failure it is.
    pub code: fb_status,
    /// Pid of the server that had it; 0 where it has reached none.
    pub server_pid: u32,
    /// Seconds since 1970 at which it was known.
    pub when: f64,
    /// Name of that server.
    pub server: [c_char; NAME],
    /// The service that was called.
    pub service: [c_char; NAME],
    /// The beginning of the text of its error.
    pub text: [c_char; TEXT],
}

// SAFETY: numbers and letters, the size first.
unsafe impl Sized0 for fb_failure {}

/// One of the last 1,000 calls of a client that have failed, counted from the newest: `index` 0, 1 and so on, until
/// FB_NOT_FOUND. Calls that were given up are not among them, nor are tasks of a bag, which tells of its own.
#[unsafe(no_mangle)]
pub extern "C" fn fb_failed(client: *mut fb_client, index: i64, failure: *mut fb_failure) -> fb_status {
    status(|| {
        let object = handle::get(client)?;
        let found = usize::try_from(index).ok().and_then(|index| object.failed_before(index));
        let found = found.ok_or_else(|| {
            Error::new(
                Code::NotFound,
                format!("there is no failed call {index} before the newest, which is 0; fewer are kept"),
            )
        })?;
        let since = found.when.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let told = fb_failure {
            size: size_of::<fb_failure>(),
            code: found.code as fb_status,
            server_pid: found.server.as_ref().map_or(0, |(_, pid)| *pid),
            when: since.as_secs_f64(),
            server: letters(found.server.as_ref().map_or("", |(name, _)| name)),
            service: letters(&found.service),
            text: letters(&found.text),
        };
        given::fill(failure, told, "fb_failure")
    })
}
