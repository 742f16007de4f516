//! Elements of less precision: which types they may be kept as, and the loops that make them on their way into the
//! arena. A loop knows both lengths of an element and has no branch, so that the compiler makes vectors of it.

use forebay_arena::with_wide_vectors;
use forebay_types::{ArrayMeta, DType, Error, Order, Result, to_odd};

/// Elements of one type that become those of another, shorter one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Narrow {
    /// The type they have.
    pub from: DType,
    /// The type they are kept as.
    pub to: DType,
}

macro_rules! extremes {
    ($source:expr, $dtype:expr; $($kind:ident: $rust:ty),*) => {
        match $dtype {
            $(DType::$kind => {
                let all = numbers($source).map(<$rust>::from_le_bytes);
                let (low, high) = all.fold((<$rust>::MAX, <$rust>::MIN), |(l, h), n| (l.min(n), h.max(n)));
                (i128::from(low), i128::from(high))
            })*
            _ => (0, 0),
        }
    };
}

impl Narrow {
    /// Refuses what would be another number, or needs as much room.
    pub fn new(from: DType, to: DType) -> Result<Narrow> {
        let narrow = Narrow { from, to };
        if narrow.is_one() {
            return Ok(narrow);
        }
        let ways = DType::all().filter(|to| Narrow { from, to: *to }.is_one());
        let ways: Vec<&str> = ways.map(DType::name).collect();
        let remedy = match ways.is_empty() {
            true => "leave it out".to_owned(),
            false => format!("use {}, or leave it out", ways.join(" or ")),
        };
        Err(Error::bad(format!(
            "as_dtype keeps elements with less precision, and those of {from} are not kept as {to}; {remedy}"
        )))
    }

    fn is_one(&self) -> bool {
        use DType::{C64, C128, F16, F32, F64};
        match (self.from, self.to) {
            (F64, F32 | F16) | (F32, F16) | (C128, C64) => true,
            (from, to) => from.is_integer() && to.is_integer() && to.size() < from.size(),
        }
    }

    /// Whether every element must be looked at before: an integer stays what it is.
    pub fn is_exact(&self) -> bool {
        self.from.is_integer()
    }

    /// The first of these integers that the shorter type does not hold: where it is, and its value.
    pub fn beyond(&self, source: &[u8]) -> Option<(usize, i128)> {
        let range = self.to.range()?;
        let of = |source: &[u8]| -> (i128, i128) {
            extremes!(source, self.from; I8: i8, I16: i16, I32: i32, I64: i64, U8: u8, U16: u16, U32: u32, U64: u64)
        };
        let (low, high) = of(source);
        if source.is_empty() || (range.contains(&low) && range.contains(&high)) {
            return None;
        }
        let each = source.chunks_exact(self.from.size()).map(|one| of(one).0);
        each.enumerate().find(|(_, value)| !range.contains(value))
    }

    /// Makes the elements; how many were finite and are not any more.
    pub fn make(&self, source: &[u8], out: &mut [u8]) -> u64 {
        with_wide_vectors(
            #[inline(always)]
            || self.loops(source, out),
        )
    }

    #[inline(always)]
    fn loops(&self, source: &[u8], out: &mut [u8]) -> u64 {
        use DType::{C128, F16, F32, F64};
        match (self.from, self.to, self.from.size(), self.to.size()) {
            (F64, F16, ..) => {
                let is_lost = each(source, out, |n| half(to_odd(f64::from_le_bytes(n))), is_infinite_half);
                lost(
                    is_lost,
                    source,
                    out,
                    |n| f64::from_le_bytes(n).is_finite(),
                    |n| is_infinite_half(u16::from_le_bytes(n)),
                )
            }
            (F32, ..) => {
                let is_lost = each(source, out, |n| half(f32::from_le_bytes(n)), is_infinite_half);
                lost(
                    is_lost,
                    source,
                    out,
                    |n| f32::from_le_bytes(n).is_finite(),
                    |n| is_infinite_half(u16::from_le_bytes(n)),
                )
            }
            (F64 | C128, ..) => {
                let is_infinite = |bits: u32| bits & 0x7fff_ffff == 0x7f80_0000;
                let is_lost = each(source, out, |n| (f64::from_le_bytes(n) as f32).to_bits(), is_infinite);
                lost(
                    is_lost,
                    source,
                    out,
                    |n| f64::from_le_bytes(n).is_finite(),
                    |n| is_infinite(u32::from_le_bytes(n)),
                )
            }
            // Of an integer that fits these are the low bytes.
            (.., 8, 4) => each(source, out, |n| u64::from_le_bytes(n) as u32, |_| false).into(),
            (.., 8, 2) => each(source, out, |n| u64::from_le_bytes(n) as u16, |_| false).into(),
            (.., 8, 1) => each(source, out, |n| u64::from_le_bytes(n) as u8, |_| false).into(),
            (.., 4, 2) => each(source, out, |n| u32::from_le_bytes(n) as u16, |_| false).into(),
            (.., 4, 1) => each(source, out, |n| u32::from_le_bytes(n) as u8, |_| false).into(),
            _ => each(source, out, |n| u16::from_le_bytes(n) as u8, |_| false).into(),
        }
    }
}

