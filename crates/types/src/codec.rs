//! Reading and writing little-endian values. The reader never panics and never trusts a length.

use crate::{ArrayMeta, DType, Error, Order, Result, Shape, limits};

/// Appends values to a buffer.
#[derive(Default)]
pub struct Writer {
    buf: Vec<u8>,
}

impl Writer {
    /// An empty writer.
    pub fn new() -> Self {
        Writer::default()
    }

    /// A writer that goes on in a buffer (kept, to spare allocations).
    #[inline]
    pub fn over(mut buf: Vec<u8>) -> Self {
        buf.clear();
        Writer { buf }
    }

    /// What was written.
    #[inline]
    pub fn finish(self) -> Vec<u8> {
        self.buf
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self, v: u8) -> &mut Self {
        self.buf.push(v);
        self
    }

    /// Two bytes.
    #[inline]
    pub fn u16(&mut self, v: u16) -> &mut Self {
        self.raw(&v.to_le_bytes())
    }

    /// Four bytes.
    #[inline]
    pub fn u32(&mut self, v: u32) -> &mut Self {
        self.raw(&v.to_le_bytes())
    }

    /// Eight bytes.
    #[inline]
    pub fn u64(&mut self, v: u64) -> &mut Self {
        self.raw(&v.to_le_bytes())
    }

    /// Eight bytes, signed.
    #[inline]
    pub fn i64(&mut self, v: i64) -> &mut Self {
        self.raw(&v.to_le_bytes())
    }

    /// Eight bytes, double precision.
    #[inline]
    pub fn f64(&mut self, v: f64) -> &mut Self {
        self.raw(&v.to_le_bytes())
    }

    /// Bytes as they are.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.buf.extend_from_slice(bytes);
        self
    }

    /// A length of four bytes, then the bytes.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.u32(bytes.len() as u32).raw(bytes)
    }

    /// Text: a length of four bytes, then UTF-8.
    #[inline]
    pub fn str(&mut self, text: &str) -> &mut Self {
        self.bytes(text.as_bytes())
    }

    /// Rank in one byte, then the extents.
    #[inline]
    pub fn shape(&mut self, shape: &Shape) -> &mut Self {
        self.extents(shape.extents())
    }

    /// What an array is: dtype and order in one byte each, then the shape.
    #[inline]
    pub fn meta(&mut self, meta: &ArrayMeta) -> &mut Self {
        self.u8(meta.dtype as u8).u8(meta.order as u8).shape(&meta.shape)
    }

    /// A count in one byte, then the values.
    #[inline]
    pub fn extents(&mut self, extents: &[u64]) -> &mut Self {
        self.u8(extents.len() as u8);
        for e in extents {
            self.u64(*e);
        }
        self
    }
}

/// Takes values from bytes that nobody vouches for.
#[derive(Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader from the first byte on.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// How much is left.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// The next `n` bytes.
    #[inline]
    pub fn raw(&mut self, n: usize) -> Result<&'a [u8]> {
        if n > self.rest.len() {
            return Err(Error::new(
                crate::Code::Corrupt,
                format!("a record ends after {} of {n} bytes it announced", self.rest.len()),
            ));
        }
        let (head, rest) = self.rest.split_at(n);
        self.rest = rest;
        Ok(head)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.raw(N)?.try_into().expect("raw gives N bytes"))
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.raw(1)?[0])
    }

    /// Two bytes.
    #[inline]
    pub fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Four bytes.
    #[inline]
    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Eight bytes.
    #[inline]
    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Eight bytes, signed.
    #[inline]
    pub fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// Eight bytes, double precision.
    #[inline]
    pub fn f64(&mut self) -> Result<f64> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    /// A length of four bytes, then the bytes.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let n = self.u32()? as usize;
        self.raw(n)
    }

    /// Text.
    #[inline]
    pub fn str(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes()?)
            .map_err(|e| Error::new(crate::Code::Corrupt, format!("text in a record is not UTF-8: {e}")))
    }

    /// A shape.
    #[inline]
    pub fn shape(&mut self) -> Result<Shape> {
        let (n, extents) = self.extents()?;
        Shape::new(&extents[..n])
    }

    /// What an array is; its bytes can be counted.
    #[inline]
    pub fn meta(&mut self) -> Result<ArrayMeta> {
        let meta =
            ArrayMeta { dtype: DType::from_code(self.u8()?)?, order: self.order()?, shape: self.shape()? };
        meta.bytes().map(|_| meta)
    }

    /// An element order.
    #[inline]
    pub fn order(&mut self) -> Result<Order> {
        match self.u8()? {
            0 => Ok(Order::C),
            1 => Ok(Order::F),
            other => Err(Error::new(crate::Code::Corrupt, format!("{other} is no element order"))),
        }
    }

    /// A count of at most eight, then the values.
    #[inline]
    pub fn extents(&mut self) -> Result<(usize, [u64; limits::RANK])> {
        let n = self.u8()? as usize;
        if n > limits::RANK {
            return Err(Error::new(crate::Code::Corrupt, format!("a record announces an array of rank {n}")));
        }
        let mut extents = [0; limits::RANK];
        for e in &mut extents[..n] {
            *e = self.u64()?;
        }
        Ok((n, extents))
    }
}
