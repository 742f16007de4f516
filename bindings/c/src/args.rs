//! Arguments of calls and of SQL: `fb_arg`, from C's terms into the facade's and back.
//!
//! ```text
//! array            -> the caller's own bytes, filled in place; the facade gathers strided ones
//! reference        -> what a server holds; no data move
//! scalar, text     -> sent; results are written where `data` points when the call is complete
//! file             -> its path; what is there travels
//! ```

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::Arc;

use forebay::call::{Arg, Value};
use forebay::{ArrayMeta, Code, DType, Error, Param, Reference, Result, Scalar, Signature, Strided, limits};

use crate::arrays::Around;
use crate::kinds::{fb_dtype, fb_order, fb_ref};
use crate::{given, handle};

/// Kinds of arguments.
const SCALAR: c_int = 0;
const ARRAY: c_int = 1;
const STR: c_int = 2;
const BYTES: c_int = 3;
const REFERENCE: c_int = 4;
const FILE: c_int = 5;

/// Directions, as bits.
const IN: c_int = 1;
const OUT: c_int = 2;
const INOUT: c_int = 3;

/// A number, as its dtype says: its bytes. In C it is a union with a member for each dtype, which the header's test makes.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub struct fb_scalar([u8; 16]);

/// An argument of a call: one for each parameter of the signature, in its order, results included. Make
/// it with the macros FB_IN_F64 and their like.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_arg {
    /// FB_SCALAR, FB_ARRAY, FB_TEXT, FB_RAW, FB_REFERENCE or FB_FILE.
    pub kind: c_int,
    /// FB_IN, FB_OUT or FB_INOUT.
    pub direction: c_int,
    /// Type of the scalar or of the elements.
    pub dtype: fb_dtype,
    /// FB_ROW_MAJOR or FB_COLUMN_MAJOR, of an array without strides.
    pub order: fb_order,
    /// Number of dimensions of an array.
    pub ndim: c_int,
    /// First element of an array; text; path of a file; the variable of a scalar that comes back.
    pub data: *mut c_void,
    /// Of FB_REFERENCE: an array that a server holds, in the place of an array.
    pub reference: *mut fb_ref,
    /// Gets the number of bytes of a text or of bytes that come back; may be NULL.
    pub length: *mut i64,
    /// Value of a scalar that only goes.
    pub value: fb_scalar,
    /// Extents of an array; number of bytes of FB_RAW, and room for bytes or text that come back.
    pub shape: [i64; limits::RANK],
    /// Bytes from an element to its neighbour along each axis; all zero: dense in `order`.
    pub strides: [i64; limits::RANK],
}

/// The arguments of a call on their way: what the facade gets, and where results go when it is done.
#[derive(Default)]
pub struct Prepared {
    /// For the facade. They borrow the caller's memory, which is his to keep until the call is done.
    pub args: Vec<Arg<'static>>,
    /// For when it is done.
    pub back: ResultPlaces,
}

/// Where results go.
#[derive(Default)]
pub struct ResultPlaces {
    values: Vec<Option<ResultVariable>>,
    /// Arrays that went as copies of their own.
    copies: Vec<Copied>,
    /// What the call refers to, kept until it is done.
    references: Vec<Arc<Reference>>,
}

/// The variable of a result that is no array.
struct ResultVariable {
    data: *mut c_void,
    length: *mut i64,
    dtype: DType,
    capacity: i64,
    name: String,
}

/// A dense copy of an array, which the call has in its place.
struct Copied {
    /// Made of a box, and a box again when this goes: the call's reference to it must not be one that is moved.
    bytes: *mut [u8],
    meta: ArrayMeta,
    strided: Strided,
    around: Around,
    data: *mut c_void,
    comes: bool,
}

impl Copied {
    fn of(arg: &fb_arg, param: &Param) -> Result<Copied> {
        let (meta, around) = (arg.meta("the array")?, arg.around()?);
        let (meta, strided) = around.strided.as_array(meta.dtype, around.strided.order());
        let mut bytes = forebay::zeros(strided.bytes())?.into_boxed_slice();
        if param.way.goes() {
            strided.gather(around.read(arg.data)?, &mut bytes);
        }
        let bytes = Box::into_raw(bytes);
        Ok(Copied { bytes, meta, strided, around, data: arg.data, comes: param.way.comes() })
    }

    /// What the call gets of it.
    fn arg(&self) -> Arg<'static> {
        // SAFETY: they live as long as this, which is longer than the call, and each is lent once.
        let bytes = unsafe { &mut *self.bytes };
        if self.comes { Arg::Mut(self.meta, bytes) } else { Arg::In(self.meta, bytes) }
    }

    /// Brings the results where they belong.
    fn bring_back(&self) -> Result<()> {
        if self.comes {
            // SAFETY: the call is done, and its reference gone.
            let bytes = unsafe { &*self.bytes };
            self.strided.scatter(bytes, self.around.write(self.data)?);
        }
        Ok(())
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        // SAFETY: made of a box, and nothing refers to it any more.
        drop(unsafe { Box::from_raw(self.bytes) });
    }
}

