//! Who may come in to a run's page.
//!
//! ```text
//!  code  --proved once--> session: sid, K = MAC(master, sid, origin) --proved at each socket--> role
//!  token --in a header--> role                                         (scripts only, never in a link)
//! ```
//!
//! A link carries a *code*. The page and we prove to each other that we know it, and it is not sent. What the
//! page gets is the key of a *session* of one tab, bound to its origin; nothing is kept here of it: the key follows
//! from the session's number and our master secret. Nothing is a cookie, for cookies go to every port of a host, and
//! other users listen there. `spec/monitor.md` has the messages.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forebay_types::Result;

use crate::secret::{self, Secret};

/// What somebody may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Looks.
    Viewer,
    /// Looks and steers.
    Operator,
}

impl Role {
    /// The word for people.
    pub fn word(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
        }
    }

    fn of(number: u8) -> Option<Role> {
        match number {
            1 => Some(Role::Viewer),
            2 => Some(Role::Operator),
            _ => None,
        }
    }

    fn number(self) -> u8 {
        match self {
            Role::Viewer => 1,
            Role::Operator => 2,
        }
    }
}

/// How long an operator's code may be used, once.
const OPERATORS_CODE: Duration = Duration::from_secs(5 * 60);
/// How long the viewers' code may be used, by anybody who has it.
const VIEWERS_CODE: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long a session lasts.
const SESSION_S: u64 = 7 * 24 * 3600;
/// Operators' codes that are remembered; the oldest goes first.
const CODES: usize = 64;
/// How long somebody may take to answer our challenge.
const ANSWER: Duration = Duration::from_secs(10);
/// Challenges that are remembered.
const ASKED: usize = 64;
/// First letters of a code by which it is named.
pub const ID: usize = 5;

/// A code as it is remembered.
#[derive(Debug)]
struct Code {
    id: String,
    secret: Secret,
    role: Role,
    until: Instant,
}

/// A challenge that waits for its answer.
#[derive(Debug)]
struct OpenChallenge {
    id: String,
    nc: String,
    ns: String,
    until: Instant,
}

#[derive(Debug, Default)]
struct Inner {
    codes: VecDeque<Code>,
    asked: VecDeque<OpenChallenge>,
}

/// A session as its page gets it.
#[derive(Debug, PartialEq)]
pub struct Session {
    /// Its number.
    pub sid: String,
    /// Its key, readable by who knows the code.
    pub wrapped: String,
    /// What it may do.
    pub role: Role,
}

/// Who may come in: codes, sessions and tokens of a run.
#[derive(Debug)]
pub struct Door {
    master: Secret,
    tokens: [Secret; 2],
    /// What the viewers' link carries.
    viewers: String,
    inner: Mutex<Inner>,
    used: Condvar,
}

impl Door {
    /// New secrets.
    pub fn new() -> Result<Door> {
        let viewers = secret::code()?;
        let door = Door {
            master: Secret::generate()?,
            tokens: [Secret::generate()?, Secret::generate()?],
            viewers: viewers.clone(),
            inner: Mutex::default(),
            used: Condvar::new(),
        };
        door.remember(&viewers, Role::Viewer, VIEWERS_CODE);
        Ok(door)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, code: &str, role: Role, lasts: Duration) {
        let mut inner = self.inner();
        if inner.codes.len() > CODES {
            // The first one is the viewers'.
            inner.codes.remove(1);
        }
        let (id, secret) = (code[..ID].to_owned(), Secret::of_code(code));
        inner.codes.push_back(Code { id, secret, role, until: Instant::now() + lasts });
    }

    /// A code for a link: the viewers' is one, an operator's is new each time and used once.
    pub fn code(&self, role: Role) -> Result<String> {
        if role == Role::Viewer {
            return Ok(self.viewers.clone());
        }
        let code = secret::code()?;
        self.remember(&code, role, OPERATORS_CODE);
        Ok(code)
    }

