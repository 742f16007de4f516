//! Source files: their length, their heads, where `unsafe` may stand, the table of errors.

use crate::judge;
use crate::tree::{File, files, has_word};

/// Languages we write by hand.
const CODE: &[&str] = &["rs", "py", "pyi", "ts", "js", "mjs", "c", "h", "f90", "sh", "css"];
const LONG: usize = 500;
const TOO_LONG: usize = 800;

/// Folders whose crates forbid `unsafe` but for one module of foreign functions.
const WITH_FFI: &[&str] = &["crates/host/", "crates/foreign/", "crates/store/", "bindings/python/"];
/// The home of `unsafe`.
const UNSAFE_HOME: &str = "crates/arena/";
/// All of it speaks with C.
const C_LIBRARY: &str = "bindings/c/";
/// Made from what we write by hand.
const MADE: &[&str] = &[
    "bindings/c/include/forebay.h",
    "bindings/fortran/src/forebay_library.f90",
    "bindings/fortran/src/forebay_made.f90",
];

#[test]
fn no_file_is_longer_than_its_concept() {
    let (mut breaches, mut long) = (Vec::new(), Vec::new());
    for file in files().iter().filter(|f| f.is(CODE) && !MADE.contains(&f.path.as_str())) {
        match file.text.lines().count() {
            n if n > TOO_LONG => breaches.push(format!(
                "{} has {n} lines: it holds more than one concept; give the second a file of its own",
                file.path
            )),
            n if n > LONG => long.push(format!("{} has {n} lines", file.path)),
            _ => (),
        }
    }
    if !long.is_empty() {
        println!("longer than most (over {LONG} lines):\n  {}", long.join("\n  "));
    }
    judge(&format!("no source file is longer than {TOO_LONG} lines:"), breaches);
}

/// Whether a file is shipped source, whose reader deserves a head that says what it is.
fn needs_head(file: &File) -> bool {
    let shipped = file.path.contains("/src/")
        || file.path.starts_with("examples/")
        || file.path.starts_with("scripts/");
    let package = file.path.starts_with("bindings/python/python/");
    (shipped || package) && file.is(&["rs", "py", "pyi", "ts"])
}

#[test]
fn every_source_file_says_what_it_is() {
    let mut breaches = Vec::new();
    for file in files().iter().filter(|f| needs_head(f)) {
        let first = file.text.lines().find(|l| !l.trim().is_empty() && !l.starts_with("#!/")).unwrap_or("");
        let (ok, how) = match file.path.rsplit('.').next() {
            Some("rs") => (first.starts_with("//!"), "//! ..."),
            Some("ts") => (first.starts_with("//") || first.starts_with("/*"), "// ..."),
            _ => (
                first.starts_with("\"\"\"") || first.starts_with("r\"\"\"") || first.starts_with('#'),
                "\"\"\"...\"\"\"",
            ),
        };
        if !ok && !file.text.trim().is_empty() {
            breaches.push(format!(
                "{} has no head: begin it with {how}, what it is and how data goes through it",
                file.path
            ));
        }
    }
    judge("every source file begins with a head:", breaches);
}

/// The part of a line that is code.
fn code(line: &str) -> &str {
    let line = line.trim_start();
    if line.starts_with("//") || line.starts_with('*') {
        ""
    } else {
        line.split(" // ").next().unwrap_or(line)
    }
}

#[test]
fn unsafe_stays_at_home() {
    let mut breaches = Vec::new();
    for file in files().iter().filter(|f| f.is(&["rs"]) && !f.path.starts_with(UNSAFE_HOME)) {
        let ffi = WITH_FFI.iter().any(|p| file.path.starts_with(p))
            && (file.path.ends_with("/ffi.rs") || file.path.contains("/ffi/"));
        if ffi || file.path.starts_with("tests/tidy/") || file.path.starts_with(C_LIBRARY) {
            continue;
        }
        for (number, line) in file.lines().filter(|(_, l)| has_word(code(l), "unsafe")) {
            breaches.push(format!(
                "{}:{number} `{}`: put it into crates/arena behind a safe function, or into the crate's ffi module",
                file.path,
                line.trim()
            ));
        }
    }
    judge("`unsafe` stands in crates/arena and the ffi modules only:", breaches);
}

#[test]
fn crate_roots_forbid_unsafe_or_narrow_it() {
    let mut breaches = Vec::new();
    let roots = files().iter().filter(|f| {
        f.path.starts_with("crates/") && (f.path.ends_with("/src/lib.rs") || f.path.ends_with("/src/main.rs"))
    });
    for file in roots {
        let wanted = if file.path.starts_with(UNSAFE_HOME) {
            "#![deny(unsafe_op_in_unsafe_fn)]"
        } else if WITH_FFI.iter().any(|p| file.path.starts_with(p)) {
            "#![deny(unsafe_code)]"
        } else {
            "#![forbid(unsafe_code)]"
        };
        let stricter = file.text.contains("#![forbid(unsafe_code)]");
        if !file.text.contains(wanted) && !stricter {
            breaches.push(format!("{} lacks {wanted} after its head", file.path));
        }
    }
    judge("every crate says what `unsafe` it allows:", breaches);
}

#[test]
fn error_numbers_and_names_are_given_once() {
    let file = files().iter().find(|f| f.path == "spec/errors.toml").expect("spec/errors.toml is tracked");
    let table: toml::Table = file.text.parse().expect("spec/errors.toml is TOML");
    let codes = table["code"].as_array().expect("spec/errors.toml holds [[code]] tables");
    let mut breaches = Vec::new();
    for (at, code) in codes.iter().enumerate() {
        for field in ["number", "name"] {
            if codes[..at].iter().any(|earlier| earlier.get(field) == code.get(field)) {
                breaches.push(format!(
                    "{field} {:?} is given twice: a number keeps its meaning for ever",
                    code.get(field)
                ));
            }
        }
        for field in ["meaning", "remedy"] {
            if code.get(field).and_then(|t| t.as_str()).is_none_or(|t| !t.ends_with('.')) {
                breaches.push(format!("{:?} lacks a sentence as its {field}", code.get("name")));
            }
        }
    }
    judge("spec/errors.toml gives each number and name once:", breaches);
}
