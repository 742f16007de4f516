//! The way in: both sides prove that they know the secret, and neither says it.
//!
//! ```text
//!  connecting                                              accepting
//!    (TLS 1.3, the certificate pinned; not on loopback)
//!    HELLO      {version, nonce}              ->
//!                                             <-           CHALLENGE {version, key, nonce}
//!    PROOF      {nonce of the challenge,
//!                proof, who connects}         ->
//!                                             <-           WELCOME   {proof, who accepts}   or an error
//! ```
//!
//! A proof is HMAC-SHA256 with the secret over the side that proves, the version, both nonces and
//! a number that only the two ends of this TLS channel know: one that was recorded, reflected or
//! passed on by somebody in the middle proves nothing. Until the end a stranger costs some
//! kilobytes and no thread: [`Handshake::step`] does what can be done now.

use super::address::Address;
use super::key::{Bytes, Key, Keys, Side, Transcript, hex, random, unhex};
use super::socket::{NetSocket, Seen};
use super::tls::{self, Identity};
use crate::frame::{Header, kind};
use crate::greeting::{Peer, check_version};
use crate::stream::{Channel, NoPlace, STRANGER, Stream};
use crate::wire::{Failure, Message};
use forebay_host::wait::{self, PollFlags};
use forebay_types::control::WIRE_VERSION;
use forebay_types::{Code, Error, Result};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

/// Flag of an error: TLS is spoken here also on loopback; come again with it.
const SPEAK_TLS: u32 = 1;
/// First byte of a TLS connection.
const TLS_RECORD: u8 = 0x16;

#[derive(Serialize, Deserialize)]
struct Hello {
    version: u32,
    nonce: String,
}

#[derive(Serialize, Deserialize)]
struct Challenge {
    version: u32,
    key: String,
    nonce: String,
}

#[derive(Serialize, Deserialize)]
struct Proof {
    nonce: String,
    proof: String,
    peer: Peer,
}

#[derive(Serialize, Deserialize)]
struct Welcome {
    proof: String,
    peer: Peer,
}

/// What an accepting side knows.
pub(crate) struct Door {
    pub key: Key,
    pub identity: Option<Identity>,
    pub tls_on_loopback: bool,
    pub role: String,
}

/// What one side knows of the matter.
enum Knows {
    Connecting { keys: Keys, role: String, chosen: Option<Key>, seen: Seen },
    Accepting(Arc<Door>),
}

enum Stage {
    /// Accepting: TLS or not shows in the first byte.
    Knock,
    Tls,
    Hear(u16),
    Done(Peer),
    /// The reason is on its way out.
    Refused(Error),
}

/// A connection on its way in.
pub(crate) struct Handshake {
    stream: Stream,
    knows: Knows,
    stage: Stage,
    /// Nonce of this side, then of the other one.
    ours: Bytes,
    theirs: Bytes,
    /// The accepting side wants TLS where none is spoken.
    wants_tls: bool,
}

/// What a step came to.
pub(crate) enum Step {
    /// Nothing more can be done until the socket is ready for that.
    Wait(PollFlags),
    /// The other side is who it says.
    Done,
}

/// Connects, and proves to each other who both are.
pub(crate) fn connect(
    address: &Address,
    role: &str,
    keys: &Keys,
    deadline: Instant,
) -> Result<(Stream, Peer, Key)> {
    match attempt(address, role, keys, deadline, false)? {
        Some(done) => Ok(done),
        None => attempt(address, role, keys, deadline, true)?
            .ok_or_else(|| Error::new(Code::Corrupt, "TLS is asked for where it is spoken")),
    }
    .map_err(|e| e.within(address))
}

