//! From the bytes of a request to a [`Call`], and from the finished call to the bytes of a reply.
//!
//! The request is another process's word: everything is checked against the signature again,
//! and a block counts only as far as the client's block table says.

use std::sync::Arc;

use forebay_link::call::Room;
use forebay_link::pool::Lease;
use forebay_link::stream::LargePart;
use forebay_types::call::{self, BIG_ENDIAN, INLINE_TOTAL, Item, Location, Outcome, REPLY_BYTES};
use forebay_types::codec::Writer;
use forebay_types::record::BlockRef;
use forebay_types::{ArrayMeta, Code, DType, Error, Given, Param, Result, Scalar};

use crate::Call;
use crate::call::{Caller, ParamValue, Printed, Store, Whose};
use crate::files::KeptFile;
use crate::held::Turn;
use crate::peer::Peer;
use crate::service::Service;

fn corrupt(why: String) -> Error {
    Error::new(Code::Corrupt, why)
}

/// Where arguments may lie: inline in the frame, in the client's segment, in what came over the
/// network with the frame, in arrays held here.
struct From<'a> {
    data: &'a [u8],
    peer: &'a Peer,
    parts: Vec<Option<Lease>>,
    turns: &'a [Turn],
    /// Numbers come in the other byte order.
    turned: bool,
}

