//! One call: from the parameters of a service to the arguments of a symbol, and back.

use forebay_idl::{Arg, Array, Convention, Expr, Kind, Literal, Routine, Source, Type};
use forebay_server::Call;
use forebay_types::{ArrayMeta, Code, DType, Error, Order, Result, Scalar, Shape, limits};

use crate::board::Runs;
use crate::ffi::{self, Frame, Note, Room};
use crate::layout::{self, LaidOut};
use crate::prepared::{Form, Prepared, passed_dtype};

/// Most arguments of a routine.
pub(crate) const MOST: usize = limits::PARAMETERS;
/// Most of a usual one, whose tables cost less to clear.
const FEW: usize = 16;

/// The scalars of a call, by argument.
#[derive(Clone)]
pub(crate) struct Scalars<const N: usize> {
    /// For expressions.
    values: [i64; N],
    /// As they are passed; the lowest byte first.
    bits: [u128; N],
}

/// Where arrays, texts and work lie, by argument, and how long they are as hidden lengths tell. In a trial scalars that are
/// passed by address lie there, too.
pub(crate) struct Places<const N: usize> {
    pub at: [*mut u8; N],
    pub len: [usize; N],
}

impl<const N: usize> Places<N> {
    pub fn new() -> Places<N> {
        Places { at: [std::ptr::null_mut(); N], len: [1; N] }
    }
}

impl<const N: usize> Scalars<N> {
    pub fn new() -> Scalars<N> {
        Scalars { values: [0; N], bits: [0; N] }
    }

    pub fn value(&self, at: usize) -> i64 {
        self.values[at]
    }

    /// As it is passed; the lowest byte first.
    pub fn bytes(&self, at: usize) -> [u8; 16] {
        self.bits[at].to_le_bytes()
    }

    pub fn eval(&self, e: &Expr) -> std::result::Result<i64, forebay_idl::Fault> {
        e.eval(&|at| self.values.get(at).copied().unwrap_or(0))
    }

    /// A scalar as it came.
    pub fn set(&mut self, at: usize, scalar: Scalar) {
        let mut bytes = [0; 16];
        bytes[..scalar.bytes().len()].copy_from_slice(scalar.bytes());
        self.bits[at] = u128::from_le_bytes(bytes);
        self.values[at] = match scalar.dtype() {
            DType::I32 => i64::from(self.bits[at] as i32),
            DType::U8 | DType::Bool => i64::from(self.bits[at] as u8),
            DType::F64 => (f64::from_bits(self.bits[at] as u64) != 0.0).into(),
            _ => scalar.as_i64().unwrap_or(0),
        };
    }

    /// An integer that the server gives; fails when the argument cannot hold it.
    pub fn put(&mut self, routine: &Routine, at: usize, value: i64) -> Result<()> {
        let of = routine.args[at].kind.scalar_type().map_or(DType::I32, Type::dtype);
        if !of.range().is_some_and(|r| r.contains(&i128::from(value))) {
            return Err(Error::bad(format!(
                "{}: {} would be {value}, which is beyond what {of} holds; give less, or use a library with integers of 64 bits",
                routine.name, routine.args[at].name
            )));
        }
        self.values[at] = value;
        self.bits[at] = value as u128;
        Ok(())
    }

    /// Gives constants and computed arguments what they are.
    pub fn complete(&mut self, routine: &Routine) -> Result<()> {
        for (at, arg) in routine.args.iter().enumerate() {
            match &arg.kind {
                Kind::Const(of, Literal::Integer(n)) if !is_real(*of) => {
                    (self.values[at], self.bits[at]) = (*n, *n as u128);
                }
                Kind::Const(of, literal) => self.bits[at] = real_bits(*of, *literal),
                Kind::Computed(_, e) => {
                    let value = self.eval(e).map_err(|why| faulty(routine, arg, e, why))?;
                    self.put(routine, at, value)?;
                }
                _ => (),
            }
        }
        for condition in &routine.wheres {
            let holds = self.eval(&condition.holds);
            if holds.is_ok_and(|holds| holds != 0) {
                continue;
            }
            let text =
                format!("{}: it does not hold that {}; change the arguments", routine.name, condition.text);
            return Err(Error::bad(text));
        }
        Ok(())
    }
}

