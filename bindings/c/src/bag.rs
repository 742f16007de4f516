//! Bags: many calls of one service.

use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use forebay::call::{
    Bag, BagOptions, BagView, Counts, Next, Printed, Space, Task, TaskFate, TaskState, Value,
};
use forebay::{Code, Error, Param, Result, Signature, Way};

use crate::args::{ResultPlaces, fb_arg, places, prepare};
use crate::fault::{self, fb_status, status};
use crate::given::{self, Sized0};
use crate::handle::{self, InUse};
use crate::kinds::{fb_bag, fb_client};
use crate::printed;
use crate::run::busy;

/// How a bag of tasks is worked on. Zero is the default of every member.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_bag_opts {
    /// sizeof(fb_bag_opts).
    pub size: usize,
    /// Tasks at all servers together; 0: as many as keep the servers busy, which is learned.
    pub window: i64,
    /// Most bytes of arguments and results that are kept, at least 1 MiB; 0: 256 MiB, or an eighth of the memory if
    /// that is less.
    pub bytes: u64,
    /// 1: results come as tasks end; 0: in the order of the input.
    pub unordered: c_int,
    /// 1: a task is given to one server at a time; 0: at the end, when nothing waits, a task whose server is slow or late
    /// goes to a second one, too, and the first end of the two counts. Never of a service with effects.
    pub no_tail: c_int,
}

// SAFETY: numbers, the size first.
unsafe impl Sized0 for fb_bag_opts {}

/// How many tasks of a bag are where.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_bag_totals {
    /// sizeof(fb_bag_totals), set before the call.
    pub size: usize,
    /// Tasks so far.
    pub pulled: i64,
    /// Those at servers.
    pub under_way: i64,
    /// Those that have results.
    pub done: i64,
    /// Those that have an error.
    pub failed: i64,
    /// Those that were given up.
    pub cancelled: i64,
}

// SAFETY: numbers, the size first.
unsafe impl Sized0 for fb_bag_totals {}

/// Gives the next task: sets as many of `args`, which are all zero, as the signature has parameters, as for fb_call,
/// and returns their number; 0: there is no more, less: the bag is closed. `index` is that of the task.
pub type fb_bag_input_fn = Option<extern "C" fn(index: i64, args: *mut fb_arg, user: *mut c_void) -> c_int>;

/// Takes a task that is over: its results are in their places, or `outcome` says why not, and fb_last_error the text.
/// Returns 0 to go on; anything else closes the bag.
pub type fb_bag_output_fn = Option<extern "C" fn(index: i64, outcome: fb_status, user: *mut c_void) -> c_int>;

/// What is behind an `fb_bag`.
pub struct BagObject {
    state: Mutex<State>,
    /// What any thread may ask while one takes results.
    view: BagView,
    signature: Signature,
    /// The parameters that come, as if nothing went.
    coming: Vec<Param>,
    /// What the service printed in the task that was handed out last, if that has failed.
    printed: Mutex<Option<Printed>>,
}

struct State {
    bag: Bag,
    places: HashMap<u64, Places>,
}

/// Where the results of a task go: its arguments that come.
struct Places(Vec<fb_arg>);

// SAFETY: the pointers are of the caller's memory, which is the task's until it is handed out, whichever thread does that.
unsafe impl Send for Places {}

