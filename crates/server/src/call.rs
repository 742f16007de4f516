//! A call as the service sees it: every parameter in place.
//!
//! A large array is seen in the client's segment, one that the client refers to is the array itself
//! (which a service that only reads it shares with others, and must leave as it is), a small one lies in a
//! buffer that the reply sends back; text and bytes are copies. A service in Rust takes all parameters at
//! once and gets each as what it is:
//!
//! ```
//! use forebay_server::Call;
//! use forebay_types::Result;
//! fn axpy(call: &mut Call) -> Result<()> {
//!     let [a, x, y] = call.args()?;
//!     let (a, x, y) = (a.f64()?, x.view::<f64>()?, y.view::<f64>()?);
//!     (0..y.len()).for_each(|i| y.set(i, y.get(i) + a * x.get(i)));
//!     Ok(())
//! }
//! ```
//!
//! Arrays are [views](View), not slices: their memory is the client's, too, and a client that breaks the
//! protocol may change a number between two looks at it, or give one array for two parameters. What a
//! service decides by (an index, a length) it takes out once and checks; then it may compute wrong numbers for such
//! a client, and nothing worse. `to_vec` and `copy_to` give numbers that stay as they are.
//!
//! A binding goes parameter by parameter: [`Call::param`] says what it is, [`Call::arg`] gives it.

use std::any::Any;
use std::sync::{Arc, Mutex};

use forebay_arena::{Block, Plain, Segment, View};
use forebay_link::call::Room;
use forebay_link::pool::Lease;
use forebay_types::call::RequestId;
use forebay_types::{ArrayMeta, DType, Element, Error, Param, Result, Scalar, Signature, Way, ending};

use crate::files::KeptFile;
use crate::held::Turn;
use crate::peer::Peer;
use forebay_host::lock;

/// Where the bytes of an array are.
pub(crate) enum Store {
    /// In a buffer of this process, aligned for every element type; so many bytes of it count.
    Own(Vec<u128>, usize),
    /// In the client's segment or in memory that this server holds for it; so many bytes count.
    Block(Block, usize, Whose),
    /// In memory of this process, where it came from the network or goes there.
    Lease(Lease),
}

/// Whose a block is, and who looks at it longer than the call.
pub(crate) enum Whose {
    /// The client's, which uses it again when the call is over.
    Client(Option<Arc<LookedAt>>),
    /// Of an array that this server holds.
    Server,
}

/// A block of the client's that somebody looks at.
pub(crate) struct LookedAt {
    _map: Arc<dyn Any + Send + Sync>,
    /// Set when the call is over and it goes on: the client gets it back at the end of this.
    back: Mutex<Option<(Segment, u32, u32)>>,
}

impl Drop for LookedAt {
    fn drop(&mut self) {
        if let Some((segment, index, generation)) = lock(&self.back).take() {
            let _ = segment.release_generation(index, generation);
        }
    }
}

impl Store {
    /// A buffer of zeros.
    pub fn zeroed(bytes: usize) -> Store {
        Store::Own(vec![0; bytes.div_ceil(16)], bytes)
    }

    /// A buffer with these bytes.
    pub fn copy(bytes: &[u8]) -> Store {
        let mut store = Store::zeroed(bytes.len());
        store.view().copy_from(bytes);
        store
    }

    pub fn len(&self) -> usize {
        match self {
            Store::Own(_, len) | Store::Block(_, len, _) => *len,
            Store::Lease(lease) => lease.bytes().len(),
        }
    }

    /// The bytes in place.
    pub fn view(&mut self) -> View<'_> {
        match self {
            Store::Own(buffer, len) => View::of(&mut bytemuck::cast_slice_mut(buffer)[..*len]),
            Store::Block(block, len, _) => block.view().part(0, *len).expect("its length was checked"),
            Store::Lease(lease) => View::of(lease.bytes_mut()),
        }
    }

    /// The bytes, unless others have them, too.
    pub fn own(&mut self) -> Option<&mut [u8]> {
        match self {
            Store::Own(buffer, len) => Some(&mut bytemuck::cast_slice_mut(buffer)[..*len]),
            Store::Block(..) => None,
            Store::Lease(lease) => Some(lease.bytes_mut()),
        }
    }

    /// A copy of the bytes.
    pub fn into_bytes(mut self) -> Vec<u8> {
        self.view().to_vec()
    }
}

