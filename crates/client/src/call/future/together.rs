//! Several calls at a time: waiting for all or any of them, looking at them, giving them up.

use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_link::standing;

use super::{Future, end_of};

/// Waits for all of them; says whether all are complete.
pub fn wait_all(futures: &mut [&mut Future], timeout: Option<Duration>) -> bool {
    let deadline = end_of(timeout);
    futures.iter_mut().all(|f| f.advance(deadline, deadline))
}

/// Looks whether one of them is complete; its index.
pub fn probe_any(futures: &mut [&mut Future]) -> Option<usize> {
    futures.iter_mut().position(|f| f.done())
}

/// Gives all of them up that are not complete.
pub fn cancel_all(futures: &mut [&mut Future]) {
    futures.iter_mut().for_each(|f| f.cancel());
}

/// Waits for one of them; its index, or `None` when the time was over or there are none. Futures
/// of several clients are looked at in turn.
pub fn wait_any(futures: &mut [&mut Future], timeout: Option<Duration>) -> Option<usize> {
    let deadline = end_of(timeout);
    let first = futures.first()?.inner.clone();
    let _wait = standing::Wait::begin();
    let several = futures.iter().any(|f| !Arc::ptr_eq(&f.inner, &first));
    loop {
        let slice = several.then(|| Instant::now() + Duration::from_millis(1));
        let until = [deadline, slice].into_iter().flatten().min();
        let waited = first.pump.wait(|| futures.iter().any(|f| f.has_news()), until);
        if let Err(objection) = waited
            && let Some(waits) = futures.iter_mut().find(|f| f.is_under_way() && !f.is_ready())
        {
            waits.end_with(objection.within(waits.offer.signature.name()));
        }
        let now = Some(Instant::now());
        if let Some(index) = futures.iter_mut().position(|f| f.advance(now, deadline)) {
            return Some(index);
        }
        if deadline.is_some_and(|d| Instant::now() >= d) {
            return None;
        }
    }
}
