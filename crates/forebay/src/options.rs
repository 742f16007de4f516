//! Where a run is and how it is opened.

use std::path::{Path, PathBuf};

use forebay_types::control::{LateErrors, WhenFull};
use forebay_types::{Error, Result};

/// Options of [`crate::open`]; the default serves a laptop.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Bytes of this process's arena (256 MiB).
    pub buffer: u64,
    /// What a snapshot does when no buffer has room.
    pub full: WhenFull,
    /// What becomes of an error that belongs to something acknowledged earlier.
    pub late: LateErrors,
    /// This rank; from the launcher's environment when not given.
    pub rank: Option<u32>,
    /// Number of ranks; from the launcher's environment when not given.
    pub size: Option<u32>,
    /// Whether the run is deleted when it is closed.
    pub scratch: bool,
    /// Name of the program, for people; the executable's name when not given.
    pub program: Option<String>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions {
            buffer: 256 << 20,
            full: WhenFull::Block,
            late: LateErrors::Raise,
            rank: None,
            size: None,
            scratch: false,
            program: None,
        }
    }
}

/// Largest buffer: 64 TiB, more than any memory.
const MOST_BUFFER: u64 = 1 << 46;

/// The buffer asked for, if there can be such a one.
pub fn check_buffer(bytes: u64) -> Result<()> {
    if bytes > MOST_BUFFER {
        return Err(Error::bad(format!(
            "a buffer of {bytes} bytes is not possible; give the bytes of a snapshot or two"
        )));
    }
    Ok(())
}

/// Reads `256MiB`, `1.5 GB`, `4096`.
pub fn parse_bytes(text: &str) -> Result<u64> {
    let wrong = || Error::bad(format!("{text:?} is not a number of bytes; write for example \"256MiB\""));
    let trimmed = text.trim();
    let digits = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(digits);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        _ => return Err(wrong()),
    };
    let bytes = number * factor as f64;
    if bytes < (1u64 << 62) as f64 { Ok(bytes as u64) } else { Err(wrong()) }
}

/// The directory of a run: `two_stream` means `two_stream.fb` beside the working directory; a
/// path that ends in `.fb`, or that is a run already, is taken as it is. Always absolute.
pub fn run_dir(place: &str) -> Result<PathBuf> {
    if place.is_empty() {
        return Err(Error::bad("the name of a run is empty; give a path such as \"two_stream\""));
    }
    if place.contains("://") {
        return Err(Error::bad(format!(
            "{place:?} names a run on another host, and this is done with the run's directory; do it there, for example with {:?}",
            place.rsplit('/').next().filter(|n| !n.is_empty()).unwrap_or("two_stream")
        )));
    }
    let path = Path::new(place);
    let is_run = path.extension().is_some_and(|e| e == "fb") || path.join("catalog.sqlite").is_file();
    let mut dir = path.to_path_buf();
    if !is_run {
        let mut leaf = path
            .file_name()
            .ok_or_else(|| Error::bad(format!("{place:?} does not end in the name of a run")))?
            .to_os_string();
        leaf.push(".fb");
        dir.set_file_name(leaf);
    }
    std::path::absolute(&dir).map_err(|e| Error::io(format!("cannot make {} absolute", dir.display()), e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(parse_bytes("256MiB").unwrap(), 256 << 20);
        assert_eq!(parse_bytes("1.5 kB").unwrap(), 1500);
        assert_eq!(parse_bytes("4096").unwrap(), 4096);
        for bad in ["", "MiB", "12 parsecs", "-5", "1e99TiB"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_run_is_a_directory_that_ends_in_fb() {
        assert!(run_dir("two_stream").unwrap().ends_with("two_stream.fb"));
        assert!(run_dir("/data/x.fb").unwrap().ends_with("data/x.fb"));
        assert!(run_dir("").is_err());
        let e = run_dir("fb://host:7000/two_stream").unwrap_err();
        assert!(e.text().contains("\"two_stream\""), "{e}");
    }
}
