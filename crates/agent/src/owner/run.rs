//! One run at this owner: its store while ranks write it, its controller, and what its page shows,
//! which outlives them.
//!
//! ```text
//!  blank --first rank opens--> open (LOCK held, agent.json written) --last rank left--> ended
//!                               ^                                                         |
//!                               +--------------- opened again, same page -----------------+
//! ```

mod acts;

use super::controller::{Controller, Outside, RankView};
use super::news::{Listening, NewsQueue};
use super::seats::{Left, Orphaned, Seats, Terms};
use super::steering::{Ack, GONE};
use super::{Opener, Page, Session, Site};
use crate::words::{RankStatus, RunStatus};
use forebay_arena::Segment;
use forebay_host::lock;
use forebay_host::{Process, environment, identity};
use forebay_store::{Attach, Orphan, Owner, Says, layout};
use forebay_types::control::{Mode, NO_RANK, OpenRun, Resume, RunOpened};
use forebay_types::record::Notice;
use forebay_types::watch::{Act, StateInfo};
use forebay_types::{Code, Error, Result, counted};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How long a rank that leaves may take before another session of its takes the seat.
const LEAVING: Duration = Duration::from_secs(2);
/// How long what a dead rank has left may take: a machine that is busy, or its disk, has nobody refused for a seat that
/// nobody holds.
const DYING: Duration = Duration::from_secs(30);
/// How long who brings the rest of a dead session may take before a rank begins all the same.
const BRINGING: Duration = Duration::from_secs(60);
/// How long ranks on other hosts that do not answer are waited for: their proxies give them up before.
const LINES: Duration = Duration::from_secs(75);
/// Between two looks at whether they have come, or answered.
const ASKED: Duration = Duration::from_millis(5);
/// After this time an opening says that it waits for them.
const REMARK: Duration = Duration::from_secs(2);
/// How long what a lost rank published may take to be applied before its seat counts as free.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The run while its store is open.
struct Life {
    owner: Arc<Owner>,
    news: Listening,
    seats: Seats,
    /// When it followed an owner that had died and left ranks.
    followed: Option<Instant>,
}

#[derive(Default)]
struct State {
    life: Option<Life>,
    ended: Option<Instant>,
}

impl State {
    /// How long its seat may be awaited that is not free yet.
    fn awaits(&self, open: &OpenRun, who: &Opener) -> Option<Duration> {
        if open.is_client() {
            return None;
        }
        let seats = &self.life.as_ref()?.seats;
        if seats.is_brought_to(open, who) {
            return Some(BRINGING);
        }
        if seats.is_held_by_dead(open, Process::is_gone) {
            return Some(DYING);
        }
        seats.is_taken(open, who, Process::is_gone).then_some(LEAVING)
    }

    fn has_ranks(&self) -> bool {
        self.life.as_ref().is_some_and(|l| !l.seats.is_empty())
    }
}

/// What a program does that shares its launcher with another one.
const OWN_NUMBERS: &str = "programs that one launcher starts together are numbered as one; let each give the rank and the number of its own ranks: rank=0, size=1 for one of one rank (rank and ranks of fb_open_opts)";

/// A run.
pub struct Run {
    path: PathBuf,
    site: Weak<dyn Site>,
    began: Instant,
    controller: Controller,
    /// One opens or closes the store at a time. The thread of the store never waits for it.
    turn: Mutex<()>,
    /// Held for moments only, never while the store is asked: its thread takes it, too.
    state: Mutex<State>,
    changed: Condvar,
    page: Mutex<Option<Arc<dyn Page>>>,
    /// A rank's wish that the run ends is being put down in the log.
    ending: AtomicBool,
    /// Ranks that wait for the run to be opened: they hear what that waits for.
    opening: Mutex<Vec<Says>>,
}

impl Run {
    /// Known by its directory only.
    pub fn new(path: &Path, site: Weak<dyn Site>) -> Run {
        Run {
            path: path.to_owned(),
            site,
            began: Instant::now(),
            controller: Controller::new(),
            turn: Mutex::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
            page: Mutex::default(),
            ending: AtomicBool::new(false),
            opening: Mutex::default(),
        }
    }

    /// Does so while somebody hears what it waits for.
    pub fn while_heard<T>(&self, hears: Option<Says>, way: impl FnOnce() -> T) -> T {
        lock(&self.opening).extend(hears.clone());
        let done = way();
        lock(&self.opening).retain(|h| hears.as_ref().is_none_or(|mine| !Arc::ptr_eq(h, mine)));
        done
    }

