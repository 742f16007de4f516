//! The dynamic loader, libffi, and memory as foreign code sees it. Home of all `unsafe` of this crate.
//!
//! No compiler can check that a symbol takes what an interface file says. That it does is the promise of whoever
//! wrote the file; everything else is checked here or by the callers of these functions.
#![allow(unsafe_code)]

use std::alloc::Layout;
use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io::Write;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use forebay_types::DType;
use libffi::middle::{Cif, Type};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mmap_anonymous, mprotect, munmap};

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(handle: *mut c_void, symbol: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
}

const RTLD_NOW: c_int = 2;
const RTLD_GLOBAL: c_int = 0x100;

/// Most arguments of a call, hidden lengths among them.
pub(crate) const MOST: usize = 80;

/// A library in this process. It stays until the process ends: its threads and handlers may.
pub(crate) struct Handle(NonNull<c_void>);

// SAFETY: the loader locks by itself; a handle is a number to it.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// The address of a function of a library.
#[derive(Clone, Copy)]
pub(crate) struct Symbol(NonNull<c_void>);

// SAFETY: an address of code that is never unloaded.
unsafe impl Send for Symbol {}
// SAFETY: as above.
unsafe impl Sync for Symbol {}

impl Handle {
    /// Loads a library, which runs its constructors.
    pub fn open(path: &str) -> Result<Handle, String> {
        hook()?;
        Handle::load(path, RTLD_NOW)
    }

    fn load(path: &str, flags: c_int) -> Result<Handle, String> {
        let path = CString::new(path).map_err(|_| "its name has a zero byte".to_owned())?;
        // SAFETY: a string that ends with a zero byte. What constructors do is the library's matter.
        let handle = unsafe { dlopen(path.as_ptr(), flags) };
        NonNull::new(handle).map(Handle).ok_or_else(|| {
            // SAFETY: the text of the failure of this thread, or null.
            let text = unsafe { dlerror() };
            if text.is_null() {
                return "the loader says no reason".to_owned();
            }
            // SAFETY: it ends with a zero byte and stays until the loader is asked again.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        })
    }

    /// A function of it, or of a library that it needs.
    pub fn symbol(&self, name: &str) -> Option<Symbol> {
        let name = CString::new(name).ok()?;
        // SAFETY: an open handle, and a string that ends with a zero byte.
        NonNull::new(unsafe { dlsym(self.0.as_ptr(), name.as_ptr()) }).map(Symbol)
    }
}

/// How an argument is passed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Passed {
    Address,
    Value(DType),
    /// A `size_t`.
    Length,
}

fn type_of(dtype: DType) -> Type {
    match dtype {
        DType::I8 => Type::i8(),
        DType::I16 => Type::i16(),
        DType::I32 => Type::i32(),
        DType::I64 => Type::i64(),
        DType::U8 | DType::Bool | DType::Str | DType::Bytes => Type::u8(),
        DType::U16 | DType::F16 => Type::u16(),
        DType::U32 => Type::u32(),
        DType::U64 => Type::u64(),
        DType::F32 => Type::f32(),
        DType::F64 => Type::f64(),
        DType::C64 => Type::c32(),
        DType::C128 => Type::c64(),
    }
}

/// How a function is called, prepared once.
pub(crate) struct Interface {
    cif: Cif,
    symbol: Symbol,
    count: usize,
}

// SAFETY: nothing of it is changed after it was made; a call reads it.
unsafe impl Send for Interface {}
// SAFETY: as above.
unsafe impl Sync for Interface {}

impl Interface {
    /// None if libffi cannot call such a function, or it has too many arguments.
    pub fn new(symbol: Symbol, args: &[Passed], returned: Option<DType>) -> Option<Interface> {
        let types = args.iter().map(|passed| match passed {
            Passed::Address => Type::pointer(),
            Passed::Value(dtype) => type_of(*dtype),
            Passed::Length => Type::usize(),
        });
        let returned = returned.map_or_else(Type::void, type_of);
        let cif = (args.len() <= MOST).then(|| Cif::try_new(types.collect::<Vec<_>>(), returned).ok())??;
        Some(Interface { cif, symbol, count: args.len() })
    }

