//! The calls of Fortran: a `block` in the place of a directive, which alone uses the module `forebay_directives`, so that
//! nothing is declared where the program declares its own.

use crate::parse::{Local, Name, Passed, Verb};
use crate::{Found, Language, Names};

pub fn statements(found: &Found, names: &Names, file: &str, line: usize) -> Vec<String> {
    let directive = &found.directive;
    // To a construct of OpenMP a block at its beginning is all of it.
    let mut made = if found.is_first { vec!["continue".to_owned()] } else { Vec::new() };
    made.extend(["block".to_owned(), "use forebay_directives".to_owned()]);
    // Whatever the kind of an integer is that the program is compiled with.
    made.push(format!("call fbd_begin({}, {line}_fbd_int, {})", text(file), text(&directive.text)));
    let each = |call: &str, all: &[Name]| -> Vec<String> {
        all.iter().map(|name| format!("if (fbd_well()) call {call}('{}')", name.text)).collect()
    };
    made.extend(match &directive.verb {
        Verb::Connect { broker } => {
            vec![format!("call fbd_connect({})", broker.as_deref().unwrap_or_default())]
        }
        Verb::Create { name, local, server, .. } => vec![create(name, local, server.as_deref(), names)],
        Verb::Put { name, local } => moved("put", name, local),
        Verb::Get { name, local } => moved("get", name, local),
        Verb::Kill { names } => each("fbd_kill", names),
        Verb::Wait { names } => each("fbd_wait", names),
        Verb::Call { service, args, under } => call(service, args, under.as_ref(), names),
        Verb::Extern { .. } | Verb::Local | Verb::End => Vec::new(),
    });
    made.push(match &directive.status {
        Some(variable) => format!("{variable} = fbd_status()"),
        None => "call fbd_end()".to_owned(),
    });
    made.push("end block".to_owned());
    made
}

fn create(name: &Name, local: &Local, server: Option<&str>, names: &Names) -> String {
    let services = names.services_of(name, Language::Fortran);
    let on = match server {
        Some(server) => format!(", server={server}"),
        None if services.is_empty() => String::new(),
        None => format!(", services={}", text(&services)),
    };
    match local {
        Local::Whole(array) | Local::Counted(array, _) => {
            format!("call fbd_create('{}', {array}{on})", name.text)
        }
        Local::Room(dtype, extents) => format!(
            "call fbd_create_room('{}', FB_{}, [integer(fbd_long) :: {}]{on})",
            name.text,
            dtype.to_string().to_uppercase(),
            extents.join(", ")
        ),
    }
}

fn moved(verb: &str, name: &Name, local: &Local) -> Vec<String> {
    let (Local::Whole(array) | Local::Counted(array, _)) = local else { return Vec::new() };
    vec![
        format!("call fbd_find('{}')", name.text),
        format!("if (fbd_well()) call fb_ref_{verb}(fbd_array, {array}, stat=fbd_stat, errmsg=fbd_said)"),
    ]
}

fn call(service: &str, args: &[Passed], under: Option<&Name>, names: &Names) -> Vec<String> {
    let passed: Vec<String> = args
        .iter()
        .map(|arg| match arg {
            Passed::Expression(name) if names.arrays.contains(&name.to_ascii_lowercase()) => {
                format!("fbd_arg('{}')", name.to_ascii_lowercase())
            }
            Passed::Expression(value) | Passed::Letter(value) | Passed::Array(value, ..) => {
                format!("fb_in({value})")
            }
            Passed::Place(place) => format!("fb_inout({place})"),
        })
        .collect();
    let args = format!("[fb_arg :: {}]", passed.join(", "));
    match under {
        None => vec![format!("call fbd_call('{service}', {args})")],
        Some(name) => vec![format!("call fbd_start('{}', '{service}', {args})", name.text)],
    }
}

/// A text of Fortran.
fn text(words: &str) -> String {
    format!("'{}'", words.replace('\'', "''"))
}

/// Columns of a line of fixed form behind the label and the sign of continuation.
const FIXED: usize = 66;
/// Those of one of free form, with room for two `&` and blanks.
const FREE: usize = 120;

/// A statement, on as many lines as it takes.
pub fn line(text: &mut String, statement: &str, language: Language) {
    let letters: Vec<char> = statement.chars().collect();
    let is_fixed = language == Language::FixedFortran;
    let width = if is_fixed { FIXED } else { FREE };
    let count = letters.chunks(width).len();
    for (number, part) in letters.chunks(width).enumerate() {
        text.push_str(match (is_fixed, number) {
            (true, 0) => "      ",
            (true, _) => "     &",
            (false, 0) => "",
            (false, _) => "&",
        });
        text.extend(part);
        if !is_fixed && number + 1 < count {
            text.push('&');
        }
        text.push('\n');
    }
}
