//! What every transport of frames between a client and a server does.

use crate::frame::{Frame, Header};
use forebay_types::Result;
use std::time::Instant;

/// A way for frames to one peer and back, in order. One thread uses it at a time; transports
/// that can be used from two (one sends, one receives) have a `split` of their own.
pub trait Link: Send {
    /// Sends one frame (kind, flags and id of the header) whose body is the parts one behind the other. `Full` when the peer has
    /// not yet made room for it (try again after a [`Link::try_recv`]), `BadArgument` when it
    /// never fits.
    fn send(&mut self, header: &Header, body: &[&[u8]]) -> Result<()>;

    /// The next frame into `frame`, if one is there; says whether.
    fn try_recv(&mut self, frame: &mut Frame) -> Result<bool>;

    /// Whether [`Link::try_recv`] would find a frame, without taking it.
    fn pending(&mut self) -> bool;

    /// Waits for a frame until the deadline; says whether there is one. `ServerLost` when the
    /// peer is gone or stopped.
    fn wait(&mut self, deadline: Option<Instant>) -> Result<bool>;
}
