//! Arrays, cells and attributes as text and as JSON.

use forebay::{
    Array, ArrayMeta, Cell, DType, DataSet, ElementKind, Number, Order, Rows, Stats, array_of_attribute,
};
use serde_json::{Value, json};

/// Arrays beyond this many elements are shown by their edges only.
const WHOLE: u64 = 1000;
/// Elements shown at each edge.
const EDGE: u64 = 3;

/// The description of a data set.
pub fn describe(d: &DataSet) -> Value {
    let mut value = json!({
        "name": d.name, "set": d.set, "dtype": d.meta.dtype.name(), "shape": d.meta.shape.extents(),
        "order": if d.meta.order == Order::F { "F" } else { "C" },
        "units": d.units, "dims": d.dims, "attrs": d.attrs, "version": d.version, "nbytes": d.nbytes,
        "stats": d.stats.map(|stats| stats_json(d, stats)),
    });
    for (key, of) in [("mesh", json!(d.mesh)), ("species", json!(d.species))] {
        if !of.is_null() {
            value[key] = of;
        }
    }
    value
}

/// What the values of an array come to.
fn stats_json(d: &DataSet, stats: Stats) -> Value {
    let real = |v: f64| if v.is_finite() { json!(v) } else { json!(v.to_string()) };
    let whole = |v: i128| i64::try_from(v).map_or_else(|_| json!(v as u64), |v| json!(v));
    let (min, max) = match stats {
        Stats::Ints { range, .. } => range.map(|r| (whole(r.0), whole(r.1))),
        Stats::Reals { range, .. } => range.map(|r| (real(r.0), real(r.1))),
    }
    .unzip();
    json!({ "min": min, "max": max, "mean": stats.mean(d.meta.shape.len()).map(real), "nans": stats.nans() })
}

/// The same for people: one line.
pub fn stats_text(d: &DataSet) -> Option<String> {
    let stats = d.stats?;
    let of = stats_json(d, stats);
    let said = |key: &str| match &of[key] {
        Value::Null => None,
        Value::String(text) => Some(format!("{key} {text}")),
        other => Some(format!("{key} {other}")),
    };
    let absolute = if d.meta.dtype.kind() == ElementKind::Complex { "absolute values: " } else { "" };
    let nans = (stats.nans() > 0).then(|| format!("NaN {}", stats.nans()));
    let words: Vec<String> = ["min", "max", "mean"].into_iter().filter_map(said).chain(nans).collect();
    (!words.is_empty()).then(|| format!("{absolute}{}", words.join("  ")))
}

/// One element as JSON; what JSON cannot write (NaN, infinities, integers beyond 64 bits) becomes text.
pub fn element(dtype: DType, b: &[u8]) -> Value {
    // As short as reads back as the same number.
    let real = |v: f64| if v.is_finite() { json!(dtype.shortest(v)) } else { json!(v.to_string()) };
    match dtype.number(b) {
        Number::Bool(v) => json!(v),
        Number::Int(v) => match (i64::try_from(v), u64::try_from(v)) {
            (Ok(v), _) => json!(v),
            (_, Ok(v)) => json!(v),
            _ => json!(v.to_string()),
        },
        Number::Real(v) => real(v),
        Number::Complex(re, im) => json!([real(re), real(im)]),
    }
}

fn element_text(dtype: DType, b: &[u8]) -> String {
    match element(dtype, b) {
        Value::String(s) => s,
        Value::Array(c) => {
            let part = |v: &Value| v.as_f64().map_or_else(|| v.to_string(), |v| v.to_string());
            let imaginary = part(&c[1]);
            let sign = if imaginary.starts_with('-') { "" } else { "+" };
            format!("{}{sign}{imaginary}j", part(&c[0]))
        }
        other => other.to_string(),
    }
}

/// Walks an array axis by axis, in the order of its indices whatever its layout.
struct Walk<'a> {
    array: &'a Array,
    strides: [u64; forebay::limits::RANK],
}

impl<'a> Walk<'a> {
    fn new(array: &'a Array) -> Walk<'a> {
        Walk { array, strides: array.meta.shape.strides(array.meta.order) }
    }

    fn at(&self, index: u64) -> &'a [u8] {
        let size = self.array.meta.dtype.size();
        let from = index as usize * size;
        &self.array.bytes[from..from + size]
    }

