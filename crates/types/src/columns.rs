//! Values of a table by columns, as NumPy and Arrow hold them: the elements of a column lie together, and no object is
//! made for each.
//!
//! ```text
//!  numbers, truth values   bytes:  element | element | ...          little endian, of the dtype's size
//!  arrays of one shape     bytes:  all elements of a row | of the next one | ...             row-major
//!  texts, bytes            bytes:  all of them, one behind the other
//!                          ends:   0 | end of the first | end of the second | ...
//!  valid                   one bit a row, the lowest first, as in Arrow; absent while every row has a value
//! ```

use crate::record::Cell;
use crate::{ArrayMeta, Code, DType, ElementKind, Error, Result, Shape, number_of_attribute, real_attribute};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

impl Cell {
    /// As JSON: what has no value, a NaN too, is null; infinities and bytes are tagged as in attributes.
    pub fn json(&self) -> Value {
        match self {
            Cell::Null => Value::Null,
            Cell::Int(v) => json!(v),
            Cell::Unsigned(v) => json!(v),
            // A column of floats has no other NaN: it is what has no value.
            Cell::Real(v) if v.is_nan() => Value::Null,
            Cell::Real(v) => real_attribute(*v),
            Cell::Text(v) => json!(v),
            Cell::Blob(v) => json!({"$b": STANDARD.encode(v)}),
        }
    }

    /// What such JSON says; a truth value is an integer.
    pub fn from_json(value: &Value) -> Option<Cell> {
        Some(match value {
            Value::Null => Cell::Null,
            Value::Bool(v) => Cell::Int((*v).into()),
            Value::Number(n) => match (n.as_i64(), n.as_u64()) {
                (Some(v), _) => Cell::Int(v),
                (_, Some(v)) => Cell::Unsigned(v),
                _ => Cell::Real(n.as_f64()?),
            },
            Value::String(v) => Cell::Text(v.clone()),
            Value::Object(tag) if tag.len() == 1 && tag.contains_key("$b") => {
                Cell::Blob(STANDARD.decode(tag.get("$b")?.as_str()?).ok()?)
            }
            other => Cell::Real(number_of_attribute(other)?),
        })
    }
}

/// One column.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnValues {
    /// Its name.
    pub name: String,
    /// Type of its values, or of their elements.
    pub dtype: DType,
    /// Extents of the array that each value is; those of a scalar where it is a single element.
    pub shape: Shape,
    rows: usize,
    bytes: Vec<u8>,
    ends: Vec<i64>,
    valid: Option<Vec<u8>>,
}

impl ColumnValues {
    /// An empty one, of values that are as `each` says: of a dtype, or arrays.
    pub fn new(name: impl Into<String>, each: impl Into<ArrayMeta>) -> ColumnValues {
        let ArrayMeta { dtype, shape, .. } = each.into();
        let ends = if dtype.is_text() { vec![0] } else { Vec::new() };
        ColumnValues { name: name.into(), dtype, shape, rows: 0, bytes: Vec::new(), ends, valid: None }
    }

    /// One of numbers or truth values, or of arrays of them, that lie together already.
    pub fn of_elements(name: impl Into<String>, each: impl Into<ArrayMeta>, bytes: Vec<u8>) -> ColumnValues {
        let empty = ColumnValues::new(name, each);
        ColumnValues { rows: bytes.len() / empty.value_size(), bytes, ..empty }
    }

    /// Whether each value is an array.
    pub fn is_array(&self) -> bool {
        self.shape.rank() > 0
    }

    /// What each value is.
    pub fn meta(&self) -> ArrayMeta {
        ArrayMeta::new(self.dtype, self.shape)
    }

    /// Bytes of each value, which is no text: at least 1.
    pub fn value_size(&self) -> usize {
        (self.shape.len() as usize * self.dtype.size()).max(1)
    }

    /// The same elements, one a row.
    pub fn flat(&self) -> ColumnValues {
        ColumnValues::of_elements(self.name.as_str(), self.dtype, self.bytes.clone())
    }

    /// Elements that came from [`ColumnValues::flat`] of `like`, in rows as there.
    pub fn in_rows_of(mut self, like: &ColumnValues) -> ColumnValues {
        (self.shape, self.rows, self.valid) = (like.shape, like.rows, like.valid.clone());
        self
    }

