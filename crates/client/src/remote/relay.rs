//! The relay's thread: towards the rank it is the owner of the run, towards the other host the
//! rank.
//!
//! ```text
//!  OPENING --run opened there--> OPENED --segment came--> SERVING --line cut--> CALLING --+
//!                                                           ^                             |
//!                                                           +---- the same mirror --------+--> given up
//! ```

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_arena::{Bell, Direction, Doorbell, Segment, segments};
use forebay_host::wait::{self, Backoff, PollFlags};
use forebay_host::{identity, process, threads};
use forebay_link::run::RankEnd;
use forebay_link::silence::OF_STORE;
use forebay_link::{Message, Stream, Wire};
use forebay_types::control::{Elsewhere, OpenRun, OpeningWaits, RunOpened, RunRequest};
use forebay_types::line::{LineRequest, Measures, RemoteAttached, RemoteOpened, RemoteResumed};
use forebay_types::{Code, Error, Result};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// How long the other host may take to answer a first request; it may have to recover a run.
const ANSWER: Duration = Duration::from_secs(100);
/// How long the other host may take to answer when the line is opened again.
const AGAIN: Duration = Duration::from_secs(5);
/// Between two attempts to open the line again.
pub(super) const RETRY: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_millis(500));
/// How long a last frame may take to leave.
const FAREWELL: Duration = Duration::from_secs(2);
/// After so long of refusals nobody is there any more.
pub(super) const REFUSED: Duration = Duration::from_millis(1500);

/// Connects to the other host, greeted and proven.
pub type Dial = Arc<dyn Fn() -> Result<Wire> + Send + Sync>;

/// Where a run is that this process writes from afar.
#[derive(Clone)]
pub struct RemoteRun {
    /// Connects.
    pub dial: Dial,
    /// Its address as people write it: `fb://host:port/name`.
    pub url: String,
    /// The run's name over there.
    pub name: String,
    /// How long a cut line is tried again before the session is given up.
    pub patience: Duration,
    /// What its owner does about data that lie elsewhere, when what is left here is sent.
    pub elsewhere: Elsewhere,
}

/// Starts a relay; gives the rank's end of a connection to it, as if it were the owner.
pub fn start(remote: RemoteRun) -> Result<Wire> {
    let call = remote.call()?;
    let (ours, theirs) = Wire::pair("run")?;
    std::thread::Builder::new()
        .name("fb-relay".into())
        .spawn(move || {
            threads::work_behind();
            Relay { remote, wire: ours, call: Some(call), line: None, served: None, name: String::new() }
                .run()
        })
        .map_err(|e| Error::io("cannot start the thread that forwards to another host", e))?;
    Ok(theirs)
}

impl RemoteRun {
    /// A connection that is greeted.
    pub(super) fn call(&self) -> Result<Wire> {
        (self.dial)()
    }

    /// An error of the other host, which knows the run by a directory of its own.
    pub(super) fn names(&self, e: Error) -> Error {
        if e.text().contains(&self.url) { e } else { e.within(&self.url) }
    }
}

/// What there is once the rank has handed over its segment.
struct Served {
    key: String,
    end: RankEnd,
    /// The rank rings it.
    event: Doorbell,
    bell: Bell,
}

struct Relay {
    remote: RemoteRun,
    /// The rank.
    wire: Wire,
    /// The other host, while the run is opened there.
    call: Option<Wire>,
    /// The other host from then on.
    line: Option<Stream>,
    served: Option<Served>,
    /// Name of the rank's segment.
    name: String,
}

/// Why the thread ends.
enum End {
    /// The rank has left.
    Left,
    /// The line is of no more use.
    Cut(Error),
}

impl Relay {
    fn run(mut self) {
        if let Err(End::Cut(e)) = self.open() {
            return self.give_up(&e);
        }
        loop {
            match self.serve() {
                End::Left => break,
                End::Cut(e) => {
                    if let Err(e) = self.call_again(e) {
                        self.give_up(&e);
                        break;
                    }
                }
            }
        }
        if let Some(line) = &mut self.line {
            let _ = line.flush_until(Instant::now() + FAREWELL);
        }
    }

