//! A routine with its symbol and its call interface: what is done once, when the library is loaded.

use std::sync::{Arc, Mutex};

use forebay_idl::{Arg, Convention, Hidden, Kind, Published, Routine, Source, Type};
use forebay_types::{DType, Error, Result};

use crate::chain::Chain;
use crate::ffi::{Interface, MOST, Passed, Symbol};

/// A routine that can be called.
pub(crate) struct Prepared {
    pub routine: Routine,
    pub interface: Interface,
    /// By argument: whether its hidden length follows it.
    pub length_is_next: Vec<bool>,
    /// Arguments whose hidden lengths are passed behind all others.
    pub lengths_at_end: Vec<usize>,
    /// Whether the address of the result is passed first.
    pub result_first: bool,
    /// Held while it runs, unless any thread may call.
    pub lock: Option<Arc<Mutex<()>>>,
    /// Its number in the file.
    pub number: u32,
    /// Whether any argument is an array.
    pub has_arrays: bool,
    /// Whether the routine is asked for the length of its work arrays.
    pub asks: bool,
    /// Real numbers that are passed behind all arguments, where no routine looks: only trials have them.
    pub more: Vec<u64>,
    /// What is called instead of the symbol.
    pub chain: Option<Chain>,
}

/// One of its two services: which parameter of the call is which argument.
pub(crate) struct Form {
    pub native: bool,
    /// By argument.
    pub param_of: Vec<Option<usize>>,
    /// Parameters that are no argument.
    pub others: Vec<(usize, Source)>,
}

impl Form {
    pub fn new(routine: &Routine, published: &Published, native: bool) -> Form {
        let mut param_of = vec![None; routine.args.len()];
        let mut others = Vec::new();
        for (param, source) in published.sources.iter().enumerate() {
            match source {
                Source::Arg(at) => param_of[*at] = Some(param),
                other => others.push((param, *other)),
            }
        }
        Form { native, param_of, others }
    }
}

/// The dtype in which a value is passed: a logical of Fortran is an `int`.
pub(crate) fn passed_dtype(of: Type, convention: Convention) -> DType {
    match (of, convention) {
        (Type::Bool, Convention::Fortran) => DType::I32,
        (of, _) => of.dtype(),
    }
}

fn has_hidden_length(routine: &Routine, at: usize, arg: &Arg) -> bool {
    let said = routine.args.iter().any(|a| a.kind == Kind::Length(at));
    let is_text = arg.kind.is_text() || arg.kind.scalar_type() == Some(Type::Char);
    is_text && !said && routine.hidden != Hidden::None
}

impl Prepared {
    pub fn new(
        routine: &Routine,
        number: u32,
        symbol: Symbol,
        lock: Option<Arc<Mutex<()>>>,
    ) -> Result<Prepared> {
        let passed = routine.returned.as_ref().map(|r| passed_dtype(r.of, routine.convention));
        Prepared::with(routine, number, symbol, lock, (Vec::new(), passed))
    }

    /// For a trial: with numbers behind the arguments, and with a type of what is returned that may not be that of the line.
    pub fn with(
        routine: &Routine,
        number: u32,
        symbol: Symbol,
        lock: Option<Arc<Mutex<()>>>,
        (more, returned): (Vec<u64>, Option<DType>),
    ) -> Result<Prepared> {
        let convention = routine.convention;
        let mut passed = Vec::new();
        let (mut length_is_next, mut lengths_at_end) = (Vec::new(), Vec::new());
        let result_first = routine.returned.as_ref().is_some_and(|r| r.is_by_pointer());
        if result_first {
            passed.push(Passed::Address);
        }
        for (at, arg) in routine.args.iter().enumerate() {
            passed.push(match (&arg.kind, arg.kind.scalar_type()) {
                (Kind::Length(_), _) if arg.by_value => Passed::Length,
                (_, Some(of)) if arg.by_value => Passed::Value(passed_dtype(of, convention)),
                _ => Passed::Address,
            });
            let has_length = has_hidden_length(routine, at, arg);
            let is_next = has_length && routine.hidden == Hidden::Next;
            length_is_next.push(is_next);
            if is_next {
                passed.push(Passed::Length);
            } else if has_length {
                lengths_at_end.push(at);
            }
        }
        passed.extend(lengths_at_end.iter().map(|_| Passed::Length));
        passed.extend(more.iter().map(|_| Passed::Value(DType::F64)));
        let returned = returned.filter(|_| !result_first);
        let interface = Interface::new(symbol, &passed, returned).ok_or_else(|| {
            Error::bad(format!(
                "{} cannot be called: it has {} arguments, hidden lengths among them, and {MOST} is the most",
                routine.name,
                passed.len()
            ))
        })?;
        let asks = routine.args.iter().any(|a| matches!(a.kind, Kind::Query(..)));
        Ok(Prepared {
            routine: routine.clone(),
            interface,
            length_is_next,
            lengths_at_end,
            result_first,
            lock,
            number,
            has_arrays: routine.args.iter().any(|a| matches!(a.kind, Kind::Array(_))),
            asks,
            more,
            chain: None,
        })
    }
}
