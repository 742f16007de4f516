//! Steps on their way: which ranks began and ended them, which blocks they hold, when they are
//! complete. Records in, parts of files out.

use super::event::{Bytes, Now, Part, Ticket};
use super::named::{ALIKE, APPENDED, AT, Named, OVER, in_order, joined, place_of, words_of};
use super::pending::Pending;
use forebay_types::control::Heads;
use forebay_types::record::{HeldBlock, Place, StepBlock};
use forebay_types::{ArrayMeta, Code, Compression, Description, Error, Name, Order, Result, Shape, SortBy};
use std::collections::{BTreeMap, BTreeSet};

mod sealed;

/// A record whose block is to be copied.
type Copied = (Ticket, HeldBlock);

/// A block that a step holds until its commit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LentBlock {
    pub block: HeldBlock,
    pub released: bool,
}

#[derive(Default)]
struct Rank {
    session: u64,
    /// The session whose memory has its part, or had; that of a part which is in a file has no other one.
    origin: u64,
    /// The record by which it began.
    began: u64,
    blocks: u32,
    ended: bool,
    early: bool,
    time: Option<f64>,
    /// Where a loop may go on, if the number does not say it.
    heads: Option<Heads>,
}

/// A part of an array as its rank gave it.
struct Came {
    rank: u32,
    name: String,
    units: String,
    meta: ArrayMeta,
    place: Place,
    from: u64,
    len: u64,
    bytes: Bytes,
    ticket: Ticket,
    sum: Option<u32>,
}

/// What becomes of the part of a rank that is not to come any more.
pub(super) struct Lost {
    pub ended: bool,
    pub held: Vec<(Ticket, LentBlock)>,
    pub kept: Vec<Ticket>,
    pub pending: Option<(u64, Pending)>,
}

/// A step that is not committed.
pub(crate) struct Step {
    pub step: i64,
    pub size: u32,
    /// Everything is sent to the drain, its end too.
    pub finishing: bool,
    /// Its file is durable under its name, and waits for its row.
    pub sealed: bool,
    /// When the last rank ended it.
    pub ended_at: Option<Now>,
    pub held: BTreeMap<Ticket, LentBlock>,
    /// Records whose bytes the driver keeps for it.
    pub kept: Vec<Ticket>,
    /// What is pending of it in the catalog, by session.
    pub pending: BTreeMap<u64, Pending>,
    /// The records by which ranks ended it.
    pub ends: BTreeSet<Ticket>,
    /// Ranks whose part is in the memory of another host, and the sessions that it is of.
    pub missing: BTreeMap<u32, u64>,
    /// Ranks that have ended a later one, that one, and have not begun this one.
    pub passed: BTreeMap<u32, i64>,
    /// How often the run had gone back when it was begun.
    pub times_back: u64,
    /// Why it is to be kept without them, if so.
    pub sealing: Option<Error>,
    /// It goes on with what is in the file of a step that lacked ranks.
    pub lacked: bool,
    /// Nothing of it is written until it is whole, or is kept as it is.
    pub held_back: bool,
    /// Elements of its arrays that nobody put, and that have a value all the same.
    pub filled: u64,
    /// What ranks say of its arrays.
    pub(super) said: BTreeMap<String, BTreeMap<u32, Description>>,
    /// Arrays that are to be compressed.
    compress: BTreeMap<String, Compression>,
    /// Arrays of particles that are to lie in an order, as each rank says.
    sort: BTreeMap<String, BTreeMap<u32, SortBy>>,
    /// Where ranks that are to say the same do not; the step is kept all the same.
    pub(super) disputes: Vec<Error>,
    came: Vec<Came>,
    ranks: BTreeMap<u32, Rank>,
    pub(super) names: BTreeMap<String, Named>,
}

impl Step {
    pub fn new(step: i64, size: u32) -> Step {
        Step {
            step,
            size,
            finishing: false,
            sealed: false,
            ended_at: None,
            held: BTreeMap::new(),
            kept: Vec::new(),
            pending: BTreeMap::new(),
            ends: BTreeSet::new(),
            missing: BTreeMap::new(),
            passed: BTreeMap::new(),
            times_back: 0,
            sealing: None,
            lacked: false,
            held_back: false,
            filled: 0,
            said: BTreeMap::new(),
            compress: BTreeMap::new(),
            sort: BTreeMap::new(),
            disputes: Vec::new(),
            came: Vec::new(),
            ranks: BTreeMap::new(),
            names: BTreeMap::new(),
        }
    }

