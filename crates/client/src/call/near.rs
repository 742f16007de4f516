//! Arrays that a server of this host holds, put and got where they lie: with one copy, and without a word to the server.
//!
//! ```text
//! put, get:  no call uses the array ------------------------> copy here
//!            calls do, and much is to be copied -> a call that moves nothing waits for its turn behind them -> copy here
//!            else --------------------------------------------> a call that copies there
//! ```
//!
//! The server holds a client's arrays in a segment of its own, which the client maps when it makes the first one. So
//! nothing waits for a worker of the server, who may have a long call to run that uses other arrays.
//! Only its own calls use them, so it knows who does: each call that refers to an array [counts](CallUse) from before it
//! is sent until its reply is found, and threads that copy [count](Copying), too. Whoever writes has the array alone, as
//! in the queue of the server. Over the network, and where address space is limited, all of this is done by calls.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forebay_arena::{Block, Segment, View};
use forebay_host::rlimits;
use forebay_types::{Order, Strided};

use super::args::Arg;
use super::connection::Connection;
use super::{Inner, lock};

/// From this size on two copies take longer than a call that waits for others.
pub(super) const LARGE: usize = 256 << 10;
/// Between two looks whether the server is there still.
const LOOK: Duration = Duration::from_millis(10);
/// How long after such a call its forerunners' replies are waited for, which are on their way.
const REPLIES: Duration = Duration::from_millis(1);

/// The segment of a connection's arrays.
pub(super) struct HeldSegment(Mutex<Mapped>);

struct Mapped {
    segment: Option<Segment>,
    /// It is to be had only once.
    is_asked_for: bool,
    looked: Instant,
}

/// An array that lies there.
pub(super) struct Near {
    block: u32,
    bytes: u64,
    pub uses: Arc<Uses>,
}

/// Who uses an array just now.
#[derive(Default)]
pub(super) struct Uses {
    users: Mutex<Users>,
    copied: Condvar,
}

#[derive(Default)]
struct Users {
    /// Calls that read it, and calls that write it.
    calls: [u32; 2],
    /// Threads that copy from it, and to it.
    copying: [u32; 2],
    /// Threads that wait for those.
    waiting: u32,
    /// It is killed, or about to be.
    is_closed: bool,
    /// No call has used it since a thread of this process has written it: no other core has its lines.
    is_ours: bool,
}

/// A call uses an array.
pub(super) struct CallUse {
    uses: Arc<Uses>,
    writes: bool,
}

/// A thread copies from an array or to it.
pub(super) struct Copying<'u> {
    uses: &'u Uses,
    writes: bool,
    /// No other core has looked at the array since this process wrote it.
    pub is_ours: bool,
}

impl Default for HeldSegment {
    fn default() -> HeldSegment {
        HeldSegment(Mutex::new(Mapped { segment: None, is_asked_for: false, looked: Instant::now() }))
    }
}

impl HeldSegment {
    /// Maps it, once; says whether it is there. Without it all is done by calls.
    fn map(&self, inner: &Inner, connection: &Connection) -> bool {
        let mut mapped = lock(&self.0);
        if !mapped.is_asked_for {
            mapped.is_asked_for = true;
            // As large as all that the server may hold.
            if rlimits::address_space_left().is_none() && connection.lost().is_none() {
                mapped.segment = connection.files.dial_arrays(inner, connection).ok();
            }
        }
        mapped.segment.is_some()
    }

    /// The segment, if its server is there as far as is known.
    fn get(&self, connection: &Connection) -> Option<Segment> {
        let segment = {
            let mut mapped = lock(&self.0);
            if mapped.looked.elapsed() < LOOK {
                return mapped.segment.clone();
            }
            mapped.looked = Instant::now();
            mapped.segment.clone()
        };
        connection.look();
        segment.filter(|_| connection.lost().is_none())
    }

    /// The server is lost, and what it held with it.
    pub fn let_go(&self) {
        lock(&self.0).segment = None;
    }
}

impl Near {
    /// An array that was made in that block; none where it is to be used by calls alone.
    pub fn new(inner: &Inner, connection: &Connection, block: u32, bytes: u64) -> Option<Near> {
        let is_near = bytes > 0 && connection.is_near() && connection.held.map(inner, connection);
        is_near.then(|| Near { block, bytes, uses: Arc::default() })
    }

    /// Its memory, if its server is there as far as is known.
    pub fn block(&self, connection: &Connection) -> Option<Block> {
        let block = connection.held.get(connection)?.block(self.block).ok()?;
        (block.len() == self.bytes).then_some(block)
    }
}

impl Users {
    fn may_copy(&self, writes: bool) -> bool {
        self.copying[1] == 0 && (!writes || self.copying[0] == 0)
    }
}

impl Uses {
    /// A call that uses the array is about to be sent; waits while threads copy.
    pub fn call(self: &Arc<Uses>, writes: bool) -> CallUse {
        let mut users = self.wait(|users| users.may_copy(writes));
        users.calls[usize::from(writes)] += 1;
        users.is_ours = false;
        CallUse { uses: self.clone(), writes }
    }

