//! Attributes as arrays and arrays as attributes, for languages whose values are arrays.
//!
//! ```text
//!  a number, a truth value    0 dimensions      a JSON number, true; {"$c": [re, im]}; of reals that are none {"$": "nan"}
//!  a text                     str[bytes]        a JSON text
//!  several texts              str[n, bytes]     a list of texts
//!  bytes                      bytes[n]          {"$b": "base64"}
//!  other arrays               f32[2, 3]         {"$a": ["f32", [2, 3], "base64"]}
//! ```
//! A single number is kept as the number it is, whatever the width it came in; an array keeps its dtype. What Python keeps
//! beside these (`None`, integers beyond 64 bits, dictionaries, lists of unlike values) is no array.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::attributes::real_attribute;
use crate::description::{Native, known};
use crate::{ArrayMeta, DType, Error, Number, Result, Shape, limits};

/// Attributes that stand for elements of their array: others read them in its dtype only.
const ELEMENTS: [&str; 4] = ["_FillValue", "missing_value", "valid_min", "valid_max"];

/// The attribute that an array is; its bytes are row-major. `BadArgument` for one beyond the limit of an attribute, and
/// for texts that are none.
pub fn attribute_of_array(meta: &ArrayMeta, bytes: &[u8]) -> Result<Value> {
    check_attribute_array(meta)?;
    let (dtype, extents) = (meta.dtype, meta.shape.extents());
    match (dtype, extents) {
        (DType::Str, [_]) => text(bytes).map(Value::from),
        (DType::Str, [count, length]) => {
            let one = |at: u64| text(&bytes[(at * length) as usize..][..*length as usize]).map(Value::from);
            (0..*count).map(one).collect::<Result<Vec<_>>>().map(Value::Array)
        }
        (DType::Bytes, [_]) => Ok(json!({ "$b": STANDARD.encode(bytes) })),
        (DType::Str | DType::Bytes, _) => Err(Error::bad(format!(
            "an attribute that is {meta} is not kept; give a text, bytes, or a list of texts, whose last extent is their length"
        ))),
        (_, []) => Ok(of_number(dtype.number(bytes))),
        _ => Ok(json!({ "$a": [dtype.name(), extents, STANDARD.encode(bytes)] })),
    }
}

/// Refuses an array beyond the limit of an attribute, before anybody looks at its bytes.
pub fn check_attribute_array(meta: &ArrayMeta) -> Result<()> {
    // Texts without a letter have no bytes, however many there are.
    let listed = if meta.dtype == DType::Str && meta.shape.rank() > 1 { meta.shape.extents()[0] } else { 0 };
    match listed.max(meta.bytes()?) > limits::JSON_BYTES as u64 {
        true => Err(Error::bad(format!(
            "an attribute that is {meta} is beyond the limit of {} bytes; put it as an array",
            limits::JSON_BYTES
        ))),
        false => Ok(()),
    }
}

/// A text without the zeros at its end.
fn text(bytes: &[u8]) -> Result<&str> {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    std::str::from_utf8(&bytes[..end])
        .map_err(|e| Error::bad(format!("{:?} is not UTF-8: {e}", String::from_utf8_lossy(bytes))))
}

fn of_number(number: Number) -> Value {
    match number {
        Number::Bool(v) => v.into(),
        Number::Int(v) => match i64::try_from(v) {
            Ok(v) => v.into(),
            Err(_) => (v as u64).into(),
        },
        Number::Real(v) => real_attribute(v),
        Number::Complex(re, im) => json!({ "$c": [real_attribute(re), real_attribute(im)] }),
    }
}

/// The array that an attribute is: what it is, and its bytes, row-major. None of what is no array.
pub fn array_of_attribute(value: &Value) -> Option<(ArrayMeta, Vec<u8>)> {
    let of = |dtype, extents: &[u64], bytes| Some((ArrayMeta::new(dtype, Shape::new(extents).ok()?), bytes));
    match known(value)? {
        Native::Numbers { shape, bytes, .. } if is_bytes(value) => of(DType::Bytes, shape.extents(), bytes),
        Native::Numbers { dtype, shape, bytes } => of(dtype, shape.extents(), bytes),
        Native::Text(text) => of(DType::Str, &[text.len() as u64], text.into_bytes()),
        Native::Texts(texts) => {
            let longest = texts.iter().map(String::len).max().unwrap_or(0);
            let bytes = texts.iter().flat_map(|text| padded(text.as_bytes(), longest)).collect();
            of(DType::Str, &[texts.len() as u64, longest as u64], bytes)
        }
    }
}

fn is_bytes(value: &Value) -> bool {
    value.as_object().is_some_and(|object| object.len() == 1 && object.contains_key("$b"))
}

