//! References: arrays that a server holds for this client.
//!
//! ```no_run
//! use forebay_client::call::{Arg, Client, On};
//! use forebay_client::run::View;
//! let client = Client::connect(forebay_link::Locator::at(None))?;
//! let x = client.put(View::of(&[1.0, 2.0], &[2])?, On::Any)?;
//! let y = client.put(View::of(&[0.5, 0.5], &[2])?, On::With(&x))?;
//! client.call("axpy", vec![2.0.into(), Arg::from(&x), Arg::from(&y)], None)?; // moves no array
//! let (_, bytes) = y.get(&Default::default())?;
//! # Ok::<(), forebay_types::Error>(())
//! ```
//!
//! The way of the data: an array lies in memory of its server, and a call that is given the reference works on it in
//! place. On the same host `put` and `get` of all but small ones copy there and from there ([`super::near`]); otherwise
//! `put` copies into this client's segment, or sends, and the server copies from there into its memory, and `get` goes the
//! way back. The array lives until it is killed, dropped, or this client is gone; a server that is lost takes it along.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use forebay_arena::{Block, zeros};
use forebay_types::directory::Incarnation;
use forebay_types::held::{CREATE, GET, KILL, PUT};
use forebay_types::{ArrayMeta, Code, DType, Error, Order, Result, Selection, Shape, Signature, Strided};

use super::args::{Arg, Value};
use super::connection::Connection;
use super::future::Future;
use super::near::{self, Copying, Near, Uses};
use super::table::{Offer, Table};
use super::tied::Only;
use super::{Client, Inner, SLICE, Sent, lock};
use crate::run::View;

/// Which server is to hold an array.
#[derive(Clone, Copy, Debug, Default)]
pub enum On<'a> {
    /// The one that holds this client's newest array, so that calls may be given several; the
    /// first one is chosen in turn.
    #[default]
    Any,
    /// As that, of those servers that offer most of these services: to them calls may be given the array.
    Offering(&'a [&'a str]),
    /// One of that name.
    Server(&'a str),
    /// The one that holds that array.
    With(&'a Reference),
}

/// A server that holds something; lives as long as a reference to it.
pub(super) struct Home(Arc<Connection>);

/// An array that a server holds. It is killed when the last clone of the reference is dropped and no task of a bag needs
/// it any more.
#[derive(Clone)]
pub struct Reference(Arc<Held>);

struct Held {
    inner: Arc<Inner>,
    home: Arc<Home>,
    number: u64,
    meta: ArrayMeta,
    /// Where it lies, if this process sees it there.
    near: Option<Near>,
    killed: AtomicBool,
}

/// The services of every server.
struct Own {
    create: Signature,
    put: Signature,
    get: Signature,
    kill: Signature,
}

fn own() -> Result<&'static Own> {
    static OWN: OnceLock<Own> = OnceLock::new();
    if let Some(own) = OWN.get() {
        return Ok(own);
    }
    let parse = Signature::parse;
    let own = Own { create: parse(CREATE)?, put: parse(PUT)?, get: parse(GET)?, kill: parse(KILL)? };
    Ok(OWN.get_or_init(|| own))
}

impl Client {
    /// An array of zeros on a server.
    pub fn array(&self, meta: ArrayMeta, on: On) -> Result<Reference> {
        self.create(meta, on, true)
    }

    /// An array on a server, with this content.
    pub fn put(&self, data: View, on: On) -> Result<Reference> {
        let reference = self.create(*data.meta(), on, false)?;
        reference.put(data, &Selection::default())?;
        Ok(reference)
    }

