//! Ctrl-C in the middle of long work: what is half goes, and nothing is at the target.

use forebay::{Code, Error, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the work is to end.
#[derive(Clone)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on these signals end the work where it is looked at; the second one ends the process at once.
    pub fn watch() -> Result<Interrupt> {
        let told = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // The first of the two looks before the second has noted that the signal came.
            let registered =
                signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, told.clone())
                    .and_then(|_| signal_hook::flag::register(signal, told.clone()));
            registered.map_err(|e| Error::io("cannot wait for signals", e))?;
        }
        Ok(Interrupt(told))
    }

    /// `Cancelled` when a signal came.
    pub fn check(&self) -> Result<()> {
        match self.0.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(Error::new(Code::Cancelled, "interrupted; what was half done is taken away again")),
        }
    }
}
