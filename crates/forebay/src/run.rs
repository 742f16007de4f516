//! A run: the object that programs hold. Writes go through the session with the owner; reads
//! happen here, in the caller's thread, straight from the catalog and the files.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use forebay_client::remote::{RemoteReader, RemoteRun};
use forebay_client::run::{Session, Warn};
use forebay_store::Reader;
use forebay_store::catalog::DataRow;
use forebay_types::columns::ColumnValues;
use forebay_types::control::{LateErrors, Mode, Packed, PageLinks, Restarted, TableInfo, Target};
use forebay_types::reading::{Question, Wanted};
use forebay_types::watch::{Diagram as DeclaredDiagram, Kind, Parameter as DeclaredParameter};
use forebay_types::{Code, DType, Error, Result, Selection};
use serde_json::{Map, Value};

use crate::owner::Owner;
use crate::reads::{Reads, of_set};
use crate::remote::RunPlace;
use crate::{
    Array, Checkpoint, DataSet, Diagram, DiagramOptions, Kept, KeptSnapshots, Level, MappedArray,
    OpenOptions, Parameter, ParameterOptions, PutOptions, Restart, Rows, Snapshot, Start, Steps,
    StepsOptions, Table, TableOptions, View, launcher,
};

/// An open run. Cheap to clone, usable from every thread; the last clone that goes closes it.
#[derive(Clone)]
pub struct Run {
    inner: Arc<Inner>,
}

struct Inner {
    /// Its directory, or its address.
    dir: PathBuf,
    /// How it is reached when it is on another host.
    remote: Option<RemoteRun>,
    rank_and_size: (u32, u32),
    /// `None` in mode `r`.
    session: Option<Session>,
    reader: Mutex<Option<Arc<Reads>>>,
    /// What waiting reads look at now and then.
    check: Mutex<Option<forebay_client::run::Check>>,
    closed: AtomicBool,
    /// A closing was interrupted.
    interrupted: AtomicBool,
    /// Goes after the session: its threads drain what the session gave them.
    owner: Mutex<Option<Owner>>,
}

/// Opens a run: `two_stream` means the directory `two_stream.fb`. With mode `r` nothing is
/// started and nobody is asked. Otherwise the node's agent is used when there is one; when there
/// is none a single process embeds the owner and several ranks start an agent.
///
/// Fails with `NotFound` (mode `r`, `r+`), `Conflict` (mode `x`, or another process writes the
/// run: the text names pid and host), `VersionMismatch` (a newer format), `ReadOnly`.
pub fn open(place: &str, mode: Mode, mut options: OpenOptions) -> Result<Run> {
    let rank_and_size = match options.client {
        true => (0, 0),
        false => launcher::rank_and_size(options.rank, options.size)?,
    };
    let (dir, remote) = match RunPlace::parse(place)? {
        RunPlace::Here(dir) => (dir, None),
        RunPlace::There(remote) => (PathBuf::from(&remote.url), Some(remote)),
    };
    if let Some(compress) = options.compress.filter(|_| !mode.writes() || options.client) {
        return Err(Error::bad(format!(
            "compress = {:?} says how snapshots are written, and {} takes none; leave it out",
            compress.name(),
            if options.client { "a client" } else { "a run that is opened with mode \"r\"" }
        )));
    }
    if !mode.writes() && !options.client {
        if let Some(keep) = &options.keep {
            let keep = keep.to_string();
            let text = format!(
                "{keep:?} says which snapshots stay, and a run that is opened with mode \"r\" is only read; leave it out"
            );
            return Err(Error::bad(text));
        }
        if options.pack.is_some() {
            let text = "pack says which snapshots are put together, and a run that is opened with mode \"r\" is only read; leave it out";
            return Err(Error::bad(text));
        }
        let run = Run::new(dir, remote, rank_and_size, None, None);
        return run.reader().map(|_| run);
    }
    options.buffer = match options.client {
        true => crate::options::client_buffer(options.buffer)?,
        false => crate::options::buffer(options.buffer, rank_and_size.1)?,
    };
    let (session, owner) = match &remote {
        Some(remote) if options.client => (crate::beside::session_from_afar(remote, mode, &options)?, None),
        None if options.client => (crate::beside::session(&dir, mode, &options)?, None),
        None => crate::owner::session(&dir, mode, &options, rank_and_size)?,
        Some(remote) => (crate::owner::session_from_afar(remote, mode, &options, rank_and_size)?, None),
    };
    session.on_late(options.late, None);
    options.compress.into_iter().for_each(|how| session.compress(how));
    let last = session.opened().last_step;
    let run = Run::new(dir, remote, rank_and_size, Some(session), owner);
    // A pack stays whole while one of its snapshots does: what keep gives up would free nothing.
    let pack = options.pack.or(options.keep.as_ref().map(|_| 0));
    if let Some(keep) = options.keep {
        run.session()?.keep(keep)?;
    }
    if let Some(steps) = pack {
        run.session()?.pack_every(steps)?;
    }
    if last.is_some() && !options.client {
        let kept = KeptSnapshots::of(run.reader()?)?;
        run.session()?.know_steps(kept.numbers()?.iter().copied());
        let newest = kept.last().map_or(0, |s| s.nbytes());
        run.session()?.know_last_bytes(newest / u64::from(rank_and_size.1));
    }
    Ok(run)
}

