//! What a program unit of Fortran says of its variables, as far as a directive in it has to know: which of them are
//! targets, and which do not know their own size. Who declares a variable elsewhere is told by the compiler.

use crate::fortran::{comment, is_comment, is_continued};
use crate::parse::{Directive, Local, Passed, Verb};
use crate::{Language, Names};

/// A variable, as it is declared.
#[derive(Debug, PartialEq, Eq)]
struct Declared {
    /// From 1.
    line: usize,
    is_array: bool,
    /// `x(*)`
    is_assumed_size: bool,
    is_target: bool,
    is_constant: bool,
}

/// A statement: its first line, from 1, and its text in small letters, without comments.
type Statement = (usize, String);

const TYPES: [&str; 10] = [
    "integer",
    "real",
    "doubleprecision",
    "double precision",
    "complex",
    "double complex",
    "logical",
    "character",
    "type(",
    "class(",
];

/// What the directive in a line asks of variables that they are not declared to be.
pub fn objection(directive: &Directive, names: &Names, lines: &[&str], language: Language) -> Option<String> {
    let statements = unit(lines, language);
    let find = |name: &str| declared(&statements, &name.to_ascii_lowercase());
    let unsized_of = |text: &str| {
        let found = find(text).filter(|found| found.is_assumed_size)?;
        Some(format!(
            "{text} does not say how large it is, since line {} declares it with (*); write the part that is meant: {text}(1:n)",
            found.line
        ))
    };
    match &directive.verb {
        Verb::Create { local: Local::Whole(text), .. }
        | Verb::Put { local: Local::Whole(text), .. }
        | Verb::Get { local: Local::Whole(text), .. } => unsized_of(text),
        Verb::Call { args, .. } => args.iter().find_map(|arg| {
            let (text, comes_back) = match arg {
                Passed::Place(text) => (text, true),
                Passed::Expression(text) if !names.arrays.contains(&text.to_ascii_lowercase()) => (text, false),
                _ => return None,
            };
            let (base, rest) = variable(text)?;
            let found = find(base)?;
            // A number that goes only is copied, and so is one element.
            let is_array = found.is_array && (rest.is_empty() || rest.contains(':'));
            let must_be_target = (comes_back || is_array) && !found.is_target && !found.is_constant;
            unsized_of(text).or_else(|| {
                must_be_target.then(|| {
                    format!(
                        "{base} is used where it lies and must be a target; give it that attribute in line {}: TARGET :: {base}",
                        found.line
                    )
                })
            })
        }),
        _ => None,
    }
}

/// `x` and `(1:n)` of `x(1:n)`; none of what is more than a variable with one pair of brackets.
fn variable(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    let (base, rest) = text.split_at(end);
    let rest = rest.trim();
    let is_section = rest.starts_with('(') && bracket(rest) == Some(rest.len());
    (base.starts_with(|c: char| c.is_ascii_alphabetic()) && (rest.is_empty() || is_section))
        .then_some((base, rest))
}

/// Bytes of the brackets that a text begins with.
fn bracket(text: &str) -> Option<usize> {
    let mut open = 0;
    for (at, c) in text.char_indices() {
        open += i32::from(c == '(') - i32::from(c == ')');
        if open == 0 {
            return Some(at + 1);
        }
    }
    None
}

/// The statements of the program unit before a line, the first one first.
fn unit(lines: &[&str], language: Language) -> Vec<Statement> {
    let mut all: Vec<Statement> = Vec::new();
    let mut goes_on = false;
    for (at, line) in lines.iter().enumerate() {
        if is_comment(line, language) {
            continue;
        }
        let code = line[..comment(line, language).unwrap_or(line.len())].to_ascii_lowercase();
        let is_more = goes_on || is_continued(line, language);
        goes_on = language == Language::Fortran && code.trim_end().ends_with('&');
        let code =
            if is_more && language == Language::FixedFortran { code.get(6..).unwrap_or("") } else { &code };
        let code = code.trim().trim_matches('&').trim();
        match all.last_mut().filter(|_| is_more) {
            Some((_, text)) => *text = format!("{text} {code}"),
            None if begins_unit(code) => all.clear(),
            None => all.push((at + 1, code.to_owned())),
        }
    }
    all
}

/// Whether a program unit begins or ends: what was declared before counts no more.
fn begins_unit(code: &str) -> bool {
    let words = code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    let unit = ["subroutine", "function", "program", "module", "submodule"];
    let is_unit = |word: &str| unit.contains(&word);
    // `recursive real(8) function f(x)`: the word stands before the first bracket of arguments, and no `::`.
    let mut words = words.take_while(|word| !word.is_empty());
    !code.contains("::") && !code.contains('=') && words.by_ref().take(6).any(is_unit)
}

