//! What is known of an array of a step while its pieces come: what it is, what of it waits until more is known.

use super::event::Part;
use super::pieces::Pieces;
use forebay_types::record::{Overlap, Place};
use forebay_types::{ArrayMeta, Error, Order, Result, Shape};
use std::collections::BTreeMap;

/// The numbers of places: the last three are known when the other ranks have said theirs.
pub(super) const AT: u8 = 1;
pub(super) const APPENDED: u8 = 2;
pub(super) const ALIKE: u8 = 3;
pub(super) const OVER: u8 = 4;

pub(super) fn place_of(place: Place) -> u8 {
    match place {
        Place::Whole => 0,
        Place::At { .. } => AT,
        Place::Append => APPENDED,
        Place::Alike { .. } => ALIKE,
        Place::Over { .. } => OVER,
    }
}

/// How a piece was put, where that may be what ranks differ in.
pub(super) fn words_of(place: u8) -> &'static str {
    match place {
        0 => " as a whole",
        APPENDED => " appended",
        ALIKE => " as a coordinate",
        OVER => " with overlap",
        _ => "",
    }
}

/// A data set that is put together behind one another: places are known when all sizes are. One that ranks say alike
/// waits until all have said it. A piece over which others may lie waits until the lower ranks have ended the step: it is
/// written behind theirs. One whose elements lie the same in both orders waits until the order of the whole is known.
#[derive(Default)]
pub(super) struct Append {
    pub locals: BTreeMap<u32, Shape>,
    pub waiting: Vec<Part>,
    pub laid: bool,
    /// What each rank says that such a one is, with its checksum.
    pub alike: BTreeMap<u32, (ArrayMeta, u32)>,
}

pub(super) struct Named {
    pub meta: ArrayMeta,
    /// Its order is known: a piece has come whose elements lie otherwise in the other one.
    pub ordered: bool,
    /// The rank whose order it has.
    pub order_of: u32,
    pub place: u8,
    /// The unit of the lowest rank that says one, another one that a rank says, and whether a part came without.
    pub units: Option<(u32, String)>,
    pub other_units: Option<(u32, String)>,
    is_silent: bool,
    /// What holds where pieces of ranks lie over each other, if they may.
    pub over: Option<Overlap>,
    pub first: u32,
    pub pieces: Pieces,
    pub append: Append,
}

impl Named {
    /// Of the first piece that comes, from a rank.
    pub fn of(rank: u32, piece: &Place, whole: ArrayMeta) -> Named {
        Named {
            meta: whole,
            // What one rank puts whole has the order that it says; a line has none.
            ordered: matches!(piece, Place::Whole | Place::Alike { .. }) || whole.shape.rank() < 2,
            order_of: rank,
            place: place_of(*piece),
            units: None,
            other_units: None,
            is_silent: false,
            over: piece.overlap(),
            first: rank,
            pieces: Pieces::of(piece.overlap().is_some()),
            append: Append::default(),
        }
    }

    /// A piece has the order of the whole, or that becomes the piece's. Where the elements lie the same in both orders,
    /// any is right. Says whether all is well.
    pub fn takes_order(&mut self, rank: u32, piece: &ArrayMeta) -> bool {
        if self.meta.shape.rank() < 2 {
            return true;
        }
        let lies_alike =
            piece.shape.is_empty() || piece.shape.extents().iter().filter(|n| **n > 1).count() < 2;
        let takes = !self.ordered && (!lies_alike || rank < self.order_of);
        if takes {
            (self.ordered, self.order_of, self.meta.order) = (!lies_alike, rank, piece.order);
        }
        lies_alike || self.meta.order == piece.order
    }

    /// A rank says a unit, or none: that of the lowest one holds.
    pub fn take_units(&mut self, rank: u32, said: &str) {
        if said.is_empty() {
            self.is_silent = true;
            return;
        }
        match &mut self.units {
            None => self.units = Some((rank, said.to_owned())),
            Some((lowest, kept)) if kept == said => *lowest = rank.min(*lowest),
            Some((lowest, _)) if rank < *lowest => {
                self.other_units = self.units.replace((rank, said.to_owned()));
            }
            Some(_) => drop(self.other_units.get_or_insert_with(|| (rank, said.to_owned()))),
        }
    }

    /// The unit that holds, if not all parts have it.
    pub fn settled_units(&self) -> Option<&str> {
        let is_mixed = self.is_silent || self.other_units.is_some();
        self.units.as_ref().filter(|_| is_mixed).map(|(_, units)| units.as_str())
    }

    /// Those of its parts that waited, now that their order is known.
    pub fn flush(&mut self) -> Vec<Part> {
        let order = self.meta.order;
        self.append.waiting.drain(..).map(|part| in_order(part, order)).collect()
    }
}

/// A part of a whole of that order.
pub(super) fn in_order(mut part: Part, order: Order) -> Part {
    part.meta.order = order;
    part
}

/// The shape of pieces behind one another along axis 0.
pub(super) fn joined(name: &str, locals: &BTreeMap<u32, Shape>) -> Result<Shape> {
    let mut all = locals.iter();
    let Some((one, first)) = all.next() else { return Ok(Shape::scalar()) };
    let mut extents = first.extents().to_vec();
    for (rank, s) in all {
        if s.rank() != extents.len() || s.extents()[1..] != extents[1..] {
            return Err(Error::bad(format!(
                "{name:?}: rank {one} appends {first} and rank {rank} {s}; only axis 0 may differ"
            )));
        }
        extents[0] = extents[0]
            .checked_add(s.extents()[0])
            .ok_or_else(|| Error::bad("appended pieces exceed 2^64"))?;
    }
    Shape::new(&extents)
}
