//! The pieces that ranks put of one array: whether two lie over each other, whether all of it was
//! put. Pure: boxes of indices, no bytes.

use crate::stepfile::{IndexBox, left_to_each};
use forebay_types::{ArrayMeta, Error, Result, Shape, limits};

/// Most pieces that an error lists.
const LISTED: usize = 8;

/// A rank's piece.
#[derive(Clone, Copy)]
struct Region {
    rank: u32,
    at: IndexBox,
}

/// What a rank put where, for people.
fn text(at: &IndexBox) -> String {
    let shape = |extents: Vec<u64>| Shape::new(&extents).unwrap_or_default();
    format!("{} at {}", shape(at.extents()), shape(at.offset()))
}

/// All pieces of one array that have come.
#[derive(Default)]
pub(crate) struct Pieces {
    all: Vec<Region>,
    /// Those of several ranks may lie over each other.
    over: bool,
}

impl Pieces {
    /// None yet, of an array whose pieces may lie over each other or not.
    pub fn of(over: bool) -> Pieces {
        Pieces { all: Vec::new(), over }
    }

    /// A piece begins; refused when it leaves the whole or lies over another one, of its own rank where those of several may.
    pub fn add(
        &mut self,
        name: &str,
        whole: &ArrayMeta,
        rank: u32,
        offset: Shape,
        local: Shape,
    ) -> Result<()> {
        let extents = whole.shape.extents();
        let fits = local.rank() == extents.len()
            && offset.rank() == extents.len()
            && (0..extents.len())
                .all(|i| offset.extents()[i].saturating_add(local.extents()[i]) <= extents[i]);
        if !fits {
            return Err(Error::bad(format!(
                "{name:?}: the piece of rank {rank}, {local} at {offset}, leaves the whole of shape {}",
                whole.shape
            )));
        }
        let at = IndexBox::new(offset.extents(), local.extents())?;
        let forbidden = |p: &&Region| p.at.meets(&at) && (!self.over || p.rank == rank);
        if let Some(other) = self.all.iter().find(forbidden) {
            let way = match self.over {
                true => "no rank puts an element twice, so give each of its pieces its own offset",
                false => {
                    "every element is put once, so give each piece its own offset, or say with overlap which one counts"
                }
            };
            return Err(Error::bad(format!(
                "{name:?}: the piece of rank {rank}, {}, lies over that of rank {}, {}; {way}",
                text(&at),
                other.rank,
                text(&other.at)
            )));
        }
        self.all.push(Region { rank, at });
        Ok(())
    }

    /// All ranks are done: every element must have been put.
    pub fn complete(&self, name: &str, whole: &ArrayMeta) -> Result<()> {
        let missing = self.missing(whole);
        if missing == 0 {
            return Ok(());
        }
        let pieces: Vec<String> =
            self.all.iter().take(LISTED).map(|p| format!("rank {} put {}", p.rank, text(&p.at))).collect();
        let more = match self.all.len().saturating_sub(LISTED) {
            0 => String::new(),
            n => format!(" and {n} more pieces"),
        };
        Err(Error::bad(format!(
            "{name:?} of shape {} lacks {missing} of its {} elements, the first at {}: {}{more}; the pieces of all ranks must cover the whole, or say with fill= what stands elsewhere",
            whole.shape,
            whole.shape.len(),
            first_gap(self.apart(), &whole.shape),
            pieces.join(", ")
        )))
    }

    /// How many elements of the whole nobody put.
    pub fn missing(&self, whole: &ArrayMeta) -> u64 {
        let put: u64 = self.apart().iter().map(|at| at.elements_behind(0)).sum();
        whole.shape.len().saturating_sub(put)
    }

    /// Who put them.
    pub fn ranks(&self) -> impl Iterator<Item = u32> {
        self.all.iter().map(|p| p.rank)
    }

    /// Where they lie, without what lies over each other.
    fn apart(&self) -> Vec<IndexBox> {
        let boxes: Vec<(u32, IndexBox)> = self.all.iter().map(|p| (p.rank, p.at)).collect();
        match self.over {
            false => boxes.into_iter().map(|(_, at)| at).collect(),
            true => left_to_each(&boxes).into_iter().flatten().collect(),
        }
    }
}

