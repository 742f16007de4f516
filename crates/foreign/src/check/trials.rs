//! With which scalars a routine is tried.

use forebay_idl::{Arg, Kind, Routine, Type};
use forebay_types::{ElementKind, Result, Scalar};

use crate::call::{MOST, Scalars};

/// How large the integers of a trial are.
const SIZES: [i64; 4] = [0, 1, 3, 7];
/// Most trials of one routine.
const TRIALS: usize = 4_096;

/// The values of the scalars in every trial, by argument.
pub(super) fn trials(routine: &Routine) -> Vec<Vec<i64>> {
    let count = routine.args.len();
    let mut all: Vec<Vec<i64>> = SIZES.iter().map(|n| vec![*n; count]).collect();
    // Unlike each other, so that an extent that is another one's is seen: growing from the first to the last, falling, and
    // the first larger than two others together, as matrices of bands want it.
    let ordinals: Vec<i64> = ordinals(routine);
    all.push(ordinals.iter().map(|i| 3 + i % 5).collect());
    all.push(ordinals.iter().map(|i| 7 - i % 5).collect());
    all.push(ordinals.iter().map(|i| if *i == 0 { 7 } else { 3 }).collect());
    for (at, arg) in routine.args.iter().enumerate() {
        let choices: Vec<i64> = match &arg.kind {
            Kind::Scalar(s) => match (&s.one_of, s.of) {
                (Some(known), _) => known.clone(),
                (None, Type::Char) => b"NTULV".iter().map(|b| i64::from(*b)).collect(),
                (None, _) if is_increment(routine, at) => vec![1, 2, -1],
                (None, _) => continue,
            },
            Kind::Increment(..) => vec![1, 2, -1],
            _ => continue,
        };
        if all.len() * choices.len() > TRIALS {
            all.iter_mut().enumerate().for_each(|(i, t)| t[at] = choices[i % choices.len()]);
            continue;
        }
        let with = |t: &Vec<i64>| {
            let put = |v: &i64| {
                let mut t = t.clone();
                t[at] = *v;
                t
            };
            choices.iter().map(put).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(with).collect();
    }
    all
}

/// By argument how many sizes stand before it.
fn ordinals(routine: &Routine) -> Vec<i64> {
    let is_size =
        |a: &Arg| matches!(&a.kind, Kind::Scalar(s) if s.of.dtype().is_integer() && s.of != Type::Char);
    let mut before = 0;
    let one = |a: &Arg| {
        let own = before;
        before += i64::from(is_size(a));
        own
    };
    routine.args.iter().map(one).collect()
}

fn is_increment(routine: &Routine, at: usize) -> bool {
    routine.args.iter().any(|a| matches!(&a.kind, Kind::Array(a) if a.inc == Some(at)))
}

pub(super) fn set(scalars: &mut Scalars<MOST>, routine: &Routine, at: usize, value: i64) -> Result<()> {
    match &routine.args[at].kind {
        Kind::Scalar(s) => {
            let dtype = s.of.dtype();
            let scalar = match dtype.kind() {
                ElementKind::Float | ElementKind::Complex => Scalar::from(0.5).convert(dtype)?,
                ElementKind::Bool => Scalar::from(value % 2 != 0),
                _ => Scalar::from(value).convert(dtype)?,
            };
            scalars.set(at, scalar);
            Ok(())
        }
        Kind::Increment(..) => scalars.put(routine, at, value),
        _ => Ok(()),
    }
}

/// What is tried, in words.
pub(super) fn describe(routine: &Routine, trial: &[i64]) -> String {
    let word = |(at, arg): (usize, &Arg)| match &arg.kind {
        Kind::Scalar(s) if s.of == Type::Char => {
            Some(format!("{}={:?}", arg.name, char::from(trial[at] as u8)))
        }
        Kind::Scalar(s) if s.of.dtype().is_integer() && s.way.goes() => {
            Some(format!("{}={}", arg.name, trial[at]))
        }
        Kind::Increment(..) if trial[at] != 1 => Some(format!("{}={}", arg.name, trial[at])),
        _ => None,
    };
    let words: Vec<String> = routine.args.iter().enumerate().filter_map(word).collect();
    if words.is_empty() { "no scalars".into() } else { words.join(" ") }
}
