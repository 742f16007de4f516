//! One of the two descriptors, and the thread that passes on what is written to it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use forebay_types::{Error, Result};
use rustix::fs::{MemfdFlags, fstat, memfd_create};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, tee};

use super::Pipe;
use crate::wait::{self, PollFlags};
use crate::{ffi, lock, threads};

/// Bytes that a ring keeps, as many as a pipe takes.
const RING: usize = 64 * 1024;
/// How long the end waits for what was written to go on.
const ENDING: Duration = Duration::from_secs(2);

/// The last bytes that went on, in a file of memory that another process may have, too.
///
/// ```text
/// bytes so far u64 | RING bytes; the byte of number n lies at n % RING
/// ```
pub(super) struct Ring(File);

impl Ring {
    pub fn new() -> Result<Ring> {
        let file = memfd_create("forebay-output", MemfdFlags::CLOEXEC);
        file.map(|fd| Ring(fd.into())).map_err(|e| Error::io("cannot make a file of memory", e))
    }

    pub fn of(file: File) -> Ring {
        Ring(file)
    }

    pub fn file(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn count(&self) -> u64 {
        let mut head = [0; 8];
        let read = self.0.read_exact_at(&mut head, 0);
        read.map_or(0, |()| u64::from_le_bytes(head))
    }

    /// More bytes have gone on. A ring that finds no memory keeps fewer.
    pub fn add(&mut self, bytes: &[u8]) {
        let (mut at, last) = (self.count(), bytes.len().saturating_sub(RING));
        at += last as u64;
        for part in bytes[last..].chunks(RING) {
            let begin = (at % RING as u64) as usize;
            let (first, second) = part.split_at(part.len().min(RING - begin));
            let _ = self.0.write_all_at(first, 8 + begin as u64);
            let _ = self.0.write_all_at(second, 8);
            at += part.len() as u64;
        }
        let _ = self.0.write_all_at(&at.to_le_bytes(), 0);
    }

    /// The last bytes.
    pub fn last(&self) -> Vec<u8> {
        let end = self.count();
        let mut all = vec![0; RING.min(usize::try_from(end).unwrap_or(RING))];
        let begin = (end % RING as u64) as usize;
        let read = match all.len() < RING {
            true => self.0.read_exact_at(&mut all, 8),
            false => {
                let (older, newer) = all.split_at_mut(RING - begin);
                let older = self.0.read_exact_at(older, 8 + begin as u64);
                older.and_then(|()| self.0.read_exact_at(newer, 8))
            }
        };
        read.map_or_else(|_| Vec::new(), |()| all)
    }
}

pub(super) struct Stream {
    /// The pipe that the program writes to; never waited for when it is read.
    pipe: OwnedFd,
    real: OwnedFd,
    kept: Mutex<Kept>,
    /// Bytes that have gone on.
    pub passed: AtomicU64,
    over: Mutex<bool>,
    ended: Condvar,
}

struct Kept {
    ring: Ring,
    /// A pipe of our own, to look at what is in the other one without taking it out.
    look: (OwnedFd, OwnedFd),
}

impl Kept {
    /// What is in the pipe now: all of it, for ours takes as much. Nothing at its end.
    fn look_into(&self, pipe: &OwnedFd) -> io::Result<Vec<u8>> {
        let n = match tee(pipe, &self.look.1, RING, SpliceFlags::NONBLOCK) {
            Err(Errno::AGAIN) => return Err(Errno::AGAIN.into()),
            seen => seen?,
        };
        let mut bytes = vec![0; n];
        read_exact(&self.look.0, &mut bytes)?;
        Ok(bytes)
    }
}

fn read_exact(fd: &OwnedFd, mut bytes: &mut [u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::read(fd, &mut *bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => bytes = &mut bytes[n..],
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// Writes all of it, however slow the other side is; an error when that is closed.
pub(super) fn write_all(fd: BorrowedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(fd, bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => drop(wait::until(fd, PollFlags::OUT, None)),
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

impl Stream {
    /// Puts a pipe in the place of a descriptor; none when that is closed.
    pub fn begin(fd: RawFd, pipe: Pipe) -> Result<Option<Arc<Stream>>> {
        let (Some(standard), Some(write)) = (ffi::standard(fd), pipe.write) else { return Ok(None) };
        let real = rustix::io::fcntl_dupfd_cloexec(standard, 3)
            .map_err(|e| Error::io(format!("cannot keep descriptor {fd}"), e))?;
        let look = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)
            .map_err(|e| Error::io("cannot make a pipe", e))?;
        let stream = Arc::new(Stream {
            pipe: pipe.read,
            real,
            passed: AtomicU64::new(pipe.ring.count()),
            kept: Mutex::new(Kept { ring: pipe.ring, look }),
            over: Mutex::new(false),
            ended: Condvar::new(),
        });
        let there = stream.clone();
        let thread = std::thread::Builder::new().name("output".into()).spawn(move || there.run());
        thread.map_err(|e| Error::io("cannot start a thread for the output", e))?;
        ffi::replace(fd, write.as_fd())
            .map_err(|e| Error::io(format!("cannot replace descriptor {fd}"), e))?;
        Ok(Some(stream))
    }

    fn run(&self) {
        ffi::block_signals();
        threads::work_behind();
        while self.pass_on().is_ok_and(|goes_on| goes_on) {}
        *lock(&self.over) = true;
        self.ended.notify_all();
    }

    /// Passes on what is there, once something is. False at the end.
    fn pass_on(&self) -> Result<bool> {
        wait::until(&self.pipe, PollFlags::IN, None)?;
        let seen = lock(&self.kept).look_into(&self.pipe);
        let bytes = match seen {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            seen => seen.map_err(|e| Error::io("cannot read the output", e))?,
        };
        if bytes.is_empty() {
            return Ok(false);
        }
        // Where nobody reads any more nothing is passed on; it is kept for who asks.
        let _ = write_all(self.real.as_fd(), &bytes);
        let mut kept = lock(&self.kept);
        kept.ring.add(&bytes);
        read_exact(&self.pipe, &mut vec![0; bytes.len()])
            .map_err(|e| Error::io("cannot read the output", e))?;
        self.passed.fetch_add(bytes.len() as u64, Ordering::Release);
        Ok(true)
    }

    /// Bytes that were written so far.
    pub fn written(&self) -> u64 {
        let _in_order = lock(&self.kept);
        let waiting = rustix::io::ioctl_fionread(&self.pipe).unwrap_or(0);
        self.passed.load(Ordering::Relaxed) + waiting
    }

    /// What was written after so many bytes, as far as it is kept.
    pub fn since(&self, from: u64) -> Vec<u8> {
        let kept = lock(&self.kept);
        let waiting = kept.look_into(&self.pipe).unwrap_or_default();
        let end = self.passed.load(Ordering::Relaxed) + waiting.len() as u64;
        let mut bytes = kept.ring.last();
        bytes.extend_from_slice(&waiting);
        let wanted = usize::try_from(end.saturating_sub(from)).unwrap_or(usize::MAX);
        bytes.split_off(bytes.len().saturating_sub(wanted))
    }

    /// Writes to the real one. Where nobody reads any more it is lost, as what is passed on.
    pub fn tell(&self, bytes: &[u8]) {
        let _ = write_all(self.real.as_fd(), bytes);
    }

    /// Puts the real one back, unless the program has done something else with the descriptor, and `waits` a while for
    /// what was written to go on.
    pub fn end(&self, fd: RawFd, waits: bool) {
        let id = |fd: BorrowedFd| fstat(fd).ok().map(|s| (s.st_dev, s.st_ino));
        if ffi::standard(fd).is_some_and(|now| id(now) == id(self.pipe.as_fd())) {
            let _ = ffi::replace(fd, self.real.as_fd());
        }
        if !waits {
            return;
        }
        let over = lock(&self.over);
        drop(self.ended.wait_timeout_while(over, ENDING, |over| !*over));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_keeps_the_last_bytes_however_they_came() {
        let (mut ring, mut all) = (Ring::new().unwrap(), Vec::new());
        for (n, len) in [0, 1, 100, RING - 200, 300, RING, RING + 7, 5, 3 * RING, 1].into_iter().enumerate() {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + n) as u8).collect();
            ring.add(&bytes);
            all.extend_from_slice(&bytes);
            assert_eq!(ring.count(), all.len() as u64);
            assert!(ring.last() == all[all.len().saturating_sub(RING)..], "after {} bytes", all.len());
        }
    }
}
