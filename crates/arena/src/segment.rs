//! A segment: a file in shared memory with rings, control words, a block table and blocks.
//!
//! A named one appears under its name only when it is complete, with mode 0600, and stays until
//! somebody unlinks it: that is how acknowledged data outlive a killed process. One without a
//! name is a sealed memory file that goes with its last user.

use crate::alloc::Allocator;
use crate::bell::{Bell, Event};
use crate::block::Block;
use crate::books::Growth;
use crate::layout::{
    Cursor, Direction, HEADER_BYTES, LABEL_AT, LABEL_MOST, Layout, MAGIC, PAGE, SegmentSpec, WORDS,
};
use crate::map::Map;
use crate::mirror::Mirror;
use crate::ring::{self, RingMemory};
use crate::segments;
use crate::sync::{AtomicU64, Ordering};
use crate::table::{Table, TableMemory};
use forebay_host::{Process, ProcessState, directories, rlimits};
use forebay_types::{Code, Error, Result};
use rustix::fs::{AtFlags, CWD, FlockOperation, MemfdFlags, Mode, OFlags, SealFlags, flock};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Pages are taken in pieces of this size, each a few milliseconds.
const CHUNK: u64 = 4 << 20;

/// A segment; clones are handles to the same one.
#[derive(Clone)]
pub struct Segment {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    map: Arc<Map>,
    layout: Layout,
    path: Option<PathBuf>,
    events: [Arc<Event>; 2],
    ends: [AtomicBool; 4],
    allocator: AtomicBool,
    growth: Growth,
    ahead: Mutex<Ahead>,
    created: bool,
    /// Whether its rings take their pages when they are written: nobody but its two users needs it, and there may be
    /// thousands.
    grows: bool,
    /// Of a named segment, in its creator: another description of the file, which keeps it locked.
    _lock: Option<OwnedFd>,
}

/// A ring of a segment, as the ring code sees it.
pub struct Mapped {
    inner: Arc<Inner>,
    which: Direction,
    /// Which of the four ends it is; none for an onlooker.
    end: Option<usize>,
}

impl RingMemory for Mapped {
    #[inline]
    fn tail(&self) -> &AtomicU64 {
        self.inner.map.atomic_u64(Layout::cursor(Cursor::tail(self.which)))
    }

    #[inline]
    fn mark(&self) -> &AtomicU64 {
        self.inner.map.atomic_u64(Layout::cursor(Cursor::mark(self.which)))
    }

    #[inline]
    fn capacity(&self) -> u64 {
        self.inner.layout.rings[self.which.index()].1
    }

    #[inline]
    fn head(&self, at: u64) -> &AtomicU64 {
        self.inner.map.atomic_u64(self.inner.layout.rings[self.which.index()].0 + at)
    }

    #[inline]
    fn store(&self, at: u64, bytes: &[u8]) {
        self.inner.map.store(self.inner.layout.rings[self.which.index()].0 + at, bytes);
    }

    #[inline]
    fn load(&self, at: u64, out: &mut [u8]) {
        self.inner.map.load(self.inner.layout.rings[self.which.index()].0 + at, out);
    }

    fn grows(&self) -> bool {
        self.inner.grows
    }

    fn grow(&self, from: u64, to: u64) -> bool {
        self.inner.map.populate(self.inner.layout.rings[self.which.index()].0 + from, to - from)
    }
}

/// The block table of a segment, as the code of the table sees it.
#[derive(Clone, Copy)]
pub(crate) struct Entries<'a> {
    map: &'a Map,
    layout: &'a Layout,
}

impl TableMemory for Entries<'_> {
    #[inline]
    fn blocks(&self) -> u32 {
        self.layout.blocks
    }

    #[inline]
    fn area(&self) -> (u64, u64) {
        (self.layout.blocks_at, self.layout.block_bytes)
    }

    #[inline]
    fn word(&self, index: u32, at: u64) -> &AtomicU64 {
        self.map.atomic_u64(Layout::entry(index) + at)
    }

    #[inline]
    fn releases(&self) -> &AtomicU64 {
        self.map.atomic_u64(Layout::cursor(Cursor::Released))
    }

    #[inline]
    fn taken(&self) -> &AtomicU64 {
        self.map.atomic_u64(Layout::cursor(Cursor::Taken))
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        if let Some(end) = self.end {
            self.inner.ends[end].store(false, Ordering::Release);
        }
    }
}