    fn create(&self, meta: ArrayMeta, on: On, zero: bool) -> Result<Reference> {
        let (inner, mut tried) = (&self.inner, Vec::new());
        let only = match on {
            On::Server(name) => Some(Only::Name(name.to_owned())),
            On::Any | On::Offering(_) => self.tied.as_ref().map(|tied| tied.only().clone()),
            On::With(_) => None,
        };
        inner.check_open()?;
        meta.bytes()?;
        let mut among = match on {
            On::Offering(services) => inner.offering(services)?,
            _ => Vec::new(),
        };
        loop {
            let home = match on {
                On::With(other) if Arc::ptr_eq(&other.0.inner, inner) => Ok(other.0.home.clone()),
                On::With(_) => {
                    return Err(Error::bad(
                        "the array that the new one is to lie beside is another client's; give one of this client's",
                    ));
                }
                On::Server(_) | On::Any | On::Offering(_) => inner.home(only.as_ref(), &among, &tried),
            };
            let home = match home {
                // Others are better than none.
                Err(e) if e.code() == Code::NoServer && !among.is_empty() => {
                    among.clear();
                    continue;
                }
                home => home?,
            };
            match create_on(inner, &home, &meta, zero) {
                Ok((number, block)) => {
                    *lock(&inner.newest) = Arc::downgrade(&home);
                    let near = Near::new(inner, &home.0, block, meta.bytes()?);
                    let inner = inner.clone();
                    let killed = AtomicBool::new(false);
                    return Ok(Reference(Arc::new(Held { inner, home, number, meta, near, killed })));
                }
                Err(e) if e.code() == Code::ServerLost && !matches!(on, On::With(_)) => {
                    tried.push(home.0.info.incarnation);
                }
                Err(e) => return Err(e),
            }
        }
    }
}

/// The number of the new array, and its block at the server.
fn create_on(inner: &Arc<Inner>, home: &Home, meta: &ArrayMeta, zero: bool) -> Result<(u64, u32)> {
    let number = inner.next_id();
    let extents = meta.shape.extents();
    let args = vec![
        number.into(),
        (meta.dtype as u8).into(),
        (meta.order as u8).into(),
        zero.into(),
        Arg::from(extents),
    ];
    let returned = wait(inner, Future::send_to(inner, &home.0, &own()?.create, args)?)?;
    let block = match *returned {
        [Value::Scalar(block)] => block.as_i64().and_then(|block| u32::try_from(block).ok()),
        _ => None,
    };
    let nowhere = || Error::new(Code::Corrupt, "a server has made an array and does not say where");
    Ok((number, block.ok_or_else(nowhere)?))
}

/// Waits, looking at the user's check.
fn wait(inner: &Inner, mut future: Future) -> Result<Vec<Value>> {
    loop {
        match future.wait(Some(SLICE)) {
            Err(e) if e.code() == Code::Timeout => inner.interrupted()?,
            done => return done,
        }
    }
}

impl Inner {
    /// The servers that offer most of these services; none when nobody offers any in the time that the client waits.
    fn offering(self: &Arc<Self>, services: &[&str]) -> Result<Vec<Incarnation>> {
        let look = |table: &Arc<Table>| -> Result<Vec<Arc<Offer>>> {
            let (found, missing): (Vec<_>, Vec<_>) =
                services.iter().map(|name| table.find(name)).partition(|found| found.is_ok());
            let offers: Vec<Arc<Offer>> = found.into_iter().flatten().collect();
            match missing.into_iter().find_map(Result::err) {
                Some(e) if offers.is_empty() => Err(e),
                _ => Ok(offers),
            }
        };
        let offers = match self.seek(None, look) {
            Err(e) if e.code() == Code::NoServer => return Ok(Vec::new()),
            offers => offers?,
        };
        let all = || offers.iter().flat_map(|offer| offer.servers.iter().map(|server| server.incarnation));
        let count = |server: Incarnation| all().filter(|other| *other == server).count();
        let most = all().map(count).max().unwrap_or(0);
        Ok(all().filter(|server| count(*server) == most).collect())
    }

    /// The server that is to hold an array, one among those if some are named.
    fn home(
        self: &Arc<Self>,
        only: Option<&Only>,
        among: &[Incarnation],
        tried: &[Incarnation],
    ) -> Result<Arc<Home>> {
        let newest = lock(&self.newest).upgrade();
        let fits = |home: &Arc<Home>| {
            home.0.lost().is_none()
                && !tried.contains(&home.0.info.incarnation)
                && (among.is_empty() || among.contains(&home.0.info.incarnation))
                && only.is_none_or(|only| only.is(&home.0.info))
        };
        if let Some(home) = newest.filter(fits) {
            return Ok(home);
        }
        let (mut tried, mut cut) = (tried.to_vec(), Vec::new());
        loop {
            let server = self.seek(None, |table| table.server(only, among, &tried))?;
            match self.connection(&server, None) {
                Ok(connection) => return Ok(Arc::new(Home(connection))),
                Err(Sent::Not(e)) => return Err(e),
                Err(Sent::Unreached(_) | Sent::NoRoom(_)) => tried.push(server.incarnation),
                Err(Sent::Lost(_)) => {
                    // One whose connection was cut is asked once more.
                    let again = self.failed(&server) && !cut.contains(&server.incarnation);
                    if again { &mut cut } else { &mut tried }.push(server.incarnation);
                }
            }
        }
    }
}

