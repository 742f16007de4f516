//! Where directives stand in Fortran: lines that begin with `!$fb`, in fixed form also with `c$fb` or `*$fb` in column 1.

use crate::constructs::{self, Takes};
use crate::parse::{Verb, meant};
use crate::words::goes_on;
use crate::{Body, Found, Language, Names, Position, Wrong, declared, parse, write_fortran};

const SIGN: &str = "$fb";

/// A line that is a directive, or a part of one.
struct SignLine<'a> {
    /// From 1.
    number: usize,
    /// Behind the sign.
    body: &'a str,
    /// That of the sign.
    column: usize,
}

impl SignLine<'_> {
    fn place(&self) -> Position {
        Position { line: self.number, column: self.column }
    }

    fn add_to(&self, body: &mut Body) {
        body.add(self.body, Position { line: self.number, column: self.column + 1 + SIGN.len() });
    }
}

fn lines_of(source: &str) -> Vec<&str> {
    source.split('\n').map(|line| line.trim_end_matches('\r')).collect()
}

fn ours_of<'a>(lines: &[&'a str], language: Language) -> Vec<SignLine<'a>> {
    lines.iter().enumerate().filter_map(|(at, line)| directive_line(line, at + 1, language)).collect()
}

/// The directives of a file, as far as they are right.
pub fn directives(source: &str, language: Language) -> Vec<Found> {
    let lines = lines_of(source);
    join(&lines, &ours_of(&lines, language), language, &mut Vec::new())
}

pub fn translate(source: &str, file: &str, language: Language) -> Result<Option<String>, Vec<Wrong>> {
    let lines = lines_of(source);
    let ours = ours_of(&lines, language);
    if ours.is_empty() {
        return Ok(None);
    }
    let mut wrong = Vec::new();
    let found = join(&lines, &ours, language, &mut wrong);
    let names = Names::of(found.iter());
    for one in &found {
        names.check(one, &mut wrong);
        let before = &lines[..one.lines.start() - 1];
        let objection = declared::objection(&one.directive, &names, before, language);
        wrong.extend(objection.map(|text| (one.body.place(0), text)));
    }
    if !wrong.is_empty() {
        wrong.sort_by_key(|(at, _)| (at.line, at.column));
        return Err(wrong);
    }
    Ok(Some(write(&lines, file, language, &found, &names)))
}

fn directive_line<'a>(line: &'a str, number: usize, language: Language) -> Option<SignLine<'a>> {
    let indent = line.len() - line.trim_start_matches([' ', '\t']).len();
    let rest = &line[indent..];
    let is_comment = rest.starts_with('!')
        || (language == Language::FixedFortran && indent == 0 && rest.starts_with(['c', 'C', '*']));
    let body = rest.get(1..).filter(|_| is_comment)?;
    let is_ours = body.get(..SIGN.len()).is_some_and(|sign| sign.eq_ignore_ascii_case(SIGN));
    let body = body.get(SIGN.len()..).filter(|_| is_ours)?;
    let ends = body.is_empty() || body.starts_with(|c: char| c.is_whitespace() || c == '&');
    let column = line[..indent].chars().count() + 1;
    ends.then_some(SignLine { number, body, column })
}