/// The writing end of a segment's ring.
pub type Producer = ring::Producer<Mapped>;
/// The reading end of a segment's ring.
pub type Consumer = ring::Consumer<Mapped>;

impl Segment {
    /// Makes a segment in the shared-memory directory ([`directories::shm_dir`]), or, without a name,
    /// a memory file. Fails with `Full` and the size needed when there is no room, and with
    /// `Conflict` when the name is taken.
    pub fn create(spec: &SegmentSpec) -> Result<Segment> {
        if spec.name.is_empty() {
            Segment::unnamed(spec)
        } else {
            Segment::create_in(&directories::shm_dir(), spec)
        }
    }

    /// Makes a segment in the shared-memory directory, or in `fallback` when there is no room: a directory of the
    /// run, on disk, which is slower, and whose pages the system writes out now and then. Fails with `Full` when
    /// neither has room, and with `Conflict` when the name is taken.
    pub fn create_or_in(spec: &SegmentSpec, fallback: &Path) -> Result<Segment> {
        match Segment::create(spec) {
            Err(e) if e.code() == Code::Full => {
                Segment::create_in(fallback, spec).map_err(|second| e.within(second.text().to_owned()))
            }
            done => done,
        }
    }

    /// Makes a named segment in a directory.
    pub fn create_in(dir: &Path, spec: &SegmentSpec) -> Result<Segment> {
        segments::check_name(&spec.name)?;
        let layout = Layout::of(spec, Process::current())?;
        enough_room(dir, layout.total)?;
        let path = dir.join(&spec.name);
        let mode = Mode::RUSR | Mode::WUSR;
        let unnamed = rustix::fs::open(dir, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, mode);
        let (file, link) = match unnamed {
            Ok(file) => (file, true),
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR) => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
                (rustix::fs::open(&path, flags, mode).map_err(|e| taken(&path, e))?, false)
            }
            Err(e) => return Err(not_made(&path, e)),
        };
        let segment = Segment::fill(file, layout, Some(path.clone()));
        match segment {
            Ok(segment) if link => {
                let from = format!("/proc/self/fd/{}", segment.fd().as_raw_fd());
                rustix::fs::linkat(CWD, from, CWD, &path, AtFlags::SYMLINK_FOLLOW)
                    .map_err(|e| taken(&path, e))?;
                Ok(segment)
            }
            Err(e) => {
                if !link {
                    let _ = std::fs::remove_file(&path);
                }
                Err(e.within(format!("cannot make the segment {}", path.display())))
            }
            done => done,
        }
    }

    fn unnamed(spec: &SegmentSpec) -> Result<Segment> {
        let layout = Layout::of(spec, Process::current())?;
        let file = rustix::fs::memfd_create("forebay", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .map_err(|e| rlimits::cannot("cannot make a memory file", e))?;
        let segment = Segment::fill(file, layout, None)?;
        // The peer may write the pages but can neither cut them off nor add to them.
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(segment.fd(), seals)
            .map_err(|e| Error::io("cannot seal a memory file", e))?;
        Ok(segment)
    }

    /// Sizes the file, takes the pages of everything but the blocks, and of a memory file but the rings; writes the
    /// header.
    fn fill(file: OwnedFd, layout: Layout, path: Option<PathBuf>) -> Result<Segment> {
        let cannot = |e| Error::io(format!("cannot take {} bytes of shared memory", layout.total), e);
        rustix::fs::ftruncate(&file, layout.total).map_err(cannot)?;
        let map = Map::new(file, layout.total)?;
        let taken = if path.is_some() { layout.blocks_at } else { layout.rings[0].0 };
        map.take(0, taken).map_err(cannot)?;
        map.populate(0, taken);
        let header = layout.encode();
        map.store(8, &header[8..]);
        let lock = map.fd().filter(|_| path.is_some()).map(lock).transpose()?;
        map.atomic_u64(0).store(MAGIC, Ordering::Release);
        let grows = path.is_none();
        Ok(Segment::over(map, layout, path, grows, Some(lock)))
    }

    /// `made`: this process made it, and holds its lock if it has one.
    fn over(
        map: Map,
        layout: Layout,
        path: Option<PathBuf>,
        grows: bool,
        made: Option<Option<OwnedFd>>,
    ) -> Segment {
        Segment {
            inner: Arc::new(Inner {
                map: Arc::new(map),
                layout,
                path,
                events: Default::default(),
                ends: Default::default(),
                allocator: AtomicBool::new(false),
                growth: Growth::by(CHUNK),
                ahead: Mutex::default(),
                created: made.is_some(),
                grows,
                _lock: made.flatten(),
            }),
        }
    }

    /// Opens a named segment of this user.
    pub fn open(path: &Path) -> Result<Segment> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|e| Error::io(format!("cannot open the segment {}", path.display()), e))?;
        Segment::adopt(file, Some(path.to_owned()), false).map_err(|e| e.within(path.display()))
    }

    /// Uses a segment without a name whose descriptor came over a socket. One that its maker could cut
    /// short, so that touching it would kill this process, is refused.
    pub fn from_fd(fd: OwnedFd) -> Result<Segment> {
        is_sealed_or_refused(fd.as_fd())?;
        Segment::adopt(fd, None, true)
    }

    /// Uses a segment without a name whose descriptor came over a socket, and closes the descriptor: for processes
    /// that have many segments and need their descriptors for other things. One that its maker could cut short is
    /// refused.
    pub fn from_fd_alone(fd: OwnedFd) -> Result<Segment> {
        is_sealed_or_refused(fd.as_fd())?;
        let (map, layout) = Segment::map_checked(fd)?;
        Ok(Segment::over(map.without_file(), layout, None, true, None))
    }

    /// Uses a segment that has a name and whose descriptor came over a socket. A file with a name cannot be
    /// sealed: who cuts it short ends whoever looks at it.
    pub fn from_named_fd(fd: OwnedFd) -> Result<Segment> {
        Segment::adopt(fd, None, false)
    }

    fn adopt(file: OwnedFd, path: Option<PathBuf>, grows: bool) -> Result<Segment> {
        let (map, layout) = Segment::map_checked(file)?;
        Ok(Segment::over(map, layout, path, grows, None))
    }

    fn map_checked(file: OwnedFd) -> Result<(Map, Layout)> {
        let stat = rustix::fs::fstat(&file).map_err(|e| Error::io("cannot look at a segment", e))?;
        if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::RegularFile {
            return Err(Error::new(Code::Corrupt, "not a segment of Forebay: not a plain file"));
        }
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(Error::new(
                Code::Refused,
                format!(
                    "the segment belongs to user {}; segments are used by their own user only",
                    stat.st_uid
                ),
            ));
        }
        let mut header = [0; HEADER_BYTES];
        let bytes = stat.st_size as u64;
        let read = rustix::io::pread(&file, &mut header[..], 0)
            .map_err(|e| Error::io("cannot read the head of a segment", e))?;
        if read < HEADER_BYTES || bytes < PAGE {
            return Err(Error::new(Code::Corrupt, format!("not a segment of Forebay: it has {bytes} bytes")));
        }
        let layout = Layout::decode(&header, bytes)?;
        Ok((Map::new(file, layout.total)?, layout))
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    pub(crate) fn map(&self) -> &Arc<Map> {
        &self.inner.map
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.inner.layout
    }

    pub(crate) fn table(&self) -> Table<Entries<'_>> {
        self.inner.table()
    }

    pub(crate) fn handle(&self, index: u32, offset: u64, len: u64) -> Block {
        Block::new(self.inner.map.clone(), index, self.table().generation(index), offset, len)
    }

    /// The name in the file system, if this handle knows it.
    pub fn path(&self) -> Option<&Path> {
        self.inner.path.as_deref()
    }

    /// The descriptor, to be sent over a socket.
    ///
    /// # Panics
    /// When it was closed at once ([`Segment::from_fd_alone`]): who made the segment hands it on.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.inner.map.fd().expect("a segment is handed on by whoever made it")
    }

    /// Removes the name; the memory stays until the last user lets go. A name that is gone
    /// already is no error.
    pub fn unlink(&self) -> Result<()> {
        match self.path().map(std::fs::remove_file) {
            Some(Err(e)) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io(format!("cannot remove {}", self.path().unwrap_or(Path::new("")).display()), e))
            }
            _ => Ok(()),
        }
    }

    /// Who made it.
    pub fn creator(&self) -> Process {
        self.inner.layout.creator
    }

    /// Says for people what it belongs to: the directory of a run. What is too long is not kept.
    pub fn set_label(&self, text: &str) {
        if text.len() as u64 <= LABEL_MOST {
            self.inner.map.store(LABEL_AT + 4, text.as_bytes());
            self.inner.map.atomic_u32(LABEL_AT).store(text.len() as u32, Ordering::Release);
        }
    }

    /// What it was said to belong to.
    pub fn label(&self) -> Option<String> {
        let length = u64::from(self.inner.map.atomic_u32(LABEL_AT).load(Ordering::Acquire));
        let mut text = vec![0; (1..=LABEL_MOST).contains(&length).then_some(length)? as usize];
        self.inner.map.load(LABEL_AT + 4, &mut text);
        String::from_utf8(text).ok()
    }

    /// Whether the process that made it has not ended. One of another pid name space cannot be seen from
    /// here; it lives as long as it, or a child of it, keeps its segment locked.
    pub fn creator_lives(&self) -> bool {
        match self.creator().state() {
            ProcessState::Hidden => self.inner.map.fd().is_some_and(is_locked),
            state => state != ProcessState::Gone,
        }
    }

    /// What it is for.
    pub fn kind(&self) -> u32 {
        self.inner.layout.kind
    }

    /// Most blocks at a time.
    pub fn blocks(&self) -> u32 {
        self.inner.layout.blocks
    }

    /// Bytes of the block area.
    pub fn block_bytes(&self) -> u64 {
        self.inner.layout.block_bytes
    }

    /// Entries of the block table.
    pub fn block_count(&self) -> u32 {
        self.inner.layout.blocks
    }

    /// A control word; both sides see it, each word has one writer.
    ///
    /// # Panics
    /// When there is no such word ([`WORDS`]).
    #[inline]
    pub fn word(&self, i: usize) -> &AtomicU64 {
        assert!(i < WORDS, "there are {WORDS} control words");
        self.inner.map.atomic_u64(Layout::word(i))
    }

    /// One end of a ring, handed out once at a time.
    fn end(&self, which: Direction, writing: bool) -> Mapped {
        let end = which.index() * 2 + usize::from(writing);
        let held = self.inner.ends[end].swap(true, Ordering::AcqRel);
        assert!(!held, "this end of the {which:?} ring is in use already: one thread, one end");
        Mapped { inner: self.inner.clone(), which, end: Some(end) }
    }

    /// The writing end of a ring.
    ///
    /// # Panics
    /// When this handle or a clone of it has handed it out and it still lives: a ring has one
    /// writer.
    pub fn producer(&self, which: Direction) -> Producer {
        ring::Producer::new(self.end(which, true))
    }

    /// Where the published records of a ring end, as far as their producer has said so.
    #[inline]
    pub fn published(&self, which: Direction) -> u64 {
        self.inner.map.atomic_u64(Layout::cursor(Cursor::tail(which))).load(Ordering::Acquire)
    }

    /// Up to where the reader of a ring has given it back.
    #[inline]
    pub fn released(&self, which: Direction) -> u64 {
        self.inner.map.atomic_u64(Layout::cursor(Cursor::mark(which))).load(Ordering::Acquire)
    }

    /// Whether a ring has a record at a position, for who looks for news without its reading end:
    /// the position is the one behind the last record read.
    #[inline]
    pub fn has_record(&self, which: Direction, position: u64) -> bool {
        let (at, bytes) = self.inner.layout.rings[which.index()];
        bytes > 0 && self.inner.map.atomic_u64(at + ring::line(position, bytes)).load(Ordering::Acquire) != 0
    }

    /// How many records of a ring wait for their reader.
    pub fn waiting(&self, which: Direction) -> u64 {
        ring::waiting(&Mapped { inner: self.inner.clone(), which, end: None })
    }

    /// The reading end of a ring; starts at the release mark.
    ///
    /// # Panics
    /// When this handle or a clone of it has handed it out and it still lives: a ring has one
    /// reader.
    pub fn consumer(&self, which: Direction) -> Consumer {
        ring::Consumer::new(self.end(which, false))
    }

    /// The allocator of the creating side. Made anew it knows nothing of blocks handed out
    /// before, so it is made once.
    ///
    /// # Panics
    /// When it has been handed out and still lives.
    pub fn allocator(&self) -> Allocator {
        let held = self.inner.allocator.swap(true, Ordering::AcqRel);
        assert!(!held, "a segment has one allocator");
        Allocator::new(self.clone())
    }

    /// In place of the allocator: this segment mirrors one of another host.
    ///
    /// # Panics
    /// When it has been handed out, or the allocator, and still lives.
    pub fn mirror(&self) -> Mirror {
        let held = self.inner.allocator.swap(true, Ordering::AcqRel);
        assert!(!held, "a segment has one allocator");
        Mirror::new(self.clone())
    }

    /// What it was made of, for who makes a mirror of it; the name is left out.
    pub fn spec(&self) -> SegmentSpec {
        let layout = self.layout();
        SegmentSpec {
            name: String::new(),
            kind: layout.kind,
            up_bytes: layout.rings[0].1,
            down_bytes: layout.rings[1].1,
            block_bytes: layout.block_bytes,
            blocks: layout.blocks,
        }
    }

    /// A block that the creating side published.
    pub fn block(&self, index: u32) -> Result<Block> {
        let (offset, len) = self.table().look_up(index)?;
        Ok(self.handle(index, offset, len))
    }

    /// Gives a block back to the creating side's allocator; twice is the same as once, as long
    /// as the creator has not handed out the entry again.
    #[inline]
    pub fn release(&self, index: u32) -> Result<()> {
        self.table().release(index)
    }

    /// Keeps a block that this side was lent, until it releases it: for whoever looks at it longer than the other side
    /// knows. To be said before that side hears that it may have it back. False: it has it back already.
    pub fn hold(&self, index: u32, generation: u32) -> Result<bool> {
        self.table().hold(index, generation)
    }

    /// Gives back a block, but only when the entry still has the use that a record spoke of
    /// ([`Block::generation`]): for a successor that does not know how far its predecessor came.
    pub fn release_generation(&self, index: u32, generation: u32) -> Result<()> {
        self.table().release_generation(index, generation)
    }

    /// Takes the pages of the first `bytes` of the block area in the background and enters them into this process's
    /// page table, piece by piece; a thread that is at it already goes on so far. Ends early when the system has no
    /// more pages (blocks beyond are then refused by the allocator) or when the segment is dropped. The other side
    /// takes no pages: there it enters those that are taken by now. Gives the thread, if one was needed.
    pub fn prefault(&self, bytes: u64) -> Option<JoinHandle<()>> {
        let bytes = bytes.min(self.inner.layout.block_bytes);
        let mut ahead = self.inner.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        ahead.wanted = ahead.wanted.max(bytes);
        if ahead.busy || ahead.done >= ahead.wanted {
            return None;
        }
        ahead.busy = true;
        let weak = Arc::downgrade(&self.inner);
        let enter = move || while weak.upgrade().is_some_and(|inner| inner.enter_next()) {};
        let thread = std::thread::Builder::new().name("prefault".into()).stack_size(64 << 10).spawn(enter);
        ahead.busy = thread.is_ok();
        thread.ok()
    }

    /// Bytes of the block area whose pages are taken from the system.
    pub fn taken(&self) -> u64 {
        self.table().taken().load(Ordering::Acquire)
    }

    /// The doorbell of a ring.
    pub fn bell(&self, which: Direction) -> Bell {
        Bell::new(self.inner.map.clone(), which, self.inner.events[which.index()].clone())
    }
}

