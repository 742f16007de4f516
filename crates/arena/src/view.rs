//! Shared memory, seen without a Rust reference to it.
//!
//! A reference promises the compiler that nobody else writes (`&`) or even looks (`&mut`). Over
//! memory that another process has mapped, too, nobody can promise that: a broken peer may change a
//! byte between two looks at it, and a compiler that believes the promise may look twice. A
//! [`View`] is an address and a length. Numbers are read and written one by one by atomic accesses
//! without any order, which cost what plain ones cost, and in bulk by copies; the copies are what
//! may be decided by. Any number of views of the same memory may exist, in any thread.

use crate::copy::{STREAM_FROM, copy_streaming};
use forebay_types::Strided;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// Types of which every bit pattern is a value, so that shared bytes may be seen as them.
///
/// # Safety
/// The type has no padding, no invalid bit patterns and an alignment of at most 16, and the two
/// functions access it as their contract says.
pub unsafe trait Plain: Copy + 'static {
    /// Reads one that others may write at the same moment.
    ///
    /// # Safety
    /// The address is aligned and readable, and whoever else uses it in this process does so by these two
    /// functions or by copies of bytes.
    unsafe fn load(at: *mut Self) -> Self;
    /// Writes one that others may read or write at the same moment.
    ///
    /// # Safety
    /// As for `load`, and writable.
    unsafe fn store(at: *mut Self, value: Self);
}

macro_rules! plain {
    ($($number:ty, $bits:ty, $atomic:ty);*) => { $(
        // SAFETY: a number: no padding, every bit pattern valid; the atomic has its size and alignment.
        unsafe impl Plain for $number {
            #[inline]
            unsafe fn load(at: *mut Self) -> Self {
                // SAFETY: the caller's promise.
                let bits: $bits = unsafe { <$atomic>::from_ptr(at.cast()) }.load(Ordering::Relaxed);
                <$number>::from_ne_bytes(bits.to_ne_bytes())
            }

            #[inline]
            unsafe fn store(at: *mut Self, value: Self) {
                let bits = <$bits>::from_ne_bytes(value.to_ne_bytes());
                // SAFETY: the caller's promise.
                unsafe { <$atomic>::from_ptr(at.cast()) }.store(bits, Ordering::Relaxed);
            }
        }

        // SAFETY: two numbers of one type: no padding, every bit pattern valid; each is accessed by itself.
        unsafe impl Plain for [$number; 2] {
            #[inline]
            unsafe fn load(at: *mut Self) -> Self {
                let at: *mut $number = at.cast();
                // SAFETY: the caller's promise; both numbers lie in the pair.
                unsafe { [<$number>::load(at), <$number>::load(at.add(1))] }
            }

            #[inline]
            unsafe fn store(at: *mut Self, value: Self) {
                let at: *mut $number = at.cast();
                // SAFETY: the caller's promise; both numbers lie in the pair.
                unsafe {
                    <$number>::store(at, value[0]);
                    <$number>::store(at.add(1), value[1]);
                }
            }
        }
    )* };
}
plain!(u8, u8, AtomicU8; i8, u8, AtomicU8; u16, u16, AtomicU16; i16, u16, AtomicU16; u32, u32, AtomicU32;
    i32, u32, AtomicU32; f32, u32, AtomicU32; u64, u64, AtomicU64; i64, u64, AtomicU64; f64, u64, AtomicU64);

/// Numbers in memory that others may read and write at any moment.
pub struct View<'a, T: Plain = u8> {
    start: NonNull<T>,
    len: usize,
    _of: PhantomData<&'a [AtomicU8]>,
}

// SAFETY: all access is by unordered atomics and by copies whose result nobody is promised.
unsafe impl<T: Plain> Send for View<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Plain> Sync for View<'_, T> {}

impl<T: Plain> Clone for View<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Plain> Copy for View<'_, T> {}

