//! `forebay get`: an array out of a run into a file.

use super::out::Out;
use super::pick::Pick;
use super::{npy, print};
use forebay::{Error, Mode, Result};
use serde_json::json;
use std::path::PathBuf;

/// Copy a data set into a .npy or .json file.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  forebay get two_stream E --step 600 -o E600.npy")]
pub struct Get {
    /// The run.
    run: String,
    /// The data set.
    name: String,
    #[command(flatten)]
    pick: Pick,
    /// The file; its ending (.npy or .json) says how. By default the last part of the name with .npy.
    #[arg(short, long)]
    output: Option<PathBuf>,
}

impl Get {
    /// Does it.
    pub fn run(&self, out: &Out) -> Result<()> {
        let run = forebay::open(&self.run, Mode::Read, Default::default())?;
        let (d, array) = self.pick.read(&run, &self.name)?;
        let leaf = self.name.rsplit('/').next().unwrap_or(&self.name);
        let path = self.output.clone().unwrap_or_else(|| PathBuf::from(format!("{leaf}.npy")));
        match path.extension().and_then(|e| e.to_str()) {
            Some("npy") => npy::write(&path, &array)?,
            Some("json") => npy::save(&path, print::values(&array).to_string().as_bytes())?,
            _ => {
                return Err(Error::bad(format!(
                    "{:?} ends in neither .npy nor .json; give it one of these endings",
                    path.display()
                )));
            }
        }
        out.either(
            || json!({"file": path, "dtype": array.meta.dtype.name(), "shape": array.meta.shape.extents()}),
            || format!("{}: {} of {}", path.display(), array.meta, d.name),
        )
    }
}
