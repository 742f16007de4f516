//! The call link over the network, against peers that keep the rules and peers that do not.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use forebay_link::frame::{HEADER_BYTES, Header, kind};
use forebay_link::pool::{Budget, Pool};
use forebay_link::stream::{Flusher, PIECE_BYTES, Received};
use forebay_types::{Code, Error, Result};
use proptest::prelude::*;

mod frames;

use frames::{Link, Pooled};

const REQUEST: u16 = 0x10;
const LONG: Duration = Duration::from_secs(10);

fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (one, listener.accept().unwrap().0)
}

fn link(socket: TcpStream, budget: u64) -> Pooled {
    Pooled::over_socket(socket, Pool::new(&Budget::new(budget))).unwrap()
}

fn pair() -> (Pooled, Pooled) {
    let (one, other) = sockets();
    (link(one, 1 << 30), link(other, 1 << 30))
}

fn next(link: &mut Pooled) -> Result<Received> {
    let deadline = Instant::now() + LONG;
    loop {
        if let Some(received) = link.try_receive()? {
            return Ok(received);
        }
        assert!(Instant::now() < deadline, "nothing came");
        link.wait(Some(deadline))?;
    }
}

fn pattern(n: usize, seed: u8) -> Vec<u8> {
    (0..n).map(|i| (i as u8).wrapping_mul(31).wrapping_add((i >> 8) as u8) ^ seed).collect()
}

#[test]
fn large_parts_arrive_whole_with_their_frame() {
    let (one, mut other) = pair();
    let parts = [pattern(5 << 20, 1), Vec::new(), pattern(PIECE_BYTES, 2), pattern(4_097, 3)];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let borrowed: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            one.sender().send(&Header::new(REQUEST, 1), &[b"words"], &borrowed, |_| Ok(())).unwrap();
        });
        let received = next(&mut other).unwrap();
        assert_eq!((received.header.id, &received.body[..]), (1, &b"words"[..]));
        assert!(received.parts.iter().map(|p| p.bytes()).eq(parts.iter().map(Vec::as_slice)));
    });
}

#[test]
fn short_frames_overtake_parts_that_were_handed_over_and_those_take_turns() {
    let (one, mut other) = pair();
    let flusher = Flusher::default();
    let sender = one.sender();
    for id in [1, 2] {
        let part = pattern(32 << 20, id as u8);
        if sender.post(&Header::new(REQUEST, id), &[], vec![Box::new(part)]).unwrap() {
            flusher.add(sender).unwrap();
        }
    }
    assert!(sender.post(&Header::new(REQUEST, 3), &[b"short"], Vec::new()).unwrap());
    assert_eq!(next(&mut other).unwrap().header.id, 3);
    let mut ids = Vec::new();
    for _ in 0..2 {
        let received = next(&mut other).unwrap();
        assert!(received.parts[0].bytes() == pattern(32 << 20, received.header.id as u8));
        ids.push(received.header.id);
    }
    ids.sort();
    assert_eq!(ids, [1, 2]);
}

#[test]
fn whoever_sends_a_short_frame_does_not_wait_for_parts_that_others_handed_over() {
    let (one, mut other) = pair();
    let (sender, flusher) = (one.sender(), Flusher::default());
    let part = pattern(64 << 20, 7);
    assert!(sender.post(&Header::new(REQUEST, 1), &[], vec![Box::new(part.clone())]).unwrap());
    flusher.add(sender).unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let has_left = std::thread::scope(|scope| {
        scope.spawn(|| {
            let wait = |_: Option<std::os::fd::BorrowedFd>| {
                std::thread::sleep(Duration::from_millis(1));
                Ok(())
            };
            sender.send(&Header::new(REQUEST, 2), &[b"short"], &[], wait).unwrap();
            tell.send(sender.waits()).unwrap();
        });
        assert_eq!(next(&mut other).unwrap().header.id, 2);
        // Nobody reads meanwhile, so the large one cannot leave.
        let has_left = told.recv_timeout(LONG);
        let received = next(&mut other).unwrap();
        assert!(received.header.id == 1 && received.parts[0].bytes() == part);
        has_left
    });
    assert_eq!(has_left, Ok(true), "the large one has not left, and the short one waited for it");
}

