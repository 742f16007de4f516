//! A call before it goes anywhere: its arguments, as the signature demands them, and who offers it.

use std::sync::Arc;

use forebay_types::{Given, Result, Signature};

use super::How;
use crate::call::Inner;
use crate::call::args::Arg;
use crate::call::connection::Connection;
use crate::call::reference::{self, Reference};
use crate::call::table::Offer;

/// Arguments, with the first array among them that a server holds.
pub(in crate::call) type Made<'a> = Result<(Vec<Arg<'a>>, Option<Reference>)>;

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

/// Arguments with what they refer to.
pub(in crate::call) fn with_first<'a>(inner: &Arc<Inner>, name: &str, args: Vec<Arg<'a>>) -> Made<'a> {
    let first = reference::first(inner, name, &args)?;
    Ok((args, first))
}

/// Arrays travel in the order that the service demands.
fn in_order(signature: &Signature, args: &mut [Arg<'_>]) -> Result<()> {
    let mut demanded = signature.passed().zip(args).filter_map(|(param, arg)| Some((param.order?, arg)));
    demanded.try_for_each(|(order, arg)| arg.travel_in(order))
}

impl<'a> Checked<'a> {
    /// One whose arguments are made of the signature.
    pub fn made(
        inner: &Arc<Inner>,
        name: &str,
        how: &How,
        make: impl FnOnce(&Arc<Inner>, &Signature) -> Made<'a>,
    ) -> Result<Checked<'a>> {
        let offer = inner.find(name, how.tied.as_deref(), how.allowed)?;
        let (args, first) = make(inner, &offer.signature)?;
        let mut call = Checked::of(inner, offer, args)?;
        call.bound = first.map(|first| reference::holder(inner, &mut call.offer, &first)).transpose()?;
        Ok(call)
    }

    /// One of a service that is at hand.
    pub fn of(inner: &Inner, offer: Arc<Offer>, mut args: Vec<Arg<'a>>) -> Result<Checked<'a>> {
        let signature = &offer.signature;
        in_order(signature, &mut args)?;
        args.iter().try_for_each(|a| a.check().map_err(|e| e.within(signature.name())))?;
        let mut given: Vec<Given> = args.iter().map(Arg::given).collect();
        signature.check(&mut given)?;
        Ok(Checked { id: inner.next_id(), offer, args, given, bound: None })
    }
}
