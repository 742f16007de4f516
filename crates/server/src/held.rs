//! Arrays that the server holds for its clients.
//!
//! ```text
//! create -> a block of the client's pool -> calls work on it in place -> kill, or the client's end
//! ```
//!
//! Each client has a pool of its own, so all of its memory returns to the system when it leaves;
//! all pools together keep within one limit. A client of this host may map its pool, and then writes and reads its
//! arrays there while no call of its own uses them. Nothing of what this server decides by is read there: where an array
//! lies it keeps to itself.
//!
//!  Calls that touch an array take turns in the order
//! in which the requests were found: readers share it, a writer has it alone. Turns are taken
//! for all arrays of a request at once, so the oldest request never waits for a younger one. A request
//! whose turn has not come waits in the queue of the array, without a thread ([`crate::parked`]).

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use forebay_arena::{Allocator, Block, Segment, SegmentSpec, segments};
use forebay_link::QuickMap;
use forebay_link::idle::{LARGE, Trims, trim_when_idle};
use forebay_link::pool::Budget;
use forebay_types::held::ARRAYS;
use forebay_types::{ArrayMeta, Code, DType, Error, Result};

use forebay_host::lock;

const PAGE: u64 = 4096;

/// The arrays of one client.
pub(crate) struct Arrays {
    budget: Arc<Budget>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    pool: Option<Arc<Pool>>,
    by_number: QuickMap<u64, Arc<HeldArray>>,
}

struct Pool {
    segment: Segment,
    allocator: Mutex<Allocator>,
    budget: Arc<Budget>,
    /// When the last large array was freed.
    freed: Mutex<Instant>,
    watched: AtomicBool,
}

/// One array.
pub(crate) struct HeldArray {
    meta: ArrayMeta,
    pool: Arc<Pool>,
    block: Block,
    bytes: u64,
    turns: Mutex<Turns>,
}

/// The requests that have come for an array and are not done with it, oldest first.
#[derive(Default)]
struct Turns {
    next: u64,
    queue: VecDeque<Waiting>,
}

struct Waiting {
    ticket: u64,
    write: bool,
    /// Is told when its turn has come.
    waiter: Option<Arc<dyn Waiter>>,
}

/// Who waits for its turn at an array.
pub(crate) trait Waiter: Send + Sync {
    /// It has come.
    fn turn_has_come(&self);
}

/// A request's place in the queue of one array; dropped, the next one may go on.
pub(crate) struct Turn {
    pub number: u64,
    held: Arc<HeldArray>,
    ticket: u64,
}

impl Arrays {
    pub fn new(budget: Arc<Budget>) -> Arrays {
        Arrays { budget, inner: Mutex::default() }
    }

    /// Makes an array of that number; gives its block in the pool. A large one is filled without any lock: other calls
    /// of the client go on meanwhile.
    pub fn create(&self, number: u64, meta: ArrayMeta, zero: bool) -> Result<u32> {
        let bytes = meta.bytes()?;
        let pool = {
            let mut inner = lock(&self.inner);
            if inner.by_number.contains_key(&number) {
                return Err(taken(number));
            }
            self.pool(&mut inner)?
        };
        let block = pool.take(bytes)?;
        let index = block.index();
        if zero {
            block.view().fill(0);
        }
        let held = HeldArray { meta, pool, block, bytes, turns: Mutex::default() };
        let mut inner = lock(&self.inner);
        if inner.by_number.contains_key(&number) {
            return Err(taken(number));
        }
        inner.by_number.insert(number, Arc::new(held));
        Ok(index)
    }

    /// The memory of all of them.
    pub fn segment(&self) -> Result<Segment> {
        Ok(self.pool(&mut lock(&self.inner))?.segment.clone())
    }

    fn pool(&self, inner: &mut Inner) -> Result<Arc<Pool>> {
        match &inner.pool {
            Some(pool) => Ok(pool.clone()),
            None => Ok(inner.pool.insert(Pool::new(&self.budget)?).clone()),
        }
    }