    /// Calls it. What it returns stands at the beginning of the bytes.
    ///
    /// # Panics
    /// When the frame has another number of arguments.
    pub fn call(&self, frame: &mut Frame) -> [u8; 32] {
        assert_eq!(frame.count, self.count, "arguments of a call");
        let mut places = [const { MaybeUninit::<*mut c_void>::uninit() }; MOST];
        let values = frame.values[..frame.count].iter_mut().zip(&mut frame.scalars).enumerate();
        for ((i, (value, scalar)), place) in values.zip(&mut places) {
            if frame.indirect & 1 << i != 0 {
                value.write(scalar.as_mut_ptr() as usize as u128);
            }
            place.write(value.as_mut_ptr().cast());
        }
        let mut returned = [0u128; 2];
        // SAFETY: any pointer to code may be seen as a function; with what it is called follows.
        let code: unsafe extern "C" fn() = unsafe { std::mem::transmute(self.symbol.0.as_ptr()) };
        let mode = FloatMode::now();
        // SAFETY: the interface was prepared and is not changed by a call; the first `count` places point to initialised
        // values of at least the size of their types; 32 bytes hold whatever a register or a complex number
        // returns. That the function takes these types, and of each address no more than stands in the interface file, is
        // the promise of who wrote that file.
        unsafe {
            libffi::raw::ffi_call(
                self.cif.as_raw_ptr(),
                Some(code),
                returned.as_mut_ptr().cast(),
                places.as_mut_ptr().cast(),
            );
        }
        mode.put_back();
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&returned[0].to_le_bytes());
        bytes[16..].copy_from_slice(&returned[1].to_le_bytes());
        bytes
    }
}

/// How this thread rounds, and what it does with the smallest numbers. A library that changes it changes it for itself alone.
struct FloatMode(u64);

impl FloatMode {
    #[inline]
    fn now() -> FloatMode {
        #[cfg(target_arch = "x86_64")]
        {
            let mut control = 0u32;
            // SAFETY: it writes four bytes to the address.
            unsafe {
                std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut control, options(nostack, preserves_flags))
            };
            // The lowest bits say what has happened, not what is to.
            FloatMode(u64::from(control & !0x3f))
        }
        #[cfg(target_arch = "aarch64")]
        {
            let control: u64;
            // SAFETY: it reads a register of this thread.
            unsafe {
                std::arch::asm!("mrs {}, fpcr", out(reg) control, options(nomem, nostack, preserves_flags))
            };
            FloatMode(control)
        }
    }

    #[inline]
    fn put_back(self) {
        if FloatMode::now().0 == self.0 {
            return;
        }
        #[cfg(target_arch = "x86_64")]
        {
            let control = self.0 as u32;
            // SAFETY: a value that the register had before.
            unsafe {
                std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const control, options(nostack, preserves_flags))
            };
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: a value that the register had before.
        unsafe {
            std::arch::asm!("msr fpcr, {}", in(reg) self.0, options(nomem, nostack, preserves_flags))
        };
    }
}

/// The arguments of one call, in order.
pub(crate) struct Frame {
    /// Values, and addresses as values.
    values: [MaybeUninit<u128>; MOST],
    /// What stands behind the addresses of scalars.
    scalars: [MaybeUninit<u128>; MOST],
    /// Which values are the addresses of their scalars, bit by bit.
    indirect: u128,
    count: usize,
}

impl Frame {
    /// Without arguments.
    pub fn new() -> Frame {
        const NONE: MaybeUninit<u128> = MaybeUninit::uninit();
        Frame { values: [NONE; MOST], scalars: [NONE; MOST], indirect: 0, count: 0 }
    }

    /// Adds a value, which begins with the lowest byte.
    #[inline]
    pub fn value(&mut self, bits: u128) {
        self.values[self.count].write(bits);
        self.count += 1;
    }

    /// Adds an address.
    #[inline]
    pub fn address(&mut self, at: *const u8) {
        self.value(at as usize as u128);
    }

    /// Adds the address of a scalar that lies in the frame, and says which one it is.
    #[inline]
    pub fn scalar(&mut self, bits: u128) -> usize {
        let at = self.count;
        self.scalars[at].write(bits);
        self.indirect |= 1 << at;
        self.count += 1;
        at
    }

    /// What a scalar is now.
    #[inline]
    pub fn read(&self, at: usize) -> u128 {
        assert!(self.indirect & 1 << at != 0, "a scalar of the frame");
        // SAFETY: it was written when its bit was set, and the called function writes whole bytes.
        unsafe { self.scalars[at].assume_init_read() }
    }
}

