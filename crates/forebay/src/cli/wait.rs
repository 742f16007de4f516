//! A command that waits in the kernel for a disk says so.

use std::time::Duration;

/// How often it is looked at.
const BETWEEN: Duration = Duration::from_secs(1);
/// So many looks in a row that find it waiting are told.
const LOOKS: u32 = 3;

/// Looks at the calling thread from now on. One that lies in one call of the kernel, and cannot be interrupted, waits
/// for a disk.
pub fn watch() {
    let thread = std::path::PathBuf::from(format!("/proc/self/task/{}/stat", std::process::id()));
    let waits = move || {
        let seen = std::fs::read_to_string(&thread).unwrap_or_default();
        seen.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('D'))
    };
    let watch = move || {
        let mut looks = 0;
        while looks < LOOKS {
            std::thread::sleep(BETWEEN);
            looks = if waits() { looks + 1 } else { 0 };
        }
        eprintln!("forebay: the disk has not answered for {LOOKS} s; this waits until it does");
    };
    // Without it the command is as good.
    let _ = std::thread::Builder::new().name("wait".into()).spawn(watch);
}
