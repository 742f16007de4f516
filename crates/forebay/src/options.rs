//! Where a run is and how it is opened.

use std::path::{Path, PathBuf};

use forebay_host::environment::{self, BUFFER};
use forebay_link::net::Address;
use forebay_types::control::{Elsewhere, LateErrors, WhenFull};
use forebay_types::file::SCRATCH_BYTES;
use forebay_types::limits::BUFFER_BYTES;
use forebay_types::{Code, Compression, Error, Keep, Result};

/// Options of [`crate::open`]; the default serves a laptop.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Bytes of this process's arena; 0: what `FOREBAY_BUFFER` says, else 256 MiB, and less where many ranks
    /// share little memory.
    pub buffer: u64,
    /// What a snapshot does when no buffer has room.
    pub full: WhenFull,
    /// What becomes of an error that belongs to something acknowledged earlier.
    pub late: LateErrors,
    /// This rank; from the launcher's environment when not given.
    pub rank: Option<u32>,
    /// Number of ranks; from the launcher's environment when not given.
    pub size: Option<u32>,
    /// Whether the run is deleted when it is closed.
    pub scratch: bool,
    /// Name of the program, for people; the executable's name when not given.
    pub program: Option<String>,
    /// What becomes of data that a program which was killed left in memory elsewhere: on another host, in
    /// another `/dev/shm`, of another user. What `FOREBAY_ELSEWHERE` says when not given, else refused.
    pub elsewhere: Option<Elsewhere>,
    /// Whether this program is none of the ranks: it puts data sets, changes attributes, inserts into tables and says
    /// messages beside them, while nothing in their run waits for it. Mode `r+` only. Snapshots, loops, parameters,
    /// diagrams and histories are the ranks'.
    pub client: bool,
    /// Which complete snapshots stay as long as the run is open; all when not given. Those of checkpoints stay, those that
    /// the run was gone on from, the newest one, and one that is being read.
    pub keep: Option<Keep>,
    /// How many small snapshots of one layout are put together by themselves, as [`parse_pack`](crate::parse_pack) reads it;
    /// 0: none are. 1,000 when not given.
    pub pack: Option<u64>,
    /// How arrays of this rank's snapshots are compressed that do not say it themselves.
    pub compress: Option<Compression>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions {
            buffer: 0,
            full: WhenFull::Block,
            late: LateErrors::Raise,
            rank: None,
            size: None,
            scratch: false,
            program: None,
            elsewhere: None,
            client: false,
            keep: None,
            pack: None,
            compress: None,
        }
    }
}

/// The buffer of a client, which puts little at once.
const CLIENT_BUFFER: u64 = 8 << 20;

/// The buffer that a client asks for, or else the usual one.
pub fn client_buffer(asked: u64) -> Result<u64> {
    let bytes = if asked == 0 { CLIENT_BUFFER } else { asked };
    check_buffer(bytes).map(|()| bytes)
}

/// The buffer of a process that has memory enough, and of one that has not.
const USUAL_BUFFER: std::ops::RangeInclusive<u64> = 16 << 20..=256 << 20;

/// The buffer asked for, or else the usual one of that many ranks.
pub fn buffer(asked: u64, ranks: u32) -> Result<u64> {
    let bytes = match (asked, environment::text(BUFFER).filter(|text| !text.trim().is_empty())) {
        (0, Some(text)) => {
            parse_bytes(&text).map_err(|e| e.within(format_args!("the environment variable {BUFFER}")))?
        }
        (0, None) => usual_buffer(memory(), crate::launcher::ranks_here().unwrap_or(ranks)),
        (asked, _) => asked,
    };
    check_buffer(bytes)?;
    Ok(bytes)
}

/// All buffers of a node together are a quarter of the memory that the job has there.
fn usual_buffer(memory: Option<u64>, ranks_here: u32) -> u64 {
    let (least, most) = USUAL_BUFFER.into_inner();
    let share = memory.map_or(most, |all| all / 4 / u64::from(ranks_here.max(1)));
    share.clamp(least, most) >> 20 << 20
}

/// The memory of this node that this job may use: all of it, or the limit of its control group.
fn memory() -> Option<u64> {
    let number = |path: &Path| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = groups.lines().filter_map(|line| {
        // 0::/slurm/job_7 of the one hierarchy, or 9:memory:/slurm/job_7 of an old one.
        let (_, rest) = line.split_once(':')?;
        let (controllers, group) = rest.split_once(':')?;
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            c if c.split(',').any(|c| c == "memory") => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => return None,
        };
        // What limits a group limits those in it.
        let group = Path::new(root).join(group.trim_start_matches('/'));
        group
            .ancestors()
            .take_while(|dir| dir.starts_with(root))
            .filter_map(|dir| number(&dir.join(file)))
            .min()
    });
    let info = rustix::system::sysinfo();
    let all = (info.totalram as u64).saturating_mul(u64::from(info.mem_unit.max(1)));
    limits.chain([all]).filter(|bytes| *bytes > 0).min()
}

/// The buffer asked for, if there can be such a one.
fn check_buffer(bytes: u64) -> Result<()> {
    if bytes > BUFFER_BYTES {
        return Err(Error::bad(format!(
            "a buffer of {bytes} bytes is not possible; give the bytes of a snapshot or two"
        )));
    }
    Ok(())
}

