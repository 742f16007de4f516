//! From the reply to a task to its results in memory of their own.

use forebay_arena::zeros;
use forebay_types::{Error, Given, Result, Signature};

use super::TaskValue;
use super::job::Sizes;
use crate::call::args::Arg;
use crate::call::connection::{Connection, Returned};
use crate::call::files;
use crate::call::reply;

/// The results in the order of the signature. What the service has written to an array that a server holds stays there,
/// and is none of them.
pub(super) fn results(
    signature: &Signature,
    connection: &Connection,
    returned: Returned,
    sizes: &Sizes,
) -> Result<Vec<TaskValue>> {
    let mut arrays: Vec<Vec<u8>> = Vec::new();
    for (param, given, arg) in sizes.passed(signature) {
        arrays.push(match (given, arg) {
            (Given::Array { .. }, Arg::Ref(..)) => Vec::new(),
            (Given::Array { meta, .. }, _) if param.way.comes() => zeros(meta.bytes()? as usize)?,
            _ => Vec::new(),
        });
    }
    let mut args: Vec<Arg> = arrays
        .iter_mut()
        .zip(sizes.passed(signature))
        .map(|(bytes, (_, given, arg))| match (given, arg) {
            (_, Arg::Ref(..)) => arg.without_bytes(),
            (Given::Array { meta, .. }, _) => Arg::Mut(*meta, bytes),
            _ => Arg::Bytes(&[]),
        })
        .collect();
    let mut values = reply::take(signature, connection, returned, &mut args, |_| {})?;
    files::name_results(signature, &sizes.files, &mut values);
    drop(args);
    let mut values = values.into_iter();
    let mut arrays = arrays.into_iter().zip(&*sizes.given).zip(&*sizes.args);
    let mut out = Vec::new();
    for param in signature.params() {
        let array = if param.is_passed() { arrays.next() } else { None };
        if !param.way.comes() {
            continue;
        }
        out.push(match (param.is_returned(), array) {
            (false, Some((_, Arg::Ref(..)))) => continue,
            (false, Some(((bytes, Given::Array { meta, .. }), _))) => TaskValue::Array(*meta, bytes),
            _ => TaskValue::Value(values.next().ok_or_else(|| Error::internal("a result is missing"))?),
        });
    }
    Ok(out)
}
