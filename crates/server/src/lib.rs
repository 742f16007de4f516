//! The service host: functions under a name, for clients on this host.
//!
//! The way of a call: a client writes a request into the ring of its own segment and rings the
//! server's doorbell; the *leader* among the workers finds it ([`Running`] has them), checks it
//! against the signature again, and runs the service on the arguments in place (`crew`, `worker`); the
//! reply goes back through the client's other ring. Arrays that clients refer to lie in memory of the server
//! (`held`), and calls that touch one take turns; files of calls lie in its scratch space (`files`). The heart is a thread of its own, so a server that
//! computes for a minute is still seen to live.
//!
//! ```no_run
//! use forebay_link::Locator;
//! use forebay_server::Server;
//! let server = Server::new("blas")
//!     .service("axpy(in a:f64, in x:f64[n], inout y:f64[n])", |call| {
//!         let [a, x, y] = call.args()?;
//!         let (a, x, y) = (a.f64()?, x.view::<f64>()?, y.view::<f64>()?);
//!         (0..y.len()).for_each(|i| y.set(i, y.get(i) + a * x.get(i)));
//!         Ok(())
//!     })?
//!     .start(Locator::at(None))?;
//! server.wait();
//! # Ok::<(), forebay_types::Error>(())
//! ```
#![forbid(unsafe_code)]

mod announce;
mod call;
mod crew;
mod decode;
mod files;
mod heart;
mod held;
mod listen;
mod network;
mod own;
mod parked;
mod peer;
mod poller;
mod printing;
mod server;
mod service;
mod shared;
mod worker;

/// What threads wait with; the model of the crew has its own.
mod sync {
    pub use forebay_arena::{TryLock, TryLockGuard};
    pub use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    pub use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
}

pub use call::{Arg, Call};
pub use forebay_arena::{Plain, View};
pub use forebay_types::Element;
pub use server::{Running, Server, WORKERS};
pub use service::Body;