    /// This thread is about to copy; waits while others do. None while calls use the array, or when it is killed.
    pub fn copy(&self, writes: bool) -> Option<Copying<'_>> {
        let is_taken = |users: &Users| users.is_closed || users.calls[1] > 0 || writes && users.calls[0] > 0;
        let mut users = self.wait(|users| is_taken(users) || users.may_copy(writes));
        if is_taken(&users) {
            return None;
        }
        users.copying[usize::from(writes)] += 1;
        let is_ours = users.is_ours;
        users.is_ours |= writes;
        Some(Copying { uses: self, writes, is_ours })
    }

    /// As [`Uses::copy`], for calls whose replies may be on their way: `take_replies` takes those that are there.
    pub fn copy_soon(&self, writes: bool, take_replies: impl Fn()) -> Option<Copying<'_>> {
        let since = Instant::now();
        loop {
            take_replies();
            let copying = self.copy(writes);
            if copying.is_some() || since.elapsed() > REPLIES {
                return copying;
            }
            std::thread::yield_now();
        }
    }

    /// Nobody copies from now on.
    pub fn close(&self) {
        lock(&self.users).is_closed = true;
        drop(self.wait(|users| users.copying == [0, 0]));
    }

    fn wait(&self, may_go_on: impl Fn(&Users) -> bool) -> MutexGuard<'_, Users> {
        let mut users = lock(&self.users);
        while !may_go_on(&users) {
            users.waiting += 1;
            users = self.copied.wait(users).unwrap_or_else(PoisonError::into_inner);
            users.waiting -= 1;
        }
        users
    }
}

impl Drop for CallUse {
    fn drop(&mut self) {
        lock(&self.uses.users).calls[usize::from(self.writes)] -= 1;
    }
}

impl Drop for Copying<'_> {
    fn drop(&mut self) {
        let mut users = lock(&self.uses.users);
        users.copying[usize::from(self.writes)] -= 1;
        if users.waiting > 0 {
            self.uses.copied.notify_all();
        }
    }
}

/// Whether a part can be moved with one copy: its elements or those of the caller's lie together, and they are as many.
pub(super) fn can_move(part: &Strided, data: &Arg) -> bool {
    let lies_together = match data {
        Arg::In(..) | Arg::Mut(..) => true,
        Arg::Strided(..) | Arg::StridedMut(..) => part.is_dense(Order::C),
        _ => false,
    };
    lies_together && data.len() == part.bytes()
}

/// Moves a part from or to where it lies: to memory of the caller's that may be written, from other. Says whether it
/// did: it [can](can_move). What others have looked at is written past the caches: to take its lines back from theirs
/// takes up to ten times as long.
pub(super) fn move_part(held: &Block, is_ours: bool, part: &Strided, data: &mut Arg) -> bool {
    let (at, bytes) = (part.offset(), part.bytes());
    let is_together = part.is_dense(Order::C);
    let together = || held.view().part(at as usize, bytes);
    match data {
        Arg::In(_, from) if is_together && is_ours => held.write_warm(at, from),
        Arg::In(_, from) if is_together => held.write_shared(at, from),
        Arg::In(_, from) => held.view().scatter_from(part, from),
        Arg::Mut(_, out) if is_together => held.read_warm(at, out),
        Arg::Mut(_, out) => View::of(out).gather_of(part, held.view(), 0),
        Arg::Strided(_, lies, from) => match together() {
            Some(held) => held.gather(lies, from, 0),
            None => return false,
        },
        Arg::StridedMut(_, lies, out) => match together() {
            Some(held) => held.scatter_to(lies, View::of(out)),
            None => return false,
        },
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn who_copies_and_the_calls_of_an_array_keep_to_one_writer_or_many_readers() {
        let uses = Arc::new(Uses::default());
        let reads = uses.call(false);
        assert!(uses.copy(true).is_none(), "a call reads it");
        let copies = [uses.copy(false).unwrap(), uses.copy(false).unwrap()];
        drop((reads, copies));
        let writes = uses.call(true);
        assert!(uses.copy(true).is_none() && uses.copy(false).is_none(), "a call writes it");
        drop(writes);
        assert!(!uses.copy(true).unwrap().is_ours, "calls have looked at it");
        assert!(uses.copy(false).unwrap().is_ours && uses.copy(true).unwrap().is_ours);
        drop(uses.call(false));
        assert!(!uses.copy(true).unwrap().is_ours);
        uses.close();
        assert!(uses.copy(false).is_none(), "it is killed");
        drop((uses.call(true), uses.call(false)));
    }

    #[test]
    fn calls_and_others_wait_while_a_thread_copies_and_no_longer() {
        let uses = Arc::new(Uses::default());
        for round in 0..200 {
            let (copying, is_over) = (uses.copy(round % 2 == 0).unwrap(), AtomicBool::new(false));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    drop(uses.call(true));
                    assert!(is_over.load(Ordering::SeqCst), "a call has gone before");
                });
                scope.spawn(|| {
                    // None if the call comes first.
                    drop(uses.copy(true));
                });
                while lock(&uses.users).waiting == 0 {
                    std::thread::yield_now();
                }
                is_over.store(true, Ordering::SeqCst);
                drop(copying);
            });
            assert_eq!(lock(&uses.users).copying, [0, 0]);
        }
    }
}
