//! What is known of an array of a step while its pieces come: what it is, what of it waits until more is known.

use super::event::Part;
use super::pieces::Pieces;
use forebay_types::record::{Overlap, Place};
use forebay_types::{ArrayMeta, Error, Order, Result, Shape, SortBy};
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
    /// The order in which particles are to lie in the file, if they are.
    pub sort: Option<SortBy>,
    pub first: u32,
    pub pieces: Pieces,
    pub append: Append,
}

impl Named {
    /// Of the first piece that comes, from a rank.
    pub fn of(rank: u32, piece: &Place, whole: ArrayMeta, sort: Option<SortBy>) -> Named {
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
            sort,
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

#[cfg(test)]
mod tests {
    use super::super::event::Bytes;
    use super::super::steps::Step;
    use super::*;
    use forebay_types::record::{HeldBlock, Payload, StepBlock};
    use forebay_types::{Code, DType};

    fn sh(extents: &[u64]) -> Shape {
        Shape::new(extents).unwrap()
    }

    /// A rank puts a piece of an array of (4, 4) that is in a block; the ranks, offsets and orders of what can be written.
    fn put(
        s: &mut Step,
        rank: u32,
        (at, n): ([u64; 2], [u64; 2]),
        order: Order,
        units: &str,
    ) -> Result<String> {
        let place = Place::At { offset: sh(&at), global: sh(&[4, 4]) };
        let meta = ArrayMeta { dtype: DType::U8, shape: sh(&n), order };
        let block = HeldBlock { segment: 0, index: 0, generation: 1, bytes: n[0] * n[1] };
        let b = StepBlock { step: 1, name: "E", units, meta, place, part: 0, payload: Payload::Block(block) };
        s.block(rank, &b, Bytes::Block(block), (u64::from(rank), 1)).map(told)
    }

    fn told(parts: Vec<Part>) -> String {
        let one = |p: Part| format!("{}{}{:?}", p.rank, p.offset, p.meta.order);
        parts.into_iter().map(one).collect::<Vec<_>>().join(" ")
    }

    fn begun(times: &[f64]) -> Step {
        let mut s = Step::new(1, times.len() as u32);
        for (rank, time) in times.iter().enumerate() {
            s.begin(rank as u32, (rank as u64, 1), 1, *time, None).unwrap();
        }
        s
    }

    #[test]
    fn the_order_of_an_array_is_that_of_a_piece_that_has_one_whoever_comes_first() {
        let (line, block, none) = (([0, 0], [4, 1]), ([0, 1], [4, 3]), ([0, 0], [4, 0]));
        for order in [Order::C, Order::F] {
            let mut s = begun(&[0.0; 3]);
            assert_eq!(put(&mut s, 0, none, Order::C, "").unwrap(), "");
            assert_eq!(put(&mut s, 0, line, Order::C, "").unwrap(), "");
            let all = format!("0(0, 0){order:?} 0(0, 0){order:?} 1(0, 1){order:?}");
            assert_eq!(put(&mut s, 1, block, order, "").unwrap(), all);
            assert_eq!(put(&mut s, 2, none, Order::F, "").unwrap(), format!("2(0, 0){order:?}"));
        }
        // Nobody has one: it is the lowest rank's, when all have ended.
        let mut s = begun(&[0.0; 2]);
        assert_eq!(put(&mut s, 1, none, Order::F, "").unwrap(), "");
        assert_eq!(put(&mut s, 0, line, Order::C, "").unwrap(), "");
        for at in 1..4 {
            assert_eq!(put(&mut s, 1, ([0, at], [4, 1]), Order::F, "").unwrap(), "");
        }
        assert_eq!(told(s.end(0, 1).unwrap()), "");
        assert_eq!(told(s.end(1, 4).unwrap()), "1(0, 0)C 0(0, 0)C 1(0, 1)C 1(0, 2)C 1(0, 3)C");
        // A real clash says what it is about.
        let mut s = begun(&[0.0; 2]);
        put(&mut s, 0, ([0, 0], [2, 4]), Order::C, "").unwrap();
        let e = put(&mut s, 1, ([2, 0], [2, 4]), Order::F, "").unwrap_err();
        assert!(
            e.text().contains("order of \"E\" is row-major for rank 0 and column-major for rank 1"),
            "{e}"
        );
    }

    #[test]
    fn a_rank_without_room_waits_for_nobodys_order_and_of_overlap_it_hears_what_to_do() {
        let mut s = begun(&[0.0; 2]);
        put(&mut s, 1, ([0, 0], [4, 1]), Order::C, "").unwrap();
        assert_eq!(told(s.early(1, 0, |_| false).unwrap().0), "1(0, 0)C");
        assert_eq!(put(&mut s, 1, ([0, 1], [4, 1]), Order::C, "").unwrap(), "1(0, 1)C");
        let mut s = begun(&[0.0; 2]);
        let place = Place::Over { offset: sh(&[0]), global: sh(&[4]), rule: Overlap::Last };
        let meta = ArrayMeta::new(DType::U8, sh(&[4]));
        let block = HeldBlock { segment: 0, index: 0, generation: 1, bytes: 4 };
        let payload = Payload::Block(block);
        let b = StepBlock { step: 1, name: "E", units: "", meta, place, part: 0, payload };
        assert!(s.block(1, &b, Bytes::Block(block), (1, 1)).unwrap().is_empty());
        let e = s.early(1, 3, |_| false).unwrap_err();
        assert!(e.code() == Code::Full && e.text().contains("rank 1 puts \"E\" with overlap"), "{e}");
    }

    #[test]
    fn where_ranks_differ_in_time_or_unit_the_lowest_one_has_its_way_and_it_is_told() {
        let halves = [([0, 0], [2, 4]), ([2, 0], [2, 4])];
        for first in [0, 1] {
            let mut s = begun(&[0.1, 0.2]);
            for rank in [first, 1 - first] {
                let units = ["degC", "K"][rank as usize];
                put(&mut s, rank, halves[rank as usize], Order::C, units).unwrap();
            }
            assert_eq!((s.time(), s.settled_units()["E"].as_str()), (Some(0.1), "degC"));
            let texts: Vec<String> = s.unlike().iter().map(|e| e.text().to_owned()).collect();
            assert!(texts[0].contains("time 0.2 of rank 1 is not that of rank 0, 0.1"), "{texts:?}");
            assert!(
                texts[1].contains("unit \"K\" of \"E\" of rank 1 is not that of rank 0, \"degC\""),
                "{texts:?}"
            );
            // One may say it alone.
            let mut s = begun(&[f64::NAN, 0.2]);
            for rank in [first, 1 - first] {
                put(&mut s, rank, halves[rank as usize], Order::C, ["", "K"][rank as usize]).unwrap();
            }
            assert_eq!((s.time(), s.settled_units()["E"].as_str()), (Some(0.2), "K"));
            assert!(s.unlike().is_empty());
        }
    }
}
