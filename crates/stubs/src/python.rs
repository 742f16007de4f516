//! A module of functions with hints and docstrings over what is published for people.

use std::fmt::Write;

use forebay_idl::{Array, Binary, Expr, Function, Kind, Library, Routine, Source, Type, Unary};
use forebay_types::{DType, Order, Way};

const HEAD: &str = r#"
from __future__ import annotations

import builtins
import operator
import os
from typing import Any

import forebay as fb
import numpy as np
import numpy.typing as npt


class Failed(fb.RemoteError):
    """A routine ended with a status that is not 0: `info` is what it says, `results` what it gave nevertheless."""

    info: builtins.int
    results: tuple[Any, ...]


def _failed(text: str, info: builtins.int, results: tuple[Any, ...]) -> Failed:
    failed = Failed(text)
    failed.info, failed.results = info, results
    return failed


def _wrong(where: str, value: Any, remedy: str) -> fb.BadArgument:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return fb.BadArgument(f"{where} is {shown}, {type(value).__name__}; {remedy}")


def _array(where: str, value: Any, axes: builtins.int, dtype: Any) -> Any:
    kind = f"{np.dtype(dtype).name} with {axes} {'axis' if axes == 1 else 'axes'}"
    if not isinstance(value, np.ndarray):
        raise _wrong(where, value, f"pass an array of NumPy, of {kind}")
    if value.ndim != axes:
        raise fb.BadArgument(f"{where} has the shape {value.shape}; pass an array of {kind}")
    return value


def _integer(where: str, value: Any, least: builtins.int, most: builtins.int) -> builtins.int:
    try:
        number = operator.index(value)
    except TypeError:
        raise _wrong(where, value, "pass an integer") from None
    if not least <= number <= most:
        raise _wrong(where, value, f"pass an integer from {least} to {most}")
    return number


def _text(where: str, value: Any, is_char: builtins.bool) -> str:
    if not isinstance(value, str) or (is_char and len(value) != 1):
        raise _wrong(where, value, "pass one character" if is_char else "pass a text")
    return value


def _call(client: Any, name: str, *args: Any) -> Any:
    return (fb.call if client is None else client.call)(name, *args, info="return")
"#;

/// Words of Python, and names that the module uses itself.
const RESERVED: [&str; 21] = [
    "and", "as", "class", "client", "def", "del", "for", "from", "if", "import", "in", "is", "lambda", "not",
    "or", "pass", "with", "fb", "np", "operator", "os",
];

fn name_of(name: &str) -> String {
    if RESERVED.contains(&name) { format!("{name}_") } else { name.to_owned() }
}

/// The module. Sizes that an array shows need not be given; arrays that only come are made and returned.
pub fn python(library: &Library, file: &str) -> String {
    let mut text = format!(
        "\"\"\"The routines of {file} at a server, made by `forebay stubs --lang python`.\n\n\
         Sizes that an array shows need not be given. Arrays that only come are made and returned; those that go and come\n\
         are changed in place.\n\"\"\"\n{HEAD}"
    );
    for routine in &library.routines {
        function(&mut text, routine);
    }
    text
}

/// What of a parameter its function is given.
enum Given<'a> {
    Scalar(Type),
    Text,
    File,
    Array(&'a Array),
}