// SAFETY: the pointers are of the caller's memory, which is the call's until it is done, whichever
// thread waits for it, and of copies that it owns.
unsafe impl Send for ResultPlaces {}

/// What `?` stands for in SQL.
pub fn sql_args(args: *const fb_arg, count: c_int) -> Result<Vec<serde_json::Value>> {
    given::slice(args, count.into(), "args")?
        .iter()
        .map(|arg| match (arg.kind, arg.direction & IN) {
            (STR, IN) => Ok(given::text(arg.data.cast(), "a text in args")?.into()),
            (SCALAR, IN) => {
                let scalar = arg.scalar("an argument of the query")?;
                let whole = scalar.as_i64().map(serde_json::Value::from);
                let real = || scalar.as_f64().filter(|v| v.is_finite()).map(serde_json::Value::from);
                let unsigned = || scalar.as_u64().map(serde_json::Value::from);
                whole
                    .or_else(unsigned)
                    .or_else(real)
                    .ok_or_else(|| Error::bad(format!("{scalar} cannot stand for a `?`")))
            }
            _ => Err(Error::bad(
                "a `?` stands for a number or text; make it with FB_IN_F64, FB_IN_I64 or FB_IN_STR",
            )),
        })
        .collect()
}

impl fb_arg {
    /// The scalar that goes.
    fn scalar(&self, what: &str) -> Result<Scalar> {
        let dtype = given::dtype(self.dtype)?;
        let from: *const u8 = match self.direction {
            IN => (&raw const self.value).cast(),
            _ => self.data.cast_const().cast(),
        };
        let bytes = given::slice(from, dtype.size() as i64, what)?;
        Scalar::from_bytes(dtype, bytes)
    }

    /// What the array is, without its strides.
    fn meta(&self, what: &str) -> Result<ArrayMeta> {
        given::meta(self.dtype, self.order, self.ndim, self.shape.as_ptr(), what)
    }

    /// Whether the elements of the array lie together, in its order.
    fn is_dense(&self) -> bool {
        let rank = usize::try_from(self.ndim).unwrap_or(0).min(limits::RANK);
        self.strides[..rank].iter().all(|s| *s == 0)
    }

    /// Where the elements of the array lie.
    fn around(&self) -> Result<Around> {
        let meta = self.meta("the array")?;
        match self.is_dense() {
            true => Around::of(&meta, &Strided::dense(&meta)?.strides()),
            false => Around::of(&meta, &self.strides[..meta.shape.rank()]),
        }
    }
}

/// The arrays among the arguments that servers hold. What is no reference is told when the arguments are made.
pub fn held(args: &[fb_arg]) -> Vec<Arc<Reference>> {
    let references = args.iter().filter(|arg| arg.kind == REFERENCE);
    references.filter_map(|arg| Some(handle::get(arg.reference.cast_const()).ok()?.clone())).collect()
}

/// Arguments for a signature.
pub fn prepare(args: &[fb_arg], signature: &Signature) -> Result<Prepared> {
    let params = signature.params();
    if params.len() != args.len() {
        return Err(Error::bad(format!(
            "{} has {} parameters and got {} arguments (results count too); its signature is {signature}",
            signature.name(),
            params.len(),
            args.len()
        )));
    }
    let mut prepared = Prepared { args: Vec::with_capacity(args.len()), back: ResultPlaces::default() };
    let mixed = mixed(args, params)?;
    for at in &mixed {
        prepared.back.copies.push(Copied::of(&args[*at], &params[*at])?);
    }
    for (at, (arg, param)) in args.iter().zip(params).enumerate() {
        let copy = mixed.iter().position(|mixed| *mixed == at);
        prepared
            .take(arg, param, copy)
            .map_err(|e| e.within(format_args!("{}, parameter {}", signature.name(), param.name)))?;
    }
    Ok(prepared)
}

/// Where the results of a call go whose arguments have gone before. `args` are those that come, and `params` their
/// parameters, as if nothing went.
pub fn places(args: &[fb_arg], params: &[Param], signature: &Signature) -> Result<Prepared> {
    let mut prepared = Prepared::default();
    let mixed = mixed(args, params)?;
    for at in &mixed {
        prepared.back.copies.push(Copied::of(&args[*at], &params[*at])?);
    }
    let mut coming = args.iter().zip(params).enumerate();
    for param in signature.params() {
        let passed = prepared.args.len();
        if param.way.comes() {
            let missing = || Error::internal("the place of a result is missing");
            let (at, (arg, param)) = coming.next().ok_or_else(missing)?;
            if arg.kind == REFERENCE {
                // Its results stay where they are, and it may be gone by now.
                prepared.args.push(Arg::Bytes(&[]));
                continue;
            }
            match param.is_file {
                // Its path was read when the task was added, and may be gone.
                true => prepared.back.values.push(None),
                false => prepared.take(arg, param, mixed.iter().position(|mixed| *mixed == at))?,
            }
        }
        if param.is_passed() && prepared.args.len() == passed {
            prepared.args.push(Arg::Bytes(&[]));
        }
    }
    Ok(prepared)
}

