//! Encoded diagrams, shared by all viewers that look in the same way.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use axum::body::Bytes;

use crate::reduce::Window;

/// Different windows upon one diagram that are kept.
const WINDOWS: usize = 4;

struct Picture {
    window: Window,
    version: u64,
    bytes: Bytes,
}

/// The newest encodings of each diagram.
#[derive(Default)]
pub struct Pictures {
    all: Mutex<HashMap<u32, Vec<Picture>>>,
}

impl Pictures {
    /// The encoding of this version for this window; `encode` makes it if nobody asked before.
    pub fn get(
        &self,
        diagram: u32,
        version: u64,
        window: &Window,
        encode: impl FnOnce() -> Vec<u8>,
    ) -> Bytes {
        if let Some(bytes) = self.find(diagram, version, window) {
            return bytes;
        }
        let bytes = Bytes::from(encode());
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = all.entry(diagram).or_default();
        kept.retain(|p| p.version == version);
        if kept.len() < WINDOWS {
            kept.push(Picture { window: *window, version, bytes: bytes.clone() });
        }
        bytes
    }

    fn find(&self, diagram: u32, version: u64, window: &Window) -> Option<Bytes> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = all.get(&diagram)?;
        kept.iter().find(|p| p.version == version && p.window == *window).map(|p| p.bytes.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_viewers_with_the_same_window_cost_one_encoding() {
        let pictures = Pictures::default();
        let window = |columns| Window { columns, range: None, log: false };
        let mut encoded = 0;
        for (version, columns) in [(1, 64), (1, 64), (1, 128), (2, 64), (2, 64)] {
            pictures.get(0, version, &window(columns), || {
                encoded += 1;
                vec![0]
            });
        }
        assert_eq!(encoded, 3);
        for columns in 0..100 {
            pictures.get(0, 2, &window(columns), || vec![0]);
        }
        assert_eq!(pictures.all.lock().unwrap()[&0].len(), WINDOWS);
    }
}