/// Tries once to connect and to prove who both are; none when TLS is wanted and was not spoken.
fn attempt(
    address: &Address,
    role: &str,
    keys: &Keys,
    deadline: Instant,
    tls: bool,
) -> Result<Option<(Stream, Peer, Key)>> {
    if keys.is_empty() {
        return Err(Error::new(
            Code::Refused,
            format!(
                "no rendezvous file of this user's Forebay home opens {address}; copy the agent's HOST.json into ~/.forebay (or FOREBAY_HOME), or, if no agent listens there any more, start one there with `{}`, where DIRECTORY is that of its runs",
                address.command()
            ),
        ));
    }
    let stream = NetSocket::dial(address, deadline)?;
    let tls = tls || !stream.is_loopback();
    let mut handshake = Handshake::connecting(stream, keys.clone(), role, tls)?;
    loop {
        match handshake.step() {
            Ok(Step::Done) => {
                let key = handshake.chosen().ok_or_else(nonsense)?;
                let (stream, peer) = handshake.finish()?;
                return Ok(Some((stream, peer, key)));
            }
            Ok(Step::Wait(flags)) => {
                if !wait::until(handshake.as_fd(), flags, Some(deadline))? {
                    return Err(Error::new(
                        Code::Timeout,
                        "the other side accepted the connection and did not greet; is it stopped, or no Forebay?",
                    )
                    .within(address));
                }
            }
            Err(_) if handshake.wants_tls && !tls => return Ok(None),
            Err(e) => return Err(e.within(address)),
        }
    }
}

impl Handshake {
    fn new(socket: NetSocket, knows: Knows, stage: Stage) -> Result<Handshake> {
        let stream = Stream::over(Channel::Net(socket), STRANGER);
        Ok(Handshake { stream, knows, stage, ours: random()?, theirs: [0; 32], wants_tls: false })
    }

    fn connecting(socket: NetSocket, keys: Keys, role: &str, tls: bool) -> Result<Handshake> {
        let seen = Seen::default();
        if tls {
            socket.secure(tls::connecting(keys.certificates(), seen.clone())?);
        }
        let knows = Knows::Connecting { keys, role: role.to_owned(), chosen: None, seen };
        Handshake::new(socket, knows, Stage::Tls)
    }

    pub fn accepting(socket: NetSocket, door: Arc<Door>) -> Result<Handshake> {
        Handshake::new(socket, Knows::Accepting(door), Stage::Knock)
    }

    /// Who is at the other end, as the network says.
    pub fn peer(&self) -> String {
        self.socket().map_or_else(|e| e.to_string(), |socket| socket.peer().to_string())
    }

    fn socket(&self) -> Result<&NetSocket> {
        self.stream.channel().net().ok_or_else(|| Error::internal("a handshake on a Unix socket"))
    }

    /// The key that opened the door, for who connected.
    fn chosen(&self) -> Option<Key> {
        match &self.knows {
            Knows::Connecting { chosen, .. } => chosen.clone(),
            Knows::Accepting(_) => None,
        }
    }

    /// The connection, when [`Step::Done`] was said.
    pub fn finish(self) -> Result<(Stream, Peer)> {
        match self.stage {
            // Neither side speaks before the other one has an answer due, so nothing can be left over.
            Stage::Done(peer) if self.stream.is_at_rest() => Ok((self.stream, peer)),
            _ => Err(Error::new(Code::Corrupt, "more came than a greeting; close the connection")),
        }
    }

    /// Goes on as far as it can now.
    pub fn step(&mut self) -> Result<Step> {
        loop {
            if !self.flush()? {
                return Ok(Step::Wait(PollFlags::OUT));
            }
            match &self.stage {
                Stage::Done(_) => return Ok(Step::Done),
                Stage::Refused(e) => return Err(e.clone()),
                Stage::Knock => match self.socket()?.peek() {
                    Ok(first) => self.knock(first)?,
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(Step::Wait(PollFlags::IN)),
                    Err(e) => return Err(left(&e)),
                },
                Stage::Tls => {
                    let shaken = match &self.knows {
                        Knows::Connecting { seen, .. } => self.socket()?.shake(seen),
                        Knows::Accepting(_) => self.socket()?.shake(&Default::default()),
                    }?;
                    if !shaken {
                        return Ok(Step::Wait(PollFlags::IN));
                    }
                    self.begin()?;
                }
                Stage::Hear(expected) => {
                    let expected = *expected;
                    match self.receive() {
                        Ok(None) => return Ok(Step::Wait(PollFlags::IN)),
                        Ok(Some(message)) => self.heard(expected, &message)?,
                        Err(e) => self.refuse(e, 0),
                    }
                }
            }
        }
    }

