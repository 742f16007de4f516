//! Names of what is being made until it is whole, and what processes that were killed have left under such names.
//!
//! ```text
//!  two_stream.nc.node1-4711.tmp       the file two_stream.nc, made by process 4711 of node1
//!  two_stream.node1-4711.tmp.fb       the run two_stream.fb
//! ```

use forebay_host::{Process, identity};
use std::path::{Path, PathBuf};

/// Where this process makes what is to be called `stem`.
pub fn place(above: &Path, stem: &str, ending: &str) -> PathBuf {
    above.join(format!("{stem}.{}-{}{ending}", identity::host(), std::process::id()))
}

/// What processes of this host that are gone were making under that name.
pub fn left(above: &Path, stem: &str, ending: &str) -> Vec<PathBuf> {
    let begin = format!("{stem}.{}-", identity::host());
    let is_left = |name: &str| {
        let number = name.strip_prefix(&begin).and_then(|rest| rest.strip_suffix(ending));
        number.and_then(|text| text.parse().ok()).is_some_and(Process::is_gone)
    };
    let entries = std::fs::read_dir(above).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_str().is_some_and(is_left)).map(|e| e.path()).collect()
}

/// Removes a file or a directory; what cannot be removed stays under a name that says what it is.
pub fn remove(path: &Path) {
    let _ = std::fs::remove_file(path).or_else(|_| std::fs::remove_dir_all(path));
}
