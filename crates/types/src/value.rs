//! Scalars as they travel: a dtype and its bytes, and the conversions a caller may expect.
//!
//! A number goes into a parameter of another type only when its value survives: 3 into an `f64`,
//! 3.0 not into an `i32`. Rounding an `f64` to an `f32` is allowed, overflowing it is not.

use crate::{DType, Error, Result};
use half::f16;

/// One number or truth value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Scalar {
    dtype: DType,
    bytes: [u8; 16],
}

/// What a scalar is, whatever its width.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A truth value.
    Bool(bool),
    /// An integer of any width.
    Int(i128),
    /// A real number.
    Real(f64),
    /// A complex number: real and imaginary part.
    Complex(f64, f64),
}

impl Scalar {
    /// A scalar from its little-endian bytes, which must be as many as the dtype has.
    pub fn from_bytes(dtype: DType, bytes: &[u8]) -> Result<Scalar> {
        if matches!(dtype, DType::Str | DType::Bytes) || bytes.len() != dtype.size() {
            return Err(Error::bad(format!("{} bytes are not a scalar of dtype {dtype}", bytes.len())));
        }
        let mut scalar = Scalar { dtype, bytes: [0; 16] };
        scalar.bytes[..bytes.len()].copy_from_slice(bytes);
        Ok(scalar)
    }

    /// The zero of a dtype (of text and bytes: no such thing, an `u8`).
    pub fn zero(dtype: DType) -> Scalar {
        let dtype = if matches!(dtype, DType::Str | DType::Bytes) { DType::U8 } else { dtype };
        Scalar { dtype, bytes: [0; 16] }
    }

    fn raw<const N: usize>(dtype: DType, value: [u8; N]) -> Scalar {
        let mut scalar = Scalar { dtype, bytes: [0; 16] };
        scalar.bytes[..N].copy_from_slice(&value);
        scalar
    }

    /// Its dtype.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Its bytes, little endian.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.dtype.size()]
    }

    fn part<const N: usize>(&self, at: usize) -> [u8; N] {
        self.bytes[at..at + N].try_into().expect("sixteen bytes hold every part")
    }

    /// Its value.
    pub fn number(&self) -> Number {
        use DType::*;
        match self.dtype {
            I8 => Number::Int(i8::from_le_bytes(self.part(0)).into()),
            I16 => Number::Int(i16::from_le_bytes(self.part(0)).into()),
            I32 => Number::Int(i32::from_le_bytes(self.part(0)).into()),
            I64 => Number::Int(i64::from_le_bytes(self.part(0)).into()),
            U8 | Str | Bytes => Number::Int(self.bytes[0].into()),
            U16 => Number::Int(u16::from_le_bytes(self.part(0)).into()),
            U32 => Number::Int(u32::from_le_bytes(self.part(0)).into()),
            U64 => Number::Int(u64::from_le_bytes(self.part(0)).into()),
            F16 => Number::Real(f16::from_le_bytes(self.part(0)).to_f64()),
            F32 => Number::Real(f32::from_le_bytes(self.part(0)).into()),
            F64 => Number::Real(f64::from_le_bytes(self.part(0))),
            C64 => Number::Complex(
                f32::from_le_bytes(self.part(0)).into(),
                f32::from_le_bytes(self.part(4)).into(),
            ),
            C128 => Number::Complex(f64::from_le_bytes(self.part(0)), f64::from_le_bytes(self.part(8))),
            Bool => Number::Bool(self.bytes[0] != 0),
        }
    }

    /// Its value as an integer, if it is one that fits.
    pub fn as_i64(&self) -> Option<i64> {
        match self.number() {
            Number::Int(v) => i64::try_from(v).ok(),
            _ => None,
        }
    }

    /// Its value as an integer without a sign, if it is one.
    pub fn as_u64(&self) -> Option<u64> {
        match self.number() {
            Number::Int(v) => u64::try_from(v).ok(),
            _ => None,
        }
    }

    /// Its value as a real number, if it is an integer or a real one.
    pub fn as_f64(&self) -> Option<f64> {
        match self.number() {
            Number::Int(v) => Some(v as f64),
            Number::Real(v) => Some(v),
            _ => None,
        }
    }

    /// The same value in another dtype, if it survives there.
    pub fn convert(&self, to: DType) -> Result<Scalar> {
        if self.dtype == to {
            return Ok(*self);
        }
        let value = self.number();
        converted(value, to).ok_or_else(|| {
            let hint = match (value, to) {
                (Number::Real(v), _) if is_integer(to) && v.fract() == 0.0 => "pass an integer",
                (Number::Complex(..), _) => "pass its real part",
                (Number::Int(_), _) if is_integer(to) => "it is out of range",
                _ => "convert it first",
            };
            Error::bad(format!("{self} of dtype {} does not go into {to} unchanged; {hint}", self.dtype))
        })
    }
}

fn is_integer(dtype: DType) -> bool {
    use DType::*;
    matches!(dtype, I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64)
}

