//! Where files that come are to be: each place is that of one call at a time, of this process and of this user's others on
//! this host, for the last of two would be the one that is found there.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use forebay_host::Claims;
use forebay_host::fork::own_pid;
use forebay_types::{Error, Result};

use super::part;
use crate::call::lock;

/// Directories are swept for so little of the time.
const SWEEPING: u32 = 100;
/// The file in which processes claim places.
const CLAIMS: &str = "files.claims";
/// Most directories of which it is known when they were swept.
const DIRECTORIES: usize = 1_000;

/// A place that a call has, until this is dropped.
pub(crate) struct Destination {
    places: &'static Destinations,
    path: PathBuf,
}

/// The places of a process.
struct Destinations {
    pid: u32,
    /// Who has them.
    taken: Mutex<HashMap<PathBuf, String>>,
    /// When directories may be swept again.
    swept: Mutex<HashMap<PathBuf, Instant>>,
    /// What other processes do not have meanwhile; nothing where that cannot be.
    claims: OnceLock<Option<Claims>>,
    /// Those of a child of `fork`: what is locked here may be locked by threads that the child does not have.
    child: OnceLock<Box<Destinations>>,
}

impl Destinations {
    fn new() -> Destinations {
        Destinations {
            pid: own_pid(),
            taken: Mutex::default(),
            swept: Mutex::default(),
            claims: OnceLock::new(),
            child: OnceLock::new(),
        }
    }

    fn of_process() -> &'static Destinations {
        static FIRST: OnceLock<Destinations> = OnceLock::new();
        let mut places = FIRST.get_or_init(Destinations::new);
        while places.pid != own_pid() {
            places = places.child.get_or_init(|| Box::new(Destinations::new()));
        }
        places
    }

    /// Among processes. One that finds no runtime directory has no calls.
    fn claims(&self) -> Option<&Claims> {
        self.claims.get_or_init(|| Claims::open(CLAIMS).ok()).as_ref()
    }

    /// Removes what clients that were killed have left in a directory, unless that was done lately.
    fn sweep(&self, dir: &Path) {
        let began = Instant::now();
        let mut swept = lock(&self.swept);
        if swept.get(dir).is_some_and(|next| began < *next) {
            return;
        }
        if swept.len() >= DIRECTORIES {
            swept.clear();
        }
        // Others who write there meanwhile need not.
        swept.insert(dir.to_owned(), began + Duration::from_secs(1));
        drop(swept);
        part::sweep(dir);
        lock(&self.swept).insert(dir.to_owned(), Instant::now() + began.elapsed() * SWEEPING);
    }
}

impl Destination {
    /// Takes a place, which has no symbolic links in it, for that parameter of a call.
    pub fn take(path: &Path, whose: String) -> Result<Destination> {
        let places = Destinations::of_process();
        let mut taken = lock(&places.taken);
        if let Some(other) = taken.get(path) {
            return Err(Error::bad(format!(
                "{} is given to {whose} and to {other}, which is under way: the last one to end would be found there; give \
                 each a path of its own, or wait for that one first",
                path.display()
            )));
        }
        if let Some(Err(pid)) = places.claims().map(|claims| claims.claim(path.as_os_str().as_bytes())) {
            return Err(Error::bad(format!(
                "{} is given to {whose}, and process {pid} of this host has a call under way that writes it: the last one to end \
                 would be found there; give each a path of its own, or wait for that one first",
                path.display()
            )));
        }
        taken.insert(path.to_owned(), whose);
        drop(taken);
        if let Some(dir) = path.parent() {
            places.sweep(dir);
        }
        Ok(Destination { places, path: path.to_owned() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Destination {
    fn drop(&mut self) {
        // In a child of `fork` it is the parent's.
        if self.places.pid == own_pid() {
            let mut taken = lock(&self.places.taken);
            taken.remove(&self.path);
            if let Some(claims) = self.places.claims() {
                claims.give_back(self.path.as_os_str().as_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_that_of_one_call_until_it_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let take = |whose: &str| Destination::take(&path, whose.to_owned());
        let first = take("task 1").unwrap();
        let e = take("task 2").err().unwrap();
        assert!(["task 1", "task 2", "log"].iter().all(|text| e.text().contains(text)), "{e}");
        let other = Destination::take(&dir.path().join("other"), "task 3".to_owned()).unwrap();
        drop(first);
        drop((take("task 2").unwrap(), other));
    }
}
