//! The control socket of one viewer: small JSON both ways, never behind pictures.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{Message, WebSocket};
use forebay_types::{Code, Error, Result, limits};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::guard::Approach;
use crate::rate::Bucket;
use crate::run::{Run, now_ms};
use crate::say::{self, FromPage, Knock, ToPage};
use crate::secret;
use crate::token::Role;
use crate::viewer::Seen;

/// Time between two words about the state while nothing changes.
const STATE_EVERY: Duration = Duration::from_millis(250);
/// How long a page may take to accept a message before it is let go.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// How long a socket may take to say who it is.
pub const KNOCKING: Duration = Duration::from_secs(2);

/// A viewer's place in the list; it leaves when this is dropped.
pub struct Guest {
    run: Arc<Run>,
    id: u64,
    role: Role,
    name: String,
}

impl Guest {
    /// Somebody comes in.
    fn enter(run: Arc<Run>, role: Role, key: Option<secret::Secret>) -> Result<Guest> {
        let (id, name) = run.viewers.enter(role, key)?;
        Ok(Guest { run, id, role, name })
    }
}

/// The next words of a socket that says who it is.
pub async fn knock(socket: &mut WebSocket) -> Result<Knock> {
    let unclear = || Error::bad(format!("not the first words of version {}; reload the page", say::VERSION));
    match socket.recv().await {
        Some(Ok(Message::Text(text))) => serde_json::from_str(&text).map_err(|_| unclear()),
        _ => Err(unclear()),
    }
}

/// Lets somebody in. A page proves that it has the key of its session, and we prove it first: another
/// program may have had our port.
async fn admit(socket: &mut WebSocket, run: Arc<Run>, entry: Approach) -> Result<Guest> {
    let origin = match entry {
        Approach::Script(role) => return Guest::enter(run, role, None),
        Approach::Page(origin) => origin,
    };
    let Knock::Me { v, sid, nc } = knock(socket).await? else {
        return Err(Error::bad("a control socket begins with \"me\""));
    };
    if v != say::VERSION {
        return Err(Error::new(Code::VersionMismatch, "the monitor was renewed; reload this page"));
    }
    let over = || Error::new(Code::Refused, "this session is over; `forebay monitor RUN` prints a new link");
    if !secret::is_nonce(&nc) {
        return Err(over());
    }
    let (role, key) = run.door.session(&sid, &origin).ok_or_else(over)?;
    let (ns, id) = (secret::nonce()?, run.info().id.clone());
    let mac = key.mac(&["S", &nc, &ns, &origin, &id]).text();
    send(socket, &ToPage::Prove { ns: ns.clone(), mac }).await.map_err(|Lost| over())?;
    match knock(socket).await? {
        Knock::Proof { mac } if key.mac(&["C", &ns, &nc, &origin, &id]).is(&mac) => {
            Guest::enter(run, role, Some(key.mac(&["conn", &nc, &ns])))
        }
        _ => Err(over()),
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.run.viewers.leave(self.id);
        self.run.rewatch();
    }
}

/// Talks to the page until one side leaves.
pub async fn serve(mut socket: WebSocket, run: Arc<Run>, entry: Approach, mut stop: watch::Receiver<bool>) {
    let mut guest = match timeout(KNOCKING, admit(&mut socket, run, entry)).await {
        Ok(Ok(guest)) => guest,
        Ok(Err(e)) => return turn_away(socket, &e).await,
        Err(_) => return,
    };
    let mut talk = Talk { seen: Seen::default(), bucket: Bucket::new(now_ms()), hidden: false };
    let hello = ToPage::Hello {
        v: say::VERSION,
        run: guest.run.info().clone(),
        role: guest.role,
        you: guest.name.clone(),
        conn: guest.id,
        steps: limits::STEPS,
    };
    if send(&mut socket, &hello).await.is_err() {
        return;
    }
    let mut news = guest.run.listen();
    let mut tick = interval(STATE_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    news.mark_changed();
    let mut ticks = 0u64;
    let why = loop {
        let going = tokio::select! {
            message = socket.recv() => match message {
                Some(Ok(Message::Text(text))) => talk.hear(&mut socket, &mut guest, &text).await,
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => Ok(()),
            },
            _ = news.changed() => talk.tell(&mut socket, &guest).await,
            _ = tick.tick() => {
                ticks += 1;
                if talk.hidden && !ticks.is_multiple_of(4) {
                    continue;
                }
                send(&mut socket, &ToPage::State(guest.run.words())).await
            }
            _ = stop.changed() => break "the monitor stops",
        };
        if going.is_err() {
            return;
        }
        if guest.run.is_closed() {
            break "the run is shown no longer";
        }
    };
    // Both may fail: the page may be gone already.
    let _ = talk.tell(&mut socket, &guest).await;
    let _ = send(&mut socket, &ToPage::Bye { why: why.to_owned() }).await;
    let _ = timeout(Duration::from_millis(200), socket.send(Message::Close(None))).await;
}

/// Says why not. It may be gone already.
async fn turn_away(mut socket: WebSocket, why: &Error) {
    let (code, text) = (why.code().name(), why.text().to_owned());
    let _ = send(&mut socket, &ToPage::Refused { req: 0, code, text }).await;
    let _ = timeout(Duration::from_millis(200), socket.send(Message::Close(None))).await;
}

/// The page does not take what it is sent.
struct Lost;

struct Talk {
    seen: Seen,
    bucket: Bucket,
    hidden: bool,
}

impl Talk {
    /// Everything new.
    async fn tell(&mut self, socket: &mut WebSocket, guest: &Guest) -> Result<(), Lost> {
        for message in guest.run.changes(&mut self.seen) {
            send(socket, &message).await?;
        }
        if std::mem::take(&mut self.seen.state_due) {
            send(socket, &ToPage::State(guest.run.words())).await?;
        }
        Ok(())
    }

    async fn hear(&mut self, socket: &mut WebSocket, guest: &mut Guest, text: &str) -> Result<(), Lost> {
        match serde_json::from_str(text) {
            Ok(FromPage::Cmd { req, act }) => {
                let result = if self.bucket.take(now_ms()) {
                    guest.run.act(&guest.name, guest.role, &act)
                } else {
                    Err(Error::new(Code::Refused, "more than ten acts a second; slow down"))
                };
                let answer = match result {
                    Ok(id) => ToPage::Accepted { req, id },
                    Err(e) => ToPage::Refused { req, code: e.code().name(), text: e.text().to_owned() },
                };
                send(socket, &answer).await
            }
            Ok(FromPage::View { open, hidden }) => {
                self.hidden = hidden;
                guest.run.viewers.look(guest.id, &open, hidden);
                guest.run.rewatch();
                Ok(())
            }
            Ok(FromPage::Name { name }) => {
                guest.name = guest.run.viewers.rename(guest.id, &name).ok_or(Lost)?;
                send(socket, &ToPage::State(guest.run.words())).await
            }
            Err(e) => {
                let req = serde_json::from_str::<serde_json::Value>(text).ok();
                let req = req.and_then(|v| v.get("req")?.as_u64()).unwrap_or(0);
                let text = format!("not a message of version {}: {e}; reload the page", say::VERSION);
                send(socket, &ToPage::Refused { req, code: Code::BadArgument.name(), text }).await
            }
        }
    }
}

async fn send(socket: &mut WebSocket, message: &ToPage) -> Result<(), Lost> {
    let text = serde_json::to_string(message).map_err(|_| Lost)?;
    match timeout(PATIENCE, socket.send(Message::Text(text.into()))).await {
        Ok(Ok(())) => Ok(()),
        _ => Err(Lost),
    }
}
