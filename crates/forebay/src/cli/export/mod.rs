//! `forebay export`: what a run holds, as files of other programs.

mod csv;
mod h5md;
mod left_out;
mod netcdf;
mod npz;
mod openpmd;
mod species;
mod target;
mod text;
mod variables;
mod view;
mod vtkhdf;
mod zarr;

use super::choice::{Choice, ChoiceKind};
use super::interrupt::Interrupt;
use super::leftover::doubt;
use super::out::{Out, Unit, bar};
use forebay::{Error, Mode, Result, Run};
use forebay_store::Progress;
use forebay_store::layout::VIEWS;
use left_out::LeftOut;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use target::Destination;
use variables::Variables;

/// Copy what a run holds into a file of another format.
#[derive(clap::Args)]
#[command(
    after_help = "Formats: npz (arrays, for numpy.load), zarr (version 3, one chunk a snapshot), netcdf (one file, for xarray), \
openpmd (meshes and particles, a directory with a file for each snapshot), vtkhdf (the same in one file, for ParaView), h5md (particles and histories in one file), csv (tables and histories), text (everything, to the bit; \
`forebay import` reads it).\n\
Arrays that are alike at all snapshots get an axis more in front, step; others come one by one as NAME@STEP.\n\n\
Example:\n  forebay export two_stream 'E*' --to netcdf --steps 0..600\n  forebay export two_stream --view two_stream.h5"
)]
pub struct Export {
    /// The run.
    run: String,
    #[command(flatten)]
    choice: Choice,
    /// npz, zarr, netcdf, openpmd, vtkhdf, h5md, csv or text.
    #[arg(long, value_name = "FORMAT", required_unless_present = "view")]
    to: Option<String>,
    /// Copy nothing: make a file that shows the arrays over all snapshots, for h5py and xarray. It reads the files of the
    /// run; one in the directory views of the run follows when snapshots are dropped.
    #[arg(long, value_name = "FILE.h5", conflicts_with_all = ["to", "output"])]
    view: Option<PathBuf>,
    /// The file or directory to make; by default the name of the run with the ending of the format.
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Replace what is there.
    #[arg(long)]
    force: bool,
}

/// What all formats need.
struct Exporting<'a> {
    run: &'a Run,
    place: &'a str,
    choice: &'a Choice,
    interrupt: Interrupt,
    progress: Progress,
}

impl Exporting<'_> {
    /// What is chosen of the arrays.
    fn variables(&self) -> Result<Variables> {
        Variables::of(self.run, self.place, self.choice)
    }

    /// The name of the run.
    fn stem(&self) -> String {
        self.run.path().file_stem().map_or("run".into(), |s| s.to_string_lossy().into_owned())
    }
}

/// Which formats there are: the name, the ending, and what of it is a directory of ours.
const FORMATS: [(&str, &str); 8] = [
    ("npz", "npz"),
    ("zarr", "zarr"),
    ("netcdf", "nc"),
    ("openpmd", "openpmd"),
    ("vtkhdf", "vtkhdf"),
    ("h5md", "h5md"),
    ("csv", "csv"),
    ("text", "txt"),
];

