//! Clients that talk nonsense: they are cut off, and nobody else notices.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use forebay_arena::{Doorbell, Segment};
use forebay_client::call::{Arg, On, Value};
use forebay_client::run::View;
use forebay_link::frame::SHORT_BYTES;
use forebay_link::{Frame, Header, Wire};
use forebay_types::call::{self, BIG_ENDIAN, Call, Item, Location, ServerRequest, kind};
use forebay_types::codec::Writer;
use forebay_types::record::BlockRef;
use forebay_types::{ArrayMeta, Code, DType, Result, Scalar, Selection, Shape};

use crate::frames::{Link, Memory};
use crate::roles::World;

struct Raw {
    link: Memory,
    _bell: Doorbell,
    wire: Wire,
    /// The server's doorbell as it came.
    theirs: OwnedFd,
}

fn dial(world: &World) -> Wire {
    let info = world.client().services().unwrap()[0].servers[0].clone();
    Wire::connect(info.socket.as_ref(), Duration::from_secs(5)).unwrap()
}

/// Hands these over as segment and doorbell; gives the server's doorbell.
fn introduce(wire: &mut Wire, segment: BorrowedFd, bell: BorrowedFd) -> Result<OwnedFd> {
    let request = ServerRequest::Attach { client: 7 };
    let (_, theirs) = wire.ask_with(&request, &[segment, bell], Duration::from_secs(5))?;
    Ok(theirs.into_iter().next().unwrap())
}

fn attach(world: &World) -> Raw {
    let bell = Doorbell::new().unwrap();
    let shared = bell.share().unwrap();
    attach_with(world, bell, &shared)
}

/// As a client does whose doorbell is `shared`.
fn attach_with(world: &World, bell: Doorbell, shared: &OwnedFd) -> Raw {
    let (mut wire, link) = (dial(world), Memory::create(1 << 20, 16).unwrap());
    let theirs = introduce(&mut wire, link.segment.fd(), shared.as_fd()).unwrap();
    link.sender.attach_doorbell(theirs.try_clone().unwrap()).unwrap();
    Raw { link, _bell: bell, wire, theirs }
}

fn reply(raw: &mut Raw) -> (u32, String) {
    let mut frame = Frame::default();
    let deadline = Instant::now() + Duration::from_secs(5);
    while !raw.link.try_recv(&mut frame).unwrap() {
        assert!(Instant::now() < deadline, "no reply");
        std::thread::yield_now();
    }
    let (outcome, _) = call::get_outcome(frame.body(), 64, &mut Vec::new()).unwrap();
    (outcome.code, outcome.text.to_owned())
}

fn ask(raw: &mut Raw, id: u64, issue: u32, service: &str, items: &[Item]) -> (u32, String) {
    ask_with(raw, Header::new(kind::REQUEST, id), issue, service, items)
}

fn ask_with(raw: &mut Raw, header: Header, issue: u32, service: &str, items: &[Item]) -> (u32, String) {
    let mut w = Writer::new();
    let words = Call { sent_ns: 0, allowed_ns: 0, issue, service };
    call::put_call(&mut w, &words, items.len());
    items.iter().for_each(|item| call::put_item(&mut w, item));
    raw.link.send(&header, &[&w.finish()]).unwrap();
    reply(raw)
}

#[test]
fn nonsense_in_a_ring_gets_an_error_or_an_end_and_disturbs_nobody() {
    let world = World::new();
    let _server = world.server("one", 1);
    let client = world.client();
    let mut raw = attach(&world);
    for id in 0..200u64 {
        let body: Vec<u8> = (0..id).map(|i| (i * 37 + id * 11) as u8).collect();
        raw.link.send(&Header::new(kind::REQUEST, id), &[&body]).unwrap();
        assert_eq!(reply(&mut raw).0, Code::Corrupt as u32);
    }
    raw.link.send(&Header::new(0x77, 1), &[b"?"]).unwrap();
    client.call("void", vec![], Some(Duration::from_secs(5))).unwrap();
    crate::roles::until("it is cut off", || raw.wire.peer_gone());
    client.call("void", vec![], Some(Duration::from_secs(5))).unwrap();
}

