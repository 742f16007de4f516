//! A run: opening, closing, figures.

use std::ffi::{c_char, c_int};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay::{
    Code, Compression, Elsewhere, Error, Keep, LateErrors, Mode, OpenOptions, Result, Run, WhenFull,
};

use crate::fault::{fb_status, status};
use crate::given::{self, Sized0};
use crate::kinds::fb_run;
use crate::parameters::Bound;
use crate::watch::Loop;
use crate::{handle, memory, unclosed};

/// How a run is opened. Zero is the default of every member.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_open_opts {
    /// sizeof(fb_open_opts).
    pub size: usize,
    /// Bytes of this process's buffer; 0: FOREBAY_BUFFER, else 256 MiB, less where many ranks share little memory.
    pub buffer: u64,
    /// What a snapshot does when no buffer has room: "block" (NULL), "drop_oldest", "drop_newest", "spill".
    pub full: *const c_char,
    /// This rank, when `ranks` is given.
    pub rank: i32,
    /// Number of ranks; 0: rank and number from the launcher's environment (Slurm, Open MPI, MPICH, PMIx).
    pub ranks: i32,
    /// Whether the run is deleted when it is closed.
    pub scratch: c_int,
    /// Name of the program, for people; NULL: that of the executable.
    pub program: *const c_char,
    /// What becomes of an error of something that was acknowledged earlier: "raise" (NULL: the next
    /// call fails with it, or fb_flush, or fb_run_close), "warn" (a line on standard error), "ignore"
    /// (it is counted in fb_stats and shown on the page). fb_snapshot_wait fails with it always.
    pub late: *const c_char,
    /// What becomes of data that a program which was killed left in memory elsewhere (on another host, in another
    /// /dev/shm, of another user): "refuse" (the opening fails and says where they lie), "abandon" (they are
    /// given up, and the run goes on from its last step on disk); NULL: FOREBAY_ELSEWHERE, else "refuse".
    pub elsewhere: *const c_char,
    /// Which complete snapshots stay: "last 5", "every 10" (by number), or both: "last 5, every 100"; NULL: all. What may be
    /// gone on from stays, too: checkpoints, where the run began and went back to, the newest one. All ranks say the same.
    pub keep: *const c_char,
    /// Whether this program is none of the ranks: it puts data sets, changes attributes, inserts into tables and says
    /// messages beside them, while nothing in their run waits for it; mode "r+", also from another host, a buffer of
    /// 8 MiB if 0 is given. Snapshots, restarts, loops, parameters, diagrams and rows of histories fail with
    /// FB_BAD_ARGUMENT. fb_rank gives 0 and 0.
    pub client: c_int,
    /// Small snapshots, of less than 1 MiB, are put together as fb_pack does it, behind the program's back: each time when
    /// so many of one layout follow each other before the newest one. NULL: 1,000, and none with keep. "auto": 1,000. Another number as "100", and
    /// "no": none are. Those with meshes or particles stay as they are, for programs that read openPMD.
    pub pack: *const c_char,
    /// How arrays of this rank's snapshots are compressed that do not say it themselves: "gzip", "zstd", as
    /// fb_piece_opts.compress; NULL: not.
    pub compress: *const c_char,
}

// SAFETY: numbers and pointers, the size first.
unsafe impl Sized0 for fb_open_opts {}

/// What is behind an `fb_run`.
pub struct RunObject {
    pub run: Run,
    /// What snapshots, tables and diagrams of the run are marked with, so that they go with it.
    pub owner: u64,
    pub steps: Mutex<Loop>,
    pub bound: Mutex<Vec<Bound>>,
}

static OWNERS: AtomicU64 = AtomicU64::new(1);

/// Opens a run: `place` is its name, "two_stream" meaning the directory two_stream.fb, or its path.
///
/// `mode` is "r" (read), "r+" (must exist), "a" (created when absent), "w" (created anew), "x" (must
/// not exist). `opts` may be NULL. Close it with fb_run_close. Fails with FB_NOT_FOUND, FB_CONFLICT
/// (mode "x", another process writes it, or data of it lie elsewhere), FB_VERSION_MISMATCH, FB_READ_ONLY,
/// FB_BAD_ARGUMENT.
#[unsafe(no_mangle)]
pub extern "C" fn fb_run_open(
    place: *const c_char,
    mode: *const c_char,
    opts: *const fb_open_opts,
    run: *mut *mut fb_run,
) -> fb_status {
    status(|| {
        let out = given::out(run, "run")?;
        let place = given::text(place, "place")?;
        let mode = Mode::parse(given::text(mode, "mode")?)?;
        let options = open_options(&given::options(opts, "fb_open_opts")?)?;
        let run = forebay::open(place, mode, options)?;
        run.unwritten().iter().for_each(|text| eprintln!("{text}"));
        let owner = OWNERS.fetch_add(1, Ordering::Relaxed);
        unclosed::opened(owner, &run);
        let object = RunObject { run, owner, steps: Mutex::default(), bound: Mutex::default() };
        let given = handle::give(object, 0).inspect_err(|_| unclosed::closed(owner))?;
        out.set(given);
        Ok(())
    })
}

