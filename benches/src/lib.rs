//! What the benchmarks have in common: medians, tables for people, JSON for machines.

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};
use serde_json::{Map, Value, json};
use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The middle one of some measurements, and the one that 99 % do not exceed.
pub fn median_p99(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => (f64::NAN, f64::NAN),
        n => (values[n / 2], values[(n * 99 / 100).min(n - 1)]),
    }
}

/// The results of one benchmark.
#[derive(Default)]
pub struct Report {
    rows: Vec<(String, String)>,
    json: Map<String, Value>,
}

impl Report {
    /// Adds a figure: its name, value, unit, and what a reader should know.
    pub fn add(&mut self, name: &str, value: f64, unit: &str, note: &str) {
        let shown = match value {
            v if v.abs() >= 100.0 => format!("{v:.0}"),
            v if v.abs() >= 10.0 => format!("{v:.1}"),
            v => format!("{v:.2}"),
        };
        self.rows.push((name.to_owned(), format!("{shown:>9} {unit:<6} {note}")));
        self.json.insert(name.to_owned(), json!({"value": value, "unit": unit, "note": note}));
    }

    /// Adds a figure that was measured in turns with another one: so many times that one it is.
    pub fn add_beside(&mut self, (name, value, unit): (&str, f64, &str), (other, ratio): (&str, f64)) {
        self.add(name, value, unit, &format!("{ratio:.2} times: {other}"));
        if let Some(Value::Object(row)) = self.json.get_mut(name) {
            row.insert("against".into(), json!(other));
            row.insert("ratio".into(), json!(ratio));
        }
    }

    /// Prints the table, and with `--json` one line for machines behind it.
    pub fn finish(self) {
        let width = self.rows.iter().map(|r| r.0.chars().count()).max().unwrap_or(0);
        for (name, value) in &self.rows {
            println!("{name:<width$} {value}");
        }
        if std::env::args().any(|a| a == "--json") {
            println!("{}", Value::Object(self.json));
        }
    }
}

/// This thread on a core of its own and another process on the others, where the machine has several:
/// with it busy the scheduler puts both on one core often enough, and then measures itself.
pub struct Apart {
    cores: Vec<(Option<Pid>, CpuSet)>,
}

impl Apart {
    /// This thread and that process.
    pub fn from(process: u32) -> Apart {
        let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        let threads = tasks.filter_map(|t| Pid::from_raw(t.file_name().to_str()?.parse().ok()?));
        let all = std::iter::once(None).chain(threads.map(Some));
        let cores: Vec<_> = all.filter_map(|t| Some((t, sched_getaffinity(t).ok()?))).collect();
        for (thread, allowed) in &cores {
            let Some(mine) = (0..CpuSet::MAX_CPU).find(|c| allowed.is_set(*c)) else { continue };
            let mut some = CpuSet::new();
            match thread {
                None => some.set(mine),
                Some(_) => {
                    some = *allowed;
                    some.unset(mine);
                }
            }
            if allowed.count() > 1 {
                let _ = sched_setaffinity(*thread, &some);
            }
        }
        Apart { cores }
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        for (thread, allowed) in &self.cores {
            let _ = sched_setaffinity(*thread, allowed);
        }
    }
}

/// This thread, and those that it starts, on the first half of the cores: for programs whose server has the other half.
pub fn on_half_of_the_cores() {
    let Ok(all) = sched_getaffinity(None) else { return };
    let mut mine = CpuSet::new();
    (0..CpuSet::MAX_CPU).filter(|c| all.is_set(*c)).take(all.count() as usize / 2).for_each(|c| mine.set(c));
    if mine.count() > 0 {
        let _ = sched_setaffinity(None, &mine);
    }
}

/// Another process; dropped, it ends.
pub struct Other(Child);

impl Other {
    /// Starts this program in another role, its places in `dir`; what it says first.
    pub fn start(role: &str, value: impl AsRef<OsStr>, dir: &Path) -> io::Result<(Other, String)> {
        let mut child = Command::new(std::env::current_exe()?)
            .env(role, value)
            .env("FOREBAY_RUNTIME_DIR", dir.join("run"))
            .env("FOREBAY_HOME", dir.join("home"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let out = child.stdout.take();
        let other = Other(child);
        let mut line = String::new();
        BufReader::new(out.ok_or(io::ErrorKind::BrokenPipe)?).read_line(&mut line)?;
        Ok((other, line.trim().to_owned()))
    }

    /// Its pid.
    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// CPU time that all threads of a process have used.
pub fn cpu_time(pid: u32) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of_one = |path: std::path::PathBuf| -> Option<u64> {
        let text = std::fs::read_to_string(path.join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok()
    };
    Duration::from_nanos(tasks.filter_map(|t| of_one(t.path())).sum())
}