    /// A rank begins it, with a time or NaN.
    pub fn begin(
        &mut self,
        rank: u32,
        (session, began): Ticket,
        origin: u64,
        time: f64,
        heads: Option<Heads>,
    ) -> Result<()> {
        if self.ranks.contains_key(&rank) {
            return Err(Error::new(
                Code::Conflict,
                format!("step {} is written already by rank {rank}; choose another number", self.step),
            ));
        }
        self.missing.remove(&rank);
        self.sealing = None;
        let time = (!time.is_nan()).then_some(time);
        self.ranks.insert(rank, Rank { session, origin, began, time, heads, ..Rank::default() });
        Ok(())
    }

    /// Its time, as the lowest rank says that gives one.
    pub fn time(&self) -> Option<f64> {
        self.ranks.values().find_map(|r| r.time)
    }

    /// Units of arrays whose parts have come with others, or with none.
    pub fn settled_units(&self) -> BTreeMap<String, String> {
        let settled =
            |(name, named): (&String, &Named)| Some((name.clone(), named.settled_units()?.to_owned()));
        self.names.iter().filter_map(settled).collect()
    }

    /// Where ranks give the step another time, or an array another unit, than the lowest one.
    pub(super) fn unlike(&self) -> Vec<Error> {
        let conflict = |what: String| {
            Error::new(Code::Conflict, format!("{what}, which is kept; let all ranks say the same, or one"))
        };
        let mut found = Vec::new();
        let mut timed = self.ranks.iter().filter_map(|(rank, r)| Some((rank, r.time?)));
        if let Some((lowest, kept)) = timed.next()
            && let Some((rank, time)) = timed.find(|(_, time)| *time != kept)
        {
            found.push(conflict(format!(
                "its time {time} of rank {rank} is not that of rank {lowest}, {kept}"
            )));
        }
        for (name, named) in &self.names {
            if let (Some((lowest, kept)), Some((rank, said))) = (&named.units, &named.other_units) {
                found.push(conflict(format!(
                    "the unit {said:?} of {name:?} of rank {rank} is not that of rank {lowest}, {kept:?}"
                )));
            }
        }
        found
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
        let came = Came {
            rank,
            name: b.name.to_owned(),
            units: b.units.to_owned(),
            meta: b.meta,
            place: b.place,
            from: b.part,
            len: b.payload.len(),
            bytes,
            ticket,
            sum: None,
        };
        let laid = self.lay(&came)?;
        let parts = match place_of(came.place) {
            APPENDED | OVER => self.settle()?,
            _ => laid,
        };
        // Nobody is lacking a step of one rank.
        if self.size > 1 {
            self.came.push(came);
        }
        Ok(parts)
    }

    /// A rank says something of an array.
    pub fn describe(&mut self, rank: u32, name: &str, mut said: Description) -> Result<()> {
        let known = self.ranks.get(&rank).filter(|r| !r.ended);
        known.ok_or_else(|| Error::bad(format!("a description in step {} outside of it", self.step)))?;
        let (compress, sort) = (said.compress.take(), said.sort.take());
        let is_before = compress.is_some() || sort.is_some();
        self.compress.extend(compress.map(|how| (name.to_owned(), how)));
        if let Some(sort) = sort {
            self.sort.entry(name.to_owned()).or_default().insert(rank, *sort);
        }
        if is_before && said.is_empty() {
            return Ok(());
        }
        self.said.entry(name.to_owned()).or_default().insert(rank, said);
        Ok(())
    }

