//! Directives in comments of programs in C, C++ and Fortran, translated into calls of the library. Pure text in, text out;
//! `spec/directives.md` has the grammar.
//!
//! ```text
//! source -> comments that begin with //fb or !$fb (c, fortran) -> words (words) -> directives (parse) -> calls (write_c, write_fortran)
//! ```
//!
//! Nothing of the program is moved: what a directive becomes stands in its place, as one statement, and line numbers are
//! kept.
//!
//! ```
//! use forebay_directives::{Language, translate};
//! let source = "void f(double *a, int n)\n{\n    //fb create A, a, n\n    //fb put A, a, n\n}\n";
//! let made = translate(source, "f.c", Language::C)?.expect("it has directives");
//! assert!(made.contains("FBD_DO(\"put A, a, n\", fbd_put(\"A\", FBD_COUNTED(a, FB_ROW_MAJOR, n)));"));
//! let faults = translate("void f(void)\n{\n    //fb crate A, a\n}\n", "f.c", Language::C).unwrap_err();
//! assert_eq!(faults[0].to_string(), "f.c:3:10: error: `crate` is no directive; did you mean `create`?");
//! # Ok::<(), Vec<forebay_directives::Fault>>(())
//! ```
#![forbid(unsafe_code)]

mod c;
mod constructs;
mod declared;
mod fortran;
mod parse;
mod unused;
mod words;
mod write_c;
mod write_fortran;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use parse::{Directive, Name, Passed, Verb};

pub use unused::unused;

/// The language of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C, with brackets, `//` and `/* */`.
    C,
    /// C++: like C for a directive.
    Cplusplus,
    /// Fortran in free form.
    Fortran,
    /// Fortran in fixed form: statements from column 7 to 72.
    FixedFortran,
}

impl Language {
    /// That of a file, by the end of its name.
    pub fn of(file: &str) -> Option<Language> {
        let name = file.rsplit('/').next().unwrap_or(file);
        let (_, end) = name.rsplit_once('.')?;
        Some(match end {
            "c" => Language::C,
            "cc" | "cp" | "cpp" | "cxx" | "c++" | "C" | "CPP" => Language::Cplusplus,
            "f90" | "f95" | "f03" | "f08" | "f18" | "F90" | "F95" | "F03" | "F08" | "F18" => {
                Language::Fortran
            }
            "f" | "for" | "ftn" | "f77" | "F" | "FOR" | "FTN" | "F77" | "fpp" | "FPP" => {
                Language::FixedFortran
            }
            _ => return None,
        })
    }

    /// Whether it is Fortran, of either form.
    pub fn is_fortran(self) -> bool {
        matches!(self, Language::Fortran | Language::FixedFortran)
    }
}

/// What is wrong with a directive, or with a comment that may have been meant to be one, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    file: String,
    /// Line and column, from 1.
    at: Position,
    /// `error` or `warning`, as compilers say it.
    what: &'static str,
    text: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}: {}", self.file, self.at.line, self.at.column, self.what, self.text)
    }
}

/// Line and column, from 1; a column is a character.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Position {
    line: usize,
    column: usize,
}

/// A fault without its file.
type Wrong = (Position, String);

/// The words of a directive, joined from the comments it goes over.
#[derive(Debug, Default)]
struct Body {
    text: String,
    /// Where each piece of the text begins, and where that stands in the file.
    pieces: Vec<(usize, Position)>,
}

impl Body {
    fn add(&mut self, text: &str, at: Position) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.pieces.push((self.text.len(), at));
        self.text.push_str(text);
    }

    /// Where a byte of the text stands in the file.
    fn place(&self, at: usize) -> Position {
        let (begin, place) =
            self.pieces.iter().rev().find(|(begin, _)| *begin <= at).copied().unwrap_or_default();
        let before = self.text.get(begin..at).unwrap_or_default();
        // A line that goes on behind a backslash.
        match before.rsplit_once('\n') {
            Some((lines, last)) => Position {
                line: place.line + lines.matches('\n').count() + 1,
                column: last.chars().count() + 1,
            },
            None => Position { line: place.line, column: place.column + before.chars().count() },
        }
    }
}

