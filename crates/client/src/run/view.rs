//! Arrays as the user hands them over: by reference, with what they are and where their elements lie.
//! Elements that lie apart are gathered on their way into the arena: no copy is made before.

use std::borrow::Cow;

use forebay_arena::{Block, View as Memory};
use forebay_types::{ArrayMeta, DType, Element, Error, Order, Result, Shape, Strided};

use super::narrow::{Narrow, index_of};

/// Bytes of elements of less precision that are made at a time: few, for then the next ones are read while these are
/// written.
const MADE: usize = 4 << 10;

/// An array of the user's: what it is, and its bytes, dense in the order given or apart.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    meta: ArrayMeta,
    bytes: &'a [u8],
    /// Where the elements lie in the bytes; none when these are dense.
    apart: Option<Strided>,
    /// How elements become what `meta` says, where they have another type in the bytes.
    narrow: Option<Narrow>,
}

impl<'a> View<'a> {
    /// Checks that there are as many bytes as dtype and shape say.
    pub fn new(meta: ArrayMeta, bytes: &'a [u8]) -> Result<View<'a>> {
        let need = meta.bytes()?;
        if need != bytes.len() as u64 {
            return Err(Error::bad(format!(
                "an array {meta} has {need} bytes, but {} were given; pass dense data of that shape",
                bytes.len()
            )));
        }
        Ok(View { meta, bytes, apart: None, narrow: None })
    }

    /// Elements that lie apart, `strides` bytes from neighbour to neighbour along each axis, the first one at
    /// `offset`. They are kept row-major.
    pub fn strided(
        dtype: DType,
        shape: Shape,
        strides: &[i64],
        offset: u64,
        bytes: &'a [u8],
    ) -> Result<View<'a>> {
        let meta = ArrayMeta::new(dtype, shape);
        meta.bytes()?;
        let apart = Strided::new(dtype.size(), offset, shape, strides, bytes.len() as u64)?;
        Ok(View { meta, bytes, apart: Some(apart), narrow: None })
    }

