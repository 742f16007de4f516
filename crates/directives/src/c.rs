//! Where directives stand in C and C++: comments that begin with `//fb`, at a place where a statement may stand.
//!
//! Texts, letters, raw texts, `/* */` and lines of the preprocessor are passed over; what is in them is no directive.

use crate::parse::Verb;
use crate::words::goes_on;
use crate::{Body, Found, Language, Names, Position, Wrong, parse, write_c};
use std::ops::Range;

/// A comment that begins with `//fb`.
struct Comment {
    /// Bytes of the file, without the end of its line.
    range: Range<usize>,
    /// Its first line, from 1, and that of its end: a backslash carries it on.
    lines: (usize, usize),
    column: usize,
    /// Nothing but blanks stands before it on its line.
    is_alone: bool,
    /// The last sign or word before it that is code.
    after: String,
    /// It stands in a line of the preprocessor.
    in_preprocessor: bool,
}

/// What there is to know of a file.
#[derive(Default)]
struct Scan {
    comments: Vec<Comment>,
    /// Behind the last `#include` that stands outside of everything: byte and line; before the first directive.
    includes: Option<(usize, usize)>,
}

const SIGN: &str = "//fb";

pub fn translate(source: &str, file: &str) -> Result<Option<String>, Vec<Wrong>> {
    let scan = Scanner::new(source).scan();
    if scan.comments.is_empty() {
        return Ok(None);
    }
    let mut wrong = Vec::new();
    let placed = join(source, &scan.comments, &mut wrong);
    let names = Names::of(placed.iter().map(|(found, _)| found));
    for (one, _) in &placed {
        names.check(one, &mut wrong);
    }
    if !wrong.is_empty() {
        wrong.sort_by_key(|(at, _)| (at.line, at.column));
        return Err(wrong);
    }
    Ok(Some(write(source, file, &scan, &placed, &names)))
}

/// Comments that belong together become directives, each with the bytes it takes the place of.
fn join(source: &str, comments: &[Comment], wrong: &mut Vec<Wrong>) -> Vec<(Found, Range<usize>)> {
    let mut placed = Vec::new();
    let mut local: Option<Position> = None;
    let mut next = 0;
    while let Some(first) = comments.get(next) {
        let mut body = Body::default();
        let mut last = first;
        body.add(&source[first.range.start + SIGN.len()..first.range.end], first.body());
        next += 1;
        while goes_on(&body.text, Language::C)
            && let Some(more) =
                comments.get(next).filter(|more| more.is_alone && more.lines.0 == last.lines.1 + 1)
        {
            body.add(&source[more.range.start + SIGN.len()..more.range.end], more.body());
            last = more;
            next += 1;
        }
        let at = first.place();
        let is_end = body.text.split_whitespace().next() == Some("end");
        if local.is_some() && !is_end {
            continue; // it stands in what is left out
        }
        if let Err(text) = first.stands() {
            wrong.push((at, text));
            continue;
        }
        let directive = match parse::parse(&body.text, Language::C) {
            Ok(directive) => directive,
            Err((byte, text)) => {
                wrong.push((body.place(byte), text));
                continue;
            }
        };
        match (&directive.verb, local) {
            (Verb::Local, _) => local = Some(at),
            (Verb::End, None) => wrong.push((at, "there is no `local` before this `end`".into())),
            (Verb::End, _) => local = None,
            _ => (),
        }
        if matches!(directive.verb, Verb::Local | Verb::End) && !first.is_alone {
            wrong.push((at, "`local` and `end` stand on lines of their own".into()));
        }
        let range = first.range.start..last.range.end;
        placed.push((Found { directive, body, lines: first.lines.0..=last.lines.1 }, range));
    }
    if let Some(at) = local {
        wrong.push((
            at,
            "this `local` has no `end`; write //fb end behind what only the plain compiler takes".into(),
        ));
    }
    placed
}

impl Comment {
    fn place(&self) -> Position {
        Position { line: self.lines.0, column: self.column }
    }

    fn body(&self) -> Position {
        Position { line: self.lines.0, column: self.column + SIGN.len() }
    }

    /// Whether a statement may stand here, as far as that is seen without a compiler. What is no statement for it would
    /// become one: the next one would fall out of an `if`.
    fn stands(&self) -> Result<(), String> {
        if self.in_preprocessor {
            return Err(
                "a directive cannot stand in a line of the preprocessor; give it a line of its own".into()
            );
        }
        match self.after.as_str() {
            "" | ";" | "{" | "}" | ":" => Ok(()),
            other => Err(format!(
                "a directive is a statement, and the one before it has not ended: it ends in `{other}`. Move the directive, or put \
                 braces around what belongs to if, else, for, while or do"
            )),
        }
    }
}

/// The file again, with calls in the place of directives.
fn write(source: &str, file: &str, scan: &Scan, placed: &[(Found, Range<usize>)], names: &Names) -> String {
    let quoted = file.replace('\\', "\\\\").replace('"', "\\\"");
    let mut text = String::with_capacity(source.len() * 2);
    let (mut done, line) = scan.includes.unwrap_or((0, 1));
    if done > 0 {
        text.push_str(&format!("#line 1 \"{quoted}\"\n"));
        text.push_str(&source[..done]);
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    text.push_str(&format!("#include <forebay/directives.h>\n#line {line} \"{quoted}\"\n"));
    for (one, range) in placed {
        text.push_str(&source[done..range.start]);
        text.push_str(&write_c::statement(&one.directive, names));
        // As many lines as it had.
        for _ in one.lines.clone().skip(1) {
            text.push('\n');
        }
        done = range.end;
    }
    text.push_str(&source[done..]);
    text
}

/// Goes over a file.
struct Scanner<'a> {
    source: &'a str,
    at: usize,
    line: usize,
    line_begin: usize,
    /// Braces and `#if` that are open.
    braces: i64,
    conditions: i64,
    /// The last sign or word of code.
    last: (usize, usize),
    found: Scan,
}

