//! A library that is loaded, and what it offers as services.

use std::sync::{Arc, Mutex};

use forebay_idl::{Library, Routine, Threads};
use forebay_server::Body;
use forebay_types::{Code, Error, Result, Signature, counted};

use crate::call;
use crate::ffi::{Handle, Symbol};
use crate::prepared::{Form, Prepared};

/// How many missing symbols are named.
const NAMED: usize = 5;

/// A library in this process.
pub struct Loaded {
    path: String,
    handle: Handle,
}

impl Loaded {
    /// Loads a library by a name that the loader finds, or by a path with a slash. Its environment must have been set before.
    pub fn open(path: &str) -> Result<Loaded> {
        let handle = Handle::open(path).map_err(|why| {
            Error::new(
                Code::NotFound,
                format!("cannot load {path}: {why}; install it, or give its path with a slash in it"),
            )
        })?;
        Ok(Loaded { path: path.to_owned(), handle })
    }

    pub(crate) fn symbol(&self, routine: &Routine) -> Option<Symbol> {
        self.handle.symbol(&routine.symbol)
    }

    /// Those whose symbol it has not, in the order of the file.
    pub fn missing<'a>(&self, library: &'a Library) -> Vec<&'a Routine> {
        library.routines.iter().filter(|r| self.symbol(r).is_none()).collect()
    }

    /// Two services for each routine, but for those that are withdrawn by name.
    pub fn services(&self, library: &Library, withdrawn: &[String]) -> Result<Vec<(Signature, Box<Body>)>> {
        let missing = self.missing(library);
        if !missing.is_empty() {
            let names: Vec<String> =
                missing.iter().take(NAMED).map(|r| format!("{} (line {})", r.symbol, r.place.line)).collect();
            return Err(Error::new(
                Code::NotFound,
                format!(
                    "{} has not {} that the interface file names: {}; correct or leave out those lines, \
                     `forebay serve --check` offers names that are alike",
                    self.path,
                    counted(missing.len(), "symbol"),
                    names.join(", "),
                ),
            ));
        }
        let lock = Arc::new(Mutex::new(()));
        let mut services: Vec<(Signature, Box<Body>)> = Vec::new();
        for (number, routine) in library.routines.iter().enumerate() {
            if withdrawn.contains(&routine.name) {
                continue;
            }
            let lock = match routine.threads {
                Threads::Safe => None,
                Threads::Serial => Some(lock.clone()),
                Threads::Process => {
                    let why = "threads process is not served by this version; write threads serial, and start as many servers as \
                               are to work at a time";
                    return Err(Error::bad(format!("{}: {why}", routine.name)));
                }
            };
            let symbol = self.symbol(routine).ok_or_else(|| Error::internal("a symbol has gone"))?;
            let prepared = Arc::new(Prepared::new(routine, number as u32, symbol, lock)?);
            for (published, native) in [(&routine.plain, false), (&routine.native, true)] {
                let (prepared, form) = (prepared.clone(), Form::new(routine, published, native));
                services.push((
                    published.signature.clone(),
                    Box::new(move |call| call::run(&prepared, &form, call)),
                ));
            }
        }
        Ok(services)
    }
}
