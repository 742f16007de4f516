//! `forebay show`: one array with its description.

use super::out::Out;
use super::pick::{Pick, snapshot};
use super::print;
use forebay::{Array, Code, DataSet, Mode, Result};
use serde_json::{Map, Value, json};

/// Show a data set: what it is, and its values.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  forebay show two_stream E --step -1 --sel 0:10")]
pub struct Show {
    /// The run.
    run: String,
    /// The data set; of a mesh with components, or of particles, with --step all arrays.
    name: String,
    #[command(flatten)]
    pick: Pick,
}

impl Show {
    /// Does it.
    pub fn run(&self, out: &Out) -> Result<()> {
        let run = forebay::open(&self.run, Mode::Read, Default::default())?;
        let absent = match self.pick.read(&run, &self.name) {
            Ok((d, array)) if out.json => return out.value(&machine(&d, &array)),
            Ok((d, array)) => return people(out, &d, &array),
            Err(e) => e,
        };
        let Some(step) = self.pick.step.filter(|_| absent.code() == Code::NotFound) else {
            return Err(absent);
        };
        let members = snapshot(&run, step)?.members(&self.name)?;
        if members.arrays.is_empty() {
            return Err(absent);
        }
        let mut all = Map::new();
        for (_, name) in &members.arrays {
            let (d, array) = self.pick.read(&run, name)?;
            match out.json {
                true => drop(all.insert(name.clone(), machine(&d, &array))),
                false => people(out, &d, &array)?,
            }
        }
        for (record, number) in &members.constants {
            let name = format!("{}/{record}", self.name);
            match out.json {
                true => drop(all.insert(name, json!(number))),
                false => out.line(format!("{name}  {number} of all particles"))?,
            }
        }
        if out.json { out.value(&Value::Object(all)) } else { Ok(()) }
    }
}

fn machine(d: &DataSet, array: &Array) -> Value {
    let mut value = print::describe(d);
    value["values"] = print::values(array);
    value
}

fn people(out: &Out, d: &DataSet, array: &Array) -> Result<()> {
    let units = if d.units.is_empty() { String::new() } else { format!(" [{}]", d.units) };
    let version = if d.version > 0 { format!("  version {}", d.version) } else { String::new() };
    out.line(format!("{}  {}{}{units}{version}", d.name, d.meta.dtype, d.meta.shape))?;
    if !d.dims.is_empty() {
        out.line(format!("  dims: {}", d.dims.join(", ")))?;
    }
    // They are those of the whole.
    let stats = if array.meta.shape == d.meta.shape { print::stats_text(d) } else { None };
    if let Some(stats) = stats {
        out.line(format!("  {stats}"))?;
    }
    for (name, value) in &d.attrs {
        out.line(format!("  {name}: {}", print::attribute(value)))?;
    }
    out.line(print::text(array))
}
