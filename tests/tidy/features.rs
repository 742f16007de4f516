//! docs/features.md: every feature the project set itself, its state, the test that shows it and
//! the page that explains it. A name in that table is a promise, so it is looked up.

use crate::documents::leads_somewhere;
use crate::judge;
use crate::tree::{files, has_word, root};

const PAGE: &str = "docs/features.md";

/// How many features each part has: A1 to A10, B1 to B20 and so on.
const PARTS: &[(char, u32)] = &[
    ('A', 10),
    ('B', 20),
    ('C', 13),
    ('D', 12),
    ('E', 16),
    ('F', 18),
    ('G', 9),
    ('H', 7),
    ('I', 11),
    ('J', 8),
    ('K', 11),
    ('L', 20),
];

struct Row {
    number: usize,
    id: String,
    state: String,
    tests: Vec<String>,
    page: String,
}

/// A row of the table is a line `| id | feature | state | tests | page |`.
fn rows() -> Vec<Row> {
    let file = files().iter().find(|f| f.path == PAGE).unwrap_or_else(|| panic!("{PAGE} is not tracked"));
    let mut rows = Vec::new();
    for (number, line) in file.lines() {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        let is_id = |t: &str| {
            let mut letters = t.chars();
            letters.next().is_some_and(|c| ('A'..='L').contains(&c))
                && t.len() > 1
                && letters.all(|c| c.is_ascii_digit())
        };
        if let [id, _, state, tests, page] = cells[..]
            && is_id(id)
        {
            let tests = tests.split('`').skip(1).step_by(2).map(str::to_owned).collect();
            rows.push(Row { number, id: id.into(), state: state.into(), tests, page: page.into() });
        }
    }
    rows
}

#[test]
fn every_feature_has_exactly_one_row() {
    let rows = rows();
    let mut breaches = Vec::new();
    for (part, last) in PARTS {
        for n in 1..=*last {
            let id = format!("{part}{n}");
            match rows.iter().filter(|r| r.id == id).count() {
                1 => (),
                0 => breaches.push(format!("{id} has no row: add one, with state `absent` if need be")),
                n => breaches.push(format!("{id} has {n} rows: keep one")),
            }
        }
    }
    let all: u32 = PARTS.iter().map(|(_, n)| n).sum();
    if rows.len() != all as usize && breaches.is_empty() {
        breaches.push(format!("{} rows for {all} features: some id is not one of ours", rows.len()));
    }
    judge(&format!("{PAGE} has one row a feature:"), breaches);
}

/// `path::name`: the file is there and defines a test of that name.
fn exists(test: &str) -> Result<(), String> {
    let (path, name) = test.split_once("::").ok_or("write it as `path::name`")?;
    let text = std::fs::read_to_string(root().join(path)).map_err(|_| format!("there is no file {path}"))?;
    let found = match path.rsplit('.').next() {
        Some("rs") => text.lines().any(|l| has_word(l, &format!("fn {name}"))),
        Some("py") => text.lines().any(|l| l.trim_start().starts_with(&format!("def {name}("))),
        _ => ['"', '\'', '`'].iter().any(|q| text.contains(&format!("{q}{name}{q}"))),
    };
    if found { Ok(()) } else { Err(format!("{path} has no test {name}")) }
}

#[test]
fn every_test_that_a_feature_names_exists() {
    let mut breaches = Vec::new();
    for row in rows() {
        for test in &row.tests {
            if let Err(why) = exists(test) {
                breaches.push(format!("{PAGE}:{} {}: `{test}`: {why}", row.number, row.id));
            }
        }
    }
    judge("every test named in the table of features exists:", breaches);
}

#[test]
fn what_is_done_has_a_test_and_a_page() {
    let mut breaches = Vec::new();
    for row in rows() {
        let place = format!("{PAGE}:{} {}", row.number, row.id);
        match row.state.as_str() {
            "absent" if row.tests.is_empty() => continue,
            "absent" => breaches.push(format!("{place} is absent but names a test: say `partly`")),
            "done" | "partly" => (),
            other => breaches.push(format!("{place} has the state {other:?}: say done, partly or absent")),
        }
        if row.tests.is_empty() {
            breaches.push(format!("{place} is {} without a test: name one as `path::name`", row.state));
        }
        let link = row.page.split("](").nth(1).and_then(|rest| rest.split(')').next());
        match link {
            None => breaches.push(format!("{place} has no page: link the one that explains it")),
            Some(link) => {
                if let Err(why) = leads_somewhere(PAGE, link) {
                    breaches.push(format!("{place} points at {link}: {why}"));
                }
            }
        }
    }
    judge("what is done or partly done has a test and a page:", breaches);
}
