//! Whether small snapshots of one layout are put together by themselves.

use crate::{Error, Result};

/// So many of one layout are put together where nobody says how many.
pub const USUAL: u64 = 1000;
/// Most steps of a pack.
pub const MOST: u64 = 10_000;

/// Reads `auto`, `no`, or how many snapshots of one layout are put together; 0 is none.
pub fn parse_pack(text: &str) -> Result<u64> {
    match text.trim() {
        "auto" => Ok(USUAL),
        "no" => Ok(0),
        number => number.parse().ok().filter(|n| (2..=MOST).contains(n)).ok_or_else(|| {
            Error::bad(format!(
                "pack = {text:?} does not say how many snapshots are put together; write \"auto\", \"no\", or a number from 2 to {MOST}"
            ))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_many_snapshots_are_put_together_is_read_and_anything_else_is_refused() {
        for (text, n) in [("auto", USUAL), ("no", 0), ("2", 2), (" 10000", MOST)] {
            assert_eq!(parse_pack(text).unwrap(), n);
        }
        for bad in ["", "1", "10001", "-2", "yes"] {
            let e = parse_pack(bad).unwrap_err();
            assert!(e.text().contains("\"auto\""), "{e}");
        }
    }
}