/// What is said to whoever reads a run of data that are not on disk yet.
#[doc(hidden)]
pub fn in_memory(found: &forebay_store::InMemory, run: &str) -> Option<String> {
    if let Some(original) = &found.original {
        let of = original.display();
        return Some(format!(
            "this is a copy of {of}, and lacks what that run has in memory still: `forebay recover {of}` completes that one, to be copied again; `forebay recover --abandon {run}` goes on with what the copy has"
        ));
    }
    let sessions = found.sessions;
    let of = if sessions == 1 { "a rank that died has" } else { "ranks that died have" };
    (sessions > 0)
        .then(|| format!("{of} data in memory that are not in here yet: `forebay recover {run}` writes them"))
}

impl Run {
    fn new(
        dir: PathBuf,
        remote: Option<RemoteRun>,
        rank_and_size: (u32, u32),
        session: Option<Session>,
        owner: Option<Owner>,
    ) -> Run {
        let (reader, owner) = (Mutex::new(None), Mutex::new(owner));
        let [closed, interrupted] = [AtomicBool::new(false), AtomicBool::new(false)];
        Run {
            inner: Arc::new(Inner {
                dir,
                remote,
                rank_and_size,
                session,
                reader,
                check: Mutex::new(None),
                closed,
                interrupted,
                owner,
            }),
        }
    }

    /// The session of a run that may be written.
    pub(crate) fn session(&self) -> Result<&Session> {
        self.open()?;
        self.inner.session.as_ref().ok_or_else(|| {
            Error::new(
                Code::ReadOnly,
                format!(
                    "the run {} is open for reading; open it with mode \"r+\" or \"a\"",
                    self.inner.dir.display()
                ),
            )
        })
    }

    fn open(&self) -> Result<()> {
        if self.closed() {
            return Err(Error::new(
                Code::Closed,
                format!("the run {} is closed; open it again", self.inner.dir.display()),
            ));
        }
        Ok(())
    }

    /// The reader, opened when first asked for.
    pub(crate) fn reader(&self) -> Result<Arc<Reads>> {
        self.open()?;
        let mut reader = self.inner.reader.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(reader) = &*reader {
            return Ok(reader.clone());
        }
        let opened = Arc::new(match (&self.inner.remote, &self.inner.session) {
            (Some(remote), _) => {
                let reader = RemoteReader::open(remote.clone())?;
                let check = self.inner.check.lock().unwrap_or_else(|e| e.into_inner()).clone();
                check.into_iter().for_each(|check| reader.on_wait(check));
                Reads::There(Box::new(reader))
            }
            (None, Some(session)) => Reads::Here(Reader::open(&self.inner.dir)?.following(session.commits())),
            (None, None) => Reads::Here(Reader::open(&self.inner.dir)?),
        });
        *reader = Some(opened.clone());
        Ok(opened)
    }

