//! What the threads of a server are doing, where another process sees it when this one has died.
//!
//! ```text
//! [u32; 512]: 1 when the server serves; its incarnation, low half first; then one word a thread: 0, or 1 + the
//!             number of the routine that runs there
//! ```
//! The supervisor makes the file and reads it, the child maps it and writes; a word costs a store.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use forebay_types::directory::Incarnation;
use forebay_types::{Error, Result};

use crate::ffi;

/// Threads that are seen; what others do is not.
const THREADS: usize = 512;
/// The word of the first thread.
const FIRST: u32 = 3;

static WORDS: OnceLock<&'static [AtomicU32]> = OnceLock::new();
static NEXT: AtomicU32 = AtomicU32::new(FIRST);

thread_local! {
    /// The word of this thread; `u32::MAX` before it has one.
    static OWN: Cell<u32> = const { Cell::new(u32::MAX) };
}

/// The size of the file.
pub const BYTES: u64 = (THREADS * 4) as u64;

/// Tells from now on what this process does there.
pub fn write_to(file: &File) -> Result<()> {
    let words = ffi::shared_words(file.as_fd(), THREADS).map_err(|e| Error::io("cannot map the board", e))?;
    let _ = WORDS.set(words);
    Ok(())
}

/// Tells that the server serves, and which life of it this is.
pub fn say_ready(incarnation: Incarnation) {
    let said = [1, incarnation.0 as u32, (incarnation.0 >> 32) as u32];
    for (word, value) in WORDS.get().into_iter().flat_map(|words| words.iter()).zip(said) {
        word.store(value, Ordering::Relaxed);
    }
}

/// What a process that has ended did last.
pub struct Seen {
    /// Which life of the server it was, if it came to serve.
    pub incarnation: Option<Incarnation>,
    /// The numbers of the routines that ran.
    pub routines: BTreeSet<u32>,
}

/// What a process left there.
pub fn read_from(file: &File) -> Result<Seen> {
    let mut bytes = [0; THREADS * 4];
    file.read_exact_at(&mut bytes, 0).map_err(|e| Error::io("cannot read the board", e))?;
    let words = bytes.chunks_exact(4).map(|w| u32::from_ne_bytes([w[0], w[1], w[2], w[3]]));
    let words: Vec<u32> = words.collect();
    let routines = words[FIRST as usize..].iter().filter_map(|w| w.checked_sub(1)).collect();
    let number = u64::from(words[1]) | u64::from(words[2]) << 32;
    Ok(Seen { incarnation: (words[0] != 0).then_some(Incarnation(number)), routines })
}

/// Makes it empty again.
pub fn clear(file: &File) -> Result<()> {
    file.write_all_at(&[0; THREADS * 4], 0).map_err(|e| Error::io("cannot write the board", e))
}

/// While it lives, this thread runs that routine.
pub(crate) struct Runs(Option<&'static AtomicU32>);

impl Runs {
    #[inline]
    pub fn begin(routine: u32) -> Runs {
        let Some(words) = WORDS.get() else { return Runs(None) };
        let mut own = OWN.get();
        if own == u32::MAX {
            own = NEXT.fetch_add(1, Ordering::Relaxed);
            OWN.set(own);
        }
        let word = words.get(own as usize);
        word.inspect(|w| w.store(routine + 1, Ordering::Relaxed));
        Runs(word)
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        self.0.inspect(|w| w.store(0, Ordering::Relaxed));
    }
}
