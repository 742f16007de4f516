//! The types of array elements.

use crate::{Error, Result};
use half::f16;

/// What one element of an array is. The discriminant is the code on the wire and in records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DType {
    /// Signed 8-bit integer.
    I8 = 1,
    /// Signed 16-bit integer.
    I16 = 2,
    /// Signed 32-bit integer.
    I32 = 3,
    /// Signed 64-bit integer.
    I64 = 4,
    /// Unsigned 8-bit integer.
    U8 = 5,
    /// Unsigned 16-bit integer.
    U16 = 6,
    /// Unsigned 32-bit integer.
    U32 = 7,
    /// Unsigned 64-bit integer.
    U64 = 8,
    /// IEEE 754 single precision.
    F32 = 9,
    /// IEEE 754 double precision.
    F64 = 10,
    /// Complex of two `F32`, real part first.
    C64 = 11,
    /// Complex of two `F64`, real part first.
    C128 = 12,
    /// Truth value, one byte, 0 or 1.
    Bool = 13,
    /// UTF-8 text; the last extent counts bytes.
    Str = 14,
    /// Raw bytes.
    Bytes = 15,
    /// IEEE 754 half precision.
    F16 = 16,
}

use DType::*;

/// Every dtype with its short name (as in signatures), size in bytes and NumPy type string.
const TABLE: [(DType, &str, usize, &str); 16] = [
    (I8, "i8", 1, "|i1"),
    (I16, "i16", 2, "<i2"),
    (I32, "i32", 4, "<i4"),
    (I64, "i64", 8, "<i8"),
    (U8, "u8", 1, "|u1"),
    (U16, "u16", 2, "<u2"),
    (U32, "u32", 4, "<u4"),
    (U64, "u64", 8, "<u8"),
    (F32, "f32", 4, "<f4"),
    (F64, "f64", 8, "<f8"),
    (C64, "c64", 8, "<c8"),
    (C128, "c128", 16, "<c16"),
    (Bool, "bool", 1, "|b1"),
    (Str, "str", 1, "|S1"),
    (Bytes, "bytes", 1, "|V1"),
    (F16, "f16", 2, "<f2"),
];

impl DType {
    /// All of them, in the order of their codes.
    pub fn all() -> impl Iterator<Item = DType> {
        TABLE.iter().map(|t| t.0)
    }

    fn row(self) -> &'static (DType, &'static str, usize, &'static str) {
        &TABLE[self as usize - 1]
    }

    /// The dtype of a code, as it came in a record or frame.
    pub fn from_code(code: u8) -> Result<DType> {
        TABLE.get((code as usize).wrapping_sub(1)).map(|t| t.0).ok_or_else(|| {
            Error::bad(format!("{code} is not the code of a dtype; known are 1 to {}", TABLE.len()))
        })
    }

    /// The dtype of a short name such as `f64` or `c128`.
    pub fn parse(name: &str) -> Result<DType> {
        TABLE.iter().find(|t| t.1 == name).map(|t| t.0).ok_or_else(|| {
            let known: Vec<_> = TABLE.iter().map(|t| t.1).collect();
            Error::bad(format!("{name:?} is not a dtype; use one of {}", known.join(", ")))
        })
    }

    /// The short name, as in signatures.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Bytes of one element.
    pub fn size(self) -> usize {
        self.row().2
    }

    /// Turns the bytes of every number round, for elements of a machine of the other byte order.
    pub fn turn(self, bytes: &mut [u8]) {
        // Of a complex number each part by itself.
        match if matches!(self, C64 | C128) { self.size() / 2 } else { self.size() } {
            2 => bytes.chunks_exact_mut(2).for_each(<[u8]>::reverse),
            4 => bytes.chunks_exact_mut(4).for_each(<[u8]>::reverse),
            8 => bytes.chunks_exact_mut(8).for_each(<[u8]>::reverse),
            _ => {}
        }
    }

    /// The NumPy type string (`<f8`).
    pub fn numpy(self) -> &'static str {
        self.row().3
    }

    /// A real number as an element of that dtype holds it: infinite when it is beyond the largest one.
    pub fn rounded(self, v: f64) -> f64 {
        match self {
            F16 => f16::from_f64(v).to_f64(),
            F32 => f64::from(v as f32),
            _ => v,
        }
    }

    /// Bits of an element's mantissa: up to two to that power it holds every integer. None of what is no real number.
    pub fn mantissa(self) -> Option<u32> {
        match self {
            F16 => Some(f16::MANTISSA_DIGITS),
            F32 => Some(f32::MANTISSA_DIGITS),
            F64 => Some(f64::MANTISSA_DIGITS),
            _ => None,
        }
    }

    /// Whether elements are numbers (integers, floats, complex).
    pub fn is_number(self) -> bool {
        !matches!(self, Bool | Str | Bytes)
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
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
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let e = DType::parse("float").unwrap_err();
        assert!(e.text().contains("\"float\"") && e.text().contains("f64"));
    }
}