fn is_real(of: Type) -> bool {
    matches!(of, Type::Number(d) if !d.is_integer())
}

fn real_bits(of: Type, literal: Literal) -> u128 {
    let value = match literal {
        Literal::Integer(n) => n as f64,
        Literal::Real(x) => x,
    };
    match of.dtype() {
        DType::F32 | DType::C64 => (value as f32).to_bits().into(),
        _ => value.to_bits().into(),
    }
}

fn faulty(routine: &Routine, arg: &Arg, e: &Expr, why: forebay_idl::Fault) -> Error {
    Error::bad(format!("{}: {} of {} {why}; give other arguments", routine.name, routine.text(e), arg.name))
}

/// The extents of an array, by the scalars of the call. What is negative counts as 0.
pub(crate) fn extents<const N: usize>(
    routine: &Routine,
    scalars: &Scalars<N>,
    at: usize,
    array: &Array,
) -> Result<Shape> {
    let arg = &routine.args[at];
    let mut all = [0; limits::RANK];
    for (to, e) in all.iter_mut().zip(&array.extents) {
        let n = scalars.eval(e).map_err(|why| faulty(routine, arg, e, why))?;
        *to = n.max(0) as u64;
    }
    // Of an array with increment 0 there is one element.
    if array.inc.is_some_and(|inc| scalars.value(inc) == 0) {
        all[0] = all[0].min(1);
    }
    let too_large = |_| {
        Error::bad(format!(
            "{}: {} would have more than 2^40 bytes; give other arguments",
            routine.name,
            routine.kind_of(arg)
        ))
    };
    let shape = Shape::new(&all[..array.extents.len()]).map_err(too_large)?;
    match shape.bytes(array.dtype) {
        Ok(bytes) if bytes <= layout::BYTES => Ok(shape),
        _ => Err(too_large(Error::bad(""))),
    }
}

/// Calls the symbol, or the functions of a chain. Scalars that come back are among `scalars` then.
pub(crate) fn invoke<const N: usize>(
    prepared: &Prepared,
    scalars: &mut Scalars<N>,
    places: &Places<N>,
) -> Result<[u8; 32]> {
    if let Some(chain) = &prepared.chain {
        let how = (prepared.number, prepared.lock.as_deref());
        return chain.invoke(&prepared.routine, how, scalars, places).map(|()| [0; 32]);
    }
    let args = &prepared.routine.args;
    let mut frame = Frame::new();
    let mut result = [0u128; 2];
    if prepared.result_first {
        frame.address(result.as_mut_ptr().cast());
    }
    let mut comes = [(0u8, 0u8); N];
    let mut coming = 0;
    for (at, arg) in args.iter().enumerate() {
        match &arg.kind {
            _ if !places.at[at].is_null() => frame.address(places.at[at]),
            Kind::Scalar(s) if s.way.comes() => {
                comes[coming] = (at as u8, frame.scalar(scalars.bits[at]) as u8);
                coming += 1;
            }
            Kind::Array(_) | Kind::Str | Kind::File(_) | Kind::Work { .. } => frame.address(places.at[at]),
            Kind::Null => frame.address(std::ptr::null()),
            Kind::Length(of) if arg.by_value => frame.value(places.len[*of] as u128),
            Kind::Length(of) => drop(frame.scalar(places.len[*of] as u128)),
            _ if arg.by_value => frame.value(scalars.bits[at]),
            _ => drop(frame.scalar(scalars.bits[at])),
        }
        if prepared.length_is_next[at] {
            frame.value(places.len[at] as u128);
        }
    }
    for at in &prepared.lengths_at_end {
        frame.value(places.len[*at] as u128);
    }
    prepared.more.iter().for_each(|bits| frame.value((*bits).into()));
    let lock = prepared.lock.as_ref().map(|lock| forebay_host::lock(lock));
    let runs = Runs::begin(prepared.number);
    let mut returned = prepared.interface.call(&mut frame);
    drop(runs);
    drop(lock);
    for (at, index) in &comes[..coming] {
        scalars.bits[*at as usize] = frame.read(*index as usize);
    }
    if prepared.result_first {
        returned[..16].copy_from_slice(&result[0].to_le_bytes());
    }
    Ok(returned)
}

