//! The terms on which a run is open: all ranks come with the same ones, and each takes its own
//! place. Pure: what the first rank said, what the next one says, and what differs.

use forebay_types::control::{Mode, OpenRun, WhenFull};
use forebay_types::line::Launched;
use forebay_types::{Code, Error, Result, counted};
use std::path::Path;

/// Who opens a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opener {
    /// A process of this host that goes with it: the program, or this one for a program elsewhere.
    pub here: u32,
    /// The program, as its own host numbers it.
    pub pid: u32,
    /// Its host.
    pub host: String,
    /// What started it.
    pub launched: Option<Launched>,
    /// The session whose rest it brings, of a program that is gone.
    pub after: Option<u64>,
}

impl Opener {
    /// Whether it only brings the rest of a dead session.
    pub fn brings(&self) -> bool {
        self.after.is_some()
    }

    /// Whether one launcher has started both, as two programs.
    pub fn is_another_program_beside(&self, other: &Opener) -> bool {
        let both = self.launched.as_ref().zip(other.launched.as_ref());
        both.is_some_and(|(a, b)| a.by == b.by && a.program != b.program)
    }
}

impl std::fmt::Display for Opener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {} on host {}", self.pid, self.host)
    }
}

/// What the first rank of the run's life opened it with.
#[derive(Clone, Debug)]
pub struct Terms {
    rank: u32,
    who: Opener,
    /// Number of ranks.
    pub size: u32,
    mode: Mode,
    full: WhenFull,
    scratch: bool,
}

impl Terms {
    /// Those of the rank that opens the run.
    pub fn of(open: &OpenRun, who: &Opener) -> Terms {
        let OpenRun { rank, size, mode, full, scratch, .. } = *open;
        Terms { rank, who: who.clone(), size, mode, full, scratch }
    }

    /// Whether no rank has set them: who only brings the rest of a dead session does not.
    pub fn are_nobodys(&self) -> bool {
        self.who.brings()
    }

    /// Whether a client has opened the run, before any rank.
    pub fn is_clients(&self) -> bool {
        self.size == 0
    }

    /// Whether another rank may join; `seats` are the ranks that are there, with their programs.
    pub fn admit<'a>(
        &'a self,
        run: &Path,
        open: &OpenRun,
        who: &Opener,
        mut seats: impl Iterator<Item = (u32, &'a Opener)>,
    ) -> Result<()> {
        let rank = open.rank;
        let refused = |text: String| Err(Error::new(Code::Conflict, format!("{}: {text}", run.display())));
        let other = seats.next();
        let free = self.are_nobodys() || who.brings();
        if let Some((_, of)) =
            other.filter(|_| !free).filter(|(_, of)| self.size == 1 && open.size == 1 && *of != who)
        {
            return refused(format!(
                "another program ({of}) is writing this run; wait for its end, or end it (`forebay steer {} end` has it save and end when it is in its loop; a notebook closes the run itself), or look at the run with mode \"r\" meanwhile",
                run.display()
            ));
        }
        let mut seats = other.into_iter().chain(seats);
        if !free && open.size != self.size {
            let (first, of) = seats.next().unwrap_or((self.rank, &self.who));
            return refused(format!(
                "rank {rank} ({who}) opens it as one of {}, and it is held with {} by {of} as rank {first}; start all ranks with one size, close it there, or look at it with mode \"r\"",
                counted(open.size, "rank"),
                self.size
            ));
        }
        if let Some((_, of)) = seats.find(|s| s.0 == rank) {
            if of == who {
                return refused(format!(
                    "this process has it open already, as rank {rank} of {}; go on with that run, or close it first",
                    self.size
                ));
            }
            return refused(format!(
                "{who} opens it as rank {rank}, and it is held by {of} as that rank; give each process its own rank, close it there, or look at it with mode \"r\""
            ));
        }
        if free {
            return Ok(());
        }
        let differs = |what: &str, theirs: &str, ours: &str| {
            refused(format!(
                "rank {rank} ({who}) opens it with {what} {theirs}, rank {} ({}) opened it with {ours}; all ranks of a run give the same",
                self.rank, self.who
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
            elsewhere: Default::default(),
            program: "test".into(),
        }
    }

    fn refusal(open: &OpenRun) -> String {
        refusal_of(open, &Opener::local(101))
    }

    fn refusal_of(open: &OpenRun, who: &Opener) -> String {
        let first = Opener::local(100);
        let terms = Terms::of(&rank(0), &first);
        terms.admit(Path::new("/x.fb"), open, who, [(0, &first)].into_iter()).unwrap_err().text().to_owned()
    }

    #[test]
    fn programs_are_beside_each_other_that_one_launcher_has_started_and_nobody_else() {
        let remote = |by: &str, program| {
            Opener::remote(7, "elsewhere".into(), Some(Launched { by: by.into(), program }))
        };
        let one = remote("boot:1:50:9", 1);
        assert!(one.is_another_program_beside(&remote("boot:1:50:9", 2)));
        assert!(!one.is_another_program_beside(&remote("boot:1:50:9", 1)), "the same program");
        assert!(
            !one.is_another_program_beside(&remote("other boot:1:50:9", 2)),
            "the same pid on another host"
        );
        let silent = Opener::remote(7, "elsewhere".into(), None);
        assert!(!one.is_another_program_beside(&silent) && !silent.is_another_program_beside(&silent));
    }

    #[test]
    fn a_rank_that_differs_is_told_what_differs_and_from_whom() {
        let first = Opener::local(100);
        let other_buffer = OpenRun { buffer: 9 << 20, ..rank(1) };
        let seats = [(0, &first)].into_iter();
        Terms::of(&rank(0), &first)
            .admit(Path::new("/x.fb"), &other_buffer, &Opener::local(101), seats)
            .unwrap();
        let size = refusal(&OpenRun { size: 3, ..rank(1) });
        assert!(size.contains("rank 1 (process 101 on host ") && size.contains("one of 3"), "{size}");
        assert!(size.contains("with 2 by process 100"), "{size}");
        let mode = refusal(&OpenRun { mode: Mode::Write, ..rank(1) });
        assert!(mode.contains("mode \"w\"") && mode.contains("opened it with \"a\""), "{mode}");
        assert!(refusal(&OpenRun { full: WhenFull::DropNewest, ..rank(1) }).contains("\"drop_newest\""));
        assert!(refusal(&OpenRun { scratch: true, ..rank(1) }).contains("scratch = true"));
        assert!(refusal(&rank(0)).contains("held by process 100"));
        let alone = OpenRun { size: 1, ..rank(0) };
        let terms = Terms::of(&alone, &first);
        let second = terms.admit(Path::new("/x.fb"), &alone, &Opener::local(102), [(0, &first)].into_iter());
        let second = second.unwrap_err().text().to_owned();
        assert!(
            second.contains("another program (process 100 on host ") && !second.contains("rank"),
            "{second}"
        );
        let again = refusal_of(&rank(0), &Opener::local(100));
        assert!(again.contains("this process has it open already, as rank 0 of 2"), "{again}");
        let remote = refusal_of(&rank(0), &Opener::remote(100, "elsewhere".into(), None));
        assert!(remote.contains("process 100 on host elsewhere opens it as rank 0"), "{remote}");
    }
}
