//! Maps by numbers and short names on the way of a call. The keys come from the programs of one
//! user, so the hash need not stand up to an attacker and costs a multiplication for every word.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map with a quick hash.
pub type QuickMap<K, V> = HashMap<K, V, BuildHasherDefault<Quick>>;

/// The hash of a [`QuickMap`].
#[derive(Default)]
pub struct Quick(u64);

impl Hasher for Quick {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn write_u8(&mut self, end: u8) {
        self.write_u64(end.into()); // behind every text
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        // The odd number nearest to 2^64 over the golden ratio; the map looks at the high bits.
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32) // and at the low ones
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::hash::{BuildHasher, BuildHasherDefault};

    #[test]
    fn numbers_in_a_row_and_like_names_spread_over_both_ends_of_the_hash() {
        let build = BuildHasherDefault::<Quick>::default();
        let numbers: Vec<u64> = (0..1024u64).map(|i| build.hash_one(i)).collect();
        let names: Vec<u64> = (0..1024).map(|i| build.hash_one(format!("service{i}"))).collect();
        for hashes in [numbers, names] {
            let low: HashSet<u64> = hashes.iter().map(|h| h & 0x3ff).collect();
            let high: HashSet<u64> = hashes.iter().map(|h| h >> 57).collect();
            assert!(low.len() > 500, "{} of 1024", low.len());
            assert!(high.len() > 100, "{} of 128", high.len());
        }
    }
}
