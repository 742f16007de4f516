//! What opens a door: the secret of a rendezvous file, and the certificate behind the door.
//!
//! The agent that listens writes both into `HOST.json` of the user's Forebay home (mode 0600, in
//! a directory of mode 0700). Whoever can read that file may connect: on a cluster the home is
//! the same on all nodes, elsewhere the file is copied once. All files there are tried, and the
//! door says which of them is meant, so an address may also be a tunnel or another name of the host.

use forebay_host::directories;
use forebay_types::control::WIRE_VERSION;
use forebay_types::{Code, Error, Result};
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// Most rendezvous files that are looked at, and their largest size.
const FILES: usize = 1_024;
const FILE_BYTES: u64 = 64 * 1024;

/// Bytes of a secret, a nonce, a proof, a fingerprint.
pub(crate) const BYTES: usize = 32;
pub(crate) type Bytes = [u8; BYTES];

/// A shared secret. It never leaves the process but into the rendezvous file.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Bytes);

/// SHA-256 of a certificate.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub(crate) Bytes);

/// What a rendezvous file says about the network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Network {
    /// Where its agent listens.
    pub listen: String,
    /// Which key this is: a random number, no part of the secret.
    pub id: String,
    secret: String,
    /// Fingerprint of the certificate; none when it speaks TLS nowhere.
    pub certificate: Option<String>,
}

/// What opens one door.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// Which one.
    pub id: String,
    pub(crate) secret: Secret,
    /// The certificate behind the door; none when it speaks TLS nowhere.
    pub certificate: Option<Fingerprint>,
}

/// The keys that a process has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Keys {
    keys: Vec<Key>,
}

pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| Error::new(Code::Io, "the system gives no random numbers"))?;
    Ok(bytes)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

pub(crate) fn unhex(text: &str) -> Option<Bytes> {
    if text.len() != 2 * BYTES || !text.is_ascii() {
        return None;
    }
    let mut bytes = [0; BYTES];
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(bytes)
}

/// Which side of a connection proves something: what one says is no proof of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Connecting,
    Accepting,
}

/// What both sides have seen of one connection; a proof is bound to it.
pub(crate) struct Transcript {
    /// Nonce of the connecting side.
    pub theirs: Bytes,
    /// Nonce of the accepting side.
    pub ours: Bytes,
    /// What is known of this one TLS channel only; zero where there is none.
    pub channel: Bytes,
}

impl Secret {
    fn words(&self, side: Side, seen: &Transcript) -> (hmac::Key, Vec<u8>) {
        let label: &[u8] = match side {
            Side::Connecting => b"forebay proof of the connecting side\0",
            Side::Accepting => b"forebay proof of the accepting side\0",
        };
        let words = [label, &WIRE_VERSION.to_le_bytes(), &seen.theirs, &seen.ours, &seen.channel].concat();
        (hmac::Key::new(hmac::HMAC_SHA256, &self.0), words)
    }

    /// What only who knows the secret can say about this connection.
    pub(crate) fn prove(&self, side: Side, seen: &Transcript) -> String {
        let (key, words) = self.words(side, seen);
        hex(hmac::sign(&key, &words).as_ref())
    }

