//! The end at the program: towards the rank it is the owner of the run, towards the line the rank.

use super::down::Down;
use super::up::Up;
use crate::stream::{NoPlace, Received, Stream};
use forebay_arena::Segment;
use forebay_types::codec::Reader;
use forebay_types::line::{OwnerWords, RemoteResumed, kind};
use forebay_types::{Code, Error, Result};
use std::time::Duration;

/// Notices that find no room in the rank's ring are tried again so often.
const AGAIN: Duration = Duration::from_millis(5);

/// One session, at the program's host.
pub struct RankEnd {
    up: Up,
    down: Down,
}

/// What a turn has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Something has come over the line.
    pub heard: bool,
    /// There was something to do.
    pub worked: bool,
}

impl RankEnd {
    /// Of a segment that its rank has just made.
    pub fn new(segment: &Segment) -> RankEnd {
        RankEnd { up: Up::new(segment), down: Down::new(segment) }
    }

    /// Takes what has come, and sends what may go.
    pub fn turn(&mut self, line: &mut Stream) -> Result<Turn> {
        let before = line.received();
        while let Some(received) = line.next(&mut NoPlace)? {
            self.hear(&received)?;
        }
        let heard = line.received() != before;
        let mut worked = heard;
        self.down.flush();
        worked |= self.up.pump(line, self.down.epoch, self.down.heard)?;
        line.flush()?;
        Ok(Turn { heard, worked })
    }

    fn hear(&mut self, Received { header, body, .. }: &Received) -> Result<()> {
        match header.kind {
            kind::NOTICE => self.down.notice(header.id, body),
            kind::OWNER => {
                let words = OwnerWords::decode(body)?;
                self.down.words(&words);
                self.up.words_of_owner(&words);
            }
            kind::RELEASED => self.up.released(body)?,
            kind::WATCHED => {
                let mut r = Reader::new(body);
                while r.remaining() > 0 {
                    self.up.watch(r.u32()?, r.u32()? != 0);
                }
            }
            other => {
                let text = format!("a frame of kind {other} came from the owner of a run");
                return Err(Error::new(Code::Corrupt, text));
            }
        }
        Ok(())
    }

    /// Whether the rank has published something that was not read.
    pub fn pending(&mut self) -> bool {
        self.up.pending()
    }

    /// When there is something to look at again, if nothing wakes whoever drives this.
    pub fn pause(&self) -> Duration {
        if self.down.waits() { AGAIN } else { self.up.pause() }
    }

    /// How many notices are in the rank's ring.
    pub fn heard(&self) -> u64 {
        self.down.heard
    }

    /// Another connection to the same mirror, which has this.
    pub fn resume(&mut self, remote: &RemoteResumed) {
        self.up.resume(remote);
        self.down.resume();
    }

    /// The session ends here, and the rank learns why.
    pub fn last_word(&mut self, why: &Error) {
        self.down.last_word(why);
    }
}
