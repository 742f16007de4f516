//! Constants of the run: arrays that are put once, and that every snapshot has.

use forebay_client::run::Session;
use forebay_store::catalog::DataRow;
use forebay_types::reading::Question;
use forebay_types::{Code, Description, Error, Name, Result, crc32c};

use crate::{Array, ConstantOptions, Run, View};

impl Run {
    /// Puts an array once a run: every snapshot that this rank takes from now on has it, under that name. Of up to 4 KiB each
    /// has a copy; larger ones lie once in `data/`, as a data set of that name, and each snapshot has a link to it. The same
    /// bits again are nothing, after a restart of the program too, and later versions that are in the run hold from their
    /// steps on. `Conflict` for others; with a step in the options they are the data set of that number, and hold from that
    /// step on, which no snapshot may have reached. One rank says it, or all say the same, between snapshots. `Corrupt` if
    /// what was put before is damaged.
    pub fn constant(&self, name: &str, view: View, options: ConstantOptions) -> Result<()> {
        let session = self.session()?;
        session.check_constant(name, &view, &options)?;
        let is_it = |row: &&DataRow| row.set == options.step;
        let mut rows = self.versions(name)?;
        let is_new = !rows.iter().any(|row| is_it(&row));
        if is_new {
            self.is_before(name, options.step)?;
            match session.put_once(name, view, &options) {
                // Another rank was faster: it is compared with what that one has said.
                Err(e) if e.code() != Code::Conflict => return Err(e),
                _ => rows = self.versions(name)?,
            }
        }
        let it = rows.iter().find(is_it);
        let row = it.ok_or_else(|| Error::internal(format!("the constant {name:?} is not there")))?;
        is_same(row, &view, &options)?;
        if !is_new {
            self.kept(row)?;
        }
        session.bear(name, view, &options, row.crc, row.file.clone())?;
        rows.iter().filter(|row| row.set > options.step).try_for_each(|row| self.bear_version(session, row))
    }

    /// The data sets of that name.
    fn versions(&self, name: &str) -> Result<Vec<DataRow>> {
        self.settled()?.ask(&Question::List { pattern: Name::literal(name), set: None })
    }

    /// Fails if a snapshot has the step from which on a new version is to hold.
    fn is_before(&self, name: &str, step: i64) -> Result<()> {
        let last = if step > 0 { self.snapshots()?.numbers()?.last().copied() } else { None };
        match last.filter(|last| *last >= step) {
            None => Ok(()),
            Some(last) => Err(Error::new(
                Code::Conflict,
                format!(
                    "the run has snapshot {last} with {name:?} as it was, and a version of it from {step} on comes too late; say step = {} or more",
                    last + 1
                ),
            )),
        }
    }

    /// The bytes of a constant as they were put, compared with their checksum.
    fn kept(&self, row: &DataRow) -> Result<Array> {
        let name = &row.name;
        self.get(name, row.set, None).map_err(|e| match e.code() {
            Code::Corrupt => Error::new(
                Code::Corrupt,
                format!(
                    "the constant {name:?} is damaged, in all snapshots that refer to it: {}; put it again as a data set, `put` with that name and set = {}, and say the constant then: snapshots to come have it",
                    e.text(),
                    row.set
                ),
            ),
            _ => e,
        })
    }

    /// A version that was said in an earlier start of the program holds from its step on.
    fn bear_version(&self, session: &Session, row: &DataRow) -> Result<()> {
        if session.bears(&row.name, row.set) {
            return Ok(());
        }
        let array = self.kept(row)?;
        let said = Description { attrs: row.attrs.clone(), ..Description::default() };
        let options = ConstantOptions { units: &row.units, description: Some(&said), step: row.set };
        session.bear(&row.name, View::new(array.meta, &array.bytes)?, &options, row.crc, row.file.clone())
    }
}

/// Whether a constant that is there is the one that is said.
fn is_same(row: &DataRow, view: &View, options: &ConstantOptions) -> Result<()> {
    let (name, meta, units) = (&row.name, view.meta(), options.units);
    let what = match () {
        () if row.meta != *meta => format!("is {} there, and {meta} here", row.meta),
        () if row.units != units => format!("has the unit {:?} there, and {units:?} here", row.units),
        () if row.crc != crc32c(&view.bytes()) => "has other bits there than here".to_owned(),
        () => return Ok(()),
    };
    Err(Error::new(
        Code::Conflict,
        format!(
            "the run has the constant {name:?} already, and it {what}: a constant is put once; leave it as it is, or say with step from which snapshot on the new one holds"
        ),
    ))
}
