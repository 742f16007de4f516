//! The checksum of everything that is stored or sent: CRC-32C (Castagnoli), as in iSCSI and ext4. A
//! processor with carry-less multiplication takes it at tens of gigabytes a second.

use crc_fast::{CrcAlgorithm, Digest};

/// The checksum of these bytes.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c_append(0, bytes)
}

/// The checksum of bytes with that checksum and of these behind them.
pub fn crc32c_append(before: u32, bytes: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!before));
    digest.update(bytes);
    digest.finalize() as u32
}

/// The checksum of ZIP archives, CRC-32 of ISO 3309, of bytes that come in parts.
pub struct Crc32(Digest);

impl Default for Crc32 {
    fn default() -> Crc32 {
        Crc32(Digest::new(CrcAlgorithm::Crc32IsoHdlc))
    }
}

impl Crc32 {
    /// Takes the bytes that come next.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of all of them.
    pub fn sum(&self) -> u32 {
        self.0.finalize() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_standard_whole_or_in_parts() {
        // The check value of CRC-32C, and one of RFC 3720, B.4.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        let mut zip = Crc32::default();
        zip.update(b"12345");
        zip.update(b"6789");
        assert_eq!(zip.sum(), 0xcbf4_3926);
        let bytes: Vec<u8> = (0..5000u32).map(|i| (i * i) as u8).collect();
        for cut in [0, 1, 63, 64, 300, 4999, 5000] {
            assert_eq!(crc32c_append(crc32c(&bytes[..cut]), &bytes[cut..]), crc32c(&bytes));
        }
    }
}
