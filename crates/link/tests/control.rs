//! Control connections between two ends in one process.

use forebay_link::{Incoming, Listener, Wire};
use forebay_types::{Code, Error};
use rustix::fs::{MemfdFlags, memfd_create};
use serde_json::json;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(20);

fn soon() -> Option<Instant> {
    Some(Instant::now() + LONG)
}

fn accept(listener: &Listener) -> Incoming {
    listener.accept(soon()).unwrap().expect("somebody connects")
}

/// A greeted pair: client, server.
fn pair() -> (Wire, Wire) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let listener = Listener::bind(&path).unwrap();
    let client = std::thread::spawn(move || Wire::connect(&path, LONG).unwrap());
    let server = accept(&listener).greet("server", LONG).unwrap();
    (client.join().unwrap(), server)
}

#[test]
fn both_sides_learn_who_the_other_one_is() {
    let (client, server) = pair();
    assert_eq!(client.peer().role, "server");
    assert_eq!(server.peer().role, "client");
    assert_eq!(server.peer().pid, std::process::id());
    assert_eq!(server.process().unwrap().pid, std::process::id());
}

#[test]
fn a_request_gets_its_answer_or_its_error() {
    let (mut client, mut server) = pair();
    let served = std::thread::spawn(move || {
        let request = server.receive(LONG).unwrap();
        assert!(request.is_ask());
        server.send(&json!("meanwhile"), &[]).unwrap();
        server.answer(request.id, &json!({"twice": request.parse::<i64>().unwrap() * 2}), &[]).unwrap();
        let request = server.receive(LONG).unwrap();
        server.reply::<()>(request.id, &Err(Error::new(Code::Conflict, "owned by pid 7 on host a"))).unwrap();
        server
    });
    assert_eq!(client.ask(&21).unwrap(), json!({"twice": 42}));
    let error = client.ask(&0).unwrap_err();
    assert_eq!((error.code(), error.text()), (Code::Conflict, "owned by pid 7 on host a"));
    assert_eq!(
        client.recv::<String>(LONG).unwrap().0,
        "meanwhile",
        "a note is kept while an answer is awaited"
    );
    drop(served.join().unwrap());
    assert!(client.peer_gone());
    assert_eq!(client.ask(&1).unwrap_err().code(), Code::ServerLost);
}

#[test]
fn descriptors_arrive_with_the_frame_that_announced_them() {
    let (mut client, mut server) = pair();
    let file = memfd_create("x", MemfdFlags::CLOEXEC).unwrap();
    rustix::io::write(&file, b"shared").unwrap();
    client.send(&1, &[]).unwrap();
    client.send(&2, &[file.as_fd(), file.as_fd()]).unwrap();
    client.send(&3, &[]).unwrap();
    client.send(&4, &[file.as_fd()]).unwrap();
    let counts: Vec<(i32, usize)> =
        (0..4).map(|_| server.recv::<i32>(LONG).map(|(n, fds)| (n, fds.len())).unwrap()).collect();
    assert_eq!(counts, [(1, 0), (2, 2), (3, 0), (4, 1)]);
    client.send(&5, &[file.as_fd()]).unwrap();
    let (_, fds) = server.recv::<i32>(LONG).unwrap();
    let mut seen = [0; 6];
    rustix::io::pread(&fds[0], &mut seen, 0).unwrap();
    assert_eq!(&seen, b"shared");
}

#[test]
fn large_messages_pass_in_both_directions() {
    let (mut client, mut server) = pair();
    let text = "x".repeat(5_000_000);
    let echo = std::thread::spawn(move || {
        let message = server.receive(LONG).unwrap();
        server.answer(message.id, &message.parse::<String>().unwrap(), &[]).unwrap();
    });
    assert_eq!(client.ask(&text).unwrap(), json!(text));
    echo.join().unwrap();
    let error = client.ask(&"x".repeat(17 << 20)).unwrap_err();
    assert_eq!(error.code(), Code::BadArgument);
}

