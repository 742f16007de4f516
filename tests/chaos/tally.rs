//! What was done and found, counted, and how it is told at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

/// The blows of one kind in one scene.
#[derive(Default)]
struct Row {
    went_on: u64,
    restarted: u64,
    told: u64,
    slowest_ms: u64,
}

/// Something that must not be.
struct Fault {
    kind: &'static str,
    text: String,
}

/// Everything so far.
#[derive(Default)]
pub struct Tally {
    rows: BTreeMap<(String, String), Row>,
    tongues: BTreeMap<String, u64>,
    faults: Vec<Fault>,
    /// Lines of the round that is played.
    lines: Vec<String>,
    pub blows: u64,
    kills: u64,
    steps: u64,
    recovered: u64,
    reissued: u64,
    twins: u64,
}

fn text(found: &Value, name: &str) -> String {
    found[name].as_str().unwrap_or("").to_owned()
}

impl Tally {
    /// Takes a line of a round; says whether it was the last one.
    pub fn take(&mut self, found: &Value, seed: u64) -> bool {
        match found.get("blow") {
            Some(_) => self.blow(found),
            None => self.end(found, seed),
        }
        found.get("blow").is_none()
    }

    fn blow(&mut self, found: &Value) {
        let number = |name: &str| found[name].as_u64().unwrap_or(0);
        self.blows += 1;
        self.kills += number("kills");
        for tongue in text(found, "in").split(' ') {
            *self.tongues.entry(tongue.to_owned()).or_default() += 1;
        }
        let row = self.rows.entry((text(found, "scene"), text(found, "blow"))).or_default();
        match text(found, "found").as_str() {
            "went on" => row.went_on += 1,
            "restarted" => row.restarted += 1,
            _ => row.told += 1,
        }
        row.slowest_ms = row.slowest_ms.max(number("ms"));
        self.lines.push(format!(
            "{:>5}  {:<9} {:<15} {:<14} behind {:<14} {} in {} ms",
            self.blows,
            text(found, "scene"),
            text(found, "blow"),
            text(found, "in"),
            text(found, "moment"),
            text(found, "found"),
            number("ms")
        ));
    }

    fn end(&mut self, found: &Value, seed: u64) {
        let number = |name: &str| found[name].as_u64().unwrap_or(0);
        self.steps += number("steps");
        self.twins += u64::from(number("steps") > 0);
        self.recovered += number("recovered");
        self.reissued += number("reissued");
        let scene = text(found, "scene");
        if let Some(what) = found["fault"].as_str() {
            let kind = if what.starts_with("hangs") { "hang" } else { "loss" };
            self.fault(kind, format!("round {seed} ({scene}): {what}"));
        }
        let left = found["left"].as_array().map_or(&[][..], Vec::as_slice);
        for what in left {
            self.fault("leftover", format!("round {seed} ({scene}): left behind: {what}"));
        }
    }

    /// Notes a fault, and shows what led to it.
    pub fn fault(&mut self, kind: &'static str, text: String) {
        for line in self.lines.drain(..) {
            println!("{line}");
        }
        println!("  {} {text}", kind.to_uppercase());
        self.faults.push(Fault { kind, text });
    }

    /// Begins a round.
    pub fn begin(&mut self) {
        self.lines.clear();
    }

    /// How many faults there are.
    pub fn faults(&self) -> usize {
        self.faults.len()
    }

    fn count(&self, kind: &str) -> usize {
        self.faults.iter().filter(|f| f.kind == kind).count()
    }

    /// The table.
    pub fn print(&self, seed: u64, time: Duration) {
        println!(
            "{:<10} {:<15} {:>6} {:>8} {:>10} {:>6} {:>11}",
            "scene", "hurt", "blows", "went on", "restarted", "told", "slowest ms"
        );
        for ((scene, blow), row) in &self.rows {
            let all = row.went_on + row.restarted + row.told;
            println!(
                "{scene:<10} {blow:<15} {all:>6} {:>8} {:>10} {:>6} {:>11}",
                row.went_on, row.restarted, row.told, row.slowest_ms
            );
        }
        let tongues: Vec<String> = self.tongues.iter().map(|(t, n)| format!("{t} {n}")).collect();
        println!(
            "\nseed {seed}: {} blows, {} processes killed, in {:.0} s; ranks in {}",
            self.blows,
            self.kills,
            time.as_secs_f64(),
            tongues.join(", ")
        );
        println!(
            "{} steps recovered, {} calls issued again; {} runs of {} steps equal to their undisturbed twins",
            self.recovered, self.reissued, self.twins, self.steps
        );
        println!(
            "losses {}, hangs {}, leftovers {}",
            self.count("loss"),
            self.count("hang"),
            self.count("leftover")
        );
        if !self.faults.is_empty() {
            println!("again: make chaos SEED={seed} KILLS={}", self.blows.max(1));
        }
    }

    /// The same for machines.
    pub fn json(&self, seed: u64, time: Duration) -> Value {
        let row = |((scene, blow), row): (&(String, String), &Row)| {
            json!({
                "scene": scene, "hurt": blow, "went_on": row.went_on, "restarted": row.restarted,
                "told": row.told, "slowest_ms": row.slowest_ms,
            })
        };
        json!({
            "seed": seed, "seconds": time.as_secs_f64(), "blows": self.blows, "killed": self.kills,
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(), "ranks": self.tongues,
            "recovered_steps": self.recovered, "reissued_calls": self.reissued,
            "runs_compared": self.twins, "steps_compared": self.steps,
            "losses": self.count("loss"), "hangs": self.count("hang"), "leftovers": self.count("leftover"),
            "faults": self.faults.iter().map(|f| f.text.clone()).collect::<Vec<_>>(),
        })
    }
}
