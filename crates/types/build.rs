//! Makes the error codes of `spec/errors.toml` into Rust.

use std::{env, fmt::Write, fs, path::Path};

#[derive(serde::Deserialize)]
struct Table {
    code: Vec<Code>,
}

#[derive(serde::Deserialize)]
struct Code {
    name: String,
    number: u32,
    meaning: String,
    remedy: String,
}

fn main() {
    let spec = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap()).join("../../spec/errors.toml");
    println!("cargo::rerun-if-changed={}", spec.display());
    let text = fs::read_to_string(&spec).unwrap_or_else(|e| panic!("cannot read {}: {e}", spec.display()));
    let table: Table = toml::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", spec.display()));
    let mut out = String::new();
    out.push_str("/// What kind of failure it was; the same numbers in every language.\n");
    out.push_str("#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]\n#[repr(u32)]\npub enum Code {\n");
    for c in &table.code {
        writeln!(out, "    /// {}\n    {} = {},", c.meaning, c.name, c.number).unwrap();
    }
    out.push_str("}\n\n/// Every code with its name, meaning and remedy, in the order of the table.\n");
    out.push_str("pub const CODES: &[CodeInfo] = &[\n");
    for c in &table.code {
        writeln!(
            out,
            "    CodeInfo {{ code: Code::{}, name: {:?}, meaning: {:?}, remedy: {:?} }},",
            c.name, c.name, c.meaning, c.remedy
        )
        .unwrap();
    }
    out.push_str("];\n");
    let dest = Path::new(&env::var("OUT_DIR").unwrap()).join("codes.rs");
    fs::write(dest, out).unwrap();
}
