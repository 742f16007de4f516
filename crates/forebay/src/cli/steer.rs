//! `forebay steer`: the buttons of the page, from a script.

use super::far;
use super::out::Out;
use forebay::{Result, run_dir};
use forebay_types::watch::Act;
use serde_json::{Value, json};

/// Steer a run: every verb takes place at the same step in all ranks.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  forebay steer two_stream set e0 0.5")]
pub struct Steer {
    /// The run.
    run: String,
    #[command(subcommand)]
    verb: Verb,
    /// Seconds to wait until every rank has done it; 0 only asks.
    #[arg(long, default_value_t = 30.0, global = true)]
    timeout: f64,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Go on.
    #[command(after_help = "Example:\n  forebay steer two_stream run")]
    Run,
    /// Hold before the next step.
    #[command(after_help = "Example:\n  forebay steer two_stream stop")]
    Stop,
    /// Go some steps, then hold.
    #[command(after_help = "Example:\n  forebay steer two_stream step 10")]
    Step {
        /// How many.
        #[arg(default_value_t = 1)]
        n: u64,
    },
    /// Do what the program registered for Save.
    #[command(after_help = "Example:\n  forebay steer two_stream save")]
    Save,
    /// End the loop gracefully.
    #[command(after_help = "Example:\n  forebay steer two_stream quit")]
    Quit,
    /// Save, mark a checkpoint and end the loop, as at SIGTERM.
    #[command(after_help = "Example:\n  forebay steer two_stream end \"node goes down\"")]
    End {
        /// Why; also the name of the checkpoint.
        #[arg(default_value = "end")]
        why: String,
    },
    /// Give a parameter a value.
    #[command(after_help = "Example:\n  forebay steer two_stream set e0 0.5")]
    Set {
        /// The parameter.
        name: String,
        /// A number, true, false or a text.
        #[arg(allow_negative_numbers = true)]
        value: String,
    },
    /// Press a button that the program declared.
    #[command(after_help = "Example:\n  forebay steer two_stream command \"dump spectrum\"")]
    Command {
        /// Its name.
        name: String,
    },
}

impl Verb {
    fn act(&self) -> Act {
        match self {
            Verb::Run => Act::Run,
            Verb::Stop => Act::Stop,
            Verb::Step { n } => Act::Step { n: *n },
            Verb::Save => Act::Save,
            Verb::Quit => Act::Quit,
            Verb::End { why } => Act::End { why: why.clone() },
            Verb::Set { name, value } => {
                let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.clone()));
                Act::Set { name: name.clone(), value }
            }
            Verb::Command { name } => Act::Command { name: name.clone() },
        }
    }
}

impl Steer {
    /// Does it.
    pub fn run(&self, out: &Out) -> Result<()> {
        let wait = super::seconds(self.timeout)?;
        let done = match far(&self.run)? {
            Some((address, name)) => {
                let who = format!("{} on {}", who(), forebay_arena::place::host());
                forebay_agent::steer_far(&address, &name, &who, self.verb.act(), wait)?
            }
            None => forebay_agent::steer(&run_dir(&self.run)?, &who(), self.verb.act(), wait)?,
        };
        let state = json!(done.state);
        out.either(
            || json!(done),
            || {
                let words = if done.text.is_empty() { "done" } else { &done.text };
                let said = |s: &i64| words.contains(&format!("step {s}"));
                let step = done.step.filter(|s| !said(s)).map_or(String::new(), |s| format!(" at step {s}"));
                format!("{words}{step}; the run is {}", state.as_str().unwrap_or(""))
            },
        )
    }
}

/// Who we are, for the log.
fn who() -> String {
    let user =
        std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_else(|_| "somebody".into());
    format!("{user} (command line)")
}
