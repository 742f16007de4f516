//! Scalars as they travel: a dtype and its bytes, and the conversions a caller may expect.
//!
//! A number goes into a parameter of another type only when its value survives: 3 into an `f64`,
//! 3.0 not into an `i32`. Rounding an `f64` to an `f32` is allowed, overflowing it is not.

use crate::{DType, Element, ElementKind, Error, Result};

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

impl DType {
    /// What an element says, which is as many bytes as the dtype has.
    pub fn number(self, element: &[u8]) -> Number {
        let integer = |fill: u8| {
            let mut bytes = [fill; 16];
            bytes[..element.len()].copy_from_slice(element);
            Number::Int(i128::from_le_bytes(bytes))
        };
        match (self.kind(), self.real()) {
            (ElementKind::Bool, _) => Number::Bool(element[0] != 0),
            (ElementKind::Signed, _) if element[element.len() - 1] >> 7 == 1 => integer(0xff),
            (ElementKind::Complex, Some(real)) => {
                let (re, im) = element.split_at(real.size);
                Number::Complex((real.decode)(re), (real.decode)(im))
            }
            (_, Some(real)) => Number::Real((real.decode)(element)),
            (_, None) => integer(0),
        }
    }

    /// The element that says a number, if its value survives there.
    pub fn element(self, value: Number) -> Option<Scalar> {
        let mut element = Scalar { dtype: self, bytes: [0; 16] };
        let fits = |v: f64| (self.rounded(v).is_finite() || !v.is_finite()).then_some(v);
        let bytes = &mut element.bytes[..self.size()];
        match (value, self.kind(), self.real()) {
            (Number::Complex(re, im), ElementKind::Complex, Some(real)) => {
                (real.encode)(fits(re)?, &mut bytes[..real.size]);
                (real.encode)(fits(im)?, &mut bytes[real.size..]);
            }
            // The imaginary part of a real number is the zero that stands there.
            (Number::Real(v), _, Some(real)) => (real.encode)(fits(v)?, &mut bytes[..real.size]),
            (Number::Int(v), _, Some(real)) if (v as f64) as i128 == v => {
                (real.encode)(fits(v as f64)?, &mut bytes[..real.size]);
            }
            (Number::Int(v), _, None) if self.is_integer() && self.range()?.contains(&v) => {
                bytes.copy_from_slice(&v.to_le_bytes()[..self.size()]);
            }
            (Number::Bool(v), ElementKind::Bool, _) => bytes[0] = v.into(),
            _ => return None,
        }
        Some(element)
    }
}

impl Scalar {
    /// A scalar from its little-endian bytes, which must be as many as the dtype has.
    pub fn from_bytes(dtype: DType, bytes: &[u8]) -> Result<Scalar> {
        if dtype.is_text() || bytes.len() != dtype.size() {
            return Err(Error::bad(format!("{} bytes are not a scalar of dtype {dtype}", bytes.len())));
        }
        let mut scalar = Scalar { dtype, bytes: [0; 16] };
        scalar.bytes[..bytes.len()].copy_from_slice(bytes);
        Ok(scalar)
    }

    /// The zero of a dtype (of text and bytes: no such thing, an `u8`).
    pub fn zero(dtype: DType) -> Scalar {
        Scalar { dtype: if dtype.is_text() { DType::U8 } else { dtype }, bytes: [0; 16] }
    }

    /// Its dtype.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Its bytes, little endian.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.dtype.size()]
    }

    /// Its value.
    pub fn number(&self) -> Number {
        self.dtype.number(self.bytes())
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

    /// Converts the value to another dtype; `BadArgument` when that dtype cannot hold it unchanged.
    pub fn convert(&self, to: DType) -> Result<Scalar> {
        if self.dtype == to {
            return Ok(*self);
        }
        let value = self.number();
        to.element(value).ok_or_else(|| {
            let hint = match (value, to) {
                (Number::Real(v), _) if to.is_integer() && v.fract() == 0.0 => "pass an integer",
                (Number::Complex(..), _) if to.kind() == ElementKind::Complex => "it is out of range",
                (Number::Complex(..), _) => "pass its real part",
                (Number::Int(_), _) if to.is_integer() => "it is out of range",
                _ => "convert it first",
            };
            Error::bad(format!("{self} of dtype {} does not go into {to} unchanged; {hint}", self.dtype))
        })
    }
}

impl<T: Element> From<T> for Scalar {
    fn from(v: T) -> Scalar {
        let mut bytes = [0; 16];
        bytes[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&v));
        Scalar { dtype: T::DTYPE, bytes }
    }
}

impl From<bool> for Scalar {
    fn from(v: bool) -> Scalar {
        Scalar { dtype: DType::Bool, ..u8::from(v).into() }
    }
}

impl Scalar {
    /// A complex number of double precision.
    pub fn c128(re: f64, im: f64) -> Scalar {
        [re, im].into()
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
        assert!(refused(Scalar::c128(1.0, 1e300), DType::C64).contains("out of range"));
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
        assert_eq!(Scalar::from([1.0f32, -2.0]).to_string(), "1.0-2.0j");
    }

    proptest! {
        #[test]
        fn bytes_and_back_are_the_same_scalar(bytes in any::<[u8; 16]>()) {
            for dtype in DType::all().filter(|d| !d.is_text()) {
                let s = Scalar::from_bytes(dtype, &bytes[..dtype.size()]).unwrap();
                prop_assert_eq!(s.bytes(), &bytes[..dtype.size()]);
                let _ = s.to_string();
                // Of several patterns of bits that are no number, or are true, one is made.
                let again = dtype.element(s.number()).unwrap();
                let is_one_of_many = dtype == DType::Bool || s.to_string().contains("NaN");
                prop_assert!(again == s || is_one_of_many, "{again:?} of {s:?}");
                for to in DType::all() {
                    if let Ok(c) = s.convert(to) {
                        prop_assert_eq!(c.dtype(), to);
                    }
                }
            }
        }
    }
}