    /// The reader, after everything this process put is committed.
    pub(crate) fn settled(&self) -> Result<Arc<Reads>> {
        if let Some(session) = &self.inner.session {
            self.open()?;
            session.settle()?;
        }
        self.reader()
    }

    /// Its directory, absolute; its address (`fb://host:port/name`) when it is on another host.
    pub fn path(&self) -> &Path {
        &self.inner.dir
    }

    /// This rank and the number of ranks; 0 and 0 of a client.
    pub fn rank_and_size(&self) -> (u32, u32) {
        self.inner.rank_and_size
    }

    /// Whether it was opened for reading only.
    pub fn read_only(&self) -> bool {
        self.inner.session.is_none()
    }

    /// What a program that only reads it should know: dead ranks have data of it in memory still. Nothing of a run
    /// that somebody writes, nor to any rank but the first.
    pub fn unwritten(&self) -> Option<String> {
        if self.inner.session.is_some() || self.inner.remote.is_some() || self.inner.rank_and_size.0 != 0 {
            return None;
        }
        let (found, dir) = (forebay_store::left_in_memory(&self.inner.dir).ok()?, self.inner.dir.display());
        in_memory(&found, &dir.to_string()).map(|text| format!("forebay: {dir}: {text}"))
    }

    /// Whether a loop of it has come to its end.
    pub fn looped(&self) -> bool {
        self.inner.session.as_ref().is_some_and(|session| session.looped())
    }

    /// Whether it has been closed.
    pub fn closed(&self) -> bool {
        self.inner.closed.load(Ordering::Acquire)
    }

    // --- data sets ---------------------------------------------------------------------------

    /// Stores or replaces a data set. The bytes are copied when it returns; durable at
    /// [`Run::flush`].
    pub fn put(&self, name: &str, view: View, options: PutOptions) -> Result<()> {
        self.session()?.put(name, view, options)
    }

    /// Stores only if the stored version is still `version` (0: must not exist) and returns the
    /// new one; else `Conflict`.
    pub fn put_if_version(&self, name: &str, view: View, options: PutOptions, version: u64) -> Result<u64> {
        self.session()?.put_if_version(name, view, options, version)
    }

    /// Reads a data set, or with a selection only that part of it.
    pub fn get(&self, name: &str, set: i64, selection: Option<&Selection>) -> Result<Array> {
        self.open()?;
        if let Some(session) = &self.inner.session {
            session.settle_data(name, set)?;
        }
        self.reader()?.array(&of_set(name, set, selection))
    }

    /// A data set as memory that the system reads when it is touched, and that may be larger than what there is of memory.
    /// It is that version for as long as it is mapped. No checksums are compared. `BadArgument` if the run is on another
    /// host.
    pub fn map(&self, name: &str, set: i64) -> Result<MappedArray> {
        self.open()?;
        if let Some(session) = &self.inner.session {
            session.settle_data(name, set)?;
        }
        self.reader()?.mapped(&of_set(name, set, None))
    }

    /// Reads many data sets whole, in the order of the names. Over a network all questions are
    /// under way together, so it costs little more than one.
    pub fn get_many(&self, names: &[(&str, i64)]) -> Result<Vec<Array>> {
        let wanted: Vec<Wanted> = names.iter().map(|(name, set)| of_set(name, *set, None)).collect();
        self.settled()?.arrays(&wanted)
    }

