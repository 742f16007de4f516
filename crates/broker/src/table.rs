//! The servers a broker knows, in the order in which they came.

use std::collections::HashMap;

use forebay_types::directory::{Directory, Incarnation, Load, SERVERS, ServerEntry, ServerInfo};
use forebay_types::{Code, Error, Result, Signature};

use crate::{Action, Gone, Peer};

#[derive(Debug)]
struct Listed {
    peer: Peer,
    heard_ns: u64,
    entry: ServerEntry,
}

/// The table, with a count of its changes and of its askers.
#[derive(Debug, Default)]
pub(crate) struct Table {
    servers: Vec<Listed>,
    version: u64,
    turn: u64,
}

impl Table {
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// The table as it stands.
    pub fn directory(&self) -> Directory {
        let servers = self.servers.iter().map(|s| s.entry.clone()).collect();
        Directory { version: self.version, turn: self.turn, settling: false, servers }
    }

    /// The table for a client, who is counted.
    pub fn ask(&mut self) -> Directory {
        self.turn += 1;
        self.directory()
    }

    /// Takes in a server, or what it changed; the connection it used last is the one that counts.
    pub fn announce(
        &mut self,
        peer: Peer,
        mut info: ServerInfo,
        now_ns: u64,
        actions: &mut Vec<Action>,
    ) -> Result<()> {
        info.check()?;
        for text in &mut info.services {
            *text = Signature::parse(text)?.to_string();
        }
        self.agree_with_others(&info)?;
        let known = self.servers.iter_mut().find(|s| s.entry.info.incarnation == info.incarnation);
        if let Some(known) = known {
            known.peer = peer;
            known.heard_ns = now_ns;
            if known.entry.info != info {
                known.entry.info = info;
                self.version += 1;
            }
            return Ok(());
        }
        if self.servers.len() == SERVERS {
            return Err(Error::new(
                Code::Full,
                format!("the broker knows {SERVERS} servers, its limit; stop some or start another agent"),
            ));
        }
        actions.push(Action::Joined { incarnation: info.incarnation, name: info.name.clone() });
        let entry = ServerEntry { info, load: Load::default() };
        self.servers.push(Listed { peer, heard_ns: now_ns, entry });
        self.version += 1;
        Ok(())
    }

    /// One name means one signature, whoever offers it: calls may go to any of them.
    fn agree_with_others(&self, info: &ServerInfo) -> Result<()> {
        let service = |text: &str| text.split('(').next().unwrap_or("").to_owned();
        let mine: HashMap<String, &String> = info.services.iter().map(|t| (service(t), t)).collect();
        for other in self.servers.iter().map(|s| &s.entry.info).filter(|o| o.incarnation != info.incarnation)
        {
            for theirs in &other.services {
                let Some(text) = mine.get(&service(theirs)).filter(|t| **t != theirs) else { continue };
                return Err(Error::new(
                    Code::Conflict,
                    format!(
                        "{text} is offered as {theirs} by server {:?} (pid {}); give it another name or stop that server",
                        other.name, other.pid
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Whether the server is known on this connection; it must announce itself otherwise.
    pub fn heartbeat(&mut self, peer: Peer, incarnation: Incarnation, load: Load, now_ns: u64) -> bool {
        let found =
            self.servers.iter_mut().find(|s| s.entry.info.incarnation == incarnation && s.peer == peer);
        let Some(server) = found else { return false };
        server.heard_ns = now_ns;
        server.entry.load = load;
        true
    }

    pub fn has(&self, incarnation: Incarnation) -> bool {
        self.servers.iter().any(|s| s.entry.info.incarnation == incarnation)
    }

    /// Whether the server is known on this connection.
    pub fn is_known(&self, peer: Peer, incarnation: Incarnation) -> bool {
        self.servers.iter().any(|s| s.entry.info.incarnation == incarnation && s.peer == peer)
    }

    pub fn withdraw(
        &mut self,
        peer: Peer,
        incarnation: Incarnation,
        actions: &mut Vec<Action>,
    ) -> Result<()> {
        let foreign = self.servers.iter().find(|s| s.entry.info.incarnation == incarnation && s.peer != peer);
        if let Some(server) = foreign {
            return Err(Error::new(
                Code::Refused,
                format!("server {:?} can only be withdrawn by itself", server.entry.info.name),
            ));
        }
        self.remove(incarnation, Gone::Withdrawn, actions);
        Ok(())
    }

    pub fn remove(&mut self, incarnation: Incarnation, why: Gone, actions: &mut Vec<Action>) {
        self.remove_if(|s| s.entry.info.incarnation == incarnation, why, actions);
    }

    pub fn disconnect(&mut self, peer: Peer, actions: &mut Vec<Action>) {
        self.remove_if(|s| s.peer == peer, Gone::Disconnected, actions);
    }

    pub fn expire(&mut self, now_ns: u64, lease_ns: u64, actions: &mut Vec<Action>) {
        self.remove_if(
            |s| now_ns.saturating_sub(s.heard_ns) > lease_ns.max(s.entry.info.lease_ms * 1_000_000),
            Gone::Expired,
            actions,
        );
    }

    /// Moves all leases forward.
    pub fn forgive(&mut self, gap_ns: u64) {
        for server in &mut self.servers {
            server.heard_ns = server.heard_ns.saturating_add(gap_ns);
        }
    }

    fn remove_if(&mut self, gone: impl Fn(&Listed) -> bool, why: Gone, actions: &mut Vec<Action>) {
        let before = self.servers.len();
        self.servers.retain(|server| {
            let leaves = gone(server);
            if leaves {
                let info = &server.entry.info;
                actions.push(Action::Left { incarnation: info.incarnation, name: info.name.clone(), why });
            }
            !leaves
        });
        self.version += (before - self.servers.len()) as u64;
    }
}
