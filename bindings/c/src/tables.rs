//! Relational tables: columns go in as arrays, one for each column; rows come out as `fb_rows`.

use std::ffi::{c_char, c_int};

use forebay::{
    ArrayMeta, Cell, Column, DType, Error, Order, Result, Rows, Scalar, Shape, Table, TableOptions, limits,
};

use crate::args::{fb_arg, sql_args};
use crate::arrays::{Given, fb_array};
use crate::fault::{fb_status, status};
use crate::given::{self, Sized0};
use crate::kinds::{fb_dtype, fb_rows, fb_run, fb_table};
use crate::rows::RowsObject;
use crate::{handle, memory};

/// What is behind an `fb_table`.
pub struct TableObject {
    table: Table,
    owner: u64,
}

/// A column of a table to be made.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_column {
    /// Its name.
    pub name: *const c_char,
    /// Type of its values: any but the complex ones.
    pub dtype: fb_dtype,
    /// Unit, such as "kg"; NULL: none.
    pub units: *const c_char,
    /// Number of axes of the array that each value is, of numbers or truth values; 0: a single value.
    pub ndim: c_int,
    /// Extents of that array, `ndim` of them.
    pub shape: *const i64,
}

/// Values of one column.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_values {
    /// Name of the column.
    pub column: *const c_char,
    /// One value for each row: an array of one dimension, of FB_STR and FB_BYTES of two, the last of which counts
    /// bytes. Integers and reals of any width go into a column of their kind. Of a column of arrays the first axis is
    /// that of the rows, and the others are those of each array; of one row the first one may be absent.
    pub array: *const fb_array,
    /// Of a column of texts, in the place of an array: one for each row, NULL: no value. Both NULL: no value in any
    /// row.
    pub texts: *const *const c_char,
}

/// How a table is made. Zero is the default of every member.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_table_opts {
    /// sizeof(fb_table_opts).
    pub size: usize,
    /// Whether rows belong to the step they were made in and go when a restart goes back behind it.
    pub history: c_int,
}

// SAFETY: numbers, the size first.
unsafe impl Sized0 for fb_table_opts {}

/// Creates a table with its columns, or opens it when `columns` is NULL or says the same. `opts` may
/// be NULL. Free it with fb_table_free.
#[unsafe(no_mangle)]
pub extern "C" fn fb_table_open(
    run: *mut fb_run,
    name: *const c_char,
    columns: *const fb_column,
    ncolumns: c_int,
    opts: *const fb_table_opts,
    table: *mut *mut fb_table,
) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let out = given::out(table, "table")?;
        let name = given::text(name, "name")?;
        let opts = given::options(opts, "fb_table_opts")?;
        let columns = given::slice(columns, ncolumns.into(), "columns")?
            .iter()
            .map(|c| {
                let units = given::optional_text(c.units, "the units of a column")?.unwrap_or("").to_owned();
                let dtype = given::dtype(c.dtype)?.name().to_owned();
                let name = given::text(c.name, "the name of a column")?.to_owned();
                let shape = given::shape(c.ndim, c.shape, "the shape of a column")?.extents().to_vec();
                Ok(Column { name, dtype, units, shape })
            })
            .collect::<Result<Vec<Column>>>()?;
        let table = object.run.table(name, TableOptions { columns, history: opts.history != 0 })?;
        out.set(handle::give(TableObject { table, owner: object.owner }, object.owner)?);
        Ok(())
    })
}

/// Frees the handle; the table stays in the run. NULL is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn fb_table_free(table: *mut fb_table) -> fb_status {
    status(|| handle::free(table))
}

/// The names of the run's tables; free them, in one piece, with fb_free.
#[unsafe(no_mangle)]
pub extern "C" fn fb_tables(run: *mut fb_run, names: *mut *mut *mut c_char, count: *mut i64) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let (names, count) = (given::out(names, "names")?, given::out(count, "count")?);
        let found = object.run.tables()?;
        count.set(found.len() as i64);
        names.set(memory::give_texts(&found)?);
        Ok(())
    })
}