/// Memory of zeros at an address that every processor's vectors like.
pub(crate) struct Room {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: memory of its own.
unsafe impl Send for Room {}

impl Room {
    /// None if there is not so much memory. Pages are taken when they are first touched.
    pub fn zeroed(bytes: usize, align: usize) -> Option<Room> {
        let layout = Layout::from_size_align(bytes.max(16), align.max(64)).ok()?;
        // SAFETY: the layout has bytes.
        let start = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })?;
        Some(Room { start, layout })
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: allocated, initialised and owned; borrowed as the room is.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.layout.size()) }
    }

    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and never twice freed.
        unsafe { std::alloc::dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// Words that another process sees, too, as long as this process lives.
pub(crate) fn shared_words(fd: BorrowedFd, words: usize) -> rustix::io::Result<&'static [AtomicU32]> {
    let flags = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, which replaces none.
    let start = unsafe { mmap(std::ptr::null_mut(), words * 4, flags, MapFlags::SHARED, fd, 0)? };
    // SAFETY: the mapping has so many words, aligned as pages are, is never unmapped, and is accessed by atomics only.
    Ok(unsafe { std::slice::from_raw_parts(start.cast::<AtomicU32>(), words) })
}

/// Memory that ends where a page begins that nobody may touch, with bytes before it that nobody should. With slack there
/// are as many such bytes between its end and that page.
pub(crate) struct Guarded {
    start: NonNull<u8>,
    mapped: usize,
    bytes: usize,
    slack: usize,
    /// Every byte of the slack.
    behind: u8,
}

/// Bytes of the canary before guarded memory, and of the slack behind it.
pub(crate) const CANARY: usize = 256;
/// As a number of any type it is one to which adding 1 makes a difference.
const CANARY_BYTE: u8 = 0x3f;
/// What lies in the slack behind memory, usually and for a second look.
pub(crate) const SLACK: [u8; 2] = [CANARY_BYTE, 0xbf];

/// Mappings that are kept for the next arrays, and the bytes of the largest.
const SPARES: usize = 64;
const LARGEST_SPARE: usize = 1 << 20;

thread_local! {
    /// Mappings that were given back: the next call wants the same sizes, and three system calls take longer than
    /// most calls with small arguments.
    static SPARE: Cell<Vec<(NonNull<u8>, usize)>> = const { Cell::new(Vec::new()) };
}

impl Guarded {
    /// Between its end and the page there are so many bytes of that kind.
    pub fn new(bytes: usize, slack: usize, behind: u8) -> Option<Guarded> {
        let page = rustix::param::page_size();
        let mapped = (bytes + CANARY + slack).next_multiple_of(page) + page;
        let start = match Guarded::spare(mapped) {
            Some(start) => start,
            None => Guarded::map(mapped, page)?,
        };
        let mut guarded = Guarded { start, mapped, bytes, slack, behind };
        let (before, _, after) = guarded.parts();
        before.fill(CANARY_BYTE);
        after.fill(behind);
        Some(guarded)
    }

    fn spare(mapped: usize) -> Option<NonNull<u8>> {
        let mut spare = SPARE.take();
        let found = spare.iter().rposition(|one| one.1 == mapped).map(|at| spare.swap_remove(at).0);
        SPARE.set(spare);
        found
    }

    fn map(mapped: usize, page: usize) -> Option<NonNull<u8>> {
        let flags = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, which replaces none.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), mapped, flags, MapFlags::PRIVATE) }.ok()?;
        // SAFETY: the last page of the mapping just made, which nobody uses.
        unsafe { mprotect(start.cast::<u8>().add(mapped - page).cast(), page, MprotectFlags::empty()) }
            .ok()?;
        NonNull::new(start.cast())
    }

    /// What lies before it, the memory itself, what lies behind it.
    fn parts(&mut self) -> (&mut [u8], &mut [u8], &mut [u8]) {
        let len = self.mapped - rustix::param::page_size();
        // SAFETY: readable and writable up to the last page, and owned.
        let all = unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), len) };
        let (before, rest) = all.split_at_mut(len - self.slack - self.bytes);
        let (own, after) = rest.split_at_mut(self.bytes);
        (before, own, after)
    }

    /// The memory itself.
    pub fn bytes(&mut self) -> &mut [u8] {
        self.parts().1
    }

    /// The page behind it.
    pub fn behind(&self) -> usize {
        self.start.as_ptr() as usize + self.mapped - rustix::param::page_size()
    }

    /// Bytes before and behind it that were changed.
    pub fn changed(&mut self) -> (usize, usize) {
        let behind = self.behind;
        let changed = |bytes: &[u8], to: u8| bytes.iter().filter(|b| **b != to).count();
        let (before, _, after) = self.parts();
        (changed(before, CANARY_BYTE), changed(after, behind))
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let mut spare = SPARE.take();
        let is_kept = spare.len() < SPARES && self.mapped <= LARGEST_SPARE;
        if is_kept {
            spare.push((self.start, self.mapped));
        }
        SPARE.set(spare);
        if is_kept {
            return;
        }
        // SAFETY: mapped so, and nobody has a reference any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.mapped) };
    }
}

