//! Arrays as the user hands them over: by reference, with what they are and where their elements lie.
//! Elements that lie apart are gathered on their way into the arena: no copy is made before.

use std::borrow::Cow;

use forebay_arena::Block;
use forebay_types::{ArrayMeta, DType, Element, Error, Order, Result, Shape, Strided};

/// An array of the user's: what it is, and its bytes, dense in the order given or apart.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    meta: ArrayMeta,
    bytes: &'a [u8],
    /// Where the elements lie in the bytes; none when these are dense.
    apart: Option<Strided>,
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
        Ok(View { meta, bytes, apart: None })
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
        Ok(View { meta, bytes, apart: Some(apart) })
    }

    /// Elements that lie apart, and are kept in the order of `meta`.
    pub fn apart(meta: ArrayMeta, lies: Strided, bytes: &'a [u8]) -> Result<View<'a>> {
        meta.bytes()?;
        // Whoever made it for other bytes is told so.
        let lies =
            Strided::new(meta.dtype.size(), lies.offset(), meta.shape, &lies.strides(), bytes.len() as u64)?;
        Ok(View { meta, bytes, apart: Some(lies.as_array(meta.dtype, meta.order).1) })
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
        View { meta: ArrayMeta::new(dtype, shape), bytes, apart: None }
    }

    /// Column-major instead of row-major: the bytes stay, the first index runs fastest. Nothing to elements
    /// that lie apart.
    pub fn column_major(mut self) -> View<'a> {
        if self.apart.is_none() {
            self.meta.order = Order::F;
        }
        self
    }

    /// What it is.
    pub fn meta(&self) -> &ArrayMeta {
        &self.meta
    }

    /// How many bytes its elements are.
    pub fn nbytes(&self) -> usize {
        self.apart.as_ref().map_or(self.bytes.len(), Strided::bytes)
    }

    /// Its elements one behind the other.
    pub fn bytes(&self) -> Cow<'a, [u8]> {
        let Some(apart) = &self.apart else { return Cow::Borrowed(self.bytes) };
        let mut out = vec![0; apart.bytes()];
        apart.gather(self.bytes, &mut out);
        Cow::Owned(out)
    }

    /// The bytes as they lie, and where the elements are in them; none when they are dense.
    pub(crate) fn parts(&self) -> (&'a [u8], Option<&Strided>) {
        (self.bytes, self.apart.as_ref())
    }

    /// Fills a block with the elements that begin at that byte of them all.
    pub(super) fn fill(&self, block: &Block, from: usize) {
        let length = block.len() as usize;
        match &self.apart {
            None => block.write_from(0, &self.bytes[from..from + length]),
            Some(apart) => block.view().gather(apart, self.bytes, from),
        }
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
}
