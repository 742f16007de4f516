//! A control connection: JSON frames and descriptors over a Unix socket, or without descriptors
//! over the network, with deadlines.
//!
//! One side connects and asks, the other one answers; either may send notes. Descriptors travel
//! beside the frame that announces their number. The socket is used without blocking and waited
//! for with `poll`, so a [`Wire`] may as well stand in epoll or tokio by its [`AsFd`] and be
//! emptied with [`Wire::try_receive`]. When both sides have agreed on it, a connection goes on as a
//! [`Stream`] of other frames.

use crate::frame::{Header, kind};
use crate::greeting::{self, Peer};
use crate::net::{self, Address, Key, Keys, NetSocket};
use crate::stream::{
    CALLS, CONVERSATION, Channel, DESCRIPTORS, FILES, GREETING, NoPlace, RUN, Received, Stream, StreamSender,
};
use forebay_host::process::go_on_or_end;
use forebay_host::sockets::{self, SocketPeer};
use forebay_host::wait::{self, PollFlags};
use forebay_host::{Process, ProcessState, rlimits};
use forebay_types::{Code, Error, Result};
use rustix::io::Errno;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::collections::VecDeque;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// The id of the first request on a connection.
pub const FIRST_ASK: u64 = 1;
/// How long a request waits for its answer unless told otherwise.
pub const ASK_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a frame may take to leave: the other side reads all the time.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// Who waits for one that may be busy looks after it so often.
const LOOK: Duration = Duration::from_millis(100);
/// Most notes kept while an answer is awaited.
const NOTES: usize = 4096;

/// A control connection, greeted.
pub struct Wire {
    stream: Stream,
    peer: Option<Peer>,
    process: Option<Process>,
    notes: VecDeque<Message>,
    next_id: u64,
    key: Option<Key>,
}

/// A frame that came over a control connection.
#[derive(Debug)]
pub struct Message {
    /// Its kind ([`kind`]).
    pub kind: u16,
    /// Its request id.
    pub id: u64,
    /// Properties by kind.
    pub flags: u32,
    /// Its JSON.
    pub json: Vec<u8>,
    /// The descriptors that came with it.
    pub fds: Vec<OwnedFd>,
}

/// An error on its way.
#[derive(Serialize, Deserialize)]
pub struct Failure {
    pub(crate) code: u32,
    pub(crate) text: String,
}

impl Failure {
    /// The failure that an error is on the wire.
    pub fn of(error: &Error) -> Failure {
        Failure { code: error.code() as u32, text: error.text().to_owned() }
    }

    /// The error that it is.
    pub(crate) fn into_error(self) -> Error {
        Error::new(Code::from_number(self.code).unwrap_or(Code::Internal), self.text)
    }
}

impl Message {
    /// The JSON as a value of that type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.json).map_err(|e| {
            Error::new(
                Code::Corrupt,
                format!("a message is not what was expected: {e}; use one version on both sides"),
            )
        })
    }

    /// The error that an error frame carries.
    pub fn failure(&self) -> Result<()> {
        if self.kind != kind::ERROR {
            return Ok(());
        }
        Err(self.parse::<Failure>()?.into_error())
    }

    /// Whether it awaits an answer.
    pub fn is_ask(&self) -> bool {
        self.kind == kind::ASK
    }
}

impl Wire {
    /// Connects and greets as a `client`.
    pub fn connect(path: &Path, timeout: Duration) -> Result<Wire> {
        Wire::connect_as(path, "client", timeout)
    }

    /// Connects and greets. Nobody there gives `NotFound` (no such socket) or `ServerLost` (its
    /// process died, or left between accepting and greeting).
    pub fn connect_as(path: &Path, role: &str, timeout: Duration) -> Result<Wire> {
        sockets::check_socket_path(path)?;
        let deadline = Instant::now() + timeout;
        let stream = dial(path, timeout)?;
        check_user(&stream)?;
        let mut wire = Wire::over(stream)?;
        let peer = greeting::hello(&mut wire, role, deadline).map_err(|e| match e.code() {
            Code::Timeout => silent(wire.process, timeout).within(path.display()),
            _ => e.within(path.display()),
        })?;
        wire.met(peer);
        Ok(wire)
    }