    /// Describes one data set; `NotFound` if there is none.
    pub fn dataset(&self, name: &str, set: i64) -> Result<DataSet> {
        let row: DataRow = self.settled()?.ask(&Question::Info { name: name.to_owned(), set })?;
        Ok(DataSet::from(row))
    }

    /// Describes the data sets whose names match a glob, of one set or all, by name and set.
    pub fn list(&self, pattern: &str, set: Option<i64>) -> Result<Vec<DataSet>> {
        let question = Question::List { pattern: pattern.to_owned(), set };
        let rows: Vec<DataRow> = self.settled()?.ask(&question)?;
        Ok(rows.into_iter().map(DataSet::from).collect())
    }

    /// Deletes data sets by glob, of one set or all; returns how many.
    pub fn delete(&self, pattern: &str, set: Option<i64>) -> Result<u64> {
        self.session()?.delete(pattern, set)
    }

    /// Renames a data set with all its sets; returns how many.
    pub fn rename(&self, from: &str, to: &str) -> Result<u64> {
        self.session()?.rename(from, to)
    }

    /// Copies a data set with all its sets; returns how many.
    pub fn copy(&self, from: &str, to: &str) -> Result<u64> {
        self.session()?.copy(from, to)
    }

    /// The attributes of the run, a data set or a table.
    pub fn attrs(&self, target: &Target) -> Result<Map<String, Value>> {
        self.settled()?.ask(&Question::Attrs(target.clone()))
    }

    /// Changes attributes; null values delete, what is not named stays.
    pub fn set_attrs(&self, target: &Target, attrs: Map<String, Value>) -> Result<()> {
        self.session()?.set_attrs(target.clone(), attrs)
    }

    // --- tables ------------------------------------------------------------------------------

    /// Creates a table, or opens it when `options.columns` is empty or says the same.
    pub fn table(&self, name: &str, options: TableOptions) -> Result<Table> {
        Table::open(self, name, options)
    }

    /// Names of the tables.
    pub fn tables(&self) -> Result<Vec<String>> {
        let tables: Vec<TableInfo> = self.settled()?.ask(&Question::Tables)?;
        Ok(tables.into_iter().map(|t| t.name).collect())
    }

    /// Reads with SQL; writing statements are refused.
    pub fn sql(&self, query: &str, args: &[Value]) -> Result<Rows> {
        self.settled()?.rows(&Question::Sql { text: query.to_owned(), args: args.to_vec() })
    }

    /// The points of a history by columns: `step`, `t`, and one for each curve, NaN where it has no point at that step and
    /// t. `NotFound` names the histories there are.
    pub fn history(&self, title: &str) -> Result<Vec<ColumnValues>> {
        let meta = |name: &str| Ok(if name == "step" { DType::I64 } else { DType::F64 }.into());
        self.settled()?.columns(&Question::History(title.to_owned()), meta)
    }

    // --- snapshots ---------------------------------------------------------------------------

    /// Begins a snapshot: the state after `step` steps, which is what the loop head finds before it computes step
    /// `step`. When that state is kept already, by Save or since the run went back to it, nothing is done and
    /// [`Snapshot::taken`] is false. `Conflict` if the step exists otherwise, or while another snapshot of
    /// this rank is not yet ended.
    pub fn snapshot(&self, step: i64, time: Option<f64>) -> Result<Snapshot> {
        self.session()?.snapshot(step, time)
    }

    /// The complete snapshots. A single rank sees those that it ended (this waits for the disk);
    /// of several ranks, what is durable.
    pub fn snapshots(&self) -> Result<KeptSnapshots> {
        KeptSnapshots::of(self.settled_steps()?)
    }

    /// The reader, after the snapshots that a single rank has ended are complete.
    pub(crate) fn settled_steps(&self) -> Result<Arc<Reads>> {
        if let Some(session) = &self.inner.session {
            self.open()?;
            session.settle_steps()?;
        }
        self.reader()
    }

