//! What has no place in a format, and why.

use super::Exporting;
use forebay::{Code, Error};
use std::collections::{BTreeMap, BTreeSet};

/// What may be done about it.
pub const DECLARE: &str =
    "`snapshot.mesh` and `snapshot.particles` declare them, and --to netcdf takes all arrays";

/// Names by the reason that they are left out for.
#[derive(Default)]
pub struct LeftOut(BTreeMap<&'static str, BTreeSet<String>>);

impl LeftOut {
    /// Leaves one out.
    pub fn add(&mut self, why: &'static str, name: &str) {
        self.0.entry(why).or_default().insert(name.to_owned());
    }

    /// Whether one is.
    pub fn has(&self, name: &str) -> bool {
        self.0.values().any(|names| names.contains(name))
    }

    /// All that are.
    pub fn names(&self) -> BTreeSet<&String> {
        self.0.values().flatten().collect()
    }

    /// In words for people; nothing where nothing is left out.
    pub fn note(&self) -> Option<String> {
        let reason = |(why, names): (&&str, &BTreeSet<String>)| {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            format!("{} ({why})", names.join(", "))
        };
        let all: Vec<String> = self.0.iter().map(reason).collect();
        (!all.is_empty()).then(|| format!("left out: {}", all.join("; ")))
    }

    /// The error when nothing is left that the format holds.
    pub fn nothing(&self, job: &Exporting, what: &str, remedy: &str) -> Error {
        let why = self.note().map_or(String::new(), |note| format!("; {note}"));
        Error::new(Code::NotFound, format!("{} has no {what}, in what is chosen{why}; {remedy}", job.place))
    }
}