    /// What its page is known by; empty while it was never opened.
    pub fn id(&self) -> String {
        lock(&self.page).as_ref().map_or(String::new(), |page| page.id().to_owned())
    }

    /// Its name for people.
    pub fn name(&self) -> &str {
        self.path.file_stem().and_then(|n| n.to_str()).unwrap_or("run")
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its controller.
    pub fn controller(&self) -> &Controller {
        &self.controller
    }

    /// Its page.
    pub fn page(&self) -> Option<Arc<dyn Page>> {
        lock(&self.page).clone()
    }

    /// The process around it. It outlives every connection, and so whoever asks.
    fn site(&self) -> Result<Arc<dyn Site>> {
        self.site
            .upgrade()
            .ok_or_else(|| Error::new(Code::Closed, "the owner of the run has ended; open it again"))
    }

    /// A line for the log.
    fn log(&self, text: impl std::fmt::Display) {
        if let Some(site) = self.site.upgrade() {
            site.diary().line(format_args!("{}: {text}", self.name()));
        }
    }

    /// Whether it never came to be opened.
    pub fn is_blank(&self) -> bool {
        lock(&self.page).is_none() && !self.is_open()
    }

    /// Whether its store is open.
    pub fn is_open(&self) -> bool {
        lock(&self.state).life.is_some()
    }

    /// Whether ranks are connected.
    pub fn has_ranks(&self) -> bool {
        lock(&self.state).has_ranks()
    }

    /// Whether ranks are connected still at the deadline: one that has just ended gets the time to
    /// be noticed.
    pub fn keeps_ranks(&self, deadline: Instant) -> bool {
        let mut state = lock(&self.state);
        while state.has_ranks() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }

    /// How many people watch.
    pub fn watching(&self) -> usize {
        self.page().map_or(0, |p| p.watching())
    }

    /// For how long it has been over.
    pub fn ended_for(&self) -> Option<Duration> {
        let state = lock(&self.state);
        state.ended.filter(|_| state.life.is_none()).map(|t| t.elapsed())
    }

    /// The rank of a session.
    pub fn rank_of(&self, session: u64) -> Option<u32> {
        lock(&self.state).life.as_ref()?.seats.rank_of(session)
    }

    /// The time, as its seats count it.
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn owner(&self) -> Option<Arc<Owner>> {
        lock(&self.state).life.as_ref().map(|l| l.owner.clone())
    }

    /// A rank, or a client, opens it: the store is opened for the first one, the others join.
    pub fn open(self: &Arc<Self>, open: &OpenRun, who: &Opener) -> Result<RunOpened> {
        let (began, mut told) = (Instant::now(), false);
        let mut since = began;
        let _turn = loop {
            self.await_seat(open, who, since);
            let turn = lock(&self.turn);
            // Ranks of a dead owner may have come, and died, while the turn was somebody else's.
            let awaits = lock(&self.state).awaits(open, who);
            if awaits.is_some_and(|patience| since.elapsed() < patience) {
                continue;
            }
            if !self.awaits_lines(open, who, began) {
                break turn;
            }
            drop(turn);
            self.say_late(began, &mut told);
            std::thread::sleep(ASKED);
            since = Instant::now();
        };
        if self.is_over_for(open, who) {
            self.close_store(false);
        }
        let is_anew = self.is_for_another_program(open, who);
        match open.mode {
            // What clients put is of the run that is wiped.
            Mode::Write if is_anew => self.close_store(false),
            Mode::Create if is_anew => return Err(self.exists()),
            _ => {}
        }
        let created = match self.owner() {
            Some(_) => false,
            None => {
                // Others of this program may be here whose owner died: what they write is not wiped.
                let joins = open.mode == Mode::Write && forebay_store::has_living_ranks(&self.path);
                self.open_store(open, who, if joins { Mode::ReadWrite } else { open.mode })?
            }
        };
        self.may_join(open, who)?;
        let owner = self.owner().ok_or_else(|| Error::internal("no store is open"))?;
        let opened = owner.admit_after(open, who.after, Some(&self.says()))?;
        if is_anew {
            owner.set_scratch(open.scratch);
        }
        if let Some(life) = lock(&self.state).life.as_mut() {
            life.seats.take(opened.session, open, who.clone());
        }
        self.log(format_args!("{} ({who}) opened it", named(open)));
        Ok(RunOpened { created, ..opened })
    }

    /// Whether the store is open for clients alone, and a program begins beside them.
    fn is_for_another_program(&self, open: &OpenRun, who: &Opener) -> bool {
        let state = lock(&self.state);
        state.life.as_ref().is_some_and(|l| l.seats.is_for_another_program(open, who))
    }

    fn exists(&self) -> Error {
        Error::new(
            Code::Conflict,
            format!(
                "the run {} exists already; open it with mode \"a\", or \"w\" to begin it anew",
                self.path.display()
            ),
        )
    }

    /// Two programs under one launcher, each with a run of its own, are numbered as one: neither run will
    /// ever have all its ranks, and both hear of it at once. A rank has just come to this run.
    pub fn part_from(&self, other: &Run, open: &OpenRun, who: &Opener) {
        let strangers = other.strangers(open.size, who);
        let Some((rank, of)) = strangers.first() else { return };
        other.lacks(open.rank, who, &self.path);
        if strangers.len() == 1 {
            self.lacks(*rank, of, &other.path);
        }
    }

    /// Ranks here that the launcher of a rank has started as another program.
    fn strangers(&self, size: u32, who: &Opener) -> Vec<(u32, Opener)> {
        lock(&self.state).life.as_ref().map_or_else(Vec::new, |l| l.seats.strangers(size, who))
    }

    /// A rank that has not come here has opened another run.
    fn lacks(&self, rank: u32, who: &Opener, run: &Path) {
        let state = lock(&self.state);
        let Some(life) = state.life.as_ref().filter(|l| l.seats.lacks(rank)) else { return };
        let absence = forebay_store::Absence {
            how: format!("({who}) is another program and has opened the run {} instead", run.display()),
            remedy: OWN_NUMBERS.into(),
        };
        let owner = life.owner.clone();
        drop(state);
        // A store that is being closed waits for nobody.
        let _ = owner.never_comes(rank, absence);
    }

    /// Whether this rank may join those that are there.
    fn may_join(&self, open: &OpenRun, who: &Opener) -> Result<()> {
        match &lock(&self.state).life {
            Some(life) => life.seats.may_join(&self.path, open, who),
            None => Ok(()),
        }
    }

    /// A seat whose rank has said good-bye, has just died, or is the same process, becomes free in
    /// a moment, and one for which a rest is brought when that is in.
    fn await_seat(&self, open: &OpenRun, who: &Opener, began: Instant) {
        let mut state = lock(&self.state);
        while let Some(patience) = state.awaits(open, who) {
            let left = patience.saturating_sub(began.elapsed());
            if left.is_zero() {
                return;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Whether it is not known yet if ranks on other hosts live, and no other one does: whether this one belongs to
    /// their life of the run, or begins another one, is decided when that is known.
    fn awaits_lines(&self, open: &OpenRun, who: &Opener, began: Instant) -> bool {
        let asks = !who.brings() && !open.is_client() && began.elapsed() < LINES;
        let Some(owner) = self.owner().filter(|_| asks) else {
            return false;
        };
        // A store that is being closed has nobody who lives.
        !owner.is_sure_for(open.rank, open.size, began).unwrap_or(true)
    }

    /// Says once what an opening waits for that waits long.
    fn say_late(self: &Arc<Self>, began: Instant, told: &mut bool) {
        if began.elapsed() >= REMARK && !std::mem::replace(told, true) {
            self.says()(
                "a rank on another host does not answer; this start waits until it does, is started again, or its line is given up (10 s; 60 s when nothing says that it is cut)",
            );
        }
    }

    /// Whether the store is open only for ranks that will not come: this one begins anew.
    fn is_over_for(&self, open: &OpenRun, who: &Opener) -> bool {
        let mut state = lock(&self.state);
        state.life.as_mut().is_some_and(|l| l.seats.is_over_for(open, who, Process::is_gone))
    }

    /// Opens the store; says whether the run was made.
    fn open_store(self: &Arc<Self>, open: &OpenRun, who: &Opener, mode: Mode) -> Result<bool> {
        let site = self.site()?;
        let news = NewsQueue::listen(Arc::downgrade(self), self.site.clone())?;
        let options = forebay_store::Options {
            mode,
            scratch: open.scratch,
            adopt: Some(news.0.clone()),
            clients_alone: !site.adopts(),
            late_ranks: environment::late_ranks()?,
            elsewhere: open.elsewhere,
            says: Some(self.says()),
            ..forebay_store::Options::default()
        };
        let opened = Owner::open(&self.path, options);
        // What an earlier owner left has been told by now; it is carried on before anybody joins.
        news.0.settle();
        let owner = opened.map_err(|e| self.refused_elsewhere(open, who, e))?;
        let created = owner.created();
        site.publish(&self.path.join(layout::AGENT))?;
        self.show(&*site, owner.run_id(), &open.program)?;
        let orphans = owner.orphans()?;
        let orphaned =
            |o: &Orphan| Orphaned { session: o.session, rank: o.rank, who: Opener::local(o.process.pid) };
        let seats = Seats::new(Terms::of(open, who), orphans.iter().map(orphaned).collect(), self.now());
        let (clients, ranks): (Vec<Orphan>, Vec<Orphan>) =
            orphans.into_iter().partition(|o| o.rank == NO_RANK);
        let followed = (!ranks.is_empty()).then(Instant::now);
        // With nobody left who could carry them out, acts come to their end.
        let over = if ranks.is_empty() { owner.open_acts(None)? } else { Vec::new() };
        lock(&self.state).life = Some(Life { owner: Arc::new(owner), news, seats, followed });
        over.iter().for_each(|act| self.refused(act.id, GONE));
        if !ranks.is_empty() {
            self.controller.take_over(&**self, open.size, &ranks);
            let ranks = counted(ranks.len(), "rank");
            self.log(format_args!("of a dead owner {ranks} left, to go on here"));
        }
        if !clients.is_empty() {
            let clients = counted(clients.len(), "client");
            self.log(format_args!("of an earlier owner {clients} left, to go on here"));
        }
        Ok(created)
    }

    /// Of ranks on several hosts one alone gets the run: the others say how all of them would, and the one
    /// that has it hears that it need not wait for them.
    fn refused_elsewhere(&self, open: &OpenRun, who: &Opener, e: Error) -> Error {
        let layout = layout::Layout::new(&self.path);
        let here = identity::host();
        let Some(holder) = forebay_store::lock::holder(&layout.lock()).filter(|h| h.host != here) else {
            return e;
        };
        if open.size == 1 || e.code() != Code::Conflict {
            return e;
        }
        let (rank, size) = (open.rank, open.size);
        layout.note_absent(
            rank,
            &format!("({who}) was refused, since this run is open on host {}", holder.host),
        );
        Error::new(
            Code::Conflict,
            format!(
                "{}, and rank {rank} of {size} is on host {here}; {}",
                e.text().split(';').next().unwrap_or_default(),
                forebay_store::OVER_THE_NETWORK
            ),
        )
    }

    /// What an opening that writes what a dead owner left has to say, for whoever sits at the terminal.
    fn says(self: &Arc<Self>) -> Says {
        let run = Arc::downgrade(self);
        Arc::new(move |text: &str| {
            let Some(run) = run.upgrade() else { return };
            let text = format!("{}: {text}", run.name());
            if let Some(site) = run.site.upgrade() {
                site.diary().warn(&text);
            }
            let hear = lock(&run.opening).clone();
            hear.iter().for_each(|hears| hears(&text));
        })
    }

    /// A rank whose owner died goes on here: the first one that comes opens the store.
    pub fn resume(self: &Arc<Self>, what: &Resume, pid: u32) -> Result<RunOpened> {
        let _turn = lock(&self.turn);
        if self.owner().is_none() {
            self.open_store(&what.open, &Opener::local(pid), Mode::ReadWrite)?;
        }
        let owner = self.owner().ok_or_else(|| Error::internal("no store is open"))?;
        let is_run = owner.run_id() == what.run_id;
        let goes_on =
            is_run && lock(&self.state).life.as_mut().is_some_and(|l| l.seats.resume(what.session, pid));
        if !goes_on {
            return Err(Error::new(
                Code::Closed,
                format!(
                    "session {} of the run {} is over; open the run again: nothing acknowledged is lost",
                    what.session,
                    self.path.display()
                ),
            ));
        }
        self.log(format_args!("{} (pid {pid}) goes on", named(&what.open)));
        Ok(RunOpened {
            run_id: owner.run_id().to_owned(),
            session: what.session,
            segment: String::new(),
            owner_pid: std::process::id(),
            created: false,
            last_step: None,
            begun: None,
            unfinished: false,
            remote: false,
        })
    }

    /// Puts it on the page, the first time. A run made anew in the same place is another one.
    fn show(self: &Arc<Self>, site: &dyn Site, run_id: &str, program: &str) -> Result<()> {
        let mut page = lock(&self.page);
        match page.as_ref() {
            Some(old) if old.run_id() == run_id => return Ok(()),
            Some(old) => old.hide(),
            None => {}
        }
        *page = Some(site.show(self, run_id, program)?);
        Ok(())
    }

    /// A rank's segment has come.
    pub fn attach(self: &Arc<Self>, session: &Session, segment: Segment) -> Result<OwnedFd> {
        let (owner, news, size) = {
            let state = lock(&self.state);
            let life = state.life.as_ref();
            let life =
                life.ok_or_else(|| Error::new(Code::Closed, "the run was closed meanwhile; open it again"))?;
            (life.owner.clone(), life.news.0.clone(), life.seats.size())
        };
        let attach = Attach { session: session.number, segment: segment.clone() };
        if let Some(what) = &session.resumed {
            owner.resume(what.clone(), &attach, news)?;
            if session.rank != NO_RANK {
                self.controller.came(session.rank);
                self.steer_on();
            }
            self.look_again();
            return owner.doorbell();
        }
        owner.attach(attach, news)?;
        // The rank sends nothing before it is answered, so the controller hears of it in time.
        if session.rank != NO_RANK {
            self.controller.join(&**self, session.rank, size, session.number, &segment);
        }
        self.look_again();
        owner.doorbell()
    }

    /// Ranks of a dead owner are steered as soon as the last of them has come or is gone.
    fn steer_on(&self) {
        let (Some(done), Some(owner)) = (self.controller.may_go_on(), self.owner()) else { return };
        match owner.open_acts(Some(done)) {
            Ok(acts) => self.controller.go_on(self, acts),
            // A store that is lost ends the run of its ranks.
            Err(e) => self.log(&e),
        }
    }

    /// Everything a session left is applied.
    pub fn closed(&self, session: u64, clean: bool) {
        if let Some(rank) = self.rank_of(session) {
            self.controller.leave(self, rank, session, !clean);
            self.steer_on();
            if let Some(page) = self.page() {
                page.rank_left(rank);
            }
        }
        if let Some(life) = lock(&self.state).life.as_mut() {
            life.seats.applied(session, clean, self.now());
        }
        self.changed.notify_all();
    }

    /// The connection of a session has ended. What it published is applied before its seat is free.
    pub fn vacate(&self, session: u64, rank: u32) {
        if let Some(owner) = self.owner() {
            // A store that is closed already has applied everything.
            let _ = owner.hung_up(session);
        }
        if rank != NO_RANK {
            self.await_last_words(session);
            self.controller.leave(self, rank, session, true);
            self.steer_on();
        }
        let _turn = lock(&self.turn);
        let (left, all_left) = match lock(&self.state).life.as_mut() {
            Some(life) => {
                let left = life.seats.leave(session, self.now());
                (left, life.seats.have_all_left() && (life.seats.clients() == 0 || !self.stays()))
            }
            None => (None, false),
        };
        if let Some(Left { who, clean }) = left {
            let how = if clean { "closed it" } else { "is gone" };
            match rank {
                NO_RANK => self.log(format_args!("a client ({who}) left it")),
                rank => self.log(format_args!("rank {rank} ({who}) {how}")),
            }
        }
        if all_left {
            self.close_store(!self.stays());
        }
        self.changed.notify_all();
        self.look_again();
    }

    /// Whether this owner stays for clients when the ranks have left, as an agent does; a program's own ends with it.
    fn stays(&self) -> bool {
        self.site.upgrade().is_some_and(|site| site.adopts())
    }

    /// A rank came or went.
    fn look_again(&self) {
        if let Some(site) = self.site.upgrade() {
            site.look_again();
        }
    }

    /// Waits a moment until the store says that it has applied what a session left, so that a rank
    /// that said good-bye is not taken for lost.
    fn await_last_words(&self, session: u64) {
        let until = Instant::now() + LAST_WORDS;
        let mut state = lock(&self.state);
        loop {
            let applied = state.life.as_ref().is_none_or(|l| l.seats.is_applied(session));
            let left = until.saturating_duration_since(Instant::now());
            if applied || left.is_zero() {
                return;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Closes the store when no rank has come for a while.
    pub fn end_if_idle(&self) {
        let Ok(_turn) = self.turn.try_lock() else { return };
        let idle = lock(&self.state).life.as_ref().is_some_and(|l| l.seats.is_idle(self.now()));
        if idle {
            self.close_store(false);
        }
    }

    /// Drains and closes the store, whoever is still connected.
    pub fn end(&self) {
        let _turn = lock(&self.turn);
        self.close_store(!self.stays());
    }

    /// Waits until all is carried on that the store has told.
    fn settle(&self) {
        let news = lock(&self.state).life.as_ref().map(|l| l.news.0.clone());
        if let Some(news) = news {
            news.settle();
        }
    }

    /// Puts a notice into the ring of a session. It may have gone meanwhile: then it need not know.
    pub fn post(&self, session: u64, notice: &Notice) {
        if let Some(owner) = self.owner() {
            let _ = owner.post(session, notice);
        }
    }

    /// Has the store stop without draining.
    pub fn abandon(&self) {
        if let Some(owner) = self.owner() {
            // One that is closed has nothing left to give up.
            let _ = owner.abandon();
        }
    }

    /// To be called by who has the turn. Clients go on at the next owner, or their sessions end.
    fn close_store(&self, clients_go_on: bool) {
        let Some(owner) = self.owner() else { return };
        if let Some(site) = self.site.upgrade() {
            site.withdraw(&self.path.join(layout::AGENT));
        }
        let closed = if clients_go_on { owner.close_before_clients() } else { owner.close() };
        if let Err(e) = closed {
            self.log(&e);
        }
        self.settle();
        let mut state = lock(&self.state);
        state.life = None;
        state.ended = Some(Instant::now());
        drop(state);
        drop(owner);
        self.log("closed");
        self.changed.notify_all();
    }

    /// Has one rank say to its terminal what this process said to its own, or to its log.
    pub fn remark(&self, text: &str) {
        let first = {
            let state = lock(&self.state);
            let Some(life) = &state.life else { return };
            life.seats.first_beside(std::process::id())
        };
        if let Some(session) = first {
            self.post(session, &Notice::Remark { text: &format!("{}: {text}", self.name()) });
        }
    }

    /// Looks where the ranks are.
    pub fn look(&self) {
        self.controller.look(self);
    }

    /// Whether ranks are on their way to a step where something is to happen.
    pub fn in_motion(&self) -> bool {
        self.controller.in_motion()
    }

    /// What is known of it.
    pub fn status(&self) -> RunStatus {
        let now = self.controller.glance();
        let (pids, clients, owner) = {
            let state = lock(&self.state);
            let pids = state.life.as_ref().map_or_else(BTreeMap::new, |l| l.seats.processes());
            let clients = state.life.as_ref().map_or(0, |l| l.seats.clients());
            (pids, clients, state.life.as_ref().map(|l| l.owner.clone()))
        };
        let rank = |r: &RankView| RankStatus {
            rank: r.rank,
            pid: pids.get(&r.rank).copied().unwrap_or(0),
            step: r.step,
            held: r.held,
            buffer: r.buffer,
        };
        RunStatus {
            id: self.id(),
            path: self.path.display().to_string(),
            state: now.state,
            step: (now.step >= 0).then_some(now.step),
            ranks: self.controller.ranks().iter().map(rank).collect(),
            clients,
            viewers: self.watching(),
            figures: owner.and_then(|o| o.stats().ok()).unwrap_or(serde_json::Value::Null),
        }
    }
}

/// Who opens a run, for the log.
fn named(open: &OpenRun) -> String {
    match open.is_client() {
        true => "a client".to_owned(),
        false => format!("rank {} of {}", open.rank, open.size),
    }
}

impl Outside for Run {
    fn post(&self, session: u64, id: u64, step: i64, act: &Act) -> Result<()> {
        let json = serde_json::to_string(act).map_err(|e| Error::internal(e.to_string()))?;
        let owner = self.owner().ok_or_else(|| Error::new(Code::Closed, "the run is closed"))?;
        owner.post(session, &Notice::Apply { id, step, json: &json })
    }

    fn differs(&self, session: u64, text: &str) {
        Run::post(self, session, &Notice::Late { code: Code::Conflict as u32, text });
    }

    fn ack(&self, ack: &Ack) {
        if let Some(page) = self.page() {
            page.ack(ack);
        }
    }

    fn parameter(&self, name: &str, value: &serde_json::Value) {
        if let Some(page) = self.page() {
            page.parameter(name, value);
        }
    }

    fn state(&self, state: StateInfo) {
        if let Some(page) = self.page() {
            page.state(state);
        }
    }

    fn refused(&self, id: u64, text: &str) {
        if let Some(owner) = self.owner() {
            // A store that is lost logs nothing more.
            let _ = owner.log_applied(id, -1, Code::Closed as u32, text);
        }
    }
}
