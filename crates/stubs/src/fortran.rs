//! A module of explicit interfaces of the native stubs: a program that uses it calls what it called before, and the
//! compiler looks at the arguments.

use std::fmt::Write;

use forebay_idl::{Convention, Kind, Library, Routine, Type};
use forebay_types::{DType, Error, Result, Way};

/// Longest line that compilers take.
const LINE: usize = 120;

/// The module `STEM_remote`. Routines of convention C are left out: Fortran calls them by interfaces of its own.
pub fn fortran(library: &Library, file: &str) -> Result<String> {
    // Native stubs have no routines with files.
    let has_files = |r: &Routine| r.args.iter().any(|arg| matches!(arg.kind, Kind::File(_)));
    let is_fortran = |r: &&Routine| r.convention == Convention::Fortran && !has_files(r);
    if !library.routines.iter().any(|r| is_fortran(&r)) {
        return Err(Error::bad(format!(
            "{file} has no routine of the convention fortran, and only for those an interface of Fortran is written. Routines \
             of C are called from Fortran by an interface of your own with bind(c), linked with the library of \
             `forebay stubs --native --build`; a library of Fortran says `set convention fortran` in its file"
        )));
    }
    let stem = crate::stem(file);
    let mut text = format!(
        "! The routines of {file} as they are called, made by `forebay stubs --lang fortran`. Link with the library of\n\
         ! `forebay stubs --native --build`, which calls them at a server.\nmodule {stem}_remote\n  \
         use, intrinsic :: iso_c_binding\n  implicit none\n  interface\n"
    );
    for routine in library.routines.iter().filter(is_fortran) {
        procedure(&mut text, routine);
    }
    let _ = writeln!(text, "  end interface\nend module {stem}_remote");
    Ok(text)
}

fn procedure(text: &mut String, r: &Routine) {
    // The symbols that compilers give are bound to no name; others are.
    let usual = r.symbol == format!("{}_", r.name);
    let bound = if usual { String::new() } else { format!(" bind(c, name='{}')", r.symbol) };
    let names: Vec<&str> = r.args.iter().map(|a| a.name.as_str()).collect();
    let what = if r.returned.is_some() { "function" } else { "subroutine" };
    let result = if r.returned.is_some() { " result(result_)" } else { "" };
    line(text, 4, &format!("{what} {}({}){result}{bound}", r.name, names.join(", ")));
    let _ = writeln!(text, "      import");
    for arg in &r.args {
        let name = &arg.name;
        let (of, way, array) = match &arg.kind {
            Kind::Scalar(s) => (type_of(s.of), s.way, String::new()),
            Kind::Array(a) => {
                let leading =
                    a.ld.map(|ld| format!("({}, *)", r.args[ld].name)).unwrap_or_else(|| "(*)".into());
                (number(a.dtype), a.way, leading)
            }
            Kind::Work { dtype, .. } => (number(*dtype), Way::InOut, "(*)".into()),
            Kind::Const(of, _) | Kind::Computed(of, _) => (type_of(*of), Way::In, String::new()),
            Kind::Leading(d, _) | Kind::Increment(d, _) | Kind::Query(d, _) => {
                (number(*d), Way::In, String::new())
            }
            Kind::Length(_) => ("integer(c_size_t)".into(), Way::In, String::new()),
            Kind::Str | Kind::File(_) => ("character(kind=c_char)".into(), Way::In, "(*)".into()),
            Kind::Null => ("type(c_ptr)".into(), Way::In, String::new()),
        };
        // What the routine leaves alone stays as it is, so nothing is intent(out).
        let way = if way == Way::In { "in" } else { "inout" };
        let value = if arg.by_value { ", value" } else { "" };
        line(text, 6, &format!("{of}, intent({way}){value} :: {name}{array}"));
    }
    if let Some(returned) = &r.returned {
        line(text, 6, &format!("{} :: result_", type_of(returned.of)));
    }
    let _ = writeln!(text, "    end {what} {}", r.name);
}

/// A line, with as many continuations as it takes.
fn line(text: &mut String, indent: usize, words: &str) {
    let mut at = indent;
    text.push_str(&" ".repeat(indent));
    for (i, part) in words.split_inclusive(' ').enumerate() {
        if i > 0 && at + part.len() > LINE {
            let _ = write!(text, "&\n{}", " ".repeat(indent + 2));
            at = indent + 2;
        }
        text.push_str(part);
        at += part.len();
    }
    text.push('\n');
}

fn type_of(of: Type) -> String {
    match of {
        Type::Char => "character".into(),
        Type::Bool => "logical".into(),
        Type::Number(d) => number(d),
    }
}

fn number(d: DType) -> String {
    let bytes = d.size();
    match d {
        DType::F32 | DType::F64 => format!("real({bytes})"),
        DType::C64 | DType::C128 => format!("complex({})", bytes / 2),
        DType::Bool => "logical(1)".into(),
        _ => format!("integer({bytes})"),
    }
}
