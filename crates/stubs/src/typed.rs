//! Functions of C and of C++ over what is published for people: arguments with types, extents that follow from the
//! scalars, errors as the language has them.

use std::fmt::Write;

use forebay_idl::{Arg, Array, Kind, Library, Returned, Routine, Source, Type};
use forebay_types::{DType, Order, Way};

use crate::native::{INTEGERS, direction, dtype, expression};

/// A parameter of a function.
struct Taken {
    /// `const double *a`
    declared: String,
    /// `a`
    name: String,
    /// What the function is told of it.
    is_result: bool,
}

/// Refuses a leading dimension with which lines of a matrix would lie over each other.
const LEADING: &str = "\
static inline fb_status fbs_leading(const char *of, int64_t ld, int64_t least, const char *lines)
{
    char text[200];
    snprintf(text, sizeof text, \"%s has the leading dimension %lld and %lld %s; pass at least as many, or 0 for just as many\",
             of, (long long)ld, (long long)least, lines);
    return fb_fail(FB_BAD_ARGUMENT, text);
}
";

/// Words that cannot be names of parameters in C or C++, among those that files use.
const RESERVED: [&str; 14] = [
    "auto", "break", "case", "char", "class", "client", "const", "default", "double", "float", "int", "long",
    "new", "short",
];

fn name_of(arg: &Arg) -> String {
    if RESERVED.contains(&arg.name.as_str()) { format!("{}_", arg.name) } else { arg.name.clone() }
}

/// A header of functions `STEM_NAME(client, ...)` that return an `fb_status`. Arrays are column-major where the library
/// is Fortran's; behind a matrix stands its leading dimension (0: as many as it has rows), behind a vector the distance
/// of its elements (0 or 1: side by side).
pub fn c(library: &Library, file: &str) -> String {
    let stem = crate::stem(file);
    let upper = stem.to_uppercase();
    let mut text = format!(
        "/* The routines of {file} at a server, made by `forebay stubs --lang c`. Link with -lforebay.\n   \
         Behind a matrix stands its leading dimension (0: as many as it has rows), behind a vector the distance of its\n   \
         elements (0 or 1: side by side). */\n#ifndef {upper}_REMOTE_H\n#define {upper}_REMOTE_H\n\n\
         #include <forebay.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <string.h>\n\n"
    );
    if library.routines.iter().any(|r| arrays(r).next().is_some()) {
        let _ = writeln!(text, "#ifndef FBS_INTEGERS\n#define FBS_INTEGERS\n{INTEGERS}{LEADING}#endif");
    }
    for routine in &library.routines {
        function(&mut text, routine, &stem);
    }
    let _ = writeln!(text, "\n#endif");
    text
}

fn arrays(r: &Routine) -> impl Iterator<Item = &Array> {
    r.args.iter().filter_map(|a| match &a.kind {
        Kind::Array(a) => Some(a),
        _ => None,
    })
}

fn is_complex(d: DType) -> bool {
    matches!(d, DType::C64 | DType::C128)
}

/// A type that C and C++ have alike: complex numbers are pairs.
fn element(d: DType) -> &'static str {
    match d {
        DType::C64 => "float",
        DType::C128 => "double",
        other => dtype(other),
    }
}

fn taken(r: &Routine) -> Vec<Taken> {
    let mut all = Vec::new();
    for source in &r.plain.sources {
        let (declared, name, is_result) = match source {
            Source::Arg(at) => {
                let arg = &r.args[*at];
                let name = name_of(arg);
                match &arg.kind {
                    Kind::Scalar(s) if s.of == Type::Char => (format!("char {name}"), name, false),
                    Kind::Scalar(s) => {
                        let of = s.of.dtype();
                        let declared = match (s.way, is_complex(of)) {
                            (Way::In, false) => format!("{} {name}", element(of)),
                            (Way::In, true) => format!("const {} *{name}", element(of)),
                            _ => format!("{} *{name}", element(of)),
                        };
                        (declared, name, false)
                    }
                    Kind::Array(a) => {
                        let constant = if a.way == Way::In { "const " } else { "" };
                        (format!("{constant}{} *{name}", element(a.dtype)), name, false)
                    }
                    _ => (format!("const char *{name}"), name, false),
                }
            }
            Source::Result => {
                let of = r.returned.as_ref().map_or(DType::F64, |r| r.of.dtype());
                (format!("{} *result", element(of)), "result".into(), true)
            }
            _ => continue,
        };
        all.push(Taken { declared, name: name.clone(), is_result });
        if let Source::Arg(at) = source
            && let Kind::Array(a) = &r.args[*at].kind
            && (a.ld.is_some() || a.inc.is_some())
        {
            let apart = format!("{}_{}", if a.ld.is_some() { "ld" } else { "inc" }, name);
            all.push(Taken { declared: format!("int64_t {apart}"), name: apart, is_result: false });
        }
    }
    all
}