fn declared(statements: &[Statement], name: &str) -> Option<Declared> {
    let mut found: Option<Declared> = None;
    let mut others = (false, None);
    for (line, text) in statements {
        let is_type = TYPES.iter().any(|of| text.starts_with(of));
        let attribute =
            ["target", "dimension", "pointer", "parameter"].iter().find(|a| starts_with_word(text, a));
        if !is_type && attribute.is_none() {
            continue;
        }
        let (attributes, entities) = match text.split_once("::") {
            Some((attributes, entities)) => (attributes, entities),
            None if is_type => ("", behind_type(text)),
            None => ("", text.get(attribute.map_or(0, |a| a.len())..).unwrap_or_default()),
        };
        let Some(brackets) = entity(entities, name) else { continue };
        let attributes: Vec<&str> = split(attributes).into_iter().map(str::trim).collect();
        let has = |what: &str| attributes.contains(&what) || attribute == Some(&what);
        let dimension = attributes.iter().find_map(|a| a.strip_prefix("dimension")).map(str::trim);
        let extents = if brackets.is_empty() { dimension.unwrap_or("") } else { brackets };
        others.0 |= has("target") || has("pointer");
        if !extents.is_empty() {
            others.1 = Some(extents.trim_end_matches(')').trim_end().ends_with('*'));
        }
        if is_type {
            found = Some(Declared {
                line: *line,
                is_array: false,
                is_assumed_size: false,
                is_target: false,
                is_constant: has("parameter"),
            });
        }
    }
    let found = found?;
    let (is_target, extents) = others;
    Some(Declared { is_array: extents.is_some(), is_assumed_size: extents == Some(true), is_target, ..found })
}

fn starts_with_word(text: &str, word: &str) -> bool {
    text.strip_prefix(word)
        .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
}

/// What stands behind `real*8`, `integer(kind=4)`, `character*(*)`: names.
fn behind_type(text: &str) -> &str {
    let of = TYPES.iter().filter(|of| text.starts_with(**of)).map(|of| of.trim_end_matches('(').len()).max();
    let rest = text.get(of.unwrap_or(0)..).unwrap_or_default().trim_start();
    let rest = rest.strip_prefix('*').map(str::trim_start).unwrap_or(rest);
    if rest.starts_with('(') {
        return rest.get(bracket(rest).unwrap_or(rest.len())..).unwrap_or_default();
    }
    rest.trim_start_matches(|c: char| c.is_ascii_digit())
}

/// The brackets behind a name in a list of declared ones; empty without.
fn entity<'a>(entities: &'a str, name: &str) -> Option<&'a str> {
    split(entities).into_iter().find_map(|one| {
        let rest = one.trim().strip_prefix(name)?;
        if rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
            return None;
        }
        let rest = rest.trim_start();
        Some(if rest.starts_with('(') { &rest[..bracket(rest).unwrap_or(rest.len())] } else { "" })
    })
}

/// The parts between commas that stand in no brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut all, mut open, mut begin) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' => open += 1,
            ')' | ']' => open -= 1,
            ',' if open == 0 => {
                all.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => (),
        }
    }
    all.push(&text[begin..]);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(source: &str, name: &str, language: Language) -> Option<(usize, &'static str)> {
        let lines: Vec<&str> = source.lines().collect();
        let found = declared(&unit(&lines, language), name)?;
        let what = match (found.is_assumed_size, found.is_array, found.is_target) {
            (true, ..) => "unsized",
            (_, true, true) => "target array",
            (_, true, false) => "array",
            (_, _, true) => "target",
            _ => "scalar",
        };
        Some((found.line, what))
    }

    #[test]
    fn what_a_unit_declares_is_found_in_the_ways_of_fortran() {
        let source = "module m\nreal, target :: x(3)\ncontains\nrecursive subroutine s(a, b, &\n  & c)\nuse n, only: q\nREAL(8), intent(in) :: a(*), &\n  d(2, *) ! b(*)\nreal(kind = 8), dimension(:), target :: b, e(3)\ninteger c, i\ntype(t), pointer :: p\ncharacter(len=*), allocatable :: names(:)\ntarget i\nreal, parameter :: k(2) = [1, 2]\nx = c\n";
        let free = |name| of(source, name, Language::Fortran);
        assert_eq!([free("a"), free("d")], [Some((7, "unsized")); 2]);
        assert_eq!([free("b"), free("e")], [Some((9, "target array")); 2]);
        assert_eq!(
            (free("c"), free("i"), free("p")),
            (Some((10, "scalar")), Some((10, "target")), Some((11, "target")))
        );
        assert_eq!((free("names"), free("k")), (Some((12, "array")), Some((14, "array"))));
        assert_eq!([free("x"), free("q"), free("nothing")], [None; 3]);
        let fixed = "      PROGRAM P\n      REAL*8 X, Y(3),\n     & Z(4)\n      DOUBLE PRECISION V\nC     REAL W\n      CHARACTER*(*) T\n      DIMENSION X(N,*)\n      TARGET Y\n";
        let fixed = |name| of(fixed, name, Language::FixedFortran);
        assert_eq!(
            (fixed("x"), fixed("y"), fixed("z")),
            (Some((2, "unsized")), Some((2, "target array")), Some((2, "array")))
        );
        assert_eq!((fixed("v"), fixed("w"), fixed("t")), (Some((4, "scalar")), None, Some((6, "scalar"))));
    }
}
