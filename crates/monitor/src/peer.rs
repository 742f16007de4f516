//! Whose process is at the other end of a loopback connection.
//!
//! 127.0.0.1 is shared by all users of a host. The kernel knows who made a socket, and says so to anybody
//! (`sock_diag(7)`); one question is answered in some microseconds. It knows the *maker*: who forwards a port
//! (`ssh -L`) is the maker. It is never a substitute for a key.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// This user, or root, who may do everything anyway.
    Own,
    /// Another user.
    Other(u32),
    /// The kernel does not say: another network name space, a sandbox, or it has gone already.
    Unknown,
}

/// Asks the kernel.
pub struct Peers {
    diag: Option<OwnedFd>,
    me: u32,
}

/// struct inet_diag_req_v2 behind struct nlmsghdr, and what comes back.
const REQUEST: usize = 16 + 56;
const ANSWER: usize = 16 + 72;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const TCP: u8 = 6;
const ESTABLISHED: u8 = 1;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

impl Peers {
    /// Ready to ask; without the kernel's help everybody is unknown.
    pub fn new() -> Peers {
        let kind = (AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC);
        let diag = net::socket_with(kind.0, kind.1, kind.2, Some(netlink::SOCK_DIAG)).ok();
        Peers { diag, me: rustix::process::geteuid().as_raw() }
    }

    /// Who is at the other end of a connection from `peer` to `ours`.
    pub fn of(&self, peer: SocketAddr, ours: SocketAddr) -> Peer {
        match self.ask(peer, ours) {
            Some(uid) if uid == self.me || uid == 0 => Peer::Own,
            Some(uid) => Peer::Other(uid),
            None => Peer::Unknown,
        }
    }

    fn ask(&self, peer: SocketAddr, ours: SocketAddr) -> Option<u32> {
        let diag = self.diag.as_ref()?;
        net::send(diag, &request(peer, ours)?, SendFlags::empty()).ok()?;
        let mut answer = [0u8; 512];
        // The kernel has answered when `send` returns.
        let (_, n) = net::recv(diag, &mut answer[..], RecvFlags::DONTWAIT).ok()?;
        read(answer.get(..n)?)
    }
}

/// Their socket: their address is its source.
fn request(peer: SocketAddr, ours: SocketAddr) -> Option<[u8; REQUEST]> {
    let mut out = [0; REQUEST];
    let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &(REQUEST as u32).to_ne_bytes());
    put(4, &SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    put(6, &NLM_F_REQUEST.to_ne_bytes());
    let family = if peer.is_ipv4() { AF_INET } else { AF_INET6 };
    put(16, &[family, TCP]);
    put(20, &u32::MAX.to_ne_bytes());
    put(24, &peer.port().to_be_bytes());
    put(26, &ours.port().to_be_bytes());
    match (peer.ip(), ours.ip()) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            put(28, &a.octets());
            put(44, &b.octets());
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            put(28, &a.octets());
            put(44, &b.octets());
        }
        _ => return None,
    }
    put(64, &[0xff; 8]);
    Some(out)
}

/// The uid of an established socket. One whose maker has closed it is shown as root's, without an inode.
fn read(answer: &[u8]) -> Option<u32> {
    let word = |at: usize| Some(u32::from_ne_bytes(answer.get(at..at + 4)?.try_into().ok()?));
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let (state, inode) = (*answer.get(17)?, word(ANSWER - 4)?);
    (kind == SOCK_DIAG_BY_FAMILY && state == ESTABLISHED && inode != 0).then(|| word(ANSWER - 8))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn our_own_connection_is_known_as_ours_on_both_families() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let ours = listener.local_addr().unwrap();
            let stream = TcpStream::connect(ours).unwrap();
            let (_accepted, peer) = listener.accept().unwrap();
            let peers = Peers::new();
            if peers.diag.is_none() {
                eprintln!("skipped: this kernel has no sock_diag");
                return;
            }
            assert_eq!(peers.of(peer, ours), Peer::Own, "{address}");
            drop(stream);
            assert_eq!(peers.of(peer, ours), Peer::Unknown, "one that has gone is nobody's");
        }
    }

    #[test]
    fn what_is_no_answer_is_nobody() {
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[0; ANSWER]), None);
        let mut answer = [0; ANSWER];
        answer[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        answer[17] = ESTABLISHED;
        answer[ANSWER - 8..ANSWER - 4].copy_from_slice(&7u32.to_ne_bytes());
        assert_eq!(read(&answer), None, "without an inode the uid says nothing");
        answer[ANSWER - 1] = 1;
        assert_eq!(read(&answer), Some(7));
    }
}
