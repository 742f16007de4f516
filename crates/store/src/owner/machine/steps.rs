//! Steps on their way: which ranks began and ended them, which blocks they hold, when they are
//! complete. Records in, parts of files out.

use super::event::{Bytes, Now, Part, Ticket};
use super::pending::Pending;
use super::pieces::Pieces;
use forebay_types::control::Heads;
use forebay_types::record::{HeldBlock, Place, StepBlock};
use forebay_types::{ArrayMeta, Code, Error, Name, Result, Shape};
use std::collections::{BTreeMap, BTreeSet};

/// A block that a step holds until its commit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    pub block: HeldBlock,
    pub released: bool,
}

#[derive(Default)]
struct Rank {
    session: u64,
    /// The record by which it began.
    began: u64,
    blocks: u32,
    ended: bool,
    early: bool,
    /// Where a loop may go on, if the number does not say it.
    heads: Option<Heads>,
}

/// A data set that is put together behind one another: places are known when all sizes are.
#[derive(Default)]
struct Append {
    locals: BTreeMap<u32, Shape>,
    waiting: Vec<Part>,
    laid: bool,
}

struct Named {
    meta: ArrayMeta,
    place: u8,
    first: u32,
    pieces: Pieces,
    append: Append,
}

/// A step that is not committed.
pub(crate) struct Step {
    pub step: i64,
    pub time: Option<f64>,
    pub size: u32,
    /// Everything is sent to the drain, its end too.
    pub finishing: bool,
    /// Its file is durable under its name, and waits for its row.
    pub sealed: bool,
    /// When the last rank ended it.
    pub ended_at: Option<Now>,
    pub held: BTreeMap<Ticket, Held>,
    /// Records whose bytes the driver keeps for it.
    pub kept: Vec<Ticket>,
    /// What is pending of it in the catalog, by session.
    pub pending: BTreeMap<u64, Pending>,
    /// The records by which ranks ended it.
    pub ends: BTreeSet<Ticket>,
    ranks: BTreeMap<u32, Rank>,
    names: BTreeMap<String, Named>,
}

impl Step {
    pub fn new(step: i64, time: f64, size: u32) -> Step {
        Step {
            step,
            time: (!time.is_nan()).then_some(time),
            size,
            finishing: false,
            sealed: false,
            ended_at: None,
            held: BTreeMap::new(),
            kept: Vec::new(),
            pending: BTreeMap::new(),
            ends: BTreeSet::new(),
            ranks: BTreeMap::new(),
            names: BTreeMap::new(),
        }
    }

    /// A rank begins it.
    pub fn begin(&mut self, rank: u32, (session, began): Ticket, heads: Option<Heads>) -> Result<()> {
        if self.ranks.contains_key(&rank) {
            return Err(Error::new(
                Code::Conflict,
                format!("step {} is written already by rank {rank}; choose another number", self.step),
            ));
        }
        self.ranks.insert(rank, Rank { session, began, heads, ..Rank::default() });
        Ok(())
    }

    /// Where a loop may go on from it, as its lowest rank says, if its number does not say it.
    pub fn heads(&self) -> Option<Heads> {
        self.ranks.values().next().and_then(|r| r.heads)
    }

    /// Whether this session takes part.
    pub fn has(&self, session: u64) -> bool {
        self.ranks.values().any(|r| r.session == session)
    }

    /// Whether this session takes part and has not ended it.
    pub fn is_open_in(&self, session: u64) -> bool {
        self.ranks.values().any(|r| r.session == session && !r.ended)
    }

    /// Whether this session lets its blocks go before the commit.
    pub fn is_early(&self, session: u64) -> bool {
        self.ranks.values().any(|r| r.session == session && r.early)
    }

