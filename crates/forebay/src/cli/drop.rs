//! `forebay drop`: a snapshot out of a run.

use super::out::Out;
use forebay::{Code, Error, Mode, Result};
use serde_json::json;

/// Give a snapshot up: its file goes and its number is free.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  forebay drop two_stream 600")]
pub struct Drop {
    /// The run.
    run: String,
    /// The number of the snapshot.
    #[arg(allow_negative_numbers = true)]
    step: i64,
}

impl Drop {
    /// Does it.
    pub fn run(&self, out: &Out) -> Result<()> {
        let run = forebay::open(&self.run, Mode::ReadWrite, super::room(0))?;
        let there = run.drop_step(self.step)?;
        run.close()?;
        if !there {
            return Err(Error::new(
                Code::NotFound,
                format!("there is no snapshot {}; `forebay ls {} --steps` lists them", self.step, self.run),
            ));
        }
        out.either(|| json!({"dropped": self.step}), || format!("snapshot {} dropped", self.step))
    }
}