fn function(c: &mut String, r: &Routine, stem: &str) {
    let all = taken(r);
    let declared: Vec<&str> = all.iter().map(|t| t.declared.as_str()).collect();
    let _ = writeln!(
        c,
        "\n/* {} */\nstatic inline fb_status {stem}_{}(fb_client *client{}{})\n{{",
        r.plain.signature,
        r.name,
        if declared.is_empty() { "" } else { ", " },
        declared.join(", ")
    );
    let count = r.plain.sources.len();
    if count == 0 {
        let _ = writeln!(c, "    return fb_call(client, \"{}\", NULL, 0);\n}}", r.name);
        return;
    }
    let _ = writeln!(c, "    fb_arg args[{count}];\n    memset(args, 0, sizeof args);");
    for (i, source) in r.plain.sources.iter().enumerate() {
        match source {
            Source::Arg(at) => argument(c, r, i, &r.args[*at]),
            _ => {
                let of = r.returned.as_ref().map_or(DType::F64, |r| r.of.dtype());
                scalar(c, i, Way::Out, of, "result");
            }
        }
    }
    let _ = writeln!(c, "    return fb_call(client, \"{}\", args, {count});\n}}", r.name);
}

fn scalar(c: &mut String, i: usize, way: Way, of: DType, name: &str) {
    let direction = direction(way);
    let _ = write!(
        c,
        "    args[{i}].kind = FB_SCALAR, args[{i}].direction = {direction}, args[{i}].dtype = (fb_dtype){}",
        of as u8
    );
    let _ = match (way, is_complex(of)) {
        (Way::In, true) => writeln!(c, ", memcpy(&args[{i}].value, {name}, 2 * sizeof *{name});"),
        (Way::In, false) => writeln!(c, ", memcpy(&args[{i}].value, &{name}, sizeof {name});"),
        _ => writeln!(c, ", args[{i}].data = {name};"),
    };
}

fn argument(c: &mut String, r: &Routine, i: usize, arg: &Arg) {
    let name = name_of(arg);
    match &arg.kind {
        Kind::Scalar(s) if s.of == Type::Char => {
            let _ = writeln!(c, "    char text_{name}[2] = {{ {name}, 0 }};");
            text(c, i, &format!("text_{name}"));
        }
        Kind::Scalar(s) => scalar(c, i, s.way, s.of.dtype(), &name),
        Kind::Array(a) => array(c, r, i, a, &name),
        Kind::File(way) => {
            let way = direction(*way);
            let _ = writeln!(
                c,
                "    args[{i}].kind = FB_FILE, args[{i}].direction = {way}, args[{i}].dtype = FB_STR, args[{i}].data = (void *){name};"
            );
        }
        _ => text(c, i, &name),
    }
}

fn text(c: &mut String, i: usize, name: &str) {
    let _ = writeln!(
        c,
        "    args[{i}].kind = FB_TEXT, args[{i}].direction = FB_IN, args[{i}].dtype = FB_STR, args[{i}].data = (void *){name};"
    );
}