    /// Forgets an array; who has a turn keeps it until the end of it.
    pub fn kill(&self, number: u64) -> Result<()> {
        lock(&self.inner).by_number.remove(&number).map(drop).ok_or_else(|| unknown(number))
    }

    /// Joins the queue of an array, to read it or to write it.
    pub fn queue(&self, number: u64, write: bool) -> Result<Turn> {
        let held = lock(&self.inner).by_number.get(&number).cloned().ok_or_else(|| unknown(number))?;
        let ticket = {
            let mut turns = lock(&held.turns);
            turns.next += 1;
            let ticket = turns.next;
            turns.queue.push_back(Waiting { ticket, write, waiter: None });
            ticket
        };
        Ok(Turn { number, held, ticket })
    }
}

fn taken(number: u64) -> Error {
    Error::new(Code::Conflict, format!("the array {number} is there already"))
}

fn unknown(number: u64) -> Error {
    // A client that keeps to what it is given refers to none that it never made.
    let text = format!(
        "the array {number} was killed by its client while this was on its way; make a new one, and kill it when all that \
         needs it is over"
    );
    Error::new(Code::Closed, text)
}

impl Pool {
    fn new(budget: &Arc<Budget>) -> Result<Arc<Pool>> {
        // Address space only; pages are taken as they are used.
        let segment = Segment::create(&SegmentSpec {
            name: String::new(),
            kind: segments::kind::ARRAYS,
            up_bytes: 0,
            down_bytes: 0,
            // Each array begins at a page.
            block_bytes: budget.limit().next_multiple_of(PAGE).saturating_add(u64::from(ARRAYS) * PAGE),
            blocks: ARRAYS,
        })?;
        let allocator = Mutex::new(segment.allocator());
        let (budget, freed) = (budget.clone(), Mutex::new(Instant::now()));
        Ok(Arc::new(Pool { segment, allocator, budget, freed, watched: AtomicBool::new(false) }))
    }

    fn take(&self, bytes: u64) -> Result<Block> {
        self.budget.take(bytes).map_err(|used| {
            let limit = self.budget.limit();
            Error::new(
                Code::Full,
                format!(
                    "an array of {bytes} bytes does not fit: the server holds {used} bytes of {limit} for its \
                     clients; kill references, or start the server with a larger limit"
                ),
            )
        })?;
        lock(&self.allocator).alloc(bytes).ok_or_else(|| {
            self.budget.give(bytes);
            Error::new(
                Code::Full,
                format!(
                    "the server finds no memory for an array of {bytes} bytes: the system has none, or this client \
                     has {ARRAYS} arrays; kill references, or use another server"
                ),
            )
        })
    }
}

impl Drop for HeldArray {
    fn drop(&mut self) {
        lock(&self.pool.allocator).reclaim(&self.block);
        self.pool.budget.give(self.bytes);
        if self.bytes >= LARGE {
            *lock(&self.pool.freed) = Instant::now();
            trim_when_idle(&self.pool);
        }
    }
}

impl Trims for Pool {
    fn watched(&self) -> &AtomicBool {
        &self.watched
    }

    fn idle(&self) -> Duration {
        lock(&self.freed).elapsed()
    }

    fn trim(&self) -> bool {
        lock(&self.allocator).trim();
        true
    }
}

impl Turns {
    /// Whether it is the turn of the one at that index: a reader's when no writer is before it, a
    /// writer's when nobody is.
    fn has_come(&self, index: usize) -> bool {
        match self.queue.get(index) {
            Some(place) if place.write => index == 0,
            _ => !self.queue.iter().take(index).any(|ahead| ahead.write),
        }
    }

    fn index(&self, ticket: u64) -> Option<usize> {
        self.queue.iter().position(|place| place.ticket == ticket)
    }

    /// Those whose turn has come and who have not been told.
    fn come(&mut self) -> Vec<Arc<dyn Waiter>> {
        let come: Vec<usize> = (0..self.queue.len()).take_while(|index| self.has_come(*index)).collect();
        come.into_iter().filter_map(|index| self.queue[index].waiter.take()).collect()
    }
}

