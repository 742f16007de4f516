//! Copying much memory past the caches: a quarter faster than `memcpy` from a mebibyte on, and
//! the simulation keeps its caches. Where the same memory is written again and again the caches hold more of it, and
//! they win up to some mebibytes.

/// From this length on streaming stores win.
pub(crate) const STREAM_FROM: usize = 1 << 20;
/// From this length on they do where the caches may hold both sides.
const STREAM_WARM_FROM: usize = 8 << 20;
/// From this length on they do where another core has the lines of the target, which would have to be taken from it.
const STREAM_SHARED_FROM: usize = 32 << 10;

/// Copies `len` bytes, with streaming stores when it is much and the machine has them.
///
/// # Safety
/// Both ranges are valid for `len` bytes and do not overlap.
#[inline]
pub unsafe fn copy_streaming(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { copy_streaming_from(STREAM_FROM, from, to, len) }
}

/// Copies `len` bytes between memory that is used again and again: with streaming stores when that is more than caches
/// hold.
///
/// # Safety
/// Both ranges are valid for `len` bytes and do not overlap.
#[inline]
pub(crate) unsafe fn copy_warm(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { copy_streaming_from(STREAM_WARM_FROM, from, to, len) }
}

/// Copies `len` bytes to where another core has looked: with streaming stores unless it is little.
///
/// # Safety
/// Both ranges are valid for `len` bytes and do not overlap.
#[inline]
pub(crate) unsafe fn copy_shared(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { copy_streaming_from(STREAM_SHARED_FROM, from, to, len) }
}

/// Does something whose loops may become vectors as wide as those of the machine. Only what is inlined does.
#[inline]
pub fn with_wide_vectors<R>(act: impl FnOnce() -> R) -> R {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        #[target_feature(enable = "avx2")]
        fn wide<R>(act: impl FnOnce() -> R) -> R {
            act()
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the feature was just detected.
            return unsafe { wide(act) };
        }
    }
    act()
}

/// # Safety
/// Both ranges are valid for `len` bytes and do not overlap.
#[inline]
unsafe fn copy_streaming_from(least: usize, from: *const u8, to: *mut u8, len: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if len >= least {
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: the feature was just detected; the ranges are the caller's promise.
            return unsafe { x86::stream_512(from, to, len) };
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { x86::stream_256(from, to, len) };
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = least;
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86 {
    use std::arch::asm;
    use std::arch::x86_64::_mm_sfence;

    /// Copies what stands before the first 64-byte boundary of the target; returns how much.
    unsafe fn head(from: *const u8, to: *mut u8, len: usize) -> usize {
        let head = to.align_offset(64).min(len);
        // SAFETY: `head` is at most `len`.
        unsafe { std::ptr::copy_nonoverlapping(from, to, head) };
        head
    }

    macro_rules! stream {
        ($name:ident, $step:literal, $($line:literal),*; $($clobber:tt),*) => {
            /// # Safety
            /// The feature is there; both ranges are valid for `len` bytes and do not overlap.
            pub unsafe fn $name(from: *const u8, to: *mut u8, len: usize) {
                // SAFETY: `done` never exceeds `len`; the target is aligned to 64 after the head.
                unsafe {
                    let head = head(from, to, len);
                    let end = head + (len - head) / $step * $step;
                    if end > head {
                        asm!(
                            "2:", $($line,)*
                            concat!("add {s}, ", $step), concat!("add {d}, ", $step),
                            "cmp {s}, {e}", "jb 2b",
                            s = inout(reg) from.add(head) => _,
                            d = inout(reg) to.add(head) => _,
                            e = in(reg) from.add(end),
                            $(out($clobber) _,)*
                            options(nostack)
                        );
                        _mm_sfence();
                    }
                    std::ptr::copy_nonoverlapping(from.add(end), to.add(end), len - end);
                }
            }
        };
    }

    // Assembly instead of intrinsics: those for AVX-512 are younger than the oldest compiler we
    // support, and the loop is short.
    // Each line is stored before the next one is loaded: with four loads in front of four stores
    // the copy takes a tenth to a fifth longer.
    stream!(stream_512, 128,
        "vmovdqu64 zmm0, [{s}]", "vmovntdq [{d}], zmm0",
        "vmovdqu64 zmm1, [{s} + 64]", "vmovntdq [{d} + 64], zmm1";
        "xmm0", "xmm1");
    stream!(stream_256, 128,
        "vmovdqu ymm0, [{s}]", "vmovdqu ymm1, [{s} + 32]",
        "vmovdqu ymm2, [{s} + 64]", "vmovdqu ymm3, [{s} + 96]",
        "vmovntdq [{d}], ymm0", "vmovntdq [{d} + 32], ymm1",
        "vmovntdq [{d} + 64], ymm2", "vmovntdq [{d} + 96], ymm3";
        "xmm0", "xmm1", "xmm2", "xmm3");
}

#[cfg(test)]
mod tests {
    use super::*;

    type Copy = unsafe fn(*const u8, *mut u8, usize);

    #[test]
    fn every_way_of_copying_copies_every_byte_and_no_other() {
        #[allow(unused_mut)] // the others are of x86-64
        let mut ways: Vec<Copy> = vec![copy_streaming, copy_warm, copy_shared];
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            if std::arch::is_x86_feature_detected!("avx512f") {
                ways.push(x86::stream_512);
            }
            if std::arch::is_x86_feature_detected!("avx2") {
                ways.push(x86::stream_256);
            }
        }
        let source: Vec<u8> =
            (0..10_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for way in ways {
            for (from, to, len) in [
                (0, 0, 0),
                (1, 3, 5),
                (7, 1, 300),
                (5, 2, 70_001),
                (3, 61, 1 << 20),
                (11, 5, 2_097_151),
                (3, 9, 9 << 20),
            ] {
                let mut target = vec![0xa5; to + len + 9];
                // SAFETY: both ranges lie in their vectors.
                unsafe { way(source[from..].as_ptr(), target[to..].as_mut_ptr(), len) };
                assert_eq!(target[to..to + len], source[from..from + len]);
                assert!(target[..to].iter().chain(&target[to + len..]).all(|b| *b == 0xa5));
            }
        }
    }
}