    /// Whether the other side knows it, in a time that does not depend on what it said.
    pub(crate) fn proves(&self, side: Side, seen: &Transcript, proof: &str) -> bool {
        let (key, words) = self.words(side, seen);
        unhex(proof).is_some_and(|proof| hmac::verify(&key, &words, &proof).is_ok())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Fingerprint {
    /// The fingerprint of a certificate, from its DER.
    pub fn of(certificate: &[u8]) -> Fingerprint {
        let mut bytes = [0; BYTES];
        bytes.copy_from_slice(digest::digest(&digest::SHA256, certificate).as_ref());
        Fingerprint(bytes)
    }

    /// Reads 64 hexadecimal digits.
    pub fn parse(text: &str) -> Result<Fingerprint> {
        unhex(text).map(Fingerprint).ok_or_else(|| {
            Error::new(Code::Corrupt, "a certificate's fingerprint is not 64 hexadecimal digits".to_owned())
        })
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

impl Key {
    /// A new one, for an agent that begins to listen.
    pub fn new() -> Result<Key> {
        Ok(Key { id: hex(&random::<8>()?), secret: Secret(random()?), certificate: None })
    }

    /// Returns a key with this secret and another certificate: that of a server that an agent vouches for.
    pub fn behind(&self, certificate: Option<Fingerprint>) -> Key {
        Key { certificate, ..self.clone() }
    }

    /// What the rendezvous file says of it.
    pub fn network(&self, listen: &str) -> Network {
        Network {
            listen: listen.to_owned(),
            id: self.id.clone(),
            secret: hex(&self.secret.0),
            certificate: self.certificate.map(|c| c.to_string()),
        }
    }
}

impl Network {
    /// The key in it.
    pub fn key(&self) -> Result<Key> {
        let fault =
            || Error::new(Code::Corrupt, "a rendezvous file holds no secret of 64 hexadecimal digits");
        let secret = unhex(&self.secret).map(Secret).ok_or_else(fault)?;
        let certificate = self.certificate.as_deref().map(Fingerprint::parse).transpose()?;
        Ok(Key { id: self.id.clone(), secret, certificate })
    }

    /// What a rendezvous file says of the network, if it does.
    pub fn read(path: &Path) -> Option<Network> {
        #[derive(Deserialize)]
        struct File {
            network: Option<Network>,
        }
        let meta = std::fs::metadata(path).ok().filter(|m| m.is_file() && m.len() <= FILE_BYTES)?;
        let bytes = std::fs::read(path).ok().filter(|b| b.len() as u64 <= meta.len().max(FILE_BYTES))?;
        serde_json::from_slice::<File>(&bytes).ok()?.network
    }
}

impl Keys {
    /// The keys in all rendezvous files of the user's Forebay home.
    pub fn of_home() -> Result<Keys> {
        Keys::in_dir(&directories::home()?)
    }

    /// The keys in all rendezvous files of a directory.
    pub fn in_dir(dir: &Path) -> Result<Keys> {
        let entries = std::fs::read_dir(dir)
            .map_err(|e| Error::io(format!("cannot read the directory {}", dir.display()), e))?;
        let files =
            entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "json"));
        let keys = files.take(FILES).filter_map(|p| Network::read(&p)?.key().ok()).collect();
        Ok(Keys { keys })
    }

    /// The one of that name.
    pub(crate) fn of(&self, id: &str) -> Option<&Key> {
        self.keys.iter().find(|k| k.id == id)
    }

    /// The certificates that are known, for TLS.
    pub(crate) fn certificates(&self) -> Vec<Fingerprint> {
        self.keys.iter().filter_map(|k| k.certificate).collect()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The keys.
    pub fn iter(&self) -> impl Iterator<Item = &Key> {
        self.keys.iter()
    }
}

impl From<Key> for Keys {
    fn from(key: Key) -> Keys {
        Keys { keys: vec![key] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_holds_for_its_side_its_nonces_and_its_channel_only() {
        let (key, other) = (Key::new().unwrap(), Key::new().unwrap());
        let seen = |a, b, c| Transcript { theirs: [a; 32], ours: [b; 32], channel: [c; 32] };
        let proof = key.secret.prove(Side::Connecting, &seen(1, 2, 3));
        assert!(key.secret.proves(Side::Connecting, &seen(1, 2, 3), &proof));
        assert!(!key.secret.proves(Side::Accepting, &seen(1, 2, 3), &proof), "reflected");
        for changed in [seen(9, 2, 3), seen(1, 9, 3), seen(1, 2, 9), seen(2, 1, 3)] {
            assert!(!key.secret.proves(Side::Connecting, &changed, &proof));
        }
        assert!(!other.secret.proves(Side::Connecting, &seen(1, 2, 3), &proof));
        assert!(!key.secret.proves(Side::Connecting, &seen(1, 2, 3), &proof[1..]));
        assert!(!key.secret.proves(Side::Connecting, &seen(1, 2, 3), &"ä".repeat(32)));
    }

    #[test]
    fn a_key_goes_through_a_rendezvous_file_and_shows_its_secret_nowhere_else() {
        let dir = tempfile::tempdir().unwrap();
        let key = Key::new().unwrap().behind(Some(Fingerprint::of(b"certificate")));
        let file = serde_json::json!({"pid": 1, "network": key.network("0.0.0.0:7")});
        std::fs::write(dir.path().join("here.json"), file.to_string()).unwrap();
        std::fs::write(dir.path().join("other.json"), "{\"pid\": 1}").unwrap();
        std::fs::write(dir.path().join("broken.json"), "{").unwrap();
        let keys = Keys::in_dir(dir.path()).unwrap();
        assert_eq!(keys.of(&key.id), Some(&key));
        assert_eq!(keys.certificates(), [Fingerprint::of(b"certificate")]);
        let secret = hex(&key.secret.0);
        assert!(file.to_string().contains(&secret));
        assert!(!format!("{keys:?}").contains(&secret[..8]));
    }
}
