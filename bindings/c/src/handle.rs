//! Handles: what C holds as `fb_run *` and its like are ids, never dereferenced.
//!
//! ```text
//!  63    56 55  52 51                    20 19               0
//! +--------+------+------------------------+------------------+
//! |  0xFB  | kind |       generation       |      index       |
//! +--------+------+------------------------+------------------+
//! ```
//! No address of a program looks like that, so a foreign pointer is recognised. The index names a
//! slot, whose generation grows each time it is freed, so that a stale handle is recognised too. A
//! call pins the slot while it works: two atomic operations. A slot that is freed meanwhile is
//! emptied by whoever unpins it last.

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use forebay::{Code, Error, Result};

use crate::kinds::Opaque;

const MARK: u64 = 0xFB;
const INDEX_BITS: u32 = 20;
const IN_CHUNK: usize = 1024;
const CHUNKS: usize = (1 << INDEX_BITS) / IN_CHUNK;

/// Of a slot's state: generation above, then these two, and the number of pins below.
const VACANT: u64 = 1 << 31;
const DYING: u64 = 1 << 30;
const PINS: u64 = DYING - 1;

struct Slot {
    state: AtomicU64,
    /// A `Boxed<T>`, T as its kind says.
    object: AtomicPtr<Head>,
    kind: AtomicU64,
    owner: AtomicU64,
}

/// What is before every object: how to drop it.
struct Head {
    drop: unsafe fn(*mut Head),
}

#[repr(C)]
struct Boxed<T> {
    head: Head,
    value: T,
}

#[derive(Default)]
struct Free {
    indices: Vec<u32>,
    used: u32,
}

impl Free {
    fn open(&self) -> usize {
        self.used as usize - self.indices.len()
    }
}

static SLOTS: [OnceLock<Box<[Slot]>>; CHUNKS] = [const { OnceLock::new() }; CHUNKS];
static FREE: Mutex<Free> = Mutex::new(Free { indices: Vec::new(), used: 0 });

fn free_list() -> std::sync::MutexGuard<'static, Free> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn slot(index: u32) -> Option<&'static Slot> {
    SLOTS.get(index as usize / IN_CHUNK)?.get()?.get(index as usize % IN_CHUNK)
}

fn new_slot(index: u32) -> &'static Slot {
    let empty = |_| Slot {
        state: AtomicU64::new(1 << 32 | VACANT),
        object: AtomicPtr::new(ptr::null_mut()),
        kind: AtomicU64::new(0),
        owner: AtomicU64::new(0),
    };
    let chunk = SLOTS[index as usize / IN_CHUNK].get_or_init(|| (0..IN_CHUNK).map(empty).collect());
    &chunk[index as usize % IN_CHUNK]
}

/// An object in use: it lives as long as this.
pub struct InUse<T> {
    slot: &'static Slot,
    index: u32,
    object: *const Boxed<T>,
    // Its thread unpins it: nothing is sent elsewhere.
    _here: PhantomData<*const ()>,
}

impl<T> Deref for InUse<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: `get` checked the kind, hence the type, and the pin keeps the object.
        unsafe { &(*self.object).value }
    }
}

impl<T> Drop for InUse<T> {
    fn drop(&mut self) {
        unpin(self.slot, self.index);
    }
}

fn unpin(slot: &'static Slot, index: u32) {
    let before = slot.state.fetch_sub(1, Ordering::AcqRel);
    if before & DYING != 0 && before & PINS == 1 {
        bury(slot, index, before - 1);
    }
}

