//! A store that is lost while its ranks live, to another process that took the run: whoever waits is
//! told, and nothing that was acknowledged is lost.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::{Sandbox, check, sandbox, take, until};
use forebay::{Code, Error, Mode, OpenOptions, PutOptions, Run, View};
use forebay_store::catalog::Catalog;
use forebay_store::disk::{Disk, System};
use forebay_store::layout::Layout;

const N: usize = 10_000;
/// Seconds are promised; a machine that is busy with other tests is given more.
const SOON: Duration = Duration::from_secs(20);

fn open(at: &Path) -> Run {
    let options = OpenOptions { buffer: 16 << 20, ..Default::default() };
    forebay::open(at.to_str().unwrap(), Mode::Append, options).unwrap()
}

fn all_are_told(s: &Sandbox) {
    let dir = s.dir.join("lost.fb");
    let run = open(&dir);
    take(&run, 0, N).unwrap().wait(None).unwrap();
    // The catalog bears the number of another owner, and that one is writing just now: the owner waits
    // for its turn while requests come, and learns then that it may write nothing more.
    let disk: Arc<dyn Disk> = Arc::new(System);
    let mut other = Catalog::open(&disk, &Layout::new(&dir), 1_000_000).unwrap();
    let asking = AtomicUsize::new(0);
    let begins = || asking.fetch_add(1, Ordering::SeqCst);
    let began = Instant::now();
    let told = std::thread::scope(|threads| {
        let waits = other.transaction(|_| {
            let last = take(&run, 1, N).unwrap();
            let waits = [
                threads.spawn(|| (begins(), run.flush().unwrap_err()).1),
                threads.spawn(move || (begins(), last.wait(None).unwrap_err()).1),
                threads.spawn(|| (begins(), run.rename("a", "b").unwrap_err()).1),
            ];
            until("all to ask", || asking.load(Ordering::SeqCst) == 3);
            Ok(waits)
        });
        waits.unwrap().map(|wait| wait.join().unwrap())
    });
    let is_lost = |e: &Error| e.code() == Code::ServerLost && e.text().contains("lost");
    assert!(told.iter().all(is_lost), "{told:?}");
    // Some calls later at most: what was said late is told first.
    until("a put to be refused", || {
        run.put("a", View::raw(b"x"), PutOptions::default()).is_err_and(|e| is_lost(&e))
    });
    assert!(run.close().is_err());
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    drop(run);
    let again = open(&dir);
    assert_eq!(again.snapshots().unwrap().numbers().unwrap(), [0, 1]);
    [0, 1].iter().for_each(|step| check(&again, *step, N));
    again.close().unwrap();
}

#[test]
fn whoever_waits_for_an_embedded_store_that_is_lost_is_told() {
    sandbox("whoever_waits_for_an_embedded_store_that_is_lost_is_told", all_are_told);
}

#[test]
fn whoever_waits_for_an_agents_store_that_is_lost_is_told() {
    sandbox("whoever_waits_for_an_agents_store_that_is_lost_is_told", |s| {
        forebay_agent::start_to_stay().unwrap();
        all_are_told(s);
    });
}
