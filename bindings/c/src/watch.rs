//! Watching and steering: the loop head, diagrams, callbacks, messages, the page.

use std::ffi::{c_char, c_int, c_void};
use std::io::IsTerminal;
use std::sync::TryLockError;

use forebay::{
    Code, DiagramOptions, Error, Kind, Level, Reduce, Result, Scale, Start, Steps, StepsOptions, TimeLimit,
};

use crate::fault::{self, fb_status, status};
use crate::given::{self, Sized0};
use crate::kinds::{fb_diagram, fb_level, fb_run, fb_snapshot};
use crate::run::{RunObject, busy};
use crate::{handle, memory};

/// The loop of a run.
#[derive(Default)]
pub struct Loop {
    /// How it goes.
    options: StepsOptions,
    /// To which step, and its head, once it is begun.
    begun: Option<(i64, Steps)>,
    /// Whether it was refused: then the next one does not begin where this one was to.
    refused: bool,
}

impl Loop {
    fn next(options: StepsOptions) -> Loop {
        Loop { options, begun: None, refused: false }
    }
}

/// The loop head: `while (fb_step(run, &step, nsteps) > 0)`.
///
/// Returns 1 with the step about to be computed in `step`, 0 at the end or when somebody pressed Quit, with the
/// number of the state that is there in `step` (`nsteps`, or less), and a negative status when it fails
/// (fb_last_error tells). Run, Step, Stop, Save and Quit act here, and changed parameters get their values
/// here; it waits while the run is held. Steps count from 0, or from where fb_steps_from says, to `nsteps` - 1. With
/// FB_NO_END the loop goes on until somebody ends it: fb_finish, Quit, SIGTERM, the time limit.
///
/// Behind the 0 of a loop the next call begins another one: FB_CONFLICT when that begins below the state that is
/// there, so say where it goes on with fb_steps_with. After Quit, SIGTERM and the time limit it is 0 again.
#[unsafe(no_mangle)]
pub extern "C" fn fb_step(run: *mut fb_run, step: *mut i64, nsteps: i64) -> c_int {
    let mut found = None;
    let outcome = status(|| {
        let object = handle::get(run)?;
        let out = given::out(step, "step")?;
        found = object.next_step(nsteps)?;
        if let Some(step) = found.or_else(|| object.run.position()) {
            out.set(step);
        }
        Ok(())
    });
    whether(outcome, found.is_some())
}

/// What a head returns: 1 to go on, 0 to end, or what failed.
#[inline]
fn whether(outcome: fb_status, goes_on: bool) -> c_int {
    match outcome {
        fault::OK => goes_on.into(),
        failed => -failed,
    }
}

/// The next loop of fb_step begins at the snapshot that fb_restart gave; NULL is the first start, at 0. It begins
/// anew even if one has ended. FB_CONFLICT, from fb_step, when the run went back to another step.
#[unsafe(no_mangle)]
pub extern "C" fn fb_steps_from(run: *mut fb_run, from: *const fb_snapshot) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let start = start_of(from)?;
        *object.steps.try_lock().or_else(free)? = Loop::next(StepsOptions { start, ..Default::default() });
        Ok(())
    })
}

fn start_of(from: *const fb_snapshot) -> Result<Start> {
    if from.is_null() {
        return Ok(Start::FIRST);
    }
    Ok(Start::at_snapshot(handle::get(from)?.kept()?.step()))
}

/// The number of the state that the program holds, which is how many steps are behind it: that of the head in the
/// body of a loop, where the loop ended behind it, where fb_restart went back to before it; -1 before anybody
/// has said it.
#[unsafe(no_mangle)]
pub extern "C" fn fb_position(run: *mut fb_run, position: *mut i64) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        given::out(position, "position")?.set(object.run.position().unwrap_or(-1));
        Ok(())
    })
}

