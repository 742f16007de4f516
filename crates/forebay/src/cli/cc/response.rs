//! Response files: `@FILE` among the words of a compiler stands for the words in that file.

use forebay::{Error, Result};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Most files that are read, which ends one that names itself.
const FILES: usize = 2_000;
/// Most bytes of one.
const BYTES: u64 = 16 << 20;

/// The words with those of the files in their places, and whether there were files. One that cannot be read stands for
/// itself, as with the compilers.
pub(super) fn expanded(words: &[OsString]) -> Result<(Vec<OsString>, bool)> {
    let mut left: Vec<OsString> = words.iter().rev().cloned().collect();
    let (mut all, mut files) = (Vec::new(), 0);
    while let Some(word) = left.pop() {
        let Some(named) = word.as_bytes().strip_prefix(b"@").map(OsStr::from_bytes).map(Path::new) else {
            all.push(word);
            continue;
        };
        match std::fs::metadata(named) {
            Ok(about) if about.len() > BYTES => {
                let text = format!(
                    "{} has {} bytes; a file of options has {BYTES} at most",
                    named.display(),
                    about.len()
                );
                return Err(Error::bad(text));
            }
            _ => (),
        }
        let Ok(bytes) = std::fs::read(named) else {
            all.push(word);
            continue;
        };
        files += 1;
        if files > FILES {
            let text = format!(
                "more than {FILES} files of options, the last one {}; does it name itself?",
                named.display()
            );
            return Err(Error::bad(text));
        }
        left.extend(words_of(&bytes).into_iter().rev());
    }
    Ok((all, files > 0))
}

/// Words stand between blanks; quotes of either kind hold them together, and a backslash takes what follows it.
fn words_of(bytes: &[u8]) -> Vec<OsString> {
    let (mut all, mut word, mut quote) = (Vec::new(), None::<Vec<u8>>, None);
    let mut bytes = bytes.iter().copied();
    while let Some(byte) = bytes.next() {
        match (byte, quote) {
            (b'\\', _) => word.get_or_insert_default().extend(bytes.next()),
            (b'"' | b'\'', None) => {
                word.get_or_insert_default();
                quote = Some(byte);
            }
            (byte, Some(open)) if byte == open => quote = None,
            (byte, None) if byte.is_ascii_whitespace() || byte == 0x0b => {
                all.extend(word.take().map(OsString::from_vec));
            }
            (byte, _) => word.get_or_insert_default().push(byte),
        }
    }
    all.extend(word.map(OsString::from_vec));
    all
}

/// Words as such a file has them.
pub(super) fn written(words: &[OsString]) -> Vec<u8> {
    let mut text = Vec::new();
    for word in words {
        if word.is_empty() {
            text.extend(b"\"\"");
        }
        for byte in word.as_bytes() {
            if byte.is_ascii_whitespace() || matches!(byte, 0x0b | b'\\' | b'"' | b'\'') {
                text.push(b'\\');
            }
            text.push(*byte);
        }
        text.push(b'\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(all: &[&str]) -> Vec<OsString> {
        all.iter().map(OsString::from).collect()
    }

    #[test]
    fn quotes_and_backslashes_are_read_as_compilers_read_them() {
        let text = b" a.c\t-DX=\\\"1\\\"\n'b c.c' \"it's\"-o \\ x '' -I\"a b\" \\\\ 'open \\' end";
        let said = ["a.c", "-DX=\"1\"", "b c.c", "it's-o", " x", "", "-Ia b", "\\", "open ' end"];
        assert_eq!(words_of(text), words(&said));
        assert_eq!(words_of(b"\\"), words(&[""]));
        assert_eq!(words_of(b" \n"), words(&[]));
    }

    #[test]
    fn files_within_files_are_read_and_one_that_names_itself_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| dir.path().join(name));
        std::fs::write(&one, format!("-g @{} b.c", two.display())).unwrap();
        std::fs::write(&two, "'a b.c'").unwrap();
        let at = |path: &Path| OsString::from(format!("@{}", path.display()));
        let given = [OsString::from("-c"), at(&one), at(Path::new("/nowhere")), at(dir.path()), "@".into()];
        let (all, is_any) = expanded(&given).unwrap();
        assert_eq!(all[..4], words(&["-c", "-g", "a b.c", "b.c"]));
        assert_eq!((&all[4..], is_any), (&given[2..], true));
        assert!(!expanded(&given[2..]).unwrap().1);
        std::fs::write(&two, at(&one).as_bytes()).unwrap();
        let e = expanded(&given).unwrap_err();
        assert!(
            e.text().contains("more than 2000 files of options") && e.text().contains("does it name itself?"),
            "{e}"
        );
    }

    #[test]
    fn what_is_written_is_read_as_it_was() {
        let letters = ["a", " ", "\\", "\"", "'", "\n", "é", "@", "\u{b}", "$"];
        let two = letters.iter().flat_map(|a| letters.iter().map(move |b| format!("{a}{b}")));
        let all: Vec<OsString> = two.chain([String::new()]).map(OsString::from).collect();
        assert_eq!(words_of(&written(&all)), all);
        assert_eq!(words_of(&written(&all[..1])), all[..1]);
    }
}
