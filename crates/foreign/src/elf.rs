//! The names of the functions that a library defines, as its file has them: for who looks for one that is not there.

use std::path::PathBuf;

/// Most names that are looked at.
const NAMES: usize = 200_000;
const DYNAMIC_SYMBOLS: u32 = 11;

/// The libraries of this process.
pub(crate) fn mapped() -> Vec<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut paths: Vec<PathBuf> =
        maps.lines().filter_map(|l| l.find('/').map(|at| PathBuf::from(&l[at..]))).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// The names that a file defines; none if it is no library of this machine.
pub(crate) fn names(file: &[u8]) -> Vec<String> {
    read(file).unwrap_or_default()
}

fn number(file: &[u8], at: usize, bytes: usize) -> Option<usize> {
    let mut all = [0; 8];
    all[..bytes].copy_from_slice(file.get(at..at.checked_add(bytes)?)?);
    usize::try_from(u64::from_le_bytes(all)).ok()
}

/// ```text
/// header: 40 section table, 58 bytes of an entry, 60 entries    section: 4 type, 24 offset, 32 bytes, 40 link
/// symbol of 24 bytes: 0 name, 4 kind, 6 section (0: defined elsewhere)
/// ```
fn read(file: &[u8]) -> Option<Vec<String>> {
    if !file.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (table, entry, count) = (number(file, 40, 8)?, number(file, 58, 2)?, number(file, 60, 2)?);
    let section = |i: usize| table.checked_add(i.checked_mul(entry)?);
    let place = |i: usize| {
        let at = section(i)?;
        Some((number(file, at + 24, 8)?, number(file, at + 32, 8)?))
    };
    let symbols = (0..count)
        .find(|i| section(*i).and_then(|at| number(file, at + 4, 4)) == Some(DYNAMIC_SYMBOLS as usize))?;
    let (at, bytes) = place(symbols)?;
    let (strings, strings_bytes) = place(number(file, section(symbols)? + 40, 4)?)?;
    let strings = file.get(strings..strings.checked_add(strings_bytes)?)?;
    let mut found = Vec::new();
    for symbol in file.get(at..at.checked_add(bytes)?)?.chunks_exact(24).take(NAMES) {
        let is_function = symbol[4] & 0xf == 2 && symbol[6..8] != [0, 0];
        let name = strings.get(number(symbol, 0, 4)?..).unwrap_or_default();
        let end = name.iter().position(|b| *b == 0).unwrap_or(0);
        if is_function && let Ok(name) = std::str::from_utf8(&name[..end]) {
            found.push(name.to_owned());
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_library_are_found_and_no_bytes_are_too_odd_to_read() {
        let libc = mapped().into_iter().find(|p| p.to_string_lossy().contains("libc.so")).unwrap();
        let mut file = std::fs::read(libc).unwrap();
        assert!(self::names(&file).iter().any(|n| n == "malloc"));
        for at in 40..64 {
            let byte = std::mem::replace(&mut file[at], 0xff);
            let _ = self::names(&file);
            file[at] = byte;
        }
        assert!(self::names(b"no library").is_empty());
    }
}
