//! `forebay import`: files of other programs, or the text form of a run, into a run.

mod csv;
mod text;

use super::interrupt::Interrupt;
use super::out::{Out, Unit, bar};
use super::{making, npy, zip};
use forebay::{
    Array, ArrayMeta, Cell, Code, Error, Mode, Order, PutOptions, Result, Run, Strided, Table, View, run_dir,
};
use forebay_store::layout::Layout;
use forebay_store::stepfile::{is_hdf5, largest_foreign, read_foreign};
use forebay_store::{Progress, lock};
use forebay_types::counted;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Put what other programs wrote into a run.
#[derive(clap::Args)]
#[command(
    after_help = "Files: what `forebay export --to text` wrote (everything comes back, to the bit), .npz and .npy (each array a data set), \
.csv (a table, the types of its columns are found), HDF5 (each array a data set with its attributes, groups are parts of names).\n\
A run that is not there yet appears when all of it is imported; to one that is there it is added.\n\n\
Example:\n  forebay import two_stream.txt two_stream\n  forebay import measured.csv profile.npz two_stream --name lab"
)]
pub struct Import {
    /// The files.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The run; it is made when there is none.
    run: String,
    /// The name of what a .csv or .npy file becomes, by default that of the file; of other files a group for their
    /// arrays.
    #[arg(long)]
    name: Option<String>,
    /// Replace data sets of the same names.
    #[arg(long)]
    force: bool,
}

/// Rows that are inserted at a time.
const ROWS: usize = 1000;
/// How the name of a run in the making ends.
const ENDING: &str = ".tmp.fb";
/// The buffer that a run has at least in which there is an array larger than a part of it.
const BUFFER: u64 = 256 << 20;

/// What is imported, and what was.
struct Importing<'a> {
    run: &'a Run,
    name: Option<&'a str>,
    force: bool,
    interrupt: Interrupt,
    progress: Progress,
    /// Data sets that are there.
    there: BTreeSet<(String, i64)>,
    /// Bytes of the files before the one that is read, and of all.
    done: u64,
    total: u64,
    arrays: u64,
    steps: u64,
    tables: Vec<Value>,
    notes: Vec<String>,
}

/// A run in the making: under another name until all is in it. Dropped before, it goes.
struct Making {
    tmp: PathBuf,
    path: PathBuf,
}

impl Making {
    fn named(self) -> Result<()> {
        // Somebody else may have made one meanwhile: that one stays.
        let renamed = match self.path.exists() {
            false => std::fs::rename(&self.tmp, &self.path),
            true => Err(std::io::ErrorKind::AlreadyExists.into()),
        };
        renamed.map_err(|e| {
            Error::io(format!("cannot rename {} to {}", self.tmp.display(), self.path.display()), e)
        })?;
        let above = self.path.parent().unwrap_or(Path::new("/"));
        let synced = File::open(above).and_then(|dir| dir.sync_all());
        synced.map_err(|e| Error::io(format!("cannot make the name {} durable", self.path.display()), e))
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        // Nothing is there any more after a renaming.
        let _ = std::fs::remove_dir_all(&self.tmp);
    }
}

impl Import {
    /// Does it.
    pub fn run(&self, out: &Out) -> Result<()> {
        let mut total = 0;
        for path in &self.files {
            let size = std::fs::metadata(path).map_err(|e| {
                let remedy = "give the path of a file that is there and may be read";
                Error::io(format!("cannot read {}", path.display()), e).with_remedy(remedy)
            })?;
            total += size.len();
        }
        let largest = self.files.iter().map(|path| largest(path)).max().unwrap_or(0);
        let interrupt = Interrupt::watch()?;
        let (making, place) = self.place()?;
        let mode = if making.is_some() { Mode::Create } else { Mode::Append };
        // An array goes through the buffer as a whole; the next one goes in while it goes out.
        let options = match largest > BUFFER / 16 {
            true => super::room(largest.max(BUFFER.min(2 * largest))),
            false => Default::default(),
        };
        let run = forebay::open(&place, mode, options)?;
        let check = interrupt.clone();
        run.on_wait(move || check.check());
        let (bar, progress) = bar("importing", Unit::Bytes);
        let there = run.list("*", None)?.into_iter().map(|d| (d.name, d.set)).collect();
        let mut job = Importing {
            run: &run,
            name: self.name.as_deref(),
            force: self.force,
            interrupt,
            progress,
            there,
            done: 0,
            total,
            arrays: 0,
            steps: 0,
            tables: Vec::new(),
            notes: Vec::new(),
        };
        let imported = self.files.iter().try_for_each(|path| job.file(path)).and_then(|()| run.flush());
        bar.finish_and_clear();
        let Importing { arrays, steps, tables, notes, interrupt, .. } = job;
        if let Err(e) = imported {
            // Whatever failed when it was interrupted failed for that.
            let e = interrupt.check().err().unwrap_or(e);
            let closed = run.close_as(false);
            drop(run);
            return match making {
                Some(_) => Err(e),
                None if arrays + steps == 0 && tables.is_empty() => closed.and(Err(e)),
                None => closed.and(Err(e.with_remedy(format_args!(
                    "what came before it is in {}: correct the file, or take it out with `forebay rm`",
                    self.run
                )))),
            };
        }
        // Nobody knows whether the program that made it was at its end.
        run.close_as(false)?;
        drop(run);
        let path = match making {
            Some(making) => {
                let path = making.path.clone();
                making.named()?;
                path
            }
            None => PathBuf::from(&place),
        };
        for note in &notes {
            eprintln!("forebay: {note}");
        }
        out.either(
            || json!({"run": path, "arrays": arrays, "steps": steps, "tables": tables, "notes": notes}),
            || {
                let mut words = vec![counted(arrays, "array")];
                if steps > 0 {
                    words.push(counted(steps, "snapshot"));
                }
                words.extend(tables.iter().map(|table| {
                    let columns = table["columns"].as_array().into_iter().flatten();
                    let typed = |c: &Value| {
                        format!("{} {}", c["name"].as_str().unwrap_or(""), c["dtype"].as_str().unwrap_or(""))
                    };
                    let columns: Vec<String> = columns.map(typed).collect();
                    format!(
                        "the table {} ({}) of {}",
                        table["name"],
                        columns.join(", "),
                        counted(table["rows"].as_u64().unwrap_or(0), "row")
                    )
                }));
                format!("{}: {}", self.run, words.join(", "))
            },
        )
    }

