//! A step as the file of one that lacks ranks has it: each piece of each rank lies there for itself.

use super::{Came, Rank, Step, beginning};
use crate::owner::machine::event::{Bytes, Part};
use crate::stepfile::{Given, Manifest, Partial, Placed, Within};
use forebay_types::record::Place;
use forebay_types::{Code, Error, Result, Shape};
use std::collections::BTreeMap;

/// What is read back of a file at once.
const READ_BACK: u64 = 4 << 20;

impl Step {
    /// What is here of it, each part for itself.
    pub fn sealed_parts(&self) -> Result<Vec<Part>> {
        let part = |(piece, c): (u32, &Came)| {
            Ok(c.part(Partial::name_of(c.rank, piece, &c.name), c.meta, beginning(&c.meta.shape)?))
        };
        self.pieces().map(part).collect()
    }

    /// All that came, each with the number of its piece among those of its rank and name. A rank puts one piece
    /// after the other.
    fn pieces(&self) -> impl Iterator<Item = (u32, &Came)> {
        let mut pieces: BTreeMap<(u32, &str), u32> = BTreeMap::new();
        self.came.iter().map(move |c| {
            let next = pieces.entry((c.rank, &c.name)).or_default();
            *next += u32::from(c.from == 0);
            (next.saturating_sub(1), c)
        })
    }

    /// What the file of these parts says of them.
    pub fn partial(&self) -> Partial {
        let given =
            |(rank, r): (&u32, &Rank)| (*rank, Given { session: r.origin, began: r.began, heads: r.heads });
        let firsts = self.pieces().filter(|(_, c)| c.from == 0);
        let placed = |(piece, c): (u32, &Came)| {
            let place = match c.place {
                Place::Whole => Within::Whole,
                Place::Append => Within::Append,
                Place::Alike { .. } => Within::Alike,
                Place::At { offset, global } => {
                    Within::At { offset: offset.extents().to_vec(), whole: global.extents().to_vec() }
                }
                Place::Over { offset, global, rule } => {
                    Within::Over { offset: offset.extents().to_vec(), whole: global.extents().to_vec(), rule }
                }
            };
            Placed { rank: c.rank, name: c.name.clone(), piece, place }
        };
        Partial {
            size: self.size,
            missing: self.missing.clone(),
            given: self.ranks.iter().map(given).collect(),
            places: firsts.map(placed).collect(),
            said: self.said.clone(),
            compress: self.compress.clone(),
            sort: self.sort.clone(),
        }
    }

    /// A step that lacked ranks goes on: what is in its file is there as if its ranks had just ended it.
    pub fn of_partial(m: &Manifest) -> Result<Step> {
        let broken = || Error::new(Code::Corrupt, format!("what is kept of step {} is not whole", m.step));
        let partial = m.partial.as_deref().ok_or_else(broken)?;
        let mut step = Step::new(m.step, partial.size);
        (step.lacked, step.held_back) = (true, true);
        step.missing.clone_from(&partial.missing);
        step.said.clone_from(&partial.said);
        step.compress.clone_from(&partial.compress);
        step.sort.clone_from(&partial.sort);
        for (rank, g) in &partial.given {
            let (origin, began, heads, time) = (g.session, g.began, g.heads, m.time);
            let rank_of = Rank { origin, began, heads, time, ended: true, ..Rank::default() };
            step.ranks.insert(*rank, rank_of);
        }
        let mut number = 0;
        for Placed { rank, name, piece, place } in &partial.places {
            let full = Partial::name_of(*rank, *piece, name);
            let entry = m.data.iter().find(|e| e.name == full).ok_or_else(broken)?;
            let sum = entry.pieces.first().map(|p| p.crc32c);
            let place = match place {
                Within::Whole => Place::Whole,
                Within::Append => Place::Append,
                Within::Alike => Place::Alike { sum: sum.unwrap_or(0) },
                Within::At { offset, whole } => {
                    Place::At { offset: Shape::new(offset)?, global: Shape::new(whole)? }
                }
                Within::Over { offset, whole, rule } => {
                    Place::Over { offset: Shape::new(offset)?, global: Shape::new(whole)?, rule: *rule }
                }
            };
            let bytes = entry.nbytes();
            let mut from = 0;
            loop {
                let len = (bytes - from).min(READ_BACK);
                number += 1;
                step.came.push(Came {
                    rank: *rank,
                    name: name.clone(),
                    units: entry.units.clone(),
                    meta: entry.meta,
                    place,
                    from,
                    len,
                    bytes: Bytes::Sealed(entry.offset + from),
                    ticket: (0, number),
                    sum: sum.filter(|_| from + len == bytes),
                });
                from += len;
                if from == bytes {
                    break;
                }
            }
        }
        step.lay_anew()?;
        Ok(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stepfile::{Entry, Piece};
    use forebay_types::record::{HeldBlock, Payload, StepBlock};
    use forebay_types::{ArrayMeta, DType, Description, SortBy};

    #[test]
    fn particles_of_a_step_that_lacked_a_rank_are_put_in_order_when_that_comes() {
        let by = SortBy { species: "e".into(), record: "id".into() };
        let meta = ArrayMeta::new(DType::U8, Shape::new(&[3]).unwrap());
        let block = HeldBlock { segment: 0, index: 0, generation: 1, bytes: 3 };
        let payload = Payload::Block(block);
        let put = |s: &mut Step, rank: u32| {
            let ticket = (u64::from(rank) + 1, 1);
            s.begin(rank, ticket, 1, f64::NAN, None).unwrap();
            let said = Description { sort: Some(Box::new(by.clone())), ..Description::default() };
            s.describe(rank, "e/id", said).unwrap();
            let place = Place::Append;
            let b = StepBlock { step: 7, name: "e/id", units: "", meta, place, part: 0, payload };
            let mut parts = s.block(rank, &b, Bytes::Block(block), ticket).unwrap();
            parts.extend(s.end(rank, 1).unwrap());
            parts
        };
        let mut first = Step::new(7, 2);
        assert!(put(&mut first, 0).is_empty());
        let entries = first.sealed_parts().unwrap().into_iter().map(|part| {
            assert!(part.sort.is_none(), "here it lies as it came");
            let piece = Piece { shape: vec![3], offset: vec![0], ..Piece::default() };
            let (name, units, about) = (part.name, String::new(), Description::default());
            Entry { name, meta, units, offset: 512, pieces: vec![piece], about }
        });
        let data = entries.collect();
        let m = Manifest { step: 7, partial: Some(Box::new(first.partial())), data, ..Manifest::default() };
        let m: Manifest = Manifest::from_json(&m.to_json().unwrap()).unwrap();
        let mut whole = Step::of_partial(&m).unwrap();
        let parts = put(&mut whole, 1);
        let found: Vec<_> = parts.iter().map(|p| (p.rank, p.offset.extents()[0], p.sort.as_ref())).collect();
        assert_eq!(found, [(0, 0, Some(&by)), (1, 3, Some(&by))]);
    }
}
