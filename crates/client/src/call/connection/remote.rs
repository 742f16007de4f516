//! A server on another host: arguments are written from where they lie, results come into recycled
//! memory, and what shared memory says with a word of a page is a short frame.

use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, TryLockError};
use std::time::{Duration, Instant};

use forebay_link::frame::Header;
use forebay_link::net::{Address, Key, Keys, NetReceiver, NetSender, Received};
use forebay_link::pool::{Budget, Pool};
use forebay_link::{PeerState, Wire, standing, watch};
use forebay_types::call::{RequestId, ServerRequest, kind};
use forebay_types::directory::ServerInfo;
use forebay_types::{Code, Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::super::attach::Knock;
use super::super::lock;
use super::super::transfer::{Copies, Large};
use super::{PATIENCE, agree, room};

/// Who waits for room looks up so often.
const LOOK: Duration = Duration::from_millis(50);

/// Between two attempts at a server that turned this client away before a word.
const AGAIN: Duration = Duration::from_millis(20);

pub(in crate::call) struct Remote {
    sender: NetSender,
    receiving: Mutex<NetReceiver>,
    hearing: Mutex<Hearing>,
    silence: Duration,
}

/// What is known of the server's life.
struct Hearing {
    /// Since when it has been silent while somebody listened.
    since: Instant,
    /// When somebody listened last.
    looked: Instant,
}

/// Greets a server. One that turns a newcomer away before a word has more to greet than it can; that it is dead is known
/// when it refuses the connection, while a host or network that is not there says nothing about it.
fn connect(info: &ServerInfo, address: &Address, keys: &Keys) -> Result<Wire> {
    let knock = Knock::at(info);
    loop {
        match Wire::connect_net(address, "client", keys, PATIENCE) {
            Err(e) if e.code() != Code::ServerLost || e.cause() == Some(ErrorKind::ConnectionRefused) => {
                return Err(e);
            }
            Err(e) if !knock.is_younger_than(PATIENCE) => return Err(Error::new(Code::Timeout, e.text())),
            Err(_) => std::thread::sleep(AGAIN),
            done => return done,
        }
    }
}

impl Remote {
    pub fn attach(
        info: &ServerInfo,
        client: u64,
        address: &Address,
        key: Key,
        silence: Duration,
    ) -> Result<Remote> {
        let mut wire = connect(info, address, &key.into())?;
        let (answer, _) = wire.ask_with(&ServerRequest::Attach { client }, &[], PATIENCE)?;
        agree(info, answer)?;
        let (sender, receiver) = wire.into_link(Pool::new(&Budget::new(room())))?.split();
        let now = Instant::now();
        Ok(Remote {
            sender,
            receiving: Mutex::new(receiver),
            hearing: Mutex::new(Hearing { since: now, looked: now }),
            silence,
        })
    }

    pub fn socket(&self) -> BorrowedFd<'_> {
        self.sender.as_fd()
    }

    /// What wakes who waits for replies.
    pub fn events(&self) -> PollFlags {
        match self.sender.waits() {
            true => PollFlags::IN | PollFlags::RDHUP | PollFlags::OUT,
            false => PollFlags::IN | PollFlags::RDHUP,
        }
    }

    /// A hung up socket is a dead server, and so is one that was silent for too long. What nobody
    /// listened to does not count.
    pub fn state(&self) -> PeerState {
        if watch::hung_up(self.socket()) {
            return PeerState::Gone;
        }
        let heard = match self.receiving.try_lock() {
            Ok(receiver) => receiver.heard(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().heard(),
            // Somebody reads.
            Err(TryLockError::WouldBlock) => Instant::now(),
        };
        let mut hearing = lock(&self.hearing);
        let now = Instant::now();
        if now - hearing.looked > self.silence / 4 {
            hearing.since = now;
        }
        hearing.looked = now;
        hearing.since = hearing.since.max(heard);
        match now - hearing.since > self.silence {
            true => PeerState::Stopped,
            false => PeerState::Alive,
        }
    }

    pub fn silence(&self) -> Duration {
        self.silence
    }

    pub fn give_up(&self) {
        self.sender.close();
    }

    /// A request under way is not wanted any more. What does not go at once leaves behind the caller's back.
    pub fn cancel(&self, request: RequestId, copies: &Copies) {
        let header = Header::about(kind::CANCEL, request);
        if let Ok(true) = self.sender.post(&header, &[], Vec::new()) {
            let _ = copies.see_to(&self.sender);
        }
    }

    /// Sends a request with its large arguments; `wait` is called when nothing goes. Copies are
    /// handed over, and leave while the caller does something else.
    pub fn send(
        &self,
        request: RequestId,
        body: &[u8],
        large: Large,
        mut wait: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let header = Header::about(kind::REQUEST, request);
        let parts = match large {
            Large::Here(parts) => parts,
            Large::Kept(kept, copies) => {
                return match self.sender.post(&header, &[body], Large::parts(kept))? {
                    true => copies.see_to(&self.sender),
                    false => Ok(()),
                };
            }
        };
        self.sender.send(&header, &[body], parts, |socket| {
            standing::leave();
            if let Some(socket) = socket {
                let mut fds = [PollFd::from_borrowed_fd(socket, PollFlags::IN | PollFlags::OUT)];
                let look = Timespec { tv_sec: 0, tv_nsec: LOOK.subsec_nanos().into() };
                let _ = poll(&mut fds, Some(&look));
            }
            wait()
        })
    }

    /// Takes replies that are there. More may be: whoever waits for these has them before a long one is read.
    pub fn drain(&self, mut each: impl FnMut(Received) -> Result<()>) -> Result<bool> {
        if self.sender.waits() {
            self.sender.flush()?;
        }
        let Ok(mut receiving) = self.receiving.try_lock() else { return Ok(false) };
        let mut any = false;
        while let Some(received) = receiving.try_recv()? {
            any = true;
            each(received)?;
            if receiving.waiting() == 0 {
                break;
            }
        }
        Ok(any)
    }

    /// Whether a reply is there, or the end: it reads what has come.
    pub fn has_reply(&self) -> bool {
        self.receiving.try_lock().is_ok_and(|mut receiver| receiver.pending())
    }
}

/// Why a server is lost that was silent.
pub fn silent(silence: Duration) -> String {
    format!(
        "said nothing for {:.0} s: its host or the network is down, or it is stopped",
        silence.as_secs_f64()
    )
}

/// The error when a server cannot be reached from here at all.
pub fn unreachable(info: &ServerInfo) -> Error {
    Error::new(
        Code::Refused,
        format!(
            "server {:?} is on host {} and listens for its own host only; start the agent there with `forebay up --listen`",
            info.name, info.host
        ),
    )
}