/// The value of one parameter.
pub(crate) enum ParamValue {
    Scalar(Scalar),
    Text(Vec<u8>),
    Array(ArrayMeta, Store),
}

/// Whose call it is.
pub(crate) struct Caller {
    pub peer: Arc<Peer>,
    pub request: RequestId,
    /// The arrays that the call refers to, each of them its own for now.
    pub turns: Vec<Turn>,
}

/// One call: the parameters, in order.
pub struct Call {
    pub(crate) signature: Arc<Signature>,
    pub(crate) slots: Vec<ParamValue>,
    pub(crate) caller: Option<Caller>,
    pub(crate) printed: Option<Box<Printed>>,
    /// The files among them: which parameter, the client's number. They are kept while the service works on them.
    pub(crate) files: Vec<(usize, u64, Arc<KeptFile>)>,
}

/// What a call printed to standard output and to standard error.
pub(crate) struct Printed {
    pub texts: [String; 2],
    /// So many other calls may have printed some of it.
    pub others: u32,
}

impl Printed {
    /// The ends of these texts; none where there is nothing.
    pub fn new(texts: [String; 2], others: u32) -> Option<Box<Printed>> {
        let texts = texts.map(|text| ending(&text, PRINTED).to_owned());
        texts.iter().any(|text| !text.is_empty()).then(|| Box::new(Printed { texts, others }))
    }
}

/// One parameter of a call, borrowed for as long as the service works on it.
pub struct Arg<'a> {
    param: &'a Param,
    slot: &'a mut ParamValue,
}

/// Bytes that the caller gets at most of what a service printed, of each stream.
const PRINTED: usize = 4096;

impl Call {
    /// What was called.
    pub fn signature(&self) -> &Arc<Signature> {
        &self.signature
    }

    /// Number of parameters, results included.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are no parameters.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether the service has set a status, and not to 0.
    pub fn has_bad_status(&self) -> bool {
        let mut all = self.signature.params().iter().zip(&self.slots);
        let status = all.find(|(param, _)| param.is_status).map(|(_, slot)| slot);
        matches!(status, Some(ParamValue::Scalar(status)) if status.as_i64() != Some(0))
    }

    /// The last lines that the service printed to standard output and to standard error; the caller gets them if it fails,
    /// or has a status that is not 0.
    pub fn printed(&mut self, stdout: String, stderr: String) {
        self.printed = Printed::new([stdout, stderr], 0);
    }

    /// What a parameter is.
    pub fn param(&self, index: usize) -> Result<&Param> {
        self.signature.params().get(index).ok_or_else(|| self.no_such(index))
    }

    #[cold]
    fn no_such(&self, index: usize) -> Error {
        Error::bad(format!("parameter {index} does not exist in {}", self.signature))
    }