/// Empties a slot that is freed and no longer pinned. Of several who find it so, one does it.
#[cold]
fn bury(slot: &'static Slot, index: u32, state: u64) {
    let generation = (state >> 32).wrapping_add(1) & 0xffff_ffff;
    let vacant = generation.max(1) << 32 | VACANT;
    if slot.state.compare_exchange(state, vacant, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        // Somebody with a stale handle looks at it just now, and will find the same.
        return;
    }
    let object = slot.object.swap(ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: `give` put a box here whose head says how to drop it; the exchange above made this
    // thread the only one that takes it out.
    unsafe { ((*object).drop)(object) };
    free_list().indices.push(index);
}

/// Takes an object in; its handle.
pub fn give<P: Opaque>(object: P::Object, owner: u64) -> Result<*mut P> {
    /// # Safety
    /// The pointer is of a `Boxed<T>` that nobody uses any more.
    unsafe fn drop_boxed<T>(object: *mut Head) {
        // SAFETY: as the caller says; `Boxed` begins with its head.
        drop(unsafe { Box::from_raw(object.cast::<Boxed<T>>()) });
    }
    let index = {
        let mut free = free_list();
        let index = free.indices.pop().unwrap_or(free.used);
        if index >= 1 << INDEX_BITS {
            return Err(Error::new(
                Code::Full,
                format!(
                    "{} handles are open; free those that are no longer used (fb_..._free)",
                    1u32 << INDEX_BITS
                ),
            ));
        }
        free.used = free.used.max(index + 1);
        index
    };
    let slot = new_slot(index);
    let boxed = Box::new(Boxed { head: Head { drop: drop_boxed::<P::Object> }, value: object });
    slot.kind.store(P::KIND as u64, Ordering::Relaxed);
    slot.owner.store(owner, Ordering::Relaxed);
    slot.object.store(Box::into_raw(boxed).cast(), Ordering::Relaxed);
    let state = slot.state.fetch_and(!VACANT, Ordering::AcqRel);
    let id = MARK << 56 | (P::KIND as u64) << 52 | (state >> 32) << INDEX_BITS | u64::from(index);
    Ok(ptr::without_provenance_mut(id as usize))
}

/// The object of a handle.
#[inline]
pub fn get<P: Opaque>(handle: *const P) -> Result<InUse<P::Object>> {
    let id = handle.addr() as u64;
    let index = (id & ((1 << INDEX_BITS) - 1)) as u32;
    if id >> 52 != MARK << 4 | P::KIND as u64 {
        return Err(not_ours::<P>(id));
    }
    let Some(slot) = slot(index) else { return Err(not_ours::<P>(id)) };
    let state = slot.state.fetch_add(1, Ordering::Acquire);
    let generation = id >> INDEX_BITS & 0xffff_ffff;
    if state >> 32 != generation
        || state & (VACANT | DYING) != 0
        || slot.kind.load(Ordering::Relaxed) != P::KIND as u64
    {
        unpin(slot, index);
        return Err(stale::<P>());
    }
    let object = slot.object.load(Ordering::Relaxed).cast_const().cast::<Boxed<P::Object>>();
    Ok(InUse { slot, index, object, _here: PhantomData })
}

#[cold]
fn not_ours<P: Opaque>(id: u64) -> Error {
    let what = P::NAME;
    if id == 0 {
        return Error::bad(format!("the {what} is NULL; pass the handle that Forebay gave"));
    }
    let kind = (id >> 56 == MARK).then(|| crate::kinds::name_of(id >> 52 & 15)).flatten();
    match kind {
        Some(other) => Error::bad(format!("the handle is a {other}, where a {what} is wanted")),
        None => Error::bad(format!("{id:#x} is no {what} of Forebay; pass the handle that Forebay gave")),
    }
}

#[cold]
fn stale<P: Opaque>() -> Error {
    Error::new(Code::Closed, format!("the {} was freed or closed before; open it again", P::NAME))
}

/// Frees a handle; null is nothing. What is in use by another thread goes when that is done.
pub fn free<P: Opaque>(handle: *const P) -> Result<()> {
    if handle.is_null() {
        return Ok(());
    }
    let held = get(handle)?;
    match mark(held.slot, |_| true) {
        true => Ok(()),
        false => Err(stale::<P>()),
    }
}

/// Marks a slot as dying, if nobody did before and it is the one meant.
fn mark(slot: &Slot, is_meant: impl Fn(&Slot) -> bool) -> bool {
    let mut state = slot.state.load(Ordering::Acquire);
    loop {
        if state & (DYING | VACANT) != 0 || !is_meant(slot) {
            return false;
        }
        match slot.state.compare_exchange_weak(state, state | DYING, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return true,
            Err(now) => state = now,
        }
    }
}

/// Frees what belongs to an owner: the handles of a run go with it.
pub fn free_owned(owner: u64) {
    let used = free_list().used;
    for index in 0..used {
        let Some(slot) = slot(index) else { continue };
        if slot.owner.load(Ordering::Relaxed) != owner {
            continue;
        }
        slot.state.fetch_add(1, Ordering::Acquire);
        mark(slot, |slot| slot.owner.load(Ordering::Relaxed) == owner);
        unpin(slot, index);
    }
}

/// How many handles are open.
pub fn open() -> usize {
    free_list().open()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{fb_future, fb_rows};
    use crate::rows::RowsObject;
    use std::sync::atomic::AtomicBool;

    fn rows(owner: u64) -> *mut fb_rows {
        give(RowsObject::empty(), owner).unwrap()
    }

    #[test]
    fn a_handle_is_good_until_it_is_freed_and_is_known_as_stale_afterwards() {
        let handle = rows(0);
        assert!(get(handle).is_ok());
        assert!(free(handle).is_ok());
        assert_eq!(get(handle).err().unwrap().code(), Code::Closed);
        assert_eq!(free(handle).unwrap_err().code(), Code::Closed);
        // Its slot serves again, and the old handle does not open it.
        let next: Vec<_> = (0..64).map(|_| rows(0)).collect();
        assert!(get(handle).is_err());
        for handle in next {
            free(handle).unwrap();
        }
    }

    #[test]
    fn foreign_pointers_are_recognised_without_being_read() {
        let here = 5u32;
        let texts = |p: *const fb_rows| get(p).err().unwrap().text().to_owned();
        assert!(texts(ptr::null()).contains("NULL"));
        assert!(texts(ptr::from_ref(&here).cast()).contains("is no fb_rows"));
        assert!(texts(ptr::without_provenance(8)).contains("is no fb_rows"));
        let handle = rows(0);
        assert!(get(handle.cast::<fb_future>()).err().unwrap().text().contains("is a fb_rows"));
        free(handle).unwrap();
        assert!(free(ptr::null_mut::<fb_rows>()).is_ok());
    }

    #[test]
    fn what_is_freed_while_in_use_lives_until_the_use_ends() {
        let handle = rows(0);
        let held = get(handle).unwrap();
        free(handle).unwrap();
        assert!(get(handle).is_err());
        assert_eq!(held.count(), 0);
    }

    #[test]
    fn the_handles_of_an_owner_go_with_it() {
        let owner = 0x1234_5678_9abc;
        let (mine, other) = (rows(owner), rows(owner + 1));
        free_owned(owner);
        assert!(get(mine).is_err() && get(other).is_ok());
        free(other).unwrap();
    }

    #[test]
    fn threads_may_use_and_free_at_once() {
        let stop = AtomicBool::new(false);
        let shared: Vec<AtomicPtr<fb_rows>> = (0..4).map(|_| AtomicPtr::new(rows(7))).collect();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        for place in &shared {
                            if let Ok(held) = get(place.load(Ordering::Relaxed).cast_const()) {
                                assert_eq!(held.count(), 0);
                            }
                        }
                    }
                });
            }
            for _ in 0..20_000 {
                for place in &shared {
                    free(place.swap(rows(7), Ordering::Relaxed)).unwrap();
                }
            }
            stop.store(true, Ordering::Relaxed);
            for place in &shared {
                free(place.load(Ordering::Relaxed)).unwrap();
            }
        });
    }
}
