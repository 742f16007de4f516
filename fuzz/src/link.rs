//! Bytes as what a peer on the network sends over a call link.

use forebay_link::pool::{Budget, Pool};
use forebay_link::stream::Stream;
use std::io::Write;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration;

/// Most bytes of an input: what a socket takes without anybody reading.
const MOST: usize = 64 << 10;

pub fn link(data: &[u8]) {
    let Some((how, bytes)) = data[..data.len().min(MOST)].split_first() else { return };
    let mut bytes = bytes.to_vec();
    if how & 1 == 0 {
        super::mend_all(&mut bytes);
    }
    let (mut peer, socket) = pair();
    let budget = Budget::new(1 << 20);
    let (_, mut receiver) = Stream::of_calls(socket).expect("a link").split();
    let mut pool = Pool::new(&budget);
    peer.write_all(&bytes).expect("room in a socket");
    peer.shutdown(Shutdown::Write).expect("its end");
    loop {
        match receiver.try_recv(&mut pool) {
            Ok(Some(received)) => {
                assert_eq!(received.header.body as usize, received.body.len());
                assert!(received.fault.is_none() || received.parts.is_empty());
            }
            Ok(None) => drop(receiver.taken_back(16).count()),
            Err(_) => break,
        }
    }
    drop(peer);
    drop((receiver, pool));
    assert_eq!(budget.used(), 0);
}

/// Two ends of a connection. The first one to be dropped leaves no port behind that has to rest.
pub(super) fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
    let peer = TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
    no_rest(&peer);
    let (socket, _) = listener.accept().expect("a connection");
    (peer, socket)
}

pub(super) fn no_rest(socket: &TcpStream) {
    rustix::net::sockopt::set_socket_linger(socket, Some(Duration::ZERO)).expect("a socket");
}