#[test]
fn arguments_that_lie_about_their_place_are_refused() {
    let world = World::new();
    let _server = world.server("one", 1);
    let mut raw = attach(&world);
    let meta = ArrayMeta::new(DType::F64, Shape::new(&[512]).unwrap());
    let at = |segment, index| Item::Array(meta, Location::Block(BlockRef { segment, index, bytes: 4096 }));
    let a = Item::Scalar(1.0.into());
    let bad = [at(0, 3), at(0, u32::MAX), at(1, 0), Item::Array(meta, Location::None { bytes: 4096 })];
    for (i, y) in bad.into_iter().enumerate().take(3) {
        let (code, text) = ask(&mut raw, i as u64, 0, "axpy", &[a, y, y]);
        assert_ne!(code, 0, "{text}");
    }
    let huge = ArrayMeta::new(DType::F64, Shape::new(&[1 << 30]).unwrap());
    let none = Item::Array(huge, Location::None { bytes: 8 << 30 });
    let (code, text) = ask(&mut raw, 9, 0, "axpy", &[a, none, none]);
    assert!(code == Code::Corrupt as u32 && text.contains("no block"), "{text}");
    let (code, text) = ask(&mut raw, 10, 0, "axpy", &[a]);
    assert!(code == Code::BadArgument as u32 && text.contains("takes 3 arguments"), "{text}");
    let (code, text) = ask(&mut raw, 11, 0, "axpi", &[]);
    assert!(code == Code::NoServer as u32 && text.contains("axpy"), "{text}");
    let turned = Header { flags: BIG_ENDIAN, ..Header::new(kind::REQUEST, 12) };
    let (code, text) = ask_with(&mut raw, turned, 0, "void", &[]);
    assert!(code == Code::Corrupt as u32 && text.contains("of this host says"), "{text}");
}

/// The segment of arrays of that client.
fn arrays_of(world: &World, client: u64) -> Result<Segment> {
    let (_, fds) = dial(world).ask_with(&ServerRequest::Arrays { client }, &[], Duration::from_secs(5))?;
    Segment::from_fd(fds.into_iter().next().unwrap())
}

/// The same with the words of the request and its inline data.
fn ask_with_data(raw: &mut Raw, id: u64, service: &str, items: &[Item], data: &[u8]) -> (u32, String) {
    let mut w = Writer::new();
    call::put_call(&mut w, &Call { sent_ns: 0, allowed_ns: 0, issue: 0, service }, items.len());
    items.iter().for_each(|item| call::put_item(&mut w, item));
    let mut body = w.finish();
    body.resize(body.len() + call::padding(SHORT_BYTES + body.len()), 0);
    body.extend_from_slice(data);
    raw.link.send(&Header::new(kind::REQUEST, id), &[&body]).unwrap();
    reply(raw)
}

