//! The loop head: the one place where a run is steered.

use forebay_types::Result;

use crate::snapshot::pending;

/// Yields the steps of a run; see [`crate::Run::steps`].
pub struct Steps {
    _private: (),
}

impl Steps {
    /// The step about to be computed; `None` at the end, or when somebody pressed Quit. Waits
    /// while the run is held. Under 100 ns when there is nothing to do.
    #[expect(clippy::should_implement_trait, reason = "it can fail and it is not an iterator")]
    pub fn next(&mut self) -> Result<Option<i64>> {
        pending()
    }
}