impl Reference {
    /// What the array is.
    pub fn meta(&self) -> &ArrayMeta {
        &self.0.meta
    }

    /// The server that holds it: name and pid.
    pub fn server(&self) -> (&str, u32) {
        (&self.0.home.0.name, self.0.home.0.info.pid)
    }

    pub(super) fn number(&self) -> u64 {
        self.0.number
    }

    /// Who uses the array, if that is of interest here.
    pub(super) fn uses(&self) -> Option<&Arc<Uses>> {
        self.0.near.as_ref().map(|near| &near.uses)
    }

    fn alive(&self) -> Result<()> {
        self.0.alive()
    }

    /// Where a part lies in the array, and its shape.
    fn part(&self, part: &Selection) -> Result<Strided> {
        Strided::part(&self.0.meta, &part.resolve(&self.0.meta.shape)?)
    }

    /// The shape of a part.
    pub fn shape_of(&self, part: &Selection) -> Result<Shape> {
        Ok(*self.part(part)?.shape())
    }

    /// Writes a part (all of it by default): the data have its shape and the array's dtype.
    pub fn put(&self, data: View, part: &Selection) -> Result<()> {
        self.alive()?;
        let strided = self.part(part)?;
        let given = data.meta();
        if data.original().is_some() {
            return Err(Error::bad(
                "only arrays of snapshots are kept with less precision; convert it before",
            ));
        }
        if (given.dtype, given.shape) != (self.0.meta.dtype, *strided.shape()) {
            let (dtype, shape) = (self.0.meta.dtype, strided.shape());
            return Err(Error::bad(format!(
                "{given} was given for a part {dtype}{shape} of {self}; convert or reshape it"
            )));
        }
        let bytes = flat(strided.bytes())?;
        let (source, apart) = data.parts();
        if apart.is_none() && given.order == self.0.meta.order && strided.is_dense(given.order) {
            let whole = together(&strided)?;
            return self.copy(true, &whole, Arg::In(bytes, source));
        }
        let data = match (apart, given.order) {
            // A part travels row-major, and these have the axes in the order given.
            (Some(apart), order) => Arg::Strided(bytes, apart.as_array(given.dtype, order).1, source),
            (None, Order::C) => Arg::In(bytes, source),
            (None, Order::F) => Arg::Strided(bytes, Strided::dense(given)?, source),
        };
        self.copy(true, &strided, data)
    }

    /// Reads a part (all of it by default).
    pub fn get(&self, part: &Selection) -> Result<(ArrayMeta, Vec<u8>)> {
        self.alive()?;
        let strided = self.part(part)?;
        // A part that lies together stays as it lies, also in column-major order.
        let own = self.0.meta.order;
        let order = if strided.is_dense(own) { own } else { Order::C };
        let meta = ArrayMeta { dtype: self.0.meta.dtype, shape: *strided.shape(), order };
        let bytes = strided.bytes();
        if strided.is_dense(order)
            && let Some(out) = self.here(false, bytes, |block, _| block.copied(strided.offset(), bytes))?
        {
            return Ok((meta, out?));
        }
        let mut out = zeros(bytes)?;
        self.read_into(&strided, &meta, None, &mut out)?;
        Ok((meta, out))
    }