#[test]
fn a_client_that_spoils_the_memory_of_its_arrays_harms_nobody_else() {
    const N: u64 = 100_000;
    let world = World::new();
    let _server = world.server("one", 2);
    let client = world.client();
    let e = arrays_of(&world, 12_345).map(drop).unwrap_err();
    assert!(e.code() == Code::NotFound && e.text().contains("12345"), "{e}");
    let theirs = client.put(View::of(&[1.0; N as usize], &[N]).unwrap(), On::Any).unwrap();
    let mut raw = attach(&world);
    let meta = ArrayMeta::new(DType::F64, Shape::new(&[N]).unwrap());
    let shape = ArrayMeta::new(DType::U64, Shape::new(&[1]).unwrap());
    let extents = Item::Array(shape, Location::Inline { at: 0, bytes: 8 });
    let create = |raw: &mut Raw, id: u64, number: u64| {
        let items = [number.into(), (DType::F64 as u8).into(), 0u8.into(), true.into()].map(Item::Scalar);
        let items = [&items[..], &[extents]].concat();
        ask_with_data(raw, id, "forebay/array/create", &items, &N.to_le_bytes())
    };
    for number in 1..=4 {
        assert_eq!(create(&mut raw, number, number).0, 0);
    }
    let segment = arrays_of(&world, 7).unwrap();
    let held = |number| Item::Array(meta, Location::Held { number, bytes: 8 * N });
    let pages = rustix::fs::fstat(segment.fd()).unwrap().st_size as u64;
    let mut id = 10;
    // Whatever it writes over header, control words, cursors, the table and the arrays, at whatever moment.
    for round in 0..60u64 {
        let words: Vec<u64> = (0..4_096u64)
            .map(|i| match (i + round) % 5 {
                0 => u64::MAX,
                1 => 4 | 1 << 32,
                2 => pages - 64,
                3 => 1 << 63,
                _ => (i * round).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            })
            .collect();
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        rustix::io::pwrite(segment.fd(), &bytes, round % 4 * 8).unwrap();
        let number = 1 + round % 4;
        let a = Item::Scalar(1.0.into());
        let (code, text) = ask(&mut raw, id, 0, "affine", &[a, a, held(number)]);
        assert_eq!(code, 0, "{text}");
        let kill = Item::Scalar(number.into());
        assert_eq!(ask(&mut raw, id + 1, 0, "forebay/array/kill", &[kill]).0, 0);
        let (code, text) = create(&mut raw, id + 2, number);
        assert_eq!(code, 0, "{text}");
        id += 3;
    }
    let (_, bytes) = theirs.get(&Selection::default()).unwrap();
    assert!(bytes.chunks_exact(8).all(|b| *b == 1f64.to_le_bytes()));
    let sum = client.call("look", vec!["t".into(), 0i64.into(), Arg::from(&theirs)], None).unwrap();
    assert_eq!(sum, [Value::Scalar(Scalar::from(N as f64))]);
}

#[test]
fn a_request_that_comes_again_is_not_run_again() {
    let world = World::new();
    let _server = world.server("one", 1);
    let mut raw = attach(&world);
    assert_eq!(ask(&mut raw, 5, 0, "void", &[]).0, 0);
    let (code, text) = ask(&mut raw, 5, 1, "void", &[]);
    assert!(code == Code::Conflict as u32 && text.contains("has run the request before"), "{text}");
    assert_eq!(ask(&mut raw, 6, 1, "void", &[]).0, 0);
}

#[test]
fn a_client_of_another_version_is_told_both_versions() {
    let world = World::new();
    let _server = world.server("one", 1);
    let info = world.client().services().unwrap()[0].servers[0].clone();
    let header = Header { json: 2, ..Header::new(forebay_link::frame::kind::HELLO, 0) };
    let mut hello = [&header.encode()[..], b"{}"].concat();
    hello[4] = 99;
    let sum = forebay_types::crc32c(&hello[..60]);
    hello[60..64].copy_from_slice(&sum.to_le_bytes());
    let mut socket = UnixStream::connect(&info.socket).unwrap();
    socket.write_all(&hello).unwrap();
    let mut answer = Vec::new();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let _ = socket.read_to_end(&mut answer);
    let text = String::from_utf8_lossy(&answer);
    let ours = format!("version {}", forebay_types::control::WIRE_VERSION);
    assert!(text.contains("version 99") && text.contains(&ours), "{text}");
}

