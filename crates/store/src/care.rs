//! Care for a run: finish what a dead owner left, check every byte, make the catalog anew from
//! the files, drop what nobody needs. Each takes the lock first when it writes, so it is safe at
//! any time: a live owner makes it refuse.

mod compare;
mod doubt;
mod manifests;
pub(crate) mod pack;
mod packs;
mod repair;
mod salvage;
mod verify;

pub use doubt::{Doubt, doubt};
pub use pack::PackOptions;
pub use repair::{Repaired, lacks_catalog, repair, repair_with};
pub use salvage::Saved;
pub use verify::{Report, verify, verify_with};

use crate::catalog::{self, Catalog};
use crate::disk::{Disk, System};
use crate::layout::{Layout, with_end};
use crate::lock::Lock;
use crate::owner::{Options, Owner, Says, files};
use crate::reader::Reader;
use forebay_types::control::{Elsewhere, Mode, Packed};
use forebay_types::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Hears how far a long work has come: so much of so much, in the unit that the work names.
pub type Progress = Arc<dyn Fn(u64, u64) + Send + Sync>;

fn unheard() -> Progress {
    Arc::new(|_, _| {})
}

/// Finishes what an owner that died left behind; says which step is the last one now. Refused
/// while another process holds the run.
pub fn recover(dir: &Path) -> Result<Option<i64>> {
    recover_with(dir, Elsewhere::Refuse, &unheard(), None)
}

/// Who recovers a run is told of a disk that does not answer for so long.
const SILENCE: Duration = Duration::from_secs(3);

/// Finishes what an owner that died left behind; says which step is the last one now. `progress` hears how many bytes
/// of those in shared memory are written, and `says` what this waits for. What was there and could not be kept is an
/// error; everything else is recovered then all the same.
pub fn recover_with(
    dir: &Path,
    elsewhere: Elsewhere,
    progress: &Progress,
    says: Option<Says>,
) -> Result<Option<i64>> {
    let progress = Some(progress.clone());
    let mode = Mode::ReadWrite;
    // Somebody sits before it.
    let silence = SILENCE;
    let owner = Owner::open(dir, Options { mode, elsewhere, progress, says, silence, ..Options::default() })?;
    let not_recovered = owner.not_recovered()?;
    owner.close()?;
    match not_recovered.first() {
        None => Ok(Reader::open(dir)?.last_step()?.map(|s| s.step)),
        Some(e) => {
            let text = format!(
                "{}: not all that was left could be kept, everything else is recovered: {}{}",
                dir.display(),
                e.text(),
                if not_recovered.len() > 1 { "; and more" } else { "" }
            );
            Err(Error::new(e.code(), text))
        }
    }
}

/// Drops unfinished and unreferenced files, steps in packs that are listed no more, and the gaps in the catalog; says
/// how many bytes that saved. Refused while another process holds the run.
pub fn compact(dir: &Path) -> Result<u64> {
    compact_with(dir, Elsewhere::Refuse, &unheard())
}

/// Packs small steps of one layout that follow each other; says which stay single, and why. `progress` hears how many bytes
/// of their arrays are done. Refused while another process holds the run.
pub fn pack_with(
    dir: &Path,
    elsewhere: Elsewhere,
    options: &PackOptions,
    progress: &Progress,
) -> Result<Packed> {
    let mode = Mode::ReadWrite;
    let owner = Owner::open(dir, Options { mode, elsewhere, ..Options::default() })?;
    let done = owner.pack(options, progress);
    owner.close()?;
    done
}

/// Drops unfinished and unreferenced files and the gaps in the catalog; says how many bytes that saved. `progress`
/// hears how many bytes are written of what a dead program left, and then of the new catalog. Refused while another
/// process holds the run.
pub fn compact_with(dir: &Path, elsewhere: Elsewhere, progress: &Progress) -> Result<u64> {
    let before = size_of(dir);
    let disk: Arc<dyn Disk> = Arc::new(System);
    let layout = Layout::new(dir);
    let heard = Some(progress.clone());
    let options = Options { mode: Mode::ReadWrite, elsewhere, progress: heard, ..Options::default() };
    let owner = Owner::open(dir, options)?;
    let rewritten = owner.compact_packs(progress);
    owner.close()?;
    rewritten?;
    let lock = Lock::take(&disk, &layout.lock(), catalog::known_fence(&layout.catalog()))?;
    let mut catalog = Catalog::open(&disk, &layout, lock.fence())?;
    let size = |path: PathBuf| path.metadata().map_or(0, |m| m.len());
    let total = size(layout.catalog());
    let over = AtomicBool::new(false);
    // SQLite says nothing until it is done, but its log grows by what it has written.
    std::thread::scope(|s| {
        let looking = s.spawn(|| {
            while !over.load(Ordering::Acquire) {
                progress(size(with_end(&layout.catalog(), "-wal")).min(total), total);
                std::thread::park_timeout(LOOK);
            }
        });
        let done = catalog.vacuum().and_then(|()| catalog.settle());
        over.store(true, Ordering::Release);
        looking.thread().unpark();
        done
    })?;
    drop(catalog);
    Ok(before.saturating_sub(size_of(dir)))
}

/// Time between two looks at how far SQLite is.
const LOOK: Duration = Duration::from_millis(50);

fn size_of(dir: &Path) -> u64 {
    let layout = Layout::new(dir);
    [layout.root().to_owned(), layout.steps(), layout.packs(), layout.data()]
        .iter()
        .flat_map(|d| files(d))
        .filter_map(|p| p.metadata().ok())
        .filter(|m| m.is_file())
        .map(|m| m.len())
        .sum()
}