/// How the next loop of fb_step goes. Zero is the default of every member.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_loop_opts {
    /// sizeof(fb_loop_opts).
    pub size: usize,
    /// The first step, by its number; 0: where fb_steps_from has said before, else the first of all.
    pub start: i64,
    /// The first step, by the snapshot that fb_restart gave; NULL: as `start` says.
    pub from: *const fb_snapshot,
    /// Seconds since the process began by which everything is to be on disk, or FB_JOB_END; 0: as the
    /// environment variable FOREBAY_TIME_LIMIT says, none without it.
    pub time_limit: f64,
    /// 1: SIGTERM does what it did. 0: where it would end the program, it saves and ends the run instead.
    pub keep_sigterm: c_int,
    /// From one head to the next; 0: 1. The number at which the loop ends must be one of them.
    pub stride: i64,
}

// SAFETY: numbers and a pointer, the size first.
unsafe impl Sized0 for fb_loop_opts {}

/// FB_NO_END of the header: the number at which a loop ends that does not.
const NO_END: i64 = i64::MAX;
/// FB_JOB_END of the header: the time limit of who wants it from the batch system.
const JOB_END: f64 = -1.0;

/// Begins a loop of fb_step anew, as fb_steps_from does, with options; NULL is all defaults.
///
/// When the time limit comes near, and when SIGTERM comes, all ranks save, mark a checkpoint and end the
/// loop at the same step: fb_step returns 0, fb_ended_by tells why, and fb_restart goes on from there.
#[unsafe(no_mangle)]
pub extern "C" fn fb_steps_with(run: *mut fb_run, opts: *const fb_loop_opts) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let is_said = !opts.is_null();
        let opts = given::options(opts, "fb_loop_opts")?;
        if opts.start < 0 {
            return Err(Error::bad(format!("a loop cannot begin at {}; steps count from 0", opts.start)));
        }
        let time_limit = match opts.time_limit {
            0.0 => None,
            JOB_END => Some(TimeLimit::Job),
            seconds => Some(TimeLimit::Seconds(seconds)),
        };
        let mut steps = object.steps.try_lock().or_else(free)?;
        let is_waiting = steps.begun.is_none() && !steps.refused;
        let said = Some(steps.options.start).filter(|start| is_waiting && start.is_snapshot());
        let start = match Some(opts.start).filter(|start| *start > 0) {
            // Behind a snapshot of the program's own number 0 may be where it was taken.
            None if is_said && opts.from.is_null() => said.unwrap_or(Start::from(0)),
            None => start_of(opts.from)?,
            Some(_) if !opts.from.is_null() => {
                return Err(Error::bad("a loop begins at a number or at a snapshot; give start or from"));
            }
            number => number.into(),
        };
        let stride = if opts.stride == 0 { 1 } else { opts.stride };
        let options = StepsOptions { start, stride, time_limit, sigterm: opts.keep_sigterm == 0 };
        *steps = Loop::next(options);
        Ok(())
    })
}

/// Why the loop was ended before its last step: "quit", "SIGTERM", "time limit", or the reason given to
/// `forebay steer RUN end`; `why` is NULL when it was not. Free it with fb_free.
#[unsafe(no_mangle)]
pub extern "C" fn fb_ended_by(run: *mut fb_run, why: *mut *mut c_char) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let out = given::out(why, "why")?;
        out.set(match object.run.ended_by() {
            Some(text) => memory::give_text(&text)?,
            None => std::ptr::null_mut(),
        });
        Ok(())
    })
}

/// The head for programs that go through their steps by themselves and give a call-back: returns, where the state of
/// `step` is there, 1 to go on, 0 to end, and a negative status when it fails (fb_last_error tells).
///
/// What fb_step does at a head is done here. Numbers grow; the same one again answers the same and does nothing. 0,
/// from then on, once somebody pressed Quit, the time was over, or fb_finish was called. FB_CONFLICT when numbers do
/// not grow, or lie below the step that fb_restart went back to.
#[unsafe(no_mangle)]
pub extern "C" fn fb_reach(run: *mut fb_run, step: i64) -> c_int {
    let mut go = false;
    let outcome = status(|| {
        let object = handle::get(run)?;
        let reached = object.run.reach(step);
        object.refresh()?;
        go = reached?;
        Ok(())
    });
    whether(outcome, go)
}

