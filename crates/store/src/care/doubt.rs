//! Whether the catalog that is read is all that programs have written into it, where nobody writes: its log may be
//! broken or gone, or an earlier catalog may lie there. What SQLite reads of such a pair looks sound.

use crate::catalog::{self, LogFault};
use crate::layout::Layout;
use crate::lock::{Holder, holder, read_holder};
use crate::owner::{broken, lost_records, up_to};
use std::path::Path;

/// What is not to be seen of a catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// What it is, and what helps.
    pub text: String,
    /// Whether it is damage for certain: what is broken after the host was started anew may be what nobody was
    /// told is durable.
    pub is_fault: bool,
}

/// Looks whether a catalog lacks something that programs have written. Changes nothing; of a run that somebody
/// writes nothing is said.
pub fn doubt(dir: &Path) -> Option<Doubt> {
    let layout = Layout::new(std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned()));
    if holder(&layout.lock()).is_some() {
        return None;
    }
    // First, since it is written last.
    let before = read_holder(&layout.lock());
    let fence = before.as_ref().map(|h| h.fence);
    let (path, run) = (layout.catalog(), layout.root().display());
    let conn = catalog::open_read_only(&path).ok()?;
    let behind = catalog::behind(&conn, before.as_ref()).ok()?;
    let (mut here, mut lost) = (Vec::new(), 0);
    for row in catalog::open_sessions(&conn).ok()? {
        // What a session has in memory goes on from what the catalog had of it.
        if let Ok((applied, Some(gap))) = lost_records(&layout, &conn, &row) {
            here.push((row.session, applied));
            lost += gap.end - gap.start;
        }
    }
    lost += behind.as_ref().map_or(0, |b| b.lost(&here));
    let lacks = match lost {
        0 => String::new(),
        n => format!(", {}", up_to(n, "programs")),
    };
    let is_older = behind.is_some() || lost > 0;
    let found = match catalog::bad_log(&path) {
        Some(LogFault::Broken(found)) => Doubt {
            text: format!(
                "the log of the catalog (catalog.sqlite-wal) is {}{lacks}; `forebay recover {run}` goes on with what can be read, and keeps the log",
                broken(&found)
            ),
            is_fault: is_older || before.as_ref().is_none_or(Holder::is_of_this_boot),
        },
        Some(LogFault::Overtaken) => Doubt {
            text: format!(
                "the log of the catalog (catalog.sqlite-wal) is damaged, and what is read with it older than the file alone{lacks}; `forebay recover {run}` puts it aside"
            ),
            is_fault: true,
        },
        // That cannot be opened, and was said.
        Some(LogFault::Later) => return None,
        None if is_older => Doubt {
            text: format!(
                "the catalog is older than what programs had written into it, as one that was copied back, or whose log (catalog.sqlite-wal) is gone{lacks}; put back what was there, or say `forebay recover {run}`, which goes on with this one"
            ),
            is_fault: true,
        },
        None if catalog::is_log_gone(&path, before.as_ref()?) => Doubt {
            text: format!(
                "a program that was killed left a log of the catalog (catalog.sqlite-wal), and it is not there: unless a tool of SQLite has moved it into the file, what stood in it alone is lost; `forebay recover {run}` goes on without it"
            ),
            is_fault: false,
        },
        None => return None,
    };
    // Somebody may have begun to write meanwhile.
    let is_free = holder(&layout.lock()).is_none();
    (is_free && read_holder(&layout.lock()).map(|h| h.fence) == fence).then_some(found)
}
