//! Bytes that may only be read, of this process or shared: on their way to a file, a socket or a copy.
//!
//! What is written of a block goes to the system straight from where it lies. To the compiler a `&[u8]`
//! would promise that nobody writes it meanwhile, which another process may do ([`crate::View`]). [`Lent`]
//! is an address and a length: the kernel gets the address, everybody else a copy. So what is kept may be
//! as it was before a change or after it, and no decision is ever made of bytes that can change.

use crate::view::copy;
use rustix::io::Errno;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;

/// Bytes that others may change while they are read.
#[derive(Clone, Copy)]
pub struct Lent<'a> {
    start: NonNull<u8>,
    len: usize,
    _of: PhantomData<&'a [u8]>,
}

// SAFETY: the bytes are only read, by the kernel and by copies whose result nobody is promised.
unsafe impl Send for Lent<'_> {}
// SAFETY: as above.
unsafe impl Sync for Lent<'_> {}

impl<'a> Lent<'a> {
    /// Over memory that lives for `'a`.
    ///
    /// # Safety
    /// `len` bytes from the address on are readable for `'a`, and no `&mut` to them is used meanwhile.
    pub(crate) unsafe fn new(start: NonNull<u8>, len: usize) -> Lent<'a> {
        Lent { start, len, _of: PhantomData }
    }

    /// Over bytes of this process.
    #[inline]
    pub fn of(own: &'a [u8]) -> Lent<'a> {
        Lent { start: NonNull::from(own).cast(), len: own.len(), _of: PhantomData }
    }

    /// How many.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the first one lies at a multiple of `bytes`, a power of two.
    #[inline]
    pub fn is_aligned_to(&self, bytes: usize) -> bool {
        self.start.addr().get().is_multiple_of(bytes)
    }

    /// A part; none when it leaves the bytes.
    #[inline]
    pub fn part(&self, at: usize, len: usize) -> Option<Lent<'a>> {
        let inside = at <= self.len && len <= self.len - at;
        // SAFETY: the part lies in the memory of these bytes.
        inside.then(|| unsafe { Lent::new(self.start.add(at), len) })
    }

    /// Those before a position and those from it on.
    ///
    /// # Panics
    /// When the position lies behind their end, as for a slice.
    #[inline]
    pub fn split_at(&self, at: usize) -> (Lent<'a>, Lent<'a>) {
        assert!(at <= self.len, "{at} lies behind the end of {} bytes", self.len);
        // SAFETY: both parts lie in the memory of these bytes.
        unsafe { (Lent::new(self.start, at), Lent::new(self.start.add(at), self.len - at)) }
    }

    /// Pieces of `most` bytes, one after the other; the last may be shorter.
    ///
    /// # Panics
    /// When `most` is 0.
    pub fn chunks(&self, most: usize) -> impl Iterator<Item = Lent<'a>> + use<'a> {
        let all = *self;
        (0..all.len).step_by(most).map(move |at| {
            let (_, rest) = all.split_at(at);
            rest.split_at(most.min(rest.len)).0
        })
    }

    /// Copies all of them out.
    ///
    /// # Panics
    /// When `out` has another length.
    #[inline]
    pub fn copy_to(&self, out: &mut [u8]) {
        assert_eq!(out.len(), self.len, "a copy of other length");
        // SAFETY: both ranges hold `len` bytes; `out` is borrowed exclusively, so it is not this memory.
        unsafe { copy(self.start.as_ptr(), out.as_mut_ptr(), self.len) };
    }

    /// A copy of all of them.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len);
        self.append_to(&mut out);
        out
    }

    /// Copies all of them behind those of `out`.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        out.reserve(self.len);
        // SAFETY: both ranges hold `len` bytes; `out` is borrowed exclusively, so it is not this memory.
        unsafe { copy(self.start.as_ptr(), out.spare_capacity_mut().as_mut_ptr().cast(), self.len) };
        // SAFETY: so many bytes have just been written behind its end.
        unsafe { out.set_len(out.len() + self.len) };
    }

    /// Writes some of them at an offset of a file, by one call of the system; how many.
    pub fn write_at(&self, file: impl AsFd, at: u64) -> io::Result<usize> {
        let at = libc::off64_t::try_from(at).map_err(|_| Errno::INVAL)?;
        // SAFETY: the kernel reads `len` bytes from the address on, which are readable.
        let n = unsafe { libc::pwrite64(file.as_fd().as_raw_fd(), self.start.as_ptr().cast(), self.len, at) };
        usize::try_from(n).map_err(|_| io::Error::last_os_error())
    }

    /// Sends some of what lies here and there to a stream socket, in order, by one call of the system that
    /// never waits (`WouldBlock`) and never raises SIGPIPE; how many bytes. At most [`PARTS`] parts are looked at.
    pub fn send(parts: &[Lent], socket: impl AsFd) -> io::Result<usize> {
        let mut places = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; PARTS];
        let count = parts.len().min(PARTS);
        for (place, part) in places.iter_mut().zip(parts) {
            *place = libc::iovec { iov_base: part.start.as_ptr().cast(), iov_len: part.len };
        }
        // SAFETY: a message of nothing but its parts is all zero elsewhere.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = places.as_mut_ptr();
        message.msg_iovlen = count as _;
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the kernel reads `count` places of bytes, which are readable, and writes nowhere.
        let n = unsafe { libc::sendmsg(socket.as_fd().as_raw_fd(), &message, flags) };
        usize::try_from(n).map_err(|_| io::Error::last_os_error())
    }
}

/// Most parts that one [`Lent::send`] looks at.
pub const PARTS: usize = 32;

impl std::fmt::Debug for Lent<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lent({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lent_bytes_are_cut_and_copied_as_slices_are() {
        let own: Vec<u8> = (0..100).collect();
        let lent = Lent::of(&own);
        assert_eq!((lent.len(), lent.is_empty(), lent.to_vec()), (100, false, own.clone()));
        let (head, tail) = lent.split_at(30);
        assert_eq!((head.to_vec(), tail.to_vec()), (own[..30].to_vec(), own[30..].to_vec()));
        assert_eq!(lent.part(90, 10).unwrap().to_vec(), own[90..]);
        assert!(lent.part(90, 11).is_none() && lent.part(101, 0).is_none() && lent.part(100, 0).is_some());
        let lengths: Vec<usize> = lent.chunks(40).map(|piece| piece.len()).collect();
        assert_eq!(lengths, [40, 40, 20]);
        assert_eq!(lent.chunks(7).flat_map(|piece| piece.to_vec()).collect::<Vec<_>>(), own);
        assert_eq!(Lent::of(&[]).chunks(7).count(), 0);
    }

    #[test]
    #[should_panic(expected = "behind the end of 2 bytes")]
    fn a_cut_behind_the_end_is_refused() {
        Lent::of(&[1, 2]).split_at(3);
    }
}
