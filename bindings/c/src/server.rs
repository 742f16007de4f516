//! A server: made, given its services, started, stopped.

use std::ffi::{c_char, c_int, c_void};
use std::path::PathBuf;

use forebay::serve::{Call, Host, Load, Server, Signals, keep_output};
use forebay::{Error, Result, Signature, parse_scratch};

use crate::fault::{fb_status, status};
use crate::given::{self, Sized0};
use crate::handle;
use crate::kinds::{fb_request, fb_server};
use crate::requests::{self, Request};
use crate::signals::SignalGuard;

/// How a server is made. Zero is the default of every member.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_server_opts {
    /// sizeof(fb_server_opts).
    pub size: usize,
    /// Its name, for people; NULL: "server".
    pub name: *const c_char,
    /// The path of the broker's socket, or its address "fb://HOST:PORT"; NULL: FOREBAY_BROKER, else the
    /// node's agent.
    pub broker: *const c_char,
    /// How many requests may be served at a time, each in a thread of its own; 0: one.
    pub workers: c_int,
    /// Most bytes of arrays it holds for clients (fb_ref_create); 0: half of the machine's memory.
    pub memory: u64,
    /// Where it listens for clients of other hosts, "tcp://HOST:PORT"; NULL: at any port when its agent
    /// listens or is on another host.
    pub listen: *const c_char,
    /// 1: calls that fail, or whose status is not 0, bring what this process printed meanwhile (fb_call_output). From
    /// fb_server_create until it is freed standard output and standard error are pipes then, from which everything goes at once to where it went
    /// before: isatty says no. It needs the program forebay, which passes on what is left there if this process is killed.
    pub output: c_int,
    /// Where files of calls are kept while they are needed, and how much of them, "DIR:SIZE" as in "/scratch/me:50GiB".
    /// NULL: 10 GiB in the directory for temporary files.
    pub scratch: *const c_char,
}

// SAFETY: numbers and pointers, the size first.
unsafe impl Sized0 for fb_server_opts {}

/// What is behind an `fb_server`.
pub struct ServerObject {
    broker: Option<PathBuf>,
    host: Host,
}

/// Makes a server; `opts` may be NULL. Give it services, then start it with fb_serve or
/// fb_server_start. Free it with fb_server_free.
#[unsafe(no_mangle)]
pub extern "C" fn fb_server_create(opts: *const fb_server_opts, server: *mut *mut fb_server) -> fb_status {
    status(|| {
        let out = given::out(server, "server")?;
        let opts = given::options(opts, "fb_server_opts")?;
        let name = given::optional_text(opts.name, "name")?.unwrap_or("server");
        let workers = usize::try_from(opts.workers)
            .map_err(|_| Error::bad(format!("{} workers are not possible; give 0 or more", opts.workers)))?;
        let mut made = Server::new(name).workers(workers.max(1));
        if opts.memory != 0 {
            made = made.memory(opts.memory);
        }
        if let Some(address) = given::optional_text(opts.listen, "listen")? {
            made = made.listen(address)?;
        }
        if let Some(scratch) = given::optional_text(opts.scratch, "scratch")? {
            let (dir, bytes) = parse_scratch(scratch)?;
            made = made.scratch(&dir, bytes);
        }
        if opts.output != 0 {
            made = made.output(keep_output()?);
        }
        let broker = given::optional_text(opts.broker, "broker")?.map(PathBuf::from);
        out.set(handle::give(ServerObject { broker, host: Host::new(made)? }, 0)?);
        Ok(())
    })
}

/// A function that serves a call. It runs in a thread of the server; with several workers in several at a
/// time. `request` gives the parameters in place (fb_request_array and its like). It returns FB_OK, or
/// what fb_request_fail returned; any other status is told to the caller with the text of
/// fb_last_error. It must return: no longjmp, no C++ exception.
pub type fb_service_fn = Option<extern "C" fn(request: *mut fb_request, user: *mut c_void) -> fb_status>;

/// A function of C and its own datum, for the server's threads.
#[derive(Clone, Copy)]
struct Body {
    function: extern "C" fn(*mut fb_request, *mut c_void) -> fb_status,
    user: *mut c_void,
}

