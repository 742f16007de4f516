//! `forebay status --services`: what each service has done, and how long it took.

use super::out::Out;
use forebay::{Code, Result};
use forebay_link::Locator;
use forebay_types::directory::BrokerRequest;
use forebay_types::usage::Usage;
use forebay_types::{Error, counted};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

/// An agent that does not answer for so long is said to be busy.
const PATIENCE: Duration = Duration::from_secs(5);

/// Shows it.
pub fn show(out: &Out) -> Result<()> {
    let used = ask()?;
    if out.json {
        return out.value(&used.iter().map(|(name, usage)| machine(name, usage)).collect());
    }
    if used.is_empty() {
        return out.line("no service has been called, or no server has told of it yet, which takes a second");
    }
    let rows: Vec<Vec<String>> = used.iter().map(|(name, usage)| row(name, usage)).collect();
    out.table(&["service", "calls", "failed", "mean", "p50", "p99", "waiting"], &rows)?;
    let estimated = used.values().filter(|usage| usage.is_estimated()).count();
    match estimated {
        0 => Ok(()),
        n => out.line(format!("~ {} of short calls: the time of each 16th is read", counted(n, "service"))),
    }
}

/// What the broker of this node knows; without one nothing was called, and looking starts none.
fn ask() -> Result<BTreeMap<String, Usage>> {
    let mut wire = match Locator::at(None).connect("client", PATIENCE) {
        Ok(wire) => wire,
        Err(e) if matches!(e.code(), Code::NotFound | Code::ServerLost | Code::NoServer) => {
            return Ok(BTreeMap::new());
        }
        Err(e) => return Err(e),
    };
    let answer = wire.ask_with(&BrokerRequest::Usage, &[], PATIENCE)?.0;
    serde_json::from_value(answer).map_err(|e| {
        Error::new(Code::Corrupt, format!("the agent tells of services what is not understood: {e}"))
    })
}

fn machine(name: &str, usage: &Usage) -> serde_json::Value {
    json!({
        "name": name, "calls": usage.calls, "failed": usage.failed, "estimated": usage.is_estimated(),
        "mean_s": usage.mean(), "p50_s": usage.quantile(0.5), "p99_s": usage.quantile(0.99), "waiting": usage.waiting(),
    })
}

fn row(name: &str, usage: &Usage) -> Vec<String> {
    let about = if usage.is_estimated() { "~" } else { "" };
    let time = |s: Option<f64>| s.map_or("-".to_owned(), |s| format!("{about}{}", duration(s)));
    let waiting = usage.waiting().map_or("-".to_owned(), |share| format!("{about}{:.0} %", 100.0 * share));
    vec![
        name.to_owned(),
        format!("{about}{}", usage.calls),
        usage.failed.to_string(),
        time(usage.mean()),
        time(usage.quantile(0.5)),
        time(usage.quantile(0.99)),
        waiting,
    ]
}

/// Three digits and a unit.
fn duration(seconds: f64) -> String {
    let (number, unit) = match seconds {
        s if s < 1e-6 => (s * 1e9, "ns"),
        s if s < 1e-3 => (s * 1e6, "us"),
        s if s < 1.0 => (s * 1e3, "ms"),
        s => (s, "s"),
    };
    match number {
        n if n < 10.0 => format!("{n:.2} {unit}"),
        n if n < 100.0 => format!("{n:.1} {unit}"),
        n => format!("{n:.0} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_what_is_estimated_and_durations_have_three_digits() {
        let mut usage = Usage::default();
        usage.count(1, Some(1_000_000), 3_000_000);
        assert_eq!(
            row("f", &usage),
            ["f", "1", "0", "3.00 ms", "2.97 ms", "4.17 ms", "25 %"].map(|s| s.to_owned())
        );
        usage.count(16, None, 700);
        assert_eq!(row("f", &usage)[1..4], ["~17", "0", "~177 us"].map(|s| s.to_owned()));
        let words: Vec<String> = [4.2e-8, 9.99e-6, 0.0123, 0.25, 61.0].map(duration).into();
        assert_eq!(words, ["42.0 ns", "9.99 us", "12.3 ms", "250 ms", "61.0 s"]);
        assert_eq!(row("g", &Usage::default())[3..], ["-", "-", "-", "-"].map(|s| s.to_owned()));
    }
}