/// Joins the queues of all arrays that a request refers to. The leader does this, request by
/// request, so turns come in the order of requests.
pub(crate) fn turns(service: &Service, items: &[Item], peer: &Peer) -> Result<Vec<Turn>> {
    // Few requests do, and the others are not to pay for it.
    if !items.iter().any(|item| matches!(item, Item::Array(_, Location::Held { .. }))) {
        return Ok(Vec::new());
    }
    let mut asked: Vec<(u64, bool)> = Vec::new();
    for (param, item) in service.signature.passed().zip(items) {
        let Item::Array(_, Location::Held { number, .. }) = item else { continue };
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

/// Gives a call the values of its parameters, and the files among them. `data` are the inline data of the frame with these
/// flags, `parts` the large ones behind it.
pub(crate) fn fill(
    call: &mut Call,
    service: &Service,
    items: &[Item],
    (flags, data): (u32, &[u8]),
    parts: Vec<Lease>,
) -> Result<()> {
    check(service, items)?;
    let Call { slots, files, caller: Some(caller), .. } = call else {
        return Err(Error::internal("a request comes from nobody"));
    };
    let turned = flags & BIG_ENDIAN != 0;
    if turned && caller.peer.is_near() {
        return Err(corrupt("a client of this host says that its numbers are big endian".into()));
    }
    let parts = parts.into_iter().map(Some).collect();
    let mut from = From { data, peer: &caller.peer, parts, turns: &caller.turns, turned };
    let mut rest = items.iter();
    slots.reserve_exact(service.signature.params().len());
    for param in service.signature.params() {
        let slot = match param.is_passed() {
            true if param.is_file => {
                let (path, number, file) = file(rest.next(), param, caller)?;
                files.push((slots.len(), number, file));
                path
            }
            true => slot(rest.next(), param, &mut from)?,
            false => empty(param),
        };
        slots.push(slot);
    }
    if !files.is_empty() {
        caller.peer.files.may_begin(files.iter().map(|(_, _, file)| &**file))?;
    }
    Ok(())
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

/// A file that came before the call, or is to be written.
fn file(item: Option<&Item>, param: &Param, caller: &Caller) -> Result<(ParamValue, u64, Arc<KeptFile>)> {
    let Some(Item::Text(_, Location::Held { number, .. })) = item else {
        return Err(corrupt(format!("parameter {} is a file and comes as something else", param.name)));
    };
    let file = caller.peer.files.of_call(caller.peer.client, *number, param.way)?;
    let path = file.path().as_os_str().as_encoded_bytes().to_vec();
    Ok((ParamValue::Text(path), *number, file))
}

fn empty(param: &Param) -> ParamValue {
    match param.dtype.is_text() {
        true => ParamValue::Text(Vec::new()),
        false => ParamValue::Scalar(Scalar::zero(param.dtype)),
    }
}

fn slot(item: Option<&Item>, param: &Param, from: &mut From) -> Result<ParamValue> {
    match item {
        Some(Item::Scalar(s)) => Ok(ParamValue::Scalar(s.convert(param.dtype)?)),
        Some(Item::Text(dtype, place)) => {
            // Copied first, so that nobody changes what was checked.
            let bytes = store(place, from)?.into_bytes();
            if *dtype == DType::Str && std::str::from_utf8(&bytes).is_err() {
                return Err(Error::bad(format!("parameter {} is text and is not UTF-8", param.name)));
            }
            Ok(ParamValue::Text(bytes))
        }
        Some(Item::Array(meta, place)) => Ok(ParamValue::Array(*meta, array(meta, place, from)?)),
        None => Err(corrupt(format!("the request ends before parameter {}", param.name))),
    }
}

/// The bytes of an array; of one that this server holds it is the turn by now.
fn array(meta: &ArrayMeta, place: &Location, from: &mut From) -> Result<Store> {
    let Location::Held { number, .. } = *place else {
        let mut store = store(place, from)?;
        if from.turned
            && !matches!(place, Location::None { .. })
            && let Some(own) = store.own()
        {
            meta.dtype.turn(own);
        }
        return Ok(store);
    };
    let turn = from.turns.iter().find(|t| t.number == number);
    let turn = turn.ok_or_else(|| Error::internal("a call without its turn at an array"))?;
    // As long as it is, whatever length the request tells.
    let block = turn.block(meta)?;
    let bytes = block.len() as usize;
    Ok(Store::Block(block, bytes, Whose::Server))
}

fn store(place: &Location, from: &mut From) -> Result<Store> {
    match (*place, from.peer.room()) {
        (Location::Held { .. }, _) => Err(corrupt("text lies in an array".into())),
        (Location::Inline { at, bytes }, _) => {
            let range = at as usize..at as usize + bytes as usize;
            from.data
                .get(range)
                .map(Store::copy)
                .ok_or_else(|| corrupt("an argument leaves its frame".into()))
        }
        (Location::Block(at), Room::Own(_)) => {
            let part = from.parts.get_mut(at.index as usize).and_then(Option::take);
            let part = part.filter(|p| at.segment == 0 && p.bytes().len() as u64 == at.bytes);
            part.map(Store::Lease).ok_or_else(|| {
                corrupt(format!("an argument of {} bytes did not come with its request", at.bytes))
            })
        }
        (Location::Block(at), Room::Lent(segment)) if at.segment == 0 => {
            let block = segment.block(at.index)?;
            if block.len() < at.bytes {
                return Err(corrupt(format!(
                    "an argument of {} bytes lies in a block of {}",
                    at.bytes,
                    block.len()
                )));
            }
            Ok(Store::Block(block, at.bytes as usize, Whose::Client(None)))
        }
        (Location::Block(at), _) => {
            Err(corrupt(format!("an argument lies in segment {}; there is one", at.segment)))
        }
        (Location::None { bytes }, _) if bytes <= INLINE_TOTAL as u64 => Ok(Store::zeroed(bytes as usize)),
        (Location::None { bytes }, Room::Own(pool)) => pool.take(bytes).map(Store::Lease),
        (Location::None { bytes }, _) => {
            Err(corrupt(format!("a result of {bytes} bytes was given no block")))
        }
    }
}

/// Writes the reply of a call that went well. Large results that go over the network are put into
/// `parts`; behind the results stands what a call `printed` whose status is not 0.
pub(crate) fn reply(
    call: &mut Call,
    outcome: &Outcome,
    printed: Option<&Printed>,
    out: Vec<u8>,
    parts: &mut Vec<LargePart>,
) -> Result<Vec<u8>> {
    let Call { signature, slots, .. } = call;
    let params = signature.params().iter().enumerate();
    let coming: Vec<usize> = params.filter(|(_, p)| p.way.comes()).map(|(i, _)| i).collect();
    let mut w = Writer::over(out);
    call::put_outcome(&mut w, outcome, coming.len() + printed.map_or(0, printed_items));
    let mut at = 0;
    let mut leases = 0;
    for i in &coming {
        call::put_item(&mut w, &item(&signature.params()[*i], &slots[*i], &mut at, &mut leases));
    }
    if let Some(printed) = printed {
        put_printed(&mut w, printed, &mut at);
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
        for i in &coming {
            match &mut slots[*i] {
                ParamValue::Text(_) if signature.params()[*i].is_file => continue,
                ParamValue::Text(own) => bytes.extend_from_slice(own),
                ParamValue::Array(_, Store::Own(buffer, len)) => {
                    bytes.extend_from_slice(&bytemuck::cast_slice(buffer)[..*len]);
                }
                _ => continue,
            }
            align(&mut bytes);
        }
        printed.into_iter().for_each(|printed| append_printed(&mut bytes, printed));
    }
    for i in coming {
        if let ParamValue::Array(_, store) = &mut slots[i]
            && let Store::Lease(_) = store
            && let Store::Lease(lease) = std::mem::replace(store, Store::zeroed(0))
        {
            parts.push(Box::new(lease));
        }
    }
    Ok(bytes)
}

/// Results of arrays in blocks stay where they are, those that came over the network go apart;
/// everything else travels.
fn item(param: &Param, slot: &ParamValue, at: &mut usize, leases: &mut u32) -> Item {
    let mut inline = |bytes: usize| {
        let begin = *at;
        *at = (begin + bytes).next_multiple_of(call::ALIGN);
        Location::Inline { at: begin as u32, bytes: bytes as u32 }
    };
    match slot {
        ParamValue::Scalar(s) => Item::Scalar(*s),
        // It stays here until it is fetched.
        ParamValue::Text(_) if param.is_file => Item::Text(DType::Str, Location::None { bytes: 0 }),
        ParamValue::Text(bytes) => Item::Text(param.dtype, inline(bytes.len())),
        ParamValue::Array(meta, store) => {
            let bytes = store.len();
            let place = match store {
                Store::Own(..) => inline(bytes),
                Store::Block(..) => Location::None { bytes: bytes as u64 },
                Store::Lease(_) => {
                    *leases += 1;
                    Location::Block(BlockRef { segment: 0, index: *leases - 1, bytes: bytes as u64 })
                }
            };
            Item::Array(*meta, place)
        }
    }
}

/// The reply to a call that has failed; what it printed, if anything, stands in it.
pub(crate) fn failure(outcome: &Outcome, printed: Option<&Printed>, out: Vec<u8>) -> Vec<u8> {
    let mut w = Writer::over(out);
    call::put_outcome(&mut w, outcome, printed.map_or(0, printed_items));
    let mut at = 0;
    if let Some(printed) = printed {
        put_printed(&mut w, printed, &mut at);
    }
    let mut bytes = w.finish();
    if at > 0 {
        align(&mut bytes);
    }
    printed.into_iter().for_each(|printed| append_printed(&mut bytes, printed));
    bytes
}

/// What was printed is two texts, and if others may have printed some of it, their number.
fn printed_items(printed: &Printed) -> usize {
    printed.texts.len() + usize::from(printed.others > 0)
}

fn put_printed(w: &mut Writer, printed: &Printed, at: &mut usize) {
    for text in &printed.texts {
        let place = Location::Inline { at: *at as u32, bytes: text.len() as u32 };
        call::put_item(w, &Item::Text(DType::Str, place));
        *at += text.len().next_multiple_of(call::ALIGN);
    }
    if printed.others > 0 {
        call::put_item(w, &Item::Scalar(printed.others.into()));
    }
}

fn append_printed(bytes: &mut Vec<u8>, printed: &Printed) {
    for text in &printed.texts {
        bytes.extend_from_slice(text.as_bytes());
        align(bytes);
    }
}

fn align(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(call::ALIGN), 0);
}
