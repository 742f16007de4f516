//! The C library offers what the facade offers: every public function of a program's way through Forebay
//! has its counterpart in `forebay.h`, or stands here with the reason why it has none.

use std::collections::BTreeSet;

use crate::tree::root;

/// Where the facade's types have their functions, and which types.
const SOURCES: &[(&str, &[&str])] = &[
    ("crates/forebay/src/run.rs", &["", "Run"]),
    ("crates/forebay/src/kept.rs", &["KeptSnapshots", "Kept"]),
    ("crates/forebay/src/table.rs", &["Table"]),
    ("crates/forebay/src/calls.rs", &[""]),
    ("crates/client/src/run/step.rs", &["StepWriter", "Allocated"]),
    ("crates/client/src/run/looping.rs", &["LoopHead"]),
    ("crates/client/src/run/diagram.rs", &["Diagram"]),
    ("crates/client/src/run/steer.rs", &["Parameter"]),
    ("crates/client/src/call/mod.rs", &["Client"]),
    ("crates/client/src/call/reference.rs", &["Client", "Reference"]),
    ("crates/client/src/call/future.rs", &["", "Future"]),
    ("crates/forebay/src/host.rs", &["Host"]),
    ("crates/server/src/server.rs", &["Server"]),
    ("crates/server/src/call.rs", &["Call", "Arg"]),
];

