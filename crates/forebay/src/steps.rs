//! How a loop goes, and how long it may: the time limit from the arguments, the environment or the
//! batch system.

use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use forebay_client::run::{Course, Ending, Until};
use forebay_host::environment::TIME_LIMIT;
use forebay_types::{Error, Result};

use crate::Restart;

/// Slurm's: when the job ends, in seconds since 1970.
const JOB_END: &str = "SLURM_JOB_END_TIME";
/// Slurm's: the job, in versions too that do not set the other one.
const JOB_ID: &str = "SLURM_JOB_ID";
/// A hundred years: more is meant as no limit, and cannot be reckoned with.
const MOST: f64 = 3.2e9;

/// When a run is to be saved and at its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TimeLimit {
    /// So many seconds after this process began, or at the end of the batch job if that is sooner.
    Seconds(f64),
    /// At the end of the batch job: Slurm tells it in `SLURM_JOB_END_TIME`, or `squeue` is asked.
    Job,
}

/// Where a loop begins: by number, at the snapshot that [`crate::Run::restart`] gave, or, without either, at 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Start {
    step: Option<i64>,
    /// Whether it was given as a snapshot.
    is_kept: bool,
}

impl Start {
    /// The first start of all.
    pub const FIRST: Start = Start { step: None, is_kept: false };

    /// Its number, if one was given.
    pub fn step(self) -> Option<i64> {
        self.step
    }

    /// Whether a snapshot was given.
    pub fn is_snapshot(self) -> bool {
        self.is_kept
    }

    /// At a snapshot of this number.
    pub fn at_snapshot(step: i64) -> Start {
        Start { step: Some(step), is_kept: true }
    }
}

impl From<i64> for Start {
    fn from(step: i64) -> Start {
        Start { step: Some(step), is_kept: false }
    }
}

impl From<Option<i64>> for Start {
    fn from(step: Option<i64>) -> Start {
        Start { step, is_kept: false }
    }
}

impl From<&Restart> for Start {
    fn from(back: &Restart) -> Start {
        Start::at_snapshot(back.snapshot.step())
    }
}

impl From<Option<&Restart>> for Start {
    fn from(back: Option<&Restart>) -> Start {
        back.map_or(Start::FIRST, Start::from)
    }
}

/// How a loop goes.
#[derive(Clone, Copy, Debug)]
pub struct StepsOptions {
    /// Where it begins.
    pub start: Start,
    /// From one head to the next (1); the number at which the loop ends must be one of them.
    pub stride: i64,
    /// When it is to be over; `FOREBAY_TIME_LIMIT` when not given.
    pub time_limit: Option<TimeLimit>,
    /// Whether SIGTERM, where the program leaves it alone, saves and ends the run (yes).
    pub sigterm: bool,
}

impl Default for StepsOptions {
    fn default() -> Self {
        StepsOptions { start: Start::FIRST, stride: 1, time_limit: None, sigterm: true }
    }
}

impl TimeLimit {
    /// Reads seconds, or `job`.
    pub fn parse(text: &str) -> Result<TimeLimit> {
        match text.trim() {
            "job" => Ok(TimeLimit::Job),
            number => number.parse().ok().filter(|s| *s > 0.0).map(TimeLimit::Seconds).ok_or_else(|| {
                Error::bad(format!(
                    "{text:?} is no time limit; give seconds, for example 9000, or \"job\" for the end of the batch job"
                ))
            }),
        }
    }
}

impl StepsOptions {
    pub(crate) fn course(&self, n: Option<i64>) -> Result<Course> {
        Ok(Course {
            n,
            start: self.start.step,
            is_kept: self.start.is_kept,
            stride: self.stride,
            ending: self.ending()?,
        })
    }

    pub(crate) fn ending(&self) -> Result<Ending> {
        let env = |name: &str| std::env::var(name).ok();
        let until = until(self.time_limit, env, squeue, forebay_host::process::age())?;
        Ok(Ending { sigterm: self.sigterm, until })
    }
}

fn until(
    limit: Option<TimeLimit>,
    env: impl Fn(&str) -> Option<String>,
    ask: impl Fn(&str) -> Option<String>,
    age: Duration,
) -> Result<Option<Until>> {
    let told = env(TIME_LIMIT).filter(|text| !text.trim().is_empty());
    let limit = match (limit, told) {
        (Some(limit), _) => limit,
        (None, Some(text)) => {
            TimeLimit::parse(&text).map_err(|e| e.within(format!("the environment variable {TIME_LIMIT}")))?
        }
        (None, None) => return Ok(None),
    };
    let job = env(JOB_END).and_then(|text| text.trim().parse::<u64>().ok()).map(|end| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Duration::from_secs(end).saturating_sub(now)
    });
    let left = match (limit, job) {
        (TimeLimit::Seconds(s), _) if s.is_nan() || s <= 0.0 => {
            return Err(Error::bad(format!("a time limit of {s} s is not possible; give more than 0")));
        }
        (TimeLimit::Seconds(s), None) if s > MOST => return Ok(None),
        (TimeLimit::Seconds(s), job) => {
            let own = Duration::from_secs_f64(s.min(MOST)).saturating_sub(age);
            job.map_or(own, |job| job.min(own))
        }
        (TimeLimit::Job, Some(job)) => job,
        (TimeLimit::Job, None) => {
            let said = env(JOB_ID).and_then(|id| ask(id.trim()));
            match said.as_deref().map(left_of_job) {
                Some(Some(left)) => left,
                // A job without a limit has none.
                Some(None) if said.as_deref().is_some_and(|s| s.trim() == "UNLIMITED") => return Ok(None),
                _ => {
                    return Err(Error::bad(format!(
                        "the time limit \"job\" needs {JOB_END}, or {JOB_ID} and the command squeue, as in the jobs of Slurm; give seconds"
                    )));
                }
            }
        }
    };
    Ok(Some(Until { end: Instant::now() + left, whole: age + left }))
}

