//! A connection that is cut between a client and a server that are well, as a firewall does it: nobody died.

use std::net::SocketAddr;
use std::time::Duration;

use forebay_client::call::Client;
use rustix::net::{Shutdown, getpeername, shutdown};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

use crate::roles::World;

const PATIENCE: Duration = Duration::from_secs(20);

/// Cuts every connection of this process to a server; says how many there were.
fn cut(client: &Client) -> usize {
    let server = client.services().unwrap()[0].servers[0].clone();
    let port = server.listens.map(|l| l.address.rsplit(':').next().unwrap().parse::<u16>().unwrap());
    let this = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let numbers = open.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let sockets = numbers.filter_map(|n| pidfd_getfd(&this, n, PidfdGetfdFlags::empty()).ok());
    let is_to_it = |peer: rustix::net::SocketAddrAny| match SocketAddr::try_from(peer.clone()) {
        Ok(address) => crate::OVER_NETWORK && Some(address.port()) == port,
        Err(_) => rustix::net::SocketAddrUnix::try_from(peer)
            .is_ok_and(|unix| unix.path_bytes() == Some(server.socket.as_bytes())),
    };
    let cut = |socket: &std::os::fd::OwnedFd| {
        getpeername(socket).ok().flatten().is_some_and(is_to_it) && shutdown(socket, Shutdown::Both).is_ok()
    };
    sockets.collect::<Vec<_>>().iter().filter(|socket| cut(socket)).count()
}

#[test]
fn who_was_cut_off_while_it_asked_for_nothing_calls_again_as_if_nothing_had_been() {
    let world = World::new();
    let _server = world.server("one", 1);
    let client = world.client();
    let once = |tag: &str| client.call("order_once", vec![tag.into(), 0i64.into()], Some(PATIENCE));
    for round in 0..5 {
        client.call("void", vec![], Some(PATIENCE)).unwrap();
        assert!(cut(&client) > 0);
        // One with effects, too, where nothing of it can have been sent: not into shared memory.
        if !crate::SHARED_MEMORY {
            once(&format!("round {round}")).unwrap();
            assert!(cut(&client) > 0);
        }
        client.call("void", vec![], None).unwrap();
    }
    let begun = world.log().into_iter().filter(|line| line.contains("round")).count();
    assert_eq!(begun, if crate::SHARED_MEMORY { 0 } else { 5 }, "each has run once: {:?}", world.log());
}

#[test]
fn calls_under_way_when_their_connection_is_cut_are_issued_again_to_the_same_server() {
    let world = World::new();
    let _server = world.server("one", 2);
    let client = world.client();
    for _ in 0..10 {
        let calls: Vec<_> = (0..8)
            .map(|_| client.call_async("work", vec!["tag".into(), 5i64.into()], Some(PATIENCE)).unwrap())
            .collect();
        assert!(cut(&client) > 0);
        for mut call in calls {
            call.wait(None).unwrap();
        }
    }
}

#[test]
fn a_call_outlives_a_connection_that_was_cut_before_it_and_one_that_is_cut_under_it() {
    let world = World::new();
    let _server = world.server("one", 1);
    let client = world.client();
    for _ in 0..5 {
        client.call("void", vec![], Some(PATIENCE)).unwrap();
        // In shared memory the first one is found when the reply does not come.
        if !crate::SHARED_MEMORY {
            assert!(cut(&client) > 0);
        }
        let mut call = client.call_async("work", vec!["tag".into(), 50i64.into()], Some(PATIENCE)).unwrap();
        assert!(cut(&client) > 0);
        call.wait(None).unwrap();
    }
}
