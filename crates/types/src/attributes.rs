//! Attributes: a JSON object. JSON has neither NaN nor infinities, and readers of it make the nearest
//! real number of an integer beyond 64 bits; the former are written as objects of one key, the latter
//! are refused.
//!
//! ```text
//!  NaN, inf, -inf:   {"$": "nan"}   {"$": "inf"}   {"$": "-inf"}
//! ```

use crate::{Error, Result};
use serde_json::{Map, Value, json};

/// Attributes from their text.
pub fn attributes(text: &str) -> Result<Map<String, Value>> {
    let found = serde_json::from_str(text)
        .map_err(|e| Error::bad(format!("{text:?} is not a JSON object of attributes: {e}")))?;
    match integers(text).find(|word| word.parse::<i64>().is_err() && word.parse::<u64>().is_err()) {
        None => Ok(found),
        Some(word) => Err(Error::bad(format!(
            "{word} is beyond 64 bits, and an attribute would not keep it exactly; give it as a text or as a real number"
        ))),
    }
}

/// A real number as an attribute.
pub fn real_attribute(v: f64) -> Value {
    match v.is_finite() {
        true => json!(v),
        false => json!({ "$": if v.is_nan() { "nan" } else if v > 0.0 { "inf" } else { "-inf" } }),
    }
}

/// The number that an attribute is.
pub fn number_of_attribute(value: &Value) -> Option<f64> {
    crate::description::real(value)
}

/// The integers of a JSON text: its numbers without point and exponent.
fn integers(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            rest = rest.trim_start_matches(|c: char| c != '"' && c != '-' && !c.is_ascii_digit());
            if rest.is_empty() {
                return None;
            }
            if rest.starts_with('"') {
                rest = behind_text(rest);
                continue;
            }
            let end = rest.find(|c: char| !c.is_ascii_digit() && !"+-.eE".contains(c)).unwrap_or(rest.len());
            let (word, behind) = rest.split_at(end);
            rest = behind;
            if !word.contains(['.', 'e', 'E']) {
                return Some(word);
            }
        }
    })
}

/// What follows the text that begins here.
fn behind_text(text: &str) -> &str {
    let mut escaped = false;
    let inside = &text[1..];
    let end = inside.find(|c| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    end.map_or("", |at| &inside[at + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::real;

    #[test]
    fn an_integer_that_would_be_rounded_is_refused_by_its_value() {
        for bad in ["18446744073709551616", "-9223372036854775809", "1180591620717411303424"] {
            let e = attributes(&format!(r#"{{"a": "\"1", "b": [{{"c": [1.5, {bad}]}}]}}"#)).unwrap_err();
            assert!(e.to_string().contains(bad), "{e}");
        }
        let text = r#"{"a\\": "99999999999999999999 \" 99999999999999999999", "b": 18446744073709551615, "c": 1e30, "d": -1}"#;
        let found = attributes(text).unwrap();
        assert_eq!(found["b"], json!(u64::MAX));
        assert!(attributes("[1]").is_err());
    }

    #[test]
    fn a_number_that_is_none_is_an_attribute_like_others() {
        for v in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.1, -0.0] {
            let back = real(&real_attribute(v)).unwrap();
            assert!(back.to_bits() == v.to_bits() || back.is_nan() && v.is_nan(), "{v}: {back}");
        }
        assert_eq!(real(&json!("nan")), None);
        assert_eq!(real(&json!({ "fb:f64": "x" })), None);
    }
}
