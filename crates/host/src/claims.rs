//! What one process of this user and host has for itself, by name, until it gives it back or dies: a byte for each in one
//! file of the runtime directory, so that many of them want one descriptor.
//!
//! The locks are those that belong to the process: a child of `fork` has none of them, and whoever is refused learns the pid.
//! They go when any part of the process closes the file, so it stays open until the end.

use crate::{directories, ffi, rlimits};
use forebay_types::Result;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

/// What a process has for itself.
pub struct Claims {
    file: File,
}

/// Where a name stands in the file. Two names at one place are as good as never there.
fn place(name: &[u8]) -> i64 {
    // FNV-1a: every build of Forebay finds the same place.
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    (name.iter().fold(0xcbf2_9ce4_8422_2325, mix) >> 2) as i64
}

impl Claims {
    /// Opens the file of that name in the runtime directory. Never dropped while anything is claimed.
    pub fn open(name: &str) -> Result<Claims> {
        Claims::at(&directories::runtime_dir()?.join(name))
    }

    fn at(path: &Path) -> Result<Claims> {
        let opened = File::options().read(true).write(true).create(true).truncate(false).open(path);
        let file = opened.map_err(|e| rlimits::cannot(format!("cannot open {}", path.display()), e))?;
        Ok(Claims { file })
    }

    /// Claims a name. Otherwise: the pid of who has it, 0 if that one cannot be named. Where the file system has no locks
    /// everybody has everything.
    pub fn claim(&self, name: &[u8]) -> std::result::Result<(), u32> {
        let byte = place(name);
        if !matches!(ffi::lock_for_process(self.file.as_fd(), byte, true), Ok(false)) {
            return Ok(());
        }
        let pid = ffi::who_locks(self.file.as_fd(), byte).ok().flatten();
        Err(pid.and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0))
    }

    /// Gives a name back.
    pub fn give_back(&self, name: &[u8]) {
        let _ = ffi::lock_for_process(self.file.as_fd(), place(name), false);
    }
}