    /// How many axes lead to the elements; the last one of texts holds their letters.
    fn axes(&self) -> usize {
        let rank = self.array.meta.shape.rank();
        if self.array.meta.dtype == DType::Str { rank.saturating_sub(1) } else { rank }
    }

    /// The element, or the text, behind all axes.
    fn leaf(&self, base: u64) -> Value {
        if self.array.meta.dtype != DType::Str {
            return element(self.array.meta.dtype, self.at(base));
        }
        let axis = self.axes();
        let width = self.array.meta.shape.extents().get(axis).copied().unwrap_or(0);
        let letters: Vec<u8> =
            (0..width).flat_map(|i| self.at(base + i * self.strides[axis])).copied().collect();
        json!(String::from_utf8_lossy(super::npy::unpadded(&letters)))
    }

    fn json(&self, axis: usize, base: u64) -> Value {
        match self.array.meta.shape.extents()[..self.axes()].get(axis) {
            None => self.leaf(base),
            Some(n) => {
                Value::Array((0..*n).map(|i| self.json(axis + 1, base + i * self.strides[axis])).collect())
            }
        }
    }

    fn text(&self, axis: usize, base: u64, whole: bool, out: &mut String) {
        let extents = &self.array.meta.shape.extents()[..self.axes()];
        let Some(n) = extents.get(axis).copied() else {
            match self.array.meta.dtype {
                DType::Str => out.push_str(&self.leaf(base).to_string()),
                dtype => out.push_str(&element_text(dtype, self.at(base))),
            }
            return;
        };
        let last = axis + 1 == extents.len();
        let between = if last { ", ".to_owned() } else { ",\n".to_owned() + &" ".repeat(axis + 1) };
        let cut = !whole && n > 2 * EDGE;
        out.push('[');
        let mut first = true;
        for i in 0..n {
            if cut && i == EDGE {
                out.push_str(&between);
                out.push_str("...");
            }
            if cut && i >= EDGE && i < n - EDGE {
                continue;
            }
            if !first {
                out.push_str(&between);
            }
            first = false;
            self.text(axis + 1, base + i * self.strides[axis], whole, out);
        }
        out.push(']');
    }
}

/// Whether an array is one text.
fn is_one_text(array: &Array) -> bool {
    array.meta.dtype == DType::Str && array.meta.shape.rank() < 2
}

/// The values of an array as nested JSON lists; a text as a string.
pub fn values(array: &Array) -> Value {
    match is_one_text(array) {
        true => json!(String::from_utf8_lossy(&array.bytes)),
        false => Walk::new(array).json(0, 0),
    }
}

/// The values of an array as NumPy would print them, large ones by their edges.
pub fn text(array: &Array) -> String {
    match is_one_text(array) {
        true => String::from_utf8_lossy(&array.bytes).into_owned(),
        false => {
            let mut out = String::new();
            let walk = Walk::new(array);
            let shown: u64 = array.meta.shape.extents()[..walk.axes()].iter().product();
            walk.text(0, 0, shown <= WHOLE, &mut out);
            out
        }
    }
}

/// An attribute: an array as its numbers, all else as its JSON.
pub fn attribute(value: &Value) -> String {
    let is_array = value.as_object().is_some_and(|object| object.contains_key("$a"));
    match array_of_attribute(value).filter(|_| is_array) {
        Some((meta, bytes)) => text(&Array { meta, bytes }),
        None => value.to_string(),
    }
}

/// A cell of a table as JSON.
pub fn cell(cell: &Cell) -> Value {
    match cell {
        Cell::Null => Value::Null,
        Cell::Int(v) => json!(v),
        Cell::Unsigned(v) => json!(v),
        Cell::Real(v) if v.is_finite() => json!(v),
        Cell::Real(v) => json!(v.to_string()),
        Cell::Text(v) => json!(v),
        Cell::Blob(v) => json!(v),
    }
}

/// A cell of a table as text.
pub fn cell_text(cell: &Cell) -> String {
    match cell {
        Cell::Null => String::new(),
        Cell::Int(v) => v.to_string(),
        Cell::Unsigned(v) => v.to_string(),
        Cell::Real(v) => format!("{v:?}"),
        Cell::Text(v) => v.clone(),
        Cell::Blob(v) => format!("<{} bytes>", v.len()),
    }
}