impl<'a, T: Plain> View<'a, T> {
    /// Over memory that lives for `'a`.
    ///
    /// # Safety
    /// `len` numbers from the address on are readable and writable for `'a`, the address is aligned for `T`,
    /// and no reference to them is used meanwhile.
    pub(crate) unsafe fn new(start: NonNull<T>, len: usize) -> View<'a, T> {
        View { start, len, _of: PhantomData }
    }

    /// Over memory of this process that nobody else uses meanwhile.
    pub fn of(own: &'a mut [T]) -> View<'a, T> {
        let len = own.len();
        let start = NonNull::new(own.as_mut_ptr()).unwrap_or(NonNull::dangling());
        // SAFETY: exclusively borrowed for `'a`, so that all access is by views.
        unsafe { View::new(start, len) }
    }

    /// How many numbers.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Address of the first one, for other languages.
    #[inline]
    pub fn as_ptr(&self) -> *mut T {
        self.start.as_ptr()
    }

    /// Address of a range.
    #[inline]
    fn at(&self, at: usize, len: usize) -> *mut T {
        assert!(at <= self.len && len <= self.len - at, "{len} at {at} leave a view of {}", self.len);
        // SAFETY: the range was just checked to lie in the memory.
        unsafe { self.start.as_ptr().add(at) }
    }

    /// One number.
    ///
    /// # Panics
    /// When there is no such number, as an index does that leaves a slice.
    #[inline]
    pub fn get(&self, index: usize) -> T {
        // SAFETY: `at` checks the index; alignment and access are as `new` was promised.
        unsafe { T::load(self.at(index, 1)) }
    }

    /// Writes one number.
    ///
    /// # Panics
    /// When there is no such number.
    #[inline]
    pub fn set(&self, index: usize, value: T) {
        // SAFETY: as for `get`.
        unsafe { T::store(self.at(index, 1), value) }
    }

    /// All numbers, one after the other.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = T> + 'a {
        let all = *self;
        (0..self.len).map(move |index| all.get(index))
    }

    /// Writes every one anew from what it was.
    #[inline]
    pub fn update(&self, mut new: impl FnMut(T) -> T) {
        (0..self.len).for_each(|index| self.set(index, new(self.get(index))));
    }

    /// A part; none when it leaves the view.
    #[inline]
    pub fn part(&self, at: usize, len: usize) -> Option<View<'a, T>> {
        let inside = at <= self.len && len <= self.len - at;
        // SAFETY: the part lies in the memory of this view.
        inside.then(|| unsafe { View::new(self.start.add(at), len) })
    }

    /// Copies all of them out.
    ///
    /// # Panics
    /// When `out` has another length.
    #[inline]
    pub fn copy_to(&self, out: &mut [T]) {
        assert_eq!(out.len(), self.len, "a copy of other length");
        // SAFETY: both ranges hold `len` numbers, every bit pattern of which is valid; `out` is borrowed
        // exclusively, so it is not this memory.
        unsafe { copy(self.as_ptr(), out.as_mut_ptr(), self.len) }
    }

    /// Copies all of them in.
    ///
    /// # Panics
    /// When `from` has another length.
    #[inline]
    pub fn copy_from(&self, from: &[T]) {
        assert_eq!(from.len(), self.len, "a copy of other length");
        // SAFETY: both ranges hold `len` numbers; `from` is borrowed, so it is not this memory.
        unsafe { copy(from.as_ptr(), self.as_ptr(), self.len) }
    }

    /// A copy of all of them.
    pub fn to_vec(&self) -> Vec<T> {
        let mut out = Vec::with_capacity(self.len);
        // SAFETY: the vector has room for `len` numbers, all of which are written.
        unsafe {
            copy(self.as_ptr(), out.as_mut_ptr(), self.len);
            out.set_len(self.len);
        }
        out
    }
}

impl<'a> View<'a, u8> {
    /// Sets every byte.
    pub fn fill(&self, byte: u8) {
        // SAFETY: the memory is writable as `new` was promised.
        unsafe { self.as_ptr().write_bytes(byte, self.len) };
    }