/// A value that the library gave, as callers get it.
fn given(of: Type, convention: Convention, bytes: &[u8]) -> Result<Scalar> {
    let passed = passed_dtype(of, convention);
    let scalar = Scalar::from_bytes(passed, bytes.get(..passed.size()).unwrap_or_default())?;
    match of {
        Type::Bool => Ok(Scalar::from(scalar.bytes().iter().any(|b| *b != 0))),
        _ => Ok(scalar),
    }
}

/// What lives as long as the call: memory of the server's that arguments point to.
#[derive(Default)]
struct Keep {
    laid: Vec<(usize, LaidOut)>,
    work: Vec<(usize, Room)>,
    texts: Vec<Vec<u8>>,
}

/// Runs one of the services of a routine.
pub(crate) fn run(prepared: &Prepared, form: &Form, call: &mut Call) -> Result<()> {
    match prepared.routine.args.len() <= FEW {
        true => run_with::<FEW>(prepared, form, call),
        false => run_with::<MOST>(prepared, form, call),
    }
}

/// With tables of so many arguments.
fn run_with<const N: usize>(prepared: &Prepared, form: &Form, call: &mut Call) -> Result<()> {
    let routine = &prepared.routine;
    let (mut scalars, mut places, mut keep) = (Scalars::<N>::new(), Places::<N>::new(), Keep::default());
    take_scalars(prepared, form, call, &mut scalars, (&mut places, &mut keep))?;
    scalars.complete(routine)?;
    take_arrays(prepared, form, call, &mut scalars, (&mut places, &mut keep))?;
    if prepared.asks && !form.native {
        ask(prepared, &mut scalars, &mut places, &mut keep)?;
    }
    provide_work(routine, &scalars, &mut places, &mut keep)?;
    let returned = invoke(prepared, &mut scalars, &places)?;
    let note = ffi::take_note();
    if let Some(note) = note
        && !(form.native && routine.xerbla)
    {
        return Err(told(routine, &note));
    }
    give_back(prepared, form, call, &scalars, keep, (&returned, note))
}

fn told(routine: &Routine, note: &Note) -> Error {
    let at = usize::try_from(note.info).ok().and_then(|n| n.checked_sub(1));
    let name = at.and_then(|at| routine.args.get(at)).map_or(String::new(), |arg| format!(", {},", arg.name));
    Error::bad(format!(
        "{}: {} says that its argument {}{name} is wrong; change it",
        routine.name,
        String::from_utf8_lossy(note.name()),
        note.info
    ))
}

fn take_scalars<const N: usize>(
    prepared: &Prepared,
    form: &Form,
    call: &mut Call,
    scalars: &mut Scalars<N>,
    (places, keep): (&mut Places<N>, &mut Keep),
) -> Result<()> {
    let routine = &prepared.routine;
    for (at, arg) in routine.args.iter().enumerate() {
        let Some(param) = form.param_of[at] else {
            if let Kind::Increment(..) = arg.kind {
                scalars.put(routine, at, 1)?;
            }
            continue;
        };
        match &arg.kind {
            Kind::Scalar(s) => {
                let got = call.arg(param)?;
                match s.of {
                    Type::Char if !form.native => {
                        scalars.set(at, Scalar::from(one_byte(routine, arg, got.bytes()?)?))
                    }
                    _ => scalars.set(at, got.scalar()?),
                }
                if !form.native
                    && let Some(known) = &s.one_of
                    && !known.contains(&scalars.value(at))
                {
                    return Err(not_one_of(routine, arg, s.of, known, scalars.value(at)));
                }
            }
            Kind::Leading(..) | Kind::Increment(..) | Kind::Query(..) => {
                scalars.set(at, call.arg(param)?.scalar()?)
            }
            Kind::Str | Kind::File(_) => {
                let mut text = call.arg(param)?.bytes()?.to_vec();
                places.len[at] = text.len();
                text.push(0);
                places.at[at] = text.as_mut_ptr();
                keep.texts.push(text);
            }
            _ => (),
        }
    }
    Ok(())
}

