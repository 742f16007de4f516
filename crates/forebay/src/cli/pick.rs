//! Which array of a run is meant: a data set outside steps, or one of a snapshot, whole or in part.

use forebay::{Array, Code, DataSet, Error, Kept, Result, Run, Selection};

/// The options that name one array.
#[derive(clap::Args)]
pub struct Pick {
    /// Set number.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    pub set: i64,
    /// Take it from this snapshot; -1 is the last one.
    #[arg(long, allow_negative_numbers = true, conflicts_with = "set")]
    pub step: Option<i64>,
    /// Only this part, as NumPy writes it: "0:10,:,-1".
    #[arg(long, allow_hyphen_values = true)]
    pub sel: Option<String>,
}

impl Pick {
    /// Describes the array and reads what is selected.
    pub fn read(&self, run: &Run, name: &str) -> Result<(DataSet, Array)> {
        let select = |d: &DataSet| -> Result<Option<Selection>> {
            self.sel.as_deref().map(|s| Selection::parse(s, &d.meta.shape)).transpose()
        };
        if let Some(step) = self.step {
            let kept = snapshot(run, step)?;
            let d = kept.dataset(name)?;
            let array = kept.get(name, select(&d)?.as_ref())?;
            return Ok((d, array));
        }
        let d = run.dataset(name, self.set).map_err(|e| in_a_snapshot(run, name, e))?;
        let array = run.get(name, self.set, select(&d)?.as_ref())?;
        Ok((d, array))
    }
}

/// What is no data set may be an array of the last snapshot.
fn in_a_snapshot(run: &Run, name: &str, absent: Error) -> Error {
    let is_there =
        |last: &Kept| last.dataset(name).is_ok() || last.members(name).is_ok_and(|m| !m.arrays.is_empty());
    let last = snapshot(run, -1).ok().filter(|last| absent.code() == Code::NotFound && is_there(last));
    last.map_or(absent, |last| {
        let text = format!(
            "there is no data set {name:?} outside snapshots, and snapshot {} has an array of that name; --step {0} takes it from there, and --step -1 from the last one",
            last.step()
        );
        Error::new(Code::NotFound, text)
    })
}

/// A snapshot by its step; from the end when negative.
pub fn snapshot(run: &Run, step: i64) -> Result<Kept> {
    let snapshots = run.snapshots()?;
    if step < 0 { snapshots.nth(step) } else { snapshots.at(step) }
}

/// Reads `600` and `1000..2000`.
pub fn range(text: &str) -> Result<(i64, i64)> {
    let wrong = || {
        Error::bad(format!(
            "{text:?} is no snapshot; write its number, such as 600, or FIRST..LAST such as 1000..2000"
        ))
    };
    let number = |text: &str| text.trim().parse::<i64>().map_err(|_| wrong());
    let (first, last) = match text.split_once("..") {
        None => (number(text)?, number(text)?),
        Some((first, last)) => (number(first)?, number(last)?),
    };
    if first <= last { Ok((first, last)) } else { Err(wrong()) }
}