impl<'a> Scanner<'a> {
    fn new(source: &'a str) -> Scanner<'a> {
        let found = Scan::default();
        Scanner { source, at: 0, line: 1, line_begin: 0, braces: 0, conditions: 0, last: (0, 0), found }
    }

    fn scan(mut self) -> Scan {
        while self.at < self.source.len() {
            if self.rest().starts_with('#') && self.blank_before() {
                self.preprocessor();
            } else {
                self.step(false);
            }
        }
        self.found
    }

    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    /// Only blanks stand before this on its line.
    fn blank_before(&self) -> bool {
        self.source[self.line_begin..self.at].trim().is_empty()
    }

    /// Passes over so many bytes, and counts their lines.
    fn pass(&mut self, bytes: usize) {
        let passed = &self.source[self.at..self.at + bytes];
        if let Some(end) = passed.rfind('\n') {
            self.line += passed.matches('\n').count();
            self.line_begin = self.at + end + 1;
        }
        self.at += bytes;
    }

    /// A line of the preprocessor, with those that a backslash adds.
    fn preprocessor(&mut self) {
        let rest = self.rest()[1..].trim_start_matches([' ', '\t']);
        let word = &rest[..rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len())];
        let (is_include, depth) = match word {
            "include" | "include_next" | "import" => (true, 0),
            "if" | "ifdef" | "ifndef" => (false, 1),
            "endif" => (false, -1),
            _ => (false, 0),
        };
        self.conditions += depth;
        while self.at < self.source.len() {
            match self.rest().as_bytes() {
                [b'\n', ..] => break,
                [b'\\', b'\n', ..] => self.pass(2),
                [b'\\', b'\r', b'\n', ..] => self.pass(3),
                _ => self.step(true),
            }
        }
        if is_include && self.conditions == 0 && self.braces == 0 && self.found.comments.is_empty() {
            let end = (self.at + 1).min(self.source.len());
            self.found.includes = Some((end, self.line + 1));
        }
    }

    /// One word, sign, text or comment.
    fn step(&mut self, in_preprocessor: bool) {
        let rest = self.rest();
        let bytes = rest.as_bytes();
        let begin = self.at;
        match bytes[0] {
            b'/' if rest.starts_with("//") => return self.line_comment(in_preprocessor),
            b'/' if rest.starts_with("/*") => {
                return self.pass(rest.find("*/").map_or(rest.len(), |end| end + 2));
            }
            b'"' | b'\'' => self.pass(quoted(rest)),
            b if b.is_ascii_whitespace() => return self.pass(1),
            b if b.is_ascii_digit() => self.pass(number(rest)),
            b if b == b'_' || b.is_ascii_alphabetic() || b >= 0x80 => {
                let length = rest
                    .find(|c: char| c.is_ascii() && c != '_' && !c.is_ascii_alphanumeric())
                    .unwrap_or(rest.len());
                let is_raw = matches!(&rest[..length], "R" | "LR" | "uR" | "UR" | "u8R")
                    && bytes.get(length) == Some(&b'"');
                self.pass(if is_raw { raw(rest, length) } else { length });
            }
            byte => {
                if !in_preprocessor {
                    self.braces += i64::from(byte == b'{') - i64::from(byte == b'}');
                }
                self.pass(1);
            }
        }
        if !in_preprocessor {
            self.last = (begin, self.at);
        }
    }

    /// To the end of the line, and over those that a backslash adds.
    fn line_comment(&mut self, in_preprocessor: bool) {
        let (begin, line, column) =
            (self.at, self.line, self.source[self.line_begin..self.at].chars().count() + 1);
        let is_alone = self.blank_before();
        let mut length = 0;
        let end = loop {
            let rest = &self.rest()[length..];
            let Some(stop) = rest.find('\n') else { break self.source.len() - begin };
            if !rest[..stop].trim_end_matches('\r').ends_with('\\') {
                break length + stop;
            }
            length += stop + 1;
        };
        self.pass(end);
        let text = &self.source[begin..self.at];
        let is_ours = text
            .strip_prefix(SIGN)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        if is_ours {
            let after = self.source[self.last.0..self.last.1].to_owned();
            let range = begin..begin + text.trim_end_matches('\r').len();
            let lines = (line, self.line);
            self.found.comments.push(Comment { range, lines, column, is_alone, after, in_preprocessor });
        }
    }
}

/// Bytes of a text or letter; one without its end stops at the end of its line.
fn quoted(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b'\n' => return at,
            b if *b == bytes[0] => return at + 1,
            _ => at += 1,
        }
    }
    // A backslash may be the last byte, and stand before one that is not whole.
    text.len()
}

/// Bytes of a number, with the single quotes that may stand between its digits.
fn number(text: &str) -> usize {
    let bytes = text.as_bytes();
    let of_number =
        |at: usize| bytes.get(at).is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.'));
    let mut at = 0;
    while of_number(at) || (bytes.get(at) == Some(&b'\'') && of_number(at + 1)) {
        at += 1;
    }
    at
}

/// Bytes of `R"name(...)name"`.
fn raw(text: &str, prefix: usize) -> usize {
    let inner = &text[prefix + 1..];
    let Some((name, body)) =
        inner.split_once('(').filter(|(name, _)| name.len() <= 16 && !name.contains(['"', '\n', ' ']))
    else {
        return prefix;
    };
    let end = format!("){name}\"");
    body.find(&end).map_or(text.len(), |found| prefix + 1 + name.len() + 1 + found + end.len())
}
