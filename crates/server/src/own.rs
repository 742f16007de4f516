//! The services that every server has: those on the arrays it holds.

use std::sync::Arc;

use forebay_link::{QuickMap, standing};
use forebay_types::held::{CREATE, GET, KILL, PUT};
use forebay_types::{ArrayMeta, DType, Error, Order, Result, Shape, Signature, Strided};

use crate::held::Arrays;
use crate::service::{Body, Service};
use crate::{Arg, Call};

/// Making an array of so many bytes takes longer than somebody takes to stand in.
const LARGE: u64 = 1 << 20;

/// All of them, by name.
pub(crate) fn services() -> Result<QuickMap<String, Arc<Service>>> {
    let all: [(&str, Box<Body>); 4] =
        [(CREATE, Box::new(create)), (PUT, Box::new(put)), (GET, Box::new(get)), (KILL, Box::new(kill))];
    let mut services = QuickMap::default();
    for (text, body) in all {
        let signature = Signature::parse(text)?;
        services.insert(signature.name().as_str().to_owned(), Arc::new(Service::new(signature, body)));
    }
    Ok(services)
}

fn arrays(call: &Call) -> Result<&Arrays> {
    let caller = call.caller.as_ref();
    caller.map(|c| &c.peer.arrays).ok_or_else(|| Error::internal("a call without a caller"))
}

fn create(call: &mut Call) -> Result<()> {
    let [number, dtype, order, zero, shape, _] = call.args()?;
    let number = number.i64()? as u64;
    let meta = ArrayMeta {
        dtype: DType::from_code(dtype.i64()? as u8)?,
        order: if order.i64()? == 0 { Order::C } else { Order::F },
        shape: Shape::new(&shape.view()?.to_vec())?,
    };
    if meta.dtype.is_text() {
        return Err(Error::bad(format!("an array of {} cannot be held; use u8", meta.dtype)));
    }
    let zero = zero.scalar()?.bytes() != [0];
    // The system finds and clears the pages: others are served meanwhile.
    let _wait = standing::Wait::begin();
    if zero && meta.bytes()? >= LARGE {
        standing::leave();
    }
    let block = arrays(call)?.create(number, meta, zero)?;
    call.arg(5)?.set(block)
}

fn kill(call: &mut Call) -> Result<()> {
    let number = call.arg(0)?.i64()? as u64;
    arrays(call)?.kill(number)
}

fn put(call: &mut Call) -> Result<()> {
    let [item, offset, shape, strides, array, data] = call.args()?;
    let (_, into) = array.array()?;
    let part = part((item.i64()?, offset.i64()?), shape, strides, into.len())?;
    let (_, from) = data.array()?;
    fits(&part, from.len())?;
    from.scatter_to(&part, into);
    Ok(())
}

fn get(call: &mut Call) -> Result<()> {
    let [item, offset, shape, strides, array, data] = call.args()?;
    let (_, from) = array.array()?;
    let part = part((item.i64()?, offset.i64()?), shape, strides, from.len())?;
    let (_, out) = data.array()?;
    fits(&part, out.len())?;
    out.gather_of(&part, from, 0);
    Ok(())
}

fn part((item, offset): (i64, i64), shape: Arg, strides: Arg, room: usize) -> Result<Strided> {
    // A whole multiple of nothing would have no end.
    if !(1..=16).contains(&item) {
        return Err(Error::bad(format!("elements of {item} bytes do not exist")));
    }
    let shape = Shape::new(&shape.view()?.to_vec())?;
    shape.len().checked_mul(item as u64).ok_or_else(|| Error::bad(format!("{shape} is too large")))?;
    Strided::new(item as usize, offset as u64, shape, &strides.view()?.to_vec(), room as u64)
}

fn fits(part: &Strided, bytes: usize) -> Result<()> {
    match part.bytes() == bytes {
        true => Ok(()),
        false => Err(Error::bad(format!("a part of {} bytes comes with {bytes}", part.bytes()))),
    }
}
