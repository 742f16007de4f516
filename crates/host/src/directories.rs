//! Where things are: the directories that all parts of Forebay agree on.

use crate::{environment, identity};
use forebay_types::{Code, Error, Result};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The directory of sockets and locks, made when absent: mode 0700 and owned by this user, or
/// it is refused.
pub fn runtime_dir() -> Result<PathBuf> {
    let of_session =
        || environment::path("XDG_RUNTIME_DIR").filter(|d| d.is_dir()).map(|d| d.join("forebay"));
    let dir = environment::path(environment::RUNTIME_DIR)
        .or_else(of_session)
        .unwrap_or_else(|| PathBuf::from(format!("/tmp/forebay-{}", uid())));
    private_dir(&dir).map_err(|e| with_remedy(&e, environment::RUNTIME_DIR))?;
    Ok(dir)
}

/// The directory of rendezvous files, made when absent, private as above.
pub fn home() -> Result<PathBuf> {
    let dir = environment::path(environment::HOME)
        .or_else(|| environment::path("HOME").map(|h| h.join(".forebay")))
        .ok_or_else(|| {
            Error::new(
                Code::NotFound,
                "neither FOREBAY_HOME nor HOME is set; set one to a directory of yours",
            )
        })?;
    private_dir(&dir).map_err(|e| with_remedy(&e, environment::HOME))?;
    Ok(dir)
}

/// A directory that cannot be made, with what to do about it.
fn with_remedy(e: &Error, variable: &str) -> Error {
    let text = e.text();
    match text.contains("; ") {
        true => e.clone(),
        false => Error::new(e.code(), format!("{text}; set {variable} to a directory that can be written")),
    }
}

/// Makes a directory with mode 0700, parents too, and checks that it is this user's alone.
pub fn private_dir(dir: &Path) -> Result<()> {
    let shown = dir.display();
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|e| Error::io(format!("cannot make the directory {shown}"), e))?;
    let meta = std::fs::symlink_metadata(dir)
        .map_err(|e| Error::io(format!("cannot look at the directory {shown}"), e))?;
    let what = if meta.file_type().is_symlink() {
        "is a symbolic link".to_owned()
    } else if meta.uid() != uid() {
        format!("belongs to user {}", meta.uid())
    } else if meta.mode() & 0o077 != 0 {
        format!("has mode {:o}, so others may enter it", meta.mode() & 0o777)
    } else {
        return Ok(());
    };
    Err(Error::new(
        Code::Refused,
        format!(
            "{shown} {what}; make it a directory of yours with mode 700, or set FOREBAY_RUNTIME_DIR (FOREBAY_HOME) to one"
        ),
    ))
}

/// The directory of named segments.
pub fn shm_dir() -> PathBuf {
    environment::path(environment::SHM_DIR).unwrap_or_else(|| PathBuf::from("/dev/shm"))
}

/// The directory of files of calls that servers keep, unless they are told another one.
pub fn scratch() -> PathBuf {
    std::env::temp_dir().join(format!("forebay-scratch-{}", uid()))
}

/// First part of the names of segments.
pub fn shm_prefix() -> String {
    let told = environment::text(environment::SHM_PREFIX).filter(|prefix| !prefix.is_empty());
    told.unwrap_or_else(|| format!("forebay-{}", uid()))
}

/// The rendezvous file of this host.
pub fn rendezvous() -> Result<PathBuf> {
    Ok(home()?.join(format!("{}.json", identity::host())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_directory_that_others_may_enter_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a/b");
        private_dir(&inner).unwrap();
        assert_eq!(std::fs::metadata(&inner).unwrap().mode() & 0o777, 0o700);
        std::fs::set_permissions(&inner, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(private_dir(&inner).unwrap_err().code(), Code::Refused);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path().join("a"), &link).unwrap();
        assert!(private_dir(&link).unwrap_err().text().contains("symbolic link"));
    }
}
