//! What the scripts ask Cargo for is there: a test program that was renamed would be missed by nobody until
//! somebody runs the script.

use std::collections::BTreeMap;

use crate::judge;
use crate::tree::{File, files};

/// The value of `key = "value"`.
fn value<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let rest = line.trim().strip_prefix(key)?.trim_start().strip_prefix('=')?;
    Some(rest.trim().trim_matches('"'))
}

/// Names of the programs of one kind, `test` or `bench`, of a package: declared ones, and files that Cargo finds.
fn programs(manifest: &File, kind: &str) -> Vec<String> {
    let folder = manifest.path.trim_end_matches("Cargo.toml");
    let found = format!("{folder}{}/", if kind == "test" { "tests" } else { "benches" });
    let alone = files().iter().filter_map(|f| f.path.strip_prefix(&found)?.strip_suffix(".rs"));
    let mut names: Vec<String> = alone.filter(|n| !n.contains('/')).map(str::to_owned).collect();
    let mut within = "";
    for line in manifest.text.lines() {
        within = if line.starts_with('[') { line.trim() } else { within };
        if within == format!("[[{kind}]]") {
            names.extend(value(line, "name").map(str::to_owned));
        }
    }
    names
}

#[test]
fn the_programs_that_scripts_run_by_cargo_are_there() {
    let manifests: BTreeMap<&str, &File> = files()
        .iter()
        .filter(|f| f.path.ends_with("Cargo.toml"))
        .filter_map(|f| Some((f.text.lines().find_map(|line| value(line, "name"))?, f)))
        .collect();
    let mut breaches = Vec::new();
    let mut asked = 0;
    for file in files().iter().filter(|f| f.path.starts_with("scripts/") || f.path == "Makefile") {
        let text = file.text.replace("\\\n", " ");
        for line in text.lines().filter(|line| line.contains("cargo ")) {
            let words: Vec<&str> = line.split_whitespace().take_while(|word| *word != "--").collect();
            let of = |flag: &str| words.windows(2).filter(|w| w[0] == flag).map(|w| w[1]).collect::<Vec<_>>();
            for package in of("--package") {
                let Some(manifest) = manifests.get(package) else {
                    breaches.push(format!("{}: there is no package {package}", file.path));
                    continue;
                };
                for kind in ["test", "bench"] {
                    for name in of(&format!("--{kind}")) {
                        asked += 1;
                        if !programs(manifest, kind).iter().any(|n| n == name) {
                            breaches.push(format!("{}: {package} has no {kind} {name}", file.path));
                        }
                    }
                }
            }
        }
    }
    assert!(asked > 4, "the scripts ask for tests and benches");
    judge("scripts run programs that are there; name them as they are called now", breaches);
}
