//! The way in, with both sides in one process: who is let in, and what the others are told.

use super::super::key::Fingerprint;
use super::super::lobby::{Listen, Lobby};
use super::*;
use crate::frame::HEADER_BYTES;
use crate::wire::Wire;
use proptest::prelude::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// A lobby on a thread; who comes in is sent back what he says, who does not is reported.
struct House {
    address: Address,
    key: Key,
    refused: Receiver<Error>,
    stop: std::os::unix::net::UnixStream,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl House {
    fn with(tls_on_loopback: bool) -> House {
        let listen = Listen {
            address: "fb://127.0.0.1:0".parse().unwrap(),
            key: Key::new().unwrap(),
            tls_on_loopback,
            role: "agent".to_owned(),
        };
        let mut lobby = Lobby::bind(listen).unwrap();
        let address = Address { host: "127.0.0.1".to_owned(), port: lobby.local().port() };
        let key = lobby.key().clone();
        let (tell, refused) = channel();
        let (stop, stopped) = std::os::unix::net::UnixStream::pair().unwrap();
        let thread = std::thread::spawn(move || {
            loop {
                match lobby.accept(Some(stopped.as_fd()), None) {
                    Ok(Some(mut wire)) => {
                        let Ok(message) = wire.receive(SECOND) else { continue };
                        let value: serde_json::Value = message.parse().unwrap();
                        let _ = wire.answer(message.id, &value, &[]);
                    }
                    Ok(None) => return,
                    Err(e) => drop(tell.send(e)),
                }
            }
        });
        House { address, key, refused, stop, thread: Some(thread) }
    }

    fn connect(&self, key: &Key) -> Result<Wire> {
        Wire::connect_net(&self.address, "client", &key.clone().into(), 3 * SECOND)
    }

    fn answers(&self) {
        let mut wire = self.connect(&self.key).unwrap();
        assert_eq!(wire.ask("what").unwrap(), serde_json::json!("what"));
        assert_eq!(wire.peer().role, "agent");
    }

    fn socket(&self) -> TcpStream {
        let socket = TcpStream::connect(("127.0.0.1", self.address.port)).unwrap();
        socket.set_read_timeout(Some(8 * SECOND)).unwrap();
        socket
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.stop.write_all(b".").unwrap();
        self.thread.take().unwrap().join().unwrap();
    }
}

fn frame(kind: u16, json: &str) -> Vec<u8> {
    let header = Header { json: json.len() as u32, ..Header::new(kind, 0) };
    [&header.encode()[..], json.as_bytes()].concat()
}

fn read_frame(socket: &mut TcpStream) -> (u16, serde_json::Value) {
    let mut head = [0; HEADER_BYTES];
    socket.read_exact(&mut head).unwrap();
    let header = Header::decode(&head, 1 << 16).unwrap();
    let mut json = vec![0; header.json as usize];
    socket.read_exact(&mut json).unwrap();
    (header.kind, serde_json::from_slice(&json).unwrap())
}

#[test]
fn who_knows_the_secret_comes_in_with_and_without_tls() {
    for tls in [false, true] {
        let house = House::with(tls);
        let wire = house.connect(&house.key).unwrap();
        assert_eq!(wire.net().unwrap().is_secure(), tls);
        house.answers();
    }
}

#[test]
fn a_wrong_secret_is_refused_on_both_sides_and_shown_on_neither() {
    for tls in [false, true] {
        let house = House::with(tls);
        let wrong = Key { id: house.key.id.clone(), ..Key::new().unwrap().behind(house.key.certificate) };
        let e = house.connect(&wrong).unwrap_err();
        assert_eq!(e.code(), Code::Refused, "{e}");
        assert!(e.text().contains("the secret is not the agent's"), "{e}");
        let log = house.refused.recv_timeout(SECOND).unwrap();
        assert!(log.text().contains("from 127.0.0.1:"), "{log}");
        for secret in [&wrong, &house.key] {
            let words =
                serde_json::to_value(secret.network("")).unwrap()["secret"].as_str().unwrap().to_owned();
            assert!(!log.text().contains(&words[..8]) && !e.text().contains(&words[..8]));
        }
        house.answers();
    }
}

#[test]
fn a_key_of_another_agent_is_refused_by_who_has_it() {
    let house = House::with(false);
    let e = house.connect(&Key::new().unwrap()).unwrap_err();
    assert!(e.text().contains("no rendezvous file"), "{e}");
    let e = Wire::connect_net(&house.address, "client", &Keys::default(), SECOND).unwrap_err();
    assert!(e.code() == Code::Refused && e.text().contains("HOST.json"), "{e}");
    assert!(e.text().contains("forebay up --listen"), "an agent that is gone has taken its file along: {e}");
}

#[test]
fn a_wrong_certificate_is_refused_before_anything_is_said() {
    let house = House::with(true);
    let other = house.key.behind(Some(Fingerprint::of(b"another certificate")));
    let e = house.connect(&other).unwrap_err();
    assert_eq!(e.code(), Code::Refused);
    let shown = house.key.certificate.unwrap().to_string();
    assert!(e.text().contains("certificate") && e.text().contains(&shown), "{e}");
    house.answers();
}

#[test]
fn a_proof_that_was_recorded_is_refused_as_such() {
    let house = House::with(false);
    // Somebody in the middle records a whole greeting, passing everything on.
    let middle = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = middle.local_addr().unwrap().port();
    let there = ("127.0.0.1", house.address.port);
    let recorder = std::thread::spawn(move || {
        let (mut client, _) = middle.accept().unwrap();
        let mut agent = TcpStream::connect(there).unwrap();
        let mut said = Vec::new();
        for _ in 0..2 {
            let (kind, json) = read_frame(&mut client);
            said.push((kind, json.clone()));
            agent.write_all(&frame(kind, &json.to_string())).unwrap();
            let (kind, json) = read_frame(&mut agent);
            client.write_all(&frame(kind, &json.to_string())).unwrap();
        }
        said
    });
    let through = Address { port, ..house.address.clone() };
    Wire::connect_net(&through, "client", &house.key.clone().into(), 3 * SECOND).unwrap();
    let said = recorder.join().unwrap();
    assert_eq!(said.iter().map(|s| s.0).collect::<Vec<_>>(), [kind::HELLO, kind::PROOF]);
    // Somebody sends what was recorded in another connection.
    let mut socket = house.socket();
    socket.write_all(&frame(said[0].0, &said[0].1.to_string())).unwrap();
    let (kind, challenge) = read_frame(&mut socket);
    assert_eq!(kind, kind::CHALLENGE);
    let mut proof = said[1].1.clone();
    socket.write_all(&frame(kind::PROOF, &proof.to_string())).unwrap();
    let (kind, error) = read_frame(&mut socket);
    assert_eq!(kind, kind::ERROR);
    assert!(error["text"].as_str().unwrap().contains("recorded and sent again"), "{error}");
    // And as if it answered this connection's challenge.
    let mut socket = house.socket();
    socket.write_all(&frame(said[0].0, &said[0].1.to_string())).unwrap();
    let (_, fresh) = read_frame(&mut socket);
    assert_ne!(fresh["nonce"], challenge["nonce"]);
    proof["nonce"] = fresh["nonce"].clone();
    socket.write_all(&frame(kind::PROOF, &proof.to_string())).unwrap();
    assert!(read_frame(&mut socket).1["text"].as_str().unwrap().contains("the secret is not"));
    house.answers();
}

/// Plays an accepting side that does not know the secret.
fn impostor(
    answers: impl Fn(&serde_json::Value, usize) -> (u16, serde_json::Value) + Send + 'static,
) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        for turn in 0..2 {
            let (_, said) = read_frame(&mut client);
            let (kind, json) = answers(&said, turn);
            client.write_all(&frame(kind, &json.to_string())).unwrap();
        }
        let _ = client.read(&mut [0]);
    });
    Address { host: "127.0.0.1".to_owned(), port }
}

