//! Pages of memory that is about to be filled whole.

use rustix::mm::{Advice, madvise};
use std::mem::MaybeUninit;

/// The kernel's large pages, of which at least a few must fit.
const LARGE: usize = 2 << 20;
const PAGE: usize = 4096;

/// Memory for so many bytes, all of which are to be written now. It asks the kernel for large pages: the first
/// touch of each small one costs as much as copying it. A kernel that has none left gives small ones.
pub fn room_for(bytes: usize) -> Vec<u8> {
    let mut memory = Vec::with_capacity(bytes);
    prefer_large_pages(memory.spare_capacity_mut());
    memory
}

fn prefer_large_pages(memory: &mut [MaybeUninit<u8>]) {
    if memory.len() < 4 * LARGE {
        return;
    }
    let skip = memory.as_ptr().align_offset(PAGE);
    let whole = (memory.len() - skip) / PAGE * PAGE;
    let from = memory[skip..].as_mut_ptr();
    // SAFETY: whole pages inside memory that is borrowed exclusively; the advice changes no contents.
    let _ = unsafe { madvise(from.cast(), whole, Advice::LinuxHugepage) };
}

/// Lets `fill` write at most `most` bytes behind those that are there, within the memory that `out` has: what
/// is about to be written is not cleared first. `fill` gives back the beginning of what it was given, as far as
/// it has filled it; that is what comes out.
pub fn fill_behind<E>(
    out: &mut Vec<u8>,
    most: usize,
    fill: impl for<'a> FnOnce(&'a mut [MaybeUninit<u8>]) -> Result<&'a mut [u8], E>,
) -> Result<&[u8], E> {
    let before = out.len();
    let room = out.spare_capacity_mut();
    let most = most.min(room.len());
    let room = &mut room[..most];
    let begin = room.as_ptr().cast::<u8>();
    let filled = fill(room)?;
    assert!(filled.as_ptr() == begin && filled.len() <= most, "only what was given can have been filled");
    let after = before + filled.len();
    // SAFETY: these bytes lie behind the ones there are, within the capacity. A `&mut [u8]` to them exists, so
    // they are initialized.
    unsafe { out.set_len(after) };
    Ok(&out[before..])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes as much of a text as there is room.
    fn write<'a>(room: &'a mut [MaybeUninit<u8>], text: &[u8]) -> Result<&'a mut [u8], ()> {
        let n = text.len().min(room.len());
        Ok(room[..n].write_copy_of_slice(&text[..n]))
    }

    #[test]
    fn memory_takes_what_is_written_behind_what_it_has() {
        let mut memory = room_for(20 << 20);
        assert!(memory.is_empty() && memory.capacity() >= 20 << 20);
        assert_eq!(fill_behind(&mut memory, 3, |room| write(room, b"abcdef")), Ok(&b"abc"[..]));
        assert_eq!(fill_behind(&mut memory, 100, |room| write(room, b"de")), Ok(&b"de"[..]));
        assert_eq!(fill_behind(&mut memory, 100, |_| Err(7)), Err(7));
        assert_eq!(memory, b"abcde");
        let mut full = Vec::new();
        assert_eq!(fill_behind(&mut full, 100, |room| write(room, b"more")), Ok(&b""[..]));
    }

    #[test]
    #[should_panic(expected = "only what was given")]
    fn other_bytes_than_those_given_are_refused() {
        let mut memory = room_for(8);
        let _ = fill_behind(&mut memory, 8, |_| Ok::<_, ()>(Vec::leak(vec![1; 4])));
    }
}