/// The first element that nobody put, in an array that lacks some; pieces do not lie over each other.
fn first_gap(mut here: Vec<IndexBox>, whole: &Shape) -> Shape {
    let extents = whole.extents();
    let mut index = [0; limits::RANK];
    here.retain(|p| !p.is_empty());
    for axis in 0..extents.len() {
        // Between two edges of pieces every layer is covered alike; go into the first one that
        // is not covered fully.
        let mut edges: Vec<u64> = here.iter().flat_map(|p| <[u64; 2]>::from(p.along(axis))).collect();
        edges.push(0);
        edges.retain(|e| *e < extents[axis]);
        edges.sort_unstable();
        edges.dedup();
        let full: u64 = extents[axis + 1..].iter().product();
        let covers = |p: &IndexBox, at: u64| (p.along(axis).0..p.along(axis).1).contains(&at);
        let covered = |at: u64| -> u64 {
            here.iter().filter(|p| covers(p, at)).map(|p| p.elements_behind(axis + 1)).sum()
        };
        let at = edges.into_iter().find(|at| covered(*at) < full).unwrap_or(0);
        index[axis] = at;
        here.retain(|p| covers(p, at));
    }
    Shape::new(&index[..extents.len()]).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_types::DType;
    use proptest::prelude::*;

    fn sh(v: &[u64]) -> Shape {
        Shape::new(v).unwrap()
    }

    fn whole(v: &[u64]) -> ArrayMeta {
        ArrayMeta::new(DType::F64, sh(v))
    }

    #[test]
    fn pieces_over_each_other_name_ranks_and_offsets() {
        let (mut p, w) = (Pieces::default(), whole(&[8, 4]));
        p.add("E", &w, 0, sh(&[0, 0]), sh(&[4, 4])).unwrap();
        p.add("E", &w, 2, sh(&[3, 2]), sh(&[0, 2])).unwrap();
        let e = p.add("E", &w, 1, sh(&[3, 0]), sh(&[5, 4])).unwrap_err();
        for word in ["\"E\"", "rank 1, (5, 4) at (3, 0)", "rank 0, (4, 4) at (0, 0)"] {
            assert!(e.text().contains(word), "{e}");
        }
        assert!(p.add("E", &w, 1, sh(&[5, 0]), sh(&[4, 4])).unwrap_err().text().contains("leaves the whole"));
    }

    #[test]
    fn what_nobody_put_is_named_with_what_was() {
        let (mut p, w) = (Pieces::default(), whole(&[8, 4]));
        p.add("E", &w, 0, sh(&[0, 0]), sh(&[4, 4])).unwrap();
        p.add("E", &w, 1, sh(&[4, 0]), sh(&[4, 3])).unwrap();
        let e = p.complete("E", &w).unwrap_err();
        for word in ["lacks 4 of its 32 elements, the first at (4, 3)", "rank 1 put (4, 3) at (4, 0)"] {
            assert!(e.text().contains(word), "{e}");
        }
        p.add("E", &w, 2, sh(&[4, 3]), sh(&[4, 1])).unwrap();
        p.complete("E", &w).unwrap();
        assert!(Pieces::default().complete("n", &whole(&[0, 3])).is_ok());
        assert!(Pieces::default().complete("n", &whole(&[2])).unwrap_err().text().contains("first at (0,)"));
    }

    proptest! {
        #[test]
        fn the_first_gap_is_the_first_element_that_no_piece_has(
            boxes in proptest::collection::vec(((0u64..4, 0u64..4, 0u64..3), (0u64..4, 0u64..4, 0u64..3)), 0..12)
        ) {
            let (mut p, w) = (Pieces::default(), whole(&[4, 4, 3]));
            let mut put = [[[false; 3]; 4]; 4];
            for (rank, ((i, j, k), (a, b, c))) in boxes.into_iter().enumerate() {
                if p.add("x", &w, rank as u32, sh(&[i, j, k]), sh(&[a, b, c])).is_err() {
                    continue;
                }
                for (x, y, z) in (i..i + a).flat_map(|x| (j..j + b).flat_map(move |y| (k..k + c).map(move |z| (x, y, z)))) {
                    let cell = &mut put[x as usize][y as usize][z as usize];
                    prop_assert!(!*cell, "an overlap was let through");
                    *cell = true;
                }
            }
            let cells = (0..4).flat_map(|x| (0..4).flat_map(move |y| (0..3).map(move |z| (x, y, z))));
            let gap = cells.into_iter().find(|(x, y, z)| !put[*x][*y][*z]);
            match gap {
                None => prop_assert!(p.complete("x", &w).is_ok()),
                Some((x, y, z)) => {
                    let text = p.complete("x", &w).unwrap_err().text().to_owned();
                    let first = format!("the first at ({x}, {y}, {z})");
                    prop_assert!(text.contains(&first), "{} in {}", first, text);
                }
            }
        }
    }
}
