//! When the memory of arguments is the caller's again, and the copies that some calls keep of them.
//!
//! | | what goes only is the caller's again | its price |
//! | --- | --- | --- |
//! | `Nowait` | when the call is complete | none |
//! | `Wait` | when the call has been sent | a call whose server is lost is not issued again |
//! | `Copy` | when the call has been sent | a copy; over the network it leaves behind the caller's back |
//!
//! An array that comes back is the call's until it is complete, whatever is chosen.

use std::sync::{Arc, OnceLock};

use forebay_link::call::{Bulk, room};
use forebay_link::pool::{Budget, Lease, Pool};
use forebay_link::stream::LargePart;
use forebay_types::{Error, Result};

/// How arguments are handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transfer {
    /// They are the call's until it is complete: read where they lie, once more if its server is lost.
    #[default]
    Nowait,
    /// When the call has been sent, what goes only has been read for the last time: a call whose
    /// server is lost after that fails with `ServerLost`.
    Wait,
    /// They are copied at once. What leaves, now and if its server is lost, is the copy; over the
    /// network nobody waits for it.
    Copy,
}

impl Transfer {
    /// Reads `nowait`, `wait` or `copy`.
    pub fn parse(text: &str) -> Result<Transfer> {
        match text {
            "nowait" => Ok(Transfer::Nowait),
            "wait" => Ok(Transfer::Wait),
            "copy" => Ok(Transfer::Copy),
            _ => Err(Error::bad(format!(
                "{text:?} is no way to hand arguments over; use \"nowait\", \"wait\" or \"copy\""
            ))),
        }
    }
}

/// The bytes of an argument in memory of a call's own; clones are the same bytes.
#[derive(Clone)]
pub(super) struct OwnCopy(Arc<dyn AsRef<[u8]> + Send + Sync>);

impl OwnCopy {
    pub fn small(bytes: Vec<u8>) -> OwnCopy {
        OwnCopy(Arc::new(bytes))
    }

    pub fn large(lease: Lease) -> OwnCopy {
        OwnCopy(Arc::new(lease))
    }

    pub fn bytes(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

impl AsRef<[u8]> for OwnCopy {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

/// What copies are made of; made when first needed.
#[derive(Default)]
pub(super) struct Copies {
    pool: OnceLock<Pool>,
}

impl Copies {
    pub fn pool(&self) -> &Pool {
        self.pool.get_or_init(|| Pool::new(&Budget::new(room())))
    }
}

/// Large arguments that go over the network.
#[derive(Clone, Copy)]
pub(super) enum Large<'a> {
    /// From where they lie; the caller waits until they have left.
    Here(&'a [&'a [u8]]),
    /// Copies, which leave by and by.
    Kept(&'a [OwnCopy]),
}

impl<'a> Large<'a> {
    /// As a sender takes them.
    pub fn bulk(self) -> Bulk<'a> {
        match self {
            Large::Here(parts) => Bulk::Here(parts),
            Large::Kept(kept) => Bulk::Kept(kept.iter().map(|k| Box::new(k.clone()) as LargePart).collect()),
        }
    }
}
