//! All runs that one owner shows.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use forebay_types::{Code, Error, Result};

use crate::past::Past;
use crate::run::Run;
use crate::say::RunInfo;
use crate::steering::Steer;

/// Most runs shown at a time.
pub const RUNS: usize = 256;

/// The runs by identity.
#[derive(Default)]
pub struct Hub {
    runs: RwLock<BTreeMap<String, Arc<Run>>>,
}

impl Hub {
    /// An empty one.
    pub fn new() -> Arc<Hub> {
        Arc::default()
    }

    /// Shows a run; `steer` carries its acts out, `past` keeps the points of its histories. Its
    /// tokens are made here.
    pub fn add(&self, info: RunInfo, steer: Arc<dyn Steer>, past: Option<Arc<dyn Past>>) -> Result<Arc<Run>> {
        let id = info.id.clone();
        let run = Run::new(info, steer, past)?;
        let mut runs = self.runs.write().unwrap_or_else(PoisonError::into_inner);
        if runs.len() == RUNS {
            return Err(Error::new(Code::Full, format!("{RUNS} runs are shown already")));
        }
        if runs.contains_key(&id) {
            return Err(Error::new(Code::Conflict, format!("run {id} is shown already")));
        }
        runs.insert(id, run.clone());
        Ok(run)
    }

    /// A run that is shown.
    pub fn get(&self, id: &str) -> Option<Arc<Run>> {
        self.runs.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    /// Shows a run no longer; its viewers are told that it is over.
    pub fn remove(&self, id: &str) {
        let removed = self.runs.write().unwrap_or_else(PoisonError::into_inner).remove(id);
        if let Some(run) = removed {
            run.close();
        }
    }

    /// How many people watch, over all runs.
    pub fn watching(&self) -> usize {
        self.runs.read().unwrap_or_else(PoisonError::into_inner).values().map(|r| r.watching()).sum()
    }
}