/// The places of elements by their number in memory.
pub(super) fn index_of(meta: &ArrayMeta, number: usize) -> Vec<u64> {
    let extents = meta.shape.extents();
    let mut left = number as u64;
    let mut index = vec![0; extents.len()];
    let mut place = |axis: usize| {
        index[axis] = left % extents[axis].max(1);
        left /= extents[axis].max(1);
    };
    match meta.order {
        Order::C => (0..extents.len()).rev().for_each(&mut place),
        Order::F => (0..extents.len()).for_each(&mut place),
    }
    index
}

#[inline(always)]
fn numbers<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
    bytes.chunks_exact(N).map(|one| {
        let mut number = [0; N];
        number.copy_from_slice(one);
        number
    })
}

/// Bits of an element that is made.
trait Bits: Copy {
    fn write(self, to: &mut [u8]);
}

macro_rules! bits {
    ($($rust:ty),*) => {$(
        impl Bits for $rust {
            #[inline(always)]
            fn write(self, to: &mut [u8]) {
                to.copy_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}
bits!(u8, u16, u32);

/// Makes each element; whether one of them looks as if it had been lost.
#[inline(always)]
fn each<const N: usize, B: Bits>(
    source: &[u8],
    out: &mut [u8],
    make: impl Fn([u8; N]) -> B,
    is_lost: impl Fn(B) -> bool,
) -> bool {
    let mut any = false;
    for (to, from) in out.chunks_exact_mut(size_of::<B>()).zip(numbers(source)) {
        let made = make(from);
        any |= is_lost(made);
        made.write(to);
    }
    any
}

/// How many were finite and are infinite now, if any may be.
#[inline(always)]
fn lost<const N: usize, const M: usize>(
    any: bool,
    source: &[u8],
    out: &[u8],
    was: impl Fn([u8; N]) -> bool,
    is: impl Fn([u8; M]) -> bool,
) -> u64 {
    match any {
        true => numbers(source).zip(numbers(out)).filter(|(a, b)| was(*a) && is(*b)).count() as u64,
        false => 0,
    }
}

#[inline(always)]
fn is_infinite_half(bits: u16) -> bool {
    bits & 0x7fff == 0x7c00
}

/// The bits of the nearest half, of two the even one.
#[inline(always)]
fn half(n: f32) -> u16 {
    let (sign, size) = ((n.to_bits() >> 16) & 0x8000, n.to_bits() & 0x7fff_ffff);
    // The exponent of 15 instead of 127; what is rounded up may carry into it, as far as infinity.
    let usual = size.wrapping_sub(112 << 23).wrapping_add(0xfff + ((size >> 13) & 1)) >> 13;
    // Below the smallest usual half the sum with 0.5 is rounded to multiples of the smallest one.
    let small = (f32::from_bits(size) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    let not_a_number = 0x7e00 | ((size >> 13) & 0x3ff);
    let made = if size < 0x3880_0000 { small } else { usual };
    let made = if size >= 0x4780_0000 { 0x7c00 } else { made };
    let made = if size > 0x7f80_0000 { not_a_number } else { made };
    (sign | made) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_types::Shape;

    /// Every kind of number: signs, exponents, and mantissas on both sides of the middle between two halves.
    fn samples() -> Vec<f64> {
        let mut all = vec![
            0.0,
            f64::INFINITY,
            f64::NAN,
            65504.0,
            65519.999,
            65520.0,
            f64::MAX,
            5e-324,
            3.4028235677973366e38,
        ];
        for exponent in -30..40 {
            for step in 0..64 {
                let middle = 2f64.powi(exponent) * (1.0 + f64::from(step) / 4096.0);
                all.extend([
                    middle,
                    middle * (1.0 + 1e-9),
                    middle * (1.0 - 1e-9),
                    middle.next_up(),
                    middle.next_down(),
                ]);
            }
        }
        let minus: Vec<f64> = all.iter().map(|n| -n).collect();
        all.extend(minus);
        all
    }

    /// The half nearest to a number, of two the even one.
    fn nearest_half(n: f64) -> f64 {
        if n.abs() >= 65520.0 {
            return f64::INFINITY.copysign(n);
        }
        let exponent = ((n.to_bits() >> 52) & 0x7ff) as i32 - 1023;
        let unit = 2f64.powi(exponent.max(-14) - 10);
        (n / unit).round_ties_even() * unit
    }

    fn made<T: bytemuck::Pod>(from: DType, to: DType, values: &[T]) -> (Vec<u8>, u64) {
        let source: &[u8] = bytemuck::cast_slice(values);
        let mut out = vec![0; source.len() / from.size() * to.size()];
        let lost = Narrow::new(from, to).unwrap().make(source, &mut out);
        (out, lost)
    }

    #[test]
    fn real_numbers_become_the_nearest_ones() {
        let wide = samples();
        let single: Vec<f32> = wide.iter().map(|n| *n as f32).collect();
        let is_same = |to: DType, (bytes, lost): (Vec<u8>, u64), source: Vec<f64>| {
            let wanted: Vec<f64> = source
                .iter()
                .map(|n| if to == DType::F16 { nearest_half(*n) } else { f64::from(*n as f32) })
                .collect();
            let mut infinite = 0;
            for ((element, wanted), from) in bytes.chunks_exact(to.size()).zip(wanted).zip(source) {
                let forebay_types::Number::Real(found) = to.number(element) else { panic!("{to} is real") };
                assert!(
                    found == wanted || found.is_nan() && from.is_nan(),
                    "{from:e} as {to}: {found:e}, not {wanted:e}"
                );
                assert!(found.is_nan() || found.is_sign_negative() == from.is_sign_negative(), "{from:e}");
                infinite += u64::from(from.is_finite() && found.is_infinite());
            }
            assert!(infinite > 0 && infinite == lost, "{lost} of {infinite}");
        };
        is_same(DType::F32, made(DType::F64, DType::F32, &wide), wide.clone());
        is_same(DType::F16, made(DType::F64, DType::F16, &wide), wide.clone());
        is_same(
            DType::F16,
            made(DType::F32, DType::F16, &single),
            single.iter().map(|n| f64::from(*n)).collect(),
        );
        let (pair, lost) = made(DType::C128, DType::C64, &[0.1f64, -1e300]);
        let wanted = [0.1f32, f32::NEG_INFINITY].map(f32::to_le_bytes).concat();
        assert_eq!((pair, lost), (wanted, 1));
    }

    #[test]
    fn integers_stay_what_they_are_or_the_first_that_does_not_fit_is_found() {
        for (from, to) in [(DType::I64, DType::I16), (DType::I64, DType::U32), (DType::I64, DType::I8)] {
            let (bytes, _) = made(from, to, &[0i64, 1, 100, 127]);
            let found: Vec<_> = bytes.chunks_exact(to.size()).map(|one| to.number(one)).collect();
            assert_eq!(found, [0, 1, 100, 127].map(forebay_types::Number::Int));
        }
        let beyond = |from, to, source: &[u8]| Narrow::new(from, to).unwrap().beyond(source);
        let below: &[u8] = bytemuck::cast_slice(&[3i32, -1, 70000]);
        assert_eq!(beyond(DType::I32, DType::U16, below), Some((1, -1)));
        assert_eq!(beyond(DType::I32, DType::I16, below), Some((2, 70000)));
        assert_eq!(beyond(DType::U64, DType::U32, bytemuck::cast_slice(&[1u64 << 32])), Some((0, 1 << 32)));
        assert_eq!(beyond(DType::U16, DType::I8, bytemuck::cast_slice(&[127u16])), None);
        assert_eq!(beyond(DType::U16, DType::I8, &[]), None);
        let meta = |order| ArrayMeta { dtype: DType::I8, shape: Shape::new(&[2, 3]).unwrap(), order };
        assert_eq!((index_of(&meta(Order::C), 4), index_of(&meta(Order::F), 4)), (vec![1, 1], vec![0, 2]));
    }

    #[test]
    fn what_is_no_less_precision_is_refused_with_what_is() {
        for (from, to, text) in [
            (DType::F32, DType::F64, "use f16"),
            (DType::F64, DType::I32, "use f32 or f16"),
            (DType::I64, DType::F32, "use i8 or"),
            (DType::I32, DType::U32, "or u16"),
            (DType::F16, DType::F32, "leave it out"),
            (DType::Str, DType::U8, "leave it out"),
        ] {
            let error = Narrow::new(from, to).unwrap_err();
            assert!(error.text().contains(text), "{error}");
        }
    }
}
