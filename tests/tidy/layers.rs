//! Who may use whom: the table of ARCHITECTURE.md, held against every Cargo.toml.

use crate::judge;
use crate::tree::{files, root};

/// Crates by row, lowest first; each may use what stands behind it, and nothing else of ours.
const TABLE: &[(&str, &[&str])] = &[
    ("crates/types", &[]),
    ("crates/idl", &["types"]),
    ("crates/stubs", &["types", "idl"]),
    ("crates/directives", &["types", "idl"]),
    ("crates/host", &["types"]),
    ("crates/arena", &["types", "host"]),
    ("crates/link", &["types", "host", "arena"]),
    ("crates/broker", &["types"]),
    ("crates/store", &["types", "host", "arena"]),
    ("crates/client", &["types", "host", "arena", "link"]),
    ("crates/server", &["types", "host", "arena", "link"]),
    ("crates/monitor", &["types", "host", "arena"]),
    ("crates/foreign", &["types", "idl", "host", "arena", "server"]),
    ("crates/agent", &["types", "host", "arena", "link", "broker", "store", "monitor"]),
    (
        "crates/forebay",
        &[
            "types",
            "idl",
            "stubs",
            "directives",
            "host",
            "arena",
            "link",
            "broker",
            "store",
            "client",
            "server",
            "foreign",
            "monitor",
            "agent",
        ],
    ),
    ("bindings/c", &["forebay"]),
    ("bindings/python", &["types", "forebay"]),
];

/// Foreign crates that have one home, so that what they stand for has one too.
const HOMES: &[(&str, &[&str], &str)] = &[
    ("tokio", &["crates/monitor", "crates/agent"], "only the page and the agent wait for many peers"),
    ("axum", &["crates/monitor"], "only the monitor speaks HTTP"),
    ("hdf5-metno", &["crates/store"], "only the store knows files of arrays"),
    ("hdf5-metno-sys", &["crates/store"], "only the store knows files of arrays"),
    ("libdeflater", &["crates/store"], "only the store compresses arrays"),
    ("rusqlite", &["crates/store"], "only the store knows the catalog"),
    ("clap", &["crates/forebay"], "only the command line parses options"),
    ("rustls", &["crates/link"], "only the link speaks TLS"),
    ("socket2", &["crates/link"], "only the link sets up sockets of the network"),
    ("rcgen", &["crates/link"], "only the link makes certificates"),
    ("hyper", &["crates/monitor"], "only the monitor speaks HTTP"),
    ("hyper-util", &["crates/monitor"], "only the monitor speaks HTTP"),
    ("ring", &["crates/link", "crates/monitor"], "only the link and the page prove who is who"),
    ("signal-hook", &["crates/forebay"], "only the command line passes signals on"),
    ("libffi", &["crates/foreign"], "only it calls functions of which the compiler knows nothing"),
    (
        "libc",
        &["crates/arena", "crates/host", "crates/foreign", "bindings/c"],
        "only they make calls that have no safe form",
    ),
    ("cbindgen", &["bindings/c"], "only the C library has a header"),
    ("pyo3", &["bindings/python"], "only the binding knows Python"),
    ("numpy", &["bindings/python"], "only the binding knows Python"),
];

/// What the sources of a pure state machine must not name.
const IMPURE: &[&str] = &["std::fs", "std::net", "std::thread", "std::time", "Instant::now", "SystemTime"];