    /// Where it is opened; a run that is not there is made under another name.
    fn place(&self) -> Result<(Option<Making>, String)> {
        if super::remote(&self.run)?.is_some() {
            return Ok((None, self.run.clone()));
        }
        let path = run_dir(&self.run)?;
        let text = |path: &Path| {
            path.to_str().map(str::to_owned).ok_or_else(|| {
                Error::bad(format!("the path {} is not UTF-8; give another one", path.display()))
            })
        };
        if path.exists() {
            return Ok((None, text(&path)?));
        }
        let above = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !above.is_dir() {
            return Err(Error::new(
                Code::NotFound,
                format!("there is no directory {0}; make {0} first", above.display()),
            ));
        }
        let stem = path.file_stem().map_or("run".into(), |s| s.to_string_lossy().into_owned());
        // What somebody still has in hand is not taken from them.
        let is_free = |run: &PathBuf| lock::holder(&Layout::new(run).lock()).is_none();
        making::left(above, &stem, ENDING)
            .iter()
            .filter(|run| is_free(run))
            .for_each(|run| making::remove(run));
        let tmp = making::place(above, &stem, ENDING);
        let place = text(&tmp)?;
        Ok((Some(Making { tmp, path }), place))
    }
}

/// Bytes of the largest array of a file; 0 where that cannot be said, as of what is no such file.
fn largest(path: &Path) -> u64 {
    let begins = || {
        let mut first = Vec::new();
        File::open(path)?.take(16).read_to_end(&mut first).map(|_| first)
    };
    let size = || std::fs::metadata(path).map_or(0, |m| m.len());
    match begins() {
        // What a file says is believed as far as it may be in there.
        Ok(b) if b.starts_with(b"forebay-text ") => text::largest(path).unwrap_or(0).min(8 * size()),
        Ok(b) if is_hdf5(&b) => largest_foreign(path).unwrap_or(0).min(size()),
        // No member of an archive is larger than it.
        Ok(b) if b.starts_with(b"PK") || b.starts_with(b"\x93NUMPY") => size(),
        _ => 0,
    }
}

