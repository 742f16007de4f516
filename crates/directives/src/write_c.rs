//! The calls of C and C++, one line a directive. Types and extents are found by the macros of `forebay/directives.h`.

use crate::parse::{Directive, Local, Name, Passed, Verb};
use crate::{Language, Names};
use forebay_types::DType;
use std::collections::BTreeSet;
use std::fmt::Write;

pub fn statement(directive: &Directive, names: &Names) -> String {
    let each = |call: &str, all: &[Name]| -> String {
        all.iter().map(|name| ended(directive, &format!("{call}(\"{}\")", name.text))).collect()
    };
    let inner = match &directive.verb {
        Verb::Connect { broker } => {
            ended(directive, &format!("fbd_connect({})", broker.as_deref().unwrap_or("0")))
        }
        Verb::Create { name, local, column_major, server } => {
            let server = server.as_deref().unwrap_or("0");
            let made = described(local, column_major.unwrap_or(false));
            let services = match names.services_of(name, Language::C) {
                none if none.is_empty() => "0".to_owned(),
                some => text(&some),
            };
            let call =
                format!("fbd_create(\"{}\", {made}, {server}, {services}, __FILE__, __LINE__)", name.text);
            checks(local) + &ended(directive, &call)
        }
        Verb::Put { name, local } => moved("fbd_put", name, local, directive),
        Verb::Get { name, local } => moved("fbd_get", name, local, directive),
        Verb::Kill { names } => each("fbd_kill", names),
        Verb::Wait { names } => each("fbd_wait", names),
        Verb::Call { service, args, under } => call(directive, service, args, under.as_ref(), names),
        Verb::Extern { .. } => String::new(),
        Verb::Local => return "#if 0".into(),
        Verb::End => return "#endif".into(),
    };
    format!("{{ {}}}", inner)
}

/// A call with what becomes of its status.
fn ended(directive: &Directive, call: &str) -> String {
    match &directive.status {
        Some(variable) => format!("{variable} = {call}; "),
        None => format!("FBD_DO({}, {call}); ", text(&directive.text)),
    }
}

fn moved(call: &str, name: &Name, local: &Local, directive: &Directive) -> String {
    let call = format!("{call}(\"{}\", {})", name.text, described(local, false));
    checks(local) + &ended(directive, &call)
}

fn order(column_major: bool) -> &'static str {
    if column_major { "FB_COLUMN_MAJOR" } else { "FB_ROW_MAJOR" }
}

fn described(local: &Local, column_major: bool) -> String {
    let order = order(column_major);
    match local {
        Local::Whole(array) if column_major => format!("fbd_in_order(FBD_WHOLE({array}), {order})"),
        Local::Whole(array) => format!("FBD_WHOLE({array})"),
        Local::Counted(array, extents) => format!("FBD_COUNTED({array}, {order}, {})", extents.join(", ")),
        Local::Room(dtype, extents) => {
            format!("FBD_ROOM({}, {order}, {})", constant(*dtype), extents.join(", "))
        }
    }
}

/// `FB_F64`
fn constant(dtype: DType) -> String {
    format!("FB_{}", dtype.to_string().to_uppercase())
}

/// What the compiler is to look at: that an array says its own size, and that its elements can travel.
fn checks(local: &Local) -> String {
    match local {
        Local::Whole(array) => format!("FBD_IS_WHOLE({array}); "),
        Local::Counted(array, _) => format!("FBD_TRAVELS({array}); "),
        Local::Room(..) => String::new(),
    }
}

fn call(
    directive: &Directive,
    service: &str,
    args: &[Passed],
    under: Option<&Name>,
    names: &Names,
) -> String {
    let mut checked = Vec::new();
    let mut passed = Vec::new();
    for arg in args {
        passed.push(match arg {
            Passed::Expression(name) if names.arrays.contains(name) => format!("fbd_array(\"{name}\")"),
            Passed::Expression(value) => {
                if !value.starts_with(|c: char| c.is_ascii_digit() || c == '"') {
                    checked.push(format!("FBD_IS_VALUE({value}); "));
                }
                format!("FBD_ARG({value})")
            }
            Passed::Letter(letter) => format!("FBD_TEXT({letter})"),
            Passed::Place(place) => {
                checked.push(format!("FBD_IS_PLACE({place}); "));
                format!("FBD_PLACE({place})")
            }
            Passed::Array(pointer, extents, column_major) => {
                checked.push(format!("FBD_TRAVELS({pointer}); "));
                format!("FBD_ARRAY({pointer}, {}, {})", order(*column_major), extents.join(", "))
            }
        });
    }
    let mut seen = BTreeSet::new();
    let mut made: String = checked.into_iter().filter(|check| seen.insert(check.clone())).collect();
    let given = if passed.is_empty() { "0" } else { "fbd_args" };
    if !passed.is_empty() {
        let _ = write!(made, "fb_arg fbd_args[] = {{ {} }}; ", passed.join(", "));
    }
    let count = passed.len();
    let call = match under {
        None => format!("fbd_call(\"{service}\", {given}, {count})"),
        Some(name) => {
            format!("fbd_start(\"{}\", \"{service}\", {given}, {count}, __FILE__, __LINE__)", name.text)
        }
    };
    made + &ended(directive, &call)
}

/// A text of C.
fn text(words: &str) -> String {
    let mut made = String::from("\"");
    for c in words.chars() {
        match c {
            '"' | '\\' => made.extend(['\\', c]),
            // Neither a trigraph nor a control character is meant.
            '?' => made.push_str("\\?"),
            c if c.is_control() => made.push(' '),
            c => made.push(c),
        }
    }
    made.push('"');
    made
}
