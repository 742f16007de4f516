//! The heart: a thread that never runs a service, so it beats however busy the workers are.
//!
//! With each beat it counts up a word in every client's segment, which is how a client tells a
//! busy server from a stopped one; it finds clients that died, sends replies that had to wait,
//! wakes a worker when nobody polls because a call took long by surprise, and reads what comes over
//! the network when all workers compute.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use forebay_link::silence::HEART;

use crate::shared::Shared;
use forebay_host::lock;

/// Time between two beats while replies wait for room in a ring.
const FAST: Duration = Duration::from_millis(1);

/// Beats until the server stops.
pub(crate) fn run(shared: Arc<Shared>) {
    while !shared.stopping() {
        let waiting = beat(&shared);
        shared.nap(if waiting { FAST } else { HEART });
    }
}

fn beat(shared: &Shared) -> bool {
    let flush = shared.waiting.swap(false, Ordering::SeqCst);
    let peers = lock(&shared.peers).clone();
    let mut waiting = false;
    let mut lost = false;
    shared.load();
    for peer in &peers {
        peer.beat();
        peer.look();
        lost |= peer.is_gone();
        waiting |= flush && peer.flush();
    }
    if lost {
        lock(&shared.peers).retain(|p| !p.is_gone());
        shared.touch();
    }
    if waiting {
        shared.waiting.store(true, Ordering::SeqCst);
    }
    stand_in(shared, lost || peers.iter().any(|p| !p.is_near()));
    waiting
}

/// When nobody leads, somebody is woken who can; when all workers have something to do, what comes over the network is
/// read here, so that senders get on and requests that are taken back stop, and what dead clients left goes.
fn stand_in(shared: &Shared, reads: bool) {
    let Some(mut poller) = shared.crew.lead() else { return };
    if reads {
        poller.stand_by(shared);
    }
    drop(poller);
    // Whoever wanted to lead just now found the lead taken, and rests.
    shared.crew.promote();
}
