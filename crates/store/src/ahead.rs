//! Reading ahead: whoever reads an array of one step after the other, forwards or backwards, finds the next one in
//! memory. The system is told that its bytes will be wanted, and reads them while the reader works on these.

use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::num::NonZeroU64;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Smaller arrays are read as fast as they are fetched.
const LEAST: u64 = 1 << 20;
/// More of one array is not asked for: memory is wanted by others, too.
const MOST: u64 = 1 << 30;

/// What was read last.
#[derive(Default)]
pub(crate) struct Ahead {
    last: Mutex<Option<(String, i64)>>,
}

impl Ahead {
    /// Notes that an array of a step is read. The step of which it was read before, if it is another one and so large
    /// an array is worth being fetched.
    pub fn note(&self, name: &str, step: i64, bytes: u64) -> Option<i64> {
        if bytes < LEAST {
            return None;
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *last {
            Some((known, before)) if known == name => {
                Some(std::mem::replace(before, step)).filter(|b| *b != step)
            }
            other => {
                *other = Some((name.to_owned(), step));
                None
            }
        }
    }
}

/// The neighbour of a step on the other side of the one that was read before.
pub(crate) fn onwards(step: i64, before: i64, neighbours: &[i64]) -> Option<i64> {
    let is_beside = neighbours.contains(&before);
    neighbours.iter().copied().find(|n| is_beside && (*n > step) == (step > before))
}

/// Has bytes of a file read into memory, and does not wait for it.
pub(crate) fn fetch(file: File, offset: u64, bytes: u64) {
    let advise = move || {
        let _ = fadvise(&file, offset, NonZeroU64::new(bytes.min(MOST)), Advice::WillNeed);
    };
    // Where there is no thread to be had, it is read when it is wanted.
    drop(thread::Builder::new().name("fb-ahead".into()).spawn(advise));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_step_is_the_one_on_the_other_side_of_the_last() {
        let ahead = Ahead::default();
        assert_eq!(ahead.note("T", 10, LEAST), None);
        assert_eq!(ahead.note("T", 20, LEAST), Some(10));
        assert_eq!(onwards(20, 10, &[10, 30]), Some(30));
        assert_eq!(onwards(20, 30, &[10, 30]), Some(10), "backwards");
        assert_eq!(onwards(20, 0, &[10, 30]), None, "a jump");
        assert_eq!(onwards(20, 10, &[10]), None, "at the end");
        assert_eq!(ahead.note("T", 20, LEAST), None, "the same again");
        assert_eq!(ahead.note("E", 30, LEAST - 1), None);
        assert_eq!(ahead.note("T", 30, LEAST), Some(20), "small arrays between do not count");
        assert_eq!(ahead.note("E", 30, LEAST), None);
    }
}
