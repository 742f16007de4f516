//! Boxes of indices that lie over each other: what is left of one without others. Pure.

use forebay_types::{Error, Result, limits};

/// A box of indices, from its first one up to the one behind its last along each axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexBox {
    rank: usize,
    begin: [u64; limits::RANK],
    end: [u64; limits::RANK],
}

impl IndexBox {
    /// The box of these extents at an index.
    pub fn new(offset: &[u64], extents: &[u64]) -> Result<IndexBox> {
        let rank = offset.len();
        if rank != extents.len() || rank > limits::RANK {
            return Err(Error::bad(format!("extents {extents:?} at {offset:?} are no box of indices")));
        }
        let (mut begin, mut end) = ([0; limits::RANK], [0; limits::RANK]);
        for axis in 0..rank {
            begin[axis] = offset[axis];
            end[axis] = offset[axis].saturating_add(extents[axis]);
        }
        Ok(IndexBox { rank, begin, end })
    }

    /// Index of its first element.
    pub fn offset(&self) -> Vec<u64> {
        self.begin[..self.rank].to_vec()
    }

    /// Its extents.
    pub fn extents(&self) -> Vec<u64> {
        (0..self.rank).map(|axis| self.end[axis] - self.begin[axis]).collect()
    }

    /// Its first index along an axis, and the one behind its last.
    pub fn along(&self, axis: usize) -> (u64, u64) {
        (self.begin[axis], self.end[axis])
    }

    /// Elements in the axes from `axis` on.
    pub fn elements_behind(&self, axis: usize) -> u64 {
        (axis..self.rank).map(|axis| self.end[axis] - self.begin[axis]).product()
    }

    /// Whether it has no element.
    pub fn is_empty(&self) -> bool {
        (0..self.rank).any(|axis| self.begin[axis] == self.end[axis])
    }

    /// Whether two share an element.
    pub fn meets(&self, other: &IndexBox) -> bool {
        let axes = 0..self.rank;
        let mut along = axes.map(|i| self.begin[i] < other.end[i] && other.begin[i] < self.end[i]);
        !self.is_empty() && !other.is_empty() && along.all(|meet| meet)
    }

    /// What is left of it without others: boxes that do not meet.
    pub fn without<'a>(self, others: impl Iterator<Item = &'a IndexBox>) -> Vec<IndexBox> {
        let mut left = vec![self];
        for other in others {
            left = left.into_iter().flat_map(|part| part.without_one(other)).collect();
        }
        left
    }

    /// At most two boxes an axis: what lies before the other one, and what lies behind it.
    fn without_one(mut self, other: &IndexBox) -> Vec<IndexBox> {
        if !self.meets(other) {
            return vec![self];
        }
        let mut left = Vec::new();
        for axis in 0..self.rank {
            if self.begin[axis] < other.begin[axis] {
                let mut before = self;
                before.end[axis] = other.begin[axis];
                self.begin[axis] = other.begin[axis];
                left.push(before);
            }
            if other.end[axis] < self.end[axis] {
                let mut behind = self;
                behind.begin[axis] = other.end[axis];
                self.end[axis] = other.end[axis];
                left.push(behind);
            }
        }
        left
    }
}

/// Of boxes of ranks what is left of each where the highest rank's counts.
pub fn left_to_each(boxes: &[(u32, IndexBox)]) -> Vec<Vec<IndexBox>> {
    let higher = |rank: u32, own: IndexBox| {
        boxes.iter().filter(move |(other, b)| *other > rank && b.meets(&own)).map(|(_, b)| b)
    };
    boxes.iter().map(|(rank, own)| own.without(higher(*rank, *own))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_element_is_left_to_the_highest_rank_that_has_it_and_to_no_other(
            all in proptest::collection::vec(((0u64..4, 0u64..4, 0u64..3), (0u64..4, 0u64..4, 0u64..3)), 0..8)
        ) {
            let boxes: Vec<(u32, IndexBox)> = all
                .iter()
                .enumerate()
                .map(|(rank, ((i, j, k), (a, b, c)))| (rank as u32, IndexBox::new(&[*i, *j, *k], &[*a, *b, *c]).unwrap()))
                .collect();
            let left = left_to_each(&boxes);
            for at in (0..8).flat_map(|i| (0..8).flat_map(move |j| (0..8).map(move |k| [i, j, k]))) {
                let one = IndexBox::new(&at, &[1, 1, 1]).unwrap();
                let owner = boxes.iter().rposition(|(_, b)| b.meets(&one));
                let having: Vec<usize> = left
                    .iter()
                    .enumerate()
                    .flat_map(|(i, parts)| parts.iter().filter(|p| p.meets(&one)).map(move |_| i))
                    .collect();
                prop_assert_eq!(having, owner.into_iter().collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn a_number_is_a_box_and_extents_of_another_rank_are_none() {
        let one = IndexBox::new(&[], &[]).unwrap();
        assert!(one.meets(&one) && one.without([one].iter()).is_empty());
        assert!(IndexBox::new(&[0], &[1, 1]).is_err());
        assert_eq!(IndexBox::new(&[2, 0], &[3, 1]).unwrap().extents(), [3, 1]);
    }
}
