//! How often each side of a connection says that it lives, and how long the other one bears to hear nothing. All of it
//! stands here, since one half means nothing without the other: a side is silent for as long as it is busy, its host is
//! down, or the network is cut.
//!
//! | connection | who says it | how often | who hears nothing for so long calls it lost |
//! | --- | --- | --- | --- |
//! | a call on one host | the server, by a word | [`HEART`] | [`STILL`], if its process is stopped or gone |
//! | anything on one host | who is called, by its greeting | | [`GREETING`] |
//! | a run on one host | the owner, by a word | [`HEART`] | [`STILL`], if its process is stopped or gone |
//! | a call over the network | the server, while a reply is due | [`BEAT`] | `FOREBAY_SILENCE`, 10 s unless told otherwise; [`BULK`] times that while an array or a file is on its way |
//! | a run of another host | the rank's side | [`OF_RANK`] | the store's side |
//! | | the store's side | [`OF_STORE`] | the rank's side, which opens the line again |
//! | the rest of a dead rank | the store's side | [`OF_STORE`] | [`OF_REST`] |
//! | a run read from another host | the store's side, with the bytes of an answer | | [`OF_ANSWER`] |

use std::time::Duration;

/// One side of a line.
#[derive(Clone, Copy, Debug)]
pub struct Silence {
    /// It says something so often in any case.
    pub says: Duration,
    /// Whoever has heard nothing of it for so long gives the line up.
    pub lost: Duration,
}

/// Who is called has greeted within this, or is stopped; so whoever waits for 2 s is told what is the matter.
pub const GREETING: Duration = Duration::from_millis(1900);
/// Between two beats of the heart of a server, and of the owner of a run.
pub const HEART: Duration = Duration::from_millis(200);
/// A heart that stood still for so long is looked at more closely.
pub const STILL: Duration = Duration::from_secs(1);
/// Between two signs of life of a server on another host.
pub const BEAT: Duration = Duration::from_secs(1);
/// So many times longer who is on the network may be silent while bulk moves: a line that is full loses frames, and what
/// was lost holds up all that comes behind it.
pub const BULK: u32 = 2;
/// The rank's side of a run on another host.
pub const OF_RANK: Silence = Silence { says: Duration::from_secs(1), lost: Duration::from_secs(6) };
/// The store's side. It is given up earlier: whoever opens the line again finds the mirror waiting.
pub const OF_STORE: Silence = Silence { says: Duration::from_millis(500), lost: Duration::from_secs(4) };
/// For whoever brings the rest of a session there: nobody opens that line again.
pub const OF_REST: Duration = Duration::from_secs(10);
/// For a reader: the store's disk may be busy.
pub const OF_ANSWER: Duration = Duration::from_secs(120);