    /// The last complete snapshot, if any: short for `snapshots()?.last()`.
    pub fn last_snapshot(&self) -> Result<Option<Kept>> {
        Ok(self.snapshots()?.last())
    }

    /// Goes back to the last complete step: parameters take their values of that step, later rows
    /// of histories are removed. `None` when there is no step: begin at 0. Called in every rank, it
    /// gives the same step in all. Steps that `forebay repair` marked as damaged are passed over, and
    /// their numbers are free.
    pub fn restart(&self) -> Result<Option<Restart>> {
        self.go_back(None, false)
    }

    /// Goes back to the last complete step, as [`Run::restart`] does, and fails with `Corrupt` when a damaged step
    /// would have to be passed over, with `Conflict` when arrays of the step were kept with less precision.
    pub fn restart_strict(&self) -> Result<Option<Restart>> {
        self.go_back(None, true)
    }

    /// Goes back to the step of the checkpoint `tag`: parameters take their values of that step, later rows of
    /// histories are removed. Later snapshots are listed no more; their files stay in the run's directory under names
    /// that end in `.aside1`. `NotFound` names the checkpoints there are. With `strict` arrays that were kept with less
    /// precision are a `Conflict`.
    pub fn restart_from(&self, tag: &str, strict: bool) -> Result<Option<Restart>> {
        self.go_back(Some(tag), strict)
    }

    fn go_back(&self, tag: Option<&str>, strict: bool) -> Result<Option<Restart>> {
        let Some(back) = self.session()?.restart(tag, strict)? else { return Ok(None) };
        let snapshot = Kept::at(self.reader()?, back.step)?;
        let Restarted { parameters, finished, passed, .. } = back;
        Ok(Some(Restart { snapshot, parameters, finished, passed }))
    }

    /// Gives a complete snapshot up: it is listed no more, its file goes, and its number is free. Returns
    /// whether there was one. A rank that is to write the number again calls it, too.
    pub fn drop_step(&self, step: i64) -> Result<bool> {
        self.session()?.drop_step(step)
    }

    /// Puts complete snapshots from `first` to `last` together, as far as they can be: small ones of one layout that follow
    /// each other become one file of stacked arrays. They are read, listed and restarted from as before. Says which stay
    /// in files of their own, and why.
    pub fn pack(&self, first: i64, last: i64) -> Result<Packed> {
        if first > last {
            return Err(Error::bad(format!(
                "from snapshot {first} to {last} there are none; give the lower number first"
            )));
        }
        self.session()?.pack(first, last)
    }

    /// The checkpoints, in the order they were made.
    pub fn checkpoints(&self) -> Result<Vec<Checkpoint>> {
        self.settled()?.ask(&Question::Checkpoints)
    }

    /// Marks the last ended step as a restart point; returns its number.
    pub fn checkpoint(&self, tag: Option<&str>) -> Result<i64> {
        self.session()?.checkpoint(tag)
    }

    /// Waits until everything put so far is durable; reports what could not be written.
    pub fn flush(&self) -> Result<()> {
        self.session()?.flush()
    }

    /// Figures: `visible_s, hidden_s, overlap, overflow_bytes, high_water_bytes, lag_s,
    /// durable_step, written_bytes, dropped_steps, late_errors, ...`.
    ///
    /// `ideal_s` is what copying everything that was put would have cost: its bytes, divided by
    /// `copy_bytes_per_s`, the speed of the fastest copy of at least 1 MiB that this session has
    /// made. Both are null before such a copy. `owner` is `"embedded"` or `"agent"`, `buffer_in`
    /// `"memory"`, or `"file"` where shared memory had no room.
    pub fn stats(&self) -> Result<Map<String, Value>> {
        self.session()?.stats()
    }

    // --- watch and steer ---------------------------------------------------------------------