fn padded(text: &[u8], length: usize) -> impl Iterator<Item = u8> {
    text.iter().copied().chain(std::iter::repeat(0)).take(length)
}

/// The elements of the attribute `key` as an array that is asked for, row-major. A number goes into another dtype when
/// its value survives there, as an argument of a call does; a text may have more room than it needs. `BadArgument`
/// otherwise.
pub fn attribute_in(key: &str, value: &Value, wanted: &ArrayMeta) -> Result<Vec<u8>> {
    let Some((found, bytes)) = array_of_attribute(value) else {
        return Err(Error::bad(format!(
            "the attribute {key:?} is {value}, which is neither a number nor a text nor an array; read it as JSON"
        )));
    };
    let other = || {
        Error::bad(format!(
            "the attribute {key:?} is {found}, and {wanted} was asked for; read it as what it is"
        ))
    };
    if wanted.dtype.is_text() || found.dtype.is_text() {
        return in_room(&found, &bytes, wanted).ok_or_else(other);
    }
    if found.shape != wanted.shape {
        return Err(other());
    }
    let mut out = Vec::with_capacity(wanted.bytes()? as usize);
    for element in bytes.chunks_exact(found.dtype.size()) {
        let number = found.dtype.number(element);
        let fits = wanted.dtype.element(number).ok_or_else(|| {
            Error::bad(format!(
                "the attribute {key:?} has the value {} of dtype {}, which does not go into {} unchanged; read it as what it is",
                shown(number),
                found.dtype,
                wanted.dtype
            ))
        })?;
        out.extend_from_slice(fits.bytes());
    }
    Ok(out)
}

/// Texts in as much room as is asked for, or more than they need; bytes as they are.
fn in_room(found: &ArrayMeta, bytes: &[u8], wanted: &ArrayMeta) -> Option<Vec<u8>> {
    let (own, room) = (found.shape.extents(), wanted.shape.extents());
    let (Some((length, outer)), Some((space, around))) = (own.split_last(), room.split_last()) else {
        return None;
    };
    let is_longer = found.dtype == DType::Str && space > length;
    if found.dtype != wanted.dtype || outer != around || !(space == length || is_longer) {
        return None;
    }
    let count = outer.iter().product::<u64>() as usize;
    let text = |at: usize| &bytes[at * *length as usize..][..*length as usize];
    Some((0..count).flat_map(|at| padded(text(at), *space as usize)).collect())
}

fn shown(number: Number) -> String {
    match number {
        Number::Bool(v) => v.to_string(),
        Number::Int(v) => v.to_string(),
        Number::Real(v) => format!("{v:?}"),
        Number::Complex(re, im) => format!("{re:?}{im:+?}j"),
    }
}

/// An attribute of an array of that dtype: one that stands for elements is made one of its dtype. `BadArgument` when it
/// is none.
pub fn attribute_among(key: &str, value: Value, dtype: DType) -> Result<Value> {
    let has_numbers = !dtype.is_text() && dtype != DType::Bool;
    if !ELEMENTS.contains(&key) || !has_numbers {
        return Ok(value);
    }
    let Some((meta, bytes)) = array_of_attribute(&value).filter(|(meta, _)| meta.shape.rank() == 0) else {
        return Ok(value);
    };
    let number = match meta.dtype.number(&bytes) {
        Number::Real(v) if dtype.is_integer() && v.fract() == 0.0 => Number::Int(v as i128),
        number => number,
    };
    let fits =
        dtype.element(number).filter(|element| is_same(element.number(), number)).ok_or_else(|| {
            Error::bad(format!(
                "the attribute {key:?} = {value} is no value of the dtype {dtype}; give one that is"
            ))
        })?;
    Ok(match dtype {
        DType::F64 | DType::I64 => of_number(fits.number()),
        _ => json!({ "$a": [dtype.name(), [], STANDARD.encode(fits.bytes())] }),
    })
}