    /// The process that listens at a socket, whether it answers or not; none when nobody does, or that cannot be
    /// told from here.
    pub fn listening(path: &Path) -> Option<Process> {
        sockets::check_socket_path(path).ok()?;
        let stream = dial(path, LOOK).ok()?;
        check_user(&stream).ok()?;
        SocketPeer::of(&stream).ok()?.process
    }

    /// Connects to a process that may be busy, and greets it. As long as it says nothing, `still` is asked every
    /// [`LOOK`] whether to go on, with the process that listens as far as it is known; its error ends the waiting.
    pub fn connect_while(
        path: &Path,
        role: &str,
        mut still: impl FnMut(Option<Process>) -> Result<()>,
    ) -> Result<Wire> {
        sockets::check_socket_path(path)?;
        let stream = loop {
            match dial(path, LOOK) {
                Err(e) if e.code() == Code::Timeout => still(None)?,
                done => break done?,
            }
        };
        check_user(&stream)?;
        let mut wire = Wire::over(stream)?;
        let greeted = greeting::say_hello(&mut wire, role, Instant::now() + SEND_TIMEOUT)
            .and_then(|()| greeting::hear_welcome(&wire.read_while(still)?));
        let peer = greeted.map_err(|e| e.within(path.display()))?;
        wire.met(peer);
        Ok(wire)
    }

    /// Two ends of a connection within this process, greeted: for an owner of a run that is not
    /// behind a socket.
    pub fn pair(role: &str) -> Result<(Wire, Wire)> {
        let (a, b) = UnixStream::pair().map_err(|e| Error::io("cannot make a pair of sockets", e))?;
        let mut ends = [Wire::over(a)?, Wire::over(b)?];
        ends.iter_mut().for_each(|end| end.met(Peer::ourselves(role)));
        let [a, b] = ends;
        Ok((a, b))
    }

    /// Makes a stream of calls of the connection; both sides do it after the same answer.
    pub fn into_calls(self) -> Result<Stream> {
        match self.net() {
            Some(_) if self.notes.is_empty() => Ok(self.stream.with(CALLS)),
            Some(_) => Err(Error::new(Code::Corrupt, "more came than the answer before a call link")),
            None => Err(Error::bad("a Unix socket is no call link over the network")),
        }
    }

    /// Makes a stream of the connection for what a run writes or a reader asks.
    pub fn into_run(self) -> Stream {
        self.stream.with(RUN)
    }

    /// Makes a stream of the connection for files that go with calls.
    pub(crate) fn into_files(self) -> Stream {
        self.stream.with(FILES)
    }

    pub(crate) fn over(stream: UnixStream) -> Result<Wire> {
        let process = SocketPeer::of(&stream)?.process;
        Ok(Wire::new(Stream::over(Channel::Unix(stream), GREETING), process))
    }

    /// Connects to a process on the network; both prove that they know the secret of one of the keys.
    pub fn connect_net(address: &Address, role: &str, keys: &Keys, timeout: Duration) -> Result<Wire> {
        let (stream, peer, key) = net::connect(address, role, keys, Instant::now() + timeout)?;
        let mut wire = Wire::greeted(stream, peer);
        wire.key = Some(key);
        Ok(wire)
    }

    /// What opened the door of the other side, if this process connected over the network.
    pub fn key(&self) -> Option<&Key> {
        self.key.as_ref()
    }

    /// A connection over the network that has come through its handshake.
    pub(crate) fn greeted(stream: Stream, peer: Peer) -> Wire {
        let mut wire = Wire::new(stream, None);
        wire.met(peer);
        wire
    }

    fn new(stream: Stream, process: Option<Process>) -> Wire {
        Wire { stream, peer: None, process, notes: VecDeque::new(), next_id: FIRST_ASK, key: None }
    }

    /// The connection over the network, if this is one.
    pub fn net(&self) -> Option<&NetSocket> {
        self.stream.channel().net()
    }

    /// How long the other side may say nothing, if it is on another host.
    pub(crate) fn bear(&self, silence: Duration) -> Result<()> {
        self.net().map_or(Ok(()), |socket| socket.bear(silence))
    }

    pub(crate) fn met(&mut self, peer: Peer) {
        self.peer = Some(peer);
        self.stream.limit(CONVERSATION);
    }

