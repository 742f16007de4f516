//! Memory that processes share and that outlives them: segments with two rings, a table of
//! blocks and doorbells. Home of almost all `unsafe` of the project; it knows bytes and
//! positions, and nothing of frames, services, runs or sockets.
//!
//! The way of the data: the creating side fills a [`Block`] from its [`Allocator`], then
//! publishes a record that names it through a [`Producer`]; the other side reads the record
//! with its [`Consumer`], uses the block in place, [releases](Segment::release) it, and only
//! then releases the ring. A [`Bell`] wakes who sleeps. No lock is shared between processes,
//! so a process killed at any instruction leaves the other one able to go on.
//!
//! ```
//! use forebay_arena::{Direction, Segment, SegmentSpec};
//! # fn main() -> forebay_types::Result<()> {
//! let spec = SegmentSpec {
//!     name: String::new(), // no name: a memory file that dies with its last user
//!     kind: 1,
//!     up_bytes: 4096,
//!     down_bytes: 4096,
//!     block_bytes: 1 << 20,
//!     blocks: 16,
//! };
//! let ours = Segment::create(&spec)?;
//! let theirs = Segment::from_fd(ours.fd().try_clone_to_owned().unwrap())?;
//! let block = ours.allocator().alloc(5).unwrap();
//! block.write_from(0, b"hello");
//! ours.producer(Direction::Up).push(&[&block.index().to_le_bytes()]).unwrap();
//!
//! let mut record = Vec::new();
//! let mut up = theirs.consumer(Direction::Up);
//! let position = up.next(&mut record)?.unwrap();
//! let index = u32::from_le_bytes(record[..].try_into().unwrap());
//! assert_eq!(theirs.block(index)?.view().to_vec(), b"hello");
//! theirs.release(index)?;
//! up.release_to(position);
//! # Ok(())
//! # }
//! ```
#![allow(unsafe_code)] // the crate that exists so that others can forbid it
#![deny(unsafe_op_in_unsafe_fn)]
#![cfg_attr(loom, allow(dead_code))] // the models use a part of it

mod bell;
mod books;
#[cfg(test)]
mod models;
mod ring;
mod sync;
mod table;
mod triple;
mod turn;

pub use ring::{Full, RingMemory, footprint};

#[cfg(not(loom))]
mod alloc;
#[cfg(not(loom))]
mod block;
#[cfg(not(loom))]
mod copy;
#[cfg(not(loom))]
mod crowd;
#[cfg(not(loom))]
mod doorbell;
#[cfg(not(loom))]
mod file_map;
#[cfg(not(loom))]
mod layout;
#[cfg(not(loom))]
mod lent;
#[cfg(not(loom))]
mod map;
#[cfg(not(loom))]
pub mod measure;
#[cfg(not(loom))]
mod mirror;
#[cfg(not(loom))]
mod pages;
#[cfg(not(loom))]
mod segment;
#[cfg(not(loom))]
pub mod segments;
#[cfg(not(loom))]
mod spin;
#[cfg(not(loom))]
mod view;

#[cfg(not(loom))]
pub use alloc::{Allocator, OwnAllocator, OwnBlock};
#[cfg(not(loom))]
pub use bell::Bell;
#[cfg(not(loom))]
pub use block::Block;
#[cfg(not(loom))]
pub use copy::{copy_streaming, with_wide_vectors};
#[cfg(not(loom))]
pub use doorbell::Doorbell;
#[cfg(not(loom))]
pub use file_map::FileMap;
#[cfg(not(loom))]
pub use layout::{Direction, SegmentSpec, WORDS};
#[cfg(not(loom))]
pub use lent::{Lent, PARTS};
#[cfg(not(loom))]
pub use mirror::Mirror;
#[cfg(not(loom))]
pub use pages::{append, copy_of, fill_behind, room_for, zeros};
#[cfg(not(loom))]
pub use segment::{Consumer, Mapped, Producer, Segment};
#[cfg(not(loom))]
pub use spin::{Spin, glance};
#[cfg(not(loom))]
pub use triple::{TripleBuffer, TripleReader, TripleWriter, Update};
#[cfg(not(loom))]
pub use turn::{TryLock, TryLockGuard};
#[cfg(not(loom))]
pub use view::{Plain, View};