fn one_byte(routine: &Routine, arg: &Arg, text: &[u8]) -> Result<u8> {
    match text {
        [byte] => Ok(*byte),
        _ => Err(no_character(routine, arg, text)),
    }
}

#[cold]
fn no_character(routine: &Routine, arg: &Arg, text: &[u8]) -> Error {
    let said = match String::from_utf8_lossy(text) {
        text if text.is_empty() => "an empty text".into(),
        text => format!("{:?}, a text of {} bytes", text.chars().take(40).collect::<String>(), text.len()),
    };
    Error::bad(format!("{}: {} is {said}; give one character (of ASCII)", routine.name, arg.name))
}

#[cold]
fn not_one_of(routine: &Routine, arg: &Arg, of: Type, known: &[i64], value: i64) -> Error {
    let word = |v: &i64| match of {
        Type::Char => format!("{:?}", char::from(*v as u8)),
        _ => v.to_string(),
    };
    let known: Vec<String> = known.iter().map(word).collect();
    Error::bad(format!(
        "{}: {} is {}; give one of {}",
        routine.name,
        arg.name,
        word(&value),
        known.join(", ")
    ))
}

/// Rows of a box, which are what its leading dimension steps over.
fn rows(array: &Array, shape: &Shape) -> u64 {
    let axis = if array.order == Order::F { 0 } else { 1 };
    shape.extents().get(axis).copied().unwrap_or(1).max(1)
}

fn take_arrays<const N: usize>(
    prepared: &Prepared,
    form: &Form,
    call: &mut Call,
    scalars: &mut Scalars<N>,
    (places, keep): (&mut Places<N>, &mut Keep),
) -> Result<()> {
    let routine = &prepared.routine;
    if !prepared.has_arrays {
        return Ok(());
    }
    let asks_only = form.native && is_query(routine, scalars);
    let mut box_rows = [0u64; N];
    // The own leading dimension of each argument that is one; 0: none, -1: the caller's, which is wrong.
    let mut leading = [0i64; N];
    for (at, arg) in routine.args.iter().enumerate() {
        let Kind::Array(array) = &arg.kind else { continue };
        let shape = extents(routine, scalars, at, array)?;
        let rows = rows(array, &shape);
        box_rows[at] = rows;
        places.len[at] = shape.len() as usize;
        let param = form.param_of[at].ok_or_else(|| Error::internal("an array without a parameter"))?;
        let (meta, view) = call.arg(param)?.array()?;
        let wrong_ld = form.native && array.ld.is_some_and(|ld| scalars.value(ld) < rows as i64);
        if wrong_ld && !routine.xerbla {
            let ld =
                array.ld.map(|ld| (routine.args[ld].name.as_str(), scalars.value(ld))).unwrap_or_default();
            return Err(Error::bad(format!(
                "{}: the leading dimension {} is {}, less than the {} rows of {}; give a larger one",
                routine.name, ld.0, ld.1, rows, arg.name
            )));
        }
        let absent = asks_only && meta.shape.is_empty();
        if meta.shape.extents() != shape.extents() && !(wrong_ld && meta.shape.is_empty()) && !absent {
            return Err(other_shape(routine, arg, &shape, &meta));
        }
        places.at[at] = view.as_ptr();
        if absent {
            let room = layout::room(&arg.name, array.dtype, shape.len().max(1), 64)
                .map_err(|e| e.within(&routine.name))?;
            places.at[at] = room.as_ptr();
            keep.work.push((at, room));
            continue;
        }
        if let Some(ld) = array.ld {
            match wrong_ld {
                true => leading[ld] = -1,
                false if leading[ld] >= 0 => leading[ld] = leading[ld].max(rows as i64),
                false => (),
            }
        }
    }
    for (ld, own) in leading.iter().enumerate().filter(|(_, own)| **own > 0) {
        scalars.put(routine, ld, *own)?;
    }
    for (at, arg) in routine.args.iter().enumerate() {
        let Kind::Array(array) = &arg.kind else { continue };
        if keep.work.iter().any(|(absent, _)| *absent == at) {
            continue;
        }
        let Some((shape, steps)) =
            apart(array, scalars, (places.len[at], box_rows[at]), &leading, places.at[at])
        else {
            continue;
        };
        let param = form.param_of[at].unwrap_or_default();
        let (_, view) = call.arg(param)?.array()?;
        let from = (form.native || array.way.goes()).then_some(view);
        let laid = LaidOut::new(&arg.name, array.dtype, &shape, &steps, array.align.unwrap_or(16), from)
            .map_err(|e| e.within(&routine.name))?;
        places.at[at] = laid.as_ptr();
        keep.laid.push((at, laid));
    }
    Ok(())
}

