//! Where an export goes: it is made beside the target under another name, made durable, and renamed when it is whole.

use super::super::making;
use forebay::{Code, Error, Result};
use forebay_store::layout::CATALOG;
use std::fs::File;
use std::path::{Path, PathBuf};

/// How the name of one ends.
const ENDING: &str = ".tmp";

/// A file or directory in the making.
pub struct Destination {
    path: PathBuf,
    tmp: PathBuf,
    force: bool,
    is_named: bool,
}

impl Destination {
    /// Begins it. `Conflict` when something is there and `force` is not set. Within a run there is room in `views` alone,
    /// if that is given.
    pub fn new(path: &Path, force: bool, views: Option<&Path>) -> Result<Destination> {
        let name = path.file_name().ok_or_else(|| {
            Error::bad(format!("{} is no name of a file; give one with -o", path.display()))
        })?;
        let above = above(path);
        let is_among_views = views.is_some_and(|views| is_views(above, views));
        if is_among_views && !above.exists() {
            std::fs::create_dir(above)
                .map_err(|e| Error::io(format!("cannot make {}", above.display()), e))?;
        }
        if !above.is_dir() {
            return Err(Error::new(
                Code::NotFound,
                format!("there is no directory {0}; make {0} first", above.display()),
            ));
        }
        if !is_among_views {
            outside_of_runs(path, above)?;
        }
        let name = name.to_string_lossy();
        let tmp = making::place(above, &name, ENDING);
        let target = Destination { path: path.to_owned(), tmp, force, is_named: false };
        target.check()?;
        making::left(above, &name, ENDING).iter().for_each(|left| making::remove(left));
        Ok(target)
    }

    /// Where it is made.
    pub fn tmp(&self) -> &Path {
        &self.tmp
    }

    fn check(&self) -> Result<()> {
        match self.force || std::fs::symlink_metadata(&self.path).is_err() {
            true => Ok(()),
            false => Err(Error::new(
                Code::Conflict,
                format!(
                    "{} is there already; give another name with -o, or replace it with --force",
                    self.path.display()
                ),
            )),
        }
    }

    fn wrong(&self, what: &str, e: std::io::Error) -> Error {
        Error::io(format!("cannot {what} {}", self.tmp.display()), e)
    }

    /// Gives what is whole its name; durable when it returns. What is replaced has to be of the kind that `is_ours`
    /// knows, when it is a directory.
    pub fn finish(mut self, is_ours: impl Fn(&Path) -> bool) -> Result<()> {
        let made = File::open(&self.tmp).map_err(|e| self.wrong("open", e))?;
        let is_dir = made.metadata().is_ok_and(|m| m.is_dir());
        // A directory has many files, which the file system makes durable together.
        let synced = if is_dir { rustix::fs::syncfs(&made).map_err(Into::into) } else { made.sync_all() };
        synced.map_err(|e| self.wrong("make durable", e))?;
        self.check()?;
        if self.path.is_dir() {
            if !is_dir || !is_ours(&self.path) {
                return Err(Error::new(
                    Code::Conflict,
                    format!(
                        "{} is a directory of something else and is not replaced; give another name with -o",
                        self.path.display()
                    ),
                ));
            }
            let old = self.tmp.with_extension("old");
            std::fs::rename(&self.path, &old).map_err(|e| self.wrong("make room for", e))?;
            self.name()?;
            std::fs::remove_dir_all(&old)
                .map_err(|e| Error::io(format!("cannot remove {}", old.display()), e))?;
        } else {
            self.name()?;
        }
        let dir = File::open(above(&self.path)).and_then(|dir| dir.sync_all());
        dir.map_err(|e| self.wrong("make durable the name of", e))
    }

    fn name(&mut self) -> Result<()> {
        std::fs::rename(&self.tmp, &self.path).map_err(|e| self.wrong("rename", e))?;
        self.is_named = true;
        Ok(())
    }
}

impl Drop for Destination {
    fn drop(&mut self) {
        if !self.is_named {
            making::remove(&self.tmp);
        }
    }
}

/// Whether a directory, which need not be there yet, is that of the views of a run.
fn is_views(dir: &Path, views: &Path) -> bool {
    let run = |dir: &Path| above(dir).canonicalize().ok();
    dir.file_name() == views.file_name() && run(dir).is_some() && run(dir) == run(views)
}

/// Refuses a place within a run: an export replaces nothing of what a run is made of.
fn outside_of_runs(path: &Path, above: &Path) -> Result<()> {
    let whole = above.canonicalize().map_err(|e| Error::io(format!("cannot use {}", above.display()), e))?;
    match whole.ancestors().find(|dir| dir.join(CATALOG).is_file()) {
        None => Ok(()),
        Some(run) => Err(Error::bad(format!(
            "{} is within the run {}, which has that directory for itself; give a place outside of runs",
            path.display(),
            run.display()
        ))),
    }
}

fn above(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
