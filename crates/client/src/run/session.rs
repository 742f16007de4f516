//! A session: the rank's side of an open run.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forebay_types::control::{
    Ask, Column, History, LateErrors, Packed, PageLinks, Restarted, RunOpened, TableInfo, Target, word,
};
use forebay_types::record::{Cell, Payload, Record};
use forebay_types::watch::{Diagram as DeclaredDiagram, Parameter as DeclaredParameter};
use forebay_types::{Code, Compression, Error, Keep, Name, Result, codec, limits};
use serde_json::{Map, Value};

use super::View;
use super::axes::check_unit;
use super::core::{BODY, Core, FINISH, LEFT, LOOPED, LOOPING, Warn, say, to_json};
use super::diagram::Diagram;
use super::ending::Ending;
use super::life::Watcher;
use super::looping::{Course, LoopHead};
use super::numbers::Back;
use super::open::lies_on_disk;
use super::room::Placed;
use super::steer::{Callback, Parameter};
use super::step::StepWriter;

/// What may go with a put.
#[derive(Clone, Copy, Debug, Default)]
pub struct PutOptions<'a> {
    /// Set number; 0 by default.
    pub set: i64,
    /// Unit, or empty.
    pub units: &'a str,
    /// Attributes that replace those of an earlier version; none by default.
    pub attrs: Option<&'a Map<String, Value>>,
}

/// The rank's side of an open run. Usable from every thread.
pub struct Session {
    core: Arc<Core>,
    watcher: Mutex<Option<Watcher>>,
    /// The head of a program that goes through its steps by itself.
    reached: Mutex<Option<LoopHead>>,
}

impl Session {
    pub(super) fn new(core: Arc<Core>, watcher: Watcher) -> Session {
        Session { core, watcher: Mutex::new(Some(watcher)), reached: Mutex::default() }
    }

    /// What the owner said at the opening.
    pub fn opened(&self) -> &RunOpened {
        &self.core.opened
    }

    /// This rank and the number of ranks.
    pub fn rank_and_size(&self) -> (u32, u32) {
        (self.core.open.rank, self.core.open.size)
    }

    /// Fails when the session is of no use now, or with an error that came late.
    pub fn check(&self) -> Result<()> {
        self.core.enter()
    }

    /// Whether this side has closed it.
    pub fn closed(&self) -> bool {
        self.core.life.closed()
    }

    /// Sets the check that waiting calls make every 100 ms in the waiting thread.
    pub fn on_wait(&self, check: impl Fn() -> Result<()> + Send + Sync + 'static) {
        *self.core.check.write().unwrap_or_else(|e| e.into_inner()) = Some(Arc::new(check));
    }

    /// Says what becomes of late errors, and who hears those that are warnings (by default they are
    /// lines on standard error).
    pub fn on_late(&self, policy: LateErrors, warn: Option<Warn>) {
        *self.core.late.write().unwrap_or_else(|e| e.into_inner()) = (policy, warn);
    }

    /// Says how arrays of snapshots are compressed that do not say it themselves; the first one who says it holds.
    pub fn compress(&self, how: Compression) {
        let _ = self.core.compress.set(how);
    }

    /// Stores or replaces a data set; the bytes are copied when it returns.
    pub fn put(&self, name: &str, view: View, options: PutOptions) -> Result<()> {
        self.send_put(name, view, options, None, limits::SMALL_BYTES).map(|_| ())
    }

    /// Stores only if the stored version is that one; returns the new version.
    pub fn put_if_version(&self, name: &str, view: View, options: PutOptions, version: u64) -> Result<u64> {
        let seq = self.send_put(name, view, options, Some(version), limits::SMALL_BYTES)?;
        self.core.ask(&Ask::Version { seq }).map_err(|e| match e.code() {
            // The question was refused; what it asks about stands in the log, as every put.
            Code::Full => Error::new(
                Code::Full,
                format!(
                    "put of {name:?}: it is kept and not on disk yet, and is stored when the disk takes it, if the version is {version} still; look for the version then, and do not put it again before. {}",
                    e.text()
                ),
            ),
            _ => e.within(format!("put of {name:?}")),
        })
    }