/// Rows, as objects or as aligned columns; `metas` say what the values of the columns are, where they are declared.
pub fn rows(out: &super::out::Out, rows: &Rows, metas: &[ArrayMeta]) -> forebay::Result<()> {
    let array = |at: usize, cell: &Cell| match (metas.get(at).filter(|meta| meta.shape.rank() > 0), cell) {
        (Some(meta), Cell::Blob(bytes)) if Ok(bytes.len() as u64) == meta.bytes() => {
            Some(values(&Array { meta: *meta, bytes: bytes.clone() }))
        }
        _ => None,
    };
    if !out.json {
        let head: Vec<&str> = rows.columns.iter().map(String::as_str).collect();
        let text =
            |(at, cell): (usize, &Cell)| array(at, cell).map_or_else(|| cell_text(cell), |v| v.to_string());
        let cells: Vec<Vec<String>> =
            rows.rows.iter().map(|r| r.iter().enumerate().map(text).collect()).collect();
        return out.table(&head, &cells);
    }
    for row in &rows.rows {
        let value = |(at, one): (usize, &Cell)| array(at, one).unwrap_or_else(|| cell(one));
        let object: serde_json::Map<String, Value> =
            rows.columns.iter().cloned().zip(row.iter().enumerate().map(value)).collect();
        out.value(&Value::Object(object))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::Shape;

    fn array(extents: &[u64], order: Order, values: &[f64]) -> Array {
        let meta = ArrayMeta { dtype: DType::F64, shape: Shape::new(extents).unwrap(), order };
        Array { meta, bytes: values.iter().flat_map(|v| v.to_le_bytes()).collect() }
    }

    #[test]
    fn an_array_is_shown_by_its_indices_whatever_its_layout() {
        let c = array(&[2, 3], Order::C, &[0., 1., 2., 3., 4., 5.]);
        let f = array(&[2, 3], Order::F, &[0., 3., 1., 4., 2., 5.]);
        assert_eq!(text(&c), "[[0.0, 1.0, 2.0],\n [3.0, 4.0, 5.0]]");
        assert_eq!(text(&f), text(&c));
        assert_eq!(values(&f), json!([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]));
        assert_eq!(text(&array(&[], Order::C, &[f64::NAN])), "NaN");
        assert_eq!(text(&array(&[0], Order::C, &[])), "[]");
    }

    #[test]
    fn an_attribute_that_is_an_array_is_shown_by_its_numbers() {
        assert_eq!(attribute(&json!({ "$a": ["f32", [2], "AACAPwAAAEA="] })), "[1.0, 2.0]");
        assert_eq!(attribute(&json!({ "$": "nan" })), r#"{"$":"nan"}"#);
        assert_eq!(attribute(&json!("K")), "\"K\"");
    }

    #[test]
    fn a_large_array_shows_its_edges() {
        let many: Vec<f64> = (0..2000).map(f64::from).collect();
        assert_eq!(text(&array(&[2000], Order::C, &many)), "[0.0, 1.0, 2.0, ..., 1997.0, 1998.0, 1999.0]");
    }

    #[test]
    fn an_element_of_every_dtype_is_shown_and_in_the_shortest_way() {
        for dtype in DType::all() {
            let one = dtype.element(Number::Int(1)).or(dtype.element(Number::Bool(true)));
            let bytes = one.map_or_else(|| vec![1; dtype.size()], |one| one.bytes().to_vec());
            let shown = element_text(dtype, &bytes);
            assert!(["1", "1.0", "1+0j", "true"].contains(&shown.as_str()), "{dtype}: {shown}");
        }
        let tenth = |dtype: DType| element(dtype, dtype.element(Number::Real(0.1)).unwrap().bytes());
        assert_eq!([DType::F16, DType::F32, DType::F64].map(tenth), [json!(0.1), json!(0.1), json!(0.1)]);
        assert_eq!(tenth(DType::C64), json!([0.1, 0.0]));
        assert_eq!(element(DType::F32, &f32::NEG_INFINITY.to_le_bytes()), json!("-inf"));
    }

    #[test]
    fn complex_numbers_have_a_sign_between_their_parts() {
        let meta = ArrayMeta { dtype: DType::C128, shape: Shape::new(&[1]).unwrap(), order: Order::C };
        let bytes = [1.5f64, -2.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(text(&Array { meta, bytes }), "[1.5-2j]");
    }
}