    /// Hands the rank's two requests on.
    fn open(&mut self) -> Result<(), End> {
        let (id, open) = loop {
            let message = self.heard()?;
            match message.parse() {
                Ok(RunRequest::OpenRun(open)) => break (message.id, open),
                _ => self.refuse(message.id, Error::bad("a run on another host is opened first"))?,
            }
        };
        let opened = match self.open_remote(&open) {
            Ok(opened) => opened,
            Err(e) => {
                self.refuse(id, e.clone())?;
                return Err(End::Cut(e));
            }
        };
        self.answer(id, &serde_json::to_value(&opened).map_err(|e| cut(&e))?, &[])?;
        let mut message = self.heard()?;
        let segment = message.fds.pop().ok_or_else(|| cut(&"the rank sent no segment"))?;
        match Segment::from_named_fd(segment).and_then(|segment| self.attach(segment)) {
            Ok(event) => self.answer(message.id, &Value::Null, &[event]),
            Err(e) => {
                self.refuse(message.id, e.clone())?;
                Err(End::Cut(e))
            }
        }
    }

    fn heard(&mut self) -> Result<Message, End> {
        loop {
            match self.wire.receive(Duration::from_secs(3600)) {
                Ok(message) if message.is_ask() => return Ok(message),
                Ok(_) => {}
                Err(e) if e.code() == Code::Timeout => {}
                Err(_) => return Err(End::Left),
            }
        }
    }

    fn answer(&mut self, id: u64, value: &Value, fds: &[OwnedFd]) -> Result<(), End> {
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        self.wire.answer(id, value, &fds).map_err(|_| End::Left)
    }

    fn refuse(&mut self, id: u64, e: Error) -> Result<(), End> {
        self.wire.refuse(id, &e).map_err(|_| End::Left)
    }

    fn open_remote(&mut self, open: &OpenRun) -> Result<RunOpened> {
        let open = OpenRun { path: self.remote.name.clone(), ..open.clone() };
        let pid = std::process::id();
        let launched = process::launched(pid);
        let request = LineRequest::OpenRemote { open, host: identity::host(), pid, launched, after: None };
        let call = self.call.as_mut().ok_or_else(|| Error::internal("no line"))?;
        let hears = |note: &OpeningWaits| {
            // A rank that has left is noticed when it is answered.
            let _ = self.wire.send(note, &[]);
        };
        let RemoteOpened { opened, .. } =
            ask_hearing(call, &request, ANSWER, hears).map_err(|e| self.remote.names(e))?;
        // Number of the session and mark of the directory there: ranks here may write two copies of a run.
        let (session, before) = (opened.session.to_string(), format!("run-{}-", opened.run_id));
        let own = opened.segment.split_once(&before).map_or(&*session, |(_, own)| own);
        let segment = segments::name(&["remote", &opened.run_id, own]);
        self.name.clone_from(&segment);
        Ok(RunOpened { segment, owner_pid: std::process::id(), remote: true, ..opened })
    }

    fn attach(&mut self, segment: Segment) -> Result<OwnedFd> {
        let mut call = self.call.take().ok_or_else(|| Error::internal("no line"))?;
        let RemoteAttached { key } = ask(&mut call, &LineRequest::AttachRemote(measures(&segment)), ANSWER)?;
        self.line = Some(call.into_run());
        let event = Doorbell::new()?;
        let theirs = event.share()?;
        self.served =
            Some(Served { key, end: RankEnd::new(&segment), event, bell: segment.bell(Direction::Up) });
        Ok(theirs)
    }

    /// Serves until the rank leaves or the line is cut.
    fn serve(&mut self) -> End {
        let (Some(line), Some(served)) = (&mut self.line, &mut self.served) else { return End::Left };
        let mut heard_at = Instant::now();
        loop {
            match self.wire.try_receive() {
                Ok(_) => {}
                Err(_) => return End::Left,
            }
            match served.end.turn(line) {
                Ok(turn) => {
                    if turn.heard {
                        heard_at = Instant::now();
                    }
                    if turn.worked {
                        continue;
                    }
                }
                Err(e) => return End::Cut(e),
            }
            if heard_at.elapsed() > OF_STORE.lost {
                let text = format!("nothing has come over the line for {} s", OF_STORE.lost.as_secs());
                return End::Cut(Error::new(Code::ServerLost, text));
            }
            if let Err(e) = served.sleep(line, &self.wire) {
                return End::Cut(e);
            }
        }
    }

