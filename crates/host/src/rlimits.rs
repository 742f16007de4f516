//! What the system allows this process, and errors that say so: whoever has run into a limit of its own is told
//! which one, how high it is, and how it is raised.

use std::io;

use forebay_types::{Code, Error};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A failed system call, as [`Error::io`] tells it; the limits of this process by name.
pub fn cannot(what: impl std::fmt::Display, cause: impl Into<io::Error>) -> Error {
    let cause = cause.into();
    match Errno::from_io_error(&cause) {
        Some(Errno::MFILE) => {
            let limit = getrlimit(Resource::Nofile).current.map_or("none".to_owned(), |n| n.to_string());
            Error::new(
                Code::Full,
                format!(
                    "{what}: {} may open no more files, its limit is {limit}; raise it with `ulimit -n` before it \
                     starts, or open fewer",
                    this_process()
                ),
            )
        }
        Some(Errno::NFILE) => Error::new(
            Code::Full,
            format!("{what}: this machine may open no more files; close some, or raise `sysctl fs.file-max`"),
        ),
        _ => Error::io(what, cause),
    }
}

/// The process for people; who reads that of an agent or a server is another one. A link is read without a descriptor.
fn this_process() -> String {
    let exe = std::env::current_exe().unwrap_or_default();
    let name = exe.file_name().unwrap_or_default().to_string_lossy().into_owned();
    format!("process {} ({name})", std::process::id())
}

/// A thread that could not be started, which is for want of memory or of leave.
pub fn no_thread(what: impl std::fmt::Display, cause: io::Error) -> Error {
    let limit = getrlimit(Resource::Nproc).current.map_or("none".to_owned(), |n| n.to_string());
    Error::new(
        Code::Full,
        format!(
            "{what}: the system starts no more threads ({cause}); the limit of this user is {limit} (`ulimit -u`), that of \
             a container or job may be lower, and each needs address space (`ulimit -v`)"
        ),
    )
}

/// Lets this process open as many files as its hard limit says, within reason. Servers and agents have some for each
/// client, and the usual soft limit of 1024 is there for programs that use `select`.
pub fn raise_files() {
    const ENOUGH: u64 = 1 << 20;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let most = maximum.map_or(ENOUGH, |most| most.min(ENOUGH));
    if current.is_some_and(|now| now < most) {
        // Who may not keeps what there is, and says so when it does not do.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum });
    }
}

/// How many bytes of address space this process may still take, if that is limited (`ulimit -v`).
pub fn address_space_left() -> Option<u64> {
    let limit = getrlimit(Resource::As).current?;
    // Its first word is the number of pages that are taken.
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let taken = text.split_ascii_whitespace().next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    Some(limit.saturating_sub(taken.saturating_mul(rustix::param::page_size() as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_of_files_goes_up_to_the_hard_one() {
        raise_files();
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert!(current.is_none_or(|now| now >= maximum.unwrap_or(1 << 20).min(1 << 20)));
    }

    #[test]
    fn who_may_open_no_more_files_is_told_the_limit_and_how_it_is_raised() {
        let e = cannot("cannot make a memory file", Errno::MFILE);
        assert_eq!(e.code(), Code::Full);
        let limit = getrlimit(Resource::Nofile).current.map_or("none".to_owned(), |n| n.to_string());
        assert!(e.text().contains(&limit) && e.text().contains("ulimit -n"), "{e}");
        assert!(e.text().contains(&format!("process {} (forebay_host-", std::process::id())), "{e}");
        assert_eq!(cannot("cannot read", Errno::IO).code(), Code::Io);
    }
}