/// A directive where it stands.
struct Found {
    directive: Directive,
    body: Body,
    /// The lines of the file it takes, from 1.
    lines: std::ops::RangeInclusive<usize>,
    /// In Fortran: it is the first statement behind a line of OpenMP that would take a block at its beginning for all.
    is_first: bool,
}

/// What has names in a file.
#[derive(Default)]
struct Names {
    arrays: BTreeSet<String>,
    calls: BTreeSet<String>,
    /// The services of calls that take an array, by its name.
    takers: BTreeMap<String, BTreeSet<String>>,
}

impl Names {
    fn of<'a>(found: impl Iterator<Item = &'a Found>) -> Names {
        let mut names = Names::default();
        for one in found {
            if let Verb::Call { service, args, .. } = &one.directive.verb {
                names.note_call(service, args);
            }
            match &one.directive.verb {
                Verb::Create { name, .. } => drop(names.arrays.insert(name.text.clone())),
                Verb::Extern { names: all } => {
                    for name in all {
                        names.arrays.insert(name.text.clone());
                        names.calls.insert(name.text.clone());
                    }
                }
                Verb::Call { under: Some(name), .. } => drop(names.calls.insert(name.text.clone())),
                _ => (),
            }
        }
        names
    }

    fn note_call(&mut self, service: &str, args: &[Passed]) {
        for arg in args {
            if let Passed::Expression(name) = arg {
                self.takers.entry(name.clone()).or_default().insert(service.to_owned());
            }
        }
    }

    /// The services that calls of the file give an array to, with commas between them.
    fn services_of(&self, array: &Name, language: Language) -> String {
        let is_it = |name: &str| match language.is_fortran() {
            true => name.eq_ignore_ascii_case(&array.text),
            false => name == array.text,
        };
        let of = self.takers.iter().filter(|(name, _)| is_it(name)).flat_map(|(_, services)| services);
        of.cloned().collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(",")
    }

    /// What is named and was never made.
    fn check(&self, one: &Found, wrong: &mut Vec<Wrong>) {
        let (used, known, what, remedy) = match &one.directive.verb {
            Verb::Put { name, .. } | Verb::Get { name, .. } => {
                (std::slice::from_ref(name), &self.arrays, "created", "create")
            }
            Verb::Kill { names } => (names.as_slice(), &self.arrays, "created", "create"),
            Verb::Wait { names } => (names.as_slice(), &self.calls, "started (async)", "start"),
            _ => return,
        };
        for name in used.iter().filter(|name| !known.contains(&name.text)) {
            let all: Vec<String> = known.iter().cloned().collect();
            let meant = match forebay_types::alike(&name.text, &all).first() {
                Some(near) => format!("did you mean `{near}`? If another file does it"),
                None => format!("{remedy} it, or if another file does"),
            };
            let text = format!(
                "no directive of this file has {what} `{}`; {meant}, say: extern {}",
                name.text, name.text
            );
            wrong.push((one.body.place(name.at), text));
        }
    }
}

/// Translates a source. `None`: it has no directive. `file` is the name by which the compiler is to know it.
pub fn translate(source: &str, file: &str, language: Language) -> Result<Option<String>, Vec<Fault>> {
    let made = if language.is_fortran() {
        fortran::translate(source, file, language)
    } else {
        c::translate(source, file)
    };
    made.map_err(|all| told(all, file, "error"))
}

/// Comments that are no directives and look as if they were meant to be: to a compiler they are comments, and the program
/// would do without them what it should do with them.
pub fn warnings(source: &str, file: &str, language: Language) -> Vec<Fault> {
    let all = if language.is_fortran() { fortran::warnings(source, language) } else { c::warnings(source) };
    told(all, file, "warning")
}

fn told(all: Vec<Wrong>, file: &str, what: &'static str) -> Vec<Fault> {
    all.into_iter().map(|(at, text)| Fault { file: file.to_owned(), at, what, text }).collect()
}

#[cfg(test)]
mod tests;
