//! Clients on other hosts that have the key and talk nonsense: they are cut off, and nobody else
//! notices.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use forebay_link::net::{Address, Fingerprint};
use forebay_link::pool::{Budget, Pool};
use forebay_link::stream::Received;
use forebay_link::{Header, Wire};
use forebay_types::call::{self, Call, Item, Location, ServerRequest, kind};
use forebay_types::codec::Writer;
use forebay_types::record::BlockRef;
use forebay_types::{ArrayMeta, Code, DType, Shape};

use crate::frames::{Link, Pooled};
use crate::roles::{World, until};

const PATIENCE: Duration = Duration::from_secs(10);

fn address(world: &World) -> Address {
    world.client().services().unwrap()[0].servers[0].listens.clone().unwrap().address.parse().unwrap()
}

fn attach(world: &World) -> Pooled {
    let listens = world.client().services().unwrap()[0].servers[0].listens.clone().unwrap();
    let certificate = listens.certificate.map(|c| Fingerprint::parse(&c).unwrap());
    let key = world.broker.as_ref().unwrap().network().1.behind(certificate);
    let mut wire = Wire::connect_net(&address(world), "client", &key.into(), PATIENCE).unwrap();
    wire.ask_with(&ServerRequest::Attach { client: 7 }, &[], PATIENCE).unwrap();
    Pooled::new(wire.into_calls().unwrap(), Pool::new(&Budget::new(1 << 30)))
}

/// The next reply; none when the server hangs up.
fn reply(link: &mut Pooled) -> Option<(u32, String)> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match link.try_receive() {
            Ok(Some(Received { header, body, .. })) if header.kind == kind::REPLY => {
                let (outcome, _) = call::get_outcome(&body, 64, &mut Vec::new()).unwrap();
                return Some((outcome.code, outcome.text.to_owned()));
            }
            Ok(_) => assert!(link.wait(Some(deadline)).is_ok() && Instant::now() < deadline, "no reply"),
            Err(_) => return None,
        }
    }
}

fn request(issue: u32, service: &str, items: &[Item]) -> Vec<u8> {
    let mut w = Writer::new();
    call::put_call(&mut w, &Call { sent_ns: 0, allowed_ns: 0, issue, service }, items.len());
    items.iter().for_each(|item| call::put_item(&mut w, item));
    w.finish()
}

fn ask(link: &mut Pooled, id: u64, issue: u32, service: &str, items: &[Item]) -> (u32, String) {
    link.send(&Header::new(kind::REQUEST, id), &[&request(issue, service, items)]).unwrap();
    reply(link).unwrap()
}

#[test]
fn nonsense_on_a_link_gets_an_error_or_an_end_and_disturbs_nobody() {
    let world = World::new();
    let _server = world.server("one", 1);
    let client = world.client();
    let mut link = attach(&world);
    for id in 0..200u64 {
        let body: Vec<u8> = (0..id).map(|i| (i * 37 + id * 11) as u8).collect();
        link.send(&Header::new(kind::REQUEST, id), &[&body]).unwrap();
        assert_eq!(reply(&mut link).unwrap().0, Code::Corrupt as u32);
    }
    link.send(&Header::new(0x77, 1), &[b"?"]).unwrap();
    assert_eq!(reply(&mut link), None, "it is cut off");
    client.call("void", vec![], Some(PATIENCE)).unwrap();
}

