//! Where the segments of a session lie: the boot of the host and the very directory, which tells two mounts
//! of `/dev/shm` from each other; host and user for people.
//!
//! Within one boot the kernel gives no two file systems that live the same device number, nor two files of
//! one the same inode. A number that was given again says that the first bearer, with all that was in
//! it, is gone: a segment that is not in the directory of these two numbers is nowhere.

use crate::catalog;
use crate::layout::CATALOG;
use crate::lock::{self, Holder};
use forebay_arena::Segment;
use forebay_host::directories;
use forebay_types::crc32c;
use serde::{Deserialize, Serialize};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Where segments are made; the JSON in `fb_custody`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Site {
    /// Name of the host.
    pub host: String,
    /// A checksum of the identity of its system, which is nobody else's business; empty where it has none.
    /// Absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Identity of the boot.
    pub boot_id: String,
    /// The user.
    pub uid: u32,
    /// The directory; empty: not known.
    pub directory: PathBuf,
    /// Its device and inode.
    pub device: u64,
    /// See there.
    pub inode: u64,
    /// The run they are made for. Absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Home>,
}

/// The directory of a run, as it was when segments were made for it. A copy of the directory bears the same
/// identity, and its catalog names the same segments; they are not the copy's.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Home {
    /// Where it was.
    pub path: PathBuf,
    /// Device and inode, which stay when it is renamed.
    pub device: u64,
    /// See there.
    pub inode: u64,
}

impl Home {
    /// That of the run in a directory.
    pub fn of(run: &Path) -> Home {
        let (device, inode) = identity(run).unwrap_or_default();
        Home { path: run.to_owned(), device, inode }
    }

    /// Where that run is, when the one in `dir`, which has the same identity, is a copy of it. One that is not
    /// there any more was moved to another file system, or removed: then `dir` is all that is left of it.
    pub fn original_of(&self, dir: &Path, run_id: &str) -> Option<PathBuf> {
        let is_it = |path: &Path| identity(path) == Some((self.device, self.inode));
        if is_it(dir) {
            return None;
        }
        // It may have been renamed since, as by who puts it aside and goes on with the copy.
        let beside = [self.path.parent(), dir.parent()].into_iter().flatten().flat_map(|near| {
            let entries = std::fs::read_dir(near).into_iter().flatten().flatten();
            entries.filter(|e| e.ino() == self.inode).map(|e| e.path())
        });
        // The number of a directory that was removed may be another one's by now.
        let is_run = |path: &Path| {
            let id = catalog::open_read_only(&path.join(CATALOG)).and_then(|c| catalog::fact(&c, "run_id"));
            id.is_ok_and(|id| id == run_id)
        };
        std::iter::once(self.path.clone()).chain(beside).find(|path| is_it(path) && is_run(path))
    }
}

impl Site {
    /// That of the segments which this process makes.
    pub fn here() -> Site {
        let directory =
            std::path::absolute(directories::shm_dir()).unwrap_or_else(|_| directories::shm_dir());
        let (device, inode) = identity(&directory).unwrap_or_default();
        Site {
            host: lock::host(),
            machine: Some(machine()),
            boot_id: lock::boot_id(),
            uid: rustix::process::geteuid().as_raw(),
            directory,
            device,
            inode,
            run: None,
        }
    }

    /// That of a segment which may have been made in another directory than this process makes its own, and the
    /// run's: a rank may be in a container, and its owner outside.
    pub fn of_segment(segment: &Segment, name: &str, run: &Path) -> Site {
        let Ok(stat) = rustix::fs::fstat(segment.fd()) else { return Site::here() };
        let is_in = |dir: &Path| identity(&dir.join(name)) == Some((stat.st_dev, stat.st_ino));
        let here = Site { run: Some(Home::of(run)), ..Site::here() };
        if is_in(&here.directory) || is_in(run) {
            return here;
        }
        let link = std::fs::read_link(format!("/proc/self/fd/{}", segment.fd().as_raw_fd())).ok();
        let directory = link.as_deref().and_then(Path::parent).filter(|dir| is_in(dir));
        let directory = directory.map(Path::to_owned).unwrap_or_default();
        let (device, inode) = identity(&directory).unwrap_or((stat.st_dev, 0));
        Site { directory, device, inode, ..here }
    }

    /// What `LOCK` says of the last owner; it does not know the directory.
    pub fn of_holder(holder: &Holder) -> Site {
        Site {
            host: holder.host.clone(),
            machine: None,
            boot_id: holder.boot_id.clone(),
            uid: rustix::process::geteuid().as_raw(),
            directory: PathBuf::new(),
            device: 0,
            inode: 0,
            run: None,
        }
    }

    /// Whether it is of the same boot of the same host.
    pub fn is_same_boot(&self, other: &Site) -> bool {
        self.boot_id == other.boot_id && (!self.boot_id.is_empty() || self.is_same_host(other))
    }

    /// Whether it is the same host for certain, as far as hosts can be told apart without asking them.
    pub fn is_same_host(&self, other: &Site) -> bool {
        let machines = self.machine.as_ref().zip(other.machine.as_ref());
        self.host == other.host && machines.is_none_or(|(a, b)| a == b)
    }

    /// The very directory, if this process sees it under its name.
    pub fn seen(&self, here: &Site) -> Option<&Path> {
        let named = !self.directory.as_os_str().is_empty() && self.is_same_boot(here);
        (named && identity(&self.directory) == Some((self.device, self.inode))).then_some(&*self.directory)
    }
}

/// Device and inode of a directory.
fn identity(dir: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(dir).ok().map(|m| (m.dev(), m.ino()))
}

fn machine() -> String {
    let id = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let id = id.trim();
    if id.is_empty() { String::new() } else { format!("{:08x}", crc32c(id.as_bytes())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_the_one_that_was_recorded_only_under_the_same_boot_and_numbers() {
        let here = Site::here();
        assert_eq!(here.seen(&here), Some(&*here.directory));
        let mounted_anew = Site { device: here.device + 1, ..here.clone() };
        assert_eq!(mounted_anew.seen(&here), None);
        let before = Site { boot_id: "another".into(), ..here.clone() };
        assert_eq!(before.seen(&here), None);
        assert!(before.is_same_host(&here) && !before.is_same_boot(&here));
        let clone = Site { machine: Some("0".into()), ..before.clone() };
        assert!(!clone.is_same_host(&here), "hosts of one name are told apart by their systems");
    }

    #[test]
    fn a_site_is_read_as_it_was_written() {
        let here = Site::here();
        let text = serde_json::to_string(&here).unwrap();
        assert_eq!(serde_json::from_str::<Site>(&text).unwrap(), here);
        assert!(!text.contains(std::fs::read_to_string("/etc/machine-id").unwrap_or("-".into()).trim()));
    }
}
