//! Arguments of a call that lie in Python's objects, with the objects that keep them alive.
//!
//! A call under way reads and writes the caller's arrays until it is complete, and Python cannot
//! say how long a variable lives; so the arguments borrow for ever and travel with references
//! to their owners. Neither leaves this module without the other.

use std::ops::Range;
use std::time::Duration;

use forebay::call::{
    Answer, Arg, Bag, Called, Canceller, Client, Future, Printed, Timing, Value, probe_any, wait_all,
    wait_any,
};
use forebay::{ArrayMeta, DType, Error, Result, Scalar, Shape, Signature, Strided};
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::reference::Reference;

/// The arguments of a call that is not yet sent.
#[derive(Default)]
pub struct PendingArguments {
    // Before `kept`: what borrows goes before what is borrowed.
    args: Vec<Arg<'static>>,
    kept: Vec<Py<PyAny>>,
    arrays: Vec<(Range<usize>, bool)>,
}

/// A call under way.
pub struct HeldFuture {
    // Before `_kept`, as above.
    future: Future<'static>,
    _kept: Vec<Py<PyAny>>,
}

impl PendingArguments {
    /// A number or truth value.
    pub fn push_scalar(&mut self, scalar: Scalar) {
        self.args.push(Arg::Scalar(scalar));
    }

    /// Text.
    pub fn push_text(&mut self, text: &Bound<'_, PyString>) -> PyResult<()> {
        let letters: *const str = crate::errors::letters(text)?;
        // SAFETY: the letters of a str never move nor change while it lives, and `kept` lives
        // as long as the arguments.
        self.args.push(Arg::Str(unsafe { &*letters }));
        self.kept.push(text.clone().into_any().unbind());
        Ok(())
    }

    /// Bytes.
    pub fn push_bytes(&mut self, bytes: &Bound<'_, PyBytes>) {
        let content: *const [u8] = bytes.as_bytes();
        // SAFETY: as with text: bytes never move nor change while they live.
        self.args.push(Arg::Bytes(unsafe { &*content }));
        self.kept.push(bytes.clone().into_any().unbind());
    }

    /// An array that is dense in the order of `meta`, to be written when `write` says so and NumPy lets it; false, and
    /// nothing done, when it is not, or when it shares memory with another one and either is to be written.
    pub fn push_array(&mut self, array: &Bound<'_, PyUntypedArray>, meta: ArrayMeta, write: bool) -> bool {
        let Some(bytes) = super::bytes(array, meta.order) else { return false };
        let write = write && super::writable(array);
        if !self.claim(bytes, write) {
            return false;
        }
        let data = match bytes.is_empty() {
            true => std::ptr::NonNull::<u128>::dangling().as_ptr().cast::<u8>(),
            // SAFETY: the pointer of a live array object is valid.
            false => unsafe { (*array.as_array_ptr()).data.cast::<u8>() },
        };
        let length = bytes.len();
        // SAFETY: a dense array has `length` bytes at `data` (checked by `bytes`), and may be
        // written if NumPy says so (checked). `kept` keeps the array alive as long as the argument,
        // and NumPy does not move its memory while others refer to it. No other argument overlaps
        // a written one (checked). Other threads of the program may touch the array meanwhile,
        // which the user is told not to do, as with every call under way.
        self.args.push(unsafe {
            match write {
                true => Arg::Mut(meta, std::slice::from_raw_parts_mut(data, length)),
                false => Arg::In(meta, std::slice::from_raw_parts(data, length)),
            }
        });
        self.kept.push(array.clone().into_any().unbind());
        true
    }

    /// An array whose elements lie apart; false, and nothing done, when one element would stand for several
    /// results, or when it shares memory with another one and either is to be written.
    pub fn push_apart(&mut self, array: &Bound<'_, PyUntypedArray>, dtype: DType, shape: Shape) -> bool {
        let write = super::writable(array);
        let once = array.shape().iter().zip(array.strides()).all(|(n, step)| *n < 2 || *step != 0);
        let Some((bytes, offset)) = super::around(array) else { return false };
        let strides: Vec<i64> = array.strides().iter().map(|n| *n as i64).collect();
        let Ok(apart) = Strided::new(dtype.size(), offset, shape, &strides, bytes.len() as u64) else {
            return false;
        };
        if (write && !once) || !self.claim(bytes, write) {
            return false;
        }
        let (meta, apart) = apart.as_array(dtype, apart.order());
        let data = bytes.as_ptr().cast_mut();
        // SAFETY: as in `push_array`, with the bytes around the elements, of which only the elements are read
        // and written.
        self.args.push(unsafe {
            match write {
                true => Arg::StridedMut(meta, apart, std::slice::from_raw_parts_mut(data, bytes.len())),
                false => Arg::Strided(meta, apart, std::slice::from_raw_parts(data, bytes.len())),
            }
        });
        self.kept.push(array.clone().into_any().unbind());
        true
    }

    /// Notes the memory of an argument; false when it meets that of another one and either is to be written.
    fn claim(&mut self, bytes: &[u8], write: bool) -> bool {
        let range = bytes.as_ptr() as usize..bytes.as_ptr() as usize + bytes.len();
        let meets = |other: &Range<usize>| other.start < range.end && range.start < other.end;
        let free = !self.arrays.iter().any(|(other, written)| (write || *written) && meets(other));
        if free {
            self.arrays.push((range, write));
        }
        free
    }

