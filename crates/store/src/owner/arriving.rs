//! Blocks of a mirror, whose bytes come from another host behind the record that names them: what
//! the drain is to write waits here until the last byte is there. For any other block there is
//! nothing to wait for.

use super::drain::{Data, Job};
use super::intake::Intake;
use super::session::Session;
use forebay_types::{Code, Error};

impl Job {
    /// The block that it writes, and for which session.
    fn block(&self) -> Option<(u64, &forebay_arena::Block)> {
        let (session, data) = match self {
            Job::Write(_, part) => (part.ticket.0, &part.data),
            Job::Put(put) => (put.session, &put.data),
            _ => return None,
        };
        match data {
            Data::Block(block) => Some((session, block)),
            Data::Inline(_) => None,
        }
    }

    fn is_ready(&self) -> bool {
        self.block().is_none_or(|(_, block)| block.is_there())
    }

    fn is_of(&self, step: i64) -> bool {
        matches!(self, Job::Write(of, _) if *of == step)
    }
}

impl Intake {
    /// Sends a job to the drain as soon as its bytes are there.
    pub(super) fn send_job(&mut self, job: Job) {
        match job.is_ready() {
            true => drop(self.jobs.send(job)),
            false => self.arriving.push(job),
        }
    }

    /// Whether bytes of a step are still on their way.
    pub(super) fn is_arriving(&self, step: i64) -> bool {
        self.arriving.iter().any(|job| job.is_of(step))
    }

    /// What waits for bytes of a step that is given up.
    pub(super) fn forget_arriving(&mut self, step: i64) {
        self.arriving.retain(|job| !job.is_of(step));
    }

    /// Sends what has arrived; what never will is given up. Says whether there was anything.
    pub(super) fn take_arrived(&mut self) -> bool {
        if self.arriving.is_empty() {
            return false;
        }
        let ready: Vec<Job> = self.arriving.extract_if(.., |job| job.is_ready()).collect();
        let any = !ready.is_empty();
        for job in ready {
            let _ = self.jobs.send(job);
        }
        let gone = |n: u64| self.sessions.get(&n).is_none_or(|s: &Session| s.hung);
        let lost: Vec<Job> =
            self.arriving.extract_if(.., |job| job.block().is_some_and(|(n, _)| gone(n))).collect();
        for job in lost {
            let text = "the bytes of it did not arrive: the rank on another host, or the line to it, is gone";
            match job {
                Job::Write(step, _) => {
                    let text = format!("step {step} is given up: {text}");
                    self.spoil(step, Error::new(Code::ServerLost, text), None);
                }
                Job::Put(put) => {
                    let why = Error::new(Code::ServerLost, format!("the data set {:?}: {text}", put.name));
                    self.put_done(put.session, put.seq, Err(why));
                }
                _ => {}
            }
        }
        any
    }
}
