//! `forebay.h` is made from the sources: the committed one must be what would be made now. With
//! FB_WRITE_HEADER set it is written instead.

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
    ("kept", "complete snapshots"),
    ("args", "arguments of calls and of SQL"),
    ("tables", "tables"),
    ("rows", "rows of a query"),
    ("watch", "watching and steering"),
    ("parameters", "parameters"),
    ("calls", "calls"),
    ("futures", "calls under way"),
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
    let given = ["fb_status", "fb_dtype", "fb_order", "fb_level"];
    config.export.exclude = given.map(str::to_owned).to_vec();
    // Handles stand in a section of their own, before they are used.
    let handles =
        ["run", "snapshot", "table", "rows", "diagram", "client", "future", "ref", "server", "request"];
    // What no function of its own source takes.
    let structures = ["array", "arg", "scalar"];
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
    let lengths = [("[NAME]", "[FB_NAME_ROOM]"), ("[UNIT]", "[FB_UNIT_ROOM]"), ("[RANK]", "[FB_MAX_RANK]")];
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

/// Bytes of an element by the number of its dtype.
fn sizes() -> String {
    let mut sizes = Vec::new();
    for dtype in forebay::DType::all() {
        let number = dtype as usize;
        sizes.resize(sizes.len().max(number + 1), 0);
        sizes[number] = dtype.size();
    }
    sizes.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

fn made() -> String {
    let [major, minor, patch]: [&str; 3] =
        env!("CARGO_PKG_VERSION").splitn(3, '.').collect::<Vec<_>>().try_into().unwrap();
    let version = format!(
        "\n#define FB_VERSION_MAJOR {major}\n#define FB_VERSION_MINOR {minor}\n#define FB_VERSION_PATCH {patch}\n#define FB_VERSION \"{major}.{minor}.{patch}\""
    );
    let status = forebay::CODES.iter().map(|c| (constant(c.name), c.code as u32, c.meaning.to_owned()));
    let dtype = forebay::DType::all().map(|d| {
        let name = format!("FB_{}", d.name().to_uppercase());
        (name, d as u32, format!("{}, {} bytes.", d.name(), d.size()))
    });
    let mut out = read("tests/prelude.h")
        .replace("@VERSION@", &version)
        .replace("@MAX_RANK@", &forebay::limits::RANK.to_string())
        .replace("@NAME_ROOM@", &(forebay::limits::NAME_BYTES + 1).to_string())
        .replace("@UNIT_ROOM@", &(forebay::limits::UNIT_BYTES + 1).to_string())
        .replace("@STATUS@", &table(status))
        .replace("@DTYPE@", &table(dtype));
    for (source, title) in SECTIONS {
        let rule = "-".repeat(86usize.saturating_sub(title.len()));
        out.push_str(&format!("\n/* --- {title} {rule} */\n\n{}\n", section(source).trim()));
    }
    out.push('\n');
    out.push_str(&read("tests/postlude.h").replace("@SIZES@", &sizes()));
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
