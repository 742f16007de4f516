//! Words: no promises left open, nothing of the writer's machine, one word for one thing.

use crate::judge;
use crate::tree::{File, files, has_word, root};

const SOURCES: &[&str] = &["rs", "py", "pyi", "ts", "js", "mjs", "c", "h", "f90", "md", "html", "css", "sh"];

/// Marks of work put off, in halves so that this file does not name them itself.
const PROMISES: &[(&str, &str)] = &[
    ("to", "do"),
    ("fix", "me"),
    ("x", "xx"),
    ("place", "holder"),
    ("unimple", "mented!"),
    ("not yet imple", "mented"),
];

/// Hosts of package registries, in halves for the same reason.
const REGISTRIES: &[(&str, &str)] = &[
    ("crates", ".io"),
    ("pypi", ".org"),
    ("npm", "js.org"),
    ("npm", "js.com"),
    ("deb.deb", "ian.org"),
    ("pythonhosted", ".org"),
];

/// One word for one thing: what not to say, and what to say instead.
const VOCABULARY: &[(&str, &str)] = &[
    ("dataset", "data set"),
    ("datasets", "data sets"),
    ("timestep", "step"),
    ("timesteps", "steps"),
    ("daemon", "agent"),
    ("shmem", "shared memory"),
    ("behavior", "behaviour"),
    ("color", "colour"),
    ("colors", "colours"),
    ("neighbor", "neighbour"),
    ("initialize", "initialise"),
    ("serialize", "serialise"),
];

fn is_lock(file: &File) -> bool {
    file.path.ends_with("Cargo.lock") || file.path.ends_with("package-lock.json")
}

#[test]
fn nothing_is_promised_for_later() {
    let mut breaches = Vec::new();
    for file in files().iter().filter(|f| f.is(SOURCES) || f.path.starts_with("scripts/")) {
        for (number, line) in file.lines() {
            let mut low = line.to_lowercase();
            // Part of the name of Sphinx's extension.
            low = low.replace(&["auto", "doc"].concat(), "");
            if file.path.starts_with("web/") {
                // There it is also the name of an attribute of an input field.
                low = low.replace(&["place", "holder:"].concat(), "");
            }
            for (a, b) in PROMISES.iter().filter(|(a, b)| low.contains(&format!("{a}{b}"))) {
                breaches.push(format!(
                    "{}:{number} says {a}{b}: do it now, take it out, or say in the documents what is absent",
                    file.path
                ));
            }
        }
    }
    judge("no mark of unfinished work stands in the tree:", breaches);
}

#[test]
fn no_file_names_the_machine_it_was_written_on() {
    let top = root();
    // The folder that holds this checkout, unless it is too common to mean anything.
    let above = top.parent().map(|p| format!("{}/", p.display())).filter(|p| p.len() > 2 && p != "/tmp/");
    let mut breaches = Vec::new();
    for file in files().iter().filter(|f| !is_lock(f) && f.path != "tests/tidy/words.rs") {
        for (number, line) in file.lines() {
            let home = line
                .split("/home/")
                .nth(1)
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()));
            let here = above.as_ref().is_some_and(|a| line.contains(a.as_str()));
            if here || home || line.contains("/root/") {
                breaches.push(format!(
                    "{}:{number} `{}`: write a path from the root of the tree",
                    file.path,
                    line.trim()
                ));
            }
        }
    }
    judge("no tracked file names a path of somebody's machine:", breaches);
}

#[test]
fn no_file_names_a_package_registry() {
    let mut breaches = Vec::new();
    for file in files().iter().filter(|f| !f.path.ends_with("Cargo.lock")) {
        for (number, line) in file.lines() {
            for (a, b) in REGISTRIES.iter().filter(|(a, b)| line.contains(&format!("{a}{b}"))) {
                breaches.push(format!(
                    "{}:{number} names {a}{b}: name the package and let the client find it \
                     (npm: `npm install --omit-lockfile-registry-resolved`)",
                    file.path
                ));
            }
        }
    }
    judge("no tracked file names a package registry:", breaches);
}

/// The prose of a line: documents without code, and documentation comments.
fn prose<'a>(file: &File, line: &'a str) -> Option<&'a str> {
    let line = line.trim_start();
    match file.path.rsplit('.').next() {
        Some("md") => Some(line),
        Some("rs") => line.strip_prefix("//!").or_else(|| line.strip_prefix("///")),
        _ => None,
    }
}

/// Without what stands in backticks or is the target of a link.
fn spoken(line: &str) -> String {
    let outside: String = line.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    let mut words = String::new();
    let mut rest = outside.as_str();
    while let Some(at) = rest.find("](") {
        words.push_str(&rest[..at]);
        rest = rest[at..].find(')').map_or("", |end| &rest[at + end..]);
    }
    words + rest
}

