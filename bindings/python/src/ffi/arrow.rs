//! Arrow's C stream interface, by its three structures: tables are handed on to whatever reads it (pandas, pyarrow,
//! polars, DuckDB), and taken from it, without any of these being there.
//!
//! ```text
//!  stream:  get_schema, get_next, get_last_error, release     in a capsule "arrow_array_stream"
//!  schema:  "+s" with a child for each column                 format "l" is int64, "g" float64, "U" text, ...
//!  array:   of a struct; a child's buffers are validity | elements, or validity | ends | bytes of texts
//!  arrays of one shape: "+w:3", a child has three elements for each row; of more axes lists within lists
//! ```
//! What is given points into the columns, which each structure keeps alive; what is taken is copied out.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::Arc;

use forebay::{ArrayMeta, ColumnValues, DType, Shape};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};

use crate::errors;

#[repr(C)]
struct ArrowSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut ArrowSchema,
    dictionary: *mut ArrowSchema,
    release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct ArrowArrayStream {
    get_schema: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowSchema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    private_data: *mut c_void,
}

const CAPSULE: &CStr = c"arrow_array_stream";
const NULLABLE: i64 = 2;
const EINVAL: c_int = 22;

/// Dtypes and the letters by which Arrow knows them; of texts and bytes those with ends of eight bytes.
const FORMATS: [(DType, &CStr); 14] = [
    (DType::I8, c"c"),
    (DType::U8, c"C"),
    (DType::I16, c"s"),
    (DType::U16, c"S"),
    (DType::I32, c"i"),
    (DType::U32, c"I"),
    (DType::I64, c"l"),
    (DType::U64, c"L"),
    (DType::F16, c"e"),
    (DType::F32, c"f"),
    (DType::F64, c"g"),
    (DType::Bool, c"b"),
    (DType::Str, c"U"),
    (DType::Bytes, c"Z"),
];

// --- Given ----------------------------------------------------------------------------------------------------

struct GivenSchema {
    _format: CString,
    _name: CString,
    children: Vec<*mut ArrowSchema>,
}

struct GivenArray {
    _columns: Arc<Vec<ColumnValues>>,
    _bits: Option<Vec<u8>>,
    buffers: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
}

struct GivenStream {
    columns: Arc<Vec<ColumnValues>>,
    done: bool,
}

/// A stream of one batch in a capsule.
pub fn give(py: Python<'_>, columns: Arc<Vec<ColumnValues>>) -> PyResult<Bound<'_, PyAny>> {
    let stream = Box::new(ArrowArrayStream {
        get_schema: Some(get_schema),
        get_next: Some(get_next),
        get_last_error: Some(get_last_error),
        release: Some(release_stream),
        private_data: Box::into_raw(Box::new(GivenStream { columns, done: false })).cast(),
    });
    let stream = Box::into_raw(stream);
    // SAFETY: the pointer is not null, the name is a constant, and `drop_capsule` frees the pointer once.
    unsafe {
        let capsule = pyo3::ffi::PyCapsule_New(stream.cast(), CAPSULE.as_ptr(), Some(drop_capsule));
        if capsule.is_null() {
            drop_stream(stream);
        }
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}

/// # Safety
/// The capsule is one of [`give`].
unsafe extern "C" fn drop_capsule(capsule: *mut pyo3::ffi::PyObject) {
    // SAFETY: the capsule holds what `give` put there, under that name.
    unsafe { drop_stream(pyo3::ffi::PyCapsule_GetPointer(capsule, CAPSULE.as_ptr()).cast()) }
}

/// # Safety
/// The pointer is that of a box of [`give`], or null.
unsafe fn drop_stream(stream: *mut ArrowArrayStream) {
    if stream.is_null() {
        return;
    }
    // SAFETY: it was made by `Box::into_raw` and nobody else frees it; a consumer that took the stream has set
    // `release` to none.
    unsafe {
        if let Some(release) = (*stream).release {
            release(stream);
        }
        drop(Box::from_raw(stream));
    }
}

/// # Safety
/// As Arrow's interface says: the stream is not released, and its private data are those of [`give`].
unsafe extern "C" fn release_stream(stream: *mut ArrowArrayStream) {
    // SAFETY: the private data were made by `Box::into_raw` in `give`, and a released stream is never used again.
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<GivenStream>()));
        (*stream).release = None;
    }
}