    /// What the first byte says.
    fn knock(&mut self, first: Option<u8>) -> Result<()> {
        let Knows::Accepting(door) = &self.knows else { return Err(Error::internal("who connects knocks")) };
        let must = door.tls_on_loopback || !self.socket()?.is_loopback();
        match (first, &door.identity) {
            (Some(TLS_RECORD), Some(identity)) => {
                self.socket()?.secure(tls::accepting(&identity.config)?);
                self.stage = Stage::Tls;
            }
            (Some(b'F'), _) if must => {
                let text = "this address speaks TLS only; use the same version of Forebay on both sides";
                self.refuse(Error::new(Code::Refused, text), SPEAK_TLS);
            }
            (Some(b'F'), _) => self.stage = Stage::Hear(kind::HELLO),
            (None, _) => return Err(left(&io::ErrorKind::UnexpectedEof.into())),
            _ => return Err(Error::new(Code::Corrupt, "who connected speaks another protocol")),
        }
        Ok(())
    }

    /// The channel is there.
    fn begin(&mut self) -> Result<()> {
        match &self.knows {
            Knows::Connecting { .. } => {
                self.say(kind::HELLO, 0, &Hello { version: WIRE_VERSION, nonce: hex(&self.ours) })?;
                self.stage = Stage::Hear(kind::CHALLENGE);
            }
            Knows::Accepting(_) => self.stage = Stage::Hear(kind::HELLO),
        }
        Ok(())
    }

    fn heard(&mut self, expected: u16, message: &Message) -> Result<()> {
        if let (Knows::Connecting { .. }, kind::ERROR) = (&self.knows, message.kind) {
            self.wants_tls = message.flags & SPEAK_TLS != 0;
            self.stage = Stage::Refused(message.failure().err().unwrap_or_else(nonsense));
            return Ok(());
        }
        if message.kind != expected {
            self.refuse(nonsense(), 0);
            return Ok(());
        }
        let next = match expected {
            kind::HELLO => self.hello(message),
            kind::CHALLENGE => self.challenge(message),
            kind::PROOF => self.proof(message),
            _ => self.welcome(message),
        };
        match next {
            Ok(stage) => self.stage = stage,
            Err(e) => self.refuse(e, 0),
        }
        Ok(())
    }

    fn hello(&mut self, message: &Message) -> Result<Stage> {
        let hello: Hello = message.parse().map_err(|_| nonsense())?;
        check_version(hello.version, "the other side")?;
        self.theirs = unhex(&hello.nonce).ok_or_else(nonsense)?;
        let Knows::Accepting(door) = &self.knows else { return Err(nonsense()) };
        let challenge = Challenge { version: WIRE_VERSION, key: door.key.id.clone(), nonce: hex(&self.ours) };
        self.say(kind::CHALLENGE, 0, &challenge)?;
        Ok(Stage::Hear(kind::PROOF))
    }

    fn challenge(&mut self, message: &Message) -> Result<Stage> {
        let challenge: Challenge = message.parse().map_err(|_| nonsense())?;
        check_version(challenge.version, "the other side")?;
        self.theirs = unhex(&challenge.nonce).ok_or_else(nonsense)?;
        if self.theirs == self.ours {
            return Err(Error::new(
                Code::Refused,
                "the other side sent this program's own challenge back: it does not know the secret",
            ));
        }
        let seen = self.transcript()?;
        let Knows::Connecting { keys, role, chosen, .. } = &mut self.knows else { return Err(nonsense()) };
        let key = keys.of(&challenge.key).ok_or_else(|| {
            Error::new(
                Code::Refused,
                "no rendezvous file of this user's Forebay home belongs to the agent at this address: it began anew, or is another user's; copy its HOST.json here again",
            )
        })?;
        let proof = Proof {
            nonce: challenge.nonce,
            proof: key.secret.prove(Side::Connecting, &seen),
            peer: Peer::ourselves(role),
        };
        *chosen = Some(key.clone());
        self.say(kind::PROOF, 0, &proof)?;
        Ok(Stage::Hear(kind::WELCOME))
    }

