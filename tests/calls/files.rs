//! Files as arguments: whole ones there and back, and clients that talk nonsense about them.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use forebay_client::call::{BagOptions, Client, Future, Next, Value};
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

/// A call that copies a file.
fn copy(client: &Client, from: &Path, to: &Path) -> Result<Future<'static>> {
    let [from, to] = [from, to].map(|path| &*path.to_str().unwrap().to_owned().leak());
    client.call_async("copy", vec![from.into(), to.into()], None)
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
        let many = [0, 1, 2, 3, 4].map(|n| world.dir.path().join(format!("to{n}")));
        let to_each = |to: &Path| copy(&client, &from, to).unwrap();
        let mut calls: Vec<_> = many.iter().map(|to| to_each(to)).collect();
        calls.iter_mut().for_each(|call| drop(call.wait(None).unwrap()));
        assert!(many.iter().all(|to| fs::read(to).unwrap() == data));
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
fn files_go_with_the_link_of_calls_of_their_client_whoever_has_their_connection_still() {
    if crate::OVER_NETWORK {
        return;
    }
    let world = World::new();
    let server = server(&world, 1 << 20);
    let scratch = world.dir.path().join("scratch");
    // A client of that number makes no calls.
    let mut line = line(&world, 9);
    let send = FileRequest::Send { number: 1, name: "a".into(), bytes: 5, seen: None };
    assert_eq!(ask(&mut line, send).unwrap(), KeptFile::Wanted);
    assert!(!kept(&scratch).is_empty());
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

#[test]
fn a_place_is_given_to_one_call_or_task_at_a_time_by_whatever_way_it_is_named_and_is_free_after_that() {
    let world = World::new();
    let server = server(&world, 1 << 30);
    let (client, other) = (world.client(), world.client());
    let dir = world.dir.path();
    fs::create_dir(dir.join("real")).unwrap();
    std::os::unix::fs::symlink(dir.join("real"), dir.join("linked")).unwrap();
    let (from, to) = (dir.join("from"), dir.join("real").join("to"));
    fs::write(&from, "12345").unwrap();
    let same =
        [to.clone(), dir.join("linked").join("to"), dir.join("real").join("..").join("real").join("to")];
    let is_refused = |client: &Client, to: &Path| {
        let e = copy(client, &from, to).err().unwrap();
        let names = e.text().matches("parameter b of a call of copy").count();
        assert!(e.code() == Code::BadArgument && names == 2 && e.text().contains("real/to"), "{e}");
    };
    let mut call = copy(&client, &from, &same[1]).unwrap();
    for to in &same {
        is_refused(&client, to);
        is_refused(&other, to);
    }
    call.wait(None).unwrap();
    // It has ended, whoever keeps it still; and the file is there now.
    let mut second = copy(&other, &from, &to).unwrap();
    is_refused(&client, &same[1]);
    second.cancel();
    let third = copy(&client, &from, &to).unwrap();
    is_refused(&client, &to);
    drop(third);
    let args = || ["/nowhere/from", to.to_str().unwrap()].map(Into::into).into();
    assert_eq!(client.call("copy", args(), None).unwrap_err().code(), Code::NotFound);

    let mut bag = client.bag("copy", BagOptions::default()).unwrap();
    let (mut given, mut outcomes) = (0, Vec::new());
    loop {
        match bag.next(Some(Duration::from_secs(60))).unwrap() {
            Next::Input if given < 2 => {
                let named = same[given].to_str().unwrap();
                bag.add(vec![from.to_str().unwrap().into(), named.into()]).unwrap();
                given += 1;
                if given == 2 {
                    let e = copy(&client, &from, &to).err().unwrap();
                    assert!(e.text().contains("task 0 of a map of copy"), "{e}");
                }
            }
            Next::Input => bag.end(),
            Next::Task(task) => outcomes.push(task.outcome),
            Next::Later => panic!("nothing is over in a minute"),
            Next::Over => break,
        }
    }
    let [Ok(_), Err(e)] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert!(e.text().contains("task 0 of a map") && e.text().contains("task 1 of a map"), "{e}");
    copy(&client, &from, &to).unwrap().wait(None).unwrap();
    server.stop();
}

#[test]
fn a_call_gives_each_of_its_files_that_come_a_place_of_its_own() {
    let world = World::new();
    let two = |_: &mut forebay_server::Call| -> Result<()> { panic!("it is never begun") };
    let server = Server::new("files").service("two(out a:file, out b:file)", two).unwrap();
    let server = server.start(world.locator()).unwrap();
    let dir = world.dir.path();
    std::os::unix::fs::symlink(dir, dir.join("linked")).unwrap();
    let [one, other] = [dir.join("to"), dir.join("linked").join("to")];
    let args = [&one, &other].map(|path| path.to_str().unwrap().into()).into();
    let e = world.client().call("two", args, None).unwrap_err();
    assert!(e.code() == Code::BadArgument && e.text().contains("parameter b: "), "{e}");
    assert!(e.text().contains("given for two files"), "{e}");
    server.stop();
}

/// How long the scratch space of these servers is.
const ROOM: u64 = 1 << 20;

/// A server of this process that writes files of so many bytes, and the number of its calls.
fn writing_server(world: &World) -> (Running, Arc<AtomicU64>) {
    let begun = Arc::new(AtomicU64::new(0));
    let count = begun.clone();
    let server = Server::new("files").scratch(&world.dir.path().join("scratch"), ROOM);
    let write = move |call: &mut forebay_server::Call| {
        let [bytes, to] = call.args()?;
        count.fetch_add(1, Ordering::SeqCst);
        let file = fs::File::create(to.str()?).map_err(|e| Error::io("cannot write", e))?;
        file.set_len(bytes.i64()? as u64).map_err(|e| Error::io("cannot write", e))
    };
    let server = server.service("write(in bytes:i64, out to:file) effects", write).unwrap();
    (server.start(world.locator()).unwrap(), begun)
}

fn write(client: &Client, bytes: u64, to: &Path) -> Result<Future<'static>> {
    let to: &str = to.to_str().unwrap().to_owned().leak();
    client.call_async("write", vec![(bytes as i64).into(), to.into()], None)
}

