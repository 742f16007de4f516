//! Processes: who they are, whether they live, and how an agent cuts itself loose.
//!
//! A pid alone says nothing, since pids are given again and every pid name space (a container,
//! mostly) counts for itself: a process is its pid, the name space that counts it, the time it
//! started (in clock ticks since boot) and the boot it started in. What processes of other name
//! spaces do cannot be seen from here; whether they live is told by what they hold: a connection,
//! or the lock of a segment they made ([`crate::Segment::creator_lives`]).

use forebay_types::line::Launched;
use forebay_types::{Error, Result, crc32c};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The identity of a process on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// The pid name space that counts it so, by its number in the kernel; 0 stands for the own one.
    pub space: u32,
    /// When it started, in clock ticks since boot.
    pub start_time: u64,
    /// Which boot of the host.
    pub boot_id: [u8; 16],
}

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// It runs, or could.
    Running,
    /// It is stopped (SIGSTOP, a debugger) and does nothing.
    Stopped,
    /// It has ended, or was never of this boot.
    Gone,
    /// It is of another pid name space, whose processes cannot be seen from here.
    Hidden,
}

/// What helps with a process that is stopped, for people.
pub fn go_on_or_end(pid: u32) -> String {
    format!("let it go on with `kill -CONT {pid}`, or end it with `kill -KILL {pid}`")
}

/// Who is at the other end of a Unix socket, as the kernel knows it.
#[derive(Clone, Copy, Debug)]
pub struct SocketPeer {
    /// Its user.
    pub uid: u32,
    /// The process that connected, or listens; none when it is gone or of a pid name space that
    /// cannot be seen from here.
    pub process: Option<Process>,
}

impl SocketPeer {
    /// Asks the kernel. The pid comes as a plain number: it is 0 when this name space has none for the
    /// peer, which the type of pids in `rustix` cannot hold.
    pub fn of(socket: impl AsFd) -> Result<SocketPeer> {
        let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `bytes` bytes into `peer`, of which every bit pattern is a
        // value, and the descriptor is open for as long as it is borrowed.
        let done = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut peer).cast(),
                &raw mut bytes,
            )
        };
        if done != 0 {
            let e = std::io::Error::last_os_error();
            return Err(Error::io("cannot learn who is at the other end of a socket", e));
        }
        let pid = u32::try_from(peer.pid).ok().filter(|pid| *pid != 0);
        Ok(SocketPeer { uid: peer.uid, process: pid.and_then(Process::of_pid) })
    }
}

/// What this process knows of pid name spaces.
struct Sight {
    /// The number of its own in the kernel; 0 when it cannot be told.
    space: u32,
    /// Whether `/proc` counts processes as this one does. Where it was mounted for another name space,
    /// the numbers in it are not ours, and nobody is seen.
    sees: bool,
}

impl Sight {
    /// Looked up once a process: the child of a fork may be of another name space.
    fn own() -> Sight {
        static KEPT: AtomicU64 = AtomicU64::new(0); // pid << 33 | sees << 32 | space
        let (pid, kept) = (own_pid(), KEPT.load(Ordering::Relaxed));
        if kept >> 33 == u64::from(pid) {
            return Sight { space: kept as u32, sees: kept >> 32 & 1 == 1 };
        }
        let sees = std::fs::read_link("/proc/self").is_ok_and(|p| p.as_os_str() == pid.to_string().as_str());
        let link = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        // pid:[4026531836]
        let number = link.to_str().and_then(|t| t.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok());
        let space = number.unwrap_or(0);
        KEPT.store(u64::from(pid) << 33 | u64::from(sees) << 32 | u64::from(space), Ordering::Relaxed);
        Sight { space, sees }
    }

    /// Whether processes of that name space are seen.
    fn reaches(&self, space: u32) -> bool {
        self.sees && (space == 0 || space == self.space)
    }
}