    /// One parameter.
    pub fn arg(&mut self, index: usize) -> Result<Arg<'_>> {
        if index >= self.slots.len() {
            return Err(self.no_such(index));
        }
        let param = self.signature.params().get(index);
        match (param, self.slots.get_mut(index)) {
            (Some(param), Some(slot)) => Ok(Arg { param, slot }),
            _ => Err(Error::internal("a call has fewer values than parameters")),
        }
    }

    /// All parameters at once; fails when there are not `N`.
    pub fn args<const N: usize>(&mut self) -> Result<[Arg<'_>; N]> {
        let (signature, found) = (self.signature.clone(), self.slots.len());
        self.all().try_into().map_err(|_| {
            Error::bad(format!("the service takes {N} parameters and its signature {signature} has {found}"))
        })
    }

    /// All parameters at once.
    pub fn all(&mut self) -> Vec<Arg<'_>> {
        self.signature.params().iter().zip(&mut self.slots).map(|(param, slot)| Arg { param, slot }).collect()
    }

    /// Before the caller hears of it: what somebody looks at longer than the call is not used again meanwhile.
    pub(crate) fn keep_what_is_looked_at(&mut self) {
        let Some(Room::Lent(segment)) = self.caller.as_ref().map(|c| c.peer.room()) else { return };
        for slot in &self.slots {
            if let ParamValue::Array(_, Store::Block(block, _, Whose::Client(Some(kept)))) = slot
                && Arc::strong_count(kept) > 1
                && segment.hold(block.index(), block.generation()).is_ok_and(|held| held)
            {
                *lock(&kept.back) = Some((segment.clone(), block.index(), block.generation()));
            }
        }
    }

    /// The service is over: what it was given is not needed any more, and if it went well, it has written what comes back.
    pub(crate) fn end_files(&mut self, went_well: bool) -> Result<()> {
        let Some(Caller { peer, .. }) = &self.caller else { return Ok(()) };
        let mut outcome = Ok(());
        for (at, number, file) in std::mem::take(&mut self.files) {
            match file.way {
                Way::Out if went_well && outcome.is_ok() => {
                    let name = &self.signature.params()[at].name;
                    let written = peer.files.is_written(&file);
                    outcome = written.map_err(|e| e.within(format_args!("parameter {name}")));
                }
                Way::Out => {}
                _ => peer.files.forget(peer.client, number),
            }
        }
        outcome
    }

    /// Whether the caller gave up: long services look now and then, and stop.
    pub fn cancelled(&self) -> bool {
        self.caller.as_ref().is_some_and(|c| !c.peer.wants(c.request))
    }
}

