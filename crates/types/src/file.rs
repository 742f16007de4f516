//! Files that go with calls: what a client and a server say to each other over the connection that they have for them.
//!
//! ```text
//! client                                            server
//!   Send {number, name, bytes, seen}  ------------->   a private directory; room in the scratch space
//!                    <-------------  Kept::Seen        it sees the file itself: nothing travels
//!                    <-------------  Kept::NoRoom    it may, when others have gone
//!                    <-------------  Kept::Wanted
//!   PIECE, PIECE, ...                 ------------->   written as they come: a slow disk holds the sender back
//!                    <-------------  Kept::Whole
//!   Expect {number, name}             ------------->   a private directory
//!                    <-------------  null
//!   ... the call, over its own link, names the numbers (`Location::Held`) ...
//!   Fetch {number}                    ------------->
//!                    <-------------  Written {bytes, ...}
//!   Read {number, at}                 ------------->
//!                    <-------------  PIECE, by its request's id
//!   Forget {numbers}                  ------------->   the directories are removed, when no call uses them
//! ```
//!
//! Each request is a frame of kind `ASK`, answered by one of its id; only `Forget` is not. The end of the connection is the end of all files that
//! came over it.

use serde::{Deserialize, Serialize};

use crate::{Code, Error, Result, limits};

/// Kind of the frame that is a piece of a file: the file's number and, before its bytes, where they begin (u64).
pub const PIECE: u16 = 0x19;
/// Largest piece.
pub const PIECE_BYTES: usize = 256 << 10;
/// Bytes before those of a piece.
pub const PIECE_HEAD: usize = 8;
/// Most files that a server keeps at a time.
pub const FILES: usize = 65_536;
/// Room for files that a server has unless it is told otherwise.
pub const SCRATCH_BYTES: u64 = 10 << 30;

/// What identifies a file: when any of it differs, it is another one, or has been written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    /// The device that it is on.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
    /// Its length.
    pub bytes: u64,
    /// When it was written last: seconds and nanoseconds.
    pub written: (i64, i64),
}

/// A file that the other side may see, too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenFile {
    /// Where it is, from the root on.
    pub path: String,
    /// Which one it is.
    pub identity: FileIdentity,
}

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileRequest {
    /// A file goes to the server.
    Send {
        /// The client's number for it, unique for the client's life.
        number: u64,
        /// Its own name.
        name: String,
        /// Its length.
        bytes: u64,
        /// Where it is, for a server of this host.
        seen: Option<SeenFile>,
    },
    /// A service is to write a file.
    Expect {
        /// As of [`FileRequest::Send`].
        number: u64,
        /// Its own name.
        name: String,
    },
    /// What the service has written.
    Fetch {
        /// Which file.
        number: u64,
    },
    /// A piece of that.
    Read {
        /// Which file.
        number: u64,
        /// Where the piece begins.
        at: u64,
    },
    /// These files are needed no more. Nobody answers.
    Forget {
        /// Which ones.
        numbers: Vec<u64>,
    },
}

/// What a server says of a file that is sent to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeptFile {
    /// It sees the file itself.
    Seen,
    /// It waits for the pieces.
    Wanted,
    /// All of it is here.
    Whole,
    /// It finds no room beside other files, and would alone: what is said of that.
    NoRoom(String),
}

/// A file that a service has written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenFile {
    /// Its length.
    pub bytes: u64,
    /// Where it is, for a client of this host.
    pub seen: Option<SeenFile>,
}

/// Checks that a name is that of a file in a directory: nothing that leads elsewhere, and nothing that cannot be shown.
pub fn check_file_name(name: &str) -> Result<()> {
    let why = match name {
        "" => "is empty",
        "." | ".." => "is a directory",
        _ if name.contains('/') => "has a \"/\"",
        _ if name.chars().any(char::is_control) => "has a control character",
        _ if name.len() > limits::FILE_NAME_BYTES => "is longer than 255 bytes",
        _ => return Ok(()),
    };
    let shown: String = name.chars().take(100).collect();
    Err(Error::bad(format!("the file name {shown:?} {why}; rename the file")))
}

/// Reads a piece: where its bytes begin, and these.
pub fn get_piece(body: &[u8]) -> Result<(u64, &[u8])> {
    let head = body.first_chunk::<PIECE_HEAD>().filter(|_| body.len() <= PIECE_HEAD + PIECE_BYTES);
    let head = head.ok_or_else(|| {
        Error::new(Code::Corrupt, format!("a piece of a file with {} bytes is none", body.len()))
    })?;
    Ok((u64::from_le_bytes(*head), &body[PIECE_HEAD..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_that_lead_elsewhere_or_cannot_be_shown_are_refused() {
        for name in ["mesh.msh", "..a", "größe", "a b", &"x".repeat(255)] {
            check_file_name(name).unwrap();
        }
        for name in ["", ".", "..", "../x", "/", "a/b", "a\nb", "a\0b", &"x".repeat(256)] {
            assert_eq!(check_file_name(name).unwrap_err().code(), Code::BadArgument, "{name:?}");
        }
    }

    proptest! {
        #[test]
        fn a_name_that_passes_stays_in_its_directory(name in ".{0,300}") {
            if check_file_name(&name).is_ok() {
                let path = std::path::Path::new("/private").join(&name);
                prop_assert_eq!(path.parent(), Some(std::path::Path::new("/private")));
                prop_assert_eq!(path.file_name().and_then(|n| n.to_str()), Some(&name[..]));
            }
        }

        #[test]
        fn hostile_bytes_are_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Ok((_, piece)) = get_piece(&bytes) {
                prop_assert_eq!(piece.len() + PIECE_HEAD, bytes.len());
            }
            let _ = serde_json::from_slice::<FileRequest>(&bytes);
        }
    }
}
