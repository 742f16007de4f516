//! What a process has from the one that started it: how it cuts itself loose, and how it ends with it.

use crate::ffi;
use forebay_types::{Error, Result};
use rustix::process::Signal;
use std::os::fd::RawFd;

/// Makes this process the leader of a session of its own and closes every descriptor above 2
/// that it inherited. To be called first thing in an agent's `main`, before anything is opened.
pub fn detach_from_parent() -> Result<()> {
    match rustix::process::setsid() {
        Ok(_) | Err(rustix::io::Errno::PERM) => {} // PERM: leads a session already
        Err(e) => return Err(Error::io("cannot start a session of its own", e)),
    }
    close_inherited()
}

/// Closes every descriptor above 2. To be called before this process has opened any.
pub fn close_inherited() -> Result<()> {
    close_inherited_but(&[])
}

/// Closes every descriptor above 2 but those.
pub fn close_inherited_but(kept: &[RawFd]) -> Result<()> {
    let list = std::fs::read_dir("/proc/self/fd").map_err(|e| Error::io("cannot list /proc/self/fd", e))?;
    let open: Vec<RawFd> = list
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|fd| *fd > 2 && !kept.contains(fd))
        .collect();
    open.into_iter().for_each(ffi::close_inherited);
    Ok(())
}

/// Asks the kernel to end this process when its parent ends (the thread of it that started this
/// process, to be exact: start it from one that stays). `parent` is the parent's pid, as it
/// knew itself: when it is gone already, that is an error.
pub fn stop_with_parent(parent: u32) -> Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(|e| Error::io("cannot tie the process to its parent", e))?;
    let now = rustix::process::getppid().map(|p| p.as_raw_nonzero().get() as u32);
    if now != Some(parent) {
        return Err(Error::io(
            format!("the parent {parent} has ended"),
            std::io::Error::from(std::io::ErrorKind::BrokenPipe),
        ));
    }
    Ok(())
}

/// Starts a thread that ends this process when its standard input is closed: for servers that
/// were started by another program and must not outlive it. `at_end` is called first.
pub fn die_with_stdin(at_end: impl FnOnce() + Send + 'static) -> Result<()> {
    std::thread::Builder::new()
        .name("stdin".into())
        .spawn(move || {
            let mut byte = [0; 64];
            loop {
                match rustix::io::read(std::io::stdin(), &mut byte) {
                    Ok(0) => break,
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(_) => break,
                }
            }
            at_end();
            std::process::exit(0);
        })
        .map(drop)
        .map_err(|e| Error::io("cannot start a thread", e))
}