/// Which arrays go as copies of their own: those whose elements lie between the elements of another one, and one of both
/// is written. The service may write one argument while it reads another: what shares memory is refused.
fn mixed(args: &[fb_arg], params: &[Param]) -> Result<Vec<usize>> {
    // Every call comes here: nothing is allocated, and no strides are made of dense arrays, where nothing is mixed.
    let mut mixed = Vec::new();
    // What is no array, or not a good one, is told where it is taken.
    let spread = |at: usize| Spread::of(&args[at], &params[at]);
    for at in 1..args.len() {
        let Some(mine) = spread(at) else { continue };
        for other_at in 0..at {
            let Some(theirs) = spread(other_at) else { continue };
            if !(mine.is_written || theirs.is_written) || !meets(&mine.bytes, &theirs.bytes) {
                continue;
            }
            let (one, other) = (args[at].around()?.strided, args[other_at].around()?.strided);
            if one.may_meet(mine.bytes.start, &other, theirs.bytes.start) {
                return Err(Error::bad(format!(
                    "the arguments {other_at} and {at} share memory and one is written; pass separate arrays"
                )));
            }
            if mixed.last() != Some(&at) {
                mixed.push(at);
            }
        }
    }
    Ok(mixed)
}

/// Between which addresses the elements of an array lie.
struct Spread {
    bytes: Range<usize>,
    is_written: bool,
}

impl Spread {
    fn of(arg: &fb_arg, param: &Param) -> Option<Spread> {
        if arg.kind != ARRAY || param.extents.is_none() || arg.data.is_null() {
            return None;
        }
        let (first, len) = match arg.is_dense() {
            true => (arg.data.addr(), usize::try_from(arg.meta("the array").ok()?.bytes().ok()?).ok()?),
            false => {
                let around = arg.around().ok()?;
                (around.lowest(arg.data).ok()?.addr(), around.len())
            }
        };
        let bytes = first..first.checked_add(len)?;
        Some(Spread { bytes, is_written: param.way.comes() })
    }
}

impl Prepared {
    fn take(&mut self, arg: &fb_arg, param: &Param, copy: Option<usize>) -> Result<()> {
        let wanted = if param.way.goes() { IN } else { 0 } | if param.way.comes() { OUT } else { 0 };
        if !(IN..=INOUT).contains(&arg.direction) || arg.direction & wanted != wanted {
            let way = param.way.word();
            return Err(Error::bad(format!(
                "its direction is {way} and the argument's is {}; use FB_{}_... for it, fb::{way}(...) in C++, fb_{way}(...) in \
                 Fortran, and in a directive of Fortran out(...)",
                direction(arg.direction),
                way.to_uppercase()
            )));
        }
        match (arg.kind, param.extents.is_some()) {
            (ARRAY, true) => match copy {
                Some(copy) => {
                    self.args.push(self.back.copies[copy].arg());
                    Ok(())
                }
                None => self.take_array(arg, param),
            },
            (REFERENCE, true) => self.take_reference(arg),
            (FILE, false) if param.is_file => self.take_file(arg, param),
            (_, false) if param.is_file => {
                Err(Error::bad("it is a file; give its path with FB_IN_FILE or FB_OUT_FILE"))
            }
            (FILE, _) => {
                Err(Error::bad(format!("the path of a file was given where {} is wanted", param.kind())))
            }
            (SCALAR | STR | BYTES, false) => self.take_value(arg, param),
            (ARRAY | REFERENCE, false) => {
                Err(Error::bad(format!("an array was given where {} is wanted", param.dtype)))
            }
            (SCALAR | STR | BYTES, true) => {
                Err(Error::bad("it is an array; give one with FB_IN_ARRAY, FB_INOUT_ARRAY or FB_OUT_ARRAY"))
            }
            (other, _) => Err(Error::bad(format!(
                "{other} is no kind of argument; make it with FB_IN_F64 and its like"
            ))),
        }
    }