/// How far pages are entered ahead of their use.
#[derive(Default)]
struct Ahead {
    wanted: u64,
    done: u64,
    /// A thread is at it.
    busy: bool,
}

impl Inner {
    /// Enters the next piece; false when there is none.
    fn enter_next(&self) -> bool {
        let (at, len) = {
            let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
            ahead.busy = ahead.done < ahead.wanted;
            if !ahead.busy {
                return false;
            }
            (ahead.done, CHUNK.min(ahead.wanted - ahead.done))
        };
        let there = match self.created {
            true => self.take_up_to(at + len),
            false => self.table().taken().load(Ordering::Acquire) >= at + len,
        };
        if there {
            self.map.populate(self.layout.blocks_at + at, len);
        }
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        match there {
            true => ahead.done = at + len,
            // Who wants more later tries again.
            false => ahead.wanted = ahead.done,
        }
        ahead.busy = there;
        there
    }

    pub fn table(&self) -> Table<Entries<'_>> {
        Table(Entries { map: &self.map, layout: &self.layout })
    }

    /// Sees to it that the first `bytes` of the block area are taken; says whether they are.
    pub fn take_up_to(&self, bytes: u64) -> bool {
        let first = self.layout.blocks_at;
        self.growth.take_up_to(&self.table(), bytes, |at, len| self.map.take(first + at, len).is_ok())
    }

    /// Gives back the pages behind the first `bytes` of the block area, where no block is.
    pub fn give_back_behind(&self, bytes: u64) -> u64 {
        // Who enters pages ahead begins there again.
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        if ahead.busy {
            return 0;
        }
        (ahead.done, ahead.wanted) = (ahead.done.min(bytes), ahead.wanted.min(bytes));
        let first = self.layout.blocks_at;
        self.growth.give_back(&self.table(), bytes, |at, len| self.map.give_back(first + at, len).is_ok())
    }

    pub fn give_back_allocator(inner: &Arc<Inner>) {
        inner.allocator.store(false, Ordering::Release);
    }
}

