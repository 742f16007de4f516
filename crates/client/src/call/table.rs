//! The client's copy of the broker's table. A call looks here only; the broker is asked when a
//! name is missing, when a server failed, and once in a while. A broker that is gone changes
//! nothing for names that are known.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use forebay_arena::place;
use forebay_link::net::{Key, Network};
use forebay_link::{Locator, QuickMap, Wire};
use forebay_types::directory::{BrokerRequest, Directory, Incarnation, ServerInfo};
use forebay_types::{Code, Error, Result, Signature};

use super::connection::{Connection, Reach};

/// How old the table may be at a call.
const FRESH: Duration = Duration::from_secs(2);
/// How long a call waits for a broker when it could do without.
const SHORT: Duration = Duration::from_millis(200);
/// How long it waits when it cannot.
const LONG: Duration = Duration::from_secs(2);

/// A clock that is off by a few milliseconds and costs a fifth of the exact one.
fn coarse() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// A service and the servers that offer it.
pub(crate) struct Offer {
    pub signature: Signature,
    pub servers: Vec<Arc<ServerInfo>>,
    /// The connections to them, as far as this offer has led to some.
    connections: Vec<OnceLock<Arc<Connection>>>,
    next: AtomicUsize,
}

impl Offer {
    /// What one server has, announced or not.
    pub fn of(signature: Signature, server: Arc<ServerInfo>) -> Offer {
        Offer::new(signature, vec![server], 0)
    }

    fn new(signature: Signature, servers: Vec<Arc<ServerInfo>>, next: usize) -> Offer {
        let connections = servers.iter().map(|_| OnceLock::new()).collect();
        Offer { signature, servers, connections, next: AtomicUsize::new(next) }
    }

    /// The index of the next server in turn that is not among those.
    pub fn pick(&self, without: &[Incarnation]) -> Option<usize> {
        let n = self.servers.len();
        let turn = match n {
            0 | 1 => 0,
            _ => self.next.fetch_add(1, Ordering::Relaxed),
        };
        (0..n).map(|i| (turn + i) % n).find(|i| !without.contains(&self.servers[*i].incarnation))
    }

    /// The connection to a server of it: the one known here, or what `find` finds.
    #[inline]
    pub fn connection<E>(
        &self,
        server: usize,
        find: impl FnOnce(&Arc<ServerInfo>) -> Result<Arc<Connection>, E>,
    ) -> Result<Arc<Connection>, E> {
        let known = &self.connections[server];
        if let Some(connection) = known.get().filter(|c| c.lost().is_none()) {
            return Ok(connection.clone());
        }
        let found = find(&self.servers[server])?;
        let _ = known.set(found.clone());
        Ok(found)
    }
}

/// The table and the way to the broker.
pub(super) struct Table {
    locator: Locator,
    wire: Option<Wire>,
    /// What opened the door of a broker on another host.
    key: Option<Key>,
    offers: QuickMap<String, Arc<Offer>>,
    /// When the table is no longer fresh, by [`coarse`].
    ask_again: Duration,
    turn: usize,
    /// The broker follows one that died, and not all servers have come to it yet.
    settling: bool,
}

impl Table {
    /// Connects to the broker, starting an agent if need be, and fetches the table.
    pub fn fetch(locator: Locator) -> Result<Table> {
        let wire = locator.connect_or_start("client", LONG)?;
        let key = wire.key().cloned();
        let offers = QuickMap::default();
        let ask_again = Duration::ZERO;
        let mut table = Table { locator, wire: Some(wire), key, offers, ask_again, turn: 0, settling: false };
        table.refresh(LONG)?;
        Ok(table)
    }

    fn ask(&mut self, request: &BrokerRequest, timeout: Duration) -> Result<serde_json::Value> {
        if self.wire.is_none() {
            let wire = self.locator.connect("client", timeout)?;
            self.key = wire.key().cloned();
            self.wire = Some(wire);
        }
        let wire = self.wire.as_mut().expect("connected just now");
        let answer = wire.ask_with(request, &[], timeout).map(|(value, _)| value);
        if answer.is_err() {
            self.wire = None;
        }
        answer
    }

