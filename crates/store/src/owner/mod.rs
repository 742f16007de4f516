//! The owner of a run: the one process that writes it.
//!
//! ```text
//!   rank's segment --up ring--> intake --(group commit)--> catalog.sqlite
//!        |  blocks                |  works       ^ reports
//!        +----------------------> drain --(direct writes, fsync, rename)--> steps/*.h5, data/*.h5
//! ```
//! What is to be done the machine decides (`machine`); intake and drain do it.
//!
//! Sessions are attached by whoever has the sockets; the owner sees segments only. Everything is
//! done by two threads, so a call of the owner costs its caller a message. A third asks nothing of the disk and says
//! when one of them waits for it in vain (`silence`).

mod adopt;
mod apply;
mod aside;
mod attached;
mod carry;
mod command;
mod down;
mod drain;
mod figures;
mod home;
mod intake;
mod machine;
mod open;
mod overflow;
mod packing;
mod recording;
mod rests;
mod silence;
mod sink;

pub(crate) use adopt::spare_the_living;
pub use adopt::{Orphan, has_living_ranks};
pub(crate) use aside::tidy;
pub use machine::{Absence, OVER_THE_NETWORK};
pub use open::{Options, Says};
pub(crate) use open::{files, has_end, new_id, one_catalog};
pub(crate) use overflow::{id_left, left_by_the_dead};
pub use recording::{Replayed, replay};
pub use rests::{InMemory, left_in_memory};
pub(crate) use rests::{broken, close_past, earlier, inherit, lost_records, older, up_to};
pub use sink::{Deaf, Sink};

use crate::disk::Disk;
use crate::layout::Layout;
use crate::lock::Lock;
use command::{Admit, Command};
use down::Downs;
use forebay_arena::{Doorbell, Segment};
use forebay_types::control::{OpenRun, RunOpened};
use forebay_types::record::Notice;
use forebay_types::watch::Act;
use forebay_types::{Code, Error, Result, counted};
use intake::Intake;
use serde_json::json;
use silence::{Watch, Watched};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A session to be attached: as admitted, with the segment the rank made.
pub struct Attach {
    /// Number given by [`Owner::admit`].
    pub session: u64,
    /// The rank's segment.
    pub segment: Segment,
}

struct Threads {
    intake: JoinHandle<Intake>,
    drain: JoinHandle<()>,
    lock: Lock,
}

/// The owner of a run. Dropped without [`Owner::close`] it drains and closes too.
pub struct Owner {
    layout: Layout,
    run_id: String,
    created: bool,
    scratch: AtomicBool,
    commands: Mutex<Sender<Command>>,
    doorbell: Doorbell,
    downs: Arc<Downs>,
    lost: Arc<OnceLock<Error>>,
    is_wiped: Arc<AtomicBool>,
    disk: Arc<Watched>,
    packing: packing::Packing,
    watch: Watch,
    /// A call of the disk that takes longer stands in the figures.
    patience: Duration,
    threads: Mutex<Option<Threads>>,
}

impl Owner {
    /// The run's directory.
    pub fn dir(&self) -> &Path {
        self.layout.root()
    }

    /// The run's identity.
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// Whether the run was made by this opening.
    pub fn created(&self) -> bool {
        self.created
    }

    fn threads(&self) -> MutexGuard<'_, Option<Threads>> {
        self.threads.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Rings this to wake the intake; ranks get it for their up rings.
    pub fn doorbell(&self) -> Result<OwnedFd> {
        self.doorbell.share()
    }

    fn send(&self, command: Command) -> Result<()> {
        let sent = self.commands.lock().unwrap_or_else(|e| e.into_inner()).send(command);
        sent.map_err(|_| self.over())?;
        self.doorbell.ring();
        Ok(())
    }

    /// Asks the intake and waits for its answer.
    fn ask<T>(&self, command: impl FnOnce(Sender<T>) -> Command) -> Result<T> {
        let (tell, answer) = channel();
        self.send(command(tell))?;
        answer.recv().map_err(|_| self.over())
    }

