//! The link of calls: requests, replies and the arrays that belong to them, between a client and a server. Which way
//! they go is decided here, when a client comes to a server ([`dial()`], [`Accepted`]); all that others ask is whether both
//! are on one host ([`Sender::is_near`]).
//!
//! | | shared memory | network |
//! | --- | --- | --- |
//! | **[`Sender`]**, from any thread | | |
//! | [`lend`](Sender::lend), [`take_back`](Sender::take_back) | blocks that both sides see; the frame names them | nothing to lend: bulk goes behind its frame |
//! | [`send`](Sender::send) | waits for room in the ring | waits until the frame and its bulk have left |
//! | [`post`](Sender::post) | what the ring has no room for waits for [`flush`](Sender::flush) | what the socket does not take is the [`Flusher`]'s |
//! | [`cancel`](Sender::cancel), [`wants`](Sender::wants) | a word for each request | a short frame, which overtakes bulk |
//! | [`beat`](Sender::beat), [`state`](Sender::state) | a word; the process; the socket | a short frame; silence; the socket |
//! | [`close`](Sender::close) | a word: nothing more is begun | the socket |
//! | **[`Receiver`]**, one thread at a time | | |
//! | [`next`](Receiver::next) | a record of the ring; parts of a reply are put together | a frame, when its bulk has come into leases of a pool |
//! | [`read_ahead`](Receiver::read_ahead) | nothing to do | reads on, lest the other side's sender wait |
//! | [`arm`](Receiver::arm), [`disarm`](Receiver::disarm) | whoever sends rings the doorbell | nothing to do |
//! | [`interest`](Receiver::interest) | none: the doorbell | the socket |
//!
//! How waiting goes is the same everywhere: look at [`pending`](Receiver::pending), arm, look once more, sleep on the
//! doorbell and the sockets, disarm.
//!
//! Another way is a file here with these methods, a line in each of [`SendingWay`], [`ReceivingWay`] and `either`, and the
//! place in `dial` and `accept` where it is chosen. One stands in `tests/socketpair.rs`: with the feature of that name it takes the place of shared memory, and the suites
//! of calls run over it.

mod accept;
mod dial;
mod files;
mod memory;
mod network;
#[cfg(feature = "socketpair")]
#[path = "../../tests/socketpair.rs"]
mod socketpair;

use crate::frame::{Frame, Header};
use crate::pool::{Lease, Pool};
use crate::stream::LargePart;
use crate::watch::PeerState;
use forebay_arena::{Block, Segment};
use forebay_types::call::RequestId;
use forebay_types::{Error, Result};
use rustix::event::PollFlags;
use std::os::fd::BorrowedFd;

pub use crate::stream::Flusher;
pub use accept::Accepted;
pub use dial::{NotLetIn, Target, dial, dial_arrays};
pub use files::{FileFrame, FileLine, Still, dial_files};
pub use memory::{BLOCKS, NotLent, Peek, ShmLink, ShmReceiver, ShmSender, breathe, room};

/// The sending end.
pub struct Sender(SendingWay);

enum SendingWay {
    Memory(Box<memory::Sender>),
    Network(Box<network::Sender>),
    #[cfg(feature = "socketpair")]
    Socketpair(Box<socketpair::Sender>),
}

/// The receiving end.
pub struct Receiver(ReceivingWay);

enum ReceivingWay {
    Memory(memory::Receiver),
    Network(Box<network::Receiver>),
    #[cfg(feature = "socketpair")]
    Socketpair(Box<socketpair::Receiver>),
}

/// What goes behind a frame where nothing is lent.
pub enum Bulk<'a> {
    /// From where it lies: sending waits until it has left.
    Here(&'a [&'a [u8]]),
    /// Handed over: it leaves by and by.
    Kept(Vec<LargePart>),
}

/// What came with a frame.
#[derive(Debug, Default)]
pub struct Arrived {
    /// Its bulk.
    pub parts: Vec<Lease>,
    /// Why that could not be taken in, if so; then there is none.
    pub fault: Option<Error>,
}

