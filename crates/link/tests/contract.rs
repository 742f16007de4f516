//! What the link of calls keeps, whichever way it goes: the same assertions over shared memory, TCP and TLS, from the
//! greeting to the end.

use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_arena::Doorbell;
use forebay_link::call::{Accepted, Arrived, Bulk, Receiver, Room, Sender, Target, dial};
use forebay_link::net::{Address, Key, Listen, Lobby};
use forebay_link::pool::Budget;
use forebay_link::{Frame, Header, Listener, PeerState, Wire};
use forebay_types::call::{Attached, PART_BYTES, RequestId, ServerRequest, kind};
use forebay_types::directory::{Incarnation, ServerInfo};
use forebay_types::{Code, Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const LONG: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_secs(2);

/// One side.
struct End {
    sender: Sender,
    receiver: Receiver,
    doorbell: Doorbell,
}

#[derive(Clone, Copy, PartialEq)]
enum By {
    Memory,
    Tcp,
    Tls,
}

fn server(by: By, wire: Wire, incarnation: Incarnation) -> End {
    let mut wire = wire;
    let message = wire.receive(SHORT).unwrap();
    let (id, request): (u64, ServerRequest) = (message.id, message.parse().unwrap());
    assert_eq!(request, ServerRequest::Attach { client: 7 });
    let doorbell = Doorbell::new().unwrap();
    let accepted = Accepted::new(&wire, message.fds, &doorbell).unwrap();
    let attached = Attached { incarnation, pid: std::process::id(), name: "server".into() };
    wire.answer(id, &attached, &accepted.descriptors()).unwrap();
    let (sender, receiver) = accepted.begin(wire, &Budget::new(256 << 20), &Arc::default()).unwrap();
    assert_eq!(sender.is_near(), by == By::Memory);
    End { sender, receiver, doorbell }
}

/// Both ends of a link: a client that has come to a server.
fn ends(by: By) -> (End, End) {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s.sock");
    let incarnation = Incarnation(42);
    let info = ServerInfo {
        name: "server".into(),
        incarnation,
        pid: std::process::id(),
        host: "here".into(),
        socket: socket.to_string_lossy().into_owned(),
        services: Vec::new(),
        place: String::new(),
        listens: None,
        lease_ms: 0,
        room: 0,
        workers: 1,
        supervised: false,
    };
    let until = || Some(Instant::now() + LONG);
    let (accepting, door) = match by {
        By::Memory => {
            let listener = Listener::bind(&socket).unwrap();
            let accept = move || listener.accept_wire("server", until()).unwrap().unwrap();
            (std::thread::spawn(move || server(by, accept(), incarnation)), None)
        }
        By::Tcp | By::Tls => {
            let address = Address { host: Ipv4Addr::LOCALHOST.to_string(), port: 0 };
            let tls_on_loopback = by == By::Tls;
            let key = Key::new().unwrap();
            let mut lobby =
                Lobby::bind(Listen { address, key, tls_on_loopback, role: "server".into() }).unwrap();
            let at = Address { host: Ipv4Addr::LOCALHOST.to_string(), port: lobby.local().port() };
            let door = Some((at, lobby.key().clone()));
            // Who comes plainly where TLS is spoken is refused, and comes again.
            let mut accept = move || (0..2).find_map(|_| lobby.accept(None, until()).ok()).unwrap().unwrap();
            (std::thread::spawn(move || server(by, accept(), incarnation)), door)
        }
    };
    let doorbell = Doorbell::new().unwrap();
    let (sender, receiver) = dial(&Target {
        server: &info,
        client: 7,
        doorbell: &doorbell,
        by_socket: by == By::Memory,
        door,
        silence: LONG,
        flusher: &Arc::default(),
        still: &|_| Ok(()),
    })
    .map_err(|e| e.error)
    .unwrap();
    (End { sender, receiver, doorbell }, accepting.join().unwrap())
}

fn request(id: u64) -> RequestId {
    RequestId { id, slot: id as u16 }
}

fn pattern(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes).map(|i| (i as u8).wrapping_mul(31) ^ (i >> 8) as u8 ^ seed).collect()
}

