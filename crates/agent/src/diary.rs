//! The log of an agent: a line an event, with the time, on its standard error, which the starter
//! has put into `agent.log` of the runtime directory. An embedded owner
//! writes warnings only.

use forebay_host::lock;
use std::fmt::Display;
use std::io::Write;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Writes lines, or not.
#[derive(Clone, Copy, Debug)]
pub struct Diary {
    /// Whether lines are written.
    pub on: bool,
}

impl Diary {
    /// Writes a line.
    pub fn line(&self, text: impl Display) {
        if self.on {
            let now = seconds_now();
            // A log that cannot be written is no reason to fail.
            let _ = writeln!(std::io::stderr().lock(), "{} {text}", clock(now as u64));
        }
    }

    /// Writes what somebody must see: into the log, or, embedded, for whoever started the program.
    pub fn warn(&self, text: impl Display) {
        match self.on {
            true => self.line(text),
            false => drop(writeln!(std::io::stderr().lock(), "forebay: {text}")),
        }
    }
}

/// Lines of one kind, of which thousands may come: one in a while, with how many there were.
#[derive(Default)]
pub struct Seldom(Mutex<(u64, Option<Instant>)>);

impl Seldom {
    /// Between two lines.
    const QUIET: Duration = Duration::from_secs(1);

    /// Writes one, or counts it.
    pub fn line(&self, diary: Diary, text: impl Display) {
        let mut since = lock(&self.0);
        since.0 += 1;
        if since.1.is_some_and(|told| told.elapsed() < Seldom::QUIET) {
            return;
        }
        match since.0 {
            1 => diary.line(text),
            n => diary.line(format_args!("{text} (and {} more since the last line)", n - 1)),
        }
        *since = (0, Some(Instant::now()));
    }
}

/// Seconds since 1970.
pub fn seconds_now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}

/// Seconds since 1970 as a date in UTC, as ISO 8601 writes it.
fn clock(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days since 0000-03-01 make the leap day the last of its year.
    let z = days + 719_468;
    let era = z / 146_097;
    let of_era = z % 146_097;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::clock;

    #[test]
    fn seconds_are_written_as_a_date() {
        assert_eq!(clock(0), "1970-01-01T00:00:00Z");
        assert_eq!(clock(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(clock(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(clock(1_763_725_000), "2025-11-21T11:36:40Z");
    }
}
