//! What this process writes to its standard output and standard error, kept on its way for whoever asks what a call has
//! printed.
//!
//! ```text
//! descriptor 1 or 2 ---> pipe ---> a thread of this process: first the real one, then the ring, then out of the pipe
//!                         |
//!                         `------> the keeper, another process: passes on what is left there when this one has died
//! ```
//! Bytes leave the pipe when they have been passed on, and not before: `kill -9` at any instruction loses none, at
//! worst the keeper writes the last ones a second time. The pipe is bounded, and so is the ring. When the real one is slow
//! a program that prints waits as it would without all this; whoever asks waits for nothing, for what is still in the
//! pipe is read there without taking it out.
//!
//! [`Output::keep`] starts a keeper, the `forebay` program; a process that has a supervisor is kept by that one
//! ([`Pipe`], [`Output::adopt`]).

mod keeper;
mod stream;

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};

use forebay_types::{Error, Result};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::fork::own_pid;
use crate::{ffi, lock};
pub use keeper::keep_until_the_end;
use stream::{Ring, Stream};

/// The descriptors: standard output and standard error.
const DESCRIPTORS: [RawFd; 2] = [1, 2];
/// Lines that are told of each.
const LINES: usize = 20;

static CURRENT: Mutex<Weak<Output>> = Mutex::new(Weak::new());

/// The output of this process, while it is kept. Dropped, everything goes where it went before.
pub struct Output {
    streams: [Option<Arc<Stream>>; 2],
    has_units: bool,
    /// The process whose threads pass it on; a child of `fork` has none of them.
    pid: u32,
}

/// A pipe for one of the two descriptors of a child, and the ring behind it, which its parent reads when it has died.
pub struct Pipe {
    read: OwnedFd,
    write: Option<OwnedFd>,
    ring: Ring,
}

impl Pipe {
    /// A pipe with nothing in it.
    pub fn new() -> Result<Pipe> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(|e| Error::io("cannot make a pipe", e))?;
        rustix::fs::fcntl_setfl(&read, rustix::fs::OFlags::NONBLOCK)
            .map_err(|e| Error::io("cannot set up a pipe", e))?;
        Ok(Pipe { read, write: Some(write), ring: Ring::new()? })
    }

    /// The numbers of its descriptors, for a child that is started before this is called with `false`.
    pub fn hand_over(&mut self, inherits: bool) -> Result<Vec<RawFd>> {
        let flags = if inherits { rustix::io::FdFlags::empty() } else { rustix::io::FdFlags::CLOEXEC };
        let Some(write) = &self.write else { return Ok(Vec::new()) };
        let fds = [self.read.as_raw_fd(), write.as_raw_fd(), self.ring.file().as_raw_fd()];
        for fd in [rustix::fd::AsFd::as_fd(&self.read), rustix::fd::AsFd::as_fd(write), self.ring.file()] {
            rustix::io::fcntl_setfd(fd, flags).map_err(|e| Error::io("cannot hand a pipe over", e))?;
        }
        if !inherits {
            // From now on its end is the end of all that have it from the child.
            self.write = None;
        }
        Ok(fds.to_vec())
    }

    /// The child has died: passes on what it left in the pipe, and tells the last lines of all that it wrote. What
    /// processes that it has started write later is passed on by a thread.
    pub fn end(mut self, fd: RawFd) -> String {
        let Some(real) = ffi::standard(fd) else { return String::new() };
        let text = keeper::pass_on(&self.read, &real, Some(&mut self.ring), false);
        debug_assert!(text.is_ok(), "a pipe that is open can be read");
        let last = last_lines(&self.ring.last());
        let rest = move || keeper::pass_on(&self.read, &real, None, true);
        // Without a thread it is lost that children of the dead one print.
        let _ = std::thread::Builder::new().name("output".into()).spawn(rest);
        last
    }
}

impl Output {
    /// Begins to keep what this process writes, with the `forebay` program as the keeper. One for all who ask.
    pub fn keep(program: &Path) -> Result<Arc<Output>> {
        let mut current = lock(&CURRENT);
        if let Some(kept) = current.upgrade() {
            return Ok(kept);
        }
        let pipes = [Pipe::new()?, Pipe::new()?];
        let ends =
            DESCRIPTORS.iter().zip(&pipes).filter_map(|(fd, pipe)| Some((&pipe.read, ffi::standard(*fd)?)));
        keeper::start(program, &ends.collect::<Vec<_>>())?;
        let kept = Arc::new(Output::begin(pipes)?);
        *current = Arc::downgrade(&kept);
        Ok(kept)
    }

    /// Begins to keep what this process writes in the pipes that its supervisor has handed over, by their numbers.
    pub fn adopt(numbers: &[RawFd]) -> Result<Arc<Output>> {
        let &[r1, w1, f1, r2, w2, f2] = numbers else {
            return Err(Error::internal("the supervisor hands six descriptors over"));
        };
        let own =
            |fd| ffi::inherited(fd).map_err(|e| Error::io("cannot take over a pipe of the supervisor", e));
        let pipe = |[read, write, ring]: [RawFd; 3]| {
            Ok(Pipe { read: own(read)?, write: Some(own(write)?), ring: Ring::of(own(ring)?.into()) })
        };
        Ok(Arc::new(Output::begin([pipe([r1, w1, f1])?, pipe([r2, w2, f2])?])?))
    }

    fn begin(pipes: [Pipe; 2]) -> Result<Output> {
        // What a call has printed is to go on when it has ended, not when the next one begins.
        ffi::print_by_lines();
        ffi::flush_output();
        let mut output = Output { streams: [None, None], has_units: ffi::has_units(), pid: own_pid() };
        for ((fd, pipe), place) in DESCRIPTORS.into_iter().zip(pipes).zip(&mut output.streams) {
            *place = Stream::begin(fd, pipe)?;
        }
        Ok(output)
    }

    /// How many bytes were written to each so far, all that was printed among them if it could be flushed; says whether
    /// it could.
    pub fn written(&self) -> ([u64; 2], bool) {
        let flushed = ffi::flush_output();
        (self.each(Stream::written), flushed)
    }

    /// Whether a language of this process keeps what was printed until it is flushed.
    pub fn is_held_back(&self) -> bool {
        self.has_units
    }

    /// How many bytes of each have gone on so far: a few instructions, and a moment behind.
    pub fn passed(&self) -> [u64; 2] {
        self.each(|stream| stream.passed.load(Ordering::Acquire))
    }

    /// Writes a line to the real standard error, past what is kept: one of the program's own, which no call has printed.
    pub fn tell(&self, line: &str) {
        match &self.streams[1] {
            Some(stream) => stream.tell(format!("{line}\n").as_bytes()),
            None => eprintln!("{line}"),
        }
    }

    fn each(&self, tell: impl Fn(&Stream) -> u64) -> [u64; 2] {
        [0, 1].map(|i| self.streams[i].as_deref().map_or(0, &tell))
    }

    /// The last lines of each that were written after so many bytes.
    pub fn since(&self, from: [u64; 2]) -> [String; 2] {
        [0, 1].map(|i| {
            let text = self.streams[i].as_deref().map(|stream| stream.since(from[i]));
            text.map_or_else(String::new, |bytes| last_lines(&bytes))
        })
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        ffi::flush_output();
        for (fd, stream) in DESCRIPTORS.into_iter().zip(&self.streams) {
            stream.iter().for_each(|stream| stream.end(fd, self.pid == own_pid()));
        }
    }
}

/// The last lines of a text.
fn last_lines(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    lines[lines.len().saturating_sub(LINES)..].concat()
}