/// Extents and steps in elements, the outer axis first, of an array that is to lie otherwise than it came.
fn apart<const N: usize>(
    array: &Array,
    scalars: &Scalars<N>,
    (n, rows): (usize, u64),
    leading: &[i64; N],
    at: *mut u8,
) -> Option<([u64; 2], [u64; 2])> {
    let n = n as u64;
    if let Some(inc) = array.inc {
        let step = scalars.value(inc).unsigned_abs();
        if step > 1 {
            return Some(([1, n], [0, step]));
        }
    }
    if let Some(ld) = array.ld
        && leading[ld] > rows as i64
        && n > 0
    {
        return Some(([n / rows, rows], [leading[ld] as u64, 1]));
    }
    let misaligned = array.align.is_some_and(|align| !(at as usize).is_multiple_of(align));
    misaligned.then_some(([1, n], [0, 1]))
}

#[cold]
fn other_shape(routine: &Routine, arg: &Arg, shape: &Shape, meta: &ArrayMeta) -> Error {
    Error::bad(format!(
        "{}: parameter {} has the shape {shape} by the other arguments, and {meta} came; pass an array of that shape",
        routine.name,
        routine.kind_of(arg)
    ))
}

/// Whether a caller of the native service asks how long a work array is best. Then his other arrays may be none, and stay away.
fn is_query<const N: usize>(routine: &Routine, scalars: &Scalars<N>) -> bool {
    let asks = |(at, arg): (usize, &Arg)| matches!(arg.kind, Kind::Query(..)) && scalars.value(at) == -1;
    routine.args.iter().enumerate().any(asks)
}

/// Asks the routine how long its work arrays are best, which it says in their first elements.
fn ask<const N: usize>(
    prepared: &Prepared,
    scalars: &mut Scalars<N>,
    places: &mut Places<N>,
    keep: &mut Keep,
) -> Result<()> {
    let routine = &prepared.routine;
    let queries = || routine.args.iter().enumerate().filter(|(_, a)| matches!(a.kind, Kind::Query(..)));
    for (at, _) in queries() {
        scalars.put(routine, at, -1)?;
    }
    provide_work(routine, scalars, places, keep)?;
    let bits = scalars.bits;
    invoke(prepared, scalars, places)?;
    scalars.bits = bits;
    if let Some(note) = ffi::take_note() {
        return Err(told(routine, &note));
    }
    for (at, arg) in queries() {
        let Kind::Query(_, work) = arg.kind else { continue };
        let Kind::Work { dtype, .. } = routine.args[work].kind else { continue };
        let room = keep.work.iter_mut().find(|(i, _)| *i == work);
        let room = room.ok_or_else(|| Error::internal("a work array is missing"))?.1.bytes();
        let first = Scalar::from_bytes(dtype, room.get(..dtype.size()).unwrap_or_default())?;
        scalars.put(routine, at, best_length(first).max(1))?;
    }
    keep.work.clear();
    Ok(())
}