    /// An array that a server holds.
    pub fn push_reference(&mut self, reference: &Bound<'_, Reference>) {
        let inner: *const forebay::Reference = &**reference.get().inner();
        // SAFETY: the reference lies behind an `Arc` that its Python object never lets go of while
        // it lives, and `kept` lives as long as the arguments.
        self.args.push(Arg::from(unsafe { &*inner }));
        self.kept.push(reference.clone().into_any().unbind());
    }

    /// Sends the call.
    pub fn send(self, client: &Client, name: &str, allowed: Option<Duration>) -> Result<HeldFuture> {
        let future = client.call_async(name, self.args, allowed)?;
        Ok(HeldFuture { future, _kept: self.kept })
    }

    /// Makes a task of them, which copies what they show.
    pub fn add_to(self, bag: &mut Bag) -> Result<u64> {
        bag.add(self.args)
    }

    /// Calls a service whose results are wanted at once and whose timing nobody asks for.
    pub fn call_now(self, client: &Client, name: &str) -> Result<HeldCall> {
        Ok(match client.call_now(name, self.args)? {
            Called::Over(answer) => HeldCall::Over { answer, _kept: self.kept },
            Called::UnderWay(future) => HeldFuture { future: *future, _kept: self.kept }.into(),
        })
    }
}

/// A call whose results are wanted at once, with what it borrows.
pub enum HeldCall {
    /// It is over.
    Over { answer: Answer, _kept: Vec<Py<PyAny>> },
    /// It goes on.
    UnderWay(Box<HeldFuture>),
}

impl From<HeldFuture> for HeldCall {
    fn from(held: HeldFuture) -> HeldCall {
        HeldCall::UnderWay(Box::new(held))
    }
}

impl HeldCall {
    /// What was called.
    pub fn signature(&self) -> &Signature {
        match self {
            HeldCall::Over { answer, .. } => answer.signature(),
            HeldCall::UnderWay(held) => held.signature(),
        }
    }

    /// What the service printed, if it has failed.
    pub fn printed(&self) -> Option<&Printed> {
        match self {
            HeldCall::Over { .. } => None,
            HeldCall::UnderWay(held) => held.printed(),
        }
    }

    /// Keeps it among the calls of its client that have failed, for that reason.
    pub fn note(&self, client: &Client, why: &Error) {
        match self {
            HeldCall::Over { answer, .. } => answer.note(client, why),
            HeldCall::UnderWay(held) => held.note(why),
        }
    }
}

impl HeldFuture {
    /// Waits for its end; takes the returned results.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<Vec<Value>> {
        self.future.wait(timeout)
    }

    /// Whether it is complete.
    pub fn done(&mut self) -> bool {
        self.future.done()
    }

    /// Issues it again if its server is lost; says whether that is still to be done.
    pub fn tend(&mut self) -> bool {
        self.future.tend()
    }

    /// Whether there is something to do about it; waits for nothing.
    pub fn has_news(&self) -> bool {
        self.future.has_news()
    }

    /// Whether it has not been found complete.
    pub fn is_under_way(&self) -> bool {
        self.future.is_under_way()
    }

    /// What gives it up while another thread has it.
    pub fn canceller(&mut self) -> Canceller {
        self.future.canceller()
    }

    /// Gives it up.
    pub fn cancel(&mut self) {
        self.future.cancel();
    }

    /// Gives it up after that time; what the caller is told.
    pub fn give_up_late(&mut self, waited: Duration) -> Error {
        self.future.give_up_late(waited)
    }

    /// What was called.
    pub fn signature(&self) -> &Signature {
        self.future.signature()
    }

    /// What the service printed, if it has failed.
    pub fn printed(&self) -> Option<&Printed> {
        self.future.printed()
    }

    /// Keeps it among the calls that have failed, for that reason.
    pub fn note(&self, why: &Error) {
        self.future.note(why);
    }

    /// Where its time went.
    pub fn timing(&self) -> &Timing {
        self.future.timing()
    }

    /// Waits for all; whether all are complete.
    pub fn wait_all(futures: &mut [&mut HeldFuture], timeout: Option<Duration>) -> bool {
        let mut inner: Vec<&mut Future> = futures.iter_mut().map(|f| &mut f.future as &mut Future).collect();
        wait_all(&mut inner, timeout)
    }

    /// One that is complete; its index.
    pub fn probe_any(futures: &mut [&mut HeldFuture]) -> Option<usize> {
        let mut inner: Vec<&mut Future> = futures.iter_mut().map(|f| &mut f.future as &mut Future).collect();
        probe_any(&mut inner)
    }

    /// Waits for one; its index.
    pub fn wait_any(futures: &mut [&mut HeldFuture], timeout: Option<Duration>) -> Option<usize> {
        let mut inner: Vec<&mut Future> = futures.iter_mut().map(|f| &mut f.future as &mut Future).collect();
        wait_any(&mut inner, timeout)
    }
}
