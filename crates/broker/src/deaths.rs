//! How servers died that somebody watched: told by who watched them, asked for by clients that lost them.

use std::collections::VecDeque;

use forebay_types::directory::{DEATH_BYTES, DEATH_MS, DEATHS, Incarnation};
use forebay_types::{Error, Result, limits};

/// The last deaths and the last services that were withdrawn after one, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Deaths {
    of: VecDeque<(Incarnation, u64, String)>,
    withdrawn: VecDeque<(String, String)>,
}

impl Deaths {
    pub fn note(&mut self, incarnation: Incarnation, how: String, now_ns: u64) -> Result<()> {
        if how.len() > DEATH_BYTES {
            return Err(Error::bad(format!(
                "{} bytes about the death of a server are beyond the limit of {DEATH_BYTES}",
                how.len()
            )));
        }
        self.of.retain(|(known, ..)| *known != incarnation);
        if self.of.len() == DEATHS {
            self.of.pop_front();
        }
        self.of.push_back((incarnation, now_ns, how));
        Ok(())
    }

    /// These services are offered no more, since they ended a life that way.
    pub fn withdraw(&mut self, services: Vec<String>, how: &str) -> Result<()> {
        let fits = |name: &String| name.len() <= limits::NAME_BYTES;
        if services.len() > DEATHS || how.len() > DEATH_BYTES || !services.iter().all(fits) {
            return Err(Error::bad(format!(
                "{} withdrawn services are more than {DEATHS}, or their names are too long",
                services.len()
            )));
        }
        for service in services {
            self.withdrawn.retain(|(known, _)| *known != service);
            if self.withdrawn.len() == DEATHS {
                self.withdrawn.pop_front();
            }
            self.withdrawn.push_back((service, how.to_owned()));
        }
        Ok(())
    }

    /// These signatures are offered: that their services were withdrawn once is no news any more.
    pub fn offered(&mut self, services: &[String]) {
        let name = |text: &String| text.split('(').next().unwrap_or_default().trim().to_owned();
        let names: Vec<String> = services.iter().map(name).collect();
        self.withdrawn.retain(|(known, _)| !names.contains(known));
    }

    /// After which death a service was withdrawn.
    pub fn why_withdrawn(&self, service: &str) -> Option<&str> {
        self.withdrawn.iter().find(|(known, _)| known == service).map(|(_, how)| how.as_str())
    }

    /// What was told of it, unless that is too long ago.
    pub fn of(&self, incarnation: Incarnation, now_ns: u64) -> Option<&str> {
        let found = self.of.iter().find(|(known, ..)| *known == incarnation)?;
        (now_ns.saturating_sub(found.1) <= DEATH_MS * 1_000_000).then_some(found.2.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_is_told_for_a_while_and_only_the_last_ones_are() {
        let mut deaths = Deaths::default();
        (0..=DEATHS as u64).for_each(|n| deaths.note(Incarnation(n), format!("SIG{n}"), 0).unwrap());
        assert_eq!(deaths.of(Incarnation(0), 0), None);
        assert_eq!(deaths.of(Incarnation(1), DEATH_MS * 1_000_000), Some("SIG1"));
        assert_eq!(deaths.of(Incarnation(1), DEATH_MS * 1_000_000 + 1), None);
        deaths.withdraw((0..=DEATHS).map(|n| format!("f{n}")).skip(1).collect(), "SIGSEGV").unwrap();
        deaths.withdraw(vec!["g".into()], "SIGABRT").unwrap();
        let why = ["f1", "f2", "g"].map(|name| deaths.why_withdrawn(name).unwrap_or_default());
        assert_eq!(why, ["", "SIGSEGV", "SIGABRT"]);
        deaths.offered(&["f2(in a:f64)".into(), "h()".into()]);
        assert_eq!(["f2", "f3"].map(|name| deaths.why_withdrawn(name)), [None, Some("SIGSEGV")]);
        assert!(deaths.withdraw(vec!["x".repeat(1000)], "").is_err());
        assert!(deaths.note(Incarnation(1), "x".repeat(DEATH_BYTES + 1), 0).is_err());
    }
}