    /// A part comes to where it belongs; one that is appended waits there until the sizes of all are known. What can be
    /// written now.
    fn lay(&mut self, b: &Came) -> Result<Vec<Part>> {
        let (rank, place) = (b.rank, place_of(b.place));
        let (whole, over) = (b.place.whole(&b.meta), b.place.overlap());
        let sort = self.sort.get(&b.name).and_then(|by_rank| by_rank.get(&rank)).cloned();
        // What a rank without room puts is written at once: it has the order that is known by then.
        let hurries = self.ranks.get(&rank).is_some_and(|r| r.early);
        if !self.names.contains_key(&b.name) {
            self.check_paths(&b.name)?;
            self.names.insert(b.name.clone(), Named::of(rank, &b.place, whole, sort.clone()));
        }
        let named =
            self.names.get_mut(&b.name).ok_or_else(|| Error::internal("a name just added is gone"))?;
        let same_kind = named.place == place && (place == ALIKE || named.meta.dtype == whole.dtype);
        if place == 0 && named.first != rank {
            return Err(Error::bad(format!(
                "ranks {} and {rank} both put {:?} whole; give each piece its offset and the whole's shape, or append the pieces in the order of ranks",
                named.first, b.name
            )));
        }
        if named.sort != sort {
            return Err(Error::bad(format!(
                "{:?}: ranks {} and {rank} do not say alike in which order the particles are to lie; give the same sort_by in all ranks",
                b.name, named.first
            )));
        }
        if named.over != over {
            return Err(Error::bad(format!(
                "{:?}: ranks {} and {rank} do not say alike whether pieces may lie over each other; give the same overlap in all ranks",
                b.name, named.first
            )));
        }
        if !same_kind || matches!(place, AT | OVER) && named.meta.shape != whole.shape {
            return Err(Error::bad(format!(
                "{:?} is {}{} for rank {} and {whole}{} for rank {rank}; all ranks must agree",
                b.name,
                named.meta,
                words_of(named.place),
                named.first,
                words_of(place)
            )));
        }
        if place != ALIKE && !named.takes_order(rank, &b.meta) {
            let words = |order| if order == Order::F { "column-major" } else { "row-major" };
            return Err(Error::bad(format!(
                "the order of {:?} is {} for rank {} and {} for rank {rank}; all ranks must put an array in one order, so copy it to the other one, or give the strides of that one",
                b.name,
                words(named.meta.order),
                named.order_of,
                words(b.meta.order)
            )));
        }
        if b.from == 0 {
            named.take_units(rank, &b.units);
        }
        let offset = b.place.block().map_or_else(|| beginning(&b.meta.shape), |(offset, _)| Ok(*offset))?;
        if b.place.block().is_some() && b.from == 0 {
            named.pieces.add(&b.name, &whole, rank, offset, b.meta.shape)?;
        }
        let compress = self.compress.get(&b.name).copied();
        let mut part = b.part(b.name.clone(), whole, offset);
        (part.over, part.compress, part.sort) = (over, compress.filter(|_| over.is_none()), sort);
        match b.place {
            Place::Whole => return Ok(vec![part]),
            Place::At { .. } if named.ordered && named.append.waiting.is_empty() => {
                return Ok(vec![in_order(part, named.meta.order)]);
            }
            Place::At { .. } => {
                named.append.waiting.push(part);
                named.ordered |= hurries;
                return Ok(if named.ordered { named.flush() } else { Vec::new() });
            }
            Place::Over { .. } => named.ordered |= hurries,
            Place::Alike { sum } => drop(named.append.alike.insert(rank, (b.meta, sum))),
            Place::Append => {
                if let Some(other) = named.append.locals.insert(rank, b.meta.shape)
                    && other != b.meta.shape
                {
                    return Err(Error::bad(format!("{:?} has two shapes in rank {rank}", b.name)));
                }
                if b.meta.shape.rank() == 0 {
                    return Err(Error::bad(format!("{:?} is a scalar; only arrays can be appended", b.name)));
                }
            }
        }
        named.append.waiting.push(part);
        Ok(Vec::new())
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
        if self.is_complete() {
            parts.extend(self.settle_alike());
            self.names.values_mut().for_each(|named| named.ordered = true);
        }
        parts.extend(self.names.values_mut().filter(|n| n.place == AT && n.ordered).flat_map(Named::flush));
        parts.extend(self.settle_over());
        let appended =
            self.names.iter_mut().filter(|(_, n)| n.place == APPENDED && !n.append.waiting.is_empty());
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
                part.meta = named.meta;
                parts.push(part);
            }
        }
        Ok(parts)
    }

    /// Parts over which those of other ranks may lie, in the order of ranks: so the highest one's counts.
    fn settle_over(&mut self) -> Vec<Part> {
        let ended = |rank: u32| self.ranks.get(&rank).is_some_and(|r| r.ended);
        let first_open = (0..self.size).find(|rank| !ended(*rank)).unwrap_or(self.size);
        let mut parts = Vec::new();
        for named in self.names.values_mut().filter(|n| n.place == OVER && n.ordered) {
            let order = named.meta.order;
            let behind = named.append.waiting.extract_if(.., |part| part.rank <= first_open);
            let mut behind: Vec<Part> = behind.map(|part| in_order(part, order)).collect();
            behind.sort_by_key(|part| part.rank);
            parts.append(&mut behind);
        }
        parts
    }

    /// Parts of data sets that ranks say alike: those of the lowest rank.
    fn settle_alike(&mut self) -> Vec<Part> {
        let mut parts = Vec::new();
        for (name, named) in self.names.iter_mut().filter(|(_, n)| n.place == ALIKE && !n.append.laid) {
            let mut ranks = named.append.alike.iter();
            let Some((lowest, kept)) = ranks.next() else { continue };
            named.append.laid = true;
            named.meta = kept.0;
            self.disputes.extend(ranks.find(|(_, other)| *other != kept).map(|(rank, _)| {
                Error::new(
                    Code::Conflict,
                    format!(
                        "the coordinate {name:?} of rank {rank} is not that of rank {lowest}, which is kept; let all ranks give the whole of it, or one"
                    ),
                )
            }));
            parts.extend(named.append.waiting.drain(..).filter(|part| part.rank == *lowest));
        }
        parts
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
            let mut put = self.names.iter().filter(|(_, n)| matches!(n.place, AT | OVER));
            put.try_for_each(|(name, n)| match self.is_filled(name, n)? {
                true => Ok(()),
                false => n.pieces.complete(name, &n.meta),
            })?;
        }
        self.settle()
    }

    /// A session has no room: what it put and waits for the order of its array is written in the one that is known.
    fn hurry(&mut self, session: u64) -> Vec<Part> {
        let waits = |n: &&mut Named| !n.ordered && n.append.waiting.iter().any(|p| p.ticket.0 == session);
        let placed = self.names.values_mut().filter(|n| matches!(n.place, AT | OVER)).filter(waits);
        let mut parts: Vec<Part> = placed
            .flat_map(|named| {
                named.ordered = true;
                if named.place == AT { named.flush() } else { Vec::new() }
            })
            .collect();
        parts.extend(self.settle_over());
        parts
    }

    /// Whether elements of an array may lack: all ranks that put some of it say alike what stands there then.
    fn is_filled(&self, name: &str, named: &Named) -> Result<bool> {
        let Some(said) = self.said.get(name).filter(|said| said.values().any(|d| d.filled.is_some())) else {
            return Ok(false);
        };
        let fill = |rank: u32| said.get(&rank).and_then(Description::fill_value);
        match named.pieces.ranks().find(|rank| fill(*rank).is_none() || fill(*rank) != fill(named.first)) {
            None => Ok(true),
            Some(rank) => {
                let shown = |rank| fill(rank).map_or("nothing".to_owned(), ToString::to_string);
                let other = if rank == named.first {
                    said.keys().find(|r| fill(**r).is_some()).copied()
                } else {
                    None
                };
                let other = other.unwrap_or(named.first);
                Err(Error::bad(format!(
                    "{name:?}: rank {rank} says {} of elements that nobody puts, and rank {other} {}; give the same fill in all ranks",
                    shown(rank),
                    shown(other)
                )))
            }
        }
    }

    /// A rank has no room: its blocks go as soon as they are written. The blocks of parts that still wait
    /// for their place are copied, up to a limit, but for those whose bytes have not come. What can be written now, and
    /// what is to be copied.
    pub fn early(
        &mut self,
        session: u64,
        limit: u64,
        comes: impl Fn(Ticket) -> bool,
    ) -> Result<(Vec<Part>, Vec<Copied>)> {
        self.ranks.values_mut().filter(|r| r.session == session).for_each(|r| r.early = true);
        let rank = self.ranks.iter().find(|(_, r)| r.session == session).map_or(0, |(rank, _)| *rank);
        let parts = self.hurry(session);
        let mut copied = Vec::new();
        let mut sum = 0;
        for part in self.names.values_mut().flat_map(|n| n.append.waiting.iter_mut()) {
            let Bytes::Block(block) = part.bytes else { continue };
            if part.ticket.0 != session || comes(part.ticket) {
                continue;
            }
            sum += part.len;
            if sum > limit {
                let why = match part.over {
                    Some(_) => format!(
                        "rank {rank} puts {:?} with overlap, which waits until the lower ranks have ended the snapshot, and what waits does not fit the buffer and the {} MiB of the store; open the run with a buffer that holds what a rank puts in a snapshot, or let the lower ranks take it first",
                        part.name,
                        limit >> 20
                    ),
                    None => format!(
                        "{:?} of rank {rank} waits for the other ranks and does not fit the buffers; append in the same order in all ranks, or open the run with a larger buffer",
                        part.name
                    ),
                };
                return Err(Error::new(Code::Full, why));
            }
            part.bytes = Bytes::Kept;
            copied.push((part.ticket, block));
        }
        self.kept.extend(copied.iter().map(|c| c.0));
        Ok((parts, copied))
    }

    /// The part of a session's rank goes: whoever has it may bring it.
    pub fn lose(&mut self, session: u64) -> Option<Lost> {
        let rank = self.ranks.iter().find(|(_, r)| r.session == session).map(|(rank, _)| *rank)?;
        self.said.values_mut().for_each(|said| _ = said.remove(&rank));
        self.said.retain(|_, said| !said.is_empty());
        self.sort.values_mut().for_each(|said| _ = said.remove(&rank));
        let ended = self.ranks.remove(&rank).is_some_and(|r| r.ended);
        self.came.retain(|c| c.rank != rank);
        self.ends.retain(|end| end.0 != session);
        let kept = self.kept.extract_if(.., |ticket| ticket.0 == session).collect();
        let mut held = self.held.split_off(&(session, 0));
        self.held.append(&mut held.split_off(&(session + 1, 0)));
        let held = held.into_iter().collect();
        let pending = self.pending.remove(&session).map(|pending| (session, pending));
        Some(Lost { ended, held, kept, pending })
    }

    /// All that came, laid anew: what was written of it is gone.
    pub fn lay_anew(&mut self) -> Result<Vec<Part>> {
        self.names.clear();
        self.disputes.clear();
        let came = std::mem::take(&mut self.came);
        let laid = came.iter().map(|c| self.lay(c)).collect::<Result<Vec<_>>>();
        self.came = came;
        let mut parts: Vec<Part> = laid?.into_iter().flatten().collect();
        parts.extend(self.settle()?);
        Ok(parts)
    }

    /// Whether all that there is of it is there to be kept: some rank has ended it, in this attempt.
    pub fn has_ended_ranks(&self) -> bool {
        self.ranks.values().any(|r| r.ended && r.session != 0)
    }

    /// Whether some rank has let its blocks go before the commit.
    pub fn has_early(&self) -> bool {
        self.ranks.values().any(|r| r.early)
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

    /// The session whose memory has, or had, the part of a rank that is here.
    pub fn given(&self, rank: u32) -> Option<u64> {
        self.ranks.get(&rank).map(|r| r.origin)
    }

    /// The sessions whose memory has, or had, the parts that are here.
    pub fn origins(&self) -> impl Iterator<Item = u64> {
        self.ranks.values().map(|r| r.origin)
    }

    /// Sessions that take part.
    pub fn sessions(&self) -> Vec<u64> {
        self.ranks.values().map(|r| r.session).collect()
    }
}

