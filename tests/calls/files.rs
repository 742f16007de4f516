//! Files as arguments: whole ones there and back, and clients that talk nonsense about them.

use std::fs;
use std::path::Path;
use std::time::Duration;

use forebay_client::call::Value;
use forebay_link::Wire;
use forebay_link::call::{FileFrame, FileLine};
use forebay_server::{Running, Server};
use forebay_types::call::ServerRequest;
use forebay_types::file::{FileIdentity, FileRequest, KeptFile, PIECE_BYTES, SeenFile};
use forebay_types::{Code, Error, Result};

use crate::roles::{World, until};

/// A server of this process that copies files; its scratch space has so many bytes.
fn server(world: &World, bytes: u64) -> Running {
    let server = Server::new("files").scratch(&world.dir.path().join("scratch"), bytes);
    let copy = |call: &mut forebay_server::Call| {
        let [from, to, length] = call.args()?;
        let copied = fs::copy(from.str()?, to.str()?).map_err(|e| Error::io("cannot copy", e))?;
        let mut length = length;
        length.set(copied as i64)
    };
    server.service("copy(in a:file, out b:file, out n:i64)", copy).unwrap().start(world.locator()).unwrap()
}

/// The files in the scratch space.
fn kept(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let entries = entries.map(|e| e.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { kept(&path) } else { vec![path.display().to_string()] })
        .filter(|name| !name.ends_with("lock"))
        .collect()
}

#[test]
fn files_of_several_pieces_come_there_and_back() {
    let world = World::new();
    let server = server(&world, 1 << 30);
    let client = world.client();
    let (from, to) = (world.dir.path().join("from"), world.dir.path().join("to"));
    for n in [0, 1, PIECE_BYTES - 1, PIECE_BYTES, 3 * PIECE_BYTES + 1] {
        let data: Vec<u8> = (0..n).map(|i| (i * 7 + i / 251) as u8).collect();
        fs::write(&from, &data).unwrap();
        let args = || vec![from.to_str().unwrap().into(), to.to_str().unwrap().into()];
        let values = client.call("copy", args(), None).unwrap();
        assert_eq!(values, [Value::Str(to.to_str().unwrap().to_owned()), Value::Scalar((n as i64).into())]);
        assert!(fs::read(&to).unwrap() == data);
        // Many at a time, over one connection.
        let mut calls: Vec<_> = (0..5).map(|_| client.call_async("copy", args(), None).unwrap()).collect();
        calls.iter_mut().for_each(|call| drop(call.wait(None).unwrap()));
        assert!(fs::read(&to).unwrap() == data);
    }
    let scratch = world.dir.path().join("scratch");
    until("nothing is kept", || kept(&scratch).is_empty());
    drop(client);
    server.stop();
    assert!(fs::read_dir(&scratch).unwrap().all(|e| !e.unwrap().path().is_dir()));
}

/// A client's connection for files.
fn line(world: &World, client: u64) -> FileLine {
    let info = world.client().services().unwrap()[0].servers[0].clone();
    let mut wire = Wire::connect(info.socket.as_ref(), Duration::from_secs(5)).unwrap();
    wire.ask_with(&ServerRequest::Files { client }, &[], Duration::from_secs(5)).unwrap();
    FileLine::over(wire)
}

fn ask(line: &mut FileLine, request: FileRequest) -> Result<KeptFile> {
    let id = line.ask(&request, &mut || Ok(())).unwrap();
    line.hear(id, &mut || Ok(())).unwrap()
}

#[test]
fn names_that_lead_elsewhere_never_leave_the_scratch_space() {
    if crate::OVER_NETWORK {
        return;
    }
    let world = World::new();
    let server = server(&world, 1 << 20);
    let mut line = line(&world, 7);
    let long = "x".repeat(300);
    for (number, name) in
        ["", ".", "..", "/", "../x", "a/b", "/etc/x", "a\nb", "a\0b", &long].iter().enumerate()
    {
        let (number, name) = (number as u64, (*name).to_owned());
        let send = FileRequest::Send { number, name: name.clone(), bytes: 1, seen: None };
        assert_eq!(ask(&mut line, send).unwrap_err().code(), Code::BadArgument, "{name:?}");
        assert_eq!(
            ask(&mut line, FileRequest::Expect { number, name }).unwrap_err().code(),
            Code::BadArgument
        );
    }
    let scratch = world.dir.path().join("scratch");
    assert!(kept(&scratch).is_empty());
    let send = |number, bytes, seen| FileRequest::Send { number, name: "a".into(), bytes, seen };
    let e = ask(&mut line, send(20, (1 << 20) + 1, None)).unwrap_err();
    assert!(e.code() == Code::Full && e.text().contains("--scratch"), "{e}");
    assert_eq!(ask(&mut line, send(21, u64::MAX, None)).unwrap_err().code(), Code::Full);
    assert_eq!(ask(&mut line, send(22, 5, None)).unwrap(), KeptFile::Wanted);
    assert_eq!(ask(&mut line, send(22, 5, None)).unwrap_err().code(), Code::Conflict);
    assert_eq!(ask(&mut line, FileRequest::Fetch { number: 22 }).unwrap_err().code(), Code::NotFound);
    assert_eq!(ask(&mut line, FileRequest::Fetch { number: 99 }).unwrap_err().code(), Code::NotFound);
    // A file that is another one than it was told is not taken for it.
    let path = world.dir.path().join("from");
    fs::write(&path, "12345").unwrap();
    let identity = FileIdentity { device: 1, inode: 1, bytes: 5, written: (0, 0) };
    let seen = SeenFile { path: path.to_str().unwrap().into(), identity };
    assert_eq!(ask(&mut line, send(23, 5, Some(seen))).unwrap(), KeptFile::Wanted);
    assert!(!kept(&scratch).is_empty());
    drop(line);
    until("nothing is kept", || kept(&scratch).is_empty());
    server.stop();
}

#[test]
fn pieces_in_the_wrong_place_end_the_connection_and_disturb_nobody() {
    if crate::OVER_NETWORK {
        return;
    }
    let world = World::new();
    let server = server(&world, 1 << 20);
    let scratch = world.dir.path().join("scratch");
    for (at, bytes) in [(1, 1), (0, 6), (5, 0), (u64::MAX, 2), (0, 0)] {
        let mut line = line(&world, 8);
        let send = FileRequest::Send { number: 1, name: "a".into(), bytes: 5, seen: None };
        assert_eq!(ask(&mut line, send).unwrap(), KeptFile::Wanted);
        // One of a file that nobody sends is passed over.
        line.piece(2, 0, b"x", &mut || Ok(())).unwrap();
        line.piece(1, at, &vec![0; bytes], &mut || Ok(())).unwrap();
        let end = loop {
            match line.next(&mut || Ok(())) {
                Ok(FileFrame::Answer(..)) => {}
                Ok(other) => panic!("{other:?}"),
                Err(e) => break e,
            }
        };
        assert_eq!(end.code(), Code::ServerLost, "{at} {bytes}");
        until("nothing is kept", || kept(&scratch).is_empty());
    }
    let (from, to) = (world.dir.path().join("from"), world.dir.path().join("to"));
    fs::write(&from, "12345").unwrap();
    let args = vec![from.to_str().unwrap().into(), to.to_str().unwrap().into()];
    world.client().call("copy", args, Some(Duration::from_secs(10))).unwrap();
    assert_eq!(fs::read(&to).unwrap(), b"12345");
    server.stop();
}
