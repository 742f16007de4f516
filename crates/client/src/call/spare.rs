//! Small things of a call that the next call of the same thread uses again: taking memory from
//! the system's allocator and giving it back would cost as much as the sending.

use std::cell::RefCell;
use std::sync::Arc;

use super::connection::Pending;

/// Most of each that one thread keeps.
const KEPT: usize = 64;
/// Buffers that have grown beyond this go back.
const BYTES: usize = 64 * 1024;

#[derive(Default)]
struct Spare {
    buffers: Vec<Vec<u8>>,
    pending: Vec<Arc<Pending>>,
}

thread_local! {
    static SPARE: RefCell<Spare> = RefCell::default();
}

/// An empty buffer.
pub(super) fn buffer() -> Vec<u8> {
    let found = SPARE.try_with(|spare| spare.borrow_mut().buffers.pop());
    found.ok().flatten().unwrap_or_else(|| Vec::with_capacity(256))
}

/// Keeps a buffer for the next one.
pub(super) fn keep_buffer(mut buffer: Vec<u8>) {
    buffer.clear();
    if buffer.capacity() <= BYTES {
        // A thread that ends keeps nothing.
        let _ = SPARE.try_with(|spare| {
            let buffers = &mut spare.borrow_mut().buffers;
            if buffers.len() < KEPT {
                buffers.push(buffer);
            }
        });
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
