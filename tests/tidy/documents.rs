//! Documents: what they point at exists, what they tell people to type works.

use std::path::Path;

use crate::judge;
use crate::tree::{File, files, root};

fn documents() -> impl Iterator<Item = &'static File> {
    files().iter().filter(|f| f.is(&["md"]))
}

/// Targets of the links of one line.
fn targets(line: &str) -> Vec<&str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect()
}

/// The anchor a heading gets.
pub fn anchor(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    words
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// Whether a link from a document leads to a file that is there, and to a heading of it.
pub fn leads_somewhere(document: &str, target: &str) -> Result<(), String> {
    let (file, heading) = target.split_once('#').map_or((target, None), |(f, h)| (f, Some(h)));
    let folder = root().join(document).parent().map(Path::to_owned).unwrap_or_default();
    let path = if file.is_empty() { root().join(document) } else { folder.join(file) };
    if !path.exists() {
        return Err(format!("there is no {file}"));
    }
    let Some(heading) = heading else { return Ok(()) };
    let text = std::fs::read_to_string(&path).map_err(|e| e.to_string())?;
    match text.lines().any(|l| l.starts_with('#') && anchor(l) == heading) {
        true => Ok(()),
        false => Err(format!("{file} has no heading #{heading}")),
    }
}

#[test]
fn every_link_leads_somewhere() {
    let mut breaches = Vec::new();
    for file in documents() {
        for (number, line) in file.lines() {
            for target in targets(line).into_iter().filter(|t| !t.contains("://")) {
                if let Err(why) = leads_somewhere(&file.path, target) {
                    breaches.push(format!(
                        "{}:{number} points at {target:?}: {why}; mend the link or write the page",
                        file.path
                    ));
                }
            }
        }
    }
    judge("every link of a document leads somewhere:", breaches);
}

#[test]
fn every_make_target_in_a_document_exists() {
    let makefile = std::fs::read_to_string(root().join("Makefile")).expect("there is a Makefile");
    let mut breaches = Vec::new();
    for file in documents() {
        for (number, line) in file.lines() {
            let typed = line.strip_prefix("    make ").into_iter().chain(line.split("`make ").skip(1));
            for rest in typed {
                let target: String = rest.chars().take_while(|c| c.is_ascii_lowercase()).collect();
                if !target.is_empty() && !makefile.lines().any(|l| l.starts_with(&format!("{target}:"))) {
                    breaches.push(format!(
                        "{}:{number} says `make {target}`, which the Makefile lacks",
                        file.path
                    ));
                }
            }
        }
    }
    judge("every make target that a document names exists:", breaches);
}

#[test]
fn the_documents_of_the_house_are_there() {
    const WANTED: &[&str] = &[
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "LICENSE-APACHE",
        "LICENSE-MIT",
        "docs/features.md",
        "spec/errors.toml",
        "spec/wire.md",
        "spec/run-format.md",
        "spec/monitor.md",
        "spec/directives.md",
    ];
    let absent = WANTED.iter().filter(|w| !files().iter().any(|f| f.path == **w));
    judge("the documents of the house are tracked:", absent.map(|w| format!("{w} is not there")).collect());
}

#[test]
fn a_heading_has_the_anchor_that_links_use() {
    assert_eq!(anchor("## What it is, for whom"), "what-it-is-for-whom");
}
