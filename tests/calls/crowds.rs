//! Many that come at one moment, to a server that is well.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forebay_client::call::{Arg, Client};
use forebay_types::Code;

use crate::roles::{Serving, World};

/// That many at once call a server for the first time, each by the client that is its own or everybody's. Who got
/// no answer, and how long the last one took.
fn first_calls(clients: &[Client], threads: usize) -> (Vec<String>, Duration) {
    let barrier = Barrier::new(threads);
    let began = Instant::now();
    let failed = std::thread::scope(|scope| {
        let calls = |i: usize| {
            let (client, barrier) = (&clients[i % clients.len()], &barrier);
            scope.spawn(move || {
                barrier.wait();
                // Without a time of its own: one that is lost waits for ever, and the test with it.
                client.call("void", vec![], None).err().map(|e| e.to_string())
            })
        };
        let calls: Vec<_> = (0..threads).map(calls).collect();
        calls.into_iter().filter_map(|call| call.join().unwrap()).collect()
    });
    (failed, began.elapsed())
}

fn incarnation(client: &Client) -> u64 {
    client.services().unwrap()[0].servers[0].incarnation.0
}

/// Nobody has told the broker that it died.
fn is_announced_still(world: &World, server: &Serving) {
    let servers = world.client().services().unwrap().swap_remove(0).servers;
    assert_eq!(servers.iter().map(|s| i64::from(s.pid)).collect::<Vec<_>>(), [server.pid()]);
}

#[test]
fn hundreds_of_threads_call_for_the_first_time_at_one_moment() {
    for _ in 0..3 {
        let world = World::new();
        let server = world.server("one", 1);
        let client = world.client();
        let before = incarnation(&client);
        let (failed, took) = first_calls(std::slice::from_ref(&client), 200);
        assert!(failed.is_empty(), "{} of 200: {}", failed.len(), failed[0]);
        assert!(took < Duration::from_secs(5), "{took:?}");
        assert_eq!(incarnation(&client), before);
        is_announced_still(&world, &server);
    }
}

#[test]
fn hundreds_of_clients_call_for_the_first_time_at_one_moment() {
    let world = World::new();
    let server = world.server("one", 1);
    let clients: Vec<_> = (0..200).map(|_| world.client()).collect();
    let (failed, took) = first_calls(&clients, clients.len());
    assert!(failed.is_empty(), "{} of 200: {}", failed.len(), failed[0]);
    assert!(took < Duration::from_secs(10), "{took:?}");
    is_announced_still(&world, &server);
}

#[test]
fn who_may_open_no_more_files_is_told_so_and_no_server_is_taken_for_dead() {
    let world = World::new();
    let server = world.server("one", 1);
    let before = incarnation(&world.client());
    let client = world.limited_client("files");
    let log = world.log();
    let said = |line: &String| line.strip_prefix(&format!("{} ", client.pid())).map(str::to_owned);
    let lines: Vec<String> = log.iter().filter_map(said).collect();
    assert!(lines.len() == 11 && lines[0].starts_with("Full") && lines[9] == "called", "{lines:#?}");
    for line in lines[..10].iter().filter(|line| *line != "called") {
        assert!(
            line.starts_with("Full") && line.contains("its limit is") && line.contains("ulimit -n"),
            "{line}"
        );
    }
    assert_eq!(lines[10], "unlimited: 2.5");
    assert_eq!(incarnation(&world.client()), before);
    is_announced_still(&world, &server);
}

#[test]
fn a_client_of_little_address_space_calls_with_large_arrays() {
    let world = World::new();
    let _server = world.server("one", 1);
    let client = world.limited_client("addresses");
    assert_eq!(world.log(), [format!("{} limited: 2.5", client.pid())]);
}

#[test]
fn a_server_of_little_address_space_serves_several_clients_and_says_whose_limit_ends_them() {
    if !crate::SHARED_MEMORY {
        return;
    }
    let world = World::new();
    let server = world.limited_server("small", 600 << 20);
    let mut clients = Vec::new();
    let e = loop {
        let client = world.client();
        if let Err(e) = client.call("void", vec![], None) {
            break e;
        }
        clients.push(client);
    };
    assert!((4..100).contains(&clients.len()), "{} {e}", clients.len());
    clients.iter().for_each(|client| drop(client.call("void", vec![], None).unwrap()));
    assert_eq!(e.code(), Code::Full);
    let (x, mut y) = (vec![1.0; 3 << 20], vec![0.5; 3 << 20]);
    let none: [f64; 0] = [];
    let under_way = vec!["under way".into(), 3_000.into(), none[..].into()];
    let mut under_way = clients[0].call_async("look", under_way, None).unwrap();
    let large =
        clients[0].call("axpy", vec![2.0.into(), x[..].into(), Arg::from(&mut y[..])], None).unwrap_err();
    assert!(!under_way.done(), "what never finds room does not wait for other calls to give theirs back");
    drop(under_way);
    assert_eq!(large.code(), Code::Full);
    assert!(large.text().contains("address space of this process or of the server"), "{large}");
    for says in ["server \"small\"", "limit of the server's process", "ulimit -v"] {
        assert!(e.text().contains(says), "{e}");
    }
    is_announced_still(&world, &server);
    // Whom it has no room for is served by another one.
    let _roomy = world.server("roomy", 1);
    let more: Vec<Client> = (0..4).map(|_| world.client()).collect();
    more.iter().for_each(|client| drop(client.call("void", vec![], None).unwrap()));
}

#[test]
fn clients_that_have_long_asked_for_nothing_are_served_beside_one_that_never_stops() {
    let world = World::new();
    let _server = world.server("one", 1);
    let clients: Vec<Client> = (0..40).map(|_| world.client()).collect();
    let void = |client: &Client| client.call("void", vec![], Some(Duration::from_secs(10))).unwrap();
    clients.iter().for_each(|client| drop(void(client)));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let busy = scope.spawn(|| {
            let client = world.client();
            let mut calls = 0;
            while !over.load(Ordering::Relaxed) {
                void(&client);
                calls += 1;
            }
            calls
        });
        for _ in 0..5 {
            // In a thousand of the other one's calls everybody else is taken for one who asks for nothing.
            let client = world.client();
            (0..3_000).for_each(|_| drop(void(&client)));
            clients.iter().for_each(|client| drop(void(client)));
        }
        over.store(true, Ordering::Relaxed);
        assert!(busy.join().unwrap() > 0);
    });
    // And when nobody else asks.
    clients.iter().for_each(|client| drop(void(client)));
}
