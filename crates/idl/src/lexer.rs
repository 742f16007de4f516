//! The words of a file, each with its place.

use forebay_types::{Error, Result};

use crate::model::LinePlace;

/// Longest file, in bytes.
const FILE_BYTES: usize = 8 << 20;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Word<'a> {
    Name(&'a str),
    Integer(i64),
    Real(f64),
    Text(&'a str),
    /// Of one or two characters.
    Sign(&'a str),
    /// An end of line outside of parentheses, or a semicolon.
    End,
}

impl std::fmt::Display for Word<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Word::Name(name) => write!(f, "{name:?}"),
            Word::Integer(n) => write!(f, "{n}"),
            Word::Real(x) => write!(f, "{x:?}"),
            Word::Text(text) => write!(f, "the text {text:?}"),
            Word::Sign(sign) => write!(f, "{sign:?}"),
            Word::End => f.write_str("the end of the line"),
        }
    }
}

const TWO: [&str; 5] = ["->", "==", "!=", "<=", ">="];
const ONE: &str = "()[]{},:=+-*/<>";

/// An error at a place of a file.
pub(crate) fn fault(file: &str, place: LinePlace, text: impl std::fmt::Display) -> Error {
    Error::bad(format!("{file}:{}:{}: {text}", place.line, place.column))
}

/// Cuts a file into words; the last one is always an end.
pub(crate) fn words<'a>(file: &str, text: &'a str) -> Result<Vec<(Word<'a>, LinePlace)>> {
    if text.len() > FILE_BYTES {
        return Err(Error::bad(format!(
            "{file} has {} bytes, more than {FILE_BYTES}; divide it among several servers",
            text.len()
        )));
    }
    let mut words = Vec::new();
    let mut open: Vec<(&str, LinePlace)> = Vec::new();
    let mut place = LinePlace { line: 1, column: 1 };
    for line in text.split('\n') {
        let line = line.strip_suffix('\r').unwrap_or(line);
        let mut rest = line;
        while let Some(first) = rest.chars().next() {
            place.column = 1 + line[..line.len() - rest.len()].chars().count() as u32;
            if first == '#' {
                break;
            }
            if first.is_whitespace() {
                rest = &rest[first.len_utf8()..];
                continue;
            }
            let (word, bytes) = one(rest).map_err(|why| fault(file, place, why))?;
            match word {
                Word::Sign(sign @ ("(" | "[")) => open.push((sign, place)),
                Word::Sign(sign @ (")" | "]")) => {
                    if let Some((opening, at)) = open.pop()
                        && (opening == "(") != (sign == ")")
                    {
                        let LinePlace { line, column } = place;
                        let text = format!(
                            "this {opening:?} is not closed before the {sign:?} of line {line}, column {column}"
                        );
                        return Err(fault(file, at, text));
                    }
                }
                _ => (),
            }
            words.push((word, place));
            rest = &rest[bytes..];
        }
        if open.is_empty() {
            words.push((Word::End, place));
        }
        place = LinePlace { line: place.line + 1, column: 1 };
    }
    // A line goes on in the next one while a bracket is open, so all that follows would be wrong.
    if let Some((opening, at)) = open.pop() {
        return Err(fault(file, at, format!("this {opening:?} is never closed")));
    }
    words.push((Word::End, place));
    Ok(words)
}

/// The word at the beginning, and how many bytes it has.
fn one(rest: &str) -> Result<(Word<'_>, usize), String> {
    let length = |of: fn(char) -> bool| rest.find(|c| !of(c)).unwrap_or(rest.len());
    let first = rest.chars().next().unwrap_or(' ');
    if first.is_ascii_alphabetic() || first == '_' {
        let n = length(|c| c.is_ascii_alphanumeric() || c == '_');
        return Ok((Word::Name(&rest[..n]), n));
    }
    if first.is_ascii_digit() {
        let mut n = length(|c| c.is_ascii_alphanumeric() || c == '.');
        let exponent = rest[..n].ends_with(['e', 'E']) && rest[n..].starts_with(['+', '-']);
        if exponent && !rest.starts_with("0x") {
            n += 1 + rest[n + 1..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - n - 1);
        }
        return number(&rest[..n]).map(|word| (word, n));
    }
    if first == '"' || first == '\'' {
        let end =
            rest[1..].find(first).ok_or_else(|| format!("a text begins with {first} and does not end"))?;
        return Ok((Word::Text(&rest[1..=end]), end + 2));
    }
    if first == ';' {
        return Ok((Word::End, 1));
    }
    if let Some(sign) = TWO.iter().find(|sign| rest.starts_with(**sign)) {
        return Ok((Word::Sign(sign), 2));
    }
    if ONE.contains(first) {
        return Ok((Word::Sign(&rest[..1]), 1));
    }
    Err(format!("{first:?} has no meaning here; a comment begins with #, a text stands in quotes"))
}

fn number(text: &str) -> Result<Word<'static>, String> {
    let integer = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    if let Some(n) = integer {
        return Ok(Word::Integer(n));
    }
    let real = text.contains(['.', 'e', 'E']).then(|| text.parse::<f64>().ok()).flatten();
    real.filter(|x| x.is_finite()).map(Word::Real).ok_or_else(|| {
        format!("{text:?} is no number; integers have up to 64 bits, and a name begins with a letter")
    })
}