impl BagObject {
    /// Its tasks and their places: one thread at a time has them.
    fn take(&self) -> Result<MutexGuard<'_, State>> {
        self.view.check()?;
        match self.state.try_lock() {
            Ok(state) => Ok(state),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(busy("the bag of tasks")),
        }
    }

    fn printed(&self) -> MutexGuard<'_, Option<Printed>> {
        self.printed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, state: &mut State, args: &[fb_arg]) -> Result<u64> {
        let prepared = prepare(args, &self.signature)?;
        let index = state.bag.add_passed(prepared.args)?;
        let given = args.iter().zip(self.signature.params());
        let coming: Vec<fb_arg> = given.filter(|(_, p)| p.way.comes()).map(|(arg, _)| *arg).collect();
        if !coming.is_empty() {
            state.places.insert(index, Places(coming));
        }
        Ok(index)
    }

    /// What the bag does next, or, if it `takes`, which task is over; its results are in their places.
    fn next(&self, state: &mut State, takes: bool, timeout: Option<Duration>) -> Result<Next<Value>> {
        let (mut back, open) = (ResultPlaces::default(), &mut state.places);
        let lend = |index| {
            let Places(args) = open.remove(&index).unwrap_or(Places(Vec::new()));
            if args.len() != self.coming.len() {
                // It was wrong, and nothing comes.
                return Ok(Vec::new());
            }
            let found = places(&args, &self.coming, &self.signature)?;
            back = found.back;
            Ok(found.args)
        };
        let found = match takes {
            true => state.bag.take_into(timeout, lend)?,
            false => state.bag.next_into(timeout, lend)?,
        };
        Ok(match found {
            Next::Task(Task { index, outcome, printed }) => {
                *self.printed() = printed;
                let outcome = outcome.and_then(|values| back.fill(values).map(|()| Vec::new()));
                Next::Task(Task { index, outcome, printed: None })
            }
            other => other,
        })
    }

    /// What a function of the program has ended is closed.
    fn ended_by(&self, what: &str, index: u64, gave: c_int) -> Error {
        self.view.close();
        Error::new(
            Code::Cancelled,
            format!(
                "the {what} of task {index} gave {gave}, so the bag of tasks was closed; begin another one"
            ),
        )
    }

    fn run(&self, input: Input, output: Output, user: *mut c_void) -> Result<()> {
        let mut state = self.take()?;
        let state = &mut *state;
        // SAFETY: all zero is an argument: numbers, pointers and a union of numbers.
        let empty: fb_arg = unsafe { std::mem::zeroed() };
        let mut args = vec![empty; self.signature.params().len().max(1)];
        loop {
            match self.next(state, false, None)? {
                Next::Input => {
                    let index = self.view.counts().pulled;
                    args.fill(empty);
                    let count = input(index as i64, args.as_mut_ptr(), user);
                    match usize::try_from(count) {
                        Ok(0) => state.bag.end(),
                        Ok(count) => match self.add(state, args.get(..count).unwrap_or(&args)) {
                            Err(e) if e.code() == Code::BadArgument => drop(state.bag.add_failed(e)?),
                            added => drop(added?),
                        },
                        Err(_) => return Err(self.ended_by("input", index, count)),
                    }
                }
                Next::Task(Task { index, outcome, .. }) => {
                    let outcome = outcome.map_or_else(|e| fault::fail(&e), |_| fault::OK);
                    let said = output(index as i64, outcome, user);
                    if said != 0 {
                        return Err(self.ended_by("output", index, said));
                    }
                }
                Next::Over => return Ok(()),
                Next::Later => {}
            }
        }
    }
}

type Input = extern "C" fn(i64, *mut fb_arg, *mut c_void) -> c_int;
type Output = extern "C" fn(i64, fb_status, *mut c_void) -> c_int;

/// A bag that this process may use.
fn get(bag: *mut fb_bag) -> Result<InUse<BagObject>> {
    let object = handle::get(bag)?;
    object.view.check()?;
    Ok(object)
}

/// Where a task is.
fn state_of(object: &BagObject, index: i64) -> Result<TaskState> {
    let found = u64::try_from(index).ok().and_then(|index| object.view.state(index));
    found.ok_or_else(|| {
        let so_far = object.view.counts().pulled;
        Error::new(
            Code::NotFound,
            format!("there is no task {index}; the bag has had {so_far}, counted from 0"),
        )
    })
}

