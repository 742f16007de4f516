//! Functions of the program that decide which server gets a call.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use forebay::Error;
use forebay::call::{Choice, Placement, ServerView, TaskView};

use crate::fault::{fb_status, status};
use crate::handle;
use crate::kinds::fb_client;

/// A call that is to go somewhere.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_task_view {
    /// sizeof(fb_task_view) of the library.
    pub size: usize,
    /// What is called.
    pub service: *const c_char,
    /// Bytes of its arrays.
    pub bytes: u64,
    /// What it costs; 0 if its service does not say that.
    pub cost: u64,
    /// How many calls of this service wait, this one among them.
    pub waiting: i64,
}

/// A server that could get it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_server_view {
    /// sizeof(fb_server_view) of the library.
    pub size: usize,
    /// Its name, which others may share.
    pub name: *const c_char,
    /// Its process.
    pub pid: u32,
    /// How many calls it works on at a time.
    pub workers: u32,
    /// Calls of this client that are there.
    pub mine: u32,
    /// Calls of others that were there when the broker was last asked; 0 of tasks of a bag.
    pub others: u32,
    /// How many more it may have so that none waits there while another server idles.
    pub room: u32,
    /// 1: what is there, of a bag, takes much longer than it should.
    pub is_late: c_int,
    /// Seconds that the call is expected to run there; less than 0 before any has.
    pub expected: f64,
    /// Seconds that all calls of this client there are expected to run; less than 0 if the service does not say what its calls
    /// cost.
    pub ahead: f64,
}

/// Returns the index of the server that is to get the call, of `count` with the one first whose turn it is; -1: "least"
/// decides. What is given is good until it returns.
pub type fb_placement_fn = Option<
    extern "C" fn(
        task: *const fb_task_view,
        servers: *const fb_server_view,
        count: c_int,
        user: *mut c_void,
    ) -> c_int,
>;

/// A function of the program with its datum.
struct RuleFunction {
    function: extern "C" fn(*const fb_task_view, *const fb_server_view, c_int, *mut c_void) -> c_int,
    user: *mut c_void,
    told: AtomicBool,
}

// SAFETY: the datum is only handed back to the program, which is told which threads call.
unsafe impl Send for RuleFunction {}
// SAFETY: as above.
unsafe impl Sync for RuleFunction {}

fn letters(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

impl Placement for RuleFunction {
    fn choose(&self, task: &TaskView, servers: &[ServerView]) -> Choice {
        let names: Vec<CString> = servers.iter().map(|server| letters(&server.info.name)).collect();
        let seconds = |ns: Option<f64>| ns.map_or(-1.0, |ns| ns / 1e9);
        let seen = |(server, name): (&ServerView, &CString)| fb_server_view {
            size: size_of::<fb_server_view>(),
            name: name.as_ptr(),
            pid: server.info.pid,
            workers: server.info.workers,
            mine: server.mine,
            others: server.theirs,
            room: server.window.saturating_sub(server.mine),
            is_late: server.is_late.into(),
            expected: seconds(server.expected),
            ahead: seconds(server.ahead),
        };
        let seen: Vec<fb_server_view> = servers.iter().zip(&names).map(seen).collect();
        let service = letters(task.service);
        let asked = fb_task_view {
            size: size_of::<fb_task_view>(),
            service: service.as_ptr(),
            bytes: task.bytes,
            cost: task.cost.unwrap_or(0),
            waiting: task.waiting as i64,
        };
        let answer = (self.function)(&raw const asked, seen.as_ptr(), seen.len() as c_int, self.user);
        match usize::try_from(answer) {
            Ok(at) if at < servers.len() => return Choice::At(at),
            Err(_) if answer == -1 => {}
            _ if self.told.swap(true, Ordering::Relaxed) => {}
            _ => eprintln!(
                "forebay: a function of placement gave {answer}, which is no index of {} servers and not -1; \"least\" decides \
                 instead, here and whenever that happens again, which is not told",
                servers.len()
            ),
        }
        Choice::Later
    }

    fn may_wait(&self) -> bool {
        true
    }
}

/// Which server gets a call is decided by a function, which is called with `user`, once a client: FB_CONFLICT after that.
///
/// It is called for a call in the thread that makes it, for a task of a bag in the thread that gives tasks and takes results
/// or, meanwhile, in one of the library, and by several threads at once if several make calls. Nothing is locked then, and
/// what it calls itself goes by "least". A task for which the server that it names has no room waits, and is asked for again. An
/// index that is none is told on standard error the first time, and "least" decides.
#[unsafe(no_mangle)]
pub extern "C" fn fb_place_with(
    client: *mut fb_client,
    function: fb_placement_fn,
    user: *mut c_void,
) -> fb_status {
    status(|| {
        let object = handle::get(client)?;
        let function = function.ok_or_else(|| Error::bad("the function is NULL; it must be given"))?;
        object.place_by(RuleFunction { function, user, told: AtomicBool::new(false) })
    })
}