fn function(text: &mut String, r: &Routine) {
    let (mut first, mut sizes) = (Vec::new(), Vec::new());
    let (mut docs, mut body, mut made, mut returned) = (String::new(), String::new(), Vec::new(), Vec::new());
    let mut passed = Vec::new();
    let (mut arrays, mut scalars) = (String::new(), String::new());
    let mut status = None;
    for source in &r.plain.sources {
        let Source::Arg(at) = source else {
            let result = r.returned.as_ref().map_or("result", |r| r.name.as_str());
            returned.push(name_of(result));
            let cases = r.returned.as_ref().and_then(|r| r.status.clone());
            status = status.or(cases.map(|cases| (name_of(result), cases)));
            continue;
        };
        let arg = &r.args[*at];
        let name = name_of(&arg.name);
        let (given, way) = match &arg.kind {
            Kind::Scalar(s) if s.of == Type::Char => (Given::Text, Way::In),
            Kind::Scalar(s) => (Given::Scalar(s.of), s.way),
            Kind::Array(a) => (Given::Array(a), a.way),
            Kind::File(way) => (Given::File, *way),
            _ => (Given::Text, Way::In),
        };
        let hint = match &given {
            Given::Text => "str".to_owned(),
            Given::File => "str | os.PathLike[str]".to_owned(),
            Given::Scalar(of) => scalar(*of).to_owned(),
            Given::Array(a) => format!("npt.NDArray[{}]", numpy(a.dtype)),
        };
        if let Kind::Scalar(s) = &arg.kind
            && s.status.is_some()
            && way == Way::Out
        {
            status = Some((name.clone(), s.status.clone().unwrap_or_default()));
        }
        if way != Way::Out {
            let (checked, to) = (
                checked(r, &name, &given),
                if matches!(given, Given::Array(_)) { &mut arrays } else { &mut scalars },
            );
            to.push_str(&checked);
        }
        match (&given, way) {
            (Given::Array(a), Way::Out) => {
                made.push(format!(
                    "    {name} = np.empty({}, {}, order=\"{}\")\n",
                    shape(r, a),
                    numpy(a.dtype),
                    order(a)
                ));
                returned.push(name.clone());
                passed.push(name.clone());
            }
            // Its path is given, and is what the call returns.
            (Given::File, Way::Out) => {
                first.push(format!("{name}: {hint}"));
                returned.push(name.clone());
                passed.push(name.clone());
            }
            (_, Way::Out) => returned.push(name.clone()),
            _ => {
                passed.push(name.clone());
                match shown(r, *at) {
                    Some(by) => {
                        sizes.push(format!("{name}: {hint} | None = None"));
                        let _ = writeln!(body, "    if {name} is None:\n        {name} = {by}");
                    }
                    None => first.push(format!("{name}: {hint}")),
                }
                if let (Given::Scalar(_), Way::InOut) = (&given, way) {
                    returned.push(name.clone());
                }
            }
        }
        let extents = match &given {
            Given::Array(_) => format!(", {}", r.kind_of(arg)),
            _ => String::new(),
        };
        let word = match way {
            Way::In => "goes",
            Way::Out => "comes",
            Way::InOut => "goes and comes",
        };
        let _ = writeln!(docs, "        {name}: {word}{extents}.");
    }
    first.push("*".into());
    first.extend(sizes);
    first.push("client: Any = None".into());
    let _ = writeln!(text, "\n\ndef {}({}) -> Any:", name_of(&r.name), first.join(", "));
    let _ = writeln!(text, "    \"\"\"{}\n\n    Arguments:\n{docs}    \"\"\"", r.plain.signature);
    // Sizes are seen at arrays that are arrays, and arrays made of sizes that are integers.
    [&arrays, &body, &scalars].iter().for_each(|lines| text.push_str(lines));
    text.extend(made);
    // Scalars that come are what the call returns; arrays are filled.
    let scalars: Vec<&String> = returned.iter().filter(|n| !passed.contains(n) || is_scalar(r, n)).collect();
    let taken = match scalars.as_slice() {
        [] => String::new(),
        all => format!("{} = ", all.iter().map(|n| n.as_str()).collect::<Vec<_>>().join(", ")),
    };
    let comma = if passed.is_empty() { "" } else { ", " };
    let _ = writeln!(text, "    {taken}_call(client, \"{}\"{comma}{})", r.name, passed.join(", "));
    let mut given_back: Vec<&str> = returned.iter().map(String::as_str).collect();
    if let Some((name, cases)) = &status {
        given_back.retain(|n| n != name);
        let results = match given_back.as_slice() {
            [] => "()".to_owned(),
            all => format!("({},)", all.join(", ")),
        };
        for case in cases {
            let _ = writeln!(
                text,
                "    if {name} {} {}:\n        raise _failed(f\"{}: {}\", {name}, {results})",
                case.compare.sign(),
                case.with,
                r.name,
                case.text.replace('"', "'")
            );
        }
        let _ = writeln!(
            text,
            "    if {name} != 0:\n        raise _failed(f\"{}: its status is {{{name}}}\", {name}, {results})",
            r.name
        );
    }
    let _ = match given_back.as_slice() {
        [] => writeln!(text, "    return None"),
        all => writeln!(text, "    return {}", all.join(", ")),
    };
}