#[test]
fn nobody_answering_is_a_timeout_and_nobody_there_is_said() {
    let (mut client, server) = pair();
    let error = client.ask_with(&1, &[], Duration::from_millis(20)).unwrap_err();
    assert_eq!(error.code(), Code::Timeout);
    assert!(client.try_receive().unwrap().is_none());
    drop(server);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    assert_eq!(Wire::connect(&path, LONG).unwrap_err().code(), Code::NotFound);
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert_eq!(Wire::connect(&path, LONG).unwrap_err().code(), Code::ServerLost);
}

#[test]
fn a_listener_that_accepts_nobody_is_a_timeout() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
    let deaf = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    bind(&deaf, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    listen(&deaf, 1).unwrap();
    // First the greeting stays out; when the queue is full, the connecting itself waits.
    let texts: Vec<String> = (0..4)
        .map(|_| {
            let error = Wire::connect(&path, Duration::from_millis(20)).unwrap_err();
            assert_eq!(error.code(), Code::Timeout, "{error}");
            error.text().to_owned()
        })
        .collect();
    let us = format!("process {} runs and has not answered", std::process::id());
    assert!(texts[0].contains(&us), "{texts:?}");
    assert!(texts[3].contains("accepts no connections"), "{texts:?}");
}

#[test]
fn a_dead_socket_is_replaced_and_a_living_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let listener = Listener::bind(&path).unwrap();
    assert_eq!(Listener::bind(&path).err().unwrap().code(), Code::Conflict);
    drop(listener);
    assert!(!path.exists(), "the name goes with the listener");
    let deep = dir.path().join("d".repeat(120));
    assert_eq!(Listener::bind(&deep).err().unwrap().code(), Code::BadArgument);
}

#[test]
fn a_peer_that_speaks_something_else_is_refused_and_told_why() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let listener = Listener::bind(&path).unwrap();
    // An HTTP client.
    let mut stranger = UnixStream::connect(&path).unwrap();
    stranger.write_all(&b"GET / HTTP/1.1\r\n".repeat(8)).unwrap();
    let error = accept(&listener).greet("agent", LONG).unwrap_err();
    assert_eq!(error.code(), Code::Corrupt);
    // A Forebay of another version.
    let mut header = forebay_link::Header::new(forebay_link::frame::kind::HELLO, 0).encode();
    header[4] = 1;
    let sum = forebay_types::crc32c(&header[..60]);
    header[60..].copy_from_slice(&sum.to_le_bytes());
    let mut older = UnixStream::connect(&path).unwrap();
    older.write_all(&header).unwrap();
    let error = accept(&listener).greet("agent", LONG).unwrap_err();
    assert_eq!(error.code(), Code::VersionMismatch);
    let mut reply = Vec::new();
    older.read_to_end(&mut reply).unwrap();
    let text = String::from_utf8_lossy(&reply);
    let ours = format!("version {}", forebay_types::control::WIRE_VERSION);
    assert!(text.contains(&ours) && text.contains("version 1"), "{text}");
    // Somebody who hangs up at once, and somebody who says nothing.
    drop(UnixStream::connect(&path).unwrap());
    assert_eq!(accept(&listener).greet("agent", LONG).unwrap_err().code(), Code::ServerLost);
    let _silent = UnixStream::connect(&path).unwrap();
    let error = accept(&listener).greet("agent", Duration::from_millis(20)).unwrap_err();
    assert_eq!(error.code(), Code::Timeout);
}

#[test]
fn a_frame_that_announces_descriptors_it_did_not_bring_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let listener = Listener::bind(&path).unwrap();
    let mut liar = UnixStream::connect(&path).unwrap();
    let header = forebay_link::Header { number: 3, ..forebay_link::Header::new(1, 0) };
    liar.write_all(&header.encode()).unwrap();
    assert_eq!(accept(&listener).greet("agent", LONG).unwrap_err().code(), Code::Corrupt);
}
