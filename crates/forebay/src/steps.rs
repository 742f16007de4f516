//! How a loop goes, and how long it may: the time limit from the arguments, the environment or the
//! batch system.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use forebay_client::run::{Ending, Until};
use forebay_types::{Error, Result};

/// The variable that sets a time limit for a program that sets none.
const VARIABLE: &str = "FOREBAY_TIME_LIMIT";
/// Slurm's: when the job ends, in seconds since 1970.
const JOB_END: &str = "SLURM_JOB_END_TIME";
/// A hundred years: more is meant as no limit, and cannot be reckoned with.
const MOST: f64 = 3.2e9;

/// When a run is to be saved and at its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TimeLimit {
    /// So many seconds after this process began, or at the end of the batch job if that is sooner.
    Seconds(f64),
    /// At the end of the batch job, which Slurm tells in `SLURM_JOB_END_TIME`.
    Job,
}

/// How a loop goes.
#[derive(Clone, Copy, Debug)]
pub struct StepsOptions {
    /// The first step.
    pub start: i64,
    /// When it is to be over; `FOREBAY_TIME_LIMIT` when not given.
    pub time_limit: Option<TimeLimit>,
    /// Whether SIGTERM, where the program leaves it alone, saves and ends the run (yes).
    pub sigterm: bool,
}

impl Default for StepsOptions {
    fn default() -> Self {
        StepsOptions { start: 0, time_limit: None, sigterm: true }
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
    pub(crate) fn ending(&self) -> Result<Ending> {
        let until = until(self.time_limit, |name| std::env::var(name).ok(), forebay_arena::process::age())?;
        Ok(Ending { sigterm: self.sigterm, until })
    }
}

fn until(
    limit: Option<TimeLimit>,
    env: impl Fn(&str) -> Option<String>,
    age: Duration,
) -> Result<Option<Until>> {
    let told = env(VARIABLE).filter(|text| !text.trim().is_empty());
    let limit = match (limit, told) {
        (Some(limit), _) => limit,
        (None, Some(text)) => {
            TimeLimit::parse(&text).map_err(|e| e.within(format!("the environment variable {VARIABLE}")))?
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
            return Err(Error::bad(format!(
                "the time limit \"job\" needs {JOB_END}, which Slurm sets in its jobs and which is not set here; give seconds"
            )));
        }
    };
    Ok(Some(Until { end: Instant::now() + left, whole: age + left }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGE: Duration = Duration::from_secs(10);

    fn left(limit: Option<TimeLimit>, vars: &[(&str, String)]) -> Result<Option<f64>> {
        let env = |name: &str| vars.iter().find(|v| v.0 == name).map(|v| v.1.clone());
        let until = until(limit, env, AGE)?;
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
        assert_eq!(left(None, &[(VARIABLE, "60".into())]).unwrap(), Some(50.0));
        assert_eq!(left(Some(TimeLimit::Seconds(30.0)), &[(VARIABLE, "60".into())]).unwrap(), Some(20.0));
        let near = left(Some(TimeLimit::Seconds(600.0)), &[job(50)]).unwrap().unwrap();
        assert!((49.0..=50.0).contains(&near), "{near}");
        let asked = left(None, &[(VARIABLE, "job".into()), job(50)]).unwrap().unwrap();
        assert!((49.0..=50.0).contains(&asked), "{asked}");
        assert_eq!(left(Some(TimeLimit::Seconds(5.0)), &[]).unwrap(), Some(0.0), "it is over already");
        assert_eq!(left(Some(TimeLimit::Seconds(f64::INFINITY)), &[]).unwrap(), None);
    }

    #[test]
    fn what_is_no_time_is_refused_by_name() {
        assert!(left(Some(TimeLimit::Job), &[]).unwrap_err().text().contains(JOB_END));
        assert!(left(None, &[(VARIABLE, "2 hours".into())]).unwrap_err().text().contains(VARIABLE));
        assert!(left(Some(TimeLimit::Seconds(-1.0)), &[]).is_err());
        assert!(left(Some(TimeLimit::Seconds(f64::NAN)), &[]).is_err());
    }
}
