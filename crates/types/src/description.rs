//! What an array says of itself beside type, shape and units: names of its axes, and attributes.
//!
//! ```text
//!  {"dims": ["x", "y"], "attrs": {"long_name": "temperature", "sigma": 0.5}}
//! ```
//!
//! Attributes are JSON. What JSON has no word for is an object of one key that begins with `$`; a key of the
//! user's that begins so has one more:
//!
//! ```text
//!  {"$": "nan"}  {"$": "inf"}  {"$": "-inf"}  {"$": null}    not a number, infinities, None
//!  {"$int": "1180591620717411303424"}                        an integer beyond 64 bits
//!  {"$c": [re, im]}                                          a complex number
//!  {"$b": "base64"}                                          bytes
//!  {"$a": ["f32", [2, 3], "base64"]}                         an array, row-major, little endian; [] is a scalar
//! ```

use crate::attribute_array::{attribute_among, attribute_in};
use crate::{
    ArrayMeta, Code, Compression, DType, Error, Mesh, Name, Number, Result, Shape, SortBy, Species, limits,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Attributes that the file of a step has for itself.
const TAKEN: [&str; 7] =
    ["units", "dataOrder", "CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "_NCProperties"];

/// What goes with an array of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// The name of each axis, as the user indexes; empty: they have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dims: Vec<String>,
    /// Attributes.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub attrs: Map<String, Value>,
    /// The mesh that it is, or is a component of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mesh: Option<Mesh>,
    /// The species that it is a record of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub species: Option<Species>,
    /// Of an array in a file: how many elements nobody put, which have the value of the attribute `_FillValue`. Said with
    /// what a rank puts, as 0: some may lack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filled: Option<u64>,
    /// How its chunks are to be compressed; said before its bytes come, and no part of what it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compress: Option<Compression>,
    /// Of a record of particles that are to lie in an order; said before its bytes come, and no part of what it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sort: Option<Box<SortBy>>,
    /// Said of a constant of the run, of which the step has no bytes: where these are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constant: Option<Box<Elsewhere>>,
}

/// An array that lies in another file of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Elsewhere {
    /// The file, relative to the run.
    pub file: String,
    /// Where its bytes begin there.
    pub offset: u64,
    /// Their checksum.
    pub crc32c: u32,
    /// Type, shape and element order.
    pub meta: ArrayMeta,
    /// Unit, or empty.
    pub units: String,
}

/// The attribute that has the value of elements that nobody put.
const FILL: &str = "_FillValue";

/// The attribute that has the type which elements had before they were kept with less precision.
pub const ORIGINAL_DTYPE: &str = "original_dtype";