#[test]
fn an_impostor_that_reflects_what_it_hears_is_found_out() {
    let key = Key::new().unwrap();
    let id = key.id.clone();
    let mirror = impostor(move |said, _| {
        (kind::CHALLENGE, serde_json::json!({"version": WIRE_VERSION, "key": id, "nonce": said["nonce"]}))
    });
    let e = Wire::connect_net(&mirror, "client", &key.clone().into(), 3 * SECOND).unwrap_err();
    assert!(e.code() == Code::Refused && e.text().contains("own challenge"), "{e}");
    let id = key.id.clone();
    let echo = impostor(move |said, turn| match turn {
        0 => {
            (kind::CHALLENGE, serde_json::json!({"version": WIRE_VERSION, "key": id, "nonce": hex(&[7; 32])}))
        }
        _ => (kind::WELCOME, serde_json::json!({"proof": said["proof"], "peer": said["peer"]})),
    });
    let e = Wire::connect_net(&echo, "client", &key.into(), 3 * SECOND).unwrap_err();
    assert!(e.code() == Code::Refused && e.text().contains("does not know the secret"), "{e}");
}

#[test]
fn another_version_is_told_both_versions_on_both_sides() {
    let house = House::with(false);
    let mut bytes = frame(kind::HELLO, "{}");
    bytes[4] = 99;
    let sum = forebay_types::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&sum.to_le_bytes());
    let mut socket = house.socket();
    socket.write_all(&bytes).unwrap();
    let (kind, error) = read_frame(&mut socket);
    assert_eq!((kind, error["code"].as_u64()), (kind::ERROR, Some(Code::VersionMismatch as u64)));
    assert!(error["text"].as_str().unwrap().contains("version 99"), "{error}");
    assert_eq!(house.refused.recv_timeout(SECOND).unwrap().code(), Code::VersionMismatch);
    let newer = impostor(|_, _| {
        (kind::CHALLENGE, serde_json::json!({"version": WIRE_VERSION + 1, "key": "", "nonce": ""}))
    });
    let e = Wire::connect_net(&newer, "client", &house.key.clone().into(), 3 * SECOND).unwrap_err();
    assert_eq!(e.code(), Code::VersionMismatch);
}