    /// Who is at the other end, in its own words.
    pub fn peer(&self) -> &Peer {
        self.peer.as_ref().expect("a wire is handed out after the greeting")
    }

    /// The process at the other end as the system knows it; `None` when it was gone at once, or is of a
    /// pid name space that cannot be seen from here.
    pub fn process(&self) -> Option<Process> {
        self.process
    }

    /// Another descriptor of the socket, for a thread that watches for its end.
    pub fn watch_fd(&self) -> Result<OwnedFd> {
        self.stream.as_fd().try_clone_to_owned().map_err(|e| rlimits::cannot("cannot copy a descriptor", e))
    }

    /// Says that nothing more comes, and waits until the other side has done what follows from that and
    /// closes the connection too. One that does not within the time is left.
    pub fn part(mut self, patience: Duration) {
        let deadline = Instant::now() + patience;
        if self.net().is_none() && self.stream.channel().shut(Shutdown::Write) {
            while matches!(self.read(Some(deadline)), Ok(Some(_))) {}
        }
    }

    /// Sends notes by this connection while the thread that serves it is busy with an answer.
    pub fn notes(&self) -> Notes {
        Notes(self.stream.sender().clone())
    }

    /// Sends a note: a message that nobody answers.
    pub fn send<T: Serialize + ?Sized>(&mut self, value: &T, fds: &[BorrowedFd]) -> Result<()> {
        self.write(&Header::new(kind::NOTE, 0), value, fds, Instant::now() + SEND_TIMEOUT)
    }

    /// The next note with its descriptors. `Timeout` when none came, `ServerLost` at the end.
    pub fn recv<T: DeserializeOwned>(&mut self, timeout: Duration) -> Result<(T, Vec<OwnedFd>)> {
        let message = self.receive(timeout)?;
        message.failure()?;
        Ok((message.parse()?, message.fds))
    }

    /// The next message of any kind.
    pub fn receive(&mut self, timeout: Duration) -> Result<Message> {
        if let Some(note) = self.notes.pop_front() {
            return Ok(note);
        }
        self.read(Some(Instant::now() + timeout))?.ok_or_else(|| self.too_late("nothing came", timeout))
    }

    /// The next message if one is there; for those who wait elsewhere.
    pub fn try_receive(&mut self) -> Result<Option<Message>> {
        if let Some(note) = self.notes.pop_front() {
            return Ok(Some(note));
        }
        self.read_now()
    }

    /// Asks and waits for the answer.
    pub fn ask<T: Serialize + ?Sized>(&mut self, request: &T) -> Result<Value> {
        self.ask_with(request, &[], ASK_TIMEOUT).map(|(value, _)| value)
    }

    /// Asks with descriptors and a time of its own; the answer may bring descriptors too.
    pub fn ask_with<T: Serialize + ?Sized>(
        &mut self,
        request: &T,
        fds: &[BorrowedFd],
        timeout: Duration,
    ) -> Result<(Value, Vec<OwnedFd>)> {
        self.ask_hearing(request, fds, timeout, |_| false)
    }

    /// Asks with descriptors and waits for the answer, while each note that comes is given to `hears`. One that it
    /// takes shows that somebody works on the answer, and the time begins anew; others are kept for
    /// [`Wire::receive`]. `Timeout` when nothing comes for `timeout`; the answer may bring descriptors too.
    pub fn ask_hearing<T: Serialize + ?Sized>(
        &mut self,
        request: &T,
        fds: &[BorrowedFd],
        timeout: Duration,
        mut hears: impl FnMut(&Message) -> bool,
    ) -> Result<(Value, Vec<OwnedFd>)> {
        let mut deadline = Instant::now() + timeout;
        let id = self.start_ask(request, fds)?;
        loop {
            let Some(message) = self.read(Some(deadline))? else {
                return Err(self.too_late("no answer came", timeout));
            };
            match message.kind {
                kind::ANSWER | kind::ERROR if message.id == id => {
                    message.failure()?;
                    return Ok((message.parse()?, message.fds));
                }
                // The answer to a request that was given up before.
                kind::ANSWER | kind::ERROR => {}
                _ if hears(&message) => deadline = Instant::now() + timeout,
                _ if self.notes.len() < NOTES => self.notes.push_back(message),
                _ => return Err(Error::new(Code::Full, format!("more than {NOTES} notes wait to be read"))),
            }
        }
    }