/// Where large arguments and results lie.
pub enum Room<'a> {
    /// In blocks that the client has lent.
    Lent(&'a Segment),
    /// In memory of this process, where they come from the network and go there.
    Own(&'a Pool),
}

/// Both ends of one side.
type Ends = (Sender, Receiver);

fn by_memory((sender, receiver): (memory::Sender, memory::Receiver)) -> Ends {
    (Sender(SendingWay::Memory(Box::new(sender))), Receiver(ReceivingWay::Memory(receiver)))
}

fn by_network((sender, receiver): (network::Sender, network::Receiver)) -> Ends {
    (Sender(SendingWay::Network(Box::new(sender))), Receiver(ReceivingWay::Network(Box::new(receiver))))
}

#[cfg(feature = "socketpair")]
fn by_socketpair((sender, receiver): (socketpair::Sender, socketpair::Receiver)) -> Ends {
    (Sender(SendingWay::Socketpair(Box::new(sender))), Receiver(ReceivingWay::Socketpair(Box::new(receiver))))
}

macro_rules! either {
    ($way:ident, $end:expr, $it:ident => $do:expr) => {
        match $end {
            $way::Memory($it) => $do,
            $way::Network($it) => $do,
            #[cfg(feature = "socketpair")]
            $way::Socketpair($it) => $do,
        }
    };
}

impl Sender {
    /// Whether both ends are on one host, whose clock and memory they share.
    #[inline]
    pub fn is_near(&self) -> bool {
        either!(SendingWay, &self.0, way => way.is_near())
    }

    /// Memory that the server uses in place; none where there is nothing to lend.
    pub fn lend(&self, bytes: u64) -> Result<Option<Block>, NotLent> {
        either!(SendingWay, &self.0, way => way.lend(bytes))
    }

    /// Lent blocks that no call uses any more.
    pub fn take_back(&self, blocks: impl IntoIterator<Item = Block>) {
        either!(SendingWay, &self.0, way => way.take_back(blocks));
    }

    /// Where what came with the other side's frames lies.
    pub fn room(&self) -> Room<'_> {
        either!(SendingWay, &self.0, way => way.room())
    }

    /// Sends a frame with its bulk. While nothing goes `idle` is called again and again; it had better look after
    /// what comes, and its error ends the sending.
    #[inline]
    pub fn send(
        &self,
        header: &Header,
        body: &[u8],
        bulk: Bulk,
        idle: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        either!(SendingWay, &self.0, way => way.send(header, body, bulk, idle))
    }

    /// Sends a reply without waiting; returns how many bytes of short frames wait to go now.
    #[inline]
    pub fn post(&self, header: Header, body: &[u8], parts: Vec<LargePart>) -> Result<usize> {
        either!(SendingWay, &self.0, way => way.post(header, body, parts))
    }

    /// Sends what waits, as far as there is room; whether something still waits.
    pub fn flush(&self) -> Result<bool> {
        either!(SendingWay, &self.0, way => way.flush())
    }

    /// Tells the server that a request is not wanted any more. One that it has not begun by then is not run.
    pub fn cancel(&self, request: RequestId) {
        either!(SendingWay, &self.0, way => way.cancel(request));
    }

    /// Whether the client still wants a request.
    #[inline]
    pub fn wants(&self, request: RequestId) -> bool {
        either!(SendingWay, &self.0, way => way.wants(request))
    }

    /// How many frames have come that nobody has taken.
    pub fn waiting(&self) -> u64 {
        either!(SendingWay, &self.0, way => way.waiting())
    }

    /// Shows the client that this process lives.
    pub fn beat(&self) {
        either!(SendingWay, &self.0, way => way.beat());
    }

    /// What the process at the other end does; one system call.
    pub fn state(&self) -> PeerState {
        either!(SendingWay, &self.0, way => way.state())
    }

    /// What it means that it is stopped.
    pub fn why_stopped(&self) -> String {
        either!(SendingWay, &self.0, way => way.why_stopped())
    }

    /// Whether its process has not ended, as far as can be seen: the connection alone may have been cut.
    pub fn may_be_there(&self) -> bool {
        either!(SendingWay, &self.0, way => way.may_be_there())
    }

    /// What tells of its end and, over the network, of what comes.
    pub fn interest(&self) -> (BorrowedFd<'_>, PollFlags) {
        either!(SendingWay, &self.0, way => way.interest())
    }

    /// Ends it: nothing that was sent and not begun is to be run any more.
    pub fn close(&self) {
        either!(SendingWay, &self.0, way => way.close());
    }
}

impl Receiver {
    /// Takes the next frame into `frame`, and gives what came with it. `ServerLost` at the end of a connection, when
    /// all that had come is taken.
    #[inline]
    pub fn next(&mut self, frame: &mut Frame) -> Result<Option<Arrived>> {
        either!(ReceivingWay, &mut self.0, way => way.next(frame))
    }

    /// Whether [`Receiver::next`] finds something, be it the end.
    #[inline]
    pub fn pending(&mut self) -> bool {
        either!(ReceivingWay, &mut self.0, way => way.pending())
    }

    /// Whether [`Receiver::next`] finds something in what has been read already.
    #[inline]
    pub fn has_more(&mut self) -> bool {
        either!(ReceivingWay, &mut self.0, way => way.has_more())
    }

    /// Reads what has come while nobody has time for it: senders get on, and what is not wanted any more is known.
    pub fn read_ahead(&mut self) -> Result<()> {
        either!(ReceivingWay, &mut self.0, way => way.read_ahead())
    }

    /// A look without the receiver, where there is one.
    pub fn peek(&self) -> Option<Peek> {
        either!(ReceivingWay, &self.0, way => way.peek())
    }

    /// This process is about to sleep: whoever sends rings the doorbell from now on. Look at [`Receiver::pending`] once
    /// more behind this.
    #[inline]
    pub fn arm(&self) {
        either!(ReceivingWay, &self.0, way => way.arm());
    }

    /// It is awake.
    #[inline]
    pub fn disarm(&self) {
        either!(ReceivingWay, &self.0, way => way.disarm());
    }

    /// Whether it is armed, and nobody has rung since.
    #[inline]
    pub fn is_armed(&self) -> bool {
        either!(ReceivingWay, &self.0, way => way.is_armed())
    }

    /// What to sleep on besides the doorbell.
    pub fn interest(&self) -> Option<BorrowedFd<'_>> {
        either!(ReceivingWay, &self.0, way => way.interest())
    }
}