impl Export {
    /// Does it.
    pub fn run(&self, out: &Out) -> Result<()> {
        let format = self.format()?;
        let run = forebay::open(&self.run, Mode::Read, Default::default())?;
        doubt(&run);
        let (bar, progress) = bar("exporting", Unit::Bytes);
        let interrupt = Interrupt::watch()?;
        let (wanted, why): (&[ChoiceKind], &str) = match format {
            "" => (&[ChoiceKind::Array], "a view shows arrays of snapshots; copy it with --to"),
            "openpmd" | "vtkhdf" => (
                &[ChoiceKind::Array],
                "this format holds meshes and particles of snapshots; take --to csv or text",
            ),
            "h5md" => (
                &[ChoiceKind::Array, ChoiceKind::Table],
                "this format holds particles of snapshots, and histories; take --to npz, csv or text",
            ),
            "csv" => (&[ChoiceKind::Table], "--to csv holds tables; take --to npz, zarr, netcdf or text"),
            "txt" => (&ChoiceKind::ALL, ""),
            _ => {
                (&[ChoiceKind::Array, ChoiceKind::DataSet], "this format holds arrays; take --to csv or text")
            }
        };
        let choice = self.choice.within(&[&run], &self.run, wanted, why)?;
        let job = Exporting { run: &run, place: &self.run, choice: &choice, interrupt, progress };
        let views = run.path().join(VIEWS);
        let (path, what) = match (&self.view, format) {
            (Some(path), _) => {
                (path.clone(), self.make(path, Some(&views), |tmp| view::write(&job, tmp, path))?)
            }
            (None, ending) => {
                let path = self.target(ending, &job)?;
                let what = self.make(&path, None, |tmp| match ending {
                    "npz" => npz::write(&job, tmp),
                    "zarr" => zarr::write(&job, tmp),
                    "nc" => netcdf::write(&job, tmp),
                    "openpmd" => openpmd::write(&job, tmp),
                    "vtkhdf" => vtkhdf::write(&job, tmp),
                    "h5md" => h5md::write(&job, tmp),
                    "csv" => csv::write(&job, tmp),
                    _ => text::write(&job, tmp),
                })?;
                (path, what)
            }
        };
        bar.finish_and_clear();
        let mut said = json!({"file": path});
        if let (Value::Object(into), Value::Object(from)) = (&mut said, what.clone()) {
            into.extend(from);
        }
        out.either(|| said, || format!("{}: {}", path.display(), words(&what)))
    }

    /// The ending of what is made; of a view nothing.
    fn format(&self) -> Result<&'static str> {
        let Some(to) = &self.to else { return Ok("") };
        let known: Vec<&str> = FORMATS.iter().map(|(name, _)| *name).collect();
        FORMATS.iter().find(|(name, _)| name == to).map(|(_, ending)| *ending).ok_or_else(|| {
            Error::bad(format!("there is no export to {to:?}; give one of {}", known.join(", ")))
        })
    }

    /// Makes it under another name, and gives it its own when it is whole.
    fn make(
        &self,
        path: &Path,
        views: Option<&Path>,
        write: impl FnOnce(&Path) -> Result<Value>,
    ) -> Result<Value> {
        let target = Destination::new(path, self.force, views)?;
        let what = write(target.tmp())?;
        target.finish(|dir| zarr::is_ours(dir) || csv::is_ours(dir) || openpmd::is_ours(dir))?;
        Ok(what)
    }

    fn target(&self, ending: &str, job: &Exporting) -> Result<PathBuf> {
        if let Some(given) = &self.output {
            return Ok(given.clone());
        }
        if ending == "csv" {
            return csv::target(job);
        }
        let apart = if ending == "openpmd" { '_' } else { '.' };
        Ok(PathBuf::from(format!("{}{apart}{ending}", job.stem())))
    }
}

/// Failed in writing a file.
fn wrong(path: &Path, e: std::io::Error) -> Error {
    Error::io(format!("cannot write {}", path.display()), e)
}

/// What was made, for people.
fn words(what: &Value) -> String {
    let mut words = Vec::new();
    for (key, one) in [("arrays", "array"), ("tables", "table"), ("steps", "snapshot")] {
        if let Some(n) = what[key].as_u64().filter(|n| *n > 0) {
            words.push(forebay_types::counted(n, one));
        }
    }
    let mut text = words.join(", ");
    if let Some(names) = what["ragged"].as_array().filter(|names| !names.is_empty()) {
        let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
        text.push_str(&format!(
            "; not alike at all snapshots, so one array a snapshot: {}",
            names.join(", ")
        ));
    }
    if let Some(note) = what["note"].as_str() {
        text.push_str(&format!("; {note}"));
    }
    text
}

/// What was made of arrays, for machines.
fn made(variables: &Variables) -> Value {
    json!({
        "arrays": variables.all.len(), "steps": if variables.has_steps() { variables.steps.len() } else { 0 },
        "ragged": variables.ragged,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_is_said_in_one_line() {
        assert_eq!(words(&json!({"arrays": 2, "steps": 1, "ragged": []})), "2 arrays, 1 snapshot");
        let ragged = words(&json!({"arrays": 1, "steps": 0, "ragged": ["x"], "note": "n"}));
        assert_eq!(ragged, "1 array; not alike at all snapshots, so one array a snapshot: x; n");
    }
}