/// # Safety
/// As Arrow's interface says.
unsafe extern "C" fn get_last_error(_stream: *mut ArrowArrayStream) -> *const c_char {
    std::ptr::null()
}

/// # Safety
/// As Arrow's interface says: the stream is not released, `out` is writable.
unsafe extern "C" fn get_schema(stream: *mut ArrowArrayStream, out: *mut ArrowSchema) -> c_int {
    // SAFETY: the private data live as long as the stream is not released.
    let given = unsafe { &*(*stream).private_data.cast::<GivenStream>() };
    let children: Option<Vec<ArrowSchema>> = given
        .columns
        .iter()
        .map(|column| {
            let format = FORMATS.iter().find(|f| f.0 == column.dtype)?.1;
            let extents = column.shape.extents();
            // The innermost one is that of the elements, the outermost one has the name of the column.
            let name = |depth: usize| if depth == 0 { column.name.as_str() } else { "item" };
            let mut made = schema(format.to_owned(), name(extents.len()), Vec::new());
            for (depth, n) in extents.iter().enumerate().rev() {
                let list = CString::new(format!("+w:{n}")).ok()?;
                made = schema(list, name(depth), vec![made]);
            }
            Some(made)
        })
        .collect();
    let Some(children) = children else { return EINVAL };
    // SAFETY: `out` is writable; what lay there is of the caller and not to be dropped.
    unsafe { out.write(schema(c"+s".to_owned(), "", children)) };
    0
}

fn schema(format: CString, name: &str, children: Vec<ArrowSchema>) -> ArrowSchema {
    // A zero byte ends the name for who reads it.
    let name = CString::new(name.split('\0').next().unwrap_or("")).unwrap_or_default();
    let children = children.into_iter().map(|child| Box::into_raw(Box::new(child))).collect();
    let mut kept = Box::new(GivenSchema { _format: format, _name: name, children });
    ArrowSchema {
        format: kept._format.as_ptr(),
        name: kept._name.as_ptr(),
        metadata: std::ptr::null(),
        flags: NULLABLE,
        n_children: kept.children.len() as i64,
        children: kept.children.as_mut_ptr(),
        dictionary: std::ptr::null_mut(),
        release: Some(release_schema),
        private_data: Box::into_raw(kept).cast(),
    }
}

/// # Safety
/// As Arrow's interface says: the schema is one of [`schema`] and not released.
unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: private data and children were made by `Box::into_raw`; a child that the consumer has moved away says so by
    // `release`, and its box is ours still.
    unsafe {
        let kept = Box::from_raw((*schema).private_data.cast::<GivenSchema>());
        for child in &kept.children {
            if let Some(release) = (**child).release {
                release(*child);
            }
            drop(Box::from_raw(*child));
        }
        (*schema).release = None;
    }
}

/// # Safety
/// As Arrow's interface says: the stream is not released, `out` is writable.
unsafe extern "C" fn get_next(stream: *mut ArrowArrayStream, out: *mut ArrowArray) -> c_int {
    // SAFETY: the private data live as long as the stream is not released, and calls do not overlap.
    let given = unsafe { &mut *(*stream).private_data.cast::<GivenStream>() };
    let next = match std::mem::replace(&mut given.done, true) {
        // An array that is released stands for the end.
        true => empty(),
        false => {
            let children = given.columns.iter().map(|column| of_column(column, &given.columns)).collect();
            let rows = given.columns.first().map_or(0, ColumnValues::len);
            array(rows, 0, vec![std::ptr::null()], children, None, &given.columns)
        }
    };
    // SAFETY: `out` is writable.
    unsafe { out.write(next) };
    0
}

