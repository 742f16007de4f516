//! The words of a directive: names, numbers, texts, signs. What stands between them in the program's own expressions is
//! kept as it is.

use crate::Language;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordKind {
    Name,
    Number,
    /// In double quotes; in Fortran in either.
    Text,
    /// In single quotes, in C.
    Letter,
    Sign,
}

#[derive(Clone, Copy, Debug)]
pub struct Word<'a> {
    pub kind: WordKind,
    pub text: &'a str,
    /// Its first byte in the directive.
    pub at: usize,
}

impl Word<'_> {
    pub fn end(&self) -> usize {
        self.at + self.text.len()
    }

    pub fn is(&self, sign: &str) -> bool {
        self.kind == WordKind::Sign && self.text == sign
    }

    /// Whether an operand ends here: what follows without a sign is no part of the same expression.
    pub fn ends_operand(&self) -> bool {
        self.kind != WordKind::Sign || matches!(self.text, ")" | "]" | "}")
    }
}

/// The words; a text without its end is a fault at its beginning.
pub fn words(text: &str, language: Language) -> Result<Vec<Word<'_>>, (usize, String)> {
    let mut all: Vec<Word<'_>> = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let rest = &text[at..];
        let (kind, length) = match byte {
            b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c => {
                at += 1;
                continue;
            }
            // A line that goes on, in C behind a backslash, in Fortran between two `&`.
            b'\\' if !language.is_fortran() => {
                at += 1;
                continue;
            }
            b'&' if language.is_fortran() => {
                at += 1;
                continue;
            }
            b'!' if language.is_fortran() => {
                at += rest.find('\n').unwrap_or(rest.len());
                continue;
            }
            b'/' if rest.starts_with("//") && !language.is_fortran() => {
                at += rest.find('\n').unwrap_or(rest.len());
                continue;
            }
            b'/' if rest.starts_with("/*") && !language.is_fortran() => {
                at += rest.find("*/").map_or(rest.len(), |end| end + 2);
                continue;
            }
            b'"' | b'\'' => {
                let is_text = byte == b'"' || language.is_fortran();
                let length = quoted(rest, byte, language).ok_or_else(|| {
                    (at, format!("the text that begins here has no {} at its end", char::from(byte)))
                })?;
                (if is_text { WordKind::Text } else { WordKind::Letter }, length)
            }
            b if b.is_ascii_alphabetic() || b == b'_' || b >= 0x80 => {
                (WordKind::Name, rest.find(|c: char| c.is_ascii() && !is_of_name(c)).unwrap_or(rest.len()))
            }
            b'.' if language.is_fortran() && !bytes.get(at + 1).is_some_and(u8::is_ascii_digit) => {
                // .true., .not., .and. and the like: a sign or an operand, which makes no difference here.
                let length =
                    rest[1..].find('.').filter(|n| rest[1..=*n].bytes().all(|b| b.is_ascii_alphabetic()));
                match length {
                    Some(n) if matches!(rest[1..=n].to_ascii_lowercase().as_str(), "true" | "false") => {
                        (WordKind::Name, n + 2)
                    }
                    Some(n) => (WordKind::Sign, n + 2),
                    None => (WordKind::Sign, 1),
                }
            }
            b'0'..=b'9' => (WordKind::Number, number(rest)),
            b'.' if bytes.get(at + 1).is_some_and(u8::is_ascii_digit) => (WordKind::Number, number(rest)),
            b'-' if rest.starts_with("->") => (WordKind::Sign, 2),
            _ => (WordKind::Sign, 1),
        };
        all.push(Word { kind, text: &rest[..length], at });
        at += length;
    }
    Ok(all)
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Bytes of a number: digits, letters, points, and a sign behind an exponent.
fn number(text: &str) -> usize {
    let mut before = 0;
    for (at, byte) in text.bytes().enumerate() {
        let goes_on = byte.is_ascii_alphanumeric()
            || matches!(byte, b'.' | b'_')
            || (matches!(byte, b'+' | b'-') && matches!(before, b'e' | b'E' | b'd' | b'D' | b'p' | b'P'));
        if !goes_on {
            return at;
        }
        before = byte;
    }
    text.len()
}

/// Bytes of a quoted text, both quotes included. In C a backslash takes what follows it, in Fortran two quotes are one.
fn quoted(text: &str, quote: u8, language: Language) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 1;
    loop {
        match bytes.get(at)? {
            b'\\' if !language.is_fortran() => at += 2,
            b'\n' => return None,
            b if *b == quote && language.is_fortran() && bytes.get(at + 1) == Some(&quote) => at += 2,
            b if *b == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// How many brackets are open at the end; whether a comma or, in Fortran, `&` promises more.
pub fn goes_on(text: &str, language: Language) -> bool {
    let Ok(words) = words(text, language) else { return false };
    let open = words.iter().fold(0i64, |open, word| match word.text {
        "(" | "[" | "{" if word.kind == WordKind::Sign => open + 1,
        ")" | "]" | "}" if word.kind == WordKind::Sign => open - 1,
        _ => open,
    });
    let last = words.last();
    open > 0
        || last.is_some_and(|word| word.is(","))
        || (language.is_fortran() && ends_with_ampersand(text, last.map_or(0, Word::end)))
}

fn ends_with_ampersand(text: &str, from: usize) -> bool {
    let rest = text.get(from..).unwrap_or_default().trim_start();
    rest.strip_prefix('&')
        .is_some_and(|rest| rest.trim_start().is_empty() || rest.trim_start().starts_with('!'))
}