/// The line that refuses what an argument cannot be; what is left to the call is empty.
fn checked(r: &Routine, name: &str, given: &Given) -> String {
    let line = |function: &str, more: String| {
        format!("    {name} = _{function}(\"{}: {name}\", {name}, {more})\n", r.name)
    };
    match given {
        Given::Array(a) => line("array", format!("{}, {}", a.extents.len(), numpy(a.dtype))),
        Given::Scalar(of) => match of.dtype().range().filter(|_| *of != Type::Bool) {
            Some(range) => line("integer", format!("{}, {}", range.start(), range.end())),
            None => String::new(),
        },
        Given::File => String::new(),
        Given::Text => {
            let is_char = r.args.iter().any(|a| {
                name_of(&a.name) == *name && matches!(&a.kind, Kind::Scalar(s) if s.of == Type::Char)
            });
            line("text", if is_char { "True".into() } else { "False".into() })
        }
    }
}

fn is_scalar(r: &Routine, name: &str) -> bool {
    r.args.iter().any(|a| name_of(&a.name) == name && matches!(a.kind, Kind::Scalar(_) | Kind::File(_)))
}

/// How a size is seen at an array that is given.
fn shown(r: &Routine, at: usize) -> Option<String> {
    let Kind::Scalar(s) = &r.args[at].kind else { return None };
    if s.way != Way::In || !s.of.dtype().is_integer() || s.of == Type::Char {
        return None;
    }
    r.args.iter().find_map(|arg| match &arg.kind {
        Kind::Array(a) if a.way != Way::Out => {
            let axis = a.extents.iter().position(|e| *e == Expr::Value(at))?;
            Some(format!("{}.shape[{axis}]", name_of(&arg.name)))
        }
        _ => None,
    })
}

fn order(a: &Array) -> &'static str {
    if a.order == Order::F { "F" } else { "C" }
}

fn shape(r: &Routine, a: &Array) -> String {
    let all: Vec<String> =
        a.extents.iter().map(|e| format!("builtins.max(0, {})", expression(r, e))).collect();
    format!("({},)", all.join(", "))
}

fn scalar(of: Type) -> &'static str {
    match of {
        Type::Bool => "bool",
        Type::Char => "str",
        Type::Number(DType::C64 | DType::C128) => "complex",
        Type::Number(d) if d.is_integer() => "builtins.int",
        Type::Number(_) => "float",
    }
}

fn numpy(d: DType) -> String {
    match d {
        DType::C64 => "np.complex64".into(),
        DType::C128 => "np.complex128".into(),
        DType::Bool => "np.bool_".into(),
        DType::Str | DType::Bytes => "np.uint8".into(),
        d => {
            let kind =
                if d.is_integer() { if d.name().starts_with('u') { "uint" } else { "int" } } else { "float" };
            format!("np.{kind}{}", d.size() * 8)
        }
    }
}

fn expression(r: &Routine, e: &Expr) -> String {
    let of = |e: &Expr| expression(r, e);
    match e {
        Expr::Number(n) => n.to_string(),
        Expr::Value(at) => {
            let arg = &r.args[*at];
            let name = name_of(&arg.name);
            match &arg.kind {
                Kind::Scalar(s) if s.of == Type::Char => format!("ord({name}[0])"),
                _ => name,
            }
        }
        Expr::Unary(Unary::Minus, x) => format!("(-{})", of(x)),
        Expr::Unary(Unary::Not, x) => format!("(not {})", of(x)),
        // Towards zero, as the server divides.
        Expr::Binary(Binary::Divide, xy) => format!("builtins.int({} / {})", of(&xy.0), of(&xy.1)),
        Expr::Binary(what, xy) => format!("({} {} {})", of(&xy.0), what.sign(), of(&xy.1)),
        Expr::Call(what, all) => {
            let all: Vec<String> = all.iter().map(of).collect();
            let name = match what {
                Function::Max => "max",
                Function::Min => "min",
                Function::Abs => "abs",
            };
            format!("builtins.{name}({})", all.join(", "))
        }
        Expr::If(parts) => format!("({} if {} else {})", of(&parts.1), of(&parts.0), of(&parts.2)),
        Expr::OneOf(x, bytes) => {
            let listed: Vec<String> = bytes.iter().map(u8::to_string).collect();
            format!("({} in ({},))", of(x), listed.join(", "))
        }
    }
}