#[test]
fn a_sender_that_gives_up_in_the_middle_leaves_the_link_as_good_as_before() {
    let (one, mut other) = pair();
    let part = pattern(64 << 20, 5);
    let mut turns = 0;
    let e = one.sender().send(&Header::new(REQUEST, 1), &[], &[&part], |_| {
        turns += 1;
        Err(Error::new(Code::Timeout, "late"))
    });
    assert_eq!((e.unwrap_err().code(), turns), (Code::Timeout, 1));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while one.sender().waits() {
                one.sender().flush().unwrap();
            }
            one.sender().send(&Header::new(REQUEST, 2), &[b"next"], &[b"part"], |_| Ok(())).unwrap();
        });
        let received = next(&mut other).unwrap();
        assert_eq!((received.header.id, received.parts[0].bytes()), (2, &b"part"[..]));
    });
}

#[test]
fn whoever_waits_behind_a_sender_that_is_stuck_may_give_up() {
    let (one, mut other) = pair();
    let (sender, part) = (one.sender(), pattern(64 << 20, 3));
    let (stuck, is_stuck) = std::sync::mpsc::channel();
    let (tell, told) = std::sync::mpsc::channel();
    let gave_up = std::thread::scope(|scope| {
        scope.spawn(|| {
            let wait = |_: Option<std::os::fd::BorrowedFd>| {
                let _ = stuck.send(());
                std::thread::yield_now();
                Ok(())
            };
            sender.send(&Header::new(REQUEST, 1), &[b"first"], &[&part], wait).unwrap();
        });
        is_stuck.recv_timeout(LONG).unwrap();
        scope.spawn(|| {
            let e = sender
                .send(&Header::new(REQUEST, 2), &[], &[&part], |_| Err(Error::new(Code::Timeout, "late")));
            tell.send(e.unwrap_err().code()).unwrap();
        });
        // Nobody reads meanwhile, so the first one goes on being stuck.
        let gave_up = told.recv_timeout(LONG);
        let received = next(&mut other).unwrap();
        assert!(received.header.id == 1 && received.parts[0].bytes() == part);
        gave_up
    });
    assert_eq!(gave_up, Ok(Code::Timeout), "its own time limit did not count");
}

#[test]
fn parts_that_find_no_room_come_as_a_reason_and_the_link_goes_on() {
    let (one, other) = sockets();
    let (one, mut other) = (link(one, 1 << 20), link(other, 1 << 20));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let part = pattern(3 << 20, 1);
            one.sender().send(&Header::new(REQUEST, 1), &[b"big"], &[&part], |_| Ok(())).unwrap();
            one.sender().send(&Header::new(REQUEST, 2), &[b"small"], &[&part[..9_000]], |_| Ok(())).unwrap();
        });
        let received = next(&mut other).unwrap();
        assert_eq!(received.fault.unwrap().code(), Code::Full);
        assert_eq!((received.body, received.parts.len()), (b"big".to_vec(), 0));
        let received = next(&mut other).unwrap();
        assert_eq!(received.parts[0].bytes(), &pattern(3 << 20, 1)[..9_000]);
    });
}

#[test]
fn the_end_of_a_connection_is_told_after_all_that_came_before() {
    let (one, mut other) = pair();
    one.sender().try_send(&Header::new(REQUEST, 1), &[]).unwrap();
    drop(one);
    assert_eq!(next(&mut other).unwrap().header.id, 1);
    assert_eq!(next(&mut other).unwrap_err().code(), Code::ServerLost);
    assert!(other.pending(), "who looks learns of the end");
}

/// What a peer says, before it is silent or ends the connection.
fn hear(bytes: &[u8]) -> (Vec<Received>, Option<Error>) {
    let (mut one, other) = sockets();
    let (_, mut receiver, mut pool) = link(other, 64 << 20).split();
    one.write_all(bytes).unwrap();
    one.shutdown(std::net::Shutdown::Write).unwrap();
    let mut all = Vec::new();
    let deadline = Instant::now() + LONG;
    loop {
        match receiver.try_recv(&mut pool) {
            Ok(Some(received)) => all.push(received),
            Ok(None) => assert!(Instant::now() < deadline, "neither more nor the end"),
            Err(e) => return (all, Some(e)),
        }
    }
}

fn frame(header: Header, body: &[u8]) -> Vec<u8> {
    [&Header { body: body.len() as u64, ..header }.encode()[..], body].concat()
}

