//! `forebay steer`: the buttons of the page, from a script.

use super::out::Out;
use super::remote;
use clap::Subcommand as _;
use forebay::{Code, Error, Result, run_dir};
use forebay_types::watch::Act;
use serde_json::{Value, json};
use std::ffi::OsString;

/// Steer a run: every verb takes place at the same step in all ranks.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  forebay steer two_stream set e0 0.5")]
pub struct Steer {
    /// The run.
    run: String,
    #[command(subcommand)]
    verb: Verb,
    /// Seconds to wait until every rank has done it; 0 only asks, also of a program that has begun no loop yet.
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
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
    /// Press a button that the program declared.
    #[command(after_help = "Example:\n  forebay steer two_stream command \"dump spectrum\"")]
    Command {
        /// Its name.
        name: String,
    },
}

/// The words of the command line, with the run's name told from a verb: a run may be called `save`.
pub fn run_before_verb(mut words: Vec<OsString>) -> Vec<OsString> {
    let Some(steer) =
        words.iter().skip(1).position(|w| !w.to_string_lossy().starts_with('-')).map(|at| at + 1)
    else {
        return words;
    };
    if words[steer] != "steer" {
        return words;
    }
    let mut plain = Vec::new();
    let mut at = steer + 1;
    while at < words.len() {
        match words[at].to_str() {
            Some("--timeout") => at += 1,
            Some(option) if option.starts_with('-') => {}
            _ => plain.push(at),
        }
        at += 1;
    }
    let is_verb = |at: usize| words[at].to_str().is_some_and(Verb::has_subcommand);
    if let [run, verb, ..] = plain[..]
        && is_verb(run)
        && is_verb(verb)
    {
        // The path of this run, written so that it is no verb.
        words[run] = std::path::Path::new(".").join(&words[run]).into();
    }
    words
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
        let says = |text: &str| eprintln!("forebay: {text}");
        let done = match remote(&self.run)? {
            Some((address, name)) => {
                let who = format!("{} on {}", who(), forebay_host::identity::host());
                forebay_agent::steer_remote(&address, &name, &who, self.verb.act(), wait, &says)?
            }
            None => forebay_agent::steer(&run_dir(&self.run)?, &who(), self.verb.act(), wait, &says)?,
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
        )?;
        if done.applied || wait.is_zero() {
            return Ok(());
        }
        Err(Error::new(
            Code::Timeout,
            format!(
                "not every rank has done it after {} s; it is not withdrawn, and happens when they come to it. --timeout 0 asks without waiting",
                self.timeout
            ),
        ))
    }
}

/// Who we are, for the log.
fn who() -> String {
    let user =
        std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_else(|_| "somebody".into());
    format!("{user} (command line)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_may_be_called_as_a_verb() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let read = |text: &str| {
            let words = run_before_verb(words(text));
            words.iter().map(|w| w.to_string_lossy()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(read("forebay steer save stop"), "forebay steer ./save stop");
        assert_eq!(
            read("forebay --json steer --timeout 3 set set e0 0.5"),
            "forebay --json steer --timeout 3 ./set set e0 0.5"
        );
        for same in [
            "forebay steer decay save",
            "forebay steer save",
            "forebay ls save stop",
            "forebay",
            "forebay steer decay set step 3",
        ] {
            assert_eq!(read(same), same);
        }
    }
}