/// Pages that nobody may touch, each with the number of its argument.
static GUARDS: [(AtomicUsize, AtomicU32); 128] = [const { (AtomicUsize::new(0), AtomicU32::new(0)) }; 128];

/// Watches these pages, and no others.
pub(crate) fn watch_guards(guards: impl Iterator<Item = (usize, u32)>) {
    let mut rest = GUARDS.iter();
    for ((page, arg), guard) in guards.zip(&mut rest) {
        guard.1.store(arg, Ordering::Relaxed);
        guard.0.store(page, Ordering::Relaxed);
    }
    rest.for_each(|guard| guard.0.store(0, Ordering::Relaxed));
}

/// The status of a process that has touched what it must not.
pub(crate) const TOUCHED: c_int = 99;

/// Has a forbidden access say `fault ARGUMENT OFFSET` on standard output and end the process.
pub(crate) fn report_faults() {
    // SAFETY: all zeros is a value of the structure; the handler is a function of this program that does only what a
    // handler may.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_fault as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut());
        libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
    }
}

extern "C" fn on_fault(_signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: the kernel hands over what it knows of the fault.
    let address = unsafe { (*info).si_addr() } as usize;
    let page = rustix::param::page_size();
    let found = GUARDS.iter().find(|g| {
        let start = g.0.load(Ordering::Relaxed);
        start != 0 && (start..start + page).contains(&address)
    });
    let mut line = [b' '; 32];
    line[..5].copy_from_slice(b"fault");
    if let Some(guard) = found {
        digits(&mut line[6..12], guard.1.load(Ordering::Relaxed) as usize);
        digits(&mut line[13..20], address - guard.0.load(Ordering::Relaxed));
    }
    line[31] = b'\n';
    // SAFETY: both may be called in a handler; the bytes are there.
    unsafe {
        libc::write(1, line.as_ptr().cast(), line.len());
        libc::_exit(TOUCHED);
    }
}

/// Writes a number, to the right.
fn digits(room: &mut [u8], mut n: usize) {
    for to in room.iter_mut().rev() {
        *to = b'0' + (n % 10) as u8;
        n /= 10;
    }
}

/// A wrong argument that a library has told of: its number, and the name of who told it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Note {
    pub info: i32,
    name: [u8; 32],
}

impl Note {
    pub fn name(&self) -> &[u8] {
        let end = self.name.iter().position(|b| *b == 0).unwrap_or(self.name.len());
        self.name[..end].trim_ascii_end()
    }
}

/// `src/hooks.c`, compiled.
static HOOKS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hooks.so"));

type Take = unsafe extern "C" fn(*mut c_int, *mut u8) -> c_int;

static TAKE: OnceLock<Result<Take, String>> = OnceLock::new();

/// Loads what libraries are to call when an argument is wrong, once and before them.
fn hook() -> Result<Take, String> {
    let load = || {
        let fault =
            |e: &dyn std::fmt::Display| format!("what hears of wrong arguments cannot be loaded: {e}");
        let file = memfd_create("forebay-hooks", MemfdFlags::CLOEXEC).map_err(|e| fault(&e))?;
        let mut file = std::fs::File::from(file);
        file.write_all(HOOKS).map_err(|e| fault(&e))?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let handle = Handle::load(&path, RTLD_NOW | RTLD_GLOBAL).map_err(|e| fault(&e))?;
        let symbol = handle.symbol("forebay_take_note").ok_or_else(|| fault(&"it lacks a symbol"))?;
        // SAFETY: the function of that name in `src/hooks.c` has this type.
        Ok(unsafe { std::mem::transmute::<NonNull<c_void>, Take>(symbol.0) })
    };
    TAKE.get_or_init(load).clone()
}

/// Takes what a library has told on this thread since the last time.
pub(crate) fn take_note() -> Option<Note> {
    let Some(Ok(take)) = TAKE.get() else { return None };
    let mut note = Note::default();
    // SAFETY: it writes one number and 32 bytes.
    let told = unsafe { take(&raw mut note.info, note.name.as_mut_ptr()) };
    (told != 0).then_some(note)
}