fn array(c: &mut String, r: &Routine, i: usize, a: &Array, name: &str) {
    let order = if a.order == Order::F { "FB_COLUMN_MAJOR" } else { "FB_ROW_MAJOR" };
    let _ = writeln!(
        c,
        "    args[{i}].kind = FB_ARRAY, args[{i}].direction = {}, args[{i}].dtype = (fb_dtype){}, args[{i}].order = {order}, args[{i}].ndim = {}, args[{i}].data = (void *){name};",
        direction(a.way),
        a.dtype as u8,
        a.extents.len()
    );
    // A scalar is known by its value; one that comes back by its address.
    let value = |at: usize| {
        let arg = &r.args[at];
        let name = name_of(arg);
        match &arg.kind {
            Kind::Scalar(s) if s.way != Way::In => format!("(int64_t)*{name}"),
            Kind::Scalar(s) if s.of == Type::Char => format!("(unsigned char){name}"),
            _ => format!("(int64_t){name}"),
        }
    };
    for (axis, e) in a.extents.iter().enumerate() {
        let _ = writeln!(c, "    args[{i}].shape[{axis}] = fbs_max(0, {});", expression(e, &value));
    }
    let size = a.dtype.size();
    if a.ld.is_some() {
        let (fast, slow) = if a.order == Order::F { (0, 1) } else { (1, 0) };
        let lines = if a.order == Order::F { "rows" } else { "columns" };
        let _ = writeln!(
            c,
            "    if (ld_{name} && ld_{name} < fbs_max(1, args[{i}].shape[{fast}])) return fbs_leading(\"{}: {name}\", ld_{name}, args[{i}].shape[{fast}], \"{lines}\");",
            r.name
        );
        let _ = writeln!(
            c,
            "    if (ld_{name}) args[{i}].strides[{fast}] = {size}, args[{i}].strides[{slow}] = fbs_multiply(ld_{name}, {size});"
        );
    } else if a.inc.is_some() {
        let _ = writeln!(c, "    if (inc_{name}) args[{i}].strides[0] = inc_{name} * {size};");
    }
}

/// A header of functions `STEM::NAME(client, ...)` that throw `fb::error`; results of functions are returned.
pub fn cplusplus(library: &Library, file: &str) -> String {
    let stem = crate::stem(file);
    let upper = stem.to_uppercase();
    let mut text = format!(
        "// The routines of {file} at a server, made by `forebay stubs --lang c++`. Link with -lforebay.\n\
         // What fails throws fb::error. Complex numbers are pairs of their parts, as std::complex<double> has them.\n\
         #ifndef {upper}_REMOTE_HPP\n#define {upper}_REMOTE_HPP\n\n#include <forebay.hpp>\n\n"
    );
    text.push_str(&c(library, file));
    let _ = writeln!(text, "\nnamespace {stem} {{");
    for r in &library.routines {
        let all = taken(r);
        let result = all.iter().find(|t| t.is_result);
        let declared: Vec<&str> = all.iter().filter(|t| !t.is_result).map(|t| t.declared.as_str()).collect();
        let mut passed: Vec<&str> =
            all.iter().map(|t| if t.is_result { "result" } else { t.name.as_str() }).collect();
        passed.insert(0, "client.get()");
        let of = r.returned.as_ref().map_or("void".into(), returned);
        let _ = writeln!(
            text,
            "\n// {}\ninline {of} {}(const fb::client &client{}{})\n{{",
            r.plain.signature,
            r.name,
            if declared.is_empty() { "" } else { ", " },
            declared.join(", ")
        );
        let call = format!("fb::check({stem}_{}({}))", r.name, passed.join(", "));
        let _ = match (result, r.returned.as_ref().map(|r| is_complex(r.of.dtype()))) {
            (None, _) | (_, None) => writeln!(text, "    {call};\n}}"),
            (Some(_), Some(true)) => writeln!(
                text,
                "    {of} value;\n    auto *result = reinterpret_cast<{} *>(&value);\n    {call};\n    return value;\n}}",
                r.returned.as_ref().map_or("double", |r| element(r.of.dtype()))
            ),
            (Some(_), Some(false)) => {
                let call = call.replace(", result)", ", &result)");
                writeln!(text, "    {of} result{{}};\n    {call};\n    return result;\n}}")
            }
        };
    }
    let _ = writeln!(text, "\n}} // namespace {stem}\n\n#endif");
    text
}

fn returned(r: &Returned) -> String {
    match r.of.dtype() {
        d if is_complex(d) => format!("std::complex<{}>", element(d)),
        d => element(d).into(),
    }
}
