//! Arguments as a caller has them, and results that are returned.

use std::borrow::Cow;

use forebay_arena::{Block, View, zeros};
use forebay_link::pool::Pool;
use forebay_types::call::INLINE_BYTES;
use forebay_types::{ArrayMeta, Element, Error, Given, Order, Result, Scalar, Shape, Strided};

use super::reference::Reference;
use super::transfer::OwnCopy;

/// An argument. Arrays are borrowed until the call is waited for.
#[derive(Debug)]
pub enum Arg<'a> {
    /// A scalar; it is converted to the dtype of its parameter if its value survives that.
    Scalar(Scalar),
    /// Text, or the path of a file.
    Str(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// An array that is only read.
    In(ArrayMeta, &'a [u8]),
    /// An array that may be written; results are copied into it when the call is complete.
    Mut(ArrayMeta, &'a mut [u8]),
    /// An array whose elements lie apart, only read: what it is, where they lie, and the bytes around.
    /// [`Strided::as_array`] gives the first two.
    Strided(ArrayMeta, Strided, &'a [u8]),
    /// An array whose elements lie apart, which may be written: what it is, where they lie, and the bytes around.
    /// Bytes between the elements stay as they are.
    StridedMut(ArrayMeta, Strided, &'a mut [u8]),
    /// An array that a server holds.
    Ref(ArrayMeta, Cow<'a, Reference>),
}

/// A result that is returned: what comes back and is no array.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A scalar.
    Scalar(Scalar),
    /// Text.
    Str(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl<'a> Arg<'a> {
    /// An array that is only read.
    pub fn array<T: Element>(data: &'a [T], shape: &[u64]) -> Result<Arg<'a>> {
        let meta = ArrayMeta::new(T::DTYPE, Shape::new(shape)?);
        let arg = Arg::In(meta, bytemuck::cast_slice(data));
        arg.check().map(|()| arg)
    }

    /// An array that may be written.
    pub fn array_mut<T: Element>(data: &'a mut [T], shape: &[u64]) -> Result<Arg<'a>> {
        let meta = ArrayMeta::new(T::DTYPE, Shape::new(shape)?);
        let arg = Arg::Mut(meta, bytemuck::cast_slice_mut(data));
        arg.check().map(|()| arg)
    }

    /// Has its elements travel in that order, whatever that is in which they lie.
    pub(super) fn travel_in(&mut self, order: Order) -> Result<()> {
        let (meta, lies) = match self {
            Arg::In(meta, _) | Arg::Mut(meta, _) => (*meta, Strided::dense(meta)?),
            // The axes of what is dense in column-major order are those of the array the other way round.
            Arg::Strided(meta, lies, _) | Arg::StridedMut(meta, lies, _) => {
                (*meta, lies.as_array(meta.dtype, meta.order).1)
            }
            _ => return Ok(()),
        };
        if meta.order == order {
            return Ok(());
        }
        let (meta, lies) = lies.as_array(meta.dtype, order);
        *self = match std::mem::replace(self, Arg::Bytes(&[])) {
            Arg::In(_, bytes) | Arg::Strided(_, _, bytes) => Arg::Strided(meta, lies, bytes),
            Arg::Mut(_, bytes) | Arg::StridedMut(_, _, bytes) => Arg::StridedMut(meta, lies, bytes),
            as_it_is => as_it_is,
        };
        Ok(())
    }

    /// Checks that an array has as many bytes as its dtype and shape say.
    pub(super) fn check(&self) -> Result<()> {
        let (meta, bytes) = match self {
            Arg::In(meta, bytes) => (meta, bytes.len()),
            Arg::Mut(meta, bytes) => (meta, bytes.len()),
            Arg::Strided(meta, strided, _) | Arg::StridedMut(meta, strided, _) => (meta, strided.bytes()),
            _ => return Ok(()),
        };
        match meta.bytes()? == bytes as u64 {
            true => Ok(()),
            false => {
                Err(Error::bad(format!("an array {meta} has {} bytes and {bytes} were given", meta.bytes()?)))
            }
        }
    }

    /// As it is sent from a copy.
    pub(super) fn without_bytes(&self) -> Arg<'static> {
        match self {
            Arg::Scalar(scalar) => Arg::Scalar(*scalar),
            Arg::Str(_) => Arg::Str(""),
            Arg::Bytes(_) => Arg::Bytes(&[]),
            Arg::In(meta, _) | Arg::Strided(meta, ..) => Arg::In(*meta, &[]),
            Arg::Mut(meta, _) | Arg::StridedMut(meta, ..) => Arg::In(*meta, &[]),
            Arg::Ref(meta, reference) => Arg::Ref(*meta, Cow::Owned(Reference::clone(reference))),
        }
    }

    pub(super) fn given(&self) -> Given {
        match self {
            Arg::Scalar(s) => Given::Scalar(*s),
            Arg::Str(_) => Given::Str,
            Arg::Bytes(_) => Given::Bytes,
            Arg::In(meta, _) | Arg::Strided(meta, ..) => Given::Array { meta: *meta, writable: false },
            Arg::Mut(meta, _) | Arg::StridedMut(meta, ..) | Arg::Ref(meta, _) => {
                Given::Array { meta: *meta, writable: true }
            }
        }
    }

    /// How many bytes travel, if it goes.
    pub(super) fn len(&self) -> usize {
        match self {
            Arg::Scalar(_) | Arg::Ref(..) => 0,
            Arg::Str(text) => text.len(),
            Arg::Bytes(bytes) | Arg::In(_, bytes) => bytes.len(),
            Arg::Mut(_, bytes) => bytes.len(),
            Arg::Strided(_, strided, _) | Arg::StridedMut(_, strided, _) => strided.bytes(),
        }
    }

    /// Where its bytes lie.
    pub(super) fn origin(&self) -> usize {
        match self {
            Arg::Scalar(_) | Arg::Ref(..) => 0,
            Arg::Str(text) => text.as_ptr() as usize,
            Arg::Bytes(bytes) | Arg::In(_, bytes) | Arg::Strided(_, _, bytes) => bytes.as_ptr() as usize,
            Arg::Mut(_, bytes) | Arg::StridedMut(_, _, bytes) => bytes.as_ptr() as usize,
        }
    }

    /// Its elements one behind the other.
    pub(super) fn bytes(&self) -> Result<Cow<'_, [u8]>> {
        Ok(match self {
            Arg::Scalar(_) | Arg::Ref(..) => Cow::Borrowed(&[]),
            Arg::Str(text) => Cow::Borrowed(text.as_bytes()),
            Arg::Bytes(bytes) | Arg::In(_, bytes) => Cow::Borrowed(bytes),
            Arg::Mut(_, bytes) => Cow::Borrowed(bytes),
            Arg::Strided(_, strided, bytes) => return gathered(strided, bytes),
            Arg::StridedMut(_, strided, bytes) => return gathered(strided, bytes),
        })
    }

    /// Its elements one behind the other, in memory of their own.
    pub(super) fn copied(&self, pool: &Pool) -> Result<OwnCopy> {
        let len = self.len();
        if len <= INLINE_BYTES {
            return Ok(OwnCopy::small(self.bytes()?.into_owned()));
        }
        let mut lease = pool.take(len as u64)?;
        match self {
            Arg::Strided(_, strided, bytes) => strided.gather(bytes, lease.bytes_mut()),
            Arg::StridedMut(_, strided, bytes) => strided.gather(bytes, lease.bytes_mut()),
            _ => lease.bytes_mut().copy_from_slice(&self.bytes()?),
        }
        Ok(OwnCopy::large(lease))
    }

    /// Copies its elements to where a large argument lies.
    pub(super) fn fill(&self, block: &Block) -> Result<()> {
        match self {
            Arg::Strided(_, strided, bytes) => block.view().gather(strided, bytes, 0),
            Arg::StridedMut(_, strided, bytes) => block.view().gather(strided, bytes, 0),
            _ => block.write_shared(0, &self.bytes()?),
        }
        Ok(())
    }

    /// Is the caller's alone again: nobody looks at what it borrowed any more.
    pub(super) fn let_go(&mut self) {
        match self {
            Arg::Str(text) => *text = "",
            Arg::Bytes(bytes) | Arg::In(_, bytes) | Arg::Strided(_, _, bytes) => *bytes = &[],
            Arg::Mut(_, bytes) | Arg::StridedMut(_, _, bytes) => *bytes = &mut [],
            Arg::Scalar(_) | Arg::Ref(..) => {}
        }
    }

    /// Takes a result of that kind; none when it does not fit.
    pub(super) fn take(&mut self, came: &ArrayMeta, from: &[u8]) -> Option<()> {
        match self {
            Arg::Mut(meta, bytes) if came == meta && from.len() == bytes.len() => bytes.copy_from_slice(from),
            Arg::StridedMut(meta, strided, bytes) if came == meta && from.len() == strided.bytes() => {
                strided.scatter(from, bytes);
            }
            _ => return None,
        }
        Some(())
    }

    /// Takes a result of that kind out of shared memory; none when it does not fit.
    pub(super) fn take_view(&mut self, came: &ArrayMeta, from: View<'_>) -> Option<()> {
        match self {
            Arg::Mut(meta, bytes) if came == meta && from.len() == bytes.len() => from.copy_to(bytes),
            Arg::StridedMut(meta, strided, bytes) if came == meta && from.len() == strided.bytes() => {
                from.scatter_to(strided, View::of(bytes));
            }
            _ => return None,
        }
        Some(())
    }
}

fn gathered<'a>(strided: &Strided, bytes: &[u8]) -> Result<Cow<'a, [u8]>> {
    let mut out = zeros(strided.bytes())?;
    strided.gather(bytes, &mut out);
    Ok(Cow::Owned(out))
}

impl<'a> From<&'a Reference> for Arg<'a> {
    fn from(reference: &'a Reference) -> Self {
        Arg::Ref(*reference.meta(), Cow::Borrowed(reference))
    }
}

impl<'a> From<&'a str> for Arg<'a> {
    fn from(text: &'a str) -> Self {
        Arg::Str(text)
    }
}

macro_rules! scalars {
    ($($rust:ty),*) => {$(
        impl From<$rust> for Arg<'_> {
            fn from(value: $rust) -> Self {
                Arg::Scalar(value.into())
            }
        }
    )*};
}
scalars!(i8, i16, i32, i64, u8, u16, u32, u64, f32, f64, bool);

impl<'a, T: Element> From<&'a [T]> for Arg<'a> {
    /// One dimension.
    fn from(data: &'a [T]) -> Self {
        let shape = Shape::new(&[data.len() as u64]).unwrap_or_default();
        Arg::In(ArrayMeta::new(T::DTYPE, shape), bytemuck::cast_slice(data))
    }
}

impl<'a, T: Element> From<&'a mut [T]> for Arg<'a> {
    /// One dimension.
    fn from(data: &'a mut [T]) -> Self {
        let shape = Shape::new(&[data.len() as u64]).unwrap_or_default();
        Arg::Mut(ArrayMeta::new(T::DTYPE, shape), bytemuck::cast_slice_mut(data))
    }
}