    /// A block came: what can be written now.
    pub fn block(&mut self, rank: u32, b: &StepBlock, bytes: Bytes, ticket: Ticket) -> Result<Vec<Part>> {
        Name::new(b.name)?;
        let known = self.ranks.get_mut(&rank).filter(|r| !r.ended);
        let known =
            known.ok_or_else(|| Error::bad(format!("a block of step {} outside of it", self.step)))?;
        known.blocks += 1;
        let place = match b.place {
            Place::Whole => 0,
            Place::At { .. } => 1,
            Place::Append => 2,
        };
        let whole = match b.place {
            Place::At { global, .. } => ArrayMeta { shape: global, ..b.meta },
            _ => b.meta,
        };
        if !self.names.contains_key(b.name) {
            self.check_paths(b.name)?;
            let (pieces, append) = (Pieces::default(), Append::default());
            let named = Named { meta: whole, place, first: rank, pieces, append };
            self.names.insert(b.name.to_owned(), named);
        }
        let named = self.names.get_mut(b.name).ok_or_else(|| Error::internal("a name just added is gone"))?;
        let same_kind =
            named.place == place && named.meta.dtype == whole.dtype && named.meta.order == whole.order;
        if place == 0 && named.first != rank {
            return Err(Error::bad(format!(
                "ranks {} and {rank} both put {:?} whole; give each piece its offset and the whole's shape, or append the pieces in the order of ranks",
                named.first, b.name
            )));
        }
        if !same_kind || place == 1 && named.meta.shape != whole.shape {
            return Err(Error::bad(format!(
                "{:?} is {} for rank {} and {whole} for rank {rank}; all ranks must agree",
                b.name, named.meta, named.first
            )));
        }
        let offset = match b.place {
            Place::At { offset, .. } => offset,
            _ => Shape::new(&[0; forebay_types::limits::RANK][..b.meta.shape.rank()])?,
        };
        if place == 1 && b.part == 0 {
            named.pieces.add(b.name, &whole, rank, offset, b.meta.shape)?;
        }
        let part = Part {
            name: b.name.to_owned(),
            unit: b.unit.to_owned(),
            meta: whole,
            rank,
            offset,
            local: b.meta.shape,
            from: b.part,
            len: b.payload.len(),
            bytes,
            ticket,
        };
        if place != 2 {
            return Ok(vec![part]);
        }
        if let Some(other) = named.append.locals.insert(rank, b.meta.shape)
            && other != b.meta.shape
        {
            return Err(Error::bad(format!("{:?} has two shapes in rank {rank}", b.name)));
        }
        if b.meta.shape.rank() == 0 {
            return Err(Error::bad(format!("{:?} is a scalar; only arrays can be appended", b.name)));
        }
        named.append.waiting.push(part);
        self.settle()
    }

    /// A data set cannot be a folder of another one.
    fn check_paths(&self, name: &str) -> Result<()> {
        let under = |a: &str, b: &str| a.len() > b.len() && a.starts_with(b) && a.as_bytes()[b.len()] == b'/';
        let clash = self.names.keys().find(|other| under(name, other) || under(other, name));
        match clash {
            Some(other) => {
                Err(Error::bad(format!("{name:?} and {other:?} cannot both be in one step; rename one")))
            }
            None if name == "forebay" || name.starts_with("forebay/") => Err(Error::bad(format!(
                "{name:?} is a name that Forebay keeps for itself; choose another one"
            ))),
            None => Ok(()),
        }
    }

    /// Parts of appended data sets whose places have become known.
    fn settle(&mut self) -> Result<Vec<Part>> {
        let everybody = self.ranks.len() == self.size as usize;
        let mut parts = Vec::new();
        let appended = self.names.iter_mut().filter(|(_, n)| n.place == 2 && !n.append.waiting.is_empty());
        for (name, named) in appended {
            let known = |rank: &u32, r: &Rank| r.ended || named.append.locals.contains_key(rank);
            if !everybody || !self.ranks.iter().all(|(rank, r)| known(rank, r)) {
                continue;
            }
            named.meta.shape = joined(name, &named.append.locals)?;
            named.append.laid = true;
            for mut part in named.append.waiting.drain(..) {
                let mut offset = part.offset.extents().to_vec();
                offset[0] = named.append.locals.range(..part.rank).map(|(_, s)| s.extents()[0]).sum();
                part.offset = Shape::new(&offset)?;
                part.meta.shape = named.meta.shape;
                parts.push(part);
            }
        }
        Ok(parts)
    }

    /// A rank ended it: what can be written now.
    pub fn end(&mut self, rank: u32, blocks: u32) -> Result<Vec<Part>> {
        let known = self.ranks.get_mut(&rank).filter(|r| !r.ended);
        let known = known.ok_or_else(|| {
            Error::bad(format!("step {} ends in rank {rank} without a beginning", self.step))
        })?;
        if known.blocks != blocks {
            return Err(Error::new(
                Code::Corrupt,
                format!("step {} of rank {rank} has {} of its {blocks} blocks", self.step, known.blocks),
            ));
        }
        known.ended = true;
        if self.is_complete() {
            let mut put = self.names.iter().filter(|(_, n)| n.place == 1);
            put.try_for_each(|(name, n)| n.pieces.complete(name, &n.meta))?;
        }
        self.settle()
    }

    /// A rank has no room: its blocks go as soon as they are written. The blocks of parts that still wait
    /// for their place are copied, up to a limit, but for those whose bytes have not come.
    pub fn early(
        &mut self,
        session: u64,
        limit: u64,
        comes: impl Fn(Ticket) -> bool,
    ) -> Result<Vec<(Ticket, HeldBlock)>> {
        self.ranks.values_mut().filter(|r| r.session == session).for_each(|r| r.early = true);
        let mut copied = Vec::new();
        let mut sum = 0;
        for part in self.names.values_mut().flat_map(|n| n.append.waiting.iter_mut()) {
            let Bytes::Block(block) = part.bytes else { continue };
            if part.ticket.0 != session || comes(part.ticket) {
                continue;
            }
            sum += part.len;
            if sum > limit {
                return Err(Error::new(
                    Code::Full,
                    format!(
                        "step {}: {:?} waits for the other ranks and does not fit the buffers; append in the same order in all ranks, or open the run with a larger buffer",
                        self.step, part.name
                    ),
                ));
            }
            part.bytes = Bytes::Kept;
            copied.push((part.ticket, block));
        }
        self.kept.extend(copied.iter().map(|c| c.0));
        Ok(copied)
    }