    /// How many rows it has.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Elements, or all texts one behind the other.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where each text ends, behind a 0; empty for numbers.
    pub fn ends(&self) -> &[i64] {
        &self.ends
    }

    /// One bit a row that has a value; none when all have.
    pub fn valid(&self) -> Option<&[u8]> {
        self.valid.as_deref()
    }

    /// Whether a row has a value.
    pub fn has_value(&self, row: usize) -> bool {
        self.valid.as_ref().is_none_or(|bits| bits[row / 8] >> (row % 8) & 1 == 1)
    }

    /// How many rows have none.
    pub fn nulls(&self) -> usize {
        self.valid
            .as_ref()
            .map_or(0, |bits| self.rows - bits.iter().map(|byte| byte.count_ones() as usize).sum::<usize>())
    }

    /// The text or the bytes of a row.
    pub fn text(&self, row: usize) -> &[u8] {
        &self.bytes[self.ends[row] as usize..self.ends[row + 1] as usize]
    }

    /// A row more, whose value was just added, or is none.
    fn end_row(&mut self, has_value: bool) {
        if !has_value && self.valid.is_none() {
            let mut bits = vec![0xff; self.rows / 8];
            if !self.rows.is_multiple_of(8) {
                bits.push((1 << (self.rows % 8)) - 1);
            }
            self.valid = Some(bits);
        }
        if let Some(bits) = &mut self.valid {
            if self.rows.is_multiple_of(8) {
                bits.push(0);
            }
            bits[self.rows / 8] |= u8::from(has_value) << (self.rows % 8);
        }
        self.rows += 1;
    }

    /// A row without a value: NaN in a column of floats; of arrays of floats it is told from one of NaN.
    pub fn push_null(&mut self) {
        if self.is_array() {
            let none = self.dtype.nan().unwrap_or_else(|| vec![0; self.dtype.size()]);
            self.bytes.extend(none.repeat(self.shape.len() as usize));
            return self.end_row(false);
        }
        if self.dtype.kind() == ElementKind::Float {
            return self.push_real(f64::NAN);
        }
        match self.dtype.is_text() {
            true => self.ends.push(self.bytes.len() as i64),
            false => self.bytes.resize(self.bytes.len() + self.dtype.size(), 0),
        }
        self.end_row(false);
    }

    /// A row with a real number, in a column of floats.
    pub fn push_real(&mut self, v: f64) {
        match self.dtype.real() {
            _ if self.dtype == DType::F64 => self.bytes.extend_from_slice(&v.to_le_bytes()),
            Some(real) => {
                let mut room = [0; 16];
                (real.encode)(v, &mut room[..real.size]);
                self.bytes.extend_from_slice(&room[..real.size]);
            }
            None => self.bytes.extend_from_slice(&(v as i64).to_le_bytes()[..self.dtype.size()]),
        }
        self.end_row(true);
    }

    /// A row with an integer or a truth value, of which the dtype takes the lowest bytes; in a column of floats as a
    /// number.
    pub fn push_integer(&mut self, v: u64) {
        if self.dtype.kind() == ElementKind::Float {
            return self.push_real(v as i64 as f64);
        }
        self.bytes.extend_from_slice(&v.to_le_bytes()[..self.dtype.size()]);
        self.end_row(true);
    }

    /// A row with an element, or an array, as its bytes are.
    pub fn push_element(&mut self, element: &[u8]) {
        self.bytes.extend_from_slice(element);
        self.end_row(true);
    }

