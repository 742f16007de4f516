//! Models of what processes share, for the loom model checker: it tries every order in which
//! the loads and stores of two threads can meet, and every value that the memory model allows a
//! load to see. `scripts/loom` runs them.

use crate::bell::{AWAKE, FUTEX, announce, claim, withdraw};
use crate::ring::{Consumer, Producer, RingMemory};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::triple::{self, TripleMemory};
use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

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
        assert!(at % 64 == 0, "a record begins at a line");
        &self.heads[at as usize / 64]
    }

    fn store(&self, at: u64, bytes: &[u8]) {
        assert!(at % 8 == 0 && bytes.len() <= 8, "the models write whole words");
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
    loom::model(|| {
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
    loom::model(|| {
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
    loom::model(|| {
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
                    bell.wait(); // loom reports a deadlock when nobody wakes it
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
    loom::model(|| {
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
