//! Where directives stand in C and C++: comments that begin with `//fb`, at a place where a statement may stand.
//!
//! Texts, letters, raw texts, `/* */` and lines of the preprocessor are passed over; what is in them is no directive.

use crate::constructs::{self, Takes};
use crate::parse::{Verb, meant};
use crate::words::goes_on;
use crate::{Body, Found, Language, Names, Position, Wrong, parse, write_c};
use std::collections::BTreeSet;
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
    /// The line of the preprocessor before it that takes what stands behind.
    pragma: Option<Pragma>,
    /// It stands in a line of the preprocessor.
    in_preprocessor: bool,
}

/// `#pragma omp parallel` and the like.
#[derive(Clone)]
struct Pragma {
    line: usize,
    text: String,
    takes: Takes,
}

/// What there is to know of a file.
#[derive(Default)]
struct Scan {
    comments: Vec<Comment>,
    /// Comments that are no directives and may have been meant to be.
    astray: Vec<Wrong>,
    /// Behind the last `#include` that stands outside of everything: byte and line; before the first directive.
    includes: Option<(usize, usize)>,
    /// Macros that the file defines, each with the byte behind it.
    macros: Vec<(usize, String)>,
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

/// The directives of a file, as far as they are right.
pub fn directives(source: &str) -> Vec<Found> {
    let scan = Scanner::new(source).scan();
    join(source, &scan.comments, &mut Vec::new()).into_iter().map(|(found, _)| found).collect()
}

/// Comments that may have been meant to be directives.
pub fn warnings(source: &str) -> Vec<Wrong> {
    Scanner::new(source).scan().astray
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
        placed.push((Found { directive, body, lines: first.lines.0..=last.lines.1, is_first: false }, range));
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
        if let Some(Pragma { line, text, takes }) = &self.pragma {
            return Err(constructs::objection(*line, text, *takes));
        }
        match self.after.as_str() {
            after if may_end(after) => Ok(()),
            other => Err(format!(
                "a directive is a statement, and the one before it has not ended: it ends in `{other}`. Move the directive, or put \
                 braces around what belongs to if, else, for, while or do"
            )),
        }
    }
}

/// Our header, which macros of the program before it do not change. Those that begin with `_` are meant for headers.
fn undisturbed(scan: &Scan, place: usize) -> String {
    let is_theirs = |name: &str| !name.is_empty() && !name.starts_with('_');
    let before = scan.macros.iter().filter(|(end, name)| *end <= place && is_theirs(name));
    let names: BTreeSet<&String> = before.map(|(_, name)| name).collect();
    let each = |what: &str| -> String { names.iter().map(|name| what.replace("NAME", name)).collect() };
    let (away, back) =
        (each("#pragma push_macro(\"NAME\")\n#undef NAME\n"), each("#pragma pop_macro(\"NAME\")\n"));
    format!("{away}#include <forebay/directives.h>\n{back}")
}

/// Whether a statement may be over behind that sign or word.
fn may_end(last: &str) -> bool {
    matches!(last, "" | ";" | "{" | "}" | ":")
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
    text.push_str(&undisturbed(scan, done));
    text.push_str(&format!("#line {line} \"{quoted}\"\n"));
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
    conditions: Vec<Condition>,
    before: Before,
    found: Scan,
}

/// What stands before a place, as far as a directive there has to know.
#[derive(Clone, Default)]
struct Before {
    /// The last sign or word of code.
    last: (usize, usize),
    /// A line of the preprocessor behind that, which takes what follows.
    pragma: Option<Pragma>,
}

impl Before {
    fn may_end(&self, source: &str) -> bool {
        self.pragma.is_none() && may_end(&source[self.last.0..self.last.1])
    }
}

/// An `#if` that is open. Which of its branches the compiler takes is not known here: a directive behind it must be good
/// behind each.
struct Condition {
    before: Before,
    ends: Vec<Before>,
    /// There is an `#else`, so one of the branches is taken.
    is_whole: bool,
    /// The branch is that of `#if 0`.
    is_dead: bool,
}