    fn proof(&mut self, message: &Message) -> Result<Stage> {
        let proof: Proof = message.parse().map_err(|_| nonsense())?;
        if unhex(&proof.nonce) != Some(self.ours) {
            return Err(Error::new(
                Code::Refused,
                "the proof answers another challenge than that of this connection: it was recorded and sent again",
            ));
        }
        let seen = self.transcript()?;
        let Knows::Accepting(door) = &self.knows else { return Err(nonsense()) };
        if !door.key.secret.proves(Side::Connecting, &seen, &proof.proof) {
            return Err(Error::new(
                Code::Refused,
                "the secret is not the agent's; copy its HOST.json into ~/.forebay (or FOREBAY_HOME) again",
            ));
        }
        check_version(proof.peer.version, "the other side")?;
        let welcome = Welcome {
            proof: door.key.secret.prove(Side::Accepting, &seen),
            peer: Peer::ourselves(&door.role),
        };
        self.say(kind::WELCOME, 0, &welcome)?;
        Ok(Stage::Done(proof.peer))
    }

    fn welcome(&mut self, message: &Message) -> Result<Stage> {
        let welcome: Welcome = message.parse().map_err(|_| nonsense())?;
        let seen = self.transcript()?;
        let Knows::Connecting { chosen: Some(key), .. } = &self.knows else { return Err(nonsense()) };
        match key.secret.proves(Side::Accepting, &seen, &welcome.proof) {
            true => Ok(Stage::Done(welcome.peer)),
            false => Err(Error::new(
                Code::Refused,
                "the other side does not know the secret: it is not the agent of the rendezvous file; nothing was sent to it",
            )),
        }
    }

    fn transcript(&self) -> Result<Transcript> {
        let channel = self.socket()?.channel()?;
        Ok(match &self.knows {
            Knows::Connecting { .. } => Transcript { theirs: self.ours, ours: self.theirs, channel },
            Knows::Accepting(_) => Transcript { theirs: self.theirs, ours: self.ours, channel },
        })
    }

    fn say(&self, kind: u16, flags: u32, value: &impl Serialize) -> Result<()> {
        let json = serde_json::to_vec(value).unwrap_or_default();
        self.stream.push(Header { flags, ..Header::new(kind, 0) }, &json, &[])
    }

    /// Ends it; who connected hears why. What it said itself is not repeated.
    fn refuse(&mut self, e: Error, flags: u32) {
        if matches!(self.knows, Knows::Accepting(_)) {
            // One who has left hears nothing.
            let _ =
                self.say(kind::ERROR, flags, &Failure { code: e.code() as u32, text: e.text().to_owned() });
        }
        self.stage = Stage::Refused(e);
    }

    fn flush(&self) -> Result<bool> {
        match self.stage {
            Stage::Knock | Stage::Tls => Ok(true),
            _ => self.stream.flush().map_err(gone),
        }
    }

    /// The next message, if all of it has come.
    fn receive(&mut self) -> Result<Option<Message>> {
        Ok(self.stream.next(&mut NoPlace).map_err(gone)?.map(Message::from))
    }
}

impl AsFd for Handshake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn left(e: &io::Error) -> Error {
    Error::new(Code::ServerLost, format!("the other side left before it had greeted: {e}"))
}

/// Turns `ServerLost` into the error that the other side left before it had greeted; other errors stay.
fn gone(e: Error) -> Error {
    match e.code() {
        Code::ServerLost => left(&io::Error::other(e.text().to_owned())),
        _ => e,
    }
}

/// Without what came: it may be anything.
fn nonsense() -> Error {
    Error::new(Code::Corrupt, "what came is no greeting of Forebay; close the connection")
}

#[cfg(test)]
mod tests;
