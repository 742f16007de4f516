//! Arrays at a server that a program makes and does not use.

use std::collections::BTreeSet;

use crate::parse::{Passed, Verb};
use crate::{Fault, Found, Language, Position, c, fortran};

/// Arrays that are created and that no call takes, in any of the sources of a whole program: text, name of the file and
/// language of each. C and C++ share their names, and Fortran has its own.
pub fn unused(sources: &[(&str, &str, Language)]) -> Vec<Fault> {
    let mut all = Vec::new();
    for is_fortran in [false, true] {
        let of = sources.iter().filter(|(.., language)| language.is_fortran() == is_fortran);
        let files: Vec<(&str, Vec<Found>)> =
            of.map(|(source, file, language)| (*file, directives(source, *language))).collect();
        let name = |text: &str| if is_fortran { text.to_ascii_lowercase() } else { text.to_owned() };
        let (mut taken, mut moved) = (BTreeSet::new(), BTreeSet::new());
        for verb in files.iter().flat_map(|(_, found)| found).map(|one| &one.directive.verb) {
            match verb {
                Verb::Call { args, .. } => taken.extend(args.iter().filter_map(|arg| match arg {
                    Passed::Expression(text) => Some(name(text.trim())),
                    _ => None,
                })),
                Verb::Put { name: to, .. } | Verb::Get { name: to, .. } => drop(moved.insert(name(&to.text))),
                _ => (),
            }
        }
        for (file, found) in &files {
            for one in found {
                let Verb::Create { name: array, .. } = &one.directive.verb else { continue };
                let key = name(&array.text);
                if !taken.contains(&key) {
                    all.push(fault(file, one.body.place(array.at), &array.text, moved.contains(&key)));
                }
            }
        }
    }
    all
}

fn directives(source: &str, language: Language) -> Vec<Found> {
    match language.is_fortran() {
        true => fortran::directives(source, language),
        false => c::directives(source),
    }
}

fn fault(file: &str, at: Position, name: &str, is_moved: bool) -> Fault {
    let text = match is_moved {
        true => format!(
            "no call takes `{name}`: what is put there or got only travels; give it to a call, or leave it out"
        ),
        false => format!("`{name}` is created and never used; give it to a call, or leave it out"),
    };
    Fault { file: file.to_owned(), at, what: "warning", text }
}