/// The loop ends at its next head, as if that were its last one: for a loop without an end, or one that has
/// converged. Call it in all ranks at the same step. FB_CONFLICT when no loop is under way.
#[unsafe(no_mangle)]
pub extern "C" fn fb_finish(run: *mut fb_run) -> fb_status {
    status(|| handle::get(run)?.run.finish())
}

/// A lock that is held further up in this thread cannot be waited for.
fn free<T>(taken: TryLockError<T>) -> Result<T> {
    match taken {
        TryLockError::Poisoned(poisoned) => Ok(poisoned.into_inner()),
        TryLockError::WouldBlock => Err(busy("the loop of the run")),
    }
}

impl RunObject {
    #[inline]
    fn next_step(&self, end: i64) -> Result<Option<i64>> {
        let mut steps = self.steps.try_lock().or_else(free)?;
        if let Some((known, head)) = &mut steps.begun {
            if *known != end {
                return Err(Error::bad(format!(
                    "the loop goes to {known} and cannot go to {end} now; begin another with fb_steps_from"
                )));
            }
            if let Some(step) = head.at_once() {
                return Ok(Some(step));
            }
        }
        self.attend(&mut steps, end)
    }

    /// The step when something is to be done before it, or it is the first.
    #[cold]
    fn attend(&self, steps: &mut Loop, end: i64) -> Result<Option<i64>> {
        let (_, head) = match &mut steps.begun {
            Some(begun) => begun,
            none => {
                let n = Some(end).filter(|end| *end != NO_END);
                let head = self.run.steps_with(n, steps.options).inspect_err(|_| steps.refused = true)?;
                none.insert((end, head))
            }
        };
        let next = head.next()?;
        if next.is_none() {
            // Whoever calls again begins another loop, and is told when its steps lie behind.
            *steps = Loop::default();
        }
        self.refresh()?;
        Ok(next)
    }
}

/// A function of the program that the loop head calls, in its thread: with the step about to be computed
/// and what was given as `user`. What it returns other than FB_OK is shown to whoever pressed the button,
/// with the text of fb_last_error; the run goes on. It must return: no longjmp, no C++ exception.
pub type fb_callback = Option<extern "C" fn(step: i64, user: *mut c_void) -> fb_status>;

/// A function of C and its own datum, for another thread.
#[derive(Clone, Copy)]
struct Callback {
    function: extern "C" fn(i64, *mut c_void) -> fb_status,
    user: *mut c_void,
}

// SAFETY: the datum is only handed back to the program, which is told which thread calls.
unsafe impl Send for Callback {}

impl Callback {
    fn call(&self, step: i64) -> Result<()> {
        match (self.function)(step, self.user) {
            fault::OK => Ok(()),
            code => Err(fault::last_of(code).unwrap_or_else(|| {
                Error::new(Code::RemoteError, format!("the program's function returned {code}"))
            })),
        }
    }
}

fn callback(function: fb_callback, user: *mut c_void) -> Result<impl FnMut(i64) -> Result<()> + Send> {
    let function = function.ok_or_else(|| Error::bad("the function is NULL; it must be given"))?;
    let callback = Callback { function, user };
    Ok(move |step| callback.call(step))
}

/// When a state is kept. Zero is the default of every member.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_save_opts {
    /// sizeof(fb_save_opts).
    pub size: usize,
    /// Keeps the state at each head whose number it divides, and where the loop ends; 0: only at Save, and where
    /// something ends the loop from outside.
    pub every: i64,
}

// SAFETY: numbers, the size first.
unsafe impl Sized0 for fb_save_opts {}