/// The number of this process, by a system call the first time only. It is kept in a page that
/// the kernel clears in the child of a fork.
#[inline]
pub fn own_pid() -> u32 {
    static KEPT: OnceLock<Option<&'static AtomicU32>> = OnceLock::new();
    let Some(kept) = KEPT.get_or_init(wiped_on_fork) else { return std::process::id() };
    match kept.load(Ordering::Relaxed) {
        0 => {
            let pid = std::process::id();
            kept.store(pid, Ordering::Relaxed);
            pid
        }
        pid => pid,
    }
}

/// A word that is zero at first and in every child. Kernels before 4.14 have none.
fn wiped_on_fork() -> Option<&'static AtomicU32> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
    const BYTES: usize = 4096; // a part of a page counts as the page
    // SAFETY: a fresh private mapping overlaps nothing.
    let page = unsafe {
        mmap_anonymous(std::ptr::null_mut(), BYTES, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
    }
    .ok()?;
    // SAFETY: nobody uses the page yet, so it may be changed and unmapped.
    unsafe {
        if madvise(page, BYTES, Advice::LinuxWipeOnFork).is_err() {
            let _ = munmap(page, BYTES);
            return None;
        }
    }
    // SAFETY: aligned, readable and writable, and never unmapped from here on.
    Some(unsafe { AtomicU32::from_ptr(page.cast()) })
}

/// Has `before` called on the thread that forks, just before it does, and just after `parent` on that
/// thread and `child` in the child. What other threads may hold at that moment (a lock of a foreign
/// library) is so held by none, and the child, which has no other threads, finds it free.
pub fn at_fork(before: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) {
    type Handler = Option<extern "C" fn()>;
    unsafe extern "C" {
        fn pthread_atfork(before: Handler, parent: Handler, child: Handler) -> std::ffi::c_int;
    }
    // SAFETY: the handlers are functions of this program. It fails for want of memory only, and then
    // forking is what it was.
    let _ = unsafe { pthread_atfork(Some(before), Some(parent), Some(child)) };
}

impl Process {
    /// This process.
    pub fn current() -> Process {
        let pid = std::process::id();
        let start_time = stat("self").ok().flatten().map_or(0, |(_, t)| t);
        Process { pid, space: Sight::own().space, start_time, boot_id: boot_id() }
    }

    /// The process that has that number now, if any.
    pub fn of_pid(pid: u32) -> Option<Process> {
        let sight = Sight::own();
        let (state, start_time) = stat(&pid.to_string()).ok()?.filter(|_| sight.sees)?;
        (state != ProcessState::Gone).then(|| Process {
            pid,
            space: sight.space,
            start_time,
            boot_id: boot_id(),
        })
    }

    /// Whether no process of this name space has that number, for certain.
    pub fn is_gone(pid: u32) -> bool {
        let seen = stat(&pid.to_string());
        Sight::own().sees && seen.is_ok_and(|seen| seen.is_none_or(|(state, _)| state == ProcessState::Gone))
    }

    /// What it does now.
    pub fn state(&self) -> ProcessState {
        if self.boot_id != boot_id() {
            return ProcessState::Gone;
        }
        if !Sight::own().reaches(self.space) {
            return ProcessState::Hidden;
        }
        match stat(&self.pid.to_string()) {
            Ok(Some((state, start_time))) if start_time == self.start_time => state,
            Ok(_) => ProcessState::Gone,
            // Whoever may open no more files sees nobody, and nobody has died of that.
            Err(_) => ProcessState::Hidden,
        }
    }

    /// Whether it has not ended, as far as can be seen; a stopped process lives, and a hidden one may.
    pub fn alive(&self) -> bool {
        self.state() != ProcessState::Gone
    }
}

/// How a process came to be, if it and its parent live and that is not the first of all: what a launcher has
/// started on a host has one parent.
pub fn launched(pid: u32) -> Option<Launched> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let parent: u32 = text.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()?;
    let by = Process::of_pid(parent).filter(|p| p.pid > 1)?;
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok().filter(|line| !line.is_empty())?;
    Some(Launched {
        by: format!("{}:{}:{}:{}", boot_id_text(), by.space, by.pid, by.start_time),
        program: crc32c(&line),
    })
}