    /// Stores only what is not there yet, in a file of its own if it has more than so many bytes.
    pub(super) fn put_new(&self, name: &str, view: View, options: PutOptions, small: usize) -> Result<()> {
        let seq = self.send_put(name, view, options, Some(0), small)?;
        self.core.ask::<u64>(&Ask::Version { seq }).map(drop)
    }

    pub(super) fn core(&self) -> &Core {
        &self.core
    }

    /// Sends a put; what has up to `small` bytes travels in the record.
    fn send_put(
        &self,
        name: &str,
        view: View,
        o: PutOptions,
        if_version: Option<u64>,
        small: usize,
    ) -> Result<u64> {
        let core = &*self.core;
        let _visible = core.visible();
        core.enter()?;
        Name::new(name)?;
        check_unit(o.units)?;
        if view.original().is_some() {
            return Err(Error::bad(format!(
                "{name:?} is a data set, and only arrays of snapshots are kept with less precision; convert it before"
            )));
        }
        let attrs = o.attrs.map(to_json).transpose()?.unwrap_or_default();
        let bytes = view.nbytes();
        let record = |payload| Record::Put {
            name,
            set: o.set,
            meta: *view.meta(),
            units: o.units,
            attrs: &attrs,
            if_version,
            payload,
        };
        core.counts.put_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        if bytes <= small {
            return core.publish(&record(Payload::Inline(&view.bytes())));
        }
        let placed: Placed = core.place_put(name, bytes as u64)?;
        core.counts.copied(bytes as u64, || {
            let _ = view.fill(&placed.block, 0);
        });
        core.publish(&record(Payload::Block(placed.reference())))
    }

    /// Waits until the owner has committed what was put, so that a reader sees it.
    pub fn settle(&self) -> Result<()> {
        self.core.enter()?;
        self.core.settle(self.core.log.last_kept())
    }

    /// Waits until the owner has committed what was put into one data set, so that a reader sees it.
    pub fn settle_data(&self, name: &str, set: i64) -> Result<()> {
        self.core.enter()?;
        match self.core.log.last_put(name, set) {
            Some(seq) => self.core.settle(seq),
            None => Ok(()),
        }
    }

