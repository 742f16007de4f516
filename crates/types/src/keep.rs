//! Which complete steps of a run stay on the disk.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The newest ones, every n-th by number, or both; at least one of them is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keep {
    /// So many of the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<u64>,
    /// Those whose number this one divides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<i64>,
}

impl Keep {
    /// Reads `last 5`, `every 10`, `last 5, every 100`.
    pub fn parse(text: &str) -> Result<Keep> {
        let wrong = || {
            Error::bad(format!(
                "{text:?} does not say which snapshots stay; write \"last 5\", \"every 10\", or both: \"last 5, every 100\""
            ))
        };
        let mut keep = Keep { last: None, every: None };
        for part in text.split(',') {
            let words: Vec<&str> = part.split_whitespace().collect();
            let [word, number] = words[..] else { return Err(wrong()) };
            let number = number.parse::<i64>().ok().filter(|n| *n > 0).ok_or_else(wrong)?;
            match word {
                "last" if keep.last.is_none() => keep.last = Some(number as u64),
                "every" if keep.every.is_none() => keep.every = Some(number),
                _ => return Err(wrong()),
            }
        }
        Ok(keep)
    }
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.last.map(|n| format!("last {n}"));
        let every = self.every.map(|n| format!("every {n}"));
        let parts: Vec<String> = last.into_iter().chain(every).collect();
        f.write_str(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_is_read_and_said_as_people_write_it_and_anything_else_is_refused() {
        for (text, said) in
            [("last 5", "last 5"), ("every 10", "every 10"), (" every 100 ,last  5", "last 5, every 100")]
        {
            assert_eq!(Keep::parse(text).unwrap().to_string(), said);
        }
        for bad in
            ["", "5", "last", "last 0", "last -1", "last five", "last 5 every 2", "last 5, last 6", "first 3"]
        {
            let e = Keep::parse(bad).unwrap_err();
            assert!(e.text().contains(&format!("{bad:?}")) && e.text().contains("\"last 5\""), "{e}");
        }
    }
}