/// Every exception of every processor: each takes those that it has.
const ALL_EXCEPTIONS: libc::c_int = 0x3f;

/// Frees this thread, and those that it starts, of what it has from the one that started it and that is meant for
/// that one alone:
///
/// - the core to which a launcher has bound a rank: it runs on every core that the system lets this process have;
/// - traps of floating-point exceptions (`gfortran -ffpe-trap`): a value of the program that is no number, or a range
///   without width, would end the program by a signal in a thread that it does not know of.
pub fn work_behind() {
    use rustix::thread::{CpuSet, sched_setaffinity};
    unsafe extern "C" {
        fn fedisableexcept(exceptions: libc::c_int) -> libc::c_int;
    }
    // SAFETY: it changes the control words of this thread alone, and takes any number.
    unsafe { fedisableexcept(ALL_EXCEPTIONS) };
    let mut all = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|core| all.set(core));
    // The kernel takes away what the job's set of cores does not hold. Without the right to change it the
    // thread stays where it is.
    let _ = sched_setaffinity(None, &all);
}

/// State and start time out of `/proc/PID/stat`, or that there is no such process; the name in it may hold spaces
/// and brackets.
fn stat(pid: &str) -> io::Result<Option<(ProcessState, u64)>> {
    match std::fs::read(format!("/proc/{pid}/stat")) {
        Ok(text) => Ok(parse_stat(&String::from_utf8_lossy(&text))),
        // It may end between the opening and the reading, too.
        Err(e) if e.kind() == io::ErrorKind::NotFound || Errno::from_io_error(&e) == Some(Errno::SRCH) => {
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

fn parse_stat(text: &str) -> Option<(ProcessState, u64)> {
    let mut words = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = match words.next()? {
        "T" | "t" => ProcessState::Stopped,
        "Z" | "X" | "x" => ProcessState::Gone,
        _ => ProcessState::Running,
    };
    Some((state, words.nth(18)?.parse().ok()?))
}

/// The number of this boot of the host.
pub fn boot_id() -> [u8; 16] {
    static ID: OnceLock<[u8; 16]> = OnceLock::new();
    *ID.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let mut digits = text.chars().filter_map(|c| c.to_digit(16));
        std::array::from_fn(|_| {
            let high = digits.next().unwrap_or(0);
            (high << 4 | digits.next().unwrap_or(0)) as u8
        })
    })
}

/// The boot's number as text, for files that people may read.
pub fn boot_id_text() -> String {
    boot_id().iter().map(|b| format!("{b:02x}")).collect()
}

/// Makes this process the leader of a session of its own and closes every descriptor above 2
/// that it inherited. To be called first thing in an agent's `main`, before anything is opened.
pub fn detach_from_parent() -> Result<()> {
    match rustix::process::setsid() {
        Ok(_) | Err(rustix::io::Errno::PERM) => {} // PERM: leads a session already
        Err(e) => return Err(Error::io("cannot start a session of its own", e)),
    }
    close_inherited()
}

/// Closes every descriptor above 2. To be called before this process has opened any.
pub fn close_inherited() -> Result<()> {
    let list = std::fs::read_dir("/proc/self/fd").map_err(|e| Error::io("cannot list /proc/self/fd", e))?;
    let open: Vec<RawFd> = list
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|fd| *fd > 2)
        .collect();
    for fd in open {
        // The one that listed the directory is closed already, and rustix wants no such thing.
        // SAFETY: the number is only asked after; if it is no descriptor, the answer says so.
        if rustix::io::fcntl_getfd(unsafe { BorrowedFd::borrow_raw(fd) }).is_ok() {
            // SAFETY: nothing of this process uses these descriptors, as the caller promises.
            unsafe { rustix::io::close(fd) };
        }
    }
    Ok(())
}

