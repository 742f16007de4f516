//! The C library offers what the facade offers, and C++ and Fortran what C does: every public function of a program's way
//! through Forebay has its counterpart by its name, or stands in `spec/api.toml` with another one, or with the reason why it
//! has none.

use std::collections::{BTreeMap, BTreeSet};

use crate::judge;
use crate::tree::{File, files, root};

/// Where the facade's types have their functions, and which types.
const SOURCES: &[(&str, &[&str])] = &[
    ("crates/forebay/src/run.rs", &["", "Run"]),
    ("crates/forebay/src/constants.rs", &["Run"]),
    ("crates/forebay/src/series.rs", &["Run"]),
    ("crates/forebay/src/kept.rs", &["KeptSnapshots", "Kept"]),
    ("crates/forebay/src/table.rs", &["Table"]),
    ("crates/forebay/src/calls.rs", &[""]),
    ("crates/client/src/run/step.rs", &["StepWriter", "Allocated"]),
    ("crates/client/src/run/meshes.rs", &["StepWriter"]),
    ("crates/client/src/run/looping.rs", &["LoopHead"]),
    ("crates/client/src/run/diagram.rs", &["Diagram"]),
    ("crates/client/src/run/steer.rs", &["Parameter"]),
    ("crates/client/src/call/mod.rs", &["Client"]),
    ("crates/client/src/call/direct.rs", &["Client", "Called", "Answer"]),
    ("crates/client/src/call/reference.rs", &["Client", "Reference"]),
    ("crates/client/src/call/bag/mod.rs", &["Client", "Bag", "BagView"]),
    ("crates/client/src/call/future.rs", &["", "Future"]),
    ("crates/client/src/call/failed.rs", &["Client"]),
    ("crates/client/src/call/group.rs", &["Group"]),
    ("crates/client/src/call/watcher.rs", &["Client"]),
    ("crates/forebay/src/host.rs", &["Host"]),
    ("crates/server/src/server.rs", &["Server"]),
    ("crates/server/src/call.rs", &["Call", "Arg"]),
];

/// How the functions of a type begin in C, behind `fb_`.
const BEGINNINGS: &[(&str, &[&str])] = &[
    ("", &[""]),
    ("Run", &["", "run_"]),
    ("KeptSnapshots", &["snapshot_"]),
    ("Kept", &["snapshot_"]),
    ("StepWriter", &["snapshot_"]),
    ("Table", &["table_"]),
    ("Diagram", &["diagram_"]),
    ("Client", &[""]),
    ("Future", &[""]),
    ("Bag", &["bag_"]),
    ("Group", &["group_"]),
    ("BagView", &["bag_"]),
    ("Reference", &["ref_"]),
    ("Host", &["", "server_", "service_"]),
    ("Server", &["server_"]),
    ("Call", &["request_"]),
    ("Arg", &["request_"]),
];

/// What the rules of names do not say.
const API: &str = "spec/api.toml";

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// The public functions of some types ("" for those of no type) in a source, as `Type::function`.
fn public(source: &str, types: &[&str]) -> Vec<String> {
    let (mut found, mut within) = (Vec::new(), "");
    for line in read(source).lines().take_while(|l| !l.starts_with("#[cfg(test)]")) {
        if let Some(rest) = line.strip_prefix("impl") {
            // impl<'a> Name<'a> {  or  impl Trait for Name {, whose functions are not `pub`.
            let rest =
                if rest.starts_with('<') { rest.split_once("> ").map_or("", |(_, r)| r) } else { rest };
            within = rest.trim_start().split(['<', ' ']).next().unwrap_or("");
            within = types.iter().find(|t| **t == within).map_or("-", |t| t);
        } else if line == "}" {
            within = "";
        }
        let function =
            if within.is_empty() { line.strip_prefix("pub fn ") } else { line.strip_prefix("    pub fn ") };
        let Some(function) = function.filter(|_| types.contains(&within)) else { continue };
        let name = function.split(['(', '<']).next().unwrap_or("");
        found.push(if within.is_empty() { name.to_owned() } else { format!("{within}::{name}") });
    }
    found
}

/// The functions that the header declares.
fn declared() -> BTreeSet<String> {
    let header = read("bindings/c/include/forebay.h");
    let after = |line: &str, start: &str| Some(line.strip_prefix(start)?.split('(').next()?.to_owned());
    let starts = ["fb_status ", "int ", "const char *"];
    let found = header.lines().filter_map(|l| starts.iter().find_map(|s| after(l, s)));
    found.filter(|name| name.starts_with("fb_")).collect()
}

/// A table of the list: names, and what is said of each.
fn listed(table: &str) -> BTreeMap<String, String> {
    let list: toml::Table = read(API).parse().unwrap();
    let found = table.split('.').fold(&toml::Value::Table(list), |at, word| &at[word]).clone();
    found.try_into().unwrap_or_else(|e| panic!("{API}, [{table}]: {e}"))
}