    /// Why nobody answers any more.
    fn over(&self) -> Error {
        let dir = self.dir().display();
        match self.lost.get() {
            Some(e) => Error::new(Code::Closed, format!("the store of the run {dir} is lost: {}", e.text())),
            None => Error::new(Code::Closed, format!("the run {dir} is closed")),
        }
    }

    /// Admits a rank: gives it a session and the name of its segment. Waits while the disk is full, if somebody
    /// hears that.
    pub fn admit(&self, request: &OpenRun, says: Option<&Says>) -> Result<RunOpened> {
        self.admit_after(request, None, says)
    }

    /// Admits a rank that brings the rest of the earlier session `after`, if one is given: gives it a session and the
    /// name of its segment. Waits while the disk is full, if somebody hears that.
    pub fn admit_after(
        &self,
        request: &OpenRun,
        after: Option<u64>,
        says: Option<&Says>,
    ) -> Result<RunOpened> {
        let (rank, size) = (request.rank, request.size);
        let is_rank = rank < size && size as usize <= forebay_types::limits::RANKS;
        if !is_rank && !request.is_client() {
            return Err(Error::bad(format!("rank {rank} of {} is not possible", counted(size, "rank"))));
        }
        let (created, program) = (self.created, request.program.clone());
        let admit = || {
            let program = program.clone();
            self.ask(|tell| Command::Admit(Admit { rank, size, program, created, after }, tell))?
        };
        open::while_full(self.dir(), self.disk.patience(), says, admit)
    }

    /// Whether it is known, by what was heard since then, whether other ranks live beside one that comes. Asks those on
    /// other hosts, and is to be asked again until they have answered, or are given up.
    pub fn is_sure_for(&self, rank: u32, size: u32, since: Instant) -> Result<bool> {
        self.ask(|tell| Command::IsSureFor(rank, size, since, tell))
    }

    /// Takes a rank's segment into custody.
    pub fn attach(&self, what: Attach, sink: Arc<dyn Sink>) -> Result<()> {
        self.watch.tell(sink.clone());
        self.ask(|tell| Command::Attach(what, sink, tell))?
    }

    /// A rank will not open this run, for something else was seen of it: steps do not wait for it.
    pub fn never_comes(&self, rank: u32, absence: Absence) -> Result<()> {
        self.send(Command::NeverComes(rank, absence))
    }

    /// The rank is gone: its socket is closed. Everything it published is kept, unfinished steps
    /// are given up, then the session ends.
    pub fn hung_up(&self, session: u64) -> Result<()> {
        self.send(Command::HungUp(session))
    }

    /// Puts a notice into a rank's down ring.
    pub fn post(&self, session: u64, notice: &Notice) -> Result<()> {
        self.downs.post(session, notice)
    }

    /// Logs that somebody asked for an act; gives the act's number without waiting for the disk,
    /// so that a run can be steered while its disk is full. What becomes of it is logged when the
    /// rank's `Applied` record comes.
    pub fn log_steering(&self, who: &str, act: &Act) -> Result<u64> {
        let (who, act) = (who.to_owned(), act.clone());
        self.ask(|reply| Command::Steer { who, act, reply })?
    }

    /// Logs the end of an act that no rank carries out (run, stop, step).
    pub fn log_applied(&self, id: u64, step: i64, code: u32, text: &str) -> Result<()> {
        self.send(Command::Steered { id, step, code, text: text.to_owned() })
    }

    /// Waits until all complete steps and all data sets are durable.
    pub fn flush(&self, timeout: Duration) -> Result<()> {
        let (tell, done) = channel();
        self.send(Command::Flush(tell))?;
        let flushed = done.recv_timeout(timeout).map_err(|e| match e {
            RecvTimeoutError::Disconnected => self.over(),
            RecvTimeoutError::Timeout => Error::new(
                Code::Timeout,
                format!("{} is not durable after {timeout:?}", self.dir().display()),
            ),
        })?;
        flushed.map(drop)
    }

