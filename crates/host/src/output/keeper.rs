//! The process that passes on what another one had written when it died.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::process::{Command, Stdio};

use forebay_types::{Error, Result};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::stream::{Ring, write_all};
use crate::ffi;
use crate::wait::{self, PollFlags};

/// Starts a keeper of this process for pipes and where they lead. It is no child of this process when this returns.
pub(super) fn start(program: &Path, ends: &[(&OwnedFd, BorrowedFd)]) -> Result<()> {
    let failed = |what: &str, e: io::Error| Error::io(format!("cannot {what} the keeper of the output"), e);
    let pid = Pid::from_raw(std::process::id().cast_signed());
    let own = pid.ok_or_else(|| Error::internal("a process without a number"))?;
    let own = pidfd_open(own, PidfdFlags::empty()).map_err(|e| failed("tell who we are to", e.into()))?;
    // Copies that the program inherits, and that go when it is there.
    let mut copies = vec![rustix::io::dup(&own).map_err(|e| failed("start", e.into()))?];
    for (pipe, real) in ends {
        for fd in [pipe.as_fd(), *real] {
            copies.push(rustix::io::dup(fd).map_err(|e| failed("start", e.into()))?);
        }
    }
    let numbers = copies.iter().map(|fd| fd.as_raw_fd().to_string());
    let mut command = Command::new(program);
    command.arg("keep-output").args(numbers).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.spawn().and_then(|mut child| child.wait());
    match status {
        Ok(status) if !status.success() => {
            let text = format!(
                "{} does not keep the output ({status}); is it of another version?",
                program.display()
            );
            Err(Error::bad(text))
        }
        // A program may leave the waiting for its children to the system, which then does not tell.
        Err(e) if e.raw_os_error() != Some(Errno::CHILD.raw_os_error()) => Err(failed("start", e)),
        _ => Ok(()),
    }
}

/// Is the keeper: the number of a descriptor that tells of the end of a process, then those of pipes and of where they
/// lead. Comes back when all who could write there have ended.
pub fn keep_until_the_end(numbers: &[RawFd]) -> Result<()> {
    let own = |fd: &RawFd| ffi::inherited(*fd).map_err(|e| Error::io("cannot take over the output", e));
    let [process, ends @ ..] = numbers else { return Err(Error::bad("there is nothing to keep")) };
    let process = own(process)?;
    let ends =
        ends.chunks_exact(2).map(|two| Ok((own(&two[0])?, own(&two[1])?))).collect::<Result<Vec<_>>>()?;
    wait::until(&process, PollFlags::IN, None)?;
    std::thread::scope(|scope| {
        for (pipe, real) in &ends {
            scope.spawn(|| pass_on(pipe, &real.as_fd(), None, true));
        }
    });
    Ok(())
}

/// Passes on what is in a pipe, and if it `stays` what comes until the end.
pub(super) fn pass_on(
    pipe: &OwnedFd,
    real: &BorrowedFd,
    mut ring: Option<&mut Ring>,
    stays: bool,
) -> io::Result<()> {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        match rustix::io::read(pipe, &mut bytes) {
            Ok(0) => return Ok(()),
            Ok(n) => {
                let _ = write_all(*real, &bytes[..n]);
                if let Some(ring) = &mut ring {
                    ring.add(&bytes[..n]);
                }
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if stays => drop(wait::until(pipe, PollFlags::IN, None)),
            Err(Errno::AGAIN) => return Ok(()),
            Err(e) => return Err(e.into()),
        }
    }
}
