//! Pages of memory that is about to be filled whole.

use rustix::mm::{Advice, madvise};

/// The kernel's large pages, of which at least a few must fit.
const LARGE: usize = 2 << 20;
const PAGE: usize = 4096;

/// Asks the kernel for large pages where all of this memory is to be written now: the first touch of
/// each small one costs as much as copying it. A kernel that has none left gives small ones.
pub fn prefer_large_pages(memory: &mut [u8]) {
    if memory.len() < 4 * LARGE {
        return;
    }
    let skip = memory.as_ptr().align_offset(PAGE);
    let whole = (memory.len() - skip) / PAGE * PAGE;
    let from = memory[skip..].as_mut_ptr();
    // SAFETY: whole pages inside memory that is borrowed exclusively; the advice changes no contents.
    let _ = unsafe { madvise(from.cast(), whole, Advice::LinuxHugepage) };
}

#[cfg(test)]
mod tests {
    #[test]
    fn memory_stays_what_it_is() {
        let mut memory: Vec<u8> = (0..20usize << 20).map(|i| i as u8).collect();
        super::prefer_large_pages(&mut memory[5..]);
        super::prefer_large_pages(&mut []);
        assert!(memory.iter().enumerate().all(|(i, b)| *b == i as u8));
    }
}