#[test]
fn one_thing_has_one_word() {
    let mut breaches = Vec::new();
    for file in files().iter().filter(|f| f.is(&["md", "rs"]) && f.path != "tests/tidy/words.rs") {
        let mut fenced = false;
        for (number, line) in file.lines() {
            let Some(text) = prose(file, line) else { continue };
            if text.trim_start().starts_with("```") {
                fenced = !fenced;
            }
            if fenced || line.starts_with("    ") && file.is(&["md"]) {
                continue;
            }
            let text = spoken(text).to_lowercase();
            for (instead_of, say) in VOCABULARY.iter().filter(|(w, _)| has_word(&text, w)) {
                breaches.push(format!("{}:{number} says {instead_of:?}: say {say:?}", file.path));
            }
        }
    }
    judge("one thing has one word, spelt one way:", breaches);
}

/// Whether a text of a program says what to do as the programs of one language write it: an argument by
/// its name, a method of an object, a function of a module.
fn speaks_a_language(text: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let by_name = |at: usize| text[..at].ends_with(letter) && text[at + 1..].starts_with("\\\"");
    let of_an_object = |at: usize| {
        let rest = &text[at + 1..];
        let name = rest.split(|c| !letter(c)).next().unwrap_or("");
        text[..at].ends_with(letter) && !name.is_empty() && rest[name.len()..].starts_with('(')
    };
    let of_ours = |(at, _): (usize, &str)| {
        !text[..at].ends_with(|c| letter(c) || c == '.') && text[at + 3..].starts_with(letter)
    };
    text.match_indices('=').any(|(at, _)| by_name(at))
        || text.match_indices('.').any(|(at, _)| of_an_object(at))
        || text.match_indices("fb.").any(of_ours)
}

/// The string literals that begin and end in a line, as they are written there.
fn literals(line: &str) -> Vec<&str> {
    let (mut found, mut start, mut escaped) = (Vec::new(), None, false);
    for (at, c) in line.char_indices() {
        match c {
            _ if std::mem::take(&mut escaped) => {}
            '\\' => escaped = true,
            '"' if let Some(from) = start.take() => found.push(&line[from..at]),
            '"' => start = Some(at + 1),
            _ => {}
        }
    }
    found
}

#[test]
fn errors_speak_no_programming_language() {
    assert!(speaks_a_language("open it with mode=\\\"a\\\""));
    assert!(speaks_a_language("call run.close() again") && speaks_a_language("use fb.open"));
    assert!(!speaks_a_language("two_stream.fb has mode \\\"a\\\" (`docker run --shm-size=...`)"));
    // The command, and the page's server, speak in languages of their own; stubs are written in those of callers.
    let elsewhere = ["crates/forebay/src/cli/", "crates/monitor/", "crates/stubs/"];
    let mut breaches = Vec::new();
    for file in files().iter().filter(|f| f.is(&["rs"]) && f.path.starts_with("crates/")) {
        if !file.path.contains("/src/") || elsewhere.iter().any(|e| file.path.starts_with(e)) {
            continue;
        }
        for (number, line) in file.lines().take_while(|(_, l)| !l.starts_with("#[cfg(test)]")) {
            let code = !line.trim_start().starts_with("//");
            for text in literals(line).into_iter().filter(|t| code && speaks_a_language(t)) {
                breaches.push(format!(
                    "{}:{number} says {text:?}: callers write in C, Python and others, say it in words",
                    file.path
                ));
            }
        }
    }
    judge("errors tell what to do in words:", breaches);
}

/// Names of types that several files may have: the private half of a type behind a handle, and what is the same thing at
/// the layers of the product (a run of the store's owner, of the page, of the facade, of a binding).
const AT_EVERY_LAYER: &[&str] =
    &["State", "Inner", "Shared", "Run", "Session", "Peer", "Table", "Call", "Request", "Given"];

#[test]
fn a_name_of_a_type_names_few_types() {
    let mut known = std::collections::BTreeMap::<String, Vec<String>>::new();
    let is_product = |path: &str| {
        path.contains("/src/")
            && !path.contains("test")
            && !path.contains("simulation")
            && !path.ends_with("scene.rs")
    };
    for file in files().iter().filter(|f| f.is(&["rs"]) && is_product(&f.path)) {
        for (_, line) in file.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let kind = words.iter().take(3).position(|w| ["struct", "enum", "trait", "union"].contains(w));
            let Some(name) = kind.filter(|_| !line.starts_with(' ')).and_then(|at| words.get(at + 1)) else {
                continue;
            };
            let name: String = name.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            known.entry(name).or_default().push(file.path.clone());
        }
    }
    let many =
        known.into_iter().filter(|(name, of)| of.len() > 3 && !AT_EVERY_LAYER.contains(&name.as_str()));
    let breaches =
        many.map(|(name, of)| format!("{name}: {}; give the others names of their own", of.join(", ")));
    judge("a name of a type stands for few types:", breaches.collect());
}
