//! Bytes as frames of a greeting over the network, to either side: kind, length, JSON, and so on.

use super::link::no_rest;
use forebay_link::Wire;
use forebay_link::frame::Header;
use forebay_link::net::{Key, Listen, Lobby};
use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(20);

thread_local! {
    static DOOR: RefCell<Lobby> = RefCell::new(door());
}

fn door() -> Lobby {
    let address = "127.0.0.1:0".parse().expect("an address");
    let key = Key::new().expect("a key");
    let listen = Listen { address, key, tls_on_loopback: false, role: "server".to_owned() };
    Lobby::bind(listen).expect("a loopback port")
}

pub fn handshake(data: &[u8]) {
    let Some((how, rest)) = data.split_first() else { return };
    let mut said = Vec::new();
    match how & 2 {
        0 => frames(rest, &mut said),
        _ => said.extend_from_slice(rest),
    }
    match how & 1 {
        0 => at_the_door(&said),
        _ => at_a_false_door(&said),
    }
}

/// `kind u8 | length u16 | JSON` one behind the other, as frames.
fn frames(mut rest: &[u8], said: &mut Vec<u8>) {
    while let [kind, low, high, tail @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(tail.len());
        let (json, tail) = tail.split_at(length);
        let header = Header { json: length as u32, ..Header::new(u16::from(*kind), 0) };
        said.extend_from_slice(&header.encode());
        said.extend_from_slice(json);
        rest = tail;
    }
}

/// A stranger: nobody comes in without the secret, and it is known soon.
fn at_the_door(said: &[u8]) {
    DOOR.with_borrow_mut(|door| {
        let mut stranger = TcpStream::connect(door.local()).expect("a connection");
        no_rest(&stranger);
        stranger.set_nonblocking(true).expect("a socket");
        let _ = stranger.write(said);
        let _ = stranger.shutdown(Shutdown::Write);
        match door.accept(None, Some(Instant::now() + LONG)) {
            Ok(Some(_)) => panic!("a stranger came in"),
            Ok(None) => panic!("a stranger who has left is still waited for"),
            Err(_) => {}
        }
    });
}

/// Who knocks at a door of somebody who does not know the secret.
fn at_a_false_door(said: &[u8]) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
    let address = listener.local_addr().expect("its address").to_string().parse().expect("an address");
    let key = Key::new().expect("a key");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut socket, _) = listener.accept().expect("a connection");
            no_rest(&socket);
            let _ = socket.write_all(said);
            let _ = socket.shutdown(Shutdown::Write);
            let _ = socket.read_to_end(&mut Vec::new());
        });
        let begun = Instant::now();
        assert!(Wire::connect_net(&address, "client", &key.into(), LONG).is_err(), "it proved nothing");
        assert!(begun.elapsed() < LONG, "a door that has closed is still knocked at");
    });
}
