//! How two ends of each transport come together.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use forebay_arena::{Direction, Producer};
use forebay_link::net::{Key, Listen, Lobby, Network};
use forebay_link::pool::{Budget, Pool};
use forebay_link::{Frame, Header, Listener, Watch, Wire};

use crate::frames::{Link, Memory, Pooled};
use forebay_types::Result;

/// Longer than anything takes that works.
pub const LONG: Duration = Duration::from_secs(20);

/// Writes bytes where frames should be.
pub type Writes = Box<dyn FnMut(&[u8])>;

/// Its name among the tests.
pub trait Named {
    const NAME: &'static str;
}

/// One way for frames.
pub trait Transport: Named {
    type End: Link + 'static;
    /// One end, which waits for the other.
    type Offer: Send;

    /// Waits in a directory that is the test's own; gives the words by which another process joins.
    fn offer(dir: &Path) -> (Self::Offer, String);

    /// The other end has come.
    fn accept(offer: Self::Offer) -> Self::End;

    /// Joins.
    fn join(words: &str) -> Self::End;

    /// Joins, and writes any bytes where frames should be. What cannot be written any more is let go.
    fn join_raw(words: &str) -> Writes;

    /// Two ends in this process.
    fn pair() -> (Self::End, Self::End) {
        let dir = tempfile::tempdir().unwrap();
        let (offer, words) = Self::offer(dir.path());
        std::thread::scope(|scope| {
            let accepted = scope.spawn(|| Self::accept(offer));
            let joined = Self::join(&words);
            (joined, accepted.join().unwrap())
        })
    }

    /// An end that hears any bytes.
    fn hearing() -> (Writes, Self::End) {
        let dir = tempfile::tempdir().unwrap();
        let (offer, words) = Self::offer(dir.path());
        std::thread::scope(|scope| {
            let accepted = scope.spawn(|| Self::accept(offer));
            let joined = Self::join_raw(&words);
            (joined, accepted.join().unwrap())
        })
    }
}

/// A name that no other offer of this process has.
pub fn own_socket(dir: &Path) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    dir.join(format!("s{}", NEXT.fetch_add(1, Ordering::Relaxed)))
}

/// Rings in a segment. Who joins makes it; the socket by which it was handed over tells of the end.
pub struct SharedMemory;

/// A link with the socket beside it.
pub struct Watched {
    link: Memory,
    _wire: Wire,
}

impl Watched {
    fn new(mut link: Memory, wire: Wire) -> Watched {
        link.watch(Watch::new(wire.watch_fd().unwrap(), wire.process(), None));
        Watched { link, _wire: wire }
    }
}

impl Link for Watched {
    fn send(&mut self, header: &Header, body: &[&[u8]]) -> Result<()> {
        Link::send(&mut self.link, header, body)
    }

    fn try_recv(&mut self, frame: &mut Frame) -> Result<bool> {
        self.link.try_recv(frame)
    }

    fn pending(&mut self) -> bool {
        self.link.pending()
    }

    fn wait(&mut self, deadline: Option<Instant>) -> Result<bool> {
        self.link.wait(deadline)
    }
}

impl SharedMemory {
    fn made(words: &str) -> (Memory, Wire) {
        let link = Memory::create(1 << 20, 16).unwrap();
        let mut wire = Wire::connect_as(Path::new(words), "server", LONG).unwrap();
        wire.ask_with(&"attach", &[link.segment.fd()], LONG).unwrap();
        (link, wire)
    }
}

impl Transport for SharedMemory {
    type End = Watched;
    type Offer = Listener;

    fn offer(dir: &Path) -> (Listener, String) {
        let path = own_socket(dir);
        (Listener::bind(&path).unwrap(), path.display().to_string())
    }

    fn accept(offer: Listener) -> Watched {
        let mut wire = offer.accept_wire("server", Some(Instant::now() + LONG)).unwrap().unwrap();
        let asked = wire.receive(LONG).unwrap();
        let fd: OwnedFd = asked.fds.into_iter().next().unwrap();
        let link = Memory::accept(fd).unwrap();
        wire.answer(asked.id, &(), &[]).unwrap();
        Watched::new(link, wire)
    }

    fn join(words: &str) -> Watched {
        let (link, wire) = SharedMemory::made(words);
        Watched::new(link, wire)
    }

    fn join_raw(words: &str) -> Writes {
        let (link, wire) = SharedMemory::made(words);
        let Memory { segment, sender, .. } = link;
        drop(sender);
        let mut ring: Producer = segment.producer(Direction::Up);
        Box::new(move |bytes| {
            let _ = (ring.push(&[bytes]), &segment, &wire);
        })
    }
}

/// A connection to another host, with TLS or without.
pub struct Net<const TLS: bool>;

/// What who joins says first.
const FIRST: Header = Header { kind: 0x10, flags: 0, id: 0, json: 0, body: 0, number: 0 };

fn pool() -> Pool {
    Pool::new(&Budget::new(1 << 30))
}

fn connected(words: &str) -> Wire {
    let network: Network = serde_json::from_str(words).unwrap();
    let address = network.listen.parse().unwrap();
    let mut wire = Wire::connect_net(&address, "client", &network.key().unwrap().into(), LONG).unwrap();
    wire.ask_with(&"attach", &[], LONG).unwrap();
    wire
}

impl<const TLS: bool> Transport for Net<TLS>
where
    Net<TLS>: Named,
{
    type End = Pooled;
    type Offer = Lobby;

    fn offer(_: &Path) -> (Lobby, String) {
        let listen = Listen {
            address: "127.0.0.1:0".parse().unwrap(),
            key: Key::new().unwrap(),
            tls_on_loopback: TLS,
            role: "server".into(),
        };
        let lobby = Lobby::bind(listen).unwrap();
        let words = serde_json::to_string(&lobby.key().network(&lobby.local().to_string())).unwrap();
        (lobby, words)
    }

    fn accept(mut lobby: Lobby) -> Pooled {
        // Who comes over loopback tries it without TLS first, and is refused.
        let accepted = std::iter::repeat_with(|| lobby.accept(None, Some(Instant::now() + LONG)));
        let mut wire = accepted.filter_map(Result::ok).next().unwrap().expect("nobody came");
        assert_eq!(wire.net().unwrap().is_secure(), TLS);
        let asked = wire.receive(LONG).unwrap();
        wire.answer(asked.id, &(), &[]).unwrap();
        let mut link = Pooled::new(wire.into_calls().unwrap(), pool());
        let mut first = Frame::default();
        while !link.try_recv(&mut first).unwrap() {
            assert!(link.wait(Some(Instant::now() + LONG)).unwrap());
        }
        link
    }

    fn join(words: &str) -> Pooled {
        let mut link = Pooled::new(connected(words).into_calls().unwrap(), pool());
        // Who has asked for a link speaks first: what came before that would be taken for more than the answer.
        link.send(&FIRST, &[]).unwrap();
        link
    }

    fn join_raw(words: &str) -> Writes {
        let wire = connected(words);
        wire.net().unwrap().try_write(&[std::io::IoSlice::new(&FIRST.encode())]).unwrap();
        Box::new(move |bytes| {
            let _ = wire.net().unwrap().try_write(&[std::io::IoSlice::new(bytes)]);
        })
    }
}