/// How the program keeps a state: `function` takes the snapshot of the number that it is given. `opts` may be NULL.
///
/// The loop head calls it, before that step is computed: where somebody pressed Save, where something ends the loop
/// from outside, and where `opts` says; so the body needs no snapshot. It is called once for each state, and with
/// `every` again where the loop goes on behind fb_restart: there the snapshot stands, and rows of histories are made
/// again. What it returns at a Save is shown to whoever pressed the button, and the run goes on; at the other heads
/// fb_step returns it.
#[unsafe(no_mangle)]
pub extern "C" fn fb_on_save(
    run: *mut fb_run,
    function: fb_callback,
    user: *mut c_void,
    opts: *const fb_save_opts,
) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let callback = callback(function, user)?;
        match given::options(opts, "fb_save_opts")?.every {
            0 => object.run.saves(callback),
            every => object.run.saves_every(every, callback),
        }
    })
}

/// A button of the program's own, with what stands on it.
#[unsafe(no_mangle)]
pub extern "C" fn fb_on_command(
    run: *mut fb_run,
    name: *const c_char,
    function: fb_callback,
    user: *mut c_void,
) -> fb_status {
    status(|| handle::get(run)?.run.command(given::text(name, "name")?, callback(function, user)?))
}

/// A message for the people who watch; `level` is FB_DEBUG, FB_INFO, FB_WARNING or FB_ERROR.
#[unsafe(no_mangle)]
pub extern "C" fn fb_message(run: *mut fb_run, level: fb_level, text: *const c_char) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let level = match level {
            0 => Level::Debug,
            1 => Level::Info,
            2 => Level::Warning,
            3 => Level::Error,
            other => {
                return Err(Error::bad(format!(
                    "{other} is no level; use FB_DEBUG, FB_INFO, FB_WARNING or FB_ERROR"
                )));
            }
        };
        object.run.message(given::text(text, "text")?, level)
    })
}

/// Starts the run's page if it is not there. Gives the link of who may steer and of who may only look;
/// either may be NULL; free them with fb_free.
#[unsafe(no_mangle)]
pub extern "C" fn fb_monitor(
    run: *mut fb_run,
    operator_url: *mut *mut c_char,
    viewer_url: *mut *mut c_char,
) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let operator = given::optional_out(operator_url, "operator_url")?;
        let viewer = given::optional_out(viewer_url, "viewer_url")?;
        let links = object.run.monitor()?;
        if !operator_url.is_null() {
            operator.set(memory::give_text(&links.operator)?);
        }
        if !viewer_url.is_null() {
            viewer.set(memory::give_text(&links.viewer)?);
        }
        Ok(())
    })
}

/// The link that a program prints: the one of who may steer when standard output is a terminal, otherwise
/// the one of who may only look, for what is printed may stand in a log that others read. Starts the page
/// if it is not there; free the link with fb_free.
#[unsafe(no_mangle)]
pub extern "C" fn fb_monitor_url(run: *mut fb_run, url: *mut *mut c_char) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let url = given::out(url, "url")?;
        let links = object.run.monitor()?;
        url.set(memory::give_text(links.to_print(std::io::stdout().is_terminal()))?);
        Ok(())
    })
}

/// How a diagram looks. Labels carry the unit in brackets: "x [m]". Zero is the default of every member.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_diagram_opts {
    /// sizeof(fb_diagram_opts).
    pub size: usize,
    /// "curve" (NULL), "scatter" or "history".
    pub kind: *const c_char,
    /// Label of the abscissa; NULL: "x".
    pub x: *const c_char,
    /// Label of the ordinate; NULL: "y".
    pub y: *const c_char,
    /// Label of the value, for fields; NULL: none.
    pub v: *const c_char,
    /// Scale of the abscissa: "linear" (NULL) or "log".
    pub xscale: *const c_char,
    /// Scale of the ordinate: "linear" (NULL) or "log".
    pub yscale: *const c_char,
    /// Steps between updates, as a hint; 0: 1.
    pub every: u32,
    /// What becomes of the values that several ranks append to a history at one step and abscissa: "sum", "min",
    /// "max" or "mean" of all; NULL: the value of the lowest rank is kept.
    pub reduce: *const c_char,
}

