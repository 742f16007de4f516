//! Calls of the C library and the kernel that have no safe form, each behind a function that has. Home of all
//! `unsafe` of this crate.
#![allow(unsafe_code)]

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ffi::c_int;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::AtomicU32;

/// The pid and the user of the process at the other end of a Unix socket. The pid comes as a plain number: it is 0
/// when this name space has none for the peer, which the type of pids in `rustix` cannot hold.
pub fn peer_of(socket: BorrowedFd) -> io::Result<(i32, u32)> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes into `peer`, of which every bit pattern is a
    // value, and the descriptor is open for as long as it is borrowed.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut bytes,
        )
    };
    if done != 0 { Err(io::Error::last_os_error()) } else { Ok((peer.pid, peer.uid)) }
}

/// A word that is zero at first and in every child. Kernels before 4.14 have none.
pub fn wiped_on_fork() -> Option<&'static AtomicU32> {
    const BYTES: usize = 4096; // a part of a page counts as the page
    // SAFETY: a fresh private mapping overlaps nothing.
    let page = unsafe {
        mmap_anonymous(ptr::null_mut(), BYTES, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
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

/// Has functions called around each fork.
pub fn at_fork(before: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) {
    type Handler = Option<extern "C" fn()>;
    unsafe extern "C" {
        fn pthread_atfork(before: Handler, parent: Handler, child: Handler) -> c_int;
    }
    // SAFETY: the handlers are functions of this program. It fails for want of memory only, and then
    // forking is what it was.
    let _ = unsafe { pthread_atfork(Some(before), Some(parent), Some(child)) };
}

/// Ends this process, which is the child of a fork: what it has written through the C library goes out, and nothing else
/// is called, for what else there is belongs to the parent.
pub fn end_child(status: c_int) -> ! {
    // SAFETY: the C library makes its streams usable in the child of a fork, and `_exit` may be called anywhere.
    unsafe {
        libc::fflush(ptr::null_mut());
        libc::_exit(status)
    }
}

/// Lets no exception of floating-point numbers end this thread.
pub fn trap_no_exceptions() {
    /// Every exception of every processor: each takes those that it has.
    const ALL: c_int = 0x3f;
    unsafe extern "C" {
        fn fedisableexcept(exceptions: c_int) -> c_int;
    }
    // SAFETY: it changes the control words of this thread alone, and takes any number.
    unsafe { fedisableexcept(ALL) };
}

/// Closes a descriptor that was inherited, if it is one still. Nothing of this process may use it.
pub fn close_inherited(fd: RawFd) {
    // The one that listed the directory is closed already, and rustix wants no such thing.
    // SAFETY: the number is only asked after; if it is no descriptor, the answer says so.
    if rustix::io::fcntl_getfd(unsafe { BorrowedFd::borrow_raw(fd) }).is_ok() {
        // SAFETY: nothing of this process uses the descriptor, as the caller promises.
        unsafe { rustix::io::close(fd) };
    }
}

/// What is done with bytes of a file.
#[derive(Clone, Copy)]
pub enum Lock {
    /// They are locked for many at once.
    Shared,
    /// They are given back.
    None,
}

fn range(bytes: &Range<i64>, kind: c_int) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: bytes.start,
        l_len: bytes.end - bytes.start,
        l_pid: 0,
    }
}

/// Locks bytes of a file for the open file, not for the process. Never waits.
pub fn lock(file: BorrowedFd, bytes: &Range<i64>, how: Lock) -> io::Result<()> {
    let kind = match how {
        Lock::Shared => libc::F_RDLCK,
        Lock::None => libc::F_UNLCK,
    };
    let lock = range(bytes, kind);
    // SAFETY: the descriptor is open for as long as it is borrowed, and the system only reads the structure.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Locks a byte of a file for this process alone, or gives it back. Never waits: false when another one has it.
pub fn lock_for_process(file: BorrowedFd, byte: i64, locks: bool) -> io::Result<bool> {
    let lock = range(&(byte..byte + 1), if locks { libc::F_WRLCK } else { libc::F_UNLCK });
    // SAFETY: the descriptor is open for as long as it is borrowed, and the system only reads the structure.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const lock) } {
        -1 => match io::Error::last_os_error() {
            e if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
            e => Err(e),
        },
        _ => Ok(true),
    }
}

/// Who has a byte of a file, if that is another process: its pid, below 1 if it has no number here.
pub fn who_locks(file: BorrowedFd, byte: i64) -> io::Result<Option<i32>> {
    let mut lock = range(&(byte..byte + 1), libc::F_WRLCK);
    // SAFETY: the descriptor is open, and the structure is ours.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut lock) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok((lock.l_type != libc::F_UNLCK as libc::c_short).then_some(lock.l_pid)),
    }
}

/// What SIGTERM does.
#[derive(Clone, Copy)]
pub enum OnTerm {
    /// It ends the process.
    End,
    /// It calls a function, which makes such calls only as a handler may.
    Call(extern "C" fn(c_int)),
}

impl OnTerm {
    fn handler(self) -> libc::sighandler_t {
        match self {
            OnTerm::End => libc::SIG_DFL,
            OnTerm::Call(function) => function as *const () as libc::sighandler_t,
        }
    }
}

/// Whether this is what SIGTERM does; `None` when the system does not say.
pub fn is_on_term(what: OnTerm) -> Option<bool> {
    let mut now = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: asks only, into memory of the right type; all zero is a value of it.
    let now = unsafe {
        (libc::sigaction(libc::SIGTERM, ptr::null(), now.as_mut_ptr()) == 0).then(|| now.assume_init())
    };
    now.map(|now| now.sa_sigaction == what.handler())
}

