//! `forebay show`: one array with its description.

use super::out::Out;
use super::pick::Pick;
use super::print;
use forebay::{Mode, Result};

/// Show a data set: what it is, and its values.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  forebay show two_stream E --step -1 --sel 0:10")]
pub struct Show {
    /// The run.
    run: String,
    /// The data set.
    name: String,
    #[command(flatten)]
    pick: Pick,
}

impl Show {
    /// Does it.
    pub fn run(&self, out: &Out) -> Result<()> {
        let run = forebay::open(&self.run, Mode::Read, Default::default())?;
        let (d, array) = self.pick.read(&run, &self.name)?;
        if out.json {
            let mut value = print::describe(&d);
            value["values"] = print::values(&array);
            return out.value(&value);
        }
        let units = if d.units.is_empty() { String::new() } else { format!(" [{}]", d.units) };
        let version = if d.version > 0 { format!("  version {}", d.version) } else { String::new() };
        out.line(format!("{}  {}{}{units}{version}", d.name, d.meta.dtype, d.meta.shape))?;
        if !d.dims.is_empty() {
            out.line(format!("  dims: {}", d.dims.join(", ")))?;
        }
        if let Some(stats) = print::stats_text(&d) {
            out.line(format!("  {stats}"))?;
        }
        for (name, value) in &d.attrs {
            out.line(format!("  {name}: {value}"))?;
        }
        out.line(print::text(&array))
    }
}