    /// The bytes as numbers, if they are aligned and whole ones.
    #[inline]
    pub fn cast<T: Plain>(&self) -> Option<View<'a, T>> {
        let start: NonNull<T> = self.start.cast();
        let fits = start.is_aligned() && self.len.is_multiple_of(size_of::<T>());
        // SAFETY: so many numbers lie in the bytes, aligned, and every bit pattern is one.
        fits.then(|| unsafe { View::new(start, self.len / size_of::<T>()) })
    }

    /// Fills this memory with elements of `from` that lie apart there, from that byte of the dense side on.
    ///
    /// # Panics
    /// When `from` has less room than was said, or this leaves the dense side.
    pub fn gather(&self, part: &Strided, from: &[u8], begin: usize) {
        // SAFETY: `from` is only read, and the view of it goes with this function.
        let from = unsafe { View::new(NonNull::from(from).cast(), from.len()) };
        self.gather_of(part, from, begin);
    }

    /// Fills this memory with elements of other shared memory that lie apart there, from byte `begin` of the dense
    /// side on.
    ///
    /// # Panics
    /// When `from` has less room than was said, or this leaves the dense side.
    pub fn gather_of(&self, part: &Strided, from: View<'_, u8>, begin: usize) {
        assert!(self.len <= part.bytes() && begin <= part.bytes() - self.len, "a part of the dense side");
        part.each_row(begin..begin + self.len, |at, stride, count, run, dense| {
            let apart = from.row(at, stride, count, run);
            // SAFETY: both rows were just checked to lie in their memory.
            unsafe { move_row::<true>(apart, stride, self.at(dense, count * run), count, run) };
        });
        std::hint::black_box(self.as_ptr());
    }

    /// Copies dense bytes of this process to where they belong in this memory.
    ///
    /// # Panics
    /// When this memory has less room than was said, or these are not exactly the dense side.
    pub fn scatter_from(&self, part: &Strided, dense: &[u8]) {
        // SAFETY: `dense` is only read, and the view of it goes with this function.
        let dense = unsafe { View::new(NonNull::from(dense).cast(), dense.len()) };
        dense.scatter_to(part, *self);
    }

    /// Copies these dense bytes to where they belong in other shared memory.
    ///
    /// # Panics
    /// When `into` has less room than was said, or this is not exactly the dense side.
    pub fn scatter_to(&self, part: &Strided, into: View<'_, u8>) {
        assert_eq!(self.len, part.bytes(), "bytes of the dense side");
        part.each_row(0..self.len, |at, stride, count, run, dense| {
            let apart = into.row(at, stride, count, run);
            // SAFETY: both rows were just checked to lie in their memory.
            unsafe { move_row::<false>(apart, stride, self.at(dense, count * run), count, run) };
        });
        std::hint::black_box(into.as_ptr());
    }

    /// Address of the first of `count` runs that lie `stride` apart.
    fn row(&self, at: isize, stride: isize, count: usize, run: usize) -> *mut u8 {
        let last = at + stride * count.saturating_sub(1) as isize;
        let (low, high) = (at.min(last), at.max(last));
        assert!(count == 0 || low >= 0 && (high as usize) + run <= self.len, "elements leave their array");
        // SAFETY: all runs were just checked to lie in the memory; of none the address is not used.
        unsafe { self.start.as_ptr().offset(if count == 0 { 0 } else { at }) }
    }
}

/// Moves a row of runs between memory where they lie apart and memory where they lie together; runs are
/// short, and the usual lengths are known to the compiler. What is one long run goes past the caches: between a
/// held array and shared memory that is several times faster than the system's `memmove`.
///
/// # Safety
/// All runs lie in memory that may be accessed so; the two rows do not overlap, or nobody minds which bytes
/// are there then.
unsafe fn move_row<const GATHER: bool>(
    apart: *mut u8,
    stride: isize,
    dense: *mut u8,
    count: usize,
    run: usize,
) {
    if count == 1 && run >= STREAM_FROM {
        let (from, to) = if GATHER { (apart, dense) } else { (dense, apart) };
        if (from as usize).abs_diff(to as usize) >= run {
            // SAFETY: the caller's promise; they were just found not to overlap.
            return unsafe { copy_streaming(from, to, run) };
        }
    }
    // SAFETY: the caller's promise, run by run.
    let each = |bytes: usize| unsafe {
        for i in 0..count {
            let (there, here) = (apart.offset(i as isize * stride), dense.add(i * bytes));
            let (from, to) = if GATHER { (there, here) } else { (here, there) };
            std::ptr::copy(from, to, bytes);
        }
    };
    match run {
        8 => each(8),
        4 => each(4),
        16 => each(16),
        2 => each(2),
        1 => each(1),
        bytes => each(bytes),
    }
}