impl End {
    fn ask(&self, id: u64, body: &[u8], bulk: Bulk) {
        let header = Header::about(kind::REQUEST, request(id));
        let deadline = Instant::now() + LONG;
        let mut idle = || match Instant::now() < deadline {
            true => Ok(()),
            false => Err(Error::new(Code::Timeout, "nothing goes")),
        };
        self.sender.send(&header, body, bulk, &mut idle).unwrap();
    }

    fn answer(&self, id: u64, body: &[u8]) -> usize {
        self.sender.post(Header::new(kind::REPLY, id), body, Vec::new()).unwrap()
    }

    /// The next frame, slept for as a worker or a client does it.
    fn next(&mut self, frame: &mut Frame) -> Result<Arrived> {
        let deadline = Instant::now() + LONG;
        loop {
            if let Some(arrived) = self.receiver.next(frame)? {
                return Ok(arrived);
            }
            assert!(Instant::now() < deadline, "nothing came");
            self.receiver.arm();
            if !self.receiver.pending() {
                self.sleep();
            }
            self.receiver.disarm();
            self.doorbell.clear();
        }
    }

    fn sleep(&self) {
        let mut fds = vec![PollFd::new(&self.doorbell, PollFlags::IN)];
        fds.extend(self.receiver.interest().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let pause = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        poll(&mut fds, Some(&pause)).unwrap();
    }
}

fn whole_requests_and_replies_of_all_sizes(by: By) {
    let (mut client, mut server) = ends(by);
    let mut frame = Frame::default();
    for (id, bytes) in
        [0, 1, 100, PART_BYTES, PART_BYTES + 1, 3 * PART_BYTES, 700_000].into_iter().enumerate()
    {
        let (id, body) = (id as u64 + 1, pattern(bytes.min(PART_BYTES / 2), 1));
        client.ask(id, &body, Bulk::Here(&[]));
        let arrived = server.next(&mut frame).unwrap();
        assert_eq!((frame.header.kind, frame.header.request()), (kind::REQUEST, request(id)));
        assert!(arrived.parts.is_empty() && arrived.fault.is_none() && frame.body() == body);
        let reply = pattern(bytes, 2);
        server.answer(id, &reply);
        client.next(&mut frame).unwrap();
        assert_eq!((frame.header.kind, frame.header.id), (kind::REPLY, id));
        assert!(frame.take_body(Vec::new()) == reply, "{bytes}");
    }
}

fn bulk_is_lent_or_follows_its_frame(by: By) {
    let (client, mut server) = ends(by);
    let bytes = pattern(3 << 20, 5);
    let mut frame = Frame::default();
    let arrived = match client.sender.lend(bytes.len() as u64).unwrap() {
        Some(block) => {
            block.write_from(0, &bytes);
            client.ask(1, &block.index().to_le_bytes(), Bulk::Here(&[]));
            let arrived = server.next(&mut frame).unwrap();
            let Room::Lent(segment) = server.sender.room() else { panic!("nothing is lent") };
            let index = u32::from_le_bytes(frame.body().try_into().unwrap());
            assert!(segment.block(index).unwrap().view().to_vec() == bytes);
            client.sender.take_back([block]);
            arrived
        }
        None => {
            let sending = std::thread::scope(|scope| {
                let sends = scope.spawn(|| client.ask(1, b"here", Bulk::Here(&[&bytes])));
                let arrived = server.next(&mut frame).unwrap();
                sends.join().unwrap();
                arrived
            });
            assert!(matches!(server.sender.room(), Room::Own(_)) && sending.parts[0].bytes() == bytes);
            client.ask(2, b"kept", Bulk::Kept(vec![Box::new(bytes.clone())]));
            let kept = server.next(&mut frame).unwrap();
            assert!(frame.body() == b"kept" && kept.parts[0].bytes() == bytes);
            kept
        }
    };
    assert!(arrived.fault.is_none());
}

fn what_is_cancelled_is_not_wanted(by: By) {
    let (client, mut server) = ends(by);
    let mut frame = Frame::default();
    (1..=3).for_each(|id| client.ask(id, b"", Bulk::Here(&[])));
    client.sender.cancel(request(2));
    client.ask(4, b"", Bulk::Here(&[]));
    let deadline = Instant::now() + LONG;
    while server.sender.wants(request(2)) {
        server.receiver.read_ahead().unwrap();
        assert!(Instant::now() < deadline, "it is not known");
    }
    for id in [1, 2, 3, 4] {
        server.next(&mut frame).unwrap();
        assert_eq!((frame.header.request(), server.sender.wants(request(id))), (request(id), id != 2));
    }
}

fn replies_that_nobody_reads_wait_and_come_in_their_order(by: By) {
    let (mut client, server) = ends(by);
    let replies: Vec<Vec<u8>> = (0..100).map(|i| pattern(60_000, i)).collect();
    let waiting = replies.iter().zip(1..).map(|(reply, id)| server.answer(id, reply)).last();
    assert!(waiting.is_some_and(|bytes| bytes > 0), "all of it had room");
    let mut frame = Frame::default();
    for (reply, id) in replies.iter().zip(1..) {
        let _ = server.sender.flush().unwrap();
        client.next(&mut frame).unwrap();
        assert_eq!(frame.header.id, id);
        assert!(frame.take_body(Vec::new()) == *reply, "{id}");
    }
    assert!(!server.sender.flush().unwrap());
}

fn an_end_that_goes_is_seen_at_the_other_one(by: By) {
    for client_goes in [true, false] {
        let (client, server) = ends(by);
        let (goes, stays) = if client_goes { (client, server) } else { (server, client) };
        assert_eq!(stays.sender.state(), PeerState::Alive);
        if client_goes {
            goes.sender.close();
        }
        drop(goes);
        let deadline = Instant::now() + LONG;
        while stays.sender.state() != PeerState::Gone {
            assert!(Instant::now() < deadline, "its end is not seen");
        }
        let (socket, events) = stays.sender.interest();
        assert!(events.contains(PollFlags::RDHUP) && socket.as_fd().try_clone_to_owned().is_ok());
    }
}

fn what_a_client_left_that_gave_up_is_not_wanted(by: By) {
    let (client, mut server) = ends(by);
    client.ask(1, b"", Bulk::Here(&[]));
    let mut frame = Frame::default();
    server.next(&mut frame).unwrap();
    client.sender.close();
    let deadline = Instant::now() + LONG;
    while server.sender.wants(request(1)) && server.sender.state() != PeerState::Gone {
        assert!(Instant::now() < deadline, "it is still wanted");
    }
}

macro_rules! laws {
    ($($law:ident)*) => {
        laws! { @by shared_memory By::Memory; $($law)* }
        laws! { @by tcp By::Tcp; $($law)* }
        laws! { @by tls By::Tls; $($law)* }
    };
    (@by $name:ident $by:expr; $($law:ident)*) => {
        mod $name {
            use super::*;
            $(#[test]
            fn $law() {
                super::$law($by);
            })*
        }
    };
}

laws! {
    whole_requests_and_replies_of_all_sizes
    bulk_is_lent_or_follows_its_frame
    what_is_cancelled_is_not_wanted
    replies_that_nobody_reads_wait_and_come_in_their_order
    an_end_that_goes_is_seen_at_the_other_one
    what_a_client_left_that_gave_up_is_not_wanted
}

#[test]
fn a_reply_whose_parts_are_broken_by_another_one_is_corrupt() {
    // A server that breaks the rules: a part of one reply, and then another one.
    let (mut client, server) = ends(By::Memory);
    server.sender.post(Header::new(kind::REPLY_PART, 1), b"half", Vec::new()).unwrap();
    server.answer(2, b"other");
    let e = client.next(&mut Frame::default()).unwrap_err();
    assert!(e.code() == Code::Corrupt && e.text().contains("amid the reply to 1"), "{e}");
}
