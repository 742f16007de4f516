//! Small secrets: made by the operating system's generator, proved and never sent.

use forebay_types::{Code, Error, Result};
use ring::{digest, hmac};

/// 256 bits that prove who somebody is.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 32]);

impl Secret {
    /// A new one.
    pub fn generate() -> Result<Secret> {
        random().map(Secret)
    }

    /// What a code stands for; the code itself is kept nowhere.
    pub fn of_code(code: &str) -> Secret {
        let mut out = [0; 32];
        out.copy_from_slice(digest::digest(&digest::SHA256, code.as_bytes()).as_ref());
        Secret(out)
    }

    /// Says these words as only who has this secret can.
    pub fn mac(&self, words: &[&str]) -> Secret {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        let mut out = [0; 32];
        out.copy_from_slice(hmac::sign(&key, words.join("|").as_bytes()).as_ref());
        Secret(out)
    }

    /// Whether it is written so; takes as long for a near miss as for a far one.
    pub fn is(&self, text: &str) -> bool {
        let ours = self.text();
        let (a, b) = (ours.as_bytes(), text.as_bytes());
        a.len() == b.len() && a.iter().zip(b).fold(0, |acc, (x, y)| acc | (x ^ y)) == 0
    }

    /// Both at once, so that who has one of them has the other.
    pub fn xor(&self, other: &Secret) -> Secret {
        let mut out = self.0;
        out.iter_mut().zip(other.0).for_each(|(a, b)| *a ^= b);
        Secret(out)
    }

    /// In hexadecimal digits.
    pub fn text(&self) -> String {
        hex(&self.0)
    }
}

/// Never shown by accident in a log.
impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Bytes in hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Bytes that nobody can guess.
pub fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|e| Error::new(Code::Io, format!("the system's generator of random numbers failed: {e}")))?;
    Ok(bytes)
}

/// A number used once.
pub fn nonce() -> Result<String> {
    random::<16>().map(|bytes| hex(&bytes))
}

/// Whether somebody's number used once can be one.
pub fn is_nonce(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// A code of 128 bits that can be typed.
pub fn code() -> Result<String> {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let bits = u128::from_be_bytes(random()?);
    Ok((0..26).rev().map(|i| LETTERS[(bits >> (5 * i)) as usize % 32] as char).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mac_is_that_of_the_standard() {
        // RFC 4231 has keys of other lengths; these figures are of Python's hmac and hashlib.
        let key = Secret::of_code("abc");
        assert_eq!(key.text(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let mac = key.mac(&["S", "1", "2"]);
        assert_eq!(mac.text(), "831c7e629747867e36abeb1c40dfecf28366e23857309d43def4c804966dca57");
        assert!(mac.is(&mac.text()) && !mac.is("") && !mac.is(&key.text()));
        assert_eq!(mac.xor(&key).xor(&key), mac);
        assert_eq!(format!("{key:?}"), "Secret(..)");
    }

    #[test]
    fn codes_and_numbers_are_long_and_never_the_same() {
        let (a, b) = (code().unwrap(), code().unwrap());
        assert!(a != b && a.len() == 26 && a.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()));
        let n = nonce().unwrap();
        assert!(is_nonce(&n) && !is_nonce(&n[1..]) && !is_nonce(&format!("{}é", &n[2..])));
    }
}
