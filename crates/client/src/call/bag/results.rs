//! From the reply to a task to its results in memory of their own.

use forebay_arena::zeros;
use forebay_types::{Error, Given, Result, Signature};

use super::TaskValue;
use crate::call::args::Arg;
use crate::call::connection::{Connection, Returned};
use crate::call::files::{self, LocalFile};
use crate::call::reply;

/// How many bytes of results a reply keeps.
pub(super) fn results_of(given: &[Given], returned: &Returned) -> u64 {
    let arrays = given.iter().filter_map(|given| match given {
        Given::Array { meta, .. } => meta.bytes().ok(),
        _ => None,
    });
    let large: u64 = if returned.chunks.is_empty() { 0 } else { arrays.sum() };
    large + returned.reply.len() as u64
}

/// The results in the order of the signature.
pub(super) fn results(
    signature: &Signature,
    connection: &Connection,
    returned: Returned,
    (given, files): (&[Given], &[LocalFile]),
) -> Result<Vec<TaskValue>> {
    let mut arrays: Vec<Vec<u8>> = Vec::new();
    for (param, given) in signature.passed().zip(given) {
        arrays.push(match given {
            Given::Array { meta, .. } if param.way.comes() => zeros(meta.bytes()? as usize)?,
            _ => Vec::new(),
        });
    }
    let mut args: Vec<Arg> = arrays
        .iter_mut()
        .zip(given)
        .map(|(bytes, given)| match given {
            Given::Array { meta, .. } => Arg::Mut(*meta, bytes),
            _ => Arg::Bytes(&[]),
        })
        .collect();
    let mut values = reply::take(signature, connection, returned, &mut args, |_| {})?;
    files::name_results(signature, files, &mut values);
    drop(args);
    let mut values = values.into_iter();
    let mut arrays = arrays.into_iter().zip(given);
    let mut out = Vec::new();
    for param in signature.params() {
        let array = if param.is_passed() { arrays.next() } else { None };
        if !param.way.comes() {
            continue;
        }
        out.push(match (param.is_returned(), array) {
            (false, Some((bytes, Given::Array { meta, .. }))) => TaskValue::Array(*meta, bytes),
            _ => TaskValue::Value(values.next().ok_or_else(|| Error::internal("a result is missing"))?),
        });
    }
    Ok(out)
}
