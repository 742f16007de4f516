//! Real processes, killed at random instants: whatever was published is whole, and the other
//! side goes on. This program starts itself again as the victim (`victim`).

use forebay_arena::{Allocator, Direction, Producer, Segment, SegmentSpec, Spin, TripleBuffer};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

const ROUNDS: u32 = 25;
const LONG: Duration = Duration::from_secs(20);
const POINTS: u32 = 500;

/// Control words of these tests.
const APPLIED: usize = 2;
const SLOT: usize = 20;

/// Random enough for instants; the seed is shown when a test fails.
struct Dice(u64);

impl Dice {
    fn new(name: &str) -> Dice {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let seed = now.as_nanos() as u64 | 1;
        println!("{name}: seed {seed}");
        Dice(seed)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// The writing side: numbered records, each with a block full of its number.
struct Rank {
    segment: Segment,
    up: Producer,
    allocator: Allocator,
    curve: forebay_arena::TripleWriter,
    number: u64,
}

impl Rank {
    fn new(path: &Path) -> Rank {
        let spec = SegmentSpec {
            name: path.file_name().unwrap().to_str().unwrap().into(),
            kind: 1,
            up_bytes: 4096,
            down_bytes: 4096,
            block_bytes: 1 << 20,
            blocks: 32,
        };
        let segment = Segment::create_in(path.parent().unwrap(), &spec).unwrap();
        let mut allocator = segment.allocator();
        let slot = allocator.alloc(TripleBuffer::bytes_for(POINTS)).unwrap();
        let index = slot.index();
        let curve = TripleBuffer::writer(slot, POINTS).unwrap();
        segment.word(SLOT).store(index as u64 + 1, SeqCst);
        Rank { up: segment.producer(Direction::Up), segment, allocator, curve, number: 0 }
    }

    /// Publishes the next record if there is room; says whether.
    fn step(&mut self, dice: &mut Dice) -> bool {
        self.allocator.reap();
        let len = 1 + dice.below(60_000);
        let Some(block) = self.allocator.alloc(len) else { return false };
        let number = self.number + 1;
        block.view().fill(number as u8);
        let head = [number, block.index() as u64, block.generation() as u64, len];
        let bytes: Vec<u8> = head.iter().flat_map(|w| w.to_le_bytes()).collect();
        let padding = vec![number as u8; dice.below(300) as usize];
        if self.up.push(&[&bytes, &padding]).is_err() {
            self.allocator.free(block);
            return false;
        }
        self.segment.bell(Direction::Up).ring();
        self.number = number;
        self.curve.publish(number as i64, number as f64, POINTS, |x, y| {
            x.fill(number as f64);
            y.fill(number as f64);
        });
        true
    }
}

/// The reading side, which may follow a dead one. Checks everything.
struct Owner {
    segment: Segment,
    up: forebay_arena::Consumer,
    curve: forebay_arena::TripleReader,
    last_update: u64,
}

impl Owner {
    /// Waits for the segment to appear with its curve.
    fn new(path: &Path) -> Owner {
        let deadline = Instant::now() + LONG;
        loop {
            assert!(Instant::now() < deadline, "the segment never appeared");
            if let Ok(segment) = Segment::open(path)
                && let Some(index) = segment.word(SLOT).load(SeqCst).checked_sub(1)
            {
                let curve = TripleBuffer::reader(segment.block(index as u32).unwrap(), POINTS).unwrap();
                return Owner { up: segment.consumer(Direction::Up), segment, curve, last_update: 0 };
            }
            std::thread::yield_now();
        }
    }

    /// Takes one record if there is one; says whether.
    fn step(&mut self) -> bool {
        let mut record = Vec::new();
        let Some(position) = self.up.next(&mut record).unwrap() else { return false };
        let word = |i: usize| u64::from_le_bytes(record[i * 8..i * 8 + 8].try_into().unwrap());
        let (number, index, generation, len) = (word(0), word(1) as u32, word(2) as u32, word(3));
        assert!(record[32..].iter().all(|b| *b == number as u8), "half a record");
        let applied = self.segment.word(APPLIED).load(SeqCst);
        assert!(number <= applied + 1, "record {} is lost: {applied} is applied", applied + 1);
        if number == applied + 1 {
            let block = self.segment.block(index).unwrap();
            assert_eq!(block.len(), len);
            assert!(block.view().iter().all(|b| b == number as u8), "half a block");
            self.segment.word(APPLIED).store(number, SeqCst);
        }
        self.segment.release_generation(index, generation).unwrap();
        self.up.release_to(position);
        self.look();
        true
    }

    fn look(&mut self) {
        if let Some((update, step, time, x, y)) = self.curve.latest() {
            assert!(update > self.last_update && time == step as f64);
            assert!(x.len() == POINTS as usize && x.iter().chain(&y).all(|v| *v == time), "half an update");
            self.last_update = update;
        }
    }

    fn applied(&self) -> u64 {
        self.segment.word(APPLIED).load(SeqCst)
    }
}

/// The other process; ends itself when its parent is gone.
#[test]
fn victim() {
    let (Some(role), Some(path)) = (std::env::var_os("VICTIM"), std::env::var_os("VICTIM_PATH")) else {
        return;
    };
    let parent: u32 = std::env::var("VICTIM_PARENT").unwrap().parse().unwrap();
    forebay_host::parent::stop_with_parent(parent).unwrap();
    let path = PathBuf::from(path);
    let mut dice = Dice::new("victim");
    if role == "rank" {
        let mut rank = Rank::new(&path);
        loop {
            if !rank.step(&mut dice) {
                std::thread::yield_now();
            }
        }
    }
    let mut owner = Owner::new(&path);
    let bell = owner.segment.bell(Direction::Up);
    let mut spin = Spin::new();
    loop {
        while owner.step() {}
        let up = &mut owner.up;
        bell.wait(|| up.pending(), Some(Instant::now() + Duration::from_millis(50)), &mut spin);
    }
}

struct Victim(Child);

/// This program once more, by the emulator where one runs it (`scripts/arm64`).
fn again() -> Command {
    let own = std::env::current_exe().unwrap();
    let Some(emulator) = std::env::var_os("FOREBAY_EMULATOR") else { return Command::new(own) };
    let mut command = Command::new(emulator);
    command.arg(own);
    command
}

impl Victim {
    fn start(role: &str, path: &Path) -> Victim {
        let child = again()
            .args(["--exact", "victim", "--nocapture", "--test-threads=1"])
            .env("VICTIM", role)
            .env("VICTIM_PATH", path)
            .env("VICTIM_PARENT", std::process::id().to_string())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Victim(child)
    }

    /// Kills it; it must not have ended by itself, for then a check of its own failed.
    fn kill(mut self) {
        assert!(self.0.try_wait().unwrap().is_none(), "the victim ended by itself");
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn everything_a_killed_rank_published_is_read_whole() {
    let dir = tempfile::tempdir_in(forebay_host::directories::shm_dir()).unwrap();
    let mut dice = Dice::new("killed rank");
    for round in 0..ROUNDS {
        let path = dir.path().join(format!("s{round}"));
        let victim = Victim::start("rank", &path);
        let mut owner = Owner::new(&path);
        let deadline = Instant::now() + LONG;
        while owner.applied() == 0 || owner.last_update == 0 {
            assert!(Instant::now() < deadline);
            owner.step();
            owner.look();
        }
        let end = Instant::now() + Duration::from_micros(dice.below(8000));
        while Instant::now() < end {
            owner.step();
        }
        victim.kill();
        assert!(!owner.segment.creator().alive());
        while owner.step() {}
        owner.look();
        drop(owner);
        // A successor finds nothing left, and the newest whole update.
        let mut successor = Owner::new(&path);
        assert!(!successor.step());
        successor.look();
        assert!(successor.last_update > 0);
        successor.segment.unlink().unwrap();
    }
}

#[test]
fn a_rank_goes_on_with_the_successor_of_a_killed_owner_and_nothing_is_lost() {
    let dir = tempfile::tempdir_in(forebay_host::directories::shm_dir()).unwrap();
    let path = dir.path().join("s");
    let mut dice = Dice::new("killed owner");
    let mut rank = Rank::new(&path);
    for _ in 0..ROUNDS {
        let before = rank.segment.word(APPLIED).load(SeqCst);
        let victim = Victim::start("owner", &path);
        let deadline = Instant::now() + LONG;
        while rank.segment.word(APPLIED).load(SeqCst) == before {
            assert!(Instant::now() < deadline, "the successor does not go on");
            rank.step(&mut dice);
        }
        let end = Instant::now() + Duration::from_micros(dice.below(8000));
        while Instant::now() < end {
            rank.step(&mut dice);
        }
        victim.kill();
    }
    let mut last = Owner::new(&path);
    while last.step() {}
    assert_eq!(last.applied(), rank.number, "everything published was applied once");
    rank.allocator.reap();
    assert_eq!(rank.allocator.live(), 1, "every block but the curve's came back");
    rank.segment.unlink().unwrap();
}
