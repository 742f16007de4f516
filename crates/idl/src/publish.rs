//! What is published of a routine: two signatures that follow from its line.
//!
//! | of the line | for people | for stubs |
//! | --- | --- | --- |
//! | scalar | the same | the same, `inout` for `out` |
//! | character | `str` | `u8` |
//! | text | `str` | `bytes` |
//! | file | the same | the same |
//! | array | its extents where a signature can say them, else free names | free names: the library judges; `inout` for `out` |
//! | leading dimension, increment, length of work named without a type | left out | passed |
//! | work array that tells its best length | left out | its first element comes back |
//! | other work array, constant, computed, length, null | left out | left out |
//! | result of the function | `out result` | `out result` |
//! | `xerbla` | an error | `out xerbla_info`, `out xerbla_name` |
//! | `cost` that is a sum of products of what is passed | the same | the same |
//!
//! What a routine leaves alone stays as it is in the program that calls a stub: so for stubs what comes back goes, too. For people
//! an `out` is new, and 0 where the routine leaves it alone.

use forebay_types::{Order, Result, Signature, Way};

use crate::expr::{Binary, Expr};
use crate::model::{Array, Kind, Published, Routine, Source, Type};

/// How the names of services for stubs begin.
pub const NATIVE: &str = "native/";

/// The service by which a server tells of which interface file its services are.
pub const IDL: &str = "interface/file";

pub(crate) fn plain(routine: &Routine) -> Result<Published> {
    let mut params = Vec::new();
    for (i, arg) in routine.args.iter().enumerate() {
        let name = &arg.name;
        let text = match &arg.kind {
            Kind::Scalar(s) => match s.of {
                Type::Char => format!("in {name}:str"),
                of => {
                    let status = if s.status.is_some() { " status" } else { "" };
                    format!("{} {name}:{}{status}", s.way.word(), of.dtype())
                }
            },
            Kind::Str => format!("in {name}:str"),
            Kind::File(way) => format!("{} {name}:file", way.word()),
            Kind::Array(a) => array((a.way, name), a, |axis, e| {
                extent(routine, e).unwrap_or_else(|| free(routine, name, axis))
            }),
            _ => continue,
        };
        params.push((text, Source::Arg(i)));
    }
    results(routine, &mut params, true);
    publish(routine, &routine.name, params)
}

pub(crate) fn native(routine: &Routine) -> Result<Published> {
    let mut params = Vec::new();
    for (i, arg) in routine.args.iter().enumerate() {
        let name = &arg.name;
        let mut source = Source::Arg(i);
        let text = match &arg.kind {
            Kind::Scalar(s) => format!("{} {name}:{}", kept(s.way).word(), s.of.dtype()),
            Kind::Str => format!("in {name}:bytes"),
            Kind::File(way) => format!("{} {name}:file", way.word()),
            Kind::Array(a) => array((kept(a.way), name), a, |axis, _| free(routine, name, axis)),
            Kind::Leading(dtype, _) | Kind::Increment(dtype, _) | Kind::Query(dtype, _) => {
                format!("in {name}:{dtype}")
            }
            Kind::Work { dtype, query: Some(_), .. } => {
                source = Source::First(i);
                format!("out {name}:{dtype}")
            }
            _ => continue,
        };
        params.push((text, source));
    }
    results(routine, &mut params, false);
    if routine.xerbla {
        params.push(("out xerbla_info:i32".into(), Source::XerblaInfo));
        params.push(("out xerbla_name:bytes".into(), Source::XerblaName));
    }
    publish(routine, &format!("{NATIVE}{}", routine.name), params)
}

/// The result of the function; `is_told`: that it is a status, which is an error of the call when it is not 0.
fn results(routine: &Routine, params: &mut Vec<(String, Source)>, is_told: bool) {
    if let Some(r) = &routine.returned {
        let status = if is_told && r.status.is_some() { " status" } else { "" };
        params.push((format!("out {}:{}{status}", r.name, r.of.dtype()), Source::Result));
    }
}

fn publish(routine: &Routine, name: &str, params: Vec<(String, Source)>) -> Result<Published> {
    let (texts, sources): (Vec<String>, Vec<Source>) = params.into_iter().unzip();
    let signature = Signature::of(name, &texts.join(", "))?.with_effects(routine.effects);
    let cost = routine.cost.as_ref().and_then(|e| sum(routine, e));
    // What a signature cannot say of its calls is left to stubs.
    let costly = cost.and_then(|cost| signature.clone().with_cost(&cost).ok());
    Ok(Published { signature: costly.unwrap_or(signature), sources })
}

/// Which way an argument travels from a stub: what comes back goes, too, so that what the routine leaves alone comes back
/// as it was.
fn kept(way: Way) -> Way {
    if way == Way::In { Way::In } else { Way::InOut }
}

fn array((way, name): (Way, &str), a: &Array, extent: impl Fn(usize, &Expr) -> String) -> String {
    let extents: Vec<String> = a.extents.iter().enumerate().map(|(axis, e)| extent(axis, e)).collect();
    let order = match a.order {
        _ if extents.len() < 2 => "",
        Order::F => " order F",
        Order::C => " order C",
    };
    format!("{} {name}:{}[{}]{order}", way.word(), a.dtype, extents.join(","))
}

/// A name for an extent that no argument has.
fn free(routine: &Routine, name: &str, axis: usize) -> String {
    let mut free = format!("{name}_{axis}");
    while routine.args.iter().any(|a| a.name == free) {
        free.push('_');
    }
    free
}

/// A cost as a signature says it: a sum of what an extent may be.
fn sum(routine: &Routine, e: &Expr) -> Option<String> {
    match e {
        Expr::Binary(Binary::Add, xy) => Some(format!("{} + {}", sum(routine, &xy.0)?, sum(routine, &xy.1)?)),
        product => extent(routine, product),
    }
}

/// An extent as a signature says it: a number, a name, or a product of those.
fn extent(routine: &Routine, e: &Expr) -> Option<String> {
    match e {
        Expr::Number(n) if *n >= 0 => Some(n.to_string()),
        Expr::Value(at) => {
            let arg = routine.args.get(*at)?;
            let Kind::Scalar(s) = &arg.kind else { return None };
            (s.way != Way::Out && s.of != Type::Char && s.of.dtype().is_integer()).then(|| arg.name.clone())
        }
        Expr::Binary(Binary::Multiply, xy) => {
            Some(format!("{}*{}", extent(routine, &xy.0)?, extent(routine, &xy.1)?))
        }
        _ => None,
    }
}