impl Turn {
    /// Whether the array is this request's already.
    pub fn has_come(&self) -> bool {
        let turns = lock(&self.held.turns);
        turns.index(self.ticket).is_none_or(|index| turns.has_come(index))
    }

    /// Whether the array is this request's already; if it is not, `waiter` is told when it is.
    pub fn has_come_or_tells(&self, waiter: &Arc<dyn Waiter>) -> bool {
        let mut turns = lock(&self.held.turns);
        let Some(index) = turns.index(self.ticket) else { return true };
        let come = turns.has_come(index);
        if !come {
            turns.queue[index].waiter = Some(waiter.clone());
        }
        come
    }

    /// The array's memory, as an argument of that kind: what the array is, or its bytes.
    pub fn block(&self, asked: &ArrayMeta) -> Result<Block> {
        let meta = &self.held.meta;
        let flat = (asked.dtype, asked.shape.extents()) == (DType::U8, &[self.held.bytes]);
        if asked != meta && !flat {
            return Err(Error::bad(format!("the array {} is {meta}, not {asked}", self.number)));
        }
        Ok(self.held.block.clone())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let come = {
            let mut turns = lock(&self.held.turns);
            turns.queue.retain(|place| place.ticket != self.ticket);
            turns.come()
        };
        come.iter().for_each(|waiter| waiter.turn_has_come());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_types::Shape;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    #[derive(Default)]
    struct Told {
        times: AtomicU32,
    }

    impl Waiter for Told {
        fn turn_has_come(&self) {
            self.times.fetch_add(1, Relaxed);
        }
    }

    fn arrays(limit: u64) -> (Arrays, Arc<Budget>) {
        let budget = Budget::new(limit);
        (Arrays::new(budget.clone()), budget)
    }

    fn meta(n: u64) -> ArrayMeta {
        ArrayMeta::new(DType::F64, Shape::new(&[n]).unwrap())
    }

    #[test]
    fn readers_share_an_array_and_a_writer_has_it_alone_in_the_order_of_their_coming() {
        let (arrays, _) = arrays(1 << 20);
        arrays.create(7, meta(3), true).unwrap();
        let mut turns: Vec<Option<Turn>> =
            [false, false, true, false].map(|write| Some(arrays.queue(7, write).unwrap())).into();
        let here = |turns: &[Option<Turn>]| -> Vec<bool> {
            turns.iter().map(|t| t.as_ref().is_some_and(Turn::has_come)).collect()
        };
        assert_eq!(here(&turns), [true, true, false, false]);
        turns[1] = None;
        assert_eq!(here(&turns), [true, false, false, false]);
        turns[0] = None;
        assert_eq!(here(&turns), [false, false, true, false]);
        let told = Arc::new(Told::default());
        let waiter: Arc<dyn Waiter> = told.clone();
        assert!(turns[2].as_ref().unwrap().has_come_or_tells(&waiter));
        assert!(!turns[3].as_ref().unwrap().has_come_or_tells(&waiter));
        assert_eq!(told.times.load(Relaxed), 0);
        turns[2] = None;
        assert_eq!(told.times.load(Relaxed), 1);
        assert_eq!(here(&turns), [false, false, false, true]);
    }

    #[test]
    fn memory_is_counted_and_returns_when_the_last_user_is_done() {
        let (arrays, budget) = arrays(100_000);
        let used = || budget.used();
        arrays.create(1, meta(10_000), false).unwrap();
        let e = arrays.create(2, meta(10_000), false).unwrap_err();
        assert_eq!(e.code(), Code::Full);
        assert!(e.text().contains("80000 bytes") && e.text().contains("of 100000"), "{e}");
        let turn = arrays.queue(1, true).unwrap();
        arrays.kill(1).unwrap();
        assert_eq!(arrays.kill(1).unwrap_err().code(), Code::Closed);
        assert_eq!(used(), 80_000);
        assert_eq!(turn.block(&meta(10_000)).unwrap().len(), 80_000);
        assert!(turn.block(&meta(9_999)).is_err());
        drop(turn);
        assert_eq!(used(), 0);
        arrays.create(2, meta(10_000), true).unwrap();
        drop(arrays);
        assert_eq!(used(), 0);
    }
}
