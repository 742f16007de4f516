//! `forebay services`: what can be called.

use super::out::Out;
use forebay::call::Client;
use forebay::{Code, Result};
use forebay_link::Locator;
use serde_json::json;

/// List the services that servers of this node offer, with their signatures.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  forebay services")]
pub struct Services {}

impl Services {
    /// Does it.
    pub fn run(&self, out: &Out) -> Result<()> {
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
