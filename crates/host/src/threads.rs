//! Threads that work behind the program's own.

use crate::ffi;
use rustix::thread::{CpuSet, sched_setaffinity};

/// Frees this thread, and those that it starts, of what it has from the one that started it and that is meant for
/// that one alone:
///
/// - the core to which a launcher has bound a rank: it runs on every core that the system lets this process have;
/// - traps of floating-point exceptions (`gfortran -ffpe-trap`): a value of the program that is no number, or a range
///   without width, would end the program by a signal in a thread that it does not know of.
pub fn work_behind() {
    ffi::trap_no_exceptions();
    let mut all = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|core| all.set(core));
    // The kernel takes away what the job's set of cores does not hold. Without the right to change it the
    // thread stays where it is.
    let _ = sched_setaffinity(None, &all);
}
