//! `forebay.h` is made from the sources: the committed one must be what would be made now. With
//! FB_WRITE_HEADER set it is written instead.

use forebay::{DType, ElementKind};
use std::path::{Path, PathBuf};

/// The header's sections, in its order: sources and what stands above their functions.
const SECTIONS: &[(&str, &str)] = &[
    ("kinds", "handles"),
    ("general", "errors, versions, memory"),
    ("run", "runs"),
    ("arrays", "arrays"),
    ("data", "data sets"),
    ("attrs", "attributes"),
    ("snapshot", "snapshots being taken"),
    ("meshes", "meshes and particles of snapshots"),
    ("kept", "complete snapshots"),
    ("series", "one array over many steps"),
    ("args", "arguments of calls and of SQL"),
    ("tables", "tables"),
    ("rows", "rows of a query"),
    ("watch", "watching and steering"),
    ("parameters", "parameters"),
    ("calls", "calls"),
    ("placement", "which server gets a call"),
    ("futures", "calls under way"),
    ("notices", "the ends of calls, told"),
    ("group", "calls that run at the same time"),
    ("bag", "many calls of one service"),
    ("references", "references"),
    ("server", "servers"),
    ("requests", "calls as a service function sees them"),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn read(path: &str) -> String {
    let path = folder().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn config() -> cbindgen::Config {
    let mut config = cbindgen::Config {
        language: cbindgen::Language::C,
        style: cbindgen::Style::Type,
        no_includes: true,
        tab_width: 4,
        line_length: 110,
        documentation_style: cbindgen::DocumentationStyle::C,
        usize_is_size_t: true,
        ..cbindgen::Config::default()
    };
    let given = ["fb_status", "fb_dtype", "fb_order", "fb_level", "fb_scalar"];
    config.export.exclude = given.map(str::to_owned).to_vec();
    // Handles stand in a section of their own, before they are used.
    let handles = [
        "run", "snapshot", "table", "rows", "diagram", "client", "future", "bag", "group", "ref", "server",
        "request",
    ];
    // What no function of its own source takes.
    let structures = ["array", "arg"];
    config.export.include = handles.iter().chain(&structures).map(|name| format!("fb_{name}")).collect();
    config
}

/// What cbindgen makes of one source.
fn section(source: &str) -> String {
    let bindings = cbindgen::Builder::new()
        .with_config(config())
        .with_src(folder().join(format!("src/{source}.rs")))
        .generate()
        .unwrap_or_else(|e| panic!("src/{source}.rs: {e}"));
    let mut out = Vec::new();
    bindings.write(&mut out);
    let lengths = [
        ("[NAME]", "[FB_NAME_ROOM]"),
        ("[UNIT]", "[FB_UNIT_ROOM]"),
        ("[TEXT]", "[FB_TEXT_ROOM]"),
        ("[RANK]", "[FB_MAX_RANK]"),
    ];
    let text = String::from_utf8(out).unwrap();
    close_comments(&lengths.iter().fold(text, |text, (ours, theirs)| text.replace(ours, theirs)))
}

/// Comments begin and end on the lines of their text.
fn close_comments(text: &str) -> String {
    let mut out: Vec<String> = Vec::new();
    let (mut inside, mut first) = (false, false);
    for line in text.lines() {
        match line.trim() {
            "/*" => (inside, first) = (true, true),
            "*/" if inside => {
                inside = false;
                out.last_mut().unwrap().push_str(" */");
            }
            words if inside => {
                let indent = " ".repeat((line.len() - line.trim_start().len()).saturating_sub(1) / 4 * 4);
                let begin = if first { "/* " } else { "   " };
                out.push(format!("{indent}{begin}{words}").trim_end().to_owned());
                first = false;
            }
            _ => out.push(line.to_owned()),
        }
    }
    out.join("\n")
}

/// `NotFound` -> `FB_NOT_FOUND`.
fn constant(name: &str) -> String {
    let mut out = "FB".to_owned();
    for letter in name.chars() {
        if letter.is_uppercase() {
            out.push('_');
        }
        out.extend(letter.to_uppercase());
    }
    out
}

fn table(rows: impl Iterator<Item = (String, u32, String)>) -> String {
    let rows: Vec<String> =
        rows.map(|(name, number, says)| format!("    /* {says} */\n    {name} = {number},")).collect();
    rows.join("\n")
}

/// What is said of each dtype in an array of C, by its number; 0 is none.
fn by_number(none: &str, said: impl Fn(DType) -> String) -> String {
    let codes = 0..=u8::MAX;
    let last = DType::all().map(|d| d as u8).max().unwrap_or(0);
    let said = codes.take_while(|code| *code <= last).map(|code| DType::from_code(code).map(&said));
    said.map(|said| said.unwrap_or_else(|_| none.to_owned())).collect::<Vec<_>>().join(", ")
}

/// The members of `fb_scalar`: what C has no type for is given by its bits.
fn members() -> String {
    let members = DType::all().filter(|d| !d.is_text()).map(|d| {
        let name = if d == DType::Bool { "truth" } else { d.name() };
        let bits = 8 * d.size();
        let (kind, says) = match (d.kind(), d.size()) {
            (ElementKind::Signed, ..=8) => (format!("int{bits}_t {name}"), ""),
            (ElementKind::Unsigned, ..=8) => (format!("uint{bits}_t {name}"), ""),
            (ElementKind::Float, 4) => (format!("float {name}"), ""),
            (ElementKind::Float, 8) => (format!("double {name}"), ""),
            (ElementKind::Complex, 8) => (format!("float {name}[2]"), ": real and imaginary part"),
            (ElementKind::Complex, 16) => (format!("double {name}[2]"), ": real and imaginary part"),
            (ElementKind::Bool, 1) => (format!("uint8_t {name}"), ": 0 or 1"),
            (_, ..=8) => (format!("uint{bits}_t {name}"), ": its bits"),
            (_, size) => (format!("uint64_t {name}[{}]", size / 8), ": its bits"),
        };
        format!("    /* FB_{}{says}. */\n    {kind};", d.name().to_uppercase())
    });
    members.collect::<Vec<_>>().join("\n")
}

fn made() -> String {
    let [major, minor, patch]: [&str; 3] =
        env!("CARGO_PKG_VERSION").splitn(3, '.').collect::<Vec<_>>().try_into().unwrap();
    let version = format!(
        "\n#define FB_VERSION_MAJOR {major}\n#define FB_VERSION_MINOR {minor}\n#define FB_VERSION_PATCH {patch}\n#define FB_VERSION \"{major}.{minor}.{patch}\""
    );
    let status = forebay::CODES.iter().map(|c| (constant(c.name), c.code as u32, c.meaning.to_owned()));
    let dtype = DType::all().map(|d| {
        let name = format!("FB_{}", d.name().to_uppercase());
        (name, d as u32, format!("{}, {} bytes.", d.name(), d.size()))
    });
    let mut out = read("tests/prelude.h")
        .replace("@VERSION@", &version)
        .replace("@MAX_RANK@", &forebay::limits::RANK.to_string())
        .replace("@NAME_ROOM@", &(forebay::limits::NAME_BYTES + 1).to_string())
        .replace("@UNIT_ROOM@", &(forebay::limits::UNIT_BYTES + 1).to_string())
        .replace("@TEXT_ROOM@", "1024")
        .replace("@STATUS@", &table(status))
        .replace("@DTYPE@", &table(dtype))
        .replace("@SCALAR@", &members());
    for (source, title) in SECTIONS {
        let rule = "-".repeat(86usize.saturating_sub(title.len()));
        out.push_str(&format!("\n/* --- {title} {rule} */\n\n{}\n", section(source).trim()));
    }
    out.push('\n');
    let names = by_number("\"?\"", |d| format!("{:?}", d.name()));
    let sizes = by_number("0", |d| d.size().to_string());
    out.push_str(&read("tests/postlude.h").replace("@NAMES@", &names).replace("@SIZES@", &sizes));
    out
}

#[test]
fn the_header_is_what_the_sources_make() {
    let (path, made) = (folder().join("include/forebay.h"), made());
    if std::env::var_os("FB_WRITE_HEADER").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    if let Some((at, (is, should))) =
        committed.lines().zip(made.lines()).enumerate().find(|(_, (is, should))| is != should)
    {
        panic!(
            "forebay.h differs in line {}:\n  is     {is}\n  should {should}\nwrite it anew: FB_WRITE_HEADER=1 cargo test -p forebay-c --test header",
            at + 1
        );
    }
    assert_eq!(committed.len(), made.len(), "one ends earlier; write it anew as above");
}

#[test]
fn every_source_with_functions_of_c_has_its_section() {
    for entry in std::fs::read_dir(folder().join("src")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if std::fs::read_to_string(&path).unwrap().contains("no_mangle") {
            assert!(SECTIONS.iter().any(|(s, _)| *s == name), "src/{name}.rs is not in the header");
        }
    }
}