/// The columns of a table; free them, in one piece, with fb_free.
#[unsafe(no_mangle)]
pub extern "C" fn fb_table_columns(
    table: *mut fb_table,
    columns: *mut *mut fb_column_info,
    count: *mut i64,
) -> fb_status {
    status(|| {
        let object = handle::get(table)?;
        let (columns, count) = (given::out(columns, "columns")?, given::out(count, "count")?);
        let found = object.table.columns().iter().map(fb_column_info::of).collect::<Result<Vec<_>>>()?;
        count.set(found.len() as i64);
        columns.set(memory::give_values(found)?);
        Ok(())
    })
}

/// A column of a table.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_column_info {
    /// Its name.
    pub name: [c_char; crate::data::NAME],
    /// Its unit, or "".
    pub units: [c_char; crate::data::UNIT],
    /// Type of its values, or of the elements of its arrays.
    pub dtype: fb_dtype,
    /// Number of axes of the array that each value is; 0: a single value.
    pub ndim: c_int,
    /// Extents of that array, `ndim` of them.
    pub shape: [i64; limits::RANK],
}

impl fb_column_info {
    fn of(column: &Column) -> Result<fb_column_info> {
        let mut shape = [0; limits::RANK];
        shape.iter_mut().zip(&column.shape).for_each(|(own, extent)| *own = *extent as i64);
        Ok(fb_column_info {
            name: crate::data::letters(&column.name),
            units: crate::data::letters(&column.units),
            dtype: DType::parse(&column.dtype)? as fb_dtype,
            ndim: column.shape.len() as c_int,
            shape,
        })
    }
}

/// Adds `nrows` rows: `nvalues` columns with `nrows` values each. Columns that are not named have no
/// value. Pipelined; durable after fb_flush.
#[unsafe(no_mangle)]
pub extern "C" fn fb_table_insert(
    table: *mut fb_table,
    nrows: i64,
    values: *const fb_values,
    nvalues: c_int,
) -> fb_status {
    status(|| {
        let object = handle::get(table)?;
        let given = given::slice(values, nvalues.into(), "values")?;
        let columns = object.table.columns();
        let count =
            usize::try_from(nrows).map_err(|_| Error::bad(format!("{nrows} rows cannot be added")))?;
        let mut from: Vec<Option<&fb_values>> = vec![None; columns.len()];
        for values in given {
            let name = given::text(values.column, "the name of a column")?;
            let at =
                columns.iter().position(|c| c.name == name).ok_or_else(|| no_column(&object.table, name))?;
            if from[at].replace(values).is_some() {
                return Err(Error::bad(format!("the column {name:?} is given twice")));
            }
        }
        let mut rows = vec![Vec::with_capacity(columns.len()); count];
        for (values, column) in from.into_iter().zip(columns) {
            let cells = match values {
                Some(values) if column.is_array() => arrays(values, nrows, column)?,
                Some(values) => cells(values, nrows, &column.name)?,
                None => vec![Cell::Null; count],
            };
            rows.iter_mut().zip(cells).for_each(|(row, cell)| row.push(cell));
        }
        object.table.insert(&rows)
    })
}

fn no_column(table: &Table, name: &str) -> Error {
    let known: Vec<&str> = table.columns().iter().map(|c| c.name.as_str()).collect();
    Error::new(
        forebay::Code::NotFound,
        format!("the table {:?} has no column {name:?}; it has {}", table.name(), known.join(", ")),
    )
}

/// The values of a column as cells, as many as there are rows.
fn cells(values: &fb_values, rows: i64, column: &str) -> Result<Vec<Cell>> {
    let wrong = |what: String| Error::bad(format!("column {column:?}: {what}"));
    match (values.array.is_null(), values.texts.is_null()) {
        (true, true) => Ok(vec![Cell::Null; rows as usize]),
        (true, false) => given::slice(values.texts, rows, column)?
            .iter()
            .map(|t| Ok(given::optional_text(*t, column)?.map_or(Cell::Null, |t| Cell::Text(t.to_owned()))))
            .collect(),
        (false, true) => {
            let given = Given::of(values.array, column)?;
            let ArrayMeta { dtype, shape, order } = given.meta;
            let is_text = dtype.is_text();
            let (count, width) = match (shape.extents(), is_text) {
                ([], false) => (1, dtype.size()),
                ([n], false) => (*n, dtype.size()),
                ([width], true) => (1, *width as usize),
                ([n, width], true) if order == Order::C => (*n, *width as usize),
                _ => return Err(wrong(format!("{} is no array of one value for each row", given.meta))),
            };
            if count != rows as u64 {
                return Err(wrong(format!("it has {count} values for {rows} rows; give one for each")));
            }
            if width == 0 {
                return (0..count).map(|_| cell(dtype, &[]).map_err(|e| e.within(column))).collect();
            }
            let bytes = given.view()?.bytes();
            bytes.chunks_exact(width).map(|value| cell(dtype, value).map_err(|e| e.within(column))).collect()
        }
        (false, false) => Err(wrong("array and texts are given; give one of them".into())),
    }
}

