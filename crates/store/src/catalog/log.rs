//! The log of a catalog as a file (`catalog.sqlite-wal`), and whether it is broken. SQLite takes what stands before
//! the first frame that does not fit, and says nothing of what comes behind: as the end of a log that is what a
//! program that was killed leaves, in its middle it is damage.
//!
//! ```text
//!   magic | version | page size | number | salt 1 | salt 2 | sum 1 | sum 2          32 bytes
//!   page | pages at a commit, else 0 | salt 1 | salt 2 | sum 1 | sum 2 | the page   24 bytes and a page, again and again
//! ```
//! Words are big-endian; each sum goes on from the one before. Frames with other salts are of an earlier round.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

const HEADER: usize = 32;
const FRAME: usize = 24;
/// The last bit says in which order the bytes of a word are summed.
const MAGIC: u32 = 0x377f_0682;

/// Where a log is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Break {
    /// The byte at which that begins which cannot be read.
    pub at: u64,
    /// Commits behind it.
    pub commits: u64,
}

/// Where the log is broken that lies in this file; `None` for one that is whole, or ends with a commit that was
/// not finished. Only for a log that nobody writes.
pub fn broken(path: &Path) -> Option<Break> {
    let mut log = BufReader::with_capacity(1 << 20, File::open(path).ok()?);
    let mut header = [0; HEADER];
    log.read_exact(&mut header).ok()?;
    let magic = word(&header, 0);
    let page = usize::try_from(word(&header, 8)).ok().filter(|n| n.is_power_of_two() && *n <= 1 << 16);
    let size = page.unwrap_or(super::PAGE);
    let little = magic & 1 == 0;
    let mut sum = summed([0, 0], &header[..24], little);
    // Salts that are damaged are those of no frame.
    let mut salts =
        (magic & !1 == MAGIC && page.is_some() && sum == pair(&header, 24)).then(|| pair(&header, 16));
    let mut broken = salts.is_none().then_some(Break { at: 0, commits: 0 });
    let mut frame = vec![0; FRAME + size];
    let mut at = HEADER as u64;
    while log.read_exact(&mut frame).is_ok() {
        let ours = *salts.get_or_insert_with(|| pair(&frame, 8)) == pair(&frame, 8);
        if broken.is_none() {
            sum = summed(summed(sum, &frame[..8], little), &frame[FRAME..], little);
            if !ours || sum != pair(&frame, 16) {
                broken = Some(Break { at, commits: 0 });
            }
        }
        if let Some(b) = broken.as_mut().filter(|b| b.at != at) {
            b.commits += u64::from(ours && word(&frame, 4) != 0);
        }
        at += frame.len() as u64;
    }
    broken.filter(|b| b.commits > 0)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn pair(bytes: &[u8], at: usize) -> [u32; 2] {
    [word(bytes, at), word(bytes, at + 4)]
}

/// SQLite's sum, going on from another one.
fn summed([mut a, mut b]: [u32; 2], bytes: &[u8], little: bool) -> [u32; 2] {
    for two in bytes.chunks_exact(8) {
        let (x, y) = (word(two, 0), word(two, 4));
        let (x, y) = if little { (x.swap_bytes(), y.swap_bytes()) } else { (x, y) };
        a = a.wrapping_add(x).wrapping_add(b);
        b = b.wrapping_add(y).wrapping_add(a);
    }
    [a, b]
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    /// A log of four commits, and the bytes of its frames.
    fn log(dir: &Path) -> (Connection, std::path::PathBuf) {
        let conn = Connection::open(dir.join("x")).unwrap();
        conn.execute_batch("PRAGMA page_size = 16384; PRAGMA journal_mode = WAL; CREATE TABLE t(x)").unwrap();
        for n in 0..3 {
            conn.execute("INSERT INTO t VALUES(?1)", [n]).unwrap();
        }
        (conn, dir.join("x-wal"))
    }

    #[test]
    fn a_whole_log_and_one_that_is_cut_off_are_not_broken() {
        let dir = tempfile::tempdir().unwrap();
        let (_open, path) = log(dir.path());
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(broken(&path), None);
        for len in (0..bytes.len()).step_by(1000) {
            std::fs::write(&path, &bytes[..len]).unwrap();
            assert_eq!(broken(&path), None, "{len}");
        }
    }

    #[test]
    fn a_byte_that_turned_over_anywhere_but_in_the_last_frame_is_found_with_the_commits_behind_it() {
        let dir = tempfile::tempdir().unwrap();
        let (_open, path) = log(dir.path());
        let whole = std::fs::read(&path).unwrap();
        let frame = FRAME + super::super::PAGE;
        let frames = (whole.len() - HEADER) / frame;
        for at in (0..HEADER).chain((HEADER..HEADER + frame * (frames - 1)).step_by(997)) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            std::fs::write(&path, bytes).unwrap();
            let found = broken(&path).unwrap_or_else(|| panic!("byte {at}"));
            let of = at.saturating_sub(HEADER) / frame;
            let begins = if at < HEADER { 0 } else { HEADER + of * frame };
            assert_eq!(found.at, begins as u64, "byte {at}");
            assert!((1..=4).contains(&found.commits), "byte {at}: {found:?}");
        }
    }

    #[test]
    fn frames_of_an_earlier_round_behind_a_log_that_began_anew_are_none_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let (conn, path) = log(dir.path());
        conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", (), |_| Ok(())).unwrap();
        conn.execute("INSERT INTO t VALUES(7)", ()).unwrap();
        assert!(path.metadata().unwrap().len() > (HEADER + 2 * (FRAME + super::super::PAGE)) as u64);
        assert_eq!(broken(&path), None);
    }
}