/// Counterparts in C: `Type::function` and what does the same.
const COUNTERPARTS: &[(&str, &str)] = &[
    ("open", "fb_run_open"),
    ("connect", "fb_connect"),
    ("Run::path", "fb_path"),
    ("Run::rank_and_size", "fb_rank"),
    ("Run::read_only", "fb_is_read_only"),
    ("Run::put", "fb_put fb_put_with"),
    ("Run::put_if_version", "fb_put_if_version"),
    ("Run::get", "fb_get fb_get_part"),
    ("Run::dataset", "fb_dataset_info"),
    ("Run::list", "fb_list"),
    ("Run::delete", "fb_delete"),
    ("Run::rename", "fb_rename"),
    ("Run::copy", "fb_copy"),
    ("Run::attrs", "fb_attr_get_f64 fb_attr_get_i64 fb_attr_get_str fb_attr_get_json fb_attr_has"),
    ("Run::set_attrs", "fb_attr_set_f64 fb_attr_set_i64 fb_attr_set_str fb_attr_set_json fb_attr_delete"),
    ("Run::table", "fb_table_open fb_table_free"),
    ("Run::tables", "fb_tables"),
    (
        "Run::sql",
        "fb_sql fb_rows_free fb_rows_count fb_rows_name fb_rows_f64 fb_rows_i64 fb_rows_u64 fb_rows_str",
    ),
    ("Run::snapshot", "fb_snapshot_begin fb_snapshot_free"),
    ("Run::snapshots", "fb_snapshots"),
    ("Run::last_snapshot", "fb_snapshot_last"),
    ("Run::restart", "fb_restart"),
    ("Run::restart_strict", "fb_restart"),
    ("Run::drop_step", "fb_drop"),
    ("Run::restart_from", "fb_restart_from"),
    ("Run::checkpoint", "fb_checkpoint"),
    ("Run::checkpoints", "fb_checkpoints"),
    ("Run::flush", "fb_flush"),
    ("Run::stats", "fb_run_stats"),
    ("Run::steps", "fb_step fb_steps_from"),
    ("Run::steps_with", "fb_steps_with"),
    ("Run::position", "fb_position"),
    ("Run::ended_by", "fb_ended_by"),
    ("Run::diagram", "fb_diagram_open fb_diagram_free"),
    ("Run::parameter", "fb_parameter_f64 fb_parameter_i64 fb_parameter_bool fb_parameter_str"),
    ("Run::saves", "fb_on_save"),
    ("Run::saves_every", "fb_on_save"),
    ("Run::reach", "fb_reach"),
    ("Run::finish", "fb_finish"),
    ("Run::command", "fb_on_command"),
    ("Run::message", "fb_message"),
    ("Run::monitor", "fb_monitor fb_monitor_url"),
    ("Run::close", "fb_run_close"),
    ("Run::close_as", "fb_run_close_unfinished"),
    ("KeptSnapshots::numbers", "fb_snapshots"),
    ("KeptSnapshots::len", "fb_snapshots"),
    ("KeptSnapshots::is_empty", "fb_snapshots"),
    ("KeptSnapshots::at", "fb_snapshot_at"),
    ("KeptSnapshots::last", "fb_snapshot_last"),
    ("Kept::step", "fb_snapshot_step"),
    ("Kept::time", "fb_snapshot_step"),
    ("Kept::nbytes", "fb_snapshot_step"),
    ("Kept::parameters", "fb_snapshot_parameters"),
    ("Kept::names", "fb_snapshot_names"),
    ("Kept::dataset", "fb_snapshot_info"),
    ("Kept::get", "fb_snapshot_get fb_snapshot_get_part"),
    ("Table::columns", "fb_table_columns"),
    ("Table::insert", "fb_table_insert"),
    ("Table::select", "fb_table_select"),
    ("Table::update", "fb_table_update"),
    ("Table::delete", "fb_table_delete"),
    ("Table::len", "fb_table_count"),
    ("Table::is_empty", "fb_table_count"),
    ("StepWriter::taken", "fb_snapshot_taken"),
    ("StepWriter::put", "fb_snapshot_put fb_snapshot_put_with"),
    ("StepWriter::allocate", "fb_snapshot_allocate"),
    ("StepWriter::end", "fb_snapshot_end"),
    ("StepWriter::discard", "fb_snapshot_discard"),
    ("StepWriter::wait", "fb_snapshot_wait"),
    ("Allocated::as_mut_ptr", "fb_snapshot_allocate"),
    ("LoopHead::next", "fb_step"),
    ("LoopHead::at_once", "fb_step"),
    ("Diagram::wants", "fb_diagram_wants"),
    ("Diagram::update", "fb_curve_update"),
    ("Diagram::append", "fb_history_append"),
    ("Client::call", "fb_call fb_call_within"),
    ("Client::call_untimed", "fb_call"),
    ("Client::call_untimed_with", "fb_call"),
    ("Client::call_async", "fb_call_async"),
    ("Client::call_async_with", "fb_call_async"),
    ("Client::handing_over", "fb_call_async_as"),
    ("Client::patience", "fb_patience"),
    ("Client::services", "fb_services"),
    ("Client::signature", "fb_signature"),
    ("Client::array", "fb_ref_create"),
    ("Client::put", "fb_ref_create"),
    ("Reference::meta", "fb_ref_info"),
    ("Reference::server", "fb_ref_server"),
    ("Reference::put", "fb_ref_put fb_ref_put_part"),
    ("Reference::get", "fb_ref_get fb_ref_get_part"),
    ("Reference::read", "fb_ref_get fb_ref_get_part"),
    ("Reference::kill", "fb_ref_kill"),
    ("Future::wait", "fb_wait"),
    ("Future::done", "fb_probe"),
    ("Future::cancel", "fb_cancel"),
    ("Future::canceller", "fb_cancel"),
    ("Future::timing", "fb_call_timing"),
    ("wait_all", "fb_wait_all"),
    ("wait_any", "fb_wait_any"),
    ("probe_any", "fb_probe_any"),
    ("cancel_all", "fb_cancel_all"),
    ("Server::new", "fb_server_create"),
    ("Server::workers", "fb_server_create"),
    ("Server::memory", "fb_server_create"),
    ("Server::listen", "fb_server_create"),
    ("Server::add", "fb_service_register"),
    ("Server::start", "fb_server_start fb_serve"),
    ("Server::service", "fb_service_register"),
    ("Host::new", "fb_server_create"),
    ("Host::add", "fb_service_register"),
    ("Host::remove", "fb_service_remove"),
    ("Host::start", "fb_server_start"),
    ("Host::serve", "fb_serve"),
    ("Host::load", "fb_load"),
    ("Host::trouble", "fb_server_trouble"),
    ("Host::stop", "fb_server_stop fb_server_free"),
    ("Call::signature", "fb_request_signature"),
    ("Call::len", "fb_request_count"),
    ("Call::is_empty", "fb_request_count"),
    ("Call::arg", "fb_request_array fb_request_scalar"),
    ("Call::cancelled", "fb_request_cancelled"),
    ("Arg::scalar", "fb_request_scalar"),
    ("Arg::f64", "fb_request_f64"),
    ("Arg::i64", "fb_request_i64"),
    ("Arg::set", "fb_request_set_f64 fb_request_set_i64 fb_request_set_scalar"),
    ("Arg::str", "fb_request_str"),
    ("Arg::bytes", "fb_request_bytes"),
    ("Arg::set_str", "fb_request_set_str"),
    ("Arg::set_bytes", "fb_request_set_bytes"),
    ("Arg::meta", "fb_request_array fb_request_order"),
    ("Arg::array", "fb_request_array"),
    ("Arg::view", "fb_request_array"),
];