impl Description {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.dims.is_empty()
            && self.attrs.is_empty()
            && self.mesh.is_none()
            && self.species.is_none()
            && self.filled.is_none()
            && self.constant.is_none()
    }

    /// Says that elements which nobody puts have this value, as the attribute `_FillValue`: in an array of that dtype, where
    /// it must be what it is here.
    pub fn fill_with(&mut self, value: Value, dtype: DType) -> Result<()> {
        let of = |e: Error| e.within("fill");
        let value = attribute_among(FILL, value, dtype).map_err(of)?;
        if let Some(other) = self.attrs.get(FILL).filter(|other| **other != value) {
            return Err(Error::bad(format!(
                "fill = {value}, and the attribute {FILL:?} is {other}; say it once"
            )));
        }
        self.attrs.insert(FILL.to_owned(), value);
        self.filled = Some(0);
        self.fill(dtype).map(|_| ()).map_err(of)
    }

    /// Says that elements were of that type before they were kept with less precision. What is said already stays: they
    /// had been read from an array that was reduced itself.
    pub fn reduced_from(&mut self, original: DType) {
        self.attrs.entry(ORIGINAL_DTYPE).or_insert_with(|| original.name().into());
    }

    /// What this says of elements that nobody puts: the attribute, if they may lack.
    pub fn fill_value(&self) -> Option<&Value> {
        self.filled.and_then(|_| self.attrs.get(FILL))
    }

    /// The element of that dtype that stands where nobody puts one; none where that is not said.
    pub fn fill(&self, dtype: DType) -> Result<Option<Vec<u8>>> {
        if self.filled.is_none() {
            return Ok(None);
        }
        let one = ArrayMeta::new(dtype, Shape::scalar());
        match self.attrs.get(FILL) {
            _ if dtype.is_text() => {
                Err(Error::bad("only numbers and truth values can be filled; put every text or byte"))
            }
            Some(value) => attribute_in(FILL, value, &one).map(Some),
            None => Err(Error::bad(format!(
                "elements may lack, and there is no attribute {FILL:?} for them; say it with fill"
            ))),
        }
    }

    /// Its JSON; refused when it is too long for a record.
    pub fn to_json(&self) -> Result<String> {
        let text = serde_json::to_string(self).map_err(|e| Error::internal(e.to_string()))?;
        match text.len() > limits::DESCRIPTION_BYTES {
            true => Err(Error::bad(format!(
                "its names of axes and attributes are {} bytes of JSON, beyond the limit of {}; put large values as arrays",
                text.len(),
                limits::DESCRIPTION_BYTES
            ))),
            false => Ok(text),
        }
    }

    /// From its JSON.
    pub fn from_json(text: &str) -> Result<Description> {
        serde_json::from_str(text)
            .map_err(|e| Error::new(Code::Corrupt, format!("{text:?} describes no array: {e}")))
    }

    /// Refuses what is not kept of the array `name`.
    pub fn check(&self, name: &str, meta: &ArrayMeta) -> Result<()> {
        let of = |e: Error| e.within(format!("{name:?}"));
        self.check_dims(name, meta).map_err(of)?;
        self.mesh.iter().try_for_each(|mesh| mesh.check(name, meta, &self.dims)).map_err(of)?;
        self.species.iter().try_for_each(|species| species.check(name, meta, &self.dims)).map_err(of)?;
        if self.mesh.is_some() && self.species.is_some() {
            return Err(of(Error::bad("it is a mesh or a record of particles, and not both")));
        }
        self.fill(meta.dtype).map_err(of)?;
        self.check_attrs(name)
    }

    /// Refuses attributes that are not kept of the array `name`.
    pub fn check_attrs(&self, name: &str) -> Result<()> {
        let of = |e: Error| e.within(format!("{name:?}"));
        self.attrs.iter().try_for_each(|(key, value)| check_attribute(key, value)).map_err(of)
    }

    fn check_dims(&self, name: &str, meta: &ArrayMeta) -> Result<()> {
        if self.dims.is_empty() {
            return Ok(());
        }
        if meta.dtype == DType::Bytes {
            return Err(Error::bad(
                "an array of bytes has no dims: name the axes of an array of texts or numbers",
            ));
        }
        let axes = axes(meta).len();
        if self.dims.len() != axes {
            return Err(Error::bad(format!(
                "dims = {:?} names {} axes, and the array has {axes}; name each of them",
                self.dims,
                self.dims.len()
            )));
        }
        for (at, dim) in self.dims.iter().enumerate() {
            Name::new(dim.as_str())?;
            if let Some((group, _)) = dim.rsplit_once('/')
                && !name.strip_prefix(group).is_some_and(|rest| rest.starts_with('/'))
            {
                return Err(Error::bad(format!(
                    "the name {dim:?} of an axis has a slash, and its group {group:?} does not hold {name:?}; an axis belongs to the group of its array, or to one above it"
                )));
            }
            if self.dims[..at].iter().any(|other| axis_path(name, other) == axis_path(name, dim)) {
                return Err(Error::bad(format!("dims = {:?} names two axes {dim:?}", self.dims)));
            }
        }
        Ok(())
    }
}

/// The path of the scale of an axis of an array, and of its coordinate: beside the array. An axis whose name has a slash
/// lies in that group.
pub fn axis_path(name: &str, dim: &str) -> String {
    match name.rsplit_once('/') {
        Some((group, _)) if !dim.contains('/') => format!("{group}/{dim}"),
        _ => dim.to_owned(),
    }
}