    /// Asks one who may be busy, as [`Wire::connect_while`] does.
    pub fn ask_while<T: Serialize + ?Sized>(
        &mut self,
        request: &T,
        fds: &[BorrowedFd],
        mut still: impl FnMut(Option<Process>) -> Result<()>,
    ) -> Result<(Value, Vec<OwnedFd>)> {
        let id = self.start_ask(request, fds)?;
        loop {
            let message = self.read_while(&mut still)?;
            if message.id == id && matches!(message.kind, kind::ANSWER | kind::ERROR) {
                message.failure()?;
                return Ok((message.parse()?, message.fds));
            }
        }
    }

    fn read_while(&mut self, mut still: impl FnMut(Option<Process>) -> Result<()>) -> Result<Message> {
        loop {
            if let Some(message) = self.read(Some(Instant::now() + LOOK))? {
                return Ok(message);
            }
            still(self.process)?;
        }
    }

    /// Sends a request and returns its id; the answer comes by [`Wire::receive`].
    pub fn start_ask<T: Serialize + ?Sized>(&mut self, request: &T, fds: &[BorrowedFd]) -> Result<u64> {
        let id = self.next_id;
        self.next_id += 1;
        self.write(&Header::new(kind::ASK, id), request, fds, Instant::now() + SEND_TIMEOUT)?;
        Ok(id)
    }

    /// Answers a request.
    pub fn answer<T: Serialize + ?Sized>(&mut self, id: u64, value: &T, fds: &[BorrowedFd]) -> Result<()> {
        self.write(&Header::new(kind::ANSWER, id), value, fds, Instant::now() + SEND_TIMEOUT)
    }

    /// Answers a request with an error.
    pub fn refuse(&mut self, id: u64, error: &Error) -> Result<()> {
        self.write(&Header::new(kind::ERROR, id), &Failure::of(error), &[], Instant::now() + SEND_TIMEOUT)
    }

    /// Answers a request with what its carrying out gave.
    pub fn reply<T: Serialize>(&mut self, id: u64, result: &Result<T>) -> Result<()> {
        match result {
            Ok(value) => self.answer(id, value, &[]),
            Err(e) => self.refuse(id, e),
        }
    }

    /// Whether the other side has closed or died. What it sent before can still be received.
    pub fn peer_gone(&self) -> bool {
        hung_up(self.stream.as_fd())
    }

    fn too_late(&self, what: &str, timeout: Duration) -> Error {
        if self.process.is_some() {
            return silent(self.process, timeout);
        }
        let pid = self.peer.as_ref().map_or(0, |p| p.pid);
        Error::new(Code::Timeout, format!("{what} from pid {pid} in {:.1} s", timeout.as_secs_f64()))
    }

    fn lost(&self) -> Error {
        let who = match &self.peer {
            Some(peer) => format!("the {} (pid {})", peer.role, peer.pid),
            None => "the other side".to_owned(),
        };
        Error::new(Code::ServerLost, format!("{who} closed the connection or died; connect again"))
    }

    pub(crate) fn write<T: Serialize + ?Sized>(
        &mut self,
        header: &Header,
        value: &T,
        fds: &[BorrowedFd],
        deadline: Instant,
    ) -> Result<()> {
        if fds.len() > DESCRIPTORS {
            return Err(Error::bad(format!("{} descriptors at once, {DESCRIPTORS} are the most", fds.len())));
        }
        if !fds.is_empty() && self.net().is_some() {
            return Err(Error::bad("descriptors do not travel over the network"));
        }
        write(self.stream.sender(), *header, value, fds, deadline).map_err(|e| self.known(e))
    }

    /// A connection that has ended has an end that is known by name.
    fn known(&self, e: Error) -> Error {
        if e.code() == Code::ServerLost { self.lost() } else { e }
    }

    /// The next frame, waiting until the deadline.
    pub(crate) fn read(&mut self, deadline: Option<Instant>) -> Result<Option<Message>> {
        loop {
            if let Some(message) = self.read_now()? {
                return Ok(Some(message));
            }
            if !wait::until(self.stream.as_fd(), PollFlags::IN, deadline)? {
                return Ok(None);
            }
        }
    }

