//! The dynamic loader, libffi, and memory as foreign code sees it. Home of all `unsafe` of this crate.
//!
//! No compiler can check that a symbol takes what an interface file says. That it does is the promise of whoever
//! wrote the file; everything else is checked here or by the callers of these functions.
#![allow(unsafe_code)]

use std::alloc::Layout;
use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use forebay_types::DType;
use libffi::middle::{Cif, Type};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mmap_anonymous, mprotect, munmap};

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(handle: *mut c_void, symbol: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
}

const RTLD_NOW: c_int = 2;

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
        // What the libraries call to report a wrong argument is found in this program first; this keeps it there.
        std::hint::black_box(xerbla_ as *const () as usize + cblas_xerbla as *const () as usize);
        let path = CString::new(path).map_err(|_| "its name has a zero byte".to_owned())?;
        // SAFETY: a string that ends with a zero byte. What constructors do is the library's matter.
        let handle = unsafe { dlopen(path.as_ptr(), RTLD_NOW) };
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
        for i in 0..frame.count {
            if frame.indirect & 1 << i != 0 {
                let at = frame.scalars[i].as_mut_ptr();
                frame.values[i].write(at as usize as u128);
            }
            places[i].write(frame.values[i].as_mut_ptr().cast());
        }
        let mut returned = [0u128; 2];
        // SAFETY: any pointer to code may be seen as a function; with what it is called follows.
        let code: unsafe extern "C" fn() = unsafe { std::mem::transmute(self.symbol.0.as_ptr()) };
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
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&returned[0].to_le_bytes());
        bytes[16..].copy_from_slice(&returned[1].to_le_bytes());
        bytes
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
}

/// Bytes of the canary before guarded memory, and of the slack behind it.
pub(crate) const CANARY: usize = 256;
/// As a number of any type it is one to which adding 1 makes a difference.
const CANARY_BYTE: u8 = 0x3f;

impl Guarded {
    pub fn new(bytes: usize, slack: bool) -> Option<Guarded> {
        let page = rustix::param::page_size();
        let slack = if slack { CANARY } else { 0 };
        let mapped = (bytes + CANARY + slack).next_multiple_of(page) + page;
        let flags = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, which replaces none.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), mapped, flags, MapFlags::PRIVATE) }.ok()?;
        // SAFETY: the last page of the mapping just made, which nobody uses.
        unsafe { mprotect(start.cast::<u8>().add(mapped - page).cast(), page, MprotectFlags::empty()) }
            .ok()?;
        let start = NonNull::new(start.cast())?;
        let mut guarded = Guarded { start, mapped, bytes, slack };
        let (before, _, after) = guarded.parts();
        before.fill(CANARY_BYTE);
        after.fill(CANARY_BYTE);
        Some(guarded)
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
        let changed = |bytes: &[u8]| bytes.iter().filter(|b| **b != CANARY_BYTE).count();
        let (before, _, after) = self.parts();
        (changed(before), changed(after))
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
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

thread_local! {
    static NOTE: Cell<Option<Note>> = const { Cell::new(None) };
}

/// Takes what a library has told on this thread.
pub(crate) fn take_note() -> Option<Note> {
    NOTE.take()
}

/// Keeps what a library tells.
///
/// # Safety
/// `name` has `length` bytes, or ends before with a zero byte.
unsafe fn note(name: *const u8, length: usize, info: i32) {
    let mut note = Note { info, ..Note::default() };
    for (i, to) in note.name.iter_mut().take(length).enumerate() {
        // SAFETY: neither the end nor a zero byte has come yet.
        match unsafe { name.add(i).read() } {
            0 => break,
            byte => *to = byte,
        }
    }
    NOTE.set(Some(note));
}

/// What BLAS and LAPACK call when an argument is wrong; theirs prints, or ends the process. The dynamic linker finds
/// it in the program before it looks into libraries.
///
/// # Safety
/// As Fortran calls it: `name` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xerbla_(name: *const u8, info: *const i32, length: c_int) {
    // SAFETY: the caller's promise.
    unsafe { note(name, usize::try_from(length).unwrap_or(0), info.read()) };
}

/// The same of CBLAS.
///
/// # Safety
/// As C calls it: `name` ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cblas_xerbla(info: c_int, name: *const u8, _form: *const u8) {
    // SAFETY: the caller's promise.
    unsafe { note(name, 32, info) };
}
