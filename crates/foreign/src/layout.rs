//! Elements laid out as a routine wants them: apart by its increment, or at an aligned address. They travel together.

use forebay_arena::View;
use forebay_types::{DType, Error, Result, Shape, Strided};

use crate::ffi::Room;

/// Most bytes of one array, laid out.
pub(crate) const BYTES: u64 = 1 << 40;

/// An array laid out in memory of the server.
pub(crate) struct LaidOut {
    room: Room,
    part: Strided,
}

/// Memory for so many elements.
pub(crate) fn room(name: &str, dtype: DType, elements: u64, align: usize) -> Result<Room> {
    let bytes = elements.checked_mul(dtype.size() as u64).filter(|b| *b <= BYTES);
    let bytes = bytes.ok_or_else(|| {
        Error::bad(format!(
            "{name} would have {elements} elements of {dtype}, which is more than 2^40 bytes; give less"
        ))
    })?;
    Room::zeroed(bytes as usize, align).ok_or_else(|| {
        Error::new(forebay_types::Code::Full, format!("there is no memory for the {bytes} bytes of {name}"))
    })
}

impl LaidOut {
    /// Room for elements that lie so many steps of an element apart along each axis, the outer one first, filled with
    /// `from` if there is something to fill in.
    pub fn new(
        name: &str,
        dtype: DType,
        shape: &[u64; 2],
        steps: &[u64; 2],
        align: usize,
        from: Option<View<'_>>,
    ) -> Result<LaidOut> {
        let reach = |i: usize| shape[i].saturating_sub(1).saturating_mul(steps[i]);
        let elements = reach(0).saturating_add(reach(1)).saturating_add(1);
        let mut room = room(name, dtype, elements, align)?;
        let strides = steps.map(|step| (step * dtype.size() as u64) as i64);
        let len = room.bytes().len() as u64;
        let part = Strided::new(dtype.size(), 0, Shape::new(shape)?, &strides, len)?;
        if let Some(from) = from {
            from.scatter_to(&part, View::of(room.bytes()));
        }
        Ok(LaidOut { room, part })
    }

    /// Brings the elements back.
    pub fn gather(&mut self, into: View<'_>) {
        into.gather_of(&self.part, View::of(self.room.bytes()), 0);
    }

    pub fn as_ptr(&self) -> *mut u8 {
        self.room.as_ptr()
    }
}
