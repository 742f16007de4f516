//! Steering as the page sees it: who may ask for what, and what became of it.

use std::collections::VecDeque;

use forebay_types::watch::{Act, Phase, State, StateInfo};
use forebay_types::{Code, Error, Result, beginning};
use serde::Serialize;

use crate::token::Role;

/// Acts remembered for the page; the whole record is in the run's catalog.
const REMEMBERED: usize = 512;

/// Whoever carries acts out: the owner of the run.
pub trait Steer: Send + Sync {
    /// Takes an act of somebody who may steer, if the run can take it, and gives it a number; that it is queued, and
    /// what becomes of it, is told with [`crate::Run::ack`]. Must not wait for the run.
    fn act(&self, who: &str, act: &Act) -> Result<u64>;

    /// State and step as they are now, if that is cheap to see; asked a few times a second while
    /// somebody watches.
    fn glance(&self) -> Option<StateInfo> {
        None
    }
}

/// News of an act.
#[derive(Clone, Debug, PartialEq)]
pub struct Ack {
    /// The act's number.
    pub id: u64,
    /// Who asked.
    pub who: String,
    /// The act.
    pub act: Act,
    /// How far it is.
    pub phase: Phase,
    /// Its step, when known.
    pub step: Option<i64>,
    /// What was done, or why not.
    pub text: String,
}

/// A line of the steering log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LogLine {
    /// The act's number.
    pub id: u64,
    /// Who asked.
    pub who: String,
    /// What was asked.
    pub act: Act,
    /// How far it is.
    pub phase: Phase,
    /// Its step.
    pub step: Option<i64>,
    /// What was done, or why not.
    pub text: String,
    /// When it was asked, in milliseconds since 1970.
    pub at: u64,
    #[serde(skip)]
    changed: u64,
}

/// The last acts and what became of them.
#[derive(Debug, Default)]
pub struct Log {
    lines: VecDeque<LogLine>,
    changes: u64,
}

impl Log {
    /// Takes news in. News may come in any order; an act never goes back from applied to queued.
    pub fn news(&mut self, ack: Ack, now_ms: u64) {
        self.changes += 1;
        let changes = self.changes;
        let text = clipped(ack.text, 2000);
        if let Some(line) = self.lines.iter_mut().rev().find(|l| l.id == ack.id) {
            (line.who, line.act) = (ack.who, ack.act);
            if ack.phase >= line.phase {
                line.phase = ack.phase;
                line.step = ack.step.or(line.step);
                if !text.is_empty() {
                    line.text = text;
                }
            }
            line.changed = changes;
            return;
        }
        if self.lines.len() == REMEMBERED {
            self.lines.pop_front();
        }
        self.lines.push_back(LogLine {
            id: ack.id,
            who: ack.who,
            act: ack.act,
            phase: ack.phase,
            step: ack.step,
            text,
            at: now_ms,
            changed: changes,
        });
    }

    /// Lines that changed after `mark`, at most `most`, and the mark for the next time.
    pub fn since(&self, mark: u64, most: usize) -> (Vec<LogLine>, u64) {
        let mut lines: Vec<_> = self.lines.iter().filter(|l| l.changed > mark).cloned().collect();
        lines.sort_by_key(|l| l.changed);
        lines.truncate(most);
        let mark = lines.last().map_or(mark, |l| l.changed);
        (lines, mark)
    }
}

/// Cuts a text to so many bytes, and shows that.
pub(crate) fn clipped(mut text: String, bytes: usize) -> String {
    if text.len() > bytes {
        text.truncate(beginning(&text, bytes).len());
        text.push('…');
    }
    text
}

/// Checks who asks. Whether the run can take the act is for [`Steer::act`], which knows the run.
pub fn check(role: Role, state: State) -> Result<()> {
    if role != Role::Operator {
        return Err(Error::new(
            Code::Refused,
            "a viewer looks and does not steer; open the operator's link to act upon the run",
        ));
    }
    if matches!(state, State::Ended | State::Lost) {
        return Err(Error::new(Code::Closed, "the run has ended; there is nothing to steer"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_viewer_may_do_nothing_to_the_run_and_nobody_to_one_that_has_ended() {
        assert_eq!(check(Role::Viewer, State::Running).unwrap_err().code(), Code::Refused);
        assert_eq!(check(Role::Operator, State::Ended).unwrap_err().code(), Code::Closed);
        assert!(check(Role::Operator, State::Running).is_ok());
    }

    #[test]
    fn an_act_goes_from_queued_to_applied_in_one_line_whatever_comes_first() {
        let mut log = Log::default();
        let ack =
            |phase, step| Ack { id: 4, who: "tran".into(), act: Act::Stop, phase, step, text: String::new() };
        log.news(ack(Phase::Applied, Some(12)), 1);
        log.news(ack(Phase::Queued, None), 2);
        let (lines, mark) = log.since(0, 10);
        assert_eq!(lines.len(), 1);
        assert_eq!(
            (lines[0].phase, lines[0].step, lines[0].who.as_str()),
            (Phase::Applied, Some(12), "tran")
        );
        assert_eq!(log.since(mark, 10).0, []);
    }

    #[test]
    fn the_log_forgets_the_oldest() {
        let mut log = Log::default();
        for id in 0..(REMEMBERED as u64 + 10) {
            log.news(
                Ack {
                    id,
                    who: "a".into(),
                    act: Act::Run,
                    phase: Phase::Queued,
                    step: None,
                    text: "é".repeat(3000),
                },
                id,
            );
        }
        let (lines, _) = log.since(0, usize::MAX);
        assert_eq!(lines.len(), REMEMBERED);
        assert_eq!(lines[0].id, 10);
        assert!(lines[0].text.len() < 2010);
    }
}