    /// Opens the line again to the mirror that waits there.
    fn call_again(&mut self, why: Error) -> Result<()> {
        self.line = None;
        let began = Instant::now();
        let (mut refused_since, mut retry) = (None, RETRY);
        loop {
            let failed = match self.resume() {
                Ok(()) => return Ok(()),
                Err(e) => e,
            };
            if self.wire.try_receive().is_err() {
                return Err(failed); // the rank has left meanwhile
            }
            let since = *refused_since.get_or_insert_with(Instant::now);
            match failed.code() {
                Code::NotFound | Code::Refused | Code::VersionMismatch | Code::Closed => {
                    return Err(self.hopeless(&failed));
                }
                Code::NoServer if since.elapsed() > REFUSED => return Err(self.hopeless(&failed)),
                Code::NoServer => {}
                _ => refused_since = None,
            }
            if began.elapsed() > self.remote.patience {
                let text = format!(
                    "the line to {} was cut ({}) and could not be opened again for {} s: {}",
                    self.remote.url,
                    why.text(),
                    self.remote.patience.as_secs_f64(),
                    failed.text()
                );
                return Err(Error::new(Code::ServerLost, text));
            }
            std::thread::sleep(retry.pause());
        }
    }

    fn hopeless(&self, e: &Error) -> Error {
        Error::new(Code::ServerLost, format!("the store of {} is lost: {}", self.remote.url, e.text()))
    }

    fn resume(&mut self) -> Result<()> {
        let served = self.served.as_mut().ok_or_else(|| Error::internal("no session"))?;
        let mut call = self.remote.call()?;
        let request = LineRequest::ResumeRemote { key: served.key.clone(), heard: served.end.heard() };
        let resumed: RemoteResumed = ask(&mut call, &request, AGAIN)?;
        served.end.resume(&resumed);
        self.line = Some(call.into_run());
        Ok(())
    }

    /// The session ends here: the rank learns why, and what it put stays in its segment.
    fn give_up(&mut self, e: &Error) {
        let Some(served) = &mut self.served else { return };
        let place = segments::path(&self.name);
        let text = format!(
            "{}; what was acknowledged and is not over there stays in shared memory ({})",
            e.text(),
            place.display()
        );
        served.end.last_word(&Error::new(e.code(), text));
    }
}

impl Served {
    /// Sleeps until the rank rings, the line has something, or it is time to look.
    fn sleep(&mut self, line: &Stream, wire: &Wire) -> Result<()> {
        self.bell.prepare_sleep();
        if !self.end.pending() {
            let out = if line.waiting() > 0 { PollFlags::OUT } else { PollFlags::empty() };
            let fds = [
                (self.event.as_fd(), PollFlags::IN),
                (line.as_fd(), PollFlags::IN | out),
                (wire.as_fd(), PollFlags::IN | PollFlags::RDHUP),
            ];
            wait::among(fds, Some(self.end.pause()))?;
        }
        self.bell.cancel_sleep();
        self.event.clear();
        Ok(())
    }
}

/// The sizes of a segment, for its mirror.
pub fn measures(segment: &Segment) -> Measures {
    let spec = segment.spec();
    Measures { up: spec.up_bytes, down: spec.down_bytes, block_bytes: spec.block_bytes, blocks: spec.blocks }
}

/// Asks the other host and waits for the answer; `Timeout` when none comes for `wait`.
pub fn ask<T: DeserializeOwned>(call: &mut Wire, request: &LineRequest, wait: Duration) -> Result<T> {
    ask_hearing(call, request, wait, |_| ())
}

/// Asks the other host and waits for the answer; `Timeout` when nothing comes for `wait`. Each note of what an
/// opening waits for goes to `hears`, and the time begins anew with it.
pub fn ask_hearing<T: DeserializeOwned>(
    call: &mut Wire,
    request: &LineRequest,
    wait: Duration,
    mut hears: impl FnMut(&OpeningWaits),
) -> Result<T> {
    let answer = call.ask_hearing(request, &[], wait, |message| match message.parse() {
        Ok(note) => {
            hears(&note);
            true
        }
        Err(_) => false,
    });
    let (value, _) = answer.map_err(|e| match e.code() {
        Code::Timeout => {
            Error::new(Code::Timeout, format!("the other host has not answered for {} s", wait.as_secs()))
        }
        _ => e,
    })?;
    serde_json::from_value(value).map_err(|e| {
        let text = format!("an answer is not what was expected: {e}; use one version on both sides");
        Error::new(Code::Corrupt, text)
    })
}

fn cut(why: &dyn std::fmt::Display) -> End {
    End::Cut(Error::internal(why.to_string()))
}