impl Came {
    fn part(&self, name: String, meta: ArrayMeta, offset: Shape) -> Part {
        Part {
            name,
            units: self.units.clone(),
            meta,
            rank: self.rank,
            offset,
            local: self.meta.shape,
            from: self.from,
            len: self.len,
            bytes: self.bytes,
            ticket: self.ticket,
            sum: self.sum,
            over: None,
            compress: None,
            sort: None,
        }
    }
}

/// The first index of an array of that shape.
fn beginning(shape: &Shape) -> Result<Shape> {
    Shape::new(&[0; forebay_types::limits::RANK][..shape.rank()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_types::DType;
    use forebay_types::record::{Overlap, Payload};

    fn part<'a>(name: &'a str, n: u64, place: Place, bytes: &'a [u8]) -> StepBlock<'a> {
        let meta = ArrayMeta::new(DType::U8, Shape::new(&[n]).unwrap());
        StepBlock { step: 1, name, units: "", meta, place, part: 0, payload: Payload::Inline(bytes) }
    }

    fn give(s: &mut Step, rank: u32, b: &StepBlock) -> Result<Vec<Part>> {
        s.block(rank, b, Bytes::Kept, (rank as u64, 0))
    }

    #[test]
    fn pieces_that_may_lie_over_each_other_go_in_the_order_of_ranks_and_cover_the_whole() {
        let over = |at: u64, rule| Place::Over {
            offset: Shape::new(&[at]).unwrap(),
            global: Shape::new(&[5]).unwrap(),
            rule,
        };
        let ranks_of = |parts: Vec<Part>| parts.iter().map(|p| p.rank).collect::<Vec<_>>();
        let mut s = Step::new(1, 3);
        for rank in 0..3 {
            s.begin(rank, (rank as u64, 1), 1, f64::NAN, None).unwrap();
        }
        assert!(give(&mut s, 2, &part("x", 2, over(3, Overlap::Last), &[2; 2])).unwrap().is_empty());
        assert!(give(&mut s, 1, &part("x", 3, over(1, Overlap::Last), &[1; 3])).unwrap().is_empty());
        assert!(s.end(2, 1).unwrap().is_empty());
        // Nobody is below the lowest one.
        assert_eq!(ranks_of(give(&mut s, 0, &part("x", 2, over(0, Overlap::Last), &[0; 2])).unwrap()), [0]);
        assert_eq!(ranks_of(s.end(0, 1).unwrap()), [1]);
        assert_eq!(ranks_of(s.end(1, 1).unwrap()), [2]);
        assert_eq!(ranks_of(s.lay_anew().unwrap()), [0, 1, 2]);

        let mut s = Step::new(1, 2);
        for rank in 0..2 {
            s.begin(rank, (rank as u64, 1), 1, f64::NAN, None).unwrap();
        }
        give(&mut s, 0, &part("x", 3, over(0, Overlap::Equal), &[0; 3])).unwrap();
        let e = give(&mut s, 1, &part("x", 3, over(1, Overlap::Last), &[0; 3])).unwrap_err();
        assert!(e.text().contains("ranks 0 and 1 do not say alike"), "{e}");
        give(&mut s, 1, &part("x", 3, over(1, Overlap::Equal), &[0; 3])).unwrap();
        s.end(0, 1).unwrap();
        let e = s.end(1, 2).unwrap_err();
        assert!(e.text().contains("lacks 1 of its 5 elements, the first at (4,)"), "{e}");
    }

    #[test]
    fn appended_pieces_wait_until_every_size_is_known_and_lie_in_rank_order() {
        let mut s = Step::new(1, 3);
        for rank in 0..3 {
            s.begin(rank, (rank as u64, 1), 1, f64::NAN, None).unwrap();
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
        let mut s = Step::new(1, 2);
        s.begin(0, (10, 1), 10, 0.5, None).unwrap();
        s.begin(1, (11, 1), 11, 0.5, None).unwrap();
        assert_eq!(s.begin(0, (12, 1), 12, 0.5, None).unwrap_err().code(), Code::Conflict);
        give(&mut s, 0, &part("E", 3, Place::Whole, &[0; 3])).unwrap();
        assert!(
            give(&mut s, 1, &part("E", 3, Place::Whole, &[0; 3])).err().unwrap().text().contains("both put")
        );
        assert!(give(&mut s, 1, &part("E/x", 3, Place::Whole, &[0; 3])).is_err());
        assert!(give(&mut s, 1, &part("forebay/manifest", 3, Place::Whole, &[0; 3])).is_err());
        assert_eq!(s.end(0, 7).err().unwrap().code(), Code::Corrupt);
    }
}
