//! Small things of a call that the next call of the same thread uses again: taking memory from
//! the system's allocator and giving it back would cost as much as the sending.

use std::cell::RefCell;
use std::sync::Arc;

use super::connection::Pending;

/// Most of each that one thread keeps: as many as it has under way when it sends many calls and takes their results then.
const KEPT: usize = 1024;
/// Buffers that have grown beyond this go back.
const BYTES: usize = 64 * 1024;
/// All buffers that one thread keeps have room for no more than this.
const ALL_BYTES: usize = 64 * BYTES;

#[derive(Default)]
struct Spare {
    buffers: Vec<Vec<u8>>,
    /// Bytes that these have room for.
    bytes: usize,
    pending: Vec<Arc<Pending>>,
}

impl Spare {
    fn buffer(&mut self) -> Option<Vec<u8>> {
        let buffer = self.buffers.pop()?;
        self.bytes -= buffer.capacity();
        Some(buffer)
    }

    fn keep_buffer(&mut self, buffer: Vec<u8>) {
        let bytes = self.bytes + buffer.capacity();
        if self.buffers.len() < KEPT && bytes <= ALL_BYTES {
            self.bytes = bytes;
            self.buffers.push(buffer);
        }
    }
}

thread_local! {
    static SPARE: RefCell<Spare> = RefCell::default();
}

/// An empty buffer.
pub(super) fn buffer() -> Vec<u8> {
    let found = SPARE.try_with(|spare| spare.borrow_mut().buffer());
    found.ok().flatten().unwrap_or_else(|| Vec::with_capacity(256))
}

/// Keeps a buffer for the next one.
pub(super) fn keep_buffer(mut buffer: Vec<u8>) {
    buffer.clear();
    if buffer.capacity() <= BYTES {
        // A thread that ends keeps nothing.
        let _ = SPARE.try_with(|spare| spare.borrow_mut().keep_buffer(buffer));
    }
}

/// The bytes of a short buffer in memory of their own, which many may take; the buffer is kept for the next one.
pub(super) fn compact(buffer: Vec<u8>) -> Vec<u8> {
    if buffer.capacity() < 2 * buffer.len() {
        return buffer;
    }
    let own = buffer.as_slice().to_vec();
    keep_buffer(buffer);
    own
}

/// A call that nobody has made yet.
pub(super) fn pending() -> Arc<Pending> {
    let found = SPARE.try_with(|spare| spare.borrow_mut().pending.pop());
    found.ok().flatten().unwrap_or_default()
}

/// Keeps a call that is over, if nobody else looks at it any more.
pub(super) fn keep_pending(mut pending: Arc<Pending>) {
    if let Some(alone) = Arc::get_mut(&mut pending) {
        alone.reset();
        let _ = SPARE.try_with(|spare| {
            let kept = &mut spare.borrow_mut().pending;
            if kept.len() < KEPT {
                kept.push(pending);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_many_short_buffers_and_few_long_ones() {
        let mut spare = Spare::default();
        for _ in 0..2 * KEPT {
            spare.keep_buffer(Vec::with_capacity(256));
        }
        assert_eq!(spare.buffers.len(), KEPT);
        while spare.buffer().is_some() {}
        assert_eq!(spare.bytes, 0);
        for _ in 0..KEPT {
            spare.keep_buffer(Vec::with_capacity(BYTES));
        }
        assert!(spare.bytes <= ALL_BYTES && spare.buffers.len() <= ALL_BYTES / BYTES, "{}", spare.bytes);
    }
}