/// Begins a bag of tasks: many calls of one service, on what servers there are, those that come later too. `opts` may be
/// NULL.
///
/// A task goes to a server as soon as that has room for it, and to another one if that is lost, with the arguments that
/// were copied, unless the service has effects. FB_NO_SERVER when nobody offers it, which is
/// waited for as fb_patience says. One thread at a time gives tasks and takes results: another one gets FB_CONFLICT
/// meanwhile, and may ask fb_bag_state and fb_bag_counts, and use fb_bag_cancel and fb_bag_free. Free it with
/// fb_bag_free; after fb_disconnect it takes and gives nothing more: FB_CLOSED.
#[unsafe(no_mangle)]
pub extern "C" fn fb_bag_open(
    client: *mut fb_client,
    service: *const c_char,
    opts: *const fb_bag_opts,
    bag: *mut *mut fb_bag,
) -> fb_status {
    status(|| {
        let object = handle::get(client)?;
        let out = given::out(bag, "bag")?;
        let name = given::text(service, "service")?;
        let opts = given::options(opts, "fb_bag_opts")?;
        let window = u32::try_from(opts.window).map_err(|_| {
            Error::bad(format!("a window of {} tasks is not possible; give at least 1, or 0", opts.window))
        })?;
        let options = BagOptions {
            ordered: opts.unordered == 0,
            window: Some(window).filter(|window| *window != 0),
            bytes: Some(opts.bytes).filter(|bytes| *bytes != 0),
            tail: opts.no_tail == 0,
            // As with fb_call, a status is a result like others.
            status_fails: false,
        };
        let bag = object.bag(name, options)?;
        let (view, signature) = (bag.view(), bag.signature()?);
        let coming = signature.params().iter().filter(|p| p.way.comes());
        let coming = coming.map(|p| Param { way: Way::Out, ..p.clone() }).collect();
        let state = Mutex::new(State { bag, places: HashMap::new() });
        let printed = Mutex::default();
        out.set(handle::give(BagObject { state, view, signature, coming, printed }, 0)?);
        Ok(())
    })
}

/// Adds a task; `index`, which may be NULL, gets its number, counted from 0.
///
/// `args` are those of fb_call: as many as the signature has parameters, results included. What goes is copied, and the
/// caller's again when this returns; what comes is written where `args` point by the fb_bag_next that hands the task
/// out. With FB_REF the task runs at the server that holds the array, tasks on one array in their order, and what they write
/// stays there; it is over with FB_SERVER_LOST when that server is lost. What is wrong with the arguments is FB_BAD_ARGUMENT, and
/// no task is added. When the bag is full of what is under way it is
/// waited for, at most `timeout` seconds: FB_TIMEOUT. FB_FULL, at once, when it is full of results that nobody took, and
/// when 65,536 tasks were not: take some with fb_bag_next. FB_CONFLICT after fb_bag_end.
#[unsafe(no_mangle)]
pub extern "C" fn fb_bag_add(
    bag: *mut fb_bag,
    args: *const fb_arg,
    nargs: c_int,
    timeout: f64,
    index: *mut i64,
) -> fb_status {
    status(|| {
        let object = get(bag)?;
        let out = given::optional_out(index, "index")?;
        let args = given::slice(args, nargs.into(), "args")?;
        let timeout = given::timeout(timeout)?;
        let mut state = object.take()?;
        match state.bag.space(timeout)? {
            Space::Free => {}
            Space::Later => {
                return Err(Error::new(
                    Code::Timeout,
                    "the bag of tasks had no room for one more in time; wait longer, or take results with fb_bag_next",
                ));
            }
            Space::Taken => {
                return Err(Error::new(
                    Code::Full,
                    "the bag of tasks is full of results; take results with fb_bag_next before the next task, or give \
                     it more bytes in fb_bag_opts",
                ));
            }
        }
        out.set(object.add(&mut state, args)? as i64);
        Ok(())
    })
}

/// There are no more tasks; saying it again is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn fb_bag_end(bag: *mut fb_bag) -> fb_status {
    status(|| {
        get(bag)?.take()?.bag.end();
        Ok(())
    })
}

/// Hands a task out that is over, at most `timeout` seconds later: `index` gets its number, and `outcome` its status,
/// whose text is then that of fb_last_error. With FB_OK its results are in their places.
///
/// In the order of the input, unless the bag is unordered. When all tasks were handed out after fb_bag_end `index` gets
/// -1. FB_TIMEOUT when none is over in time; at once when none is under way and fb_bag_end was not said, which is
/// FB_CONFLICT where it would be waited for ever.
#[unsafe(no_mangle)]
pub extern "C" fn fb_bag_next(
    bag: *mut fb_bag,
    timeout: f64,
    index: *mut i64,
    outcome: *mut fb_status,
) -> fb_status {
    status(|| {
        let object = get(bag)?;
        let (number, said) = (given::out(index, "index")?, given::out(outcome, "outcome")?);
        let timeout = given::timeout(timeout)?;
        let mut state = object.take()?;
        match object.next(&mut state, true, timeout)? {
            Next::Task(Task { index, outcome, .. }) => {
                number.set(index as i64);
                said.set(outcome.map_or_else(|e| fault::fail(&e), |_| fault::OK));
                Ok(())
            }
            Next::Over => {
                number.set(-1);
                said.set(fault::OK);
                Ok(())
            }
            Next::Later => Err(Error::new(Code::Timeout, "no task is over; wait longer, or cancel some")),
            Next::Input => {
                let code = if timeout.is_none() { Code::Conflict } else { Code::Timeout };
                let text =
                    "no task is under way and there may be more; add one with fb_bag_add, or say fb_bag_end";
                Err(Error::new(code, text))
            }
        }
    })
}