// SAFETY: numbers and pointers, the size first.
unsafe impl Sized0 for fb_diagram_opts {}

/// Declares a diagram; `opts` may be NULL. Free it with fb_diagram_free, or leave it to fb_run_close.
#[unsafe(no_mangle)]
pub extern "C" fn fb_diagram_open(
    run: *mut fb_run,
    title: *const c_char,
    opts: *const fb_diagram_opts,
    diagram: *mut *mut fb_diagram,
) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let out = given::out(diagram, "diagram")?;
        let title = given::text(title, "title")?;
        let opts = given::options(opts, "fb_diagram_opts")?;
        let label = |text, what, default: &str| {
            given::optional_text(text, what).map(|text| text.unwrap_or(default).to_owned())
        };
        let scale = |text, what| Scale::parse(given::optional_text(text, what)?.unwrap_or("linear"));
        let options = DiagramOptions {
            x: label(opts.x, "x", "x")?,
            y: label(opts.y, "y", "y")?,
            v: given::optional_text(opts.v, "v")?.map(str::to_owned),
            xscale: scale(opts.xscale, "xscale")?,
            yscale: scale(opts.yscale, "yscale")?,
            every: opts.every.max(1),
            reduce: given::optional_text(opts.reduce, "reduce")?.map(Reduce::parse).transpose()?,
        };
        let kind = Kind::parse(given::optional_text(opts.kind, "kind")?.unwrap_or("curve"))?;
        let diagram = object.run.diagram(title, kind, options)?;
        out.set(handle::give(diagram, object.owner)?);
        Ok(())
    })
}

/// Frees the handle; the diagram stays. NULL is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn fb_diagram_free(diagram: *mut fb_diagram) -> fb_status {
    status(|| handle::free(diagram))
}

/// Replaces the points of a curve or a cloud of points (`curve` NULL: the only one) with `n` points;
/// thinned while nobody watches, so that it costs next to nothing then.
#[unsafe(no_mangle)]
pub extern "C" fn fb_curve_update(
    diagram: *mut fb_diagram,
    curve: *const c_char,
    n: i64,
    x: *const f64,
    y: *const f64,
) -> fb_status {
    status(|| {
        let object = handle::get(diagram)?;
        let curve = given::optional_text(curve, "curve")?.unwrap_or("");
        object.update(curve, given::slice(x, n, "x")?, given::slice(y, n, "y")?)
    })
}

/// Adds a point at `t` to each of the `n` curves named; always recorded.
#[unsafe(no_mangle)]
pub extern "C" fn fb_history_append(
    diagram: *mut fb_diagram,
    t: f64,
    n: c_int,
    names: *const *const c_char,
    values: *const f64,
) -> fb_status {
    status(|| {
        let object = handle::get(diagram)?;
        let names = given::texts(names, n, "names")?;
        let values = given::slice(values, n.into(), "values")?;
        let points: Vec<(&str, f64)> = names.into_iter().zip(values.iter().copied()).collect();
        object.append(t, &points)
    })
}

/// Whether an update of a curve would be copied just now (1 or 0): spares the work of making its
/// points when nobody would see them.
#[unsafe(no_mangle)]
pub extern "C" fn fb_diagram_wants(
    diagram: *mut fb_diagram,
    curve: *const c_char,
    wants: *mut c_int,
) -> fb_status {
    status(|| {
        let object = handle::get(diagram)?;
        let curve = given::optional_text(curve, "curve")?.unwrap_or("");
        given::out(wants, "wants")?.set(object.wants(curve).into());
        Ok(())
    })
}
