//! Rows that a query gave, fetched column by column.

use std::ffi::{CString, c_char, c_int, c_void};

use forebay::{Array, ArrayMeta, Cell, Error, Result, Rows, Shape};

use crate::arrays::{Given, fb_array};
use crate::fault::{fb_status, status};
use crate::kinds::fb_rows;
use crate::memory::c_text;
use crate::{given, handle};

/// What is behind an `fb_rows`.
pub struct RowsObject {
    names: Vec<CString>,
    rows: Vec<Vec<Value>>,
    /// What the values of the columns are, where they are declared.
    metas: Vec<Option<ArrayMeta>>,
}

/// A cell as C can look at it.
enum Value {
    Null,
    Int(i64),
    Unsigned(u64),
    Real(f64),
    Text(CString),
    Bytes(Vec<u8>),
}

impl RowsObject {
    /// Rows of the facade, and what the values of their columns are, where they are declared.
    pub fn of(found: Rows, metas: Vec<Option<ArrayMeta>>) -> Result<RowsObject> {
        let names = found.columns.iter().map(|name| c_text(name)).collect::<Result<_>>()?;
        let value = |cell| {
            Ok(match cell {
                Cell::Null => Value::Null,
                Cell::Int(v) => Value::Int(v),
                Cell::Unsigned(v) => Value::Unsigned(v),
                Cell::Real(v) => Value::Real(v),
                Cell::Text(v) => Value::Text(c_text(&v)?),
                Cell::Blob(v) => Value::Bytes(v),
            })
        };
        let row = |row: Vec<Cell>| row.into_iter().map(value).collect();
        Ok(RowsObject { names, rows: found.rows.into_iter().map(row).collect::<Result<_>>()?, metas })
    }

    /// No rows of no columns.
    #[cfg(test)]
    pub fn empty() -> RowsObject {
        RowsObject { names: Vec::new(), rows: Vec::new(), metas: Vec::new() }
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.rows.len()
    }

    fn column(&self, column: c_int) -> Result<usize> {
        usize::try_from(column).ok().filter(|c| *c < self.names.len()).ok_or_else(|| {
            Error::bad(format!(
                "there is no column {column}; columns count from 0, and their number is {}",
                self.names.len()
            ))
        })
    }

    fn cell(&self, row: i64, column: c_int) -> Result<&Value> {
        let column = self.column(column)?;
        let cells = usize::try_from(row).ok().and_then(|row| self.rows.get(row));
        let cells = cells.ok_or_else(|| {
            Error::bad(format!(
                "there is no row {row}; rows count from 0, and their number is {}",
                self.rows.len()
            ))
        })?;
        cells.get(column).ok_or_else(|| Error::internal("a row has fewer cells than columns"))
    }

    fn is_not(&self, row: usize, column: usize, what: &str) -> Error {
        let name = self.names[column].to_string_lossy();
        let found = match &self.rows[row][column] {
            Value::Null => "has no value".to_owned(),
            Value::Int(v) => format!("is {v}"),
            Value::Unsigned(v) => format!("is {v}"),
            Value::Real(v) => format!("is {v}"),
            Value::Text(v) => format!("is the text {v:?}"),
            Value::Bytes(v) => format!("is {} bytes", v.len()),
        };
        Error::bad(format!("column {name:?} {found} in row {row}, not {what}; read it as what it is"))
    }

    /// The values of a column; the caller's memory is written only when all are as he wants them.
    fn values<T>(&self, column: c_int, what: &str, value: impl Fn(&Value) -> Option<T>) -> Result<Vec<T>> {
        let column = self.column(column)?;
        let one = |(at, row): (usize, &Vec<Value>)| {
            row.get(column).and_then(&value).ok_or_else(|| self.is_not(at, column, what))
        };
        self.rows.iter().enumerate().map(one).collect()
    }
}

impl RowsObject {
    /// The arrays of a column, those of all rows one behind the other, as `asked` has them: of the columns of a table only
    /// as they are declared, of a question in SQL as many bytes as it says.
    fn arrays(&self, at: usize, asked: &ArrayMeta) -> Result<Array> {
        let name = self.names[at].to_string_lossy();
        let each = match (self.metas.get(at).copied().flatten(), asked.shape.extents()) {
            (Some(declared), _) => declared,
            (None, [_, each @ ..]) => ArrayMeta::new(asked.dtype, Shape::new(each)?),
            (None, []) => return Err(Error::bad("the array has no axis; the first one is that of the rows")),
        };
        let extents = [&[self.rows.len() as u64], each.shape.extents()].concat();
        let meta = ArrayMeta::new(each.dtype, Shape::new(&extents)?);
        if (meta.dtype, meta.shape) != (asked.dtype, asked.shape) {
            return Err(Error::bad(format!(
                "column {name:?} has in {} rows {meta}, and {asked} was asked for; fb_table_columns tells dtype and shape",
                self.rows.len()
            )));
        }
        let (size, nan) = (each.bytes()?, each.dtype.nan());
        let mut bytes = Vec::with_capacity(meta.bytes()? as usize);
        for (row, cells) in self.rows.iter().enumerate() {
            match (&cells[at], &nan) {
                (Value::Bytes(v), _) if v.len() as u64 == size => bytes.extend_from_slice(v),
                (Value::Null, Some(nan)) => bytes.extend(nan.repeat(each.shape.len() as usize)),
                _ => return Err(self.is_not(row, at, &format!("an array {each}"))),
            }
        }
        Ok(Array { meta, bytes })
    }
}