fn best_length(first: Scalar) -> i64 {
    match first.number() {
        forebay_types::Number::Int(n) => n as i64,
        forebay_types::Number::Real(x) | forebay_types::Number::Complex(x, _) => x.ceil() as i64,
        forebay_types::Number::Bool(_) => 1,
    }
}

fn provide_work<const N: usize>(
    routine: &Routine,
    scalars: &Scalars<N>,
    places: &mut Places<N>,
    keep: &mut Keep,
) -> Result<()> {
    for (at, arg) in routine.args.iter().enumerate() {
        let Kind::Work { dtype, len, .. } = &arg.kind else { continue };
        let elements = scalars.eval(len).map_err(|why| faulty(routine, arg, len, why))?;
        let room = layout::room(&arg.name, *dtype, elements.max(1) as u64, 64)
            .map_err(|e| e.within(&routine.name))?;
        places.at[at] = room.as_ptr();
        keep.work.push((at, room));
    }
    Ok(())
}

/// Argument, type and number of elements of every work array, for who brings the memory along himself. The routine is
/// asked for the best lengths.
pub(crate) fn provide_lengths<const N: usize>(
    prepared: &Prepared,
    scalars: &mut Scalars<N>,
    places: &mut Places<N>,
) -> Result<Vec<(usize, DType, u64)>> {
    let mut keep = Keep::default();
    if prepared.asks {
        ask(prepared, scalars, places, &mut keep)?;
    }
    provide_work(&prepared.routine, scalars, places, &mut keep)?;
    let elements = |(at, _): &(usize, Room)| {
        let Kind::Work { dtype, len, .. } = &prepared.routine.args[*at].kind else { return None };
        Some((*at, *dtype, scalars.eval(len).unwrap_or(1).max(1) as u64))
    };
    Ok(keep.work.iter().filter_map(elements).collect())
}

fn give_back<const N: usize>(
    prepared: &Prepared,
    form: &Form,
    call: &mut Call,
    scalars: &Scalars<N>,
    mut keep: Keep,
    (returned, note): (&[u8; 32], Option<Note>),
) -> Result<()> {
    let routine = &prepared.routine;
    for (at, laid) in &mut keep.laid {
        let Kind::Array(array) = &routine.args[*at].kind else { continue };
        if array.way.comes() {
            let (_, view) = call.arg(form.param_of[*at].unwrap_or_default())?.array()?;
            laid.gather(view);
        }
    }
    for (at, arg) in routine.args.iter().enumerate() {
        let (Kind::Scalar(s), Some(param)) = (&arg.kind, form.param_of[at]) else { continue };
        if s.way.comes() {
            call.arg(param)?.set(given(s.of, routine.convention, &scalars.bits[at].to_le_bytes())?)?;
        }
    }
    for (param, source) in &form.others {
        let mut to = call.arg(*param)?;
        match source {
            Source::Result => {
                let r = routine.returned.as_ref().ok_or_else(|| Error::internal("nothing is returned"))?;
                to.set(given(r.of, routine.convention, returned)?)?;
            }
            Source::First(work) => {
                let Kind::Work { dtype, .. } = routine.args[*work].kind else { continue };
                let room = keep.work.iter_mut().find(|(i, _)| i == work).map(|(_, room)| room.bytes());
                to.set(Scalar::from_bytes(
                    dtype,
                    room.and_then(|r| r.get(..dtype.size())).unwrap_or_default(),
                )?)?;
            }
            Source::XerblaInfo => to.set(note.map_or(0, |n| n.info))?,
            Source::XerblaName => to.set_bytes(note.as_ref().map_or(&[], Note::name))?,
            Source::Arg(_) => return Err(Error::new(Code::Internal, "an argument is no result of its own")),
        }
    }
    Ok(())
}
