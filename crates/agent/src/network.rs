//! The door to other hosts. Whoever has come through its handshake is served like one on the Unix
//! socket; the rendezvous file says where the door is and holds what opens it.

use crate::door;
use crate::rendezvous::Address as Agent;
use crate::service::Shared;
use crate::words::Listening;
use forebay_host::lock;
use forebay_host::{directories, identity};
use forebay_link::net::{Address, Key, Listen, Lobby, Network};
use forebay_types::{Code, Error, Result};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

/// A door that is open.
pub struct Open {
    /// What the rendezvous file says of it.
    pub network: Network,
    answer: Listening,
    asked: Address,
    local: SocketAddr,
    thread: JoinHandle<()>,
}

impl Open {
    /// What people are told.
    pub fn answer(&self) -> &Listening {
        &self.answer
    }

    /// The address that it was to listen at: asked for it again, the agent leaves its door as it is.
    pub fn asked(&self) -> &Address {
        &self.asked
    }

    /// Whether one of these addresses leads to it, on this host.
    pub fn is_at(&self, addresses: &[SocketAddr]) -> bool {
        // Only an address of this host can be bound here.
        let of_host = |ip: IpAddr| UdpSocket::bind((ip, 0)).is_ok();
        let leads = |at: &SocketAddr| match self.local.ip().is_unspecified() {
            true => of_host(at.ip()),
            false => at.ip() == self.local.ip(),
        };
        addresses.iter().any(|at| at.port() == self.local.port() && leads(at))
    }

    /// Waits for its thread, once the owner stops.
    pub fn end(self) {
        let _ = self.thread.join();
    }
}

/// Opens the door; asked again for the same address it says where it is.
pub fn open(shared: &Arc<Shared>, address: &str, tls: bool) -> Result<Listening> {
    let asked: Address = address.parse()?;
    let mut place = lock(&shared.network);
    if let Some(open) = &*place {
        if open.asked == asked || open.answer.address == asked.to_string() {
            let answer = open.answer.clone();
            drop(place);
            // Somebody may have removed what says so.
            shared.publish()?;
            return Ok(answer);
        }
        return Err(Error::new(
            Code::Conflict,
            format!("the agent listens at {} already; `forebay down` ends it", open.answer.address),
        ));
    }
    // Who takes the place of an agent that died lets in whom that one let in.
    let key = shared.inherited.clone().map_or_else(Key::new, Ok)?;
    let listen = Listen { address: asked.clone(), key, tls_on_loopback: tls, role: shared.role.to_owned() };
    // What opens the door is told there.
    let told = directories::rendezvous()?;
    shared.address.check_room(&told)?;
    let lobby = Lobby::bind(listen)?;
    let local = lobby.local();
    let host = match local.ip().is_unspecified() {
        true => identity::host(),
        false => local.ip().to_string(),
    };
    let answer = Listening {
        address: Address { host, port: local.port() }.to_string(),
        certificate: lobby.key().certificate.map(|c| c.to_string()),
    };
    let network = lobby.key().network(&local.to_string());
    let theirs = shared.clone();
    let thread = std::thread::Builder::new()
        .name("fb-network".into())
        .spawn(move || serve(&theirs, lobby))
        .map_err(|e| Error::io("cannot start the thread of the network", e))?;
    *place = Some(Open { network, answer: answer.clone(), asked, local, thread });
    drop(place);
    shared.diary.line(format_args!("other hosts connect to {}", answer.address));
    shared.publish()?;
    Ok(answer)
}

/// The door of an agent that died, by whoever takes its place: it stays, as that one would have. Where another one
/// stands in the rendezvous file, or has the port, it stays closed.
pub fn open_again(shared: &Arc<Shared>, before: &Agent) {
    let Some(path) = directories::rendezvous().ok().filter(|path| Agent::read(path).as_ref() == Some(before))
    else {
        return;
    };
    let Some(network) = Network::read(&path) else { return };
    let tls = network.certificate.is_some();
    match open(shared, &network.listen, tls) {
        Ok(_) => shared.by_need.store(false, Ordering::Release),
        Err(e) => shared.diary.line(format_args!("the door of the agent before stays closed: {e}")),
    }
}

fn serve(shared: &Arc<Shared>, mut lobby: Lobby) {
    while !shared.stop.given() {
        match lobby.accept(Some(shared.stop.as_fd()), None) {
            Ok(Some(wire)) => door::admit_greeted(shared, wire),
            Ok(None) => {}
            Err(e) => {
                shared.refused.line(shared.diary, format_args!("a connection was refused: {e}"));
                // What the system lacks, memory too, is no fault of who came: the next one would meet it at once.
                if matches!(e.code(), Code::Io | Code::Full) {
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }
    }
}
