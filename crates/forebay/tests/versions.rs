//! Two versions of Forebay meet: each side says which two they are and what to do, and nothing is harmed.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::support::{LATE, Sandbox, sandbox, take};
use forebay::{Code, Error, Mode, OpenOptions};
use forebay_link::{Header, Peer, Wire, frame};
use forebay_types::control::WIRE_VERSION;

const OTHER: u32 = WIRE_VERSION + 1;

/// A frame as the other version writes it: its number in the header, its name in the greeting.
fn frame_of(kind: u16, header_version: u32) -> Vec<u8> {
    let peer = Peer { version: OTHER, program: "9.9.9".into(), ..Peer::ourselves("agent") };
    let json = serde_json::to_vec(&peer).unwrap();
    let mut bytes = Header { json: json.len() as u32, ..Header::new(kind, 0) }.encode().to_vec();
    bytes[4..6].copy_from_slice(&(header_version as u16).to_le_bytes());
    let sum = forebay_types::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&sum.to_le_bytes());
    bytes.extend(json);
    bytes
}

/// An agent of the other version listens; it greets whoever comes.
fn other_agent(socket: &Path, header_version: u32) {
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(&frame_of(frame::kind::WELCOME, header_version));
            // It waits for what the other says, which hangs up.
            let _ = stream.read(&mut [0; 64]);
        }
    });
}

fn names_both(what: &str, e: &Error) {
    assert_eq!(e.code(), Code::VersionMismatch, "{what}: {e}");
    for part in [&format!("version {OTHER}"), &format!("version {WIRE_VERSION}"), "same version of Forebay"] {
        assert!(e.text().contains(part), "{what} does not say {part:?}: {e}");
    }
}

fn a_client_is_told(s: &Sandbox, header_version: u32) {
    other_agent(&forebay_host::sockets::agent_socket().unwrap(), header_version);
    let began = Instant::now();
    let options = OpenOptions { rank: Some(0), size: Some(2), ..Default::default() };
    names_both("open", &forebay::open(&s.run("a"), Mode::Append, options).err().unwrap());
    names_both("connect", &forebay::connect(None).err().unwrap());
    let server = forebay::serve::Server::new("one").service("f()", |_| Ok(())).unwrap();
    names_both("serve", &server.start(forebay::locator(None)).err().unwrap());
    names_both("start", &forebay_agent::start_to_stay().err().unwrap());
    assert!(began.elapsed() < 4 * LATE, "{:?}", began.elapsed());
    let status = Command::new(env!("CARGO_BIN_EXE_forebay")).arg("status").output().unwrap();
    let text = String::from_utf8_lossy(&status.stderr).into_owned();
    assert_eq!(status.status.code(), Some(1), "{text}");
    assert!(text.contains("same version of Forebay"), "{text}");
    assert!(!Path::new(&format!("{}.fb", s.run("a"))).exists(), "nothing was made");
    std::fs::remove_file(forebay_host::sockets::agent_socket().unwrap()).unwrap();
}

#[test]
fn a_program_that_meets_an_agent_of_another_version_is_told_both_versions_and_what_to_do() {
    sandbox("a_program_that_meets_an_agent_of_another_version_is_told_both_versions_and_what_to_do", |s| {
        a_client_is_told(s, OTHER);
    });
}

#[test]
fn versions_that_share_the_frame_and_not_the_words_are_told_apart_too() {
    sandbox("versions_that_share_the_frame_and_not_the_words_are_told_apart_too", |s| {
        a_client_is_told(s, WIRE_VERSION);
    });
}

#[test]
fn a_program_of_another_version_is_refused_by_the_agent_which_goes_on() {
    sandbox("a_program_of_another_version_is_refused_by_the_agent_which_goes_on", |s| {
        let socket = forebay_agent::start_to_stay().unwrap();
        let options = OpenOptions { rank: Some(0), size: Some(1), ..Default::default() };
        let run = forebay::open(&s.run("a"), Mode::Append, options).unwrap();
        for header_version in [OTHER, WIRE_VERSION] {
            let mut other = UnixStream::connect(&socket).unwrap();
            other.set_read_timeout(Some(LATE)).unwrap();
            other.write_all(&frame_of(frame::kind::HELLO, header_version)).unwrap();
            let mut reply = Vec::new();
            other.read_to_end(&mut reply).unwrap();
            let text = String::from_utf8_lossy(&reply);
            for part in [&format!("version {OTHER}"), &format!("version {WIRE_VERSION}"), "same version"] {
                assert!(text.contains(part), "{part:?} is not in {text}");
            }
        }
        take(&run, 0, 1000).unwrap();
        run.close().unwrap();
    });
}

#[test]
fn a_request_that_nobody_knows_gets_an_error_at_once() {
    sandbox("a_request_that_nobody_knows_gets_an_error_at_once", |_| {
        let agent = forebay_agent::start_to_stay().unwrap();
        let server = forebay::serve::Server::new("one").service("f()", |_| Ok(())).unwrap();
        let server = server.start(forebay::locator(None)).unwrap();
        for socket in [agent.as_path(), server.socket()] {
            for request in [serde_json::json!("Fly"), serde_json::json!({"Fly": {"high": 1}})] {
                let mut wire = Wire::connect(socket, LATE).unwrap();
                let e = wire.ask_with(&request, &[], LATE).unwrap_err();
                assert!(!matches!(e.code(), Code::Timeout | Code::ServerLost), "{}: {e}", socket.display());
                assert!(e.text().contains("Fly"), "{}: {e}", socket.display());
            }
        }
    });
}
