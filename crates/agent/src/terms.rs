//! The terms on which a run is open: all ranks come with the same ones, and each takes its own
//! place. Pure: what the first rank said, what the next one says, and what differs.

use forebay_arena::place;
use forebay_types::control::{Mode, OpenRun, WhenFull};
use forebay_types::{Code, Error, Result};
use std::path::Path;

/// What the first rank of the run's life opened it with.
#[derive(Clone, Debug)]
pub struct Terms {
    rank: u32,
    pid: u32,
    /// Number of ranks.
    pub size: u32,
    mode: Mode,
    full: WhenFull,
    scratch: bool,
}

impl Terms {
    /// Those of the rank that opens the run.
    pub fn of(open: &OpenRun, pid: u32) -> Terms {
        let OpenRun { rank, size, mode, full, scratch, .. } = *open;
        Terms { rank, pid, size, mode, full, scratch }
    }

    /// Whether another rank may join; `seats` are the ranks that are there, with their pids.
    pub fn admit(
        &self,
        run: &Path,
        open: &OpenRun,
        pid: u32,
        mut seats: impl Iterator<Item = (u32, u32)>,
    ) -> Result<()> {
        let (rank, host) = (open.rank, place::host());
        let refused = |text: String| Err(Error::new(Code::Conflict, format!("{}: {text}", run.display())));
        if open.size != self.size {
            let (first, of) = seats.next().unwrap_or((self.rank, self.pid));
            return refused(format!(
                "rank {rank} (process {pid}) opens it as one of {} ranks, and it is held with {} by process {of} on host {host} as rank {first}; start all ranks with one size, close it there, or look at it with mode \"r\"",
                open.size, self.size
            ));
        }
        if let Some((_, of)) = seats.find(|s| s.0 == rank) {
            if of == pid && pid != std::process::id() {
                return refused(format!(
                    "this process has it open already, as rank {rank} of {}; go on with that run, or close it first",
                    self.size
                ));
            }
            return refused(format!(
                "process {pid} opens it as rank {rank}, and it is held by process {of} on host {host} as that rank; give each process its own rank, close it there, or look at it with mode \"r\""
            ));
        }
        let differs = |what: &str, theirs: &str, ours: &str| {
            refused(format!(
                "rank {rank} (process {pid}) opens it with {what} {theirs}, rank {} (process {}) opened it with {ours}; all ranks of a run give the same",
                self.rank, self.pid
            ))
        };
        if open.mode != self.mode {
            return differs("mode", &format!("{:?}", open.mode.name()), &format!("{:?}", self.mode.name()));
        }
        if open.full != self.full {
            return differs("full =", &format!("{:?}", open.full.name()), &format!("{:?}", self.full.name()));
        }
        if open.scratch != self.scratch {
            return differs("scratch =", &open.scratch.to_string(), &self.scratch.to_string());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(rank: u32) -> OpenRun {
        OpenRun {
            path: "/x.fb".into(),
            mode: Mode::Append,
            rank,
            size: 2,
            full: WhenFull::Block,
            scratch: false,
            buffer: 1 << 20,
            program: "test".into(),
        }
    }

    fn refusal(open: &OpenRun) -> String {
        let terms = Terms::of(&rank(0), 100);
        terms.admit(Path::new("/x.fb"), open, 101, [(0, 100)].into_iter()).unwrap_err().text().to_owned()
    }

    #[test]
    fn a_rank_that_differs_is_told_what_differs_and_from_whom() {
        let terms = Terms::of(&rank(0), 100);
        let other_buffer = OpenRun { buffer: 9 << 20, ..rank(1) };
        terms.admit(Path::new("/x.fb"), &other_buffer, 101, [(0, 100)].into_iter()).unwrap();
        let size = refusal(&OpenRun { size: 3, ..rank(1) });
        assert!(size.contains("rank 1 (process 101)") && size.contains("one of 3"), "{size}");
        assert!(size.contains("with 2 by process 100"), "{size}");
        let mode = refusal(&OpenRun { mode: Mode::Write, ..rank(1) });
        assert!(mode.contains("mode \"w\"") && mode.contains("opened it with \"a\""), "{mode}");
        assert!(refusal(&OpenRun { full: WhenFull::DropNewest, ..rank(1) }).contains("\"drop_newest\""));
        assert!(refusal(&OpenRun { scratch: true, ..rank(1) }).contains("scratch = true"));
        assert!(refusal(&rank(0)).contains("held by process 100"));
        let again = terms.admit(Path::new("/x.fb"), &rank(0), 100, [(0, 100)].into_iter()).unwrap_err();
        assert!(again.text().contains("this process has it open already, as rank 0 of 2"), "{again}");
    }
}