impl Importing<'_> {
    fn file(&mut self, path: &Path) -> Result<()> {
        let wrong = |e| Error::io(format!("cannot read {}", path.display()), e);
        let mut file = File::open(path).map_err(wrong)?;
        let size = file.metadata().map_err(wrong)?.len();
        let mut first = Vec::new();
        (&mut file).take(512).read_to_end(&mut first).map_err(wrong)?;
        let is_csv = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("csv"));
        let done = match &first[..] {
            b if b.starts_with(b"forebay-text ") => text::read(self, path),
            b if b.starts_with(b"PK\x03\x04") || b.starts_with(b"PK\x05\x06") => self.npz(path),
            b if b.starts_with(b"\x93NUMPY") => self.npy(path),
            b if is_hdf5(b) => self.hdf5(path),
            _ if is_csv => csv::read(self, path),
            _ => Err(Error::bad(
                "it is none of the files that are known; give what `forebay export --to text` wrote, .npz, .npy, .csv or HDF5",
            )),
        };
        self.done += size;
        (self.progress)(self.done, self.total);
        done.map_err(|e| e.within(path.display()))
    }

    /// The name of what a file with one thing in it becomes.
    fn name_of(&self, path: &Path) -> String {
        let stem = || path.file_stem().map_or("data".into(), |s| s.to_string_lossy().into_owned());
        self.name.map_or_else(stem, str::to_owned)
    }

    /// The name of one of many things of a file.
    fn within(&self, name: &str) -> String {
        self.name.map_or_else(|| name.to_owned(), |group| format!("{group}/{name}"))
    }

    fn put(
        &mut self,
        name: &str,
        set: i64,
        view: View,
        units: &str,
        attrs: &Map<String, Value>,
    ) -> Result<()> {
        self.interrupt.check()?;
        if !self.there.insert((name.to_owned(), set)) && !self.force {
            return Err(Error::new(
                Code::Conflict,
                format!(
                    "there is a data set {name:?} already; replace it with --force, or give another name with --name"
                ),
            ));
        }
        let attrs = (!attrs.is_empty()).then_some(attrs);
        self.run.put(name, view, PutOptions { set, units, attrs })?;
        self.arrays += 1;
        Ok(())
    }

    /// Puts an array as Python does: row-major, whatever the order of the file.
    fn put_row_major(&mut self, name: &str, array: &Array) -> Result<()> {
        let meta = &array.meta;
        let view = match meta.order {
            Order::C => View::new(*meta, &array.bytes)?,
            Order::F => {
                let strides = Strided::dense(meta)?.strides();
                View::strided(meta.dtype, meta.shape, &strides, 0, &array.bytes)?
            }
        };
        self.put(name, 0, view, "", &Map::new())
    }

    fn npy(&mut self, path: &Path) -> Result<()> {
        let array = npy::read(path)?;
        self.put_row_major(&self.name_of(path), &array)
    }

    /// Refuses a file of arrays of which none has come, which a run without any would hide.
    fn has_come(&self, before: u64, passed_over: &[String]) -> Result<()> {
        if self.arrays > before {
            return Ok(());
        }
        let why = match passed_over {
            [] => "it holds no arrays".to_owned(),
            all => format!("nothing of it is kept: {}", all.join(", ")),
        };
        Err(Error::bad(format!("{why}; give a file with arrays of numbers or texts")))
    }

    fn npz(&mut self, path: &Path) -> Result<()> {
        let before = self.arrays;
        let file = File::open(path).map_err(|e| Error::io("cannot read it", e))?;
        let archive = zip::Archive::new(file)?;
        for member in archive.members()? {
            let name = member.name.strip_suffix(".npy").unwrap_or(&member.name).to_owned();
            let array =
                npy::decode(&archive.read(&member)?).map_err(|e| e.within(format_args!("{name:?}")))?;
            self.put_row_major(&self.within(&name), &array)?;
        }
        self.has_come(before, &[])
    }

    fn hdf5(&mut self, path: &Path) -> Result<()> {
        let before = self.arrays;
        let found = read_foreign(path, &mut |array| {
            let name = self.within(&array.name);
            let meta: ArrayMeta = array.meta;
            self.put(&name, 0, View::new(meta, &array.bytes)?, &array.units, &array.attrs)
        })?;
        self.has_come(before, &found.passed_over)?;
        let passed =
            found.passed_over.into_iter().map(|what| format!("{}: passed over {what}", path.display()));
        self.notes.extend(passed);
        Ok(())
    }

    /// Inserts rows into a table as they come, each of a history with its step, until there is none, and notes it.
    fn fill(
        &mut self,
        table: &Table,
        name: &str,
        mut next: impl FnMut() -> Result<Option<(Option<i64>, Vec<Cell>)>>,
    ) -> Result<()> {
        let insert = |rows: &mut Vec<Vec<Cell>>, step: Option<i64>| {
            let done = match step {
                Some(step) => table.insert_of_step(rows, step),
                None => table.insert(rows),
            };
            rows.clear();
            done
        };
        let (mut rows, mut step, mut count) = (Vec::with_capacity(ROWS), None, 0u64);
        while let Some((made_in, row)) = next()? {
            self.interrupt.check()?;
            if rows.len() == ROWS || made_in != step {
                insert(&mut rows, step)?;
            }
            step = made_in;
            rows.push(row);
            count += 1;
        }
        insert(&mut rows, step)?;
        self.tables.push(json!({"name": name, "columns": table.columns(), "rows": count}));
        Ok(())
    }

    /// Refuses a table that is there.
    fn check_table(&self, name: &str) -> Result<()> {
        match self.run.tables()?.iter().any(|known| known == name) {
            false => Ok(()),
            true => Err(Error::new(
                Code::Conflict,
                format!(
                    "there is a table {name:?} already, and rows are not mixed with those of a file; give another name with --name"
                ),
            )),
        }
    }
}