/// What has no counterpart, and why.
const WITHOUT: &[(&str, &str)] = &[
    ("broker_at", "for what a server in Python says of itself; C gives the broker's path to each"),
    ("locator", "for servers and clients made in Rust; C gives the broker's path to each"),
    ("Run::get_many", "C gives the memory of each array itself, with fb_get"),
    ("Run::closed", "a closed run's handle answers FB_CLOSED"),
    (
        "Run::unwritten",
        "for interpreters, which have a standard error of their own; C says it at the opening",
    ),
    ("in_memory", "the words of Run::unwritten and of the command"),
    ("Run::abandon", "for interpreters that end on Ctrl-C; C ends by the signal itself"),
    ("Run::interrupted", "as Run::abandon"),
    ("Run::looped", "for interpreters that end by an error; a C program that does has not closed the run"),
    ("Run::on_late", "for interpreters, which have warnings of their own; C says it in fb_open_opts.late"),
    ("Run::on_wait", "for interpreters, which look for Ctrl-C while a call waits; C has signals"),
    ("KeptSnapshots::nth", "counting from the end is an index into what fb_snapshots gives"),
    ("Table::name", "the program gave it"),
    ("Table::history", "the program gave it"),
    ("StepWriter::step", "the program gave it"),
    (
        "StepWriter::is_open",
        "for Python, which warns when the last name of one is gone; C frees it in so many words",
    ),
    ("Allocated::meta", "the program gave it"),
    ("Allocated::len", "the program gave the shape"),
    ("Allocated::is_empty", "the program gave the shape"),
    ("Allocated::write_at", "C writes through the pointer"),
    ("Diagram::declaration", "the program gave it"),
    ("Parameter::name", "the program gave it"),
    ("Parameter::value", "the variable of the program holds it"),
    ("Parameter::number", "the variable of the program holds it"),
    ("Parameter::declaration", "the program gave it"),
    ("Client::connect", "made by fb_connect"),
    ("Client::on_wait", "for interpreters, as of a run"),
    ("Future::has_news", "for threads that watch calls; C asks with fb_probe"),
    ("Future::is_under_way", "as that"),
    ("Reference::shape_of", "the program gives the part's shape itself"),
    ("Host::ask_to_stop", "fb_server_stop, from any thread; for interpreters, whose handlers must not wait"),
    ("Call::param", "fb_request_signature tells it"),
    ("Call::args", "C takes parameters one by one"),
    ("Call::all", "C takes parameters one by one"),
    ("Arg::param", "fb_request_signature tells it"),
    ("Arg::keeper", "for views that outlive a call in garbage-collected languages"),
];

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

#[test]
fn everything_the_facade_offers_is_in_the_header_or_has_a_reason_not_to_be() {
    let offered: BTreeSet<String> =
        SOURCES.iter().flat_map(|(source, types)| public(source, types)).collect();
    let known: BTreeSet<&str> = COUNTERPARTS.iter().chain(WITHOUT).map(|(name, _)| *name).collect();
    let new: Vec<&String> = offered.iter().filter(|name| !known.contains(name.as_str())).collect();
    assert!(new.is_empty(), "give these a counterpart in C, or a reason, in this test: {new:?}");
    let gone: Vec<&&str> = known.iter().filter(|name| !offered.contains(**name)).collect();
    assert!(gone.is_empty(), "these are no longer offered; take them out of this test: {gone:?}");
    for (source, types) in SOURCES {
        for name in types.iter().filter(|t| !t.is_empty()) {
            let any = public(source, types).iter().any(|f| f.starts_with(&format!("{name}::")));
            assert!(any, "{source} has no functions of {name} any more; mend the list of sources");
        }
    }
}

#[test]
fn every_counterpart_is_declared() {
    let declared = declared();
    assert!(declared.len() > 100, "the header was not understood: {declared:?}");
    for (offered, names) in COUNTERPARTS {
        for name in names.split(' ') {
            assert!(declared.contains(name), "{offered}: the header has no {name}");
        }
    }
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