fn converted(value: Number, to: DType) -> Option<Scalar> {
    use DType::*;
    let fits = |dtype: DType, v: f64| (dtype.rounded(v).is_finite() || !v.is_finite()).then_some(v);
    let real = |v: f64| fits(F32, v).map(|v| v as f32);
    let exact = |v: i128| -> Option<f64> { ((v as f64) as i128 == v).then_some(v as f64) };
    let as_real = |v: Number| match v {
        Number::Int(v) => exact(v),
        Number::Real(v) => Some(v),
        _ => None,
    };
    Some(match (to, value) {
        (I8, Number::Int(v)) => i8::try_from(v).ok()?.into(),
        (I16, Number::Int(v)) => i16::try_from(v).ok()?.into(),
        (I32, Number::Int(v)) => i32::try_from(v).ok()?.into(),
        (I64, Number::Int(v)) => i64::try_from(v).ok()?.into(),
        (U8, Number::Int(v)) => u8::try_from(v).ok()?.into(),
        (U16, Number::Int(v)) => u16::try_from(v).ok()?.into(),
        (U32, Number::Int(v)) => u32::try_from(v).ok()?.into(),
        (U64, Number::Int(v)) => u64::try_from(v).ok()?.into(),
        (F16, v) => f16::from_f64(fits(F16, as_real(v)?)?).into(),
        (F32, v) => real(as_real(v)?)?.into(),
        (F64, v) => as_real(v)?.into(),
        (C64, Number::Complex(re, im)) => Scalar::c64(real(re)?, real(im)?),
        (C64, v) => Scalar::c64(real(as_real(v)?)?, 0.0),
        (C128, Number::Complex(re, im)) => Scalar::c128(re, im),
        (C128, v) => Scalar::c128(as_real(v)?, 0.0),
        (Bool, Number::Bool(v)) => v.into(),
        _ => return None,
    })
}

macro_rules! from {
    ($($rust:ty => $dtype:ident),*) => {$(
        impl From<$rust> for Scalar {
            fn from(v: $rust) -> Scalar {
                Scalar::raw(DType::$dtype, v.to_le_bytes())
            }
        }
    )*};
}
from!(i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64, f16 => F16,
    f32 => F32, f64 => F64);

impl From<bool> for Scalar {
    fn from(v: bool) -> Scalar {
        Scalar::raw(DType::Bool, [v as u8])
    }
}

impl Scalar {
    /// A complex number of single precision.
    pub fn c64(re: f32, im: f32) -> Scalar {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&re.to_le_bytes());
        bytes[4..].copy_from_slice(&im.to_le_bytes());
        Scalar::raw(DType::C64, bytes)
    }

    /// A complex number of double precision.
    pub fn c128(re: f64, im: f64) -> Scalar {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&re.to_le_bytes());
        bytes[8..].copy_from_slice(&im.to_le_bytes());
        Scalar::raw(DType::C128, bytes)
    }
}

impl std::fmt::Display for Scalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.number() {
            Number::Bool(v) => write!(f, "{v}"),
            Number::Int(v) => write!(f, "{v}"),
            Number::Real(v) => write!(f, "{v:?}"),
            Number::Complex(re, im) => write!(f, "{re:?}{im:+?}j"),
        }
    }
}

impl std::fmt::Debug for Scalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}:{}", self.dtype)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_value_that_would_change_is_refused() {
        let refused = |s: Scalar, to| s.convert(to).unwrap_err().text().to_owned();
        assert!(refused(Scalar::from(2.5), DType::I32).contains("2.5 of dtype f64"));
        assert!(refused(Scalar::from(2.0), DType::I32).contains("pass an integer"));
        assert!(refused(Scalar::from(300i64), DType::U8).contains("out of range"));
        assert!(refused(Scalar::c128(1.0, 2.0), DType::F64).contains("real part"));
        refused(Scalar::from(1e300), DType::F32);
        refused(Scalar::from(65520.0), DType::F16);
        refused(Scalar::from((1i64 << 53) + 1), DType::F64);
        refused(Scalar::from(true), DType::I32);
        refused(Scalar::from(1i64), DType::Bool);
    }

    #[test]
    fn a_value_that_survives_goes_through() {
        assert_eq!(Scalar::from(3i64).convert(DType::F64).unwrap(), Scalar::from(3.0));
        assert_eq!(Scalar::from(3i64).convert(DType::I32).unwrap(), Scalar::from(3i32));
        assert_eq!(Scalar::from(0.1f64).convert(DType::F32).unwrap(), Scalar::from(0.1f32));
        assert_eq!(Scalar::from(0.1f64).convert(DType::F16).unwrap().number(), Number::Real(0.0999755859375));
        assert_eq!(Scalar::from(65504).convert(DType::F16).unwrap().to_string(), "65504.0");
        assert_eq!(Scalar::from(f64::INFINITY).convert(DType::F32).unwrap(), Scalar::from(f32::INFINITY));
        assert_eq!(Scalar::from(2i32).convert(DType::C128).unwrap(), Scalar::c128(2.0, 0.0));
        assert_eq!(Scalar::c64(1.0, -2.0).to_string(), "1.0-2.0j");
    }

    proptest! {
        #[test]
        fn bytes_and_back_are_the_same_scalar(bytes in any::<[u8; 16]>()) {
            for dtype in DType::all().filter(|d| !matches!(d, DType::Str | DType::Bytes)) {
                let s = Scalar::from_bytes(dtype, &bytes[..dtype.size()]).unwrap();
                prop_assert_eq!(s.bytes(), &bytes[..dtype.size()]);
                let _ = (s.to_string(), s.number());
                for to in DType::all() {
                    if let Ok(c) = s.convert(to) {
                        prop_assert_eq!(c.dtype(), to);
                    }
                }
            }
        }
    }
}