fn of_column(column: &ColumnValues, columns: &Arc<Vec<ColumnValues>>) -> ArrowArray {
    let valid = column.valid().map_or(std::ptr::null(), |bits| bits.as_ptr().cast());
    // Arrow's truth values are bits.
    let bits = (column.dtype == DType::Bool).then(|| {
        let mut bits = vec![0u8; column.bytes().len().div_ceil(8).max(1)];
        column.bytes().iter().enumerate().for_each(|(at, v)| bits[at / 8] |= u8::from(*v != 0) << (at % 8));
        bits
    });
    let elements: *const c_void = bits.as_ref().map_or(column.bytes().as_ptr(), |bits| bits.as_ptr()).cast();
    if !column.is_array() {
        let buffers = match column.dtype.is_text() {
            true => vec![valid, column.ends().as_ptr().cast(), elements],
            false => vec![valid, elements],
        };
        return array(column.len(), column.nulls(), buffers, Vec::new(), bits, columns);
    }
    let extents = column.shape.extents();
    let mut length = column.len() * column.shape.len() as usize;
    let all: *const c_void = std::ptr::null();
    let mut child = array(length, 0, vec![all, elements], Vec::new(), bits, columns);
    for n in extents[1..].iter().rev() {
        length /= *n as usize;
        child = array(length, 0, vec![all], vec![child], None, columns);
    }
    array(column.len(), column.nulls(), vec![valid], vec![child], None, columns)
}

fn array(
    length: usize,
    nulls: usize,
    buffers: Vec<*const c_void>,
    children: Vec<ArrowArray>,
    bits: Option<Vec<u8>>,
    columns: &Arc<Vec<ColumnValues>>,
) -> ArrowArray {
    let children = children.into_iter().map(|child| Box::into_raw(Box::new(child))).collect();
    let mut kept = Box::new(GivenArray { _columns: columns.clone(), _bits: bits, buffers, children });
    ArrowArray {
        length: length as i64,
        null_count: nulls as i64,
        offset: 0,
        n_buffers: kept.buffers.len() as i64,
        n_children: kept.children.len() as i64,
        buffers: kept.buffers.as_mut_ptr(),
        children: kept.children.as_mut_ptr(),
        dictionary: std::ptr::null_mut(),
        release: Some(release_array),
        private_data: Box::into_raw(kept).cast(),
    }
}

/// # Safety
/// As Arrow's interface says: the array is one of [`array`] and not released.
unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: as for schemas.
    unsafe {
        let kept = Box::from_raw((*array).private_data.cast::<GivenArray>());
        for child in &kept.children {
            if let Some(release) = (**child).release {
                release(*child);
            }
            drop(Box::from_raw(*child));
        }
        (*array).release = None;
    }
}

// --- Taken ----------------------------------------------------------------------------------------------------

/// A stream that was taken; released in the end.
struct TakenStream(ArrowArrayStream);
/// A schema that was taken; released in the end.
struct TakenSchema(ArrowSchema);
/// An array that was taken; released in the end.
struct TakenBatch(ArrowArray);

macro_rules! released {
    ($($kind:ident)*) => {$(
        impl Drop for $kind {
            fn drop(&mut self) {
                if let Some(release) = self.0.release {
                    // SAFETY: it is not released, and is not used again.
                    unsafe { release(&mut self.0) }
                }
            }
        }
    )*};
}

released!(TakenStream TakenSchema TakenBatch);

/// The columns of a stream.
pub fn take(capsule: &Bound<'_, PyCapsule>) -> PyResult<Vec<ColumnValues>> {
    let py = capsule.py();
    let pointer = capsule.pointer_checked(Some(CAPSULE))?.as_ptr().cast::<ArrowArrayStream>();
    // SAFETY: a capsule of that name holds a stream; it is moved out, and `release` set to none says so to its owner.
    let mut stream = unsafe {
        let taken = pointer.read();
        (*pointer).release = None;
        TakenStream(taken)
    };
    if stream.0.release.is_none() {
        return Err(errors::bad(py, "the Arrow stream was read already; ask for a new one"));
    }
    let mut schema = TakenSchema(empty());
    let get = stream.0.get_schema;
    // SAFETY: the stream is not released; the schema is writable and holds nothing.
    let code = get.map_or(EINVAL, |get| unsafe { get(&mut stream.0, &mut schema.0) });
    told(py, &mut stream, code)?;
    // SAFETY: the stream has just written it.
    let mut columns = unsafe { columns_of(py, &schema.0)? };
    loop {
        let mut batch = TakenBatch(empty());
        let get = stream.0.get_next;
        // SAFETY: as for the schema.
        let code = get.map_or(EINVAL, |get| unsafe { get(&mut stream.0, &mut batch.0) });
        told(py, &mut stream, code)?;
        if batch.0.release.is_none() {
            return Ok(columns.into_iter().map(|c| c.values).collect());
        }
        if batch.0.n_children != columns.len() as i64 || batch.0.null_count > 0 {
            return Err(errors::bad(
                py,
                "a batch of the Arrow stream is not as its schema says, or has rows that are null as a whole",
            ));
        }
        for (at, column) in columns.iter_mut().enumerate() {
            // SAFETY: the batch has as many children, each of the layout that its format tells.
            let taken = unsafe { column.take(&**batch.0.children.add(at), batch.0.offset, batch.0.length) };
            if !taken {
                let name = &column.values.name;
                return Err(errors::bad(
                    py,
                    format!("the column {name:?} has arrays with elements that are null; fill them"),
                ));
            }
        }
    }
}

