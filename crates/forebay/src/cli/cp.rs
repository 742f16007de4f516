//! `forebay cp` and `forebay mv`: data sets under other names.

use super::out::Out;
use forebay::{Error, Mode, Result};
use serde_json::json;

/// Copy a data set, all its sets, to another name.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  forebay cp two_stream input/profile input/profile-2")]
pub struct Cp {
    /// The run.
    run: String,
    /// The data set.
    from: String,
    /// The name of the copy.
    to: String,
}

/// Give a data set, all its sets, another name.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  forebay mv two_stream input/profile input/profile-old")]
pub struct Mv {
    /// The run.
    run: String,
    /// The data set.
    from: String,
    /// Its new name.
    to: String,
}

impl Cp {
    /// Does it.
    pub fn run(&self, out: &Out) -> Result<()> {
        change(out, &self.run, &self.from, |run| run.copy(&self.from, &self.to))
    }
}

impl Mv {
    /// Does it.
    pub fn run(&self, out: &Out) -> Result<()> {
        change(out, &self.run, &self.from, |run| run.rename(&self.from, &self.to))
    }
}

fn change(out: &Out, place: &str, from: &str, f: impl FnOnce(&forebay::Run) -> Result<u64>) -> Result<()> {
    let run = super::beside::opened(place, Mode::ReadWrite, 0)?;
    let n = f(&run)?;
    if n == 0 {
        return Err(Error::new(
            forebay::Code::NotFound,
            format!("{place} has no data set {from:?}; `forebay ls {place}` lists them"),
        ));
    }
    run.flush()?;
    run.close()?;
    out.either(|| json!({"sets": n}), || format!("{n} set{}", if n == 1 { "" } else { "s" }))
}
