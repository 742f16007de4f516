//! Models of what processes share: rings, doorbells, block tables with the books of their allocator, and
//! triple buffers over plain memory of their own, used by two or three threads.
//!
//! Three judges look at them. The loom model checker tries every order in which the loads and stores
//! of the two can meet, and every value that the memory model allows a load to see
//! (`scripts/loom`). Miri runs them with its own weak memory and finds accesses that no order
//! allows (`scripts/miri`). As plain tests they meet the machine.

use crate::bell::{AWAKE, FUTEX, announce, claim, withdraw};
use crate::books::{Books, Growth};
use crate::ring::{Consumer, Producer, RingMemory};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::table::{Table, TableMemory};
use crate::triple::{self, TripleMemory};
use crate::turn;
use judge::{Arc, Condvar, Mutex, UnsafeCell, model, thread};

/// What the models are made of for the model checker.
#[cfg(loom)]
mod judge {
    pub use loom::cell::UnsafeCell;
    pub use loom::sync::{Arc, Condvar, Mutex};
    pub use loom::{model, thread};
}

/// What the models are made of without the model checker: the standard library.
#[cfg(not(loom))]
mod judge {
    pub use std::sync::{Arc, Condvar, Mutex};
    pub use std::thread;

    /// Runs a model again and again: each time the threads meet otherwise. An emulator sets another number.
    pub fn model(run: impl Fn()) {
        let wanted = std::env::var("FOREBAY_MODEL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
        let rounds = wanted.unwrap_or(if cfg!(miri) { 30 } else { 3_000 });
        (0..rounds).for_each(|_| run());
    }

    /// A cell whose users agree otherwise on whose it is.
    #[derive(Debug)]
    pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    // SAFETY: the models hand the cells from one thread to the other by what is under test; Miri looks.
    unsafe impl<T: Send> Sync for UnsafeCell<T> {}

    impl<T> UnsafeCell<T> {
        pub fn new(value: T) -> UnsafeCell<T> {
            UnsafeCell(std::cell::UnsafeCell::new(value))
        }

        pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}

/// A ring of a few lines, one of which stays free. Loom reports every access to a cell that is not
/// ordered with the other thread's: reading a record before it is published, writing over one not yet released.
struct Ring {
    tail: AtomicU64,
    mark: AtomicU64,
    heads: Vec<AtomicU64>,
    words: Vec<UnsafeCell<[u8; 8]>>,
}

impl Ring {
    fn new(records: usize) -> Arc<Ring> {
        Arc::new(Ring {
            tail: AtomicU64::new(0),
            mark: AtomicU64::new(0),
            heads: (0..records).map(|_| AtomicU64::new(0)).collect(),
            words: (0..8 * records).map(|_| UnsafeCell::new([0; 8])).collect(),
        })
    }
}

impl RingMemory for Arc<Ring> {
    fn tail(&self) -> &AtomicU64 {
        &self.tail
    }

    fn mark(&self) -> &AtomicU64 {
        &self.mark
    }

    fn capacity(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    fn head(&self, at: u64) -> &AtomicU64 {
        assert!(at.is_multiple_of(64), "a record begins at a line");
        &self.heads[at as usize / 64]
    }

    fn store(&self, at: u64, bytes: &[u8]) {
        assert!(at.is_multiple_of(8) && bytes.len() <= 8, "the models write whole words");
        // SAFETY: loom checks that nobody else uses the cell meanwhile.
        self.words[at as usize / 8].with_mut(|w| unsafe { (&mut *w)[..bytes.len()].copy_from_slice(bytes) });
    }

    fn load(&self, at: u64, out: &mut [u8]) {
        // SAFETY: loom checks that nobody writes the cell meanwhile.
        self.words[at as usize / 8].with(|w| unsafe { out.copy_from_slice(&(&*w)[..out.len()]) });
    }
}

fn push(producer: &mut Producer<Arc<Ring>>, value: u64) {
    while producer.push(&[&value.to_le_bytes()]).is_err() {
        thread::yield_now();
    }
}

fn next(consumer: &mut Consumer<Arc<Ring>>) -> (u64, u64) {
    let mut buf = Vec::new();
    loop {
        if let Some(position) = consumer.next(&mut buf).expect("a ring of honest ends is sound") {
            return (u64::from_le_bytes(buf[..].try_into().expect("eight bytes")), position);
        }
        thread::yield_now();
    }
}

#[test]
fn records_pass_whole_and_in_order_and_room_is_reused_only_after_release() {
    model(|| {
        let ring = Ring::new(2); // one record at a time
        let there = ring.clone();
        let reader = thread::spawn(move || {
            let mut consumer = Consumer::new(there);
            for expected in 1..=3 {
                let (value, position) = next(&mut consumer);
                assert_eq!(value, expected);
                consumer.release_to(position);
            }
        });
        let mut producer = Producer::new(ring);
        (1..=3).for_each(|value| push(&mut producer, value));
        reader.join().unwrap();
    });
}

#[test]
fn a_successor_reads_on_from_the_release_mark_while_the_producer_goes_on() {
    model(|| {
        let ring = Ring::new(4);
        let there = ring.clone();
        let reader = thread::spawn(move || {
            let mut first = Consumer::new(there.clone());
            let (value, position) = next(&mut first);
            assert_eq!(value, 1);
            first.release_to(position);
            drop(first); // died here; whatever else it read was not released
            let mut second = Consumer::new(there);
            for expected in 2..=3 {
                assert_eq!(next(&mut second).0, expected);
            }
        });
        let mut producer = Producer::new(ring);
        (1..=3).for_each(|value| push(&mut producer, value));
        reader.join().unwrap();
    });
}

/// A futex: the kernel compares and goes to sleep under a lock that the waker takes too.
struct Futex {
    flag: AtomicU32,
    lock: Mutex<()>,
    sleepers: Condvar,
}

impl Futex {
    fn wait(&self) {
        let guard = self.lock.lock().unwrap();
        if self.flag.load(Ordering::SeqCst) == FUTEX {
            drop(self.sleepers.wait(guard).unwrap());
        }
    }

    fn wake(&self) {
        drop(self.lock.lock().unwrap());
        self.sleepers.notify_all();
    }
}

#[test]
fn a_sleeper_is_never_left_asleep_with_something_published() {
    model(|| {
        let shared = Arc::new((
            AtomicU64::new(0),
            Futex { flag: AtomicU32::new(AWAKE), lock: Mutex::new(()), sleepers: Condvar::new() },
        ));
        let there = shared.clone();
        let waiter = thread::spawn(move || {
            let (published, bell) = &*there;
            for wanted in 1..=2 {
                // As `Bell::wait` does it, without the polling.
                while published.load(Ordering::Acquire) < wanted {
                    announce(&bell.flag, FUTEX);
                    if published.load(Ordering::Acquire) >= wanted {
                        withdraw(&bell.flag);
                        break;
                    }
                    bell.wait(); // loom reports a deadlock when nobody wakes it, others hang
                }
            }
        });
        let (published, bell) = &*shared;
        for value in 1..=2 {
            published.store(value, Ordering::Release);
            if claim(&bell.flag) != AWAKE {
                bell.wake();
            }
        }
        waiter.join().unwrap();
    });
}

struct Words(Vec<AtomicU64>);

impl TripleMemory for Words {
    fn word(&self, at: usize) -> &AtomicU64 {
        &self.0[at / 8]
    }
}

/// Two words of data a buffer, where the real one has points.
fn data(words: &Words, update: u64) -> [&AtomicU64; 2] {
    let at = (update % 3) as usize * 64 + 192;
    [words.word(at + 8), words.word(at + 16)]
}

fn publish(words: &Words) {
    let update = triple::begin(words);
    data(words, update).iter().for_each(|w| w.store(update, Ordering::Relaxed));
    triple::commit(words, update);
}

#[test]
fn a_reader_takes_whole_updates_only_however_often_the_writer_overtakes_it() {
    model(|| {
        let words = Arc::new(Words((0..48).map(|_| AtomicU64::new(0)).collect()));
        publish(&words);
        let there = words.clone();
        // The fourth update goes into the buffer of the first, which the reader may be copying.
        let writer = thread::spawn(move || (2..=4).for_each(|_| publish(&there)));
        let read = triple::read(&*words, 0, 1, |update| {
            Some(data(&words, update).map(|w| w.load(Ordering::Relaxed)))
        });
        if let Some((update, values)) = read {
            assert_eq!(values, [update; 2], "half an update");
        }
        writer.join().unwrap();
    });
}

/// A block table with its blocks, each a word. Loom reports a byte that is read before it was handed over or
/// written before it was given back.
struct Blocks {
    words: Vec<[AtomicU64; 3]>,
    releases: AtomicU64,
    taken: AtomicU64,
    bytes: Vec<UnsafeCell<u64>>,
}

/// Blocks begin there.
const AREA: u64 = 64;

impl Blocks {
    fn new(blocks: u64) -> Arc<Blocks> {
        Arc::new(Blocks {
            words: (0..blocks).map(|_| std::array::from_fn(|_| AtomicU64::new(0))).collect(),
            releases: AtomicU64::new(0),
            taken: AtomicU64::new(64 * blocks),
            bytes: (0..blocks).map(|_| UnsafeCell::new(0)).collect(),
        })
    }

    fn write(&self, offset: u64, value: u64) {
        // SAFETY: loom checks that nobody else uses the cell meanwhile.
        self.bytes[((offset - AREA) / 64) as usize].with_mut(|b| unsafe { *b = value });
    }

    fn read(&self, offset: u64) -> u64 {
        // SAFETY: loom checks that nobody writes the cell meanwhile.
        self.bytes[((offset - AREA) / 64) as usize].with(|b| unsafe { *b })
    }
}

impl TableMemory for Arc<Blocks> {
    fn blocks(&self) -> u32 {
        self.bytes.len() as u32
    }

    fn area(&self) -> (u64, u64) {
        (AREA, 64 * self.bytes.len() as u64)
    }

    fn word(&self, index: u32, at: u64) -> &AtomicU64 {
        &self.words[index as usize][at as usize / 8]
    }

    fn releases(&self) -> &AtomicU64 {
        &self.releases
    }

    fn taken(&self) -> &AtomicU64 {
        &self.taken
    }
}

#[test]
fn a_block_is_its_reader_s_until_it_is_released_and_its_entry_is_used_again_only_then() {
    model(|| {
        let ours = Table(Blocks::new(1));
        ours.0.write(AREA, 1);
        ours.publish(0, AREA, 8);
        let theirs = ours.clone();
        let reader = thread::spawn(move || {
            let (offset, len) = theirs.look_up(0).unwrap();
            assert_eq!((theirs.0.read(offset), len, theirs.generation(0)), (1, 8, 1));
            theirs.release_generation(0, 1).unwrap();
            // As a successor does that does not know how far its predecessor came.
            theirs.release_generation(0, 1).unwrap();
        });
        let mut seen = 0;
        while ours.reap(&mut seen, [0].into_iter()).is_empty() {
            thread::yield_now();
        }
        ours.0.write(AREA, 2);
        ours.publish(0, AREA, 8);
        reader.join().unwrap();
        assert!(ours.reap(&mut seen, [0].into_iter()).is_empty(), "the new use was not released");
        assert!(ours.look_up(0).is_ok());
    });
}

#[test]
fn the_place_of_a_block_that_was_given_back_may_be_another_one_s() {
    model(|| {
        let ours = Table(Blocks::new(2));
        let theirs = ours.clone();
        let reader = thread::spawn(move || {
            for index in 0..2u32 {
                loop {
                    let Ok((offset, _)) = theirs.look_up(index) else {
                        thread::yield_now();
                        continue;
                    };
                    assert_eq!(theirs.0.read(offset), u64::from(index) + 1);
                    break theirs.release(index).unwrap();
                }
            }
        });
        let mut seen = 0;
        ours.0.write(AREA, 1);
        ours.publish(0, AREA, 8);
        while ours.reap(&mut seen, [0].into_iter()).is_empty() {
            thread::yield_now();
        }
        ours.0.write(AREA, 2);
        ours.publish(1, AREA, 8);
        reader.join().unwrap();
        assert_eq!(ours.reap(&mut seen, [1].into_iter()), [1]);
    });
}

#[test]
fn a_mirrored_block_is_read_when_its_last_byte_is_there_or_given_up_once() {
    model(|| {
        let ours = Table(Blocks::new(1));
        ours.announce(0, 7, AREA, 8);
        let theirs = ours.clone();
        let reader = thread::spawn(move || {
            // Whatever it finds, it lets go of the block in the end: whole, or given up before.
            let whole = theirs.0.word(0, 16).load(Ordering::Acquire) as u32 == 1;
            if whole {
                let (offset, _) = theirs.look_up(0).unwrap();
                assert_eq!(theirs.0.read(offset), 1, "half a block");
            }
            theirs.release_generation(0, 7).unwrap();
        });
        ours.0.write(AREA, 1);
        ours.arrived(0);
        reader.join().unwrap();
        let mut seen = 0;
        assert_eq!(ours.reap(&mut seen, [0].into_iter()), [0], "the release is found whoever came first");
        ours.announce(0, 8, AREA, 8);
        assert!(ours.arrived(0), "the entry is used again");
    });
}

/// Says to the reader, as a record does, which block it may read.
fn say(record: &AtomicU64, index: u32) {
    record.store(u64::from(index) + 1, Ordering::Release);
}

/// Waits for that.
fn hear(record: &AtomicU64) -> u32 {
    loop {
        match record.load(Ordering::Acquire) {
            0 => thread::yield_now(),
            said => return said as u32 - 1,
        }
    }
}

#[test]
fn the_books_hand_out_a_place_again_when_its_last_reader_let_go_and_join_what_came_back() {
    model(|| {
        let ours = Table(Blocks::new(2));
        let records: Arc<[AtomicU64; 2]> = Arc::new(std::array::from_fn(|_| AtomicU64::new(0)));
        let (theirs, heard) = (ours.clone(), records.clone());
        let reader = thread::spawn(move || {
            for record in &*heard {
                let index = hear(record);
                let (offset, len) = theirs.look_up(index).unwrap();
                assert_eq!((theirs.0.read(offset), len), (offset, 64));
                theirs.release_generation(index, 1).unwrap();
            }
            // A successor that does not know how far its predecessor came.
            (0..2).for_each(|index| theirs.release_generation(index, 1).unwrap());
        });
        let mut books = Books::new(&ours);
        for record in &*records {
            let (index, offset) = books.alloc(&ours, 64, |_| true).unwrap();
            ours.0.write(offset, offset);
            say(record, index);
        }
        assert!(
            books.reap(&ours, |_| false) > 0 || books.alloc(&ours, 64, |_| true).is_none(),
            "room for a third"
        );
        // One block over both places: it is there when both have come back, in whatever order.
        let (index, offset) = loop {
            match books.alloc(&ours, 128, |_| true) {
                Some(block) => break block,
                None if books.reap(&ours, |_| false) == 0 => thread::yield_now(),
                None => {}
            }
        };
        ours.0.write(offset, 7);
        ours.0.write(offset + 64, 7);
        reader.join().unwrap();
        assert_eq!(
            (books.reap(&ours, |_| false), books.used(), books.live()),
            (0, 128, 1),
            "the new use was released"
        );
        assert_eq!(ours.look_up(index).unwrap(), (AREA, 128));
        books.free(&ours, index);
        assert_eq!((books.used(), books.high_water()), (0, 128));
    });
}

/// A thread takes pages ahead, the allocator those of its block, and a reader touches them. `late`: in place
/// of the reader the allocator waits until it sees them taken; that they are there it knows by what is under
/// test only.
fn pages(late: bool) {
    let ours = Table(Blocks::new(3));
    ours.taken().store(0, Ordering::Relaxed);
    let pages: Arc<[UnsafeCell<u64>; 3]> = Arc::new(std::array::from_fn(|_| UnsafeCell::new(0)));
    let growth = Arc::new(Growth::by(64));
    let record = Arc::new(AtomicU64::new(0));
    // Pages come from the system; touching one that is not there yet ends the process.
    let take = |table: &Table<Arc<Blocks>>, pages: &[UnsafeCell<u64>; 3], growth: &Growth, bytes: u64| {
        growth.take_up_to(table, bytes, |at, len| {
            let range = (at / 64) as usize..((at + len) / 64) as usize;
            // SAFETY: loom checks that nobody else uses the page meanwhile.
            pages[range].iter().for_each(|page| page.with_mut(|p| unsafe { *p += 1 }));
            true
        })
    };
    // SAFETY: loom checks that nobody takes the page meanwhile.
    let touch = |page: &UnsafeCell<u64>| page.with(|p| assert_eq!(unsafe { *p }, 1, "taken once"));
    let (table, more, lock) = (ours.clone(), pages.clone(), growth.clone());
    let ahead = thread::spawn(move || assert!(take(&table, &more, &lock, 128)));
    let (theirs, there, heard) = (ours.clone(), pages.clone(), record.clone());
    let read = move || {
        let index = hear(&heard);
        let (offset, _) = theirs.look_up(index).unwrap();
        touch(&there[((offset - AREA) / 64) as usize]);
        assert_eq!(theirs.0.read(offset), 5);
    };
    let reader = (!late).then(|| thread::spawn(read));
    while late && ours.taken().load(Ordering::Relaxed) == 0 {
        thread::yield_now();
    }
    let mut books = Books::new(&ours);
    let (index, offset) = books.alloc(&ours, 64, |bytes| take(&ours, &pages, &growth, bytes)).unwrap();
    touch(&pages[((offset - AREA) / 64) as usize]);
    ours.0.write(offset, 5);
    say(&record, index);
    ahead.join().unwrap();
    reader.into_iter().for_each(|reader| reader.join().unwrap());
    assert!(!take(&ours, &pages, &growth, 193), "more than there is");
    assert_eq!(ours.taken().load(Ordering::Relaxed), 128);
}

#[test]
fn a_block_lies_in_pages_that_are_there_whoever_takes_them() {
    model(|| pages(false));
}

#[test]
fn a_block_lies_in_pages_that_were_taken_ahead() {
    model(|| pages(true));
}

#[test]
fn who_takes_a_lock_has_what_is_under_it_alone_and_sees_what_the_one_before_wrote() {
    model(|| {
        let shared = Arc::new((AtomicU32::new(0), UnsafeCell::new(0u32)));
        let add = |shared: &(AtomicU32, UnsafeCell<u32>)| {
            let is_taken = turn::take(&shared.0);
            if is_taken {
                // SAFETY: it is this thread's until it is given back; loom and Miri look.
                shared.1.with_mut(|value| unsafe { *value += 1 });
                turn::give(&shared.0);
            }
            u32::from(is_taken)
        };
        let other = thread::spawn({
            let shared = shared.clone();
            move || add(&shared) + add(&shared)
        });
        let mine = add(&shared);
        let added = mine + other.join().unwrap();
        assert!(added >= 1 && turn::take(&shared.0));
        // SAFETY: the other thread has ended.
        shared.1.with(|value| assert_eq!(unsafe { *value }, added));
    });
}