    /// Reads a part into memory that is there: `meta` has the part's shape and the array's dtype, and the elements lie
    /// together in its order, or as `apart` says.
    pub fn read(
        &self,
        part: &Selection,
        meta: &ArrayMeta,
        apart: Option<&Strided>,
        out: &mut [u8],
    ) -> Result<()> {
        self.alive()?;
        let strided = self.part(part)?;
        if (meta.dtype, meta.shape) != (self.meta().dtype, *strided.shape()) {
            let (dtype, shape) = (self.meta().dtype, strided.shape());
            return Err(Error::bad(format!(
                "a part {dtype}{shape} of {self} was asked for, and {meta} is given for it; give an array of that dtype and shape"
            )));
        }
        self.read_into(&strided, meta, apart, out)
    }

    fn read_into(
        &self,
        strided: &Strided,
        meta: &ArrayMeta,
        apart: Option<&Strided>,
        out: &mut [u8],
    ) -> Result<()> {
        let bytes = flat(strided.bytes())?;
        if apart.is_none() && meta.order == self.meta().order && strided.is_dense(meta.order) {
            return self.copy(false, &together(strided)?, Arg::Mut(bytes, out));
        }
        // A part travels row-major, whichever way the axes of these lie.
        let target = match (apart, meta.order) {
            (Some(apart), _) => Arg::StridedMut(bytes, *apart, out),
            (None, Order::C) => Arg::Mut(bytes, out),
            (None, Order::F) => Arg::StridedMut(bytes, Strided::dense(meta)?, out),
        };
        self.copy(false, strided, target)
    }

    /// Writes or reads a part.
    fn copy(&self, writes: bool, part: &Strided, mut data: Arg) -> Result<()> {
        let moved = match near::can_move(part, &data) {
            true => {
                self.here(writes, part.bytes(), |block, ours| near::move_part(block, ours, part, &mut data))?
            }
            false => None,
        };
        match moved {
            Some(true) => Ok(()),
            _ => self.copy_there(writes, part, data),
        }
    }

    /// Writes or reads so many bytes in this thread, if the array lies where it can, and no call uses it. `what` is told
    /// whether only this process has looked at it since it wrote it.
    fn here<T>(&self, writes: bool, bytes: usize, what: impl FnOnce(&Block, bool) -> T) -> Result<Option<T>> {
        let Some(near) = &self.0.near else { return Ok(None) };
        let Some(copying) = self.copying(&near.uses, writes, bytes >= near::LARGE)? else {
            return Ok(None);
        };
        // By its server, if that is lost: it says so.
        Ok(near.block(&self.0.home.0).map(|block| what(&block, copying.is_ours)))
    }

    /// Has the array for this thread: at once, or, if it is worth waiting, behind the calls that use it.
    fn copying<'u>(&self, uses: &'u Uses, writes: bool, may_wait: bool) -> Result<Option<Copying<'u>>> {
        let copying = uses.copy(writes);
        if copying.is_some() || !may_wait {
            return Ok(copying);
        }
        let nothing = Strided::new(1, 0, Shape::new(&[0])?, &[1], 0)?;
        let data = if writes { Arg::In(flat(0)?, &[]) } else { Arg::Mut(flat(0)?, &mut []) };
        self.copy_there(writes, &nothing, data)?;
        Ok(uses.copy_soon(writes, || while self.0.home.0.drain() {}))
    }

    /// Does it by a call.
    fn copy_there(&self, writes: bool, part: &Strided, data: Arg) -> Result<()> {
        let service = if writes { &own()?.put } else { &own()?.get };
        let strides = part.strides();
        let all = Arg::Ref(flat(self.0.meta.bytes()? as usize)?, Cow::Borrowed(self));
        let args = vec![
            (part.item() as u64).into(),
            part.offset().into(),
            Arg::from(part.shape().extents()),
            Arg::from(&strides[..]),
            all,
            data,
        ];
        let sent = Future::send_to(&self.0.inner, &self.0.home.0, service, args);
        wait(&self.0.inner, sent.map_err(|e| e.within(self))?).map_err(|e| e.within(self)).map(drop)
    }

    /// Frees the array; calls that were sent before still have it.
    pub fn kill(&self) -> Result<()> {
        if self.0.inner.is_closed() {
            // It went with the client.
            return Ok(());
        }
        self.alive()?;
        if let Some(uses) = self.uses() {
            uses.close();
        }
        let args = vec![self.0.number.into()];
        wait(&self.0.inner, Future::send_to(&self.0.inner, &self.0.home.0, &own()?.kill, args)?)?;
        self.0.killed.store(true, Ordering::Relaxed);
        Ok(())
    }
}