/// The extents that have a name: of texts the letters have none.
pub fn axes(meta: &ArrayMeta) -> &[u64] {
    let extents = meta.shape.extents();
    match meta.dtype {
        DType::Str => &extents[..extents.len().saturating_sub(1)],
        _ => extents,
    }
}

/// Takes the unit out of the attributes of an array, where xarray has it; `given` is the one that was said beside them, or
/// empty. `BadArgument` when it is another one, or no text.
pub fn unit_among(attrs: &mut Map<String, Value>, given: &str) -> Result<Option<String>> {
    match attrs.remove("units") {
        None => Ok(None),
        Some(Value::String(found)) if given.is_empty() || given == found => Ok(Some(found)),
        Some(found) => Err(Error::bad(format!(
            "units = {given:?}, and attrs have the unit {found}; say it once, as a text"
        ))),
    }
}

fn check_attribute(key: &str, value: &Value) -> Result<()> {
    if key.is_empty() || key.len() > limits::NAME_BYTES || key.contains('\0') {
        return Err(Error::bad(format!(
            "{key:?} is no name of an attribute; give 1 to {} bytes without NUL",
            limits::NAME_BYTES
        )));
    }
    if TAKEN.contains(&key) {
        let remedy = match key {
            "units" => "say it where the array is put, with units= or among the attrs there",
            _ => "choose another name",
        };
        return Err(Error::bad(format!("the attribute {key:?} is written by Forebay itself; {remedy}")));
    }
    let bytes = value.to_string().len();
    if bytes > limits::JSON_BYTES {
        return Err(Error::bad(format!(
            "the attribute {key:?} is {bytes} bytes of JSON, beyond the limit of {}; put it as an array",
            limits::JSON_BYTES
        )));
    }
    Ok(())
}