    /// Counts the commits of the owner: nothing was committed while it stays.
    pub fn commits(&self) -> impl Fn() -> u64 + Send + Sync + 'static {
        let segment = self.core.segment.clone();
        move || segment.word(word::COMMITS).load(Ordering::SeqCst)
    }

    /// Waits until a snapshot that this rank ended is durable, if it is the only rank.
    pub fn settle_steps(&self) -> Result<()> {
        self.core.enter()?;
        let last = self.core.last_ended.load(Ordering::Relaxed);
        if self.core.open.size != 1 || last == i64::MIN {
            return Ok(());
        }
        self.core.ask(&Ask::WaitStep { step: last })
    }

    /// Deletes data sets by glob; returns how many.
    pub fn delete(&self, pattern: &str, set: Option<i64>) -> Result<u64> {
        self.ask(&Ask::Delete { pattern: pattern.to_owned(), set })
    }

    /// Renames a data set, all its sets; returns how many.
    pub fn rename(&self, from: &str, to: &str) -> Result<u64> {
        Name::new(to)?;
        self.ask(&Ask::Rename { from: from.to_owned(), to: to.to_owned() })
    }

    /// Copies a data set, all its sets; returns how many.
    pub fn copy(&self, from: &str, to: &str) -> Result<u64> {
        Name::new(to)?;
        self.ask(&Ask::Copy { from: from.to_owned(), to: to.to_owned() })
    }

    /// Changes attributes; null values delete.
    pub fn set_attrs(&self, target: Target, attrs: Map<String, Value>) -> Result<()> {
        self.ask(&Ask::SetAttrs { target, attrs })
    }

    /// Creates or opens a table.
    pub fn table(&self, name: &str, columns: Vec<Column>, history: bool) -> Result<TableInfo> {
        Name::new(name)?;
        if history {
            self.core.ranks_alone("a history")?;
        }
        if columns.len() > limits::COLUMNS {
            return Err(Error::bad(format!(
                "the table {name:?} has {} columns, {} are the most",
                columns.len(),
                limits::COLUMNS
            )));
        }
        self.ask(&Ask::Table { name: name.to_owned(), columns, history })
    }

    /// Adds rows to a table, as made in the step that is computed, or in one that is given.
    pub fn insert(&self, table: &TableInfo, rows: &[Vec<Cell>], step: Option<i64>) -> Result<()> {
        let wrong = rows.iter().find(|r| r.len() != table.columns.len());
        if let Some(row) = wrong {
            return Err(Error::bad(format!(
                "a row of {} cells for the table {:?} of {} columns; give one for each column",
                row.len(),
                table.name,
                table.columns.len()
            )));
        }
        let encode = |row: usize, w: &mut codec::Writer| rows[row].iter().for_each(|cell| cell.encode(w));
        self.insert_rows(table, rows.len(), step, encode)
    }

    /// Adds so many rows, of which `encode` writes all cells of one.
    pub fn insert_rows(
        &self,
        table: &TableInfo,
        rows: usize,
        step: Option<i64>,
        encode: impl Fn(usize, &mut codec::Writer),
    ) -> Result<()> {
        self.core.enter()?;
        if table.history && rows > 0 {
            self.core.ranks_alone("a row of a history")?;
            self.core.makes_again_in(History::Table(table.id))?;
        }
        let mut batch = codec::Writer::new();
        let (mut held, mut bytes, mut row) = (0u32, 0, Vec::new());
        for n in 0..rows {
            let mut w = codec::Writer::over(row);
            encode(n, &mut w);
            row = w.finish();
            if row.len() > ROWS_BYTES {
                return Err(Error::bad(format!(
                    "a row of {} bytes for the table {:?}, {ROWS_BYTES} are the most; put large values as data sets",
                    row.len(),
                    table.name
                )));
            }
            if bytes + row.len() > ROWS_BYTES {
                self.send_rows(table, held, step, std::mem::take(&mut batch))?;
                (held, bytes) = (0, 0);
            }
            batch.raw(&row);
            held += 1;
            bytes += row.len();
        }
        self.send_rows(table, held, step, batch)
    }

    fn send_rows(&self, table: &TableInfo, rows: u32, step: Option<i64>, cells: codec::Writer) -> Result<()> {
        if rows == 0 {
            return Ok(());
        }
        let step = step.unwrap_or_else(|| self.core.stamp());
        self.core.publish(&Record::Insert { table: table.id, step, rows, cells: &cells.finish() }).map(|_| ())
    }

    /// Has an index of columns of a table, unless there is one.
    pub fn index(&self, table: &str, columns: &[&str]) -> Result<()> {
        let columns = columns.iter().map(|&column| column.to_owned()).collect();
        self.ask(&Ask::Index { table: table.to_owned(), columns })
    }

    /// Changes rows; returns how many.
    pub fn update(
        &self,
        table: &TableInfo,
        set: Map<String, Value>,
        condition: &str,
        args: &[Value],
    ) -> Result<u64> {
        self.may_change(table)?;
        let (table, condition) = (table.name.clone(), condition.to_owned());
        self.ask(&Ask::Update { table, set, condition, args: args.to_vec() })
    }

    /// Removes rows; returns how many.
    pub fn remove(&self, table: &TableInfo, condition: &str, args: &[Value]) -> Result<u64> {
        self.may_change(table)?;
        let (table, condition) = (table.name.clone(), condition.to_owned());
        self.ask(&Ask::Remove { table, condition, args: args.to_vec() })
    }

    /// Rows of a history go with the steps, which are the ranks'.
    fn may_change(&self, table: &TableInfo) -> Result<()> {
        if table.history { self.core.ranks_alone("a row of a history") } else { Ok(()) }
    }

    /// Steps that are in the run already; writing one of them again is a conflict.
    pub fn know_steps(&self, steps: impl IntoIterator<Item = i64>) {
        self.core.numbers().know(steps);
    }

    /// Notes how many bytes each rank put into the last step of the run.
    pub fn know_last_bytes(&self, bytes: u64) {
        let _ = self.core.last_bytes.set(bytes);
    }

    /// Begins a snapshot.
    pub fn snapshot(&self, step: i64, time: Option<f64>) -> Result<StepWriter> {
        self.core.ranks_alone("a snapshot")?;
        StepWriter::begin(&self.core, step, time)
    }

    /// Goes back to the last complete step, or to a checkpoint, and restores the parameters.
    /// Damaged steps are passed over; with `strict` they are an error.
    pub fn restart(&self, tag: Option<&str>, strict: bool) -> Result<Option<Restarted>> {
        self.core.ranks_alone("a restart")?;
        self.core.log.begin_work();
        let restarted: Option<Restarted> = self.ask(&Ask::Restart { tag: tag.map(str::to_owned), strict })?;
        let from = self.core.segment.word(word::FROM).load(Ordering::SeqCst);
        self.core.from.store(from, Ordering::Relaxed);
        self.core.go_back(restarted.as_ref().map(|r| Back { step: r.step, heads: r.heads }));
        if let Some(r) = &restarted {
            self.tell_passed(r);
            self.core.restore(&r.parameters)?;
            // What was ended behind it is put aside: nobody waits for it.
            self.core.last_ended.fetch_min(r.step, Ordering::Relaxed);
            let durable = self.core.segment.word(word::DURABLE).load(Ordering::Acquire);
            self.core.went_back.fetch_or(durable > (r.step + 1).max(0) as u64, Ordering::Relaxed);
        }
        Ok(restarted)
    }

    /// Says which complete steps stay, in this life of the run. `Conflict` when another rank or program said otherwise.
    pub fn keep(&self, keep: Keep) -> Result<()> {
        self.core.ranks_alone("keep")?;
        self.ask(&Ask::Keep { keep })
    }

    /// Says, in rank 0 only, that the run goes on farther back than its last step.
    fn tell_passed(&self, back: &Restarted) {
        if back.passed.is_empty() || self.core.open.rank != 0 {
            return;
        }
        let passed = back.passed.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        let (run, step) = (&self.core.open.path, back.step);
        // The run's messages have it, too.
        say(&format!("{run}: the restart goes back to step {step} and passes over damaged ones: {passed}"));
    }

    /// Gives a complete step up: it is listed no more, its file goes, its number is free. Returns whether
    /// there was one.
    pub fn drop_step(&self, step: i64) -> Result<bool> {
        self.core.ranks_alone("dropping a snapshot")?;
        let there = self.ask(&Ask::DropStep { step })?;
        let mut numbers = self.core.numbers();
        numbers.free(step);
        // Nobody waits for what is gone.
        self.core.last_ended.fetch_min(numbers.last().unwrap_or(i64::MIN), Ordering::Relaxed);
        Ok(there)
    }

    /// Says how many small complete steps of one layout are put together by themselves; 0: none are.
    pub fn pack_every(&self, steps: u64) -> Result<()> {
        self.core.ranks_alone("pack")?;
        self.ask(&Ask::PackEvery { steps })
    }

    /// Puts small complete steps of one layout together, from one step to another.
    pub fn pack(&self, first: i64, last: i64) -> Result<Packed> {
        self.core.ranks_alone("packing snapshots")?;
        // What was ended before this is complete then.
        self.flush()?;
        self.ask(&Ask::Pack { first, last })
    }

    /// Marks the last ended step as a restart point; returns its number.
    pub fn checkpoint(&self, tag: Option<&str>) -> Result<i64> {
        self.core.ranks_alone("a checkpoint")?;
        tag.map_or(Ok(()), Name::check_tag)?;
        self.ask(&Ask::Checkpoint { tag: tag.map(str::to_owned) })
    }

    /// Waits until everything put so far is durable.
    pub fn flush(&self) -> Result<()> {
        let _visible = self.core.visible();
        self.core.enter()?;
        let () = self.core.ask(&Ask::Flush)?;
        self.core.late()
    }

    /// Figures of both sides.
    pub fn stats(&self) -> Result<Map<String, Value>> {
        let mut stats: Map<String, Value> = self.ask(&Ask::Stats)?;
        let word = |i| self.core.segment.word(i).load(Ordering::Relaxed);
        let counts = &self.core.counts;
        let count = |c: &std::sync::atomic::AtomicU64| Value::from(c.load(Ordering::Relaxed));
        let seconds = |ns: u64| ns as f64 * 1e-9;
        let visible = seconds(counts.visible_ns.load(Ordering::Relaxed));
        let hidden = seconds(word(word::HIDDEN_NS));
        let (capacity, high_water) = self.core.rooms().capacity_and_high_water();
        stats.insert("visible_s".into(), visible.into());
        stats.insert("hidden_s".into(), hidden.into());
        let overlap = if visible + hidden > 0.0 { hidden / (visible + hidden) } else { 0.0 };
        stats.insert("overlap".into(), overlap.into());
        stats.insert("waited_s".into(), seconds(counts.waited_ns.load(Ordering::Relaxed)).into());
        stats.insert("steps".into(), count(&counts.steps));
        // Those of this rank (`drop_newest`) and those of the owner (`drop_oldest`).
        let dropped = stats.get("dropped_steps").and_then(Value::as_u64).unwrap_or(0);
        let dropped = dropped + counts.dropped.load(Ordering::Relaxed);
        stats.insert("dropped_steps".into(), dropped.into());
        stats.insert("snapshot_bytes".into(), count(&counts.snapshot_bytes));
        stats.insert("put_bytes".into(), count(&counts.put_bytes));
        stats.insert("overflow_bytes".into(), count(&counts.overflow_bytes));
        stats.insert("lost_range".into(), count(&counts.lost_range));
        stats.insert("written_bytes".into(), word(word::WRITTEN_BYTES).into());
        stats.insert("buffer_bytes".into(), capacity.into());
        stats.insert("high_water_bytes".into(), high_water.into());
        let a_mib = counts.copy_ns.load(Ordering::Relaxed);
        let speed = if a_mib == 0 { Value::Null } else { ((1u64 << 20) as f64 / seconds(a_mib)).into() };
        stats.insert("copy_bytes_per_s".into(), speed);
        stats.insert("ideal_s".into(), counts.ideal_ns().map(seconds).into());
        stats.insert("late_errors".into(), self.core.down.all_that_came_late().into());
        let embedded = self.core.life.owns_itself() && !self.core.life.is_remote();
        let owner = if embedded { "embedded" } else { "agent" };
        stats.insert("owner".into(), owner.into());
        let beside = lies_on_disk(&self.core.segment).is_some();
        stats.insert("buffer_in".into(), if beside { "file" } else { "memory" }.into());
        let durable = word(word::DURABLE);
        let durable = if durable == 0 { Value::Null } else { (durable - 1).into() };
        stats.insert("durable_step".into(), durable);
        Ok(stats)
    }

    /// The number of the state that the program holds: that of the head in the body of a loop, where the loop
    /// ended behind it, where the run went back to before it; `None` before anybody has said it, and behind a loop that
    /// was left in the middle of a step.
    pub fn position(&self) -> Option<i64> {
        // What another rank has done is followed where it can fail, if not here.
        let _ = self.core.follow();
        self.core.place().position.filter(|_| self.core.phase.load(Ordering::Relaxed) != LEFT)
    }

    /// The loop head; without a start it is the first one.
    pub fn steps(&self, n: i64, start: Option<i64>) -> Result<LoopHead> {
        self.steps_with(&Course { n: Some(n), start, is_kept: false, stride: 1, ending: Ending::default() })
    }

    /// The head of a loop that goes so.
    pub fn steps_with(&self, course: &Course) -> Result<LoopHead> {
        self.core.ranks_alone("a loop")?;
        LoopHead::new(&self.core, course)
    }

    /// The head of a program that has no loop of its own to give away: it comes to a step and is told whether to
    /// go on. The first call says what may end it.
    pub fn reach(&self, step: i64, ending: impl FnOnce() -> Result<Ending>) -> Result<bool> {
        self.core.ranks_alone("a loop")?;
        let Ok(mut reached) = self.reached.try_lock() else {
            return Err(Error::new(
                Code::Conflict,
                format!("step {step} is reached while another step is waited for; reach steps one by one"),
            ));
        };
        match &mut *reached {
            Some(head) if head.is_last() && !head.went_back() && !self.core.numbers().is_back() => {
                head.reach(step)
            }
            _ => {
                if self.core.phase.load(Ordering::Relaxed) == BODY {
                    return Err(Error::new(
                        Code::Conflict,
                        format!("step {step} is reached in the body of a loop, which has reached it already"),
                    ));
                }
                reached.insert(LoopHead::reaching(&self.core, step, ending()?)?).reach(step)
            }
        }
    }

    /// The loop ends at its next head, as if it had come to its last step; one that is still to begin does so at its
    /// first.
    pub fn finish(&self) -> Result<()> {
        self.core.ranks_alone("the end of the loop")?;
        self.core.enter()?;
        if !matches!(self.core.phase.load(Ordering::Relaxed), 0 | BODY) {
            return Err(Error::new(
                Code::Conflict,
                "no loop is under way that could be finished; call finish (fb_finish) in its body",
            ));
        }
        self.core.heed.fetch_or(FINISH, Ordering::Relaxed);
        Ok(())
    }

    /// Why the loop was ended before its last step: `quit`, `SIGTERM`, `time limit` or what was given
    /// to `forebay steer RUN end`; `None` when it was not.
    pub fn ended_by(&self) -> Option<String> {
        self.core.steer.ended_by()
    }

    /// Declares a diagram; its number is given here.
    pub fn diagram(&self, mut declared: DeclaredDiagram) -> Result<Diagram> {
        self.core.ranks_alone("a diagram")?;
        let id = self.core.diagrams.fetch_add(1, Ordering::Relaxed);
        if id as usize >= limits::DIAGRAMS {
            return Err(Error::new(
                Code::Full,
                format!(
                    "the run has {} diagrams already; use more curves in fewer diagrams",
                    limits::DIAGRAMS
                ),
            ));
        }
        declared.id = id;
        Diagram::declare(&self.core, declared)
    }

    /// Declares a parameter.
    pub fn parameter(&self, declared: DeclaredParameter) -> Result<Parameter> {
        self.core.ranks_alone("a parameter")?;
        self.core.parameter(declared)
    }

    /// What Save does.
    pub fn saves(&self, callback: Callback, every: Option<i64>) -> Result<()> {
        self.core.ranks_alone("what Save does")?;
        self.core.on_save(callback, every)
    }

    /// A button of the program's own.
    pub fn command(&self, name: &str, callback: Callback) -> Result<()> {
        self.core.ranks_alone("a button")?;
        self.core.on_command(name, callback)
    }

    /// A message for people; level 0 debug to 3 error.
    pub fn message(&self, level: u8, text: &str) -> Result<()> {
        self.core.enter()?;
        self.core.message(level, text)
    }

    /// The links of the run's page.
    pub fn monitor(&self) -> Result<PageLinks> {
        self.ask(&Ask::Monitor)
    }

    fn ask<T: serde::de::DeserializeOwned>(&self, ask: &Ask) -> Result<T> {
        self.core.enter()?;
        self.core.ask(ask)
    }

    /// Whether a loop has come to its end.
    pub fn looped(&self) -> bool {
        self.core.looped.load(Ordering::Relaxed) == LOOPED
    }

    /// Drains and closes; closing twice does nothing. `finished`: `None` means as the loop says.
    ///
    /// Snapshots that other ranks have not ended are waited for while these live. A wait that the
    /// user's check ends leaves the session there, to be closed again or let go of.
    pub fn close(&self, finished: Option<bool>) -> Result<()> {
        let core = &*self.core;
        if core.life.closed() {
            return Ok(());
        }
        if core.life.is_child() {
            // The parent's session is none of our business: not its segment, and not its threads,
            // which do not exist here. Only our copy of the socket goes.
            core.life.close();
            std::mem::forget(self.watcher.lock().unwrap_or_else(|e| e.into_inner()).take());
            drop(core.wire.lock().unwrap_or_else(|e| e.into_inner()).take());
            return Ok(());
        }
        core.attentive.lock().unwrap_or_else(|e| e.into_inner()).take();
        let finished = finished.unwrap_or_else(|| match core.looped.load(Ordering::Relaxed) {
            // Who only looked in, or put a note beside it, has not brought another program's work to its end.
            0 if core.open.size == 1 && !core.log.is_at_work() => !core.opened.unfinished,
            how => how != LOOPING,
        });
        if finished {
            self.remark_last_state();
        }
        let done = core.living().and_then(|()| self.ask_to_close(finished)).map_err(|e| core.where_moved(e));
        if let Err(e) = &done
            && core.life.good()
            && matches!(e.code(), Code::Cancelled | Code::Full)
        {
            // Ctrl-C while it drains, or a disk that stays full: the session is still there and may
            // be closed again.
            return done.map_err(|e| self.unfinished(e));
        }
        // What the owner says of it may come before the answer or behind it; this is known here.
        let unended = core.open_step().take().map_or(Ok(()), |open| Err(self.unended(open.step)));
        let late = core.all_late();
        core.life.close();
        self.leave(done.is_ok());
        done.and(unended).and(late)
    }

    fn unended(&self, step: i64) -> Error {
        Error::new(
            Code::Conflict,
            format!(
                "{}: snapshot {step} was not ended and is not in the run, which is closed and has everything else; end it before (a `with` block, `end`, `fb_snapshot_end`), or discard it",
                self.core.open.path
            ),
        )
    }

    /// A code that owns its loop ends without a word, and what Save keeps every so often may not be its last state.
    fn remark_last_state(&self) {
        let core = &*self.core;
        let reaches = self.reached.try_lock().is_ok_and(|head| head.as_ref().is_some_and(LoopHead::is_last));
        let every = core.steer.every.load(Ordering::Relaxed);
        if !reaches || every == 0 || core.open.rank != 0 || core.phase.load(Ordering::Relaxed) != BODY {
            return;
        }
        if let Some(step) = core.place().position.filter(|step| !core.numbers().is_taken(*step)) {
            say(&format!(
                "{}: the last state that was reached, {step}, is not kept; say finish (fb_finish) before the last reach, and it is",
                core.open.path
            ));
        }
    }

    /// Where the data are when a closing was interrupted.
    fn unfinished(&self, e: Error) -> Error {
        let segment = self.core.segment.path().map_or_else(String::new, |p| p.display().to_string());
        let run = &self.core.open.path;
        Error::new(
            e.code(),
            format!(
                "{}; the run is not closed: what is not on disk yet is safe in {segment}; close it again, or let the program end and `forebay recover {run}` finishes it",
                e.text()
            ),
        )
    }

    fn ask_to_close(&self, finished: bool) -> Result<()> {
        let core = &*self.core;
        let mut seq = core.closing.load(Ordering::Relaxed);
        let mut sent = Ok(());
        if seq == 0 {
            // Known before the owner can see it: what other threads are told from then on depends on it.
            let mut known = |number| {
                seq = number;
                core.closing.store(number, Ordering::Relaxed);
            };
            sent = core.send_ask(&Ask::Close { finished }, &mut known).map(drop);
        }
        let outcome = match sent.and_then(|()| core.await_answer(seq, None)) {
            Err(e) if e.code() == Code::Cancelled && core.life.good() => return Err(e),
            Err(e) => core.last_words(seq, e).map(drop),
            Ok(_) => Ok(()),
        };
        outcome.map_err(|e| {
            // The request is answered: closing again is another one. Who asked hears of a dead owner.
            core.closing.store(0, Ordering::Relaxed);
            core.life.check().map_err(|lost| core.explained(lost)).err().unwrap_or(e)
        })
    }

    /// Whether a close was interrupted and not repeated.
    pub fn interrupted(&self) -> bool {
        !self.closed() && self.core.closing.load(Ordering::Relaxed) != 0
    }

    /// Leaves without waiting for the disk: what is not drained stays in the segment.
    pub fn abandon(&self) {
        if self.core.life.close() {
            self.leave(false);
        }
    }

    fn leave(&self, drained: bool) {
        drop(self.watcher.lock().unwrap_or_else(|e| e.into_inner()).take());
        if drained {
            // What is not drained stays under its name for whoever owns the run next.
            let _ = self.core.segment.unlink();
        } else {
            self.core.segment.word(word::LEFT).store(1, Ordering::SeqCst);
        }
        let wire = self.core.wire.lock().unwrap_or_else(|e| e.into_inner()).take();
        // The last rank to go waits for the end of the store: what it finds then is the closed run.
        if let Some(wire) = wire.filter(|_| drained) {
            wire.part(PARTING);
        }
    }

    /// How long has gone visibly into output so far.
    pub fn visible(&self) -> Duration {
        Duration::from_nanos(self.core.counts.visible_ns.load(Ordering::Relaxed))
    }
}

/// An owner that does not part from a closed session in this time is stopped, or has much else to do.
const PARTING: Duration = Duration::from_secs(2);
/// Most bytes of rows in one record.
const ROWS_BYTES: usize = limits::RECORD_BYTES / 2;

impl Drop for Session {
    fn drop(&mut self) {
        // What was acknowledged is in the segment.
        if self.interrupted() {
            return self.abandon();
        }
        if let Err(e) = self.close(std::thread::panicking().then_some(false)) {
            say(e.text());
        }
    }
}