#[test]
fn arguments_that_did_not_come_are_refused() {
    let world = World::new();
    let _server = world.server("one", 1);
    let mut link = attach(&world);
    let meta = ArrayMeta::new(DType::F64, Shape::new(&[512]).unwrap());
    let at = |segment, index| Item::Array(meta, Location::Block(BlockRef { segment, index, bytes: 4096 }));
    let a = Item::Scalar(1.0.into());
    for (i, y) in [at(0, 0), at(0, 3), at(0, u32::MAX), at(1, 0)].into_iter().enumerate() {
        let (code, text) = ask(&mut link, 1 + i as u64, 0, "axpy", &[a, y, y]);
        assert!(code == Code::Corrupt as u32 && text.contains("did not come"), "{text}");
    }
    // Shorter than it says, and one part for two arguments.
    for (i, (bytes, y)) in [(4095, at(0, 1)), (4096, at(0, 0))].into_iter().enumerate() {
        let part = vec![0; bytes];
        let body = request(0, "axpy", &[a, at(0, 0), y]);
        let header = Header::new(kind::REQUEST, 10 + i as u64);
        link.sender().send(&header, &[&body], &[&part, &part], |_| Ok(())).unwrap();
        let (code, text) = reply(&mut link).unwrap();
        assert!(code == Code::Corrupt as u32, "{text}");
    }
    let huge = ArrayMeta::new(DType::F64, Shape::new(&[1 << 32]).unwrap());
    let none = Item::Array(huge, Location::None { bytes: 8 << 32 });
    let (code, text) = ask(&mut link, 20, 0, "axpy", &[a, none, none]);
    assert!(code == Code::Full as u32, "{text}");
    assert_eq!(ask(&mut link, 21, 0, "void", &[]).0, 0);
    // A request that comes again is not run again.
    let (code, text) = ask(&mut link, 21, 1, "void", &[]);
    assert!(code == Code::Conflict as u32 && text.contains("has run the request before"), "{text}");
}

#[test]
fn who_stops_in_the_middle_of_an_argument_keeps_nobody_waiting() {
    let world = World::new();
    let _server = world.server("one", 1);
    let client = world.client();
    let link = attach(&world);
    let part = vec![0; 64 << 20];
    let mut turns = 0;
    let e = link.sender().send(&Header::new(kind::REQUEST, 1), &[&request(0, "void", &[])], &[&part], |_| {
        turns += 1;
        match turns {
            1 => Err(forebay_types::Error::new(Code::Cancelled, "enough")),
            _ => Ok(()),
        }
    });
    assert_eq!(e.unwrap_err().code(), Code::Cancelled);
    client.call("void", vec![], Some(PATIENCE)).unwrap();
    // Half a frame, and silence; then the end of it.
    drop(link);
    client.call("void", vec![], Some(PATIENCE)).unwrap();
}

#[test]
fn strangers_at_a_servers_door_keep_nobody_waiting() {
    let world = World::new();
    let _server = world.server("one", 1);
    let Address { host, port } = address(&world);
    let silent: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect((&*host, port)).unwrap()).collect();
    let begun = Instant::now();
    world.client().call("void", vec![], Some(PATIENCE)).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    drop(silent);
}

#[test]
fn who_reads_no_replies_holds_up_nobody() {
    let world = World::new();
    let _server = world.server("one", 1);
    let client = world.client();
    let mut link = attach(&world);
    let body = request(0, "void", &[]);
    let mut sent = 0u64;
    let deadline = Instant::now() + Duration::from_secs(20);
    while sent < 20_000 {
        assert!(Instant::now() < deadline, "only {sent} requests were taken");
        match link.send(&Header::new(kind::REQUEST, sent), &[&body]) {
            Ok(()) => sent += 1,
            Err(_) => std::thread::yield_now(),
        }
    }
    client.call("void", vec![], Some(PATIENCE)).unwrap();
    for n in 0..sent {
        assert!(reply(&mut link).is_some(), "{n} of {sent} replies came");
    }
}

#[test]
fn a_small_call_overtakes_a_large_argument() {
    let world = World::new();
    let _server = world.server("one", 2);
    let client = world.client();
    let x = vec![1.0; 16 << 20];
    let done = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let args = vec!["large".into(), 0i64.into(), x[..].into()];
            client.call("look", args, Some(PATIENCE)).unwrap();
            done.store(1, std::sync::atomic::Ordering::SeqCst);
        });
        let mut overtaken = 0;
        while done.load(std::sync::atomic::Ordering::SeqCst) == 0 {
            client.call("void", vec![], Some(PATIENCE)).unwrap();
            overtaken += 1;
        }
        assert!(overtaken > 1, "{overtaken}");
    });
    until("it was looked at", || world.log().len() == 2);
}