/// The arrays of a column as cells, as many as there are rows.
fn arrays(values: &fb_values, rows: i64, column: &Column) -> Result<Vec<Cell>> {
    let wrong = |what: String| Error::bad(format!("column {:?}: {what}", column.name));
    if values.array.is_null() && values.texts.is_null() {
        return Ok(vec![Cell::Null; rows as usize]);
    }
    if values.array.is_null() {
        return Err(wrong(format!("texts are given, and it has arrays {}", column.meta()?)));
    }
    let given = Given::of(values.array, &column.name)?;
    let extents = given.meta.shape.extents();
    let each = match extents {
        all if rows == 1 && *all == column.shape[..] => all,
        [n, each @ ..] if *n == rows as u64 => each,
        _ => {
            let text = format!("{} is given for {rows} rows of {}", given.meta, column.meta()?);
            return Err(wrong(format!("{text}; the first axis is that of the rows")));
        }
    };
    let each = ArrayMeta::new(given.meta.dtype, Shape::new(each)?);
    let mut bytes = given.row_major()?;
    if each.dtype == DType::Bool {
        bytes.iter_mut().for_each(|byte| *byte = (*byte != 0).into());
    }
    let cell = |value: &[u8]| forebay::array_cell(column, &each, value).map_err(|e| e.within(&column.name));
    bytes.chunks_exact((each.bytes()? as usize).max(1)).map(cell).collect()
}

/// One value of an array as a cell. Texts end with their last byte that is not zero.
fn cell(dtype: DType, bytes: &[u8]) -> Result<Cell> {
    match dtype {
        DType::Str => {
            let length = bytes.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
            let text = std::str::from_utf8(&bytes[..length])
                .map_err(|e| Error::bad(format!("a text is not UTF-8: {e}")))?;
            return Ok(Cell::Text(text.to_owned()));
        }
        DType::Bytes => return Ok(Cell::Blob(bytes.to_owned())),
        DType::Bool => return Ok(Cell::Int((bytes != [0]).into())),
        _ => {}
    }
    let scalar = Scalar::from_bytes(dtype, bytes)?;
    let whole = scalar.as_i64().map(Cell::Int).or_else(|| scalar.as_u64().map(Cell::unsigned));
    whole
        .or_else(|| scalar.as_f64().map(Cell::Real))
        .ok_or_else(|| Error::bad(format!("{scalar} of {dtype} does not go into a column")))
}

/// Reads rows, in the order they came, where an SQL condition such as "mass > ?" holds (NULL: all):
/// all columns (NULL, 0) or those named. The values of the `?` are `args`, made with FB_IN_F64,
/// FB_IN_I64 and FB_IN_STR. Free the rows with fb_rows_free.
#[unsafe(no_mangle)]
pub extern "C" fn fb_table_select(
    table: *mut fb_table,
    columns: *const *const c_char,
    ncolumns: c_int,
    condition: *const c_char,
    args: *const fb_arg,
    nargs: c_int,
    rows: *mut *mut fb_rows,
) -> fb_status {
    status(|| {
        let object = handle::get(table)?;
        let out = given::out(rows, "rows")?;
        let columns = given::texts(columns, ncolumns, "columns")?;
        let condition = given::optional_text(condition, "condition")?.unwrap_or("");
        let found = object.table.select(&columns, condition, &sql_args(args, nargs)?)?;
        let declared = object.table.columns().iter();
        let wanted = |name: &String| declared.clone().find(|c| c.name == *name).map(Column::meta).transpose();
        let metas = found.columns.iter().map(wanted).collect::<Result<_>>()?;
        out.set(handle::give(RowsObject::of(found, metas)?, object.owner)?);
        Ok(())
    })
}

