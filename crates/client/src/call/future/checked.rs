//! A call before it goes anywhere: its arguments, as the signature demands them, and who offers it.

use std::sync::Arc;
use std::time::Duration;

use forebay_types::{Code, Given, Result, Signature};

use super::How;
use crate::call::Inner;
use crate::call::args::Arg;
use crate::call::connection::Connection;
use crate::call::reference::{self, Reference};
use crate::call::table::Offer;

/// Who offers a service, and the first of what a call refers to, if it refers to anything. That is looked at before a server
/// is waited for: nobody can work on what is lost.
fn found<'r, I: Iterator<Item = &'r Reference>>(
    inner: &Arc<Inner>,
    name: &str,
    how: &How,
    held: impl Fn() -> I,
) -> Result<(Arc<Offer>, Option<Reference>)> {
    let first = reference::first(inner, name, &held)?;
    let tied = how.tied.as_deref();
    let found = match first {
        None => inner.find(name, tied, how.allowed),
        Some(_) => inner.find(name, tied, Some(Duration::ZERO)),
    };
    let offer = match found {
        Err(e) if e.code() == Code::NoServer && first.is_some() => {
            reference::lost_of(inner, name, &held).map_or(Ok(()), Err)?;
            inner.find(name, tied, how.allowed)?
        }
        found => found?,
    };
    Ok((offer, first))
}

/// Such a call.
pub(in crate::call) struct Checked<'a> {
    pub id: u64,
    pub offer: Arc<Offer>,
    pub args: Vec<Arg<'a>>,
    /// What they are, scalars as the signature has them.
    pub given: Vec<Given>,
    /// Only this server can do it: it holds what the call refers to.
    pub bound: Option<Arc<Connection>>,
}

/// Arrays travel in the order that the service demands.
fn in_order(signature: &Signature, args: &mut [Arg<'_>]) -> Result<()> {
    let mut demanded = signature.passed().zip(args).filter_map(|(param, arg)| Some((param.order?, arg)));
    demanded.try_for_each(|(order, arg)| arg.travel_in(order))
}

impl<'a> Checked<'a> {
    /// One with these arguments.
    pub fn with(inner: &Arc<Inner>, name: &str, how: &How, args: Vec<Arg<'a>>) -> Result<Checked<'a>> {
        let (offer, first) = found(inner, name, how, || reference::references(&args))?;
        Checked::at_holder(inner, offer, args, first)
    }

    /// One whose arguments are made of the signature; `held` are those arrays among them that servers hold.
    pub fn made(
        inner: &Arc<Inner>,
        name: &str,
        how: &How,
        held: &[Arc<Reference>],
        make: impl FnOnce(&Signature) -> Result<Vec<Arg<'a>>>,
    ) -> Result<Checked<'a>> {
        let (offer, first) = found(inner, name, how, || held.iter().map(|held| &**held))?;
        let args = make(&offer.signature)?;
        Checked::at_holder(inner, offer, args, first)
    }

    /// One that goes to the server of what it refers to, if it refers to anything.
    fn at_holder(
        inner: &Arc<Inner>,
        offer: Arc<Offer>,
        args: Vec<Arg<'a>>,
        first: Option<Reference>,
    ) -> Result<Checked<'a>> {
        let mut call = Checked::of(inner, offer, args)?;
        call.bound = first.map(|first| reference::holder(inner, &mut call.offer, &first)).transpose()?;
        Ok(call)
    }

    /// One of a service that is at hand.
    pub fn of(inner: &Inner, offer: Arc<Offer>, mut args: Vec<Arg<'a>>) -> Result<Checked<'a>> {
        let given = Checked::given(&offer.signature, &mut args)?;
        Ok(Checked { id: inner.next_id(), offer, args, given, bound: None })
    }

    /// What the arguments are, if they are what the signature demands.
    pub fn given(signature: &Signature, args: &mut [Arg<'a>]) -> Result<Vec<Given>> {
        in_order(signature, args)?;
        args.iter().try_for_each(|a| a.check().map_err(|e| e.within(signature.name())))?;
        let mut given: Vec<Given> = args.iter().map(Arg::given).collect();
        signature.check(&mut given)?;
        Ok(given)
    }
}
