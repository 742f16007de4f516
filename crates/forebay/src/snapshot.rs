//! Snapshots, the writing side: a group of arrays that appears as a whole or not at all.

use std::time::Duration;

use forebay_types::record::Place;
use forebay_types::{ArrayMeta, Error, Result};

use crate::View;

pub(crate) fn pending<T>() -> Result<T> {
    Err(Error::internal("the session is not joined to the facade in this commit"))
}

/// What goes with an array of a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// Unit, or empty.
    pub unit: &'a str,
    /// Where this rank's array lies in the whole.
    pub place: Place,
}

impl Default for Piece<'_> {
    fn default() -> Self {
        Piece { unit: "", place: Place::Whole }
    }
}

/// A snapshot being taken. Dropped without [`Snapshot::end`] it is discarded. Methods may be
/// called from any thread.
pub struct Snapshot {
    _private: (),
}

/// A place in the arena for an array of a snapshot: filled in place, it costs no copy.
pub struct Allocated {
    _private: (),
}

impl Snapshot {
    /// Its number.
    pub fn step(&self) -> i64 {
        0
    }

    /// Copies an array into the snapshot. The bytes are the caller's again when it returns.
    pub fn put(&self, name: &str, view: View, piece: Piece) -> Result<()> {
        let _ = (name, view, piece);
        pending()
    }

    /// A place in the arena for an array; fill it before [`Snapshot::end`], not after. `Full`
    /// when the arena has no room of that size.
    pub fn allocate(&self, name: &str, meta: ArrayMeta, piece: Piece) -> Result<Allocated> {
        let _ = (name, meta, piece);
        pending()
    }

    /// The snapshot is complete on this rank: it is buffered (survives the death of this
    /// process) when this returns. Ending twice does nothing.
    pub fn end(&self) -> Result<()> {
        pending()
    }

    /// Gives it up, as if it had never begun. After `end` it does nothing.
    pub fn discard(&self) -> Result<()> {
        pending()
    }

    /// Waits until the ended snapshot is durable on all ranks; `Timeout` when it takes longer.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<()> {
        let _ = timeout;
        pending()
    }
}

impl Allocated {
    /// What the array is.
    pub fn meta(&self) -> ArrayMeta {
        ArrayMeta::new(forebay_types::DType::U8, forebay_types::Shape::scalar())
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        0
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// First byte, 64-byte aligned (page aligned from 4 KiB on). Valid as long as this object, or
    /// a clone of it, lives; foreign-language arrays keep one.
    pub fn as_mut_ptr(&self) -> *mut u8 {
        std::ptr::null_mut()
    }

    /// Writes bytes at an offset.
    pub fn write_at(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        let _ = (offset, bytes);
        pending()
    }
}