    fn read_now(&mut self) -> Result<Option<Message>> {
        let received = self.stream.next(&mut NoPlace).map_err(|e| self.known(e))?;
        Ok(received.map(Message::from))
    }
}

/// Sends notes over a connection that somebody else serves.
pub struct Notes(StreamSender);

impl Notes {
    /// Sends one.
    pub fn send<T: Serialize + ?Sized>(&self, value: &T) -> Result<()> {
        write(&self.0, Header::new(kind::NOTE, 0), value, &[], Instant::now() + SEND_TIMEOUT)
    }
}

/// Writes a message, waiting until the deadline.
fn write<T: Serialize + ?Sized>(
    sender: &StreamSender,
    header: Header,
    value: &T,
    fds: &[BorrowedFd],
    deadline: Instant,
) -> Result<()> {
    let json = serde_json::to_vec(value).map_err(|e| Error::internal(format!("no JSON: {e}")))?;
    let mut begun = false;
    sender.until(deadline, || {
        begun = begun || sender.begin(header, &json, fds)?;
        Ok(begun && sender.flush()?)
    })
}

impl From<Received> for Message {
    fn from(Received { header, json, fds, .. }: Received) -> Message {
        Message { kind: header.kind, id: header.id, flags: header.flags, json, fds }
    }
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wire")
            .field("peer", &self.peer)
            .field("process", &self.process)
            .finish_non_exhaustive()
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Connects. A stopped process whose queue of connections is full makes that wait, so it has a
/// time limit too.
fn dial(path: &Path, timeout: Duration) -> Result<UnixStream> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
    let cannot = |e| rlimits::cannot(format!("cannot connect to {}", path.display()), e);
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(cannot)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(timeout.max(Duration::from_millis(1))))
        .map_err(cannot)?;
    let address = SocketAddrUnix::new(path).map_err(cannot)?;
    let nobody = |why: &str| {
        Error::new(Code::ServerLost, format!("nobody listens at {} any more{why}", path.display()))
            .caused_by(io::ErrorKind::ConnectionRefused)
    };
    match rustix::net::connect(&socket, &address) {
        // Its process has ended; who has the socket answers nobody.
        Ok(()) if SocketPeer::of(&socket)?.is_gone => {
            Err(nobody(": a child that its process forked keeps it open"))
        }
        Ok(()) => Ok(UnixStream::from(socket)),
        Err(Errno::CONNREFUSED) => Err(nobody("")),
        Err(Errno::AGAIN) => Err(Error::new(
            Code::Timeout,
            format!("the process behind {} accepts no connections; is it stopped?", path.display()),
        )),
        Err(e) => Err(cannot(e)),
    }
}

/// What is said of a process that does not answer: which one it is, what it does, and what helps.
fn silent(process: Option<Process>, timeout: Duration) -> Error {
    let seconds = timeout.as_secs_f64();
    let text = match process.map(|p| (p.pid, p.state())) {
        Some((pid, ProcessState::Stopped)) => {
            format!("process {pid} is stopped and answers nobody; {}", go_on_or_end(pid))
        }
        Some((pid, ProcessState::Running)) => format!(
            "process {pid} runs and has not answered for {seconds:.1} s, for it is busy or hangs; try again later, or end it with `kill -KILL {pid}`"
        ),
        _ => format!(
            "nobody has answered for {seconds:.1} s; try again, or look whether its process is stopped"
        ),
    };
    Error::new(Code::Timeout, text)
}

/// Whether the other end of a socket is closed.
pub fn hung_up(fd: BorrowedFd) -> bool {
    wait::now(fd, PollFlags::RDHUP).intersects(wait::ENDS)
}

/// Only processes of this user are spoken to.
pub(crate) fn check_user(stream: &UnixStream) -> Result<()> {
    let (theirs, ours) = (SocketPeer::of(stream)?.uid, rustix::process::geteuid().as_raw());
    if theirs != ours {
        return Err(Error::new(
            Code::Refused,
            format!(
                "the process at the other end belongs to user {theirs}, this one to user {ours}; Forebay connects processes of one user only"
            ),
        ));
    }
    Ok(())
}