    /// Elements that lie apart, and are kept in the order of `meta`.
    pub fn apart(meta: ArrayMeta, lies: Strided, bytes: &'a [u8]) -> Result<View<'a>> {
        meta.bytes()?;
        // Whoever made it for other bytes is told so.
        let lies =
            Strided::new(meta.dtype.size(), lies.offset(), meta.shape, &lies.strides(), bytes.len() as u64)?;
        Ok(View { meta, bytes, apart: Some(lies.as_array(meta.dtype, meta.order).1), narrow: None })
    }

    /// Numbers, row-major.
    pub fn of<T: Element>(values: &'a [T], shape: &[u64]) -> Result<View<'a>> {
        View::new(ArrayMeta::new(T::DTYPE, Shape::new(shape)?), bytemuck::cast_slice(values))
    }

    /// Text; the extent counts bytes.
    pub fn text(text: &'a str) -> View<'a> {
        View::flat(DType::Str, text.as_bytes())
    }

    /// Raw bytes.
    pub fn raw(bytes: &'a [u8]) -> View<'a> {
        View::flat(DType::Bytes, bytes)
    }

    fn flat(dtype: DType, bytes: &'a [u8]) -> View<'a> {
        let shape = Shape::new(&[bytes.len() as u64]).expect("the length of a slice is below 2^63");
        View { meta: ArrayMeta::new(dtype, shape), bytes, apart: None, narrow: None }
    }

    /// Column-major instead of row-major: the bytes stay, the first index runs fastest. Nothing to elements
    /// that lie apart.
    pub fn column_major(mut self) -> View<'a> {
        if self.apart.is_none() {
            self.meta.order = Order::F;
        }
        self
    }

    /// Its elements with less precision: rounded to the nearest, `f64` as `f32` or `f16`, `f32` as `f16`, `c128` as `c64`, or
    /// as shorter integers. They are converted while a snapshot copies them, and nothing is copied before. The same type
    /// changes nothing. `BadArgument` for other types, and for an integer that the shorter type does not hold.
    pub fn reduced(self, dtype: DType) -> Result<View<'a>> {
        let from = self.original().unwrap_or(self.meta.dtype);
        if dtype == from {
            return Ok(View { meta: ArrayMeta { dtype, ..self.meta }, narrow: None, ..self });
        }
        let narrow = Narrow::new(from, dtype)?;
        if narrow.is_exact() {
            let all = self.meta.shape.len() as usize;
            self.each_part(narrow, 0, all, |first, source| match narrow.beyond(source) {
                None => Ok(()),
                Some((at, value)) => Err(Error::bad(format!(
                    "the element {:?} is {value}, and no value of the dtype {dtype}; give another as_dtype, or leave it out",
                    index_of(&self.meta, first + at)
                ))),
            })?;
        }
        Ok(View { meta: ArrayMeta { dtype, ..self.meta }, narrow: Some(narrow), ..self })
    }

    /// The type that the elements have, where they are kept with less precision.
    pub fn original(&self) -> Option<DType> {
        self.narrow.map(|narrow| narrow.from)
    }

    /// What it is, as it is kept.
    pub fn meta(&self) -> &ArrayMeta {
        &self.meta
    }

    /// How many bytes its elements are, as they are kept.
    pub fn nbytes(&self) -> usize {
        match &self.narrow {
            Some(narrow) => self.meta.shape.len() as usize * narrow.to.size(),
            None => self.apart.as_ref().map_or(self.bytes.len(), Strided::bytes),
        }
    }

    /// Its elements one behind the other, as they are kept.
    pub fn bytes(&self) -> Cow<'a, [u8]> {
        self.bytes_and_lost().0
    }

    /// The same, and how many of them were finite and are not any more.
    pub(super) fn bytes_and_lost(&self) -> (Cow<'a, [u8]>, u64) {
        if let Some(narrow) = self.narrow {
            let mut out = Vec::with_capacity(self.nbytes());
            let lost = self.make(narrow, 0, self.nbytes(), |_, made| out.extend_from_slice(made));
            return (Cow::Owned(out), lost);
        }
        let Some(apart) = &self.apart else { return (Cow::Borrowed(self.bytes), 0) };
        let mut out = vec![0; apart.bytes()];
        apart.gather(self.bytes, &mut out);
        (Cow::Owned(out), 0)
    }

    /// The bytes as they lie, and where the elements are in them; none when they are dense. Of elements with less
    /// precision these are the original ones.
    pub(crate) fn parts(&self) -> (&'a [u8], Option<&Strided>) {
        (self.bytes, self.apart.as_ref())
    }

    /// Fills a block with the elements that begin at that byte of them all; how many were finite and are not any more.
    pub(super) fn fill(&self, block: &Block, from: usize) -> u64 {
        let length = block.len() as usize;
        match (&self.apart, self.narrow) {
            (_, Some(narrow)) => {
                self.make(narrow, from, length, |at, made| block.write_from(at as u64, made))
            }
            (None, None) => {
                block.write_from(0, &self.bytes[from..from + length]);
                0
            }
            (Some(apart), None) => {
                block.view().gather(apart, self.bytes, from);
                0
            }
        }
    }

    /// Makes the elements of so many bytes from that byte of them all on, and hands them on part by part.
    fn make(&self, narrow: Narrow, from: usize, length: usize, mut part: impl FnMut(usize, &[u8])) -> u64 {
        let size = narrow.to.size();
        let (first, count) = (from / size, length / size);
        let mut out = vec![0; length.min(MADE)];
        let mut lost = 0;
        let done = self.each_part(narrow, first, count, |number, source| {
            let made = &mut out[..source.len() / narrow.from.size() * size];
            lost += narrow.make(source, made);
            part((number - first) * size, made);
            Ok(())
        });
        debug_assert!(done.is_ok(), "no part is refused");
        lost
    }

    /// Goes through so many of the original elements, one behind the other, part by part; each with the number of its
    /// first element.
    fn each_part(
        &self,
        narrow: Narrow,
        first: usize,
        count: usize,
        mut part: impl FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let size = narrow.from.size();
        let at_once = MADE / narrow.to.size();
        let mut gathered = vec![0; if self.apart.is_some() { count.min(at_once) * size } else { 0 }];
        let mut at = first;
        while at < first + count {
            let n = at_once.min(first + count - at);
            match &self.apart {
                None => part(at, &self.bytes[at * size..(at + n) * size])?,
                Some(apart) => {
                    Memory::of(&mut gathered[..n * size]).gather(apart, self.bytes, at * size);
                    part(at, &gathered[..n * size])?;
                }
            }
            at += n;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_has_as_many_bytes_as_its_shape_says() {
        let v = [1.0f64, 2.0, 3.0];
        assert_eq!(View::of(&v, &[3, 1]).unwrap().bytes().len(), 24);
        let e = View::of(&v, &[2, 2]).unwrap_err();
        assert!(e.text().contains("32 bytes") && e.text().contains("24"), "{e}");
        assert_eq!(View::text("ä").meta().shape.extents(), [2]);
    }

    #[test]
    fn elements_that_lie_apart_are_read_from_where_they_lie() {
        let v = [1.0f64, 2.0, 3.0, 4.0];
        let bytes = bytemuck::cast_slice(&v);
        let shape = Shape::new(&[2]).unwrap();
        let backwards = View::strided(DType::F64, shape, &[-16], 24, bytes).unwrap();
        assert_eq!(backwards.nbytes(), 16);
        assert_eq!(*backwards.bytes(), *bytemuck::cast_slice::<f64, u8>(&[4.0, 2.0]));
        assert!(View::strided(DType::F64, shape, &[-16], 8, bytes).is_err());
    }

    #[test]
    fn elements_that_lie_apart_are_kept_in_the_order_that_is_asked_for() {
        let bytes: Vec<u8> = (0..12).collect();
        let shape = Shape::new(&[2, 3]).unwrap();
        let lies = Strided::new(1, 1, shape, &[1, 4], 12).unwrap();
        let kept = |order| View::apart(ArrayMeta { dtype: DType::U8, shape, order }, lies, &bytes).unwrap();
        assert_eq!(*kept(Order::C).bytes(), [1, 5, 9, 2, 6, 10]);
        assert_eq!(*kept(Order::F).bytes(), [1, 2, 5, 6, 9, 10]);
        assert!(View::apart(*kept(Order::F).meta(), lies, &bytes[..10]).is_err());
    }

    #[test]
    fn elements_are_reduced_from_wherever_they_lie_and_none_is_that_does_not_fit() {
        let v: Vec<i64> = (0..40_000).map(|i| i % 300).collect();
        let shape = Shape::new(&[2, 20_000]).unwrap();
        let dense = View::of(&v, &[2, 20_000]).unwrap();
        let kept: Vec<u8> = v.iter().flat_map(|n| (*n as i16).to_le_bytes()).collect();
        let small = dense.reduced(DType::I16).unwrap();
        assert_eq!(
            (small.nbytes(), small.original(), &*small.bytes()),
            (80_000, Some(DType::I64), &kept[..])
        );
        let e = dense.reduced(DType::U8).unwrap_err();
        assert!(e.text().contains("[0, 256] is 256") && e.text().contains("u8"), "{e}");
        // Every other one, backwards, the first index fastest.
        let lies = Strided::new(8, 39_999 * 8, shape, &[-16, -32], 640_000);
        assert!(lies.is_err());
        let lies =
            Strided::new(8, 39_999 * 8, Shape::new(&[2, 9_000]).unwrap(), &[-16, -32], 320_000).unwrap();
        let meta = ArrayMeta { dtype: DType::I64, shape: *lies.shape(), order: Order::F };
        let apart = View::apart(meta, lies, bytemuck::cast_slice(&v)).unwrap().reduced(DType::I16).unwrap();
        let wanted: Vec<u8> = (0..18_000).flat_map(|i| (v[39_999 - 2 * i] as i16).to_le_bytes()).collect();
        assert_eq!((*apart.bytes()).len(), wanted.len());
        assert!(*apart.bytes() == wanted[..]);
        assert_eq!(apart.reduced(DType::I64).unwrap().original(), None);
    }
}