/// Locks the file of a segment for as long as the descriptor lives. It is of a description of its own:
/// one that is handed over a socket shares its locks with whoever has it. On a file system without locks
/// nobody can say that it is not locked either.
fn lock(file: BorrowedFd) -> Result<OwnedFd> {
    let own = again(file).map_err(|e| Error::io("cannot open a segment once more", e))?;
    let _ = flock(&own, FlockOperation::NonBlockingLockExclusive);
    Ok(own)
}

/// A segment that could be cut short would end whoever looks at it.
fn is_sealed_or_refused(fd: BorrowedFd) -> Result<()> {
    match is_sealed(fd) {
        true => Ok(()),
        false => Err(Error::new(
            Code::Refused,
            "the segment could be cut short while it is used; hand over a memory file with the seal F_SEAL_SHRINK",
        )),
    }
}

/// Whether nobody can take pages away from a file.
fn is_sealed(file: BorrowedFd) -> bool {
    rustix::fs::fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK))
}

/// Whether somebody keeps a segment locked; also when that cannot be told.
fn is_locked(file: BorrowedFd) -> bool {
    again(file).and_then(|own| flock(&own, FlockOperation::NonBlockingLockShared)).is_err()
}

/// Opens a file once more.
fn again(file: BorrowedFd) -> rustix::io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