    /// The loop head: yields `start .. n` (without `n` it goes on until somebody ends it), and is where Run, Step,
    /// Stop, Save, Quit and changed parameters act. SIGTERM, where the program leaves it alone, saves and ends it.
    ///
    /// After a restart its start is the snapshot that [`Run::restart`] gave, `back.as_ref()`; `Conflict` if it is
    /// another step, or one before the position.
    pub fn steps(&self, n: impl Into<Option<i64>>, start: impl Into<Start>) -> Result<Steps> {
        self.steps_with(n, StepsOptions { start: start.into(), ..Default::default() })
    }

    /// Begins a loop, as [`Run::steps`] does, with options: where it starts, its stride, and what may end it before
    /// step `n`.
    pub fn steps_with(&self, n: impl Into<Option<i64>>, options: StepsOptions) -> Result<Steps> {
        self.session()?.steps_with(&options.course(n.into())?)
    }

    /// The head for programs that go through their steps by themselves and call back: says, at a step, whether to
    /// go on. What [`Run::steps`] does at a head is done here; the same step again answers the same and does
    /// nothing. False once somebody pressed Quit, or [`Run::finish`] was called: then the program ends.
    ///
    /// `Conflict` when numbers do not grow, and after a restart below the step that the run went back to.
    pub fn reach(&self, step: i64) -> Result<bool> {
        self.session()?.reach(step, || StepsOptions::default().ending())
    }

    /// The loop ends at its next head, as if that were its last step: for a loop without an end, or one that has
    /// converged. In all ranks at the same step. `Conflict` when no loop is under way.
    pub fn finish(&self) -> Result<()> {
        self.session()?.finish()
    }

    /// The number of the state that the program holds, which is how many steps are behind it: that of the head
    /// in the body of a loop, where the loop ended behind it, where [`Run::restart`] went back to before it.
    /// `None` before anybody has said it, and behind a loop that was left in the middle of a step: only the
    /// program knows whether that step is computed. [`Run::finish`] ends a loop at a head.
    pub fn position(&self) -> Option<i64> {
        self.inner.session.as_ref().and_then(Session::position)
    }

    /// Why the loop was ended before its last step: `quit`, `SIGTERM`, `time limit`, or the reason that
    /// was given to `forebay steer RUN end`; `None` when it was not.
    pub fn ended_by(&self) -> Option<String> {
        self.inner.session.as_ref().and_then(Session::ended_by)
    }

    /// Declares a diagram.
    pub fn diagram(&self, title: &str, kind: Kind, options: DiagramOptions) -> Result<Diagram> {
        let DiagramOptions { x, y, v, xscale, yscale, every, reduce } = options;
        let title = title.to_owned();
        self.session()?.diagram(DeclaredDiagram {
            id: 0,
            title,
            kind,
            x,
            y,
            v,
            xscale,
            yscale,
            every,
            reduce,
        })
    }

    /// Declares a steerable parameter; after [`Run::restart`] it has its value of that step.
    pub fn parameter(&self, name: &str, value: Value, options: ParameterOptions) -> Result<Parameter> {
        let ParameterOptions { min, max, units, help, signed } = options;
        let name = name.to_owned();
        self.session()?.parameter(DeclaredParameter { name, value, min, max, units, help, signed })
    }

    /// Sets what Save does. The callback runs in the thread of the loop head and gets the step; its error is shown to
    /// whoever pressed the button, and the run goes on.
    pub fn saves(&self, callback: impl FnMut(i64) -> Result<()> + Send + 'static) -> Result<()> {
        self.session()?.saves(Box::new(callback), None)
    }

    /// Sets what Save does, and calls it also at each head whose number `every` divides, where something ends the
    /// loop from outside, and where the loop ends by itself; once for each state. An error of the callback at these
    /// places is an error of the loop head.
    pub fn saves_every(
        &self,
        every: i64,
        callback: impl FnMut(i64) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        self.session()?.saves(Box::new(callback), Some(every))
    }

    /// A button of the program's own; called as [`Run::saves`] says.
    pub fn command(
        &self,
        name: &str,
        callback: impl FnMut(i64) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        self.session()?.command(name, Box::new(callback))
    }

