//! Arrays as the user hands them over: by reference, dense, with what they are.

use forebay_types::{ArrayMeta, DType, Element, Error, Order, Result, Shape};

/// An array of the user's: what it is, and its bytes, dense in the order given.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    meta: ArrayMeta,
    bytes: &'a [u8],
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
        Ok(View { meta, bytes })
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
        View { meta: ArrayMeta::new(dtype, shape), bytes }
    }

    /// Column-major instead of row-major: the bytes stay, the first index runs fastest.
    pub fn column_major(mut self) -> View<'a> {
        self.meta.order = Order::F;
        self
    }

    /// What it is.
    pub fn meta(&self) -> &ArrayMeta {
        &self.meta
    }

    /// Its bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
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
}
