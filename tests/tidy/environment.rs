//! Environment variables: named in one file, read through it, and told in one table.

use std::collections::BTreeSet;

use crate::judge;
use crate::tree::{File, files};

/// Where they are named.
const HOME: &str = "crates/host/src/environment.rs";
/// Sources that are built for tests only; what they read is for who works on them.
const OF_TESTS: &[&str] = &["crates/arena/src/models.rs", "/simulation/"];

/// The names in a text that stand between two marks.
fn names(text: &str, mark: char) -> BTreeSet<&str> {
    let is_name = |word: &&str| {
        word.strip_prefix("FOREBAY_")
            .is_some_and(|rest| rest.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
    };
    text.split(mark).filter(is_name).collect()
}

fn file(path: &str) -> &'static File {
    files().iter().find(|f| f.path == path).unwrap_or_else(|| panic!("{path} is tracked"))
}

#[test]
fn the_table_of_variables_and_the_names_in_the_sources_agree() {
    let named = names(&file(HOME).text, '"');
    let rows = file("CONTRIBUTING.md").text.lines().filter(|line| line.starts_with("| `FOREBAY_"));
    let told: BTreeSet<&str> =
        rows.flat_map(|row| names(row.split(" | ").next().unwrap_or(row), '`')).collect();
    let mut breaches = Vec::new();
    for name in named.difference(&told) {
        breaches.push(format!("{HOME} names {name}: say in the table of CONTRIBUTING.md what it is for"));
    }
    for name in told.difference(&named) {
        breaches.push(format!("CONTRIBUTING.md tells of {name}, which {HOME} does not name"));
    }
    for guide in files().iter().filter(|f| f.path.starts_with("docs/guide/") && f.is(&["md"])) {
        for name in names(&guide.text, '`').difference(&named) {
            breaches.push(format!("{} tells of {name}, which {HOME} does not name", guide.path));
        }
    }
    assert!(named.len() > 10, "{named:?}");
    judge("environment variables stand in one table:", breaches);
}

#[test]
fn variables_are_read_by_the_names_of_that_table() {
    let mut breaches = Vec::new();
    let product = |f: &&File| {
        let ours = f.path.starts_with("crates/") || f.path.starts_with("bindings/");
        ours && f.path.contains("/src/") && f.is(&["rs"]) && f.path != HOME
    };
    for file in files().iter().filter(product).filter(|f| !OF_TESTS.iter().any(|p| f.path.contains(p))) {
        for (number, line) in file.lines().filter(|(_, line)| !line.contains("env!(")) {
            for name in names(line, '"') {
                breaches.push(format!("{}:{number} spells {name}: name it in {HOME}", file.path));
            }
        }
    }
    judge("an environment variable is spelt once:", breaches);
}
