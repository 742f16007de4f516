//! A library that is loaded, and what it offers as services.

use std::sync::{Arc, Mutex};

use forebay_idl::{Library, Routine, Threads};
use forebay_server::Body;
use forebay_types::{Code, Error, Result, Signature, counted};

use crate::call;
use crate::chain::Chain;
use crate::ffi::{Handle, Symbol};
use crate::prepared::{Form, Prepared};

/// How many missing symbols are named.
const NAMED: usize = 5;

/// A library in this process.
pub struct Loaded {
    path: String,
    handle: Handle,
    /// Routines that keep plans.
    chains: Mutex<Vec<Arc<Prepared>>>,
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
        Ok(Loaded { path: path.to_owned(), handle, chains: Mutex::default() })
    }

    pub(crate) fn symbol(&self, name: &str) -> Option<Symbol> {
        self.handle.symbol(name)
    }

    /// Symbols that it has not, in the order of the file, with who wants them.
    pub fn missing<'a>(&self, library: &'a Library) -> Vec<(&'a Routine, &'a str)> {
        let wanted = library.routines.iter().flat_map(|r| r.symbols().into_iter().map(move |s| (r, s)));
        wanted.filter(|(_, symbol)| self.symbol(symbol).is_none()).collect()
    }

    /// Frees what its routines have kept, when they are called no more.
    pub fn end(&self) {
        let chains = forebay_host::lock(&self.chains);
        chains.iter().filter_map(|routine| routine.chain.as_ref()).for_each(Chain::clear);
    }

    /// Two services for each routine, but for those that are withdrawn by name.
    pub fn services(&self, library: &Library, withdrawn: &[String]) -> Result<Vec<(Signature, Box<Body>)>> {
        let missing = self.missing(library);
        if !missing.is_empty() {
            let names: Vec<String> =
                missing.iter().take(NAMED).map(|(r, s)| format!("{s} (line {})", r.place.line)).collect();
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
        let (lock, planner) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
        let mut services: Vec<(Signature, Box<Body>)> = Vec::new();
        for (number, routine) in library.routines.iter().enumerate() {
            if withdrawn.contains(&routine.name) {
                continue;
            }
            let lock = match routine.threads {
                Threads::Safe => None,
                // A process for each worker is the supervisor's matter; this one has a worker, and what waits.
                Threads::Serial | Threads::Process => Some(lock.clone()),
            };
            let symbol = self.symbol(&routine.symbol).ok_or_else(|| Error::internal("a symbol has gone"))?;
            let mut prepared = Prepared::new(routine, number as u32, symbol, lock)?;
            prepared.chain = Chain::of(routine, |name| self.symbol(name), &planner)?;
            let prepared = Arc::new(prepared);
            if routine.chain.is_some() {
                forebay_host::lock(&self.chains).push(prepared.clone());
            }
            for (published, native) in [(&routine.plain, false), (&routine.native, true)] {
                // A chain has no symbol in whose place a stub could stand.
                if native && routine.chain.is_some() {
                    continue;
                }
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
