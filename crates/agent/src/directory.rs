//! The broker behind the agent's socket: connections get numbers, requests become events, the
//! clock is read here. What it decides, `forebay_broker` decides.

use crate::diary::Diary;
use forebay_broker::{Action, Broker, Event, Gone, Peer};
use forebay_types::directory::{BrokerRequest, Directory};
use forebay_types::{Error, Result};
use serde_json::Value;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A hosted broker.
pub struct Host {
    broker: Mutex<Broker>,
    began: Instant,
    diary: Diary,
}

impl Host {
    /// One that knows nobody, or nobody yet: it takes the place of a broker that died.
    pub fn new(diary: Diary, succeeds: bool) -> Host {
        let broker = if succeeds { Broker::succeeding(0) } else { Broker::new() };
        Host { broker: Mutex::new(broker), began: Instant::now(), diary }
    }

    fn broker(&self) -> MutexGuard<'_, Broker> {
        self.broker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn event(&self, event: Event) -> Option<Result<Value>> {
        let now = self.began.elapsed().as_nanos() as u64;
        let actions = self.broker().handle(now, event);
        let mut given = None;
        for action in actions {
            match action {
                Action::Answer { answer, .. } => given = Some(answer),
                Action::Joined { incarnation, name } => {
                    self.diary.line(format_args!("server {name:?} ({:x}) announced itself", incarnation.0));
                }
                Action::Left { incarnation, name, why } => {
                    let why = match why {
                        Gone::Withdrawn => "left",
                        Gone::Disconnected => "is gone: its connection ended",
                        Gone::Expired => "is gone: it was silent for too long",
                        Gone::Failed => "was found dead by a client",
                    };
                    self.diary.line(format_args!("server {name:?} ({:x}) {why}", incarnation.0));
                }
            }
        }
        given
    }

    /// Answers a request of connection `peer`.
    pub fn request(&self, peer: u64, request: BrokerRequest) -> Result<Value> {
        self.event(Event::Request { peer: Peer(peer), request })
            .unwrap_or_else(|| Err(Error::internal("the broker gave no answer")))
    }

    /// A connection has ended.
    pub fn lost(&self, peer: u64) {
        self.event(Event::Lost { peer: Peer(peer) });
    }

    /// Time goes on.
    pub fn tick(&self) {
        self.event(Event::Tick);
    }

    /// Whether some server counts on it.
    pub fn needed(&self) -> bool {
        self.broker().has_servers()
    }

    /// The table.
    pub fn directory(&self) -> Directory {
        self.broker().directory()
    }
}
