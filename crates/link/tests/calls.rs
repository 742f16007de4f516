//! The call link: two sides over one segment, and a peer that dies or is stopped.

use forebay_arena::Doorbell;
use forebay_link::{Frame, Header, Listener, PeerState, Watch, Wire};
use forebay_types::Code;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

mod frames;

use frames::{Link, Memory};

/// Two seconds are promised; a machine busy with other tests is given five.
const LATE: Duration = Duration::from_secs(5);

const LONG: Duration = Duration::from_secs(20);

fn pair() -> (Memory, Memory) {
    let client = Memory::create(1 << 20, 16).unwrap();
    let server = Memory::accept(client.segment.fd().try_clone_to_owned().unwrap()).unwrap();
    (client, server)
}

fn soon() -> Option<Instant> {
    Some(Instant::now() + LONG)
}

#[test]
fn a_server_sleeps_on_one_doorbell_for_all_its_clients() {
    let bell = Doorbell::new().unwrap();
    let (mut clients, mut servers): (Vec<_>, Vec<_>) = (0..8).map(|_| pair()).unzip();
    for client in &mut clients {
        client.sender.attach_doorbell(bell.share().unwrap()).unwrap();
    }
    let thread = std::thread::spawn(move || {
        let mut frame = Frame::default();
        for turn in [5usize, 0, 7] {
            loop {
                servers.iter_mut().for_each(|s| s.receiver.prepare_sleep());
                if servers.iter_mut().any(|s| s.pending()) {
                    break;
                }
                assert!(bell.wait(soon()).unwrap(), "the doorbell is rung");
            }
            servers.iter_mut().for_each(|s| s.receiver.cancel_sleep());
            assert!(servers[turn].try_recv(&mut frame).unwrap());
            servers[turn].send(&Header::new(17, frame.header.id), &[]).unwrap();
        }
    });
    let mut frame = Frame::default();
    for turn in [5usize, 0, 7] {
        clients[turn].send(&Header::new(16, turn as u64), &[]).unwrap();
        assert!(clients[turn].wait(soon()).unwrap());
        assert!(clients[turn].try_recv(&mut frame).unwrap());
        assert_eq!(frame.header.id, turn as u64);
    }
    thread.join().unwrap();
}

#[test]
fn garbage_in_the_ring_is_refused_without_a_panic() {
    let (client, mut server) = pair();
    let Memory { segment, sender, .. } = client;
    drop(sender);
    let mut raw = segment.producer(forebay_arena::Direction::Up);
    raw.push(&[b"neither header nor body"]).unwrap();
    let mut frame = Frame::default();
    assert_eq!(server.try_recv(&mut frame).unwrap_err().code(), Code::Corrupt);
    let lie = Header { body: 1 << 40, ..Header::new(16, 1) };
    raw.push(&[&lie.encode()]).unwrap();
    assert_eq!(server.try_recv(&mut frame).unwrap_err().code(), Code::Corrupt);
}

#[test]
fn a_segment_that_is_no_call_link_is_refused() {
    use forebay_arena::{Segment, SegmentSpec};
    let spec =
        SegmentSpec { name: String::new(), kind: 1, up_bytes: 0, down_bytes: 0, block_bytes: 0, blocks: 0 };
    let segment = Segment::create(&spec).unwrap();
    let fd = segment.fd().try_clone_to_owned().unwrap();
    assert_eq!(Memory::accept(fd).err().unwrap().code(), Code::BadArgument);
}

/// Runs this test's program again as the other process; see `peer_process`.
fn spawn_peer(socket: &std::path::Path) -> std::process::Child {
    std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "peer_process", "--nocapture"])
        .env("FOREBAY_TEST_PEER", socket)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

/// Not a test of its own: the other process of the two below.
#[test]
fn peer_process() {
    let Some(socket) = std::env::var_os("FOREBAY_TEST_PEER") else { return };
    let mut wire = Wire::connect_as(socket.as_ref(), "server", LONG).unwrap();
    let request = wire.receive(LONG).unwrap();
    let mut link = Memory::accept(request.fds.into_iter().next().unwrap()).unwrap();
    wire.answer(request.id, &true, &[]).unwrap();
    let heart = link.segment.clone();
    std::thread::spawn(move || {
        loop {
            heart.word(0).fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    let mut frame = Frame::default();
    while !wire.peer_gone() {
        if link.wait(Some(Instant::now() + Duration::from_millis(100))).unwrap() {
            link.try_recv(&mut frame).unwrap();
            if frame.header.kind == 16 {
                link.send(&Header::new(17, frame.header.id), &[frame.body()]).unwrap();
            }
        }
    }
}

struct Other {
    child: std::process::Child,
    link: Memory,
    watch: Option<Watch>,
    _dir: tempfile::TempDir,
    _wire: Wire,
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn other() -> Other {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let listener = Listener::bind(&path).unwrap();
    let child = spawn_peer(&path);
    let mut wire = listener.accept(soon()).unwrap().unwrap().greet("client", LONG).unwrap();
    let link = Memory::create(1 << 20, 4).unwrap();
    wire.ask_with(&"attach", &[link.segment.fd()], LONG).unwrap();
    let heart = Some((link.segment.clone(), 0));
    let watch = Watch::new(wire.watch_fd().unwrap(), wire.process(), heart);
    Other { child, link, watch: Some(watch), _dir: dir, _wire: wire }
}

fn signal(other: &Other, which: rustix::process::Signal) {
    let process = forebay_host::Process::of_pid(other.child.id()).unwrap();
    forebay_host::process::signal(&process, which).unwrap();
}

#[test]
fn two_processes_call_each_other_and_a_killed_one_is_noticed_while_waiting() {
    let mut other = other();
    let mut frame = Frame::default();
    for id in 0..10_000 {
        other.link.send(&Header::new(16, id), &[b"ping"]).unwrap();
        assert!(other.link.wait(soon()).unwrap());
        assert!(other.link.try_recv(&mut frame).unwrap());
        assert_eq!((frame.header.id, frame.body()), (id, &b"ping"[..]));
    }
    let watch = other.watch.take().unwrap();
    other.link.watch(watch);
    signal(&other, rustix::process::Signal::KILL);
    let start = Instant::now();
    let error = other.link.wait(soon()).unwrap_err();
    assert_eq!(error.code(), Code::ServerLost, "{error}");
    assert!(start.elapsed() < LATE, "noticed in {:?}", start.elapsed());
}

#[test]
fn a_stopped_peer_is_told_from_a_busy_one() {
    let mut other = other();
    let mut watch = other.watch.take().unwrap();
    let mut frame = Frame::default();
    other.link.send(&Header::new(99, 0), &[]).unwrap(); // never answered: a long computation
    assert!(!other.link.wait(Some(Instant::now() + Duration::from_millis(1500))).unwrap());
    assert_eq!(watch.check(), PeerState::Alive, "busy is not dead");
    signal(&other, rustix::process::Signal::STOP);
    let start = Instant::now();
    while watch.check() == PeerState::Alive {
        assert!(start.elapsed() < Duration::from_secs(5), "never noticed");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(watch.check(), PeerState::Stopped);
    assert!(start.elapsed() < LATE, "noticed in {:?}", start.elapsed());
    signal(&other, rustix::process::Signal::CONT);
    other.link.send(&Header::new(16, 1), &[]).unwrap();
    assert!(other.link.wait(soon()).unwrap());
    assert!(other.link.try_recv(&mut frame).unwrap());
    assert_eq!(watch.check(), PeerState::Alive, "it goes on");
}