/// Sets what SIGTERM does; fit for use in a handler.
pub fn set_on_term(what: OnTerm) -> bool {
    // SAFETY: all zero is a value of the type: no flags, no signals held back.
    let mut action = unsafe { MaybeUninit::<libc::sigaction>::zeroed().assume_init() };
    action.sa_sigaction = what.handler();
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the default, or a handler that makes such calls only as a handler may.
    unsafe { libc::sigaction(libc::SIGTERM, &action, ptr::null_mut()) == 0 }
}

/// Sends SIGTERM to this thread; fit for use in a handler.
pub fn raise_term() {
    // SAFETY: sends a signal to this thread.
    unsafe { libc::raise(libc::SIGTERM) };
}

/// The number of this process, by a system call; fit for use in a handler.
pub fn getpid() -> i32 {
    // SAFETY: asks for a number.
    unsafe { libc::getpid() }
}

/// Milliseconds of the monotonic clock, never 0; fit for use in a handler.
pub fn monotonic_ms() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes into memory of the right type; a handler may call it.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    (now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000).max(1)
}

/// The standard streams of the C library and of Fortran's, which keep what was printed for a while.
mod streams {
    use super::*;
    use std::ffi::{c_char, c_void};
    use std::sync::OnceLock;

    unsafe extern "C" {
        static stdout: *mut libc::FILE;
        fn __fpending(stream: *mut libc::FILE) -> usize;
        fn ftrylockfile(stream: *mut libc::FILE) -> c_int;
        fn funlockfile(stream: *mut libc::FILE);
        fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
        fn dlsym(handle: *mut c_void, symbol: *const c_char) -> *mut c_void;
    }

    const RTLD_NOW: c_int = 2;
    const RTLD_NOLOAD: c_int = 4;
    /// The units of Fortran that are connected before a program begins: standard output and standard error.
    const UNITS: [c_int; 2] = [6, 0];

    type FlushUnit = unsafe extern "C" fn(*const c_int);

    /// Fortran's own flush, if its library is in this process.
    fn flush_unit() -> Option<FlushUnit> {
        static FOUND: OnceLock<Option<FlushUnit>> = OnceLock::new();
        *FOUND.get_or_init(|| {
            let libraries = [c"libgfortran.so.5", c"libgfortran.so.4", c"libgfortran.so.3"];
            // SAFETY: asks for a library that is loaded already, by a string that ends with a zero byte.
            let loaded = libraries.map(|name| unsafe { dlopen(name.as_ptr(), RTLD_NOW | RTLD_NOLOAD) });
            // The first is the program itself, which may hold that library.
            let mut places =
                std::iter::once(ptr::null_mut()).chain(loaded.into_iter().filter(|h| !h.is_null()));
            places.find_map(|handle| {
                // SAFETY: the default of the loader or a library that is open, and a string that ends with a zero byte.
                let found = unsafe { dlsym(handle, c"_gfortran_flush_i4".as_ptr()) };
                // SAFETY: libgfortran's function of that name takes the address of a number of a unit.
                (!found.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, FlushUnit>(found) })
            })
        })
    }

    /// Whether Fortran's library is in this process, which keeps what was printed until somebody flushes it.
    pub(crate) fn has_units() -> bool {
        flush_unit().is_some()
    }

    /// Whether the C library keeps what was printed to standard output.
    fn keeps_output() -> bool {
        // SAFETY: the C library's own stream. It looks at two pointers without a lock: an answer of a moment ago.
        unsafe { __fpending(stdout) > 0 }
    }

    /// Has what was printed written; false when another thread is printing just now. Standard error keeps nothing. Other
    /// streams are left alone: a thread that waits for standard input has that stream locked.
    pub(crate) fn flush_output() -> bool {
        if let Some(flush) = flush_unit() {
            // SAFETY: the numbers of units; one that is not connected is passed over.
            UNITS.iter().for_each(|unit| unsafe { flush(unit) });
        }
        if !keeps_output() {
            return true;
        }
        // SAFETY: the C library's own stream, locked by this thread while it is flushed.
        unsafe {
            let is_ours = ftrylockfile(stdout) == 0;
            if is_ours {
                libc::fflush(stdout);
                funlockfile(stdout);
            }
            is_ours
        }
    }

    /// Has standard output written line by line, as on a terminal.
    pub(crate) fn print_by_lines() {
        // SAFETY: the C library's own stream; it keeps its buffer.
        unsafe { libc::setvbuf(stdout, ptr::null_mut(), libc::_IOLBF, 0) };
    }
}
pub(crate) use streams::{flush_output, has_units, print_by_lines};

/// Puts another open file in the place of a descriptor of this process.
pub(crate) fn replace(fd: RawFd, with: BorrowedFd) -> io::Result<()> {
    // SAFETY: two numbers; what the first stood for is closed, which is what the caller wants.
    match unsafe { libc::dup2(with.as_raw_fd(), fd) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// A standard descriptor of this process, for a moment; none when it is closed.
pub(crate) fn standard(fd: RawFd) -> Option<BorrowedFd<'static>> {
    // SAFETY: the number is only asked after here; the caller uses it as any code uses descriptors 1 and 2.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    rustix::io::fcntl_getfd(borrowed).is_ok().then_some(borrowed)
}

/// A descriptor that the parent has left open for this process, which nobody else here knows.
pub(crate) fn inherited(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: as in `close_inherited`, the number is only asked after.
    rustix::io::fcntl_setfd(unsafe { BorrowedFd::borrow_raw(fd) }, rustix::io::FdFlags::CLOEXEC)?;
    // SAFETY: it is open, and nothing else of this process uses it, as the caller promises.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Leaves all signals to the other threads of this process.
pub(crate) fn block_signals() {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the first call fills the set that the second one reads.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), ptr::null_mut());
    }
}