fn join(lines: &[&str], ours: &[SignLine<'_>], language: Language, wrong: &mut Vec<Wrong>) -> Vec<Found> {
    let mut found = Vec::new();
    let mut local: Option<Position> = None;
    let mut next = 0;
    while let Some(first) = ours.get(next) {
        let mut body = Body::default();
        let mut last = first;
        first.add_to(&mut body);
        next += 1;
        while goes_on(&body.text, language)
            && let Some(more) = ours.get(next).filter(|more| more.number == last.number + 1)
        {
            more.add_to(&mut body);
            last = more;
            next += 1;
        }
        let is_end = body.text.split_whitespace().next().is_some_and(|word| word.eq_ignore_ascii_case("end"));
        if local.is_some() && !is_end {
            continue; // it stands in what is left out
        }
        if is_unfinished(lines, first.number, last.number, language) {
            let text =
                "a directive is a statement, and the one before it goes on behind it; move the directive";
            wrong.push((first.place(), text.into()));
            continue;
        }
        let construct = construct_before(&lines[..first.number - 1], language);
        if let Some(Construct { line, text, takes: takes @ Takes::Own }) = &construct {
            wrong.push((first.place(), constructs::objection(*line, text, *takes)));
            continue;
        }
        let directive = match parse::parse(&body.text, language) {
            Ok(directive) => directive,
            Err((byte, text)) => {
                wrong.push((body.place(byte), text));
                continue;
            }
        };
        match (&directive.verb, local) {
            (Verb::Local, _) => local = Some(first.place()),
            (Verb::End, None) => wrong.push((first.place(), "there is no `local` before this `end`".into())),
            (Verb::End, _) => local = None,
            _ => (),
        }
        let lines = first.number..=last.number;
        found.push(Found { directive, body, lines, is_first: construct.is_some() });
    }
    if let Some(at) = local {
        let text = "this `local` has no `end`; write !$fb end behind what only the plain compiler takes";
        wrong.push((at, text.into()));
    }
    found
}

/// Comments that may have been meant to be directives.
pub fn warnings(source: &str, language: Language) -> Vec<Wrong> {
    let mut all = Vec::new();
    for (number, line) in source.lines().enumerate() {
        if directive_line(line, number + 1, language).is_some() {
            continue;
        }
        let Some(begin) = comment(line, language) else { continue };
        if let Some(meant) = meant(&line[begin + 1..], "!$fb") {
            let at = Position { line: number + 1, column: line[..begin].chars().count() + 1 };
            let text = format!(
                "this comment is no directive, which begins its line with `!$fb `; did you mean `!$fb {meant}`?"
            );
            all.push((at, text));
        }
    }
    all
}

/// Where the comment of a line begins.
pub fn comment(line: &str, language: Language) -> Option<usize> {
    if language == Language::FixedFortran && line.starts_with(['c', 'C', '*']) {
        return Some(0);
    }
    let mut quote = None;
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (None, '!') => return Some(at),
            (None, '\'' | '"') => quote = Some(c),
            (Some(q), c) if c == q => quote = None,
            _ => (),
        }
    }
    None
}

/// A line of OpenMP or OpenACC that takes what stands behind it.
struct Construct {
    line: usize,
    text: String,
    takes: Takes,
}

/// The one directly behind which something stands, given the lines before that.
fn construct_before(lines: &[&str], language: Language) -> Option<Construct> {
    let is_between = |line: &&str| {
        let is_ours = directive_line(line, 1, language).is_some();
        sentinel(line, language).is_none()
            && is_comment(line, language)
            && (is_ours || !is_conditional(line, language))
    };
    let last = lines.iter().rposition(|line| !is_between(line))?;
    let mut text = sentinel(lines[last], language)?.to_owned();
    let mut first = last;
    // It may go over several lines, in free form with `&` at the end of each but the last.
    while let Some(before) = first.checked_sub(1).and_then(|at| sentinel(lines[at], language))
        && (ends_open(before) || text.starts_with(|c| !matches!(c, ' ' | '\t' | '0')))
    {
        text = format!("{} {}", before.trim_end().trim_end_matches('&'), text.trim_start_matches('&'));
        first -= 1;
    }
    let takes = constructs::of_omp(&text);
    let shown = lines[first].trim().to_owned();
    (takes != Takes::Nothing).then_some(Construct { line: first + 1, text: shown, takes })
}