    fn take_value(&mut self, arg: &fb_arg, param: &Param) -> Result<()> {
        let is_text = param.dtype.is_text();
        if is_text != (arg.kind != SCALAR) {
            return Err(Error::bad(format!("it is {}, and the argument is {}", param.dtype, kind(arg.kind))));
        }
        if param.way.goes() {
            self.args.push(match arg.kind {
                SCALAR => Arg::Scalar(arg.scalar("data")?),
                STR => Arg::Str(given::text(arg.data.cast_const().cast(), "data")?),
                _ => Arg::Bytes(given::slice(arg.data.cast_const().cast(), arg.shape[0], "data")?),
            });
        }
        if param.way.comes() {
            let dtype = if is_text { param.dtype } else { given::dtype(arg.dtype)? };
            let capacity = if is_text { arg.shape[0] } else { dtype.size() as i64 };
            given::slice_mut(arg.data.cast::<u8>(), capacity, "data")?;
            given::optional_out(arg.length, "length")?;
            let (data, length) = (arg.data, arg.length);
            let name = param.name.clone();
            self.back.values.push(Some(ResultVariable { data, length, dtype, capacity, name }));
        }
        Ok(())
    }

    fn take_file(&mut self, arg: &fb_arg, param: &Param) -> Result<()> {
        self.args.push(Arg::Str(given::text(arg.data.cast_const().cast(), "the path")?));
        if param.way.comes() {
            // What comes back is there, and not in a variable.
            self.back.values.push(None);
        }
        Ok(())
    }

    fn take_array(&mut self, arg: &fb_arg, param: &Param) -> Result<()> {
        let meta = arg.meta("the array")?;
        let comes = param.way.comes();
        if arg.is_dense() {
            self.args.push(match comes {
                true => Arg::Mut(meta, given::bytes_mut(&meta, arg.data, "data")?),
                false => Arg::In(meta, given::bytes(&meta, arg.data, "data")?),
            });
            return Ok(());
        }
        let around = arg.around()?;
        let (meta, strided) = around.strided.as_array(meta.dtype, around.strided.order());
        self.args.push(match comes {
            true => Arg::StridedMut(meta, strided, around.write(arg.data)?),
            false => Arg::Strided(meta, strided, around.read(arg.data)?),
        });
        Ok(())
    }

    fn take_reference(&mut self, arg: &fb_arg) -> Result<()> {
        let reference = handle::get(arg.reference.cast_const())?.clone();
        let borrowed: *const Reference = &*reference;
        // SAFETY: the reference lives as long as `ResultPlaces` keeps it, which is longer than the call.
        let borrowed: &'static Reference = unsafe { &*borrowed };
        self.args.push(Arg::from(borrowed));
        self.back.references.push(reference);
        Ok(())
    }
}

fn meets(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

impl ResultPlaces {
    /// Writes the results: all of them, or, if one has no room, none of those that are no arrays.
    pub fn fill(&self, values: Vec<Value>) -> Result<()> {
        if values.is_empty() && self.values.is_empty() {
            return self.copies.iter().try_for_each(Copied::bring_back);
        }
        if values.len() != self.values.len() {
            return Err(Error::internal(format!("{} results came for {}", values.len(), self.values.len())));
        }
        self.copies.iter().try_for_each(Copied::bring_back)?;
        let places =
            self.values.iter().zip(values).filter_map(|(place, value)| Some((place.as_ref()?, value)));
        let ready: Vec<(&ResultVariable, Vec<u8>)> =
            places.map(|(place, value)| Ok((place, place.fit(value)?))).collect::<Result<_>>()?;
        for (place, bytes) in ready {
            given::slice_mut(place.data.cast::<u8>(), bytes.len() as i64, "data")?.copy_from_slice(&bytes);
            let zero = i64::from(place.dtype == DType::Str);
            given::optional_out(place.length, "length")?.set(bytes.len() as i64 - zero);
        }
        Ok(())
    }
}

impl ResultVariable {
    /// A result as the bytes of its variable.
    fn fit(&self, value: Value) -> Result<Vec<u8>> {
        let bytes = match value {
            Value::Scalar(scalar) => {
                return match scalar.convert(self.dtype) {
                    Ok(scalar) => Ok(scalar.bytes().to_vec()),
                    Err(e) => Err(e.within(format_args!("result {}", self.name))),
                };
            }
            Value::Str(text) => {
                let mut letters = text.into_bytes();
                letters.push(0);
                letters
            }
            Value::Bytes(bytes) => bytes,
        };
        match bytes.len() as i64 <= self.capacity {
            true => Ok(bytes),
            false => Err(Error::new(
                Code::Full,
                format!(
                    "the result {} has {} bytes and its variable {}; give it more room",
                    self.name,
                    bytes.len(),
                    self.capacity
                ),
            )),
        }
    }
}

fn direction(code: c_int) -> &'static str {
    match code {
        IN => "in",
        OUT => "out",
        INOUT => "inout",
        _ => "none of in, out and inout",
    }
}

fn kind(code: c_int) -> &'static str {
    match code {
        SCALAR => "a scalar",
        STR => "text",
        BYTES => "bytes",
        _ => "an array",
    }
}