impl Held {
    fn alive(&self) -> Result<()> {
        self.inner.check_open()?;
        match self.killed.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(Error::new(Code::Closed, format!("{self} was killed; make a new one"))),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.home.0.lost().is_some() || self.alive().is_err() {
            return;
        }
        let Ok(own) = own() else { return };
        let args = vec![self.number.into()];
        if let Ok(future) = Future::send_to(&self.inner, &self.home.0, &own.kill, args) {
            future.forsake();
        }
    }
}

impl std::fmt::Display for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "reference {} ({} on server {:?})", self.number, self.meta, &*self.home.0.name)
    }
}

impl std::fmt::Display for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::fmt::Debug for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

/// So many bytes.
fn flat(bytes: usize) -> Result<ArrayMeta> {
    Ok(ArrayMeta::new(DType::U8, Shape::new(&[bytes as u64])?))
}

/// A dense part as one row.
fn together(part: &Strided) -> Result<Strided> {
    let (item, bytes) = (part.item(), part.bytes() as u64);
    let row = Shape::new(&[bytes / item as u64])?;
    Strided::new(item, part.offset(), row, &[item as i64], part.offset() + bytes)
}

/// What a call refers to.
pub(super) fn references<'r>(args: &'r [Arg<'_>]) -> impl Iterator<Item = &'r Reference> {
    args.iter().filter_map(|arg| match arg {
        Arg::Ref(_, reference) => Some(&**reference),
        _ => None,
    })
}

/// The first of what a call refers to, if it refers to anything: all is there, is this client's, and lies where that
/// one does. Otherwise nobody can do it.
pub(super) fn first<'r, I: Iterator<Item = &'r Reference>>(
    inner: &Arc<Inner>,
    name: &str,
    held: impl Fn() -> I,
) -> Result<Option<Reference>> {
    let Some(first) = held().next() else { return Ok(None) };
    let fault = |why: String| Err(Error::bad(why).within(name));
    for reference in held() {
        let home = &reference.0.home.0;
        if let Some(e) = home.lost() {
            let text = format!("{reference} is lost: {e}; make it anew on another server");
            return Err(Error::new(Code::ServerLost, text).within(name));
        }
        if !Arc::ptr_eq(&reference.0.inner, inner) {
            return fault(format!("{reference} is another client's; put the array with this client"));
        }
        reference.alive().map_err(|e| e.within(name))?;
        if home.info.incarnation != first.0.home.0.info.incarnation {
            return fault(format!(
                "{first} and {reference} are held by different servers; put one of them on the server that holds the other"
            ));
        }
    }
    Ok(Some(first.clone()))
}

/// That one of them is lost, if the servers themselves are asked: it is known sooner that nobody offers a service.
#[cold]
pub(super) fn lost_of<'r, I: Iterator<Item = &'r Reference>>(
    inner: &Arc<Inner>,
    name: &str,
    held: impl Fn() -> I,
) -> Option<Error> {
    held().for_each(|reference| reference.0.home.0.look());
    first(inner, name, held).err()
}

/// The server that holds it, which must offer the service. One that is lost since is found to be when the call is
/// sent to it.
pub(super) fn holder(
    inner: &Arc<Inner>,
    offer: &mut Arc<Offer>,
    reference: &Reference,
) -> Result<Arc<Connection>> {
    let home = &reference.0.home.0;
    let offers = |offer: &Offer| offer.servers.iter().any(|s| s.incarnation == home.info.incarnation);
    if offers(offer) {
        return Ok(home.clone());
    }
    home.look();
    if home.lost().is_none() {
        inner.refresh();
        let name = offer.signature.name().clone();
        *offer = inner.find(name.as_str(), None, None)?;
        if !offers(offer) {
            let others: Vec<&str> = offer.servers.iter().map(|s| s.name.as_str()).collect();
            let text = format!(
                "{reference} is held by a server that does not offer the service; put the array on one that does: {}",
                others.join(", ")
            );
            return Err(Error::bad(text).within(name));
        }
    }
    Ok(home.clone())
}

/// Where the newest array is, for the next one.
pub(super) type Newest = Weak<Home>;