    fn refresh(&mut self, timeout: Duration) -> Result<()> {
        self.ask_again = coarse() + FRESH;
        // A connection that broke since the last time is worth one more try at once.
        let broken = self.wire.as_ref().is_some_and(Wire::peer_gone);
        if broken {
            self.wire = None;
        }
        let answer = self.ask(&BrokerRequest::Directory, timeout)?;
        let directory: Directory = serde_json::from_value(answer)
            .map_err(|e| Error::new(Code::Corrupt, format!("the broker's table is not one: {e}")))?;
        self.turn = self.turn.max(directory.turn as usize);
        self.settling = directory.settling;
        let before = std::mem::replace(&mut self.offers, offers(directory));
        if self.settling {
            self.keep(before);
        }
        Ok(())
    }

    /// What a new broker lacks of the earlier table is taken to be there still.
    fn keep(&mut self, before: QuickMap<String, Arc<Offer>>) {
        for (name, old) in before {
            let Some(offer) = self.offers.get_mut(&name) else {
                self.offers.insert(name, old);
                continue;
            };
            let listed = |s: &ServerInfo| offer.servers.iter().any(|o| o.incarnation == s.incarnation);
            let lacks: Vec<_> = old.servers.iter().filter(|s| !listed(s)).cloned().collect();
            if offer.signature == old.signature && !lacks.is_empty() {
                let servers = offer.servers.iter().cloned().chain(lacks).collect();
                let next = offer.next.load(Ordering::Relaxed);
                *offer = Arc::new(Offer::new(offer.signature.clone(), servers, next));
            }
        }
    }

    /// What is needed to reach a server of another host: the key of the broker's agent, which its
    /// servers share.
    pub fn reach(&self, server: &ServerInfo) -> Result<Reach> {
        let asked = self.locator.address()?.map(|address| address.host);
        let local = || place::rendezvous().ok().and_then(|path| Network::read(&path)).map(|n| n.key());
        let key = match &self.key {
            // It opens nothing of a server that listens for its own host only.
            None if asked.is_none() && server.listens.is_some() => local().transpose()?,
            known => known.clone(),
        };
        Ok(Reach { key, host: asked, transport: self.locator.transport(), silence: self.locator.silence()? })
    }

    /// Whether servers that are not in the table may come to it in a moment.
    pub fn is_settling(&self) -> bool {
        self.settling
    }

    /// The offer of a service. `NoServer` names what is offered instead.
    pub fn find(&mut self, name: &str) -> Result<Arc<Offer>> {
        if let Some(offer) = self.offers.get(name) {
            let offer = offer.clone();
            if coarse() >= self.ask_again && self.refresh(SHORT).is_ok() {
                return self.offers.get(name).cloned().ok_or_else(|| self.nobody(name));
            }
            return Ok(offer);
        }
        self.refresh(LONG).map_err(|e| {
            Error::new(Code::NoServer, format!("nothing is known of {name:?} and no broker answers: {e}"))
        })?;
        self.offers.get(name).cloned().ok_or_else(|| self.nobody(name))
    }

    fn nobody(&self, name: &str) -> Error {
        let mut names: Vec<&str> = self.offers.keys().map(String::as_str).collect();
        names.sort();
        let offered = match names.as_slice() {
            [] => "nothing is offered at all".to_owned(),
            few if few.len() <= 20 => format!("offered are {}", few.join(", ")),
            many => format!("offered are {} and {} more", many[..20].join(", "), many.len() - 20),
        };
        Error::new(
            Code::NoServer,
            format!(
                "no server offers {name:?}; {offered}; start one with `forebay serve`, or check the name"
            ),
        )
    }

