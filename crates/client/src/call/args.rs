//! Arguments as a caller has them, and results that are returned.

use forebay_types::{ArrayMeta, Element, Error, Given, Result, Scalar, Shape};

/// An argument. Arrays are borrowed until the call is waited for.
#[derive(Debug)]
pub enum Arg<'a> {
    /// A scalar; it is converted to the dtype of its parameter if its value survives that.
    Scalar(Scalar),
    /// Text.
    Str(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// An array that is only read.
    In(ArrayMeta, &'a [u8]),
    /// An array that may be written; results are copied into it when the call is complete.
    Mut(ArrayMeta, &'a mut [u8]),
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

    /// Checks that an array has as many bytes as its dtype and shape say.
    pub(super) fn check(&self) -> Result<()> {
        let (meta, bytes) = match self {
            Arg::In(meta, bytes) => (meta, bytes.len()),
            Arg::Mut(meta, bytes) => (meta, bytes.len()),
            _ => return Ok(()),
        };
        match meta.bytes()? == bytes as u64 {
            true => Ok(()),
            false => {
                Err(Error::bad(format!("an array {meta} has {} bytes and {bytes} were given", meta.bytes()?)))
            }
        }
    }

    pub(super) fn given(&self) -> Given {
        match self {
            Arg::Scalar(s) => Given::Scalar(*s),
            Arg::Str(_) => Given::Str,
            Arg::Bytes(_) => Given::Bytes,
            Arg::In(meta, _) => Given::Array { meta: *meta, writable: false },
            Arg::Mut(meta, _) => Given::Array { meta: *meta, writable: true },
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Arg::Scalar(_) => &[],
            Arg::Str(text) => text.as_bytes(),
            Arg::Bytes(bytes) | Arg::In(_, bytes) => bytes,
            Arg::Mut(_, bytes) => bytes,
        }
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
