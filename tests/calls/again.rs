//! Who has lost its broker tries again: less and less often.

use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use crate::roles::{World, until};

#[test]
fn a_server_whose_broker_is_gone_waits_longer_each_time_before_it_tries_again() {
    let mut world = World::new();
    let _server = world.server("one", 1);
    let at = world.broker.take().unwrap().path().to_owned();
    // Whoever comes is turned away at once, and has not tried again before.
    let door = UnixListener::bind(&at).unwrap();
    let mut turned_away = None;
    let mut pauses = Vec::new();
    while pauses.len() < 7 {
        let (server, _) = door.accept().unwrap();
        pauses.extend(turned_away.map(|at: Instant| at.elapsed()));
        turned_away = Some(Instant::now());
        drop(server);
    }
    // The first one may have begun before the door was there.
    for (pause, expected) in pauses[1..].iter().zip([100, 200, 400, 800, 1_000, 1_000]) {
        assert!(*pause >= Duration::from_millis(expected * 3 / 4), "{expected} ms: {pauses:?}");
    }
    drop(door);
    std::fs::remove_file(&at).unwrap();
    world.start_broker();
    let client = world.client();
    until("the server is known again", || client.services().unwrap().iter().any(|s| s.servers.len() == 1));
}
