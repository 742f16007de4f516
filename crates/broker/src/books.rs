//! What the services have done, over all servers, those that have left included: a server that starts anew takes nothing
//! away.

use std::collections::{BTreeMap, HashMap};

use forebay_types::directory::{Incarnation, REPORTED, SERVERS};
use forebay_types::usage::Usage;
use forebay_types::{Error, Result, limits};

/// Lives that are over count so long.
const KEPT_NS: u64 = 600 * 1_000_000_000;
/// Services of lives that are kept at most; what comes beyond is not counted.
const KEPT: usize = 16 * SERVERS;

/// The books of one broker.
#[derive(Debug, Default)]
pub(crate) struct Books {
    lives: HashMap<Incarnation, Life>,
    /// Services in all of them.
    kept: usize,
}

#[derive(Debug, Default)]
struct Life {
    /// When it was over.
    left_ns: Option<u64>,
    services: BTreeMap<String, Account>,
}

/// What a life told of a service. One that was taken back and offered again begins anew.
#[derive(Debug, Default)]
struct Account {
    before: Usage,
    last: Usage,
}

impl Books {
    /// A life tells what some of its services have done since it began.
    pub fn enter(&mut self, incarnation: Incarnation, told: Vec<(String, Usage)>) -> Result<()> {
        if told.len() > REPORTED {
            return Err(Error::bad(format!(
                "{} services at once are too many; tell of {REPORTED}",
                told.len()
            )));
        }
        for (name, usage) in &told {
            usage.check()?;
            if name.len() > limits::NAME_BYTES {
                return Err(Error::bad("the name of a service is too long"));
            }
        }
        let life = self.lives.entry(incarnation).or_default();
        for (name, usage) in told {
            if !life.services.contains_key(&name) {
                if self.kept == KEPT {
                    continue;
                }
                self.kept += 1;
            }
            let account = life.services.entry(name).or_default();
            if usage.calls < account.last.calls {
                account.before.add(&account.last);
            }
            account.last = usage;
        }
        Ok(())
    }

    /// A life is over, or is there again.
    pub fn mark(&mut self, incarnation: Incarnation, left_ns: Option<u64>) {
        if let Some(life) = self.lives.get_mut(&incarnation) {
            life.left_ns = left_ns;
        }
    }

    /// Time goes on.
    pub fn forget(&mut self, now_ns: u64) {
        self.lives.retain(|_, life| life.left_ns.is_none_or(|left| now_ns.saturating_sub(left) < KEPT_NS));
        self.kept = self.lives.values().map(|life| life.services.len()).sum();
    }

    /// What each service has done.
    pub fn totals(&self) -> BTreeMap<&str, Usage> {
        let mut totals: BTreeMap<&str, Usage> = BTreeMap::new();
        for (name, account) in self.lives.values().flat_map(|life| &life.services) {
            let total = totals.entry(name).or_default();
            total.add(&account.before);
            total.add(&account.last);
        }
        totals
    }
}
