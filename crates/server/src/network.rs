//! The server's own door to other hosts. It is open when the broker's is: a server whose broker is
//! on another host, or whose agent listens, can be called from there too.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;

use forebay_host::{directories, sockets};
use forebay_link::net::{Address, Key, Listen, Lobby, Network};
use forebay_link::{Locator, Wire};
use forebay_types::directory::Listens;
use forebay_types::{Code, Error, Result};

use crate::listen;
use crate::shared::Shared;
use forebay_host::lock;

/// Opens the door, where that was asked for or the broker's is open; says what is announced.
pub(crate) fn open(
    asked: Option<&Address>,
    locator: &Locator,
    wire: &Wire,
) -> Result<Option<(Lobby, Listens)>> {
    let Some((key, local, secure)) = vouched(locator, wire)? else {
        return match asked {
            None => Ok(None),
            Some(address) => Err(Error::new(
                Code::Refused,
                format!(
                    "nothing vouches for a server at {address}: its agent does not listen; start that with `forebay up --listen`"
                ),
            )),
        };
    };
    let usual = || Address { host: local.to_string(), port: 0 };
    let address = asked.cloned().unwrap_or_else(usual);
    let lobby = Lobby::bind(Listen { address, key, tls_on_loopback: secure, role: "server".to_owned() })?;
    let port = lobby.local().port();
    let address = match lobby.local().ip() {
        ip if !ip.is_unspecified() => SocketAddr::new(ip, port).to_string(),
        // All addresses of this host: the one that the broker was reached from, or that it is at.
        _ if local.is_unspecified() => format!("*:{port}"),
        _ => SocketAddr::new(local, port).to_string(),
    };
    let certificate = lobby.key().certificate.map(|c| c.to_string());
    Ok(Some((lobby, Listens { address, certificate })))
}

/// The key that clients of the broker have, the address of this host that they can reach, and
/// whether TLS is spoken over loopback too.
fn vouched(locator: &Locator, wire: &Wire) -> Result<Option<(Key, IpAddr, bool)>> {
    if let (Some(stream), Some(key)) = (wire.net(), wire.key()) {
        return Ok(Some((key.clone(), stream.local()?.ip(), stream.is_secure())));
    }
    // The rendezvous file of this host, if it is about this broker.
    if locator.path()? != sockets::agent_socket()? {
        return Ok(None);
    }
    let Some(network) = directories::rendezvous().ok().and_then(|path| Network::read(&path)) else {
        return Ok(None);
    };
    let at: SocketAddr = network.listen.parse().map_err(|_| {
        Error::new(
            Code::Corrupt,
            format!("the rendezvous file says that the agent listens at {:?}", network.listen),
        )
    })?;
    let key = network.key()?;
    let secure = key.certificate.is_some() && at.ip().is_loopback();
    Ok(Some((key, at.ip(), secure)))
}

/// Lets clients of other hosts in until the server stops.
pub(crate) fn run(shared: Arc<Shared>, mut lobby: Lobby) {
    while !shared.stopping() {
        match lobby.accept(Some(shared.farewell.as_fd()), None) {
            Ok(Some(wire)) => listen::admit(&shared, move || Ok(wire)),
            Ok(None) => {}
            Err(e) => *lock(&shared.trouble) = Some(e.within("a client of another host could not be let in")),
        }
    }
}
