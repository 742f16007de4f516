//! A server whose numbers have the other byte order: it says so, and the client makes them right.

use std::time::{Duration, Instant};

use forebay_client::call::Arg;
use forebay_link::net::{Listen, Lobby};
use forebay_link::pool::{Budget, Pool};
use forebay_link::stream::Received;
use forebay_link::{Header, Locator, Wire};
use forebay_types::call::{self, Attached, BIG_ENDIAN, Item, Location, Outcome, ServerRequest, kind};
use forebay_types::codec::Writer;
use forebay_types::directory::{BrokerRequest, Incarnation, Listens, ServerInfo};
use forebay_types::record::BlockRef;
use forebay_types::{ArrayMeta, DType, Shape};

use crate::frames::{Link, Pooled};
use crate::roles::World;

const PATIENCE: Duration = Duration::from_secs(10);

/// Announces itself to the broker with one service and waits for its client, to whom it is a link.
fn announced(world: &World, signature: &str) -> (Wire, impl FnOnce() -> Pooled + use<>) {
    let key = world.broker.as_ref().unwrap().network().1.clone();
    let address = "127.0.0.1:0".parse().unwrap();
    let listen = Listen { address, key: key.behind(None), tls_on_loopback: false, role: "server".into() };
    let mut lobby = Lobby::bind(listen).unwrap();
    let info = ServerInfo {
        name: "other".into(),
        incarnation: Incarnation(7),
        pid: std::process::id(),
        host: "elsewhere".into(),
        socket: "none".into(),
        services: vec![signature.into()],
        place: "elsewhere".into(),
        listens: Some(Listens { address: lobby.local().to_string(), certificate: None }),
        lease_ms: 60_000,
        room: 0,
        workers: 1,
        supervised: false,
    };
    let at: &Locator = &world.locator();
    let mut broker = at.connect("server", PATIENCE).unwrap();
    broker.ask_with(&BrokerRequest::Announce(info.clone()), &[], PATIENCE).unwrap();
    let accept = move || {
        let mut wire = lobby.accept(None, Some(Instant::now() + PATIENCE)).unwrap().unwrap();
        let asked = wire.receive(PATIENCE).unwrap();
        assert!(matches!(asked.parse().unwrap(), ServerRequest::Attach { .. }));
        let attached = Attached { incarnation: info.incarnation, pid: info.pid, name: info.name };
        wire.reply(asked.id, &Ok(serde_json::to_value(attached).unwrap())).unwrap();
        Pooled::new(wire.into_calls().unwrap(), Pool::new(&Budget::new(1 << 30)))
    };
    (broker, accept)
}

#[test]
fn results_of_a_machine_of_the_other_byte_order_are_made_right() {
    let world = World::new();
    let (_broker, accept) = announced(&world, "both(out few:c64[3], out many:i32[n], in n:i32)");
    let n = 100_000u32;
    let server = std::thread::spawn(move || {
        let mut link = accept();
        let request = loop {
            assert!(link.wait(Some(Instant::now() + PATIENCE)).unwrap(), "no request");
            match link.try_receive().unwrap() {
                Some(Received { header, .. }) if header.kind == kind::REQUEST => break header,
                _ => {}
            }
        };
        let few: Vec<u8> = (0..6).flat_map(|i| (i as f32 + 0.5).to_be_bytes()).collect();
        let many: Vec<u8> = (0..n).flat_map(|i| (i as i32 * 1_000).to_be_bytes()).collect();
        let array =
            |dtype, n: u64, place| Item::Array(ArrayMeta::new(dtype, Shape::new(&[n]).unwrap()), place);
        let part = BlockRef { segment: 0, index: 0, bytes: 4 * u64::from(n) };
        let items = [
            array(DType::C64, 3, Location::Inline { at: 0, bytes: 24 }),
            array(DType::I32, n.into(), Location::Block(part)),
        ];
        let mut w = Writer::new();
        let outcome = Outcome { code: 0, running: 0, queued: 0, waited_ns: 0, ran_ns: 0, text: "" };
        call::put_outcome(&mut w, &outcome, items.len());
        items.iter().for_each(|item| call::put_item(&mut w, item));
        let mut body = w.finish();
        body.resize(body.len() + call::padding(body.len()), 0);
        body.extend(few);
        let header = Header { flags: BIG_ENDIAN, ..Header::new(kind::REPLY, request.id) };
        link.sender().send(&header, &[&body], &[&many], |_| Ok(())).unwrap();
        // Until the client goes.
        while link.wait(Some(Instant::now() + PATIENCE)).is_ok_and(|more| more) && link.try_receive().is_ok()
        {
        }
    });
    let client = world.client();
    let (mut few, mut many) = ([[0f32; 2]; 3], vec![0i32; n as usize]);
    let args = vec![Arg::from(&mut few[..]), Arg::from(&mut many[..]), (n as i32).into()];
    client.call("both", args, Some(PATIENCE)).unwrap();
    assert_eq!(few, [[0.5, 1.5], [2.5, 3.5], [4.5, 5.5]]);
    assert!(many.iter().enumerate().all(|(i, x)| *x == i as i32 * 1_000));
    drop(client);
    server.join().unwrap();
}