    /// A row with a text, or with bytes.
    pub fn push_text(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len() as i64);
        self.end_row(true);
    }

    /// A row with what a cell holds; `Corrupt` when that is of another kind.
    pub fn push(&mut self, cell: &Cell) -> Result<()> {
        match (cell, self.dtype.is_text()) {
            (Cell::Null, _) => self.push_null(),
            (Cell::Blob(v), false) if self.is_array() && v.len() == self.value_size() => {
                self.push_element(v);
            }
            _ if self.is_array() => return Err(self.foreign()),
            (Cell::Int(v), false) => self.push_integer(*v as u64),
            (Cell::Unsigned(v), false) if self.dtype.kind() == ElementKind::Float => {
                self.push_real(*v as f64)
            }
            (Cell::Unsigned(v), false) => self.push_integer(*v),
            (Cell::Real(v), false) => self.push_real(*v),
            (Cell::Text(v), true) => self.push_text(v.as_bytes()),
            (Cell::Blob(v), true) => self.push_text(v),
            _ => return Err(self.foreign()),
        }
        Ok(())
    }

    /// A value of another kind stands in the table: somebody else has written it.
    pub fn foreign(&self) -> Error {
        let text = format!(
            "row {} of column {:?} holds something else than {}; `select` by rows shows it",
            self.rows,
            self.name,
            if self.is_array() { self.meta().to_string() } else { self.dtype.to_string() }
        );
        Error::new(Code::Corrupt, text)
    }

    /// The value of a row as a cell.
    pub fn cell(&self, row: usize) -> Cell {
        if !self.has_value(row) {
            return Cell::Null;
        }
        if self.dtype.is_text() {
            let text = self.text(row);
            return match self.dtype {
                DType::Str => Cell::Text(String::from_utf8_lossy(text).into_owned()),
                _ => Cell::Blob(text.to_owned()),
            };
        }
        let size = self.value_size();
        let element = &self.bytes[row * size..(row + 1) * size];
        if self.is_array() {
            return Cell::Blob(element.to_owned());
        }
        if let (ElementKind::Float, Some(real)) = (self.dtype.kind(), self.dtype.real()) {
            return Cell::Real((real.decode)(element));
        }
        let negative = self.dtype.kind() == ElementKind::Signed && element[size - 1] & 0x80 != 0;
        let mut wide = [if negative { 0xff } else { 0 }; 8];
        wide[..size].copy_from_slice(element);
        match self.dtype.kind() {
            ElementKind::Signed => Cell::Int(i64::from_le_bytes(wide)),
            _ => Cell::unsigned(u64::from_le_bytes(wide)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_into_a_column_of_every_dtype_comes_out() {
        let values = |dtype: DType| match dtype.kind() {
            ElementKind::Signed => vec![Cell::Int(-3), Cell::Null, Cell::Int(7)],
            ElementKind::Unsigned | ElementKind::Bool => vec![Cell::Int(1), Cell::Null, Cell::Int(0)],
            ElementKind::Float => vec![Cell::Real(0.5), Cell::Real(-2.0), Cell::Real(f64::INFINITY)],
            ElementKind::Text => vec![Cell::Text("é".into()), Cell::Null, Cell::Text(String::new())],
            _ => vec![Cell::Blob(vec![0, 255]), Cell::Null, Cell::Blob(Vec::new())],
        };
        for dtype in DType::all().filter(|d| d.kind() != ElementKind::Complex) {
            let mut column = ColumnValues::new("x", dtype);
            let given: Vec<Cell> = (0..9).flat_map(|_| values(dtype)).collect();
            given.iter().for_each(|cell| column.push(cell).unwrap());
            let found: Vec<Cell> = (0..column.len()).map(|row| column.cell(row)).collect();
            assert_eq!(found, given, "{dtype}");
            assert_eq!(column.nulls(), given.iter().filter(|c| **c == Cell::Null).count());
        }
        let mut wide = ColumnValues::new("x", DType::U64);
        wide.push(&Cell::Unsigned(u64::MAX)).unwrap();
        assert_eq!(wide.cell(0), Cell::Unsigned(u64::MAX));
        assert_eq!(wide.push(&Cell::Text("x".into())).unwrap_err().code(), Code::Corrupt);
        let mut vectors = ColumnValues::new("v", ArrayMeta::new(DType::F32, Shape::new(&[2]).unwrap()));
        let one: Vec<u8> = [0.5f32, f32::NAN].iter().flat_map(|v| v.to_le_bytes()).collect();
        vectors.push(&Cell::Blob(one.clone())).unwrap();
        vectors.push(&Cell::Null).unwrap();
        assert_eq!((vectors.cell(0), vectors.cell(1)), (Cell::Blob(one.clone()), Cell::Null));
        assert_eq!((vectors.len(), vectors.bytes().len(), vectors.nulls()), (2, 16, 1));
        assert_eq!(vectors.flat().in_rows_of(&vectors), vectors);
        for foreign in [Cell::Blob(one[..4].to_vec()), Cell::Real(0.5)] {
            assert_eq!(vectors.push(&foreign).unwrap_err().code(), Code::Corrupt);
        }
        let mut reals = ColumnValues::new("x", DType::F32);
        reals.push_null();
        assert!(matches!(reals.cell(0), Cell::Real(v) if v.is_nan()));
    }
}