#[test]
fn a_thousand_that_say_nothing_keep_nobody_waiting() {
    let house = House::with(false);
    let silent: Vec<TcpStream> = (0..300).map(|_| house.socket()).collect();
    for _ in 0..3 {
        let begun = Instant::now();
        house.answers();
        assert!(begun.elapsed() < SECOND, "{:?}", begun.elapsed());
    }
    let more: Vec<TcpStream> =
        (0..700).filter_map(|_| TcpStream::connect(("127.0.0.1", house.address.port)).ok()).collect();
    house.answers();
    drop((silent, more));
}

#[test]
fn half_a_greeting_and_then_silence_ends_by_the_clock() {
    let house = House::with(false);
    let mut socket = house.socket();
    socket.write_all(&frame(kind::HELLO, "{\"version\": 1}")[..40]).unwrap();
    assert_eq!(socket.read(&mut [0; 8]).unwrap(), 0, "the lobby hangs up");
    // And a side that accepts and says nothing.
    let deaf = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address { host: "127.0.0.1".to_owned(), port: deaf.local_addr().unwrap().port() };
    let e = Wire::connect_net(&address, "client", &house.key.clone().into(), SECOND / 5).unwrap_err();
    assert_eq!(e.code(), Code::Timeout, "{e}");
}

#[test]
fn a_port_that_is_taken_is_a_conflict_that_names_it() {
    let house = House::with(false);
    let listen = Listen {
        address: house.address.clone(),
        key: house.key.clone(),
        tls_on_loopback: false,
        role: String::new(),
    };
    let e = Lobby::bind(listen).err().unwrap();
    assert!(e.code() == Code::Conflict && e.text().contains(&house.address.port.to_string()), "{e}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_a_stranger_says_is_refused_and_repeated_nowhere(
        mut bytes in proptest::collection::vec(any::<u8>(), 1..300), mend: bool, kind in 0u16..9, length in 0u32..6000,
    ) {
        let house = House::with(false);
        if mend && bytes.len() >= HEADER_BYTES {
            let head = Header { json: length, ..Header::new(kind, 0) }.encode();
            bytes[..HEADER_BYTES].copy_from_slice(&head);
        }
        bytes[0] = b'F';
        let mut socket = house.socket();
        socket.write_all(&bytes).unwrap();
        socket.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        let _ = socket.read_to_end(&mut answer);
        let log = house.refused.recv_timeout(SECOND).unwrap();
        let said = String::from_utf8_lossy(&bytes[HEADER_BYTES.min(bytes.len() - 1)..]).into_owned();
        prop_assert!(said.len() < 8 || !log.text().contains(&said));
    }
}