fn open_options(opts: &fb_open_opts) -> Result<OpenOptions> {
    let (scratch, client) = (opts.scratch != 0, opts.client != 0);
    let mut options = OpenOptions { scratch, client, ..OpenOptions::default() };
    if opts.buffer != 0 {
        options.buffer = opts.buffer;
    }
    if let Some(full) = given::optional_text(opts.full, "full")? {
        options.full = WhenFull::parse(full)?;
    }
    if let Some(late) = given::optional_text(opts.late, "late")? {
        options.late = LateErrors::parse(late)?;
    }
    if let Some(elsewhere) = given::optional_text(opts.elsewhere, "elsewhere")? {
        options.elsewhere = Some(Elsewhere::parse(elsewhere)?);
    }
    if let Some(keep) = given::optional_text(opts.keep, "keep")? {
        options.keep = Some(Keep::parse(keep)?);
    }
    if let Some(pack) = given::optional_text(opts.pack, "pack")? {
        options.pack = Some(forebay::parse_pack(pack)?);
    }
    if let Some(compress) = given::optional_text(opts.compress, "compress")? {
        options.compress = Compression::parse(compress)?;
    }
    if let Some(program) = given::optional_text(opts.program, "program")? {
        options.program = Some(program.to_owned());
    }
    if opts.ranks == 0 && opts.rank == 0 {
        return Ok(options);
    }
    match (u32::try_from(opts.rank), u32::try_from(opts.ranks)) {
        (Ok(rank), Ok(ranks)) if ranks > 0 => {
            options.rank = Some(rank);
            options.size = Some(ranks);
            Ok(options)
        }
        _ => Err(Error::bad(format!(
            "rank {} of {} is not possible; ranks count from 0, and 0 of 0 takes them from the launcher",
            opts.rank, opts.ranks
        ))),
    }
}

/// Drains and closes a run, and frees it with its snapshots, tables and diagrams. NULL is nothing.
///
/// When it fails the run is closed all the same and the text says what was lost, unless it can be
/// tried again: then the handle stays good (fb_rank answers).
#[unsafe(no_mangle)]
pub extern "C" fn fb_run_close(run: *mut fb_run) -> fb_status {
    close(run, Run::close)
}

/// Drains and closes the run of a program that did not come to its end, and frees it with its snapshots,
/// tables and diagrams. The run is not marked as finished, so that fb_restart goes on with it. NULL is
/// nothing.
#[unsafe(no_mangle)]
pub extern "C" fn fb_run_close_unfinished(run: *mut fb_run) -> fb_status {
    close(run, |run| run.close_as(false))
}

fn close(handle: *mut fb_run, how: impl FnOnce(&Run) -> Result<()>) -> fb_status {
    status(|| {
        if handle.is_null() {
            return Ok(());
        }
        let object = handle::get(handle)?;
        let outcome = how(&object.run);
        if object.run.closed() {
            unclosed::closed(object.owner);
            handle::free(handle)?;
            handle::free_owned(object.owner);
        }
        outcome
    })
}

/// This rank and the number of ranks, 0 and 0 of a client; either may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fb_rank(run: *mut fb_run, rank: *mut i32, ranks: *mut i32) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let (rank, ranks) = (given::optional_out(rank, "rank")?, given::optional_out(ranks, "ranks")?);
        let (own, all) = object.run.rank_and_size();
        rank.set(own as i32);
        ranks.set(all as i32);
        Ok(())
    })
}

/// The directory of the run, absolute; free it with fb_free.
#[unsafe(no_mangle)]
pub extern "C" fn fb_path(run: *mut fb_run, path: *mut *mut c_char) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let out = given::out(path, "path")?;
        out.set(memory::give_text(&object.run.path().to_string_lossy())?);
        Ok(())
    })
}

/// Whether the run is open for reading only: 1 or 0.
#[unsafe(no_mangle)]
pub extern "C" fn fb_is_read_only(run: *mut fb_run, read_only: *mut c_int) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        given::out(read_only, "read_only")?.set(object.run.read_only().into());
        Ok(())
    })
}