    /// Waits until an operator's code was used, or cannot be used any more. Says whether it was.
    pub fn await_use(&self, code: &str, wait: Duration) -> bool {
        let secret = Secret::of_code(code);
        let until = Instant::now() + wait;
        let mut inner = self.inner();
        loop {
            if !inner.codes.iter().any(|c| c.secret == secret) {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            inner = self.used.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Somebody names a code, with a number of theirs. Our number, and the proof that we know the code.
    pub fn challenge(&self, id: &str, nc: &str, origin: &str) -> Result<Option<(String, String)>> {
        let now = Instant::now();
        let mut inner = self.inner();
        inner.codes.retain(|c| c.until > now);
        inner.asked.retain(|a| a.until > now);
        let Some(secret) = inner.codes.iter().find(|c| c.id == id).map(|c| c.secret.clone()) else {
            return Ok(None);
        };
        if inner.asked.len() == ASKED {
            inner.asked.pop_front();
        }
        let ns = secret::nonce()?;
        let mac = secret.mac(&["S", nc, &ns, origin]).text();
        inner.asked.push_back(OpenChallenge {
            id: id.into(),
            nc: nc.into(),
            ns: ns.clone(),
            until: now + ANSWER,
        });
        Ok(Some((ns, mac)))
    }

    /// They prove that they know the code, too: a session begins.
    pub fn answer(&self, id: &str, nc: &str, ns: &str, mac: &str, origin: &str) -> Result<Option<Session>> {
        let now = Instant::now();
        let mut inner = self.inner();
        let asked = inner.asked.iter().position(|a| a.id == id && a.nc == nc && a.ns == ns && a.until > now);
        let Some(asked) = asked else { return Ok(None) };
        inner.asked.remove(asked);
        let proves = |c: &Code| c.id == id && c.until > now && c.secret.mac(&["C", nc, ns, origin]).is(mac);
        let Some(at) = inner.codes.iter().position(proves) else { return Ok(None) };
        let (role, secret) = (inner.codes[at].role, inner.codes[at].secret.clone());
        let sid = self.new_sid(role)?;
        if role == Role::Operator {
            inner.codes.remove(at);
            self.used.notify_all();
        }
        let key = self.derive(&sid, origin);
        let wrapped = key.xor(&secret.mac(&["K", nc, ns])).text();
        Ok(Some(Session { sid, wrapped, role }))
    }

    fn new_sid(&self, role: Role) -> Result<String> {
        let issued = (crate::run::now_ms() / 1000) as u32;
        let rest: [u8; 11] = secret::random()?;
        Ok(secret::hex(&[&[role.number()], &issued.to_be_bytes()[..], &rest].concat()))
    }

    fn derive(&self, sid: &str, origin: &str) -> Secret {
        self.master.mac(&["session", sid, origin])
    }

    /// Role and key of a session, if it can be one of ours that lasts still. Whoever proves the key has it.
    pub fn session(&self, sid: &str, origin: &str) -> Option<(Role, Secret)> {
        let part = |range: std::ops::Range<usize>| u32::from_str_radix(sid.get(range)?, 16).ok();
        let role = part(0..2).and_then(|n| Role::of(n as u8))?;
        let age = (crate::run::now_ms() / 1000).checked_sub(u64::from(part(2..10)?))?;
        (secret::is_nonce(sid) && age <= SESSION_S).then(|| (role, self.derive(sid, origin)))
    }

    /// What a script shows in a header.
    pub fn token(&self, role: Role) -> String {
        self.tokens[usize::from(role == Role::Operator)].text()
    }

    /// The role of a token, if it is one of ours.
    pub fn role(&self, token: &str) -> Option<Role> {
        let operator = self.tokens[1].is(token);
        let viewer = self.tokens[0].is(token);
        if operator { Some(Role::Operator) } else { viewer.then_some(Role::Viewer) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: &str = "http://127.0.0.1:4";
    const NC: &str = "0123456789abcdef0123456789abcdef";

    /// What a page does with a code: the session, and its key.
    fn enter(door: &Door, code: &str, origin: &str) -> Option<(Session, Secret)> {
        let (id, secret) = (&code[..ID], Secret::of_code(code));
        let (ns, mac) = door.challenge(id, NC, origin).unwrap()?;
        assert!(secret.mac(&["S", NC, &ns, origin]).is(&mac), "we prove ourselves first");
        let proof = secret.mac(&["C", NC, &ns, origin]).text();
        let session = door.answer(id, NC, &ns, &proof, origin).unwrap()?;
        let key = door.session(&session.sid, origin).unwrap().1;
        assert_eq!(key.xor(&secret.mac(&["K", NC, &ns])).text(), session.wrapped);
        Some((session, key))
    }

    #[test]
    fn an_operators_code_opens_once_and_the_viewers_again_and_again() {
        let door = Door::new().unwrap();
        let code = door.code(Role::Operator).unwrap();
        assert!(!door.await_use(&code, Duration::ZERO));
        assert_eq!(enter(&door, &code, ORIGIN).unwrap().0.role, Role::Operator);
        assert!(enter(&door, &code, ORIGIN).is_none());
        assert!(door.await_use(&code, Duration::ZERO));
        for _ in 0..3 {
            let code = door.code(Role::Viewer).unwrap();
            assert_eq!(enter(&door, &code, ORIGIN).unwrap().0.role, Role::Viewer);
        }
    }

    #[test]
    fn a_wrong_proof_opens_nothing_and_uses_nothing_up() {
        let door = Door::new().unwrap();
        let code = door.code(Role::Operator).unwrap();
        assert_eq!(door.challenge("aaaa1", NC, ORIGIN).unwrap(), None);
        let (ns, mac) = door.challenge(&code[..ID], NC, ORIGIN).unwrap().unwrap();
        assert_eq!(door.answer(&code[..ID], NC, &ns, &mac, ORIGIN).unwrap(), None, "our own proof sent back");
        let proof = Secret::of_code(&code).mac(&["C", NC, &ns, ORIGIN]).text();
        assert_eq!(
            door.answer(&code[..ID], NC, &ns, &proof, ORIGIN).unwrap(),
            None,
            "each challenge is answered once"
        );
        assert!(enter(&door, &code, ORIGIN).is_some());
    }

    #[test]
    fn a_session_is_of_one_origin_and_one_door() {
        let (door, other) = (Door::new().unwrap(), Door::new().unwrap());
        let (session, key) = enter(&door, &door.code(Role::Viewer).unwrap(), ORIGIN).unwrap();
        assert_eq!(door.session(&session.sid, ORIGIN), Some((Role::Viewer, key.clone())));
        assert_ne!(door.session(&session.sid, "http://127.0.0.1:5").unwrap().1, key);
        assert_ne!(other.session(&session.sid, ORIGIN).unwrap().1, key);
        let raised = format!("02{}", &session.sid[2..]);
        assert_ne!(door.session(&raised, ORIGIN).unwrap().1, key, "another role is another key");
        for sid in [
            "",
            "01",
            &session.sid[1..],
            &format!("03{}", &session.sid[2..]),
            &format!("0100000000{}", &session.sid[10..]),
        ] {
            assert_eq!(door.session(sid, ORIGIN), None, "{sid:?}");
        }
    }

    #[test]
    fn each_token_opens_its_own_role() {
        let door = Door::new().unwrap();
        assert_eq!(door.role(&door.token(Role::Operator)), Some(Role::Operator));
        assert_eq!(door.role(&door.token(Role::Viewer)), Some(Role::Viewer));
        assert_eq!(door.role("guess"), None);
        assert_eq!(door.role(&door.code(Role::Operator).unwrap()), None, "a code is no token");
    }

    #[test]
    fn the_oldest_operators_code_goes_and_never_that_of_the_viewers() {
        let door = Door::new().unwrap();
        let first = door.code(Role::Operator).unwrap();
        for _ in 0..CODES {
            door.code(Role::Operator).unwrap();
        }
        assert!(enter(&door, &first, ORIGIN).is_none());
        assert!(enter(&door, &door.code(Role::Viewer).unwrap(), ORIGIN).is_some());
    }
}
