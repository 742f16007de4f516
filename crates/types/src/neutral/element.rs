//! Elements as words, and back to the same bits.
//!
//! ```text
//!  integers          -12      18446744073709551615
//!  real numbers      0.1      -0.0      1e300      inf      nan      nan:7ff8000000000001  (any other pattern of bits)
//!  complex numbers   0.5,-2.0
//!  truth values      0        1
//! ```

use crate::dtype::nearest_half;
use crate::{DType, ElementKind, Error, Result};
use half::f16;
use std::fmt::Write;

/// The bits of the NaN that is written without them, for parts of 2, 4 and 8 bytes: what NumPy makes.
fn plain_nan(size: usize) -> u64 {
    match size {
        2 => 0x7e00,
        4 => 0x7fc0_0000,
        _ => 0x7ff8_0000_0000_0000,
    }
}

fn bits(bytes: &[u8]) -> u64 {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(wide)
}

/// Appends an element, as its little-endian bytes have it. Not for texts and bytes.
pub fn put(dtype: DType, element: &[u8], out: &mut String) {
    let done = match dtype.kind() {
        ElementKind::Float => put_real(element, out),
        ElementKind::Complex => {
            let (re, im) = element.split_at(element.len() / 2);
            put_real(re, out).and_then(|()| out.write_char(',')).and_then(|()| put_real(im, out))
        }
        ElementKind::Signed => {
            let spare = 64 - 8 * element.len() as u32;
            write!(out, "{}", (bits(element) << spare) as i64 >> spare)
        }
        _ => write!(out, "{}", bits(element)),
    };
    debug_assert!(done.is_ok(), "a string takes what is written to it");
}

fn put_real(part: &[u8], out: &mut String) -> std::fmt::Result {
    let raw = bits(part);
    let value = match part.len() {
        2 => f16::from_bits(raw as u16).to_f64(),
        4 => f32::from_bits(raw as u32).into(),
        _ => f64::from_bits(raw),
    };
    if value.is_nan() {
        return match raw == plain_nan(part.len()) {
            true => out.write_str("nan"),
            false => write!(out, "nan:{raw:0width$x}", width = 2 * part.len()),
        };
    }
    match part.len() {
        2 => write!(out, "{:?}", DType::F16.shortest(value)),
        4 => write!(out, "{:?}", f32::from_bits(raw as u32)),
        _ => write!(out, "{value:?}"),
    }
}

/// An element as text.
pub fn text(dtype: DType, element: &[u8]) -> String {
    let mut out = String::new();
    put(dtype, element, &mut out);
    out
}

/// Appends the bytes of the element that a word says.
pub fn take(dtype: DType, word: &str, out: &mut Vec<u8>) -> Result<()> {
    let size = dtype.size();
    let taken = match dtype.kind() {
        ElementKind::Float => take_real(word, size, out),
        ElementKind::Complex => word.split_once(',').and_then(|(re, im)| {
            take_real(re, size / 2, out)?;
            take_real(im, size / 2, out)
        }),
        _ => {
            let value = word.parse::<i128>().ok();
            let fits = value.filter(|v| dtype.range().is_some_and(|range| range.contains(v)));
            fits.map(|v| out.extend_from_slice(&v.to_le_bytes()[..size]))
        }
    };
    taken.ok_or_else(|| Error::bad(format!("{word:?} is no element of dtype {dtype}")))
}

fn take_real(word: &str, size: usize, out: &mut Vec<u8>) -> Option<()> {
    let raw = match word.strip_prefix("nan") {
        Some("") => plain_nan(size),
        Some(rest) => {
            let digits = rest.strip_prefix(':').filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))?;
            u64::from_str_radix(digits, 16).ok().filter(|raw| size == 8 || raw >> (8 * size) == 0)?
        }
        // Rust reads "infinity" and "NaN" in any case, too.
        None if word.contains(|c: char| c.is_ascii_alphabetic() && c != 'e' && c != 'E')
            && word.trim_start_matches('-') != "inf" =>
        {
            return None;
        }
        None => match size {
            2 => nearest_half(word.parse().ok()?).to_bits().into(),
            4 => word.parse::<f32>().ok()?.to_bits().into(),
            _ => word.parse::<f64>().ok()?.to_bits(),
        },
    };
    out.extend_from_slice(&raw.to_le_bytes()[..size]);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn back(dtype: DType, element: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        take(dtype, &text(dtype, element), &mut out).unwrap();
        out
    }

    proptest! {
        #[test]
        fn an_element_of_any_bits_comes_back_as_it_was(bytes: [u8; 16]) {
            for dtype in DType::all().filter(|d| !d.is_text() && *d != DType::Bool) {
                let element = &bytes[..dtype.size()];
                prop_assert_eq!(back(dtype, element), element, "{}: {}", dtype, text(dtype, element));
            }
        }
    }

    #[test]
    fn elements_are_written_as_people_write_them() {
        let real = |v: f64| text(DType::F64, &v.to_le_bytes());
        let odd = f64::from_bits(0x7ff8_0000_0000_0001);
        assert_eq!(
            [0.1, -0.0, 1e300, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, odd].map(real),
            ["0.1", "-0.0", "1e300", "inf", "-inf", "nan", "nan:7ff8000000000001"]
        );
        assert_eq!(text(DType::F32, &0.1f32.to_le_bytes()), "0.1");
        assert_eq!(text(DType::F16, &f16::from_f64(0.1).to_bits().to_le_bytes()), "0.1");
        assert_eq!(text(DType::U64, &u64::MAX.to_le_bytes()), "18446744073709551615");
        assert_eq!(text(DType::I16, &(-2i16).to_le_bytes()), "-2");
        let z = [0.5f64.to_le_bytes(), (-2.0f64).to_le_bytes()].concat();
        assert_eq!(text(DType::C128, &z), "0.5,-2.0");
        assert_eq!(text(DType::Bool, &[1]), "1");
    }

    #[test]
    fn what_is_no_element_is_refused_by_its_word() {
        for (dtype, word) in [
            (DType::I8, "128"),
            (DType::U8, "-1"),
            (DType::I64, "1.0"),
            (DType::Bool, "2"),
            (DType::F64, "NaN"),
            (DType::F64, "infinity"),
            (DType::F64, "nan:+1"),
            (DType::F32, "nan:7ff8000000000001"),
            (DType::F64, ""),
            (DType::C128, "1.0"),
            (DType::C64, "1.0,2.0,3.0"),
        ] {
            let mut out = Vec::new();
            let e = take(dtype, word, &mut out).unwrap_err();
            assert!(e.text().contains(word), "{dtype} {word}: {e}");
        }
    }
}
