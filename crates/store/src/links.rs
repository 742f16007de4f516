//! A copy of a run that was made of hard links, as by `cp -al`, shares its files with the run. Most are never changed:
//! they are written under another name, and removed. What is written in place is made its own before the run is
//! opened for writing: the catalog with its log here, and `LOCK` where it is taken.

use crate::disk::{Disk, write_all};
use crate::layout::{Layout, TMP, with_end};
use forebay_arena::Lent;
use forebay_types::{Error, Result};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes that are copied at a time.
const PART: usize = 1 << 20;

/// Makes a run's catalog its own, for whoever has its lock. The file goes last: until then the next opening does it
/// again.
pub fn part(disk: &dyn Disk, layout: &Layout) -> Result<()> {
    let catalog = layout.catalog();
    let [log, index] = ["-wal", "-shm"].map(|end| with_end(&catalog, end));
    if ![&catalog, &log, &index].into_iter().any(|path| is_shared(path)) {
        return Ok(());
    }
    let failed = |e| {
        Error::io(
            format!(
                "{} shares files with another run, as a copy by `cp -al`, and cannot be parted from it",
                layout.root().display()
            ),
            e,
        )
    };
    // SQLite makes it anew.
    disk.remove(&index).map_err(failed)?;
    for path in [&log, &catalog].into_iter().filter(|path| is_shared(path)) {
        let own = with_end(path, TMP);
        disk.remove(&own).map_err(failed)?;
        copy(disk, path, &own).and_then(|()| disk.rename(&own, path)).map_err(failed)?;
    }
    disk.sync_dir(layout.root()).map_err(failed)
}

/// Whether a file has another name, too.
pub fn is_shared(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|m| m.is_file() && m.nlink() > 1)
}

/// Writes a durable copy.
pub fn copy(disk: &dyn Disk, from: &Path, to: &Path) -> io::Result<()> {
    let mut source = File::open(from)?;
    let copy = disk.open(to, OpenOptions::new().write(true).create(true).truncate(true))?;
    copy.set_permissions(source.metadata()?.permissions())?;
    let (mut bytes, mut at) = (vec![0; PART], 0);
    loop {
        match source.read(&mut bytes)? {
            0 => return disk.sync(copy.as_fd()),
            n => {
                write_all(disk, copy.as_fd(), Lent::of(&bytes[..n]), at)?;
                at += n as u64;
            }
        }
    }
}
