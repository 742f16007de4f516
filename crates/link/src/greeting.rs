//! The first words on a control connection: who speaks, and in which version.

use crate::frame::{Header, kind};
use crate::wire::{Message, Wire};
use forebay_types::control::WIRE_VERSION;
use forebay_types::{Code, Error, Result};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Who is at the other end. The uid was checked by the system; the rest is its own word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// Version of the wire it speaks.
    pub version: u32,
    /// What it is: `client`, `server`, `agent`, `run`, `cli`.
    pub role: String,
    /// Its pid.
    pub pid: u32,
    /// Version of its Forebay.
    pub program: String,
}

impl Peer {
    /// What this process says about itself.
    pub fn ourselves(role: &str) -> Peer {
        Peer {
            version: WIRE_VERSION,
            role: role.to_owned(),
            pid: std::process::id(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// The connecting side: says hello, hears welcome.
pub(crate) fn hello(wire: &mut Wire, role: &str, deadline: Instant) -> Result<Peer> {
    if let Err(e) = say_hello(wire, role, deadline) {
        // Who is refused at once may hear why, though it can say nothing any more.
        if let Ok(Some(message)) = wire.read(Some(deadline)) {
            message.failure()?;
        }
        return Err(e);
    }
    let message = wire.read(Some(deadline))?.ok_or_else(|| {
        Error::new(Code::Timeout, "the other side accepted the connection and did not greet; is it stopped?")
    })?;
    hear_welcome(&message)
}

pub(crate) fn say_hello(wire: &mut Wire, role: &str, deadline: Instant) -> Result<()> {
    wire.write(&Header::new(kind::HELLO, 0), &Peer::ourselves(role), &[], deadline)
}

pub(crate) fn hear_welcome(message: &Message) -> Result<Peer> {
    heard(message, kind::WELCOME)
}

/// The accepting side: hears hello, says welcome, or says why not.
pub(crate) fn welcome(wire: &mut Wire, role: &str, deadline: Instant) -> Result<Peer> {
    let heard = match wire.read(Some(deadline)) {
        Ok(Some(message)) => heard(&message, kind::HELLO),
        Ok(None) => Err(Error::new(Code::Timeout, "who connected did not say hello")),
        Err(e) => Err(e),
    };
    match heard {
        Ok(peer) => {
            wire.write(&Header::new(kind::WELCOME, 0), &Peer::ourselves(role), &[], deadline)?;
            Ok(peer)
        }
        Err(e) => {
            let _ = wire.refuse(0, &e);
            Err(e)
        }
    }
}

fn heard(message: &Message, expected: u16) -> Result<Peer> {
    message.failure()?;
    if message.kind != expected {
        return Err(Error::new(
            Code::Corrupt,
            format!("a frame of kind {} came where a greeting was due; close the connection", message.kind),
        ));
    }
    let peer: Peer = message.parse()?;
    check_version(peer.version, format_args!("the other side (pid {}, Forebay {})", peer.pid, peer.program))?;
    Ok(peer)
}

/// Both sides speak the same version.
pub(crate) fn check_version(theirs: u32, who: impl std::fmt::Display) -> Result<()> {
    if theirs == WIRE_VERSION {
        return Ok(());
    }
    Err(Error::new(
        Code::VersionMismatch,
        format!(
            "{who} speaks version {theirs} of the wire, this program version {WIRE_VERSION}; \
             use the same version of Forebay on both sides"
        ),
    ))
}