/// What Slurm says of the time that a job has left.
fn squeue(job: &str) -> Option<String> {
    let words = ["--noheader", "--jobs", job, "--format", "%L"];
    let done = std::process::Command::new("squeue").args(words).stderr(Stdio::null()).output().ok()?;
    done.status.success().then(|| String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Reads `1-02:03:04`, `03:04`, `4`: days, hours, minutes, seconds.
fn left_of_job(text: &str) -> Option<Duration> {
    let text = text.trim();
    let (days, rest) = text.split_once('-').map_or(Some((0, text)), |(d, r)| Some((d.parse().ok()?, r)))?;
    let mut seconds = 0u64;
    for part in rest.split(':') {
        seconds = seconds.checked_mul(60)?.checked_add(part.parse().ok()?)?;
    }
    Some(Duration::from_secs(86_400u64.checked_mul(days)?.checked_add(seconds)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGE: Duration = Duration::from_secs(10);

    fn left(limit: Option<TimeLimit>, vars: &[(&str, String)]) -> Result<Option<f64>> {
        let env = |name: &str| vars.iter().find(|v| v.0 == name).map(|v| v.1.clone());
        let until = until(limit, env, |job| (job == "17").then(|| " 1:40\n".into()), AGE)?;
        Ok(until.map(|u| u.end.saturating_duration_since(Instant::now()).as_secs_f64().round()))
    }

    fn job(seconds: u64) -> (&'static str, String) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        (JOB_END, (now + seconds).to_string())
    }

    #[test]
    fn the_time_counts_from_the_start_of_the_process_and_never_beyond_the_end_of_the_job() {
        assert_eq!(left(None, &[]).unwrap(), None);
        assert_eq!(left(None, &[job(50)]).unwrap(), None, "the job's end counts only for who asks");
        assert_eq!(left(Some(TimeLimit::Seconds(60.0)), &[]).unwrap(), Some(50.0));
        assert_eq!(left(None, &[(TIME_LIMIT, "60".into())]).unwrap(), Some(50.0));
        assert_eq!(left(Some(TimeLimit::Seconds(30.0)), &[(TIME_LIMIT, "60".into())]).unwrap(), Some(20.0));
        let near = left(Some(TimeLimit::Seconds(600.0)), &[job(50)]).unwrap().unwrap();
        assert!((49.0..=50.0).contains(&near), "{near}");
        let asked = left(None, &[(TIME_LIMIT, "job".into()), job(50)]).unwrap().unwrap();
        assert!((49.0..=50.0).contains(&asked), "{asked}");
        assert_eq!(left(Some(TimeLimit::Seconds(5.0)), &[]).unwrap(), Some(0.0), "it is over already");
        assert_eq!(left(Some(TimeLimit::Seconds(f64::INFINITY)), &[]).unwrap(), None);
    }

    #[test]
    fn slurm_is_asked_where_it_sets_no_variable() {
        let job_id = (JOB_ID, "17".to_owned());
        assert_eq!(left(Some(TimeLimit::Job), std::slice::from_ref(&job_id)).unwrap(), Some(100.0));
        let near = left(Some(TimeLimit::Job), &[job_id, job(50)]).unwrap().unwrap();
        assert!((49.0..=50.0).contains(&near), "the variable costs no question: {near}");
        for (text, seconds) in [("1-02:03:04", 93_784), ("59:58", 3598), ("7", 7), ("0-00:00:00", 0)] {
            assert_eq!(left_of_job(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        for bad in ["", "UNLIMITED", "NOT_SET", "INVALID", "1-", "-1", "1:x"] {
            assert_eq!(left_of_job(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused_by_name() {
        assert!(left(Some(TimeLimit::Job), &[]).unwrap_err().text().contains(JOB_END));
        let unknown = left(Some(TimeLimit::Job), &[(JOB_ID, "18".into())]).unwrap_err();
        assert!(unknown.text().contains("squeue"), "{unknown}");
        assert!(left(None, &[(TIME_LIMIT, "2 hours".into())]).unwrap_err().text().contains(TIME_LIMIT));
        assert!(left(Some(TimeLimit::Seconds(-1.0)), &[]).is_err());
        assert!(left(Some(TimeLimit::Seconds(f64::NAN)), &[]).is_err());
    }
}