/// A structure of Arrow's that holds nothing.
fn empty<T>() -> T {
    // SAFETY: all of Arrow's structures are of pointers, integers and functions that may be absent: zeros are one.
    unsafe { std::mem::zeroed() }
}

fn told(py: Python<'_>, stream: &mut TakenStream, code: c_int) -> PyResult<()> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: the stream is not released; the text it gives lives until the next call.
    let text = stream.0.get_last_error.map_or(std::ptr::null(), |get| unsafe { get(&mut stream.0) });
    let text = match text.is_null() {
        true => format!("error {code}"),
        // SAFETY: it is not null, and ends with a zero.
        false => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
    };
    Err(errors::bad(py, format!("the Arrow stream cannot be read: {text}")))
}

/// How texts lie.
#[derive(Clone, Copy, PartialEq)]
enum Ends {
    None,
    Short,
    Long,
    /// 16 bytes each: the length, and up to 12 letters, or 4 of them, the number of a buffer and where they lie in it.
    Views,
}

struct Taken {
    values: ColumnValues,
    ends: Ends,
}

/// # Safety
/// The schema is one that a stream gave.
unsafe fn columns_of(py: Python<'_>, schema: &ArrowSchema) -> PyResult<Vec<Taken>> {
    // SAFETY: formats and names of a schema are texts that end with a zero, or null.
    let text = |text: *const c_char| match text.is_null() {
        true => String::new(),
        // SAFETY: it is not null, and ends with a zero.
        false => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
    };
    if text(schema.format) != "+s" {
        return Err(errors::bad(py, "the Arrow stream is of no table; give one of record batches"));
    }
    let mut columns = Vec::new();
    for at in 0..schema.n_children.max(0) as usize {
        // SAFETY: a schema has as many children as it says.
        let mut child = unsafe { &**schema.children.add(at) };
        let (mut format, name) = (text(child.format), text(child.name));
        let mut extents = Vec::new();
        while let Some(n) = format.strip_prefix("+w:").and_then(|n| n.parse::<u64>().ok()) {
            extents.push(n);
            // SAFETY: a list of a fixed size has one child.
            child = unsafe { &**child.children };
            format = text(child.format);
        }
        let shape = Shape::new(&extents).map_err(|e| errors::raise(py, &e))?;
        let (dtype, ends) = match format.as_str() {
            "u" => (Some(DType::Str), Ends::Short),
            "z" => (Some(DType::Bytes), Ends::Short),
            "U" => (Some(DType::Str), Ends::Long),
            "Z" => (Some(DType::Bytes), Ends::Long),
            "vu" => (Some(DType::Str), Ends::Views),
            "vz" => (Some(DType::Bytes), Ends::Views),
            other => (FORMATS.iter().find(|f| f.1.to_bytes() == other.as_bytes()).map(|f| f.0), Ends::None),
        };
        let fits = |dtype: &DType| child.dictionary.is_null() && (extents.is_empty() || !dtype.is_text());
        let Some(dtype) = dtype.filter(fits) else {
            let text = format!(
                "the column {name:?} is of Arrow's type {format:?}, which a table has no column for; cast it to numbers, \
                 truth values, texts or bytes, or to lists of numbers of a fixed size"
            );
            return Err(errors::bad(py, text));
        };
        columns.push(Taken { values: ColumnValues::new(name, ArrayMeta::new(dtype, shape)), ends });
    }
    Ok(columns)
}