/// Asks the kernel to end this process when its parent ends (the thread of it that started this
/// process, to be exact: start it from one that stays). `parent` is the parent's pid, as it
/// knew itself: when it is gone already, that is an error.
pub fn stop_with_parent(parent: u32) -> Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(|e| Error::io("cannot tie the process to its parent", e))?;
    let now = rustix::process::getppid().map(|p| p.as_raw_nonzero().get() as u32);
    if now != Some(parent) {
        return Err(Error::io(
            format!("the parent {parent} has ended"),
            std::io::Error::from(std::io::ErrorKind::BrokenPipe),
        ));
    }
    Ok(())
}

/// Starts a thread that ends this process when its standard input is closed: for servers that
/// were started by another program and must not outlive it. `at_end` is called first.
pub fn die_with_stdin(at_end: impl FnOnce() + Send + 'static) -> Result<()> {
    std::thread::Builder::new()
        .name("stdin".into())
        .spawn(move || {
            let mut byte = [0; 64];
            loop {
                match rustix::io::read(std::io::stdin(), &mut byte) {
                    Ok(0) => break,
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(_) => break,
                }
            }
            at_end();
            std::process::exit(0);
        })
        .map(drop)
        .map_err(|e| Error::io("cannot start a thread", e))
}

/// How long ago this process began.
pub fn age() -> std::time::Duration {
    let ticks = rustix::param::clock_ticks_per_second().max(1);
    let begun = Process::current().start_time as f64 / ticks as f64;
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let now = now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9;
    std::time::Duration::try_from_secs_f64(now - begun).unwrap_or_default()
}

/// Sends a signal to a process if it still is the one meant.
pub fn signal(process: &Process, signal: Signal) -> Result<()> {
    if !process.alive() {
        return Err(Error::new(
            forebay_types::Code::NotFound,
            format!("process {} has ended already", process.pid),
        ));
    }
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| Error::bad(format!("{} is no process number", process.pid)))?;
    rustix::process::kill_process(pid, signal)
        .map_err(|e| Error::io(format!("cannot signal process {}", process.pid), e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_a_namesake_of_another_time_does_not() {
        let me = Process::current();
        assert!(me.start_time > 0);
        assert_eq!(me.state(), ProcessState::Running);
        assert_eq!(Process::of_pid(me.pid), Some(me));
        assert!(!Process { start_time: me.start_time + 1, ..me }.alive());
        assert!(!Process { boot_id: [0; 16], ..me }.alive());
        let elsewhere = Process { space: me.space + 1, ..me };
        assert_eq!(elsewhere.state(), ProcessState::Hidden, "its number says nothing here");
    }

    #[test]
    fn who_is_at_the_other_end_of_a_socket_is_told_by_the_kernel() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let peer = SocketPeer::of(&one).unwrap();
        assert_eq!(peer.process, Some(Process::current()));
        assert_eq!(peer.uid, rustix::process::geteuid().as_raw());
        assert!(SocketPeer::of(std::fs::File::open("/dev/null").unwrap()).is_err());
    }

    #[test]
    fn a_stat_line_with_brackets_in_the_name_is_read() {
        let line = "7 (a) b) T 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4242 1000";
        assert_eq!(parse_stat(line), Some((ProcessState::Stopped, 4242)));
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn a_stopped_child_is_told_from_a_dead_one() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::of_pid(child.id()).unwrap();
        let until = |state| {
            let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
            while process.state() != state {
                assert!(std::time::Instant::now() < deadline, "never became {state:?}");
                std::thread::yield_now();
            }
        };
        signal(&process, Signal::STOP).unwrap();
        until(ProcessState::Stopped);
        signal(&process, Signal::KILL).unwrap();
        until(ProcessState::Gone);
        child.wait().unwrap();
        assert!(signal(&process, Signal::KILL).is_err());
    }
}