#[test]
fn who_reads_no_replies_holds_up_nobody() {
    let world = World::new();
    let _server = world.server("one", 1);
    let client = world.client();
    let mut raw = attach(&world);
    let mut w = Writer::new();
    call::put_call(&mut w, &Call { sent_ns: 0, allowed_ns: 0, issue: 0, service: "void" }, 0);
    let body = w.finish();
    // More replies than its ring holds, none of them read.
    let mut sent = 0u64;
    let deadline = Instant::now() + Duration::from_secs(20);
    while sent < 20_000 {
        assert!(Instant::now() < deadline, "only {sent} requests were taken");
        match raw.link.send(&Header::new(kind::REQUEST, sent), &[&body]) {
            Ok(()) => sent += 1,
            Err(_) => std::thread::yield_now(),
        }
    }
    client.call("void", vec![], Some(Duration::from_secs(10))).unwrap();
    let mut got = 0;
    let mut frame = Frame::default();
    while got < sent {
        assert!(Instant::now() < deadline, "{got} of {sent} replies came");
        match raw.link.try_recv(&mut frame).unwrap() {
            true => got += 1,
            false => std::thread::yield_now(),
        }
    }
}

#[test]
fn a_client_whose_memory_could_be_cut_short_is_not_let_in() {
    use rustix::fs::{MemfdFlags, memfd_create};
    let world = World::new();
    let _server = world.server("one", 1);
    let client = world.client();
    let honest = Memory::create(1 << 20, 16).unwrap();
    let mut bytes = vec![0; 1 << 20];
    let n = rustix::io::pread(honest.segment.fd(), &mut bytes, 0).unwrap();
    let unsealed = memfd_create("unsealed", MemfdFlags::CLOEXEC).unwrap();
    rustix::io::pwrite(&unsealed, &bytes[..n], 0).unwrap();
    rustix::fs::ftruncate(&unsealed, 8 << 20).unwrap();
    let bell = Doorbell::new().unwrap().share().unwrap();
    let e = introduce(&mut dial(&world), unsealed.as_fd(), bell.as_fd()).unwrap_err();
    assert!(e.code() == Code::Refused && e.text().contains("cut short"), "{e}");
    rustix::fs::ftruncate(&unsealed, 4096).unwrap();
    client.call("void", vec![], Some(Duration::from_secs(5))).unwrap();
}

#[test]
fn a_doorbell_that_waits_for_ever_holds_up_nobody() {
    use rustix::fs::{OFlags, fcntl_setfl};
    let world = World::new();
    let _server = world.server("one", 1);
    let client = world.client();
    let bell = Doorbell::new().unwrap();
    let shared = bell.share().unwrap();
    // Full, and whoever writes to this open file waits.
    while rustix::io::write(&shared, &[0; 512]).is_ok() {}
    let mut raw = attach_with(&world, bell, &shared);
    fcntl_setfl(&shared, OFlags::empty()).unwrap();
    for id in 1..=10 {
        raw.link.receiver.prepare_sleep();
        assert_eq!(ask(&mut raw, id, 0, "void", &[]).0, 0);
        client.call("void", vec![], Some(Duration::from_secs(5))).unwrap();
    }
    let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
    let e = introduce(&mut dial(&world), raw.link.segment.fd(), event.as_fd()).unwrap_err();
    assert!(e.text().contains("doorbell"), "{e}");
}

#[test]
fn a_client_that_spoils_the_doorbell_of_its_server_holds_up_nobody() {
    use rustix::fs::{OFlags, fcntl_setfl};
    let world = World::new();
    let _server = world.server("one", 1);
    let client = world.client();
    let raw = attach(&world);
    fcntl_setfl(&raw.theirs, OFlags::NONBLOCK).unwrap();
    while rustix::io::write(&raw.theirs, &[0; 512]).is_ok() {}
    client.call("void", vec![], Some(Duration::from_secs(5))).unwrap();
    // Empty, and whoever reads from this open file waits.
    while rustix::io::read(&raw.theirs, &mut [0; 512]).is_ok() {}
    fcntl_setfl(&raw.theirs, OFlags::empty()).unwrap();
    for _ in 0..10 {
        client.call("void", vec![], Some(Duration::from_secs(5))).unwrap();
    }
}
