//! What identifies a file of this host.

use forebay_types::file::FileIdentity;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// What identifies the file that was looked at.
pub fn identity_of(meta: &Metadata) -> FileIdentity {
    FileIdentity {
        device: meta.dev(),
        inode: meta.ino(),
        bytes: meta.len(),
        written: (meta.mtime(), meta.mtime_nsec()),
    }
}

/// Whether the system says that there is no room on a disk, or that a quota is used up.
pub fn is_full(e: &std::io::Error) -> bool {
    matches!(e.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
}