impl Taken {
    /// Whether all could be taken: an array has a value at every element.
    ///
    /// # Safety
    /// The array is of this column's format, and has rows `offset` to `offset + length` at least.
    unsafe fn take(&mut self, array: &ArrowArray, offset: i64, length: i64) -> bool {
        let mut whole = Vec::new();
        let first = (array.offset + offset) as usize;
        let buffer = |n: usize| -> *const u8 {
            // SAFETY: an array of such a format has two or three buffers.
            unsafe { (*array.buffers.add(n)).cast() }
        };
        let valid = buffer(0);
        let size = self.values.dtype.size();
        for row in first..first + length as usize {
            // SAFETY: a validity bitmap has a bit for every row; it is absent when all have a value.
            if !valid.is_null() && unsafe { *valid.add(row / 8) } >> (row % 8) & 1 == 0 {
                self.values.push_null();
                continue;
            }
            if self.values.is_array() {
                whole.clear();
                let (dtype, shape) = (self.values.dtype, self.values.shape);
                // SAFETY: the row is within the array, which has a child for each axis.
                if !unsafe { elements(array, row, dtype, shape.extents(), &mut whole) } {
                    return false;
                }
                self.values.push_element(&whole);
                continue;
            }
            // SAFETY: the row is within the array, whose buffers hold so many elements, bits, or ends and the bytes up to
            // them; elements may lie unaligned.
            unsafe {
                match self.ends {
                    Ends::None if self.values.dtype == DType::Bool => {
                        self.values.push_integer(u64::from(*buffer(1).add(row / 8) >> (row % 8) & 1));
                    }
                    Ends::None => {
                        let element = std::slice::from_raw_parts(buffer(1).add(row * size), size);
                        self.values.push_element(element);
                    }
                    Ends::Views => {
                        let view = buffer(1).add(row * 16);
                        let number = |at: usize| view.add(at).cast::<i32>().read_unaligned() as usize;
                        let length = number(0);
                        let from =
                            if length > 12 { buffer(2 + number(8)).add(number(12)) } else { view.add(4) };
                        self.values.push_text(std::slice::from_raw_parts(from, length));
                    }
                    ends => {
                        let end = |row: usize| match ends {
                            Ends::Short => buffer(1).cast::<i32>().add(row).read_unaligned() as usize,
                            _ => buffer(1).cast::<i64>().add(row).read_unaligned() as usize,
                        };
                        let (from, to) = (end(row), end(row + 1));
                        let text = match to > from {
                            true => std::slice::from_raw_parts(buffer(2).add(from), to - from),
                            false => &[],
                        };
                        self.values.push_text(text);
                    }
                }
            }
        }
        true
    }
}

/// Appends the elements of an entry of a list of a fixed size, or of lists of such; false where one is null that cannot be
/// NaN.
///
/// # Safety
/// The array is of lists of these extents within each other, the innermost ones of numbers or truth values of that dtype,
/// and has that entry, counted with its offset.
unsafe fn elements(
    array: &ArrowArray,
    entry: usize,
    dtype: DType,
    extents: &[u64],
    out: &mut Vec<u8>,
) -> bool {
    let [n, inner @ ..] = extents else {
        // SAFETY: what is in no list has a buffer of elements, or of bits.
        unsafe {
            let data = (*array.buffers.add(1)).cast::<u8>();
            match dtype {
                DType::Bool => out.push(*data.add(entry / 8) >> (entry % 8) & 1),
                _ => {
                    let size = dtype.size();
                    out.extend_from_slice(std::slice::from_raw_parts(data.add(entry * size), size));
                }
            }
        }
        return true;
    };
    // SAFETY: a list has one child, whose first buffer is a bitmap or null.
    let (child, valid) = unsafe {
        let child = &**array.children;
        (child, (*child.buffers).cast::<u8>())
    };
    (0..*n as usize).all(|at| {
        let at = child.offset as usize + entry * *n as usize + at;
        // SAFETY: a bitmap has a bit for every entry.
        if !valid.is_null() && unsafe { *valid.add(at / 8) } >> (at % 8) & 1 == 0 {
            let nan = dtype.nan();
            nan.iter().for_each(|nan| out.extend(nan.repeat(inner.iter().product::<u64>() as usize)));
            return nan.is_some();
        }
        // SAFETY: as for this list.
        unsafe { elements(child, at, dtype, inner, out) }
    })
}