/// The counterparts in C that the rule finds.
fn by_name<'a>(offered: &str, declared: &'a BTreeSet<String>) -> Option<&'a String> {
    let (of, function) = offered.split_once("::").unwrap_or(("", offered));
    let begins = BEGINNINGS.iter().find(|(name, _)| *name == of).map_or(&[][..], |(_, begins)| begins);
    begins.iter().find_map(|begin| declared.get(&format!("fb_{begin}{function}")))
}

#[test]
fn everything_the_facade_offers_is_in_the_header_or_has_a_reason_not_to_be() {
    let offered: BTreeSet<String> =
        SOURCES.iter().flat_map(|(source, types)| public(source, types)).collect();
    let (counterparts, without, declared) =
        (listed("facade.counterparts"), listed("facade.without"), declared());
    let known = |name: &String| counterparts.contains_key(name) || without.contains_key(name);
    let new = offered.iter().filter(|name| !known(name) && by_name(name, &declared).is_none());
    let mut breaches: Vec<String> = new
        .map(|name| format!("{name} has no counterpart in C; give it one, or a reason in {API}"))
        .collect();
    let listed = counterparts.keys().chain(without.keys());
    let gone = listed.filter(|name| !offered.contains(*name));
    breaches.extend(gone.map(|name| format!("{name} is no longer offered; take it out of {API}")));
    for (name, theirs) in &counterparts {
        let missing = theirs.split(' ').filter(|theirs| !declared.contains(*theirs));
        breaches.extend(missing.map(|theirs| format!("{name}: the header has no {theirs}; mend {API}")));
        if by_name(name, &declared) == Some(theirs) {
            breaches.push(format!("{name} is {theirs} by its name; take it out of {API}"));
        }
    }
    for (source, types) in SOURCES {
        for name in types.iter().filter(|t| !t.is_empty()) {
            if !public(source, types).iter().any(|f| f.starts_with(&format!("{name}::"))) {
                breaches
                    .push(format!("{source} has no functions of {name} any more; mend the list of sources"));
            }
        }
    }
    judge("what the facade offers is in C:", breaches);
}

/// The words `fb_...` of the sources whose paths are so, of the lines that are taken.
fn words(of: impl Fn(&File) -> bool, taken: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let statements = files().iter().filter(|f| of(f)).map(|f| f.text.replace("&\n", " "));
    let lines: Vec<String> =
        statements.flat_map(|t| t.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    let named = lines.iter().filter(|line| taken(line.trim()));
    let split = named.flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
    split.filter(|word| word.starts_with("fb_")).map(str::to_owned).collect()
}

#[test]
fn every_function_of_the_header_is_in_cplusplus_and_in_fortran_or_has_a_reason_not_to_be() {
    let declared = declared();
    assert!(declared.len() > 100, "the header was not understood: {declared:?}");
    let cpp = words(|f| f.path.starts_with("bindings/c/include/forebay/"), |line| !line.starts_with("//"));
    let fortran =
        words(|f| f.path.starts_with("bindings/fortran/src/"), |line| line.starts_with("public ::"));
    let (generic, none) = (listed("fortran.generic"), BTreeMap::new());
    let mut breaches = Vec::new();
    for (language, offered, elsewhere) in [("cpp", &cpp, &none), ("fortran", &fortran, &generic)] {
        let without = listed(&format!("{language}.without"));
        for name in &declared {
            let (there, reason) =
                (offered.contains(elsewhere.get(name).unwrap_or(name)), without.contains_key(name));
            if !there && !reason {
                breaches.push(format!("{name} is not in {language}; write it, or a reason in {API}"));
            }
            if there && reason {
                breaches.push(format!("{name} is in {language}; take its reason out of {API}"));
            }
        }
        let gone = without.keys().chain(elsewhere.keys()).filter(|name| !declared.contains(*name));
        breaches.extend(gone.map(|name| format!("{name} is not in the header; take it out of {API}")));
    }
    judge("each language has what the header has:", breaches);
}

#[test]
fn every_error_code_is_in_the_header_with_its_number() {
    let header = read("bindings/c/include/forebay.h");
    let table: toml::Table = read("spec/errors.toml").parse().unwrap();
    let codes = table["code"].as_array().unwrap();
    assert!(codes.len() >= 16);
    for code in codes {
        let name: String = code["name"].as_str().unwrap().chars().fold("FB".into(), |mut out, c| {
            if c.is_uppercase() {
                out.push('_');
            }
            out.extend(c.to_uppercase());
            out
        });
        let line = format!("    {name} = {},", code["number"].as_integer().unwrap());
        assert!(header.contains(&line), "the header has no line {line:?}");
        assert!(header.contains(code["meaning"].as_str().unwrap()), "{name} has another meaning there");
    }
}
