//! How servers died that somebody watched: told by who watched them, asked for by clients that lost them.

use std::collections::VecDeque;

use forebay_types::directory::{DEATH_BYTES, DEATH_MS, DEATHS, Incarnation};
use forebay_types::{Error, Result};

/// The last deaths, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Deaths(VecDeque<(Incarnation, u64, String)>);

impl Deaths {
    pub fn note(&mut self, incarnation: Incarnation, how: String, now_ns: u64) -> Result<()> {
        if how.len() > DEATH_BYTES {
            return Err(Error::bad(format!(
                "{} bytes about the death of a server are beyond the limit of {DEATH_BYTES}",
                how.len()
            )));
        }
        self.0.retain(|(known, ..)| *known != incarnation);
        if self.0.len() == DEATHS {
            self.0.pop_front();
        }
        self.0.push_back((incarnation, now_ns, how));
        Ok(())
    }

    /// What was told of it, unless that is too long ago.
    pub fn of(&self, incarnation: Incarnation, now_ns: u64) -> Option<&str> {
        let found = self.0.iter().find(|(known, ..)| *known == incarnation)?;
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
        assert!(deaths.note(Incarnation(1), "x".repeat(DEATH_BYTES + 1), 0).is_err());
    }
}