    /// A message for people.
    pub fn message(&self, text: &str, level: Level) -> Result<()> {
        self.session()?.message(level as u8, text)
    }

    /// Starts the page if it is not there; its links.
    pub fn monitor(&self) -> Result<PageLinks> {
        self.session()?.monitor()
    }

    // --- life --------------------------------------------------------------------------------

    /// After a close that the user's check ended: gives the run up without waiting. What was put
    /// is written by the owner, or by whoever opens the run next.
    pub fn abandon(&self) {
        if !self.inner.closed.swap(true, Ordering::AcqRel) {
            self.inner.abandon();
        }
    }

    /// A check that waiting calls make every 100 ms in the waiting thread, for example for
    /// Ctrl-C; its error (code `Cancelled`) ends the wait and is returned from the call.
    pub fn on_wait(&self, check: impl Fn() -> Result<()> + Send + Sync + 'static) {
        let check: forebay_client::run::Check = Arc::new(check);
        if let Some(session) = &self.inner.session {
            let check = check.clone();
            session.on_wait(move || check());
        }
        *self.inner.check.lock().unwrap_or_else(|e| e.into_inner()) = Some(check.clone());
        if let Some(Reads::There(reader)) =
            self.inner.reader.lock().unwrap_or_else(|e| e.into_inner()).as_deref()
        {
            reader.on_wait(check);
        }
    }

    /// Says what becomes of late errors from now on, and who hears those that are warnings: by default
    /// they are lines on standard error. An error of the hearer ends the call that would have failed.
    pub fn on_late(&self, policy: LateErrors, warn: Option<Warn>) {
        if let Some(session) = &self.inner.session {
            session.on_late(policy, warn);
        }
    }

    /// Whether a close was interrupted and not repeated.
    pub fn interrupted(&self) -> bool {
        !self.closed() && self.inner.interrupted.load(Ordering::Acquire)
    }

    /// Drains and closes; later calls fail with `Closed`. Closing twice does nothing. The run is
    /// marked finished when its loop came to the end (or there was none).
    pub fn close(&self) -> Result<()> {
        self.inner.close(None)
    }

    /// Drains and closes, and marks the run as finished only if `finished` is true: a program that stops for an error
    /// is not finished. Later calls fail with `Closed`.
    pub fn close_as(&self, finished: bool) -> Result<()> {
        self.inner.close(Some(finished))
    }
}

impl Inner {
    /// The user has ended the wait of a close and does not repeat it: nothing is waited for. What
    /// is not on disk is in the segments, for the owner or for whoever opens the run next.
    fn abandon(&self) {
        let owner = self.owner.lock().unwrap_or_else(|e| e.into_inner()).take();
        owner.iter().for_each(Owner::abandon);
        self.session.iter().for_each(Session::abandon);
    }

    fn close(&self, finished: Option<bool>) -> Result<()> {
        let done = match &self.session {
            Some(session) => session.close(finished),
            None => Ok(()),
        };
        if let Err(e) = &done
            && self.session.as_ref().is_some_and(|s| !s.closed())
        {
            self.interrupted.store(true, Ordering::Release);
            return Err(e.clone());
        }
        self.closed.store(true, Ordering::Release);
        *self.reader.lock().unwrap_or_else(|e| e.into_inner()) = None;
        drop(self.owner.lock().unwrap_or_else(|e| e.into_inner()).take());
        done
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Nobody is left to hear an error; what was acknowledged is in the segment.
        if !self.interrupted.load(Ordering::Acquire) {
            let _ = self.close(std::thread::panicking().then_some(false));
        }
        if self.interrupted.load(Ordering::Acquire) && !self.closed.load(Ordering::Acquire) {
            // Somebody pressed Ctrl-C while it drained: the program is to end now.
            self.abandon();
        }
    }
}
