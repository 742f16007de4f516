//! Pages of memory that is about to be filled whole. Where the system has none that is an error: arrays are as large as
//! their users make them, and a program is not to end for want of room for one.

use forebay_types::{Code, Error, Result};
use rustix::mm::{Advice, madvise};
use std::alloc::{Layout, alloc_zeroed};
use std::mem::MaybeUninit;

/// The kernel's large pages, of which at least a few must fit.
const LARGE: usize = 2 << 20;
const PAGE: usize = 4096;

/// Memory for so many bytes, all of which are to be written now. It asks the kernel for large pages: the first
/// touch of each small one costs as much as copying it. A kernel that has none left gives small ones. `Full` when there
/// is no memory.
pub fn room_for(bytes: usize) -> Result<Vec<u8>> {
    let mut memory = Vec::new();
    memory.try_reserve_exact(bytes).map_err(|_| no_memory(bytes))?;
    prefer_large_pages(memory.spare_capacity_mut());
    Ok(memory)
}

/// A copy of those bytes; `Full` when there is no memory for it.
pub fn copy_of(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut copy = room_for(bytes.len())?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

/// Puts bytes behind others; `Full` when there is no memory for them.
pub fn append(to: &mut Vec<u8>, bytes: &[u8]) -> Result<()> {
    to.try_reserve(bytes.len()).map_err(|_| no_memory(to.len() + bytes.len()))?;
    to.extend_from_slice(bytes);
    Ok(())
}

/// So many zeros, in memory of which all is to be written now, as that of [`room_for`].
pub fn zeros(bytes: usize) -> Result<Vec<u8>> {
    if bytes == 0 {
        return Ok(Vec::new());
    }
    let layout = Layout::array::<u8>(bytes).map_err(|_| no_memory(bytes))?;
    // SAFETY: the layout is not empty.
    let memory = unsafe { alloc_zeroed(layout) };
    if memory.is_null() {
        return Err(no_memory(bytes));
    }
    // SAFETY: the global allocator has just given this memory by the layout of so many bytes, and all are zero.
    let mut zeros = unsafe { Vec::from_raw_parts(memory, bytes, bytes) };
    // SAFETY: bytes that are there may be looked at as such that may not be.
    prefer_large_pages(unsafe { std::mem::transmute::<&mut [u8], &mut [MaybeUninit<u8>]>(&mut zeros[..]) });
    Ok(zeros)
}

#[cold]
fn no_memory(bytes: usize) -> Error {
    Error::new(
        Code::Full,
        format!(
            "the system has no memory for {bytes} bytes of an array or a text; take it in parts, free some, or raise `ulimit -v`"
        ),
    )
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
        let mut memory = room_for(20 << 20).unwrap();
        assert!(memory.is_empty() && memory.capacity() >= 20 << 20);
        assert_eq!(fill_behind(&mut memory, 3, |room| write(room, b"abcdef")), Ok(&b"abc"[..]));
        assert_eq!(fill_behind(&mut memory, 100, |room| write(room, b"de")), Ok(&b"de"[..]));
        assert_eq!(fill_behind(&mut memory, 100, |_| Err(7)), Err(7));
        assert_eq!(memory, b"abcde");
        let mut full = Vec::new();
        assert_eq!(fill_behind(&mut full, 100, |room| write(room, b"more")), Ok(&b""[..]));
    }

    #[test]
    fn zeros_are_zeros_and_more_than_there_is_is_an_error_with_a_remedy() {
        assert!(zeros(0).unwrap().is_empty());
        let mut some = zeros(20 << 20).unwrap();
        assert!(some.len() == 20 << 20 && some.iter().all(|byte| *byte == 0));
        some.push(1);
        for too_much in [isize::MAX as usize, usize::MAX] {
            for e in [zeros(too_much).unwrap_err(), room_for(too_much).unwrap_err()] {
                assert_eq!(e.code(), Code::Full);
                assert!(e.text().contains("take it in parts"), "{e}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "only what was given")]
    fn other_bytes_than_those_given_are_refused() {
        let mut memory = room_for(8).unwrap();
        let _ = fill_behind(&mut memory, 8, |_| Ok::<_, ()>(Vec::leak(vec![1; 4])));
    }
}