#[test]
fn lying_lengths_end_the_connection_and_take_no_memory() {
    let parts = |lengths: &[u64]| {
        let body: Vec<u8> = lengths.iter().flat_map(|n| n.to_le_bytes()).collect();
        frame(Header { number: lengths.len() as u64, ..Header::new(REQUEST, 1) }, &body)
    };
    let piece = |id, part, bytes: u64| {
        Header { number: part, body: bytes, ..Header::new(kind::PIECE, id) }.encode().to_vec()
    };
    let lies = [
        parts(&[u64::MAX, 2]),
        frame(Header { number: 3, ..Header::new(REQUEST, 1) }, &[0; 16]),
        Header { number: 256, ..Header::new(REQUEST, 1) }.encode().to_vec(),
        Header { body: 1 << 40, ..Header::new(REQUEST, 1) }.encode().to_vec(),
        Header { body: 200_000, ..Header::new(REQUEST, 1) }.encode().to_vec(),
        Header { json: 5, ..Header::new(REQUEST, 1) }.encode().to_vec(),
        piece(7, 0, 10),
        [parts(&[100]), piece(1, 1, 10)].concat(),
        [parts(&[100]), piece(1, 0, 101)].concat(),
        [parts(&[100]), piece(1, 0, 0)].concat(),
        [parts(&[1 << 20]), piece(1, 0, PIECE_BYTES as u64 + 1)].concat(),
        [parts(&[100]), parts(&[100])].concat(),
    ];
    for (i, lie) in lies.iter().enumerate() {
        let (all, e) = hear(lie);
        assert!(all.is_empty(), "lie {i}");
        assert_eq!(e.unwrap().code(), Code::Corrupt, "lie {i}");
    }
    // More than there is room for is refused when all of it has come, and cut off it is lost.
    assert_eq!(hear(&parts(&[1 << 60])).1.unwrap().code(), Code::ServerLost);
    assert_eq!(hear(&parts(&[100])[..70]).1.unwrap().code(), Code::ServerLost);
}

#[test]
fn who_announces_and_is_silent_keeps_only_itself_waiting() {
    let (mut one, other) = sockets();
    let (_, mut receiver, mut pool) = link(other, 1 << 20).split();
    one.write_all(&frame(Header::new(REQUEST, 1), &[1; 100])[..80]).unwrap();
    for _ in 0..100 {
        assert!(receiver.try_recv(&mut pool).unwrap().is_none());
    }
    one.write_all(&[1; 84]).unwrap();
    let deadline = Instant::now() + LONG;
    while receiver.try_recv(&mut pool).unwrap().is_none() {
        assert!(Instant::now() < deadline);
    }
    drop(receiver);
    let _ = one.read(&mut [0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_comes_is_delivered_whole_or_refused(
        sizes in proptest::collection::vec(0usize..9_000, 1..6), flips in proptest::collection::vec((any::<prop::sample::Index>(), 0u8..8), 0..3),
        cut: prop::sample::Index,
    ) {
        // What a sender that keeps the rules says, bits of it turned, and cut off somewhere.
        let mut bytes = Vec::new();
        for (i, size) in sizes.iter().enumerate() {
            let id = i as u64 + 1;
            let table = (*size as u64).to_le_bytes();
            bytes.extend(frame(Header { number: 1, ..Header::new(REQUEST, id) }, &table));
            if *size > 0 {
                bytes.extend(frame(Header::new(kind::PIECE, id), &pattern(*size, i as u8)));
            }
        }
        let whole = flips.is_empty();
        for (at, bit) in &flips {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        if !whole {
            let n = cut.index(bytes.len());
            bytes.truncate(n);
        }
        let (all, _) = hear(&bytes);
        if whole {
            prop_assert_eq!(all.len(), sizes.len());
        }
        for received in all {
            prop_assert_eq!(received.header.kind, REQUEST);
            prop_assert!(received.fault.is_none());
            // What is protected by the header's checksum came as it was said.
            let i = received.header.id as usize - 1;
            prop_assert!(!whole || received.parts[0].bytes() == pattern(sizes[i], i as u8));
        }
    }

    #[test]
    fn noise_is_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..400), mend: bool, kind in 13u16..20, number in 0u64..4, body in 0u64..400) {
        if mend && bytes.len() >= HEADER_BYTES {
            bytes[..HEADER_BYTES].copy_from_slice(&Header { number, body, ..Header::new(kind, 1) }.encode());
        }
        let (all, e) = hear(&bytes);
        prop_assert!(e.is_some());
        prop_assert!(all.len() <= 1);
    }
}
