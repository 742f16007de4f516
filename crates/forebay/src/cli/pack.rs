//! `forebay pack`: small snapshots into files of stacked arrays.

use super::care::{existing, who_writes};
use super::out::{Out, Unit, bar, bytes};
use super::pick;
use forebay::{Result, Unpacked, run_dir};
use forebay_host::environment;
use forebay_store as store;
use forebay_types::counted;
use serde_json::json;

/// Put small snapshots of one layout together: one file of stacked arrays in place of many.
#[derive(clap::Args)]
#[command(
    after_help = "Snapshots of other layouts, with compressed arrays or constants in files of their own, or of more than 64 MiB stay as they are, and the answer says why. Programs that read openPMD or VTKHDF, such as ParaView, do not read packs.\n\nExample:\n  forebay pack two_stream --steps 0..99999"
)]
pub struct Pack {
    /// The run.
    run: String,
    /// Only these: FIRST..LAST are all from the first to the last one, both among them.
    #[arg(long, value_name = "A..B", allow_hyphen_values = true)]
    steps: Option<String>,
}

/// So many reasons are named.
const NAMED: usize = 8;

impl Pack {
    /// Does it.
    pub fn run(&self, out: &Out) -> Result<()> {
        let (first, last) = match &self.steps {
            Some(text) => pick::range(text)?,
            None => (i64::MIN, i64::MAX),
        };
        let dir = run_dir(&self.run)?;
        existing(&dir)?;
        let (bar, progress) = bar("packing", Unit::Bytes);
        let options = store::PackOptions::between(first, last);
        let done = store::pack_with(&dir, environment::elsewhere()?, &options, &progress)
            .map_err(|e| who_writes(&dir, e))?;
        bar.finish_and_clear();
        if out.json {
            return out.value(&json!(done));
        }
        out.line(match done.packs {
            0 => format!("{}: nothing to pack", dir.display()),
            n => format!(
                "{}: {} in {}, {}",
                dir.display(),
                counted(done.steps, "snapshot"),
                counted(n, "pack"),
                bytes(done.bytes)
            ),
        })?;
        let line = |s: &Unpacked| match s.steps {
            1 => format!("snapshot {} stays as it is: {}", s.first, s.why),
            n => format!("{n} snapshots, {} to {}, stay as they are: {}", s.first, s.last, s.why),
        };
        done.single.iter().take(NAMED).try_for_each(|s| out.line(line(s)))?;
        match done.single.len().saturating_sub(NAMED) {
            0 => Ok(()),
            n => out.line(format!("and {n} more; `forebay --json pack` names all")),
        }
    }
}
