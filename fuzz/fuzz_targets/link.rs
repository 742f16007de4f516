//! What a peer on the network sends over a call link: every byte of it is hostile.
#![no_main]

use forebay_link::net::NetLink;
use forebay_link::pool::{Budget, Pool};
use libfuzzer_sys::fuzz_target;
use std::io::Write;
use std::net::{Shutdown, TcpListener, TcpStream};

fuzz_target!(|data: &[u8]| {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
    let address = listener.local_addr().expect("its address");
    let mut peer = TcpStream::connect(address).expect("a connection");
    let (socket, _) = listener.accept().expect("a connection");
    let budget = Budget::new(1 << 20);
    let link = NetLink::over_socket(socket, Pool::new(&budget)).expect("a link");
    let (_, mut receiver) = link.split();
    // Headers with a wrong checksum end everything at once: mend those that lie at frame starts.
    let mut bytes = data.to_vec();
    let mut at = 0;
    while let Some(head) = bytes.get_mut(at..at + 64) {
        head[..4].copy_from_slice(b"FBAY");
        head[4..6].copy_from_slice(&1u16.to_le_bytes());
        let body = u64::from_le_bytes([head[24], head[25], 0, 0, 0, 0, 0, 0]);
        head[24..32].copy_from_slice(&body.to_le_bytes());
        let sum = crc32c::crc32c(&head[..60]);
        head[60..].copy_from_slice(&sum.to_le_bytes());
        at += 64 + body as usize;
    }
    peer.write_all(&bytes).expect("room in a socket");
    peer.shutdown(Shutdown::Write).expect("its end");
    loop {
        match receiver.try_recv() {
            Ok(Some(received)) => assert_eq!(received.header.body as usize, received.body.len()),
            Ok(None) => {}
            Err(_) => break,
        }
    }
    drop(receiver);
    assert_eq!(budget.used(), 0);
});