/// Frees rows. NULL is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn fb_rows_free(rows: *mut fb_rows) -> fb_status {
    status(|| handle::free(rows))
}

/// The number of rows and of columns; either may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fb_rows_count(rows: *mut fb_rows, nrows: *mut i64, ncolumns: *mut c_int) -> fb_status {
    status(|| {
        let object = handle::get(rows)?;
        let (nrows, ncolumns) =
            (given::optional_out(nrows, "nrows")?, given::optional_out(ncolumns, "ncolumns")?);
        nrows.set(object.count() as i64);
        ncolumns.set(object.names.len() as c_int);
        Ok(())
    })
}

/// The name of a column, counted from 0; good until the rows are freed.
#[unsafe(no_mangle)]
pub extern "C" fn fb_rows_name(rows: *mut fb_rows, column: c_int, name: *mut *const c_char) -> fb_status {
    status(|| {
        let object = handle::get(rows)?;
        let out = given::out(name, "name")?;
        out.set(object.names[object.column(column)?].as_ptr());
        Ok(())
    })
}

/// A column as real numbers, one for each row; what has no value is NAN.
#[unsafe(no_mangle)]
pub extern "C" fn fb_rows_f64(rows: *mut fb_rows, column: c_int, values: *mut f64) -> fb_status {
    status(|| {
        let object = handle::get(rows)?;
        let found = object.values(column, "a number", |value| match value {
            Value::Int(v) => Some(*v as f64),
            Value::Unsigned(v) => Some(*v as f64),
            Value::Real(v) => Some(*v),
            Value::Null => Some(f64::NAN),
            _ => None,
        })?;
        given::slice_mut(values, found.len() as i64, "values")?.copy_from_slice(&found);
        Ok(())
    })
}

/// A column as integers without a sign, one for each row; every row must have one, and none below 0.
#[unsafe(no_mangle)]
pub extern "C" fn fb_rows_u64(rows: *mut fb_rows, column: c_int, values: *mut u64) -> fb_status {
    status(|| {
        let object = handle::get(rows)?;
        let found = object.values(column, "an integer without a sign", |value| match value {
            Value::Int(v) => u64::try_from(*v).ok(),
            Value::Unsigned(v) => Some(*v),
            _ => None,
        })?;
        given::slice_mut(values, found.len() as i64, "values")?.copy_from_slice(&found);
        Ok(())
    })
}

/// A column as integers, one for each row; every row must have one.
#[unsafe(no_mangle)]
pub extern "C" fn fb_rows_i64(rows: *mut fb_rows, column: c_int, values: *mut i64) -> fb_status {
    status(|| {
        let object = handle::get(rows)?;
        let found = object.values(column, "an integer below 2^63", |value| match value {
            Value::Int(v) => Some(*v),
            _ => None,
        })?;
        given::slice_mut(values, found.len() as i64, "values")?.copy_from_slice(&found);
        Ok(())
    })
}

/// A column as texts, one pointer for each row, good until the rows are freed; NULL where there is no
/// value.
#[unsafe(no_mangle)]
pub extern "C" fn fb_rows_str(rows: *mut fb_rows, column: c_int, values: *mut *const c_char) -> fb_status {
    status(|| {
        let object = handle::get(rows)?;
        let found = object.values(column, "a text", |value| match value {
            Value::Text(v) => Some(v.as_ptr()),
            Value::Null => Some(std::ptr::null()),
            _ => None,
        })?;
        given::slice_mut(values, found.len() as i64, "values")?.copy_from_slice(&found);
        Ok(())
    })
}

/// A column of arrays as one array: the first axis is that of the rows, the others are those of each array; their extents
/// and the dtype are those of the column. What has no value is NAN in a column of reals, and an error in others. Of bytes
/// that SQL gave there have to be as many as the array says.
#[unsafe(no_mangle)]
pub extern "C" fn fb_rows_array(rows: *mut fb_rows, column: c_int, values: *const fb_array) -> fb_status {
    status(|| {
        let object = handle::get(rows)?;
        let at = object.column(column)?;
        let given = Given::of(values, "values")?;
        given.take(&object.names[at].to_string_lossy(), &object.arrays(at, &given.meta)?)
    })
}

/// One cell as bytes, good until the rows are freed.
#[unsafe(no_mangle)]
pub extern "C" fn fb_rows_bytes(
    rows: *mut fb_rows,
    row: i64,
    column: c_int,
    bytes: *mut *const c_void,
    count: *mut i64,
) -> fb_status {
    status(|| {
        let object = handle::get(rows)?;
        let (bytes, count) = (given::out(bytes, "bytes")?, given::out(count, "count")?);
        let Value::Bytes(found) = object.cell(row, column)? else {
            return Err(object.is_not(row as usize, column as usize, "bytes"));
        };
        count.set(found.len() as i64);
        bytes.set(found.as_ptr().cast());
        Ok(())
    })
}

/// Whether a cell has no value: 1 or 0. A NaN has none.
#[unsafe(no_mangle)]
pub extern "C" fn fb_rows_is_null(
    rows: *mut fb_rows,
    row: i64,
    column: c_int,
    is_null: *mut c_int,
) -> fb_status {
    status(|| {
        let object = handle::get(rows)?;
        let out = given::out(is_null, "is_null")?;
        let none = match object.cell(row, column)? {
            Value::Null => true,
            Value::Real(v) => v.is_nan(),
            _ => false,
        };
        out.set(none.into());
        Ok(())
    })
}