    /// The next server in turn, of that name if one is given; looks anew when there is none.
    pub fn server(&mut self, name: Option<&str>, without: &[Incarnation]) -> Result<Arc<ServerInfo>> {
        for attempt in 0..2 {
            if attempt == 1 {
                self.refresh(LONG)?;
            }
            let mut servers: Vec<&Arc<ServerInfo>> = self.offers.values().flat_map(|o| &o.servers).collect();
            servers.sort_by_key(|s| s.incarnation);
            servers.dedup_by_key(|s| s.incarnation);
            servers.retain(|s| name.is_none_or(|n| s.name == n) && !without.contains(&s.incarnation));
            if let Some(found) = servers.get(self.turn % servers.len().max(1)) {
                let found = (*found).clone();
                self.turn = self.turn.wrapping_add(1);
                return Ok(found);
            }
        }
        let text = match name {
            Some(name) => {
                format!("there is no server {name:?} to hold an array; `forebay services` lists servers")
            }
            None => "there is no server to hold an array; start one with `forebay serve`".to_owned(),
        };
        Err(Error::new(Code::NoServer, text))
    }

    /// Everything that is offered, fresh if the broker answers.
    pub fn all(&mut self) -> Vec<Arc<Offer>> {
        let _ = self.refresh(SHORT);
        let mut offers: Vec<_> = self.offers.values().cloned().collect();
        offers.sort_by(|a, b| a.signature.name().cmp(b.signature.name()));
        offers
    }

    /// A server was found dead or stopped: out of the table, and the broker is told. What the
    /// broker says of it from now on counts again.
    pub fn failed(&mut self, incarnation: Incarnation) {
        let known = self.offers.values().any(|o| o.servers.iter().any(|s| s.incarnation == incarnation));
        if !known {
            return;
        }
        let _ = self.ask(&BrokerRequest::Failed { incarnation }, SHORT);
        if self.refresh(SHORT).is_ok() && !self.settling {
            return;
        }
        for offer in self.offers.values_mut() {
            let servers = offer.servers.iter().filter(|s| s.incarnation != incarnation).cloned().collect();
            let next = offer.next.load(Ordering::Relaxed);
            *offer = Arc::new(Offer::new(offer.signature.clone(), servers, next));
        }
        self.offers.retain(|_, offer| !offer.servers.is_empty());
    }
}

fn offers(directory: Directory) -> QuickMap<String, Arc<Offer>> {
    let mut offers: QuickMap<String, (Signature, Vec<Arc<ServerInfo>>)> = QuickMap::default();
    for server in directory.servers {
        let info = Arc::new(server.info);
        for text in &info.services {
            // The broker has checked it; what this version cannot read it does not call.
            let Ok(signature) = Signature::parse(text) else { continue };
            let name = signature.name().as_str().to_owned();
            offers.entry(name).or_insert((signature, Vec::new())).1.push(info.clone());
        }
    }
    let next = directory.turn as usize;
    let offer = |(name, (signature, servers))| (name, Arc::new(Offer::new(signature, servers, next)));
    offers.into_iter().map(offer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_take_turns_and_those_that_were_tried_are_left_out() {
        let server = |n: u64| {
            Arc::new(ServerInfo {
                name: String::new(),
                incarnation: Incarnation(n),
                pid: 0,
                host: String::new(),
                socket: String::new(),
                services: Vec::new(),
                place: String::new(),
                listens: None,
                lease_ms: 0,
            })
        };
        let servers = vec![server(1), server(2), server(3)];
        let offer = Offer::new(Signature::parse("f()").unwrap(), servers, 7);
        let picked: Vec<usize> = (0..4).map(|_| offer.pick(&[]).unwrap()).collect();
        assert_eq!(picked, [1, 2, 0, 1]);
        let tried = [Incarnation(1), Incarnation(3)];
        assert!((0..4).all(|_| offer.pick(&tried).unwrap() == 1));
        assert!(offer.pick(&[Incarnation(1), Incarnation(2), Incarnation(3)]).is_none());
    }
}
