//! From the bytes of a reply to the caller's arrays and values.

use forebay_arena::copy_of;
use forebay_types::call::{Item, Location, Outcome, get_outcome};
use forebay_types::directory::ServerInfo;
use forebay_types::{Code, DType, Error, Param, Result, Signature};

use super::args::{Arg, Value};
use super::connection::{Chunk, Connection, Returned};
use super::spare;

/// The bytes of results, before they are the caller's.
#[derive(Clone, Copy)]
struct Came<'r> {
    data: &'r [u8],
    chunks: &'r [(usize, Chunk)],
    turned: bool,
}

/// Whether the server said that it does not offer the service: then it did nothing. The code is
/// the first word of a reply.
pub(super) fn is_not_offered(reply: &[u8]) -> bool {
    reply.get(..4) == Some(&(Code::NoServer as u32).to_le_bytes()[..])
}

/// Whether the server said that it has no room and has not begun the call.
pub(super) fn found_no_room(reply: &[u8]) -> bool {
    has_failed(reply) && head(reply).is_some_and(|head| head.code == Code::Full as u32 && head.ran_ns == 0)
}

/// Whether the call has failed: the code is the first word of a reply.
pub(super) fn has_failed(reply: &[u8]) -> bool {
    reply.get(..4).is_some_and(|code| code != [0; 4])
}

/// The words before the results, without the text.
pub(super) struct Head {
    pub code: u32,
    /// Calls that were at the server, this one among them.
    pub there: u32,
    pub waited_ns: u64,
    pub ran_ns: u64,
}

impl Head {
    pub fn of(outcome: &Outcome) -> Head {
        let there = outcome.running.saturating_add(outcome.queued);
        Head { code: outcome.code, there, waited_ns: outcome.waited_ns, ran_ns: outcome.ran_ns }
    }
}

/// Reads them; none when they are no such words.
pub(super) fn head(reply: &[u8]) -> Option<Head> {
    let (outcome, _) = get_outcome(reply, 0, &mut Vec::new()).ok()?;
    Some(Head::of(&outcome))
}

/// What a service printed in a call that has failed, or whose status is not 0: the last lines, of each stream 4,096 bytes
/// at most.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Printed {
    /// To standard output.
    pub stdout: String,
    /// To standard error.
    pub stderr: String,
    /// So many other calls ran in the server's process meanwhile and may have printed some of it; 0: all is this call's.
    pub others: u32,
}

/// Reads that; none when the call has ended well, or its server does not tell.
pub(super) fn printed(signature: &Signature, reply: &[u8]) -> Option<Printed> {
    let is_bad = has_failed(reply) || ended_badly(signature, reply);
    is_bad.then(|| read_printed(signature, reply)).flatten()
}

fn read_printed(signature: &Signature, reply: &[u8]) -> Option<Printed> {
    let mut items = Vec::new();
    let (outcome, data) = get_outcome(reply, 0, &mut items).ok()?;
    let data = reply.get(data..)?;
    // It stands behind the results, which a call that has failed has not.
    let results = if outcome.code == 0 { coming(signature).count() } else { 0 };
    let [
        Item::Text(_, Location::Inline { at: out, bytes: o }),
        Item::Text(_, Location::Inline { at: err, bytes: e }),
        ref rest @ ..,
    ] = *items.get(results..)?
    else {
        return None;
    };
    let others = match rest {
        [] => 0,
        [Item::Scalar(others)] => u32::try_from(others.as_i64()?).ok()?,
        _ => return None,
    };
    let text = |at: u32, bytes: u32| {
        let bytes = data.get(at as usize..at as usize + bytes as usize)?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    };
    Some(Printed { stdout: text(out, o)?, stderr: text(err, e)?, others })
}

/// The parameters that have a result.
fn coming(signature: &Signature) -> impl Iterator<Item = &Param> {
    signature.params().iter().filter(|p| p.way.comes())
}

/// What the server said of a call that has failed, from its reply.
pub(super) fn why_failed(name: &str, info: &ServerInfo, reply: &[u8]) -> Error {
    let mut items = Vec::new();
    get_outcome(reply, 0, &mut items).map_or_else(|e| e, |(outcome, _)| failure(name, info, &outcome))
}

fn failure(name: &str, info: &ServerInfo, outcome: &Outcome) -> Error {
    let code = Code::from_number(outcome.code).unwrap_or(Code::Internal);
    Error::new(code, format!("{name} on server {:?} (pid {}): {}", info.name, info.pid, outcome.text))
}

/// Whether what came back has a status that is not 0; the reply is one of a call that has not failed.
pub(super) fn ended_badly(signature: &Signature, reply: &[u8]) -> bool {
    let Some(at) = coming(signature).position(|p| p.is_status) else { return false };
    let mut items = Vec::new();
    let read = get_outcome(reply, 0, &mut items);
    let status = read.ok().and_then(|_| match items.get(at) {
        Some(Item::Scalar(status)) => status.as_i64(),
        _ => None,
    });
    status.is_some_and(|status| status != 0)
}