impl<'a> Scanner<'a> {
    fn new(source: &'a str) -> Scanner<'a> {
        let found = Scan::default();
        let (conditions, before) = (Vec::new(), Before::default());
        Scanner { source, at: 0, line: 1, line_begin: 0, braces: 0, conditions, before, found }
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
        let (line, begin) = (self.line, self.source.len() - rest.len() + word.len());
        while self.at < self.source.len() {
            match self.rest().as_bytes() {
                [b'\n', ..] => break,
                [b'\\', b'\n', ..] => self.pass(2),
                [b'\\', b'\r', b'\n', ..] => self.pass(3),
                _ => self.step(true),
            }
        }
        let value = &self.source[begin..self.at];
        let value =
            value[..value.find("//").or(value.find("/*")).unwrap_or(value.len())].replace("\\\n", " ");
        self.obey(word, value.trim(), line);
    }

    /// What follows from a line of the preprocessor.
    fn obey(&mut self, word: &str, value: &str, line: usize) {
        match word {
            "include" | "include_next" | "import"
                if self.conditions.is_empty() && self.braces == 0 && self.found.comments.is_empty() =>
            {
                let end = (self.at + 1).min(self.source.len());
                self.found.includes = Some((end, self.line + 1));
            }
            "if" | "ifdef" | "ifndef" => self.conditions.push(Condition {
                before: self.before.clone(),
                ends: Vec::new(),
                is_whole: false,
                is_dead: word == "if" && value == "0",
            }),
            "else" | "elif" | "elifdef" | "elifndef" => {
                let Some(condition) = self.conditions.last_mut() else { return };
                let end = std::mem::replace(&mut self.before, condition.before.clone());
                if !std::mem::take(&mut condition.is_dead) {
                    condition.ends.push(end);
                }
                condition.is_whole |= word == "else";
            }
            "endif" => {
                let Some(mut condition) = self.conditions.pop() else { return };
                if !condition.is_whole {
                    condition.ends.push(condition.before);
                }
                if !condition.is_dead {
                    condition.ends.push(std::mem::take(&mut self.before));
                }
                let open = condition.ends.iter().position(|end| !end.may_end(self.source));
                self.before =
                    condition.ends.swap_remove(open.unwrap_or(condition.ends.len().saturating_sub(1)));
            }
            "define" => {
                let end = value.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(value.len());
                self.found.macros.push((self.at, value[..end].to_owned()));
            }
            "pragma" => {
                let takes = constructs::of_pragma(value);
                if takes != Takes::Nothing {
                    self.before.pragma = Some(Pragma { line, text: format!("#pragma {value}"), takes });
                }
            }
            _ => (),
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
                let end = rest.find("*/").map_or(rest.len(), |end| end + 2);
                self.look_astray(rest[2..end].trim_end_matches("*/"));
                return self.pass(end);
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
            self.before = Before { last: (begin, self.at), pragma: None };
        }
    }

    /// Notes a comment that begins here, is none of a directive and looks like one.
    fn look_astray(&mut self, inner: &str) {
        if let Some(meant) = meant(inner, SIGN) {
            let column = self.source[self.line_begin..self.at].chars().count() + 1;
            let text = format!(
                "this comment is no directive, which begins with `{SIGN} `; did you mean `{SIGN} {meant}`?"
            );
            self.found.astray.push((Position { line: self.line, column }, text));
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
        let text = &self.source[begin..begin + end];
        let is_ours = text
            .strip_prefix(SIGN)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        if !is_ours {
            self.look_astray(&text[2..]);
        }
        self.pass(end);
        if is_ours {
            let after = self.source[self.before.last.0..self.before.last.1].to_owned();
            let pragma = self.before.pragma.clone();
            let range = begin..begin + text.trim_end_matches('\r').len();
            let lines = (line, self.line);
            self.found.comments.push(Comment {
                range,
                lines,
                column,
                is_alone,
                after,
                pragma,
                in_preprocessor,
            });
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