impl<'a> Arg<'a> {
    /// What it is by the signature.
    pub fn param(&self) -> &'a Param {
        self.param
    }

    fn is_not(&self, what: &str) -> Error {
        Error::bad(format!("parameter {} is {}, not {what}", self.param.name, self.param.kind()))
    }

    /// The scalar.
    pub fn scalar(&self) -> Result<Scalar> {
        match &*self.slot {
            ParamValue::Scalar(s) => Ok(*s),
            _ => Err(self.is_not("a scalar")),
        }
    }

    /// The scalar as a real number.
    pub fn f64(&self) -> Result<f64> {
        self.scalar()?.as_f64().ok_or_else(|| self.is_not("a real number"))
    }

    /// The scalar as an integer.
    pub fn i64(&self) -> Result<i64> {
        self.scalar()?.as_i64().ok_or_else(|| self.is_not("an integer"))
    }

    /// Gives a scalar result its value, converted to the dtype of the signature.
    pub fn set(&mut self, value: impl Into<Scalar>) -> Result<()> {
        let (dtype, name) = (self.param.dtype, &self.param.name);
        match self.slot {
            ParamValue::Scalar(s) => {
                *s = value.into().convert(dtype).map_err(|e| e.within(format_args!("parameter {name}")))?;
                Ok(())
            }
            _ => Err(self.is_not("a scalar")),
        }
    }

    /// The text; of a file, its path: where it is to be read, or to be written.
    pub fn str(&self) -> Result<&str> {
        if self.param.dtype != DType::Str {
            return Err(self.is_not("text"));
        }
        std::str::from_utf8(self.bytes()?)
            .map_err(|e| Error::bad(format!("parameter {} is not UTF-8: {e}", self.param.name)))
    }

    /// The bytes of a text or of bytes.
    pub fn bytes(&self) -> Result<&[u8]> {
        match &*self.slot {
            ParamValue::Text(bytes) => Ok(bytes),
            ParamValue::Scalar(_) | ParamValue::Array(..) => Err(self.is_not("text or bytes")),
        }
    }

    /// Gives a text result its value.
    pub fn set_str(&mut self, text: &str) -> Result<()> {
        match self.param.dtype {
            DType::Str => self.set_bytes(text.as_bytes()),
            _ => Err(self.is_not("text")),
        }
    }

    /// Gives a result of text or bytes its value. A file is written at its path instead.
    pub fn set_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        if self.param.is_file {
            return Err(self.is_not("text; write to its path"));
        }
        if self.param.dtype == DType::Str && std::str::from_utf8(bytes).is_err() {
            return Err(Error::bad(format!("parameter {} is text and got other bytes", self.param.name)));
        }
        match self.slot {
            ParamValue::Text(own) => {
                *own = bytes.to_vec();
                Ok(())
            }
            _ => Err(self.is_not("text or bytes")),
        }
    }

    /// What the array is.
    pub fn meta(&self) -> Result<ArrayMeta> {
        match &*self.slot {
            ParamValue::Array(meta, _) => Ok(*meta),
            _ => Err(self.is_not("an array")),
        }
    }

    /// The array's bytes in place, and what they are. An `out` array has no defined content at
    /// first; what is written into an `in` array is lost, or seen by others who refer to it.
    pub fn array(self) -> Result<(ArrayMeta, View<'a>)> {
        match self.slot {
            ParamValue::Array(meta, store) => Ok((*meta, store.view())),
            _ => Err(self.is_not("an array")),
        }
    }

    /// The array's elements in place, in the order in which they lie there.
    pub fn view<T: Element + Plain>(self) -> Result<View<'a, T>> {
        let fault = |param: &Param| {
            Error::bad(format!("parameter {} is {}, not an array of {}", param.name, param.kind(), T::DTYPE))
        };
        match self.slot {
            ParamValue::Array(meta, store) if meta.dtype == T::DTYPE => {
                store.view().cast().ok_or_else(|| fault(self.param))
            }
            _ => Err(fault(self.param)),
        }
    }

    /// What keeps an array's memory when somebody looks at it after the call: while he has it the memory is not used
    /// again. A small array lies in a buffer of the call and has none.
    pub fn keeper(&mut self) -> Option<Arc<dyn Any + Send + Sync>> {
        match self.slot {
            ParamValue::Array(_, Store::Block(block, _, Whose::Client(kept))) => {
                let new = || Arc::new(LookedAt { _map: block.keeper(), back: Mutex::default() });
                Some(kept.get_or_insert_with(new).clone())
            }
            ParamValue::Array(_, Store::Block(block, ..)) => Some(block.keeper()),
            ParamValue::Array(_, Store::Lease(lease)) => Some(lease.keeper()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_types::Shape;

    fn call() -> Call {
        let signature = "f(inout n:i32, in x:f64[k], in t:str, out b:bytes)";
        let meta = ArrayMeta::new(DType::F64, Shape::new(&[2]).unwrap());
        Call {
            signature: Arc::new(Signature::parse(signature).unwrap()),
            slots: vec![
                ParamValue::Scalar(Scalar::from(3i32)),
                ParamValue::Array(meta, Store::copy(bytemuck::cast_slice(&[1.5f64, 2.5]))),
                ParamValue::Text("grüß".as_bytes().to_vec()),
                ParamValue::Text(Vec::new()),
            ],
            caller: None,
            printed: None,
            files: Vec::new(),
        }
    }

    #[test]
    fn every_parameter_is_given_as_what_it_is() {
        let mut call = call();
        let [mut n, x, t, mut b] = call.args().unwrap();
        assert_eq!((n.i64().unwrap(), t.str().unwrap()), (3, "grüß"));
        n.set(4i64).unwrap();
        b.set_bytes(&[1, 2]).unwrap();
        let x = x.view::<f64>().unwrap();
        x.set(0, x.get(0) + 1.0);
        assert_eq!(x.to_vec(), [2.5, 2.5]);
        assert_eq!(call.arg(0).unwrap().scalar().unwrap(), Scalar::from(4i32));
        assert_eq!(call.arg(3).unwrap().bytes().unwrap(), [1, 2]);
    }

    #[test]
    fn a_parameter_taken_for_something_else_is_refused_by_name() {
        let mut call = call();
        let says = |r: Result<()>, text: &str| assert!(r.unwrap_err().text().contains(text));
        says(call.arg(1).unwrap().view::<f32>().map(drop), "parameter x is f64[k], not an array of f32");
        says(call.arg(0).unwrap().str().map(drop), "parameter n is i32, not text");
        says(call.arg(0).unwrap().set(2.5), "parameter n: 2.5 of dtype f64");
        says(call.arg(2).unwrap().set_bytes(&[0xff]), "parameter t is text");
        says(call.arg(4).map(drop), "parameter 4 does not exist");
        says(call.args::<2>().map(drop), "takes 2 parameters");
    }
}