/// What stands behind `!$omp` or `!$acc`.
fn sentinel(line: &str, language: Language) -> Option<&str> {
    let text = line.trim_start();
    let is_comment =
        text.starts_with('!') || (language == Language::FixedFortran && line.starts_with(['c', 'C', '*']));
    let word = text.get(1..5).filter(|_| is_comment)?.to_ascii_lowercase();
    matches!(word.as_str(), "$omp" | "$acc").then(|| &text[5..])
}

/// Whether it is a line that a compiler of OpenMP takes for code: `!$ x = 1`.
fn is_conditional(line: &str, language: Language) -> bool {
    let text = line.trim_start();
    let is_sign = text.starts_with("!$")
        || (language == Language::FixedFortran
            && ["c$", "C$", "*$"].iter().any(|sign| line.starts_with(sign)));
    is_sign && text[2..].starts_with(|c: char| c.is_whitespace() || c.is_ascii_digit() || c == '&')
}

/// Whether the statement before a directive goes on behind it.
fn is_unfinished(lines: &[&str], first: usize, last: usize, language: Language) -> bool {
    let is_code = |line: &&&str| !is_comment(line, language);
    match language {
        Language::FixedFortran => {
            let next = lines.get(last..).unwrap_or_default().iter().find(is_code);
            next.is_some_and(|line| is_continued(line, language))
        }
        _ => lines
            .get(..first - 1)
            .unwrap_or_default()
            .iter()
            .rev()
            .find(is_code)
            .is_some_and(|line| ends_open(line)),
    }
}

pub fn is_comment(line: &str, language: Language) -> bool {
    let text = line.trim();
    text.is_empty()
        || text.starts_with('!')
        || text.starts_with('#')
        || (language == Language::FixedFortran && line.starts_with(['c', 'C', '*', 'd', 'D']))
}

/// Whether a line of fixed form goes on with the statement before.
pub fn is_continued(line: &str, language: Language) -> bool {
    let bytes = line.as_bytes();
    language == Language::FixedFortran
        && bytes.get(5).is_some_and(|b| !matches!(b, b' ' | b'0'))
        && bytes[..5].iter().all(|b| *b == b' ')
}

/// Whether a line of free form ends in `&`, a comment behind it or not.
fn ends_open(line: &str) -> bool {
    let mut quote = None;
    let mut last = ' ';
    for c in line.chars() {
        match (quote, c) {
            (None, '!') => break,
            (None, '\'' | '"') => quote = Some(c),
            (Some(q), c) if c == q => quote = None,
            _ => (),
        }
        if !c.is_whitespace() {
            last = c;
        }
    }
    last == '&'
}

/// The file again, with calls in the place of directives, and what is for the plain compiler as comments.
fn write(lines: &[&str], file: &str, language: Language, found: &[Found], names: &Names) -> String {
    let mut text = format!("# 1 \"{file}\"\n");
    let mut number = 1;
    let mut is_local = false;
    let copy = |text: &mut String, from: usize, to: usize, is_local: bool| {
        for line in lines.get(from - 1..to - 1).unwrap_or_default() {
            if is_local {
                text.push('!');
            }
            text.push_str(line);
            text.push('\n');
        }
    };
    for one in found {
        let (first, last) = (*one.lines.start(), *one.lines.end());
        copy(&mut text, number, first, is_local);
        number = last + 1;
        match one.directive.verb {
            Verb::Local | Verb::End | Verb::Extern { .. } => {
                is_local = match one.directive.verb {
                    Verb::Local => true,
                    Verb::End => false,
                    _ => is_local,
                };
                copy(&mut text, first, number, false);
            }
            _ => {
                for statement in write_fortran::statements(one, names, file, first) {
                    // Whatever is wrong with it is wrong with the line of the directive.
                    text.push_str(&format!("# {first} \"{file}\"\n"));
                    write_fortran::line(&mut text, &statement, language);
                }
                text.push_str(&format!("# {number} \"{file}\"\n"));
            }
        }
    }
    copy(&mut text, number, lines.len() + 1, is_local);
    // What came behind the last end of a line was one line too many.
    text.pop();
    text
}
