//! The data plane: frames, and the ways they travel between two processes.
//!
//! | module | what | waits by |
//! | --- | --- | --- |
//! | [`frame`] | the bytes of a frame, one codec for all transports | - |
//! | [`stream`] | frames and their large parts over a Unix socket, TCP or TLS: one framing for all that goes over them | poll, by whoever owns it |
//! | [`wire`] | control connection: JSON frames, over a Unix socket with descriptors, over the network without | poll, with deadlines |
//! | [`net`] | processes on other hosts: addresses, keys, TLS, the handshake | poll, with deadlines |
//! | [`call`] | the link of calls: one contract, whichever way it goes | looking, then a doorbell and sockets |
//! | [`run`] | both ends of a run that is written from another host | - |
//! | [`silence`] | how long nothing may be heard of whom: one table | - |
//! | [`standing`] | who serves and waits itself: somebody stands in for it meanwhile | - |
//! | [`watch`] | whether the process at the other end lives, is stopped, or is gone | - |
//!
//! The way of a call: the client makes a segment and hands it to the server over a [`wire::Wire`];
//! from then on requests and replies are frames in its rings, big arguments are blocks in it, and the socket only
//! tells of death. Over the network the connection itself is the link. Client and server see one
//! [`call::Sender`] and one [`call::Receiver`] and do not ask which of the two it is. This crate knows what goes between
//! processes, and neither services nor stores nor brokers.
#![forbid(unsafe_code)]
#![cfg_attr(feature = "socketpair", allow(dead_code, unused_imports))] // shared memory is not used then

pub mod call;
mod fair;
pub mod frame;
mod greeting;
pub mod hash;
pub mod idle;
mod listener;
mod locate;
pub mod net;
pub mod pool;
pub mod run;
pub mod silence;
pub mod standing;
pub mod stream;
pub mod watch;
pub mod wire;

use forebay_host::lock;

pub use frame::{Frame, Header};
pub use greeting::Peer;
pub use hash::QuickMap;
pub use listener::{Incoming, Listener};
pub use locate::{Locator, Transport};
pub use stream::Stream;
pub use watch::{PeerState, Watch};
pub use wire::{Failure, Message, Notes, Wire};