#[test]
fn tasks_wait_for_room_for_what_they_write_and_each_is_begun_once() {
    let world = World::new();
    let (server, begun) = writing_server(&world);
    let (client, other) = (world.client(), world.client());
    let path = |name: &str| world.dir.path().join(name);
    let mut first = write(&other, ROOM, &path("first")).unwrap();
    until("it has run", || begun.load(Ordering::SeqCst) == 1 && !kept(&path("scratch")).is_empty());
    // A call is refused, before it is begun.
    until("its file is counted", || match write(&client, 1, &path("x")).unwrap().wait(None) {
        Err(e) => e.code() == Code::Full && e.text().contains("--scratch"),
        Ok(_) => false,
    });
    let before = begun.load(Ordering::SeqCst);
    let mut bag = client.bag("write", BagOptions::default()).unwrap();
    let (mut given, mut over, mut has_waited) = (0, 0, false);
    loop {
        match bag.next(Some(Duration::from_millis(300))).unwrap() {
            Next::Input if given < 8 => {
                let (bytes, to) = (ROOM as i64, path(&format!("to{given}")));
                bag.add(vec![bytes.into(), to.to_str().unwrap().into()]).unwrap();
                given += 1;
            }
            Next::Input => bag.end(),
            Next::Task(task) => {
                task.outcome.unwrap();
                over += 1;
            }
            Next::Later if !has_waited => {
                assert_eq!((over, begun.load(Ordering::SeqCst)), (0, before), "none is begun");
                has_waited = true;
                first.wait(None).unwrap();
            }
            Next::Later => {}
            Next::Over => break,
        }
    }
    assert!(has_waited && over == 8 && begun.load(Ordering::SeqCst) == before + 8);
    let is_whole = |n: u64| fs::metadata(path(&format!("to{n}"))).unwrap().len() == ROOM;
    assert!((0..8).all(is_whole));
    // What would never fit is told at once.
    let e = write(&client, ROOM + 1, &path("large")).unwrap().wait(None).unwrap_err();
    assert!(e.code() == Code::Full && e.text().contains("larger than all the room"), "{e}");
    until("nothing is kept", || kept(&path("scratch")).is_empty());
    server.stop();
}

#[test]
fn files_of_tasks_that_find_no_room_beside_those_of_others_wait_for_it() {
    if !crate::OVER_NETWORK {
        return;
    }
    let world = World::new();
    let server = server(&world, ROOM);
    let (client, other) = (world.client(), world.client());
    let path = |name: &str| world.dir.path().join(name);
    fs::write(path("half"), vec![7; ROOM as usize / 2 + 1]).unwrap();
    fs::write(path("large"), vec![7; ROOM as usize + 1]).unwrap();
    // Its result is kept there until somebody takes it.
    let mut first = copy(&other, &path("half"), &path("first")).unwrap();
    let mut bag = client.bag("copy", BagOptions { ordered: false, ..BagOptions::default() }).unwrap();
    let (mut given, mut codes, mut has_waited) = (0, Vec::new(), false);
    loop {
        match bag.next(Some(Duration::from_millis(500))).unwrap() {
            Next::Input if given < 5 => {
                let from = path(if given == 2 { "large" } else { "half" });
                let to = path(&format!("to{given}"));
                bag.add(vec![from.to_str().unwrap().into(), to.to_str().unwrap().into()]).unwrap();
                given += 1;
            }
            Next::Input => bag.end(),
            Next::Task(task) => codes.push(task.outcome.err().map(|e| e.code())),
            Next::Later if !has_waited => {
                has_waited = true;
                first.wait(None).unwrap();
            }
            Next::Later => {}
            Next::Over => break,
        }
    }
    codes.sort_unstable_by_key(|code| code.map(|code| code as u32));
    assert_eq!((has_waited, codes), (true, vec![None, None, None, None, Some(Code::Full)]));
    server.stop();
}
