//! `forebay rm`: data sets out of a run.

use super::out::Out;
use forebay::{Code, Error, Mode, Result};
use serde_json::json;

/// Delete data sets by name or glob.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  forebay rm two_stream 'scratch/*' --set 3")]
pub struct Rm {
    /// The run.
    run: String,
    /// Glob over the names.
    pattern: String,
    /// Only this set number.
    #[arg(long, allow_negative_numbers = true)]
    set: Option<i64>,
}

impl Rm {
    /// Does it.
    pub fn run(&self, out: &Out) -> Result<()> {
        let run = super::beside::opened(&self.run, Mode::ReadWrite, 0)?;
        let n = run.delete(&self.pattern, self.set)?;
        run.flush()?;
        run.close()?;
        if n == 0 {
            return Err(Error::new(
                Code::NotFound,
                format!("{:?} matches no data set; `forebay ls {}` lists them", self.pattern, self.run),
            ));
        }
        out.either(|| json!({"deleted": n}), || format!("{n} deleted"))
    }
}