/// Makes an index of columns, unless there is one: conditions and SQL that ask for values of the first of them (and of
/// the next) find their rows without reading all. Each insert takes a little longer. It is kept with the run.
#[unsafe(no_mangle)]
pub extern "C" fn fb_table_index(
    table: *mut fb_table,
    columns: *const *const c_char,
    ncolumns: c_int,
) -> fb_status {
    status(|| {
        let object = handle::get(table)?;
        object.table.index(&given::texts(columns, ncolumns, "columns")?)
    })
}

/// Changes the rows where a condition holds: each column named gets the one value given. `count` gets
/// how many rows, and may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fb_table_update(
    table: *mut fb_table,
    values: *const fb_values,
    nvalues: c_int,
    condition: *const c_char,
    args: *const fb_arg,
    nargs: c_int,
    count: *mut i64,
) -> fb_status {
    status(|| {
        let object = handle::get(table)?;
        let out = given::optional_out(count, "count")?;
        let condition = given::optional_text(condition, "condition")?.unwrap_or("");
        let mut set = Vec::new();
        for values in given::slice(values, nvalues.into(), "values")? {
            let name = given::text(values.column, "the name of a column")?;
            let column = object.table.columns().iter().find(|c| c.name == name);
            let cells = match column.filter(|c| c.is_array()) {
                Some(column) => arrays(values, 1, column)?,
                None => cells(values, 1, name)?,
            };
            let cell = cells.into_iter().next().unwrap_or(Cell::Null);
            set.push((name.to_owned(), cell));
        }
        out.set(object.table.update(set, condition, &sql_args(args, nargs)?)? as i64);
        Ok(())
    })
}

/// Removes the rows where a condition holds (NULL: all); `count` gets how many, and may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fb_table_delete(
    table: *mut fb_table,
    condition: *const c_char,
    args: *const fb_arg,
    nargs: c_int,
    count: *mut i64,
) -> fb_status {
    status(|| {
        let object = handle::get(table)?;
        let out = given::optional_out(count, "count")?;
        let condition = given::optional_text(condition, "condition")?.unwrap_or("");
        out.set(object.table.delete(condition, &sql_args(args, nargs)?)? as i64);
        Ok(())
    })
}

/// The number of rows.
#[unsafe(no_mangle)]
pub extern "C" fn fb_table_count(table: *mut fb_table, count: *mut i64) -> fb_status {
    status(|| {
        let object = handle::get(table)?;
        let out = given::out(count, "count")?;
        out.set(object.table.len()? as i64);
        Ok(())
    })
}

/// Reads the points of a history: the columns step and t, and one for each curve, NaN where it has no point at that step
/// and t. Free the rows with fb_rows_free.
#[unsafe(no_mangle)]
pub extern "C" fn fb_history(run: *mut fb_run, title: *const c_char, rows: *mut *mut fb_rows) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let out = given::out(rows, "rows")?;
        let found = object.run.history(given::text(title, "title")?)?;
        let count = found.first().map_or(0, |column| column.len());
        let row = |row| found.iter().map(|column| column.cell(row)).collect();
        let columns = found.iter().map(|column| column.name.clone()).collect();
        let rows = Rows { columns, rows: (0..count).map(row).collect() };
        out.set(handle::give(RowsObject::of(rows, Vec::new())?, object.owner)?);
        Ok(())
    })
}

/// Reads with SQL; statements that write are refused. Free the rows with fb_rows_free.
#[unsafe(no_mangle)]
pub extern "C" fn fb_sql(
    run: *mut fb_run,
    query: *const c_char,
    args: *const fb_arg,
    nargs: c_int,
    rows: *mut *mut fb_rows,
) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let out = given::out(rows, "rows")?;
        let found = object.run.sql(given::text(query, "query")?, &sql_args(args, nargs)?)?;
        out.set(handle::give(RowsObject::of(found, Vec::new())?, object.owner)?);
        Ok(())
    })
}