/// An attribute in the words of those who read the file without us.
#[derive(Clone, Debug, PartialEq)]
pub enum Native {
    /// Numbers, truth values or bytes, row-major and little endian; of a scalar the shape is one.
    Numbers {
        /// Of which type.
        dtype: DType,
        /// How many along each axis.
        shape: Shape,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// One text.
    Text(String),
    /// A list of texts.
    Texts(Vec<String>),
}

/// What an attribute is for those who know neither JSON nor our tags: a number, a truth value, a text, a list of one of
/// these or an array; all else is its JSON.
pub fn native(value: &Value) -> Native {
    known(value).unwrap_or_else(|| Native::Text(value.to_string()))
}

/// The same, of what is not its JSON for them.
pub(crate) fn known(value: &Value) -> Option<Native> {
    let list = |v: &[Value]| {
        let texts: Option<Vec<String>> = v.iter().map(|one| one.as_str().map(str::to_owned)).collect();
        texts.filter(|t| !t.is_empty()).map(Native::Texts).or_else(|| numbers(v, Some(v.len())))
    };
    match value {
        Value::String(text) => Some(Native::Text(text.clone())),
        Value::Array(v) => list(v),
        Value::Object(_) => tagged(value).or_else(|| numbers(std::slice::from_ref(value), None)),
        one => numbers(std::slice::from_ref(one), None),
    }
}

/// The real number that an attribute is, whatever its type.
pub fn real(value: &Value) -> Option<f64> {
    if let Some(n) = value.as_f64() {
        return Some(n);
    }
    let object = value.as_object().filter(|o| o.len() == 1)?;
    let (key, inside) = object.iter().next()?;
    match (key.as_str(), inside.as_str()) {
        // What was written before there were tags.
        ("$" | "fb:f64", Some("nan")) => Some(f64::NAN),
        ("$" | "fb:f64", Some("inf")) => Some(f64::INFINITY),
        ("$" | "fb:f64", Some("-inf")) => Some(f64::NEG_INFINITY),
        ("$a", _) => match tagged(value)? {
            Native::Numbers { dtype, shape, bytes } if shape.rank() == 0 => match dtype.number(&bytes) {
                Number::Int(n) => Some(n as f64),
                Number::Real(n) => Some(n),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

fn numbers(values: &[Value], len: Option<usize>) -> Option<Native> {
    let of = |dtype, bytes: Vec<u8>| {
        let shape = match len {
            Some(n) => Shape::new(&[n as u64]).ok()?,
            None => Shape::scalar(),
        };
        Some(Native::Numbers { dtype, shape, bytes })
    };
    if values.is_empty() {
        return None;
    }
    if values.iter().all(Value::is_boolean) {
        return of(DType::Bool, values.iter().map(|v| v.as_bool().unwrap_or(false) as u8).collect());
    }
    if let Some(all) = values.iter().map(Value::as_i64).collect::<Option<Vec<_>>>() {
        return of(DType::I64, all.iter().flat_map(|v| v.to_le_bytes()).collect());
    }
    if let Some(all) = values.iter().map(Value::as_u64).collect::<Option<Vec<_>>>() {
        return of(DType::U64, all.iter().flat_map(|v| v.to_le_bytes()).collect());
    }
    // Integers among real numbers are taken as such as long as they stay what they are.
    let is_whole = |v: &Value| v.is_i64() || v.is_u64();
    let is_exact = |v: &Value| !is_whole(v) || v.as_i64().is_some_and(|n| n.unsigned_abs() <= 1 << 53);
    let all = values.iter().map(|v| real(v).filter(|_| is_exact(v))).collect::<Option<Vec<_>>>()?;
    of(DType::F64, all.iter().flat_map(|v| v.to_le_bytes()).collect())
}

fn tagged(value: &Value) -> Option<Native> {
    let object = value.as_object().filter(|o| o.len() == 1)?;
    let (key, inside) = object.iter().next()?;
    match key.as_str() {
        "$b" => {
            let bytes = STANDARD.decode(inside.as_str()?).ok()?;
            let shape = Shape::new(&[bytes.len() as u64]).ok()?;
            Some(Native::Numbers { dtype: DType::U8, shape, bytes })
        }
        "$c" => {
            let parts = inside.as_array().filter(|p| p.len() == 2)?;
            let bytes = [real(&parts[0])?, real(&parts[1])?].iter().flat_map(|v| v.to_le_bytes()).collect();
            Some(Native::Numbers { dtype: DType::C128, shape: Shape::scalar(), bytes })
        }
        "$a" => {
            let parts = inside.as_array().filter(|p| p.len() == 3)?;
            let dtype = DType::parse(parts[0].as_str()?).ok()?;
            let extents: Option<Vec<u64>> = parts[1].as_array()?.iter().map(Value::as_u64).collect();
            let shape = Shape::new(&extents?).ok()?;
            let bytes = STANDARD.decode(parts[2].as_str()?).ok()?;
            let is_number = !matches!(dtype, DType::Str | DType::Bytes);
            let fits = shape.bytes(dtype).is_ok_and(|n| n == bytes.len() as u64);
            (is_number && fits).then_some(Native::Numbers { dtype, shape, bytes })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(dtype: DType, shape: &[u64], bytes: Vec<u8>) -> Native {
        Native::Numbers { dtype, shape: Shape::new(shape).unwrap(), bytes }
    }

    #[test]
    fn an_attribute_is_for_others_what_it_is_or_else_its_json() {
        assert_eq!(native(&json!(-3)), of(DType::I64, &[], (-3i64).to_le_bytes().to_vec()));
        assert_eq!(native(&json!(u64::MAX)), of(DType::U64, &[], u64::MAX.to_le_bytes().to_vec()));
        assert_eq!(native(&json!([true, false])), of(DType::Bool, &[2], vec![1, 0]));
        assert_eq!(
            native(&json!({"$": "-inf"})),
            of(DType::F64, &[], f64::NEG_INFINITY.to_le_bytes().to_vec())
        );
        let both = [1f64, 0.5].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(native(&json!([1, 0.5])), of(DType::F64, &[2], both));
        assert_eq!(
            native(&json!({"$a": ["u8", [2, 2], "AAECAw=="]})),
            of(DType::U8, &[2, 2], vec![0, 1, 2, 3])
        );
        assert_eq!(native(&json!(["a", "\u{b5}"])), Native::Texts(vec!["a".into(), "\u{b5}".into()]));
        for kept in [
            json!([]),
            json!([1, "a"]),
            json!({"$": null}),
            json!({"a": 1}),
            json!({"$int": "1180591620717411303424"}),
            json!({"$a": ["u8", [5], "AAECAw=="]}),
            json!([9_007_199_254_740_993i64, 0.5]),
        ] {
            assert_eq!(native(&kept), Native::Text(kept.to_string()));
        }
    }

    #[test]
    fn what_stands_where_nobody_puts_anything_is_an_element_and_said_once() {
        let filled = |value: Value, dtype| {
            let mut about = Description::default();
            about.fill_with(value, dtype).and_then(|()| about.fill(dtype)).map_err(|e| e.to_string())
        };
        assert_eq!(filled(json!(-1), DType::I16).unwrap().unwrap(), (-1i16).to_le_bytes());
        assert!(filled(json!({"$": "nan"}), DType::F32).unwrap().is_some_and(|nan| nan.len() == 4));
        assert_eq!(filled(json!(true), DType::Bool).unwrap().unwrap(), [1]);
        for (value, dtype, text) in [
            (json!(0.1), DType::F32, "no value of the dtype f32"),
            (json!({"$": "nan"}), DType::I64, "no value of the dtype i64"),
            (json!("none"), DType::F64, "str"),
            (json!([1.0, 2.0]), DType::F64, "f64(2"),
            (json!(1), DType::Str, "put every text"),
        ] {
            let error = filled(value, dtype).unwrap_err();
            assert!(error.contains(text), "{error}");
        }
        let mut about =
            Description { attrs: json!({FILL: 1.0}).as_object().unwrap().clone(), ..Default::default() };
        assert!(about.fill_with(json!(2.0), DType::F64).unwrap_err().to_string().contains("say it once"));
        assert!(about.fill_value().is_none() && about.fill(DType::F64).unwrap().is_none());
    }

    #[test]
    fn what_is_not_kept_is_refused_by_name() {
        let meta = ArrayMeta::new(DType::F64, Shape::new(&[3, 4]).unwrap());
        let said = |dims: &[&str], attrs: Value| Description {
            dims: dims.iter().map(|d| d.to_string()).collect(),
            attrs: attrs.as_object().unwrap().clone(),
            ..Description::default()
        };
        let check = |d: Description| d.check("T", &meta).unwrap_err().to_string();
        assert!(said(&["x", "y"], json!({"long_name": "a"})).check("T", &meta).is_ok());
        assert!(check(said(&["x"], json!({}))).contains("has 2"));
        assert!(check(said(&["x", "x"], json!({}))).contains("two axes \"x\""));
        assert!(check(said(&["x", "a/b"], json!({}))).contains("slash"));
        assert!(check(said(&[], json!({"DIMENSION_LIST": 1}))).contains("DIMENSION_LIST"));
        assert!(check(said(&[], json!({"units": "K"}))).contains("units="));
        assert!(
            check(said(&[], json!({"a": "b".repeat(limits::JSON_BYTES)}))).contains("put it as an array")
        );
        let text = ArrayMeta::new(DType::Str, Shape::new(&[3, 9]).unwrap());
        assert!(said(&["x"], json!({})).check("names", &text).is_ok());
        let line = ArrayMeta::new(DType::F64, Shape::new(&[3]).unwrap());
        assert!(said(&["a/n"], json!({})).check("a/b/x", &line).is_ok());
        assert!(said(&["a/n"], json!({})).check("ab/x", &line).is_err());
        assert_eq!((axis_path("a/x", "n"), axis_path("a/b/x", "a/n")), ("a/n".into(), "a/n".into()));
    }
}
