//! `forebay table` and `forebay sql`: rows.

use super::leftover::doubt;
use super::out::Out;
use super::print;
use forebay::{Column, Mode, Result, TableOptions};

/// Show the rows of a table.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  forebay table two_stream history --where 'time > 10'")]
pub struct Table {
    /// The run.
    run: String,
    /// The table.
    name: String,
    /// Only rows for which this SQL condition holds.
    #[arg(long = "where", default_value = "")]
    condition: String,
}

/// Ask the catalog of a run in SQL; it is read only.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  forebay sql two_stream 'select max(field) from history'")]
pub struct Sql {
    /// The run.
    run: String,
    /// The query.
    query: String,
}

impl Table {
    /// Does it.
    pub fn run(&self, out: &Out) -> Result<()> {
        let run = forebay::open(&self.run, Mode::Read, Default::default())?;
        doubt(&run);
        let table = run.table(&self.name, TableOptions::default())?;
        let metas = table.columns().iter().map(Column::meta).collect::<Result<Vec<_>>>()?;
        print::rows(out, &table.select(&[], &self.condition, &[])?, &metas)
    }
}

impl Sql {
    /// Does it.
    pub fn run(&self, out: &Out) -> Result<()> {
        let run = forebay::open(&self.run, Mode::Read, Default::default())?;
        doubt(&run);
        print::rows(out, &run.sql(&self.query, &[])?, &[])
    }
}
