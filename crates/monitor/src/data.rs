//! The data socket of one viewer: pictures, two under way at most, newest wins.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{Message, WebSocket};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use crate::credit::Credits;
use crate::ctl::{KNOCKING, PATIENCE, knock};
use crate::guard::Approach;
use crate::run::Run;
use crate::say::Knock;
use crate::viewer::Sight;

/// How often we look whether something is new.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// Sends pictures until one side leaves.
pub async fn serve(mut socket: WebSocket, run: Arc<Run>, entry: Approach, mut stop: watch::Receiver<bool>) {
    let script = if let Approach::Script(role) = entry { Some(role) } else { None };
    let Ok(Ok(Knock::Data { conn, mac })) = timeout(KNOCKING, knock(&mut socket)).await else { return };
    // Of no open control socket, or not its page, or there is one already.
    let Some(mut sight) = run.viewers.data(conn, mac.as_deref(), script) else { return };
    let began = Instant::now();
    let mut credits = Credits::default();
    let mut tick = interval(LOOK_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let active = credits.any() && !sight.borrow().hidden;
        tokio::select! {
            message = socket.recv() => match message {
                Some(Ok(Message::Text(text))) => credits.give_back(read_credit(&text)),
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => {}
            },
            changed = sight.changed() => {
                if changed.is_err() {
                    return;
                }
                let open = sight.borrow().open.clone();
                credits.forget(|d| open.contains_key(&d));
            }
            _ = tick.tick(), if active => {}
            _ = stop.changed() => return,
        }
        if send_due(&mut socket, &run, &sight, &mut credits, began).await.is_err() {
            return;
        }
    }
}

/// Sends what is due while there is credit. Encodes each diagram as it is at that moment.
async fn send_due(
    socket: &mut WebSocket,
    run: &Run,
    sight: &watch::Receiver<Sight>,
    credits: &mut Credits,
    began: Instant,
) -> Result<(), ()> {
    while credits.any() {
        let now = sight.borrow().clone();
        if now.hidden {
            break;
        }
        run.poll();
        let versions = run.versions();
        let version = |(d, (_, mark)): (&u32, &(_, u64))| Some((*d, (*versions.get(d)?, *mark)));
        let open: Vec<(u32, (u64, u64))> = now.open.iter().filter_map(version).collect();
        let ms = began.elapsed().as_millis() as u64;
        let Some(diagram) = credits.next(ms, &open) else { break };
        let (window, mark) = now.open[&diagram];
        let Some((version, bytes)) = run.picture(diagram, &window) else { break };
        credits.sent(ms, diagram, (version, mark));
        match timeout(PATIENCE, socket.send(Message::Binary(bytes))).await {
            Ok(Ok(())) => {}
            _ => return Err(()),
        }
    }
    Ok(())
}

/// A page gives credit back as a bare number in decimal digits; anything else is none.
fn read_credit(text: &str) -> u32 {
    if text.len() <= 3 { text.parse().unwrap_or(0) } else { 0 }
}