    /// Has everything read that ranks had written when this was called.
    pub fn read_up(&self) -> Result<()> {
        self.ask(Command::ReadUp)
    }

    /// Figures, as `Ask::Stats` answers them; only that and for what it waits while the disk does not answer.
    pub fn stats(&self) -> Result<serde_json::Value> {
        let (tell, answer) = channel();
        self.send(Command::Stats(tell))?;
        loop {
            let answer = answer.recv_timeout(self.patience);
            match (answer, self.disk.waits_for(self.patience)) {
                (Err(RecvTimeoutError::Disconnected), _) => return Err(self.over()),
                (Err(RecvTimeoutError::Timeout), None) => {}
                (Ok(figures), None) => return Ok(figures),
                (figures, Some(text)) => {
                    let mut figures = figures.unwrap_or_else(|_| json!({}));
                    figures["waiting_for_disk"] = true.into();
                    figures["waits_for"] = text.into();
                    return Ok(figures);
                }
            }
        }
    }

    /// Sessions that are open: number and rank.
    pub fn sessions(&self) -> Result<Vec<(u64, u32)>> {
        self.ask(Command::Sessions)
    }

    /// Whether nothing is on its way to disk and no session is open.
    pub fn is_idle(&self) -> Result<bool> {
        self.ask(Command::IsIdle)
    }

    /// Stops without draining: what is not durable stays in the segments of the ranks, and the
    /// next opening, or `forebay recover`, goes on with it. [`Owner::close`] then fails with
    /// `Cancelled`.
    pub fn abandon(&self) -> Result<()> {
        let dir = self.dir().display();
        let text = format!(
            "{dir} was given up before everything was on disk; what is missing is in shared memory, `forebay recover {dir}` finishes it"
        );
        self.send(Command::Lose(Error::new(Code::Cancelled, text)))
    }

    /// Whether the run is deleted at closing: as the ranks say that came last.
    pub fn set_scratch(&self, scratch: bool) {
        self.scratch.store(scratch, Ordering::Relaxed);
    }

    /// Ends all sessions, drains everything, settles the catalog and gives the run back. On a disk
    /// that stays full it fails with `Full`, as if the run had been abandoned.
    pub fn close(&self) -> Result<()> {
        self.end(false)
    }

    /// Does so for a program that begins the run anew: its clients hear that.
    pub fn close_to_be_wiped(&self) -> Result<()> {
        self.is_wiped.store(true, Ordering::SeqCst);
        self.close()
    }

    /// Does so, and leaves the sessions of living clients as they are: they go on at the next owner.
    pub fn close_before_clients(&self) -> Result<()> {
        self.end(!self.scratch.load(Ordering::Relaxed))
    }

    fn end(&self, clients_go_on: bool) -> Result<()> {
        let Some(threads) = self.threads().take() else { return Ok(()) };
        self.packing.end();
        // A store that is lost has stopped by itself.
        let _ = self.send(Command::Close(clients_go_on));
        let died = |_| Error::internal("a thread of the store died; run `forebay recover`");
        let mut intake = threads.intake.join().map_err(died)?;
        threads.drain.join().map_err(died)?;
        let lost = self.lost.get().cloned();
        if lost.is_none() {
            let _ = intake.catalog.settle();
        }
        drop(intake);
        drop(threads.lock);
        match lost {
            Some(e) => Err(e),
            None if self.scratch.load(Ordering::Relaxed) => std::fs::remove_dir_all(self.dir())
                .map_err(|e| Error::io(format!("cannot remove the scratch run {}", self.dir().display()), e)),
            None => Ok(()),
        }
    }
}

impl AsFd for Owner {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.doorbell.as_fd()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = self.close();
    }
}
