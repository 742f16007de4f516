//! The types of array elements: one table, from which all that is said of them elsewhere follows.
//!
//! A new dtype is a row here, with the next code. What is read, printed, stored, checked against ranges and
//! shown to HDF5, NumPy, C and Fortran asks the row.

use crate::{Element, Error, Result};
use half::f16;
use std::ops::RangeInclusive;

/// What elements are, whatever their width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ElementKind {
    /// Integers with a sign.
    Signed,
    /// Integers without a sign.
    Unsigned,
    /// Real numbers.
    Float,
    /// Complex numbers: two real ones, the real part first.
    Complex,
    /// Truth values.
    Bool,
    /// Bytes of a text.
    Text,
    /// Bytes.
    Bytes,
}

use ElementKind::*;

/// What is known of a dtype.
struct Row {
    dtype: DType,
    /// As in signatures.
    name: &'static str,
    kind: ElementKind,
    /// Bytes of an element.
    size: usize,
    /// NumPy's type string, which tells HDF5's type too. Of what they do not have, that of its bits: `<u2`.
    numpy: &'static str,
    /// Of `Float` and `Complex`: how a real number, or each part of a complex one, lies in its bytes.
    real: Option<RealFormat>,
}

macro_rules! dtypes {
    ($($(#[$doc:meta])* $dtype:ident = $code:literal: $name:literal, $kind:ident($rust:ty), $numpy:literal;)*) => {
        /// What one element of an array is. The discriminant is the code on the wire and in records.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum DType {
            $($(#[$doc])* $dtype = $code,)*
        }

        /// All dtypes, in the order of their codes, which begin with 1.
        const TABLE: &[Row] = &[$(Row {
            dtype: DType::$dtype,
            name: $name,
            kind: $kind,
            size: size_of::<element!($kind($rust))>(),
            numpy: $numpy,
            real: real!($kind($rust)),
        },)*];

        $(seen_as!($kind($rust), $dtype);)*
    };
}

/// The Rust type of a whole element.
macro_rules! element {
    (Complex($part:ty)) => {
        [$part; 2]
    };
    ($kind:ident($rust:ty)) => {
        $rust
    };
}

macro_rules! real {
    (Float($part:ty)) => {
        Some(<$part>::FORMAT)
    };
    (Complex($part:ty)) => {
        Some(<$part>::FORMAT)
    };
    ($kind:ident($rust:ty)) => {
        None
    };
}

/// Truth values are not among them, for not every pattern of bits is one; texts and bytes are no numbers.
macro_rules! seen_as {
    (Bool($rust:ty), $dtype:ident) => {};
    (Text($rust:ty), $dtype:ident) => {};
    (Bytes($rust:ty), $dtype:ident) => {};
    ($kind:ident($rust:ty), $dtype:ident) => {
        impl Element for element!($kind($rust)) {
            const DTYPE: DType = DType::$dtype;
        }
    };
}

dtypes! {
    /// Signed 8-bit integer.
    I8 = 1: "i8", Signed(i8), "|i1";
    /// Signed 16-bit integer.
    I16 = 2: "i16", Signed(i16), "<i2";
    /// Signed 32-bit integer.
    I32 = 3: "i32", Signed(i32), "<i4";
    /// Signed 64-bit integer.
    I64 = 4: "i64", Signed(i64), "<i8";
    /// Unsigned 8-bit integer.
    U8 = 5: "u8", Unsigned(u8), "|u1";
    /// Unsigned 16-bit integer.
    U16 = 6: "u16", Unsigned(u16), "<u2";
    /// Unsigned 32-bit integer.
    U32 = 7: "u32", Unsigned(u32), "<u4";
    /// Unsigned 64-bit integer.
    U64 = 8: "u64", Unsigned(u64), "<u8";
    /// IEEE 754 single precision.
    F32 = 9: "f32", Float(f32), "<f4";
    /// IEEE 754 double precision.
    F64 = 10: "f64", Float(f64), "<f8";
    /// Complex of two `F32`, real part first.
    C64 = 11: "c64", Complex(f32), "<c8";
    /// Complex of two `F64`, real part first.
    C128 = 12: "c128", Complex(f64), "<c16";
    /// Truth value, one byte, 0 or 1.
    Bool = 13: "bool", Bool(u8), "|b1";
    /// UTF-8 text; the last extent counts bytes.
    Str = 14: "str", Text(u8), "|S1";
    /// Raw bytes.
    Bytes = 15: "bytes", Bytes(u8), "|V1";
    /// IEEE 754 half precision.
    F16 = 16: "f16", Float(f16), "<f2";
}

/// How a real number lies in bytes, little endian.
#[derive(Clone, Copy)]
pub(crate) struct RealFormat {
    /// How many bytes these are.
    pub size: usize,
    /// What they say.
    pub decode: fn(&[u8]) -> f64,
    /// Writes them: the nearest number, infinite beyond the largest.
    pub encode: fn(f64, &mut [u8]),
    /// Bits of the mantissa, the leading one included.
    mantissa: u32,
    largest: fn() -> f64,
    shortest: fn(f64) -> f64,
}

/// A format of real numbers.
trait Real {
    const FORMAT: RealFormat;
}

macro_rules! real_formats {
    ($($rust:ty: $rounded:expr, $shortest:expr;)*) => {$(
        impl Real for $rust {
            const FORMAT: RealFormat = RealFormat {
                size: size_of::<$rust>(),
                decode: |from| bytemuck::pod_read_unaligned::<$rust>(from).into(),
                encode: |v, to| to.copy_from_slice(bytemuck::bytes_of(&$rounded(v))),
                mantissa: <$rust>::MANTISSA_DIGITS,
                largest: || <$rust>::MAX.into(),
                shortest: $shortest,
            };
        }
    )*};
}

// Each with what rounds an `f64` to it, and the number with the shortest text that it would be rounded from.
real_formats! {
    f16: nearest_half, |v| fewest_digits(v, |text| nearest_half(text).into());
    f32: |v: f64| v as f32, |v| (v as f32).to_string().parse().unwrap_or(v);
    f64: |v: f64| v, |v| v;
}

/// The nearest half, of two the even one; not by way of the nearest `f32`, which may lie in the middle between two halves.
pub(crate) fn nearest_half(v: f64) -> f16 {
    f16::from_f32(to_odd(v))
}

/// Rounded to the neighbour whose last bit is 1: what is rounded again from there is rounded right.
#[inline(always)]
pub fn to_odd(v: f64) -> f32 {
    let near = v as f32;
    let back = f64::from(near);
    let toward_zero = near.to_bits() - u32::from(back.abs() > v.abs());
    f32::from_bits(toward_zero | u32::from(back != v))
}

/// The number of the fewest digits that becomes `v` when it is rounded.
fn fewest_digits(v: f64, rounded: fn(f64) -> f64) -> f64 {
    let of_digits = |digits: usize| format!("{v:.digits$e}").parse::<f64>().ok();
    (0..17).find_map(|digits| of_digits(digits).filter(|text| rounded(*text) == v)).unwrap_or(v)
}

impl DType {
    /// All of them, in the order of their codes.
    pub fn all() -> impl Iterator<Item = DType> {
        TABLE.iter().map(|row| row.dtype)
    }

    fn row(self) -> &'static Row {
        &TABLE[self as usize - 1]
    }

    /// The dtype of a code, as it came in a record or frame.
    pub fn from_code(code: u8) -> Result<DType> {
        TABLE.get((code as usize).wrapping_sub(1)).map(|row| row.dtype).ok_or_else(|| {
            Error::bad(format!("{code} is not the code of a dtype; known are 1 to {}", TABLE.len()))
        })
    }

    /// The dtype of a short name such as `f64` or `c128`.
    pub fn parse(name: &str) -> Result<DType> {
        TABLE.iter().find(|row| row.name == name).map(|row| row.dtype).ok_or_else(|| {
            let known: Vec<_> = TABLE.iter().map(|row| row.name).collect();
            Error::bad(format!("{name:?} is not a dtype; use one of {}", known.join(", ")))
        })
    }

    /// The dtype of what NumPy calls a kind, such as `f`, and a size in bytes. NumPy's texts and bytes are others: theirs
    /// have a length.
    pub fn of_numpy(kind: u8, size: usize) -> Option<DType> {
        let is_it = |row: &&Row| row.size == size && row.dtype.numpy_kind() == kind && !row.dtype.is_text();
        TABLE.iter().find(is_it).map(|row| row.dtype)
    }

    /// The short name, as in signatures.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// What elements are.
    pub fn kind(self) -> ElementKind {
        self.row().kind
    }

    /// Bytes of one element.
    pub fn size(self) -> usize {
        self.row().size
    }

    /// Turns the bytes of every number round, for elements of a machine of the other byte order.
    pub fn turn(self, bytes: &mut [u8]) {
        // Of a complex number each part by itself.
        let part = if self.kind() == Complex { self.size() / 2 } else { self.size() };
        if part > 1 {
            bytes.chunks_exact_mut(part).for_each(<[u8]>::reverse);
        }
    }

    /// The NumPy type string (`<f8`).
    pub fn numpy(self) -> &'static str {
        self.row().numpy
    }

    /// The letter of NumPy's for the kind (`f`).
    pub fn numpy_kind(self) -> u8 {
        self.row().numpy.as_bytes()[1]
    }

    /// A real number as an element of that dtype, or a part of one, holds it: infinite when it is beyond the largest one.
    pub fn rounded(self, v: f64) -> f64 {
        let Some(real) = self.real() else { return v };
        let mut room = [0; 16];
        let bytes = &mut room[..real.size];
        (real.encode)(v, bytes);
        (real.decode)(bytes)
    }

    /// The number with the shortest text that stands for the same element, or part of one, as `v`, which is one.
    pub fn shortest(self, v: f64) -> f64 {
        self.real().filter(|_| v.is_finite()).map_or(v, |real| (real.shortest)(v))
    }

    /// How real numbers lie in elements, or in parts of them.
    pub(crate) fn real(self) -> Option<RealFormat> {
        self.row().real
    }

    /// The bytes of the element that is no number, as NumPy makes it: of a complex one the real part is NaN. None of
    /// dtypes that have none.
    pub fn nan(self) -> Option<Vec<u8>> {
        let real = self.real()?;
        let mut bytes = vec![0; self.size()];
        (real.encode)(f64::NAN, &mut bytes[..real.size]);
        Some(bytes)
    }

    /// Bits of an element's mantissa: up to two to that power it holds every integer. None of what is no real number.
    pub fn mantissa(self) -> Option<u32> {
        self.real().filter(|_| self.kind() == Float).map(|real| real.mantissa)
    }

    /// The largest real number. None of what is no real number.
    pub fn largest(self) -> Option<f64> {
        self.real().filter(|_| self.kind() == Float).map(|real| (real.largest)())
    }

    /// Whether elements are integers.
    pub fn is_integer(self) -> bool {
        matches!(self.kind(), Signed | Unsigned)
    }

    /// Whether an element is a byte of a text or of bytes, which the last extent counts.
    pub fn is_text(self) -> bool {
        matches!(self.kind(), Text | Bytes)
    }

    /// The integers that an element holds; a truth value is 0 or 1. None of what holds others.
    pub fn range(self) -> Option<RangeInclusive<i128>> {
        let spare = 128 - 8 * self.size() as u32;
        match self.kind() {
            Signed => Some(i128::MIN >> spare..=i128::MAX >> spare),
            Unsigned => Some(0..=i128::MAX >> spare.saturating_sub(1)),
            Bool => Some(0..=1),
            _ => None,
        }
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::DType::{Bool, Bytes, C64, C128, F64, I8, Str, U8, U16};
    use super::*;

    #[test]
    fn numbers_of_the_other_byte_order_are_turned_round_and_complex_ones_in_each_part() {
        let turned = |dtype: DType, from: &[u8]| {
            let mut bytes = from.to_vec();
            dtype.turn(&mut bytes);
            bytes
        };
        assert_eq!(turned(U16, &[1, 2, 3, 4]), [2, 1, 4, 3]);
        assert_eq!(turned(F64, &1.5f64.to_be_bytes()), 1.5f64.to_le_bytes());
        let z = [1.5f32.to_be_bytes(), (-2.0f32).to_be_bytes()].concat();
        assert_eq!(turned(C64, &z), [1.5f32.to_le_bytes(), (-2.0f32).to_le_bytes()].concat());
        assert_eq!(turned(C128, &(0..16).collect::<Vec<u8>>())[..9], [7, 6, 5, 4, 3, 2, 1, 0, 15]);
        for dtype in [I8, U8, Bool, Str, Bytes] {
            assert_eq!(turned(dtype, &[1, 2, 3]), [1, 2, 3]);
        }
    }

    #[test]
    fn the_table_is_in_the_order_of_the_codes() {
        for d in DType::all() {
            assert_eq!(DType::from_code(d as u8).unwrap(), d);
            assert_eq!(DType::parse(d.name()).unwrap(), d);
        }
        assert!(DType::from_code(0).is_err());
        assert!(DType::from_code(200).is_err());
    }

    #[test]
    fn what_numpy_is_told_is_the_kind_and_size_of_every_dtype_or_of_its_bits() {
        for d in DType::all() {
            let (order, size) = (&d.numpy()[..1], d.numpy()[2..].parse());
            assert_eq!(size, Ok(d.size()), "{d}");
            assert_eq!(order, if d.size() == 1 { "|" } else { "<" }, "{d}");
            let own = match d.kind() {
                Signed => b'i',
                Unsigned => b'u',
                Float => b'f',
                Complex => b'c',
                ElementKind::Bool => b'b',
                Text => b'S',
                ElementKind::Bytes => b'V',
            };
            let found = DType::of_numpy(d.numpy_kind(), d.size());
            match d.numpy_kind() {
                letter if letter == own => assert_eq!(found, Some(d).filter(|d| !d.is_text()), "{d}"),
                letter => assert_eq!((letter, found.unwrap().kind()), (b'u', Unsigned), "{d}"),
            }
        }
    }

    #[test]
    fn an_integer_dtype_holds_what_its_bits_can_say() {
        let range = |d: DType| d.range().map(RangeInclusive::into_inner);
        assert_eq!(range(I8), Some((-128, 127)));
        assert_eq!(range(U16), Some((0, 65535)));
        assert_eq!(range(DType::I64), Some((i64::MIN.into(), i64::MAX.into())));
        assert_eq!(range(DType::U64), Some((0, u64::MAX.into())));
        assert_eq!(range(Bool), Some((0, 1)));
        for d in DType::all() {
            assert_eq!(d.range().is_some(), d.is_integer() || d == Bool, "{d}");
            assert_eq!(d.largest().is_some(), d.kind() == Float, "{d}");
        }
    }

    #[test]
    fn a_number_becomes_the_nearest_half_in_one_rounding() {
        // Above the middle between 1 and the half behind it by less than an f32 can say, and below it as far.
        let (unit, middle) = (f64::from(f16::EPSILON), 1.0 + f64::from(f16::EPSILON) / 2.0);
        for (v, nearest) in [(middle + 1e-12, 1.0 + unit), (middle, 1.0), (middle - 1e-12, 1.0)] {
            assert_eq!((DType::F16.rounded(v), DType::F16.rounded(-v)), (nearest, -nearest));
        }
        let middle = middle + unit;
        for (v, nearest) in [(middle + 1e-12, 1.0 + 2.0 * unit), (middle - 1e-12, 1.0 + unit)] {
            assert_eq!(DType::F16.rounded(v), nearest);
        }
        assert_eq!((DType::F16.rounded(1e300), DType::F16.rounded(1e-300)), (f64::INFINITY, 0.0));
    }

    #[test]
    fn a_real_number_has_the_shortest_text_that_its_dtype_is_read_from() {
        for (d, v) in [(DType::F16, 0.1), (DType::F32, 0.1), (F64, 0.1), (C64, 3.4e38), (DType::F16, 6e-8)] {
            assert_eq!(d.shortest(d.rounded(v)), v, "{d}");
        }
        for d in DType::all().filter(|d| d.kind() == Float) {
            for v in [0.0, -2.5, 1.0 / 3.0, d.largest().unwrap(), f64::INFINITY] {
                assert_eq!(d.rounded(d.shortest(d.rounded(v))), d.rounded(v), "{d}");
            }
            assert!(d.shortest(f64::NAN).is_nan());
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let e = DType::parse("float").unwrap_err();
        assert!(e.text().contains("\"float\"") && e.text().contains("f64"));
    }
}