/// Waits until everything put so far is durable; reports what could not be written.
#[unsafe(no_mangle)]
pub extern "C" fn fb_flush(run: *mut fb_run) -> fb_status {
    status(|| handle::get(run)?.run.flush())
}

/// Figures of a run. What a figure means when there is none yet stands beside it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_stats {
    /// sizeof(fb_stats), set before the call.
    pub size: usize,
    /// Seconds the program spent in output.
    pub visible_s: f64,
    /// Seconds spent writing behind its back.
    pub hidden_s: f64,
    /// hidden_s / (visible_s + hidden_s).
    pub overlap: f64,
    /// Seconds the program waited for room in the buffer; part of visible_s.
    pub waited_s: f64,
    /// How far durability lags behind, in seconds.
    pub lag_s: f64,
    /// Last durable step, -1 before the first.
    pub durable_step: i64,
    /// Snapshots ended.
    pub steps: i64,
    /// Snapshots dropped because buffers were full.
    pub dropped_steps: i64,
    /// Bytes put into snapshots.
    pub snapshot_bytes: i64,
    /// Bytes put into data sets.
    pub put_bytes: i64,
    /// Bytes that did not fit the buffer and went to overflow segments.
    pub overflow_bytes: i64,
    /// Bytes made durable.
    pub written_bytes: i64,
    /// Size of the buffer.
    pub buffer_bytes: i64,
    /// Most bytes of the buffer in use at once.
    pub high_water_bytes: i64,
    /// Seconds that copying everything that was put would have cost: its bytes, divided by
    /// copy_bytes_per_s; 0 before there is such a speed.
    pub ideal_s: f64,
    /// Speed of the fastest copy of at least 1 MiB that this process has made into its buffer; 0 before one.
    pub copy_bytes_per_s: f64,
    /// Errors of things that were acknowledged earlier, told or not.
    pub late_errors: i64,
    /// 1 while everything waits for room on the disk.
    pub waiting_for_disk: i64,
    /// 1 when the owner of the run is threads of this process, 0 when it is the agent.
    pub embedded: i64,
    /// 1 when the buffer lies in shared memory, 0 when that had no room and it is a file.
    pub in_memory: i64,
    /// Elements of snapshots that no rank put, and that have the value of fb_piece_opts.fill.
    pub filled_elements: i64,
    /// Bytes that were to be compressed and went out as they were, for the buffers were nearly full.
    pub uncompressed_bytes: i64,
    /// Finite values of this process's arrays that are infinite with less precision (fb_piece_opts.as_dtype).
    pub lost_range: i64,
}

// SAFETY: numbers, the size first.
unsafe impl Sized0 for fb_stats {}

/// Figures of the run so far.
#[unsafe(no_mangle)]
pub extern "C" fn fb_run_stats(run: *mut fb_run, stats: *mut fb_stats) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let found = object.run.stats()?;
        let real = |key: &str| found.get(key).and_then(serde_json::Value::as_f64).unwrap_or(0.0);
        let whole = |key: &str| found.get(key).and_then(serde_json::Value::as_i64);
        let count = |key: &str| whole(key).unwrap_or(0);
        let is = |key: &str, what: serde_json::Value| i64::from(found.get(key) == Some(&what));
        let figures = fb_stats {
            size: size_of::<fb_stats>(),
            visible_s: real("visible_s"),
            hidden_s: real("hidden_s"),
            overlap: real("overlap"),
            waited_s: real("waited_s"),
            lag_s: real("lag_s"),
            durable_step: whole("durable_step").unwrap_or(-1),
            steps: count("steps"),
            dropped_steps: count("dropped_steps"),
            snapshot_bytes: count("snapshot_bytes"),
            put_bytes: count("put_bytes"),
            overflow_bytes: count("overflow_bytes"),
            written_bytes: count("written_bytes"),
            buffer_bytes: count("buffer_bytes"),
            high_water_bytes: count("high_water_bytes"),
            ideal_s: real("ideal_s"),
            copy_bytes_per_s: real("copy_bytes_per_s"),
            late_errors: count("late_errors"),
            waiting_for_disk: is("waiting_for_disk", true.into()),
            embedded: is("owner", "embedded".into()),
            in_memory: is("buffer_in", "memory".into()),
            filled_elements: count("filled_elements"),
            uncompressed_bytes: count("uncompressed_bytes"),
            lost_range: count("lost_range"),
        };
        given::fill(stats, figures, "fb_stats")
    })
}

/// The error of a thing that is in use by a call further up in this thread, or by another thread.
pub fn busy(what: &str) -> Error {
    Error::new(
        Code::Conflict,
        format!(
            "{what} is in use by another call just now; use it from one thread, and not in its own callbacks"
        ),
    )
}