/// Reads a reply: arrays go into those of `args`, which are in the order of [`Signature::passed`]; what is returned is in
/// the order of the signature. `note` is told the words before the results, also when there are none.
pub(super) fn take(
    signature: &Signature,
    connection: &Connection,
    returned: Returned,
    args: &mut [Arg],
    note: impl FnOnce(&Outcome),
) -> Result<Vec<Value>> {
    let Returned { reply, chunks, turned } = returned;
    let came = Came { data: &reply, chunks: &chunks, turned };
    let result = read(signature, args, came, |outcome, _| {
        note(outcome);
        match outcome.code {
            0 => Ok(()),
            _ => Err(failure(signature.name().as_str(), &connection.info, outcome)),
        }
    });
    connection.free(chunks);
    spare::keep_buffer(reply);
    result
}

/// Reads the reply of a call that has ended well and whose results all stand in it; none of another one.
pub(super) fn take_short(
    signature: &Signature,
    reply: &[u8],
    args: &mut [Arg],
) -> Option<(Vec<Value>, Head)> {
    let came = Came { data: reply, chunks: &[], turned: false };
    let mut head = None;
    // More than the results: what a call printed whose status is not 0.
    let check = |outcome: &Outcome, items: usize| match outcome.code {
        0 if items == coming(signature).count() => {
            head = Some(Head::of(outcome));
            Ok(())
        }
        _ => Err(Error::internal("a call that has not ended well is not read here")),
    };
    let values = read(signature, args, came, check).ok()?;
    head.map(|head| (values, head))
}

/// Reads the words of a reply, which are all of `came.data`, and its results, if `check` has nothing against the outcome.
fn read(
    signature: &Signature,
    args: &mut [Arg],
    came: Came,
    check: impl FnOnce(&Outcome, usize) -> Result<()>,
) -> Result<Vec<Value>> {
    let mut items = Vec::new();
    let (outcome, data) = get_outcome(came.data, 0, &mut items)?;
    check(&outcome, items.len())?;
    let data = came.data.get(data..).unwrap_or_default();
    results(signature, args, &items, Came { data, ..came })
}

fn results(signature: &Signature, args: &mut [Arg], items: &[Item], came: Came) -> Result<Vec<Value>> {
    if !signature.params().iter().any(|p| p.way.comes()) {
        return Ok(Vec::new());
    }
    let mut items = items.iter();
    let mut values = Vec::new();
    let mut passed = 0;
    for param in signature.params() {
        let index = passed;
        passed += usize::from(param.is_passed());
        if !param.way.comes() {
            continue;
        }
        let wrong = || {
            let name = signature.name();
            Error::new(Code::Corrupt, format!("the reply of {name} does not fit its parameter {param}"))
        };
        let item = items.next().ok_or_else(wrong)?;
        match param.is_returned() {
            true => values.push(value(param, item, came.data)?.ok_or_else(wrong)?),
            false => fill(&mut args[index], index, item, came)?.ok_or_else(wrong)?,
        }
    }
    Ok(values)
}

/// Copies an array result into the argument; none when it does not fit.
fn fill(arg: &mut Arg, index: usize, item: &Item, came: Came) -> Result<Option<()>> {
    let Item::Array(meta, place) = item else { return Ok(None) };
    let found = match *place {
        // It stays with the server.
        Location::None { .. } if matches!(arg, Arg::Ref(..)) => return Ok(Some(())),
        Location::Inline { at, bytes: n } => came.data.get(at as usize..at as usize + n as usize),
        Location::None { .. } => {
            let ours = came.chunks.iter().filter(|(i, _)| *i == index);
            return Ok(ours.map(|(_, chunk)| chunk).find_map(|chunk| match chunk {
                Chunk::Block(block, _) => arg.take_view(meta, block.view().part(0, arg.len())?),
                Chunk::Copied(bytes) => arg.take(meta, bytes.get(..arg.len())?),
                Chunk::Lease(_) | Chunk::Held { .. } => None,
            }));
        }
        Location::Block(at) => came.chunks.iter().find_map(|(i, chunk)| match chunk {
            Chunk::Lease(lease) if *i == at.index as usize => Some(lease.bytes()),
            _ => None,
        }),
        Location::Held { .. } => None,
    };
    let Some(bytes) = found else { return Ok(None) };
    if !came.turned {
        return Ok(arg.take(meta, bytes));
    }
    let mut right = copy_of(bytes)?;
    meta.dtype.turn(&mut right);
    Ok(arg.take(meta, &right))
}

/// A result that is no array; none when it does not fit.
fn value(param: &Param, item: &Item, data: &[u8]) -> Result<Option<Value>> {
    Ok(match *item {
        // Its path is the caller's, who knows it.
        Item::Text(DType::Str, Location::None { .. }) if param.is_file => Some(Value::Str(String::new())),
        Item::Scalar(s) if s.dtype() == param.dtype => Some(Value::Scalar(s)),
        Item::Text(dtype, Location::Inline { at, bytes }) if dtype == param.dtype => {
            let there = data.get(at as usize..at as usize + bytes as usize);
            let Some(bytes) = there.map(copy_of).transpose()? else { return Ok(None) };
            match dtype {
                DType::Str => String::from_utf8(bytes).ok().map(Value::Str),
                _ => Some(Value::Bytes(bytes)),
            }
        }
        _ => None,
    })
}