fn is_same(found: Number, given: Number) -> bool {
    let real = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan());
    match (found, given) {
        (Number::Real(a), Number::Real(b)) => real(a, b),
        (Number::Real(a), Number::Int(b)) => a as i128 == b,
        (Number::Complex(re, im), Number::Complex(to, too)) => real(re, to) && real(im, too),
        (Number::Complex(re, _), Number::Real(b)) => real(re, b),
        (Number::Complex(re, _), Number::Int(b)) => re as i128 == b,
        (found, given) => found == given,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(dtype: DType, extents: &[u64]) -> ArrayMeta {
        ArrayMeta::new(dtype, Shape::new(extents).unwrap())
    }

    #[test]
    fn an_array_that_became_an_attribute_comes_back_and_a_number_is_the_number_it_was() {
        let arrays = [
            (meta(DType::F32, &[2, 3]), vec![7; 24]),
            (meta(DType::C64, &[1]), vec![1; 8]),
            (meta(DType::U64, &[]), u64::MAX.to_le_bytes().to_vec()),
            (meta(DType::F64, &[]), f64::NEG_INFINITY.to_le_bytes().to_vec()),
            (meta(DType::C128, &[]), [1.5f64, -0.5].iter().flat_map(|v| v.to_le_bytes()).collect()),
            (meta(DType::Bool, &[]), vec![1]),
            (meta(DType::Bool, &[0]), vec![]),
            (meta(DType::Str, &[2]), "µ".into()),
            (meta(DType::Str, &[0]), vec![]),
            (meta(DType::Str, &[2, 3]), b"abcd\0\0".to_vec()),
            (meta(DType::Bytes, &[3]), vec![0, 255, 0]),
        ];
        for (meta, bytes) in arrays {
            let value = attribute_of_array(&meta, &bytes).unwrap();
            assert_eq!(array_of_attribute(&value).unwrap(), (meta, bytes), "{value}");
        }
        let of = |dtype, bytes: &[u8]| attribute_of_array(&meta(dtype, &[]), bytes).unwrap();
        assert_eq!(of(DType::I16, &(-3i16).to_le_bytes()), json!(-3));
        assert_eq!(of(DType::F32, &0.5f32.to_le_bytes()), json!(0.5));
        for none in
            [json!({"$": null}), json!([1, "a"]), json!({"a": 1}), json!({"$int": "99999999999999999999"})]
        {
            assert_eq!(array_of_attribute(&none), None, "{none}");
        }
    }

    #[test]
    fn an_array_that_is_no_attribute_is_refused_with_what_it_is() {
        let refused =
            |meta: ArrayMeta, bytes: &[u8]| attribute_of_array(&meta, bytes).unwrap_err().to_string();
        assert!(refused(meta(DType::F64, &[1 << 14]), &[0; 1 << 17]).contains("put it as an array"));
        assert!(refused(meta(DType::Str, &[1 << 40, 0]), &[]).contains("put it as an array"));
        assert!(refused(meta(DType::Str, &[2]), &[0xff, 0xfe]).contains("not UTF-8"));
        assert!(refused(meta(DType::Bytes, &[1, 2]), &[0, 1]).contains("last extent"));
    }

    #[test]
    fn a_value_is_read_into_another_dtype_when_it_survives_there() {
        let read = |value: Value, to: ArrayMeta| attribute_in("n", &value, &to);
        let refused = |value, to| read(value, to).unwrap_err().to_string();
        let scalar = |dtype| meta(dtype, &[]);
        assert_eq!(read(json!(6), scalar(DType::F64)).unwrap(), 6f64.to_le_bytes());
        assert_eq!(read(json!(6), scalar(DType::U8)).unwrap(), [6]);
        assert_eq!(read(json!(["a", "bc"]), meta(DType::Str, &[2, 3])).unwrap(), b"a\0\0bc\0");
        assert!(refused(json!(6.0), scalar(DType::I64)).contains("6.0 of dtype f64"));
        assert!(refused(json!(u64::MAX), scalar(DType::I64)).contains("18446744073709551615"));
        assert!(refused(json!((1i64 << 53) + 1), scalar(DType::F64)).contains("9007199254740993"));
        assert!(refused(json!(["a", "bc"]), meta(DType::Str, &[2, 1])).contains("str(2, 1)"));
        assert!(refused(json!("a"), scalar(DType::F64)).contains("str(1"));
        assert!(refused(json!([1, 2]), meta(DType::I64, &[3])).contains("i64(2"));
        assert!(refused(json!({"$": null}), scalar(DType::F64)).contains("as JSON"));
    }

    #[test]
    fn a_value_that_stands_for_elements_has_their_dtype_or_is_refused() {
        let among = |value: Value, dtype| attribute_among("_FillValue", value, dtype);
        assert_eq!(among(json!(-1), DType::I64).unwrap(), json!(-1));
        assert_eq!(among(json!(-1.0), DType::I16).unwrap(), json!({"$a": ["i16", [], "//8="]}));
        let nan = among(json!({"$": "nan"}), DType::F32).unwrap();
        assert_eq!(array_of_attribute(&nan).unwrap().0, meta(DType::F32, &[]));
        for (value, dtype) in [(json!(0.1), DType::F32), (json!(1e40), DType::F32), (json!(-1), DType::U8)] {
            assert!(among(value, dtype).unwrap_err().to_string().contains("no value of the dtype"));
        }
        assert_eq!(attribute_among("sigma", json!(0.1), DType::F32).unwrap(), json!(0.1));
        assert_eq!(among(json!("none"), DType::F32).unwrap(), json!("none"));
    }
}