fn manifest(folder: &str) -> toml::Table {
    let path = root().join(folder).join("Cargo.toml");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.parse().unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn dependencies(manifest: &toml::Table) -> Vec<String> {
    let mut names = Vec::new();
    let mut take = |table: &toml::Table| {
        for section in ["dependencies", "build-dependencies"] {
            names.extend(
                table.get(section).and_then(|d| d.as_table()).into_iter().flatten().map(|(n, _)| n.clone()),
            );
        }
    };
    take(manifest);
    for (_, target) in manifest.get("target").and_then(|t| t.as_table()).into_iter().flatten() {
        target.as_table().into_iter().for_each(&mut take);
    }
    names
}

/// `forebay-types` -> `types`; `forebay` itself keeps its name; foreign crates give nothing.
fn ours(name: &str) -> Option<&str> {
    if name == "forebay" { Some(name) } else { name.strip_prefix("forebay-") }
}

#[test]
fn every_crate_uses_lower_rows_only() {
    let mut breaches = Vec::new();
    for (folder, allowed) in TABLE {
        for used in dependencies(&manifest(folder)) {
            if let Some(short) = ours(&used).filter(|short| !allowed.contains(short)) {
                breaches.push(format!(
                    "{folder}/Cargo.toml uses {used}: {folder} must not know {short}; \
                     move what is wanted to a lower row or let the caller hand it in"
                ));
            }
        }
    }
    judge("a crate uses crates of lower rows only (ARCHITECTURE.md):", breaches);
}

#[test]
fn every_crate_stands_in_the_table() {
    let mut breaches = Vec::new();
    for file in files().iter().filter(|f| f.path.ends_with("/Cargo.toml")) {
        let folder = file.path.trim_end_matches("/Cargo.toml");
        let listed = TABLE.iter().any(|(f, _)| *f == folder);
        if !listed
            && (folder.starts_with("crates/") || folder.starts_with("bindings/"))
            && !folder.contains("/fuzz")
        {
            breaches.push(format!(
                "{folder} is not in the table of tests/tidy/layers.rs: give it a row and a reason"
            ));
        }
        if folder.starts_with("crates/")
            && !folder.contains("/fuzz")
            && !file.text.contains("[lints]\nworkspace = true")
        {
            breaches.push(format!("{} lacks `[lints] workspace = true`", file.path));
        }
    }
    judge("every crate has a row, and the lints of the workspace:", breaches);
}

#[test]
fn foreign_crates_stay_in_their_home() {
    let mut breaches = Vec::new();
    for (folder, _) in TABLE {
        for used in dependencies(&manifest(folder)) {
            for (name, homes, why) in HOMES {
                if used == *name && !homes.contains(folder) {
                    breaches.push(format!(
                        "{folder}/Cargo.toml uses {used}: {why}; its home is {}",
                        homes.join(", ")
                    ));
                }
            }
        }
    }
    judge("a foreign crate is used in its home only:", breaches);
}

/// Pure state machines, with what their sources must not name beside the outer world.
const MACHINES: &[(&str, &[&str])] = &[
    ("crates/broker/src/", &[]),
    (
        "crates/agent/src/owner/seats/",
        &["forebay_arena", "forebay_host", "forebay_store", "Process", "Mutex"],
    ),
    ("crates/agent/src/owner/steering/", &["forebay_arena", "forebay_host", "forebay_store", "Mutex"]),
    (
        "crates/store/src/owner/machine/",
        // Of a HashMap the order is another one each time, so a recording would not give the same actions.
        &[
            "rusqlite",
            "rustix",
            "mpsc",
            "forebay_arena",
            "forebay_host",
            "Catalog",
            "disk::",
            "HashMap",
            "HashSet",
        ],
    ),
];

/// Rooms of a crate, with what of its other rooms and of other crates their sources must not name.
const ROOMS: &[(&str, &[&str])] = &[(
    "crates/agent/src/owner/",
    &[
        "crate::ask",
        "crate::directory",
        "crate::door",
        "crate::remote",
        "crate::heart",
        "crate::network",
        "crate::page",
        "crate::rendezvous",
        "use crate::service",
        "crate::start",
        "forebay_broker",
        "forebay_link",
        "forebay_monitor",
    ],
)];

#[test]
fn what_owns_a_run_names_nothing_of_doors_broker_page_and_network() {
    let mut breaches = Vec::new();
    for (folder, others) in ROOMS {
        for file in files().iter().filter(|f| f.path.starts_with(folder)) {
            for (number, line) in file.lines() {
                for word in others.iter().filter(|w| line.contains(**w)) {
                    breaches
                        .push(format!("{}:{number} names {word}: say what it needs in site.rs", file.path));
                }
            }
        }
    }
    judge("what owns runs stands alone:", breaches);
}

#[test]
fn state_machines_name_nothing_of_the_outer_world() {
    let mut breaches = Vec::new();
    for (folder, others) in MACHINES {
        let simulated = format!("{folder}simulation/");
        let sources =
            files().iter().filter(|f| f.path.starts_with(folder) && !f.path.starts_with(&simulated));
        for file in sources {
            for (number, line) in file.lines().filter(|(_, line)| !line.contains("std::time::Duration;")) {
                for word in IMPURE.iter().chain(*others).filter(|w| line.contains(**w)) {
                    breaches.push(format!(
                        "{}:{number} names {word}: let time and the outer world come in as events",
                        file.path
                    ));
                }
            }
        }
    }
    judge("pure state machines:", breaches);
}

/// The ways that frames of calls go. Which one it is, `crates/link/src/call` knows alone.
const TRANSPORTS: &[&str] =
    &["ShmLink", "ShmSender", "ShmReceiver", "StreamSender", "StreamReceiver", "NetSocket"];

#[test]
fn who_calls_and_who_is_called_do_not_ask_by_which_way() {
    let sources = files().iter().filter(|f| f.is(&["rs"]) && f.path.contains("/src/"));
    let product = sources.filter(|f| f.path.starts_with("crates/") || f.path.starts_with("bindings/"));
    let mut breaches = Vec::new();
    for file in product.filter(|f| !f.path.starts_with("crates/link/")) {
        for (number, line) in file.lines() {
            for name in TRANSPORTS.iter().filter(|name| crate::tree::has_word(line, name)) {
                breaches.push(format!(
                    "{}:{number}: {name} is one transport of calls; say what you need of it in crates/link/src/call",
                    file.path
                ));
            }
        }
    }
    judge("one way of calls is as good as the other", breaches);
}

#[test]
fn descriptors_are_waited_for_in_one_place() {
    let home = "crates/host/src/wait.rs";
    let product = files().iter().filter(|f| f.is(&["rs"]) && f.path.contains("/src/") && f.path != home);
    let mut breaches = Vec::new();
    for file in product.filter(|f| f.path.starts_with("crates/") || f.path.starts_with("bindings/")) {
        for (number, line) in file.lines().filter(|(_, line)| crate::tree::has_word(line, "PollFd")) {
            breaches.push(format!("{}:{number} `{}`: use {home}", file.path, line.trim()));
        }
    }
    judge("signals, deadlines and errors of waiting are dealt with once:", breaches);
}