/// Copies numbers of which others may change some meanwhile. What arrives are some bytes; to the compiler
/// they are as unknown as what a device writes, so it cannot take them for what it read elsewhere.
///
/// # Safety
/// Both ranges are valid for `len` numbers and do not overlap.
#[inline]
pub(crate) unsafe fn copy<T: Plain>(from: *const T, to: *mut T, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
    std::hint::black_box(to);
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_types::Shape;

    #[test]
    fn numbers_are_read_and_written_in_place() {
        let mut memory = [1.5f64, 2.5, -0.0];
        let view = View::of(&mut memory);
        assert_eq!(view.iter().collect::<Vec<f64>>(), [1.5, 2.5, 0.0]);
        view.set(1, 7.0);
        view.update(|x| x + 1.0);
        assert_eq!((view.get(1), view.to_vec()), (8.0, vec![2.5, 8.0, 1.0]));
        view.part(1, 2).unwrap().copy_from(&[3.0, 4.0]);
        assert!(view.part(1, 3).is_none() && view.part(4, 0).is_none());
        assert_eq!(memory, [2.5, 3.0, 4.0]);
        let mut pairs = [[1i16, -2], [3, 4]];
        let view = View::of(&mut pairs);
        view.set(1, [5, view.get(0)[1]]);
        assert_eq!(pairs, [[1, -2], [5, -2]]);
    }

    #[test]
    fn bytes_are_seen_as_numbers_only_when_they_are_aligned_and_whole() {
        let mut memory = [0u64; 2];
        let bytes = View::of(&mut memory);
        // SAFETY: the same memory, byte by byte.
        let bytes: View<u8> = unsafe { View::new(bytes.start.cast(), 16) };
        assert_eq!(bytes.cast::<f64>().unwrap().len(), 2);
        assert!(bytes.part(1, 8).unwrap().cast::<f64>().is_none());
        assert!(bytes.part(0, 12).unwrap().cast::<f64>().is_none());
        bytes.part(8, 8).unwrap().fill(0xff);
        assert_eq!(memory, [0, u64::MAX]);
    }

    #[test]
    #[should_panic(expected = "leave a view of 2")]
    fn an_index_beyond_the_end_is_refused() {
        View::of(&mut [1u8, 2]).get(2);
    }

    #[test]
    fn strided_elements_go_in_and_out_as_they_do_by_slices() {
        let mut all: Vec<u8> = (0..420u32).map(|i| (i * 7) as u8).collect();
        // Item, first byte, extents, strides in bytes.
        let parts: [(usize, u64, &[u64], &[i64]); 4] = [
            (4, 84, &[3, 4, 3], &[84, 24, 4]),
            (8, 404, &[5, 4], &[-84, -16]),
            (1, 3, &[10], &[40]),
            (3, 0, &[2, 70], &[210, 3]),
        ];
        for (item, first, shape, strides) in parts {
            let part = Strided::new(item, first, Shape::new(shape).unwrap(), strides, 420).unwrap();
            let mut expected = vec![0; part.bytes()];
            part.gather(&all, &mut expected);
            let mut out = vec![0; part.bytes()];
            let cut = out.len() / 3;
            let (head, tail) = out.split_at_mut(cut);
            View::of(head).gather(&part, &all, 0);
            View::of(tail).gather(&part, &all, cut);
            assert_eq!(out, expected, "{shape:?}");
            let mut into = vec![0; all.len()];
            let mut there = vec![0; all.len()];
            part.scatter(&out, &mut there);
            View::of(&mut out).scatter_to(&part, View::of(&mut into));
            assert_eq!(into, there, "{shape:?}");
            let mut again = vec![0; all.len()];
            View::of(&mut again).scatter_from(&part, &out);
            assert_eq!(again, there, "{shape:?}");
        }
        // One long run, whole and cut.
        let many: Vec<u8> = (0..3_000_000u32).map(|i| ((i * 31) >> 3) as u8).collect();
        let bytes = many.len() - 5;
        let row = Shape::new(&[bytes as u64]).unwrap();
        let part = Strided::new(1, 5, row, &[1], many.len() as u64).unwrap();
        let mut out = vec![0; bytes];
        let (head, tail) = out.split_at_mut(1_200_001);
        View::of(head).gather(&part, &many, 0);
        View::of(tail).gather(&part, &many, 1_200_001);
        assert!(out == many[5..]);
        let mut into = vec![0; many.len()];
        View::of(&mut out).scatter_to(&part, View::of(&mut into));
        assert!(into[..5] == [0; 5] && into[5..] == many[5..]);
        let short = all.len() - 40;
        let part = Strided::new(4, 0, Shape::new(&[15]).unwrap(), &[28], 420).unwrap();
        let mut out = vec![0; part.bytes()];
        let from = &mut all[..short];
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            View::of(&mut out).gather(&part, from, 0);
        }));
        assert!(refused.is_err(), "elements that leave their array");
    }
}
