//! Processes on other hosts: who they are, and that nobody else hears or changes what is said.
//!
//! ```text
//!  address    where          "fb://host:port", with the name of a run behind
//!  key        who            the secret of a rendezvous file, and its certificate's fingerprint
//!  tls        privacy        TLS 1.3, the certificate pinned; on loopback only on request
//!  socket     bytes          a socket, plain or TLS, that never blocks
//!  handshake  the way in     both sides prove that they know the secret, without saying it
//!  lobby      many at once   strangers wait here, in no thread of their own, and not for long
//! ```
//!
//! A connection that has come through is a [`crate::Wire`] like one over a Unix socket, except
//! that no descriptors travel over it. When both sides have agreed on it, it becomes a link of calls
//! ([`crate::Wire::into_calls`]) or of a run ([`crate::Wire::into_run`]).

mod address;
mod handshake;
mod key;
mod lobby;
mod socket;
mod tls;

pub use address::Address;
pub use key::{Fingerprint, Key, Keys, Network, Secret};
pub use lobby::{Listen, Lobby};
pub use socket::NetSocket;

pub(crate) use handshake::connect;