/// Works on all tasks in one call: `input` is asked for a task when one more is of use, and `output` is given each that
/// is over. Both are called in this thread; `user` is theirs.
///
/// What is wrong with arguments is the outcome of their task. FB_OK when the input ended and all tasks were given to
/// `output`; FB_CANCELLED when one of the two closed the bag.
#[unsafe(no_mangle)]
pub extern "C" fn fb_bag_run(
    bag: *mut fb_bag,
    input: fb_bag_input_fn,
    output: fb_bag_output_fn,
    user: *mut c_void,
) -> fb_status {
    status(|| {
        let object = get(bag)?;
        let missing = |what| Error::bad(format!("{what} is NULL; it must be given"));
        let (input, output) =
            (input.ok_or_else(|| missing("input"))?, output.ok_or_else(|| missing("output"))?);
        object.run(input, output, user)
    })
}

/// What the service printed to `stream` in the task that was handed out last, by fb_bag_next or to the function of
/// fb_bag_run, if that has failed: as fb_call_output. Free the text with fb_free. `others` may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fb_bag_output(
    bag: *mut fb_bag,
    stream: c_int,
    words: *mut *mut c_char,
    others: *mut i64,
) -> fb_status {
    status(|| {
        let printed = get(bag)?.printed().clone();
        printed::give(printed.as_ref(), stream, words, others)
    })
}

/// Where a task is: FB_TASK_OPEN, FB_TASK_DONE, FB_TASK_FAILED or FB_TASK_CANCELLED, in any thread. FB_NOT_FOUND when
/// none of that number was added.
#[unsafe(no_mangle)]
pub extern "C" fn fb_bag_state(bag: *mut fb_bag, index: i64, state: *mut c_int) -> fb_status {
    status(|| {
        let object = get(bag)?;
        let out = given::out(state, "state")?;
        out.set(match state_of(&object, index)? {
            TaskState::Open => 0,
            TaskState::Over(TaskFate::Done) => 1,
            TaskState::Over(TaskFate::Failed) => 2,
            TaskState::Over(TaskFate::Cancelled) => 3,
        });
        Ok(())
    })
}

/// How many tasks are where, in any thread.
#[unsafe(no_mangle)]
pub extern "C" fn fb_bag_counts(bag: *mut fb_bag, totals: *mut fb_bag_totals) -> fb_status {
    status(|| {
        let object = get(bag)?;
        let Counts { pulled, under_way, done, failed, cancelled } = object.view.counts();
        let found = fb_bag_totals {
            size: size_of::<fb_bag_totals>(),
            pulled: pulled as i64,
            under_way: under_way as i64,
            done: done as i64,
            failed: failed as i64,
            cancelled: cancelled as i64,
        };
        given::fill(totals, found, "fb_bag_totals")
    })
}

/// Gives a task up, in any thread: unless it is over it is handed out with FB_CANCELLED, and is not begun any more.
/// FB_NOT_FOUND when none of that number was added.
#[unsafe(no_mangle)]
pub extern "C" fn fb_bag_cancel(bag: *mut fb_bag, index: i64) -> fb_status {
    status(|| {
        let object = get(bag)?;
        state_of(&object, index)?;
        object.view.cancel(index as u64);
        Ok(())
    })
}

/// Frees a bag: tasks that are not over are given up, none begins any more, and what comes is the caller's again. A
/// thread that waits for results is told FB_CLOSED. NULL is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn fb_bag_free(bag: *mut fb_bag) -> fb_status {
    status(|| {
        if bag.is_null() {
            return Ok(());
        }
        handle::get(bag)?.view.close();
        handle::free(bag)
    })
}