/// Reads `256MiB`, `1.5 GB`, `4096`.
pub fn parse_bytes(text: &str) -> Result<u64> {
    let wrong = || Error::bad(format!("{text:?} is not a number of bytes; write for example \"256MiB\""));
    let trimmed = text.trim();
    let digits = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(digits);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        _ => return Err(wrong()),
    };
    let bytes = number * factor as f64;
    if bytes < (1u64 << 62) as f64 { Ok(bytes as u64) } else { Err(wrong()) }
}

/// Reads where a server keeps files of calls, and how many bytes: `DIR` or `DIR:SIZE`, 10 GiB if no size is given.
pub fn parse_scratch(text: &str) -> Result<(PathBuf, u64)> {
    let wrong = |why: &str| {
        Error::bad(format!(
            "{text:?} {why}; write DIR:SIZE, for example \"/scratch/me:50GiB\", or DIR alone for 10 GiB"
        ))
    };
    let (dir, size) = text.rsplit_once(':').map_or((text, None), |(dir, size)| (dir, Some(size)));
    let bytes = size.map_or(Ok(SCRATCH_BYTES), parse_bytes);
    match (dir, bytes) {
        ("", _) => Err(wrong("names no directory")),
        // Whoever has a directory of that name writes ./1GiB.
        (dir, _) if size.is_none() && parse_bytes(dir).is_ok() => Err(wrong("is a size without a directory")),
        (_, Err(_)) => Err(wrong("has no size behind its \":\"")),
        (dir, Ok(bytes)) => Ok((PathBuf::from(dir), bytes)),
    }
}

/// The directory of a run: `two_stream` means `two_stream.fb` beside the working directory; a
/// path that ends in `.fb`, or that is a run already, is taken as it is. Always absolute.
pub fn run_dir(place: &str) -> Result<PathBuf> {
    if place.is_empty() {
        return Err(Error::bad("the name of a run is empty; give a path such as \"two_stream\""));
    }
    if place.contains("://") && !Address::is_meant(place) {
        return Err(Error::bad(format!(
            "{place:?} is neither the path of a run nor an address that is known; give a path such as \"two_stream\", or fb://HOST:PORT/NAME for a run on another host"
        )));
    }
    if place.contains("://") {
        return Err(Error::bad(format!(
            "{place:?} names a run on another host, and this is done with the run's directory; do it there, for example with {:?}",
            place.rsplit('/').next().filter(|n| !n.is_empty()).unwrap_or("two_stream")
        )));
    }
    let path = Path::new(place);
    let is_run = path.extension().is_some_and(|e| e == "fb") || path.join("catalog.sqlite").is_file();
    let mut dir = path.to_path_buf();
    if !is_run {
        let mut leaf = path.file_name().ok_or_else(|| no_run(place))?.to_os_string();
        leaf.push(".fb");
        dir.set_file_name(leaf);
    }
    std::path::absolute(&dir).map_err(|e| Error::io(format!("cannot make {} absolute", dir.display()), e))
}

/// A path such as "." that names no run.
fn no_run(place: &str) -> Error {
    let known = names_of_runs_in(Path::new(place));
    let text = match known.is_empty() {
        true => format!("{place:?} is no run, and there is none in it; give the name of a run"),
        false => format!("{place:?} is no run; give one of those in it: {}", known.join(", ")),
    };
    Error::new(Code::NotFound, text)
}

/// The directories of the runs in a directory.
pub fn runs_in(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let is_run = |p: &PathBuf| p.extension().is_some_and(|e| e == "fb") && p.join("catalog.sqlite").is_file();
    let mut runs: Vec<PathBuf> =
        std::fs::read_dir(dir)?.filter_map(|entry| Some(entry.ok()?.path())).filter(is_run).collect();
    runs.sort();
    Ok(runs)
}

/// Their names; none where it cannot be read.
pub fn names_of_runs_in(dir: &Path) -> Vec<String> {
    let runs = runs_in(dir).unwrap_or_default();
    let mut names: Vec<String> =
        runs.iter().filter_map(|p| Some(p.file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(parse_bytes("256MiB").unwrap(), 256 << 20);
        assert_eq!(parse_bytes("1.5 kB").unwrap(), 1500);
        assert_eq!(parse_bytes("4096").unwrap(), 4096);
        for bad in ["", "MiB", "12 parsecs", "-5", "1e99TiB"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_usual_buffer_leaves_most_of_a_small_node_to_its_ranks() {
        const GIB: u64 = 1 << 30;
        assert_eq!(usual_buffer(Some(64 * GIB), 1), 256 << 20);
        assert_eq!(usual_buffer(Some(256 * GIB), 64), 256 << 20);
        assert_eq!(usual_buffer(Some(32 * GIB), 64), 128 << 20);
        assert_eq!(usual_buffer(Some(GIB), 64), 16 << 20, "room for a small array in any case");
        assert_eq!(usual_buffer(None, 0), 256 << 20);
        assert!(memory().is_some_and(|bytes| bytes >= 1 << 20));
        assert_eq!(buffer(9 << 20, 64).unwrap(), 9 << 20, "what is asked for is given");
        assert!(buffer(u64::MAX, 1).is_err());
    }

    #[test]
    fn a_run_is_a_directory_that_ends_in_fb() {
        assert!(run_dir("two_stream").unwrap().ends_with("two_stream.fb"));
        assert!(run_dir("/data/x.fb").unwrap().ends_with("data/x.fb"));
        assert!(run_dir("").is_err());
        let e = run_dir("http://host/two_stream").unwrap_err();
        assert!(e.text().contains("fb://HOST:PORT/NAME"), "{e}");
        let e = run_dir("fb://host:7000/two_stream").unwrap_err();
        assert!(e.text().contains("\"two_stream\""), "{e}");
    }
}