// SAFETY: the datum is only handed back to the program, which is told which threads call.
unsafe impl Send for Body {}
// SAFETY: as above.
unsafe impl Sync for Body {}

impl Body {
    fn run(&self, call: &mut Call) -> Result<()> {
        let mut request = Request::new(call);
        let code = requests::during(&mut request, |handle| (self.function)(handle, self.user));
        request.outcome(code)
    }
}

/// Offers a function under a signature such as "axpy(in a:f64, in x:f64[n], inout y:f64[n])", before or
/// after the start. A service with side effects, which must not run twice when a server is lost, has
/// `effects` behind its parentheses. Behind that `cost 2*n*n + m` says how the work of a call grows with what it is passed:
/// clients know by it which calls are long before one has run.
#[unsafe(no_mangle)]
pub extern "C" fn fb_service_register(
    server: *mut fb_server,
    signature: *const c_char,
    function: fb_service_fn,
    user: *mut c_void,
) -> fb_status {
    status(|| {
        let object = handle::get(server)?;
        let signature = Signature::parse(given::text(signature, "signature")?)?;
        let function = function.ok_or_else(|| Error::bad("the function is NULL; it must be given"))?;
        let body = Body { function, user };
        object.host.add(signature, Box::new(move |call: &mut Call| body.run(call)))
    })
}

/// Offers a service of a running server no more.
#[unsafe(no_mangle)]
pub extern "C" fn fb_service_remove(server: *mut fb_server, name: *const c_char) -> fb_status {
    status(|| {
        let object = handle::get(server)?;
        object.host.remove(given::text(name, "name")?)
    })
}

/// Starts a server: when it returns, clients of the broker find its services.
#[unsafe(no_mangle)]
pub extern "C" fn fb_server_start(server: *mut fb_server) -> fb_status {
    status(|| {
        let object = handle::get(server)?;
        object.host.start(object.broker.as_deref())
    })
}

/// Stops a server: it leaves the broker and ends what it began. Stopping twice does nothing. FB_CONFLICT
/// from within a service of its own.
#[unsafe(no_mangle)]
pub extern "C" fn fb_server_stop(server: *mut fb_server) -> fb_status {
    status(|| handle::get(server)?.host.stop())
}

/// Starts a server if it does not run, and serves until fb_server_stop, SIGTERM or SIGINT; then it is
/// stopped and FB_OK returned. Signals that the program handles itself stay with it.
#[unsafe(no_mangle)]
pub extern "C" fn fb_serve(server: *mut fb_server) -> fb_status {
    status(|| {
        let object = handle::get(server)?;
        let taken = SignalGuard::take()?;
        object.host.serve(object.broker.as_deref(), &Signals::Event(taken.event()))
    })
}

/// How busy a server is.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_server_load {
    /// sizeof(fb_server_load), set before the call.
    pub size: usize,
    /// Requests being served.
    pub running: u32,
    /// Requests waiting.
    pub queued: u32,
    /// Requests served so far.
    pub served: u64,
}

// SAFETY: numbers, the size first.
unsafe impl Sized0 for fb_server_load {}

/// How busy a server is; all zero when it does not run.
#[unsafe(no_mangle)]
pub extern "C" fn fb_load(server: *mut fb_server, load: *mut fb_server_load) -> fb_status {
    status(|| {
        let object = handle::get(server)?;
        let Load { running, queued, served } = object.host.load();
        let size = size_of::<fb_server_load>();
        given::fill(load, fb_server_load { size, running, queued, served }, "fb_server_load")
    })
}

/// The trouble that a running server has behind the scenes, such as a broker that does not answer: its
/// status, with its text as this thread's last error. FB_OK while there is none.
#[unsafe(no_mangle)]
pub extern "C" fn fb_server_trouble(server: *mut fb_server) -> fb_status {
    status(|| handle::get(server)?.host.trouble().map_or(Ok(()), Err))
}

/// Stops and frees a server. NULL is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn fb_server_free(server: *mut fb_server) -> fb_status {
    status(|| {
        if server.is_null() {
            return Ok(());
        }
        let object = handle::get(server)?;
        object.host.stop()?;
        handle::free(server)
    })
}