fn taken(path: &Path, e: rustix::io::Errno) -> Error {
    if e == rustix::io::Errno::EXIST {
        return Error::new(Code::Conflict, format!("the segment {} exists already", path.display()));
    }
    not_made(path, e)
}

fn not_made(path: &Path, e: rustix::io::Errno) -> Error {
    let e = Error::io(format!("cannot make the segment {}", path.display()), e);
    match (e.code(), path.parent()) {
        (Code::ReadOnly | Code::NotFound, Some(dir)) => Error::new(
            e.code(),
            format!(
                "{}; have {} mounted so that this user can write there (a tmpfs, mode 1777), or set FOREBAY_SHM_DIR to a directory where that is so",
                e.text(),
                dir.display()
            ),
        ),
        _ => e,
    }
}

fn enough_room(dir: &Path, bytes: u64) -> Result<()> {
    let stat = rustix::fs::statvfs(dir).map_err(|e| {
        Error::io(format!("cannot look at the directory {}", dir.display()), e)
            .with_remedy("segments lie there: set FOREBAY_SHM_DIR to one that is there")
    })?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    // A file system that reports no size at all (some mounts do) is tried.
    if stat.f_blocks > 0 && free < bytes {
        return Err(Error::new(
            Code::Full,
            format!(
                "{} has {free} bytes free and the segment needs {bytes}; make it larger \
                 (`mount -o remount,size=...`, `docker run --shm-size=...`), ask for a smaller buffer, \
                 or set FOREBAY_SHM_DIR to a directory with room",
                dir.display()
            ),
        ));
    }
    Ok(())
}
