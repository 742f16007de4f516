//! From the bytes of a request to a [`Call`], and from the finished call to the bytes of a reply.
//!
//! The request is another process's word: everything is checked against the signature again,
//! and a block counts only as far as the client's block table says.

use forebay_arena::Segment;
use forebay_types::call::{self, INLINE_TOTAL, Item, Outcome, Place, REPLY_BYTES};
use forebay_types::codec::Writer;
use forebay_types::{ArrayMeta, Code, DType, Error, Given, Param, Result, Scalar};

use crate::Call;
use crate::call::{Caller, Slot, Store};
use crate::held::Turn;
use crate::peer::Peer;
use crate::service::Service;

fn corrupt(why: String) -> Error {
    Error::new(Code::Corrupt, why)
}

/// Where arguments may lie: inline in the frame, in the client's segment, in arrays held here.
struct From<'a> {
    data: &'a [u8],
    segment: &'a Segment,
    turns: &'a [Turn],
}

/// Joins the queues of all arrays that a request refers to. The leader does this, request by
/// request, so turns come in the order of requests.
pub(crate) fn turns(service: &Service, items: &[Item], peer: &Peer) -> Result<Vec<Turn>> {
    let mut asked: Vec<(u64, bool)> = Vec::new();
    for (param, item) in service.signature.passed().zip(items) {
        let Item::Array(_, Place::Held { number, .. }) = item else { continue };
        let write = param.way.comes();
        if asked.iter().any(|(other, writes)| other == number && (write || *writes)) {
            return Err(Error::bad(format!(
                "parameter {} is an array that is given for another parameter too, and one of them is written; \
                 give a copy for one of them",
                param.name
            )));
        }
        asked.push((*number, write));
    }
    asked.into_iter().map(|(number, write)| peer.arrays.queue(number, write)).collect()
}

/// Makes the call. `data` are the inline data of the frame.
pub(crate) fn call(service: &Service, items: &[Item], data: &[u8], caller: Caller) -> Result<Call> {
    check(service, items)?;
    let from = From { data, segment: &caller.peer.segment, turns: &caller.turns };
    let mut rest = items.iter();
    let mut slots = Vec::with_capacity(service.signature.params().len());
    for param in service.signature.params() {
        let slot = match param.is_passed() {
            true => slot(rest.next(), param, &from)?,
            false => empty(param),
        };
        slots.push(slot);
    }
    Ok(Call { signature: service.signature.clone(), slots, caller: Some(caller) })
}

fn check(service: &Service, items: &[Item]) -> Result<()> {
    if items.is_empty() && service.signature.passed().next().is_none() {
        return Ok(());
    }
    let mut given: Vec<Given> = items
        .iter()
        .map(|item| match item {
            Item::Scalar(s) => Given::Scalar(*s),
            Item::Text(DType::Str, _) => Given::Str,
            Item::Text(..) => Given::Bytes,
            Item::Array(meta, _) => Given::Array { meta: *meta, writable: true },
        })
        .collect();
    service.signature.check(&mut given)
}

fn empty(param: &Param) -> Slot {
    match param.dtype {
        DType::Str | DType::Bytes => Slot::Text(Store::zeroed(0)),
        dtype => Slot::Scalar(Scalar::zero(dtype)),
    }
}

fn slot(item: Option<&Item>, param: &Param, from: &From) -> Result<Slot> {
    match item {
        Some(Item::Scalar(s)) => Ok(Slot::Scalar(s.convert(param.dtype)?)),
        Some(Item::Text(dtype, place)) => {
            let store = store(place, from)?;
            if *dtype == DType::Str && std::str::from_utf8(store.bytes()).is_err() {
                return Err(Error::bad(format!("parameter {} is text and is not UTF-8", param.name)));
            }
            Ok(Slot::Text(store))
        }
        Some(Item::Array(meta, place)) => Ok(Slot::Array(*meta, array(meta, place, from)?)),
        None => Err(corrupt(format!("the request ends before parameter {}", param.name))),
    }
}

/// The bytes of an array; of one that this server holds it is the turn by now.
fn array(meta: &ArrayMeta, place: &Place, from: &From) -> Result<Store> {
    let Place::Held { number, bytes } = *place else { return store(place, from) };
    let turn = from.turns.iter().find(|t| t.number == number);
    let turn = turn.ok_or_else(|| Error::internal("a call without its turn at an array"))?;
    Ok(Store::Block(turn.block(meta)?, bytes as usize))
}

fn store(place: &Place, from: &From) -> Result<Store> {
    let From { data, segment, .. } = from;
    match *place {
        Place::Held { .. } => Err(corrupt("text lies in an array".into())),
        Place::Inline { at, bytes } => {
            let range = at as usize..at as usize + bytes as usize;
            data.get(range).map(Store::copy).ok_or_else(|| corrupt("an argument leaves its frame".into()))
        }
        Place::Block(at) if at.segment == 0 => {
            let block = segment.block(at.index)?;
            if block.len() < at.bytes {
                return Err(corrupt(format!(
                    "an argument of {} bytes lies in a block of {}",
                    at.bytes,
                    block.len()
                )));
            }
            Ok(Store::Block(block, at.bytes as usize))
        }
        Place::Block(at) => Err(corrupt(format!("an argument lies in segment {}; there is one", at.segment))),
        Place::None { bytes } if bytes <= INLINE_TOTAL as u64 => Ok(Store::zeroed(bytes as usize)),
        Place::None { bytes } => Err(corrupt(format!("a result of {bytes} bytes was given no block"))),
    }
}

/// Writes the reply of a call that went well.
pub(crate) fn reply(call: &Call, outcome: &Outcome, out: Vec<u8>) -> Result<Vec<u8>> {
    let coming = || call.signature.params().iter().zip(&call.slots).filter(|(p, _)| p.way.comes());
    let mut w = Writer::over(out);
    call::put_outcome(&mut w, outcome, coming().count());
    let mut at = 0;
    for (param, slot) in coming() {
        call::put_item(&mut w, &item(param, slot, &mut at));
    }
    if at > REPLY_BYTES {
        return Err(Error::new(
            Code::Full,
            format!("the results hold {at} bytes of text, more than {REPLY_BYTES}; return an array instead"),
        ));
    }
    let mut bytes = w.finish();
    if at > 0 {
        align(&mut bytes);
        for (_, slot) in coming() {
            let (Slot::Text(store) | Slot::Array(_, store)) = slot else { continue };
            if travels(slot, store) {
                bytes.extend_from_slice(store.bytes());
                align(&mut bytes);
            }
        }
    }
    Ok(bytes)
}

/// Results of arrays in blocks stay where they are; everything else travels.
fn travels(slot: &Slot, store: &Store) -> bool {
    matches!(slot, Slot::Text(_)) || !store.is_block()
}

fn item(param: &Param, slot: &Slot, at: &mut usize) -> Item {
    let mut place = |store: &Store| {
        let bytes = store.bytes().len();
        if !travels(slot, store) {
            return Place::None { bytes: bytes as u64 };
        }
        let begin = *at;
        *at = (begin + bytes).next_multiple_of(call::ALIGN);
        Place::Inline { at: begin as u32, bytes: bytes as u32 }
    };
    match slot {
        Slot::Scalar(s) => Item::Scalar(*s),
        Slot::Text(store) => Item::Text(param.dtype, place(store)),
        Slot::Array(meta, store) => Item::Array(ArrayMeta { ..*meta }, place(store)),
    }
}

fn align(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(call::ALIGN), 0);
}