    /// Whether a record of it must stay in its ring. Of an early step blocks go as they are written; its end
    /// stays, for a successor that found nothing of it would let the other ranks wait for ever.
    pub fn keeps(&self, ticket: Ticket) -> bool {
        let gone = || self.held.get(&ticket).is_none_or(|h| h.released);
        self.has(ticket.0) && !(self.is_early(ticket.0) && gone() && !self.ends.contains(&ticket))
    }

    /// Whether all ranks have ended it.
    pub fn is_complete(&self) -> bool {
        self.ranks.len() == self.size as usize && self.ranks.values().all(|r| r.ended)
    }

    /// Whether some rank has ended it and waits for the others.
    pub fn is_awaited(&self) -> bool {
        !self.finishing && self.ranks.values().any(|r| r.ended)
    }

    /// Ranks that have not ended it.
    pub fn lacking(&self) -> impl Iterator<Item = u32> {
        (0..self.size).filter(|rank| !self.ranks.get(rank).is_some_and(|r| r.ended))
    }

    /// Ranks that have begun it, and by which record of which session.
    pub fn begun(&self) -> (BTreeSet<u32>, BTreeMap<u64, u64>) {
        (self.ranks.keys().copied().collect(), self.ranks.values().map(|r| (r.session, r.began)).collect())
    }

    /// The session through which a rank takes part.
    pub fn session_of(&self, rank: u32) -> Option<u64> {
        self.ranks.get(&rank).map(|r| r.session)
    }

    /// Sessions that take part.
    pub fn sessions(&self) -> Vec<u64> {
        self.ranks.values().map(|r| r.session).collect()
    }
}

/// The shape of pieces behind one another along axis 0.
fn joined(name: &str, locals: &BTreeMap<u32, Shape>) -> Result<Shape> {
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
    use super::*;
    use forebay_types::DType;
    use forebay_types::record::Payload;

    fn part<'a>(name: &'a str, n: u64, place: Place, bytes: &'a [u8]) -> StepBlock<'a> {
        let meta = ArrayMeta::new(DType::U8, Shape::new(&[n]).unwrap());
        StepBlock { step: 1, name, unit: "", meta, place, part: 0, payload: Payload::Inline(bytes) }
    }

    fn give(s: &mut Step, rank: u32, b: &StepBlock) -> Result<Vec<Part>> {
        s.block(rank, b, Bytes::Kept, (rank as u64, 0))
    }

    #[test]
    fn appended_pieces_wait_until_every_size_is_known_and_lie_in_rank_order() {
        let mut s = Step::new(1, f64::NAN, 3);
        for rank in 0..3 {
            s.begin(rank, (rank as u64, 1), None).unwrap();
        }
        assert!(give(&mut s, 2, &part("x", 4, Place::Append, &[0; 4])).unwrap().is_empty());
        assert!(give(&mut s, 0, &part("x", 2, Place::Append, &[0; 2])).unwrap().is_empty());
        let places: Vec<_> = s
            .end(1, 0)
            .unwrap()
            .iter()
            .map(|p| (p.rank, p.offset.extents()[0], p.meta.shape.extents()[0]))
            .collect();
        assert_eq!(places, [(2, 2, 6), (0, 0, 6)]);
        s.end(0, 1).unwrap();
        assert!(!s.is_complete());
        s.end(2, 1).unwrap();
        assert!(s.is_complete());
    }

    #[test]
    fn ranks_that_do_not_agree_are_told_so() {
        let mut s = Step::new(1, 0.5, 2);
        s.begin(0, (10, 1), None).unwrap();
        s.begin(1, (11, 1), None).unwrap();
        assert_eq!(s.begin(0, (12, 1), None).unwrap_err().code(), Code::Conflict);
        give(&mut s, 0, &part("E", 3, Place::Whole, &[0; 3])).unwrap();
        assert!(
            give(&mut s, 1, &part("E", 3, Place::Whole, &[0; 3])).err().unwrap().text().contains("both put")
        );
        assert!(give(&mut s, 1, &part("E/x", 3, Place::Whole, &[0; 3])).is_err());
        assert!(give(&mut s, 1, &part("forebay/manifest", 3, Place::Whole, &[0; 3])).is_err());
        assert_eq!(s.end(0, 7).err().unwrap().code(), Code::Corrupt);
    }
}
