//! `forebay services`: what can be called.

use super::out::Out;
use forebay::call::Client;
use forebay::{Code, Error, Result};
use forebay_link::Locator;
use serde_json::json;
use std::path::Path;

/// List the services that servers of this node offer, with their signatures.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  forebay services")]
pub struct Services {
    /// What is no argument of this command, which names the right one.
    #[arg(hide = true)]
    what: Option<String>,
}

/// What to do with something that is given here.
fn another(what: &str) -> String {
    let path = Path::new(what);
    let remedy = if forebay::run_dir(what).is_ok_and(|dir| dir.is_dir()) {
        format!("it is a run: `forebay ls {what}` lists what it holds")
    } else if path.is_file() {
        let idl = if path.extension().is_some_and(|end| end == "fbi") { "--idl " } else { "" };
        format!("`forebay serve {idl}{what}` offers what a file has")
    } else if what.contains("://") || path.exists() {
        format!("`FOREBAY_BROKER={what} forebay services` asks that broker")
    } else {
        "leave it out: all that is offered is listed".to_owned()
    };
    format!("forebay services takes no argument, and {what:?} was given; {remedy}")
}

impl Services {
    /// Does it.
    pub fn run(&self, out: &Out) -> Result<()> {
        if let Some(what) = &self.what {
            return Err(Error::bad(another(what)));
        }
        // Without an agent nothing is offered, and looking starts none.
        let mut is_up = true;
        let found = match Client::connect(Locator::at(None)) {
            Ok(client) => client.services()?,
            Err(e) if e.code() == Code::NoServer && forebay_host::environment::broker().is_none() => {
                is_up = false;
                Vec::new()
            }
            Err(e) => return Err(e),
        };
        if out.json {
            return out.value(&json!(
                found
                    .iter()
                    .map(|s| json!({"name": s.signature.name().as_str(), "signature": s.signature.to_string(), "servers": s.servers}))
                    .collect::<Vec<_>>()
            ));
        }
        if found.is_empty() {
            return out.line(match !is_up && forebay_agent::servers_live() {
                true => "servers live, and no agent is up that they could announce themselves to; `forebay up` starts one",
                false => "no server offers anything; `forebay serve FILE.py` starts one",
            });
        }
        let row = |s: &forebay::call::Service| {
            let mut names: Vec<&str> = s.servers.iter().map(|i| i.name.as_str()).collect();
            names.dedup();
            vec![s.signature.to_string(), s.servers.len().to_string(), names.join(", ")]
        };
        let rows: Vec<Vec<String>> = found.iter().map(row).collect();
        out.table(&["service", "servers", "names"], &rows)
    }
}
