//! Where a process listens on the network: `fb://host:port`, and behind it the name of a run.

use forebay_types::{Error, Result};
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// Name or number of the host; an IPv6 number without brackets.
    pub host: String,
    /// Port; 0 asks for any.
    pub port: u16,
}

impl Address {
    /// Whether a text means an address on the network and not a path.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with("fb://") || text.starts_with("tcp://")
    }

    /// Reads `fb://host:port/name`; the name is what stands behind, without the slash.
    pub fn split(text: &str) -> Result<(Address, Option<&str>)> {
        let wrong = |why: &str| {
            Error::bad(format!("{text:?} is no address: {why}; write fb://HOST:PORT or fb://HOST:PORT/NAME"))
        };
        let rest = text.strip_prefix("fb://").or_else(|| text.strip_prefix("tcp://")).unwrap_or(text);
        let (place, name) = match rest.split_once('/') {
            Some((place, name)) => (place, Some(name).filter(|n| !n.is_empty())),
            None => (rest, None),
        };
        let (host, port) = place.rsplit_once(':').ok_or_else(|| wrong("it has no port"))?;
        let host = match host.strip_prefix('[') {
            Some(inner) => inner.strip_suffix(']').ok_or_else(|| wrong("a bracket is not closed"))?,
            None if host.contains(':') => return Err(wrong("an IPv6 number stands in brackets")),
            None => host,
        };
        let known = |c: char| c.is_ascii_alphanumeric() || "-_.:%*".contains(c);
        if host.is_empty() || host.len() > 255 || !host.chars().all(known) {
            return Err(wrong("its host is none"));
        }
        let port = port.parse().map_err(|_| wrong("its port is no number up to 65535"))?;
        Ok((Address { host: host.to_owned(), port }, name))
    }

    /// The command that has an agent listen there, with the runs of other hosts in a directory that is known there
    /// alone. What is a number, or loopback, stays so, and no more doors open than there were; a name may mean loopback
    /// on its own host, and an agent has one in its address when it listens at all of its addresses.
    pub fn command(&self) -> String {
        let is_one =
            self.host.contains(':') || self.host == "localhost" || self.host.parse::<Ipv4Addr>().is_ok();
        let (at, port) = (if is_one { &self.host } else { "0.0.0.0" }, self.port);
        match at.contains(':') {
            true => format!("forebay up --listen tcp://[{at}]:{port} --runs DIRECTORY"),
            false => format!("forebay up --listen tcp://{at}:{port} --runs DIRECTORY"),
        }
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Address> {
        match Address::split(text)? {
            (address, None) => Ok(address),
            (_, Some(name)) => {
                Err(Error::bad(format!("{text:?} names {name:?} where a host and port alone are meant")))
            }
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "fb://[{}]:{}", self.host, self.port),
            false => write!(f, "fb://{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_address_has_a_host_a_port_and_maybe_a_name() {
        let (a, name) = Address::split("fb://node7.cluster:4567/two_stream").unwrap();
        assert_eq!((a.host.as_str(), a.port, name), ("node7.cluster", 4567, Some("two_stream")));
        let (a, name) = Address::split("tcp://[fe80::1%eth0]:0").unwrap();
        assert_eq!((a.host.as_str(), a.port, name), ("fe80::1%eth0", 0, None));
        assert_eq!(a.to_string().parse::<Address>().unwrap(), a);
        for wrong in ["fb://host", "fb://:1", "fb://h:70000", "fb://::1:5", "fb://a b:1", "fb://[::1:5"] {
            let e = wrong.parse::<Address>().unwrap_err();
            assert!(e.text().contains("fb://HOST:PORT"), "{e}");
        }
        assert!("fb://h:1/run".parse::<Address>().is_err());
    }

    #[test]
    fn an_agent_is_told_to_listen_where_it_did_and_no_further() {
        let command = |text: &str| text.parse::<Address>().unwrap().command();
        for (given, at) in [
            ("fb://127.0.0.1:4567", "tcp://127.0.0.1:4567"),
            ("fb://localhost:1", "tcp://localhost:1"),
            ("fb://10.0.0.5:4567", "tcp://10.0.0.5:4567"),
            ("fb://[::1]:4567", "tcp://[::1]:4567"),
            ("fb://node7.cluster:4567", "tcp://0.0.0.0:4567"),
        ] {
            assert_eq!(command(given), format!("forebay up --listen {at} --runs DIRECTORY"));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_an_address_or_an_error(text in ".{0,80}") {
            if let Ok(address) = text.parse::<Address>() {
                prop_assert_eq!(address.to_string().parse::<Address>().unwrap(), address);
            }
        }
    }
}
